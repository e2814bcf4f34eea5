"""Exactly once from one partition to another: a processor's cursor lies in the log that has its outputs.

A processor reads positions of an input and writes what comes of each to an output partition. If it crashes,
or is taken for dead, another *run* of it goes on, and the old one may live and write. The outputs of a
position are to be in the log once. So a processor is an idempotent producer (model `producers`) of its
output partition, and each batch has, beside the outputs, the *cursor*: the position that is next. Batch and
cursor are there together or not at all. A run begins thus:

    it asks the leader to open it; the leader writes an entry, OpenRun, to the journal of the partition
    from then on the leader refuses batches of older runs
    it answers with the cursor once the entry is committed, and all that was in the data at the asking

So whatever a zombie had in flight is either in the cursor or not accepted any more. What a leader knows of
runs and cursors is a function of its two logs up to their ends: folds never refuse. Before the log start
passes x, a committed entry says what the table was at x; it also keeps the newest run that was opened, of
which the data may know nothing.

What is modelled. One processor, runs of it, each of which lives on, sends each of its batches at any time,
any number of times. Answers, which are true for ever. Two logs with committed and uncommitted parts, leader
changes that cut either anywhere. Log starts of both.

What is abstracted. *Replication*: `isr-pair`. *Zombie leaders*: they commit nothing, and their ends are
what a new leader has not. *Outputs*: one for each position. *Windows and places*: `producers`. *The input*
has been read and can be read again.

Each variant breaks a rule:

    cursor-read-before-run-opened   the cursor is read first, and the first batch fences the older runs
    run-opened-not-durable          answered when the entry is written
    cursor-read-before-in-flight    answered when the entry is committed, whatever is in the data
    repeat-answered-at-once         a repeated question does not wait, since the run is open
    fold-refuses-older-run          a batch that older runs had in flight is in the log and does not count
    opened-runs-to-hw               a new leader takes batches when it knows the runs below the HW it heard of
    cursor-apart                    a leader takes a batch and its cursor one after the other
    cursor-lost-at-log-start        a new leader knows what the data say that are left
    start-before-table-committed    the log start moves when the table is written
    table-without-opened-run        the table is that of the data alone
"""

from __future__ import annotations

from liftlog_spec.lang import *


class Processor(Model):
    """The output partition of a processor."""

    variant = Setting(
        "right",
        "cursor-read-before-run-opened",
        "run-opened-not-durable",
        "cursor-read-before-in-flight",
        "repeat-answered-at-once",
        "fold-refuses-older-run",
        "opened-runs-to-hw",
        "cursor-apart",
        "cursor-lost-at-log-start",
        "start-before-table-committed",
        "table-without-opened-run",
    )
    Inputs = Constant(2)
    Records = Constant(3)
    Entries = Constant(4)
    Runs = Constant(3)
    Epochs = Constant(2)
    Tables = Constant(1)
    """Inputs: positions of the input. Records of the data, Entries of the journal. Tables: whether there are
    entries of the table, and with them log starts."""

    Position = Range(0, Inputs - 1)
    Cursor = Range(0, Inputs)
    Place = Range(0, Records - 1)
    Offset = Range(0, Records)
    Index = Range(0, Entries - 1)
    Count = Range(0, Entries)
    Run = Range(0, Runs)
    Begun = Range(1, Runs)
    Epoch = Range(1, Epochs)
    Batch = Record(run=Run, seq=Position, position=Position, sets=Bool)
    """Of a run, in its order, the outputs of a position. sets: the cursor, to what follows."""
    Line = Record(below=Offset, run=Run, next=Cursor, cursor=Cursor)
    """The table: the newest run, the number that is due of it, the position that is next."""
    Entry = Record(kind=Enum("open", "table"), below=Offset, run=Run, next=Cursor, cursor=Cursor)
    Log = Seq(Batch, Records)
    Journal = Seq(Entry, Entries)

    epoch = Var(Epoch, init=1)
    data = Var(Log)
    journal = Var(Journal)
    """The leader's, with what is not committed."""
    hw_d = Var(Offset)
    hw_j = Var(Count)
    heard = Var(Count)
    """In one variant: as much of the journal as the leader has read."""
    start = Var(Offset)
    cleaned = Var(Count)

    asked = Var(Fn(Begun, Option(Offset)))
    """What a leader remembers of questions: the LEO of the data when a run asked."""
    began = Var(Fn(Begun, Option(Cursor)))
    """What each run was answered: where it begins."""

    # -- what a leader knows -------------------------------------------------------------------------------

    @definition
    def TableAt(s):
        """Where the last entry of the table is, plus one; those before the journal's start are gone."""
        return greatest(
            s.Index,
            lambda p: If(
                And(s.cleaned <= p, p < size(s.journal)), If(s.journal[p].kind == "table", p + 1, 0), 0
            ),
        )

    def base(s):
        """The table at the last of its entries."""
        at = s.TableAt()
        nothing = record(s.Line, below=s.start, run=0, next=0, cursor=0)
        if s.variant == "cursor-lost-at-log-start":
            return nothing
        e = s.journal[If(at > 0, at - 1, 0)]
        kept = record(s.Line, below=e.below, run=e.run, next=e.next, cursor=e.cursor)
        return If(at > 0, kept, nothing)

    @definition
    def Opened(s):
        """The newest run that the journal names."""
        until = s.heard if s.variant == "opened-runs-to-hw" else size(s.journal)
        return greatest(
            s.Index,
            lambda p: If(
                And(s.cleaned <= p, p < until), If(s.journal[p].kind == "open", s.journal[p].run, 0), 0
            ),
        )

    @definition
    def DataRun(s, end: Offset):
        """The newest run of which there is a batch in the data, or was."""
        known = s.base()
        return maximum(
            known.run,
            greatest(s.Place, lambda i: If(And(known.below <= i, i < end), s.data[i].run, 0)),
        )

    @definition
    def NewestRun(s):
        return maximum(s.Opened(), s.DataRun(size(s.data)))

    @definition
    def DueOf(s, run: Run, end: Offset):
        """The number of the batch that is due of a run, by the data below `end`."""
        known = s.base()
        here = greatest(
            s.Place,
            lambda i: If(And(known.below <= i, i < end), If(s.data[i].run == run, s.data[i].seq + 1, 0), 0),
        )
        return maximum(here, If(known.run == run, known.next, 0))

    @definition
    def CursorOf(s, end: Offset):
        """The last cursor that was set below `end`."""
        known = s.base()

        def counts(i):
            mine = And(known.below <= i, i < end, s.data[i].sets)
            if s.variant == "fold-refuses-older-run":
                return And(mine, s.Opened() <= s.data[i].run)
            return mine

        last_one = greatest(s.Place, lambda i: If(And(i < size(s.data), counts(i)), i + 1, 0))
        return If(last_one > 0, s.data[last_one - 1].position + 1, known.cursor)

    # -- runs ----------------------------------------------------------------------------------------------

    @definition
    def IsOpened(s, run: Begun, until: Count):
        """An entry says so, or a table that is later than the entry."""
        return Exists(
            numbers(s.cleaned, until),
            lambda p: If(s.journal[p].kind == "open", s.journal[p].run == run, s.journal[p].run == run),
        )

    @action
    def OpenRun(s, run: Begun):
        """The leader writes that the run is open, unless it has, and remembers what was in the data."""
        if s.variant == "cursor-read-before-run-opened":
            when(False)
        when(is_none(s.began[run]), s.NewestRun() <= run, is_none(s.asked[run]))
        written = s.IsOpened(run, size(s.journal))
        when(Or(written, size(s.journal) < s.Entries))
        entry = {"kind": "open", "below": 0, "run": run, "next": 0, "cursor": 0}
        s.journal = If(written, s.journal, append(s.journal, entry))
        if s.variant == "opened-runs-to-hw":
            s.heard = If(written, s.heard, size(s.journal) + 1)
        waits = size(s.data)
        if s.variant == "repeat-answered-at-once":
            waits = If(written, s.hw_d, waits)
        s.asked[run] = waits

    @action
    def AnswerRun(s, run: Begun):
        """The entry is committed, and so is all that was in the data when it was asked for."""
        when(is_none(s.began[run]))
        if s.variant == "cursor-read-before-run-opened":
            when(s.NewestRun() <= run)
        else:
            when(is_some(s.asked[run]))
            if s.variant != "cursor-read-before-in-flight":
                when(get(s.asked[run]) <= s.hw_d)
            if s.variant != "run-opened-not-durable":
                when(s.IsOpened(run, s.hw_j))
        s.began[run] = s.CursorOf(s.hw_d)
        s.asked[run] = None

    @action
    def Process(s, run: Begun, number: Position):
        """A batch arrives, sooner or later, again or not, of a run that lives or lives on."""
        when(is_some(s.began[run]), size(s.data) < s.Records)
        position = get(s.began[run]) + number
        when(position < s.Inputs, s.NewestRun() <= run, s.DueOf(run, size(s.data)) == number)
        sets = s.variant != "cursor-apart"
        s.data = append(s.data, {"run": run, "seq": number, "position": position, "sets": sets})

    @only("variant", "cursor-apart")
    @action
    def SetCursor(s):
        """The cursor follows, with what is in the log."""
        end = size(s.data)
        when(end > 0)
        when(s.hw_d < end, ~s.data[end - 1].sets)
        s.data = append(prefix(s.data, end - 1), having(last(s.data), sets=True))

    # -- the logs ------------------------------------------------------------------------------------------

    @action
    def CommitData(s):
        when(s.hw_d < size(s.data))
        s.hw_d = s.hw_d + 1

    @action
    def CommitEntry(s):
        when(s.hw_j < size(s.journal))
        s.hw_j = s.hw_j + 1

    @only("variant", "opened-runs-to-hw")
    @action
    def HearOfHw(s):
        """The new leader has read what is committed of the journal."""
        when(s.heard < s.hw_j)
        s.heard = s.hw_j

    @action
    def Elect(s, data: Offset, journal: Count):
        """R16. Of what was not committed the new leader has any part; nobody waits for an answer any more."""
        when(s.epoch < s.Epochs)
        when(s.hw_d <= data, data <= size(s.data), s.hw_j <= journal, journal <= size(s.journal))
        s.epoch = s.epoch + 1
        s.data = prefix(s.data, data)
        s.journal = prefix(s.journal, journal)
        s.asked = None
        s.heard = 0

    # -- log starts ----------------------------------------------------------------------------------------

    @action
    def WriteTable(s):
        """What the committed data say, and the newest run that was opened."""
        when(s.Tables > 0, size(s.journal) < s.Entries, s.base().below < s.hw_d)
        data_run = s.DataRun(s.hw_d)
        run = data_run if s.variant == "table-without-opened-run" else maximum(data_run, s.Opened())
        due, cursor = s.DueOf(run, s.hw_d), s.CursorOf(s.hw_d)
        entry = {"kind": "table", "below": s.hw_d, "run": run, "next": due, "cursor": cursor}
        s.journal = append(s.journal, entry)

    @action
    def MoveStart(s, at: Index):
        """C3: of the data to where a committed table begins, of the journal to that table."""
        end = size(s.journal) if s.variant == "start-before-table-committed" else s.hw_j
        when(at < end, s.cleaned <= at)
        when(s.journal[at].kind == "table", Or(s.start < s.journal[at].below, s.cleaned < at))
        s.start = maximum(s.start, s.journal[at].below)
        s.cleaned = at

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def OutputsOnce(s):
        """The outputs of a position are committed once."""
        committed = numbers(0, s.hw_d)
        return ~Exists(
            committed, committed, lambda i, j: And(i < j, s.data[i].position == s.data[j].position)
        )

    @invariant
    def NoneSkipped(s):
        """And not before those of the position before."""

        def follows(i):
            position = s.data[i].position
            return Or(position == 0, Exists(numbers(0, i), lambda j: s.data[j].position + 1 == position))

        return Forall(numbers(0, s.hw_d), follows)

    @invariant
    def ZombieFenced(s):
        """Behind a batch of a run there is none of an older one."""
        committed = numbers(0, s.hw_d)
        return ~Exists(committed, committed, lambda i, j: And(i < j, s.data[j].run < s.data[i].run))

    @invariant
    def CursorIsTrue(s):
        """What a leader would answer with is the position behind all outputs that are committed."""
        end = greatest(s.Place, lambda i: If(i < s.hw_d, s.data[i].position + 1, 0))
        return s.CursorOf(s.hw_d) == end

    # -- signs of life -------------------------------------------------------------------------------------

    @sometimes
    def ARunGoesOn(s):
        """Where the one before has stopped."""
        return Exists(numbers(0, s.hw_d), lambda i: And(s.data[i].run > 1, s.data[i].position > 0))

    @sometimes
    def AZombieIsInFlight(s):
        """A newer run has asked, and what an older one has sent is not committed."""
        older = Exists(numbers(s.hw_d, size(s.data)), lambda i: s.data[i].run < s.NewestRun())
        return And(older, Exists(s.Begun, lambda run: is_some(s.asked[run])))

    @sometimes
    def ACursorOutlivesItsBatch(s):
        """A run was answered with what only the table knows."""
        gone = And(s.start > 0, s.start == s.hw_d)
        return And(gone, s.hw_d == size(s.data), s.began[s.Runs] == s.CursorOf(s.hw_d), s.epoch > 1)
