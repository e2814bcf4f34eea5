"""Runs one seed: draw the world, choose the gear, and drive the world through its phases to the verdict.

What a run consists of and how it is judged is told in `runs/runs.py`.
"""

from __future__ import annotations

import time

from liftlog_sim.chance.plan import Plan
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.kernel import TimeStands
from liftlog_sim.profiles.mutants import planted
from liftlog_sim.profiles.profiles import draw_knobs
from liftlog_sim.runs.memory import collect_seldom, set_pace, tidied
from liftlog_sim.runs.runs import RunOptions, RunResult, Watch, phases, verdict
from liftlog_sim.runs.step_gear import StepProcess
from liftlog_sim.study.loading import Study, load_study
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.world import World


def run_seed(options: RunOptions, watch: Watch | None = None, *, keep_values: bool = False) -> RunResult:
    """Run one seed to its verdict. `watch` gets the world before it starts, to attach to the observer."""
    return run_world(options, knobs_of(options), None, watch, keep_values=keep_values)


def knobs_of(options: RunOptions) -> Knobs:
    """The world that the seed draws, with what the options fix of it."""
    study = load_study(options.studies)
    return draw_knobs(
        options.seed,
        profile=options.profile,
        nodes=options.nodes,
        streams=options.streams,
        duration_s=options.duration_s,
        faults=study.without_own(options.faults),
    )


def run_world(
    options: RunOptions,
    knobs: Knobs,
    plan: Plan | None,
    watch: Watch | None = None,
    *,
    keep_values: bool = False,
    noting: bool = False,
) -> RunResult:
    """Run a stated world to its verdict. What the plan leaves open is drawn. `noting`: keep what is drawn, so
    that the world (see `watch`) can give it back (`World.drawn`). Raises LiftlogError.
    """
    mutants = planted(options.mutant)
    study = load_study(options.studies)
    if study.files:
        watch = _studied(study, options, plan, watch)
    collect_seldom()
    set_pace(knobs.duration_us)
    if options.refine:
        watch = _refining(watch)
    if options.gear == "trio":
        from liftlog_sim.runs.trio_gear import run_on_trio

        return run_on_trio(options, knobs, plan, mutants, study.names, watch, keep_values, noting)
    started = time.process_time()
    world = World(
        options.seed,
        knobs,
        StepProcess,
        mutants,
        plan=plan,
        keep_values=keep_values,
        noting=noting,
        own=study.names,
    )
    if watch is not None:
        watch(world)
    violation: Violation | None = None
    try:
        for end_us in tidied(phases(world), knobs.duration_us):
            world.kernel.run_until(end_us)
    except Violation as found:
        violation = found
    except TimeStands as stuck:
        violation = Violation("TimePasses", str(stuck))
    return verdict(options, world, violation, time.process_time() - started)


def _studied(study: Study, options: RunOptions, plan: Plan | None, watch: Watch | None) -> Watch:
    """What a study adds comes first: who watches sees it."""

    def both(world: World) -> None:
        study.attach(world, plan, options.faults)
        if watch is not None:
            watch(world)

    return both


def _refining(watch: Watch | None) -> Watch:
    """The model watches as well."""
    from liftlog_sim.refine.clients import HeldClients
    from liftlog_sim.refine.replicas import Refining

    def both(world: World) -> None:
        world.observer.refining = Refining(world.observer.checks.counts, world.kernel)
        world.account.held = HeldClients(world.observer.checks.counts)
        if watch is not None:
            watch(world)

    return both
