"""Whether whoever stores messages may: no leader of a stream that it knows to be read-only (R19)."""

from __future__ import annotations

from liftlog.types import PartitionId
from liftlog_sim.devices.machine import Machine
from liftlog_sim.truth.invariants import Violation


def may_be_written(machine: Machine, log: PartitionId) -> bool:
    """Whether that was to be asked: a leader stores. Raises Violation if it knows that it must not."""
    node = machine.node
    replica = node.replicas.get(log) if node is not None else None
    config = replica.log.config if replica is not None else None
    if replica is None or replica.leading is None or config is None:
        return False
    if config.read_only:
        text = f"node {machine.number} leads {log} and stores messages, which it knows to be read-only"
        raise Violation("ReadOnlyRefused", text)
    return True
