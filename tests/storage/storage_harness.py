"""What the storage tests share: an engine on a simulated disk, and short words for jobs and files."""

from __future__ import annotations

import re
from random import Random

from liftlog.format import decode_records, encode_values
from liftlog.messages import (
    AppendLog,
    Durable,
    Event,
    LogOpened,
    LogRead,
    OpenLog,
    ReadLog,
    StorageFailed,
    StorageJob,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.ports import Disk
from liftlog.storage.engine import StorageEngine
from liftlog.storage.log import StorageOptions
from liftlog.types import BEGINNING, Batch, HardState, LogOptions, LogSummary, PartitionId, Recovered, Ticket
from liftlog_sim.devices.disk import SimDisk

LOG = PartitionId(7, 0)
OTHER = LOG.journal
"""The other log of the same partition (R21): what holds of two logs holds of these two."""
SMALL_LOG = LogOptions(segment_bytes=600)
"""A few batches fill a segment."""
SMALL = StorageOptions(log=SMALL_LOG)


def new_disk(seed: int = 0) -> SimDisk:
    return SimDisk(Random(seed))


def start(
    disk: Disk, mutants: Mutants = NO_MUTANTS, options: StorageOptions = SMALL
) -> tuple[StorageEngine, Recovered]:
    engine = StorageEngine(disk, options, mutants)
    return engine, engine.recover(1, "disk-1", 99)


def given_up(disk: SimDisk, why: str) -> SimDisk:
    """M4: a start on a copy of this disk gives up what it had of the metadata group, for this reason, and
    keeps all else; the copy. The disk stays as it is.
    """
    copy = new_disk()
    copy.restore(disk.image())
    streams = [path for path in copy.files() if path.startswith("streams/") and path.endswith(".log")]
    _, recovered = start(copy)
    assert re.search(why, recovered.renewed), recovered.renewed
    assert recovered.hard_state == HardState()
    assert (recovered.raft_entries, recovered.raft_base, recovered.snapshot) == ([], BEGINNING, None)
    assert recovered.identity.vote_id and not recovered.identity.renewing
    assert [path for path in copy.files() if path.startswith("streams/") and path.endswith(".log")] == streams
    copy.kill()
    _, again = start(copy)
    assert not again.renewed and again.identity == recovered.identity
    copy.kill()
    return copy


def restart(disk: SimDisk, mutants: Mutants = NO_MUTANTS) -> tuple[StorageEngine, Recovered]:
    """The process is killed and a new one starts."""
    disk.kill()
    return start(disk, mutants)


def batch(base: int, values: list[bytes], epoch: int = 1, log: PartitionId = LOG) -> Batch:
    return encode_values(log, base, epoch, 1000 + base, values)


def append(base: int, values: list[bytes], ticket: int, epoch: int = 1, log: PartitionId = LOG) -> AppendLog:
    return AppendLog(log, [batch(base, values, epoch, log)], Ticket(ticket))


def run(engine: StorageEngine, *jobs: StorageJob) -> list[Event]:
    """One group, both phases."""
    return engine.write(jobs) + engine.sync()


def open_log(log: PartitionId = LOG, fresh: bool = False, options: LogOptions = SMALL_LOG) -> OpenLog:
    return OpenLog(log, fresh, options)


def opened(
    engine: StorageEngine, log: PartitionId = LOG, fresh: bool = False, options: LogOptions = SMALL_LOG
) -> LogSummary:
    (event,) = run(engine, open_log(log, fresh, options))
    assert isinstance(event, LogOpened), event
    return event.summary


def store(engine: StorageEngine, count: int, base: int = 0, epoch: int = 1, size: int = 60) -> None:
    """Append `count` batches of one record, each synced on its own."""
    for offset in range(base, base + count):
        events = run(engine, append(offset, [b"%d" % offset + b"." * size], offset + 1, epoch))
        assert events == [Durable(Ticket(offset + 1))], events


def values(engine: StorageEngine, log: PartitionId = LOG, offset: int = 0) -> list[bytes]:
    """All values from `offset` on, read job by job."""
    found: list[bytes] = []
    while True:
        (event,) = run(engine, ReadLog(log, 1, offset, 1 << 60, 300))
        assert isinstance(event, LogRead), event
        assert event.error == "", event.error
        if not event.batches:
            return found
        for one in event.batches:
            found += [r.value or b"" for r in decode_records(one) if r.offset >= offset]
        offset = event.batches[-1].end_offset


def durable(*tickets: int) -> list[Event]:
    return [Durable(Ticket(ticket)) for ticket in tickets]


def failures(events: list[Event]) -> list[tuple[int, bool]]:
    """(ticket, sync) of every failure."""
    return [(event.ticket, event.sync) for event in events if isinstance(event, StorageFailed)]


def segments(disk: SimDisk, log: PartitionId = LOG) -> list[str]:
    folder = f"streams/{log.stream}/{log.label}/"
    return [path for path in disk.files() if path.startswith(folder) and path.endswith(".log")]


def quarantined(disk: SimDisk) -> list[str]:
    return [path for path in disk.files() if path.startswith("quarantine/")]
