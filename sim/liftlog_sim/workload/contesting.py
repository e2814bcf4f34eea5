"""Two operators who want two things of a node that joined, which do not go together, in the same moment (I3).

`Rival` contradicts whatever somebody asks for, whenever that is. These two look before they ask: a node that
was added and has neither a vote nor a copy is removed by the one, while the other gives it a vote, or the
place of another node. If that one comes first the node is made idle again, and they begin anew; if it comes
last the node is gone, and it is another one's turn.
"""

from __future__ import annotations

from liftlog.core.metadata.metadata import Metadata
from liftlog.messages import (
    AddNodeRequest,
    ClientMessage,
    RemoveNodeRequest,
    RetireNodeRequest,
    SetVoterRequest,
)
from liftlog_sim.chance.chances import Turn
from liftlog_sim.chance.draws import Draws
from liftlog_sim.kernel import MILLISECOND
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.operating import Operator

MOMENT_US = 40 * MILLISECOND
"""Who removes it asks so much later at most: while the other one's wish is under way."""
HEIR_SHARE = 0.6
"""How often it is to take another one's place; else it is to vote."""
FIRST = 1
"""Whose place a node that joined is to take: no file of those who may yet join has to name it."""


class Contest(Operator):
    """See the module. `contest_interval_us`: how often they look; 0 = never."""

    __slots__ = ()

    def __init__(self, shared: Clientele) -> None:
        every_us = shared.cluster.knobs.contest_interval_us
        super().__init__(shared, shared.cluster.chances.turns("contest/0", every_us), every_us)

    def _act(self, turn: Turn) -> None:
        newest, knobs = self._cluster.newest_metadata(), self._cluster.knobs
        if newest is not None and newest.founders:
            joined = range(knobs.nodes - knobs.joiners + 1, knobs.nodes + 1)
            left = [node for node in joined if not (newest.is_removed(node) or newest.replicas_on(node))]
            for node in left[:1]:
                self._about(node, newest, turn)
        elif newest is not None:
            self._ask_any(turn.name, AddNodeRequest(knobs.nodes, knobs.peer_address(knobs.nodes)), turn.draws)

    def _about(self, node: int, newest: Metadata, turn: Turn) -> None:
        record, numbers = newest.nodes.get(node), [founder for founder, _ in newest.founders]
        if node not in newest.admissions:
            address = self._cluster.knobs.peer_address(node)
            self._ask_any(turn.name, AddNodeRequest(node, address), turn.draws)
        elif record is None:
            return
        elif before := newest.replaced_by(node):
            self._ask_any(turn.name, RetireNodeRequest(before, False), turn.draws)
        elif record.is_to_vote(numbers):
            self._ask_any(turn.name, SetVoterRequest(node, False), turn.draws)
        else:
            self._contest(node, turn)

    def _contest(self, node: int, turn: Turn) -> None:
        draws = turn.draws.part("contest")
        use: ClientMessage = SetVoterRequest(node, True)
        if draws.random() < HEIR_SHARE:
            use = RetireNodeRequest(FIRST, True, node)
        self._ask_any(f"{turn.name}/use", use, draws.part("use"))
        removal, own = RemoveNodeRequest(node), draws.part("removal")
        asked = f"{turn.name}/removal", removal, own
        self._cluster.kernel.after(own.randrange(MOMENT_US), self._late, asked)
        self._shared.account.count("contests")

    def _late(self, asked: tuple[str, ClientMessage, Draws], second: object) -> None:
        if not self._shared.stopping:
            self._ask_any(*asked)

    def _ask_any(self, name: str, request: ClientMessage, draws: Draws) -> None:
        self._ask(name, self._shared.any_node(draws), request)
