"""Interest: a message goes when every consumer that is to be given it is done with it; the leader looks.

What is gone is what committed entries of a second log name. Consumers, deliveries and acks are entries of it
too. Whether a message is still wanted follows from all consumers: which there are, where they begin, what
their filters match, what they are done with. So the leader looks at each message that was committed, and
again when a consumer is done with it; and at all of them when a consumer is deleted:

- It goes by what is committed, and waits while a consumer is being made. What it found is dropped if one was
  made since: storage is asked what filters match, and that takes a while.
- A consumer whose filter is altered wants what it was given, and of what it has not come to yet what the new
  one matches: that is as if it was made, and some that it wanted goes.
- A new leader looks at everything, when all that it inherited is committed. It remembers nothing.
- What is named stands behind what it follows from, in the same log: an ack that is lost takes it along.

What is modelled: messages that come one by one, the journal, leaders that come and go with what is
uncommitted, consumers that are made and deleted (one of them is given the first message only, by its filter),
with what is there or what comes next, what they are given, and are done with, and the log's front, which is
freed as far as all is gone. And if so wanted: any filters, that are altered at any time; and messages that
others remove.

What is abstracted. *Replication*, told as what is committed and what a new leader keeps of the rest. *The
data* have no uncommitted tail. *How a consumer is done*: it has acked, or gave up.

    goes-at-delivery    a message that a consumer has been given is none that it wants
    one-suffices        a message goes when one consumer is done with it
    filtered-want-none  what a consumer with a filter was not given yet, it does not want
    filtered-want-all   it wants that, whether its filter matches it or not
    forgets-being-made  a consumer whose entry is not committed yet wants nothing
    names-what-it-found what was found to be unwanted is named, though a consumer was made since
    looks-uninherited   a new leader looks before all that it inherited is committed
    leader-forgets      a new leader looks at what comes from now on
    looks-when-written  a message is looked at when an ack is written, and not again when that is committed
    deletion-unseen     nothing is looked at when a consumer is deleted
    freed-by-written    the front of the log is freed as far as entries are written
    filters-as-found    a consumer wants what its filter matched before that was altered
    alteration-unseen   nothing is looked at when a filter is altered
    forgets-altering    an alteration that is not committed yet is none
    names-by-old-filter what was found to be unwanted is named, though a filter was altered since
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *


class InterestMessages(Model):
    """One partition, its journal, and who leads it."""

    variant = Setting(
        "right",
        *("goes-at-delivery", "one-suffices", "filtered-want-none", "filtered-want-all"),
        *("forgets-being-made", "names-what-it-found", "looks-uninherited", "leader-forgets"),
        *("looks-when-written", "deletion-unseen", "freed-by-written"),
        *("filters-as-found", "alteration-unseen", "forgets-altering", "names-by-old-filter"),
    )
    Records = Constant(2)
    Entries = Constant(4)
    Consumers = Constant(2)
    Epochs = Constant(2)
    Alterations = Constant(0)
    """Of the second consumer's filter."""
    Choices = Constant(0)
    """1: any consumer has any filter, and any is altered."""
    Removals = Constant(0)
    """Without, nobody removes a message."""

    Place = Range(0, Records - 1)
    Offset = Range(0, Records)
    Count = Range(0, Entries)
    Number = Range(0, Consumers - 1)
    Epoch = Range(1, Epochs)
    Filter = Range(0, 2)
    """0: that of all messages; 1: of the first, the third and so on; 2: of the others."""
    Kind = Enum("made", "deleted", "given", "done", "named", "altered", "removed")
    Entry = Record(what=Kind, consumer=Number, place=Offset, filter=Filter)
    """`place`: of which message; of one that is made, or altered: from where on it is given what comes, by
    this filter.
    """

    epoch = Var(Epoch, init=1)
    published = Var(Offset)
    """So many messages are committed."""
    journal = Var(Seq(Entry, Entries))
    hw = Var(Count)
    inherited = Var(Count)
    """So much of the journal this leader had when it was elected."""
    due = Var(Set(Place))
    """What is to be looked at."""
    found = Var(Set(Place))
    """What nobody wants, and is not named yet."""
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
        """As `has`, of any message."""
        says = lambda entry: And(entry.what == what, entry.consumer == consumer)  # noqa: E731
        return Exists(indexes(s.journal), lambda i: And(i < entries, says(s.journal[i])))

    def is_made(s, consumer, entries):
        return s.tells("made", consumer, entries)

    def there(s, consumer, entries):
        return And(s.is_made(consumer, entries), ~s.has("deleted", consumer, 0, entries))

    def is_gone(s, place, entries):
        return Or(s.has("named", 0, place, entries), s.has("removed", 0, place, entries))

    def picks(s, filter, place):
        """Whether the filter matches this."""
        odd = ~Exists(s.Place, lambda half: half + half == place)
        return Or(filter == 0, odd == (filter == 2))

    def meant(s, consumer, place, entries):
        """Whether it is to be given this one, by its newest filter, if it was not before."""

        def says(i):
            entry = s.journal[i]
            filters = Or(entry.what == "made", entry.what == "altered")
            return And(i < entries, And(entry.consumer == consumer, filters))

        newest = lambda i: ~Exists(indexes(s.journal), lambda j: And(j > i, says(j)))  # noqa: E731
        matches = lambda e: And(e.place <= place, s.picks(e.filter, place))  # noqa: E731
        by = lambda i: And(says(i), And(matches(s.journal[i]), newest(i)))  # noqa: E731
        return Exists(indexes(s.journal), by)

    def begun(s, consumer, place, entries):
        """Whether it was made to be given this one, if its filter matches it."""
        return Exists(s.Offset, lambda o: And(o <= place, s.has("made", consumer, o, entries)))

    def found_by(s, consumer, place, entries):
        """Whether the filter that it was made with matches this."""

        def by(i):
            entry = s.journal[i]
            made = And(entry.what == "made", entry.consumer == consumer)
            return And(i < entries, And(made, s.picks(entry.filter, place)))

        return Exists(indexes(s.journal), by)

    def wants(s, consumer, place, entries):
        """By the first entries: it is to be given this one, or has it, and is not done with it."""
        meant = Or(s.has("given", consumer, place, entries), s.meant(consumer, place, entries))
        return And(s.there(consumer, entries), And(meant, ~s.has("done", consumer, place, entries)))

    def seen_wanted(s, consumer, place, entries):
        """As `wants`, as a leader sees it."""
        if s.variant == "goes-at-delivery":
            return And(s.wants(consumer, place, entries), ~s.has("given", consumer, place, entries))
        if s.variant == "filtered-want-none":
            ahead = And(consumer == 1, ~s.has("given", consumer, place, entries))
            return And(s.wants(consumer, place, entries), ~ahead)
        if s.variant == "filtered-want-all":
            begun = And(s.begun(consumer, place, entries), ~s.has("done", consumer, place, entries))
            return And(s.there(consumer, entries), begun)
        if s.variant == "filters-as-found":
            return And(s.wants(consumer, place, entries), s.found_by(consumer, place, entries))
        return s.wants(consumer, place, entries)

    def is_wanted(s, place, entries):
        """As a leader sees it."""
        anyone = Exists(s.Number, lambda c: s.seen_wanted(c, place, entries))
        if s.variant == "one-suffices":
            return And(anyone, ~Exists(s.Number, lambda c: s.has("done", c, place, entries)))
        return anyone

    def is_making(s):
        """Whether this leader has written that a consumer is made, or altered, and that is not committed."""
        own = lambda i: And(i >= s.inherited, i >= s.hw)  # noqa: E731
        made = Exists(indexes(s.journal), lambda i: And(own(i), s.journal[i].what == "made"))
        if s.variant == "forgets-altering":
            return made
        return Or(made, Exists(indexes(s.journal), lambda i: And(own(i), s.journal[i].what == "altered")))

    def write(s, what, consumer, place=0, filter=0):
        when(size(s.journal) < s.Entries)
        told = record(s.Entry, what=what, consumer=consumer, place=place, filter=filter)
        s.journal = append(s.journal, told)

    # -- both logs, and who leads --------------------------------------------------------------------------

    @action
    def Publish(s):
        when(s.published < s.Records)
        s.due = with_member(s.due, s.published)
        s.published = s.published + 1

    @action
    def Commit(s):
        """What follows of it is to be looked at."""
        when(s.hw < size(s.journal))
        entry = s.journal[s.hw]
        done = And(entry.what == "done", s.variant != "looks-when-written")
        deleted = And(entry.what == "deleted", s.variant != "deletion-unseen")
        every = Or(deleted, And(entry.what == "altered", s.variant != "alteration-unseen"))
        again = s.set_of(lambda o: Or(every, And(done, entry.place == o)))
        s.due = union(s.due, again)
        s.hw = s.hw + 1

    def set_of(s, holds):
        """Of the messages that are there, those of which this holds."""
        return such_that(s.Place, lambda o: And(o < s.published, holds(o)))

    @action
    def Elect(s, entries: Count):
        """Another one leads, which has this much of the journal."""
        when(s.epoch < s.Epochs, s.hw <= entries, entries <= size(s.journal))
        s.epoch = s.epoch + 1
        s.journal = prefix(s.journal, entries)
        s.inherited = entries
        s.due = s.set_of(lambda o: s.variant != "leader-forgets")
        s.found = difference(s.found, s.found)

    # -- consumers -----------------------------------------------------------------------------------------

    @action
    def Make(s, c: Number, o: Offset, filter: Filter):
        """To be given what there is, or what comes."""
        when(~s.is_made(c, size(s.journal)), Or(o == 0, o == s.published))
        when(Or(s.Choices > 0, filter == If(c == 0, 0, 1)))
        s.write("made", c, o, filter)
        if s.variant != "names-what-it-found":
            s.due = union(s.due, s.found)
            s.found = difference(s.found, s.found)

    @action
    def Alter(s, c: Number, o: Offset, filter: Filter):
        """What its filter matches from here on: up to there it was given all that is there for it."""
        end = size(s.journal)
        when(s.Alterations > 0, s.there(c, end), o <= s.published)
        when(Or(s.Choices > 0, And(And(c == 1, filter == 2), ~s.tells("altered", c, end))))
        given = lambda p: Or(s.has("given", c, p, end), s.is_gone(p, s.hw))  # noqa: E731
        when(Forall(s.Place, lambda p: Or(p >= o, Or(given(p), ~s.meant(c, p, end)))))
        s.write("altered", c, o, filter)
        if s.variant != "names-by-old-filter":
            s.due = union(s.due, s.found)
            s.found = difference(s.found, s.found)

    @action
    def Delete(s, c: Number):
        when(s.there(c, size(s.journal)))
        s.write("deleted", c)

    @action
    def Give(s, c: Number, o: Place):
        """What is not named by what is written, nor removed by what is committed, and was not with it."""
        end = size(s.journal)
        when(o < s.published, s.wants(c, o, end), ~s.has("given", c, o, end))
        when(~s.has("named", 0, o, end), ~s.is_gone(o, s.hw))
        s.write("given", c, o)

    @action
    def End(s, c: Number, o: Place):
        """It is done with what it was given."""
        end = size(s.journal)
        when(s.wants(c, o, end), s.has("given", c, o, end))
        s.write("done", c, o)
        if s.variant == "looks-when-written":
            s.due = with_member(s.due, o)

    # -- what goes -----------------------------------------------------------------------------------------

    @action
    def Look(s, o: Place):
        """At one message, by what is committed."""
        when(member(o, s.due))
        if s.variant != "looks-uninherited":
            when(s.hw >= s.inherited)
        if s.variant != "forgets-being-made":
            when(~s.is_making())
        goes = And(~s.is_wanted(o, s.hw), ~s.is_gone(o, size(s.journal)))
        s.due = without(s.due, o)
        s.found = If(goes, with_member(s.found, o), s.found)

    @action
    def Name(s, o: Place):
        when(member(o, s.found))
        s.found = without(s.found, o)
        s.write("named", 0, o)

    @action
    def Remove(s, o: Place):
        """Somebody does, whoever wants it."""
        when(s.Removals > 0, o < s.published, ~s.is_gone(o, s.hw))
        s.write("removed", 0, o)

    @action
    def Free(s):
        """The front of the log."""
        when(s.start < s.published)
        when(s.is_gone(s.start, size(s.journal) if s.variant == "freed-by-written" else s.hw))
        s.start = s.start + 1

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def GoneIsUnwanted(s):
        """What a committed entry names, no consumer wants by the entries before it; what is freed is gone."""

        def right(i):
            entry = s.journal[i]
            named = And(i < s.hw, entry.what == "named")
            return Or(~named, ~Exists(s.Number, lambda c: s.wants(c, entry.place, i)))

        freed = Forall(s.Place, lambda o: Or(o >= s.start, s.is_gone(o, s.hw)))
        return And(freed, Forall(indexes(s.journal), right))

    @invariant
    def UnwantedIsGone(s):
        """When all is committed, and nothing is to be looked at, nothing is left that nobody wants."""
        nothing = Forall(s.Place, lambda o: ~Or(member(o, s.due), member(o, s.found)))
        quiet = And(s.hw == size(s.journal), nothing)

        def left(o):
            wanted = Exists(s.Number, lambda c: s.wants(c, o, s.hw))
            return And(o < s.published, And(~wanted, ~s.is_gone(o, s.hw)))

        return Or(~quiet, ~Exists(s.Place, left))

    @sometimes
    def ANewLeaderFindsIt(s):
        """A consumer was deleted, and what it alone had wanted is freed by another leader."""
        return And(s.epoch > 1, And(s.start > 0, s.has("deleted", 1, 0, s.inherited)))
