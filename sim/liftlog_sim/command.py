"""`liftlog sim`: run one seed, sweep many, plant bugs, replay, run directed scenarios.

Exit codes: 0 nothing was violated; 1 an invariant was violated, a sweep reached too little, or a mutant
survived; 2 wrong use. Every failure prints the one command that replays it.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from liftlog.types import LiftlogError
from liftlog_sim.audit import audit
from liftlog_sim.audit.coverage import table
from liftlog_sim.bench.command import add_bench
from liftlog_sim.catalogue.command import add_mutants
from liftlog_sim.cover.command import add_cover
from liftlog_sim.directed.command import add_scenario
from liftlog_sim.explain.commands import (
    add_failures,
    add_shrink,
    check_failures,
    explain_run,
    explain_sweep,
    print_bundles,
    replay_bundle,
    why_of,
)
from liftlog_sim.fuzz.command import add_fuzz
from liftlog_sim.kernel import SECOND
from liftlog_sim.page.command import add_report
from liftlog_sim.profiles.mutants import planted
from liftlog_sim.refine.replicas import summary
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions, RunResult
from liftlog_sim.study.loading import load_study
from liftlog_sim.sweeps.canary import told
from liftlog_sim.sweeps.seeds import parse_seeds, progress
from liftlog_sim.sweeps.sweep import SweepResult, default_jobs, run_sweep
from liftlog_sim.world import World

ROW_WIDTH = 62
STEP_OF_REPORT_S = 5.0


def add_parser(subparsers: Any) -> None:
    """Add `sim` and its verbs."""
    sim = subparsers.add_parser("sim", help="simulate a cluster with faults, from a seed")
    verbs = sim.add_subparsers(dest="verb", required=True)
    _add_run(verbs, "run", "run one seed and print what happens")
    _add_run(verbs, "replay", "run one seed twice and check that both runs are the same, step by step")
    sweep = verbs.add_parser("sweep", help="run many seeds and count what they reached")
    sweep.add_argument("--seeds", default="0:100", metavar="A:B", help="seeds A to B-1 (default 0:100)")
    sweep.add_argument("--jobs", type=int, metavar="N", help="processes (default: one a core)")
    sweep.add_argument(
        "--record",
        type=Path,
        default=None,
        metavar="FILE",
        help="write down that this sweep was clean, and of which code",
    )
    sweep.add_argument(
        "--coverage", action="store_true", help="also print how often each guard of a rule was decisive"
    )
    add_failures(sweep, sweep=True)
    sweep.add_argument(
        "--twice",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="run this share of the seeds twice, with other hash seeds, and name what parts them",
    )
    sweep.add_argument(
        "--audit",
        action="store_true",
        help="fail for what never came up, unless there is a reason: faults, cases of rules, guards, actions "
        "of models, operations under faults in states",
    )
    _add_world(sweep, refine=True)
    sweep.set_defaults(run=_sweep)
    add_mutants(verbs)
    add_scenario(verbs)
    add_bench(verbs)
    add_cover(verbs)
    add_fuzz(verbs)
    add_shrink(verbs)
    add_report(verbs)


def _add_run(verbs: Any, name: str, summary: str) -> None:
    parser = verbs.add_parser(name, help=summary)
    if name == "replay":
        parser.add_argument("bundle", nargs="?", type=Path, metavar="BUNDLE", help="or --seed N")
    parser.add_argument("--seed", type=int, required=name == "run", metavar="N")
    parser.add_argument(
        "--why", type=int, metavar="STEP", help="tell what caused this step instead of what happened"
    )
    if name == "run":
        add_failures(parser)
    parser.add_argument(
        "--mutant", default="", metavar="NAME", help="plant a bug (see 'liftlog sim mutants --list')"
    )
    parser.add_argument(
        "--trace", type=Path, default=None, metavar="FILE", help="write every step as a JSON line"
    )
    parser.add_argument(
        "--history",
        type=Path,
        default=None,
        metavar="PATH",
        help="write what clients saw: FILE.jsonl or a Parquet folder",
    )
    parser.add_argument("--quiet", action="store_true", help="no status rows")
    _add_world(parser)
    parser.set_defaults(run=_run if name == "run" else _replay)


def _add_world(parser: argparse.ArgumentParser, *, refine: bool = False) -> None:
    parser.add_argument("--nodes", type=int, default=0, metavar="N", help="default: drawn from the seed")
    parser.add_argument("--streams", type=int, default=0, metavar="N", help="default: drawn from the seed")
    parser.add_argument("--duration", type=float, default=0, metavar="SECONDS", help="simulated; default 60")
    parser.add_argument(
        "--faults",
        default="all",
        metavar="LIST",
        help="all, none, a profile, or fault kinds separated by commas",
    )
    parser.add_argument(
        "--profile", default="", metavar="NAME", help="fault profile; default: drawn from the seed"
    )
    parser.add_argument(
        "--gear", choices=("step", "trio"), default="step", help="trio: run the production driver"
    )
    parser.add_argument(
        "--refine",
        action=argparse.BooleanOptionalAction,
        default=refine,
        help=f"check every step against the models; default: {'yes' if refine else 'no'}",
    )
    parser.add_argument(
        "--with",
        action="append",
        default=[],
        dest="studies",
        metavar="FILE",
        help="own faults, clients and invariants (docs/simulator.md, 'A guide for researchers')",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def _options(arguments: argparse.Namespace, seed: int, mutant: str = "") -> RunOptions:
    planted(mutant)
    load_study(arguments.studies)
    if seed < 0:
        raise LiftlogError(f"seed {seed} is out of range; choose 0 or more")
    for name, least, most in (("nodes", 1, 9), ("streams", 1, 20), ("duration", 0.1, 100_000)):
        value = getattr(arguments, name)
        if value and not least <= value <= most:
            raise LiftlogError(f"--{name} {value:g} is out of range; choose {least:g} to {most:g}")
    return RunOptions(
        seed=seed,
        profile=arguments.profile,
        nodes=arguments.nodes,
        streams=arguments.streams,
        duration_s=arguments.duration,
        faults=arguments.faults,
        gear=arguments.gear,
        mutant=mutant,
        refine=arguments.refine,
        studies=tuple(arguments.studies),
    )


def _print_json(value: object) -> None:
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


# -- one seed ------------------------------------------------------------------------------------------------


class _Rows:
    """Status rows: when something happens, and where everybody is then."""

    def __init__(self, world: World) -> None:
        self._world = world
        world.account.on_row = self._row
        print(
            f"seed {world.seed}: {world.knobs.nodes} nodes, {len(world.knobs.streams)} streams, "
            f"profile {world.knobs.profile}, {world.knobs.duration_us // SECOND} s and healing"
        )
        print(
            "a cell is: node, * controller, t term, c commit, then per partition its role "
            "(L leader, f follower), e epoch, HW/LEO"
        )

    def _row(self, what: str, detail: str) -> None:
        now_s = self._world.kernel.now_us / SECOND
        print(f"{now_s:9.4f} {what:<15.15} {detail:<{ROW_WIDTH}} {self._world.cluster.status()}")


def _watched(arguments: argparse.Namespace, options: RunOptions, *, quiet: bool) -> tuple[RunResult, World]:
    """Run a seed with what the command line wants attached to it."""
    from liftlog_sim.runs.history import Logs, check_writable, history_of, listen, write
    from liftlog_sim.runs.trace import WorldTraceWriter

    if arguments.history is not None:
        check_writable(arguments.history)
    seen: list[tuple[World, Logs | None]] = []
    with _trace(arguments.trace) as trace:

        def watch(world: World) -> None:
            if not quiet:
                _Rows(world)
            if isinstance(trace, WorldTraceWriter):
                trace.attach(world)
            seen.append((world, listen(world) if arguments.history is not None else None))

        result = run_seed(options, watch, keep_values=arguments.history is not None)
    world, logs = seen[0]
    if logs is not None:
        write(history_of(world, options, result, logs), arguments.history)
    return result, world


@contextlib.contextmanager
def _trace(path: Path | None) -> Iterator[object]:
    from liftlog_sim.runs.trace import WorldTraceWriter

    if path is None:
        yield None
        return
    try:
        writer = WorldTraceWriter(path)
        with writer:
            yield writer
    except OSError as error:
        raise LiftlogError(f"cannot write the trace {path}: {error.strerror}; choose another path") from error


def _run(arguments: argparse.Namespace) -> int:
    check_failures(arguments)
    options = _options(arguments, arguments.seed, arguments.mutant)
    if arguments.why is not None:
        lines = why_of(options, arguments.why)
        if arguments.json:
            _print_json({"step": arguments.why, "why": lines})
        else:
            print("\n".join(lines))
        return 0
    result, _ = _watched(arguments, options, quiet=arguments.json or arguments.quiet)
    if not arguments.json:
        _print_verdict(result)
    bundle = ""
    if not result.good:
        bundle = explain_run(options, result, arguments.failures, quiet=arguments.json)
    if arguments.json:
        _print_json({**msgspec.to_builtins(result), "bundle": bundle})
    return 0 if result.good else 1


def _refuse_world(arguments: argparse.Namespace) -> None:
    """A bundle states its world itself. Raises LiftlogError for what would be ignored."""
    parser = argparse.ArgumentParser()
    _add_world(parser)
    given = [] if not arguments.mutant else ["--mutant"]
    given += [f"--{name}" for name in ("trace", "history") if getattr(arguments, name) is not None]
    for action in parser._actions:
        if action.dest not in ("help", "json") and getattr(arguments, action.dest) != action.default:
            given.append(action.option_strings[0])
    if given:
        raise LiftlogError(
            f"{', '.join(given)}: a bundle says itself what its world, its planted bug and its studies are; "
            "leave that out, or replay another world with --seed N"
        )


def _replay(arguments: argparse.Namespace) -> int:
    """The same seed twice, or a bundle once more: the trace hash says whether every step was the same."""
    if (arguments.seed is None) == (arguments.bundle is None):
        raise LiftlogError("say what to replay: a bundle, or --seed N")
    if arguments.bundle is not None:
        _refuse_world(arguments)
        replayed, lines = replay_bundle(arguments.bundle, arguments)
        if arguments.json:
            _print_json(replayed)
        else:
            print("\n".join(lines))
        return 0 if replayed.same else 1
    options = _options(arguments, arguments.seed, arguments.mutant)
    result, _ = _watched(arguments, options, quiet=arguments.json or arguments.quiet)
    again = run_seed(options)
    same = result.trace_hash == again.trace_hash
    if arguments.json:
        _print_json(
            {"same": same, "trace_hash": result.trace_hash, "again": again.trace_hash, "result": result}
        )
    else:
        _print_verdict(result)
        print(f"replayed: {'the same' if same else 'NOT the same'} ({result.trace_hash}, {again.trace_hash})")
    return 0 if same and result.good else 1


def _print_verdict(result: RunResult) -> None:
    counters = ", ".join(f"{name} {number}" for name, number in result.counters.items())
    print(
        f"\n{result.simulated_s:.1f} s simulated in {result.seconds:.2f} s: "
        f"{result.events} events, {result.steps} steps"
    )
    print(f"happened: {counters}")
    print(f"checked: {', '.join(f'{name} {number}' for name, number in result.checks.items() if number)}")
    for line in summary(result.refined):
        print(line)
    print(f"trace hash {result.trace_hash}")
    if result.good:
        print("verdict: no invariant was violated")
    else:
        print(f"verdict: {result.invariant} is violated at {result.at_s:.6f} s\n  {result.finding}")
        print(f"replay with: {result.replay}")


# -- many seeds
# ------------------------------------------------------------------------------------------------


def _sweep(arguments: argparse.Namespace) -> int:
    from liftlog_sim.sweeps.record import check_place, sources_hash, write_record
    from liftlog_sim.sweeps.twice import chosen, partings

    check_failures(arguments)
    sources = ""
    if arguments.record is not None:
        check_place(arguments.record)
        sources = sources_hash()
        if arguments.studies:
            raise LiftlogError("--record is of liftlog's own worlds: leave --with out")
    options = [_options(arguments, seed) for seed in parse_seeds(arguments.seeds)]
    if arguments.audit and any(each != RunOptions(seed=each.seed, refine=True) for each in options):
        raise LiftlogError("--audit is for sweeps of everything: leave all options of the worlds out")
    jobs = default_jobs() if arguments.jobs is None else arguments.jobs
    if jobs < 1:
        raise LiftlogError(f"--jobs {jobs} is out of range; choose 1 or more")
    again = chosen(options, arguments.twice)
    with progress(len(options), enabled=not arguments.json) as advance:

        def step(done: int, total: int, result: RunResult) -> None:
            advance(
                "" if result.good else f"seed {result.seed}: {result.invariant}; replay with: {result.replay}"
            )

        result = run_sweep(options, jobs, step, canary=True)
    parted = list(partings(again, jobs))
    bundles, unbundled = explain_sweep(options, result.failed, arguments)
    audited = _audited(result) if arguments.audit else None
    if arguments.json:
        twice = {"seeds": len(again), "parted": msgspec.to_builtins(parted)}
        found = {**msgspec.to_builtins(result), "bundles": [str(path) for path in bundles]}
        found |= {"unbundled": unbundled, "twice": twice}
        found |= {} if audited is None else {"audit": audited}
        _print_json({**found, "good": result.good and not parted})
    else:
        _print_twice(len(again), parted)
        _print_sweep(result)
        print_bundles(bundles, unbundled, len(result.failed))
        if arguments.coverage:
            print("\n".join(table(result.marks, result.seeds)))
        if audited is not None:
            print("\n".join(audit.told(audited)))
    if arguments.record is not None and result.good and not parted:
        write_record(arguments.record, arguments.seeds, options[0], result, sources)
    return 0 if result.good and not parted and (audited is None or audited.good) else 1


def _print_twice(seeds: int, parted: list[Any]) -> None:
    """What came of running some seeds twice, if any were."""
    if seeds:
        found = f"{len(parted)} parted" if parted else "none parted"
        print(f"run twice: {seeds} seeds, in processes with other hash seeds; {found}")
    for one in parted:
        print("\n".join(one.lines()))


def _audited(result: SweepResult) -> audit.Audit:
    found = audit.numbers(result.counters, result.marks, result.refined, result.encounters)
    return audit.judge(found, result.seeds, audit.reasons())


def _print_sweep(result: Any) -> None:
    print(
        f"{result.seeds} seeds, {result.simulated_s:,.0f} s simulated in {result.seconds:.1f} s "
        f"({result.cpu_s / max(1, result.seeds):.3f} s a seed, {result.events:,} events)"
    )
    for title, numbers in (
        ("happened", result.counters),
        ("rules reached", result.marks),
        ("invariants checked", result.checks),
        ("profiles", result.profiles),
    ):
        print(f"{title}: " + ", ".join(f"{name} {number:,}" for name, number in numbers.items()))
    for line in summary(result.refined):
        print(line)
    for failure in result.failed:
        print(f"seed {failure.seed} ({failure.profile}) violates {failure.invariant}: {failure.finding}")
        print(f"  replay with: {failure.replay}")
    if result.unreached:
        print(f"never reached, so this sweep proves too little: {', '.join(result.unreached)}")
    if result.canary is not None:
        print(told(result.canary))
    print("verdict: " + ("no invariant was violated" if result.good else "FAILED"))
