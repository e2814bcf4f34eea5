"""An operator who has a mirror made of a stream, gives its partitions other leaders, and removes it again;
and somebody who publishes to it, though it takes nothing, or deletes a message in it (R28).
"""

from __future__ import annotations

from msgspec import UNSET

from liftlog.messages import (
    ClientMessage,
    CreateStreamRequest,
    DeleteMessageRequest,
    DeleteStreamRequest,
    ElectLeaderRequest,
)
from liftlog.types import PartitionId, StreamConfig
from liftlog_sim.chance.draws import Draws
from liftlog_sim.kernel import MILLISECOND
from liftlog_sim.workload.beginning import mirror_filter, starts
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.operating import StreamOperator

MIRROR, SUBJECT = "mirror", "mirrored.in"
REMOVED_SHARE, ELECTED_SHARE = 0.15, 0.35
"""What becomes of a mirror that is there; else somebody publishes to it."""
JOURNAL_SHARE, DELETED_SHARE = 0.6, 0.5
"""How often single messages of it can be deleted, and how often one is, in place of a message to it."""


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
        if there.config.has_journal and draws.part("deleted").random() < DELETED_SHARE:
            return self._deletion(draws.part("which"), PartitionId(there.id, number))
        self._stray(SUBJECT, "stray")
        return None

    def _asked(self, draws: Draws, request: ClientMessage) -> int:
        node = super()._asked(draws, request)
        if isinstance(request, DeleteMessageRequest):
            return self._shared.account.truth(request.partition).newest_leader or node
        return node

    def _deletion(self, draws: Draws, partition: PartitionId) -> ClientMessage | None:
        """Of one message that is there, or of none."""
        account = self._shared.account
        end = account.truth(partition).hw
        if not end:
            return None
        offset = draws.randrange(end)
        account.deletions(partition).asked.offsets.add(offset)
        account.count("deletions in mirrors asked for")
        return DeleteMessageRequest(partition, offset)

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
        wanted = StreamConfig(
            MIRROR,
            SUBJECT,
            partitions,
            factor,
            mirror=config.name,
            first_offset=first,
            mirror_filter=mirror_filter(draws.part("filter"), config),
            starts=starts(draws.part("starts"), [config.name], self._cluster.kernel.now_us // MILLISECOND),
            removal=True if draws.part("removal").random() < JOURNAL_SHARE else UNSET,
        )
        return CreateStreamRequest(wanted)
