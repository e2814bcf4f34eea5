"""The controller raises the cluster's feature level when every node can follow, if somebody wants it (U2).

Each run of a node tells the controller which levels it can, again and again while the cluster's is lower. A
node of release 0.1.0 does not know how to say that, and counts for the first level. When all registered nodes
have said more, each in its present run, the controller may write `RaiseLevel`, which names what they have
said as its precondition.

Nothing of the kind may lie in the log of a node that cannot read it. So the controller writes it only when it
has applied all that its own log holds: then no run that it knows nothing of is on its way in before it.

A cluster that is being born rises by itself as soon as its voters are there, and so does one that has never
had a stream: there is nothing to go back to. Every other one rises when an operator says so, since until then
any node may go back to the release before.
"""

from __future__ import annotations

from liftlog.core.context import Context
from liftlog.core.metadata import levels
from liftlog.core.metadata.commands import UNSENT, NodeLevel, RaiseLevel, RegisterNode
from liftlog.core.metadata.records import GONE, NodeState
from liftlog.core.raft.raft import Raft
from liftlog.messages import ERR_INVALID, ERR_NOT_LEADER, ClientReply, DoneReply, ErrorReply, LevelReport


class Raising:
    """To be told of each tick of a controller, of what nodes can, and of each registration."""

    __slots__ = ("_asked_ticks", "_ctx", "_newborn", "_raft", "_reports")

    def __init__(self, ctx: Context, raft: Raft) -> None:
        self._ctx = ctx
        self._raft = raft
        self._reports: dict[int, LevelReport] = {}
        self._asked_ticks = 0
        """For so long an operator's word still stands."""
        self._newborn = True
        """No node has registered twice, as far as this process has seen all that was decided."""

    def begin(self) -> None:
        """This node has become controller: nobody has told it anything yet."""
        self._reports = {}
        self._asked_ticks = 0

    def registered(self, command: RegisterNode) -> None:
        """A registration was applied."""
        self._newborn = self._newborn and not command.replaces

    def adopted(self) -> None:
        """A snapshot has taken the place of what was decided: this is no birth."""
        self._newborn = False

    def on_report(self, sender: int, message: LevelReport) -> None:
        self._reports[sender] = message

    def tick(self) -> None:
        """Write the command, if it is wanted and nothing speaks against it."""
        ctx = self._ctx
        if self._asked_ticks:
            self._asked_ticks -= 1
        if ctx.metadata.level >= ctx.config.can_level:
            return
        nodes = list(ctx.metadata.nodes.values())
        able = [self._able(node) for node in nodes]
        to = min((one.level for one in able), default=levels.FIRST)
        wanted = self._asked_ticks or self._may_by_itself()
        if to <= ctx.metadata.level or not wanted or ctx.metadata.applied != self._raft.raft_log.last_index:
            return
        ctx.want(RaiseLevel(UNSENT, to, able))

    def ask(self) -> ClientReply:
        """An operator wants the newest level that this liftlog can."""
        ctx = self._ctx
        level, can = ctx.metadata.level, ctx.config.can_level
        if not self._raft.is_leader:
            return ErrorReply(ERR_NOT_LEADER, "this node is not the controller", True, self._raft.leader)
        if level >= can:
            return DoneReply(f"the cluster is at feature level {level}; its controller knows no higher one")
        lacking = [
            f"node {node.node} ({'stopped' if node.state in GONE else f'can {self._able(node).level}'})"
            for node in ctx.metadata.nodes.values()
            if self._able(node).level < can
        ]
        if lacking:
            text = f"not every node can level {can}: {', '.join(lacking)}; upgrade and start them"
            return ErrorReply(ERR_INVALID, text, False)
        self._asked_ticks = ctx.ticks_of(ctx.config.request_timeout_ms)
        return DoneReply(f"the cluster goes from feature level {level} to {can}")

    def _able(self, node: NodeState) -> NodeLevel:
        """What the present run of a node has said that it can; one that has said nothing can the first."""
        ctx, mutants = self._ctx, self._ctx.mutants
        if node.incarnation == ctx.incarnation:
            return NodeLevel(node.node, ctx.incarnation, ctx.config.can_level)
        report = self._reports.get(node.node)
        if report is None:
            silent = ctx.config.can_level if mutants.level_raised_too_early else levels.FIRST
            return NodeLevel(node.node, node.incarnation, silent)
        of_this_run = report.incarnation == node.incarnation or mutants.level_of_earlier_run
        return NodeLevel(node.node, node.incarnation, report.level if of_this_run else levels.FIRST)

    def _may_by_itself(self) -> bool:
        """A birth, with all its voters there, or a cluster without anything to go back to."""
        metadata = self._ctx.metadata
        if any(voter not in metadata.nodes for voter in self._ctx.config.voters):
            return False
        return self._newborn or not (metadata.streams or metadata.deleted_at)
