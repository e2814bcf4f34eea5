"""One node on trio: what comes in is stepped at once, in the task that brings it.

    sockets, storage thread, timers  ->  take, post  ->  Interpreter: Node.step(event)  ->  effects  ->  ports

There is no task between a socket and the core: who has read something calls `take`, and comes back when the
node has seen it, with everything that follows from it handed to the ports and flushed. A task of the node's
own is needed only for timers, and for what is posted from where nothing may be stepped. Nothing here is done
per message: a `Published` event carries all that one read from the NATS socket brought.

What this adds to `liftlog/driver/interpreter.py` is waiting, and nothing else. Production and the simulator's
trio gear run this very class. It therefore knows only the ports, uses no thread, no randomness and no clock
of its own, and waits through trio alone, whose clock may be a virtual one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

import trio

from liftlog.driver.interpreter import Interpreter, Observer, Ports, StepNode
from liftlog.driver.timers import NEVER_MS
from liftlog.messages import Event


class NodeDriver:
    """Runs one node over its ports. All methods belong to the trio thread. `observers`, `raised`: see
    `Interpreter`.
    """

    def __init__(
        self,
        node: StepNode,
        ports: Ports,
        observers: Sequence[Observer] = (),
        raised: Callable[[Event | None, Exception], None] | None = None,
    ) -> None:
        self.interpreter = Interpreter(node, ports, observers, raised)
        self._clock = ports.clock
        self._inbox: deque[Event] = deque()
        self._running = False
        """The node has started; before, everything waits."""
        self._working = False
        self._wake = trio.Event()
        self._sleeps_until_ms = 0.0

    # -- what comes in -------------------------------------------------------------------------------------

    def take(self, event: Event) -> None:
        """Step the node through an event now, before the caller goes on. Raises what the node raises,
        `NodeStopped` above all.

        Within a step, and before the node has started, the event waits its turn; the number of those is
        bounded by what was asked for.
        """
        self._inbox.append(event)
        self._take_queued()

    def take_all(self, events: Iterable[Event]) -> None:
        """The same for several events, in one go."""
        self._inbox.extend(events)
        self._take_queued()

    def post(self, event: Event) -> None:
        """Leave an event to the node's own task: for where the caller must go on first."""
        self._inbox.append(event)
        self._wake.set()

    def post_all(self, events: Iterable[Event]) -> None:
        """Leave several events to the node's own task; none wakes it all the same."""
        self._inbox.extend(events)
        self._wake.set()

    def _take_queued(self) -> None:
        if self._working or not self._running or not self._inbox:
            return
        self._work()
        if self.interpreter.timers.next_ms < self._sleeps_until_ms:
            self._wake.set()

    def _work(self) -> None:
        self._working = True
        try:
            self.interpreter.work(self._inbox)
            while self._inbox:
                # What the ports had to say at once when they were flushed.
                self.interpreter.work(self._inbox)
        finally:
            self._working = False

    # -- the node's own task -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the node until it is cancelled. Raises `NodeStopped` when the core asks for the end."""
        interpreter = self.interpreter
        interpreter.start()
        self._running = True
        while True:
            self._work()
            await self.wait_until(interpreter.timers.next_ms)

    async def wait_until(self, deadline_ms: float) -> None:
        """Wait until something is posted, a timer is set to an earlier time, or the node's monotonic clock
        reaches `deadline_ms`.

        Always a trio checkpoint. May return early. The deadline is turned into a duration of trio's clock,
        so that a custom `trio.abc.Clock` decides how long it really takes.
        """
        if self._inbox:
            await trio.lowlevel.checkpoint()
            return
        self._wake = trio.Event()
        self._sleeps_until_ms = deadline_ms
        if deadline_ms == NEVER_MS:
            await self._wake.wait()
            return
        wait_ms = deadline_ms - self._clock.monotonic_ms()
        with trio.move_on_after(max(0.0, wait_ms / 1000)):
            await self._wake.wait()
