"""Directed scenarios end as expected, and the same in both gears: same logs, HW, epochs and ISR."""

from __future__ import annotations

from pathlib import Path

import pytest

from liftlog.types import LiftlogError
from sim.scenario import compare, load, names, run_scenario


def test_there_are_at_least_twenty_scenarios() -> None:
    assert len(names()) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_a_scenario_ends_the_same_in_both_gears(name: str) -> None:
    scenario = load(name)
    step = run_scenario(scenario, "step")
    trio = run_scenario(scenario, "trio")
    assert step.invariant == "" and step.unexpected == ()
    assert trio.invariant == "" and trio.unexpected == ()
    assert compare(step, trio) == []


def test_a_difference_between_two_ends_is_found() -> None:
    calm = run_scenario(load("calm"), "step")
    killed = run_scenario(load("kill_leader"), "step")
    differences = compare(calm, killed)
    assert any("epoch" in text for text in differences)
    assert any("records" in text for text in differences)


def test_an_expectation_that_does_not_hold_is_said() -> None:
    scenario = load("calm")
    wanting = scenario.__class__(
        title="", expect=scenario.expect.__class__(10_000, {"elections": 9}, ("R6.diverged",))
    )
    unexpected = run_scenario(wanting, "step").unexpected
    assert [text.partition(":")[0] for text in unexpected[:2]] == ["acks received", "elections"]
    assert unexpected[2] == "rule case R6.diverged was not reached"


def test_a_broken_scenario_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(LiftlogError, match="there is no scenario 'nothing'"):
        load("nothing")
    path = tmp_path / "broken.toml"
    path.write_text('title = "x"\nnods = 3\n')
    with pytest.raises(LiftlogError, match="nods"):
        load(str(path))
    path.write_text('title = "x"\n[[fault]]\nat_ms = 1\nkind = "fire"\n')
    with pytest.raises(LiftlogError, match="no fault 'fire'"):
        load(str(path))
