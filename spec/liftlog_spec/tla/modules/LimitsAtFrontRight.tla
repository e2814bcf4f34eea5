------------------------- MODULE LimitsAtFrontRight --------------------------

\* One partition with its two logs, and who leads it.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Subject, Records, Entries, OfSubject, Limit, Epochs, Deletes, Larges, Olds, Alterations

VARIABLES
    epoch, data, hw, journal, journal_hw, heeded, limit, looked, counted, deleted, altered

vars == <<epoch, data, hw, journal, journal_hw, heeded, limit, looked, counted, deleted, altered>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ epoch \in (1..Epochs)
    /\ ((data \in Seq([subject: Subject, large: BOOLEAN, old: BOOLEAN])) /\ (Len(data) <= Records))
    /\ hw \in (0..Records)
    /\ ((journal \in Seq([places: SUBSET (0..Records - 1), why: {"other", "front", "age"}, until: (0..Records), limit: (0..Limit + 1)])) /\ (Len(journal) <= Entries))
    /\ journal_hw \in (0..Entries)
    /\ heeded \in (0..Entries)
    /\ limit \in (0..Limit + 1)
    /\ looked \in (0..Records)
    /\ counted \in (0..Records)
    /\ deleted \in (0..Deletes)
    /\ altered \in (0..Alterations)

Init ==
    /\ epoch = 1
    /\ data = <<>>
    /\ hw = 0
    /\ journal = <<>>
    /\ journal_hw = 0
    /\ heeded = 0
    /\ limit = Limit
    /\ looked = 0
    /\ counted = 0
    /\ deleted = 0
    /\ altered = 0

Publish(subject, large, old) ==
    /\ (Len(data) < Records)
    /\ (IF ~(old) THEN TRUE ELSE (Cardinality({i \in (0)..(Len(data) - 1) : data[i + 1].old}) < Olds))
    /\ (IF ~(large) THEN TRUE ELSE (Cardinality({i \in (0)..(Len(data) - 1) : data[i + 1].large}) < Larges))
    /\ data' = Append(data, [subject |-> subject, large |-> large, old |-> old])
    /\ UNCHANGED <<epoch, hw, journal, journal_hw, heeded, limit, looked, counted, deleted, altered>>

Commit ==
    /\ (hw < Len(data))
    /\ hw' = (hw + 1)
    /\ UNCHANGED <<epoch, data, journal, journal_hw, heeded, limit, looked, counted, deleted, altered>>

CommitEntry ==
    /\ (journal_hw < Len(journal))
    /\ journal_hw' = (journal_hw + 1)
    /\ UNCHANGED <<epoch, data, hw, journal, heeded, limit, looked, counted, deleted, altered>>

Heed ==
    /\ (heeded < journal_hw)
    /\ heeded' = (heeded + 1)
    /\ UNCHANGED <<epoch, data, hw, journal, journal_hw, limit, looked, counted, deleted, altered>>

\* Somebody wants a committed message to be gone. It may be on its way to be gone.
Delete(place) ==
    /\ (deleted < Deletes)
    /\ (place < hw)
    /\ ~((place \in {place2 \in (0..Records - 1) : (\E i \in (0)..(Len(journal) - 1) : ((i < heeded) /\ (place2 \in journal[i + 1].places)))}))
    /\ (Len(journal) < Entries)
    /\ (0 < Cardinality({q \in (0..Records - 1) : (q = place)}))
    /\ deleted' = (deleted + 1)
    /\ journal' = Append(journal, [places |-> {q \in (0..Records - 1) : (q = place)}, why |-> "other", until |-> 0, limit |-> limit])
    /\ UNCHANGED <<epoch, data, hw, journal_hw, heeded, limit, looked, counted, altered>>

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
    /\ UNCHANGED <<hw, journal_hw, limit, deleted, altered>>

\* The leader hears that the limit is another one.
Alter(limit2) ==
    /\ (altered < Alterations)
    /\ (limit2 # limit)
    /\ altered' = (altered + 1)
    /\ limit' = limit2
    /\ counted' = 0
    /\ UNCHANGED <<epoch, data, hw, journal, journal_hw, heeded, looked, deleted>>

\* The limit by subject takes what lies below `end`, of what it found below `until`.
PushOut(end, until) ==
    /\ (end <= until)
    /\ (until <= hw)
    /\ (heeded = Len(journal))
    /\ (Len(journal) < Entries)
    /\ (0 < Cardinality(({i \in (0..Records - 1) : (((i < until) /\ ((i < hw) /\ ~((i \in {place \in (0..Records - 1) : (\E i2 \in (0)..(Len(journal) - 1) : ((i2 < Len(journal)) /\ (place \in journal[i2 + 1].places)))})))) /\ (OfSubject <= Cardinality({i2 \in (0)..(Len(data) - 1) : ((i < i2) /\ ((i2 < until) /\ ((data[i2 + 1].subject = data[i + 1].subject) /\ ~((i2 \in {place \in (0..Records - 1) : (\E i3 \in (0)..(Len(journal) - 1) : ((i3 < Len(journal)) /\ (place \in journal[i3 + 1].places)))})))))})))} \cap {q \in (0..Records - 1) : (q < end)})))
    /\ journal' = Append(journal, [places |-> ({i \in (0..Records - 1) : (((i < until) /\ ((i < hw) /\ ~((i \in {place \in (0..Records - 1) : (\E i2 \in (0)..(Len(journal) - 1) : ((i2 < Len(journal)) /\ (place \in journal[i2 + 1].places)))})))) /\ (OfSubject <= Cardinality({i2 \in (0)..(Len(data) - 1) : ((i < i2) /\ ((i2 < until) /\ ((data[i2 + 1].subject = data[i + 1].subject) /\ ~((i2 \in {place \in (0..Records - 1) : (\E i3 \in (0)..(Len(journal) - 1) : ((i3 < Len(journal)) /\ (place \in journal[i3 + 1].places)))})))))})))} \cap {q \in (0..Records - 1) : (q < end)}), why |-> "other", until |-> 0, limit |-> limit])
    /\ UNCHANGED <<epoch, data, hw, journal_hw, heeded, limit, looked, counted, deleted, altered>>

\* It has written all that it had to, of what lies below here.
Look(until) ==
    /\ (looked < until)
    /\ (until <= hw)
    /\ (Cardinality({i \in (0..Records - 1) : (((i < until) /\ ((i < hw) /\ ~((i \in {place \in (0..Records - 1) : (\E i2 \in (0)..(Len(journal) - 1) : ((i2 < Len(journal)) /\ (place \in journal[i2 + 1].places)))})))) /\ (OfSubject <= Cardinality({i2 \in (0)..(Len(data) - 1) : ((i < i2) /\ ((i2 < until) /\ ((data[i2 + 1].subject = data[i + 1].subject) /\ ~((i2 \in {place \in (0..Records - 1) : (\E i3 \in (0)..(Len(journal) - 1) : ((i3 < Len(journal)) /\ (place \in journal[i3 + 1].places)))})))))})))}) = 0)
    /\ looked' = until
    /\ UNCHANGED <<epoch, data, hw, journal, journal_hw, heeded, limit, counted, deleted, altered>>

\* There is too much: what there is below `end` goes. It was counted what lies below `asked`, maybe some time
\* ago.
Leave(end, asked) ==
    /\ (0 < limit)
    /\ (heeded = Len(journal))
    /\ (asked <= looked)
    /\ (end <= asked)
    /\ (end <= hw)
    /\ (\A q \in (0..Records - 1) : (IF ~((q \in {q2 \in (0..Records - 1) : ((q2 < end) /\ ~((q2 \in {place \in (0..Records - 1) : (\E i \in (0)..(Len(journal) - 1) : ((i < heeded) /\ (place \in journal[i + 1].places)))})))})) THEN TRUE ELSE (limit < (Cardinality({i \in (0)..(Len(data) - 1) : ((i < asked) /\ ((q <= i) /\ ~((i \in {place \in (0..Records - 1) : (\E i2 \in (0)..(Len(journal) - 1) : ((i2 < heeded) /\ (place \in journal[i2 + 1].places)))}))))}) + Cardinality({i \in (0)..(Len(data) - 1) : (((i < asked) /\ ((q <= i) /\ ~((i \in {place \in (0..Records - 1) : (\E i2 \in (0)..(Len(journal) - 1) : ((i2 < heeded) /\ (place \in journal[i2 + 1].places)))})))) /\ data[i + 1].large)})))))
    /\ (Len(journal) < Entries)
    /\ (0 < Cardinality({q \in (0..Records - 1) : ((q < end) /\ ~((q \in {place \in (0..Records - 1) : (\E i \in (0)..(Len(journal) - 1) : ((i < heeded) /\ (place \in journal[i + 1].places)))})))}))
    /\ journal' = Append(journal, [places |-> {q \in (0..Records - 1) : ((q < end) /\ ~((q \in {place \in (0..Records - 1) : (\E i \in (0)..(Len(journal) - 1) : ((i < heeded) /\ (place \in journal[i + 1].places)))})))}, why |-> "front", until |-> asked, limit |-> limit])
    /\ UNCHANGED <<epoch, data, hw, journal_hw, heeded, limit, looked, counted, deleted, altered>>

\* All that there is below `end` is too old.
Expire(end) ==
    /\ (end <= hw)
    /\ (heeded = Len(journal))
    /\ (\A q \in (0..Records - 1) : (IF ~((q \in {q2 \in (0..Records - 1) : ((q2 < end) /\ ~((q2 \in {place \in (0..Records - 1) : (\E i \in (0)..(Len(journal) - 1) : ((i < heeded) /\ (place \in journal[i + 1].places)))})))})) THEN TRUE ELSE data[q + 1].old))
    /\ (Len(journal) < Entries)
    /\ (0 < Cardinality({q \in (0..Records - 1) : ((q < end) /\ ~((q \in {place \in (0..Records - 1) : (\E i \in (0)..(Len(journal) - 1) : ((i < heeded) /\ (place \in journal[i + 1].places)))})))}))
    /\ journal' = Append(journal, [places |-> {q \in (0..Records - 1) : ((q < end) /\ ~((q \in {place \in (0..Records - 1) : (\E i \in (0)..(Len(journal) - 1) : ((i < heeded) /\ (place \in journal[i + 1].places)))})))}, why |-> "age", until |-> 0, limit |-> limit])
    /\ UNCHANGED <<epoch, data, hw, journal_hw, heeded, limit, looked, counted, deleted, altered>>

\* There is not too much below here.
Counted(until) ==
    /\ (counted < until)
    /\ (until <= looked)
    /\ (heeded = Len(journal))
    /\ ((Cardinality({i \in (0)..(Len(data) - 1) : ((i < until) /\ ~((i \in {place \in (0..Records - 1) : (\E i2 \in (0)..(Len(journal) - 1) : ((i2 < heeded) /\ (place \in journal[i2 + 1].places)))})))}) + Cardinality({i \in (0)..(Len(data) - 1) : (((i < until) /\ ~((i \in {place \in (0..Records - 1) : (\E i2 \in (0)..(Len(journal) - 1) : ((i2 < heeded) /\ (place \in journal[i2 + 1].places)))}))) /\ data[i + 1].large)})) <= limit)
    /\ counted' = until
    /\ UNCHANGED <<epoch, data, hw, journal, journal_hw, heeded, limit, looked, deleted, altered>>

Next ==
    \/ \E subject \in Subject, large \in BOOLEAN, old \in BOOLEAN : Publish(subject, large, old)
    \/ Commit
    \/ CommitEntry
    \/ Heed
    \/ \E place \in (0..Records - 1) : Delete(place)
    \/ \E end \in (0..Records), entries \in (0..Entries), heeds \in (0..Entries) : Elect(end, entries, heeds)
    \/ \E limit2 \in (0..Limit + 1) : Alter(limit2)
    \/ \E end \in (0..Records), until \in (0..Records) : PushOut(end, until)
    \/ \E until \in (0..Records) : Look(until)
    \/ \E end \in (0..Records), asked \in (0..Records) : Leave(end, asked)
    \/ \E end \in (0..Records) : Expire(end)
    \/ \E until \in (0..Records) : Counted(until)

Spec == Init /\ [][Next]_vars

\* What a committed entry takes from the front is too much together with the newer ones that are committed,
\* and that nothing else takes.
OldestGo ==
    (\A i \in (0)..(Len(journal) - 1) : (IF (journal_hw <= i) THEN TRUE ELSE (IF (journal[i + 1].why # "front") THEN TRUE ELSE (\A place \in (0..Records - 1) : (IF ~((place \in journal[i + 1].places)) THEN TRUE ELSE (journal[i + 1].limit < (Cardinality({j \in (0)..(Len(data) - 1) : (((place <= j) /\ ((j < journal[i + 1].until) /\ ((j < hw) /\ ~((j \in {place2 \in (0..Records - 1) : (\E i2 \in (0)..(Len(journal) - 1) : ((i2 < i) /\ (place2 \in journal[i2 + 1].places)))}))))) /\ (Cardinality({i2 \in (0)..(Len(data) - 1) : ((j < i2) /\ ((i2 < journal[i + 1].until) /\ ((data[i2 + 1].subject = data[j + 1].subject) /\ ~((i2 \in {place2 \in (0..Records - 1) : (\E i3 \in (0)..(Len(journal) - 1) : ((i3 < i) /\ (place2 \in journal[i3 + 1].places)))})))))}) < OfSubject))}) + Cardinality({i2 \in (0)..(Len(data) - 1) : ((((place <= i2) /\ ((i2 < journal[i + 1].until) /\ ((i2 < hw) /\ ~((i2 \in {place2 \in (0..Records - 1) : (\E i3 \in (0)..(Len(journal) - 1) : ((i3 < i) /\ (place2 \in journal[i3 + 1].places)))}))))) /\ (Cardinality({i3 \in (0)..(Len(data) - 1) : ((i2 < i3) /\ ((i3 < journal[i + 1].until) /\ ((data[i3 + 1].subject = data[i2 + 1].subject) /\ ~((i3 \in {place2 \in (0..Records - 1) : (\E i4 \in (0)..(Len(journal) - 1) : ((i4 < i) /\ (place2 \in journal[i4 + 1].places)))})))))}) < OfSubject)) /\ data[i2 + 1].large)}))))))))

\* What goes by its age is too old.
OnlyOldGo ==
    (\A i \in (0)..(Len(journal) - 1) : (IF (journal[i + 1].why # "age") THEN TRUE ELSE (\A place \in (0..Records - 1) : ((place \in journal[i + 1].places) => ((place < hw) /\ data[place + 1].old)))))

\* When all is counted, and what was written is committed, there is not too much.
LimitHolds ==
    (IF ~(((0 < limit) /\ ((hw <= counted) /\ (journal_hw = Len(journal))))) THEN TRUE ELSE ((Cardinality({i \in (0)..(Len(data) - 1) : ((i < hw) /\ ~((i \in {place \in (0..Records - 1) : (\E i2 \in (0)..(Len(journal) - 1) : ((i2 < journal_hw) /\ (place \in journal[i2 + 1].places)))})))}) + Cardinality({i \in (0)..(Len(data) - 1) : (((i < hw) /\ ~((i \in {place \in (0..Records - 1) : (\E i2 \in (0)..(Len(journal) - 1) : ((i2 < journal_hw) /\ (place \in journal[i2 + 1].places)))}))) /\ data[i + 1].large)})) <= limit))

==============================================================================
