"""What the leader of a partition does with what clients say of the messages that they were given (K3).

done       acked, or given up: an entry says so, and when that is committed it is answered
put off    not acked, or in work: the leader alone remembers until when, and answers at once
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

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
from liftlog.types import ClientRef, PartitionId


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


class Said(NamedTuple):
    """What one client says of messages that one consumer was given."""

    client: ClientRef
    request: SettleRequest
    flight: Flight
    offsets: list[int]

    def joins(self, other: Said) -> bool:
        """Whether it says the same to the same consumer."""
        return self.flight is other.flight and self.request.how == other.request.how

    def reply(self, partition: PartitionId, end: int) -> SettledReply:
        """What is answered: `unknown` is what this leader has not delivered."""
        ahead = self.flight.ahead
        unknown = runs_of([offset for offset in self.offsets if offset >= ahead])
        return SettledReply(partition, self.request.consumer, end, unknown)


class Settlements:
    """Of one leader, in one epoch."""

    __slots__ = ("_agenda", "_ctx", "_data", "_desk", "_removed")

    def __init__(self, data: LogState, removed: Removed, agenda: Agenda, desk: SettleDesk) -> None:
        self._ctx = data.ctx
        self._data = data
        self._removed = removed
        self._agenda = agenda
        self._desk = desk

    def settle(self, asked: Sequence[tuple[ClientRef, SettleRequest]]) -> None:
        """Note it, and answer: what is done when that is committed. Of those that come behind each other, and
        say the same to one consumer, one entry is made.
        """
        together: list[Said] = []
        named = 0
        for client, request in asked:
            said = self._read(client, request)
            if said is None:
                continue
            named += len(said.offsets)
            if together and (named > SETTLE_MAX or not said.joins(together[0])):
                self._end(together)
                together, named = [], len(said.offsets)
            if request.how in (ACK, TERM):
                together.append(said)
            else:
                self._put_off(said)
        if together:
            self._end(together)

    def _read(self, client: ClientRef, request: SettleRequest) -> Said | None:
        """What it says; None: it is answered."""
        mutants = self._ctx.mutants
        flight = self._desk.flight(request.consumer)
        if flight is None and mutants.ack_of_deleted_counts:
            flight = self._desk.flight(max(self._removed.consumers.by_number, default=0))
        if flight is None:
            self._desk.unknown_number(client, request.consumer)
            return None
        self._desk.heard(flight)
        text = ""
        if request.how not in SETTLES:
            text = f"{request.how!r} is not one of {', '.join(SETTLES)}"
        elif sum(length for _, length in request.runs) > SETTLE_MAX:
            text = f"one request may name {SETTLE_MAX} messages: send several"
        if text:
            self._desk.reply(client, ErrorReply(ERR_INVALID, text, False))
            return None
        offsets = list(offsets_of(request.runs))
        if len(request.runs) > 1:
            offsets = sorted(dict.fromkeys(offsets))
        if mutants.ack_of_all_before:
            offsets = list(range(flight.consumer.floor, offsets[-1] + 1))
        if flight.dead and request.how == ACK and any(offset in flight.dead for offset in offsets):
            self._ctx.mark("K9.late-ack")
        return Said(client, request, flight, offsets)

    def _end(self, together: list[Said]) -> None:
        """These say the same to one consumer: that messages do not come again."""
        flight, how = together[0].flight, together[0].request.how
        ending: dict[int, None] = {}
        told: list[tuple[Said, bool]] = []
        for said in together:
            fresh = [offset for offset in flight.may_end_of(said.offsets) if offset not in ending]
            if not (ending and self._ctx.mutants.joined_acks_name_first):
                ending.update(dict.fromkeys(fresh))
            told.append((said, bool(fresh)))
        end = 0
        if ending:
            self._ctx.mark("K3.settled")
            if len(together) > 1:
                self._ctx.mark("K3.together")
            offsets = sorted(ending)
            flight.was_acked(self._ctx.wall_ms)
            end = (
                self._desk.done(flight, offsets, ACKED)
                if how == ACK
                else self._desk.no_more(flight, offsets, TERMINATED)
            )
        for said, is_new in told:
            self._promise(said, end, is_new)

    def _promise(self, said: Said, end: int, is_new: bool) -> None:
        """Answer when that is committed. `is_new`: by the entry that ends there; else by an earlier one."""
        mutants, folded = self._ctx.mutants, self._removed.folded
        if not is_new:
            end = max(map(said.flight.ends_at, said.offsets), default=0)
            if end > folded:
                self._ctx.mark("K3.repeat")
            # What is done by an entry that was folded before is known by all that is folded.
            end = max(end, folded)
        reply = said.reply(self._data.id, end)
        if mutants.ack_answered_at_append if is_new else mutants.repeated_ack_answered_at_once:
            self._desk.reply(said.client, reply)
        else:
            self._desk.wait_for(said.client, end, reply)

    def _put_off(self, said: Said) -> None:
        """Not acked, or in work: from when on these are due again."""
        flight, request = said.flight, said.request
        lapse = self._desk.lapse(flight.consumer)
        at = self._desk.after(request.delay_ms) if request.delay_ms else self._ctx.ticks
        for offset in filter(flight.may_end, said.offsets):
            flight.set_deadline(offset, at if request.how == NAK else lapse(flight.count(offset)))
        self._agenda.set_alarm(flight)
        reply = said.reply(self._data.id, 0)
        self._desk.serve(flight)
        self._desk.reply(said.client, reply)
