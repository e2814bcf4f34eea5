"""Mirrors, and streams with sources, on real nodes have what streams of another cluster have, whoever is
killed on either side (R28, R29).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import nats
import nats.errors
import pytest

from liftlog.client import Client
from liftlog.otherclusters import OtherCluster
from liftlog.real.local_cluster import LocalCluster
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, until, with_cluster

pytestmark = pytest.mark.real

Story = Callable[[Harness, Harness], Awaitable[None]]


def knows(near: LocalCluster, far: LocalCluster, jetstream: bool) -> None:
    """The nodes of the one have the other in their configurations, as 'east'."""
    place = OtherCluster("east", tuple(far.addresses.values()), far.cluster, far.client_secret_file)
    for node in near.nodes.values():
        node.config = msgspec.structs.replace(node.config, clusters=(place,), jetstream=jetstream)


def with_two(folder: Path, nodes: int, story: Story, jetstream: bool = False) -> None:
    """Two clusters, each with its own nats-server; the first knows the second."""
    with LocalCluster(folder / "far", nodes, cluster="far") as far_cluster:

        async def both(near: Harness) -> None:
            async with await Client.connect(far_cluster.nats_url, cluster="far") as client:
                far = Harness(far_cluster, client)
                await far.all_live()
                await near.newest_level()
                await story(near, far)

        with_cluster(folder / "near", nodes, both, lambda near: knows(near, far_cluster, jetstream))


async def lag(near: Harness) -> tuple[list[int], str]:
    """How far each partition is behind, and why nothing comes."""
    told = json.loads(await near.run("stream", "lag", "copy", "--json"))
    return [one["behind"] for one in told["partitions"]], told["problem"]


async def caught_up(near: Harness, end: int) -> bool:
    told = json.loads(await near.run("stream", "lag", "copy", "--json"))
    return all(one["behind"] == 0 and one["end"] == end for one in told["partitions"])


def test_R28_a_mirror_of_another_cluster_outlives_leaders_of_both(tmp_path: Path) -> None:
    async def story(near: Harness, far: Harness) -> None:
        await far.client.create_stream(StreamConfig("orders", "orders.*", 1, 3, 2))
        await far.leader("orders")
        acked = 0

        async def publish(count: int) -> None:
            nonlocal acked
            goal = acked + count

            async def enough() -> bool:
                nonlocal acked
                result = await far.client.publish("orders.new", b"%d" % acked, timeout_ms=1000)
                acked += result.outcome == "ok"
                return acked >= goal

            await until(enough, f"{goal} acks")

        await publish(100)
        copy = StreamConfig("copy", "copy", 1, 3, 2, mirror="orders@east")
        await near.client.create_stream(copy)
        for side, name in ((far, "orders"), (near, "copy"), (far, "orders")):
            leader = await side.leader(name)
            await side.kill(leader)
            await publish(100)
            await side.start(leader)
        await far.leader("orders")
        await near.leader("copy")
        origin = await far.read("orders")

        async def all_there() -> bool:
            return await caught_up(near, len(origin))

        await until(all_there, "a mirror that has everything", 60)
        assert await near.read("copy") == origin
        named = dict((await near.client.stream("copy")).config.origins)  # type: ignore[arg-type]
        assert named["orders@east"].endswith(f"/{(await far.client.stream('orders')).id}")

    with_two(tmp_path, 3, story)


def test_R28_an_origin_that_is_made_again_is_not_copied(tmp_path: Path) -> None:
    async def story(near: Harness, far: Harness) -> None:
        async def says(word: str) -> bool:
            return word in (await lag(near))[1]

        await near.run("stream", "create", "copy", "--mirror", "orders@east", "--removal")
        await until(lambda: says("does not exist"), "an origin that is not there")
        await far.client.create_stream(StreamConfig("orders", "orders", 2))
        await until(lambda: says("--partitions 2"), "an origin with other partitions")
        await near.run("stream", "alter", "copy", "--partitions", "2")
        for value in (b"0", b"1", b"2"):
            await far.client.publish("orders", value)
        await until(lambda: holds(near, {0: "0", 1: "1", 2: "2"}), "a mirror that has everything")
        told = await near.run("stream", "lag", "copy")
        assert "END OF orders@east" in told and "nothing is copied" not in told
        await far.client.delete_stream("orders")
        await until(lambda: says("does not exist"), "an origin that is gone")
        await far.client.create_stream(StreamConfig("orders", "orders", 2))
        for value in (b"x", b"y", b"z", b"more"):
            await far.client.publish("orders", value)
        await until(lambda: says("and this copies 1-"), "another origin")
        assert await near.read("copy") == {0: "0", 1: "1", 2: "2"}
        assert (await lag(near))[0] == [-1, -1]
        told = await near.run("stream", "lag", "copy")
        assert "?" in told and "nothing is copied: 'orders@east' is" in told
        log = near.cluster.nodes[1].log_path.read_text()
        assert "partition 0 gets nothing" in log and "is copied again" in log
        assert "mirror orders@east -> none" in await near.run("stream", "alter", "copy", "--no-mirror")
        await near.run("pub", "copy", "mine")

    with_two(tmp_path, 1, story)


async def holds(near: Harness, values: dict[int, str]) -> bool:
    return await near.read("copy") == values


def test_R28_another_cluster_at_the_same_address_is_not_copied(tmp_path: Path) -> None:
    """The same name, the same secret, the same address, and a stream of the same name with the same id."""

    async def story(near: Harness, far: Harness) -> None:
        async def make(values: tuple[bytes, ...]) -> int:
            # Behind what a cluster writes by itself when it begins, so that ids are the same.
            await far.newest_level()
            await far.client.create_stream(StreamConfig("orders", "orders"))
            for value in values:
                await far.client.publish("orders", value)
            return (await far.client.stream("orders")).id

        first = await make((b"0", b"1"))
        await near.run("stream", "create", "copy", "--mirror", "orders@east")
        await until(lambda: holds(near, {0: "0", 1: "1"}), "a mirror that has everything")
        await far.kill(1)
        node = far.cluster.nodes[1]
        shutil.rmtree(node.config.data)
        await far.start(1)
        await far.all_live()
        again = await until(lambda: make((b"x", b"y", b"z")), "a stream of the other cluster")

        async def says() -> bool:
            return f"/{again} now, and this copies 1-" in (await lag(near))[1]

        await until(says, "another cluster")
        assert first == again and await near.read("copy") == {0: "0", 1: "1"}

    with_two(tmp_path, 1, story)


def test_R29_sources_of_two_clusters_are_gathered_though_leaders_are_killed(tmp_path: Path) -> None:
    async def story(near: Harness, far: Harness) -> None:
        await far.client.create_stream(StreamConfig("orders", "orders.*", 1, 3, 2))
        await far.leader("orders")
        await near.client.create_stream(StreamConfig("local", "local", 1, 3, 2))
        await near.leader("local")
        wanted = set[str]()

        async def publish(side: Harness, subject: str, value: str) -> None:
            async def acked() -> bool:
                result = await side.client.publish(subject, value.encode(), timeout_ms=1000)
                return result.outcome == "ok"

            await until(acked, f"an ack for {value}")

        async def more(round: int) -> None:
            for number in range(20):
                await publish(far, "orders.eu", f"eu-{round}-{number}")
                await publish(far, "orders.us", f"us-{round}-{number}")
                await publish(near, "local", f"local-{round}-{number}")
                wanted.update((f"eu-{round}-{number}", f"local-{round}-{number}"))

        await more(0)
        words = "--source", "local", "--source", "orders@east:orders.eu"
        await near.run("stream", "create", "all", "--replicas", "3", *words)
        for round, (side, name) in enumerate(((far, "orders"), (near, "all")), 1):
            leader = await side.leader(name)
            await side.kill(leader)
            await more(round)
            await side.start(leader)
        await far.leader("orders")
        await near.leader("all")

        async def all_there() -> bool:
            return wanted <= set((await near.read("all")).values())

        await until(all_there, "all that passes", 60)
        await publish(far, "orders.eu", "last")
        wanted.add("last")
        await until(all_there, "the last one too")

        async def looked_at() -> bool:
            told = json.loads(await near.run("stream", "lag", "all", "--json"))
            return all(one["behind"] == 0 and not one["problem"] for one in told["sources"])

        await until(looked_at, "nothing is behind")
        # What an origin stores twice, since its publisher was not answered, is there twice.
        origins = [*(await near.read("local")).values()]
        origins += [value for value in (await far.read("orders")).values() if not value.startswith("us-")]
        assert sorted((await near.read("all")).values()) == sorted(origins)
        assert "orders@east" in await near.run("stream", "lag", "all")

    with_two(tmp_path, 3, story)


def test_R28_a_cluster_that_no_configuration_names_is_said_to_be_unknown(tmp_path: Path) -> None:
    async def story(near: Harness) -> None:
        await near.newest_level()
        await near.run("stream", "create", "copy", "--mirror", "orders@west")

        async def says() -> bool:
            return "names no cluster 'west'" in (await lag(near))[1]

        await until(says, "a cluster that nobody knows")
        refused = await near.refused("stream", "create", "other", "--mirror", "or.ders@west")
        assert "STREAM@CLUSTER" in refused

    with_cluster(tmp_path, 1, story)


def test_R28_a_program_for_jetstream_names_the_other_cluster_as_a_domain(tmp_path: Path) -> None:
    async def story(near: Harness, far: Harness) -> None:
        await far.client.create_stream(StreamConfig("orders", "orders.*"))
        for number in range(4):
            await far.client.publish(f"orders.{number % 2}", b"%d" % number)
        connection = await nats.connect(near.cluster.nats_url)
        external = {"api": "$JS.east.API", "deliver": ""}

        async def ask(call: str, body: dict[str, object]) -> dict[str, Any]:
            subject, wanted = f"$JS.liftlog.API.{call}", json.dumps(body).encode()
            answer = await connection.request(subject, wanted, timeout=10)
            told: dict[str, Any] = json.loads(answer.data)
            return told

        async def makes(config: dict[str, object]) -> bool:
            """A door that has just opened may not answer yet."""
            try:
                told = await ask(f"STREAM.CREATE.{config['name']}", config)
            except nats.errors.Error:
                return False
            assert "error" not in told, told
            copied = told["config"].get("mirror") or told["config"]["sources"][0]
            assert (copied["name"], copied["external"]) == ("orders", external)
            return True

        mirror = {"name": "orders", "external": external, "filter_subject": "orders.1"}
        await until(lambda: makes({"name": "copy", "mirror": mirror}), "a mirror")

        async def mirrored() -> bool:
            told = [await ask("STREAM.MSG.GET.copy", {"seq": seq}) for seq in range(1, 5)]
            return [one["message"]["seq"] for one in told if "error" not in one] == [2, 4]

        await until(mirrored, "a mirror that has everything")
        source = {"name": "orders", "external": external, "opt_start_seq": 3}
        assert await makes({"name": "all", "sources": [source]})

        async def gathered() -> bool:
            return list((await near.read("all")).values()) == ["2", "3"]

        await until(gathered, "a source from its third message on")
        wrong = {"name": "orders", "external": {"api": "$JS.west.API"}}
        refused = await ask("STREAM.CREATE.wrong", {"name": "wrong", "mirror": wrong})
        assert "[clusters.west]" in refused["error"]["description"]
        await connection.close()

    with_two(tmp_path, 1, story, jetstream=True)
