"""The `step` gear: nodes stepped straight from the event heap, without trio.

It carries out effects in the order and by the rules of `liftlog.driver.driver.NodeDriver`, sharing its
`Outbox` and its `Timers`; what it leaves out is only the waiting. Seed sweeps run in this gear, since a step
costs a function call here and a task switch there. `sim/trio_gear.py` runs the production driver itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from liftlog.driver.outbox import Outbox
from liftlog.driver.timers import NEVER_MS, Timers
from liftlog.messages import (
    STORAGE_JOBS,
    TIMER_TICK,
    AckPublishes,
    Drain,
    Durable,
    Effect,
    Event,
    RefusePublishes,
    ReplyClient,
    Send,
    SetTimer,
    StopNode,
    StorageFailed,
    Subscribe,
    TimerFired,
    Unsubscribe,
)
from sim.machine import Machine


class StepProcess:
    """One run of a node, driven from the heap."""

    __slots__ = (
        "_alive",
        "_carry_out",
        "_clock",
        "_kernel",
        "_machine",
        "_node",
        "_now_ms",
        "_observe",
        "_outbox",
        "_send_now",
        "_timers",
        "_wake_at_us",
    )

    def __init__(self, machine: Machine) -> None:
        assert machine.node is not None and machine.network is not None and machine.bus is not None
        assert machine.storage is not None and machine.clients is not None
        self._machine = machine
        self._node = machine.node
        self._kernel = machine.world.kernel
        self._clock = machine.clock
        self._observe = machine.world.observer.stepped
        self._send_now = machine.network.send
        self._outbox = Outbox()
        self._timers = Timers(machine.timer_random)
        self._now_ms = self._clock.monotonic_ms()
        self._wake_at_us = -1
        self._alive = True
        bus, clients = machine.bus, machine.clients
        self._carry_out: dict[type[Effect], Callable[[Any], None]] = {
            Send: self._send,
            SetTimer: self._set_timer,
            Subscribe: bus.subscribe,
            Unsubscribe: lambda effect: bus.unsubscribe(effect.partition),
            Drain: lambda effect: bus.drain(effect.partition),
            AckPublishes: bus.acknowledge,
            RefusePublishes: bus.refuse,
            ReplyClient: lambda effect: clients.reply(effect.client, effect.reply),
            StopNode: self._stop,
        }
        for job in STORAGE_JOBS:
            self._carry_out[job] = machine.storage.submit

    # -- Process -------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._now_ms = self._clock.monotonic_ms()
        try:
            effects = self._node.start(self._now_ms)
        except Exception as error:
            self._machine.raised(None, error)
            return
        self._observe(self._machine, None, effects)
        self._execute(effects)

    def post(self, event: Event) -> None:
        self._now_ms = self._clock.monotonic_ms()
        if self._timers.take(TIMER_TICK, self._now_ms):
            self._step(TimerFired(TIMER_TICK, self._now_ms, self._clock.wall_ms()))
            if not self._alive:
                return
        self._step(event)

    def _step(self, event: Event) -> None:
        kind = type(event)
        if kind is Durable:
            for send in self._outbox.durable(event.ticket):  # type: ignore[attr-defined]
                self._send_now(send.to, send.message)
        elif kind is StorageFailed:
            self._outbox.failed(event.ticket)  # type: ignore[attr-defined]
        try:
            effects = self._node.step(event)
        except Exception as error:
            self._machine.raised(event, error)
            return
        self._observe(self._machine, event, effects)
        self._execute(effects)

    def resumed(self) -> None:
        """The pause is over: fire the timers that came due."""
        self._wake(None, None)

    def end(self) -> None:
        self._alive = False

    # -- effects -------------------------------------------------------------------------------------------

    def _execute(self, effects: list[Effect]) -> None:
        carry_out = self._carry_out
        for effect in effects:
            carry_out[type(effect)](effect)

    def _send(self, effect: Send) -> None:
        ready = self._outbox.submit(effect)
        if ready is not None:
            self._send_now(ready.to, ready.message)

    def _set_timer(self, effect: SetTimer) -> None:
        self._timers.set(effect, self._now_ms)
        self._schedule_wake()

    def _stop(self, effect: StopNode) -> None:
        self._machine.stop(effect.reason)

    # -- timers --------------------------------------------------------------------------------------------

    def _schedule_wake(self) -> None:
        """One entry in the heap serves all timers; an entry that turns out too early just schedules the
        next.
        """
        next_ms = self._timers.next_ms
        if next_ms == NEVER_MS:
            return
        wake_us = self._clock.simulated_us(next_ms)
        if self._wake_at_us < 0 or wake_us < self._wake_at_us:
            self._wake_at_us = wake_us
            self._kernel.at(wake_us, self._wake, wake_us)

    def _wake(self, wake_us: Any, second: Any) -> None:
        if not self._alive or (wake_us is not None and wake_us != self._wake_at_us):
            return
        if self._machine.paused:
            return
        self._wake_at_us = -1
        self._now_ms = self._clock.monotonic_ms()
        for kind in self._timers.due(self._now_ms):
            if not self._alive:
                return
            self._step(TimerFired(kind, self._now_ms, self._clock.wall_ms()))
        self._schedule_wake()
