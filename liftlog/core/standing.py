"""What a node knows of the metadata group, by its own clock, for people who ask (`ClusterStatusReply`).

Without a quorum nobody can say what is; each node can still say what it was told last, and how long ago.
"""

from __future__ import annotations

from liftlog.core.context import Context
from liftlog.core.raft.raft import Raft
from liftlog.core.session import Session
from liftlog.messages import Contact


class Standing:
    """To be asked for `contact` at any time, and told of each tick."""

    __slots__ = ("_controller", "_ctx", "_heard_ms", "_raft", "_session")

    def __init__(self, ctx: Context, raft: Raft, session: Session) -> None:
        self._ctx = ctx
        self._raft = raft
        self._session = session
        self._controller = 0
        self._heard_ms = 0.0

    def tick(self) -> None:
        """Once per tick: note whom we heard, before it is forgotten."""
        age_ms = self._raft.quorum_age_ms()
        if age_ms is not None:
            self._controller = self._raft.leader
            self._heard_ms = max(self._heard_ms, self._ctx.now_ms - age_ms)

    def contact(self) -> Contact:
        ctx, lineage = self._ctx, self._session.lineage
        heard_ms = round(ctx.now_ms - self._heard_ms) if self._controller else -1
        recent_ms = ctx.config.election_max_ms + ctx.config.tick_ms
        return Contact(
            vote=self._raft.standing,
            has_controller=bool(self._raft.leader) and 0 <= heard_ms <= recent_ms,
            last_controller=self._controller,
            controller_ms=heard_ms,
            session_ms=round(ctx.now_ms - self._session.contact_ms) if ctx.incarnation else -1,
            fenced=ctx.fenced or not ctx.incarnation,
            nats=ctx.bus_up,
            leaving=ctx.leaving,
            metadata_refused=ctx.stalled,
            voters=self._raft.members.nodes,
            learners=tuple(learner.node for learner in self._raft.members.learners),
            cluster=lineage.text,
            strangers=sorted(lineage.strangers.items()),
        )
