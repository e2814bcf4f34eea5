"""Simulated runs checked step by step against the ISR model, while they run."""

from __future__ import annotations

import msgspec
import pytest

from liftlog.core.metadata import Metadata
from liftlog.messages import ElectLeaderRequest
from sim.kernel import MILLISECOND, SECOND
from sim.refining import BASIC_ACTIONS, is_sampled, required_actions, summary
from sim.runner import Options, run_seed
from sim.sweep import run_sweep
from sim.world import World

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("gear", ["step", "trio"])
def test_a_run_is_the_same_with_refinement_and_without(gear: str) -> None:
    plain = Options(seed=3, gear=gear, duration_s=20)
    result = run_seed(msgspec.structs.replace(plain, refine=True))
    assert result.good, f"{result.finding}\nreplay with: {result.replay}"
    assert result.trace_hash == run_seed(plain).trace_hash
    assert result.replay.endswith("--refine")
    for action in ("Write", "Ask", "Answer", "RecordsArrive", "ReportArrives", "Commit", "Register"):
        assert result.refined[action] > 0, action
    assert result.checks["Refinement"] > 100
    assert result.refined["stutters"] < result.refined["steps"]


def test_R2_a_commit_below_the_minimum_is_seen_when_it_happens() -> None:
    """In this seed nobody is elected who lacks what was committed, so that no state is ever wrong."""
    planted = Options(seed=6, mutant="commit_below_minimum")
    assert run_seed(planted).good
    result = run_seed(msgspec.structs.replace(planted, refine=True))
    assert result.invariant == "Refinement"
    assert "Commit(r = node" in result.finding
    assert "size(isr) >= s.Minimum" in result.finding
    assert "isr_replica.py:" in result.finding
    assert result.replay == "liftlog sim run --seed 6 --faults all --mutant commit_below_minimum --refine"


def test_R6_a_truncation_that_nobody_asked_for_is_seen() -> None:
    """A follower that cuts to its HW: wrong states follow much later, if at all."""
    for seed in range(10):
        options = Options(seed=seed, profile="kills", mutant="truncate_to_hw", refine=True)
        result = run_seed(options)
        if result.invariant == "Refinement":
            plain = run_seed(msgspec.structs.replace(options, refine=False))
            assert plain.good or plain.at_s > result.at_s
            return
    pytest.fail("never")


def test_a_sweep_refines_a_part_of_its_seeds_unasked() -> None:
    options = [Options(seed=seed, duration_s=2) for seed in (16, 17)]
    result = run_sweep(options, 1)
    assert [is_sampled(each.seed) for each in options] == [True, False]
    steps = result.refined["steps"]
    complete = run_sweep([msgspec.structs.replace(each, refine=True) for each in options], 1)
    assert 0 < steps < complete.refined["steps"]
    assert any(line.startswith("refined: ") for line in summary(complete.refined))
    assert summary({}) == []


def test_what_a_refined_sweep_must_have_done_are_actions_of_the_model() -> None:
    assert set(BASIC_ACTIONS) <= set(required_actions())


def test_R16_an_election_that_may_lose_something_is_followed() -> None:
    """A copy that was away is elected on an operator's word, the moment it is back: the others cut."""
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
                world.clients.request(state.leader, request, lambda reply: None, SECOND)
            elif chosen not in state.isr:
                world.kernel.at(world.kernel.now_us + MILLISECOND, elect, chosen)

        world.kernel.at(5 * SECOND, away)

    options = Options(seed=4, nodes=3, streams=1, duration_s=20, faults="none", refine=True)
    result = run_seed(options, watch)
    assert asked
    assert result.invariant in ("", "NoAckedRecordLost", "LogMatching", "CommittedOnISR"), result.finding
    assert result.refined["ElectAnybody"] == 1


def newest(world: World) -> Metadata:
    metadata = world.newest_metadata()
    assert metadata is not None
    return metadata
