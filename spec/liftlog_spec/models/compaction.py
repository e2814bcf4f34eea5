"""Compaction and tombstones across the copies of one partition: rules C1, C2, C3, C5 and D2.

Each replica compacts its own copy when it likes and as far as it likes, and copies from leaders that have
compacted more, or less, than itself; so no two copies need hold the same records. A record may be missing
for two reasons: a later committed one has its key, or it is a tombstone and C2 let it go. C2 is the hard
one. A tombstone may go when no copy has an older record of its key and none can get one. Nobody sees all
copies, so a leader takes the least of the clean points that were reported to it, in its epoch, by the
present run of every replica, in sync or not: below that offset, the *horizon*, no copy has two records of
one key, and what was a horizon once stays one.

What is modelled. Records with a key, values and tombstones. Runs of compaction: a map of what lies between
the clean point and any end, the rewriting of one offset at a time, the end of the run; a run may be thrown
away at any moment. Copying offset by offset, with or without a record. Leaders of several epochs at once,
each with its own knowledge. Lost disks, and leaders that have not heard of it. Damage, the question for the
range, the answer on its way, and the repair. Late reports. Retention, log starts that followers take over,
and copies that begin there.

What is abstracted. *Replication* as far as the model `isr` shows it: ISR changes and commits are one step,
a joiner has what is committed, all that is written is durable, leaders with damage have handed over before
they find it. *Sealed segments*: a run may end at any offset at or below the HW, so every place of the
active segment is covered, and so is a map that was full. *A crash* is a run that is thrown away: what else
is lost, the HW and the horizon, can only keep records longer. *Time*: the retention of tombstones, of which
only slow readers notice (C4), is over at any moment. *Records without a key* are never touched. *Messages*
as in `isr`: a fetch and its answer are one step; that a question may also arrive later is in it (`Delays`),
and so is the answer to a repair.

There is an unbounded proof of the heart of this, liftlog_spec/proofs/compaction.py; here are the ways a
leader's knowledge gets old, which the proof leaves out. Each variant breaks a rule:

    compacts-above-hw          a record that is not committed takes the place of one that is (C1)
    clean-before-rewritten     the clean point is durable before the files are (C1)
    clean-beyond-the-map       the map was full, and the clean point moves to where the run was to go (C1)
    swap-not-atomic            a crash while a file is exchanged loses what was to stay (D4)
    holes-are-skipped          a follower gives the next record the next offset (C5)
    own-clean-point            a tombstone goes once this copy is clean, whoever is down (C2; KAFKA-4529)
    isr-clean-points           the least is taken over the ISR (C2)
    wipe-keeps-clean-point     an empty disk's copy keeps the clean point of the one before (C2, I2)
    repair-keeps-clean-point   so does a copy that got records back (C2, D2)
    damaged-copy-claims-clean  what is damaged counts as clean while its repair is on its way (C2, D2)
    report-of-earlier-run      a leader keeps what the run before the lost disk had reported (C2, I2)
    report-of-earlier-epoch    a leader that is elected again keeps what it knew (C2)
    late-report-counts         an older question counts after a newer one (C2)
    report-only-grows          a clean point is taken for something that never goes back (C2)
    slow-reader-not-told       a reader goes on where tombstones were dropped that it has not reached (C4)
    holes-count-as-dropped     any hole that is copied raises the mark that readers remember (C4)
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *
from liftlog_spec.models.compaction_copies import Copies


class Compaction(Copies):
    """What a replica does with its own copy, and what must always be true."""

    Replica, Place, Offset, Key = Copies.Replica, Copies.Place, Copies.Offset, Copies.Key

    # -- compaction ----------------------------------------------------------------------------------------

    @definition
    def MayGo(s, r: Replica, i: Place):
        """C2: a tombstone here that this run, and everybody, has long passed."""
        slot = s.log[r][i]
        return And(slot.there, slot.deletes, i < minimum(s.clean[r], s.horizon[r]))

    @action
    def BeginRun(s, r: Replica, end: Offset):
        """C1: to any offset that is committed here; to the same one again if tombstones below it may go."""
        below = s.leo[r] if s.variant == "compacts-above-hw" else s.hw[r]
        when(is_none(s.run[r]), s.start[r] < end, end <= minimum(below, s.Whole(r)))
        frees = And(s.clean[r] == end, Exists(numbers(0, end), lambda i: s.MayGo(r, i)))
        when(Or(s.clean[r] < end, frees))
        s.run[r] = {"base": s.clean[r], "end": end, "done": s.start[r]}
        if s.variant == "clean-before-rewritten":
            s.clean[r] = end

    @definition
    def Outdated(s, r: Replica, i: Place):
        """The map of the run knows a later record of the key."""
        run, mine = get(s.run[r]), s.log[r]
        later = numbers(maximum(run.base, i + 1), run.end)
        return Exists(later, lambda j: And(mine[j].there, mine[j].key == mine[i].key))

    @action
    def Rewrite(s, r: Replica):
        """The next offset of the run is judged, and its file put in place."""
        when(is_some(s.run[r]))
        run = get(s.run[r])
        i = run.done
        when(i < run.end)
        stays = And(~s.Outdated(r, i), ~And(s.MayGo(r, i), i < run.base))
        gone = And(s.log[r][i].there, ~s.Outdated(r, i), ~stays, s.Readers > 0)
        s.log[r][i].there = And(s.log[r][i].there, stays)
        s.dropped[r] = If(gone, maximum(s.dropped[r], i + 1), s.dropped[r])
        s.run[r] = having(run, done=i + 1)

    @action
    def EndRun(s, r: Replica):
        """C1: all is in place, now the clean point moves."""
        when(is_some(s.run[r]), get(s.run[r]).done == get(s.run[r]).end)
        if s.variant == "clean-beyond-the-map":
            s.clean[r] = minimum(s.hw[r], s.Whole(r))
        else:
            s.clean[r] = get(s.run[r]).end
        s.run[r] = None

    @action
    def Abandon(s, r: Replica):
        """A crash, a full disk: what was put in place stays so, the rest of the run is forgotten."""
        when(is_some(s.run[r]))
        s.run[r] = None

    @only("variant", "swap-not-atomic")
    @action
    def CrashInSwap(s, r: Replica):
        """The old file is gone, the new one not yet there."""
        when(is_some(s.run[r]), get(s.run[r]).done < get(s.run[r]).end)
        s.log[r][get(s.run[r]).done].there = False
        s.run[r] = None

    @definition
    def KnownClean(s, lead: Replica, r: Replica):
        return If(r == lead, minimum(s.clean[r], s.Whole(r)), s.known[lead][r])

    @action
    def RaiseHorizon(s, lead: Replica):
        """C2: the least clean point over all replicas, as far as this leader knows."""
        when(s.Leads(lead))
        if s.variant == "own-clean-point":
            least_clean = s.KnownClean(lead, lead)
        elif s.variant == "isr-clean-points":
            least_clean = least(
                s.Replica, lambda r: If(member(r, s.isr), s.KnownClean(lead, r), s.clean[lead])
            )
        else:
            least_clean = least(s.Replica, lambda r: s.KnownClean(lead, r))
        when(s.horizon[lead] < least_clean)
        s.horizon[lead] = least_clean

    # -- a reader of the first key, from the front, at any server and as slow as it likes ------------------

    def reads(s, r, at, since, saw):
        slot = s.log[r][at]
        mine = And(slot.there, slot.key == 0)
        s.reader = record(s.Reader, at=at + 1, since=since, saw=If(mine, at, saw))

    @action
    def BeginReading(s, r: Replica):
        when(s.readers < s.Readers, is_none(s.reader), s.start[r] < s.hw[r], s.bad[r] != s.start[r])
        s.readers = s.readers + 1
        s.reads(r, s.start[r], s.dropped[r], None)

    @definition
    def CompactedPast(s, r: Replica):
        """C4: since the reader began this copy may have lost tombstones that the reader has not reached."""
        me = get(s.reader)
        if s.variant == "slow-reader-not-told":
            return s.readers < 0
        return And(me.since < s.dropped[r], me.at < s.dropped[r])

    @action
    def ReadOn(s, r: Replica):
        when(is_some(s.reader))
        me = get(s.reader)
        when(s.start[r] <= me.at, me.at < s.hw[r], s.bad[r] != me.at, ~s.CompactedPast(r))
        s.reads(r, me.at, me.since, me.saw)

    @action
    def TellReader(s, r: Replica):
        """It is to begin again."""
        when(is_some(s.reader))
        when(Or(s.CompactedPast(r), get(s.reader).at < s.start[r]))
        s.reader = None

    # -- properties ----------------------------------------------------------------------------------------

    @definition
    def Last(s, i: Place):
        """No later committed record has its key."""
        return Forall(numbers(i + 1, s.committed), lambda j: s.truth[j].key != s.truth[i].key)

    @definition
    def Judged(s, r: Replica, i: Place):
        """The copy has come past this committed offset, with its record or without."""
        return And(s.Holds(r, i), s.start[r] <= i, s.bad[r] != i)

    @invariant
    def Subsequence(s):
        """C5: below its HW a copy has committed records only, unchanged, at their offsets."""

        def right(r, i):
            slot = s.log[r][i]
            return And(i < s.committed, Implies(slot.there, slot == s.truth[i]))

        return Forall(s.Replica, lambda r: Forall(numbers(0, s.hw[r]), lambda i: right(r, i)))

    @invariant
    def FoldPreserved(s):
        """C1: the last value of a key is in every copy that has come past it. Tombstones: NoResurrection."""

        def kept(r, i):
            value = And(s.Judged(r, i), s.Last(i), ~s.truth[i].deletes)
            return Implies(value, s.log[r][i].there)

        return Forall(s.Replica, s.Place, kept)

    @invariant
    def CompactionHorizon(s):
        """C1: below its clean point a copy has one record of each key (CompactionHorizonCorrectness)."""

        def one(r, i, j):
            mine = s.log[r]
            both = And(i < j, j < s.clean[r], mine[i].there, mine[j].there, s.bad[r] != i, s.bad[r] != j)
            return Implies(both, mine[i].key != mine[j].key)

        return Forall(s.Replica, s.Place, s.Place, one)

    @definition
    def Dropped(s, r: Replica, i: Place):
        """The copy lacks a tombstone that is the last of its key."""
        return And(s.Judged(r, i), s.truth[i].deletes, s.Last(i), ~s.log[r][i].there)

    @definition
    def HasOlder(s, r: Replica, i: Place):
        """A committed record of the key before it."""

        def older(j):
            return And(s.log[r][j].there, s.bad[r] != j, s.truth[j].key == s.truth[i].key, s.Holds(r, j))

        return Exists(numbers(0, i), older)

    @invariant
    def NoResurrection(s):
        """C2: a copy that lacks the tombstone has nothing of what it deleted."""
        return Forall(s.Replica, s.Place, lambda r, i: Implies(s.Dropped(r, i), ~s.HasOlder(r, i)))

    @invariant
    def TombstoneSafe(s):
        """C2: once a copy has dropped a tombstone, no copy has anything older of its key to give."""

        def safe(r, i):
            return Implies(s.Dropped(r, i), Forall(s.Replica, lambda o: ~s.HasOlder(o, i)))

        return Forall(s.Replica, s.Place, safe)

    @invariant
    def ReaderSawEveryLastValue(s):
        """C4: a reader holds no value of a key of which it has passed a later record, or its tombstone."""

        def right(i):
            me = get(s.reader)
            passed = And(i < s.committed, i < me.at, s.truth[i].key == 0, s.Last(i))
            last = Or(me.saw == i, is_none(me.saw))
            return Implies(And(is_some(s.reader), passed), last)

        return Forall(s.Place, right)

    @sometimes
    def ATombstoneIsGone(s):
        """From every copy, with what it deleted."""

        def gone(i):
            everywhere = Forall(s.Replica, lambda r: And(s.Judged(r, i), ~s.log[r][i].there))
            older = Exists(numbers(0, i), lambda j: s.truth[j].key == s.truth[i].key)
            return And(i < s.committed, s.truth[i].deletes, s.Last(i), older, everywhere)

        return Exists(s.Place, gone)

    @sometimes
    def CopiesDiffer(s):
        """Of two copies of one log only one has a certain record."""

        def lacks(a, b):
            return Exists(
                s.Place, lambda i: And(s.Judged(a, i), s.Judged(b, i), s.log[a][i].there, ~s.log[b][i].there)
            )

        return Exists(s.Replica, s.Replica, lambda a, b: And(s.leo[a] == s.leo[b], lacks(a, b)))

    @sometimes
    def LogsPart(s):
        """A follower that has compacted has to cut its log."""

        def parts(f, lead):
            return And(s.Hears(lead, f), ~s.Agrees(f, lead), s.clean[f] > 0)

        return Exists(s.Replica, s.Replica, parts)
