"""What a replica remembers of its compactions: the state file `clean` in a log's folder (C2, C4).

    clean_point      below it only the last record of every key is left; durable after the files it speaks of
    dropped_below    tombstones below it may be gone; durable before the first file without them
    rewritten_below  own runs have thinned nothing at or above it; durable before the first file of a run
    tombstones_end   behind the last tombstone below the clean point
    passed           (offset, wall ms): when the replica had compacted past an offset

The rule C2 asks how long ago a tombstone was compacted past. `passed` answers for a bounded number of
offsets; one that is not in the list takes the time of the next one above, so that forgetting an entry only
makes tombstones live longer.

If the file is lost, nothing is clean, which is true of any log. `dropped_below` must not be forgotten with
it, or a slow reader would miss a deletion (C4). Its witness is the log itself: who drops a record leaves a
segment with fewer records than offsets. So whatever segment has too few counts as a place where tombstones
may be gone. That is the best guess without the file and no more than one: it must not be made while there is
a file, since a reader that begins at a mark that is too high is not told of what is dropped below it later.
Therefore what is copied from a leader that has compacted it brings the leader's mark along, and the file is
there before its holes are.
"""

from __future__ import annotations

import msgspec

from liftlog.ports import Disk
from liftlog.storage.layout import COMPACTED, log_directory
from liftlog.storage.log import Log
from liftlog.storage.statefile import CorruptState, read_state, write_state
from liftlog.types import PartitionId

_STEPS = 32
"""Lines of `passed` are at least so many parts of the retention time apart, which bounds their number."""


class Passed(msgspec.Struct, frozen=True, array_like=True):
    """At `at_ms`, wall clock, the replica had compacted past every offset below `offset`."""

    offset: int
    at_ms: int


class CleanState(msgspec.Struct, frozen=True):
    """The content of the file."""

    clean_point: int = 0
    dropped_below: int = 0
    rewritten_below: int = 0
    tombstones_end: int = 0
    passed: tuple[Passed, ...] = ()

    def passed_before(self, time_ms: int) -> int:
        """Offset below which everything had been compacted past at `time_ms`."""
        return max((one.offset for one in self.passed if one.at_ms <= time_ms), default=0)

    def advanced(self, clean_point: int, tombstones_end: int) -> CleanState:
        """After a run: everything below `clean_point` is clean. `stamped` says since when."""
        return msgspec.structs.replace(self, clean_point=clean_point, tombstones_end=tombstones_end)

    @property
    def unstamped(self) -> bool:
        """Whether the clean point has moved since time was last told."""
        return self.clean_point > max((one.offset for one in self.passed), default=0)

    def stamped(self, now_ms: int, retention_ms: int) -> CleanState:
        """Everything below the clean point is durably clean as of now, or was before."""
        settled = self.passed_before(now_ms - retention_ms)
        passed = [one for one in self.passed if one.offset >= settled]
        if len(passed) > 1 and passed[-1].at_ms - passed[-2].at_ms < retention_ms // _STEPS:
            passed.pop()
        passed.append(Passed(self.clean_point, now_ms))
        return msgspec.structs.replace(self, passed=tuple(passed))

    def thinned(self, below: int, dropped_end: int) -> CleanState:
        """Before a file of a run that touches nothing at or above `below` is put in place."""
        return msgspec.structs.replace(
            self,
            rewritten_below=max(self.rewritten_below, below),
            dropped_below=max(self.dropped_below, dropped_end),
        )

    def dropped(self, end: int) -> CleanState:
        """Tombstones below `end` may be gone."""
        return msgspec.structs.replace(self, dropped_below=max(self.dropped_below, end))

    def lowered(self, offset: int, *, cut: bool) -> CleanState:
        """Records from `offset` on are about to be others: they are not clean. What was dropped stays so.

        `cut`: all of them go, and what comes instead was thinned by somebody else if at all.
        """
        return msgspec.structs.replace(
            self,
            rewritten_below=min(self.rewritten_below, offset) if cut else self.rewritten_below,
            clean_point=min(self.clean_point, offset),
            tombstones_end=min(self.tombstones_end, offset),
            passed=tuple(one for one in self.passed if one.offset <= offset),
        )


def load_clean_state(disk: Disk, log: Log) -> CleanState:
    """What the file says; if it is lost, what the segments show.

    One that speaks of more than the log has is from an earlier log in this folder; it is replaced before this
    log grows so far. Raises DiskError, SyncFailed.
    """
    return settled_state(disk, log, read_clean_state(disk, log.id))


def settled_state(disk: Disk, log: Log, found: CleanState | None) -> CleanState:
    """The same, of what `read_clean_state` has found. Raises DiskError, SyncFailed."""
    if found is None:
        return CleanState().dropped(thinned_end(log))
    if found.clean_point > log.leo:
        found = CleanState()
        save_clean_state(disk, log.id, found)
    return found


def read_clean_state(disk: Disk, log: PartitionId) -> CleanState | None:
    """None if there is no file, or it cannot be read."""
    try:
        content = read_state(disk, _path(log))
        return None if content is None else msgspec.msgpack.decode(content, type=CleanState)
    except (CorruptState, msgspec.MsgspecError, OSError):
        return None


def thinned_end(log: Log) -> int:
    """End of the last segment that lacks records that are not damaged; 0 = none."""
    end = 0
    for segment in (*log.sealed, log.segment_of(log.leo)):
        missing = segment.end_offset - segment.base_offset - segment.records
        for one in log.damage:
            missing -= max(0, min(one.end, segment.end_offset) - max(one.start, segment.base_offset))
        if missing > 0:
            end = segment.end_offset
    return end


def save_clean_state(disk: Disk, log: PartitionId, state: CleanState) -> None:
    """Durably. Raises DiskError, SyncFailed."""
    write_state(disk, _path(log), msgspec.msgpack.encode(state))


def _path(log: PartitionId) -> str:
    return f"{log_directory(log)}/{COMPACTED}"
