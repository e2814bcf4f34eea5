"""One node on trio: events in, `Node.step`, effects out.

    sockets, storage thread, timers  ->  inbox  ->  Node.step(event)  ->  effects  ->  ports

The loop takes everything that is queued before it waits again, so that under load one wake-up serves a whole
burst, and nothing here is done per message: a `Published` event carries all that one read from the NATS
socket brought.

This is the only place where effects are carried out, in the order the core gave them, with one exception that
is the point of the exercise: a `Send` that names a ticket waits in the `Outbox` until the write behind the
ticket is durable (M1, R5, R7). A leader's own sync and the replication of the same batch thus run side by
side.

Production and the simulator's trio gear run this very class. It therefore knows only the ports, uses no
thread, no randomness and no clock of its own, and waits through trio alone, whose clock may be a virtual one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import trio

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
from liftlog.ports import Bus, ClientReplies, Clock, Network, Random, StorageRunner

INBOX_LIMIT = 1024
"""Events that may wait before `NodeDriver.put` holds back the socket readers that bring more."""


class NodeStopped(Exception):
    """The core asked for the end of this process (`StopNode`); the text says why."""


class StepNode(Protocol):
    """What the driver needs of `liftlog.core.node.Node`."""

    def start(self, now_ms: float) -> list[Effect]: ...

    def step(self, event: Event) -> list[Effect]: ...


class NodeDriver:
    """Runs one node over its ports. All methods belong to the trio thread."""

    def __init__(
        self,
        node: StepNode,
        *,
        network: Network,
        bus: Bus,
        storage: StorageRunner,
        clients: ClientReplies,
        clock: Clock,
        random: Random,
        inbox_limit: int = INBOX_LIMIT,
    ) -> None:
        self.node = node
        self._network = network
        self._clock = clock
        self._inbox: deque[Event] = deque()
        self._inbox_limit = inbox_limit
        self._timers = Timers(random)
        self._now_ms = clock.monotonic_ms()
        """The node's monotonic clock when the present step began."""
        self._outbox = Outbox()
        self._wake = trio.Event()
        self._room = trio.Event()
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
            self._carry_out[job] = storage.submit

    # -- the inbox -----------------------------------------------------------------------------------------

    def post(self, event: Event) -> None:
        """Queue an event without waiting: for completions, whose number is bounded by what was asked for."""
        self._inbox.append(event)
        self._wake.set()

    def post_all(self, events: Iterable[Event]) -> None:
        """Queue several events without waiting."""
        self._inbox.extend(events)
        self._wake.set()

    async def put(self, event: Event) -> None:
        """Queue an event, after waiting for room: for socket readers, who thus stop reading when we lag."""
        while len(self._inbox) >= self._inbox_limit:
            await self._room.wait()
        self._inbox.append(event)
        self._wake.set()

    # -- the loop ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the node until it is cancelled. Raises `NodeStopped` when the core asks for the end."""
        self._now_ms = self._clock.monotonic_ms()
        self._execute(self.node.start(self._now_ms))
        while True:
            if self._work_off():
                self._room.set()
                self._room = trio.Event()
            await self.wait_until(self._timers.next_ms)

    async def wait_until(self, deadline_ms: float) -> None:
        """Wait until the inbox has an event or the node's monotonic clock reaches `deadline_ms`.

        Always a trio checkpoint. May return early. The deadline is turned into a duration of trio's clock,
        so that a custom `trio.abc.Clock` decides how long it really takes.
        """
        if self._inbox:
            await trio.lowlevel.checkpoint()
            return
        self._wake = trio.Event()
        if deadline_ms == NEVER_MS:
            await self._wake.wait()
            return
        wait_ms = deadline_ms - self._clock.monotonic_ms()
        with trio.move_on_after(max(0.0, wait_ms / 1000)):
            await self._wake.wait()

    def _work_off(self) -> bool:
        """Step the node through every queued event and every timer that is due.

        The tick goes before the events, each of which may have waited while this process was stopped: the
        core knows how late it is before it judges what is old (N2). The other timers go behind them.
        True if the inbox was full, which means that somebody may be waiting for room.
        """
        inbox = self._inbox
        was_full = len(inbox) >= self._inbox_limit
        step, execute = self.node.step, self._execute
        clock, timers = self._clock, self._timers
        while inbox:
            now_ms = self._now_ms = clock.monotonic_ms()
            if timers.take(TIMER_TICK, now_ms):
                execute(step(TimerFired(TIMER_TICK, now_ms, clock.wall_ms())))
            event = inbox.popleft()
            kind = type(event)
            if kind is Durable:
                # What the node does about it comes first, so that its trace knows what is on its way.
                effects = step(event)
                for send in self._outbox.durable(event.ticket):  # type: ignore[attr-defined]
                    self._network.send(send.to, send.message)
                execute(effects)
                continue
            if kind is StorageFailed:
                self._outbox.failed(event.ticket)  # type: ignore[attr-defined]
            execute(step(event))
        now_ms = self._now_ms = clock.monotonic_ms()
        for timer in timers.due(now_ms):
            execute(step(TimerFired(timer, now_ms, clock.wall_ms())))
        return was_full

    # -- effects -------------------------------------------------------------------------------------------

    def _execute(self, effects: list[Effect]) -> None:
        carry_out = self._carry_out
        for effect in effects:
            carry_out[type(effect)](effect)

    def _send(self, effect: Send) -> None:
        ready = self._outbox.submit(effect)
        if ready is not None:
            self._network.send(ready.to, ready.message)

    def _set_timer(self, effect: SetTimer) -> None:
        self._timers.set(effect, self._now_ms)

    def _stop(self, effect: StopNode) -> None:
        raise NodeStopped(effect.reason)
