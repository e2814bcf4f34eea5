"""What an object is: a model that says how each operation changes a state, or that it cannot.

A model of your own is a few lines:

    from liftlog_jepsen.objects import Model

    class Maximum(Model):
        name = "maximum"
        observers = frozenset({"read"})

        def initial(self, options):
            return 0

        def step(self, state, f, argument, result, outcome):
            if f == "write":
                return max(state, argument)
            return state if result == state else None

`liftlog jepsen check --model FILE.py:Maximum` uses it; `load_model` is the same in Python.
docs/linearizability.md has more.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

from liftlog_jepsen.events import FAIL, INFO, BadHistory, Operation
from liftlog_jepsen.formats import edn
from liftlog_jepsen.formats.edn import Keyword
from liftlog_jepsen.formats.options import Options

OPEN = 1 << 62
"""The end of a call that never returned: behind every position."""
SHOWN_MAX = 60

State = Hashable
"""Any value with a hash that is not None. Equal states must mean the same future."""


class Call(NamedTuple):
    """An operation as the checkers see it: one that took effect, or may have (`outcome` info).

    `start` and `end` are positions in the history, no two alike; `end` is OPEN for what never returned.
    """

    number: int
    process: int | str
    f: str
    argument: Any
    result: Any
    outcome: str
    start: int
    end: int


class Contradiction(NamedTuple):
    """Why a history is not linearizable: the calls that cannot be ordered, and a sentence that says why."""

    calls: tuple[Call, ...]
    words: str


class Model:
    """An object. Subclass it; an instance has no state of its own.

    `aliases`: other names of functions, each with the name that `step` knows. `functions`: those that `step`
    knows, empty = it takes any. `observers`: functions that never change the state; the search is much faster
    if it knows them.
    """

    name: ClassVar[str] = ""
    words: ClassVar[str] = ""
    aliases: ClassVar[Mapping[str, str]] = {}
    functions: ClassVar[frozenset[str]] = frozenset()
    observers: ClassVar[frozenset[str]] = frozenset()

    made_by: ClassVar[tuple[Callable[..., Model], tuple[str, ...]] | None] = None
    """Of a model from a file: what makes it, and from which text, when it travels to other processes."""

    def initial(self, options: Options) -> State:
        """The state before anything happened."""
        raise NotImplementedError

    def step(
        self, state: Any, f: str, argument: Any, result: Any, outcome: str
    ) -> State | list[State] | None:
        """The state after an operation; None if it cannot happen; a list if it may lead to several.

        A state itself is never None, and has a hash; a named tuple of one field holds what may be None.
        `argument` and `result` are values of the history. `outcome` is ok; info, when nobody knows the result
        (it is None then, and the operation may also never have happened, which the search sees to); or fail,
        only where `prepare` keeps a failure because it observed something.
        """
        raise NotImplementedError

    def key_of(self, operation: Operation) -> Any:
        """Operations with different keys are about different objects, which are checked on their own."""
        return operation.key

    def describe(self, state: Any) -> str:
        """A clause about the state: `the register holds 3`."""
        return f"the state is {show(state)}"

    def prepare(self, operation: Operation, options: Options) -> Operation | None:
        """The operation as it is to be checked, None = leave it out. What failed did not happen."""
        return None if operation.outcome == FAIL else operation

    def split(
        self, operations: Iterable[Operation], options: Options
    ) -> list[tuple[str | None, list[Operation]]]:
        """Parts that are linearizable if and only if the whole is, in the order of their first operations."""
        parts: dict[Any, tuple[str | None, list[Operation]]] = {}
        for operation in operations:
            key = self.key_of(operation)
            frozen = freeze(key)
            if frozen not in parts:
                parts[frozen] = (None if key is None else edn.write(key), [])
            parts[frozen][1].append(operation)
        return list(parts.values())

    def fast(self, calls: list[Call], options: Options) -> Contradiction | bool | None:
        """A verdict without a search: True, or why not; None = only a search can tell."""
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), ()) if self.made_by is None else self.made_by


def calls_of(model: Model, operations: Iterable[Operation], options: Options) -> list[Call]:
    """The calls of one part, in the order of their invocations.

    Observers that nobody got an answer from are left out, because they say nothing. Raises BadHistory for a
    function that the model does not know.
    """
    found = []
    for operation in operations:
        f = model.aliases.get(operation.f.lower(), operation.f)
        if model.functions and f not in model.functions:
            known = ", ".join(sorted(model.functions))
            raise BadHistory(
                f"operation {operation.number} is {operation.f}, which the model {model.name} does not know; "
                f"it knows {known}. Give another --model?"
            )
        unanswered = operation.outcome == INFO
        if unanswered and f in model.observers:
            continue
        named = operation._replace(f=f, result=None if unanswered else operation.result)
        prepared = model.prepare(named, options)
        if prepared is None:
            continue
        end = OPEN if prepared.end is None else prepared.end
        found.append(
            Call(
                prepared.number,
                prepared.process,
                str(prepared.f),
                prepared.argument,
                prepared.result,
                prepared.outcome,
                prepared.start,
                end,
            )
        )
    return found


class _Truth(NamedTuple):
    """A boolean that is not equal to 0 or 1."""

    said: str


TRUE, FALSE = _Truth("true"), _Truth("false")


def freeze(value: Any) -> Any:
    """`value` as something with a hash. Lists and tuples become alike; `true` differs from 1."""
    kind = type(value)
    if kind is int or kind is str or value is None:
        return value
    if kind is bool:
        return TRUE if value else FALSE
    if isinstance(value, (list, tuple)):
        return tuple(map(freeze, value))
    if isinstance(value, dict):
        return frozenset((freeze(key), freeze(each)) for key, each in value.items())
    if isinstance(value, (set, frozenset)):
        return frozenset(map(freeze, value))
    return value


def show(value: Any) -> str:
    """A value for people, in one line, not too long."""
    text = _text(value)
    return text if len(text) <= SHOWN_MAX else f"{text[: SHOWN_MAX - 1]}…"


def _text(value: Any) -> str:
    if value is None:
        return "nil"
    if isinstance(value, _Truth):
        return value.said
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Keyword):
        return repr(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (list, tuple)):
        return f"[{' '.join(map(_text, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(key)} {_text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (set, frozenset)):
        return "#{" + " ".join(sorted(map(_text, value))) + "}"
    return str(value)


_ANSWERS = ("read", "get", "peek", "dequeue", "pop", "poll", "tail")
"""Functions whose answer nil says something."""


def tell(call: Call) -> str:
    """A call for people: `read 3 by process 4`."""
    shown = call.f
    if call.outcome == FAIL:
        shown = f"failed {call.f} {show(call.argument)}"
    elif call.outcome == INFO:
        shown = f"{call.f} {show(call.argument)}" if call.argument is not None else call.f
        shown += " (never answered)"
    elif call.argument is None:
        shown += f" {show(call.result)}" if call.result is not None or call.f in _ANSWERS else ""
    elif call.result is None or freeze(call.result) == freeze(call.argument):
        shown += f" {show(call.argument)}"
    else:
        shown += f" {show(call.argument)} = {show(call.result)}"
    return f"{shown} by process {call.process}"


def distinct(calls: Iterable[Call]) -> tuple[Call, ...]:
    """Each call once, in the order of its first place. Calls may have no hash, because values have none."""
    return tuple({call.number: call for call in calls}.values())
