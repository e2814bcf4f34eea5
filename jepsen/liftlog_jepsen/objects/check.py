"""Is an object's history linearizable? Split by key, the fast algorithm where it applies, else the search.

    judgement = check_object(MODELS["register"], pair(events, name), options, Budget())

Sources: Herlihy & Wing 1990 for the property; Horn & Kroening 2015 for checking keys on their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from liftlog_jepsen.events import Operation
from liftlog_jepsen.formats.options import Options
from liftlog_jepsen.judgement import Budget, Judgement, Problem, merge
from liftlog_jepsen.objects.containers import PriorityQueue, Queue, Set, Stack
from liftlog_jepsen.objects.counts import Counter, Mutex, Semaphore
from liftlog_jepsen.objects.log_model import Log
from liftlog_jepsen.objects.model import Call, Contradiction, Model, State, calls_of, tell
from liftlog_jepsen.objects.registers import CasRegister, KeyValue, MultiRegister, ReadModifyWrite, Register
from liftlog_jepsen.objects.search import SearchResult, Stuck, search

ANOMALY = "nonlinearizable"
SHOWN_MAX = 12
"""Calls that a sentence names."""
DRAWN_MAX = 400
"""Calls of a contradiction that are searched once more, to show how far an order gets."""
DRAWN = Budget(2.0, 200_000)

MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Register(),
        CasRegister(),
        MultiRegister(),
        Mutex(),
        Semaphore(),
        Set(),
        Queue(),
        Stack(),
        PriorityQueue(),
        Counter(),
        ReadModifyWrite(),
        KeyValue(),
        Log(),
    )
}


def split(
    model: Model, operations: Iterable[Operation], options: Options
) -> list[tuple[str | None, list[Operation]]]:
    """(key as text, its operations): parts that can be checked on their own. None = the only object.

    Raises BadHistory for operations that the model cannot read.
    """
    return model.split(operations, options)


def check_part(
    model: Model,
    operations: Iterable[Operation],
    options: Options,
    budget: Budget | None = None,
    key: str | None = None,
) -> Judgement:
    """The verdict on one object. `key` is what problems are about. Raises BadHistory as `split` does."""
    calls = calls_of(model, operations, options)
    fast = model.fast(calls, options)
    if fast is True:
        return Judgement(True)
    if isinstance(fast, Contradiction):
        return _invalid(Problem(ANOMALY, key, _numbers(fast.calls), fast.words, _drawn(model, fast, options)))
    found = search(model, calls, options, Budget() if budget is None else budget)
    if found.valid:
        return Judgement(True)
    if found.valid is None:
        about = "" if key is None else f"{key}: "
        return Judgement(
            None, reasons=(f"{about}{found.words}; a larger budget, or shorter histories, may decide it",)
        )
    assert found.stuck is not None
    operations_named = (found.stuck.waited, *found.stuck.linearized[-1:])
    words, detail = _tell_stuck(model, found.stuck), _detail(model, found.stuck, options)
    return _invalid(Problem(ANOMALY, key, _numbers(operations_named), words, detail))


def check_object(
    model: Model, operations: Iterable[Operation], options: Options, budget: Budget | None = None
) -> Judgement:
    """The verdict on a history: linearizable if each of its objects is. `budget` is for each of them.

    Raises BadHistory for operations that the model cannot read.
    """
    return merge(
        check_part(model, part, options, budget, key) for key, part in split(model, operations, options)
    )


def _invalid(problem: Problem) -> Judgement:
    return Judgement(False, (problem,), {ANOMALY: 1})


def _numbers(calls: Sequence[Call]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(call.number for call in calls))


def _drawn(model: Model, fast: Contradiction, options: Options) -> dict[str, object]:
    """How far an order of the contradicting calls alone gets."""
    if len(fast.calls) > DRAWN_MAX:
        return {}
    found: SearchResult = search(model, sorted(fast.calls, key=lambda call: call.start), options, DRAWN)
    return _detail(model, found.stuck, options) if found.valid is False and found.stuck is not None else {}


def _detail(model: Model, stuck: Stuck, options: Options) -> dict[str, object]:
    state = model.describe(stuck.state)
    return {
        "linearization": {
            "linearized": [call.number for call in stuck.linearized],
            "state": state,
            "states": _states(model, stuck, options),
            "stuck": [
                {
                    "operation": call.number,
                    "possible": possible,
                    "words": f"{tell(call)} cannot come next: {state}"
                    if not possible
                    else f"{tell(call)} could come next, but no order of the rest follows",
                }
                for call, possible in stuck.pending
            ],
        }
    }


def _states(model: Model, stuck: Stuck, options: Options) -> list[str]:
    """The state after each call of a partial linearization, in words.

    Where a call may lead to several states, those are told that lead on to the state at its end.
    """
    layers: list[dict[State, State | None]] = [{model.initial(options): None}]
    for call in stuck.linearized:
        after: dict[State, State | None] = {}
        for state in layers[-1]:
            reached = model.step(state, call.f, call.argument, call.result, call.outcome)
            for each in reached if isinstance(reached, list) else () if reached is None else (reached,):
                after.setdefault(each, state)
        layers.append(after)
    told: list[str] = []
    last: State | None = stuck.state
    for layer in reversed(layers[1:]):
        told.append(model.describe(last))
        last = layer[last]
    return told[::-1]


def _tell_stuck(model: Model, stuck: Stuck) -> str:
    """What was explained, where it ends, and who might have come next."""
    others = [call for call, _ in stuck.pending if call != stuck.waited]
    last = f"after {tell(stuck.linearized[-1])} " if stuck.linearized else "at the beginning "
    words = (
        f"no order explains {tell(stuck.waited)}: the furthest one gets to where {last}"
        f"{model.describe(stuck.state)}"
    )
    if not others:
        return f"{words}, and nothing else was going on"
    shown = ", ".join(tell(call) for call in others[:SHOWN_MAX])
    more = f" and {len(others) - SHOWN_MAX} more" if len(others) > SHOWN_MAX else ""
    return f"{words}; also going on, and no help: {shown}{more}"
