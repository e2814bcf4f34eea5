"""What publishers and readers of logs were told, and what replicas cut off, while leaders of real nodes were
killed, stopped and cut off (R2, R3, L2, C1, C4)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import msgspec
import pytest

from liftlog.client import Client, RequestFailed, Unreachable
from liftlog.client.streams import key_headers
from liftlog.messages import ERR_COMPACTED, StreamInfo
from liftlog.real.local_cluster import LocalCluster
from liftlog.types import LiftlogError, Record, StreamConfig
from liftlog_jepsen.history import History, HistoryWriter
from liftlog_jepsen.logs import LogRecorder, RecordedReader
from liftlog_jepsen.replicas import ReplicaRecorder
from tests.integration.cluster import Harness, until, with_cluster
from tests.integration.judging import COMPACTED, judge
from tests.integration.proxy import Proxy
from tests.integration.stopping import stop, wake
from tests.jepsen.promise_stories import broken
from tests.jepsen.tampered import read_truncated

pytestmark = [pytest.mark.real, pytest.mark.slow]

KEYS, PAUSE_S = 8, 0.01
QUICK = {
    "compaction_check_ms": 100,
    "replica_lag_max_ms": 1000,
    "replica_probation_ms": 100,
    "replica_slow_ms": 0,
}
HOUSE = StreamConfig("house", "house", 1, 3, 2, dedupe_window_ms=3_600_000)
TABLE = StreamConfig(
    "table",
    "table",
    1,
    3,
    2,
    compact=True,
    segment_records=32,
    dirty_ratio_percent=1,
    tombstone_retention_ms=0,
)


class Apart:
    """Nodes that reach each other over proxies, so that one can be made unreachable. Clients reach all."""

    def __init__(self) -> None:
        self.proxies: dict[int, Proxy] = {}

    def prepare(self, cluster: LocalCluster) -> None:
        for number, address in cluster.peer_addresses.items():
            self.proxies[number] = Proxy(int(address.rpartition(":")[2]))
        peers = {number: f"127.0.0.1:{proxy.port}" for number, proxy in self.proxies.items()}
        for node in cluster.nodes.values():
            node.config = msgspec.structs.replace(node.config, peers=peers, protocol=QUICK)

    def close(self) -> None:
        for proxy in self.proxies.values():
            proxy.close()


class Work:
    """Clients of one log, until they are to stop."""

    def __init__(self, client: Client, info: StreamInfo, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self.client, self.info = client, info
        self.name = info.config.name
        self.recorder = LogRecorder(HistoryWriter(self.name, clock_ns=clock_ns), f"{self.name}/0")
        self.stopping = False
        self.publishing: asyncio.Task[None] | None = None
        self.alone = count()

    async def follow(self, reader: RecordedReader) -> None:
        """Read on from where it is, whatever goes wrong."""
        position = 0
        while not self.stopping:
            try:
                await reader.fetch(position, wait_ms=100)
            except Unreachable:
                continue
            except RequestFailed as error:
                if error.code == ERR_COMPACTED:
                    return
                continue
            position = reader.position
            await asyncio.sleep(PAUSE_S)

    def readers(self) -> list[RecordedReader]:
        """One of each copy, and one that changes its server."""
        read = self.client.reader
        only = [read(self.info, node=node, timeout_ms=500) for node in self.info.partitions[0].replicas]
        anywhere = read(self.info, spread=True, timeout_ms=500)
        return [self.recorder.reader(reader) for reader in (*only, anywhere)]

    async def begin_anew(self) -> None:
        """Another process of the producer takes over from the one that there is, if any."""
        before, self.publishing = self.publishing, asyncio.create_task(self.number("house-7"))
        if before is not None:
            await before

    async def number(self, producer: str) -> None:
        """Send numbered messages, until another process of the producer has taken over."""
        made = self.recorder.publisher(
            lambda told: self.client.publisher(told, producer=producer, window=40, ack_timeout_ms=20_000)
        )
        async with made as publisher:
            for number in count():
                if self.stopping:
                    return
                try:
                    await publisher.send(f"{id(made)} {number}", self.name)
                except LiftlogError:
                    return
                await asyncio.sleep(PAUSE_S)

    async def say_alone(self) -> bool:
        """Send a message for which its leader's word is enough. Whether that was given."""
        value = f"alone {next(self.alone)}"
        result = await self.recorder.publish(
            value,
            lambda: self.client.publish(self.name, value.encode(), ack="leader", timeout_ms=300),
        )
        return result.outcome == "leader"

    async def change(self) -> None:
        """Set keys, and delete them."""
        made = self.recorder.publisher(
            lambda told: self.client.publisher(told, window=20, ack_timeout_ms=3000)
        )
        async with made as publisher:
            for number in count():
                if self.stopping:
                    return
                key = f"key {number * 5 % KEYS}"
                deletes = number % 7 == 6
                value = None if deletes else f"{key} is {number}"
                await publisher.send(value, self.name, key_headers(key, deletes), record_key=key)
                await asyncio.sleep(PAUSE_S)

    @property
    def known(self) -> int:
        """Up to where anybody was told of what lies there."""
        return max((offset for offset, _ in self.recorder.contents), default=-1)

    async def more(self, records: int) -> None:
        goal = self.known + records

        async def reached() -> bool:
            return self.known >= goal

        await until(reached, f"{records} more records of {self.name}", 60.0)

    async def final_read(self, node: int, end: int) -> list[Record]:
        """Of one copy. Where compaction was faster it begins again, as somebody else."""
        while True:
            reader = self.client.reader(self.info, node=node, timeout_ms=20_000)
            try:
                return await self.recorder.final_read(reader, end)
            except RequestFailed as error:
                if error.code != ERR_COMPACTED:
                    raise

    async def end(self) -> int:
        return await self.client.reader(self.info).offset("new")


@asynccontextmanager
async def running(house: Work, table: Work) -> AsyncIterator[None]:
    """All clients at work."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(table.change())
        for work in (house, table):
            for reader in work.readers():
                tasks.create_task(work.follow(reader))
        yield
        house.stopping = table.stopping = True
    assert house.publishing is not None
    await house.publishing


async def lose_a_tail(cluster: Harness, house: Work, apart: Apart) -> None:
    """A leader that nobody reaches stores what no other copy has, and says so to who asks for its word alone;
    then it is killed."""
    leader = await cluster.leader("house")
    apart.proxies[leader].cut()
    alone = 0
    while alone < 5:
        alone += await house.say_alone()
    await cluster.kill(leader)
    apart.proxies[leader].mend()
    await house.more(100)
    await cluster.start(leader)
    await cluster.in_sync("house", 3)


async def be_cut_off(cluster: Harness, house: Work, apart: Apart) -> None:
    """A follower that nobody reaches, and whom readers ask, falls behind, and comes back."""
    leader = await cluster.leader("house")
    away = next(node for node in cluster.running() if node != leader)
    apart.proxies[away].cut()
    await cluster.in_sync("house", 2)
    await house.more(100)
    apart.proxies[away].mend()
    await cluster.in_sync("house", 3)


async def stand_still(cluster: Harness, work: Work) -> None:
    """A leader that is stopped for longer than its session."""
    leader = await cluster.leader(work.name)
    await stop(cluster, leader)
    try:

        async def replaced() -> bool:
            return (await cluster.partition(work.name)).leader not in (0, leader)

        await until(replaced, f"another leader of {work.name}")
        await work.more(50)
    finally:
        wake(cluster, leader)
    await cluster.in_sync(work.name, 3)


async def go_wrong(cluster: Harness, house: Work, table: Work, apart: Apart) -> None:
    """One fault after the other, while clients are at work."""
    await house.begin_anew()
    await house.more(100)
    await be_cut_off(cluster, house, apart)
    await lose_a_tail(cluster, house, apart)
    await house.begin_anew()
    await house.more(100)
    await stand_still(cluster, house)
    leader = await cluster.leader("table")
    await cluster.kill(leader)
    await table.more(100)
    await cluster.start(leader)
    await cluster.in_sync("table", 3)


async def read_all(works: list[Work]) -> None:
    """Each copy, to its end."""
    for work in works:
        end = await work.end()
        for node in sorted(work.info.partitions[0].replicas):
            found = await work.final_read(node, end)
            if work.info.config.compact:
                assert len(found) < end / 2, "compaction took what is old"


def run_and_judge(folder: Path, capsys: pytest.CaptureFixture[str], rounds: int) -> list[History]:
    """The histories of both logs, of which nothing is wrong."""
    apart = Apart()
    works: list[Work] = []

    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        works.extend(
            [Work(cluster.client, await cluster.client.create_stream(one)) for one in (HOUSE, TABLE)]
        )
        house, table = works
        async with running(house, table):
            for _ in range(rounds):
                await go_wrong(cluster, house, table, apart)
        await read_all(works)

    try:
        with_cluster(folder, 3, story, apart.prepare)
    finally:
        apart.close()
    histories = [closed(work, folder / "traces") for work in works]
    judge(histories[0], folder / "house", capsys)
    judge(histories[1], folder / "table", capsys, COMPACTED)
    return histories


@pytest.mark.usefixtures("shared_session")
def test_R3_L2_C4_what_logs_told_while_their_leaders_went_is_judged_on_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    histories = run_and_judge(tmp_path, capsys, 1)
    of_house, of_table = [Counter(m.f for op in one.ops() for m in op.mops) for one in histories]
    assert of_house["truncate"] > 0 and of_house["producer"] > 500 and of_house["hw"] > 300
    assert of_table["tombstone"] > 50 and of_table["record-key"] > 300
    runs = {mop.epoch for op in histories[0].ops() for mop in op.mops if mop.f == "producer"}
    assert len(runs) >= 2, "another process took over"
    # Of the others the same is shown with played and with simulated runs.
    assert {row["anomaly"] for row in broken(read_truncated(histories[0]))} == {"read-truncated"}


@pytest.mark.nightly
@pytest.mark.usefixtures("shared_session")
def test_R3_L2_C4_what_logs_told_while_it_went_on_and_on_is_judged_on_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    house, _ = run_and_judge(tmp_path, capsys, 4)
    assert sum(mop.f == "truncate" for op in house.ops() for mop in op.mops) >= 4


def closed(work: Work, traces: Path) -> History:
    """With what the traces of the nodes say of the copies."""
    writer, recorder = work.recorder.writer, work.recorder
    replicas = ReplicaRecorder(
        writer, recorder.key, (work.info.id, 0), recorder.contents, first_process=100_000
    )
    for path in sorted(traces.iterdir()):
        replicas.trace(path)
    return writer.close()
