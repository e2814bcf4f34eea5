"""Databases that run random transactions at some level of isolation, as histories.

Each world is the obvious implementation of its level, so that what a check may find in its histories is known
from the definition of the level, not from the checker.
"""

from __future__ import annotations

import random
from typing import Any

from liftlog_jepsen.events import FAIL, INFO, INVOKE, OK, Event, Operation, pair

SERIAL, SNAPSHOT, READ_COMMITTED, DIRTY, STALE, SESSION = WORLDS = (
    "serial",
    "snapshot",
    "read-committed",
    "dirty",
    "stale",
    "session",
)
"""serial: each transaction happens at one moment between its ends (strictly serializable).
snapshot: reads from a snapshot taken after the invocation; the first of two writers of a key wins.
read-committed: each read sees the latest commit; writes lock their key and appear together at the commit.
dirty: writes appear at once, and are taken back if the transaction fails.
stale: serial, but transactions that only read may see any earlier state.
session: the same, but no client sees a state before one it has seen or made."""

Parts = list[list[Any]]


class World:
    """One database with its clients. `write` is append or w."""

    def __init__(self, seed: int, level: str, write: str, keys: int = 3, unknown: float = 0.05) -> None:
        self.random = random.Random(seed)
        self.level = level
        self.write = write
        self.keys = keys
        self.unknown = unknown
        self.next_value = 0
        self.states: list[dict[int, list[int]]] = [{}]
        """After each commit, what was written to each key so far, in order."""
        self.versions: dict[int, int] = {}
        """By key, the number of commits at its latest write."""
        self.locks: dict[int, int] = {}
        """By key, the process that holds it."""
        self.seen: dict[int, int] = {}
        """By process, the latest state that it has seen or made."""

    def run(self, transactions: int, clients: int) -> list[Operation]:
        """A history of so many transactions."""
        events: list[Event] = []
        running: dict[int, _Running] = {}
        processes = list(range(clients))
        next_process = clients
        begun = 0
        while begun < transactions or running:
            idle = [process for process in processes if process not in running]
            if idle and begun < transactions and (not running or self.random.random() < 0.3):
                process = self.random.choice(idle)
                parts = self._parts()
                events.append(Event(process, INVOKE, "txn", parts))
                running[process] = _Running(parts)
                begun += 1
                continue
            process = self.random.choice(sorted(running))
            outcome = self._step(process, running[process])
            if outcome is None:
                continue
            done = running.pop(process)
            events.append(Event(process, outcome, "txn", done.result if outcome == OK else done.asked))
            if outcome == INFO:
                processes[processes.index(process)] = next_process
                next_process += 1
        return pair(events, "world")

    def _parts(self) -> Parts:
        parts: Parts = []
        for _ in range(self.random.randint(1, 4)):
            key = self.random.randrange(self.keys)
            if self.random.random() < 0.5:
                self.next_value += 1
                parts.append([self.write, key, self.next_value])
            else:
                parts.append(["r", key, None])
        return parts

    def _step(self, process: int, running: _Running) -> str | None:
        """Go on with one transaction; its outcome if it has ended."""
        if running.outcome is not None:
            return running.outcome
        if self.level in (SERIAL, STALE, SESSION):
            base = self._base(process, running)
            for part in running.asked:
                self._do(running, part, self.states[base])
            running.outcome = self._commit(process, running)
        elif running.at < len(running.asked):
            if running.snapshot is None:
                running.snapshot = len(self.states) - 1
            seen = running.snapshot if self.level == SNAPSHOT else -1
            part = running.asked[running.at]
            if self._is_blocked(process, part):
                self._unlock(process)
                return FAIL
            self._do(running, part, self.states[seen])
            if self.level == DIRTY and part[0] == self.write:
                self._install([running.own.pop()])
            running.at += 1
        else:
            running.outcome = self._commit(process, running)
            self._unlock(process)
        return None

    def _is_blocked(self, process: int, part: list[Any]) -> bool:
        """Whether another transaction has written what this part would write; nobody waits."""
        if self.level != READ_COMMITTED or part[0] != self.write:
            return False
        return self.locks.setdefault(part[1], process) != process

    def _unlock(self, process: int) -> None:
        self.locks = {key: holder for key, holder in self.locks.items() if holder != process}

    def _base(self, process: int, running: _Running) -> int:
        latest = len(self.states) - 1
        if self.level == SERIAL or any(part[0] == self.write for part in running.asked):
            return latest
        base = self.random.randint(self.seen.get(process, 0) if self.level == SESSION else 0, latest)
        self.seen[process] = base
        return base

    def _do(self, running: _Running, part: list[Any], state: dict[int, list[int]]) -> None:
        name, key, value = part
        if name == self.write:
            running.own.append((key, value))
            running.result.append(part)
            return
        values = state.get(key, []) + [written for other, written in running.own if other == key]
        running.result.append([name, key, values if self.write == "append" else (values or [None])[-1]])

    def _commit(self, process: int, running: _Running) -> str:
        chance = self.random.random()
        written = {part[1] for part in running.asked if part[0] == self.write}
        snapshot = running.snapshot
        if self.level == DIRTY:
            if chance < 0.1:
                values = {part[2] for part in running.asked}
                state = {
                    key: [value for value in listed if value not in values]
                    for key, listed in self.states[-1].items()
                }
                self.states.append(state)
                return FAIL
            return INFO if chance < 0.1 + self.unknown else OK
        conflict = self.level == SNAPSHOT and any(
            self.versions.get(key, 0) > (snapshot or 0) for key in written
        )
        if conflict or chance < 0.05:
            return FAIL
        if chance < 0.05 + self.unknown and self.random.random() < 0.5:
            return INFO
        if running.own:
            self._install(running.own)
            self.versions.update((key, len(self.states) - 1) for key in written)
            self.seen[process] = len(self.states) - 1
        return INFO if chance < 0.05 + self.unknown else OK

    def _install(self, writes: list[tuple[int, int]]) -> None:
        state = dict(self.states[-1])
        for key, value in writes:
            state[key] = [*state.get(key, []), value]
        self.states.append(state)


class _Running:
    def __init__(self, asked: Parts) -> None:
        self.asked = asked
        self.result: Parts = []
        self.own: list[tuple[int, int]] = []
        self.at = 0
        self.snapshot: int | None = None
        self.outcome: str | None = None
