"""Which nodes there are, as operators say it: added, called at another address, removed for good (I3).

What is asked for is judged twice: here, where the answer can say what is left to do and how, and when the
command is applied, since copies and votes may have come meanwhile. The number of a node that was removed is
never used again: who lags behind, and reads of the removal late, must not take another node for it.
"""

from __future__ import annotations

from collections.abc import Callable

from liftlog.core.barrier import Barrier
from liftlog.core.context import Context
from liftlog.core.metadata.commands import AdmitNode, Command, DrainNode, RemoveNode, RetireNode
from liftlog.core.metadata.moves import is_heir
from liftlog.core.metadata.records import NodeState
from liftlog.core.metadata.retiring import retirement_problem, vote_problem
from liftlog.core.raft.raft import Raft
from liftlog.core.roster import Roster
from liftlog.core.waiting import Clients, Waiting
from liftlog.messages import (
    ERR_INVALID,
    ERR_NOT_FOUND,
    AddNodeRequest,
    DoneReply,
    DrainNodeRequest,
    ErrorReply,
    RemoveNodeRequest,
    RetireNodeRequest,
)
from liftlog.types import ClientRef

NODES_MAX = 64
"""So many nodes a cluster may have."""


class NodeChanges:
    """See the module."""

    __slots__ = ("_barrier", "_clients", "_ctx", "_propose", "_raft", "_roster")

    def __init__(
        self,
        ctx: Context,
        raft: Raft,
        clients: Clients,
        barrier: Barrier,
        roster: Roster,
        propose: Callable[[Waiting, Command], None],
    ) -> None:
        self._ctx = ctx
        self._raft = raft
        self._clients = clients
        self._barrier = barrier
        self._roster = roster
        self._propose = propose

    def add(self, client: ClientRef, request: AddNodeRequest) -> None:
        node, address = request.node, request.address

        def act(waiting: Waiting) -> None:
            problem = self._cannot_add(node, address)
            if problem:
                self._clients.answer(waiting, ErrorReply(ERR_INVALID, problem, False))
            elif node in self._nodes and self._roster.address(node) == address:
                detail = f"node {node} is of the cluster already, at {address}"
                self._clients.answer(waiting, DoneReply(detail))
            else:
                ctx = self._ctx
                known = ctx.metadata.admitted_at, self._roster.founders
                self._propose(waiting, AdmitNode(ctx.new_request(), node, address, *known))

        self._barrier.after(client, act)

    @property
    def _nodes(self) -> list[int]:
        return sorted(self._roster.other_nodes | {self._ctx.node})

    def _cannot_add(self, node: int, address: str) -> str:
        host, colon, port = address.rpartition(":")
        if not (host and colon and port.isdigit() and 0 < int(port) < 65536):
            return f"bad address {address!r}; use host:port as the other nodes reach node {node}"
        if self._ctx.metadata.is_removed(node):
            return f"node {node} was removed, and its number is not used again; choose another number"
        if len(self._roster.founders) == 1 and not self._roster.other_nodes:
            return (
                "this cluster was begun with one node, which no other can call; nodes can be added where "
                "[peers] names several"
            )
        if any(not where for _, where in self._roster.founders):
            return "this node does not know where the voters call each other; list them in its [peers]"
        for other in self._nodes:
            if other != node and self._roster.address(other) == address:
                return f"node {other} is called at {address}; each node has an address of its own"
        if node not in self._nodes and len(self._nodes) >= NODES_MAX:
            return f"the cluster has {NODES_MAX} nodes, which is all it can have; remove one first"
        return ""

    def drain(self, client: ClientRef, request: DrainNodeRequest) -> None:
        def act(waiting: Waiting) -> None:
            ctx, node = self._ctx, self._ctx.metadata.nodes.get(request.node)
            if node is None:
                text = f"there is no node {request.node}: none with that number has ever registered"
                self._clients.answer(waiting, ErrorReply(ERR_NOT_FOUND, text, False))
            elif problem := self._cannot_drain(node, request.drains):
                self._clients.answer(waiting, ErrorReply(ERR_INVALID, problem, False))
            elif node.drains == request.drains:
                how = "being drained already" if node.drains else "not being drained"
                self._clients.answer(waiting, DoneReply(f"node {node.node} is {how}"))
            else:
                new = ctx.new_request()
                self._propose(waiting, DrainNode(new, node.node, request.drains, node.drains_at))

        self._barrier.after(client, act)

    def _cannot_drain(self, node: NodeState, drains: bool) -> str:
        before = self._ctx.metadata.replaced_by(node.node)
        if drains and before:
            return is_heir(node.node, before)
        if node.retires and not drains and not node.drains:
            return (
                f"node {node.node} retires: take that back with 'liftlog cluster remove {node.node} --cancel'"
            )
        return ""

    def retire(self, client: ClientRef, request: RetireNodeRequest) -> None:
        number = request.node

        def act(waiting: Waiting) -> None:
            ctx, node = self._ctx, self._ctx.metadata.nodes.get(number)
            if node is None:
                self._retire_unknown(waiting, request)
                return
            heir = request.heir if request.retires else 0
            if (node.retires, node.heir) == (request.retires, heir):
                how = "retires already" if node.retires else "does not retire"
                self._clients.answer(waiting, DoneReply(f"node {number} {how}"))
            elif problem := self._cannot_retire(number, request.retires, heir):
                self._clients.answer(waiting, ErrorReply(ERR_INVALID, problem, False))
            else:
                new = ctx.new_request()
                self._propose(waiting, RetireNode(new, number, request.retires, heir, node.retires_at))

        self._barrier.after(client, act)

    def _cannot_retire(self, node: int, retires: bool, heir: int) -> str:
        ctx = self._ctx
        if not retires:
            return ""
        if heir and heir not in self._nodes and not ctx.metadata.is_removed(heir):
            return (
                f"there is no node {heir}: admit it with 'liftlog cluster add {heir} HOST:PORT', and ask "
                "again"
            )
        problem = retirement_problem(ctx.metadata, node, heir)
        votes = ctx.metadata.nodes[node].is_to_vote(ctx.founders)
        return problem or (vote_problem(ctx.metadata, ctx.founders, node, heir) if votes else "")

    def _retire_unknown(self, waiting: Waiting, request: RetireNodeRequest) -> None:
        """Who never registered has nothing to give away, and who was removed has nothing left."""
        ctx, node = self._ctx, request.node
        if ctx.metadata.is_removed(node):
            if request.retires and not request.heir:
                self._clients.answer(waiting, DoneReply(f"node {node} was removed already"))
                return
            text = f"node {node} was removed already"
        elif node in self._nodes:
            text = (
                f"node {node} has never registered, and has nothing to give away: remove it with 'liftlog "
                f"cluster remove {node}'"
            )
        else:
            text = f"there is no node {node}; the cluster's nodes are {', '.join(map(str, self._nodes))}"
        self._clients.answer(waiting, ErrorReply(ERR_NOT_FOUND, text, False))

    def remove(self, client: ClientRef, request: RemoveNodeRequest) -> None:
        node = request.node

        def act(waiting: Waiting) -> None:
            ctx = self._ctx
            if ctx.metadata.is_removed(node):
                self._clients.answer(waiting, DoneReply(f"node {node} was removed already"))
            elif node not in self._nodes:
                listed = ", ".join(map(str, self._nodes))
                text = f"there is no node {node}; the cluster's nodes are {listed}"
                self._clients.answer(waiting, ErrorReply(ERR_NOT_FOUND, text, False))
            elif problem := self._left(node):
                self._clients.answer(waiting, ErrorReply(ERR_INVALID, problem, False))
            else:
                known = ctx.metadata.admitted_at, self._roster.founders
                self._propose(waiting, RemoveNode(ctx.new_request(), node, *known))

        self._barrier.after(client, act)

    def _left(self, node: int) -> str:
        """What a node still has that is to be removed, and the remedy; empty: nothing."""
        ctx, members = self._ctx, self._raft.members
        record = ctx.metadata.nodes.get(node)
        kept = ctx.metadata.replicas_on(node)
        before = ctx.metadata.replaced_by(node)
        if before:
            return is_heir(node, before)
        if kept:
            names = sorted({ctx.metadata.by_id[partition.id.stream].config.name for partition in kept})
            listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            copies = "a copy of a partition" if len(kept) == 1 else f"copies of {len(kept)} partitions"
            return (
                f"node {node} keeps {copies} ({listed}): have it give them away first with 'liftlog cluster "
                f"remove {node} --drain'; or drain it with 'liftlog cluster drain {node}', and ask again "
                "when 'liftlog stream moves' says that nothing is being moved"
            )
        if (record is not None and record.is_to_vote(ctx.founders)) or members.member(node) is not None:
            only = "; promote another one before that" if members.nodes == (node,) else ""
            return (
                f"node {node} has a vote: take it with 'liftlog cluster demote {node}'{only}, and ask again "
                "when 'liftlog cluster status' shows none"
            )
        return ""
