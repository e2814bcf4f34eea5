------------------------- MODULE RaftMembershipRight -------------------------

\* Servers, some of which vote at first; the others may be added.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Node, Voters, Learning, Terms, Entries, Campaigns, Changes, Restarts, Losses

VARIABLES
    term, role, vote, commit, log, votes, match, lost, elected, written, decided, first, campaigns, changes, restarts, losses

vars == <<term, role, vote, commit, log, votes, match, lost, elected, written, decided, first, campaigns, changes, restarts, losses>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ term \in [Node -> (0..Terms)]
    /\ role \in [Node -> {"follower", "candidate", "leader"}]
    /\ vote \in [Node -> (Node \cup {None})]
    /\ commit \in [Node -> (0..Entries)]
    /\ ((DOMAIN log = Node) /\ (\A x \in Node : ((log[x] \in Seq([term: (0..Terms), config: [voters: SUBSET Node, learners: SUBSET Node]])) /\ (Len(log[x]) <= Entries))))
    /\ votes \in [Node -> SUBSET Node]
    /\ match \in [Node -> [Node -> (0..Entries)]]
    /\ lost \in SUBSET Node
    /\ elected \in [(0..Terms) -> SUBSET Node]
    /\ ((DOMAIN written = (0..Terms)) /\ (\A x \in (0..Terms) : ((written[x] \in Seq([term: (0..Terms), config: [voters: SUBSET Node, learners: SUBSET Node]])) /\ (Len(written[x]) <= Entries))))
    /\ decided \in [(0..Entries - 1) -> ([entry: (0..Terms), term: (0..Terms)] \cup {None})]
    /\ first \in [voters: SUBSET Node, learners: SUBSET Node]
    /\ campaigns \in (0..Campaigns)
    /\ changes \in (0..Changes)
    /\ restarts \in (0..Restarts)
    /\ losses \in (0..Losses)

\* Term of the last of the first `length` entries.
TermAt(n, length) ==
    (IF (length = 0) THEN 0 ELSE log[n][(length - 1) + 1].term)

\* The configuration that the first `length` entries end with.
ConfigAt(log2, length) ==
    (IF (length = 0) THEN first ELSE log2[(length - 1) + 1].config)

\* What a server goes by.
ConfigOf(n) ==
    ConfigAt(log[n], Len(log[n]))

\* The index of the entry that made its configuration what it is; 0: it is the first.
LastChange(n) ==
    MaxOf({(IF (((0 < k) /\ (k <= Len(log[n]))) /\ (ConfigAt(log[n], (k - 1)) # ConfigAt(log[n], Len(log[n])))) THEN k ELSE 0) : k \in (0..Entries)})

\* It does not know whether the last change is committed.
Undecided(n) ==
    (commit[n] < LastChange(n))

\* The configuration before the last change: that one is committed, or the change were not written.
Before(n) ==
    ConfigAt(log[n], (LastChange(n) - 1))

\* By what a leader counts acknowledgements.
ConfigToCount(n) ==
    ConfigOf(n)

\* More than half of the voters, in the eyes of `n`.
Quorum(n, config, members) ==
    (Cardinality(config.voters) < (Cardinality((members \cap config.voters)) + Cardinality((members \cap config.voters))))

Member(n, config) ==
    ((n \in config.voters) \/ (n \in config.learners))

\* The term's leader named it there or later; who is removed may be sent the entry that says so.
SentTo(n, term2, before) ==
    (\E k \in (before)..((Len(written[term2]) + 1) - 1) : Member(n, ConfigAt(written[term2], k)))

\* The term has a leader, which had what follows in its log.
Sent(term2, before) ==
    ((0 < Cardinality(elected[term2])) /\ (before <= Len(written[term2])))

\* Both logs have the entry before, with one term.
Agrees(n, term2, before) ==
    ((Sent(term2, before) /\ (before <= Len(log[n]))) /\ (TermAt(n, before) = (IF (before = 0) THEN 0 ELSE written[term2][(before - 1) + 1].term)))

\* What the leader of the term has committed in it.
Told(term2) ==
    MaxOf({(IF ((decided[i] # None) /\ (decided[i].term = term2)) THEN (i + 1) ELSE 0) : i \in (0..Entries - 1)})

\* It has all that the other has committed.
Holds(n, other) ==
    (SubSeq(log[n], 1, MinOf({commit[other], Len(log[n])})) = SubSeq(log[other], 1, MinOf({commit[other], Len(log[other])})))

Init ==
    \E leader \in Node :
        \E other \in Node :
            \E another \in Node :
                /\ (Cardinality((Node \ {n \in Node : ((n # leader) /\ ((n = other) \/ (n = another)))})) = Voters)
                /\ term = [n \in Node |-> (IF (n \in (Node \ {n2 \in Node : ((n2 # leader) /\ ((n2 = other) \/ (n2 = another)))})) THEN 1 ELSE 0)]
                /\ role = [[x \in Node |-> "follower"] EXCEPT ![leader] = "leader"]
                /\ vote = [n \in Node |-> (IF (n \in (Node \ {n2 \in Node : ((n2 # leader) /\ ((n2 = other) \/ (n2 = another)))})) THEN leader ELSE None)]
                /\ commit = [x \in Node |-> 0]
                /\ log = [x \in Node |-> <<>>]
                /\ votes = [x \in Node |-> {}]
                /\ match = [x \in Node |-> [x2 \in Node |-> 0]]
                /\ lost = {}
                /\ elected = [[x \in (0..Terms) |-> {}] EXCEPT ![1] = {leader}]
                /\ written = [x \in (0..Terms) |-> <<>>]
                /\ decided = [x \in (0..Entries - 1) |-> None]
                /\ first = [voters |-> (Node \ {n \in Node : ((n # leader) /\ ((n = other) \/ (n = another)))}), learners |-> (IF (Learning = 1) THEN {n \in Node : ((n # leader) /\ ((n = other) \/ (n = another)))} ELSE {})]
                /\ campaigns = 0
                /\ changes = 0
                /\ restarts = 0
                /\ losses = 0

\* A timeout: a new term, a vote for oneself, which counts only if it is a voter's.
Campaign(n) ==
    /\ ~((n \in lost))
    /\ (role[n] # "leader")
    /\ (campaigns < Campaigns)
    /\ (term[n] < Terms)
    /\ (IF (n \in ConfigOf(n).voters) THEN TRUE ELSE (Undecided(n) /\ (n \in Before(n).voters)))
    /\ campaigns' = (campaigns + 1)
    /\ term' = [term EXCEPT ![n] = (term[n] + 1)]
    /\ vote' = [vote EXCEPT ![n] = n]
    /\ role' = [role EXCEPT ![n] = "candidate"]
    /\ votes' = [votes EXCEPT ![n] = {n}]
    /\ UNCHANGED <<commit, log, match, lost, elected, written, decided, first, changes, restarts, losses>>

\* At most one vote in a term, and only for a log that is at least as new.
GrantVote(n, to) ==
    /\ (n # to)
    /\ ~((n \in lost))
    /\ (role[to] = "candidate")
    /\ (term[n] <= term[to])
    /\ ((term[n] < term[to]) \/ ((vote[n] = None) /\ (role[n] = "follower")))
    /\ (IF (TermAt(n, Len(log[n])) < TermAt(to, Len(log[to]))) THEN TRUE ELSE ((TermAt(to, Len(log[to])) = TermAt(n, Len(log[n]))) /\ (Len(log[n]) <= Len(log[to]))))
    /\ term' = [term EXCEPT ![n] = term[to]]
    /\ vote' = [vote EXCEPT ![n] = to]
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ match' = [match EXCEPT ![n] = [x \in Node |-> 0]]
    /\ votes' = [o \in Node |-> (IF (o = to) THEN (votes[to] \cup {n}) ELSE (IF (o = n) THEN {} ELSE votes[o]))]
    /\ UNCHANGED <<commit, log, lost, elected, written, decided, first, campaigns, changes, restarts, losses>>

\* A quorum of its last configuration has voted for it.
BecomeLeader(n) ==
    /\ ~((n \in lost))
    /\ (role[n] = "candidate")
    /\ Quorum(n, ConfigOf(n), votes[n])
    /\ role' = [role EXCEPT ![n] = "leader"]
    /\ votes' = [votes EXCEPT ![n] = {}]
    /\ elected' = [elected EXCEPT ![term[n]] = (elected[term[n]] \cup {n})]
    /\ written' = [written EXCEPT ![term[n]] = log[n]]
    /\ UNCHANGED <<term, vote, commit, log, match, lost, decided, first, campaigns, changes, restarts, losses>>

\* A newer term was heard of.
StepDown(n, other) ==
    /\ ~((n \in lost))
    /\ (term[n] < term[other])
    /\ term' = [term EXCEPT ![n] = term[other]]
    /\ vote' = [vote EXCEPT ![n] = (IF (term[n] < term[other]) THEN None ELSE vote[n])]
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ votes' = [votes EXCEPT ![n] = {}]
    /\ match' = [match EXCEPT ![n] = [x \in Node |-> 0]]
    /\ UNCHANGED <<commit, log, lost, elected, written, decided, first, campaigns, changes, restarts, losses>>

\* An ordinary entry, or the empty one at the start of a term (M1i).
Propose(n) ==
    /\ (role[n] = "leader")
    /\ (Len(log[n]) < Entries)
    /\ log' = [log EXCEPT ![n] = Append(log[n], [term |-> term[n], config |-> ConfigAt(log[n], Len(log[n]))])]
    /\ written' = [written EXCEPT ![term[n]] = Append(log[n], [term |-> term[n], config |-> ConfigAt(log[n], Len(log[n]))])]
    /\ UNCHANGED <<term, role, vote, commit, votes, match, lost, elected, decided, first, campaigns, changes, restarts, losses>>

\* One entry arrives; that before it agrees: cut what differs, append, acknowledge.
Accept(n, term2, before) ==
    /\ ~((n \in lost))
    /\ (term[n] <= term2)
    /\ ~((n \in elected[term2]))
    /\ (before < Len(written[term2]))
    /\ Agrees(n, term2, before)
    /\ SentTo(n, term2, before)
    /\ log' = [log EXCEPT ![n] = (IF ((before < Len(log[n])) /\ (log[n][before + 1].term = written[term2][before + 1].term)) THEN log[n] ELSE Append(SubSeq(log[n], 1, MinOf({before, Len(log[n])})), written[term2][before + 1]))]
    /\ term' = [term EXCEPT ![n] = term2]
    /\ vote' = [vote EXCEPT ![n] = (IF (term[n] < term2) THEN None ELSE vote[n])]
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ votes' = [votes EXCEPT ![n] = {}]
    /\ match' = [leader \in Node |-> (IF (leader = n) THEN [x \in Node |-> 0] ELSE (IF ((role[leader] = "leader") /\ (term[leader] = term2)) THEN [m \in Node |-> (IF (m = n) THEN MaxOf({match[leader][n], (before + 1)}) ELSE match[leader][m])] ELSE match[leader]))]
    /\ UNCHANGED <<commit, lost, elected, written, decided, first, campaigns, changes, restarts, losses>>

\* No entry arrives; that before agrees: what is committed so far is.
Heartbeat(n, term2, before) ==
    /\ ~((n \in lost))
    /\ (term[n] <= term2)
    /\ ~((n \in elected[term2]))
    /\ Agrees(n, term2, before)
    /\ SentTo(n, term2, before)
    /\ commit' = [commit EXCEPT ![n] = MaxOf({commit[n], MinOf({Told(term2), before})})]
    /\ term' = [term EXCEPT ![n] = term2]
    /\ vote' = [vote EXCEPT ![n] = (IF (term[n] < term2) THEN None ELSE vote[n])]
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ votes' = [votes EXCEPT ![n] = {}]
    /\ match' = [leader \in Node |-> (IF (leader = n) THEN [x \in Node |-> 0] ELSE (IF ((role[leader] = "leader") /\ (term[leader] = term2)) THEN [m \in Node |-> (IF (m = n) THEN MaxOf({match[leader][n], before}) ELSE match[leader][m])] ELSE match[leader]))]
    /\ UNCHANGED <<log, lost, elected, written, decided, first, campaigns, changes, restarts, losses>>

\* An entry of the leader's own term that a quorum has on disk, and everything before it.
Commit(n, index) ==
    /\ ~((n \in lost))
    /\ (role[n] = "leader")
    /\ (commit[n] < index)
    /\ (index <= Len(log[n]))
    /\ (TermAt(n, index) = term[n])
    /\ Quorum(n, ConfigToCount(n), {o \in Node : ((o = n) \/ (index <= match[n][o]))})
    /\ commit' = [commit EXCEPT ![n] = index]
    /\ decided' = [i \in (0..Entries - 1) |-> (IF ((i < index) /\ (decided[i] = None)) THEN [entry |-> log[n][i + 1].term, term |-> term[n]] ELSE decided[i])]
    /\ role' = [role EXCEPT ![n] = (IF (n \in ConfigAt(log[n], index).voters) THEN role[n] ELSE "follower")]
    /\ match' = [match EXCEPT ![n] = (IF (n \in ConfigAt(log[n], index).voters) THEN match[n] ELSE [x \in Node |-> 0])]
    /\ UNCHANGED <<term, vote, log, votes, lost, elected, written, first, campaigns, changes, restarts, losses>>

\* A new server learns before it votes, so that it holds up nobody.
Add(n, who) ==
    /\ ~Member(who, ConfigAt(log[n], Len(log[n])))
    /\ ~((n \in lost))
    /\ (role[n] = "leader")
    /\ (changes < Changes)
    /\ (0 < Cardinality(ConfigAt(log[n], Len(log[n])).voters))
    /\ (ConfigAt(log[n], Len(log[n])) = ConfigAt(log[n], commit[n]))
    /\ (0 < commit[n])
    /\ (TermAt(n, commit[n]) = term[n])
    /\ (role[n] = "leader")
    /\ (Len(log[n]) < Entries)
    /\ changes' = (changes + 1)
    /\ log' = [log EXCEPT ![n] = Append(log[n], [term |-> term[n], config |-> [voters |-> ConfigAt(log[n], Len(log[n])).voters, learners |-> (ConfigAt(log[n], Len(log[n])).learners \cup {who})]])]
    /\ written' = [written EXCEPT ![term[n]] = Append(log[n], [term |-> term[n], config |-> [voters |-> ConfigAt(log[n], Len(log[n])).voters, learners |-> (ConfigAt(log[n], Len(log[n])).learners \cup {who})]])]
    /\ UNCHANGED <<term, role, vote, commit, votes, match, lost, elected, decided, first, campaigns, restarts, losses>>

\* It has everything committed: its vote will not delay the next commit for long.
Promote(n, who) ==
    /\ (who \in ConfigAt(log[n], Len(log[n])).learners)
    /\ (commit[n] <= match[n][who])
    /\ ~((n \in lost))
    /\ (role[n] = "leader")
    /\ (changes < Changes)
    /\ (0 < Cardinality((ConfigAt(log[n], Len(log[n])).voters \cup {who})))
    /\ (ConfigAt(log[n], Len(log[n])) = ConfigAt(log[n], commit[n]))
    /\ (0 < commit[n])
    /\ (TermAt(n, commit[n]) = term[n])
    /\ (role[n] = "leader")
    /\ (Len(log[n]) < Entries)
    /\ changes' = (changes + 1)
    /\ log' = [log EXCEPT ![n] = Append(log[n], [term |-> term[n], config |-> [voters |-> (ConfigAt(log[n], Len(log[n])).voters \cup {who}), learners |-> (ConfigAt(log[n], Len(log[n])).learners \ {who})]])]
    /\ written' = [written EXCEPT ![term[n]] = Append(log[n], [term |-> term[n], config |-> [voters |-> (ConfigAt(log[n], Len(log[n])).voters \cup {who}), learners |-> (ConfigAt(log[n], Len(log[n])).learners \ {who})]])]
    /\ UNCHANGED <<term, role, vote, commit, votes, match, lost, elected, decided, first, campaigns, restarts, losses>>

\* Any member, the leader as well.
Remove(n, who) ==
    /\ Member(who, ConfigAt(log[n], Len(log[n])))
    /\ ~((n \in lost))
    /\ (role[n] = "leader")
    /\ (changes < Changes)
    /\ (0 < Cardinality((ConfigAt(log[n], Len(log[n])).voters \ {who})))
    /\ (ConfigAt(log[n], Len(log[n])) = ConfigAt(log[n], commit[n]))
    /\ (0 < commit[n])
    /\ (TermAt(n, commit[n]) = term[n])
    /\ (role[n] = "leader")
    /\ (Len(log[n]) < Entries)
    /\ changes' = (changes + 1)
    /\ log' = [log EXCEPT ![n] = Append(log[n], [term |-> term[n], config |-> [voters |-> (ConfigAt(log[n], Len(log[n])).voters \ {who}), learners |-> (ConfigAt(log[n], Len(log[n])).learners \ {who})]])]
    /\ written' = [written EXCEPT ![term[n]] = Append(log[n], [term |-> term[n], config |-> [voters |-> (ConfigAt(log[n], Len(log[n])).voters \ {who}), learners |-> (ConfigAt(log[n], Len(log[n])).learners \ {who})]])]
    /\ UNCHANGED <<term, role, vote, commit, votes, match, lost, elected, decided, first, campaigns, restarts, losses>>

\* Memory is gone, the disk is not.
Restart(n) ==
    /\ ~((n \in lost))
    /\ (restarts < Restarts)
    /\ restarts' = (restarts + 1)
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ votes' = [votes EXCEPT ![n] = {}]
    /\ match' = [match EXCEPT ![n] = [x \in Node |-> 0]]
    /\ commit' = [commit EXCEPT ![n] = 0]
    /\ UNCHANGED <<term, vote, log, lost, elected, written, decided, first, campaigns, changes, losses>>

\* I2: this server never comes back.
LoseDisk(n) ==
    /\ ~((n \in lost))
    /\ (losses < Losses)
    /\ losses' = (losses + 1)
    /\ role' = [role EXCEPT ![n] = "follower"]
    /\ votes' = [votes EXCEPT ![n] = {}]
    /\ match' = [match EXCEPT ![n] = [x \in Node |-> 0]]
    /\ lost' = (lost \cup {n})
    /\ UNCHANGED <<term, vote, commit, log, elected, written, decided, first, campaigns, changes, restarts>>

Next ==
    \/ \E n \in Node : Campaign(n)
    \/ \E n \in Node, to \in Node : GrantVote(n, to)
    \/ \E n \in Node : BecomeLeader(n)
    \/ \E n \in Node, other \in Node : StepDown(n, other)
    \/ \E n \in Node : Propose(n)
    \/ \E n \in Node, term2 \in (0..Terms), before \in (0..Entries) : Accept(n, term2, before)
    \/ \E n \in Node, term2 \in (0..Terms), before \in (0..Entries) : Heartbeat(n, term2, before)
    \/ \E n \in Node, index \in (0..Entries) : Commit(n, index)
    \/ \E n \in Node, who \in Node : Add(n, who)
    \/ \E n \in Node, who \in Node : Promote(n, who)
    \/ \E n \in Node, who \in Node : Remove(n, who)
    \/ \E n \in Node : Restart(n)
    \/ \E n \in Node : LoseDisk(n)

Spec == Init /\ [][Next]_vars

\* At most one leader is ever elected in a term.
ElectionSafety ==
    (\A t \in (0..Terms) : (Cardinality(elected[t]) <= 1))

\* A leader's log is what it has written in its term: nothing of it was cut or exchanged.
LeaderAppendOnly ==
    (\A n \in Node : ((role[n] = "leader") => (log[n] = written[term[n]])))

\* Two logs with an entry of one term at one index agree on it and everything before it.
LogMatching ==
    (\A a \in Node : (\A b \in Node : (\A i \in (0)..(Entries - 1) : ((((i < Len(log[a])) /\ (i < Len(log[b]))) /\ (log[a][i + 1].term = log[b][i + 1].term)) => (SubSeq(log[a], 1, MinOf({(i + 1), Len(log[a])})) = SubSeq(log[b], 1, MinOf({(i + 1), Len(log[b])})))))))

\* Nobody has committed another entry at an index than was committed there first.
StateMachineSafety ==
    (\A n \in Node : (\A i \in (0..Entries - 1) : ((i < commit[n]) => ((i < Len(log[n])) /\ ((decided[i] # None) /\ (decided[i].entry = log[n][i + 1].term))))))

\* A leader has every entry that was committed in an earlier term.
LeaderCompleteness ==
    (\A n \in Node : (\A i \in (0..Entries - 1) : (((role[n] = "leader") /\ ((decided[i] # None) /\ (decided[i].term < term[n]))) => ((i < Len(log[n])) /\ (log[n][i + 1].term = decided[i].entry)))))

\* Whose log would win the other's vote has what the other has committed.
MoreUpToDateCorrect ==
    (\A a \in Node : (\A b \in Node : ((IF (TermAt(b, Len(log[b])) < TermAt(a, Len(log[a]))) THEN TRUE ELSE ((TermAt(a, Len(log[a])) = TermAt(b, Len(log[b]))) /\ (Len(log[b]) <= Len(log[a])))) => Holds(a, b))))

\* Every quorum of a leader's configuration has somebody with all that the leader has committed.
QuorumLog ==
    (\A n \in Node : ((role[n] = "leader") => ((Cardinality({m \in Node : ((m \in ConfigOf(n).voters) /\ ~Holds(m, n))}) + Cardinality({m \in Node : ((m \in ConfigOf(n).voters) /\ ~Holds(m, n))})) <= Cardinality(ConfigOf(n).voters))))

==============================================================================
