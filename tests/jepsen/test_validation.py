"""Parquet histories from elsewhere: no row that contradicts the schema's rules gets as far as a check."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from liftlog.types import LiftlogError
from liftlog_jepsen.generate import fill, plant
from liftlog_jepsen.history import HistoryWriter
from liftlog_jepsen.parquet import SCHEMAS, write_parquet
from liftlog_jepsen.result import MEANINGS
from liftlog_jepsen.validation import validate_folder

Rows = list[dict[str, Any]]


def write(folder: Path) -> None:
    histories = []
    for name in ("first", "second"):
        writer = HistoryWriter(name)
        fill(writer, ["log/0"], 6, readers=1, batch=3)
        for anomaly in MEANINGS:
            plant(writer, anomaly, anomaly)
        writer.info(writer.invoke(99, "send", "log/0", 7))
        writer.fault("kill", "node 1", 1, 2)
        histories.append(writer.close())
    write_parquet(histories, folder)


def doctor(folder: Path, table: str, change: Callable[[Rows], None]) -> None:
    """Rewrite one table after `change`, with the metadata and the schema as they were."""
    path = folder / f"{table}.parquet"
    before = pq.read_table(path)
    rows: Rows = before.to_pylist()
    change(rows)
    schema = pa.schema([field.with_nullable(True) for field in SCHEMAS[table]])
    pq.write_table(pa.Table.from_pylist(rows, schema=schema.with_metadata(before.schema.metadata)), path)


def setting(name: str, value: Any, row: int = 2) -> Callable[[Rows], None]:
    def change(rows: Rows) -> None:
        rows[row][name] = value

    return change


def lose_first_part(rows: Rows) -> None:
    """Remove the first micro-operation of an operation that has several."""
    op_id = next(row["op_id"] for row in rows if row["pos"] == 1)
    rows.remove(next(row for row in rows if (row["op_id"], row["pos"]) == (op_id, 0)))


def test_a_history_full_of_anomalies_is_a_valid_file(tmp_path: Path) -> None:
    write(tmp_path / "h")
    assert [one.name for one in validate_folder(tmp_path / "h").histories] == ["first", "second"]


BROKEN: dict[str, tuple[str, Callable[[Rows], None], str]] = {
    "outcome": ("ops", setting("outcome", "okay"), "operation 2: expected an outcome of ok, fail, info"),
    "function": ("ops", setting("f", ""), "operation 2: expected an f that is not empty"),
    "position": ("ops", setting("idx_inv", -1), "expected an idx_inv of 0 or more"),
    "order": ("ops", setting("idx_ret", 0), "expected an idx_ret above idx_inv"),
    "time": ("ops", setting("t_ret", 0), "expected a t_ret not before t_inv"),
    "completion": ("ops", setting("idx_ret", None), "expected an idx_ret, since the outcome is not info"),
    "moment": ("ops", setting("t_ret", None), "expected a t_ret, since the outcome is not info"),
    "null": ("ops", setting("process", None), "expected no null in column process"),
    "twice": ("ops", lambda rows: rows.append(rows[3]), "operation 3: expected each op_id once"),
    "history": ("ops", setting("history_id", "third"), "expected history_id in first, second, got third"),
    "lost operation": (
        "ops",
        lambda rows: rows.remove(next(row for row in rows if row["op_id"] == 4)),
        "operation 4: expected this operation in ops.parquet, but it is not there",
    ),
    "stray row": (
        "mops",
        setting("op_id", 10**9),
        "operation 1000000000: expected this operation in ops.parquet",
    ),
    "micro-operation": ("mops", setting("f", "push"), "expected f in send, poll"),
    "offset": ("mops", setting("offset", -3), "expected an offset of 0 or more"),
    "two values": ("mops", setting("value", 3), "expected value or value_s, but both are there"),
    "lost row": ("mops", lose_first_part, "each once, but it has"),
    "fault": ("faults", setting("history_id", "third", 0), "expected history_id in first, second, got third"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_row_that_contradicts_the_schema_is_named(case: str, tmp_path: Path) -> None:
    table, change, expected = BROKEN[case]
    write(tmp_path / "h")
    doctor(tmp_path / "h", table, change)
    with pytest.raises(LiftlogError) as caught:
        validate_folder(tmp_path / "h")
    assert f"broken history {tmp_path / 'h'}/" in str(caught.value)
    assert expected in str(caught.value)
