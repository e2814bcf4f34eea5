"""A processor whose runs are opened in the log that has its outputs: rule L10.

The model `processor` has a journal in which runs are opened. Here there is one log. To open a run is a
message of it, number 0 of the run, and the outputs of a position of the input, with the *cursor*, which is
the position that is next, are the messages that follow. A leader takes a message of no older run than its log
has, and only the number that is due (L2). Into the opening it writes the cursor that all before it leaves, to
the end of its log; it answers with that when the opening is committed. Then so is what was in flight before
it, and nothing of an older run comes behind it.

A leader knows a part of the log, a *window* that ends with it: what is older was forgotten, or has left the
log. It begins at or below the last committed message of the processor. So each message says where the
processor is, an opening too.

What is modelled. Runs of one processor, each of which lives on, and sends each of its messages, the opening
too, at any time, any number of times; it believes the first answer. Leader changes, which
cut what is not committed anywhere. Windows that begin later and later.

What is abstracted. *Replication*: `isr-pair`. *Zombie leaders*: they commit nothing, and their ends are what
a new leader has not. *Outputs*: one for each position. *Places of repeated messages*: `producers`. *The
input* has been read and can be read again.

Each variant breaks a rule:

    cursor-read-before-run-opened   the cursor is read first, and the first outputs fence the older runs
    run-opened-not-durable          answered when the opening is written
    cursor-of-committed             the opening has the cursor that the committed part of the log leaves
    opening-without-cursor          it has none: the last outputs say where the processor is
    outputs-without-cursor          the cursor is not stored with the outputs
    older-run-taken                 a leader takes what is due of any run
    window-by-uncommitted           the window begins at the last message, committed or not
"""

from __future__ import annotations

from liftlog_spec.lang import *


class Openings(Model):
    """The output partition of a processor, without a journal."""

    variant = Setting(
        "right",
        "cursor-read-before-run-opened",
        "run-opened-not-durable",
        "cursor-of-committed",
        "opening-without-cursor",
        "outputs-without-cursor",
        "older-run-taken",
        "window-by-uncommitted",
    )
    Inputs = Constant(2)
    Records = Constant(5)
    Runs = Constant(3)
    Epochs = Constant(2)
    Windows = Constant(1)
    """Inputs: positions of the input. Records of the log. Windows: how often the window begins later."""

    Cursor = Range(0, Inputs)
    Position = Range(0, Inputs - 1)
    Place = Range(0, Records - 1)
    Offset = Range(0, Records)
    Run = Range(0, Runs)
    Begun = Range(1, Runs)
    Number = Range(0, Inputs)
    Message = Record(run=Run, seq=Number, says=Bool, cursor=Cursor)
    """Number 0 opens the run; others have the outputs of the position before `cursor`. says: it has that."""
    Log = Seq(Message, Records)

    epoch = Var(Range(1, Epochs), init=1)
    log = Var(Log)
    """The leader's, with what is not committed."""
    hw = Var(Offset)
    start = Var(Offset)
    """Where the window begins."""
    moves = Var(Range(0, Windows))
    began = Var(Fn(Begun, Option(Cursor)))
    """What each run was answered: where it begins."""

    # -- what a leader knows -------------------------------------------------------------------------------

    @definition
    def CursorAt(s, end: Offset):
        """Where the processor is, by the messages of the window below `end`."""
        last_one = greatest(
            s.Place, lambda i: If(And(s.start <= i, i < end), If(s.log[i].says, i + 1, 0), 0)
        )
        return If(last_one > 0, s.log[If(last_one > 0, last_one - 1, 0)].cursor, 0)

    @definition
    def NewestRun(s):
        return greatest(s.Place, lambda i: If(And(s.start <= i, i < size(s.log)), s.log[i].run, 0))

    @definition
    def DueOf(s, run: Run):
        """The number that is due of a run; 0: nothing is known of it."""
        return greatest(
            s.Place,
            lambda i: If(
                And(s.start <= i, i < size(s.log)), If(s.log[i].run == run, s.log[i].seq + 1, 0), 0
            ),
        )

    @definition
    def OpenedAt(s, run: Begun):
        """Where the last opening of the run is, plus one; 0: there is none."""
        return greatest(
            s.Place,
            lambda i: If(i < size(s.log), If(And(s.log[i].run == run, s.log[i].seq == 0), i + 1, 0), 0),
        )

    # -- runs ----------------------------------------------------------------------------------------------

    @action
    def OpenRun(s, run: Begun):
        """The leader takes the opening: it is of a newer run than its log has."""
        if s.variant == "cursor-read-before-run-opened":
            when(False)
        when(s.NewestRun() < run, size(s.log) < s.Records)
        end = s.hw if s.variant == "cursor-of-committed" else size(s.log)
        says = s.variant != "opening-without-cursor"
        s.log = append(s.log, {"run": run, "seq": 0, "says": says, "cursor": s.CursorAt(end)})

    @action
    def AnswerRun(s, run: Begun):
        """The opening is committed: the run begins with the cursor that is in it."""
        when(is_none(s.began[run]))
        if s.variant == "cursor-read-before-run-opened":
            when(s.NewestRun() < run)
            s.began[run] = s.CursorAt(s.hw)
        else:
            at = s.OpenedAt(run)
            when(at > 0)
            if s.variant != "run-opened-not-durable":
                when(at <= s.hw)
            before = s.CursorAt(If(at > 0, at - 1, 0))
            s.began[run] = before if s.variant == "opening-without-cursor" else s.log[at - 1].cursor

    @action
    def Process(s, run: Begun, position: Position):
        """The outputs of a position arrive, sooner or later, again or not, of a run that lives on."""
        when(is_some(s.began[run]), size(s.log) < s.Records)
        when(get(s.began[run]) <= position)
        number = position - get(s.began[run]) + 1
        if s.variant != "older-run-taken":
            when(s.NewestRun() <= run)
        if s.variant == "cursor-read-before-run-opened":
            when(maximum(s.DueOf(run), 1) == number)
        else:
            when(s.DueOf(run) == number)
        says = s.variant != "outputs-without-cursor"
        s.log = append(s.log, {"run": run, "seq": number, "says": says, "cursor": position + 1})

    # -- the log -------------------------------------------------------------------------------------------

    @action
    def Commit(s):
        when(s.hw < size(s.log))
        s.hw = s.hw + 1

    @action
    def Elect(s, end: Offset):
        """R16. Of what was not committed the new leader has any part."""
        when(s.epoch < s.Epochs, s.hw <= end, end <= size(s.log))
        s.epoch = s.epoch + 1
        s.log = prefix(s.log, end)

    @action
    def Forget(s, to: Place):
        """L7: what was before `to` is older than the window, by the newest time that is committed."""
        when(s.moves < s.Windows, s.start < to)
        when(to < (size(s.log) if s.variant == "window-by-uncommitted" else s.hw))
        s.moves = s.moves + 1
        s.start = to

    # -- properties ----------------------------------------------------------------------------------------

    def outputs(s, i):
        """Whether the message there has outputs."""
        return s.log[i].seq > 0

    @invariant
    def OutputsOnce(s):
        """The outputs of a position are committed once."""
        committed = numbers(0, s.hw)
        return ~Exists(
            committed,
            committed,
            lambda i, j: And(i < j, s.outputs(i), s.outputs(j), s.log[i].cursor == s.log[j].cursor),
        )

    @invariant
    def NoneSkipped(s):
        """And not before those of the position before."""

        def follows(i):
            cursor = s.log[i].cursor
            before = Exists(
                numbers(0, i), lambda j: And(s.outputs(j), s.log[j].cursor + 1 == cursor)
            )
            return Or(s.log[i].seq == 0, cursor == 1, before)

        return Forall(numbers(0, s.hw), follows)

    @invariant
    def ZombieFenced(s):
        """Behind a message of a run there is none of an older one."""
        committed = numbers(0, s.hw)
        return ~Exists(committed, committed, lambda i, j: And(i < j, s.log[j].run < s.log[i].run))

    @invariant
    def CursorIsTrue(s):
        """What a leader would answer with is the position behind all outputs that are committed."""
        end = greatest(
            s.Place, lambda i: If(i < s.hw, If(s.log[i].seq > 0, s.log[i].cursor, 0), 0)
        )
        return s.CursorAt(s.hw) == end

    # -- signs of life -------------------------------------------------------------------------------------

    @sometimes
    def ARunGoesOn(s):
        """Where the one before has stopped."""
        return Exists(
            numbers(0, s.hw), lambda i: And(s.outputs(i), s.log[i].run > 1, s.log[i].cursor > 1)
        )

    @sometimes
    def AZombieIsInFlight(s):
        """A newer run is opened, and what an older one has sent is not committed."""
        return Exists(
            numbers(s.hw, size(s.log)), lambda i: And(s.outputs(i), s.log[i].run < s.NewestRun())
        )

    @sometimes
    def ACursorOutlivesItsOutputs(s):
        """Of the window only an opening says where the processor is."""
        told = And(s.start > 0, s.start < s.hw, s.CursorAt(s.hw) > 0)
        return And(told, Forall(numbers(s.start, s.hw), lambda i: s.log[i].seq == 0))
