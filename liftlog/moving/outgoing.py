"""What a message of the origin becomes, and in which packets messages travel.

Most travel in parcels (L8), many in one packet. A parcel's records may have no header on which a leader acts,
so a message with an id, any with a header of that kind, and a large one, travels alone: under its own subject
and with its own header block, its body in Liftbridge's envelope, which says where it is to lie. Either is
stored at its offset or not at all (L6).

Headers that asked the origin for something when the message was published, and that it has done (comparisons,
roll-ups, batches), are left out, as nats-server leaves them out of what it copies. All others stay, byte by
byte, or the message is not moved and it is said why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from liftlog.client.batches import BATCH_HEADER
from liftlog.jetstream.answers import NS_PER_MS, rfc3339
from liftlog.moving.plan import MovePlan, MoveWishes
from liftlog.moving.reading import OriginMessage
from liftlog.options.headers import BLOCK_END, BLOCK_START, option_in, read_block
from liftlog.options.lifetime import taken_by
from liftlog.options.wishes import Terms
from liftlog.parcel import RECORDS_MAX, ParcelRecord, seal_parcel
from liftlog.types import LiftlogError

DONE = (b"Nats-Expected-", b"Nats-Rollup", b"Nats-Batch-")
"""How headers begin that have done what they ask for."""
PARCEL_BYTES = 256 * 1024
"""About so much goes into one. What is greater travels alone: how great a parcel may be is for each node to
say, and messages may be greater.
"""
ENVELOPE_BYTES = 512
"""An envelope counts for the stream's limit of a message, a parcel does not."""


class Outgoing(NamedTuple):
    """A message as the target is to have it. `alone`: it does not travel in a parcel."""

    offset: int
    subject: bytes
    block: bytes
    body: bytes
    alone: bool = False


class Packet(NamedTuple):
    """One message for NATS, with `span` messages from `offset` on. Of one that travels alone `block` is its
    header block; None: `body` is a parcel, on whatever subject it comes. `fills`: its messages only keep the
    place of others.
    """

    offset: int
    span: int
    body: bytes
    subject: str = ""
    block: bytes | None = None
    fills: bool = False


def _lines(block: bytes) -> list[bytes]:
    return block.removesuffix(BLOCK_END).split(b"\r\n")


def copied_block(block: bytes, time_ns: int, wishes: MoveWishes) -> bytes:
    """The header block of a message's copy."""
    if not block and not wishes.time_header:
        return block
    first, *lines = _lines(block or BLOCK_START + BLOCK_END)
    kept = [line for line in lines if not _left_out(line, wishes.left_out)]
    if wishes.time_header:
        kept.append(f"{wishes.time_header}: {rfc3339(time_ns // NS_PER_MS)}".encode())
    if kept == lines:
        return block
    return b"\r\n".join([first, *kept]) + BLOCK_END if kept else b""


def _left_out(line: bytes, names: frozenset[bytes]) -> bool:
    name = line.partition(b":")[0]
    return name.startswith(DONE) or name in names


def outgoing(message: OriginMessage, plan: MovePlan, wishes: MoveWishes) -> Outgoing:
    """What a message becomes. Raises LiftlogError for one that cannot be copied as it is."""
    block = copied_block(message.block, message.time_ns, wishes)
    alone = bool(block) and (bool(option_in(block)) or not _is_formed(block))
    size = len(block) + len(message.body)
    large = PARCEL_BYTES < size <= plan.staged.max_payload_bytes - ENVELOPE_BYTES
    if alone:
        refusal = read_block(block, plan.name, Terms(True, True, taken_by(plan.ready))).refusal
        if refusal is not None:
            raise LiftlogError(
                f"sequence {message.seq} ({message.subject.decode('utf-8', 'replace')}) cannot be moved: "
                f"{refusal.text}; or leave that header out of all copies with --drop-header NAME"
            )
    if message.subject.decode("utf-8", "replace") == plan.packet_subject:
        text = f"sequence {message.seq} has the subject {plan.packet_subject!r}, which is the move's own"
        raise LiftlogError(f"{text}; delete it at the origin")
    return Outgoing(plan.provenance.offset(message.seq), message.subject, block, message.body, alone or large)


def _is_formed(block: bytes) -> bool:
    return block.startswith(BLOCK_START) and block.endswith(BLOCK_END)


def fillers(plan: MovePlan, offset: int, until: int) -> Iterator[Packet]:
    """Packets that take these offsets, up to `until`."""
    subject = plan.packet_subject.encode()
    while offset < until:
        count = min(RECORDS_MAX, until - offset)
        body = seal_parcel([ParcelRecord(b"", subject=subject)] * count)
        yield Packet(offset, count, body, fills=True)
        offset += count


def packets(plan: MovePlan, messages: Iterable[Outgoing], offset: int, until: int) -> Iterator[Packet]:
    """Packets with these messages, from `offset` on and up to `until`, fillers between them."""
    some: list[Outgoing] = []
    size = 0
    for message in messages:
        if message.offset < offset:
            continue
        gap = message.offset > offset
        if some and (gap or message.alone or len(some) == RECORDS_MAX or size >= PARCEL_BYTES):
            yield _parcel(some)
            some, size = [], 0
        yield from fillers(plan, offset, message.offset)
        offset = message.offset + 1
        if message.alone:
            yield Packet(message.offset, 1, message.body, message.subject.decode(), message.block)
        else:
            some.append(message)
            size += len(message.subject) + len(message.block) + len(message.body)
    if some:
        yield _parcel(some)
    yield from fillers(plan, offset, until)


def _parcel(some: Sequence[Outgoing]) -> Packet:
    records = [ParcelRecord(one.body, None, one.block, one.subject) for one in some]
    return Packet(some[0].offset, len(some), seal_parcel(records))


def parcel_headers(expected: dict[str, str]) -> dict[str, str]:
    """The headers of a parcel's packet."""
    return {"Liftlog-Ack": "full", **BATCH_HEADER, **expected}
