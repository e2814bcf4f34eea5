"""ReadsBounded: a disk that stands still does not gather reads without end (L3).

Counted from what the node hands to its storage and what that answers, not from the node's own bookkeeping;
the node is asked only for whom a read is. A follower has one read of a log at a time, and one of a damaged
range: whoever asks again gets no second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from liftlog.messages import (
    AskSubjects,
    LogRead,
    LookupTime,
    RangeFetch,
    ReadLog,
    SubjectsFolded,
    SubjectsTold,
    TimeFound,
)
from liftlog.types import PartitionId
from liftlog_sim.truth.invariants import Checks, Violation

if TYPE_CHECKING:
    from liftlog_sim.devices.machine import Machine

READS = (ReadLog, LookupTime, AskSubjects)
ANSWERS = (TimeFound, SubjectsTold, SubjectsFolded)
"""To questions that are no reads of records; `LogRead` answers those."""

_Asked = ReadLog | LookupTime | AskSubjects
_Answered = LogRead | TimeFound | SubjectsTold | SubjectsFolded
_Follower = tuple[PartitionId, int, bool]
"""Whose read of which log; of a damaged range, or of what comes next."""
FOLLOWER_READS = 2
"""A follower reads what comes next and, in a damaged log, what it lacks."""
OWN_READS = 1
"""A leader reads which message ids its log has (L7)."""


class WaitingReads:
    """The reads of every running process that its storage has not answered."""

    __slots__ = ("_checks", "_followers", "_of_log", "_reads")

    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self._reads: dict[int, dict[int, PartitionId]] = {}
        self._of_log: dict[tuple[int, PartitionId], int] = {}
        self._followers: dict[int, dict[_Follower, int]] = {}

    def began(self, machine: Machine) -> None:
        """A new process; nothing waits."""
        self._followers.pop(machine.number, None)
        for log in self._reads.pop(machine.number, {}).values():
            self._of_log.pop((machine.number, log), None)

    def asked(self, machine: Machine, job: _Asked) -> None:
        """One more. Raises Violation if that is one too many."""
        assert machine.node is not None
        config = machine.node.config
        self._checks.counts["ReadsBounded"] += 1
        reads = self._reads.setdefault(machine.number, {})
        reads[job.request] = job.log
        key = (machine.number, job.log)
        of_log = self._of_log[key] = self._of_log.get(key, 0) + 1
        others = len(config.voters) + len(config.learners) - 1
        most = min(config.disk_reads_max, config.log_reads_max + FOLLOWER_READS * others + OWN_READS)
        if len(reads) > config.disk_reads_max or of_log > most:
            text = f"{len(reads)} reads wait for the disk of node {config.node}, {of_log} of {job.log}"
            raise Violation("ReadsBounded", f"{text}; {config.disk_reads_max} and {most} are allowed")
        self._for_follower(machine, job, reads)

    def _for_follower(self, machine: Machine, job: _Asked, reads: dict[int, PartitionId]) -> None:
        replica = machine.node.replicas.get(job.log) if machine.node is not None else None
        roles = replica.roles if replica is not None else None
        found = roles.serving.reads.get(job.request) if roles is not None else None
        if found is None:
            return
        follower = (job.log, found[0], isinstance(found[1], RangeFetch))
        of_node = self._followers.setdefault(machine.number, {})
        if of_node.get(follower) in reads:
            text = f"node {machine.number} reads {job.log} for node {found[0]}, for which it does already"
            raise Violation("ReadsBounded", text)
        of_node[follower] = job.request

    def answered(self, machine: Machine, event: _Answered) -> None:
        log = self._reads.get(machine.number, {}).pop(event.request, None)
        if log is not None:
            self._of_log[machine.number, log] -= 1
