"""What operators of one stream have in common: they ask at turns of their own, and somebody publishes to the
stream, though it takes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from liftlog.messages import ClientMessage
from liftlog.types import Message
from liftlog_sim.chance.chances import Turn, Turns
from liftlog_sim.chance.draws import Draws
from liftlog_sim.workload.clients import Clientele


class StreamOperator(ABC):
    """Of one stream, which comes and goes. `every_us`: how often he asks; 0 = never."""

    __slots__ = ("_cluster", "_every_us", "_shared", "_strays", "_turns")

    def __init__(self, shared: Clientele, turns: Turns, every_us: int) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._turns = turns
        self._every_us = every_us
        self._strays = 0

    def start(self) -> None:
        if self._every_us:
            self._turns.take(self._fire)

    def _fire(self, turn: Turn, second: object) -> None:
        if self._shared.stopping:
            return
        turn.noted()
        request = self._wanted(turn.draws)
        if request is not None:
            node = self._asked(turn.draws, request)
            patience_us = self._cluster.knobs.admin_patience_us
            self._shared.hub.request(turn.name, node, request, lambda reply: None, patience_us)
        self._turns.take(self._fire)

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
