"""What the controller does about disks that were replaced: the group's members follow the nodes (I2, M2).

A disk that is lost takes its vote with it. Its node comes back with another disk, which registers once the
session of the former one is over, and follows, and counts for nothing. While a quorum of the others lives, it
becomes a voter without anybody's help: the former member leaves the configuration, the new one joins it as a
learner, gets the log, and is promoted. Each of these is an entry of the log, the next is written when the one
before is committed, and whoever is controller then goes on from where the log stands.

So the loss of one disk after the other costs nothing for good, as long as each has been healed before the
next one goes.
"""

from __future__ import annotations

from liftlog.core.context import Context
from liftlog.core.metadata.records import LIVE, NodeState
from liftlog.core.raft.members import ADD, PROMOTE, REMOVE
from liftlog.core.raft.raft import Raft
from liftlog.types import Member


class Replacing:
    """To be told of each tick of a controller."""

    __slots__ = ("_ctx", "_raft")

    def __init__(self, ctx: Context, raft: Raft) -> None:
        self._ctx = ctx
        self._raft = raft

    def tick(self) -> None:
        """Write the next change, if one is wanted and can be written now."""
        step = self._next()
        if step is not None:
            self._raft.change(*step)

    def _next(self) -> tuple[str, Member] | None:
        """The change that comes next."""
        members = self._raft.members
        for member in (*members.voters, *members.learners):
            node = self._live(member.node)
            if node is not None and member.disk and node.disk_id != member.disk:
                return REMOVE, member
        for number in self._ctx.config.voters:
            node = self._live(number)
            if node is None or node.forgot:
                continue
            found = members.member(number)
            if found is None:
                return ADD, Member(number, node.disk_id)
            if found in members.learners:
                return PROMOTE, found
        return None

    def _live(self, number: int) -> NodeState | None:
        """The node, if it is in a session: the one before it is over then, whatever its disk was."""
        node = self._ctx.metadata.nodes.get(number)
        return node if node is not None and node.state == LIVE else None
