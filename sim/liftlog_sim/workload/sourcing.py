"""An operator who has a stream made that copies several others, gives its partitions other leaders, purges
it, and removes it again; and somebody who publishes to it, though it takes nothing (R29).
"""

from __future__ import annotations

from msgspec import UNSET

from liftlog.messages import (
    ClientMessage,
    CreateStreamRequest,
    DeleteStreamRequest,
    ElectLeaderRequest,
    PurgeRequest,
)
from liftlog.types import Message, PartitionId, StreamConfig
from liftlog_sim.chance.chances import Turn
from liftlog_sim.chance.draws import Draws
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.mirroring import MIRROR
from liftlog_sim.workload.targets import WORDS

COPY, SUBJECT = "gathered", "gathered.in"
REMOVED_SHARE, ELECTED_SHARE, PURGED_SHARE = 0.1, 0.3, 0.4
"""What becomes of one that is there; else somebody publishes to it."""


class Sourcer:
    """Of one stream with sources, which are others when it is made again."""

    __slots__ = ("_cluster", "_shared", "_strays", "_turns")

    def __init__(self, shared: Clientele) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._strays = 0
        self._turns = self._cluster.chances.turns("sourcer/0", self._cluster.knobs.sources_interval_us)

    def start(self) -> None:
        if self._cluster.knobs.sources_interval_us:
            self._turns.take(self._fire)

    def _fire(self, turn: Turn, second: object) -> None:
        if self._shared.stopping:
            return
        turn.noted()
        request = self._wanted(turn.draws)
        if request is not None:
            node, patience_us = self._shared.any_node(turn.draws), self._cluster.knobs.admin_patience_us
            if isinstance(request, PurgeRequest):
                node = self._shared.account.truth(request.partition).newest_leader or node
            self._shared.hub.request(turn.name, node, request, lambda reply: None, patience_us)
        self._turns.take(self._fire)

    def _wanted(self, draws: Draws) -> ClientMessage | None:
        newest = self._cluster.newest_metadata()
        if newest is None:
            return None
        there = newest.streams.get(COPY)
        if there is None:
            return self._creation(draws)
        choice, number = draws.random(), draws.randrange(len(there.partitions))
        if choice < REMOVED_SHARE:
            return DeleteStreamRequest(COPY)
        if choice < REMOVED_SHARE + ELECTED_SHARE:
            return ElectLeaderRequest(COPY, number, self._shared.any_node(draws))
        if choice < REMOVED_SHARE + ELECTED_SHARE + PURGED_SHARE:
            return self._purge(draws, PartitionId(there.id, number))
        self._strays += 1
        value = b"stray-source-%d" % self._strays
        self._cluster.bus.publish(SUBJECT.encode(), [Message(SUBJECT.encode(), b"", b"", value)])
        return None

    def _purge(self, draws: Draws, partition: PartitionId) -> ClientMessage:
        """Mostly of all that may go: the last record stays."""
        truth = self._shared.account.truth(partition)
        before = max(0, truth.hw - draws.choice((0, 1, 1, 5)))
        truth.purge_asked = max(truth.purge_asked, before)
        return PurgeRequest(partition, before)

    def _creation(self, draws: Draws) -> ClientMessage | None:
        newest = self._cluster.newest_metadata()
        if newest is None:
            return None
        names = [newest.by_id.get(one.partition.stream) for one in self._shared.targets]
        there = {one.config.name: one.config for one in names if one is not None and not one.config.compact}
        mirror = newest.streams.get(MIRROR)
        if mirror is not None and draws.part("mirror").random() < 0.5:
            there[MIRROR] = mirror.config
        if not there:
            return None
        self._shared.account.count("streams with sources asked for")
        chosen = tuple((name, self._filter(draws.part(name), config)) for name, config in there.items())
        first = next(iter(there.values()))
        wanted = StreamConfig(
            COPY,
            SUBJECT,
            first.partitions,
            first.replication_factor,
            removal=True if draws.random() < 0.5 else UNSET,
            retention_messages=draws.choice((0, 0, 20)),
            segment_records=draws.choice((5, 10)),
            sources=chosen,
        )
        return CreateStreamRequest(wanted)

    def _filter(self, draws: Draws, config: StreamConfig) -> str:
        if not config.subject.endswith("*") or draws.random() < 0.5:
            return ""
        return f"{config.subject[:-1]}{draws.choice(WORDS)}"
