"""A partition with two logs under one metadata record: its data and its *journal*. A design, ADR 0048.

One leader, one epoch, one ISR and the same replicas, which copy both logs; each log has its own LEO, durable
LEO, HW and truncation. Is that as safe as two instances of the ISR protocol (the model `isr`) that one record
drives? Where both logs are asked before the record changes, yes: guards are only added. R14 is where the
claim breaks. When all copies are in doubt the greatest (epoch, LEO) is elected, and two logs have no common
order: one copy may have the longest data, and another one the longest journal. So the former *takes* the
journal's end from the latter while nobody leads, says so once that is durable, and then is the greatest in
both. An election by R14 asks for that, and the claim is true again, with one action more for each log.

What is modelled. Records of both logs, by the epoch that wrote them. What is appended and what is durable, of
each log, so that a crash may fall between two syncs. Crashes after which the tail of either log, or of both,
is suspect, with or without loss; a journal that ends early without a bad byte. The ISR, additions to it on
their way and the maximal ISR, removals, who is eligible (R13), who is remembered and with which ends (R14),
elections of all three kinds. The *stamp* of a data batch: the HW of the journal when its leader wrote it.

What is abstracted, since `isr` shows it for one log, and it concerns each log by itself. *Messages and
reports*: a leader reads its followers' ends at once. *The metadata at each replica*: all that run are in the
newest epoch and see the newest record; what is done in an epoch that is over could have been done before it
was. *Removals* are applied when they are proposed. *The HW at the beginning of an epoch* is 0, the oldest
there can be; followers' HWs are left out. *Restarts*: a leader that falls leads no more, at once; a session
that expires is a removal. Lost disks (I2), failed syncs (R5), log starts and unclean elections are not here.

What is promised ends where `Minimum` copies of one log are damaged (D3): `Damages` is less, for each log.
Beyond that nothing of a journal is lost unnoticed that data name: StampedJournalHeld. Each variant breaks a
rule:

    elected-without-longer-journal  the longest data are elected, ties by journal, and lead without more (R14)
    elected-by-journal              the longest journal is elected (R14)
    journal-taken-in-office         the longest data lead, take the journal's end, write no entry before that,
                                    but answer fetches: the one that has the end is told to cut it (R14)
    end-taken-without-cut           what is taken goes behind the taker's own end, of an older epoch (R6, R14)
    end-counts-before-sync          what was taken is reported before it is durable (R7, R14)
    joins-by-data-log-only          a joiner's journal is not asked for (R10)
    joins-by-journal-only           its data are not (R10)
    ready-in-two-instants           it was ready in each log, once (R10)
    shrinks-by-one-log              who lags in its journal only is never removed (R11)
    hw-of-the-other-log             what was reported of the data counts for the journal (R2)
    joiner-counts-for-data-only     the journal's HW is not over the maximal ISR (R2)
    journal-commits-below-minimum   consumers go on where messages wait (R2, R13)
    one-sync-for-both               both count as durable after the first of two syncs (R5, R7)
    suspect-journal-rejoins         only the tail of the data is told of (R14)
    stamp-of-leo                    a batch is stamped with the journal's end, committed or not
    stamp-believed-unchecked        a stamp proves entries that the epoch check has not verified
    short-journal-taken-for-whole   a journal that lacks what its data name is believed to be all (R14)
"""

from __future__ import annotations

from liftlog_spec.lang import *
from liftlog_spec.models.isr_pair_group import PairGroup

DATA, JOURNAL = "data", "journal"


class IsrPair(PairGroup):
    """What the replicas do with their logs, and what must always be true."""

    Replica, Log, Offset, Tail = PairGroup.Replica, PairGroup.Log, PairGroup.Offset, PairGroup.Tail

    # -- words ---------------------------------------------------------------------------------------------

    @definition
    def Copies(s, f: Replica, of: Replica, k: Log):
        """R6: a follower copies its leader; R14: whoever lacks the longest journal copies that."""
        if s.variant == "journal-taken-in-office":
            takes = And(s.leader == f, s.source == of)
        else:
            takes = s.Takes(f, of)
        return And(f != of, s.up[f], s.up[of], Or(s.leader == of, And(k == JOURNAL, takes)))

    @definition
    def Agrees(s, k: Log, f: Replica, of: Replica):
        """The other one has this one's last record, as far as its epoch tells."""
        mine, theirs = s.log[k][f], s.log[k][of]
        end = size(mine)
        return And(end <= size(theirs), Or(end == 0, mine[end - 1].epoch == theirs[end - 1].epoch))

    @definition
    def Durable(s, k: Log, r: Replica):
        """R7: what it reports of a log."""
        if s.variant == "one-sync-for-both":
            first = And(k == JOURNAL, s.synced[DATA][r] == size(s.log[DATA][r]))
            return If(first, size(s.log[k][r]), s.synced[k][r])
        return s.synced[k][r]

    @definition
    def Reported(s, k: Log, m: Replica):
        """R2: as the leader has heard it, in this epoch, from a log that agrees with its own."""
        lead = get(s.leader)
        return If(m == lead, s.Durable(k, m), If(And(s.up[m], s.Agrees(k, m, lead)), s.Durable(k, m), 0))

    # -- writing and copying -------------------------------------------------------------------------------

    @action
    def Write(s, r: Replica, k: Log):
        """A data batch is stamped with how much of the journal its leader knows to be committed."""
        when(s.leader == r, size(s.log[k][r]) < s.Records)
        if s.variant == "journal-taken-in-office":
            when(Or(k == DATA, is_none(s.source)))
        seen = size(s.log[JOURNAL][r]) if s.variant == "stamp-of-leo" else s.hw[JOURNAL]
        s.log[k][r] = append(s.log[k][r], {"epoch": s.epoch, "stamp": If(k == DATA, seen, 0)})

    @action
    def Sync(s, r: Replica, k: Log):
        """R5, one log at a time."""
        when(s.up[r], s.synced[k][r] < size(s.log[k][r]))
        s.synced[k][r] = size(s.log[k][r])

    @action
    def Fetch(s, f: Replica, of: Replica, k: Log):
        """One record."""
        end = size(s.log[k][f])
        when(s.Copies(f, of, k), end < size(s.log[k][of]))
        if s.variant == "end-taken-without-cut":
            when(Or(s.Agrees(k, f, of), s.leader != of))
        else:
            when(s.Agrees(k, f, of))
        s.log[k][f] = append(s.log[k][f], s.log[k][of][end])

    @action
    def Truncate(s, f: Replica, of: Replica, k: Log):
        """R6, all rounds at once."""
        when(s.Copies(f, of, k), ~s.Agrees(k, f, of))
        mine, theirs = s.log[k][f], s.log[k][of]
        shorter = minimum(size(mine), size(theirs))

        def shared(i):
            return Forall(numbers(0, i + 1), lambda j: mine[j].epoch == theirs[j].epoch)

        end = count(numbers(0, shorter), shared)
        s.log[k][f] = prefix(mine, end)
        s.synced[k][f] = minimum(s.synced[k][f], end)

    @action
    def Commit(s, r: Replica, k: Log):
        """R2: each log has its HW, over the one maximal ISR."""
        when(s.leader == r)
        if s.variant == "journal-commits-below-minimum":
            when(Or(k == JOURNAL, s.at_minimum(s.isr)))
        else:
            when(s.at_minimum(s.isr))

        def counts(m):
            joins = s.change == m
            if s.variant == "joiner-counts-for-data-only":
                joins = And(joins, k == DATA)
            return Or(member(m, s.isr), joins)

        def has(m):
            if s.variant == "hw-of-the-other-log":
                return If(m == r, s.Durable(k, m), s.Reported(DATA, m))
            return s.Reported(k, m)

        hw = least(s.Replica, lambda m: If(counts(m), has(m), s.Durable(k, r)))
        when(hw > s.hw[k])
        s.hw[k] = hw
        s.committed[k] = If(hw > size(s.committed[k]), prefix(s.log[k][r], hw), s.committed[k])

    # -- who is in sync ------------------------------------------------------------------------------------

    @definition
    def Begun(s, k: Log):
        """R10: where the epoch began in the leader's log."""
        mine = s.log[k][get(s.leader)]
        return count(indexes(mine), lambda i: mine[i].epoch < s.epoch)

    @definition
    def Ready(s, k: Log, f: Replica):
        """R10, of one log."""
        has = s.Reported(k, f)
        return And(s.Agrees(k, f, get(s.leader)), has >= s.hw[k], has >= s.Begun(k))

    @only("variant", "ready-in-two-instants")
    @action
    def NoteReady(s, f: Replica, k: Log):
        when(is_some(s.leader), s.up[f], ~member(f, s.isr), ~member(f, s.ready[k]), s.Ready(k, f))
        s.ready[k] = with_member(s.ready[k], f)

    @action
    def ProposeAddition(s, f: Replica):
        """R10: both logs in the same instant."""
        when(is_some(s.leader), is_none(s.change), s.up[f], ~member(f, s.isr))
        if s.variant == "joins-by-data-log-only":
            when(s.Ready(DATA, f))
        elif s.variant == "joins-by-journal-only":
            when(s.Ready(JOURNAL, f))
        elif s.variant == "ready-in-two-instants":
            when(Forall(s.Log, lambda k: member(f, s.ready[k])))
        else:
            when(Forall(s.Log, lambda k: s.Ready(k, f)))
        s.change = f

    @definition
    def Lags(s, f: Replica):
        """R11: it is not caught up in both logs, as far as the leader knows."""
        lead = get(s.leader)

        def behind(k):
            return s.Reported(k, f) < size(s.log[k][lead])

        if s.variant == "shrinks-by-one-log":
            return behind(DATA)
        return Exists(s.Log, behind)

    @action
    def Shrink(s, f: Replica):
        """R11, R15: who lags, or has no session any more, leaves."""
        when(is_some(s.leader), s.leader != f, member(f, s.isr), s.shrinks < s.Shrinks)
        when(Or(~s.up[f], s.Lags(f)))
        s.shrinks = s.shrinks + 1
        s.leave(f)

    # -- crashes -------------------------------------------------------------------------------------------

    def fall(s, r, tail, keep):
        """The logs end where `keep` says, and what is found is synced before it is reported (R7)."""
        when(s.up[r], s.crashes < s.Crashes)
        lost = [(k, keep[k] < s.synced[k][r]) for k in (DATA, JOURNAL)]
        when(*(Implies(less, s.damages[k] < s.Damages) for k, less in lost))
        s.crashes = s.crashes + 1
        for k, less in lost:
            s.damages[k] = s.damages[k] + If(less, 1, 0)
            s.log[k][r] = prefix(s.log[k][r], keep[k])
            s.synced[k][r] = keep[k]
        s.up[r] = False
        s.tail[r] = tail
        s.leader = If(s.leader == r, None, s.leader)
        s.change = If(Or(s.change == r, s.leader == r), None, s.change)
        s.ready = function(s.Log, lambda k: If(s.leader == r, [], without(s.ready[k], r)))

    @action
    def Crash(s, r: Replica, tail: Tail, data: Offset, journal: Offset):
        """Of each log, what was durable is found, and any part of the rest; with a bad tail, any part."""
        keep = {DATA: data, JOURNAL: journal}
        when(tail != "ends-early")
        for k in (DATA, JOURNAL):
            bad = Or(tail == k, tail == "both")
            when(keep[k] <= size(s.log[k][r]), Or(bad, s.synced[k][r] <= keep[k]))
        s.fall(r, tail, keep)

    @action
    def CrashWithShortJournal(s, r: Replica, keep: Offset):
        """The journal ends early and nothing in it is bad; the data name an entry that is gone."""
        when(keep < s.synced[JOURNAL][r], keep < s.Stamped(r, s.synced[DATA][r]))
        s.fall(r, "ends-early", {DATA: s.synced[DATA][r], JOURNAL: keep})

    # -- properties ----------------------------------------------------------------------------------------

    def has_committed(s, k, r):
        end = size(s.committed[k])
        return And(end <= size(s.log[k][r]), prefix(s.log[k][r], end) == s.committed[k])

    def leads_with(s, k):
        return Forall(s.Replica, lambda r: Implies(s.leader == r, s.has_committed(k, r)))

    @invariant
    def NoRecordLost(s):
        """Whoever leads has all that was committed of the data."""
        return s.leads_with(DATA)

    @invariant
    def NoEntryLost(s):
        """And of the journal; who takes its end in office has it, or the one that it takes it from has."""
        taken = Exists(s.Replica, lambda r: And(s.source == r, s.has_committed(JOURNAL, r)))
        return Or(s.leads_with(JOURNAL), taken)

    @invariant
    def CommittedOnIsr(s):
        """Whoever may be elected has both durably, unless its disk is about to be reported."""

        def complete(r, k):
            candidate = And(Or(member(r, s.isr), member(r, s.eligible)), s.tail[r] == "clean")
            durable = And(s.has_committed(k, r), s.synced[k][r] >= size(s.committed[k]))
            return Implies(And(candidate, Or(k == DATA, is_none(s.source))), durable)

        return Forall(s.Replica, s.Log, complete)

    @invariant
    def ValidHighWatermark(s):
        """Each member of the maximal ISR holds durably what lies below the HW, in both logs."""

        def holds(m, k):
            counted = And(Or(member(m, s.isr), s.change == m), s.tail[m] == "clean")
            return Implies(And(is_some(s.leader), counted), s.synced[k][m] >= s.hw[k])

        return Forall(s.Replica, s.Log, holds)

    @invariant
    def ConsistentRead(s):
        """What is visible was committed."""

        def right(r, k):
            hw = s.hw[k]
            seen = And(hw <= size(s.log[k][r]), prefix(s.log[k][r], hw) == prefix(s.committed[k], hw))
            return Implies(s.leader == r, seen)

        return Forall(s.Replica, s.Log, right)

    @invariant
    def LogMatching(s):
        """Two copies that have one record have the same before it (R1, R6)."""

        def agree(k, a, b, i):
            mine, theirs = s.log[k][a], s.log[k][b]
            both = And(i < size(mine), i < size(theirs))
            same = mine[i].epoch == theirs[i].epoch
            return Implies(And(both, same), prefix(mine, i + 1) == prefix(theirs, i + 1))

        records = numbers(0, s.Records)
        return Forall(
            s.Log, s.Replica, s.Replica, lambda k, a, b: Forall(records, lambda i: agree(k, a, b, i))
        )

    @invariant
    def StampCommitted(s):
        """A stamp never exceeds the committed journal, be its batch committed or not."""
        return Forall(s.Replica, lambda r: s.Stamped(r, size(s.log[DATA][r])) <= size(s.committed[JOURNAL]))

    @definition
    def Proven(s, r: Replica):
        """How much of its journal a copy may take for committed because of the stamps in its data."""
        end = minimum(s.Stamped(r, size(s.log[DATA][r])), size(s.log[JOURNAL][r]))
        if s.variant == "stamp-believed-unchecked":
            return end
        checked = And(is_some(s.leader), s.up[r], s.Agrees(JOURNAL, r, get(s.leader)))
        return If(checked, end, 0)

    @invariant
    def StampIsProof(s):
        """HW_j >= min(stamp, LEO_j), in a copy that the epoch check has verified."""

        def right(r):
            mine, end = s.log[JOURNAL][r], s.Proven(r)
            return prefix(mine, end) == prefix(s.committed[JOURNAL], end)

        return Forall(s.Replica, right)

    @invariant
    def StampedJournalHeld(s):
        """Nobody leads whose data name a journal entry that it lacks, whatever was damaged."""

        def held(r):
            return Implies(s.leader == r, ~s.Short(r))

        return Or(is_some(s.source), Forall(s.Replica, held))

    @invariant
    def LaggardMayLeave(s):
        """Whoever holds back the HW of a log may be removed (R11)."""

        def held_back(f, k):
            waits = And(s.leader != f, member(f, s.isr), s.Reported(k, f) < s.Durable(k, get(s.leader)))
            return Implies(And(is_some(s.leader), waits), Or(~s.up[f], s.Lags(f)))

        return Forall(s.Replica, s.Log, held_back)

    @invariant
    def LeaderInIsr(s):
        """R12."""
        return Forall(s.Replica, lambda r: Implies(s.leader == r, member(r, s.isr)))

    # -- what makes them meaningful ------------------------------------------------------------------------

    @sometimes
    def BothCommit(s):
        return Forall(s.Log, lambda k: size(s.committed[k]) > 0)

    @sometimes
    def AStampIsCommitted(s):
        return Exists(indexes(s.committed[DATA]), lambda i: s.committed[DATA][i].stamp > 0)

    @sometimes
    def DifferentOnesAreLongest(s):
        """R14: one copy has the longest data, another one the longest journal."""
        return Exists(s.Replica, s.Replica, lambda r, o: s.Takes(r, o))

    @sometimes
    def AnEndIsTaken(s):
        """R14: and what was taken is durable."""

        def taken(r):
            has = And(s.NobodyElse(), is_some(s.known[r]))
            return And(has, s.synced[JOURNAL][r] > get(s.known[r])[JOURNAL].leo)

        return Exists(s.Replica, taken)

    def one_is_ready(s, k, other):
        def ready(f):
            return And(is_some(s.leader), s.up[f], ~member(f, s.isr), s.Ready(k, f), ~s.Ready(other, f))

        return Exists(s.Replica, ready)

    @sometimes
    def DataAreReadyFirst(s):
        return s.one_is_ready(DATA, JOURNAL)

    @sometimes
    def JournalIsReadyFirst(s):
        return s.one_is_ready(JOURNAL, DATA)

    @sometimes
    def IsrShrinksAndGrowsAgain(s):
        """In the first epoch."""
        return And(s.epoch == 1, s.shrinks > 0, s.isr == elements(s.Replica))

    def one_parts(s, k, other):
        def parts(f, of):
            return And(s.Copies(f, of, k), ~s.Agrees(k, f, of), s.Agrees(other, f, of))

        return Exists(s.Replica, s.Replica, parts)

    @sometimes
    def OnlyDataPart(s):
        """A truncation in one log alone."""
        return s.one_parts(DATA, JOURNAL)

    @sometimes
    def OnlyJournalsPart(s):
        return s.one_parts(JOURNAL, DATA)

    @sometimes
    def BetweenTheSyncs(s):
        """A crash would now keep the data and lose the end of the journal."""

        def half(r):
            data = And(size(s.log[DATA][r]) > 0, s.synced[DATA][r] == size(s.log[DATA][r]))
            journal = s.synced[JOURNAL][r] < size(s.log[JOURNAL][r])
            return And(s.up[r], data, journal, s.crashes < s.Crashes)

        return Exists(s.Replica, half)
