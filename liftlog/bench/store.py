"""A storage engine over a folder, as the benchmarks use it: the jobs of a storage thread, one at a time.

Measured is what a node runs, jobs and answers included, only without the thread.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import TracebackType

from liftlog.messages import (
    AppendLog,
    Compacted,
    CompactLog,
    ConfigureLog,
    Durable,
    Event,
    LogOpened,
    LogRead,
    LookupTime,
    OpenLog,
    ReadLog,
    StorageJob,
    TimeFound,
)
from liftlog.real.disk import RealDisk
from liftlog.storage.engine import StorageEngine
from liftlog.types import Batch, CompactionPolicy, LiftlogError, LogOptions, PartitionId, Recovered, Ticket

LOG = PartitionId(1, 0)
FIRST_MS = 1_700_000_000_000
"""Timestamp of the first record."""
NODE = 1


class Store:
    """One engine with one log. Use as a context manager: it is recovered at the start, closed at the end."""

    def __init__(self, folder: Path) -> None:
        self._disk = RealDisk(str(folder))
        self.engine = StorageEngine(self._disk)
        self.recovered: Recovered | None = None
        self.end = 0
        """The LEO."""
        self.handed_over = False
        """Somebody else closes the engine."""

    def __enter__(self) -> Store:
        self.recovered = self.engine.recover(NODE, "bench", 1)
        self.end = max((log.leo for log in self.recovered.logs), default=0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.handed_over:
            self.engine.close(clean=kind is None)
        self._disk.close()

    def create(self, options: LogOptions | None = None) -> None:
        self._one(OpenLog(LOG, options=options or LogOptions()), LogOpened)

    def configure(self, options: LogOptions) -> None:
        self.engine.write([ConfigureLog(LOG, options)])

    def append(self, *batches: Batch) -> None:
        """Append, then sync once."""
        self.engine.write([AppendLog(LOG, list(batches), Ticket(1))])
        (event,) = self.engine.sync()
        if type(event) is not Durable:
            raise LiftlogError(f"the log refused an append: {event}")
        self.end = batches[-1].end_offset

    def read(self, offset: int, max_bytes: int, *, spans: bool) -> LogRead:
        event = self._one(ReadLog(LOG, 1, offset, self.end, max_bytes, spans), LogRead)
        assert isinstance(event, LogRead)
        if event.error:
            raise LiftlogError(f"the log could not be read: {event.error}")
        return event

    def find_time(self, timestamp_ms: int) -> int:
        event = self._one(LookupTime(LOG, 1, timestamp_ms), TimeFound)
        assert isinstance(event, TimeFound)
        return event.offset

    def compact(self, policy: CompactionPolicy, max_bytes: int) -> Compacted:
        """One slice, everything below the LEO being committed and old."""
        event = self._one(compaction_slice(policy, self.end, max_bytes), Compacted)
        assert isinstance(event, Compacted)
        if event.error:
            raise LiftlogError(f"the log could not be compacted: {event.error}")
        return event

    def _one(self, job: StorageJob, kind: type[Event]) -> Event:
        events = self.engine.write([job])
        events += self.engine.sync()
        if len(events) != 1 or type(events[0]) is not kind:
            raise LiftlogError(f"{type(job).__name__} was answered with {events}")
        return events[0]


def compaction_slice(policy: CompactionPolicy, below: int, max_bytes: int) -> CompactLog:
    """The job of one slice, in which nothing is too young."""
    return CompactLog(LOG, policy, below, 0, FIRST_MS + (1 << 40), max_bytes)


@dataclass
class Folders:
    """A new folder for every measurement, removed after it."""

    parent: Path
    _numbers: count[int] = field(default_factory=count)

    @contextmanager
    def new(self) -> Iterator[Path]:
        folder = self.parent / f"{next(self._numbers)}"
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder)
