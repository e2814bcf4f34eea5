"""The indexes of all complete segments of a node: loaded when somebody reads, forgotten when memory is short.

An index file is taken if its checksums hold and it describes the segment that is there; else the segment is
scanned, and the file is written again as far as the disk lets us (D3). One cache serves all logs of an
engine.
"""

from __future__ import annotations

from contextlib import suppress

from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.ports import Disk
from liftlog.storage.index import CorruptIndex, SegmentIndex, read_index, write_index
from liftlog.storage.openlogs import EVERYTHING_OPEN
from liftlog.storage.segment import Segment, scan_past_damage
from liftlog.types import PartitionId

CAPACITY_ENTRIES = 1_000_000
"""24 bytes each, so about 24 MB for 4 GB of segments that are read in turn."""


class Indexes:
    """Indexes by the path of their segment, the most recently used last. Bounded by their entries."""

    __slots__ = ("_capacity", "_disk", "_entries", "_loaded", "mutants", "open_logs")

    def __init__(
        self,
        disk: Disk,
        capacity_entries: int = CAPACITY_ENTRIES,
        *,
        mutants: Mutants = NO_MUTANTS,
    ) -> None:
        self.mutants = mutants
        self.open_logs = EVERYTHING_OPEN
        self._disk = disk
        self._capacity = capacity_entries
        self._entries = 0
        self._loaded: dict[str, tuple[Segment, SegmentIndex]] = {}

    def anew(self) -> Indexes:
        """Nothing loaded, and the same batches believed: for a look at what really lies on disk."""
        fresh = Indexes(self._disk)
        fresh.open_logs = self.open_logs
        return fresh

    def get(self, segment: Segment) -> SegmentIndex:
        """The segment's index, from memory, its file or a scan. Raises DiskError, UnsupportedBatch."""
        known = self._loaded.pop(segment.path, None)
        if known is not None and known[0] is segment:
            self._loaded[segment.path] = known
            return known[1]
        if known is not None:
            self._entries -= len(known[1])
        index = self._load(segment) or self.rebuild(segment)
        self.put(segment, index)
        return index

    def put(self, segment: Segment, index: SegmentIndex) -> None:
        """Keep an index that somebody has made."""
        self.forget(segment)
        self._loaded[segment.path] = segment, index
        self._entries += len(index)
        while self._entries > self._capacity and len(self._loaded) > 1:
            oldest = next(iter(self._loaded))
            self._entries -= len(self._loaded.pop(oldest)[1])

    def forget(self, segment: Segment) -> None:
        """The segment is gone, or no longer what it was."""
        known = self._loaded.pop(segment.path, None)
        if known is not None:
            self._entries -= len(known[1])

    def open_below(self, log: PartitionId) -> int:
        """Open batches at or above this offset are not believed."""
        return self.open_logs.below(log)

    def _load(self, segment: Segment) -> SegmentIndex | None:
        try:
            head, index = read_index(self._disk, segment.log, segment.index_path, self.mutants.index_trusted)
        except (CorruptIndex, OSError):
            return None
        return index if head == segment.head else None

    def rebuild(self, segment: Segment) -> SegmentIndex:
        """A new index by scanning the segment, written to its file. Raises DiskError, UnsupportedBatch."""
        found = Segment(segment.log, segment.path, segment.base_offset, self)
        file = self._disk.open(segment.path)
        try:
            scan_past_damage(file, found, 0, segment.end_offset)
        finally:
            file.close()
        index = found.index
        # The file only saves the next start some time: a full disk must not end a read.
        with suppress(OSError):
            write_index(self._disk, segment.log, segment.index_path, segment.head, index)
        return index
