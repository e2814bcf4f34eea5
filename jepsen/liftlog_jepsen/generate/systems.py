"""The systems that generated histories of other families come from: each does one operation at a time."""

from __future__ import annotations

import random
from bisect import insort
from collections import deque
from collections.abc import Callable
from typing import Any

from liftlog_jepsen.events import FAIL, OK
from liftlog_jepsen.formats.edn import Keyword

Choice = tuple[str, Any, Any]
"""Function, argument and key."""
Answer = tuple[str, Any]
"""Type of the completion and its value."""

ACCOUNTS, BALANCE = 8, 10
UNKNOWN_MAX = 8
"""Operations that stay open for ever make searches exponential; a history has no more of them."""
GROUP = 3
"""Keys that one read of long-fork covers."""


class ObjectSystem:
    """Something that clients use."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.counter = 0

    def fresh(self) -> int:
        """A number that was never used."""
        self.counter += 1
        return self.counter

    def choose(self) -> Choice:
        """What a client does next."""
        raise NotImplementedError

    def apply(self, f: str, argument: Any, key: Any) -> Answer:
        """Do it now."""
        raise NotImplementedError

    def asked(self, f: str, argument: Any) -> Any:
        """The value of the invocation."""
        return argument

    def may_fail(self, f: str) -> bool:
        """Whether the operation may fail without having happened."""
        return True

    def may_stay_open(self, f: str) -> bool:
        """Whether the client may never hear of it."""
        return True

    def last(self) -> list[Choice]:
        """What is done at the end, when all is quiet."""
        return []


class Register(ObjectSystem):
    """Reads and unique writes."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.value = 0

    def choose(self) -> Choice:
        return ("read", None, None) if self.rng.random() < 0.5 else ("write", self.fresh(), None)

    def apply(self, f: str, argument: Any, key: Any) -> Answer:
        if f == "write":
            self.value = argument
        elif f == "cas":
            if self.value != argument[0]:
                return FAIL, argument
            self.value = argument[1]
        return OK, self.value if f == "read" else argument


class CasRegister(Register):
    """As Jepsen's: few values, compared and set."""

    def choose(self) -> Choice:
        f = self.rng.choice(("read", "write", "cas"))
        some = [self.rng.randrange(5), self.rng.randrange(5)]
        return f, {"read": None, "write": some[0], "cas": some}[f], None


class MultiRegister(ObjectSystem):
    """Several registers, read and written together."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.values: dict[str, int] = {}

    def choose(self) -> Choice:
        names = self.rng.sample("xyz", self.rng.choice((1, 2)))
        steps = [
            [Keyword("read"), Keyword(name), None]
            if self.rng.random() < 0.5
            else [Keyword("write"), Keyword(name), self.rng.randrange(5)]
            for name in names
        ]
        return "txn", steps, None

    def apply(self, f: str, argument: Any, key: Any) -> Answer:
        done = []
        for step, name, value in argument:
            if step == "write":
                self.values[name] = value
            done.append([step, name, self.values.get(name, 0)])
        return OK, done


class Mutex(ObjectSystem):
    """A lock, or with several permits a semaphore."""

    permits = 1

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.free = self.permits

    def choose(self) -> Choice:
        return self.rng.choice(("acquire", "release")), None, None

    def apply(self, f: str, argument: Any, key: Any) -> Answer:
        if f == "acquire" and not self.free:
            return FAIL, argument
        if f == "release" and self.free == self.permits:
            return FAIL, argument
        self.free += 1 if f == "release" else -1
        return OK, argument


class Semaphore(Mutex):
    """Starts with nothing; whoever releases gives, whoever acquires takes."""

    permits = 10**9

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.free = 0


class Elements(ObjectSystem):
    """A set of unique elements: add, remove, contains."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.elements: set[int] = set()

    def choose(self) -> Choice:
        f = self.rng.choice(("add", "remove", "contains"))
        return f, self.fresh() if f == "add" else self.rng.randrange(self.counter + 2), None

    def apply(self, f: str, argument: Any, key: Any) -> Answer:
        there = argument in self.elements
        if f == "contains":
            return OK, there
        (self.elements.add if f == "add" else self.elements.discard)(argument)
        return OK, there != (f == "add")


class Queue(ObjectSystem):
    """First in, first out."""

    put, take = "enqueue", "dequeue"

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.waiting: deque[int] = deque()

    def choose(self) -> Choice:
        return (self.put, self.fresh(), None) if self.rng.random() < 0.5 else (self.take, None, None)

    def apply(self, f: str, argument: Any, key: Any) -> Answer:
        if f == self.put:
            self.waiting.append(argument)
            return OK, argument
        return OK, self.taken() if self.waiting else None

    def may_stay_open(self, f: str) -> bool:
        # What a lost answer took is unknown, and with it what the next one may take: searches are hopeless.
        return f == self.put

    def taken(self) -> int:
        return self.waiting.popleft()


class Stack(Queue):
    """Last in, first out."""

    put, take = "push", "pop"

    def taken(self) -> int:
        return self.waiting.pop()


class PriorityQueue(Queue):
    """The greatest value first."""

    put, take = "insert", "poll"

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.sorted: list[int] = []

    def choose(self) -> Choice:
        f, value, key = super().choose()
        return f, None if value is None else self.rng.randrange(1000) * 1_000_000 + value, key

    def apply(self, f: str, argument: Any, key: Any) -> Answer:
        if f == self.put:
            insort(self.sorted, argument)
            return OK, argument
        return OK, self.sorted.pop() if self.sorted else None


class Counter(ObjectSystem):
    """Additions and reads of the sum."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.sum = 0

    def choose(self) -> Choice:
        return ("read", None, None) if self.rng.random() < 0.5 else ("add", self.rng.randint(1, 5), None)

    def apply(self, f: str, argument: Any, key: Any) -> Answer:
        if f == "add":
            self.sum += argument
        return OK, self.sum if f == "read" else argument


class KeyValue(ObjectSystem):
    """A text per key: get, put, append."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.texts: dict[str, str] = {}

    def choose(self) -> Choice:
        f, key = self.rng.choice(("get", "put", "append")), f"k{self.rng.randrange(5)}"
        return f, None if f == "get" else f"{self.fresh()};", key

    def apply(self, f: str, argument: Any, key: Any) -> Answer:
        old = self.texts.get(key, "")
        if f != "get":
            self.texts[key] = argument if f == "put" else old + argument
        return OK, old if f == "get" else argument


class ListAppend(ObjectSystem):
    """Transactions over lists: appends of unique elements, and reads."""

    write, length = "append", 32
    """The function of writes, and how many writes a key gets before another takes its place."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.lists: dict[int, list[int]] = {}
        self.first_key = 0
        self.writes = 0

    def choose(self) -> Choice:
        steps = []
        for _ in range(self.rng.randint(1, 4)):
            key = self.first_key + self.rng.randrange(5)
            if self.rng.random() < 0.5:
                steps.append([Keyword("r"), key, None])
                continue
            steps.append([Keyword(self.write), key, self.fresh()])
            self.writes += 1
            if self.writes % self.length == 0:
                self.first_key += 1
        return "txn", steps, None

    def apply(self, f: str, argument: Any, key: Any) -> Answer:
        done = []
        for step, name, value in argument:
            if step == "r":
                done.append([step, name, self.seen(name)])
                continue
            self.lists.setdefault(name, []).append(value)
            done.append([step, name, value])
        return OK, done

    def seen(self, name: int) -> Any:
        return list(self.lists[name]) if name in self.lists else None


class RwRegister(ListAppend):
    """Transactions over registers with unique writes."""

    write = "w"

    def seen(self, name: int) -> Any:
        return self.lists[name][-1] if name in self.lists else None


class Bank(ObjectSystem):
    """Transfers between accounts, none of which may be overdrawn."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.balances = dict.fromkeys(range(ACCOUNTS), BALANCE)

    def choose(self) -> Choice:
        if self.rng.random() < 0.5:
            return "read", None, None
        source, target = self.rng.sample(range(ACCOUNTS), 2)
        amount = self.rng.randint(1, 5)
        transfer = {Keyword("from"): source, Keyword("to"): target, Keyword("amount"): amount}
        return "transfer", transfer, None

    def apply(self, f: str, argument: Any, key: Any) -> Answer:
        if f == "read":
            return OK, dict(self.balances)
        source, target, amount = argument["from"], argument["to"], argument["amount"]
        if self.balances[source] < amount:
            return FAIL, argument
        self.balances[source] -= amount
        self.balances[target] += amount
        return OK, argument


class JepsenSet(ObjectSystem):
    """Elements are added, and read once at the end."""

    reads = 0.0

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.elements: list[int] = []

    def choose(self) -> Choice:
        return ("read", None, None) if self.rng.random() < self.reads else ("add", self.fresh(), None)

    def apply(self, f: str, argument: Any, key: Any) -> Answer:
        if f == "add":
            self.elements.append(argument)
        return OK, list(self.elements) if f == "read" else argument

    def may_fail(self, f: str) -> bool:
        return f == "add"

    def last(self) -> list[Choice]:
        return [("read", None, None)]


class SetFull(JepsenSet):
    """Elements are added, and read all the time."""

    reads = 0.1


class Comments(JepsenSet):
    """As set-full; writes are called writes."""

    reads = 0.2

    def choose(self) -> Choice:
        f, argument, key = super().choose()
        return "write" if f == "add" else f, argument, key

    def apply(self, f: str, argument: Any, key: Any) -> Answer:
        return super().apply("add" if f == "write" else f, argument, key)


class LongFork(ObjectSystem):
    """Keys in groups; each is written once, and reads cover a group."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.written: set[int] = set()

    def choose(self) -> Choice:
        if self.rng.random() < 0.5:
            return "write", [[Keyword("w"), self.fresh(), 1]], None
        group = self.rng.randrange(self.counter + GROUP) // GROUP
        keys = list(range(GROUP * group, GROUP * group + GROUP))
        self.rng.shuffle(keys)
        return "read", [[Keyword("r"), key, None] for key in keys], None

    def apply(self, f: str, argument: Any, key: Any) -> Answer:
        if f == "write":
            self.written.add(argument[0][1])
            return OK, argument
        return OK, [[step, key, 1 if key in self.written else None] for step, key, _ in argument]


SYSTEMS: dict[str, Callable[[random.Random], ObjectSystem]] = {
    "register": Register,
    "cas-register": CasRegister,
    "multi-register": MultiRegister,
    "mutex": Mutex,
    "semaphore": Semaphore,
    "linearizable-set": Elements,
    "queue": Queue,
    "stack": Stack,
    "priority-queue": PriorityQueue,
    "linearizable-counter": Counter,
    "kv": KeyValue,
    "list-append": ListAppend,
    "rw-register": RwRegister,
    "bank": Bank,
    "jepsen-set": JepsenSet,
    "set-full": SetFull,
    "jepsen-counter": Counter,
    "long-fork": LongFork,
    "comments": Comments,
}
"""By the name of the model that judges them."""
