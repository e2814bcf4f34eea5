--------------------------- MODULE ProducersRight ----------------------------

\* Publishers, what a leader does with their messages, and what must always be true.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Replica, Producer, Records, Epochs, Runs, Messages, InFlight, Retains

VARIABLES
    newest, leaders, isr, epoch, hw, log, start, table, snapshot, committed, retains, current, sent, answered

vars == <<newest, leaders, isr, epoch, hw, log, start, table, snapshot, committed, retains, current, sent, answered>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ newest \in (0..Epochs)
    /\ leaders \in [(0..Epochs) -> (Replica \cup {None})]
    /\ isr \in SUBSET Replica
    /\ epoch \in [Replica -> (0..Epochs)]
    /\ hw \in [Replica -> (0..Records)]
    /\ ((DOMAIN log = Replica) /\ (\A x \in Replica : ((log[x] \in Seq([epoch: (0..Epochs), producer: Producer, run: (0..Runs), seq: (0..Messages - 1)])) /\ (Len(log[x]) <= Records))))
    /\ start \in [Replica -> (0..Records)]
    /\ table \in [Replica -> [Producer -> [run: (0..Runs), next: (0..Messages), places: [(0..Messages - 1) -> ((0..Records - 1) \cup {None})]]]]
    /\ snapshot \in [Replica -> [Producer -> [run: (0..Runs), next: (0..Messages), places: [(0..Messages - 1) -> ((0..Records - 1) \cup {None})]]]]
    /\ ((committed \in Seq([epoch: (0..Epochs), producer: Producer, run: (0..Runs), seq: (0..Messages - 1)])) /\ (Len(committed) <= Records))
    /\ retains \in (0..Retains)
    /\ current \in [Producer -> (1..Runs)]
    /\ sent \in [Producer -> [(1..Runs) -> (0..Messages)]]
    /\ answered \in [Producer -> [(1..Runs) -> [(0..Messages - 1) -> ((0..Records - 1) \cup {None})]]]

\* It believes so, rightly or not.
Leads(r) ==
    (leaders[epoch[r]] = r)

\* In the newest epoch.
TrulyLeads(r) ==
    ((epoch[r] = newest) /\ (leaders[newest] = r))

\* Both are in one epoch (R6).
Hears(lead, f) ==
    (((lead # f) /\ Leads(lead)) /\ (epoch[lead] = epoch[f]))

\* How far the two logs agree, by their epochs.
Agreed(f, lead) ==
    Cardinality({i \in (0)..(MinOf({Len(log[f]), Len(log[lead])}) - 1) : (log[f][i + 1].epoch = log[lead][i + 1].epoch)})

\* The follower's log is a prefix of the leader's.
Agrees(f, lead) ==
    ((Len(log[f]) <= Len(log[lead])) /\ (Agreed(f, lead) = Len(log[f])))

\* What the records below `end` and the table at the log start say.
TableOf(r, end) ==
    [p \in Producer |-> [run |-> MaxOf({snapshot[r][p].run, MaxOf({(IF ((start[r] <= i) /\ (i < end)) THEN (IF (log[r][i + 1].producer = p) THEN log[r][i + 1].run ELSE 0) ELSE 0) : i \in (0..Records - 1)})}), next |-> MaxOf({MaxOf({(IF (0 < MaxOf({(IF ((((start[r] <= i) /\ (i < end)) /\ ((log[r][i + 1].producer = p) /\ ((IF (log[r][i + 1].producer = p) THEN log[r][i + 1].run ELSE 0) = MaxOf({snapshot[r][p].run, MaxOf({(IF ((start[r] <= i2) /\ (i2 < end)) THEN (IF (log[r][i2 + 1].producer = p) THEN log[r][i2 + 1].run ELSE 0) ELSE 0) : i2 \in (0..Records - 1)})})))) /\ (log[r][i + 1].seq = n)) THEN (i + 1) ELSE 0) : i \in (0..Records - 1)})) THEN (n + 1) ELSE 0) : n \in (0..Messages - 1)}), (IF (snapshot[r][p].run = MaxOf({snapshot[r][p].run, MaxOf({(IF ((start[r] <= i) /\ (i < end)) THEN (IF (log[r][i + 1].producer = p) THEN log[r][i + 1].run ELSE 0) ELSE 0) : i \in (0..Records - 1)})})) THEN snapshot[r][p].next ELSE 0)}), places |-> [n \in (0..Messages - 1) |-> (IF (0 < MaxOf({(IF ((((start[r] <= i) /\ (i < end)) /\ ((log[r][i + 1].producer = p) /\ ((IF (log[r][i + 1].producer = p) THEN log[r][i + 1].run ELSE 0) = MaxOf({snapshot[r][p].run, MaxOf({(IF ((start[r] <= i2) /\ (i2 < end)) THEN (IF (log[r][i2 + 1].producer = p) THEN log[r][i2 + 1].run ELSE 0) ELSE 0) : i2 \in (0..Records - 1)})})))) /\ (log[r][i + 1].seq = n)) THEN (i + 1) ELSE 0) : i \in (0..Records - 1)})) THEN (MaxOf({(IF ((((start[r] <= i) /\ (i < end)) /\ ((log[r][i + 1].producer = p) /\ ((IF (log[r][i + 1].producer = p) THEN log[r][i + 1].run ELSE 0) = MaxOf({snapshot[r][p].run, MaxOf({(IF ((start[r] <= i2) /\ (i2 < end)) THEN (IF (log[r][i2 + 1].producer = p) THEN log[r][i2 + 1].run ELSE 0) ELSE 0) : i2 \in (0..Records - 1)})})))) /\ (log[r][i + 1].seq = n)) THEN (i + 1) ELSE 0) : i \in (0..Records - 1)}) - 1) ELSE (IF (snapshot[r][p].run = MaxOf({snapshot[r][p].run, MaxOf({(IF ((start[r] <= i) /\ (i < end)) THEN (IF (log[r][i + 1].producer = p) THEN log[r][i + 1].run ELSE 0) ELSE 0) : i \in (0..Records - 1)})})) THEN snapshot[r][p].places[n] ELSE None))]]]

TableOfLogAlone(r) ==
    [p \in Producer |-> [run |-> MaxOf({[p2 \in Producer |-> [run |-> 0, next |-> 0, places |-> [x \in (0..Messages - 1) |-> None]]][p].run, MaxOf({(IF ((start[r] <= i) /\ (i < Len(log[r]))) THEN (IF (log[r][i + 1].producer = p) THEN log[r][i + 1].run ELSE 0) ELSE 0) : i \in (0..Records - 1)})}), next |-> MaxOf({MaxOf({(IF (0 < MaxOf({(IF ((((start[r] <= i) /\ (i < Len(log[r]))) /\ ((log[r][i + 1].producer = p) /\ ((IF (log[r][i + 1].producer = p) THEN log[r][i + 1].run ELSE 0) = MaxOf({[p2 \in Producer |-> [run |-> 0, next |-> 0, places |-> [x \in (0..Messages - 1) |-> None]]][p].run, MaxOf({(IF ((start[r] <= i2) /\ (i2 < Len(log[r]))) THEN (IF (log[r][i2 + 1].producer = p) THEN log[r][i2 + 1].run ELSE 0) ELSE 0) : i2 \in (0..Records - 1)})})))) /\ (log[r][i + 1].seq = n)) THEN (i + 1) ELSE 0) : i \in (0..Records - 1)})) THEN (n + 1) ELSE 0) : n \in (0..Messages - 1)}), (IF ([p2 \in Producer |-> [run |-> 0, next |-> 0, places |-> [x \in (0..Messages - 1) |-> None]]][p].run = MaxOf({[p2 \in Producer |-> [run |-> 0, next |-> 0, places |-> [x \in (0..Messages - 1) |-> None]]][p].run, MaxOf({(IF ((start[r] <= i) /\ (i < Len(log[r]))) THEN (IF (log[r][i + 1].producer = p) THEN log[r][i + 1].run ELSE 0) ELSE 0) : i \in (0..Records - 1)})})) THEN [p2 \in Producer |-> [run |-> 0, next |-> 0, places |-> [x \in (0..Messages - 1) |-> None]]][p].next ELSE 0)}), places |-> [n \in (0..Messages - 1) |-> (IF (0 < MaxOf({(IF ((((start[r] <= i) /\ (i < Len(log[r]))) /\ ((log[r][i + 1].producer = p) /\ ((IF (log[r][i + 1].producer = p) THEN log[r][i + 1].run ELSE 0) = MaxOf({[p2 \in Producer |-> [run |-> 0, next |-> 0, places |-> [x \in (0..Messages - 1) |-> None]]][p].run, MaxOf({(IF ((start[r] <= i2) /\ (i2 < Len(log[r]))) THEN (IF (log[r][i2 + 1].producer = p) THEN log[r][i2 + 1].run ELSE 0) ELSE 0) : i2 \in (0..Records - 1)})})))) /\ (log[r][i + 1].seq = n)) THEN (i + 1) ELSE 0) : i \in (0..Records - 1)})) THEN (MaxOf({(IF ((((start[r] <= i) /\ (i < Len(log[r]))) /\ ((log[r][i + 1].producer = p) /\ ((IF (log[r][i + 1].producer = p) THEN log[r][i + 1].run ELSE 0) = MaxOf({[p2 \in Producer |-> [run |-> 0, next |-> 0, places |-> [x \in (0..Messages - 1) |-> None]]][p].run, MaxOf({(IF ((start[r] <= i2) /\ (i2 < Len(log[r]))) THEN (IF (log[r][i2 + 1].producer = p) THEN log[r][i2 + 1].run ELSE 0) ELSE 0) : i2 \in (0..Records - 1)})})))) /\ (log[r][i + 1].seq = n)) THEN (i + 1) ELSE 0) : i \in (0..Records - 1)}) - 1) ELSE (IF ([p2 \in Producer |-> [run |-> 0, next |-> 0, places |-> [x \in (0..Messages - 1) |-> None]]][p].run = MaxOf({[p2 \in Producer |-> [run |-> 0, next |-> 0, places |-> [x \in (0..Messages - 1) |-> None]]][p].run, MaxOf({(IF ((start[r] <= i) /\ (i < Len(log[r]))) THEN (IF (log[r][i + 1].producer = p) THEN log[r][i + 1].run ELSE 0) ELSE 0) : i \in (0..Records - 1)})})) THEN [p2 \in Producer |-> [run |-> 0, next |-> 0, places |-> [x \in (0..Messages - 1) |-> None]]][p].places[n] ELSE None))]]]

\* What a new leader has to find lies behind: its log has what is committed, and perhaps no more.
MayBegin(lead, begin) ==
    (0 < newest)

\* The table still says where it is: it is one of the last few.
Remembered(r, p, n) ==
    ((table[r][p].places[n] # None) /\ (table[r][p].next <= (n + InFlight)))

\* A leader refuses the message for good, though its run was not replaced.
TooOld(lead, p, run, n) ==
    (((table[lead][p].run = run) /\ (n < table[lead][p].next)) /\ ~Remembered(lead, p, n))

Init ==
    \E leader \in Replica :
        /\ newest = 1
        /\ leaders = [[x \in (0..Epochs) |-> None] EXCEPT ![1] = leader]
        /\ isr = Replica
        /\ epoch = [x \in Replica |-> 1]
        /\ hw = [x \in Replica |-> 0]
        /\ log = [x \in Replica |-> <<>>]
        /\ start = [x \in Replica |-> 0]
        /\ table = [x \in Replica |-> [x2 \in Producer |-> [run |-> 0, next |-> 0, places |-> [x3 \in (0..Messages - 1) |-> None]]]]
        /\ snapshot = [x \in Replica |-> [x2 \in Producer |-> [run |-> 0, next |-> 0, places |-> [x3 \in (0..Messages - 1) |-> None]]]]
        /\ committed = <<>>
        /\ retains = 0
        /\ current = [x \in Producer |-> 1]
        /\ sent = [x \in Producer |-> [x2 \in (1..Runs) |-> 0]]
        /\ answered = [x \in Producer |-> [x2 \in (1..Runs) |-> [x3 \in (0..Messages - 1) |-> None]]]

\* R2, with the followers' progress read at once.
Commit(lead) ==
    /\ TrulyLeads(lead)
    /\ (hw[lead] < Len(log[lead]))
    /\ (\A m \in isr : (IF (m = lead) THEN TRUE ELSE (((epoch[m] = epoch[lead]) /\ (hw[lead] < Len(log[m]))) /\ (log[m][hw[lead] + 1].epoch = log[lead][hw[lead] + 1].epoch))))
    /\ hw' = [hw EXCEPT ![lead] = (hw[lead] + 1)]
    /\ committed' = (IF (hw[lead] = Len(committed)) THEN Append(committed, log[lead][hw[lead] + 1]) ELSE committed)
    /\ UNCHANGED <<newest, leaders, isr, epoch, log, start, table, snapshot, retains, current, sent, answered>>

\* R16.
Elect(to) ==
    /\ (newest < Epochs)
    /\ (to \in isr)
    /\ (leaders[newest] # to)
    /\ newest' = (newest + 1)
    /\ leaders' = [leaders EXCEPT ![(newest + 1)] = to]
    /\ UNCHANGED <<isr, epoch, hw, log, start, table, snapshot, committed, retains, current, sent, answered>>

\* The table is complete to the LEO before the first message is taken.
JoinEpoch(r) ==
    /\ (epoch[r] < newest)
    /\ epoch' = [epoch EXCEPT ![r] = newest]
    /\ UNCHANGED <<newest, leaders, isr, hw, log, start, table, snapshot, committed, retains, current, sent, answered>>

Shrink(lead, f) ==
    /\ (f # lead)
    /\ TrulyLeads(lead)
    /\ (f \in isr)
    /\ isr' = (isr \ {f})
    /\ UNCHANGED <<newest, leaders, epoch, hw, log, start, table, snapshot, committed, retains, current, sent, answered>>

\* R10: it has what is committed.
Expand(lead, f) ==
    /\ (f # lead)
    /\ TrulyLeads(lead)
    /\ ~((f \in isr))
    /\ Hears(lead, f)
    /\ Agrees(f, lead)
    /\ (Len(committed) <= Len(log[f]))
    /\ isr' = (isr \cup {f})
    /\ UNCHANGED <<newest, leaders, epoch, hw, log, start, table, snapshot, committed, retains, current, sent, answered>>

\* The follower notes what the record says of its producer.
Fetch(f, lead) ==
    /\ (start[lead] <= Len(log[f]))
    /\ (f # lead)
    /\ Hears(lead, f)
    /\ Agrees(f, lead)
    /\ ((Len(log[f]) < Len(log[lead])) \/ (hw[f] < MaxOf({hw[f], MinOf({hw[lead], (Len(log[f]) + (IF (Len(log[f]) < Len(log[lead])) THEN 1 ELSE 0))})})))
    /\ log' = [log EXCEPT ![f] = (IF (Len(log[f]) < Len(log[lead])) THEN Append(log[f], log[lead][Len(log[f]) + 1]) ELSE log[f])]
    /\ hw' = [hw EXCEPT ![f] = MaxOf({hw[f], MinOf({hw[lead], (Len(log[f]) + (IF (Len(log[f]) < Len(log[lead])) THEN 1 ELSE 0))})})]
    /\ table' = [table EXCEPT ![f] = (IF (Len(log[f]) < Len(log[lead])) THEN [o \in Producer |-> (IF ((o = log[lead][Len(log[f]) + 1].producer) /\ (table[f][o].run <= log[lead][Len(log[f]) + 1].run)) THEN [run |-> log[lead][Len(log[f]) + 1].run, next |-> (IF (table[f][o].run = log[lead][Len(log[f]) + 1].run) THEN MaxOf({table[f][o].next, (log[lead][Len(log[f]) + 1].seq + 1)}) ELSE (log[lead][Len(log[f]) + 1].seq + 1)), places |-> [n \in (0..Messages - 1) |-> (IF (n = log[lead][Len(log[f]) + 1].seq) THEN Len(log[f]) ELSE (IF (table[f][o].run = log[lead][Len(log[f]) + 1].run) THEN table[f][o].places[n] ELSE None))]] ELSE table[f][o])] ELSE table[f])]
    /\ UNCHANGED <<newest, leaders, isr, epoch, start, snapshot, committed, retains, current, sent, answered>>

\* What the cut records said is forgotten with them.
Truncate(f, lead) ==
    /\ (f # lead)
    /\ Hears(lead, f)
    /\ ~Agrees(f, lead)
    /\ log' = [log EXCEPT ![f] = SubSeq(log[f], 1, MinOf({Agreed(f, lead), Len(log[f])}))]
    /\ hw' = [hw EXCEPT ![f] = MinOf({hw[f], Agreed(f, lead)})]
    /\ table' = [table EXCEPT ![f] = TableOf(f, Agreed(f, lead))]
    /\ UNCHANGED <<newest, leaders, isr, epoch, start, snapshot, committed, retains, current, sent, answered>>

\* C3: retention moves the log start; the table up to there is kept, or the log start waits.
Retain(lead, begin) ==
    /\ (retains < Retains)
    /\ TrulyLeads(lead)
    /\ (start[lead] < begin)
    /\ (begin <= hw[lead])
    /\ MayBegin(lead, begin)
    /\ retains' = (retains + 1)
    /\ start' = [start EXCEPT ![lead] = begin]
    /\ snapshot' = [snapshot EXCEPT ![lead] = TableOf(lead, begin)]
    /\ UNCHANGED <<newest, leaders, isr, epoch, hw, log, table, committed, current, sent, answered>>

\* C3: a follower takes over its leader's log start, as far as it knows that to be committed.
FollowStart(f, lead) ==
    /\ Hears(lead, f)
    /\ (start[f] < start[lead])
    /\ (start[lead] <= hw[f])
    /\ start' = [start EXCEPT ![f] = start[lead]]
    /\ snapshot' = [snapshot EXCEPT ![f] = TableOf(f, start[lead])]
    /\ UNCHANGED <<newest, leaders, isr, epoch, hw, log, table, committed, retains, current, sent, answered>>

\* R6, C3: it ends below the leader's log start, begins there, and gets the table of that place.
BeginAtLogStart(f, lead) ==
    /\ (f # lead)
    /\ Hears(lead, f)
    /\ (Len(log[f]) < start[lead])
    /\ log' = [log EXCEPT ![f] = SubSeq(log[lead], 1, MinOf({start[lead], Len(log[lead])}))]
    /\ start' = [start EXCEPT ![f] = start[lead]]
    /\ hw' = [hw EXCEPT ![f] = start[lead]]
    /\ table' = [table EXCEPT ![f] = snapshot[lead]]
    /\ snapshot' = [snapshot EXCEPT ![f] = snapshot[lead]]
    /\ UNCHANGED <<newest, leaders, isr, epoch, committed, retains, current, sent, answered>>

\* The next message of a run, even a replaced one; at most `InFlight` from the first unanswered.
Send(p, run) ==
    /\ (run <= current[p])
    /\ (sent[p][run] < Messages)
    /\ (\A n \in (0..Messages - 1) : ((sent[p][run] < (n + InFlight)) \/ (answered[p][run][n] # None)))
    /\ sent' = [sent EXCEPT ![p] = [sent[p] EXCEPT ![run] = (sent[p][run] + 1)]]
    /\ UNCHANGED <<newest, leaders, isr, epoch, hw, log, start, table, snapshot, committed, retains, current, answered>>

\* A new run of the producer.
Restart(p) ==
    /\ (current[p] < Runs)
    /\ (0 < sent[p][current[p]])
    /\ current' = [current EXCEPT ![p] = (current[p] + 1)]
    /\ UNCHANGED <<newest, leaders, isr, epoch, hw, log, start, table, snapshot, committed, retains, sent, answered>>

\* A message arrives at a leader that finds it to be new. Others change nothing.
Publish(lead, p, run, n) ==
    /\ Leads(lead)
    /\ (n < sent[p][run])
    /\ (Len(log[lead]) < Records)
    /\ (((table[lead][p].run = run) /\ (table[lead][p].next = n)) \/ ((table[lead][p].run < run) /\ (n = 0)))
    /\ table' = [table EXCEPT ![lead] = [o \in Producer |-> (IF ((o = [epoch |-> epoch[lead], producer |-> p, run |-> run, seq |-> n].producer) /\ (table[lead][o].run <= [epoch |-> epoch[lead], producer |-> p, run |-> run, seq |-> n].run)) THEN [run |-> [epoch |-> epoch[lead], producer |-> p, run |-> run, seq |-> n].run, next |-> (IF (table[lead][o].run = [epoch |-> epoch[lead], producer |-> p, run |-> run, seq |-> n].run) THEN MaxOf({table[lead][o].next, ([epoch |-> epoch[lead], producer |-> p, run |-> run, seq |-> n].seq + 1)}) ELSE ([epoch |-> epoch[lead], producer |-> p, run |-> run, seq |-> n].seq + 1)), places |-> [n2 \in (0..Messages - 1) |-> (IF (n2 = [epoch |-> epoch[lead], producer |-> p, run |-> run, seq |-> n].seq) THEN Len(log[lead]) ELSE (IF (table[lead][o].run = [epoch |-> epoch[lead], producer |-> p, run |-> run, seq |-> n].run) THEN table[lead][o].places[n2] ELSE None))]] ELSE table[lead][o])]]
    /\ log' = [log EXCEPT ![lead] = Append(log[lead], [epoch |-> epoch[lead], producer |-> p, run |-> run, seq |-> n])]
    /\ UNCHANGED <<newest, leaders, isr, epoch, hw, start, snapshot, committed, retains, current, sent, answered>>

\* The table has the message, sent for the first time or again. Once it is committed: where it is.
Answer(lead, p, run, n) ==
    /\ Leads(lead)
    /\ (n < sent[p][run])
    /\ (answered[p][run][n] = None)
    /\ (table[lead][p].run = run)
    /\ Remembered(lead, p, n)
    /\ (table[lead][p].places[n] < hw[lead])
    /\ answered' = [answered EXCEPT ![p] = [answered[p] EXCEPT ![run] = [answered[p][run] EXCEPT ![n] = table[lead][p].places[n]]]]
    /\ UNCHANGED <<newest, leaders, isr, epoch, hw, log, start, table, snapshot, committed, retains, current, sent>>

\* The table had the message when it came, and has a newer run by the time that it is committed.
AnswerLate(lead, place) ==
    /\ Leads(lead)
    /\ (place < hw[lead])
    /\ (answered[log[lead][place + 1].producer][log[lead][place + 1].run][log[lead][place + 1].seq] = None)
    /\ (log[lead][place + 1].run < table[lead][log[lead][place + 1].producer].run)
    /\ answered' = [answered EXCEPT ![log[lead][place + 1].producer] = [answered[log[lead][place + 1].producer] EXCEPT ![log[lead][place + 1].run] = [answered[log[lead][place + 1].producer][log[lead][place + 1].run] EXCEPT ![log[lead][place + 1].seq] = place]]]
    /\ UNCHANGED <<newest, leaders, isr, epoch, hw, log, start, table, snapshot, committed, retains, current, sent>>

Next ==
    \/ \E lead \in Replica : Commit(lead)
    \/ \E to \in Replica : Elect(to)
    \/ \E r \in Replica : JoinEpoch(r)
    \/ \E lead \in Replica, f \in Replica : Shrink(lead, f)
    \/ \E lead \in Replica, f \in Replica : Expand(lead, f)
    \/ \E f \in Replica, lead \in Replica : Fetch(f, lead)
    \/ \E f \in Replica, lead \in Replica : Truncate(f, lead)
    \/ \E lead \in Replica, begin \in (0..Records) : Retain(lead, begin)
    \/ \E f \in Replica, lead \in Replica : FollowStart(f, lead)
    \/ \E f \in Replica, lead \in Replica : BeginAtLogStart(f, lead)
    \/ \E p \in Producer, run \in (1..Runs) : Send(p, run)
    \/ \E p \in Producer : Restart(p)
    \/ \E lead \in Replica, p \in Producer, run \in (1..Runs), n \in (0..Messages - 1) : Publish(lead, p, run, n)
    \/ \E lead \in Replica, p \in Producer, run \in (1..Runs), n \in (0..Messages - 1) : Answer(lead, p, run, n)
    \/ \E lead \in Replica, place \in (0..Records - 1) : AnswerLate(lead, place)

Spec == Init /\ [][Next]_vars

\* Whoever may be elected has what is committed, or began behind it.
CommittedOnIsr ==
    (\A r \in isr : (SubSeq(log[r], 1, MinOf({Len(committed), Len(log[r])})) = committed))

\* Each message is committed at most once.
NoDuplicate ==
    (\A i \in (0)..(Len(committed) - 1) : (\A j \in (0)..(i - 1) : ~((((committed[j + 1].producer = committed[i + 1].producer) /\ (committed[j + 1].run = committed[i + 1].run)) /\ (committed[j + 1].seq = committed[i + 1].seq)))))

\* No message of a run is committed before those that precede it in the run: order, and no gaps.
InOrder ==
    (\A i \in (0)..(Len(committed) - 1) : (IF (committed[i + 1].seq = 0) THEN TRUE ELSE (\E j \in (0)..(i - 1) : (((committed[j + 1].producer = committed[i + 1].producer) /\ (committed[j + 1].run = committed[i + 1].run)) /\ ((committed[j + 1].seq + 1) = committed[i + 1].seq)))))

\* Behind the first message of a run there is none of an earlier one.
ZombieFenced ==
    (\A i \in (0)..(Len(committed) - 1) : (\A j \in (0)..(i - 1) : ((committed[j + 1].producer = committed[i + 1].producer) => (committed[j + 1].run <= committed[i + 1].run))))

\* What was acknowledged is committed, at the offset that was named.
AckedIsCommitted ==
    (\A p \in Producer : (\A run \in (1..Runs) : (\A n \in (0..Messages - 1) : ((answered[p][run][n] # None) => ((((answered[p][run][n] < Len(committed)) /\ (committed[answered[p][run][n] + 1].producer = p)) /\ (committed[answered[p][run][n] + 1].run = run)) /\ (committed[answered[p][run][n] + 1].seq = n))))))

\* What is stored and not answered can be: no more may wait for answers than is remembered.
RetryIsAnswered ==
    (\A lead \in Replica : (Leads(lead) => (\A i \in (0)..(Len(log[lead]) - 1) : ((answered[log[lead][i + 1].producer][log[lead][i + 1].run][log[lead][i + 1].seq] = None) => ~TooOld(lead, log[lead][i + 1].producer, log[lead][i + 1].run, log[lead][i + 1].seq)))))

\* A leader takes a message for stored only if it is in its log.
RetryIsStored ==
    (\A lead \in Replica : (\A p \in Producer : (\A n \in (0..Messages - 1) : ((Leads(lead) /\ (table[lead][p].places[n] # None)) => (((table[lead][p].places[n] < Len(log[lead])) /\ (log[lead][table[lead][p].places[n] + 1].producer = p)) /\ (log[lead][table[lead][p].places[n] + 1].seq = n))))))

==============================================================================
