"""A nats-py program that publishes, pulls and acks goes on by itself when the leader is killed."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from pathlib import Path

import nats
import nats.errors
import pytest
from nats.aio.client import Client as NatsConnection
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.errors import APIError, NoStreamResponseError
from nats.js.errors import FetchTimeoutError as NothingCame

from liftlog.client import Client
from liftlog.real.local_cluster import LocalCluster
from tests.integration.cluster import Harness, until

pytestmark = [pytest.mark.real, pytest.mark.slow]

FAILS = (nats.errors.Error, APIError, NoStreamResponseError, TimeoutError)
"""What the program lives with: it tries again."""


class Program:
    """Publishes numbers, each until it is acked, and consumes them."""

    def __init__(self, js: JetStreamContext) -> None:
        self._js = js
        self.stored = 0
        self.received: Counter[bytes] = Counter()
        self.done: set[bytes] = set()
        """Acked, and the ack was answered."""
        self.again: list[bytes] = []
        """Came though they were done."""
        self.enough = False
        """Nothing more is published."""
        self.over = False

    async def publish(self) -> None:
        while not self.enough:
            number = self.stored
            with contextlib.suppress(*FAILS):
                headers = {"Nats-Msg-Id": f"n{number}"}
                await self._js.publish("jobs.new", b"%d" % number, timeout=2, headers=headers)
                self.stored += 1
            await asyncio.sleep(0.002)

    async def consume(self) -> None:
        subscription = await self._js.pull_subscribe_bind("workers", stream="JOBS")
        while not self.over:
            messages = []
            with contextlib.suppress(*FAILS, NothingCame):
                messages = await subscription.fetch(20, timeout=2)
            for message in messages:
                self.received[message.data] += 1
                if message.data in self.done:
                    self.again.append(message.data)
                with contextlib.suppress(*FAILS):
                    await message.ack_sync(timeout=2)
                    self.done.add(message.data)

    async def more(self, count: int) -> None:
        """Wait until so many more are done."""
        goal = len(self.done) + count

        async def reached() -> bool:
            return len(self.done) >= goal

        await until(reached, f"{count} more messages that are done", 40)


async def answers(connection: NatsConnection) -> bool:
    """Whether a door does."""
    with contextlib.suppress(nats.errors.Error):
        await connection.request("$JS.API.INFO", timeout=1)
        return True
    return False


def test_a_nats_py_program_goes_on_through_sigkill_of_the_leader(tmp_path: Path) -> None:
    async def story(cluster: LocalCluster) -> None:
        async with await Client.connect(cluster.nats_url) as client:
            harness = Harness(cluster, client)
            connection = await nats.connect(cluster.nats_url)
            await until(lambda: answers(connection), "a door")
            js = connection.jetstream(timeout=5)
            await js.add_stream(name="JOBS", subjects=["jobs.>"], num_replicas=3)
            await js.add_consumer("JOBS", durable_name="workers", ack_policy="explicit", ack_wait=3)
            program = Program(js)
            work = [asyncio.create_task(program.publish()), asyncio.create_task(program.consume())]
            await program.more(100)
            for _ in range(2):
                leader = await harness.leader("JOBS")
                await harness.kill(leader)
                await program.more(100)
                await harness.start(leader)
                await harness.in_sync("JOBS", 3)
                await program.more(50)
            program.enough = True

            async def nothing_left() -> bool:
                info = await js.consumer_info("JOBS", "workers")
                return not info.num_pending and not info.num_ack_pending

            await until(nothing_left, "that all is consumed", 40)
            program.over = True
            await asyncio.gather(*work)
            # An ack whose answer was lost may have counted: then the message was received, and that is all.
            assert {b"%d" % number for number in range(program.stored)} <= set(program.received)
            assert program.again == []
            await connection.close()

    with LocalCluster(tmp_path, 3, jetstream=True) as cluster:
        asyncio.run(story(cluster))


def test_an_ordered_consumer_sees_everything_in_order_through_sigkill_of_the_leader(tmp_path: Path) -> None:
    async def story(cluster: LocalCluster) -> None:
        async with await Client.connect(cluster.nats_url) as client:
            harness = Harness(cluster, client)
            connection = await nats.connect(cluster.nats_url)
            await until(lambda: answers(connection), "a door")
            js = connection.jetstream(timeout=5)
            await js.add_stream(name="JOBS", subjects=["jobs.>"], num_replicas=3)
            program = Program(js)
            publishing = asyncio.create_task(program.publish())
            seen: list[int] = []

            async def came(message: Msg) -> None:
                seen.append(message.metadata.sequence.stream)

            subscription = await js.subscribe("jobs.>", ordered_consumer=True, cb=came, idle_heartbeat=1)

            async def more() -> bool:
                return len(seen) > goal

            goal = 100
            await until(more, "100 messages")
            leader = await harness.leader("JOBS")
            await harness.kill(leader)
            goal = len(seen) + 100
            await until(more, "100 more messages", 60)
            program.enough = True
            await publishing
            last = (await js.stream_info("JOBS")).state.last_seq

            async def all_seen() -> bool:
                return bool(seen) and seen[-1] == last

            await until(all_seen, f"message {last}", 40)
            assert seen == list(range(1, last + 1))
            await subscription.unsubscribe()
            await connection.close()

    with LocalCluster(tmp_path, 3, jetstream=True) as cluster:
        asyncio.run(story(cluster))
