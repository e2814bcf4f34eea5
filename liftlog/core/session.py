"""This node's standing in the cluster: registration, incarnation, heartbeats, and the fence (I2, N2).

A process that starts is nobody. It registers what its disk says; the Raft index of that entry is its
incarnation. It writes the incarnation to its disk, and only then confirms it, so that a disk which remembers
less than what was confirmed is known to be rolled back. From the confirmation on it may lead and join.

Contact is counted from the moment a heartbeat was *sent* that the controller has answered. It grants a lease,
which always ends before the controller may replace this node, hint or no hint (`controller.py`).
"""

from __future__ import annotations

from liftlog.core.context import Context
from liftlog.core.lineage import Lineage
from liftlog.core.metadata.commands import UNSENT, ConfirmNode, RegisterNode, TailReport
from liftlog.core.metadata.records import EXPIRED, LIVE
from liftlog.core.raft.raft import Raft
from liftlog.messages import Heartbeat, HeartbeatReply, LevelReport, Send, StopNode
from liftlog.types import LogSummary, Recovered, TailState, Ticket


class Session:
    """Registration and contact of one run of this node."""

    __slots__ = (
        "_tails",
        "_ticket",
        "contact_ms",
        "ctx",
        "granted",
        "lineage",
        "raft",
        "recovered",
        "reset",
    )

    def __init__(self, ctx: Context, raft: Raft, lineage: Lineage, recovered: Recovered) -> None:
        self.ctx = ctx
        self.raft = raft
        self.lineage = lineage
        self.recovered = recovered
        self.granted = 0
        """The incarnation that the metadata gave this run; `ctx.incarnation` follows once it is durable."""
        self.reset = False
        self.contact_ms = 0.0
        """When the newest heartbeat was sent that was answered."""
        self._ticket: Ticket | None = None
        self._tails = [_tail_report(summary) for summary in recovered.logs]

    # -- registration (I2, R14) -------------------------------------------------------------------

    def _register(self) -> None:
        """Say who we are and what our disk holds, until the group has taken it in, once per start."""
        ctx = self.ctx
        identity = self.recovered.identity
        known = ctx.metadata.nodes.get(ctx.node)
        ctx.want(
            RegisterNode(
                request=UNSENT,
                node=ctx.node,
                replaces=known.incarnation if known is not None else 0,
                disk_id=identity.disk_id,
                remembered=identity.incarnation,
                nonce=ctx.nonce,
                address=ctx.config.address,
                tails=self._tails,
                vote_id=identity.vote_id,
            )
        )

    def registered(self) -> None:
        """A registration of this node was applied; if ours, make the incarnation durable before using it."""
        ctx = self.ctx
        state = ctx.metadata.nodes.get(ctx.node)
        if state is None or state.nonce != ctx.nonce:
            # Refused, or of another start: by now we have applied what it tells, and register with that.
            if self.granted:
                # Only a process that knew of our registration can have replaced it: we are superseded.
                ctx.mark("I2.superseded")
                ctx.effects.append(StopNode("another process has registered as this node since it started"))
            return
        if self.granted:
            return
        self.granted = state.incarnation
        self.reset = state.reset
        if self.reset and not ctx.mutants.wiped_replica_rejoins:
            ctx.mark("I2.wiped")
            if state.forgot:
                # Another disk has promised nothing: it may become another member (M2).
                self.raft.withhold_vote()
        self._ticket = self.lineage.remember(self.granted)

    def durable(self, ticket: Ticket) -> bool:
        """True if this was our incarnation: from now on we are somebody."""
        if ticket != self._ticket:
            return False
        self._ticket = None
        self.ctx.begin_run(self.granted)
        # Nobody grants a session to this incarnation before the group has seen the confirmation.
        self.contact_ms = self._clock_ms()
        self._confirm()
        return True

    def _confirm(self) -> None:
        """Say that we are there while the group thinks otherwise."""
        ctx = self.ctx
        state = ctx.metadata.nodes[ctx.node]
        if state.incarnation == ctx.incarnation and state.state != LIVE and not ctx.leaving:
            if state.state == EXPIRED:
                ctx.mark("R15.back")
            ctx.want(ConfirmNode(UNSENT, ctx.node, ctx.incarnation, state.since))

    # -- contact (N2, R15) ------------------------------------------------------------------------

    def tick(self) -> None:
        ctx = self.ctx
        if not self.granted and self.raft.leader and not ctx.leaving:
            self._register()
        if not ctx.incarnation:
            return
        if self.raft.is_leader:
            if ctx.mutants.controller_always_in_contact:
                self.contact_ms = self._clock_ms()
            elif self.raft.quorum_contact():
                self.contact_ms = max(self.contact_ms, self.raft.quorum_contact_ms())
        elif self.raft.leader:
            message = Heartbeat(ctx.incarnation, int(self._clock_ms()), ctx.metadata.applied)
            ctx.effects.append(Send(self.raft.leader, message))
            if ctx.metadata.level < ctx.config.can_level:
                # U2: so that the level can rise.
                report = LevelReport(ctx.incarnation, ctx.config.can_level)
                ctx.effects.append(Send(self.raft.leader, report))
        self._confirm()

    def on_reply(self, sender: int, message: HeartbeatReply) -> None:
        """A heartbeat was answered: the session reaches as far as if it had begun when that was sent."""
        if message.incarnation != self.ctx.incarnation:
            return
        if message.sequence > self._clock_ms() and not self.ctx.mutants.contradiction_believed:
            # V3: believed, it would keep this node from ever being fenced.
            self.ctx.refuse("V3", sender, message, f"heartbeat {message.sequence} was never sent")
        elif message.sequence > self.contact_ms:
            self.contact_ms = self._clock_ms() if self.ctx.mutants.session_from_answer else message.sequence

    def fence(self) -> bool:
        """N2: fence this node, or release it. True if it is fenced from now on: its leaders have to hear."""
        before, out = self.ctx.fenced, self.out_of_contact()
        self.ctx.fence(out)
        return out and not before

    def out_of_contact(self) -> bool:
        """N2: whether the lease will have run out before the next tick looks again."""
        config, mutants = self.ctx.config, self.ctx.mutants
        granted_ms = config.lease_ms
        if mutants.fenced_without_margin:
            granted_ms = config.lease_ms + config.fence_margin_ms
        if mutants.never_fenced:
            return not self.ctx.incarnation
        return not self.ctx.incarnation or self._clock_ms() + config.tick_ms > self.contact_ms + granted_ms

    def _clock_ms(self) -> float:
        ctx = self.ctx
        return float(ctx.ticks * ctx.config.tick_ms) if ctx.mutants.session_by_ticks else ctx.now_ms


def _tail_report(summary: LogSummary) -> TailReport:
    """R14: what was found of one log."""
    epoch = summary.epochs[-1].epoch if summary.epochs else 0
    # A hole in the middle makes a copy as doubtful as a bad end (D2).
    tail = TailState.DAMAGED if summary.damage else summary.tail
    return TailReport(summary.log, tail.value, epoch, summary.leo)
