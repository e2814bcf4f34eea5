"""Bank, set, set-full, counter, long-fork and comments: planted faults, near misses, and second
implementations that replay the events one by one, as Jepsen's own code does.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog.types import LiftlogError
from liftlog_jepsen.events import Event, Operation, pair
from liftlog_jepsen.formats import read_history
from liftlog_jepsen.judgement import Judgement
from liftlog_jepsen.tallies import ALIASES, ANOMALIES, TALLIES, TallyOptions, check_tally

ROOT = Path(__file__).resolve().parents[2]
HISTORIES = Path(os.environ.get("LIFTLOG_HISTORIES", ROOT.parent / "shared" / "histories"))

Line = tuple[int, str, str, Any]
"""Process, type, function and value of one event."""


def told(*lines: Line) -> list[Operation]:
    return pair([Event(*line) for line in lines], "h")


def one_by_one(*lines: tuple[str, Any, Any]) -> list[Operation]:
    """Operations that do not overlap: function, argument, result."""
    events: list[Line] = []
    for f, argument, result in lines:
        events += [(0, "invoke", f, argument), (0, "ok", f, result)]
    return told(*events)


def found(judgement: Judgement) -> dict[str, int]:
    return dict(judgement.totals)


def read_bank(*balances: dict[Any, Any]) -> list[Operation]:
    return one_by_one(*(("read", None, each) for each in balances))


FULL = {0: 60, 1: 40}
PLANTED: dict[str, tuple[str, list[Operation], TallyOptions, tuple[int, ...]]] = {
    "unexpected-key": ("bank", read_bank(FULL, {0: 60, 1: 40, 2: 0}), TallyOptions(), (1,)),
    "nil-balance": ("bank", read_bank(FULL, {0: 100, 1: None}), TallyOptions(), (1,)),
    "wrong-total": ("bank", read_bank(FULL, {0: 60, 1: 41}), TallyOptions(), (1,)),
    "negative-value": ("bank", read_bank(FULL, {0: 101, 1: -1}), TallyOptions(), (1,)),
    "lost": ("set", one_by_one(("add", 1, 1), ("add", 2, 2), ("read", None, [1])), TallyOptions(), (1, 2)),
    "unexpected": ("set", one_by_one(("add", 1, 1), ("read", None, [1, 3])), TallyOptions(), (1,)),
    "stale": (
        "set-full",
        one_by_one(("add", 1, 1), ("read", None, []), ("read", None, [1])),
        TallyOptions(linearizable=True),
        (0, 1),
    ),
    "duplicated": ("set-full", one_by_one(("add", 1, 1), ("read", None, [1, 1])), TallyOptions(), (1,)),
    "out-of-bounds": ("counter", one_by_one(("add", 1, 1), ("read", None, 2)), TallyOptions(), (1,)),
    "long-fork": (
        "long-fork",
        one_by_one(
            ("read", [["r", 0, None], ["r", 1, None]], [["r", 0, 1], ["r", 1, None]]),
            ("read", [["r", 1, None], ["r", 0, None]], [["r", 1, 1], ["r", 0, None]]),
        ),
        TallyOptions(),
        (0, 1),
    ),
    "missing-comment": (
        "comments",
        one_by_one(("write", 1, 1), ("write", 2, 2), ("read", None, frozenset([2]))),
        TallyOptions(),
        (0, 1, 2),
    ),
}


def test_every_anomaly_has_a_plant() -> None:
    assert set(PLANTED) == set(ANOMALIES)


@pytest.mark.parametrize("anomaly", ANOMALIES)
def test_a_planted_anomaly_is_found_alone(anomaly: str) -> None:
    model, operations, options, involved = PLANTED[anomaly]
    judgement = check_tally(model, operations, options)
    assert judgement.valid is False
    assert found(judgement) == {anomaly: 1}
    assert [problem.operations for problem in judgement.problems] == [involved]
    assert judgement.problems[0].words


# -- near misses: model, operations, options, verdict --------------------------------------------------------

ADD_1: Line = (0, "invoke", "add", 1)
READ: Line = (1, "invoke", "read", None)
NEAR_MISSES: dict[str, tuple[str, list[Operation], TallyOptions, bool | None]] = {
    "money moves between accounts": ("bank", read_bank(FULL, {0: 0, 1: 100}), TallyOptions(), True),
    "negative balances that are allowed": (
        "bank",
        read_bank({0: -5, 1: 105}),
        TallyOptions(negative_balances=True),
        True,
    ),
    "the total that was said": ("bank", read_bank(FULL), TallyOptions(total=101), False),
    "a failed read shows nothing": (
        "bank",
        told((0, "invoke", "read", None), (0, "fail", "read", {0: 1})),
        TallyOptions(),
        None,
    ),
    "a bank whose first read has a hole": ("bank", read_bank({0: None}), TallyOptions(), None),
    "an unknown add that shows up": (
        "set",
        told(ADD_1, (0, "info", "add", 1), READ, (1, "ok", "read", [1])),
        TallyOptions(),
        True,
    ),
    "an unknown add that does not": (
        "set",
        told(ADD_1, (0, "info", "add", 1), READ, (1, "ok", "read", [])),
        TallyOptions(),
        True,
    ),
    "a set without reads": ("set", told(ADD_1, (0, "ok", "add", 1)), TallyOptions(), None),
    "only the last read of a set counts": (
        "set",
        one_by_one(("add", 1, 1), ("read", None, []), ("read", None, [1])),
        TallyOptions(),
        True,
    ),
    "stale, where that is allowed": (
        "set-full",
        one_by_one(("add", 1, 1), ("read", None, []), ("read", None, [1])),
        TallyOptions(),
        True,
    ),
    "an absent read that began before the element was known": (
        "set-full",
        told(READ, ADD_1, (0, "ok", "add", 1), (1, "ok", "read", [])),
        TallyOptions(),
        None,
    ),
    "a concurrent read that sees it": (
        "set-full",
        told(ADD_1, READ, (1, "ok", "read", [1]), (0, "info", "add", 1)),
        TallyOptions(linearizable=True),
        True,
    ),
    "a read between the bounds": (
        "counter",
        told(READ, ADD_1, (1, "ok", "read", 1), (0, "info", "add", 1)),
        TallyOptions(),
        True,
    ),
    "failed adds do not count": (
        "counter",
        told(ADD_1, (0, "fail", "add", 1), READ, (1, "ok", "read", 0)),
        TallyOptions(),
        True,
    ),
    "decrements": ("counter", one_by_one(("add", -1, -1), ("read", None, -1)), TallyOptions(), None),
    "reads that form a chain": (
        "long-fork",
        one_by_one(
            ("read", None, [["r", 0, 1], ["r", 1, None]]),
            ("read", None, [["r", 0, None], ["r", 1, None]]),
            ("read", None, [["r", 0, 1], ["r", 1, 1]]),
        ),
        TallyOptions(),
        True,
    ),
    "a key written twice": (
        "long-fork",
        one_by_one(("write", [["w", 0, 1]], [["w", 0, 1]]), ("write", [["w", 0, 2]], [["w", 0, 2]])),
        TallyOptions(),
        None,
    ),
    "two values of one key": (
        "long-fork",
        one_by_one(("read", None, [["r", 0, 1]]), ("read", None, [["r", 0, 2]])),
        TallyOptions(),
        None,
    ),
    "a group of the wrong size": (
        "long-fork",
        one_by_one(("read", None, [["r", 0, 1]])),
        TallyOptions(group_size=2),
        None,
    ),
    "overlapping writes in either order": (
        "comments",
        told(
            (0, "invoke", "write", 1),
            (1, "invoke", "write", 2),
            (0, "ok", "write", 1),
            (1, "ok", "write", 2),
            (2, "invoke", "read", None),
            (2, "ok", "read", frozenset([2])),
        ),
        TallyOptions(),
        True,
    ),
}


@pytest.mark.parametrize("story", NEAR_MISSES)
def test_near_misses(story: str) -> None:
    model, operations, options, verdict = NEAR_MISSES[story]
    judgement = check_tally(model, operations, options)
    assert judgement.valid is verdict
    assert bool(judgement.reasons) == (verdict is None)


def test_keys_are_judged_apart() -> None:
    events = [
        Event(0, kind, "add", value, key=key)
        for key, value in (("x", 1), ("y", 2))
        for kind in ("invoke", "ok")
    ]
    for key, result in (("x", [1]), ("y", [])):
        events += [Event(0, "invoke", "read", None, key=key), Event(0, "ok", "read", result, key=key)]
    judgement = check_tally("set", pair(events, "h"))
    assert judgement.valid is False
    assert [(problem.anomaly, problem.key) for problem in judgement.problems] == [("lost", '"y"')]


def test_all_are_counted_and_the_first_few_described() -> None:
    reads = read_bank(FULL, *[{0: 60, 1: 41}] * 5)
    judgement = check_tally("bank", reads, TallyOptions(examples=2))
    assert found(judgement) == {"wrong-total": 5}
    assert len(judgement.problems) == 2


def test_an_unknown_name() -> None:
    with pytest.raises(LiftlogError, match="there is no tally banks; there are bank"):
        check_tally("banks", [])
    assert set(ALIASES.values()) <= set(TALLIES)


# -- second implementations: event by event ------------------------------------------------------------------


def naive_set_full(lines: Sequence[Line], linearizable: bool) -> bool | None:
    states: dict[Any, dict[str, int]] = {}
    invoked: dict[int, int] = {}
    duplicates = False
    for index, (process, kind, f, value) in enumerate(lines):
        if kind == "invoke":
            invoked[process] = index
            if f == "add":
                states[value] = {}
        elif kind == "ok" and f == "add":
            states[value].setdefault("known", index)
        elif kind == "ok" and f == "read":
            duplicates |= len(set(value)) < len(value)
            for element, state in states.items():
                last = "present" if element in value else "absent"
                state[last] = max(state.get(last, -1), invoked[process])
                if element in value:
                    state.setdefault("known", index)
    lost = stable = stale = 0
    for state in states.values():
        known, present, absent = (state.get(name, -1) for name in ("known", "present", "absent"))
        if present > absent:
            stable += 1
            stale += 0 <= known < absent
        elif 0 <= known < absent and present < absent:
            lost += 1
    if lost or duplicates or (linearizable and stale):
        return False
    return True if stable else None


def naive_counter(lines: Sequence[Line], operations: Sequence[Operation]) -> bool:
    outcome = {(one.process, one.start): one.outcome for one in operations}
    lower = upper = 0
    began: dict[int, int] = {}
    for index, (process, kind, f, value) in enumerate(lines):
        if (kind, f) == ("invoke", "read"):
            began[process] = lower
        elif (kind, f) == ("ok", "read") and not began[process] <= value <= upper:
            return False
        elif (kind, f) == ("invoke", "add") and outcome[process, index] != "fail":
            upper += value
        elif (kind, f) == ("ok", "add"):
            lower += value
    return True


def naive_comments(lines: Sequence[Line]) -> bool:
    complete: set[int] = set()
    expected: dict[int, set[int]] = {}
    for _, kind, f, value in lines:
        if f == "write" and kind == "invoke":
            expected[value] = set(complete)
        elif f == "write" and kind == "ok":
            complete.add(value)
    reads = [set(value) for _, kind, f, value in lines if f == "read" and kind == "ok"]
    return all(set().union(*(expected.get(value, set()) for value in seen)) <= seen for seen in reads)


def naive_set(lines: Sequence[Line]) -> bool | None:
    reads = [value for _, kind, f, value in lines if f == "read" and kind == "ok"]
    if not reads:
        return None
    tried = {value for _, kind, f, value in lines if f == "add" and kind == "invoke"}
    added = {value for _, kind, f, value in lines if f == "add" and kind == "ok"}
    return added <= set(reads[-1]) <= tried


def naive_long_fork(lines: Sequence[Line]) -> bool:
    reads = [{key: value for _, key, value in txn} for _, kind, _, txn in lines if kind == "ok"]

    def sees_more(one: dict[int, Any], other: dict[int, Any]) -> bool:
        return one.keys() == other.keys() and any(one[k] is not None and other[k] is None for k in one)

    return not any(sees_more(a, b) and sees_more(b, a) for a in reads for b in reads)


@st.composite
def scripts(
    draw: st.DrawFn, write: str, results: st.SearchStrategy[Any], arguments: st.SearchStrategy[Any]
) -> list[Line]:
    """Events of a few processes that read and write; everything may overlap."""
    lines: list[Line] = []
    busy: dict[int, tuple[str, Any]] = {}
    outcomes = st.sampled_from(["ok", "ok", "ok", "fail", "info"])
    steps = draw(st.lists(st.tuples(st.integers(0, 3), st.booleans(), outcomes), max_size=24))
    for process, reads, outcome in steps:
        if process in busy:
            f, value = busy.pop(process)
            lines.append((process, outcome, f, draw(results) if f == "read" else value))
        else:
            f, value = ("read", None) if reads else (write, draw(arguments))
            busy[process] = (f, value)
            lines.append((process, "invoke", f, value))
    return lines


SMALL = st.integers(0, 3)
LISTS = st.lists(SMALL, max_size=4)


def judged(name: str, lines: list[Line], options: TallyOptions | None = None) -> bool | None:
    return check_tally(name, told(*lines), options).valid if lines else None


@settings(max_examples=200, deadline=None)
@given(scripts("add", LISTS, SMALL), st.booleans())
def test_set_full_agrees_with_a_replay(lines: list[Line], linearizable: bool) -> None:
    expected = naive_set_full(lines, linearizable)
    assert judged("set-full", lines, TallyOptions(linearizable=linearizable)) is expected


@settings(max_examples=120, deadline=None)
@given(scripts("add", LISTS, SMALL))
def test_set_agrees_with_a_replay(lines: list[Line]) -> None:
    assert judged("set", lines) is naive_set(lines)


@settings(max_examples=120, deadline=None)
@given(scripts("add", st.integers(0, 8), SMALL))
def test_counter_agrees_with_a_replay(lines: list[Line]) -> None:
    if lines:
        assert judged("counter", lines) is naive_counter(lines, told(*lines))


@settings(max_examples=120, deadline=None)
@given(scripts("write", LISTS, SMALL))
def test_comments_agrees_with_a_replay(lines: list[Line]) -> None:
    if lines:
        assert judged("comments", lines) is naive_comments(lines)


TXNS = st.tuples(st.integers(0, 1), st.lists(st.sampled_from([None, 1]), min_size=3, max_size=3)).map(
    lambda drawn: [["r", 10 * drawn[0] + key, value] for key, value in enumerate(drawn[1])]
)


@settings(max_examples=120, deadline=None)
@given(st.lists(TXNS, min_size=1, max_size=6))
def test_long_fork_agrees_with_all_pairs(txns: list[Any]) -> None:
    lines: list[Line] = []
    for txn in txns:
        lines += [(0, "invoke", "read", None), (0, "ok", "read", txn)]
    assert judged("long-fork", lines) is naive_long_fork(lines)


def naive_bank(reads: Sequence[dict[int, Any]]) -> bool:
    accounts, total = set(reads[0]), sum(reads[0].values())
    return all(
        set(read) <= accounts
        and None not in read.values()
        and sum(read.values()) == total
        and min(read.values(), default=0) >= 0
        for read in reads
    )


BALANCES = st.dictionaries(SMALL, st.one_of(st.none(), st.integers(-1, 3)), max_size=3)


@settings(max_examples=120, deadline=None)
@given(st.dictionaries(SMALL, SMALL), st.lists(BALANCES, max_size=3))
def test_bank_agrees_with_a_sentence(first: dict[int, int], later: list[dict[int, Any]]) -> None:
    assert check_tally("bank", read_bank(first, *later)).valid is naive_bank([first, *later])


# -- histories by others -------------------------------------------------------------------------------------

STATED: tuple[tuple[str, str, bool], ...] = (
    ("elle-cli/jepsen/bank.json", "bank", True),
    ("elle-cli/jepsen/bank-negative-balances.json", "bank", False),
    ("elle-cli/jepsen/counter.json", "counter", True),
    ("elle-cli/jepsen/set.edn", "set", True),
    ("elle-cli/jepsen/set_full.edn", "set-full", False),
    ("elle-cli/custom/comments.edn", "comments", False),
)


@pytest.mark.parametrize(("path", "model", "verdict"), STATED)
def test_the_stated_verdict(path: str, model: str, verdict: bool) -> None:
    if not (HISTORIES / path).exists():
        pytest.skip(f"no histories by others in {HISTORIES}")
    assert check_tally(model, pair(read_history(HISTORIES / path), path)).valid is verdict
