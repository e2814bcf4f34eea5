"""One node on trio: what comes in waits in an inbox, and the interpreter works it off.

    sockets, storage thread, timers  ->  inbox  ->  Interpreter: Node.step(event)  ->  effects  ->  ports

The loop takes everything that is queued before it waits again, so that under load one wake-up serves a whole
burst, and nothing here is done per message: a `Published` event carries all that one read from the NATS
socket brought.

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

INBOX_LIMIT = 1024
"""Events that may wait before `NodeDriver.put` holds back the socket readers that bring more."""


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
        inbox_limit: int = INBOX_LIMIT,
    ) -> None:
        self.interpreter = Interpreter(node, ports, observers, raised)
        self._clock = ports.clock
        self._inbox: deque[Event] = deque()
        self._inbox_limit = inbox_limit
        self._wake = trio.Event()
        self._room = trio.Event()

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
        interpreter = self.interpreter
        interpreter.start()
        while True:
            was_full = len(self._inbox) >= self._inbox_limit
            interpreter.work(self._inbox)
            if was_full:
                self._room.set()
                self._room = trio.Event()
            await self.wait_until(interpreter.timers.next_ms)

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
