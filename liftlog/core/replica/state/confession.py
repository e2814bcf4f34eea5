"""What a replica has to tell the metadata group of its own failure (R5, D2).

A copy that may lack something that it had reported durable must not be counted on, and the group has to hear
of it. It is told until the group's record of the partition says that it was heard: by the run of this node
and the number of the failure, which are part of the record. No answer is waited for and none is remembered,
so that nothing is missed however far this node was behind. A later failure takes the place of an earlier one;
a copy of an earlier report that arrives after that means nothing, and so does every repetition. Numbers are
those of the run, and not of the copy: a partition that has moved away comes back to the same record.

Two logs of one partition confess together: whichever has failed, the copy stops with both, and what it has
left of each is told (R14).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from liftlog.core.context import Context
from liftlog.core.metadata.commands import UNSENT, PairFailed, ReplicaFailed, RequestId
from liftlog.types import PartitionId

Ends = tuple[int, int]
"""(epoch of the last record, LEO) of what is left of a log."""


class Paired(Protocol):
    """One of two logs that confess together."""

    @property
    def id(self) -> PartitionId: ...

    def trusted_end(self) -> Ends:
        """What is durable here."""


class Confession:
    """The last failure of one copy. `said` None: nothing, or the group has heard it."""

    __slots__ = ("_answers_to", "_ctx", "_id", "_pair", "number", "said")

    def __init__(self, ctx: Context, partition: PartitionId) -> None:
        self._ctx = ctx
        self._id = partition
        self._pair: tuple[Paired, ...] = ()
        self.number = 0
        """Of the last failure in this run."""
        self.said: ReplicaFailed | PairFailed | None = None
        self._answers_to: RequestId | None = None

    def together(self, data: Paired, journal: Paired) -> None:
        """From now on for both of these."""
        self._pair = (data, journal)

    def say(self, log: PartitionId, epoch: int, leo: int, shortfall: bool) -> None:
        """From now on tell the group: what this copy still has of `log` ends at `leo`, with a record of
        `epoch`.
        """
        ctx = self._ctx
        self.number = self.number + 1 if ctx.mutants.failures_numbered_by_copy else ctx.new_failure()
        ctx.touch(self._id)
        left = {log: (epoch, leo)}
        for one in self._pair:
            ctx.touch(one.id)
            left.setdefault(one.id, one.trusted_end())
        self.said = self._told(left, shortfall)
        self._answers_to = None
        self.tick()

    def _told(self, left: Mapping[PartitionId, Ends], shortfall: bool) -> ReplicaFailed | PairFailed:
        ctx, partition = self._ctx, self._id
        epoch, leo = left[partition]
        if not self._pair:
            return ReplicaFailed(
                request=UNSENT,
                partition=partition,
                node=ctx.node,
                incarnation=ctx.incarnation,
                failure=self.number,
                epoch=epoch,
                leo=leo,
                shortfall=shortfall,
            )
        journal_epoch, journal_leo = left[partition.journal]
        return PairFailed(
            request=UNSENT,
            partition=partition,
            node=ctx.node,
            incarnation=ctx.incarnation,
            failure=self.number,
            epoch=epoch,
            leo=leo,
            journal_epoch=journal_epoch,
            journal_leo=journal_leo,
            shortfall=shortfall,
        )

    @property
    def heard(self) -> bool:
        """Whether the group has heard the last failure."""
        ctx = self._ctx
        if ctx.mutants.repair_waits_for_answer and self._answers_to is not None:
            return self._answers_to in ctx.metadata.results
        record = ctx.metadata.partitions.get(self._id)
        told = record.failures.get(ctx.node) if record is not None else None
        return told is not None and told >= (ctx.incarnation, self.number)

    def tick(self) -> None:
        """Say it again while it has not been heard."""
        if self.said is not None:
            if self.heard:
                self.said = None
            else:
                request = self._ctx.want(self.said)
                self._answers_to = self._answers_to or request
