"""The simulated parts of the demo: a sweep with faults, and one planted bug being caught."""

from __future__ import annotations

from typing import Any

import msgspec

from liftlog.demo.display import Display
from liftlog.rooms import room_module

PLANTED = "truncate_to_hw"
PLANTED_SEEDS_MAX = 1000


class SimulationResult(msgspec.Struct):
    """What a sweep did and found. `failures` are the lines that replay each violation."""

    seeds: int
    violations: int
    failures: list[str]
    unreached: list[str]
    checks: int
    checks_by_invariant: dict[str, int]
    faults: int
    counters: dict[str, int]
    simulated_seconds: float
    seconds: float


class PlantedResult(msgspec.Struct):
    """How the planted bug was found, and that the same seed is clean without it."""

    mutant: str
    caught: bool
    seed: int
    invariant: str
    finding: str
    replay: str
    clean_without: bool


def sweep(seeds: int, jobs: int, display: Display) -> SimulationResult:
    """Simulate `seeds` clusters, with a progress bar; tell which invariants were checked how often."""
    runs, sweeper = room_module("liftlog_sim.runs.runs"), room_module("liftlog_sim.sweeps.sweep")
    options = [runs.RunOptions(seed=seed, refine=True) for seed in range(seeds)]
    with display.bar("clusters simulated", seeds) as bar:
        done: Any = sweeper.run_sweep(options, jobs, lambda number, total, result: bar.update(number))
    faults = sum(count for name, count in done.counters.items() if name.startswith("fault "))
    result = SimulationResult(
        seeds=seeds,
        violations=len(done.failed),
        failures=[failed.replay for failed in done.failed],
        unreached=list(done.unreached),
        checks=sum(done.checks.values()),
        checks_by_invariant=dict(done.checks),
        faults=faults,
        counters=dict(done.counters),
        simulated_seconds=done.simulated_s,
        seconds=done.seconds,
    )
    _tell(result, display)
    return result


def _tell(result: SimulationResult, display: Display) -> None:
    display.line(
        f"{result.seeds} clusters, {result.simulated_seconds:,.0f} s of their time in "
        f"{result.seconds:.0f} s: {result.faults:,} faults, {_count(result, 'elections')} elections, "
        f"{_count(result, 'truncations')} truncations, {_count(result, 'acks received')} acks"
    )
    display.table(
        ("invariant", "checked"), [(n, f"{c:,}") for n, c in result.checks_by_invariant.items() if c]
    )
    if result.failures:
        display.line(f"{result.violations} violations; the first replays with: {result.failures[0]}")
    elif result.unreached:
        display.line(f"no violation, but never reached: {', '.join(result.unreached)}")
    else:
        display.line("no violation")


def _count(result: SimulationResult, name: str) -> str:
    return f"{result.counters.get(name, 0):,}"


def catch_planted_bug(display: Display) -> PlantedResult:
    """Switch the bug on and simulate seed after seed until an invariant fails; then once without it."""
    runner, runs = room_module("liftlog_sim.runs.runner"), room_module("liftlog_sim.runs.runs")
    with display.busy(f"looking for a seed that shows '{PLANTED}'"):
        for seed in range(PLANTED_SEEDS_MAX):
            found = runner.run_seed(runs.RunOptions(seed=seed, mutant=PLANTED))
            if not found.good:
                break
        clean = runner.run_seed(runs.RunOptions(seed=seed))
    result = PlantedResult(
        mutant=PLANTED,
        caught=not found.good,
        seed=seed,
        invariant=found.invariant,
        finding=found.finding,
        replay=found.replay,
        clean_without=clean.good,
    )
    if not result.caught:
        display.line(f"NOT caught in {PLANTED_SEEDS_MAX} seeds: the simulator has become blunt")
        return result
    display.line(f"caught by {found.invariant} at {found.at_s:.1f} s of seed {seed}: {found.finding}")
    display.line(f"without the bug, seed {seed} is {'clean' if clean.good else 'NOT clean'}; replay it with:")
    display.line(f"    {found.replay}")
    return result
