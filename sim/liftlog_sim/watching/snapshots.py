"""Snapshots of the metadata group, watched at every step: SnapshotOfCommitted, SnapshotState (M1p, M1q)."""

from __future__ import annotations

from liftlog.core.raft.raft import Raft
from liftlog.types import BEGINNING, LogBase, Snapshot
from liftlog_sim.devices.machine import Machine
from liftlog_sim.truth.account import Account
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.truth.raft import RaftTruth

Known = tuple[Snapshot | None, LogBase]
"""A node's snapshot, and what its log follows."""


class SnapshotWatch:
    """What is known of each process's snapshot and of where its log begins."""

    __slots__ = ("_account", "_known", "_raft", "violation")

    def __init__(self, account: Account, raft: RaftTruth) -> None:
        self._account = account
        self._raft = raft
        self._known: dict[int, Known] = {}
        self.violation: Violation | None = None
        """The first one of SnapshotState; a node is in the middle of its step then, or not started yet."""

    def created(self, machine: Machine) -> None:
        """A process has its node, which is not started yet."""
        self._known[machine.number] = None, BEGINNING
        if machine.running.metadata.applied:
            self._account.count("starts with a snapshot")
            self._judge(machine, "starts with")

    def installed(self, machine: Machine) -> None:
        """A leader's snapshot has taken the place of what the node had applied."""
        self._account.count("snapshots installed")
        self._judge(machine, "installs")

    def _judge(self, machine: Machine, how: str) -> None:
        """What the node has now must be what all commands up to there have made."""
        account, metadata = self._account, machine.running.metadata
        account.checks.counts["SnapshotState"] += 1
        problem = account.metadata.unlike(metadata)
        if problem and self.violation is None:
            text = f"node {machine.number} {how} a snapshot of {metadata.applied} entries: {problem}"
            self.violation = Violation("SnapshotState", text)

    def look(self, machine: Machine, raft: Raft) -> LogBase:
        """After a step: what the node's log follows. Raises Violation."""
        snapshot, log = raft.snapshot, raft.raft_log
        known = self._known[machine.number]
        if snapshot is known[0] and log.start == known[1].index:
            return known[1]
        base = LogBase(log.start, log.start_term)
        account, end = self._account, snapshot.index if snapshot is not None else 0
        self._raft.based(machine.number, base, end)
        self._known[machine.number] = snapshot, base
        if snapshot is not known[0]:
            account.count("snapshots")
            account.row("snapshot", f"node {machine.number} has a snapshot of the first {end} entries")
        if base != known[1]:
            account.count("Raft logs shortened")
        return base
