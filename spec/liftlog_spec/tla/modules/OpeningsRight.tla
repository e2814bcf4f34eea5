---------------------------- MODULE OpeningsRight ----------------------------

\* The output partition of a processor, without a journal.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Inputs, Records, Runs, Epochs, Windows

VARIABLES
    epoch, log, hw, start, moves, began

vars == <<epoch, log, hw, start, moves, began>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ epoch \in (1..Epochs)
    /\ ((log \in Seq([run: (0..Runs), seq: (0..Inputs), says: BOOLEAN, cursor: (0..Inputs)])) /\ (Len(log) <= Records))
    /\ hw \in (0..Records)
    /\ start \in (0..Records)
    /\ moves \in (0..Windows)
    /\ began \in [(1..Runs) -> ((0..Inputs) \cup {None})]

\* Where the processor is, by the messages of the window below `end`.
CursorAt(end) ==
    (IF (0 < MaxOf({(IF ((start <= i) /\ (i < end)) THEN (IF log[i + 1].says THEN (i + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)})) THEN log[(IF (0 < MaxOf({(IF ((start <= i) /\ (i < end)) THEN (IF log[i + 1].says THEN (i + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)})) THEN (MaxOf({(IF ((start <= i) /\ (i < end)) THEN (IF log[i + 1].says THEN (i + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)}) - 1) ELSE 0) + 1].cursor ELSE 0)

NewestRun ==
    MaxOf({(IF ((start <= i) /\ (i < Len(log))) THEN log[i + 1].run ELSE 0) : i \in (0..Records - 1)})

\* The number that is due of a run; 0: nothing is known of it.
DueOf(run) ==
    MaxOf({(IF ((start <= i) /\ (i < Len(log))) THEN (IF (log[i + 1].run = run) THEN (log[i + 1].seq + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)})

\* Where the last opening of the run is, plus one; 0: there is none.
OpenedAt(run) ==
    MaxOf({(IF (i < Len(log)) THEN (IF ((log[i + 1].run = run) /\ (log[i + 1].seq = 0)) THEN (i + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)})

Init ==
    /\ epoch = 1
    /\ log = <<>>
    /\ hw = 0
    /\ start = 0
    /\ moves = 0
    /\ began = [x \in (1..Runs) |-> None]

\* The leader takes the opening: it is of a newer run than its log has.
OpenRun(run) ==
    /\ (NewestRun < run)
    /\ (Len(log) < Records)
    /\ log' = Append(log, [run |-> run, seq |-> 0, says |-> TRUE, cursor |-> CursorAt(Len(log))])
    /\ UNCHANGED <<epoch, hw, start, moves, began>>

\* The opening is committed: the run begins with the cursor that is in it.
AnswerRun(run) ==
    /\ (began[run] = None)
    /\ (0 < OpenedAt(run))
    /\ (OpenedAt(run) <= hw)
    /\ began' = [began EXCEPT ![run] = log[(OpenedAt(run) - 1) + 1].cursor]
    /\ UNCHANGED <<epoch, log, hw, start, moves>>

\* The outputs of a position arrive, sooner or later, again or not, of a run that lives on.
Process(run, position) ==
    /\ (began[run] # None)
    /\ (Len(log) < Records)
    /\ (began[run] <= position)
    /\ (NewestRun <= run)
    /\ (DueOf(run) = ((position - began[run]) + 1))
    /\ log' = Append(log, [run |-> run, seq |-> ((position - began[run]) + 1), says |-> TRUE, cursor |-> (position + 1)])
    /\ UNCHANGED <<epoch, hw, start, moves, began>>

Commit ==
    /\ (hw < Len(log))
    /\ hw' = (hw + 1)
    /\ UNCHANGED <<epoch, log, start, moves, began>>

\* R16. Of what was not committed the new leader has any part.
Elect(end) ==
    /\ (epoch < Epochs)
    /\ (hw <= end)
    /\ (end <= Len(log))
    /\ epoch' = (epoch + 1)
    /\ log' = SubSeq(log, 1, MinOf({end, Len(log)}))
    /\ UNCHANGED <<hw, start, moves, began>>

\* L7: what was before `to` is older than the window, by the newest time that is committed.
Forget(to) ==
    /\ (moves < Windows)
    /\ (start < to)
    /\ (to < hw)
    /\ moves' = (moves + 1)
    /\ start' = to
    /\ UNCHANGED <<epoch, log, hw, began>>

Next ==
    \/ \E run \in (1..Runs) : OpenRun(run)
    \/ \E run \in (1..Runs) : AnswerRun(run)
    \/ \E run \in (1..Runs), position \in (0..Inputs - 1) : Process(run, position)
    \/ Commit
    \/ \E end \in (0..Records) : Elect(end)
    \/ \E to \in (0..Records - 1) : Forget(to)

Spec == Init /\ [][Next]_vars

\* The outputs of a position are committed once.
OutputsOnce ==
    ~((\E i \in (0)..(hw - 1) : (\E j \in (0)..(hw - 1) : ((((i < j) /\ (0 < log[i + 1].seq)) /\ (0 < log[j + 1].seq)) /\ (log[i + 1].cursor = log[j + 1].cursor)))))

\* And not before those of the position before.
NoneSkipped ==
    (\A i \in (0)..(hw - 1) : (IF (IF (log[i + 1].seq = 0) THEN TRUE ELSE (log[i + 1].cursor = 1)) THEN TRUE ELSE (\E j \in (0)..(i - 1) : ((0 < log[j + 1].seq) /\ ((log[j + 1].cursor + 1) = log[i + 1].cursor)))))

\* Behind a message of a run there is none of an older one.
ZombieFenced ==
    ~((\E i \in (0)..(hw - 1) : (\E j \in (0)..(hw - 1) : ((i < j) /\ (log[j + 1].run < log[i + 1].run)))))

\* What a leader would answer with is the position behind all outputs that are committed.
CursorIsTrue ==
    (CursorAt(hw) = MaxOf({(IF (i < hw) THEN (IF (0 < log[i + 1].seq) THEN log[i + 1].cursor ELSE 0) ELSE 0) : i \in (0..Records - 1)}))

==============================================================================
