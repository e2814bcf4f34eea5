--------------------------- MODULE CompactionRight ---------------------------

\* What a replica does with its own copy, and what must always be true.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Replica, Records, Given, Keys, Epochs, Shrinks, Wipes, Damages, Delays, Retains, Readers

VARIABLES
    newest, leaders, isr, epoch, log, leo, start, hw, clean, horizon, run, dropped, bad, answer, answer_dropped, known, strangers, shrinks, wipes, damages, delays, retains, late, readers, reader, truth, committed

vars == <<newest, leaders, isr, epoch, log, leo, start, hw, clean, horizon, run, dropped, bad, answer, answer_dropped, known, strangers, shrinks, wipes, damages, delays, retains, late, readers, reader, truth, committed>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ newest \in (0..Epochs)
    /\ leaders \in [(0..Epochs) -> (Replica \cup {None})]
    /\ isr \in SUBSET Replica
    /\ epoch \in [Replica -> (0..Epochs)]
    /\ log \in [Replica -> [(0..Records - 1) -> [epoch: (0..Epochs), key: (0..Keys - 1), deletes: BOOLEAN, there: BOOLEAN]]]
    /\ leo \in [Replica -> (0..Records)]
    /\ start \in [Replica -> (0..Records)]
    /\ hw \in [Replica -> (0..Records)]
    /\ clean \in [Replica -> (0..Records)]
    /\ horizon \in [Replica -> (0..Records)]
    /\ run \in [Replica -> ([base: (0..Records), end: (0..Records), done: (0..Records)] \cup {None})]
    /\ dropped \in [Replica -> (0..Records)]
    /\ bad \in [Replica -> ((0..Records - 1) \cup {None})]
    /\ answer \in [Replica -> ([epoch: (0..Epochs), key: (0..Keys - 1), deletes: BOOLEAN, there: BOOLEAN] \cup {None})]
    /\ answer_dropped \in [Replica -> (0..Records)]
    /\ known \in [Replica -> [Replica -> (0..Records)]]
    /\ strangers \in [Replica -> SUBSET Replica]
    /\ shrinks \in (0..Shrinks)
    /\ wipes \in (0..Wipes)
    /\ damages \in (0..Damages)
    /\ delays \in (0..Delays)
    /\ retains \in (0..Retains)
    /\ late \in ([follower: Replica, leader: Replica, epoch: (0..Epochs), clean: (0..Records)] \cup {None})
    /\ readers \in (0..Readers)
    /\ reader \in ([at: (0..Records), since: (0..Records), saw: ((0..Records) \cup {None})] \cup {None})
    /\ truth \in [(0..Records - 1) -> [epoch: (0..Epochs), key: (0..Keys - 1), deletes: BOOLEAN, there: BOOLEAN]]
    /\ committed \in (0..Records)

\* It believes so, rightly or not.
Leads(r) ==
    (leaders[epoch[r]] = r)

\* In the newest epoch.
TrulyLeads(r) ==
    ((epoch[r] = newest) /\ (leaders[newest] = r))

\* Both run in one epoch, and the leader knows this run of the follower (R6, I2).
Hears(lead, f) ==
    ((((lead # f) /\ Leads(lead)) /\ (epoch[lead] = epoch[f])) /\ ~((f \in strangers[lead])))

\* How far the two logs agree, by their epochs.
Agreed(f, lead) ==
    Cardinality({i \in (0)..(MinOf({leo[f], leo[lead]}) - 1) : (log[f][i].epoch = log[lead][i].epoch)})

\* The follower's log is a prefix of the leader's.
Agrees(f, lead) ==
    ((leo[f] <= leo[lead]) /\ (Agreed(f, lead) = leo[f]))

\* Up to where its copy has no damage.
Whole(f) ==
    (IF (bad[f] = None) THEN Records ELSE bad[f])

\* C2: the clean point that it may speak of.
Reported(f) ==
    MinOf({MinOf({clean[f], leo[f]}), Whole(f)})

\* Where in the leader's log the next thing to copy is.
NextOffset(f, lead) ==
    leo[f]

\* The copy has the committed record, or the place where it was.
Holds(r, i) ==
    (((i < committed) /\ (i < leo[r])) /\ (log[r][i].epoch = truth[i].epoch))

\* C2: a tombstone here that this run, and everybody, has long passed.
MayGo(r, i) ==
    ((log[r][i].there /\ log[r][i].deletes) /\ (i < MinOf({clean[r], horizon[r]})))

\* The map of the run knows a later record of the key.
Outdated(r, i) ==
    (\E j \in (MaxOf({run[r].base, (i + 1)}))..(run[r].end - 1) : (log[r][j].there /\ (log[r][j].key = log[r][i].key)))

KnownClean(lead, r) ==
    (IF (r = lead) THEN MinOf({clean[r], Whole(r)}) ELSE known[lead][r])

\* C4: since the reader began this copy may have lost tombstones that the reader has not reached.
CompactedPast(r) ==
    ((reader.since < dropped[r]) /\ (reader.at < dropped[r]))

\* No later committed record has its key.
Last(i) ==
    (\A j \in ((i + 1))..(committed - 1) : (truth[j].key # truth[i].key))

\* The copy has come past this committed offset, with its record or without.
Judged(r, i) ==
    ((Holds(r, i) /\ (start[r] <= i)) /\ (bad[r] # i))

\* The copy lacks a tombstone that is the last of its key.
Dropped(r, i) ==
    (((Judged(r, i) /\ truth[i].deletes) /\ Last(i)) /\ ~(log[r][i].there))

\* A committed record of the key before it.
HasOlder(r, i) ==
    (\E j \in (0)..(i - 1) : (((log[r][j].there /\ (bad[r] # j)) /\ (truth[j].key = truth[i].key)) /\ Holds(r, j)))

Init ==
    \E leader \in Replica :
        /\ newest = 1
        /\ leaders = [[x \in (0..Epochs) |-> None] EXCEPT ![1] = leader]
        /\ isr = Replica
        /\ epoch = [x \in Replica |-> 1]
        /\ log = [r \in Replica |-> [i \in (0..Records - 1) |-> [epoch |-> (IF (i < Given) THEN 1 ELSE 0), key |-> (IF ((i < Given) /\ (1 < i)) THEN (Keys - 1) ELSE 0), deletes |-> ((i < Given) /\ (i = 1)), there |-> (i < Given)]]]
        /\ leo = [r \in Replica |-> Given]
        /\ start = [x \in Replica |-> 0]
        /\ hw = [r \in Replica |-> Given]
        /\ clean = [x \in Replica |-> 0]
        /\ horizon = [x \in Replica |-> 0]
        /\ run = [x \in Replica |-> None]
        /\ dropped = [x \in Replica |-> 0]
        /\ bad = [x \in Replica |-> None]
        /\ answer = [x \in Replica |-> None]
        /\ answer_dropped = [x \in Replica |-> 0]
        /\ known = [x \in Replica |-> [x2 \in Replica |-> 0]]
        /\ strangers = [x \in Replica |-> {}]
        /\ shrinks = 0
        /\ wipes = 0
        /\ damages = 0
        /\ delays = 0
        /\ retains = 0
        /\ late = None
        /\ readers = 0
        /\ reader = None
        /\ truth = [i \in (0..Records - 1) |-> [epoch |-> (IF (i < Given) THEN 1 ELSE 0), key |-> (IF ((i < Given) /\ (1 < i)) THEN (Keys - 1) ELSE 0), deletes |-> ((i < Given) /\ (i = 1)), there |-> (i < Given)]]
        /\ committed = Given

Write(r, key, deletes) ==
    /\ Leads(r)
    /\ (leo[r] < Records)
    /\ log' = [log EXCEPT ![r] = [log[r] EXCEPT ![leo[r]] = [epoch |-> epoch[r], key |-> key, deletes |-> deletes, there |-> TRUE]]]
    /\ leo' = [leo EXCEPT ![r] = (leo[r] + 1)]
    /\ UNCHANGED <<newest, leaders, isr, epoch, start, hw, clean, horizon, run, dropped, bad, answer, answer_dropped, known, strangers, shrinks, wipes, damages, delays, retains, late, readers, reader, truth, committed>>

\* One offset, record or not (C5), the HW, the log start (C3) and the horizon; and the report (C2).
Fetch(f, lead) ==
    /\ (f # lead)
    /\ Hears(lead, f)
    /\ Agrees(f, lead)
    /\ (start[lead] <= leo[f])
    /\ ((NextOffset(f, lead) < leo[lead]) => (bad[lead] # NextOffset(f, lead)))
    /\ (IF ((NextOffset(f, lead) < leo[lead]) \/ (((hw[f] < MaxOf({hw[f], MinOf({hw[lead], (leo[f] + (IF (NextOffset(f, lead) < leo[lead]) THEN 1 ELSE 0))})})) \/ (start[f] < MaxOf({start[f], MinOf({start[lead], MaxOf({hw[f], MinOf({hw[lead], (leo[f] + (IF (NextOffset(f, lead) < leo[lead]) THEN 1 ELSE 0))})})})}))) \/ (horizon[f] < horizon[lead]))) THEN TRUE ELSE (Reported(f) # known[lead][f]))
    /\ log' = [log EXCEPT ![f] = [i \in (0..Records - 1) |-> [(IF ((NextOffset(f, lead) < leo[lead]) /\ (i = leo[f])) THEN log[lead][(IF ((NextOffset(f, lead) < leo[lead]) /\ (i = leo[f])) THEN NextOffset(f, lead) ELSE i)] ELSE log[f][i]) EXCEPT !.there = ((IF ((NextOffset(f, lead) < leo[lead]) /\ (i = leo[f])) THEN log[lead][(IF ((NextOffset(f, lead) < leo[lead]) /\ (i = leo[f])) THEN NextOffset(f, lead) ELSE i)] ELSE log[f][i]).there /\ (MaxOf({start[f], MinOf({start[lead], MaxOf({hw[f], MinOf({hw[lead], (leo[f] + (IF (NextOffset(f, lead) < leo[lead]) THEN 1 ELSE 0))})})})}) <= i))]]]
    /\ leo' = [leo EXCEPT ![f] = (leo[f] + (IF (NextOffset(f, lead) < leo[lead]) THEN 1 ELSE 0))]
    /\ hw' = [hw EXCEPT ![f] = MaxOf({hw[f], MinOf({hw[lead], (leo[f] + (IF (NextOffset(f, lead) < leo[lead]) THEN 1 ELSE 0))})})]
    /\ start' = [start EXCEPT ![f] = MaxOf({start[f], MinOf({start[lead], MaxOf({hw[f], MinOf({hw[lead], (leo[f] + (IF (NextOffset(f, lead) < leo[lead]) THEN 1 ELSE 0))})})})})]
    /\ horizon' = [horizon EXCEPT ![f] = MaxOf({horizon[f], horizon[lead]})]
    /\ known' = [known EXCEPT ![lead] = [known[lead] EXCEPT ![f] = Reported(f)]]
    /\ dropped' = [dropped EXCEPT ![f] = (IF ((NextOffset(f, lead) < leo[lead]) /\ ~(log[lead][NextOffset(f, lead)].there)) THEN (IF (Readers = 0) THEN 0 ELSE MaxOf({dropped[f], MinOf({(leo[f] + (IF (NextOffset(f, lead) < leo[lead]) THEN 1 ELSE 0)), dropped[lead]})})) ELSE dropped[f])]
    /\ bad' = [bad EXCEPT ![f] = (IF ((bad[f] # None) /\ (bad[f] < MaxOf({start[f], MinOf({start[lead], MaxOf({hw[f], MinOf({hw[lead], (leo[f] + (IF (NextOffset(f, lead) < leo[lead]) THEN 1 ELSE 0))})})})}))) THEN None ELSE bad[f])]
    /\ answer' = [answer EXCEPT ![f] = (IF ((bad[f] # None) /\ (bad[f] < MaxOf({start[f], MinOf({start[lead], MaxOf({hw[f], MinOf({hw[lead], (leo[f] + (IF (NextOffset(f, lead) < leo[lead]) THEN 1 ELSE 0))})})})}))) THEN None ELSE answer[f])]
    /\ answer_dropped' = [answer_dropped EXCEPT ![f] = (IF ((bad[f] # None) /\ (bad[f] < MaxOf({start[f], MinOf({start[lead], MaxOf({hw[f], MinOf({hw[lead], (leo[f] + (IF (NextOffset(f, lead) < leo[lead]) THEN 1 ELSE 0))})})})}))) THEN 0 ELSE answer_dropped[f])]
    /\ late' = (IF (((late # None) /\ (late.follower = f)) /\ (late.leader = lead)) THEN None ELSE late)
    /\ UNCHANGED <<newest, leaders, isr, epoch, clean, run, strangers, shrinks, wipes, damages, delays, retains, readers, reader, truth, committed>>

\* R6, all rounds at once.
Truncate(f, lead) ==
    /\ (f # lead)
    /\ Hears(lead, f)
    /\ ~Agrees(f, lead)
    /\ log' = [log EXCEPT ![f] = [i \in (0..Records - 1) |-> (IF (i < Agreed(f, lead)) THEN log[f][i] ELSE [epoch |-> 0, key |-> 0, deletes |-> FALSE, there |-> FALSE])]]
    /\ leo' = [leo EXCEPT ![f] = Agreed(f, lead)]
    /\ hw' = [hw EXCEPT ![f] = MinOf({hw[f], Agreed(f, lead)})]
    /\ clean' = [clean EXCEPT ![f] = MinOf({clean[f], Agreed(f, lead)})]
    /\ run' = [run EXCEPT ![f] = None]
    /\ bad' = [bad EXCEPT ![f] = (IF ((bad[f] # None) /\ (Agreed(f, lead) <= bad[f])) THEN None ELSE bad[f])]
    /\ answer' = [answer EXCEPT ![f] = (IF ((bad[f] # None) /\ (Agreed(f, lead) <= bad[f])) THEN None ELSE answer[f])]
    /\ answer_dropped' = [answer_dropped EXCEPT ![f] = (IF ((bad[f] # None) /\ (Agreed(f, lead) <= bad[f])) THEN 0 ELSE answer_dropped[f])]
    /\ late' = (IF (((late # None) /\ (late.follower = f)) /\ (late.leader = lead)) THEN None ELSE late)
    /\ UNCHANGED <<newest, leaders, isr, epoch, start, horizon, dropped, known, strangers, shrinks, wipes, damages, delays, retains, readers, reader, truth, committed>>

\* R6, C3: it ends below the leader's log start, forgets what it has and begins there.
BeginAtLogStart(f, lead) ==
    /\ (f # lead)
    /\ Hears(lead, f)
    /\ (leo[f] < start[lead])
    /\ log' = [log EXCEPT ![f] = [i \in (0..Records - 1) |-> (IF (i < start[lead]) THEN [log[lead][i] EXCEPT !.there = FALSE] ELSE [epoch |-> 0, key |-> 0, deletes |-> FALSE, there |-> FALSE])]]
    /\ leo' = [leo EXCEPT ![f] = start[lead]]
    /\ start' = [start EXCEPT ![f] = start[lead]]
    /\ hw' = [hw EXCEPT ![f] = start[lead]]
    /\ clean' = [clean EXCEPT ![f] = 0]
    /\ dropped' = [dropped EXCEPT ![f] = 0]
    /\ run' = [run EXCEPT ![f] = None]
    /\ bad' = [bad EXCEPT ![f] = (IF TRUE THEN None ELSE bad[f])]
    /\ answer' = [answer EXCEPT ![f] = (IF TRUE THEN None ELSE answer[f])]
    /\ answer_dropped' = [answer_dropped EXCEPT ![f] = (IF TRUE THEN 0 ELSE answer_dropped[f])]
    /\ late' = (IF (((late # None) /\ (late.follower = f)) /\ (late.leader = lead)) THEN None ELSE late)
    /\ UNCHANGED <<newest, leaders, isr, epoch, horizon, known, strangers, shrinks, wipes, damages, delays, retains, readers, reader, truth, committed>>

\* R2, with the followers' progress read at once.
Commit(lead) ==
    /\ TrulyLeads(lead)
    /\ (hw[lead] < leo[lead])
    /\ (\A m \in isr : (IF (m = lead) THEN TRUE ELSE (((epoch[m] = epoch[lead]) /\ (hw[lead] < leo[m])) /\ (log[m][hw[lead]].epoch = log[lead][hw[lead]].epoch))))
    /\ hw' = [hw EXCEPT ![lead] = (hw[lead] + 1)]
    /\ committed' = (IF (hw[lead] = committed) THEN (hw[lead] + 1) ELSE committed)
    /\ truth' = [truth EXCEPT ![hw[lead]] = (IF (hw[lead] = committed) THEN [log[lead][hw[lead]] EXCEPT !.there = TRUE] ELSE truth[hw[lead]])]
    /\ UNCHANGED <<newest, leaders, isr, epoch, log, leo, start, clean, horizon, run, dropped, bad, answer, answer_dropped, known, strangers, shrinks, wipes, damages, delays, retains, late, readers, reader>>

\* C3: retention moves the leader's log start.
Retain(lead, begin) ==
    /\ (retains < Retains)
    /\ TrulyLeads(lead)
    /\ (start[lead] < begin)
    /\ (begin <= hw[lead])
    /\ retains' = (retains + 1)
    /\ start' = [start EXCEPT ![lead] = begin]
    /\ log' = [log EXCEPT ![lead] = [i \in (0..Records - 1) |-> [log[lead][i] EXCEPT !.there = (log[lead][i].there /\ (begin <= i))]]]
    /\ UNCHANGED <<newest, leaders, isr, epoch, leo, hw, clean, horizon, run, dropped, bad, answer, answer_dropped, known, strangers, shrinks, wipes, damages, delays, late, readers, reader, truth, committed>>

\* R16.
Elect(to) ==
    /\ (newest < Epochs)
    /\ (to \in isr)
    /\ (leaders[newest] # to)
    /\ newest' = (newest + 1)
    /\ leaders' = [leaders EXCEPT ![(newest + 1)] = to]
    /\ UNCHANGED <<isr, epoch, log, leo, start, hw, clean, horizon, run, dropped, bad, answer, answer_dropped, known, strangers, shrinks, wipes, damages, delays, retains, late, readers, reader, truth, committed>>

\* Nothing is known of anybody in the new epoch (R2, C2).
JoinEpoch(r) ==
    /\ (epoch[r] < newest)
    /\ epoch' = [epoch EXCEPT ![r] = newest]
    /\ answer' = [answer EXCEPT ![r] = None]
    /\ answer_dropped' = [answer_dropped EXCEPT ![r] = 0]
    /\ known' = [known EXCEPT ![r] = [x \in Replica |-> 0]]
    /\ UNCHANGED <<newest, leaders, isr, log, leo, start, hw, clean, horizon, run, dropped, bad, strangers, shrinks, wipes, damages, delays, retains, late, readers, reader, truth, committed>>

Shrink(lead, f) ==
    /\ (f # lead)
    /\ (shrinks < Shrinks)
    /\ TrulyLeads(lead)
    /\ (f \in isr)
    /\ shrinks' = (shrinks + 1)
    /\ isr' = (isr \ {f})
    /\ UNCHANGED <<newest, leaders, epoch, log, leo, start, hw, clean, horizon, run, dropped, bad, answer, answer_dropped, known, strangers, wipes, damages, delays, retains, late, readers, reader, truth, committed>>

\* R10: it has what is committed, whole, and begins no lower than the leader.
Expand(lead, f) ==
    /\ (f # lead)
    /\ TrulyLeads(lead)
    /\ ~((f \in isr))
    /\ Hears(lead, f)
    /\ Agrees(f, lead)
    /\ (committed <= leo[f])
    /\ (bad[f] = None)
    /\ (start[lead] <= start[f])
    /\ isr' = (isr \cup {f})
    /\ UNCHANGED <<newest, leaders, epoch, log, leo, start, hw, clean, horizon, run, dropped, bad, answer, answer_dropped, known, strangers, shrinks, wipes, damages, delays, retains, late, readers, reader, truth, committed>>

\* I2: it begins empty, as a run that leaders have not heard of yet.
LoseDisk(f) ==
    /\ (wipes < Wipes)
    /\ (leaders[newest] # f)
    /\ (isr # {f})
    /\ wipes' = (wipes + 1)
    /\ isr' = (isr \ {f})
    /\ epoch' = [epoch EXCEPT ![f] = 0]
    /\ log' = [log EXCEPT ![f] = [i \in (0..Records - 1) |-> [epoch |-> 0, key |-> 0, deletes |-> FALSE, there |-> FALSE]]]
    /\ leo' = [leo EXCEPT ![f] = 0]
    /\ start' = [start EXCEPT ![f] = 0]
    /\ hw' = [hw EXCEPT ![f] = 0]
    /\ clean' = [clean EXCEPT ![f] = 0]
    /\ dropped' = [dropped EXCEPT ![f] = 0]
    /\ horizon' = [horizon EXCEPT ![f] = 0]
    /\ run' = [run EXCEPT ![f] = None]
    /\ bad' = [bad EXCEPT ![f] = (IF TRUE THEN None ELSE bad[f])]
    /\ answer' = [answer EXCEPT ![f] = (IF TRUE THEN None ELSE answer[f])]
    /\ answer_dropped' = [answer_dropped EXCEPT ![f] = (IF TRUE THEN 0 ELSE answer_dropped[f])]
    /\ known' = [known EXCEPT ![f] = [x \in Replica |-> 0]]
    /\ strangers' = [r \in Replica |-> (IF (r = f) THEN strangers[r] ELSE (strangers[r] \cup {f}))]
    /\ UNCHANGED <<newest, leaders, shrinks, damages, delays, retains, late, readers, reader, truth, committed>>

\* I2: the leader applies the registration of the new run; the old one's reports are void.
HearOfRun(lead, f) ==
    /\ (f # lead)
    /\ (f \in strangers[lead])
    /\ strangers' = [strangers EXCEPT ![lead] = (strangers[lead] \ {f})]
    /\ known' = [known EXCEPT ![lead] = [known[lead] EXCEPT ![f] = 0]]
    /\ late' = (IF (((late # None) /\ (late.follower = f)) /\ (late.leader = lead)) THEN None ELSE late)
    /\ UNCHANGED <<newest, leaders, isr, epoch, log, leo, start, hw, clean, horizon, run, dropped, bad, answer, answer_dropped, shrinks, wipes, damages, delays, retains, readers, reader, truth, committed>>

\* A question arrives at any later time; what came back was lost.
ReportIsLate(f, lead) ==
    /\ (f # lead)
    /\ (delays < Delays)
    /\ Hears(lead, f)
    /\ Agrees(f, lead)
    /\ (known[lead][f] < Reported(f))
    /\ delays' = (delays + 1)
    /\ late' = [follower |-> f, leader |-> lead, epoch |-> epoch[f], clean |-> Reported(f)]
    /\ UNCHANGED <<newest, leaders, isr, epoch, log, leo, start, hw, clean, horizon, run, dropped, bad, answer, answer_dropped, known, strangers, shrinks, wipes, damages, retains, readers, reader, truth, committed>>

LateReportArrives ==
    /\ (late # None)
    /\ Leads(late.leader)
    /\ (epoch[late.leader] = late.epoch)
    /\ known' = [known EXCEPT ![late.leader] = [known[late.leader] EXCEPT ![late.follower] = late.clean]]
    /\ late' = None
    /\ UNCHANGED <<newest, leaders, isr, epoch, log, leo, start, hw, clean, horizon, run, dropped, bad, answer, answer_dropped, strangers, shrinks, wipes, damages, delays, retains, readers, reader, truth, committed>>

\* D2: a committed record cannot be read; the copy leaves the ISR.
FindDamage(r, at) ==
    /\ (damages < Damages)
    /\ (bad[r] = None)
    /\ (leaders[newest] # r)
    /\ (isr # {r})
    /\ (start[r] <= at)
    /\ (at < hw[r])
    /\ damages' = (damages + 1)
    /\ bad' = [bad EXCEPT ![r] = at]
    /\ run' = [run EXCEPT ![r] = None]
    /\ isr' = (isr \ {r})
    /\ UNCHANGED <<newest, leaders, epoch, log, leo, start, hw, clean, horizon, dropped, answer, answer_dropped, known, strangers, shrinks, wipes, delays, retains, late, readers, reader, truth, committed>>

\* What comes may be less compacted than what was there: the leader lowers what it knows (C2).
AskForRange(f, lead) ==
    /\ (f # lead)
    /\ (bad[f] # None)
    /\ Hears(lead, f)
    /\ Agrees(f, lead)
    /\ (answer[f] = None)
    /\ (start[lead] <= bad[f])
    /\ (bad[lead] # bad[f])
    /\ answer' = [answer EXCEPT ![f] = log[lead][bad[f]]]
    /\ answer_dropped' = [answer_dropped EXCEPT ![f] = dropped[lead]]
    /\ known' = [known EXCEPT ![lead] = [known[lead] EXCEPT ![f] = MinOf({known[lead][f], bad[f]})]]
    /\ late' = (IF (((late # None) /\ (late.follower = f)) /\ (late.leader = lead)) THEN None ELSE late)
    /\ UNCHANGED <<newest, leaders, isr, epoch, log, leo, start, hw, clean, horizon, run, dropped, bad, strangers, shrinks, wipes, damages, delays, retains, readers, reader, truth, committed>>

\* The clean point goes back to where the range begins, before the first record is in place.
Mend(f) ==
    /\ (answer[f] # None)
    /\ log' = [log EXCEPT ![f] = [log[f] EXCEPT ![bad[f]] = answer[f]]]
    /\ dropped' = [dropped EXCEPT ![f] = (IF ~(answer[f].there) THEN (IF (Readers = 0) THEN 0 ELSE MaxOf({dropped[f], MinOf({(bad[f] + 1), answer_dropped[f]})})) ELSE dropped[f])]
    /\ clean' = [clean EXCEPT ![f] = MinOf({clean[f], bad[f]})]
    /\ bad' = [bad EXCEPT ![f] = (IF TRUE THEN None ELSE bad[f])]
    /\ answer' = [answer EXCEPT ![f] = (IF TRUE THEN None ELSE answer[f])]
    /\ answer_dropped' = [answer_dropped EXCEPT ![f] = (IF TRUE THEN 0 ELSE answer_dropped[f])]
    /\ UNCHANGED <<newest, leaders, isr, epoch, leo, start, hw, horizon, run, known, strangers, shrinks, wipes, damages, delays, retains, late, readers, reader, truth, committed>>

\* C1: to any offset that is committed here; to the same one again if tombstones below it may go.
BeginRun(r, end) ==
    /\ (run[r] = None)
    /\ (start[r] < end)
    /\ (end <= MinOf({hw[r], Whole(r)}))
    /\ (IF (clean[r] < end) THEN TRUE ELSE ((clean[r] = end) /\ (\E i \in (0)..(end - 1) : MayGo(r, i))))
    /\ run' = [run EXCEPT ![r] = [base |-> clean[r], end |-> end, done |-> start[r]]]
    /\ UNCHANGED <<newest, leaders, isr, epoch, log, leo, start, hw, clean, horizon, dropped, bad, answer, answer_dropped, known, strangers, shrinks, wipes, damages, delays, retains, late, readers, reader, truth, committed>>

\* The next offset of the run is judged, and its file put in place.
Rewrite(r) ==
    /\ (run[r] # None)
    /\ (run[r].done < run[r].end)
    /\ log' = [log EXCEPT ![r] = [log[r] EXCEPT ![run[r].done] = [log[r][run[r].done] EXCEPT !.there = (log[r][run[r].done].there /\ (~Outdated(r, run[r].done) /\ ~((MayGo(r, run[r].done) /\ (run[r].done < run[r].base)))))]]]
    /\ dropped' = [dropped EXCEPT ![r] = (IF (((log[r][run[r].done].there /\ ~Outdated(r, run[r].done)) /\ ~((~Outdated(r, run[r].done) /\ ~((MayGo(r, run[r].done) /\ (run[r].done < run[r].base)))))) /\ (0 < Readers)) THEN MaxOf({dropped[r], (run[r].done + 1)}) ELSE dropped[r])]
    /\ run' = [run EXCEPT ![r] = [run[r] EXCEPT !.done = (run[r].done + 1)]]
    /\ UNCHANGED <<newest, leaders, isr, epoch, leo, start, hw, clean, horizon, bad, answer, answer_dropped, known, strangers, shrinks, wipes, damages, delays, retains, late, readers, reader, truth, committed>>

\* C1: all is in place, now the clean point moves.
EndRun(r) ==
    /\ (run[r] # None)
    /\ (run[r].done = run[r].end)
    /\ clean' = [clean EXCEPT ![r] = run[r].end]
    /\ run' = [run EXCEPT ![r] = None]
    /\ UNCHANGED <<newest, leaders, isr, epoch, log, leo, start, hw, horizon, dropped, bad, answer, answer_dropped, known, strangers, shrinks, wipes, damages, delays, retains, late, readers, reader, truth, committed>>

\* A crash, a full disk: what was put in place stays so, the rest of the run is forgotten.
Abandon(r) ==
    /\ (run[r] # None)
    /\ run' = [run EXCEPT ![r] = None]
    /\ UNCHANGED <<newest, leaders, isr, epoch, log, leo, start, hw, clean, horizon, dropped, bad, answer, answer_dropped, known, strangers, shrinks, wipes, damages, delays, retains, late, readers, reader, truth, committed>>

\* C2: the least clean point over all replicas, as far as this leader knows.
RaiseHorizon(lead) ==
    /\ Leads(lead)
    /\ (horizon[lead] < MinOf({KnownClean(lead, r) : r \in Replica}))
    /\ horizon' = [horizon EXCEPT ![lead] = MinOf({KnownClean(lead, r) : r \in Replica})]
    /\ UNCHANGED <<newest, leaders, isr, epoch, log, leo, start, hw, clean, run, dropped, bad, answer, answer_dropped, known, strangers, shrinks, wipes, damages, delays, retains, late, readers, reader, truth, committed>>

BeginReading(r) ==
    /\ (readers < Readers)
    /\ (reader = None)
    /\ (start[r] < hw[r])
    /\ (bad[r] # start[r])
    /\ readers' = (readers + 1)
    /\ reader' = [at |-> (start[r] + 1), since |-> dropped[r], saw |-> (IF (log[r][start[r]].there /\ (log[r][start[r]].key = 0)) THEN start[r] ELSE None)]
    /\ UNCHANGED <<newest, leaders, isr, epoch, log, leo, start, hw, clean, horizon, run, dropped, bad, answer, answer_dropped, known, strangers, shrinks, wipes, damages, delays, retains, late, truth, committed>>

ReadOn(r) ==
    /\ (reader # None)
    /\ (start[r] <= reader.at)
    /\ (reader.at < hw[r])
    /\ (bad[r] # reader.at)
    /\ ~CompactedPast(r)
    /\ reader' = [at |-> (reader.at + 1), since |-> reader.since, saw |-> (IF (log[r][reader.at].there /\ (log[r][reader.at].key = 0)) THEN reader.at ELSE reader.saw)]
    /\ UNCHANGED <<newest, leaders, isr, epoch, log, leo, start, hw, clean, horizon, run, dropped, bad, answer, answer_dropped, known, strangers, shrinks, wipes, damages, delays, retains, late, readers, truth, committed>>

\* It is to begin again.
TellReader(r) ==
    /\ (reader # None)
    /\ (IF CompactedPast(r) THEN TRUE ELSE (reader.at < start[r]))
    /\ reader' = None
    /\ UNCHANGED <<newest, leaders, isr, epoch, log, leo, start, hw, clean, horizon, run, dropped, bad, answer, answer_dropped, known, strangers, shrinks, wipes, damages, delays, retains, late, readers, truth, committed>>

Next ==
    \/ \E r \in Replica, key \in (0..Keys - 1), deletes \in BOOLEAN : Write(r, key, deletes)
    \/ \E f \in Replica, lead \in Replica : Fetch(f, lead)
    \/ \E f \in Replica, lead \in Replica : Truncate(f, lead)
    \/ \E f \in Replica, lead \in Replica : BeginAtLogStart(f, lead)
    \/ \E lead \in Replica : Commit(lead)
    \/ \E lead \in Replica, begin \in (0..Records) : Retain(lead, begin)
    \/ \E to \in Replica : Elect(to)
    \/ \E r \in Replica : JoinEpoch(r)
    \/ \E lead \in Replica, f \in Replica : Shrink(lead, f)
    \/ \E lead \in Replica, f \in Replica : Expand(lead, f)
    \/ \E f \in Replica : LoseDisk(f)
    \/ \E lead \in Replica, f \in Replica : HearOfRun(lead, f)
    \/ \E f \in Replica, lead \in Replica : ReportIsLate(f, lead)
    \/ LateReportArrives
    \/ \E r \in Replica, at \in (0..Records - 1) : FindDamage(r, at)
    \/ \E f \in Replica, lead \in Replica : AskForRange(f, lead)
    \/ \E f \in Replica : Mend(f)
    \/ \E r \in Replica, end \in (0..Records) : BeginRun(r, end)
    \/ \E r \in Replica : Rewrite(r)
    \/ \E r \in Replica : EndRun(r)
    \/ \E r \in Replica : Abandon(r)
    \/ \E lead \in Replica : RaiseHorizon(lead)
    \/ \E r \in Replica : BeginReading(r)
    \/ \E r \in Replica : ReadOn(r)
    \/ \E r \in Replica : TellReader(r)

Spec == Init /\ [][Next]_vars

\* Whoever may be elected has all that is committed, as far as it was not taken out.
CommittedOnIsr ==
    (\A r \in isr : (\A i \in (0)..(committed - 1) : Holds(r, i)))

\* Below the HW of both, two copies have the same epochs, and the same records where both have any.
LogMatching ==
    (\A a \in Replica : (\A b \in Replica : (\A i \in (0)..(MinOf({hw[a], hw[b]}) - 1) : (((log[a][i].epoch = log[b][i].epoch) /\ (log[a][i].key = log[b][i].key)) /\ (log[a][i].deletes = log[b][i].deletes)))))

\* C5: below its HW a copy has committed records only, unchanged, at their offsets.
Subsequence ==
    (\A r \in Replica : (\A i \in (0)..(hw[r] - 1) : ((i < committed) /\ (log[r][i].there => (log[r][i] = truth[i])))))

\* C1: the last value of a key is in every copy that has come past it. Tombstones: NoResurrection.
FoldPreserved ==
    (\A r \in Replica : (\A i \in (0..Records - 1) : (((Judged(r, i) /\ Last(i)) /\ ~(truth[i].deletes)) => log[r][i].there)))

\* C1: below its clean point a copy has one record of each key (CompactionHorizonCorrectness).
CompactionHorizon ==
    (\A r \in Replica : (\A i \in (0..Records - 1) : (\A j \in (0..Records - 1) : (((((((i < j) /\ (j < clean[r])) /\ log[r][i].there) /\ log[r][j].there) /\ (bad[r] # i)) /\ (bad[r] # j)) => (log[r][i].key # log[r][j].key)))))

\* C2: a copy that lacks the tombstone has nothing of what it deleted.
NoResurrection ==
    (\A r \in Replica : (\A i \in (0..Records - 1) : (Dropped(r, i) => ~HasOlder(r, i))))

\* C2: once a copy has dropped a tombstone, no copy has anything older of its key to give.
TombstoneSafe ==
    (\A r \in Replica : (\A i \in (0..Records - 1) : (Dropped(r, i) => (\A o \in Replica : ~HasOlder(o, i)))))

\* C4: a reader holds no value of a key of which it has passed a later record, or its tombstone.
ReaderSawEveryLastValue ==
    (\A i \in (0..Records - 1) : (((reader # None) /\ ((((i < committed) /\ (i < reader.at)) /\ (truth[i].key = 0)) /\ Last(i))) => (IF (reader.saw = i) THEN TRUE ELSE (reader.saw = None))))

==============================================================================
