"""Histories that are being written: how far each file has come, and the records in between."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from liftlog.types import LiftlogError
from liftlog_jepsen.history import OUTCOMES
from liftlog_jepsen.jsonl import HistoryLine, Line, OpLine
from liftlog_jepsen.online.fold import ROW, SCHEMA
from liftlog_jepsen.online.state import POLL, REBALANCE, SEND

ASSIGN = "assign"
"""`what` of a row about an operation that gives a process its keys: text is their JSON list."""
KINDS = {"send": SEND, "poll": POLL, "rebalance": REBALANCE}
ASSIGNING = ("assign", "subscribe")
BLOCK_BYTES = 16 * 1024 * 1024
"""A task reads that much of a JSONL file."""
TAIL_BYTES = 64 * 1024
MOPS = "mops.parquet"
BATCH_ROWS = 10_000

Part = tuple[str, int, int]
"""A file and the bytes [begin, end) of it; a line belongs to the part in which it begins."""


def sizes(folder: str) -> dict[str, int]:
    """How far each history below `folder` has come: bytes of whole lines; 1 for a Parquet file."""
    root = Path(folder)
    if not root.is_dir():
        raise LiftlogError(f"{folder} is no folder: give the one that histories are written into")
    found = {str(path): _whole_lines(path) for path in _visible(root, "*.jsonl")}
    found |= {str(path): 1 for path in _visible(root, MOPS)}
    return dict(sorted(found.items()))


def _visible(root: Path, pattern: str) -> Iterator[Path]:
    """Without what lies in hidden folders: there a Parquet history is put together."""
    for path in root.rglob(pattern):
        if not any(part.startswith(".") for part in path.relative_to(root).parts):
            yield path


def _whole_lines(path: Path) -> int:
    """The bytes up to and with the last line feed."""
    with path.open("rb") as file:
        end = file.seek(0, 2)
        while end > 0:
            begin = max(0, end - TAIL_BYTES)
            file.seek(begin)
            place = file.read(end - begin).rfind(b"\n")
            if place >= 0:
                return begin + place + 1
            end = begin
    return 0


def plan(start: Mapping[str, int], end: Mapping[str, int]) -> list[Part]:
    """What has come since `start`, in blocks."""
    parts: list[Part] = []
    for path, size in sorted(end.items()):
        begin = start.get(path, 0)
        for block in range(begin, size, BLOCK_BYTES):
            parts.append((path, block, min(block + BLOCK_BYTES, size)))
    return parts or [("", 0, 0)]  # Spark wants one partition at least


def is_complete(folder: Path) -> bool:
    """Whether every history below `folder` has ended: JSONL with their end line, and at least one history."""
    found = sizes(str(folder))
    return bool(found) and all(path.endswith(MOPS) or _has_end(Path(path)) for path in found)


def _has_end(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - 1024))
        return file.read().rpartition(b"\n")[0].rpartition(b"\n")[2].startswith(b'{"record":"end"')


def read_part(part: Part) -> Iterator[pa.RecordBatch]:
    """The records of one part. Raises LiftlogError for a line that is broken, with file and line."""
    path, begin, end = part
    if not path:
        return
    rows: list[dict[str, Any]] = []
    for row in _parquet_rows(path) if path.endswith(MOPS) else _jsonl_rows(path, begin, end):
        rows.append(row)
        if len(rows) >= BATCH_ROWS:
            yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


# -- JSON lines ----------------------------------------------------------------------------------------------


def _jsonl_rows(path: str, begin: int, end: int) -> Iterator[dict[str, Any]]:
    decoder = msgspec.json.Decoder(Line)
    with Path(path).open("rb") as file:
        history = _decoded(decoder, file.readline(), path, 0)
        if not isinstance(history, HistoryLine):
            raise LiftlogError(f"broken history {path}:1: expected the header line")
        # A line that only ends in this part began in the one before.
        file.seek(max(begin - 1, 0))
        if begin:
            file.readline()
        while (place := file.tell()) < end:
            line = _decoded(decoder, file.readline(), path, place)
            if isinstance(line, OpLine):
                yield from _op_rows(history.name, line)


def _decoded(decoder: msgspec.json.Decoder[Line], line: bytes, path: str, place: int) -> Line:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        with Path(path).open("rb") as file:
            number = file.read(place).count(b"\n") + 1
        raise LiftlogError(f"broken history {path}:{number}: {error}") from None


def _op_rows(history: str, op: OpLine) -> Iterator[dict[str, Any]]:
    inv, ret = op.idx
    if inv is None:  # by time, intervals closed: as History.order_by_time
        inv = op.t_ns[0] << 1
        ret = None if op.t_ns[1] is None else (op.t_ns[1] << 1) | 1
    shared = {"history_id": history, "name": None}
    outcome = OUTCOMES.index(op.outcome)
    if op.f in ASSIGNING and op.outcome != "fail":
        keys = [mop.key for mop in op.mops if mop.f in ASSIGNING]
        yield {**shared, "key": "", "what": ASSIGN, "text": json.dumps(keys), "numbers": [op.process, inv]}
    for pos, mop in enumerate(op.mops):
        kind = KINDS.get(mop.f)
        if kind is not None:
            numbers = [kind, op.op, pos, mop.offset, op.process, outcome, inv, ret]
            yield {**shared, "key": mop.key, "what": ROW, "text": _text(mop.value), "numbers": numbers}


_AMBIGUOUS = frozenset('"-0123456789')


def _text(value: int | str | None) -> str | None:
    """One to one: strings that begin like an integer or a quote get quotes, as in the log checks."""
    if isinstance(value, str):
        return f'"{value}"' if value[:1] in _AMBIGUOUS else value
    return None if value is None else str(value)


# -- Parquet -------------------------------------------------------------------------------------------------


def _parquet_rows(path: str) -> Iterator[dict[str, Any]]:
    file = pq.ParquetFile(path)
    if "idx_inv" not in file.schema_arrow.names:
        raise LiftlogError(
            f"broken history {path}: it is of version 1; expected the operation's columns beside each "
            "micro-operation (version 2)"
        )
    assigned: dict[tuple[str, int], tuple[list[int], list[str]]] = {}
    for batch in file.iter_batches():
        for row in batch.to_pylist():
            inv, ret = row["idx_inv"], row["idx_ret"]
            shared = {"history_id": row["history_id"], "name": None}
            if row["op_f"] in ASSIGNING and row["f"] in ASSIGNING and row["outcome"] != "fail":
                told = assigned.setdefault((row["history_id"], row["op_id"]), ([row["process"], inv], []))
                told[1].append(row["key"])
            kind = KINDS.get(row["f"])
            if kind is None:
                continue
            value = row["value"] if row["value_s"] is None else row["value_s"]
            outcome = OUTCOMES.index(row["outcome"])
            numbers = [kind, row["op_id"], row["pos"], row["offset"], row["process"], outcome, inv, ret]
            yield {**shared, "key": row["key"], "what": ROW, "text": _text(value), "numbers": numbers}
    for (history, _), (numbers, keys) in sorted(assigned.items()):
        shared = {"history_id": history, "name": None, "key": ""}
        yield {**shared, "what": ASSIGN, "text": json.dumps(keys), "numbers": numbers}
