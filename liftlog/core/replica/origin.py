"""R28, R29: what a copy of an origin says to who leads the partition that copies it."""

from __future__ import annotations

from liftlog.messages import (
    ERR_OFFSET_RANGE,
    FETCH_BELOW_START,
    FETCH_OK,
    ClientReply,
    ErrorReply,
    MirrorFetch,
    MirrorReply,
    ReadReply,
)


def mirror_reply(fetch: MirrorFetch, reply: ClientReply, hw: int, log_start: int) -> MirrorReply | None:
    """What the origin says to a mirror where it says this to a client; None: nothing of use. `hw`,
    `log_start`: its own.
    """
    if isinstance(reply, ReadReply):
        return MirrorReply(
            partition=fetch.mirror,
            offset=fetch.offset,
            status=FETCH_OK,
            hw=max(reply.hw, reply.next_offset),
            log_start=min(reply.log_start, reply.next_offset),
            next_offset=reply.next_offset,
            batches=reply.batches,
            origin=fetch.partition.stream,
        )
    if isinstance(reply, ErrorReply) and reply.code == ERR_OFFSET_RANGE:
        return MirrorReply(
            partition=fetch.mirror,
            offset=fetch.offset,
            status=FETCH_BELOW_START,
            hw=hw,
            log_start=log_start,
            next_offset=fetch.offset,
            batches=[],
            origin=fetch.partition.stream,
        )
    return None
