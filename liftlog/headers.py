r"""What the headers of a message from NATS ask for, and whether we can do that (L1, L4).

    Liftlog-Key: customer-17          the record's key; the last record of every key survives compaction
    Liftlog-Tombstone: 1              with a key, any value but an empty one: the record has no value, which
                                      deletes the key
    Liftlog-Ack: full                 the answer says more than JetStream's does
    Nats-Expected-Stream: orders      do not store it in any other stream

Whoever sets a header that asks for something relies on it: a message id against doubles, a time to live, a
comparison before storing. While such a header does not work here, a message that carries it is refused and
not stored, with JetStream's error where it has one that fits. A publisher without a reply subject cannot be
told; its message is not stored either, since what is stored must not depend on who listens for the answer:
half of an atomic batch, or a message that was to vanish after a minute, would stay for ever. Headers that ask
for nothing are stored as they are, and so are those that JetStream itself only reads.

A header block is `NATS/1.0`, perhaps a status, then `Name: value` lines, all ended by CR LF, and an empty
line. JetStream's names count as nats-server counts them: exactly as written, the first of several, and an
empty value is as good as none. Ours count whatever their case. White space around a value does not count. A
block that is not formed like this is stored as it came, unless something in it looks like one of these
headers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from liftlog.messages import (
    ERR_BATCH_DISABLED,
    ERR_COUNTER_DISABLED,
    ERR_HEADER,
    ERR_ROLLUP_DISABLED,
    ERR_SCHEDULE_DISABLED,
    ERR_SOURCE_HEADER,
    ERR_TTL_DISABLED,
    ERR_WRONG_STREAM,
)
from liftlog.types import Message

KEY, TOMBSTONE, ACK = b"liftlog-key", b"liftlog-tombstone", b"liftlog-ack"
OURS = b"liftlog-"
THEIRS = b"Nats-"
EXPECTED_STREAM = b"Nats-Expected-Stream"
FULL_ACK = b"NATS/1.0\r\nLiftlog-Ack: full\r\n\r\n"
"""The header block of a message that only asks for the full ack."""
BLOCK_START = b"NATS/1.0"
BLOCK_END = b"\r\n\r\n"

NOT_HONOURED: tuple[tuple[bytes, str, str], ...] = (
    (b"Nats-Msg-Id", ERR_HEADER, "messages are not deduplicated"),
    (b"Nats-Expected-", ERR_HEADER, "nothing is compared before storing, but the stream's name"),
    (b"Nats-Rollup", ERR_ROLLUP_DISABLED, "rollup is not supported"),
    (b"Nats-TTL", ERR_TTL_DISABLED, "per-message TTL is not supported"),
    (b"Nats-Incr", ERR_COUNTER_DISABLED, "message counters are not supported"),
    (b"Nats-Batch-", ERR_BATCH_DISABLED, "atomic batches are not supported"),
    (b"Nats-Schedule", ERR_SCHEDULE_DISABLED, "message schedules are not supported"),
    (b"Nats-Schedule-", ERR_SCHEDULE_DISABLED, "message schedules are not supported"),
    (b"Nats-Scheduler", ERR_SCHEDULE_DISABLED, "message schedules are not supported"),
    (b"Nats-Stream-Source", ERR_SOURCE_HEADER, "only a stream that copies another one may set it"),
)
"""JetStream's headers on which a publisher relies and that do not work here: name, or a beginning that ends
in "-", code, why.
"""

headers_of = itemgetter(2)
"""The header block of a `Message`."""


class Refusal(NamedTuple):
    """Why a message is not stored: one of the ERR_* codes, and a sentence."""

    code: str
    text: str


class Wishes(NamedTuple):
    """What one message asks for."""

    key: bytes | None = None
    tombstone: bool = False
    full_ack: bool = False
    refusal: Refusal | None = None


NO_WISHES = Wishes()


def read(messages: Sequence[Message], stream: str) -> list[Wishes] | None:
    """The wishes of each message, for the stream of this name; None if no message has headers, as usual."""
    if not any(map(headers_of, messages)):
        return None
    return [_read_block(headers, stream) if headers else NO_WISHES for headers in map(headers_of, messages)]


def asks_full_ack(headers: bytes) -> bool:
    """Whether the answer to this message, a refusal too, may say more than JetStream's would."""
    return bool(headers) and _read_block(headers, "").full_ack


def counted_bytes(message: Message) -> int:
    """What counts for a stream's limit: headers and payload, but not the mere wish for the full ack."""
    return len(message.value) + (len(message.headers) if message.headers != FULL_ACK else 0)


@lru_cache(maxsize=256)
def _read_block(headers: bytes, stream: str) -> Wishes:
    if THEIRS not in headers and OURS not in headers.lower():
        return NO_WISHES
    well_formed = headers.endswith(BLOCK_END)
    first, *lines = headers.removesuffix(BLOCK_END).split(b"\r\n")
    well_formed &= first.partition(b" ")[0] == BLOCK_START
    ours: dict[bytes, bytes] = {}
    theirs: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        well_formed &= bool(colon) and len(name.split()) == 1 and name == name.strip()
        if name.startswith(THEIRS) and colon:
            theirs.setdefault(name, value.strip())
        elif name.lower().startswith(OURS) and colon:
            ours.setdefault(name.lower(), value.strip())
    full_ack = ours.get(ACK) == b"full"
    refusal = _refusal_of_theirs(theirs, stream) or _refusal_of_ours(ours, well_formed)
    key = ours.get(KEY) if well_formed else None
    return Wishes(key, key is not None and bool(ours.get(TOMBSTONE)), full_ack, refusal)


def _refusal_of_theirs(found: dict[bytes, bytes], stream: str) -> Refusal | None:
    for name, value in found.items():
        if not value:
            continue
        if name == EXPECTED_STREAM:
            if value != stream.encode():
                text = f"the message expects stream {_shown(value)}, this is {stream!r}; nothing was stored"
                return Refusal(ERR_WRONG_STREAM, text)
            continue
        for beginning, code, why in NOT_HONOURED:
            if name == beginning or (beginning.endswith(b"-") and name.startswith(beginning)):
                return Refusal(code, f"header {_shown(name)}: {why}; publish without it")
    return None


def _refusal_of_ours(found: dict[bytes, bytes], well_formed: bool) -> Refusal | None:
    if found and not well_formed:
        return Refusal(ERR_HEADER, "the header block is not formed as NATS headers are; correct it")
    for name, value in found.items():
        if name == ACK and value != b"full":
            return Refusal(ERR_HEADER, f"header Liftlog-Ack: {_shown(value)}: the only value is 'full'")
        if name == TOMBSTONE and value and KEY not in found:
            return Refusal(ERR_HEADER, "header Liftlog-Tombstone deletes a key: name it in Liftlog-Key")
        if name not in (KEY, TOMBSTONE, ACK):
            return Refusal(
                ERR_HEADER, f"header {_shown(name)} is none of Liftlog-Key, Liftlog-Tombstone, Liftlog-Ack"
            )
    return None


def _shown(text: bytes) -> str:
    """A name or value from outside, short and printable."""
    return repr(text[:64].decode("ascii", "backslashreplace"))
