"""Each subject of a simulated log is a register with compare-and-set, judged as an object (L9)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from liftlog.cli import main
from liftlog_jepsen.events import INFO, OK, Operation, pair
from liftlog_jepsen.formats import FORMATS, read_history
from liftlog_jepsen.objects import MODELS, check_object
from liftlog_jepsen.registers import (
    LogRecord,
    SubjectSend,
    edn_lines,
    registers_of,
    write_registers,
)
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.world import World
from tests.sim.registers import registers_in

FORMAT = "edn-lines"


def registers(options: RunOptions, *, judged: bool = True) -> dict[str, list[Operation]]:
    """Of a run. Not `judged`: the invariants of clients hold their tongue, and the run goes on."""
    seen: list[World] = []

    def watch(world: World) -> None:
        seen.append(world)
        if not judged:
            world.account.fail = lambda violation: None  # type: ignore[method-assign]

    run_seed(options, watch, keep_values=True)
    return registers_in(seen[0])


def valid(files: list[Path]) -> set[bool | None]:
    model, options = MODELS["cas-register"], FORMATS[FORMAT].options._replace(initial=None)
    judgements = [check_object(model, pair(read_history(file, FORMAT), str(file)), options) for file in files]
    return {judgement.valid for judgement in judgements}


THERE = {0: LogRecord("s", "a"), 1: LogRecord("t", "b"), 2: LogRecord("s", "c")}


def test_sends_and_answers_become_what_is_done_to_registers() -> None:
    found = registers_of(
        [
            SubjectSend("a", "s", 1, 4, OK, expected=-1),
            SubjectSend("b", "t", 2, None, INFO),
            SubjectSend("lost", "s", 3, 9, INFO, expected=0, told=2),
            SubjectSend("c", "s", 5, 6, OK, expected=1),
            SubjectSend("never", "s", 5, None, INFO),
            SubjectSend("else", "t", 7, 8, INFO, expected=2, told=-1, compared="s"),
        ],
        THERE,
    )
    told = [(one.f, one.argument, one.result, one.outcome, one.end) for one in found["s"]]
    assert told == [
        ("cas", [None, "a"], [None, "a"], OK, 4),
        ("read", None, "c", OK, 9),
        ("cas", ["nothing at 1", "c"], ["nothing at 1", "c"], OK, 6),
        ("read", None, None, OK, 8),
        ("read", None, "c", OK, 11),
    ]
    assert [(one.f, one.outcome, one.end) for one in found["t"]] == [
        ("write", INFO, None),
        ("read", OK, 11),
    ]
    assert edn_lines(found["t"]) == (
        '{:process 0, :type :invoke, :f :write, :value "b"}\n'
        "{:process 1, :type :invoke, :f :read, :value nil}\n"
        '{:process 1, :type :ok, :f :read, :value "b"}\n'
    )


@pytest.mark.parametrize("seed", [37, 158])
def test_L9_each_subject_of_a_run_is_linearizable(seed: int, tmp_path: Path) -> None:
    found = registers(RunOptions(seed=seed, duration_s=30))
    done = Counter(one.f for its in found.values() for one in its)
    assert done["cas"] > 5 and done["read"] > 20
    assert valid(write_registers(tmp_path, found)) == {True}


@pytest.mark.parametrize("mutant", ["last_of_index_alone", "last_of_those_before", "L9.not-known"])
def test_L9_a_planted_bug_shows_in_the_registers(mutant: str, tmp_path: Path) -> None:
    found = registers(RunOptions(seed=37, duration_s=30, mutant=mutant), judged=False)
    assert False in valid(write_registers(tmp_path, found))


@pytest.mark.slow
@pytest.mark.usefixtures("shared_session")
def test_L9_on_spark_the_registers_of_many_runs_are_linearizable_and_those_of_a_bug_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right, wrong = [], []
    for seed in (22, 37, 150, 58, 89, 95, 96, 100):
        found = registers(RunOptions(seed=seed, duration_s=30))
        right += write_registers(tmp_path / f"seed-{seed}", found)
    found = registers(RunOptions(seed=37, duration_s=30, mutant="last_of_index_alone"), judged=False)
    wrong += write_registers(tmp_path / "bug", found)
    words = ["jepsen", "check", "--json", "--model", "cas-register", "--format", FORMAT, "--initial", "nil"]
    for files, verdict in ((right, 0), (wrong, 1)):
        capsys.readouterr()
        assert main([*words, *map(str, files)]) == verdict
        told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert len(told) == len(files) and all(one["verdict"] for one in told) == (not verdict)
