"""What the leader of a partition tells of its consumers (K7, K8): by all that it has written, folded or not.

    position, sequence   behind what was delivered, and how many deliveries there were
    floor, ack_pending   what waits for an ack; what is gone does not, though that is not written off yet
    floor_sequence       so many deliveries wait for no ack. Where acks come in order that is the number of
                         the last delivery before those that do; where they do not it is more
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from liftlog.core.consumers.flight import Flight
from liftlog.core.consumers.state import Consumer
from liftlog.core.replica.delivering.counting import Counting
from liftlog.core.replica.delivering.deadletters import DeadLetters
from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.state.log import LogState
from liftlog.messages import ConsumerInfo
from liftlog.types import ClientRef


def is_gone(offset: int, data: LogState, removed: Removed) -> bool:
    """K7: whether nobody gets it any more."""
    return offset < data.log_start or removed.is_gone(offset)


def info_of(
    consumer: Consumer, flight: Flight, data: LogState, removed: Removed, to_come: int, problem: str
) -> ConsumerInfo:
    """Of one of them. `to_come`: how many messages, as far as is counted. `problem`: of a dead letter."""
    kept = data.ctx.mutants.gone_kept_pending
    pin = flight.pulls.pin
    waiting = [offset for offset in flight.pending() if kept or not is_gone(offset, data, removed)]
    return ConsumerInfo(
        name=consumer.name,
        number=consumer.number,
        config=consumer.config,
        position=flight.ahead,
        floor=waiting[0] if waiting else flight.ahead,
        ack_pending=len(waiting),
        num_pending=to_come,
        sequence=flight.sequence,
        floor_sequence=flight.sequence - len(waiting),
        redelivered=sum(flight.count(offset) > 1 for offset in waiting),
        pulls=len(flight.pulls),
        dead=sum(offset in flight.dead for offset in waiting),
        dead_problem=problem,
        pin=pin.id if pin is not None else "",
        pinned_ms=pin.since_ms if pin is not None else 0,
        delivered_ms=flight.delivered_ms,
        acked_ms=flight.acked_ms,
    )


class InfoAsked(NamedTuple):
    """Somebody asks about one consumer, or about all; `since`: see `Counting.is_known`. At the tick `until`
    it is answered, whatever is counted then.
    """

    client: ClientRef
    name: str
    since: int
    until: int


FlightOf = Callable[[Consumer], Flight | None]


class InfosAsked:
    """Who waits until it is counted what is to come. Of one leader."""

    __slots__ = ("_asked", "_counting", "_data", "_letters", "_removed")

    def __init__(self, counting: Counting, data: LogState, removed: Removed, letters: DeadLetters) -> None:
        self._letters = letters
        self._counting = counting
        self._data = data
        self._removed = removed
        self._asked: list[InfoAsked] = []

    def __len__(self) -> int:
        return len(self._asked)

    def add(self, client: ClientRef, name: str, until: int) -> None:
        """One more; `name` empty: about all."""
        self._asked.append(InfoAsked(client, name, self._counting.questions, until))

    def take(self, flight_of: FlightOf, now: int) -> list[tuple[InfoAsked, list[ConsumerInfo]]]:
        """The answers to those for whom all is counted, and to those that have waited for too long."""
        answers: list[tuple[InfoAsked, list[ConsumerInfo]]] = []
        asked, self._asked = self._asked, []
        for one in asked:
            # In which order they are known depends on where this copy's journal begins.
            found = [each for _, each in sorted(self._removed.consumers.by_number.items())]
            found = [each for each in found if one.name in ("", each.name)]
            flights = [flight_of(each) for each in found]
            known = [flight is None or self._counting.is_known(flight, one.since) for flight in flights]
            if not all(known) and now < one.until:
                self._asked.append(one)
                continue
            infos = [self._info(*each) for each in zip(found, flights, known, strict=True)]
            answers.append((one, infos))
        return answers

    def _info(self, consumer: Consumer, flight: Flight | None, known: bool) -> ConsumerInfo:
        if flight is None:
            flight = Flight(consumer, lambda count: 0, consumer.config.patterns)
        to_come = self._counting.to_come(flight) if known else -1
        problem = self._letters.problem_of(consumer)
        return info_of(consumer, flight, self._data, self._removed, to_come, problem)

    def take_all(self) -> list[ClientRef]:
        """None is left."""
        asked, self._asked = self._asked, []
        return [one.client for one in asked]

    def forget(self, client: ClientRef) -> None:
        """The client's connection is gone."""
        self._asked = [one for one in self._asked if one.client != client]
