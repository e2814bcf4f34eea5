------------------------ MODULE RaftLengthBeforeTerm -------------------------

\* A group of voters, and how often each thing may happen.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Node, Nodes, Terms, Entries, Campaigns, Appends, Restarts

VARIABLES
    term, vote, log, role, commit, messages, decided, campaigns, appends, restarts, disk_term, disk_vote, disk_log

vars == <<term, vote, log, role, commit, messages, decided, campaigns, appends, restarts, disk_term, disk_vote, disk_log>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ term \in [Node -> (0..Terms)]
    /\ vote \in [Node -> (Node \cup {None})]
    /\ log \in [Node -> UNION {[1..n -> (0..Terms)] : n \in 0..Entries}]
    /\ role \in [Node -> {"follower", "candidate", "leader"}]
    /\ commit \in [Node -> (0..Entries)]
    /\ messages \in SUBSET [kind: {"ask", "vote", "append", "ack"}, term: (0..Terms), source: Node, to: (Node \cup {None}), index: (0..Entries), index_term: (0..Terms), entry: ((0..Terms) \cup {None}), commit: (0..Entries)]
    /\ decided \in [(0..Entries - 1) -> ([entry: (0..Terms), term: (0..Terms)] \cup {None})]
    /\ campaigns \in (0..Campaigns)
    /\ appends \in (0..Appends)
    /\ restarts \in (0..Restarts)
    /\ disk_term \in [Node -> (0..Terms)]
    /\ disk_vote \in [Node -> (Node \cup {None})]
    /\ disk_log \in [Node -> UNION {[1..n -> (0..Terms)] : n \in 0..Entries}]

LastTerm(n) ==
    (IF (Len(log[n]) = 0) THEN 0 ELSE log[n][(Len(log[n]) - 1) + 1])

\* Term of the last of the first `length` entries.
TermAt(n, length) ==
    (IF (length = 0) THEN 0 ELSE log[n][(length - 1) + 1])

Quorum(members) ==
    (Nodes < (Cardinality(members) + Cardinality(members)))

\* The voter's answer to the candidate may have arrived.
Voted(voter, n) ==
    ([kind |-> "vote", term |-> term[n], source |-> voter, to |-> n, index |-> 0, index_term |-> 0, entry |-> None, commit |-> 0] \in messages)

\* An answer that the other has so much of the leader's log may have arrived.
Acknowledged(other, n, index) ==
    (\E m \in messages : (((((m.kind = "ack") /\ (m.to = n)) /\ (m.term = term[n])) /\ (m.source = other)) /\ (index <= m.index)))

Init ==
    /\ term = [x \in Node |-> 0]
    /\ vote = [x \in Node |-> None]
    /\ log = [x \in Node |-> <<>>]
    /\ role = [x \in Node |-> "follower"]
    /\ commit = [x \in Node |-> 0]
    /\ messages = {}
    /\ decided = [x \in (0..Entries - 1) |-> None]
    /\ campaigns = 0
    /\ appends = 0
    /\ restarts = 0
    /\ disk_term = [x \in Node |-> 0]
    /\ disk_vote = [x \in Node |-> None]
    /\ disk_log = [x \in Node |-> <<>>]

\* A timeout: a new term, a vote for oneself.
Campaign(n) ==
    /\ (role[n] # "leader")
    /\ (campaigns < Campaigns)
    /\ (term[n] < Terms)
    /\ campaigns' = (campaigns + 1)
    /\ term' = [term EXCEPT ![n] = (term[n] + 1)]
    /\ vote' = [vote EXCEPT ![n] = n]
    /\ role' = [role EXCEPT ![n] = "candidate"]
    /\ disk_term' = [disk_term EXCEPT ![n] = (term[n] + 1)]
    /\ disk_vote' = [disk_vote EXCEPT ![n] = n]
    /\ messages' = (messages \cup {[kind |-> "ask", term |-> (term[n] + 1), source |-> n, to |-> None, index |-> Len(log[n]), index_term |-> LastTerm(n), entry |-> None, commit |-> 0]})
    /\ UNCHANGED <<log, commit, decided, appends, restarts, disk_log>>

\* At most one vote in a term, and only for a log that is at least as new.
GrantVote(n) ==
    /\ \E request \in messages :
        /\ (request.kind = "ask")
        /\ (request.source # n)
        /\ (term[n] <= request.term)
        /\ (((term[n] < request.term) \/ (vote[n] = request.source)) \/ ((vote[n] = None) /\ (role[n] = "follower")))
        /\ ((Len(log[n]) < request.index) \/ ((request.index = Len(log[n])) /\ (LastTerm(n) <= request.index_term)))
        /\ term' = [term EXCEPT ![n] = request.term]
        /\ vote' = [vote EXCEPT ![n] = request.source]
        /\ role' = [role EXCEPT ![n] = "follower"]
        /\ disk_term' = [disk_term EXCEPT ![n] = request.term]
        /\ disk_vote' = [disk_vote EXCEPT ![n] = request.source]
        /\ messages' = (messages \cup {[kind |-> "vote", term |-> request.term, source |-> n, to |-> request.source, index |-> 0, index_term |-> 0, entry |-> None, commit |-> 0]})
        /\ UNCHANGED <<log, commit, decided, campaigns, appends, restarts, disk_log>>

\* A quorum has voted for it.
BecomeLeader(n) ==
    /\ (role[n] = "candidate")
    /\ Quorum({voter \in Node : ((voter = n) \/ Voted(voter, n))})
    /\ role' = [role EXCEPT ![n] = "leader"]
    /\ UNCHANGED <<term, vote, log, commit, messages, decided, campaigns, appends, restarts, disk_term, disk_vote, disk_log>>

\* A newer term was heard of; who asks for a vote is answered by GrantVote.
StepDown(n) ==
    /\ \E newer \in messages :
        /\ (newer.source # n)
        /\ (term[n] < newer.term)
        /\ term' = [term EXCEPT ![n] = newer.term]
        /\ vote' = [vote EXCEPT ![n] = None]
        /\ role' = [role EXCEPT ![n] = "follower"]
        /\ disk_term' = [disk_term EXCEPT ![n] = newer.term]
        /\ disk_vote' = [disk_vote EXCEPT ![n] = None]
        /\ UNCHANGED <<log, commit, messages, decided, campaigns, appends, restarts, disk_log>>

\* The leader writes an entry of its term, on disk before it counts for itself.
Propose(n) ==
    /\ (role[n] = "leader")
    /\ (Len(log[n]) < Entries)
    /\ log' = [log EXCEPT ![n] = Append(log[n], term[n])]
    /\ disk_log' = [disk_log EXCEPT ![n] = Append(log[n], term[n])]
    /\ UNCHANGED <<term, vote, role, commit, messages, decided, campaigns, appends, restarts, disk_term, disk_vote>>

\* One entry, or none, from any place on.
Replicate(n, to, before) ==
    /\ (role[n] = "leader")
    /\ (to # n)
    /\ (before <= Len(log[n]))
    /\ (appends < Appends)
    /\ appends' = (appends + 1)
    /\ messages' = (messages \cup {[kind |-> "append", term |-> term[n], source |-> n, to |-> to, index |-> before, index_term |-> TermAt(n, before), entry |-> (IF (before < Len(log[n])) THEN log[n][before + 1] ELSE None), commit |-> commit[n]]})
    /\ UNCHANGED <<term, vote, log, role, commit, decided, campaigns, restarts, disk_term, disk_vote, disk_log>>

\* The entry before agrees: cut what differs, append, acknowledge what is now known to be equal.
Accept(n) ==
    /\ \E append \in messages :
        /\ (append.kind = "append")
        /\ (append.to = n)
        /\ (term[n] <= append.term)
        /\ (append.index <= Len(log[n]))
        /\ (TermAt(n, append.index) = append.index_term)
        /\ log' = [log EXCEPT ![n] = (IF (~((append.entry # None)) \/ ((append.index < Len(log[n])) /\ (log[n][append.index + 1] = append.entry))) THEN log[n] ELSE Append(SubSeq(log[n], 1, MinOf({append.index, Len(log[n])})), append.entry))]
        /\ term' = [term EXCEPT ![n] = append.term]
        /\ role' = [role EXCEPT ![n] = "follower"]
        /\ vote' = [vote EXCEPT ![n] = (IF (term[n] < append.term) THEN None ELSE vote[n])]
        /\ commit' = [commit EXCEPT ![n] = MaxOf({commit[n], MinOf({append.commit, (IF (append.entry # None) THEN (append.index + 1) ELSE append.index)})})]
        /\ disk_term' = [disk_term EXCEPT ![n] = append.term]
        /\ disk_vote' = [disk_vote EXCEPT ![n] = (IF (term[n] < append.term) THEN None ELSE vote[n])]
        /\ disk_log' = [disk_log EXCEPT ![n] = (IF (~((append.entry # None)) \/ ((append.index < Len(log[n])) /\ (log[n][append.index + 1] = append.entry))) THEN log[n] ELSE Append(SubSeq(log[n], 1, MinOf({append.index, Len(log[n])})), append.entry))]
        /\ messages' = (messages \cup {[kind |-> "ack", term |-> append.term, source |-> n, to |-> append.source, index |-> (IF (append.entry # None) THEN (append.index + 1) ELSE append.index), index_term |-> 0, entry |-> None, commit |-> 0]})
        /\ UNCHANGED <<decided, campaigns, appends, restarts>>

\* An entry of the leader's own term that a quorum has on disk, and everything before it.
Commit(n, index) ==
    /\ (role[n] = "leader")
    /\ (commit[n] < index)
    /\ (index <= Len(log[n]))
    /\ (TermAt(n, index) = term[n])
    /\ Quorum({other \in Node : ((other = n) \/ Acknowledged(other, n, index))})
    /\ commit' = [commit EXCEPT ![n] = index]
    /\ decided' = [i \in (0..Entries - 1) |-> (IF ((i < index) /\ (decided[i] = None)) THEN [entry |-> log[n][i + 1], term |-> term[n]] ELSE decided[i])]
    /\ UNCHANGED <<term, vote, log, role, messages, campaigns, appends, restarts, disk_term, disk_vote, disk_log>>

\* Memory is gone, the disk is not.
Restart(n) ==
    /\ (restarts < Restarts)
    /\ restarts' = (restarts + 1)
    /\ term' = [term EXCEPT ![n] = disk_term[n]]
    /\ vote' = [vote EXCEPT ![n] = disk_vote[n]]
    /\ log' = [log EXCEPT ![n] = disk_log[n]]
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ commit' = [commit EXCEPT ![n] = 0]
    /\ UNCHANGED <<messages, decided, campaigns, appends, disk_term, disk_vote, disk_log>>

Next ==
    \/ \E n \in Node : Campaign(n)
    \/ \E n \in Node : GrantVote(n)
    \/ \E n \in Node : BecomeLeader(n)
    \/ \E n \in Node : StepDown(n)
    \/ \E n \in Node : Propose(n)
    \/ \E n \in Node, to \in Node, before \in (0..Entries) : Replicate(n, to, before)
    \/ \E n \in Node : Accept(n)
    \/ \E n \in Node, index \in (0..Entries) : Commit(n, index)
    \/ \E n \in Node : Restart(n)

Spec == Init /\ [][Next]_vars

\* At most one leader in a term.
ElectionSafety ==
    (\A a \in Node : (\A b \in Node : ((((role[a] = "leader") /\ (role[b] = "leader")) /\ (term[a] = term[b])) => (a = b))))

\* Two logs with the same entry agree on everything before it.
LogMatching ==
    (\A a \in Node : (\A b \in Node : (\A i \in (0)..(Entries - 1) : ((((i < Len(log[a])) /\ (i < Len(log[b]))) /\ (log[a][i + 1] = log[b][i + 1])) => (\A j \in (0)..(i - 1) : (log[a][j + 1] = log[b][j + 1]))))))

\* Nobody has committed another entry at an index than was committed there first.
StateMachineSafety ==
    (\A n \in Node : (\A i \in (0..Entries - 1) : ((i < commit[n]) => ((decided[i] # None) /\ (decided[i].entry = log[n][i + 1])))))

\* A leader has every entry that was committed in an earlier term.
LeaderCompleteness ==
    (\A n \in Node : (\A i \in (0..Entries - 1) : (((role[n] = "leader") /\ ((decided[i] # None) /\ (decided[i].term < term[n]))) => ((i < Len(log[n])) /\ (log[n][i + 1] = decided[i].entry)))))

==============================================================================
