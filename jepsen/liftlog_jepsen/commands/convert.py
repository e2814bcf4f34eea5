"""`liftlog jepsen convert`: histories of other tools as tables, and back to EDN without loss.

A Parquet folder holds `operations.parquet`, which checks read, and `events.parquet`, which has each line of
the history as it was, so that the way back loses nothing. docs/history-formats.md has the columns.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from liftlog.terminal import Activity
from liftlog.types import LiftlogError
from liftlog_jepsen.events import BadHistory, Event, pair
from liftlog_jepsen.foreign.reading import Conventions, read_events
from liftlog_jepsen.formats import AUTO, FORMATS, find_format
from liftlog_jepsen.models import KAFKA

if TYPE_CHECKING:
    import pyarrow as pa

OPERATIONS_FILE, EVENTS_FILE = "operations.parquet", "events.parquet"
TARGETS = ("parquet", "edn", "edn-vector", "jsonl")


def add_parser(verbs: Any) -> None:
    """Add the verb `convert`."""
    convert = verbs.add_parser(
        "convert",
        help="turn histories of other tools into tables, or into EDN",
        description="Turn histories of other tools into Parquet or JSON lines, and back into EDN.",
    )
    convert.add_argument(
        "history", type=Path, nargs="+", metavar="HISTORY", help="files, or a Parquet folder made by convert"
    )
    convert.add_argument(
        "--format",
        default=AUTO,
        metavar="F",
        help=f"{AUTO} (find out, the default), or one of {', '.join(FORMATS)}",
    )
    convert.add_argument("--intervals", metavar="RULE", help="closed or half-open, for formats with times")
    convert.add_argument(
        "--model", choices=(KAFKA,), help="write logs in the form of docs/history-format.md instead"
    )
    convert.add_argument(
        "--to",
        nargs=2,
        required=True,
        metavar=("KIND", "PATH"),
        help=f"{', '.join(TARGETS)}, and a new file, or for parquet a new folder",
    )
    convert.set_defaults(run=_convert)


def _convert(arguments: argparse.Namespace) -> int:
    kind, path = arguments.to[0], Path(arguments.to[1])
    if kind not in TARGETS:
        raise LiftlogError(f"--to {kind}: there is no such kind; there are {', '.join(TARGETS)}")
    if path.exists():
        raise LiftlogError(f"{path} exists already: give a new path")
    if not path.parent.is_dir():
        raise LiftlogError(f"cannot write {path}: there is no folder {path.parent}")
    if arguments.format != AUTO:
        find_format(arguments.format)
    conventions = Conventions(intervals=arguments.intervals)
    conventions.options(None)
    with Activity() as activity:
        histories = _histories(arguments.history, arguments.format, conventions, activity.show)
        if arguments.model == KAFKA:
            count = write_logs(histories, kind, path)
        else:
            count = _WRITERS[kind](histories, path)
    print(f"wrote {path}: {count:,} events")
    return 0


History = tuple[str, str, list[Event]]
"""File, name of its format, events."""


def _histories(
    paths: Iterable[Path], format: str, conventions: Conventions, show: Callable[[str], None]
) -> Iterator[History]:
    for path in paths:
        show(f"reading {path}")
        if is_converted(path):
            yield from read_converted(path)
        else:
            name, events = read_events(str(path), format, conventions)
            if find_format(name).timeless:
                raise LiftlogError(
                    f"{path}: {name} does not say what ended before what began, and every form that convert "
                    "writes would: check the file as it is"
                )
            yield str(path), name, events


def is_converted(path: Path | str) -> bool:
    """Whether this is a folder that `convert` wrote."""
    return Path(path, EVENTS_FILE).is_file() and Path(path, OPERATIONS_FILE).is_file()


def read_converted(folder: Path) -> Iterator[History]:
    """The histories of a converted folder, each as it was read. Raises BadHistory for a damaged table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / EVENTS_FILE
    file, format, lines = "", "", []  # type: str, str, list[str]
    try:
        with pq.ParquetFile(path) as table:
            for batch in table.iter_batches(columns=["file", "format", "raw"]):
                for row in batch.to_pylist():
                    if lines and row["file"] != file:
                        yield file, format, _from_lines(lines, f"{path} ({file})")
                        lines = []
                    file, format = row["file"], row["format"]
                    lines.append(row["raw"])
    except (pa.ArrowException, OSError) as error:
        words = (str(error).splitlines() or [""])[0]
        raise BadHistory(
            f"{path}: expected a table that `liftlog jepsen convert` wrote, found {words}"
        ) from None
    if lines:
        yield file, format, _from_lines(lines, f"{path} ({file})")


def _from_lines(lines: Sequence[str], source: str) -> list[Event]:
    from liftlog_jepsen.formats.maps import read_edn

    edn_lines = FORMATS["edn-lines"]
    return read_edn("\n".join(lines), source, edn_lines.options)


def write_parquet(histories: Iterable[History], folder: Path) -> int:
    """Write both tables. A failure leaves no folder behind."""
    import pyarrow.parquet as pq

    from liftlog_jepsen.foreign.rows import EVENT_COLUMNS, OPERATION_COLUMNS, event_batches, operation_batches

    folder.mkdir()
    count = 0
    try:
        with (
            pq.ParquetWriter(folder / OPERATIONS_FILE, OPERATION_COLUMNS) as operations,
            pq.ParquetWriter(folder / EVENTS_FILE, EVENT_COLUMNS) as lines,
        ):
            for file, format, events in histories:
                _write_all(operations, operation_batches(file, format, pair(events, file)))
                _write_all(lines, event_batches(file, format, events))
                count += len(events)
    except BaseException:
        shutil.rmtree(folder)
        raise
    return count


def _write_all(writer: Any, batches: Iterable[pa.RecordBatch]) -> None:
    for batch in batches:
        writer.write_batch(batch)


def write_lines(histories: Iterable[History], path: Path) -> int:
    """Write one JSON object per operation, with the columns of `operations.parquet`."""
    from liftlog_jepsen.foreign.rows import operation_batches

    count = 0
    with _new_file(path) as target:
        for file, format, events in histories:
            count += len(events)
            for batch in operation_batches(file, format, pair(events, file)):
                for row in batch.to_pylist():
                    said = {name: value for name, value in row.items() if value is not None}
                    target.write(json.dumps(said, ensure_ascii=False) + "\n")
    return count


def write_edn_file(histories: Iterable[History], path: Path, vector: bool = False) -> int:
    """Write one history as EDN."""
    from liftlog_jepsen.formats import write_edn

    (file, _, events), *others = list(histories)
    if others:
        raise LiftlogError(f"{path}: EDN holds one history, but {len(others)} more than {file} were given")
    with _new_file(path) as target:
        target.write(write_edn(events, vector))
    return len(events)


@contextlib.contextmanager
def _new_file(path: Path) -> Iterator[TextIO]:
    """A file to write; a failure leaves none behind."""
    try:
        with path.open("w", encoding="utf-8") as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def write_logs(histories: Iterable[History], target: str, path: Path) -> int:
    """Write logs in our own form, Parquet or JSON lines."""
    from liftlog_jepsen.jsonl import write_jsonl
    from liftlog_jepsen.log.from_events import to_history
    from liftlog_jepsen.parquet import write_parquet as write_own

    listed = list(histories)
    logs = [to_history(events, file) for file, _, events in listed]
    if target == "parquet":
        write_own(logs, path)
    elif target == "jsonl" and len(logs) == 1:
        write_jsonl(logs[0], path)
    else:
        raise LiftlogError(f"--model {KAFKA} writes parquet, or one history as jsonl, not {target}")
    return sum(len(events) for _, _, events in listed)


_WRITERS: dict[str, Callable[[Iterable[History], Path], int]] = {
    "parquet": write_parquet,
    "jsonl": write_lines,
    "edn": write_edn_file,
    "edn-vector": lambda histories, path: write_edn_file(histories, path, vector=True),
}
