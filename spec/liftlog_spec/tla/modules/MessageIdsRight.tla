--------------------------- MODULE MessageIdsRight ---------------------------

\* One partition, and what its leader answers.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Id, Records, Moments, Window, Most, Epochs, Removals

VARIABLES
    epoch, data, hw, removed, start, known, answered

vars == <<epoch, data, hw, removed, start, known, answered>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ epoch \in (1..Epochs)
    /\ ((data \in Seq([id: Id, time: (0..Moments - 1)])) /\ (Len(data) <= Records))
    /\ hw \in (0..Records)
    /\ removed \in SUBSET (0..Records - 1)
    /\ start \in (0..Records)
    /\ known \in SUBSET (0..Records - 1)
    /\ answered \in [Id -> SUBSET (0..Records - 1)]

\* The time that stands last in the log.
Newest ==
    MaxOf({(IF (i < Len(data)) THEN data[i + 1].time ELSE 0) : i \in (0..Records - 1)})

\* Less than a window older than this moment.
Young(i, now) ==
    (now < (data[i + 1].time + Window))

Remembered(i, now) ==
    (((i < Len(data)) /\ (i \in known)) /\ Young(i, now))

Init ==
    /\ epoch = 1
    /\ data = <<>>
    /\ hw = 0
    /\ removed = {}
    /\ start = 0
    /\ known = {}
    /\ answered = [x \in Id |-> {}]

\* A message arrives whose id the table does not have.
Publish(id, clock) ==
    /\ (Len(data) < Records)
    /\ ~((\E i \in (0)..(Len(data) - 1) : (Remembered(i, MaxOf({clock, Newest})) /\ (data[i + 1].id = id))))
    /\ (Cardinality({i \in (0)..(Len(data) - 1) : Remembered(i, MaxOf({clock, Newest}))}) < Most)
    /\ known' = (known \cup {Len(data)})
    /\ data' = Append(data, [id |-> id, time |-> MaxOf({clock, Newest})])
    /\ UNCHANGED <<epoch, hw, removed, start, answered>>

\* The first time or again: where it is, once it is committed.
Answer(i) ==
    /\ (i < Len(data))
    /\ Remembered(i, Newest)
    /\ ~((i \in answered[data[i + 1].id]))
    /\ (i < hw)
    /\ answered' = [answered EXCEPT ![data[i + 1].id] = (answered[data[i + 1].id] \cup {i})]
    /\ UNCHANGED <<epoch, data, hw, removed, start, known>>

Commit ==
    /\ (hw < Len(data))
    /\ hw' = (hw + 1)
    /\ UNCHANGED <<epoch, data, removed, start, known, answered>>

\* R16. The new leader has any part of what was not committed, and makes its table of what it has.
Elect(end) ==
    /\ (epoch < Epochs)
    /\ (hw <= end)
    /\ (end <= Len(data))
    /\ epoch' = (epoch + 1)
    /\ data' = SubSeq(data, 1, MinOf({end, Len(data)}))
    /\ known' = {i \in (0..Records - 1) : ((start <= i) /\ (i < end))}
    /\ UNCHANGED <<hw, removed, start, answered>>

\* The message is gone, for readers.
Remove(i) ==
    /\ (0 < Removals)
    /\ (i < hw)
    /\ ~((i \in removed))
    /\ removed' = (removed \cup {i})
    /\ UNCHANGED <<epoch, data, hw, start, known, answered>>

\* C3: over what is gone, and older than the window by the newest time that is committed.
MoveStart ==
    /\ (start < hw)
    /\ (start \in removed)
    /\ ~Young(start, data[(hw - 1) + 1].time)
    /\ start' = (start + 1)
    /\ UNCHANGED <<epoch, data, hw, removed, known, answered>>

Next ==
    \/ \E id \in Id, clock \in (0..Moments - 1) : Publish(id, clock)
    \/ \E i \in (0..Records - 1) : Answer(i)
    \/ Commit
    \/ \E end \in (0..Records) : Elect(end)
    \/ \E i \in (0..Records - 1) : Remove(i)
    \/ MoveStart

Spec == Init /\ [][Next]_vars

\* No id is committed twice within a window.
StoredOnce ==
    ~((\E i \in (0)..(hw - 1) : (\E j \in (0)..(hw - 1) : (((i < j) /\ (data[i + 1].id = data[j + 1].id)) /\ Young(i, data[j + 1].time)))))

\* What was answered is committed, at the offset that was named.
AnsweredIsCommitted ==
    (\A id \in Id : (\A i \in (0..Records - 1) : ((i \in answered[id]) => (IF (i < hw) THEN (data[i + 1].id = id) ELSE FALSE))))

\* So that a search by time is one by offset.
TimesNeverGoBack ==
    ~((\E i \in (0)..(hw - 1) : (\E j \in (0)..(hw - 1) : ((i < j) /\ (data[j + 1].time < data[i + 1].time)))))

TableIsBounded ==
    (Cardinality({i \in (0)..(Len(data) - 1) : Remembered(i, Newest)}) <= Most)

==============================================================================
