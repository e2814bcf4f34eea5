"""WholeSessions: nobody loses a session that he has not been silent for (R15).

A session begins when the group takes a node in or has its confirmation, and every heartbeat that the
controller answers renews it. The controller may end it when the session timeout has passed since, by its own
clock; or the lease and its margin, if it was told since that nobody listens there. A controller that goes by
what was before that, the silence of the node's last run say, takes every node that comes back out of the
cluster once more. No record is lost by that, and when all is healed nothing is left of it, so that no other
invariant sees it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from liftlog.core.metadata.commands import Command, ConfirmNode, ExpireNode, RegisterNode
from liftlog.core.metadata.records import CommandResult
from liftlog.messages import HeartbeatReply, PeerLost, Send
from liftlog_sim.truth.invariants import Checks, Violation

if TYPE_CHECKING:
    from liftlog_sim.devices.machine import Machine

TOLERANCE_MS = 0.1


class WatchedSession:
    """One session as one process knows it. `answered`: it has renewed it, as controller. `hinted`: it was
    told that nobody listens there.
    """

    __slots__ = ("answered", "begun_ms", "hinted", "since")

    def __init__(self, since: int, begun_ms: float, hinted: bool) -> None:
        self.since = since
        self.begun_ms = begun_ms
        self.answered = False
        self.hinted = hinted


class WholeSessions:
    """When each session began or was last renewed, by the clock of each process that has applied it."""

    __slots__ = ("_checks", "_processes", "_sessions", "violation")

    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self._sessions: dict[int, dict[int, WatchedSession]] = {}
        """Process -> node -> its session."""
        self._processes: dict[int, int] = {}
        """By the nonce of the one that a machine runs: its machine."""
        self.violation: Violation | None = None
        """The first one; a node is in the middle of its step then."""

    def created(self, machine: Machine) -> None:
        """A new process knows of no session."""
        self._sessions[machine.number] = {}
        others = [(nonce, number) for nonce, number in self._processes.items() if number != machine.number]
        self._processes = dict([*others, (machine.running.ctx.nonce, machine.number)])

    def applied(self, machine: Machine, index: int, command: Command, result: CommandResult) -> None:
        """A process has applied a command."""
        if result.code:
            return
        sessions = self._sessions[machine.number]
        if isinstance(command, RegisterNode | ConfirmNode):
            hinted = command.node in machine.running.ctx.hints
            sessions[command.node] = WatchedSession(index, machine.clock.monotonic_ms(), hinted)
        elif isinstance(command, ExpireNode) and command.node in sessions and self.violation is None:
            session = sessions[command.node]
            # Others may have heard late that it began.
            own = command.request.start == machine.running.ctx.nonce
            if session.since == command.since and (session.answered or own):
                self._judge(machine, command.node, session, session.hinted or self._was_hinted(command))

    def _was_hinted(self, command: ExpireNode) -> bool:
        """Whether the controller that ended the session had a hint, which another one that had renewed it
        may not have had; of a process that is gone nobody knows.
        """
        author = self._processes.get(command.request.start)
        session = self._sessions[author].get(command.node) if author is not None else None
        return session is None or session.hinted

    def hinted(self, machine: Machine, event: PeerLost) -> None:
        """A hint makes a session shorter."""
        session = self._sessions[machine.number].get(event.peer)
        if session is not None:
            session.hinted = True

    def sent(self, machine: Machine, effect: Send) -> None:
        """An answered heartbeat renews."""
        if type(effect.message) is HeartbeatReply:
            session = self._sessions[machine.number].get(effect.to)
            if session is not None:
                session.begun_ms = machine.clock.monotonic_ms()
                session.answered = True
                session.hinted = False

    def _judge(self, machine: Machine, node: int, session: WatchedSession, hinted: bool) -> None:
        self._checks.counts["WholeSessions"] += 1
        knobs = machine.knobs
        config = knobs.node_config(machine.number)
        timeout_ms = config.session_timeout_ms
        if hinted:
            timeout_ms = config.lease_ms + config.fence_margin_ms
        lasted_ms = machine.clock.monotonic_ms() - session.begun_ms
        # The next controller measures by its own clock.
        if lasted_ms < timeout_ms * (1 - 4 * knobs.clock_drift) - TOLERANCE_MS:
            self.violation = Violation(
                "WholeSessions",
                f"the session of node {node} was ended {lasted_ms:.1f} ms after it began or node "
                f"{machine.number} renewed it; the timeout is {timeout_ms} ms",
            )
