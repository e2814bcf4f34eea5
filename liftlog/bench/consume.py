"""`liftlog bench consume`: acked deliveries per second, and what a busy consumer costs those who publish.

A stream is filled once. In each round every way of acking (`liftlog.bench.consumer`) has a consumer of its
own, from the first message on, that is deleted afterwards; rounds alternate, after one that does not count.

Then messages are published at a fixed rate, as `liftlog bench latency` does it, in turns with and without a
consumer that takes and acks them meanwhile.
"""

from __future__ import annotations

import os
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from liftlog.bench.cluster import LiftlogCluster
from liftlog.bench.consumer import IN_TURN, JETSTREAM_ACK, JOINED, READY, RUNS, SINGLE, THEIRS, Duties
from liftlog.bench.jetstream import JetStream
from liftlog.bench.latency import run_open_loop
from liftlog.bench.load import Load
from liftlog.bench.openloop import OpenLoad
from liftlog.bench.programs import program, result_of
from liftlog.bench.publish import run_load
from liftlog.bench.rounds import ratios, turns
from liftlog.bench.usage import usage_of
from liftlog.types import LiftlogError

Progress = Callable[[str], None]
Measured = LiftlogCluster | JetStream

SUBJECT = "bench.consume"
STREAM = "bench"
OUR_WAYS = (SINGLE, JOINED, RUNS, IN_TURN)
WARM_UP_MESSAGES = 500
WARM_UP_S = 2.0
SLACK_S = 60.0
PUBLISH_AIM = 1.5
"""Publishing beside a busy consumer: p50 over that without."""
JETSTREAM_AIM = 0.7
"""Explicit acks, one NATS message each or joined: our rate over JetStream's, with one replica."""
RUNS_AIM = 3.0
"""Acks of runs: their rate over that of single ones."""


@dataclass(frozen=True, slots=True)
class Consumption:
    """One run. CPU in microseconds a message."""

    messages: int
    rate: float
    server_cpu_us: float
    client_cpu_us: float


@dataclass(frozen=True, slots=True)
class Beside:
    """Publishing in one round, in milliseconds from due to acked; `consumed` a second meanwhile."""

    p50_ms: float
    p99_ms: float
    consumed: float = 0.0


def duties_for(system: Measured, duties: Duties) -> Duties:
    """The same, of this system."""
    if isinstance(system, JetStream):
        return replace(duties, url=f"nats://127.0.0.1:{system.port}")
    local = system.local
    secret_file = str(local.client_secret_file)
    return replace(duties, url=local.nats_url, cluster=local.cluster, secret_file=secret_file)


@contextmanager
def consuming(duties: Duties) -> Iterator[Callable[[], dict[str, Any]]]:
    """A consuming process whose consumer is there; what is given waits for its end and tells what it found.

    Raises LiftlogError with the reason if the run cannot count.
    """
    with program("liftlog.bench.consumer", asdict(duties)) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        if first.strip() != READY:
            output, said = process.communicate()
            result_of(first + output, said, _failed(duties))
            raise LiftlogError(f"the consumer {duties.name} did not start: {first + output}")
        yield partial(_finish, process, duties)


def _finish(process: subprocess.Popen[str], duties: Duties) -> dict[str, Any]:
    try:
        output, said = process.communicate(timeout=duties.seconds_max + SLACK_S)
    except subprocess.TimeoutExpired:
        raise LiftlogError(f"the consumer {duties.name} did not end") from None
    return result_of(output, said, _failed(duties))


def _failed(duties: Duties) -> str:
    return f"the consumer that acks '{duties.way}' failed"


def fill(system: Measured, messages: int, size: int) -> None:
    """Publish so many. Raises LiftlogError."""
    load = Load(system.port, SUBJECT, STREAM, size=size, window=2000, messages=messages, seconds_max=60)
    run_load(load, system.name)


def measure_rates(
    systems: Sequence[Measured], duties: Duties, rounds: int, progress: Progress
) -> dict[str, list[Consumption]]:
    """Of each system and way of acking, in rounds, of systems that run and are filled. `duties` gives
    messages, batch and time; of a way that does not get through, what it did in the time counts. Raises
    LiftlogError.
    """
    ways = {
        f"{system.name} {way}": (system, way)
        for system in systems
        for way in (THEIRS if isinstance(system, JetStream) else OUR_WAYS)
    }
    found: dict[str, list[Consumption]] = {name: [] for name in ways}
    for number, name in turns(list(ways), rounds):
        progress(f"round {number} of {rounds}: {name}" if number else f"warming up: {name}")
        system, way = ways[name]
        messages = duties.messages if number else min(WARM_UP_MESSAGES, duties.messages)
        one = replace(duties_for(system, duties), way=way, name=f"r{number}-{way}", messages=messages)
        os.sync()
        before = usage_of(system.pids)
        with consuming(one) as finish:
            result = finish()
        cpu_s = usage_of(system.pids).cpu_seconds - before.cpu_seconds
        if number:
            count = max(1, result["messages"])
            client_us = result["client_cpu_seconds"] * 1e6 / count
            found[name].append(Consumption(count, result["rate"], cpu_s * 1e6 / count, client_us))
    return found


def measure_publishing(
    systems: Sequence[Measured], load: OpenLoad, batch: int, rounds: int, progress: Progress
) -> dict[str, list[Beside]]:
    """Of each system, by its name, and by "<name> busy" with a consumer of the same partition meanwhile."""
    by_name = {f"{system.name}{busy}": (system, bool(busy)) for system in systems for busy in ("", " busy")}
    found: dict[str, list[Beside]] = {name: [] for name in by_name}
    for number, name in turns(list(by_name), rounds):
        progress(
            f"round {number} of {rounds}, publishing: {name}" if number else f"warming up, publishing: {name}"
        )
        system, busy = by_name[name]
        seconds = load.seconds if number else min(WARM_UP_S, load.seconds)
        result = _publish(system, replace(load, port=system.port, seconds=seconds), batch, busy, number)
        if number:
            found[name].append(result)
    return found


def _publish(system: Measured, load: OpenLoad, batch: int, busy: bool, number: int) -> Beside:
    os.sync()
    if not busy:
        return _beside(run_open_loop(load, system.name), system.name, 0.0)
    way = JETSTREAM_ACK if isinstance(system, JetStream) else JOINED
    duties = Duties(
        url="",
        stream=STREAM,
        name=f"p{number}",
        way=way,
        messages=int(load.rate * load.seconds),
        batch=batch,
        seconds_max=load.seconds + load.drain_s + SLACK_S,
        new=True,
    )
    with consuming(duties_for(system, duties)) as finish:
        result = run_open_loop(load, system.name)
        consumed = finish()
    return _beside(result, f"{system.name} with a busy consumer", consumed["rate"])


def _beside(result: dict[str, Any], name: str, consumed: float) -> Beside:
    trouble = result.get("error") or result["saturated"]
    if trouble:
        raise LiftlogError(f"{name}: {trouble}; choose a lower --rate")
    latency_ms = result["latency_ms"]
    return Beside(latency_ms["p50"], latency_ms["p99"], consumed)


def ratio(mine: Sequence[float], its: Sequence[float]) -> float:
    """Median of the ratios within the rounds."""
    return statistics.median(ratios(mine, its))
