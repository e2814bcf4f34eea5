"""An orderly stop: nobody waits for what this node had (N3, R15, M1k).

    drain       every leadership lets NATS send it nothing more, and answers what was under way
    leave       one command takes this node out of every ISR and chooses successors, as an expiry would
    hand over   if this node is the controller, the voter that has most of the log becomes it
    done        the process may end

The order matters. As long as the node is in an ISR, nothing is committed without it; once it is out, whoever
leads goes on alone. The controller's office goes last, since the command that leaves needs a controller. Each
step is derived from the applied metadata and repeated until it shows there; the driver waits for `done`, but
not for ever.
"""

from __future__ import annotations

from collections.abc import Mapping

from liftlog.core.context import Context
from liftlog.core.metadata.commands import UNSENT, LeaveNode
from liftlog.core.raft.raft import Raft
from liftlog.core.replica.replica import Replica
from liftlog.types import PartitionId

DRAIN_MS = 1000
"""What has not been committed by then stays unanswered: a follower or a disk hangs."""


class Leaving:
    """The stop of one run. Nothing happens before `begin`."""

    __slots__ = (
        "_began_tick",
        "_ctx",
        "_raft",
        "_replicas",
        "_silent_ticks",
        "_was_controller",
    )

    def __init__(self, ctx: Context, raft: Raft, replicas: Mapping[PartitionId, Replica]) -> None:
        self._ctx = ctx
        self._raft = raft
        self._replicas = replicas
        self._began_tick = 0
        self._silent_ticks = 0
        self._was_controller = False

    def begin(self) -> None:
        ctx = self._ctx
        if ctx.leaving:
            return
        ctx.mark("N3.leaving")
        ctx.leave()
        self._began_tick = ctx.ticks
        for replica in self._replicas.values():
            if replica.roles is not None:
                replica.roles.leader.drain()

    def tick(self) -> None:
        """Once per tick; nobody is waited for whom nobody hears."""
        age_ms = self._raft.quorum_age_ms()
        heard = age_ms is not None and age_ms <= self._ctx.config.election_max_ms
        self._silent_ticks = 0 if heard else self._silent_ticks + 1

    def advance(self) -> None:
        """Take the next step. To be called after every event once the stop has begun."""
        ctx, raft = self._ctx, self._raft
        self._was_controller = self._was_controller or raft.is_leader
        if self._nobody_left() or not self._drained():
            return
        if self._in_session():
            ctx.mark("R15.leave")
            since = ctx.metadata.nodes[ctx.node].since
            ctx.want(LeaveNode(UNSENT, ctx.node, ctx.incarnation, since))
        elif raft.leadership is not None and not raft.leadership.transferee:
            for voter in raft.leadership.successors():
                if ctx.metadata.is_live(voter) and raft.transfer(voter):
                    break

    @property
    def done(self) -> bool:
        """Nothing is left that this process could hand over."""
        raft = self._raft
        if not self._ctx.leaving or not self._drained():
            return False
        if self._nobody_left():
            return True
        if self._in_session() or any(replica.leading is not None for replica in self._replicas.values()):
            return False
        # The successor is heard before its predecessor goes: the vote for it has left this node then.
        return not self._was_controller or raft.leader not in (0, self._ctx.node)

    def _drained(self) -> bool:
        if self._ctx.ticks - self._began_tick > self._ctx.ticks_of(DRAIN_MS):
            return True
        return all(replica.settled for replica in self._replicas.values())

    def _in_session(self) -> bool:
        ctx = self._ctx
        state = ctx.metadata.nodes.get(ctx.node)
        return state is not None and state.incarnation == ctx.incarnation and ctx.metadata.is_live(ctx.node)

    def _nobody_left(self) -> bool:
        """Whether the group can decide nothing without this node any more, or has nobody else at all."""
        config, raft = self._ctx.config, self._raft
        is_live = self._ctx.metadata.is_live
        others = [voter for voter in raft.other_voters if is_live(voter)]
        voting = len(others) + raft.is_voter
        silent = self._silent_ticks > self._ctx.ticks_of(config.election_min_ms)
        return not others or voting < raft.quorum or silent
