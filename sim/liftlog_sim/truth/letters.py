"""The truth about dead letters (K9): which are committed, of which messages, and whether these are dead.

    DeadLettersStored    a message that was delivered for the last time, by a consumer with dead letters, is
                         pending until its letter is committed; that is there once, and there is none of a
                         message of which it was not committed before that it is dead
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from liftlog.options.headers import stored_id
from liftlog.types import PartitionId, Record
from liftlog_sim.truth.invariants import Violation

MARK = b"Dead-Letter-Offset: "


def is_letter(record: Record) -> bool:
    """Whether it is the letter of a message; its value is that of the message, which was sent before."""
    return MARK in record.headers


class DeadMessage(NamedTuple):
    """Of which consumer of which partition, by number, and where it lies there; `epoch`: who wrote it."""

    partition: PartitionId
    consumer: int
    offset: int
    epoch: int


class LetterTruth:
    """Of one world: in which partition, and where, the letter of each dead message lies."""

    __slots__ = ("stored",)

    def __init__(self) -> None:
        self.stored: dict[DeadMessage, tuple[PartitionId, int]] = {}

    def grown(self, log: PartitionId, records: Iterable[Record | None]) -> Sequence[DeadMessage]:
        """These are committed now: those that are letters. Raises Violation(DeadLettersStored)."""
        found = []
        for record in records:
            if record is None or not is_letter(record):
                continue
            named = (stored_id(record.headers) or b"").decode().split(".")
            stream, index, consumer, offset, epoch = map(int, named[-5:])
            message = DeadMessage(PartitionId(stream, index), consumer, offset, epoch)
            before = self.stored.setdefault(message, (log, record.offset))
            if before != (log, record.offset):
                text = f"the letter of {message} is committed at {before}, and at {(log, record.offset)}"
                raise Violation("DeadLettersStored", text)
            if f"Dead-Letter-Offset: {offset}".encode() not in record.headers.split(b"\r\n"):
                raise Violation("DeadLettersStored", f"the letter of {message} says {record.headers!r}")
            found.append(message)
        return found
