"""Copies of partitions of which this node is a replica no more: dropped, and the group is told (R20).

What is to be dropped stands in the metadata. The log goes to the trash (I1), and once that is durable the
group hears of it, until it has. A move to the trash that the disk refuses is tried again at each tick. As
long as the group has not heard, this node gets no other copy of the partition; so what is dropped here is
never what a later move has begun.
"""

from __future__ import annotations

from liftlog.core.context import Context
from liftlog.core.metadata.commands import UNSENT, CopyDropped
from liftlog.messages import TrashLog
from liftlog.types import PartitionId, Ticket


class Dropping:
    """To be told of each tick of a node that is registered, and of what became of its tickets."""

    __slots__ = ("_ctx", "_done", "_waiting")

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._waiting: dict[int, PartitionId] = {}
        """By ticket: what storage is moving to the trash."""
        self._done: dict[PartitionId, None] = {}
        """What is gone durably, and the group has not heard of."""

    def tick(self) -> None:
        ctx = self._ctx
        if not ctx.metadata.unsettled and not self._done:
            return
        wanted = [partition.id for partition in ctx.metadata.to_be_dropped_by(ctx.node)]
        self._done = {partition: None for partition in self._done if partition in wanted}
        for partition in wanted:
            if partition in self._done:
                ctx.want(CopyDropped(UNSENT, partition, ctx.node, ctx.incarnation))
            elif partition not in self._waiting.values():
                # The journal first, if there is one: the ticket of the data tells of both.
                ticket = ctx.new_ticket()
                self._waiting[ticket] = partition
                if ctx.metadata.by_id[partition.stream].config.has_journal:
                    ctx.effects.append(TrashLog(partition.journal))
                ctx.effects.append(TrashLog(partition, ticket))

    def durable(self, ticket: Ticket) -> bool:
        """Whether this was a move to the trash."""
        partition = self._waiting.pop(ticket, None)
        if partition is not None:
            self._done[partition] = None
        return partition is not None

    def failed(self, ticket: Ticket) -> None:
        """The disk refuses; it is tried again."""
        self._waiting.pop(ticket, None)
