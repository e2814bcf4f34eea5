"""Runs a world once more and keeps everything of it: how a failure becomes a bundle.

A run that finds nothing costs nothing: only what has failed is run again, with a witness. Watching changes
nothing, so that the second run is the first; if it is not, that is said, since then nothing it shows counts.
The model watches as well, also where the first run was not refined: it often says no long before an invariant
does, and it names the step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from liftlog.messages import Effect, Event, Outcome
from liftlog.types import LiftlogError
from liftlog.version import VERSION
from liftlog_sim.chance.plan import DRAWN, Plan
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.devices.machine import Machine
from liftlog_sim.explain.bundle import (
    FORMAT,
    Bundle,
    Disagreed,
    Happening,
    Settings,
    TracedStep,
    Violated,
)
from liftlog_sim.explain.origins import Origins, named_node
from liftlog_sim.explain.rules import RAFT, rule_of
from liftlog_sim.explain.states import State, difference, state_of
from liftlog_sim.kernel import SECOND
from liftlog_sim.refine.clients import HeldClients
from liftlog_sim.refine.replicas import Disagreeing, Refining
from liftlog_sim.runs.runner import knobs_of, run_world
from liftlog_sim.runs.runs import RunOptions, RunResult
from liftlog_sim.runs.trace import plain, raised, raising_event
from liftlog_sim.study.loading import load_study
from liftlog_sim.sweeps.record import sources_hash
from liftlog_sim.world import World


class Witness:
    """Keeps all steps of one world. `attach` before it starts."""

    world: World

    def __init__(self) -> None:
        self.trace: list[TracedStep] = []
        self.changes: list[State] = []
        self.causes: list[list[int]] = []
        self.happenings: list[Happening] = []
        self.altered: list[int] = []
        self.disagreed: Disagreed | None = None
        self.befores: State = {}
        """What the last step changed, as it was before."""
        self._origins = Origins()
        self._states: dict[int, tuple[int, State]] = {}
        self.plan = DRAWN

    def attach(self, world: World, *, strict: bool) -> None:
        """`strict`: the model ends the run where it says no, as in a refined run."""
        self.world = world
        world.observer.on_step = self._step
        world.observer.on_raised = self._raised
        world.observer.refining = _Model(world, self, strict)
        if strict:
            world.account.held = HeldClients(world.observer.checks.counts)
        told = world.account.on_row

        def row(what: str, detail: str) -> None:
            if told is not None:
                told(what, detail)
            self.happened(what, detail)

        world.account.on_row = row

    def happened(self, what: str, detail: str) -> None:
        """Something befell the world."""
        now_us = self.world.kernel.now_us
        self.happenings.append(Happening(now_us, len(self.trace), what, detail, named_node(detail)))

    def _step(self, machine: Machine, event: Event | None, effects: list[Effect]) -> None:
        told = None if event is None else plain(event)
        self._note(machine, event, told, effects, [plain(effect) for effect in effects])

    def _raised(self, machine: Machine, event: Event | None, error: Exception) -> None:
        """A step that came to nothing: nobody else sees it."""
        started = self._states.get(machine.number, (0, {}))[0] == machine.restarts
        self._note(machine, event, raising_event(event, started), [], [raised(error)])

    def _note(
        self, machine: Machine, event: Event | None, told: Any, effects: list[Effect], asked: list[Any]
    ) -> None:
        kernel, number = self.world.kernel, machine.number
        if self.world.faults.liars.is_lie(event):
            self.altered.append(len(self.trace))
        self.trace.append(TracedStep(kernel.now_us, number, told, asked, kernel.trace_hash))
        run, before = self._states.get(number, (0, {}))
        if run != machine.restarts:
            self._origins.began(number)
        after = state_of(machine.node) if machine.node is not None else {}
        self.befores, changed = difference(before, after)
        self.changes.append(after if run != machine.restarts else changed)
        self._states[number] = machine.restarts, after
        self.causes.append(self._origins.stepped(len(self.trace) - 1, number, event, effects))

    def state_before(self, step: int, node: int) -> State:
        """What is known of a node's state before a step."""
        state: State = {}
        for traced, changed in zip(self.trace[:step], self.changes, strict=False):
            if traced.node == node:
                state = changed if traced.event is None else {**state, **changed}
        return state

    def shown_by(self, finding: str, at_us: int) -> int:
        """The step that showed a violation: the last one, or who gave a client the answer that did."""
        if not self.trace:
            return -1
        last = self.trace[-1]
        if last.hash == self.world.kernel.trace_hash:
            return len(self.trace) - 1
        node = named_node(finding)
        replied = self._origins.replies.get(node, -1)
        if replied >= 0 and at_us - self.trace[replied].at_us < SECOND // 100:
            return replied
        return len(self.trace) - 1


class _Model:
    """The model as a witness: it remembers the first step to which it says no."""

    def __init__(self, world: World, witness: Witness, strict: bool) -> None:
        self._refining = Refining(world.observer.checks.counts, world.kernel, self._judged)
        self._witness = witness
        self._strict = strict
        self._places: list[int] = []
        self.created, self.applied = self._refining.created, self._refining.applied
        self.installed, self.counters = self._refining.installed, self._refining.counters

    def stepped(self, machine: Machine, event: Event | None, outcome: Outcome) -> None:
        if self._witness.disagreed is None:
            self._places.append(len(self._witness.trace) - 1)
            self._refining.stepped(machine, event, outcome)

    def check(self) -> None:
        if self._witness.disagreed is None:
            self._refining.check()

    def _judged(self, found: Disagreeing | None) -> None:
        """What was noted since the last time is explained, but for this step."""
        places, self._places = self._places, []
        if found is None or self._witness.disagreed is not None:
            return
        step = places[found.place]
        self._witness.disagreed = Disagreed(
            model=found.model,
            at_us=found.at_us,
            at_step=step,
            node=found.node,
            action=found.action,
            finding=found.finding,
        )
        if self._strict:
            raise found.violation()


def record_world(
    options: RunOptions,
    knobs: Knobs,
    plan: Plan | None,
    attached: Callable[[World], None] | None = None,
) -> tuple[Witness, RunResult]:
    """Run a stated world with a witness."""
    witness = Witness()

    def watch(world: World) -> None:
        if attached is not None:
            attached(world)
        witness.attach(world, strict=options.refine)

    result = run_world(options, knobs, plan, watch, noting=True)
    witness.plan = witness.world.drawn()
    return witness, result


def bundle_of(
    options: RunOptions, knobs: Knobs, plan: Plan | None, expected_hash: str = "", replay: str = ""
) -> Bundle:
    """Run a world that fails, and bundle what it shows. `expected_hash`: of the run that failed. Raises
    LiftlogError if it does not fail, or runs otherwise.
    """
    from liftlog_sim.explain.story import tell

    witness, result = record_world(options, knobs, plan)
    if expected_hash and result.trace_hash != expected_hash:
        raise LiftlogError(
            f"seed {options.seed} ran otherwise the second time "
            f"({result.trace_hash}, before {expected_hash}); "
            "look for what is not determined with 'liftlog sim replay'"
        )
    if result.good and expected_hash:
        raise LiftlogError(
            f"seed {options.seed} ran through the same steps a second time, but violated nothing in them: "
            "its verdict is not determined by the seed"
        )
    if result.good:
        raise LiftlogError("nothing is violated in this world, so there is nothing to bundle")
    bundle = _bundle(witness, result, options, knobs, replay)
    return msgspec.structs.replace(bundle, story=tell(bundle))


def record_run(options: RunOptions) -> Bundle:
    """What a bundle holds, of a run that may as well be good."""
    knobs = knobs_of(options)
    return _bundle(*record_world(options, knobs, None), options, knobs, "")


def code_of(options: RunOptions) -> str:
    """A hash of the code that such a run depends on: liftlog's, and that of its studies."""
    study = load_study(options.studies).code
    return hashlib.sha256(f"{sources_hash()}{study}".encode()).hexdigest() if study else sources_hash()


def _bundle(witness: Witness, result: RunResult, options: RunOptions, knobs: Knobs, replay: str) -> Bundle:
    return Bundle(
        format=FORMAT,
        liftlog=VERSION,
        sources=code_of(options),
        seed=options.seed,
        settings=Settings(options=options, knobs=knobs),
        plan=witness.plan,
        violation=_violated(witness, result, load_study(options.studies).sentence(result.invariant)),
        disagreement=witness.disagreed,
        replay=replay or result.replay,
        trace_hash=result.trace_hash,
        story=[],
        trace=witness.trace,
        changes=witness.changes,
        causes=witness.causes,
        happenings=witness.happenings,
        altered=tuple(witness.altered),
    )


def _violated(witness: Witness, result: RunResult, own: str) -> Violated:
    """`own`: what the invariant says, if it is of a study."""
    at_us = round(result.at_s * SECOND)
    disagreed = witness.disagreed
    number, sentence = rule_of(result.invariant)
    if result.invariant == "Refinement" and disagreed is not None:
        step, node = disagreed.at_step, disagreed.node
        number, sentence = ("M1", RAFT) if disagreed.model == "raft" else ("", "")
        after = witness.changes[step]
        earlier = witness.state_before(step, node)
        before = {name: earlier[name] for name in earlier if name in after}
    else:
        step = witness.shown_by(result.finding, at_us)
        node = named_node(result.finding) or (witness.trace[step].node if step >= 0 else 0)
        is_last = step == len(witness.trace) - 1 and step >= 0
        before = witness.befores if is_last else {}
        after = {name: witness.changes[step].get(name) for name in before} if is_last else {}
    return Violated(
        invariant=result.invariant,
        finding=result.finding,
        rule=number,
        sentence=sentence or own,
        at_us=at_us,
        at_step=step,
        node=node,
        before=before,
        after=after,
    )
