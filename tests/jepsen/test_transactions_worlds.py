"""Whole checks against databases that work as their level of isolation says, against definitions taken word
by word, and against histories by others.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog_jepsen.events import OK, Operation, pair
from liftlog_jepsen.formats import read_history
from liftlog_jepsen.judgement import Judgement
from liftlog_jepsen.transactions import CYCLES, Options, check_list_append, check_rw_register
from tests.jepsen.transaction_oracle import append_edges, register_edges, smallest_cycles, time_edges
from tests.jepsen.transaction_worlds import (
    DIRTY,
    READ_COMMITTED,
    SERIAL,
    SESSION,
    SNAPSHOT,
    STALE,
    WORLDS,
    World,
)

ROOT = Path(__file__).resolve().parents[2]
HISTORIES = Path(os.environ.get("LIFTLOG_HISTORIES", ROOT.parent / "shared" / "histories"))
Check = Callable[[list[Operation], Options], Judgement]
CHECKS: dict[str, Check] = {"append": check_list_append, "w": check_rw_register}
PROMISES = {
    SERIAL: "strict-serializable",
    SNAPSHOT: "strong-snapshot-isolation",
    READ_COMMITTED: "strong-read-committed",
    STALE: "serializable",
    SESSION: "strong-session-serializable",
}
TOO_MUCH = {
    SNAPSHOT: "strong-session-serializable",
    READ_COMMITTED: "cursor-stability",
    STALE: "strong-session-snapshot-isolation",
    SESSION: "strong-snapshot-isolation",
    DIRTY: "read-committed",
}
"""A model that each level but the first breaks, sooner or later."""


@pytest.mark.parametrize("write", CHECKS)
@pytest.mark.parametrize("level", PROMISES)
def test_no_level_breaks_its_own_promise(level: str, write: str) -> None:
    options = Options(consistency_model=PROMISES[level])
    for seed in range(40):
        judgement = CHECKS[write](World(seed, level, write).run(40, 5), options)
        assert judgement.valid is True, (seed, judgement.problems)


@pytest.mark.parametrize("write", CHECKS)
@pytest.mark.parametrize("level", TOO_MUCH)
def test_every_weaker_level_is_caught(level: str, write: str) -> None:
    options = Options(consistency_model=TOO_MUCH[level])
    verdicts = [CHECKS[write](World(seed, level, write).run(40, 5), options).valid for seed in range(40)]
    assert verdicts.count(False) >= 2


@pytest.mark.parametrize("write", CHECKS)
def test_snapshots_show_write_skew_and_nothing_else(write: str) -> None:
    seen: set[str] = set()
    for seed in range(60):
        seen |= CHECKS[write](World(seed, SNAPSHOT, write).run(40, 5), Options()).totals.keys()
    kinds = {"append": ("G2-item",), "w": ("G2-item", "no-serial-order")}[write]
    assert set(kinds) <= seen
    assert seen <= {kind + suffix for kind in kinds for suffix in ("", "-process", "-realtime")}


@pytest.mark.parametrize("assumption", ["wfr_keys", "sequential_keys", "linearizable_keys"])
def test_assumptions_that_hold_find_nothing_where_nothing_is(assumption: str) -> None:
    for seed in range(30):
        options = Options()._replace(**{assumption: True})
        assert check_rw_register(World(seed, SERIAL, "w").run(40, 5), options).valid is True, seed


def test_assumptions_find_more() -> None:
    """Under snapshot isolation keys are linearizable and writes follow reads: more write skew has its
    name, and nothing is wrong that is not wrong without.
    """
    plain = more = 0
    for seed in range(30):
        operations = World(seed, SNAPSHOT, "w").run(40, 5)
        without = check_rw_register(operations)
        judgement = check_rw_register(operations, Options(wfr_keys=True, linearizable_keys=True))
        plain += any(name.startswith("G2") for name in without.totals)
        more += any(name.startswith("G2") for name in judgement.totals)
        assert judgement.valid == without.valid
        assert not any(name.startswith(("G0", "G1", "G-")) for name in judgement.totals)
    assert more > plain


@given(
    seed=st.integers(0, 10**9),
    level=st.sampled_from(WORLDS),
    transactions=st.integers(1, 6),
    keys=st.integers(1, 3),
)
@settings(max_examples=150, deadline=None)
def test_lists_agree_with_the_definitions(seed: int, level: str, transactions: int, keys: int) -> None:
    operations = World(seed, level, "append", keys, unknown=0.1).run(transactions, 4)
    expected = smallest_cycles([*append_edges(operations), *time_edges(operations)])
    assert cycles(check_list_append(operations)) == sorted(expected)


@given(
    seed=st.integers(0, 10**9),
    level=st.sampled_from(WORLDS),
    transactions=st.integers(1, 6),
    keys=st.integers(1, 3),
)
@settings(max_examples=100, deadline=None)
def test_registers_agree_with_the_definitions(seed: int, level: str, transactions: int, keys: int) -> None:
    operations = World(seed, level, "w", keys, unknown=0.1).run(transactions, 4)
    expected = smallest_cycles([*register_edges(operations), *time_edges(operations)])
    assert cycles(check_rw_register(operations)) == sorted(expected)


def cycles(judgement: Judgement) -> list[tuple[str, int]]:
    """(kind, length) of every cycle."""
    return sorted(
        (problem.anomaly, len(problem.detail["cycle"]))
        for problem in (*judgement.problems, *judgement.allowed)
        if problem.anomaly in CYCLES
    )


def _last_reads(operations: list[Operation]) -> list[tuple[int, int]]:
    """(operation, part) of every read of a list with at least two elements."""
    return [
        (operation.number, at)
        for operation in operations
        if operation.outcome == OK
        for at, (name, _, value) in enumerate(operation.result)
        if name == "r" and len(value) > 1
    ]


def _with_read(operations: list[Operation], number: int, at: int, value: list[int]) -> list[Operation]:
    result = [list(part) for part in operations[number].result]
    result[at][2] = value
    changed = operations.copy()
    changed[number] = operations[number]._replace(result=result)
    return changed


@pytest.mark.parametrize("fault", ["swapped", "doubled", "invented", "dropped"])
def test_a_fault_in_one_read_is_found(fault: str) -> None:
    """In a strictly serializable history one read is falsified; nothing else is wrong, and it is found."""
    for seed in range(20):
        operations = World(seed, SERIAL, "append", unknown=0).run(40, 5)
        draw = random.Random(seed)
        number, at = draw.choice(_last_reads(operations))
        value = operations[number].result[at][2]
        falsified = {
            "swapped": [*value[:-2], value[-1], value[-2]],
            "doubled": [*value, value[0]],
            "invented": [*value, -1],
            "dropped": value[1:],
        }[fault]
        judgement = check_list_append(_with_read(operations, number, at, falsified))
        assert judgement.valid is False, seed
        assert any(number in problem.operations for problem in judgement.problems), seed


SCRIPT = """
from liftlog_jepsen.transactions import check_list_append, check_rw_register
from tests.jepsen.transaction_worlds import World
for seed in range(3):
    for level in ("dirty", "stale", "snapshot"):
        print(check_list_append(World(seed, level, "append").run(40, 5)))
        print(check_rw_register(World(seed, level, "w").run(40, 5)))
"""


def test_judgements_do_not_depend_on_hashes() -> None:
    outputs = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1] and outputs[0].count("Judgement") == 18


@pytest.mark.skipif(not HISTORIES.is_dir(), reason=f"no histories by others in {HISTORIES}")
@pytest.mark.parametrize(
    ("file", "write", "model", "verdict", "anomalies"),
    [
        ("rw-register.edn", "w", None, True, {"phantom"}),
        ("paper-example.json", "append", None, False, {"G-single"}),
        ("list-append-gh-30.edn", "append", "serializable", False, {"G2-item"}),
    ],
)
def test_histories_by_others(
    file: str, write: str, model: str | None, verdict: bool, anomalies: set[str]
) -> None:
    path = HISTORIES / "elle-cli" / "elle" / file
    operations = pair(read_history(path), str(path))
    judgement = CHECKS[write](operations, Options(consistency_model=model))
    assert (judgement.valid, set(judgement.totals)) == (verdict, anomalies)


@pytest.mark.slow
def test_one_fault_among_thirty_thousand() -> None:
    operations = World(1, SERIAL, "append", keys=60, unknown=0.01).run(30_000, 15)
    assert check_list_append(operations).valid is True
    number, at = _last_reads(operations)[5_000]
    value = operations[number].result[at][2]
    judgement = check_list_append(_with_read(operations, number, at, value[:-1]))
    assert judgement.valid is False
    assert all(number in problem.operations for problem in judgement.problems)
