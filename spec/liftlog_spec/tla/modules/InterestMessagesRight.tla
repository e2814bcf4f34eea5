------------------------ MODULE InterestMessagesRight ------------------------

\* One partition, its journal, and who leads it.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Records, Entries, Consumers, Epochs, Alterations, Choices, Removals

VARIABLES
    epoch, published, journal, hw, inherited, due, found, start

vars == <<epoch, published, journal, hw, inherited, due, found, start>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ epoch \in (1..Epochs)
    /\ published \in (0..Records)
    /\ ((journal \in Seq([what: {"made", "deleted", "given", "done", "named", "altered", "removed"}, consumer: (0..Consumers - 1), place: (0..Records), filter: (0..2)])) /\ (Len(journal) <= Entries))
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
Make(c, o, filter) ==
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ (journal[i + 1].consumer = c)))))
    /\ ((o = 0) \/ (o = published))
    /\ ((0 < Choices) \/ (filter = (IF (c = 0) THEN 0 ELSE 1)))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "made", consumer |-> c, place |-> o, filter |-> filter])
    /\ due' = (due \cup found)
    /\ found' = (found \ found)
    /\ UNCHANGED <<epoch, published, hw, inherited, start>>

\* What its filter matches from here on: up to there it was given all that is there for it.
Alter(c, o, filter) ==
    /\ (0 < Alterations)
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ (journal[i + 1].consumer = c))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))
    /\ (o <= published)
    /\ (IF (0 < Choices) THEN TRUE ELSE (((c = 1) /\ (filter = 2)) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "altered") /\ (journal[i + 1].consumer = c)))))))
    /\ (\A p \in (0..Records - 1) : (IF (o <= p) THEN TRUE ELSE (IF (IF (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = p))))) THEN TRUE ELSE (IF (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "named") /\ ((journal[i + 1].consumer = 0) /\ (journal[i + 1].place = p))))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "removed") /\ ((journal[i + 1].consumer = 0) /\ (journal[i + 1].place = p))))))) THEN TRUE ELSE ~((\E i \in (0)..(Len(journal) - 1) : (((i < Len(journal)) /\ ((journal[i + 1].consumer = c) /\ (IF (journal[i + 1].what = "made") THEN TRUE ELSE (journal[i + 1].what = "altered")))) /\ (((journal[i + 1].place <= p) /\ (IF (journal[i + 1].filter = 0) THEN TRUE ELSE (~((\E half \in (0..Records - 1) : ((half + half) = p))) = (journal[i + 1].filter = 2)))) /\ ~((\E j \in (0)..(Len(journal) - 1) : ((i < j) /\ ((j < Len(journal)) /\ ((journal[j + 1].consumer = c) /\ (IF (journal[j + 1].what = "made") THEN TRUE ELSE (journal[j + 1].what = "altered"))))))))))))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "altered", consumer |-> c, place |-> o, filter |-> filter])
    /\ due' = (due \cup found)
    /\ found' = (found \ found)
    /\ UNCHANGED <<epoch, published, hw, inherited, start>>

Delete(c) ==
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ (journal[i + 1].consumer = c))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "deleted", consumer |-> c, place |-> 0, filter |-> 0])
    /\ UNCHANGED <<epoch, published, hw, inherited, due, found, start>>

\* What is not named by what is written, nor removed by what is committed, and was not with it.
Give(c, o) ==
    /\ (o < published)
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ (journal[i + 1].consumer = c))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))
    /\ (IF (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : (((i < Len(journal)) /\ ((journal[i + 1].consumer = c) /\ (IF (journal[i + 1].what = "made") THEN TRUE ELSE (journal[i + 1].what = "altered")))) /\ (((journal[i + 1].place <= o) /\ (IF (journal[i + 1].filter = 0) THEN TRUE ELSE (~((\E half \in (0..Records - 1) : ((half + half) = o))) = (journal[i + 1].filter = 2)))) /\ ~((\E j \in (0)..(Len(journal) - 1) : ((i < j) /\ ((j < Len(journal)) /\ ((journal[j + 1].consumer = c) /\ (IF (journal[j + 1].what = "made") THEN TRUE ELSE (journal[j + 1].what = "altered")))))))))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "done") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "named") /\ ((journal[i + 1].consumer = 0) /\ (journal[i + 1].place = o))))))
    /\ ~((IF (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "named") /\ ((journal[i + 1].consumer = 0) /\ (journal[i + 1].place = o))))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "removed") /\ ((journal[i + 1].consumer = 0) /\ (journal[i + 1].place = o)))))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "given", consumer |-> c, place |-> o, filter |-> 0])
    /\ UNCHANGED <<epoch, published, hw, inherited, due, found, start>>

\* It is done with what it was given.
End(c, o) ==
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "made") /\ (journal[i + 1].consumer = c))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))
    /\ (IF (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : (((i < Len(journal)) /\ ((journal[i + 1].consumer = c) /\ (IF (journal[i + 1].what = "made") THEN TRUE ELSE (journal[i + 1].what = "altered")))) /\ (((journal[i + 1].place <= o) /\ (IF (journal[i + 1].filter = 0) THEN TRUE ELSE (~((\E half \in (0..Records - 1) : ((half + half) = o))) = (journal[i + 1].filter = 2)))) /\ ~((\E j \in (0)..(Len(journal) - 1) : ((i < j) /\ ((j < Len(journal)) /\ ((journal[j + 1].consumer = c) /\ (IF (journal[j + 1].what = "made") THEN TRUE ELSE (journal[j + 1].what = "altered")))))))))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "done") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))))
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o)))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "done", consumer |-> c, place |-> o, filter |-> 0])
    /\ UNCHANGED <<epoch, published, hw, inherited, due, found, start>>

\* At one message, by what is committed.
Look(o) ==
    /\ (o \in due)
    /\ (inherited <= hw)
    /\ ~((IF (\E i \in (0)..(Len(journal) - 1) : (((inherited <= i) /\ (hw <= i)) /\ (journal[i + 1].what = "made"))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : (((inherited <= i) /\ (hw <= i)) /\ (journal[i + 1].what = "altered")))))
    /\ due' = (due \ {o})
    /\ found' = (IF (~((\E c \in (0..Consumers - 1) : (((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "made") /\ (journal[i + 1].consumer = c)))) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))) /\ ((IF (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : (((i < hw) /\ ((journal[i + 1].consumer = c) /\ (IF (journal[i + 1].what = "made") THEN TRUE ELSE (journal[i + 1].what = "altered")))) /\ (((journal[i + 1].place <= o) /\ (IF (journal[i + 1].filter = 0) THEN TRUE ELSE (~((\E half \in (0..Records - 1) : ((half + half) = o))) = (journal[i + 1].filter = 2)))) /\ ~((\E j \in (0)..(Len(journal) - 1) : ((i < j) /\ ((j < hw) /\ ((journal[j + 1].consumer = c) /\ (IF (journal[j + 1].what = "made") THEN TRUE ELSE (journal[j + 1].what = "altered"))))))))))) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "done") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o)))))))))) /\ ~((IF (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "named") /\ ((journal[i + 1].consumer = 0) /\ (journal[i + 1].place = o))))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ ((journal[i + 1].what = "removed") /\ ((journal[i + 1].consumer = 0) /\ (journal[i + 1].place = o)))))))) THEN (found \cup {o}) ELSE found)
    /\ UNCHANGED <<epoch, published, journal, hw, inherited, start>>

Name(o) ==
    /\ (o \in found)
    /\ (Len(journal) < Entries)
    /\ found' = (found \ {o})
    /\ journal' = Append(journal, [what |-> "named", consumer |-> 0, place |-> o, filter |-> 0])
    /\ UNCHANGED <<epoch, published, hw, inherited, due, start>>

\* Somebody does, whoever wants it.
Remove(o) ==
    /\ (0 < Removals)
    /\ (o < published)
    /\ ~((IF (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "named") /\ ((journal[i + 1].consumer = 0) /\ (journal[i + 1].place = o))))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "removed") /\ ((journal[i + 1].consumer = 0) /\ (journal[i + 1].place = o)))))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [what |-> "removed", consumer |-> 0, place |-> o, filter |-> 0])
    /\ UNCHANGED <<epoch, published, hw, inherited, due, found, start>>

\* The front of the log.
Free ==
    /\ (start < published)
    /\ (IF (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "named") /\ ((journal[i + 1].consumer = 0) /\ (journal[i + 1].place = start))))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "removed") /\ ((journal[i + 1].consumer = 0) /\ (journal[i + 1].place = start))))))
    /\ start' = (start + 1)
    /\ UNCHANGED <<epoch, published, journal, hw, inherited, due, found>>

Next ==
    \/ Publish
    \/ Commit
    \/ \E entries \in (0..Entries) : Elect(entries)
    \/ \E c \in (0..Consumers - 1), o \in (0..Records), filter \in (0..2) : Make(c, o, filter)
    \/ \E c \in (0..Consumers - 1), o \in (0..Records), filter \in (0..2) : Alter(c, o, filter)
    \/ \E c \in (0..Consumers - 1) : Delete(c)
    \/ \E c \in (0..Consumers - 1), o \in (0..Records - 1) : Give(c, o)
    \/ \E c \in (0..Consumers - 1), o \in (0..Records - 1) : End(c, o)
    \/ \E o \in (0..Records - 1) : Look(o)
    \/ \E o \in (0..Records - 1) : Name(o)
    \/ \E o \in (0..Records - 1) : Remove(o)
    \/ Free

Spec == Init /\ [][Next]_vars

\* What a committed entry names, no consumer wants by the entries before it; what is freed is gone.
GoneIsUnwanted ==
    ((\A o \in (0..Records - 1) : (IF (start <= o) THEN TRUE ELSE (IF (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "named") /\ ((journal[i + 1].consumer = 0) /\ (journal[i + 1].place = o))))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "removed") /\ ((journal[i + 1].consumer = 0) /\ (journal[i + 1].place = o)))))))) /\ (\A i \in (0)..(Len(journal) - 1) : (IF ~(((i < hw) /\ (journal[i + 1].what = "named"))) THEN TRUE ELSE ~((\E c \in (0..Consumers - 1) : (((\E i2 \in (0)..(Len(journal) - 1) : ((i2 < i) /\ ((journal[i2 + 1].what = "made") /\ (journal[i2 + 1].consumer = c)))) /\ ~((\E i2 \in (0)..(Len(journal) - 1) : ((i2 < i) /\ ((journal[i2 + 1].what = "deleted") /\ ((journal[i2 + 1].consumer = c) /\ (journal[i2 + 1].place = 0))))))) /\ ((IF (\E i2 \in (0)..(Len(journal) - 1) : ((i2 < i) /\ ((journal[i2 + 1].what = "given") /\ ((journal[i2 + 1].consumer = c) /\ (journal[i2 + 1].place = journal[i + 1].place))))) THEN TRUE ELSE (\E i2 \in (0)..(Len(journal) - 1) : (((i2 < i) /\ ((journal[i2 + 1].consumer = c) /\ (IF (journal[i2 + 1].what = "made") THEN TRUE ELSE (journal[i2 + 1].what = "altered")))) /\ (((journal[i2 + 1].place <= journal[i + 1].place) /\ (IF (journal[i2 + 1].filter = 0) THEN TRUE ELSE (~((\E half \in (0..Records - 1) : ((half + half) = journal[i + 1].place))) = (journal[i2 + 1].filter = 2)))) /\ ~((\E j \in (0)..(Len(journal) - 1) : ((i2 < j) /\ ((j < i) /\ ((journal[j + 1].consumer = c) /\ (IF (journal[j + 1].what = "made") THEN TRUE ELSE (journal[j + 1].what = "altered"))))))))))) /\ ~((\E i2 \in (0)..(Len(journal) - 1) : ((i2 < i) /\ ((journal[i2 + 1].what = "done") /\ ((journal[i2 + 1].consumer = c) /\ (journal[i2 + 1].place = journal[i + 1].place)))))))))))))

\* When all is committed, and nothing is to be looked at, nothing is left that nobody wants.
UnwantedIsGone ==
    (IF ~(((hw = Len(journal)) /\ (\A o \in (0..Records - 1) : ~(((o \in due) \/ (o \in found)))))) THEN TRUE ELSE ~((\E o \in (0..Records - 1) : ((o < published) /\ (~((\E c \in (0..Consumers - 1) : (((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "made") /\ (journal[i + 1].consumer = c)))) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "deleted") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = 0))))))) /\ ((IF (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "given") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o))))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : (((i < hw) /\ ((journal[i + 1].consumer = c) /\ (IF (journal[i + 1].what = "made") THEN TRUE ELSE (journal[i + 1].what = "altered")))) /\ (((journal[i + 1].place <= o) /\ (IF (journal[i + 1].filter = 0) THEN TRUE ELSE (~((\E half \in (0..Records - 1) : ((half + half) = o))) = (journal[i + 1].filter = 2)))) /\ ~((\E j \in (0)..(Len(journal) - 1) : ((i < j) /\ ((j < hw) /\ ((journal[j + 1].consumer = c) /\ (IF (journal[j + 1].what = "made") THEN TRUE ELSE (journal[j + 1].what = "altered"))))))))))) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "done") /\ ((journal[i + 1].consumer = c) /\ (journal[i + 1].place = o)))))))))) /\ ~((IF (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "named") /\ ((journal[i + 1].consumer = 0) /\ (journal[i + 1].place = o))))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ ((journal[i + 1].what = "removed") /\ ((journal[i + 1].consumer = 0) /\ (journal[i + 1].place = o))))))))))))

==============================================================================
