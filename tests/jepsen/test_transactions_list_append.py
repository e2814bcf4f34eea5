"""Transactions over lists: each anomaly planted and almost planted, and what is refused or left open."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from liftlog.types import LiftlogError
from liftlog_jepsen.events import FAIL, INFO, OK, BadHistory, Event, Operation, pair
from liftlog_jepsen.judgement import Judgement
from liftlog_jepsen.transactions import Options, check_list_append

Parts = list[list[Any]]


def transaction(
    number: int, start: int, end: int, text: str, outcome: str = OK, process: int | None = None
) -> Operation:
    """From text like `x+1 x:1,2 y:`: append 1 to x, read x as [1 2], read y as empty."""
    parts: Parts = []
    for word in text.split():
        if "+" in word:
            key, _, value = word.partition("+")
            parts.append(["append", key, int(value)])
        else:
            key, _, values = word.partition(":")
            parts.append(["r", key, [int(value) for value in values.split(",") if value]])
    asked = [[name, key, None if name == "r" else value] for name, key, value in parts]
    return Operation(
        number,
        number if process is None else process,
        "txn",
        asked,
        parts if outcome == OK else None,
        outcome,
        start,
        None if outcome == INFO else end,
    )


def at_once(*texts: str, fails: tuple[int, ...] = (), unknown: tuple[int, ...] = ()) -> list[Operation]:
    """Transactions that all run at the same time."""
    size = len(texts)
    return [
        transaction(at, at, size + at, text, FAIL if at in fails else INFO if at in unknown else OK)
        for at, text in enumerate(texts)
    ]


def in_turn(*texts: str, one_process: bool = False) -> list[Operation]:
    """Transactions one after the other."""
    return [
        transaction(at, 2 * at, 2 * at + 1, text, process=0 if one_process else at)
        for at, text in enumerate(texts)
    ]


def anomalies(operations: list[Operation], model: str | None = None) -> list[str]:
    return list(judge(operations, model).totals)


def judge(operations: list[Operation], model: str | None = None) -> Judgement:
    judgement = check_list_append(operations, Options(consistency_model=model))
    for problem in (*judgement.problems, *judgement.allowed):
        assert set(problem.operations) <= {operation.number for operation in operations}
        assert all(f"T{number}" in problem.words for number in problem.operations)
    return judgement


# Histories whose one anomaly is named, and the same without it. All transactions run at once unless noted.
PLANTED = {
    "G0": (["x+1 y+1", "x+2 y+2", "x:1,2 y:2,1"], ["x+1 y+1", "x+2 y+2", "x:1,2 y:1,2"]),
    "G1c": (["x+1 y:1", "y+1 x:1"], ["x+1 y:1", "y+1 x:"]),
    "G-single": (["x+1 y+1", "x: y:1"], ["x+1 y+1", "x:1 y:1"]),
    "G-nonadjacent": (
        ["x+1", "x:1 y:", "y+1", "x: y:1"],
        ["x+1", "x:1 y:", "y+1", "x:1 y:1"],
    ),
    "G2-item": (["x: y+1", "y: x+1", "x:1 y:1"], ["x: y+1", "y:1 x+1", "x:1 y:1"]),
    "incompatible-order": (["x+1", "x+2", "x:1,2", "x:2"], ["x+1", "x+2", "x:1,2", "x:1"]),
    "duplicate-elements": (["x+1", "x+2", "x:1,2,1"], ["x+1", "x+2", "x:1,2"]),
    "phantom": (["x+1", "x:1,7"], ["x+1", "x+7", "x:1,7"]),
    "internal": (["x+1", "x:1 x:", "x:1"], ["x+1", "x:1 x:1", "x:1"]),
    "future-read": (["x:1 x+1 x:1", "x:1"], ["x: x+1 x:1", "x:1"]),
    "G1b": (["x+1 x+2", "x:1", "x:1,2"], ["x+1 x+2", "x:1,2", "x:1,2"]),
}
WITH_OTHERS = {
    "incompatible-order": {"G-single"},
    "internal": {"G-single"},
    "future-read": {"internal"},
    "G1b": {"G1c", "G-single"},
}
"""What such a history cannot but show as well."""


@pytest.mark.parametrize("anomaly", PLANTED)
def test_planted(anomaly: str) -> None:
    judgement = judge(at_once(*PLANTED[anomaly][0]))
    assert judgement.valid is False
    assert anomaly in judgement.totals
    assert set(judgement.totals) - {anomaly} <= WITH_OTHERS.get(anomaly, set())


@pytest.mark.parametrize("anomaly", PLANTED)
def test_near_miss(anomaly: str) -> None:
    judgement = judge(at_once(*PLANTED[anomaly][1]))
    assert (judgement.valid, judgement.totals, judgement.problems) == (True, {}, ())


SUFFIXED = {
    # A stale read of an own write, of another's write, and so on: only the order in time contradicts.
    "G0": ["y+1 x+1", "x+2", "x:2,1"],
    "G1c": ["x:1", "x+1"],
    "G-single": ["x+1", "x:"],
    "G-nonadjacent": ["x+1 a+1", "y: a:1 b+2", "b:2 y+1", "x:"],
    "G2-item": ["x+1 a:", "a+1 y:", "y+1 x:"],
}


def test_realtime_and_process_make_kinds_of_their_own() -> None:
    """In turn, and by one process or several; the same at once is no anomaly."""
    for base in ("G0", "G1c", "G-single"):
        texts = SUFFIXED[base]
        assert anomalies(in_turn(*texts)) == [f"{base}-realtime"], base
        assert anomalies(in_turn(*texts, one_process=True)) == [f"{base}-process"], base
        assert anomalies(at_once(*texts)) == [], base


@pytest.mark.parametrize("one_process", [False, True])
def test_g2_item_in_time(one_process: bool) -> None:
    """Write skew that is closed by an order in time: T2 misses T1, T0 misses T2, T1 ran before T0."""
    process = 7 if one_process else 1
    operations = [
        transaction(0, 0, 5, "x+1 z:"),
        transaction(1, 1, 2, "z+1 w+1", process=7),
        transaction(2, 3, 6, "y+1 x:", process=process if one_process else 2),
        transaction(3, 7, 8, "x:1 y:1 z:1"),
    ]
    suffix = "process" if one_process else "realtime"
    # T0 missed T1's z, T2 missed T0's x, and T1 ended before T2 began.
    assert anomalies(operations) == [f"G2-item-{suffix}"]
    late = [operations[0], operations[1]._replace(end=4), *operations[2:]]
    if not one_process:
        assert anomalies(late) == []


@pytest.mark.parametrize("one_process", [False, True])
def test_g_nonadjacent_in_time(one_process: bool) -> None:
    """Two missed writes, kept apart by a read and by an order in time: T0 missed T2, which ended before T3
    began, which missed T1, whose z T0 read.
    """
    operations = [
        transaction(0, 0, 9, "x: z:1"),
        transaction(1, 1, 8, "y+1 z+1"),
        transaction(2, 2, 3, "x+1", process=2),
        transaction(3, 4, 7, "y:", process=2 if one_process else 3),
        transaction(4, 10, 11, "x:1 y:1 z:1"),
    ]
    suffix = "process" if one_process else "realtime"
    assert anomalies(operations) == [f"G-nonadjacent-{suffix}"]
    if not one_process:
        operations[2] = operations[2]._replace(end=5)
        assert anomalies(operations) == []
    operations[3] = transaction(3, 4, 7, "y:1", process=2)
    assert anomalies(operations) == []


def test_weaker_models_do_not_look_at_time() -> None:
    stale = in_turn("x+1", "x:")
    assert judge(stale).valid is False
    assert judge(stale, "strong-session-serializable").valid is True
    assert judge(stale, "serializable").valid is True
    unrelated = in_turn("x+1", "y+1")
    assert judge(unrelated).valid is True
    assert judge(unrelated, "serializable").valid is None  # nothing but time joins these two


def test_aborted_read() -> None:
    planted = at_once("x+1", "x+2", "x:1,2", fails=(0,))
    judgement = judge(planted)
    assert judgement.totals == {"G1a": 1, "dirty-update": 1}
    assert judgement.problems[0].words == "T0 appended 1 to x and failed, but T2 read it"
    assert anomalies(at_once("x+1", "x+2", "x:2", fails=(0,))) == []
    assert anomalies(at_once("x+1", "x+2", "x:1,2", unknown=(0,))) == []


def test_aborted_read_in_an_order_that_does_not_fit() -> None:
    assert anomalies(at_once("x+1", "x+2", "x+3", "x:2,3", "x:1", fails=(0,))) == [
        "G1a",
        "incompatible-order",
    ]


def test_dirty_update_needs_a_commit_behind_the_failure() -> None:
    assert anomalies(at_once("x+1", "x+2", "x:1,2", fails=(0,)), "read-uncommitted") == [
        "G1a",
        "dirty-update",
    ]
    assert anomalies(at_once("x+2", "x+1", "x:2,1", fails=(1,))) == ["G1a"]
    assert anomalies(at_once("x+1", "x+2", "x:1,2", fails=(0,), unknown=(1,))) == ["G1a"]


def test_lost_update() -> None:
    """Both read x empty and appended; no read shows the second append, so there is no cycle to find it by."""
    planted = at_once("x: x+1", "x: x+2")
    assert "lost-update" in anomalies(planted)
    assert judge(planted, "read-committed").valid is True
    assert judge(planted, "cursor-stability").valid is False
    assert anomalies(at_once("x: x+1", "x:1 x+2")) == []
    assert anomalies(at_once("x: x+1", "x+2 x:1,2", "x:1,2")) == []


def test_a_lost_update_is_found_without_an_order_of_versions() -> None:
    planted = at_once("x:1 x+2", "x:1 x+3", "x+1", "x:1,9")
    assert "lost-update" in anomalies(planted)


def test_an_append_that_is_never_read_came_last() -> None:
    """T1 never saw T2's append, nor did any read; so T2 is behind T0, whose append T1 saw."""
    operations = at_once("x+1", "x:1 y+1", "x+2 y:1", "y:1")
    assert anomalies(operations) == []
    assert anomalies(at_once("x+1", "x:1 y:5", "x+2 y+5")) == ["G-single"]


def test_an_unknown_transaction_may_have_happened_or_not() -> None:
    assert anomalies(at_once("x+1 y+1", "x: y:1", unknown=(0,))) == ["G-single"]
    assert anomalies(at_once("x+1 y+1", "x: y:", unknown=(0,))) == []
    late = [transaction(0, 0, 1, "x+1", INFO), transaction(1, 2, 3, "x:"), transaction(2, 4, 5, "x:1")]
    assert anomalies(late) == []


def test_elements_of_failed_transactions_are_no_versions() -> None:
    """The element between them failed, and yet T0 and T2 are neighbours in the order of versions."""
    cycle = at_once("x+1 y+2", "x+9", "x+2 y+1", "x:1,9,2 y:1,2", fails=(1,))
    assert set(anomalies(cycle)) == {"G0", "G1a", "dirty-update"}


def test_a_cycle_is_explained_step_by_step() -> None:
    (problem,) = judge(at_once("x+1 y+1", "x: y:1")).problems
    assert problem.operations == (0, 1)
    assert problem.detail == {
        "cycle": [
            {"from": 0, "to": 1, "edge": "wr", "key": "y", "words": "T0 appended 1 to y, which T1 read"},
            {
                "from": 1,
                "to": 0,
                "edge": "rw",
                "key": "x",
                "words": "T1 read x empty, without 1, which T0 appended",
            },
        ]
    }
    assert problem.words == (
        "T0 is before T1: T0 appended 1 to y, which T1 read; T1 is before T0: T1 read x empty, without 1, "
        "which T0 appended. So T0 would be before itself."
    )


def test_each_kind_of_step_has_its_words() -> None:
    (problem,) = judge(in_turn("y+1 x+1", "x+2", "x:2,1", one_process=True)).problems
    assert [step["words"] for step in problem.detail["cycle"]] == [
        "process 0 ran T0 before T1",
        "T0 appended 1 to x behind 2, which T1 appended",
    ]
    (problem,) = judge(in_turn("x+1", "x:")).problems
    assert problem.detail["cycle"][0]["words"] == "T0 ended before T1 began"


def test_an_unread_append_is_explained() -> None:
    problem = judge(at_once("x+1 y:5", "x:1", "x+2 y+5")).problems[0]
    assert problem.anomaly == "G1c"
    assert problem.detail["cycle"][0]["words"] == (
        "T2 appended 2 to x, and reads up to 1, which T0 appended, do not have it"
    )


def test_a_long_cycle_is_found_among_many_smaller_ones_of_another_kind() -> None:
    """A ring of 300 appends that only its last transaction contradicts: a G-single of 300. A thousand cycles
    with two rw in a row lead through its first transaction, and no other.
    """
    size = 300
    ring = [f"ring+{at}" for at in range(size)]
    ring[0] += " seen+1"
    ring[-1] += " seen:"
    order = ",".join(str(at) for at in range(size))
    noise = [f"ring:{order}"]
    for at in range(1, size - 1):
        ring[at] += f" n{at}+0"
        noise += [f"n{at}:0,1 m{at}:", f"n{at}+1", f"m{at}+0 ring:"]
    operations = in_turn(*ring, *noise)
    judgement = judge(operations, "snapshot-isolation")
    assert judgement.totals == {"G-single": 1}
    assert judgement.problems[0].operations == tuple(range(size))


def test_models_that_fall_are_named() -> None:
    judgement = judge(at_once("x: y+1", "y: x+1", "x:1 y:1"))
    assert judgement.reasons == (
        "the history is not repeatable-read, and hence not serializable, strong-session-serializable, "
        "strict-serializable",
    )
    weaker = judge(at_once("x: y+1", "y: x+1", "x:1 y:1"), "snapshot-isolation")
    assert weaker.valid is True and weaker.reasons == judgement.reasons
    assert [problem.anomaly for problem in weaker.allowed] == ["G2-item"] and weaker.problems == ()


def test_all_are_counted_and_some_described() -> None:
    operations = at_once("x+1", *("x:1,7" for _ in range(5)), *(f"y+{n} y:{n},{n}" for n in range(20)))
    judgement = check_list_append(operations, Options(examples=3))
    assert judgement.totals["duplicate-elements"] == 20
    assert sum(problem.anomaly == "duplicate-elements" for problem in judgement.problems) == 3


def test_extra_anomalies_can_be_forbidden() -> None:
    operations = at_once("x: y+1", "y: x+1", "x:1 y:1")
    options = Options(consistency_model="read-committed", anomalies=("G2-item",))
    assert check_list_append(operations, options).valid is False


def test_an_element_that_was_appended_twice_proves_nothing() -> None:
    judgement = judge(at_once("x+1", "x+1", "x:1,1", "y:"))
    assert judgement.valid is None and judgement.totals == {}
    assert judgement.reasons[0].startswith("1 was appended to x by T0 and T1, so reads of it prove nothing")
    also = judge(at_once("x+1", "x+1", "z+4 z+4", "y+1 w:1", "w+1 y:1"))
    assert also.valid is False and list(also.totals) == ["G1c"]
    assert also.reasons[0].endswith("(also in 1 other keys)")


def test_a_history_without_dependencies_proves_nothing() -> None:
    judgement = judge(at_once("x:", "y:"))
    assert judgement.valid is None and "cannot contradict any order" in judgement.reasons[0]
    assert judge(at_once("x:", "x+1")).valid is True


def test_search_that_stops_is_unknown_unless_something_is_found() -> None:
    operations = at_once(*(f"k{at}: k{(at + 1) % 30}+1" for at in range(30)), "z+1", "z:1")
    full = check_list_append(operations)
    assert full.valid is False and full.totals == {"G2-item": 1}
    short = check_list_append(operations, Options(steps=5))
    assert short.valid is False and "stopped after 5 steps" in short.reasons[0]


def test_keys_and_elements_may_be_lists_and_texts() -> None:
    def parts(element: Any) -> Parts:
        return [["append", ["k", 1], element], ["r", ["k", 1], [element]]]

    events = []
    for process, element in enumerate((["a", {"b": 1}], "a")):
        events.append(Event(process, "invoke", "txn", parts(element)))
    for process, element in enumerate((["a", {"b": 1}], "a")):
        events.append(Event(process, "ok", "txn", parts(element)))
    judgement = check_list_append(pair(events, "h"))
    assert judgement.totals["incompatible-order"] == 1
    assert judgement.problems[0].key == '["k" 1]'
    assert judgement.problems[0].words == ('T1 read ["k" 1] with a at place 0, T0 with ["a" {"b" 1}] there')


def test_reads_may_be_asked_without_a_value() -> None:
    operations = at_once("x+1", "x:1", "x+2")
    asked = [["r", "x"], ["append", "x", 7]]
    operations.append(Operation(3, 3, "txn", asked, None, INFO, 7, None))
    assert anomalies(operations) == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            [["w", "x", 1]],
            'expected parts [r key value] and [append key value], found ["w" "x" 1]; histories',
        ),
        ([["r", "x", 3]], "whose value is no list"),
        ([["append", "x"]], 'found ["append" "x"]'),
        (None, "found the result nil"),
        ([["cas", "x", 1]], "with w are checked as rw-register"),
    ],
)
def test_what_is_no_such_transaction_is_refused(value: Any, message: str) -> None:
    operations = [Operation(4, 2, "txn", value, value, OK, 0, 1)]
    with pytest.raises(BadHistory) as caught:
        check_list_append(operations)
    assert "operation 4 (txn of process 2)" in str(caught.value) and message in str(caught.value)


def test_the_collector_runs_again_afterwards() -> None:
    assert gc.isenabled()
    judge(at_once("x+1", "x:1"))
    with pytest.raises(LiftlogError):
        judge(at_once("x+1", "x:1"), "nonsense")
    assert gc.isenabled()
    gc.disable()
    try:
        judge(at_once("x+1", "x:1"))
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_model_that_does_not_exist_is_refused() -> None:
    with pytest.raises(LiftlogError, match="unknown consistency model 'serialisable'; give one of"):
        judge(at_once("x+1", "x:1"), "serialisable")
