"""ISR replication of one partition, as liftlog does it: rules I2, R1, R2, R6, R7 and R9 to R16.

A leader copies its log to in-sync replicas (ISR) and commits what all of them have on disk. Who leads and who
is in sync is decided by the metadata group, one log of commands that each replica applies at its own pace: a
replica may believe for long what the group has given up. Kafka's replication with KIP-320 and KIP-966 is the
ancestor (liftlog_spec/models/kafka.py has the former); ours adds incarnations, so that a restart is never
taken for the process that it replaces, and tail states, so that a disk that may have lost something says so.

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

from liftlog_spec.lang import *
from liftlog_spec.models.isr_replica import IsrReplica


class Isr(IsrReplica):
    """A fetch and its answer are one step, and a crashed replica is back in one."""

    Replica, Offset, Run = IsrReplica.Replica, IsrReplica.Offset, IsrReplica.Run
    Epoch, Entry = IsrReplica.Epoch, IsrReplica.Entry

    Delays = Constant(0)
    """Messages that arrive at any later time."""

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

    delays = Var(Range(0, Delays))
    late = Var(Option(Late))

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

    # -- logs ----------------------------------------------------------------------------------------------

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

    # -- the metadata --------------------------------------------------------------------------------------

    @action
    def ElectAnother(s, to: Replica):
        """R15, R16: after reports of followers, a resignation, or to spread leaders evenly."""
        now = s.now
        when(is_some(now.leader), now.leader != to, member(to, now.isr), member(to, now.live))
        s.begin_epoch(to, now.isr, "isr")

    def present(s, r):
        """It runs."""
        return s.up[r]

    def may_fall(s, r):
        return s.up[r]

    def has_fallen(s, r, tail):
        s.forget_news(r, None)

    def has_applied(s, r, index):
        s.forget_news(r, index)

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

    @definition
    def MayPropose(s, lead: Replica):
        """One change at a time; a proposal on an old version would be refused."""
        return And(s.Leads(lead), is_none(s.pending[lead]), s.view[lead].version == s.now.version)

    def propose(s, lead, who, joins):
        s.pending[lead] = who
        s.change = {"who": who, "joins": joins, "run": s.view[lead].runs[who]}

    def forget_news(s, r, applied):
        """What everybody who runs has applied; `applied` = how far `r` has, or None if it is down."""

        def reached(o):
            return If(o == r, s.index if applied is None else applied, If(s.up[o], s.applied[o], s.index))

        oldest = least(s.Replica, reached)
        s.news = function(s.Index, lambda i: If(i <= oldest, None, s.news[i]))
