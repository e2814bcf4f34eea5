"""Runs many seeds on several processes and says what they reached.

A sweep proves little if the interesting cases never came up, so it counts them: elections, truncations, ISR
changes, every fault, and every case of a protocol rule that the node marks as reached. From `FULL_SEEDS`
seeds on, with all faults, a sweep in which one of the required cases stayed at zero fails; a smaller one
must have reached the basic ones from `BASIC_SEEDS` seeds on, and one of `GUARD_SEEDS` every guard
(`audit/coverage.py`).
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from liftlog.types import LiftlogError
from liftlog_sim.audit.coverage import GUARD_SEEDS, undecided
from liftlog_sim.audit.required import REQUIRED_MARKS
from liftlog_sim.chance.fault_plan import DISK_KINDS, KINDS
from liftlog_sim.refine.replicas import BASIC_ACTIONS, required_actions
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions, RunResult
from liftlog_sim.study.loading import load_study
from liftlog_sim.sweeps.canary import sing
from liftlog_sim.sweeps.catching import Caught
from liftlog_sim.truth.names import (
    COMPACTION_INVARIANTS,
    FINAL_INVARIANTS,
    GROUP_INVARIANTS,
    RARE_INVARIANTS,
    RECOVERY_INVARIANTS,
    SICK_INVARIANTS,
    SNAPSHOT_INVARIANTS,
    STEP_INVARIANTS,
)

OWN_SEEDS = 10
"""In so many, all of a study must have come up."""
BASIC_SEEDS = 50
FULL_SEEDS = 500

BASIC = (
    "elections",
    "raft elections",
    "truncations",
    "ISR changes",
    "fault kill",
    "fault power",
    "acks",
    "reads",
)
"""Counters that any sweep with all faults must have moved."""

REQUIRED_COUNTERS = (
    *BASIC,
    *(f"fault {kind}" for kind in KINDS),
    "raft truncations",
    "crashes inside",
    "rebuilds",
    "refusals",
    "no responders",
    "latest offsets",
    "messages duplicated",
    "messages lost",
    "repairs",
    "ranges repaired",
    "compactions",
    "tombstones dropped",
    "readers at the HW",
    "lookups by time",
    "log starts moved",
    "log resets",
    "purges",
    "frames flipped",
    "lies refused",
    "lies refused as bytes",
    "strangers heard",
    "strangers refused at the greeting",
    "strangers refused by a client's door",
    "strangers refused by the API",
)

DISK_FAULTS = "disk"
"""A sweep with `--faults disk` is judged by these instead."""
DISK_COUNTERS = (
    *(f"fault {kind}" for kind in (*DISK_KINDS, "power", "kill", "crash_inside")),
    "acks",
    "reads",
    "rebuilds",
    "repairs",
    "ranges repaired",
    "scrubs",
    "damage found by a scrub",
    "damage found by a read",
    "damaged opens",
    "compactions",
    "tombstones dropped",
    "readers at the HW",
    "log starts moved",
    "lookups by time",
    "metadata refused",
)


class SweepResult(msgspec.Struct, kw_only=True):
    """What a sweep found. `failed` lists the seeds that violated an invariant."""

    seeds: int
    good: bool
    failed: list[RunResult]
    unreached: list[str]
    simulated_s: float
    seconds: float
    cpu_s: float
    events: int
    counters: dict[str, int]
    marks: dict[str, int]
    checks: dict[str, int]
    profiles: dict[str, int]
    refined: dict[str, int]
    encounters: dict[str, int]
    """By "operation | fault | state" (`watching/encounters.py`)."""
    canary: Caught | None = None
    """The bug that was planted to see whether it is noticed (`sweeps/canary.py`)."""


Progress = Callable[[int, int, RunResult], None]
"""Called after each seed with (done, total, its result)."""


def run_sweep(
    options: Sequence[RunOptions], jobs: int, progress: Progress | None = None, *, canary: bool = False
) -> SweepResult:
    """Run every entry of `options`, `jobs` at a time. The result does not depend on `jobs`.

    `canary`: also plant a bug in a world of its own, and fail if nothing notices it.
    """
    started = time.monotonic()
    planted = sing(options[0].seed) if canary else None
    failed: list[RunResult] = []
    counters: dict[str, int] = {}
    marks: dict[str, int] = {}
    kinds = (
        *(STEP_INVARIANTS, COMPACTION_INVARIANTS, SNAPSHOT_INVARIANTS, RECOVERY_INVARIANTS),
        *(GROUP_INVARIANTS, SICK_INVARIANTS, FINAL_INVARIANTS),
    )
    checks = dict.fromkeys((name for kind in kinds for name in kind), 0)
    profiles: dict[str, int] = {}
    refined: dict[str, int] = {}
    encounters: dict[str, int] = {}
    simulated_s = cpu_s = 0.0
    events = 0
    for done, result in enumerate(results_of(options, jobs), 1):
        if not result.good:
            failed.append(result)
        for total, found in (
            (counters, result.counters),
            (marks, result.marks),
            (checks, result.checks),
            (refined, result.refined),
            (encounters, result.encounters),
        ):
            for name, number in found.items():
                total[name] = total.get(name, 0) + number
        profiles[result.profile] = profiles.get(result.profile, 0) + 1
        simulated_s += result.simulated_s
        cpu_s += result.seconds
        events += result.events
        if progress is not None:
            progress(done, len(options), result)
    unreached = _unreached(options, counters, marks, checks) + _not_refined(options, refined)
    if len(options) >= OWN_SEEDS:
        unreached += load_study(options[0].studies).unreached(counters, checks)
    failed.sort(key=lambda result: result.seed)
    return SweepResult(
        seeds=len(options),
        good=not failed and not unreached and (planted is None or planted.caught),
        failed=failed,
        unreached=unreached,
        simulated_s=simulated_s,
        seconds=time.monotonic() - started,
        cpu_s=cpu_s,
        events=events,
        counters=dict(sorted(counters.items())),
        marks=dict(sorted(marks.items())),
        checks=checks,
        profiles=dict(sorted(profiles.items())),
        refined=dict(sorted(refined.items())),
        encounters=dict(sorted(encounters.items())),
        canary=planted,
    )


def _unreached(
    options: Sequence[RunOptions], counters: dict[str, int], marks: dict[str, int], checks: dict[str, int]
) -> list[str]:
    """Required cases that never came up, as far as a sweep of this size and kind must reach them."""
    if any(each.profile or each.duration_s or each.mutant for each in options):
        return []
    missing: list[str] = []
    if all(each.faults == DISK_FAULTS for each in options) and len(options) >= FULL_SEEDS:
        return [name for name in DISK_COUNTERS if not counters.get(name)] + _unchecked(
            checks,
            (*STEP_INVARIANTS, *COMPACTION_INVARIANTS, *SNAPSHOT_INVARIANTS, *FINAL_INVARIANTS),
        )
    if any(each.faults != "all" for each in options):
        return []
    if len(options) >= BASIC_SEEDS:
        missing += [name for name in BASIC if not counters.get(name)]
        missing += _unchecked(checks, [name for name in STEP_INVARIANTS if name not in RARE_INVARIANTS])
    if len(options) >= FULL_SEEDS:
        kinds = (RARE_INVARIANTS, COMPACTION_INVARIANTS, GROUP_INVARIANTS, SICK_INVARIANTS, FINAL_INVARIANTS)
        rare = [name for kind in kinds for name in kind]
        missing += _unchecked(checks, rare)
        missing += [name for name in REQUIRED_COUNTERS if not counters.get(name) and name not in missing]
        missing += [name for name in REQUIRED_MARKS if not marks.get(name)]
    if len(options) >= GUARD_SEEDS:
        missing += [f"guard {name}" for name in undecided(marks, len(options))]
    return missing


def _not_refined(options: Sequence[RunOptions], refined: dict[str, int]) -> list[str]:
    """Actions of the model that no step was. All of them are wanted of a full sweep."""
    if not all(each.refine for each in options):
        return []
    if any(each.profile or each.duration_s or each.mutant or each.faults != "all" for each in options):
        return []
    wanted: Sequence[str] = ()
    if len(options) >= FULL_SEEDS:
        wanted = required_actions()
    elif len(options) >= BASIC_SEEDS:
        wanted = BASIC_ACTIONS
    return [f"action {name}" for name in wanted if not refined.get(name)]


def _unchecked(checks: dict[str, int], wanted: Sequence[str]) -> list[str]:
    return [f"invariant {name}" for name in wanted if not checks.get(name)]


def results_of(options: Sequence[RunOptions], jobs: int) -> Iterator[RunResult]:
    """Results in the order in which they are done; on one process if `jobs` is 1."""
    if jobs <= 1 or len(options) <= 1:
        yield from map(_result_of, options)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(min(jobs, len(options)), initializer=_quiet) as pool:
        yield from pool.imap_unordered(
            _result_of, options, chunksize=max(1, min(8, len(options) // (4 * jobs)))
        )


def _result_of(options: RunOptions) -> RunResult:
    """Raises LiftlogError that names the seed, and how to see more, where the simulator itself fails."""
    try:
        return run_seed(options)
    except LiftlogError:
        raise
    except Exception as error:
        raise LiftlogError(
            f"the simulator itself fails in seed {options.seed} ({type(error).__name__}: {error}); "
            f"see where with: {options.replay_command()}"
        ) from error


def _quiet() -> None:
    """A worker leaves Ctrl-C to its parent and imports from the same folders."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def default_jobs() -> int:
    """One process for each core that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
