"""A log with keys, and what a reader makes of it: for the tests of compaction and repair."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from liftlog.format import compress, decode_records, encode_records
from liftlog.mutants import NO_MUTANTS
from liftlog.ports import Disk
from liftlog.storage.compaction import Compactor
from liftlog.storage.creation import create_log
from liftlog.storage.log import Log
from liftlog.storage.recovery import recover_log
from liftlog.types import CompactionPolicy, LogOptions, PartitionId, Record
from liftlog_sim.devices.disk import SimDisk

LOG = PartitionId(7, 0)
OPTIONS = LogOptions(segment_bytes=700)
"""A few batches fill a segment."""
EAGER = CompactionPolicy(dirty_ratio_percent=0, tombstone_retention_ms=1000, map_bytes=1 << 16)
START_MS = 1_700_000_000_000
LATER_MS = START_MS + 1_000_000
NO_LIMIT = 1 << 60

Pair = tuple[bytes | None, bytes | None]
"""Key and value."""


def new_log(disk: Disk, options: LogOptions = OPTIONS) -> Log:
    return create_log(disk, LOG, options)


def reopened(disk: Disk, options: LogOptions = OPTIONS) -> Log:
    """The log as a new process opens it after an unclean stop."""
    return recover_log(disk, LOG, options, None, NO_MUTANTS)


def put(
    log: Log,
    pairs: Sequence[Pair],
    *,
    epoch: int = 1,
    codec: str = "none",
    step_ms: int = 10,
    sync: bool = True,
) -> None:
    """Append one batch, synced; record i of the log is `step_ms` younger than record i - 1."""
    records = [
        Record(log.leo + i, START_MS + (log.leo + i) * step_ms, b"s", b"", b"", key, value)
        for i, (key, value) in enumerate(pairs)
    ]
    log.append([compress(LOG, encode_records(LOG, epoch, records), codec)])
    if sync:
        log.sync()


def fill(log: Log, pairs: Iterable[Pair]) -> None:
    """Append pair by pair, a batch each, and complete the segment."""
    for pair in pairs:
        put(log, [pair])
    log.roll()


def keyed(count: int, keys: int, *, seed: int = 1, size: int = 20) -> list[Pair]:
    """Pairs with some tombstones, some empty values and some records without a key."""
    random = Random(seed)
    pairs: list[Pair] = []
    for number in range(count):
        key = b"k%d" % random.randrange(keys) if random.random() < 0.9 else None
        value = random.choice([None, b"", b"%d" % number + b"." * size, b"%d" % number + b"-" * size])
        pairs.append((key, value))
    return pairs


def make(pairs: list[Pair], options: LogOptions = OPTIONS) -> tuple[SimDisk, Log, Compactor]:
    disk = SimDisk(Random(1))
    log = new_log(disk, options)
    fill(log, pairs)
    return disk, log, Compactor(log, disk)


def contents(log: Log) -> dict[int, tuple[int, Record]]:
    """Every record with its epoch, by offset, read in small portions."""
    found: dict[int, tuple[int, Record]] = {}
    offset = log.log_start
    while offset < log.leo:
        for batch in log.read(offset, log.leo, 300):
            assert batch.base_offset <= offset
            for record in decode_records(batch):
                if record.offset >= offset:
                    found[record.offset] = batch.epoch, record
            offset = batch.end_offset
    return found


def fold(records: Iterable[Record], below: int = NO_LIMIT) -> dict[bytes, bytes]:
    """What a reader knows who has read all of them: the last value of each key that was not deleted."""
    state: dict[bytes, bytes] = {}
    for record in records:
        if record.key is None or record.offset >= below:
            continue
        if record.value is None:
            state.pop(record.key, None)
        else:
            state[record.key] = record.value
    return state


def compact(
    log: Log,
    compactor: Compactor,
    *,
    below: int = NO_LIMIT,
    tombstones_below: int = 0,
    now_ms: int = LATER_MS,
    max_bytes: int = 300,
    policy: CompactionPolicy = EAGER,
) -> int:
    """Slice after slice until nothing is left to do; how many it took.

    Twice, since the first job after a run tells since when its offsets are clean (C2).
    """
    slices = 0
    for _ in range(2):
        slices += 1
        while not compactor.step(policy, min(below, log.leo), tombstones_below, now_ms, max_bytes):
            slices += 1
            assert slices < 100_000
    return slices


def check_fold_preserved(
    before: dict[int, tuple[int, Record]],
    after: dict[int, tuple[int, Record]],
    clean_point: int,
    leo: int,
    reached: int = 0,
) -> None:
    """C1: records are the same or gone; whoever reads beyond the clean point knows the same.

    `reached`: where the run ends that is under way.
    """
    assert all(before[offset] == line for offset, line in after.items())
    old = [record for _, record in before.values()]
    new = [record for _, record in after.values()]
    reached = max(reached, clean_point)
    for below in range(reached, leo + 1):
        assert fold(new, below) == fold(old, below), below
    keys = [record.key for record in new if record.key is not None and record.offset < clean_point]
    assert len(keys) == len(set(keys)), "a key has two records below the clean point"
    assert all(offset in after for offset, (_, one) in before.items() if one.key is None)
    assert all(offset in after for offset in before if offset >= reached)
