"""The model `consumers` with what is told of copies after each event, for who walks beside nodes."""

from __future__ import annotations

from liftlog.core.consumers.entries import (
    ConsumerDeleted,
    ConsumerEntry,
    Created,
    Delivered,
    Done,
    SaidAgain,
    decode_entry,
    is_consumers,
)
from liftlog.messages import offsets_of
from liftlog_spec.lang import (
    If,
    Implies,
    Or,
    action,
    append,
    function,
    member,
    minimum,
    prefix,
    size,
    when,
    with_member,
)
from liftlog_spec.models.consumers import DurableConsumers
from liftlog_spec.run.stepwise import Stepper

LIMIT, ROOM, RECORDS, ENTRIES, EPOCHS = 3, 3, 12, 72, 12
Line = list[tuple[int, bytes]]
"""A journal from its first entry on: (epoch, entry) of each."""


class ConsumersTold(DurableConsumers):
    """With what is told of copies after each event."""

    Replica, Length, Epoch = DurableConsumers.Replica, DurableConsumers.Length, DurableConsumers.Epoch
    Index, Place = DurableConsumers.Index, DurableConsumers.Place

    @action
    def Copy(s, r: Replica, of: Replica, end: Length, heard: Length):
        """`Fetch` from a leader, up to here."""
        when(r != of, s.reign[of] > 0, end <= size(s.journal[of]), heard <= s.heard[of], heard <= end)
        when(Implies(member(r, s.insync), Or(s.hw <= end, of != s.leader)))
        s.journal[r] = prefix(s.journal[of], end)
        s.heard[r] = heard
        s.reign[r] = 0
        s.following = If(of == s.leader, with_member(s.following, r), s.following)

    @action
    def Hear(s, r: Replica, heard: Length):
        """Of more that is committed, without anything to copy."""
        when(s.heard[r] < heard, heard <= s.hw, heard <= size(s.journal[r]))
        s.heard[r] = heard

    @action
    def Lose(s, r: Replica, end: Length):
        """What was not synced: none of it is committed where that is asked of a copy."""
        when(Implies(member(r, s.insync), s.hw <= end))
        s.journal[r] = prefix(s.journal[r], end)
        s.heard[r] = minimum(s.heard[r], end)
        s.reign[r] = 0

    @action
    def Snapshot(s, c: Index):
        """Also of a consumer to which nothing was delivered, and of one twice."""
        lead = s.leader
        s.served(lead, c)
        pending = function(s.Place, lambda o: If(s.Pending(lead, c, o), s.Times(lead, c, o), 0))
        said = {"position": s.Position(lead, c), "pending": pending, "nth": s.Number(lead, c)}
        s.write(lead, "state", c, **said)

    @action
    def WriteOff(s, r: Replica, c: Index, o: Place):
        """K7. What is gone, also what nobody was given: an ack of it would end it as well."""
        s.served(r, c)
        when(s.Pending(r, c, o), s.Gone(o))
        s.write(r, "done", c, offset=o)

    @action
    def Told(s, epoch: Epoch):
        """`Publish`, by the leader of that epoch."""
        when(size(s.data) < s.Records, epoch <= s.epoch)
        s.data = append(s.data, epoch)


STEPPER = Stepper(
    ConsumersTold(
        Replicas=3,
        Records=RECORDS,
        Entries=ENTRIES,
        Limit=LIMIT,
        Room=ROOM,
        Epochs=EPOCHS,
        **{"Snapshots": 1, "Deletes": 1, "Resets": 1, "Shrinks": 1, "Trims": 1},
    )
)


def entry_of(data: bytes) -> ConsumerEntry | None:
    return decode_entry(data) if is_consumers(data) else None


def weight(data: bytes) -> int:
    """How many entries of the model this is."""
    entry = entry_of(data)
    if isinstance(entry, Delivered):
        return sum(length for _, length, _ in entry.runs)
    if isinstance(entry, Done):
        return len(list(offsets_of(entry.runs)))
    return int(isinstance(entry, Created | ConsumerDeleted | SaidAgain))
