"""Cycles over logs by definition, random histories full of them, and the kernels without Spark."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from liftlog_jepsen.graph import kernels, versions
from liftlog_jepsen.graph.intervals import locate
from liftlog_jepsen.graph.kernels import EDGE, LATE, NO_EDGE, OK, POLL, PROCESS_SHIFT, ROW
from liftlog_jepsen.graph.order import OPEN
from liftlog_jepsen.history import FINAL_POLL, History, Mop, Op

LOG_KINDS = tuple(base + suffix for suffix in ("", "-process", "-realtime") for base in ("G0", "G1c"))


def depend(history: History, ww_deps: bool) -> list[tuple[int, int, str]]:
    """Every edge of jepsen.tests.kafka's graph, and all edges of time, between ids of operations."""
    ops = [op for op in history.ops() if any(mop.f in ("send", "poll") for mop in op.mops)]
    writers: dict[tuple[str, Any], set[int]] = defaultdict(set)
    readers: dict[tuple[str, Any], set[int]] = defaultdict(set)
    for op in ops:
        for mop in op.mops:
            if mop.value is not None:
                (writers if mop.f == "send" else readers)[mop.key, mop.value].add(op.op_id)
    single = {value: min(by) for value, by in writers.items() if len(by) == 1}
    edges = [(writer, reader, "wr") for value, writer in single.items() for reader in sorted(readers[value])]
    if ww_deps:
        for order in version_orders(ops).values():
            for before, after in pairwise(order):
                if before in single and after in single:
                    edges.append((single[before], single[after], "ww"))
    return [edge for edge in edges if edge[0] != edge[1]] + timed(ops)


def version_orders(ops: Sequence[Op]) -> dict[str, list[tuple[str, Any] | None]]:
    """The values of each log by offset; None where an offset or a value is in doubt."""
    polled = {(mop.key, mop.value) for op in ops if op.outcome == "ok" for mop in op.mops if mop.f == "poll"}
    logs: dict[str, dict[int, set[Any]]] = defaultdict(lambda: defaultdict(set))
    spots: dict[tuple[str, Any], set[int]] = defaultdict(set)
    for op in ops:
        for mop in op.mops:
            counts = mop.f == "poll" or op.outcome == "ok" or (mop.key, mop.value) in polled
            if mop.value is not None and mop.offset is not None and counts:
                logs[mop.key][mop.offset].add(mop.value)
                spots[mop.key, mop.value].add(mop.offset)
    return {
        key: [
            (key, min(values)) if len(values) == 1 and len(spots[key, min(values)]) == 1 else None
            for _, values in sorted(log.items())
        ]
        for key, log in logs.items()
    }


def timed(ops: Sequence[Op]) -> list[tuple[int, int, str]]:
    edges = []
    for a in ops:
        for b in ops:
            if a.outcome == "ok" and a.idx_ret is not None and a.idx_ret < b.idx_inv:
                edges.append((a.op_id, b.op_id, "realtime"))
                if a.process == b.process:
                    edges.append((a.op_id, b.op_id, "process"))
    return edges


def chaos(rng: random.Random, name: str) -> History:
    """Operations that overlap and read each other in every way, possible or not."""
    count = rng.randint(2, 9)
    places = [number // 2 for number in range(2 * count)]
    rng.shuffle(places)
    if rng.random() < 0.4:  # all at the same time
        places = rng.sample(range(count), count) * 2
    bounds = [[place for place, owner in enumerate(places) if owner == number] for number in range(count)]
    history = History(name)
    values = 0
    offsets = rng.sample(range(14), 14)  # of values, mostly
    doubt = rng.choice((0.0, 0.1, 0.5))
    for op_id, (begin, end) in enumerate(sorted(bounds)):
        mops = []
        f = rng.choice(("send", "poll", FINAL_POLL, *("txn",) * 5))
        for _ in range(rng.randint(1, 4)):
            sends = f == "send" or (f == "txn" and rng.random() < 0.5)
            value = rng.randint(0, 4)
            if sends:
                value = values if rng.random() < 1 - doubt / 4 else 0
                values += 1
            offset = offsets[value % 14] if rng.random() >= doubt else rng.choice((None, rng.randint(0, 6)))
            mops.append(Mop("send" if sends else "poll", "kl"[value % 2], offset, value))
        outcome = rng.choice(("ok", "ok", "ok", "ok", "info", "fail"))
        ended = end if outcome != "info" or rng.random() < 0.5 else None
        process = rng.randint(-1, 2)
        history.append(Op(op_id, begin, ended, process, None, f, outcome, begin, ended, None, tuple(mops)))
    return history


# --- the kernels without Spark ----------------------------------------------------------------------------


def kernel_cycles(
    history: History, ww_deps: bool, tasks: int, rng: random.Random
) -> list[tuple[str, tuple[int, ...]]]:
    """What `liftlog_jepsen.spark.cycles` does, with rows dealt to `tasks` tasks at random: the kind of each
    cycle, and the positions of its operations.
    """
    rows = list(graph_rows(history, ww_deps))
    together = deal(rows, ("log", "value"), tasks, rng)
    marks = [mark for part in together for mark in run(kernels.marks, part)]
    edges = []
    if ww_deps:
        placed = [row for part in together for row in run(versions.placed, part)]
        for row in placed:
            row["range"] = row["offset"] >> versions.RANGE_BITS
        linked = [
            row
            for part in deal(placed, ("log", "range"), tasks, rng)
            for row in run(versions.neighbours, part)
        ]
        linked += [row for part in deal(linked, ("log",), tasks, rng) for row in run(versions.borders, part)]
        edges = [{name: row[name] for name in EDGE} for row in linked if row["kind"] >= 0]
        marks += [mark for part in deal(edges, (), tasks, rng) for mark in run(kernels.edge_marks, part)]
    pieces = run(kernels.pieces, marks)
    reused = {(row["log"], row["value"]) for row in run(kernels.reused, marks)}
    plain = [row for row in rows if (row["log"], row["value"]) not in reused]
    blank = {name: NO_EDGE if name == "kind" else 0 for name in EDGE[len(ROW) :]}
    material = within([{**row, **blank} for row in plain] + edges, pieces)
    steps = [
        step
        for part in deal(material, ("piece",), tasks, rng)
        for step in run(kernels.cycles, part, LOG_KINDS)
    ]
    cycles: dict[tuple[str, int], list[int]] = defaultdict(list)
    for step in sorted(steps, key=lambda step: (step["anomaly"], step["first"], step["step"])):
        cycles[step["anomaly"], step["first"]].append(step["source"])
    return sorted((anomaly, tuple(ops)) for (anomaly, _), ops in cycles.items())


def graph_rows(history: History, ww_deps: bool) -> Iterator[dict[str, Any]]:
    for op in history.ops():
        ok = op.outcome == "ok"
        late = ok and (ww_deps or op.f != "send")
        for mop in op.mops:
            only_read = op.f in ("poll", FINAL_POLL) and not ok and not ww_deps
            if mop.f not in ("send", "poll") or mop.value is None or only_read:
                continue
            yield {
                "log": crc32(mop.key.encode()),
                "value": mop.value if isinstance(mop.value, int) else crc32(mop.value.encode()),
                "at": op.idx_inv,
                "ret": op.idx_ret if ok else int(OPEN),
                "who": op.process << PROCESS_SHIFT | POLL * (mop.f == "poll") | OK * ok | LATE * late,
                "offset": mop.offset,
            }


def within(rows: list[dict[str, Any]], pieces: list[dict[str, int]]) -> list[dict[str, Any]]:
    starts, ends = (np.array([piece[name] for piece in pieces], np.int64) for name in ("start", "end"))
    points = np.array([row["ret"] if row["who"] & LATE else row["at"] for row in rows], np.int64)
    numbers = locate(points, starts, ends).tolist()
    return [{**row, "piece": number} for row, number in zip(rows, numbers, strict=True) if number >= 0]


def deal(rows: list[Any], by: tuple[str, ...], tasks: int, rng: random.Random) -> list[list[Any]]:
    """Rows that agree in `by` come together, in any task and in any order."""
    task: dict[tuple[Any, ...], int] = defaultdict(lambda: rng.randrange(tasks))
    parts: list[list[Any]] = [[] for _ in range(tasks)]
    for row in rng.sample(rows, len(rows)):
        parts[task[tuple(row[name] for name in by)] if by else rng.randrange(tasks)].append(row)
    return parts


def run(kernel: Any, rows: list[Any], *arguments: Any) -> list[dict[str, Any]]:
    """A kernel over rows, in batches of three."""
    if not rows:
        return []
    schema = pa.schema([(name, pa.int64()) for name in rows[0]])
    batches = pa.Table.from_pylist(rows, schema=schema).to_batches(max_chunksize=3)
    return [row for batch in kernel(iter(batches), *arguments) for row in batch.to_pylist()]
