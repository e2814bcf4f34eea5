"""What is published of a message that was delivered for the last time: a dead letter (K9).

    headers   the message's own, but for those that ask something of whoever stores it (`Nats-`, `Liftlog-`),
              and for those of an earlier death; then where it was, and why it is dead
    id        made of which stream, partition, consumer and message it is: each leader publishes it under the
              same, so that a stream that remembers ids stores it once
"""

from __future__ import annotations

from collections.abc import Sequence

from liftlog.core.consumers.state import Consumer
from liftlog.messages import ConsumerConfig
from liftlog.subjects.grammar import matches, publish_problem
from liftlog.types import PartitionId, Record

START = b"NATS/1.0"
ID = "Nats-Msg-Id"
PREFIX = "Dead-Letter-"
ASKING = (b"nats-", b"liftlog-", PREFIX.lower().encode())
"""Names of headers that are left out begin so, in any case of letters."""


def letter_problem(config: ConsumerConfig, listened: Sequence[str]) -> str:
    """Why dead letters cannot go where a consumer says; empty if they can. `listened`: on which subjects its
    partition stores messages.
    """
    subject = config.dead_letter
    if not subject:
        return ""
    problem = publish_problem(subject)
    if problem:
        return f"dead_letter {subject!r}: {problem}"
    meant = not config.patterns or any(matches(pattern, subject) for pattern in config.patterns)
    if meant and any(matches(pattern, subject) for pattern in listened):
        return f"dead_letter {subject!r}: this very consumer would be given them; name another subject"
    return ""


def letter_id(stream: str, partition: PartitionId, consumer: int, offset: int, epoch: int) -> str:
    """The same for whoever publishes it, and for no other message."""
    return f"dead.{stream}.{partition.stream}.{partition.index}.{consumer}.{offset}.{epoch}"


def letter_headers(stream: str, partition: PartitionId, consumer: Consumer, record: Record, id: str) -> bytes:
    """The header block of the dead letter of a record that is dead for this consumer."""
    told = {
        ID: id,
        f"{PREFIX}Stream": stream,
        f"{PREFIX}Partition": str(partition.index),
        f"{PREFIX}Offset": str(record.offset),
        f"{PREFIX}Subject": record.subject.decode("utf-8", "replace"),
        f"{PREFIX}Consumer": consumer.name,
        f"{PREFIX}Deliveries": str(consumer.pending[record.offset]),
        f"{PREFIX}Reason": consumer.dead[record.offset],
    }
    lines = [START, *_kept(record.headers), *(f"{name}: {told[name]}".encode() for name in told)]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _kept(block: bytes) -> list[bytes]:
    """The lines of those headers that say something of the message."""
    lines = [line for line in block.split(b"\r\n")[1:] if line]
    return [line for line in lines if b":" in line and not line.lower().startswith(ASKING)]
