------------------------- MODULE PriorityGroupsRight -------------------------

\* The pulls of one consumer at its leaders.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Client, Leaders, Pins, Messages, Time

VARIABLES
    by_pin, newest, to_come, waiting, pinned, counted, left, age, waits_at, minimum, acks, pin_of, pin_by, stray, low

vars == <<by_pin, newest, to_come, waiting, pinned, counted, left, age, waits_at, minimum, acks, pin_of, pin_by, stray, low>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ by_pin \in BOOLEAN
    /\ newest \in (1..Leaders)
    /\ to_come \in [(1..Leaders) -> (0..Messages)]
    /\ waiting \in [(1..Leaders) -> (0..Messages)]
    /\ pinned \in [(1..Leaders) -> SUBSET (0..Pins)]
    /\ counted \in [(1..Leaders) -> (0..Pins)]
    /\ left \in [(1..Leaders) -> (0..Time)]
    /\ age \in [(1..Leaders) -> (0..Time + 1)]
    /\ waits_at \in [Client -> (0..Leaders)]
    /\ minimum \in [Client -> (0..Messages)]
    /\ acks \in [Client -> (0..Messages)]
    /\ pin_of \in [Client -> (0..Pins)]
    /\ pin_by \in [Client -> (0..Leaders)]
    /\ stray \in BOOLEAN
    /\ low \in BOOLEAN

Init ==
    \E by_pin2 \in BOOLEAN :
        /\ by_pin = by_pin2
        /\ newest = 1
        /\ to_come = [x \in (1..Leaders) |-> 0]
        /\ waiting = [x \in (1..Leaders) |-> 0]
        /\ pinned = [x \in (1..Leaders) |-> {}]
        /\ counted = [x \in (1..Leaders) |-> 0]
        /\ left = [x \in (1..Leaders) |-> 0]
        /\ age = [x \in (1..Leaders) |-> 0]
        /\ waits_at = [x \in Client |-> 0]
        /\ minimum = [x \in Client |-> 0]
        /\ acks = [x \in Client |-> 0]
        /\ pin_of = [x \in Client |-> 0]
        /\ pin_by = [x \in Client |-> 0]
        /\ stray = FALSE
        /\ low = FALSE

\* A pull comes.
Begin(c, at, least, acks2) ==
    /\ (at <= newest)
    /\ (waits_at[c] = 0)
    /\ (~by_pin \/ ((least = 0) /\ (acks2 = 0)))
    /\ waits_at' = [waits_at EXCEPT ![c] = at]
    /\ minimum' = [minimum EXCEPT ![c] = least]
    /\ acks' = [acks EXCEPT ![c] = acks2]
    /\ left' = [left EXCEPT ![at] = (IF (((0 < pin_of[c]) /\ (pin_by[c] = at)) /\ (pin_of[c] \in pinned[at])) THEN Time ELSE left[at])]
    /\ age' = [age EXCEPT ![at] = (IF (((0 < pin_of[c]) /\ (pin_by[c] = at)) /\ (pin_of[c] \in pinned[at])) THEN 0 ELSE age[at])]
    /\ UNCHANGED <<by_pin, newest, to_come, waiting, pinned, counted, pin_of, pin_by, stray, low>>

\* The next slice of a pull with a pin comes.
GoOn(c, at) ==
    /\ by_pin
    /\ (at <= newest)
    /\ (waits_at[c] = 0)
    /\ (0 < pin_of[c])
    /\ waits_at' = [waits_at EXCEPT ![c] = at]
    /\ UNCHANGED <<by_pin, newest, to_come, waiting, pinned, counted, left, age, minimum, acks, pin_of, pin_by, stray, low>>

\* Its time is over, or its connection.
GiveUp(c) ==
    /\ (0 < waits_at[c])
    /\ waits_at' = [waits_at EXCEPT ![c] = 0]
    /\ minimum' = [minimum EXCEPT ![c] = 0]
    /\ acks' = [acks EXCEPT ![c] = 0]
    /\ UNCHANGED <<by_pin, newest, to_come, waiting, pinned, counted, left, age, pin_of, pin_by, stray, low>>

\* It begins anew, or what came with the pin never reached it.
Forget(c) ==
    /\ (waits_at[c] = 0)
    /\ (0 < pin_of[c])
    /\ pin_of' = [pin_of EXCEPT ![c] = 0]
    /\ pin_by' = [pin_by EXCEPT ![c] = 0]
    /\ UNCHANGED <<by_pin, newest, to_come, waiting, pinned, counted, left, age, waits_at, minimum, acks, stray, low>>

\* So many in one answer, all of which are new, or come again.
Give(c, at, messages, again) ==
    /\ (waits_at[c] = at)
    /\ ((by_pin /\ again) \/ (messages <= (IF again THEN waiting[at] ELSE to_come[at])))
    /\ (by_pin \/ (again \/ ((waiting[at] + messages) <= Messages)))
    /\ TRUE
    /\ (\A i \in (0..Messages) : ((i < messages) => ((((minimum[c] = 0) /\ (acks[c] = 0)) \/ ((0 < minimum[c]) /\ (minimum[c] <= (IF again THEN (to_come[at] + 1) ELSE (to_come[at] - i))))) \/ ((0 < acks[c]) /\ (acks[c] <= (IF again THEN waiting[at] ELSE (waiting[at] + i)))))))
    /\ (~by_pin \/ ((((0 < pin_of[c]) /\ (pin_by[c] = at)) /\ (pin_of[c] \in pinned[at])) \/ ((Cardinality(pinned[at]) = 0) /\ ((pin_of[c] = 0) /\ (counted[at] < Pins)))))
    /\ stray' = (stray \/ ((0 < Cardinality(pinned[at])) /\ ~((((0 < pin_of[c]) /\ (pin_by[c] = at)) /\ (pin_of[c] \in pinned[at])))))
    /\ low' = (low \/ ~((\A i \in (0..Messages) : ((i < messages) => ((((minimum[c] = 0) /\ (acks[c] = 0)) \/ ((0 < minimum[c]) /\ (minimum[c] <= (IF again THEN (to_come[at] + 1) ELSE (to_come[at] - i))))) \/ ((0 < acks[c]) /\ (acks[c] <= (IF again THEN waiting[at] ELSE (waiting[at] + i)))))))))
    /\ pin_of' = [pin_of EXCEPT ![c] = (IF (((by_pin /\ (pin_of[c] = 0)) /\ (counted[at] < Pins)) /\ ((Cardinality(pinned[at]) = 0) \/ FALSE)) THEN (IF (counted[at] < Pins) THEN (counted[at] + 1) ELSE counted[at]) ELSE pin_of[c])]
    /\ pin_by' = [pin_by EXCEPT ![c] = (IF (((by_pin /\ (pin_of[c] = 0)) /\ (counted[at] < Pins)) /\ ((Cardinality(pinned[at]) = 0) \/ FALSE)) THEN at ELSE pin_by[c])]
    /\ counted' = [counted EXCEPT ![at] = (IF (((by_pin /\ (pin_of[c] = 0)) /\ (counted[at] < Pins)) /\ ((Cardinality(pinned[at]) = 0) \/ FALSE)) THEN (IF (counted[at] < Pins) THEN (counted[at] + 1) ELSE counted[at]) ELSE counted[at])]
    /\ pinned' = [pinned EXCEPT ![at] = (IF (((by_pin /\ (pin_of[c] = 0)) /\ (counted[at] < Pins)) /\ ((Cardinality(pinned[at]) = 0) \/ FALSE)) THEN (pinned[at] \cup {(IF (counted[at] < Pins) THEN (counted[at] + 1) ELSE counted[at])}) ELSE pinned[at])]
    /\ left' = [left EXCEPT ![at] = (IF (((by_pin /\ (pin_of[c] = 0)) /\ (counted[at] < Pins)) /\ ((Cardinality(pinned[at]) = 0) \/ FALSE)) THEN Time ELSE left[at])]
    /\ age' = [age EXCEPT ![at] = (IF (((by_pin /\ (pin_of[c] = 0)) /\ (counted[at] < Pins)) /\ ((Cardinality(pinned[at]) = 0) \/ FALSE)) THEN 0 ELSE age[at])]
    /\ to_come' = [to_come EXCEPT ![at] = (IF again THEN to_come[at] ELSE (to_come[at] - messages))]
    /\ waiting' = [waiting EXCEPT ![at] = (IF (by_pin \/ again) THEN waiting[at] ELSE (waiting[at] + messages))]
    /\ waits_at' = [waits_at EXCEPT ![c] = 0]
    /\ minimum' = [minimum EXCEPT ![c] = 0]
    /\ acks' = [acks EXCEPT ![c] = 0]
    /\ UNCHANGED <<by_pin, newest>>

\* It names a pin that does not hold: it asks without one then.
Refuse(c, at) ==
    /\ (waits_at[c] = at)
    /\ (0 < pin_of[c])
    /\ ~((((0 < pin_of[c]) /\ (pin_by[c] = at)) /\ (pin_of[c] \in pinned[at])))
    /\ waits_at' = [waits_at EXCEPT ![c] = 0]
    /\ minimum' = [minimum EXCEPT ![c] = 0]
    /\ acks' = [acks EXCEPT ![c] = 0]
    /\ pin_of' = [pin_of EXCEPT ![c] = 0]
    /\ pin_by' = [pin_by EXCEPT ![c] = 0]
    /\ UNCHANGED <<by_pin, newest, to_come, waiting, pinned, counted, left, age, stray, low>>

\* A pin whose time is over is lost.
Tick(at) ==
    /\ (0 < Cardinality(pinned[at]))
    /\ (age[at] <= Time)
    /\ left' = [left EXCEPT ![at] = (IF (left[at] = 0) THEN 0 ELSE (left[at] - 1))]
    /\ age' = [age EXCEPT ![at] = (IF (left[at] = 0) THEN 0 ELSE (age[at] + 1))]
    /\ pinned' = [pinned EXCEPT ![at] = (IF (left[at] = 0) THEN (pinned[at] \ pinned[at]) ELSE pinned[at])]
    /\ UNCHANGED <<by_pin, newest, to_come, waiting, counted, waits_at, minimum, acks, pin_of, pin_by, stray, low>>

Unpin(at) ==
    /\ (0 < Cardinality(pinned[at]))
    /\ pinned' = [pinned EXCEPT ![at] = (pinned[at] \ pinned[at])]
    /\ left' = [left EXCEPT ![at] = 0]
    /\ age' = [age EXCEPT ![at] = 0]
    /\ UNCHANGED <<by_pin, newest, to_come, waiting, counted, waits_at, minimum, acks, pin_of, pin_by, stray, low>>

\* One more is committed.
Come(at) ==
    /\ (to_come[at] < Messages)
    /\ to_come' = [to_come EXCEPT ![at] = (to_come[at] + 1)]
    /\ UNCHANGED <<by_pin, newest, waiting, pinned, counted, left, age, waits_at, minimum, acks, pin_of, pin_by, stray, low>>

\* One is deleted before it was given to anybody.
Go(at) ==
    /\ (0 < to_come[at])
    /\ to_come' = [to_come EXCEPT ![at] = (to_come[at] - 1)]
    /\ UNCHANGED <<by_pin, newest, waiting, pinned, counted, left, age, waits_at, minimum, acks, pin_of, pin_by, stray, low>>

\* One waits no more for its ack.
Done(at) ==
    /\ (0 < waiting[at])
    /\ waiting' = [waiting EXCEPT ![at] = (waiting[at] - 1)]
    /\ UNCHANGED <<by_pin, newest, to_come, pinned, counted, left, age, waits_at, minimum, acks, pin_of, pin_by, stray, low>>

\* Another one leads, which knows of so many; the one before may not know it.
Elect(to_come2, waiting2) ==
    /\ (newest < Leaders)
    /\ (~by_pin \/ (waiting2 = 0))
    /\ to_come' = [to_come EXCEPT ![(newest + 1)] = to_come2]
    /\ waiting' = [waiting EXCEPT ![(newest + 1)] = waiting2]
    /\ newest' = (newest + 1)
    /\ UNCHANGED <<by_pin, pinned, counted, left, age, waits_at, minimum, acks, pin_of, pin_by, stray, low>>

Next ==
    \/ \E c \in Client, at \in (1..Leaders), least \in (0..Messages), acks2 \in (0..Messages) : Begin(c, at, least, acks2)
    \/ \E c \in Client, at \in (1..Leaders) : GoOn(c, at)
    \/ \E c \in Client : GiveUp(c)
    \/ \E c \in Client : Forget(c)
    \/ \E c \in Client, at \in (1..Leaders), messages \in (1..Messages), again \in BOOLEAN : Give(c, at, messages, again)
    \/ \E c \in Client, at \in (1..Leaders) : Refuse(c, at)
    \/ \E at \in (1..Leaders) : Tick(at)
    \/ \E at \in (1..Leaders) : Unpin(at)
    \/ \E at \in (1..Leaders) : Come(at)
    \/ \E at \in (1..Leaders) : Go(at)
    \/ \E at \in (1..Leaders) : Done(at)
    \/ \E to_come2 \in (0..Messages), waiting2 \in (0..Messages) : Elect(to_come2, waiting2)

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
