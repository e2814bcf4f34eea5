"""Processes killed with SIGKILL: nothing acknowledged is lost, and the stream is writable again."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, Writer, until, with_cluster

pytestmark = [pytest.mark.real, pytest.mark.slow]

STREAM = StreamConfig("s", "s", replication_factor=3)


def test_each_node_killed_in_turn_loses_nothing_and_the_stream_goes_on(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(STREAM)
        async with Writer(cluster.client, "s", "turn") as writer:
            await writer.more_acks(100)
            for node in (1, 2, 3):
                await cluster.kill(node)
                await writer.more_acks(200)
                await cluster.start(node)
                await cluster.in_sync("s", 3)
                await writer.more_acks(100)
        await cluster.check_nothing_lost("s", writer)

    with_cluster(tmp_path, 3, story)


def test_killing_controller_and_leader_at_once_loses_nothing(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(STREAM)
        leader = await cluster.leader("s")
        if await cluster.controller() != leader:
            await cluster.client.transfer_controller(leader)

            async def moved() -> bool:
                return await cluster.controller() == leader

            await until(moved, f"node {leader} as controller")
        async with Writer(cluster.client, "s", "both") as writer:
            await writer.more_acks(100)
            old_epoch = max(writer.epochs.values())
            await cluster.kill(leader)
            await writer.more_acks(200)
            assert max(writer.epochs.values()) > old_epoch
            await cluster.start(leader)
            await cluster.in_sync("s", 3)
        await cluster.check_nothing_lost("s", writer)

    with_cluster(tmp_path, 3, story)


def test_with_two_of_three_killed_nothing_is_acked_and_later_nothing_is_missing(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(STREAM)
        leader = await cluster.leader("s")
        others = [node for node in (1, 2, 3) if node != leader]
        async with Writer(cluster.client, "s", "two", ack_timeout_ms=1000) as writer:
            await writer.more_acks(100)
            await cluster.kill(*others)
            before = len(writer.others)

            async def unanswered() -> bool:
                return len(writer.others) >= before + 300

            await until(unanswered, "300 messages without ack after two nodes were killed")
            acked = len(writer.acked)
            lonely = [result for result in writer.others[before:] if result.outcome == "ok"]
            assert lonely == []

            async def more_unanswered() -> bool:
                return len(writer.others) >= before + 600

            await until(more_unanswered, "300 more messages without ack")
            assert len(writer.acked) == acked
            await cluster.start(*others)
            await writer.more_acks(100)
            await cluster.in_sync("s", 3)
        await cluster.check_nothing_lost("s", writer)

    with_cluster(tmp_path, 3, story)


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_a_whole_cluster_that_was_down_has_everything_it_acknowledged(tmp_path: Path, clean: bool) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(STREAM)
        async with Writer(cluster.client, "s", "all") as writer:
            await writer.more_acks(200)
            if clean:
                for node in cluster.cluster.nodes.values():
                    node.terminate()
                for node in cluster.cluster.nodes.values():
                    assert node.wait(20) == 0
            else:
                await cluster.kill(1, 2, 3)
            await cluster.start(1, 2, 3)
            await writer.more_acks(100)
        await cluster.in_sync("s", 3)
        await cluster.check_nothing_lost("s", writer)

    with_cluster(tmp_path, 3, story)


def test_a_paused_leader_is_replaced_and_follows_when_it_wakes(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(STREAM)
        leader = await cluster.leader("s")
        async with Writer(cluster.client, "s", "pause") as writer:
            await writer.more_acks(100)
            cluster.cluster.nodes[leader].send(signal.SIGSTOP)
            try:

                async def replaced() -> bool:
                    return (await cluster.partition("s")).leader not in (0, leader)

                await until(replaced, "another leader")
                await writer.more_acks(100)
            finally:
                cluster.cluster.nodes[leader].send(signal.SIGCONT)
            await cluster.in_sync("s", 3)
            await writer.more_acks(100)
        await cluster.check_nothing_lost("s", writer)

    with_cluster(tmp_path, 3, story)


def test_a_restarted_nats_server_finds_its_subscribers_again(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(STREAM)
        nats = cluster.cluster.nats
        assert nats is not None
        async with Writer(cluster.client, "s", "nats") as writer:
            await writer.more_acks(100)
            nats.kill()
            nats.start()
            await writer.more_acks(100)
        await cluster.check_nothing_lost("s", writer)

    with_cluster(tmp_path, 3, story)
