"""State of the model of two logs under one record, and the metadata group: see isr_pair.py."""

from __future__ import annotations

from liftlog_spec.lang import *


class PairGroup(Model):
    """One partition, its replicas with two logs each, and what the group does about them."""

    variant = Setting(
        "right",
        "elected-without-longer-journal",
        "elected-by-journal",
        "journal-taken-in-office",
        "end-taken-without-cut",
        "end-counts-before-sync",
        "joins-by-data-log-only",
        "joins-by-journal-only",
        "ready-in-two-instants",
        "shrinks-by-one-log",
        "hw-of-the-other-log",
        "joiner-counts-for-data-only",
        "journal-commits-below-minimum",
        "one-sync-for-both",
        "suspect-journal-rejoins",
        "stamp-of-leo",
        "stamp-believed-unchecked",
        "short-journal-taken-for-whole",
    )
    begins = Setting("empty", "with-one")
    """with-one: all replicas hold a record of each log at first, committed, which makes runs shorter."""
    Replicas = Constant(2)
    Minimum = Constant(2)
    Records = Constant(1)
    Epochs = Constant(2)
    Shrinks = Constant(1)
    Crashes = Constant(2)
    Damages = Constant(1)
    """Records: of each log. Shrinks: removals from the ISR. Crashes: of all replicas. Damages: crashes that
    cost something durable, of each log."""

    Replica = Sort(Replicas)
    Log = Enum("data", "journal")
    Epoch = Range(0, Epochs)
    Offset = Range(0, Records)
    Entry = Record(epoch=Epoch, stamp=Offset)
    """stamp: of a data batch, how much of the journal its leader had seen as committed."""
    Entries = Seq(Entry, Records)
    End = Record(epoch=Epoch, leo=Offset)
    Known = Fn(Log, End)
    """R14: what a copy that may have lost something still had."""
    Tail = Enum("clean", "data", "journal", "both", "ends-early")
    """Which log ends in doubt; ends-early: the journal lacks something, and nothing in it says so."""

    # The metadata group. `change`: an addition to the ISR on its way.
    epoch = Var(Epoch, init=1)
    leader = Var(Option(Replica))
    isr = Var(Set(Replica), init=lambda s: elements(s.Replica))
    eligible = Var(Set(Replica))
    known = Var(Fn(Replica, Option(Known)))
    change = Var(Option(Replica))
    source = Var(Option(Replica))
    """From whom the leader is to take the journal's end, in the variant in which it is one already."""

    # Each replica.
    up = Var(Fn(Replica, Bool), init=True)
    tail = Var(Fn(Replica, Tail))
    log = Var(Fn(Log, Replica, Entries))
    synced = Var(Fn(Log, Replica, Offset))

    # The leader.
    hw = Var(Fn(Log, Offset))
    ready = Var(Fn(Log, Set(Replica)))
    """Who has been ready to join, in the variant that remembers it."""

    # Budgets, and what was ever committed.
    shrinks = Var(Range(0, Shrinks))
    crashes = Var(Range(0, Crashes))
    damages = Var(Fn(Log, Range(0, Damages)))
    committed = Var(Fn(Log, Entries))

    @initial
    def Begin(s, leader: Replica):
        """R12: all are live and in sync."""
        s.leader = leader
        if s.begins == "with-one":
            first = record(s.Entry, epoch=1, stamp=0)
            s.log = function(s.Log, lambda k: function(s.Replica, lambda r: append(s.log[k][r], first)))
            s.synced = 1
            s.hw = 1
            s.committed = function(s.Log, lambda k: append(s.committed[k], first))

    # -- words ---------------------------------------------------------------------------------------------

    def at_minimum(s, isr):
        return size(isr) >= s.Minimum

    @definition
    def Stamped(s, r: Replica, end: Offset):
        """The greatest stamp in its data below `end`."""
        mine = s.log["data"][r]
        return greatest(numbers(0, end + 1), lambda i: If(i == 0, 0, mine[i - 1].stamp))

    @definition
    def Short(s, r: Replica):
        """Its journal lacks what its data name."""
        return size(s.log["journal"][r]) < s.Stamped(r, size(s.log["data"][r]))

    @definition
    def Report(s, r: Replica):
        """What its disk still has of both logs."""

        def end(k):
            leo = s.synced[k][r]
            if s.variant == "end-counts-before-sync":
                leo = size(s.log[k][r])
            return record(s.End, epoch=If(leo == 0, 0, s.log[k][r][leo - 1].epoch), leo=leo)

        return function(s.Log, end)

    # -- who is in sync (R9, R13) --------------------------------------------------------------------------

    def forget_outsiders(s, enough, eligible):
        """R13, R14: with the ISR at its minimum nobody outside is needed any more."""
        s.eligible = If(enough, [], eligible)
        s.known = function(s.Replica, lambda o: If(enough, None, s.known[o]))

    @action
    def ApplyAddition(s):
        """R9. A change whose joiner falls, or whose version or epoch is over, is void at once."""
        when(is_some(s.change))
        isr = with_member(s.isr, get(s.change))
        s.forget_outsiders(s.at_minimum(isr), without(s.eligible, get(s.change)))
        s.isr = isr
        s.change = None

    def leave(s, f):
        """R13: below the minimum nothing commits, in either log, and who is removed then has everything."""
        isr = without(s.isr, f)
        s.forget_outsiders(s.at_minimum(isr), with_member(s.eligible, f))
        s.isr = isr
        s.change = None

    # -- elections -----------------------------------------------------------------------------------------

    def begin_epoch(s, to, isr):
        """R1. The leader's HWs are the oldest that there can be."""
        when(s.epoch < s.Epochs, s.up[to])
        s.epoch = s.epoch + 1
        s.leader = to
        s.isr = isr
        s.change = None
        s.hw = 0
        s.ready = []

    @action
    def Elect(s, to: Replica):
        """R15, R16."""
        when(member(to, s.isr), s.leader != to)
        s.begin_epoch(to, s.isr)

    @action
    def ElectFromEligible(s, to: Replica):
        """R13: who has left below the minimum has everything that was committed, of both logs."""
        when(is_none(s.leader), Forall(s.isr, lambda o: ~s.up[o]), member(to, s.eligible))
        s.eligible = without(union(s.isr, s.eligible), to)
        s.begin_epoch(to, [to])

    @definition
    def NobodyElse(s):
        """R14: only those are left that are remembered, and all of them have reported."""
        return And(is_none(s.leader), s.isr == [], s.eligible == [])

    def at_least(s, k, r, o):
        """It has reported no smaller (epoch, LEO) than the other."""
        mine, theirs = get(s.known[r])[k], get(s.known[o])[k]
        return Or(theirs.epoch < mine.epoch, And(theirs.epoch == mine.epoch, theirs.leo <= mine.leo))

    @definition
    def Greatest(s, k: Log, r: Replica):
        """R14: nobody has reported a greater (epoch, LEO) of this log."""

        def behind(o):
            return Implies(is_some(s.known[o]), s.at_least(k, r, o))

        return And(is_some(s.known[r]), Forall(s.Replica, behind))

    @definition
    def Takes(s, r: Replica, of: Replica):
        """R14: nobody is the greatest in both logs; this one has the data, that one the journal."""
        both = Exists(s.Replica, lambda o: And(s.Greatest("data", o), s.Greatest("journal", o)))
        return And(s.NobodyElse(), ~both, s.Greatest("data", r), s.Greatest("journal", of))

    @action
    def TellOfEnds(s, r: Replica):
        """R14: a copy that is remembered has other ends by now, and says so."""
        when(s.NobodyElse(), s.up[r], is_some(s.known[r]), get(s.known[r]) != s.Report(r))
        s.known[r] = s.Report(r)

    def elect_last_known(s, to):
        s.known = function(s.Replica, lambda o: If(Or(o == to, s.Minimum == 1), None, s.known[o]))
        s.begin_epoch(to, [to])

    @action
    def ElectFromLastKnown(s, to: Replica):
        """R14: who has the most of both logs. Whose journal is short refuses, and waits for an operator."""
        when(s.NobodyElse())
        if s.variant != "elected-by-journal":
            when(s.Greatest("data", to))
        if s.variant not in ("elected-without-longer-journal", "journal-taken-in-office"):
            when(s.Greatest("journal", to))
        if s.variant == "elected-without-longer-journal":
            when(Forall(s.Replica, lambda o: Implies(s.Greatest("data", o), s.at_least("journal", to, o))))
        if s.variant == "journal-taken-in-office":
            of = some(such_that(s.Replica, lambda o: s.Greatest("journal", o)))
            s.source = If(s.Greatest("journal", to), None, of)
        elif s.variant != "short-journal-taken-for-whole":
            when(~s.Short(to))
        s.elect_last_known(to)

    @only("variant", "journal-taken-in-office")
    @action
    def HasTaken(s, r: Replica):
        """It has durably what the one had reported that it was to take it from."""
        when(s.leader == r, is_some(s.source))
        when(s.synced["journal"][r] == size(s.log["journal"][get(s.source)]))
        s.source = None

    # -- registrations (I2, R14) ---------------------------------------------------------------------------

    @definition
    def Doubtful(s, r: Replica):
        """A tail that is suspect in one log makes the copy suspect; so does a journal that is short."""
        seen = Or(s.tail[r] == "data", s.tail[r] == "both")
        if s.variant != "suspect-journal-rejoins":
            seen = Or(seen, s.tail[r] == "journal")
        if s.variant != "short-journal-taken-for-whole":
            seen = Or(seen, s.Short(r))
        return seen

    @action
    def Register(s, r: Replica):
        """R1: no leadership of the old run lasts; it fell with it."""
        when(~s.up[r], ~s.Doubtful(r))
        s.known[r] = If(is_some(s.known[r]), s.Report(r), None)
        s.up[r] = True
        s.tail[r] = "clean"

    @action
    def RegisterAfterDamage(s, r: Replica):
        """R14: it leaves ISR and eligible in the same command, and both its ends are remembered."""
        when(~s.up[r], s.Doubtful(r))
        isr = without(s.isr, r)
        was = Or(member(r, s.isr), member(r, s.eligible), is_some(s.known[r]))
        enough = And(was, s.at_minimum(isr))
        report = s.Report(r)

        def remembered(o):
            return If(enough, None, If(And(o == r, was), report, s.known[o]))

        s.isr = isr
        s.eligible = If(enough, [], without(s.eligible, r))
        s.known = function(s.Replica, remembered)
        s.change = If(was, None, s.change)
        s.up[r] = True
        s.tail[r] = "clean"
