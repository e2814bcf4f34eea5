"""A limit by subject: of each subject the newest so many messages stay; the leader writes which ones go.

What is visible is the committed data without what committed entries of a second log name. The leader of both
finds out what a subject has too many of, and writes it, while others have messages deleted by entries of
their own. It is a count, and a count can be too late, or too early:

- It is about what is *committed* of the data: what is not may be cut, and what it pushed out was the last.
- It is about all that is *on its way* to be gone: what is written is committed and heeded first, and what was
  inherited too. A message that will be gone counts for nothing, or an older one goes in its place.
- An answer is as old as its question. If another entry was written meanwhile it is asked again.
- A *look* goes through the log from its start, part by part, each written before the next one is asked about,
  and is about what was committed when it began. Counting newcomers, it would find their excess in the middle.
- A new leader looks at everything: nothing is to be known of what the one before found and did not write.

What is modelled: looks in parts of one record, deletions, leaders that come and go with what is uncommitted.

What is abstracted. *Replication* of both logs, told as what is committed and what a new leader keeps of the
rest. *The subject index*: it answers by what is committed, without what it was told to be gone (S1).

    counts-what-goes    the leader asks before it heeds all that is written, or that it has inherited
    counted-before      an answer is used though another entry was written since the question
    counts-uncommitted  messages count that are not committed
    counts-newcomers    a look that is under way counts what was committed since it began
    looks-from-last     a look begins where the last one ended
    begins-at-end       a new leader takes it that the one before has written what there was to write
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *


class LimitsBySubject(Model):
    """One partition with its two logs, and who leads it."""

    variant = Setting(
        "right",
        "counts-what-goes",
        "counted-before",
        "counts-uncommitted",
        "counts-newcomers",
        "looks-from-last",
        "begins-at-end",
    )
    Records = Constant(4)
    Entries = Constant(3)
    Subjects = Constant(2)
    Limit = Constant(1)
    Epochs = Constant(2)
    Deletes = Constant(1)

    Subject = Sort(Subjects)
    Place = Range(0, Records - 1)
    Offset = Range(0, Records)
    Count = Range(0, Entries)
    Epoch = Range(1, Epochs)
    Entry = Record(place=Place, limits=Bool)
    """This record is gone. `limits`: since its subject had too many; else since somebody wanted it."""
    Look = Record(at=Offset, until=Offset)
    """What goes below `at` is written, of what was committed below `until`."""
    Told = Record(place=Place, goes=Bool, written=Count)
    """What the index says, asked when so much was written."""

    epoch = Var(Epoch, init=1)
    data = Var(Seq(Subject, Records))
    hw = Var(Offset)
    journal = Var(Seq(Entry, Entries))
    journal_hw = Var(Count)

    # The leader: what it heeds of the journal, up to where it has looked, its look, what it was told last.
    heeded = Var(Count)
    done = Var(Offset)
    look = Var(Option(Look))
    told = Var(Option(Told))
    deleted = Var(Range(0, Deletes))

    # -- words ---------------------------------------------------------------------------------------------

    def is_gone(s, place, entries):
        """By the first ones of the journal."""
        return Exists(indexes(s.journal), lambda i: And(i < entries, s.journal[i].place == place))

    def newer(s, place, entries, end):
        """How many records of its subject lie behind one, below `end`, and are not gone."""

        def counts(i):
            return And(i > place, And(i < end, And(s.data[i] == s.data[place], ~s.is_gone(i, entries))))

        return count(indexes(s.data), counts)

    # -- both logs -----------------------------------------------------------------------------------------

    @action
    def Publish(s, subject: Subject):
        when(size(s.data) < s.Records)
        s.data = append(s.data, subject)

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
        s.journal = append(s.journal, record(s.Entry, place=place, limits=False))

    @action
    def Elect(s, end: Offset, entries: Count, heeds: Count):
        """Another one leads, which has this much of the logs, and heeds this much."""
        when(s.epoch < s.Epochs, s.hw <= end, end <= size(s.data))
        when(s.journal_hw <= entries, entries <= size(s.journal), heeds <= s.journal_hw)
        s.epoch = s.epoch + 1
        s.data = prefix(s.data, end)
        s.journal = prefix(s.journal, entries)
        s.heeded = heeds
        s.done = s.hw if s.variant == "begins-at-end" else 0
        s.look = None
        s.told = None

    # -- looking -------------------------------------------------------------------------------------------

    @action
    def Begin(s):
        """More is committed than what was looked at."""
        until = size(s.data) if s.variant == "counts-uncommitted" else s.hw
        when(is_none(s.look), s.done < until)
        at = s.done if s.variant == "looks-from-last" else 0
        s.look = record(s.Look, at=at, until=until)

    @action
    def Ask(s):
        """About the next record."""
        look = get(s.look)
        when(is_some(s.look), is_none(s.told), look.at < look.until)
        if s.variant != "counts-what-goes":
            when(s.heeded == size(s.journal))
        end = s.hw if s.variant == "counts-newcomers" else look.until
        excess = s.excess(look.at, end, s.heeded)
        written = size(s.journal)
        s.told = record(s.Told, place=look.at, goes=excess, written=written)

    def excess(s, place, end, entries):
        """Whether a record goes: with those before it gone that had to, its subject has too many."""
        there = And(place < size(s.data), ~s.is_gone(place, entries))
        return And(there, s.behind(place, end, entries) > s.Limit)

    def behind(s, place, end, entries):
        """How many there are of its subject: the index counts all of them, those before it too."""

        def counts(i):
            return And(i < end, And(s.data[i] == s.data[place], ~s.is_gone(i, entries)))

        return count(indexes(s.data), counts)

    @action
    def Write(s):
        """What was told."""
        told, look = get(s.told), get(s.look)
        when(is_some(s.told), size(s.journal) < s.Entries)
        same = told.written == size(s.journal)
        if s.variant == "counted-before":
            same = told.written <= size(s.journal)
        goes = And(same, And(told.goes, told.place < size(s.data)))
        entry = record(s.Entry, place=told.place, limits=True)
        s.journal = If(goes, append(s.journal, entry), s.journal)
        s.look = If(same, record(s.Look, at=look.at + 1, until=look.until), look)
        s.told = None

    @action
    def End(s):
        """The look has come to its end, and all of it is committed."""
        look = get(s.look)
        when(is_some(s.look), look.at >= look.until, is_none(s.told))
        s.done = look.until
        s.look = None

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def KeepsNewest(s):
        """What a committed entry pushes out has as many newer ones of its subject as are to stay."""

        def right(i):
            entry = s.journal[i]
            pushed = And(i < s.journal_hw, entry.limits)
            return Or(~pushed, s.newer(entry.place, i + 1, s.hw) >= s.Limit)

        return Forall(indexes(s.journal), right)

    @invariant
    def LimitHolds(s):
        """When all is looked at, and what was written is committed, no subject has too many."""
        quiet = And(is_none(s.look), And(s.done >= s.hw, s.journal_hw == size(s.journal)))

        def few(subject):
            def there(i):
                return And(i < s.hw, And(s.data[i] == subject, ~s.is_gone(i, s.journal_hw)))

            return count(indexes(s.data), there) <= s.Limit

        return Or(~quiet, Forall(s.Subject, few))

    @sometimes
    def ANewLeaderLimits(s):
        """It pushes out what the one before had not."""
        return And(s.epoch > 1, And(s.done == s.hw, And(s.journal_hw > 0, s.hw > s.Limit)))

    @sometimes
    def WhatIsDeletedMakesRoom(s):
        """A message stays that had gone, had another one not been deleted."""

        def stays(i):
            alive = And(i < s.hw, ~s.is_gone(i, size(s.journal)))
            return And(alive, s.newer(i, 0, s.hw) >= s.Limit)

        return And(s.done == s.hw, And(is_none(s.look), Exists(indexes(s.data), stays)))
