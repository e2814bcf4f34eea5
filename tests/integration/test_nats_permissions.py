"""The permissions that docs/security.md shows, as they stand there: who can do what, what a refusal says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from liftlog.client import Client
from liftlog.real.local_cluster import LocalCluster
from tests.integration.cluster import ROOT, liftlog
from tests.integration.nats_keys import configured_server

pytestmark = pytest.mark.real

USERS = ("publisher", "reader", "operator", "node")


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The page's nats-server with a node and the stream `orders`: a URL for each user."""
    page = (ROOT / "docs" / "security.md").read_text()
    (config,) = (block for block in page.split("```\n") if "authorization: {" in block)
    folder = tmp_path_factory.mktemp("permissions")
    with pytest.MonkeyPatch.context() as patch:
        for user in USERS:
            patch.setenv(f"{user.upper()}_PASSWORD", f"{user}-secret")
        server = configured_server(folder / "nats", config)
        server.start()
    try:
        found = {user: f"nats://{user}:{user}-secret@127.0.0.1:{server.port}" for user in USERS}
        with LocalCluster(folder / "nodes", 1, nats_url=found["node"]):
            done = liftlog("stream", "create", "orders", "orders.>", "--nats", found["operator"])
            assert done[0] == 0, done
            yield found
    finally:
        server.stop()


def test_each_user_can_do_what_its_work_needs(urls: dict[str, str]) -> None:
    assert liftlog("pub", "orders.new", "hello", "--nats", urls["publisher"])[0] == 0
    code, output, _ = liftlog("sub", "orders", "--count", "1", "--nats", urls["reader"])
    assert (code, output) == (0, "0/0  orders.new  hello\n")
    assert liftlog("cluster", "status", "--nats", urls["reader"])[0] == 0
    for command in (["create", "jobs", "jobs.>"], ["ls"], ["rm", "jobs"]):
        done = liftlog("stream", *command, "--nats", urls["operator"])
        assert done[0] == 0, (command, done)


@pytest.mark.parametrize("user", ["publisher", "reader"])
@pytest.mark.parametrize("command", [["create", "mine", "orders.a"], ["rm", "orders"]])
def test_only_operators_administer(urls: dict[str, str], user: str, command: list[str]) -> None:
    code, _, error = liftlog("stream", *command, "--nats", urls[user], "--timeout", "6")
    assert code == 2
    assert "this NATS user may not publish to $LIFTLOG.liftlog.API." in error
    assert error.count("\n") == 1


def test_a_publisher_is_told_at_once_where_it_may_not_publish(urls: dict[str, str]) -> None:
    code, _, error = liftlog("pub", "jobs.new", "x", "--nats", urls["publisher"], "--timeout", "40")
    assert code in (1, 2)
    assert "this NATS user may not publish to 'jobs.new'" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("user", ["reader", "operator", "node"])
def test_only_publishers_can_write(urls: dict[str, str], user: str) -> None:
    async def story() -> str:
        async with await Client.connect(urls[user]) as client:
            return (await client.publish("orders.new", b"forged", timeout_ms=1000)).outcome

    assert asyncio.run(story()) == "info"
    code, output, _ = liftlog("sub", "orders", "--from", "earliest", "--count", "1", "--nats", urls["reader"])
    assert code == 0
    assert "forged" not in output
