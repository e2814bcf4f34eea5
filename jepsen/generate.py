"""Makes histories: small random ones that may break any promise, and large ones with planted anomalies.

`random_history` runs a toy log with clients that overlap, lose answers and read; with some probability the
log then misbehaves at each step. It says nothing about which anomalies result: tests compare two checkers
on it.

`large_history` is what a correct log would record at any size, for benchmarks. `plant` adds anomalies whose
kinds and numbers are known, so that a check of a large history can be held to finding exactly them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from jepsen.history import FINAL_POLL, History, HistoryWriter, Mop

PLANTABLE = (
    "inconsistent-offsets",
    "duplicate",
    "lost-write",
    "unseen",
    "missing-in-final-read",
    "aborted-read",
    "phantom",
    "future-read",
    "realtime-order",
    "nonmonotonic-poll",
    "int-nonmonotonic-poll",
    "poll-skip",
    "int-poll-skip",
    "reused-value",
)


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


def plant(writer: HistoryWriter, anomaly: str, key: str) -> None:
    """Record operations on a log of their own, `key`, that hold this anomaly exactly once, and no other."""
    _PLANTS[anomaly](_Plot(writer, key))


class _Plot:
    """Shorthand for planting."""

    def __init__(self, writer: HistoryWriter, key: str) -> None:
        self.writer = writer
        self.key = key

    def send(self, letter: str, offset: int | None, outcome: str = "ok") -> None:
        op_id = self.writer.invoke(1, "send", self.key, self.value(letter))
        if outcome == "ok":
            self.writer.ok(op_id, offset=offset, epoch=1)
        elif outcome == "fail":
            self.writer.fail(op_id)

    def value(self, letter: str) -> str:
        return f"{self.key} {letter}"

    def poll(self, process: int, *records: tuple[int, str], f: str = "poll") -> None:
        op_id = self.writer.invoke(process, f, self.key)
        mops = [Mop("poll", self.key, offset, self.value(letter)) for offset, letter in records]
        self.writer.ok(op_id, mops=mops or [Mop("poll", self.key)])

    def abc(self) -> None:
        for offset, letter in enumerate("abc"):
            self.send(letter, offset)


def _inconsistent(plot: _Plot) -> None:
    for letter, offset in (("a", 0), ("b", 1), ("d", 1), ("c", 2)):
        plot.send(letter, offset)
    plot.poll(2, (0, "a"), (1, "b"), (2, "c"))
    plot.poll(3, (1, "d"))


def _duplicate(plot: _Plot) -> None:
    plot.abc()
    plot.poll(2, (0, "a"), (1, "b"), (2, "c"), (3, "a"))


def _lost(plot: _Plot) -> None:
    plot.abc()
    plot.poll(2, (2, "c"))
    plot.poll(3, (0, "a"))


def _unseen(plot: _Plot) -> None:
    plot.abc()
    plot.poll(2, (0, "a"), (1, "b"), f=FINAL_POLL)


def _missing(plot: _Plot) -> None:
    plot.abc()
    plot.poll(2, (0, "a"), (1, "b"), (2, "c"), f=FINAL_POLL)
    plot.poll(3, (0, "a"), (1, "b"), f=FINAL_POLL)


def _aborted(plot: _Plot) -> None:
    plot.send("a", None, "fail")
    plot.poll(2, (0, "a"))


def _phantom(plot: _Plot) -> None:
    plot.send("a", 0)
    plot.poll(2, (0, "a"), (1, "x"))


def _future(plot: _Plot) -> None:
    plot.poll(2, (0, "a"))
    plot.send("a", 0)


def _realtime(plot: _Plot) -> None:
    plot.send("b", 1)
    plot.send("a", 0)
    plot.poll(2, (0, "a"), (1, "b"))


def _nonmonotonic(plot: _Plot) -> None:
    plot.abc()
    plot.poll(2, (0, "a"), (1, "b"))
    plot.poll(2, (1, "b"), (2, "c"))


def _internal_nonmonotonic(plot: _Plot) -> None:
    plot.abc()
    plot.poll(2, (1, "b"), (0, "a"))
    plot.poll(3, (0, "a"), (1, "b"), (2, "c"))


def _skip(plot: _Plot) -> None:
    plot.abc()
    plot.poll(2, (0, "a"))
    plot.poll(2, (2, "c"))
    plot.poll(3, (0, "a"), (1, "b"))


def _internal_skip(plot: _Plot) -> None:
    plot.abc()
    plot.poll(2, (0, "a"), (2, "c"))
    plot.poll(3, (1, "b"))


def _reused(plot: _Plot) -> None:
    plot.send("a", 0)
    plot.send("a", 1)
    plot.poll(2, (0, "a"), (1, "a"))


_PLANTS: dict[str, Callable[[_Plot], None]] = dict(
    zip(
        PLANTABLE,
        (
            _inconsistent,
            _duplicate,
            _lost,
            _unseen,
            _missing,
            _aborted,
            _phantom,
            _future,
            _realtime,
            _nonmonotonic,
            _internal_nonmonotonic,
            _skip,
            _internal_skip,
            _reused,
        ),
        strict=True,
    )
)
