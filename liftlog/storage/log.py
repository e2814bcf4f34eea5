"""One open log: a row of segments, of which the last one grows.

Theory. `leo` is the next offset to write and `durable_leo` how far a sync is known to have reached; only
the latter may be reported (R5). Each append stamps `durable_leo` into its batches as `synced_below`, which
later tells damage from a torn write (R14). Segments before the last are synced before the next one is
created, so only the last can hold bytes that are not durable.

After a sync failed nothing that follows the last good one can be trusted, and trying again would succeed
without doing anything. The log then carries a `failure` and refuses everything until it is rebuilt from a
copy (R5). A refused *write* is different: what it wrote is cut off and the log goes on (D5). Appends that
were meant to follow the refused one are recognised by their base offset and refused as well, so that no gap
can arise.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from liftlog.epochs import EpochHistory
from liftlog.format import (
    PREFIX_BYTES,
    CorruptBatch,
    decode_records,
    encode_records,
    last_timestamp_ms,
    parse_batch,
    stamp,
)
from liftlog.ports import Disk, DiskFile, SyncFailed
from liftlog.storage.copying import create_empty, replace_segment
from liftlog.storage.layout import (
    log_directory,
    make_directory_durable,
    segment_bases,
    segment_name,
)
from liftlog.storage.segment import BadBytes, Segment, scan
from liftlog.storage.verdict import remember_verdict
from liftlog.types import Batch, InvariantViolation, LogSummary, PartitionId, TailState


class StorageOptions(msgspec.Struct, frozen=True):
    """Limits of storage. `segment_bytes`: a log begins a new file before one grows beyond this."""

    segment_bytes: int = 64 * 1024 * 1024


class Failure(msgspec.Struct, frozen=True):
    """Why a log refuses work. `sync`: for good, until it is rebuilt (R5)."""

    sync: bool
    error: str


class AppendRefused(Exception):
    """An append that would leave a gap, because the one before it was refused."""


class Log:
    """An open log. Only the storage thread may touch it."""

    def __init__(
        self,
        disk: Disk,
        log: PartitionId,
        options: StorageOptions,
        segments: list[Segment],
        file: DiskFile,
        epochs: EpochHistory,
        tail: TailState,
    ) -> None:
        """Take over segments that were scanned and are durable; `file` is the last one's."""
        self.id = log
        self.tail = tail
        self.failure: Failure | None = None
        self.dirty = False
        self._disk = disk
        self._options = options
        self._directory = log_directory(log)
        self._segments = segments
        self._file = file
        self._epochs = epochs
        self._refused = ""
        self.leo = segments[-1].end_offset
        self.durable_leo = self.leo

    @property
    def log_start(self) -> int:
        return self._segments[0].base_offset

    def summary(self, hw: int) -> LogSummary:
        """What the core is told when the log was opened."""
        return LogSummary(self.id, self.log_start, self.durable_leo, hw, self._epochs.as_tuple(), self.tail)

    # ----- writing -----

    def append(self, batches: Sequence[Batch]) -> None:
        """Write batches at the LEO, in one vectored write; they are durable after `sync`.

        Raises AppendRefused after an earlier append was refused, DiskError if the write was refused and cut
        off again, SyncFailed if the log cannot go on, InvariantViolation if the batches do not continue the
        log.
        """
        leo = self.leo
        last_epoch = self._epochs.last()
        synced_below = self.durable_leo
        parts: list[bytes | memoryview] = []
        total = 0
        for batch in batches:
            if batch.base_offset != leo:
                if self._refused and batch.base_offset > leo:
                    raise AppendRefused(f"an earlier append was refused: {self._refused}")
                raise InvariantViolation(f"log {self.id}: batch at {batch.base_offset} appended at LEO {leo}")
            if batch.epoch < last_epoch:
                raise InvariantViolation(f"log {self.id}: epoch {batch.epoch} appended after {last_epoch}")
            data = batch.data
            parts.append(stamp(data, synced_below))
            parts.append(memoryview(data)[PREFIX_BYTES:])
            total += len(data)
            leo += batch.count
            last_epoch = batch.epoch
        active = self._segments[-1]
        if active.size and active.size + total > self._options.segment_bytes:
            active = self._roll()
        self._write(active, parts)
        for batch in batches:
            active.add(batch.base_offset, batch.count, len(batch.data), last_timestamp_ms(batch.data))
            self._epochs.note(batch.epoch, batch.base_offset)
        self.leo = leo
        self.dirty = True
        self._refused = ""

    def _write(self, active: Segment, parts: list[bytes | memoryview]) -> None:
        try:
            position = self._file.append(parts)
        except OSError as error:
            self._refused = str(error)
            try:
                self._file.truncate(active.size)
            except OSError as second:
                text = f"{error}; what it had written could not be cut off: {second}"
                raise SyncFailed(second.errno, text) from second
            raise
        if position != active.size:
            raise InvariantViolation(f"{active.path}: written at {position}, not {active.size}")

    def _roll(self) -> Segment:
        """Close the last segment, durably, and begin a new one. Raises DiskError, SyncFailed."""
        self.sync()
        segment = Segment(f"{self._directory}/{segment_name(self.leo)}", self.leo)
        try:
            file = create_empty(self._disk, segment.path)
        except OSError as error:
            self._refused = str(error)
            raise
        try:
            self._disk.sync_directory(self._directory)
        except OSError:
            file.close()
            raise
        self._file.close()
        self._file = file
        self._segments.append(segment)
        return segment

    def sync(self) -> None:
        """Make everything appended so far durable. Raises SyncFailed."""
        if self.dirty:
            self._file.sync()
            self.dirty = False
            self.durable_leo = self.leo

    def fail(self, failure: Failure) -> None:
        """Refuse everything from now on."""
        self.failure = failure
        self.dirty = False

    def truncate(self, offset: int) -> None:
        """Remove everything at or above `offset`, durably. Raises DiskError, SyncFailed, BadBytes.

        Crash-safe: segments go from the last to the first, each removal durable before the next; a batch that
        `offset` divides is encoded anew in a copy of its segment. A crash in between leaves a longer prefix.
        """
        if offset >= self.leo:
            return
        offset = max(offset, self.log_start)
        while self._segments[-1].base_offset > offset:
            self._drop_last_segment()
        segment = self._segments[-1]
        if offset < segment.end_offset:
            number = segment.find(offset)
            if segment.offsets[number] == offset:
                self._file.truncate(segment.positions[number])
                self._file.sync()
                segment.keep(number)
            else:
                self._rewrite_up_to(segment, number, offset)
        self._epochs.truncate(offset)
        self.leo = self.durable_leo = segment.end_offset
        self.dirty = False
        self._refused = ""

    def _drop_last_segment(self) -> None:
        self._file.close()
        self._disk.remove(self._segments[-1].path)
        self._disk.sync_directory(self._directory)
        self._segments.pop()
        self._file = self._disk.open(self._segments[-1].path)

    def _rewrite_up_to(self, segment: Segment, number: int, offset: int) -> None:
        """Keep the records of batch `number` below `offset`; followers and voters may cut inside a batch."""
        batch = self._read_batches(segment, number, number + 1)[0]
        kept = encode_records(self.id, batch.epoch, decode_records(batch)[: offset - batch.base_offset])
        prefix = stamp(kept.data, min(self.durable_leo, kept.base_offset))
        size = segment.positions[number]
        tail: list[bytes | memoryview] = [prefix, memoryview(kept.data)[PREFIX_BYTES:]]
        file = replace_segment(self._disk, segment.path, size, tail=tail)
        self._file.close()
        self._file = file
        segment.keep(number)
        segment.add(kept.base_offset, kept.count, len(kept.data), last_timestamp_ms(kept.data))

    def close(self) -> None:
        self._file.close()

    # ----- reading -----

    def read(self, offset: int, limit: int, max_bytes: int) -> list[Batch]:
        """Whole, verified batches from the one that holds `offset`, all below `limit`.

        At least one if one is there, else about `max_bytes`. Raises BadBytes if the first of them is
        damaged or lies below the log's start, DiskError.
        """
        if offset < self.log_start:
            raise BadBytes(self._directory, 0, f"offset {offset} lies below the log start {self.log_start}")
        found: list[Batch] = []
        limit = min(limit, self.leo)
        while offset < limit and max_bytes > 0:
            segment = self._segment_of(offset)
            first = segment.find(offset)
            after = self._last_in_budget(segment, first, limit, max_bytes, bool(found))
            if after <= first:
                break
            try:
                batches = self._read_batches(segment, first, after)
            except BadBytes:
                if not found:
                    raise
                break
            found += batches
            max_bytes -= segment.end_of(after - 1) - segment.positions[first]
            if found[-1].end_offset < segment.end_offset:
                break
            offset = segment.end_offset
        return found

    def _last_in_budget(self, segment: Segment, first: int, limit: int, max_bytes: int, strict: bool) -> int:
        """Number after the last batch that ends at or below `limit` and within the bytes."""
        after = len(segment.offsets)
        if limit < segment.end_offset:
            after = bisect_right(segment.offsets, limit) - 1
        end = segment.positions[first] + max_bytes
        if after and segment.end_of(after - 1) > end:
            within = bisect_right(segment.positions, end) - 1
            after = min(after, within if strict else max(first + 1, within))
        return after

    def find_time(self, timestamp_ms: int) -> int:
        """First offset whose timestamp is at or after the time, else the LEO. Raises BadBytes, DiskError."""
        for segment in self._segments:
            number = segment.find_time(timestamp_ms)
            if number is not None:
                batch = self._read_batches(segment, number, number + 1)[0]
                for record in decode_records(batch):
                    if record.timestamp_ms >= timestamp_ms:
                        return record.offset
        return self.leo

    def _segment_of(self, offset: int) -> Segment:
        index = bisect_right(self._segments, offset, key=_base_offset) - 1
        return self._segments[index]

    def _read_batches(self, segment: Segment, first: int, after: int) -> list[Batch]:
        """Batches [first, after) of a segment, verified up to the first damaged one. Raises BadBytes."""
        start = segment.positions[first]
        length = segment.end_of(after - 1) - start
        if segment is self._segments[-1]:
            data = self._file.read_at(start, length)
        else:
            file = self._disk.open(segment.path)
            try:
                data = file.read_at(start, length)
            finally:
                file.close()
        batches: list[Batch] = []
        for number in range(first, after):
            at = segment.positions[number] - start
            try:
                batch = parse_batch(self.id, data[at : segment.end_of(number) - start])
                if batch.base_offset != segment.offsets[number]:
                    raise CorruptBatch(f"holds offset {batch.base_offset}, not {segment.offsets[number]}")
            except CorruptBatch as error:
                if not batches:
                    raise BadBytes(segment.path, start + at, str(error)) from error
                break
            batches.append(batch)
        return batches

    # ----- rebuilding (R5) -----

    def rebuild(self, keep_below: int) -> Log:
        """A new log over a durable copy of what is good below `keep_below`; this one is to be forgotten.

        Its tail is DAMAGED if anything was cut; that is remembered if it was to be kept (R14). Raises
        DiskError, SyncFailed, LiftlogError.
        """
        self._file.close()
        had = self.leo
        segments: list[Segment] = []
        epochs = EpochHistory()
        keep_below = max(keep_below, self.log_start)
        for old in self._segments:
            if old.base_offset > keep_below:
                break
            segment = Segment(old.path, old.base_offset)
            segments.append(segment)
            file = self._disk.open(segment.path)
            bad = scan(file, self.id, segment, epochs, payloads=True)
            file.close()
            if bad is not None or segment.end_offset < old.end_offset:
                break
        if segments[-1].end_offset < min(keep_below, had):
            # The next start would find a shorter log without a bad byte: it must know better.
            remember_verdict(self._disk, self.id, TailState.DAMAGED, rewrite=True)
        self._remove_segments_after(segments[-1].base_offset)
        file = replace_segment(
            self._disk, segments[-1].path, segments[-1].size, checksum=segments[-1].checksum
        )
        rebuilt = Log(self._disk, self.id, self._options, segments, file, epochs, TailState.INTACT)
        rebuilt.truncate(keep_below)
        if rebuilt.leo < had:
            rebuilt.tail = TailState.DAMAGED
        return rebuilt

    def _remove_segments_after(self, base_offset: int) -> None:
        """Remove files behind the segment, the last first, also one that a failed roll left behind."""
        for later in reversed(segment_bases(self._disk, self._directory)):
            if later > base_offset:
                self._disk.remove(f"{self._directory}/{segment_name(later)}")
                self._disk.sync_directory(self._directory)


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def create_log(disk: Disk, log: PartitionId, options: StorageOptions) -> Log:
    """A new, empty log, durable. Raises DiskError, SyncFailed.

    Whatever an attempt that failed has left is made durable by the next one: it syncs every folder again.
    """
    directory = log_directory(log)
    make_directory_durable(disk, directory)
    segment = Segment(f"{directory}/{segment_name(0)}", 0)
    file = create_empty(disk, segment.path)
    disk.sync_directory(directory)
    return Log(disk, log, options, [segment], file, EpochHistory(), TailState.CLEAN)
