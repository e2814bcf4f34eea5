-------------------------- MODULE TimesToLiveRight ---------------------------

\* One partition with its two logs, and who leads it.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Records, Entries, Times, Room, Epochs, Losses, Jumps

VARIABLES
    clock, ahead, doubts, jumps, epoch, data, hw, journal, journal_hw, at, held, again, early, lost

vars == <<clock, ahead, doubts, jumps, epoch, data, hw, journal, journal_hw, at, held, again, early, lost>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ clock \in (0..Times)
    /\ ahead \in (0..2)
    /\ doubts \in BOOLEAN
    /\ jumps \in (0..Jumps)
    /\ epoch \in (1..Epochs)
    /\ ((data \in Seq([due: (0..Times), epoch: (1..Epochs)])) /\ (Len(data) <= Records))
    /\ hw \in (0..Records)
    /\ ((journal \in Seq([names: BOOLEAN, place: (0..Records - 1), epoch: (1..Epochs), through: (0..Records), of: (1..Epochs)])) /\ (Len(journal) <= Entries))
    /\ journal_hw \in (0..Entries)
    /\ at \in (0..Records)
    /\ held \in SUBSET (0..Records - 1)
    /\ again \in (0..Records)
    /\ early \in BOOLEAN
    /\ lost \in (0..Losses)

Init ==
    /\ clock = 0
    /\ ahead = 0
    /\ doubts = FALSE
    /\ jumps = 0
    /\ epoch = 1
    /\ data = <<>>
    /\ hw = 0
    /\ journal = <<>>
    /\ journal_hw = 0
    /\ at = 0
    /\ held = {}
    /\ again = Records
    /\ early = FALSE
    /\ lost = 0

TimePasses ==
    /\ (clock < Times)
    /\ clock' = (clock + 1)
    /\ UNCHANGED <<ahead, doubts, jumps, epoch, data, hw, journal, journal_hw, at, held, again, early, lost>>

\* It is ahead for a while.
ClockJumps ==
    /\ (ahead = 0)
    /\ (jumps < Jumps)
    /\ ahead' = 2
    /\ doubts' = TRUE
    /\ jumps' = (jumps + 1)
    /\ UNCHANGED <<clock, epoch, data, hw, journal, journal_hw, at, held, again, early, lost>>

\* By a part, or whole.
ClockReturns(to) ==
    /\ (to < ahead)
    /\ ahead' = to
    /\ doubts' = (((0 < to) /\ TRUE) /\ TRUE)
    /\ UNCHANGED <<clock, jumps, epoch, data, hw, journal, journal_hw, at, held, again, early, lost>>

Publish(due) ==
    /\ (Len(data) < Records)
    /\ ((due = 0) \/ (clock < due))
    /\ data' = Append(data, [due |-> due, epoch |-> epoch])
    /\ UNCHANGED <<clock, ahead, doubts, jumps, epoch, hw, journal, journal_hw, at, held, again, early, lost>>

Commit ==
    /\ (hw < Len(data))
    /\ hw' = (hw + 1)
    /\ UNCHANGED <<clock, ahead, doubts, jumps, epoch, data, journal, journal_hw, at, held, again, early, lost>>

CommitEntry ==
    /\ (journal_hw < Len(journal))
    /\ journal_hw' = (journal_hw + 1)
    /\ UNCHANGED <<clock, ahead, doubts, jumps, epoch, data, hw, journal, at, held, again, early, lost>>

\* Another one leads, which has this much of the logs, and whose clock is ahead as well, or right.
Elect(end, entries, ahead2) ==
    /\ (~(ahead2) \/ (0 < ahead))
    /\ (epoch < Epochs)
    /\ (hw <= end)
    /\ (end <= Len(data))
    /\ (journal_hw <= entries)
    /\ (entries <= Len(journal))
    /\ at' = (IF ((0 < Len(SubSeq(journal, 1, MinOf({entries, Len(journal)})))) /\ (((0 < SubSeq(journal, 1, MinOf({entries, Len(journal)}))[(Len(SubSeq(journal, 1, MinOf({entries, Len(journal)}))) - 1) + 1].through) /\ (SubSeq(journal, 1, MinOf({entries, Len(journal)}))[(Len(SubSeq(journal, 1, MinOf({entries, Len(journal)}))) - 1) + 1].through <= Len(SubSeq(data, 1, MinOf({end, Len(data)}))))) /\ (SubSeq(data, 1, MinOf({end, Len(data)}))[(SubSeq(journal, 1, MinOf({entries, Len(journal)}))[(Len(SubSeq(journal, 1, MinOf({entries, Len(journal)}))) - 1) + 1].through - 1) + 1].epoch = SubSeq(journal, 1, MinOf({entries, Len(journal)}))[(Len(SubSeq(journal, 1, MinOf({entries, Len(journal)}))) - 1) + 1].of))) THEN SubSeq(journal, 1, MinOf({entries, Len(journal)}))[(Len(SubSeq(journal, 1, MinOf({entries, Len(journal)}))) - 1) + 1].through ELSE 0)
    /\ held' = {}
    /\ again' = Records
    /\ ahead' = (IF ahead2 THEN ahead ELSE 0)
    /\ doubts' = ((ahead2 /\ doubts) /\ TRUE)
    /\ epoch' = (epoch + 1)
    /\ data' = SubSeq(data, 1, MinOf({end, Len(data)}))
    /\ journal' = SubSeq(journal, 1, MinOf({entries, Len(journal)}))
    /\ UNCHANGED <<clock, jumps, hw, journal_hw, early, lost>>

\* An operator has one elected that lacks what was committed of the data.
Lose(end) ==
    /\ (epoch < Epochs)
    /\ (lost < Losses)
    /\ (end < hw)
    /\ (journal_hw = Len(journal))
    /\ at' = (IF ((0 < Len(journal)) /\ (((0 < journal[(Len(journal) - 1) + 1].through) /\ (journal[(Len(journal) - 1) + 1].through <= Len(SubSeq(data, 1, MinOf({end, Len(data)}))))) /\ (SubSeq(data, 1, MinOf({end, Len(data)}))[(journal[(Len(journal) - 1) + 1].through - 1) + 1].epoch = journal[(Len(journal) - 1) + 1].of))) THEN journal[(Len(journal) - 1) + 1].through ELSE 0)
    /\ held' = {}
    /\ again' = Records
    /\ ahead' = 0
    /\ doubts' = FALSE
    /\ epoch' = (epoch + 1)
    /\ lost' = (lost + 1)
    /\ data' = SubSeq(data, 1, MinOf({end, Len(data)}))
    /\ hw' = end
    /\ UNCHANGED <<clock, jumps, journal, journal_hw, early>>

\* The next record. If its time is over one day it is kept beside.
Find ==
    /\ (at < hw)
    /\ (~(((0 < data[at + 1].due) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < journal_hw) /\ (journal[i + 1].names /\ ((journal[i + 1].place = at) /\ (journal[i + 1].epoch = data[at + 1].epoch)))))))) \/ (Cardinality(held) < Room))
    /\ held' = (IF ((0 < data[at + 1].due) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < journal_hw) /\ (journal[i + 1].names /\ ((journal[i + 1].place = at) /\ (journal[i + 1].epoch = data[at + 1].epoch))))))) THEN (held \cup {at}) ELSE held)
    /\ at' = (at + 1)
    /\ UNCHANGED <<clock, ahead, doubts, jumps, epoch, data, hw, journal, journal_hw, again, early, lost>>

\* There is no room: what is due latest is let go.
FindOneTooMany(drop) ==
    /\ (at < hw)
    /\ (0 < data[at + 1].due)
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < journal_hw) /\ (journal[i + 1].names /\ ((journal[i + 1].place = at) /\ (journal[i + 1].epoch = data[at + 1].epoch))))))
    /\ (Room <= Cardinality(held))
    /\ (drop \in (held \cup {at}))
    /\ (\A i \in (held \cup {at}) : (data[i + 1].due <= data[drop + 1].due))
    /\ held' = ((held \cup {at}) \ {drop})
    /\ again' = MinOf({again, drop})
    /\ at' = (at + 1)
    /\ UNCHANGED <<clock, ahead, doubts, jumps, epoch, data, hw, journal, journal_hw, early, lost>>

\* Go through the data again, from where something was let go, or is kept.
GoBack ==
    /\ (again < Records)
    /\ at' = MinOf({MinOf({(IF (place \in held) THEN place ELSE at) : place \in (0..Records - 1)}), again})
    /\ held' = {}
    /\ again' = Records
    /\ UNCHANGED <<clock, ahead, doubts, jumps, epoch, data, hw, journal, journal_hw, early, lost>>

\* Of what is kept: one that is over.
Name(place) ==
    /\ (place \in held)
    /\ (Len(journal) < Entries)
    /\ ~doubts
    /\ (0 < data[place + 1].due)
    /\ (data[place + 1].due <= (IF (0 < ahead) THEN Times ELSE clock))
    /\ early' = (IF early THEN TRUE ELSE ~(((0 < data[place + 1].due) /\ (data[place + 1].due <= clock))))
    /\ held' = (held \ {place})
    /\ journal' = Append(journal, [names |-> TRUE, place |-> place, epoch |-> data[place + 1].epoch, through |-> (IF (0 < Len(journal)) THEN journal[(Len(journal) - 1) + 1].through ELSE 0), of |-> (IF (0 < Len(journal)) THEN journal[(Len(journal) - 1) + 1].of ELSE 1)])
    /\ UNCHANGED <<clock, ahead, doubts, jumps, epoch, data, hw, journal_hw, at, again, lost>>

\* Below where nothing is left to be written, in an entry.
Say ==
    /\ (0 < MinOf({MinOf({(IF (place \in held) THEN place ELSE at) : place \in (0..Records - 1)}), again}))
    /\ (MinOf({MinOf({(IF (place \in held) THEN place ELSE at) : place \in (0..Records - 1)}), again}) <= hw)
    /\ ((IF (0 < Len(journal)) THEN journal[(Len(journal) - 1) + 1].through ELSE 0) # MinOf({MinOf({(IF (place \in held) THEN place ELSE at) : place \in (0..Records - 1)}), again}))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [names |-> FALSE, place |-> 0, epoch |-> 1, through |-> MinOf({MinOf({(IF (place \in held) THEN place ELSE at) : place \in (0..Records - 1)}), again}), of |-> data[(MinOf({MinOf({(IF (place \in held) THEN place ELSE at) : place \in (0..Records - 1)}), again}) - 1) + 1].epoch])
    /\ UNCHANGED <<clock, ahead, doubts, jumps, epoch, data, hw, journal_hw, at, held, again, early, lost>>

Next ==
    \/ TimePasses
    \/ ClockJumps
    \/ \E to \in (0..1) : ClockReturns(to)
    \/ \E due \in (0..Times) : Publish(due)
    \/ Commit
    \/ CommitEntry
    \/ \E end \in (0..Records), entries \in (0..Entries), ahead2 \in BOOLEAN : Elect(end, entries, ahead2)
    \/ \E end \in (0..Records) : Lose(end)
    \/ Find
    \/ \E drop \in (0..Records - 1) : FindOneTooMany(drop)
    \/ GoBack
    \/ \E place \in (0..Records - 1) : Name(place)
    \/ Say

Spec == Init /\ [][Next]_vars

\* Nothing was written before its time was over.
NotBeforeItsTime ==
    ~early

\* What a committed entry names is a committed record, if none is lost.
OnlyCommitted ==
    (IF (0 < lost) THEN TRUE ELSE (\A i \in (0)..(Len(journal) - 1) : (IF (IF (journal_hw <= i) THEN TRUE ELSE ~(journal[i + 1].names)) THEN TRUE ELSE (journal[i + 1].place < hw))))

\* When all is gone through, and what was over is written and committed, nothing is left over its time.
NothingOver ==
    (IF ~((((hw <= at) /\ ((again = Records) /\ (journal_hw = Len(journal)))) /\ ~((\E i \in held : ((0 < data[i + 1].due) /\ (data[i + 1].due <= clock)))))) THEN TRUE ELSE ~((\E i \in (0)..(Len(data) - 1) : ((i < hw) /\ (((0 < data[i + 1].due) /\ (data[i + 1].due <= clock)) /\ ~((\E i2 \in (0)..(Len(journal) - 1) : ((i2 < journal_hw) /\ (journal[i2 + 1].names /\ ((journal[i2 + 1].place = i) /\ (journal[i2 + 1].epoch = data[i + 1].epoch)))))))))))

==============================================================================
