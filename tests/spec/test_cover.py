"""Scenarios from a model's state graph: complete, deterministic, and honest about what is left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import deque
from itertools import pairwise
from pathlib import Path

import pytest

from liftlog.cli import main
from liftlog_spec.cover.command import KEPT
from liftlog_spec.cover.isr_limits import IsrLimits
from liftlog_spec.cover.limits import Limits
from liftlog_spec.cover.make import Coverage, contents, cover, model_of, write
from liftlog_spec.cover.paths import choose_paths
from liftlog_spec.cover.plans import LIMITS, PLANS, BoundsChoice
from liftlog_spec.cover.raft_limits import RaftLimits
from liftlog_spec.cover.raft_snapshots_limits import RaftSnapshotsLimits
from liftlog_spec.cover.reading import StateNames
from liftlog_spec.cover.scenario import apply_changes, encode, load
from liftlog_spec.cover.walk import Pair, Walk
from liftlog_spec.cover.wander import random_paths
from liftlog_spec.registry import build
from liftlog_spec.run.compiled import CompiledModel, State, compile_model

ROOT = Path(__file__).resolve().parent.parent.parent

TINY: dict[str, dict[str, int]] = {
    "twophase": {"nodes": 2},
    "isr": {
        "nodes": 2,
        "minimum": 2,
        "records": 1,
        "epochs": 1,
        "changes": 1,
        "crashes": 0,
        "damages": 0,
        "delays": 1,
    },
    "raft": {"nodes": 2, "terms": 1, "entries": 1, "campaigns": 1, "appends": 1, "restarts": 1, "writes": 1},
    "raft-snapshots": {
        "nodes": 2,
        "voters": 2,
        "terms": 2,
        "entries": 1,
        "campaigns": 1,
        "changes": 0,
        "restarts": 1,
        "losses": 0,
        "snapshots": 1,
        "installs": 1,
    },
}
"""Bounds by flag at which a model has a few hundred states."""


def compiled(model: str) -> CompiledModel:
    return compile_model(build(model, "", TINY[model]))


def all_pairs(model: CompiledModel) -> set[Pair]:
    """Every pair of consecutive actions, by looking at every state and every step into and out of it."""
    into: dict[State, set[str]] = {state: set() for state in model.initial()}
    out: dict[State, set[str]] = {}
    queue = deque(into)
    while queue:
        state = queue.popleft()
        out[state] = set()
        for number, _, after in model.successors(state):
            out[state].add(model.actions[number])
            if after not in into:
                into[after] = set()
                queue.append(after)
            into[after].add(model.actions[number])
    return {(one, other) for state in into for one in into[state] for other in out[state]}


@pytest.mark.parametrize("model", TINY)
def test_a_walk_finds_exactly_the_pairs_that_there_are(model: str) -> None:
    found = compiled(model)
    expected = all_pairs(found)
    assert len(expected) > 10
    assert set(Walk(found).pairs) == expected
    assert set(Walk(found, symmetry=False).pairs) == expected


@pytest.mark.parametrize("model", TINY)
def test_the_paths_have_every_pair_and_are_paths_of_the_model(model: str) -> None:
    found = compiled(model)
    walk = Walk(found, LIMITS.get(model, Limits))
    paths = choose_paths(walk)
    assert {pair for path in paths for pair in path.pairs} == set(walk.pairs)
    assert {action for path in paths for action in path.actions} == set(walk.actions)
    for path in paths:
        state = path.start
        assert state in found.initial()
        for step in (step for move in path.moves for step in move):
            assert (step.number, step.given, step.after) in found.successors(state)
            state = step.after


def test_what_others_have_covered_is_not_covered_again() -> None:
    walk = Walk(compiled("twophase"))
    some = set(sorted(walk.pairs)[::2])
    paths = choose_paths(walk, some, set(walk.actions))
    assert set(walk.pairs) - some <= {pair for path in paths for pair in path.pairs}
    assert len(paths) < len(choose_paths(walk))
    assert choose_paths(walk, set(walk.pairs), set(walk.actions)) == []


@pytest.mark.parametrize(
    ("model", "limits"), [("isr", IsrLimits), ("raft", RaftLimits), ("raft-snapshots", RaftSnapshotsLimits)]
)
def test_limits_do_not_depend_on_names(model: str, limits: type[Limits]) -> None:
    """Else states that differ only by names could not stand for each other."""
    found = compiled(model)
    with_symmetry, without = Walk(found, limits), Walk(found, limits, symmetry=False)
    assert with_symmetry.states < without.states
    assert set(with_symmetry.pairs) == set(without.pairs)


def tiny(model: str) -> Coverage:
    return cover(model, [BoundsChoice("tiny", TINY[model])])


@pytest.mark.parametrize("model", ["isr", "raft", "raft-snapshots"])
def test_each_pair_is_driven_or_listed_with_a_reason(model: str) -> None:
    index = tiny(model).index()
    listed = {(one.first, one.second) for one in index.not_driven_pairs}
    assert listed, "these bounds do not reach any limit"
    assert not listed & set(index.pairs)
    assert listed | set(index.pairs) == all_pairs(compiled(model))
    assert {one.reason for one in index.not_driven_pairs} <= set(index.reasons)
    assert all(index.reasons.values())
    assert set(index.actions) | set(index.unreached) | set(index.not_driven_actions) == set(
        compiled(model).actions
    )


def test_the_changes_of_a_scenario_add_up_to_the_models_states(tmp_path: Path) -> None:
    coverage = tiny("isr")
    found = compiled("isr")
    write(coverage, tmp_path)
    file = load(tmp_path / "isr-tiny.jsonl")
    assert encode(file) == encode(coverage.files["isr-tiny.jsonl"])
    for path, scenario in zip(choose_paths(Walk(found, IsrLimits)), file.scenarios, strict=True):
        shown = file.head.first
        assert shown == json.loads(json.dumps(found.show(path.start)))
        taken = [step for move in path.moves for step in move]
        for step, written in zip(taken, scenario.steps, strict=True):
            shown = apply_changes(shown, written.changes)
            assert json.loads(json.dumps(found.show(step.after))) == shown


def test_the_same_files_come_out_in_every_process(tmp_path: Path) -> None:
    flags = [item for flag, value in TINY["isr"].items() for item in (f"--{flag}", str(value))]
    command = [sys.executable, "-m", "liftlog", "spec", "cover"]
    for seed in ("1", "2"):
        subprocess.run(
            [*command, "--model", "isr", *flags, "--out", tmp_path / seed],
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.DEVNULL,
        )
    names = sorted(path.name for path in (tmp_path / "1").iterdir())
    assert names == ["isr-given.jsonl", "isr-index.json"]
    for name in names:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_a_folder_keeps_the_files_of_models_with_longer_names(tmp_path: Path) -> None:
    for name in ("raft-old.jsonl", "raft-snapshots-two.jsonl", "isr-late.jsonl"):
        (tmp_path / name).write_text("")
    write(Coverage("raft"), tmp_path)
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == ["isr-late.jsonl", "raft-index.json", "raft-snapshots-two.jsonl"]


def test_a_walk_that_ends_early_says_so() -> None:
    whole = cover("twophase", [BoundsChoice("tiny", TINY["twophase"])]).index()
    part = cover("twophase", [BoundsChoice("tiny", TINY["twophase"], most=10)]).index()
    assert whole.files["twophase-tiny.jsonl"].complete
    assert not part.files["twophase-tiny.jsonl"].complete
    assert set(part.pairs) < set(whole.pairs)


def test_random_paths_are_paths_of_the_model_and_the_same_each_time() -> None:
    found = compiled("raft")
    reader = StateNames(found)
    paths = list(random_paths(reader, "raft", 5, 20, 3))
    for path in paths:
        state = path.start
        for step in (step for move in path.moves for step in move):
            assert (step.number, step.given, step.after) in found.successors(state)
            state = step.after
    again = list(random_paths(reader, "raft", 5, 20, 3))
    assert [path.moves for path in paths] == [path.moves for path in again]
    others = list(random_paths(reader, "raft", 5, 20, 4))
    assert [path.moves for path in paths] != [path.moves for path in others]


def test_of_random_paths_only_what_is_new_is_kept() -> None:
    coverage = cover("raft", [BoundsChoice("tiny", TINY["raft"])])
    before = set(coverage.driven_pairs)
    coverage.add(BoundsChoice("more", {**TINY["raft"], "terms": 2, "campaigns": 2}, walks=30))
    kept = coverage.files["raft-more.jsonl"].scenarios
    assert 0 < len(kept) < 30
    for scenario in kept:
        actions = [step.action for step in scenario.steps]
        new = set(pairwise(actions)) - before
        assert new <= set(coverage.driven_pairs) and new
        before |= new


# -- the command -------------------------------------------------------------------------------------------


def test_the_command_makes_random_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["spec", "cover", "--model", "raft", "--walks", "2", "--depth", "9", "--seed", "4"]
    assert main([*arguments, "--out", str(tmp_path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["scenarios"] == 2 and sum(report["actions"].values()) >= 18
    assert len(load(tmp_path / "raft-walks-4.jsonl").scenarios) == 2


def test_the_command_writes_files_and_notices_when_they_are_old(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["spec", "cover", "--model", "twophase", "--nodes", "2", "--out", str(tmp_path)]
    assert main([*arguments, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["files"]["twophase-given.jsonl"]["scenarios"] > 0 and report["differing"] == []
    assert main([*arguments, "--check"]) == 0
    (tmp_path / "twophase-given.jsonl").write_text("{}")
    assert main([*arguments, "--check"]) == 1
    assert "not up to date: twophase-given.jsonl" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "nobody", "--nodes", "2"], "there is no model 'nobody'"),
        (["--model", "twophase"], "there is no plan for model 'twophase': give bounds"),
        (["--model", "twophase", "--nodes", "2", "--check"], "--check needs --out FOLDER"),
        (["--model", "twophase", "--records", "2"], "has no --records"),
        (["--model", "twophase", "--walks", "3"], "there are no wide bounds for model 'twophase'"),
        (["--model", "isr", "--walks", "-3"], "--walks -3 is out of range"),
        (["--model", "isr", "--walks", "3", "--depth", "0"], "--depth 0 is out of range"),
        (["--model", "isr", "--seed", "3"], "--seed belongs to --walks N"),
        (["--model", "twophase", "--nodes", "2", "--max-states", "-1"], "--max-states must not be negative"),
    ],
)
def test_wrong_use_is_told(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spec", "cover", *arguments]) == 2
    assert said in capsys.readouterr().err


# -- what is kept ------------------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.parametrize("model", PLANS)
def test_the_kept_scenarios_are_those_of_the_present_model(model: str) -> None:
    made = contents(cover(model))
    folder = ROOT / KEPT
    kept = {path.name: path.read_bytes() for path in folder.iterdir() if model_of(path.name) == model}
    assert sorted(kept) == sorted(made)
    assert [name for name in made if kept[name] != made[name]] == []
