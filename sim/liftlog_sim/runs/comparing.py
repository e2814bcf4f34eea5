"""Compares the replicas of a world that has healed: with one another, with the truth, and with what was
promised.

Copies of a stream that is not compacted hold the same records from the later of their starts on; batches may
end elsewhere, since a cut or a repair may divide one. Compacted ones hold the same values: each replica
compacts on its own (C5), so that one may still have what another has dropped. Every acknowledged value is at
the acknowledged offset, unless it was superseded, deleted, retained away or purged.
"""

from __future__ import annotations

from typing import Any

from liftlog.core.metadata.records import PartitionState
from liftlog.format import PREFIX_BYTES, decode_records
from liftlog.messages import LogRead, ReadLog
from liftlog.types import Batch, PartitionId, Record
from liftlog_sim.truth.contents import fold
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.truth.lasts import LastsJudge
from liftlog_sim.truth.letters import is_letter
from liftlog_sim.workload.workload import INBOX
from liftlog_sim.world import World

FINAL_READ_BYTES = 1 << 30

Decoded = tuple[Batch, list[Record]]
"""A batch with its records."""


def compare_copies(world: World) -> None:
    """Read every copy of every partition through its storage engine. Raises Violation."""
    newest = world.newest_metadata()
    assert newest is not None
    for partition, state in newest.partitions.items():
        if newest.by_id[partition.stream].config.has_journal:
            _compare_journals(world, partition.journal, state)
        compact = world.observer.compacting.policy_of(partition) is not None
        copies: list[list[Decoded]] = []
        known: dict[bytes, list[Record]] = {}
        for number in state.replicas:
            world.observer.checks.counts["ReplicasEqual"] += 1
            copies.append([_decoded(batch, known) for batch in read_copy(world, number, partition)])
        if compact:
            _compare_values(world, state, copies)
        else:
            _compare_records(state, copies, _furthest(world, state, partition))
        _check_strange(world, partition)
        _check_expected(world, partition)
        _check_lasts(world, partition)
        lost = world.observer.truth(partition).acked_in_the_end()
        if lost:
            world.account.count("records lost that had a leader's word alone", lost)
        for number, copy in zip(state.replicas, copies, strict=True):
            _check_acked(world, number, partition, copy)


def _compare_journals(world: World, journal: PartitionId, state: PartitionState) -> None:
    copies = []
    for number in state.replicas:
        world.observer.checks.counts["ReplicasEqual"] += 1
        copies.append([(batch, decode_records(batch)) for batch in read_copy(world, number, journal)])
    _compare_records(state, copies, _furthest(world, state, journal))


def _decoded(batch: Batch, known: dict[bytes, list[Record]]) -> Decoded:
    """Most batches are the same bytes on all replicas, but for the prefix (D1), and are decoded once."""
    content = batch.data[PREFIX_BYTES:]
    records = known.get(content)
    if records is None:
        records = known[content] = decode_records(batch)
    return batch, records


def _sent(record: Record) -> bytes:
    """The value of the message that a client has sent; a dead letter was sent by nobody."""
    return b"" if is_letter(record) else (record.value or b"").rstrip(b".")


def _check_strange(world: World, partition: PartitionId) -> None:
    """No message was committed that asks for what is not done here (L4). HeadersHeeded."""
    world.observer.checks.counts["HeadersHeeded"] += 1
    for offset, record in enumerate(world.observer.truth(partition).contents.committed):
        if record is not None and _sent(record) in world.workload.strange:
            raise Violation(
                "HeadersHeeded",
                f"partition {partition}: offset {offset} holds a message with headers "
                f"{record.headers!r}, which is not done here",
            )


def _check_expected(world: World, partition: PartitionId) -> None:
    """What expected an offset lies there, in streams that answer nobody as well (L6). StoredAsExpected. A
    copy of it has an offset of its own (R29).
    """
    if partition.stream in world.account.metadata.sources:
        return
    expectations = world.workload.expectations
    for offset, record in enumerate(world.observer.truth(partition).contents.committed):
        if record is not None and expectations:
            value = _sent(record)
            if expectations.get(value, offset) != offset:
                raise Violation(
                    "StoredAsExpected",
                    f"partition {partition}: {value.decode()} lies at offset {offset}, "
                    f"and it expected {expectations[value]}",
                )


def _check_lasts(world: World, partition: PartitionId) -> None:
    """What expected a last record of a subject lies behind that, in streams that answer nobody as well (L9).
    StoredAsExpected.
    """
    truth = world.observer.truth(partition)
    newest = world.newest_metadata()
    stream = newest.by_id.get(partition.stream) if newest is not None else None
    lasts = world.workload.lasts
    if not lasts or stream is None or not stream.config.retention.unlimited:
        return
    if truth.purge_asked > truth.first:
        return
    if stream.config.mirrors or partition.stream in world.account.metadata.sources:
        return  # It has been judged at the origin.
    if stream.config.activity is True:
        return  # Nobody has published it.
    if world.account.deletions(partition).frees:
        return  # It lost its front, and what lies below the log start is no record.
    judge = LastsJudge(truth.contents, 0, stream.config.compact)
    if stream.config.has_journal:
        judge = judge._replace(deleted=world.account.deletions(partition).end_of)
    for offset, record in enumerate(truth.contents.committed):
        expected = lasts.get(_sent(record)) if record is not None else None
        problem = judge.stored(expected, offset) if expected is not None else ""
        if problem:
            raise Violation("StoredAsExpected", f"partition {partition}: offset {offset} was stored{problem}")


def read_copy(world: World, number: int, partition: PartitionId) -> list[Batch]:
    """All batches of a replica, as its storage engine reads them."""
    machine = world.machines[number]
    assert machine.engine is not None and machine.node is not None
    replica = machine.node.replicas[partition]
    batches: list[Batch] = []
    position = replica.log_start
    while position < replica.leo:
        job = ReadLog(partition, 0, position, replica.leo, FINAL_READ_BYTES)
        events: list[Any] = machine.engine.write([job])
        found = [event for event in events if isinstance(event, LogRead)]
        if not found or found[0].error or not found[0].batches:
            error = found[0].error if found else "no answer"
            raise Violation(
                "ReplicasEqual", f"node {number} cannot read {partition} from {position} on: {error}"
            )
        batches.extend(found[0].batches)
        position = batches[-1].end_offset
    return batches


def _furthest(world: World, state: PartitionState, log: PartitionId) -> int:
    """Where that copy begins which begins last: retention may have left nothing in it."""
    nodes = [world.machines[number].node for number in state.replicas]
    return max(node.replicas[log].log_start for node in nodes if node is not None)


def _compare_records(state: PartitionState, copies: list[list[Decoded]], start: int) -> None:
    """The same records from the latest of the starts on, in the same epochs."""
    first = _records(copies[0], start)
    for number, copy in zip(state.replicas[1:], copies[1:], strict=True):
        if _records(copy, start) != first:
            raise Violation(
                "ReplicasEqual",
                f"partition {state.id} differs between nodes {state.replicas[0]} and {number}",
            )


def _records(copy: list[Decoded], start: int) -> list[tuple[int, Record]]:
    return [(batch.epoch, record) for batch, records in copy for record in records if record.offset >= start]


def _compare_values(world: World, state: PartitionState, copies: list[list[Decoded]]) -> None:
    """Each copy against the truth, then all against each other. NoResurrection."""
    truth = world.observer.truth(state.id)
    values: list[dict[bytes, Record]] = []
    start = 0
    end = truth.hw
    for number in state.replicas:
        machine = world.machines[number]
        assert machine.node is not None
        replica = machine.node.replicas[state.id]
        world.observer.compacting.judge(machine, state.id)
        start = max(start, replica.log_start)
        end = min(end, replica.hw)
    for copy in copies:
        last = fold([record for _, records in copy for record in records], start, end)
        values.append({key: record for key, record in last.items() if record.value is not None})
    for number, found in zip(state.replicas[1:], values[1:], strict=True):
        if found != values[0]:
            keys = sorted(key for key in {**found, **values[0]} if found.get(key) != values[0].get(key))
            raise Violation(
                "NoResurrection",
                f"partition {state.id}: nodes {state.replicas[0]} and {number} have other values of {keys}",
            )


def _check_acked(world: World, number: int, partition: PartitionId, copy: list[Decoded]) -> None:
    """Every acknowledged value is there, at its offset, unless it may be gone. NoAckedRecordLost."""
    world.observer.checks.counts["NoAckedRecordLost"] += 1
    contents = world.observer.truth(partition).contents
    node = world.machines[number].node
    assert node is not None
    start = node.replicas[partition].log_start
    compact = world.observer.compacting.policy_of(partition) is not None
    found = {record.offset: record for _, records in copy for record in records}
    for offset, value in world.workload.acked.get(partition, {}).items():
        record = found.get(offset)
        if record is None and (offset < start or (compact and contents.may_be_missing(offset))):
            continue
        if record is None or value_of(record) != value:
            text = b"nothing" if record is None else value_of(record)
            raise Violation(
                "NoAckedRecordLost",
                f"partition {partition}: {value.decode()} was acknowledged at offset {offset}, "
                f"where node {number} has {text.decode()}",
            )


def value_of(record: Record) -> bytes:
    """The unique name of a message: its reply subject tells it also where a tombstone has no value."""
    if record.reply.startswith(INBOX):
        return record.reply[len(INBOX) :].partition(b".")[2]
    return (record.value or b"").rstrip(b".")
