"""How many simulated seconds a CPU second brings, where it goes, and what memory a run takes.

Machines change their speed from one second to the next, so only what runs side by side is compared. In each
round every seed is run in every way in turn, the ways in another order each time, and each checkout in a
process of its own that waits meanwhile. A round is all seeds together; of the rounds the median
counts, and of two ways the median of the rounds' ratios. What happens only once in a process, imports and
generated code, is over by then: all seeds have been run before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import msgspec

from liftlog.types import LiftlogError
from liftlog_sim.bench.process import BenchRun, BenchWorker, RunCost

NODES = 3
STEP, TRIO, PLAIN, OTHER = "step", "trio", "not refined", "other"
"""The ways: both gears with everything on, the step gear without refinement, another checkout's step gear."""
WAYS = (STEP, TRIO, PLAIN)
PEAK_SEEDS = 3


class BenchPlan(msgspec.Struct, frozen=True):
    """What to measure. `other`: a checkout to compare with; `minutes`: of the long run, 0 = none."""

    seeds: Sequence[int]
    rounds: int
    duration_s: float
    other: Path | None = None
    minutes: int = 0


class Rate(msgspec.Struct, frozen=True):
    """Simulated seconds for each CPU second. `ratio`: how many times the CPU time of the step gear the same
    simulated time takes. Of both also the least and the most of all rounds."""

    median: float
    least: float
    most: float
    ratio: float
    ratio_least: float
    ratio_most: float


class Shares(msgspec.Struct, frozen=True):
    """Of the time of one round. `doors`: how many times as long it took since it was looked at."""

    parts: dict[str, float]
    doors: float


class Memory(msgspec.Struct, frozen=True):
    """In MB: of a fresh process before a run of `seed`, and at its greatest."""

    seed: int
    before_mb: float
    peak_mb: float


class LongRun(msgspec.Struct, frozen=True):
    """A long run of `seed`: MB at each simulated minute, MB that its disks held, and how many records were
    committed by then.
    """

    seed: int
    mb: list[float]
    disks_mb: list[float]
    committed: list[int]
    simulated_s: float
    cpu_s: float

    def growth_kb(self) -> tuple[float, float]:
        """In the second half, for each simulated minute: of the process, and of the disks in it."""
        middle = len(self.mb) // 2
        minutes = max(1, len(self.mb) - 1 - middle)
        grown = [(series[-1] - series[middle]) * 1000 / minutes for series in (self.mb, self.disks_mb)]
        return grown[0], grown[1]


class Bench(msgspec.Struct, frozen=True):
    """All of it. `same`: whether the other checkout's runs had the same trace hashes; None without one."""

    seeds: int
    nodes: int
    rounds: int
    simulated_s: float
    steps: int
    rates: dict[str, Rate]
    shares: dict[str, Shares]
    memory: Memory
    minutes: LongRun | None
    other: str
    same: bool | None


class _Way:
    """One way to run all seeds, and what each round took."""

    def __init__(self, name: str, worker: BenchWorker, duration_s: float) -> None:
        self.name = name
        self.rounds: list[list[RunCost]] = []
        self._worker = worker
        self._duration_s = duration_s

    def run(self, seed: int, parts: bool = False) -> RunCost:
        return self._worker.run(
            BenchRun(
                seed=seed,
                nodes=NODES,
                duration_s=self._duration_s,
                gear="trio" if self.name == TRIO else "step",
                refine=self.name != PLAIN,
                parts=parts,
            )
        )

    def cpu_s(self, number: int) -> float:
        """Of one simulated second, in this round."""
        took = self.rounds[number]
        return sum(one.cpu_s for one in took) / sum(one.simulated_s for one in took)


def runs_of(plan: BenchPlan) -> int:
    """How often `measure` calls `advance`."""
    return len(plan.seeds) * (plan.rounds + 1) * (len(WAYS) + (plan.other is not None))


def measure(plan: BenchPlan, advance: Callable[[], None] = lambda: None) -> Bench:
    """Run everything. Raises LiftlogError."""
    seeds = plan.seeds
    with ExitStack() as stack:
        ours = stack.enter_context(BenchWorker())
        ways = [_Way(name, ours, plan.duration_s) for name in WAYS]
        if plan.other is not None:
            ways.append(_Way(OTHER, stack.enter_context(BenchWorker(plan.other)), plan.duration_s))
        for number in range(-1, plan.rounds):
            _round(ways, seeds, number, advance)
        shares = {way.name: _shares(way, seeds) for way in ways if way.name in (STEP, TRIO)}
    first = ways[0].rounds[0]
    same = None
    if plan.other is not None:
        same = [one.trace_hash for one in first] == [one.trace_hash for one in ways[-1].rounds[0]]
    return Bench(
        seeds=len(seeds),
        nodes=NODES,
        rounds=plan.rounds,
        simulated_s=sum(one.simulated_s for one in first),
        steps=sum(one.steps for one in first),
        rates={way.name: _rate(way, ways[0]) for way in ways},
        shares=shares,
        memory=_memory(plan),
        minutes=long_run(seeds[0], plan.minutes) if plan.minutes else None,
        other=str(plan.other) if plan.other is not None else "",
        same=same,
    )


def _round(ways: Sequence[_Way], seeds: Sequence[int], number: int, advance: Callable[[], None]) -> None:
    """Run every seed in every way; what round -1 takes does not count."""
    found: list[list[RunCost]] = [[] for _ in ways]
    for seed_place, seed in enumerate(seeds):
        for turn in range(len(ways)):
            place = (number + seed_place + turn) % len(ways)
            found[place].append(ways[place].run(seed))
            advance()
    if number >= 0:
        for way, took in zip(ways, found, strict=True):
            way.rounds.append(took)


def _rate(way: _Way, step: _Way) -> Rate:
    rates = [1 / way.cpu_s(number) for number in range(len(way.rounds))]
    ratios = [way.cpu_s(number) / step.cpu_s(number) for number in range(len(way.rounds))]
    return Rate(median(rates), min(rates), max(rates), median(ratios), min(ratios), max(ratios))


def _shares(way: _Way, seeds: Sequence[int]) -> Shares:
    """One more round, each seed with doors and without."""
    parts: dict[str, float] = {}
    with_doors_s = without_s = 0.0
    for seed in seeds:
        took = way.run(seed, parts=True)
        with_doors_s += took.cpu_s
        without_s += way.run(seed).cpu_s
        for name, seconds in took.parts.items():
            parts[name] = parts.get(name, 0.0) + seconds
    whole = sum(parts.values())
    return Shares({name: seconds / whole for name, seconds in parts.items()}, with_doors_s / without_s)


def _memory(plan: BenchPlan) -> Memory:
    """The most that a run of the first seeds takes, each in a fresh process."""
    found = []
    for seed in plan.seeds[:PEAK_SEEDS]:
        with BenchWorker() as worker:
            took = worker.run(BenchRun(seed=seed, nodes=NODES, duration_s=plan.duration_s))
        found.append(Memory(seed, took.before_mb, took.peak_mb))
    return max(found, key=lambda memory: memory.peak_mb)


def long_run(seed: int, minutes: int) -> LongRun:
    """The memory of one seed over so many simulated minutes. Raises LiftlogError."""
    with BenchWorker() as worker:
        took = worker.run(BenchRun(seed=seed, nodes=NODES, duration_s=minutes * 60, minutes=True))
    if len(took.minutes) < minutes:
        raise LiftlogError(f"seed {seed} lived for {len(took.minutes)} simulated minutes, not for {minutes}")
    mb, disks_mb, committed = zip(*took.minutes[:minutes], strict=True)
    return LongRun(seed, list(mb), list(disks_mb), list(committed), took.simulated_s, took.cpu_s)
