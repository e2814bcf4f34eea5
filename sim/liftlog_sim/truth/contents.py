"""The truth about records: what was written where, what is committed, what compaction may take away.

`PartitionTruth` (`truth/invariants.py`) compares logs by their epochs. That is enough as long as every
copy holds every record. Compaction, retention and repair make copies differ, and a copy may then be judged
only record by record, against everything that was ever appended in its epoch.

A committed record may be missing from a copy for two reasons only: a later committed record has its key, or
it is a tombstone that every replica has compacted past (C1, C2). So, of a copy from its log start to the HW:

    Subsequence          it holds committed records only, unchanged, and lacks only those that may be missing
    FoldPreserved        its last value of each key is the committed one
    NoResurrection       a key whose last committed record is a tombstone has no value
    CompactionHorizon    below its clean point there is one record of each key at most, the last
    TombstoneSafe        a tombstone that is missing lay below the clean point of all replicas at some time,
                         and was kept as long as tombstones are to be kept
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from liftlog.types import EpochStart, Record, RetentionPolicy
from liftlog_sim.devices.copies import DiskCopy


class ContentsFinding(NamedTuple):
    """Which invariant does not hold, and why."""

    invariant: str
    text: str


class Contents:
    """Everything ever appended to one partition, and the committed part of it."""

    __slots__ = (
        "_batches",
        "_last",
        "_passed",
        "_written",
        "clean_points",
        "committed",
        "epochs",
        "safe_below",
    )

    def __init__(self) -> None:
        self._written: dict[int, dict[int, Record]] = {}
        self._batches: dict[tuple[int, int], tuple[int, int]] = {}
        self._last: dict[bytes, int] = {}
        self._passed: list[tuple[int, int]] = []
        """(clean point, time) at which some replica first had compacted so far, ascending."""
        self.committed: list[Record | None] = []
        """By offset. None: below the first offset (C7), or never seen appended, which only a doctored run can
        bring about."""
        self.epochs: list[int] = []
        self.clean_points: dict[int, int] = {}
        self.safe_below = 0
        """All replicas were at some time compacted past this offset."""

    def begins_at(self, first: int) -> None:
        """C7: below this offset nothing ever was."""
        self.committed, self.epochs = [None] * first, [0] * first

    # -- writing and committing ----------------------------------------------------------------------------

    def is_known(self, epoch: int, base: int, count: int, crc: int) -> bool:
        """Whether exactly this batch was looked at before."""
        return self._batches.get((epoch, base)) == (count, crc)

    def appended(self, epoch: int, base: int, count: int, crc: int, records: Iterable[Record]) -> int:
        """Somebody appends a batch. Returns the first offset at which it contradicts the epoch; -1 = none."""
        written = self._written.setdefault(epoch, {})
        for record in records:
            if written.setdefault(record.offset, record) != record:
                return record.offset
        self._batches.setdefault((epoch, base), (count, crc))
        return -1

    def commit(self, history: Iterable[EpochStart], hw: int) -> None:
        """The committed prefix has grown to `hw`, with this epoch history."""
        starts = list(history)
        position = 0
        for offset in range(len(self.committed), hw):
            while position + 1 < len(starts) and starts[position + 1].start <= offset:
                position += 1
            epoch = starts[position].epoch if starts else 0
            record = self._written.get(epoch, {}).get(offset)
            self.committed.append(record)
            self.epochs.append(epoch)
            if record is not None and record.key is not None:
                self._last[record.key] = offset

    # -- what compaction may take --------------------------------------------------------------------------

    def may_be_missing(self, offset: int) -> bool:
        """Whether compaction may have removed this committed record."""
        record = self.committed[offset]
        if record is None or record.key is None:
            return False
        return record.value is None or self._last[record.key] > offset

    def is_last(self, offset: int) -> bool:
        record = self.committed[offset]
        return record is not None and record.key is not None and self._last[record.key] == offset

    def compacted(self, node: int, clean_point: int, replicas: Iterable[int], now_ms: int) -> None:
        """A replica is durably compacted up to `clean_point`."""
        self.clean_points[node] = clean_point
        if not self._passed or clean_point > self._passed[-1][0]:
            self._passed.append((clean_point, now_ms))
        least = min((self.clean_points.get(replica, 0) for replica in replicas), default=0)
        self.safe_below = max(self.safe_below, least)

    def passed_at_ms(self, offset: int) -> int:
        """When the first replica had compacted past an offset; -1 = none has."""
        return next((at for clean_point, at in self._passed if clean_point > offset), -1)

    # -- judging -------------------------------------------------------------------------------------------

    def values(self, start: int, end: int) -> dict[bytes, int]:
        """Offset of the last committed record of each key in [start, end)."""
        found: dict[bytes, int] = {}
        for offset in range(start, min(end, len(self.committed))):
            record = self.committed[offset]
            if record is not None and record.key is not None:
                found[record.key] = offset
        return found

    def judge_records(
        self, offsets: tuple[int, int], copy: DiskCopy, compact: bool
    ) -> ContentsFinding | None:
        """Subsequence: every record of offsets [start, end) is the committed one or may be missing."""
        for offset in range(*offsets):
            found = copy.records.get(offset)
            if found is not None:
                if found != self.committed[offset] or copy.epochs[offset] != self.epochs[offset]:
                    return ContentsFinding(
                        "Subsequence", f"another record than the committed one at offset {offset}"
                    )
            elif not copy.covers(offset, offset + 1):
                return ContentsFinding("Subsequence", f"no batch at offset {offset}")
            elif not compact or not self.may_be_missing(offset):
                return ContentsFinding("Subsequence", f"no record at offset {offset}, which must be kept")
        return None

    def judge_fold(self, start: int, end: int, found: dict[bytes, Record]) -> ContentsFinding | None:
        """FoldPreserved and NoResurrection: `found` = the last record of each key in [start, end).

        A key that has a record behind `end` may have lost all in front of it: a replica that was started
        again knows an older HW than the one up to which it had compacted.
        """
        wanted = self.values(start, end)
        for key, offset in wanted.items():
            right = self.committed[offset]
            assert right is not None
            record = found.get(key)
            if record != right and self._last[key] >= end:
                continue
            if right.value is None:
                if record is not None and record.value is not None:
                    return ContentsFinding(
                        "NoResurrection",
                        f"key {key!r} was deleted at offset {offset}, but has the value of {record.offset}",
                    )
            elif record != right:
                at = "nothing" if record is None else f"that of offset {record.offset}"
                return ContentsFinding(
                    "FoldPreserved", f"key {key!r} has its last value at offset {offset}, found is {at}"
                )
        for key, record in found.items():
            if key not in wanted:
                return ContentsFinding(
                    "NoResurrection", f"key {key!r} has a record at {record.offset} only here"
                )
        return None

    def judge_horizon(self, start: int, clean_point: int, copy: DiskCopy) -> ContentsFinding | None:
        """CompactionHorizon: one record of each key below the clean point."""
        last: dict[bytes, int] = {}
        for offset in range(start, min(clean_point, len(self.committed))):
            record = copy.records.get(offset)
            if record is None or record.key is None:
                continue
            if record.key in last:
                return ContentsFinding(
                    "CompactionHorizon",
                    f"key {record.key!r} is at offsets {last[record.key]} and {offset}, "
                    f"both below the clean point {clean_point}",
                )
            last[record.key] = offset
        return None

    def judge_tombstones(
        self, start: int, end: int, copy: DiskCopy, now_ms: int, retention_ms: int
    ) -> ContentsFinding | None:
        """TombstoneSafe: what was dropped may have been dropped by now."""
        for offset in range(start, end):
            record = self.committed[offset]
            if record is None or record.key is None or record.value is not None:
                continue
            if offset in copy.records or not self.is_last(offset):
                continue
            if offset >= self.safe_below:
                return ContentsFinding(
                    "TombstoneSafe",
                    f"the tombstone at offset {offset} is gone, but no more than {self.safe_below} "
                    f"was compacted by all replicas",
                )
            age_ms = now_ms - self.passed_at_ms(offset)
            if age_ms < retention_ms:
                return ContentsFinding(
                    "TombstoneSafe",
                    f"the tombstone at offset {offset} is gone {age_ms} ms after the first replica "
                    f"compacted past it, it is to be kept for {retention_ms} ms",
                )
        return None

    # -- what retention may take ---------------------------------------------------------------------------

    def judge_retention(
        self, gone: tuple[int, int], settled: int, left_bytes: int, policy: RetentionPolicy, now_ms: int
    ) -> str:
        """RetentionKeeps: whether the policy let offsets [start, end) go; what is wrong, empty = nothing.

        `settled`: what was committed when it was asked for; only that counts as kept, for what follows may be
        cut off. `left_bytes`: what the files hold now, which is at least what of that they held when the
        decision was made. Where a policy has several limits, each alone may let something go, so only what
        none of them can have let go is wrong; nor is what compaction may have taken before.
        """
        start, end = gone
        if policy.retention_messages and settled - end >= policy.retention_messages:
            return ""
        if policy.retention_bytes and left_bytes >= policy.retention_bytes:
            return ""
        for offset in range(start, min(end, len(self.committed))):
            record = self.committed[offset]
            young = record is not None and record.timestamp_ms >= now_ms - policy.retention_ms
            if (policy.retention_ms and not young) or self.may_be_missing(offset):
                continue
            return (
                f"offsets {start}..{end - 1} went by {policy}, but offset {offset} had to stay: "
                f"{settled - end} committed messages and {left_bytes} bytes are left, it is {now_ms}"
                f"{f', the record of {record.timestamp_ms}' if record is not None else ''}"
            )
        return ""


def fold(records: Iterable[Record], start: int, end: int) -> dict[bytes, Record]:
    """The last record of each key among ascending records, within [start, end)."""
    found: dict[bytes, Record] = {}
    for record in records:
        if record.key is not None and start <= record.offset < end:
            found[record.key] = record
    return found
