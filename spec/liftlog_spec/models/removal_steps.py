"""Removal as it is built (R21): an entry names all that goes, so nothing is derived and no batch has a stamp.

`removal` is the design, with limits and roll-ups that copies derive from the data. This is what of it there
is, in the program's steps; what the program does is held against it. A copy's data count as folded as far as
it knows them to be committed; one that starts, or whose journal begins anew, has folded nothing of either log
before it knows what is gone. Here are, that are not there:

    an answer         to who deletes or purges: when the entry is committed
    a purge           counts what is to stay, and names what goes of a key, a part after the other, each when
                      the one before is committed
    a restatement     entries that name again what is gone, and one that says where in the journal it began,
                      and where the data did; who begins there has heard no entry before
    a reader          looks as often as it likes, at what a copy had when it was asked

What is left out of `removal`: limits, roll-ups and expiry (the program has them, and they write entries:
`subject-limits`, `front-limits`, `roll-ups`, `times-to-live`); bytes that go one by one; a lost disk, which
is a restart here. A log start moves over what entries name; the program demands that of nobody.

    answered-at-append      a deletion is answered when it is written
    restated-in-part        a restatement ends when it has not named all that is gone
    begins-unseen           a copy begins where the journal does, and shows what it has not heard to be gone
    names-uncommitted       a purge reaches to the leader's LEO
    reader-without-hw-j     a reader does not say how far it has heard (R3)
"""

from __future__ import annotations

from liftlog_spec.lang import *
from liftlog_spec.models.removal import Removal
from liftlog_spec.models.removal_logs import RemovalLogs


class RemovalSteps(Removal):
    """See the module."""

    variant = Setting(
        "right",
        "answered-at-append",
        "restated-in-part",
        "begins-unseen",
        "names-uncommitted",
        "reader-without-hw-j",
    )
    Replica, Key, Place, Offset, Index, Count = (
        RemovalLogs.Replica,
        RemovalLogs.Key,
        RemovalLogs.Place,
        RemovalLogs.Offset,
        RemovalLogs.Index,
        RemovalLogs.Count,
    )
    Limit = Constant(1)
    """There is none."""

    Asked = Record(key=Option(Key), below=Offset, keep=Offset, counts=Bool, at=Offset, end=Count)
    """A purge: of `key`, or of any, below an offset, but the newest `keep`. `counts`: where these begin is to
    be found, and then all `below` that goes. `at`: what is below is named; the next part waits for entries
    below `end`."""

    asked = Var(Option(Asked))
    """The purge that is under way, if the leader has one."""
    answered = Var(Count)
    """Who was answered relies on the entries below."""

    Purge = PurgeKey = PurgeKeeping = Lower = Mark = Expire = Thin = MakeAnew = None
    BytesWhereNeeded = PurgeTakesAll = KeepsNewest = MarkerFirst = OneMarker = ExpiryGoesOn = None
    HiddenAndNotCounted = ADeletionMakesRoom = None

    # -- the two logs --------------------------------------------------------------------------------------

    def publish(s, key, rolls, marks):
        """No stamp."""
        when(size(s.data) < s.Records)
        s.data = append(
            s.data, {"epoch": s.epoch, "key": key, "stamp": 0, "rolls": rolls, "marks": marks}
        )

    def evicted(s, base, i, limit):
        """Nothing is derived."""
        return difference(base, base)

    @action
    def Elect(s, to: Replica, data: Offset, journal: Count):
        """As there; who led may lead again. It knows nothing of a purge."""
        when(s.epoch < s.Epochs)
        when(s.hw_d <= data, data <= size(s.data), s.hw_j <= journal, journal <= size(s.journal))
        s.epoch = s.epoch + 1
        s.leader = to
        s.data = prefix(s.data, data)
        s.journal = prefix(s.journal, journal)
        s.asked = None

    @action
    def Answer(s, end: Count):
        """Who has deleted, when the entry below `end` is committed."""
        when(s.answered < end)
        when(end <= (size(s.journal) if s.variant == "answered-at-append" else s.hw_j))
        s.answered = end

    @action
    def Delete(s, o: Place):
        """One message, below the leader's HW. A purge may have named it, and that is on its way."""
        when(s.Deletes > 0)
        s.may_decide()
        when(o < s.folded[s.leader], ~member(o, s.gone[s.leader]))
        s.enter("removed", runs=such_that(s.Place, lambda q: q == o))

    # -- purges --------------------------------------------------------------------------------------------

    def ask_purge(s, key, below, keep):
        when(s.Purges > 0, is_none(s.asked), below > 0)
        s.may_decide()
        when(below <= (size(s.data) if s.variant == "names-uncommitted" else s.folded[s.leader]))
        s.asked = {"key": key, "below": below, "keep": keep, "counts": keep > 0, "at": 0, "end": 0}

    @action
    def AskPurge(s, below: Offset, keep: Offset):
        s.ask_purge(None, below, keep)

    @action
    def AskPurgeOfKey(s, key: Key, below: Offset, keep: Offset):
        s.ask_purge(key, below, keep)

    def matches(s, o, gone):
        """Of the purge, and there as far as its leader knew."""
        key = get(s.asked).key
        there = And(o < get(s.asked).below, o >= s.start[s.leader], ~gone)
        return And(there, Implies(is_some(key), key == s.data[o].key))

    @action
    def CountKept(s):
        """When the leader has heard of all that is on its way: below which offset all goes that matches."""
        when(is_some(s.asked))
        purge, mine = get(s.asked), s.gone[s.leader]
        when(purge.counts, Forall(s.Place, lambda o: Implies(s.OnItsWay(o), member(o, mine))))

        def stays(o):
            return s.matches(o, member(o, mine))

        def newest(o):
            return count(numbers(o, purge.below), stays) == purge.keep

        found = greatest(s.Place, lambda o: If(And(stays(o), newest(o)), o, 0))
        s.asked = having(purge, counts=False, below=found)

    def part(s, end, known):
        """What goes up to `end`, as was looked for when the leader had heard the entries below `known`."""
        when(is_some(s.asked))
        purge = get(s.asked)
        when(~purge.counts, purge.at < end, end <= purge.below)
        when(purge.end <= known, known <= s.heard[s.leader])

        def goes(o):
            return And(purge.at <= o, o < end, s.matches(o, s.Covered(o, 0, known)))

        return such_that(s.Place, goes)

    @action
    def NamePart(s, end: Offset, known: Count, more: Bool):
        """`more`: the next part comes with it, of another epoch."""
        runs, purge = s.part(end, known), get(s.asked)
        when(size(runs) > 0)
        s.enter("removed", runs=runs)
        s.asked = having(purge, at=end, end=If(more, purge.end, size(s.journal) + 1))

    @action
    def PassPart(s, end: Offset, known: Count):
        """Nothing goes there."""
        when(size(s.part(end, known)) == 0)
        s.asked = having(get(s.asked), at=end, end=size(s.journal))

    @action
    def AnswerPurge(s):
        """All is named that goes, and that is committed."""
        when(is_some(s.asked))
        purge = get(s.asked)
        when(~purge.counts, purge.at >= purge.below)
        if s.variant != "answered-at-append":
            when(purge.end <= s.hw_j)
        s.asked = None
        s.answered = maximum(s.answered, purge.end)

    @action
    def GiveUpPurge(s):
        """It took too long, or nobody waits for it."""
        when(is_some(s.asked))
        s.asked = None

    # -- restatements --------------------------------------------------------------------------------------

    @action
    def SayAgain(s, seen: Count, low: Offset, high: Offset):
        """What the entries below `seen` name of the data in [low, high)."""
        when(s.Snapshots > 0, seen <= s.heard[s.leader])
        runs = such_that(s.Place, lambda o: And(low <= o, o < high, s.Covered(o, 0, seen)))
        when(size(runs) > 0)
        s.enter("removed", runs=runs)

    @action
    def Snapshot(s, seen: Count, begin: Offset):
        """What the entries below `seen` name, those behind name again, but for what lies below `begin`."""
        when(s.Snapshots > 0, seen > 0, seen <= s.heard[s.leader], begin <= s.start[s.leader])
        before = difference(such_that(s.Place, lambda o: s.Covered(o, 0, seen)), s.below(begin))
        if s.variant != "restated-in-part":
            when(subset(before, such_that(s.Place, lambda o: s.Covered(o, seen, size(s.journal)))))
        s.enter("gone", seen=seen, begin=begin)

    # -- copies --------------------------------------------------------------------------------------------

    @action
    def FoldRecord(s, r: Replica):
        """It knows that this is committed."""
        when(s.folded[r] < s.hw_d)
        s.folded[r] = s.folded[r] + 1

    @action
    def FoldEntry(s, r: Replica):
        p = s.heard[r]
        when(p < s.hw_j, s.cleaned <= p)
        s.heard[r] = p + 1
        s.gone[r] = union(s.gone[r], such_that(s.Place, lambda o: s.Covers(p, o)))

    @action
    def BeginAtSnapshot(s, r: Replica, g: Index):
        """With what entries name from where it began, and nothing from before: these may be there no more."""
        when(g < size(s.journal), s.folded[r] == 0, s.heard[r] == 0)
        when(s.Usable(g))
        e = s.journal[g]
        start = maximum(s.start[r], e.begin)
        s.heard[r] = g + 1
        s.gone[r] = union(s.below(start), such_that(s.Place, lambda o: s.Covered(o, e.seen, g + 1)))
        s.start[r] = start
        s.thin[r] = union(s.thin[r], s.below(start))

    @only("variant", "begins-unseen")
    @action
    def BeginUnseen(s, r: Replica):
        when(s.folded[r] == 0, s.heard[r] < s.cleaned)
        s.heard[r] = s.cleaned

    @action
    def Restart(s, r: Replica):
        """It starts, or reads its journal anew: it shows nothing before it knows what is gone."""
        when(s.restarts < s.Restarts, Or(s.folded[r] > 0, s.heard[r] > 0))
        s.begin_anew(r)
        s.gone[r] = s.below(s.start[r])

    @action
    def MoveStart(s, r: Replica):
        """C3: a front of which committed entries say that it is gone."""
        o = s.start[r]
        when(s.Starts > 0, o < s.hw_d)
        when(s.Covered(o, 0, s.hw_j))
        s.start[r] = o + 1
        s.gone[r] = with_member(s.gone[r], o)
        s.thin[r] = with_member(s.thin[r], o)

    @action
    def Look(s, r: Replica, at: Offset, seen: Count):
        """R3: from a copy that has all that the reader has seen; it may have come further meanwhile."""
        when(s.Looks > 0, at <= s.folded[r], seen <= s.heard[r])
        old = get(s.reader)
        enough = old.at <= at if s.variant == "reader-without-hw-j" else And(old.at <= at, old.seen <= seen)
        when(If(is_some(s.reader), enough, True))
        gone = difference(s.Visible(at, seen), s.below(s.start[r]))
        s.reader = {"at": at, "seen": seen, "gone": gone}

    # -- properties ----------------------------------------------------------------------------------------

    @definition
    def Hidden(s, r: Replica):
        """What is gone of that which it would show."""
        return such_that(s.Place, lambda o: And(s.start[r] <= o, o < s.folded[r], member(o, s.gone[r])))

    @definition
    def PushedOut(s, o: Place):
        """Nothing is."""
        return s.hw_d < 0

    @invariant
    def SameVisible(s):
        """Copies that have heard as much of the journal hide the same of what both have."""

        def same(a, b):
            begin, end = maximum(s.start[a], s.start[b]), minimum(s.folded[a], s.folded[b])

            def alike(o):
                return member(o, s.gone[a]) == member(o, s.gone[b])

            return Implies(s.heard[a] == s.heard[b], Forall(numbers(begin, end), alike))

        return Forall(s.Replica, s.Replica, same)

    @invariant
    def HiddenIsThatOfTheJournal(s):
        """What a copy hides its entries name, from the first one on, and nothing else."""

        def as_defined(r):
            return s.Hidden(r) == difference(s.Visible(s.folded[r], s.heard[r]), s.below(s.start[r]))

        return Forall(s.Replica, as_defined)

    @invariant
    def CopyCanBegin(s):
        """Where entries were cleaned away, a committed snapshot says again what they said."""
        return Implies(s.cleaned > 0, Exists(indexes(s.journal), lambda g: s.Usable(g)))

    @invariant
    def AnsweredStays(s):
        """No election takes away what was answered."""
        return s.answered <= size(s.journal)

    @sometimes
    def APurgeNamesTwo(s):
        return Exists(indexes(s.journal), lambda p: And(s.hw_j > p, size(s.journal[p].runs) > 1))

    @sometimes
    def JournalWithoutItsBeginning(s):
        """A copy has begun there and gone on."""
        return And(s.cleaned > 0, s.restarts > 0, Exists(s.Replica, lambda r: s.heard[r] > s.cleaned))
