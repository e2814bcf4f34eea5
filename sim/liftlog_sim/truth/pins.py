"""The truth about whom a leader gives messages where a consumer has a priority (K10), by what clients hear.

    PinnedAlone      a pin is one client's, and one leader's: nobody else is given messages with it; and it is
                     lost when no pull has begun with it for its time, as its leader counts time
    NotBelowMinimum  with the last message of an answer so many were to come yet as its pull wanted
"""

from __future__ import annotations

from typing import NamedTuple

from liftlog.messages import BY_PIN, ConsumerConfig, PullReply, PullRequest
from liftlog_sim.truth.invariants import PartitionTruth, Violation

SLACK_TICKS = 2
"""So much longer a pin may last: a tick has begun when it is given, and it is looked at in a tick."""


class LeaderTime(NamedTuple):
    """By the ticks of the leader that is asked: when a pull was sent, and when its answer was heard. None:
    it does not lead at both ends. `lasts`: for how many a pin holds.
    """

    sent: int | None
    heard: int | None
    lasts: int


class HeldPin:
    """One that somebody was given. `begun`: by its leader's ticks, when it was given, or a pull that began
    with it was answered: it came before that. None: one of these is not answered, or its time is not known.
    """

    __slots__ = ("begun", "under_way")

    def __init__(self, begun: int | None) -> None:
        self.begun = begun
        self.under_way = 0

    def begins(self) -> None:
        """A pull with it is sent."""
        self.under_way += 1

    def answered(self, now: int | None) -> None:
        """And answered; None: nobody knows when it came."""
        self.under_way -= now is not None
        self.begun = now


class PinTruth:
    """Of the consumers of one partition."""

    __slots__ = ("_data", "_held")

    def __init__(self, data: PartitionTruth) -> None:
        self._data = data
        self._held: dict[tuple[int, str], HeldPin] = {}
        """By the consumer's number, and the pin."""

    def asks(self, request: PullRequest) -> None:
        """A client is about to pull."""
        held = self._held.get((request.consumer, request.pin))
        if held is not None and request.begins:
            held.begins()

    def answered(
        self, request: PullRequest, config: ConsumerConfig, reply: object, time: LeaderTime
    ) -> None:
        """It was answered, or nobody waits any more. PinnedAlone, NotBelowMinimum."""
        if isinstance(reply, PullReply) and reply.runs:
            self._not_below(request, reply)
            if config.priority == BY_PIN:
                self._alone(request, reply, time)
        held = self._held.get((request.consumer, request.pin))
        if held is not None and request.begins:
            held.answered(time.heard if reply is not None else None)

    def _not_below(self, request: PullRequest, reply: PullReply) -> None:
        """Of what comes again nobody can tell what was to come then."""
        again = any(count > 1 for _, _, count in reply.runs)
        if not request.min_pending or request.min_ack_pending or reply.to_come < 0 or again:
            return
        self._data.checks["NotBelowMinimum"] += 1
        if reply.to_come + 1 < request.min_pending:
            text = f"it is given {reply.runs}, with {reply.to_come + 1} to come, the last one counted; its"
            raise self._violation("NotBelowMinimum", request, f"{text} pull wanted {request.min_pending}")

    def _alone(self, request: PullRequest, reply: PullReply, time: LeaderTime) -> None:
        self._data.checks["PinnedAlone"] += 1
        named = request.consumer, reply.pin
        held = self._held.get(named)
        if not reply.pin.startswith(f"{reply.epoch}-"):
            text = f"the leader of epoch {reply.epoch} gives messages with pin {reply.pin!r}"
            raise self._violation("PinnedAlone", request, text)
        if held is None:
            self._held[named] = HeldPin(time.heard)
            return
        if request.pin != reply.pin:
            text = f"who names pin {request.pin!r} is given messages with {reply.pin!r}, which is another's"
            raise self._violation("PinnedAlone", request, text)
        if request.begins or held.under_way or held.begun is None or time.sent is None:
            return
        if time.sent - held.begun > time.lasts + SLACK_TICKS:
            text = f"pin {reply.pin!r} holds {time.sent - held.begun} ticks after a pull has begun with it"
            raise self._violation("PinnedAlone", request, f"{text}; it lasts {time.lasts}")

    def _violation(self, name: str, request: PullRequest, text: str) -> Violation:
        return Violation(name, f"partition {self._data.id}, consumer {request.consumer}: {text}")
