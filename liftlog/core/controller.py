"""What the controller (the Raft leader) watches: sessions of nodes and ages of reports (R15).

The metadata state machine reads no clock. Time enters here, as ticks counted on the controller, and leaves as
commands with preconditions: by the time one is applied, an expired node that has come back has another
incarnation or has been confirmed again, and the command means nothing.

A node that has just become controller grants every node a whole session anew.
"""

from __future__ import annotations

from liftlog.core.commands import UNSENT, ExpireNode, ExpireReports
from liftlog.core.context import Context
from liftlog.core.metadata import GONE, LIVE
from liftlog.messages import Heartbeat, HeartbeatReply, Send
from liftlog.types import PartitionId


class Controller:
    """Exists while this node is Raft leader."""

    __slots__ = ("ctx", "report_ages", "session_ages")

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.session_ages: dict[int, int] = {}
        self.report_ages: dict[tuple[PartitionId, int, int], int] = {}

    def on_heartbeat(self, sender: int, message: Heartbeat, in_contact: bool) -> None:
        """Renew a session. Unanswered while this leader itself lacks contact to a quorum (N2).

        A node that was expired may not know yet what became of its partitions. It confirms itself anew as
        soon as it has applied that, and is answered from then on.
        """
        state = self.ctx.metadata.nodes.get(sender)
        if state is None or not self.ctx.decides(
            ("I2.stale-heartbeat", state.incarnation == message.incarnation), ("N2.unsure", in_contact)
        ):
            return
        self.session_ages[sender] = 0
        if state.state != LIVE:
            self.ctx.mark("N2.unanswered")
            return
        self.ctx.effects.append(Send(sender, HeartbeatReply(message.incarnation, message.sequence)))

    def tick(self) -> None:
        ctx = self.ctx
        config = ctx.config
        limit = ctx.ticks_of(config.session_timeout_ms)
        for node in ctx.metadata.nodes.values():
            if node.state in GONE or node.node == ctx.node:
                continue
            age = self.session_ages.get(node.node, 0) + 1
            self.session_ages[node.node] = age
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
