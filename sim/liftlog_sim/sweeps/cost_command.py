"""`liftlog sim cost`: what refinement adds to the CPU time of a sweep.

Each seed is run without and with it in turn, in rounds that begin with the one and with the other: machines
change their speed from one second to the next, and only what is measured side by side can be compared. Of
each seed and way the least of all rounds counts, since whatever disturbs a run makes it longer.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import msgspec

from liftlog.types import LiftlogError
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.sweeps.seeds import parse_seeds, progress

WAYS = (False, True)
"""Without refinement, and with it."""


class Cost(msgspec.Struct):
    """CPU seconds of all seeds together, and steps of nodes in one run of them all."""

    seeds: int
    rounds: int
    plain_s: float
    refined_s: float
    steps: int

    @property
    def ratio(self) -> float:
        return self.refined_s / self.plain_s


def measure(seeds: range, rounds: int, advance: Callable[[], None] = lambda: None) -> Cost:
    """Run all seeds both ways. Raises LiftlogError if one violates an invariant."""
    for refine in WAYS:
        # Imports, and code that is generated once.
        _run(seeds[0], refine)
    totals, steps = [0.0, 0.0], 0
    for seed in seeds:
        best = [float("inf"), float("inf")]
        for number in range(rounds):
            for refine in WAYS if (seed + number) % 2 else reversed(WAYS):
                seconds, steps_of_run = _run(seed, refine)
                best[refine] = min(best[refine], seconds)
        steps += steps_of_run
        for refine in WAYS:
            totals[refine] += best[refine]
        advance()
    return Cost(len(seeds), rounds, totals[False], totals[True], steps)


def _run(seed: int, refine: bool) -> tuple[float, int]:
    started = time.process_time()
    result = run_seed(RunOptions(seed=seed, refine=refine))
    seconds = time.process_time() - started
    if not result.good:
        raise LiftlogError(
            f"seed {seed} violates {result.invariant}, so its time says nothing; see {result.replay}"
        )
    return seconds, result.steps


def add_cost(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser("cost", help="measure what refinement adds to the CPU time of a sweep")
    parser.add_argument("--seeds", default="0:120", metavar="A:B", help="seeds A to B-1 (default 0:120)")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="runs of each seed (default 1)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.set_defaults(run=_cost)


def _cost(arguments: argparse.Namespace) -> int:
    if not 1 <= arguments.rounds <= 100:
        raise LiftlogError(f"--rounds {arguments.rounds} is out of range; choose 1 to 100")
    seeds = parse_seeds(arguments.seeds)
    with progress(len(seeds), enabled=not arguments.json) as advance:
        cost = measure(seeds, arguments.rounds, lambda: advance(""))
    if arguments.json:
        print(msgspec.json.encode({**msgspec.structs.asdict(cost), "ratio": round(cost.ratio, 3)}).decode())
    else:
        print(
            f"{cost.seeds} seeds: {cost.plain_s:.1f} s of CPU without refinement "
            f"({cost.steps / cost.plain_s:,.0f} steps a second), {cost.refined_s:.1f} s with it: "
            f"{cost.ratio:.3f} times as much"
        )
    return 0
