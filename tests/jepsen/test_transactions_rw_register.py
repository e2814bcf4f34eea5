"""Transactions over registers: each anomaly planted and almost planted, and what each assumption adds."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog_jepsen.events import FAIL, INFO, OK, BadHistory, Operation
from liftlog_jepsen.judgement import Judgement
from liftlog_jepsen.transactions import Options, check_rw_register


def transaction(
    number: int, start: int, end: int, text: str, outcome: str = OK, process: int | None = None
) -> Operation:
    """From text like `x=1 x:1 y:`: write 1 to x, read x as 1, read y as nil (also `y=` writes nil)."""
    parts: list[list[Any]] = []
    for word in text.split():
        name, mark = ("w", "=") if "=" in word else ("r", ":")
        key, _, value = word.partition(mark)
        parts.append([name, key, int(value) if value else None])
    asked = [[name, key, None if name == "r" else value] for name, key, value in parts]
    done = parts if outcome == OK else None
    ended = None if outcome == INFO else end
    return Operation(
        number, number if process is None else process, "txn", asked, done, outcome, start, ended
    )


def at_once(*texts: str, fails: tuple[int, ...] = (), unknown: tuple[int, ...] = ()) -> list[Operation]:
    """Transactions that all run at the same time."""
    return [
        transaction(at, at, len(texts) + at, text, FAIL if at in fails else INFO if at in unknown else OK)
        for at, text in enumerate(texts)
    ]


def in_turn(*texts: str, one_process: bool = False) -> list[Operation]:
    """Transactions one after the other."""
    return [
        transaction(at, 2 * at, 2 * at + 1, text, process=0 if one_process else at)
        for at, text in enumerate(texts)
    ]


def judge(operations: list[Operation], **options: Any) -> Judgement:
    judgement = check_rw_register(operations, Options(**options))
    for problem in (*judgement.problems, *judgement.allowed):
        assert set(problem.operations) <= {operation.number for operation in operations}
    return judgement


def anomalies(operations: list[Operation], **options: Any) -> list[str]:
    return list(judge(operations, **options).totals)


PLANTED = {
    "G1c": (["x=1 y:1", "y=1 x:1"], ["x=1 y:1", "y=1"]),
    "G-single": (["x=1 y=1", "x: y:1"], ["x=1 y=1", "x:1 y:1"]),
    "G-nonadjacent": (["x=1", "x:1 y:", "y=1", "x: y:1"], ["x=1", "x:1 y:", "y=1", "x:1 y:1"]),
    "G2-item": (["x: y=1", "y: x=1"], ["x: y=1", "y:1 x=1"]),
    "internal": (["x=1", "x=2 x:1"], ["x=1", "x=2 x:2", "x:1"]),
    "future-read": (["x:1 x=1", "x:1"], ["x: x=1", "x:1"]),
    "G1b": (["x=1 x=2", "x:1"], ["x=1 x=2", "x:2"]),
    "lost-update": (["x=1", "x:1 x=2", "x:1 x=3"], ["x=1", "x:1 x=2", "x:2 x=3"]),
}


@pytest.mark.parametrize("anomaly", PLANTED)
def test_planted(anomaly: str) -> None:
    judgement = judge(at_once(*PLANTED[anomaly][0]))
    assert judgement.valid is False
    assert list(judgement.totals) == [anomaly]


@pytest.mark.parametrize("anomaly", PLANTED)
def test_near_miss(anomaly: str) -> None:
    judgement = judge(at_once(*PLANTED[anomaly][1]))
    assert (judgement.valid, judgement.totals, judgement.problems) == (True, {}, ())


def test_aborted_read() -> None:
    (problem,) = judge(at_once("x=1", "x:1", fails=(0,))).problems
    assert (problem.anomaly, problem.operations) == ("G1a", (0, 1))
    assert problem.words == "T0 wrote 1 to x and failed, but T1 read it"
    assert anomalies(at_once("x=1", "x:1", unknown=(0,))) == []


@pytest.mark.parametrize(("one_process", "suffix"), [(True, "process"), (False, "realtime")])
def test_order_in_time(one_process: bool, suffix: str) -> None:
    assert anomalies(in_turn("x=1", "x:", one_process=one_process)) == [f"G-single-{suffix}"]
    assert anomalies(in_turn("x:1", "x=1", one_process=one_process)) == [f"G1c-{suffix}"]
    assert anomalies(in_turn("x:", "x=1", one_process=one_process)) == []
    process = 5 if one_process else 2
    skew = [
        transaction(0, 0, 5, "x=1 z:"),
        transaction(1, 1, 2, "z=1", process=5),
        transaction(2, 3, 6, "x:", process=process),
    ]
    assert anomalies(skew) == [f"G2-item-{suffix}"]
    assert anomalies([skew[0], skew[1]._replace(end=4, process=9), skew[2]]) == []


@pytest.mark.parametrize(("one_process", "suffix"), [(True, "process"), (False, "realtime")])
def test_g_nonadjacent_in_time(one_process: bool, suffix: str) -> None:
    operations = [
        transaction(0, 0, 9, "x: z:1"),
        transaction(1, 1, 8, "y=1 z=1"),
        transaction(2, 2, 3, "x=1", process=2),
        transaction(3, 4, 7, "y:", process=2 if one_process else 3),
    ]
    assert anomalies(operations) == [f"G-nonadjacent-{suffix}"]
    operations[2] = operations[2]._replace(end=5, process=9)
    assert anomalies(operations) == []


def test_overwrites_in_a_circle_need_an_order_of_versions() -> None:
    """By real time of its keys x=1 came before x=2 and y=2 before y=1; without it nothing orders them."""
    planted = [
        transaction(0, 0, 9, "x=1 y=1"),
        transaction(1, 1, 10, "x=2 y=2"),
        transaction(2, 2, 3, "x:1"),
        transaction(3, 4, 5, "x:2"),
        transaction(4, 2, 3, "y:2"),
        transaction(5, 4, 5, "y:1"),
    ]
    assert "G0" not in anomalies(planted)
    assert "G0" in anomalies(planted, linearizable_keys=True)
    near = [*planted[:4], transaction(4, 2, 3, "y:1"), transaction(5, 4, 5, "y:2")]
    assert anomalies(near, linearizable_keys=True) == []


@pytest.mark.parametrize(("one_process", "suffix"), [(True, "process"), (False, "realtime")])
def test_g0_in_time(one_process: bool, suffix: str) -> None:
    """T0 overwrote what T1 wrote only after T0 had ended."""
    texts = ("x:2 x=1", "x=2")
    assert anomalies(in_turn(*texts, one_process=one_process)) == [f"G1c-{suffix}"]
    assert anomalies(in_turn(*texts, one_process=one_process), wfr_keys=True) == [f"G0-{suffix}"]
    assert anomalies(at_once(*texts), wfr_keys=True) == []


def test_writes_follow_reads() -> None:
    operations = at_once("x=1 y=1", "x:1 x=2 y=2", "x:2 y:1", "y:2 x:1")
    assert anomalies(operations, consistency_model="consistent-view") == []
    assert anomalies(operations, wfr_keys=True) == ["G-single"]
    (problem,) = judge(operations).problems
    assert (problem.anomaly, problem.operations) == ("no-serial-order", (0, 1, 2))


def test_sequential_keys() -> None:
    """Process 7 saw x=1, then x=2; T2 saw x=1, but also what the writer of x=2 wrote to y."""
    operations = [
        transaction(0, 0, 20, "x=1"),
        transaction(1, 1, 21, "x=2 y=2"),
        transaction(2, 2, 22, "x:1 y:2"),
        transaction(3, 3, 4, "x:1", process=7),
        transaction(4, 5, 6, "x:2", process=7),
    ]
    assert anomalies(operations, consistency_model="serializable") == []
    assert anomalies(operations, consistency_model="serializable", sequential_keys=True) == ["G-single"]
    apart = [*operations[:4], operations[4]._replace(process=8)]
    assert anomalies(apart, consistency_model="serializable", sequential_keys=True) == []
    assert anomalies(apart, consistency_model="serializable", linearizable_keys=True) == ["G-single"]


def test_circular_versions_are_reported_and_not_used() -> None:
    operations = in_turn("x=1", "x:1", "x=2", "x:2", "x:1", one_process=True)
    judgement = judge(operations, sequential_keys=True, consistency_model="read-uncommitted")
    assert judgement.totals == {"cyclic-versions": 1} and judgement.valid is False
    assert judgement.problems[0].words == (
        "by order of processes, each of the versions 1, 2 of x came before all the others"
    )
    assert anomalies(operations[:4], sequential_keys=True) == []
    back_to_nil = in_turn("x:1", "x:", one_process=True)
    assert "cyclic-versions" in anomalies(back_to_nil, sequential_keys=True)


def test_what_nobody_wrote_is_shown_and_does_not_count() -> None:
    judgement = judge(at_once("x=2", "x:3", "x:2"))
    assert judgement.valid is True and judgement.problems == () and judgement.reasons == ()
    assert [problem.words for problem in judgement.allowed] == ["T1 read 3 from x, which nobody wrote"]
    assert judge(at_once("x=2", "x:3", "x:2"), anomalies=("phantom",)).valid is False


def test_the_initial_value_may_be_given() -> None:
    stale = in_turn("x=1", "x:0")
    assert judge(stale).totals == {"phantom": 1}
    assert judge(stale, initial=0).totals == {"G-single-realtime": 1}


def test_an_initial_state_that_is_written_again_proves_nothing() -> None:
    assert anomalies(in_turn("x=1", "x=", "x:")) == []
    assert anomalies(in_turn("x=1", "x=0", "x:0"), initial=0) == []
    assert anomalies(at_once("x: x=1", "x=", "x: x=2")) == []
    assert anomalies(in_turn("x=1", "x:1 x=", "x: x=3"), wfr_keys=True) == []


def test_a_value_that_was_written_twice_proves_nothing() -> None:
    judgement = judge(at_once("x=1", "x=1", "x:1 x=2", "x:1 x=3"))
    assert judgement.valid is None and judgement.totals == {}
    assert judgement.reasons[0].startswith("1 was written to x by T0 and T1, so reads of it prove nothing")


def test_a_read_behind_an_own_write_is_no_outer_read() -> None:
    """T1 reads x only as it wrote it itself, so it saw nothing of the initial state."""
    assert anomalies(in_turn("x=1", "x=2 x:2")) == []
    assert anomalies(in_turn("x=1", "y:", "x=2 x:2 y=1")) == []


def test_the_steps_of_a_cycle_in_words() -> None:
    (problem,) = judge(at_once("x=1 y=1", "x: y:1")).problems
    assert [step["words"] for step in problem.detail["cycle"]] == [
        "T0 wrote 1 to y, which T1 read",
        "T1 read x = nil, and T0 wrote the later version 1",
    ]
    judgement = judge(at_once("x=1 y=1", "x:1 x=2 y=2", "x:2 y:1", "y:2 x:1"), wfr_keys=True)
    assert [step["words"] for step in judgement.problems[0].detail["cycle"]] == [
        "T1 wrote 2 to y, which T3 read",
        "T3 read x = 1, and T1 wrote the later version 2 (writes follow reads)",
    ]


def test_reads_of_unknown_transactions_do_not_count() -> None:
    operations = [transaction(0, 0, 1, "x=1"), transaction(1, 2, 3, "x:", INFO), transaction(2, 4, 5, "x:1")]
    assert anomalies(operations) == []


def test_appends_are_refused() -> None:
    operation = Operation(0, 0, "txn", [["append", "x", 1]], [["append", "x", 1]], OK, 0, 1)
    with pytest.raises(BadHistory, match="histories with append are checked as list-append"):
        check_rw_register([operation])
