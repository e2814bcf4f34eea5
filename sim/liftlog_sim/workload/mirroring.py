"""An operator who has a mirror made of a stream, gives its partitions other leaders, and removes it again;
and somebody who publishes to it, though it takes nothing (R28).
"""

from __future__ import annotations

from liftlog.messages import ClientMessage, CreateStreamRequest, DeleteStreamRequest, ElectLeaderRequest
from liftlog.types import StreamConfig
from liftlog_sim.chance.draws import Draws
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.operating import StreamOperator

MIRROR, SUBJECT = "mirror", "mirrored.in"
REMOVED_SHARE, ELECTED_SHARE = 0.15, 0.35
"""What becomes of a mirror that is there; else somebody publishes to it."""


class Mirrorer(StreamOperator):
    """Of one mirror, that of one stream or, when it is made again, of another one."""

    __slots__ = ()

    def __init__(self, shared: Clientele) -> None:
        every_us = shared.cluster.knobs.mirror_interval_us
        super().__init__(shared, shared.cluster.chances.turns("mirrorer/0", every_us), every_us)

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
        self._stray(SUBJECT, "stray")
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
