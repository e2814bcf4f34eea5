"""Batches: several records in one message, stored together or not at all (L8).

One message has one ack, which tells the offset of the first record and how many there are. Nothing is split:
a batch that is too large is an error that names the limit, since of two batches one may be stored alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from liftlog.parcel import BadParcel, ParcelRecord, seal_parcel
from liftlog.types import LiftlogError

BATCH_HEADER = {"Liftlog-Batch": "1"}
_NAME = re.compile(r"[!-9;-~]+")


class BatchRecord(NamedTuple):
    """One record of a batch. `value` None deletes the key. An empty subject: that of the batch."""

    value: bytes | None
    key: bytes | None = None
    headers: Mapping[str, str] | None = None
    subject: str = ""


class BatchMessage(NamedTuple):
    """The message that carries a batch: what a publisher's `send` takes."""

    value: bytes
    headers: dict[str, str]


def batch_message(
    records: Sequence[BatchRecord | bytes], headers: Mapping[str, str] | None = None, codec: str = "none"
) -> BatchMessage:
    """The message with these records, in order; bare bytes are values. `codec`: how they travel, "none",
    "zstd" or "lz4"; they are stored as the stream says. `headers`: of the message, such as those that expect
    an offset.

    Raises LiftlogError for no record, too many, or one that cannot be stored.
    """
    try:
        payload = seal_parcel(list(map(_sent, records)), codec)
    except BadParcel as error:
        raise LiftlogError(f"this batch cannot be sent: {error}") from None
    except UnicodeEncodeError as error:
        text = f"{error.object!r:.64} is no text that can be encoded"
        raise LiftlogError(f"this batch cannot be sent: {text}") from None
    return BatchMessage(payload, {**BATCH_HEADER, **(headers or {})})


def _sent(record: BatchRecord | bytes) -> ParcelRecord:
    if isinstance(record, bytes):
        return ParcelRecord(record)
    value, key, headers, subject = record
    return ParcelRecord(value, key, _block(headers) if headers else b"", subject.encode())


def _block(headers: Mapping[str, str]) -> bytes:
    lines = ["NATS/1.0\r\n"]
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or "\r" in value or "\n" in value:
            raise LiftlogError(f"header {name!r}: {value!r} cannot be sent; use printable text in one line")
        lines.append(f"{name}: {value}\r\n")
    return "".join((*lines, "\r\n")).encode()
