"""`liftlog bench publish`: acked messages per second, in rounds that alternate between the systems.

All systems stay up for the whole measurement; only one is loaded at a time. Each system first gets a short
round that does not count. Before a round the file system is synced, so that nobody pays for what another has
written. Medians over the rounds are compared; with them goes what the same rounds cost in processor time,
memory and disk, so that a better rate with a worse price shows as such.

One of the systems is a responder that does nothing but answer (`liftlog.bench.floor`): whoever answers
through the same NATS server in Python is no faster. Each rate and each CPU is told as a multiple of its.

The time from send to ack is kept too, but not compared: under a window that is always full it is the window
over the rate, whatever the system does. Response times are what `liftlog bench latency` is for.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from liftlog.bench.indexed import Indexed
from liftlog.bench.load import Load
from liftlog.bench.rounds import System, turns
from liftlog.bench.usage import folder_bytes, usage_of
from liftlog.types import LiftlogError

WARM_UP_MESSAGES = 20_000
LOAD_TIMEOUT_S = 120.0


@dataclass(slots=True)
class Round:
    """One run of the load generator against one system, with what it cost the servers."""

    messages: int
    rate: float
    latency_p50_ms: float
    latency_p99_ms: float
    server_cpu_us_per_message: float


@dataclass(slots=True)
class PublishSummary:
    """Medians over the rounds of one system."""

    rate: float
    rate_min: float
    rate_max: float
    latency_p50_ms: float
    latency_p99_ms: float
    server_cpu_us_per_message: float
    memory_peak_mb: float
    disk_bytes_per_message: float
    rounds: list[Round]


@dataclass(slots=True)
class Batched:
    """A system that is there already, to which messages are sent so many at once."""

    system: System
    batch: int
    name: str = ""
    folder: Path = field(default_factory=Path)

    def __post_init__(self) -> None:
        self.name = f"{self.system.name}, batches of {self.batch}"
        self.folder = self.system.folder

    @property
    def port(self) -> int:
        return self.system.port

    @property
    def pids(self) -> list[int]:
        return self.system.pids

    def start(self) -> None:
        """It is started as what it is beside this."""

    def stored(self) -> int | None:
        return self.system.stored()


def measure(
    systems: Sequence[System], load: Load, rounds: int, progress: Callable[[str], None]
) -> dict[str, PublishSummary]:
    """Start the systems, run the rounds, summarise. Raises LiftlogError if a system answers wrongly."""
    for system in systems:
        progress(f"starting {system.name}")
        system.start()
    by_name = {system.name: system for system in systems}
    stored = dict.fromkeys(by_name, 0)
    found: dict[str, list[Round]] = {name: [] for name in by_name}
    warm_up = replace(load, messages=min(WARM_UP_MESSAGES, load.messages))
    for number, name in turns(list(by_name), rounds):
        progress(f"round {number} of {rounds}: {name}" if number else f"{name}: warming up")
        result = _round(by_name[name], load if number else warm_up)
        stored[name] += result.messages
        if number:
            found[name].append(result)
    summaries = {}
    for system in systems:
        acked, held = stored[system.name], system.stored()
        if held is not None and held < acked:
            raise LiftlogError(f"{system.name} acked {acked} messages and holds {held}: it lost some")
        summaries[system.name] = _summarise(system, found[system.name], held)
    return summaries


def _round(system: System, load: Load) -> Round:
    os.sync()
    before = usage_of(system.pids)
    batch = system.batch if isinstance(system, Batched) else 0
    result = run_load(replace(load, port=system.port, batch=batch), system.name)
    if isinstance(system, Indexed):
        system.catch_up()
    cpu_seconds = usage_of(system.pids).cpu_seconds - before.cpu_seconds
    return Round(
        messages=result["messages"],
        rate=result["rate"],
        latency_p50_ms=result["latency_p50_ms"],
        latency_p99_ms=result["latency_p99_ms"],
        server_cpu_us_per_message=cpu_seconds * 1e6 / result["messages"],
    )


def run_load(load: Load, name: str) -> dict[str, Any]:
    """Run the load generator in its own process. Raises LiftlogError with the reason if the run fails."""
    command = [sys.executable, "-m", "liftlog.bench.load", json.dumps(asdict(load))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LOAD_TIMEOUT_S, check=True)
    except subprocess.SubprocessError as error:
        output = getattr(error, "stderr", "") or ""
        raise LiftlogError(f"the load generator failed against {name}: {output.strip() or error}") from None
    result: dict[str, Any] = json.loads(done.stdout)
    if "error" in result:
        raise LiftlogError(f"{name} did not acknowledge the load: {result['error']}")
    return result


def _summarise(system: System, rounds: list[Round], stored: int | None) -> PublishSummary:
    return PublishSummary(
        rate=statistics.median(r.rate for r in rounds),
        rate_min=min(r.rate for r in rounds),
        rate_max=max(r.rate for r in rounds),
        latency_p50_ms=statistics.median(r.latency_p50_ms for r in rounds),
        latency_p99_ms=statistics.median(r.latency_p99_ms for r in rounds),
        server_cpu_us_per_message=statistics.median(r.server_cpu_us_per_message for r in rounds),
        memory_peak_mb=usage_of(system.pids).memory_peak_mb,
        disk_bytes_per_message=folder_bytes(system.folder) / stored if stored else 0.0,
        rounds=rounds,
    )


COSTS = (
    "server_cpu_us_per_message",
    "memory_peak_mb",
    "disk_bytes_per_message",
)
"""Fields of `PublishSummary` where less is better."""


def over_ceiling(summaries: dict[str, PublishSummary], ceiling: str) -> dict[str, dict[str, float]]:
    """For each system its "rate" and its "server_cpu" over the ceiling's: medians of the rounds' ratios."""
    base = summaries[ceiling].rounds
    return {
        name: {
            "rate": statistics.median(
                mine.rate / its.rate for mine, its in zip(summary.rounds, base, strict=True)
            ),
            "server_cpu": statistics.median(
                mine.server_cpu_us_per_message / max(its.server_cpu_us_per_message, 1e-9)
                for mine, its in zip(summary.rounds, base, strict=True)
            ),
        }
        for name, summary in summaries.items()
    }


def comparison(summaries: dict[str, PublishSummary], ours: str) -> dict[str, dict[str, Any]]:
    """For each other system: our rate over its rate, and every cost where we are worse, as ours over its."""
    mine = summaries[ours]
    result = {}
    for name, theirs in summaries.items():
        if name == ours:
            continue
        worse = {
            cost: round(getattr(mine, cost) / getattr(theirs, cost), 2)
            for cost in COSTS
            if getattr(theirs, cost) > 0 and getattr(mine, cost) > getattr(theirs, cost)
        }
        if mine.rate < theirs.rate:
            worse["rate"] = round(mine.rate / theirs.rate, 2)
        result[name] = {"rate_ratio": round(mine.rate / theirs.rate, 3), "worse": worse}
    return result
