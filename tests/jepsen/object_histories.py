"""Small histories of every object, about half of them linearizable, and a judge that tries every order."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from liftlog_jepsen.events import FAIL, INFO, OK, Operation
from liftlog_jepsen.formats import Options
from liftlog_jepsen.objects import MODELS
from liftlog_jepsen.objects.model import Call, Model

TAKES = ("dequeue", "pop", "poll", "peek")
STRICT = Options(initial=None, nil_read="observed", fail_cas="observed")


def explainable(model: Model, calls: Sequence[Call], options: Options) -> bool:
    """Whether the calls have an order that time and the model allow. Every order is tried."""

    def explore(left: tuple[Call, ...], state: Any) -> bool:
        if all(call.outcome == INFO for call in left):
            return True
        for place, call in enumerate(left):
            if any(other.end < call.start for other in left):
                continue
            after = model.step(state, call.f, call.argument, call.result, call.outcome)
            several = [] if after is None else after if isinstance(after, list) else [after]
            if any(explore(left[:place] + left[place + 1 :], one) for one in several):
                return True
        return False

    return explore(tuple(calls), model.initial(options))


class Act(NamedTuple):
    """Something to ask an object: the function, its argument, and what the answer may be."""

    f: str
    argument: Any
    answers: Sequence[Any]


Ask = Callable[[random.Random, list[int]], Act]


def _fresh(source: random.Random, used: list[int]) -> int:
    """A new value; now and then one that was there before, or one between others."""
    if used and source.random() < 0.06:
        return source.choice(used)
    value = source.randrange(1, 40)
    while value in used:
        value += 1
    used.append(value)
    return value


def _some(source: random.Random, used: list[int]) -> int:
    return source.choice([*used, 0]) if used else 0


def _register(source: random.Random, used: list[int]) -> Act:
    kind = source.random()
    if kind < 0.4:
        return Act("read", None, [None, 0, *used])
    if kind < 0.7:
        value = 0 if kind < 0.42 else _fresh(source, used)
        return Act("write", value, [value])
    old = source.choice([None, 0, *used])
    return Act("cas", [old, _fresh(source, used)], [[old, used[-1]]])


def _values(put: str, take: str, look: float) -> Ask:
    def ask(source: random.Random, used: list[int]) -> Act:
        kind = source.random()
        if kind < 0.45:
            value = _fresh(source, used)
            return Act(put, value, [value])
        return Act("peek" if kind < 0.45 + look else take, None, [None, *used])

    return ask


def _lock(source: random.Random, used: list[int]) -> Act:
    return Act(source.choice(["acquire", "release"]), None, [None, None, False])


def _permits(source: random.Random, used: list[int]) -> Act:
    return Act(source.choice(["incr", "decr"]), source.choice([None, None, 2]), [True, False])


def _counter(steps: Sequence[int]) -> Ask:
    def ask(source: random.Random, used: list[int]) -> Act:
        if source.random() < 0.5:
            return Act("read", None, range(-8, 9))
        amount = source.choice(steps)
        return Act("add", amount, [amount])

    return ask


def _set(source: random.Random, used: list[int]) -> Act:
    used[:] = [1, 2, 3]
    f = source.choice(["add", "remove", "contains"])
    return Act(f, source.choice(used), [True, False])


def _grown_set(source: random.Random, used: list[int]) -> Act:
    if source.random() < 0.5:
        wholes = [
            [value for place, value in enumerate(used) if bits >> place & 1] for bits in range(1 << len(used))
        ]
        return Act("read", None, wholes)
    value = _fresh(source, used)
    return Act("add", value, [value])


def _texts(source: random.Random, used: list[int]) -> Act:
    kind = source.random()
    if kind < 0.45:
        return Act("get", None, ["", *_all_texts(used)])
    value = f"<{_fresh(source, used)}>"
    return Act("put" if kind < 0.6 else "append", value, [value])


def _all_texts(used: list[int]) -> list[str]:
    found = [""]
    for _ in range(4):
        found += [text + f"<{value}>" for text in found for value in used]
        found = list(dict.fromkeys(found))[:1500]
    return found


def _log(source: random.Random, used: list[int]) -> Act:
    kind = source.random()
    if kind < 0.5:
        return Act("append", _fresh(source, used), range(8))
    if kind < 0.65:
        return Act("tail", None, range(8))
    if kind < 0.75:
        wholes: list[list[int]] = [[]]
        for _ in range(4):
            wholes += [[*whole, value] for whole in wholes for value in used]
        return Act("read", None, wholes[:2000])
    return Act("read", source.randrange(4), [None, *used])


def _transactions(source: random.Random, used: list[int]) -> Act:
    steps: list[list[list[Any]]] = [[]]
    asked = []
    for _ in range(source.randrange(1, 3)):
        name = source.choice("xyz")
        if source.random() < 0.5:
            asked.append(["read", name, None])
            steps = [[*one, ["read", name, value]] for one in steps for value in (None, *used)]
        else:
            asked.append(["write", name, _fresh(source, used)])
            steps = [[*one, asked[-1]] for one in steps]
    return Act("txn", asked, steps)


ASKS: dict[str, tuple[Model, Ask, Options]] = {
    "register": (MODELS["register"], _register, STRICT),
    "cas dropped": (
        MODELS["cas-register"],
        _register,
        STRICT._replace(initial=0, fail_cas="dropped", nil_read="any"),
    ),
    "multi-register": (MODELS["multi-register"], _transactions, STRICT),
    "mutex": (MODELS["mutex"], _lock, STRICT),
    "semaphore": (MODELS["semaphore"], _permits, STRICT),
    "set": (MODELS["set"], _set, STRICT),
    "grown set": (MODELS["set"], _grown_set, STRICT),
    "queue": (MODELS["queue"], _values("enqueue", "dequeue", 0.0), STRICT),
    "queue with peeks": (MODELS["queue"], _values("enqueue", "dequeue", 0.25), STRICT),
    "stack": (MODELS["stack"], _values("push", "pop", 0.0), STRICT),
    "stack with peeks": (MODELS["stack"], _values("push", "pop", 0.25), STRICT),
    "priority-queue": (MODELS["priority-queue"], _values("insert", "poll", 0.2), STRICT),
    "counter": (MODELS["counter"], _counter([2]), STRICT),
    "counter of several steps": (MODELS["counter"], _counter([1, 2, -1]), STRICT),
    "kv": (MODELS["kv"], _texts, STRICT._replace(initial="")),
    "log": (MODELS["log"], _log, STRICT),
}
"""Kinds of histories: the model, what to ask, and the conventions."""


def history(source: random.Random, name: str, length: int) -> list[Operation]:
    """Operations of a correct object, then perhaps with a fault or two in them."""
    model, ask, options = ASKS[name]
    used: list[int] = []
    state = model.initial(options)
    waiting: dict[int, tuple[int, int, Act, Any, bool]] = {}
    found: dict[int, Operation] = {}
    position = number = 0
    names = list(range(source.randrange(2, 5)))
    quiet = source.random() < 0.5
    while len(found) < length:
        process = source.choice(names)
        if process not in waiting:
            if number < length:
                waiting[process] = (number, position, ask(source, used), None, False)
                number, position = number + 1, position + 1
            continue
        mine, start, act, answer, done = waiting[process]
        f = model.aliases.get(act.f, act.f)
        if not done:
            state, answer, outcome = _happen(source, model, state, f, act)
            if not quiet and source.random() < 0.12:
                # It never returns, and perhaps it never happened.
                found[mine] = Operation(mine, process, act.f, act.argument, None, INFO, start, None)
                del waiting[process]
                names[names.index(process)] += 10
                continue
            waiting[process] = (mine, start, act, (answer, outcome), True)
            continue
        result, outcome = answer
        found[mine] = Operation(mine, process, act.f, act.argument, result, outcome, start, position)
        position += 1
        del waiting[process]
    operations = [found[each] for each in range(length)]
    for _ in range(source.choice([0, 1, 2, 3, 4])):
        operations = _spoil(source, operations)
    return operations


def _happen(source: random.Random, model: Model, state: Any, f: str, act: Act) -> tuple[Any, Any, str]:
    """State, answer and outcome after an act takes effect."""
    for answer in source.sample(list(act.answers), len(act.answers)):
        after = model.step(state, f, act.argument, answer, OK)
        if after is not None:
            return after, answer, OK
    return state, None, FAIL


def _spoil(source: random.Random, operations: list[Operation]) -> list[Operation]:
    """One answer another operation's, or nothing, or two answers the other way round."""
    place = source.randrange(len(operations))
    one = operations[place]
    alike = [other for other in operations if other.f == one.f and other.outcome == OK]
    other = source.choice(alike) if alike else one
    if one.outcome != OK:
        return operations
    changed = list(operations)
    if one.f == "cas" and source.random() < 0.4:
        turned = one.argument[::-1]
        changed[place] = one._replace(argument=turned, result=turned)
    elif one.f in TAKES and source.random() < 0.3:
        # Nothing, where there perhaps was something all the time.
        changed[place] = one._replace(result=None)
    elif one.argument is None or isinstance(one.result, bool) or one.f == "append":
        changed[place] = one._replace(result=other.result)
        if source.random() < 0.5:
            changed[other.number] = other._replace(result=one.result)
    else:
        changed[place] = one._replace(argument=other.argument, result=other.result)
        changed[other.number] = other._replace(argument=one.argument, result=one.result)
    return changed
