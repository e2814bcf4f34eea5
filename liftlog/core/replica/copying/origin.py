"""R28, R29: what a copy of an origin says to who leads the partition that copies it."""

from __future__ import annotations

from itertools import pairwise

from liftlog.format import parse_batch
from liftlog.messages import (
    ERR_OFFSET_RANGE,
    ClientReply,
    ErrorReply,
    MirrorFetch,
    MirrorReply,
    ReadReply,
)
from liftlog.messages.copying import below_start, copied
from liftlog.types import Batch, PartitionId


def mirror_reply(fetch: MirrorFetch, reply: ClientReply, hw: int, log_start: int) -> MirrorReply | None:
    """What the origin says to a mirror where it says this to a client; None: nothing of use. `hw`,
    `log_start`: its own.
    """
    copy, offset, origin = fetch.mirror, fetch.offset, fetch.partition.stream
    if isinstance(reply, ReadReply):
        return copied(copy, offset, origin, reply, reply.batches)
    if isinstance(reply, ErrorReply) and reply.code == ERR_OFFSET_RANGE:
        return below_start(copy, offset, origin, hw, log_start)
    return None


def told_batches(origin: PartitionId, reply: MirrorReply) -> list[Batch]:
    """The batches of an answer, which span all of it. Raises LiftlogError, ValueError."""
    frames = [parse_batch(origin, frame) for frame in reply.batches]
    joined = all(one.end_offset == other.base_offset for one, other in pairwise(frames))
    spans = joined and frames[0].base_offset <= reply.offset if frames else False
    if not spans or frames[-1].end_offset != reply.next_offset:
        raise ValueError(f"batches that leave out some of {reply.offset} to {reply.next_offset}")
    return frames
