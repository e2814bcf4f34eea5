"""What limits by number, bytes and age may take of a partition's front (R25), and whether they hold."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from liftlog.sizes import message_bytes
from liftlog.types import Record, StreamConfig
from liftlog_sim.truth.invariants import PartitionTruth

GRACE_MS = 3000
"""For so long a message may be there that is too old: nobody promises how soon it goes."""


class FrontLeast(NamedTuple):
    """The least that a stream was ever to keep: `messages`, `size` in bytes, and for `age_ms`; 0: of this no
    limit was set.
    """

    messages: int = 0
    size: int = 0
    age_ms: int = 0

    def with_(self, config: StreamConfig) -> FrontLeast:
        """And what it is to keep by this configuration."""
        if not config.has_journal:
            return self
        limits = config.retention_messages, config.retention_bytes, config.retention_ms
        both = zip(self, limits, strict=True)
        return FrontLeast(*(min(filter(None, pair), default=0) for pair in both))

    def takes(
        self, offset: int, stamp_ms: int, data: PartitionTruth, gone: Collection[int], ours: Collection[int]
    ) -> bool:
        """Whether a record may go by an entry that was written at that time of its leader's. That names
        `ours`: the last of these may be larger than all that is to stay.
        """
        record = data.contents.committed[offset] if offset < data.hw else None
        if record is None:
            return False
        if self.age_ms and record.timestamp_ms < stamp_ms - self.age_ms:
            return True
        if self.size and size_from(offset, data, set(gone).difference(ours)) > self.size:
            return True
        return self.messages > 0 and _there(offset + 1, data, gone) >= self.messages


def _there(start: int, data: PartitionTruth, gone: Collection[int]) -> int:
    return sum(offset not in gone for offset in range(start, data.hw))


def size_of(record: Record) -> int:
    """What a message counts for."""
    return message_bytes(len(record.subject), len(record.headers), len(record.value or b""))


def size_from(start: int, data: PartitionTruth, gone: Collection[int]) -> int:
    """The bytes of what is there at `start` and above."""
    committed = data.contents.committed[start : data.hw]
    records = (record for offset, record in enumerate(committed, start) if offset not in gone)
    return sum(size_of(record) for record in records if record is not None)


def front_of(start: int, end: int, gone: Collection[int]) -> int:
    """The first offset from `start` on that is not gone; at most `end`."""
    return next((offset for offset in range(start, end) if offset not in gone), end)


def over_front(
    config: StreamConfig, start: int, now_ms: int, data: PartitionTruth, gone: Collection[int]
) -> str:
    """What is wrong with what is left, at `start` and above, by the leader's clock; empty if nothing is."""
    there = _there(start, data, gone)
    if 0 < config.retention_messages < there:
        return f"partition {data.id} is to keep {config.retention_messages} messages; it has {there}"
    size = size_from(start, data, gone)
    if 0 < config.retention_bytes < size:
        return f"partition {data.id} is to keep {config.retention_bytes} bytes; it has {size}"
    first = front_of(start, data.hw, gone)
    record = data.contents.committed[first] if first < data.hw else None
    if record is None or not config.retention_ms:
        return ""
    age_ms = now_ms - record.timestamp_ms
    if age_ms <= config.retention_ms + GRACE_MS:
        return ""
    return f"partition {data.id} keeps messages for {config.retention_ms} ms; offset {first} is {age_ms} old"
