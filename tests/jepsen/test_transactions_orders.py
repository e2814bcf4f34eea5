"""Orders of transactions over registers: with every order tried, and histories whose cycles show nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog_jepsen.events import INFO, OK, BadHistory, Operation
from liftlog_jepsen.foreign.reading import Conventions, read_operations
from liftlog_jepsen.transactions import Options, check_rw_register, orders
from liftlog_jepsen.transactions.consistency import ORDERS
from liftlog_jepsen.transactions.orders import REALTIME, SESSIONS, Rule, find_order, gather
from liftlog_jepsen.transactions.reading import read_transactions
from tests.jepsen.test_transactions_rw_register import at_once, in_turn, judge
from tests.jepsen.transaction_oracle import has_order
from tests.jepsen.transaction_worlds import WORLDS, World

MODELS = tuple(model for model in ORDERS if model != "repeatable-read")
ASSUMED = "no transaction depends on another"


@st.composite
def histories(draw: st.DrawFn) -> list[Operation]:
    """A few transactions whose reads are of anything that somebody writes, often nonsense."""
    count = draw(st.integers(2, 4))
    written: dict[str, list[int]] = {"x": [], "y": []}
    plans: list[list[tuple[bool, str]]] = []
    for _ in range(count):
        plans.append(draw(st.lists(st.tuples(st.booleans(), st.sampled_from("xy")), min_size=1, max_size=3)))
    value = 0
    parts: list[list[list[Any]]] = []
    for plan in plans:
        parts.append([])
        for write, key in plan:
            value += 1
            parts[-1].append(["w" if write else "r", key, value if write else None])
            if write:
                written[key].append(value)
    moments = draw(st.permutations(range(2 * count)))
    operations = []
    for number, mine in enumerate(parts):
        for part in mine:
            if part[0] == "r":
                part[2] = draw(st.sampled_from([None, *written[part[1]]]))
        start, end = sorted(moments[2 * number : 2 * number + 2])
        outcome = draw(st.sampled_from((OK, OK, OK, INFO)))
        done = mine if outcome == OK else None
        asked = [[f, key, value if f == "w" else None] for f, key, value in mine]
        ended = end if outcome == OK else None
        operations.append(Operation(number, number, "txn", asked, done, outcome, start, ended))
    operations.sort(key=lambda each: each.start)
    free = [each.number for each in operations]
    processes = {number: at % draw(st.integers(1, count)) for at, number in enumerate(free)}
    return _without_overlaps(operations, processes)


def _without_overlaps(operations: list[Operation], processes: dict[int, int]) -> list[Operation]:
    """A process does one thing at a time, and nothing after what is unknown."""
    busy: dict[int, int] = {}
    found = []
    for number, each in enumerate(operations):
        process = processes[each.number]
        if busy.get(process, -1) > each.start:
            process = 100 + number
        busy[process] = sys.maxsize if each.end is None else each.end
        found.append(each._replace(number=number, process=process))
    return found


def agrees(operations: list[Operation], model: str) -> None:
    rule = ORDERS[model]
    judgement = check_rw_register(operations, Options(consistency_model=model))
    right = has_order(operations, snapshots=rule.snapshots, time=rule.time)
    if judgement.valid is None:
        assert judgement.reasons[0].startswith(ASSUMED), judgement.reasons
        assert right
    else:
        assert judgement.valid == right, (judgement, rule)


@pytest.mark.parametrize("model", MODELS)
@given(operations=histories())
@settings(max_examples=150, deadline=None)
def test_random_reads_are_judged_as_by_trying_every_order(model: str, operations: list[Operation]) -> None:
    agrees(operations, model)


@pytest.mark.parametrize("model", MODELS)
@given(seed=st.integers(0, 10**9), level=st.sampled_from(WORLDS), keys=st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_databases_are_judged_as_by_trying_every_order(model: str, seed: int, level: str, keys: int) -> None:
    agrees(World(seed, level, "w", keys, unknown=0.1).run(5, 3), model)


# -- what cycles do not show ---------------------------------------------------------------------------------

SKEW = ("x=1 y=1", "x:1 x=2 y:1", "y:1 y=2 x:1")
"""Write skew: nothing says that the first one's versions came first, but any order contradicts one read."""


def test_write_skew_over_written_values_is_no_serial_order_but_one_of_snapshots() -> None:
    (problem,) = judge(at_once(*SKEW), consistency_model="serializable").problems
    assert (problem.anomaly, problem.operations) == ("no-serial-order", (0, 1, 2))
    assert problem.words == (
        "in every order of the transactions (one after the other) at least one of these reads is wrong: "
        "T1 read y = 1 (T0 wrote it); T2 read x = 1 (T0 wrote it)"
    )
    assert judge(at_once(*SKEW), consistency_model="snapshot-isolation").valid is True


def test_a_lost_order_of_snapshots_is_found() -> None:
    """Two readers saw two writers in opposite orders: a long fork."""
    fork = ("x=1 y=1", "x:1 x=2", "y:1 y=2", "x:2 y:1", "x:1 y:2")
    judgement = judge(at_once(*fork), consistency_model="snapshot-isolation")
    assert list(judgement.totals) == ["no-snapshot-order"]
    assert judgement.reasons == (
        "the history is not repeatable-read, snapshot-isolation, and hence not serializable, "
        "strong-session-snapshot-isolation, strong-session-serializable, strong-snapshot-isolation, "
        "strict-serializable",
    )
    undecided = judge(at_once(*fork), consistency_model="parallel-snapshot-isolation")
    assert undecided.valid is None and "is not decided here" in undecided.reasons[0]
    assert judge(at_once(*fork), consistency_model="read-committed").valid is True


def test_the_weakest_order_that_is_missing_gives_the_name() -> None:
    backward = in_turn("x=1", "x=2", "x:2", "x:1", one_process=True)
    apart = [each._replace(process=each.number) for each in backward]
    assert list(judge(backward).totals) == ["no-serial-order-process"]
    assert list(judge(apart).totals) == ["no-serial-order-realtime"]
    assert judge(apart, consistency_model="strong-session-serializable").valid is True


def test_a_search_that_ends_early_says_so() -> None:
    operations = World(0, "stale", "w").run(80, 6)
    model = "serializable"
    assert judge(operations, consistency_model=model).valid is True
    judgement = judge(operations, consistency_model=model, order_steps=1)
    assert judgement.valid is None
    assert judgement.reasons == (
        "nothing shows that the history is wrong, and no order of its transactions (one after the other) "
        "shows that it is right: the search stopped after 1 steps of z3",
    )


def test_many_transactions_are_put_in_order_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("liftlog_jepsen.transactions.order_choices.MOMENTS_MAX", orders.WINDOW)
    right = gather(read_transactions(World(2, "serial", "w").run(900, 10), "w"), lambda value: value is None)
    assert find_order(right, Rule(False, REALTIME)).found is True
    wrong = World(2, "serial", "w").run(900, 10)
    wrong += [
        each._replace(number=len(wrong) + at, process=900 + at, start=at, end=None)
        for at, each in enumerate(at_once(*SKEW))
    ]
    facts = gather(read_transactions(wrong, "w"), lambda value: value is None)
    assert find_order(facts, Rule(False, SESSIONS)).found is not True


# -- histories of sessions -----------------------------------------------------------------------------------

SESSIONS_TXT = """\
w(1,1,0,0)
w(2,1,0,0)
r(1,1,1,7)
w(1,2,1,7)
w(2,9,1,-1)
r(2,9,1,-1)
r(2,1,2,8)
r(1,1,2,8)
w(3,2,2,8)
r(2,1,1,9)
"""


def test_sessions_are_read_without_an_order_between_them(tmp_path: Path) -> None:
    file = tmp_path / "history.txt"
    file.write_text(SESSIONS_TXT)
    name, operations = read_operations(str(file), "auto", Conventions())
    assert name == "sessions-txt"
    assert [(each.process, each.outcome, each.end) for each in operations] == [
        (0, "ok", None),
        (1, "ok", None),
        (1, "fail", None),
        (2, "ok", None),
        (1, "ok", None),
    ]
    assert operations[1].result == [["r", 1, 1], ["w", 1, 2]]
    assert judge(operations, consistency_model="strict-serializable").valid is True
    file.write_text(SESSIONS_TXT.replace("r(2,1,1,9)", "r(2,1,1,9)\nr(1,1,1,10)"))
    _, backward = read_operations(str(file), "auto", Conventions())
    assert list(judge(backward).totals) == ["no-serial-order-process"]
    assert judge(backward, consistency_model="serializable").valid is True


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("w(1,2,3)", "expected r(KEY,VALUE,SESSION,TRANSACTION)"),
        ("w(1,2,3,-2)", "or -1 for one that was aborted"),
        ("r(1,1,5,7)", "expected session 1, which had transaction 7"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "history.txt"
    file.write_text(f"{SESSIONS_TXT}{line}\n")
    with pytest.raises(BadHistory, match="line 11") as caught:
        read_operations(str(file), "auto", Conventions())
    assert said in str(caught.value)
