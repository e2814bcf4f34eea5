------------------------- MODULE ActivityStreamRight -------------------------

\* The outbox, and the stream that its events come to lie in.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Events, Room, Entries, Epochs

VARIABLES
    happened, trimmed, missed, epoch, log, hw, appended, begins

vars == <<happened, trimmed, missed, epoch, log, hw, appended, begins>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ happened \in (0..Events)
    /\ trimmed \in (0..Events)
    /\ missed \in (0..Events)
    /\ epoch \in (1..Epochs)
    /\ ((log \in Seq((1..Events + 10))) /\ (Len(log) <= Entries))
    /\ hw \in (0..Entries)
    /\ appended \in (0..Events)
    /\ begins \in SUBSET (0..Entries)

Init ==
    /\ happened = 0
    /\ trimmed = 0
    /\ missed = 0
    /\ epoch = 1
    /\ log = <<>>
    /\ hw = 0
    /\ appended = 0
    /\ begins = {}

Happen ==
    /\ (happened < Events)
    /\ missed' = (IF (Room < ((happened + 1) - MaxOf({missed, trimmed}))) THEN (MaxOf({missed, trimmed}) + 1) ELSE missed)
    /\ happened' = (happened + 1)
    /\ UNCHANGED <<trimmed, epoch, log, hw, appended, begins>>

\* By a leader's word of its log.
Trim ==
    /\ (0 < Len(log))
    /\ (0 < hw)
    /\ (trimmed < (IF (10 < log[(hw - 1) + 1]) THEN (log[(hw - 1) + 1] - 10) ELSE log[(hw - 1) + 1]))
    /\ trimmed' = (IF (10 < log[(hw - 1) + 1]) THEN (log[(hw - 1) + 1] - 10) ELSE log[(hw - 1) + 1])
    /\ UNCHANGED <<happened, missed, epoch, log, hw, appended, begins>>

Write(event) ==
    /\ (Len(log) < Entries)
    /\ (event <= happened)
    /\ (event = (appended + 1))
    /\ (missed < event)
    /\ log' = Append(log, event)
    /\ appended' = MaxOf({appended, event})
    /\ UNCHANGED <<happened, trimmed, missed, epoch, hw, begins>>

\* Some that would come next have had no room.
WriteLoss ==
    /\ (Len(log) < Entries)
    /\ (appended < missed)
    /\ log' = Append(log, (missed + 10))
    /\ appended' = missed
    /\ UNCHANGED <<happened, trimmed, missed, epoch, hw, begins>>

Commit ==
    /\ (hw < Len(log))
    /\ hw' = (hw + 1)
    /\ UNCHANGED <<happened, trimmed, missed, epoch, log, appended, begins>>

\* Another one leads, which has this much of the log.
Elect(end) ==
    /\ (epoch < Epochs)
    /\ (hw <= end)
    /\ (end <= Len(log))
    /\ epoch' = (epoch + 1)
    /\ log' = SubSeq(log, 1, MinOf({end, Len(log)}))
    /\ begins' = (begins \cup {end})
    /\ appended' = trimmed
    /\ UNCHANGED <<happened, trimmed, missed, hw>>

Next ==
    \/ Happen
    \/ Trim
    \/ \E event \in (1..Events) : Write(event)
    \/ WriteLoss
    \/ Commit
    \/ \E end \in (0..Entries) : Elect(end)

Spec == Init /\ [][Next]_vars

\* Before each event that is committed stands the one before it, or that it is missing.
NoneMissing ==
    (\A i \in (0)..(Len(log) - 1) : (((i < hw) /\ ((log[i + 1] < 10) /\ (1 < log[i + 1]))) => (\E i2 \in (0)..(Len(log) - 1) : ((i2 < i) /\ (IF (log[i2 + 1] = (log[i + 1] - 1)) THEN TRUE ELSE (((log[i + 1] - 1) + 10) <= log[i2 + 1]))))))

\* What has left the outbox is committed in the stream, or is told there to be missing.
TrimmedIsStored ==
    (\A e \in (1..Events) : ((e <= trimmed) => (\E i \in (0)..(Len(log) - 1) : ((i < hw) /\ (IF (log[i + 1] = e) THEN TRUE ELSE ((e + 10) <= log[i + 1]))))))

\* What comes again does so where a leader begins, and from there on in order.
RepeatsBegin ==
    (\A i \in (0)..(Len(log) - 1) : (((0 < i) /\ ~((i \in begins))) => ((IF (10 < log[(IF (0 < i) THEN (i - 1) ELSE i) + 1]) THEN (log[(IF (0 < i) THEN (i - 1) ELSE i) + 1] - 10) ELSE log[(IF (0 < i) THEN (i - 1) ELSE i) + 1]) < (IF (10 < log[i + 1]) THEN (log[i + 1] - 10) ELSE log[i + 1]))))

==============================================================================
