"""Real nodes go along the paths of the models, and bugs show."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import msgspec
import pytest

from liftlog.cli import main
from liftlog.mutants import Mutants
from liftlog.types import LiftlogError
from liftlog_sim.cover.isr import ELECTIONS
from liftlog_sim.cover.plays import FOLDER, STAGES, files_of, play, play_file
from liftlog_spec.cover.make import model_of
from liftlog_spec.cover.plans import LIMITS
from liftlog_spec.cover.scenario import CoverScenario, ScenarioStep, load
from liftlog_spec.cover.wander import wander
from liftlog_spec.registry import build
from liftlog_spec.run.compiled import compile_model

pytestmark = pytest.mark.slow

FILES = [path.name for path in files_of(FOLDER)]


@pytest.mark.parametrize("name", FILES)
def test_the_nodes_do_what_the_model_says(name: str) -> None:
    wrong = [one for one in play_file(FOLDER / name) if one.finding]
    assert not wrong, wrong[0]


@pytest.mark.parametrize("model", STAGES)
def test_scenarios_of_each_model_are_kept(model: str) -> None:
    played = [name for name in FILES if model_of(name) == model]
    assert len(played) > 3


@pytest.mark.parametrize("model", STAGES)
def test_every_action_has_a_procedure_or_comes_by_itself(model: str) -> None:
    by_itself = {*LIMITS[model].rides, *LIMITS[model].undriven, *ELECTIONS}
    actions = compile_model(build(model, "", {})).actions
    stage = STAGES[model]
    assert [name for name in actions if name not in by_itself and not hasattr(stage, f"_do_{name}")] == []


def _wander(model: str, count: int, seed: int) -> None:
    file = wander(model, None, count, 50, seed)
    played = [play(file.head, scenario) for scenario in file.scenarios]
    wrong = [one for one in played if one.finding]
    assert not wrong, f"{wrong[0]}; liftlog spec cover --model {model} --walks {count} --seed {seed}"
    assert sum(one.steps for one in played) > 20 * count


@pytest.mark.slow
@pytest.mark.parametrize("model", STAGES)
def test_the_nodes_go_along_random_paths(model: str) -> None:
    _wander(model, 12, 1)


@pytest.mark.nightly
@pytest.mark.parametrize("model", STAGES)
def test_the_nodes_go_along_many_random_paths(model: str) -> None:
    _wander(model, 500, 2)


CAUGHT = [
    ("isr", "truncate_to_hw"),
    ("isr", "fetch_not_fenced"),
    ("isr", "hw_over_shrunk_isr"),
    ("isr", "wiped_replica_rejoins"),
    ("isr", "restarted_leader_keeps_epoch"),
    ("isr", "late_addition_of_old_incarnation"),
    ("isr", "pending_ended_by_timeout"),
    ("raft", "raft_vote_before_sync"),
    ("raft", "raft_ack_before_sync"),
    ("raft", "raft_quorum_half"),
    ("raft-snapshots", "snapshot_term_forgotten"),
    ("raft-snapshots", "raft_commit_unclamped"),
    ("raft-snapshots", "raft_commit_old_term"),
]


@pytest.mark.parametrize(("model", "mutant"), CAUGHT)
def test_a_broken_core_leaves_the_path(model: str, mutant: str) -> None:
    mutants = Mutants(**{mutant: True})
    played = chain.from_iterable(
        play_file(FOLDER / name, mutants) for name in FILES if model_of(name) == model
    )
    found = next((one for one in played if one.finding), None)
    assert found is not None, f"{mutant} goes along every path"
    assert found.step > 0 and found.action


def _first_step(name: str, action: str) -> tuple[Path, CoverScenario, int]:
    path = FOLDER / name
    for scenario in load(path).scenarios:
        for place, step in enumerate(scenario.steps):
            if step.action == action and step.rest:
                return path, scenario, place
    raise AssertionError(f"no {action} in {name}")


def test_a_finding_names_file_scenario_step_and_variable() -> None:
    """A scenario that expects two records of one write."""
    path, scenario, place = _first_step(FILES[0], "Write")
    step = scenario.steps[place]
    (replica, log), *_ = step.changes["log"].items()
    doctored = ScenarioStep(step.action, step.given, {"log": {replica: [*log, *log]}})
    steps = [*scenario.steps[:place], doctored, *scenario.steps[place + 1 :]]
    wrong = CoverScenario(scenario.name, steps)
    found = play(load(path).head, wrong, path.name)
    assert found.scenario == f"{path.name}:{scenario.name}"
    assert (found.step, found.action, found.variable) == (place + 1, "Write", f"log[{replica}]")
    assert f"log[{replica}] is [" in found.finding and "the model has [" in found.finding


def test_a_step_that_the_core_refuses_is_a_finding() -> None:
    """Nobody writes but the leader."""
    head = load(FOLDER / FILES[0]).head
    follower = next(name for name in head.first["up"] if name != head.first["now"]["leader"])
    wrong = CoverScenario(
        "wrong", [ScenarioStep("Fetch", {"f": head.first["now"]["leader"], "lead": follower})]
    )
    found = play(head, wrong)
    assert found.step == 1 and "does not ask" in found.finding


def test_a_step_without_a_procedure_is_a_finding() -> None:
    head = load(FOLDER / FILES[0]).head
    found = play(head, CoverScenario("wrong", [ScenarioStep("Dance")]))
    assert "there is no procedure for Dance" in found.finding


def test_wrong_places_are_told(tmp_path: Path) -> None:
    with pytest.raises(LiftlogError, match="there are no scenarios in"):
        files_of(tmp_path)
    with pytest.raises(LiftlogError, match="has no scenario 999; the last is"):
        list(play_file(FOLDER / FILES[0], only="999"))
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{}\n")
    with pytest.raises(LiftlogError, match="holds no scenarios"):
        list(play_file(bad))
    head = load(FOLDER / FILES[0]).head
    with pytest.raises(LiftlogError, match="nothing drives model 'kafka'"):
        play(msgspec.structs.replace(head, model="kafka"), CoverScenario("x", []))


def test_the_command_plays_one_scenario_and_shows_a_planted_bug(capsys: pytest.CaptureFixture[str]) -> None:
    name = next(name for name in FILES if name.startswith("raft-"))
    assert main(["sim", "cover", f"{FOLDER / name}:000"]) == 0
    assert "the nodes do what the model says" in capsys.readouterr().out
    assert main(["sim", "cover", f"{FOLDER / name}", "--mutant", "raft_vote_before_sync"]) == 1
    assert f"{name}:000, step" in capsys.readouterr().out
    assert main(["sim", "cover", "--mutant", "nobody"]) == 2
    assert "there is no mutant 'nobody'" in capsys.readouterr().err
