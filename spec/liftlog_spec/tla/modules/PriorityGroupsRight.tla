------------------------- MODULE PriorityGroupsRight -------------------------

\* The pulls of one consumer at its leaders.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Client, Leaders, Pins, Messages, Time

VARIABLES
    newest, to_come, pinned, counted, left, age, waits_at, minimum, pin_of, pin_by, stray, low

vars == <<newest, to_come, pinned, counted, left, age, waits_at, minimum, pin_of, pin_by, stray, low>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ newest \in (1..Leaders)
    /\ to_come \in (0..Messages)
    /\ pinned \in [(1..Leaders) -> SUBSET (0..Pins)]
    /\ counted \in [(1..Leaders) -> (0..Pins)]
    /\ left \in [(1..Leaders) -> (0..Time)]
    /\ age \in [(1..Leaders) -> (0..Time + 1)]
    /\ waits_at \in [Client -> (0..Leaders)]
    /\ minimum \in [Client -> (0..Messages)]
    /\ pin_of \in [Client -> (0..Pins)]
    /\ pin_by \in [Client -> (0..Leaders)]
    /\ stray \in BOOLEAN
    /\ low \in BOOLEAN

Init ==
    /\ newest = 1
    /\ to_come = 0
    /\ pinned = [x \in (1..Publishers) |-> {}]
    /\ counted = [x \in (1..Leaders) |-> 0]
    /\ left = [x \in (1..Leaders) |-> 0]
    /\ age = [x \in (1..Leaders) |-> 0]
    /\ waits_at = [x \in Client |-> 0]
    /\ minimum = [x \in Client |-> 0]
    /\ pin_of = [x \in Client |-> 0]
    /\ pin_by = [x \in Client |-> 0]
    /\ stray = FALSE
    /\ low = FALSE

\* A pull comes.
Begin(c, l, least) ==
    /\ (l <= newest)
    /\ (waits_at[c] = 0)
    /\ waits_at' = [waits_at EXCEPT ![c] = l]
    /\ minimum' = [minimum EXCEPT ![c] = least]
    /\ left' = [left EXCEPT ![l] = (IF (((0 < pin_of[c]) /\ (pin_by[c] = l)) /\ (pin_of[c] \in pinned[l])) THEN Time ELSE left[l])]
    /\ age' = [age EXCEPT ![l] = (IF (((0 < pin_of[c]) /\ (pin_by[c] = l)) /\ (pin_of[c] \in pinned[l])) THEN 0 ELSE age[l])]
    /\ UNCHANGED <<newest, to_come, pinned, counted, pin_of, pin_by, stray, low>>

GiveUp(c) ==
    /\ (0 < waits_at[c])
    /\ waits_at' = [waits_at EXCEPT ![c] = 0]
    /\ minimum' = [minimum EXCEPT ![c] = 0]
    /\ UNCHANGED <<newest, to_come, pinned, counted, left, age, pin_of, pin_by, stray, low>>

\* So many in one answer.
Give(c, l, messages) ==
    /\ (waits_at[c] = l)
    /\ (messages <= to_come)
    /\ (minimum[c] <= to_come)
    /\ (minimum[c] <= (to_come - (messages - 1)))
    /\ ((((0 < pin_of[c]) /\ (pin_by[c] = l)) /\ (pin_of[c] \in pinned[l])) \/ ((Cardinality(pinned[l]) = 0) /\ (pin_of[c] = 0)))
    /\ (((pin_of[c] = 0) /\ (counted[l] < Pins)) \/ (((0 < pin_of[c]) /\ (pin_by[c] = l)) /\ (pin_of[c] \in pinned[l])))
    /\ stray' = (stray \/ ((0 < Cardinality(pinned[l])) /\ ~((((0 < pin_of[c]) /\ (pin_by[c] = l)) /\ (pin_of[c] \in pinned[l])))))
    /\ low' = (low \/ ((to_come - (messages - 1)) < minimum[c]))
    /\ pin_of' = [pin_of EXCEPT ![c] = (IF (((pin_of[c] = 0) /\ (counted[l] < Pins)) /\ ((Cardinality(pinned[l]) = 0) \/ FALSE)) THEN (IF (counted[l] < Pins) THEN (counted[l] + 1) ELSE counted[l]) ELSE pin_of[c])]
    /\ pin_by' = [pin_by EXCEPT ![c] = (IF (((pin_of[c] = 0) /\ (counted[l] < Pins)) /\ ((Cardinality(pinned[l]) = 0) \/ FALSE)) THEN l ELSE pin_by[c])]
    /\ counted' = [counted EXCEPT ![l] = (IF (((pin_of[c] = 0) /\ (counted[l] < Pins)) /\ ((Cardinality(pinned[l]) = 0) \/ FALSE)) THEN (IF (counted[l] < Pins) THEN (counted[l] + 1) ELSE counted[l]) ELSE counted[l])]
    /\ pinned' = [pinned EXCEPT ![l] = (IF (((pin_of[c] = 0) /\ (counted[l] < Pins)) /\ ((Cardinality(pinned[l]) = 0) \/ FALSE)) THEN (pinned[l] \cup {(IF (counted[l] < Pins) THEN (counted[l] + 1) ELSE counted[l])}) ELSE pinned[l])]
    /\ left' = [left EXCEPT ![l] = (IF (((pin_of[c] = 0) /\ (counted[l] < Pins)) /\ ((Cardinality(pinned[l]) = 0) \/ FALSE)) THEN Time ELSE left[l])]
    /\ age' = [age EXCEPT ![l] = (IF (((pin_of[c] = 0) /\ (counted[l] < Pins)) /\ ((Cardinality(pinned[l]) = 0) \/ FALSE)) THEN 0 ELSE age[l])]
    /\ to_come' = (to_come - messages)
    /\ waits_at' = [waits_at EXCEPT ![c] = 0]
    /\ minimum' = [minimum EXCEPT ![c] = 0]
    /\ UNCHANGED <<newest>>

\* It names a pin that does not hold, and there is a message for it: it asks without one then.
Refuse(c, l) ==
    /\ (waits_at[c] = l)
    /\ (0 < pin_of[c])
    /\ ~((((0 < pin_of[c]) /\ (pin_by[c] = l)) /\ (pin_of[c] \in pinned[l])))
    /\ (0 < to_come)
    /\ waits_at' = [waits_at EXCEPT ![c] = 0]
    /\ minimum' = [minimum EXCEPT ![c] = 0]
    /\ pin_of' = [pin_of EXCEPT ![c] = 0]
    /\ pin_by' = [pin_by EXCEPT ![c] = 0]
    /\ UNCHANGED <<newest, to_come, pinned, counted, left, age, stray, low>>

\* A pin whose time is over is lost.
Tick(l) ==
    /\ (0 < Cardinality(pinned[l]))
    /\ (age[l] <= Time)
    /\ left' = [left EXCEPT ![l] = (IF (left[l] = 0) THEN 0 ELSE (left[l] - 1))]
    /\ age' = [age EXCEPT ![l] = (IF (left[l] = 0) THEN 0 ELSE (age[l] + 1))]
    /\ pinned' = [pinned EXCEPT ![l] = (IF (left[l] = 0) THEN (pinned[l] \ pinned[l]) ELSE pinned[l])]
    /\ UNCHANGED <<newest, to_come, counted, waits_at, minimum, pin_of, pin_by, stray, low>>

Unpin(l) ==
    /\ (0 < Cardinality(pinned[l]))
    /\ pinned' = [pinned EXCEPT ![l] = (pinned[l] \ pinned[l])]
    /\ left' = [left EXCEPT ![l] = 0]
    /\ age' = [age EXCEPT ![l] = 0]
    /\ UNCHANGED <<newest, to_come, counted, waits_at, minimum, pin_of, pin_by, stray, low>>

Publish ==
    /\ (to_come < Messages)
    /\ to_come' = (to_come + 1)
    /\ UNCHANGED <<newest, pinned, counted, left, age, waits_at, minimum, pin_of, pin_by, stray, low>>

\* Another one leads; the one before may not know it.
Elect ==
    /\ (newest < Leaders)
    /\ newest' = (newest + 1)
    /\ UNCHANGED <<to_come, pinned, counted, left, age, waits_at, minimum, pin_of, pin_by, stray, low>>

Next ==
    \/ \E c \in Client, l \in (1..Leaders), least \in (0..Messages) : Begin(c, l, least)
    \/ \E c \in Client : GiveUp(c)
    \/ \E c \in Client, l \in (1..Leaders), messages \in (1..Messages) : Give(c, l, messages)
    \/ \E c \in Client, l \in (1..Leaders) : Refuse(c, l)
    \/ \E l \in (1..Leaders) : Tick(l)
    \/ \E l \in (1..Leaders) : Unpin(l)
    \/ Publish
    \/ Elect

Spec == Init /\ [][Next]_vars

\* Of each leader at most one pin holds, and at most one client has it.
OnePinned ==
    (\A l \in (1..Leaders) : ((Cardinality(pinned[l]) <= 1) /\ (Cardinality({c \in Client : (((0 < pin_of[c]) /\ (pin_by[c] = l)) /\ (pin_of[c] \in pinned[l]))}) <= 1)))

\* While somebody is pinned nobody else is given messages.
PinnedAlone ==
    ~stray

NotBelowMinimum ==
    ~low

\* A pin does not outlive its time when nobody begins a pull with it.
PinIsLost ==
    (\A l \in (1..Leaders) : ((0 < Cardinality(pinned[l])) => (age[l] <= Time)))

==============================================================================
