"""Persist, then send: messages that wait for a disk.

A node may promise something to another node only after the promise is on its own disk (M1: votes and terms;
R5, R7: durable offsets). The core says so by naming, in each `Send`, the ticket of the write that must be
durable first. `liftlog/driver/interpreter.py` gives each `Send` here, and whatever runs a node runs it there.

A ticket ends in one of two ways: its write became durable, and everything that waited for it goes out in the
order of submission; or it failed, and everything that waited for it is dropped, which to the protocol is a
lost message.
"""

from __future__ import annotations

from liftlog.messages import Send
from liftlog.types import NO_TICKET, Ticket

REMEMBERED_TICKETS = 4096
"""How many ended tickets are remembered, for a `Send` that names a ticket which has ended before it came."""


class Outbox:
    """Holds each `Send` until its ticket has ended. Pure: no clock, no IO.

    Memory is bounded: what waits is bounded by the writes in flight, and of the ended tickets the newest
    `remembered` are kept. A `Send` whose ticket ended longer ago than that is dropped: losing a message is
    always allowed, sending an unbacked promise never is.
    """

    __slots__ = ("_ended", "_forgotten_up_to", "_remembered", "_waiting")

    def __init__(self, remembered: int = REMEMBERED_TICKETS) -> None:
        self._waiting: dict[int, list[Send]] = {}
        self._ended: dict[int, bool] = {}
        self._forgotten_up_to = 0
        self._remembered = remembered

    def submit(self, send: Send) -> Send | None:
        """Return `send` if it may go to the network now; else keep it, or drop it if its ticket failed."""
        ticket = send.after
        if ticket == NO_TICKET:
            return send
        durable = self._ended.get(ticket)
        if durable is not None:
            return send if durable else None
        if ticket > self._forgotten_up_to:
            self._waiting.setdefault(ticket, []).append(send)
        return None

    def durable(self, ticket: Ticket) -> list[Send]:
        """The write behind `ticket` is durable: the messages to send now, in the order of submission."""
        self._end(ticket, True)
        return self._waiting.pop(ticket, [])

    def failed(self, ticket: Ticket) -> None:
        """The write behind `ticket` failed: what waits for it, now or later, is never sent."""
        self._end(ticket, False)
        self._waiting.pop(ticket, None)

    def waiting(self) -> list[Send]:
        """The messages that wait, by ticket in the order in which tickets were first named."""
        return [send for sends in self._waiting.values() for send in sends]

    def _end(self, ticket: Ticket, durable: bool) -> None:
        if ticket == NO_TICKET:
            return
        self._ended[ticket] = durable
        if len(self._ended) > self._remembered:
            # The oldest ended ticket is forgotten. Only tickets at or below it that wait for nothing are
            # affected; one that still waits keeps its messages until it ends.
            oldest = next(iter(self._ended))
            del self._ended[oldest]
            self._forgotten_up_to = max(self._forgotten_up_to, oldest)
