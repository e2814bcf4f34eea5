"""How a client asks: by NATS, and of nodes where NATS forbids it to one whom these know by name."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import nats.errors
import pytest
from nats.aio.client import Client as NatsConnection

from liftlog.api.nats_api import answer_payload
from liftlog.client.asking import ApiAsker, ForbiddenByNats
from liftlog.client.direct import KnownNodes
from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.messages import (
    ERR_NOT_ALLOWED,
    ClusterStatusReply,
    ClusterStatusRequest,
    DoneReply,
    NodeInfo,
    RebalanceRequest,
)
from liftlog.messages.rightstold import NAMED

CONTACT = NodeInfo(1, True, 1, "h:1", True)


class Nats:
    """A server that lets some operations be asked: `allowed`; of all others it complains."""

    def __init__(self, *allowed: str) -> None:
        self.is_connected = True
        self.allowed = allowed
        self.asked: list[str] = []
        self.complaints: list[Exception] = []
        self.none_listens = False

    async def request(self, subject: str, payload: bytes, timeout: float, headers: dict[str, str]) -> Any:
        operation = subject.removeprefix("$LIFTLOG.c.API.")
        self.asked.append(operation)
        if self.none_listens:
            raise nats.errors.NoRespondersError
        if operation not in self.allowed:
            self.complaints.append(Exception(f'nats: permissions violation for publish to "{subject}"'))
            await asyncio.sleep(timeout)
            raise nats.errors.TimeoutError
        reply: object = DoneReply("by NATS")
        if operation == "CLUSTER.STATUS":
            reply = ClusterStatusReply(1, 1, 1, 1, [CONTACT], [], {})
        return SimpleNamespace(data=answer_payload(reply))


class Nodes:
    """The pool of connections; `named`: whether nodes know this client by name."""

    def __init__(self, named: bool) -> None:
        self.named = named
        self.asked: list[object] = []
        self.problem: Exception | None = None

    async def call(self, node: int, address: str, request: object, timeout_s: float) -> object:
        self.asked.append(request)
        if self.problem is not None:
            raise self.problem
        if isinstance(request, ClusterStatusRequest):
            return ClusterStatusReply(1, 1, 1, 1, [CONTACT], [], {NAMED: 1} if self.named else {})
        return DoneReply("by nodes")


def asker(server: Nats, nodes: Nodes) -> ApiAsker:
    known = KnownNodes(cast(Any, nodes))
    return ApiAsker(cast(NatsConnection, server), "c", known, server.complaints)


async def ask(one: ApiAsker, operation: str = "LEADER.REBALANCE") -> str:
    deadline = asyncio.get_running_loop().time() + 60
    return (await one.ask(operation, {}, DoneReply, deadline)).detail


def test_what_nats_allows_nodes_are_not_asked() -> None:
    async def story() -> None:
        server, nodes = Nats("LEADER.REBALANCE", "CLUSTER.STATUS"), Nodes(named=True)
        assert await ask(asker(server, nodes)) == "by NATS"
        assert nodes.asked == []

    asyncio.run(story())


def test_V9_whom_nodes_know_by_name_they_answer_what_nats_forbids() -> None:
    """NATS is asked once, and once more for where nodes are; not again for anything it will not allow."""

    async def story() -> None:
        server, nodes = Nats("CLUSTER.STATUS"), Nodes(named=True)
        one = asker(server, nodes)
        assert await ask(one) == "by nodes"
        assert server.asked == ["LEADER.REBALANCE", "CLUSTER.STATUS"]
        assert nodes.asked == [ClusterStatusRequest(), RebalanceRequest()]
        assert await ask(one) == "by nodes"
        assert len(server.asked) == 2
        nodes.problem = RequestFailed(ERR_NOT_ALLOWED, "no", False)
        with pytest.raises(RequestFailed, match="no") as caught:
            await ask(one)
        assert caught.value.code == ERR_NOT_ALLOWED

    asyncio.run(story())


@pytest.mark.parametrize(
    ("named", "problem"),
    [(False, None), (True, Unreachable("gone")), (True, RequestFailed("invalid", "another secret"))],
)
def test_V9_whom_they_do_not_know_gets_no_more_than_nats_gives(
    named: bool, problem: Exception | None
) -> None:
    """The secret that all share would give it everything."""

    async def story() -> None:
        server, nodes = Nats("CLUSTER.STATUS"), Nodes(named)
        nodes.problem = problem
        one = asker(server, nodes)
        for _ in range(2):
            with pytest.raises(ForbiddenByNats, match=r"may not publish to .*REBALANCE, which LEADER"):
                await ask(one)
        assert all(isinstance(request, ClusterStatusRequest) for request in nodes.asked)

    asyncio.run(story())


def test_V9_nodes_that_are_not_found_are_looked_for_again() -> None:
    """They came back elsewhere: NATS is asked where, and the next attempt goes there."""

    async def story() -> None:
        server, nodes = Nats("CLUSTER.STATUS"), Nodes(named=True)
        one = asker(server, nodes)
        assert await ask(one) == "by nodes"
        nodes.problem = Unreachable("nobody at h:1")
        with pytest.raises(Unreachable, match="nobody at h:1"):
            await ask(one)
        assert server.asked == ["LEADER.REBALANCE", "CLUSTER.STATUS", "CLUSTER.STATUS"]
        nodes.problem = None
        assert await ask(one) == "by nodes"

    asyncio.run(story())


def test_who_may_not_even_ask_where_nodes_are_is_told_what_nats_says() -> None:
    async def story() -> None:
        with pytest.raises(ForbiddenByNats, match=r"LEADER\.REBALANCE"):
            await ask(asker(Nats(), Nodes(named=True)))

    asyncio.run(story())


def test_a_complaint_of_an_earlier_request_is_none_of_this_one() -> None:
    """Somebody has allowed it since."""

    async def story() -> None:
        server = Nats("CLUSTER.STATUS")
        one = asker(server, Nodes(named=False))
        with pytest.raises(ForbiddenByNats):
            await ask(one)
        server.allowed = ("LEADER.REBALANCE",)
        assert await ask(one) == "by NATS"

    asyncio.run(story())


def test_nobody_who_listens_is_no_refusal() -> None:
    async def story() -> None:
        server = Nats()
        server.none_listens = True
        with pytest.raises(Unreachable, match="no node of cluster 'c' answers on this NATS"):
            await ask(asker(server, Nodes(named=True)))

    asyncio.run(story())
