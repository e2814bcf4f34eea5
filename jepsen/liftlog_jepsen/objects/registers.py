"""Registers: one value that is read, written, compared and set; several of them; and key-value stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

from liftlog_jepsen.events import FAIL, INFO, BadHistory, Operation
from liftlog_jepsen.formats.options import ANY, OBSERVED, Options
from liftlog_jepsen.objects.fast_blocks import check_register, check_values
from liftlog_jepsen.objects.model import FALSE, Call, Contradiction, Model, State, freeze, show


class Held(NamedTuple):
    """The state of a register: what it holds, also nothing."""

    value: Any


def pair_of(operation_f: str, argument: Any) -> tuple[Any, Any]:
    """Old and new value of a compare-and-set. Raises BadHistory for anything but two values."""
    if not isinstance(argument, (list, tuple)) or len(argument) != 2:
        raise BadHistory(f"expected [old new] as the value of {operation_f}, found {show(argument)}")
    return freeze(argument[0]), freeze(argument[1])


class Register(Model):
    """A value with read, write, cas [old new] and rmw [old new]. A cas that answers false saw another."""

    name = "register"
    words = "one value: read, write, cas [old new], rmw [old new]"
    functions = frozenset({"read", "write", "cas", "rmw"})
    observers = frozenset({"read"})
    aliases: ClassVar[Mapping[str, str]] = {
        "r": "read",
        "w": "write",
        "get": "read",
        "put": "write",
        "set": "write",
        "compare-and-set": "cas",
        "compare-and-swap": "cas",
        "read_modify_write": "rmw",
        "read-modify-write": "rmw",
    }

    def initial(self, options: Options) -> State:
        return Held(freeze(options.initial))

    def step(self, state: Held, f: str, argument: Any, result: Any, outcome: str) -> State | None:
        if f == "write":
            return Held(freeze(argument))
        if f == "read":
            return state if state.value == freeze(result) else None
        old, new = pair_of(f, argument)
        if outcome == FAIL or freeze(result) == FALSE:
            return state if state.value != old else None
        return Held(new) if state.value == old else None

    def describe(self, state: Held) -> str:
        return f"the register holds {show(state.value)}"

    def prepare(self, operation: Operation, options: Options) -> Operation | None:
        f = operation.f
        if operation.outcome == FAIL:
            return operation if f == "cas" and options.fail_cas == OBSERVED else None
        if f == "read" and operation.result is None and options.nil_read == ANY:
            return None
        if f in ("cas", "rmw"):
            pair_of(f, operation.argument)
        return operation

    def fast(self, calls: list[Call], options: Options) -> Contradiction | bool | None:
        return check_register(calls, freeze(options.initial))


class CasRegister(Register):
    name = "cas-register"


class ReadModifyWrite(Register):
    """A register whose `rmw [old new]` read the old value and wrote the new one. It starts as 0."""

    name = "rmw"

    def initial(self, options: Options) -> State:
        return Held(_zero(options))

    def fast(self, calls: list[Call], options: Options) -> Contradiction | bool | None:
        return check_register(calls, _zero(options))


def _zero(options: Options) -> Any:
    return 0 if options.initial is None else freeze(options.initial)


class MultiRegister(Model):
    """Registers by name, read and written by transactions: `txn [[read x nil] [write y 2]]`.

    Transactions that share no register, not even by way of others, are checked on their own.
    """

    name = "multi-register"
    words = "several values: transactions of reads and writes"
    functions = frozenset({"txn"})
    READS, WRITES = ("read", "r", "get"), ("write", "w", "put", "set")

    def initial(self, options: Options) -> State:
        """(what is known of registers, as a frozenset of (name, value); the value of all others)."""
        start = options.initial
        if isinstance(start, dict):
            return frozenset((freeze(key), freeze(value)) for key, value in start.items()), None
        return frozenset(), freeze(start)

    def step(self, state: Any, f: str, argument: Any, result: Any, outcome: str) -> State | None:
        known, default = state
        values = dict(known)
        for kind, key, value in self._steps(argument if result is None else result):
            if kind in self.WRITES:
                values[key] = value
            elif outcome != INFO and values.get(key, default) != value:
                return None
        return frozenset(values.items()), default

    def describe(self, state: Any) -> str:
        known, default = state
        held = ", ".join(sorted(f"{show(key)} holds {show(value)}" for key, value in known))
        return held or f"every register holds {show(default)}"

    def prepare(self, operation: Operation, options: Options) -> Operation | None:
        if operation.outcome == FAIL:
            return None
        said = operation.argument if operation.result is None else operation.result
        steps = self._steps(said)
        if operation.outcome == INFO:
            # Nobody knows what it read; what it wrote counts.
            kept = [step for step in steps if step[0] in self.WRITES]
        elif options.nil_read == ANY:
            kept = [step for step in steps if step[0] in self.WRITES or step[2] is not None]
        else:
            kept = steps
        if not kept:
            return None
        return operation._replace(argument=kept, result=None)

    def split(
        self, operations: Iterable[Operation], options: Options
    ) -> list[tuple[str | None, list[Operation]]]:
        listed = list(operations)
        parent: dict[Any, Any] = {}

        def root(key: Any) -> Any:
            while parent.setdefault(key, key) != key:
                parent[key] = parent[parent[key]]
                key = parent[key]
            return key

        touched = []
        for operation in listed:
            said = operation.result if operation.result is not None else operation.argument
            keys = [step[1] for step in self._steps(said)]
            touched.append(keys)
            for key in keys[1:]:
                parent[root(key)] = root(keys[0])
        parts: dict[Any, list[Operation]] = {}
        names: dict[Any, dict[str, None]] = {}
        for operation, keys in zip(listed, touched, strict=True):
            if keys:
                parts.setdefault(root(keys[0]), []).append(operation)
                names.setdefault(root(keys[0]), {}).update(dict.fromkeys(map(show, keys)))
        return [(" ".join(names[key]), part) for key, part in parts.items()]

    def _steps(self, value: Any) -> list[tuple[str, Any, Any]]:
        found = []
        if not isinstance(value, (list, tuple)):
            raise BadHistory(f"expected a transaction [[read x nil] [write y 2] …], found {show(value)}")
        for step in value:
            fits = isinstance(step, (list, tuple)) and len(step) in (2, 3)
            if not fits or step[0] not in (*self.READS, *self.WRITES):
                raise BadHistory(f"expected [read x nil] or [write y 2] in a transaction, found {show(step)}")
            found.append((str(step[0]), freeze(step[1]), freeze(step[2] if len(step) == 3 else None)))
        return found


class KeyValue(Model):
    """A value per key: get, put, append (texts are joined, lists grow), delete, cas [old new]."""

    name = "kv"
    words = "a value per key: get, put, append, delete, cas [old new]"
    functions = frozenset({"get", "put", "append", "delete", "cas"})
    observers = frozenset({"get"})
    aliases: ClassVar[Mapping[str, str]] = {
        "read": "get",
        "r": "get",
        "write": "put",
        "w": "put",
        "set": "put",
        "remove": "delete",
    }

    def initial(self, options: Options) -> State:
        return Held(freeze(options.initial))

    def step(self, state: Held, f: str, argument: Any, result: Any, outcome: str) -> State | None:
        if f == "get":
            return state if state.value == freeze(result) else None
        if f == "put":
            return Held(freeze(argument))
        if f == "delete":
            return Held(None)
        if f == "append":
            return Held(joined(state.value, freeze(argument)))
        old, new = pair_of(f, argument)
        if outcome == FAIL or freeze(result) == FALSE:
            return state if state.value != old else None
        return Held(new) if state.value == old else None

    def describe(self, state: Held) -> str:
        return f"the key holds {show(state.value)}"

    def prepare(self, operation: Operation, options: Options) -> Operation | None:
        if operation.outcome == FAIL:
            return operation if operation.f == "cas" and options.fail_cas == OBSERVED else None
        if operation.f == "get" and operation.result is None and options.nil_read == ANY:
            return None
        if operation.f == "cas":
            pair_of("cas", operation.argument)
        return operation

    def fast(self, calls: list[Call], options: Options) -> Contradiction | bool | None:
        return check_values(calls, freeze(options.initial))


def joined(value: Any, part: Any) -> Any:
    """What a key holds after an append."""
    if isinstance(value, tuple):
        return (*value, part)
    if isinstance(part, str) and (value is None or isinstance(value, str)):
        return (value or "") + part
    if value is None or value == "":
        return (part,)
    raise BadHistory(f"cannot append {show(part)} to {show(value)}: give --initial nil, a text or a list")
