"""State of the compaction model, and how copies come about: writing, copying, electing, losing disks.

This half is replication, told as briefly as compaction allows: who leads and who is in sync is decided in
one step, and a follower joins when it has what is committed (the model `isr` shows how that is achieved).
What is told in full is what a leader knows of its followers' clean points, and how it comes to be outdated:
epochs in which several leaders live at once, runs that lost their disk, reports that come late, copies
under repair.
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *

NOTHING = {"epoch": 0, "key": 0, "deletes": False, "there": False}
"""What stands behind the end of a log."""


class Copies(Model):
    """One partition with keys, and its copies."""

    variant = Setting(
        "right",
        "compacts-above-hw",
        "clean-before-rewritten",
        "clean-beyond-the-map",
        "swap-not-atomic",
        "holes-are-skipped",
        "own-clean-point",
        "isr-clean-points",
        "wipe-keeps-clean-point",
        "repair-keeps-clean-point",
        "damaged-copy-claims-clean",
        "report-of-earlier-run",
        "report-of-earlier-epoch",
        "late-report-counts",
        "report-only-grows",
        "slow-reader-not-told",
        "holes-count-as-dropped",
    )
    Replicas = Constant(2)
    Records = Constant(2)
    Given = Constant(0)
    Keys = Constant(1)
    Epochs = Constant(2)
    Shrinks = Constant(1)
    Wipes = Constant(1)
    Damages = Constant(0)
    Delays = Constant(0)
    Retains = Constant(0)
    Readers = Constant(0)
    """Given: records that all replicas hold at first, committed: a value of the first key, its tombstone,
    values of the last key. Shrinks: removals from the ISR for slowness. Wipes: disks lost. Damages: records
    that decay. Delays: reports that come late. Retains: moves of a log start. Readers: that begin at the
    front."""

    Replica = Sort(Replicas)
    Place = Range(0, Records - 1)
    Offset = Range(0, Records)
    Epoch = Range(0, Epochs)
    Key = Range(0, Keys - 1)
    Slot = Record(epoch=Epoch, key=Key, deletes=Bool, there=Bool)
    """One offset of a copy. there: the record is; if not, key and deletes say what was."""
    Run = Record(base=Offset, end=Offset, done=Offset)
    """A run of compaction: the map was made of [base, end), files are rewritten up to `done`."""
    Reader = Record(at=Offset, since=Offset, saw=Option(Offset))
    """at: what it reads next. since: the mark of its first answer. saw: its last record of the first key."""
    Late = Record(follower=Replica, leader=Replica, epoch=Epoch, clean=Offset)

    # What the metadata group has decided.
    newest = Var(Epoch, init=1)
    leaders = Var(Fn(Epoch, Option(Replica)))
    isr = Var(Set(Replica), init=lambda s: elements(s.Replica))

    # Each copy.
    epoch = Var(Fn(Replica, Epoch), init=1)
    log = Var(Fn(Replica, Place, Slot), init=lambda s: function(s.Replica, lambda r: s.first_log()))
    leo = Var(Fn(Replica, Offset), init=lambda s: function(s.Replica, lambda r: s.Given))
    start = Var(Fn(Replica, Offset))
    hw = Var(Fn(Replica, Offset), init=lambda s: function(s.Replica, lambda r: s.Given))
    clean = Var(Fn(Replica, Offset))
    """The clean point."""
    horizon = Var(Fn(Replica, Offset))
    """C2: the greatest least clean point of all replicas that it has heard of."""
    run = Var(Fn(Replica, Option(Run)))
    dropped = Var(Fn(Replica, Offset))
    """C4: tombstones below it may be gone here. Not kept if there are no readers."""
    bad = Var(Fn(Replica, Option(Place)))
    """D2: the offset that it cannot read."""
    answer = Var(Fn(Replica, Option(Slot)))
    """What the leader has sent in its place."""
    answer_dropped = Var(Fn(Replica, Offset))
    """C4: and below which offset it may have dropped tombstones."""

    # Each leader: clean points of this epoch, and who has lost a disk since, unknown to it.
    known = Var(Fn(Replica, Replica, Offset))
    strangers = Var(Fn(Replica, Set(Replica)))

    # Budgets, a late report, and what was ever committed.
    shrinks = Var(Range(0, Shrinks))
    wipes = Var(Range(0, Wipes))
    damages = Var(Range(0, Damages))
    delays = Var(Range(0, Delays))
    retains = Var(Range(0, Retains))
    late = Var(Option(Late))
    readers = Var(Range(0, Readers))
    reader = Var(Option(Reader))
    truth = Var(Fn(Place, Slot), init=lambda s: s.first_log())
    committed = Var(Offset, init=lambda s: s.Given)

    def first_log(s):
        """A value of the first key, its tombstone, and values of the last key."""

        def slot(i):
            given = i < s.Given
            key = If(And(given, i > 1), s.Keys - 1, 0)
            return record(s.Slot, epoch=If(given, 1, 0), key=key, deletes=And(given, i == 1), there=given)

        return function(s.Place, slot)

    @initial
    def Begin(s, leader: Replica):
        s.leaders[1] = leader

    # -- words ---------------------------------------------------------------------------------------------

    @definition
    def Leads(s, r: Replica):
        """It believes so, rightly or not."""
        return s.leaders[s.epoch[r]] == r

    @definition
    def TrulyLeads(s, r: Replica):
        """In the newest epoch."""
        return And(s.epoch[r] == s.newest, s.leaders[s.newest] == r)

    @definition
    def Hears(s, lead: Replica, f: Replica):
        """Both run in one epoch, and the leader knows this run of the follower (R6, I2)."""
        return And(lead != f, s.Leads(lead), s.epoch[lead] == s.epoch[f], ~member(f, s.strangers[lead]))

    @definition
    def Agreed(s, f: Replica, lead: Replica):
        """How far the two logs agree, by their epochs."""
        shorter = minimum(s.leo[f], s.leo[lead])
        return count(numbers(0, shorter), lambda i: s.log[f][i].epoch == s.log[lead][i].epoch)

    @definition
    def Agrees(s, f: Replica, lead: Replica):
        """The follower's log is a prefix of the leader's."""
        return And(s.leo[f] <= s.leo[lead], s.Agreed(f, lead) == s.leo[f])

    @definition
    def Whole(s, f: Replica):
        """Up to where its copy has no damage."""
        return If(is_none(s.bad[f]), s.Records, get(s.bad[f]))

    @definition
    def Reported(s, f: Replica):
        """C2: the clean point that it may speak of."""
        if s.variant == "damaged-copy-claims-clean":
            return minimum(s.clean[f], s.leo[f])
        return minimum(minimum(s.clean[f], s.leo[f]), s.Whole(f))

    def asks(s, f, lead):
        """A new question of a follower: what it said before counts no more, should it come late."""
        if s.variant != "late-report-counts":
            s.void(f, lead)

    def void(s, f, lead):
        outdated = And(is_some(s.late), get(s.late).follower == f, get(s.late).leader == lead)
        s.late = If(outdated, None, s.late)

    # -- writing and copying -------------------------------------------------------------------------------

    @action
    def Write(s, r: Replica, key: Key, deletes: Bool):
        when(s.Leads(r), s.leo[r] < s.Records)
        s.log[r][s.leo[r]] = {"epoch": s.epoch[r], "key": key, "deletes": deletes, "there": True}
        s.leo[r] = s.leo[r] + 1

    @definition
    def NextOffset(s, f: Replica, lead: Replica):
        """Where in the leader's log the next thing to copy is."""
        if s.variant == "holes-are-skipped":
            holes = count(
                numbers(s.leo[f], s.leo[lead]),
                lambda i: Forall(numbers(s.leo[f], i + 1), lambda j: ~s.log[lead][j].there),
            )
            return s.leo[f] + holes
        return s.leo[f]

    @action
    def Fetch(s, f: Replica, lead: Replica):
        """One offset, record or not (C5), the HW, the log start (C3) and the horizon; and the report (C2)."""
        when(f != lead, s.Hears(lead, f), s.Agrees(f, lead), s.start[lead] <= s.leo[f])
        at = s.NextOffset(f, lead)
        copies = at < s.leo[lead]
        when(Implies(copies, s.bad[lead] != at))
        end = s.leo[f] + If(copies, 1, 0)
        hw = maximum(s.hw[f], minimum(s.hw[lead], end))
        begin = maximum(s.start[f], minimum(s.start[lead], hw))
        reported = s.Reported(f)
        learns = Or(hw > s.hw[f], begin > s.start[f], s.horizon[lead] > s.horizon[f])
        when(Or(copies, learns, reported != s.known[lead][f]))

        def slot(i):
            copied = And(copies, i == s.leo[f])
            now = If(copied, s.log[lead][If(copied, at, i)], s.log[f][i])
            return having(now, there=And(now.there, begin <= i))

        s.log[f] = function(s.Place, slot)
        s.leo[f] = end
        s.hw[f] = hw
        s.start[f] = begin
        s.horizon[f] = maximum(s.horizon[f], s.horizon[lead])
        s.note(lead, f, reported)
        hole = And(copies, ~s.log[lead][at].there)
        s.dropped[f] = If(hole, s.thinned(s.dropped[f], end, s.dropped[lead]), s.dropped[f])
        s.forget_damage(f, And(is_some(s.bad[f]), get(s.bad[f]) < begin))
        s.asks(f, lead)

    def thinned(s, mine, end, theirs):
        """C4: the copy takes in an offset without its record from one that has dropped below `theirs`.

        Every mark then stems from a tombstone that was dropped, below the horizon: a reader that begins here
        cannot meet what such a tombstone had deleted.
        """
        if s.variant == "holes-count-as-dropped":
            theirs = end
        return If(s.Readers == 0, 0, maximum(mine, minimum(end, theirs)))

    def note(s, lead, f, reported):
        """The newest question counts, be it less than what was said before."""
        if s.variant in ("report-only-grows", "report-of-earlier-run"):
            s.known[lead][f] = maximum(s.known[lead][f], reported)
        else:
            s.known[lead][f] = reported

    def forget_damage(s, r, when_so):
        s.bad[r] = If(when_so, None, s.bad[r])
        s.answer[r] = If(when_so, None, s.answer[r])
        s.answer_dropped[r] = If(when_so, 0, s.answer_dropped[r])

    @action
    def Truncate(s, f: Replica, lead: Replica):
        """R6, all rounds at once."""
        when(f != lead, s.Hears(lead, f), ~s.Agrees(f, lead))
        end = s.Agreed(f, lead)
        s.log[f] = function(s.Place, lambda i: If(i < end, s.log[f][i], s.unwritten()))
        s.leo[f] = end
        s.hw[f] = minimum(s.hw[f], end)
        s.clean[f] = minimum(s.clean[f], end)
        s.run[f] = None
        s.forget_damage(f, And(is_some(s.bad[f]), get(s.bad[f]) >= end))
        s.asks(f, lead)

    def unwritten(s):
        return record(s.Slot, **NOTHING)

    @action
    def BeginAtLogStart(s, f: Replica, lead: Replica):
        """R6, C3: it ends below the leader's log start, forgets what it has and begins there."""
        when(f != lead, s.Hears(lead, f), s.leo[f] < s.start[lead])
        begin = s.start[lead]
        s.log[f] = function(
            s.Place, lambda i: If(i < begin, having(s.log[lead][i], there=False), s.unwritten())
        )
        s.leo[f] = begin
        s.start[f] = begin
        s.hw[f] = begin
        s.clean[f] = 0
        s.dropped[f] = 0
        s.run[f] = None
        s.forget_damage(f, True)
        s.asks(f, lead)

    @action
    def Commit(s, lead: Replica):
        """R2, with the followers' progress read at once."""
        hw = s.hw[lead]
        when(s.TrulyLeads(lead), hw < s.leo[lead])

        def has(m):
            same = And(s.epoch[m] == s.epoch[lead], hw < s.leo[m])
            return Or(m == lead, And(same, s.log[m][hw].epoch == s.log[lead][hw].epoch))

        when(Forall(s.isr, has))
        s.hw[lead] = hw + 1
        new = hw == s.committed
        s.committed = If(new, hw + 1, s.committed)
        s.truth[hw] = If(new, having(s.log[lead][hw], there=True), s.truth[hw])

    @action
    def Retain(s, lead: Replica, begin: Offset):
        """C3: retention moves the leader's log start."""
        when(s.retains < s.Retains, s.TrulyLeads(lead), s.start[lead] < begin, begin <= s.hw[lead])
        s.retains = s.retains + 1
        s.start[lead] = begin
        s.log[lead] = function(
            s.Place, lambda i: having(s.log[lead][i], there=And(s.log[lead][i].there, begin <= i))
        )

    # -- who leads, who is in sync -------------------------------------------------------------------------

    @action
    def Elect(s, to: Replica):
        """R16."""
        when(s.newest < s.Epochs, member(to, s.isr), s.leaders[s.newest] != to)
        s.newest = s.newest + 1
        s.leaders[s.newest + 1] = to

    @action
    def JoinEpoch(s, r: Replica):
        """Nothing is known of anybody in the new epoch (R2, C2)."""
        when(s.epoch[r] < s.newest)
        s.epoch[r] = s.newest
        s.answer[r] = None
        s.answer_dropped[r] = 0
        if s.variant != "report-of-earlier-epoch":
            s.known[r] = 0

    @action
    def Shrink(s, lead: Replica, f: Replica):
        when(f != lead, s.shrinks < s.Shrinks, s.TrulyLeads(lead), member(f, s.isr))
        s.shrinks = s.shrinks + 1
        s.isr = without(s.isr, f)

    @action
    def Expand(s, lead: Replica, f: Replica):
        """R10: it has what is committed, whole, and begins no lower than the leader."""
        when(f != lead, s.TrulyLeads(lead), ~member(f, s.isr), s.Hears(lead, f), s.Agrees(f, lead))
        when(s.committed <= s.leo[f], is_none(s.bad[f]), s.start[lead] <= s.start[f])
        s.isr = with_member(s.isr, f)

    # -- what a leader knows comes to be outdated ----------------------------------------------------------

    def may_drop_out(s, r):
        """The promise ends with the last copy that counts, and who leads is replaced first."""
        return And(s.leaders[s.newest] != r, s.isr != {r})

    @action
    def LoseDisk(s, f: Replica):
        """I2: it begins empty, as a run that leaders have not heard of yet."""
        when(s.wipes < s.Wipes, s.may_drop_out(f))
        s.wipes = s.wipes + 1
        s.isr = without(s.isr, f)
        s.epoch[f] = 0
        s.log[f] = function(s.Place, lambda i: s.unwritten())
        s.leo[f] = 0
        s.start[f] = 0
        s.hw[f] = 0
        if s.variant != "wipe-keeps-clean-point":
            s.clean[f] = 0
        s.dropped[f] = 0
        s.horizon[f] = 0
        s.run[f] = None
        s.forget_damage(f, True)
        s.known[f] = 0
        strangers = s.strangers

        def unknown(r):
            return If(r == f, strangers[r], with_member(strangers[r], f))

        s.strangers = function(s.Replica, unknown)

    @action
    def HearOfRun(s, lead: Replica, f: Replica):
        """I2: the leader applies the registration of the new run; the old one's reports are void."""
        when(f != lead, member(f, s.strangers[lead]))
        s.strangers[lead] = without(s.strangers[lead], f)
        if s.variant != "report-of-earlier-run":
            s.known[lead][f] = 0
        s.void(f, lead)

    @action
    def ReportIsLate(s, f: Replica, lead: Replica):
        """A question arrives at any later time; what came back was lost."""
        when(
            f != lead,
            s.delays < s.Delays,
            s.Hears(lead, f),
            s.Agrees(f, lead),
            s.Reported(f) > s.known[lead][f],
        )
        s.delays = s.delays + 1
        s.late = {"follower": f, "leader": lead, "epoch": s.epoch[f], "clean": s.Reported(f)}

    @action
    def LateReportArrives(s):
        when(is_some(s.late))
        m = get(s.late)
        when(s.Leads(m.leader), s.epoch[m.leader] == m.epoch)
        s.known[m.leader][m.follower] = m.clean
        s.late = None

    # -- damage and repair ---------------------------------------------------------------------------------

    @action
    def FindDamage(s, r: Replica, at: Place):
        """D2: a committed record cannot be read; the copy leaves the ISR."""
        when(s.damages < s.Damages, is_none(s.bad[r]), s.may_drop_out(r))
        when(s.start[r] <= at, at < s.hw[r])
        s.damages = s.damages + 1
        s.bad[r] = at
        s.run[r] = None
        s.isr = without(s.isr, r)

    @action
    def AskForRange(s, f: Replica, lead: Replica):
        """What comes may be less compacted than what was there: the leader lowers what it knows (C2)."""
        at = get(s.bad[f])
        when(f != lead, is_some(s.bad[f]), s.Hears(lead, f), s.Agrees(f, lead), is_none(s.answer[f]))
        when(s.start[lead] <= at, s.bad[lead] != at)
        s.answer[f] = s.log[lead][at]
        s.answer_dropped[f] = s.dropped[lead]
        s.note(lead, f, minimum(s.known[lead][f], at))
        s.asks(f, lead)

    @action
    def Mend(s, f: Replica):
        """The clean point goes back to where the range begins, before the first record is in place."""
        when(is_some(s.answer[f]))
        at = get(s.bad[f])
        s.log[f][at] = get(s.answer[f])
        hole = ~get(s.answer[f]).there
        s.dropped[f] = If(hole, s.thinned(s.dropped[f], at + 1, s.answer_dropped[f]), s.dropped[f])
        if s.variant != "repair-keeps-clean-point":
            s.clean[f] = minimum(s.clean[f], at)
        s.forget_damage(f, True)

    # -- what makes the rest meaningful --------------------------------------------------------------------

    @definition
    def Holds(s, r: Replica, i: Place):
        """The copy has the committed record, or the place where it was."""
        return And(i < s.committed, i < s.leo[r], s.log[r][i].epoch == s.truth[i].epoch)

    @invariant
    def CommittedOnIsr(s):
        """Whoever may be elected has all that is committed, as far as it was not taken out."""

        def complete(r):
            return Forall(numbers(0, s.committed), lambda i: s.Holds(r, i))

        return Forall(s.isr, complete)

    @invariant
    def LogMatching(s):
        """Below the HW of both, two copies have the same epochs, and the same records where both have any."""

        def agree(a, b):
            def same(i):
                one, other = s.log[a][i], s.log[b][i]
                return And(one.epoch == other.epoch, one.key == other.key, one.deletes == other.deletes)

            return Forall(numbers(0, minimum(s.hw[a], s.hw[b])), same)

        return Forall(s.Replica, s.Replica, agree)
