"""Jepsen histories, as EDN, for the checks of objects, transactions and tallies: valid, or with one anomaly.

A simulated system does every operation at one moment between its invocation and its completion, so what
clients see is linearizable, or strictly serializable, whatever they do at the same time. Some operations
fail, some never complete. Halfway, when nothing else is under way, the story of an anomaly is told
(`liftlog_jepsen.generate.scenarios`), on keys and values of its own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from liftlog.types import LiftlogError
from liftlog_jepsen.events import FAIL, INFO, INVOKE, Event
from liftlog_jepsen.formats import write_edn
from liftlog_jepsen.formats.edn import Keyword
from liftlog_jepsen.generate.scenarios import SCENARIOS, OverlappingStep
from liftlog_jepsen.generate.systems import SYSTEMS, UNKNOWN_MAX, ObjectSystem

FAMILIES = tuple(SYSTEMS)
PROCESSES = 5
UNKNOWN_SHARE = 0.005
FAIL_SHARE = 0.01
STEP_NS = 1_000_000


def plantable(family: str) -> tuple[str, ...]:
    """The anomalies that can be planted in this family."""
    return tuple(SCENARIOS[family])


def write_family(
    family: str, path: Path, operations: int, seed: int = 0, anomaly: str | None = None
) -> str | None:
    """Write a history of about `operations` operations to a new EDN file; returns the anomaly in it, if any.

    Raises LiftlogError if the file exists or there is no such anomaly.
    """
    events = family_events(family, operations, seed, anomaly)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(write_edn(events))
    except FileExistsError:
        raise LiftlogError(f"{path} exists already: a history is never overwritten, choose another") from None
    except OSError as error:
        raise LiftlogError(f"cannot write history {path}: {error.strerror}") from None
    return anomaly


def family_events(family: str, operations: int, seed: int = 0, anomaly: str | None = None) -> list[Event]:
    """The events of such a history. Raises LiftlogError if there is no such family or anomaly."""
    if family not in SYSTEMS:
        raise LiftlogError(f"--family {family}: there is no such family; there are {', '.join(FAMILIES)}")
    if operations < 1:
        raise LiftlogError(f"--operations {operations}: give a number of 1 or more")
    if anomaly is not None and anomaly not in SCENARIOS[family]:
        raise LiftlogError(
            f"--plant {anomaly}: there is no such anomaly of {family}; "
            f"there are {', '.join(SCENARIOS[family])}"
        )
    rng = random.Random(f"{family} {seed}")
    return list(_Run(rng, SYSTEMS[family](rng)).events(operations, anomaly, family))


class _Open:
    """An operation under way."""

    def __init__(self, process: int, f: str, argument: Any, key: Any) -> None:
        self.process, self.f, self.argument, self.key = process, f, argument, key
        self.answer: tuple[str, Any] | None = None
        """Type and value of the completion, once it has happened."""


class _Run:
    def __init__(self, rng: random.Random, system: ObjectSystem) -> None:
        self.rng = rng
        self.system = system
        self.under_way: list[_Open] = []
        self.free = list(range(PROCESSES))
        self.next_process = PROCESSES
        self.unknown = 0
        self.count = 0

    def events(self, operations: int, anomaly: str | None, family: str) -> Iterator[Event]:
        halfway = operations // 2
        yield from self._work(halfway)
        if anomaly is not None:
            yield from self._drain()
            yield from self._tell(SCENARIOS[family][anomaly](self.system))
        yield from self._work(operations - halfway)
        yield from self._drain()
        for f, argument, key in self.system.last():
            yield from self._tell([OverlappingStep(((f, argument, key),))])

    def _work(self, operations: int) -> Iterator[Event]:
        begun = 0
        while begun < operations:
            if self.free and self.rng.random() < 0.5:
                begun += 1
                process = self.free.pop(self.rng.randrange(len(self.free)))
                open_ = _Open(process, *self.system.choose())
                self.under_way.append(open_)
                yield self._event(open_, INVOKE, self.system.asked(open_.f, open_.argument))
            elif self.under_way:
                yield from self._advance(self.rng.choice(self.under_way))

    def _advance(self, open_: _Open) -> Iterator[Event]:
        """It happens, or its client hears of it."""
        if open_.answer is None:
            if self.rng.random() < FAIL_SHARE and self.system.may_fail(open_.f):
                open_.answer = FAIL, open_.argument
            else:
                open_.answer = self.system.apply(open_.f, open_.argument, open_.key)
            return
        self.under_way.remove(open_)
        unlucky = self.unknown < UNKNOWN_MAX and self.rng.random() < UNKNOWN_SHARE
        if unlucky and self.system.may_stay_open(open_.f):
            self.unknown += 1
            self.free.append(self.next_process)
            self.next_process += 1
            yield self._event(open_, INFO, self.system.asked(open_.f, open_.argument))
            return
        self.free.append(open_.process)
        yield self._event(open_, *open_.answer)

    def _drain(self) -> Iterator[Event]:
        while self.under_way:
            yield from self._advance(self.under_way[0])

    def _tell(self, story: list[OverlappingStep]) -> Iterator[Event]:
        """Each step's operations overlap each other, and nothing else."""
        for step in story:
            opened = []
            for number, (f, argument, key) in enumerate(step.operations):
                open_ = _Open(step.first_process + number, f, argument, key)
                opened.append(open_)
                yield self._event(open_, INVOKE, self.system.asked(f, argument))
            answers = step.answers or (None,) * len(opened)
            for open_, answer in zip(opened, answers, strict=True):
                found = self.system.apply(open_.f, open_.argument, open_.key) if answer is None else answer
                yield self._event(open_, *found)

    def _event(self, open_: _Open, type_: str, value: Any) -> Event:
        event = Event(
            open_.process, type_, Keyword(open_.f), value, open_.key, self.count * STEP_NS, self.count
        )
        self.count += 1
        return event
