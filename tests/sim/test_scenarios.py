"""Directed scenarios end as expected, and the same in both gears: same logs, HW, epochs and ISR."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from msgspec.structs import replace

from liftlog.__main__ import main
from liftlog.types import LiftlogError
from liftlog_sim.directed.form import FOLDER, load, names
from liftlog_sim.directed.scenario import compare, run_scenario


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


def test_I1_M3_a_late_deletion_spares_the_stream_that_was_created_again_under_its_name() -> None:
    """It carried a name, and took what had been acknowledged into the new stream with it."""
    scenario = load("late_delete")
    mended = run_scenario(scenario, "step")
    assert mended.invariant == "" and mended.unexpected == ()
    # The name is resolved by nobody then, so that it is on its way sooner: it is asked later.
    requests = [replace(one, at_ms=5000 if one.at_ms == 4996 else one.at_ms) for one in scenario.request]
    broken = run_scenario(replace(scenario, request=tuple(requests)), "step", mutant="delete_by_name")
    assert "the streams are ['orders'], ['brief', 'orders'] expected" in broken.unexpected


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
    wanting = scenario.__class__(title="", expect=scenario.expect.__class__(streams=("invoices",)))
    assert run_scenario(wanting, "step").unexpected == ("the streams are ['orders'], ['invoices'] expected",)


def test_the_replay_line_of_a_scenario_in_a_file_names_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "my own.toml"
    path.write_text((FOLDER / "pitfall_early_isr.toml").read_text())
    assert main(["sim", "scenario", str(path), "--mutant", "R10.hw"]) == 1
    line = capsys.readouterr().out.partition("replay with: liftlog ")[2].strip()
    assert main(shlex.split(line)) == 1


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
    path.write_text('title = "x"\n[[request]]\nat_ms = 1\nkind = "delete"\nstream = "s"\nnode = 4\n')
    with pytest.raises(LiftlogError, match="no node 4 to ask; choose from 1 to 3"):
        load(str(path))
