"""The simulated network between nodes; mirrors `liftlog/real/network.py`.

A message may be lost, delayed, duplicated or overtaken by later ones, and it may arrive at the next process
on the same node: TCP would prevent some of that, but the protocol claims not to need it. Every message is
encoded and decoded on its way, so that no two nodes ever share an object.

Partitions are kept as blocked directed links. A link is looked at when a message leaves and again when it
arrives, so a partition also swallows what is under way.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

import msgspec

from liftlog.messages import PeerMessage, Received, intake
from liftlog_sim.kernel import SECOND, Kernel

_encode = msgspec.msgpack.Encoder().encode
ECHOED = 200
"""How many messages to a process may come once more at the next one."""
ECHO_WITHIN_US = 4 * SECOND

PostToNode = Callable[[int, Received], None]
Tamper = Callable[[int, int, PeerMessage, bytes], list[bytes]]
"""Frames that are lies are of a class of their own (`liftlog_sim/liars.py`)."""


class NetworkOptions(msgspec.Struct, frozen=True):
    """How the network treats messages: times in microseconds, probabilities per message."""

    latency_us: int = 500
    jitter_us: int = 500
    loss: float = 0.0
    duplicate: float = 0.0
    delay: float = 0.0
    """Probability of an extra delay, evenly drawn up to `delay_max_us`: this is what reorders."""
    delay_max_us: int = 0
    echo: float = 0.0
    """Probability that one of the last messages to a process arrives once more at the node's next one."""


class SimNetwork:
    """All links of a cluster. One method call per message; nothing here scales with the number of nodes."""

    __slots__ = (
        "_blocked",
        "_held",
        "_kernel",
        "_post",
        "_random",
        "_sent_to",
        "_slow",
        "delivered",
        "dropped",
        "duplicated",
        "on_lie",
        "on_refused",
        "options",
        "tamper",
    )

    def __init__(self, kernel: Kernel, seed: int | str, options: NetworkOptions, post: PostToNode) -> None:
        self._kernel = kernel
        self._random = random.Random(f"{seed}/network").random
        self._post = post
        self._blocked: dict[tuple[int, int], int] = {}
        self._slow: dict[int, int] = {}
        self._sent_to: dict[int, deque[tuple[int, bytes]]] = {}
        self._held: dict[tuple[int, int], tuple[type, int]] = {}
        self.options = options
        self.tamper: Tamper | None = None
        """What a broken sender, or the wire, makes of a message: the frames that are carried in its place."""
        self.on_refused: Callable[[tuple[int, int], bytes, intake.InputRefused], None] | None = None
        self.on_lie: Callable[[Received], None] | None = None
        self.delivered = 0
        self.dropped = 0
        self.duplicated = 0

    # -- faults --------------------------------------------------------------------------------------------

    def block(self, sender: int, to: int) -> None:
        """Cut one direction of one link. Cuts add up: each needs its own `unblock`."""
        link = (sender, to)
        self._blocked[link] = self._blocked.get(link, 0) + 1

    def unblock(self, sender: int, to: int) -> None:
        """Take back one `block`."""
        link = (sender, to)
        left = self._blocked.get(link, 0) - 1
        if left > 0:
            self._blocked[link] = left
        else:
            self._blocked.pop(link, None)

    def slow_down(self, node: int, extra_us: int) -> None:
        """Delay everything from and to a node by up to `extra_us`; 0 ends it."""
        if extra_us:
            self._slow[node] = extra_us
        else:
            self._slow.pop(node, None)

    def hold(self, sender: int, to: int, kind: type, until_us: int) -> None:
        """Messages of one kind on one link arrive at `until_us`, no earlier: late, not lost."""
        self._held[sender, to] = (kind, until_us)

    def release(self, sender: int, to: int) -> None:
        """What follows on this link is not held back; what was, arrives when that was said."""
        self._held.pop((sender, to), None)

    def heal(self) -> None:
        """End every cut and slowness; losses and delays stay as the options say."""
        self._blocked.clear()
        self._held.clear()
        self._slow.clear()

    def joins(self, one: int, other: int) -> bool:
        """Whether two nodes hear each other."""
        return (one, other) not in self._blocked and (other, one) not in self._blocked

    def is_whole(self) -> bool:
        """Whether no link is cut."""
        return not self._blocked

    # -- the port ------------------------------------------------------------------------------------------

    def send(self, sender: int, to: int, message: PeerMessage) -> None:
        """Carry a message from one node to another, or lose it."""
        options = self.options
        draw = self._random
        if self._blocked and (sender, to) in self._blocked:
            self.dropped += 1
            return
        if options.loss and draw() < options.loss:
            self.dropped += 1
            return
        data = _encode(message)
        if options.echo:
            self._sent_to.setdefault(to, deque(maxlen=ECHOED)).append((sender, data))
        if self.tamper is not None:
            for frame in self.tamper(sender, to, message, data):
                self._kernel.after(self._delay_us(sender, to), self._arrive, (sender, to), frame)
            return
        if self._held:
            kind, until_us = self._held.get((sender, to), (type(None), 0))
            if type(message) is kind and until_us > self._kernel.now_us:
                self._kernel.at(until_us, self._arrive, (sender, to), data)
                return
        self._kernel.after(self._delay_us(sender, to), self._arrive, (sender, to), data)
        if options.duplicate and draw() < options.duplicate:
            self.duplicated += 1
            self._kernel.after(self._delay_us(sender, to), self._arrive, (sender, to), data)

    def started(self, to: int) -> None:
        """A process has started: some of what was sent to the one before it comes again, within seconds."""
        for sender, data in self._sent_to.pop(to, ()):
            if self._random() < self.options.echo:
                self.duplicated += 1
                late_us = int(ECHO_WITHIN_US * self._random())
                self._kernel.after(late_us, self._arrive, (sender, to), data)

    def _delay_us(self, sender: int, to: int) -> int:
        options = self.options
        draw = self._random
        delay_us = options.latency_us + int(options.jitter_us * draw())
        if options.delay and draw() < options.delay:
            delay_us += int(options.delay_max_us * draw())
        if self._slow:
            extra_us = self._slow.get(sender, 0) + self._slow.get(to, 0)
            if extra_us:
                delay_us += int(extra_us * draw())
        return delay_us

    def _arrive(self, link: tuple[int, int], data: bytes) -> None:
        if self._blocked and link in self._blocked:
            self.dropped += 1
            return
        self.delivered += 1
        try:
            event = Received(link[0], intake.peer_message(data))
        except intake.InputRefused as error:
            if self.on_refused is None:
                raise
            self.on_refused(link, data, error)
            return
        if type(data) is not bytes and self.on_lie is not None:
            self.on_lie(event)
        self._post(link[1], event)


class NetworkPort:
    """`Network` port of one process. `detach` comes first when the process dies: nothing leaves
    afterwards.
    """

    __slots__ = ("_attached", "_network", "_node")

    def __init__(self, network: SimNetwork, node: int) -> None:
        self._network = network
        self._node = node
        self._attached = True

    def send(self, to: int, message: PeerMessage) -> None:
        if self._attached:
            self._network.send(self._node, to, message)

    def detach(self) -> None:
        self._attached = False
