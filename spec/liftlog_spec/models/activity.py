"""Activity: what the metadata group has decided is told in a stream, in order, at least once.

Events follow from the group's commands: each is numbered, and lies in an outbox that is part of the metadata.
The leader of the stream's partition appends what follows to its own log, and a command takes from the outbox
what is committed there. The outbox has room for so many: what has none left goes, the oldest first, and the
next thing in the stream says up to which event some are missing.

- *The partition's leader writes*, as each node has the outbox. Who publishes from elsewhere may come late.
- *Trimmed is what is committed in the stream.* The leader's end may be cut off by the next one.
- *A new leader begins behind what is trimmed*, whatever the one before has appended. So it repeats some.
- *What had no room is told in the stream*, and what is told is as an event: appended, committed, trimmed.

What is modelled: a few events; a leader's log, of which the next leader has what is committed, and perhaps
more; an outbox that may be full before anything of it is stored.

What is abstracted. *Replication*, told as what is committed and what a new leader keeps of the rest. *The
metadata group*: it does not go back. A leader that has applied less of it than others has a shorter outbox,
and trims later.

    trimmed-when-appended      events leave the outbox when they are appended
    goes-on-where-the-last-was a new leader takes it that what the one before has appended is there
    loss-not-told              what had no room is left out without a word
    next-when-it-fits          the leader does not wait for an event's turn
    published-from-elsewhere   a controller publishes, and what one that is gone has sent is stored late
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *

LOSS = 10
"""An entry of this and a number says: up to that event some are missing. There are fewer events."""


class ActivityStream(Model):
    """The outbox, and the stream that its events come to lie in."""

    variant = Setting(
        "right",
        "trimmed-when-appended",
        "goes-on-where-the-last-was",
        "loss-not-told",
        "next-when-it-fits",
        "published-from-elsewhere",
    )
    Events = Constant(3)
    Room = Constant(2)
    Entries = Constant(4)
    Epochs = Constant(2)

    Event = Range(1, Events)
    Number = Range(0, Events)
    Place = Range(0, Entries)
    Entry = Range(1, Events + LOSS)
    Epoch = Range(1, Epochs)

    happened = Var(Number)
    trimmed = Var(Number)
    """Up to here they are in the stream, as the group knows."""
    missed = Var(Number)
    """Up to here they have had no room."""
    epoch = Var(Epoch, init=1)
    log = Var(Seq(Entry, Entries))
    hw = Var(Place)
    appended = Var(Number)
    """Up to here the present leader takes them to be in its log."""
    begins = Var(Set(Place))
    """Where leaders have begun."""

    # -- words ---------------------------------------------------------------------------------------------

    def number_at(s, i):
        """The event that an entry speaks of last."""
        return If(s.log[i] > LOSS, s.log[i] - LOSS, s.log[i])

    def is_told(s, event, end):
        """Whether one of the first entries is this event, or says that it is missing."""
        return Exists(
            indexes(s.log),
            lambda i: And(i < end, Or(s.log[i] == event, s.log[i] >= event + LOSS)),
        )

    # -- the group -----------------------------------------------------------------------------------------

    @action
    def Happen(s):
        when(s.happened < s.Events)
        front = maximum(s.missed, s.trimmed)
        s.missed = If(s.happened + 1 - front > s.Room, front + 1, s.missed)
        s.happened = s.happened + 1

    @action
    def Trim(s):
        """By a leader's word of its log."""
        when(size(s.log) > 0)
        if s.variant == "trimmed-when-appended":
            when(s.appended > s.trimmed)
            s.trimmed = s.appended
        else:
            when(s.hw > 0)
            number = s.number_at(s.hw - 1)
            when(number > s.trimmed)
            s.trimmed = number

    # -- the leader ----------------------------------------------------------------------------------------

    @action
    def Write(s, event: Event):
        when(size(s.log) < s.Entries, event <= s.happened)
        if s.variant == "published-from-elsewhere":
            when(Or(event == s.appended + 1, s.is_told(event, size(s.log))))
        elif s.variant == "next-when-it-fits":
            when(event > s.trimmed, ~s.is_told(event, size(s.log)))
        else:
            when(event == s.appended + 1)
        when(event > s.missed)
        s.log = append(s.log, event)
        s.appended = maximum(s.appended, event)

    @action
    def WriteLoss(s):
        """Some that would come next have had no room."""
        when(size(s.log) < s.Entries, s.missed > s.appended)
        if s.variant != "loss-not-told":
            s.log = append(s.log, s.missed + LOSS)
        s.appended = s.missed

    @action
    def Commit(s):
        when(s.hw < size(s.log))
        s.hw = s.hw + 1

    @action
    def Elect(s, end: Place):
        """Another one leads, which has this much of the log."""
        when(s.epoch < s.Epochs, s.hw <= end, end <= size(s.log))
        s.epoch = s.epoch + 1
        s.log = prefix(s.log, end)
        s.begins = with_member(s.begins, end)
        if s.variant != "goes-on-where-the-last-was":
            s.appended = s.trimmed

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def NoneMissing(s):
        """Before each event that is committed stands the one before it, or that it is missing."""
        return Forall(
            indexes(s.log),
            lambda i: Implies(
                And(i < s.hw, And(s.log[i] < LOSS, s.log[i] > 1)), s.is_told(s.log[i] - 1, i)
            ),
        )

    @invariant
    def TrimmedIsStored(s):
        """What has left the outbox is committed in the stream, or is told there to be missing."""
        return Forall(s.Event, lambda e: Implies(e <= s.trimmed, s.is_told(e, s.hw)))

    @invariant
    def RepeatsBegin(s):
        """What comes again does so where a leader begins, and from there on in order."""
        return Forall(
            indexes(s.log),
            lambda i: Implies(
                And(i > 0, ~member(i, s.begins)), s.number_at(i) > s.number_at(If(i > 0, i - 1, i))
            ),
        )

    @sometimes
    def ANewLeaderRepeats(s):
        return Exists(indexes(s.log), lambda i: And(i > 0, And(i < s.hw, s.log[i] == s.log[0])))

    @sometimes
    def LossIsTold(s):
        return Exists(indexes(s.log), lambda i: And(i < s.hw, s.log[i] > LOSS))
