------------------------- MODULE AckedByNumberRight --------------------------

\* One partition, and publishers of which each sends one batch.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Publishers, Epochs, Records

VARIABLES
    epoch, data, hw, sent, took, acked

vars == <<epoch, data, hw, sent, took, acked>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ epoch \in (1..Epochs)
    /\ ((data \in Seq([author: (1..Publishers), nth: (1..3)])) /\ (Len(data) <= Records))
    /\ hw \in (0..Records)
    /\ sent \in [(1..Publishers) -> (0..3)]
    /\ took \in [(1..Publishers) -> (0..3)]
    /\ acked \in [(1..Publishers) -> (0..3)]

Init ==
    /\ epoch = 1
    /\ data = <<>>
    /\ hw = 0
    /\ sent = [x \in (1..Publishers) |-> 0]
    /\ took = [x \in (1..Publishers) |-> 0]
    /\ acked = [x \in (1..Publishers) |-> 0]

\* A message does not arrive.
Lose(p) ==
    /\ (sent[p] < 3)
    /\ sent' = [sent EXCEPT ![p] = (sent[p] + 1)]
    /\ UNCHANGED <<epoch, data, hw, took, acked>>

\* A message comes, and is stored or not.
Arrive(p) ==
    /\ (sent[p] < 3)
    /\ (Len(data) < Records)
    /\ sent' = [sent EXCEPT ![p] = (sent[p] + 1)]
    /\ took' = [took EXCEPT ![p] = (IF ((took[p] + 1) = (sent[p] + 1)) THEN (sent[p] + 1) ELSE took[p])]
    /\ data' = (IF ((took[p] + 1) = (sent[p] + 1)) THEN Append(data, [author |-> p, nth |-> (sent[p] + 1)]) ELSE data)
    /\ UNCHANGED <<epoch, hw, acked>>

\* The leader ends a batch, since it was silent for too long, or a message was missing.
GiveUp(p) ==
    /\ (0 < took[p])
    /\ took' = [took EXCEPT ![p] = 0]
    /\ UNCHANGED <<epoch, data, hw, sent, acked>>

\* This message is acked, and with it all that are before it in its batch.
Ack(p, number) ==
    /\ (0 < took[p])
    /\ (acked[p] < number)
    /\ (\E i \in (0)..(Len(data) - 1) : (((i < hw) /\ (data[i + 1].author = p)) /\ (data[i + 1].nth = number)))
    /\ acked' = [acked EXCEPT ![p] = number]
    /\ UNCHANGED <<epoch, data, hw, sent, took>>

Commit(end) ==
    /\ (hw < end)
    /\ (end <= Len(data))
    /\ hw' = end
    /\ UNCHANGED <<epoch, data, sent, took, acked>>

\* Another one leads, which has this much of the log, and knows no batch.
Elect(end) ==
    /\ (epoch < Epochs)
    /\ (hw <= end)
    /\ (end <= Len(data))
    /\ epoch' = (epoch + 1)
    /\ data' = SubSeq(data, 1, MinOf({end, Len(data)}))
    /\ took' = [p \in (1..Publishers) |-> 0]
    /\ UNCHANGED <<hw, sent, acked>>

Next ==
    \/ \E p \in (1..Publishers) : Lose(p)
    \/ \E p \in (1..Publishers) : Arrive(p)
    \/ \E p \in (1..Publishers) : GiveUp(p)
    \/ \E p \in (1..Publishers), number \in (0..3) : Ack(p, number)
    \/ \E end \in (0..Records) : Commit(end)
    \/ \E end \in (0..Records) : Elect(end)

Spec == Init /\ [][Next]_vars

\* All up to the number that was acked are committed.
AckedIsThere ==
    (\A p \in (1..Publishers) : ((((1 <= acked[p]) => (\E i \in (0)..(Len(data) - 1) : (((i < hw) /\ (data[i + 1].author = p)) /\ (data[i + 1].nth = 1)))) /\ ((2 <= acked[p]) => (\E i \in (0)..(Len(data) - 1) : (((i < hw) /\ (data[i + 1].author = p)) /\ (data[i + 1].nth = 2))))) /\ ((3 <= acked[p]) => (\E i \in (0)..(Len(data) - 1) : (((i < hw) /\ (data[i + 1].author = p)) /\ (data[i + 1].nth = 3))))))

\* Of one batch none lies before one of a smaller number.
InOrder ==
    (\A i \in (0)..(Len(data) - 1) : (\A j \in (0)..(Len(data) - 1) : (((i < j) /\ (data[i + 1].author = data[j + 1].author)) => (data[i + 1].nth < data[j + 1].nth))))

==============================================================================
