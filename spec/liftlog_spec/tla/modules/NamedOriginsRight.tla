-------------------------- MODULE NamedOriginsRight --------------------------

\* One partition of a mirror, and of each stream that bears the origin's name, one after the other.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Makings, Records, Epochs

VARIABLES
    now, committed, epoch, mirror, hw, named, heard, answer

vars == <<now, committed, epoch, mirror, hw, named, heard, answer>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ now \in (1..Makings)
    /\ committed \in (0..Records)
    /\ epoch \in (1..Epochs)
    /\ ((mirror \in Seq((1..Makings))) /\ (Len(mirror) <= Records))
    /\ hw \in (0..Records)
    /\ named \in (0..Makings)
    /\ heard \in (0..Makings)
    /\ answer \in ([of: (1..Makings), at: (0..Records - 1)] \cup {None})

Init ==
    /\ now = 1
    /\ committed = 0
    /\ epoch = 1
    /\ mirror = <<>>
    /\ hw = 0
    /\ named = 0
    /\ heard = 0
    /\ answer = None

Grow ==
    /\ (committed < Records)
    /\ committed' = (committed + 1)
    /\ UNCHANGED <<now, epoch, mirror, hw, named, heard, answer>>

\* It is deleted, and another one is made.
Remake ==
    /\ (now < Makings)
    /\ now' = (now + 1)
    /\ committed' = 0
    /\ UNCHANGED <<epoch, mirror, hw, named, heard, answer>>

\* The mirror's leader asks for what follows, and gets it of whoever bears the name.
Ask(at) ==
    /\ (hw = Len(mirror))
    /\ (at = Len(mirror))
    /\ (at < committed)
    /\ answer' = [of |-> now, at |-> at]
    /\ UNCHANGED <<now, committed, epoch, mirror, hw, named, heard>>

\* The answer says which stream this is: that is committed in the configuration.
NameIt ==
    /\ (answer # None)
    /\ (named = 0)
    /\ named' = answer.of
    /\ UNCHANGED <<now, committed, epoch, mirror, hw, heard, answer>>

\* The answer comes, or comes again, and is copied.
Take ==
    /\ (answer # None)
    /\ (answer.at = Len(mirror))
    /\ (named = answer.of)
    /\ mirror' = Append(mirror, answer.of)
    /\ UNCHANGED <<now, committed, epoch, hw, named, heard, answer>>

Commit ==
    /\ (hw < Len(mirror))
    /\ hw' = (hw + 1)
    /\ UNCHANGED <<now, committed, epoch, mirror, named, heard, answer>>

\* Another one leads, which has this much.
Elect(end) ==
    /\ (epoch < Epochs)
    /\ (hw <= end)
    /\ (end <= Len(mirror))
    /\ epoch' = (epoch + 1)
    /\ mirror' = SubSeq(mirror, 1, MinOf({end, Len(mirror)}))
    /\ heard' = 0
    /\ UNCHANGED <<now, committed, hw, named, answer>>

Next ==
    \/ Grow
    \/ Remake
    \/ \E at \in (0..Records - 1) : Ask(at)
    \/ NameIt
    \/ Take
    \/ Commit
    \/ \E end \in (0..Records) : Elect(end)

Spec == Init /\ [][Next]_vars

\* All that the mirror has committed is of one making.
OfOneOrigin ==
    (\A i \in (0..Records - 1) : (\A j \in (0..Records - 1) : (((i < hw) /\ (j < hw)) => (mirror[i + 1] = mirror[j + 1]))))

\* And of the one that the configuration names, where it is to name one.
OfTheNamedOne ==
    (\A i \in (0..Records - 1) : ((i < hw) => (mirror[i + 1] = named)))

==============================================================================
