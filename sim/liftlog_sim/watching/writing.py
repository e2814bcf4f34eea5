"""Whether whoever stores messages may: no leader of a stream that it knows to be read-only (R19), and of one
that is paused only what NATS had sent before it heard of that (N1).
"""

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


def may_be_taken(machine: Machine, log: PartitionId) -> bool:
    """Whether that was to be asked: a leader stores. Raises Violation if its stream is paused, as it knows,
    and its subscription is not one that just ends.
    """
    node = machine.node
    replica = node.replicas.get(log) if node is not None else None
    config = replica.log.config if replica is not None else None
    if replica is None or replica.roles is None or config is None:
        return False
    if config.is_paused and not replica.roles.leader.draining:
        text = f"node {machine.number} leads {log} and stores messages, which it knows to be paused"
        raise Violation("PausedTakesNothing", text)
    return True
