"""`liftlog bench jetstream`: programs that use JetStream, on liftlog's door and on nats-server, in one run.

All systems stay up for the whole measurement, and one of them works at a time. In each round each work
(`liftlog.bench.door_user`) is done once on each system, by a process of its own; rounds alternate, after one
that does not count. Processor time is each server's own, from when the work begins to when it is done.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import IO

from liftlog.bench.consumer import READY
from liftlog.bench.door_systems import DoorSystem
from liftlog.bench.door_user import Visit
from liftlog.bench.programs import program, result_of
from liftlog.bench.rounds import turns
from liftlog.bench.usage import usage_of
from liftlog.types import LiftlogError

Progress = Callable[[str], None]
WARM_UP_MESSAGES = 500
TIMEOUT_S = 60.0
"""For a program to end when its work is done."""


@dataclass(frozen=True, slots=True)
class Visited:
    """One run of a work. CPU in microseconds a message; `server_cpu_us` by part of the system."""

    messages: int
    rate: float
    server_cpu_us: dict[str, float]
    client_cpu_us: float

    @property
    def cpu_us(self) -> float:
        """All servers together."""
        return sum(self.server_cpu_us.values())


Found = dict[str, dict[str, list[Visited]]]
"""By work, then by system: what each round brought."""


def measure(
    systems: Sequence[DoorSystem], visit: Visit, works: Sequence[str], rounds: int, progress: Progress
) -> Found:
    """Of systems that run and are filled. `visit` gives sizes and times. Raises LiftlogError."""
    by_name = {system.name: system for system in systems}
    found: Found = {work: {name: [] for name in by_name} for work in works}
    for work in works:
        for number, name in turns(list(by_name), rounds):
            told = f"round {number} of {rounds}" if number else "warming up"
            progress(f"{work}, {told}: {name}")
            one = replace(visit, work=work, name=f"r{number}")
            if not number:
                one = replace(one, messages=min(WARM_UP_MESSAGES, visit.messages))
            result = visited(by_name[name], one)
            if number:
                found[work][name].append(result)
    return found


def visited(system: DoorSystem, visit: Visit) -> Visited:
    """One run. Raises LiftlogError with the reason if it cannot count."""
    os.sync()
    visit = replace(visit, url=f"nats://127.0.0.1:{system.port_for(visit.work)}")
    with program("liftlog.bench.door_user", asdict(visit)) as process:
        assert process.stdin is not None and process.stdout is not None
        _expect_ready(process, process.stdout, system.name, visit)
        before = {part: usage_of(pids).cpu_seconds for part, pids in system.parts.items()}
        process.stdin.write("begin\n")
        process.stdin.flush()
        told = process.stdout.readline()
        after = {part: usage_of(pids).cpu_seconds for part, pids in system.parts.items()}
        output, said = _ended(process, visit, "looked at\n")
    result = result_of(told + output, said, _failed(system.name, visit))
    count = result["messages"]
    servers = {part: (after[part] - before[part]) * 1e6 / count for part in before}
    return Visited(count, result["rate"], servers, result["client_cpu_seconds"] * 1e6 / count)


def _expect_ready(process: subprocess.Popen[str], output: IO[str], system: str, visit: Visit) -> None:
    first = output.readline()
    if first.strip() != READY:
        rest, said = _ended(process, visit)
        result_of(first + rest, said, _failed(system, visit))
        raise LiftlogError(f"the program that does '{visit.work}' on {system} said {first!r}")


def _ended(process: subprocess.Popen[str], visit: Visit, last_word: str | None = None) -> tuple[str, str]:
    """What else it wrote, to stdout and to stderr."""
    try:
        return process.communicate(last_word, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise LiftlogError(f"the program that does '{visit.work}' did not end") from None


def _failed(system: str, visit: Visit) -> str:
    return f"'{visit.work}' failed on {system}"
