-------------------------- MODULE ExpectationsRight --------------------------

\* One partition, its copies, and publishers of which each asks for one thing.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Replica, Subject, Publisher, Records, Epochs, Removals

VARIABLES
    newest, leaders, isr, epoch, hw, log, index, folded, notes, removed, heeds, writes, wish, judged, answered, committed

vars == <<newest, leaders, isr, epoch, hw, log, index, folded, notes, removed, heeds, writes, wish, judged, answered, committed>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ newest \in (0..Epochs)
    /\ leaders \in [(0..Epochs) -> (Replica \cup {None})]
    /\ isr \in SUBSET Replica
    /\ epoch \in [Replica -> (0..Epochs)]
    /\ hw \in [Replica -> (0..Records)]
    /\ ((DOMAIN log = Replica) /\ (\A x \in Replica : ((log[x] \in Seq([epoch: (0..Epochs), subject: Subject, publisher: Publisher])) /\ (Len(log[x]) <= Records))))
    /\ index \in [Replica -> [Subject -> (0..Records)]]
    /\ folded \in [Replica -> (0..Records)]
    /\ notes \in [Replica -> ([epoch: (0..Epochs), begin: (0..Records)] \cup {None})]
    /\ ((removed \in Seq([epoch: (0..Epochs), record: (0..Records)])) /\ (Len(removed) <= Removals))
    /\ heeds \in [Replica -> (0..Removals)]
    /\ writes \in [Replica -> ([epoch: (0..Epochs), record: (0..Records)] \cup {None})]
    /\ wish \in [Publisher -> ([subject: Subject, expected: (0..Records), since: (0..Records), moment: (0..Removals)] \cup {None})]
    /\ judged \in [Publisher -> ([stored: (0..1), by: Replica, epoch: (0..Epochs), rests: (0..Records)] \cup {None})]
    /\ answered \in [Publisher -> ([committed: (0..Records), removed: (0..Removals)] \cup {None})]
    /\ ((committed \in Seq([epoch: (0..Epochs), subject: Subject, publisher: Publisher])) /\ (Len(committed) <= Records))

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

\* A leader heeds what was committed when it was elected, and since.
HeedsAll(r) ==
    (Cardinality({i \in (0)..(Len(removed) - 1) : (removed[i + 1].epoch <= epoch[r])}) = heeds[r])

Init ==
    \E leader \in Replica :
        /\ newest = 1
        /\ leaders = [[x \in (0..Epochs) |-> None] EXCEPT ![1] = leader]
        /\ isr = Replica
        /\ epoch = [x \in Replica |-> 1]
        /\ hw = [x \in Replica |-> 0]
        /\ log = [x \in Replica |-> <<>>]
        /\ index = [x \in Replica |-> [x2 \in Subject |-> 0]]
        /\ folded = [x \in Replica |-> 0]
        /\ notes = [x \in Replica |-> None]
        /\ removed = <<>>
        /\ heeds = [x \in Replica |-> 0]
        /\ writes = [x \in Replica |-> None]
        /\ wish = [x \in Publisher |-> None]
        /\ judged = [x \in Publisher |-> None]
        /\ answered = [x \in Publisher |-> None]
        /\ committed = <<>>

\* R2, with the followers' progress read at once.
Commit(lead) ==
    /\ TrulyLeads(lead)
    /\ (hw[lead] < Len(log[lead]))
    /\ (\A m \in isr : (IF (m = lead) THEN TRUE ELSE (((epoch[m] = epoch[lead]) /\ (hw[lead] < Len(log[m]))) /\ (log[m][hw[lead] + 1].epoch = log[lead][hw[lead] + 1].epoch))))
    /\ hw' = [hw EXCEPT ![lead] = (hw[lead] + 1)]
    /\ committed' = (IF (hw[lead] = Len(committed)) THEN Append(committed, log[lead][hw[lead] + 1]) ELSE committed)
    /\ UNCHANGED <<newest, leaders, isr, epoch, log, index, folded, notes, removed, heeds, writes, wish, judged, answered>>

\* R16.
Elect(to) ==
    /\ (newest < Epochs)
    /\ (to \in isr)
    /\ (leaders[newest] # to)
    /\ newest' = (newest + 1)
    /\ leaders' = [leaders EXCEPT ![(newest + 1)] = to]
    /\ UNCHANGED <<isr, epoch, hw, log, index, folded, notes, removed, heeds, writes, wish, judged, answered, committed>>

JoinEpoch(r) ==
    /\ (epoch[r] < newest)
    /\ epoch' = [epoch EXCEPT ![r] = newest]
    /\ UNCHANGED <<newest, leaders, isr, hw, log, index, folded, notes, removed, heeds, writes, wish, judged, answered, committed>>

Shrink(lead, f) ==
    /\ (f # lead)
    /\ TrulyLeads(lead)
    /\ (f \in isr)
    /\ isr' = (isr \ {f})
    /\ UNCHANGED <<newest, leaders, epoch, hw, log, index, folded, notes, removed, heeds, writes, wish, judged, answered, committed>>

\* R10: it has what is committed.
Expand(lead, f) ==
    /\ (f # lead)
    /\ TrulyLeads(lead)
    /\ ~((f \in isr))
    /\ Hears(lead, f)
    /\ Agrees(f, lead)
    /\ (Len(committed) <= Len(log[f]))
    /\ isr' = (isr \cup {f})
    /\ UNCHANGED <<newest, leaders, epoch, hw, log, index, folded, notes, removed, heeds, writes, wish, judged, answered, committed>>

Ask(p, subject, expected) ==
    /\ (wish[p] = None)
    /\ wish' = [wish EXCEPT ![p] = [subject |-> subject, expected |-> expected, since |-> Len(committed), moment |-> Len(removed)]]
    /\ UNCHANGED <<newest, leaders, isr, epoch, hw, log, index, folded, notes, removed, heeds, writes, judged, answered, committed>>

\* From now on: the first message of this epoch has come that asks for it.
Note(lead) ==
    /\ Leads(lead)
    /\ (IF (notes[lead] = None) THEN TRUE ELSE (notes[lead].epoch < epoch[lead]))
    /\ notes' = [notes EXCEPT ![lead] = [epoch |-> epoch[lead], begin |-> Len(log[lead])]]
    /\ UNCHANGED <<newest, leaders, isr, epoch, hw, log, index, folded, removed, heeds, writes, wish, judged, answered, committed>>

\* The index takes in one more record.
Fold(r) ==
    /\ (folded[r] < hw[r])
    /\ index' = [index EXCEPT ![r] = [index[r] EXCEPT ![log[r][folded[r] + 1].subject] = (folded[r] + 1)]]
    /\ folded' = [folded EXCEPT ![r] = (folded[r] + 1)]
    /\ UNCHANGED <<newest, leaders, isr, epoch, hw, log, notes, removed, heeds, writes, wish, judged, answered, committed>>

\* The message is there, and is the next in its leader's queue.
Judge(p, lead) ==
    /\ (wish[p] # None)
    /\ (judged[p] = None)
    /\ Leads(lead)
    /\ (Len(log[lead]) < Records)
    /\ (notes[lead] # None)
    /\ (notes[lead].epoch = epoch[lead])
    /\ (notes[lead].begin <= folded[lead])
    /\ HeedsAll(lead)
    /\ (IF ~((\E i \in (0)..(Len(removed) - 1) : ((i < heeds[lead]) /\ (removed[i + 1].record = MaxOf({index[lead][wish[p].subject], MaxOf({(IF (((i2 < Len(log[lead])) /\ ((i2 < Len(log[lead])) /\ (notes[lead].begin <= i2))) /\ ~((\E i3 \in (0)..(Len(removed) - 1) : ((i3 < 0) /\ (removed[i3 + 1].record = (i2 + 1)))))) THEN (IF (log[lead][i2 + 1].subject = wish[p].subject) THEN (i2 + 1) ELSE 0) ELSE 0) : i2 \in (0..Records - 1)})}))))) THEN TRUE ELSE (MaxOf({index[lead][wish[p].subject], MaxOf({(IF (((i < Len(log[lead])) /\ ((i < Len(log[lead])) /\ (notes[lead].begin <= i))) /\ ~((\E i2 \in (0)..(Len(removed) - 1) : ((i2 < 0) /\ (removed[i2 + 1].record = (i + 1)))))) THEN (IF (log[lead][i + 1].subject = wish[p].subject) THEN (i + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)})}) <= folded[lead]))
    /\ log' = [log EXCEPT ![lead] = (IF ((IF (\E i \in (0)..(Len(removed) - 1) : ((i < heeds[lead]) /\ (removed[i + 1].record = MaxOf({index[lead][wish[p].subject], MaxOf({(IF (((i2 < Len(log[lead])) /\ ((i2 < Len(log[lead])) /\ (notes[lead].begin <= i2))) /\ ~((\E i3 \in (0)..(Len(removed) - 1) : ((i3 < 0) /\ (removed[i3 + 1].record = (i2 + 1)))))) THEN (IF (log[lead][i2 + 1].subject = wish[p].subject) THEN (i2 + 1) ELSE 0) ELSE 0) : i2 \in (0..Records - 1)})})))) THEN (IF (MaxOf({(IF (((i < Len(log[lead])) /\ ((i < folded[lead]) /\ (0 <= i))) /\ ~((\E i2 \in (0)..(Len(removed) - 1) : ((i2 < heeds[lead]) /\ (removed[i2 + 1].record = (i + 1)))))) THEN (IF (log[lead][i + 1].subject = wish[p].subject) THEN (i + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)}) = MaxOf({index[lead][wish[p].subject], MaxOf({(IF (((i < Len(log[lead])) /\ ((i < Len(log[lead])) /\ (notes[lead].begin <= i))) /\ ~((\E i2 \in (0)..(Len(removed) - 1) : ((i2 < 0) /\ (removed[i2 + 1].record = (i + 1)))))) THEN (IF (log[lead][i + 1].subject = wish[p].subject) THEN (i + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)})})) THEN 0 ELSE MaxOf({(IF (((i < Len(log[lead])) /\ ((i < folded[lead]) /\ (0 <= i))) /\ ~((\E i2 \in (0)..(Len(removed) - 1) : ((i2 < heeds[lead]) /\ (removed[i2 + 1].record = (i + 1)))))) THEN (IF (log[lead][i + 1].subject = wish[p].subject) THEN (i + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)})) ELSE MaxOf({index[lead][wish[p].subject], MaxOf({(IF (((i < Len(log[lead])) /\ ((i < Len(log[lead])) /\ (notes[lead].begin <= i))) /\ ~((\E i2 \in (0)..(Len(removed) - 1) : ((i2 < 0) /\ (removed[i2 + 1].record = (i + 1)))))) THEN (IF (log[lead][i + 1].subject = wish[p].subject) THEN (i + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)})})) = wish[p].expected) THEN Append(log[lead], [epoch |-> epoch[lead], subject |-> wish[p].subject, publisher |-> p]) ELSE log[lead])]
    /\ judged' = [judged EXCEPT ![p] = [stored |-> (IF ((IF (\E i \in (0)..(Len(removed) - 1) : ((i < heeds[lead]) /\ (removed[i + 1].record = MaxOf({index[lead][wish[p].subject], MaxOf({(IF (((i2 < Len(log[lead])) /\ ((i2 < Len(log[lead])) /\ (notes[lead].begin <= i2))) /\ ~((\E i3 \in (0)..(Len(removed) - 1) : ((i3 < 0) /\ (removed[i3 + 1].record = (i2 + 1)))))) THEN (IF (log[lead][i2 + 1].subject = wish[p].subject) THEN (i2 + 1) ELSE 0) ELSE 0) : i2 \in (0..Records - 1)})})))) THEN (IF (MaxOf({(IF (((i < Len(log[lead])) /\ ((i < folded[lead]) /\ (0 <= i))) /\ ~((\E i2 \in (0)..(Len(removed) - 1) : ((i2 < heeds[lead]) /\ (removed[i2 + 1].record = (i + 1)))))) THEN (IF (log[lead][i + 1].subject = wish[p].subject) THEN (i + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)}) = MaxOf({index[lead][wish[p].subject], MaxOf({(IF (((i < Len(log[lead])) /\ ((i < Len(log[lead])) /\ (notes[lead].begin <= i))) /\ ~((\E i2 \in (0)..(Len(removed) - 1) : ((i2 < 0) /\ (removed[i2 + 1].record = (i + 1)))))) THEN (IF (log[lead][i + 1].subject = wish[p].subject) THEN (i + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)})})) THEN 0 ELSE MaxOf({(IF (((i < Len(log[lead])) /\ ((i < folded[lead]) /\ (0 <= i))) /\ ~((\E i2 \in (0)..(Len(removed) - 1) : ((i2 < heeds[lead]) /\ (removed[i2 + 1].record = (i + 1)))))) THEN (IF (log[lead][i + 1].subject = wish[p].subject) THEN (i + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)})) ELSE MaxOf({index[lead][wish[p].subject], MaxOf({(IF (((i < Len(log[lead])) /\ ((i < Len(log[lead])) /\ (notes[lead].begin <= i))) /\ ~((\E i2 \in (0)..(Len(removed) - 1) : ((i2 < 0) /\ (removed[i2 + 1].record = (i + 1)))))) THEN (IF (log[lead][i + 1].subject = wish[p].subject) THEN (i + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)})})) = wish[p].expected) THEN 1 ELSE 0), by |-> lead, epoch |-> epoch[lead], rests |-> (IF ((IF (\E i \in (0)..(Len(removed) - 1) : ((i < heeds[lead]) /\ (removed[i + 1].record = MaxOf({index[lead][wish[p].subject], MaxOf({(IF (((i2 < Len(log[lead])) /\ ((i2 < Len(log[lead])) /\ (notes[lead].begin <= i2))) /\ ~((\E i3 \in (0)..(Len(removed) - 1) : ((i3 < 0) /\ (removed[i3 + 1].record = (i2 + 1)))))) THEN (IF (log[lead][i2 + 1].subject = wish[p].subject) THEN (i2 + 1) ELSE 0) ELSE 0) : i2 \in (0..Records - 1)})})))) THEN (IF (MaxOf({(IF (((i < Len(log[lead])) /\ ((i < folded[lead]) /\ (0 <= i))) /\ ~((\E i2 \in (0)..(Len(removed) - 1) : ((i2 < heeds[lead]) /\ (removed[i2 + 1].record = (i + 1)))))) THEN (IF (log[lead][i + 1].subject = wish[p].subject) THEN (i + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)}) = MaxOf({index[lead][wish[p].subject], MaxOf({(IF (((i < Len(log[lead])) /\ ((i < Len(log[lead])) /\ (notes[lead].begin <= i))) /\ ~((\E i2 \in (0)..(Len(removed) - 1) : ((i2 < 0) /\ (removed[i2 + 1].record = (i + 1)))))) THEN (IF (log[lead][i + 1].subject = wish[p].subject) THEN (i + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)})})) THEN 0 ELSE MaxOf({(IF (((i < Len(log[lead])) /\ ((i < folded[lead]) /\ (0 <= i))) /\ ~((\E i2 \in (0)..(Len(removed) - 1) : ((i2 < heeds[lead]) /\ (removed[i2 + 1].record = (i + 1)))))) THEN (IF (log[lead][i + 1].subject = wish[p].subject) THEN (i + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)})) ELSE MaxOf({index[lead][wish[p].subject], MaxOf({(IF (((i < Len(log[lead])) /\ ((i < Len(log[lead])) /\ (notes[lead].begin <= i))) /\ ~((\E i2 \in (0)..(Len(removed) - 1) : ((i2 < 0) /\ (removed[i2 + 1].record = (i + 1)))))) THEN (IF (log[lead][i + 1].subject = wish[p].subject) THEN (i + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)})})) = wish[p].expected) THEN (Len(log[lead]) + 1) ELSE (IF (\E i \in (0)..(Len(removed) - 1) : ((i < heeds[lead]) /\ (removed[i + 1].record = MaxOf({index[lead][wish[p].subject], MaxOf({(IF (((i2 < Len(log[lead])) /\ ((i2 < Len(log[lead])) /\ (notes[lead].begin <= i2))) /\ ~((\E i3 \in (0)..(Len(removed) - 1) : ((i3 < 0) /\ (removed[i3 + 1].record = (i2 + 1)))))) THEN (IF (log[lead][i2 + 1].subject = wish[p].subject) THEN (i2 + 1) ELSE 0) ELSE 0) : i2 \in (0..Records - 1)})})))) THEN (IF (MaxOf({(IF (((i < Len(log[lead])) /\ ((i < folded[lead]) /\ (0 <= i))) /\ ~((\E i2 \in (0)..(Len(removed) - 1) : ((i2 < heeds[lead]) /\ (removed[i2 + 1].record = (i + 1)))))) THEN (IF (log[lead][i + 1].subject = wish[p].subject) THEN (i + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)}) = MaxOf({index[lead][wish[p].subject], MaxOf({(IF (((i < Len(log[lead])) /\ ((i < Len(log[lead])) /\ (notes[lead].begin <= i))) /\ ~((\E i2 \in (0)..(Len(removed) - 1) : ((i2 < 0) /\ (removed[i2 + 1].record = (i + 1)))))) THEN (IF (log[lead][i + 1].subject = wish[p].subject) THEN (i + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)})})) THEN 0 ELSE MaxOf({(IF (((i < Len(log[lead])) /\ ((i < folded[lead]) /\ (0 <= i))) /\ ~((\E i2 \in (0)..(Len(removed) - 1) : ((i2 < heeds[lead]) /\ (removed[i2 + 1].record = (i + 1)))))) THEN (IF (log[lead][i + 1].subject = wish[p].subject) THEN (i + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)})) ELSE MaxOf({index[lead][wish[p].subject], MaxOf({(IF (((i < Len(log[lead])) /\ ((i < Len(log[lead])) /\ (notes[lead].begin <= i))) /\ ~((\E i2 \in (0)..(Len(removed) - 1) : ((i2 < 0) /\ (removed[i2 + 1].record = (i + 1)))))) THEN (IF (log[lead][i + 1].subject = wish[p].subject) THEN (i + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)})})))]]
    /\ UNCHANGED <<newest, leaders, isr, epoch, hw, index, folded, notes, removed, heeds, writes, wish, answered, committed>>

\* The leader that judged says so, once what that rests on is committed.
Answer(p) ==
    /\ (judged[p] # None)
    /\ (answered[p] = None)
    /\ (epoch[judged[p].by] = judged[p].epoch)
    /\ (judged[p].rests <= hw[judged[p].by])
    /\ (IF (judged[p].stored = 1) THEN TRUE ELSE (judged[p].epoch = newest))
    /\ answered' = [answered EXCEPT ![p] = [committed |-> Len(committed), removed |-> Len(removed)]]
    /\ UNCHANGED <<newest, leaders, isr, epoch, hw, log, index, folded, notes, removed, heeds, writes, wish, judged, committed>>

\* An entry of the second log: a committed record, by who heeds all that was removed before.
Write(lead, place) ==
    /\ Leads(lead)
    /\ (place < hw[lead])
    /\ (Len(removed) < Removals)
    /\ HeedsAll(lead)
    /\ ~((\E i \in (0)..(Len(removed) - 1) : ((i < heeds[lead]) /\ (removed[i + 1].record = (place + 1)))))
    /\ (IF (writes[lead] = None) THEN TRUE ELSE (writes[lead].epoch < epoch[lead]))
    /\ writes' = [writes EXCEPT ![lead] = [epoch |-> epoch[lead], record |-> (place + 1)]]
    /\ UNCHANGED <<newest, leaders, isr, epoch, hw, log, index, folded, notes, removed, heeds, wish, judged, answered, committed>>

\* The entry is committed.
Remove(lead) ==
    /\ TrulyLeads(lead)
    /\ (writes[lead] # None)
    /\ (writes[lead].epoch = epoch[lead])
    /\ (Len(removed) < Removals)
    /\ removed' = Append(removed, writes[lead])
    /\ writes' = [writes EXCEPT ![lead] = None]
    /\ UNCHANGED <<newest, leaders, isr, epoch, hw, log, index, folded, notes, heeds, wish, judged, answered, committed>>

Heed(r) ==
    /\ (heeds[r] < Len(removed))
    /\ (removed[heeds[r] + 1].epoch <= epoch[r])
    /\ heeds' = [heeds EXCEPT ![r] = (heeds[r] + 1)]
    /\ UNCHANGED <<newest, leaders, isr, epoch, hw, log, index, folded, notes, removed, writes, wish, judged, answered, committed>>

Fetch(f, lead) ==
    /\ (f # lead)
    /\ Hears(lead, f)
    /\ Agrees(f, lead)
    /\ ((Len(log[f]) < Len(log[lead])) \/ (hw[f] < MaxOf({hw[f], MinOf({hw[lead], (Len(log[f]) + (IF (Len(log[f]) < Len(log[lead])) THEN 1 ELSE 0))})})))
    /\ log' = [log EXCEPT ![f] = (IF (Len(log[f]) < Len(log[lead])) THEN Append(log[f], log[lead][Len(log[f]) + 1]) ELSE log[f])]
    /\ hw' = [hw EXCEPT ![f] = MaxOf({hw[f], MinOf({hw[lead], (Len(log[f]) + (IF (Len(log[f]) < Len(log[lead])) THEN 1 ELSE 0))})})]
    /\ UNCHANGED <<newest, leaders, isr, epoch, index, folded, notes, removed, heeds, writes, wish, judged, answered, committed>>

Truncate(f, lead) ==
    /\ (f # lead)
    /\ Hears(lead, f)
    /\ ~Agrees(f, lead)
    /\ log' = [log EXCEPT ![f] = SubSeq(log[f], 1, MinOf({Agreed(f, lead), Len(log[f])}))]
    /\ hw' = [hw EXCEPT ![f] = MinOf({hw[f], Agreed(f, lead)})]
    /\ UNCHANGED <<newest, leaders, isr, epoch, index, folded, notes, removed, heeds, writes, wish, judged, answered, committed>>

Next ==
    \/ \E lead \in Replica : Commit(lead)
    \/ \E to \in Replica : Elect(to)
    \/ \E r \in Replica : JoinEpoch(r)
    \/ \E lead \in Replica, f \in Replica : Shrink(lead, f)
    \/ \E lead \in Replica, f \in Replica : Expand(lead, f)
    \/ \E p \in Publisher, subject \in Subject, expected \in (0..Records) : Ask(p, subject, expected)
    \/ \E lead \in Replica : Note(lead)
    \/ \E r \in Replica : Fold(r)
    \/ \E p \in Publisher, lead \in Replica : Judge(p, lead)
    \/ \E p \in Publisher : Answer(p)
    \/ \E lead \in Replica, place \in (0..Records - 1) : Write(lead, place)
    \/ \E lead \in Replica : Remove(lead)
    \/ \E r \in Replica : Heed(r)
    \/ \E f \in Replica, lead \in Replica : Fetch(f, lead)
    \/ \E f \in Replica, lead \in Replica : Truncate(f, lead)

Spec == Init /\ [][Next]_vars

\* Whoever may be elected has what is committed, or began behind it.
CommittedOnIsr ==
    (\A r \in isr : (SubSeq(log[r], 1, MinOf({Len(committed), Len(log[r])})) = committed))

\* What is committed followed, in its subject, on the record that its publisher expected.
StoredAsExpected ==
    (\A i \in (0)..(Len(committed) - 1) : ((wish[committed[i + 1].publisher] # None) /\ (\E j \in (wish[committed[i + 1].publisher].moment)..((Len(removed) + 1) - 1) : (MaxOf({(IF (((i2 < Len(committed)) /\ ((i2 < i) /\ (0 <= i2))) /\ ~((\E i3 \in (0)..(Len(removed) - 1) : ((i3 < j) /\ (removed[i3 + 1].record = (i2 + 1)))))) THEN (IF (committed[i2 + 1].subject = committed[i + 1].subject) THEN (i2 + 1) ELSE 0) ELSE 0) : i2 \in (0..Records - 1)}) = wish[committed[i + 1].publisher].expected))))

\* While a publisher waited that was refused, there was a moment in which it was to be refused.
RefusedTruly ==
    (\A p \in Publisher : (IF (answered[p] = None) THEN TRUE ELSE (IF (judged[p].stored = 1) THEN TRUE ELSE (\E k \in (wish[p].since)..((answered[p].committed + 1) - 1) : (\E j \in (wish[p].moment)..((answered[p].removed + 1) - 1) : (MaxOf({(IF (((i < Len(committed)) /\ ((i < k) /\ (0 <= i))) /\ ~((\E i2 \in (0)..(Len(removed) - 1) : ((i2 < j) /\ (removed[i2 + 1].record = (i + 1)))))) THEN (IF (committed[i + 1].subject = wish[p].subject) THEN (i + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)}) # wish[p].expected))))))

\* Who is told that it was stored finds it there.
StoredIsThere ==
    (\A p \in Publisher : (IF (answered[p] = None) THEN TRUE ELSE (IF (judged[p].stored = 0) THEN TRUE ELSE ((judged[p].rests <= Len(committed)) /\ (committed[(judged[p].rests - 1) + 1].publisher = p)))))

==============================================================================
