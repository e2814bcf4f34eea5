"""Processors on real nodes, which die as their leaders do: each output is there once (L10)."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, Process
from pathlib import Path

import pytest
import trio

from liftlog.client import BatchRecord, ProcessorFenced, ProcessorUnknown, ReadingProgress
from liftlog.client.on_trio import TrioClient
from liftlog.types import LiftlogError, StreamConfig
from tests.integration.cluster import ROOT, Harness, child_environment, until, with_cluster

pytestmark = pytest.mark.real

PROGRAM = ROOT / "examples" / "process_stream.py"
SALES = 200
"""As the program has it."""


async def prepare(cluster: Harness, copies: int, sales: int = SALES) -> None:
    """The streams of the program, so that it makes none itself."""
    await cluster.newest_level()
    minimum = min(2, copies)
    for name, window in (("bills", {"dedupe_window_ms": 3_600_000}), ("sales", {})):
        config = StreamConfig(name, name, 1, copies, min_insync_replicas=minimum, **window)
        await cluster.client.create_stream(config)
    async with cluster.client.publisher(lambda result: None, insist=True) as publisher:
        for number in range(sales):
            await publisher.send(number, "sales", b"%d" % number)


async def bills(cluster: Harness) -> list[str]:
    """Without the records that only say how far the processor is."""
    return [value for value in (await cluster.read("bills")).values() if value]


def test_L10_each_output_is_there_once_when_leaders_and_processors_are_killed(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await prepare(cluster, 3)
        environment = child_environment({"LIFTLOG_NATS": cluster.cluster.nats_url})

        async def begun() -> Process:
            return await asyncio.create_subprocess_exec(
                sys.executable, "-W", "error", str(PROGRAM), stdout=DEVNULL, stderr=DEVNULL, env=environment
            )

        for share in (1, 2, 3):
            processes = [await begun(), await begun()]

            async def further(share: int = share) -> bool:
                return len(await bills(cluster)) >= SALES * share // 6

            await until(further, "bills to be stored")
            if share == 2:
                leader = await cluster.leader("bills")
                await cluster.kill(leader)
                await cluster.start(leader)
            for process in processes:
                if process.returncode is None:
                    process.kill()
                await process.wait()
        last = await begun()
        async with asyncio.timeout(120):
            assert await last.wait() == 0
        assert await bills(cluster) == [f"bill {number}" for number in range(SALES) if number % 3]

    with_cluster(tmp_path, 3, story)


def test_L10_a_process_that_was_replaced_is_told_and_the_next_one_goes_on(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await prepare(cluster, 1, sales=20)
        client = cluster.client
        with pytest.raises(ProcessorUnknown, match="say where to begin"):
            async with client.processor("p", source="sales", sink="bills"):
                pass
        async with client.processor("p", source="sales", sink="bills", begin=5, records_max=4) as first:
            assert first.position == 5
            batch = await anext(first)
            assert [record.offset for record in batch.records] == [5, 6, 7, 8]
            with pytest.raises(LiftlogError, match="are not committed"):
                await anext(first)
            offset = await batch.commit([b"a", BatchRecord(b"b", b"key")])
            assert (first.position, first.stream) == (9, "bills")
            with pytest.raises(LiftlogError, match="one commit"):
                await batch.commit([])
            batch = await anext(first)
            async with client.processor("p", source="sales", sink="bills", records_max=100) as second:
                assert second.position == 9
                with pytest.raises(ProcessorFenced, match="another process goes on with its work"):
                    await batch.commit([b"zombie"])
                with pytest.raises(LiftlogError, match="open it anew"):
                    await batch.commit([b"zombie"])
                rest = await anext(second)
                assert (rest.records[0].offset, rest.next) == (9, 20)
                with pytest.raises(LiftlogError, match="1 to 1000 records"):
                    await rest.commit([b"x"] * 1001)
                await rest.commit([])
        async with client.processor("p", source="sales", sink="bills") as third:
            assert third.position == 20
        with pytest.raises(LiftlogError, match="cannot be published to"):
            client.processor("p", source="sales", sink="bills.*")
        assert (await bills(cluster), offset) == (["a", "b"], 1)

    with_cluster(tmp_path, 1, story)


def test_L10_under_trio(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await prepare(cluster, 1, sales=30)
        lags: list[int] = []

        def on_progress(reached: ReadingProgress) -> None:
            assert (reached.stream, reached.partition, reached.end) == ("sales", 0, 30)
            lags.append(reached.lag)

        async def program() -> int:
            async with (
                TrioClient.connect(cluster.cluster.nats_url) as client,
                client.processor(
                    "t", source="sales", sink="bills", begin=0, records_max=7, on_progress=on_progress
                ) as processor,
            ):
                async for batch in processor:
                    await batch.commit([b"bill " + (record.value or b"") for record in batch.records])
                    if processor.position == 30:
                        break
                return processor.position

        assert await asyncio.to_thread(trio.run, program) == 30
        assert await bills(cluster) == [f"bill {number}" for number in range(30)]
        assert lags == [23, 16, 9, 2, 0]

    with_cluster(tmp_path, 1, story)
