"""Messages that are sent one by one to real nodes, and are stored together or not at all (L11)."""

from __future__ import annotations

import asyncio
import json
from itertools import count
from pathlib import Path
from typing import Any

import nats.errors
import pytest

from liftlog.types import StreamConfig
from tests.integration.cluster import DEADLINE_S, Harness, until, with_cluster

pytestmark = pytest.mark.real

SIZE = 5
ANSWER_S = 2.0


def headers(id: str, number: int, commit: str = "", **more: str) -> dict[str, str]:
    found = {"Nats-Batch-Id": id, "Nats-Batch-Sequence": str(number)}
    found |= {name.replace("_", "-"): value for name, value in more.items()}
    return found | ({"Nats-Batch-Commit": commit} if commit else {})


class BatchSender:
    """Sends one batch after the other, each once and slowly; none is repeated."""

    def __init__(self, cluster: Harness) -> None:
        self.cluster = cluster
        self.acked: dict[int, int] = {}
        """Which batch ends where."""
        self.incomplete = 0
        self.stopping = False
        self.amid = asyncio.Event()
        """A batch is sent in part."""

    async def run(self) -> None:
        for tag in count():
            if self.stopping:
                return
            for number in range(1, SIZE):
                await self.send(tag, number)
                self.amid.set()
            self.amid.clear()
            told = await self.ask(tag, SIZE)
            if "seq" in told and "error" not in told:
                assert (told["batch"], told["count"]) == (f"b{tag}", SIZE)
                self.acked[tag] = told["seq"]
            elif told:
                self.incomplete += told["error"]["err_code"] == 10176

    async def send(self, tag: int, number: int) -> None:
        value = f"{tag}.{number}".encode()
        await self.cluster.client.nats.publish("orders.x", value, headers=headers(f"b{tag}", number))
        await asyncio.sleep(0.01)

    async def ask(self, tag: int, number: int) -> dict[str, Any]:
        """End the batch; what is answered, nothing if nobody does in time."""
        try:
            answer = await self.cluster.client.nats.request(
                "orders.x",
                f"{tag}.{number}".encode(),
                timeout=ANSWER_S,
                headers=headers(f"b{tag}", number, "1"),
            )
        except (nats.errors.TimeoutError, nats.errors.NoRespondersError):
            return {}
        told: dict[str, Any] = json.loads(answer.data)
        return told

    async def more_acks(self, more: int) -> None:
        goal = len(self.acked) + more

        async def reached() -> bool:
            return len(self.acked) >= goal

        await until(reached, f"{more} more batches", DEADLINE_S)


def check_whole(there: dict[int, str], sender: BatchSender) -> None:
    """Each batch lies there as it was sent, or not at all, and where it was acknowledged."""
    values = [there[offset] for offset in sorted(there)]
    assert sorted(there) == list(range(len(values)))
    for begin in range(0, len(values), SIZE):
        tag = int(values[begin].partition(".")[0])
        assert values[begin : begin + SIZE] == [f"{tag}.{number}" for number in range(1, SIZE + 1)]
    for tag, seq in sender.acked.items():
        assert there[seq - 1] == f"{tag}.{SIZE}"


@pytest.mark.slow
def test_L11_batches_are_whole_on_every_replica_though_their_leader_is_killed_amid_one(
    tmp_path: Path,
) -> None:
    async def story(cluster: Harness) -> None:
        config = StreamConfig("orders", "orders.>", 1, 3, 2, allow_batches=True)
        await cluster.newest_level()
        await cluster.client.create_stream(config)
        sender = BatchSender(cluster)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(sender.run())
            for _ in range(2):
                await sender.more_acks(5)
                killed = await cluster.leader("orders")
                await sender.amid.wait()
                await cluster.kill(killed)
                await sender.more_acks(5)
                await cluster.start(killed)
                await cluster.in_sync("orders", 3)
            sender.stopping = True
        await cluster.in_sync("orders", 3)
        for node in cluster.running():
            check_whole(await cluster.read("orders", node), sender)

    with_cluster(tmp_path, 3, story)


def test_L11_a_stream_takes_batches_when_it_is_told_to(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        await cluster.run("stream", "create", "orders", "orders.>", "--replicas", "1", "--allow-batches")
        assert "allow_batches" in await cluster.run("stream", "info", "orders")
        connection = cluster.client.nats

        async def send(value: str, id: str, number: int, commit: str = "", **more: str) -> dict[str, Any]:
            answer = await connection.request(
                "orders.a", value.encode(), timeout=ANSWER_S, headers=headers(id, number, commit, **more)
            )
            return json.loads(answer.data) if answer.data else {}

        assert await send("0", "x", 1) == {}
        told = await send("1", "x", 2, "1", Liftlog_Ack="full")
        assert (told["seq"], told["offset"], told["count"], told["batch"]) == (2, 0, 2, "x")
        assert await send("2", "y", 1, Nats_Expected_Last_Subject_Sequence="2") == {}
        assert (await send("3", "y", 2, "1"))["seq"] == 4
        said = await cluster.run("stream", "alter", "orders", "--no-allow-batches")
        assert said == "stream 'orders': allow_batches true -> false\n"

        async def refused() -> bool:
            answer = await send("4", "z", 1)
            return bool(answer) and answer["error"]["err_code"] == 10174

        await until(refused, "no batches any more")
        there = await cluster.read("orders")
        assert there == {0: "0", 1: "1", 2: "2", 3: "3"}

    with_cluster(tmp_path, 1, story)
