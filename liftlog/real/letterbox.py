"""Where the answers to a node's dead letters come in (K9): an inbox of this process, whose subjects say which
letter of which leader is meant.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from liftlog.messages import Event, LetterAnswered, PublishLetter
from liftlog.real.nats_wire import letter_problem
from liftlog.types import PartitionId


class LetterBox:
    """`take`: what the node is told with."""

    def __init__(self, take: Callable[[Event], None]) -> None:
        self._take = take
        self._prefix = f"_INBOX.liftlog.{secrets.token_hex(12)}"
        self._failed: list[Event] = []
        self.opened = False
        """Whether anybody listens there: not before the first letter."""

    @property
    def pattern(self) -> str:
        """What to subscribe to."""
        return f"{self._prefix}.*.*.*.*"

    def reply_to(self, letter: PublishLetter) -> bytes:
        """Where a letter is to be answered."""
        partition = letter.partition
        named = partition.stream, partition.index, letter.epoch, letter.token
        return ".".join([self._prefix, *map(str, named)]).encode()

    def answered(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Somebody has answered one; anybody may write to an inbox."""
        try:
            stream, index, epoch, token = map(int, subject.decode().split(".")[-4:])
        except ValueError:
            return
        self._take(LetterAnswered(PartitionId(stream, index), epoch, token, letter_problem(headers, payload)))

    def fail(self, letter: PublishLetter, problem: str) -> None:
        """It cannot be sent; the node is told soon, not within the step that asks for it."""
        self._failed.append(LetterAnswered(letter.partition, letter.epoch, letter.token, problem))

    def tell(self) -> None:
        """Tell the node what could not be sent."""
        failed, self._failed = self._failed, []
        for event in failed:
            self._take(event)
