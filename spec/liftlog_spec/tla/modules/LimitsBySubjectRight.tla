------------------------ MODULE LimitsBySubjectRight -------------------------

\* One partition with its two logs, and who leads it.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Subject, Records, Entries, Limit, Epochs, Deletes, Alterations

VARIABLES
    epoch, data, hw, journal, journal_hw, heeded, limit, done, look, told, deleted, altered

vars == <<epoch, data, hw, journal, journal_hw, heeded, limit, done, look, told, deleted, altered>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ epoch \in (1..Epochs)
    /\ ((data \in Seq(Subject)) /\ (Len(data) <= Records))
    /\ hw \in (0..Records)
    /\ ((journal \in Seq([places: SUBSET (0..Records - 1), limit: (0..Limit + 1)])) /\ (Len(journal) <= Entries))
    /\ journal_hw \in (0..Entries)
    /\ heeded \in (0..Entries)
    /\ limit \in (0..Limit + 1)
    /\ done \in (0..Records)
    /\ look \in ([at: (0..Records), until: (0..Records)] \cup {None})
    /\ told \in ([heeded: (0..Entries), written: (0..Entries), limit: (0..Limit + 1)] \cup {None})
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
    /\ done = 0
    /\ look = None
    /\ told = None
    /\ deleted = 0
    /\ altered = 0

Publish(subject) ==
    /\ (Len(data) < Records)
    /\ data' = Append(data, subject)
    /\ UNCHANGED <<epoch, hw, journal, journal_hw, heeded, limit, done, look, told, deleted, altered>>

Commit ==
    /\ (hw < Len(data))
    /\ hw' = (hw + 1)
    /\ UNCHANGED <<epoch, data, journal, journal_hw, heeded, limit, done, look, told, deleted, altered>>

CommitEntry ==
    /\ (journal_hw < Len(journal))
    /\ journal_hw' = (journal_hw + 1)
    /\ UNCHANGED <<epoch, data, hw, journal, heeded, limit, done, look, told, deleted, altered>>

Heed ==
    /\ (heeded < journal_hw)
    /\ heeded' = (heeded + 1)
    /\ UNCHANGED <<epoch, data, hw, journal, journal_hw, limit, done, look, told, deleted, altered>>

\* Somebody wants a committed message to be gone. It may be on its way to be gone.
Delete(place) ==
    /\ (place < hw)
    /\ ~((place \in {place2 \in (0..Records - 1) : (\E i \in (0)..(Len(journal) - 1) : ((i < heeded) /\ (place2 \in journal[i + 1].places)))}))
    /\ (deleted < Deletes)
    /\ (Len(journal) < Entries)
    /\ (0 < Cardinality({q \in (0..Records - 1) : (q = place)}))
    /\ deleted' = (deleted + 1)
    /\ journal' = Append(journal, [places |-> {q \in (0..Records - 1) : (q = place)}, limit |-> 0])
    /\ UNCHANGED <<epoch, data, hw, journal_hw, heeded, limit, done, look, told, altered>>

\* Somebody wants it of all here, as was found out when the leader heeded `known`.
Purge(low, high, known) ==
    /\ (low < high)
    /\ (high <= hw)
    /\ (known <= heeded)
    /\ (deleted < Deletes)
    /\ (Len(journal) < Entries)
    /\ (0 < Cardinality({q \in (0..Records - 1) : (((low <= q) /\ (q < high)) /\ ~((q \in {place \in (0..Records - 1) : (\E i \in (0)..(Len(journal) - 1) : ((i < known) /\ (place \in journal[i + 1].places)))})))}))
    /\ deleted' = (deleted + 1)
    /\ journal' = Append(journal, [places |-> {q \in (0..Records - 1) : (((low <= q) /\ (q < high)) /\ ~((q \in {place \in (0..Records - 1) : (\E i \in (0)..(Len(journal) - 1) : ((i < known) /\ (place \in journal[i + 1].places)))})))}, limit |-> 0])
    /\ UNCHANGED <<epoch, data, hw, journal_hw, heeded, limit, done, look, told, altered>>

\* The same, of one subject.
PurgeSubject(subject, low, high, known) ==
    /\ (low < high)
    /\ (high <= hw)
    /\ (known <= heeded)
    /\ (deleted < Deletes)
    /\ (Len(journal) < Entries)
    /\ (0 < Cardinality({q \in (0..Records - 1) : (((low <= q) /\ (q < high)) /\ ((data[q + 1] = subject) /\ ~((q \in {place \in (0..Records - 1) : (\E i \in (0)..(Len(journal) - 1) : ((i < known) /\ (place \in journal[i + 1].places)))}))))}))
    /\ deleted' = (deleted + 1)
    /\ journal' = Append(journal, [places |-> {q \in (0..Records - 1) : (((low <= q) /\ (q < high)) /\ ((data[q + 1] = subject) /\ ~((q \in {place \in (0..Records - 1) : (\E i \in (0)..(Len(journal) - 1) : ((i < known) /\ (place \in journal[i + 1].places)))}))))}, limit |-> 0])
    /\ UNCHANGED <<epoch, data, hw, journal_hw, heeded, limit, done, look, told, altered>>

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
    /\ UNCHANGED <<hw, journal_hw, limit, deleted, altered>>

\* The leader hears that the limit is another one.
Alter(limit2) ==
    /\ (altered < Alterations)
    /\ (limit2 # limit)
    /\ altered' = (altered + 1)
    /\ limit' = limit2
    /\ done' = 0
    /\ look' = None
    /\ told' = None
    /\ UNCHANGED <<epoch, data, hw, journal, journal_hw, heeded, deleted>>

\* More is committed than what was looked at, as the leader knows.
Begin(until) ==
    /\ (0 < limit)
    /\ (look = None)
    /\ (done < until)
    /\ (until <= hw)
    /\ look' = [at |-> 0, until |-> until]
    /\ UNCHANGED <<epoch, data, hw, journal, journal_hw, heeded, limit, done, told, deleted, altered>>

\* About the next part.
Ask ==
    /\ (look # None)
    /\ (told = None)
    /\ (look.at < look.until)
    /\ (heeded = Len(journal))
    /\ told' = [heeded |-> heeded, written |-> Len(journal), limit |-> limit]
    /\ UNCHANGED <<epoch, data, hw, journal, journal_hw, heeded, limit, done, look, deleted, altered>>

\* What was told of the part up to `end`.
Write(end) ==
    /\ (told # None)
    /\ (look # None)
    /\ (look.at < end)
    /\ (end <= look.until)
    /\ (told.written = Len(journal))
    /\ (0 < Cardinality({place \in (0..Records - 1) : ((look.at <= place) /\ ((place < end) /\ (((place < Len(data)) /\ ~((place \in {place2 \in (0..Records - 1) : (\E i \in (0)..(Len(journal) - 1) : ((i < told.heeded) /\ (place2 \in journal[i + 1].places)))}))) /\ (told.limit < Cardinality({i \in (0)..(Len(data) - 1) : (((i < look.until) /\ ((i < look.at) \/ (place <= i))) /\ ((data[i + 1] = data[place + 1]) /\ ~((i \in {place2 \in (0..Records - 1) : (\E i2 \in (0)..(Len(journal) - 1) : ((i2 < told.heeded) /\ (place2 \in journal[i2 + 1].places)))}))))})))))}))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [places |-> {place \in (0..Records - 1) : ((look.at <= place) /\ ((place < end) /\ (((place < Len(data)) /\ ~((place \in {place2 \in (0..Records - 1) : (\E i \in (0)..(Len(journal) - 1) : ((i < told.heeded) /\ (place2 \in journal[i + 1].places)))}))) /\ (told.limit < Cardinality({i \in (0)..(Len(data) - 1) : (((i < look.until) /\ ((i < look.at) \/ (place <= i))) /\ ((data[i + 1] = data[place + 1]) /\ ~((i \in {place2 \in (0..Records - 1) : (\E i2 \in (0)..(Len(journal) - 1) : ((i2 < told.heeded) /\ (place2 \in journal[i2 + 1].places)))}))))})))))}, limit |-> limit])
    /\ look' = [at |-> end, until |-> look.until]
    /\ told' = None
    /\ UNCHANGED <<epoch, data, hw, journal_hw, heeded, limit, done, deleted, altered>>

\* Nothing goes there.
PassOver(end) ==
    /\ (told # None)
    /\ (look # None)
    /\ (look.at < end)
    /\ (end <= look.until)
    /\ (told.written = Len(journal))
    /\ (Cardinality({place \in (0..Records - 1) : ((look.at <= place) /\ ((place < end) /\ (((place < Len(data)) /\ ~((place \in {place2 \in (0..Records - 1) : (\E i \in (0)..(Len(journal) - 1) : ((i < told.heeded) /\ (place2 \in journal[i + 1].places)))}))) /\ (told.limit < Cardinality({i \in (0)..(Len(data) - 1) : (((i < look.until) /\ ((i < look.at) \/ (place <= i))) /\ ((data[i + 1] = data[place + 1]) /\ ~((i \in {place2 \in (0..Records - 1) : (\E i2 \in (0)..(Len(journal) - 1) : ((i2 < told.heeded) /\ (place2 \in journal[i2 + 1].places)))}))))})))))}) = 0)
    /\ look' = [at |-> end, until |-> look.until]
    /\ told' = None
    /\ UNCHANGED <<epoch, data, hw, journal, journal_hw, heeded, limit, done, deleted, altered>>

\* The index was behind, or another entry was written meanwhile.
AskAgain ==
    /\ (told # None)
    /\ told' = None
    /\ UNCHANGED <<epoch, data, hw, journal, journal_hw, heeded, limit, done, look, deleted, altered>>

\* There is no index. A look begins anew, after a while.
LeaveAlone ==
    /\ (look # None)
    /\ look' = None
    /\ told' = None
    /\ UNCHANGED <<epoch, data, hw, journal, journal_hw, heeded, limit, done, deleted, altered>>

\* The look has come to its end. What it wrote is on its way to be committed.
End ==
    /\ (look # None)
    /\ (look.until <= look.at)
    /\ (told = None)
    /\ done' = look.until
    /\ look' = None
    /\ UNCHANGED <<epoch, data, hw, journal, journal_hw, heeded, limit, told, deleted, altered>>

Next ==
    \/ \E subject \in Subject : Publish(subject)
    \/ Commit
    \/ CommitEntry
    \/ Heed
    \/ \E place \in (0..Records - 1) : Delete(place)
    \/ \E low \in (0..Records), high \in (0..Records), known \in (0..Entries) : Purge(low, high, known)
    \/ \E subject \in Subject, low \in (0..Records), high \in (0..Records), known \in (0..Entries) : PurgeSubject(subject, low, high, known)
    \/ \E end \in (0..Records), entries \in (0..Entries), heeds \in (0..Entries) : Elect(end, entries, heeds)
    \/ \E limit2 \in (0..Limit + 1) : Alter(limit2)
    \/ \E until \in (0..Records) : Begin(until)
    \/ Ask
    \/ \E end \in (0..Records) : Write(end)
    \/ \E end \in (0..Records) : PassOver(end)
    \/ AskAgain
    \/ LeaveAlone
    \/ End

Spec == Init /\ [][Next]_vars

\* What a committed entry pushes out has as many newer ones of its subject as are to stay.
KeepsNewest ==
    (\A i \in (0)..(Len(journal) - 1) : (IF (journal_hw <= i) THEN TRUE ELSE (\A place \in (0..Records - 1) : (IF ~(((place < Len(data)) /\ (place \in journal[i + 1].places))) THEN TRUE ELSE (journal[i + 1].limit <= Cardinality({i2 \in (0)..(Len(data) - 1) : ((place < i2) /\ ((i2 < hw) /\ ((data[i2 + 1] = data[place + 1]) /\ ~((i2 \in {place2 \in (0..Records - 1) : (\E i3 \in (0)..(Len(journal) - 1) : ((i3 < (i + 1)) /\ (place2 \in journal[i3 + 1].places)))})))))}))))))

\* When all is looked at, and what was written is committed, no subject has too many.
LimitHolds ==
    (IF ~(((look = None) /\ ((hw <= done) /\ (journal_hw = Len(journal))))) THEN TRUE ELSE (\A subject \in Subject : (IF (limit = 0) THEN TRUE ELSE (Cardinality({i \in (0)..(Len(data) - 1) : ((i < hw) /\ ((data[i + 1] = subject) /\ ~((i \in {place \in (0..Records - 1) : (\E i2 \in (0)..(Len(journal) - 1) : ((i2 < journal_hw) /\ (place \in journal[i2 + 1].places)))}))))}) <= limit))))

==============================================================================
