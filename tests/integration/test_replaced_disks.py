"""Real nodes whose disks are lost one after the other: each votes again, nothing is lost (I2, M2, M4)."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, Writer, liftlog, until, with_cluster

pytestmark = [pytest.mark.real, pytest.mark.slow]


async def voters(harness: Harness, wanted: list[int]) -> None:
    """Wait until exactly these vote, in the eyes of all that run, and nobody is on the way."""

    async def reached() -> bool:
        seen = [await harness.client.status(node, timeout_ms=1000) for node in harness.running()]
        asked = [
            list(status.contact.voters) == wanted
            and not status.contact.learners
            and (status.contact.vote == "born") == (status.answered_by in wanted)
            for status in seen
        ]
        return all(asked)

    await until(reached, f"nodes {wanted} vote")


def test_I2_M2_each_disk_is_replaced_in_turn_and_any_node_may_die_afterwards(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        await harness.client.create_stream(StreamConfig("orders", "orders", 1, 3))
        async with Writer(harness.client, "orders", "value") as writer:
            for node in (1, 2, 3):
                await writer.more_acks(20)
                await harness.kill(node)
                shutil.rmtree(harness.cluster.nodes[node].config.data)
                await harness.start(node)
                await harness.in_sync("orders", 3)
                await voters(harness, [1, 2, 3])
            # No disk of the cluster's birth is left, and one vote may go like at first.
            await harness.kill(1)
            await harness.leader("orders")
            await writer.more_acks(20)
            await harness.start(1)
            await voters(harness, [1, 2, 3])
        await harness.in_sync("orders", 3)
        await harness.check_nothing_lost("orders", writer)

    with_cluster(tmp_path, 3, story)


def test_M4_a_damaged_log_of_commands_is_fetched_anew_and_the_streams_are_kept(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        await harness.client.create_stream(StreamConfig("orders", "orders", 1, 3))
        async with Writer(harness.client, "orders", "value") as writer:
            await writer.more_acks(50)
            await harness.in_sync("orders", 3)
            follower = (await harness.leader("orders")) % 3 + 1
            data = harness.cluster.nodes[follower].config.data
            await harness.kill(follower)
            vote = data / "vote"
            vote.write_bytes(vote.read_bytes()[:-3] + b"bad")
            await harness.start(follower)
            await voters(harness, [1, 2, 3])
            await harness.in_sync("orders", 3)
            await writer.more_acks(20)
        said = harness.cluster.nodes[follower].log_path.read_text()
        assert "takes part in the metadata group as a new member" in said
        assert "its copies are fetched anew" not in said
        await harness.check_nothing_lost("orders", writer)

    with_cluster(tmp_path, 3, story)


def test_M2_an_operator_takes_votes_and_gives_them_back(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        client = harness.client
        leader = await harness.controller()
        await client.set_voter(leader, False)
        rest = [node for node in (1, 2, 3) if node != leader]
        await voters(harness, rest)

        async def succeeded() -> bool:
            return await harness.controller() in rest

        await until(succeeded, "another controller")
        assert "not to vote already" in await client.set_voter(leader, False)
        server = ("--nats", harness.cluster.nats_url)
        code, _, error = await asyncio.to_thread(liftlog, "cluster", "demote", str(rest[1]), *server)
        assert code == 0, error
        await voters(harness, rest[:1])
        code, _, error = await asyncio.to_thread(liftlog, "cluster", "demote", str(rest[0]), *server)
        assert code and f"only {rest[0]} is to vote, and one has to; promote another node first" in error
        await client.set_voter(rest[1], True)
        await voters(harness, rest)
        code, _, error = await asyncio.to_thread(liftlog, "cluster", "promote", "9", *server)
        assert code and "none with that number has ever registered" in error
        await client.set_voter(leader, True)
        await voters(harness, [1, 2, 3])

    with_cluster(tmp_path, 3, story)
