"""What the controller (the Raft leader) watches: sessions of nodes and ages of reports (R15).

The metadata state machine reads no clock. Time enters here, as ticks counted on the controller, and leaves as
commands with preconditions: by the time one is applied, an expired node that has come back has another
incarnation or has been confirmed again, and the command means nothing.

A node that has just become controller grants every node a whole session anew, and so does every controller
to a node whose session begins: what went before, an expiry say, is of another session. One node it knows
better: whoever was controller in the term before was heard by none of those who elected this one for the
suspicion time at least (M1d), so that its contact is as old, and so is its session.

A session ends after the session timeout. If it is said that nobody listens there any more (`hints.py`), it
ends as soon as the lease has run out that the last answer has granted, and a margin: by then a node that
lives in spite of the hint has fenced itself (N2). So a false hint takes an office from somebody who is cut
off from the controller, a little sooner than without it, and never makes two leaders serve at once.
"""

from __future__ import annotations

from liftlog.core.context import Context
from liftlog.core.metadata.commands import UNSENT, ExpireNode, ExpireReports, FinishMove
from liftlog.core.metadata.records import GONE, LIVE
from liftlog.messages import Heartbeat, HeartbeatReply, Send
from liftlog.types import NO_NODE, PartitionId


class SessionAge:
    """How long a node has been silent in one session, which began at the index `since`."""

    __slots__ = ("ends", "since", "ticks")

    def __init__(self, since: int, ticks: int = 0) -> None:
        self.since = since
        self.ticks = ticks
        self.ends = False
        """This controller has asked for its end, which may be decided by now: it is not renewed any more."""

    def grow(self) -> None:
        self.ticks += 1

    def end(self) -> None:
        self.ends = True


class Controller:
    """Exists while this node is Raft leader. `predecessor`: the leader of the term before, if known (M1d)."""

    __slots__ = ("ctx", "report_ages", "sessions")

    def __init__(self, ctx: Context, predecessor: int = NO_NODE) -> None:
        self.ctx = ctx
        self.sessions: dict[int, SessionAge] = {}
        self.report_ages: dict[tuple[PartitionId, int, int], int] = {}
        known = ctx.metadata.nodes.get(predecessor)
        if known is not None:
            silent_ticks = ctx.config.suspicion_ms // ctx.config.tick_ms
            self.sessions[predecessor] = SessionAge(known.since, silent_ticks)

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
        self.sessions[sender] = SessionAge(state.since)
        if state.state != LIVE:
            self.ctx.mark("N2.unanswered")
            return
        self.ctx.effects.append(Send(sender, HeartbeatReply(message.incarnation, message.sequence)))

    def _is_expiring(self, node: int, since: int) -> bool:
        session = self.sessions.get(node)
        return session is not None and session.since == since and session.ends

    def tick(self) -> None:
        ctx = self.ctx
        for node in ctx.metadata.nodes.values():
            if node.state in GONE or node.node == ctx.node:
                continue
            session = self.sessions.get(node.node)
            if session is None or session.since != node.since:
                kept = session.ticks if session is not None and ctx.mutants.session_age_kept else 0
                session = self.sessions[node.node] = SessionAge(node.since, kept)
            session.grow()
            if session.ends or self._is_over(node.node, session):
                session.end()
                ctx.mark("R15.expire")
                ctx.want(ExpireNode(UNSENT, node.node, node.incarnation, node.since))
        self._age_reports()
        self._finish_moves()

    def _finish_moves(self) -> None:
        """R20: all that are to have a copy are in sync."""
        ctx = self.ctx
        for partition in map(ctx.metadata.partitions.__getitem__, ctx.metadata.unsettled):
            isr, target = partition.isr, partition.target
            if target and (all(node in isr for node in target) or ctx.mutants.moved_before_in_sync):
                ctx.want(FinishMove(UNSENT, partition.id, partition.assignment))

    def _is_over(self, node: int, session: SessionAge) -> bool:
        """Whether a session is to end now."""
        ctx, config = self.ctx, self.ctx.config
        if session.ticks > ctx.ticks_of(config.session_timeout_ms):
            return True
        if node not in ctx.hints:
            return False
        over = session.ticks > ctx.ticks_of(config.lease_ms + config.fence_margin_ms)
        if ctx.mutants.removal_before_lease:
            over = session.ticks > ctx.ticks_of(config.suspicion_ms)
        if over or ctx.mutants.hint_ends_session:
            ctx.mark("R15.hinted")
            return True
        return False

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
