"""A cluster without a quorum: what its user is told, and that a publisher who insists gets through."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, liftlog, until, with_cluster

pytestmark = [pytest.mark.real, pytest.mark.slow]

STREAM = StreamConfig("orders", "orders.>", replication_factor=3)


def test_status_and_pub_say_what_is_known_without_a_quorum_and_pub_insists(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        environment = {"LIFTLOG_NATS": cluster.cluster.nats_url}

        async def run(*arguments: str) -> tuple[int, str, str]:
            return await asyncio.to_thread(liftlog, *arguments, environment=environment)

        # A minimum of one: whoever comes back first leads alone for a moment, and a refusal is final for pub.
        await cluster.client.create_stream(msgspec.structs.replace(STREAM, min_insync_replicas=1))
        assert (await run("pub", "orders.a", "before"))[0] == 0
        code, text, _ = await run("cluster", "status")
        assert code == 0 and "verdict: every partition takes messages" in text
        await cluster.kill(1, 2)

        async def lost() -> bool:
            return not (await cluster.client.status(3, timeout_ms=1000)).contact.has_controller

        await until(lost, "node 3 to know that there is no controller")
        code, text, _ = await run("cluster", "status", "--json")
        status = json.loads(text)
        assert code == 1 and status["controller"] == 0 and status["takes_messages"] is False
        assert status["problems"][0].startswith("no controller: 1 of 3 votes can be reached, 2 are needed")
        assert status["contact"]["3"]["controller_ms"] > 0
        assert [info["answers"] for info in status["nodes"]] == [False, False, True]
        assert status["streams"][0]["config"]["name"] == "orders", "known from before"
        code, text, _ = await run("cluster", "status")
        assert code == 1 and "controller: none;" in text and "was live" in text
        code, _, complaint = await run("pub", "orders.a", "lost", "--timeout", "1")
        assert code == 2
        assert "no controller: 1 of 3 votes can be reached, 2 are needed; start nodes 1, 2" in complaint
        assert "stream 'orders' listens on it otherwise" in complaint
        insisting = asyncio.create_task(run("pub", "orders.a", "insisted", "--timeout", "50"))
        await cluster.start(2)
        code, text, complaint = await insisting
        assert code == 0, complaint
        assert "orders partition 0 offset" in text

    with_cluster(tmp_path, 3, story)


def test_what_nobody_listens_for_is_said_when_the_time_is_over(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        code, _, complaint = await asyncio.to_thread(
            liftlog, "pub", "nobody.here", "x", "--timeout", "0.5", "--nats", cluster.cluster.nats_url
        )
        assert code == 2
        assert "no stream listens on this subject; see 'liftlog stream ls'" in complaint

    with_cluster(tmp_path, 1, story)
