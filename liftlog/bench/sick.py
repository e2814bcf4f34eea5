"""Is one sick node everybody's latency? Three nodes, an open loop, and a minute in which one of them is sick.

    follower's disk   each sync of one follower's disk takes `SYNC_MS` longer
    leader's disk     the same of the node that leads, and is the controller, too
    follower stops    one follower is stopped for 2 s of every 5

A case has a cluster of its own: some seconds before, the sickness, some seconds after. What counts is the
latency, from the time at which a message was due, of what was due from the third second of the sickness on,
beside what was due before; and the longest time without an ack. Who is in sync and who leads is told by the
group's record of the partition, which is asked ten times a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from typing import Any

from liftlog.bench.openloop import OpenLoad
from liftlog.bench.sicknode import SickNode, with_slow_disks
from liftlog.client import Client, RequestFailed, Unreachable
from liftlog.local import create_stream, wait_in_sync
from liftlog.messages import PartitionInfo
from liftlog.real.local_cluster import LocalCluster
from liftlog.scratch import Scratch
from liftlog.terminal import Activity
from liftlog.types import LiftlogError, StreamConfig

NODES = 3
STREAM = StreamConfig("sick", "bench.sick", replication_factor=NODES, min_insync_replicas=2)
CASES = ("follower's disk", "leader's disk", "follower stops")
SYNC_MS = 40.0
"""A sync of a healthy disk takes about 0.4 ms."""
STOPPED_S, EVERY_S = 2.0, 5.0
SETTLE_S = 2.0
"""At the start everything is new: code, caches, connections."""
LEARNING_S = 2.0
LOOK_S = 0.1
WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class SickCase:
    """What is measured. Seconds, and messages a second."""

    name: str
    before_s: float
    sick_s: float
    after_s: float
    rate: float
    sync_ms: float = SYNC_MS


@dataclass(frozen=True, slots=True)
class SickFinding:
    """One case. Latencies in milliseconds; `during` begins `LEARNING_S` after the sickness did."""

    case: str
    node: int
    before: dict[str, float]
    first: dict[str, float]
    during: dict[str, float]
    after: dict[str, float]
    longest_gap_ms: float
    longest_gap_from_s: float
    """Seconds after the beginning of the sickness."""
    unanswered: int
    refused: int
    elections: int
    isr_changes: int
    history: list[tuple[float, int, list[int]]]
    """Who led and who was in sync, from so many seconds after the beginning of the sickness on."""

    @property
    def ratio(self) -> float:
        return self.during["p99"] / self.before["p99"]


def measure_case(scratch: Scratch, case: SickCase, number: int, activity: Activity) -> SickFinding:
    """Run one case. Raises LiftlogError when the cluster or the generator gives up."""
    with contextlib.ExitStack() as stack:
        cluster = LocalCluster(scratch.folder / f"sick-{number}", NODES)
        disks = with_slow_disks(cluster)
        stack.enter_context(cluster)
        create_stream(cluster, STREAM)
        wait_in_sync(cluster, STREAM.name)
        return asyncio.run(_case(cluster, disks, case, activity))


class Record:
    """What the group says of the partition, as time goes by."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.seen: list[tuple[float, PartitionInfo]] = []

    async def look(self) -> PartitionInfo | None:
        """Ask once; None if nobody knows just now."""
        try:
            partition = (await self._client.stream(STREAM.name, timeout_ms=1000)).partitions[0]
        except (RequestFailed, Unreachable):
            return None
        if not self.seen or self.seen[-1][1].version != partition.version:
            self.seen.append((asyncio.get_running_loop().time(), partition))
        return partition

    async def keep(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)


async def _case(
    cluster: LocalCluster, disks: dict[int, SickNode], case: SickCase, activity: Activity
) -> SickFinding:
    secret = cluster.client_secret_file
    loop = asyncio.get_running_loop()
    async with await Client.connect(cluster.nats_url, cluster=cluster.cluster, secret_file=secret) as client:
        record = Record(client)
        leads = await _offices(client, record, case)
        sick = leads if case.name == "leader's disk" else leads % NODES + 1
        activity.show(f"{case.name}: before")
        begins_s = SETTLE_S + case.before_s
        ends_s = begins_s + case.sick_s
        windows = [
            [SETTLE_S, begins_s],
            [begins_s, begins_s + LEARNING_S],
            [begins_s + LEARNING_S, ends_s],
            [ends_s + LEARNING_S, ends_s + case.after_s],
        ]
        load = OpenLoad(
            port=int(cluster.nats_url.rpartition(":")[2]),
            subject=STREAM.subject,
            stream=STREAM.name,
            rate=case.rate,
            seconds=ends_s + case.after_s,
            backlog_s=30.0,
            tolerant=True,
            timeline=True,
            windows=windows,
        )
        async with _generator(load) as generator, _running(record.keep()):
            await _load_runs(client, record)
            started_s = loop.time()
            await asyncio.sleep(begins_s)
            activity.show(f"{case.name}: node {sick} is sick for {case.sick_s:g} s")
            sick_s = loop.time()
            before = await _at_once(record)
            await _be_sick(disks[sick], case)
            activity.show(f"{case.name}: after")
            after = await _at_once(record)
            told, errors = await generator.communicate()
        found: dict[str, Any] = json.loads(told) if told else {"error": errors.decode()[-500:]}
    if "error" in found:
        raise LiftlogError(f"the load generator gave up: {found['error']}")
    moved = (after.epoch - before.epoch, after.version - before.version)
    history = [(round(at_s - sick_s, 1), seen.leader, list(seen.isr)) for at_s, seen in record.seen]
    return _finding(case, found, sick_s - started_s, node=sick, moved=moved, history=history)


def _finding(
    case: SickCase,
    found: dict[str, Any],
    begins_s: float,
    *,
    node: int,
    moved: tuple[int, int],
    history: list[tuple[float, int, list[int]]],
) -> SickFinding:
    """`moved`: by how much epoch and version of the record have risen meanwhile."""
    elections, changes = moved
    gaps = [
        (slot["gap_ms"], slot["at_s"] - begins_s)
        for slot in found["timeline"]
        if begins_s - 0.2 <= slot["at_s"] <= begins_s + case.sick_s
    ]
    gap_ms, gap_s = max(gaps)
    latency = [window["latency_ms"] for window in found["windows"]]
    return SickFinding(
        case=case.name,
        node=node,
        before=latency[0],
        first=latency[1],
        during=latency[2],
        after=latency[3],
        longest_gap_ms=gap_ms,
        longest_gap_from_s=gap_s,
        unanswered=found["unanswered"],
        refused=found["refused"],
        elections=elections,
        isr_changes=changes - elections,
        history=history,
    )


async def _be_sick(disk: SickNode, case: SickCase) -> None:
    """For as long as the case says."""
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + case.sick_s
    if case.name != "follower stops":
        disk.slow(case.sync_ms)
        await asyncio.sleep(case.sick_s)
        disk.slow(0)
        return
    try:
        while (begun_s := loop.time()) < ends_s:
            disk.node.send(signal.SIGSTOP)
            await asyncio.sleep(min(STOPPED_S, ends_s - begun_s))
            disk.node.send(signal.SIGCONT)
            await asyncio.sleep(max(0.0, min(begun_s + EVERY_S, ends_s) - loop.time()))
    finally:
        disk.node.send(signal.SIGCONT)


@contextlib.asynccontextmanager
async def _generator(load: OpenLoad) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "liftlog.bench.openloop",
        json.dumps(asdict(load)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@contextlib.asynccontextmanager
async def _running(work: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _offices(client: Client, record: Record, case: SickCase) -> int:
    """Who leads. The controller is the sick node where that is the leader, else the leader as well, so that
    no fail-over of the metadata group is measured.
    """

    async def arranged() -> int:
        partition = await record.look()
        status = await client.status(timeout_ms=1000)
        if partition is None or not partition.ready or len(partition.isr) < NODES:
            return 0
        if status.controller == partition.leader:
            return partition.leader
        if status.controller:
            await client.transfer_controller(partition.leader, timeout_ms=1000)
        return 0

    return int(await _until(arranged, "the leader is the controller"))


async def _load_runs(client: Client, record: Record) -> None:
    """The first messages are stored."""

    async def stored() -> bool:
        status = await client.status(timeout_ms=1000)
        return any(copy.leo > 0 for copy in status.replicas)

    await _until(stored, "the load generator's first message is stored", 0.01)


async def _at_once(record: Record) -> PartitionInfo:
    return await _until(record.look, "the record of the partition")  # type: ignore[no-any-return]


async def _until(condition: Any, what: str, every_s: float = 0.05) -> Any:
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + WAIT_S
    while loop.time() < deadline_s:
        with contextlib.suppress(RequestFailed, Unreachable):
            if value := await condition():
                return value
        await asyncio.sleep(every_s)
    raise LiftlogError(f"not within {WAIT_S:.0f} s: {what}")
