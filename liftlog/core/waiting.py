"""Clients that wait for an answer: each gets one, or is told that its time is over, or has gone away.

There is one table of them, with one deadline each, and it is bounded (L3). Where a client waits, for a round
say, is its *place*, which hears when it leaves and knows what it is told when it is late there.
"""

from __future__ import annotations

from typing import Protocol

from liftlog.messages import ERR_OVERLOAD, ClientReply, Effect, ErrorReply, ReplyClient
from liftlog.types import ClientRef, InvariantViolation

WAITING_MAX = 4096


class WaitingPlace(Protocol):
    """Where clients wait."""

    def left(self, waiting: Waiting) -> None:
        """It waits no more: forget it."""

    def late(self, waiting: Waiting) -> ErrorReply:
        """What a client that has waited long enough is told."""


class Waiting:
    """A client that waits at a place, for `ticks_left` more."""

    __slots__ = ("client", "place", "ticks_left")

    def __init__(self, client: ClientRef, place: WaitingPlace, ticks: int) -> None:
        self.client = client
        self.place = place
        self.ticks_left = ticks

    def go_on(self, place: WaitingPlace, ticks: int = 0) -> None:
        """It waits at another place now, which has taken it in; with `ticks` for so long from now on."""
        self.place = place
        self.ticks_left = ticks or self.ticks_left

    def tick(self) -> bool:
        """False: its time is over."""
        self.ticks_left -= 1
        return self.ticks_left > 0


class Clients:
    """The table, and the way to any client."""

    __slots__ = ("_effects", "_waiting")

    def __init__(self, effects: list[Effect]) -> None:
        self._effects = effects
        self._waiting: dict[Waiting, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def reply(self, client: ClientRef, reply: ClientReply) -> None:
        self._effects.append(ReplyClient(client, reply))

    def enter(self, client: ClientRef, place: WaitingPlace, ticks: int) -> Waiting | None:
        """A client comes to wait at a place. None: too many wait, and it was told so."""
        if len(self._waiting) >= WAITING_MAX:
            self.reply(client, ErrorReply(ERR_OVERLOAD, "too many requests wait here; try again", True))
            return None
        waiting = Waiting(client, place, ticks)
        self._waiting[waiting] = None
        return waiting

    def leave(self, waiting: Waiting) -> ClientRef:
        """It is answered, or will be by somebody else."""
        if waiting not in self._waiting:
            raise InvariantViolation(f"client {waiting.client} is answered twice")
        del self._waiting[waiting]
        waiting.place.left(waiting)
        return waiting.client

    def answer(self, waiting: Waiting, reply: ClientReply) -> None:
        self.reply(self.leave(waiting), reply)

    def forget(self, client: ClientRef) -> None:
        """The client's connection is gone."""
        for waiting in [waiting for waiting in self._waiting if waiting.client == client]:
            self.leave(waiting)

    def tick(self) -> None:
        for waiting in [waiting for waiting in self._waiting if not waiting.tick()]:
            self.answer(waiting, waiting.place.late(waiting))
