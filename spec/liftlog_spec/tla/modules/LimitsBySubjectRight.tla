------------------------ MODULE LimitsBySubjectRight -------------------------

\* One partition with its two logs, and who leads it.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Subject, Records, Entries, Limit, Epochs, Deletes

VARIABLES
    epoch, data, hw, journal, journal_hw, heeded, done, look, told, deleted

vars == <<epoch, data, hw, journal, journal_hw, heeded, done, look, told, deleted>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ epoch \in (1..Epochs)
    /\ ((data \in Seq(Subject)) /\ (Len(data) <= Records))
    /\ hw \in (0..Records)
    /\ ((journal \in Seq([place: (0..Records - 1), limits: BOOLEAN])) /\ (Len(journal) <= Entries))
    /\ journal_hw \in (0..Entries)
    /\ heeded \in (0..Entries)
    /\ done \in (0..Records)
    /\ look \in ([at: (0..Records), until: (0..Records)] \cup {None})
    /\ told \in ([place: (0..Records - 1), goes: BOOLEAN, written: (0..Entries)] \cup {None})
    /\ deleted \in (0..Deletes)

Init ==
    /\ epoch = 1
    /\ data = <<>>
    /\ hw = 0
    /\ journal = <<>>
    /\ journal_hw = 0
    /\ heeded = 0
    /\ done = 0
    /\ look = None
    /\ told = None
    /\ deleted = 0

Publish(subject) ==
    /\ (Len(data) < Records)
    /\ data' = Append(data, subject)
    /\ UNCHANGED <<epoch, hw, journal, journal_hw, heeded, done, look, told, deleted>>

Commit ==
    /\ (hw < Len(data))
    /\ hw' = (hw + 1)
    /\ UNCHANGED <<epoch, data, journal, journal_hw, heeded, done, look, told, deleted>>

CommitEntry ==
    /\ (journal_hw < Len(journal))
    /\ journal_hw' = (journal_hw + 1)
    /\ UNCHANGED <<epoch, data, hw, journal, heeded, done, look, told, deleted>>

Heed ==
    /\ (heeded < journal_hw)
    /\ heeded' = (heeded + 1)
    /\ UNCHANGED <<epoch, data, hw, journal, journal_hw, done, look, told, deleted>>

\* Somebody wants a committed message to be gone.
Delete(place) ==
    /\ (deleted < Deletes)
    /\ (place < hw)
    /\ (Len(journal) < Entries)
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1].place = place))))
    /\ deleted' = (deleted + 1)
    /\ journal' = Append(journal, [place |-> place, limits |-> FALSE])
    /\ UNCHANGED <<epoch, data, hw, journal_hw, heeded, done, look, told>>

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
    /\ done' = 0
    /\ look' = None
    /\ told' = None
    /\ UNCHANGED <<hw, journal_hw, deleted>>

\* More is committed than what was looked at.
Begin ==
    /\ (look = None)
    /\ (done < hw)
    /\ look' = [at |-> 0, until |-> hw]
    /\ UNCHANGED <<epoch, data, hw, journal, journal_hw, heeded, done, told, deleted>>

\* About the next record.
Ask ==
    /\ (look # None)
    /\ (told = None)
    /\ (look.at < look.until)
    /\ (heeded = Len(journal))
    /\ told' = [place |-> look.at, goes |-> (((look.at < Len(data)) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < heeded) /\ (journal[i + 1].place = look.at))))) /\ (Limit < Cardinality({i \in (0)..(Len(data) - 1) : ((i < look.until) /\ ((data[i + 1] = data[look.at + 1]) /\ ~((\E i2 \in (0)..(Len(journal) - 1) : ((i2 < heeded) /\ (journal[i2 + 1].place = i))))))}))), written |-> Len(journal)]
    /\ UNCHANGED <<epoch, data, hw, journal, journal_hw, heeded, done, look, deleted>>

\* What was told.
Write ==
    /\ (told # None)
    /\ (Len(journal) < Entries)
    /\ journal' = (IF ((told.written = Len(journal)) /\ (told.goes /\ (told.place < Len(data)))) THEN Append(journal, [place |-> told.place, limits |-> TRUE]) ELSE journal)
    /\ look' = (IF (told.written = Len(journal)) THEN [at |-> (look.at + 1), until |-> look.until] ELSE look)
    /\ told' = None
    /\ UNCHANGED <<epoch, data, hw, journal_hw, heeded, done, deleted>>

\* The look has come to its end, and all of it is committed.
End ==
    /\ (look # None)
    /\ (look.until <= look.at)
    /\ (told = None)
    /\ done' = look.until
    /\ look' = None
    /\ UNCHANGED <<epoch, data, hw, journal, journal_hw, heeded, told, deleted>>

Next ==
    \/ \E subject \in Subject : Publish(subject)
    \/ Commit
    \/ CommitEntry
    \/ Heed
    \/ \E place \in (0..Records - 1) : Delete(place)
    \/ \E end \in (0..Records), entries \in (0..Entries), heeds \in (0..Entries) : Elect(end, entries, heeds)
    \/ Begin
    \/ Ask
    \/ Write
    \/ End

Spec == Init /\ [][Next]_vars

\* What a committed entry pushes out has as many newer ones of its subject as are to stay.
KeepsNewest ==
    (\A i \in (0)..(Len(journal) - 1) : (IF ~(((i < journal_hw) /\ journal[i + 1].limits)) THEN TRUE ELSE (Limit <= Cardinality({i2 \in (0)..(Len(data) - 1) : ((journal[i + 1].place < i2) /\ ((i2 < hw) /\ ((data[i2 + 1] = data[journal[i + 1].place + 1]) /\ ~((\E i3 \in (0)..(Len(journal) - 1) : ((i3 < (i + 1)) /\ (journal[i3 + 1].place = i2)))))))}))))

\* When all is looked at, and what was written is committed, no subject has too many.
LimitHolds ==
    (IF ~(((look = None) /\ ((hw <= done) /\ (journal_hw = Len(journal))))) THEN TRUE ELSE (\A subject \in Subject : (Cardinality({i \in (0)..(Len(data) - 1) : ((i < hw) /\ ((data[i + 1] = subject) /\ ~((\E i2 \in (0)..(Len(journal) - 1) : ((i2 < journal_hw) /\ (journal[i2 + 1].place = i))))))}) <= Limit)))

==============================================================================
