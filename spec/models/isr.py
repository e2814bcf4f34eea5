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
    Bool,
    Constant,
    Enum,
    Exists,
    Fn,
    Forall,
    If,
    Implies,
    Model,
    Option,
    Or,
    Range,
    Record,
    Seq,
    Set,
    Setting,
    Sort,
    Var,
    action,
    append,
    count,
    definition,
    elements,
    function,
    get,
    indexes,
    initial,
    intersection,
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
    record,
    size,
    sometimes,
    union,
    when,
    with_member,
    without,
)

UNHEARD = -1


class Isr(Model):
    """One partition, its replicas and the metadata group."""

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
    Changes = Constant(3)
    Crashes = Constant(1)
    Damages = Constant(1)
    Delays = Constant(0)
    """Changes: commands that the group applies. Crashes: of all replicas. Damages: crashes that cost
    something durable. Delays: messages that arrive at any later time."""

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
    Late = Record(
        kind=Enum("records", "cut", "report"),
        follower=Replica,
        leader=Replica,
        epoch=Epoch,
        run=Run,
        at=Offset,
        to=Offset,
        entry=Option(Entry),
        hw=Offset,
    )
    """A message on its way. at: the LEO of the question. to: where to cut, or what is durable."""

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

    # Budgets, a late message, and what was ever committed.
    crashes = Var(Range(0, Crashes))
    damages = Var(Range(0, Damages))
    delays = Var(Range(0, Delays))
    late = Var(Option(Late))
    committed = Var(Log)

    @initial
    def Begin(s, leader: Replica):
        """R12: all are live and in sync; everybody knows who leads."""
        first = {
            "leader": leader,
            "epoch": 1,
            "version": 0,
            "isr": elements(s.Replica),
            "runs": 0,
            "live": elements(s.Replica),
        }
        s.now = first
        s.view = first

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

    def at_minimum(s, isr):
        return size(isr) >= s.Minimum

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
        when(member(r, now.live), member(r, now.isr))
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
    def ElectAnother(s, to: Replica):
        """R15, R16: after reports of followers, a resignation, or to spread leaders evenly."""
        now = s.now
        when(is_some(now.leader), now.leader != to, member(to, now.isr), member(to, now.live))
        s.begin_epoch(to, now.isr, "isr")

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
        s.eligible = without(union(now.isr, s.eligible), to)
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
        s.known = function(s.Replica, lambda o: If(Or(o == to, s.Minimum == 1), None, s.known[o]))
        s.begin_epoch(to, [to], "last-known")

    def begin_epoch(s, to, isr, how):
        """R1: a new epoch."""
        when(s.now.epoch < s.Epochs)
        s.elected = how
        s.publish(True, to, s.now.epoch + 1, isr, s.now.runs, s.now.live)

    def rise(s, r, touched, leader, isr):
        """A new run is registered and has applied all that was decided until then."""
        now = s.now
        runs = function(s.Replica, lambda o: If(o == r, s.run[r] + 1, now.runs[o]))
        view = s.publish(touched, leader, now.epoch, isr, runs, with_member(now.live, r))
        s.up[r] = True
        s.run[r] = s.run[r] + 1
        s.tail[r] = "clean"
        s.view[r] = view
        s.applied[r] = s.index + 1

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
        when(~s.up[r], ~s.Doubtful(r))
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
        when(~s.up[r], s.Doubtful(r))
        isr = without(now.isr, r)
        was = Or(member(r, now.isr), member(r, s.eligible), is_some(before))
        enough = And(was, s.at_minimum(isr))
        s.eligible = If(enough, [], without(s.eligible, r))
        report = s.report(r, Or(lost, And(is_some(before), get(before).lost)))

        def remembered(o):
            return If(enough, None, If(And(o == r, was), report, s.known[o]))

        s.known = function(s.Replica, remembered)
        s.rise(r, was, If(now.leader == r, None, now.leader), isr)

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
