"""Clients that wait: each is answered once, in time or with the word that it is late, or is forgotten."""

from __future__ import annotations

import pytest

from liftlog.core.waiting import WAITING_MAX, Clients, Waiting
from liftlog.messages import ERR_OVERLOAD, ERR_TIMEOUT, DoneReply, Effect, ErrorReply, ReplyClient
from liftlog.types import ClientRef, InvariantViolation


class Spot:
    """A place that remembers who waits there."""

    def __init__(self) -> None:
        self.here: list[Waiting] = []

    def left(self, waiting: Waiting) -> None:
        self.here.remove(waiting)

    def late(self, waiting: Waiting) -> ErrorReply:
        return ErrorReply(ERR_TIMEOUT, "too late", True)


class Desk:
    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.clients = Clients(self.effects)
        self.spot = Spot()

    def enter(self, client: int, ticks: int = 3) -> Waiting:
        waiting = self.clients.enter(ClientRef(client), self.spot, ticks)
        assert waiting is not None
        self.spot.here.append(waiting)
        return waiting

    def replies(self) -> list[tuple[int, object]]:
        return [(e.client, e.reply) for e in self.effects if isinstance(e, ReplyClient)]


def test_an_answer_ends_the_wait() -> None:
    desk = Desk()
    waiting = desk.enter(1)
    desk.clients.answer(waiting, DoneReply(""))
    for _ in range(9):
        desk.clients.tick()
    assert desk.replies() == [(1, DoneReply(""))] and desk.spot.here == []


def test_a_client_is_answered_once() -> None:
    desk = Desk()
    waiting = desk.enter(1)
    desk.clients.answer(waiting, DoneReply(""))
    with pytest.raises(InvariantViolation, match="client 1 is answered twice"):
        desk.clients.answer(waiting, DoneReply(""))


def test_who_has_waited_long_enough_is_told_by_the_place_where_it_is() -> None:
    desk = Desk()
    desk.enter(1, ticks=2)
    longer = desk.enter(2, ticks=2)
    desk.clients.tick()
    longer.go_on(desk.spot, 2)
    desk.clients.tick()
    assert desk.replies() == [(1, ErrorReply(ERR_TIMEOUT, "too late", True))]
    desk.clients.tick()
    assert [client for client, _ in desk.replies()] == [1, 2] and desk.spot.here == []


def test_a_client_that_has_gone_is_told_nothing() -> None:
    desk = Desk()
    desk.enter(1)
    desk.enter(2)
    desk.enter(1)
    desk.clients.forget(ClientRef(1))
    assert desk.replies() == [] and [waiting.client for waiting in desk.spot.here] == [2]


def test_L3_the_table_is_bounded_and_who_finds_no_room_is_told() -> None:
    desk = Desk()
    for client in range(WAITING_MAX):
        desk.enter(client)
    assert desk.clients.enter(ClientRef(-1), desk.spot, 3) is None
    ((client, reply),) = desk.replies()
    assert client == -1 and isinstance(reply, ErrorReply) and reply.code == ERR_OVERLOAD
    desk.clients.leave(desk.spot.here[0])
    desk.enter(-1)
