"""What members of groups and processors were told while leaders of real nodes were killed (G1-G4, L10)."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import count
from pathlib import Path

import pytest

from liftlog.client import Client, ProcessorFenced, Unreachable
from liftlog.groups.state import GroupFenced
from liftlog.types import LiftlogError, Record, StreamConfig
from liftlog_jepsen.consuming import ConsumerRecorder
from liftlog_jepsen.grouping import GroupRecorder, RecordedMember
from liftlog_jepsen.history import History, HistoryWriter
from liftlog_jepsen.processing import ProcessorRecorder, RecordedProcessor
from tests.integration.cluster import Harness, until, with_cluster
from tests.integration.judging import judge

pytestmark = pytest.mark.real

MORE = 40


def facts_of(history: History) -> Counter[str]:
    """How many of each kind are known to be so."""
    return Counter(mop.f for op in history.ops() if op.outcome == "ok" for mop in op.mops)


async def publish_one(log: ConsumerRecorder, client: Client, subject: str, number: int) -> None:
    await log.publish(f"{number}", lambda: client.publish(subject, b"%d" % number, timeout_ms=10_000))


async def final_read(log: ConsumerRecorder, there: dict[int, str]) -> None:
    async def read() -> dict[int, str]:
        return there

    await log.final_read(read)


class Members:
    """Programs of one group that commit each message."""

    def __init__(self, client: Client, recorder: GroupRecorder) -> None:
        self.client, self.recorder = client, recorder
        self.committed = 0
        self.stopping = False
        self.fenced = 0

    async def run(self, stalls: asyncio.Event | None = None) -> None:
        """`stalls`: when it is set, nothing of this one is heard for two sessions, with a message in hand."""
        reading = self.client.group("billing", ["orders"], session_ms=1000)
        async with self.recorder.member(reading) as member:
            while not self.stopping:
                try:
                    async with asyncio.timeout(0.5):
                        await anext(member)
                except TimeoutError:
                    continue
                if stalls is not None and stalls.is_set() and reading._beating is not None:
                    reading._beating.cancel()
                    await asyncio.sleep(2.5)
                    reading._beating = None
                    await self.commit(member)
                    return
                await self.commit(member)

    async def commit(self, member: RecordedMember) -> None:
        try:
            await member.commit()
            self.committed += 1
        except GroupFenced:
            self.fenced += 1

    async def more(self) -> None:
        goal = self.committed + MORE

        async def reached() -> bool:
            return self.committed >= goal

        await until(reached, f"{MORE} more messages are committed", 60.0)


@pytest.mark.slow
@pytest.mark.usefixtures("shared_session")
def test_G3_what_members_were_told_while_coordinators_were_killed_is_judged_on_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    histories: list[History] = []

    async def story(cluster: Harness) -> None:
        client, stalls = cluster.client, asyncio.Event()
        await client.create_stream(StreamConfig("orders", "orders", 2, 3, min_insync_replicas=2))
        writer = HistoryWriter("groups")
        members = Members(client, GroupRecorder(writer, "billing"))
        firsts = {"orders/0": 1000, "orders/1": 2000}
        logs = [ConsumerRecorder(writer, log, first_process=first) for log, first in firsts.items()]
        publishing = True

        async def publish() -> None:
            for number in count():
                if not publishing:
                    return
                await publish_one(logs[number % 2], client, ("orders", "orders.1")[number % 2], number)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(publish())
            tasks.create_task(members.run())
            tasks.create_task(members.run(stalls))
            for _ in range(2):
                await members.more()
                await members.recorder.state(lambda: client.group_state("billing"))
                leader = await cluster.leader("__groups")
                await cluster.kill(leader)
                await cluster.start(leader)
                await cluster.in_sync("__groups", 3)
            await members.more()
            stalls.set()

            async def replaced() -> bool:
                return members.fenced > 0

            await until(replaced, "who was away is fenced", 60.0)
            members.stopping, publishing = True, False
        await members.recorder.state(lambda: client.group_state("billing"))
        for part, log in enumerate(logs):
            await final_read(log, await cluster.read("orders", cluster.running()[0], index=part))
        histories.append(writer.close())

    with_cluster(tmp_path, 3, story)
    judge(histories[0], tmp_path, capsys)
    facts = facts_of(histories[0])
    assert facts["commit"] >= 3 * MORE and facts["own"] >= 2 and facts["fetch-commit"] >= 3
    fenced = [op for op in histories[0].ops() if op.error is not None and "GroupFenced" in op.error]
    assert fenced, "the one of whom nothing was heard"


class Processors:
    """Processes of one processor, of which the newest goes on."""

    def __init__(self, client: Client, recorder: ProcessorRecorder) -> None:
        self.client, self.recorder = client, recorder
        self.replaced = 0
        self.position = 0

    async def run(self, until_there: int) -> None:
        """Process up to there, opened anew as often as it takes."""
        while self.position < until_there:
            opened = self.client.processor(
                "totals", source="sales", sink="bills", begin=0, records_max=5, patience_ms=10_000
            )
            try:
                async with self.recorder.opened(opened, begin=0) as processor:
                    await self._work(processor, until_there)
            except ProcessorFenced:
                self.replaced += 1
                return
            except (Unreachable, LiftlogError):
                continue

    async def _work(self, processor: RecordedProcessor, until_there: int) -> None:
        async for batch in processor:
            outputs = [b"bill " + (one.value or b"") for one in batch.records if one.offset % 3]
            await batch.commit(outputs)
            self.position = batch.next
            if self.position >= until_there:
                return
            await asyncio.sleep(0.01)


@pytest.mark.slow
@pytest.mark.usefixtures("shared_session")
def test_L10_what_processors_stored_while_leaders_were_killed_is_judged_on_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    histories: list[History] = []

    async def story(cluster: Harness) -> None:
        client = cluster.client
        await cluster.newest_level()
        await client.create_stream(StreamConfig("sales", "sales", 1, 3, 2))
        await client.create_stream(StreamConfig("bills", "bills", 1, 3, 2, dedupe_window_ms=3_600_000))
        writer = HistoryWriter("processors")
        sales = ConsumerRecorder(writer, "sales/0")
        for number in range(300):
            await publish_one(sales, client, "sales", number)
        processors = Processors(client, ProcessorRecorder(writer, "sales/0", "bills/0", first_process=1000))
        for share in (1, 2, 3):
            first = asyncio.create_task(processors.run(100 * share))

            async def half_way(share: int = share) -> bool:
                return processors.position > 100 * share - 60

            await until(half_way, "half of it is processed", 60.0)
            leader = await cluster.leader("bills")
            await cluster.kill(leader)
            # Another process, which ends the first one, wherever it is.
            await processors.run(100 * share)
            await first
            await cluster.start(leader)
            await cluster.in_sync("bills", 3)
        assert processors.replaced
        info = await client.stream("bills")
        for node in cluster.running():

            async def read(node: int = node) -> list[Record]:
                found = client.read_all(info, 0, node=node, timeout_ms=20_000)
                return [record async for records in found for record in records]

            there = await processors.recorder.final_read(read)
            # A record without a value only says how far the processor is.
            values = [record.value for record in there if record.value]
            assert values == [b"bill %d" % number for number in range(300) if number % 3]
        histories.append(writer.close())

    with_cluster(tmp_path, 3, story)
    judge(histories[0], tmp_path, capsys)
    facts = facts_of(histories[0])
    assert facts["commit"] >= 50 and facts["join"] >= 4
    named = {mop.offset for op in histories[0].ops() for mop in op.mops if mop.f == "source"}
    assert named == set(range(300)), "whether it was told or not"
