"""Durable consumers on real nodes whose leaders are killed: nothing is skipped, nothing acked comes again."""

from __future__ import annotations

import asyncio
import contextlib
import json
from itertools import count
from pathlib import Path

import pytest

from liftlog.cli import main
from liftlog.client import ConsumerConfig, RequestFailed
from liftlog.client.on_trio import TrioClient
from liftlog.types import LiftlogError, StreamConfig
from liftlog_jepsen.consuming import ConsumerRecorder, RecordedConsumer
from liftlog_jepsen.history import History, HistoryWriter, Mop
from liftlog_jepsen.parquet import write_parquet
from tests.integration.cluster import Harness, with_cluster
from tests.jepsen.promise_stories import broken

pytestmark = pytest.mark.real

MESSAGES = 600
CONFIG = StreamConfig("orders", "orders", replication_factor=3, min_insync_replicas=2, removal=True)


class Worker:
    """Takes messages from one consumer and acks most of them at once."""

    def __init__(self, consumer: RecordedConsumer) -> None:
        self.consumer = consumer
        self.seen: set[int] = set()
        self.acked: set[int] = set()
        self.asked: set[int] = set()
        """Of which nobody said whether the ack counts."""

    async def step(self, messages: int = 20) -> None:
        """Once. Whoever does not hear in time goes on."""
        try:
            deliveries = await self.consumer.fetch(messages, wait_ms=500)
            self.seen.update(one.record.offset for one in deliveries)
            # Every seventh is not acked the first time: it has to come again.
            due = [one for one in deliveries if one.delivered > 1 or one.record.offset % 7]
            for delivery in due:
                self.asked.add(delivery.record.offset)
                if not await self.consumer.ack(delivery):
                    self.acked.add(delivery.record.offset)
        except LiftlogError:
            await asyncio.sleep(0.05)


def facts(history: History, f: str) -> list[Mop]:
    return [mop for op in history.ops() for mop in op.mops if mop.f == f and op.outcome == "ok"]


@pytest.mark.usefixtures("shared_session")
def test_k3_k6_what_clients_saw_while_leaders_were_killed_is_judged_on_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    histories: list[History] = []

    async def story(cluster: Harness) -> None:
        client = cluster.client
        await cluster.newest_level()
        await client.create_stream(CONFIG)
        recorder = ConsumerRecorder(HistoryWriter("consumers"), "orders/0")
        config = ConsumerConfig(ack_wait_ms=1500)

        async def worker(timeout_ms: int) -> Worker:
            while True:
                consumer = client.consumer("orders", "billing", config=config, timeout_ms=timeout_ms)
                with contextlib.suppress(LiftlogError):
                    return Worker(await recorder.consumer(lambda consumer=consumer: consumer))

        async def publish() -> None:
            for number in range(MESSAGES):
                for attempt in count():
                    value = f"{number}.{attempt}"
                    sent = client.publish("orders", value.encode(), timeout_ms=3000)
                    if (await recorder.publish(value, lambda sent=sent: sent)).outcome == "ok":
                        break

        async def work(worker: Worker) -> None:
            while not published.done() or (await patient.consumer.consumer.info()).num_pending:
                await worker.step()

        # One of them gives up on answers after a second: nobody knows what came of these.
        patient, hasty = workers = [await worker(30_000), await worker(1000)]
        published = asyncio.create_task(publish())
        working = [asyncio.create_task(work(one)) for one in workers]
        for _ in range(2):
            heard = len(patient.acked | hasty.acked)
            while len(patient.acked | hasty.acked) < heard + MESSAGES // 6:
                await asyncio.sleep(0.02)
            leader = await cluster.leader("orders")
            await cluster.kill(leader)
            await cluster.start(leader)
        await published
        await asyncio.gather(*working)
        consumer = await client.consumer("orders", "billing", timeout_ms=30_000)
        while (await consumer.info()).ack_pending:
            await patient.step(100)
        before = await consumer.info()
        assert before.position == before.floor >= MESSAGES
        every = set(range(before.position))
        assert patient.seen | hasty.seen == every == patient.asked | hasty.asked
        await cluster.in_sync("orders", 3)
        for node in cluster.running():
            await recorder.final_read(lambda node=node: cluster.read("orders", node))
        assert await patient.consumer.floor() == before.position
        histories.append(recorder.writer.close())
        nodes = cluster.running()
        await cluster.kill(*nodes)
        await cluster.start(*nodes)
        found = await client.consumer("orders", "billing", timeout_ms=30_000)
        assert await found.info() == before, "it is on disk"
        assert await found.fetch(1, wait_ms=0) == []

    with_cluster(tmp_path, 3, story)
    (history,) = histories
    again = [mop for mop in facts(history, "deliver") if (mop.epoch or 0) > 1]
    assert len(again) > MESSAGES // 10 and facts(history, "settle") and facts(history, "floor")
    assert broken(history) == []
    write_parquet(history, tmp_path / "history")
    capsys.readouterr()
    assert main(["jepsen", "check", str(tmp_path / "history"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["verdict"], result["anomalies"]) == ("valid", [])


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
        assert "an offset" in await cluster.refused("consumer", "add", "orders", "x", "--deliver", "last")
        assert "removed" in await run("consumer", "rm", *billing)
        assert "does not exist" in await cluster.refused("consumer", "rm", *billing)
        await run("stream", "create", "plain", "--replicas", "1")
        assert "--removal" in await cluster.refused("consumer", "add", "plain", "billing")

    with_cluster(tmp_path, 1, story)


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
