"""State of the ISR model, and the metadata group: one log of commands about a partition.

The group changes an ISR by compare-and-set on the version (R9), keeps who is eligible (R13) and what is known
of doubtful copies (R14), ends leaderships (R1, R15) and elects (R16). `news` holds what it has decided until
every running replica has applied it.
"""

from __future__ import annotations

from liftlog_spec.lang import *

UNHEARD = -1


class IsrGroup(Model):
    """State of one partition and its replicas, and what the group does."""

    variant = Setting(
        "right",
        "restarted-leader-keeps-epoch",
        "minimum-over-maximal-isr",
        "hw-over-shrunk-isr",
        "pending-ended-by-timeout",
        "late-addition-of-old-incarnation",
        "unsynced-recovery",
        "truncate-to-hw",
        "fetch-not-fenced",
        "report-not-fenced",
        "wiped-replica-rejoins",
        "suspect-tail-rejoins",
    )
    Replicas = Constant(3)
    Minimum = Constant(2)
    Records = Constant(1)
    Epochs = Constant(2)
    Changes = Constant(2)
    Crashes = Constant(1)
    Damages = Constant(1)
    """Changes: commands that the group applies. Crashes: of all replicas. Damages: crashes that cost
    something durable."""

    Replica = Sort(Replicas)
    Epoch = Range(0, Epochs)
    Offset = Range(0, Records)
    Run = Range(0, Crashes)
    Index = Range(0, Changes)
    Entry = Record(epoch=Epoch, run=Run)
    Log = Seq(Entry, Records)
    View = Record(
        leader=Option(Replica),
        epoch=Epoch,
        version=Index,
        isr=Set(Replica),
        runs=Fn(Replica, Run),
        live=Set(Replica),
    )
    """What the metadata says at one index: a replica sees the one that it has applied."""
    Change = Record(who=Replica, joins=Bool, run=Run)
    """A change of the ISR on its way: conditioned on the present version, and gone with it."""
    Known = Record(epoch=Epoch, leo=Offset, lost=Bool)
    """R14: what a copy that may have lost something still had."""
    # The metadata group.
    now = Var(View)
    index = Var(Index)
    eligible = Var(Set(Replica))
    known = Var(Fn(Replica, Option(Known)))
    change = Var(Option(Change))
    elected = Var(Enum("isr", "eligible", "last-known"))
    news = Var(Fn(Index, Option(View)))
    """What some replica has not applied yet."""

    # Each replica: its disk and its log; what it has applied; what it knows as a leader.
    up = Var(Fn(Replica, Bool), init=True)
    tail = Var(Fn(Replica, Enum("clean", "suspect", "wiped")))
    run = Var(Fn(Replica, Run))
    log = Var(Fn(Replica, Log))
    synced = Var(Fn(Replica, Offset))
    found = Var(Fn(Replica, Offset))
    hw = Var(Fn(Replica, Offset))
    applied = Var(Fn(Replica, Index))
    view = Var(Fn(Replica, View))
    first = Var(Fn(Replica, Offset))
    """LEO at which the epoch that it leads began."""
    progress = Var(Fn(Replica, Fn(Replica, Range(UNHEARD, Records))))
    pending = Var(Fn(Replica, Option(Replica)))

    # Budgets, and what was ever committed.
    crashes = Var(Range(0, Crashes))
    damages = Var(Range(0, Damages))
    committed = Var(Log)

    # -- the metadata group --------------------------------------------------------------------------------

    def publish(s, touched, leader, epoch, isr, runs, live):
        """One more command is applied. `touched`: the partition's version grows, which voids a change."""
        when(s.index < s.Changes)
        view = record(
            s.View,
            leader=leader,
            epoch=epoch,
            version=If(touched, s.now.version + 1, s.now.version),
            isr=isr,
            runs=runs,
            live=live,
        )
        s.now = view
        s.index = s.index + 1
        s.news[s.index + 1] = view
        s.change = If(touched, None, s.change)
        return view

    def least_in_sync(s):
        """The minimum in sync that the group has decided last."""
        return s.Minimum

    def at_minimum(s, isr):
        return size(isr) >= s.least_in_sync()

    def still_eligible(s, chosen, others):
        """R13: who stays eligible when an eligible one is elected."""
        return others

    def forget_outsiders(s, enough, eligible):
        """R13, R14: with the ISR at its minimum nobody outside is needed any more."""
        s.eligible = If(enough, [], eligible)
        s.known = function(s.Replica, lambda o: If(enough, None, s.known[o]))

    @action
    def RefuseAddition(s):
        """R9: the run that was meant is not there any more; the version grows all the same."""
        when(is_some(s.change))
        change, now = get(s.change), s.now
        when(change.joins, ~s.Current(change.who, change.run))
        if s.variant == "late-addition-of-old-incarnation":
            when(~member(change.who, now.live))
        s.publish(True, now.leader, now.epoch, now.isr, now.runs, now.live)

    @definition
    def Current(s, who: Replica, run: Run):
        return And(member(who, s.now.live), s.now.runs[who] == run)

    @action
    def ApplyAddition(s):
        """R9, R13: only of the run that was meant."""
        when(is_some(s.change))
        change, now = get(s.change), s.now
        when(change.joins)
        if s.variant == "late-addition-of-old-incarnation":
            when(member(change.who, now.live))
        else:
            when(s.Current(change.who, change.run))
        isr = with_member(now.isr, change.who)
        s.forget_outsiders(s.at_minimum(isr), without(s.eligible, change.who))
        s.publish(True, now.leader, now.epoch, isr, now.runs, now.live)

    @action
    def ApplyRemoval(s):
        """R13: below the minimum nothing commits, and who is removed then has everything."""
        when(is_some(s.change))
        change, now = get(s.change), s.now
        when(~change.joins)
        isr = without(now.isr, change.who)
        s.forget_outsiders(s.at_minimum(isr), with_member(s.eligible, change.who))
        s.publish(True, now.leader, now.epoch, isr, now.runs, now.live)

    @action
    def ExpireMember(s, r: Replica):
        """R15: a lost session ends ISR membership and leadership in one command."""
        now = s.now
        when(member(r, now.isr))
        isr = without(now.isr, r)
        s.forget_outsiders(s.at_minimum(isr), with_member(s.eligible, r))
        leader = If(now.leader == r, None, now.leader)
        s.publish(True, leader, now.epoch, isr, now.runs, without(now.live, r))

    @action
    def ExpireOutsider(s, r: Replica):
        now = s.now
        when(member(r, now.live), ~member(r, now.isr))
        s.publish(False, now.leader, now.epoch, now.isr, now.runs, without(now.live, r))

    @action
    def ElectFromIsr(s, to: Replica):
        """R16: a live member of the ISR."""
        now = s.now
        when(is_none(now.leader), member(to, now.isr), member(to, now.live))
        s.begin_epoch(to, now.isr, "isr")

    @action
    def ElectFromEligible(s, to: Replica):
        """R13: it is the whole ISR from now on, the others keep their eligibility."""
        now = s.now
        when(is_none(now.leader), intersection(now.isr, now.live) == [])
        when(member(to, s.eligible), member(to, now.live))
        s.eligible = s.still_eligible(to, without(union(now.isr, s.eligible), to))
        s.begin_epoch(to, [to], "eligible")

    @action
    def ElectFromLastKnown(s, to: Replica):
        """R14: nobody else is left, none of the last known is lost, and this one has the most."""
        now = s.now
        when(is_none(now.leader), now.isr == [], s.eligible == [], is_some(s.known[to]), member(to, now.live))
        mine = get(s.known[to])

        def behind(o):
            theirs = get(s.known[o])
            less = Or(theirs.epoch < mine.epoch, And(theirs.epoch == mine.epoch, theirs.leo <= mine.leo))
            return Implies(is_some(s.known[o]), And(~theirs.lost, less))

        when(Forall(s.Replica, behind))
        s.known = function(s.Replica, lambda o: If(Or(o == to, s.least_in_sync() == 1), None, s.known[o]))
        s.begin_epoch(to, [to], "last-known")

    def begin_epoch(s, to, isr, how):
        """R1: a new epoch."""
        when(s.now.epoch < s.Epochs)
        s.elected = how
        s.publish(True, to, s.now.epoch + 1, isr, s.now.runs, s.now.live)

    def report(s, r, lost):
        """What the disk of `r` still has."""
        epoch = If(size(s.log[r]) == 0, 0, last(s.log[r]).epoch)
        return record(s.Known, epoch=epoch, leo=size(s.log[r]), lost=lost)

    @definition
    def Doubtful(s, r: Replica):
        """R14, I2: it may lack what it had reported durable."""
        if s.variant == "wiped-replica-rejoins":
            return s.tail[r] == "suspect"
        if s.variant == "suspect-tail-rejoins":
            return s.tail[r] == "wiped"
        return s.tail[r] != "clean"

    @action
    def Register(s, r: Replica):
        """R1: no leadership of the old run lasts."""
        now, before = s.now, s.known[r]
        when(~s.present(r), ~s.Doubtful(r))
        reports = And(is_some(before), ~get(before).lost)
        s.known[r] = If(reports, s.report(r, False), before)
        led = now.leader == r
        if s.variant == "restarted-leader-keeps-epoch":
            s.rise(r, led, now.leader, now.isr)
            s.first[r] = If(led, size(s.log[r]), 0)
        else:
            s.rise(r, led, If(led, None, now.leader), now.isr)

    @action
    def RegisterAfterDamage(s, r: Replica):
        """I2, R14: it leaves ISR and eligible in the same command, and what it still has is remembered."""
        now, before, lost = s.now, s.known[r], s.tail[r] == "wiped"
        when(~s.present(r), s.Doubtful(r))
        isr = without(now.isr, r)
        was = Or(member(r, now.isr), member(r, s.eligible), is_some(before))
        enough = And(was, s.at_minimum(isr))
        s.eligible = If(enough, [], without(s.eligible, r))
        report = s.report(r, Or(lost, And(is_some(before), get(before).lost)))

        def remembered(o):
            return If(enough, None, If(And(o == r, was), report, s.known[o]))

        s.known = function(s.Replica, remembered)
        s.rise(r, was, If(now.leader == r, None, now.leader), isr)
