"""State of the producer model, and the log beneath it: copying, cutting, committing, electing, log starts.

Replication is told briefly, as in `compaction_copies`: who leads and who is in sync is decided in one step,
and a follower joins when it has what is committed. What every copy keeps beside its log is the producer
table, and the table as it was at the log start.
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *


class ProducerLog(Model):
    """One partition, its copies and their tables."""

    variant = Setting(
        "right",
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
    Replicas = Constant(2)
    Records = Constant(3)
    Producers = Constant(1)
    Runs = Constant(2)
    Messages = Constant(2)
    InFlight = Constant(2)
    Epochs = Constant(3)
    Retains = Constant(1)
    """Records: of one log. Runs: of each producer. Messages: of each run. InFlight: messages that a run may
    have sent without an answer to the first of them. Retains: moves of a log start."""

    Replica = Sort(Replicas)
    Producer = Sort(Producers)
    Place = Range(0, Records - 1)
    Offset = Range(0, Records)
    Epoch = Range(0, Epochs)
    Run = Range(0, Runs)
    """Runs of a producer are numbered from 1, by the metadata group; 0 in a table: not heard of."""
    Number = Range(0, Messages - 1)
    Message = Record(epoch=Epoch, producer=Producer, run=Run, seq=Number)
    """A record: what was published, and the epoch of the leader that wrote it."""
    Log = Seq(Message, Records)
    Line = Record(run=Run, next=Range(0, Messages), places=Fn(Number, Option(Place)))
    """One producer's line of a table: its newest run, the number that is due, and where the others are."""
    Table = Fn(Producer, Line)

    # What the metadata group has decided.
    newest = Var(Epoch, init=1)
    leaders = Var(Fn(Epoch, Option(Replica)))
    isr = Var(Set(Replica), init=lambda s: elements(s.Replica))

    # Each copy: its log, and what it knows of producers, now and at the log start.
    epoch = Var(Fn(Replica, Epoch), init=1)
    log = Var(Fn(Replica, Log))
    hw = Var(Fn(Replica, Offset))
    start = Var(Fn(Replica, Offset))
    table = Var(Fn(Replica, Table))
    snapshot = Var(Fn(Replica, Table))

    # What was ever committed, and a budget.
    committed = Var(Log)
    retains = Var(Range(0, Retains))

    @initial
    def Begin(s, leader: Replica):
        s.leaders[1] = leader

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

            def place(n):
                """One more than the offset, 0 if it is not there."""
                here = greatest(
                    s.Place,
                    lambda i: If(seen(i), If(And(claims(i) == run, log[i].seq == n), i + 1, 0), 0),
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
        """Both are in one epoch (R6)."""
        return And(lead != f, s.Leads(lead), s.epoch[lead] == s.epoch[f])

    @definition
    def Agreed(s, f: Replica, lead: Replica):
        """How far the two logs agree, by their epochs."""
        shorter = minimum(size(s.log[f]), size(s.log[lead]))
        return count(numbers(0, shorter), lambda i: s.log[f][i].epoch == s.log[lead][i].epoch)

    @definition
    def Agrees(s, f: Replica, lead: Replica):
        """The follower's log is a prefix of the leader's."""
        return And(size(s.log[f]) <= size(s.log[lead]), s.Agreed(f, lead) == size(s.log[f]))

    # -- copying and committing ----------------------------------------------------------------------------

    @action
    def Fetch(s, f: Replica, lead: Replica):
        """One record, and the HW. The follower notes what the record says of its producer."""
        when(f != lead, s.Hears(lead, f), s.Agrees(f, lead))
        end = size(s.log[f])
        when(s.start[lead] <= end)
        copies = end < size(s.log[lead])
        hw = maximum(s.hw[f], minimum(s.hw[lead], end + If(copies, 1, 0)))
        when(Or(copies, hw > s.hw[f]))
        entry = s.log[lead][end]
        s.log[f] = If(copies, append(s.log[f], entry), s.log[f])
        s.hw[f] = hw
        if s.variant != "table-not-rebuilt":
            s.table[f] = If(copies, s.noted(s.table[f], entry, end), s.table[f])

    @action
    def Truncate(s, f: Replica, lead: Replica):
        """R6, all rounds at once. What the cut records said is forgotten with them."""
        when(f != lead, s.Hears(lead, f), ~s.Agrees(f, lead))
        end = s.Agreed(f, lead)
        s.log[f] = prefix(s.log[f], end)
        s.hw[f] = minimum(s.hw[f], end)
        if s.variant != "table-not-truncated":
            s.table[f] = s.TableOf(f, end)

    @action
    def Retain(s, lead: Replica, begin: Offset):
        """C3: retention moves the log start; the table up to there is kept."""
        when(s.retains < s.Retains, s.TrulyLeads(lead), s.start[lead] < begin, begin <= s.hw[lead])
        s.retains = s.retains + 1
        s.start[lead] = begin
        s.snapshot[lead] = s.TableOf(lead, begin)

    @action
    def BeginAtLogStart(s, f: Replica, lead: Replica):
        """R6, C3: it ends below the leader's log start, begins there, and gets the table of that place."""
        when(f != lead, s.Hears(lead, f), size(s.log[f]) < s.start[lead])
        begin = s.start[lead]
        s.log[f] = prefix(s.log[lead], begin)
        s.start[f] = begin
        s.hw[f] = begin
        if s.variant == "log-start-without-table":
            s.table[f] = function(s.Producer, lambda p: s.unknown())
            s.snapshot[f] = function(s.Producer, lambda p: s.unknown())
        else:
            s.table[f] = s.snapshot[lead]
            s.snapshot[f] = s.snapshot[lead]

    @action
    def Commit(s, lead: Replica):
        """R2, with the followers' progress read at once."""
        hw = s.hw[lead]
        when(s.TrulyLeads(lead), hw < size(s.log[lead]))

        def has(m):
            same = And(s.epoch[m] == s.epoch[lead], hw < size(s.log[m]))
            return Or(m == lead, And(same, s.log[m][hw].epoch == s.log[lead][hw].epoch))

        when(Forall(s.isr, has))
        s.hw[lead] = hw + 1
        s.committed = If(hw == size(s.committed), append(s.committed, s.log[lead][hw]), s.committed)

    # -- who leads, who is in sync -------------------------------------------------------------------------

    @action
    def Elect(s, to: Replica):
        """R16."""
        when(s.newest < s.Epochs, member(to, s.isr), s.leaders[s.newest] != to)
        s.newest = s.newest + 1
        s.leaders[s.newest + 1] = to

    @action
    def JoinEpoch(s, r: Replica):
        """The table is complete to the LEO before the first message is taken."""
        when(s.epoch[r] < s.newest)
        s.epoch[r] = s.newest
        if s.variant == "table-rebuilt-to-hw":
            s.table[r] = s.TableOf(r, s.hw[r])
        elif s.variant == "table-from-log-alone":
            s.table[r] = s.TableOfLogAlone(r)

    @action
    def Shrink(s, lead: Replica, f: Replica):
        when(f != lead, s.TrulyLeads(lead), member(f, s.isr))
        s.isr = without(s.isr, f)

    @action
    def Expand(s, lead: Replica, f: Replica):
        """R10: it has what is committed."""
        when(f != lead, s.TrulyLeads(lead), ~member(f, s.isr), s.Hears(lead, f), s.Agrees(f, lead))
        when(size(s.committed) <= size(s.log[f]))
        s.isr = with_member(s.isr, f)

    @invariant
    def CommittedOnIsr(s):
        """Whoever may be elected has what is committed, or began behind it."""

        def complete(r):
            return prefix(s.log[r], size(s.committed)) == s.committed

        return Forall(s.isr, complete)
