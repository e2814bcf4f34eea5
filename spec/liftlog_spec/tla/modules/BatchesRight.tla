---------------------------- MODULE BatchesRight -----------------------------

\* One partition, and publishers of which each sends one batch.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Publishers, Records, Epochs

VARIABLES
    epoch, data, hw, sent, expected, kept, fits

vars == <<epoch, data, hw, sent, expected, kept, fits>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ epoch \in (1..Epochs)
    /\ ((data \in Seq([author: (0..Publishers), place: (0..2), ends: (0..1)])) /\ (Len(data) <= Records))
    /\ hw \in (0..Records)
    /\ sent \in [(1..Publishers) -> (0..3)]
    /\ expected \in [(1..Publishers) -> ((0..Records) \cup {None})]
    /\ kept \in [(1..Publishers) -> SUBSET (0..2)]
    /\ fits \in SUBSET (1..Publishers)

Init ==
    /\ epoch = 1
    /\ data = <<>>
    /\ hw = 0
    /\ sent = [x \in (1..Publishers) |-> 0]
    /\ expected = [x \in (1..Publishers) |-> None]
    /\ kept = [x \in (1..Publishers) |-> {}]
    /\ fits = {}

Expect(p, place) ==
    /\ (sent[p] = 0)
    /\ (expected[p] = None)
    /\ expected' = [expected EXCEPT ![p] = place]
    /\ UNCHANGED <<epoch, data, hw, sent, kept, fits>>

\* A message does not arrive.
Lose(p) ==
    /\ (sent[p] < 3)
    /\ sent' = [sent EXCEPT ![p] = (sent[p] + 1)]
    /\ UNCHANGED <<epoch, data, hw, expected, kept, fits>>

\* A message comes, and is not the last one.
Arrive(p) ==
    /\ (sent[p] < 2)
    /\ (Len(data) < Records)
    /\ sent' = [sent EXCEPT ![p] = (sent[p] + 1)]
    /\ kept' = [kept EXCEPT ![p] = (IF ((sent[p] = 0) \/ ((sent[p] - 1) \in kept[p])) THEN (kept[p] \cup {sent[p]}) ELSE {})]
    /\ fits' = (IF ((sent[p] = 0) /\ (IF (expected[p] = None) THEN TRUE ELSE (expected[p] = Len(data)))) THEN (fits \cup {p}) ELSE fits)
    /\ UNCHANGED <<epoch, data, hw, expected>>

\* The last one comes.
End(p) ==
    /\ (sent[p] = 2)
    /\ ((Len(data) + 3) <= Records)
    /\ sent' = [sent EXCEPT ![p] = 3]
    /\ kept' = [kept EXCEPT ![p] = {}]
    /\ data' = (IF ((FALSE \/ (1 \in kept[p])) /\ (IF (expected[p] = None) THEN TRUE ELSE (expected[p] = Len(data)))) THEN Append((IF (1 \in kept[p]) THEN Append((IF (0 \in kept[p]) THEN Append(data, [author |-> p, place |-> 0, ends |-> 0]) ELSE data), [author |-> p, place |-> 1, ends |-> 0]) ELSE (IF (0 \in kept[p]) THEN Append(data, [author |-> p, place |-> 0, ends |-> 0]) ELSE data)), [author |-> p, place |-> 2, ends |-> 1]) ELSE data)
    /\ UNCHANGED <<epoch, hw, expected, fits>>

\* A batch is silent for too long, or its leader takes nothing for now: nothing is kept of it.
GiveUp(p) ==
    /\ (\E i \in (0..2) : (i \in kept[p]))
    /\ kept' = [kept EXCEPT ![p] = {}]
    /\ UNCHANGED <<epoch, data, hw, sent, expected, fits>>

\* Somebody else's message.
Publish ==
    /\ (Len(data) < Records)
    /\ data' = Append(data, [author |-> 0, place |-> 0, ends |-> 1])
    /\ UNCHANGED <<epoch, hw, sent, expected, kept, fits>>

Commit(end) ==
    /\ (hw < end)
    /\ (end <= Len(data))
    /\ (IF (end = 0) THEN TRUE ELSE (data[(end - 1) + 1].ends = 1))
    /\ hw' = end
    /\ UNCHANGED <<epoch, data, sent, expected, kept, fits>>

\* Another one leads, which has this much of the log, and nothing of any batch.
Elect(end) ==
    /\ (epoch < Epochs)
    /\ (hw <= end)
    /\ (end <= Len(data))
    /\ (IF (end = 0) THEN TRUE ELSE (data[(end - 1) + 1].ends = 1))
    /\ epoch' = (epoch + 1)
    /\ data' = SubSeq(data, 1, MinOf({end, Len(data)}))
    /\ kept' = [p \in (1..Publishers) |-> {i \in (0..2) : (3 < i)}]
    /\ UNCHANGED <<hw, sent, expected, fits>>

Next ==
    \/ \E p \in (1..Publishers), place \in (0..Records) : Expect(p, place)
    \/ \E p \in (1..Publishers) : Lose(p)
    \/ \E p \in (1..Publishers) : Arrive(p)
    \/ \E p \in (1..Publishers) : End(p)
    \/ \E p \in (1..Publishers) : GiveUp(p)
    \/ Publish
    \/ \E end \in (0..Records) : Commit(end)
    \/ \E end \in (0..Records) : Elect(end)

Spec == Init /\ [][Next]_vars

\* Whoever reads finds all of a batch, one message behind the other, or nothing of it.
AllOrNone ==
    (\A i \in (0)..(Len(data) - 1) : ((i < hw) => (IF (data[i + 1].author = 0) THEN TRUE ELSE ((IF (data[i + 1].place = 0) THEN TRUE ELSE ((0 < i) /\ ((data[(i - 1) + 1].author = data[i + 1].author) /\ ((data[(i - 1) + 1].place + 1) = data[i + 1].place)))) /\ (IF (data[i + 1].place = 2) THEN TRUE ELSE (((i + 1) < hw) /\ ((data[i + 1].author = data[(i + 1) + 1].author) /\ ((data[i + 1].place + 1) = data[(i + 1) + 1].place))))))))

StoredAsExpected ==
    (\A i \in (0)..(Len(data) - 1) : (((0 < data[i + 1].author) /\ (data[i + 1].place = 0)) => (IF (expected[data[i + 1].author] = None) THEN TRUE ELSE (expected[data[i + 1].author] = i))))

==============================================================================
