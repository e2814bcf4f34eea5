---------------------------- MODULE RemovalRight -----------------------------

\* What the copies make of both logs, and what must always be true.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Replica, Key, Records, Entries, Keys, Limit, Epochs, Deletes, Purges, Keeps, Lowered, Rollups, Expiries, Snapshots, Thinned, Starts, Restarts, Looks

VARIABLES
    epoch, leader, data, journal, hw_d, hw_j, cleaned, folded, heard, counted, gone, limit, thin, start, truth, restarts, reader

vars == <<epoch, leader, data, journal, hw_d, hw_j, cleaned, folded, heard, counted, gone, limit, thin, start, truth, restarts, reader>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ epoch \in (1..Epochs)
    /\ leader \in Replica
    /\ ((data \in Seq([epoch: (1..Epochs), key: Key, stamp: (0..Entries), rolls: BOOLEAN, marks: ((0..Records - 1) \cup {None})])) /\ (Len(data) <= Records))
    /\ ((journal \in Seq([epoch: (1..Epochs), kind: {"removed", "expired", "purged", "kept", "limits", "gone"}, runs: SUBSET (0..Records - 1), key: (Key \cup {None}), below: (0..Records), seen: (0..Entries), begin: (0..Records), limit: (1..Records)])) /\ (Len(journal) <= Entries))
    /\ hw_d \in (0..Records)
    /\ hw_j \in (0..Entries)
    /\ cleaned \in (0..Entries)
    /\ folded \in [Replica -> (0..Records)]
    /\ heard \in [Replica -> (0..Entries)]
    /\ counted \in [Replica -> SUBSET (0..Records - 1)]
    /\ gone \in [Replica -> SUBSET (0..Records - 1)]
    /\ limit \in [Replica -> (1..Records)]
    /\ thin \in [Replica -> SUBSET (0..Records - 1)]
    /\ start \in [Replica -> (0..Records)]
    /\ truth \in [(0..Records) -> SUBSET (0..Records - 1)]
    /\ restarts \in (0..Restarts)
    /\ reader \in ([at: (0..Records), seen: (0..Entries), gone: SUBSET (0..Records - 1)] \cup {None})

\* A committed entry, or one that may be: the record at this offset is to go.
Covers(p, o) ==
    (IF ((IF (journal[p + 1].kind = "removed") THEN TRUE ELSE (journal[p + 1].kind = "expired")) /\ (o \in journal[p + 1].runs)) THEN TRUE ELSE (((journal[p + 1].kind = "purged") /\ (o < journal[p + 1].below)) /\ ((journal[p + 1].key # None) => (journal[p + 1].key = data[o + 1].key))))

Covered(o, begin, end) ==
    (\E p \in (begin)..(end - 1) : Covers(p, o))

\* Which entries the data below `end` have seen. A new leader's stamp may be less than one before.
Stamped(end) ==
    MaxOf({(IF (i < end) THEN data[i + 1].stamp ELSE 0) : i \in (0..Records - 1)})

\* The limit that is in force for what has seen the entries below `end`.
LimitAt(begin, end, before) ==
    (IF (0 < MaxOf({(IF ((begin <= p) /\ (p < end)) THEN (IF (journal[p + 1].kind = "limits") THEN (p + 1) ELSE 0) ELSE 0) : p \in (0..Entries - 1)})) THEN journal[(MaxOf({(IF ((begin <= p) /\ (p < end)) THEN (IF (journal[p + 1].kind = "limits") THEN (p + 1) ELSE 0) ELSE 0) : p \in (0..Entries - 1)}) - 1) + 1].limit ELSE before)

\* By the definition: what is gone of the committed data below `end`, with so many entries.
Visible(end, until) ==
    (truth[end] \cup {o \in (0..Records - 1) : ((o < end) /\ Covered(o, 0, until))})

\* The leader has folded all that was in its logs when it was elected.
CaughtUp ==
    ((Cardinality({i \in (0)..(Len(data) - 1) : (data[i + 1].epoch < epoch)}) <= folded[leader]) /\ (Cardinality({p \in (0)..(Len(journal) - 1) : (journal[p + 1].epoch < epoch)}) <= heard[leader]))

\* The leader has written that it goes.
OnItsWay(o) ==
    Covered(o, 0, Len(journal))

\* The newest that is neither gone by limits, below `end`, nor by the entries before `until`.
Kept(o, end, until) ==
    ((~((o \in truth[end])) /\ ~Covered(o, 0, until)) /\ (\A q \in ((o + 1))..(end - 1) : ~((~((q \in truth[end])) /\ ~Covered(q, 0, until)))))

MarkedBelow(o, end) ==
    (\E i \in (0)..(end - 1) : (data[i + 1].marks = o))

\* Its time is over, as any record's may be; markers live on.
Due(o) ==
    (((0 < Expiries) /\ (((o < folded[leader]) /\ ~((o \in gone[leader]))) /\ ~OnItsWay(o))) /\ (data[o + 1].marks = None))

\* Its marker is committed, whoever wrote it.
MayExpire(o) ==
    MarkedBelow(o, folded[leader])

\* The next record is committed, has its bytes, and the copy has the entries that it has seen.
Readable(r) ==
    ((folded[r] < hw_d) /\ ~((folded[r] \in thin[r])))

\* A committed snapshot, with all the entries that its data have not seen.
Usable(g) ==
    (((g < hw_j) /\ (journal[g + 1].kind = "gone")) /\ (cleaned <= journal[g + 1].seen))

\* And it counts as gone whatever this copy has no bytes of.
Fits(r, g) ==
    (thin[r] \subseteq ((journal[g + 1].runs \cup {o \in (0..Records - 1) : (o < journal[g + 1].begin)}) \cup {o \in (0..Records - 1) : (journal[g + 1].below <= o)}))

\* A committed snapshot that the copy has come past counts it as gone: nobody will count it again.
Settled(r, o) ==
    (\E g \in (0)..(heard[r] - 1) : (((journal[g + 1].kind = "gone") /\ (journal[g + 1].below <= folded[r])) /\ (IF (o \in journal[g + 1].runs) THEN TRUE ELSE (o < journal[g + 1].begin))))

\* What is gone of that which it would show.
Hidden(r) ==
    {o \in (0..Records - 1) : ((o < folded[r]) /\ (o \in gone[r]))}

\* As many newer ones of its key as some limit allows, or one that rolled it up.
PushedOut(o) ==
    (IF (MinOf({(IF ((p < hw_j) /\ (journal[p + 1].kind = "limits")) THEN journal[p + 1].limit ELSE Limit) : p \in (0..Entries - 1)}) <= Cardinality({q \in ((o + 1))..(hw_d - 1) : (data[q + 1].key = data[o + 1].key)})) THEN TRUE ELSE (\E q \in ((o + 1))..(hw_d - 1) : (data[q + 1].rolls /\ (data[q + 1].key = data[o + 1].key))))

Init ==
    \E leader2 \in Replica :
        /\ epoch = 1
        /\ leader = leader2
        /\ data = <<>>
        /\ journal = <<>>
        /\ hw_d = 0
        /\ hw_j = 0
        /\ cleaned = 0
        /\ folded = [x \in Replica |-> 0]
        /\ heard = [x \in Replica |-> 0]
        /\ counted = [x \in Replica |-> {}]
        /\ gone = [x \in Replica |-> {}]
        /\ limit = [r \in Replica |-> Limit]
        /\ thin = [x \in Replica |-> {}]
        /\ start = [x \in Replica |-> 0]
        /\ truth = [x \in (0..Records) |-> {}]
        /\ restarts = 0
        /\ reader = None

\* Stamped with what the leader knows to be committed of the journal. It need not be caught up.
Publish(key, rolls) ==
    /\ (~(rolls) \/ (0 < Rollups))
    /\ (Len(data) < Records)
    /\ data' = Append(data, [epoch |-> epoch, key |-> key, stamp |-> heard[leader], rolls |-> rolls, marks |-> None])
    /\ UNCHANGED <<epoch, leader, journal, hw_d, hw_j, cleaned, folded, heard, counted, gone, limit, thin, start, truth, restarts, reader>>

\* All that are in sync have it. What it removes is a matter of definition from now on.
CommitData ==
    /\ (hw_d < Len(data))
    /\ hw_d' = (hw_d + 1)
    /\ truth' = [truth EXCEPT ![(hw_d + 1)] = ((truth[hw_d] \cup {o \in (0..Records - 1) : ((o < hw_d) /\ Covered(o, 0, Stamped((hw_d + 1))))}) \cup {o \in (0..Records - 1) : (((o <= hw_d) /\ ~((o \in (truth[hw_d] \cup {o2 \in (0..Records - 1) : ((o2 < hw_d) /\ Covered(o2, 0, Stamped((hw_d + 1))))})))) /\ (IF (LimitAt(0, Stamped((hw_d + 1)), Limit) <= Cardinality({q \in ((o + 1))..((hw_d + 1) - 1) : (((q <= hw_d) /\ ~((q \in (truth[hw_d] \cup {o2 \in (0..Records - 1) : ((o2 < hw_d) /\ Covered(o2, 0, Stamped((hw_d + 1))))})))) /\ (data[q + 1].key = data[o + 1].key))})) THEN TRUE ELSE ((data[hw_d + 1].rolls /\ (o < hw_d)) /\ (data[o + 1].key = data[hw_d + 1].key))))})]
    /\ UNCHANGED <<epoch, leader, data, journal, hw_j, cleaned, folded, heard, counted, gone, limit, thin, start, restarts, reader>>

\* One message, below the leader's HW.
Delete(o) ==
    /\ (0 < Deletes)
    /\ CaughtUp
    /\ (o < folded[leader])
    /\ ~((o \in gone[leader]))
    /\ ~OnItsWay(o)
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [epoch |-> epoch, kind |-> "removed", runs |-> {q \in (0..Records - 1) : (q = o)}, key |-> None, below |-> 0, seen |-> 0, begin |-> 0, limit |-> 1])
    /\ UNCHANGED <<epoch, leader, data, hw_d, hw_j, cleaned, folded, heard, counted, gone, limit, thin, start, truth, restarts, reader>>

\* A predicate over what is committed now: every copy evaluates it.
Purge ==
    /\ (0 < Purges)
    /\ CaughtUp
    /\ (0 < folded[leader])
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [epoch |-> epoch, kind |-> "purged", runs |-> {}, key |-> None, below |-> folded[leader], seen |-> 0, begin |-> 0, limit |-> 1])
    /\ UNCHANGED <<epoch, leader, data, hw_d, hw_j, cleaned, folded, heard, counted, gone, limit, thin, start, truth, restarts, reader>>

PurgeKey(key) ==
    /\ (1 < Keys)
    /\ (0 < Purges)
    /\ CaughtUp
    /\ (0 < folded[leader])
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [epoch |-> epoch, kind |-> "purged", runs |-> {}, key |-> key, below |-> folded[leader], seen |-> 0, begin |-> 0, limit |-> 1])
    /\ UNCHANGED <<epoch, leader, data, hw_d, hw_j, cleaned, folded, heard, counted, gone, limit, thin, start, truth, restarts, reader>>

\* All but the newest: the leader says which, with what is on its way behind it in mind.
PurgeKeeping ==
    /\ (0 < Keeps)
    /\ CaughtUp
    /\ (1 < folded[leader])
    /\ (0 < Cardinality({o \in (0..Records - 1) : (((o < folded[leader]) /\ ~((IF (o \in truth[folded[leader]]) THEN TRUE ELSE Covered(o, 0, Len(journal))))) /\ ~Kept(o, folded[leader], Len(journal)))}))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [epoch |-> epoch, kind |-> "removed", runs |-> {o \in (0..Records - 1) : (((o < folded[leader]) /\ ~((IF (o \in truth[folded[leader]]) THEN TRUE ELSE Covered(o, 0, Len(journal))))) /\ ~Kept(o, folded[leader], Len(journal)))}, key |-> None, below |-> folded[leader], seen |-> 0, begin |-> 0, limit |-> 1])
    /\ UNCHANGED <<epoch, leader, data, hw_d, hw_j, cleaned, folded, heard, counted, gone, limit, thin, start, truth, restarts, reader>>

\* Limits are what the next batch that has seen them counts by.
Lower(limit2) ==
    /\ (0 < Lowered)
    /\ (limit2 < Limit)
    /\ CaughtUp
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [epoch |-> epoch, kind |-> "limits", runs |-> {}, key |-> None, below |-> 0, seen |-> 0, begin |-> 0, limit |-> limit2])
    /\ UNCHANGED <<epoch, leader, data, hw_d, hw_j, cleaned, folded, heard, counted, gone, limit, thin, start, truth, restarts, reader>>

\* The marker is a message of the key and names whose expiry it marks. None is written twice.
Mark(o) ==
    /\ Due(o)
    /\ CaughtUp
    /\ ~MarkedBelow(o, Len(data))
    /\ (Len(data) < Records)
    /\ data' = Append(data, [epoch |-> epoch, key |-> data[o + 1].key, stamp |-> heard[leader], rolls |-> FALSE, marks |-> o])
    /\ UNCHANGED <<epoch, leader, journal, hw_d, hw_j, cleaned, folded, heard, counted, gone, limit, thin, start, truth, restarts, reader>>

Expire(o) ==
    /\ Due(o)
    /\ CaughtUp
    /\ MayExpire(o)
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [epoch |-> epoch, kind |-> "expired", runs |-> {q \in (0..Records - 1) : (q = o)}, key |-> None, below |-> 0, seen |-> 0, begin |-> 0, limit |-> 1])
    /\ UNCHANGED <<epoch, leader, data, hw_d, hw_j, cleaned, folded, heard, counted, gone, limit, thin, start, truth, restarts, reader>>

CommitEntry ==
    /\ (hw_j < Len(journal))
    /\ hw_j' = (hw_j + 1)
    /\ UNCHANGED <<epoch, leader, data, journal, hw_d, cleaned, folded, heard, counted, gone, limit, thin, start, truth, restarts, reader>>

\* R16. Of what was not committed the new leader has any part, of each log another one.
Elect(to, data2, journal2) ==
    /\ (epoch < Epochs)
    /\ (to # leader)
    /\ (hw_d <= data2)
    /\ (data2 <= Len(data))
    /\ (hw_j <= journal2)
    /\ (journal2 <= Len(journal))
    /\ epoch' = (epoch + 1)
    /\ leader' = to
    /\ data' = SubSeq(data, 1, MinOf({data2, Len(data)}))
    /\ journal' = SubSeq(journal, 1, MinOf({journal2, Len(journal)}))
    /\ UNCHANGED <<hw_d, hw_j, cleaned, folded, heard, counted, gone, limit, thin, start, truth, restarts, reader>>

\* It counts the entries that its batch has seen, all of them and no others.
FoldRecord(r) ==
    /\ Readable(r)
    /\ (Stamped((folded[r] + 1)) <= heard[r])
    /\ folded' = [folded EXCEPT ![r] = (folded[r] + 1)]
    /\ limit' = [limit EXCEPT ![r] = LimitAt(Stamped(folded[r]), Stamped((folded[r] + 1)), limit[r])]
    /\ counted' = [counted EXCEPT ![r] = ((counted[r] \cup {o \in (0..Records - 1) : ((o < folded[r]) /\ Covered(o, Stamped(folded[r]), Stamped((folded[r] + 1))))}) \cup {o \in (0..Records - 1) : (((o <= folded[r]) /\ ~((o \in (counted[r] \cup {o2 \in (0..Records - 1) : ((o2 < folded[r]) /\ Covered(o2, Stamped(folded[r]), Stamped((folded[r] + 1))))})))) /\ (IF (LimitAt(Stamped(folded[r]), Stamped((folded[r] + 1)), limit[r]) <= Cardinality({q \in ((o + 1))..((folded[r] + 1) - 1) : (((q <= folded[r]) /\ ~((q \in (counted[r] \cup {o2 \in (0..Records - 1) : ((o2 < folded[r]) /\ Covered(o2, Stamped(folded[r]), Stamped((folded[r] + 1))))})))) /\ (data[q + 1].key = data[o + 1].key))})) THEN TRUE ELSE ((data[folded[r] + 1].rolls /\ (o < folded[r])) /\ (data[o + 1].key = data[folded[r] + 1].key))))})]
    /\ gone' = [gone EXCEPT ![r] = (gone[r] \cup (((counted[r] \cup {o \in (0..Records - 1) : ((o < folded[r]) /\ Covered(o, Stamped(folded[r]), Stamped((folded[r] + 1))))}) \cup {o \in (0..Records - 1) : (((o <= folded[r]) /\ ~((o \in (counted[r] \cup {o2 \in (0..Records - 1) : ((o2 < folded[r]) /\ Covered(o2, Stamped(folded[r]), Stamped((folded[r] + 1))))})))) /\ (IF (LimitAt(Stamped(folded[r]), Stamped((folded[r] + 1)), limit[r]) <= Cardinality({q \in ((o + 1))..((folded[r] + 1) - 1) : (((q <= folded[r]) /\ ~((q \in (counted[r] \cup {o2 \in (0..Records - 1) : ((o2 < folded[r]) /\ Covered(o2, Stamped(folded[r]), Stamped((folded[r] + 1))))})))) /\ (data[q + 1].key = data[o + 1].key))})) THEN TRUE ELSE ((data[folded[r] + 1].rolls /\ (o < folded[r])) /\ (data[o + 1].key = data[folded[r] + 1].key))))}) \cup {o \in (0..Records - 1) : ((o = folded[r]) /\ Covered(o, 0, heard[r]))}))]
    /\ UNCHANGED <<epoch, leader, data, journal, hw_d, hw_j, cleaned, heard, thin, start, truth, restarts, reader>>

\* What it removes is not shown from now on. What it means for limits, the next batch says.
FoldEntry(r) ==
    /\ (heard[r] < hw_j)
    /\ (cleaned <= heard[r])
    /\ heard' = [heard EXCEPT ![r] = (heard[r] + 1)]
    /\ gone' = [gone EXCEPT ![r] = (gone[r] \cup {o \in (0..Records - 1) : ((o < folded[r]) /\ Covers(heard[r], o))})]
    /\ UNCHANGED <<epoch, leader, data, journal, hw_d, hw_j, cleaned, folded, counted, limit, thin, start, truth, restarts, reader>>

\* What is counted as gone of what the leader has folded, and which entries that has seen.
Snapshot ==
    /\ (0 < Snapshots)
    /\ (0 < folded[leader])
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, [epoch |-> epoch, kind |-> "gone", runs |-> (counted[leader] \ {o \in (0..Records - 1) : (o < start[leader])}), key |-> None, below |-> folded[leader], seen |-> Stamped(folded[leader]), begin |-> start[leader], limit |-> limit[leader]])
    /\ UNCHANGED <<epoch, leader, data, hw_d, hw_j, cleaned, folded, heard, counted, gone, limit, thin, start, truth, restarts, reader>>

\* C3: the journal's start moves to the first entry that the snapshot's data have not seen.
CleanJournal(g) ==
    /\ (g < Len(journal))
    /\ (journal[g + 1].kind = "gone")
    /\ (g < hw_j)
    /\ (cleaned < journal[g + 1].seen)
    /\ cleaned' = journal[g + 1].seen
    /\ UNCHANGED <<epoch, leader, data, journal, hw_d, hw_j, folded, heard, counted, gone, limit, thin, start, truth, restarts, reader>>

\* It has its bytes, and folds anew: from the beginning, or from a snapshot.
Restart(r) ==
    /\ (r # leader)
    /\ (restarts < Restarts)
    /\ ((0 < folded[r]) \/ (0 < heard[r]))
    /\ folded' = [folded EXCEPT ![r] = 0]
    /\ heard' = [heard EXCEPT ![r] = 0]
    /\ limit' = [limit EXCEPT ![r] = Limit]
    /\ restarts' = (restarts + 1)
    /\ counted' = [counted EXCEPT ![r] = {o \in (0..Records - 1) : (o < start[r])}]
    /\ gone' = [gone EXCEPT ![r] = {o \in (0..Records - 1) : (o < start[r])}]
    /\ UNCHANGED <<epoch, leader, data, journal, hw_d, hw_j, cleaned, thin, start, truth, reader>>

\* A lost disk, a new copy: it has the bytes that the leader has.
MakeAnew(r) ==
    /\ (r # leader)
    /\ (restarts < Restarts)
    /\ ((thin[r] # thin[leader]) \/ (start[r] # start[leader]))
    /\ folded' = [folded EXCEPT ![r] = 0]
    /\ heard' = [heard EXCEPT ![r] = 0]
    /\ limit' = [limit EXCEPT ![r] = Limit]
    /\ restarts' = (restarts + 1)
    /\ thin' = [thin EXCEPT ![r] = thin[leader]]
    /\ start' = [start EXCEPT ![r] = start[leader]]
    /\ counted' = [counted EXCEPT ![r] = {o \in (0..Records - 1) : (o < start[leader])}]
    /\ gone' = [gone EXCEPT ![r] = {o \in (0..Records - 1) : (o < start[leader])}]
    /\ UNCHANGED <<epoch, leader, data, journal, hw_d, hw_j, cleaned, truth, reader>>

\* Whoever cannot go on, or has just begun: what is counted below y, and what came after is hidden.
BeginAtSnapshot(r, g) ==
    /\ (r # leader)
    /\ (g < Len(journal))
    /\ Usable(g)
    /\ Fits(r, g)
    /\ (((folded[r] = 0) /\ (heard[r] = 0)) \/ ((heard[r] < cleaned) \/ ((folded[r] < Records) /\ (folded[r] \in thin[r]))))
    /\ ((folded[r] < journal[g + 1].below) \/ (heard[r] <= g))
    /\ folded' = [folded EXCEPT ![r] = journal[g + 1].below]
    /\ heard' = [heard EXCEPT ![r] = (g + 1)]
    /\ limit' = [limit EXCEPT ![r] = journal[g + 1].limit]
    /\ counted' = [counted EXCEPT ![r] = (journal[g + 1].runs \cup {o \in (0..Records - 1) : (o < MaxOf({start[r], journal[g + 1].begin}))})]
    /\ gone' = [gone EXCEPT ![r] = ((journal[g + 1].runs \cup {o \in (0..Records - 1) : (o < MaxOf({start[r], journal[g + 1].begin}))}) \cup {o \in (0..Records - 1) : ((o < journal[g + 1].below) /\ Covered(o, MaxOf({journal[g + 1].seen, cleaned}), (g + 1)))})]
    /\ start' = [start EXCEPT ![r] = MaxOf({start[r], journal[g + 1].begin})]
    /\ thin' = [thin EXCEPT ![r] = (thin[r] \cup {o \in (0..Records - 1) : (o < MaxOf({start[r], journal[g + 1].begin}))})]
    /\ UNCHANGED <<epoch, leader, data, journal, hw_d, hw_j, cleaned, truth, restarts, reader>>

\* Its bytes go.
Thin(r, o) ==
    /\ (0 < Thinned)
    /\ (o \in gone[r])
    /\ ~((o \in thin[r]))
    /\ Settled(r, o)
    /\ thin' = [thin EXCEPT ![r] = (thin[r] \cup {o})]
    /\ UNCHANGED <<epoch, leader, data, journal, hw_d, hw_j, cleaned, folded, heard, counted, gone, limit, start, truth, restarts, reader>>

\* C3: a front that is all gone is cut off, and its bits are forgotten.
MoveStart(r) ==
    /\ (0 < Starts)
    /\ (start[r] < Records)
    /\ (start[r] \in gone[r])
    /\ Settled(r, start[r])
    /\ start' = [start EXCEPT ![r] = (start[r] + 1)]
    /\ thin' = [thin EXCEPT ![r] = (thin[r] \cup {start[r]})]
    /\ UNCHANGED <<epoch, leader, data, journal, hw_d, hw_j, cleaned, folded, heard, counted, gone, limit, truth, restarts, reader>>

\* R3: a reader remembers how much of either log it was answered from.
Look(r) ==
    /\ (0 < Looks)
    /\ (reader = None)
    /\ reader' = [at |-> folded[r], seen |-> heard[r], gone |-> Hidden(r)]
    /\ UNCHANGED <<epoch, leader, data, journal, hw_d, hw_j, cleaned, folded, heard, counted, gone, limit, thin, start, truth, restarts>>

Next ==
    \/ \E key \in Key, rolls \in BOOLEAN : Publish(key, rolls)
    \/ CommitData
    \/ \E o \in (0..Records - 1) : Delete(o)
    \/ Purge
    \/ \E key \in Key : PurgeKey(key)
    \/ PurgeKeeping
    \/ \E limit2 \in (1..Records) : Lower(limit2)
    \/ \E o \in (0..Records - 1) : Mark(o)
    \/ \E o \in (0..Records - 1) : Expire(o)
    \/ CommitEntry
    \/ \E to \in Replica, data2 \in (0..Records), journal2 \in (0..Entries) : Elect(to, data2, journal2)
    \/ \E r \in Replica : FoldRecord(r)
    \/ \E r \in Replica : FoldEntry(r)
    \/ Snapshot
    \/ \E g \in (0..Entries - 1) : CleanJournal(g)
    \/ \E r \in Replica : Restart(r)
    \/ \E r \in Replica : MakeAnew(r)
    \/ \E r \in Replica, g \in (0..Entries - 1) : BeginAtSnapshot(r, g)
    \/ \E r \in Replica, o \in (0..Records - 1) : Thin(r, o)
    \/ \E r \in Replica : MoveStart(r)
    \/ \E r \in Replica : Look(r)

Spec == Init /\ [][Next]_vars

\* Two copies that have folded the same of both logs show the same.
SameVisible ==
    (\A a \in Replica : (\A b \in Replica : (((folded[a] = folded[b]) /\ (heard[a] = heard[b])) => (Hidden(a) = Hidden(b)))))

\* What a reader saw to be gone stays so, at whichever copy answers it.
NoResurrection ==
    (\A r \in Replica : ((IF (reader # None) THEN ((reader.at <= folded[r]) /\ (reader.seen <= heard[r])) ELSE FALSE) => (reader.gone \subseteq gone[r])))

\* Each for a cause: an entry of its epoch or a later one, limits, a roll-up. None is born gone.
NothingElseGone ==
    (\A r \in Replica : (\A o \in (0..Records - 1) : (((o < hw_d) /\ (o \in gone[r])) => (IF (\E p \in (0)..(hw_j - 1) : (Covers(p, o) /\ (data[o + 1].epoch <= journal[p + 1].epoch))) THEN TRUE ELSE PushedOut(o)))))

\* Committed entries name committed records, and what is hidden is so by what is committed.
OnlyCommittedRemoves ==
    ((\A r \in Replica : (gone[r] \subseteq {o \in (0..Records - 1) : (o < hw_d)})) /\ (\A p \in (0)..(hw_j - 1) : ((journal[p + 1].runs \subseteq {o \in (0..Records - 1) : (o < hw_d)}) /\ (journal[p + 1].below <= hw_d))))

\* No bytes are missing of what anybody may be shown.
ThinnedIsGone ==
    (\A r \in Replica : (thin[r] \subseteq Visible(hw_d, hw_j)))

\* A copy has the bytes of all that it shows, and of all that limits may still have to count.
BytesWhereNeeded ==
    (\A r \in Replica : (\A o \in (0..Records - 1) : (((o < folded[r]) /\ ~((o \in counted[r]))) => ~((o \in thin[r])))))

\* What was cleaned or thinned, a committed snapshot begins behind.
CopyCanBegin ==
    (\A r \in Replica : (((0 < cleaned) \/ (0 < Cardinality(thin[r]))) => (\E g \in (0)..(Len(journal) - 1) : ((Usable(g) /\ Fits(r, g)) /\ (thin[r] \subseteq {o \in (0..Records - 1) : (o < journal[g + 1].below)})))))

\* What was committed before the leader's epoch, and may have been acknowledged, is in its purges.
PurgeTakesAll ==
    (\A p \in (0)..(hw_j - 1) : ((journal[p + 1].kind = "purged") => (Cardinality({i \in (0)..(hw_d - 1) : (data[i + 1].epoch < journal[p + 1].epoch)}) <= journal[p + 1].below)))

\* Who keeps one keeps one, if there was one.
KeepsNewest ==
    (\A p \in (0)..(hw_j - 1) : ((((journal[p + 1].kind = "removed") /\ (0 < journal[p + 1].below)) /\ (\E o \in (0)..(journal[p + 1].below - 1) : Kept(o, journal[p + 1].below, p))) => (\E o \in (0)..(journal[p + 1].below - 1) : (Kept(o, journal[p + 1].below, p) /\ ~((o \in journal[p + 1].runs))))))

\* Nothing has expired of which no marker tells.
MarkerFirst ==
    (\A p \in (0)..(hw_j - 1) : (\A o \in (0..Records - 1) : (((journal[p + 1].kind = "expired") /\ (o \in journal[p + 1].runs)) => MarkedBelow(o, hw_d))))

\* And no two do.
OneMarker ==
    ~((\E i \in (0)..(hw_d - 1) : (\E j \in (0)..(hw_d - 1) : ((i # j) /\ ((data[i + 1].marks # None) /\ (data[i + 1].marks = data[j + 1].marks))))))

\* What is due and marked can be removed by whoever leads.
ExpiryGoesOn ==
    (\A o \in (0..Records - 1) : ((CaughtUp /\ Due(o)) => (MarkedBelow(o, folded[leader]) => MayExpire(o))))

==============================================================================
