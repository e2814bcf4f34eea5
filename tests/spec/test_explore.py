"""The explorer on small models whose states can be counted by hand."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
from pathlib import Path

import pytest

from liftlog.types import LiftlogError
from liftlog_spec.checking import add_check, lines_of, run_check
from liftlog_spec.explore.report import Bounds, Walks, show_trace
from liftlog_spec.explore.search import check
from liftlog_spec.explore.simulate import simulate
from liftlog_spec.explore.visited import (
    Chunks,
    Dropped,
    Links,
    Settled,
    Table,
    ancestry,
    fingerprint,
    read_chunk,
    seen_before,
)
from liftlog_spec.lang import (
    Constant,
    Exists,
    Fn,
    Model,
    Range,
    Seq,
    Sort,
    SpecError,
    Var,
    action,
    constraint,
    count,
    initial,
    invariant,
    sometimes,
    terminal,
    when,
)
from liftlog_spec.models.twophase import TwoPhase

# mypy does not read models: see pyproject.toml
# mypy: ignore-errors


class Counters(Model):
    """Each client counts to the limit on its own."""

    Limit = Constant(3)
    Clients = Constant(3)
    Client = Sort(Clients)
    value = Var(Fn(Client, Range(0, Limit)), init=0)

    @action
    def add(s, c: Client):
        when(s.value[c] < s.Limit)
        s.value[c] = s.value[c] + 1


class Guarded(Counters):
    @invariant
    def Low(s):
        return ~Exists(s.Client, lambda c: s.value[c] == 2)


class Hopeful(Counters):
    @sometimes
    def Beyond(s):
        return Exists(s.Client, lambda c: s.value[c] > s.Limit)


class Kept(Counters):
    @constraint
    def Small(s):
        return ~Exists(s.Client, lambda c: s.value[c] > 0)


class Overflowing(Counters):
    @action
    def jump(s, c: Client):  # noqa: F821
        s.value[c] = s.value[c] + 1


def test_every_state_is_found_once() -> None:
    report = check(Counters(), Bounds())
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 4**3, 10)
    assert report.generated_states == 3 * 3 * 16
    assert report.deadlocks == 1


@pytest.mark.parametrize("jobs", [1, 2])
def test_symmetry_counts_states_that_differ_by_names_once(jobs: int) -> None:
    report = check(Counters(), Bounds(symmetry=True, jobs=jobs))
    assert report.distinct_states == 20  # multisets of three values out of four
    assert check(TwoPhase(), Bounds(symmetry=True)).distinct_states == 80


@pytest.mark.parametrize("symmetry", [False, True])
def test_a_violation_comes_with_the_shortest_way_there(symmetry: bool) -> None:
    report = check(Guarded(), Bounds(symmetry=symmetry))
    assert (report.verdict, report.invariant, report.depth) == ("violated", "Low", 3)
    assert len(report.trace) == 3
    lines = show_trace(report.trace)
    assert sum("value[" in line for line in lines) == 5, lines


def test_a_sometimes_that_never_happens_makes_the_verdict_vacuous() -> None:
    report = check(Hopeful(), Bounds())
    assert (report.verdict, report.unreached) == ("vacuous", ["Beyond"])


def test_limits_end_the_search_and_say_so() -> None:
    assert check(Counters(), Bounds(depth=3)).verdict == "bounded"
    report = check(Counters(), Bounds(states=10))
    assert report.verdict == "bounded"
    assert 10 <= report.distinct_states < 64


def test_states_outside_the_constraint_are_seen_and_not_expanded() -> None:
    assert check(Kept(), Bounds()).distinct_states == 1 + 3


def test_a_value_outside_its_type_is_an_error_of_the_model() -> None:
    with pytest.raises(SpecError, match=r"value = .* is no \[Client -> 0\.\.Limit\]"):
        check(Overflowing(), Bounds())


def test_an_error_in_a_worker_process_reaches_the_user() -> None:
    with pytest.raises(SpecError, match="is no"):
        check(Overflowing(Limit=30), Bounds(jobs=3))


def test_the_table_keeps_what_two_workers_insert(tmp_path: Path) -> None:
    one, other = Table(tmp_path, 8, 0), Table(tmp_path, 8, 1)
    place = one.insert(77)
    assert place >= 0
    assert other.insert(77) == -1
    # As after a race: the other worker believes that it was first as well.
    other.owners[place] = 1
    assert one.settle(lambda: [(77, place)]) == Settled({77}, set(), 0)
    assert other.settle(lambda: [(77, place)]) == Settled(set(), set(), 0)
    # Or it has overwritten the slot with another fingerprint.
    other.slots[place] = 99
    assert one.settle(lambda: [(77, place)]) == Settled(set(), {77}, 0)
    # And if we have forgotten that we had it, we insert it once more: it is ours, and stands there twice.
    again = one.insert(77)
    assert one.settle(lambda: [(77, place), (77, again)]) == Settled(set(), set(), 1)
    larger = one.grown(tmp_path, 10)
    assert [larger.insert(mark) for mark in (77, 99)] == [-1, -1]
    assert larger.insert(5) >= 0
    empty = larger.emptied(tmp_path)
    assert empty.bits == 10
    assert empty.insert(77) >= 0


def test_chunks_come_back(tmp_path: Path) -> None:
    chunks = Chunks(tmp_path, "depth-1-0", 2)
    states = [(number, (number, -1)) for number in range(5)]
    for state in states:
        chunks.append(state)
    chunks.flush()
    assert [state for path in chunks.paths for state in read_chunk(path)] == states
    assert fingerprint((0,)) != fingerprint((1,))


def links_of(folder: Path, depth: int, found: dict[int, int]) -> Path:
    links = Links(folder, depth, 0, 0)
    for mark, parent in found.items():
        links.append(mark, parent, 0)
    links.close()
    return links.path


def test_ancestry_goes_by_the_depth_at_which_a_state_was_found_first(tmp_path: Path) -> None:
    """The third file names 2 again, as if 3 led to it: after the table was emptied nobody knew better."""
    depths = [{1: 1}, {2: 1, 7: 1}, {3: 2, 2: 3}, {4: 3}]
    files = [[links_of(tmp_path, depth, found)] for depth, found in enumerate(depths)]
    assert ancestry(files, 4) == [1, 2, 3, 4]
    assert ancestry(files[:2], 2) == [1, 2]
    with pytest.raises(SpecError, match="on record at depth 2"):
        ancestry(files[:2], 99)


@pytest.mark.parametrize("parts", [1, 3])
def test_what_was_seen_before_is_found_in_the_files(tmp_path: Path, parts: int) -> None:
    earlier = [links_of(tmp_path, 1, {mark: 1 for mark in range(1, 200, 2)})]
    now = links_of(tmp_path, 2, {mark: 1 for mark in range(150, 250)})
    dropped = Dropped(seen_before(now, earlier, parts), {150, 151, 600})
    wanted = {*range(151, 200, 2), 150, 600}
    assert {mark for mark in range(1000) if mark in dropped} == wanted
    assert dropped.size == len(wanted)


class Ladder(Counters):
    """Violated only where everybody has counted to the end."""

    @invariant
    def NotTheEnd(s):
        return Exists(s.Client, lambda c: s.value[c] < s.Limit)


def same_with_little_memory(limit: int, bounds: Bounds) -> None:
    """`bounds` have so little that what was seen is left to the files several times."""
    ample = check(Ladder(Limit=limit), Bounds(symmetry=bounds.symmetry))
    small = check(Ladder(Limit=limit), bounds)
    assert ample.verdict == small.verdict == "violated"
    assert len(small.trace) == len(ample.trace) == small.depth == 3 * limit + 1
    assert (small.distinct_states, small.generated_states) == (ample.distinct_states, ample.generated_states)
    expected = (limit + 1) ** 3
    if bounds.symmetry:
        expected = (limit + 1) * (limit + 2) * (limit + 3) // 6
    assert small.distinct_states == expected
    assert small.spills > 0
    assert small.actions == ample.actions


def test_with_one_megabyte_the_same_states_are_found() -> None:
    """A table of 32,768 slots, and 29,791 states."""
    same_with_little_memory(30, Bounds(memory=1))


@pytest.mark.parametrize(("jobs", "symmetry"), [(1, True), (2, False), (3, True)])
def test_with_tiny_tables_the_same_states_are_found(
    jobs: int, symmetry: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers are forked, so that they see the same limit."""
    monkeypatch.setattr("liftlog_spec.explore.worker.most_bits", lambda memory: 8)
    monkeypatch.setattr("liftlog_spec.explore.worker.RECENT_STATES", 30)
    limit = 20 if symmetry else 10
    report = check(Ladder(Limit=limit), Bounds(jobs=jobs, symmetry=symmetry))
    assert (report.verdict, len(report.trace)) == ("violated", 3 * limit + 1)
    expected = (limit + 1) * (limit + 2) * (limit + 3) // 6 if symmetry else (limit + 1) ** 3
    assert report.distinct_states == expected
    assert report.spills > 3


def test_a_depth_too_wide_for_the_table_is_expanded_in_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six clients: the widest depth has more states than the table has slots."""
    monkeypatch.setattr("liftlog_spec.explore.worker.most_bits", lambda memory: 8)
    report = check(Counters(Clients=6), Bounds())
    assert report.distinct_states == 4**6
    assert report.spills > 5
    assert report.generated_states == 6 * 3 * 4**5


def test_memory_that_is_too_small_for_one_state_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("liftlog_spec.explore.worker.most_bits", lambda memory: 2)
    with pytest.raises(SpecError, match="too small for this model"):
        check(Counters(Clients=6), Bounds(memory=1))


# -- deadlocks, coverage, walks ---------------------------------------------------------------------


class Finished(Counters):
    @terminal
    def AllAtTheLimit(s):
        return ~Exists(s.Client, lambda c: s.value[c] < s.Limit)


class Stuck(Finished):
    """Nobody moves once two have met at 2 and the third is behind."""

    @constraint
    def Always(s):
        return s.Limit > 0

    @action
    def add(s, c: Client):  # noqa: F821
        when(s.value[c] < s.Limit, count(s.Client, lambda o: s.value[o] == 2) < 2)
        s.value[c] = s.value[c] + 1

    @action
    def never(s):
        when(Exists(s.Client, lambda c: s.value[c] > s.Limit))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_deadlock_is_counted_and_on_demand_a_violation(jobs: int) -> None:
    assert check(Counters(), Bounds(jobs=jobs)).deadlocks == 1
    report = check(Counters(), Bounds(jobs=jobs, deadlock=True))
    assert (report.verdict, report.invariant, len(report.trace)) == ("violated", "Deadlock", 10)
    assert report.trace[-1].state["value"] == {"client1": 3, "client2": 3, "client3": 3}


def test_a_terminal_property_allows_that_nothing_follows() -> None:
    report = check(Finished(), Bounds(deadlock=True))
    assert (report.verdict, report.deadlocks) == ("holds", 0)
    stuck = check(Stuck(), Bounds(deadlock=True))
    assert (stuck.verdict, stuck.invariant, len(stuck.trace)) == ("violated", "Deadlock", 5)
    assert sorted(stuck.trace[-1].state["value"].values()) == [0, 2, 2]


def test_steps_are_counted_by_action_and_what_is_never_taken_is_named() -> None:
    report = check(Stuck(), Bounds())
    assert report.actions["add"] == report.generated_states
    assert report.never == ["never"]
    assert "warning: never taken within these bounds: never" in lines_of(report)
    together = check(Stuck(), Bounds(jobs=2, symmetry=True))
    assert together.never == ["never"]
    assert together.actions["add"] == together.generated_states


def test_walks_are_the_same_for_a_seed_and_any_number_of_processes() -> None:
    walks = Walks(number=40, depth=6, seed=3)
    one, again, three = (simulate(Guarded(Limit=9), Bounds(jobs=jobs), walks) for jobs in (1, 1, 3))
    for report in (again, three):
        assert report.trace == one.trace
        assert report.actions == one.actions
        assert report.generated_states == one.generated_states
    assert (one.verdict, one.invariant) == ("violated", "Low")
    assert len(one.trace) == 3, "among forty walks one takes the shortest way"
    other = simulate(Guarded(Limit=9), Bounds(), Walks(number=40, depth=6, seed=4))
    assert other.actions != one.actions


def test_a_walk_is_a_run_of_the_model() -> None:
    report = simulate(Guarded(Limit=9), Bounds(), Walks(number=3, depth=60, seed=1))
    values = [sum(step.state["value"].values()) for step in report.trace]
    assert values == list(range(len(values)))
    assert max(report.trace[-1].state["value"].values()) == 2


def test_a_walk_ends_after_its_steps_at_a_constraint_and_where_nothing_follows() -> None:
    report = simulate(Counters(Limit=9), Bounds(), Walks(number=5, depth=4, seed=0))
    assert (report.verdict, report.depth, report.generated_states) == ("bounded", 5, 25)
    assert report.deadlocks == 0
    kept = simulate(Kept(), Bounds(), Walks(number=5, depth=4, seed=0))
    assert (kept.depth, kept.deadlocks) == (2, 0)
    ended = simulate(Counters(), Bounds(), Walks(number=5, depth=99, seed=0))
    assert (ended.verdict, ended.depth, ended.deadlocks) == ("bounded", 10, 5)
    deadlock = simulate(Counters(), Bounds(deadlock=True), Walks(number=5, depth=99, seed=0))
    assert (deadlock.verdict, deadlock.invariant, len(deadlock.trace)) == ("violated", "Deadlock", 10)
    finished = simulate(Finished(), Bounds(deadlock=True), Walks(number=5, depth=99, seed=0))
    assert finished.verdict == "bounded"


def test_walks_report_what_they_never_saw_and_never_did() -> None:
    report = simulate(Hopeful(), Bounds(jobs=2), Walks(number=20, depth=20, seed=0))
    assert (report.verdict, report.unreached) == ("bounded", ["Beyond"])
    assert simulate(Stuck(), Bounds(), Walks(9, 20, 0)).never == ["never"]
    with pytest.raises(SpecError, match="is no"):
        simulate(Overflowing(), Bounds(jobs=2), Walks(number=20, depth=20, seed=0))


class Nowhere(Counters):
    @initial
    def Begin(s):
        when(s.Limit > 100)


def test_a_model_without_a_first_state_is_an_error() -> None:
    with pytest.raises(SpecError, match="has no first state"):
        check(Nowhere(), Bounds())
    with pytest.raises(SpecError, match="has no first state"):
        simulate(Nowhere(), Bounds(), Walks(1, 1, 0))


class Beyond(Counters):
    log = Var(Seq(Range(0, 9), 3))

    @action
    def read(s, c: Client):  # noqa: F821
        when(s.value[c] == 2)
        s.value[c] = s.log[s.value[c]]


class BeyondProperty(Counters):
    log = Var(Seq(Range(0, 9), 3))

    @invariant
    def FirstIsSmall(s):
        return s.log[0] < 5


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_term_without_a_value_is_an_error_that_names_the_action(jobs: int) -> None:
    with pytest.raises(SpecError, match=r"model Beyond, read \(test_explore.py:\d+\): a term has no value"):
        check(Beyond(), Bounds(jobs=jobs))
    with pytest.raises(SpecError, match=r"model BeyondProperty, FirstIsSmall: a term has no value"):
        check(BeyondProperty(), Bounds())
    with pytest.raises(SpecError, match=r"read \(test_explore.py:\d+\): a term has no value"):
        simulate(Beyond(), Bounds(jobs=jobs), Walks(20, 20, 0))


def test_progress_tells_depth_states_frontier_and_speed() -> None:
    lines: list[str] = []
    check(Counters(Limit=9), Bounds(), lines.append)
    assert re.fullmatch(r"depth 1: 1 distinct states, 1 to expand \(0% done\), [\d,]+/s", lines[0])
    depths = [int(line.split()[1].rstrip(":")) for line in lines]
    assert depths == sorted(depths)
    assert set(depths) == set(range(1, 29))


# -- the command ------------------------------------------------------------------------------------


def command(*words: str) -> tuple[int, str]:
    parser = argparse.ArgumentParser()
    add_check(parser.add_subparsers())
    arguments = parser.parse_args(["check", *words])
    into = io.StringIO()
    with contextlib.redirect_stdout(into):
        code = run_check(arguments)
    return code, into.getvalue()


def test_the_command_prints_the_shortest_trace_and_the_steps() -> None:
    code, text = command("--model", "twophase", "--variant", "impatient")
    assert code == 1
    assert "is violated. The shortest way there" in text
    assert re.search(r"^ +\d+ Prepare$", text, re.MULTILINE)
    code, text = command("--model", "twophase", "--simulate", "20", "--depth", "9", "--seed", "5")
    assert code == 0
    assert "20 walks of at most 10 states, seed 5" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "twophase", "--memory", "0"], "--memory 0 is out of range"),
        (["--model", "twophase", "--depth", "3"], "--depth belongs to --simulate"),
        (["--model", "twophase", "--seed", "3"], "--seed belongs to --simulate"),
        (["--model", "twophase", "--simulate", "-1"], "--simulate -1 is out of range"),
        (["--model", "twophase", "--simulate", "3", "--depth", "0"], "--depth 0 is out of range"),
        (["--model", "twophase", "--simulate", "3", "--max-states", "9"], "--max-states does not go with"),
        (["--model", "twophase", "--simulate", "3", "--symmetry"], "--symmetry does not go with"),
        (["--model", "twophase", "--jobs", "0"], "--jobs 0 is out of range"),
        ([], "name a model with --model"),
    ],
)
def test_wrong_use_is_refused_with_the_remedy(words: list[str], message: str) -> None:
    with pytest.raises(LiftlogError, match=message):
        command(*words)
