"""Commands on their way to the metadata group (M3).

Whoever wants a change of the cluster's state submits a command here. It is sent to the controller, again and
again, until this node sees it applied; the request id makes the repetition harmless. Since every node applies
every command, nobody has to answer: the outcome is read off this node's own copy of the metadata.

Bounded: at most `raft_inflight_proposals_max` commands wait here; more are refused at once.
"""

from __future__ import annotations

from liftlog.core.commands import (
    Command,
    ExpireNode,
    ExpireReports,
    LeaveNode,
    ReportLeader,
    RequestId,
    Resign,
    decode_command,
    encode_command,
)
from liftlog.core.context import Context
from liftlog.core.raft import Raft
from liftlog.messages import Forward, Send

REPEAT_TICKS = 5
PERISHABLE = (ExpireNode, ExpireReports, LeaveNode, ReportLeader, Resign)
"""Commands that say what was true a moment ago: whoever needs them later submits new ones."""
PERISH_MS = 2000


class Pending:
    __slots__ = ("age_ticks", "data", "perishable")

    def __init__(self, data: bytes, perishable: bool) -> None:
        self.data = data
        self.perishable = perishable
        self.age_ticks = 0


class Proposals:
    """The commands that this node waits for, and as controller those of others that are in its log."""

    __slots__ = ("ctx", "in_log", "pending", "raft", "term")

    def __init__(self, ctx: Context, raft: Raft) -> None:
        self.ctx = ctx
        self.raft = raft
        self.pending: dict[RequestId, Pending] = {}
        self.in_log: dict[RequestId, int] = {}
        self.term = 0

    def submit(self, command: Command) -> bool:
        """False if too many commands wait already (L3)."""
        if len(self.pending) >= self.ctx.config.raft_inflight_proposals_max:
            self.ctx.mark("L3.proposals-full")
            return False
        waiting = Pending(encode_command(command), isinstance(command, PERISHABLE))
        self.pending[command.request] = waiting
        self._send(waiting.data)
        return True

    def _send(self, data: bytes) -> None:
        if self.raft.is_leader:
            self.on_forward(data)
        elif self.raft.leader:
            self.ctx.effects.append(Send(self.raft.leader, Forward(data)))

    def on_forward(self, data: bytes) -> None:
        """As controller: put a command into the log, once a term."""
        if not self.raft.is_leader:
            return
        if self.raft.term != self.term:
            self.term = self.raft.term
            self.in_log.clear()
        request = decode_command(data).request
        if request in self.in_log or request in self.ctx.metadata.results:
            self.ctx.mark("M3.repeat")
            return
        index = self.raft.propose(data)
        if index is not None:
            self.in_log[request] = index

    def applied(self, command: Command) -> None:
        self.pending.pop(command.request, None)
        self.in_log.pop(command.request, None)

    def withdraw(self, request: RequestId) -> None:
        """Stop repeating; it may be applied all the same."""
        self.pending.pop(request, None)

    def tick(self) -> None:
        perish = self.ctx.ticks_of(PERISH_MS)
        gone: list[RequestId] = []
        for request, waiting in self.pending.items():
            waiting.age_ticks += 1
            if waiting.perishable and waiting.age_ticks > perish:
                gone.append(request)
            elif waiting.age_ticks % REPEAT_TICKS == 0:
                self._send(waiting.data)
        for request in gone:
            del self.pending[request]
