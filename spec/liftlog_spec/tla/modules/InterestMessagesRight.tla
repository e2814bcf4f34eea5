------------------------ MODULE InterestMessagesRight ------------------------

\* One partition, its journal, and who leads it.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Records, Entries, Consumers, Epochs, Alterations

VARIABLES
    epoch, published, journal, hw, inherited, due, found, start

vars == <<epoch, published, journal, hw, inherited, due, found, start>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ epoch \in (1..Epochs)
    /\ published \in (0..Records)
    /\ ((journal \in Seq([what: {"made", "deleted", "given", "done", "named", "altered"}, consumer: (0..Consumers - 1), place: (0..Records)])) /\ (Len(journal) <= Entries))
    /\ hw \in (0..Entries)
    /\ inherited \in (0..Entries)
    /\ due \in SUBSET (0..Records - 1)
    /\ found \in SUBSET (0..Records - 1)
    /\ start \in (0..Records)

Init ==
    /\ epoch = 1
    /\ published = 0
    /\ journal = <<>>
    /\ hw = 0
    /\ inherited = 0
    /\ due = {}
    /\ found = {}
    /\ start = 0

Publish ==
    /\ (published < Records)
    /\ due' = (due \cup {published})
    /\ published' = (published + 1)
    /\ UNCHANGED <<epoch, journal, hw, inherited, found, start>>

\* What follows of it is to be looked at.
Commit ==
    /\ (hw < Len(journal))
    /\ due' = (due \cup {o \in (0..Records - 1) : ((o < published) /\ (IF (IF ((journal[hw + 1].what = "deleted") /\ TRUE) THEN TRUE ELSE ((journal[hw + 1].what = "altered") /\ TRUE)) THEN TRUE ELSE (((journal[hw + 1].what = "done") /\ TRUE) /\ (journal[hw + 1].place = o))))})
    /\ hw' = (hw + 1)
    /\ UNCHANGED <<epoch, published, journal, inherited, found, start>>

\* Another one leads, which has this much of the journal.
Elect(entries) ==
    /\ (epoch < Epochs)
    /\ (hw <= entries)
    /\ (entries <= Len(journal))
    /\ epoch' = (epoch + 1)
    /\ journal' = SubSeq(journal, 1, MinOf({entries, Len(journal)}))
    /\ inherited' = entries
    /\ due' = {o \in (0..Records - 1) : ((o < published) /\ TRUE)}
    /\ found' = (found \ found)
    /\ UNCHANGED <<published, hw, start>>

\* To be given what there is, or what comes.
Make(c, o) ==
    /\ ~((\E o2 \in (0..Records) : (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o2)))))))
    /\ ((o = 0) \/ (o = published))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "made", consumer |-> c, place |-> o])
    /\ due' = (due \cup found)
    /\ found' = (found \ found)
    /\ UNCHANGED <<epoch, published, hw, inherited, start>>

\* The filter of the second one.
Alter ==
    /\ (0 < Alterations)
    /\ (1 < Consumers)
    /\ (\E o \in (0..Records) : (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = 1) /\ (journal[i + 1].place = o))))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = 1) /\ (journal[i + 1].place = 0))))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "altered") /\ ((journal[i + 1].consumer = 1) /\ (journal[i + 1].place = 0))))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "altered", consumer |-> 1, place |-> 0])
    /\ due' = (due \cup found)
    /\ found' = (found \ found)
    /\ UNCHANGED <<epoch, published, hw, inherited, start>>

Delete(c) ==
    /\ (\E o \in (0..Records) : (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "deleted", consumer |-> c, place |-> 0])
    /\ UNCHANGED <<epoch, published, hw, inherited, due, found, start>>

\* What is not gone by what is written, and is not with this consumer already.
Give(c, o) ==
    /\ (o < published)
    /\ (\E o2 \in (0..Records) : (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o2))))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))
    /\ (\E o2 \in (0..Records) : ((o2 <= o) /\ (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o2)))))))
    /\ (IF (IF (c = 0) THEN TRUE ELSE (IF (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "altered") /\ ((journal[i + 1].consumer = 1) /\ (journal[i + 1].place = 0))))) THEN (o = 1) ELSE (o = 0))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "done") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "named") /\ ((journal[i + 1].consumer = 0) /\ (journal[i + 1].place = o))))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "given", consumer |-> c, place |-> o])
    /\ UNCHANGED <<epoch, published, hw, inherited, due, found, start>>

\* It is done with what it was given.
End(c, o) ==
    /\ (\E o2 \in (0..Records) : (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o2))))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))
    /\ (\E o2 \in (0..Records) : ((o2 <= o) /\ (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o2)))))))
    /\ (IF (IF (c = 0) THEN TRUE ELSE (IF (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "altered") /\ ((journal[i + 1].consumer = 1) /\ (journal[i + 1].place = 0))))) THEN (o = 1) ELSE (o = 0))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "done") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))))
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o)))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "done", consumer |-> c, place |-> o])
    /\ UNCHANGED <<epoch, published, hw, inherited, due, found, start>>

\* At one message, by what is committed.
Look(o) ==
    /\ (o \in due)
    /\ (inherited <= hw)
    /\ ~((IF (\E i \in (0)..(Len(journal) - 1) : (((inherited <= i) /\ (hw <= i)) /\ (journal[i + 1].what = "made"))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : (((inherited <= i) /\ (hw <= i)) /\ (journal[i + 1].what = "altered")))))
    /\ due' = (due \ {o})
    /\ found' = (IF (~((\E c \in (0..Consumers - 1) : (((\E o2 \in (0..Records) : (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o2)))))) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))) /\ (((\E o2 \in (0..Records) : ((o2 <= o) /\ (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o2))))))) /\ (IF (IF (c = 0) THEN TRUE ELSE (IF (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "altered") /\ ((journal[i + 1].consumer = 1) /\ (journal[i + 1].place = 0))))) THEN (o = 1) ELSE (o = 0))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))))) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "done") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o)))))))))) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "named") /\ ((journal[i + 1].consumer = 0) /\ (journal[i + 1].place = o))))))) THEN (found \cup {o}) ELSE found)
    /\ UNCHANGED <<epoch, published, journal, hw, inherited, start>>

Name(o) ==
    /\ (o \in found)
    /\ (Len(journal) < Entries)
    /\ found' = (found \ {o})
    /\ journal' = Append(journal, [what |-> "named", consumer |-> 0, place |-> o])
    /\ UNCHANGED <<epoch, published, hw, inherited, due, start>>

\* The front of the log.
Free ==
    /\ (start < published)
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "named") /\ ((journal[i + 1].consumer = 0) /\ (journal[i + 1].place = start)))))
    /\ start' = (start + 1)
    /\ UNCHANGED <<epoch, published, journal, hw, inherited, due, found>>

Next ==
    \/ Publish
    \/ Commit
    \/ \E entries \in (0..Entries) : Elect(entries)
    \/ \E c \in (0..Consumers - 1), o \in (0..Records) : Make(c, o)
    \/ Alter
    \/ \E c \in (0..Consumers - 1) : Delete(c)
    \/ \E c \in (0..Consumers - 1), o \in (0..Records - 1) : Give(c, o)
    \/ \E c \in (0..Consumers - 1), o \in (0..Records - 1) : End(c, o)
    \/ \E o \in (0..Records - 1) : Look(o)
    \/ \E o \in (0..Records - 1) : Name(o)
    \/ Free

Spec == Init /\ [][Next]_vars

\* What a committed entry names, no consumer wants by the entries before it; what is freed is gone.
GoneIsUnwanted ==
    ((\A o \in (0..Records - 1) : (IF (start <= o) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "named") /\ ((journal[i + 1].consumer = 0) /\ (journal[i + 1].place = o))))))) /\ (\A i \in (0)..(Len(journal) - 1) : (IF ~(((i < hw) /\ (journal[i + 1].what = "named"))) THEN TRUE ELSE ~((\E c \in (0..Consumers - 1) : (((\E o \in (0..Records) : (\E i2 \in (0)..(Len(journal) - 1) : ((i2 < i) /\ ((journal[i2 + 1].what = "made") /\ ((journal[i2 + 1].consumer = c) /\ (journal[i2 + 1].place = o)))))) /\ ~((\E i2 \in (0)..(Len(journal) - 1) : ((i2 < i) /\ ((journal[i2 + 1].what = "deleted") /\ ((journal[i2 + 1].consumer = c) /\ (journal[i2 + 1].place = 0))))))) /\ (((\E o \in (0..Records) : ((o <= journal[i + 1].place) /\ (\E i2 \in (0)..(Len(journal) - 1) : ((i2 < i) /\ ((journal[i2 + 1].what = "made") /\ ((journal[i2 + 1].consumer = c) /\ (journal[i2 + 1].place = o))))))) /\ (IF (IF (c = 0) THEN TRUE ELSE (IF (\E i2 \in (0)..(Len(journal) - 1) : ((i2 < i) /\ ((journal[i2 + 1].what = "altered") /\ ((journal[i2 + 1].consumer = 1) /\ (journal[i2 + 1].place = 0))))) THEN (journal[i + 1].place = 1) ELSE (journal[i + 1].place = 0))) THEN TRUE ELSE (\E i2 \in (0)..(Len(journal) - 1) : ((i2 < i) /\ ((journal[i2 + 1].what = "given") /\ ((journal[i2 + 1].consumer = c) /\ (journal[i2 + 1].place = journal[i + 1].place))))))) /\ ~((\E i2 \in (0)..(Len(journal) - 1) : ((i2 < i) /\ ((journal[i2 + 1].what = "done") /\ ((journal[i2 + 1].consumer = c) /\ (journal[i2 + 1].place = journal[i + 1].place)))))))))))))

\* When all is committed, and nothing is to be looked at, nothing is left that nobody wants.
UnwantedIsGone ==
    (IF ~(((hw = Len(journal)) /\ (\A o \in (0..Records - 1) : ~(((o \in due) \/ (o \in found)))))) THEN TRUE ELSE ~((\E o \in (0..Records - 1) : ((o < published) /\ (~((\E c \in (0..Consumers - 1) : (((\E o2 \in (0..Records) : (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o2)))))) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))) /\ (((\E o2 \in (0..Records) : ((o2 <= o) /\ (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "made") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o2))))))) /\ (IF (IF (c = 0) THEN TRUE ELSE (IF (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "altered") /\ ((journal[i + 1].consumer = 1) /\ (journal[i + 1].place = 0))))) THEN (o = 1) ELSE (o = 0))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))))) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "done") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o)))))))))) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "named") /\ ((journal[i + 1].consumer = 0) /\ (journal[i + 1].place = o)))))))))))

==============================================================================
