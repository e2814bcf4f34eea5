"""A limit on how much there is, in messages or bytes: the oldest go; the leader of both logs says which.

What is visible is the committed data without what committed entries of a second log name. Others name some as
well: what a subject has too many of, and what somebody wants deleted. The limit is a sum of what is left,
in which each message has its size: of messages all have one. An index answers later than it was asked: about
less than what is committed by then, which is as right, and without what was written meanwhile, which is not.

- It is about what is *committed* of the data: what is not may be cut, and what it pushed out was the last.
- What is *gone* counts for nothing, and neither does what is on its way: what is written is committed and
  heeded first, and what was inherited too.
- It counts only what the *limit by subject has gone through*. What that will take would else be counted, and
  an older message would go in its place, the only one of its subject perhaps.
- A new leader counts all: nothing is to be known of what the one before found and did not write.
- What is larger than its room counts as it is: as many older ones go as it takes, and it may go too.
- A limit that was *altered* is counted anew.
- A limit by age is no count: what is too old goes, whatever else does, up to the first that is not.

What is modelled: deletions, the limit by subject without its parts (`subject_limits` has these), limits that
are altered or lifted, leaders that come and go with what is uncommitted. An entry stands for all that is
written at once. Of messages some are old from the beginning, others never are.

What is abstracted. *Replication* of both logs, told as what is committed and what a new leader keeps of the
rest.

    counts-what-goes    the leader counts before it heeds all that is written, or that it has inherited
    counts-deleted      what is gone counts
    counts-uncommitted  messages count that are not committed
    before-others       messages count that the limit by subject has not gone through
    counts-each-as-one  a large message counts as a small one
    begins-at-end       a new leader takes it that the one before has written what there was to write
    counted-for-ever    what was counted by one limit is taken for counted by the next one
    to-last-old         all goes up to the last message that is too old
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *


class LimitsAtFront(Model):
    """One partition with its two logs, and who leads it."""

    variant = Setting(
        "right",
        "counts-what-goes",
        "counts-deleted",
        "counts-uncommitted",
        "before-others",
        "counts-each-as-one",
        "begins-at-end",
        "counted-for-ever",
        "to-last-old",
    )
    Records = Constant(3)
    Entries = Constant(3)
    Subjects = Constant(2)
    OfSubject = Constant(1)
    Limit = Constant(1)
    Epochs = Constant(2)
    Deletes = Constant(1)
    Larges = Constant(0)
    """So many messages may count for two."""
    Olds = Constant(0)
    """So many may be too old."""
    Alterations = Constant(1)

    Subject = Sort(Subjects)
    Place = Range(0, Records - 1)
    Offset = Range(0, Records)
    Count = Range(0, Entries)
    Epoch = Range(1, Epochs)
    Most = Range(0, Limit + 1)
    """So much may be there; 0: there is no limit."""
    Message = Record(subject=Subject, large=Bool, old=Bool)
    Why = Enum("other", "front", "age")
    Entry = Record(places=Set(Place), why=Why, until=Offset, limit=Most)
    """These records are gone: since there was more than `limit` below `until`, or since they are too old."""

    epoch = Var(Epoch, init=1)
    data = Var(Seq(Message, Records))
    hw = Var(Offset)
    journal = Var(Seq(Entry, Entries))
    journal_hw = Var(Count)

    # The leader: what it heeds of the journal, its limit, what each limit has gone through.
    heeded = Var(Count)
    limit = Var(Most, init=Limit)
    looked = Var(Offset)
    counted = Var(Offset)
    deleted = Var(Range(0, Deletes))
    altered = Var(Range(0, Alterations))

    # -- words ---------------------------------------------------------------------------------------------

    def gone(s, entries):
        """By the first ones of the journal."""

        def named(place):
            return Exists(indexes(s.journal), lambda i: And(i < entries, member(place, s.journal[i].places)))

        return such_that(s.Place, named)

    def newer(s, place, gone, end):
        """How many records of its subject lie behind one, below `end`, and are not gone."""

        def counts(i):
            same = s.data[i].subject == s.data[place].subject
            return And(i > place, And(i < end, And(same, ~member(i, gone))))

        return count(indexes(s.data), counts)

    def sum_of(s, counts):
        """How much these are together."""
        large = count(indexes(s.data), lambda i: And(counts(i), s.data[i].large))
        return count(indexes(s.data), counts) + large

    def there(s, end, gone):
        """How much there is below here."""
        return s.sum_of(lambda i: And(i < end, ~member(i, gone)))

    def pushed_out(s, until):
        """What some subject has too many of, of what lies below here."""
        gone = s.gone(size(s.journal))

        def goes(i):
            there = And(i < until, And(i < s.hw, ~member(i, gone)))
            return And(there, s.newer(i, gone, until) >= s.OfSubject)

        return such_that(s.Place, goes)

    def enter(s, places, why, until):
        when(size(s.journal) < s.Entries, size(places) > 0)
        entry = record(s.Entry, places=places, why=why, until=until, limit=s.limit)
        s.journal = append(s.journal, entry)

    # -- both logs -----------------------------------------------------------------------------------------

    @action
    def Publish(s, subject: Subject, large: Bool, old: Bool):
        when(size(s.data) < s.Records)
        when(Or(~old, count(indexes(s.data), lambda i: s.data[i].old) < s.Olds))
        when(Or(~large, count(indexes(s.data), lambda i: s.data[i].large) < s.Larges))
        s.data = append(s.data, record(s.Message, subject=subject, large=large, old=old))

    @action
    def Commit(s):
        when(s.hw < size(s.data))
        s.hw = s.hw + 1

    @action
    def CommitEntry(s):
        when(s.journal_hw < size(s.journal))
        s.journal_hw = s.journal_hw + 1

    @action
    def Heed(s):
        when(s.heeded < s.journal_hw)
        s.heeded = s.heeded + 1

    @action
    def Delete(s, place: Place):
        """Somebody wants a committed message to be gone. It may be on its way to be gone."""
        when(s.deleted < s.Deletes, place < s.hw, ~member(place, s.gone(s.heeded)))
        s.deleted = s.deleted + 1
        s.enter(such_that(s.Place, lambda q: q == place), "other", 0)

    @action
    def Elect(s, end: Offset, entries: Count, heeds: Count):
        """Another one leads, which has this much of the logs, and heeds this much."""
        when(s.epoch < s.Epochs, s.hw <= end, end <= size(s.data))
        when(s.journal_hw <= entries, entries <= size(s.journal), heeds <= s.journal_hw)
        s.epoch = s.epoch + 1
        s.data = prefix(s.data, end)
        s.journal = prefix(s.journal, entries)
        s.heeded = heeds
        s.looked = s.hw if s.variant == "begins-at-end" else 0
        s.counted = s.hw if s.variant == "begins-at-end" else 0

    # -- the limits ----------------------------------------------------------------------------------------

    @action
    def Alter(s, limit: Most):
        """The leader hears that the limit is another one."""
        when(s.altered < s.Alterations, limit != s.limit)
        s.altered = s.altered + 1
        s.limit = limit
        if s.variant != "counted-for-ever":
            s.counted = 0

    @action
    def PushOut(s, end: Offset, until: Offset):
        """The limit by subject takes what lies below `end`, of what it found below `until`."""
        when(end <= until, until <= s.hw)
        when(s.heeded == size(s.journal))
        s.enter(intersection(s.pushed_out(until), such_that(s.Place, lambda q: q < end)), "other", 0)

    @action
    def Look(s, until: Offset):
        """It has written all that it had to, of what lies below here."""
        when(s.looked < until, until <= s.hw, size(s.pushed_out(until)) == 0)
        s.looked = until

    @action
    def Leave(s, end: Offset, asked: Offset):
        """There is too much: what there is below `end` goes. It was counted what lies below `asked`, maybe
        some time ago.
        """
        when(s.limit > 0)
        if s.variant != "counts-what-goes":
            when(s.heeded == size(s.journal))
        until = s.hw if s.variant == "before-others" else s.looked
        when(asked <= (size(s.data) if s.variant == "counts-uncommitted" else until))
        when(end <= asked, end <= s.hw)
        gone = s.gone(s.heeded)
        places = such_that(s.Place, lambda q: And(q < end, ~member(q, gone)))
        when(Forall(s.Place, lambda q: Or(~member(q, places), s.rest(q, asked, gone) > s.limit)))
        s.enter(places, "front", asked)

    def rest(s, place, asked, gone):
        """How much there is from here on."""

        def counts(i):
            if s.variant == "counts-deleted":
                return And(i < asked, Or(i >= place, member(i, gone)))
            return And(i < asked, And(i >= place, ~member(i, gone)))

        return count(indexes(s.data), counts) if s.variant == "counts-each-as-one" else s.sum_of(counts)

    @action
    def Expire(s, end: Offset):
        """All that there is below `end` is too old."""
        when(end <= s.hw, s.heeded == size(s.journal))
        gone = s.gone(s.heeded)
        places = such_that(s.Place, lambda q: And(q < end, ~member(q, gone)))
        if s.variant == "to-last-old":
            when(Exists(s.Place, lambda q: And(q + 1 == end, s.data[q].old)))
        else:
            when(Forall(s.Place, lambda q: Or(~member(q, places), s.data[q].old)))
        s.enter(places, "age", 0)

    @action
    def Counted(s, until: Offset):
        """There is not too much below here."""
        when(s.counted < until, until <= s.looked, s.heeded == size(s.journal))
        gone = s.gone(s.heeded)
        if s.variant == "counts-each-as-one":
            when(count(indexes(s.data), lambda i: And(i < until, ~member(i, gone))) <= s.limit)
        else:
            when(s.there(until, gone) <= s.limit)
        s.counted = until

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def OldestGo(s):
        """What a committed entry takes from the front is too much together with the newer ones that are
        committed, and that nothing else takes.
        """

        def right(i):
            entry, gone = s.journal[i], s.gone(i)

            def too_much(place):
                def stays(j):
                    behind = And(j >= place, And(j < entry.until, And(j < s.hw, ~member(j, gone))))
                    return And(behind, s.newer(j, gone, entry.until) < s.OfSubject)

                return Or(~member(place, entry.places), s.sum_of(stays) > entry.limit)

            return Or(i >= s.journal_hw, Or(entry.why != "front", Forall(s.Place, too_much)))

        return Forall(indexes(s.journal), right)

    @invariant
    def OnlyOldGo(s):
        """What goes by its age is too old."""

        def right(i):
            def old(place):
                return Implies(member(place, s.journal[i].places), And(place < s.hw, s.data[place].old))

            return Or(s.journal[i].why != "age", Forall(s.Place, old))

        return Forall(indexes(s.journal), right)

    @invariant
    def LimitHolds(s):
        """When all is counted, and what was written is committed, there is not too much."""
        quiet = And(s.limit > 0, And(s.counted >= s.hw, s.journal_hw == size(s.journal)))
        return Or(~quiet, s.there(s.hw, s.gone(s.journal_hw)) <= s.limit)

    @sometimes
    def ANewLeaderLimits(s):
        """It takes what the one before had not."""
        taken = Exists(indexes(s.journal), lambda i: And(i < s.journal_hw, s.journal[i].why == "front"))
        return And(s.epoch > 1, And(s.counted == s.hw, And(taken, s.hw > s.limit)))

    @sometimes
    def WhatIsDeletedMakesRoom(s):
        """A message stays that had gone, had another one not been deleted."""
        there = s.there(s.hw, s.gone(s.heeded))
        return And(s.counted == s.hw, And(s.hw > s.limit, And(s.limit > 0, And(s.deleted > 0, there > 0))))
