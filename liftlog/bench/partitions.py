"""What many partitions cost: their creation, doing nothing, and the death of a node that leads some of them.

Real processes in a temporary folder. Streams of at most STREAM_MAX partitions are created, one after the
other, each partition on three nodes (fewer if there are fewer). Then the cluster rests. Then a node gets
SIGKILL, first one that is not the controller, then, when all is in sync again, the controller. What is told
of a kill is the time until every partition is led by somebody else, who is subscribed at NATS. It is found by
asking, every POLL_S and stream by stream.

How long single steps were, by the CPU time of their thread, the nodes count themselves (`STEP_CPU`). They are
asked before and after each phase and not during it: the difference is the phase's.
"""

from __future__ import annotations

import asyncio
import re
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from liftlog.bench.usage import usage_of
from liftlog.client.client import Client
from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.eyes.names import STEP_CPU
from liftlog.local import ask, wait_until_live
from liftlog.messages import StreamInfo
from liftlog.real.local_cluster import LocalCluster
from liftlog.scratch import Scratch
from liftlog.types import LiftlogError, StreamConfig

STREAM_MAX = 500
POLL_S = 0.05
WAIT_S = 180.0
SCRAPE_PAUSE_S = 1.1
"""A node gives the same scrape again within a second."""
SCRAPE_TIMEOUT_S = 60.0
SETTLE_S = 3.0
BUCKET = re.compile(rf'^{STEP_CPU.name}_bucket{{le="([^"]+)"}} ([0-9.e+]+)$', re.MULTILINE)

Buckets = dict[float, int]
"""How many steps took at most so many seconds, by the upper ends of buckets."""


@dataclass(frozen=True, slots=True)
class Phase:
    """What happened between two looks at the nodes."""

    name: str
    seconds: float
    steps: int
    p50_ms: float
    """Percentiles of the steps of all nodes that lived through it: upper ends of buckets, as is `max_ms`."""
    p99_ms: float
    p999_ms: float
    max_ms: float
    cpu_share: float
    """Processor seconds for each second and node."""
    moved: int = 0
    """Partitions that the node led which was killed."""


def configs_for(partitions: int, replicas: int) -> list[StreamConfig]:
    """As few streams as can have so many partitions; the first ones have one more where it does not come out
    even.
    """
    streams = -(-partitions // STREAM_MAX)
    sizes = [partitions // streams + (number < partitions % streams) for number in range(streams)]
    return [
        StreamConfig(f"many{number}", f"many.{number}", partitions=size, replication_factor=replicas)
        for number, size in enumerate(sizes)
    ]


def buckets_of(page: str) -> Buckets:
    """From a node's metrics."""
    return {float(end): int(float(count)) for end, count in BUCKET.findall(page)}


def difference(before: Mapping[int, Buckets], after: Mapping[int, Buckets]) -> Buckets:
    """What all nodes that were asked afterwards have counted since; a node that is new counts from 0."""
    found: Buckets = {}
    for node, buckets in after.items():
        known = before.get(node, {})
        for end, count in buckets.items():
            found[end] = found.get(end, 0) + count - known.get(end, 0)
    return found


def percentile_ms(buckets: Buckets, share: float) -> float:
    """The upper end of the bucket in which the percentile lies, of the greatest one for 1.0; or 0."""
    total = max(buckets.values(), default=0)
    reached = [end for end, count in sorted(buckets.items()) if total and count >= share * total]
    return reached[0] * 1000 if reached else 0.0


class ManyPartitions:
    """One cluster, measured from its start to the second kill."""

    def __init__(
        self, scratch: Scratch, partitions: int, nodes: int, protocol: dict[str, int] | None = None
    ) -> None:
        """`protocol`: settings of the nodes' section of that name that are not the default."""
        self._scratch = scratch
        self._cluster = LocalCluster(scratch.folder / "liftlog", nodes, metrics=True, protocol=protocol)
        self._configs = configs_for(partitions, min(nodes, 3))
        self._counted: dict[int, Buckets] = {}

    def measure(self, idle_s: float, progress: Callable[[str], None]) -> list[Phase]:
        """All phases. Raises LiftlogError when the cluster does not get to where it should."""
        progress("starting the nodes")
        self._scratch.enter_context(self._cluster)
        wait_until_live(self._cluster)
        self._settle()
        progress("creating streams")
        phases = [self._phase("creation", self._create)]
        self._settle()
        progress("doing nothing")
        phases.append(self._phase("idle", lambda: time.sleep(idle_s)))
        for controller in (False, True):
            name = "controller killed" if controller else "node killed"
            progress(f"{name}: waiting until all is led again")
            phases.append(self._kill(name, controller))
        return phases

    # -- phases --------------------------------------------------------------------------------------------

    def _phase(self, name: str, work: Callable[[], object], without: int = 0, moved: int = 0) -> Phase:
        """`without`: the node that is killed meanwhile."""
        pids = [node.pid for number, node in self._cluster.nodes.items() if number != without]
        before = self._steps(without)
        cpu_s, began_s = usage_of(pids).cpu_seconds, time.monotonic()
        work()
        seconds, cpu_s = time.monotonic() - began_s, usage_of(pids).cpu_seconds - cpu_s
        time.sleep(SCRAPE_PAUSE_S)
        steps = difference(before, self._steps(without))
        return Phase(
            name,
            seconds,
            max(steps.values(), default=0),
            p50_ms=percentile_ms(steps, 0.5),
            p99_ms=percentile_ms(steps, 0.99),
            p999_ms=percentile_ms(steps, 0.999),
            max_ms=percentile_ms(steps, 1.0),
            cpu_share=cpu_s / seconds / len(pids),
            moved=moved,
        )

    def _create(self) -> None:
        async def create(client: Client) -> None:
            for config in self._configs:
                await client.create_stream(config, timeout_ms=int(WAIT_S * 1000))

        ask(self._cluster, create)

    def _kill(self, name: str, controller: bool) -> Phase:
        leading = self._whole()
        office = self._controller()
        others = [number for number in self._cluster.nodes if number != office]
        victim = office if controller else max(others, key=lambda number: leading.get(number, 0))
        node = self._cluster.nodes[victim]

        def work() -> None:
            node.kill()
            self._until(lambda info: _is_led(info, victim), f"every partition led without node {victim}")

        phase = self._phase(name, work, without=victim, moved=leading.get(victim, 0))
        node.launch()
        node.wait_ready()
        return phase

    def _settle(self) -> None:
        time.sleep(SETTLE_S)

    def _whole(self) -> dict[int, int]:
        """Wait until all is in sync, give the leaderships back, and tell how many each node has."""

        async def rebalance(client: Client) -> None:
            await client.rebalance()

        self._until(_is_whole, "every replica in sync")
        ask(self._cluster, rebalance)
        self._settle()
        leading: dict[int, int] = {}
        for info in self._until(_is_given_back, "every preferred leader ready"):
            for partition in info.partitions:
                leading[partition.leader] = leading.get(partition.leader, 0) + 1
        return leading

    # -- what is asked -------------------------------------------------------------------------------------

    def _until(self, holds: Callable[[StreamInfo], bool], what: str) -> list[StreamInfo]:
        """Ask for one stream after the other until it holds for each. Raises LiftlogError after WAIT_S."""

        async def wait(client: Client) -> list[StreamInfo]:
            deadline_s, found = time.monotonic() + WAIT_S, []
            for config in self._configs:
                while True:
                    try:
                        (info,) = (await client.known_stream(config.name, timeout_ms=1000)).streams
                        if holds(info):
                            found.append(info)
                            break
                    except (RequestFailed, Unreachable):
                        pass
                    if time.monotonic() > deadline_s:
                        raise LiftlogError(f"not within {WAIT_S:.0f} s: {what}, stream {config.name}")
                    await asyncio.sleep(POLL_S)
            return found

        return ask(self._cluster, wait)

    def _controller(self) -> int:
        async def find(client: Client) -> int:
            return (await client.status(timeout_ms=10_000)).controller

        return ask(self._cluster, find)

    def _steps(self, without: int) -> dict[int, Buckets]:
        found = {}
        for number, address in self._cluster.metrics_addresses.items():
            if number != without:
                url = f"http://{address}/metrics"
                with urllib.request.urlopen(url, timeout=SCRAPE_TIMEOUT_S) as answer:
                    found[number] = buckets_of(answer.read().decode())
        return found


def _is_led(info: StreamInfo, without: int) -> bool:
    return all(one.ready and one.leader not in (0, without) for one in info.partitions)


def _is_given_back(info: StreamInfo) -> bool:
    return _is_whole(info) and all(one.leader == one.replicas[0] for one in info.partitions)


def _is_whole(info: StreamInfo) -> bool:
    return all(one.ready and len(one.isr) == len(one.replicas) for one in info.partitions)
