"""How long do partitions of a consumer group wait when a member dies? And what do its members cost at rest?

One node, or three, a stream, and a group whose members share its partitions: most of them in a few processes,
one in a process of its own. Each partition gets messages all the time. In each round that process gets
SIGKILL, and what is told is when the first message of each of its partitions was in another member's hands.
Then it is replaced, and the next round begins when the group is whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from liftlog.bench.cluster import wait_for_level
from liftlog.bench.group_members import MemberWork
from liftlog.bench.programs import program
from liftlog.bench.usage import usage_of
from liftlog.client.client import Client
from liftlog.core.metadata.subjects import partition_subject
from liftlog.groups.state import GroupState
from liftlog.groups.streams import GROUPS
from liftlog.local import create_stream
from liftlog.real.local_cluster import LocalCluster
from liftlog.scratch import Scratch
from liftlog.types import LiftlogError, StreamConfig

STREAM = "work"
GROUP = "workers"
MEMBERS_IN_A_PROCESS = 7
EVERY_S = 0.1
"""How often each partition gets a message."""
WHOLE_WITHIN_S = 120.0
POLL_S = 0.05
AIM_S = 1.0
"""So much later than a session after the death all its partitions are worked on again (issue 16)."""


@dataclass(frozen=True, slots=True)
class GroupSize:
    members: int
    partitions: int
    session_ms: int
    replicas: int


@dataclass(frozen=True, slots=True)
class GroupDeath:
    """One round: how many partitions the member had, and how long after the kill the first and the last of
    them had a message in another one's hands."""

    partitions: int
    first_s: float
    last_s: float


@dataclass(slots=True)
class GroupFigures:
    """`formed_s`: from the start of the processes until every partition was a member's. `writes`: of the
    group's state, a second, at rest; `cpu_share`: of one core, of the nodes and their NATS meanwhile, with
    the messages of the partitions."""

    formed_s: float = 0.0
    writes: float = 0.0
    cpu_share: float = 0.0
    deaths: list[GroupDeath] = field(default_factory=list)


class GroupProcess:
    """A process with members, and what it has told."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.joined: list[str] = []
        self.grants: dict[tuple[int, int], float] = {}
        """(Partition, generation) -> when its first message came."""
        self.error = ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told: dict[str, Any] = json.loads(line)
            if "joined" in told:
                self.joined = told["joined"]
            elif "error" in told:
                self.error = told["error"]
            else:
                self.grants[told["partition"], told["generation"]] = told["at_s"]

    def check(self) -> None:
        """Raises LiftlogError if it has ended."""
        if self.error or self.process.poll() is not None:
            raise LiftlogError(f"a process with members has ended: {self.error or 'it does not say why'}")


class GroupBench:
    """The group, and who publishes to its partitions."""

    def __init__(self, cluster: LocalCluster, size: GroupSize, stack: ExitStack) -> None:
        self._cluster = cluster
        self._size = size
        self._stack = stack
        self._steady: list[GroupProcess] = []

    def _start(self, members: int) -> GroupProcess:
        work = MemberWork(
            url=self._cluster.nats_url,
            cluster=self._cluster.cluster,
            secret_file=str(self._cluster.client_secret_file),
            group=GROUP,
            stream=STREAM,
            session_ms=self._size.session_ms,
            members=members,
        )
        return GroupProcess(
            self._stack.enter_context(program("liftlog.bench.group_members", asdict(work)))
        )

    async def run(
        self, client: Client, deaths: int, rest_s: float, show: Callable[[str], None]
    ) -> GroupFigures:
        figures = GroupFigures()
        began_s = time.monotonic()
        left = self._size.members - 1
        while left:
            some = min(left, MEMBERS_IN_A_PROCESS)
            self._steady.append(self._start(some))
            left -= some
        victim = self._start(1)
        show(f"{self._size.members} members join")
        await self._whole(client, victim)
        figures.formed_s = time.monotonic() - began_s
        async with self._publishing(client):
            show("at rest")
            await self._at_rest(client, rest_s, figures)
            for turn in range(deaths):
                show(f"death {turn + 1} of {deaths}")
                figures.deaths.append(await self._death(client, victim))
                victim = self._start(1)
                await self._whole(client, victim)
        return figures

    async def _whole(self, client: Client, victim: GroupProcess) -> GroupState:
        """Wait until all members are there, and each partition is one's. Raises LiftlogError."""
        deadline_s = time.monotonic() + WHOLE_WITHIN_S
        while True:
            for process in (*self._steady, victim):
                process.check()
            state = GroupState()
            if all(process.joined for process in (*self._steady, victim)):
                state = await client.group_state(GROUP)
            owned = [share for share in state.shares.values() if share.owner and share.owner == share.target]
            if len(state.members) == self._size.members and len(owned) == self._size.partitions:
                return state
            if time.monotonic() > deadline_s:
                raise LiftlogError(
                    f"after {WHOLE_WITHIN_S:.0f} s {len(owned)} of {self._size.partitions} partitions have "
                    f"an owner, and {len(state.members)} of {self._size.members} members are there: take "
                    "fewer, or longer sessions"
                )
            await asyncio.sleep(POLL_S)

    @asynccontextmanager
    async def _publishing(self, client: Client) -> AsyncIterator[None]:
        """Each partition gets a message every EVERY_S."""

        async def publish() -> None:
            async with client.publisher(lambda _: None, ack="none") as publisher:
                while True:
                    for number in range(self._size.partitions):
                        await publisher.send(number, partition_subject(STREAM, number), b"x" * 64)
                    await asyncio.sleep(EVERY_S)

        task = asyncio.create_task(publish())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _at_rest(self, client: Client, rest_s: float, figures: GroupFigures) -> None:
        register = client.reader(await client.stream(GROUPS))
        nats = [self._cluster.nats.pid] if self._cluster.nats is not None else []
        pids = nats + [node.pid for node in self._cluster.nodes.values()]
        before, cpu_s, began_s = await register.offset("new"), usage_of(pids).cpu_seconds, time.monotonic()
        await asyncio.sleep(rest_s)
        seconds = time.monotonic() - began_s
        figures.writes = (await register.offset("new") - before) / seconds
        figures.cpu_share = (usage_of(pids).cpu_seconds - cpu_s) / seconds

    async def _death(self, client: Client, victim: GroupProcess) -> GroupDeath:
        """Kill the member, and wait until each of its partitions is worked on. Raises LiftlogError."""
        state = await client.group_state(GROUP)
        (dead,) = victim.joined
        lost = {name: share.granted for name, share in state.shares.items() if share.owner == dead}
        began_s = time.monotonic()
        victim.process.kill()
        wanted = {int(name.rpartition("/")[2]): granted for name, granted in lost.items()}
        deadline_s = began_s + self._size.session_ms / 1000 + WHOLE_WITHIN_S
        while True:
            again: dict[int, float] = {}
            for process in self._steady:
                process.check()
                for (partition, generation), at_s in list(process.grants.items()):
                    if generation > wanted.get(partition, generation):
                        again[partition] = min(again.get(partition, at_s), at_s)
            if len(again) == len(wanted):
                times = [at_s - began_s for at_s in again.values()]
                return GroupDeath(len(wanted), min(times), max(times))
            if time.monotonic() > deadline_s:
                raise LiftlogError(f"{len(wanted) - len(again)} partitions of a dead member are nobody's")
            await asyncio.sleep(POLL_S)


def measure_group(
    scratch: Scratch, size: GroupSize, deaths: int, rest_s: float, show: Callable[[str], None]
) -> GroupFigures:
    """Raises LiftlogError."""
    show("starting nodes")
    cluster = LocalCluster(scratch.folder / "groups", size.replicas)
    scratch.enter_context(cluster)
    wait_for_level(cluster)
    create_stream(cluster, StreamConfig(STREAM, STREAM, size.partitions, replication_factor=size.replicas))

    async def run() -> GroupFigures:
        secret = cluster.client_secret_file
        with ExitStack() as stack:
            async with await Client.connect(
                cluster.nats_url, cluster=cluster.cluster, secret_file=secret
            ) as client:
                return await GroupBench(cluster, size, stack).run(client, deaths, rest_s, show)

    return asyncio.run(run())
