"""Whether whoever stores messages may: no leader of a stream that it knows to be read-only (R19), and of one
that is paused only what NATS had sent before its subscription ended (N1). And since when a stream is paused.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from liftlog.core.consumers.entries import is_consumers
from liftlog.core.metadata.records import PartitionState
from liftlog.core.metadata.subjects import foreign_to, listened_to
from liftlog.core.replica.publishing.holding import is_bounded
from liftlog.core.replica.removal import entries
from liftlog.core.replica.replica import Replica
from liftlog.format import decode_records, decode_values
from liftlog.types import Batch, PartitionId, StreamConfig
from liftlog_sim.devices.bus import SimBus
from liftlog_sim.devices.machine import Machine
from liftlog_sim.kernel import Kernel
from liftlog_sim.truth.invariants import Checks, Violation
from liftlog_sim.watching.time_to_ack import RecordedDeliveries

DONE_WITH = bytes([entries.DONE_WITH])


def may_be_written(
    checks: Checks, machine: Machine, log: PartitionId, batches: Sequence[Batch]
) -> None:
    """A leader stores these. Raises Violation if it knows that it must not, or if its partition comes to hold
    more messages than it may (C6), or they are of another subject (N10). Consumers go on where nothing is
    stored or deleted any more, and what a work queue's are done with goes (R26).
    """
    end = batches[-1].end_offset
    node = machine.node
    replica = node.replicas.get(log) if node is not None else None
    config = replica.log.config if replica is not None else None
    if replica is None or replica.roles is None or replica.leading is None or config is None:
        return
    checks.counts["ReadOnlyRefused"] += 1
    checks.counts["PausedTakesNothing"] += 1
    known = f"node {machine.number} leads {log} and stores messages, which it knows to be"
    if config.holds_most and not log.is_journal:
        checks.counts["HoldsNoMore"] += 1
        if end - replica.log.log_start - _gone(machine, replica) > config.holds_most:
            held = f"from {replica.log.log_start} to {end}"
            text = f"node {machine.number} leads {log} and stores messages until it holds those {held}"
            raise Violation("HoldsNoMore", f"{text}; its stream allows {config.holds_most}")
    if not log.is_journal:
        checks.counts["OnlyItsSubjects"] += config.more_subjects is not UNSET
        _check_subjects(machine, replica, config, batches)
    if config.read_only and not (log.is_journal and all(map(_of_consumers, batches))):
        raise Violation("ReadOnlyRefused", f"{known} read-only")
    leader = replica.roles.leader
    # Without a subscription it stores what had to wait for the last of its subject (L9), and came before.
    if config.paused and not log.is_journal and leader.subscribed and not leader.draining:
        raise Violation("PausedTakesNothing", f"{known} paused")


def _gone(machine: Machine, replica: Replica) -> int:
    """How many messages of its log a leader knows to be gone (R21)."""
    node, log = machine.node, replica.log
    journal = node.replicas.get(log.id.journal) if node is not None else None
    removed = journal.removed if journal is not None else None
    return removed.hidden(log.history).count(log.log_start, log.leo) if removed is not None else 0


def _check_subjects(
    machine: Machine, replica: Replica, config: StreamConfig, batches: Sequence[Batch]
) -> None:
    """N10. What NATS had sent before a subject was given up is stored; after that nothing of it is, but what
    had to wait for the last of its subject (L9), or until it was counted how much there is (C6).
    """
    assert replica.roles is not None
    if is_bounded(replica.log) or config.more_subjects is UNSET or replica.roles.leader.listening.giving_up:
        return
    patterns = listened_to(config, replica.log.id.index)
    for batch in batches:
        for record in decode_records(batch):
            if foreign_to(patterns, record.subject) and b"Expected-Last" not in record.headers:
                raise Violation(
                    "OnlyItsSubjects",
                    f"node {machine.number} leads {replica.log.id} and stores a message on "
                    f"{record.subject.decode()!r}; it knows that its stream listens on {' '.join(patterns)}",
                )


def _of_consumers(batch: Batch) -> bool:
    return all(is_consumers(entry) or entry[:1] == DONE_WITH for entry in decode_values(batch))


class WriteWatch:
    """What leaders append, of all of them."""

    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self._deliveries = RecordedDeliveries(checks)

    def stores(self, machine: Machine, log: PartitionId, batches: Sequence[Batch]) -> None:
        """A node appends these. Raises Violation if its leader may not."""
        may_be_written(self._checks, machine, log, batches)
        self._deliveries.stores(machine, log, batches)


class Pauses:
    """When streams were paused, as the group knows it."""

    def __init__(self, kernel: Kernel, bus: SimBus) -> None:
        self._kernel = kernel
        self._bus = bus
        self._known: dict[PartitionId, tuple[int, int]] = {}
        """Of each partition: the command that has paused its stream last, and when it was first seen."""

    def subscribed(self, state: PartitionState, config: StreamConfig) -> bool:
        """N1, N10: whether NATS has had the subscriptions of this leader, since the last pause, or the last
        time that the stream's subjects were altered, if there was one.
        """
        since_us = 0
        if state.paused_at:
            at, since_us = self._known.get(state.id, (0, 0))
            if at != state.paused_at:
                since_us = self._kernel.now_us
                self._known[state.id] = state.paused_at, since_us
        subjects = listened_to(config, state.id.index)
        return self._bus.held(state.id, state.epoch, subjects, since_us)
