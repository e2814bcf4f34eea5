--------------------------- MODULE ProcessorRight ----------------------------

\* The output partition of a processor.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Inputs, Records, Entries, Runs, Epochs, Tables

VARIABLES
    epoch, data, journal, hw_d, hw_j, heard, start, cleaned, asked, began

vars == <<epoch, data, journal, hw_d, hw_j, heard, start, cleaned, asked, began>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ epoch \in (1..Epochs)
    /\ ((data \in Seq([run: (0..Runs), seq: (0..Inputs - 1), position: (0..Inputs - 1), sets: BOOLEAN])) /\ (Len(data) <= Records))
    /\ ((journal \in Seq([kind: {"open", "table"}, below: (0..Records), run: (0..Runs), next: (0..Inputs), cursor: (0..Inputs)])) /\ (Len(journal) <= Entries))
    /\ hw_d \in (0..Records)
    /\ hw_j \in (0..Entries)
    /\ heard \in (0..Entries)
    /\ start \in (0..Records)
    /\ cleaned \in (0..Entries)
    /\ asked \in [(1..Runs) -> ((0..Records) \cup {None})]
    /\ began \in [(1..Runs) -> ((0..Inputs) \cup {None})]

\* Where the last entry of the table is, plus one; those before the journal's start are gone.
TableAt ==
    MaxOf({(IF ((cleaned <= p) /\ (p < Len(journal))) THEN (IF (journal[p + 1].kind = "table") THEN (p + 1) ELSE 0) ELSE 0) : p \in (0..Entries - 1)})

\* The newest run that the journal names.
Opened ==
    MaxOf({(IF ((cleaned <= p) /\ (p < Len(journal))) THEN (IF (journal[p + 1].kind = "open") THEN journal[p + 1].run ELSE 0) ELSE 0) : p \in (0..Entries - 1)})

\* The newest run of which there is a batch in the data, or was.
DataRun(end) ==
    MaxOf({(IF (0 < TableAt) THEN [below |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].below, run |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].run, next |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].next, cursor |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].cursor] ELSE [below |-> start, run |-> 0, next |-> 0, cursor |-> 0]).run, MaxOf({(IF (((IF (0 < TableAt) THEN [below |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].below, run |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].run, next |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].next, cursor |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].cursor] ELSE [below |-> start, run |-> 0, next |-> 0, cursor |-> 0]).below <= i) /\ (i < end)) THEN data[i + 1].run ELSE 0) : i \in (0..Records - 1)})})

NewestRun ==
    MaxOf({Opened, DataRun(Len(data))})

\* The number of the batch that is due of a run, by the data below `end`.
DueOf(run, end) ==
    MaxOf({MaxOf({(IF (((IF (0 < TableAt) THEN [below |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].below, run |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].run, next |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].next, cursor |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].cursor] ELSE [below |-> start, run |-> 0, next |-> 0, cursor |-> 0]).below <= i) /\ (i < end)) THEN (IF (data[i + 1].run = run) THEN (data[i + 1].seq + 1) ELSE 0) ELSE 0) : i \in (0..Records - 1)}), (IF ((IF (0 < TableAt) THEN [below |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].below, run |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].run, next |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].next, cursor |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].cursor] ELSE [below |-> start, run |-> 0, next |-> 0, cursor |-> 0]).run = run) THEN (IF (0 < TableAt) THEN [below |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].below, run |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].run, next |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].next, cursor |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].cursor] ELSE [below |-> start, run |-> 0, next |-> 0, cursor |-> 0]).next ELSE 0)})

\* The last cursor that was set below `end`.
CursorOf(end) ==
    (IF (0 < MaxOf({(IF ((i < Len(data)) /\ ((((IF (0 < TableAt) THEN [below |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].below, run |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].run, next |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].next, cursor |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].cursor] ELSE [below |-> start, run |-> 0, next |-> 0, cursor |-> 0]).below <= i) /\ (i < end)) /\ data[i + 1].sets)) THEN (i + 1) ELSE 0) : i \in (0..Records - 1)})) THEN (data[(MaxOf({(IF ((i < Len(data)) /\ ((((IF (0 < TableAt) THEN [below |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].below, run |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].run, next |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].next, cursor |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].cursor] ELSE [below |-> start, run |-> 0, next |-> 0, cursor |-> 0]).below <= i) /\ (i < end)) /\ data[i + 1].sets)) THEN (i + 1) ELSE 0) : i \in (0..Records - 1)}) - 1) + 1].position + 1) ELSE (IF (0 < TableAt) THEN [below |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].below, run |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].run, next |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].next, cursor |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].cursor] ELSE [below |-> start, run |-> 0, next |-> 0, cursor |-> 0]).cursor)

\* An entry says so, or a table that is later than the entry.
IsOpened(run, until) ==
    (\E p \in (cleaned)..(until - 1) : (IF (journal[p + 1].kind = "open") THEN (journal[p + 1].run = run) ELSE (journal[p + 1].run = run)))

Init ==
    /\ epoch = 1
    /\ data = <<>>
    /\ journal = <<>>
    /\ hw_d = 0
    /\ hw_j = 0
    /\ heard = 0
    /\ start = 0
    /\ cleaned = 0
    /\ asked = [x \in (1..Runs) |-> None]
    /\ began = [x \in (1..Runs) |-> None]

\* The leader writes that the run is open, unless it has, and remembers what was in the data.
OpenRun(run) ==
    /\ (began[run] = None)
    /\ (NewestRun <= run)
    /\ (asked[run] = None)
    /\ (IsOpened(run, Len(journal)) \/ (Len(journal) < Entries))
    /\ journal' = (IF IsOpened(run, Len(journal)) THEN journal ELSE Append(journal, [kind |-> "open", below |-> 0, run |-> run, next |-> 0, cursor |-> 0]))
    /\ asked' = [asked EXCEPT ![run] = Len(data)]
    /\ UNCHANGED <<epoch, data, hw_d, hw_j, heard, start, cleaned, began>>

\* The entry is committed, and so is all that was in the data when it was asked for.
AnswerRun(run) ==
    /\ (began[run] = None)
    /\ (asked[run] # None)
    /\ (asked[run] <= hw_d)
    /\ IsOpened(run, hw_j)
    /\ began' = [began EXCEPT ![run] = CursorOf(hw_d)]
    /\ asked' = [asked EXCEPT ![run] = None]
    /\ UNCHANGED <<epoch, data, journal, hw_d, hw_j, heard, start, cleaned>>

\* A batch arrives, sooner or later, again or not, of a run that lives or lives on.
Process(run, number) ==
    /\ (began[run] # None)
    /\ (Len(data) < Records)
    /\ ((began[run] + number) < Inputs)
    /\ (NewestRun <= run)
    /\ (DueOf(run, Len(data)) = number)
    /\ data' = Append(data, [run |-> run, seq |-> number, position |-> (began[run] + number), sets |-> TRUE])
    /\ UNCHANGED <<epoch, journal, hw_d, hw_j, heard, start, cleaned, asked, began>>

CommitData ==
    /\ (hw_d < Len(data))
    /\ hw_d' = (hw_d + 1)
    /\ UNCHANGED <<epoch, data, journal, hw_j, heard, start, cleaned, asked, began>>

CommitEntry ==
    /\ (hw_j < Len(journal))
    /\ hw_j' = (hw_j + 1)
    /\ UNCHANGED <<epoch, data, journal, hw_d, heard, start, cleaned, asked, began>>

\* R16. Of what was not committed the new leader has any part; nobody waits for an answer any more.
Elect(data2, journal2) ==
    /\ (epoch < Epochs)
    /\ (hw_d <= data2)
    /\ (data2 <= Len(data))
    /\ (hw_j <= journal2)
    /\ (journal2 <= Len(journal))
    /\ epoch' = (epoch + 1)
    /\ data' = SubSeq(data, 1, MinOf({data2, Len(data)}))
    /\ journal' = SubSeq(journal, 1, MinOf({journal2, Len(journal)}))
    /\ asked' = [x \in (1..Runs) |-> None]
    /\ heard' = 0
    /\ UNCHANGED <<hw_d, hw_j, start, cleaned, began>>

\* What the committed data say, and the newest run that was opened.
WriteTable ==
    /\ (0 < Tables)
    /\ (Len(journal) < Entries)
    /\ ((IF (0 < TableAt) THEN [below |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].below, run |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].run, next |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].next, cursor |-> journal[(IF (0 < TableAt) THEN (TableAt - 1) ELSE 0) + 1].cursor] ELSE [below |-> start, run |-> 0, next |-> 0, cursor |-> 0]).below < hw_d)
    /\ journal' = Append(journal, [kind |-> "table", below |-> hw_d, run |-> MaxOf({DataRun(hw_d), Opened}), next |-> DueOf(MaxOf({DataRun(hw_d), Opened}), hw_d), cursor |-> CursorOf(hw_d)])
    /\ UNCHANGED <<epoch, data, hw_d, hw_j, heard, start, cleaned, asked, began>>

\* C3: of the data to where a committed table begins, of the journal to that table.
MoveStart(at) ==
    /\ (at < hw_j)
    /\ (cleaned <= at)
    /\ (journal[at + 1].kind = "table")
    /\ ((start < journal[at + 1].below) \/ (cleaned < at))
    /\ start' = MaxOf({start, journal[at + 1].below})
    /\ cleaned' = at
    /\ UNCHANGED <<epoch, data, journal, hw_d, hw_j, heard, asked, began>>

Next ==
    \/ \E run \in (1..Runs) : OpenRun(run)
    \/ \E run \in (1..Runs) : AnswerRun(run)
    \/ \E run \in (1..Runs), number \in (0..Inputs - 1) : Process(run, number)
    \/ CommitData
    \/ CommitEntry
    \/ \E data2 \in (0..Records), journal2 \in (0..Entries) : Elect(data2, journal2)
    \/ WriteTable
    \/ \E at \in (0..Entries - 1) : MoveStart(at)

Spec == Init /\ [][Next]_vars

\* The outputs of a position are committed once.
OutputsOnce ==
    ~((\E i \in (0)..(hw_d - 1) : (\E j \in (0)..(hw_d - 1) : ((i < j) /\ (data[i + 1].position = data[j + 1].position)))))

\* And not before those of the position before.
NoneSkipped ==
    (\A i \in (0)..(hw_d - 1) : (IF (data[i + 1].position = 0) THEN TRUE ELSE (\E j \in (0)..(i - 1) : ((data[j + 1].position + 1) = data[i + 1].position))))

\* Behind a batch of a run there is none of an older one.
ZombieFenced ==
    ~((\E i \in (0)..(hw_d - 1) : (\E j \in (0)..(hw_d - 1) : ((i < j) /\ (data[j + 1].run < data[i + 1].run)))))

\* What a leader would answer with is the position behind all outputs that are committed.
CursorIsTrue ==
    (CursorOf(hw_d) = MaxOf({(IF (i < hw_d) THEN (data[i + 1].position + 1) ELSE 0) : i \in (0..Records - 1)}))

==============================================================================
