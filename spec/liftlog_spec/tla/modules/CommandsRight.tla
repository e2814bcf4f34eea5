---------------------------- MODULE CommandsRight ----------------------------

\* The group's log, as far as it is about one name.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Request, Entries, Span

VARIABLES
    index, bearer, deleted, remembered, client, creates, sent, meant, as_of, until, known, left, effects, wrong

vars == <<index, bearer, deleted, remembered, client, creates, sent, meant, as_of, until, known, left, effects, wrong>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ index \in (0..Entries)
    /\ bearer \in (0..Entries)
    /\ deleted \in (0..Entries)
    /\ remembered \in SUBSET Request
    /\ client \in [Request -> {"idle", "there", "gone"}]
    /\ creates \in [Request -> BOOLEAN]
    /\ sent \in [Request -> BOOLEAN]
    /\ meant \in [Request -> (0..Entries)]
    /\ as_of \in [Request -> (0..Entries)]
    /\ until \in [Request -> (0..Entries)]
    /\ known \in [Request -> SUBSET (0..Entries)]
    /\ left \in [Request -> (0..Entries)]
    /\ effects \in [Request -> (0..2)]
    /\ wrong \in BOOLEAN

Init ==
    /\ index = 0
    /\ bearer = 0
    /\ deleted = 0
    /\ remembered = {}
    /\ client = [x \in Request |-> "idle"]
    /\ creates = [x \in Request |-> FALSE]
    /\ sent = [x \in Request |-> FALSE]
    /\ meant = [x \in Request |-> 0]
    /\ as_of = [x \in Request |-> 0]
    /\ until = [x \in Request |-> 0]
    /\ known = [x \in Request |-> {}]
    /\ left = [x \in Request |-> 0]
    /\ effects = [x \in Request |-> 0]
    /\ wrong = FALSE

Ask(r, creates2) ==
    /\ (client[r] = "idle")
    /\ client' = [client EXCEPT ![r] = "there"]
    /\ creates' = [creates EXCEPT ![r] = creates2]
    /\ known' = [known EXCEPT ![r] = {bearer}]
    /\ UNCHANGED <<index, bearer, deleted, remembered, sent, meant, as_of, until, left, effects, wrong>>

\* Or it has its answer.
GiveUp(r) ==
    /\ (client[r] = "there")
    /\ client' = [client EXCEPT ![r] = "gone"]
    /\ left' = [left EXCEPT ![r] = index]
    /\ UNCHANGED <<index, bearer, deleted, remembered, creates, sent, meant, as_of, until, known, effects, wrong>>

\* A read-index round that began when it was asked says what bears the name; the command is sent.
Resolve(r) ==
    /\ ~(sent[r])
    /\ (creates[r] \/ (bearer # 0))
    /\ (client[r] = "there")
    /\ sent' = [sent EXCEPT ![r] = TRUE]
    /\ meant' = [meant EXCEPT ![r] = bearer]
    /\ as_of' = [as_of EXCEPT ![r] = index]
    /\ until' = [until EXCEPT ![r] = MinOf({(index + Span), Entries})]
    /\ UNCHANGED <<index, bearer, deleted, remembered, client, creates, known, left, effects, wrong>>

\* M3: a command comes to the log, for the first time or again.
Arrive(r) ==
    /\ sent[r]
    /\ (index < Entries)
    /\ (index < Entries)
    /\ effects' = [effects EXCEPT ![r] = MinOf({(effects[r] + (IF (((((~((r \in remembered)) /\ ((index + 1) <= until[r])) /\ ~(creates[r])) /\ (bearer # 0)) /\ (bearer = meant[r])) \/ ((((~((r \in remembered)) /\ ((index + 1) <= until[r])) /\ creates[r]) /\ (bearer = 0)) /\ (deleted <= as_of[r]))) THEN 1 ELSE 0)), 2})]
    /\ wrong' = ((wrong \/ (((((~((r \in remembered)) /\ ((index + 1) <= until[r])) /\ ~(creates[r])) /\ (bearer # 0)) /\ (bearer = meant[r])) /\ ~((bearer \in known[r])))) \/ ((((((~((r \in remembered)) /\ ((index + 1) <= until[r])) /\ creates[r]) /\ (bearer = 0)) /\ (deleted <= as_of[r])) /\ (client[r] = "gone")) /\ (left[r] < deleted)))
    /\ index' = (index + 1)
    /\ bearer' = (IF ((((~((r \in remembered)) /\ ((index + 1) <= until[r])) /\ ~(creates[r])) /\ (bearer # 0)) /\ (bearer = meant[r])) THEN 0 ELSE (IF ((((~((r \in remembered)) /\ ((index + 1) <= until[r])) /\ creates[r]) /\ (bearer = 0)) /\ (deleted <= as_of[r])) THEN (index + 1) ELSE bearer))
    /\ deleted' = (IF ((((~((r \in remembered)) /\ ((index + 1) <= until[r])) /\ ~(creates[r])) /\ (bearer # 0)) /\ (bearer = meant[r])) THEN (index + 1) ELSE deleted)
    /\ remembered' = {q \in Request : (((q \in remembered) \/ (q = r)) /\ ((index + 1) < until[q]))}
    /\ known' = [q \in Request |-> (IF (client[q] = "there") THEN (known[q] \cup {(IF ((((~((r \in remembered)) /\ ((index + 1) <= until[r])) /\ ~(creates[r])) /\ (bearer # 0)) /\ (bearer = meant[r])) THEN 0 ELSE (IF ((((~((r \in remembered)) /\ ((index + 1) <= until[r])) /\ creates[r]) /\ (bearer = 0)) /\ (deleted <= as_of[r])) THEN (index + 1) ELSE bearer))}) ELSE known[q])]
    /\ UNCHANGED <<client, creates, sent, meant, as_of, until, left>>

\* Somebody else, in time and at once.
OtherCreates ==
    /\ (bearer = 0)
    /\ (index < Entries)
    /\ (index < Entries)
    /\ index' = (index + 1)
    /\ bearer' = (index + 1)
    /\ deleted' = deleted
    /\ remembered' = {q \in Request : ((q \in remembered) /\ ((index + 1) < until[q]))}
    /\ known' = [q \in Request |-> (IF (client[q] = "there") THEN (known[q] \cup {(index + 1)}) ELSE known[q])]
    /\ UNCHANGED <<client, creates, sent, meant, as_of, until, left, effects, wrong>>

OtherDeletes ==
    /\ (bearer # 0)
    /\ (index < Entries)
    /\ (index < Entries)
    /\ index' = (index + 1)
    /\ bearer' = 0
    /\ deleted' = (index + 1)
    /\ remembered' = {q \in Request : ((q \in remembered) /\ ((index + 1) < until[q]))}
    /\ known' = [q \in Request |-> (IF (client[q] = "there") THEN (known[q] \cup {0}) ELSE known[q])]
    /\ UNCHANGED <<client, creates, sent, meant, as_of, until, left, effects, wrong>>

\* A command about something else.
Other ==
    /\ (index < Entries)
    /\ index' = (index + 1)
    /\ bearer' = bearer
    /\ deleted' = deleted
    /\ remembered' = {q \in Request : ((q \in remembered) /\ ((index + 1) < until[q]))}
    /\ known' = [q \in Request |-> (IF (client[q] = "there") THEN (known[q] \cup {bearer}) ELSE known[q])]
    /\ UNCHANGED <<client, creates, sent, meant, as_of, until, left, effects, wrong>>

Next ==
    \/ \E r \in Request, creates2 \in BOOLEAN : Ask(r, creates2)
    \/ \E r \in Request : GiveUp(r)
    \/ \E r \in Request : Resolve(r)
    \/ \E r \in Request : Arrive(r)
    \/ OtherCreates
    \/ OtherDeletes
    \/ Other

Spec == Init /\ [][Next]_vars

TakesEffectOnce ==
    (\A r \in Request : (effects[r] <= 1))

\* A deletion deletes what bore the name while its author was there; no creation brings back what was deleted
\* after he had gone.
AsMeant ==
    ~wrong

==============================================================================
