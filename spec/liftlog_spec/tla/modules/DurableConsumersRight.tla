------------------------ MODULE DurableConsumersRight ------------------------

\* What a leader decides by its journal, and what must always be true.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Replica, Replicas, Records, Entries, Limit, Room, Epochs, Snapshots, Deletes, Resets, Shrinks, Trims, Queue, Losses, Doubts

VARIABLES
    epoch, leader, insync, following, reign, journal, heard, data, start, removed, cleaned, hw, present, given, counted, done, answered, again, ended

vars == <<epoch, leader, insync, following, reign, journal, heard, data, start, removed, cleaned, hw, present, given, counted, done, answered, again, ended>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ epoch \in (1..Epochs)
    /\ leader \in Replica
    /\ insync \in SUBSET Replica
    /\ following \in SUBSET Replica
    /\ reign \in [Replica -> (0..Epochs)]
    /\ ((DOMAIN journal = Replica) /\ (\A x \in Replica : ((journal[x] \in Seq([kind: {"created", "deleted", "delivered", "done", "state", "rewound"}, epoch: (1..Epochs), consumer: (0..Entries - 1), offset: (0..Records - 1), handed: BOOLEAN, meant: (0..Entries - 1), position: (0..Records), pending: [(0..Records - 1) -> (0..Entries)], nth: (0..Entries)])) /\ (Len(journal[x]) <= Entries))))
    /\ heard \in [Replica -> (0..Entries)]
    /\ ((data \in Seq((1..Epochs))) /\ (Len(data) <= Records))
    /\ start \in (0..Records)
    /\ removed \in SUBSET (0..Records - 1)
    /\ cleaned \in (0..Entries)
    /\ hw \in (0..Entries)
    /\ present \in (0..Entries - 1)
    /\ given \in [(0..Records - 1) -> (0..9)]
    /\ counted \in [(0..Records - 1) -> (0..Entries)]
    /\ done \in [(0..Records - 1) -> (0..Epochs)]
    /\ answered \in SUBSET (0..Records - 1)
    /\ again \in SUBSET (0..Records - 1)
    /\ ended \in SUBSET (0..Entries - 1)

\* The entries that a leader decides by: all that it has.
Seen(r, p) ==
    ((cleaned <= p) /\ (p < Len(journal[r])))

\* An entry about this message, for this consumer.
Says(r, p, c, o) ==
    ((Seen(r, p) /\ ((journal[r][p + 1].consumer = c) /\ (journal[r][p + 1].offset = o))) /\ (IF (Losses = 0) THEN TRUE ELSE ~((\E q \in ((p + 1))..(Entries - 1) : ((Seen(r, q) /\ (journal[r][q + 1].kind = "rewound")) /\ (journal[r][q + 1].position <= o))))))

\* The journal begins with a snapshot of this consumer.
Begun(r, c) ==
    ((((0 < cleaned) /\ (cleaned < Len(journal[r]))) /\ (journal[r][cleaned + 1].kind = "state")) /\ (journal[r][cleaned + 1].consumer = c))

\* How often it was delivered.
Times(r, c, o) ==
    ((IF Begun(r, c) THEN journal[r][cleaned + 1].pending[o] ELSE 0) + Cardinality({p \in (0..Entries - 1) : (Says(r, p, c, o) /\ (journal[r][p + 1].kind = "delivered"))}))

\* K8. How many deliveries there were, of whatever is lost too.
Number(r, c) ==
    ((IF Begun(r, c) THEN journal[r][cleaned + 1].nth ELSE 0) + Cardinality({p \in (0..Entries - 1) : (((Seen(r, p) /\ (journal[r][p + 1].kind = "delivered")) /\ (journal[r][p + 1].consumer = c)) /\ TRUE)}))

\* An entry below `end` says so, or a snapshot, which has come past it and does not say pending.
Done(r, c, o, end) ==
    (IF (IF Begun(r, c) THEN (((o < journal[r][cleaned + 1].position) /\ (journal[r][cleaned + 1].pending[o] = 0)) /\ (cleaned < end)) ELSE FALSE) THEN TRUE ELSE (\E p \in (0..Entries - 1) : (((p < end) /\ Says(r, p, c, o)) /\ (journal[r][p + 1].kind = "done"))))

Pending(r, c, o) ==
    ((0 < Times(r, c, o)) /\ ~Done(r, c, o, Len(journal[r])))

\* Behind the last that was delivered.
Position(r, c) ==
    MaxOf({(IF Begun(r, c) THEN journal[r][cleaned + 1].position ELSE 0), MaxOf({(IF (p < Len(journal[r])) THEN (IF ((journal[r][p + 1].kind = "delivered") /\ Says(r, p, c, journal[r][p + 1].offset)) THEN (journal[r][p + 1].offset + 1) ELSE 0) ELSE 0) : p \in (0..Entries - 1)})})

\* The consumer is there: begun, and neither deleted nor, since another one is, reset.
Is(r, c) ==
    ((IF (\E p \in (0..Entries - 1) : ((Seen(r, p) /\ (journal[r][p + 1].kind = "created")) /\ (journal[r][p + 1].consumer = c))) THEN TRUE ELSE Begun(r, c)) /\ ~((\E p \in (0..Entries - 1) : (IF ((Seen(r, p) /\ (journal[r][p + 1].kind = "deleted")) /\ (journal[r][p + 1].consumer = c)) THEN TRUE ELSE ((((0 < Resets) /\ Seen(r, p)) /\ (journal[r][p + 1].kind = "created")) /\ (c < journal[r][p + 1].consumer))))))

\* How much of its journal a leader had when it was elected.
Inherited(r) ==
    Cardinality({p \in (0..Entries - 1) : ((p < Len(journal[r])) /\ (journal[r][p + 1].epoch < reign[r]))})

\* What it had speaks of messages that its data lacked when it was elected.
Overtaken(r) ==
    (\E p \in (0..Entries - 1) : (IF (p < Len(journal[r])) THEN ((((Seen(r, p) /\ (journal[r][p + 1].epoch < reign[r])) /\ (journal[r][p + 1].kind = "delivered")) /\ (Cardinality({i \in (0)..(Len(data) - 1) : (data[i + 1] < reign[r])}) <= journal[r][p + 1].offset)) /\ Says(r, p, journal[r][p + 1].consumer, journal[r][p + 1].offset)) ELSE FALSE))

\* K5: what it had at its election is committed, and so is what it said of losses, if it had to.
Serves(r) ==
    (((0 < reign[r]) /\ (Inherited(r) <= heard[r])) /\ (IF (Losses = 0) THEN TRUE ELSE (~Overtaken(r) /\ ~((\E p \in (heard[r])..(Len(journal[r]) - 1) : ((journal[r][p + 1].kind = "rewound") /\ (0 < Losses)))))))

Gone(o) ==
    ((o < start) \/ (o \in removed))

\* A delivery that has not left: its record is not committed.
Waits(r, p, o) ==
    (((journal[r][p + 1].kind = "delivered") /\ (journal[r][p + 1].offset = o)) /\ ~(journal[r][p + 1].handed))

Delivered(r, p, c, o) ==
    (((journal[r][p + 1].kind = "delivered") /\ (journal[r][p + 1].consumer = c)) /\ (journal[r][p + 1].offset = o))

\* There is a leader of this epoch that serves the present consumer.
Decides(c) ==
    ((((c = present) /\ Serves(leader)) /\ (c < heard[leader])) /\ Is(leader, c))

\* Another one has taken its place, as this copy's journal has it.
IsReset(r, c) ==
    ((0 < Resets) /\ (\E p \in (0)..(Len(journal[r]) - 1) : ((journal[r][p + 1].kind = "created") /\ (c < journal[r][p + 1].consumer))))

Init ==
    \E leader2 \in Replica :
        /\ epoch = 1
        /\ leader = leader2
        /\ insync = {r \in Replica : TRUE}
        /\ following = {}
        /\ reign = [[x \in Replica |-> 0] EXCEPT ![leader2] = 1]
        /\ journal = [x \in Replica |-> <<[kind |-> "created", epoch |-> 1, consumer |-> 0, offset |-> 0, handed |-> FALSE, meant |-> 0, position |-> 0, pending |-> [o \in (0..Records - 1) |-> 0], nth |-> 0]>>]
        /\ heard = [x \in Replica |-> 1]
        /\ data = <<>>
        /\ start = 0
        /\ removed = {}
        /\ cleaned = 0
        /\ hw = 1
        /\ present = 0
        /\ given = [x \in (0..Records - 1) |-> 0]
        /\ counted = [x \in (0..Records - 1) |-> 0]
        /\ done = [x \in (0..Records - 1) |-> 0]
        /\ answered = {}
        /\ again = {}
        /\ ended = {}

\* R2. Answers and records that waited for it leave, if their leader lives.
Commit ==
    /\ (reign[leader] = epoch)
    /\ (heard[leader] < Len(journal[leader]))
    /\ (\A r \in Replica : ((r \in insync) => ((r = leader) \/ ((r \in following) /\ (heard[leader] < Len(journal[r]))))))
    /\ heard' = [heard EXCEPT ![leader] = (heard[leader] + 1)]
    /\ hw' = MaxOf({hw, (heard[leader] + 1)})
    /\ present' = (IF (((journal[leader][heard[leader] + 1].epoch = epoch) \/ (hw <= heard[leader])) /\ (journal[leader][heard[leader] + 1].kind = "created")) THEN heard[leader] ELSE present)
    /\ given' = [q \in (0..Records - 1) |-> (IF (((journal[leader][heard[leader] + 1].epoch = epoch) \/ (hw <= heard[leader])) /\ (journal[leader][heard[leader] + 1].kind = "created")) THEN 0 ELSE (IF (((((journal[leader][heard[leader] + 1].kind = "delivered") /\ (journal[leader][heard[leader] + 1].epoch = epoch)) /\ ~(journal[leader][heard[leader] + 1].handed)) /\ ((((journal[leader][heard[leader] + 1].epoch = epoch) \/ (hw <= heard[leader])) /\ ((journal[leader][heard[leader] + 1].offset < Len(data)) /\ (data[journal[leader][heard[leader] + 1].offset + 1] <= journal[leader][heard[leader] + 1].epoch))) /\ (journal[leader][heard[leader] + 1].consumer = present))) /\ (q = journal[leader][heard[leader] + 1].offset)) THEN (given[q] + 1) ELSE given[q]))]
    /\ counted' = [q \in (0..Records - 1) |-> (IF (((journal[leader][heard[leader] + 1].epoch = epoch) \/ (hw <= heard[leader])) /\ (journal[leader][heard[leader] + 1].kind = "created")) THEN 0 ELSE (IF (((journal[leader][heard[leader] + 1].kind = "delivered") /\ ((((journal[leader][heard[leader] + 1].epoch = epoch) \/ (hw <= heard[leader])) /\ ((journal[leader][heard[leader] + 1].offset < Len(data)) /\ (data[journal[leader][heard[leader] + 1].offset + 1] <= journal[leader][heard[leader] + 1].epoch))) /\ (journal[leader][heard[leader] + 1].consumer = present))) /\ (q = journal[leader][heard[leader] + 1].offset)) THEN (counted[q] + 1) ELSE counted[q]))]
    /\ done' = [q \in (0..Records - 1) |-> (IF (((journal[leader][heard[leader] + 1].epoch = epoch) \/ (hw <= heard[leader])) /\ (journal[leader][heard[leader] + 1].kind = "created")) THEN 0 ELSE (IF (((journal[leader][heard[leader] + 1].kind = "done") /\ ((((journal[leader][heard[leader] + 1].epoch = epoch) \/ (hw <= heard[leader])) /\ ((journal[leader][heard[leader] + 1].offset < Len(data)) /\ (data[journal[leader][heard[leader] + 1].offset + 1] <= journal[leader][heard[leader] + 1].epoch))) /\ (journal[leader][heard[leader] + 1].consumer = present))) /\ (q = journal[leader][heard[leader] + 1].offset)) THEN (IF (0 < done[q]) THEN done[q] ELSE epoch) ELSE done[q]))]
    /\ answered' = (IF (((journal[leader][heard[leader] + 1].epoch = epoch) \/ (hw <= heard[leader])) /\ (journal[leader][heard[leader] + 1].kind = "created")) THEN {q \in (0..Records - 1) : FALSE} ELSE (IF (((journal[leader][heard[leader] + 1].kind = "done") /\ ((((journal[leader][heard[leader] + 1].epoch = epoch) \/ (hw <= heard[leader])) /\ ((journal[leader][heard[leader] + 1].offset < Len(data)) /\ (data[journal[leader][heard[leader] + 1].offset + 1] <= journal[leader][heard[leader] + 1].epoch))) /\ (journal[leader][heard[leader] + 1].consumer = present))) /\ (journal[leader][heard[leader] + 1].epoch = epoch)) THEN (answered \cup {journal[leader][heard[leader] + 1].offset}) ELSE answered))
    /\ again' = (IF (((journal[leader][heard[leader] + 1].epoch = epoch) \/ (hw <= heard[leader])) /\ (journal[leader][heard[leader] + 1].kind = "created")) THEN {q \in (0..Records - 1) : FALSE} ELSE (IF (((journal[leader][heard[leader] + 1].kind = "delivered") /\ ((((journal[leader][heard[leader] + 1].epoch = epoch) \/ (hw <= heard[leader])) /\ ((journal[leader][heard[leader] + 1].offset < Len(data)) /\ (data[journal[leader][heard[leader] + 1].offset + 1] <= journal[leader][heard[leader] + 1].epoch))) /\ (journal[leader][heard[leader] + 1].consumer = present))) /\ (0 < done[journal[leader][heard[leader] + 1].offset])) THEN (again \cup {journal[leader][heard[leader] + 1].offset}) ELSE again))
    /\ ended' = (IF ((journal[leader][heard[leader] + 1].kind = "deleted") /\ (journal[leader][heard[leader] + 1].epoch = epoch)) THEN (ended \cup {journal[leader][heard[leader] + 1].consumer}) ELSE ended)
    /\ UNCHANGED <<epoch, leader, insync, following, reign, journal, data, start, removed, cleaned>>

\* R6. It has what the leader has; whoever led before does no more.
Fetch(r) ==
    /\ (r # leader)
    /\ ((((journal[r] # journal[leader]) \/ (heard[r] # heard[leader])) \/ ~((r \in following))) \/ (0 < reign[r]))
    /\ journal' = [journal EXCEPT ![r] = journal[leader]]
    /\ heard' = [heard EXCEPT ![r] = heard[leader]]
    /\ reign' = [reign EXCEPT ![r] = 0]
    /\ following' = (following \cup {r})
    /\ UNCHANGED <<epoch, leader, insync, data, start, removed, cleaned, hw, present, given, counted, done, answered, again, ended>>

\* R16. Of those in sync; the leader of before may live on.
Elect(to) ==
    /\ (to \in insync)
    /\ (epoch < Epochs)
    /\ epoch' = (epoch + 1)
    /\ leader' = to
    /\ following' = {r \in Replica : FALSE}
    /\ reign' = [reign EXCEPT ![to] = (epoch + 1)]
    /\ UNCHANGED <<insync, journal, heard, data, start, removed, cleaned, hw, present, given, counted, done, answered, again, ended>>

\* R11.
Leave(r) ==
    /\ (0 < Shrinks)
    /\ (r # leader)
    /\ (r \in insync)
    /\ insync' = (insync \ {r})
    /\ UNCHANGED <<epoch, leader, following, reign, journal, heard, data, start, removed, cleaned, hw, present, given, counted, done, answered, again, ended>>

\* R10. In both logs, and the data are told as what is committed.
Join(r) ==
    /\ ~((r \in insync))
    /\ (r \in following)
    /\ (MaxOf({heard[leader], Inherited(leader)}) <= Len(journal[r]))
    /\ insync' = (insync \cup {r})
    /\ UNCHANGED <<epoch, leader, following, reign, journal, heard, data, start, removed, cleaned, hw, present, given, counted, done, answered, again, ended>>

\* R14. All have stopped, one has lost its journal's end: who has the longest leads.
ElectInDoubt(to, damaged, end) ==
    /\ (0 < Doubts)
    /\ (Cardinality(insync) = Replicas)
    /\ (0 < end)
    /\ (end < Len(journal[damaged]))
    /\ (\A r \in Replica : (IF (journal[r][((IF (r = damaged) THEN end ELSE Len(journal[r])) - 1) + 1].epoch < journal[to][((IF (to = damaged) THEN end ELSE Len(journal[to])) - 1) + 1].epoch) THEN TRUE ELSE ((journal[to][((IF (to = damaged) THEN end ELSE Len(journal[to])) - 1) + 1].epoch = journal[r][((IF (r = damaged) THEN end ELSE Len(journal[r])) - 1) + 1].epoch) /\ ((IF (r = damaged) THEN end ELSE Len(journal[r])) <= (IF (to = damaged) THEN end ELSE Len(journal[to]))))))
    /\ (epoch < Epochs)
    /\ epoch' = (epoch + 1)
    /\ leader' = to
    /\ following' = {r \in Replica : FALSE}
    /\ insync' = {r \in Replica : (r = to)}
    /\ reign' = [r \in Replica |-> (IF (r = to) THEN (epoch + 1) ELSE 0)]
    /\ journal' = [journal EXCEPT ![damaged] = SubSeq(journal[damaged], 1, MinOf({end, Len(journal[damaged])}))]
    /\ heard' = [r \in Replica |-> MinOf({heard[r], (IF (r = damaged) THEN end ELSE Len(journal[r]))})]
    /\ UNCHANGED <<data, start, removed, cleaned, hw, present, given, counted, done, answered, again, ended>>

\* R16. An operator's word: messages are lost, and their offsets are given again.
ElectUnclean(to, end) ==
    /\ (0 < Losses)
    /\ (to \in insync)
    /\ (end < Len(data))
    /\ (epoch < Epochs)
    /\ epoch' = (epoch + 1)
    /\ leader' = to
    /\ following' = {r \in Replica : FALSE}
    /\ insync' = {r \in Replica : (r = to)}
    /\ reign' = [r \in Replica |-> (IF (r = to) THEN (epoch + 1) ELSE 0)]
    /\ data' = SubSeq(data, 1, MinOf({end, Len(data)}))
    /\ given' = [o \in (0..Records - 1) |-> (IF (o < end) THEN given[o] ELSE 0)]
    /\ counted' = [o \in (0..Records - 1) |-> (IF (o < end) THEN counted[o] ELSE 0)]
    /\ done' = [o \in (0..Records - 1) |-> (IF (o < end) THEN done[o] ELSE 0)]
    /\ answered' = {o \in answered : (o < end)}
    /\ again' = {o \in again : (o < end)}
    /\ removed' = {o \in removed : (o < end)}
    /\ start' = MinOf({start, end})
    /\ UNCHANGED <<journal, heard, cleaned, hw, present, ended>>

\* The data are told as what is committed.
Publish ==
    /\ (Len(data) < Records)
    /\ data' = Append(data, epoch)
    /\ UNCHANGED <<epoch, leader, insync, following, reign, journal, heard, start, removed, cleaned, hw, present, given, counted, done, answered, again, ended>>

\* K4. The next message, for the first time: at once, if this epoch wrote it.
Deliver(r, c, o) ==
    /\ Serves(r)
    /\ (c < heard[r])
    /\ Is(r, c)
    /\ (Position(r, c) <= o)
    /\ (o < Len(data))
    /\ (data[o + 1] <= reign[r])
    /\ ~Gone(o)
    /\ (\A q \in (Position(r, c))..(o - 1) : Gone(q))
    /\ (Cardinality({q \in (start)..(Records - 1) : (Pending(r, c, q) /\ ~((q \in removed)))}) < Room)
    /\ (Len(journal[r]) < Entries)
    /\ journal' = [journal EXCEPT ![r] = Append(journal[r], [kind |-> "delivered", epoch |-> reign[r], consumer |-> c, offset |-> o, handed |-> (data[o + 1] = reign[r]), meant |-> c, position |-> 0, pending |-> [o2 \in (0..Records - 1) |-> 0], nth |-> (Number(r, c) + 1)])]
    /\ given' = [given EXCEPT ![o] = (IF ((data[o + 1] = reign[r]) /\ (c = present)) THEN (given[o] + 1) ELSE given[o])]
    /\ again' = (IF ((((data[o + 1] = reign[r]) /\ (c = present)) /\ (0 < done[o])) /\ (done[o] < reign[r])) THEN (again \cup {o}) ELSE again)
    /\ UNCHANGED <<epoch, leader, insync, following, reign, heard, data, start, removed, cleaned, hw, present, counted, done, answered, ended>>

\* Any time after the last delivery has left, while the limit is not reached.
Redeliver(r, c, o) ==
    /\ Serves(r)
    /\ (c < heard[r])
    /\ Is(r, c)
    /\ Pending(r, c, o)
    /\ ~Gone(o)
    /\ (Times(r, c, o) < Limit)
    /\ ~((\E p \in (heard[r])..(Len(journal[r]) - 1) : Waits(r, p, o)))
    /\ (Len(journal[r]) < Entries)
    /\ journal' = [journal EXCEPT ![r] = Append(journal[r], [kind |-> "delivered", epoch |-> reign[r], consumer |-> c, offset |-> o, handed |-> FALSE, meant |-> c, position |-> 0, pending |-> [o2 \in (0..Records - 1) |-> 0], nth |-> (Number(r, c) + 1)])]
    /\ given' = [given EXCEPT ![o] = (IF (FALSE /\ (c = present)) THEN (given[o] + 1) ELSE given[o])]
    /\ again' = (IF (((FALSE /\ (c = present)) /\ (0 < done[o])) /\ (done[o] < reign[r])) THEN (again \cup {o}) ELSE again)
    /\ UNCHANGED <<epoch, leader, insync, following, reign, heard, data, start, removed, cleaned, hw, present, counted, done, answered, ended>>

\* By whoever was given it. The leader writes it down, or has no use for it.
Ack(r, c, o) ==
    /\ Serves(r)
    /\ (c < heard[r])
    /\ Is(r, c)
    /\ (c = present)
    /\ (0 < given[o])
    /\ Pending(r, c, o)
    /\ (Len(journal[r]) < Entries)
    /\ journal' = [journal EXCEPT ![r] = Append(journal[r], [kind |-> "done", epoch |-> reign[r], consumer |-> c, offset |-> o, handed |-> FALSE, meant |-> c, position |-> 0, pending |-> [o2 \in (0..Records - 1) |-> 0], nth |-> 0])]
    /\ UNCHANGED <<epoch, leader, insync, following, reign, heard, data, start, removed, cleaned, hw, present, given, counted, done, answered, again, ended>>

\* Answered if it is known as committed that it is done.
AckAgain(r, c, o) ==
    /\ Serves(r)
    /\ (c < heard[r])
    /\ Is(r, c)
    /\ (c = present)
    /\ (0 < given[o])
    /\ ~((o \in answered))
    /\ Done(r, c, o, heard[r])
    /\ answered' = (answered \cup {o})
    /\ UNCHANGED <<epoch, leader, insync, following, reign, journal, heard, data, start, removed, cleaned, hw, present, given, counted, done, again, ended>>

Delete(r, c) ==
    /\ (0 < Deletes)
    /\ Serves(r)
    /\ (c < heard[r])
    /\ Is(r, c)
    /\ (Len(journal[r]) < Entries)
    /\ journal' = [journal EXCEPT ![r] = Append(journal[r], [kind |-> "deleted", epoch |-> reign[r], consumer |-> c, offset |-> 0, handed |-> FALSE, meant |-> c, position |-> 0, pending |-> [o \in (0..Records - 1) |-> 0], nth |-> 0])]
    /\ UNCHANGED <<epoch, leader, insync, following, reign, heard, data, start, removed, cleaned, hw, present, given, counted, done, answered, again, ended>>

\* Under the same name, when the one before is deleted.
Create(r) ==
    /\ Serves(r)
    /\ ((0 < Deletes) \/ FALSE)
    /\ ~((\E c \in (0..Entries - 1) : Is(r, c)))
    /\ (Len(journal[r]) < Entries)
    /\ journal' = [journal EXCEPT ![r] = Append(journal[r], [kind |-> "created", epoch |-> reign[r], consumer |-> Len(journal[r]), offset |-> 0, handed |-> FALSE, meant |-> Len(journal[r]), position |-> 0, pending |-> [o \in (0..Records - 1) |-> 0], nth |-> 0])]
    /\ UNCHANGED <<epoch, leader, insync, following, reign, heard, data, start, removed, cleaned, hw, present, given, counted, done, answered, again, ended>>

\* K1. Another consumer takes its place, from the first message on.
Reset(r, c) ==
    /\ (0 < Resets)
    /\ Serves(r)
    /\ (c < heard[r])
    /\ Is(r, c)
    /\ (Len(journal[r]) < Entries)
    /\ journal' = [journal EXCEPT ![r] = Append(journal[r], [kind |-> "created", epoch |-> reign[r], consumer |-> Len(journal[r]), offset |-> 0, handed |-> FALSE, meant |-> Len(journal[r]), position |-> 0, pending |-> [o \in (0..Records - 1) |-> 0], nth |-> 0])]
    /\ UNCHANGED <<epoch, leader, insync, following, reign, heard, data, start, removed, cleaned, hw, present, given, counted, done, answered, again, ended>>

\* K5. After a loss: nothing that was said so far is meant for what is written at its offset now.
Rewind(r) ==
    /\ (0 < Losses)
    /\ (0 < reign[r])
    /\ (Inherited(r) <= heard[r])
    /\ Overtaken(r)
    /\ (Len(journal[r]) < Entries)
    /\ journal' = [journal EXCEPT ![r] = Append(journal[r], [kind |-> "rewound", epoch |-> reign[r], consumer |-> 0, offset |-> 0, handed |-> FALSE, meant |-> 0, position |-> Cardinality({i \in (0)..(Len(data) - 1) : (data[i + 1] < reign[r])}), pending |-> [o \in (0..Records - 1) |-> 0], nth |-> 0])]
    /\ UNCHANGED <<epoch, leader, insync, following, reign, heard, data, start, removed, cleaned, hw, present, given, counted, done, answered, again, ended>>

\* Where the consumer stands behind all that is written.
Snapshot(c) ==
    /\ (0 < Snapshots)
    /\ Serves(leader)
    /\ (c < heard[leader])
    /\ Is(leader, c)
    /\ (0 < Position(leader, c))
    /\ (journal[leader][(Len(journal[leader]) - 1) + 1].kind # "state")
    /\ (Len(journal[leader]) < Entries)
    /\ journal' = [journal EXCEPT ![leader] = Append(journal[leader], [kind |-> "state", epoch |-> reign[leader], consumer |-> c, offset |-> 0, handed |-> FALSE, meant |-> c, position |-> Position(leader, c), pending |-> [o \in (0..Records - 1) |-> (IF Pending(leader, c, o) THEN Times(leader, c, o) ELSE 0)], nth |-> Number(leader, c)])]
    /\ UNCHANGED <<epoch, leader, insync, following, reign, heard, data, start, removed, cleaned, hw, present, given, counted, done, answered, again, ended>>

\* C3: the journal starts at a snapshot of what is alive.
CleanJournal(p) ==
    /\ (cleaned < p)
    /\ (p < heard[leader])
    /\ (journal[leader][p + 1].kind = "state")
    /\ Is(leader, journal[leader][p + 1].consumer)
    /\ cleaned' = p
    /\ UNCHANGED <<epoch, leader, insync, following, reign, journal, heard, data, start, removed, hw, present, given, counted, done, answered, again, ended>>

\* Retention: the log start moves.
Trim ==
    /\ (0 < Trims)
    /\ (start < Len(data))
    /\ start' = (start + 1)
    /\ UNCHANGED <<epoch, leader, insync, following, reign, journal, heard, data, removed, cleaned, hw, present, given, counted, done, answered, again, ended>>

\* What is done goes, in a work queue.
Remove(o) ==
    /\ (0 < Queue)
    /\ ~((o \in removed))
    /\ Serves(leader)
    /\ Done(leader, present, o, heard[leader])
    /\ removed' = (removed \cup {o})
    /\ UNCHANGED <<epoch, leader, insync, following, reign, journal, heard, data, start, cleaned, hw, present, given, counted, done, answered, again, ended>>

Next ==
    \/ Commit
    \/ \E r \in Replica : Fetch(r)
    \/ \E to \in Replica : Elect(to)
    \/ \E r \in Replica : Leave(r)
    \/ \E r \in Replica : Join(r)
    \/ \E to \in Replica, damaged \in Replica, end \in (0..Entries) : ElectInDoubt(to, damaged, end)
    \/ \E to \in Replica, end \in (0..Records) : ElectUnclean(to, end)
    \/ Publish
    \/ \E r \in Replica, c \in (0..Entries - 1), o \in (0..Records - 1) : Deliver(r, c, o)
    \/ \E r \in Replica, c \in (0..Entries - 1), o \in (0..Records - 1) : Redeliver(r, c, o)
    \/ \E r \in Replica, c \in (0..Entries - 1), o \in (0..Records - 1) : Ack(r, c, o)
    \/ \E r \in Replica, c \in (0..Entries - 1), o \in (0..Records - 1) : AckAgain(r, c, o)
    \/ \E r \in Replica, c \in (0..Entries - 1) : Delete(r, c)
    \/ \E r \in Replica : Create(r)
    \/ \E r \in Replica, c \in (0..Entries - 1) : Reset(r, c)
    \/ \E r \in Replica : Rewind(r)
    \/ \E c \in (0..Entries - 1) : Snapshot(c)
    \/ \E p \in (0..Entries - 1) : CleanJournal(p)
    \/ Trim
    \/ \E o \in (0..Records - 1) : Remove(o)

Spec == Init /\ [][Next]_vars

\* K3. An answered ack is committed; behind it nothing is decided to be delivered.
AckStays ==
    ((\A o \in (0..Records - 1) : ((o \in answered) => (0 < done[o]))) /\ (Cardinality(again) = 0))

\* K4. Whatever fails.
DeliveriesBounded ==
    (\A o \in (0..Records - 1) : (given[o] <= (Limit + 1)))

\* K6. Whatever a consumer is past is pending, done, or gone.
NoneSkipped ==
    (\A c \in (0..Entries - 1) : (\A o \in (0..Records - 1) : ((Decides(c) /\ ((o < Position(leader, c)) /\ (o < Len(data)))) => ((IF (Pending(leader, c, o) \/ (0 < done[o])) THEN TRUE ELSE (\E p \in (heard[leader])..(Len(journal[leader]) - 1) : ((journal[leader][p + 1].kind = "done") /\ (journal[leader][p + 1].offset = o)))) \/ Gone(o)))))

\* K2. Who serves knows of every delivery that is recorded, and of everything that is done.
CountsKept ==
    (\A c \in (0..Entries - 1) : (\A o \in (0..Records - 1) : (Decides(c) => ((IF Done(leader, c, o, Len(journal[leader])) THEN TRUE ELSE (counted[o] <= Times(leader, c, o))) /\ ((0 < done[o]) => Done(leader, c, o, Len(journal[leader])))))))

\* K8. A delivery has one number more than the one before, also where that is not there any more.
Numbered ==
    (\A p \in (0)..(Len(journal[leader]) - 1) : ((journal[leader][p + 1].kind = "delivered") => (journal[leader][p + 1].nth = (1 + Cardinality({q \in (0)..(p - 1) : ((journal[leader][q + 1].kind = "delivered") /\ (journal[leader][q + 1].consumer = journal[leader][p + 1].consumer))})))))

RemovedOnlyDone ==
    (\A o \in (0..Records - 1) : ((o \in removed) => (0 < done[o])))

\* K1. An ack counts for the consumer that had delivered.
OfThisIncarnation ==
    (\A p \in (0)..(heard[leader] - 1) : (journal[leader][p + 1].meant = journal[leader][p + 1].consumer))

\* K1. Of what was said to be deleted, the journal says so too, for whoever leads.
DeletedStaysDeleted ==
    (\A c \in (0..Entries - 1) : ((c \in ended) => (Serves(leader) => ~Is(leader, c))))

\* K1. Who serves knows of the consumer that was created, if nobody has deleted it.
ConsumerStays ==
    (\A c \in (0..Entries - 1) : (((((c = present) /\ Serves(leader)) /\ ~((\E p \in (0)..(Len(journal[leader]) - 1) : ((journal[leader][p + 1].kind = "deleted") /\ (journal[leader][p + 1].consumer = c))))) /\ ~IsReset(leader, c)) => Is(leader, c)))

\* K1. Whoever serves has a consumer of the name, if it was reset and not deleted.
NeverWithout ==
    ((((0 < Resets) /\ (Deletes = 0)) /\ Serves(leader)) => (\E c \in (0..Entries - 1) : Is(leader, c)))

\* K7. What keeps a consumer from going on is there to be acked.
RoomForOthers ==
    (\A c \in (0..Entries - 1) : (((Decides(c) /\ (\E o \in (Position(leader, c))..(Len(data) - 1) : ~Gone(o))) /\ (Room <= Cardinality({o \in (start)..(Records - 1) : (Pending(leader, c, o) /\ ~((o \in removed)))}))) => (0 < Cardinality({o \in (0..Records - 1) : (Pending(leader, c, o) /\ ~Gone(o))}))))

==============================================================================
