--------------------- MODULE DeadLettersOfAConsumerRight ---------------------

\* One message of one consumer, the journal that speaks of it, and the stream of its letters.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Entries, Epochs

VARIABLES
    epoch, journal, hw, inherited, flying, ids, stored, removed

vars == <<epoch, journal, hw, inherited, flying, ids, stored, removed>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ epoch \in (1..Epochs)
    /\ ((journal \in Seq({"acked", "dead", "done", "gone"})) /\ (Len(journal) <= Entries))
    /\ hw \in (0..Entries)
    /\ inherited \in (0..Entries)
    /\ flying \in SUBSET (0..Epochs)
    /\ ids \in SUBSET (0..Epochs)
    /\ stored \in (0..Epochs + 1)
    /\ removed \in BOOLEAN

Init ==
    /\ epoch = 1
    /\ journal = <<>>
    /\ hw = 0
    /\ inherited = 0
    /\ flying = {}
    /\ ids = {}
    /\ stored = 0
    /\ removed = FALSE

\* By who was given it, at any time.
Ack ==
    /\ ~((IF (IF (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "acked"))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "done")))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "gone")))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "dead"))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, "acked")
    /\ UNCHANGED <<epoch, hw, inherited, flying, ids, stored, removed>>

\* It was delivered for the last time.
Die ==
    /\ ~((IF (IF (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "acked"))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "done")))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "gone")))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "dead"))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, "dead")
    /\ UNCHANGED <<epoch, hw, inherited, flying, ids, stored, removed>>

Commit ==
    /\ (hw < Len(journal))
    /\ hw' = (hw + 1)
    /\ UNCHANGED <<epoch, journal, inherited, flying, ids, stored, removed>>

\* Again and again.
Publish ==
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ (journal[i + 1] = "dead")))
    /\ ~((IF (IF (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "acked"))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "done")))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "gone")))))
    /\ ~((0 \in flying))
    /\ flying' = (flying \cup {0})
    /\ UNCHANGED <<epoch, journal, hw, inherited, ids, stored, removed>>

\* The other stream has acknowledged it.
Done ==
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ (journal[i + 1] = "dead")))
    /\ ~((IF (IF (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "acked"))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "done")))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "gone")))))
    /\ (0 \in ids)
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, "done")
    /\ UNCHANGED <<epoch, hw, inherited, flying, ids, stored, removed>>

\* By a leader that was replaced, and does not know it, nor what the next one has written.
PublishLate ==
    /\ (1 < epoch)
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ (journal[i + 1] = "dead")))
    /\ ~((0 \in flying))
    /\ flying' = (flying \cup {0})
    /\ UNCHANGED <<epoch, journal, hw, inherited, ids, stored, removed>>

\* It is deleted, dead or not.
WriteOff ==
    /\ removed
    /\ ~((IF (IF (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "acked"))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "done")))) THEN TRUE ELSE (\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "gone")))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, "gone")
    /\ UNCHANGED <<epoch, hw, inherited, flying, ids, stored, removed>>

\* Another one leads, which has this much of the journal.
Elect(end) ==
    /\ (epoch < Epochs)
    /\ (hw <= end)
    /\ (end <= Len(journal))
    /\ epoch' = (epoch + 1)
    /\ journal' = SubSeq(journal, 1, MinOf({end, Len(journal)}))
    /\ inherited' = end
    /\ UNCHANGED <<hw, flying, ids, stored, removed>>

\* It stores a letter, soon, late, or never, unless it has one with this id.
Store(id) ==
    /\ (id \in flying)
    /\ ~((id \in ids))
    /\ ids' = (ids \cup {id})
    /\ stored' = (stored + 1)
    /\ UNCHANGED <<epoch, journal, hw, inherited, flying, removed>>

Remove ==
    /\ ~removed
    /\ removed' = TRUE
    /\ UNCHANGED <<epoch, journal, hw, inherited, flying, ids, stored>>

Next ==
    \/ Ack
    \/ Die
    \/ Commit
    \/ Publish
    \/ Done
    \/ PublishLate
    \/ WriteOff
    \/ \E end \in (0..Entries) : Elect(end)
    \/ \E id \in (0..Epochs) : Store(id)
    \/ Remove

Spec == Init /\ [][Next]_vars

\* What is dead is pending, or stored.
NoneLost ==
    (((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ (journal[i + 1] = "dead"))) /\ (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ (journal[i + 1] = "done")))) => (0 < stored))

StoredOnce ==
    (stored <= 1)

\* A message that counts as acked is no dead letter.
NotBoth ==
    ((\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ (journal[i + 1] = "acked"))) => (stored = 0))

==============================================================================
