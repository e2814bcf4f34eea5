"""What publishers send in parcels: several values in one message, now and then with something wrong (L8).

A parcel's message is known by the first of its values, in its reply subject too.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from google_crc32c import value as crc32c

from liftlog.parcel import MAGIC, ParcelRecord, seal_parcel
from liftlog_sim.chance.draws import Draws

WRONG_FACTOR = 5
"""So much more often than of a message something is wrong with a parcel: there are fewer of them."""
RECORDS_MAX = 7
CODECS = ("none", "none", "none", "zstd", "lz4")
BATCH_LINE = b"Liftlog-Batch: 1"
BLOCK = b"NATS/1.0\r\nKind: parcel\r\n\r\n"
WRONGS = ("damaged", "short", "count", "subject", "option")
_COUNT = struct.Struct("<H")
_COUNT_POSITION, _CRC_END = 10, 8


def groups(total: int, draws: Draws) -> list[int]:
    """How `total` values are sent: so many in each parcel; 0 = one by itself, not in a parcel."""
    found: list[int] = []
    left = total
    while left:
        size = min(left, draws.randrange(RECORDS_MAX + 1))
        found.append(size)
        left -= max(1, size)
    return found


def parcel(
    values: Sequence[bytes],
    keys: Sequence[bytes | None],
    subject: bytes,
    wrong: bool,
    draws: Draws,
    others: Sequence[bytes] = (),
) -> bytes:
    """The payload of these values. `wrong`: one that is to be refused. `others`: subjects that some of its
    records may have.
    """
    block, own = (BLOCK, subject) if draws.random() < 0.5 else (b"", b"")
    records = [ParcelRecord(value, key, block, own) for value, key in zip(values, keys, strict=True)]
    if others:
        chosen = draws.part("others")
        records = [record._replace(subject=chosen.choice((own, *others))) for record in records]
    codec = draws.choice(CODECS)
    if not wrong:
        return seal_parcel(records, codec)
    kind, place = draws.choice(WRONGS), draws.randrange(len(values))
    if kind == "subject":
        records[place] = records[place]._replace(subject=b"elsewhere.0")
    elif kind == "option":
        records[place] = records[place]._replace(headers=b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n")
    elif kind == "count":
        payload = seal_parcel([*records, *records])
        return _sealed(payload[:_COUNT_POSITION] + _COUNT.pack(len(records)) + payload[_COUNT_POSITION + 2 :])
    payload = seal_parcel(records, codec)
    if kind == "damaged":
        return payload[: _CRC_END - 1] + bytes((payload[_CRC_END - 1] ^ 1,)) + payload[_CRC_END:]
    return payload[:-1] if kind == "short" else payload


def _sealed(payload: bytes) -> bytes:
    """The same with the checksum that fits."""
    return MAGIC + struct.pack("<I", crc32c(payload[_CRC_END:])) + payload[_CRC_END:]
