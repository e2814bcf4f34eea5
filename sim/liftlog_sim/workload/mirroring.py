"""An operator who has a mirror made of a stream, gives its partitions other leaders, and removes it again;
and somebody who publishes to it, though it takes nothing (R28).
"""

from __future__ import annotations

from liftlog.messages import ClientMessage, CreateStreamRequest, DeleteStreamRequest, ElectLeaderRequest
from liftlog.types import Message, StreamConfig
from liftlog_sim.chance.chances import Turn
from liftlog_sim.chance.draws import Draws
from liftlog_sim.workload.clients import Clientele

MIRROR, SUBJECT = "mirror", "mirrored.in"
REMOVED_SHARE, ELECTED_SHARE = 0.15, 0.35
"""What becomes of a mirror that is there; else somebody publishes to it."""


class Mirrorer:
    """Of one mirror, that of one stream or, when it is made again, of another one."""

    __slots__ = ("_cluster", "_shared", "_strays", "_turns")

    def __init__(self, shared: Clientele) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._strays = 0
        self._turns = self._cluster.chances.turns("mirrorer/0", self._cluster.knobs.mirror_interval_us)

    def start(self) -> None:
        if self._cluster.knobs.mirror_interval_us:
            self._turns.take(self._fire)

    def _fire(self, turn: Turn, second: object) -> None:
        if self._shared.stopping:
            return
        turn.noted()
        request = self._wanted(turn.draws)
        if request is not None:
            node, patience_us = self._shared.any_node(turn.draws), self._cluster.knobs.admin_patience_us
            self._shared.hub.request(turn.name, node, request, lambda reply: None, patience_us)
        self._turns.take(self._fire)

    def _wanted(self, draws: Draws) -> ClientMessage | None:
        newest = self._cluster.newest_metadata()
        if newest is None:
            return None
        there = newest.streams.get(MIRROR)
        if there is None:
            return self._creation(draws)
        choice, number = draws.random(), draws.randrange(len(there.partitions))
        if choice < REMOVED_SHARE:
            return DeleteStreamRequest(MIRROR)
        if choice < REMOVED_SHARE + ELECTED_SHARE:
            return ElectLeaderRequest(MIRROR, number, self._shared.any_node(draws))
        self._strays += 1
        value = b"stray-%d" % self._strays
        self._cluster.bus.publish(SUBJECT.encode(), [Message(SUBJECT.encode(), b"", b"", value)])
        return None

    def _creation(self, draws: Draws) -> ClientMessage | None:
        origins = [target for target in self._shared.targets if not target.config.compact]
        newest = self._cluster.newest_metadata()
        if not origins or newest is None:
            return None
        origin = newest.by_id.get(origins[draws.randrange(len(origins))].partition.stream)
        if origin is None:
            return None
        self._shared.account.count("mirrors asked for")
        config = origin.config
        partitions, factor = config.partitions, config.replication_factor
        first = config.first_offset
        wanted = StreamConfig(MIRROR, SUBJECT, partitions, factor, mirror=config.name, first_offset=first)
        return CreateStreamRequest(wanted)
