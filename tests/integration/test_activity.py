"""What happens in a cluster of real nodes is told in a stream, in order, whoever is killed (N12)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from liftlog.client.activity import ToldEvent, activity, activity_stream
from liftlog.messages import StreamChanges
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, until, with_cluster

pytestmark = pytest.mark.real

NAME = "__activity"


async def told(cluster: Harness) -> list[ToldEvent]:
    stream = activity_stream(await cluster.client.streams())
    return [one async for one in activity(cluster.client, stream)]


def of_streams(events: list[ToldEvent]) -> list[tuple[str, str]]:
    """What has happened to streams but the activity stream itself."""
    found = [(one.event, one.body["stream"]) for one in events if one.event.startswith("stream.")]
    return [one for one in found if one[1] != NAME]


def test_n12_what_happens_is_told_though_the_leader_of_the_stream_is_killed(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        client = cluster.client
        await client.create_stream(StreamConfig("before", "before"))
        await cluster.run("activity", "on")
        expected: list[tuple[str, str]] = []
        for number in range(3):
            name = f"s{number}"
            await client.create_stream(StreamConfig(name, name, 2, 3, 2))
            await client.alter_stream(name, StreamChanges(paused=True))
            victim = await cluster.leader(NAME)
            await cluster.kill(victim)
            await client.alter_stream(name, StreamChanges(paused=False))
            await cluster.all_live(2)  # a node that is back before its session ends has not expired
            await cluster.start(victim)
            await cluster.all_live()
            await client.delete_stream(name)
            kinds = ("created", "paused", "resumed", "deleted")
            expected += [(f"stream.{kind}", name) for kind in kinds]

        async def all_told() -> list[ToldEvent]:
            events = await told(cluster)
            return events if len(of_streams(events)) == len(expected) else []

        events = await until(all_told, "all that has happened")
        assert of_streams(events) == expected
        ids = [one.id for one in events]
        assert ids == sorted(set(ids))
        kinds_told = [one.event for one in events]
        assert kinds_told[0] == "stream.created" and events[0].body["stream"] == NAME
        assert "events.missing" not in kinds_told
        assert kinds_told.count("node.registered") >= 3 and kinds_told.count("node.expired") >= 3
        lost = [one for one in events if one.event == "node.expired"]
        assert any(change["stream"] == NAME for one in lost for change in one.body["partitions"])

    with_cluster(tmp_path, 3, story)


def test_n12_the_command_line_turns_it_on_and_off_and_shows_it(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        assert "liftlog activity on" in await cluster.refused("activity", "watch", "--no-follow")
        assert "liftlog activity on" in await cluster.refused("activity", "off")
        assert "tells what happens from now on" in await cluster.run("activity", "on", "--retention-ms", "7d")
        assert "tells it already" in await cluster.refused("activity", "on")
        assert "takes nothing else" in await cluster.run("stream", "info", NAME)
        assert "takes nothing else" in await cluster.refused("pub", f"{NAME}.mine", "mine")
        assert "exclude each other" in await cluster.refused("stream", "pause", NAME)
        await cluster.run("stream", "create", "orders", "orders")
        await cluster.run("stream", "alter", "orders", "--retention-ms", "1d")
        await cluster.run("stream", "rm", "orders")

        async def lines() -> list[str]:
            found = (await cluster.run("activity", "watch", "--no-follow")).splitlines()
            return found if "stream.deleted" in found[-1] else []

        found = await until(lines, "the last event")
        shown = [line.split("  ")[2:4] for line in found if "  stream." in line]
        assert shown == [
            *(["stream.created", NAME], ["stream.created", "orders"]),
            *(["stream.altered", "orders"], ["stream.deleted", "orders"]),
        ]
        assert any("retention_ms 0 -> 86400000" in line for line in found)
        wanted = ("activity", "watch", "--filter", f"{NAME}.stream.altered", "--count", "1", "--json")
        event: dict[str, Any] = json.loads(await cluster.run(*wanted))
        assert (event["event"], event["stream"]) == ("stream.altered", "orders")
        assert "is not told any more" in await cluster.run("activity", "off")
        assert "liftlog activity on" in await cluster.refused("activity", "watch")

    with_cluster(tmp_path, 1, story)
