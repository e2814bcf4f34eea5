------------------------------ MODULE IsrRight -------------------------------

\* A fetch and its answer are one step, and a crashed replica is back in one.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Replica, Minimum, Records, Epochs, Changes, Crashes, Damages, Delays

VARIABLES
    now, index, eligible, known, change, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, delays, late

vars == <<now, index, eligible, known, change, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, delays, late>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ now \in [leader: (Replica \cup {None}), epoch: (0..Epochs), version: (0..Changes), isr: SUBSET Replica, runs: [Replica -> (0..Crashes)], live: SUBSET Replica]
    /\ index \in (0..Changes)
    /\ eligible \in SUBSET Replica
    /\ known \in [Replica -> ([epoch: (0..Epochs), leo: (0..Records), lost: BOOLEAN] \cup {None})]
    /\ change \in ([who: Replica, joins: BOOLEAN, run: (0..Crashes)] \cup {None})
    /\ elected \in {"isr", "eligible", "last-known"}
    /\ news \in [(0..Changes) -> ([leader: (Replica \cup {None}), epoch: (0..Epochs), version: (0..Changes), isr: SUBSET Replica, runs: [Replica -> (0..Crashes)], live: SUBSET Replica] \cup {None})]
    /\ up \in [Replica -> BOOLEAN]
    /\ tail \in [Replica -> {"clean", "suspect", "wiped"}]
    /\ run \in [Replica -> (0..Crashes)]
    /\ ((DOMAIN log = Replica) /\ (\A x \in Replica : ((log[x] \in Seq([epoch: (0..Epochs), run: (0..Crashes)])) /\ (Len(log[x]) <= Records))))
    /\ synced \in [Replica -> (0..Records)]
    /\ found \in [Replica -> (0..Records)]
    /\ hw \in [Replica -> (0..Records)]
    /\ applied \in [Replica -> (0..Changes)]
    /\ view \in [Replica -> [leader: (Replica \cup {None}), epoch: (0..Epochs), version: (0..Changes), isr: SUBSET Replica, runs: [Replica -> (0..Crashes)], live: SUBSET Replica]]
    /\ first \in [Replica -> (0..Records)]
    /\ progress \in [Replica -> [Replica -> (-1..Records)]]
    /\ pending \in [Replica -> (Replica \cup {None})]
    /\ crashes \in (0..Crashes)
    /\ damages \in (0..Damages)
    /\ ((committed \in Seq([epoch: (0..Epochs), run: (0..Crashes)])) /\ (Len(committed) <= Records))
    /\ delays \in (0..Delays)
    /\ late \in ([kind: {"records", "cut", "report"}, follower: Replica, leader: Replica, epoch: (0..Epochs), run: (0..Crashes), at: (0..Records), to: (0..Records), entry: ([epoch: (0..Epochs), run: (0..Crashes)] \cup {None}), hw: (0..Records)] \cup {None})

Current(who, run2) ==
    ((who \in now.live) /\ (now.runs[who] = run2))

\* R14, I2: it may lack what it had reported durable.
Doubtful(r) ==
    (tail[r] # "clean")

\* It believes so, rightly or not.
Leads(r) ==
    (up[r] /\ (view[r].leader = r))

\* Both run in one epoch, and the leader knows this run of the follower.
Follows(f, lead) ==
    (((((up[f] /\ (view[f].leader = lead)) /\ up[lead]) /\ (view[lead].leader = lead)) /\ (view[f].epoch = view[lead].epoch)) /\ (view[lead].runs[f] = run[f]))

\* The leader has the follower's last record, as far as its epoch tells.
Agrees(f, lead) ==
    ((Len(log[f]) <= Len(log[lead])) /\ (IF (Len(log[f]) = 0) THEN TRUE ELSE (log[f][(Len(log[f]) - 1) + 1].epoch = log[lead][(Len(log[f]) - 1) + 1].epoch)))

\* What it reports as durable.
Claimed(r) ==
    synced[r]

\* R6: the leader names the end of its greatest epoch that is not above the follower's.
CutAt(f, lead) ==
    MinOf({Cardinality({i \in (0)..(Len(log[lead]) - 1) : (log[lead][i + 1].epoch <= log[f][(Len(log[f]) - 1) + 1].epoch)}), Cardinality({i \in (0)..(Len(log[f]) - 1) : (log[f][i + 1].epoch <= (IF (Cardinality({i2 \in (0)..(Len(log[lead]) - 1) : (log[lead][i2 + 1].epoch <= log[f][(Len(log[f]) - 1) + 1].epoch)}) = 0) THEN 0 ELSE log[lead][(Cardinality({i2 \in (0)..(Len(log[lead]) - 1) : (log[lead][i2 + 1].epoch <= log[f][(Len(log[f]) - 1) + 1].epoch)}) - 1) + 1].epoch))})})

\* It has everything that was ever committed, durably.
Complete(r) ==
    ((Len(committed) <= synced[r]) /\ (SubSeq(log[r], 1, MinOf({Len(committed), Len(log[r])})) = committed))

\* R6: the question was asked in this epoch and run, and nothing was asked since.
Answers(m, f) ==
    (((m.follower = f) /\ up[f]) /\ (((view[f].epoch = m.epoch) /\ (run[f] = m.run)) /\ (m.at = Len(log[f]))))

\* One change at a time; a proposal on an old version would be refused.
MayPropose(lead) ==
    ((Leads(lead) /\ (pending[lead] = None)) /\ (view[lead].version = now.version))

Init ==
    \E leader \in Replica :
        /\ now = [leader |-> leader, epoch |-> 1, version |-> 0, isr |-> Replica, runs |-> [x \in Replica |-> 0], live |-> Replica]
        /\ index = 0
        /\ eligible = {}
        /\ known = [x \in Replica |-> None]
        /\ change = None
        /\ elected = "isr"
        /\ news = [x \in (0..Changes) |-> None]
        /\ up = [x \in Replica |-> TRUE]
        /\ tail = [x \in Replica |-> "clean"]
        /\ run = [x \in Replica |-> 0]
        /\ log = [x \in Replica |-> <<>>]
        /\ synced = [x \in Replica |-> 0]
        /\ found = [x \in Replica |-> 0]
        /\ hw = [x \in Replica |-> 0]
        /\ applied = [x \in Replica |-> 0]
        /\ view = [x \in Replica |-> [leader |-> leader, epoch |-> 1, version |-> 0, isr |-> Replica, runs |-> [x2 \in Replica |-> 0], live |-> Replica]]
        /\ first = [x \in Replica |-> 0]
        /\ progress = [x \in Replica |-> [x2 \in Replica |-> -1]]
        /\ pending = [x \in Replica |-> None]
        /\ crashes = 0
        /\ damages = 0
        /\ committed = <<>>
        /\ delays = 0
        /\ late = None

\* R9: the run that was meant is not there any more; the version grows all the same.
RefuseAddition ==
    /\ (change # None)
    /\ change.joins
    /\ ~Current(change.who, change.run)
    /\ (index < Changes)
    /\ now' = [leader |-> now.leader, epoch |-> now.epoch, version |-> (IF TRUE THEN (now.version + 1) ELSE now.version), isr |-> now.isr, runs |-> now.runs, live |-> now.live]
    /\ index' = (index + 1)
    /\ news' = [news EXCEPT ![(index + 1)] = [leader |-> now.leader, epoch |-> now.epoch, version |-> (IF TRUE THEN (now.version + 1) ELSE now.version), isr |-> now.isr, runs |-> now.runs, live |-> now.live]]
    /\ change' = (IF TRUE THEN None ELSE change)
    /\ UNCHANGED <<eligible, known, elected, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, delays, late>>

\* R9, R13: only of the run that was meant.
ApplyAddition ==
    /\ (change # None)
    /\ change.joins
    /\ Current(change.who, change.run)
    /\ (index < Changes)
    /\ eligible' = (IF (Minimum <= Cardinality((now.isr \cup {change.who}))) THEN {} ELSE (eligible \ {change.who}))
    /\ known' = [o \in Replica |-> (IF (Minimum <= Cardinality((now.isr \cup {change.who}))) THEN None ELSE known[o])]
    /\ now' = [leader |-> now.leader, epoch |-> now.epoch, version |-> (IF TRUE THEN (now.version + 1) ELSE now.version), isr |-> (now.isr \cup {change.who}), runs |-> now.runs, live |-> now.live]
    /\ index' = (index + 1)
    /\ news' = [news EXCEPT ![(index + 1)] = [leader |-> now.leader, epoch |-> now.epoch, version |-> (IF TRUE THEN (now.version + 1) ELSE now.version), isr |-> (now.isr \cup {change.who}), runs |-> now.runs, live |-> now.live]]
    /\ change' = (IF TRUE THEN None ELSE change)
    /\ UNCHANGED <<elected, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, delays, late>>

\* R13: below the minimum nothing commits, and who is removed then has everything.
ApplyRemoval ==
    /\ (change # None)
    /\ ~(change.joins)
    /\ (index < Changes)
    /\ eligible' = (IF (Minimum <= Cardinality((now.isr \ {change.who}))) THEN {} ELSE (eligible \cup {change.who}))
    /\ known' = [o \in Replica |-> (IF (Minimum <= Cardinality((now.isr \ {change.who}))) THEN None ELSE known[o])]
    /\ now' = [leader |-> now.leader, epoch |-> now.epoch, version |-> (IF TRUE THEN (now.version + 1) ELSE now.version), isr |-> (now.isr \ {change.who}), runs |-> now.runs, live |-> now.live]
    /\ index' = (index + 1)
    /\ news' = [news EXCEPT ![(index + 1)] = [leader |-> now.leader, epoch |-> now.epoch, version |-> (IF TRUE THEN (now.version + 1) ELSE now.version), isr |-> (now.isr \ {change.who}), runs |-> now.runs, live |-> now.live]]
    /\ change' = (IF TRUE THEN None ELSE change)
    /\ UNCHANGED <<elected, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, delays, late>>

\* R15: a lost session ends ISR membership and leadership in one command.
ExpireMember(r) ==
    /\ (r \in now.isr)
    /\ (index < Changes)
    /\ eligible' = (IF (Minimum <= Cardinality((now.isr \ {r}))) THEN {} ELSE (eligible \cup {r}))
    /\ known' = [o \in Replica |-> (IF (Minimum <= Cardinality((now.isr \ {r}))) THEN None ELSE known[o])]
    /\ now' = [leader |-> (IF (now.leader = r) THEN None ELSE now.leader), epoch |-> now.epoch, version |-> (IF TRUE THEN (now.version + 1) ELSE now.version), isr |-> (now.isr \ {r}), runs |-> now.runs, live |-> (now.live \ {r})]
    /\ index' = (index + 1)
    /\ news' = [news EXCEPT ![(index + 1)] = [leader |-> (IF (now.leader = r) THEN None ELSE now.leader), epoch |-> now.epoch, version |-> (IF TRUE THEN (now.version + 1) ELSE now.version), isr |-> (now.isr \ {r}), runs |-> now.runs, live |-> (now.live \ {r})]]
    /\ change' = (IF TRUE THEN None ELSE change)
    /\ UNCHANGED <<elected, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, delays, late>>

ExpireOutsider(r) ==
    /\ (r \in now.live)
    /\ ~((r \in now.isr))
    /\ (index < Changes)
    /\ now' = [leader |-> now.leader, epoch |-> now.epoch, version |-> (IF FALSE THEN (now.version + 1) ELSE now.version), isr |-> now.isr, runs |-> now.runs, live |-> (now.live \ {r})]
    /\ index' = (index + 1)
    /\ news' = [news EXCEPT ![(index + 1)] = [leader |-> now.leader, epoch |-> now.epoch, version |-> (IF FALSE THEN (now.version + 1) ELSE now.version), isr |-> now.isr, runs |-> now.runs, live |-> (now.live \ {r})]]
    /\ change' = (IF FALSE THEN None ELSE change)
    /\ UNCHANGED <<eligible, known, elected, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, delays, late>>

\* R16: a live member of the ISR.
ElectFromIsr(to) ==
    /\ (now.leader = None)
    /\ (to \in now.isr)
    /\ (to \in now.live)
    /\ (now.epoch < Epochs)
    /\ (index < Changes)
    /\ elected' = "isr"
    /\ now' = [leader |-> to, epoch |-> (now.epoch + 1), version |-> (IF TRUE THEN (now.version + 1) ELSE now.version), isr |-> now.isr, runs |-> now.runs, live |-> now.live]
    /\ index' = (index + 1)
    /\ news' = [news EXCEPT ![(index + 1)] = [leader |-> to, epoch |-> (now.epoch + 1), version |-> (IF TRUE THEN (now.version + 1) ELSE now.version), isr |-> now.isr, runs |-> now.runs, live |-> now.live]]
    /\ change' = (IF TRUE THEN None ELSE change)
    /\ UNCHANGED <<eligible, known, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, delays, late>>

\* R13: it is the whole ISR from now on, the others keep their eligibility.
ElectFromEligible(to) ==
    /\ (now.leader = None)
    /\ ((now.isr \cap now.live) = {})
    /\ (to \in eligible)
    /\ (to \in now.live)
    /\ (now.epoch < Epochs)
    /\ (index < Changes)
    /\ eligible' = ((now.isr \cup eligible) \ {to})
    /\ elected' = "eligible"
    /\ now' = [leader |-> to, epoch |-> (now.epoch + 1), version |-> (IF TRUE THEN (now.version + 1) ELSE now.version), isr |-> {to}, runs |-> now.runs, live |-> now.live]
    /\ index' = (index + 1)
    /\ news' = [news EXCEPT ![(index + 1)] = [leader |-> to, epoch |-> (now.epoch + 1), version |-> (IF TRUE THEN (now.version + 1) ELSE now.version), isr |-> {to}, runs |-> now.runs, live |-> now.live]]
    /\ change' = (IF TRUE THEN None ELSE change)
    /\ UNCHANGED <<known, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, delays, late>>

\* R14: nobody else is left, none of the last known is lost, and this one has the most.
ElectFromLastKnown(to) ==
    /\ (now.leader = None)
    /\ (now.isr = {})
    /\ (eligible = {})
    /\ (known[to] # None)
    /\ (to \in now.live)
    /\ (\A o \in Replica : ((known[o] # None) => (~(known[o].lost) /\ (IF (known[o].epoch < known[to].epoch) THEN TRUE ELSE ((known[o].epoch = known[to].epoch) /\ (known[o].leo <= known[to].leo))))))
    /\ (now.epoch < Epochs)
    /\ (index < Changes)
    /\ known' = [o \in Replica |-> (IF ((o = to) \/ (Minimum = 1)) THEN None ELSE known[o])]
    /\ elected' = "last-known"
    /\ now' = [leader |-> to, epoch |-> (now.epoch + 1), version |-> (IF TRUE THEN (now.version + 1) ELSE now.version), isr |-> {to}, runs |-> now.runs, live |-> now.live]
    /\ index' = (index + 1)
    /\ news' = [news EXCEPT ![(index + 1)] = [leader |-> to, epoch |-> (now.epoch + 1), version |-> (IF TRUE THEN (now.version + 1) ELSE now.version), isr |-> {to}, runs |-> now.runs, live |-> now.live]]
    /\ change' = (IF TRUE THEN None ELSE change)
    /\ UNCHANGED <<eligible, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, delays, late>>

\* R1: no leadership of the old run lasts.
Register(r) ==
    /\ ~(up[r])
    /\ ~Doubtful(r)
    /\ (index < Changes)
    /\ known' = [known EXCEPT ![r] = (IF ((known[r] # None) /\ ~(known[r].lost)) THEN [epoch |-> (IF (Len(log[r]) = 0) THEN 0 ELSE log[r][(Len(log[r]) - 1) + 1].epoch), leo |-> Len(log[r]), lost |-> FALSE] ELSE known[r])]
    /\ now' = [leader |-> (IF (now.leader = r) THEN None ELSE now.leader), epoch |-> now.epoch, version |-> (IF (now.leader = r) THEN (now.version + 1) ELSE now.version), isr |-> now.isr, runs |-> [o \in Replica |-> (IF (o = r) THEN (run[r] + 1) ELSE now.runs[o])], live |-> (now.live \cup {r})]
    /\ index' = (index + 1)
    /\ news' = [news EXCEPT ![(index + 1)] = [leader |-> (IF (now.leader = r) THEN None ELSE now.leader), epoch |-> now.epoch, version |-> (IF (now.leader = r) THEN (now.version + 1) ELSE now.version), isr |-> now.isr, runs |-> [o \in Replica |-> (IF (o = r) THEN (run[r] + 1) ELSE now.runs[o])], live |-> (now.live \cup {r})]]
    /\ change' = (IF (now.leader = r) THEN None ELSE change)
    /\ up' = [up EXCEPT ![r] = TRUE]
    /\ run' = [run EXCEPT ![r] = (run[r] + 1)]
    /\ tail' = [tail EXCEPT ![r] = "clean"]
    /\ view' = [view EXCEPT ![r] = [leader |-> (IF (now.leader = r) THEN None ELSE now.leader), epoch |-> now.epoch, version |-> (IF (now.leader = r) THEN (now.version + 1) ELSE now.version), isr |-> now.isr, runs |-> [o \in Replica |-> (IF (o = r) THEN (run[r] + 1) ELSE now.runs[o])], live |-> (now.live \cup {r})]]
    /\ applied' = [applied EXCEPT ![r] = (index + 1)]
    /\ UNCHANGED <<eligible, elected, log, synced, found, hw, first, progress, pending, crashes, damages, committed, delays, late>>

\* I2, R14: it leaves ISR and eligible in the same command, and what it still has is remembered.
RegisterAfterDamage(r) ==
    /\ ~(up[r])
    /\ Doubtful(r)
    /\ (index < Changes)
    /\ eligible' = (IF ((((r \in now.isr) \/ (r \in eligible)) \/ (known[r] # None)) /\ (Minimum <= Cardinality((now.isr \ {r})))) THEN {} ELSE (eligible \ {r}))
    /\ known' = [o \in Replica |-> (IF ((((r \in now.isr) \/ (r \in eligible)) \/ (known[r] # None)) /\ (Minimum <= Cardinality((now.isr \ {r})))) THEN None ELSE (IF ((o = r) /\ (((r \in now.isr) \/ (r \in eligible)) \/ (known[r] # None))) THEN [epoch |-> (IF (Len(log[r]) = 0) THEN 0 ELSE log[r][(Len(log[r]) - 1) + 1].epoch), leo |-> Len(log[r]), lost |-> (IF (tail[r] = "wiped") THEN TRUE ELSE ((known[r] # None) /\ known[r].lost))] ELSE known[o]))]
    /\ now' = [leader |-> (IF (now.leader = r) THEN None ELSE now.leader), epoch |-> now.epoch, version |-> (IF (((r \in now.isr) \/ (r \in eligible)) \/ (known[r] # None)) THEN (now.version + 1) ELSE now.version), isr |-> (now.isr \ {r}), runs |-> [o \in Replica |-> (IF (o = r) THEN (run[r] + 1) ELSE now.runs[o])], live |-> (now.live \cup {r})]
    /\ index' = (index + 1)
    /\ news' = [news EXCEPT ![(index + 1)] = [leader |-> (IF (now.leader = r) THEN None ELSE now.leader), epoch |-> now.epoch, version |-> (IF (((r \in now.isr) \/ (r \in eligible)) \/ (known[r] # None)) THEN (now.version + 1) ELSE now.version), isr |-> (now.isr \ {r}), runs |-> [o \in Replica |-> (IF (o = r) THEN (run[r] + 1) ELSE now.runs[o])], live |-> (now.live \cup {r})]]
    /\ change' = (IF (((r \in now.isr) \/ (r \in eligible)) \/ (known[r] # None)) THEN None ELSE change)
    /\ up' = [up EXCEPT ![r] = TRUE]
    /\ run' = [run EXCEPT ![r] = (run[r] + 1)]
    /\ tail' = [tail EXCEPT ![r] = "clean"]
    /\ view' = [view EXCEPT ![r] = [leader |-> (IF (now.leader = r) THEN None ELSE now.leader), epoch |-> now.epoch, version |-> (IF (((r \in now.isr) \/ (r \in eligible)) \/ (known[r] # None)) THEN (now.version + 1) ELSE now.version), isr |-> (now.isr \ {r}), runs |-> [o \in Replica |-> (IF (o = r) THEN (run[r] + 1) ELSE now.runs[o])], live |-> (now.live \cup {r})]]
    /\ applied' = [applied EXCEPT ![r] = (index + 1)]
    /\ UNCHANGED <<elected, log, synced, found, hw, first, progress, pending, crashes, damages, committed, delays, late>>

\* R1: the leader gives offsets, and its epoch and run to each record.
Write(r) ==
    /\ Leads(r)
    /\ (Len(log[r]) < Records)
    /\ log' = [log EXCEPT ![r] = Append(log[r], [epoch |-> view[r].epoch, run |-> run[r]])]
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, delays, late>>

\* R2: the HW is what the maximal ISR has durably, if the committed ISR has its minimum.
Commit(r) ==
    /\ Leads(r)
    /\ (Minimum <= Cardinality(view[r].isr))
    /\ (hw[r] < MinOf({(IF ((m = r) \/ ~(((m \in view[r].isr) \/ (pending[r] = m)))) THEN Claimed(r) ELSE progress[r][m]) : m \in Replica}))
    /\ hw' = [hw EXCEPT ![r] = MinOf({(IF ((m = r) \/ ~(((m \in view[r].isr) \/ (pending[r] = m)))) THEN Claimed(r) ELSE progress[r][m]) : m \in Replica})]
    /\ committed' = (IF (Len(committed) < MinOf({(IF ((m = r) \/ ~(((m \in view[r].isr) \/ (pending[r] = m)))) THEN Claimed(r) ELSE progress[r][m]) : m \in Replica})) THEN SubSeq(log[r], 1, MinOf({MinOf({(IF ((m = r) \/ ~(((m \in view[r].isr) \/ (pending[r] = m)))) THEN Claimed(r) ELSE progress[r][m]) : m \in Replica}), Len(log[r])})) ELSE committed)
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, log, synced, found, applied, view, first, progress, pending, crashes, damages, delays, late>>

\* R2, R9: a change within the epoch; it ends what was pending if the version has passed it.
ApplyInEpoch(r) ==
    /\ up[r]
    /\ (applied[r] < index)
    /\ (news[(applied[r] + 1)].epoch = view[r].epoch)
    /\ applied' = [applied EXCEPT ![r] = (applied[r] + 1)]
    /\ view' = [view EXCEPT ![r] = news[(applied[r] + 1)]]
    /\ pending' = [pending EXCEPT ![r] = (IF (view[r].version < news[(applied[r] + 1)].version) THEN None ELSE pending[r])]
    /\ progress' = [progress EXCEPT ![r] = [o \in Replica |-> (IF (news[(applied[r] + 1)].runs[o] # view[r].runs[o]) THEN -1 ELSE progress[r][o])]]
    /\ news' = [i \in (0..Changes) |-> (IF (i <= MinOf({(IF (o = r) THEN (applied[r] + 1) ELSE (IF up[o] THEN applied[o] ELSE index)) : o \in Replica})) THEN None ELSE news[i])]
    /\ UNCHANGED <<now, index, eligible, known, change, elected, up, tail, run, log, synced, found, hw, first, crashes, damages, committed, delays, late>>

\* R1: another epoch, in which nothing is known of anybody.
ApplyNewEpoch(r) ==
    /\ up[r]
    /\ (applied[r] < index)
    /\ (view[r].epoch < news[(applied[r] + 1)].epoch)
    /\ applied' = [applied EXCEPT ![r] = (applied[r] + 1)]
    /\ view' = [view EXCEPT ![r] = news[(applied[r] + 1)]]
    /\ pending' = [pending EXCEPT ![r] = None]
    /\ progress' = [progress EXCEPT ![r] = [x \in Replica |-> -1]]
    /\ first' = [first EXCEPT ![r] = (IF (news[(applied[r] + 1)].leader = r) THEN Len(log[r]) ELSE 0)]
    /\ news' = [i \in (0..Changes) |-> (IF (i <= MinOf({(IF (o = r) THEN (applied[r] + 1) ELSE (IF up[o] THEN applied[o] ELSE index)) : o \in Replica})) THEN None ELSE news[i])]
    /\ UNCHANGED <<now, index, eligible, known, change, elected, up, tail, run, log, synced, found, hw, crashes, damages, committed, delays, late>>

\* R10: durably at the HW and at the epoch's start, and live.
ProposeAddition(lead, who) ==
    /\ MayPropose(lead)
    /\ ~((who \in view[lead].isr))
    /\ (who \in view[lead].live)
    /\ (hw[lead] <= progress[lead][who])
    /\ (first[lead] <= progress[lead][who])
    /\ pending' = [pending EXCEPT ![lead] = who]
    /\ change' = [who |-> who, joins |-> TRUE, run |-> view[lead].runs[who]]
    /\ UNCHANGED <<now, index, eligible, known, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, progress, crashes, damages, committed, delays, late>>

\* R11: some member is not known to have everything.
ProposeRemoval(lead, who) ==
    /\ MayPropose(lead)
    /\ (lead # who)
    /\ (who \in view[lead].isr)
    /\ (progress[lead][who] < Len(log[lead]))
    /\ pending' = [pending EXCEPT ![lead] = who]
    /\ change' = [who |-> who, joins |-> FALSE, run |-> view[lead].runs[who]]
    /\ UNCHANGED <<now, index, eligible, known, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, progress, crashes, damages, committed, delays, late>>

\* What was durable is found, and any part of the rest.
Crash(r, keep) ==
    /\ (synced[r] <= keep)
    /\ (keep <= Len(log[r]))
    /\ up[r]
    /\ (crashes < Crashes)
    /\ crashes' = (crashes + 1)
    /\ up' = [up EXCEPT ![r] = FALSE]
    /\ tail' = [tail EXCEPT ![r] = "clean"]
    /\ log' = [log EXCEPT ![r] = SubSeq(log[r], 1, MinOf({keep, Len(log[r])}))]
    /\ synced' = [synced EXCEPT ![r] = keep]
    /\ hw' = [hw EXCEPT ![r] = 0]
    /\ view' = [view EXCEPT ![r] = [leader |-> None, epoch |-> 0, version |-> 0, isr |-> {}, runs |-> [x \in Replica |-> 0], live |-> {}]]
    /\ applied' = [applied EXCEPT ![r] = 0]
    /\ first' = [first EXCEPT ![r] = 0]
    /\ progress' = [progress EXCEPT ![r] = [x \in Replica |-> -1]]
    /\ pending' = [pending EXCEPT ![r] = None]
    /\ news' = [i \in (0..Changes) |-> (IF (i <= MinOf({(IF (o = r) THEN index ELSE (IF up[o] THEN applied[o] ELSE index)) : o \in Replica})) THEN None ELSE news[i])]
    /\ UNCHANGED <<now, index, eligible, known, change, elected, run, found, damages, committed, delays, late>>

\* R14: bad bytes at the end: never synced, or synced and damaged since.
CrashWithTornTail(r, keep) ==
    /\ (keep < Len(log[r]))
    /\ ((damages + (IF (keep < synced[r]) THEN 1 ELSE 0)) <= Damages)
    /\ up[r]
    /\ (crashes < Crashes)
    /\ damages' = (damages + (IF (keep < synced[r]) THEN 1 ELSE 0))
    /\ crashes' = (crashes + 1)
    /\ up' = [up EXCEPT ![r] = FALSE]
    /\ tail' = [tail EXCEPT ![r] = "suspect"]
    /\ log' = [log EXCEPT ![r] = SubSeq(log[r], 1, MinOf({keep, Len(log[r])}))]
    /\ synced' = [synced EXCEPT ![r] = keep]
    /\ hw' = [hw EXCEPT ![r] = 0]
    /\ view' = [view EXCEPT ![r] = [leader |-> None, epoch |-> 0, version |-> 0, isr |-> {}, runs |-> [x \in Replica |-> 0], live |-> {}]]
    /\ applied' = [applied EXCEPT ![r] = 0]
    /\ first' = [first EXCEPT ![r] = 0]
    /\ progress' = [progress EXCEPT ![r] = [x \in Replica |-> -1]]
    /\ pending' = [pending EXCEPT ![r] = None]
    /\ news' = [i \in (0..Changes) |-> (IF (i <= MinOf({(IF (o = r) THEN index ELSE (IF up[o] THEN applied[o] ELSE index)) : o \in Replica})) THEN None ELSE news[i])]
    /\ UNCHANGED <<now, index, eligible, known, change, elected, run, found, committed, delays, late>>

\* I2.
LoseDisk(r) ==
    /\ (damages < Damages)
    /\ up[r]
    /\ (crashes < Crashes)
    /\ damages' = (damages + 1)
    /\ crashes' = (crashes + 1)
    /\ up' = [up EXCEPT ![r] = FALSE]
    /\ tail' = [tail EXCEPT ![r] = "wiped"]
    /\ log' = [log EXCEPT ![r] = SubSeq(log[r], 1, MinOf({0, Len(log[r])}))]
    /\ synced' = [synced EXCEPT ![r] = 0]
    /\ hw' = [hw EXCEPT ![r] = 0]
    /\ view' = [view EXCEPT ![r] = [leader |-> None, epoch |-> 0, version |-> 0, isr |-> {}, runs |-> [x \in Replica |-> 0], live |-> {}]]
    /\ applied' = [applied EXCEPT ![r] = 0]
    /\ first' = [first EXCEPT ![r] = 0]
    /\ progress' = [progress EXCEPT ![r] = [x \in Replica |-> -1]]
    /\ pending' = [pending EXCEPT ![r] = None]
    /\ news' = [i \in (0..Changes) |-> (IF (i <= MinOf({(IF (o = r) THEN index ELSE (IF up[o] THEN applied[o] ELSE index)) : o \in Replica})) THEN None ELSE news[i])]
    /\ UNCHANGED <<now, index, eligible, known, change, elected, run, found, committed, delays, late>>

\* R5.
Sync(r) ==
    /\ up[r]
    /\ (synced[r] < Len(log[r]))
    /\ synced' = [synced EXCEPT ![r] = Len(log[r])]
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, log, found, hw, applied, view, first, progress, pending, crashes, damages, committed, delays, late>>

\* One record and the HW (R6, R8).
Fetch(f, lead) ==
    /\ (f # lead)
    /\ Follows(f, lead)
    /\ Agrees(f, lead)
    /\ ((Len(log[f]) < Len(log[lead])) \/ (hw[f] < MinOf({hw[lead], Len(log[f])})))
    /\ log' = [log EXCEPT ![f] = (IF ((IF (Len(log[f]) < Len(log[lead])) THEN log[lead][Len(log[f]) + 1] ELSE None) # None) THEN Append(log[f], (IF (Len(log[f]) < Len(log[lead])) THEN log[lead][Len(log[f]) + 1] ELSE None)) ELSE log[f])]
    /\ hw' = [hw EXCEPT ![f] = MaxOf({hw[f], MinOf({hw[lead], (Len(log[f]) + (IF ((IF (Len(log[f]) < Len(log[lead])) THEN log[lead][Len(log[f]) + 1] ELSE None) # None) THEN 1 ELSE 0))})})]
    /\ late' = (IF (((late # None) /\ (late.follower = f)) /\ (late.kind # "report")) THEN None ELSE late)
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, synced, found, applied, view, first, progress, pending, crashes, damages, committed, delays>>

\* A fetch that finds out that the logs have parted: one round of cutting (R6).
Truncate(f, lead) ==
    /\ (f # lead)
    /\ Follows(f, lead)
    /\ ~Agrees(f, lead)
    /\ log' = [log EXCEPT ![f] = SubSeq(log[f], 1, MinOf({CutAt(f, lead), Len(log[f])}))]
    /\ synced' = [synced EXCEPT ![f] = MinOf({synced[f], CutAt(f, lead)})]
    /\ found' = [found EXCEPT ![f] = MinOf({found[f], CutAt(f, lead)})]
    /\ late' = (IF (((late # None) /\ (late.follower = f)) /\ (late.kind # "report")) THEN None ELSE late)
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, hw, applied, view, first, progress, pending, crashes, damages, committed, delays>>

\* The leader hears how far the follower is durable (R2, R7).
Report(f, lead) ==
    /\ (f # lead)
    /\ Follows(f, lead)
    /\ (progress[lead][f] < Claimed(f))
    /\ Agrees(f, lead)
    /\ progress' = [progress EXCEPT ![lead] = [progress[lead] EXCEPT ![f] = Claimed(f)]]
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, pending, crashes, damages, committed, delays, late>>

FetchIsAnsweredLate(f, lead) ==
    /\ (f # lead)
    /\ Follows(f, lead)
    /\ Agrees(f, lead)
    /\ (Len(log[f]) < Len(log[lead]))
    /\ (delays < Delays)
    /\ (late = None)
    /\ delays' = (delays + 1)
    /\ late' = [kind |-> "records", follower |-> f, leader |-> lead, epoch |-> view[lead].epoch, run |-> run[f], at |-> Len(log[f]), to |-> 0, entry |-> log[lead][Len(log[f]) + 1], hw |-> hw[lead]]
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed>>

TruncationIsAnsweredLate(f, lead) ==
    /\ (f # lead)
    /\ Follows(f, lead)
    /\ ~Agrees(f, lead)
    /\ (delays < Delays)
    /\ (late = None)
    /\ delays' = (delays + 1)
    /\ late' = [kind |-> "cut", follower |-> f, leader |-> lead, epoch |-> view[lead].epoch, run |-> run[f], at |-> Len(log[f]), to |-> CutAt(f, lead), entry |-> None, hw |-> 0]
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed>>

ReportIsLate(f, lead) ==
    /\ (f # lead)
    /\ Follows(f, lead)
    /\ (progress[lead][f] < Claimed(f))
    /\ Agrees(f, lead)
    /\ (delays < Delays)
    /\ (late = None)
    /\ delays' = (delays + 1)
    /\ late' = [kind |-> "report", follower |-> f, leader |-> lead, epoch |-> view[lead].epoch, run |-> run[f], at |-> Len(log[f]), to |-> Claimed(f), entry |-> None, hw |-> 0]
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed>>

LateRecordsArrive(f) ==
    /\ (late # None)
    /\ (late.kind = "records")
    /\ Answers(late, f)
    /\ log' = [log EXCEPT ![f] = (IF (late.entry # None) THEN Append(log[f], late.entry) ELSE log[f])]
    /\ hw' = [hw EXCEPT ![f] = MaxOf({hw[f], MinOf({late.hw, (Len(log[f]) + (IF (late.entry # None) THEN 1 ELSE 0))})})]
    /\ late' = None
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, synced, found, applied, view, first, progress, pending, crashes, damages, committed, delays>>

LateCutArrives(f) ==
    /\ (late # None)
    /\ (late.kind = "cut")
    /\ Answers(late, f)
    /\ log' = [log EXCEPT ![f] = SubSeq(log[f], 1, MinOf({late.to, Len(log[f])}))]
    /\ synced' = [synced EXCEPT ![f] = MinOf({synced[f], late.to})]
    /\ found' = [found EXCEPT ![f] = MinOf({found[f], late.to})]
    /\ late' = None
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, hw, applied, view, first, progress, pending, crashes, damages, committed, delays>>

LateReportArrives(lead, f) ==
    /\ (late # None)
    /\ (late.kind = "report")
    /\ (late.leader = lead)
    /\ (late.follower = f)
    /\ Leads(lead)
    /\ (view[lead].epoch = late.epoch)
    /\ (view[lead].runs[f] = late.run)
    /\ (progress[lead][f] < late.to)
    /\ progress' = [progress EXCEPT ![lead] = [progress[lead] EXCEPT ![f] = late.to]]
    /\ late' = None
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, pending, crashes, damages, committed, delays>>

LateMessageIsLost ==
    /\ (late # None)
    /\ late' = None
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, delays>>

\* R15, R16: after reports of followers, a resignation, or to spread leaders evenly.
ElectAnother(to) ==
    /\ (now.leader # None)
    /\ (now.leader # to)
    /\ (to \in now.isr)
    /\ (to \in now.live)
    /\ (now.epoch < Epochs)
    /\ (index < Changes)
    /\ elected' = "isr"
    /\ now' = [leader |-> to, epoch |-> (now.epoch + 1), version |-> (IF TRUE THEN (now.version + 1) ELSE now.version), isr |-> now.isr, runs |-> now.runs, live |-> now.live]
    /\ index' = (index + 1)
    /\ news' = [news EXCEPT ![(index + 1)] = [leader |-> to, epoch |-> (now.epoch + 1), version |-> (IF TRUE THEN (now.version + 1) ELSE now.version), isr |-> now.isr, runs |-> now.runs, live |-> now.live]]
    /\ change' = (IF TRUE THEN None ELSE change)
    /\ UNCHANGED <<eligible, known, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, delays, late>>

Next ==
    \/ RefuseAddition
    \/ ApplyAddition
    \/ ApplyRemoval
    \/ \E r \in Replica : ExpireMember(r)
    \/ \E r \in Replica : ExpireOutsider(r)
    \/ \E to \in Replica : ElectFromIsr(to)
    \/ \E to \in Replica : ElectFromEligible(to)
    \/ \E to \in Replica : ElectFromLastKnown(to)
    \/ \E r \in Replica : Register(r)
    \/ \E r \in Replica : RegisterAfterDamage(r)
    \/ \E r \in Replica : Write(r)
    \/ \E r \in Replica : Commit(r)
    \/ \E r \in Replica : ApplyInEpoch(r)
    \/ \E r \in Replica : ApplyNewEpoch(r)
    \/ \E lead \in Replica, who \in Replica : ProposeAddition(lead, who)
    \/ \E lead \in Replica, who \in Replica : ProposeRemoval(lead, who)
    \/ \E r \in Replica, keep \in (0..Records) : Crash(r, keep)
    \/ \E r \in Replica, keep \in (0..Records) : CrashWithTornTail(r, keep)
    \/ \E r \in Replica : LoseDisk(r)
    \/ \E r \in Replica : Sync(r)
    \/ \E f \in Replica, lead \in Replica : Fetch(f, lead)
    \/ \E f \in Replica, lead \in Replica : Truncate(f, lead)
    \/ \E f \in Replica, lead \in Replica : Report(f, lead)
    \/ \E f \in Replica, lead \in Replica : FetchIsAnsweredLate(f, lead)
    \/ \E f \in Replica, lead \in Replica : TruncationIsAnsweredLate(f, lead)
    \/ \E f \in Replica, lead \in Replica : ReportIsLate(f, lead)
    \/ \E f \in Replica : LateRecordsArrive(f)
    \/ \E f \in Replica : LateCutArrives(f)
    \/ \E lead \in Replica, f \in Replica : LateReportArrives(lead, f)
    \/ LateMessageIsLost
    \/ \E to \in Replica : ElectAnother(to)

Spec == Init /\ [][Next]_vars

\* Whoever the group may elect has what is committed, unless its disk is about to be reported.
LeaderCandidateCompleteness ==
    (\A r \in Replica : ((((r \in now.isr) \/ (r \in eligible)) /\ (tail[r] = "clean")) => Complete(r)))

\* The leader of the present epoch has everything that is committed.
NoCommittedRecordLost ==
    (\A r \in Replica : ((Leads(r) /\ (view[r].epoch = now.epoch)) => (SubSeq(log[r], 1, MinOf({Len(committed), Len(log[r])})) = committed)))

\* Every member of the maximal ISR holds durably what lies below the leader's HW.
ValidHighWatermark ==
    (\A lead \in Replica : (\A m \in Replica : (((Leads(lead) /\ (IF (m \in view[lead].isr) THEN TRUE ELSE (((pending[lead] = m) /\ (change # None)) /\ ((change.who = m) /\ (change.run = run[m]))))) /\ (((tail[m] = "clean") /\ (view[lead].runs[m] = run[m])) /\ TRUE)) => (hw[lead] <= synced[m]))))

\* Two logs agree below the HW of both.
LogMatching ==
    (\A a \in Replica : (\A b \in Replica : (SubSeq(log[a], 1, MinOf({MinOf({hw[a], hw[b]}), Len(log[a])})) = SubSeq(log[b], 1, MinOf({MinOf({hw[a], hw[b]}), Len(log[b])})))))

\* What is visible is what was committed, and is not cut (R3, R6).
ConsistentRead ==
    (\A r \in Replica : ((hw[r] <= Len(log[r])) /\ (SubSeq(log[r], 1, MinOf({hw[r], Len(log[r])})) = SubSeq(committed, 1, MinOf({hw[r], Len(committed)})))))

\* R12.
LeaderInIsr ==
    (\A r \in Replica : ((now.leader = r) => (r \in now.isr)))

\* R1: one run leads an epoch, and what an epoch has at an offset is one record.
OneLeaderPerEpoch ==
    ((\A a \in Replica : (\A b \in Replica : (((Leads(a) /\ Leads(b)) /\ (a # b)) => (view[a].epoch # view[b].epoch)))) /\ (\A a \in Replica : (\A b \in Replica : (\A i \in (0)..(Records - 1) : ((((i < Len(log[a])) /\ (i < Len(log[b]))) /\ (log[a][i + 1].epoch = log[b][i + 1].epoch)) => (log[a][i + 1].run = log[b][i + 1].run))))))

==============================================================================
