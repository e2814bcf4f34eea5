"""What the leader of a partition does with what clients say of the messages that they were given (K3).

done       acked, or given up: an entry says so, and when that is committed it is answered
put off    not acked, or in work: the leader alone remembers until when, and answers at once
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from liftlog.core.consumers.agenda import Agenda
from liftlog.core.consumers.entries import ACKED, TERMINATED
from liftlog.core.consumers.flight import Flight, Lapse
from liftlog.core.consumers.state import Consumer
from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.state.log import LogState
from liftlog.messages import (
    ACK,
    ERR_INVALID,
    NAK,
    SETTLE_MAX,
    SETTLES,
    TERM,
    ClientReply,
    ErrorReply,
    SettledReply,
    SettleRequest,
    offsets_of,
    runs_of,
)
from liftlog.types import ClientRef


class SettleDesk(Protocol):
    """Who knows what is on its way, writes entries and answers: the leader."""

    def flight(self, number: int) -> Flight | None: ...

    def unknown_number(self, client: ClientRef, number: int) -> None: ...

    def heard(self, flight: Flight) -> None: ...

    def done(self, flight: Flight, offsets: Iterable[int], how: str) -> int: ...

    def no_more(self, flight: Flight, offsets: list[int], how: str) -> int: ...

    def serve(self, flight: Flight) -> None: ...

    def lapse(self, consumer: Consumer) -> Lapse: ...

    def after(self, wait_ms: int) -> int: ...

    def reply(self, client: ClientRef, reply: ClientReply) -> None: ...

    def wait_for(self, client: ClientRef, end: int, reply: SettledReply) -> None: ...


class Settlements:
    """Of one leader, in one epoch."""

    __slots__ = ("_agenda", "_ctx", "_data", "_desk", "_removed")

    def __init__(self, data: LogState, removed: Removed, agenda: Agenda, desk: SettleDesk) -> None:
        self._ctx = data.ctx
        self._data = data
        self._removed = removed
        self._agenda = agenda
        self._desk = desk

    def settle(self, client: ClientRef, request: SettleRequest) -> None:
        """Note it, and answer: what is done when that is committed."""
        mutants = self._ctx.mutants
        flight = self._desk.flight(request.consumer)
        if flight is None and mutants.ack_of_deleted_counts:
            flight = self._desk.flight(max(self._removed.consumers.by_number, default=0))
        if flight is None:
            self._desk.unknown_number(client, request.consumer)
            return
        self._desk.heard(flight)
        if request.how not in SETTLES:
            text = f"{request.how!r} is not one of {', '.join(SETTLES)}"
            self._desk.reply(client, ErrorReply(ERR_INVALID, text, False))
            return
        if sum(length for _, length in request.runs) > SETTLE_MAX:
            text = f"one request may name {SETTLE_MAX} messages: send several"
            self._desk.reply(client, ErrorReply(ERR_INVALID, text, False))
            return
        offsets = sorted(dict.fromkeys(offsets_of(request.runs)))
        if mutants.ack_of_all_before:
            offsets = list(range(flight.consumer.floor, offsets[-1] + 1))
        fresh = [offset for offset in offsets if flight.may_end(offset)]
        unknown = [offset for offset in offsets if offset >= flight.ahead]
        if request.how == ACK and any(offset in flight.dead for offset in offsets):
            self._ctx.mark("K9.late-ack")
        reply = SettledReply(self._data.id, request.consumer, 0, runs_of(unknown))
        if request.how not in (ACK, TERM):
            self._put_off(flight, fresh, request)
            self._desk.reply(client, reply)
            return
        end = max((flight.ends_at(offset) for offset in offsets), default=0)
        if fresh:
            acked = request.how == ACK
            end = (
                self._desk.done(flight, fresh, ACKED)
                if acked
                else self._desk.no_more(flight, fresh, TERMINATED)
            )
            self._ctx.mark("K3.settled")
        elif end > self._removed.folded:
            self._ctx.mark("K3.repeat")
        # What is done by an entry that was folded before is known by all that is folded.
        end = max(end, 0 if fresh else self._removed.folded)
        if mutants.ack_answered_at_append if fresh else mutants.repeated_ack_answered_at_once:
            self._desk.reply(client, SettledReply(reply.partition, reply.consumer, end, reply.unknown))
            return
        self._desk.wait_for(client, end, SettledReply(reply.partition, reply.consumer, end, reply.unknown))

    def _put_off(self, flight: Flight, offsets: list[int], request: SettleRequest) -> None:
        """Not acked, or in work: from when on these are due again."""
        lapse = self._desk.lapse(flight.consumer)
        at = self._desk.after(request.delay_ms) if request.delay_ms else self._ctx.ticks
        for offset in offsets:
            flight.set_deadline(offset, at if request.how == NAK else lapse(flight.count(offset)))
        self._agenda.set_alarm(flight)
        self._desk.serve(flight)
