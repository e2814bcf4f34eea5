"""How logs come into being: one, or many at once.

Most of what a new log costs are syncs of what it shares with others: the folders that it lies in, and the
list of what the disk is known to hold. For logs that are created together each of these is synced once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from liftlog.messages import OpenLog, StorageJob
from liftlog.ports import Disk
from liftlog.storage.copying import create_empty
from liftlog.storage.indexes import Indexes
from liftlog.storage.inventory import Inventory
from liftlog.storage.layout import folders_above, log_directory, make_directory_durable, segment_path
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
    make_directory_durable(disk, log_directory(log))
    return _in_its_folder(disk, log, options, sealer, indexes or Indexes(disk), start)


def openings_together(jobs: Iterable[StorageJob]) -> Iterator[StorageJob | dict[PartitionId, OpenLog]]:
    """The jobs in their order; openings of different logs that follow each other come as one."""
    opening: dict[PartitionId, OpenLog] = {}
    for job in jobs:
        if opening and (not isinstance(job, OpenLog) or job.log in opening):
            yield opening
            opening = {}
        if isinstance(job, OpenLog):
            opening[job.log] = job
        else:
            yield job
    if opening:
        yield opening


def create_logs(
    disk: Disk,
    wanted: Mapping[PartitionId, OpenLog],
    inventory: Inventory,
    sealer: Sealer | None = None,
    indexes: Indexes | None = None,
) -> dict[PartitionId, Log | OSError]:
    """New logs, empty from where each is to begin (C7), durable, and in the inventory (M4); or for each why
    not, a DiskError or SyncFailed.

    A failure belongs to the logs that it concerns: of a shared folder to all in it, of the inventory to all.
    Nobody is to be told of any before this returns. In the order of `wanted`.
    """
    indexes = indexes or Indexes(disk)
    found: dict[PartitionId, Log | OSError] = {}
    synced: dict[str, OSError | None] = {}
    for log in wanted:
        try:
            disk.make_directory(log_directory(log))
        except OSError as error:
            found[log] = error
    for log in wanted:
        if log not in found:
            # Each shared folder is asked to sync once, when all the new names in it are there; and never
            # again after it has failed (R5).
            for folder in folders_above(log_directory(log)):
                if folder not in synced:
                    synced[folder] = _failure_of_sync(disk, folder)
    for log, job in wanted.items():
        failures = [synced[folder] for folder in folders_above(log_directory(log)) if folder in synced]
        failure = next((failure for failure in failures if failure is not None), None)
        if log not in found:
            try:
                if failure is not None:
                    raise failure
                created_log = _in_its_folder(disk, log, job.options, sealer, indexes, None)
                found[log] = created_log if not job.first else _from(created_log, job.first)
            except OSError as error:
                found[log] = error
    created = {log: one for log, one in found.items() if isinstance(one, Log)}
    try:
        inventory.add(created)
    except OSError as error:
        for log, one in created.items():
            one.close()
            found[log] = error
    return {log: found[log] for log in wanted}


def _failure_of_sync(disk: Disk, folder: str) -> OSError | None:
    try:
        disk.sync_directory(folder)
    except OSError as error:
        return error
    return None


def _from(log: Log, first: int) -> Log:
    """C7: a new log, to begin at `first`. Whoever finds it cut short in this finishes it, as any reset."""
    try:
        log.reset(first, ())
    except OSError:
        log.close()
        raise
    return log


def _in_its_folder(
    disk: Disk,
    log: PartitionId,
    options: LogOptions,
    sealer: Sealer | None,
    indexes: Indexes,
    start: LogStart | None,
) -> Log:
    """The files of a new log, whose folder is there. Raises DiskError, SyncFailed."""
    start = start or LogStart(durability=options.durability)
    directory = log_directory(log)
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
