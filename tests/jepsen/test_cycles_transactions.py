"""Transactions on Spark, key by key: the same anomalies as in one process."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from liftlog.types import LiftlogError
from liftlog_jepsen.events import Operation
from liftlog_jepsen.formats import edn
from liftlog_jepsen.graph.kernels import LIMIT
from liftlog_jepsen.graph.transactions import REUSED, WRITES
from liftlog_jepsen.judgement import Judgement
from liftlog_jepsen.spark.cycles_transactions import check_transactions
from liftlog_jepsen.spark.source import OPERATIONS_DDL
from liftlog_jepsen.transactions import CYCLES, Options, check_list_append, check_rw_register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.real

CHECKS = {"list-append": check_list_append, "rw-register": check_rw_register}
OPTIONS = Options(examples=1000, wfr_keys=True)


def chaos(rng: random.Random, model: str) -> list[Operation]:
    """Transactions over three keys that see, mostly, what had been written when they began."""
    count = rng.randint(2, 12)
    bounds = sorted(sorted(rng.sample(range(100), 2)) for _ in range(count))
    if rng.random() < 0.3:  # all at the same time
        bounds = [[number, 100 + rng.randint(0, 99)] for number in range(count)]
    moments = sorted((place, number) for number, pair in enumerate(bounds) for place in pair)
    busy: dict[int, int] = {}
    written: dict[str, list[int]] = defaultdict(list)
    values = iter(range(1000))
    operations = []
    for number, (begin, end) in enumerate(bounds):
        process = rng.choice([each for each in range(count) if busy.get(each, -1) < begin][:3])
        busy[process] = end
        asked: list[list[Any]] = []
        answered: list[list[Any]] = []
        for _ in range(rng.randint(1, 4)):
            key = rng.choice("xyz")
            seen = written[key]
            if rng.random() < 0.5:
                value = next(values) if rng.random() < 0.97 else 0
                asked.append([edn.Keyword(WRITES[model]), edn.Keyword(key), value])
                answered.append(asked[-1])
                seen.insert(len(seen) if rng.random() < 0.9 else 0, value)
                continue
            asked.append([edn.Keyword("r"), edn.Keyword(key), None])
            upto = max(0, len(seen) - rng.choice((0, 0, 1, 2)))
            read: Any = seen[:upto] if model == "list-append" else (seen[upto - 1] if upto else None)
            if rng.random() < 0.03:
                read = [*read, 77] if model == "list-append" else 77
            answered.append([edn.Keyword("r"), edn.Keyword(key), read])
        outcome = rng.choice(("ok", "ok", "ok", "ok", "info", "fail"))
        start, last = moments.index((begin, number)), moments.index((end, number))
        result = answered if outcome == "ok" else asked
        ended = last if outcome != "info" else None
        operations.append(Operation(number, process, "txn", asked, result, outcome, start, ended))
        if outcome == "info":
            busy[process] = 1000
    return operations


def frame(spark: SparkSession, histories: dict[str, list[Operation]]) -> DataFrame:
    rows = [
        (file, "edn", op.number, op.process, op.f, None, edn.write(op.argument), edn.write(op.result),
         op.outcome, op.start, op.end, -1, -1, None, None)
        for file, operations in histories.items()
        for op in operations
    ]  # fmt: skip
    return spark.createDataFrame(rows, OPERATIONS_DDL)


def answers(rows: Sequence[Row]) -> Counter[tuple[Any, ...]]:
    """What was found: cycles by their length, as there may be several smallest; all else whole."""
    return Counter(
        (row.anomaly, len(row.operations)) if row.anomaly in CYCLES
        else (row.anomaly, row.key, tuple(row.operations), row.words)
        for row in rows if row.anomaly != REUSED
    )  # fmt: skip


def shown_by_edges(anomaly: str) -> bool:
    """Not only by a search for an order of all transactions, which one process does alone."""
    return not anomaly.startswith(("no-serial-order", "no-snapshot-order"))


def expected(judgement: Judgement) -> Counter[tuple[Any, ...]]:
    return Counter(
        (each.anomaly, len(each.operations)) if each.anomaly in CYCLES
        else (each.anomaly, each.key, each.operations, each.words)
        for each in (*judgement.problems, *judgement.allowed) if shown_by_edges(each.anomaly)
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("model", ["list-append", "rw-register"])
def test_keys_dealt_to_tasks_give_the_same_anomalies_as_one_process(spark: SparkSession, model: str) -> None:
    histories = {f"h{seed:03}": chaos(random.Random(seed), model) for seed in range(250)}
    checks = check_transactions(frame(spark, histories), model, OPTIONS)
    found: dict[str, list[Row]] = defaultdict(list)
    for row in checks.anomalies.collect():
        found[row.file].append(row)
    checks.edges.unpersist()
    seen: Counter[str] = Counter()
    for file, operations in histories.items():
        judgement = CHECKS[model](operations, OPTIONS)
        assert answers(found[file]) == expected(judgement), file
        assert any(row.anomaly == REUSED for row in found[file]) == any("own" in r for r in judgement.reasons)
        bad = {problem.anomaly for problem in judgement.problems if shown_by_edges(problem.anomaly)}
        assert {row.anomaly for row in found[file] if row.forbidden} == bad
        for row in found[file]:
            if row.anomaly in CYCLES:
                steps = json.loads(row.detail)["cycle"]
                assert [step["from"] for step in steps] == row.operations
                assert [step["to"] for step in steps] == [*row.operations[1:], row.operations[0]]
                assert all(step["words"] in row.words for step in steps)
        seen.update(row.anomaly for row in found[file])
    assert sum(kind in seen for kind in CYCLES) >= 6 and seen["G1a"] and seen["internal"]


@pytest.mark.slow
def test_pieces_that_are_too_large_are_reported(spark: SparkSession) -> None:
    keyword = edn.Keyword
    crossed = [
        [[keyword("append"), keyword(mine), 1], [keyword("r"), keyword(other), [1]]]
        for mine, other in (("x", "y"), ("y", "x"))
    ]
    operations = [
        Operation(number, number, "txn", each, each, "ok", number, 2 + number)
        for number, each in enumerate(crossed)
    ]
    rows = check_transactions(frame(spark, {"h": operations}), "list-append", rows_max=1).anomalies.collect()
    assert [(row.anomaly, row.operations) for row in rows] == [(LIMIT, [0])]


def test_other_models_are_refused() -> None:
    with pytest.raises(LiftlogError, match="choose list-append or rw-register"):
        check_transactions(None, "bank")  # type: ignore[arg-type]
