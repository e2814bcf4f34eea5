"""JetStream's door on real nodes: beside another JetStream, alone, through kills (ADR 0075).

What each call does is shown in tests/jetstream.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import nats
import nats.errors
import nats.js.errors
import pytest
from msgspec import structs
from nats.js import JetStreamContext

from liftlog.real.local_cluster import LocalCluster
from liftlog.real.nats_server import NatsServer, free_port
from tests.integration.cluster import ROOT, Harness, child_environment, liftlog, until, with_cluster
from tests.integration.nats_keys import configured_server

pytestmark = pytest.mark.real


def with_doors(cluster: LocalCluster) -> None:
    for node in cluster.nodes.values():
        node.config = structs.replace(node.config, jetstream=True)


async def answered(js: JetStreamContext) -> None:
    """Wait until a door of the cluster answers."""

    async def there() -> bool:
        try:
            await js.account_info()
        except (nats.js.errors.Error, nats.errors.Error, TimeoutError):
            return False
        return True

    await until(there, "an answer to $JS.API.INFO")


def test_a_bucket_outlives_its_leader_and_the_door_there(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        async with await nats.connect(cluster.cluster.nats_url) as connection:
            js = connection.jetstream(timeout=3)
            await answered(js)
            bucket = await js.create_key_value(bucket="B", history=2, replicas=3, direct=True)
            acked: dict[str, int] = {}

            async def put(name: str) -> bool:
                try:
                    acked[name] = await bucket.put(name, name.encode())
                except (nats.js.errors.Error, nats.errors.Error, TimeoutError):
                    return False
                return True

            for number in range(20):
                assert await put(f"before-{number}")
            revision = await bucket.update("before-0", b"other", last=acked.pop("before-0"))
            leader = await cluster.leader("KV_B")
            await cluster.kill(leader)
            for number in range(20):
                await until(lambda number=number: put(f"after-{number}"), "a put behind the kill")
            with pytest.raises(nats.js.errors.KeyWrongLastSequenceError):
                await bucket.update("before-0", b"third", last=revision - 1)
            await cluster.start(leader)
            await cluster.in_sync("KV_B", 3)
            for name, revision in acked.items():
                entry = await bucket.get(name)
                assert (entry.value, entry.revision) == (name.encode(), revision)
            assert (await bucket.get("before-0")).value == b"other"

    with_cluster(tmp_path, 3, story, with_doors)


def test_beside_another_jetstream_the_door_keeps_to_its_domain(tmp_path: Path) -> None:
    server = NatsServer(tmp_path / "nats", extra=("-js", "-sd", str(tmp_path / "store")))
    server.start()
    ours = LocalCluster(tmp_path / "ours", 1, nats_url=server.url)
    other = LocalCluster(tmp_path / "other", 1, nats_url=server.url, cluster="other")
    with_doors(ours)
    with_doors(other)

    async def story() -> None:
        async with await nats.connect(server.url) as connection:
            there, here = connection.jetstream(), connection.jetstream(domain="liftlog")
            await answered(here)
            await there.add_stream(name="THERE", subjects=["there.>"])
            made = await here.add_stream(name="HERE", subjects=["here.>"])
            assert made.config.name == "HERE"
            assert (await here.publish("here.1", b"x")).seq == 1
            with pytest.raises(nats.js.errors.NotFoundError):
                await here.stream_info("THERE")
            with pytest.raises(nats.js.errors.NotFoundError):
                await there.stream_info("HERE")

    async def refused() -> bool:
        log = other.nodes[1].log_path
        return log.exists() and "domain 'liftlog' is answered by liftlog" in log.read_text()

    try:
        with ours:
            asyncio.run(story())
            code, said, _ = liftlog("jetstream", "check", "--nats", server.url)
            assert code == 0
            assert "only, since this NATS account has its own JetStream" in said
            with other:
                asyncio.run(until(refused, "the other cluster's door says that the domain is taken"))
    finally:
        server.stop()


def test_a_door_in_a_process_of_its_own(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        url = cluster.cluster.nats_url
        command = [sys.executable, "-m", "liftlog", "jetstream", "serve", "--nats", url, "--json"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=child_environment()
        ) as door:
            try:
                assert door.stdout is not None
                line = json.loads(await asyncio.to_thread(door.stdout.readline))
                assert line == {"event": "ready", "domain": "liftlog", "bare": True}
                async with await nats.connect(url) as connection:
                    js = connection.jetstream()
                    await js.add_stream(name="A", subjects=["a", "b.>"])
                    assert (await js.publish("b.c", b"x")).seq == 1
                    assert (await js.get_last_msg("A", "b.c")).data == b"x"
                assert (await cluster.client.stream("A")).config.subjects == ("a", "b.>")
            finally:
                door.send_signal(signal.SIGTERM)
            ended = await asyncio.to_thread(door.wait, 20)
        assert ended == 0

    with_cluster(tmp_path, 1, story)


def test_the_permissions_that_the_page_shows_are_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "jetstream.md").read_text()
    (config,) = (block for block in page.split("```\n") if "authorization: {" in block)
    leaf_port = free_port()
    for user in ("program", "node", "door"):
        monkeypatch.setenv(f"{user.upper()}_PASSWORD", f"{user}-secret")
    server = configured_server(tmp_path / "nats", config.replace("7422", str(leaf_port)))
    server.start()

    def url(user: str) -> str:
        return f"nats://{user}:{user}-secret@127.0.0.1:{server.port}"

    cluster = LocalCluster(tmp_path / "nodes", 1, nats_url=url("node"))
    for node in cluster.nodes.values():
        leaf = f"nats-leaf://door:door-secret@127.0.0.1:{leaf_port}"
        node.config = structs.replace(node.config, jetstream=True, jetstream_leaf=leaf)

    async def story() -> None:
        async with await nats.connect(url("program")) as connection:
            js = connection.jetstream()
            await answered(js)
            await js.add_stream(name="ORDERS", subjects=["orders.>"])
            for number in range(3):
                await js.publish("orders.new", b"%d" % number)
            pulled = await js.pull_subscribe("orders.>", durable="bills")
            for message in await pulled.fetch(2, timeout=5):
                await message.ack_sync()
            assert (await pulled.consumer_info()).num_pending == 1
            assert (await js.get_last_msg("ORDERS", "orders.new")).data == b"2"
            await js.delete_stream("ORDERS")

    try:
        with cluster:
            asyncio.run(story())
    finally:
        server.stop()
    assert "Permissions Violation" not in server.log_path.read_text()
