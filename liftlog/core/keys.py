r"""Keys of messages: what compaction goes by (L1, C1), taken from two NATS headers on the way in.

    Liftlog-Key: customer-17          the record's key; the last record of every key survives compaction
    Liftlog-Tombstone: 1              with a key, any value but an empty one: the record has no value, which
                                      deletes the key

A header block is `NATS/1.0`, perhaps a status, then `Name: value` lines, all ended by CR LF, and an empty
line. Names count whatever their case, the first of several equal ones wins, white space around a value does
not count. A block that is not formed like this gives no key: the message is stored as it came. An empty key
is a key. The headers themselves are stored unchanged.

Messages without headers, the usual ones, cost one look at each batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from liftlog.format import encode_messages, encode_records
from liftlog.types import Batch, Message, PartitionId, Record

KEY_HEADER = b"liftlog-key"
TOMBSTONE_HEADER = b"liftlog-tombstone"
BLOCK_START = b"NATS/1.0"
BLOCK_END = b"\r\n\r\n"

_headers_of = itemgetter(2)


def encode(
    log: PartitionId, base_offset: int, epoch: int, timestamp_ms: int, messages: Sequence[Message]
) -> Batch:
    """Encode messages from NATS, with the keys that their headers name. Raises ValueError like
    `liftlog.format.encode_messages`.
    """
    if not any(map(_headers_of, messages)):
        return encode_messages(log, base_offset, epoch, timestamp_ms, messages)
    keys = [key_of(message.headers) for message in messages]
    if all(key is None for key, _ in keys):
        return encode_messages(log, base_offset, epoch, timestamp_ms, messages)
    records = [
        Record(base_offset + place, timestamp_ms, subject, reply, headers, key, None if tombstone else value)
        for place, ((subject, reply, headers, value), (key, tombstone)) in enumerate(
            zip(messages, keys, strict=True)
        )
    ]
    return encode_records(log, epoch, records)


def key_of(headers: bytes) -> tuple[bytes | None, bool]:
    """(key, whether the message is a tombstone) by a header block; (None, False) without a key."""
    if KEY_HEADER not in headers.lower():
        return None, False
    first, *lines = headers.removesuffix(BLOCK_END).split(b"\r\n")
    if not headers.endswith(BLOCK_END) or first.partition(b" ")[0] != BLOCK_START:
        return None, False
    found: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or len(name.split()) != 1 or name != name.strip():
            return None, False
        found.setdefault(name.lower(), value.strip())
    key = found.get(KEY_HEADER)
    return key, key is not None and bool(found.get(TOMBSTONE_HEADER))
