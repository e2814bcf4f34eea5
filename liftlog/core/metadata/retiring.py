"""Nodes that retire: an operator's wish that a node gives away what it has and is removed then (I3).

The wish stands in the node's record, with the *heir* if one is named, until the node is removed or somebody
takes the wish back. Whoever is controller takes the next step that is ripe (`liftlog.core.draining`,
`liftlog.core.retiring`): copies move (R20), then the vote passes (M2), then the node is removed. An heir is
neither drained nor does it retire, and it takes the place of one node only.
"""

from __future__ import annotations

from collections.abc import Collection

from liftlog.core.guards import Guards
from liftlog.core.metadata.commands import PassVote, RetireNode
from liftlog.core.metadata.moves import MoveCommands
from liftlog.core.metadata.records import (
    DOES_NOT_VOTE,
    OK,
    STALE,
    VOTES,
    CommandResult,
    Records,
    replaced,
)
from liftlog.messages import ERR_INVALID, ERR_NOT_FOUND


def retirement_problem(records: Records, node: int, heir: int) -> str:
    """Why a node cannot retire in favour of this heir (0: of nobody), and the remedy; empty if it can."""
    before = records.replaced_by(node)
    if before:
        return (
            f"node {node} is to take the place of node {before}: name another node for that with 'liftlog "
            f"cluster replace {before} NEW', or take it back with 'liftlog cluster remove {before} --cancel'"
        )
    if not heir:
        return ""
    record, admission = records.nodes.get(heir), records.admissions.get(heir)
    other = records.replaced_by(heir)
    if heir == node:
        return f"node {node} cannot take its own place; name another node"
    if records.is_removed(heir):
        return f"node {heir} was removed, and its number is not used again; name another node"
    if record is None and admission is None:
        return f"there is no node {heir}: admit it with 'liftlog cluster add {heir} HOST:PORT', and ask again"
    if record is not None and record.retires:
        return (
            f"node {heir} retires itself: take that back with 'liftlog cluster remove {heir} --cancel', or "
            "name another node"
        )
    if record is not None and record.drains:
        return (
            f"node {heir} is drained, and gets no copies: end that with 'liftlog cluster drain {heir} "
            "--cancel', or name another node"
        )
    if other not in (0, node):
        return f"node {heir} takes the place of node {other} already; name another node"
    return ""


def vote_problem(records: Records, founders: Collection[int], node: int, heir: int) -> str:
    """Why the group cannot do without a node's vote, if `heir` has one then; empty if it can (M2)."""
    rest = {other.node for other in records.nodes.values() if other.is_to_vote(founders)} - {node}
    if heir:
        rest.add(heir)
    if not rest:
        return (
            f"only node {node} is to vote, and one has to: promote another node first ('liftlog cluster "
            f"promote NODE'), or name one that takes its place ('liftlog cluster replace {node} NEW')"
        )
    live = sum(records.is_live(other) for other in rest)
    needed = len(rest) // 2 + 1
    if live < needed:
        listed = ", ".join(map(str, sorted(rest)))
        return (
            f"without node {node} nodes {listed} vote, of which {needed} must be there, and {live} "
            f"{'is' if live == 1 else 'are'}: start the others, or promote a node that is there"
        )
    return ""


class RetireCommands:
    """Holds no state of its own. `moves`: who knows how offices are given away (R20)."""

    __slots__ = ("_decides", "_mark", "_moves", "_records")

    def __init__(self, records: Records, guards: Guards, moves: MoveCommands) -> None:
        self._records = records
        self._moves = moves
        self._decides = guards.decides
        self._mark = guards.mark

    def retire(self, index: int, command: RetireNode) -> CommandResult:
        """Offices go at once, where another one in sync can have them; all else is the controller's."""
        records, number = self._records, command.node
        node = records.nodes.get(number)
        if node is None:
            return CommandResult(ERR_NOT_FOUND, f"there is no node {number}: it was removed meanwhile")
        if not self._decides(("I3.stale-wish", node.retires_at == command.version)):
            return STALE
        problem = retirement_problem(records, number, command.heir) if command.retires else ""
        if problem:
            self._mark("I3.cannot-retire")
            return CommandResult(ERR_INVALID, problem)
        heir = command.heir if command.retires else 0
        records.put_node(replaced(node, retires=command.retires, heir=heir, retires_at=index))
        self._mark("I3.retire" if command.retires else "I3.retire-ends")
        if command.retires:
            self._moves.give_offices_away(number)
        return OK

    def pass_vote(self, index: int, command: PassVote) -> CommandResult:
        records = self._records
        node, heir = records.nodes.get(command.node), records.nodes.get(command.heir)
        if node is None or (command.heir and heir is None):
            return STALE
        to_spare = node.heir == 0 and (heir is None or heir.can_get_a_vote)
        wished = node.retires and node.retires_at == command.wish and (to_spare or command.heir == node.heir)
        known = command.version == records.voters_at
        if not self._decides(("M2.stale-wish", known), ("I3.taken-back", wished)):
            return STALE
        records.put_node(replaced(node, voter=DOES_NOT_VOTE, voter_at=index))
        if heir is not None:
            records.put_node(replaced(heir, voter=VOTES, voter_at=index))
        self._mark("I3.vote-passed")
        return OK
