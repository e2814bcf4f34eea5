"""Traces of many nodes: read from files, brought into one order whatever the clocks say, and judged.

The clusters run in the simulator, which here writes each node's trace to a file as a real node would.
"""

from __future__ import annotations

import random
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from liftlog.trace.file import Line, TraceHeader
from liftlog.trace.raft_recorder import RaftRecorder
from liftlog.trace.replica_lines import GroupStep, ReplicaStep
from liftlog.trace.replica_recorder import Recorder
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.world import World
from liftlog_spec.lang.types import SpecError
from liftlog_spec.refine.traces import check_traces, in_order, read_lines, survey

SEED = 12


class Writing:
    """Takes the place of the checks of a running world: writes what they would check."""

    def __init__(self, world: World, skew_us: dict[int, int]) -> None:
        self._world = world
        self._skew = skew_us
        self._recorders: dict[int, tuple[RaftRecorder, Recorder]] = {}
        self.lines: dict[int, list[Line]] = {}

    def created(self, machine: Any) -> None:
        node, number = machine.node, machine.number
        disk = machine.recovered.identity.disk_id
        self._recorders[number] = RaftRecorder(node.raft, node.ctx.nonce, disk), Recorder(node)
        self._add(number, [TraceHeader(1, "sim", number, node.ctx.nonce, node.config.voters)])

    def applied(self, machine: Any, *command: Any) -> None:
        self._recorders[machine.number][1].applied(*command)

    def stepped(self, machine: Any, event: Any, outcome: Any) -> None:
        raft, log = self._recorders[machine.number]
        line = raft.stepped(event, outcome)
        self._add(machine.number, ([line] if line is not None else []) + list(log.stepped(event, outcome)))

    def _add(self, number: int, lines: list[Any]) -> None:
        now = self._world.kernel.now_us + self._skew.get(number, 0)
        self.lines.setdefault(number, []).extend(msgspec.structs.replace(line, at_us=now) for line in lines)

    def check(self) -> None:
        """Nothing is noted for later."""

    def counters(self) -> dict[str, int]:
        return {}


def traced(seed: int = SEED, skew_us: dict[int, int] | None = None, **options: Any) -> dict[int, list[Line]]:
    """The lines that each node of a simulated cluster writes."""
    writing: list[Writing] = []

    def watch(world: World) -> None:
        writing.append(Writing(world, skew_us or {}))
        world.observer.refining = writing[0]

    assert run_seed(RunOptions(seed=seed, profile="mixed", duration_s=12, **options), watch).good
    return writing[0].lines


def write(folder: Path, lines: dict[int, list[Line]]) -> list[Path]:
    paths = []
    for node, mine in lines.items():
        paths.append(folder / f"node-{node}.jsonl")
        paths[-1].write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in mine))
    return paths


def raise_a_hw(lines: dict[int, list[Line]]) -> tuple[int, int]:
    """Have a leader claim more than its followers have reported; returns its node and the line's place."""
    node, place, line = next(
        (node, place, line)
        for node, mine in lines.items()
        for place, line in enumerate(mine)
        if isinstance(line, ReplicaStep)
        and line.after
        and line.after.office
        and line.after.leo > line.after.hw
    )
    assert line.after is not None
    after = msgspec.structs.replace(line.after, hw=line.after.leo)
    lines[node][place] = msgspec.structs.replace(line, after=after)
    return node, place


@pytest.fixture(scope="module")
def lines() -> dict[int, list[Line]]:
    return traced()


def test_the_traces_of_a_cluster_are_steps_of_both_models(
    lines: dict[int, list[Line]], tmp_path: Path
) -> None:
    report = check_traces(write(tmp_path, lines))
    assert report.good, report.finding
    assert report.lines == sum(len(mine) for mine in lines.values())
    assert report.partitions > 0
    for name in ("isr.Write", "isr.RecordsArrive", "isr.Commit", "raft.Accept", "raft.Commit"):
        assert report.actions[name] > 0


def test_clocks_may_be_wrong_by_seconds(tmp_path: Path) -> None:
    right = check_traces(write(tmp_path, traced()))
    skewed = traced(skew_us={1: 3_000_000, 2: -2_000_000})
    report = check_traces(write(tmp_path, skewed))
    assert report.good, report.finding
    # When a report or an answer that says nothing new is forgotten, and so whether the same one is still on
    # its way or said anew, depends on the order of what does not depend on it.
    for name in ("isr.IsLost", "isr.Answer"):
        assert report.actions.pop(name) and right.actions.pop(name)
    assert report.actions == right.actions


@pytest.mark.parametrize("seed", [14, 20, 31])
def test_clocks_may_be_wrong_by_a_minute(seed: int, tmp_path: Path) -> None:
    """With several partitions a message was taken for sent when another one's said the same."""
    draws = Random(seed)
    for most_s in (13, 60):
        skew_us = {node: draws.randrange(-most_s * 1_000_000, most_s * 1_000_000) for node in range(1, 6)}
        report = check_traces(write(tmp_path, traced(seed, skew_us)))
        assert report.good, f"{report.finding} with clocks off by {skew_us}"


def test_no_line_overtakes_its_own_process_or_its_cause(lines: dict[int, list[Line]], tmp_path: Path) -> None:
    paths = write(tmp_path, lines)
    runs, _ = survey(paths)
    out = list(in_order(paths, runs))
    for node, mine in lines.items():
        assert [line for line in out if line.node == node] == mine
    sent: set[object] = set()
    for line in out:
        if isinstance(line, ReplicaStep):
            letter = line.cause.letter
            assert letter is None or letter.status not in (0, 1, 5) or letter in sent
            sent.update(line.sent)


def test_a_step_that_the_models_do_not_have_is_named(lines: dict[int, list[Line]], tmp_path: Path) -> None:
    """A leader whose HW is higher than what its followers have reported."""
    changed = {node: list(mine) for node, mine in lines.items()}
    node, place = raise_a_hw(changed)
    line = changed[node][place]
    assert isinstance(line, ReplicaStep)
    report = check_traces(write(tmp_path, changed))
    assert not report.good
    assert f"node {node}, partition {line.partition}, step {line.number}" in report.finding


def test_a_line_that_is_missing_is_a_gap(lines: dict[int, list[Line]], tmp_path: Path) -> None:
    shorter = {node: list(mine) for node, mine in lines.items()}
    gone = next(place for place, line in enumerate(shorter[1]) if isinstance(line, ReplicaStep))
    del shorter[1][gone]
    report = check_traces(write(tmp_path, shorter))
    assert "the trace has lost what lies between" in report.finding


def test_a_message_from_nowhere_is_named(lines: dict[int, list[Line]], tmp_path: Path) -> None:
    """The trace of one node ends early, while others still hear from it."""
    shorter = {node: list(mine) for node, mine in lines.items()}
    shorter[2] = shorter[2][: len(shorter[2]) // 2]
    report = check_traces(write(tmp_path, shorter))
    assert "no trace says where that comes from" in report.finding


def test_a_torn_line_is_left_out_where_a_process_can_have_died(
    lines: dict[int, list[Line]], tmp_path: Path
) -> None:
    paths = write(tmp_path, lines)
    whole = list(read_lines(paths[0]))
    with paths[0].open("ab") as file:
        file.write(b'{"type":"raft","no')
    assert list(read_lines(paths[0])) == whole
    with paths[0].open("ab") as file:
        file.write(b"\n" + msgspec.json.encode(whole[0]) + b"\n")
    assert list(read_lines(paths[0])) == [*whole, whole[0]]
    with paths[0].open("ab") as file:
        file.write(b"nonsense\n" + msgspec.json.encode(whole[1]) + b"\n")
    with pytest.raises(SpecError, match=rf"node-1.jsonl line {len(whole) + 3}: .*is it a trace"):
        list(read_lines(paths[0]))


def test_files_that_do_not_belong_together_are_refused(lines: dict[int, list[Line]], tmp_path: Path) -> None:
    paths = write(tmp_path, lines)
    with pytest.raises(SpecError, match=r"the traces of voters \[2, 3\] are missing"):
        check_traces(paths[:1])
    with pytest.raises(SpecError, match="are both of node 1; give one"):
        copy = tmp_path / "copy.jsonl"
        copy.write_bytes(paths[0].read_bytes())
        check_traces([*paths, copy])
    other = tmp_path / "other.jsonl"
    other.write_bytes(msgspec.json.encode(TraceHeader(1, "elsewhere", 9, 1, (9,))) + b"\n")
    with pytest.raises(SpecError, match="of cluster 'elsewhere' with voters"):
        check_traces([*paths, other])
    with pytest.raises(SpecError, match=r"cannot read .*: No such file"):
        check_traces([tmp_path / "missing"])
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(SpecError, match="no trace; write one with"):
        check_traces([empty])


def test_any_order_of_what_does_not_depend_on_each_other_is_right(
    lines: dict[int, list[Line]], tmp_path: Path
) -> None:
    """The clocks are thrown away altogether: only causes are left to decide."""
    generator = random.Random(5)
    for _ in range(2):
        scrambled = {
            node: [msgspec.structs.replace(line, at_us=generator.randrange(5)) for line in mine]
            for node, mine in lines.items()
        }
        report = check_traces(write(tmp_path, scrambled))
        assert report.good, report.finding


def test_group_lines_are_told_by_every_node(lines: dict[int, list[Line]]) -> None:
    """Each process applies the whole metadata log, and says so."""
    for mine in lines.values():
        assert any(isinstance(line, GroupStep) for line in mine)
