"""The explorer on small models whose states can be counted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from spec.explore.report import Bounds, show_trace
from spec.explore.search import check
from spec.explore.visited import Chunks, Table, ancestry, fingerprint, read_chunk
from spec.lang import (
    Constant,
    Exists,
    Fn,
    Model,
    Range,
    Sort,
    SpecError,
    Var,
    action,
    constraint,
    invariant,
    sometimes,
    when,
)
from spec.models.twophase import TwoPhase


class Counters(Model):
    """Each client counts to the limit on its own."""

    Limit = Constant(3)
    Clients = Constant(3)
    Client = Sort(Clients)
    value = Var(Fn(Client, Range(0, Limit)), init=0)

    @action
    def add(s, c: Client):  # type: ignore[no-untyped-def, valid-type]
        when(s.value[c] < s.Limit)
        s.value[c] = s.value[c] + 1


class Guarded(Counters):
    @invariant
    def Low(s):  # type: ignore[no-untyped-def]
        return ~Exists(s.Client, lambda c: s.value[c] == 2)


class Hopeful(Counters):
    @sometimes
    def Beyond(s):  # type: ignore[no-untyped-def]
        return Exists(s.Client, lambda c: s.value[c] > s.Limit)


class Kept(Counters):
    @constraint
    def Small(s):  # type: ignore[no-untyped-def]
        return ~Exists(s.Client, lambda c: s.value[c] > 0)


class Overflowing(Counters):
    @action
    def jump(s, c: Client):  # type: ignore  # noqa: F821
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
    from array import array

    assert one.settle(array("Q", [77]), array("Q", [place])) == ({77}, [])
    assert other.settle(array("Q", [77]), array("Q", [place])) == (set(), [])
    # Or it has overwritten the slot with another fingerprint.
    other.slots[place] = 99
    assert one.settle(array("Q", [77]), array("Q", [place])) == (set(), [77])
    assert one.insert(77) >= 0
    larger = one.grown(tmp_path)
    assert [larger.insert(mark) for mark in (77, 99)] == [-1, -1]
    assert larger.insert(5) >= 0


def test_chunks_and_ancestry_come_back(tmp_path: Path) -> None:
    chunks = Chunks(tmp_path, "depth-1-0", 2)
    states = [(number, (number, -1)) for number in range(5)]
    for state in states:
        chunks.append(state)
    chunks.flush()
    assert [state for path in chunks.paths for state in read_chunk(path)] == states
    from array import array

    path = tmp_path / "predecessors-0"
    path.write_bytes(array("Q", [1, 1, 2, 1, 3, 2]).tobytes())
    assert ancestry([path], 3) == [1, 2, 3]
    assert fingerprint((0,)) != fingerprint((1,))
