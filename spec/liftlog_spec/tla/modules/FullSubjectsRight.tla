-------------------------- MODULE FullSubjectsRight --------------------------

\* One partition with its two logs, one subject, and who leads it.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Records, Entries, Limit, Epochs

VARIABLES
    epoch, length, hw, journal, journal_hw, untrue

vars == <<epoch, length, hw, journal, journal_hw, untrue>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ epoch \in (1..Epochs)
    /\ length \in (0..Records)
    /\ hw \in (0..Records)
    /\ ((journal \in Seq((0..Records - 1))) /\ (Len(journal) <= Entries))
    /\ journal_hw \in (0..Entries)
    /\ untrue \in BOOLEAN

Init ==
    /\ epoch = 1
    /\ length = 0
    /\ hw = 0
    /\ journal = <<>>
    /\ journal_hw = 0
    /\ untrue = FALSE

\* A message has come, and there is room.
Store ==
    /\ (length < Records)
    /\ (Cardinality({place \in (0..Records - 1) : ((place < length) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < journal_hw) /\ (journal[i + 1] = place)))))}) < Limit)
    /\ length' = (length + 1)
    /\ UNCHANGED <<epoch, hw, journal, journal_hw, untrue>>

\* A message has come, and there is none.
Refuse ==
    /\ (Limit <= Cardinality({place \in (0..Records - 1) : ((place < length) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < journal_hw) /\ (journal[i + 1] = place)))))}))
    /\ (Limit <= Cardinality({place \in (0..Records - 1) : ((place < hw) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < journal_hw) /\ (journal[i + 1] = place)))))}))
    /\ untrue' = (IF untrue THEN TRUE ELSE (Cardinality({place \in (0..Records - 1) : ((place < hw) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < journal_hw) /\ (journal[i + 1] = place)))))}) < Limit))
    /\ UNCHANGED <<epoch, length, hw, journal, journal_hw>>

Commit ==
    /\ (hw < length)
    /\ hw' = (hw + 1)
    /\ UNCHANGED <<epoch, length, journal, journal_hw, untrue>>

\* Somebody wants a committed message to be gone.
Delete(place) ==
    /\ (place < hw)
    /\ (Len(journal) < Entries)
    /\ ~((\E i \in (0)..(Len(journal) - 1) : (journal[i + 1] = place)))
    /\ journal' = Append(journal, place)
    /\ UNCHANGED <<epoch, length, hw, journal_hw, untrue>>

CommitEntry ==
    /\ (journal_hw < Len(journal))
    /\ journal_hw' = (journal_hw + 1)
    /\ UNCHANGED <<epoch, length, hw, journal, untrue>>

\* Another one leads, which has this much of the logs.
Elect(end, entries) ==
    /\ (epoch < Epochs)
    /\ (hw <= end)
    /\ (end <= length)
    /\ (journal_hw <= entries)
    /\ (entries <= Len(journal))
    /\ epoch' = (epoch + 1)
    /\ length' = end
    /\ journal' = SubSeq(journal, 1, MinOf({entries, Len(journal)}))
    /\ UNCHANGED <<hw, journal_hw, untrue>>

Next ==
    \/ Store
    \/ Refuse
    \/ Commit
    \/ \E place \in (0..Records - 1) : Delete(place)
    \/ CommitEntry
    \/ \E end \in (0..Records), entries \in (0..Entries) : Elect(end, entries)

Spec == Init /\ [][Next]_vars

\* Of what is committed no more is there than may be.
HoldsNoMore ==
    (Cardinality({place \in (0..Records - 1) : ((place < hw) /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < journal_hw) /\ (journal[i + 1] = place)))))}) <= Limit)

\* Nobody is refused for what may be cut, or is gone.
RefusedTruly ==
    ~untrue

==============================================================================
