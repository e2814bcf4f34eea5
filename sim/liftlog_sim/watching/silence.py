"""FencedInTime, SilentBeforeReplaced: who has lost contact to the controller is silent before anybody speaks
in his place (N2).

A leader may take messages and answer publishers until, by its own clock, the lease has passed since it *sent*
the last heartbeat that was answered. Here that is measured from what goes over the wire, not from what the
node believes. The controller sends itself no heartbeats: it is in contact as of the round of appends that a
quorum of voters has answered, once an entry of its term is committed: before, it has not applied what earlier
controllers wanted, perhaps the end of its own session, and grants nothing to anybody. Where it is the only
voter that is as long as it is in office. A process has nothing
to lose before it is confirmed, so its time begins when its incarnation is durable. Nobody ends its session
before that time is over, whatever the hints say.

A session that was never confirmed is another matter. Its registration has ended what the run before led (R1),
only confirmed nodes are elected and join, and no heartbeat of it is answered: nothing was granted, and nobody
takes over. The group may end it at any age; a slow disk can take longer over the incarnation than a session
lasts, and then the node learns both in one moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from liftlog.core.metadata.commands import ExpireNode
from liftlog.messages import (
    AppendReply,
    AppendRequest,
    Heartbeat,
    HeartbeatReply,
    PeerMessage,
    SnapshotChunk,
    SnapshotReply,
)
from liftlog.types import GroupMember, PartitionId
from liftlog_sim.truth.invariants import Checks, Violation

if TYPE_CHECKING:
    from liftlog.core.raft.raft import Raft
    from liftlog_sim.devices.machine import Machine

HEARS_CONTACT = frozenset((AppendReply, SnapshotReply, HeartbeatReply))
SAYS_CONTACT = frozenset((AppendRequest, SnapshotChunk, Heartbeat, HeartbeatReply))
"""Messages of which depends how long a process may serve (N2), or lives on for the controller (R15)."""
ROUNDS_KEPT = 256
"""Rounds and heartbeats whose sending is remembered; an answer to an older one counts for nothing."""
TOLERANCE_MS = 0.1


class ProcessContact:
    """The contact of one process, by the node's own monotonic clock."""

    __slots__ = (
        "_answered",
        "_checks",
        "_heartbeats",
        "_lease_ms",
        "_machine",
        "_rounds",
        "_since_ms",
        "_term",
        "unsettled",
    )

    def __init__(self, machine: Machine, checks: Checks) -> None:
        self._machine = machine
        self._checks = checks
        self._lease_ms = machine.knobs.node_config(machine.number).lease_ms
        self._since_ms = 0.0
        self._heartbeats: dict[int, float] = {}
        self._rounds: dict[int, float] = {}
        self._answered: dict[GroupMember, float] = {}
        """By who has answered: the node, on the disk that it has."""
        self._term = 0
        self.unsettled = False
        """Whether voters have answered since it was weighed what that is worth, or there is no other voter;
        nothing else changes that.
        """

    def begin(self) -> None:
        """The incarnation is durable."""
        self._since_ms = self._machine.clock.monotonic_ms()

    def sent(self, message: PeerMessage) -> None:
        """Something has left the node."""
        if self.unsettled:
            self.settle()
        if type(message) is Heartbeat:
            self._note(self._heartbeats, message.sequence)
        elif isinstance(message, (AppendRequest, SnapshotChunk)):
            if message.term != self._term:
                self._term = message.term
                self._rounds.clear()
                self._answered.clear()
                self.unsettled = True
            self._note(self._rounds, message.round)

    def _note(self, times: dict[int, float], number: int) -> None:
        if number not in times:
            times[number] = self._machine.clock.monotonic_ms()
            if len(times) > ROUNDS_KEPT:
                del times[next(iter(times))]

    def heard(self, sender: int, message: PeerMessage) -> None:
        """Something has reached the node."""
        if self.unsettled:
            self.settle()
        if type(message) is HeartbeatReply:
            node = self._machine.node
            if node is not None and message.incarnation == node.incarnation:
                self._since_ms = max(self._since_ms, self._heartbeats.get(message.sequence, 0.0))
        elif isinstance(message, (AppendReply, SnapshotReply)) and self._counts(message):
            at_ms = self._rounds.get(message.round, 0.0)
            member = GroupMember(sender, message.disk)
            if at_ms > self._answered.get(member, 0.0):
                self._answered[member] = at_ms
                self.unsettled = True

    def _counts(self, reply: AppendReply | SnapshotReply) -> bool:
        return reply.counts and reply.term == self._term

    def settle(self) -> None:
        """What voters have answered counts for a controller in office."""
        node = self._machine.node
        if node is None or node.raft.term != self._term or node.raft.leadership is None:
            return
        if node.raft.leadership.in_office:
            raft = node.raft
            self.unsettled = raft.members.voters == (raft.member,)
            self._since_ms = max(self._since_ms, self._as_controller(raft))

    def check(self, what: str) -> None:
        """The process takes or answers something as a leader. Raises Violation if that is too late."""
        machine = self._machine
        self._checks.counts["FencedInTime"] += 1
        self.settle()
        now_ms = machine.clock.monotonic_ms()
        silent_ms = 0.0 if machine.knobs.nodes == 1 else now_ms - self._since_ms
        limit_ms = self._lease_ms
        if silent_ms > limit_ms + TOLERANCE_MS:
            text = f"node {machine.number} {what} {silent_ms:.1f} ms after its last contact to the controller"
            raise Violation("FencedInTime", f"{text}; {limit_ms} ms were granted")

    def granted_ms(self) -> float:
        """How long the process may still serve by what it was granted; at most 0 if that is over."""
        return self._lease_ms - (self._machine.clock.true_ms() - self._since_ms)

    def _as_controller(self, raft: Raft) -> float:
        """When the newest round was sent that a quorum of the configuration has answered in this term, the
        controller included if it is one of the voters.
        """
        voters = raft.members.voters
        others = len(voters) // 2 + 1 - (raft.member in voters)
        if not others:
            return self._machine.clock.monotonic_ms()
        times = [at_ms for voter, at_ms in self._answered.items() if voter in voters]
        if len(times) < others:
            return 0.0
        times.sort(reverse=True)
        return times[others - 1]


class Contacts:
    """The contact of every running process."""

    __slots__ = ("_checks", "_contacts", "_ended", "violation")

    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self._contacts: dict[int, ProcessContact] = {}
        self._ended = 0
        self.violation: Violation | None = None
        """The first session that ended too soon; a node is in the middle of its step then."""

    def session_ended(self, machine: Machine, index: int, command: ExpireNode) -> None:
        """SilentBeforeReplaced: somebody is the first to apply that the session of `machine` has ended."""
        if index <= self._ended:
            return
        self._ended = index
        if command.since == command.incarnation:
            return  # As it began with the registration: never confirmed.
        node = machine.node
        if node is None or not node.incarnation or node.incarnation != command.incarnation:
            return
        self._checks.counts["SilentBeforeReplaced"] += 1
        left_ms = self._contacts[machine.number].granted_ms()
        if left_ms > TOLERANCE_MS and self.violation is None:
            text = f"the session of node {machine.number} ends, and others take over, {left_ms:.1f} ms before"
            self.violation = Violation("SilentBeforeReplaced", f"{text} what it was granted has run out")

    def of(self, machine: Machine) -> ProcessContact:
        return self._contacts[machine.number]

    def began(self, machine: Machine) -> None:
        """A new process: what another one heard does not count."""
        self._contacts[machine.number] = ProcessContact(machine, self._checks)

    def appends(self, machine: Machine, log: PartitionId) -> None:
        """A leader's log grows by messages. Raises Violation if it should be silent."""
        replica = machine.node.replicas.get(log) if machine.node is not None else None
        if replica is not None and replica.leading is not None:
            self._contacts[machine.number].check(f"takes messages to {log}")
