"""Histories as Parquet: a folder with ops.parquet, mops.parquet and faults.parquet; the form that Spark
reads.

Every table has `history_id`, so that one folder, one DataFrame and one Spark job may hold many histories.
Operations are sorted by position, micro-operations by key and offset: the copies of a value lie together,
which compresses well.

What a table cannot say (format version, completeness, metadata) lies in the Parquet metadata of ops.parquet
under `liftlog.history`. pyarrow is imported only when this module is.
"""

from __future__ import annotations

import os
import shutil
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from liftlog.types import LiftlogError
from liftlog_jepsen.history import MOP_FUNCTIONS, NULL, OUTCOMES, Fault, History, Value
from liftlog_jepsen.names import Names

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
except ImportError:
    raise LiftlogError(
        "Parquet histories need pyarrow, which is not installed: run `make venv`, "
        "or `pip install 'liftlog[spark]'`"
    ) from None

VERSION = 3
READABLE = (1, 2, 3)
"""Version 1 lacks the operation's columns in mops.parquet (`OP_COLUMNS`); whoever needs them joins. Before
version 3 there is no `leader`, which is null then.
"""
TABLES = ("ops", "mops", "faults")
ROW_GROUP_ROWS = 128 * 1024
"""Spark splits a file only between row groups."""
METADATA_KEY = b"liftlog.history"

_name = pa.dictionary(pa.int32(), pa.string())
OPS_SCHEMA = pa.schema(
    [
        pa.field("history_id", _name, nullable=False),
        pa.field("op_id", pa.int64(), nullable=False),
        pa.field("idx_inv", pa.int64(), nullable=False),
        pa.field("idx_ret", pa.int64()),
        pa.field("process", pa.int64(), nullable=False),
        pa.field("client", _name),
        pa.field("f", _name, nullable=False),
        pa.field("outcome", _name, nullable=False),
        pa.field("t_inv", pa.int64(), nullable=False),
        pa.field("t_ret", pa.int64()),
        pa.field("error", pa.string()),
    ]
)
MOPS_SCHEMA = pa.schema(
    [
        pa.field("history_id", _name, nullable=False),
        pa.field("op_id", pa.int64(), nullable=False),
        pa.field("pos", pa.int32(), nullable=False),
        pa.field("f", _name, nullable=False),
        pa.field("key", _name, nullable=False),
        pa.field("offset", pa.int64()),
        pa.field("value", pa.int64()),
        pa.field("value_s", pa.string()),
        pa.field("epoch", pa.int64()),
        pa.field("process", pa.int64(), nullable=False),
        pa.field("op_f", _name, nullable=False),
        pa.field("outcome", _name, nullable=False),
        pa.field("idx_inv", pa.int64(), nullable=False),
        pa.field("idx_ret", pa.int64()),
        pa.field("leader", pa.int64()),
    ]
)
OP_COLUMNS = ("process", "op_f", "outcome", "idx_inv", "idx_ret")
"""What mops.parquet repeats of each micro-operation's operation (`op_f` is its `f`), so that checks need no
join: the join costs several times the checks themselves.
"""
FAULTS_SCHEMA = pa.schema(
    [
        pa.field("history_id", _name, nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("target", pa.string(), nullable=False),
        pa.field("t_start", pa.int64(), nullable=False),
        pa.field("t_end", pa.int64()),
    ]
)
SCHEMAS = {"ops": OPS_SCHEMA, "mops": MOPS_SCHEMA, "faults": FAULTS_SCHEMA}


class HistoryInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the metadata says of one history of a folder."""

    name: str
    complete: bool
    meta: dict[str, str]


class FolderInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The metadata of a folder: which histories it holds."""

    version: int
    histories: list[HistoryInfo]


def write_parquet(histories: History | Sequence[History], folder: Path) -> None:
    """Write one history or several, with different names, to a new folder; it appears whole or not at all.

    Raises LiftlogError if the folder exists or two histories have one name.
    """
    several = [histories] if isinstance(histories, History) else list(histories)
    names = [history.name for history in several]
    if len(set(names)) != len(names):
        raise LiftlogError(f"cannot write {folder}: two histories in one folder need different names")
    if folder.exists():
        raise LiftlogError(f"{folder} exists already: a history is never overwritten, choose another")
    info = FolderInfo(VERSION, [HistoryInfo(h.name, h.complete, h.meta) for h in several])
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        for table, build in (("ops", _ops_table), ("mops", _mops_table), ("faults", _faults_table)):
            rows = pa.concat_tables([SCHEMAS[table].empty_table(), *map(build, several)]).unify_dictionaries()
            metadata = {METADATA_KEY: msgspec.json.encode(info)} if table == "ops" else {}
            pq.write_table(
                rows.replace_schema_metadata(metadata),
                temporary / f"{table}.parquet",
                compression="zstd",
                row_group_size=ROW_GROUP_ROWS,
            )
        temporary.rename(folder)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise LiftlogError(f"cannot write history {folder}: {error.strerror or error}") from None


def read_info(folder: Path) -> FolderInfo:
    """The metadata of a folder, checked; also checks that every table is there with the schema's columns.

    Cheap: reads footers only. Raises LiftlogError naming the file and what was expected.
    """
    info: FolderInfo | None = None
    for table in TABLES:
        path = folder / f"{table}.parquet"
        schema = _open(path).schema_arrow
        for field in fields(table, info.version if info else VERSION):
            if schema.get_field_index(field.name) < 0:
                raise LiftlogError(
                    f"broken history {path}: expected a column {field.name} of type {_plain(field.type)}"
                )
            found = _plain(schema.field(field.name).type)
            if found != _plain(field.type):
                raise LiftlogError(
                    f"broken history {path}: expected column {field.name} of type {_plain(field.type)}, "
                    f"got {found}"
                )
        if table == "ops":
            info = _decode_info(path, (schema.metadata or {}).get(METADATA_KEY))
    assert info is not None
    return info


def fields(table: str, version: int = VERSION) -> list[pa.Field]:
    """The columns of a table in one version of the format."""
    lacking: tuple[str, ...] = ()
    if table == "mops" and version < 3:
        lacking = ("leader", *OP_COLUMNS) if version < 2 else ("leader",)
    return [field for field in SCHEMAS[table] if field.name not in lacking]


def count_mops(folder: Path) -> int:
    """Micro-operations in a folder, from the footer of its file."""
    count: int = _open(folder / "mops.parquet").metadata.num_rows
    return count


def read_parquet(folder: Path, name: str | None = None) -> History:
    """Read one history of a folder (`name` tells which if there are several). Raises LiftlogError."""
    info = read_info(folder)
    chosen = [one for one in info.histories if name is None or one.name == name]
    if len(chosen) != 1:
        names = ", ".join(one.name for one in info.histories)
        raise LiftlogError(f"{folder} holds {len(info.histories)} histories ({names}): name one of them")
    history = History(chosen[0].name, chosen[0].meta)
    history.complete = chosen[0].complete
    tables = {table: _rows(folder / f"{table}.parquet", history.name, info.version) for table in TABLES}
    _fill_ops(history, tables["ops"])
    mops = tables["mops"].sort_by([("op_id", "ascending"), ("pos", "ascending")])
    _fill_mops(history, mops)
    _attach(history, mops, folder / "mops.parquet")
    for fault in tables["faults"].to_pylist():
        history.faults.append(Fault(fault["kind"], fault["target"], fault["t_start"], fault["t_end"]))
    _validate(history, folder / "ops.parquet")
    return history


# -- writing -----------------------------------------------------------------------------------------------


def _ops_table(history: History) -> pa.Table:
    count = len(history)
    errors: list[str | None] = [None] * count
    for row, error in history.errors.items():
        errors[row] = error
    columns = {
        "history_id": _constant(history.name, count),
        "op_id": _column(history.op_id),
        "idx_inv": _column(history.idx_inv),
        "idx_ret": _nullable_column(history.idx_ret),
        "process": _column(history.process),
        "client": _dictionary(_masked(history.client_code, -1), history.clients.names),
        "f": _dictionary(_column(history.f_code), history.fs.names),
        "outcome": _dictionary(_column(history.outcome), OUTCOMES),
        "t_inv": _column(history.t_inv),
        "t_ret": _nullable_column(history.t_ret),
        "error": pa.array(errors, pa.string()),
    }
    return pa.table(columns, schema=OPS_SCHEMA).sort_by([("idx_inv", "ascending")])


def _mops_table(history: History) -> pa.Table:
    ops, positions, rows = array("q"), array("i"), array("q")
    contiguous = True
    for op, (start, count) in enumerate(zip(history.mop_start, history.mop_count, strict=True)):
        contiguous = contiguous and start == len(rows)
        if count == 1:
            ops.append(op)
            positions.append(0)
            rows.append(start)
        else:
            ops.extend(array("q", [op]) * count)
            positions.extend(range(count))
            rows.extend(range(start, start + count))
    integers, strings = _split(history.mop_value)
    mops = pa.table(
        {
            "f": _dictionary(_column(history.mop_f), MOP_FUNCTIONS),
            "key": _dictionary(_column(history.mop_key), history.keys.names),
            "offset": _nullable_column(history.mop_offset),
            "value": integers,
            "value_s": strings,
            "epoch": _nullable_column(history.mop_epoch),
            "leader": _nullable_column(history.mop_leader),
        }
    )
    if not contiguous or len(rows) != len(mops):
        mops = mops.take(_column(rows))
    owner = _column(ops)
    op_id = _column(history.op_id).take(owner)
    columns = {
        "history_id": _constant(history.name, len(rows)),
        "op_id": op_id,
        "pos": _column(positions),
        **{name: mops.column(name) for name in mops.column_names},
        "process": _column(history.process).take(owner),
        "op_f": _dictionary(_column(history.f_code).take(owner), history.fs.names),
        "outcome": _dictionary(_column(history.outcome).take(owner), OUTCOMES),
        "idx_inv": _column(history.idx_inv).take(owner),
        "idx_ret": _nullable_column(history.idx_ret).take(owner),
    }
    table = pa.table(columns, schema=MOPS_SCHEMA)
    by_log = pa.table({"key": _key_ranks(history, rows), "offset": table.column("offset"), "row": op_id})
    order = [("key", "ascending"), ("offset", "ascending"), ("row", "ascending")]
    return table.take(pc.sort_indices(by_log, sort_keys=order))


def _key_ranks(history: History, rows: array[int]) -> pa.Array:
    """For each mop the rank of its key's name: sorting by small numbers is much faster than by strings."""
    ranks = array("i", [0]) * len(history.keys.names)
    for rank, code in enumerate(sorted(range(len(ranks)), key=history.keys.names.__getitem__)):
        ranks[code] = rank
    return _column(ranks).take(_column(history.mop_key).take(_column(rows)))


def _faults_table(history: History) -> pa.Table:
    columns: dict[str, Any] = {
        "history_id": _constant(history.name, len(history.faults)),
        "kind": [fault.kind for fault in history.faults],
        "target": [fault.target for fault in history.faults],
        "t_start": [fault.t_start_ns for fault in history.faults],
        "t_end": [fault.t_end_ns for fault in history.faults],
    }
    return pa.table(columns, schema=FAULTS_SCHEMA)


_ARROW_TYPES = {"q": pa.int64(), "i": pa.int32(), "b": pa.int8()}


def _column(numbers: array[int]) -> pa.Array:
    """An Arrow array over the same memory, without a copy."""
    return pa.Array.from_buffers(_ARROW_TYPES[numbers.typecode], len(numbers), [None, pa.py_buffer(numbers)])


def _masked(numbers: array[int], null: int) -> pa.Array:
    column = _column(numbers)
    return pc.if_else(pc.equal(column, null), pa.scalar(None, column.type), column)


def _nullable_column(numbers: array[int]) -> pa.Array:
    return _masked(numbers, NULL)


def _dictionary(codes: pa.Array, names: Sequence[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(codes.cast(pa.int32()), pa.array(list(names), pa.string()))


def _constant(name: str, count: int) -> pa.Array:
    return _dictionary(_column(array("i", [0]) * count), [name])


def _split(values: list[Value]) -> tuple[pa.Array, pa.Array]:
    """Integers and strings as two columns, null in the one where the value is of the other kind."""
    kinds = set(map(type, values))
    if not kinds <= {int, str, type(None)}:
        raise LiftlogError("a history's values are integers, strings or null, nothing else")
    if int not in kinds:
        return pa.nulls(len(values), pa.int64()), pa.array(values, pa.string())
    if str not in kinds:
        return pa.array(values, pa.int64()), pa.nulls(len(values), pa.string())
    integers = pa.array([value if isinstance(value, int) else None for value in values], pa.int64())
    return integers, pa.array([value if isinstance(value, str) else None for value in values], pa.string())


# -- reading -----------------------------------------------------------------------------------------------


def _open(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except FileNotFoundError:
        raise LiftlogError(f"broken history {path}: expected this file, but it is missing") from None
    except (pa.ArrowException, OSError) as error:
        raise LiftlogError(
            f"broken history {path}: expected a Parquet file, but {_first_line(error)}"
        ) from None


def _rows(path: Path, name: str, version: int) -> pa.Table:
    try:
        table = pq.read_table(path, filters=pc.field("history_id") == name)
    except (pa.ArrowException, OSError) as error:
        raise LiftlogError(
            f"broken history {path}: expected readable columns, but {_first_line(error)}"
        ) from None
    columns = {}
    for field in fields(path.stem, version):
        column = table.column(field.name).combine_chunks()
        if not field.nullable and column.null_count:
            raise LiftlogError(f"broken history {path}: expected no null in column {field.name}")
        columns[field.name] = column
    return pa.table(columns)


def _decode_info(path: Path, data: bytes | None) -> FolderInfo:
    if data is None:
        raise LiftlogError(f"broken history {path}: expected Parquet metadata under {METADATA_KEY.decode()}")
    try:
        info = msgspec.json.decode(data, type=FolderInfo)
    except msgspec.DecodeError as error:
        raise LiftlogError(f"broken history {path}: metadata {METADATA_KEY.decode()}: {error}") from None
    if info.version not in READABLE:
        raise LiftlogError(
            f"broken history {path}: expected history version {VERSION} or lower, got {info.version}: "
            "use the liftlog that wrote it"
        )
    return info


def _fill_ops(history: History, ops: pa.Table) -> None:
    history.op_id = _integers(ops["op_id"], "q")
    history.idx_inv = _integers(ops["idx_inv"], "q")
    history.idx_ret = _integers(ops["idx_ret"], "q")
    history.process = _integers(ops["process"], "q")
    history.t_inv = _integers(ops["t_inv"], "q")
    history.t_ret = _integers(ops["t_ret"], "q")
    history.client_code = _codes(ops["client"], history.clients)
    history.f_code = _codes(ops["f"], history.fs)
    history.outcome = array("b", _known_codes(ops["outcome"], OUTCOMES))
    for row, error in enumerate(ops["error"].to_pylist()):
        if error is not None:
            history.errors[row] = error


def _fill_mops(history: History, mops: pa.Table) -> None:
    history.mop_f = array("b", _known_codes(mops["f"], MOP_FUNCTIONS))
    history.mop_key = _codes(mops["key"], history.keys)
    history.mop_offset = _integers(mops["offset"], "q")
    history.mop_epoch = _integers(mops["epoch"], "q")
    if "leader" in mops.column_names:
        history.mop_leader = _integers(mops["leader"], "q")
    else:
        history.mop_leader = array("q", [NULL]) * len(mops)
    strings = mops["value_s"].to_pylist()
    if mops["value"].null_count == len(mops):
        history.mop_value = strings
    else:
        integers = mops["value"].to_pylist()
        history.mop_value = [b if a is None else a for a, b in zip(integers, strings, strict=True)]


def _codes(column: pa.ChunkedArray, names: Names) -> array[int]:
    """A column of names as numbers of `names`, which learns the names; -1 for null."""
    encoded = pc.dictionary_encode(column.cast(pa.string())).combine_chunks()
    numbers = [names.code(name) for name in encoded.dictionary.to_pylist()]
    translated = pa.array(numbers, pa.int32()).take(encoded.indices).fill_null(-1)
    return array("i", translated.to_pylist())


def _known_codes(column: pa.ChunkedArray, known: Sequence[str]) -> list[int]:
    """A column of names as their places in `known`; -1 for any other name."""
    found: list[int] = pc.index_in(column.cast(pa.string()), pa.array(list(known))).fill_null(-1).to_pylist()
    return found


def _integers(column: pa.ChunkedArray, typecode: str) -> array[int]:
    filled = column.combine_chunks().fill_null(NULL)
    numbers = array(typecode)
    numbers.frombytes(filled.buffers()[1].to_pybytes()[filled.offset * 8 : (filled.offset + len(filled)) * 8])
    return numbers


def _attach(history: History, mops: pa.Table, path: Path) -> None:
    """Find each operation's mops, which are sorted by operation; refuse those of an unknown operation."""
    starts: dict[int, int] = {}
    counts: dict[int, int] = {}
    for row, (op_id, position) in enumerate(
        zip(mops["op_id"].to_pylist(), mops["pos"].to_pylist(), strict=True)
    ):
        expected = counts.get(op_id, 0)
        if position != expected:
            raise LiftlogError(
                f"broken history {path}: operation {op_id}: expected pos {expected}, got {position}"
            )
        starts.setdefault(op_id, row)
        counts[op_id] = expected + 1
    history.mop_start = array("q", [starts.get(op_id, 0) for op_id in history.op_id])
    history.mop_count = array("q", [counts.pop(op_id, 0) for op_id in history.op_id])
    if counts:
        raise LiftlogError(
            f"broken history {path}: expected operation {min(counts)} in ops.parquet, but it is not there"
        )


def _validate(history: History, path: Path) -> None:
    seen: set[int] = set()
    for row, op_id in enumerate(history.op_id):
        problem = None
        if op_id in seen:
            problem = "each op_id once, but it is there twice"
        elif history.outcome[row] < 0:
            problem = f"an outcome of {', '.join(OUTCOMES)}"
        elif history.idx_ret[row] != NULL and history.idx_ret[row] <= history.idx_inv[row]:
            problem = f"idx_ret above idx_inv {history.idx_inv[row]}, got {history.idx_ret[row]}"
        elif history.t_ret[row] != NULL and history.t_ret[row] < history.t_inv[row]:
            problem = f"t_ret not before t_inv {history.t_inv[row]}, got {history.t_ret[row]}"
        elif history.outcome[row] != OUTCOMES.index("info") and history.idx_ret[row] == NULL:
            problem = f"a completion, since the outcome is {OUTCOMES[history.outcome[row]]}"
        if problem:
            raise LiftlogError(f"broken history {path}: operation {op_id}: expected {problem}")
        seen.add(op_id)
    if min(history.mop_f, default=0) < 0:
        bad = path.with_name("mops.parquet")
        raise LiftlogError(f"broken history {bad}: expected f in {', '.join(MOP_FUNCTIONS)}")


def _plain(kind: pa.DataType) -> str:
    return str(kind.value_type if pa.types.is_dictionary(kind) else kind).replace("large_string", "string")


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0].rstrip(".")
