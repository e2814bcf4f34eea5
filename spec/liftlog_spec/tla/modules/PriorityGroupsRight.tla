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
    /\ pinned = [x \in (1..Leaders) |-> {}]
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
Begin(c, at, least) ==
    /\ (at <= newest)
    /\ (waits_at[c] = 0)
    /\ waits_at' = [waits_at EXCEPT ![c] = at]
    /\ minimum' = [minimum EXCEPT ![c] = least]
    /\ left' = [left EXCEPT ![at] = (IF (((0 < pin_of[c]) /\ (pin_by[c] = at)) /\ (pin_of[c] \in pinned[at])) THEN Time ELSE left[at])]
    /\ age' = [age EXCEPT ![at] = (IF (((0 < pin_of[c]) /\ (pin_by[c] = at)) /\ (pin_of[c] \in pinned[at])) THEN 0 ELSE age[at])]
    /\ UNCHANGED <<newest, to_come, pinned, counted, pin_of, pin_by, stray, low>>

GiveUp(c) ==
    /\ (0 < waits_at[c])
    /\ waits_at' = [waits_at EXCEPT ![c] = 0]
    /\ minimum' = [minimum EXCEPT ![c] = 0]
    /\ UNCHANGED <<newest, to_come, pinned, counted, left, age, pin_of, pin_by, stray, low>>

\* So many in one answer.
Give(c, at, messages) ==
    /\ (waits_at[c] = at)
    /\ (messages <= to_come)
    /\ (minimum[c] <= to_come)
    /\ (minimum[c] <= (to_come - (messages - 1)))
    /\ ((((0 < pin_of[c]) /\ (pin_by[c] = at)) /\ (pin_of[c] \in pinned[at])) \/ ((Cardinality(pinned[at]) = 0) /\ (pin_of[c] = 0)))
    /\ (((pin_of[c] = 0) /\ (counted[at] < Pins)) \/ (((0 < pin_of[c]) /\ (pin_by[c] = at)) /\ (pin_of[c] \in pinned[at])))
    /\ stray' = (stray \/ ((0 < Cardinality(pinned[at])) /\ ~((((0 < pin_of[c]) /\ (pin_by[c] = at)) /\ (pin_of[c] \in pinned[at])))))
    /\ low' = (low \/ ((to_come - (messages - 1)) < minimum[c]))
    /\ pin_of' = [pin_of EXCEPT ![c] = (IF (((pin_of[c] = 0) /\ (counted[at] < Pins)) /\ ((Cardinality(pinned[at]) = 0) \/ FALSE)) THEN (IF (counted[at] < Pins) THEN (counted[at] + 1) ELSE counted[at]) ELSE pin_of[c])]
    /\ pin_by' = [pin_by EXCEPT ![c] = (IF (((pin_of[c] = 0) /\ (counted[at] < Pins)) /\ ((Cardinality(pinned[at]) = 0) \/ FALSE)) THEN at ELSE pin_by[c])]
    /\ counted' = [counted EXCEPT ![at] = (IF (((pin_of[c] = 0) /\ (counted[at] < Pins)) /\ ((Cardinality(pinned[at]) = 0) \/ FALSE)) THEN (IF (counted[at] < Pins) THEN (counted[at] + 1) ELSE counted[at]) ELSE counted[at])]
    /\ pinned' = [pinned EXCEPT ![at] = (IF (((pin_of[c] = 0) /\ (counted[at] < Pins)) /\ ((Cardinality(pinned[at]) = 0) \/ FALSE)) THEN (pinned[at] \cup {(IF (counted[at] < Pins) THEN (counted[at] + 1) ELSE counted[at])}) ELSE pinned[at])]
    /\ left' = [left EXCEPT ![at] = (IF (((pin_of[c] = 0) /\ (counted[at] < Pins)) /\ ((Cardinality(pinned[at]) = 0) \/ FALSE)) THEN Time ELSE left[at])]
    /\ age' = [age EXCEPT ![at] = (IF (((pin_of[c] = 0) /\ (counted[at] < Pins)) /\ ((Cardinality(pinned[at]) = 0) \/ FALSE)) THEN 0 ELSE age[at])]
    /\ to_come' = (to_come - messages)
    /\ waits_at' = [waits_at EXCEPT ![c] = 0]
    /\ minimum' = [minimum EXCEPT ![c] = 0]
    /\ UNCHANGED <<newest>>

\* It names a pin that does not hold, and there is a message for it: it asks without one then.
Refuse(c, at) ==
    /\ (waits_at[c] = at)
    /\ (0 < pin_of[c])
    /\ ~((((0 < pin_of[c]) /\ (pin_by[c] = at)) /\ (pin_of[c] \in pinned[at])))
    /\ (0 < to_come)
    /\ waits_at' = [waits_at EXCEPT ![c] = 0]
    /\ minimum' = [minimum EXCEPT ![c] = 0]
    /\ pin_of' = [pin_of EXCEPT ![c] = 0]
    /\ pin_by' = [pin_by EXCEPT ![c] = 0]
    /\ UNCHANGED <<newest, to_come, pinned, counted, left, age, stray, low>>

\* A pin whose time is over is lost.
Tick(at) ==
    /\ (0 < Cardinality(pinned[at]))
    /\ (age[at] <= Time)
    /\ left' = [left EXCEPT ![at] = (IF (left[at] = 0) THEN 0 ELSE (left[at] - 1))]
    /\ age' = [age EXCEPT ![at] = (IF (left[at] = 0) THEN 0 ELSE (age[at] + 1))]
    /\ pinned' = [pinned EXCEPT ![at] = (IF (left[at] = 0) THEN (pinned[at] \ pinned[at]) ELSE pinned[at])]
    /\ UNCHANGED <<newest, to_come, counted, waits_at, minimum, pin_of, pin_by, stray, low>>

Unpin(at) ==
    /\ (0 < Cardinality(pinned[at]))
    /\ pinned' = [pinned EXCEPT ![at] = (pinned[at] \ pinned[at])]
    /\ left' = [left EXCEPT ![at] = 0]
    /\ age' = [age EXCEPT ![at] = 0]
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
    \/ \E c \in Client, at \in (1..Leaders), least \in (0..Messages) : Begin(c, at, least)
    \/ \E c \in Client : GiveUp(c)
    \/ \E c \in Client, at \in (1..Leaders), messages \in (1..Messages) : Give(c, at, messages)
    \/ \E c \in Client, at \in (1..Leaders) : Refuse(c, at)
    \/ \E at \in (1..Leaders) : Tick(at)
    \/ \E at \in (1..Leaders) : Unpin(at)
    \/ Publish
    \/ Elect

Spec == Init /\ [][Next]_vars

\* Of each leader at most one pin holds, and at most one client has it.
OnePinned ==
    (\A at \in (1..Leaders) : ((Cardinality(pinned[at]) <= 1) /\ (Cardinality({c \in Client : (((0 < pin_of[c]) /\ (pin_by[c] = at)) /\ (pin_of[c] \in pinned[at]))}) <= 1)))

\* While somebody is pinned nobody else is given messages.
PinnedAlone ==
    ~stray

NotBelowMinimum ==
    ~low

\* A pin does not outlive its time when nobody begins a pull with it.
PinIsLost ==
    (\A at \in (1..Leaders) : ((0 < Cardinality(pinned[at])) => (age[at] <= Time)))

==============================================================================
