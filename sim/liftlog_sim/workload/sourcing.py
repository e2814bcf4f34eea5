"""An operator who has a stream made that copies several others, takes some of them away and gives others,
gives its partitions other leaders, purges it, and removes it again; and somebody who publishes to it, though
it takes nothing (R29).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from liftlog.core.metadata.origins import sources_of
from liftlog.messages import (
    AlterStreamRequest,
    ClientMessage,
    CreateStreamRequest,
    DeleteStreamRequest,
    ElectLeaderRequest,
    PurgeRequest,
    StreamChanges,
)
from liftlog.types import PartitionId, StreamConfig
from liftlog_sim.chance.draws import Draws
from liftlog_sim.devices.elsewhere import NAME, ORIGIN
from liftlog_sim.kernel import MILLISECOND
from liftlog_sim.workload.beginning import some_filter, starts
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.mirroring import MIRROR
from liftlog_sim.workload.operating import StreamOperator

COPY, SUBJECT = "gathered", "gathered.in"
AFAR_SHARE, FAR = 0.6, StreamConfig(NAME, f"{NAME}.*")
"""How often one of another cluster is among its sources, where there is one."""
ALTERED_SHARE, ONE_SHARE, SAME_FILTER_SHARE = 0.3, 0.6, 0.8
"""How often its sources are altered, each is one of them then, and a filter stays."""
REMOVED_SHARE, ELECTED_SHARE, PURGED_SHARE = 0.1, 0.3, 0.4
"""What becomes of one that is there; else somebody publishes to it."""


class Sourcer(StreamOperator):
    """Of one stream with sources, which are others when it is made again."""

    __slots__ = ()

    def __init__(self, shared: Clientele) -> None:
        every_us = shared.cluster.knobs.sources_interval_us
        super().__init__(shared, shared.cluster.chances.turns("sourcer/0", every_us), every_us)

    def _asked(self, draws: Draws, request: ClientMessage) -> int:
        node = super()._asked(draws, request)
        if isinstance(request, PurgeRequest):
            return self._shared.account.truth(request.partition).newest_leader or node
        return node

    def _wanted(self, draws: Draws) -> ClientMessage | None:
        newest = self._cluster.newest_metadata()
        if newest is None:
            return None
        there = newest.streams.get(COPY)
        if there is None:
            return self._creation(draws)
        altering = draws.part("alter")
        if altering.random() < ALTERED_SHARE:
            return self._alteration(altering, there.config)
        choice, number = draws.random(), draws.randrange(len(there.partitions))
        if choice < REMOVED_SHARE:
            return DeleteStreamRequest(COPY)
        if choice < REMOVED_SHARE + ELECTED_SHARE:
            return ElectLeaderRequest(COPY, number, self._shared.any_node(draws))
        if choice < REMOVED_SHARE + ELECTED_SHARE + PURGED_SHARE:
            return self._purge(draws, PartitionId(there.id, number))
        self._stray(SUBJECT, "stray-source")
        return None

    def _alteration(self, draws: Draws, config: StreamConfig) -> ClientMessage | None:
        """Some of what is there, also what was made later, and what it has already."""
        had, chosen = sources_of(config), list[tuple[str, str]]()
        for name, one in self._candidates(draws).items():
            own = draws.part(name)
            if own.random() < ONE_SHARE:
                kept = name in had and own.random() < SAME_FILTER_SHARE
                chosen.append((name, had[name] if kept else some_filter(own, one)))
        if not chosen:
            return None
        self._shared.account.count("sources altered")
        changes = StreamChanges(sources=tuple(chosen), starts=self._starts(draws, chosen))
        return AlterStreamRequest(COPY, changes)

    def _purge(self, draws: Draws, partition: PartitionId) -> ClientMessage:
        """Mostly of all that may go: the last record stays."""
        truth = self._shared.account.truth(partition)
        before = max(0, truth.hw - draws.choice((0, 1, 1, 5)))
        truth.purge_asked = max(truth.purge_asked, before)
        return PurgeRequest(partition, before)

    def _candidates(self, draws: Draws) -> dict[str, StreamConfig]:
        """By name, what can be a source."""
        newest = self._cluster.newest_metadata()
        if newest is None:
            return {}
        names = [newest.by_id.get(one.partition.stream) for one in self._shared.targets]
        there = {one.config.name: one.config for one in names if one is not None and not one.config.compact}
        mirror = newest.streams.get(MIRROR)
        if mirror is not None and draws.part("mirror").random() < 0.5:
            there[MIRROR] = mirror.config
        if there and self._cluster.knobs.afar_interval_us and draws.part("afar").random() < AFAR_SHARE:
            there[ORIGIN] = FAR
        return there

    def _creation(self, draws: Draws) -> ClientMessage | None:
        there = self._candidates(draws)
        if not there:
            return None
        first = next(iter(there.values()))
        self._shared.account.count("streams with sources asked for")
        chosen = tuple((name, some_filter(draws.part(name), config)) for name, config in there.items())
        wanted = StreamConfig(
            COPY,
            SUBJECT,
            first.partitions,
            first.replication_factor,
            removal=True if draws.random() < 0.5 else UNSET,
            retention_messages=draws.choice((0, 0, 20)),
            segment_records=draws.choice((5, 10)),
            sources=chosen,
            starts=self._starts(draws, chosen),
        )
        return CreateStreamRequest(wanted)

    def _starts(
        self, draws: Draws, chosen: Sequence[tuple[str, str]]
    ) -> tuple[tuple[str, str], ...] | UnsetType:
        now_ms = self._cluster.kernel.now_us // MILLISECOND
        return starts(draws.part("starts"), [name for name, _ in chosen], now_ms)
