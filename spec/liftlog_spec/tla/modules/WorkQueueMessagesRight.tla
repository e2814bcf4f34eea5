----------------------- MODULE WorkQueueMessagesRight ------------------------

\* One partition, its journal, and who leads it.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Records, Entries, Consumers, Epochs, Filters, Removals

VARIABLES
    epoch, journal, hw, owed, start

vars == <<epoch, journal, hw, owed, start>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ epoch \in (1..Epochs)
    /\ ((journal \in Seq([what: {"made", "deleted", "given", "acked", "given-up", "named", "altered", "removed"}, consumer: (0..Consumers - 1), place: (0..Records - 1), names: BOOLEAN, filter: (0..Filters)])) /\ (Len(journal) <= Entries))
    /\ hw \in (0..Entries)
    /\ owed \in SUBSET (0..Records - 1)
    /\ start \in (0..Records)

Init ==
    /\ epoch = 1
    /\ journal = <<>>
    /\ hw = 0
    /\ owed = {}
    /\ start = 0

Commit ==
    /\ (hw < Len(journal))
    /\ owed' = (IF (FALSE /\ (journal[hw + 1].what = "acked")) THEN (owed \cup {journal[hw + 1].place}) ELSE owed)
    /\ hw' = (hw + 1)
    /\ UNCHANGED <<epoch, journal, start>>

\* Another one leads, which has this much of the journal.
Elect(entries) ==
    /\ (epoch < Epochs)
    /\ (hw <= entries)
    /\ (entries <= Len(journal))
    /\ epoch' = (epoch + 1)
    /\ journal' = SubSeq(journal, 1, MinOf({entries, Len(journal)}))
    /\ owed' = (owed \ owed)
    /\ UNCHANGED <<hw, start>>

\* If nothing that is written says that another one may be given the same.
Make(c, filter) ==
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))
    /\ ~((\E other \in (0..Consumers - 1) : ((other # c) /\ (((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = other) /\ (journal[i + 1].place = 0))))) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = other) /\ (journal[i + 1].place = 0))))))) /\ (\E o \in (0..Records - 1) : (((filter = 0) \/ (~((\E half \in (0..Records - 1) : ((half + half) = o))) = (filter = 2))) /\ (\E i \in (0)..(Len(journal) - 1) : (((i < Len(journal)) /\ ((journal[i + 1].consumer = other) /\ (IF (journal[i + 1].what = "made") THEN TRUE ELSE (journal[i + 1].what = "altered")))) /\ ((IF (journal[i + 1].filter = 0) THEN TRUE ELSE (~((\E half \in (0..Records - 1) : ((half + half) = o))) = (journal[i + 1].filter = 2))) /\ ~((\E j \in (0)..(Len(journal) - 1) : ((i < j) /\ ((j < Len(journal)) /\ ((journal[j + 1].consumer = other) /\ (IF (journal[j + 1].what = "made") THEN TRUE ELSE (journal[j + 1].what = "altered"))))))))))))))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "made", consumer |-> c, place |-> 0, names |-> FALSE, filter |-> filter])
    /\ UNCHANGED <<epoch, hw, owed, start>>

\* What its filter matches: nothing is with it, and another one is not given the same.
Alter(c, filter) ==
    /\ (0 < Filters)
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0)))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))
    /\ ~((\E o \in (0..Records - 1) : ((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))) /\ ~((IF (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "acked") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "given-up") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))))))))
    /\ ~((\E other \in (0..Consumers - 1) : ((other # c) /\ (((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = other) /\ (journal[i + 1].place = 0))))) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = other) /\ (journal[i + 1].place = 0))))))) /\ (\E o \in (0..Records - 1) : (((filter = 0) \/ (~((\E half \in (0..Records - 1) : ((half + half) = o))) = (filter = 2))) /\ (\E i \in (0)..(Len(journal) - 1) : (((i < Len(journal)) /\ ((journal[i + 1].consumer = other) /\ (IF (journal[i + 1].what = "made") THEN TRUE ELSE (journal[i + 1].what = "altered")))) /\ ((IF (journal[i + 1].filter = 0) THEN TRUE ELSE (~((\E half \in (0..Records - 1) : ((half + half) = o))) = (journal[i + 1].filter = 2))) /\ ~((\E j \in (0)..(Len(journal) - 1) : ((i < j) /\ ((j < Len(journal)) /\ ((journal[j + 1].consumer = other) /\ (IF (journal[j + 1].what = "made") THEN TRUE ELSE (journal[j + 1].what = "altered"))))))))))))))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "altered", consumer |-> c, place |-> 0, names |-> FALSE, filter |-> filter])
    /\ UNCHANGED <<epoch, hw, owed, start>>

Delete(c) ==
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0)))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "deleted", consumer |-> c, place |-> 0, names |-> FALSE, filter |-> 0])
    /\ UNCHANGED <<epoch, hw, owed, start>>

\* What its filter matches, and is not gone, and was not with this consumer before.
Give(c, o) ==
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0)))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))
    /\ (\E i \in (0)..(Len(journal) - 1) : (((i < Len(journal)) /\ ((journal[i + 1].consumer = c) /\ (IF (journal[i + 1].what = "made") THEN TRUE ELSE (journal[i + 1].what = "altered")))) /\ ((IF (journal[i + 1].filter = 0) THEN TRUE ELSE (~((\E half \in (0..Records - 1) : ((half + half) = o))) = (journal[i + 1].filter = 2))) /\ ~((\E j \in (0)..(Len(journal) - 1) : ((i < j) /\ ((j < Len(journal)) /\ ((journal[j + 1].consumer = c) /\ (IF (journal[j + 1].what = "made") THEN TRUE ELSE (journal[j + 1].what = "altered"))))))))))
    /\ ~((IF (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ (journal[i + 1].names /\ (journal[i + 1].place = o)))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((journal[i + 1].what # "removed") /\ (journal[i + 1].names /\ (journal[i + 1].place = o))))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "given", consumer |-> c, place |-> o, names |-> FALSE, filter |-> 0])
    /\ UNCHANGED <<epoch, hw, owed, start>>

Ack(c, o) ==
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0)))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o)))))
    /\ ~((IF (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "acked") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "given-up") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o)))))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "acked", consumer |-> c, place |-> o, names |-> ~((FALSE \/ FALSE)), filter |-> 0])
    /\ UNCHANGED <<epoch, hw, owed, start>>

\* It was delivered often enough, or others have removed it.
GiveUp(c, o) ==
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0)))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o)))))
    /\ ~((IF (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "acked") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "given-up") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o)))))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "given-up", consumer |-> c, place |-> o, names |-> FALSE, filter |-> 0])
    /\ UNCHANGED <<epoch, hw, owed, start>>

Name(o) ==
    /\ FALSE
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "named", consumer |-> 0, place |-> o, names |-> TRUE, filter |-> 0])
    /\ UNCHANGED <<epoch, hw, owed, start>>

\* Somebody does, whoever has it.
Remove(o) ==
    /\ (0 < Removals)
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ (journal[i + 1].names /\ (journal[i + 1].place = o)))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "removed", consumer |-> 0, place |-> o, names |-> TRUE, filter |-> 0])
    /\ UNCHANGED <<epoch, hw, owed, start>>

\* The front of the log.
Free ==
    /\ (start < Records)
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ (journal[i + 1].names /\ (journal[i + 1].place = start))))
    /\ start' = (start + 1)
    /\ UNCHANGED <<epoch, journal, hw, owed>>

Next ==
    \/ Commit
    \/ \E entries \in (0..Entries) : Elect(entries)
    \/ \E c \in (0..Consumers - 1), filter \in (0..Filters) : Make(c, filter)
    \/ \E c \in (0..Consumers - 1), filter \in (0..Filters) : Alter(c, filter)
    \/ \E c \in (0..Consumers - 1) : Delete(c)
    \/ \E c \in (0..Consumers - 1), o \in (0..Records - 1) : Give(c, o)
    \/ \E c \in (0..Consumers - 1), o \in (0..Records - 1) : Ack(c, o)
    \/ \E c \in (0..Consumers - 1), o \in (0..Records - 1) : GiveUp(c, o)
    \/ \E o \in (0..Records - 1) : Name(o)
    \/ \E o \in (0..Records - 1) : Remove(o)
    \/ Free

Spec == Init /\ [][Next]_vars

\* What is gone, or freed, somebody has acked, or removed, and that is committed.
GoneIsDone ==
    (\A o \in (0..Records - 1) : (IF ~(((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ (journal[i + 1].names /\ (journal[i + 1].place = o)))) \/ (o < start))) THEN TRUE ELSE (IF (\E c \in (0..Consumers - 1) : (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "acked") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o)))))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "removed") /\ ((journal[i + 1].consumer = 0) /\ (journal[i + 1].place = o))))))))

\* When all is committed, and nothing is due, what was acked is gone, whoever has acked it.
DoneIsGone ==
    (IF (hw # Len(journal)) THEN TRUE ELSE ~((\E o \in (0..Records - 1) : ((\E c \in (0..Consumers - 1) : (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "acked") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o)))))) /\ (~((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ (journal[i + 1].names /\ (journal[i + 1].place = o))))) /\ ~(FALSE))))))

\* No message is with two consumers at once.
WithOne ==
    ~((\E o \in (0..Records - 1) : (\E c \in (0..Consumers - 1) : (\E other \in (0..Consumers - 1) : ((c # other) /\ ((((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))) /\ ((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))) /\ ~((IF (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "acked") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "given-up") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))))))) /\ (((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = other) /\ (journal[i + 1].place = 0))))) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = other) /\ (journal[i + 1].place = 0))))))) /\ ((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = other) /\ (journal[i + 1].place = o))))) /\ ~((IF (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "acked") /\ ((journal[i + 1].consumer = other) /\ (journal[i + 1].place = o))))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "given-up") /\ ((journal[i + 1].consumer = other) /\ (journal[i + 1].place = o)))))))))))))))

==============================================================================
