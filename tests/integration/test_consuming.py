"""Durable consumers on real nodes whose leaders are killed: nothing is skipped, nothing acked comes again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from msgspec.structs import replace

from liftlog.client import ConsumerConfig, ConsumerInfo, RequestFailed
from liftlog.client.on_trio import TrioClient
from liftlog.types import LiftlogError, PartitionId, StreamConfig
from liftlog_jepsen.consuming import ConsumerRecorder, Given, RecordedConsumer
from liftlog_jepsen.history import History, HistoryWriter
from tests.integration.cluster import Harness, until, with_cluster
from tests.integration.judging import judge
from tests.jepsen.promise_stories import broken

pytestmark = pytest.mark.real

MORE = 100
"""Acks between one fault and the next."""
CONFIG = StreamConfig("orders", "orders", replication_factor=3, min_insync_replicas=2, removal=True)


class Worker:
    """Takes messages from one consumer, and acks at once what it does not leave."""

    def __init__(self, consumer: RecordedConsumer, leaves: Callable[[Given], bool]) -> None:
        self.consumer = consumer
        self._leaves = leaves
        self.seen: set[int] = set()
        self.acked: set[int] = set()
        self.asked: set[int] = set()
        """Those of which nobody said whether the ack counts, too."""

    async def step(self) -> None:
        """Once. Whoever does not hear in time goes on."""
        try:
            deliveries = await self.consumer.fetch(20, wait_ms=500)
            self.seen.update(one.record.offset for one in deliveries)
            for delivery in deliveries:
                if not self._leaves(delivery):
                    self.asked.add(delivery.record.offset)
                    if not await self.consumer.ack(delivery):
                        self.acked.add(delivery.record.offset)
        except LiftlogError:
            await asyncio.sleep(0.05)


class Scene:
    """A log, who publishes to it, its consumers, and what all of them see."""

    def __init__(self, cluster: Harness) -> None:
        self.cluster = cluster
        self.recorder = ConsumerRecorder(HistoryWriter("consumers"), "orders/0")
        self.stored = 0
        self.stopping = self.published = False

    async def worker(
        self, name: str, config: ConsumerConfig, leaves: Callable[[Given], bool], timeout_ms: int = 30_000
    ) -> Worker:
        while True:
            made = self.cluster.client.consumer("orders", name, config=config, timeout_ms=timeout_ms)
            with contextlib.suppress(LiftlogError):
                return Worker(await self.recorder.consumer(lambda made=made: made), leaves)

    async def publish(self) -> None:
        """One message after the other, until the story is over."""
        for number in count():
            if self.stopping:
                break
            sent = self.cluster.client.publish("orders", b"%d" % number, timeout_ms=3000)
            result = await self.recorder.publish(str(number), lambda sent=sent: sent)
            self.stored += result.outcome == "ok"
            # Some hundred messages a second leave the machine to the nodes under test.
            await asyncio.sleep(0.002)
        self.published = True

    async def info(self, name: str) -> ConsumerInfo:
        return await (await self.cluster.client.consumer("orders", name, timeout_ms=30_000)).info()

    async def work(self, name: str, worker: Worker) -> None:
        """Until all is published and done."""
        while True:
            over = self.published
            await worker.step()
            info = await self.info(name) if over else None
            if info is not None and not info.num_pending and not info.ack_pending:
                return

    async def more_acks(self, *workers: Worker) -> None:
        heard = sum(len(worker.acked) for worker in workers)
        while sum(len(worker.acked) for worker in workers) < heard + MORE:
            await asyncio.sleep(0.02)

    async def end(self, *workers: Worker) -> History:
        """All that is in the log, and of each worker's consumer what is done."""
        await self.cluster.in_sync("orders", 3)
        for node in self.cluster.running():
            await self.recorder.final_read(lambda node=node: self.cluster.read("orders", node))
        for worker in workers:
            assert await worker.consumer.floor() >= self.stored
        return self.recorder.writer.close()


def leaves_every_seventh_once(one: Given) -> bool:
    return one.delivered == 1 and one.record.offset % 7 == 0


def counts(history: History) -> list[int]:
    """Of all deliveries."""
    mops = [mop for op in history.ops() for mop in op.mops if mop.f == "deliver" and op.outcome == "ok"]
    return [mop.epoch or 0 for mop in mops]


@pytest.mark.usefixtures("shared_session")
def test_k3_k6_what_clients_saw_while_leaders_were_killed_is_judged_on_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    histories: list[History] = []

    async def story(cluster: Harness) -> None:
        client = cluster.client
        await cluster.newest_level()
        await client.create_stream(CONFIG)
        scene = Scene(cluster)
        config = ConsumerConfig(ack_wait_ms=1500)
        # One of them gives up on answers after a second: nobody knows what came of these.
        workers = [
            await scene.worker("billing", config, leaves_every_seventh_once, timeout_ms)
            for timeout_ms in (30_000, 1000)
        ]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(scene.publish())
            for one in workers:
                tasks.create_task(scene.work("billing", one))
            for _ in range(2):
                await scene.more_acks(*workers)
                leader = await cluster.leader("orders")
                await cluster.kill(leader)
                await cluster.start(leader)
            await scene.more_acks(*workers)
            scene.stopping = True
        patient, hasty = workers
        before = await scene.info("billing")
        assert before.position == before.floor >= scene.stored > 3 * MORE
        every = set(range(before.position))
        assert patient.seen | hasty.seen == every == patient.asked | hasty.asked
        histories.append(await scene.end(patient))
        nodes = cluster.running()
        await cluster.kill(*nodes)
        await cluster.start(*nodes)
        found = await client.consumer("orders", "billing", timeout_ms=30_000)
        # When it was active last only the leader of then knew.
        assert await found.info() == replace(before, delivered_ms=0, acked_ms=0), "it is on disk"
        assert await found.fetch(1, wait_ms=0) == []

    with_cluster(tmp_path, 3, story)
    (history,) = histories
    assert sum(times > 1 for times in counts(history)) > MORE // 10
    judge(history, tmp_path, capsys)


@pytest.mark.slow
def test_k3_k4_what_clients_saw_of_a_leader_that_was_paused_is_judged(tmp_path: Path) -> None:
    """It wakes with deliveries that it has decided, and nobody else knows of. Spark has judged one such
    history, above; the definitions are the same.
    """
    histories: list[History] = []

    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        await cluster.client.create_stream(CONFIG)
        scene = Scene(cluster)
        billing = await scene.worker("billing", ConsumerConfig(ack_wait_ms=1500), leaves_every_seventh_once)
        limited = ConsumerConfig(ack_wait_ms=500, max_deliver=2)
        tries = await scene.worker("tries", limited, lambda one: one.record.offset % 3 > 0)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(scene.publish())
            tasks.create_task(scene.work("billing", billing))
            tasks.create_task(scene.work("tries", tries))
            for _ in range(2):
                await scene.more_acks(billing)
                paused = cluster.cluster.nodes[await cluster.leader("orders")]
                paused.send(signal.SIGSTOP)
                try:
                    await scene.more_acks(billing)
                finally:
                    paused.send(signal.SIGCONT)
            await scene.more_acks(billing)
            scene.stopping = True
        histories.append(await scene.end(billing, tries))

    with_cluster(tmp_path, 3, story)
    (history,) = histories
    assert set(counts(history)) >= {1, 2}
    assert broken(history) == []


def test_the_commands_of_the_page(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        run = cluster.run
        await run("stream", "create", "orders", "--subject", "orders.>", "--replicas", "1", "--removal")
        options = ("--ack-wait", "10s", "--max-deliver", "5")
        made = json.loads(await run("consumer", "add", "orders", "billing", *options, "--json"))
        config = made["config"]
        assert (made["name"], config["ack_wait_ms"], config["max_deliver"]) == ("billing", 10_000, 5)
        billing = ("orders", "billing")
        await run("pub", "orders.new", "first order")
        assert "delivered 1: first order" in await run("consumer", "next", *billing, "--no-ack")
        assert "no message came" in await run("consumer", "next", *billing, "--wait", "100ms")
        await run("pub", "orders.new", "second order")
        assert "delivered 1: second order" in await run("consumer", "next", *billing, "--count", "10")
        told = json.loads(await run("consumer", "info", *billing, "--json"))
        assert (told["position"], told["floor"], told["ack_pending"]) == (2, 0, 1)
        await run("consumer", "add", "orders", "refunds", "--filter", "orders.*.refunded")
        await run("pub", "orders.7.refunded", "money back")
        found = json.loads(await run("consumer", "next", "orders", "refunds", "--count", "9", "--json"))
        assert (found["offset"], found["delivered"]) == (2, 1)
        assert "deleted" in await run("consumer", "rm", "orders", "refunds", "--json")
        listed = json.loads(await run("consumer", "ls", "orders", "--json"))
        assert [one["name"] for one in listed] == ["billing"]
        assert "billing" in await run("consumer", "ls", "orders")
        assert "another configuration" in await cluster.refused("consumer", "add", *billing)
        assert "or a time" in await cluster.refused("consumer", "add", "orders", "x", "--deliver", "middle")
        state = ("--deliver", "last-per-subject", "--filter", "orders.new", "--filter", "orders.*.refunded")
        await run("consumer", "add", "orders", "state", *state, "--note", "owner=us", "--inactive", "1h")
        shown = await run("consumer", "next", "orders", "state", "--count", "9", "--json")
        assert [json.loads(line)["offset"] for line in shown.splitlines()] == [1, 2]
        other = ("consumer", "alter", "orders", "state", "--json")
        told = json.loads(await run(*other, "--filter", "orders.paid", "--filter", "orders.sent"))
        assert (told["config"]["filter"], told["config"]["filters"]) == ("orders.paid", ["orders.sent"])
        told = json.loads(await run(*other, "--filter", ""))
        assert (told["config"]["filter"], told["config"]["filters"], told["num_pending"]) == ("", [], 0)
        await run("consumer", "add", "orders", "since", "--deliver", "2026-05-01T12:00:00Z")
        alter = ("consumer", "alter", *billing, "--json")
        told = json.loads(await run(*alter, "--pause", "2999-01-01T00:00:00Z"))
        assert told["config"]["pause_until_ms"] > 32_000_000_000_000
        assert "no message came" in await run("consumer", "next", *billing, "--wait", "100ms")
        told = json.loads(await run(*alter, "--pause", "now", "--max-deliver", "7"))
        assert (told["config"]["pause_until_ms"], told["config"]["max_deliver"]) == (0, 7)
        await run("consumer", "add", "orders", "newest", "--deliver", "last", "--backoff", "100ms,10m")
        newest = ("orders", "newest", "--wait", "20s", "--no-ack", "--json")
        for delivered in (1, 2):
            found = json.loads(await run("consumer", "next", *newest))
            assert (found["offset"], found["delivered"]) == (2, delivered)
        bad = ("orders", "x", "--backoff", "1s,1s", "--max-deliver", "1")
        assert "leave out waits" in await cluster.refused("consumer", "add", *bad)
        assert "removed" in await run("consumer", "rm", *billing)
        assert "does not exist" in await cluster.refused("consumer", "rm", *billing)
        await run("stream", "create", "plain", "--replicas", "1")
        assert "--removal" in await cluster.refused("consumer", "add", "plain", "billing")

    with_cluster(tmp_path, 1, story)


def test_k2_a_journal_begins_again_and_nodes_that_start_there_know_the_consumer(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        client = cluster.client
        await cluster.newest_level()
        stream = await client.create_stream(CONFIG)
        for number in range(60):
            assert (await client.publish("orders", b"%d" % number)).outcome == "ok"
        consumer = await client.consumer("orders", "c", config=ConsumerConfig(ack_wait_ms=600_000))
        for delivery in await consumer.fetch(60):
            if delivery.record.offset % 10:
                await consumer.ack(delivery)
        journal = PartitionId(stream.id, 0).journal

        async def begins_later() -> bool:
            told = [await client.status(node) for node in cluster.running()]
            starts = [one.log_start for status in told for one in status.replicas if one.partition == journal]
            return len(starts) == 3 and min(starts) >= 32

        await until(begins_later, "journals that begin later")
        nodes = cluster.running()
        await cluster.kill(*nodes)
        await cluster.start(*nodes)
        info = await (await client.consumer("orders", "c", timeout_ms=30_000)).info()
        assert (info.number, info.position, info.floor, info.ack_pending) == (consumer.number, 60, 0, 6)
        await consumer.settle("nak", list(range(0, 60, 10)))
        again = {one.record.offset: one.delivered for one in await consumer.fetch(60)}
        assert again == dict.fromkeys(range(0, 60, 10), 2)

    with_cluster(tmp_path, 3, story)


def test_a_program_gives_back_what_it_has_not_acked(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        client = cluster.client
        await cluster.newest_level()
        await client.create_stream(StreamConfig("s", "s", replication_factor=1, removal=True))
        for number in range(10):
            assert (await client.publish("s", b"%d" % number)).outcome == "ok"
        config = ConsumerConfig(ack_wait_ms=60_000)
        consumer = await client.consumer("s", "c", config=config)
        async with consumer.pull(5) as deliveries:
            async for delivery in deliveries:
                await consumer.ack(delivery)
                if delivery.record.offset == 2:
                    break

        def in_trio() -> list[tuple[int, int]]:
            import trio

            async def main() -> list[tuple[int, int]]:
                found = []
                async with TrioClient.connect(cluster.cluster.nats_url) as other:
                    shared = await other.consumer("s", "c")
                    async with shared.pull() as more:
                        async for one in more:
                            found.append((one.record.offset, one.delivered))
                            await shared.ack(one)
                            if len(found) == 7:
                                break
                return found

            return trio.run(main)

        assert sorted(await asyncio.to_thread(in_trio)) == [(3, 2), (4, 2), *((n, 1) for n in range(5, 10))]
        assert (await consumer.info()).ack_pending == 0
        await client.delete_consumer("s", "c")
        with pytest.raises(RequestFailed, match="it was deleted"):
            await consumer.fetch(1, wait_ms=0)

    with_cluster(tmp_path, 1, story)
