------------------------- MODULE RollUpMessagesRight -------------------------

\* One partition with its two logs, and who leads it.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Subject, Records, Entries, Epochs, Losses

VARIABLES
    epoch, data, hw, journal, journal_hw, at, lost

vars == <<epoch, data, hw, journal, journal_hw, at, lost>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ epoch \in (1..Epochs)
    /\ ((data \in Seq([subject: Subject, rolls: BOOLEAN, epoch: (1..Epochs)])) /\ (Len(data) <= Records))
    /\ hw \in (0..Records)
    /\ ((journal \in Seq([names: BOOLEAN, place: (0..Records - 1), epoch: (1..Epochs), through: (0..Records), of: (1..Epochs)])) /\ (Len(journal) <= Entries))
    /\ journal_hw \in (0..Entries)
    /\ at \in (0..Records)
    /\ lost \in (0..Losses)

Init ==
    /\ epoch = 1
    /\ data = <<>>
    /\ hw = 0
    /\ journal = <<>>
    /\ journal_hw = 0
    /\ at = 0
    /\ lost = 0

Publish(subject, rolls) ==
    /\ (Len(data) < Records)
    /\ data' = Append(data, [subject |-> subject, rolls |-> rolls, epoch |-> epoch])
    /\ UNCHANGED <<epoch, hw, journal, journal_hw, at, lost>>

Commit ==
    /\ (hw < Len(data))
    /\ hw' = (hw + 1)
    /\ UNCHANGED <<epoch, data, journal, journal_hw, at, lost>>

CommitEntry ==
    /\ (journal_hw < Len(journal))
    /\ journal_hw' = (journal_hw + 1)
    /\ UNCHANGED <<epoch, data, hw, journal, at, lost>>

\* Another one leads, which has this much of the logs.
Elect(end, entries) ==
    /\ (epoch < Epochs)
    /\ (hw <= end)
    /\ (end <= Len(data))
    /\ (journal_hw <= entries)
    /\ (entries <= Len(journal))
    /\ at' = (IF ((0 < Len(SubSeq(journal, 1, MinOf({entries, Len(journal)})))) /\ (((0 < SubSeq(journal, 1, MinOf({entries, Len(journal)}))[(Len(SubSeq(journal, 1, MinOf({entries, Len(journal)}))) - 1) + 1].through) /\ (SubSeq(journal, 1, MinOf({entries, Len(journal)}))[(Len(SubSeq(journal, 1, MinOf({entries, Len(journal)}))) - 1) + 1].through <= Len(SubSeq(data, 1, MinOf({end, Len(data)}))))) /\ (SubSeq(data, 1, MinOf({end, Len(data)}))[(SubSeq(journal, 1, MinOf({entries, Len(journal)}))[(Len(SubSeq(journal, 1, MinOf({entries, Len(journal)}))) - 1) + 1].through - 1) + 1].epoch = SubSeq(journal, 1, MinOf({entries, Len(journal)}))[(Len(SubSeq(journal, 1, MinOf({entries, Len(journal)}))) - 1) + 1].of))) THEN SubSeq(journal, 1, MinOf({entries, Len(journal)}))[(Len(SubSeq(journal, 1, MinOf({entries, Len(journal)}))) - 1) + 1].through ELSE 0)
    /\ epoch' = (epoch + 1)
    /\ data' = SubSeq(data, 1, MinOf({end, Len(data)}))
    /\ journal' = SubSeq(journal, 1, MinOf({entries, Len(journal)}))
    /\ UNCHANGED <<hw, journal_hw, lost>>

\* An operator has one elected that lacks what was committed of the data.
Lose(end) ==
    /\ (epoch < Epochs)
    /\ (lost < Losses)
    /\ (end < hw)
    /\ (journal_hw = Len(journal))
    /\ at' = (IF ((0 < Len(journal)) /\ (((0 < journal[(Len(journal) - 1) + 1].through) /\ (journal[(Len(journal) - 1) + 1].through <= Len(SubSeq(data, 1, MinOf({end, Len(data)}))))) /\ (SubSeq(data, 1, MinOf({end, Len(data)}))[(journal[(Len(journal) - 1) + 1].through - 1) + 1].epoch = journal[(Len(journal) - 1) + 1].of))) THEN journal[(Len(journal) - 1) + 1].through ELSE 0)
    /\ epoch' = (epoch + 1)
    /\ lost' = (lost + 1)
    /\ data' = SubSeq(data, 1, MinOf({end, Len(data)}))
    /\ hw' = end
    /\ UNCHANGED <<journal, journal_hw>>

\* The next record is a roll-up: one of those that go by it.
Name(place) ==
    /\ (at < hw)
    /\ (place < hw)
    /\ (Len(journal) < Entries)
    /\ data[at + 1].rolls
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1].names /\ ((journal[i + 1].place = place) /\ (journal[i + 1].epoch = data[place + 1].epoch))))))
    /\ (place < at)
    /\ data[at + 1].rolls
    /\ (data[at + 1].subject = data[place + 1].subject)
    /\ journal' = Append(journal, [names |-> TRUE, place |-> place, epoch |-> data[place + 1].epoch, through |-> (IF (0 < Len(journal)) THEN journal[(Len(journal) - 1) + 1].through ELSE 0), of |-> (IF (0 < Len(journal)) THEN journal[(Len(journal) - 1) + 1].of ELSE 1)])
    /\ UNCHANGED <<epoch, data, hw, journal_hw, at, lost>>

\* It is none, or all is written that goes by it.
Pass ==
    /\ (at < hw)
    /\ (IF ~(data[at + 1].rolls) THEN TRUE ELSE ~((\E i \in (0)..(Len(data) - 1) : (((i < at) /\ (data[at + 1].rolls /\ (data[at + 1].subject = data[i + 1].subject))) /\ ~((\E i2 \in (0)..(Len(journal) - 1) : ((i2 < Len(journal)) /\ (journal[i2 + 1].names /\ ((journal[i2 + 1].place = i) /\ (journal[i2 + 1].epoch = data[i + 1].epoch))))))))))
    /\ at' = (at + 1)
    /\ UNCHANGED <<epoch, data, hw, journal, journal_hw, lost>>

\* How far this leader has come, in an entry.
Say ==
    /\ (0 < at)
    /\ (at <= hw)
    /\ ((IF (0 < Len(journal)) THEN journal[(Len(journal) - 1) + 1].through ELSE 0) # at)
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [names |-> FALSE, place |-> 0, epoch |-> 1, through |-> at, of |-> data[(at - 1) + 1].epoch])
    /\ UNCHANGED <<epoch, data, hw, journal_hw, at, lost>>

Next ==
    \/ \E subject \in Subject, rolls \in BOOLEAN : Publish(subject, rolls)
    \/ Commit
    \/ CommitEntry
    \/ \E end \in (0..Records), entries \in (0..Entries) : Elect(end, entries)
    \/ \E end \in (0..Records) : Lose(end)
    \/ \E place \in (0..Records - 1) : Name(place)
    \/ Pass
    \/ Say

Spec == Init /\ [][Next]_vars

\* What a committed entry names lies before a committed roll-up of its subject, if none is lost.
OnlyOlder ==
    (IF (0 < lost) THEN TRUE ELSE (\A i \in (0)..(Len(journal) - 1) : (IF (IF (journal_hw <= i) THEN TRUE ELSE ~(journal[i + 1].names)) THEN TRUE ELSE ((journal[i + 1].place < hw) /\ (\E j \in (0)..(Len(data) - 1) : ((j < hw) /\ ((journal[i + 1].place < j) /\ (data[j + 1].rolls /\ (data[j + 1].subject = data[journal[i + 1].place + 1].subject)))))))))

\* When all is gone through, and what was written is committed, nothing is left before a roll-up.
AllActedOn ==
    (IF ~(((hw <= at) /\ (journal_hw = Len(journal)))) THEN TRUE ELSE ~((\E i \in (0)..(Len(data) - 1) : ((i < hw) /\ (\E i2 \in (0)..(Len(data) - 1) : (((i2 < i) /\ (data[i + 1].rolls /\ (data[i + 1].subject = data[i2 + 1].subject))) /\ ~((\E i3 \in (0)..(Len(journal) - 1) : ((i3 < journal_hw) /\ (journal[i3 + 1].names /\ ((journal[i3 + 1].place = i2) /\ (journal[i3 + 1].epoch = data[i2 + 1].epoch))))))))))))

==============================================================================
