"""RetentionKeeps: what a leader lets go by its policy, and by no purge, is no more than that allows (C3).

A copy's log start moves for other reasons too: a purge, the leader's word, a reset. So a move is judged only
if retention was what was asked of storage last, and from where the log began then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from liftlog.messages import LogStartMoved, RetainLog
from liftlog.types import PartitionId
from liftlog_sim.devices.copies import segment_paths
from liftlog_sim.truth.invariants import Checks, PartitionTruth, Violation
from liftlog_sim.truth.removals import DeletionTruth

if TYPE_CHECKING:
    from liftlog_sim.devices.machine import Machine


class _Asked(NamedTuple):
    run: int
    start: int
    job: RetainLog


class Retaining:
    """The retention that each copy was asked for last and has not answered."""

    __slots__ = ("_asked", "_checks")

    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self._asked: dict[tuple[int, PartitionId], _Asked] = {}

    def asked(self, machine: Machine, job: RetainLog) -> None:
        replica = machine.node.replicas.get(job.log) if machine.node is not None else None
        if replica is not None:
            self._asked[machine.number, job.log] = _Asked(machine.restarts, replica.log_start, job)

    def otherwise(self, machine: Machine, log: PartitionId) -> None:
        """The log start is to move for another reason."""
        self._asked.pop((machine.number, log), None)

    def moved(
        self,
        machine: Machine,
        event: LogStartMoved,
        truth: PartitionTruth,
        deletions: Callable[[PartitionId], DeletionTruth],
    ) -> None:
        """Storage has answered. `deletions`: what is gone of a partition (R25). Raises Violation."""
        asked = self._asked.pop((machine.number, event.log), None)
        replica = machine.node.replicas.get(event.log) if machine.node is not None else None
        if asked is None or asked.run != machine.restarts or replica is None:
            return
        if event.log_start <= max(asked.start, truth.purge_asked):
            return
        self._checks.counts["RetentionKeeps"] += 1
        start = max(asked.start, min(asked.job.gone_below, event.log_start))
        shown = deletions(event.log).shown_in(asked.start, start) if start > asked.start else []
        if shown:
            text = f"offsets {shown} below {asked.job.gone_below} went and were not gone"
            raise Violation("RetentionKeeps", f"partition {event.log}, copy of {machine.number}: {text}")
        left_bytes = sum(len(machine.disk.content(path)) for path in segment_paths(machine.disk, event.log))
        problem = truth.contents.judge_retention(
            (start, event.log_start), asked.job.limit, left_bytes, asked.job.policy, asked.job.now_ms
        )
        if problem:
            raise Violation("RetentionKeeps", f"partition {event.log}, copy of {machine.number}: {problem}")
