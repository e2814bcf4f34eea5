"""The programs of docs/client.md, as they stand there; and a reading that outlives its leader."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from liftlog.client import FOREVER, Gap, RecordsGone, RoundRobin, Unreachable
from liftlog.client.on_trio import TrioClient
from liftlog.messages import StreamChanges
from liftlog.types import StreamConfig
from tests.integration.cluster import ROOT, Harness, Writer, child_environment, until, with_cluster

pytestmark = pytest.mark.real

EXAMPLES = ROOT / "examples"


def test_every_example_does_what_the_page_says(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        async def program(name: str, *arguments: str) -> list[str]:
            def run() -> subprocess.CompletedProcess[str]:
                return subprocess.run(
                    [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    env=child_environment({"LIFTLOG_NATS": harness.cluster.nats_url}),
                    check=False,
                )

            done = await asyncio.to_thread(run)
            assert (done.returncode, done.stderr) == (0, "")
            ran.add(name)
            return done.stdout.splitlines()

        ran: set[str] = set()
        assert await program("publish_safely.py") == [
            f"invoice {number} is stored at offset {number}" for number in range(3)
        ]
        assert await program("publish_fast.py") == ["stored 5000 of 5000; to be published again: []"]
        assert await program("publish_batches.py") == [
            "stored 5000 of 5000; to be published again: []",
            "stored 2 together, the first at offset 5000",
        ]
        assert await program("publish_in_order.py") == ["stored 1000 of 1000, in order: True"]
        read = await program("read_everything.py")
        assert read == ["read 5000 purchases of 50 customers from 3 partitions"]
        state = str(tmp_path / "state.json")
        first = await program("follow.py", state, "2000")
        second = await program("follow.py", state, "3000")
        assert len({*first, *second}) == 5000
        assert await program("last_value.py") == ["ada 2", "eve 1"]
        assert await program("accounts.py") == ["ada 100", "bob 100"]
        assert await program("in_trio.py") == ["stored 1000", "read 1000"]
        assert await program("share_work.py") == ["worked through 200 of 200; left to do: 0"]
        await harness.newest_level()
        assert await program("consume.py") == [
            "worked through 100 of 100, 0 of them twice",
            "waiting for an ack: 0; to come: 0",
        ]
        assert await program("dead_letters.py") == [
            "offset 7: torn (terminated)",
            "offset 3: no address (limit)",
        ]
        done = ["200 sales are done"]
        assert await program("process_stream.py") == done
        assert await program("process_stream.py") == done, "there is nothing left"
        stored = [value for value in (await harness.read("bills")).values() if value]
        assert stored == [f"bill {number}" for number in range(200) if number % 3]
        amounts = [number % 7 for number in range(300)]
        totals = [f"ada {sum(amounts[::2])}", f"bob {sum(amounts[1::2])}"]
        assert await program("process_totals.py") == totals
        assert await program("process_totals.py") == totals
        rooms = ["blue is booked: offset 0", "green is booked: offset 1", "red is booked: offset 2"]
        told = await program("outbox.py", str(tmp_path / "bookings.sqlite"))
        assert told == [*rooms, *(f"{room}, was there" for room in rooms)]
        assert ran == {path.name for path in EXAMPLES.glob("*.py")}

    with_cluster(tmp_path, 1, story)


@pytest.mark.slow
@pytest.mark.parametrize("replica", ["leader", "any"])
def test_R3_a_reading_goes_on_without_gap_or_duplicate_when_the_leader_is_killed(
    tmp_path: Path, replica: str
) -> None:
    async def story(harness: Harness) -> None:
        client = harness.client
        await client.create_stream(StreamConfig("s", "s", 1, 3))
        seen: list[tuple[int, str]] = []

        async def follow() -> None:
            async with await client.read("s", until=FOREVER, replica=replica, timeout_ms=30_000) as reading:  # type: ignore[arg-type]
                async for _, record in reading:
                    assert record.value is not None
                    seen.append((record.offset, record.value.decode()))

        following = asyncio.create_task(follow())
        async with Writer(client, "s", "v") as writer:
            await writer.more_acks(50)
            leader = await harness.leader("s")
            await harness.kill(leader)
            await writer.more_acks(50)
            await harness.start(leader)
            await writer.more_acks(20)

        async def caught_up() -> bool:
            if following.done():
                await following
            return bool(seen) and seen[-1][0] >= max(writer.acked)

        await until(caught_up, "all acknowledged messages at who reads")
        following.cancel()
        assert [offset for offset, _ in seen] == list(range(len(seen)))
        told = dict(seen)
        assert {offset: told[offset] for offset in writer.acked} == writer.acked

    with_cluster(tmp_path, 3, story)


def test_purged_records_are_told_and_added_partitions_published_to(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        client = harness.client
        await harness.newest_level()
        await client.create_stream(StreamConfig("s", "s"))
        results: list[tuple[int, int]] = []

        def on_result(result: object) -> None:
            results.append((result.partition, result.offset))  # type: ignore[attr-defined]

        async with await client.stream_publisher("s", on_result, RoundRobin()) as publisher:
            for tag in range(10):
                assert await publisher.send(tag, b"%d" % tag) == 0
            await client.alter_stream("s", StreamChanges(partitions=2))

            async def grown() -> bool:
                await publisher.send(1000 + len(results), b"more")
                return publisher.partitions == 2

            await until(grown, "the added partition in use")
        assert {partition for partition, _ in results} == {0, 1}
        assert all(offset >= 0 for _, offset in results)

        await client.purge("s", 0, 7)
        gaps: list[Gap] = []
        async with await client.read("s", 0, start=2, until=9, on_gap=gaps.append) as reading:
            assert [record.offset async for _, record in reading] == [7, 8]
        assert gaps == [Gap("s", 0, 2, 7)]
        with pytest.raises(RecordsGone, match="records 2 to 6 were removed before they were read"):
            await anext(await client.read("s", 0, start=2))
        view = await client.who_acks("s.1", max_age_ms=0)
        assert (view.acks, view.linearizable) == (1, True)
        assert [(one.stream, one.partition, one.state) for one in view.listeners] == [("s", 1, "ready")]
        await client.alter_stream("s", StreamChanges(read_only=True))
        assert (await client.who_acks("s", max_age_ms=0)).acks == 0

    with_cluster(tmp_path, 1, story)


@pytest.mark.trio
async def test_a_cluster_that_is_not_there_is_told_in_trio_too() -> None:
    with pytest.raises(Unreachable, match=r"cannot reach NATS at nats://127\.0\.0\.1:1"):
        async with TrioClient.connect("nats://127.0.0.1:1", connect_timeout_ms=1000):
            pass
