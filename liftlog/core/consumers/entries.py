"""What a partition's journal says of its consumers (K1-K8): one entry, one of these, in MessagePack behind a
kind byte of its own; the other kinds stand in `liftlog/core/replica/removal/entries.py`.

A consumer's *number* is where the entry ends that has made it: no other one ever has it. What was delivered
is named with the epochs of the data that wrote it. Where an operator had a leader elected that lacks data,
offsets are given again, and by the epochs it is known from which offset on (`Rewound`).
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, field

from liftlog.messages import PENDING_MAX, ConsumerConfig, Counted, Named, Struct
from liftlog.types import EpochStart, LiftlogError, Line, Number, Word

CONSUMING = 16
"""The kind byte."""
LINE_MAX = 64
"""So many epochs of the data a consumer remembers of what it was given."""

ACKED = "acked"
TERMINATED = "terminated"
AT_LIMIT = "limit"
GONE = "gone"

DeadRun = tuple[Number, Annotated[int, Meta(ge=1, le=PENDING_MAX)], Word]
"""(first offset, number of offsets, why)."""
Line64 = Annotated[list[EpochStart], Meta(max_length=LINE_MAX)]


class UnreadableEntry(LiftlogError):
    """These bytes say nothing of consumers that this liftlog knows."""


class Created(Struct):
    """A consumer that begins at `start`. `line`: the newest epochs of the data before that.

    Below `since` it is given `lasts` alone: of each subject the last message that is not gone by the journal
    below `heeds`. `instead`: the consumer of this name that ends here, whose place it takes: it was reset.
    """

    name: Line
    config: ConsumerConfig
    start: Number
    line: Line64
    lasts: list[Named] = field(default_factory=list)
    since: Number = 0
    heeds: Number = 0
    instead: Number = 0


class Altered(Struct):
    """From here on it has this configuration."""

    consumer: Number
    config: ConsumerConfig


class Delivered(Struct):
    """The position moves to `end`, over data with these epochs; `runs` were delivered, so often."""

    consumer: Number
    end: Number
    line: Line64
    runs: list[Counted]


class Done(Struct):
    """These do not come again; `how`: one of the words above."""

    consumer: Number
    how: Word
    runs: list[Named]


class Dead(Struct):
    """These are delivered no more, and acks of them change nothing: they are pending until they are stored
    where the consumer's dead letters go (K9). `how`: `TERMINATED` or `AT_LIMIT`.
    """

    consumer: Number
    how: Word
    runs: list[Named]


class Rewound(Struct):
    """From `to` on the data are not those that were delivered (R14)."""

    consumer: Number
    to: Number


class ConsumerDeleted(Struct):
    """The consumer is no more."""

    consumer: Number


class SaidAgain(Struct):
    """Where a consumer stands by all that lies below this entry, which the journal may begin at (R21). Who
    knows the consumer knows all that already.
    """

    consumer: Number
    name: Line
    config: ConsumerConfig
    position: Number
    line: Line64
    pending: list[Counted]
    lasts: list[Named] = field(default_factory=list)
    """What it is still to be given below `since`."""
    since: Number = 0
    sequence: Number = 0
    """So many deliveries there were."""
    dead: list[DeadRun] = field(default_factory=list)
    """Which of those that are pending are dead."""


ConsumerEntry = Created | Altered | Delivered | Done | Dead | Rewound | ConsumerDeleted | SaidAgain

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[ConsumerEntry] = msgspec.msgpack.Decoder(ConsumerEntry)


def is_consumers(entry: bytes) -> bool:
    """Whether an entry of a journal is about a consumer."""
    return entry[:1] == bytes([CONSUMING])


def encode_entry(entry: ConsumerEntry) -> bytes:
    """An entry as the journal has it."""
    return bytes([CONSUMING]) + _encoder.encode(entry)


def decode_entry(data: bytes) -> ConsumerEntry:
    """Raises UnreadableEntry."""
    try:
        return _decoder.decode(data[1:])
    except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
        text = f"an entry about consumers cannot be read, or was written by a newer liftlog: {error}"
        raise UnreadableEntry(text) from None
