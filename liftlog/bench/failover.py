"""How long do writes stop when the process that leads is killed? liftlog, and JetStream beside it.

Three servers each, one stream on all of them. In each round an open loop (`openloop.py`) sends small messages
at fixed times; meanwhile the stream's leader gets SIGKILL, and in every second round it leads the cluster's
metadata as well. What is told of a round is the longest time between two acks. Nothing is sent again: the
next message is due all the same. Then the process is started again, and the next round begins when its copy
is back in sync. The systems take turns.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

from liftlog.bench.latency import run_open_loop
from liftlog.bench.offices import NODES, arrange, whole
from liftlog.bench.openloop import OpenLoad
from liftlog.client.client import Client
from liftlog.local import ask, create_stream
from liftlog.real.local_cluster import LocalCluster
from liftlog.scratch import Scratch
from liftlog.types import LiftlogError, StreamConfig

RATE = 500.0
"""Messages a second: a gap is measured to 2 ms, and nobody is busy."""
SIZE = 128
BEFORE_S = 1.5
"""From the start of the generator to the kill."""
NEVER_S = 3600.0
LAST_S = 0.5
"""In the last part of a round acks must have come."""


class Victim(Protocol):
    """A system whose leader can be killed."""

    name: str
    seconds: float
    """How long a round's load lasts; longer than its fail-over."""
    may_lose: bool
    """Whether acks are given before anything is synced, so that what was acknowledged may be gone."""

    def start(self) -> None: ...

    def arrange(self, both: bool) -> bool:
        """Wait until all is in sync, and choose the next one to be killed; whether it has both offices."""
        ...

    @property
    def port(self) -> int:
        """Of a NATS server that will not be killed."""
        ...

    def kill(self) -> None: ...

    def revive(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Outage:
    """One round."""

    both: bool
    """Whether the process led the cluster's metadata, too."""
    gap_ms: float
    """The longest time between two acks."""
    refused: int
    """Messages that found nobody, or were refused."""
    unanswered: int
    overwritten: int
    """Acknowledged messages that are gone: their sequence number was given to another one later."""


class LiftlogVictim:
    """Three nodes, and a NATS server that is not killed."""

    name = "liftlog"
    seconds = 5.0
    may_lose = False

    def __init__(self, scratch: Scratch, subject: str, stream: str) -> None:
        self._scratch = scratch
        self._cluster = LocalCluster(scratch.folder / self.name, NODES)
        self._config = StreamConfig(stream, subject, replication_factor=NODES)
        self._next = 0

    def start(self) -> None:
        self._scratch.enter_context(self._cluster)
        create_stream(self._cluster, self._config)

    def arrange(self, both: bool) -> bool:
        async def choose(client: Client) -> tuple[int, int]:
            leader = await whole(client, self._config.name)
            return leader, await arrange(client, leader, both)

        self._next, controller = ask(self._cluster, choose)
        return self._next == controller

    @property
    def port(self) -> int:
        return int(self._cluster.nats_url.rpartition(":")[2])

    def kill(self) -> None:
        self._cluster.nodes[self._next].kill()

    def revive(self) -> None:
        self._cluster.nodes[self._next].launch()
        self._cluster.nodes[self._next].wait_ready()


def measure_kills(
    victims: Sequence[Victim], kills: int, load: OpenLoad, progress: Callable[[str], None]
) -> dict[str, list[Outage]]:
    """So many kills of each, in turns. Raises LiftlogError when a system does not come back."""
    for victim in victims:
        progress(f"starting {victim.name}")
        victim.start()
    found: dict[str, list[Outage]] = {victim.name: [] for victim in victims}
    for turn in range(kills):
        ordered = victims if turn % 2 == 0 else victims[::-1]
        for victim in ordered:
            progress(f"kill {turn + 1} of {kills}: {victim.name}")
            found[victim.name].append(_kill(victim, load, both=turn % 2 == 1))
    return found


def _kill(victim: Victim, load: OpenLoad, both: bool) -> Outage:
    both = victim.arrange(both)
    last = [victim.seconds - LAST_S, victim.seconds]
    load = replace(
        load, port=victim.port, seconds=victim.seconds, windows=[last], may_lose=victim.may_lose
    )
    with ThreadPoolExecutor(1) as generator:
        running = generator.submit(run_open_loop, load, victim.name)
        time.sleep(BEFORE_S)
        killed_s = time.monotonic()
        victim.kill()
        result = running.result()
    if "error" in result:
        raise LiftlogError(f"{victim.name}: {result['error']}")
    began_s = killed_s - result["started_monotonic_s"]
    if not 0.0 < began_s < victim.seconds - LAST_S:
        raise LiftlogError(f"{victim.name}: the kill came {began_s:.1f} s after the load began")
    if not result["windows"][0]["acked"]:
        raise LiftlogError(
            f"{victim.name}: no message was acknowledged from {last[0] - began_s:.1f} s after the kill on"
        )
    victim.revive()
    counts = (result[name] for name in ("refused", "unanswered", "overwritten"))
    return Outage(both, result["longest_gap_ms"], *counts)


def load_of(subject: str, stream: str) -> OpenLoad:
    return OpenLoad(
        *(0, subject, stream), rate=RATE, size=SIZE, drain_s=0.5, backlog_s=NEVER_S, tolerant=True
    )


def percentile(gaps: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: a value that was measured."""
    ordered = sorted(gaps)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summary_of_kills(kills: Sequence[Outage]) -> dict[str, float]:
    """Milliseconds."""
    gaps = [kill.gap_ms for kill in kills]
    found = {"p50_ms": percentile(gaps, 0.5), "p99_ms": percentile(gaps, 0.99), "max_ms": max(gaps)}
    for name, both in (("one", False), ("both", True)):
        part = [kill.gap_ms for kill in kills if kill.both == both]
        if part:
            found[f"{name}_p50_ms"] = percentile(part, 0.5)
    return found
