"""Runs seeds in a process of its own and says what each took: the other end of `bench/process.py`.

It reads a line of JSON for each run (`WANTED`) and writes one. It is run as a script, so that another
checkout of liftlog is measured by the same code: which one it finds is up to PYTHONPATH. Of the project it
imports what runs a seed, and nothing else by its own name.

CPU time is that of the process. `parts` splits a run: the functions through which one part of the simulator
calls another are replaced by doors that look at a clock when they are entered and left, so that each moment
belongs to the innermost part. The doors take time themselves, so such a run tells shares and no rates.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import sys
from collections.abc import Callable
from functools import wraps
from time import perf_counter, process_time
from typing import Any

REST = "rest"
"""Whatever is inside of no door: drawing the world, the verdict, and trio in the gear of that name."""
DISK = ("open", "rename", "remove", "remove_tree", "list", "exists", "make_directory", "sync_directory")
WATCHED = ("starting", "recovered", "created", "command_applied", "stepped", "went_down", "node_failed")
DOORS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("world", "liftlog_sim.kernel", "Kernel", ("run_until", "run_next")),
    ("core", "liftlog.core.node", "Node", ("__init__", "start", "step")),
    ("storage", "liftlog.storage.engine", "StorageEngine", ("recover", "write", "sync", "close")),
    ("disks", "liftlog_sim.devices.disk", "SimFile", ("append", "read_at", "sync", "truncate")),
    ("disks", "liftlog_sim.devices.disk", "SimDisk", DISK),
    ("network", "liftlog_sim.devices.network", "SimNetwork", ("send",)),
    ("invariants", "liftlog_sim.watching.observer", "Observer", WATCHED),
    (
        "invariants",
        "liftlog_sim.truth.invariants",
        "PartitionTruth",
        ("read", "read_position", "latest", "found_time", "purge_done", "read_below_purge"),
    ),
    ("invariants", "liftlog_sim.truth.metadata", "MetadataTruth", ("judge",)),
    ("invariants", "liftlog_sim.watching.encounters", "Encounters", ("struck", "published", "requested")),
    ("refinement", "liftlog_sim.refine.replicas", "Refining", ("created", "applied", "stepped", "check")),
)
"""Part, module, class, methods."""
AT_THE_END = ("compare_copies", "damaged", "unhealed", "judge_sickness")
"""Functions of `runs/runs.py` that judge as well, each time they are called there."""
COLLECTOR = "garbage collection"
PARTS = ("core", "storage", "disks", "network", "world", "invariants", "refinement", COLLECTOR, REST)

WANTED: dict[str, Any] = {
    "seed": 0,
    "nodes": 0,
    "duration_s": 0,
    "gear": "step",
    "refine": True,
    "parts": False,
    "minutes": False,
}
"""What a line may ask for, with what holds if it is left out. `minutes`: the memory at each simulated one."""


class PartMeter:
    """Seconds by part; each moment belongs to the part that was entered last."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._stack = [REST]
        self._since = perf_counter()

    def enter(self, part: str) -> None:
        now = perf_counter()
        self.seconds[self._stack[-1]] += now - self._since
        self._stack.append(part)
        self._since = now

    def leave(self) -> None:
        now = perf_counter()
        self.seconds[self._stack.pop()] += now - self._since
        self._since = now

    def collecting(self, phase: str, info: dict[str, int]) -> None:
        """A callback of the garbage collector."""
        if phase == "start":
            self.enter(COLLECTOR)
        else:
            self.leave()

    def door(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, which tells when it is entered and left."""
        enter, leave = self.enter, self.leave

        @wraps(function)
        def timed(*given: Any, **named: Any) -> Any:
            enter(part)
            try:
                return function(*given, **named)
            finally:
                leave()

        return timed


class Doors:
    """The functions between the parts, replaced as long as a run is measured. Raises AttributeError for one
    that is not there."""

    def __init__(self, meter: PartMeter) -> None:
        self._meter = meter
        self._kept: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> None:
        for part, module, owner, names in DOORS:
            of = getattr(importlib.import_module(module), owner)
            for name in names:
                self._replace(of, name, part)
        for name in AT_THE_END:
            self._replace(importlib.import_module("liftlog_sim.runs.runs"), name, "invariants")
        gc.callbacks.append(self._meter.collecting)

    def _replace(self, of: Any, name: str, part: str) -> None:
        before = getattr(of, name)
        self._kept.append((of, name, before))
        setattr(of, name, self._meter.door(part, before))

    def __exit__(self, *error: object) -> None:
        gc.callbacks.remove(self._meter.collecting)
        for of, name, before in reversed(self._kept):
            setattr(of, name, before)


def memory_mb() -> float:
    """What the process holds now (Linux)."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


class MinuteWatch:
    """At each simulated minute the memory, how much of it is what the simulated disks hold, and how much is
    committed by then: [MB, MB, records].
    """

    def __init__(self) -> None:
        self.found: list[tuple[float, float, int]] = []

    def attach(self, world: Any) -> None:
        kernel, partitions = world.kernel, world.observer.partitions
        disks = [machine.disk for machine in world.machines.values()]

        def stepped(*step: object) -> None:
            if kernel.now_us >= (len(self.found) + 1) * 60_000_000:
                mb = memory_mb()
                stored = sum(len(disk.content(path)) for disk in disks for path in disk.files())
                self.found.append((mb, stored / 1e6, sum(truth.hw for truth in partitions.values())))

        world.observer.on_step = stepped


def runner() -> tuple[Any, Any]:
    """What runs a seed, and its options, wherever this checkout has them: before there were rooms they lay
    beside each other."""
    try:
        runner = importlib.import_module("liftlog_sim.runs.runner")
    except ModuleNotFoundError:
        runner = importlib.import_module("liftlog_sim.runner")
    return runner.run_seed, runner.RunOptions


def run(wanted: dict[str, Any]) -> dict[str, Any]:
    """Run one seed as it is wanted."""
    run_seed, RunOptions = runner()
    names = ("seed", "nodes", "duration_s", "gear", "refine")
    options = RunOptions(**{name: wanted[name] for name in names})
    minutes = MinuteWatch()
    watch = minutes.attach if wanted["minutes"] else None
    before_mb = memory_mb()
    seconds: dict[str, float] = {}
    started = process_time()
    if wanted["parts"]:
        meter = PartMeter()
        with Doors(meter):
            result = run_seed(options, watch)
            seconds = meter.seconds
    else:
        result = run_seed(options, watch)
    return {
        "cpu_s": process_time() - started,
        "simulated_s": result.simulated_s,
        "steps": result.steps,
        "committed": result.counters["committed"],
        "trace_hash": result.trace_hash,
        "violated": f"{result.invariant}: {result.finding}" if result.invariant else "",
        "parts": seconds,
        "before_mb": before_mb,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
        "minutes": minutes.found,
    }


def main() -> None:
    """Answer line by line; what the process is comes first."""
    import liftlog
    import liftlog_sim

    # What is printed by a run must not get between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    folders = [os.path.dirname(package.__file__ or "") for package in (liftlog, liftlog_sim)]
    print(json.dumps(folders), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(run(WANTED | json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
