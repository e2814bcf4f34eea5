----------------------------- MODULE KafkaKip320 -----------------------------

\* One partition, its replicas and the controller.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Replica, LogSize, Records, Epochs

VARIABLES
    log, hw, view, next_record, next_epoch, requests, quorum

vars == <<log, hw, view, next_record, next_epoch, requests, quorum>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ ((DOMAIN log = Replica) /\ (\A x \in Replica : ((log[x] \in Seq([id: (0..Records - 1), epoch: (0..Epochs)])) /\ (Len(log[x]) <= LogSize))))
    /\ hw \in [Replica -> (0..LogSize)]
    /\ view \in [Replica -> [leader: (Replica \cup {None}), epoch: ((0..Epochs) \cup {None}), isr: SUBSET Replica]]
    /\ next_record \in (0..Records)
    /\ next_epoch \in (0..Epochs + 1)
    /\ requests \in SUBSET [leader: (Replica \cup {None}), epoch: ((0..Epochs) \cup {None}), isr: SUBSET Replica]
    /\ quorum \in [leader: (Replica \cup {None}), epoch: ((0..Epochs) \cup {None}), isr: SUBSET Replica]

\* It believes so, rightly or not.
Leads(replica) ==
    (view[replica].leader = replica)

Follows(follower, leader) ==
    (view[follower].leader = leader)

\* Both are in the same epoch.
FollowsEpoch(follower, leader) ==
    ((Leads(leader) /\ Follows(follower, leader)) /\ (view[follower].epoch = view[leader].epoch))

\* The controller agrees that it leads, in this epoch.
TrueLeader(leader) ==
    (((quorum.leader = leader) /\ Leads(leader)) /\ (view[leader].epoch = quorum.epoch))

\* Both have a record there, of the same epoch.
SameEpochAt(leader, follower, offset) ==
    (((offset < Len(log[leader])) /\ (offset < Len(log[follower]))) /\ (log[leader][offset + 1].epoch = log[follower][offset + 1].epoch))

\* The follower has what lies below `end`, as far as this generation can tell.
CaughtUp(leader, follower, end) ==
    (Follows(follower, leader) /\ ((end = 0) \/ ((end <= Len(log[leader])) /\ (end <= Len(log[follower])))))

\* Its watermark has reached the first record that it wrote itself.
HwInOwnEpoch(leader) ==
    (IF (hw[leader] = Len(log[leader])) THEN TRUE ELSE ((hw[leader] < Len(log[leader])) /\ (log[leader][hw[leader] + 1].epoch = (IF (view[leader].epoch = None) THEN -1 ELSE view[leader].epoch))))

\* One more than the last offset at which both logs hold the same record.
EndOfAgreement(leader, follower) ==
    (IF (Cardinality({i \in (0)..(MinOf({Len(log[follower]), Len(log[leader])}) - 1) : (log[follower][i + 1] = log[leader][i + 1])}) = 0) THEN 0 ELSE (MaxOf({i : i \in {i2 \in (0)..(MinOf({Len(log[follower]), Len(log[leader])}) - 1) : (log[follower][i2 + 1] = log[leader][i2 + 1])}}) + 1))

\* Where the leader says that the epoch of the follower's last record ends.
EndOfEpochByKip101(leader, follower) ==
    (IF (Len(log[leader]) = 0) THEN hw[follower] ELSE (IF (log[leader][(Len(log[leader]) - 1) + 1].epoch = log[follower][(Len(log[follower]) - 1) + 1].epoch) THEN Len(log[leader]) ELSE (IF (Cardinality({i \in (0)..(Len(log[leader]) - 1) : (log[follower][(Len(log[follower]) - 1) + 1].epoch < log[leader][i + 1].epoch)}) = 0) THEN hw[follower] ELSE MinOf({i : i \in {i2 \in (0)..(Len(log[leader]) - 1) : (log[follower][(Len(log[follower]) - 1) + 1].epoch < log[leader][i2 + 1].epoch)}}))))

AgreeBelow(one, other, hw2) ==
    (((hw2 <= Len(log[one])) /\ (hw2 <= Len(log[other]))) /\ (\A i \in (0)..(hw2 - 1) : (log[one][i + 1] = log[other][i + 1])))

Init ==
    /\ log = [x \in Replica |-> <<>>]
    /\ hw = [x \in Replica |-> 0]
    /\ view = [x \in Replica |-> [leader |-> None, epoch |-> None, isr |-> {}]]
    /\ next_record = 0
    /\ next_epoch = 0
    /\ requests = {}
    /\ quorum = [leader |-> None, epoch |-> None, isr |-> Replica]

\* A replica is thought dead. The last one stays in the ISR, though it leads no more.
ControllerShrinkIsr(replica) ==
    /\ ((quorum.leader = replica) \/ (replica \in quorum.isr))
    /\ (next_epoch <= Epochs)
    /\ quorum' = [leader |-> (IF (quorum.leader = replica) THEN None ELSE quorum.leader), epoch |-> next_epoch, isr |-> (IF ((quorum.leader = replica) /\ (quorum.isr = {replica})) THEN quorum.isr ELSE (quorum.isr \ {replica}))]
    /\ requests' = (requests \cup {[leader |-> (IF (quorum.leader = replica) THEN None ELSE quorum.leader), epoch |-> next_epoch, isr |-> (IF ((quorum.leader = replica) /\ (quorum.isr = {replica})) THEN quorum.isr ELSE (quorum.isr \ {replica}))]})
    /\ next_epoch' = (next_epoch + 1)
    /\ UNCHANGED <<log, hw, view, next_record>>

\* Any member of the ISR may be elected at any time.
ControllerElectLeader(replica) ==
    /\ (replica \in quorum.isr)
    /\ (quorum.leader # replica)
    /\ (next_epoch <= Epochs)
    /\ quorum' = [leader |-> replica, epoch |-> next_epoch, isr |-> quorum.isr]
    /\ requests' = (requests \cup {[leader |-> replica, epoch |-> next_epoch, isr |-> quorum.isr]})
    /\ next_epoch' = (next_epoch + 1)
    /\ UNCHANGED <<log, hw, view, next_record>>

BecomeLeader(replica) ==
    /\ \E request \in requests :
        /\ (request.leader = replica)
        /\ ((IF (view[replica].epoch = None) THEN -1 ELSE view[replica].epoch) < (IF (request.epoch = None) THEN -1 ELSE request.epoch))
        /\ view' = [view EXCEPT ![replica] = request]
        /\ UNCHANGED <<log, hw, next_record, next_epoch, requests, quorum>>

LeaderWrite(replica) ==
    /\ Leads(replica)
    /\ (next_record < Records)
    /\ (Len(log[replica]) < LogSize)
    /\ log' = [log EXCEPT ![replica] = Append(log[replica], [id |-> next_record, epoch |-> view[replica].epoch])]
    /\ next_record' = (next_record + 1)
    /\ UNCHANGED <<hw, view, next_epoch, requests, quorum>>

\* The leader throws out who is not caught up.
LeaderShrinkIsr(leader, follower) ==
    /\ (leader # follower)
    /\ (follower \in view[leader].isr)
    /\ (~FollowsEpoch(follower, leader) \/ (Len(log[follower]) < Len(log[leader])))
    /\ TrueLeader(leader)
    /\ quorum' = [quorum EXCEPT !.isr = (view[leader].isr \ {follower})]
    /\ view' = [view EXCEPT ![leader] = [view[leader] EXCEPT !.isr = (view[leader].isr \ {follower})]]
    /\ UNCHANGED <<log, hw, next_record, next_epoch, requests>>

\* A follower that has reached the watermark joins.
LeaderExpandIsr(leader, follower) ==
    /\ ~((follower \in view[leader].isr))
    /\ FollowsEpoch(follower, leader)
    /\ (hw[leader] <= Len(log[follower]))
    /\ HwInOwnEpoch(leader)
    /\ TrueLeader(leader)
    /\ quorum' = [quorum EXCEPT !.isr = (view[leader].isr \cup {follower})]
    /\ view' = [view EXCEPT ![leader] = [view[leader] EXCEPT !.isr = (view[leader].isr \cup {follower})]]
    /\ UNCHANGED <<log, hw, next_record, next_epoch, requests>>

\* Commit one more record: every member of the ISR, as the leader knows it, has it.
LeaderIncHighWatermark(leader) ==
    /\ Leads(leader)
    /\ (hw[leader] < LogSize)
    /\ (hw[leader] < Len(log[leader]))
    /\ (\A r \in view[leader].isr : (FollowsEpoch(r, leader) /\ (hw[leader] < Len(log[r]))))
    /\ hw' = [hw EXCEPT ![leader] = (hw[leader] + 1)]
    /\ UNCHANGED <<log, view, next_record, next_epoch, requests, quorum>>

\* The leader answers only for its own epoch.
BecomeFollowerKip320(leader, follower) ==
    /\ \E request \in requests :
        /\ (leader # follower)
        /\ (request.leader = leader)
        /\ ((IF (view[follower].epoch = None) THEN -1 ELSE view[follower].epoch) < (IF (request.epoch = None) THEN -1 ELSE request.epoch))
        /\ Leads(leader)
        /\ (view[leader].epoch = request.epoch)
        /\ (EndOfAgreement(leader, follower) <= Len(log[follower]))
        /\ log' = [log EXCEPT ![follower] = SubSeq(log[follower], 1, MinOf({EndOfAgreement(leader, follower), Len(log[follower])}))]
        /\ view' = [view EXCEPT ![follower] = request]
        /\ hw' = [hw EXCEPT ![follower] = MinOf({EndOfAgreement(leader, follower), hw[follower]})]
        /\ UNCHANGED <<next_record, next_epoch, requests, quorum>>

\* Copy one record, and learn the leader's watermark with it.
FollowerFetches(leader, follower) ==
    /\ FollowsEpoch(follower, leader)
    /\ (Len(log[follower]) < Len(log[leader]))
    /\ log' = [log EXCEPT ![follower] = Append(log[follower], log[leader][Len(log[follower]) + 1])]
    /\ hw' = [hw EXCEPT ![follower] = MinOf({hw[leader], (Len(log[follower]) + 1)})]
    /\ UNCHANGED <<view, next_record, next_epoch, requests, quorum>>

Next ==
    \/ \E replica \in Replica : ControllerShrinkIsr(replica)
    \/ \E replica \in Replica : ControllerElectLeader(replica)
    \/ \E replica \in Replica : BecomeLeader(replica)
    \/ \E replica \in Replica : LeaderWrite(replica)
    \/ \E leader \in Replica, follower \in Replica : LeaderShrinkIsr(leader, follower)
    \/ \E leader \in Replica, follower \in Replica : LeaderExpandIsr(leader, follower)
    \/ \E leader \in Replica : LeaderIncHighWatermark(leader)
    \/ \E leader \in Replica, follower \in Replica : BecomeFollowerKip320(leader, follower)
    \/ \E leader \in Replica, follower \in Replica : FollowerFetches(leader, follower)

Spec == Init /\ [][Next]_vars

\* Whoever may be elected holds what any presumed leader shows as committed.
StrongIsr ==
    (\A a \in Replica : (\A b \in quorum.isr : (Leads(a) => (IF (hw[a] = 0) THEN TRUE ELSE AgreeBelow(a, b, hw[a])))))

==============================================================================
