"""Large generated histories: as valid as promised, the same however they are cut, with exactly the planted
anomalies.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from liftlog.types import LiftlogError
from liftlog_jepsen.generate import CYCLES, PLANTABLE, Planted, check_planted, near_miss, plant, read_answer
from liftlog_jepsen.generate import pieces as pieces_module
from liftlog_jepsen.generate.large import write_large
from liftlog_jepsen.generate.positions import NOT_WITH_FINAL_READS
from liftlog_jepsen.generate.shape import Shape
from liftlog_jepsen.generate.wanted import PLANTABLE_AMID, parse_wanted
from liftlog_jepsen.history import History, HistoryWriter
from liftlog_jepsen.parquet import read_info, read_parquet
from tests.jepsen.brute_force import brute_force

SMALL = Shape(operations=400, streams=1, batch=10, concurrency=4, info=0.05, fail=0.05)
SHAPES = {
    "one-stream": SMALL,
    "everything": SMALL._replace(
        operations=800, streams=3, reads=2, final_readers=1, gap_every=5, assign_every=2, seed=1
    ),
    "transactions": SMALL._replace(
        operations=800, streams=4, sends_per_op=2, final_readers=2, assign_every=3, batch=7, seed=2
    ),
    "uneven-groups": SMALL._replace(
        operations=900, streams=5, sends_per_op=3, zipf=1.0, batch=20, gap_every=3, final_readers=1, seed=3
    ),
    "zipf": SMALL._replace(operations=900, streams=7, zipf=1.5, batch=5, seed=4),
    "tiny": SMALL._replace(operations=60, final_readers=1, seed=5),
    "many-producers": SMALL._replace(operations=600, streams=2, producers=50, consumers=3, reads=3, seed=6),
}


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = pq.read_table(folder / f"{table}.parquet").to_pylist()
    return listed


def found_in(history: History) -> list[Planted]:
    return [Planted(name, key, tuple(sorted(ops))) for name, key, ops, _ in brute_force(history)]


def by_log(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["key"], row["offset"] is None, row["offset"] or 0


@pytest.mark.parametrize("name", SHAPES)
def test_a_generated_history_is_valid(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "history"
    written = write_large(SHAPES[name], folder)
    history = read_parquet(folder)
    assert (len(history), history.mop_total()) == (written.ops, written.mops)
    assert written.mops >= SHAPES[name].operations
    assert brute_force(history) == set()
    assert read_answer(folder).planted == []


@pytest.mark.parametrize("name", SHAPES)
def test_tables_are_sorted_and_agree(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "history"
    write_large(SHAPES[name], folder)
    ops, mops = rows(folder, "ops"), rows(folder, "mops")
    assert [by_log(row) for row in mops] == sorted(by_log(row) for row in mops)
    assert [row["idx_inv"] for row in ops] == sorted(row["idx_inv"] for row in ops)
    positions = [at for row in ops for at in (row["idx_inv"], row["idx_ret"]) if at is not None]
    assert len(set(positions)) == len(positions)
    by_id = {row["op_id"]: row for row in ops}
    for row in mops:
        op = by_id[row["op_id"]]
        assert row["op_f"] == op["f"]
        assert all(row[column] == op[column] for column in ("process", "outcome", "idx_inv", "idx_ret"))
    assert read_info(folder).histories[0].complete


@pytest.mark.parametrize("name", SHAPES)
def test_no_process_does_two_things_at_a_time(name: str, tmp_path: Path) -> None:
    write_large(SHAPES[name], tmp_path / "history")
    lanes: dict[int, list[tuple[int, int | None]]] = {}
    for row in rows(tmp_path / "history", "ops"):
        lanes.setdefault(row["process"], []).append((row["idx_inv"], row["idx_ret"]))
    for lane in lanes.values():
        for (_, ended), (begun, _) in pairwise(lane):
            assert ended is None or ended < begun


def test_generated_sends_overlap_and_every_outcome_occurs(tmp_path: Path) -> None:
    write_large(SMALL, tmp_path / "history")
    sends = [row for row in rows(tmp_path / "history", "ops") if row["f"] == "send"]
    assert {row["outcome"] for row in sends} == {"ok", "fail", "info"}
    acked = [row["idx_ret"] for row in sends if row["idx_ret"] is not None]
    assert acked != sorted(acked)
    assert any(before["idx_ret"] > after["idx_inv"] for before, after in pairwise(sends) if before["idx_ret"])


@pytest.mark.parametrize("name", ["everything", "transactions", "uneven-groups", "zipf"])
def test_the_pieces_do_not_show(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = parse_wanted(["lost-write:2"])
    write_large(SHAPES[name], tmp_path / "whole", wanted, name="h")
    monkeypatch.setattr(pieces_module, "PIECE_ROWS", 48)
    write_large(SHAPES[name], tmp_path / "cut", wanted, name="h")
    for table in ("ops", "mops"):
        assert rows(tmp_path / "cut", table) == rows(tmp_path / "whole", table)


def test_the_seed_decides(tmp_path: Path) -> None:
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        write_large(SMALL._replace(seed=seed), tmp_path / name, parse_wanted(["phantom@traffic"]), name="h")
    contents = [(tmp_path / name / "mops.parquet").read_bytes() for name in "abc"]
    assert contents[0] == contents[1] != contents[2]


# -- planted -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("anomaly", PLANTABLE)
def test_a_story_holds_exactly_its_anomaly(anomaly: str) -> None:
    writer = HistoryWriter("h")
    wanted = plant(writer, anomaly, "story")
    assert anomaly in {each.anomaly for each in wanted}
    assert check_planted(found_in(writer.close()), wanted) == []


@pytest.mark.parametrize("anomaly", CYCLES)
def test_a_story_of_a_cycle_holds_nothing_else(anomaly: str) -> None:
    writer = HistoryWriter("h")
    wanted = plant(writer, anomaly, "story")
    assert [each.anomaly for each in wanted] == [anomaly]
    assert found_in(writer.close()) == []


@pytest.mark.parametrize("anomaly", PLANTABLE + CYCLES)
def test_a_near_miss_holds_nothing(anomaly: str) -> None:
    writer = HistoryWriter("h")
    near_miss(writer, anomaly, "story")
    assert found_in(writer.close()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "plants"),
    [
        (SMALL._replace(operations=1200, streams=2, batch=16, concurrency=8), ["all@traffic:1"]),
        (SMALL._replace(operations=300, streams=3, batch=16, seed=9), ["all:1"]),
        (
            SMALL._replace(
                operations=1600,
                streams=2,
                batch=16,
                concurrency=8,
                reads=2,
                gap_every=5,
                assign_every=7,
                info=0.01,
            ),
            ["all@traffic:1", "phantom"],
        ),
        (
            SMALL._replace(operations=500, streams=4, batch=16, sends_per_op=2, final_readers=1),
            ["all:1", "G0", "G1c"],
        ),
        (
            SMALL._replace(operations=1300, streams=2, batch=16, concurrency=8, final_readers=1),
            [f"{name}@traffic" for name in PLANTABLE_AMID if name not in NOT_WITH_FINAL_READS],
        ),
    ],
    ids=["amid", "own-logs", "amid-gaps", "transactions", "final-reads"],
)
def test_exactly_what_was_planted_is_found(shape: Shape, plants: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "history"
    write_large(shape, folder, parse_wanted(plants))
    wanted = [each for each in read_answer(folder).planted if each.anomaly not in CYCLES]
    asked = {each.anomaly for each in parse_wanted(plants)} - set(CYCLES)
    assert {each.anomaly for each in wanted} >= asked
    assert check_planted(found_in(read_parquet(folder)), wanted) == []
    assert [by_log(row) for row in rows(folder, "mops")] == sorted(map(by_log, rows(folder, "mops")))


def test_differences_are_told() -> None:
    wanted = [Planted("lost-write", "a", (1,)), Planted("G1c", None, (2, 3))]
    assert check_planted([Planted("G1c", "b", (2, 3)), wanted[0]], wanted) == []
    lines = check_planted([Planted("lost-write", "a", (2,)), Planted("G1c", "b", (2, 3))], wanted)
    assert lines == ["not found: lost-write in a, operations 1", "not planted: lost-write in a, operations 2"]
    twice = check_planted([wanted[0], wanted[0], wanted[1]], wanted)
    assert twice == ["not planted: lost-write in a, operations 1"]


# -- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"streams": 0}, "--streams 0: give a number of 1 or more"),
        ({"info": -0.1}, "--info -0.1: give 0 or more"),
        ({"concurrency": 12}, "--concurrency 12: give a power of two"),
        ({"reads": 9}, "--reads 9: there are only 8 consumers"),
        ({"producers": 3}, "--producers 3"),
        ({"seed": -1}, "--seed -1"),
        ({"info": 0.5, "fail": 0.5}, "--info 0.5"),
        ({"streams": 1000}, "too few for 1,000 streams"),
    ],
)
def test_an_impossible_shape_is_refused(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(LiftlogError, match=words):
        write_large(SMALL._replace(**changes), tmp_path / "history")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("plants", "shape", "words"),
    [
        (["nonsense"], SMALL, "there is no such anomaly; there are inconsistent-offsets"),
        (["unseen@traffic"], SMALL, "no such anomaly amid the traffic"),
        (["phantom:x"], SMALL, "write NAME, NAME:COUNT"),
        (["phantom@traffic:200"], SMALL, "do not fit"),
        (["phantom@traffic"], SHAPES["transactions"], "amid transactions"),
        (["lost-write@traffic"], SMALL._replace(final_readers=1), "--final-readers 0"),
        (["phantom@traffic"], SMALL._replace(batch=2), "polls of 4 records or more"),
    ],
)
def test_what_cannot_be_planted_is_refused(
    plants: list[str], shape: Shape, words: str, tmp_path: Path
) -> None:
    with pytest.raises(LiftlogError, match=words):
        write_large(shape, tmp_path / "history", parse_wanted(plants))
    assert not list(tmp_path.iterdir())


def test_a_history_is_never_overwritten(tmp_path: Path) -> None:
    write_large(SMALL, tmp_path / "history")
    with pytest.raises(LiftlogError, match="exists already"):
        write_large(SMALL, tmp_path / "history")
