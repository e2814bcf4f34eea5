"""How long do writes stop when the node that leads is stopped in an orderly way? Kills: `failover.py`.

Three nodes, one stream on all of them, a publisher that sends a message every few milliseconds and sends
again what was not acknowledged. In each round the partition's leader gets SIGTERM; in every second round it
is the controller as well. What is told of a round is the longest time between two acks around the signal.
Then the node is started again, and the next round begins when its copy is back in sync.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import statistics
from dataclasses import dataclass

from liftlog.bench.offices import NODES, WAIT_S, arrange, whole
from liftlog.client import Client, PublishResult
from liftlog.real.local_cluster import LocalCluster
from liftlog.scratch import Scratch
from liftlog.terminal import Activity
from liftlog.types import LiftlogError, StreamConfig

STREAM = StreamConfig("handover", "bench.handover", replication_factor=3)
INTERVAL_S = 0.002
"""Between two messages of the publisher."""
RETRY_S = 0.01
"""How long a message that was refused waits until it is sent again."""
ACK_TIMEOUT_MS = 250
"""A message without an answer is sent again after so long."""
WINDOW = 5000
BEFORE_S = 0.5
"""Acks are looked at from so long before the signal on."""
QUIET_S = 1.0
"""A round is over when the writes have gone on for so long after the process has ended."""


@dataclass(frozen=True, slots=True)
class Stop:
    """One round. Times in milliseconds."""

    node: int
    controller: bool
    """Whether the node was the controller, too."""
    gap_ms: float
    """The longest time between two acks around the signal."""
    usual_ms: float
    """The longest one in the half second before it."""
    exit_ms: float
    """From the signal to the end of the process."""
    refused: int
    """Messages that found nobody and were sent again."""
    unknown: int
    """Messages of which the publisher did not hear within its timeout: they may be stored twice."""


def measure_stops(scratch: Scratch, rounds: int, activity: Activity) -> list[Stop]:
    """Run the rounds. Raises LiftlogError when the cluster does not come back."""
    with LocalCluster(scratch.folder / "handover", NODES) as cluster:
        return asyncio.run(_rounds(cluster, rounds, activity))


def summary_of(stops: list[Stop]) -> dict[str, float]:
    """Median and maximum of what was measured."""
    gaps = [stop.gap_ms for stop in stops]
    return {
        "gap_p50_ms": statistics.median(gaps),
        "gap_max_ms": max(gaps),
        "usual_max_ms": max(stop.usual_ms for stop in stops),
        "exit_p50_ms": statistics.median(stop.exit_ms for stop in stops),
        "unknown": sum(stop.unknown for stop in stops),
    }


async def _rounds(cluster: LocalCluster, rounds: int, activity: Activity) -> list[Stop]:
    stops = []
    secret = cluster.client_secret_file
    async with await Client.connect(cluster.nats_url, cluster=cluster.cluster, secret_file=secret) as client:
        await client.create_stream(STREAM, timeout_ms=30_000)
        async with Pulse(client) as pulse:
            for turn in range(rounds):
                activity.show(f"round {turn + 1} of {rounds}")
                leader = await whole(client, STREAM.name)
                controller = await arrange(client, leader, both=turn % 2 == 1)
                stops.append(await _stop(cluster, pulse, leader, controller == leader))
                await asyncio.to_thread(cluster.nodes[leader].launch)
                await asyncio.to_thread(cluster.nodes[leader].wait_ready)
    return stops


async def _stop(cluster: LocalCluster, pulse: Pulse, leader: int, is_controller: bool) -> Stop:
    loop = asyncio.get_running_loop()
    await pulse.flowing(BEFORE_S + QUIET_S)
    refused, unknown = pulse.refused, pulse.unknown
    node = cluster.nodes[leader]
    signalled_s = loop.time()
    node.send(signal.SIGTERM)
    while node.running:
        await asyncio.sleep(0.001)
    ended_s = loop.time()
    await asyncio.to_thread(node.wait)
    await pulse.flowing(QUIET_S)
    return Stop(
        node=leader,
        controller=is_controller,
        gap_ms=pulse.longest_gap_s(signalled_s) * 1000,
        usual_ms=pulse.longest_gap_s(signalled_s - BEFORE_S, signalled_s) * 1000,
        exit_ms=(ended_s - signalled_s) * 1000,
        refused=pulse.refused - refused,
        unknown=pulse.unknown - unknown,
    )


class Pulse:
    """A publisher with a steady rate. Whatever is not acknowledged is sent again."""

    def __init__(self, client: Client) -> None:
        self._publisher = client.publisher(self._on_result, window=WINDOW, ack_timeout_ms=ACK_TIMEOUT_MS)
        self._acks_s: list[float] = []
        self._again: set[asyncio.TimerHandle] = set()
        self._queue: asyncio.Queue[None] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._tag = 0
        self.refused = 0
        self.unknown = 0

    async def __aenter__(self) -> Pulse:
        await self._publisher.__aenter__()
        self._tasks = [asyncio.create_task(self._beat()), asyncio.create_task(self._repeat())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await self._publisher.__aexit__(None, None, None)

    async def flowing(self, seconds: float) -> None:
        """Wait until acks have come for so long. Raises LiftlogError if they do not."""
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        while not self._acks_s or self._acks_s[-1] < start_s + seconds:
            if loop.time() - start_s > WAIT_S:
                raise LiftlogError(f"no message was acknowledged for {WAIT_S:.0f} s")
            await asyncio.sleep(0.01)

    def longest_gap_s(self, since_s: float, until_s: float = float("inf")) -> float:
        """The longest time between two acks of which the later one came between `since_s` and `until_s`."""
        times = self._acks_s
        return max(
            (after - before) for before, after in itertools.pairwise(times) if since_s <= after <= until_s
        )

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            await self._send()
            due_s = max(due_s + INTERVAL_S, loop.time() - INTERVAL_S)
            await asyncio.sleep(due_s - loop.time())

    async def _repeat(self) -> None:
        while True:
            await self._queue.get()
            await self._send()

    async def _send(self) -> None:
        self._tag += 1
        await self._publisher.send(self._tag, STREAM.subject, b"%d" % self._tag)

    def _on_result(self, result: PublishResult) -> None:
        loop = asyncio.get_running_loop()
        if result.outcome == "ok":
            self._acks_s.append(loop.time())
        elif result.outcome == "fail":
            self.refused += 1
            loop.call_later(RETRY_S, self._queue.put_nowait, None)
        else:
            self.unknown += 1
            self._queue.put_nowait(None)
