"""Cursors and consumer groups on real nodes whose leaders are killed (G1-G6)."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from itertools import count
from pathlib import Path

import pytest
import trio

from liftlog.client import Client, CursorSet, GroupReading, ReadingProgress
from liftlog.client.on_trio import TrioClient
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
                    async with asyncio.timeout(0.5):
                        message = await anext(member)
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


def test_members_of_the_command_line_share_and_say_what_is_wrong(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        await harness.client.create_stream(StreamConfig("orders", "orders", 2))
        await publish(harness.client, range(12), 2)
        sub = ("sub", "orders", "--group", "billing")
        lines = (await harness.run(*sub, "--count", "5", "--json")).splitlines()
        rest = (await harness.run(*sub, "--member", "house-7", "--count", "7", "--raw")).split()
        shown = [json.loads(line)["value"] for line in lines] + rest
        assert sorted(map(int, shown)) == list(range(12)), "the last one of five was done too"
        assert [one.lag for one in await harness.client.group_lag("billing")] == [0, 0]
        assert (await harness.client.group_state("billing")).members == {}, "who ends says so"
        for words, said in {
            ("--from", "new"): "--from is not for --group",
            ("--partition", "1"): "--partition is not for --group",
            ("--filter", "orders"): "--filter is not for --group",
            ("--replica", "1"): "--replica is not for --group",
            ("--session", "10"): "--session 10ms is too short; give at least 1s",
        }.items():
            assert said in await harness.refused(*sub, *words)
        assert "name it with --group NAME" in await harness.refused("sub", "orders", "--member", "a")

    with_cluster(tmp_path, 1, story)


def test_who_reads_is_told_how_far_that_is_and_a_trio_program_is_a_member_too(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        client = harness.client
        await client.create_stream(StreamConfig("orders", "orders", 2))
        await publish(client, range(10), 2)
        told: list[ReadingProgress] = []
        async with await client.read("orders", 1, on_progress=told.append) as reading:
            assert len([record async for _, record in reading]) == 5
        assert told[-1] == ("orders", 1, 5, 5) and told[-1].lag == 0
        told.clear()
        resuming = client.resume("audit", "orders", 0, checkpoint_ms=10**6, on_progress=told.append)
        async with await resuming as found:
            async for _, record in found:
                if record.offset == 3:
                    break
        assert told == [("orders", 0, 3, 5)] and told[0].lag == 2
        told.clear()
        url = harness.cluster.nats_url

        async def in_trio() -> list[tuple[int, int]]:
            seen: list[tuple[int, int]] = []
            async with (
                TrioClient.connect(url, cluster=client.cluster) as trio_client,
                trio_client.group("billing", ["orders"], session_ms=1000, on_progress=told.append) as member,
            ):
                assert member.assigned == [("orders", 0), ("orders", 1)] and member.generation == 2
                async for message in member:
                    seen.append((message.partition, message.record.offset))
                    if len(seen) == 9:
                        await member.commit()
                        break
                async with trio_client.resume("audit", "orders", 0, until="end") as resumed:
                    assert [record.offset async for _, record in resumed] == [3, 4]
                    await resumed.checkpoint()
                assert await trio_client.fetch_cursor("audit", "orders") == 5
                return seen

        seen = await asyncio.to_thread(trio.run, in_trio)
        assert len(set(seen)) == 9
        lags = [one.lag for one in await client.group_lag("billing")]
        assert sum(lags) == 1, "the ninth was committed, the tenth not"
        last = {one.partition: one for one in told}
        assert sorted(one.lag for one in last.values()) == [0, 1] and {one.end for one in told} == {5}

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
