----------------------- MODULE WorkQueueMessagesRight ------------------------

\* One partition, its journal, and who leads it.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Records, Entries, Consumers, Epochs

VARIABLES
    epoch, journal, hw, owed, start

vars == <<epoch, journal, hw, owed, start>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ epoch \in (1..Epochs)
    /\ ((journal \in Seq([what: {"made", "deleted", "given", "acked", "given-up", "named"}, consumer: (0..Consumers - 1), place: (0..Records - 1), names: BOOLEAN])) /\ (Len(journal) <= Entries))
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

\* If nothing that is written says that there is another one.
Make(c) ==
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))
    /\ ~((\E other \in (0..Consumers - 1) : ((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = other) /\ (journal[i + 1].place = 0))))) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = other) /\ (journal[i + 1].place = 0)))))))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "made", consumer |-> c, place |-> 0, names |-> FALSE])
    /\ UNCHANGED <<epoch, hw, owed, start>>

Delete(c) ==
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0)))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "deleted", consumer |-> c, place |-> 0, names |-> FALSE])
    /\ UNCHANGED <<epoch, hw, owed, start>>

\* What is not gone by what is written, and is not with this consumer already.
Give(c, o) ==
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0)))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1].names /\ (journal[i + 1].place = o)))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "given", consumer |-> c, place |-> o, names |-> FALSE])
    /\ UNCHANGED <<epoch, hw, owed, start>>

Ack(c, o) ==
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0)))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o)))))
    /\ ~((IF (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "acked") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "given-up") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o)))))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "acked", consumer |-> c, place |-> o, names |-> ~((FALSE \/ FALSE))])
    /\ UNCHANGED <<epoch, hw, owed, start>>

\* It was delivered often enough.
GiveUp(c, o) ==
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0)))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o)))))
    /\ ~((IF (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "acked") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "given-up") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o)))))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "given-up", consumer |-> c, place |-> o, names |-> FALSE])
    /\ UNCHANGED <<epoch, hw, owed, start>>

Name(o) ==
    /\ FALSE
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "named", consumer |-> 0, place |-> o, names |-> TRUE])
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
    \/ \E c \in (0..Consumers - 1) : Make(c)
    \/ \E c \in (0..Consumers - 1) : Delete(c)
    \/ \E c \in (0..Consumers - 1), o \in (0..Records - 1) : Give(c, o)
    \/ \E c \in (0..Consumers - 1), o \in (0..Records - 1) : Ack(c, o)
    \/ \E c \in (0..Consumers - 1), o \in (0..Records - 1) : GiveUp(c, o)
    \/ \E o \in (0..Records - 1) : Name(o)
    \/ Free

Spec == Init /\ [][Next]_vars

\* What is gone, or freed, somebody has acked, and that is committed.
GoneIsDone ==
    (\A o \in (0..Records - 1) : (IF ~(((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ (journal[i + 1].names /\ (journal[i + 1].place = o)))) \/ (o < start))) THEN TRUE ELSE (\E c \in (0..Consumers - 1) : (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "acked") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))))))

\* When all is committed, and nothing is due, what was acked is gone, whoever has acked it.
DoneIsGone ==
    (IF (hw # Len(journal)) THEN TRUE ELSE ~((\E o \in (0..Records - 1) : ((\E c \in (0..Consumers - 1) : (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "acked") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o)))))) /\ (~((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ (journal[i + 1].names /\ (journal[i + 1].place = o))))) /\ ~(FALSE))))))

\* No message is with two consumers at once.
WithOne ==
    ~((\E o \in (0..Records - 1) : (\E c \in (0..Consumers - 1) : (\E other \in (0..Consumers - 1) : ((c # other) /\ ((((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))) /\ ((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))) /\ ~((IF (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "acked") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "given-up") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))))))) /\ (((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = other) /\ (journal[i + 1].place = 0))))) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = other) /\ (journal[i + 1].place = 0))))))) /\ ((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = other) /\ (journal[i + 1].place = o))))) /\ ~((IF (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "acked") /\ ((journal[i + 1].consumer = other) /\ (journal[i + 1].place = o))))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "given-up") /\ ((journal[i + 1].consumer = other) /\ (journal[i + 1].place = o)))))))))))))))

==============================================================================
