"""Writes a large generated history straight to a Parquet folder, in constant memory.

python -m liftlog_jepsen.generate.large 1000000 /tmp/history
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from liftlog.types import LiftlogError
from liftlog_jepsen.generate.answers import Answer, write_answer
from liftlog_jepsen.generate.layout import FAIL, INFO, Ints, Layout, plan
from liftlog_jepsen.generate.pieces import OP_FUNCTIONS, Columns, mop_pieces, op_pieces, stream_name
from liftlog_jepsen.generate.planter import Planter
from liftlog_jepsen.generate.shape import Shape
from liftlog_jepsen.generate.wanted import Wanted
from liftlog_jepsen.history import MOP_FUNCTIONS, NULL, OUTCOMES
from liftlog_jepsen.parquet import METADATA_KEY, ROW_GROUP_ROWS, SCHEMAS, VERSION, FolderInfo, HistoryInfo

TICK_NS = 2_000
"""From one position to the next."""
WRITE_ROWS = 1 << 20
"""Rows that are written together, so that few row groups are small."""
SHOWN_EVERY = 2_000_000
"""Micro-operations between two words of progress."""
DELTAS = ("op_id", "idx_inv", "idx_ret", "t_inv", "t_ret", "offset", "value")
"""Columns of rising numbers: kept as differences they are a tenth as large, and faster to write."""
ERRORS = {FAIL: "refused", INFO: "timed out"}


class Written(NamedTuple):
    """What was written."""

    mops: int
    ops: int


def write_large(
    shape: Shape,
    folder: Path,
    wanted: Sequence[Wanted] = (),
    *,
    show: Callable[[str], None] = lambda text: None,
    name: str | None = None,
) -> Written:
    """Generate a history, valid but for `wanted`, into a new Parquet folder; it appears whole or not at all.

    The folder also gets planted.json, see `liftlog_jepsen.generate.answers`. `show` is told how far it is.
    Raises LiftlogError if the folder exists or the shape is impossible.
    """
    if folder.exists():
        raise LiftlogError(f"{folder} exists already: a history is never overwritten, choose another")
    layout = plan(shape, sum(each.number for each in wanted))
    planter = Planter(layout, wanted)
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        written = _write(layout, planter, temporary, name or folder.name, show)
        temporary.rename(folder)
    except OSError as error:
        raise LiftlogError(f"cannot write history {folder}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return written


def _write(layout: Layout, planter: Planter, folder: Path, name: str, show: Callable[[str], None]) -> Written:
    meta = {"generated": msgspec.json.encode(layout.shape._asdict()).decode()}
    info = FolderInfo(VERSION, [HistoryInfo(name, True, meta)])
    streams = layout.groups * layout.shape.sends_per_op
    keys = pa.array([stream_name(number, streams) for number in range(streams)])
    finals = 0

    def mop_tables() -> Iterator[Any]:
        nonlocal finals
        done = shown = 0
        for piece in mop_pieces(layout, planter.visit):
            columns = planter.mops(piece)
            last = int(columns["op_id"].max(initial=0))
            finals = max(finals, last + 1 - layout.final_op)
            done += len(columns["op_id"])
            if done - shown >= SHOWN_EVERY:
                shown = done
                show(f"{done:,} micro-operations generated")
            yield mop_table(columns, name, keys)
        planter.require_all_planted()
        rows, names = planter.own_rows()
        if names:
            yield mop_table(rows, name, pa.array(names))

    mops = _write_tables(folder / "mops.parquet", "mops", mop_tables(), {})
    show(f"{mops:,} micro-operations generated, writing the operations")
    tables = (op_table(piece, name) for piece in op_pieces(layout, finals, planter.edits.ops))
    metadata = {METADATA_KEY: msgspec.json.encode(info)}
    ops = _write_tables(folder / "ops.parquet", "ops", tables, metadata)
    pq.write_table(SCHEMAS["faults"].empty_table(), folder / "faults.parquet")
    write_answer(Answer(name, planter.answers), folder)
    return Written(mops, ops)


def _write_tables(path: Path, table: str, pieces: Iterable[Any], metadata: dict[bytes, bytes]) -> int:
    """Write while the next rows are being made: pyarrow compresses outside of Python's lock."""
    rows = 0
    schema = SCHEMAS[table].with_metadata(metadata)
    deltas = [name for name in schema.names if name in DELTAS]
    plain = [name for name in schema.names if name not in DELTAS]
    with (
        pq.ParquetWriter(
            path,
            schema,
            compression="zstd",
            use_dictionary=plain,
            column_encoding=dict.fromkeys(deltas, "DELTA_BINARY_PACKED"),
        ) as writer,
        ThreadPoolExecutor(max_workers=1) as worker,
    ):
        waiting: Future[None] | None = None
        for each in _gathered(pieces):
            if waiting is not None:
                waiting.result()
            waiting = worker.submit(writer.write_table, each, ROW_GROUP_ROWS)
            rows += len(each)
        if waiting is not None:
            waiting.result()
    return rows


def _gathered(pieces: Iterable[Any]) -> Iterator[Any]:
    """Tables of at least WRITE_ROWS rows, except the last."""
    waiting: list[Any] = []
    rows = 0
    for piece in pieces:
        waiting.append(piece)
        rows += len(piece)
        if rows >= WRITE_ROWS:
            yield pa.concat_tables(waiting).unify_dictionaries()
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_tables(waiting).unify_dictionaries()


def mop_table(piece: Columns, history: str, keys: Any) -> Any:
    """Columns of numbers as rows of mops.parquet. `keys`: the names of the numbers in `key`."""
    rows = len(piece["op_id"])
    low, high = (int(piece["key"].min()), int(piece["key"].max()) + 1) if rows else (0, 0)
    columns = {
        "history_id": _constant(history, rows),
        "op_id": pa.array(piece["op_id"]),
        "pos": pa.array(piece["pos"].astype(np.int32)),
        "f": _coded(piece["f"], MOP_FUNCTIONS),
        "key": pa.DictionaryArray.from_arrays(
            pa.array((piece["key"] - low).astype(np.int32)), keys.slice(low, high - low)
        ),
        "offset": nullable(piece["offset"]),
        "value": nullable(piece["value"]),
        "value_s": pa.nulls(rows, pa.string()),
        "epoch": nullable(piece["epoch"]),
        "leader": nullable(piece["leader"]),
        "process": pa.array(piece["process"]),
        "op_f": _coded(piece["op_f"], OP_FUNCTIONS),
        "outcome": _coded(piece["outcome"], OUTCOMES),
        "idx_inv": pa.array(piece["idx_inv"]),
        "idx_ret": nullable(piece["idx_ret"]),
    }
    schema = SCHEMAS["mops"]
    return pa.table({field.name: columns[field.name] for field in schema}, schema=schema)


def op_table(piece: Columns, history: str) -> Any:
    """Columns of numbers as rows of ops.parquet."""
    rows = len(piece["op_id"])
    ended = nullable(piece["idx_ret"] * TICK_NS, piece["idx_ret"] != NULL)
    texts = [ERRORS.get(outcome) for outcome in range(len(OUTCOMES))]
    columns = {
        "history_id": _constant(history, rows),
        "op_id": pa.array(piece["op_id"]),
        "idx_inv": pa.array(piece["idx_inv"]),
        "idx_ret": nullable(piece["idx_ret"]),
        "process": pa.array(piece["process"]),
        "client": pa.DictionaryArray.from_arrays(pa.nulls(rows, pa.int32()), pa.array([], pa.string())),
        "f": _coded(piece["f"], OP_FUNCTIONS),
        "outcome": _coded(piece["outcome"], OUTCOMES),
        "t_inv": pa.array(piece["idx_inv"] * TICK_NS),
        "t_ret": ended,
        "error": pa.array(texts, pa.string()).take(pa.array(piece["outcome"])),
    }
    return pa.table(columns, schema=SCHEMAS["ops"])


def nullable(column: Ints, known: Any = None) -> Any:
    """int64 with a bitmap of what is not NULL."""
    mask = column != NULL if known is None else known
    if mask.all():
        return pa.array(column)
    bitmap = pa.py_buffer(np.packbits(mask, bitorder="little").tobytes())
    return pa.Array.from_buffers(
        pa.int64(), len(column), [bitmap, pa.py_buffer(np.ascontiguousarray(column))]
    )


def _coded(column: Ints, names: tuple[str, ...]) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(column.astype(np.int32)), pa.array(names, pa.string()))


def _constant(text: str, count: int) -> Any:
    return _coded(np.zeros(count, np.int64), (text,))
