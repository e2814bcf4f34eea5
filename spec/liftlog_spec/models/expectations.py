"""Compare-and-set: a message is stored if the last one of its subject is the one that its publisher expects.

Whoever publishes with an expectation takes a step that has to be one: compared and stored at once, as if the
partition were a register for each subject. So what a leader compares with, and what it may answer, is bound:

- It compares with *all that is before the message in its own log*, committed or not. What is stored then
  depends on its own log's prefix alone, and no fail-over can keep the message and lose its premise.
- A refusal is a read. If it rests on a record that is not committed it waits until that is, or is not given
  at all: the record may be cut, and then nobody has ever seen what the publisher was told of.
- A refusal is given by a leader in office (N2). One that has been replaced, and has not heard of it, would
  tell of a past that may have been over before the message was sent.
- Of what is committed each copy has an *index* of last records by subject, which follows behind. A leader
  notes what it appends itself from some moment on, and compares when the index has come to that moment: both
  together are its log. Before, nobody is answered. What may be cut never gets into the index.
- Where records can be *removed*, by entries of a second log, the last one is the last of those that are left,
  by what is committed of that log: a leader compares when it heeds all of it. Notes know the last record of a
  subject alone: when that is removed the index says which one is left, once it has come past the record.

What is modelled. Publishers that ask once each; copies with truncation, several leaders at once, their
indexes and what they note. Expecting nothing of a subject is expecting that it has no message: 0. The last
offset of the whole log is the same with one subject, and needs no index.

What is abstracted. *Replication* as in `partition_log`: who leads and is in sync is decided in one step. *The
fence* of N2: a refusal is given while its leader is the newest. A message is answered by the leader that took
it, or never. *The second log*: an entry is written by a leader in office, of what is committed, and is
committed in one step, or lost with its leader; each copy heeds what is committed, one entry after the other.
What removals do to readers: the model `removal`.

    compared-with-committed   the leader looks at what it knows to be committed, and not at its own log
    refused-at-once           a refusal does not wait for what it rests on
    refused-by-deposed        a leader that was replaced refuses by what it still has
    index-of-uncommitted      the index takes in what is not committed, and keeps what is cut
    index-behind              a leader compares before the index has come to where its notes begin
    removed-is-last           the last record counts though it is removed
    removed-by-uncommitted    a leader compares with what it has written that is removed, and is not committed
    removals-not-heeded       a leader compares before it heeds all that is committed to be removed
    index-behind-removed      the noted record is removed; the index is asked before it has come past it
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *
from liftlog_spec.models.partition_log import PartitionLog


class Expectations(PartitionLog):
    """One partition, its copies, and publishers of which each asks for one thing."""

    variant = Setting(
        "right",
        "compared-with-committed",
        "refused-at-once",
        "refused-by-deposed",
        "index-of-uncommitted",
        "index-behind",
        "removed-is-last",
        "removed-by-uncommitted",
        "removals-not-heeded",
        "index-behind-removed",
    )
    Records = Constant(2)
    Subjects = Constant(1)
    Publishers = Constant(3)
    Removals = Constant(0)

    Replica, Place, Offset, Epoch = (
        PartitionLog.Replica,
        PartitionLog.Place,
        PartitionLog.Offset,
        PartitionLog.Epoch,
    )
    """An offset of a record is its place and one. 0: no record."""
    Subject = Sort(Subjects)
    Publisher = Sort(Publishers)
    Entry = Record(epoch=Epoch, subject=Subject, publisher=Publisher)
    Log = Seq(Entry, Records)
    Moment = Range(0, Removals)
    """How many removals are committed."""
    Wish = Record(subject=Subject, expected=Offset, since=Offset, moment=Moment)
    """What is expected to be the last record of the subject; how much was committed when it was asked for."""
    Judgement = Record(stored=Range(0, 1), by=Replica, epoch=Epoch, rests=Offset)
    """`rests`: on which record it rests; the message's own if it is stored."""
    Answered = Record(committed=Offset, removed=Moment)
    """How much was, of either log, when the answer was given."""
    Notes = Record(epoch=Epoch, begin=Offset)
    """A leader of this epoch notes what it appends from there on."""
    Written = Record(epoch=Epoch, record=Offset)
    """A leader of this epoch has written that this record is removed."""

    # Each copy, the last record of each subject among the first ones of it, and how many these are.
    log = Var(Fn(Replica, Log))
    index = Var(Fn(Replica, Subject, Offset))
    folded = Var(Fn(Replica, Offset))
    notes = Var(Fn(Replica, Option(Notes)))

    # Which records are removed, in this order; how many of these entries a copy heeds, and which one it has
    # written as a leader.
    removed = Var(Seq(Written, Removals))
    heeds = Var(Fn(Replica, Moment))
    writes = Var(Fn(Replica, Option(Written)))

    # Publishers, and what was ever committed. An answer says how much that was when it was given.
    wish = Var(Fn(Publisher, Option(Wish)))
    judged = Var(Fn(Publisher, Option(Judgement)))
    answered = Var(Fn(Publisher, Option(Answered)))
    committed = Var(Log)

    # -- words ---------------------------------------------------------------------------------------------

    def is_removed(s, record, entries):
        """By the first ones of the second log."""
        return Exists(indexes(s.removed), lambda i: And(i < entries, s.removed[i].record == record))

    def last(s, log, end, subject, entries=0, begin=0):
        """The last record of a subject among the first `end` of a log, but for those below `begin`, and for
        those that so many entries remove.
        """

        def here(i):
            within = And(i < size(log), And(i < end, i >= begin), ~s.is_removed(i + 1, entries))
            return If(within, If(log[i].subject == subject, i + 1, 0), 0)

        return greatest(s.Place, here)

    @definition
    def HeedsAll(s, r: Replica):
        """A leader heeds what was committed when it was elected, and since."""
        return count(indexes(s.removed), lambda i: s.removed[i].epoch <= s.epoch[r]) == s.heeds[r]

    def left(s, lead, subject, record):
        """The last record that is left, where the index or the notes have this one."""
        entries = s.heeds[lead]
        folded = s.last(s.log[lead], s.folded[lead], subject, entries)
        gone = s.is_removed(record, entries)
        if s.variant == "removed-by-uncommitted":
            written = s.writes[lead]
            mine = And(is_some(written), get(written).epoch == s.epoch[lead])
            gone = Or(gone, And(mine, get(written).record == record))
        if s.variant != "index-behind-removed":
            when(Or(~gone, record <= s.folded[lead]))
        return If(gone, If(folded == record, 0, folded), record)

    # -- publishers and their leader -----------------------------------------------------------------------

    @action
    def Ask(s, p: Publisher, subject: Subject, expected: Offset):
        when(is_none(s.wish[p]))
        since, moment = size(s.committed), size(s.removed)
        s.wish[p] = record(s.Wish, subject=subject, expected=expected, since=since, moment=moment)

    @action
    def Note(s, lead: Replica):
        """From now on: the first message of this epoch has come that asks for it."""
        notes = s.notes[lead]
        when(s.Leads(lead), Or(is_none(notes), get(notes).epoch < s.epoch[lead]))
        s.notes[lead] = record(s.Notes, epoch=s.epoch[lead], begin=size(s.log[lead]))

    @action
    def Fold(s, r: Replica):
        """The index takes in one more record."""
        place = s.folded[r]
        when(place < (size(s.log[r]) if s.variant == "index-of-uncommitted" else s.hw[r]))
        s.index[r][s.log[r][place].subject] = place + 1
        s.folded[r] = place + 1

    @action
    def Judge(s, p: Publisher, lead: Replica):
        """The message is there, and is the next in its leader's queue."""
        when(is_some(s.wish[p]), is_none(s.judged[p]), s.Leads(lead), size(s.log[lead]) < s.Records)
        wish, end, notes = get(s.wish[p]), size(s.log[lead]), s.notes[lead]
        when(is_some(notes), get(notes).epoch == s.epoch[lead])
        if s.variant != "index-behind":
            when(get(notes).begin <= s.folded[lead])
        last = s.index[lead][wish.subject]
        if s.variant != "compared-with-committed":
            last = maximum(last, s.last(s.log[lead], end, wish.subject, begin=get(notes).begin))
        if s.variant != "removed-is-last":
            if s.variant != "removals-not-heeded":
                when(s.HeedsAll(lead))
            last = s.left(lead, wish.subject, last)
        fits = last == wish.expected
        entry = record(s.Entry, epoch=s.epoch[lead], subject=wish.subject, publisher=p)
        s.log[lead] = If(fits, append(s.log[lead], entry), s.log[lead])
        s.judged[p] = record(
            s.Judgement,
            stored=If(fits, 1, 0),
            by=lead,
            epoch=s.epoch[lead],
            rests=If(fits, end + 1, last),
        )

    @action
    def Answer(s, p: Publisher):
        """The leader that judged says so, once what that rests on is committed."""
        when(is_some(s.judged[p]), is_none(s.answered[p]))
        judged = get(s.judged[p])
        when(s.epoch[judged.by] == judged.epoch)
        if s.variant == "refused-at-once":
            when(Or(judged.stored == 0, judged.rests <= s.hw[judged.by]))
        else:
            when(judged.rests <= s.hw[judged.by])
        if s.variant != "refused-by-deposed":
            when(Or(judged.stored == 1, judged.epoch == s.newest))
        s.answered[p] = record(s.Answered, committed=size(s.committed), removed=size(s.removed))

    # -- removals ------------------------------------------------------------------------------------------

    @action
    def Write(s, lead: Replica, place: Place):
        """An entry of the second log: a committed record, by who heeds all that was removed before."""
        written = s.writes[lead]
        when(s.Leads(lead), place < s.hw[lead], size(s.removed) < s.Removals)
        when(s.HeedsAll(lead), ~s.is_removed(place + 1, s.heeds[lead]))
        when(Or(is_none(written), get(written).epoch < s.epoch[lead]))
        s.writes[lead] = record(s.Written, epoch=s.epoch[lead], record=place + 1)

    @action
    def Remove(s, lead: Replica):
        """The entry is committed."""
        written = s.writes[lead]
        when(s.TrulyLeads(lead), is_some(written), get(written).epoch == s.epoch[lead])
        when(size(s.removed) < s.Removals)
        s.removed = append(s.removed, get(written))
        s.writes[lead] = None

    @action
    def Heed(s, r: Replica):
        place = s.heeds[r]
        when(place < size(s.removed), s.removed[place].epoch <= s.epoch[r])
        s.heeds[r] = s.heeds[r] + 1

    # -- copying and committing ----------------------------------------------------------------------------

    @action
    def Fetch(s, f: Replica, lead: Replica):
        s.fetch(f, lead)

    @action
    def Truncate(s, f: Replica, lead: Replica):
        s.truncate(f, lead)

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def StoredAsExpected(s):
        """What is committed followed, in its subject, on the record that its publisher expected."""

        def fits(i):
            entry = s.committed[i]
            wish = s.wish[entry.publisher]
            moments = numbers(get(wish).moment, size(s.removed) + 1)

            def follows(j):
                return s.last(s.committed, i, entry.subject, j) == get(wish).expected

            return And(is_some(wish), Exists(moments, follows))

        return Forall(indexes(s.committed), fits)

    @invariant
    def RefusedTruly(s):
        """While a publisher waited that was refused, there was a moment in which it was to be refused."""

        def truly(p):
            wish, judged = get(s.wish[p]), get(s.judged[p])
            told = get(s.answered[p])
            lengths = numbers(wish.since, told.committed + 1)
            moments = numbers(wish.moment, told.removed + 1)

            def other(k, j):
                return s.last(s.committed, k, wish.subject, j) != wish.expected

            seen = Exists(lengths, moments, other)
            return Or(judged.stored == 1, seen)

        return Forall(s.Publisher, lambda p: Or(is_none(s.answered[p]), truly(p)))

    @invariant
    def StoredIsThere(s):
        """Who is told that it was stored finds it there."""

        def there(p):
            judged = get(s.judged[p])
            i = judged.rests - 1
            found = And(judged.rests <= size(s.committed), s.committed[i].publisher == p)
            return Or(judged.stored == 0, found)

        return Forall(s.Publisher, lambda p: Or(is_none(s.answered[p]), there(p)))

    @sometimes
    def OneOfTwoIsRefused(s):
        """Two expect the same; one is stored, the other one is told no."""

        def so(p, q):
            one, other = get(s.judged[p]), get(s.judged[q])
            same = get(s.wish[p]).expected == get(s.wish[q]).expected
            return And(p != q, And(one.stored == 1, other.stored == 0), same)

        def both(p, q):
            return And(is_some(s.answered[p]), is_some(s.answered[q]))

        return Exists(s.Publisher, s.Publisher, lambda p, q: And(both(p, q), so(p, q)))

    @sometimes
    def WhatARefusalRestsOnIsLost(s):
        """It was not committed, and was cut: nobody may hear of that refusal."""

        def lost(p):
            judged = get(s.judged[p])
            return And(judged.stored == 0, size(s.log[judged.by]) < judged.rests)

        return Exists(s.Publisher, lambda p: And(is_some(s.judged[p]), lost(p)))
