"""A partition that holds so many messages of a subject and refuses more, on nodes whose leaders die (C6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cluster import Harness, with_cluster

pytestmark = pytest.mark.real


def test_c6_a_full_subject_stays_full_when_its_leader_dies_and_deletions_make_room(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        client = cluster.client
        created = "create", "jobs", "jobs.*", "--removal", "--replicas", "3", "--subject-messages-max", "2"
        await cluster.run("stream", *created)

        async def put(subject: str, value: bytes) -> str:
            full = "maximum messages per subject exceeded"
            return await cluster.put(f"jobs.{subject}", value, full)

        assert [await put("a", b"%d" % number) for number in range(4)] == ["ok"] * 2 + ["full"] * 2
        assert [await put("b", b"0"), await put("a", b"4")] == ["ok", "full"]
        leader = await cluster.leader("jobs")
        await cluster.kill(leader)
        assert [await put("a", b"5"), await put("b", b"1"), await put("b", b"2")] == ["full", "ok", "full"]
        await cluster.start(leader)
        await cluster.in_sync("jobs", 3)
        await cluster.run("stream", "delete-message", "jobs", "--offset", "0")
        assert [await put("a", b"6"), await put("a", b"7")] == ["ok", "full"]
        told = await cluster.run("stream", "alter", "jobs", "--subject-messages-max", "1")
        assert told == "stream 'jobs': subject_messages_max 2 -> 1\n"
        assert [await put("a", b"8"), await put("c", b"0"), await put("c", b"1")] == ["full", "ok", "full"]
        assert await client.subjects("jobs") == {b"jobs.a": 2, b"jobs.b": 2, b"jobs.c": 1}
        refused = await cluster.refused("stream", "create", "plain", "--subject-messages-max", "1")
        assert "removal" in refused

    with_cluster(tmp_path, 3, story)
