"""N1 against a real nats-server that denies: what is refused is told, and works once it is allowed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from liftlog.client import Client
from liftlog.messages import (
    AckPublishes,
    BusUp,
    Event,
    Subscribe,
    Subscribed,
    SubscriptionRefused,
)
from liftlog.real.bus import NatsBus
from liftlog.real.clock import RealClock
from liftlog.real.local_cluster import LocalCluster
from liftlog.real.nats_server import NatsServer
from liftlog.real.nats_wire import parse_url
from liftlog.types import PartitionId
from tests.integration.cluster import liftlog, until
from tests.integration.nats_keys import configured_server

pytestmark = pytest.mark.real

PARTITION = PartitionId(5, 0)
RULES = """
authorization: {{ users: [
  {{ user: node, password: secret, permissions: {{
      publish: {{ deny: {publish} }}, subscribe: {{ deny: {subscribe} }} }} }}
  {{ user: client, password: secret }}
] }}
"""


def rules(publish: list[str], subscribe: list[str]) -> str:
    return RULES.format(publish=json.dumps(publish), subscribe=json.dumps(subscribe))


def allow_all(server: NatsServer, folder: Path) -> None:
    (folder / "nats.conf").write_text(rules([], []))
    server.reload()


@asynccontextmanager
async def running_bus(server: NatsServer, events: list[Event]) -> AsyncIterator[NatsBus]:
    url = f"nats://node:secret@127.0.0.1:{server.port}"
    bus = NatsBus(parse_url(url), "test", "0", events.append, RealClock())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bus.run)
        await wait_for(events, BusUp)
        yield bus
        nursery.cancel_scope.cancel()


async def wait_for(events: list[Event], kind: type[Event], count: int = 1) -> list[Event]:
    with trio.fail_after(15):
        while len(found := [event for event in events if type(event) is kind]) < count:
            await trio.sleep(0.01)
    return found


@pytest.mark.trio
async def test_N1_the_bus_tells_a_refused_subscription_from_its_neighbours(tmp_path: Path) -> None:
    server = configured_server(tmp_path, rules([], ["orders.>", "$LIFTLOG.>"]))
    server.start()
    events: list[Event] = []
    try:
        async with running_bus(server, events) as bus:
            bus.serve_api("$LIFTLOG.x.API.*", "q", lambda subject, reply, headers, payload: None)
            bus.subscribe(Subscribe(PartitionId(1, 0), 1, "jobs", 10, True, "jobs"))
            bus.subscribe(Subscribe(PARTITION, 7, "orders.>", 10, True, "orders"))
            bus.subscribe(Subscribe(PartitionId(2, 0), 2, "notes.*", 10, True, "notes"))
            confirmed = await wait_for(events, Subscribed, 2)
            assert confirmed == [Subscribed(PartitionId(1, 0), 1), Subscribed(PartitionId(2, 0), 2)]
            (refused,) = await wait_for(events, SubscriptionRefused)
            reason = 'Permissions Violation for Subscription to "orders.>"'
            assert refused == SubscriptionRefused(PARTITION, 7, reason)
            assert bus.counters["nats.subscriptions_refused"] == 2, "the API's as well"
            allow_all(server, tmp_path)
            with trio.fail_after(15):
                while Subscribed(PARTITION, 8) not in events:
                    bus.subscribe(Subscribe(PARTITION, 8, "orders.>", 10, True, "orders"))
                    await trio.sleep(0.2)
    finally:
        server.stop()


@pytest.mark.trio
async def test_N1_a_subscription_that_is_taken_away_by_new_permissions_is_noticed(tmp_path: Path) -> None:
    server = configured_server(tmp_path, rules([], []))
    server.start()
    events: list[Event] = []
    try:
        async with running_bus(server, events) as bus:
            bus.subscribe(Subscribe(PARTITION, 7, "orders.>", 10, True, "orders"))
            await wait_for(events, Subscribed)
            (tmp_path / "nats.conf").write_text(rules([], ["orders.>"]))
            server.reload()
            (refused,) = await wait_for(events, SubscriptionRefused)
            assert (refused.partition, refused.epoch) == (PARTITION, 7)  # type: ignore[attr-defined]
    finally:
        server.stop()


@pytest.mark.trio
async def test_acks_that_nats_refuses_are_counted_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = configured_server(tmp_path, rules(["_INBOX.>"], []))
    server.start()
    try:
        async with running_bus(server, []) as bus:
            bus.acknowledge(AckPublishes(PARTITION, "orders", 1, 9, 0, [b"_INBOX.a", b"_INBOX.b"]))
            bus.flush()
            with trio.fail_after(15):
                while bus.counters["nats.publishes_refused"] < 2:
                    await trio.sleep(0.01)
        complaints = [text for text in caplog.messages if "refuses an ack or an answer" in text]
        assert len(complaints) == 1 and '"_INBOX.a"' in complaints[0] and "inboxes" in complaints[0]
    finally:
        server.stop()


def test_N1_create_info_and_log_say_that_nats_refuses_and_it_works_once_allowed(tmp_path: Path) -> None:
    folder = tmp_path / "nats"
    server = configured_server(folder, rules([], ["orders.>"]))
    server.start()
    try:
        url = f"nats://node:secret@127.0.0.1:{server.port}"
        client_url = f"nats://client:secret@127.0.0.1:{server.port}"
        with LocalCluster(tmp_path / "nodes", 3, nats_url=url) as cluster:
            where = ("--nats", client_url)
            code, _, error = liftlog("stream", "create", "orders", "orders.>", "--replicas", "3", *where)
            assert code == 2 and error.count("\n") == 1
            words = 'Permissions Violation for Subscription to "orders.>"'
            assert "stream 'orders' was created, but NATS refuses node" in error and words in error
            code, output, _ = liftlog("stream", "info", "orders", *where)
            assert code == 0 and words in output and "nothing is stored" in output
            logs = [node.log_path.read_text() for node in cluster.nodes.values()]
            assert any("NATS refuses to let this node subscribe for stream 'orders'" in log for log in logs)
            for command in (("pub", "orders.new", "x", "--timeout", "2"), ("cluster", "status")):
                code, output, error = liftlog(*command, *where)
                assert code in (1, 2) and words in output + error, command
            allow_all(server, folder)

            async def ready() -> None:
                async with await Client.connect(client_url) as client:

                    async def stored() -> bool:
                        return (await client.publish("orders.new", b"x", timeout_ms=1000)).outcome == "ok"

                    await until(stored, "the stream takes messages")
                    assert (await client.stream("orders")).partitions[0].refusal == ""

            asyncio.run(ready())
    finally:
        server.stop()
