"""What the controller does about nodes that retire (I3): their votes pass, and they are removed at last.

Their copies are moved as those of drained nodes are (`draining.py`). The vote passes to an heir as soon as
that is here, so that the group is whole again early when the node is dead. Without an heir it goes last, when
no copy is left: to a spare (M2) if one is here, so that the group keeps its size, else to nobody. Nothing is
given up by which the group would be left without a quorum that is here. What comes next follows from the
records, so that whoever is controller goes on where they stand; what is too late, because the wish was taken
back, means nothing when it is applied.
"""

from __future__ import annotations

from liftlog.core.context import Context
from liftlog.core.metadata.commands import UNSENT, PassVote, RemoveNode
from liftlog.core.metadata.records import NodeState
from liftlog.core.metadata.retiring import vote_problem
from liftlog.core.raft.raft import Raft
from liftlog.core.roster import Roster


class Retiring:
    """To be told of each tick of a controller. Holds no state."""

    __slots__ = ("_ctx", "_raft", "_roster")

    def __init__(self, ctx: Context, raft: Raft, roster: Roster) -> None:
        self._ctx = ctx
        self._raft = raft
        self._roster = roster

    def tick(self) -> None:
        """One step: the next one is judged by what comes of it."""
        for node in self._ctx.metadata.nodes.values():
            if node.retires and self._next_step(node):
                return

    def _next_step(self, node: NodeState) -> bool:
        """Ask for what is ripe. Whether there was anything."""
        ctx, metadata = self._ctx, self._ctx.metadata
        keeps = metadata.loads.replicas.get(node.node, 0) > 0
        if node.is_to_vote(ctx.founders):
            heir = metadata.nodes.get(node.heir)
            ripe = metadata.is_live(node.heir) and heir is not None and not heir.forgot
            if not (ripe if node.heir else not keeps):
                return False
            successor = node.heir or self._spare()
            if vote_problem(metadata, ctx.founders, node.node, successor):
                return False
            ctx.want(PassVote(UNSENT, node.node, successor, node.retires_at, metadata.voters_at))
            return True
        if keeps and not (ctx.mutants.removed_with_copies and self._is_given_away(node.node)):
            return False
        if self._raft.members.member(node.node) is not None:
            return False
        known = metadata.admitted_at, self._roster.founders
        ctx.want(RemoveNode(UNSENT, node.node, *known, wish=node.retires_at))
        return True

    def _spare(self) -> int:
        """M2: who may vote in the place of a node that has no heir; 0 = nobody."""
        ctx = self._ctx
        spares = (node.node for node in ctx.metadata.nodes.values() if node.is_spare(ctx.founders))
        return min(spares, default=0)

    def _is_given_away(self, node: int) -> bool:
        """Planted: whether all that a node keeps is on its way to others."""
        return all(node in partition.leaving for partition in self._ctx.metadata.replicas_on(node))
