-------------------------- MODULE IsrPairRightEmpty --------------------------

\* What the replicas do with their logs, and what must always be true.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Replica, Minimum, Records, Epochs, Shrinks, Crashes, Damages

VARIABLES
    epoch, leader, isr, eligible, known, change, source, up, tail, log, synced, hw, ready, shrinks, crashes, damages, committed

vars == <<epoch, leader, isr, eligible, known, change, source, up, tail, log, synced, hw, ready, shrinks, crashes, damages, committed>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ epoch \in (0..Epochs)
    /\ leader \in (Replica \cup {None})
    /\ isr \in SUBSET Replica
    /\ eligible \in SUBSET Replica
    /\ known \in [Replica -> ([{"data", "journal"} -> [epoch: (0..Epochs), leo: (0..Records)]] \cup {None})]
    /\ change \in (Replica \cup {None})
    /\ source \in (Replica \cup {None})
    /\ up \in [Replica -> BOOLEAN]
    /\ tail \in [Replica -> {"clean", "data", "journal", "both", "ends-early"}]
    /\ ((DOMAIN log = {"data", "journal"}) /\ (\A x \in {"data", "journal"} : ((DOMAIN log[x] = Replica) /\ (\A x2 \in Replica : ((log[x][x2] \in Seq([epoch: (0..Epochs), stamp: (0..Records)])) /\ (Len(log[x][x2]) <= Records))))))
    /\ synced \in [{"data", "journal"} -> [Replica -> (0..Records)]]
    /\ hw \in [{"data", "journal"} -> (0..Records)]
    /\ ready \in [{"data", "journal"} -> SUBSET Replica]
    /\ shrinks \in (0..Shrinks)
    /\ crashes \in (0..Crashes)
    /\ damages \in [{"data", "journal"} -> (0..Damages)]
    /\ ((DOMAIN committed = {"data", "journal"}) /\ (\A x \in {"data", "journal"} : ((committed[x] \in Seq([epoch: (0..Epochs), stamp: (0..Records)])) /\ (Len(committed[x]) <= Records))))

\* The greatest stamp in its data below `end`.
Stamped(r, end) ==
    MaxOf({(IF (i = 0) THEN 0 ELSE log["data"][r][(i - 1) + 1].stamp) : i \in (0)..((end + 1) - 1)})

\* Its journal lacks what its data name.
Short(r) ==
    (Len(log["journal"][r]) < Stamped(r, Len(log["data"][r])))

\* What its disk still has of both logs.
Report(r) ==
    [k \in {"data", "journal"} |-> [epoch |-> (IF (synced[k][r] = 0) THEN 0 ELSE log[k][r][(synced[k][r] - 1) + 1].epoch), leo |-> synced[k][r]]]

\* R14: only those are left that are remembered, and all of them have reported.
NobodyElse ==
    (((leader = None) /\ (isr = {})) /\ (eligible = {}))

\* R14: nobody has reported a greater (epoch, LEO) of this log.
Greatest(k, r) ==
    ((known[r] # None) /\ (\A o \in Replica : ((known[o] # None) => (IF (known[o][k].epoch < known[r][k].epoch) THEN TRUE ELSE ((known[o][k].epoch = known[r][k].epoch) /\ (known[o][k].leo <= known[r][k].leo))))))

\* R14: nobody is the greatest in both logs; this one has the data, that one the journal.
Takes(r, of) ==
    (((NobodyElse /\ ~((\E o \in Replica : (Greatest("data", o) /\ Greatest("journal", o))))) /\ Greatest("data", r)) /\ Greatest("journal", of))

\* A tail that is suspect in one log makes the copy suspect; so does a journal that is short.
Doubtful(r) ==
    (IF (((tail[r] = "data") \/ (tail[r] = "both")) \/ (tail[r] = "journal")) THEN TRUE ELSE Short(r))

\* R6: a follower copies its leader; R14: whoever lacks the longest journal copies that.
Copies(f, of, k) ==
    ((((f # of) /\ up[f]) /\ up[of]) /\ (IF (leader = of) THEN TRUE ELSE ((k = "journal") /\ Takes(f, of))))

\* The other one has this one's last record, as far as its epoch tells.
Agrees(k, f, of) ==
    ((Len(log[k][f]) <= Len(log[k][of])) /\ (IF (Len(log[k][f]) = 0) THEN TRUE ELSE (log[k][f][(Len(log[k][f]) - 1) + 1].epoch = log[k][of][(Len(log[k][f]) - 1) + 1].epoch)))

\* R7: what it reports of a log.
Durable(k, r) ==
    synced[k][r]

\* R2: as the leader has heard it, in this epoch, from a log that agrees with its own.
Reported(k, m) ==
    (IF (m = leader) THEN Durable(k, m) ELSE (IF (up[m] /\ Agrees(k, m, leader)) THEN Durable(k, m) ELSE 0))

\* R10: where the epoch began in the leader's log.
Begun(k) ==
    Cardinality({i \in (0)..(Len(log[k][leader]) - 1) : (log[k][leader][i + 1].epoch < epoch)})

\* R10, of one log.
Ready(k, f) ==
    ((Agrees(k, f, leader) /\ (hw[k] <= Reported(k, f))) /\ (Begun(k) <= Reported(k, f)))

\* R11: it is not caught up in both logs, as far as the leader knows.
Lags(f) ==
    (\E k \in {"data", "journal"} : (Reported(k, f) < Len(log[k][leader])))

\* How much of its journal a copy may take for committed because of the stamps in its data.
Proven(r) ==
    (IF (((leader # None) /\ up[r]) /\ Agrees("journal", r, leader)) THEN MinOf({Stamped(r, Len(log["data"][r])), Len(log["journal"][r])}) ELSE 0)

Init ==
    \E leader2 \in Replica :
        /\ epoch = 1
        /\ leader = leader2
        /\ isr = Replica
        /\ eligible = {}
        /\ known = [x \in Replica |-> None]
        /\ change = None
        /\ source = None
        /\ up = [x \in Replica |-> TRUE]
        /\ tail = [x \in Replica |-> "clean"]
        /\ log = [x \in {"data", "journal"} |-> [x2 \in Replica |-> <<>>]]
        /\ synced = [x \in {"data", "journal"} |-> [x2 \in Replica |-> 0]]
        /\ hw = [x \in {"data", "journal"} |-> 0]
        /\ ready = [x \in {"data", "journal"} |-> {}]
        /\ shrinks = 0
        /\ crashes = 0
        /\ damages = [x \in {"data", "journal"} |-> 0]
        /\ committed = [x \in {"data", "journal"} |-> <<>>]

\* R9. A change whose joiner falls, or whose version or epoch is over, is void at once.
ApplyAddition ==
    /\ (change # None)
    /\ eligible' = (IF (Minimum <= Cardinality((isr \cup {change}))) THEN {} ELSE (eligible \ {change}))
    /\ known' = [o \in Replica |-> (IF (Minimum <= Cardinality((isr \cup {change}))) THEN None ELSE known[o])]
    /\ isr' = (isr \cup {change})
    /\ change' = None
    /\ UNCHANGED <<epoch, leader, source, up, tail, log, synced, hw, ready, shrinks, crashes, damages, committed>>

\* R15, R16.
Elect(to) ==
    /\ (to \in isr)
    /\ (leader # to)
    /\ (epoch < Epochs)
    /\ up[to]
    /\ epoch' = (epoch + 1)
    /\ leader' = to
    /\ isr' = isr
    /\ change' = None
    /\ hw' = [x \in {"data", "journal"} |-> 0]
    /\ ready' = [x \in {"data", "journal"} |-> {}]
    /\ UNCHANGED <<eligible, known, source, up, tail, log, synced, shrinks, crashes, damages, committed>>

\* R13: who has left below the minimum has everything that was committed, of both logs.
ElectFromEligible(to) ==
    /\ (leader = None)
    /\ (\A o \in isr : ~(up[o]))
    /\ (to \in eligible)
    /\ (epoch < Epochs)
    /\ up[to]
    /\ eligible' = ((isr \cup eligible) \ {to})
    /\ epoch' = (epoch + 1)
    /\ leader' = to
    /\ isr' = {to}
    /\ change' = None
    /\ hw' = [x \in {"data", "journal"} |-> 0]
    /\ ready' = [x \in {"data", "journal"} |-> {}]
    /\ UNCHANGED <<known, source, up, tail, log, synced, shrinks, crashes, damages, committed>>

\* R14: a copy that is remembered has other ends by now, and says so.
TellOfEnds(r) ==
    /\ NobodyElse
    /\ up[r]
    /\ (known[r] # None)
    /\ (known[r] # Report(r))
    /\ known' = [known EXCEPT ![r] = Report(r)]
    /\ UNCHANGED <<epoch, leader, isr, eligible, change, source, up, tail, log, synced, hw, ready, shrinks, crashes, damages, committed>>

\* R14: who has the most of both logs. Whose journal is short refuses, and waits for an operator.
ElectFromLastKnown(to) ==
    /\ NobodyElse
    /\ Greatest("data", to)
    /\ Greatest("journal", to)
    /\ ~Short(to)
    /\ (epoch < Epochs)
    /\ up[to]
    /\ known' = [o \in Replica |-> (IF ((o = to) \/ (Minimum = 1)) THEN None ELSE known[o])]
    /\ epoch' = (epoch + 1)
    /\ leader' = to
    /\ isr' = {to}
    /\ change' = None
    /\ hw' = [x \in {"data", "journal"} |-> 0]
    /\ ready' = [x \in {"data", "journal"} |-> {}]
    /\ UNCHANGED <<eligible, source, up, tail, log, synced, shrinks, crashes, damages, committed>>

\* R1: no leadership of the old run lasts; it fell with it.
Register(r) ==
    /\ ~(up[r])
    /\ ~Doubtful(r)
    /\ known' = [known EXCEPT ![r] = (IF (known[r] # None) THEN Report(r) ELSE None)]
    /\ up' = [up EXCEPT ![r] = TRUE]
    /\ tail' = [tail EXCEPT ![r] = "clean"]
    /\ UNCHANGED <<epoch, leader, isr, eligible, change, source, log, synced, hw, ready, shrinks, crashes, damages, committed>>

\* R14: it leaves ISR and eligible in the same command, and both its ends are remembered.
RegisterAfterDamage(r) ==
    /\ ~(up[r])
    /\ Doubtful(r)
    /\ isr' = (isr \ {r})
    /\ eligible' = (IF ((((r \in isr) \/ (r \in eligible)) \/ (known[r] # None)) /\ (Minimum <= Cardinality((isr \ {r})))) THEN {} ELSE (eligible \ {r}))
    /\ known' = [o \in Replica |-> (IF ((((r \in isr) \/ (r \in eligible)) \/ (known[r] # None)) /\ (Minimum <= Cardinality((isr \ {r})))) THEN None ELSE (IF ((o = r) /\ (((r \in isr) \/ (r \in eligible)) \/ (known[r] # None))) THEN Report(r) ELSE known[o]))]
    /\ change' = (IF (((r \in isr) \/ (r \in eligible)) \/ (known[r] # None)) THEN None ELSE change)
    /\ up' = [up EXCEPT ![r] = TRUE]
    /\ tail' = [tail EXCEPT ![r] = "clean"]
    /\ UNCHANGED <<epoch, leader, source, log, synced, hw, ready, shrinks, crashes, damages, committed>>

\* A data batch is stamped with how much of the journal its leader knows to be committed.
Write(r, k) ==
    /\ (leader = r)
    /\ (Len(log[k][r]) < Records)
    /\ log' = [log EXCEPT ![k] = [log[k] EXCEPT ![r] = Append(log[k][r], [epoch |-> epoch, stamp |-> (IF (k = "data") THEN hw["journal"] ELSE 0)])]]
    /\ UNCHANGED <<epoch, leader, isr, eligible, known, change, source, up, tail, synced, hw, ready, shrinks, crashes, damages, committed>>

\* R5, one log at a time.
Sync(r, k) ==
    /\ up[r]
    /\ (synced[k][r] < Len(log[k][r]))
    /\ synced' = [synced EXCEPT ![k] = [synced[k] EXCEPT ![r] = Len(log[k][r])]]
    /\ UNCHANGED <<epoch, leader, isr, eligible, known, change, source, up, tail, log, hw, ready, shrinks, crashes, damages, committed>>

\* One record.
Fetch(f, of, k) ==
    /\ Copies(f, of, k)
    /\ (Len(log[k][f]) < Len(log[k][of]))
    /\ Agrees(k, f, of)
    /\ log' = [log EXCEPT ![k] = [log[k] EXCEPT ![f] = Append(log[k][f], log[k][of][Len(log[k][f]) + 1])]]
    /\ UNCHANGED <<epoch, leader, isr, eligible, known, change, source, up, tail, synced, hw, ready, shrinks, crashes, damages, committed>>

\* R6, all rounds at once.
Truncate(f, of, k) ==
    /\ Copies(f, of, k)
    /\ ~Agrees(k, f, of)
    /\ log' = [log EXCEPT ![k] = [log[k] EXCEPT ![f] = SubSeq(log[k][f], 1, MinOf({Cardinality({i \in (0)..(MinOf({Len(log[k][f]), Len(log[k][of])}) - 1) : (\A j \in (0)..((i + 1) - 1) : (log[k][f][j + 1].epoch = log[k][of][j + 1].epoch))}), Len(log[k][f])}))]]
    /\ synced' = [synced EXCEPT ![k] = [synced[k] EXCEPT ![f] = MinOf({synced[k][f], Cardinality({i \in (0)..(MinOf({Len(log[k][f]), Len(log[k][of])}) - 1) : (\A j \in (0)..((i + 1) - 1) : (log[k][f][j + 1].epoch = log[k][of][j + 1].epoch))})})]]
    /\ UNCHANGED <<epoch, leader, isr, eligible, known, change, source, up, tail, hw, ready, shrinks, crashes, damages, committed>>

\* R2: each log has its HW, over the one maximal ISR.
Commit(r, k) ==
    /\ (leader = r)
    /\ (Minimum <= Cardinality(isr))
    /\ (hw[k] < MinOf({(IF ((m \in isr) \/ (change = m)) THEN Reported(k, m) ELSE Durable(k, r)) : m \in Replica}))
    /\ hw' = [hw EXCEPT ![k] = MinOf({(IF ((m \in isr) \/ (change = m)) THEN Reported(k, m) ELSE Durable(k, r)) : m \in Replica})]
    /\ committed' = [committed EXCEPT ![k] = (IF (Len(committed[k]) < MinOf({(IF ((m \in isr) \/ (change = m)) THEN Reported(k, m) ELSE Durable(k, r)) : m \in Replica})) THEN SubSeq(log[k][r], 1, MinOf({MinOf({(IF ((m \in isr) \/ (change = m)) THEN Reported(k, m) ELSE Durable(k, r)) : m \in Replica}), Len(log[k][r])})) ELSE committed[k])]
    /\ UNCHANGED <<epoch, leader, isr, eligible, known, change, source, up, tail, log, synced, ready, shrinks, crashes, damages>>

\* R10: both logs in the same instant.
ProposeAddition(f) ==
    /\ (leader # None)
    /\ (change = None)
    /\ up[f]
    /\ ~((f \in isr))
    /\ (\A k \in {"data", "journal"} : Ready(k, f))
    /\ change' = f
    /\ UNCHANGED <<epoch, leader, isr, eligible, known, source, up, tail, log, synced, hw, ready, shrinks, crashes, damages, committed>>

\* R11, R15: who lags, or has no session any more, leaves.
Shrink(f) ==
    /\ (leader # None)
    /\ (leader # f)
    /\ (f \in isr)
    /\ (shrinks < Shrinks)
    /\ (IF ~(up[f]) THEN TRUE ELSE Lags(f))
    /\ shrinks' = (shrinks + 1)
    /\ eligible' = (IF (Minimum <= Cardinality((isr \ {f}))) THEN {} ELSE (eligible \cup {f}))
    /\ known' = [o \in Replica |-> (IF (Minimum <= Cardinality((isr \ {f}))) THEN None ELSE known[o])]
    /\ isr' = (isr \ {f})
    /\ change' = None
    /\ UNCHANGED <<epoch, leader, source, up, tail, log, synced, hw, ready, crashes, damages, committed>>

\* Of each log, what was durable is found, and any part of the rest; with a bad tail, any part.
Crash(r, tail2, data, journal) ==
    /\ (tail2 # "ends-early")
    /\ (data <= Len(log["data"][r]))
    /\ (((tail2 = "data") \/ (tail2 = "both")) \/ (synced["data"][r] <= data))
    /\ (journal <= Len(log["journal"][r]))
    /\ (((tail2 = "journal") \/ (tail2 = "both")) \/ (synced["journal"][r] <= journal))
    /\ up[r]
    /\ (crashes < Crashes)
    /\ ((data < synced["data"][r]) => (damages["data"] < Damages))
    /\ ((journal < synced["journal"][r]) => (damages["journal"] < Damages))
    /\ crashes' = (crashes + 1)
    /\ damages' = [[damages EXCEPT !["data"] = (damages["data"] + (IF (data < synced["data"][r]) THEN 1 ELSE 0))] EXCEPT !["journal"] = (damages["journal"] + (IF (journal < synced["journal"][r]) THEN 1 ELSE 0))]
    /\ log' = [[log EXCEPT !["data"] = [log["data"] EXCEPT ![r] = SubSeq(log["data"][r], 1, MinOf({data, Len(log["data"][r])}))]] EXCEPT !["journal"] = [[log EXCEPT !["data"] = [log["data"] EXCEPT ![r] = SubSeq(log["data"][r], 1, MinOf({data, Len(log["data"][r])}))]]["journal"] EXCEPT ![r] = SubSeq(log["journal"][r], 1, MinOf({journal, Len(log["journal"][r])}))]]
    /\ synced' = [[synced EXCEPT !["data"] = [synced["data"] EXCEPT ![r] = data]] EXCEPT !["journal"] = [[synced EXCEPT !["data"] = [synced["data"] EXCEPT ![r] = data]]["journal"] EXCEPT ![r] = journal]]
    /\ up' = [up EXCEPT ![r] = FALSE]
    /\ tail' = [tail EXCEPT ![r] = tail2]
    /\ leader' = (IF (leader = r) THEN None ELSE leader)
    /\ change' = (IF ((change = r) \/ (leader = r)) THEN None ELSE change)
    /\ ready' = [k \in {"data", "journal"} |-> (IF (leader = r) THEN {} ELSE (ready[k] \ {r}))]
    /\ UNCHANGED <<epoch, isr, eligible, known, source, hw, shrinks, committed>>

\* The journal ends early and nothing in it is bad; the data name an entry that is gone.
CrashWithShortJournal(r, keep) ==
    /\ (keep < synced["journal"][r])
    /\ (keep < Stamped(r, synced["data"][r]))
    /\ up[r]
    /\ (crashes < Crashes)
    /\ ((synced["data"][r] < synced["data"][r]) => (damages["data"] < Damages))
    /\ ((keep < synced["journal"][r]) => (damages["journal"] < Damages))
    /\ crashes' = (crashes + 1)
    /\ damages' = [[damages EXCEPT !["data"] = (damages["data"] + (IF (synced["data"][r] < synced["data"][r]) THEN 1 ELSE 0))] EXCEPT !["journal"] = (damages["journal"] + (IF (keep < synced["journal"][r]) THEN 1 ELSE 0))]
    /\ log' = [[log EXCEPT !["data"] = [log["data"] EXCEPT ![r] = SubSeq(log["data"][r], 1, MinOf({synced["data"][r], Len(log["data"][r])}))]] EXCEPT !["journal"] = [[log EXCEPT !["data"] = [log["data"] EXCEPT ![r] = SubSeq(log["data"][r], 1, MinOf({synced["data"][r], Len(log["data"][r])}))]]["journal"] EXCEPT ![r] = SubSeq(log["journal"][r], 1, MinOf({keep, Len(log["journal"][r])}))]]
    /\ synced' = [[synced EXCEPT !["data"] = [synced["data"] EXCEPT ![r] = synced["data"][r]]] EXCEPT !["journal"] = [[synced EXCEPT !["data"] = [synced["data"] EXCEPT ![r] = synced["data"][r]]]["journal"] EXCEPT ![r] = keep]]
    /\ up' = [up EXCEPT ![r] = FALSE]
    /\ tail' = [tail EXCEPT ![r] = "ends-early"]
    /\ leader' = (IF (leader = r) THEN None ELSE leader)
    /\ change' = (IF ((change = r) \/ (leader = r)) THEN None ELSE change)
    /\ ready' = [k \in {"data", "journal"} |-> (IF (leader = r) THEN {} ELSE (ready[k] \ {r}))]
    /\ UNCHANGED <<epoch, isr, eligible, known, source, hw, shrinks, committed>>

Next ==
    \/ ApplyAddition
    \/ \E to \in Replica : Elect(to)
    \/ \E to \in Replica : ElectFromEligible(to)
    \/ \E r \in Replica : TellOfEnds(r)
    \/ \E to \in Replica : ElectFromLastKnown(to)
    \/ \E r \in Replica : Register(r)
    \/ \E r \in Replica : RegisterAfterDamage(r)
    \/ \E r \in Replica, k \in {"data", "journal"} : Write(r, k)
    \/ \E r \in Replica, k \in {"data", "journal"} : Sync(r, k)
    \/ \E f \in Replica, of \in Replica, k \in {"data", "journal"} : Fetch(f, of, k)
    \/ \E f \in Replica, of \in Replica, k \in {"data", "journal"} : Truncate(f, of, k)
    \/ \E r \in Replica, k \in {"data", "journal"} : Commit(r, k)
    \/ \E f \in Replica : ProposeAddition(f)
    \/ \E f \in Replica : Shrink(f)
    \/ \E r \in Replica, tail2 \in {"clean", "data", "journal", "both", "ends-early"}, data \in (0..Records), journal \in (0..Records) : Crash(r, tail2, data, journal)
    \/ \E r \in Replica, keep \in (0..Records) : CrashWithShortJournal(r, keep)

Spec == Init /\ [][Next]_vars

\* Whoever leads has all that was committed of the data.
NoRecordLost ==
    (\A r \in Replica : ((leader = r) => ((Len(committed["data"]) <= Len(log["data"][r])) /\ (SubSeq(log["data"][r], 1, MinOf({Len(committed["data"]), Len(log["data"][r])})) = committed["data"]))))

\* And of the journal; who takes its end in office has it, or the one that it takes it from has.
NoEntryLost ==
    (IF (\A r \in Replica : ((leader = r) => ((Len(committed["journal"]) <= Len(log["journal"][r])) /\ (SubSeq(log["journal"][r], 1, MinOf({Len(committed["journal"]), Len(log["journal"][r])})) = committed["journal"])))) THEN TRUE ELSE (\E r \in Replica : ((source = r) /\ ((Len(committed["journal"]) <= Len(log["journal"][r])) /\ (SubSeq(log["journal"][r], 1, MinOf({Len(committed["journal"]), Len(log["journal"][r])})) = committed["journal"])))))

\* Whoever may be elected has both durably, unless its disk is about to be reported.
CommittedOnIsr ==
    (\A r \in Replica : (\A k \in {"data", "journal"} : (((((r \in isr) \/ (r \in eligible)) /\ (tail[r] = "clean")) /\ ((k = "data") \/ (source = None))) => (((Len(committed[k]) <= Len(log[k][r])) /\ (SubSeq(log[k][r], 1, MinOf({Len(committed[k]), Len(log[k][r])})) = committed[k])) /\ (Len(committed[k]) <= synced[k][r])))))

\* Each member of the maximal ISR holds durably what lies below the HW, in both logs.
ValidHighWatermark ==
    (\A m \in Replica : (\A k \in {"data", "journal"} : (((leader # None) /\ (((m \in isr) \/ (change = m)) /\ (tail[m] = "clean"))) => (hw[k] <= synced[k][m]))))

\* What is visible was committed.
ConsistentRead ==
    (\A r \in Replica : (\A k \in {"data", "journal"} : ((leader = r) => ((hw[k] <= Len(log[k][r])) /\ (SubSeq(log[k][r], 1, MinOf({hw[k], Len(log[k][r])})) = SubSeq(committed[k], 1, MinOf({hw[k], Len(committed[k])})))))))

\* Two copies that have one record have the same before it (R1, R6).
LogMatching ==
    (\A k \in {"data", "journal"} : (\A a \in Replica : (\A b \in Replica : (\A i \in (0)..(Records - 1) : ((((i < Len(log[k][a])) /\ (i < Len(log[k][b]))) /\ (log[k][a][i + 1].epoch = log[k][b][i + 1].epoch)) => (SubSeq(log[k][a], 1, MinOf({(i + 1), Len(log[k][a])})) = SubSeq(log[k][b], 1, MinOf({(i + 1), Len(log[k][b])}))))))))

\* A stamp never exceeds the committed journal, be its batch committed or not.
StampCommitted ==
    (\A r \in Replica : (Stamped(r, Len(log["data"][r])) <= Len(committed["journal"])))

\* HW_j >= min(stamp, LEO_j), in a copy that the epoch check has verified.
StampIsProof ==
    (\A r \in Replica : (SubSeq(log["journal"][r], 1, MinOf({Proven(r), Len(log["journal"][r])})) = SubSeq(committed["journal"], 1, MinOf({Proven(r), Len(committed["journal"])}))))

\* Nobody leads whose data name a journal entry that it lacks, whatever was damaged.
StampedJournalHeld ==
    (IF (source # None) THEN TRUE ELSE (\A r \in Replica : ((leader = r) => ~Short(r))))

\* Whoever holds back the HW of a log may be removed (R11).
LaggardMayLeave ==
    (\A f \in Replica : (\A k \in {"data", "journal"} : (((leader # None) /\ (((leader # f) /\ (f \in isr)) /\ (Reported(k, f) < Durable(k, leader)))) => (IF ~(up[f]) THEN TRUE ELSE Lags(f)))))

\* R12.
LeaderInIsr ==
    (\A r \in Replica : ((leader = r) => (r \in isr)))

==============================================================================
