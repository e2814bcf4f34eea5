"""R28, R29: what the leader of an origin says to a copy, by what it says to readers."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import UNSET

from liftlog.messages.clients import ReadReply
from liftlog.messages.peers import FETCH_BELOW_START, FETCH_OK, MirrorReply
from liftlog.types import PartitionId, StreamConfig

AT = "@"
"""Before what the nodes' configurations call another cluster, behind a stream's name (R28)."""
MS = "ms"
"""Behind a time, where an offset may stand too."""


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


class Elsewhere(NamedTuple):
    """A stream's name, and that of its cluster."""

    stream: str
    cluster: str

    def __str__(self) -> str:
        return f"{self.stream}{AT}{self.cluster}"


def elsewhere(name: str) -> Elsewhere | None:
    """What a name says of another cluster; None: it is of this one."""
    stream, at, cluster = name.rpartition(AT)
    return Elsewhere(stream, cluster) if at else None


def is_meant(copy: int, said: str, found: int) -> bool:
    """Whether the stream of this id, which bears a source's name now, is that source. `said`: which one that
    is (`origins`); empty: it was there when the copy was created, so its id is the lower one.
    """
    return said == f"/{found}" if said else found < copy


class Start(NamedTuple):
    """Where a copy begins with what it copies: nothing of a lower offset, or an earlier time, is taken."""

    offset: int = 0
    time_ms: int = 0

    def __str__(self) -> str:
        return f"{self.time_ms}{MS}" if self.time_ms else str(self.offset)


def start_of(text: str) -> Start | None:
    """`4711`, an offset, or `1764300000000ms`, a time; None: neither."""
    digits = text.removesuffix(MS)
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 16:
        return None
    return Start(time_ms=int(digits)) if text != digits else Start(offset=int(digits))


def start_in(config: StreamConfig, name: str) -> Start:
    """What a copy's configuration says of an origin that it calls so."""
    said = {} if config.starts is UNSET else dict(config.starts)
    return start_of(said.get(name, "0")) or Start()
