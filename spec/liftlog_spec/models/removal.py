"""What is visible of a partition: a function of its two committed logs, whoever folds them and when.

Messages go for many causes: one is deleted, a subject is purged, a limit pushes the oldest out, a message
rolls up its subject, its time is over. Bytes cannot go at once, and not everywhere at once. So what is gone
is a *logical* set: a reader sees the committed data without it. The set has two sources.

    entries    of the journal (isr-pair) name what goes; they count when they are committed
    derived    what limits and roll-ups remove follows from the data themselves, without an entry

The second kind depends on the first: after a deletion there is room for one more. So copies that fold the
logs in different orders would keep different messages, were it not for the *stamp*: a data batch says how
many committed entries its leader had seen, and whoever folds it counts exactly these. What an entry removes
is hidden as soon as it is known; it *counts* from the first batch on that has seen it.

A copy need not fold from the beginning: a *snapshot* in the journal says what is counted as gone of the
data below y, and by how many entries; derivation goes on at y. Below y the bytes of what is gone may go
(thinning), and behind a snapshot the journal may start.

What is modelled. Two logs with committed and uncommitted parts, leaders that know less than what is
committed, leader changes that cut either log anywhere. Copies that fold records and entries in any order
that stamps allow. Deletion, purges of a key, of all, and of all but one; limits by key and their change;
roll-up; expiry with a marker. Snapshots, the journal's start, log starts, thinning, copies that start anew
with their own bytes or with those of the leader. A reader that looks twice.

What is abstracted. *Replication*: `isr-pair`. A copy reads what is committed in one step; what it has
copied and not folded is nowhere seen. *Batches*: one message each. *Limits* are by key; number and bytes of
all are of the same form, and with one key the same. *Time*: what may expire is due at any moment.
*Offsets*: only messages are in the data, so that no entry, stamp or snapshot takes one; that is the form of
it, not an invariant. *Loss* of committed records: ADR 0052 says what is left open.

Each variant breaks a rule:

    fold-without-stamp               a copy counts the entries that it has heard of
    limits-not-ordered               a limit is in force as soon as it is known
    removes-above-hw                 an entry names a record that is not committed
    removes-uncommitted              a leader hides what an uncommitted entry names
    derives-from-uncommitted         a leader hides what an uncommitted record pushes out
    purge-evaluated-on-uncommitted   a purge reaches to the leader's LEO
    purge-evaluated-once             over what a copy has folded by then, not over what it folds later
    purge-before-caught-up           a new leader purges to the HW it knows, which may be old
    keep-n-as-predicate              each copy finds out by itself which are the newest
    keep-n-counts-committed          the leader does, and forgets the removals that are on their way
    expiry-by-own-clock              each copy hides what is due
    expiry-before-marker             the removal is written before the marker is committed
    marker-repeated                  a new leader looks for markers in what it knows to be committed
    expiry-ends-with-marker          a new leader takes a marker for the whole expiry
    snapshot-merges-uncounted        a snapshot has what entries before it remove that its data have not seen
    snapshot-forgets-gone            a snapshot has only what was derived
    snapshot-forgets-limits          and no limit
    snapshot-without-start           and not what lies below the leader's log start, nor where that is
    gone-forgotten-before-start      nor what the leader has no bytes of
    start-past-uncounted             the journal starts at the snapshot, behind entries that count later
    start-before-snapshot-committed  the journal starts at a snapshot that may be cut
    thinned-above-y                  bytes go that a copy needs to fold
    thinned-when-gone                bytes go of what is gone now, and is not counted as gone below y
    thinned-folded-as-absent         a copy folds on over records that the leader has no bytes of
    reader-without-hw-j              a reader repeats the HW of the data only (R3)
"""

from __future__ import annotations

from liftlog_spec.lang import *
from liftlog_spec.models.removal_logs import RemovalLogs

UNFIT = ("thinned-when-gone", "thinned-above-y")
PAST = ("start-past-uncounted", "snapshot-merges-uncounted")


class Removal(RemovalLogs):
    """What the copies make of both logs, and what must always be true."""

    Replica, Place, Offset, Index = (
        RemovalLogs.Replica,
        RemovalLogs.Place,
        RemovalLogs.Offset,
        RemovalLogs.Index,
    )

    # -- folding -------------------------------------------------------------------------------------------

    @definition
    def Readable(s, r: Replica):
        """The next record is committed, has its bytes, and the copy has the entries that it has seen."""
        i = s.folded[r]
        if s.variant == "derives-from-uncommitted":
            committed = Or(i < s.hw_d, And(s.leader == r, i < size(s.data)))
        else:
            committed = i < s.hw_d
        return And(committed, ~member(i, s.thin[r]))

    @action
    def FoldRecord(s, r: Replica):
        """It counts the entries that its batch has seen, all of them and no others."""
        when(s.Readable(r))
        i = s.folded[r]
        before, seen = s.Stamped(i), s.Stamped(i + 1)
        if s.variant == "fold-without-stamp":
            before, seen = 0, s.heard[r]
        when(seen <= s.heard[r])
        limit = s.LimitAt(before, seen, s.limit[r])
        if s.variant == "limits-not-ordered":
            limit = s.LimitAt(before, s.heard[r], s.limit[r])
        base = union(s.counted[r], s.explicit(i, before, seen))
        counts = union(base, s.evicted(base, i, limit))
        if s.variant == "purge-evaluated-once":
            late = such_that(
                s.Place,
                lambda o: And(
                    o == i,
                    Exists(
                        numbers(0, s.heard[r]),
                        lambda p: And(s.journal[p].kind != "purged", s.Covers(p, o)),
                    ),
                ),
            )
        else:
            late = such_that(s.Place, lambda o: And(o == i, s.Covered(o, 0, s.heard[r])))
        s.folded[r] = i + 1
        s.limit[r] = limit
        s.counted[r] = counts
        s.gone[r] = union(s.gone[r], union(counts, late))

    @only("variant", "thinned-folded-as-absent", "thinned-above-y")
    @action
    def PassThinned(s, r: Replica):
        """There is no record, so there is nothing to count."""
        i = s.folded[r]
        when(i < s.hw_d, member(i, s.thin[r]))
        s.folded[r] = i + 1
        s.gone[r] = with_member(s.gone[r], i)
        s.counted[r] = with_member(s.counted[r], i)

    @action
    def FoldEntry(s, r: Replica):
        """What it removes is not shown from now on. What it means for limits, the next batch says."""
        p = s.heard[r]
        when(p < s.hw_j, s.cleaned <= p)
        now = such_that(s.Place, lambda o: And(o < s.folded[r], s.Covers(p, o)))
        if s.variant == "keep-n-as-predicate":
            e, mine = s.journal[p], s.gone[r]

            def older(o):
                return Exists(numbers(o + 1, e.below), lambda q: ~member(q, mine))

            kept = such_that(s.Place, lambda o: And(o < e.below, e.kind == "kept", older(o)))
            now = union(now, kept)
        s.heard[r] = p + 1
        s.gone[r] = union(s.gone[r], now)

    @only("variant", "removes-uncommitted")
    @action
    def ShowUncommitted(s, o: Place):
        """The leader hides what it has only written that it goes."""
        when(o < s.folded[s.leader], s.OnItsWay(o), ~member(o, s.gone[s.leader]))
        s.gone[s.leader] = with_member(s.gone[s.leader], o)

    @only("variant", "expiry-by-own-clock")
    @action
    def ExpireHere(s, r: Replica, o: Place):
        when(o < s.folded[r], ~member(o, s.gone[r]))
        s.gone[r] = with_member(s.gone[r], o)
        s.counted[r] = with_member(s.counted[r], o)

    # -- snapshots, the journal's start, restarts ------------------------------------------------------------

    @action
    def Snapshot(s):
        """What is counted as gone of what the leader has folded, and which entries that has seen."""
        lead = s.leader
        when(s.Snapshots > 0, s.folded[lead] > 0)
        runs, start = s.counted[lead], s.start[lead]
        limit = s.limit[lead]
        if s.variant == "snapshot-merges-uncounted":
            runs = union(runs, s.explicit(s.folded[lead], 0, size(s.journal)))
        elif s.variant == "snapshot-forgets-gone":
            runs = difference(runs, s.explicit(s.folded[lead], 0, s.hw_j))
        elif s.variant == "gone-forgotten-before-start":
            runs = difference(runs, s.thin[lead])
        elif s.variant == "snapshot-forgets-limits":
            limit = s.Limit
        runs = difference(runs, s.below(start))
        if s.variant == "snapshot-without-start":
            start = 0
        seen = s.Stamped(s.folded[lead])
        s.enter("gone", below=s.folded[lead], runs=runs, seen=seen, begin=start, limit=limit)

    @definition
    def Usable(s, g: Index):
        """A committed snapshot, with all the entries that its data have not seen."""
        e = s.journal[g]
        whole = s.cleaned <= (g if s.variant in PAST else e.seen)
        return And(g < s.hw_j, e.kind == "gone", whole)

    @definition
    def Fits(s, r: Replica, g: Index):
        """And it counts as gone whatever this copy has no bytes of."""
        e = s.journal[g]
        return subset(s.thin[r], union(union(e.runs, s.below(e.begin)), s.from_on(e.below)))

    def from_on(s, begin):
        return such_that(s.Place, lambda o: begin <= o)

    @action
    def CleanJournal(s, g: Index):
        """C3: the journal's start moves to the first entry that the snapshot's data have not seen."""
        when(g < size(s.journal), s.journal[g].kind == "gone")
        if s.variant != "start-before-snapshot-committed":
            when(g < s.hw_j)
        start = g if s.variant in PAST else s.journal[g].seen
        when(s.cleaned < start)
        s.cleaned = start

    def begin_anew(s, r):
        s.folded[r] = 0
        s.heard[r] = 0
        s.limit[r] = s.Limit
        s.restarts = s.restarts + 1

    @action
    def Restart(s, r: Replica):
        """It has its bytes, and folds anew: from the beginning, or from a snapshot."""
        when(r != s.leader, s.restarts < s.Restarts, Or(s.folded[r] > 0, s.heard[r] > 0))
        s.begin_anew(r)
        s.counted[r] = s.below(s.start[r])
        s.gone[r] = s.below(s.start[r])

    @action
    def MakeAnew(s, r: Replica):
        """A lost disk, a new copy: it has the bytes that the leader has."""
        when(r != s.leader, s.restarts < s.Restarts)
        when(Or(s.thin[r] != s.thin[s.leader], s.start[r] != s.start[s.leader]))
        s.begin_anew(r)
        s.thin[r] = s.thin[s.leader]
        s.start[r] = s.start[s.leader]
        s.counted[r] = s.below(s.start[s.leader])
        s.gone[r] = s.below(s.start[s.leader])

    @action
    def BeginAtSnapshot(s, r: Replica, g: Index):
        """Whoever cannot go on, or has just begun: what is counted below y, and what came after is hidden."""
        when(r != s.leader, g < size(s.journal))
        when(s.Usable(g))
        if s.variant not in UNFIT:
            when(s.Fits(r, g))
        e = s.journal[g]
        end = s.folded[r]
        missing = Or(s.heard[r] < s.cleaned, And(end < s.Records, member(end, s.thin[r])))
        when(Or(And(end == 0, s.heard[r] == 0), missing), Or(end < e.below, s.heard[r] <= g))
        start = maximum(s.start[r], e.begin)
        counted = union(e.runs, s.below(start))
        since = maximum(e.seen, s.cleaned)
        s.folded[r] = e.below
        s.heard[r] = g + 1
        s.limit[r] = e.limit
        s.counted[r] = counted
        s.gone[r] = union(counted, s.explicit(e.below, since, g + 1))
        s.start[r] = start
        s.thin[r] = union(s.thin[r], s.below(start))

    @definition
    def Settled(s, r: Replica, o: Place):
        """A committed snapshot that the copy has come past counts it as gone: nobody will count it again."""

        def counts(g):
            e = s.journal[g]
            begun = And(e.kind == "gone", e.below <= s.folded[r])
            if s.variant == "thinned-when-gone":
                return And(begun, o < e.below)
            return And(begun, Or(member(o, e.runs), o < e.begin))

        return Exists(numbers(0, s.heard[r]), counts)

    @action
    def Thin(s, r: Replica, o: Place):
        """Its bytes go."""
        when(s.Thinned > 0, member(o, s.gone[r]), ~member(o, s.thin[r]))
        if s.variant != "thinned-above-y":
            when(s.Settled(r, o))
        s.thin[r] = with_member(s.thin[r], o)

    @action
    def MoveStart(s, r: Replica):
        """C3: a front that is all gone is cut off, and its bits are forgotten."""
        o = s.start[r]
        when(s.Starts > 0, o < s.Records)
        when(member(o, s.gone[r]), s.Settled(r, o))
        s.start[r] = o + 1
        s.thin[r] = with_member(s.thin[r], o)

    @action
    def Look(s, r: Replica):
        """R3: a reader remembers how much of either log it was answered from."""
        when(s.Looks > 0, is_none(s.reader))
        s.reader = {"at": s.folded[r], "seen": s.heard[r], "gone": s.Hidden(r)}

    # -- properties ----------------------------------------------------------------------------------------

    @definition
    def Hidden(s, r: Replica):
        """What is gone of that which it would show."""
        return such_that(s.Place, lambda o: And(o < s.folded[r], member(o, s.gone[r])))

    @invariant
    def SameVisible(s):
        """Two copies that have folded the same of both logs show the same."""

        def same(a, b):
            as_far = And(s.folded[a] == s.folded[b], s.heard[a] == s.heard[b])
            return Implies(as_far, s.Hidden(a) == s.Hidden(b))

        return Forall(s.Replica, s.Replica, same)

    @invariant
    def NoResurrection(s):
        """What a reader saw to be gone stays so, at whichever copy answers it."""

        def answers(r):
            me = get(s.reader)
            if s.variant == "reader-without-hw-j":
                return me.at <= s.folded[r]
            return And(me.at <= s.folded[r], me.seen <= s.heard[r])

        def kept(r):
            asks = If(is_some(s.reader), answers(r), False)
            return Implies(asks, subset(get(s.reader).gone, s.gone[r]))

        return Forall(s.Replica, kept)

    @definition
    def PushedOut(s, o: Place):
        """As many newer ones of its key as some limit allows, or one that rolled it up."""
        least_limit = least(
            s.Index,
            lambda p: If(And(p < s.hw_j, s.journal[p].kind == "limits"), s.journal[p].limit, s.Limit),
        )
        later = numbers(o + 1, s.hw_d)
        newer = count(later, lambda q: s.data[q].key == s.data[o].key)
        rolled = Exists(later, lambda q: And(s.data[q].rolls, s.data[q].key == s.data[o].key))
        return Or(newer >= least_limit, rolled)

    @invariant
    def NothingElseGone(s):
        """Each for a cause: an entry of its epoch or a later one, limits, a roll-up. None is born gone."""

        def meant(o, p):
            e = s.journal[p]
            named = s.Covers(p, o)
            if s.variant == "keep-n-as-predicate":
                named = Or(named, And(e.kind == "kept", o < e.below))
            return And(named, s.data[o].epoch <= e.epoch)

        def caused(r, o):
            named = Exists(numbers(0, s.hw_j), lambda p: meant(o, p))
            return Implies(And(o < s.hw_d, member(o, s.gone[r])), Or(named, s.PushedOut(o)))

        return Forall(s.Replica, s.Place, caused)

    @invariant
    def OnlyCommittedRemoves(s):
        """Committed entries name committed records, and what is hidden is so by what is committed."""

        def named(p):
            e = s.journal[p]
            return And(subset(e.runs, s.below(s.hw_d)), e.below <= s.hw_d)

        hidden = Forall(s.Replica, lambda r: subset(s.gone[r], s.below(s.hw_d)))
        return And(hidden, Forall(numbers(0, s.hw_j), named))

    @invariant
    def ThinnedIsGone(s):
        """No bytes are missing of what anybody may be shown."""
        everything = s.Visible(s.hw_d, s.hw_j)
        return Forall(s.Replica, lambda r: subset(s.thin[r], everything))

    @invariant
    def BytesWhereNeeded(s):
        """A copy has the bytes of all that it shows, and of all that limits may still have to count."""

        def needs(r, o):
            return And(o < s.folded[r], ~member(o, s.counted[r]))

        return Forall(s.Replica, s.Place, lambda r, o: Implies(needs(r, o), ~member(o, s.thin[r])))

    @invariant
    def CopyCanBegin(s):
        """What was cleaned or thinned, a committed snapshot begins behind."""

        def can(r, g):
            return And(s.Usable(g), s.Fits(r, g), subset(s.thin[r], s.below(s.journal[g].below)))

        def begins(r):
            needs = Or(s.cleaned > 0, size(s.thin[r]) > 0)
            return Implies(needs, Exists(indexes(s.journal), lambda g: can(r, g)))

        return Forall(s.Replica, begins)

    @invariant
    def PurgeTakesAll(s):
        """What was committed before the leader's epoch, and may have been acknowledged, is in its purges."""

        def takes(p):
            e = s.journal[p]
            older = count(numbers(0, s.hw_d), lambda i: s.data[i].epoch < e.epoch)
            return Implies(e.kind == "purged", older <= e.below)

        return Forall(numbers(0, s.hw_j), takes)

    @invariant
    def KeepsNewest(s):
        """Who keeps one keeps one, if there was one."""

        def keeps(p):
            e = s.journal[p]
            places = numbers(0, e.below)
            had = Exists(places, lambda o: s.Kept(o, e.below, p))
            left = Exists(places, lambda o: And(s.Kept(o, e.below, p), ~member(o, e.runs)))
            return Implies(And(e.kind == "removed", e.below > 0, had), left)

        return Forall(numbers(0, s.hw_j), keeps)

    @invariant
    def MarkerFirst(s):
        """Nothing has expired of which no marker tells."""

        def told(p, o):
            e = s.journal[p]
            return Implies(And(e.kind == "expired", member(o, e.runs)), s.MarkedBelow(o, s.hw_d))

        return Forall(numbers(0, s.hw_j), s.Place, told)

    @invariant
    def OneMarker(s):
        """And no two do."""

        def two(i, j):
            both = And(is_some(s.data[i].marks), s.data[i].marks == s.data[j].marks)
            return And(i != j, both)

        committed = numbers(0, s.hw_d)
        return ~Exists(committed, committed, two)

    @invariant
    def ExpiryGoesOn(s):
        """What is due and marked can be removed by whoever leads."""

        def goes_on(o):
            due = And(s.CaughtUp(), s.Due(o))
            return Implies(due, Implies(s.MarkedBelow(o, s.folded[s.leader]), s.MayExpire(o)))

        return Forall(s.Place, goes_on)

    # -- signs of life -------------------------------------------------------------------------------------

    @sometimes
    def FoldedInAnotherOrder(s):
        """One copy has more of the data, the other one more of the journal, and neither waits for stamps."""

        def crossed(a, b):
            return And(s.folded[a] < s.folded[b], s.heard[b] < s.heard[a], size(s.gone[a]) > 0)

        return Exists(s.Replica, s.Replica, crossed)

    @sometimes
    def HiddenAndNotCounted(s):
        return Exists(s.Replica, lambda r: s.gone[r] != s.counted[r])

    @sometimes
    def ADeletionMakesRoom(s):
        """A record stays because of a deletion that its successor's batch has seen."""

        def stays(o):
            newer = count(numbers(o + 1, s.hw_d), lambda q: s.data[q].key == s.data[o].key)
            return And(newer >= s.Limit, ~member(o, s.truth[s.hw_d]))

        return Exists(numbers(0, s.hw_d), stays)

    @sometimes
    def JournalWithoutItsBeginning(s):
        """A copy has begun there and gone on."""

        def gone_on(r):
            return And(s.heard[r] > s.cleaned, size(s.thin[r]) > 0, s.folded[r] > 1)

        return And(s.cleaned > 0, s.restarts > 0, Exists(s.Replica, gone_on))

    @sometimes
    def BothAreCut(s):
        """A leader change may cut the ends of both logs."""
        return And(s.hw_d < size(s.data), s.hw_j < size(s.journal), s.epoch < s.Epochs)
