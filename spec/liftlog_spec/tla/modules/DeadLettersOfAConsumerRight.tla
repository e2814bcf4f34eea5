--------------------- MODULE DeadLettersOfAConsumerRight ---------------------

\* One message of one consumer, the journal that speaks of it, and the stream of its letters.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Entries, Epochs

VARIABLES
    epoch, journal, hw, inherited, flying, ids, stored

vars == <<epoch, journal, hw, inherited, flying, ids, stored>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ epoch \in (1..Epochs)
    /\ ((journal \in Seq({"acked", "dead", "done"})) /\ (Len(journal) <= Entries))
    /\ hw \in (0..Entries)
    /\ inherited \in (0..Entries)
    /\ flying \in SUBSET (0..Epochs)
    /\ ids \in SUBSET (0..Epochs)
    /\ stored \in (0..Epochs + 1)

Init ==
    /\ epoch = 1
    /\ journal = <<>>
    /\ hw = 0
    /\ inherited = 0
    /\ flying = {}
    /\ ids = {}
    /\ stored = 0

\* By who was given it, at any time.
Ack ==
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "acked"))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "done"))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "dead"))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, "acked")
    /\ UNCHANGED <<epoch, hw, inherited, flying, ids, stored>>

\* It was delivered for the last time.
Die ==
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "acked"))))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "dead"))))
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, "dead")
    /\ UNCHANGED <<epoch, hw, inherited, flying, ids, stored>>

Commit ==
    /\ (hw < Len(journal))
    /\ hw' = (hw + 1)
    /\ UNCHANGED <<epoch, journal, inherited, flying, ids, stored>>

\* Again and again.
Publish ==
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ (journal[i + 1] = "dead")))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "done"))))
    /\ ~((0 \in flying))
    /\ flying' = (flying \cup {0})
    /\ UNCHANGED <<epoch, journal, hw, inherited, ids, stored>>

\* The other stream has acknowledged it.
Done ==
    /\ (\E i \in (0)..(Len(journal) - 1) : ((i < hw) /\ (journal[i + 1] = "dead")))
    /\ ~((\E i \in (0)..(Len(journal) - 1) : ((i < Len(journal)) /\ (journal[i + 1] = "done"))))
    /\ (0 \in ids)
    /\ (Len(journal) < Entries)
    /\ journal' = Append(journal, "done")
    /\ UNCHANGED <<epoch, hw, inherited, flying, ids, stored>>

\* Another one leads, which has this much of the journal.
Elect(end) ==
    /\ (epoch < Epochs)
    /\ (hw <= end)
    /\ (end <= Len(journal))
    /\ epoch' = (epoch + 1)
    /\ journal' = SubSeq(journal, 1, MinOf({end, Len(journal)}))
    /\ inherited' = end
    /\ UNCHANGED <<hw, flying, ids, stored>>

\* It stores a letter, soon, late, or never, unless it has one with this id.
Store(id) ==
    /\ (id \in flying)
    /\ ~((id \in ids))
    /\ ids' = (ids \cup {id})
    /\ stored' = (stored + 1)
    /\ UNCHANGED <<epoch, journal, hw, inherited, flying>>

Next ==
    \/ Ack
    \/ Die
    \/ Commit
    \/ Publish
    \/ Done
    \/ \E end \in (0..Entries) : Elect(end)
    \/ \E id \in (0..Epochs) : Store(id)

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
