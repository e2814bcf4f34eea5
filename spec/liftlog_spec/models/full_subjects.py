"""A full subject: so many messages of one are held at most, and new ones are refused; no old ones go.

Who leads counts what is before a message in its own log, committed or not, without what committed entries
of a second log name. A refusal is a read: it rests on messages that are committed, and are there when it is
given.

- It counts *its own log to the end*: what is not committed may become so, and takes room already.
- What is not committed may be cut. Who has no room for that alone is told nothing until it is committed.
- What is gone takes no room; a deletion that is not committed takes nothing away yet: it may be lost.

What is modelled: one subject, deletions, leaders that come and go with what is uncommitted. What is
abstracted: replication of both logs, told as what is committed and what a new leader keeps of the
rest; the subject index and a leader's notes, which together are its log (the model `expectations`).

    counts-committed        what is not committed takes no room
    refused-by-uncommitted  a refusal rests on what is not committed
    counts-removed          a message that is gone takes room
    frees-by-uncommitted    a deletion that is not committed makes room
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *


class FullSubjects(Model):
    """One partition with its two logs, one subject, and who leads it."""

    variant = Setting(
        "right", "counts-committed", "refused-by-uncommitted", "counts-removed", "frees-by-uncommitted"
    )
    Records = Constant(4)
    Entries = Constant(2)
    Limit = Constant(2)
    Epochs = Constant(3)

    Place = Range(0, Records - 1)
    Offset = Range(0, Records)
    Count = Range(0, Entries)
    Epoch = Range(1, Epochs)

    epoch = Var(Epoch, init=1)
    length = Var(Offset)
    """Of the leader's log."""
    hw = Var(Offset)
    journal = Var(Seq(Place, Entries))
    """Which messages are gone, by entries."""
    journal_hw = Var(Count)
    untrue = Var(Bool)
    """Somebody was refused while fewer committed messages were there than may be."""

    # -- words ---------------------------------------------------------------------------------------------

    def there(s, end, entries):
        """How many of the first `end` messages are left by the first entries."""

        def named(place):
            return Exists(indexes(s.journal), lambda i: And(i < entries, s.journal[i] == place))

        return count(s.Place, lambda place: And(place < end, ~named(place)))

    def counted(s):
        """What the leader takes to be there."""
        end = s.hw if s.variant == "counts-committed" else s.length
        entries = s.journal_hw
        if s.variant == "counts-removed":
            entries = 0
        if s.variant == "frees-by-uncommitted":
            entries = size(s.journal)
        return s.there(end, entries)

    # -- messages ------------------------------------------------------------------------------------------

    @action
    def Store(s):
        """A message has come, and there is room."""
        when(s.length < s.Records, s.counted() < s.Limit)
        s.length = s.length + 1

    @action
    def Refuse(s):
        """A message has come, and there is none."""
        when(s.counted() >= s.Limit)
        if s.variant == "counts-removed":
            when(s.hw >= s.Limit)
        elif s.variant != "refused-by-uncommitted":
            when(s.there(s.hw, s.journal_hw) >= s.Limit)
        s.untrue = Or(s.untrue, s.there(s.hw, s.journal_hw) < s.Limit)

    # -- both logs -----------------------------------------------------------------------------------------

    @action
    def Commit(s):
        when(s.hw < s.length)
        s.hw = s.hw + 1

    @action
    def Delete(s, place: Place):
        """Somebody wants a committed message to be gone."""
        when(place < s.hw, size(s.journal) < s.Entries)
        when(~Exists(indexes(s.journal), lambda i: s.journal[i] == place))
        s.journal = append(s.journal, place)

    @action
    def CommitEntry(s):
        when(s.journal_hw < size(s.journal))
        s.journal_hw = s.journal_hw + 1

    @action
    def Elect(s, end: Offset, entries: Count):
        """Another one leads, which has this much of the logs."""
        when(s.epoch < s.Epochs, s.hw <= end, end <= s.length)
        when(s.journal_hw <= entries, entries <= size(s.journal))
        s.epoch = s.epoch + 1
        s.length = end
        s.journal = prefix(s.journal, entries)

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def HoldsNoMore(s):
        """Of what is committed no more is there than may be."""
        return s.there(s.hw, s.journal_hw) <= s.Limit

    @invariant
    def RefusedTruly(s):
        """Nobody is refused for what may be cut, or is gone."""
        return ~s.untrue

    @sometimes
    def WhatIsDeletedMakesRoom(s):
        """More messages were committed than may be there at once."""
        return s.hw > s.Limit

    @sometimes
    def WhatTookRoomIsCut(s):
        """A new leader has room where the one before had none."""
        return And(s.epoch > 1, And(s.length < s.Limit, s.hw == s.length))
