"""ISR replication of one partition, as liftlog does it: rules I2, R1, R2, R6, R7 and R9 to R16.

A leader copies its log to in-sync replicas (ISR) and commits what all of them have on disk. Who leads and who
is in sync is decided by the metadata group, one log of commands that each replica applies at its own pace: a
replica may believe for long what the group has given up. Kafka's replication with KIP-320 and KIP-966 is the
ancestor (spec/models/kafka.py has the former); ours adds incarnations, so that a restart is never taken for
the process that it replaces, and tail states, so that a disk that may have lost something says so.

What is modelled. Records, by the epoch and the run of the leader that wrote them. What is appended and what
is durable. Crashes that leave the durable part and any prefix of the rest; crashes after which the tail is
suspect, with or without loss of what was durable; lost disks. The metadata group as one atomic log: changes
of the ISR (conditioned on the version, on their way for as long as they like), expiry, registration,
election. Leaders that know followers from reports of their own epoch only, pending changes, the maximal ISR,
truncation in rounds.

What is abstracted. *Messages*: a fetch and its answer are one step against the leader's present state. An
answer on its way is thrown away when the follower crashes, changes epoch or asks again, and a report on its
way says less than the follower has, so nothing that counts can come late. That nothing else counts is what
R2 and R6 say; to check just this, `Delays` messages may arrive at any later time. *Election* is a command of
its own after the removal of a leader, where the state machine does both in one: there are more
interleavings here. *Registration* is one step with its confirmation and with applying what was decided until
then. *The HW after a restart* is 0, the oldest checkpoint there can be. *A failed sync* (R5) is a crash with
a suspect tail: the same demotion, though in a new run. A node whose session expired stays out until it
restarts. *Clocks*: who is silent or thought dead is anybody at any time, who lags is anybody that is not
known to have everything. A proposal against an old version is not made, since it would be refused. Log
starts, compaction and unclean elections are not here.

What is promised ends where `Minimum` copies are damaged (D3): `Damages` is less. Each variant breaks a rule:

    restarted-leader-keeps-epoch       a registration leaves the leader its epoch (R1)
    minimum-over-maximal-isr           pending additions count for the minimum as well (R2)
    hw-over-shrunk-isr                 a member proposed for removal no longer counts for the HW (R2)
    pending-ended-by-timeout           a leader forgets a change that may still be applied (R2)
    late-addition-of-old-incarnation   an addition is applied to whichever run is there by then (R9)
    unsynced-recovery                  what a restart finds is reported durable before it is synced (R7)
    truncate-to-hw                     a follower begins an epoch by cutting to its HW (R6)
    fetch-not-fenced                   answers of other epochs, runs and questions are used (R6)
    report-not-fenced                  reports of other epochs and runs count (R2)
    wiped-replica-rejoins              an empty disk keeps its replica's place in the ISR (I2)
    suspect-tail-rejoins               so does a tail that may have lost something (R14)
"""

from __future__ import annotations

from spec.lang import (
    And,
    Exists,
    Forall,
    If,
    Implies,
    Or,
    action,
    append,
    count,
    definition,
    elements,
    function,
    get,
    indexes,
    invariant,
    is_none,
    is_some,
    last,
    least,
    maximum,
    member,
    minimum,
    numbers,
    only,
    prefix,
    size,
    sometimes,
    when,
)
from spec.models.isr_group import UNHEARD, IsrGroup


class Isr(IsrGroup):
    """What the replicas do about it, and what must always be true."""

    Replica, Offset, Run, Late = IsrGroup.Replica, IsrGroup.Offset, IsrGroup.Run, IsrGroup.Late

    # -- words ---------------------------------------------------------------------------------------------

    @definition
    def Leads(s, r: Replica):
        """It believes so, rightly or not."""
        return s.up[r] & (s.view[r].leader == r)

    @definition
    def Follows(s, f: Replica, lead: Replica):
        """Both run in one epoch, and the leader knows this run of the follower."""
        mine, theirs = s.view[f], s.view[lead]
        both = And(s.up[f], mine.leader == lead, s.up[lead], theirs.leader == lead)
        return And(both, mine.epoch == theirs.epoch, theirs.runs[f] == s.run[f])

    @definition
    def Agrees(s, f: Replica, lead: Replica):
        """The leader has the follower's last record, as far as its epoch tells."""
        mine, theirs = s.log[f], s.log[lead]
        end = size(mine)
        return And(end <= size(theirs), Or(end == 0, mine[end - 1].epoch == theirs[end - 1].epoch))

    @definition
    def Claimed(s, r: Replica):
        """What it reports as durable."""
        if s.variant == "unsynced-recovery":
            return maximum(s.synced[r], s.found[r])
        return s.synced[r]

    @definition
    def CutAt(s, f: Replica, lead: Replica):
        """R6: the leader names the end of its greatest epoch that is not above the follower's."""
        mine, theirs = s.log[f], s.log[lead]
        epoch = last(mine).epoch
        end = count(indexes(theirs), lambda i: theirs[i].epoch <= epoch)
        common = If(end == 0, 0, theirs[end - 1].epoch)
        return minimum(end, count(indexes(mine), lambda i: mine[i].epoch <= common))

    def cut(s, f, to):
        """The HW stays: below it nothing may be cut, and the invariants would see it."""
        s.log[f] = prefix(s.log[f], to)
        s.synced[f] = minimum(s.synced[f], to)
        s.found[f] = minimum(s.found[f], to)

    def copy(s, f, entry, hw):
        """R8: append what the answer brings, if anything, and learn the HW."""
        end = size(s.log[f])
        s.log[f] = If(is_some(entry), append(s.log[f], get(entry)), s.log[f])
        s.hw[f] = maximum(s.hw[f], minimum(hw, end + If(is_some(entry), 1, 0)))

    def ask(s, f):
        """R6: a new question; an answer to an older one is not used."""
        if s.variant != "fetch-not-fenced":
            outdated = And(is_some(s.late), get(s.late).follower == f, get(s.late).kind != "report")
            s.late = If(outdated, None, s.late)

    # -- logs ----------------------------------------------------------------------------------------------

    @action
    def Write(s, r: Replica):
        """R1: the leader gives offsets, and its epoch and run to each record."""
        when(s.Leads(r), size(s.log[r]) < s.Records)
        s.log[r] = append(s.log[r], {"epoch": s.view[r].epoch, "run": s.run[r]})

    @action
    def Sync(s, r: Replica):
        """R5."""
        when(s.up[r], s.synced[r] < size(s.log[r]))
        s.synced[r] = size(s.log[r])

    @action
    def Fetch(s, f: Replica, lead: Replica):
        """One record and the HW (R6, R8)."""
        when(f != lead, s.Follows(f, lead), s.Agrees(f, lead))
        end = size(s.log[f])
        when(Or(end < size(s.log[lead]), minimum(s.hw[lead], end) > s.hw[f]))
        s.copy(f, If(end < size(s.log[lead]), s.log[lead][end], None), s.hw[lead])
        s.ask(f)

    @action
    def Truncate(s, f: Replica, lead: Replica):
        """A fetch that finds out that the logs have parted: one round of cutting (R6)."""
        when(f != lead, s.Follows(f, lead), ~s.Agrees(f, lead))
        s.cut(f, s.CutAt(f, lead))
        s.ask(f)

    @action
    def Report(s, f: Replica, lead: Replica):
        """The leader hears how far the follower is durable (R2, R7)."""
        when(f != lead, s.Follows(f, lead), s.Claimed(f) > s.progress[lead][f], s.Agrees(f, lead))
        s.progress[lead][f] = s.Claimed(f)

    @action
    def Commit(s, r: Replica):
        """R2: the HW is what the maximal ISR has durably, if the committed ISR has its minimum."""
        when(s.Leads(r))
        isr, pending = s.view[r].isr, s.pending[r]

        def counts(m):
            if s.variant == "hw-over-shrunk-isr":
                return Or(And(member(m, isr), pending != m), And(~member(m, isr), pending == m))
            return Or(member(m, isr), pending == m)

        if s.variant == "minimum-over-maximal-isr":
            joins = And(is_some(pending), ~member(get(pending), isr))
            when(size(isr) + If(joins, 1, 0) >= s.Minimum)
        else:
            when(size(isr) >= s.Minimum)
        mine = s.Claimed(r)
        hw = least(s.Replica, lambda m: If(Or(m == r, ~counts(m)), mine, s.progress[r][m]))
        when(hw > s.hw[r])
        s.hw[r] = hw
        s.committed = If(hw > size(s.committed), prefix(s.log[r], hw), s.committed)

    # -- late messages -------------------------------------------------------------------------------------

    def delay(s, kind, f, lead, to=0, entry=None, hw=0):
        when(s.delays < s.Delays, is_none(s.late))
        s.delays = s.delays + 1
        s.late = {
            "kind": kind,
            "follower": f,
            "leader": lead,
            "epoch": s.view[lead].epoch,
            "run": s.run[f],
            "at": size(s.log[f]),
            "to": to,
            "entry": entry,
            "hw": hw,
        }

    @action
    def FetchIsAnsweredLate(s, f: Replica, lead: Replica):
        when(f != lead, s.Follows(f, lead), s.Agrees(f, lead), size(s.log[f]) < size(s.log[lead]))
        s.delay("records", f, lead, 0, s.log[lead][size(s.log[f])], s.hw[lead])

    @action
    def TruncationIsAnsweredLate(s, f: Replica, lead: Replica):
        when(f != lead, s.Follows(f, lead), ~s.Agrees(f, lead))
        s.delay("cut", f, lead, s.CutAt(f, lead))

    @action
    def ReportIsLate(s, f: Replica, lead: Replica):
        when(f != lead, s.Follows(f, lead), s.Claimed(f) > s.progress[lead][f], s.Agrees(f, lead))
        s.delay("report", f, lead, s.Claimed(f))

    @definition
    def Answers(s, m: Late, f: Replica):
        """R6: the question was asked in this epoch and run, and nothing was asked since."""
        if s.variant == "fetch-not-fenced":
            return And(m.follower == f, s.up[f], Or(m.kind == "cut", m.at == size(s.log[f])))
        present = And(s.view[f].epoch == m.epoch, s.run[f] == m.run, m.at == size(s.log[f]))
        return And(m.follower == f, s.up[f], present)

    @action
    def LateRecordsArrive(s, f: Replica):
        m = get(s.late)
        when(is_some(s.late), m.kind == "records", s.Answers(m, f))
        s.copy(f, m.entry, m.hw)
        s.late = None

    @action
    def LateCutArrives(s, f: Replica):
        m = get(s.late)
        when(is_some(s.late), m.kind == "cut", s.Answers(m, f))
        s.cut(f, m.to)
        s.late = None

    @action
    def LateReportArrives(s, lead: Replica, f: Replica):
        m = get(s.late)
        when(is_some(s.late), m.kind == "report", m.leader == lead, m.follower == f, s.Leads(lead))
        if s.variant != "report-not-fenced":
            when(s.view[lead].epoch == m.epoch, s.view[lead].runs[f] == m.run)
        when(m.to > s.progress[lead][f])
        s.progress[lead][f] = m.to
        s.late = None

    @action
    def LateMessageIsLost(s):
        when(is_some(s.late))
        s.late = None

    # -- what a replica does about the metadata ------------------------------------------------------------

    def forget_news(s, r, applied):
        """What everybody who runs has applied; `applied` = how far `r` has, or None if it is down."""

        def reached(o):
            return If(o == r, s.index if applied is None else applied, If(s.up[o], s.applied[o], s.index))

        oldest = least(s.Replica, reached)
        s.news = function(s.Index, lambda i: If(i <= oldest, None, s.news[i]))

    @action
    def ApplyInEpoch(s, r: Replica):
        """R2, R9: a change within the epoch; it ends what was pending if the version has passed it."""
        when(s.up[r], s.applied[r] < s.index)
        new, old = get(s.news[s.applied[r] + 1]), s.view[r]
        when(new.epoch == old.epoch)
        s.applied[r] = s.applied[r] + 1
        s.view[r] = new
        s.pending[r] = If(new.version > old.version, None, s.pending[r])
        known = s.progress[r]
        s.progress[r] = function(s.Replica, lambda o: If(new.runs[o] != old.runs[o], UNHEARD, known[o]))
        s.forget_news(r, s.applied[r] + 1)

    @action
    def ApplyNewEpoch(s, r: Replica):
        """R1: another epoch, in which nothing is known of anybody."""
        when(s.up[r], s.applied[r] < s.index)
        new = get(s.news[s.applied[r] + 1])
        when(new.epoch > s.view[r].epoch)
        s.applied[r] = s.applied[r] + 1
        s.view[r] = new
        s.pending[r] = None
        s.progress[r] = UNHEARD
        s.first[r] = If(new.leader == r, size(s.log[r]), 0)
        s.forget_news(r, s.applied[r] + 1)
        if s.variant == "truncate-to-hw":
            follows = And(is_some(new.leader), new.leader != r)
            s.cut(r, If(follows, minimum(s.hw[r], size(s.log[r])), size(s.log[r])))

    @definition
    def MayPropose(s, lead: Replica):
        """One change at a time; a proposal on an old version would be refused."""
        return And(s.Leads(lead), is_none(s.pending[lead]), s.view[lead].version == s.now.version)

    def propose(s, lead, who, joins):
        s.pending[lead] = who
        s.change = {"who": who, "joins": joins, "run": s.view[lead].runs[who]}

    @action
    def ProposeAddition(s, lead: Replica, who: Replica):
        """R10: durably at the HW and at the epoch's start, and live."""
        when(s.MayPropose(lead), ~member(who, s.view[lead].isr), member(who, s.view[lead].live))
        when(s.progress[lead][who] >= s.hw[lead], s.progress[lead][who] >= s.first[lead])
        s.propose(lead, who, True)

    @action
    def ProposeRemoval(s, lead: Replica, who: Replica):
        """R11: some member is not known to have everything."""
        when(s.MayPropose(lead), lead != who, member(who, s.view[lead].isr))
        when(s.progress[lead][who] < size(s.log[lead]))
        s.propose(lead, who, False)

    @only("variant", "pending-ended-by-timeout")
    @action
    def ForgetProposal(s, lead: Replica):
        when(s.up[lead], is_some(s.pending[lead]))
        s.pending[lead] = None

    # -- crashes -------------------------------------------------------------------------------------------

    def fall(s, r, keep, tail):
        """Memory is gone. What is found will be synced before it is reported (R7)."""
        when(s.up[r], s.crashes < s.Crashes)
        s.crashes = s.crashes + 1
        s.up[r] = False
        s.tail[r] = tail
        s.log[r] = prefix(s.log[r], keep)
        if s.variant == "unsynced-recovery":
            s.synced[r] = minimum(s.synced[r], keep)
            s.found[r] = keep
        else:
            s.synced[r] = keep
        s.hw[r] = 0
        s.view[r] = {"leader": None, "epoch": 0, "version": 0, "isr": [], "runs": 0, "live": []}
        s.applied[r] = 0
        s.first[r] = 0
        s.progress[r] = UNHEARD
        s.pending[r] = None
        s.forget_news(r, None)

    @action
    def Crash(s, r: Replica, keep: Offset):
        """What was durable is found, and any part of the rest."""
        when(s.synced[r] <= keep, keep <= size(s.log[r]))
        s.fall(r, keep, "clean")

    @action
    def CrashWithTornTail(s, r: Replica, keep: Offset):
        """R14: bad bytes at the end: never synced, or synced and damaged since."""
        when(keep < size(s.log[r]))
        costs = If(keep < s.synced[r], 1, 0)
        when(s.damages + costs <= s.Damages)
        s.damages = s.damages + costs
        s.fall(r, keep, "suspect")

    @action
    def LoseDisk(s, r: Replica):
        """I2."""
        when(s.damages < s.Damages)
        s.damages = s.damages + 1
        s.fall(r, 0, "wiped")

    # -- properties ----------------------------------------------------------------------------------------

    @definition
    def Complete(s, r: Replica):
        """It has everything that was ever committed, durably."""
        end = size(s.committed)
        return And(s.synced[r] >= end, prefix(s.log[r], end) == s.committed)

    @invariant
    def LeaderCandidateCompleteness(s):
        """Whoever the group may elect has what is committed, unless its disk is about to be reported."""

        def complete(r):
            candidate = Or(member(r, s.now.isr), member(r, s.eligible))
            return Implies(And(candidate, s.tail[r] == "clean"), s.Complete(r))

        return Forall(s.Replica, complete)

    @invariant
    def NoCommittedRecordLost(s):
        """The leader of the present epoch has everything that is committed."""

        def complete(r):
            leads = And(s.Leads(r), s.view[r].epoch == s.now.epoch)
            return Implies(leads, prefix(s.log[r], size(s.committed)) == s.committed)

        return Forall(s.Replica, complete)

    @invariant
    def ValidHighWatermark(s):
        """Every member of the maximal ISR holds durably what lies below the leader's HW.

        Unless it is another run by now: of that the group knows, and refuses the addition.
        """

        def holds(lead, m):
            change = get(s.change)
            meant = And(change.who == m, change.run == s.run[m])
            joining = And(s.pending[lead] == m, is_some(s.change), meant)
            counted = Or(member(m, s.view[lead].isr), joining)
            same = And(s.tail[m] == "clean", s.view[lead].runs[m] == s.run[m])
            return Implies(And(s.Leads(lead), counted, same), s.synced[m] >= s.hw[lead])

        return Forall(s.Replica, s.Replica, holds)

    @invariant
    def LogMatching(s):
        """Two logs agree below the HW of both."""

        def agree(a, b):
            hw = minimum(s.hw[a], s.hw[b])
            return prefix(s.log[a], hw) == prefix(s.log[b], hw)

        return Forall(s.Replica, s.Replica, agree)

    @invariant
    def ConsistentRead(s):
        """What is visible is what was committed, and is not cut (R3, R6)."""

        def right(r):
            hw = s.hw[r]
            return And(hw <= size(s.log[r]), prefix(s.log[r], hw) == prefix(s.committed, hw))

        return Forall(s.Replica, right)

    @invariant
    def LeaderInIsr(s):
        """R12."""
        return Forall(s.Replica, lambda r: Implies(s.now.leader == r, member(r, s.now.isr)))

    @invariant
    def OneLeaderPerEpoch(s):
        """R1: one run leads an epoch, and what an epoch has at an offset is one record."""

        def alone(a, b):
            both = And(s.Leads(a), s.Leads(b), a != b)
            return Implies(both, s.view[a].epoch != s.view[b].epoch)

        def same(a, b, i):
            both = And(i < size(s.log[a]), i < size(s.log[b]))
            one, other = s.log[a][i], s.log[b][i]
            return Implies(And(both, one.epoch == other.epoch), one.run == other.run)

        records = numbers(0, s.Records)
        return And(
            Forall(s.Replica, s.Replica, alone),
            Forall(s.Replica, s.Replica, lambda a, b: Forall(records, lambda i: same(a, b, i))),
        )

    @sometimes
    def SomethingIsCommitted(s):
        return size(s.committed) > 0

    @sometimes
    def IsrShrinksAndGrowsAgain(s):
        """A full ISR of a later version in the first epoch."""
        return And(s.now.epoch == 1, s.now.version > 0, s.now.isr == elements(s.Replica))

    @sometimes
    def LogsPart(s):
        """A follower has to cut its log."""
        return Exists(
            s.Replica, s.Replica, lambda f, lead: And(f != lead, s.Follows(f, lead), ~s.Agrees(f, lead))
        )
