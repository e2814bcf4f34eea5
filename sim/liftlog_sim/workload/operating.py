"""What operators have in common: they ask at turns of their own; and those of one stream: somebody publishes
to it, though it takes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from liftlog.messages import ClientMessage
from liftlog.types import Message
from liftlog_sim.chance.chances import Turn, Turns
from liftlog_sim.chance.draws import Draws
from liftlog_sim.workload.clients import Clientele


class Operator(ABC):
    """`every_us`: how often he has his turn; 0 = never."""

    __slots__ = ("_cluster", "_every_us", "_shared", "_turns")

    def __init__(self, shared: Clientele, turns: Turns, every_us: int) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._turns = turns
        self._every_us = every_us

    def start(self) -> None:
        if self._every_us:
            self._turns.take(self._fire)

    def _fire(self, turn: Turn, second: object) -> None:
        if self._shared.stopping:
            return
        turn.noted()
        self._act(turn)
        self._turns.take(self._fire)

    @abstractmethod
    def _act(self, turn: Turn) -> None:
        """It is his turn."""

    def _ask(self, name: str, node: int, request: ClientMessage) -> None:
        """Nobody hears what is answered."""
        patience_us = self._cluster.knobs.admin_patience_us
        self._shared.hub.request(name, node, request, lambda reply: None, patience_us)


class StreamOperator(Operator):
    """Of one stream, which comes and goes."""

    __slots__ = ("_strays",)

    def __init__(self, shared: Clientele, turns: Turns, every_us: int) -> None:
        super().__init__(shared, turns, every_us)
        self._strays = 0

    def _act(self, turn: Turn) -> None:
        request = self._wanted(turn.draws)
        if request is not None:
            self._ask(turn.name, self._asked(turn.draws, request), request)

    @abstractmethod
    def _wanted(self, draws: Draws) -> ClientMessage | None:
        """What is asked for at this turn; None: nothing."""

    def _asked(self, draws: Draws, request: ClientMessage) -> int:
        """Of which node."""
        return self._shared.any_node(draws)

    def _stray(self, subject: str, what: str) -> None:
        """Somebody publishes there."""
        self._strays += 1
        value = f"{what}-{self._strays}".encode()
        self._cluster.bus.publish(subject.encode(), [Message(subject.encode(), b"", b"", value)])
