"""Batches that were decoded a moment ago.

Who is given most of a batch, or a part of one that cannot be copied out of it, is sent the whole batch, and
with the next answer again: decoding it each time would cost a multiple of what it brings.
"""

from __future__ import annotations

from liftlog.format import HEADER_BYTES, decode_records, parse_batch
from liftlog.types import PartitionId, Record


class RecentBatches:
    """At most so many are kept, each up to a mebibyte and its records."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[tuple[PartitionId, bytes], tuple[bytes, dict[int, Record]]] = {}
        """By its header. What has all the same bytes needs no second look, and to compare them takes a
        fraction of what it takes to make a key of them.
        """

    def records(self, partition: PartitionId, frame: bytes) -> dict[int, Record]:
        """Those of a batch, by offset. Raises CorruptBatch."""
        key = partition, frame[:HEADER_BYTES]
        same, records = self._kept.pop(key, (b"", {}))
        if same != frame:
            batch = parse_batch(partition, frame)
            records = {record.offset: record for record in decode_records(batch)}
            while len(self._kept) >= self._most:
                del self._kept[next(iter(self._kept))]
        self._kept[key] = frame, records
        return records
