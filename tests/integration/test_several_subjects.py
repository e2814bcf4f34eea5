"""A stream that listens on several subjects, on real nodes: altered while it is published to (N10)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from liftlog.client import RequestFailed
from liftlog.messages import StreamChanges
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, until, with_cluster

pytestmark = pytest.mark.real

CONFIG = StreamConfig(
    "orders", "orders", replication_factor=3, min_insync_replicas=2, more_subjects=("bills.*", "notes.>")
)
SUBJECTS = ("orders", "bills.7", "notes.a.b")


def test_N10_what_is_acked_is_stored_once_while_subjects_are_altered_and_leaders_die(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        await cluster.client.create_stream(CONFIG)
        acked: dict[str, str] = {}
        stopping = asyncio.Event()

        async def publish(subject: str) -> None:
            number = 0
            while not stopping.is_set():
                value = f"{subject} {number}"
                result = await cluster.client.publish(subject, value.encode(), timeout_ms=2000)
                if result.outcome == "ok":
                    acked[value] = subject
                else:
                    await asyncio.sleep(0.02)
                number += 1

        publishing = [asyncio.create_task(publish(subject)) for subject in SUBJECTS]

        async def heard(subject: str, more: int) -> None:
            before = sum(where == subject for where in acked.values())

            async def came() -> bool:
                return sum(where == subject for where in acked.values()) >= before + more

            await until(came, f"acks on {subject}")

        for subject in SUBJECTS:
            await heard(subject, 5)
        await cluster.client.alter_stream("orders", StreamChanges(more_subjects=("notes.>",)))
        there = sum(where == "bills.7" for where in acked.values())
        await heard("orders", 20)
        assert sum(where == "bills.7" for where in acked.values()) <= there + 1, "but one that was under way"
        with pytest.raises(RequestFailed, match="overlap"):
            await cluster.client.alter_stream("orders", StreamChanges(more_subjects=("notes.>", "notes.x")))
        await cluster.client.alter_stream("orders", StreamChanges(more_subjects=("bills.*", "notes.>")))
        await heard("bills.7", 5)
        leader = await cluster.leader("orders")
        await cluster.kill(leader)
        await cluster.start(leader)
        for subject in SUBJECTS:
            await heard(subject, 5)
        stopping.set()
        await asyncio.gather(*publishing)
        values = list((await cluster.read("orders")).values())
        assert len(values) == len(set(values)), "nothing is stored twice"
        assert set(acked) <= set(values)

    with_cluster(tmp_path, 3, story)


def test_N10_the_command_line_creates_shows_and_alters_several_subjects(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        created = await cluster.run("stream", "create", "s", "a", "--subject", "b.*", "--subject", "c.>")
        assert "created stream 's' on subjects 'a', 'b.*', 'c.>'" in created
        told = await cluster.run("stream", "alter", "s", "--subjects", "c.>", "d")
        assert "subject a -> c.>, more_subjects b.* c.> -> d" in told
        assert "on subjects 'c.>', 'd'" in await cluster.run("stream", "info", "s")
        info = json.loads(await cluster.run("stream", "info", "s", "--json"))
        assert (info["config"]["subject"], info["config"]["more_subjects"]) == ("c.>", ["d"])
        assert "no stream listens" in await cluster.refused("pub", "b.x", "hello")
        assert "overlap" in await cluster.refused("stream", "alter", "s", "--subjects", "c.>", "c.d")
        await cluster.run("stream", "alter", "s", "--note", "team=7", "--note", "why=a = b", "--deny-purge")
        info = json.loads(await cluster.run("stream", "info", "s", "--json"))
        assert info["config"]["notes"] == [["team", "7"], ["why", "a = b"]] and info["config"]["deny_purge"]
        assert "deny_purge" in await cluster.refused("stream", "purge", "s", "--before", "0")
        assert "sealed false -> true" in await cluster.run("stream", "alter", "s", "--sealed", "--no-notes")
        told = await cluster.run("stream", "info", "s")
        assert "sealed: it takes no messages any more" in told and "note" not in told
        assert "is sealed" in await cluster.refused("pub", "d", "hello")
        assert "for ever" in await cluster.refused("stream", "alter", "s", "--read-write")

    with_cluster(tmp_path, 1, story)
