"""Busy: no node goes round in circles (L5).

What a node has to do comes from outside: ticks, messages, what disks answer. If it makes more of that itself,
a question that it asks again and again, a message whose answer it answers, it works without end while hardly
any time passes, and every other invariant holds. So the steps of each node are counted by the second of
simulated time, and `STEPS_MAX` is far from what an honest world needs. `TimePasses` is about less: steps that
take no time at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from liftlog.messages import Effect, Event, Received, Send
from liftlog_sim.kernel import SECOND, Kernel
from liftlog_sim.truth.invariants import Checks, Violation

if TYPE_CHECKING:
    from liftlog_sim.devices.machine import Machine

STEPS_MAX = 8_000
"""A node's steps in one second. The most that seeds 0:256 of the mix have is 1,075; a test that asks 600
times a second for a stream comes to 4,972.
"""
NOTED_FROM = STEPS_MAX - 1_000
"""The last ones tell what it is that goes on."""
TOLD = 3


class Busy:
    """The steps of every node, and of the present second of each."""

    __slots__ = ("_checks", "_kernel", "_noted", "_second", "_taken", "steps")

    def __init__(self, checks: Checks, kernel: Kernel) -> None:
        self._checks = checks.counts
        self._kernel = kernel
        self.steps = 0
        self._second = 0
        self._taken: dict[int, int] = {}
        self._noted: dict[int, Counter[str]] = {}

    def stepped(self, machine: Machine, event: Event | None, effects: Sequence[Effect]) -> None:
        """Raises Violation."""
        self.steps += 1
        if self._kernel.now_us >= self._second:
            self._second = (self._kernel.now_us // SECOND + 1) * SECOND
            self._checks["Busy"] += 1
            self._taken.clear()
            self._noted.clear()
        taken = self._taken[machine.number] = self._taken.get(machine.number, 0) + 1
        if taken > NOTED_FROM:
            self._note(machine.number, event, effects, taken)

    def _note(self, node: int, event: Event | None, effects: Sequence[Effect], taken: int) -> None:
        noted = self._noted.setdefault(node, Counter())
        noted.update(list(dict.fromkeys((_event_word(event), *map(_effect_word, effects)))))
        if taken >= STEPS_MAX:
            told = "; ".join(f"{number} times {word}" for word, number in noted.most_common(TOLD))
            raise Violation(
                "Busy",
                f"node {node} has taken {taken} steps since second {self._second // SECOND - 1}, "
                f"and of the last {taken - NOTED_FROM}: {told}",
            )


def _event_word(event: Event | None) -> str:
    if isinstance(event, Received):
        return f"node {event.sender} sent it {type(event.message).__name__}"
    return f"it took {type(event).__name__}{_of_log(event)}"


def _effect_word(effect: Effect) -> str:
    if isinstance(effect, Send):
        return f"it sent {type(effect.message).__name__} to node {effect.to}"
    return f"it asked for {type(effect).__name__}{_of_log(effect)}"


def _of_log(what: object) -> str:
    log = getattr(what, "log", None) or getattr(what, "partition", None)
    return f" of {log}" if log is not None else ""
