"""Histories: what clients asked of a log, when, and what they were told; and their writer.

A history is a list of operations. An operation has an invocation and, unless its client crashed, a
completion:

- `ok`: it happened, and the result is known;
- `fail`: it certainly did not happen;
- `info`: nobody knows. It may take effect at any time after its invocation, also after the run, or never.

Each operation carries micro-operations ("mops"): a send has one or more `(key, value)` and learns the
offset of each when it is acknowledged; a poll has one `(key, offset, value)` for every record it returned.
`key` names the log (a partition), so offsets are positions within a key. Faults that were injected
meanwhile lie beside the operations.

*Order.* Invocations and completions carry positions in one common order, `idx_inv` and `idx_ret`; checkers
compare these and never times, because clocks tie. A recorder that sees all clients gives positions as
things happen. A recorder that learns only the times afterwards (other processes, batches) leaves the order
to `order_by_time`, which takes intervals as closed: at equal times an invocation comes before a completion,
so that the two are concurrent.

*Cost.* The demo records 300,000 sends and 900,000 polled records while it measures throughput, so a history
is a set of typed columns: one `array` per field, about 60 bytes per operation and 35 per micro-operation
plus its value, and the bulk calls (`invoke_sends`, `ok_sends`, `ok_poll`) extend columns by slices.

The schema itself is described in docs/history-format.md. `liftlog_jepsen.jsonl` and `liftlog_jepsen.parquet`
hold the two file forms.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from liftlog.types import LiftlogError
from liftlog_jepsen.names import Names

Value = int | str | None

OK, FAIL, INFO, OPEN = 0, 1, 2, 3
"""Codes of the outcome column. OPEN exists only while a writer runs; `HistoryWriter.close` turns it into
INFO.
"""
OUTCOMES = ("ok", "fail", "info")
MOP_FUNCTIONS = (
    "send", "poll", "append", "r", "w", "cas", "enq", "deq", "assign", "subscribe", "rebalance",
    "hw", "truncate", "producer", "record-key", "tombstone", "join", "own", "commit", "fetch-commit",
    "source", "expected", "refused", "consumer", "pull", "deliver", "settle", "unknown-delivery", "floor",
)  # fmt: skip
"""Micro-operations of the schema. The log checks use send, poll, assign, subscribe and rebalance; those
from `hw` on feed the promises, see docs/promises.md.
"""
BY_LEADER = "acknowledged by its leader alone"
"""The error of a send of which nothing more is known, and which is `info` therefore: it is lost if another
node leads next that lacks it.
"""
FINAL_POLL = "final-poll"
"""`f` of an operation that belongs to a process's final read of whole keys, from the log start to the HW."""
KEYED = {"send": "send", "poll": "poll", FINAL_POLL: "poll"}
"""Operations about one key, and the function of their micro-operations."""
NULL = -(2**63)
"""Stands for null in integer columns: no offset, time or position is ever this small."""


class Mop(NamedTuple):
    """One micro-operation. `offset` None = unknown; `epoch` = the leader epoch that an ack named, if any;
    `leader` = the incarnation of the leader that gave it, if it was named.
    """

    f: str
    key: str
    offset: int | None = None
    value: Value = None
    epoch: int | None = None
    leader: int | None = None


class Op(NamedTuple):
    """One operation, invocation and completion joined. `idx_ret` None = it never completed: open for ever."""

    op_id: int
    idx_inv: int
    idx_ret: int | None
    process: int
    client: str | None
    f: str
    outcome: str
    t_inv_ns: int
    t_ret_ns: int | None
    error: str | None
    mops: tuple[Mop, ...]


class Fault(NamedTuple):
    """A fault that was injected into `target` over an interval; `t_end_ns` None = until the end of the
    run.
    """

    kind: str
    target: str
    t_start_ns: int
    t_end_ns: int | None


class History:
    """The columns of one history. Row i of the op columns is one operation; its mops are the rows
    `mop_start[i] .. mop_start[i] + mop_count[i]` of the mop columns. Integer columns hold `NULL` for null.

    `complete` is false when the recorder stopped without closing the file: operations may be missing from it.
    `by_time` is true when some rows came without positions and `order_by_time` has not run yet.
    """

    __slots__ = (
        "by_time",
        "client_code",
        "clients",
        "complete",
        "errors",
        "f_code",
        "faults",
        "fs",
        "idx_inv",
        "idx_ret",
        "keys",
        "meta",
        "mop_count",
        "mop_epoch",
        "mop_f",
        "mop_key",
        "mop_leader",
        "mop_offset",
        "mop_start",
        "mop_value",
        "name",
        "op_id",
        "outcome",
        "process",
        "t_inv",
        "t_ret",
    )

    def __init__(self, name: str, meta: dict[str, str] | None = None) -> None:
        self.name = name
        self.meta: dict[str, str] = dict(meta or {})
        self.complete = True
        self.by_time = False
        self.op_id = array("q")
        self.idx_inv = array("q")
        self.idx_ret = array("q")
        self.process = array("q")
        self.client_code = array("i")
        """-1 = no client named."""
        self.f_code = array("i")
        self.outcome = array("b")
        self.t_inv = array("q")
        self.t_ret = array("q")
        self.mop_start = array("q")
        self.mop_count = array("q")
        self.mop_f = array("b")
        self.mop_key = array("i")
        self.mop_offset = array("q")
        self.mop_epoch = array("q")
        self.mop_leader = array("q")
        self.mop_value: list[Value] = []
        self.errors: dict[int, str] = {}
        """Error text by row; most operations have none."""
        self.clients = Names()
        self.fs = Names()
        self.keys = Names()
        self.faults: list[Fault] = []

    def __len__(self) -> int:
        return len(self.op_id)

    def mop_total(self) -> int:
        """Number of micro-operations that belong to an operation."""
        return sum(self.mop_count)

    def append(self, op: Op) -> None:
        """Add one whole operation. A null `idx_inv` is written as `NULL` and asks for `order_by_time`."""
        self.op_id.append(op.op_id)
        self.idx_inv.append(op.idx_inv)
        self.idx_ret.append(NULL if op.idx_ret is None else op.idx_ret)
        self.process.append(op.process)
        self.client_code.append(-1 if op.client is None else self.clients.code(op.client))
        self.f_code.append(self.fs.code(op.f))
        self.outcome.append(OUTCOMES.index(op.outcome))
        self.t_inv.append(op.t_inv_ns)
        self.t_ret.append(NULL if op.t_ret_ns is None else op.t_ret_ns)
        if op.error is not None:
            self.errors[len(self.op_id) - 1] = op.error
        self.mop_start.append(len(self.mop_f))
        self.mop_count.append(len(op.mops))
        for mop in op.mops:
            self.append_mop(mop)
        if op.idx_inv == NULL:
            self.by_time = True

    def append_mop(self, mop: Mop) -> None:
        self.mop_f.append(MOP_FUNCTIONS.index(mop.f))
        self.mop_key.append(self.keys.code(mop.key))
        self.mop_offset.append(NULL if mop.offset is None else mop.offset)
        self.mop_epoch.append(NULL if mop.epoch is None else mop.epoch)
        self.mop_leader.append(NULL if mop.leader is None else mop.leader)
        self.mop_value.append(mop.value)

    def mops_of(self, row: int) -> tuple[Mop, ...]:
        start = self.mop_start[row]
        names = self.keys.names
        return tuple(
            Mop(
                MOP_FUNCTIONS[self.mop_f[i]],
                names[self.mop_key[i]],
                _nullable(self.mop_offset[i]),
                self.mop_value[i],
                _nullable(self.mop_epoch[i]),
                _nullable(self.mop_leader[i]),
            )
            for i in range(start, start + self.mop_count[row])
        )

    def op(self, row: int) -> Op:
        """The operation in row `row`; an operation that is still open shows as `info`."""
        client = self.client_code[row]
        return Op(
            self.op_id[row],
            self.idx_inv[row],
            _nullable(self.idx_ret[row]),
            self.process[row],
            None if client < 0 else self.clients.names[client],
            self.fs.names[self.f_code[row]],
            OUTCOMES[min(self.outcome[row], INFO)],
            self.t_inv[row],
            _nullable(self.t_ret[row]),
            self.errors.get(row),
            self.mops_of(row),
        )

    def ops(self) -> Iterator[Op]:
        return (self.op(row) for row in range(len(self)))

    def order_by_time(self) -> None:
        """Give every operation positions from its times: closed intervals.

        Sound for real-time checks, since it can only make operations overlap that did not. Ties between two
        invocations or two completions go by operation id, so that every form of the history gets the same
        order.
        """
        count = len(self)
        rows = sorted(range(count), key=self.op_id.__getitem__)
        completed = [row for row in rows if self.t_ret[row] != NULL]
        moments = [self.t_inv[row] << 1 for row in rows]
        moments.extend((self.t_ret[row] << 1) | 1 for row in completed)
        self.idx_ret = array("q", [NULL]) * count
        for position, event in enumerate(sorted(range(len(moments)), key=moments.__getitem__)):
            if event < count:
                self.idx_inv[rows[event]] = position
            else:
                self.idx_ret[completed[event - count]] = position
        self.by_time = False


def _nullable(number: int) -> int | None:
    return None if number == NULL else number


class OperationStream(Protocol):
    """Where a writer puts operations as they complete: a file that survives its recorder
    (`liftlog_jepsen.jsonl`)."""

    def header(self, name: str, meta: dict[str, str]) -> None: ...

    def op(self, op: Op) -> None: ...

    def fault(self, fault: Fault) -> None: ...

    def flush(self) -> None: ...

    def end(self, ops: int, mops: int, faults: int) -> None: ...


class HistoryWriter:
    """Records a history while it happens. Not thread-safe: give it to one thread, or lock around it.

    `clock_ns` stamps calls that name no time: real clients keep the default (the machine's monotonic clock,
    common to all processes of one machine), simulated clients pass their virtual clock. With `stream` (a
    `liftlog_jepsen.jsonl.JsonlStream`) every operation is also written to a file as soon as it has completed,
    so that a crash loses little.

    An operation id is the row number, in order of invocation.
    """

    def __init__(
        self,
        name: str,
        *,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        stream: OperationStream | None = None,
        meta: dict[str, str] | None = None,
    ) -> None:
        self.history = History(name, meta)
        self._clock_ns = clock_ns
        self._stream = stream
        self._next_position = 0
        self._client_codes: dict[int, int] = {}
        self._closed = False
        if stream is not None:
            stream.header(name, self.history.meta)

    def client(self, process: int, name: str) -> None:
        """Name the client or machine behind `process` from now on."""
        self._client_codes[process] = self.history.clients.code(name)

    # -- one operation at a time ---------------------------------------------------------------------------

    def invoke(
        self,
        process: int,
        f: str,
        key: str | None = None,
        value: Value = None,
        *,
        expected: int | None = None,
        time_ns: int | None = None,
    ) -> int:
        """An operation begins; return its id. `f` is send, poll, txn, final-poll, assign, subscribe or your
        own.

        A send names `key` and a `value` that no other send of that key has. A poll names its key, so that the
        history tells even of a poll that failed or found nothing what it was about. Of a transaction or an
        assignment name the parts when they are known, in `ok(mops=…)`. A send lies at `expected` or nowhere.
        """
        if expected is not None and (f != "send" or key is None):
            text = f"{f} expects offset {expected}; only a send with its key can"
            raise LiftlogError(f"history {self.history.name}: {text}")
        now_ns = self._clock_ns() if time_ns is None else time_ns
        op_id = self._open(1, process, f, now_ns)
        if key is not None and f in KEYED:
            if f == "send" and value is None:
                raise LiftlogError(
                    f"history {self.history.name}: a send needs a value, unique within its key"
                )
            self.history.append_mop(Mop(KEYED[f], key, None, value))
            if expected is not None:
                self.history.append_mop(Mop("expected", key, expected))
            self.history.mop_count[op_id] = 1 + (expected is not None)
        return op_id

    def ok(
        self,
        op_id: int,
        *,
        offset: int | None = None,
        epoch: int | None = None,
        leader: int | None = None,
        mops: Sequence[Mop] | None = None,
        time_ns: int | None = None,
    ) -> None:
        """The operation happened. `offset`, `epoch` and `leader` belong to a send; `mops` replaces what was
        invoked.
        """
        if mops is not None:
            self.mops(op_id, mops)
        row = self._complete(op_id, OK, time_ns)
        history = self.history
        columns = (history.mop_offset, offset), (history.mop_epoch, epoch), (history.mop_leader, leader)
        for column, told in columns:
            if told is not None:
                column[history.mop_start[row]] = told
        self._write(row)

    def mops(self, op_id: int, mops: Sequence[Mop]) -> None:
        """Say what an operation that is still open consists of, instead of what was said when it was invoked.

        For operations of several parts that may yet fail or stay unknown.
        """
        history = self.history
        self._require_open(op_id)
        history.mop_start[op_id] = len(history.mop_f)
        history.mop_count[op_id] = len(mops)
        for mop in mops:
            history.append_mop(mop)

    def fail(self, op_id: int, error: str | None = None, *, time_ns: int | None = None) -> None:
        """The operation certainly did not happen, and never will."""
        self._end_badly(op_id, FAIL, error, time_ns)

    def info(self, op_id: int, error: str | None = None, *, time_ns: int | None = None) -> None:
        """The client gave up: the operation may have happened, or may still. Its process must not go on."""
        self._end_badly(op_id, INFO, error, time_ns)

    def refused(
        self, op_id: int, next_offset: int, error: str | None = None, *, time_ns: int | None = None
    ) -> None:
        """A send expected another offset than `next_offset`. An `info`: an earlier attempt may be stored."""
        self._require_open(op_id)
        mops = self.history.mops_of(op_id)
        if not mops or mops[0].f != "send":
            text = f"operation {op_id} is no send; only a send is refused an offset"
            raise LiftlogError(f"history {self.history.name}: {text}")
        self.mops(op_id, [*mops, Mop("refused", mops[0].key, next_offset)])
        self._end_badly(op_id, INFO, error, time_ns)

    def fault(self, kind: str, target: str, t_start_ns: int, t_end_ns: int | None = None) -> None:
        """A fault was injected, e.g. `("kill", "node 2", …)`. Written to the stream at once: call it at the
        end.
        """
        fault = Fault(kind, target, t_start_ns, t_end_ns)
        self.history.faults.append(fault)
        if self._stream is not None:
            self._stream.fault(fault)

    # -- batches -------------------------------------------------------------------------------------------

    def invoke_sends(
        self, process: int, key: str, values: Sequence[int | str], *, time_ns: int | None = None
    ) -> range:
        """One send per value begins, all at this moment; return their ids."""
        now_ns = self._clock_ns() if time_ns is None else time_ns
        count = len(values)
        first = self._open(count, process, "send", now_ns)
        self._append_mops("send", key, [NULL] * count, values, None)
        history = self.history
        history.mop_start[first:] = array(
            "q", range(history.mop_start[first], history.mop_start[first] + count)
        )
        history.mop_count[first:] = array("q", [1]) * count
        return range(first, first + count)

    def ok_sends(
        self,
        op_ids: Sequence[int],
        offsets: Sequence[int],
        epoch: int | None = None,
        leader: int | None = None,
        *,
        time_ns: int | None = None,
    ) -> None:
        """Sends that were acknowledged together, `offsets[i]` for `op_ids[i]`, all under one leader epoch."""
        now_ns = self._clock_ns() if time_ns is None else time_ns
        history = self.history
        offset_column, epoch_column, start = history.mop_offset, history.mop_epoch, history.mop_start
        for op_id, offset in zip(op_ids, offsets, strict=True):
            row = self._complete(op_id, OK, now_ns)
            mop = start[row]
            offset_column[mop] = offset
            if epoch is not None:
                epoch_column[mop] = epoch
            if leader is not None:
                history.mop_leader[mop] = leader
            if self._stream is not None:
                self._write(row)

    def info_sends(
        self, op_ids: Sequence[int], error: str | None = None, *, time_ns: int | None = None
    ) -> None:
        """Sends whose outcome their client will never learn."""
        now_ns = self._clock_ns() if time_ns is None else time_ns
        for op_id in op_ids:
            self._end_badly(op_id, INFO, error, now_ns)

    def ok_poll(
        self,
        op_id: int,
        key: str,
        offsets: Sequence[int] | int,
        values: Sequence[int | str],
        *,
        time_ns: int | None = None,
    ) -> None:
        """A poll of one key returned `values`; `offsets` is one offset per value or the first of a
        contiguous run.
        """
        row = self._complete(op_id, OK, time_ns)
        self._polled(row, key, offsets, values)
        self._write(row)

    # -- what other processes recorded, with times only ----------------------------------------------------

    def record_sends(
        self,
        process: int,
        key: str,
        values: Sequence[int | str],
        t_inv_ns: Sequence[int],
        t_ret_ns: Sequence[int | None],
        offsets: Sequence[int | None],
        outcomes: Sequence[str] | str = "ok",
        epoch: int | None = None,
        leader: int | None = None,
    ) -> range:
        """Sends known only afterwards: one element per send in each sequence. Positions come from times."""
        count = len(values)
        said = [outcomes] * count if isinstance(outcomes, str) else outcomes
        lengths = {count, len(t_inv_ns), len(t_ret_ns), len(offsets), len(said)}
        if len(lengths) != 1:
            raise ValueError(f"record_sends needs sequences of one length, not {sorted(lengths)}")
        codes = array("b", [OUTCOMES.index(outcome) for outcome in said])
        ids = self.invoke_sends(process, key, values, time_ns=0)
        history, first, stop = self.history, ids.start, ids.stop
        history.t_inv[first:stop] = array("q", t_inv_ns)
        history.t_ret[first:stop] = array("q", [NULL if t is None else t for t in t_ret_ns])
        history.outcome[first:stop] = codes
        history.mop_offset[history.mop_start[first] :] = array(
            "q", [NULL if o is None else o for o in offsets]
        )
        for column, told in ((history.mop_epoch, epoch), (history.mop_leader, leader)):
            if told is not None:
                column[history.mop_start[first] :] = array("q", [told]) * count
        self._unordered(ids)
        return ids

    def record_poll(
        self,
        process: int,
        key: str,
        offsets: Sequence[int] | int,
        values: Sequence[int | str],
        t_inv_ns: int,
        t_ret_ns: int,
        f: str = "poll",
    ) -> int:
        """A poll known only afterwards. Positions come from the times."""
        op_id = self._open(1, process, f, t_inv_ns)
        history = self.history
        history.t_ret[op_id] = t_ret_ns
        history.outcome[op_id] = OK
        self._polled(op_id, key, offsets, values)
        self._unordered(range(op_id, op_id + 1))
        return op_id

    def record(self, process: int, f: str, mops: Sequence[Mop], t_inv_ns: int, t_ret_ns: int) -> int:
        """Any operation that is known only afterwards, and was `ok`. Positions come from the times."""
        op_id = self._open(1, process, f, t_inv_ns)
        self.mops(op_id, mops)
        self.history.t_ret[op_id] = t_ret_ns
        self.history.outcome[op_id] = OK
        self._unordered(range(op_id, op_id + 1))
        return op_id

    def flush(self) -> None:
        """Hand everything that has completed to the operating system. Without a stream: nothing to do."""
        if self._stream is not None:
            self._stream.flush()

    def close(self) -> History:
        """End the history: what is still open becomes `info` for ever. Return it. Twice is harmless."""
        history = self.history
        if self._closed:
            return history
        self._closed = True
        for row in range(len(history)):
            if history.outcome[row] == OPEN:
                history.outcome[row] = INFO
                self._write(row)
        if history.by_time:
            history.order_by_time()
        if self._stream is not None:
            self._stream.end(len(history), history.mop_total(), len(history.faults))
        return history

    # -- inside --------------------------------------------------------------------------------------------

    def _open(self, count: int, process: int, f: str, now_ns: int) -> int:
        if self._closed:
            raise LiftlogError(f"history {self.history.name} is closed: record before close()")
        history = self.history
        first = len(history.op_id)
        history.op_id.extend(range(first, first + count))
        history.idx_inv.extend(range(self._next_position, self._next_position + count))
        self._next_position += count
        history.idx_ret.extend(array("q", [NULL]) * count)
        history.process.extend(array("q", [process]) * count)
        history.client_code.extend(array("i", [self._client_codes.get(process, -1)]) * count)
        history.f_code.extend(array("i", [history.fs.code(f)]) * count)
        history.outcome.extend(array("b", [OPEN]) * count)
        history.t_inv.extend(array("q", [now_ns]) * count)
        history.t_ret.extend(array("q", [NULL]) * count)
        history.mop_start.extend(array("q", [len(history.mop_f)]) * count)
        history.mop_count.extend(array("q", [0]) * count)
        return first

    def _polled(self, row: int, key: str, offsets: Sequence[int] | int, values: Sequence[int | str]) -> None:
        """What a poll returned; a poll that found nothing has one micro-operation without offset and
        value.
        """
        history = self.history
        history.mop_start[row] = len(history.mop_f)
        history.mop_count[row] = len(values) or 1
        if len(values):
            self._append_mops("poll", key, _run(offsets, len(values)), values, None)
        else:
            history.append_mop(Mop("poll", key))

    def _append_mops(
        self, f: str, key: str, offsets: Sequence[int], values: Sequence[int | str], epoch: int | None
    ) -> None:
        history, count = self.history, len(values)
        history.mop_f.extend(array("b", [MOP_FUNCTIONS.index(f)]) * count)
        history.mop_key.extend(array("i", [history.keys.code(key)]) * count)
        history.mop_offset.extend(offsets)
        history.mop_epoch.extend(array("q", [NULL if epoch is None else epoch]) * count)
        history.mop_leader.extend(array("q", [NULL]) * count)
        history.mop_value.extend(values)

    def _complete(self, op_id: int, outcome: int, time_ns: int | None) -> int:
        self._require_open(op_id)
        history = self.history
        history.outcome[op_id] = outcome
        history.t_ret[op_id] = self._clock_ns() if time_ns is None else time_ns
        history.idx_ret[op_id] = self._next_position
        self._next_position += 1
        return op_id

    def _require_open(self, op_id: int) -> None:
        history = self.history
        if not 0 <= op_id < len(history.outcome) or history.outcome[op_id] != OPEN:
            raise LiftlogError(
                f"history {history.name}: operation {op_id} is not open; complete each one once"
            )

    def _end_badly(self, op_id: int, outcome: int, error: str | None, time_ns: int | None) -> None:
        row = self._complete(op_id, outcome, time_ns)
        if error is not None:
            self.history.errors[row] = error
        self._write(row)

    def _unordered(self, rows: range) -> None:
        """Forget the positions of these rows, which were not given when things happened."""
        history = self.history
        history.by_time = True
        history.idx_inv[rows.start : rows.stop] = array("q", [NULL]) * len(rows)
        history.idx_ret[rows.start : rows.stop] = array("q", [NULL]) * len(rows)
        for row in rows:
            self._write(row)

    def _write(self, row: int) -> None:
        if self._stream is not None:
            self._stream.op(self.history.op(row))


def _run(offsets: Sequence[int] | int, count: int) -> Sequence[int]:
    if isinstance(offsets, int):
        return range(offsets, offsets + count)
    if len(offsets) != count:
        raise ValueError(f"a poll needs one offset per value, not {len(offsets)} for {count}")
    return offsets
