------------------------ MODULE NatsStreamingRepaired ------------------------

\* One channel on three servers, its publishers and its subscribers.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Server, Guid, Length, Terms, Restarts, Panics, Resends

VARIABLES
    up, term, leads, met, steady, store, writing, requests, replies, acked, refused, delivered, restarts, panics, resends

vars == <<up, term, leads, met, steady, store, writing, requests, replies, acked, refused, delivered, restarts, panics, resends>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ up \in [Server -> BOOLEAN]
    /\ term \in [Server -> (0..Terms)]
    /\ leads \in [Server -> BOOLEAN]
    /\ met \in [Server -> BOOLEAN]
    /\ steady \in [Server -> BOOLEAN]
    /\ store \in [Server -> [(1..Length) -> ([guid: Guid, term: (0..Terms)] \cup {None})]]
    /\ writing \in [Server -> (Guid \cup {None})]
    /\ requests \in SUBSET [term: (0..Terms), sequence: (1..Length), guid: Guid]
    /\ replies \in SUBSET [server: Server, term: (0..Terms), sequence: (1..Length)]
    /\ acked \in SUBSET [sequence: (1..Length), guid: Guid]
    /\ refused \in SUBSET Guid
    /\ delivered \in SUBSET [sequence: (1..Length), guid: Guid]
    /\ restarts \in (0..Restarts)
    /\ panics \in (0..Panics)
    /\ resends \in (0..Resends)

\* Its last sequence number, 0 if it has none.
Last(who) ==
    MaxOf({(IF (store[who][i] # None) THEN i ELSE 0) : i \in (1)..((Length + 1) - 1)})

LastTerm(who) ==
    (IF (Last(who) = 0) THEN 0 ELSE store[who][MaxOf({Last(who), 1})].term)

\* By its history a voter lets it lead.
NotBehind(candidate, voter) ==
    (IF (LastTerm(voter) < LastTerm(candidate)) THEN TRUE ELSE ((LastTerm(candidate) = LastTerm(voter)) /\ (Last(voter) <= Last(candidate))))

MayStand(candidate) ==
    up[candidate]

MayWin(candidate, voter) ==
    ((((candidate # voter) /\ up[voter]) /\ MayStand(candidate)) /\ NotBehind(candidate, voter))

\* It believes so, rightly or not.
Leads(who) ==
    (up[who] /\ leads[who])

Obeys(follower, leader) ==
    (((up[follower] /\ Leads(leader)) /\ ~(leads[follower])) /\ (term[follower] = term[leader]))

\* Some leader has given it a number.
Taken(guid) ==
    (\E r \in requests : (r.guid = guid))

\* How many have stored it, as its leader can know.
Copies(leader, request) ==
    ((IF (((store[leader][request.sequence] # None) /\ (store[leader][request.sequence].guid = request.guid)) /\ (store[leader][request.sequence].term = request.term)) THEN 1 ELSE 0) + Cardinality({r \in Server : ((r # leader) /\ ([server |-> r, term |-> request.term, sequence |-> request.sequence] \in replies))}))

CatchesUp(follower) ==
    (met[follower] /\ ~(steady[follower]))

\* Up to which number the follower has what the leader has, or has had from this very leader.
Agreed(follower, leader) ==
    Cardinality({i \in (1)..((Length + 1) - 1) : (\A j \in (1)..((Length + 1) - 1) : ((j <= i) => ((store[follower][j] # None) /\ (IF (store[follower][j] = store[leader][j]) THEN TRUE ELSE (store[follower][j].term = term[leader])))))})

\* It has this message under this number.
IsAt(who, place) ==
    ((store[who][place.sequence] # None) /\ (store[who][place.sequence].guid = place.guid))

\* It leads, and no server has heard of a newer term.
PresentLeader(who) ==
    (Leads(who) /\ (\A r \in Server : (term[r] <= term[who])))

Init ==
    /\ up = [x \in Server |-> TRUE]
    /\ term = [x \in Server |-> 0]
    /\ leads = [x \in Server |-> FALSE]
    /\ met = [x \in Server |-> FALSE]
    /\ steady = [x \in Server |-> FALSE]
    /\ store = [x \in Server |-> [x2 \in (1..Length) |-> None]]
    /\ writing = [x \in Server |-> None]
    /\ requests = {}
    /\ replies = {}
    /\ acked = {}
    /\ refused = {}
    /\ delivered = {}
    /\ restarts = 0
    /\ panics = 0
    /\ resends = 0

\* Two of three are a majority. Both forget what they led.
Elect(candidate, voter) ==
    /\ MayWin(candidate, voter)
    /\ (MaxOf({term[candidate], term[voter]}) < Terms)
    /\ term' = [r \in Server |-> (IF (r = candidate) THEN (MaxOf({term[candidate], term[voter]}) + 1) ELSE (IF (r = voter) THEN (MaxOf({term[candidate], term[voter]}) + 1) ELSE term[r]))]
    /\ leads' = [r \in Server |-> (IF (r = candidate) THEN TRUE ELSE (IF (r = voter) THEN FALSE ELSE leads[r]))]
    /\ writing' = [r \in Server |-> (IF ((r = candidate) \/ (r = voter)) THEN None ELSE writing[r])]
    /\ met' = [r \in Server |-> (IF (r = candidate) THEN TRUE ELSE (IF (r = voter) THEN TRUE ELSE met[r]))]
    /\ steady' = [r \in Server |-> (IF (r = candidate) THEN TRUE ELSE (IF (r = voter) THEN FALSE ELSE steady[r]))]
    /\ UNCHANGED <<up, store, requests, replies, acked, refused, delivered, restarts, panics, resends>>

\* A message of a newer term, or the first since it started: also how an old leader steps down.
MeetLeader(follower, leader) ==
    /\ (follower # leader)
    /\ up[follower]
    /\ Leads(leader)
    /\ ((term[follower] < term[leader]) \/ ((term[follower] = term[leader]) /\ ~(met[follower])))
    /\ term' = [term EXCEPT ![follower] = term[leader]]
    /\ leads' = [leads EXCEPT ![follower] = FALSE]
    /\ writing' = [writing EXCEPT ![follower] = None]
    /\ met' = [met EXCEPT ![follower] = TRUE]
    /\ steady' = [steady EXCEPT ![follower] = FALSE]
    /\ UNCHANGED <<up, store, requests, replies, acked, refused, delivered, restarts, panics, resends>>

\* It gives the next number and tells the followers, before it writes.
LeaderSends(leader, guid) ==
    /\ Leads(leader)
    /\ (writing[leader] = None)
    /\ (Last(leader) < Length)
    /\ ~Taken(guid)
    /\ requests' = (requests \cup {[term |-> term[leader], sequence |-> (Last(leader) + 1), guid |-> guid]})
    /\ writing' = [writing EXCEPT ![leader] = guid]
    /\ UNCHANGED <<up, term, leads, met, steady, store, replies, acked, refused, delivered, restarts, panics, resends>>

LeaderWrites(leader) ==
    /\ Leads(leader)
    /\ (writing[leader] # None)
    /\ (Last(leader) < Length)
    /\ store' = [store EXCEPT ![leader] = [store[leader] EXCEPT ![(Last(leader) + 1)] = [guid |-> writing[leader], term |-> term[leader]]]]
    /\ writing' = [writing EXCEPT ![leader] = None]
    /\ UNCHANGED <<up, term, leads, met, steady, requests, replies, acked, refused, delivered, restarts, panics, resends>>

\* It could not write what it had sent already.
LeaderPanics(leader) ==
    /\ Leads(leader)
    /\ (writing[leader] # None)
    /\ (panics < Panics)
    /\ panics' = (panics + 1)
    /\ up' = [up EXCEPT ![leader] = FALSE]
    /\ leads' = [leads EXCEPT ![leader] = FALSE]
    /\ writing' = [writing EXCEPT ![leader] = None]
    /\ met' = [met EXCEPT ![leader] = FALSE]
    /\ steady' = [steady EXCEPT ![leader] = FALSE]
    /\ UNCHANGED <<term, store, requests, replies, acked, refused, delivered, restarts, resends>>

\* It has the publisher's message and the StoreRequest.
FollowerStores(follower) ==
    /\ \E request \in requests :
        /\ up[follower]
        /\ ~(leads[follower])
        /\ steady[follower]
        /\ (request.term = term[follower])
        /\ (request.sequence = (Last(follower) + 1))
        /\ store' = [store EXCEPT ![follower] = [store[follower] EXCEPT ![request.sequence] = [guid |-> request.guid, term |-> request.term]]]
        /\ replies' = (replies \cup {[server |-> follower, term |-> request.term, sequence |-> request.sequence]})
        /\ UNCHANGED <<up, term, leads, met, steady, writing, requests, acked, refused, delivered, restarts, panics, resends>>

\* A StoreRequest without its message, or a message without its StoreRequest, for too long.
FollowerMisses(follower) ==
    /\ up[follower]
    /\ ~(leads[follower])
    /\ steady[follower]
    /\ steady' = [steady EXCEPT ![follower] = FALSE]
    /\ UNCHANGED <<up, term, leads, met, store, writing, requests, replies, acked, refused, delivered, restarts, panics, resends>>

\* A success for the publisher.
Acknowledge(leader) ==
    /\ \E request \in requests :
        /\ Leads(leader)
        /\ (request.term = term[leader])
        /\ (2 <= Copies(leader, request))
        /\ acked' = (acked \cup {[sequence |-> request.sequence, guid |-> request.guid]})
        /\ UNCHANGED <<up, term, leads, met, steady, store, writing, requests, replies, refused, delivered, restarts, panics, resends>>

\* Nothing committed is among it.
CutWhatDiffers(follower, leader) ==
    /\ Obeys(follower, leader)
    /\ CatchesUp(follower)
    /\ (Agreed(follower, leader) < Last(follower))
    /\ store' = [store EXCEPT ![follower] = [i \in (1..Length) |-> (IF (i <= Agreed(follower, leader)) THEN store[follower][i] ELSE None)]]
    /\ UNCHANGED <<up, term, leads, met, steady, writing, requests, replies, acked, refused, delivered, restarts, panics, resends>>

\* MsgSync: the leader's next message behind the follower's last.
CopyHistory(follower, leader) ==
    /\ Obeys(follower, leader)
    /\ CatchesUp(follower)
    /\ (Last(follower) < Length)
    /\ (Agreed(follower, leader) = Last(follower))
    /\ (store[leader][(Last(follower) + 1)] # None)
    /\ store' = [store EXCEPT ![follower] = [store[follower] EXCEPT ![(Last(follower) + 1)] = store[leader][(Last(follower) + 1)]]]
    /\ UNCHANGED <<up, term, leads, met, steady, writing, requests, replies, acked, refused, delivered, restarts, panics, resends>>

\* No more history, or the first of it that a StoreRequest has brought as well.
BecomeSteady(follower, leader) ==
    /\ Obeys(follower, leader)
    /\ CatchesUp(follower)
    /\ (Agreed(follower, leader) = Last(follower))
    /\ (IF (Last(leader) <= Last(follower)) THEN TRUE ELSE (\E r \in requests : ((r.term = term[leader]) /\ (r.sequence <= Last(follower)))))
    /\ steady' = [steady EXCEPT ![follower] = TRUE]
    /\ UNCHANGED <<up, term, leads, met, store, writing, requests, replies, acked, refused, delivered, restarts, panics, resends>>

\* Term and store are on disk.
Restart(who) ==
    /\ up[who]
    /\ (restarts < Restarts)
    /\ met[who]
    /\ restarts' = (restarts + 1)
    /\ leads' = [leads EXCEPT ![who] = FALSE]
    /\ writing' = [writing EXCEPT ![who] = None]
    /\ met' = [met EXCEPT ![who] = FALSE]
    /\ steady' = [steady EXCEPT ![who] = FALSE]
    /\ UNCHANGED <<up, term, store, requests, replies, acked, refused, delivered, panics, resends>>

Next ==
    \/ \E candidate \in Server, voter \in Server : Elect(candidate, voter)
    \/ \E follower \in Server, leader \in Server : MeetLeader(follower, leader)
    \/ \E leader \in Server, guid \in Guid : LeaderSends(leader, guid)
    \/ \E leader \in Server : LeaderWrites(leader)
    \/ \E leader \in Server : LeaderPanics(leader)
    \/ \E follower \in Server : FollowerStores(follower)
    \/ \E follower \in Server : FollowerMisses(follower)
    \/ \E leader \in Server : Acknowledge(leader)
    \/ \E follower \in Server, leader \in Server : CutWhatDiffers(follower, leader)
    \/ \E follower \in Server, leader \in Server : CopyHistory(follower, leader)
    \/ \E follower \in Server, leader \in Server : BecomeSteady(follower, leader)
    \/ \E who \in Server : Restart(who)

Spec == Init /\ [][Next]_vars

\* Servers in steady state in one term have the same message under each number that both have.
LogMatching ==
    (\A a \in Server : (\A b \in Server : (\A i \in (1)..((Length + 1) - 1) : ((((((up[a] /\ steady[a]) /\ (up[b] /\ steady[b])) /\ (term[a] = term[b])) /\ (store[a][i] # None)) /\ (store[b][i] # None)) => (store[a][i].guid = store[b][i].guid)))))

\* The present leader has, or is writing, every message that a publisher was told is stored.
LeaderCompleteness ==
    (\A r \in Server : (PresentLeader(r) => (\A place \in acked : (IF IsAt(r, place) THEN TRUE ELSE ((writing[r] = place.guid) /\ (place.sequence = (Last(r) + 1)))))))

\* It is still on a server that runs.
NoCommittedRecordLost ==
    (\A place \in acked : (\E r \in Server : (up[r] /\ IsAt(r, place))))

\* No two publishers were told of one sequence number.
StateMachineSafety ==
    (\A a \in acked : (\A b \in acked : ((a.sequence = b.sequence) => (a.guid = b.guid))))

\* What a subscriber got under a number is what the present leader has there.
ConsistentRead ==
    (\A r \in Server : (PresentLeader(r) => (\A place \in delivered : IsAt(r, place))))

\* What a publisher was told to have failed never gets a majority.
ErrorMeansNotStored ==
    (\A guid \in refused : (\A i \in (1)..((Length + 1) - 1) : ~((2 <= Cardinality({r \in Server : ((store[r][i] # None) /\ (store[r][i].guid = guid))})))))

\* No server has a GUID under two numbers.
NoDuplicate ==
    (\A r \in Server : (\A i \in (1)..((Length + 1) - 1) : (\A j \in (1)..((Length + 1) - 1) : ((((i < j) /\ (store[r][i] # None)) /\ (store[r][j] # None)) => (store[r][i].guid # store[r][j].guid)))))

\* While two servers run there is a leader, or one of them can become it.
MajorityCanElect ==
    ((2 <= Cardinality({r \in Server : up[r]})) => (IF (\E r \in Server : Leads(r)) THEN TRUE ELSE (\E c \in Server : (\E v \in Server : MayWin(c, v)))))

==============================================================================
