--------------------------- MODULE TwoPhasePatient ---------------------------

\* Gray and Lamport, "Consensus on Transaction Commit" (2006), section 3.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Node

VARIABLES
    participant, coordinator, heard, sent

vars == <<participant, coordinator, heard, sent>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ participant \in [Node -> {"working", "prepared", "committed", "aborted"}]
    /\ coordinator \in {"open", "committed", "aborted"}
    /\ heard \in SUBSET Node
    /\ sent \in SUBSET [kind: {"prepared", "commit", "abort"}, node: (Node \cup {None})]

\* A definition: a name for something that one says of a state.
Told(kind) ==
    ([kind |-> kind, node |-> None] \in sent)

Init ==
    /\ participant = [x \in Node |-> "working"]
    /\ coordinator = "open"
    /\ heard = {}
    /\ sent = {}

\* A participant has done its part and promises to commit if told so.
Prepare(node) ==
    /\ (participant[node] = "working")
    /\ participant' = [participant EXCEPT ![node] = "prepared"]
    /\ sent' = (sent \cup {[kind |-> "prepared", node |-> node]})
    /\ UNCHANGED <<coordinator, heard>>

\* Until it has promised, a participant may abort on its own.
GiveUp(node) ==
    /\ (participant[node] = "working")
    /\ participant' = [participant EXCEPT ![node] = "aborted"]
    /\ UNCHANGED <<coordinator, heard, sent>>

\* The coordinator reads a promise.
Hear(node) ==
    /\ (coordinator = "open")
    /\ ([kind |-> "prepared", node |-> node] \in sent)
    /\ heard' = (heard \cup {node})
    /\ UNCHANGED <<participant, coordinator, sent>>

Commit ==
    /\ (coordinator = "open")
    /\ (heard = Node)
    /\ coordinator' = "committed"
    /\ sent' = (sent \cup {[kind |-> "commit", node |-> None]})
    /\ UNCHANGED <<participant, heard>>

\* The coordinator may lose patience at any time before it has decided.
Abort ==
    /\ (coordinator = "open")
    /\ coordinator' = "aborted"
    /\ sent' = (sent \cup {[kind |-> "abort", node |-> None]})
    /\ UNCHANGED <<participant, heard>>

Obey(node) ==
    /\ Told("commit")
    /\ participant' = [participant EXCEPT ![node] = "committed"]
    /\ UNCHANGED <<coordinator, heard, sent>>

ObeyAbort(node) ==
    /\ Told("abort")
    /\ participant' = [participant EXCEPT ![node] = "aborted"]
    /\ UNCHANGED <<coordinator, heard, sent>>

Next ==
    \/ \E node \in Node : Prepare(node)
    \/ \E node \in Node : GiveUp(node)
    \/ \E node \in Node : Hear(node)
    \/ Commit
    \/ Abort
    \/ \E node \in Node : Obey(node)
    \/ \E node \in Node : ObeyAbort(node)

Spec == Init /\ [][Next]_vars

AllOrNothing ==
    (\A a \in Node : (\A b \in Node : ~(((participant[a] = "aborted") /\ (participant[b] = "committed")))))

==============================================================================
