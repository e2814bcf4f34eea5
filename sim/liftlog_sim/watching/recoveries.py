"""A recovery from a total loss, for those who know the truth: what is committed from then on (M5)."""

from __future__ import annotations

from collections.abc import Callable

from liftlog.core.metadata.metadata import Metadata
from liftlog.core.node import Node
from liftlog.core.total_loss.plan import RecoveryPlan
from liftlog.messages import Event, Received
from liftlog_sim.truth.account import Account
from liftlog_sim.truth.raft import RaftTruth


class Recoveries:
    """To be told of each; `end_refining`: no model goes on from what no step has made."""

    __slots__ = ("_account", "_end_refining", "_raft")

    def __init__(self, account: Account, raft: RaftTruth, end_refining: Callable[[], None]) -> None:
        self._account = account
        self._raft = raft
        self._end_refining = end_refining

    def began_anew(self, metadata: Metadata, plan: RecoveryPlan) -> None:
        """An operator has formed a new quorum, of a disk that goes on from these metadata."""
        account = self._account
        self._end_refining()
        self._raft.began_anew(plan.index, plan.term)
        account.metadata.began_anew(metadata)
        account.authors.began_anew(metadata)
        number = plan.epoch.number
        account.row("recovery", f"epoch {number} begins at index {plan.index} in term {plan.term}")


def of_another_epoch(node: Node, event: Event | None) -> bool:
    """Whether a message was refused for its epoch: a working peer is heard only in its own, and in its own
    cluster.
    """
    if not isinstance(event, Received):
        return False
    theirs, mine = event.epoch, node.cluster_epoch
    return theirs.number not in (0, mine.number) or (bool(theirs.name and mine.name) and theirs != mine)
