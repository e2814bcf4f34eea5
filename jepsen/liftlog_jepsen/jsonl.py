"""Histories as JSON lines: append-only, readable with any text tool, and safe when the recorder dies.

The first line names the format, then one line per completed operation (with its micro-operations) or fault,
in order of completion, and an end line with the counts. A file without an end line comes from a recorder
that died: what was in flight is missing, so `History.complete` is false. A last line without its newline
was torn by the crash.

Every line is validated when read. A bad file raises LiftlogError naming the file, the line and what was
expected.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from liftlog.types import LiftlogError
from liftlog_jepsen.history import NULL, Fault, History, Mop, Op

VERSION = 1
FLUSH_BYTES = 64 * 1024
"""A stream hands its buffer to the operating system when it has grown to this, or when told to."""

Natural = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Moment = Annotated[int, msgspec.Meta(gt=-(2**62), lt=2**62)]
Identifier = Annotated[int, msgspec.Meta(ge=-(2**63) + 1, le=2**63 - 1)]
JsonValue = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | str | None


class MopLine(msgspec.Struct, array_like=True):
    f: Literal[
        "send", "poll", "append", "r", "w", "cas", "enq", "deq", "assign", "subscribe", "rebalance",
        "hw", "truncate", "producer", "record-key", "tombstone", "join", "own", "commit", "fetch-commit",
        "source", "expected", "refused", "consumer", "pull", "deliver", "settle", "unknown-delivery", "floor",
    ]  # fmt: skip
    key: str
    offset: Natural | None = None
    value: JsonValue = None
    epoch: Natural | None = None
    leader: Natural | None = None


class HistoryLine(msgspec.Struct, tag_field="record", tag="history", forbid_unknown_fields=True):
    version: int
    name: str
    meta: dict[str, str] = {}


class OpLine(msgspec.Struct, tag_field="record", tag="op", forbid_unknown_fields=True, omit_defaults=True):
    op: Natural
    process: Identifier
    f: Annotated[str, msgspec.Meta(min_length=1)]
    outcome: Literal["ok", "fail", "info"]
    idx: tuple[Natural | None, Natural | None]
    t_ns: tuple[Moment, Moment | None]
    mops: list[MopLine] = []
    client: str | None = None
    error: str | None = None


class FaultLine(msgspec.Struct, tag_field="record", tag="fault", forbid_unknown_fields=True):
    kind: str
    target: str
    t_ns: tuple[Moment, Moment | None]


class EndLine(msgspec.Struct, tag_field="record", tag="end", forbid_unknown_fields=True):
    ops: Natural
    mops: Natural
    faults: Natural


Line = HistoryLine | OpLine | FaultLine | EndLine


class JsonlStream:
    """Appends lines to a file, always whole lines in one write. Close it after the writer."""

    def __init__(self, path: Path) -> None:
        """Create the file and the folders above it. Raises LiftlogError if the file exists or cannot be
        made.
        """
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        except FileExistsError:
            raise LiftlogError(
                f"{path} exists already: a history is never overwritten, choose another"
            ) from None
        except OSError as error:
            raise LiftlogError(f"cannot create history {path}: {error.strerror}") from None
        self._encoder = msgspec.json.Encoder()
        self._buffer = bytearray()

    def header(self, name: str, meta: dict[str, str]) -> None:
        self._append(HistoryLine(VERSION, name, meta))
        self.flush()

    def op(self, op: Op) -> None:
        idx_inv = None if op.idx_inv == NULL else op.idx_inv
        line = OpLine(
            op.op_id,
            op.process,
            op.f,
            op.outcome,  # type: ignore[arg-type]  # OUTCOMES holds exactly the literals
            (idx_inv, op.idx_ret),
            (op.t_inv_ns, op.t_ret_ns),
            [_packed(mop) for mop in op.mops],  # type: ignore[misc]  # written as a MopLine is
            op.client,
            op.error,
        )
        self._append(line)

    def fault(self, fault: Fault) -> None:
        self._append(FaultLine(fault.kind, fault.target, (fault.t_start_ns, fault.t_end_ns)))

    def end(self, ops: int, mops: int, faults: int) -> None:
        """Write the end line and make the file durable."""
        self._append(EndLine(ops, mops, faults))
        self.flush()
        os.fsync(self._file)

    def flush(self) -> None:
        """Hand all complete lines to the operating system: they survive the death of this process."""
        view = memoryview(bytes(self._buffer))
        self._buffer.clear()
        while view:
            view = view[os.write(self._file, view) :]

    def close(self) -> None:
        self.flush()
        os.close(self._file)

    def _append(self, line: Line) -> None:
        self._buffer += self._encoder.encode(line)
        self._buffer += b"\n"
        if len(self._buffer) >= FLUSH_BYTES:
            self.flush()


def _packed(mop: Mop) -> tuple[str | int | None, ...]:
    """A micro-operation as its array, without the nulls at the end."""
    length = len(mop)
    while mop[length - 1] is None:
        length -= 1
    return mop[:length]


def write_jsonl(history: History, path: Path) -> None:
    """Write a whole history to a new file. An incomplete history gets no end line and stays incomplete."""
    stream = JsonlStream(path)
    try:
        stream.header(history.name, history.meta)
        for op in history.ops():
            stream.op(op)
        for fault in history.faults:
            stream.fault(fault)
        if history.complete:
            stream.end(len(history), history.mop_total(), len(history.faults))
    finally:
        stream.close()


def read_jsonl(path: Path, *, salvage: bool = False) -> History:
    """Read and validate. `salvage` drops a torn last line instead of refusing it. Raises LiftlogError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise LiftlogError(f"cannot read history {path}: {error.strerror}") from None
    return _Reader(path).read(data, salvage)


class _Reader:
    """Turns lines into a History, keeping what validation across lines needs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = 0
        self._seen: set[int] = set()
        self._history: History | None = None
        self._end: EndLine | None = None

    def read(self, data: bytes, salvage: bool) -> History:
        lines = data.split(b"\n")
        tail = lines.pop()
        if tail and not salvage:
            self._number = len(lines) + 1
            raise self._error(
                f"a whole line ending in a newline, but the last line stops after {len(tail)} bytes: "
                "the recorder died while writing it; pass --salvage to check the history without it"
            )
        decoder = msgspec.json.Decoder(Line)
        for self._number, raw in enumerate(lines, 1):
            try:
                line = decoder.decode(raw)
            except msgspec.ValidationError as error:
                raise self._error(f"{_lower(str(error))}") from None
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise self._error(f"one JSON object, but it does not parse ({error})") from None
            self._take(line)
        if self._history is None:
            self._number = 1
            raise self._error('a header {"record":"history","version":1,"name":…}, but the file is empty')
        self._finish(self._history)
        return self._history

    def _take(self, line: Line) -> None:
        if self._end is not None:
            raise self._error("nothing after the end line")
        if isinstance(line, HistoryLine):
            if self._history is not None:
                raise self._error("one header, but this is a second one")
            if line.version != VERSION:
                raise self._error(
                    f"history version {VERSION}, got {line.version}: use the liftlog that wrote it"
                )
            self._history = History(line.name, line.meta)
            return
        if self._history is None:
            raise self._error('a header {"record":"history","version":1,"name":…} as the first line')
        if isinstance(line, OpLine):
            self._take_op(self._history, line)
        elif isinstance(line, FaultLine):
            self._history.faults.append(Fault(line.kind, line.target, *line.t_ns))
        else:
            self._end = line

    def _take_op(self, history: History, line: OpLine) -> None:
        idx_inv, idx_ret = line.idx
        t_inv_ns, t_ret_ns = line.t_ns
        if line.op in self._seen:
            raise self._error(f"each operation once, but operation {line.op} was there before")
        self._seen.add(line.op)
        if idx_ret is not None and (idx_inv is None or idx_ret <= idx_inv):
            raise self._error(f"idx[1] above idx[0], got {idx_ret} after {idx_inv}")
        if t_ret_ns is not None and t_ret_ns < t_inv_ns:
            raise self._error(f"t_ns[1] not before t_ns[0], got {t_ret_ns} after {t_inv_ns}")
        if line.outcome != "info" and (t_ret_ns is None or (idx_ret is None) != (idx_inv is None)):
            raise self._error(f"a completion in idx and t_ns, since the outcome is {line.outcome}")
        if any(mop.f == "send" and mop.value is None for mop in line.mops):
            raise self._error("a value in every send: without it nothing shows whether the send was kept")
        history.append(
            Op(
                line.op,
                NULL if idx_inv is None else idx_inv,
                idx_ret,
                line.process,
                line.client,
                line.f,
                line.outcome,
                t_inv_ns,
                t_ret_ns,
                line.error,
                tuple(Mop(m.f, m.key, m.offset, m.value, m.epoch, m.leader) for m in line.mops),
            )
        )

    def _finish(self, history: History) -> None:
        if self._end is None:
            history.complete = False
        else:
            expected = (self._end.ops, self._end.mops, self._end.faults)
            found = (len(history), history.mop_total(), len(history.faults))
            if expected != found:
                raise self._error(
                    "the counts of the end line (ops, mops, faults) "
                    f"= {expected}, but the file holds {found}: lines are missing or were added"
                )
        if history.by_time:
            history.order_by_time()

    def _error(self, expected: str) -> LiftlogError:
        wording = expected if expected.startswith("expected ") else f"expected {expected}"
        return LiftlogError(f"broken history {self._path}:{self._number}: {wording}")


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
