"""What a simulated run tells of its subjects as registers with compare-and-set (L9).

Clients' own sends and answers, and the log as it is in the end. Only logs from which nothing goes: where a
record leaves, a register is empty again that nobody has emptied.
"""

from __future__ import annotations

from liftlog.types import PartitionId
from liftlog_jepsen.events import Operation
from liftlog_jepsen.registers import LogRecord, SubjectSend, registers_of
from liftlog_sim.runs.comparing import value_of
from liftlog_sim.world import World


def registers_in(world: World) -> dict[str, list[Operation]]:
    """By partition and subject. The world must have kept what its clients did."""
    found: dict[str, list[Operation]] = {}
    for target in world.workload.targets:
        config, truth = target.config, world.observer.truth(target.partition)
        purged = truth.purge_asked > truth.first
        if config.compact or purged or not config.retention.unlimited:
            continue
        there = {
            offset: LogRecord(record.subject.decode(), value_of(record).decode())
            for offset, record in enumerate(truth.contents.committed)
            if record is not None
        }
        done = [*_sends(world, target.partition), *_gets(world, target.partition)]
        for subject, operations in registers_of(done, there).items():
            found[f"{target.name} {subject}"] = operations
    return found


def _gets(world: World, partition: PartitionId) -> list[SubjectSend]:
    """What was got of JetStream's doors: as of who has sent nothing, and was told what is there."""
    return [
        SubjectSend(
            "",
            got.subject.decode(),
            got.asked_us,
            got.told_us,
            "info",
            told=got.last,
            compared=got.subject.decode(),
        )
        for got in world.workload.jetstream.gets
        if got.target.partition == partition
    ]


def _sends(world: World, partition: PartitionId) -> list[SubjectSend]:
    workload, sends = world.workload, []
    for one in workload.operations:
        if one.kind != "send" or one.target.partition != partition or one.outcome == "fail":
            continue
        expected = workload.lasts.get(one.value)
        sends.append(
            SubjectSend(
                one.value.decode(),
                workload.sent_on.get(one.value, one.target.subject).decode(),
                one.invoked_us,
                one.returned_us if one.returned_us >= 0 else None,
                one.outcome,
                expected.last if expected is not None else None,
                workload.last_told.get(one.value),
                expected.subject.decode() if expected is not None else "",
            )
        )
    return sends
