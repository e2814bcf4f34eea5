"""What a leader has asked NATS for: a subscription for each subject of its partition (N1, N10, N11).

Each has a number of its own in the epoch, by which NATS' answers name it: an answer to an earlier one, which
was on its way when the stream was altered, says nothing of those that took its place.

    asked -> confirmed -> given up -> gone

What is given up is drained: NATS sends no more, and what it had sent is taken in before `Drained` comes.
"""

from __future__ import annotations

from liftlog.core.context import Context
from liftlog.core.metadata.subjects import listened_to, queue_of
from liftlog.messages import Drain, Subscribe
from liftlog.types import PartitionId, StreamConfig

ASKED, CONFIRMED, GIVEN_UP = range(3)


class Listening:
    """The subscriptions of one leadership; those that NATS has refused, or lost, are none."""

    __slots__ = ("_ctx", "_epoch", "_limit_bytes", "_log", "_next", "_states", "_subjects", "asked_for")

    def __init__(self, ctx: Context, log: PartitionId, epoch: int) -> None:
        self._ctx = ctx
        self._log = log
        self._epoch = epoch
        self._next = 0
        self._subjects: dict[int, str] = {}
        self._states: dict[int, int] = {}
        self._limit_bytes = 0
        """The largest message that was meant then."""
        self.asked_for: tuple[str, ...] = ()
        """All subjects that were meant when we last asked; empty: we never did."""

    @property
    def whole(self) -> bool:
        """N1: every subject is listened on, and none that was given up may still bring anything."""
        states = self._states.values()
        if self._ctx.mutants.ready_at_first_subject:
            return CONFIRMED in states
        return bool(states) and all(state == CONFIRMED for state in states)

    @property
    def gone(self) -> bool:
        """Nothing more comes."""
        return not self._subjects

    @property
    def giving_up(self) -> bool:
        """Whether something may still come that NATS had sent before it stopped sending it."""
        return GIVEN_UP in self._states.values()

    def are_of(self, config: StreamConfig) -> bool:
        """Whether they were asked for as the stream wants them now."""
        same = self._limit_bytes == config.max_payload_bytes
        return same and self.asked_for == listened_to(config, self._log.index)

    def ask(self, config: StreamConfig) -> None:
        """Give up what is not the stream's any more, then ask for what is missing: in this order, so that
        NATS never has two subscriptions for one message. All of them, if other messages are too large.
        """
        wanted = listened_to(config, self._log.index)
        same, self._limit_bytes = self._limit_bytes == config.max_payload_bytes, config.max_payload_bytes
        self.asked_for = wanted
        kept = set()
        for number, subject in list(self._subjects.items()):
            if self._states[number] == GIVEN_UP:
                continue
            if subject in wanted and same:
                kept.add(subject)
            elif self._ctx.mutants.former_subject_kept:
                self._drop(number)
            else:
                self._drain(number)
        for subject in wanted:
            if subject not in kept:
                self._subscribe(subject, config)

    def _subscribe(self, subject: str, config: StreamConfig) -> None:
        number = self._next
        self._next += 1
        self._subjects[number] = subject
        self._states[number] = ASKED
        self._ctx.effects.append(
            Subscribe(
                partition=self._log,
                epoch=self._epoch,
                subject=subject,
                max_payload_bytes=config.max_payload_bytes,
                ack_reply=config.ack_reply,
                stream=config.name,
                number=number,
                queue="" if self._ctx.mutants.queue_group_ignored else queue_of(config),
            )
        )

    def drain(self) -> None:
        """N3: give up all of them."""
        for number, state in self._states.items():
            if state != GIVEN_UP:
                self._drain(number)

    def _drain(self, number: int) -> None:
        self._states[number] = GIVEN_UP
        self._ctx.effects.append(Drain(self._log, number))

    def confirmed(self, number: int) -> bool:
        """NATS has this one. Whether that is news."""
        if self._states.get(number) != ASKED:
            return False
        self._states[number] = CONFIRMED
        return True

    def refused(self, number: int) -> None:
        """NATS does not have this one."""
        self._drop(number)

    def has(self, number: int) -> bool:
        """Whether it is one of them, given up or not."""
        return number in self._states

    def is_given_up(self, number: int) -> bool:
        """Whether we have asked for its end."""
        return self._states.get(number) == GIVEN_UP

    def drained(self, number: int) -> bool:
        """Nothing more comes of this one. Whether it had been given up."""
        if self._states.get(number) != GIVEN_UP:
            return False
        self._drop(number)
        return True

    def _drop(self, number: int) -> None:
        del self._subjects[number], self._states[number]

    def forget(self) -> None:
        """NATS has none of them any more, or is told so."""
        self._subjects.clear()
        self._states.clear()
