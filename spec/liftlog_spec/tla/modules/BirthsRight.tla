----------------------------- MODULE BirthsRight -----------------------------

\* Two births of three disks each, of which two are a quorum, and a disk that has signed nothing.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Birth, Number, Terms, Entries, Joiners, Crashes

VARIABLES
    complete, term, leads, log, told, durable, joined, crashes, committed

vars == <<complete, term, leads, log, told, durable, joined, crashes, committed>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ complete \in [Birth -> [Number -> BOOLEAN]]
    /\ term \in [Birth -> [Number -> (0..Terms)]]
    /\ leads \in [Birth -> [Number -> BOOLEAN]]
    /\ ((DOMAIN log = Birth) /\ (\A x \in Birth : ((DOMAIN log[x] = Number) /\ (\A x2 \in Number : ((log[x][x2] \in Seq([birth: Birth, term: (0..Terms)])) /\ (Len(log[x][x2]) <= Entries))))))
    /\ told \in (Birth \cup {None})
    /\ durable \in BOOLEAN
    /\ ((joined \in Seq([birth: Birth, term: (0..Terms)])) /\ (Len(joined) <= Entries))
    /\ crashes \in (0..Crashes)
    /\ ((DOMAIN committed = Birth) /\ (\A x \in Birth : ((committed[x] \in Seq([birth: Birth, term: (0..Terms)])) /\ (Len(committed[x]) <= Entries))))

LastTerm(log2) ==
    (IF (Len(log2) = 0) THEN 0 ELSE log2[(Len(log2) - 1) + 1].term)

\* Raft: that the entry before this one has the same place and term says that all before it agree.
FitsAt(mine, theirs, i) ==
    (IF (i = 0) THEN TRUE ELSE (IF (i <= Len(mine)) THEN (mine[(i - 1) + 1].term = theirs[(i - 1) + 1].term) ELSE FALSE))

\* The log with this entry: nothing is cut that has its term.
With(mine, theirs, i) ==
    (IF (IF (i < Len(mine)) THEN (mine[i + 1].term = theirs[i + 1].term) ELSE FALSE) THEN mine ELSE Append(SubSeq(mine, 1, MinOf({i, Len(mine)})), theirs[i + 1]))

Init ==
    /\ complete = [x \in Birth |-> [x2 \in Number |-> FALSE]]
    /\ term = [x \in Birth |-> [x2 \in Number |-> 0]]
    /\ leads = [x \in Birth |-> [x2 \in Number |-> FALSE]]
    /\ log = [x \in Birth |-> [x2 \in Number |-> <<>>]]
    /\ told = None
    /\ durable = FALSE
    /\ joined = <<>>
    /\ crashes = 0
    /\ committed = [x \in Birth |-> <<>>]

\* It hears that all have signed.
Complete(b, n) ==
    /\ ~(complete[b][n])
    /\ complete' = [complete EXCEPT ![b] = [complete[b] EXCEPT ![n] = TRUE]]
    /\ UNCHANGED <<term, leads, log, told, durable, joined, crashes, committed>>

\* Its own vote and that of one other number are a quorum.
Elect(a, n, b, m) ==
    /\ (n # m)
    /\ complete[a][n]
    /\ complete[b][m]
    /\ ((a = b) \/ ~((TRUE /\ TRUE)))
    /\ (IF (LastTerm(log[b][m]) < LastTerm(log[a][n])) THEN TRUE ELSE ((LastTerm(log[a][n]) = LastTerm(log[b][m])) /\ (Len(log[b][m]) <= Len(log[a][n]))))
    /\ ((MaxOf({term[a][n], term[b][m]}) + 1) <= Terms)
    /\ term' = [c \in Birth |-> [k \in Number |-> (IF (((c = a) /\ (k = n)) \/ ((c = b) /\ (k = m))) THEN (MaxOf({term[a][n], term[b][m]}) + 1) ELSE term[c][k])]]
    /\ leads' = [c \in Birth |-> [k \in Number |-> (((c = a) /\ (k = n)) \/ (leads[c][k] /\ ~(((c = b) /\ (k = m)))))]]
    /\ UNCHANGED <<complete, log, told, durable, joined, crashes, committed>>

Write(b, n) ==
    /\ leads[b][n]
    /\ (Len(log[b][n]) < Entries)
    /\ log' = [log EXCEPT ![b] = [log[b] EXCEPT ![n] = Append(log[b][n], [birth |-> b, term |-> term[b][n]])]]
    /\ UNCHANGED <<complete, term, leads, told, durable, joined, crashes, committed>>

\* An entry of a leader's log comes to another node, which need not know its birth to be complete.
Send(a, n, b, m, i) ==
    /\ (n # m)
    /\ leads[a][n]
    /\ (term[b][m] <= term[a][n])
    /\ ((a = b) \/ ~((TRUE /\ TRUE)))
    /\ (i < Len(log[a][n]))
    /\ FitsAt(log[b][m], log[a][n], i)
    /\ term' = [term EXCEPT ![b] = [term[b] EXCEPT ![m] = term[a][n]]]
    /\ leads' = [leads EXCEPT ![b] = [leads[b] EXCEPT ![m] = (leads[b][m] /\ (term[b][m] = term[a][n]))]]
    /\ log' = [log EXCEPT ![b] = [log[b] EXCEPT ![m] = With(log[b][m], log[a][n], i)]]
    /\ UNCHANGED <<complete, told, durable, joined, crashes, committed>>

\* One other number that is counted has it, in the leader's term.
Commit(a, n, b, m, length) ==
    /\ (n # m)
    /\ leads[a][n]
    /\ complete[b][m]
    /\ (term[b][m] = term[a][n])
    /\ ((a = b) \/ ~((TRUE /\ TRUE)))
    /\ (Len(committed[a]) < length)
    /\ (length <= Len(log[a][n]))
    /\ (length <= Len(log[b][m]))
    /\ (log[a][n][(length - 1) + 1].term = term[a][n])
    /\ (log[b][m][(length - 1) + 1].term = term[a][n])
    /\ committed' = [committed EXCEPT ![a] = SubSeq(log[a][n], 1, MinOf({length, Len(log[a][n])}))]
    /\ UNCHANGED <<complete, term, leads, log, told, durable, joined, crashes>>

\* The first leader of which it hears, or another one, while it has nothing of that one's.
Tell(b, n) ==
    /\ (Joiners = 1)
    /\ leads[b][n]
    /\ TRUE
    /\ (IF (told = None) THEN TRUE ELSE ((Len(joined) = 0) /\ (told # b)))
    /\ told' = b
    /\ durable' = FALSE
    /\ UNCHANGED <<complete, term, leads, log, joined, crashes, committed>>

Sync ==
    /\ (told # None)
    /\ ~durable
    /\ durable' = TRUE
    /\ UNCHANGED <<complete, term, leads, log, told, joined, crashes, committed>>

SendToJoiner(b, n, i) ==
    /\ (Joiners = 1)
    /\ leads[b][n]
    /\ (told # None)
    /\ (told = b)
    /\ durable
    /\ (i < Len(log[b][n]))
    /\ FitsAt(joined, log[b][n], i)
    /\ joined' = With(joined, log[b][n], i)
    /\ UNCHANGED <<complete, term, leads, log, told, durable, crashes, committed>>

\* It knows what its disk has.
Crash ==
    /\ (Joiners = 1)
    /\ (crashes < Crashes)
    /\ crashes' = (crashes + 1)
    /\ told' = (IF durable THEN told ELSE None)
    /\ UNCHANGED <<complete, term, leads, log, durable, joined, committed>>

Next ==
    \/ \E b \in Birth, n \in Number : Complete(b, n)
    \/ \E a \in Birth, n \in Number, b \in Birth, m \in Number : Elect(a, n, b, m)
    \/ \E b \in Birth, n \in Number : Write(b, n)
    \/ \E a \in Birth, n \in Number, b \in Birth, m \in Number, i \in (0..Entries - 1) : Send(a, n, b, m, i)
    \/ \E a \in Birth, n \in Number, b \in Birth, m \in Number, length \in (0..Entries) : Commit(a, n, b, m, length)
    \/ \E b \in Birth, n \in Number : Tell(b, n)
    \/ Sync
    \/ \E b \in Birth, n \in Number, i \in (0..Entries - 1) : SendToJoiner(b, n, i)
    \/ Crash

Spec == Init /\ [][Next]_vars

\* No log holds what two clusters have written, and no founder's what is not of its birth.
OneHistory ==
    ((\A b \in Birth : (\A n \in Number : (\A i \in (0)..(Len(log[b][n]) - 1) : (log[b][n][i + 1].birth = b)))) /\ (\E b \in Birth : (\A i \in (0)..(Len(joined) - 1) : (joined[i + 1].birth = b))))

\* Who leads in the term of what its cluster has committed, or in a later one, has it.
LeaderCompleteness ==
    (\A b \in Birth : (\A n \in Number : ((leads[b][n] /\ (LastTerm(committed[b]) <= term[b][n])) => (\A i \in (0)..(Len(committed[b]) - 1) : (IF (i < Len(log[b][n])) THEN (log[b][n][i + 1] = committed[b][i + 1]) ELSE FALSE)))))

\* What a cluster has committed is on two of its own disks.
CommittedOnQuorum ==
    (\A b \in Birth : (2 <= Cardinality({n \in Number : (\A i \in (0)..(Len(committed[b]) - 1) : (IF (i < Len(log[b][n])) THEN (log[b][n][i + 1] = committed[b][i + 1]) ELSE FALSE))})))

==============================================================================
