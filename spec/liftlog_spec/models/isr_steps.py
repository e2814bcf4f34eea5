"""The ISR protocol in the steps that the program takes: each step of the core is one of these, or several.

The same state, group and rules as `isr.py`. What is one step there and takes time in the program comes in
parts here: a fetch goes out, is answered with as many records as the leader likes, perhaps later, and its
answer arrives or does not; what a follower reports was true when it was sent; a sync covers a part of the
log; a registration, its confirmation and the opening of the log are three events; a proposal may be made on
metadata that is out of date; and a log can fail while its process lives on (R5).

This is the model that runs are checked against (docs/spec-refinement.md). It is also explored, at smaller
bounds than `isr.py`, with the same invariants and variants.

Three things happen to a replica here. *Its process* falls, and a later one registers: `here`. *Its log* fails
or is damaged, and is opened again: `up`. *A cut* of its log is remembered until it is durable: a crash before
that brings back what was cut (`former`).

A replica tells the group that it may hold less than it had (`told`); until the group knows, it stays closed.

Replicas may be moved (R20, `moves`): once all that are to have a copy are in the ISR, the others leave it, in
one command that ends the epoch; they drop theirs, and may get another one later, which begins empty. Who has
not been given a copy yet is to the model a replica that is out of the ISR and has nothing. Two ways to do it
wrong:

    before-in-sync     the command does not ask whether those who are to have a copy are in the ISR
    within-epoch       it does not end the epoch, so that what a dropped copy had reported is still believed

The minimum in sync may be altered (R19, `alters`): by a command of the group, which each replica applies in
its turn; a leader commits by the minimum that it has applied. Two ways to do it wrong:

    keeps-eligible        who was eligible by the minimum before is so still, though the ISR commits alone now
    elects-with-eligible  whoever is elected from the eligible leaves the others eligible, though by the
                          minimum that holds now it commits alone
"""

from __future__ import annotations

from liftlog_spec.lang import *
from liftlog_spec.models.isr_group import UNHEARD
from liftlog_spec.models.isr_replica import IsrReplica


class IsrSteps(IsrReplica):
    """See the module's text."""

    Replica, Offset, Run = IsrReplica.Replica, IsrReplica.Offset, IsrReplica.Run
    Epoch, Entry, Log, Known = IsrReplica.Epoch, IsrReplica.Entry, IsrReplica.Log, IsrReplica.Known

    operator = Setting("keeps", "may-lose")
    """may-lose: an operator may have a replica elected that lacks what is committed. No promise then."""
    moves = Setting("none", "right", "before-in-sync", "within-epoch")
    """Whether replicas are moved, and how (R20)."""
    alters = Setting("none", "right", "keeps-eligible", "elects-with-eligible")
    pairs = Setting("none", "other-log")
    """Whether the minimum in sync is altered, and how (R19)."""
    Replicas = Constant(2)
    Damages = Constant(0)
    Mail = Constant(1)
    Confessions = Constant(1)
    """Mail: messages that are on their way at one time. Confessions: what is told to the group, the same."""

    Message = Record(
        kind=Enum("report", "records", "cut", "start"),
        follower=Replica,
        leader=Replica,
        epoch=Epoch,
        run=Run,
        at=Offset,
        last=Epoch,
        to=Offset,
        entries=Log,
        hw=Offset,
    )
    """at: the follower's LEO when it asked, last: the epoch before it. to: durable; where to cut."""
    Told = Record(who=Replica, run=Run, epoch=Epoch, leo=Offset, less=Bool)
    """A replica says what it has left. less: less than it had reported durable."""
    Tail = Enum("clean", "suspect", "wiped")
    Least = Range(0, Replicas)
    Former = Record(log=Log, synced=Offset, cut=Offset)
    """A log as it was before it was cut."""

    here = Var(Fn(Replica, Bool), init=True)
    """Its process is registered and applies what the group decides; `up`: its log is open, too."""
    barred = Var(Fn(Replica, Epoch))
    """R5: a log that failed leads no epoch again up to this one."""
    remembered = Var(Fn(Replica, Offset))
    """The greatest HW that its disk may remember; checkpoints are old, and some cannot be read (R8)."""
    former = Var(Fn(Replica, Set(Former)))
    mail = Var(Set(Message))
    told = Var(Set(Told))
    minimum_now = Var(Least)
    """Has the group decided; `minimum_of`: has each replica applied; `minimum_news`: not all have yet."""
    minimum_of = Var(Fn(Replica, Least))
    minimum_news = Var(Fn(IsrReplica.Index, Option(Least)))

    # -- creation (R12) ------------------------------------------------------------------------------------

    @initial
    def Begin(s):
        """Nobody has opened its log yet, and nobody leads."""
        first = {
            "leader": None,
            "epoch": 0,
            "version": 0,
            "isr": elements(s.Replica),
            "runs": 0,
            "live": elements(s.Replica),
        }
        s.now = first
        s.view = first
        s.up = False
        if s.alters != "none":
            s.minimum_now = s.Minimum
            s.minimum_of = function(s.Replica, lambda o: s.Minimum)

    @action
    def IsAbsent(s, r: Replica):
        """R12: at its creation it is not live. The first ISR are those that are, or all if none is."""
        when(s.index == 0, member(r, s.now.live), Forall(s.Replica, lambda o: ~s.up[o]))
        live = without(s.now.live, r)
        first = {
            "leader": None,
            "epoch": 0,
            "version": 0,
            "isr": If(live == [], elements(s.Replica), live),
            "runs": s.now.runs,
            "live": live,
        }
        s.now = first
        s.view = function(s.Replica, lambda o: If(s.here[o], first, s.view[o]))

    # -- logs ----------------------------------------------------------------------------------------------

    @action
    def Sync(s, r: Replica):
        """R5: all of it, and what was cut is gone for good."""
        when(s.up[r], Or(s.synced[r] < size(s.log[r]), s.former[r] != []))
        s.synced[r] = size(s.log[r])
        s.former[r] = []

    @action
    def SyncSome(s, r: Replica, to: Offset):
        """A part of it. Disks work in order: what comes after a cut is synced after it."""
        when(s.up[r], s.synced[r] < to, to <= size(s.log[r]))
        s.synced[r] = to
        s.former[r] = such_that(s.former[r], lambda old: to <= old.cut)

    def ends_with(s, log, end):
        """The epoch of the record before `end`."""
        return If(end == 0, 0, log[end - 1].epoch)

    # -- questions (R6, R7) --------------------------------------------------------------------------------

    def send(s, mail, kind, f, lead, to, entries, hw):
        when(size(mail) < s.Mail)
        at = size(s.log[f])
        message = {
            "kind": kind,
            "follower": f,
            "leader": lead,
            "epoch": s.view[f].epoch,
            "run": s.run[f],
            "at": at,
            "last": s.ends_with(s.log[f], at),
            "to": to,
            "entries": entries,
            "hw": hw,
        }
        s.mail = with_member(mail, message)

    @action
    def Ask(s, f: Replica, to: Offset):
        """R6: an answer to an older question is not used. R7: the question tells what is durable."""
        lead = s.view[f].leader
        when(s.up[f], is_some(lead), lead != f, to <= s.Claimed(f))
        mail = s.mail
        if s.variant != "fetch-not-fenced":
            mail = such_that(s.mail, lambda m: Or(m.follower != f, m.kind == "report"))
        s.send(mail, "report", f, get(lead), to, [], 0)

    @action
    def Tell(s, f: Replica, to: Offset):
        """R7: what is durable, between two questions."""
        lead = s.view[f].leader
        when(s.up[f], is_some(lead), lead != f, to <= s.Claimed(f))
        s.send(s.mail, "report", f, get(lead), to, [], 0)

    @action
    def IsLost(s):
        m = some(s.mail)
        s.mail = without(s.mail, m)

    @action
    def ReportArrives(s, lead: Replica):
        """R2: of this epoch and of the registered run, from a log that is a prefix of the leader's."""
        m = some(s.mail)
        when(m.kind == "report", m.leader == lead, s.Leads(lead))
        if s.variant != "report-not-fenced":
            when(s.view[lead].epoch == m.epoch, s.view[lead].runs[m.follower] == m.run)
            when(m.at <= size(s.log[lead]))
            when(s.ends_with(s.log[lead], m.at) == m.last)
        when(m.to > s.progress[lead][m.follower])
        s.progress[lead][m.follower] = m.to
        s.mail = without(s.mail, m)

    # -- answers (R6, R8) ----------------------------------------------------------------------------------

    @action
    def Answer(s, f: Replica, lead: Replica, end: Offset):
        """The records up to `end`, and the HW."""
        at = size(s.log[f])
        when(f != lead, s.Follows(f, lead), s.Agrees(f, lead), at <= end, end <= size(s.log[lead]))
        s.send(s.mail, "records", f, lead, 0, rest(prefix(s.log[lead], end), at), s.hw[lead])

    @action
    def AnswerWithCut(s, f: Replica, lead: Replica):
        """The logs have parted."""
        when(f != lead, s.Follows(f, lead), ~s.Agrees(f, lead))
        s.send(s.mail, "cut", f, lead, s.CutAt(f, lead), [], 0)

    @action
    def AnswerWithStart(s, f: Replica, lead: Replica, start: Offset):
        """C3: what the logs share ends before the leader's log begins; all of that is committed."""
        when(f != lead, s.Follows(f, lead), start <= s.hw[lead])
        shared = If(s.Agrees(f, lead), size(s.log[f]), s.CutAt(f, lead))
        when(shared < start)
        s.send(s.mail, "start", f, lead, start, prefix(s.log[lead], start), 0)

    @definition
    def Answers(s, m: Message, f: Replica):
        """R6: the question was asked in this epoch and run, and nothing was asked since."""
        if s.variant == "fetch-not-fenced":
            return And(m.follower == f, s.up[f], Or(m.kind == "cut", m.at == size(s.log[f])))
        present = And(s.view[f].epoch == m.epoch, s.run[f] == m.run, m.at == size(s.log[f]))
        return And(m.follower == f, s.up[f], present)

    @action
    def RecordsArrive(s, f: Replica, end: Offset):
        """R8: append what has arrived whole, and learn the HW."""
        m = some(s.mail)
        when(m.kind == "records", s.Answers(m, f), m.at <= end, end <= m.at + size(m.entries))
        s.log[f] = concat(s.log[f], prefix(m.entries, end - m.at))
        s.hw[f] = maximum(s.hw[f], minimum(m.hw, end))
        s.mail = without(s.mail, m)

    def keep_former(s, f, cut):
        """Until the cut is durable, a crash may undo it."""
        old = record(s.Former, log=s.log[f], synced=s.synced[f], cut=cut)
        s.former[f] = with_member(s.former[f], old)

    @action
    def CutArrives(s, f: Replica):
        """Below the HW nothing is cut, unless an operator has agreed to lose it."""
        m = some(s.mail)
        when(m.kind == "cut", s.Answers(m, f), m.to < size(s.log[f]))
        s.keep_former(f, m.to)
        s.cut(f, m.to)
        s.hw[f] = minimum(s.hw[f], m.to)
        s.mail = without(s.mail, m)

    @action
    def StartArrives(s, f: Replica):
        """C3: it forgets what it has, and goes on where the leader's log begins."""
        m = some(s.mail)
        when(m.kind == "start", s.Answers(m, f))
        s.keep_former(f, 0)
        s.log[f] = m.entries
        s.synced[f] = minimum(s.synced[f], m.to)
        s.hw[f] = m.to
        s.mail = without(s.mail, m)

    # -- processes (I2, R1) --------------------------------------------------------------------------------

    def present(s, r):
        """It applies what the group decides."""
        return s.here[r]

    def may_fall(s, r):
        """A process may die before it has registered, or opened its log."""
        return True

    def has_fallen(s, r, tail):
        """Of the HW the disk remembers any that it ever was."""
        s.here[r] = False
        s.remembered[r] = If(tail == "wiped", 0, maximum(s.remembered[r], s.hw[r]))
        s.former[r] = []
        s.barred[r] = 0
        if s.alters != "none":
            s.minimum_of[r] = s.Minimum

    def has_applied(s, r, index):
        """The last one that is here forgets the command."""
        others = Forall(s.Replica, lambda o: Or(o == r, ~s.here[o], s.applied[o] >= index))
        s.news[index] = If(others, None, s.news[index])
        if s.alters != "none":
            altered = s.minimum_news[index]
            s.minimum_of[r] = If(is_some(altered), get(altered), s.minimum_of[r])
            s.minimum_news[index] = If(others, None, altered)

    @action
    def CrashWithDoubt(s, r: Replica):
        """R14: the end looks torn although nothing is missing, or there is damage in the middle."""
        s.fall(r, size(s.log[r]), "suspect")

    @action
    def CrashBeforeCut(s, r: Replica, keep: Offset, tail: Tail):
        """A cut that was not durable is undone, or done in part."""
        old = some(s.former[r])
        kept = minimum(maximum(old.synced, s.synced[r]), old.cut)
        when(tail != "wiped", Or(tail == "suspect", kept <= keep), keep <= size(old.log))
        costs = If(keep < kept, 1, 0)
        when(s.damages + costs <= s.Damages)
        s.damages = s.damages + costs
        s.fall_to(r, prefix(old.log, keep), keep, tail)

    def rise(s, r, touched, leader, isr):
        """A new run is registered. It is not live before it has confirmed that, and opens its log later."""
        now = s.now
        runs = function(s.Replica, lambda o: If(o == r, s.run[r] + 1, now.runs[o]))
        view = s.publish(touched, leader, now.epoch, isr, runs, without(now.live, r))
        s.here[r] = True
        s.run[r] = s.run[r] + 1
        s.tail[r] = "clean"
        s.view[r] = view
        s.applied[r] = s.index + 1
        if s.alters != "none":
            s.minimum_of[r] = s.minimum_now

    @action
    def Confirm(s, r: Replica):
        """I2, R15: its run is on its disk, or it is back after its session had expired."""
        now = s.now
        when(~member(r, now.live))
        s.publish(False, now.leader, now.epoch, now.isr, now.runs, with_member(now.live, r))

    @action
    def Open(s, r: Replica, hw: Offset):
        """R1: it takes part from now on, with the HW that it remembers."""
        when(s.here[r], ~s.up[r], s.tail[r] == "clean")
        when(hw <= s.remembered[r], hw <= size(s.log[r]))
        when(Implies(s.view[r].leader == r, s.view[r].epoch > s.barred[r]))
        s.up[r] = True
        s.hw[r] = hw
        s.pending[r] = None
        s.progress[r] = UNHEARD
        s.first[r] = If(s.view[r].leader == r, size(s.log[r]), 0)

    # -- logs that fail (R5, D2) ---------------------------------------------------------------------------

    @action
    def LogFails(s, r: Replica):
        """The replica stops. Another leadership of this epoch could rewrite what the last one sent."""
        when(s.up[r], s.crashes < s.Crashes)
        s.crashes = s.crashes + 1
        s.up[r] = False
        s.remembered[r] = maximum(s.remembered[r], s.hw[r])
        s.hw[r] = 0
        s.barred[r] = s.view[r].epoch
        s.pending[r] = None
        s.progress[r] = UNHEARD
        s.first[r] = 0

    @action
    def LogIsBack(s, r: Replica, keep: Offset):
        """In a new file, with what was durable, and perhaps more."""
        when(s.here[r], ~s.up[r], s.synced[r] <= keep, keep <= size(s.log[r]))
        when(Or(keep < size(s.log[r]), s.synced[r] < keep, s.former[r] != []))
        s.log[r] = prefix(s.log[r], keep)
        s.synced[r] = keep
        s.former[r] = []

    @action
    def CutIsUndone(s, r: Replica, keep: Offset):
        """A cut, or a beginning anew, was not durable when the log failed: on the disk is the one before."""
        old = some(s.former[r])
        kept = minimum(maximum(old.synced, s.synced[r]), old.cut)
        when(s.here[r], ~s.up[r], kept <= keep, keep <= size(old.log))
        s.log[r] = old.log
        s.synced[r] = keep
        s.former[r] = []

    @action
    def LogIsShort(s, r: Replica, keep: Offset):
        """D2: or with less. The group hears of that before anybody may count on this replica."""
        when(s.here[r], ~s.up[r], keep < s.synced[r], s.damages < s.Damages)
        s.damages = s.damages + 1
        s.log[r] = prefix(s.log[r], keep)
        s.synced[r] = keep
        s.former[r] = []
        s.tail[r] = "suspect"
        s.say(r, keep, s.ends_with(s.log[r], keep), True)

    @action
    def Confess(s, r: Replica, leo: Offset, less: Bool):
        """It says what it has left: after a failure, or because a part of it is damaged."""
        when(s.here[r], leo == s.synced[r])
        s.say(r, leo, s.ends_with(s.log[r], leo), less)

    @action
    def ConfessOfBefore(s, r: Replica, less: Bool):
        """Or of the log before, if it began anew and does not know whether that is durable."""
        old, leo = some(s.former[r]), s.synced[r]
        when(s.here[r], leo <= size(old.log))
        s.say(r, leo, s.ends_with(old.log, leo), less)

    def say(s, r, leo, epoch, less):
        when(size(s.told) < s.Confessions)
        said = record(s.Told, who=r, run=s.run[r], epoch=epoch, leo=leo, less=less)
        s.told = with_member(s.told, said)

    # -- the metadata group --------------------------------------------------------------------------------

    @action
    def HearConfession(s, again: Bool):
        """R5, R14: it leaves ISR and eligible. If it has less than it said, nobody goes on counting that.

        again: the same was said twice, and the other one is still on its way.
        """
        m = some(s.told)
        now, r = s.now, m.who
        when(now.runs[r] == m.run)
        before = s.known[r]
        isr = without(now.isr, r)
        was = Or(member(r, now.isr), member(r, s.eligible), is_some(before))
        enough = And(was, s.at_minimum(isr))
        s.eligible = If(enough, [], without(s.eligible, r))
        report = record(s.Known, epoch=m.epoch, leo=m.leo, lost=And(is_some(before), get(before).lost))

        def remembered(o):
            return If(enough, None, If(And(o == r, was), report, s.known[o]))

        s.known = function(s.Replica, remembered)
        anew = And(m.less, is_some(now.leader), now.leader != r)
        when(Or(~anew, now.epoch < s.Epochs))
        leader = If(now.leader == r, None, now.leader)
        s.publish(True, leader, now.epoch + If(anew, 1, 0), isr, now.runs, now.live)
        heard = And(m.less, s.run[r] == m.run, s.synced[r] == m.leo)
        s.tail[r] = If(And(heard, s.here[r]), "clean", s.tail[r])
        s.told = If(again, s.told, without(s.told, m))

    @action
    def ConfessionIsLost(s):
        """Of a run that is over, say."""
        m = some(s.told)
        s.told = without(s.told, m)

    @only("operator", "may-lose")
    @action
    def CutToNothing(s, f: Replica):
        """What is shared ends before its own log begins, which can only be after such an election."""
        m = some(s.mail)
        when(m.kind == "cut", s.Answers(m, f))
        s.keep_former(f, 0)
        s.log[f] = []
        s.synced[f] = 0
        s.hw[f] = 0
        s.mail = without(s.mail, m)

    @action
    def ElectAnother(s, to: Replica):
        """R15, R16: after reports of followers, a resignation, to spread leaders; perhaps the same again."""
        now = s.now
        when(is_some(now.leader), member(to, now.isr), member(to, now.live))
        s.begin_epoch(to, now.isr, "isr")

    @only("operator", "may-lose")
    @action
    def ElectAnybody(s, to: Replica):
        """R16: an operator chooses a copy that may lack what is committed."""
        when(member(to, s.now.live))
        s.eligible = []
        s.known = None
        s.begin_epoch(to, [to], "isr")

    # -- replicas that are moved (R20) ---------------------------------------------------------------------

    @only("moves", "right", "before-in-sync", "within-epoch")
    @action
    def LeaveForGood(s, r: Replica):
        """It is to keep no copy, those who are to have one are in the ISR. Who is elected begins an epoch."""
        when(member(r, s.now.isr), s.at_minimum(without(s.now.isr, r)))
        s.go_on_without(r, without(s.now.isr, r))

    @only("moves", "right", "before-in-sync", "within-epoch")
    @action
    def EndMove(s):
        """Nobody has to leave; a change that is on its way is void all the same."""
        now = s.now
        s.publish(True, now.leader, now.epoch, now.isr, now.runs, now.live)

    @only("moves", "before-in-sync")
    @action
    def GiveWayTo(s, r: Replica, other: Replica):
        """`other` is to have its copy, and counts from now on."""
        when(member(r, s.now.isr), ~member(other, s.now.isr), member(other, s.now.live))
        s.go_on_without(r, with_member(without(s.now.isr, r), other))

    def go_on_without(s, r, isr):
        now = s.now
        s.forget_outsiders(s.at_minimum(isr), s.eligible)
        stays = And(s.moves == "within-epoch", now.leader != r)
        s.publish(True, If(stays, now.leader, None), now.epoch, isr, now.runs, now.live)

    @only("moves", "right", "before-in-sync", "within-epoch")
    @action
    def Drop(s, r: Replica):
        """Its copy is gone. Nobody counts on it: not the group, nor a leader that goes on."""
        now = s.now
        when(s.here[r], ~member(r, s.view[r].isr), s.view[r].leader != r)
        when(~member(r, now.isr), ~member(r, s.eligible), is_none(s.known[r]))
        if s.moves != "within-epoch":
            goes_on = s.view[get(now.leader)].epoch == now.epoch
            heard = And(goes_on, s.progress[get(now.leader)][r] != UNHEARD)
            said = such_that(s.mail, lambda m: And(m.follower == r, m.kind == "report", m.epoch == now.epoch))
            when(Implies(is_some(now.leader), And(~heard, said == [])))
        s.up[r] = False
        s.tail[r] = "wiped"
        s.log[r] = prefix(s.log[r], 0)
        s.synced[r] = 0
        s.hw[r] = 0
        s.remembered[r] = 0
        s.former[r] = []
        s.barred[r] = 0
        s.first[r] = 0
        s.progress[r] = UNHEARD
        s.pending[r] = None

    @only("moves", "right", "before-in-sync", "within-epoch")
    @action
    def BeginCopy(s, r: Replica):
        """It is to have a copy again, in the same run, and begins with nothing."""
        when(s.here[r], ~s.up[r], s.tail[r] == "wiped")
        s.tail[r] = "clean"

    def is_meant(s, lead, m):
        """A leader that does not know that it has left cannot know that it may have begun another copy."""
        if s.moves == "none":
            return True
        joins = And(s.pending[lead] == m, ~member(m, s.view[lead].isr))
        return Or(member(m, s.now.isr), joins)

    # -- two logs of one record (ADR 0062) -----------------------------------------------------------------

    @only("pairs", "other-log")
    @action
    def RemoveForOtherLog(s, lead: Replica, who: Replica):
        """R11: in the partition's other log somebody is not known to have everything."""
        when(s.MayPropose(lead), lead != who, member(who, s.view[lead].isr))
        s.propose(lead, who, False)

    # -- the minimum in sync (R19) -------------------------------------------------------------------------

    def least_in_sync(s):
        return s.Minimum if s.alters == "none" else s.minimum_now

    def least_known_to(s, r):
        return s.Minimum if s.alters == "none" else s.minimum_of[r]

    def still_eligible(s, chosen, others):
        """R13: nobody, if by the minimum of now the chosen one commits alone."""
        if s.alters in ("none", "elects-with-eligible"):
            return others
        return If(s.least_in_sync() == 1, [], others)

    @only("alters", "right", "keeps-eligible", "elects-with-eligible")
    @action
    def AlterMinimum(s, to: Least):
        """R13: an ISR that is at the new minimum may commit alone: nobody outside is eligible any more.

        If it is below, nothing commits until it is not, and who was eligible is so still.
        """
        now = s.now
        when(to > 0, to != s.minimum_now)
        if s.alters != "keeps-eligible":
            s.forget_outsiders(size(now.isr) >= to, s.eligible)
        s.minimum_now = to
        s.minimum_news[s.index + 1] = to
        s.publish(True, now.leader, now.epoch, now.isr, now.runs, now.live)

    # -- what a replica does about the metadata ------------------------------------------------------------

    @definition
    def MayPropose(s, lead: Replica):
        """One change at a time; on whatever it believes."""
        return And(s.Leads(lead), is_none(s.pending[lead]))

    def propose(s, lead, who, joins):
        """On an old version it is refused when it is applied, and does nothing."""
        s.pending[lead] = who
        change = {"who": who, "joins": joins, "run": s.view[lead].runs[who]}
        s.change = If(s.view[lead].version == s.now.version, change, s.change)
