"""A work queue: what its consumer is done with goes, by the very entry that says so.

What is gone is what committed entries of a second log name. A consumer's deliveries and acks are entries too.
So who acks can have the message named in the entry of the ack: then both are committed together, or neither
is, whoever leads; a consumer that is deleted, and one that comes after it, change nothing of that. Nobody
looks for what is to go, and nobody has anything to remember.

What is modelled: the journal, leaders that come and go with what is uncommitted, consumers that are made and
deleted, of those whose filters match a message at most one at a time, acks, deliveries without an ack that
are given up, and the log's front, which is freed as far as all is gone. And if so wanted: filters that match
some messages only, and are altered while nothing waits for an ack; and messages that others remove.

What is abstracted. *Replication*, told as what is committed and what a new leader keeps of the rest. *The
data*: they are committed. *How often a message may be delivered*: it may be given up whenever it is pending.

    goes-at-delivery    the entry of a delivery names the message
    goes-when-given-up  so does the one that says that it was delivered often enough
    freed-by-written    the front of the log is freed as far as entries are written
    apart               the leader names what is acked in an entry of its own, when the ack is committed
    derived             it names what a consumer that is there is done with, whoever led when that was acked
    overlapping         a consumer is made beside one that may be given the same
    altered-into        a filter is altered to what another consumer may be given
    altered-meanwhile   it is altered while messages that it matches wait for an ack
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
        "altered-into",
        "altered-meanwhile",
    )
    Records = Constant(2)
    Entries = Constant(7)
    Consumers = Constant(2)
    Epochs = Constant(2)
    Filters = Constant(0)
    """0: each consumer's filter matches all; 2: or every other message."""
    Removals = Constant(0)
    """Without, nobody removes a message."""

    Place = Range(0, Records - 1)
    Offset = Range(0, Records)
    Count = Range(0, Entries)
    Number = Range(0, Consumers - 1)
    Epoch = Range(1, Epochs)
    Filter = Range(0, Filters)
    """0: that of all messages; 1: of the first, the third and so on; 2: of the others."""
    Kind = Enum("made", "deleted", "given", "acked", "given-up", "named", "altered", "removed")
    Entry = Record(what=Kind, consumer=Number, place=Place, names=Bool, filter=Filter)
    """`names`: the message at this place is gone by it. `filter`: of one that is made, or altered. A consumer
    has its number for ever.
    """

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

    def not_to_come(s, place):
        """Gone for who delivers: by what is written; what others removed, by what is committed."""
        names = lambda i: And(s.journal[i].names, s.journal[i].place == place)  # noqa: E731
        own = lambda i: And(s.journal[i].what != "removed", names(i))  # noqa: E731
        return Or(s.is_gone(place, s.hw), Exists(indexes(s.journal), own))

    def picks(s, filter, place):
        """Whether the filter matches this."""
        odd = ~Exists(s.Place, lambda half: half + half == place)
        return Or(filter == 0, odd == (filter == 2))

    def matches(s, consumer, place, entries):
        """By its newest filter."""

        def says(i):
            entry = s.journal[i]
            filters = Or(entry.what == "made", entry.what == "altered")
            return And(i < entries, And(entry.consumer == consumer, filters))

        newest = lambda i: ~Exists(indexes(s.journal), lambda j: And(j > i, says(j)))  # noqa: E731
        by = lambda i: And(says(i), And(s.picks(s.journal[i].filter, place), newest(i)))  # noqa: E731
        return Exists(indexes(s.journal), by)

    def is_shared(s, consumer, filter):
        """Whether another one may be given something of this."""
        end = size(s.journal)

        def gets(other):
            some = Exists(s.Place, lambda o: And(s.picks(filter, o), s.matches(other, o, end)))
            return And(other != consumer, And(s.there(other, end), some))

        return Exists(s.Number, gets)

    def write(s, what, consumer, place=0, names=False, filter=0):
        when(size(s.journal) < s.Entries)
        told = record(s.Entry, what=what, consumer=consumer, place=place, names=names, filter=filter)
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
    def Make(s, c: Number, filter: Filter):
        """If nothing that is written says that another one may be given the same."""
        when(~s.tells("made", c, size(s.journal)))
        if s.variant != "overlapping":
            when(~s.is_shared(c, filter))
        s.write("made", c, filter=filter)

    @action
    def Alter(s, c: Number, filter: Filter):
        """What its filter matches: nothing is with it, and another one is not given the same."""
        end = size(s.journal)
        when(s.Filters > 0, s.there(c, end))
        if s.variant != "altered-meanwhile":
            when(~Exists(s.Place, lambda o: s.pending(c, o, end)))
        if s.variant != "altered-into":
            when(~s.is_shared(c, filter))
        s.write("altered", c, filter=filter)

    @action
    def Delete(s, c: Number):
        when(s.there(c, size(s.journal)))
        s.write("deleted", c)

    @action
    def Give(s, c: Number, o: Place):
        """What its filter matches, and is not gone, and was not with this consumer before."""
        end = size(s.journal)
        when(s.there(c, end), s.matches(c, o, end), ~s.not_to_come(o), ~s.has("given", c, o, end))
        s.write("given", c, o, s.variant == "goes-at-delivery")

    @action
    def Ack(s, c: Number, o: Place):
        end = size(s.journal)
        when(s.there(c, end), s.pending(c, o, end))
        s.write("acked", c, o, Not(Or(s.variant == "apart", s.variant == "derived")))

    @action
    def GiveUp(s, c: Number, o: Place):
        """It was delivered often enough, or others have removed it."""
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
    def Remove(s, o: Place):
        """Somebody does, whoever has it."""
        when(s.Removals > 0, ~s.is_gone(o, s.hw))
        s.write("removed", 0, o, True)

    @action
    def Free(s):
        """The front of the log."""
        when(s.start < s.Records)
        when(s.is_gone(s.start, size(s.journal) if s.variant == "freed-by-written" else s.hw))
        s.start = s.start + 1

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def GoneIsDone(s):
        """What is gone, or freed, somebody has acked, or removed, and that is committed."""
        gone = lambda o: Or(s.is_gone(o, s.hw), o < s.start)  # noqa: E731
        over = lambda o: Or(s.is_acked(o, s.hw), s.has("removed", 0, o, s.hw))  # noqa: E731
        return Forall(s.Place, lambda o: Or(~gone(o), over(o)))

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
