"""Filtered reads: a reader that is sent what matches, and told up to where was looked.

A partition's log grows, is deleted from, and begins later; its leaders change. Any copy answers, by what it
knows to be committed and to be deleted, which may be less than another one has told before. The reader asks
from its position on; the answer has what matches from there up to where was looked, and the reader goes on
there. Nothing is kept of it anywhere else.

- *What had no room lies where was looked, or above.* Who says that he looked further leaves it out for good.
- *Where nothing matches was looked, too.* The end of what is sent is no position: nobody comes past a stretch
  without a match.
- *Only below a HW is looked.* What lies above may be another record later.
- *A copy that has heeded less of the journal than the reader has seen does not answer.*
- *An index says up to where it knows.* That it knows of no match says nothing of what lies behind.
- *An answer is to one question*: the newest one. Another position belongs to it.
- *Who is below the start of the log goes on at the start.*

What is abstracted. *Replication*, told as what is committed and what a new leader keeps of the rest; a copy
knows any part of what is committed and deleted, more or less than before, since it may begin again. *Whether
a record matches* is the record's. *Compaction*: a record that it may take is sent or not. *Bytes*: an answer
has room for so many records, and looks as far as it likes.

    skips-the-rest        was looked further than what had room
    looks-above-hw        a copy looks at all that it has
    ends-with-a-match     the position follows what is sent
    index-to-the-end      where an index knows of no match there is none
    older-answer          an answer to an earlier question is taken
    journal-not-minded    a copy that has heeded less answers
    goes-on-at-the-end    who is below the start of the log goes on at its end
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *


class FilteredReads(Model):
    """One partition and one reader with a filter."""

    variant = Setting(
        "right",
        "skips-the-rest",
        "looks-above-hw",
        "ends-with-a-match",
        "index-to-the-end",
        "older-answer",
        "journal-not-minded",
        "goes-on-at-the-end",
    )
    Copies = Constant(2)
    Records = Constant(2)
    Room = Constant(1)
    """So many records have room in an answer."""
    Elections = Constant(1)
    Deletes = Constant(1)
    Trims = Constant(1)
    Thinned = Constant(0)

    Copy = Sort(Copies)
    Offset = Range(0, Records - 1)
    Count = Range(0, Records)
    Heeded = Range(0, Deletes)
    Answer = Record(at=Count, looked=Count, found=Set(Offset), heeded=Heeded, more=Bool)
    """`more`: the copy knows more to be committed than lies below the asked offset."""

    end = Var(Count)
    """Of the log, as the present leader has it."""
    wanted = Var(Set(Offset))
    """Those of its records that match."""
    hw = Var(Count)
    elections = Var(Range(0, Elections))
    journal = Var(Seq(Set(Offset), Deletes))
    """By each committed entry: what was deleted up to there."""
    start = Var(Count)
    trims = Var(Range(0, Trims))
    spare = Var(Set(Offset))
    """What compaction has taken from some copy."""

    known = Var(Fn(Copy, Count))
    """The HW of each copy."""
    heeds = Var(Fn(Copy, Heeded))
    thinned = Var(Fn(Copy, Set(Offset)))

    position = Var(Count)
    has = Var(Set(Offset))
    twice = Var(Bool)
    """Something was taken that it had."""
    seen = Var(Heeded)
    """Of the journal, by what the reader was told."""
    answer = Var(Option(Answer))
    """To the newest question."""
    late = Var(Option(Answer))
    """To one before, which may come yet."""

    # -- words ---------------------------------------------------------------------------------------------

    def is_deleted(s, at, heeded):
        return And(heeded > 0, member(at, s.journal[heeded - 1]))

    def all_deleted(s):
        return If(size(s.journal) > 0, last(s.journal), [])

    def is_due(s, at):
        """If it matches, nobody may leave it out."""
        return And(~s.is_deleted(at, size(s.journal)), ~member(at, s.spare))

    def is_sent(s, c, at):
        """If it matches, as far as this copy knows."""
        return And(~s.is_deleted(at, s.heeds[c]), ~member(at, s.thinned[c]))

    # -- the log -------------------------------------------------------------------------------------------

    @action
    def Write(s, matches: Bool):
        when(s.end < s.Records)
        s.end = s.end + 1
        s.wanted = If(matches, with_member(s.wanted, s.end), s.wanted)

    @action
    def Commit(s, end: Count):
        when(s.hw < end, end <= s.end)
        s.hw = end

    @action
    def Elect(s, end: Count):
        """Another one leads, which has this much."""
        when(s.elections < s.Elections, s.hw <= end, end <= s.end)
        s.elections = s.elections + 1
        s.end = end
        s.wanted = such_that(s.wanted, lambda i: i < end)

    @action
    def Delete(s, at: Offset):
        when(at < s.hw, size(s.journal) < s.Deletes, ~member(at, s.all_deleted()))
        s.journal = append(s.journal, with_member(s.all_deleted(), at))

    @action
    def Trim(s, to: Count):
        """The log begins later: retention, or a purge."""
        when(s.trims < s.Trims, s.start < to, to <= s.hw)
        s.trims = s.trims + 1
        s.start = to

    @action
    def Thin(s, c: Copy, at: Offset):
        """Compaction takes it from this copy."""
        when(at < s.known[c], ~member(at, s.thinned[c]), size(with_member(s.spare, at)) <= s.Thinned)
        s.spare = with_member(s.spare, at)
        s.thinned[c] = with_member(s.thinned[c], at)

    @action
    def FetchAnew(s, c: Copy):
        """A copy has lost all that it had, and has it from one that compaction has taken less of."""
        when(size(s.thinned[c]) > 0)
        s.thinned[c] = []

    @action
    def Hear(s, c: Copy, end: Count, heeded: Heeded):
        """A copy knows this much to be committed, and to be deleted: more than before, or less, since it has
        begun again.
        """
        when(end <= s.hw, heeded <= size(s.journal))
        s.known[c] = end
        s.heeds[c] = heeded

    # -- the reader ----------------------------------------------------------------------------------------

    @action
    def Ask(s, c: Copy, looked: Count):
        """The reader asks from its position on; a copy looks, and answers."""
        reach = s.known[c] if s.variant != "looks-above-hw" else s.end
        when(is_none(s.answer), s.position <= looked, looked <= maximum(reach, s.position))
        if s.variant != "journal-not-minded":
            when(s.seen <= s.heeds[c])
        there = such_that(s.wanted, lambda i: And(s.position <= i, i < looked, s.is_sent(c, i)))
        found = there
        if s.variant == "skips-the-rest":
            found = such_that(there, lambda i: count(there, lambda j: j < i) < s.Room)
        when(size(found) <= s.Room)
        if s.variant == "ends-with-a-match":
            when(If(size(found) == 0, looked == s.position, member(looked - 1, found)))
        else:
            when(Or(s.position < looked, s.known[c] <= s.position))
        s.answer = {
            "at": s.position,
            "looked": looked,
            "found": found,
            "heeded": s.heeds[c],
            "more": s.position < s.known[c],
        }

    def takes(s, answer):
        """What the reader does with an answer."""
        s.has = union(s.has, answer.found)
        s.twice = Or(s.twice, size(intersection(s.has, answer.found)) > 0)
        s.seen = maximum(s.seen, answer.heeded)
        s.position = answer.looked

    @action
    def Take(s):
        """The answer comes."""
        when(is_some(s.answer))
        s.takes(get(s.answer))
        s.answer = None

    @action
    def GiveUp(s):
        """The answer does not come in time: the reader asks again."""
        when(is_some(s.answer))
        if s.variant == "older-answer":
            s.late = s.answer
        s.answer = None

    @only("variant", "older-answer")
    @action
    def TakeLate(s):
        """It comes all the same."""
        when(is_some(s.late), is_none(s.answer))
        s.takes(get(s.late))
        s.late = None

    @action
    def Leap(s, c: Copy, indexed: Count):
        """A copy's index, which knows what lies below `indexed`, knows of no match from the position on."""
        when(is_none(s.answer), s.position < indexed, indexed <= s.known[c], s.seen <= s.heeds[c])
        when(Forall(s.wanted, lambda i: Implies(And(s.position <= i, i < indexed), ~s.is_due(i))))
        s.position = indexed if s.variant != "index-to-the-end" else s.known[c]

    @action
    def BeginLater(s, c: Copy):
        """The log begins behind the position, says a copy."""
        when(is_none(s.answer), s.position < s.start, s.start <= s.known[c])
        s.position = s.start if s.variant != "goes-on-at-the-end" else s.known[c]

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def HasWhatIs(s):
        """What the reader has is committed, matches, and lies below its position."""
        return Forall(s.has, lambda i: And(i < s.hw, i < s.position, member(i, s.wanted)))

    @invariant
    def NothingLeftOut(s):
        """What matches below the position it has, but for what is gone."""

        def is_there(i):
            below = And(i < s.position, s.start <= i, s.is_due(i))
            return Implies(below, member(i, s.has))

        return Forall(s.wanted, is_there)

    @invariant
    def EachOnce(s):
        """Nothing comes again."""
        return ~s.twice

    @invariant
    def DeletedIsNotSent(s):
        """What the reader was told to be deleted, it is not sent any more."""

        def good(answer):
            return Forall(answer.found, lambda i: ~s.is_deleted(i, s.seen))

        return Implies(is_some(s.answer), good(get(s.answer)))

    @invariant
    def ComesOn(s):
        """Where there is more to look at, an answer says a later position, though nothing matches."""
        one = get(s.answer)
        return Implies(is_some(s.answer), Or(one.at < one.looked, ~one.more))

    @sometimes
    def HasAllOfIt(s):
        """Through an election and a deletion, with one that does not match."""
        through = And(s.elections == 1, size(s.journal) == 1, s.position == s.Records)
        return And(through, size(s.has) > 0, size(s.wanted) < s.Records)
