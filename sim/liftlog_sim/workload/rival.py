"""A second operator, who does not know of the first one.

What an operator asks for is judged by what the node knows that he asks, and again when the command is
applied, since others may have had their way meanwhile. So the second one asks another node in the same moment
for something that does not go with it; and who had a node retire takes that back, also at a bad moment: when
the next step is already under way.
"""

from __future__ import annotations

from liftlog.messages import (
    AddNodeRequest,
    ClientMessage,
    DoneReply,
    MoveReplicasRequest,
    RemoveNodeRequest,
    RetireNodeRequest,
    SetVoterRequest,
)
from liftlog_sim.chance.draws import Draws
from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.workload.clients import Clientele

CONTRARY_SHARE = 0.5
"""How often a second operator wants something else of the node of which the first one wants something."""
WAVERS_SHARE = 0.5
"""How often it is taken back that a node retires."""
MOMENT_US = 20 * MILLISECOND
"""The second one asks so much later at most."""
SOON_US, LATER_US = 200 * MILLISECOND, 3 * SECOND
"""It is taken back within the one or the other."""


class Rival:
    """See the module."""

    __slots__ = ("_cluster", "_shared")

    def __init__(self, shared: Clientele) -> None:
        self._shared = shared
        self._cluster = shared.cluster

    def asked(self, name: str, request: ClientMessage, draws: Draws) -> ClientMessage:
        """The first operator wants this, in the operation of this name. What he asks for now."""
        rivals = draws.random() < CONTRARY_SHARE
        if rivals and isinstance(request, RemoveNodeRequest):
            # The other way round: whoever removes it does not know of its use.
            self._later(f"{name}/rival", request, draws.randrange(1 + draws.randrange(MOMENT_US)), draws)
            return self._use(request.node, draws)
        if rivals:
            contrary = self._contrary(request, draws)
            if contrary is not None:
                self._later(f"{name}/rival", contrary, draws.randrange(1 + draws.randrange(MOMENT_US)), draws)
        if isinstance(request, RetireNodeRequest) and request.retires and draws.random() < WAVERS_SHARE:
            after_us = draws.randrange(SOON_US if draws.random() < 0.7 else LATER_US)
            self._later(f"{name}/taken-back", RetireNodeRequest(request.node, False), after_us, draws)
        return request

    def _later(self, name: str, request: ClientMessage, after_us: int, draws: Draws) -> None:
        node, patience_us = self._shared.any_node(draws), self._cluster.knobs.admin_patience_us

        def ask(first: object, second: object) -> None:
            if not self._shared.stopping:
                self._shared.account.count("rivals")
                self._shared.hub.request(name, node, request, self._answered, patience_us)

        self._cluster.kernel.after(after_us, ask)

    def _answered(self, reply: object) -> None:
        if isinstance(reply, DoneReply):
            self._shared.account.count("rivals answered")

    def _contrary(self, request: ClientMessage, draws: Draws) -> ClientMessage | None:
        """What does not go with a request about a node; None: this is about something else, or nodes stay."""
        if self._cluster.knobs.nodes_stay:
            return None
        match request:
            case AddNodeRequest(node):
                return RemoveNodeRequest(node)
            case SetVoterRequest(node, votes):
                return RemoveNodeRequest(node) if self._joins(node) else SetVoterRequest(node, not votes)
            case RetireNodeRequest(node, True, heir):
                if self._joins(heir) and draws.random() < 0.6:
                    return RemoveNodeRequest(heir)
                return RetireNodeRequest(node, True, 0 if heir or node == 1 else 1)
            case _:
                return None

    def _use(self, node: int, draws: Draws) -> ClientMessage:
        """A use for a node that somebody removes: a vote, a copy, another one's place."""
        choice = draws.randrange(4)
        if choice == 0:
            return SetVoterRequest(node, True)
        target = self._shared.any_target(draws) if choice > 1 else None
        if target is None:
            return RetireNodeRequest(1, True, node)
        others = [other for other in range(1, self._cluster.knobs.nodes + 1) if not self._joins(other)]
        replicas = [node]
        for _ in range(min(target.config.replication_factor - 1, len(others))):
            replicas.append(others.pop(draws.randrange(len(others))))
        stream, number = target.partition
        return MoveReplicasRequest(target.stream, number, replicas, stream)

    def _joins(self, node: int) -> bool:
        """Whether a node may leave: the files of those who may yet join name the others."""
        return node > self._cluster.knobs.nodes - self._cluster.knobs.joiners
