"""Cycles over logs on Spark: planted ones, near misses, and random histories held against the definitions."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from liftlog_jepsen.generate import CYCLES, check_planted, fill, near_miss, plant
from liftlog_jepsen.generate.answers import Planted, planted
from liftlog_jepsen.graph.kernels import LIMIT
from liftlog_jepsen.history import History, HistoryWriter, Mop
from liftlog_jepsen.parquet import OP_COLUMNS, write_parquet
from liftlog_jepsen.spark.cycles import CycleOptions, check_cycles
from liftlog_jepsen.spark.frames import HistoryFrames, read_frames
from liftlog_jepsen.transactions.classify import find_cycles
from tests.jepsen.log_graph import LOG_KINDS, chaos, depend

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.real

WW_DEPS = CycleOptions(ww_deps=True)


def found(frames: HistoryFrames, options: CycleOptions | None = None) -> dict[str, list[Row]]:
    """The rows of each history, sorted."""
    by_history: dict[str, list[Row]] = defaultdict(list)
    for row in check_cycles(frames, options).collect():
        by_history[row.history_id].append(row)
    return {
        name: sorted(rows, key=lambda row: (row.ops[0], row.anomaly)) for name, rows in by_history.items()
    }


def around(name: str) -> HistoryWriter:
    """A history in the making, with traffic that holds no cycle."""
    writer = HistoryWriter(name)
    fill(writer, ["other/0", "other/1"], 40, readers=2, batch=10)
    return writer


@pytest.fixture(scope="module")
def planted_frames(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[HistoryFrames, dict[str, list[Planted]]]:
    """Every kind of cycle in a history of its own, with strings or numbers as values, and every near miss."""
    folder = tmp_path_factory.mktemp("planted") / "h"
    histories, answers = [], {}
    for number, kind in enumerate(CYCLES):
        writer, missed = around(kind), around(f"not {kind}")
        answers[kind] = plant(writer, kind, "planted/0", numbers=number % 2 == 0)
        near_miss(missed, kind, "planted/0", numbers=number % 2 == 0)
        histories += [writer.close(), missed.close()]
    write_parquet([*histories, worded()], folder)
    return read_frames(spark, folder), answers


def worded() -> History:
    """Two transactions that read each other's value, one of which began after the other had ended."""
    writer = HistoryWriter("worded")
    writer.ok(writer.invoke(3, "send", "k/0", "x"), offset=0)
    first = writer.invoke(1, "txn")
    writer.ok(first, mops=[Mop("poll", "k/1", 4, "b"), Mop("send", "k/0", 1, "a")])
    second = writer.invoke(2, "txn")
    writer.ok(second, mops=[Mop("send", "k/1", 4, "b")])
    return writer.close()


def test_every_planted_cycle_is_found_and_no_near_miss(
    planted_frames: tuple[HistoryFrames, dict[str, list[Planted]]],
) -> None:
    frames, answers = planted_frames
    rows = found(frames, WW_DEPS)
    assert set(rows) == {*CYCLES, "worded"}
    for kind in CYCLES:
        told = [planted(row.anomaly, None, *sorted(row.ops)) for row in rows[kind]]
        assert check_planted(told, answers[kind]) == [], kind


def test_a_cycle_is_told_in_words_and_step_by_step(
    planted_frames: tuple[HistoryFrames, dict[str, list[Planted]]],
) -> None:
    """Without the order of offsets there are only G1c, and older folders do without the new columns."""
    frames, _ = planted_frames
    older = frames._replace(mops=frames.mops.drop(*OP_COLUMNS))
    rows = found(older)
    assert set(rows) == {kind for kind in CYCLES if kind.startswith("G1c")} | {"worded"}
    (row,) = rows["worded"]
    assert (row.anomaly, row.key, row.ops) == ("G1c-realtime", "k/1", [1, 2])
    assert row.words == (
        "T1 is before T2: T1 ended before T2 began; T2 is before T1: T2 sent b to k/1, and T1 polled it. "
        "So T1 would be before itself."
    )
    assert [step.asDict() for step in row.cycle] == [
        {"from": 1, "to": 2, "edge": "realtime", "key": None, "words": "T1 ended before T2 began"},
        {"from": 2, "to": 1, "edge": "wr", "key": "k/1", "words": "T2 sent b to k/1, and T1 polled it"},
    ]
    assert (row.evidence.value, row.evidence.process, row.evidence.position) == ("b", 1, 2)


def test_a_piece_that_is_too_large_is_reported(
    planted_frames: tuple[HistoryFrames, dict[str, list[Planted]]],
) -> None:
    frames, _ = planted_frames
    rows = found(frames, CycleOptions(kinds=("G1c", "G1c-realtime"), rows_max=0))
    assert {row.anomaly for each in rows.values() for row in each} == {LIMIT}
    assert set(rows) >= {kind for kind in CYCLES if kind.startswith("G1c")} | {"worded"}
    assert rows["worded"][0].words.endswith("the search for G1c and G1c-realtime was cut short")


@pytest.mark.slow
@pytest.mark.parametrize("ww_deps", [False, True])
def test_spark_agrees_with_the_definitions_on_many_histories_in_one_job(
    spark: SparkSession, tmp_path: Path, ww_deps: bool
) -> None:
    histories = [chaos(random.Random(n), f"chaos {n}") for n in range(400)]
    write_parquet(histories, tmp_path / "h")
    rows = found(read_frames(spark, tmp_path / "h"), CycleOptions(ww_deps=ww_deps))
    kinds = set()
    for history in histories:
        edges = depend(history, ww_deps)
        cycles = find_cycles(edges)
        assert Counter((row.anomaly, len(row.ops)) for row in rows.get(history.name, ())) == Counter(
            (cycle.anomaly, len(cycle.edges)) for cycle in cycles
        ), history.name
        kinds |= {cycle.anomaly for cycle in cycles}
        check_steps(history, rows.get(history.name, ()), set(edges))
    assert kinds == {kind for kind in LOG_KINDS if ww_deps or not kind.startswith("G0")}


def check_steps(history: History, rows: Sequence[Row], edges: set[tuple[int, int, str]]) -> None:
    """Each step of each cycle is an edge, they meet, and the words name what was sent."""
    for row in rows:
        assert row.ops == [step["from"] for step in row.cycle]
        assert [step["to"] for step in row.cycle] == [*row.ops[1:], row.ops[0]]
        for step in row.cycle:
            assert (step["from"], step["to"], step["edge"]) in edges
            assert (step["key"] is None) == (step["edge"] in ("process", "realtime"))
            if step["key"] is not None:
                sent = [str(mop.value) for mop in history.op(step["from"]).mops if mop.f == "send"]
                assert any(f"sent {value} to {step['key']}" in step["words"] for value in sent)
        assert str(row.evidence.value) in row.words
