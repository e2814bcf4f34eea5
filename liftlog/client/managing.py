"""What an operator asks of a cluster's nodes: who leads, who votes, who is in, at which feature level."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from liftlog.client.errors import RequestFailed
from liftlog.messages import ClusterStatusReply, DoneReply

T = TypeVar("T")


class ClusterAsker(Protocol):
    """What is asked with: the client."""

    async def status(self, node: int = 0, timeout_ms: int = 0) -> ClusterStatusReply: ...

    async def _request(
        self, operation: str, body: object, kind: type[T], timeout_ms: int, node: int = 0
    ) -> T: ...

    async def _insist(self, attempt: Callable[[float], Awaitable[T]], timeout_ms: int) -> T: ...

    async def _ask(
        self, operation: str, body: object, kind: type[T], deadline: float, node: int = 0
    ) -> T: ...


class ManagesNodes:
    """A client's requests about nodes. Each returns what was done, in words; all raise RequestFailed,
    Unreachable.
    """

    async def rebalance(self: ClusterAsker, timeout_ms: int = 0) -> str:
        """Give every partition back to its preferred leader (R16)."""
        return (await self._request("LEADER.REBALANCE", {}, DoneReply, timeout_ms)).detail

    async def transfer_controller(self: ClusterAsker, to: int, timeout_ms: int = 0) -> str:
        """Ask the controller to hand over to `to`."""
        status = await self.status(timeout_ms=timeout_ms)
        if status.controller == 0:
            raise RequestFailed(
                "no-leader", "the cluster has no controller; are most of its voters running?", True
            )
        body = {"to": to}
        return (
            await self._request("CONTROLLER.TRANSFER", body, DoneReply, timeout_ms, status.controller)
        ).detail

    async def set_voter(self: ClusterAsker, node: int, votes: bool, timeout_ms: int = 0) -> str:
        """Say whether a node is to vote in the metadata group (M2). Raises RequestFailed, with code "invalid"
        if too many would or nobody, "not-found" for a node that never registered.
        """
        body = {"node": node, "votes": votes}
        return (await self._request("CONTROLLER.VOTER", body, DoneReply, timeout_ms)).detail

    async def raise_level(self: ClusterAsker, timeout_ms: int = 0) -> str:
        """Have the controller raise the cluster's feature level (U2). Raises RequestFailed, with code
        "invalid" and the nodes' names if not all can follow.
        """

        async def attempt(deadline: float) -> str:
            status = await self._ask("CLUSTER.STATUS", {}, ClusterStatusReply, deadline)
            if status.controller == 0:
                raise RequestFailed("no-leader", "the cluster has no controller", True)
            reply = await self._ask("CONTROLLER.LEVEL", {}, DoneReply, deadline, status.controller)
            return reply.detail

        return await self._insist(attempt, timeout_ms)

    async def add_node(self: ClusterAsker, node: int, address: str, timeout_ms: int = 0) -> str:
        """Admit a node to the cluster, which the others call at `address` (I3). Raises RequestFailed, with
        code "invalid" if the number or the address cannot be used.
        """
        body = {"node": node, "address": address}
        return (await self._request("NODE.ADD", body, DoneReply, timeout_ms)).detail

    async def drain_node(self: ClusterAsker, node: int, drains: bool, timeout_ms: int = 0) -> str:
        """Have a node keep no copy that another one can have, or let it keep some again (R20). Returns when
        that is decided. Raises RequestFailed.
        """
        body = {"node": node, "drains": drains}
        return (await self._request("NODE.DRAIN", body, DoneReply, timeout_ms)).detail

    async def remove_node(self: ClusterAsker, node: int, timeout_ms: int = 0) -> str:
        """Remove a node from the cluster for good (I3). Raises RequestFailed, with code "invalid" and what is
        left to do, if it still keeps copies or has a vote.
        """
        return (await self._request("NODE.REMOVE", {"node": node}, DoneReply, timeout_ms)).detail

    async def retire_node(
        self: ClusterAsker, node: int, retires: bool, heir: int = 0, timeout_ms: int = 0
    ) -> str:
        """Have a node give away what it has, to `heir` if one is named, and be removed then; or take that
        back (I3). Returns when that is decided. Raises RequestFailed, with code "invalid" and the remedy.
        """
        body = {"node": node, "retires": retires, "heir": heir}
        return (await self._request("NODE.RETIRE", body, DoneReply, timeout_ms)).detail
