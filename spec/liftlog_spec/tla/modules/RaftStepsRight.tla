--------------------------- MODULE RaftStepsRight ----------------------------

\* Servers, some of which vote at first; the others may be added.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Node, Terms, Entries, Campaigns, Appends, Batch, Writes, Restarts, Losses, Voters, Learning, Changes, Snapshots

VARIABLES
    term, vote, log, barred, role, commit, disk, writes, held, messages, decided, decisions, campaigns, appends, restarts, losses, first, changes

vars == <<term, vote, log, barred, role, commit, disk, writes, held, messages, decided, decisions, campaigns, appends, restarts, losses, first, changes>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ term \in [Node -> (0..Terms)]
    /\ vote \in [Node -> (Node \cup {None})]
    /\ ((DOMAIN log = Node) /\ (\A x \in Node : ((log[x] \in Seq((0..Terms))) /\ (Len(log[x]) <= Entries))))
    /\ barred \in [Node -> BOOLEAN]
    /\ role \in [Node -> {"follower", "candidate", "leader"}]
    /\ commit \in [Node -> (0..Entries)]
    /\ ((DOMAIN disk = Node) /\ (\A x \in Node : ((DOMAIN disk[x] = {"term", "vote", "log", "barred"}) /\ disk[x].term \in (0..Terms) /\ disk[x].vote \in (Node \cup {None}) /\ ((disk[x].log \in Seq((0..Terms))) /\ (Len(disk[x].log) <= Entries)) /\ disk[x].barred \in BOOLEAN)))
    /\ ((DOMAIN writes = Node) /\ (\A x \in Node : ((Len(writes[x]) <= Writes) /\ (\A i \in 1..Len(writes[x]) : ((DOMAIN writes[x][i] = {"term", "vote", "log", "barred"}) /\ writes[x][i].term \in (0..Terms) /\ writes[x][i].vote \in (Node \cup {None}) /\ ((writes[x][i].log \in Seq((0..Terms))) /\ (Len(writes[x][i].log) <= Entries)) /\ writes[x][i].barred \in BOOLEAN)))))
    /\ ((DOMAIN held = Node) /\ (\A x \in Node : (\A x2 \in held[x] : ((DOMAIN x2 = {"kind", "term", "source", "to", "index", "index_term", "entries", "commit"}) /\ x2.kind \in {"ask", "vote", "append", "ack"} /\ x2.term \in (0..Terms) /\ x2.source \in Node /\ x2.to \in (Node \cup {None}) /\ x2.index \in (0..Entries) /\ x2.index_term \in (0..Terms) /\ ((x2.entries \in Seq((0..Terms))) /\ (Len(x2.entries) <= Batch)) /\ x2.commit \in (0..Entries)))))
    /\ (\A x \in messages : ((DOMAIN x = {"kind", "term", "source", "to", "index", "index_term", "entries", "commit"}) /\ x.kind \in {"ask", "vote", "append", "ack"} /\ x.term \in (0..Terms) /\ x.source \in Node /\ x.to \in (Node \cup {None}) /\ x.index \in (0..Entries) /\ x.index_term \in (0..Terms) /\ ((x.entries \in Seq((0..Terms))) /\ (Len(x.entries) <= Batch)) /\ x.commit \in (0..Entries)))
    /\ ((decided \in Seq((0..Terms))) /\ (Len(decided) <= Entries))
    /\ ((decisions \in Seq([upto: (0..Entries), term: (0..Terms)])) /\ (Len(decisions) <= Entries))
    /\ campaigns \in (0..Campaigns)
    /\ appends \in (0..Appends)
    /\ restarts \in (0..Restarts)
    /\ losses \in (0..Losses)
    /\ first \in [voters: SUBSET Node, learners: SUBSET Node]
    /\ ((changes \in Seq([index: (0..Entries), term: (0..Terms), config: [voters: SUBSET Node, learners: SUBSET Node]])) /\ (Len(changes) <= Changes))

LastTerm(log2) ==
    (IF (Len(log2) = 0) THEN 0 ELSE log2[(Len(log2) - 1) + 1])

\* Term of the last of the first `length` entries.
TermAt(log2, length) ==
    (IF (length = 0) THEN 0 ELSE log2[(length - 1) + 1])

\* More than half of the voters, in the eyes of `n`.
Quorum(n, config, members) ==
    (Cardinality(config.voters) < (Cardinality((members \cap config.voters)) + Cardinality((members \cap config.voters))))

KeepsVote(image, term2, vote2) ==
    ((image.term = term2) /\ (image.vote = vote2))

KeepsEntries(image, term2, index, index_term) ==
    (((image.term = term2) /\ (index <= Len(image.log))) /\ (TermAt(image.log, index) = index_term))

\* This image of a disk keeps what the answer promises.
Backed(image, m) ==
    (IF (m.kind = "ack") THEN KeepsEntries(image, m.term, m.index, m.index_term) ELSE KeepsVote(image, m.term, (IF (m.kind = "ask") THEN m.source ELSE m.to)))

\* The voter's answer to the candidate may have arrived.
Voted(voter, n) ==
    ([kind |-> "vote", term |-> term[n], source |-> voter, to |-> n, index |-> 0, index_term |-> 0, entries |-> <<>>, commit |-> 0] \in messages)

\* An answer that the other has so much of the leader's log may have arrived.
Acknowledged(other, n, index) ==
    (\E m \in messages : (((((m.kind = "ack") /\ (m.to = n)) /\ (m.term = term[n])) /\ (m.source = other)) /\ (index <= m.index)))

\* The disk after so many of the writes under way.
After(n, written) ==
    (IF (written = 0) THEN disk[n] ELSE writes[n][(written - 1) + 1])

\* Which change is the last in the first `length` entries, counted from 1; 0: there is none.
Newest(log2, length) ==
    MaxOf({(IF (((0 < k) /\ (changes[(k - 1) + 1].index <= length)) /\ (TermAt(log2, changes[(k - 1) + 1].index) = changes[(k - 1) + 1].term)) THEN k ELSE 0) : k \in (0)..((Len(changes) + 1) - 1)})

\* The configuration that the first `length` entries end with.
ConfigAt(log2, length) ==
    (IF (Newest(log2, length) = 0) THEN first ELSE changes[(Newest(log2, length) - 1) + 1].config)

\* What a server goes by.
ConfigOf(n) ==
    ConfigAt(log[n], Len(log[n]))

Init ==
    \E leader \in Node :
        \E other \in Node :
            \E another \in Node :
                /\ (Cardinality((Node \ {n \in Node : ((n # leader) /\ ((n = other) \/ (n = another)))})) = Voters)
                /\ term = [n \in Node |-> (IF (n \in (Node \ {n2 \in Node : ((n2 # leader) /\ ((n2 = other) \/ (n2 = another)))})) THEN 1 ELSE 0)]
                /\ vote = [n \in Node |-> (IF (n \in (Node \ {n2 \in Node : ((n2 # leader) /\ ((n2 = other) \/ (n2 = another)))})) THEN leader ELSE None)]
                /\ log = [x \in Node |-> <<>>]
                /\ barred = [x \in Node |-> FALSE]
                /\ role = [[x \in Node |-> "follower"] EXCEPT ![leader] = "leader"]
                /\ commit = [x \in Node |-> 0]
                /\ disk = [n \in Node |-> (IF (n \in (Node \ {n2 \in Node : ((n2 # leader) /\ ((n2 = other) \/ (n2 = another)))})) THEN [term |-> 1, vote |-> leader, log |-> <<>>, barred |-> FALSE] ELSE [term |-> 0, vote |-> None, log |-> <<>>, barred |-> FALSE])]
                /\ writes = [x \in Node |-> <<>>]
                /\ held = [x \in Node |-> {}]
                /\ messages = {}
                /\ decided = <<>>
                /\ decisions = <<>>
                /\ campaigns = 0
                /\ appends = 0
                /\ restarts = 0
                /\ losses = 0
                /\ first = [voters |-> (Node \ {n \in Node : ((n # leader) /\ ((n = other) \/ (n = another)))}), learners |-> (IF (Learning = 1) THEN {n \in Node : ((n # leader) /\ ((n = other) \/ (n = another)))} ELSE {})]
                /\ changes = <<>>

\* A timeout: a new term, a vote for oneself; others are asked once that is on disk (M1a).
Campaign(n) ==
    /\ (role[n] # "leader")
    /\ ~(barred[n])
    /\ (IF (n \in ConfigOf(n).voters) THEN TRUE ELSE (((0 < Newest(log[n], Len(log[n]))) /\ (commit[n] < changes[(Newest(log[n], Len(log[n])) - 1) + 1].index)) /\ (n \in (IF (Newest(log[n], Len(log[n])) <= 1) THEN first ELSE changes[(Newest(log[n], Len(log[n])) - 2) + 1].config).voters)))
    /\ (campaigns < Campaigns)
    /\ (term[n] < Terms)
    /\ ((((term[n] = (term[n] + 1)) /\ (vote[n] = n)) \/ (Writes = 0)) \/ (Len(writes[n]) < Writes))
    /\ campaigns' = (campaigns + 1)
    /\ role' = [role EXCEPT ![n] = "candidate"]
    /\ writes' = [writes EXCEPT ![n] = (IF (((term[n] = (term[n] + 1)) /\ (vote[n] = n)) \/ (Writes = 0)) THEN writes[n] ELSE Append(writes[n], [term |-> (term[n] + 1), vote |-> n, log |-> log[n], barred |-> barred[n]]))]
    /\ disk' = [disk EXCEPT ![n] = (IF (Writes = 0) THEN [term |-> (term[n] + 1), vote |-> n, log |-> log[n], barred |-> barred[n]] ELSE disk[n])]
    /\ term' = [term EXCEPT ![n] = (term[n] + 1)]
    /\ vote' = [vote EXCEPT ![n] = n]
    /\ messages' = (IF ((Writes = 0) \/ FALSE) THEN (messages \cup {[kind |-> "ask", term |-> (term[n] + 1), source |-> n, to |-> None, index |-> Len(log[n]), index_term |-> LastTerm(log[n]), entries |-> <<>>, commit |-> 0]}) ELSE messages)
    /\ held' = [held EXCEPT ![n] = (IF ((Writes = 0) \/ FALSE) THEN held[n] ELSE (held[n] \cup {[kind |-> "ask", term |-> (term[n] + 1), source |-> n, to |-> None, index |-> Len(log[n]), index_term |-> LastTerm(log[n]), entries |-> <<>>, commit |-> 0]}))]
    /\ UNCHANGED <<log, barred, commit, decided, decisions, appends, restarts, losses, first, changes>>

\* At most one vote in a term, and only for a log that is at least as new (M1a, M1b).
GrantVote(n) ==
    /\ \E request \in messages :
        /\ (request.kind = "ask")
        /\ (request.source # n)
        /\ (term[n] <= request.term)
        /\ ~(barred[n])
        /\ (((term[n] < request.term) \/ (vote[n] = request.source)) \/ ((vote[n] = None) /\ (role[n] = "follower")))
        /\ (IF (LastTerm(log[n]) < request.index_term) THEN TRUE ELSE ((request.index_term = LastTerm(log[n])) /\ (Len(log[n]) <= request.index)))
        /\ ((((term[n] = request.term) /\ (vote[n] = request.source)) \/ (Writes = 0)) \/ (Len(writes[n]) < Writes))
        /\ role' = [role EXCEPT ![n] = "follower"]
        /\ writes' = [writes EXCEPT ![n] = (IF (((term[n] = request.term) /\ (vote[n] = request.source)) \/ (Writes = 0)) THEN writes[n] ELSE Append(writes[n], [term |-> request.term, vote |-> request.source, log |-> log[n], barred |-> barred[n]]))]
        /\ disk' = [disk EXCEPT ![n] = (IF (Writes = 0) THEN [term |-> request.term, vote |-> request.source, log |-> log[n], barred |-> barred[n]] ELSE disk[n])]
        /\ term' = [term EXCEPT ![n] = request.term]
        /\ vote' = [vote EXCEPT ![n] = request.source]
        /\ messages' = (IF ((Writes = 0) \/ KeepsVote(disk[n], request.term, request.source)) THEN (messages \cup {[kind |-> "vote", term |-> request.term, source |-> n, to |-> request.source, index |-> 0, index_term |-> 0, entries |-> <<>>, commit |-> 0]}) ELSE messages)
        /\ held' = [held EXCEPT ![n] = (IF ((Writes = 0) \/ KeepsVote(disk[n], request.term, request.source)) THEN held[n] ELSE (held[n] \cup {[kind |-> "vote", term |-> request.term, source |-> n, to |-> request.source, index |-> 0, index_term |-> 0, entries |-> <<>>, commit |-> 0]}))]
        /\ UNCHANGED <<log, barred, commit, decided, decisions, campaigns, appends, restarts, losses, first, changes>>

\* A quorum has voted for it; its own vote counts once it is on disk (M1a).
BecomeLeader(n) ==
    /\ (role[n] = "candidate")
    /\ (disk[n].term = term[n])
    /\ (disk[n].vote = n)
    /\ Quorum(n, ConfigOf(n), {voter \in Node : ((voter = n) \/ Voted(voter, n))})
    /\ role' = [role EXCEPT ![n] = "leader"]
    /\ UNCHANGED <<term, vote, log, barred, commit, disk, writes, held, messages, decided, decisions, campaigns, appends, restarts, losses, first, changes>>

\* A newer term was heard of, in whatever message; or a candidate or leader gives up (M1e, M1n).
StepDown(n, term2) ==
    /\ ((term[n] < term2) \/ ((term2 = term[n]) /\ (role[n] # "follower")))
    /\ ((term[n] < term2) => (\E other \in Node : (term2 <= disk[other].term)))
    /\ ((((term[n] = term2) /\ (vote[n] = (IF (term[n] < term2) THEN None ELSE vote[n]))) \/ (Writes = 0)) \/ (Len(writes[n]) < Writes))
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ writes' = [writes EXCEPT ![n] = (IF (((term[n] = term2) /\ (vote[n] = (IF (term[n] < term2) THEN None ELSE vote[n]))) \/ (Writes = 0)) THEN writes[n] ELSE Append(writes[n], [term |-> term2, vote |-> (IF (term[n] < term2) THEN None ELSE vote[n]), log |-> log[n], barred |-> barred[n]]))]
    /\ disk' = [disk EXCEPT ![n] = (IF (Writes = 0) THEN [term |-> term2, vote |-> (IF (term[n] < term2) THEN None ELSE vote[n]), log |-> log[n], barred |-> barred[n]] ELSE disk[n])]
    /\ term' = [term EXCEPT ![n] = term2]
    /\ vote' = [vote EXCEPT ![n] = (IF (term[n] < term2) THEN None ELSE vote[n])]
    /\ UNCHANGED <<log, barred, commit, held, messages, decided, decisions, campaigns, appends, restarts, losses, first, changes>>

\* The leader appends an entry of its term.
Propose(n) ==
    /\ (role[n] = "leader")
    /\ (Len(log[n]) < Entries)
    /\ (((log[n] = Append(log[n], term[n])) \/ (Writes = 0)) \/ (Len(writes[n]) < Writes))
    /\ writes' = [writes EXCEPT ![n] = (IF ((log[n] = Append(log[n], term[n])) \/ (Writes = 0)) THEN writes[n] ELSE Append(writes[n], [term |-> term[n], vote |-> vote[n], log |-> Append(log[n], term[n]), barred |-> barred[n]]))]
    /\ disk' = [disk EXCEPT ![n] = (IF (Writes = 0) THEN [term |-> term[n], vote |-> vote[n], log |-> Append(log[n], term[n]), barred |-> barred[n]] ELSE disk[n])]
    /\ log' = [log EXCEPT ![n] = Append(log[n], term[n])]
    /\ UNCHANGED <<term, vote, barred, role, commit, held, messages, decided, decisions, campaigns, appends, restarts, losses, first, changes>>

\* Some entries, or none, from any place on; the leader's own disk may be behind (M1g).
Replicate(n, to, before, many) ==
    /\ (role[n] = "leader")
    /\ (to # n)
    /\ ((before + many) <= Len(log[n]))
    /\ (appends < Appends)
    /\ appends' = (appends + 1)
    /\ messages' = (messages \cup {[kind |-> "append", term |-> term[n], source |-> n, to |-> to, index |-> before, index_term |-> TermAt(log[n], before), entries |-> SubSeq(SubSeq(log[n], before + 1, Len(log[n])), 1, MinOf({many, Len(SubSeq(log[n], before + 1, Len(log[n])))})), commit |-> commit[n]]})
    /\ UNCHANGED <<term, vote, log, barred, role, commit, disk, writes, held, decided, decisions, campaigns, restarts, losses, first, changes>>

\* M1f: the entry before agrees: cut what differs, append, acknowledge what is surely equal now.
Accept(n, acked) ==
    /\ \E append \in messages :
        /\ (append.kind = "append")
        /\ (append.to = n)
        /\ (term[n] <= append.term)
        /\ (append.index <= Len(log[n]))
        /\ (TermAt(log[n], append.index) = append.index_term)
        /\ (acked <= (append.index + Len(append.entries)))
        /\ ((acked = 0) \/ ~(barred[n]))
        /\ (((((term[n] = append.term) /\ (vote[n] = (IF (term[n] < append.term) THEN None ELSE vote[n]))) /\ (log[n] = (IF (SubSeq(SubSeq(log[n], append.index + 1, Len(log[n])), 1, MinOf({Len(append.entries), Len(SubSeq(log[n], append.index + 1, Len(log[n])))})) = append.entries) THEN log[n] ELSE (SubSeq(log[n], 1, MinOf({append.index, Len(log[n])})) \o append.entries)))) \/ (Writes = 0)) \/ (Len(writes[n]) < Writes))
        /\ role' = [role EXCEPT ![n] = "follower"]
        /\ commit' = [commit EXCEPT ![n] = MaxOf({commit[n], MinOf({append.commit, (append.index + Len(append.entries))})})]
        /\ writes' = [writes EXCEPT ![n] = (IF ((((term[n] = append.term) /\ (vote[n] = (IF (term[n] < append.term) THEN None ELSE vote[n]))) /\ (log[n] = (IF (SubSeq(SubSeq(log[n], append.index + 1, Len(log[n])), 1, MinOf({Len(append.entries), Len(SubSeq(log[n], append.index + 1, Len(log[n])))})) = append.entries) THEN log[n] ELSE (SubSeq(log[n], 1, MinOf({append.index, Len(log[n])})) \o append.entries)))) \/ (Writes = 0)) THEN writes[n] ELSE Append(writes[n], [term |-> append.term, vote |-> (IF (term[n] < append.term) THEN None ELSE vote[n]), log |-> (IF (SubSeq(SubSeq(log[n], append.index + 1, Len(log[n])), 1, MinOf({Len(append.entries), Len(SubSeq(log[n], append.index + 1, Len(log[n])))})) = append.entries) THEN log[n] ELSE (SubSeq(log[n], 1, MinOf({append.index, Len(log[n])})) \o append.entries)), barred |-> barred[n]]))]
        /\ disk' = [disk EXCEPT ![n] = (IF (Writes = 0) THEN [term |-> append.term, vote |-> (IF (term[n] < append.term) THEN None ELSE vote[n]), log |-> (IF (SubSeq(SubSeq(log[n], append.index + 1, Len(log[n])), 1, MinOf({Len(append.entries), Len(SubSeq(log[n], append.index + 1, Len(log[n])))})) = append.entries) THEN log[n] ELSE (SubSeq(log[n], 1, MinOf({append.index, Len(log[n])})) \o append.entries)), barred |-> barred[n]] ELSE disk[n])]
        /\ term' = [term EXCEPT ![n] = append.term]
        /\ vote' = [vote EXCEPT ![n] = (IF (term[n] < append.term) THEN None ELSE vote[n])]
        /\ log' = [log EXCEPT ![n] = (IF (SubSeq(SubSeq(log[n], append.index + 1, Len(log[n])), 1, MinOf({Len(append.entries), Len(SubSeq(log[n], append.index + 1, Len(log[n])))})) = append.entries) THEN log[n] ELSE (SubSeq(log[n], 1, MinOf({append.index, Len(log[n])})) \o append.entries))]
        /\ messages' = (IF ((0 < acked) /\ (IF (FALSE \/ (Writes = 0)) THEN TRUE ELSE KeepsEntries(disk[n], append.term, acked, TermAt((IF (SubSeq(SubSeq(log[n], append.index + 1, Len(log[n])), 1, MinOf({Len(append.entries), Len(SubSeq(log[n], append.index + 1, Len(log[n])))})) = append.entries) THEN log[n] ELSE (SubSeq(log[n], 1, MinOf({append.index, Len(log[n])})) \o append.entries)), acked)))) THEN (messages \cup {[kind |-> "ack", term |-> append.term, source |-> n, to |-> append.source, index |-> acked, index_term |-> TermAt((IF (SubSeq(SubSeq(log[n], append.index + 1, Len(log[n])), 1, MinOf({Len(append.entries), Len(SubSeq(log[n], append.index + 1, Len(log[n])))})) = append.entries) THEN log[n] ELSE (SubSeq(log[n], 1, MinOf({append.index, Len(log[n])})) \o append.entries)), acked), entries |-> <<>>, commit |-> 0]}) ELSE messages)
        /\ held' = [held EXCEPT ![n] = (IF (IF (acked = 0) THEN TRUE ELSE (IF (FALSE \/ (Writes = 0)) THEN TRUE ELSE KeepsEntries(disk[n], append.term, acked, TermAt((IF (SubSeq(SubSeq(log[n], append.index + 1, Len(log[n])), 1, MinOf({Len(append.entries), Len(SubSeq(log[n], append.index + 1, Len(log[n])))})) = append.entries) THEN log[n] ELSE (SubSeq(log[n], 1, MinOf({append.index, Len(log[n])})) \o append.entries)), acked)))) THEN held[n] ELSE (held[n] \cup {[kind |-> "ack", term |-> append.term, source |-> n, to |-> append.source, index |-> acked, index_term |-> TermAt((IF (SubSeq(SubSeq(log[n], append.index + 1, Len(log[n])), 1, MinOf({Len(append.entries), Len(SubSeq(log[n], append.index + 1, Len(log[n])))})) = append.entries) THEN log[n] ELSE (SubSeq(log[n], 1, MinOf({append.index, Len(log[n])})) \o append.entries)), acked), entries |-> <<>>, commit |-> 0]}))]
        /\ UNCHANGED <<barred, decided, decisions, campaigns, appends, restarts, losses, first, changes>>

\* M1h: an entry of the leader's own term that a quorum has on disk, and everything before it.
Commit(n, index) ==
    /\ (role[n] = "leader")
    /\ (commit[n] < index)
    /\ (index <= Len(log[n]))
    /\ (TermAt(log[n], index) = term[n])
    /\ Quorum(n, ConfigOf(n), {other \in Node : (IF (other = n) THEN (SubSeq(disk[n].log, 1, MinOf({index, Len(disk[n].log)})) = SubSeq(log[n], 1, MinOf({index, Len(log[n])}))) ELSE Acknowledged(other, n, index))})
    /\ commit' = [commit EXCEPT ![n] = index]
    /\ decided' = (IF ((Len(decided) < index) /\ (SubSeq(log[n], 1, MinOf({Len(decided), Len(log[n])})) = decided)) THEN SubSeq(log[n], 1, MinOf({index, Len(log[n])})) ELSE decided)
    /\ decisions' = (IF ((Len(decided) < index) /\ (SubSeq(log[n], 1, MinOf({Len(decided), Len(log[n])})) = decided)) THEN Append(decisions, [upto |-> index, term |-> term[n]]) ELSE decisions)
    /\ UNCHANGED <<term, vote, log, barred, role, disk, writes, held, messages, campaigns, appends, restarts, losses, first, changes>>

\* The oldest write is on disk, and the answers leave that waited for it.
Sync(n) ==
    /\ (0 < Len(writes[n]))
    /\ disk' = [disk EXCEPT ![n] = writes[n][0 + 1]]
    /\ writes' = [writes EXCEPT ![n] = SubSeq(writes[n], 1 + 1, Len(writes[n]))]
    /\ messages' = (messages \cup {m \in held[n] : Backed(writes[n][0 + 1], m)})
    /\ held' = [held EXCEPT ![n] = (held[n] \ {m \in held[n] : Backed(writes[n][0 + 1], m)})]
    /\ UNCHANGED <<term, vote, log, barred, role, commit, decided, decisions, campaigns, appends, restarts, losses, first, changes>>

\* A crash, as in raft.py. So many entries are `kept` in a snapshot: they were committed.
Restart(n, voted, logged, length, kept) ==
    /\ (kept <= length)
    /\ (kept <= commit[n])
    /\ (restarts < Restarts)
    /\ (voted <= Len(writes[n]))
    /\ (logged <= Len(writes[n]))
    /\ (length <= Len(After(n, logged).log))
    /\ (IF (length = Len(After(n, logged).log)) THEN TRUE ELSE ((0 < logged) /\ (IF (Len(After(n, (logged - 1)).log) <= length) THEN TRUE ELSE (After(n, (logged - 1)).log[length + 1] # After(n, logged).log[length + 1]))))
    /\ restarts' = (restarts + 1)
    /\ term' = [term EXCEPT ![n] = MaxOf({LastTerm(SubSeq(After(n, logged).log, 1, MinOf({length, Len(After(n, logged).log)}))), After(n, voted).term})]
    /\ vote' = [vote EXCEPT ![n] = (IF (After(n, voted).term < LastTerm(SubSeq(After(n, logged).log, 1, MinOf({length, Len(After(n, logged).log)})))) THEN None ELSE After(n, voted).vote)]
    /\ log' = [log EXCEPT ![n] = SubSeq(After(n, logged).log, 1, MinOf({length, Len(After(n, logged).log)}))]
    /\ barred' = [barred EXCEPT ![n] = After(n, voted).barred]
    /\ disk' = [disk EXCEPT ![n] = [term |-> MaxOf({LastTerm(SubSeq(After(n, logged).log, 1, MinOf({length, Len(After(n, logged).log)}))), After(n, voted).term}), vote |-> (IF (After(n, voted).term < LastTerm(SubSeq(After(n, logged).log, 1, MinOf({length, Len(After(n, logged).log)})))) THEN None ELSE After(n, voted).vote), log |-> SubSeq(After(n, logged).log, 1, MinOf({length, Len(After(n, logged).log)})), barred |-> After(n, voted).barred]]
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ commit' = [commit EXCEPT ![n] = kept]
    /\ writes' = [writes EXCEPT ![n] = <<>>]
    /\ held' = [held EXCEPT ![n] = {}]
    /\ UNCHANGED <<messages, decided, decisions, campaigns, appends, losses, first, changes>>

\* I2: its disk was found set back or damaged, and it keeps its vote from now on.
Withhold(n) ==
    /\ ~(barred[n])
    /\ (losses < Losses)
    /\ (((barred[n] = TRUE) \/ (Writes = 0)) \/ (Len(writes[n]) < Writes))
    /\ losses' = (losses + 1)
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ writes' = [writes EXCEPT ![n] = (IF ((barred[n] = TRUE) \/ (Writes = 0)) THEN writes[n] ELSE Append(writes[n], [term |-> term[n], vote |-> vote[n], log |-> log[n], barred |-> TRUE]))]
    /\ disk' = [disk EXCEPT ![n] = (IF (Writes = 0) THEN [term |-> term[n], vote |-> vote[n], log |-> log[n], barred |-> TRUE] ELSE disk[n])]
    /\ barred' = [barred EXCEPT ![n] = TRUE]
    /\ UNCHANGED <<term, vote, log, commit, held, messages, decided, decisions, campaigns, appends, restarts, first, changes>>

\* A new server learns before it votes, so that it holds up nobody.
Add(n, who) ==
    /\ ~((who \in ConfigAt(log[n], Len(log[n])).voters))
    /\ ~((who \in ConfigAt(log[n], Len(log[n])).learners))
    /\ (role[n] = "leader")
    /\ (Len(changes) < Changes)
    /\ (Len(log[n]) < Entries)
    /\ (0 < Cardinality(ConfigAt(log[n], Len(log[n])).voters))
    /\ (Newest(log[n], Len(log[n])) = Newest(log[n], commit[n]))
    /\ (0 < commit[n])
    /\ (TermAt(log[n], commit[n]) = term[n])
    /\ (((log[n] = Append(log[n], term[n])) \/ (Writes = 0)) \/ (Len(writes[n]) < Writes))
    /\ changes' = Append(changes, [index |-> (Len(log[n]) + 1), term |-> term[n], config |-> [voters |-> ConfigAt(log[n], Len(log[n])).voters, learners |-> (ConfigAt(log[n], Len(log[n])).learners \cup {who})]])
    /\ writes' = [writes EXCEPT ![n] = (IF ((log[n] = Append(log[n], term[n])) \/ (Writes = 0)) THEN writes[n] ELSE Append(writes[n], [term |-> term[n], vote |-> vote[n], log |-> Append(log[n], term[n]), barred |-> barred[n]]))]
    /\ disk' = [disk EXCEPT ![n] = (IF (Writes = 0) THEN [term |-> term[n], vote |-> vote[n], log |-> Append(log[n], term[n]), barred |-> barred[n]] ELSE disk[n])]
    /\ log' = [log EXCEPT ![n] = Append(log[n], term[n])]
    /\ UNCHANGED <<term, vote, barred, role, commit, held, messages, decided, decisions, campaigns, appends, restarts, losses, first>>

\* A learner that has said to have everything committed: its vote will not delay the next commit.
Promote(n, who) ==
    /\ (who \in ConfigAt(log[n], Len(log[n])).learners)
    /\ ((commit[n] = 0) \/ Acknowledged(who, n, commit[n]))
    /\ (role[n] = "leader")
    /\ (Len(changes) < Changes)
    /\ (Len(log[n]) < Entries)
    /\ (0 < Cardinality((ConfigAt(log[n], Len(log[n])).voters \cup {who})))
    /\ (Newest(log[n], Len(log[n])) = Newest(log[n], commit[n]))
    /\ (0 < commit[n])
    /\ (TermAt(log[n], commit[n]) = term[n])
    /\ (((log[n] = Append(log[n], term[n])) \/ (Writes = 0)) \/ (Len(writes[n]) < Writes))
    /\ changes' = Append(changes, [index |-> (Len(log[n]) + 1), term |-> term[n], config |-> [voters |-> (ConfigAt(log[n], Len(log[n])).voters \cup {who}), learners |-> (ConfigAt(log[n], Len(log[n])).learners \ {who})]])
    /\ writes' = [writes EXCEPT ![n] = (IF ((log[n] = Append(log[n], term[n])) \/ (Writes = 0)) THEN writes[n] ELSE Append(writes[n], [term |-> term[n], vote |-> vote[n], log |-> Append(log[n], term[n]), barred |-> barred[n]]))]
    /\ disk' = [disk EXCEPT ![n] = (IF (Writes = 0) THEN [term |-> term[n], vote |-> vote[n], log |-> Append(log[n], term[n]), barred |-> barred[n]] ELSE disk[n])]
    /\ log' = [log EXCEPT ![n] = Append(log[n], term[n])]
    /\ UNCHANGED <<term, vote, barred, role, commit, held, messages, decided, decisions, campaigns, appends, restarts, losses, first>>

\* Any member, the leader as well.
Remove(n, who) ==
    /\ (IF (who \in ConfigAt(log[n], Len(log[n])).voters) THEN TRUE ELSE (who \in ConfigAt(log[n], Len(log[n])).learners))
    /\ (role[n] = "leader")
    /\ (Len(changes) < Changes)
    /\ (Len(log[n]) < Entries)
    /\ (0 < Cardinality((ConfigAt(log[n], Len(log[n])).voters \ {who})))
    /\ (Newest(log[n], Len(log[n])) = Newest(log[n], commit[n]))
    /\ (0 < commit[n])
    /\ (TermAt(log[n], commit[n]) = term[n])
    /\ (((log[n] = Append(log[n], term[n])) \/ (Writes = 0)) \/ (Len(writes[n]) < Writes))
    /\ changes' = Append(changes, [index |-> (Len(log[n]) + 1), term |-> term[n], config |-> [voters |-> (ConfigAt(log[n], Len(log[n])).voters \ {who}), learners |-> (ConfigAt(log[n], Len(log[n])).learners \ {who})]])
    /\ writes' = [writes EXCEPT ![n] = (IF ((log[n] = Append(log[n], term[n])) \/ (Writes = 0)) THEN writes[n] ELSE Append(writes[n], [term |-> term[n], vote |-> vote[n], log |-> Append(log[n], term[n]), barred |-> barred[n]]))]
    /\ disk' = [disk EXCEPT ![n] = (IF (Writes = 0) THEN [term |-> term[n], vote |-> vote[n], log |-> Append(log[n], term[n]), barred |-> barred[n]] ELSE disk[n])]
    /\ log' = [log EXCEPT ![n] = Append(log[n], term[n])]
    /\ UNCHANGED <<term, vote, barred, role, commit, held, messages, decided, decisions, campaigns, appends, restarts, losses, first>>

Next ==
    \/ \E n \in Node : Campaign(n)
    \/ \E n \in Node : GrantVote(n)
    \/ \E n \in Node : BecomeLeader(n)
    \/ \E n \in Node, term2 \in (0..Terms) : StepDown(n, term2)
    \/ \E n \in Node : Propose(n)
    \/ \E n \in Node, to \in Node, before \in (0..Entries), many \in (0..Batch) : Replicate(n, to, before, many)
    \/ \E n \in Node, acked \in (0..Entries) : Accept(n, acked)
    \/ \E n \in Node, index \in (0..Entries) : Commit(n, index)
    \/ \E n \in Node : Sync(n)
    \/ \E n \in Node, voted \in (0..Writes), logged \in (0..Writes), length \in (0..Entries), kept \in (0..Snapshots) : Restart(n, voted, logged, length, kept)
    \/ \E n \in Node : Withhold(n)
    \/ \E n \in Node, who \in Node : Add(n, who)
    \/ \E n \in Node, who \in Node : Promote(n, who)
    \/ \E n \in Node, who \in Node : Remove(n, who)

Spec == Init /\ [][Next]_vars

\* At most one leader in a term.
ElectionSafety ==
    (\A a \in Node : (\A b \in Node : ((((role[a] = "leader") /\ (role[b] = "leader")) /\ (term[a] = term[b])) => (a = b))))

\* Two logs with the same entry agree on everything before it.
LogMatching ==
    (\A a \in Node : (\A b \in Node : (\A i \in (0)..(Entries - 1) : ((((i < Len(log[a])) /\ (i < Len(log[b]))) /\ (log[a][i + 1] = log[b][i + 1])) => (\A j \in (0)..(i - 1) : (log[a][j + 1] = log[b][j + 1]))))))

\* Nobody has committed another entry at an index than was committed there first.
StateMachineSafety ==
    (\A n \in Node : (SubSeq(log[n], 1, MinOf({commit[n], Len(log[n])})) = SubSeq(decided, 1, MinOf({commit[n], Len(decided)}))))

\* A leader has every entry that was committed in an earlier term.
LeaderCompleteness ==
    (\A n \in Node : (\A i \in (0)..(Len(decisions) - 1) : (((role[n] = "leader") /\ (decisions[i + 1].term < term[n])) => (SubSeq(log[n], 1, MinOf({decisions[i + 1].upto, Len(log[n])})) = SubSeq(decided, 1, MinOf({decisions[i + 1].upto, Len(decided)}))))))

\* Every quorum of a leader's configuration has somebody whose disk has all that the leader has committed.
QuorumLog ==
    (\A n \in Node : ((role[n] = "leader") => ((Cardinality({m \in Node : ((m \in ConfigAt(log[n], Len(log[n])).voters) /\ (SubSeq(disk[m].log, 1, MinOf({commit[n], Len(disk[m].log)})) # SubSeq(log[n], 1, MinOf({commit[n], Len(log[n])}))))}) + Cardinality({m \in Node : ((m \in ConfigAt(log[n], Len(log[n])).voters) /\ (SubSeq(disk[m].log, 1, MinOf({commit[n], Len(disk[m].log)})) # SubSeq(log[n], 1, MinOf({commit[n], Len(log[n])}))))})) <= Cardinality(ConfigAt(log[n], Len(log[n])).voters))))

==============================================================================
