---------------------------- MODULE SourcesRight -----------------------------

\* A log and its two origins. Of each origin, a record passes, or does not.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Records, Entries, Epochs

VARIABLES
    committed, epoch, log, hw, start, began, answer

vars == <<committed, epoch, log, hw, start, began, answer>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ committed \in [{"left", "right"} -> (0..Records)]
    /\ epoch \in (1..Epochs)
    /\ ((log \in Seq([of: {"left", "right"}, at: (0..Records - 1), note: BOOLEAN])) /\ (Len(log) <= Entries))
    /\ hw \in (0..Entries)
    /\ start \in (0..Entries)
    /\ began \in BOOLEAN
    /\ answer \in ([of: {"left", "right"}, at: (0..Records - 1)] \cup {None})

\* The filter: the first record of the one origin, all but the first of the other one.
Passes(origin, at) ==
    ((origin = "left") = (at = 0))

\* Up to where the log has an origin, by its entries of [begin, end).
Known(origin, begin, end) ==
    MaxOf({(IF ((begin <= i) /\ (i < end)) THEN (IF (log[i + 1].of = origin) THEN (log[i + 1].at + 1) ELSE 0) ELSE 0) : i \in (0..Entries - 1)})

Init ==
    /\ committed = [x \in {"left", "right"} |-> 0]
    /\ epoch = 1
    /\ log = <<>>
    /\ hw = 0
    /\ start = 0
    /\ began = FALSE
    /\ answer = None

Grow(origin) ==
    /\ (committed[origin] < Records)
    /\ committed' = [committed EXCEPT ![origin] = (committed[origin] + 1)]
    /\ UNCHANGED <<epoch, log, hw, start, began, answer>>

\* And the origin answers: the record there, or that it does not pass.
Ask(origin, at) ==
    /\ (at = Known(origin, start, Len(log)))
    /\ (at < committed[origin])
    /\ answer' = [of |-> origin, at |-> at]
    /\ began' = TRUE
    /\ UNCHANGED <<committed, epoch, log, hw, start>>

\* The answer comes, or comes again.
Take ==
    /\ (answer # None)
    /\ (Len(log) < Entries)
    /\ (answer.at = Known(answer.of, start, Len(log)))
    /\ log' = Append(log, [of |-> answer.of, at |-> answer.at, note |-> ~Passes(answer.of, answer.at)])
    /\ UNCHANGED <<committed, epoch, hw, start, began, answer>>

Commit ==
    /\ (hw < Len(log))
    /\ hw' = (hw + 1)
    /\ UNCHANGED <<committed, epoch, log, start, began, answer>>

\* The front goes by one entry, if what it says is said again behind it.
Forget ==
    /\ (start < hw)
    /\ (0 < Known(log[start + 1].of, (start + 1), hw))
    /\ start' = (start + 1)
    /\ UNCHANGED <<committed, epoch, log, hw, began, answer>>

\* Another one leads, which has this much.
Elect(end) ==
    /\ (epoch < Epochs)
    /\ (hw <= end)
    /\ (end <= Len(log))
    /\ epoch' = (epoch + 1)
    /\ log' = SubSeq(log, 1, MinOf({end, Len(log)}))
    /\ began' = FALSE
    /\ UNCHANGED <<committed, hw, start, answer>>

Next ==
    \/ \E origin \in {"left", "right"} : Grow(origin)
    \/ \E origin \in {"left", "right"}, at \in (0..Records - 1) : Ask(origin, at)
    \/ Take
    \/ Commit
    \/ Forget
    \/ \E end \in (0..Entries) : Elect(end)

Spec == Init /\ [][Next]_vars

\* No record of an origin is committed twice.
EachOnce ==
    (\A i \in (0..Entries - 1) : (\A j \in (0..Entries - 1) : (((i < j) /\ (j < hw)) => (IF (log[i + 1].of # log[j + 1].of) THEN TRUE ELSE (log[i + 1].at # log[j + 1].at)))))

\* What lies below a committed record of its origin, and passes, is committed before it.
NoneSkipped ==
    (\A i \in (0..Entries - 1) : ((i < hw) => (\A at \in (0..Records - 1) : (((at < log[i + 1].at) /\ Passes(log[i + 1].of, at)) => (\E j \in (0..Entries - 1) : ((j < i) /\ ((log[j + 1].of = log[i + 1].of) /\ ((log[j + 1].at = at) /\ ~(log[j + 1].note)))))))))

==============================================================================
