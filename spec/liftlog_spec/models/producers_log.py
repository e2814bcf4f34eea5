"""State of the producer model, and the log beneath it: `partition_log` with log starts.

What every copy keeps beside its log is the producer table, and the table as it was at the log start. Where
log starts wait (`start-waits`) a copy keeps no table: a new leader makes it of its log alone.
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *
from liftlog_spec.models.partition_log import PartitionLog

LOG_ALONE = ("start-waits", "start-waits-for-uncommitted")
"""A copy keeps no table, and log starts wait."""


class ProducerLog(PartitionLog):
    """One partition, its copies and their tables."""

    variant = Setting(
        "right",
        "start-waits",
        "start-waits-for-uncommitted",
        "table-not-rebuilt",
        "table-rebuilt-to-hw",
        "table-not-truncated",
        "table-from-log-alone",
        "log-start-without-table",
        "run-not-checked",
        "restart-keeps-run",
        "gap-accepted",
        "window-below-in-flight",
        "new-if-not-in-window",
        "duplicate-acked-at-once",
        "acked-with-newest-offset",
        "producer-expires",
    )
    Producers = Constant(1)
    Runs = Constant(2)
    Messages = Constant(2)
    InFlight = Constant(2)
    Retains = Constant(1)
    """Runs: of each producer. Messages: of each run. InFlight: messages that a run may have sent without an
    answer to the first of them. Retains: moves of a log start."""

    Replica, Place, Offset, Epoch = (
        PartitionLog.Replica,
        PartitionLog.Place,
        PartitionLog.Offset,
        PartitionLog.Epoch,
    )
    Producer = Sort(Producers)
    Run = Range(0, Runs)
    """Runs of a producer have numbers of their own, later ones greater; 0 in a table: not heard of."""
    Number = Range(0, Messages - 1)
    Message = Record(epoch=Epoch, producer=Producer, run=Run, seq=Number)
    """A record: what was published, and the epoch of the leader that wrote it."""
    Log = Seq(Message, PartitionLog.Records)
    Line = Record(run=Run, next=Range(0, Messages), places=Fn(Number, Option(Place)))
    """One producer's line of a table: its newest run, the number that is due, and where the others are."""
    Table = Fn(Producer, Line)

    # Each copy: its log, and what it knows of producers, now and at the log start.
    log = Var(Fn(Replica, Log))
    start = Var(Fn(Replica, Offset))
    table = Var(Fn(Replica, Table))
    snapshot = Var(Fn(Replica, Table))

    # What was ever committed, and a budget.
    committed = Var(Log)
    retains = Var(Range(0, Retains))

    # -- the table -----------------------------------------------------------------------------------------

    def claimed(s, run):
        """The run that a message claims to be of."""
        return 1 if s.variant == "restart-keeps-run" else run

    def noted(s, table, message, place):
        """The table after one more record."""
        p, q, run = message.producer, message.seq, s.claimed(message.run)

        def line(o):
            old = table[o]
            places = function(s.Number, lambda n: If(n == q, place, If(old.run == run, old.places[n], None)))
            due = If(old.run == run, maximum(old.next, q + 1), q + 1)
            new = record(s.Line, run=run, next=due, places=places)
            return If(And(o == p, old.run <= run), new, old)

        return function(s.Producer, line)

    def derived(s, before, log, begin, end):
        """The table of the records in [begin, end), after the table `before` them."""

        def line(p):
            def claims(i):
                return If(log[i].producer == p, s.claimed(log[i].run), 0)

            def seen(i):
                return And(begin <= i, i < end)

            run = maximum(before[p].run, greatest(s.Place, lambda i: If(seen(i), claims(i), 0)))

            def says(i):
                return And(log[i].producer == p, claims(i) == run)

            def place(n):
                """One more than the offset, 0 if it is not there."""
                here = greatest(
                    s.Place,
                    lambda i: If(And(seen(i), says(i), log[i].seq == n), i + 1, 0),
                )
                return here

            def places(n):
                old = If(before[p].run == run, before[p].places[n], None)
                return If(place(n) > 0, place(n) - 1, old)

            due = greatest(s.Number, lambda n: If(place(n) > 0, n + 1, 0))
            due = maximum(due, If(before[p].run == run, before[p].next, 0))
            return record(s.Line, run=run, next=due, places=function(s.Number, places))

        return function(s.Producer, line)

    @definition
    def TableOf(s, r: Replica, end: Offset):
        """What the records below `end` and the table at the log start say."""
        return s.derived(s.snapshot[r], s.log[r], s.start[r], end)

    @definition
    def TableOfLogAlone(s, r: Replica):
        unknown = function(s.Producer, lambda p: s.unknown())
        return s.derived(unknown, s.log[r], s.start[r], size(s.log[r]))

    def unknown(s):
        return record(s.Line, run=0, next=0, places=None)

    # -- copying and committing ----------------------------------------------------------------------------

    @action
    def Fetch(s, f: Replica, lead: Replica):
        """The follower notes what the record says of its producer."""
        when(s.start[lead] <= size(s.log[f]))
        copies, entry, end = s.fetch(f, lead)
        if s.variant != "table-not-rebuilt":
            s.table[f] = If(copies, s.noted(s.table[f], entry, end), s.table[f])

    @action
    def Truncate(s, f: Replica, lead: Replica):
        """What the cut records said is forgotten with them."""
        end = s.truncate(f, lead)
        if s.variant != "table-not-truncated":
            s.table[f] = s.TableOf(f, end)

    def needed(s, line, begin):
        """A record below `begin` is one of those that this line of a table remembers."""
        return Exists(
            s.Number,
            lambda n: And(is_some(line.places[n]), line.next <= n + s.InFlight, get(line.places[n]) < begin),
        )

    @definition
    def MayBegin(s, lead: Replica, begin: Offset):
        """What a new leader has to find lies behind: its log has what is committed, and perhaps no more."""
        if s.variant == "start-waits":
            return Forall(s.Producer, lambda p: ~s.needed(s.TableOf(lead, s.hw[lead])[p], begin))
        if s.variant == "start-waits-for-uncommitted":
            return Forall(s.Producer, lambda p: ~s.needed(s.table[lead][p], begin))
        return s.newest > 0

    @action
    def Retain(s, lead: Replica, begin: Offset):
        """C3: retention moves the log start; the table up to there is kept, or the log start waits."""
        when(s.retains < s.Retains, s.TrulyLeads(lead), s.start[lead] < begin, begin <= s.hw[lead])
        when(s.MayBegin(lead, begin))
        s.retains = s.retains + 1
        s.start[lead] = begin
        s.snapshot[lead] = s.TableOf(lead, begin)

    @action
    def FollowStart(s, f: Replica, lead: Replica):
        """C3: a follower takes over its leader's log start, as far as it knows that to be committed."""
        when(s.Hears(lead, f), s.start[f] < s.start[lead], s.start[lead] <= s.hw[f])
        s.start[f] = s.start[lead]
        s.snapshot[f] = s.TableOf(f, s.start[lead])

    @action
    def BeginAtLogStart(s, f: Replica, lead: Replica):
        """R6, C3: it ends below the leader's log start, begins there, and gets the table of that place."""
        when(f != lead, s.Hears(lead, f), size(s.log[f]) < s.start[lead])
        begin = s.start[lead]
        s.log[f] = prefix(s.log[lead], begin)
        s.start[f] = begin
        s.hw[f] = begin
        if s.variant in ("log-start-without-table", *LOG_ALONE):
            s.table[f] = function(s.Producer, lambda p: s.unknown())
            s.snapshot[f] = function(s.Producer, lambda p: s.unknown())
        else:
            s.table[f] = s.snapshot[lead]
            s.snapshot[f] = s.snapshot[lead]

    @action
    def JoinEpoch(s, r: Replica):
        """The table is complete to the LEO before the first message is taken."""
        when(s.epoch[r] < s.newest)
        s.epoch[r] = s.newest
        if s.variant == "table-rebuilt-to-hw":
            s.table[r] = s.TableOf(r, s.hw[r])
        elif s.variant in ("table-from-log-alone", *LOG_ALONE):
            s.table[r] = s.TableOfLogAlone(r)
