"""A replica in the ISR model, whatever the grain of its steps: what it knows, commits, applies and proposes.

`Isr` (isr.py) exchanges whole messages in one step, and is small enough to be explored far. `IsrSteps`
(isr_steps.py) takes the steps that the program takes. Both are made of this.
"""

from __future__ import annotations

from liftlog_spec.lang import *
from liftlog_spec.models.isr_group import UNHEARD, IsrGroup


class IsrReplica(IsrGroup):
    """What the replicas do about it, and what must always be true."""

    Replica, Offset, Run = IsrGroup.Replica, IsrGroup.Offset, IsrGroup.Run

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

    def least_known_to(s, r):
        """The minimum in sync as a replica has applied it."""
        return s.least_in_sync()

    # -- logs ----------------------------------------------------------------------------------------------

    @action
    def Write(s, r: Replica):
        """R1: the leader gives offsets, and its epoch and run to each record."""
        when(s.Leads(r), size(s.log[r]) < s.Records)
        s.log[r] = append(s.log[r], {"epoch": s.view[r].epoch, "run": s.run[r]})

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
            when(size(isr) + If(joins, 1, 0) >= s.least_known_to(r))
        else:
            when(size(isr) >= s.least_known_to(r))
        mine = s.Claimed(r)
        hw = least(s.Replica, lambda m: If(Or(m == r, ~counts(m)), mine, s.progress[r][m]))
        when(hw > s.hw[r])
        s.hw[r] = hw
        s.committed = If(hw > size(s.committed), prefix(s.log[r], hw), s.committed)

    # -- what a replica does about the metadata ------------------------------------------------------------

    @action
    def ApplyInEpoch(s, r: Replica):
        """R2, R9: a change within the epoch; it ends what was pending if the version has passed it."""
        when(s.present(r), s.applied[r] < s.index)
        new, old = get(s.news[s.applied[r] + 1]), s.view[r]
        when(new.epoch == old.epoch)
        s.applied[r] = s.applied[r] + 1
        s.view[r] = new
        s.pending[r] = If(new.version > old.version, None, s.pending[r])
        known = s.progress[r]
        s.progress[r] = function(s.Replica, lambda o: If(new.runs[o] != old.runs[o], UNHEARD, known[o]))
        s.has_applied(r, s.applied[r] + 1)

    @action
    def ApplyNewEpoch(s, r: Replica):
        """R1: another epoch, in which nothing is known of anybody."""
        when(s.present(r), s.applied[r] < s.index)
        new = get(s.news[s.applied[r] + 1])
        when(new.epoch > s.view[r].epoch)
        s.applied[r] = s.applied[r] + 1
        s.view[r] = new
        s.pending[r] = None
        s.progress[r] = UNHEARD
        s.first[r] = If(new.leader == r, size(s.log[r]), 0)
        s.has_applied(r, s.applied[r] + 1)
        if s.variant == "truncate-to-hw":
            follows = And(is_some(new.leader), new.leader != r)
            s.cut(r, If(follows, minimum(s.hw[r], size(s.log[r])), size(s.log[r])))

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
        s.fall_to(r, prefix(s.log[r], keep), keep, tail)

    def fall_to(s, r, log, keep, tail):
        when(s.may_fall(r), s.crashes < s.Crashes)
        s.crashes = s.crashes + 1
        s.up[r] = False
        s.tail[r] = tail
        s.log[r] = log
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
        s.has_fallen(r, tail)

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
            same = And(s.tail[m] == "clean", s.view[lead].runs[m] == s.run[m], s.is_meant(lead, m))
            return Implies(And(s.Leads(lead), counted, same), s.synced[m] >= s.hw[lead])

        return Forall(s.Replica, s.Replica, holds)

    def is_meant(s, lead, m):
        """Whether this copy is the one that a leader believes to be in the ISR."""
        return True

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
