"""K10: whom of those that pull of a consumer its leader gives messages, where it has a priority (ADR 0091).

    overflow       who has minima waits until so many messages are to come, or so many wait for acks. That is
                   looked at for each message of an answer
    pinned_client  the first that there is a message for is pinned, and is given everything, until it begins
                   no pull for a while, somebody takes that from it, or this leader ends
    prioritized    who says the least number goes first

Nothing of it is written: what is delivered and acked does not depend on who is given it. A pin names the
epoch of the leader that gives it, and no other leader takes it for its own.
"""

from __future__ import annotations

from collections.abc import Callable

from liftlog.core.consumers.flight import Flight
from liftlog.core.consumers.pullroom import Pin, PullTurn, WaitingPull
from liftlog.core.replica.delivering.counting import Counting
from liftlog.core.replica.state.advising import Advisories
from liftlog.core.replica.state.log import LogState
from liftlog.messages import (
    BY_NUMBER,
    BY_OVERFLOW,
    BY_PIN,
    ERR_INVALID,
    ERR_PIN_LOST,
    ERR_PIN_OTHER,
    PIN_MS,
    ErrorReply,
    PullRequest,
)
from liftlog.types import ClientRef

BY_TIMEOUT, BY_ADMIN = "timeout", "admin"
"""Why a client is pinned no more."""

Reply = Callable[[ClientRef, ErrorReply], None]


class Priorities:
    """Of one leader, in one epoch."""

    __slots__ = ("_advisories", "_counting", "_ctx", "_epoch", "_given", "_pinned", "_reply")

    def __init__(
        self, data: LogState, epoch: int, counting: Counting, advisories: Advisories, reply: Reply
    ) -> None:
        self._ctx = data.ctx
        self._epoch = epoch
        self._counting = counting
        self._advisories = advisories
        self._reply = reply
        self._given = 0
        """So many pins."""
        self._pinned: dict[int, Flight] = {}
        """Consumers with somebody pinned, by number."""

    # -- pulls that come --------------------------------------------------------------------------------

    def refusal(self, flight: Flight, request: PullRequest) -> ErrorReply | None:
        """Why a pull may not wait here; None if it may. It may be the one that holds a pin."""
        if problem := pull_problem(flight, request):
            return ErrorReply(ERR_INVALID, problem, False)
        pin = flight.pulls.pin
        if pin is None or not request.pin:
            return None
        if request.pin != pin.id:
            if not request.begins:
                return self._lost(request)
            self._ctx.mark("K10.other")
            text = f"another client is pinned than that of {request.pin!r}: pull without a pin, and wait"
            return ErrorReply(ERR_PIN_OTHER, text, False)
        if request.begins or self._ctx.mutants.pin_held_by_waiting:
            self._ctx.mark("K10.held")
            flight.pulls.pins(pin._replace(until=self._until(flight)))
        return None

    def _lost(self, request: PullRequest) -> ErrorReply:
        self._ctx.mark("K10.lost")
        text = f"the client of {request.pin!r} is pinned no more: pull without a pin"
        return ErrorReply(ERR_PIN_LOST, text, False)

    def _until(self, flight: Flight) -> int:
        return self._ctx.ticks + self._ctx.ticks_of(flight.consumer.config.pin_ms or PIN_MS)

    # -- who is given what there is -----------------------------------------------------------------------

    def turn(self, flight: Flight, again: bool) -> PullTurn | None:
        """Who is given the next messages; None: nobody may have them yet, or it is not counted yet what is to
        come (K8). `again`: they were delivered before.
        """
        priority, first = flight.consumer.config.priority, flight.pulls.first
        if first is None or not self._counting.is_known(flight, first.since):
            return None
        if priority not in (BY_OVERFLOW, BY_PIN):
            return PullTurn(first, first.request.messages)
        for pull in list(flight.pulls):
            if not self._counting.is_known(flight, pull.since):
                return None
            if priority == BY_PIN and self._may_have(flight, pull, again):
                return PullTurn(pull, pull.request.messages)
            if priority == BY_OVERFLOW and (most := self._most(flight, pull.request, again)):
                return PullTurn(pull, most)
        return None

    def _may_have(self, flight: Flight, pull: WaitingPull, again: bool) -> bool:
        """Whether the pin lets it. Who names one that does not hold is told so once there is a message."""
        pin, named = flight.pulls.pin, pull.request.pin
        if self._ctx.mutants.pin_not_looked_at:
            return True
        if named and (pin is None or named != pin.id):
            if again or self._counting.to_come(flight):
                flight.pulls.remove(pull)
                self._reply(pull.client, self._lost(pull.request))
            return False
        if pin is not None and named != pin.id:
            self._ctx.mark("K10.waits")
            return False
        return True

    def _most(self, flight: Flight, request: PullRequest, again: bool) -> int:
        """How many it may be given in one answer, by its minima."""
        least, waiting = request.min_pending, flight.waiting
        if not least and not request.min_ack_pending:
            return request.messages
        # What nobody can count is not there.
        to_come = self._counting.behind(flight) + again
        enough = max(0, to_come - least + 1) if least else 0
        if enough and (again or self._ctx.mutants.minimum_looked_at_once):
            return request.messages
        # With each that it is given one more waits for an ack.
        if request.min_ack_pending and waiting + enough >= request.min_ack_pending:
            return request.messages
        if not enough:
            self._ctx.mark("K10.below")
        return min(request.messages, enough)

    def gives(self, flight: Flight, pull: WaitingPull) -> str:
        """It is given messages: the pin that goes with them."""
        if flight.consumer.config.priority != BY_PIN:
            return ""
        pin = flight.pulls.pin
        if pin is None:
            self._given += 1
            id, since_ms = f"{self._epoch}-{self._given}", self._ctx.wall_ms
            pin = Pin(id, pull.request.group, self._until(flight), since_ms)
            flight.pulls.pins(pin)
            self._pinned[flight.consumer.number] = flight
            self._ctx.mark("K10.pinned")
            self._advisories.pinned(flight, pin)
            # Whoever waits with another pin is never given anything by it.
            for other in [one for one in flight.pulls if one.request.pin]:
                flight.pulls.remove(other)
                self._reply(other.client, self._lost(other.request))
        return pin.id

    # -- pins that end ------------------------------------------------------------------------------------

    def unpin(self, flight: Flight, group: str) -> ErrorReply | None:
        """Somebody wants nobody to be pinned; why not."""
        config = flight.consumer.config
        if config.priority != BY_PIN or group not in config.groups:
            text = f"consumer {flight.consumer.name!r} has no group {group!r} with one client pinned"
            return ErrorReply(ERR_INVALID, text, False)
        self._ends(flight, BY_ADMIN)
        return None

    def tick(self) -> None:
        """Who has begun no pull for so long is pinned no more."""
        for flight in list(self._pinned.values()):
            pin = flight.pulls.pin
            if pin is not None and pin.until <= self._ctx.ticks:
                self._ctx.mark("K10.timeout")
                self._ends(flight, BY_TIMEOUT)

    def _ends(self, flight: Flight, reason: str) -> None:
        pin = flight.pulls.pin
        self._pinned.pop(flight.consumer.number, None)
        if pin is not None:
            flight.pulls.pins(None)
            self._advisories.unpinned(flight, pin, reason)

    def dropped(self, number: int) -> None:
        """The consumer is no more."""
        self._pinned.pop(number, None)


def pull_problem(flight: Flight, request: PullRequest) -> str:
    """What a pull names that this consumer has not; empty if nothing."""
    config = flight.consumer.config
    if config.priority and request.group not in config.groups:
        text = f"group {request.group!r} is none of this consumer"
        return f"{text}: name one of {', '.join(config.groups)}"
    only = {
        "group": (bool(request.group), bool(config.priority)),
        "min_pending": (request.min_pending > 0, config.priority == BY_OVERFLOW),
        "min_ack_pending": (request.min_ack_pending > 0, config.priority == BY_OVERFLOW),
        "priority": (request.priority > 0, config.priority == BY_NUMBER),
        "pin": (bool(request.pin), config.priority == BY_PIN),
    }
    for name, (said, meant) in only.items():
        if said and not meant:
            return f"{name} means nothing to a consumer with priority {config.priority!r}: leave it out"
    return ""
