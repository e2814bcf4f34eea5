"""What a replica has to tell the metadata group of its own failure (R5, D2).

A copy that may lack something that it had reported durable must not be counted on, and the group has to hear
of it. It is told until the group's record of the partition says that it was heard: by the run of this node
and the number of the failure, which are part of the record. No answer is waited for and none is remembered,
so that nothing is missed however far this node was behind. A later failure takes the place of an earlier one;
a copy of an earlier report that arrives after that means nothing, and so does every repetition.
"""

from __future__ import annotations

from liftlog.core.context import Context
from liftlog.core.metadata.commands import UNSENT, ReplicaFailed, RequestId
from liftlog.types import PartitionId


class Confession:
    """The last failure of one replica. `said` None: nothing, or the group has heard it."""

    __slots__ = ("_answers_to", "_ctx", "_id", "number", "said")

    def __init__(self, ctx: Context, partition: PartitionId) -> None:
        self._ctx = ctx
        self._id = partition
        self.number = 0
        """Of the last failure in this run."""
        self.said: ReplicaFailed | None = None
        self._answers_to: RequestId | None = None

    def say(self, epoch: int, leo: int, shortfall: bool) -> None:
        """From now on tell the group: what this copy still has ends at `leo`, with a record of `epoch`."""
        ctx = self._ctx
        ctx.touch(self._id)
        self.number += 1
        self.said = ReplicaFailed(
            request=UNSENT,
            partition=self._id,
            node=ctx.node,
            incarnation=ctx.incarnation,
            failure=self.number,
            epoch=epoch,
            leo=leo,
            shortfall=shortfall,
        )
        self._answers_to = None
        self.tick()

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
