"""Processes stopped with SIGSTOP for longer than their session: what waited meanwhile comes too late (N2)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import TracebackType

import nats
import pytest
from nats.aio.msg import Msg

from liftlog.nodeconfig import NodeConfig
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, until, with_cluster
from tests.integration.stopping import stop, wake

pytestmark = [pytest.mark.real, pytest.mark.slow]


class Publisher:
    """Publishes messages of several kinds to the subject "s" and keeps every answer to each kind."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.answers: dict[str, list[dict[str, object]]] = {}

    async def __aenter__(self) -> Publisher:
        self._connection = await nats.connect(self._url)
        self._inbox = self._connection.new_inbox()
        await self._connection.subscribe(f"{self._inbox}.>", cb=self._on_answer)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connection.close()

    async def _on_answer(self, message: Msg) -> None:
        kind = message.subject.removeprefix(self._inbox + ".").partition(".")[0]
        # "No responders" has no content.
        self.answers.setdefault(kind, []).append(json.loads(message.data) if message.data else {})

    async def publish(self, kind: str, count: int) -> None:
        for number in range(count):
            reply, text = f"{self._inbox}.{kind}.{number}", f"{kind} {number}".encode()
            await self._connection.publish("s", text, reply=reply, headers={"Liftlog-Ack": "full"})
        await self._connection.flush()

    def said(self, kind: str, epoch: int) -> int:
        """How many answers to this kind were given in that epoch."""
        return sum(answer.get("epoch") == epoch for answer in self.answers.get(kind, []))

    async def acked(self, kind: str) -> bool:
        return any("offset" in answer for answer in self.answers.get(kind, []))

    async def acked_at_last(self, kind: str) -> None:
        """Publish until there is an ack."""

        async def once_more() -> bool:
            await self.publish(kind, 1)
            await asyncio.sleep(0.02)
            return await self.acked(kind)

        await until(once_more, f"an ack for '{kind}'")


def test_N2_a_leader_that_wakes_after_its_session_and_hears_nobody_answers_nothing(tmp_path: Path) -> None:
    """Its only replica could commit at once what waits in its sockets; nobody told it yet that time is up."""

    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(StreamConfig("s", "s", replication_factor=1))
        leader = await cluster.leader("s")
        others = [number for number in cluster.running() if number != leader]
        async with Publisher(cluster.cluster.nats_url) as publisher:
            await publisher.acked_at_last("before")
            await stop(cluster, leader, *others)
            try:
                await publisher.publish("late", 100)
                await asyncio.sleep(2 * NodeConfig(1, (1,)).session_timeout_ms / 1000)
                await publisher.publish("later", 100)
                wake(cluster, leader)

                async def runs() -> bool:
                    return bool((await cluster.client.status(leader, timeout_ms=1000)).nodes)

                await until(runs, f"node {leader} awake")
            finally:
                wake(cluster, leader, *others)
            await publisher.acked_at_last("after")
            assert not await publisher.acked("late")
            assert not await publisher.acked("later")

    with_cluster(tmp_path, 3, story)


def test_N2_a_leader_that_wakes_after_it_was_replaced_answers_nothing_in_its_epoch(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(StreamConfig("s", "s", replication_factor=3))
        leader = await cluster.leader("s")
        epoch = (await cluster.partition("s")).epoch
        async with Publisher(cluster.cluster.nats_url) as publisher:
            await publisher.acked_at_last("before")
            await stop(cluster, leader)
            try:

                async def expired() -> bool:
                    await publisher.publish("late", 5)
                    await asyncio.sleep(0.05)
                    other = next(number for number in cluster.running() if number != leader)
                    status = await cluster.client.status(other, timeout_ms=1000)
                    return any(info.node == leader and not info.live for info in status.nodes)

                await until(expired, "the end of the stopped node's session")
                await publisher.publish("late", 200)
            finally:
                wake(cluster, leader)
            await cluster.in_sync("s", 3)
            await publisher.acked_at_last("after")
            assert await publisher.acked("late")
            assert publisher.said("late", epoch) == publisher.said("after", epoch) == 0

    with_cluster(tmp_path, 3, story)
