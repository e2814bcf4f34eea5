"""The `step` gear: nodes stepped straight from the event heap, without trio.

The interpreter of the production driver without the waiting: an event is taken at once, and an entry of the
heap takes the place of sleeping. Seed sweeps run in this gear, since a step costs a function call here and a
task switch there. `runs/trio_gear.py` runs the production driver itself.
"""

from __future__ import annotations

from typing import Any

from liftlog.driver.interpreter import Interpreter, NodeStopped
from liftlog.driver.timers import NEVER_MS
from liftlog.messages import Event
from liftlog_sim.devices.machine import Machine


class StepProcess:
    """One run of a node, driven from the heap."""

    __slots__ = ("_clock", "_interpreter", "_kernel", "_machine", "_wake_at_us")

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._kernel = machine.kernel
        self._clock = machine.clock
        self._wake_at_us = -1
        ports = machine.ports(alarm=self._schedule_wake)
        self._interpreter = Interpreter(machine.running, ports, [machine.stepped], machine.raised)

    # -- Process -------------------------------------------------------------------------------------------

    def start(self) -> None:
        try:
            self._interpreter.start()
        except NodeStopped as stopped:
            self._machine.stop(str(stopped))

    def post(self, event: Event) -> None:
        try:
            self._interpreter.take(event)
        except NodeStopped as stopped:
            self._machine.stop(str(stopped))

    def resumed(self) -> None:
        """The pause is over: fire the timers that came due."""
        self._wake(None, None)

    def end(self) -> None:
        self._interpreter.end()

    # -- timers --------------------------------------------------------------------------------------------

    def _schedule_wake(self, next_ms: float) -> None:
        """One entry in the heap serves all timers; an entry that turns out too early just schedules the
        next.
        """
        if next_ms == NEVER_MS:
            return
        wake_us = self._clock.simulated_us(next_ms)
        if self._wake_at_us < 0 or wake_us < self._wake_at_us:
            self._wake_at_us = wake_us
            self._kernel.at(wake_us, self._wake, wake_us)

    def _wake(self, wake_us: Any, second: Any) -> None:
        interpreter = self._interpreter
        if interpreter.ended or (wake_us is not None and wake_us != self._wake_at_us):
            return
        if self._machine.paused:
            return
        self._wake_at_us = -1
        try:
            interpreter.fire_due()
        except NodeStopped as stopped:
            self._machine.stop(str(stopped))
            return
        self._schedule_wake(interpreter.timers.next_ms)
