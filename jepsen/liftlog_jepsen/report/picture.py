"""What the HTML report shows beyond the verdict: the run over time, and what surrounds the anomalies.

Read straight from the Parquet folder with Arrow, batch by batch, so that memory stays bounded whatever the
history's size: plots are histograms (latencies in buckets of 4 %), and everything else is limited in number.
Operations lie sorted by position and micro-operations by key and offset, so most row groups are skipped where
only a few rows are wanted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from liftlog_jepsen.history import FINAL_POLL, Fault
from liftlog_jepsen.report.freshness import COLUMNS, FreshnessClock, every_nth, freshness, wanted_rows
from liftlog_jepsen.result import Anomaly, CheckResult, Lane, Moment, Picture, Sighting, Surroundings

MOMENTS = 120
"""Steps of the plots."""
LANES_MAX = 60
"""Operations of the timeline around an anomaly."""
PROCESSES_MAX = 16
"""Processes of the timeline around a fault."""
SAMPLE_MAX = 1000
"""Operations of the timeline around a fault."""
NEIGHBOURS = 3
"""Offsets shown on each side of an anomaly's offset."""
SIGHTINGS_MAX = 200
FAULTS_MAX = 500
BEFORE_FAULT_NS = 500_000_000
AFTER_FAULT_NS = 2_500_000_000
LATENCY_STEPS_PER_OCTAVE = 18
LATENCY_STEPS = 64 * LATENCY_STEPS_PER_OCTAVE

OP_COLUMNS = (
    "op_id", "process", "client", "f", "outcome", "idx_inv", "idx_ret", "t_inv", "t_ret", "error",
)  # fmt: skip

Ints = npt.NDArray[np.int64]


def draw(folder: Path, result: CheckResult, meta: dict[str, str]) -> Picture:
    """The picture of one history of the Parquet folder, whose format has been validated."""
    tables = _Tables(folder, result.history)
    width_ns = max(1, math.ceil((result.t_last_ns - result.t_first_ns + 1) / MOMENTS))
    clock = FreshnessClock(result.t_first_ns, width_ns, MOMENTS)
    moments = _moments(tables, result.t_first_ns, width_ns, clock)
    every = every_nth(result.records_sent + result.records_read)
    if tables.has("mops", (*COLUMNS, "outcome")):
        found = freshness(tables.batches("mops", COLUMNS, wanted_rows(every)), clock, MOMENTS, every)
        moments = tuple(
            moment._replace(
                unseen=int(found.unseen[number]),
                lag_p50_ns=_known(found.lag_p50[number]),
                lag_worst_ns=_known(found.lag_worst[number]),
            )
            for number, moment in enumerate(moments)
        )
    faults = tables.faults()
    focus, lanes = _timeline(tables, result, faults)
    named = sorted({op for finding in result.findings for example in finding.examples for op in example.ops})
    involved = tables.lanes(pc.field("op_id").isin(named)) if named else []
    return Picture(
        width_ns,
        moments,
        tuple((fault.kind, fault.target, fault.t_start_ns, fault.t_end_ns) for fault in faults),
        focus,
        tuple(lanes),
        tuple(sorted(involved, key=lambda lane: lane.op_id)),
        tuple(
            _surroundings(tables, finding.examples[0])
            for finding in result.findings
            if _placed(finding.examples)
        ),
        tuple(sorted(meta.items())),
        every,
    )


def _known(number: int) -> int | None:
    return None if number < 0 else int(number)


class _Tables:
    """The rows of one history in a folder."""

    def __init__(self, folder: Path, history: str) -> None:
        self._folder = folder
        self._mine = pc.field("history_id") == history

    def batches(self, table: str, columns: Sequence[str], where: Any = None) -> Iterator[pa.RecordBatch]:
        chosen = self._mine if where is None else self._mine & where
        yield from self._dataset(table).to_batches(columns=list(columns), filter=chosen)

    def rows(self, table: str, columns: Sequence[str], where: Any) -> list[dict[str, Any]]:
        """For few rows only."""
        rows: list[dict[str, Any]] = []
        for batch in self.batches(table, columns, where):
            rows.extend(batch.to_pylist())
        return rows

    def faults(self) -> list[Fault]:
        rows = self.rows("faults", ("kind", "target", "t_start", "t_end"), None)
        faults = [Fault(row["kind"], row["target"], row["t_start"], row["t_end"]) for row in rows]
        return sorted(faults, key=lambda fault: (fault.t_start_ns, fault.kind, fault.target))[:FAULTS_MAX]

    def lanes(self, where: Any) -> list[Lane]:
        """The operations that `where` selects, few in number, each with what its records say."""
        ops = self.rows("ops", OP_COLUMNS, where)
        carried = self._carried([row["op_id"] for row in ops])
        return [_lane(row, carried.get(row["op_id"])) for row in ops]

    def _carried(self, op_ids: list[int]) -> dict[int, _Carried]:
        carried: dict[int, _Carried] = {}
        columns = ("op_id", "key", "offset", "value", "value_s")
        for batch in self.batches("mops", columns, pc.field("op_id").isin(op_ids)):
            for row in batch.to_pylist():
                carried.setdefault(row["op_id"], _Carried()).take(row)
        return carried

    def has(self, table: str, columns: Sequence[str]) -> bool:
        """Whether the folder's version has these columns."""
        return set(columns) <= set(self._dataset(table).schema.names)

    def _dataset(self, table: str) -> Any:
        return ds.dataset(self._folder / f"{table}.parquet", format="parquet")


class _Carried:
    """A summary of the records of one operation."""

    def __init__(self) -> None:
        self.records = 0
        self.key: str | None = None
        self.low: int | None = None
        self.high: int | None = None
        self.value: str | None = None

    def take(self, row: dict[str, Any]) -> None:
        self.key = row["key"]
        offset, value = row["offset"], _value_text(row)
        if value is not None:
            self.records += 1
            self.value = value if self.records == 1 else None
        if offset is not None:
            self.low = offset if self.low is None else min(self.low, offset)
            self.high = offset if self.high is None else max(self.high, offset)


def _value_text(row: dict[str, Any]) -> str | None:
    """As the checks write values: strings that look like integers get quotes
    (`liftlog_jepsen.result.original`)."""
    if row["value"] is not None:
        return str(row["value"])
    string: str | None = row["value_s"]
    if string is not None and string[:1] in set('"-0123456789'):
        return f'"{string}"'
    return string


def _lane(row: dict[str, Any], carried: _Carried | None) -> Lane:
    records = carried or _Carried()
    return Lane(
        row["op_id"],
        row["process"],
        row["client"],
        row["f"],
        row["outcome"],
        row["idx_inv"],
        row["idx_ret"],
        row["t_inv"],
        row["t_ret"],
        row["error"],
        records.records,
        records.key,
        records.low,
        records.high,
        records.value,
    )


# -- the run over time ---------------------------------------------------------------------------------------


class _Counters(NamedTuple):
    """One element per step, latencies one row per step."""

    ok: Ints
    fail: Ints
    info: Ints
    read: Ints
    latency: Ints


def _moments(tables: _Tables, t_first_ns: int, width_ns: int, clock: FreshnessClock) -> tuple[Moment, ...]:
    """What completed in each step. The clock learns meanwhile which positions belong to which time."""
    ok, fail, info, read = (np.zeros(MOMENTS, np.int64) for _ in range(4))
    counters = _Counters(ok, fail, info, read, np.zeros((MOMENTS, LATENCY_STEPS), np.int64))
    readers: list[tuple[Ints, Ints]] = []
    for batch in tables.batches("ops", ("op_id", "f", "outcome", "t_inv", "t_ret", "idx_inv", "idx_ret")):
        began = _integers(batch, "t_inv")
        ended = pc.coalesce(batch.column("t_ret"), batch.column("t_inv")).to_numpy(zero_copy_only=False)
        clock.learn(_integers(batch, "idx_inv"), began)
        returned = batch.filter(pc.and_(batch.column("idx_ret").is_valid(), batch.column("t_ret").is_valid()))
        clock.learn(_integers(returned, "idx_ret"), _integers(returned, "t_ret"))
        step = np.clip((ended - t_first_ns) // width_ns, 0, MOMENTS - 1)
        send = pc.equal(batch.column("f").cast(pa.string()), "send").to_numpy(zero_copy_only=False)
        outcome = batch.column("outcome").cast(pa.string())
        for name, counter in (("ok", counters.ok), ("fail", counters.fail), ("info", counters.info)):
            chosen = send & pc.equal(outcome, name).to_numpy(zero_copy_only=False)
            counter += np.bincount(step[chosen], minlength=MOMENTS)
            if name == "ok":
                _count_latencies(counters.latency, step[chosen], (ended - began)[chosen])
        readers.append((_integers(batch, "op_id")[~send], step[~send]))
    _count_reads(tables, readers, counters.read)
    return tuple(
        Moment(
            t_first_ns + number * width_ns,
            int(counters.ok[number]),
            int(counters.fail[number]),
            int(counters.info[number]),
            int(counters.read[number]),
            _quantile(counters.latency[number], 0.5),
            _quantile(counters.latency[number], 0.99),
        )
        for number in range(MOMENTS)
    )


def _integers(batch: pa.RecordBatch, name: str) -> Ints:
    numbers: Ints = batch.column(name).to_numpy(zero_copy_only=False)
    return numbers


def _count_latencies(histogram: Ints, step: Ints, latency_ns: Ints) -> None:
    octaves = np.log2(np.maximum(latency_ns, 1))
    place = np.clip((octaves * LATENCY_STEPS_PER_OCTAVE).astype(np.int64), 0, LATENCY_STEPS - 1)
    np.add.at(histogram, (step, place), 1)


def _quantile(histogram: Ints, share: float) -> int | None:
    """The latency in nanoseconds that `share` of the sends did not exceed, within 4 %."""
    total = int(histogram.sum())
    if not total:
        return None
    place = int(np.searchsorted(np.cumsum(histogram), math.ceil(share * total)))
    return round(2 ** ((place + 0.5) / LATENCY_STEPS_PER_OCTAVE))


def _count_reads(tables: _Tables, readers: list[tuple[Ints, Ints]], counter: Ints) -> None:
    """Count every polled record in the step in which its operation completed."""
    op_ids = np.concatenate([ids for ids, _ in readers]) if readers else np.zeros(0, np.int64)
    if not len(op_ids):
        return
    order = np.argsort(op_ids, kind="stable")
    op_ids, steps = op_ids[order], np.concatenate([steps for _, steps in readers])[order]
    polled = (pc.field("f") == "poll") & (pc.field("value").is_valid() | pc.field("value_s").is_valid())
    for batch in tables.batches("mops", ("op_id",), polled):
        wanted = _integers(batch, "op_id")
        place = np.minimum(np.searchsorted(op_ids, wanted), len(op_ids) - 1)
        counter += np.bincount(steps[place[op_ids[place] == wanted]], minlength=MOMENTS)


# -- the timeline --------------------------------------------------------------------------------------------


def _timeline(tables: _Tables, result: CheckResult, faults: list[Fault]) -> tuple[str, list[Lane]]:
    """What the timeline is about, and its operations: the first anomaly, the first fault, or the start."""
    worst = sorted(result.findings, key=lambda finding: not finding.failing)
    examples = [example for finding in worst for example in finding.examples[:1]]
    if examples:
        first = examples[0]
        return f"the first {first.name}: operation #{first.ops[0]} and those around it", _around(
            tables, first
        )
    if faults:
        return _at_fault(tables, faults[0])
    return "the beginning of the run", _nearest(tables, 0)


def _around(tables: _Tables, anomaly: Anomaly) -> list[Lane]:
    start = tables.rows("ops", ("idx_inv",), pc.field("op_id") == anomaly.ops[0])
    return _nearest(tables, start[0]["idx_inv"] if start else 0)


def _nearest(tables: _Tables, position: int) -> list[Lane]:
    """The operations that were invoked next to a position. Positions count completions too: look further."""
    reach = 3 * LANES_MAX
    near = (pc.field("idx_inv") >= position - reach) & (pc.field("idx_inv") <= position + reach)
    rows = tables.rows("ops", ("op_id", "idx_inv"), near)
    rows.sort(key=lambda row: (abs(row["idx_inv"] - position), row["op_id"]))
    lanes = tables.lanes(pc.field("op_id").isin([row["op_id"] for row in rows[:LANES_MAX]]))
    return sorted(lanes, key=lambda lane: lane.idx_inv)


def _at_fault(tables: _Tables, fault: Fault) -> tuple[str, list[Lane]]:
    """Some processes' operations around a fault's beginning; the processes evenly drawn."""
    low, high = fault.t_start_ns - BEFORE_FAULT_NS, fault.t_start_ns + AFTER_FAULT_NS
    overlaps = (pc.field("t_inv") <= high) & (pc.coalesce(pc.field("t_ret"), pc.field("t_inv")) >= low)
    ids, owners = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for batch in tables.batches("ops", ("op_id", "process"), overlaps):
        ids.append(_integers(batch, "op_id"))
        owners.append(_integers(batch, "process"))
    owner = np.concatenate(owners)
    processes = np.unique(owner)
    drawn = processes[:: max(1, math.ceil(len(processes) / PROCESSES_MAX))]
    chosen = np.concatenate(ids)[np.isin(owner, drawn)][:SAMPLE_MAX].tolist()
    lanes = tables.lanes(pc.field("op_id").isin(chosen)) if chosen else []
    some = f"; {len(drawn)} of {len(processes)} processes" if len(drawn) < len(processes) else ""
    words = f"the first fault: {fault.kind} of {fault.target}{some}"
    return words, sorted(lanes, key=lambda lane: lane.idx_inv)


# -- around an anomaly's offset ------------------------------------------------------------------------------


def _placed(examples: tuple[Anomaly, ...]) -> bool:
    return bool(examples) and examples[0].evidence.offset is not None


def _surroundings(tables: _Tables, anomaly: Anomaly) -> Surroundings:
    """Every send and poll of the offsets around an anomaly, and where else its value was."""
    offset = anomaly.evidence.offset
    assert offset is not None
    places = {offset}
    if anomaly.evidence.other_offset is not None:
        places.add(anomaly.evidence.other_offset)
    near = [
        pc.field("offset").isin(list(range(place - NEIGHBOURS, place + NEIGHBOURS + 1))) for place in places
    ]
    where = (pc.field("key") == anomaly.key) & (near[0] if len(near) == 1 else near[0] | near[1])
    columns = ("op_id", "f", "offset", "value", "value_s")
    rows = [row for row in tables.rows("mops", columns, where) if _value_text(row) is not None]
    rows.sort(key=lambda row: (row["offset"], row["op_id"]))
    rows = rows[:SIGHTINGS_MAX]
    wanted = pc.field("op_id").isin(sorted({row["op_id"] for row in rows}))
    ops = {row["op_id"]: row for row in tables.rows("ops", ("op_id", "f", "process", "outcome"), wanted)}
    sightings = []
    for row in rows:
        op = ops.get(row["op_id"])
        if op is not None:
            f = FINAL_POLL if op["f"] == FINAL_POLL else row["f"]
            value = _value_text(row) or ""
            sightings.append(Sighting(row["offset"], value, f, row["op_id"], op["process"], op["outcome"]))
    return Surroundings(anomaly.name, anomaly.key, offset, tuple(sightings))
