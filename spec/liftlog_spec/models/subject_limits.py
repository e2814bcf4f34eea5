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
- A limit that was *altered* is looked at anew, from the start; what was told of the one before is not used.

What is modelled: looks in parts, deletions of one message or of some, of a subject or of all, limits that are
altered or lifted, leaders that come and go with what is uncommitted. An entry stands for all that is written
at once.

What is abstracted. *Replication* of both logs, told as what is committed and what a new leader keeps of the
rest. *The subject index*: it answers by what is committed, without what it was told to be gone (S1), as far
as it likes; it may be behind, and answer nothing, or not be there.

    counts-what-goes    the leader asks before it heeds all that is written, or that it has inherited
    counted-before      an answer is used though another entry was written since the question
    counts-uncommitted  messages count that are not committed
    counts-newcomers    a look that is under way counts what was committed since it began
    looks-from-last     a look begins where the last one ended
    begins-at-end       a new leader takes it that the one before has written what there was to write
    limit-of-before     a look goes on when the limit is altered, with what was told of the one before
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
        "limit-of-before",
    )
    Records = Constant(3)
    Entries = Constant(3)
    Subjects = Constant(2)
    Limit = Constant(1)
    Epochs = Constant(2)
    Deletes = Constant(1)
    Alterations = Constant(1)

    Subject = Sort(Subjects)
    Place = Range(0, Records - 1)
    Offset = Range(0, Records)
    Count = Range(0, Entries)
    Epoch = Range(1, Epochs)
    Keep = Range(0, Limit + 1)
    """Of a subject; 0: there is no limit."""
    Entry = Record(places=Set(Place), limit=Keep)
    """These records are gone. `limit`: since their subjects had more; 0: since somebody wanted it."""
    Look = Record(at=Offset, until=Offset)
    """What goes below `at` is written, of what was committed below `until`."""
    Told = Record(heeded=Count, written=Count, limit=Keep)
    """What the index has been asked: by so many entries heeded, when so many were written."""

    epoch = Var(Epoch, init=1)
    data = Var(Seq(Subject, Records))
    hw = Var(Offset)
    journal = Var(Seq(Entry, Entries))
    journal_hw = Var(Count)

    # The leader: what it heeds of the journal, its limit, up to where it has looked, its look, its question.
    heeded = Var(Count)
    limit = Var(Keep, init=Limit)
    done = Var(Offset)
    look = Var(Option(Look))
    told = Var(Option(Told))
    deleted = Var(Range(0, Deletes))
    altered = Var(Range(0, Alterations))

    # -- words ---------------------------------------------------------------------------------------------

    def gone(s, entries):
        """By the first ones of the journal."""

        def named(place):
            return Exists(indexes(s.journal), lambda i: And(i < entries, member(place, s.journal[i].places)))

        return such_that(s.Place, named)

    def newer(s, place, entries, end):
        """How many records of its subject lie behind one, below `end`, and are not gone."""
        gone = s.gone(entries)

        def counts(i):
            return And(i > place, And(i < end, And(s.data[i] == s.data[place], ~member(i, gone))))

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
        """Somebody wants a committed message to be gone. It may be on its way to be gone."""
        when(place < s.hw, ~member(place, s.gone(s.heeded)))
        s.delete(such_that(s.Place, lambda q: q == place))

    @action
    def Purge(s, low: Offset, high: Offset, known: Count):
        """Somebody wants it of all here, as was found out when the leader heeded `known`."""
        when(low < high, high <= s.hw, known <= s.heeded)
        gone = s.gone(known)
        s.delete(such_that(s.Place, lambda q: And(low <= q, q < high, ~member(q, gone))))

    @action
    def PurgeSubject(s, subject: Subject, low: Offset, high: Offset, known: Count):
        """The same, of one subject."""
        when(low < high, high <= s.hw, known <= s.heeded)
        gone = s.gone(known)

        def goes(q):
            return And(low <= q, q < high, And(s.data[q] == subject, ~member(q, gone)))

        s.delete(such_that(s.Place, goes))

    def delete(s, places):
        when(s.deleted < s.Deletes, size(s.journal) < s.Entries, size(places) > 0)
        s.deleted = s.deleted + 1
        s.journal = append(s.journal, record(s.Entry, places=places, limit=0))

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
    def Alter(s, limit: Keep):
        """The leader hears that the limit is another one."""
        when(s.altered < s.Alterations, limit != s.limit)
        s.altered = s.altered + 1
        s.limit = limit
        s.done = 0
        if s.variant != "limit-of-before":
            s.look = None
            s.told = None

    @action
    def Begin(s, until: Offset):
        """More is committed than what was looked at, as the leader knows."""
        when(s.limit > 0, is_none(s.look), s.done < until)
        when(until <= (size(s.data) if s.variant == "counts-uncommitted" else s.hw))
        at = s.done if s.variant == "looks-from-last" else 0
        s.look = record(s.Look, at=at, until=until)

    @action
    def Ask(s):
        """About the next part."""
        look = get(s.look)
        when(is_some(s.look), is_none(s.told), look.at < look.until)
        if s.variant != "counts-what-goes":
            when(s.heeded == size(s.journal))
        s.told = record(s.Told, heeded=s.heeded, written=size(s.journal), limit=s.limit)

    def part(s, end):
        """What goes up to `end`: the oldest that are left, as many as their subject has too many. The index
        counts all of them, those before the part too.
        """
        told, look = get(s.told), get(s.look)
        when(is_some(s.told), is_some(s.look), look.at < end, end <= look.until)
        if s.variant != "counted-before":
            when(told.written == size(s.journal))
        gone = s.gone(told.heeded)
        until = s.hw if s.variant == "counts-newcomers" else look.until

        def is_too_many(place):
            def stays(i):
                left = And(i < until, Or(i < look.at, i >= place))
                return And(left, And(s.data[i] == s.data[place], ~member(i, gone)))

            return count(indexes(s.data), stays) > told.limit

        def goes(place):
            there = And(place < size(s.data), ~member(place, gone))
            return And(look.at <= place, And(place < end, And(there, is_too_many(place))))

        return such_that(s.Place, goes)

    @action
    def Write(s, end: Offset):
        """What was told of the part up to `end`."""
        places, look = s.part(end), get(s.look)
        when(size(places) > 0, size(s.journal) < s.Entries)
        s.journal = append(s.journal, record(s.Entry, places=places, limit=s.limit))
        s.look = record(s.Look, at=end, until=look.until)
        s.told = None

    @action
    def PassOver(s, end: Offset):
        """Nothing goes there."""
        when(size(s.part(end)) == 0)
        s.look = record(s.Look, at=end, until=get(s.look).until)
        s.told = None

    @action
    def AskAgain(s):
        """The index was behind, or another entry was written meanwhile."""
        when(is_some(s.told))
        s.told = None

    @action
    def LeaveAlone(s):
        """There is no index. A look begins anew, after a while."""
        when(is_some(s.look))
        s.look = None
        s.told = None

    @action
    def End(s):
        """The look has come to its end. What it wrote is on its way to be committed."""
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

            def has_newer(place):
                pushed = And(place < size(s.data), member(place, entry.places))
                return Or(~pushed, s.newer(place, i + 1, s.hw) >= entry.limit)

            return Or(i >= s.journal_hw, Forall(s.Place, has_newer))

        return Forall(indexes(s.journal), right)

    @invariant
    def LimitHolds(s):
        """When all is looked at, and what was written is committed, no subject has too many."""
        quiet = And(is_none(s.look), And(s.done >= s.hw, s.journal_hw == size(s.journal)))

        gone = s.gone(s.journal_hw)

        def few(subject):
            def there(i):
                return And(i < s.hw, And(s.data[i] == subject, ~member(i, gone)))

            return Or(s.limit == 0, count(indexes(s.data), there) <= s.limit)

        return Or(~quiet, Forall(s.Subject, few))

    @sometimes
    def ANewLeaderLimits(s):
        """It pushes out what the one before had not."""
        return And(s.epoch > 1, And(s.done == s.hw, And(s.journal_hw > 0, s.hw > s.limit)))

    @sometimes
    def WhatIsDeletedMakesRoom(s):
        """A message stays that had gone, had another one not been deleted."""

        def stays(i):
            alive = And(i < s.hw, ~member(i, s.gone(size(s.journal))))
            return And(alive, s.newer(i, 0, s.hw) >= s.limit)

        return And(s.done == s.hw, And(is_none(s.look), Exists(indexes(s.data), stays)))
