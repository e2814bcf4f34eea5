"""TimeToAck: what is being recorded leaves before its message is due again, or is given up (K4).

A delivery that is not the first one leaves when its record is committed. So while its leader does not know
that to be so, nobody can have acked it, and no time to ack is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from liftlog.core.consumers.entries import AT_LIMIT, Dead, Delivered, Done, decode_entry, is_consumers
from liftlog.format import decode_records
from liftlog.messages import offsets_of
from liftlog.types import Batch, PartitionId
from liftlog_sim.devices.machine import Machine
from liftlog_sim.truth.invariants import Checks, Violation

Recorded = dict[tuple[int, int], int]
"""By (consumer, offset): where the newest record ends that a delivery had to wait for."""


class RecordedDeliveries:
    """Of all leaders."""

    __slots__ = ("_checks", "_recorded")

    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self._recorded: dict[tuple[PartitionId, int], tuple[tuple[int, int], Recorded]] = {}
        """By journal and node: (run, epoch), and what its leader has recorded in it."""

    def stores(self, machine: Machine, log: PartitionId, batches: Sequence[Batch]) -> None:
        """A node appends these. Raises Violation."""
        node = machine.node
        replica = node.replicas.get(log) if node is not None and log.is_journal else None
        if replica is None or replica.leading is None:
            return
        office = machine.restarts, replica.epoch
        known = self._recorded.get((log, machine.number))
        if known is None or known[0] != office:
            known = self._recorded[log, machine.number] = office, {}
        recorded = known[1]
        for batch in batches:
            for record in decode_records(batch):
                if is_consumers(record.value or b""):
                    self._look(machine, log, record.offset + 1, record.value or b"", recorded, replica.hw)

    def _look(
        self, machine: Machine, log: PartitionId, end: int, data: bytes, recorded: Recorded, hw: int
    ) -> None:
        for consumer, offset, count in _ends(data):
            self._checks.counts["TimeToAck"] += 1
            before = recorded.get((consumer, offset), 0)
            if before > hw:
                said = f"is delivered for the {count}th time" if count else "is given up"
                raise Violation(
                    "TimeToAck",
                    f"partition {log.partition}: node {machine.number} writes at {end} of the journal that "
                    f"offset {offset} of consumer {consumer} {said}; its delivery that is recorded at "
                    f"{before} has not left: the leader knows {hw} to be committed",
                )
            if count > 1:  # The first one may leave before its record.
                recorded[consumer, offset] = end


def _ends(data: bytes) -> Iterator[tuple[int, int, int]]:
    """(consumer, offset, count) of what an entry says to be delivered; count 0: to be given up."""
    entry = decode_entry(data)
    if isinstance(entry, Delivered):
        for first, length, count in entry.runs:
            for offset in range(first, first + length):
                yield entry.consumer, offset, count
    elif isinstance(entry, Done | Dead) and entry.how == AT_LIMIT:
        for offset in offsets_of(entry.runs):
            yield entry.consumer, offset, 0
