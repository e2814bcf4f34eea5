----------------------------- MODULE LeasesRight -----------------------------

\* Two terms of the metadata group, and the sessions of a node and of the first term's controller.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Moments, Lease, Suspicion, Election

VARIABLES
    now, round, answered, heard, reached, replaced, elected, waited, beat, reply, contact, renewed, ended, first_ended

vars == <<now, round, answered, heard, reached, replaced, elected, waited, beat, reply, contact, renewed, ended, first_ended>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ now \in (0..Moments)
    /\ round \in ((0..Moments) \cup {None})
    /\ answered \in ((0..Moments) \cup {None})
    /\ heard \in (0..Moments)
    /\ reached \in (0..Moments)
    /\ replaced \in BOOLEAN
    /\ elected \in (0..Moments)
    /\ waited \in BOOLEAN
    /\ beat \in ((0..Moments) \cup {None})
    /\ reply \in ((0..Moments) \cup {None})
    /\ contact \in (0..Moments)
    /\ renewed \in [(1..2) -> (0..Moments)]
    /\ ended \in BOOLEAN
    /\ first_ended \in BOOLEAN

\* How long a session lasts of whose node it is said that nobody listens there.
Patience ==
    Lease

Init ==
    /\ now = 0
    /\ round = None
    /\ answered = None
    /\ heard = 0
    /\ reached = 0
    /\ replaced = FALSE
    /\ elected = 0
    /\ waited = FALSE
    /\ beat = None
    /\ reply = None
    /\ contact = 0
    /\ renewed = [x \in (1..2) |-> 0]
    /\ ended = FALSE
    /\ first_ended = FALSE

Pass ==
    /\ (now < Moments)
    /\ now' = (now + 1)
    /\ UNCHANGED <<round, answered, heard, reached, replaced, elected, waited, beat, reply, contact, renewed, ended, first_ended>>

\* The first controller asks everybody whether they still follow.
Begin ==
    /\ ~replaced
    /\ round' = now
    /\ UNCHANGED <<now, answered, heard, reached, replaced, elected, waited, beat, reply, contact, renewed, ended, first_ended>>

\* A round reaches the voter, which answers it.
Follow ==
    /\ (round # None)
    /\ ~replaced
    /\ round' = None
    /\ answered' = round
    /\ heard' = now
    /\ UNCHANGED <<now, reached, replaced, elected, waited, beat, reply, contact, renewed, ended, first_ended>>

\* The answer is there.
Reach ==
    /\ (answered # None)
    /\ answered' = None
    /\ reached' = MaxOf({reached, answered})
    /\ UNCHANGED <<now, round, heard, replaced, elected, waited, beat, reply, contact, renewed, ended, first_ended>>

\* The voter has not heard the first one for long enough; with a hint, which there may be at any time, the
\* suspicion time is enough.
Elect ==
    /\ ~replaced
    /\ (Suspicion <= (now - heard))
    /\ replaced' = TRUE
    /\ elected' = now
    /\ waited' = TRUE
    /\ renewed' = [renewed EXCEPT ![2] = now]
    /\ UNCHANGED <<now, round, answered, heard, reached, beat, reply, contact, ended, first_ended>>

\* The first one hands over: nobody waits for anything.
TakeOver ==
    /\ ~replaced
    /\ (0 < now)
    /\ replaced' = TRUE
    /\ elected' = now
    /\ waited' = FALSE
    /\ renewed' = [renewed EXCEPT ![2] = now]
    /\ UNCHANGED <<now, round, answered, heard, reached, beat, reply, contact, ended, first_ended>>

Beat ==
    /\ ~ended
    /\ beat' = now
    /\ UNCHANGED <<now, round, answered, heard, reached, replaced, elected, waited, reply, contact, renewed, ended, first_ended>>

\* The first controller answers while it is sure that there is no other.
AnswerFirst ==
    /\ (beat # None)
    /\ ~ended
    /\ ((now - reached) <= Suspicion)
    /\ (~replaced \/ waited)
    /\ beat' = None
    /\ reply' = beat
    /\ renewed' = [renewed EXCEPT ![1] = now]
    /\ UNCHANGED <<now, round, answered, heard, reached, replaced, elected, waited, contact, ended, first_ended>>

AnswerSecond ==
    /\ (beat # None)
    /\ ~ended
    /\ replaced
    /\ beat' = None
    /\ reply' = beat
    /\ renewed' = [renewed EXCEPT ![2] = now]
    /\ UNCHANGED <<now, round, answered, heard, reached, replaced, elected, waited, contact, ended, first_ended>>

\* A lease counts from when the heartbeat was sent.
Hear ==
    /\ (reply # None)
    /\ reply' = None
    /\ contact' = MaxOf({contact, reply})
    /\ UNCHANGED <<now, round, answered, heard, reached, replaced, elected, waited, beat, renewed, ended, first_ended>>

\* It has not answered for so long.
EndByFirst ==
    /\ ~replaced
    /\ ~ended
    /\ (0 < now)
    /\ (Patience <= (now - renewed[1]))
    /\ ended' = TRUE
    /\ UNCHANGED <<now, round, answered, heard, reached, replaced, elected, waited, beat, reply, contact, renewed, first_ended>>

\* A session is a whole one from the beginning of the term.
EndBySecond ==
    /\ replaced
    /\ ~ended
    /\ (Patience <= (now - renewed[2]))
    /\ ended' = TRUE
    /\ UNCHANGED <<now, round, answered, heard, reached, replaced, elected, waited, beat, reply, contact, renewed, first_ended>>

\* The first controller's session is older, if those who elected the second had waited.
EndFirst ==
    /\ replaced
    /\ ~first_ended
    /\ (Patience <= (IF waited THEN ((now - elected) + Suspicion) ELSE (now - elected)))
    /\ first_ended' = TRUE
    /\ UNCHANGED <<now, round, answered, heard, reached, replaced, elected, waited, beat, reply, contact, renewed, ended>>

Next ==
    \/ Pass
    \/ Begin
    \/ Follow
    \/ Reach
    \/ Elect
    \/ TakeOver
    \/ Beat
    \/ AnswerFirst
    \/ AnswerSecond
    \/ Hear
    \/ EndByFirst
    \/ EndBySecond
    \/ EndFirst

Spec == Init /\ [][Next]_vars

\* Whoever lives though its session has ended serves no more.
SilentBeforeReplaced ==
    ((ended => (Lease <= (now - contact))) /\ (first_ended => (Lease <= (now - reached))))

==============================================================================
