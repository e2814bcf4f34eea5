"""R28, R29: what the leader of an origin says to a copy, by what it says to readers."""

from __future__ import annotations

from liftlog.messages.clients import ReadReply
from liftlog.messages.peers import FETCH_BELOW_START, FETCH_OK, MirrorReply
from liftlog.types import PartitionId


def copied(
    copy: PartitionId, offset: int, origin: int, reply: ReadReply, batches: list[bytes]
) -> MirrorReply:
    """What it has from `offset` on, as a reader is told: `batches`, of stream `origin`."""
    return MirrorReply(
        partition=copy,
        offset=offset,
        status=FETCH_OK,
        hw=max(reply.hw, reply.next_offset),
        log_start=min(reply.log_start, reply.next_offset),
        next_offset=reply.next_offset,
        batches=batches,
        origin=origin,
    )


def below_start(copy: PartitionId, offset: int, origin: int, hw: int, log_start: int) -> MirrorReply:
    """Its log begins behind `offset`."""
    return MirrorReply(
        partition=copy,
        offset=offset,
        status=FETCH_BELOW_START,
        hw=hw,
        log_start=log_start,
        next_offset=offset,
        batches=[],
        origin=origin,
    )


def is_meant(copy: int, said: str, found: int) -> bool:
    """Whether the stream of this id, which bears a source's name now, is that source. `said`: which one that
    is (`origins`); empty: it was there when the copy was created, so its id is the lower one.
    """
    return said == f"/{found}" if said else found < copy
