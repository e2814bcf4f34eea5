"""Sets, queues, stacks and priority queues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from liftlog_jepsen.events import BadHistory, Operation
from liftlog_jepsen.formats import edn
from liftlog_jepsen.formats.options import Options
from liftlog_jepsen.objects.fast_order import check_grown_set
from liftlog_jepsen.objects.fast_priority import check_priority_queue
from liftlog_jepsen.objects.fast_queue import check_queue
from liftlog_jepsen.objects.fast_stack import check_stack
from liftlog_jepsen.objects.model import FALSE, TRUE, Call, Contradiction, Model, State, freeze, show

_SAID = {TRUE: True, FALSE: False, "true": True, "false": False}


class Set(Model):
    """Elements: add, remove, contains, and read of all. Answers of true and false are held against the set:
    an add that answers false found the element, a remove that answers false did not.

    Without reads of the whole, every element is an object of its own.
    """

    name = "set"
    words = "elements: add, remove, contains, read"
    functions = frozenset({"add", "remove", "contains", "read"})
    observers = frozenset({"contains", "read"})
    aliases: ClassVar[Mapping[str, str]] = {
        "insert": "add",
        "put": "add",
        "delete": "remove",
        "erase": "remove",
        "member": "contains",
        "lookup": "contains",
        "find": "contains",
    }

    def initial(self, options: Options) -> State:
        return frozenset()

    def step(self, state: frozenset[Any], f: str, argument: Any, result: Any, outcome: str) -> State | None:
        if f == "read":
            return state if freeze(_elements(result)) == state else None
        element = freeze(argument)
        said = _SAID.get(freeze(result))
        there = element in state
        if f == "contains":
            return state if said is None or said is there else None
        if said is False:
            return state if there is (f == "add") else None
        if said is True and there is (f == "add"):
            return None
        return state | {element} if f == "add" else state - {element}

    def describe(self, state: frozenset[Any]) -> str:
        return f"the set is {show(state)}"

    def prepare(self, operation: Operation, options: Options) -> Operation | None:
        if operation.f == "read" and operation.result is None:
            return None
        return super().prepare(operation, options)

    def split(
        self, operations: Iterable[Operation], options: Options
    ) -> list[tuple[str | None, list[Operation]]]:
        found: list[tuple[str | None, list[Operation]]] = []
        for key, part in super().split(operations, options):
            if any(self.aliases.get(one.f.lower(), one.f) == "read" for one in part):
                found.append((key, part))
                continue
            elements: dict[Any, list[Operation]] = {}
            for one in part:
                elements.setdefault(freeze(one.argument), []).append(one)
            prefix = "" if key is None else f"{key} "
            found += [(f"{prefix}{edn.write(each[0].argument)}", each) for each in elements.values()]
        return found

    def fast(self, calls: list[Call], options: Options) -> Contradiction | bool | None:
        return check_grown_set(calls)


def _elements(result: Any) -> frozenset[Any] | None:
    """What a read of a set saw; a list may name elements twice."""
    return None if result is None else frozenset(map(freeze, result))


_PUTS = ("enqueue", "enq", "add", "put", "offer", "insert", "push", "send", "produce")
_TAKES = ("dequeue", "deq", "remove", "take", "poll", "pop", "receive", "consume", "deletemin", "delete_min")
_LOOKS = ("peek", "front", "top", "first")


def _named(put: str, take: str) -> dict[str, str]:
    """Other names of the three functions of a collection."""
    return (
        {name: put for name in _PUTS if name != put}
        | {name: take for name in _TAKES if name != take}
        | {name: "peek" for name in _LOOKS if name != "peek"}
    )


class _Line(Model):
    """What queues, stacks and priority queues share: a tuple of values, of which one end is next."""

    put = take = ""
    noun = ""
    observers = frozenset({"peek"})

    def initial(self, options: Options) -> State:
        return ()

    def place(self, state: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
        """The state with one value more; what is taken next stands first."""
        raise NotImplementedError

    def step(self, state: tuple[Any, ...], f: str, argument: Any, result: Any, outcome: str) -> State | None:
        if f == self.put:
            return self.place(state, freeze(argument))
        if outcome == "info":
            return state[1:]
        if (state[0] if state else None) != freeze(result):
            return None
        return state if f == "peek" else state[1:]

    def describe(self, state: tuple[Any, ...]) -> str:
        return f"the {self.noun} is empty" if not state else f"the {self.noun} is, next first, {show(state)}"


class Queue(_Line):
    """First in, first out. A dequeue or peek of nil found it empty."""

    name = noun = "queue"
    put, take = "enqueue", "dequeue"
    words = "first in, first out: enqueue, dequeue, peek"
    functions = frozenset({"enqueue", "dequeue", "peek"})
    aliases: ClassVar[Mapping[str, str]] = _named("enqueue", "dequeue")

    def place(self, state: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
        return (*state, value)

    def fast(self, calls: list[Call], options: Options) -> Contradiction | bool | None:
        return check_queue(calls)


class Stack(_Line):
    """Last in, first out. A pop or peek of nil found it empty."""

    name = noun = "stack"
    put, take = "push", "pop"
    words = "last in, first out: push, pop, peek"
    functions = frozenset({"push", "pop", "peek"})
    aliases: ClassVar[Mapping[str, str]] = _named("push", "pop")

    def place(self, state: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
        return (value, *state)

    def fast(self, calls: list[Call], options: Options) -> Contradiction | bool | None:
        return check_stack(calls)


class PriorityQueue(_Line):
    """The greatest value comes first. A poll or peek of nil found it empty."""

    name, noun = "priority-queue", "priority queue"
    put, take = "insert", "poll"
    words = "greatest first: insert, poll, peek"
    functions = frozenset({"insert", "poll", "peek"})
    aliases: ClassVar[Mapping[str, str]] = _named("insert", "poll")

    def place(self, state: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
        try:
            at = next((at for at, other in enumerate(state) if other < value), len(state))
        except TypeError:
            held = ", ".join(map(show, state))
            raise BadHistory(f"cannot say whether {show(value)} comes before {held}: give numbers") from None
        return (*state[:at], value, *state[at:])

    def fast(self, calls: list[Call], options: Options) -> Contradiction | bool | None:
        return check_priority_queue(calls)
