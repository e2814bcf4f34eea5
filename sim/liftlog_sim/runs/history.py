"""Turns what simulated clients did into a history that `liftlog jepsen check` judges.

One send a value, with the offset that it expected and where its log ended for who was refused; a poll carries
what it returned, with what the records say of themselves and the HW that was told; of consumers there are the
facts of `workload/consumer_facts.py`, of copies those of `runs/replica_log.py`. After the run a final read
of every copy of every partition is added, one process a copy, as a real test does when its cluster is whole.
Times are simulated; order follows from them (`History.order_by_time`).
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import NamedTuple

from liftlog.format import decode_records
from liftlog.messages import ERR_EXPECTED_OFFSET, AckPublishes, RefusePublishes
from liftlog.types import LiftlogError, PartitionId
from liftlog_jepsen.history import BY_LEADER, FINAL_POLL, NULL, Fault, History, Mop, Op
from liftlog_jepsen.replicas import REPLICA
from liftlog_sim.runs.comparing import read_copy
from liftlog_sim.runs.record_facts import RecordFacts, loses
from liftlog_sim.runs.replica_log import ReplicaLog
from liftlog_sim.runs.runs import RunOptions, RunResult
from liftlog_sim.workload.operations import ClientOperation
from liftlog_sim.workload.workload import INBOX
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


class PublisherAnswer(NamedTuple):
    """One answer: when, and the offset; of a refusal the next offset, if it was said. `error`: as operations
    have it, empty for an ack of what is committed.
    """

    at_us: int
    offset: int
    error: str


class AnswerLog:
    """Notes what publishers are told, while the world runs, and before anybody judges it.

    An answer that breaks an invariant ends the run, and the operation would never hear of it.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._judge_acks = world.bus.on_acks
        self._judge_refusals = world.bus.on_refusals
        world.bus.on_acks = self._acked
        world.bus.on_refusals = self._refused
        self._refusals: dict[tuple[bytes, PartitionId, int], PublisherAnswer] = {}
        self._last: dict[tuple[bytes, PartitionId], PublisherAnswer] = {}
        """Of the last answers alone."""
        self.promised: list[tuple[PartitionId, int, int, bytes]] = []
        """Partition, offset, epoch and value of what any ack named, be it by its leader's word alone."""

    def _acked(self, acks: AckPublishes) -> None:
        self._last = {}
        error = BY_LEADER if acks.by_leader else ""
        for offset, reply in enumerate(acks.replies, acks.offsets_from):
            for place, value in enumerate(self._values(reply) if reply and not acks.duplicate else ()):
                told = PublisherAnswer(self._world.kernel.now_us, offset + place, error)
                self._note(value, acks.partition, told)
                self.promised.append((acks.partition, offset + place, acks.epoch, value))
        self._judge_acks(acks)

    def _refused(self, refusal: RefusePublishes) -> None:
        self._last = {}
        for reply in refusal.replies:
            if reply and refusal.code == ERR_EXPECTED_OFFSET:
                now_us = self._world.kernel.now_us
                for place, value in enumerate(self._values(reply)):
                    # All of a parcel are refused; of where it would have come to lie the first alone tells.
                    next_offset = -1 if place else refusal.next_offset
                    self._note(value, refusal.partition, PublisherAnswer(now_us, next_offset, refusal.code))
        self._judge_refusals(refusal)

    def _values(self, reply: bytes) -> tuple[bytes, ...]:
        """What the message with this reply subject has brought: one value, or those of a parcel."""
        name = reply[len(INBOX) :].partition(b".")[2]
        return self._world.account.parcels.of(name) or (name,)

    def _note(self, value: bytes, partition: PartitionId, told: PublisherAnswer) -> None:
        self._last[value, partition] = told
        if told.error == ERR_EXPECTED_OFFSET:
            self._refusals[value, partition, told.at_us] = told

    def ending(self, operation: ClientOperation) -> PublisherAnswer | None:
        """The refusal that ended a send, or the answer that ended the run."""
        key = operation.value, operation.target.partition
        if operation.returned_us < 0:
            return self._last.get(key)
        if operation.error == ERR_EXPECTED_OFFSET:
            return self._refusals.get((*key, operation.returned_us))
        return None


class Logs(NamedTuple):
    """What a history listens to while a world runs."""

    faults: FaultLog
    answers: AnswerLog
    replicas: ReplicaLog


def listen(world: World) -> Logs:
    """Before the world starts, and after everybody else who watches it."""
    return Logs(FaultLog(world), AnswerLog(world), ReplicaLog(world))


def history_of(world: World, options: RunOptions, result: RunResult, logs: Logs) -> History:
    """The history of a world that has run; it must have kept the values its readers saw."""
    meta = {
        "seed": str(options.seed),
        "profile": result.profile,
        "gear": options.gear,
        "trace_hash": result.trace_hash,
        "replay": result.replay,
    }
    history = History(f"sim-{options.seed}", meta)
    telling = RecordFacts(world)
    for operation in world.workload.operations:
        expected = world.workload.expectations.get(operation.value)
        told = logs.answers.ending(operation) if operation.kind == "send" else None
        if operation.kind == "create-consumer" and loses(world, operation.target):
            # What is gone was given to nobody, and a final read of a copy may have it.
            operation.facts = [fact._replace(offset=None) for fact in operation.facts]
        history.append(_op(len(history), operation, expected, told, telling))
    if not result.invariant:
        _final_polls(history, world, telling)
    names = {target.partition: target.name for target in world.workload.targets}
    for partition, offset, epoch, value in logs.answers.promised:
        if partition in names:
            telling.contents.setdefault(names[partition], {}).setdefault((offset, epoch), value.decode())
    for at_us, process, facts in logs.replicas.told(names, telling.contents):
        at_ns = at_us * NANOSECONDS_PER_US
        op = Op(
            *(len(history), NULL, None, process, None, REPLICA, "ok"), at_ns, at_ns + 1, None, tuple(facts)
        )
        history.append(op)
    history.faults.extend(logs.faults.faults)
    history.order_by_time()
    return history


def _op(
    number: int,
    operation: ClientOperation,
    expected: int | None,
    told: PublisherAnswer | None,
    telling: RecordFacts,
) -> Op:
    key = operation.target.name
    outcome, returned_us, offset = operation.outcome, operation.returned_us, operation.offset
    error = operation.error
    if told is not None and returned_us < 0:
        returned_us, error = told.at_us, told.error
        if error != ERR_EXPECTED_OFFSET:
            outcome, offset = "info" if error else "ok", told.offset
    if operation.kind == "send":
        epoch, leader = operation.epoch or None, operation.incarnation or None
        value, at = operation.value.decode(), offset if offset >= 0 else None
        mops: tuple[Mop, ...] = (Mop("send", key, at, value, epoch, leader),)
        mops += tuple(telling.of_send(operation))
        if expected is not None:
            mops += (Mop("expected", key, expected),)
        if told is not None and told.error == ERR_EXPECTED_OFFSET and told.offset >= 0:
            mops += (Mop("refused", key, told.offset),)
    elif operation.kind != "poll":
        mops = tuple(operation.facts)
    else:
        mops = tuple(telling.of_poll(operation))
    return Op(
        number,
        NULL,
        None,
        operation.client,
        None,
        operation.kind,
        outcome,
        operation.invoked_us * NANOSECONDS_PER_US,
        returned_us * NANOSECONDS_PER_US if returned_us >= 0 else None,
        error or None,
        mops,
    )


def _final_polls(history: History, world: World, telling: RecordFacts) -> None:
    newest = world.newest_metadata()
    assert newest is not None
    now_ns = world.kernel.now_us * NANOSECONDS_PER_US
    for target in world.workload.targets:
        for number in newest.partitions[target.partition].replicas:
            mops = tuple(
                mop
                for batch in read_copy(world, number, target.partition)
                for record in decode_records(batch)
                for mop in telling.of_record(target, record, batch.epoch)
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
                mops or (Mop("poll", target.name),),
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
