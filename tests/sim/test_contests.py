"""Two operators contend for a node that joined: what the one does at last is judged by what the other did."""

from __future__ import annotations

from liftlog_sim.chance.plan import decode, encode
from liftlog_sim.profiles.profiles import draw_knobs
from liftlog_sim.runs.runner import knobs_of, run_seed, run_world
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.world import World

CONTESTED = RunOptions(seed=388, duration_s=30)


def test_who_removes_a_node_meets_what_another_operator_wants_of_it() -> None:
    result = run_seed(RunOptions(seed=388))
    assert result.good and result.counters["contests"] > 0
    assert result.marks["I3.heir"] > 0
    caught = run_seed(RunOptions(seed=388, mutant="I3.heir"))
    assert caught.invariant == "CommandAsMeant"


def test_a_contest_can_stand_in_a_plan() -> None:
    worlds: list[World] = []
    knobs = knobs_of(CONTESTED)
    first = run_world(CONTESTED, knobs, None, worlds.append, noting=True)
    plan = worlds[0].drawn()
    assert [one for one in plan.operations or () if one.client == "contest/0"]
    assert run_world(CONTESTED, knobs, decode(encode(plan))).trace_hash == first.trace_hash


def test_nobody_contends_but_in_a_part_of_the_worlds_that_grow() -> None:
    found = [draw_knobs(seed, profile="growing").contest_interval_us > 0 for seed in range(60)]
    assert 5 < sum(found) < 30
    assert not any(draw_knobs(seed, profile="mixed").contest_interval_us for seed in range(60))
