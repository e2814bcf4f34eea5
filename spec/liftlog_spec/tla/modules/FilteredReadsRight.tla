------------------------- MODULE FilteredReadsRight --------------------------

\* One partition and one reader with a filter.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Copy, Records, Room, Elections, Deletes, Trims, Thinned

VARIABLES
    end, wanted, hw, elections, journal, start, trims, spare, known, heeds, thinned, position, has, twice, seen, answer, late

vars == <<end, wanted, hw, elections, journal, start, trims, spare, known, heeds, thinned, position, has, twice, seen, answer, late>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ end \in (0..Records)
    /\ wanted \in SUBSET (0..Records - 1)
    /\ hw \in (0..Records)
    /\ elections \in (0..Elections)
    /\ ((journal \in Seq(SUBSET (0..Records - 1))) /\ (Len(journal) <= Deletes))
    /\ start \in (0..Records)
    /\ trims \in (0..Trims)
    /\ spare \in SUBSET (0..Records - 1)
    /\ known \in [Copy -> (0..Records)]
    /\ heeds \in [Copy -> (0..Deletes)]
    /\ thinned \in [Copy -> SUBSET (0..Records - 1)]
    /\ position \in (0..Records)
    /\ has \in SUBSET (0..Records - 1)
    /\ twice \in BOOLEAN
    /\ seen \in (0..Deletes)
    /\ answer \in ([at: (0..Records), looked: (0..Records), found: SUBSET (0..Records - 1), heeded: (0..Deletes), more: BOOLEAN] \cup {None})
    /\ late \in ([at: (0..Records), looked: (0..Records), found: SUBSET (0..Records - 1), heeded: (0..Deletes), more: BOOLEAN] \cup {None})

Init ==
    /\ end = 0
    /\ wanted = {}
    /\ hw = 0
    /\ elections = 0
    /\ journal = <<>>
    /\ start = 0
    /\ trims = 0
    /\ spare = {}
    /\ known = [x \in Copy |-> 0]
    /\ heeds = [x \in Copy |-> 0]
    /\ thinned = [x \in Copy |-> {}]
    /\ position = 0
    /\ has = {}
    /\ twice = FALSE
    /\ seen = 0
    /\ answer = None
    /\ late = None

Write(matches) ==
    /\ (end < Records)
    /\ end' = (end + 1)
    /\ wanted' = (IF matches THEN (wanted \cup {end}) ELSE wanted)
    /\ UNCHANGED <<hw, elections, journal, start, trims, spare, known, heeds, thinned, position, has, twice, seen, answer, late>>

Commit(end2) ==
    /\ (hw < end2)
    /\ (end2 <= end)
    /\ hw' = end2
    /\ UNCHANGED <<end, wanted, elections, journal, start, trims, spare, known, heeds, thinned, position, has, twice, seen, answer, late>>

\* Another one leads, which has this much.
Elect(end2) ==
    /\ (elections < Elections)
    /\ (hw <= end2)
    /\ (end2 <= end)
    /\ elections' = (elections + 1)
    /\ end' = end2
    /\ wanted' = {i \in wanted : (i < end2)}
    /\ UNCHANGED <<hw, journal, start, trims, spare, known, heeds, thinned, position, has, twice, seen, answer, late>>

Delete(at) ==
    /\ (at < hw)
    /\ (Len(journal) < Deletes)
    /\ ~((at \in (IF (0 < Len(journal)) THEN journal[(Len(journal) - 1) + 1] ELSE {})))
    /\ journal' = Append(journal, ((IF (0 < Len(journal)) THEN journal[(Len(journal) - 1) + 1] ELSE {}) \cup {at}))
    /\ UNCHANGED <<end, wanted, hw, elections, start, trims, spare, known, heeds, thinned, position, has, twice, seen, answer, late>>

\* The log begins later: retention, or a purge.
Trim(to) ==
    /\ (trims < Trims)
    /\ (start < to)
    /\ (to <= hw)
    /\ trims' = (trims + 1)
    /\ start' = to
    /\ UNCHANGED <<end, wanted, hw, elections, journal, spare, known, heeds, thinned, position, has, twice, seen, answer, late>>

\* Compaction takes it from this copy.
Thin(c, at) ==
    /\ (at < known[c])
    /\ ~((at \in thinned[c]))
    /\ (Cardinality((spare \cup {at})) <= Thinned)
    /\ spare' = (spare \cup {at})
    /\ thinned' = [thinned EXCEPT ![c] = (thinned[c] \cup {at})]
    /\ UNCHANGED <<end, wanted, hw, elections, journal, start, trims, known, heeds, position, has, twice, seen, answer, late>>

\* A copy has lost all that it had, and has it from one that compaction has taken less of.
FetchAnew(c) ==
    /\ (0 < Cardinality(thinned[c]))
    /\ thinned' = [thinned EXCEPT ![c] = {}]
    /\ UNCHANGED <<end, wanted, hw, elections, journal, start, trims, spare, known, heeds, position, has, twice, seen, answer, late>>

\* A copy knows this much to be committed, and to be deleted: more than before, or less, since it has begun
\* again.
Hear(c, end2, heeded) ==
    /\ (end2 <= hw)
    /\ (heeded <= Len(journal))
    /\ known' = [known EXCEPT ![c] = end2]
    /\ heeds' = [heeds EXCEPT ![c] = heeded]
    /\ UNCHANGED <<end, wanted, hw, elections, journal, start, trims, spare, thinned, position, has, twice, seen, answer, late>>

\* The reader asks from its position on; a copy looks, and answers.
Ask(c, looked) ==
    /\ (answer = None)
    /\ (position <= looked)
    /\ (looked <= MaxOf({known[c], position}))
    /\ (seen <= heeds[c])
    /\ (Cardinality({i \in wanted : (((position <= i) /\ (i < looked)) /\ (~(((0 < heeds[c]) /\ (i \in journal[(heeds[c] - 1) + 1]))) /\ ~((i \in thinned[c]))))}) <= Room)
    /\ ((position < looked) \/ (known[c] <= position))
    /\ answer' = [at |-> position, looked |-> looked, found |-> {i \in wanted : (((position <= i) /\ (i < looked)) /\ (~(((0 < heeds[c]) /\ (i \in journal[(heeds[c] - 1) + 1]))) /\ ~((i \in thinned[c]))))}, heeded |-> heeds[c], more |-> (position < known[c])]
    /\ UNCHANGED <<end, wanted, hw, elections, journal, start, trims, spare, known, heeds, thinned, position, has, twice, seen, late>>

\* The answer comes.
Take ==
    /\ (answer # None)
    /\ has' = (has \cup answer.found)
    /\ twice' = (IF twice THEN TRUE ELSE (0 < Cardinality((has \cap answer.found))))
    /\ seen' = MaxOf({seen, answer.heeded})
    /\ position' = answer.looked
    /\ answer' = None
    /\ UNCHANGED <<end, wanted, hw, elections, journal, start, trims, spare, known, heeds, thinned, late>>

\* The answer does not come in time: the reader asks again.
GiveUp ==
    /\ (answer # None)
    /\ answer' = None
    /\ UNCHANGED <<end, wanted, hw, elections, journal, start, trims, spare, known, heeds, thinned, position, has, twice, seen, late>>

\* A copy's index, which knows what lies below `indexed`, knows of no match from the position on.
Leap(c, indexed) ==
    /\ (answer = None)
    /\ (position < indexed)
    /\ (indexed <= known[c])
    /\ (seen <= heeds[c])
    /\ (\A i \in wanted : (((position <= i) /\ (i < indexed)) => ~((~(((0 < Len(journal)) /\ (i \in journal[(Len(journal) - 1) + 1]))) /\ ~((i \in spare))))))
    /\ position' = indexed
    /\ UNCHANGED <<end, wanted, hw, elections, journal, start, trims, spare, known, heeds, thinned, has, twice, seen, answer, late>>

\* The log begins behind the position, says a copy.
BeginLater(c) ==
    /\ (answer = None)
    /\ (position < start)
    /\ (start <= known[c])
    /\ position' = start
    /\ UNCHANGED <<end, wanted, hw, elections, journal, start, trims, spare, known, heeds, thinned, has, twice, seen, answer, late>>

Next ==
    \/ \E matches \in BOOLEAN : Write(matches)
    \/ \E end2 \in (0..Records) : Commit(end2)
    \/ \E end2 \in (0..Records) : Elect(end2)
    \/ \E at \in (0..Records - 1) : Delete(at)
    \/ \E to \in (0..Records) : Trim(to)
    \/ \E c \in Copy, at \in (0..Records - 1) : Thin(c, at)
    \/ \E c \in Copy : FetchAnew(c)
    \/ \E c \in Copy, end2 \in (0..Records), heeded \in (0..Deletes) : Hear(c, end2, heeded)
    \/ \E c \in Copy, looked \in (0..Records) : Ask(c, looked)
    \/ Take
    \/ GiveUp
    \/ \E c \in Copy, indexed \in (0..Records) : Leap(c, indexed)
    \/ \E c \in Copy : BeginLater(c)

Spec == Init /\ [][Next]_vars

\* What the reader has is committed, matches, and lies below its position.
HasWhatIs ==
    (\A i \in has : (((i < hw) /\ (i < position)) /\ (i \in wanted)))

\* What matches below the position it has, but for what is gone.
NothingLeftOut ==
    (\A i \in wanted : ((((i < position) /\ (start <= i)) /\ (~(((0 < Len(journal)) /\ (i \in journal[(Len(journal) - 1) + 1]))) /\ ~((i \in spare)))) => (i \in has)))

\* Nothing comes again.
EachOnce ==
    ~twice

\* What the reader was told to be deleted, it is not sent any more.
DeletedIsNotSent ==
    ((answer # None) => (\A i \in answer.found : ~(((0 < seen) /\ (i \in journal[(seen - 1) + 1])))))

\* Where there is more to look at, an answer says a later position, though nothing matches.
ComesOn ==
    ((answer # None) => (IF (answer.at < answer.looked) THEN TRUE ELSE ~(answer.more)))

==============================================================================
