"""Which consumers of one leader have something to be looked at: so that a tick costs what is due, not what is
there.

Besides by its consumer's number a flight is known by what is to become of it: `waiting` if somebody waits for
its messages, `written` if entries of it are not folded, by the read of storage that is under way, and among
the alarms with the tick at which the first of what was delivered may be due again. Each of these may name it
for nothing, and none misses it.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from liftlog.core.consumers.flight import HEAP_MIN, Flight, Lapse
from liftlog.core.consumers.state import Consumer


class Agenda:
    """Of all flights of one leader, by the consumers' numbers."""

    __slots__ = ("_alarms", "_first", "_reading", "flights", "waiting", "written")

    def __init__(self) -> None:
        self.flights: dict[int, Flight] = {}
        self.waiting: dict[int, Flight] = {}
        self.written: dict[int, Flight] = {}
        self._alarms: list[tuple[int, int]] = []
        """(tick, number); stands if `_first` says the same."""
        self._first: dict[int, int] = {}
        """By number: the tick at which it is to be looked at."""
        self._reading: dict[int, Flight] = {}
        """By request."""

    def add(self, flight: Flight) -> None:
        """A consumer is looked at for the first time."""
        self.flights[flight.consumer.number] = flight
        self.set_alarm(flight)

    def remove(self, number: int) -> Flight | None:
        """The consumer is no more."""
        self.waiting.pop(number, None)
        self.written.pop(number, None)
        self._first.pop(number, None)
        return self.flights.pop(number, None)

    def waits(self, flight: Flight) -> None:
        """Somebody waits for its messages."""
        self.waiting[flight.consumer.number] = flight

    def wrote(self, flight: Flight) -> None:
        """An entry was written that says what became of messages, and deadlines were set."""
        self.written[flight.consumer.number] = flight
        self.set_alarm(flight)

    def set_alarm(self, flight: Flight) -> None:
        """Deadlines were set."""
        number, first = flight.consumer.number, flight.first_deadline
        if first is not None and not self._first.get(number, first + 1) <= first:
            self._first[number] = first
            heappush(self._alarms, (first, number))
            if len(self._alarms) > HEAP_MIN and len(self._alarms) > 2 * len(self._first):
                # Who says "not acked" again and again leaves nothing behind.
                self._alarms = [(tick, number) for number, tick in self._first.items()]
                heapify(self._alarms)

    def due(self, now: int) -> list[Flight]:
        """Take those whose first deadline is over at this tick. Whoever has looked sets the alarm anew."""
        found = []
        while self._alarms and self._alarms[0][0] <= now:
            tick, number = heappop(self._alarms)
            if self._first.get(number) == tick:
                del self._first[number]
                found.append(self.flights[number])
        return found

    def reads(self, flight: Flight, request: int, start: int) -> None:
        """Storage is asked for messages of it."""
        flight.reads(request, start)
        self._reading[request] = flight

    def has_read(self, request: int) -> Flight | None:
        """Storage has answered; for whom, if it is for one of these."""
        flight = self._reading.pop(request, None)
        if flight is not None:
            flight.reads(0, flight.start)
        return flight

    def pulls(self) -> int:
        """How many wait."""
        return sum(len(flight.pulls) for flight in self.waiting.values())

    def nobody_waits(self) -> None:
        """Forget those for whose messages nobody waits any more."""
        for number in [number for number, flight in self.waiting.items() if not flight.pulls]:
            del self.waiting[number]

    def folded(self, end: int, lapse: Callable[[Consumer], Lapse]) -> None:
        """The journal is folded up to there."""
        for number, flight in list(self.written.items()):
            flight.folded(end, lapse(flight.consumer))
            self.set_alarm(flight)
            if not flight.is_writing:
                del self.written[number]
