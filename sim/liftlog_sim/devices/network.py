"""The simulated network between nodes; mirrors `liftlog/real/network.py`.

A message may be lost, delayed, duplicated or overtaken by later ones, and it may arrive at the next process
on the same node: TCP would prevent some of that, but the protocol claims not to need it. Every message is
encoded and decoded on its way, so that no two nodes ever share an object.

Partitions are kept as blocked directed links. A link is looked at when a message leaves and again when it
arrives, so a partition also swallows what is under way.

What befalls a message is drawn by its name, or stated by a plan (`chance/chances.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

import msgspec

from liftlog.messages import PeerMessage, Received, intake
from liftlog.types import FIRST_CLUSTER, ClusterEpoch
from liftlog_sim.chance.chances import ChanceLane, Chances, amount, below
from liftlog_sim.chance.draws import SPREAD, Eight
from liftlog_sim.devices.frames import OfEpoch
from liftlog_sim.devices.options import NetworkOptions
from liftlog_sim.kernel import SECOND, Kernel

_encode = msgspec.msgpack.Encoder().encode
ECHOED = 200
"""How many messages to a process may come once more at the next one."""
ECHO_WITHIN_US = 4 * SECOND

Place = tuple[str, str, int, int]
PostToNode = Callable[[int, Received], None]
Tamper = Callable[[int, int, PeerMessage, bytes, str], list[bytes]]
"""Called with sender, receiver, message, frame and the message's name. Frames that are lies are of a class of
their own (`faults/liars.py`)."""


class SimNetwork:
    """All links of a cluster. One method call per message; nothing here scales with the number of nodes."""

    __slots__ = (
        "_blocked",
        "_chances",
        "_epoch_of",
        "_held",
        "_kernel",
        "_lanes",
        "_post",
        "_sent_to",
        "_slow",
        "delivered",
        "doors",
        "dropped",
        "duplicated",
        "on_lie",
        "on_refused",
        "options",
        "tamper",
    )

    def __init__(
        self,
        chances: Chances,
        options: NetworkOptions,
        post: PostToNode,
        epoch_of: Callable[[int], ClusterEpoch] | None = None,
    ) -> None:
        """`epoch_of`: what a node says that it is of (M5); none says anything without it."""
        self._kernel: Kernel = chances.kernel
        self._chances = chances
        self._lanes: dict[tuple[int, int, type], ChanceLane] = {}
        self._post = post
        self._blocked: dict[tuple[int, int], int] = {}
        self._slow: dict[int, int] = {}
        self._sent_to: dict[int, deque[tuple[int, bytes, ChanceLane, Place, int]]] = {}
        self._held: dict[tuple[int, int], tuple[type, int]] = {}
        self._epoch_of = epoch_of
        self.options = options
        """May be replaced at any time."""
        self.doors: dict[int, frozenset[int]] = {}
        """I3: whom a node lets in, of those that have said so."""
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
        key = (sender, to, type(message))
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = self._chances.lane(f"{sender}>{to}", type(message).__name__)
        drawn = lane.next()
        if self._blocked and (sender, to) in self._blocked:
            self.dropped += 1
            return
        lost, late_us, twice, twice_late_us = self._fate(lane, drawn)
        if lost:
            self.dropped += 1
            lane.note(lane.place, lost=True)
            return
        options, kernel = self.options, self._kernel
        data = _encode(message)
        epoch = self._epoch_of(sender) if self._epoch_of is not None else FIRST_CLUSTER
        if epoch != FIRST_CLUSTER:
            data = belonging = OfEpoch(data)
            belonging.epoch = epoch
        if options.echo or self._chances.fates is not None:
            sent = self._sent_to.setdefault(to, deque(maxlen=ECHOED))
            sent.append((sender, data, lane, lane.place, drawn[7]))
        usual_us = options.latency_us
        if self._slow:
            usual_us += self._slowness(sender, to, drawn)
        delay_us = usual_us + amount(drawn[1], options.jitter_us) + late_us
        if self.tamper is not None:
            name = "/".join(map(str, lane.place))
            for frame in self.tamper(sender, to, message, data, name):
                if isinstance(frame, OfEpoch):
                    frame.epoch = epoch
                kernel.after(delay_us, self._arrive, (sender, to), frame)
                delay_us = usual_us + amount(drawn[4], options.jitter_us)
        elif self._held and self._is_held(sender, to, message):
            kernel.at(self._held[sender, to][1], self._arrive, (sender, to), data)
            return
        else:
            kernel.after(delay_us, self._arrive, (sender, to), data)
            if twice:
                self.duplicated += 1
                delay_us = usual_us + amount(drawn[4], options.jitter_us) + twice_late_us
                kernel.after(delay_us, self._arrive, (sender, to), data)
                lane.note(lane.place, twice=True, twice_late_us=twice_late_us)
        if late_us:
            lane.note(lane.place, late_us=late_us)

    def _fate(self, lane: ChanceLane, drawn: Eight) -> tuple[bool, int, bool, int]:
        """Whether a message is lost, how late it is, whether it comes twice, and how late then."""
        stated = lane.stated
        if stated is not None:
            return stated.lost, stated.late_us, stated.twice, stated.twice_late_us
        options = self.options
        if options.loss and below(drawn[0], options.loss):
            return True, 0, False, 0
        twice = options.duplicate > 0 and below(drawn[3], options.duplicate)
        if not options.delay:
            return False, 0, twice, 0
        return False, self._late_us(drawn[2]), twice, self._late_us(drawn[5]) if twice else 0

    def _late_us(self, word: int) -> int:
        """The extra delay, if this word says that there is one."""
        share = self.options.delay
        if not below(word, share):
            return 0
        return int(self.options.delay_max_us * (word / (share * SPREAD)))

    def _slowness(self, sender: int, to: int, drawn: Eight) -> int:
        """What it takes longer because one of the nodes is slow."""
        return amount(drawn[6], self._slow.get(sender, 0) + self._slow.get(to, 0))

    def _is_held(self, sender: int, to: int, message: PeerMessage) -> bool:
        kind, until_us = self._held.get((sender, to), (type(None), 0))
        return type(message) is kind and until_us > self._kernel.now_us

    def started(self, to: int) -> None:
        """A process has started: some of what was sent to the one before it comes again, within seconds."""
        echo, fates = self.options.echo, self._chances.fates
        for sender, data, lane, place, word in self._sent_to.pop(to, ()):
            late_us = int(ECHO_WITHIN_US * (word / (echo * SPREAD))) if below(word, echo) else -1
            if fates is not None:
                stated = fates.get(place)
                late_us = stated.echo_us if stated is not None else -1
            if late_us >= 0:
                self.duplicated += 1
                self._kernel.after(late_us, self._arrive, (sender, to), data)
                lane.note(place, echo_us=late_us)

    def _arrive(self, link: tuple[int, int], data: bytes) -> None:
        if self._blocked and link in self._blocked:
            self.dropped += 1
            return
        if self.doors and link[0] not in self.doors.get(link[1], link):
            self.dropped += 1
            return
        self.delivered += 1
        try:
            event = Received(link[0], intake.peer_message(data))
            if type(data) is not bytes and isinstance(data, OfEpoch):
                event.epoch = data.epoch
        except intake.InputRefused as error:
            if self.on_refused is None:
                raise
            self.on_refused(link, data, error)
            return
        if type(data) is not bytes and type(data) is not OfEpoch and self.on_lie is not None:
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

    def know(self, peers: Mapping[int, str]) -> None:
        """Nobody else is let in any more; who is called elsewhere is found there."""
        if self._attached:
            self._network.doors[self._node] = frozenset(peers)

    def detach(self) -> None:
        self._attached = False
