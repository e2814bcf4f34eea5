"""Parcels: several records in one message, which become one batch, or nothing (L8).

Where a log ends, where it is cut and what is committed always lies between two batches as their leader wrote
them, here and on every other replica (R2, R6). So what is stored as one batch, under one checksum, is there
as a whole or not at all, and nothing else has to know of parcels. Only of what is committed may there be a
part: for a reader who asked for no more, and behind retention, purge and compaction, as everywhere.

Nobody is believed. The bytes of the records go into the batch as they came, once the head of each has been
looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from liftlog.batchparts import slice_batch
from liftlog.codec import MissingCodec, number_of
from liftlog.core.context import Context
from liftlog.core.metadata.subjects import foreign_to, listened_to
from liftlog.core.replica.publishing.sequencer import compressed
from liftlog.format import HEADER_BYTES, build_batch
from liftlog.messages import ERR_PARCEL, ERR_PARCEL_HERE, ERR_TOO_LARGE
from liftlog.options.headers import BLOCK_END, BLOCK_START, option_in
from liftlog.options.numbered import lines_of
from liftlog.options.wishes import Refusal, Wishes
from liftlog.parcel import (
    HEAD_BYTES,
    BadParcel,
    Parcel,
    ParcelContents,
    ParcelTooLarge,
    addressed,
    checksum_matches,
    plain_records,
    read_parcel_head,
    walk,
    with_lines,
)
from liftlog.types import NO_OFFSET, Batch, Message, PartitionId, StreamConfig


class Decides(Protocol):
    """Asks the guards of a node (`Guards.decides`)."""

    def __call__(self, *conditions: tuple[str, bool]) -> bool: ...


def opened(
    ctx: Context, config: StreamConfig | None, index: int, messages: Sequence[Message], wishes: list[Wishes]
) -> list[Wishes]:
    """The wishes, with what is in their parcels, or why it is not stored."""
    if not any(wish.in_parcel for wish in wishes):
        return wishes
    found = []
    for message, wish in zip(messages, wishes, strict=True):
        if wish.in_parcel and wish.refusal is None:
            parcel = open_parcel(ctx.decides, config, index, message, ctx.config.batch_max_bytes)
            if isinstance(parcel, Refusal):
                ctx.mark("L8.refused")
                wish = wish._replace(refusal=parcel)
            else:
                ctx.mark("L8.opened")
                if wish.numbered is not None and not ctx.mutants.parcel_not_marked:
                    cursor = None if ctx.mutants.parcel_without_cursor else wish.cursor
                    lines = lines_of(wish.numbered, parcel.records, cursor)
                    parcel = Parcel(parcel.records, with_lines(parcel.plain, lines))
                if HEADER_BYTES + len(parcel.plain) > ctx.config.batch_max_bytes:
                    wish = wish._replace(refusal=_too_large(parcel, ctx.config.batch_max_bytes))
                wish = wish._replace(parcel=parcel)
        found.append(wish)
    return found


def open_parcel(
    decides: Decides, config: StreamConfig | None, index: int, message: Message, batch_max_bytes: int
) -> Parcel | Refusal:
    """What is in one parcel, for this partition of the stream of this configuration; or why it is refused."""
    if config is None:
        return Refusal(ERR_PARCEL_HERE, "this leader does not know the stream's subject yet; send it again")
    payload = message.value
    try:
        head = read_parcel_head(payload)
        if not decides(("L8.damaged", checksum_matches(payload))):
            raise BadParcel("its checksum is wrong: it was damaged on its way; send it again")
        plain = plain_records(head, payload, batch_max_bytes - HEADER_BYTES)
        contents = walk(plain, head.records)
        if not decides(("L8.count", contents.end == len(plain))):
            raise BadParcel(f"{len(plain) - contents.end} bytes follow its {head.records} records")
        _check(decides, listened_to(config, index), contents, message.subject)
        bytes_, number = contents.largest
        if bytes_ > config.max_payload_bytes:
            limit = f"the stream's limit of {config.max_payload_bytes} bytes (headers and payload)"
            return Refusal(ERR_TOO_LARGE, f"record {number} of the batch exceeds {limit}")
        if b"" in contents.subjects:
            plain = addressed(plain, head.records, message.subject)
            if HEADER_BYTES + len(plain) > batch_max_bytes:
                raise ParcelTooLarge(f"with their subjects its records are {len(plain)} bytes")
            return Parcel(head.records, plain)
        return Parcel(head.records, plain, head.codec, payload[HEAD_BYTES:])
    except BadParcel as error:
        return Refusal(ERR_PARCEL, f"a batch is refused as a whole: {error}")
    except ParcelTooLarge as large:
        limit = f"this node stores batches of {batch_max_bytes} bytes ([protocol] batch_max_bytes)"
        return Refusal(ERR_PARCEL_HERE, f"{large}, {limit}; send fewer records at once")
    except MissingCodec as missing:
        return Refusal(ERR_PARCEL_HERE, f"{missing}; or send the batch uncompressed")


def _too_large(parcel: Parcel, batch_max_bytes: int) -> Refusal:
    """Of a parcel that its producer's headers (L2) make too large."""
    size = f"with its producer's headers its records are {len(parcel.plain)} bytes"
    limit = f"this node stores batches of {batch_max_bytes} bytes ([protocol] batch_max_bytes)"
    return Refusal(ERR_PARCEL_HERE, f"{size}, {limit}; send fewer records at once")


def _check(decides: Decides, patterns: Sequence[str], contents: ParcelContents, own: bytes) -> None:
    """Raises BadParcel for what a record may not be."""
    for subject, number in contents.subjects.items():
        problem = "" if subject in (own, b"") else foreign_to(patterns, subject)
        if not decides(("L8.subject", not problem)):
            raise BadParcel(f"record {number} has a subject that is not this partition's: {problem}")
    for block, number in contents.headers.items():
        if not (block.startswith(BLOCK_START) and block.endswith(BLOCK_END)):
            raise BadParcel(f"the headers of record {number} are not formed as NATS headers are")
        option = option_in(block)
        if not decides(("L8.options", not option)):
            shown = repr(option[:64].decode("ascii", "backslashreplace"))
            raise BadParcel(f"record {number} has header {shown}, which is not done within a batch")


# -- storing ----------------------------------------------------------------------------------------------

Run = tuple[list[Message], list[Wishes] | None]
"""Messages that become batches together, in the order in which they came."""


def runs(messages: list[Message], wishes: list[Wishes] | None) -> Iterator[Run]:
    """Cut what came at each parcel, and at what opens a run of a processor (L10): each is one of its own."""
    if wishes is None or not any(map(_stands_alone, wishes)):
        yield messages, wishes
        return
    begun = 0
    for place, wish in enumerate(wishes):
        if _stands_alone(wish):
            if begun < place:
                yield messages[begun:place], wishes[begun:place]
            yield messages[place : place + 1], wishes[place : place + 1]
            begun = place + 1
    if begun < len(messages):
        yield messages[begun:], wishes[begun:]


def _stands_alone(wish: Wishes) -> bool:
    return wish.parcel is not None or wish.granted != NO_OFFSET


def parcel_of(wishes: Sequence[Wishes] | None) -> Parcel | None:
    """The parcel that a run is, if it is one."""
    return wishes[0].parcel if wishes else None


def stored(
    log: PartitionId, base_offset: int, epoch: int, timestamp_ms: int, parcel: Parcel, codec: str
) -> Batch:
    """The one batch that a parcel becomes, packed as the stream wants it."""
    packed = codec != "none" and parcel.codec == codec
    batch = build_batch(
        log,
        base_offset,
        epoch,
        [parcel.packed if packed else parcel.plain],
        count=parcel.records,
        first_ms=timestamp_ms,
        last_ms=timestamp_ms,
        attributes=number_of(codec) if packed else 0,
    )
    return batch if packed or codec == "none" else compressed(log, batch, codec)


def halves(log: PartitionId, batch: Batch) -> list[Batch]:
    """The planted bug `parcel_halved`: a parcel is cut as plain messages are that become too many."""
    middle = batch.base_offset + batch.count // 2
    cuts = [(batch.base_offset, middle), (middle, batch.end_offset)]
    return [slice_batch(log, batch, start, end) for start, end in cuts if start < end]
