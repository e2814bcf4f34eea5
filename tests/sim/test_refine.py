"""Simulated runs checked step by step against the ISR model, while they run."""

from __future__ import annotations

import msgspec
import pytest

from sim.refining import BASIC_ACTIONS, is_sampled, required_actions, summary
from sim.runner import Options, run_seed
from sim.sweep import run_sweep


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
