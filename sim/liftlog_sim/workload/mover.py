"""An operator who moves the copies of partitions to other nodes while they are in use (R20).

Now and then a move is cancelled, or another one asked for before it is over, by another node. What is asked
for is judged in `truth/authors.py`: the copies of a partition go where somebody who waited wanted them.
"""

from __future__ import annotations

from liftlog.messages import (
    AlterStreamRequest,
    DoneReply,
    DrainNodeRequest,
    MoveReplicasRequest,
    StreamChanges,
)
from liftlog_sim.chance.chances import Turn
from liftlog_sim.chance.draws import Draws
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.targets import Target

CANCEL_SHARE = 0.2
RESIZE_SHARE = 0.12
"""How often a stream is to have more copies, or fewer (R19)."""
DRAIN_SHARE = 0.12
"""How often a node is to be drained, or not any more."""
RIVAL_SHARE = 0.2
"""How often two operators move a partition at once, or drain a node, by two nodes."""


class Mover:
    """Moves one partition after the other, without waiting for what becomes of it."""

    __slots__ = ("_account", "_cluster", "_factors", "_shared", "_turns")

    def __init__(self, shared: Clientele) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._account = shared.account
        self._factors: dict[str, int] = {}
        """How many copies a stream may have by now, if not as many as at first."""
        self._turns = self._cluster.chances.turns("mover/0", self._cluster.knobs.move_interval_us)

    def start(self) -> None:
        if self._cluster.knobs.move_interval_us:
            self._turns.take(self._fire)

    def _fire(self, turn: Turn, second: object) -> None:
        if self._shared.stopping:
            return
        turn.noted()
        draws = turn.draws
        target = self._shared.any_target(draws)
        if target is not None:
            self._ask(turn.name, target, draws)
            if draws.random() < RIVAL_SHARE:
                self._ask(f"{turn.name}/rival", target, draws.part("rival"))
        self._turns.take(self._fire)

    def _ask(self, name: str, target: Target, draws: Draws) -> None:
        self._account.count("moves asked for")
        if draws.part("drain").random() < DRAIN_SHARE:
            self._drain(name, draws.part("drained"))
            return
        if draws.part("resize").random() < RESIZE_SHARE:
            self._resize(name, target, draws.part("resized"))
            return
        factor = self._factors.get(target.stream, target.config.replication_factor)
        replicas: list[int] = []
        if draws.random() >= CANCEL_SHARE:
            nodes = list(range(1, self._cluster.knobs.nodes + 1))
            for _ in range(factor):
                replicas.append(nodes.pop(draws.randrange(len(nodes))))
        stream, number = target.partition
        request = MoveReplicasRequest(target.stream, number, replicas, stream)
        node, patience_us = self._shared.any_node(draws), self._cluster.knobs.admin_patience_us
        self._shared.hub.request(name, node, request, self._answered, patience_us)

    def _resize(self, name: str, target: Target, draws: Draws) -> None:
        self._account.count("resizes asked for")
        factor = self._factors[target.stream] = 1 + draws.randrange(self._cluster.knobs.nodes)
        request = AlterStreamRequest(target.stream, StreamChanges(replication_factor=factor))
        node, patience_us = self._shared.any_node(draws), self._cluster.knobs.admin_patience_us
        self._shared.hub.request(name, node, request, self._answered, patience_us)

    def _drain(self, name: str, draws: Draws) -> None:
        request = DrainNodeRequest(self._shared.any_node(draws), draws.random() < 0.5)
        askers = (name, f"{name}/too") if draws.part("too").random() < RIVAL_SHARE else (name,)
        for asker in askers:
            self._account.count("drains asked for")
            node, patience_us = self._shared.any_node(draws), self._cluster.knobs.admin_patience_us
            self._shared.hub.request(asker, node, request, self._answered, patience_us)

    def _answered(self, reply: object) -> None:
        if isinstance(reply, DoneReply) and not reply.detail:
            self._account.count("moves")
