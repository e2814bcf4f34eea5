"""What the controller does about disks that were replaced, and about nodes that are to vote, or not to: the
group's members follow what the metadata say of the nodes (I2, M2).

A disk that is lost takes its vote with it. Its node comes back with another disk, which registers once the
session of the former one is over, and follows, and counts for nothing. While a quorum of the others lives, it
becomes a voter without anybody's help: the former member leaves the configuration, the new one joins it as a
learner, gets the log, and is promoted. Each of these is an entry of the log, the next is written when the one
before is committed, and whoever is controller then goes on from where the log stands.

So the loss of one disk after the other costs nothing for good, as long as each has been healed before the
next one goes.

A voter whose session has been over for `spare_after_ms`, as one controller has seen it all that time, gives
its place to a spare: a node that is here and votes by nobody's word. It is a spare itself when it comes back.
"""

from __future__ import annotations

from liftlog.core.context import Context
from liftlog.core.metadata.commands import UNSENT, PromoteSpare
from liftlog.core.metadata.records import GONE, LIVE, NodeState
from liftlog.core.raft.members import ADD, PROMOTE, REMOVE
from liftlog.core.raft.raft import Raft
from liftlog.types import GroupMember


class Replacing:
    """To be told of each tick of a controller."""

    __slots__ = ("_absences", "_ctx", "_raft")

    def __init__(self, ctx: Context, raft: Raft) -> None:
        self._ctx = ctx
        self._raft = raft
        self._absences: dict[tuple[int, int], int] = {}
        """For how many ticks this controller has seen a node gone; by node, and index since which it is."""

    def begin(self) -> None:
        """This node has become controller: it has seen nobody gone yet."""
        self._absences = {}

    def tick(self) -> None:
        """Write the next change, if one is wanted and can be written now."""
        for step in self._wanted():
            if not self._raft.change(*step):
                break
        self._want_spare()

    def _want_spare(self) -> None:
        ctx = self._ctx
        nodes, founders = ctx.metadata.nodes, ctx.founders
        limit = ctx.ticks_of(ctx.config.spare_after_ms) if ctx.config.spare_after_ms else 0
        gone = [node for node in nodes.values() if node.state in GONE and node.is_to_vote(founders)]
        before = self._absences
        self._absences = {
            (node.node, node.since): before.get((node.node, node.since), 0) + 1 for node in gone if limit
        }
        spares = sorted(node.node for node in nodes.values() if node.is_spare(founders))
        long = sorted(key for key, ticks in self._absences.items() if ticks > limit)
        if spares and long:
            command = PromoteSpare(UNSENT, *long[0], spares[0], ctx.metadata.voters_at)
            ctx.want(command)

    def _wanted(self) -> list[tuple[str, GroupMember]]:
        """The changes that are wanted, in the order in which they are tried: who is gone makes room, and who
        is not to vote any more stays until others do, who may have to be there for the group to go on.
        """
        members, nodes = self._raft.members, self._ctx.metadata.nodes
        founders = self._ctx.founders
        replaced: list[tuple[str, GroupMember]] = []
        coming: list[tuple[str, GroupMember]] = []
        for number in sorted(nodes):
            node, member = self._live(number), members.member(number)
            if node is None:
                continue
            if member is not None and member.disk and member.disk != node.votes_as:
                replaced.append((REMOVE, member))
            elif node.forgot or member in members.voters or not node.is_to_vote(founders):
                continue
            elif len(members.voters) < self._most:
                coming.append((PROMOTE if member else ADD, member or GroupMember(number, node.votes_as)))
        leaving = [
            (REMOVE, member)
            for member in (*members.voters, *members.learners)
            if self._ctx.metadata.is_removed(member.node)
            or (member.node in nodes and not nodes[member.node].is_to_vote(founders))
        ]
        return replaced + coming + leaving

    @property
    def _most(self) -> int:
        """How many may vote."""
        config = self._ctx.config
        return max(config.max_voters, len(self._ctx.founders))

    def _live(self, number: int) -> NodeState | None:
        """The node, if it is in a session: the one before it is over then, whatever its disk was."""
        node = self._ctx.metadata.nodes.get(number)
        return node if node is not None and node.state == LIVE else None
