"""Small histories that may break any promise, and valid ones through the writer that recorders use.

`random_history` runs a toy log with clients that overlap, lose answers and read; with some probability the
log then misbehaves at each step. It says nothing about which anomalies result: tests compare two checkers
on it. `large_history` is what a correct log would record.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from liftlog_jepsen.history import FINAL_POLL, History, HistoryWriter, Mop


def _ticks() -> Callable[[], int]:
    """A clock that moves a millisecond with every look at it."""
    moments: Iterator[int] = iter(range(0, 10**18, 1_000_000))
    return lambda: next(moments)


class _ToyLog:
    """One history in the making: the logs, the clients, and the operations that are under way."""

    def __init__(self, rng: random.Random, name: str, mischief: float, strings: bool) -> None:
        self.rng = rng
        self.mischief = mischief
        self.strings = strings
        self.writer = HistoryWriter(name, clock_ns=_ticks())
        self.keys = [f"k/{n}" for n in range(rng.choice((1, 1, 2)))]
        self.logs: dict[str, list[int | str]] = {key: [] for key in self.keys}
        self.open: list[tuple[int, list[tuple[str, int | str]]]] = []
        self.positions: dict[tuple[int, str], int] = {}
        self.next_value = 0
        self.next_process = 100

    def odd(self) -> bool:
        return self.rng.random() < self.mischief

    def value(self) -> int | str:
        if self.next_value and self.odd() and self.rng.random() < 0.3:
            number = self.rng.randrange(self.next_value)
        else:
            number = self.next_value
            self.next_value += 1
        return f"v{number}" if self.strings else number

    def begin_send(self) -> None:
        """One value, or now and then a transaction of several."""
        count = self.rng.choice((1, 1, 1, 1, 2, 3))
        parts = [(self.rng.choice(self.keys), self.value()) for _ in range(count)]
        process = self.next_process
        self.next_process += 1
        if count == 1:
            op_id = self.writer.invoke(process, "send", *parts[0])
        else:
            op_id = self.writer.invoke(process, "txn")
        self.open.append((op_id, parts))

    def end_send(self) -> None:
        """The log takes the values, or loses them; the client hears of it, or does not."""
        if not self.open:
            return
        op_id, parts = self.open.pop(self.rng.randrange(len(self.open)))
        fate = self.rng.choice(("ok", "ok", "ok", "ok", "info", "lost", "fail"))
        mops = []
        for key, value in parts:
            offset: int | None = None
            if fate in ("ok", "info") or (fate == "fail" and self.odd()):
                offset = self._store(key, value)
            known = fate == "ok" or (fate == "info" and len(parts) > 1 and self.rng.random() < 0.5)
            mops.append(Mop("send", key, offset if known else None, value))
        if fate == "ok":
            self.writer.ok(op_id, mops=mops)
            return
        self.writer.mops(op_id, mops)
        if fate == "fail":
            self.writer.fail(op_id, "refused")
        elif self.rng.random() < 0.5:
            self.writer.info(op_id, "timed out")

    def _store(self, key: str, value: int | str) -> int:
        log = self.logs[key]
        offset = len(log)
        if not self.odd():
            log.append(value)
            return offset
        trick = self.rng.choice(("insert", "overwrite", "twice", "lose", "wrong"))
        if trick == "insert":
            offset = self.rng.randint(0, len(log))
            log.insert(offset, value)
        elif trick == "overwrite" and log:
            offset = self.rng.randrange(len(log))
            log[offset] = value
        elif trick == "twice":
            log += [value, value]
        elif trick == "wrong":
            log.append(value)
            offset = self.rng.randint(0, offset + 2)
        return offset

    def poll(self, process: int, key: str, final: bool = False) -> None:
        position = 0 if final else self.positions.get((process, key), 0)
        if self.odd():
            position = max(0, position + self.rng.choice((-2, -1, 1, 2)))
        log = self.logs[key]
        stop = len(log) if final else min(len(log), position + self.rng.randint(0, 4))
        records = [(offset, log[offset]) for offset in range(position, stop)]
        if records and self.odd():
            self.rng.choice((records.pop, records.reverse, lambda: records.pop(0)))()
        if self.odd():
            records.append((stop, self.value()))
        op_id = self.writer.invoke(process, FINAL_POLL if final else "poll", key)
        mops = [Mop("poll", key, offset, value) for offset, value in records]
        if self.rng.random() < 0.1:
            self.writer.mops(op_id, mops or [Mop("poll", key)])
            self.writer.info(op_id) if self.rng.random() < 0.5 else self.writer.fail(op_id)
            return
        self.writer.ok(op_id, mops=mops or [Mop("poll", key)])
        self.positions[process, key] = stop

    def assign(self, process: int) -> None:
        kept = [key for key in self.keys if self.rng.random() < 0.5]
        op_id = self.writer.invoke(process, self.rng.choice(("assign", "subscribe")))
        self.writer.ok(op_id, mops=[Mop("assign", key) for key in kept])
        for key in self.keys:
            if key not in kept:
                # Back, never forward: what no reader visits counts as lost.
                self.positions[process, key] = self.rng.randint(0, self.positions.get((process, key), 0))


def random_history(
    rng: random.Random, name: str, *, steps: int = 40, mischief: float = 0.0, strings: bool = True
) -> History:
    """A history of about `steps` operations. `mischief` is the probability of each chance to misbehave."""
    toy = _ToyLog(rng, name, mischief, strings)
    readers = [0, 1, 2]
    for _ in range(steps):
        action = rng.random()
        if action < 0.35:
            toy.begin_send()
        elif action < 0.7:
            toy.end_send()
        elif action < 0.95:
            toy.poll(rng.choice(readers), rng.choice(toy.keys))
        else:
            toy.assign(rng.choice(readers))
    if rng.random() < 0.8:
        for _ in range(rng.choice((0, len(toy.open)))):
            toy.end_send()
        for reader in (10, 11):
            for key in toy.keys:
                toy.poll(reader, key, final=True)
    return toy.writer.close()


def large_history(name: str, sends: int, *, keys: int = 1, readers: int = 3, batch: int = 1000) -> History:
    """What a correct log records: `sends` values over `keys` logs, then a final read by every reader."""
    writer = HistoryWriter(name, clock_ns=_ticks())
    fill(writer, [f"log/{key}" for key in range(keys)], sends, readers, batch)
    return writer.close()


def fill(writer: HistoryWriter, keys: Sequence[str], sends: int, readers: int, batch: int = 1000) -> None:
    """Record `sends` acknowledged sends, spread over the keys in batches, and the final reads."""
    logs: dict[str, list[str]] = {key: [] for key in keys}
    for number, start in enumerate(range(0, sends, batch)):
        key = keys[number % len(keys)]
        values = [f"{key} value {n}" for n in range(start, min(start + batch, sends))]
        ids = writer.invoke_sends(number % 8, key, values)
        first = len(logs[key])
        writer.ok_sends(ids, range(first, first + len(values)), 1)
        logs[key] += values
    for reader in range(readers):
        for key, log in logs.items():
            for first in range(0, max(len(log), 1), batch):
                op_id = writer.invoke(1000 + reader, FINAL_POLL, key)
                writer.ok_poll(op_id, key, first, log[first : first + batch])
