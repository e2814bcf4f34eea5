"""Simulated runs checked step by step against the ISR model, while they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from liftlog.cli import main
from liftlog.core.metadata.metadata import Metadata
from liftlog.messages import Effect, ElectLeaderRequest, Event, Outcome
from liftlog.trace.replica_lines import Step
from liftlog.trace.replica_recorder import Recorder
from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.refine.replicas import BASIC_ACTIONS, required_actions, summary
from liftlog_sim.runs.runner import knobs_of, run_seed, run_world
from liftlog_sim.runs.runs import RunOptions, RunResult
from liftlog_sim.world import World
from liftlog_spec.refine.checker import Refinement

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("gear", ["step", "trio"])
def test_a_run_is_the_same_with_refinement_and_without(gear: str) -> None:
    plain = RunOptions(seed=5, gear=gear, duration_s=20)
    result = run_seed(msgspec.structs.replace(plain, refine=True))
    assert result.good, f"{result.finding}\nreplay with: {result.replay}"
    assert result.trace_hash == run_seed(plain).trace_hash
    assert result.replay.endswith("--refine")
    for action in ("Write", "Ask", "Answer", "RecordsArrive", "ReportArrives", "Commit", "Register"):
        assert result.refined[action] > 0, action
    assert result.checks["Refinement"] > 100
    assert result.refined["stutters"] < result.refined["steps"]


@pytest.fixture(scope="module")
def unseen() -> RunResult:
    """A planted bug in the first seed that breaks no state invariant by it: nobody is elected there who lacks
    what was committed."""
    for seed in range(40):
        planted = RunOptions(seed=seed, mutant="commit_below_minimum")
        refined = run_seed(msgspec.structs.replace(planted, refine=True))
        if not refined.good and run_seed(planted).good:
            return refined
    pytest.fail("never")


def test_R2_a_commit_below_the_minimum_is_seen_when_it_happens(unseen: RunResult) -> None:
    assert unseen.invariant == "Refinement"
    assert "Commit(r = node" in unseen.finding
    assert "size(isr) >= s.least_known_to(r)" in unseen.finding
    assert "isr_replica.py:" in unseen.finding
    assert unseen.replay == (
        f"liftlog sim run --seed {unseen.seed} --faults all --mutant commit_below_minimum --refine"
    )


def test_R6_a_truncation_that_nobody_asked_for_is_seen() -> None:
    """A follower that cuts to its HW: wrong states follow much later, if at all."""
    for seed in range(10):
        options = RunOptions(seed=seed, profile="kills", mutant="truncate_to_hw", refine=True)
        result = run_seed(options)
        if result.invariant == "Refinement":
            plain = run_seed(msgspec.structs.replace(options, refine=False))
            assert plain.good or plain.at_s > result.at_s
            return
    pytest.fail("never")


def test_a_sweep_refines_every_seed_unless_told_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sim", "sweep", "--seeds", "16:18", "--duration", "2", "--jobs", "1", "--json"]
    steps = []
    for seeds in ("16", "17", "16:18"):
        arguments[3] = seeds
        assert main(arguments) == 0
        result = msgspec.json.decode(capsys.readouterr().out)
        steps.append(result["refined"]["steps"])
        assert any(line.startswith("refined: ") for line in summary(result["refined"]))
    assert 0 < steps[0] < steps[0] + steps[1] == steps[2]
    assert main([*arguments, "--no-refine"]) == 0
    assert summary(msgspec.json.decode(capsys.readouterr().out)["refined"]) == []


@pytest.mark.parametrize("profile", ["elections", "disk", "failures", "retention"])
def test_an_outcome_names_every_replica_that_its_step_changed(
    profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorder looks at no other: whoever looks at all of them must see the same."""
    lines: list[list[Step]] = [[], []]
    options = RunOptions(seed=5, profile=profile, duration_s=30, refine=True)
    take = Refinement.take

    def noted(place: int) -> Callable[[Refinement, Step], None]:
        def note(self: Refinement, line: Step) -> None:
            # They may be looked at in another order.
            lines[place].append(msgspec.structs.replace(line, number=0))
            take(self, line)

        return note

    monkeypatch.setattr(Refinement, "take", noted(0))
    named = run_seed(options)
    seen = Recorder.seen

    def look_at_all(
        self: Recorder, event: Event | None, outcome: Outcome, effects: Sequence[Effect]
    ) -> object:
        everybody = tuple(dict.fromkeys((*outcome.touched, *self._node.replicas)))
        return seen(self, event, Outcome(outcome.effects, everybody, outcome.group_log_from), effects)

    monkeypatch.setattr(Refinement, "take", noted(1))
    monkeypatch.setattr(Recorder, "seen", look_at_all)
    everybody = run_seed(options)
    assert named.good and named.refined["actions"] > 0
    assert (named.refined, named.trace_hash) == (everybody.refined, everybody.trace_hash)
    assert len(lines[0]) == len(lines[1])
    for one, other in zip(*lines, strict=True):
        assert one == other


def test_what_is_noted_is_checked_in_order_and_by_the_end(
    unseen: RunResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many steps are checked together, the same one is found, at the same time."""
    options = RunOptions(seed=unseen.seed, mutant="commit_below_minimum", refine=True)
    for at_once in (1, 37, 10**9):
        monkeypatch.setattr("liftlog_sim.refine.replicas.AT_ONCE", at_once)
        result = run_seed(options)
        assert (result.finding, result.at_s) == (unseen.finding, unseen.at_s)


def test_what_a_refined_sweep_must_have_done_are_actions_of_the_model() -> None:
    assert set(BASIC_ACTIONS) <= set(required_actions())


def test_R16_an_election_that_may_lose_something_is_followed() -> None:
    """A copy that was away is elected on an operator's word, the moment it is back: the others cut.

    What they cut was stored while one of three was away, and so was never committed.
    """
    asked: list[int] = []

    def watch(world: World) -> None:
        def away(first: object, second: object) -> None:
            state = next(iter(newest(world).partitions.values()))
            chosen = next(node for node in state.replicas if node != state.leader)
            world.machines[chosen].kill()
            world.kernel.at(world.kernel.now_us + 6 * SECOND, back, chosen)

        def back(chosen: int, second: object) -> None:
            world.machines[chosen].start()
            elect(chosen, second)

        def elect(chosen: int, second: object) -> None:
            metadata = newest(world)
            stream = next(iter(metadata.streams.values()))
            state = metadata.partitions[stream.partitions[0]]
            if chosen not in state.isr and metadata.is_live(chosen):
                asked.append(chosen)
                request = ElectLeaderRequest(stream.config.name, 0, chosen, True)
                world.clients.request("test", state.leader, request, lambda reply: None, SECOND)
            elif chosen not in state.isr:
                world.kernel.at(world.kernel.now_us + MILLISECOND, elect, chosen)

        world.kernel.at(5 * SECOND, away)

    for seed in range(40):
        # In some it is back in the ISR before it can be elected, in some there was nothing to cut.
        options = RunOptions(seed=seed, nodes=3, streams=1, duration_s=20, faults="none", refine=True)
        knobs = knobs_of(options)
        streams = tuple(msgspec.structs.replace(stream, min_insync_replicas=3) for stream in knobs.streams)
        result = run_world(options, msgspec.structs.replace(knobs, streams=streams), None, watch)
        assert result.good, result.finding
        if result.refined.get("ElectAnybody") and result.counters.get("truncations"):
            assert asked
            return
    pytest.fail("never")


def newest(world: World) -> Metadata:
    metadata = world.newest_metadata()
    assert metadata is not None
    return metadata
