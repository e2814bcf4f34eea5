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

What is modelled: entries of one record, deletions, the limit by subject without its parts (`subject_limits`
has these), leaders that come and go with what is uncommitted. A limit by age is no count: what is too old
goes, whatever else does.

What is abstracted. *Replication* of both logs, told as what is committed and what a new leader keeps of the
rest.

    counts-what-goes    the leader counts before it heeds all that is written, or that it has inherited
    counts-deleted      what is gone counts
    counts-uncommitted  messages count that are not committed
    before-others       messages count that the limit by subject has not gone through
    counts-each-as-one  a large message counts as a small one
    begins-at-end       a new leader takes it that the one before has written what there was to write
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
    )
    Records = Constant(4)
    Entries = Constant(3)
    Subjects = Constant(2)
    OfSubject = Constant(1)
    Limit = Constant(1)
    Epochs = Constant(2)
    Deletes = Constant(1)
    Larges = Constant(0)
    """So many messages may count for two."""

    Subject = Sort(Subjects)
    Place = Range(0, Records - 1)
    Offset = Range(0, Records)
    Count = Range(0, Entries)
    Epoch = Range(1, Epochs)
    Message = Record(subject=Subject, large=Bool)
    Entry = Record(place=Place, front=Bool, until=Offset)
    """This record is gone. `front`: since there were too many below `until`."""

    epoch = Var(Epoch, init=1)
    data = Var(Seq(Message, Records))
    hw = Var(Offset)
    journal = Var(Seq(Entry, Entries))
    journal_hw = Var(Count)

    # The leader: what it heeds of the journal, what each limit has gone through.
    heeded = Var(Count)
    looked = Var(Offset)
    counted = Var(Offset)
    deleted = Var(Range(0, Deletes))

    # -- words ---------------------------------------------------------------------------------------------

    def is_gone(s, place, entries):
        """By the first ones of the journal."""
        return Exists(indexes(s.journal), lambda i: And(i < entries, s.journal[i].place == place))

    def newer(s, place, entries, end):
        """How many records of its subject lie behind one, below `end`, and are not gone."""

        def counts(i):
            same = s.data[i].subject == s.data[place].subject
            return And(i > place, And(i < end, And(same, ~s.is_gone(i, entries))))

        return count(indexes(s.data), counts)

    def sum_of(s, counts):
        """How much these are together."""
        large = count(indexes(s.data), lambda i: And(counts(i), s.data[i].large))
        return count(indexes(s.data), counts) + large

    def there(s, end, entries):
        """How much there is below here."""
        if s.variant == "counts-each-as-one":
            return count(indexes(s.data), lambda i: And(i < end, ~s.is_gone(i, entries)))
        return s.sum_of(lambda i: And(i < end, ~s.is_gone(i, entries)))

    def to_push_out(s, entries):
        """Whether some subject has too many."""

        def many(i):
            return And(i < s.hw, And(~s.is_gone(i, entries), s.newer(i, entries, s.hw) >= s.OfSubject))

        return Exists(indexes(s.data), many)

    # -- both logs -----------------------------------------------------------------------------------------

    @action
    def Publish(s, subject: Subject, large: Bool):
        when(size(s.data) < s.Records)
        when(Or(~large, count(indexes(s.data), lambda i: s.data[i].large) < s.Larges))
        s.data = append(s.data, record(s.Message, subject=subject, large=large))

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
        """Somebody wants a committed message to be gone."""
        when(s.deleted < s.Deletes, place < s.hw, size(s.journal) < s.Entries)
        when(~s.is_gone(place, size(s.journal)))
        s.deleted = s.deleted + 1
        s.journal = append(s.journal, record(s.Entry, place=place, front=False, until=0))

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
    def PushOut(s, place: Place):
        """The limit by subject takes one."""
        when(s.heeded == size(s.journal), size(s.journal) < s.Entries)
        when(place < s.hw, ~s.is_gone(place, s.heeded), s.newer(place, s.heeded, s.hw) >= s.OfSubject)
        s.journal = append(s.journal, record(s.Entry, place=place, front=False, until=0))

    @action
    def Look(s):
        """It has taken all that it had to."""
        when(s.looked < s.hw, s.heeded == size(s.journal), ~s.to_push_out(s.heeded))
        s.looked = s.hw

    @action
    def Leave(s, place: Place, asked: Offset):
        """There is too much: the oldest goes. It was counted what lies below `asked`, maybe some time ago."""
        when(size(s.journal) < s.Entries)
        if s.variant != "counts-what-goes":
            when(s.heeded == size(s.journal))
        until = s.hw if s.variant == "before-others" else s.looked
        if s.variant == "counts-uncommitted":
            until = size(s.data)
        when(asked <= until)
        until = asked
        when(place < until, place < s.hw, ~s.is_gone(place, s.heeded))
        when(~Exists(indexes(s.data), lambda i: And(i < place, ~s.is_gone(i, s.heeded))))
        counted = until if s.variant == "counts-deleted" else s.there(until, s.heeded)
        when(counted > s.Limit)
        s.journal = append(s.journal, record(s.Entry, place=place, front=True, until=until))

    @action
    def Counted(s):
        """There is not too much."""
        when(s.counted < s.looked, s.heeded == size(s.journal), s.there(s.looked, s.heeded) <= s.Limit)
        s.counted = s.looked

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def OldestGo(s):
        """What a committed entry takes from the front is too much together with the newer ones that are
        committed, and that nothing else takes.
        """

        def right(i):
            entry = s.journal[i]

            def stays(j):
                behind = And(j > entry.place, And(j < entry.until, And(j < s.hw, ~s.is_gone(j, i + 1))))
                return And(behind, s.newer(j, i + 1, entry.until) < s.OfSubject)

            its = If(s.data[entry.place].large, 2, 1)
            return Or(~And(i < s.journal_hw, entry.front), s.sum_of(stays) + its > s.Limit)

        return Forall(indexes(s.journal), right)

    @invariant
    def LimitHolds(s):
        """When all is counted, and what was written is committed, there is not too much."""
        quiet = And(s.counted >= s.hw, s.journal_hw == size(s.journal))
        return Or(~quiet, s.sum_of(lambda i: And(i < s.hw, ~s.is_gone(i, s.journal_hw))) <= s.Limit)

    @sometimes
    def ANewLeaderLimits(s):
        """It takes what the one before had not."""
        taken = Exists(indexes(s.journal), lambda i: And(i < s.journal_hw, s.journal[i].front))
        return And(s.epoch > 1, And(s.counted == s.hw, And(taken, s.hw > s.Limit)))

    @sometimes
    def WhatIsDeletedMakesRoom(s):
        """A message stays that had gone, had another one not been deleted."""
        return And(s.counted == s.hw, And(s.hw > s.Limit, And(s.deleted > 0, s.there(s.hw, s.heeded) > 0)))
