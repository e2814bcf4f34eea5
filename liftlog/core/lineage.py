"""Which cluster this node belongs to, and who else does (M5).

A recovery from a total loss forms a new quorum out of what is left. Who was left out of it may come back,
with a disk that was taken for destroyed: it knows decisions that the others have never heard of. So the
cluster has an *epoch*, which each recovery raises, and which stands in each disk's identity and in each
snapshot. Whoever sends says of which epoch it is, and a node hears nobody of another one. Neither side then
takes anything from the other, nor gives anything up: no entry, no vote, no record, no deletion.

A disk that belongs to no cluster yet is heard, and hears everybody: it has nothing that could contradict.
"""

from __future__ import annotations

from liftlog.core.context import Context
from liftlog.messages import Received
from liftlog.types import FIRST_CLUSTER, ClusterEpoch, Recovered


class Lineage:
    """The epoch that this node is of."""

    __slots__ = ("_ctx", "epoch")

    def __init__(self, ctx: Context, recovered: Recovered) -> None:
        """The metadata are those of the disk's snapshot, if it has one."""
        self._ctx = ctx
        known = recovered.identity.belongs_to
        if recovered.snapshot is not None:
            known = max(known, ctx.metadata.epoch)
        in_use = bool(recovered.raft_entries or recovered.hard_state.peer_disks)
        self.epoch: ClusterEpoch = FIRST_CLUSTER if not known.number and in_use else known
        """Number 0: it is of none yet. A log without a snapshot is of the first."""

    def applied(self) -> None:
        """The metadata have moved on: a disk that was of no cluster is of this one."""
        if self.epoch.number < self._ctx.metadata.epoch.number:
            self.epoch = self._ctx.metadata.epoch

    def refuses(self, event: Received) -> bool:
        """Whether the sender is of what the cluster was before a recovery, or is since one without us."""
        mine, theirs = self.epoch, event.epoch
        fits = mine == theirs or not (mine.number and theirs.number)
        if self._ctx.decides(("M5.other-epoch", fits)):
            return False
        self._ctx.refuse("M5", event.sender, event.message, _reason(mine, theirs))
        return True


def _reason(mine: ClusterEpoch, theirs: ClusterEpoch) -> str:
    if theirs.number > mine.number:
        return (
            f"the cluster was recovered without this disk and is of epoch {theirs.number} now, this disk of "
            f"{mine.number}: it keeps what it has; take from it what you need with 'liftlog log dump', then "
            "start this node with an empty data folder"
        )
    if theirs.number < mine.number:
        return f"the cluster was recovered without its disk, which is of epoch {theirs.number}"
    return (
        f"two recoveries have begun epoch {mine.number}, {mine.name} here and {theirs.name} there: stop the "
        "nodes of the one that was not meant, and start them with empty data folders"
    )
