"""Which nodes there are, and where the others call them (I3).

At first those of the configuration. From the first word of an operator on (`AdmitNode`, `RemoveNode`) the
metadata say it: the founders, whom that command has named, and who was admitted, without who was removed.

A node that joins knows some members only, by its configuration. It asks them on each tick until it hears a
leader: they tell it whom there is, since it must be able to answer whoever leads before it can be sent any
metadata. Who is not admitted is not answered: to the others it is a stranger.
"""

from __future__ import annotations

from liftlog.core.context import Context
from liftlog.core.raft.raft import Raft
from liftlog.messages import JoinQuery, JoinReply, KnowPeers, Send


class Roster:
    """See the module."""

    __slots__ = ("_admitted_at", "_ctx", "_known", "_raft", "other_nodes")

    def __init__(self, ctx: Context, raft: Raft) -> None:
        self._ctx = ctx
        self._raft = raft
        self._known = dict(ctx.config.peers)
        """Where nodes are called."""
        self._admitted_at = 0
        self.other_nodes = frozenset((*ctx.config.voters, *ctx.config.learners)) - {ctx.node}
        """The other nodes of the cluster."""

    @property
    def count(self) -> int:
        """How many nodes there are, this one included."""
        return len(self.other_nodes) + 1

    @property
    def founders(self) -> list[tuple[int, str]]:
        """The voters of the configuration, and where they are called by it."""
        told = self._ctx.metadata.founders
        return list(told) or [(node, self._known.get(node, "")) for node in sorted(self._ctx.config.voters)]

    def address(self, node: int) -> str:
        """Where a node is called, as far as this one knows; empty: nowhere."""
        return self._known.get(node, "")

    def follow(self) -> None:
        """Commands were applied, or a snapshot was installed."""
        ctx, metadata = self._ctx, self._ctx.metadata
        if metadata.admitted_at == self._admitted_at:
            return
        self._admitted_at = metadata.admitted_at
        if ctx.config.joins:
            self._raft.told_founders([node for node, _ in metadata.founders])
        known = {**self._known, **dict(metadata.founders)}
        nodes = {*ctx.config.learners, *(node for node, _ in metadata.founders)}
        for admission in metadata.admissions.values():
            if admission.removed:
                known.pop(admission.node, None)
                nodes.discard(admission.node)
            else:
                known[admission.node] = admission.address
                nodes.add(admission.node)
        self._go_by(nodes, {node: known[node] for node in sorted(nodes) if node in known})

    def _go_by(self, nodes: set[int], known: dict[int, str]) -> None:
        self.other_nodes = frozenset(nodes) - {self._ctx.node}
        self._known = known
        self._raft.follow_nodes(sorted(nodes))
        self._ctx.effects.append(
            KnowPeers({node: at for node, at in known.items() if node != self._ctx.node})
        )

    # -- a node that joins --------------------------------------------------------------------------------

    def tick(self) -> None:
        ctx = self._ctx
        if ctx.config.joins and not self._raft.leader:
            for node in sorted(self.other_nodes):
                ctx.effects.append(Send(node, JoinQuery()))

    def on_query(self, sender: int, query: JoinQuery) -> None:
        """A member, as this node knows: who else there is."""
        if self._ctx.metadata.founders:
            told = [(node, address) for node, address in sorted(self._known.items()) if node != sender]
            self._ctx.effects.append(Send(sender, JoinReply(told)))

    def on_reply(self, sender: int, reply: JoinReply) -> None:
        """Believed by a node that joins, for as long as it has no metadata that say it."""
        ctx = self._ctx
        if not ctx.config.joins:
            ctx.refuse("V3", sender, reply, "nobody has asked who there is")
            return
        told = dict(reply.peers)
        if ctx.metadata.founders or all(self._known.get(node) == at for node, at in told.items()):
            return
        ctx.mark("I3.told")
        self._go_by(set(self.other_nodes | told.keys()), {**self._known, **told})
