"""Answers whose batches still lie in files, for doors that cannot send files.

A read of cold data is answered with *spans*: stretches of whole batches in the log's files, which the TCP
door sends without looking at them. What arrives is one stretch of frames instead of one frame an item;
`frames` cuts it where the frames' own lengths say so. A damaged length spoils the cut, and with it the
checksums of what follows: the reader notices and asks again with `ReadRequest.verify`.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from liftlog.format import CorruptBatch, frame_bytes, parse_batch
from liftlog.messages import ReadReply, SpannedRead
from liftlog.messages.filespan import FileSpan
from liftlog.types import NO_OFFSET, Batch


def frames(data: bytes) -> Iterator[bytes]:
    """The frames that lie in `data`, one after the other; the last is whatever cannot be cut further."""
    position = 0
    while position < len(data):
        try:
            end = position + frame_bytes(data, position)
        except CorruptBatch:
            end = len(data)
        end = min(end, len(data))
        yield data[position:end] if end - position < len(data) else data
        position = end


def batches_of(reply: ReadReply, offset: int) -> Iterator[Batch]:
    """The batches of an answer to a read from `offset`, in a row. The first begins where the server says that
    it does, and not above `offset`; each continues the one before.

    Raises CorruptBatch for what is damaged, and for a whole batch of this log that lies in the place of
    another one: a misdirected write (D1). Who asks again with `ReadRequest.verify` gets what was looked at.
    """
    due = min(reply.first_offset, offset)
    if reply.first_offset > offset:
        raise CorruptBatch(f"an answer begins at {reply.first_offset} where {offset} belongs")
    for item in reply.batches:
        for frame in frames(item):
            batch = parse_batch(reply.partition, frame)
            if due == NO_OFFSET:
                due = min(batch.base_offset, offset)
            if batch.base_offset != due:
                raise CorruptBatch(f"offset {batch.base_offset} lies where {due} belongs")
            yield batch
            due = batch.end_offset


def filtered_batches_of(reply: ReadReply) -> Iterator[Batch]:
    """The batches of an answer to a filtered read (S2): in order, with gaps between them, and all below where
    was looked. Raises CorruptBatch.
    """
    end = 0
    for item in reply.batches:
        batch = parse_batch(reply.partition, item)
        if not end <= batch.base_offset < batch.end_offset <= reply.next_offset:
            where = f"[{batch.base_offset}, {batch.end_offset})"
            raise CorruptBatch(f"offsets {where} lie not between {end} and {reply.next_offset}")
        yield batch
        end = batch.end_offset


def release(read: SpannedRead) -> None:
    """Close the files of an answer that nobody will send."""
    for span in read.spans:
        span.file.close()


def materialize(read: SpannedRead) -> ReadReply:
    """The answer with its batches read from the files, which are closed. Raises DiskError.

    A file that ends early gives a frame that is cut short, which does not verify.
    """
    try:
        batches = [frame for span in read.spans for frame in frames(_bytes_of(span))]
    finally:
        release(read)
    return msgspec.structs.replace(read.reply, batches=batches)


def _bytes_of(span: FileSpan) -> bytes:
    return span.file.read_at(span.position, span.length)
