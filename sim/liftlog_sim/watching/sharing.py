"""Streams of one queue group: no two of them store one message (N11)."""

from __future__ import annotations

from collections.abc import Sequence

from liftlog.format import decode_values
from liftlog.types import Batch, PartitionId
from liftlog_sim.devices.machine import Machine
from liftlog_sim.truth.invariants import Checks, Violation


class SharedMessages:
    """Which stream has which message, of all that leaders have stored in streams of queue groups."""

    def __init__(self, checks: Checks) -> None:
        self._counts = checks.counts
        self._stored: dict[tuple[str, bytes], int] = {}

    def stored(self, machine: Machine, log: PartitionId, batches: Sequence[Batch]) -> None:
        """A leader stores these. Raises Violation(OneOfGroup)."""
        node = machine.node
        replica = node.replicas.get(log) if node is not None else None
        config = replica.log.config if replica is not None else None
        if replica is None or replica.leading is None or log.is_journal or config is None:
            return
        group = config.shares_in
        if not group:
            return
        self._counts["OneOfGroup"] += 1
        for batch in batches:
            for value in decode_values(batch):
                other = self._stored.setdefault((group, value), log.stream) if value else log.stream
                if other != log.stream:
                    what = f"node {machine.number} leads {log} and stores {value.rstrip(b'.').decode()}"
                    text = f"{what}, which stream {other} of queue group {group!r} has stored"
                    raise Violation("OneOfGroup", text)
