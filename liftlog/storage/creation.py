"""How a log comes into being."""

from __future__ import annotations

from liftlog.ports import Disk
from liftlog.storage.copying import create_empty
from liftlog.storage.indexes import Indexes
from liftlog.storage.layout import log_directory, make_directory_durable, segment_path
from liftlog.storage.log import Log
from liftlog.storage.logstate import LogStart, write_start
from liftlog.storage.sealing import Sealer
from liftlog.storage.segment import Segment
from liftlog.types import LogOptions, PartitionId, TailState


def create_log(
    disk: Disk,
    log: PartitionId,
    options: LogOptions,
    sealer: Sealer | None = None,
    indexes: Indexes | None = None,
    start: LogStart | None = None,
) -> Log:
    """A new log, empty from `start` on, durable. Raises DiskError, SyncFailed.

    Whatever an attempt that failed has left is made durable by the next one: it syncs every folder again. The
    `start` file comes last: who finds it knows that the log was there.
    """
    start = start or LogStart(durability=options.durability)
    directory = log_directory(log)
    make_directory_durable(disk, directory)
    indexes = indexes or Indexes(disk)
    segment = Segment(log, segment_path(log, start.log_start), start.log_start, indexes)
    file = create_empty(disk, segment.path)
    disk.sync_directory(directory)
    write_start(disk, log, start)
    return Log(
        disk=disk,
        log=log,
        options=options,
        sealer=sealer,
        indexes=indexes,
        start=start,
        segments=[segment],
        file=file,
        tail=TailState.CLEAN,
    )
