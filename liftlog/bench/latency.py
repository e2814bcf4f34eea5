"""`liftlog bench latency`: response times at fixed rates, in rounds that alternate between the systems.

All systems stay up; only one is loaded at a time, by the open loop of `liftlog.bench.openloop`. Each gets a
short round first that does not count. Who comes first changes from round to round, the file system is synced
before each, and after a run that left work behind its servers are left alone until they are idle.

Shown are medians over the rounds. Ratios are taken within a round, and then their median, so that a slow
minute of the machine moves both sides. A round that was saturated counts as slower than any other: medians
stand as long as most rounds were not. Who was saturated while warming up and again in the first round is not
asked again, since emptying his backlog takes longer than all the rest. A message that was refused, lost or
answered wrongly leaves its system without a result.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from liftlog.bench.histogram import Histogram, summary_ms
from liftlog.bench.openloop import OpenLoad
from liftlog.bench.rounds import System, turns
from liftlog.bench.usage import usage_of
from liftlog.types import LiftlogError

WARM_UP_S = 2.0
SLACK_S = 60.0
"""How long the generator may take beside what it was told to."""
IDLE_SHARE = 0.05
IDLE_WITHIN_S = 60.0
STEP_S = 0.5


class Contender(System, Protocol):
    """What is measured. `echo`: it replies with the request."""

    @property
    def echo(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Configuration:
    """Payload bytes, messages a second over all connections, connections."""

    size: int
    rate: float
    connections: int = 1

    def __str__(self) -> str:
        over = f" over {self.connections} connections" if self.connections > 1 else ""
        return f"{_bytes(self.size)} at {self.rate:,g}/s{over}"


FIVE = (
    Configuration(256, 3000),
    Configuration(1024, 3000),
    Configuration(5 * 1024, 2000),
    Configuration(1024, 20_000, 25),
    Configuration(1_000_000, 100),
)
"""Those of "Benchmarking Message Queue Latency" (seed 004). The last is as much as a NATS message may be."""


@dataclass(slots=True)
class LatencyRound:
    """One run against one system. Latencies in milliseconds; CPU in microseconds a message."""

    acked: int = 0
    acked_per_s: float = 0.0
    latency_ms: dict[str, float] = field(default_factory=dict)
    late_ms: dict[str, float] = field(default_factory=dict)
    """How late the generator sent."""
    longest_gap_ms: float = 0.0
    server_cpu_us_per_message: float = 0.0
    generator_cpu_us_per_message: float = 0.0
    realtime: bool = False
    """Whether the generator was allowed to go before all other processes."""
    trouble: str = ""
    """Why its percentiles mean nothing: saturated, refused, lost."""
    lost: bool = False
    """The trouble is an answer that was wrong, a refusal, or none."""

    def at_ms(self, percentile: str) -> float:
        """Its percentile; without end when the round had trouble."""
        return math.inf if self.trouble else self.latency_ms[percentile]


@dataclass(slots=True)
class LatencySummary:
    """Medians over the rounds of one system in one configuration."""

    rounds: list[LatencyRound]
    distribution: Histogram = field(default_factory=Histogram)
    """All rounds without trouble together, in nanoseconds."""

    @property
    def troubles(self) -> list[str]:
        """Why rounds have no percentiles, one for each that has none."""
        return [found.trouble for found in self.rounds if found.trouble]

    @property
    def lost(self) -> bool:
        """Whether a message was refused, lost or answered wrongly."""
        return any(found.lost for found in self.rounds)

    @property
    def valid(self) -> bool:
        """Whether its percentiles mean something."""
        return not self.lost and 2 * len(self.troubles) < len(self.rounds)

    def median(self, of: Callable[[LatencyRound], float]) -> float:
        return statistics.median(map(of, self.rounds))

    def latency_ms(self, percentile: str) -> float:
        """Median of the rounds' percentiles; of "max" the greatest that was seen."""
        if percentile == "max":
            return max(one.latency_ms["max"] for one in self.rounds)
        return self.median(lambda one: one.at_ms(percentile))

    def to_json(self) -> dict[str, Any]:
        medians = {name: self.latency_ms(name) for name in self.rounds[0].latency_ms} if self.valid else None
        return {
            "valid": self.valid,
            "troubles": self.troubles,
            "latency_ms": medians,
            "all_rounds_latency_ms": summary_ms(self.distribution) if self.valid else None,
            "acked_per_s": self.median(lambda found: found.acked_per_s),
            "server_cpu_us_per_message": self.median(lambda found: found.server_cpu_us_per_message),
            "generator_cpu_us_per_message": self.median(lambda found: found.generator_cpu_us_per_message),
            "generator_late_p99_ms": self.median(lambda found: found.late_ms.get("p99", 0.0)),
            "rounds": [asdict(found) for found in self.rounds],
            "histogram_ns": self.distribution.to_json(),
        }


def start_all(contenders: Sequence[Contender], progress: Callable[[str], None]) -> None:
    for contender in contenders:
        progress(f"starting {contender.name}")
        contender.start()


def measure_latency(
    contenders: Sequence[Contender], load: OpenLoad, rounds: int, progress: Callable[[str], None]
) -> dict[str, LatencySummary]:
    """Run the rounds against systems that run. Raises LiftlogError if one holds less than it acknowledged."""
    by_name = {contender.name: contender for contender in contenders}
    before = {name: contender.stored() for name, contender in by_name.items()}
    found: dict[str, LatencySummary] = {name: LatencySummary([]) for name in by_name}
    acked = dict.fromkeys(by_name, 0)
    cold: set[str] = set()
    given_up: set[str] = set()
    for number, name in turns(list(by_name), rounds):
        if name in given_up:
            continue
        progress(f"round {number} of {rounds}: {name}" if number else f"warming up: {name}")
        seconds = load.seconds if number else min(WARM_UP_S, load.seconds)
        result, histogram = _round(by_name[name], replace(load, seconds=seconds))
        acked[name] += result.acked
        if number:
            found[name].rounds.append(result)
            if not result.trouble:
                found[name].distribution.add(histogram)
        if result.trouble:
            progress(f"{name}: {result.trouble}")
            _until_idle(by_name[name])
            if number == 0:
                cold.add(name)
            elif number == 1 and name in cold:
                given_up.add(name)
    for name, contender in by_name.items():
        held, held_before = contender.stored(), before[name]
        if held is not None and held_before is not None and held - held_before < acked[name]:
            raise LiftlogError(
                f"{name} acked {acked[name]} messages and holds {held - held_before}: it lost some"
            )
    return found


def _round(contender: Contender, load: OpenLoad) -> tuple[LatencyRound, Histogram]:
    os.sync()
    load = replace(load, port=contender.port, echo=contender.echo, histograms=True)
    before = usage_of(contender.pids)
    result = run_open_loop(load, contender.name)
    cpu_s = usage_of(contender.pids).cpu_seconds - before.cpu_seconds
    if "error" in result:
        return LatencyRound(trouble=result["error"], lost=True), Histogram()
    saturated = result["saturated"]
    found = LatencyRound(
        acked=result["acked"],
        acked_per_s=result["acked_per_s"],
        latency_ms=result["latency_ms"],
        late_ms=result["late_ms"],
        longest_gap_ms=result["longest_gap_ms"],
        server_cpu_us_per_message=cpu_s * 1e6 / max(1, result["acked"]),
        generator_cpu_us_per_message=result["generator_cpu_us_per_message"],
        realtime=result["realtime"],
        trouble=f"saturated at {result['acked_per_s']:,.0f}/s: {saturated}" if saturated else "",
    )
    return found, Histogram.from_json(result["latency_histogram_ns"])


def run_open_loop(load: OpenLoad, name: str) -> dict[str, Any]:
    """Run the generator in its own process; its result has "error" if the run cannot count.

    Raises LiftlogError if the generator itself fails.
    """
    command = [sys.executable, "-m", "liftlog.bench.openloop", json.dumps(asdict(load))]
    timeout_s = load.seconds + load.drain_s + SLACK_S
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=True)
    except subprocess.SubprocessError as error:
        output = getattr(error, "stderr", "") or ""
        raise LiftlogError(f"the load generator failed against {name}: {output.strip() or error}") from None
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def ratios(
    found: dict[str, LatencySummary], references: Sequence[str], percentiles: Sequence[str]
) -> dict[str, dict[str, dict[str, float]]]:
    """System -> reference -> percentile -> median of its latency over the reference's.

    Of the rounds in which neither had trouble.
    """
    result: dict[str, dict[str, dict[str, float]]] = {}
    for name, mine in found.items():
        result[name] = {}
        for reference in references:
            if reference == name or reference not in found or not (mine.valid and found[reference].valid):
                continue
            pairs = [
                (our.latency_ms, its.latency_ms)
                for our, its in zip(mine.rounds, found[reference].rounds, strict=True)
                if not our.trouble and not its.trouble
            ]
            if not pairs:
                continue
            result[name][reference] = {
                percentile: statistics.median(our[percentile] / its[percentile] for our, its in pairs)
                for percentile in percentiles
            }
    return result


def disk_bytes_needed(
    configurations: Sequence[Configuration], seconds: float, rounds: int, copies: int
) -> float:
    """About how much the logs of `copies` replicas take when everything was measured."""
    messages_s = rounds * seconds + WARM_UP_S
    return sum(1.1 * (one.size + 100) * one.rate for one in configurations) * messages_s * copies


def check_disk(folder: Path, needed: float) -> None:
    """Raises LiftlogError if the folder's disk has not that much free space."""
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize
    if needed > 0.9 * free:
        raise LiftlogError(
            f"the logs would take {needed / 1e9:.1f} GB and {folder} has {free / 1e9:.1f} GB free; "
            "choose fewer --rounds or --seconds, or another --dir"
        )


def _until_idle(contender: Contender) -> None:
    """Whoever still works on a backlog would disturb the next. Gives up after a minute."""
    deadline_s = time.monotonic() + IDLE_WITHIN_S
    before = usage_of(contender.pids).cpu_seconds
    while time.monotonic() < deadline_s:
        time.sleep(STEP_S)
        now = usage_of(contender.pids).cpu_seconds
        if now - before <= IDLE_SHARE * STEP_S * len(contender.pids):
            return
        before = now


def _bytes(size: int) -> str:
    for unit, name in ((1_000_000, "MB"), (1024, "KB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"
