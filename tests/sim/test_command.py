"""`liftlog sim`: what people see, exit codes, and what machines read."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from liftlog.cli import main
from liftlog.types import LiftlogError
from liftlog_jepsen.jsonl import read_jsonl
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.sweeps.seeds import TOLD_FROM, parse_seeds, progress
from liftlog_sim.sweeps.sweep import BASIC_SEEDS, FULL_SEEDS, run_sweep
from liftlog_sim.truth.names import RARE_INVARIANTS, STEP_INVARIANTS

pytestmark = pytest.mark.slow


def test_a_run_prints_rows_and_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "run", "--seed", "3", "--duration", "10", "--profile", "kills"]) == 0
    out = capsys.readouterr().out
    assert "controller" in out and "leads the metadata group in term 1" in out
    assert "verdict: no invariant was violated" in out
    assert "trace hash" in out


def test_a_run_speaks_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "run", "--seed", "3", "--duration", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["seed"] == 3 and found["invariant"] == ""
    assert found["trace_hash"] == run_seed(RunOptions(seed=3, duration_s=5)).trace_hash


def test_a_violation_ends_with_exit_code_1_and_its_replay_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = [
        "sim",
        "run",
        "--seed",
        "1",
        "--profile",
        "kills",
        "--mutant",
        "restarted_leader_keeps_epoch",
        "--quiet",
    ]
    arguments += ["--failures", str(tmp_path)]
    assert main(arguments) == 1
    out = capsys.readouterr().out
    assert "verdict: OneLeaderPerEpoch is violated at" in out
    command = out.partition("replay with: liftlog ")[2].partition("\n")[0]
    assert main([*command.split(), "--quiet", "--failures", str(tmp_path)]) == 1
    assert capsys.readouterr().out.partition("verdict")[2] == out.partition("verdict")[2]


def test_a_replay_compares_two_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "replay", "--seed", "5", "--duration", "5", "--quiet"]) == 0
    assert "replayed: the same" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run", "--seed", "1", "--faults", "fire"], "no fault 'fire'"),
        (["run", "--seed", "1", "--profile", "fire"], "no fault profile 'fire'"),
        (["run", "--seed", "1", "--mutant", "fire"], "no mutant 'fire'"),
        (["run", "--seed", "1", "--nodes", "99"], "--nodes 99 is out of range"),
        (["run", "--seed", "1", "--duration", "-1"], "--duration -1 is out of range"),
        (["run", "--seed", "1", "--duration", "1", "--trace", "/nowhere/x"], "cannot write the trace"),
        (["sweep", "--seeds", "5:5"], "names no seed"),
        (["sweep", "--seeds", "a:b"], "is not A:B"),
        (["sweep", "--seeds", "0:2", "--jobs", "-3"], "--jobs -3"),
        (["sweep", "--seeds", "0:2", "--jobs", "0"], "--jobs 0"),
        (["sweep", "--seeds=-2:1"], "seed -2"),
        (["run", "--seed", "-1"], "seed -1"),
        (["mutants", "--only", "fire"], "no mutant 'fire'"),
        (["mutants", "--seconds", "5"], "are for --shrink"),
        (["mutants", "--shrink", "--seconds", "0"], "--seconds 0 is out of range"),
        (["mutants", "--shrink", "--list"], "leave --list and --page out"),
        (["scenario", "fire"], "no scenario 'fire'"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sim", *arguments]) == 2
    error = capsys.readouterr().err
    assert complaint in error and error.count("\n") == 1


def test_a_trace_holds_every_step(tmp_path: Path) -> None:
    path = tmp_path / "trace.ndjson"
    assert main(["sim", "run", "--seed", "3", "--duration", "3", "--quiet", "--trace", str(path)]) == 0
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) > 100
    assert [line["at_us"] for line in lines] == sorted(line["at_us"] for line in lines)
    assert lines[0]["event"] is None and lines[0]["effects"]
    assert {line["event"][0] for line in lines if line["event"]} >= {"Received", "TimerFired", "Durable"}


def test_a_history_holds_sends_polls_and_final_reads(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    assert main(["sim", "run", "--seed", "4", "--profile", "kills", "--quiet", "--history", str(path)]) == 0
    history = read_jsonl(path)
    ops = list(history.ops())
    sends = [op for op in ops if op.f == "send" and op.outcome == "ok"]
    finals = [op for op in ops if op.f == "final-poll"]
    assert sends and finals and any(op.f == "poll" for op in ops) and history.faults
    stored = {(mop.key, mop.offset): mop.value for op in finals for mop in op.mops}
    for op in sends:
        mop = op.mops[0]
        assert stored[(mop.key, mop.offset)] == mop.value
    assert history.meta["replay"] == "liftlog sim run --seed 4 --profile kills --faults all"


def test_seeds_are_a_range() -> None:
    assert parse_seeds("3:6") == range(3, 6)
    assert parse_seeds("7") == range(7, 8)


def test_a_sweep_counts_and_does_not_depend_on_its_jobs() -> None:
    options = [RunOptions(seed=seed, duration_s=5) for seed in range(6)]
    one, two = run_sweep(options, 1), run_sweep(options, 2)
    assert one.good and two.good
    assert (one.counters, one.marks, one.checks) == (two.counters, two.marks, two.checks)
    assert one.counters["raft elections"] > 0 and one.checks["ElectionSafety"] > 0


def test_a_sweep_with_a_violation_fails_and_names_it() -> None:
    options = [
        RunOptions(seed=seed, profile="kills", mutant="restarted_leader_keeps_epoch") for seed in (1, 2)
    ]
    result = run_sweep(options, 1)
    assert not result.good
    assert result.failed[0].invariant == "OneLeaderPerEpoch" and "--mutant" in result.failed[0].replay


def test_a_sweep_that_never_reaches_a_required_case_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    import liftlog_sim.sweeps.sweep

    monkeypatch.setattr(liftlog_sim.sweeps.sweep, "BASIC_SEEDS", 2)
    calm = [seed for seed in range(4000) if liftlog_sim.profiles.profiles.profile_of(seed) == "calm"][:2]
    result = run_sweep([RunOptions(seed=seed) for seed in calm], 1)
    assert result.failed == [] and not result.good
    assert "fault kill" in result.unreached and "truncations" in result.unreached
    assert not {"invariant PendingExact", "invariant PromptFailover"} & set(result.unreached)
    monkeypatch.setattr(liftlog_sim.sweeps.sweep, "FULL_SEEDS", 2)
    result = run_sweep([RunOptions(seed=seed) for seed in calm], 1)
    assert {f"invariant {name}" for name in RARE_INVARIANTS} <= set(result.unreached)
    assert set(RARE_INVARIANTS) < set(STEP_INVARIANTS) and BASIC_SEEDS < FULL_SEEDS


def test_mutants_are_listed_and_caught_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "mutants", "--list"]) == 0
    assert "truncate_to_hw" in capsys.readouterr().out
    assert main(["sim", "mutants", "--only", "truncate_to_hw", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["mutants"]
    assert found["name"] == "truncate_to_hw" and found["caught"] is True
    assert found["invariant"] and found["seed"] >= 0 and found["seconds"] > 0


def test_scenarios_run_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "scenario", "calm", "--gear", "both"]) == 0
    assert capsys.readouterr().out.startswith("ok   calm")


def test_who_looks_at_no_terminal_is_told_how_far_a_long_sweep_is(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(TOLD_FROM, enabled=True) as advance:
        for seed in range(TOLD_FROM):
            advance("seed 7: a finding" if seed == 7 else "")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "seed 7: a finding"
    assert [line.partition(" after ")[0] for line in lines[1:]] == [
        f"{done} of {TOLD_FROM} seeds" for done in range(25, TOLD_FROM, 25)
    ]
    with progress(TOLD_FROM - 1, enabled=True) as advance:
        for _ in range(TOLD_FROM - 1):
            advance("")
    assert not capsys.readouterr().err


def test_where_the_simulator_itself_fails_the_seed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 7517 ended a sweep of ten thousand with a stack of calls, and nothing said which it was."""

    def fails(options: RunOptions) -> None:
        raise ValueError("truncated")

    monkeypatch.setattr("liftlog_sim.sweeps.sweep.run_seed", fails)
    with pytest.raises(LiftlogError, match=r"seed 7517 .*truncated.*sim run --seed 7517") as caught:
        run_sweep([RunOptions(seed=7517)], 1)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value), "it comes from another process"
