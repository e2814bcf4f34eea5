"""Five generations of one protocol: how Kafka's replicas learned to cut their logs (2011 to 2018).

A leader orders records, followers copy them, and a record is committed when every in-sync replica has it. The
hard part is what a follower does with the end of its log when the leader changes. Each generation closed the
hole of the one before; four of the five lose committed records, and the checker shows how:

    truncate-to-hw    cut to the own high watermark. The watermark is old; what lies between it and the true
                      one is committed and gone if this replica leads next (KAFKA-1211).
    kip-101           ask the leader where the epoch of one's last record ends. Two logs can hold different
                      records in an epoch that the leader never had (fast elections).
    kip-279           compare backward until offset *and* epoch agree. Right about what to cut, but nobody
                      says in which epoch the question was asked: a stale leader answers.
    kip-320-first-try fetches name the epoch of the last record; cut only when the leader objects. The leader
                      cannot tell who follows in which epoch when it commits or lets somebody join.
    kip-320           every request names the current epoch, and a leader admits nobody before its watermark
                      has reached its own epoch. Holds. Our rules R2, R6 and R10 descend from this one.

Three more are `kip-320` with restarts. "When a failed replica is restarted, it recovers the latest HW from
stable storage and truncates its log up to the HW", says Building a Distributed Log from Scratch, part 5. A
follower hears of a watermark only with the fetch after the one that brought the record:

    restart-to-hw             a restart cuts to the own watermark. What the last fetch brought lies above it:
                              it is committed because this replica has it, it is gone, and the replica is
                              still in the ISR and may lead next. Nothing else in KIP-320 prevents that.
    restart-to-hw-out-of-isr  the kindest reading: a replica is thought dead, and out of the ISR, before it
                              restarts. But somebody is the last in the ISR, and restarts, and cuts.
    restart-keeps-log         what is there is kept, and cut by epochs when a leader is found (R6, R7). Holds.

The first two are kind in another way too: the watermark on disk is the newest that the replica has heard of
("replicas periodically checkpoint the HW" lets it be older), and it is exclusive, where the text begins with
a watermark of 0 that means offset 0 is committed.

The controller's state is read and written in one step, requests to replicas (leader, epoch, ISR) are never
lost for good, may be late, and may be read twice. The five have no crashes: leaving and entering the ISR
stands for them. Who restarts remembers the epoch that it has heard of, and neither leads nor follows until it
hears of a newer one; logs are on disk at once. The same abstraction of the five, at the same bounds, has
published results of TLC: see tests/spec/test_kafka.py.
"""

from __future__ import annotations

from liftlog_spec.lang import *

CUTS_AT_RESTART = ("restart-to-hw", "restart-to-hw-out-of-isr")
RESTARTS = (*CUTS_AT_RESTART, "restart-keeps-log")
FETCH_FENCED = ("kip-320", *RESTARTS)
NOT_FENCED = ("truncate-to-hw", "kip-101", "kip-279")
FIRST_TRY = ("kip-320-first-try",)


class Kafka(Model):
    """One partition, its replicas and the controller."""

    variant = Setting("kip-320", "kip-320-first-try", "kip-279", "kip-101", "truncate-to-hw", *RESTARTS)
    Replicas = Constant(3)
    LogSize = Constant(2)
    Records = Constant(2)
    Epochs = Constant(3)

    Replica = Sort(Replicas)
    RecordId = Range(0, Records - 1)
    Epoch = Range(0, Epochs)
    Offset = Range(0, LogSize)
    LogRecord = Record(id=RecordId, epoch=Epoch)
    View = Record(leader=Option(Replica), epoch=Option(Epoch), isr=Set(Replica))
    """What the controller decided last, or a replica has heard of it."""

    log = Var(Fn(Replica, Seq(LogRecord, LogSize)))
    hw = Var(Fn(Replica, Offset))
    view = Var(Fn(Replica, View))
    next_record = Var(Range(0, Records), init=0)
    next_epoch = Var(Range(0, Epochs + 1), init=0)
    requests = Var(Set(View), init=[])
    quorum = Var(View, init=lambda s: {"leader": None, "epoch": None, "isr": elements(s.Replica)})

    # -- the controller ------------------------------------------------------------------------------------

    def decide(s, leader, isr):
        """A new epoch with this leader and ISR; everybody may hear of it."""
        when(s.next_epoch <= s.Epochs)
        decided = {"leader": leader, "epoch": s.next_epoch, "isr": isr}
        s.quorum = decided
        s.requests = with_member(s.requests, decided)
        s.next_epoch = s.next_epoch + 1

    @action
    def ControllerShrinkIsr(s, replica: Replica):
        """A replica is thought dead. The last one stays in the ISR, though it leads no more."""
        leads = s.quorum.leader == replica
        alone = s.quorum.isr == {replica}
        when(leads | member(replica, s.quorum.isr))
        leader = If(leads, None, s.quorum.leader)
        s.decide(leader, If(leads & alone, s.quorum.isr, without(s.quorum.isr, replica)))

    @action
    def ControllerElectLeader(s, replica: Replica):
        """Any member of the ISR may be elected at any time."""
        when(member(replica, s.quorum.isr), s.quorum.leader != replica)
        s.decide(replica, s.quorum.isr)

    # -- the leader ----------------------------------------------------------------------------------------

    @definition
    def Leads(s, replica: Replica):
        """It believes so, rightly or not."""
        return s.view[replica].leader == replica

    @definition
    def Follows(s, follower: Replica, leader: Replica):
        return s.view[follower].leader == leader

    @definition
    def FollowsEpoch(s, follower: Replica, leader: Replica):
        """Both are in the same epoch."""
        same = s.view[follower].epoch == s.view[leader].epoch
        return And(s.Leads(leader), s.Follows(follower, leader), same)

    @action
    def BecomeLeader(s, replica: Replica):
        request = some(s.requests, "request")
        when(request.leader == replica, get_epoch(request) > get_epoch(s.view[replica]))
        s.view[replica] = request

    @action
    def LeaderWrite(s, replica: Replica):
        when(s.Leads(replica), s.next_record < s.Records, size(s.log[replica]) < s.LogSize)
        s.log[replica] = append(s.log[replica], {"id": s.next_record, "epoch": get(s.view[replica].epoch)})
        s.next_record = s.next_record + 1

    @definition
    def TrueLeader(s, leader: Replica):
        """The controller agrees that it leads, in this epoch."""
        view = s.view[leader]
        return And(s.quorum.leader == leader, s.Leads(leader), view.epoch == s.quorum.epoch)

    def set_isr(s, leader, isr):
        when(s.TrueLeader(leader))
        s.quorum.isr = isr
        s.view[leader].isr = isr

    @definition
    def SameEpochAt(s, leader: Replica, follower: Replica, offset: Offset):
        """Both have a record there, of the same epoch."""
        both = (offset < size(s.log[leader])) & (offset < size(s.log[follower]))
        return both & (s.log[leader][offset].epoch == s.log[follower][offset].epoch)

    @definition
    def CaughtUp(s, leader: Replica, follower: Replica, end: Offset):
        """The follower has what lies below `end`, as far as this generation can tell."""
        if s.variant in FIRST_TRY:
            follows = s.Leads(leader) & s.Follows(follower, leader)
            return follows & ((end == 0) | s.SameEpochAt(leader, follower, end - 1))
        has_it = (end <= size(s.log[leader])) & (end <= size(s.log[follower]))
        return s.Follows(follower, leader) & ((end == 0) | has_it)

    @action
    def LeaderShrinkIsr(s, leader: Replica, follower: Replica):
        """The leader throws out who is not caught up."""
        isr = s.view[leader].isr
        when(leader != follower, member(follower, isr))
        end = size(s.log[leader])
        if s.variant in FETCH_FENCED:
            when(~s.FollowsEpoch(follower, leader) | (size(s.log[follower]) < end))
        else:
            when(~s.CaughtUp(leader, follower, end))
        s.set_isr(leader, without(isr, follower))

    @definition
    def HwInOwnEpoch(s, leader: Replica):
        """Its watermark has reached the first record that it wrote itself."""
        hw = s.hw[leader]
        end = size(s.log[leader])
        return (hw == end) | ((hw < end) & (s.log[leader][hw].epoch == get_epoch(s.view[leader])))

    @action
    def LeaderExpandIsr(s, leader: Replica, follower: Replica):
        """A follower that has reached the watermark joins."""
        isr = s.view[leader].isr
        hw = s.hw[leader]
        when(~member(follower, isr))
        if s.variant in FETCH_FENCED:
            when(s.FollowsEpoch(follower, leader), hw <= size(s.log[follower]), s.HwInOwnEpoch(leader))
        else:
            when(s.CaughtUp(leader, follower, hw))
        if s.variant in FIRST_TRY:
            when(s.HwInOwnEpoch(leader))
        s.set_isr(leader, with_member(isr, follower))

    @action
    def LeaderIncHighWatermark(s, leader: Replica):
        """Commit one more record: every member of the ISR, as the leader knows it, has it."""
        hw = s.hw[leader]
        isr = s.view[leader].isr
        when(s.Leads(leader), hw < s.LogSize)
        if s.variant in FETCH_FENCED:
            when(hw < size(s.log[leader]))
            has_it = Forall(isr, lambda r: s.FollowsEpoch(r, leader) & (hw < size(s.log[r])))
        elif s.variant in FIRST_TRY:
            when(hw < size(s.log[leader]))
            has_it = Forall(isr, lambda r: s.CaughtUp(leader, r, hw + 1))
        else:
            has_it = Forall(isr, lambda r: s.Follows(r, leader) & (hw < size(s.log[r])))
        when(has_it)
        s.hw[leader] = hw + 1

    # -- the follower --------------------------------------------------------------------------------------

    @definition
    def EndOfAgreement(s, leader: Replica, follower: Replica):
        """One more than the last offset at which both logs hold the same record."""
        mine, theirs = s.log[follower], s.log[leader]
        common = numbers(0, minimum(size(mine), size(theirs)))
        same = such_that(common, lambda i: mine[i] == theirs[i])
        return If(size(same) == 0, 0, greatest(same, lambda i: i) + 1)

    @definition
    def EndOfEpochByKip101(s, leader: Replica, follower: Replica):
        """Where the leader says that the epoch of the follower's last record ends."""
        mine, theirs = s.log[follower], s.log[leader]
        epoch = last(mine).epoch
        later = such_that(indexes(theirs), lambda i: theirs[i].epoch > epoch)
        ends = If(size(later) == 0, s.hw[follower], least(later, lambda i: i))
        known = If(last(theirs).epoch == epoch, size(theirs), ends)
        return If(size(theirs) == 0, s.hw[follower], known)

    def follow(s, follower, request, offset):
        """Take over the request and cut the log; one cannot cut where there is nothing."""
        when(offset <= size(s.log[follower]))
        s.log[follower] = prefix(s.log[follower], offset)
        s.view[follower] = request
        s.hw[follower] = minimum(offset, s.hw[follower])

    def request_for(s, follower, leader):
        request = some(s.requests, "request")
        when(leader != follower, request.leader == leader)
        when(get_epoch(request) > get_epoch(s.view[follower]))
        return request

    @only("variant", "truncate-to-hw")
    @action
    def BecomeFollowerTruncateToHw(s, leader: Replica, follower: Replica):
        s.follow(follower, s.request_for(follower, leader), s.hw[follower])

    @only("variant", "kip-101")
    @action
    def BecomeFollowerKip101(s, leader: Replica, follower: Replica):
        request = s.request_for(follower, leader)
        empty = size(s.log[follower]) == 0
        s.follow(follower, request, If(empty, 0, s.EndOfEpochByKip101(leader, follower)))

    @only("variant", "kip-279")
    @action
    def BecomeFollowerKip279(s, leader: Replica, follower: Replica):
        request = s.request_for(follower, leader)
        s.follow(follower, request, s.EndOfAgreement(leader, follower))

    @only("variant", *FETCH_FENCED)
    @action
    def BecomeFollowerKip320(s, leader: Replica, follower: Replica):
        """The leader answers only for its own epoch."""
        request = s.request_for(follower, leader)
        when(s.Leads(leader), s.view[leader].epoch == request.epoch)
        s.follow(follower, request, s.EndOfAgreement(leader, follower))

    @only("variant", *FIRST_TRY)
    @action
    def BecomeFollowerWithoutCutting(s, leader: Replica, follower: Replica):
        s.view[follower] = s.request_for(follower, leader)

    @only("variant", *FIRST_TRY)
    @action
    def FollowerTruncates(s, leader: Replica, follower: Replica):
        """Only now, since the leader has objected to the last record."""
        mine, theirs = s.log[follower], s.log[leader]
        end = size(mine)
        when(s.Leads(leader), s.Follows(follower, leader))
        differs = And(end > 0, end <= size(theirs), last(mine).epoch != theirs[end - 1].epoch)
        when((end > size(theirs)) | differs)
        offset = s.EndOfAgreement(leader, follower)
        s.log[follower] = prefix(mine, offset)
        s.hw[follower] = minimum(offset, s.hw[follower])

    @action
    def FollowerFetches(s, leader: Replica, follower: Replica):
        """Copy one record, and learn the leader's watermark with it."""
        mine, theirs = s.log[follower], s.log[leader]
        end = size(mine)
        if s.variant in FETCH_FENCED:
            when(s.FollowsEpoch(follower, leader))
        elif s.variant in FIRST_TRY:
            when(s.CaughtUp(leader, follower, end))
        else:
            when(s.Leads(leader), s.Follows(follower, leader))
        when(end < size(theirs))
        s.log[follower] = append(mine, theirs[end])
        s.hw[follower] = minimum(s.hw[leader], end + 1)

    # -- restarts ------------------------------------------------------------------------------------------

    @only("variant", *RESTARTS)
    @action
    def Restart(s, replica: Replica):
        """It is nobody until it hears of a newer epoch. It has its log, or what its watermark leaves."""
        view, log = s.view[replica], s.log[replica]
        if s.variant == "restart-to-hw-out-of-isr":
            when(~member(replica, s.quorum.isr) | (s.quorum.isr == {replica}))
        s.view[replica] = {"leader": None, "epoch": view.epoch, "isr": []}
        if s.variant in CUTS_AT_RESTART:
            when(is_some(view.leader) | (s.hw[replica] < size(log)))
            s.log[replica] = prefix(log, s.hw[replica])
        else:
            when(is_some(view.leader))

    # -- properties ----------------------------------------------------------------------------------------

    @definition
    def AgreeBelow(s, one: Replica, other: Replica, hw: Offset):
        mine, theirs = s.log[one], s.log[other]
        both = (hw <= size(mine)) & (hw <= size(theirs))
        return both & Forall(numbers(0, hw), lambda i: mine[i] == theirs[i])

    @invariant
    def StrongIsr(s):
        """Whoever may be elected holds what any presumed leader shows as committed."""
        return Forall(
            s.Replica,
            s.quorum.isr,
            lambda a, b: Implies(s.Leads(a), (s.hw[a] == 0) | s.AgreeBelow(a, b, s.hw[a])),
        )

    @sometimes
    def TwoPresumedLeaders(s):
        return Exists(s.Replica, s.Replica, lambda a, b: And(a != b, s.Leads(a), s.Leads(b)))

    @sometimes
    def EverythingCommitted(s):
        return Exists(s.Replica, lambda r: s.hw[r] == s.LogSize)


def get_epoch(view):
    """-1 stands for no epoch yet; an Option of whole numbers is held just so."""
    return If(is_none(view.epoch), -1, get(view.epoch))
