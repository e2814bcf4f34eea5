"""Turns what simulated clients did into a history that `liftlog jepsen check` judges.

One send a value; a poll carries what it returned. After the run a final read of every copy of every
partition is added, one process a copy, as a real test does when its cluster has healed. Times are simulated;
order follows from them (`History.order_by_time`).
"""

from __future__ import annotations

import importlib
from pathlib import Path

from liftlog.format import decode_records
from liftlog.types import LiftlogError
from liftlog_jepsen.history import FINAL_POLL, NULL, Fault, History, Mop, Op
from liftlog_sim.runs.comparing import read_copy
from liftlog_sim.runs.runs import RunOptions, RunResult
from liftlog_sim.workload.operations import ClientOperation
from liftlog_sim.world import World

NANOSECONDS_PER_US = 1000
FINAL_PROCESS = 1_000_000
"""Processes of the final read are numbered from here on, by node."""


class FaultLog:
    """Notes when which fault struck, while the world runs."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.faults: list[Fault] = []
        world.faults.strikes.on_fault = self._struck

    def _struck(self, kind: str, target: str, duration_us: int) -> None:
        start_ns = self._world.kernel.now_us * NANOSECONDS_PER_US
        self.faults.append(Fault(kind, target, start_ns, start_ns + duration_us * NANOSECONDS_PER_US))


def history_of(world: World, options: RunOptions, result: RunResult, faults: FaultLog) -> History:
    """The history of a world that has run; it must have kept the values its readers saw."""
    meta = {
        "seed": str(options.seed),
        "profile": result.profile,
        "gear": options.gear,
        "trace_hash": result.trace_hash,
        "replay": result.replay,
    }
    history = History(f"sim-{options.seed}", meta)
    for operation in world.workload.operations:
        history.append(_op(len(history), operation))
    if not result.invariant:
        _final_polls(history, world)
    history.faults.extend(faults.faults)
    history.order_by_time()
    return history


def _op(number: int, operation: ClientOperation) -> Op:
    key = f"{operation.target.stream}/{operation.target.partition.index}"
    offset = operation.offset if operation.offset >= 0 else None
    if operation.kind == "send":
        epoch, leader = operation.epoch or None, operation.incarnation or None
        mops: tuple[Mop, ...] = (Mop("send", key, offset, operation.value.decode(), epoch, leader),)
    else:
        mops = tuple(Mop("poll", key, at, value.rstrip(b".").decode()) for at, value in operation.values)
    returned = operation.returned_us * NANOSECONDS_PER_US if operation.returned_us >= 0 else None
    return Op(
        number,
        NULL,
        None,
        operation.client,
        None,
        operation.kind,
        operation.outcome,
        operation.invoked_us * NANOSECONDS_PER_US,
        returned,
        operation.error or None,
        mops,
    )


def _final_polls(history: History, world: World) -> None:
    newest = world.newest_metadata()
    assert newest is not None
    now_ns = world.kernel.now_us * NANOSECONDS_PER_US
    for target in world.workload.targets:
        key = f"{target.stream}/{target.partition.index}"
        for number in newest.partitions[target.partition].replicas:
            mops = tuple(
                Mop("poll", key, record.offset, (record.value or b"").rstrip(b".").decode())
                for batch in read_copy(world, number, target.partition)
                for record in decode_records(batch)
            )
            op = Op(
                len(history),
                NULL,
                None,
                FINAL_PROCESS + number,
                f"node {number}",
                FINAL_POLL,
                "ok",
                now_ns + 1,
                now_ns + 2,
                None,
                # An empty copy is a reader, too: one that missed everything.
                mops or (Mop("poll", key),),
            )
            history.append(op)


def check_writable(path: Path) -> None:
    """Whether what `write` needs is installed, before a run is spent on it. Raises LiftlogError."""
    if path.suffix != ".jsonl":
        importlib.import_module("liftlog_jepsen.parquet")


def write(history: History, path: Path) -> None:
    """Write JSONL to a path that ends in `.jsonl`, else a Parquet folder. Raises LiftlogError."""
    try:
        if path.suffix == ".jsonl":
            from liftlog_jepsen.jsonl import write_jsonl

            write_jsonl(history, path)
        else:
            from liftlog_jepsen.parquet import write_parquet

            write_parquet(history, path)
    except OSError as error:
        raise LiftlogError(
            f"cannot write the history {path}: {error.strerror}; choose another path"
        ) from error
