------------------- MODULE IsrStepsRightKeepsNoneNoneNone --------------------

\* See the module's text.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Replica, Replicas, Minimum, Records, Epochs, Changes, Crashes, Damages, Mail, Confessions

VARIABLES
    now, index, eligible, known, change, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, mail, told, minimum_now, minimum_of, minimum_news

vars == <<now, index, eligible, known, change, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, mail, told, minimum_now, minimum_of, minimum_news>>

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
    /\ here \in [Replica -> BOOLEAN]
    /\ barred \in [Replica -> (0..Epochs)]
    /\ remembered \in [Replica -> (0..Records)]
    /\ ((DOMAIN former = Replica) /\ (\A x \in Replica : (\A x2 \in former[x] : ((DOMAIN x2 = {"log", "synced", "cut"}) /\ ((x2.log \in Seq([epoch: (0..Epochs), run: (0..Crashes)])) /\ (Len(x2.log) <= Records)) /\ x2.synced \in (0..Records) /\ x2.cut \in (0..Records)))))
    /\ (\A x \in mail : ((DOMAIN x = {"kind", "follower", "leader", "epoch", "run", "at", "last", "to", "entries", "hw"}) /\ x.kind \in {"report", "records", "cut", "start"} /\ x.follower \in Replica /\ x.leader \in Replica /\ x.epoch \in (0..Epochs) /\ x.run \in (0..Crashes) /\ x.at \in (0..Records) /\ x.last \in (0..Epochs) /\ x.to \in (0..Records) /\ ((x.entries \in Seq([epoch: (0..Epochs), run: (0..Crashes)])) /\ (Len(x.entries) <= Records)) /\ x.hw \in (0..Records)))
    /\ told \in SUBSET [who: Replica, run: (0..Crashes), epoch: (0..Epochs), leo: (0..Records), less: BOOLEAN]
    /\ minimum_now \in (0..Replicas)
    /\ minimum_of \in [Replica -> (0..Replicas)]
    /\ minimum_news \in [(0..Changes) -> ((0..Replicas) \cup {None})]

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

\* One change at a time; on whatever it believes.
MayPropose(lead) ==
    (Leads(lead) /\ (pending[lead] = None))

Init ==
    /\ now = [leader |-> None, epoch |-> 0, version |-> 0, isr |-> Replica, runs |-> [x \in Replica |-> 0], live |-> Replica]
    /\ index = 0
    /\ eligible = {}
    /\ known = [x \in Replica |-> None]
    /\ change = None
    /\ elected = "isr"
    /\ news = [x \in (0..Changes) |-> None]
    /\ up = [x \in Replica |-> FALSE]
    /\ tail = [x \in Replica |-> "clean"]
    /\ run = [x \in Replica |-> 0]
    /\ log = [x \in Replica |-> <<>>]
    /\ synced = [x \in Replica |-> 0]
    /\ found = [x \in Replica |-> 0]
    /\ hw = [x \in Replica |-> 0]
    /\ applied = [x \in Replica |-> 0]
    /\ view = [x \in Replica |-> [leader |-> None, epoch |-> 0, version |-> 0, isr |-> Replica, runs |-> [x2 \in Replica |-> 0], live |-> Replica]]
    /\ first = [x \in Replica |-> 0]
    /\ progress = [x \in Replica |-> [x2 \in Replica |-> -1]]
    /\ pending = [x \in Replica |-> None]
    /\ crashes = 0
    /\ damages = 0
    /\ committed = <<>>
    /\ here = [x \in Replica |-> TRUE]
    /\ barred = [x \in Replica |-> 0]
    /\ remembered = [x \in Replica |-> 0]
    /\ former = [x \in Replica |-> {}]
    /\ mail = {}
    /\ told = {}
    /\ minimum_now = 0
    /\ minimum_of = [x \in Replica |-> 0]
    /\ minimum_news = [x \in (0..Changes) |-> None]

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
    /\ UNCHANGED <<eligible, known, elected, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, mail, told, minimum_now, minimum_of, minimum_news>>

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
    /\ UNCHANGED <<elected, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, mail, told, minimum_now, minimum_of, minimum_news>>

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
    /\ UNCHANGED <<elected, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, mail, told, minimum_now, minimum_of, minimum_news>>

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
    /\ UNCHANGED <<elected, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, mail, told, minimum_now, minimum_of, minimum_news>>

ExpireOutsider(r) ==
    /\ (r \in now.live)
    /\ ~((r \in now.isr))
    /\ (index < Changes)
    /\ now' = [leader |-> now.leader, epoch |-> now.epoch, version |-> (IF FALSE THEN (now.version + 1) ELSE now.version), isr |-> now.isr, runs |-> now.runs, live |-> (now.live \ {r})]
    /\ index' = (index + 1)
    /\ news' = [news EXCEPT ![(index + 1)] = [leader |-> now.leader, epoch |-> now.epoch, version |-> (IF FALSE THEN (now.version + 1) ELSE now.version), isr |-> now.isr, runs |-> now.runs, live |-> (now.live \ {r})]]
    /\ change' = (IF FALSE THEN None ELSE change)
    /\ UNCHANGED <<eligible, known, elected, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, mail, told, minimum_now, minimum_of, minimum_news>>

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
    /\ UNCHANGED <<eligible, known, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, mail, told, minimum_now, minimum_of, minimum_news>>

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
    /\ UNCHANGED <<known, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, mail, told, minimum_now, minimum_of, minimum_news>>

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
    /\ UNCHANGED <<eligible, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, mail, told, minimum_now, minimum_of, minimum_news>>

\* R1: no leadership of the old run lasts.
Register(r) ==
    /\ ~(here[r])
    /\ ~Doubtful(r)
    /\ (index < Changes)
    /\ known' = [known EXCEPT ![r] = (IF ((known[r] # None) /\ ~(known[r].lost)) THEN [epoch |-> (IF (Len(log[r]) = 0) THEN 0 ELSE log[r][(Len(log[r]) - 1) + 1].epoch), leo |-> Len(log[r]), lost |-> FALSE] ELSE known[r])]
    /\ now' = [leader |-> (IF (now.leader = r) THEN None ELSE now.leader), epoch |-> now.epoch, version |-> (IF (now.leader = r) THEN (now.version + 1) ELSE now.version), isr |-> now.isr, runs |-> [o \in Replica |-> (IF (o = r) THEN (run[r] + 1) ELSE now.runs[o])], live |-> (now.live \ {r})]
    /\ index' = (index + 1)
    /\ news' = [news EXCEPT ![(index + 1)] = [leader |-> (IF (now.leader = r) THEN None ELSE now.leader), epoch |-> now.epoch, version |-> (IF (now.leader = r) THEN (now.version + 1) ELSE now.version), isr |-> now.isr, runs |-> [o \in Replica |-> (IF (o = r) THEN (run[r] + 1) ELSE now.runs[o])], live |-> (now.live \ {r})]]
    /\ change' = (IF (now.leader = r) THEN None ELSE change)
    /\ here' = [here EXCEPT ![r] = TRUE]
    /\ run' = [run EXCEPT ![r] = (run[r] + 1)]
    /\ tail' = [tail EXCEPT ![r] = "clean"]
    /\ view' = [view EXCEPT ![r] = [leader |-> (IF (now.leader = r) THEN None ELSE now.leader), epoch |-> now.epoch, version |-> (IF (now.leader = r) THEN (now.version + 1) ELSE now.version), isr |-> now.isr, runs |-> [o \in Replica |-> (IF (o = r) THEN (run[r] + 1) ELSE now.runs[o])], live |-> (now.live \ {r})]]
    /\ applied' = [applied EXCEPT ![r] = (index + 1)]
    /\ UNCHANGED <<eligible, elected, up, log, synced, found, hw, first, progress, pending, crashes, damages, committed, barred, remembered, former, mail, told, minimum_now, minimum_of, minimum_news>>

\* I2, R14: it leaves ISR and eligible in the same command, and what it still has is remembered.
RegisterAfterDamage(r) ==
    /\ ~(here[r])
    /\ Doubtful(r)
    /\ (index < Changes)
    /\ eligible' = (IF ((((r \in now.isr) \/ (r \in eligible)) \/ (known[r] # None)) /\ (Minimum <= Cardinality((now.isr \ {r})))) THEN {} ELSE (eligible \ {r}))
    /\ known' = [o \in Replica |-> (IF ((((r \in now.isr) \/ (r \in eligible)) \/ (known[r] # None)) /\ (Minimum <= Cardinality((now.isr \ {r})))) THEN None ELSE (IF ((o = r) /\ (((r \in now.isr) \/ (r \in eligible)) \/ (known[r] # None))) THEN [epoch |-> (IF (Len(log[r]) = 0) THEN 0 ELSE log[r][(Len(log[r]) - 1) + 1].epoch), leo |-> Len(log[r]), lost |-> (IF (tail[r] = "wiped") THEN TRUE ELSE ((known[r] # None) /\ known[r].lost))] ELSE known[o]))]
    /\ now' = [leader |-> (IF (now.leader = r) THEN None ELSE now.leader), epoch |-> now.epoch, version |-> (IF (((r \in now.isr) \/ (r \in eligible)) \/ (known[r] # None)) THEN (now.version + 1) ELSE now.version), isr |-> (now.isr \ {r}), runs |-> [o \in Replica |-> (IF (o = r) THEN (run[r] + 1) ELSE now.runs[o])], live |-> (now.live \ {r})]
    /\ index' = (index + 1)
    /\ news' = [news EXCEPT ![(index + 1)] = [leader |-> (IF (now.leader = r) THEN None ELSE now.leader), epoch |-> now.epoch, version |-> (IF (((r \in now.isr) \/ (r \in eligible)) \/ (known[r] # None)) THEN (now.version + 1) ELSE now.version), isr |-> (now.isr \ {r}), runs |-> [o \in Replica |-> (IF (o = r) THEN (run[r] + 1) ELSE now.runs[o])], live |-> (now.live \ {r})]]
    /\ change' = (IF (((r \in now.isr) \/ (r \in eligible)) \/ (known[r] # None)) THEN None ELSE change)
    /\ here' = [here EXCEPT ![r] = TRUE]
    /\ run' = [run EXCEPT ![r] = (run[r] + 1)]
    /\ tail' = [tail EXCEPT ![r] = "clean"]
    /\ view' = [view EXCEPT ![r] = [leader |-> (IF (now.leader = r) THEN None ELSE now.leader), epoch |-> now.epoch, version |-> (IF (((r \in now.isr) \/ (r \in eligible)) \/ (known[r] # None)) THEN (now.version + 1) ELSE now.version), isr |-> (now.isr \ {r}), runs |-> [o \in Replica |-> (IF (o = r) THEN (run[r] + 1) ELSE now.runs[o])], live |-> (now.live \ {r})]]
    /\ applied' = [applied EXCEPT ![r] = (index + 1)]
    /\ UNCHANGED <<elected, up, log, synced, found, hw, first, progress, pending, crashes, damages, committed, barred, remembered, former, mail, told, minimum_now, minimum_of, minimum_news>>

\* R1: the leader gives offsets, and its epoch and run to each record.
Write(r) ==
    /\ Leads(r)
    /\ (Len(log[r]) < Records)
    /\ log' = [log EXCEPT ![r] = Append(log[r], [epoch |-> view[r].epoch, run |-> run[r]])]
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, mail, told, minimum_now, minimum_of, minimum_news>>

\* R2: the HW is what the maximal ISR has durably, if the committed ISR has its minimum.
Commit(r) ==
    /\ Leads(r)
    /\ (Minimum <= Cardinality(view[r].isr))
    /\ (hw[r] < MinOf({(IF ((m = r) \/ ~(((m \in view[r].isr) \/ (pending[r] = m)))) THEN Claimed(r) ELSE progress[r][m]) : m \in Replica}))
    /\ hw' = [hw EXCEPT ![r] = MinOf({(IF ((m = r) \/ ~(((m \in view[r].isr) \/ (pending[r] = m)))) THEN Claimed(r) ELSE progress[r][m]) : m \in Replica})]
    /\ committed' = (IF (Len(committed) < MinOf({(IF ((m = r) \/ ~(((m \in view[r].isr) \/ (pending[r] = m)))) THEN Claimed(r) ELSE progress[r][m]) : m \in Replica})) THEN SubSeq(log[r], 1, MinOf({MinOf({(IF ((m = r) \/ ~(((m \in view[r].isr) \/ (pending[r] = m)))) THEN Claimed(r) ELSE progress[r][m]) : m \in Replica}), Len(log[r])})) ELSE committed)
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, log, synced, found, applied, view, first, progress, pending, crashes, damages, here, barred, remembered, former, mail, told, minimum_now, minimum_of, minimum_news>>

\* R2, R9: a change within the epoch; it ends what was pending if the version has passed it.
ApplyInEpoch(r) ==
    /\ here[r]
    /\ (applied[r] < index)
    /\ (news[(applied[r] + 1)].epoch = view[r].epoch)
    /\ applied' = [applied EXCEPT ![r] = (applied[r] + 1)]
    /\ view' = [view EXCEPT ![r] = news[(applied[r] + 1)]]
    /\ pending' = [pending EXCEPT ![r] = (IF (view[r].version < news[(applied[r] + 1)].version) THEN None ELSE pending[r])]
    /\ progress' = [progress EXCEPT ![r] = [o \in Replica |-> (IF (news[(applied[r] + 1)].runs[o] # view[r].runs[o]) THEN -1 ELSE progress[r][o])]]
    /\ news' = [news EXCEPT ![(applied[r] + 1)] = (IF (\A o \in Replica : (((o = r) \/ ~(here[o])) \/ ((applied[r] + 1) <= applied[o]))) THEN None ELSE news[(applied[r] + 1)])]
    /\ UNCHANGED <<now, index, eligible, known, change, elected, up, tail, run, log, synced, found, hw, first, crashes, damages, committed, here, barred, remembered, former, mail, told, minimum_now, minimum_of, minimum_news>>

\* R1: another epoch, in which nothing is known of anybody.
ApplyNewEpoch(r) ==
    /\ here[r]
    /\ (applied[r] < index)
    /\ (view[r].epoch < news[(applied[r] + 1)].epoch)
    /\ applied' = [applied EXCEPT ![r] = (applied[r] + 1)]
    /\ view' = [view EXCEPT ![r] = news[(applied[r] + 1)]]
    /\ pending' = [pending EXCEPT ![r] = None]
    /\ progress' = [progress EXCEPT ![r] = [x \in Replica |-> -1]]
    /\ first' = [first EXCEPT ![r] = (IF (news[(applied[r] + 1)].leader = r) THEN Len(log[r]) ELSE 0)]
    /\ news' = [news EXCEPT ![(applied[r] + 1)] = (IF (\A o \in Replica : (((o = r) \/ ~(here[o])) \/ ((applied[r] + 1) <= applied[o]))) THEN None ELSE news[(applied[r] + 1)])]
    /\ UNCHANGED <<now, index, eligible, known, change, elected, up, tail, run, log, synced, found, hw, crashes, damages, committed, here, barred, remembered, former, mail, told, minimum_now, minimum_of, minimum_news>>

\* R10: durably at the HW and at the epoch's start, and live.
ProposeAddition(lead, who) ==
    /\ MayPropose(lead)
    /\ ~((who \in view[lead].isr))
    /\ (who \in view[lead].live)
    /\ (hw[lead] <= progress[lead][who])
    /\ (first[lead] <= progress[lead][who])
    /\ pending' = [pending EXCEPT ![lead] = who]
    /\ change' = (IF (view[lead].version = now.version) THEN [who |-> who, joins |-> TRUE, run |-> view[lead].runs[who]] ELSE change)
    /\ UNCHANGED <<now, index, eligible, known, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, progress, crashes, damages, committed, here, barred, remembered, former, mail, told, minimum_now, minimum_of, minimum_news>>

\* R11: some member is not known to have everything.
ProposeRemoval(lead, who) ==
    /\ MayPropose(lead)
    /\ (lead # who)
    /\ (who \in view[lead].isr)
    /\ (progress[lead][who] < Len(log[lead]))
    /\ pending' = [pending EXCEPT ![lead] = who]
    /\ change' = (IF (view[lead].version = now.version) THEN [who |-> who, joins |-> FALSE, run |-> view[lead].runs[who]] ELSE change)
    /\ UNCHANGED <<now, index, eligible, known, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, progress, crashes, damages, committed, here, barred, remembered, former, mail, told, minimum_now, minimum_of, minimum_news>>

\* What was durable is found, and any part of the rest.
Crash(r, keep) ==
    /\ (synced[r] <= keep)
    /\ (keep <= Len(log[r]))
    /\ TRUE
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
    /\ here' = [here EXCEPT ![r] = FALSE]
    /\ remembered' = [remembered EXCEPT ![r] = (IF FALSE THEN 0 ELSE MaxOf({remembered[r], hw[r]}))]
    /\ former' = [former EXCEPT ![r] = {}]
    /\ barred' = [barred EXCEPT ![r] = 0]
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, run, found, damages, committed, mail, told, minimum_now, minimum_of, minimum_news>>

\* R14: bad bytes at the end: never synced, or synced and damaged since.
CrashWithTornTail(r, keep) ==
    /\ (keep < Len(log[r]))
    /\ ((damages + (IF (keep < synced[r]) THEN 1 ELSE 0)) <= Damages)
    /\ TRUE
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
    /\ here' = [here EXCEPT ![r] = FALSE]
    /\ remembered' = [remembered EXCEPT ![r] = (IF FALSE THEN 0 ELSE MaxOf({remembered[r], hw[r]}))]
    /\ former' = [former EXCEPT ![r] = {}]
    /\ barred' = [barred EXCEPT ![r] = 0]
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, run, found, committed, mail, told, minimum_now, minimum_of, minimum_news>>

\* I2.
LoseDisk(r) ==
    /\ (damages < Damages)
    /\ TRUE
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
    /\ here' = [here EXCEPT ![r] = FALSE]
    /\ remembered' = [remembered EXCEPT ![r] = (IF TRUE THEN 0 ELSE MaxOf({remembered[r], hw[r]}))]
    /\ former' = [former EXCEPT ![r] = {}]
    /\ barred' = [barred EXCEPT ![r] = 0]
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, run, found, committed, mail, told, minimum_now, minimum_of, minimum_news>>

\* R12: at its creation it is not live. The first ISR are those that are, or all if none is.
IsAbsent(r) ==
    /\ (index = 0)
    /\ (r \in now.live)
    /\ (\A o \in Replica : ~(up[o]))
    /\ now' = [leader |-> None, epoch |-> 0, version |-> 0, isr |-> (IF ((now.live \ {r}) = {}) THEN Replica ELSE (now.live \ {r})), runs |-> now.runs, live |-> (now.live \ {r})]
    /\ view' = [o \in Replica |-> (IF here[o] THEN [leader |-> None, epoch |-> 0, version |-> 0, isr |-> (IF ((now.live \ {r}) = {}) THEN Replica ELSE (now.live \ {r})), runs |-> now.runs, live |-> (now.live \ {r})] ELSE view[o])]
    /\ UNCHANGED <<index, eligible, known, change, elected, news, up, tail, run, log, synced, found, hw, applied, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, mail, told, minimum_now, minimum_of, minimum_news>>

\* R5: all of it, and what was cut is gone for good.
Sync(r) ==
    /\ up[r]
    /\ ((synced[r] < Len(log[r])) \/ (former[r] # {}))
    /\ synced' = [synced EXCEPT ![r] = Len(log[r])]
    /\ former' = [former EXCEPT ![r] = {}]
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, log, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, mail, told, minimum_now, minimum_of, minimum_news>>

\* A part of it. Disks work in order: what comes after a cut is synced after it.
SyncSome(r, to) ==
    /\ up[r]
    /\ (synced[r] < to)
    /\ (to <= Len(log[r]))
    /\ synced' = [synced EXCEPT ![r] = to]
    /\ former' = [former EXCEPT ![r] = {old \in former[r] : (to <= old.cut)}]
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, log, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, mail, told, minimum_now, minimum_of, minimum_news>>

\* R6: an answer to an older question is not used. R7: the question tells what is durable.
Ask(f, to) ==
    /\ up[f]
    /\ (view[f].leader # None)
    /\ (view[f].leader # f)
    /\ (to <= Claimed(f))
    /\ (Cardinality({m \in mail : ((m.follower # f) \/ (m.kind = "report"))}) < Mail)
    /\ mail' = ({m \in mail : ((m.follower # f) \/ (m.kind = "report"))} \cup {[kind |-> "report", follower |-> f, leader |-> view[f].leader, epoch |-> view[f].epoch, run |-> run[f], at |-> Len(log[f]), last |-> (IF (Len(log[f]) = 0) THEN 0 ELSE log[f][(Len(log[f]) - 1) + 1].epoch), to |-> to, entries |-> <<>>, hw |-> 0]})
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, told, minimum_now, minimum_of, minimum_news>>

\* R7: what is durable, between two questions.
Tell(f, to) ==
    /\ up[f]
    /\ (view[f].leader # None)
    /\ (view[f].leader # f)
    /\ (to <= Claimed(f))
    /\ (Cardinality(mail) < Mail)
    /\ mail' = (mail \cup {[kind |-> "report", follower |-> f, leader |-> view[f].leader, epoch |-> view[f].epoch, run |-> run[f], at |-> Len(log[f]), last |-> (IF (Len(log[f]) = 0) THEN 0 ELSE log[f][(Len(log[f]) - 1) + 1].epoch), to |-> to, entries |-> <<>>, hw |-> 0]})
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, told, minimum_now, minimum_of, minimum_news>>

IsLost ==
    /\ \E chosen \in mail :
        /\ mail' = (mail \ {chosen})
        /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, told, minimum_now, minimum_of, minimum_news>>

\* R2: of this epoch and of the registered run, from a log that is a prefix of the leader's.
ReportArrives(lead) ==
    /\ \E chosen \in mail :
        /\ (chosen.kind = "report")
        /\ (chosen.leader = lead)
        /\ Leads(lead)
        /\ (view[lead].epoch = chosen.epoch)
        /\ (view[lead].runs[chosen.follower] = chosen.run)
        /\ (chosen.at <= Len(log[lead]))
        /\ ((IF (chosen.at = 0) THEN 0 ELSE log[lead][(chosen.at - 1) + 1].epoch) = chosen.last)
        /\ (progress[lead][chosen.follower] < chosen.to)
        /\ progress' = [progress EXCEPT ![lead] = [progress[lead] EXCEPT ![chosen.follower] = chosen.to]]
        /\ mail' = (mail \ {chosen})
        /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, pending, crashes, damages, committed, here, barred, remembered, former, told, minimum_now, minimum_of, minimum_news>>

\* The records up to `end`, and the HW.
Answer(f, lead, end) ==
    /\ (f # lead)
    /\ Follows(f, lead)
    /\ Agrees(f, lead)
    /\ (Len(log[f]) <= end)
    /\ (end <= Len(log[lead]))
    /\ (Cardinality(mail) < Mail)
    /\ mail' = (mail \cup {[kind |-> "records", follower |-> f, leader |-> lead, epoch |-> view[f].epoch, run |-> run[f], at |-> Len(log[f]), last |-> (IF (Len(log[f]) = 0) THEN 0 ELSE log[f][(Len(log[f]) - 1) + 1].epoch), to |-> 0, entries |-> SubSeq(SubSeq(log[lead], 1, MinOf({end, Len(log[lead])})), Len(log[f]) + 1, Len(SubSeq(log[lead], 1, MinOf({end, Len(log[lead])})))), hw |-> hw[lead]]})
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, told, minimum_now, minimum_of, minimum_news>>

\* The logs have parted.
AnswerWithCut(f, lead) ==
    /\ (f # lead)
    /\ Follows(f, lead)
    /\ ~Agrees(f, lead)
    /\ (Cardinality(mail) < Mail)
    /\ mail' = (mail \cup {[kind |-> "cut", follower |-> f, leader |-> lead, epoch |-> view[f].epoch, run |-> run[f], at |-> Len(log[f]), last |-> (IF (Len(log[f]) = 0) THEN 0 ELSE log[f][(Len(log[f]) - 1) + 1].epoch), to |-> CutAt(f, lead), entries |-> <<>>, hw |-> 0]})
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, told, minimum_now, minimum_of, minimum_news>>

\* C3: what the logs share ends before the leader's log begins; all of that is committed.
AnswerWithStart(f, lead, start) ==
    /\ (f # lead)
    /\ Follows(f, lead)
    /\ (start <= hw[lead])
    /\ ((IF Agrees(f, lead) THEN Len(log[f]) ELSE CutAt(f, lead)) < start)
    /\ (Cardinality(mail) < Mail)
    /\ mail' = (mail \cup {[kind |-> "start", follower |-> f, leader |-> lead, epoch |-> view[f].epoch, run |-> run[f], at |-> Len(log[f]), last |-> (IF (Len(log[f]) = 0) THEN 0 ELSE log[f][(Len(log[f]) - 1) + 1].epoch), to |-> start, entries |-> SubSeq(log[lead], 1, MinOf({start, Len(log[lead])})), hw |-> 0]})
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, told, minimum_now, minimum_of, minimum_news>>

\* R8: append what has arrived whole, and learn the HW.
RecordsArrive(f, end) ==
    /\ \E chosen \in mail :
        /\ (chosen.kind = "records")
        /\ Answers(chosen, f)
        /\ (chosen.at <= end)
        /\ (end <= (chosen.at + Len(chosen.entries)))
        /\ log' = [log EXCEPT ![f] = (log[f] \o SubSeq(chosen.entries, 1, MinOf({(end - chosen.at), Len(chosen.entries)})))]
        /\ hw' = [hw EXCEPT ![f] = MaxOf({hw[f], MinOf({chosen.hw, end})})]
        /\ mail' = (mail \ {chosen})
        /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, synced, found, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, told, minimum_now, minimum_of, minimum_news>>

\* Below the HW nothing is cut, unless an operator has agreed to lose it.
CutArrives(f) ==
    /\ \E chosen \in mail :
        /\ (chosen.kind = "cut")
        /\ Answers(chosen, f)
        /\ (chosen.to < Len(log[f]))
        /\ former' = [former EXCEPT ![f] = (former[f] \cup {[log |-> log[f], synced |-> synced[f], cut |-> chosen.to]})]
        /\ log' = [log EXCEPT ![f] = SubSeq(log[f], 1, MinOf({chosen.to, Len(log[f])}))]
        /\ synced' = [synced EXCEPT ![f] = MinOf({synced[f], chosen.to})]
        /\ found' = [found EXCEPT ![f] = MinOf({found[f], chosen.to})]
        /\ hw' = [hw EXCEPT ![f] = MinOf({hw[f], chosen.to})]
        /\ mail' = (mail \ {chosen})
        /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, told, minimum_now, minimum_of, minimum_news>>

\* C3: it forgets what it has, and goes on where the leader's log begins.
StartArrives(f) ==
    /\ \E chosen \in mail :
        /\ (chosen.kind = "start")
        /\ Answers(chosen, f)
        /\ former' = [former EXCEPT ![f] = (former[f] \cup {[log |-> log[f], synced |-> synced[f], cut |-> 0]})]
        /\ log' = [log EXCEPT ![f] = chosen.entries]
        /\ synced' = [synced EXCEPT ![f] = MinOf({synced[f], chosen.to})]
        /\ hw' = [hw EXCEPT ![f] = chosen.to]
        /\ mail' = (mail \ {chosen})
        /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, found, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, told, minimum_now, minimum_of, minimum_news>>

\* R14: the end looks torn although nothing is missing, or there is damage in the middle.
CrashWithDoubt(r) ==
    /\ TRUE
    /\ (crashes < Crashes)
    /\ crashes' = (crashes + 1)
    /\ up' = [up EXCEPT ![r] = FALSE]
    /\ tail' = [tail EXCEPT ![r] = "suspect"]
    /\ log' = [log EXCEPT ![r] = SubSeq(log[r], 1, MinOf({Len(log[r]), Len(log[r])}))]
    /\ synced' = [synced EXCEPT ![r] = Len(log[r])]
    /\ hw' = [hw EXCEPT ![r] = 0]
    /\ view' = [view EXCEPT ![r] = [leader |-> None, epoch |-> 0, version |-> 0, isr |-> {}, runs |-> [x \in Replica |-> 0], live |-> {}]]
    /\ applied' = [applied EXCEPT ![r] = 0]
    /\ first' = [first EXCEPT ![r] = 0]
    /\ progress' = [progress EXCEPT ![r] = [x \in Replica |-> -1]]
    /\ pending' = [pending EXCEPT ![r] = None]
    /\ here' = [here EXCEPT ![r] = FALSE]
    /\ remembered' = [remembered EXCEPT ![r] = (IF FALSE THEN 0 ELSE MaxOf({remembered[r], hw[r]}))]
    /\ former' = [former EXCEPT ![r] = {}]
    /\ barred' = [barred EXCEPT ![r] = 0]
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, run, found, damages, committed, mail, told, minimum_now, minimum_of, minimum_news>>

\* A cut that was not durable is undone, or done in part.
CrashBeforeCut(r, keep, tail2) ==
    /\ \E chosen \in former[r] :
        /\ (tail2 # "wiped")
        /\ ((tail2 = "suspect") \/ (MinOf({MaxOf({chosen.synced, synced[r]}), chosen.cut}) <= keep))
        /\ (keep <= Len(chosen.log))
        /\ ((damages + (IF (keep < MinOf({MaxOf({chosen.synced, synced[r]}), chosen.cut})) THEN 1 ELSE 0)) <= Damages)
        /\ TRUE
        /\ (crashes < Crashes)
        /\ damages' = (damages + (IF (keep < MinOf({MaxOf({chosen.synced, synced[r]}), chosen.cut})) THEN 1 ELSE 0))
        /\ crashes' = (crashes + 1)
        /\ up' = [up EXCEPT ![r] = FALSE]
        /\ tail' = [tail EXCEPT ![r] = tail2]
        /\ log' = [log EXCEPT ![r] = SubSeq(chosen.log, 1, MinOf({keep, Len(chosen.log)}))]
        /\ synced' = [synced EXCEPT ![r] = keep]
        /\ hw' = [hw EXCEPT ![r] = 0]
        /\ view' = [view EXCEPT ![r] = [leader |-> None, epoch |-> 0, version |-> 0, isr |-> {}, runs |-> [x \in Replica |-> 0], live |-> {}]]
        /\ applied' = [applied EXCEPT ![r] = 0]
        /\ first' = [first EXCEPT ![r] = 0]
        /\ progress' = [progress EXCEPT ![r] = [x \in Replica |-> -1]]
        /\ pending' = [pending EXCEPT ![r] = None]
        /\ here' = [here EXCEPT ![r] = FALSE]
        /\ remembered' = [remembered EXCEPT ![r] = (IF (tail2 = "wiped") THEN 0 ELSE MaxOf({remembered[r], hw[r]}))]
        /\ former' = [former EXCEPT ![r] = {}]
        /\ barred' = [barred EXCEPT ![r] = 0]
        /\ UNCHANGED <<now, index, eligible, known, change, elected, news, run, found, committed, mail, told, minimum_now, minimum_of, minimum_news>>

\* I2, R15: its run is on its disk, or it is back after its session had expired.
Confirm(r) ==
    /\ ~((r \in now.live))
    /\ (index < Changes)
    /\ now' = [leader |-> now.leader, epoch |-> now.epoch, version |-> (IF FALSE THEN (now.version + 1) ELSE now.version), isr |-> now.isr, runs |-> now.runs, live |-> (now.live \cup {r})]
    /\ index' = (index + 1)
    /\ news' = [news EXCEPT ![(index + 1)] = [leader |-> now.leader, epoch |-> now.epoch, version |-> (IF FALSE THEN (now.version + 1) ELSE now.version), isr |-> now.isr, runs |-> now.runs, live |-> (now.live \cup {r})]]
    /\ change' = (IF FALSE THEN None ELSE change)
    /\ UNCHANGED <<eligible, known, elected, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, mail, told, minimum_now, minimum_of, minimum_news>>

\* R1: it takes part from now on, with the HW that it remembers.
Open(r, hw2) ==
    /\ here[r]
    /\ ~(up[r])
    /\ (tail[r] = "clean")
    /\ (hw2 <= remembered[r])
    /\ (hw2 <= Len(log[r]))
    /\ ((view[r].leader = r) => (barred[r] < view[r].epoch))
    /\ up' = [up EXCEPT ![r] = TRUE]
    /\ hw' = [hw EXCEPT ![r] = hw2]
    /\ pending' = [pending EXCEPT ![r] = None]
    /\ progress' = [progress EXCEPT ![r] = [x \in Replica |-> -1]]
    /\ first' = [first EXCEPT ![r] = (IF (view[r].leader = r) THEN Len(log[r]) ELSE 0)]
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, tail, run, log, synced, found, applied, view, crashes, damages, committed, here, barred, remembered, former, mail, told, minimum_now, minimum_of, minimum_news>>

\* The replica stops. Another leadership of this epoch could rewrite what the last one sent.
LogFails(r) ==
    /\ up[r]
    /\ (crashes < Crashes)
    /\ crashes' = (crashes + 1)
    /\ up' = [up EXCEPT ![r] = FALSE]
    /\ remembered' = [remembered EXCEPT ![r] = MaxOf({remembered[r], hw[r]})]
    /\ hw' = [hw EXCEPT ![r] = 0]
    /\ barred' = [barred EXCEPT ![r] = view[r].epoch]
    /\ pending' = [pending EXCEPT ![r] = None]
    /\ progress' = [progress EXCEPT ![r] = [x \in Replica |-> -1]]
    /\ first' = [first EXCEPT ![r] = 0]
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, tail, run, log, synced, found, applied, view, damages, committed, here, former, mail, told, minimum_now, minimum_of, minimum_news>>

\* In a new file, with what was durable, and perhaps more.
LogIsBack(r, keep) ==
    /\ here[r]
    /\ ~(up[r])
    /\ (synced[r] <= keep)
    /\ (keep <= Len(log[r]))
    /\ (((keep < Len(log[r])) \/ (synced[r] < keep)) \/ (former[r] # {}))
    /\ log' = [log EXCEPT ![r] = SubSeq(log[r], 1, MinOf({keep, Len(log[r])}))]
    /\ synced' = [synced EXCEPT ![r] = keep]
    /\ former' = [former EXCEPT ![r] = {}]
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, mail, told, minimum_now, minimum_of, minimum_news>>

\* A cut, or a beginning anew, was not durable when the log failed: on the disk is the one before.
CutIsUndone(r, keep) ==
    /\ \E chosen \in former[r] :
        /\ here[r]
        /\ ~(up[r])
        /\ (MinOf({MaxOf({chosen.synced, synced[r]}), chosen.cut}) <= keep)
        /\ (keep <= Len(chosen.log))
        /\ log' = [log EXCEPT ![r] = chosen.log]
        /\ synced' = [synced EXCEPT ![r] = keep]
        /\ former' = [former EXCEPT ![r] = {}]
        /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, mail, told, minimum_now, minimum_of, minimum_news>>

\* D2: or with less. The group hears of that before anybody may count on this replica.
LogIsShort(r, keep) ==
    /\ here[r]
    /\ ~(up[r])
    /\ (keep < synced[r])
    /\ (damages < Damages)
    /\ (Cardinality(told) < Confessions)
    /\ damages' = (damages + 1)
    /\ log' = [log EXCEPT ![r] = SubSeq(log[r], 1, MinOf({keep, Len(log[r])}))]
    /\ synced' = [synced EXCEPT ![r] = keep]
    /\ former' = [former EXCEPT ![r] = {}]
    /\ tail' = [tail EXCEPT ![r] = "suspect"]
    /\ told' = (told \cup {[who |-> r, run |-> run[r], epoch |-> (IF (keep = 0) THEN 0 ELSE log[r][(keep - 1) + 1].epoch), leo |-> keep, less |-> TRUE]})
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, run, found, hw, applied, view, first, progress, pending, crashes, committed, here, barred, remembered, mail, minimum_now, minimum_of, minimum_news>>

\* It says what it has left: after a failure, or because a part of it is damaged.
Confess(r, leo, less) ==
    /\ here[r]
    /\ (leo = synced[r])
    /\ (Cardinality(told) < Confessions)
    /\ told' = (told \cup {[who |-> r, run |-> run[r], epoch |-> (IF (leo = 0) THEN 0 ELSE log[r][(leo - 1) + 1].epoch), leo |-> leo, less |-> less]})
    /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, mail, minimum_now, minimum_of, minimum_news>>

\* Or of the log before, if it began anew and does not know whether that is durable.
ConfessOfBefore(r, less) ==
    /\ \E chosen \in former[r] :
        /\ here[r]
        /\ (synced[r] <= Len(chosen.log))
        /\ (Cardinality(told) < Confessions)
        /\ told' = (told \cup {[who |-> r, run |-> run[r], epoch |-> (IF (synced[r] = 0) THEN 0 ELSE chosen.log[(synced[r] - 1) + 1].epoch), leo |-> synced[r], less |-> less]})
        /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, mail, minimum_now, minimum_of, minimum_news>>

\* R5, R14: it leaves ISR and eligible. If it has less than it said, nobody goes on counting that.
HearConfession(again) ==
    /\ \E chosen \in told :
        /\ (now.runs[chosen.who] = chosen.run)
        /\ (~(((chosen.less /\ (now.leader # None)) /\ (now.leader # chosen.who))) \/ (now.epoch < Epochs))
        /\ (index < Changes)
        /\ eligible' = (IF ((((chosen.who \in now.isr) \/ (chosen.who \in eligible)) \/ (known[chosen.who] # None)) /\ (Minimum <= Cardinality((now.isr \ {chosen.who})))) THEN {} ELSE (eligible \ {chosen.who}))
        /\ known' = [o \in Replica |-> (IF ((((chosen.who \in now.isr) \/ (chosen.who \in eligible)) \/ (known[chosen.who] # None)) /\ (Minimum <= Cardinality((now.isr \ {chosen.who})))) THEN None ELSE (IF ((o = chosen.who) /\ (((chosen.who \in now.isr) \/ (chosen.who \in eligible)) \/ (known[chosen.who] # None))) THEN [epoch |-> chosen.epoch, leo |-> chosen.leo, lost |-> ((known[chosen.who] # None) /\ known[chosen.who].lost)] ELSE known[o]))]
        /\ now' = [leader |-> (IF (now.leader = chosen.who) THEN None ELSE now.leader), epoch |-> (now.epoch + (IF ((chosen.less /\ (now.leader # None)) /\ (now.leader # chosen.who)) THEN 1 ELSE 0)), version |-> (IF TRUE THEN (now.version + 1) ELSE now.version), isr |-> (now.isr \ {chosen.who}), runs |-> now.runs, live |-> now.live]
        /\ index' = (index + 1)
        /\ news' = [news EXCEPT ![(index + 1)] = [leader |-> (IF (now.leader = chosen.who) THEN None ELSE now.leader), epoch |-> (now.epoch + (IF ((chosen.less /\ (now.leader # None)) /\ (now.leader # chosen.who)) THEN 1 ELSE 0)), version |-> (IF TRUE THEN (now.version + 1) ELSE now.version), isr |-> (now.isr \ {chosen.who}), runs |-> now.runs, live |-> now.live]]
        /\ change' = (IF TRUE THEN None ELSE change)
        /\ tail' = [tail EXCEPT ![chosen.who] = (IF (((chosen.less /\ (run[chosen.who] = chosen.run)) /\ (synced[chosen.who] = chosen.leo)) /\ here[chosen.who]) THEN "clean" ELSE tail[chosen.who])]
        /\ told' = (IF again THEN told ELSE (told \ {chosen}))
        /\ UNCHANGED <<elected, up, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, mail, minimum_now, minimum_of, minimum_news>>

\* Of a run that is over, say.
ConfessionIsLost ==
    /\ \E chosen \in told :
        /\ told' = (told \ {chosen})
        /\ UNCHANGED <<now, index, eligible, known, change, elected, news, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, mail, minimum_now, minimum_of, minimum_news>>

\* R15, R16: after reports of followers, a resignation, to spread leaders; perhaps the same again.
ElectAnother(to) ==
    /\ (now.leader # None)
    /\ (to \in now.isr)
    /\ (to \in now.live)
    /\ (now.epoch < Epochs)
    /\ (index < Changes)
    /\ elected' = "isr"
    /\ now' = [leader |-> to, epoch |-> (now.epoch + 1), version |-> (IF TRUE THEN (now.version + 1) ELSE now.version), isr |-> now.isr, runs |-> now.runs, live |-> now.live]
    /\ index' = (index + 1)
    /\ news' = [news EXCEPT ![(index + 1)] = [leader |-> to, epoch |-> (now.epoch + 1), version |-> (IF TRUE THEN (now.version + 1) ELSE now.version), isr |-> now.isr, runs |-> now.runs, live |-> now.live]]
    /\ change' = (IF TRUE THEN None ELSE change)
    /\ UNCHANGED <<eligible, known, up, tail, run, log, synced, found, hw, applied, view, first, progress, pending, crashes, damages, committed, here, barred, remembered, former, mail, told, minimum_now, minimum_of, minimum_news>>

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
    \/ \E r \in Replica : IsAbsent(r)
    \/ \E r \in Replica : Sync(r)
    \/ \E r \in Replica, to \in (0..Records) : SyncSome(r, to)
    \/ \E f \in Replica, to \in (0..Records) : Ask(f, to)
    \/ \E f \in Replica, to \in (0..Records) : Tell(f, to)
    \/ IsLost
    \/ \E lead \in Replica : ReportArrives(lead)
    \/ \E f \in Replica, lead \in Replica, end \in (0..Records) : Answer(f, lead, end)
    \/ \E f \in Replica, lead \in Replica : AnswerWithCut(f, lead)
    \/ \E f \in Replica, lead \in Replica, start \in (0..Records) : AnswerWithStart(f, lead, start)
    \/ \E f \in Replica, end \in (0..Records) : RecordsArrive(f, end)
    \/ \E f \in Replica : CutArrives(f)
    \/ \E f \in Replica : StartArrives(f)
    \/ \E r \in Replica : CrashWithDoubt(r)
    \/ \E r \in Replica, keep \in (0..Records), tail2 \in {"clean", "suspect", "wiped"} : CrashBeforeCut(r, keep, tail2)
    \/ \E r \in Replica : Confirm(r)
    \/ \E r \in Replica, hw2 \in (0..Records) : Open(r, hw2)
    \/ \E r \in Replica : LogFails(r)
    \/ \E r \in Replica, keep \in (0..Records) : LogIsBack(r, keep)
    \/ \E r \in Replica, keep \in (0..Records) : CutIsUndone(r, keep)
    \/ \E r \in Replica, keep \in (0..Records) : LogIsShort(r, keep)
    \/ \E r \in Replica, leo \in (0..Records), less \in BOOLEAN : Confess(r, leo, less)
    \/ \E r \in Replica, less \in BOOLEAN : ConfessOfBefore(r, less)
    \/ \E again \in BOOLEAN : HearConfession(again)
    \/ ConfessionIsLost
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
