---------------------------- MODULE MirrorsRight -----------------------------

\* One partition of an origin, and its mirror's.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Records, Epochs, Deletes

VARIABLES
    origin_epoch, origin, origin_hw, gone, epoch, mirror, hw, answer, asked, began, position, written, says

vars == <<origin_epoch, origin, origin_hw, gone, epoch, mirror, hw, answer, asked, began, position, written, says>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ origin_epoch \in (1..Epochs)
    /\ ((origin \in Seq((1..Epochs))) /\ (Len(origin) <= Records))
    /\ origin_hw \in (0..Records)
    /\ gone \in SUBSET (0..Records - 1)
    /\ epoch \in (1..Epochs)
    /\ ((mirror \in Seq((0..Epochs + 1))) /\ (Len(mirror) <= Records))
    /\ hw \in (0..Records)
    /\ answer \in ([at: (0..Records - 1), has: (0..Epochs + 1)] \cup {None})
    /\ asked \in (0..Records + 1)
    /\ began \in BOOLEAN
    /\ position \in (0..Records)
    /\ written \in SUBSET (0..Records - 1)
    /\ says \in SUBSET (0..Records - 1)

Init ==
    /\ origin_epoch = 1
    /\ origin = <<>>
    /\ origin_hw = 0
    /\ gone = {}
    /\ epoch = 1
    /\ mirror = <<>>
    /\ hw = 0
    /\ answer = None
    /\ asked = 0
    /\ began = FALSE
    /\ position = 0
    /\ written = {}
    /\ says = {}

Write ==
    /\ (Len(origin) < Records)
    /\ origin' = Append(origin, origin_epoch)
    /\ UNCHANGED <<origin_epoch, origin_hw, gone, epoch, mirror, hw, answer, asked, began, position, written, says>>

CommitOrigin ==
    /\ (origin_hw < Len(origin))
    /\ origin_hw' = (origin_hw + 1)
    /\ UNCHANGED <<origin_epoch, origin, gone, epoch, mirror, hw, answer, asked, began, position, written, says>>

\* Another one leads the origin, which has this much.
ElectOrigin(end) ==
    /\ (origin_epoch < Epochs)
    /\ (origin_hw <= end)
    /\ (end <= Len(origin))
    /\ origin_epoch' = (origin_epoch + 1)
    /\ origin' = SubSeq(origin, 1, MinOf({end, Len(origin)}))
    /\ UNCHANGED <<origin_hw, gone, epoch, mirror, hw, answer, asked, began, position, written, says>>

Delete(at) ==
    /\ (at < origin_hw)
    /\ ~((at \in gone))
    /\ (Cardinality(gone) < Deletes)
    /\ gone' = (gone \cup {at})
    /\ UNCHANGED <<origin_epoch, origin, origin_hw, epoch, mirror, hw, answer, asked, began, position, written, says>>

\* The mirror's leader asks, and the origin's answers: with this, and what follows it.
Ask(at) ==
    /\ (at < origin_hw)
    /\ ((hw = Len(mirror)) \/ (asked = (hw + 1)))
    /\ (at = Len(mirror))
    /\ asked' = (IF (hw = Len(mirror)) THEN (hw + 1) ELSE asked)
    /\ answer' = [at |-> at, has |-> (IF (at \in gone) THEN 0 ELSE origin[at + 1])]
    /\ UNCHANGED <<origin_epoch, origin, origin_hw, gone, epoch, mirror, hw, began, position, written, says>>

\* What the answer says to be gone is written into the journal.
Say ==
    /\ (answer # None)
    /\ (answer.at = Len(mirror))
    /\ (answer.has = 0)
    /\ ~((answer.at \in says))
    /\ ~((answer.at \in written))
    /\ written' = (written \cup {answer.at})
    /\ UNCHANGED <<origin_epoch, origin, origin_hw, gone, epoch, mirror, hw, answer, asked, began, position, says>>

CommitEntry(at) ==
    /\ (at \in written)
    /\ written' = (written \ {at})
    /\ says' = (says \cup {at})
    /\ UNCHANGED <<origin_epoch, origin, origin_hw, gone, epoch, mirror, hw, answer, asked, began, position>>

\* The answer comes, or comes again.
Take ==
    /\ (answer # None)
    /\ (Len(mirror) < Records)
    /\ (IF (0 < answer.has) THEN TRUE ELSE (answer.at \in says))
    /\ (answer.at = Len(mirror))
    /\ mirror' = Append(mirror, answer.has)
    /\ began' = TRUE
    /\ UNCHANGED <<origin_epoch, origin, origin_hw, gone, epoch, hw, answer, asked, position, written, says>>

Commit ==
    /\ (hw < Len(mirror))
    /\ hw' = (hw + 1)
    /\ UNCHANGED <<origin_epoch, origin, origin_hw, gone, epoch, mirror, answer, asked, began, position, written, says>>

\* The position that is kept apart follows what is committed.
Save ==
    /\ FALSE
    /\ (position < hw)
    /\ position' = hw
    /\ UNCHANGED <<origin_epoch, origin, origin_hw, gone, epoch, mirror, hw, answer, asked, began, written, says>>

\* Another one leads the mirror, which has this much.
Elect(end) ==
    /\ (epoch < Epochs)
    /\ (hw <= end)
    /\ (end <= Len(mirror))
    /\ epoch' = (epoch + 1)
    /\ mirror' = SubSeq(mirror, 1, MinOf({end, Len(mirror)}))
    /\ asked' = 0
    /\ began' = FALSE
    /\ written' = {}
    /\ UNCHANGED <<origin_epoch, origin, origin_hw, gone, hw, answer, position, says>>

Publish ==
    /\ FALSE
    /\ (Len(mirror) < Records)
    /\ mirror' = Append(mirror, (Epochs + 1))
    /\ UNCHANGED <<origin_epoch, origin, origin_hw, gone, epoch, hw, answer, asked, began, position, written, says>>

Next ==
    \/ Write
    \/ CommitOrigin
    \/ \E end \in (0..Records) : ElectOrigin(end)
    \/ \E at \in (0..Records - 1) : Delete(at)
    \/ \E at \in (0..Records - 1) : Ask(at)
    \/ Say
    \/ \E at \in (0..Records - 1) : CommitEntry(at)
    \/ Take
    \/ Commit
    \/ Save
    \/ \E end \in (0..Records) : Elect(end)
    \/ Publish

Spec == Init /\ [][Next]_vars

\* What the mirror has committed, the origin has committed, at the same offset.
MirrorIsPrefix ==
    (\A i \in (0..Records - 1) : (((i < hw) /\ (0 < mirror[i + 1])) => ((i < origin_hw) /\ (origin[i + 1] = mirror[i + 1]))))

\* Where the mirror has nothing, the origin has nothing any more.
EmptyIsGone ==
    (\A i \in (0..Records - 1) : (((i < hw) /\ (mirror[i + 1] = 0)) => (i \in gone)))

\* Where the mirror has nothing, its journal says so. Variants about something else have none.
EmptyIsSaid ==
    (\A i \in (0..Records - 1) : (((i < hw) /\ (mirror[i + 1] = 0)) => (i \in says)))

==============================================================================
