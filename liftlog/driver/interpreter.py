"""What a node's effects come to: the one place where a node is stepped and its effects are carried out.

    take(event)  ->  Node.step(event)  ->  observers  ->  what waited for a disk  ->  effects  ->  ports

Everything that runs nodes drives an `Interpreter`: the production driver, both gears of the simulator, and
what steps single nodes through scenarios and tests. They differ in when they call it and in the ports that
they give. The order is written here only, so that a fault in it cannot hide in one of them:

- The node goes first. If its step raises, or an observer does, nothing of the step goes anywhere and this run
  of the node is over: what waited for a disk is thrown away, as in a crash.
- Observers see a step before anything of it is carried out: what another process hears from this one is in
  the trace by then.
- A write became durable: what waited for it leaves now, before what this step asks for (M1, R5, R7). A write
  failed: what waited for it is lost.
- Then the effects, in the order the core gave them, with one exception that is the point of the exercise: a
  `Send` that names a ticket waits in the `Outbox` until the write behind the ticket has ended. A leader's own
  sync and the replication of the same batch thus run side by side.

Synchronous: no task, no thread, and no clock but the port's. A port never calls back into the interpreter;
who delivers or stores at once keeps a queue outside.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from liftlog.driver.outbox import Outbox
from liftlog.driver.timers import TOLERANCE_MS, Timers
from liftlog.messages import (
    STORAGE_JOBS,
    TIMER_TICK,
    AckPublishes,
    AskOrigin,
    Drain,
    Durable,
    Effect,
    Event,
    KnowPeers,
    Outcome,
    PublishLetter,
    RefusePublishes,
    ReplyClient,
    Send,
    SetTimer,
    StopNode,
    StorageFailed,
    Subscribe,
    TellAdvisory,
    TellFast,
    TellStaged,
    TimerFired,
    Unsubscribe,
)
from liftlog.ports import Bus, ClientReplies, Clock, Network, Random, StorageRunner
from liftlog.types import InvariantViolation


class NodeStopped(Exception):
    """The core asked for the end of this process (`StopNode`); the text says why."""


class StepNode(Protocol):
    """What is needed of `liftlog.core.node.Node`."""

    def start(self, now_ms: float) -> Outcome: ...

    def step(self, event: Event) -> Outcome: ...


Observer = Callable[[Event | None, Outcome], None]
"""Sees each step, the start as None, before anything of it is carried out."""


class StepMeter(Protocol):
    """Is told when a step begins, and when it is over with all that was carried out for it."""

    def begin(self) -> None: ...

    def end(self) -> None: ...


class Ports(NamedTuple):
    """The world of one node."""

    network: Network
    bus: Bus
    storage: StorageRunner
    clients: ClientReplies
    clock: Clock
    random: Random
    alarm: Callable[[float], None] = lambda next_ms: None
    """Told the earliest deadline, in milliseconds of `clock`, whenever a timer has been set."""
    flush: Callable[[], None] = lambda: None
    """Called at the end of a wake-up: ports that gather what they are given let it go now."""
    tell: Callable[[TellAdvisory], None] = lambda advisory: None
    """Told what nobody has to hear: where no door of JetStream's stands beside the node, nobody does."""
    ask_origin: Callable[[AskOrigin], None] = lambda question: None
    """Asks other clusters (R28): where the configuration names none, nobody answers."""


class Interpreter:
    """Runs one node over its ports, from its start to its end. See the module.

    Whatever the node, an observer or a port raises ends the run and goes to the caller. If it was the node,
    `raised(event, error)` is called first.
    """

    def __init__(
        self,
        node: StepNode,
        ports: Ports,
        observers: Sequence[Observer] = (),
        raised: Callable[[Event | None, Exception], None] | None = None,
    ) -> None:
        self.ended = False
        """Nothing is done any more, and no port is called."""
        self.timers = Timers(ports.random)
        self._node = node
        self._observers = tuple(observers)
        self._raised = raised
        self._clock = ports.clock
        self.now_ms = 0.0
        """The node's monotonic clock when the present step began."""
        self._in_step = False
        self._meter: StepMeter | None = None
        self._outbox = Outbox()
        self._transmit = ports.network.send
        self._flush = ports.flush
        bus, clients, alarm = ports.bus, ports.clients, ports.alarm

        def set_timer(effect: SetTimer) -> None:
            self.timers.set(effect, self.now_ms)
            alarm(self.timers.next_ms)

        self._carry_out: dict[type[Effect], Callable[[Any], None]] = {
            **dict.fromkeys(STORAGE_JOBS, ports.storage.submit),
            Send: self._send,
            SetTimer: set_timer,
            Subscribe: bus.subscribe,
            Unsubscribe: lambda effect: bus.unsubscribe(effect.partition),
            Drain: lambda effect: bus.drain(effect.partition, effect.number),
            AckPublishes: bus.acknowledge,
            TellStaged: bus.staged,
            TellFast: bus.fast,
            RefusePublishes: bus.refuse,
            PublishLetter: bus.publish,
            ReplyClient: lambda effect: clients.reply(effect.client, effect.reply),
            KnowPeers: lambda effect: ports.network.know(effect.peers),
            StopNode: self._stop,
            TellAdvisory: ports.tell,
            AskOrigin: ports.ask_origin,
        }

    def measure_by(self, meter: StepMeter) -> None:
        """Tell `meter` of every step from now on."""
        self._meter = meter

    # -- what comes in -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Run the node's start. Raises NodeStopped if the core asks for the end, here as below."""
        self.now_ms = self._clock.monotonic_ms()
        self._step(None)

    def take(self, event: Event) -> None:
        """Step the node through an event.

        A tick that is due goes first: the event may have waited while this process was stopped, and the core
        knows how late it is before it judges what is old (N2).
        """
        if self.ended:
            return
        now_ms = self.now_ms = self._clock.monotonic_ms()
        if self.timers.next_ms <= now_ms + TOLERANCE_MS and self.timers.take(TIMER_TICK, now_ms):
            self._step(TimerFired(TIMER_TICK, now_ms, self._clock.wall_ms()))
        self._step(event)

    def fire_due(self) -> None:
        """Step the node through the timers that are due now, the earliest first, equal ones by name; but not
        through one that a step of this round has set anew.
        """
        if self.ended:
            return
        now_ms = self.now_ms = self._clock.monotonic_ms()
        for kind in self.timers.due(now_ms):
            if kind not in self.timers:
                self._step(TimerFired(kind, now_ms, self._clock.wall_ms()))

    def work(self, events: deque[Event]) -> None:
        """A wake-up: all that is queued, what comes meanwhile included, then the timers that are due.

        Timers but the tick go last, since what is queued may be word of a leader.
        """
        while events:
            self.take(events.popleft())
        self.fire_due()
        self._flush()

    def end(self) -> None:
        """The process is gone, with its timers and what waits. Its owner may call this within a step too."""
        self.ended = True
        self.timers.clear()
        self._outbox = Outbox()

    @property
    def waiting(self) -> list[Send]:
        """The messages that wait for a write, in the order of its tickets."""
        return self._outbox.waiting()

    # -- one step ------------------------------------------------------------------------------------------

    def _step(self, event: Event | None) -> None:
        if self.ended:
            return
        if self._in_step:
            raise InvariantViolation("a port called back into the step that called it")
        self._in_step = True
        meter = self._meter
        if meter is not None:
            meter.begin()
        try:
            try:
                outcome = self._node.step(event) if event is not None else self._node.start(self.now_ms)
            except Exception as error:
                if self._raised is not None:
                    self._raised(event, error)
                raise
            for observe in self._observers:
                observe(event, outcome)
            kind = type(event)
            if kind is Durable:
                for send in self._outbox.durable(event.ticket):  # type: ignore[union-attr]
                    if not self.ended:
                        self._transmit(send.to, send.message)
            elif kind is StorageFailed:
                self._outbox.failed(event.ticket)  # type: ignore[union-attr]
            self._carry(outcome.effects)
        except BaseException:
            self.end()
            raise
        finally:
            self._in_step = False
            if meter is not None:
                meter.end()

    def _carry(self, effects: list[Effect]) -> None:
        """One of them may end the process, and what stands behind it is not done then."""
        carry_out = self._carry_out
        for effect in effects:
            if self.ended:
                break
            carry_out[type(effect)](effect)

    def _send(self, effect: Send) -> None:
        ready = self._outbox.submit(effect)
        if ready is not None:
            self._transmit(ready.to, ready.message)

    def _stop(self, effect: StopNode) -> None:
        raise NodeStopped(effect.reason)
