"""A work queue: what its consumer is done with goes, by the very entry that says so.

What is gone is what committed entries of a second log name. A consumer's deliveries and acks are entries too.
So who acks can have the message named in the entry of the ack: then both are committed together, or neither
is, whoever leads; a consumer that is deleted, and one that comes after it, change nothing of that. Nobody
looks for what is to go, and nobody has anything to remember.

What is modelled: the journal, leaders that come and go with what is uncommitted, consumers that are made and
deleted, at most one at a time (of those whose filters match a message there is one), acks, deliveries without
an ack that are given up, and the log's front, which is freed as far as all is gone.

What is abstracted. *Replication*, told as what is committed and what a new leader keeps of the rest. *The
data*: they are committed. *How often a message may be delivered*: it may be given up whenever it is pending.

    goes-at-delivery    the entry of a delivery names the message
    goes-when-given-up  so does the one that says that it was delivered often enough
    freed-by-written    the front of the log is freed as far as entries are written
    apart               the leader names what is acked in an entry of its own, when the ack is committed
    derived             it names what a consumer that is there is done with, whoever led when that was acked
    overlapping         a consumer is made beside one that may be given the same
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *


class WorkQueueMessages(Model):
    """One partition, its journal, and who leads it."""

    variant = Setting(
        "right",
        "goes-at-delivery",
        "goes-when-given-up",
        "freed-by-written",
        "apart",
        "derived",
        "overlapping",
    )
    Records = Constant(2)
    Entries = Constant(7)
    Consumers = Constant(2)
    Epochs = Constant(2)

    Place = Range(0, Records - 1)
    Offset = Range(0, Records)
    Count = Range(0, Entries)
    Number = Range(0, Consumers - 1)
    Epoch = Range(1, Epochs)
    Kind = Enum("made", "deleted", "given", "acked", "given-up", "named")
    Entry = Record(what=Kind, consumer=Number, place=Place, names=Bool)
    """`names`: the message at this place is gone by it. A consumer has its number for ever."""

    epoch = Var(Epoch, init=1)
    journal = Var(Seq(Entry, Entries))
    hw = Var(Count)
    owed = Var(Set(Place))
    """`apart`: what this leader has seen acked, and not named yet."""
    start = Var(Offset)
    """The log's bytes begin here."""

    # -- words ---------------------------------------------------------------------------------------------

    def has(s, what, consumer, place, entries):
        """Whether one of the first entries says this of this consumer and this message."""

        def says(i):
            entry = s.journal[i]
            about = And(entry.what == what, And(entry.consumer == consumer, entry.place == place))
            return And(i < entries, about)

        return Exists(indexes(s.journal), says)

    def tells(s, what, consumer, entries):
        """As `has`, where it is about no message."""
        return s.has(what, consumer, 0, entries)

    def there(s, consumer, entries):
        return And(s.tells("made", consumer, entries), ~s.tells("deleted", consumer, entries))

    def is_gone(s, place, entries):
        names = lambda i: And(i < entries, And(s.journal[i].names, s.journal[i].place == place))  # noqa: E731
        return Exists(indexes(s.journal), names)

    def pending(s, consumer, place, entries):
        over = Or(s.has("acked", consumer, place, entries), s.has("given-up", consumer, place, entries))
        return And(s.has("given", consumer, place, entries), ~over)

    def is_acked(s, place, entries):
        """By any consumer."""
        return Exists(s.Number, lambda c: s.has("acked", c, place, entries))

    def write(s, what, consumer, place=0, names=False):
        when(size(s.journal) < s.Entries)
        told = record(s.Entry, what=what, consumer=consumer, place=place, names=names)
        s.journal = append(s.journal, told)

    # -- who leads -----------------------------------------------------------------------------------------

    @action
    def Commit(s):
        when(s.hw < size(s.journal))
        acked = s.journal[s.hw]
        owes = And(s.variant == "apart", acked.what == "acked")
        s.owed = If(owes, with_member(s.owed, acked.place), s.owed)
        s.hw = s.hw + 1

    @action
    def Elect(s, entries: Count):
        """Another one leads, which has this much of the journal."""
        when(s.epoch < s.Epochs, s.hw <= entries, entries <= size(s.journal))
        s.epoch = s.epoch + 1
        s.journal = prefix(s.journal, entries)
        s.owed = difference(s.owed, s.owed)

    # -- consumers -----------------------------------------------------------------------------------------

    @action
    def Make(s, c: Number):
        """If nothing that is written says that there is another one."""
        end = size(s.journal)
        when(~s.tells("made", c, end))
        if s.variant != "overlapping":
            when(~Exists(s.Number, lambda other: s.there(other, end)))
        s.write("made", c)

    @action
    def Delete(s, c: Number):
        when(s.there(c, size(s.journal)))
        s.write("deleted", c)

    @action
    def Give(s, c: Number, o: Place):
        """What is not gone by what is written, and is not with this consumer already."""
        end = size(s.journal)
        when(s.there(c, end), ~s.is_gone(o, end), ~s.has("given", c, o, end))
        s.write("given", c, o, s.variant == "goes-at-delivery")

    @action
    def Ack(s, c: Number, o: Place):
        end = size(s.journal)
        when(s.there(c, end), s.pending(c, o, end))
        s.write("acked", c, o, Not(Or(s.variant == "apart", s.variant == "derived")))

    @action
    def GiveUp(s, c: Number, o: Place):
        """It was delivered often enough."""
        end = size(s.journal)
        when(s.there(c, end), s.pending(c, o, end))
        s.write("given-up", c, o, s.variant == "goes-when-given-up")

    # -- what goes -----------------------------------------------------------------------------------------

    def due(s, o):
        """What a leader names in an entry of its own."""
        end = size(s.journal)
        if s.variant == "apart":
            return And(member(o, s.owed), ~s.is_gone(o, end))
        if s.variant == "derived":
            done = lambda c: And(s.there(c, end), s.has("acked", c, o, s.hw))  # noqa: E731
            return And(Exists(s.Number, done), ~s.is_gone(o, end))
        return False

    @action
    def Name(s, o: Place):
        when(s.due(o))
        s.write("named", 0, o, True)

    @action
    def Free(s):
        """The front of the log."""
        when(s.start < s.Records)
        when(s.is_gone(s.start, size(s.journal) if s.variant == "freed-by-written" else s.hw))
        s.start = s.start + 1

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def GoneIsDone(s):
        """What is gone, or freed, somebody has acked, and that is committed."""
        gone = lambda o: Or(s.is_gone(o, s.hw), o < s.start)  # noqa: E731
        return Forall(s.Place, lambda o: Or(~gone(o), s.is_acked(o, s.hw)))

    @invariant
    def DoneIsGone(s):
        """When all is committed, and nothing is due, what was acked is gone, whoever has acked it."""
        quiet = s.hw == size(s.journal)
        left = lambda o: And(s.is_acked(o, s.hw), And(~s.is_gone(o, s.hw), Not(s.due(o))))  # noqa: E731
        return Or(~quiet, ~Exists(s.Place, left))

    @invariant
    def WithOne(s):
        """No message is with two consumers at once."""

        def has(c, o):
            return And(s.there(c, s.hw), s.pending(c, o, s.hw))

        def both(o):
            return Exists(
                s.Number, s.Number, lambda c, other: And(c != other, And(has(c, o), has(other, o)))
            )

        return ~Exists(s.Place, both)

    @sometimes
    def TheNextOneGoesOn(s):
        """A message that one consumer gave up is acked by one that came later, and freed."""
        up = Exists(s.Number, lambda c: s.has("given-up", c, 0, s.hw))
        return And(s.start > 0, up)
