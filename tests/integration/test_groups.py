"""Cursors and consumer groups on real nodes whose leaders are killed (G1-G6)."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from itertools import count
from pathlib import Path

import pytest

from liftlog.client import Client, CursorSet, GroupReading
from liftlog.groups.state import GroupFenced, GroupRefused
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, until, with_cluster

pytestmark = pytest.mark.real

CONFIG = StreamConfig("orders", "orders", 4, replication_factor=3, min_insync_replicas=2)


async def publish(client: Client, numbers: range, partitions: int = 4) -> None:
    for number in numbers:
        subject = "orders" if number % partitions == 0 else f"orders.{number % partitions}"
        result = await client.publish(subject, b"%d" % number, timeout_ms=20_000)
        assert result.outcome == "ok", result


def test_G6_cursors_are_kept_and_a_reading_goes_on_where_it_was(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        client = harness.client
        await client.create_stream(StreamConfig("orders", "orders"))
        assert await client.fetch_cursor("billing", "orders") is None
        assert await client.cursors() == []
        await client.set_cursor("billing", "orders", 0, 3)
        await client.set_cursor("billing", "orders", 0, 2)
        await client.set_cursor("audit", "orders", 0, 7)
        assert await client.fetch_cursor("billing", "orders") == 2
        assert [(one.name, one.offset) for one in await client.cursors()] == [("audit", 7), ("billing", 2)]
        await client.delete_cursor("audit", "orders")
        await client.delete_cursor("audit", "orders")
        assert await client.fetch_cursor("audit", "orders") is None
        assert [one.name for one in await client.cursors("billing")] == ["billing"]
        await publish(client, range(10), 1)
        seen: list[int] = []
        async with await client.resume("billing", "orders", checkpoint_ms=20) as reading:
            async for _, record in reading:
                seen.append(record.offset)
                if record.offset == 6:
                    break
        assert seen == [2, 3, 4, 5, 6]
        assert await client.fetch_cursor("billing", "orders") == 6, "the last one was not done"
        async with await client.resume("billing", "orders", until="end") as reading:
            assert [record.offset async for _, record in reading] == [6, 7, 8, 9]
        assert await client.fetch_cursor("billing", "orders") == 10
        with pytest.raises(CursorSet, match="set by another program"):
            async with await client.resume("billing", "orders", checkpoint_ms=20) as reading:
                await client.set_cursor("billing", "orders", 0, 0)
                await publish(client, range(2), 1)
                async for _ in reading:
                    pass
        await client.delete_stream("orders")
        await client.create_stream(StreamConfig("orders", "orders"))
        assert await client.fetch_cursor("billing", "orders") is None, "this is another stream"
        await cursor_commands(harness)

    with_cluster(tmp_path, 1, story)


async def cursor_commands(harness: Harness) -> None:
    said = "cursor 'audit' in partition 0 of 'orders': offset 4"
    assert (await harness.run("cursor", "set", "audit", "orders", "4")).strip() == said
    assert (await harness.run("cursor", "get", "audit", "orders")).strip() == said
    told = json.loads(await harness.run("cursor", "get", "audit", "orders", "--json"))
    assert told == {"name": "audit", "stream": "orders", "partition": 0, "offset": 4}
    listed = [line.split() for line in (await harness.run("cursor", "ls", "audit")).splitlines()]
    assert listed == [["NAME", "STREAM", "PARTITION", "OFFSET"], ["audit", "orders", "0", "4"]]
    assert "any more" in await harness.run("cursor", "rm", "audit", "orders")
    remedy = await harness.refused("cursor", "get", "audit", "orders")
    assert "liftlog cursor set audit orders OFFSET" in remedy
    assert "has partitions 0 to 0" in await harness.refused(
        "cursor", "set", "audit", "orders", "4", "--partition", "3"
    )
    assert "__cursors" not in await harness.run("stream", "ls")
    assert "__cursors" in await harness.run("stream", "ls", "--all")


async def group_commands(harness: Harness) -> None:
    listed = [line.split() for line in (await harness.run("group", "ls")).splitlines()]
    assert listed[0] == ["NAME", "STREAMS", "MEMBERS", "GENERATION", "LAG"]
    assert listed[1][:3] == ["billing", "orders", "0"] and listed[1][4] == "0"
    shown = (await harness.run("group", "info", "billing")).splitlines()
    assert shown[0].startswith("group 'billing', generation ") and len(shown) == 2 + 4
    told = json.loads(await harness.run("group", "info", "billing", "--json"))
    assert [one["cursor"] for one in told["partitions"]] == [20] * 4
    assert "goes on in 'orders' at earliest" in await harness.run(
        "group", "reset", "billing", "orders", "--to", "earliest"
    )
    assert "has no partition orders/7" in await harness.refused(
        "group", "reset", "billing", "orders", "--to", "3", "--partition", "7"
    )
    assert "say earliest, new or an offset" in await harness.refused(
        "group", "reset", "billing", "orders", "--to", "there"
    )
    assert "goes on" in await harness.run("group", "reset", "billing", "orders", "--to", "new")
    assert "there is no group 'none'" in await harness.refused("group", "info", "none")


class Worker:
    """A member that notes what it was given."""

    def __init__(self, client: Client, name: str = "", session_ms: int = 2000) -> None:
        self.client, self.name, self.session_ms = client, name, session_ms
        self.seen: list[tuple[int, int, int]] = []
        """Partition, offset, generation."""
        self.member: GroupReading | None = None
        self.stopping = False

    async def run(self) -> None:
        async with self.client.group(
            "billing", ["orders"], member=self.name, session_ms=self.session_ms
        ) as member:
            self.member = member
            while not self.stopping:
                try:
                    message = await asyncio.wait_for(anext(member), 0.5)
                except TimeoutError:
                    continue
                self.seen.append((message.partition, message.record.offset, message.generation))

    @property
    def assigned(self) -> list[tuple[str, int]]:
        return [] if self.member is None else self.member.assigned


async def shared(workers: list[Worker], partitions: int) -> None:
    async def so() -> bool:
        parts = [one.assigned for one in workers]
        return sum(map(len, parts)) == partitions and all(parts)

    await until(so, "all partitions shared", 40.0)


def test_members_share_leave_and_are_replaced(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        client = harness.client
        await client.create_stream(StreamConfig("orders", "orders", 4))
        await publish(client, range(40))
        first, second = Worker(client), Worker(client)
        tasks = [asyncio.create_task(first.run())]
        await shared([first], 4)
        tasks.append(asyncio.create_task(second.run()))
        await shared([first, second], 4)
        assert [len(one.assigned) for one in (first, second)] == [2, 2], "no more moved than had to"
        await publish(client, range(40, 80))

        async def done() -> bool:
            return sum(one.lag for one in await client.group_lag("billing")) == 0

        await until(done, "all is done")
        with pytest.raises(GroupRefused, match="is being read by a member"):
            await client.reset_group("billing", "orders", "earliest")
        with pytest.raises(GroupRefused, match="has 2 members: stop them first"):
            await client.delete_group("billing")
        with pytest.raises(GroupRefused, match="name the same streams"):
            await client.create_stream(StreamConfig("other", "other"))
            async with client.group("billing", ["other"]):
                pass
        second.stopping = True
        await tasks.pop()
        await shared([first], 4)
        first.stopping = True
        await tasks.pop()
        given = Counter((partition, offset) for partition, offset, _ in first.seen + second.seen)
        assert len(given) == 80 and set(given.values()) == {1}, "nobody failed: each message once"
        assert await client.groups() == ["billing"]
        await group_commands(harness)
        await client.reset_group("billing", "orders", 5, partition=2)
        lags = {one.partition: one.lag for one in await client.group_lag("billing")}
        assert lags == {0: 0, 1: 0, 2: 15, 3: 0}
        assert "any more" in await harness.run("group", "rm", "billing")
        assert await client.groups() == []

    with_cluster(tmp_path, 1, story)


def test_G3_a_member_that_was_away_is_replaced_and_fenced(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        client = harness.client
        await client.create_stream(StreamConfig("orders", "orders", 2))
        await publish(client, range(20), 2)
        async with client.group("billing", ["orders"], session_ms=1000) as zombie:
            message = await anext(zombie)
            # As a process that is stopped: nothing of it runs, and then all goes on.
            assert zombie._beating is not None
            zombie._beating.cancel()
            worker = Worker(client, session_ms=1000)
            working = asyncio.create_task(worker.run())
            await shared([worker], 2)

            async def done() -> bool:
                return [one.cursor for one in await client.group_lag("billing")] == [10, 10]

            await until(done, "the other one has gone on")
            assert (message.partition, message.record.offset) in {one[:2] for one in worker.seen}
            with pytest.raises(GroupFenced, match="was taken from this member"):
                await zombie.commit()
            worker.stopping = True
            await working
            zombie._beating = None
        assert [one.cursor for one in await client.group_lag("billing")] == [10, 10]

    with_cluster(tmp_path, 1, story)


@pytest.mark.slow
def test_G1_a_group_goes_on_when_its_coordinator_is_killed_again_and_again(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        client = harness.client
        await client.create_stream(CONFIG)
        workers = [Worker(client, name, 4000) for name in ("a", "b", "")]
        tasks = [asyncio.create_task(worker.run()) for worker in workers]
        await shared(workers, 4)
        stored, stopping = 0, False

        async def publishing() -> None:
            nonlocal stored
            for number in count():
                if stopping:
                    return
                part = number % 4
                subject = f"orders.{part}" if part else "orders"
                result = await client.publish(subject, b"%d" % number, timeout_ms=3000)
                stored += result.outcome == "ok"
                await asyncio.sleep(0.002)

        publisher = asyncio.create_task(publishing())
        for _ in range(3):
            goal = sum(len(worker.seen) for worker in workers) + 200

            async def more(goal: int = goal) -> bool:
                return sum(len(worker.seen) for worker in workers) >= goal

            await until(more, "more is done", 60.0)
            leader = await harness.leader("__groups")
            await harness.kill(leader)
            await until(more, "more is done without it", 60.0)
            await harness.start(leader)
            await harness.in_sync("__groups", 3)
            await harness.in_sync("orders", 3)
        stopping = True
        await publisher

        async def done() -> bool:
            return sum(one.lag for one in await client.group_lag("billing")) == 0

        await until(done, "all is done", 60.0)
        for worker in workers:
            worker.stopping = True
        await asyncio.gather(*tasks)
        ends = {one.partition: one.end for one in await client.group_lag("billing")}
        seen = {(partition, offset) for worker in workers for partition, offset, _ in worker.seen}
        assert seen == {(partition, offset) for partition, end in ends.items() for offset in range(end)}
        assert len(seen) >= stored
        owners: dict[tuple[int, int], str] = {}
        for place, worker in enumerate(workers):
            for partition, _, generation in worker.seen:
                owner = owners.setdefault((partition, generation), str(place))
                assert owner == str(place), "a grant has one holder"

    with_cluster(tmp_path, 3, story)
