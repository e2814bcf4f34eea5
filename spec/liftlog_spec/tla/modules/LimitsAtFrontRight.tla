------------------------- MODULE LimitsAtFrontRight --------------------------

\* One partition with its two logs, and who leads it.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Subject, Records, Entries, OfSubject, Limit, Epochs, Deletes, Larges

VARIABLES
    epoch, data, hw, journal, journal_hw, heeded, looked, counted, deleted

vars == <<epoch, data, hw, journal, journal_hw, heeded, looked, counted, deleted>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ epoch \in (1..Epochs)
    /\ ((data \in Seq([subject: Subject, large: BOOLEAN])) /\ (Len(data) <= Records))
    /\ hw \in (0..Records)
    /\ ((journal \in Seq([place: (0..Records - 1), front: BOOLEAN, until: (0..Records)])) /\ (Len(journal) <= Entries))
    /\ journal_hw \in (0..Entries)
    /\ heeded \in (0..Entries)
    /\ looked \in (0..Records)
    /\ counted \in (0..Records)
    /\ deleted \in (0..Deletes)

Init ==
    /\ epoch = 1
    /\ data = <<>>
    /\ hw = 0
    /\ journal = <<>>
    /\ journal_hw = 0
    /\ heeded = 0
    /\ looked = 0
    /\ counted = 0
    /\ deleted = 0

Publish(subject, large) ==
    /\ (Len(data) < Records)
    /\ (IF ~(large) THEN TRUE ELSE (Cardinality({i \in (0)..(Len(data) - 1) : data[i + 1].large}) < Larges))
    /\ data' = Append(data, [subject |-> subject, large |-> large])
    /\ UNCHANGED <<epoch, hw, journal, journal_hw, heeded, looked, counted, deleted>>

Commit ==
    /\ (hw < Len(data))
    /\ hw' = (hw + 1)
    /\ UNCHANGED <<epoch, data, journal, journal_hw, heeded, looked, counted, deleted>>

CommitEntry ==
    /\ (journal_hw < Len(journal))
    /\ journal_hw' = (journal_hw + 1)
    /\ UNCHANGED <<epoch, data, hw, journal, heeded, looked, counted, deleted>>

Heed ==
    /\ (heeded < journal_hw)
    /\ heeded' = (heeded + 1)
    /\ UNCHANGED <<epoch, data, hw, journal, journal_hw, looked, counted, deleted>>

\* Somebody wants a committed message to be gone.
Delete(place) ==
    /\ (deleted < Deletes)
    /\ (place < hw)
    /\ (Len(journal) < Entries)
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1].place = place))))
    /\ deleted' = (deleted + 1)
    /\ journal' = Append(journal, [place |-> place, front |-> FALSE, until |-> 0])
    /\ UNCHANGED <<epoch, data, hw, journal_hw, heeded, looked, counted>>

\* Another one leads, which has this much of the logs, and heeds this much.
Elect(end, entries, heeds) ==
    /\ (epoch < Epochs)
    /\ (hw <= end)
    /\ (end <= Len(data))
    /\ (journal_hw <= entries)
    /\ (entries <= Len(journal))
    /\ (heeds <= journal_hw)
    /\ epoch' = (epoch + 1)
    /\ data' = SubSeq(data, 1, MinOf({end, Len(data)}))
    /\ journal' = SubSeq(journal, 1, MinOf({entries, Len(journal)}))
    /\ heeded' = heeds
    /\ looked' = 0
    /\ counted' = 0
    /\ UNCHANGED <<hw, journal_hw, deleted>>

\* The limit by subject takes one.
PushOut(place) ==
    /\ (heeded = Len(journal))
    /\ (Len(journal) < Entries)
    /\ (place < hw)
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < heeded) /\ (journal[i + 1].place = place))))
    /\ (OfSubject <= Cardinality({i \in (0)..(Len(data) - 1) : ((place < i) /\ ((i < hw) /\ ((data[i + 1].subject = data[place + 1].subject) /\ ~((\E i2 \in (0)..(Len(journal) - 1) : ((i2 < heeded) /\ (journal[i2 + 1].place = i)))))))}))
    /\ journal' = Append(journal, [place |-> place, front |-> FALSE, until |-> 0])
    /\ UNCHANGED <<epoch, data, hw, journal_hw, heeded, looked, counted, deleted>>

\* It has taken all that it had to.
Look ==
    /\ (looked < hw)
    /\ (heeded = Len(journal))
    /\ ~((\E i \in (0)..(Len(data) - 1) : ((i < hw) /\ (~((\E i2 \in (0)..(Len(journal) - 1) : ((i2 < heeded) /\ (journal[i2 + 1].place = i)))) /\ (OfSubject <= Cardinality({i2 \in (0)..(Len(data) - 1) : ((i < i2) /\ ((i2 < hw) /\ ((data[i2 + 1].subject = data[i + 1].subject) /\ ~((\E i3 \in (0)..(Len(journal) - 1) : ((i3 < heeded) /\ (journal[i3 + 1].place = i2)))))))}))))))
    /\ looked' = hw
    /\ UNCHANGED <<epoch, data, hw, journal, journal_hw, heeded, counted, deleted>>

\* There is too much: the oldest goes. It was counted what lies below `asked`, maybe some time ago.
Leave(place, asked) ==
    /\ (Len(journal) < Entries)
    /\ (heeded = Len(journal))
    /\ (asked <= looked)
    /\ (place < asked)
    /\ (place < hw)
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < heeded) /\ (journal[i + 1].place = place))))
    /\ ~((\E i \in (0)..(Len(data) - 1) : ((i < place) /\ ~((\E i2 \in (0)..(Len(journal) - 1) : ((i2 < heeded) /\ (journal[i2 + 1].place = i)))))))
    /\ (Limit < (Cardinality({i \in (0)..(Len(data) - 1) : ((i < asked) /\ ~((\E i2 \in (0)..(Len(journal) - 1) : ((i2 < heeded) /\ (journal[i2 + 1].place = i)))))}) + Cardinality({i \in (0)..(Len(data) - 1) : (((i < asked) /\ ~((\E i2 \in (0)..(Len(journal) - 1) : ((i2 < heeded) /\ (journal[i2 + 1].place = i))))) /\ data[i + 1].large)})))
    /\ journal' = Append(journal, [place |-> place, front |-> TRUE, until |-> asked])
    /\ UNCHANGED <<epoch, data, hw, journal_hw, heeded, looked, counted, deleted>>

\* There is not too much.
Counted ==
    /\ (counted < looked)
    /\ (heeded = Len(journal))
    /\ ((Cardinality({i \in (0)..(Len(data) - 1) : ((i < looked) /\ ~((\E i2 \in (0)..(Len(journal) - 1) : ((i2 < heeded) /\ (journal[i2 + 1].place = i)))))}) + Cardinality({i \in (0)..(Len(data) - 1) : (((i < looked) /\ ~((\E i2 \in (0)..(Len(journal) - 1) : ((i2 < heeded) /\ (journal[i2 + 1].place = i))))) /\ data[i + 1].large)})) <= Limit)
    /\ counted' = looked
    /\ UNCHANGED <<epoch, data, hw, journal, journal_hw, heeded, looked, deleted>>

Next ==
    \/ \E subject \in Subject, large \in BOOLEAN : Publish(subject, large)
    \/ Commit
    \/ CommitEntry
    \/ Heed
    \/ \E place \in (0..Records - 1) : Delete(place)
    \/ \E end \in (0..Records), entries \in (0..Entries), heeds \in (0..Entries) : Elect(end, entries, heeds)
    \/ \E place \in (0..Records - 1) : PushOut(place)
    \/ Look
    \/ \E place \in (0..Records - 1), asked \in (0..Records) : Leave(place, asked)
    \/ Counted

Spec == Init /\ [][Next]_vars

\* What a committed entry takes from the front is too much together with the newer ones that are committed,
\* and that nothing else takes.
OldestGo ==
    (\A i \in (0)..(Len(journal) - 1) : (IF ~(((i < journal_hw) /\ journal[i + 1].front)) THEN TRUE ELSE (Limit < ((Cardinality({j \in (0)..(Len(data) - 1) : (((journal[i + 1].place < j) /\ ((j < journal[i + 1].until) /\ ((j < hw) /\ ~((\E i2 \in (0)..(Len(journal) - 1) : ((i2 < (i + 1)) /\ (journal[i2 + 1].place = j))))))) /\ (Cardinality({i2 \in (0)..(Len(data) - 1) : ((j < i2) /\ ((i2 < journal[i + 1].until) /\ ((data[i2 + 1].subject = data[j + 1].subject) /\ ~((\E i3 \in (0)..(Len(journal) - 1) : ((i3 < (i + 1)) /\ (journal[i3 + 1].place = i2)))))))}) < OfSubject))}) + Cardinality({i2 \in (0)..(Len(data) - 1) : ((((journal[i + 1].place < i2) /\ ((i2 < journal[i + 1].until) /\ ((i2 < hw) /\ ~((\E i3 \in (0)..(Len(journal) - 1) : ((i3 < (i + 1)) /\ (journal[i3 + 1].place = i2))))))) /\ (Cardinality({i3 \in (0)..(Len(data) - 1) : ((i2 < i3) /\ ((i3 < journal[i + 1].until) /\ ((data[i3 + 1].subject = data[i2 + 1].subject) /\ ~((\E i4 \in (0)..(Len(journal) - 1) : ((i4 < (i + 1)) /\ (journal[i4 + 1].place = i3)))))))}) < OfSubject)) /\ data[i2 + 1].large)})) + (IF data[journal[i + 1].place + 1].large THEN 2 ELSE 1)))))

\* When all is counted, and what was written is committed, there is not too much.
LimitHolds ==
    (IF ~(((hw <= counted) /\ (journal_hw = Len(journal)))) THEN TRUE ELSE ((Cardinality({i \in (0)..(Len(data) - 1) : ((i < hw) /\ ~((\E i2 \in (0)..(Len(journal) - 1) : ((i2 < journal_hw) /\ (journal[i2 + 1].place = i)))))}) + Cardinality({i \in (0)..(Len(data) - 1) : (((i < hw) /\ ~((\E i2 \in (0)..(Len(journal) - 1) : ((i2 < journal_hw) /\ (journal[i2 + 1].place = i))))) /\ data[i + 1].large)})) <= Limit))

==============================================================================
