"""What the controller (the Raft leader) watches: sessions of nodes and ages of reports (R15).

The metadata state machine reads no clock. Time enters here, as ticks counted on the controller, and leaves as
commands with preconditions: by the time one is applied, an expired node that has come back has another
incarnation or has been confirmed again, and the command means nothing.

A node that has just become controller grants every node a whole session anew, and so does every controller
to a node whose session begins: what went before, an expiry say, is of another session.
"""

from __future__ import annotations

from liftlog.core.context import Context
from liftlog.core.metadata.commands import UNSENT, ExpireNode, ExpireReports
from liftlog.core.metadata.records import GONE, LIVE
from liftlog.messages import Heartbeat, HeartbeatReply, Send
from liftlog.types import PartitionId


class Controller:
    """Exists while this node is Raft leader."""

    __slots__ = ("ctx", "report_ages", "session_ages")

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.session_ages: dict[int, tuple[int, int]] = {}
        """Of each node: which session (the index at which it began), and for how many ticks it was silent."""
        self.report_ages: dict[tuple[PartitionId, int, int], int] = {}

    def on_heartbeat(self, sender: int, message: Heartbeat, in_contact: bool) -> None:
        """Renew a session. Unanswered while this leader itself lacks contact to a quorum (N2).

        A node that was expired may not know yet what became of its partitions. It confirms itself anew as
        soon as it has applied that, and is answered from then on. Neither is one answered whose expiry is on
        its way: it would take itself for safe while others take over.
        """
        state = self.ctx.metadata.nodes.get(sender)
        if state is None or not self.ctx.decides(
            ("I2.stale-heartbeat", state.incarnation == message.incarnation),
            ("N2.unsure", in_contact),
            ("N2.expiring", not self._is_expiring(sender, state.since)),
        ):
            return
        self.session_ages[sender] = (state.since, 0)
        if state.state != LIVE:
            self.ctx.mark("N2.unanswered")
            return
        self.ctx.effects.append(Send(sender, HeartbeatReply(message.incarnation, message.sequence)))

    def _is_expiring(self, node: int, since: int) -> bool:
        """Whether this controller has asked for the end of that session, which may be decided by now."""
        session, age = self.session_ages.get(node, (since, 0))
        return session == since and age > self._session_ticks

    @property
    def _session_ticks(self) -> int:
        return self.ctx.ticks_of(self.ctx.config.session_timeout_ms)

    def tick(self) -> None:
        ctx = self.ctx
        limit = self._session_ticks
        for node in ctx.metadata.nodes.values():
            if node.state in GONE or node.node == ctx.node:
                continue
            since, age = self.session_ages.get(node.node, (node.since, 0))
            age = age + 1 if since == node.since or ctx.mutants.session_age_kept else 1
            self.session_ages[node.node] = (node.since, age)
            if age > limit:
                ctx.mark("R15.expire")
                ctx.want(ExpireNode(UNSENT, node.node, node.incarnation, node.since))
        self._age_reports()

    def _age_reports(self) -> None:
        ctx = self.ctx
        limit = ctx.ticks_of(ctx.config.report_window_ms)
        ages: dict[tuple[PartitionId, int, int], int] = {}
        for partition in ctx.metadata.partitions.values():
            if not partition.reports:
                continue
            key = (partition.id, partition.epoch, partition.report_round)
            ages[key] = self.report_ages.get(key, 0) + 1
            if ages[key] > limit:
                ctx.want(ExpireReports(UNSENT, *key))
        self.report_ages = ages
