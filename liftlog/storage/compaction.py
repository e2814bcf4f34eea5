"""Key compaction of one log: of every key the last record stays (C1, C2, C4, C5; KIP-58, KIP-534).

Theory. Below the *clean point* only the last record of every key is left. A *run* moves it forward over
sealed segments whose records are all committed and old enough:

    mapping     read from the clean point on, note the last offset of each key, until the end of what may be
                compacted or until the map is full. That offset, exactly, is the run's `end`: the map knows
                every record below it and none at or above.
    rewriting   go over all segments that begin below `end`, from the log's start, and leave out what the map
                or the tombstones' rule lets go (see `liftlog.storage.thinning`). A segment that loses nothing
                is left alone. What replaces segments is written beside them, synced, and swapped in by
                `Log.replace_sealed`, which is atomic at every call to the disk. Small neighbours become one.
    then        the clean point is `end`, durably. Only now may anybody be told.

A map that filled means another run at once, from there to where the first was to go.

Tombstones (C2). A tombstone may go when no copy of the log holds an older record of its key: all replicas
have compacted past it (the leader's minimum of their clean points), and this replica did so at least
`tombstone_retention_ms` ago, so that a reader who saw the old value had the time to see the deletion (C4).
Since below the clean point a tombstone is the last of its key, nothing below it can rise. How far tombstones
may be gone, `dropped_below`, is durable before the first file without them.

A run is carried out in slices, so that appends never wait long. Everything between slices is memory and may
be thrown away at any time: by truncation, repair, damage, a full disk, a restart. What was swapped in until
then is a correct log, compacted in part; the next run begins anew from the old clean point. Segments that
leave at the front meanwhile do not disturb a run.
"""

from __future__ import annotations

from liftlog.format import read_header
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.ports import Disk
from liftlog.storage.cleanstate import (
    CleanState,
    read_clean_state,
    save_clean_state,
    settled_state,
)
from liftlog.storage.keymap import KeyMap
from liftlog.storage.log import Log
from liftlog.storage.segment import Segment
from liftlog.storage.thinning import Gatherer, judge, note_keys
from liftlog.storage.writer import SegmentWriter
from liftlog.types import Batch, CompactionPolicy, LogOptions, OffsetRange, invariant

SYNC_BYTES = 1024 * 1024
"""What is written is synced at the end of a slice once so much has gathered."""
_READ_BYTES = 256 * 1024
_FORGETTING_BYTES = 64 * 1024
"""What it takes to forget a part of a large map, counted as reading."""


class _Group:
    """Neighbouring segments that one file will replace. Without a writer nothing is lost so far."""

    __slots__ = ("complete", "dropped_end", "gatherer", "segments", "unsynced", "writer")

    def __init__(self, segment: Segment) -> None:
        self.segments = [segment]
        self.writer: SegmentWriter | None = None
        self.gatherer: Gatherer | None = None
        self.dropped_end = 0
        self.unsynced = 0
        self.complete = False
        """All is written and synced."""


class _Run:
    """One run. `goal`: where it is to end if the map does not fill before."""

    __slots__ = (
        "droppable",
        "end",
        "goal",
        "group",
        "keys",
        "mapping",
        "next_offset",
        "position",
        "segment",
        "tombstones_end",
    )

    def __init__(self, clean_point: int, goal: int, droppable: int, map_bytes: int) -> None:
        self.goal = goal
        self.end = goal
        self.droppable = droppable
        self.keys = KeyMap(map_bytes)
        self.mapping = clean_point < goal
        self.next_offset = clean_point if self.mapping else 0
        """What begins here, or holds it, is the next segment to read."""
        self.segment: Segment | None = None
        self.position = 0
        self.group: _Group | None = None
        self.tombstones_end = 0


class Compactor:
    """Compacts one open log, slice by slice. Owned by whoever owns the log."""

    __slots__ = ("_disk", "_goal", "_log", "_mutants", "_on_disk", "_run", "_state", "_thinned")

    def __init__(self, log: Log, disk: Disk, mutants: Mutants = NO_MUTANTS) -> None:
        """Read what earlier runs have left. Raises DiskError."""
        self._log = log
        self._disk = disk
        self._mutants = mutants
        found = read_clean_state(disk, log.id)
        self._state = settled_state(disk, log, found)
        self._on_disk = found is not None
        self._run: _Run | None = None
        self._goal = 0
        """Where a run was to go that ended because its map was full."""
        self._thinned: OffsetRange | None = None

    @property
    def clean_point(self) -> int:
        return self._state.clean_point

    @property
    def dropped_below(self) -> int:
        return self._state.dropped_below

    def step(
        self, policy: CompactionPolicy, below: int, tombstones_below: int, now_ms: int, max_bytes: int
    ) -> bool:
        """One slice: read and judge about `max_bytes`. True = nothing is left to do for now.

        Whatever it raises ends the run, removes what was half written and leaves the log as it is: BadBytes
        for damage, CorruptBatch, UnsupportedBatch, MissingCodec, DiskError, SyncFailed.
        """
        try:
            run = self._run
            if run is None:
                self._stamp(policy, now_ms)
                run = self._run = self._begin(policy, below, tombstones_below, now_ms)
                if run is None:
                    return True
            run.droppable = min(run.droppable, self._droppable(policy, tombstones_below, now_ms))
            while max_bytes > 0:
                worked = self._map_some(run, max_bytes) if run.mapping else self._rewrite_some(run, max_bytes)
                if worked == 0 and not run.mapping:
                    return self._finish(run)
                max_bytes -= worked
            self._sync_some(run)
        except Exception:
            self.abandon()
            raise
        return False

    def take_thinned(self) -> OffsetRange | None:
        """Offsets that the last slice may have swapped a thinner file in for, even if it has failed."""
        taken, self._thinned = self._thinned, None
        return taken

    def abandon(self) -> None:
        """Throw the run away, with what it has half written. Raises DiskError."""
        run, self._run = self._run, None
        if run is not None and run.group is not None and run.group.writer is not None:
            run.group.writer.abandon()

    def lower(self, offset: int, *, cut: bool) -> None:
        """Before records at or above `offset` become others, or are all `cut` off, durably.

        Raises DiskError, SyncFailed.
        """
        self.abandon()
        self._goal = min(self._goal, offset)
        lowered = self._state.lowered(offset, cut=cut)
        if lowered != self._state:
            self._save(lowered)

    def note_copied(self, dropped_below: int) -> None:
        """Before records come from a replica that may have dropped tombstones below an offset, durably (C4).

        Also if that is nothing new: a file that says so tells their holes from those of a lost file.
        """
        if dropped_below > self._state.dropped_below or not self._on_disk:
            self._save(self._state.dropped(dropped_below))

    # ----- when a run begins and ends -----

    def _begin(self, policy: CompactionPolicy, below: int, tombstones_below: int, now_ms: int) -> _Run | None:
        ready = self._ready(policy, below, now_ms)
        if not ready:
            return None
        clean_point = self._state.clean_point
        end = ready[-1].end_offset
        total = sum(segment.size for segment in ready)
        dirty = sum(_bytes_from(segment, clean_point) for segment in ready)
        droppable = self._droppable(policy, tombstones_below, now_ms)
        worth_it = dirty > 0 and dirty * 100 >= policy.dirty_ratio_percent * total
        unfinished = clean_point < min(self._goal, end)
        last_tombstone = self._state.tombstones_end
        freed = 0 < last_tombstone <= min(droppable, end)
        if end < clean_point or not (worth_it or unfinished or freed):
            return None
        return _Run(clean_point, end, droppable, policy.map_bytes)

    def _ready(self, policy: CompactionPolicy, below: int, now_ms: int) -> list[Segment]:
        """The sealed segments, from the first on, that may be compacted: committed, old enough, whole."""
        ready: list[Segment] = []
        damage = self._log.damage
        for segment in self._log.sealed:
            committed = segment.end_offset <= below or self._mutants.compaction_above_hw
            broken = any(one.start < segment.end_offset and segment.base_offset < one.end for one in damage)
            if not committed or broken or segment.greatest_ms > now_ms - policy.min_lag_ms:
                break
            ready.append(segment)
        return ready

    def _droppable(self, policy: CompactionPolicy, tombstones_below: int, now_ms: int) -> int:
        """C2: tombstones below this offset may go."""
        passed = self._state.passed_before(now_ms - policy.tombstone_retention_ms)
        return passed if self._mutants.tombstone_dropped_by_age else min(passed, tombstones_below)

    def _stamp(self, policy: CompactionPolicy, now_ms: int) -> None:
        """C2: a deletion's time runs from when the old values were durably gone.

        A job's time is that of its making, and a slow disk may take seconds to carry it out. The first job
        that was made after a run's end therefore tells the time of that end.
        """
        if self._state.unstamped:
            self._save(self._state.stamped(now_ms, policy.tombstone_retention_ms))

    def _finish(self, run: _Run) -> bool:
        """All is swapped in: what the run has reached becomes durable."""
        end = run.end
        if self._mutants.compaction_checkpoint_at_segment_end and end < run.goal:
            end = next(one.end_offset for one in self._log.sealed if end < one.end_offset)
        self._run = None
        self._save(self._state.advanced(end, run.tombstones_end))
        self._goal = run.goal
        return end >= run.goal

    def _save(self, state: CleanState) -> None:
        save_clean_state(self._disk, self._log.id, state)
        self._state = state
        self._on_disk = True

    # ----- mapping -----

    def _map_some(self, run: _Run, max_bytes: int) -> int:
        """Note the keys of about so many bytes; return how many they were."""
        if run.segment is not None and not self._has(run.segment):
            run.segment = None
        if run.segment is None:
            run.segment = self._next_segment(run, run.goal)
            if run.segment is None:
                self._begin_rewriting(run, run.goal)
                return 1
            run.position = _position_of(run.segment, run.next_offset)
        segment, start = run.segment, run.position
        batches, run.position = self._log.read_segment(segment, start, min(max_bytes, _READ_BYTES))
        for batch in batches:
            header = read_header(batch.data)
            if header.control or batch.end_offset <= self._state.clean_point:
                continue
            full_at = note_keys(run.keys, header, batch.data, self._state.clean_point)
            if full_at < batch.end_offset:
                self._begin_rewriting(run, full_at)
                break
        else:
            self._leave_if_read(run, segment)
        return max(1, run.position - start)

    def _begin_rewriting(self, run: _Run, end: int) -> None:
        run.mapping = False
        run.end = end
        run.next_offset = 0
        run.segment = None

    def _has(self, segment: Segment) -> bool:
        return any(one is segment for one in self._log.sealed)

    def _next_segment(self, run: _Run, end: int) -> Segment | None:
        """The segment that comes next, if it begins below `end`."""
        for segment in self._log.sealed:
            if segment.end_offset > run.next_offset:
                return segment if segment.base_offset < end else None
        return None

    def _leave_if_read(self, run: _Run, segment: Segment) -> None:
        if run.position >= segment.size:
            run.next_offset = segment.end_offset
            run.segment = None

    # ----- rewriting -----

    def _rewrite_some(self, run: _Run, max_bytes: int) -> int:
        """Judge about so many bytes and write what is left of them; 0 = there is nothing any more."""
        if run.group is not None and not self._has(run.group.segments[0]):
            # It left the log at its front.
            self._drop_group(run)
        if run.segment is None:
            segment = self._next_segment(run, run.end)
            if run.group is not None and (run.group.complete or not self._joins(run.group, segment)):
                return self._close_group(run, max_bytes)
            if segment is None:
                return _FORGETTING_BYTES if run.keys.forget_some() else 0
            run.segment = segment
            run.position = 0
            if run.group is None:
                run.group = self._new_group(run, segment)
            else:
                run.group.segments.append(segment)
        segment, group, start = run.segment, run.group, run.position
        assert group is not None
        batches, run.position = self._log.read_segment(segment, start, min(max_bytes, _READ_BYTES))
        worked = max(1, run.position - start)
        if self._rewrite_batches(run, group, batches):
            self._leave_if_read(run, segment)
        else:
            # The first record that goes: now a file is written, from the segment's beginning.
            self._open_writer(group)
            run.position = 0
        return worked

    def _rewrite_batches(self, run: _Run, group: _Group, batches: list[Batch]) -> bool:
        """False if a record goes and nobody writes yet."""
        gatherer = group.gatherer
        for batch in batches:
            header = read_header(batch.data)
            if header.control or batch.base_offset >= run.end:
                if gatherer is not None:
                    gatherer.pass_on(batch)
                continue
            judged = judge(run.keys, header, batch.data, run.end, run.droppable)
            if gatherer is not None:
                gatherer.add(batch, header, judged)
            elif len(judged.kept) < header.records:
                return False
            group.dropped_end = max(group.dropped_end, judged.dropped_end)
            run.tombstones_end = max(run.tombstones_end, judged.tombstones_end)
        if gatherer is not None:
            self._write_ready(group, gatherer)
        return True

    @property
    def _segment_bytes(self) -> int:
        return self._log.options.segment_bytes or LogOptions().segment_bytes

    def _joins(self, group: _Group, segment: Segment | None) -> bool:
        """Whether the segment becomes part of the file that is being written.

        How much of it will be left nobody knows, so the file may become a quarter longer than a segment.
        """
        if group.writer is None or group.gatherer is None or segment is None:
            return False
        written = group.writer.size + group.gatherer.gathered_bytes
        return written + segment.size <= self._segment_bytes * 5 // 4

    def _new_group(self, run: _Run, segment: Segment) -> _Group:
        """A segment that is small, like the one behind it, is written even if it loses nothing."""
        group = _Group(segment)
        limit = self._segment_bytes
        sealed = self._log.sealed
        behind = next((one for one in sealed if one.base_offset == segment.end_offset), None)
        if behind is not None and behind.base_offset < run.end:
            fits = segment.size + behind.size <= limit
            if fits and segment.size <= limit // 2:
                self._open_writer(group)
        return group

    def _open_writer(self, group: _Group) -> None:
        first = group.segments[0]
        group.gatherer = Gatherer(self._log.id)
        group.writer = self._log.segment_writer(first.base_offset)

    def _write_ready(self, group: _Group, gatherer: Gatherer) -> None:
        assert group.writer is not None
        if gatherer.ready:
            before = group.writer.size
            group.writer.append(gatherer.ready)
            group.unsynced += group.writer.size - before
            gatherer.ready = []

    def _sync_some(self, run: _Run) -> None:
        group = run.group
        if group is not None and group.writer is not None and group.unsynced >= SYNC_BYTES:
            group.writer.sync()
            group.unsynced = 0

    def _drop_group(self, run: _Run) -> None:
        group, run.group = run.group, None
        run.segment = None
        run.next_offset = 0
        if group is not None and group.writer is not None:
            group.writer.abandon()

    def _close_group(self, run: _Run, max_bytes: int) -> int:
        """Put what was written in place of what it was written from (D4).

        Each of the three steps syncs, and therefore is a slice of its own.
        """
        group = run.group
        if group is None or group.writer is None or group.gatherer is None:
            run.group = None
            return 1
        if not group.complete:
            group.gatherer.flush()
            self._write_ready(group, group.gatherer)
            group.writer.sync()
            group.complete = True
            return max_bytes
        state = self._state.thinned(run.goal, group.dropped_end)
        if state != self._state:
            self._save(state)
            return max_bytes
        if self._mutants.compaction_swap_not_atomic:
            self._destroy(group.segments)
        self._thinned = OffsetRange(group.segments[0].base_offset, group.segments[-1].end_offset)
        there = self._log.replace_sealed(group.segments, group.writer)
        invariant(there, f"log {self._log.id}: segments went within a slice")
        run.group = None
        return max_bytes

    def _destroy(self, segments: list[Segment]) -> None:
        """The bug of the mutant: what is replaced goes before what replaces it is there."""
        for segment in segments:
            file = self._disk.open(segment.path)
            file.truncate(0)
            file.sync()
            file.close()


def _bytes_from(segment: Segment, offset: int) -> int:
    """Bytes of the segment from about `offset` on. Raises DiskError."""
    return segment.size - _position_of(segment, offset) if offset < segment.end_offset else 0


def _position_of(segment: Segment, offset: int) -> int:
    """Where to begin to read for `offset`. Raises DiskError."""
    if offset <= segment.base_offset:
        return 0
    index = segment.index
    return index.positions[index.find(offset)]
