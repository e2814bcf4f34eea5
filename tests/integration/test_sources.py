"""A stream with sources on real nodes has what they have, each message once, whoever is killed (R29)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, until, with_cluster

pytestmark = pytest.mark.real


async def no_lag(cluster: Harness) -> bool:
    """Whether the stream has all that its sources had, as far as its last message says."""
    told = json.loads(await cluster.run("stream", "lag", "all", "--json"))
    return all(one["behind"] == 0 for one in told["sources"])


def test_R29_each_message_comes_once_though_leaders_on_all_sides_are_killed(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        names = ("orders", "payments")
        for name in names:
            await cluster.client.create_stream(StreamConfig(name, f"{name}.*", 1, 3, 2))
            await cluster.leader(name)
        sent = 0
        acked: set[str] = set()

        async def publish(until_acked: int) -> None:
            async def enough() -> bool:
                nonlocal sent
                value = f"{names[sent % 2]}.{sent}"
                sent += 1
                result = await cluster.client.publish(value, value.encode(), timeout_ms=1000)
                if result.outcome == "ok":
                    acked.add(value)
                return len(acked) >= until_acked

            await until(enough, f"{until_acked} acks")

        await publish(60)
        sources = tuple((name, "") for name in names)
        await cluster.client.create_stream(StreamConfig("all", "all.in", 1, 3, 2, sources=sources))
        for round, name in enumerate(("orders", "all", "payments", "all")):
            leader = await cluster.leader(name)
            await cluster.kill(leader)
            await publish(100 + 40 * round)
            await cluster.start(leader)
            for other in (*names, "all"):
                await cluster.leader(other)
        await until(lambda: no_lag(cluster), "a stream that has everything")
        gathered = list((await cluster.read("all")).values())
        for name in names:
            source = list((await cluster.read(name)).values())
            assert [one for one in gathered if one.startswith(name)] == source
        assert acked <= set(gathered)

    with_cluster(tmp_path, 3, story)


def test_R29_the_command_line_makes_shows_and_ends_one(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        await cluster.run("stream", "create", "orders", "orders.*")
        await cluster.run("stream", "create", "payments", "payments.>")
        for subject in ("orders.1", "payments.eu.1", "payments.us.1", "payments.eu.2"):
            await cluster.run("pub", subject, subject)
        told = await cluster.refused("stream", "create", "all", "--source", "order")
        assert "order" in told
        filtered = "payments:payments.eu.*"
        await cluster.run("stream", "create", "all", "--source", "orders", "--source", filtered)
        told = await cluster.run("stream", "info", "all")
        assert "sources 'orders', 'payments' (payments.eu.*): it takes nothing else" in told
        await until(lambda: no_lag(cluster), "a stream that has everything")
        assert sorted((await cluster.read("all")).values()) == ["orders.1", "payments.eu.1", "payments.eu.2"]
        told = await cluster.refused("pub", "all", "mine")
        assert "publish to one of them: 'orders', 'payments'" in told
        await cluster.run("stream", "pause", "all")
        await cluster.run("pub", "orders.2", "orders.2")
        told = await cluster.run("stream", "lag", "all")
        assert "BEHIND" in told and "nothing is copied: it is paused" in told
        await cluster.run("stream", "resume", "all")
        await until(lambda: no_lag(cluster), "a stream that has everything")
        told = await cluster.run("stream", "alter", "all", "--no-sources")
        assert "sources orders, payments:payments.eu.* -> none" in told
        await cluster.run("pub", "all", "mine")
        await cluster.run("pub", "orders.3", "theirs")
        # One that is empty, and begins elsewhere than at 0, has no last message that could say how far it is.
        await cluster.run("stream", "create", "none", "none.in")
        await cluster.run("stream", "create", "later", "--source", "none", "--first-offset", "50")
        sources = json.loads(await cluster.run("stream", "lag", "later", "--json"))["sources"]
        assert [(one["next"], one["behind"]) for one in sources] == [(0, 0)]
        assert list((await cluster.read("all")).values())[-1] == "mine"

    with_cluster(tmp_path, 1, story)


def test_R29_the_command_line_gives_sources_and_takes_them_away(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        async def holds(*values: str) -> None:
            async def there() -> bool:
                return sorted((await cluster.read("all")).values()) == sorted(values)

            await until(there, f"a stream that has {values}")

        await cluster.newest_level()
        await cluster.run("stream", "create", "orders", "orders.*")
        for value in ("o0", "o1", "o2"):
            await cluster.run("pub", "orders.x", value)
        words = ("--source", "orders", "--copy-from", "orders=1")
        await cluster.run("stream", "create", "all", *words)
        await holds("o1", "o2")
        await cluster.run("stream", "create", "payments", "payments.*")
        await cluster.run("pub", "payments.eu", "p0")
        await cluster.run("pub", "payments.us", "p1")
        told = await cluster.run("stream", "alter", "all", "--source", "payments:payments.eu")
        assert "sources orders -> payments:payments.eu" in told
        assert "starts orders from 1 -> none" in told and "orders is /" in told
        await holds("o1", "o2", "p0")
        await cluster.run("pub", "orders.x", "o3")
        both = ("--source", "payments:payments.eu", "--source", "orders")
        await cluster.run("stream", "alter", "all", *both, "--copy-from", "orders=2020-01-01T00:00:00Z")
        await holds("o1", "o2", "o3", "p0")
        told = await cluster.run("stream", "info", "all")
        assert "begins with 'orders' from 1577836800000ms" in told
        told = await cluster.refused("stream", "alter", "orders", "--source", "all")
        assert "not given to a stream that has none" in told
        await cluster.run("stream", "create", "more", "--source", "all")
        told = await cluster.refused("stream", "alter", "all", "--source", "more")
        assert "go round for ever" in told
        told = await cluster.refused("stream", "alter", "all", "--copy-from", "orders")
        assert "STREAM=START" in told

    with_cluster(tmp_path, 1, story)


def test_R29_partitions_that_an_origin_gets_later_are_told(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        await cluster.run("stream", "create", "orders", "orders", "--partitions", "2")
        await cluster.run("stream", "create", "all", "--source", "orders")
        await cluster.run("stream", "create", "copy", "--mirror", "orders")
        for name in ("all", "copy"):
            assert "nothing is copied" not in await cluster.run("stream", "lag", name)
        await cluster.run("stream", "alter", "orders", "--partitions", "4")
        for name in ("all", "copy"):
            told = await cluster.run("stream", "lag", name)
            assert "of partitions 2 to 3, which 'orders' has got beside" in told
            await cluster.run("stream", "alter", name, "--partitions", "4")
            assert "nothing is copied" not in await cluster.run("stream", "lag", name)

    with_cluster(tmp_path, 1, story)
