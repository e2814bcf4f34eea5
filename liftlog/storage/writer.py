"""A new segment file that takes the place of old ones: what compaction and repair write.

It grows under a temporary name, bit by bit, and nothing refers to it until `Log.replace_sealed` puts it in
place. A crash or `abandon` leaves a file that the next start removes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from liftlog.format import PREFIX_BYTES, stamp
from liftlog.ports import Disk
from liftlog.storage.copying import create_empty
from liftlog.storage.index import SegmentIndex
from liftlog.storage.indexes import Indexes
from liftlog.storage.layout import WRITER_SUFFIX
from liftlog.storage.sealing import Sealer
from liftlog.storage.segment import Segment
from liftlog.types import Batch, EpochStart, PartitionId, invariant

_HOLE = b"\0"


class SegmentWriter:
    """Writes batches to `<path>.new.tmp`, beginning at `base_offset`, and builds the index beside.

    Batches must continue one another in offsets and epochs. The records come from a sealed segment, so
    everything below a batch is durable when it is written: that is what its prefix says (R14).
    """

    __slots__ = ("_disk", "_file", "_open", "_sealer", "_segment", "path", "temporary_path")

    def __init__(
        self,
        disk: Disk,
        log: PartitionId,
        path: str,
        base_offset: int,
        sealer: Sealer | None = None,
        indexes: Indexes | None = None,
    ) -> None:
        """`path`: of the segment that this one will be. Raises DiskError."""
        self.path = path
        self.temporary_path = path + WRITER_SUFFIX
        self._disk = disk
        self._sealer = sealer
        self._segment = Segment(log, path, base_offset, indexes or Indexes(disk))
        self._file = create_empty(disk, self.temporary_path)
        self._open = True

    @property
    def base_offset(self) -> int:
        return self._segment.base_offset

    @property
    def end_offset(self) -> int:
        return self._segment.end_offset

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._segment.size

    def append(self, batches: Sequence[Batch]) -> None:
        """Write batches in one vectored write. Raises DiskError, after which only `abandon` is left."""
        segment, sealer = self._segment, self._sealer
        parts: list[bytes | memoryview] = []
        for batch in batches:
            invariant(
                batch.base_offset == segment.end_offset,
                f"log {segment.log}: batch at {batch.base_offset} written at {segment.end_offset}",
            )
            frame = batch.data if sealer is None else sealer.seal(segment.log, batch.data)
            parts.append(stamp(frame, batch.base_offset))
            parts.append(memoryview(frame)[PREFIX_BYTES:])
            segment.add_batch(batch, len(frame))
        if parts:
            self._file.append(parts)

    def leave_hole(self, end: int, epochs: Iterable[EpochStart] = ()) -> None:
        """Offsets up to `end` stay damaged: a byte that is no batch takes their place. Raises DiskError.

        `epochs`: which are known to begin in there.
        """
        self._file.append([_HOLE])
        self._segment.skip_to(self._segment.size + len(_HOLE), end, epochs)

    def sync(self) -> None:
        """Make durable what was written so far. Raises SyncFailed, after which only `abandon` is left."""
        self._file.sync()

    def finish(self) -> tuple[Segment, SegmentIndex]:
        """The last sync; the file may then be put in place. Raises SyncFailed."""
        if self._open:
            self._file.sync()
            self._file.close()
            self._open = False
        return self._segment, self._segment.index

    def abandon(self) -> None:
        """Remove the unfinished file. Raises DiskError."""
        if self._open:
            self._file.close()
            self._open = False
        if self._disk.exists(self.temporary_path):
            self._disk.remove(self.temporary_path)
