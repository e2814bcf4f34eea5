"""Histories of other tools as rows: one per operation, all files of a check in one table.

Rows are what the Data Source gives (`liftlog_jepsen.spark.source`), what `liftlog jepsen convert` keeps in
Parquet, and what the checks start from. docs/history-formats.md describes the columns. Values are texts in
EDN, which loses nothing; null is nil. A file that cannot be read is one row that says so in `broken` and has
no operation, so that it does not hide the others.

Plain Python and Arrow: workers of any Spark session run this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from liftlog_jepsen.events import BadHistory, Event, Operation
from liftlog_jepsen.foreign.reading import Conventions, read_events, read_operations
from liftlog_jepsen.formats import FORMATS, edn, write_edn
from liftlog_jepsen.formats.options import Options

OPERATION_COLUMNS = pa.schema(
    [
        ("file", pa.string()),
        ("format", pa.string()),
        ("number", pa.int64()),
        ("process", pa.int64()),
        ("f", pa.string()),
        ("key", pa.string()),
        ("argument", pa.string()),
        ("result", pa.string()),
        ("outcome", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("time", pa.int64()),
        ("end_time", pa.int64()),
        ("error", pa.string()),
        ("broken", pa.string()),
    ]
)
EVENT_COLUMNS = pa.schema(
    [
        ("file", pa.string()),
        ("format", pa.string()),
        ("position", pa.int64()),
        ("process", pa.string()),
        ("type", pa.string()),
        ("f", pa.string()),
        ("key", pa.string()),
        ("value", pa.string()),
        ("time", pa.int64()),
        ("index", pa.int64()),
        ("error", pa.string()),
        ("raw", pa.string()),
        ("broken", pa.string()),
    ]
)
ROWS_MAX = 10_000
"""Rows of one Arrow batch."""
_KEPT_TEXT = 80


def operation_batches(file: str, format: str, operations: Sequence[Operation]) -> Iterator[pa.RecordBatch]:
    """Rows of operations, in batches."""
    for first in range(0, len(operations), ROWS_MAX):
        some = operations[first : first + ROWS_MAX]
        count = len(some)
        columns: list[list[Any]] = [
            [file] * count,
            [format] * count,
            [one.number for one in some],
            [one.process for one in some],
            [str(one.f) for one in some],
            [_text(one.key) for one in some],
            [_text(one.argument) for one in some],
            [_text(one.result) for one in some],
            [one.outcome for one in some],
            [one.start for one in some],
            [one.end for one in some],
            [one.time for one in some],
            [one.end_time for one in some],
            [_text(one.error) for one in some],
            [None] * count,
        ]
        yield _batch(columns, OPERATION_COLUMNS, file)


def event_batches(file: str, format: str, events: Sequence[Event]) -> Iterator[pa.RecordBatch]:
    """Rows of events, as the file has them; `raw` is the whole line in EDN."""
    for first in range(0, len(events), ROWS_MAX):
        some = events[first : first + ROWS_MAX]
        count = len(some)
        columns: list[list[Any]] = [
            [file] * count,
            [format] * count,
            list(range(first, first + count)),
            [edn.write(one.process) for one in some],
            [one.type for one in some],
            [str(one.f) for one in some],
            [_text(one.key) for one in some],
            [_text(one.value) for one in some],
            [one.time for one in some],
            [one.number for one in some],
            [_text(one.error) for one in some],
            write_edn(some).splitlines(),
            [None] * count,
        ]
        yield _batch(columns, EVENT_COLUMNS, file)


def broken_batch(file: str, format: str, problem: str, columns: pa.Schema) -> pa.RecordBatch:
    """The one row of a file that cannot be read."""
    row = {"file": file, "format": format, "broken": problem}
    return pa.RecordBatch.from_pylist([row], schema=columns)


def file_batches(
    file: str, format: str, conventions: Conventions, rows: str, keep_broken: bool
) -> Iterator[pa.RecordBatch]:
    """The rows of one file, `operations` or `events`. Raises BadHistory, unless that is to be a row, too."""
    try:
        if rows == "events":
            name, events = read_events(file, format, conventions)
            yield from event_batches(file, name, events)
        else:
            name, operations = read_operations(file, format, conventions)
            yield from operation_batches(file, name, operations)
    except BadHistory as problem:
        if not keep_broken:
            raise
        columns = EVENT_COLUMNS if rows == "events" else OPERATION_COLUMNS
        yield broken_batch(file, format, str(problem), columns)


def operations_of(batch: pa.RecordBatch) -> Iterable[Operation]:
    """The operations of rows that are none of broken files."""
    names = (
        "number", "process", "f", "argument", "result", "outcome",
        "start", "end", "key", "time", "end_time", "error",
    )  # fmt: skip
    columns = [batch.column(name).to_pylist() for name in names]
    for number, process, f, argument, result, outcome, start, end, key, time, end_time, error in zip(
        *columns, strict=True
    ):
        yield Operation(
            number, process, f, value_of(argument), value_of(result), outcome,
            start, end, value_of(key), time, end_time, value_of(error),
        )  # fmt: skip


def value_of(text: str | None) -> Any:
    """What a column of values says."""
    if text is None:
        return None
    return _short_value(text) if len(text) <= _KEPT_TEXT else edn.read(text, "a value of the table")


@lru_cache(maxsize=1 << 14)
def _short_value(text: str) -> Any:
    return edn.read(text, "a value of the table")


def options_of(format: str | None, conventions: Conventions) -> Options:
    """The options of rows that came from a file of this format; an unknown name is no format's."""
    return conventions.options(FORMATS.get(format or ""))


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return str(value) if type(value) is int else edn.write(value)


def _batch(columns: list[list[Any]], schema: pa.Schema, file: str) -> pa.RecordBatch:
    try:
        arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise BadHistory(f"{file}: expected processes, times and indexes below 2^63 ({error})") from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
