------------------------- MODULE DeleteMarkersRight --------------------------

\* One subject of a partition with its two logs, and who leads it.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Records, Entries, Times, Epochs

VARIABLES
    clock, epoch, data, hw, journal, journal_hw

vars == <<clock, epoch, data, hw, journal, journal_hw>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ clock \in (0..Times)
    /\ epoch \in (1..Epochs)
    /\ ((data \in Seq([due: (0..Times), marks: BOOLEAN, of: (0..Records - 1)])) /\ (Len(data) <= Records))
    /\ hw \in (0..Records)
    /\ ((journal \in Seq((0..Records - 1))) /\ (Len(journal) <= Entries))
    /\ journal_hw \in (0..Entries)

Init ==
    /\ clock = 0
    /\ epoch = 1
    /\ data = <<>>
    /\ hw = 0
    /\ journal = <<>>
    /\ journal_hw = 0

TimePasses ==
    /\ (clock < Times)
    /\ clock' = (clock + 1)
    /\ UNCHANGED <<epoch, data, hw, journal, journal_hw>>

Publish(due) ==
    /\ (Len(data) < Records)
    /\ ((due = 0) \/ (clock < due))
    /\ data' = Append(data, [due |-> due, marks |-> FALSE, of |-> 0])
    /\ UNCHANGED <<clock, epoch, hw, journal, journal_hw>>

Commit ==
    /\ (hw < Len(data))
    /\ hw' = (hw + 1)
    /\ UNCHANGED <<clock, epoch, data, journal, journal_hw>>

CommitEntry ==
    /\ (journal_hw < Len(journal))
    /\ journal_hw' = (journal_hw + 1)
    /\ UNCHANGED <<clock, epoch, data, hw, journal>>

\* Another one leads, which has this much of the logs.
Elect(end, entries) ==
    /\ (epoch < Epochs)
    /\ (hw <= end)
    /\ (end <= Len(data))
    /\ (journal_hw <= entries)
    /\ (entries <= Len(journal))
    /\ epoch' = (epoch + 1)
    /\ data' = SubSeq(data, 1, MinOf({end, Len(data)}))
    /\ journal' = SubSeq(journal, 1, MinOf({entries, Len(journal)}))
    /\ UNCHANGED <<clock, hw, journal_hw>>

\* A message that is over, where the index, which has what lies below `end`, knows another one.
Name(place, end) ==
    /\ (place < end)
    /\ (end <= hw)
    /\ (Len(journal) < Entries)
    /\ (0 < data[place + 1].due)
    /\ (data[place + 1].due <= clock)
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = place))))
    /\ (journal_hw = Len(journal))
    /\ (IF data[place + 1].marks THEN TRUE ELSE (\E i \in (0)..(Len(data) - 1) : ((i # place) /\ ((i < end) /\ ~((\E i2 \in (0)..(Len(journal) - 1) : ((i2 < journal_hw) /\ (journal[i2 + 1] = i))))))))
    /\ journal' = Append(journal, place)
    /\ UNCHANGED <<clock, epoch, data, hw, journal_hw>>

\* What lies before a committed marker goes, over or not.
RollUp(place) ==
    /\ (place < hw)
    /\ (\E i \in (0)..(Len(data) - 1) : ((place < i) /\ ((i < hw) /\ data[i + 1].marks)))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = place))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, place)
    /\ UNCHANGED <<clock, epoch, data, hw, journal_hw>>

\* One is over, and the index knows no other one that is to stay; it is the last one of the log.
Mark(place, end, due) ==
    /\ (place < end)
    /\ (end <= hw)
    /\ (0 < data[place + 1].due)
    /\ (data[place + 1].due <= clock)
    /\ (Len(data) < Records)
    /\ ((due = 0) \/ (clock < due))
    /\ (journal_hw = Len(journal))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < journal_hw) /\ (journal[i + 1] = place))))
    /\ ~(data[place + 1].marks)
    /\ ~((\E i \in (0)..(Len(data) - 1) : ((i # place) /\ ((i < end) /\ (~((\E i2 \in (0)..(Len(journal) - 1) : ((i2 < journal_hw) /\ (journal[i2 + 1] = i)))) /\ ~(((0 < data[i + 1].due) /\ (data[i + 1].due <= clock))))))))
    /\ ~((\E i \in (0)..(Len(data) - 1) : ((place < i) /\ ((i < Records) /\ ~((\E i2 \in (0)..(Len(journal) - 1) : ((i2 < journal_hw) /\ (journal[i2 + 1] = i))))))))
    /\ data' = Append(data, [due |-> due, marks |-> TRUE, of |-> place])
    /\ UNCHANGED <<clock, epoch, hw, journal, journal_hw>>

Next ==
    \/ TimePasses
    \/ \E due \in (0..Times) : Publish(due)
    \/ Commit
    \/ CommitEntry
    \/ \E end \in (0..Records), entries \in (0..Entries) : Elect(end, entries)
    \/ \E place \in (0..Records - 1), end \in (0..Records) : Name(place, end)
    \/ \E place \in (0..Records - 1) : RollUp(place)
    \/ \E place \in (0..Records - 1), end \in (0..Records), due \in (0..Times) : Mark(place, end, due)

Spec == Init /\ [][Next]_vars

\* When a message is named, and is no marker, one of its subject is left that is committed, or has rolled it
\* up.
MarkerLeft ==
    (\A i \in (0)..(Len(journal) - 1) : (IF (journal_hw <= i) THEN TRUE ELSE (IF data[journal[i + 1] + 1].marks THEN TRUE ELSE (IF (\E j \in (0)..(Len(data) - 1) : ((j < hw) /\ ~((\E i2 \in (0)..(Len(journal) - 1) : ((i2 < (i + 1)) /\ (journal[i2 + 1] = j)))))) THEN TRUE ELSE (\E i2 \in (0)..(Len(data) - 1) : ((journal[i + 1] < i2) /\ ((i2 < hw) /\ data[i2 + 1].marks)))))))

\* A marker is of a message, and all that lies before it is gone, or is over.
MarkerDue ==
    (\A j \in (0)..(Len(data) - 1) : (IF ~(data[j + 1].marks) THEN TRUE ELSE (~(data[data[j + 1].of + 1].marks) /\ (\A i \in (0)..(Len(data) - 1) : (IF (j <= i) THEN TRUE ELSE (IF (\E i2 \in (0)..(Len(journal) - 1) : ((i2 < journal_hw) /\ (journal[i2 + 1] = i))) THEN TRUE ELSE ((0 < data[i + 1].due) /\ (data[i + 1].due <= clock))))))))

\* What is gone was over.
NotBeforeItsTime ==
    (\A i \in (0)..(Len(journal) - 1) : (IF (journal_hw <= i) THEN TRUE ELSE ((0 < data[journal[i + 1] + 1].due) /\ (data[journal[i + 1] + 1].due <= clock))))

==============================================================================
