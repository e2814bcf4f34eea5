"""Random histories with transactions, assigns, rebalances and processes that send and poll at once."""

from __future__ import annotations

import itertools
import random

from liftlog_jepsen.history import FINAL_POLL, History, HistoryWriter, Mop


class _Logs:
    """What two logs hold, and where each process stands."""

    def __init__(self, rng: random.Random, mischief: float) -> None:
        self.rng, self.mischief = rng, mischief
        self.stored: dict[str, list[tuple[int, int]]] = {"a": [], "b": []}
        self.position: dict[tuple[int, str], int] = {}
        self.next_value = 1

    def odd(self) -> bool:
        return self.rng.random() < self.mischief

    def send(self, key: str, outcome: str) -> Mop:
        value = self.next_value
        if self.odd():
            value = self.rng.randrange(1, 5)
        else:
            self.next_value += 1
        log = self.stored[key]
        offset = max((place for place, _ in log), default=-1) + self.rng.choice((1, 1, 1, 2))
        if self.odd():
            offset = max(offset - self.rng.randrange(4), 0)
        kept = {"ok": not self.odd(), "info": self.rng.random() < 0.5, "fail": self.odd()}
        if kept[outcome]:
            log.append((offset, value))
        told = outcome == "ok" or self.rng.random() < 0.3
        epoch: int | None = 1 + offset // 3
        leader: int | None = 10 + offset // 3
        if self.odd():
            epoch = self.rng.choice((None, 0, 1, 2, 3))
        if self.odd():
            leader = self.rng.choice((None, 10, 11, 12))
        return Mop("send", key, offset if told and not self.odd() else None, value, epoch, leader)

    def polls(self, process: int, key: str, whole: bool) -> list[Mop]:
        log = sorted(self.stored[key])
        start = 0 if whole else self.position.get((process, key), 0)
        if self.odd():
            start = max(start + self.rng.randrange(-2, 3), 0)
        some = log[start:] if whole else log[start : start + self.rng.randrange(1, 4)]
        if len(some) > 1 and self.odd():
            some.pop(self.rng.randrange(len(some)))
        if len(some) > 1 and self.odd():
            self.rng.shuffle(some)
        self.position[process, key] = start + len(some)
        records = [
            Mop("poll", key, place + self.odd(), value + 50 * (self.odd() and self.odd()))
            for place, value in some
        ]
        if self.odd():
            records.append(Mop("poll", key, start + len(some), self.next_value))
        return records or [Mop("poll", key)]


def random_log(rng: random.Random, name: str, mischief: float) -> History:
    """About forty operations; with `mischief` 0 a log that keeps its promises, as far as its clients know."""
    writer = HistoryWriter(name, clock_ns=itertools.count().__next__)
    logs = _Logs(rng, mischief)
    waiting: dict[int, tuple[int, str, str, list[Mop]]] = {}
    names = itertools.count(1)
    processes = [next(names) for _ in range(4)]
    for _ in range(rng.randrange(10, 80)):
        place = rng.randrange(len(processes))
        process = processes[place]
        if process in waiting:
            op_id, f, outcome, mops = waiting.pop(process)
            writer.mops(op_id, mops)
            {"ok": writer.ok, "fail": writer.fail, "info": writer.info}[outcome](op_id)
            if outcome == "info":
                processes[place] = next(names)
            continue
        f = rng.choice(("send", "send", "poll", "poll", "poll", "txn", "assign", FINAL_POLL))
        outcome = rng.choice(("ok", "ok", "ok", "ok", "ok", "fail", "info"))
        keys = rng.sample(("a", "b"), rng.choice((1, 1, 2)))
        mops = []
        for key in keys:
            if f == "assign":
                mops.append(Mop("assign", key))
            if f in ("send", "txn"):
                mops += [logs.send(key, outcome) for _ in range(rng.choice((1, 1, 2, 3)))]
            if f in ("poll", "txn", FINAL_POLL):
                mops += logs.polls(process, key, f == FINAL_POLL)
            if f == "poll" and rng.random() < 0.1:
                mops.append(Mop("rebalance", key))
        waiting[process] = writer.invoke(process, f), f, outcome, mops
    for op_id, _, _, mops in waiting.values():
        writer.mops(op_id, mops)
    return writer.close()
