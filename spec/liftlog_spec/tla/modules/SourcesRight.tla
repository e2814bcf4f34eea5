---------------------------- MODULE SourcesRight -----------------------------

\* A log and its two origins. Of each origin, a record passes, or does not.
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    None, Records, Entries, Epochs

VARIABLES
    committed, epoch, log, hw, start, place, answer, away

vars == <<committed, epoch, log, hw, start, place, answer, away>>

MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
MaxOf(S) == CHOOSE x \in S : \A y \in S : x >= y

TypeOK ==
    /\ committed \in [{"left", "right"} -> (0..Records)]
    /\ epoch \in (1..Epochs)
    /\ ((log \in Seq([of: {"left", "right"}, at: (0..Records - 1), left: (0..Records), right: (0..Records)])) /\ (Len(log) <= Entries))
    /\ hw \in (0..Entries)
    /\ start \in (0..Entries)
    /\ place \in [{"left", "right"} -> (0..Records)]
    /\ answer \in ([of: {"left", "right"}, at: (0..Records - 1)] \cup {None})
    /\ away \in [{"left", "right"} -> BOOLEAN]

\* The filter: all but the first record of the one origin, which begins at 1; all of the other one.
Passes(origin, at) ==
    ((origin = "right") \/ (0 < at))

\* What is next of an origin, by the last record of a log that ends there.
Said(origin, end) ==
    MaxOf({(IF ((start <= i) /\ ((i + 1) = end)) THEN (IF (origin = "left") THEN log[i + 1].left ELSE log[i + 1].right) ELSE 0) : i \in (0..Entries - 1)})

Init ==
    /\ committed = [x \in {"left", "right"} |-> 0]
    /\ epoch = 1
    /\ log = <<>>
    /\ hw = 0
    /\ start = 0
    /\ place = [x \in {"left", "right"} |-> 0]
    /\ answer = None
    /\ away = [x \in {"left", "right"} |-> FALSE]

Grow(origin) ==
    /\ (committed[origin] < Records)
    /\ committed' = [committed EXCEPT ![origin] = (committed[origin] + 1)]
    /\ UNCHANGED <<epoch, log, hw, start, place, answer, away>>

\* And the origin answers: the record there, or that it does not pass.
Ask(origin, at) ==
    /\ (at = place[origin])
    /\ (at < committed[origin])
    /\ ~(away[origin])
    /\ answer' = [of |-> origin, at |-> at]
    /\ UNCHANGED <<committed, epoch, log, hw, start, place, away>>

\* The answer comes, or comes again, with a record that passes.
Take ==
    /\ (answer # None)
    /\ (Len(log) < Entries)
    /\ ~(away[answer.of])
    /\ (answer.at = place[answer.of])
    /\ Passes(answer.of, answer.at)
    /\ log' = Append(log, [of |-> answer.of, at |-> answer.at, left |-> (IF (answer.of = "left") THEN (answer.at + 1) ELSE place["left"]), right |-> (IF (answer.of = "left") THEN place["right"] ELSE (answer.at + 1))])
    /\ place' = [place EXCEPT ![answer.of] = (answer.at + 1)]
    /\ UNCHANGED <<committed, epoch, hw, start, answer, away>>

\* It does not pass.
PassOver ==
    /\ (answer # None)
    /\ ~(away[answer.of])
    /\ (answer.at = place[answer.of])
    /\ ~Passes(answer.of, answer.at)
    /\ place' = [place EXCEPT ![answer.of] = (answer.at + 1)]
    /\ UNCHANGED <<committed, epoch, log, hw, start, answer, away>>

TakeAway(origin) ==
    /\ ~(away[origin])
    /\ away' = [away EXCEPT ![origin] = TRUE]
    /\ UNCHANGED <<committed, epoch, log, hw, start, place, answer>>

GiveAgain(origin) ==
    /\ away[origin]
    /\ away' = [away EXCEPT ![origin] = FALSE]
    /\ UNCHANGED <<committed, epoch, log, hw, start, place, answer>>

Commit ==
    /\ (hw < Len(log))
    /\ hw' = (hw + 1)
    /\ UNCHANGED <<committed, epoch, log, start, place, answer, away>>

\* The front goes by one record; the last one that is committed stays.
Forget ==
    /\ (start < (hw - 1))
    /\ start' = (start + 1)
    /\ UNCHANGED <<committed, epoch, log, hw, place, answer, away>>

\* Another one leads, which has this much.
Elect(end) ==
    /\ (epoch < Epochs)
    /\ (hw <= end)
    /\ (end <= Len(log))
    /\ epoch' = (epoch + 1)
    /\ place' = [[place EXCEPT !["left"] = Said("left", end)] EXCEPT !["right"] = Said("right", end)]
    /\ log' = SubSeq(log, 1, MinOf({end, Len(log)}))
    /\ UNCHANGED <<committed, hw, start, answer, away>>

Next ==
    \/ \E origin \in {"left", "right"} : Grow(origin)
    \/ \E origin \in {"left", "right"}, at \in (0..Records - 1) : Ask(origin, at)
    \/ Take
    \/ PassOver
    \/ \E origin \in {"left", "right"} : TakeAway(origin)
    \/ \E origin \in {"left", "right"} : GiveAgain(origin)
    \/ Commit
    \/ Forget
    \/ \E end \in (0..Entries) : Elect(end)

Spec == Init /\ [][Next]_vars

\* No record of an origin is committed twice.
EachOnce ==
    (\A i \in (0..Entries - 1) : (\A j \in (0..Entries - 1) : (((i < j) /\ (j < hw)) => (IF (log[i + 1].of # log[j + 1].of) THEN TRUE ELSE (log[i + 1].at # log[j + 1].at)))))

\* What lies below a committed record of its origin, and passes, is committed before it.
NoneSkipped ==
    (\A i \in (0..Entries - 1) : ((i < hw) => (\A at \in (0..Records - 1) : (((at < log[i + 1].at) /\ Passes(log[i + 1].of, at)) => (\E j \in (0..Entries - 1) : ((j < i) /\ ((log[j + 1].of = log[i + 1].of) /\ (log[j + 1].at = at))))))))

==============================================================================
