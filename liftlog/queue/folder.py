"""A queue's folder: how it is created, opened, closed and deleted.

    lock                 held by the process that has the queue open
    clean                state file: there exactly while the last close was a clean one
    fronts               state file: the saved front of every group
    encryption           state file: a check value of the key, there once one was used
    streams/<id>/0/      the log; `id` was drawn when the queue was created and is part of every checksum, so
                         that a segment of another queue does not verify here
    quarantine/          bad bytes that a start cut off
    deleted/             only while a deletion is under way

It has the shape of a node's data folder without what makes a node, so that the same recovery, the same
tools and the same page of documentation (docs/log-format.md) hold for both.

Order matters. When a queue is created its log comes before `fronts`, so that a log with items and without
fronts means that the fronts were lost. A deletion begins with one rename, which decides; the next start
finishes it.
"""

from __future__ import annotations

import msgspec

from liftlog.mutants import NO_MUTANTS
from liftlog.ports import Disk
from liftlog.queue.codes import InternalError, InvalidTopic
from liftlog.queue.fronts import FRONTS, Fronts
from liftlog.storage.creation import create_log
from liftlog.storage.indexes import Indexes
from liftlog.storage.layout import (
    CLEAN,
    ENCRYPTION,
    IDENTITY,
    LOCK,
    QUARANTINE,
    ROOT,
    STREAMS,
    VOTE,
    log_directory,
    partitions_on_disk,
)
from liftlog.storage.log import Log
from liftlog.storage.logstate import CleanLog
from liftlog.storage.recovery import recover_log, remove_temporary_files
from liftlog.storage.sealing import Sealer, check_key, note_open_logs
from liftlog.storage.statefile import CorruptState, read_state, write_state
from liftlog.storage.verdict import clear_verdict
from liftlog.types import RAFT_LOG, LogOptions, PartitionId, TailState

DELETED = "deleted"
_ACCEPT = "open it with accept_loss=True to go on with what is left"
_FROM_START = "every group begins at the first item again"


class OpenedQueue(msgspec.Struct):
    """What a start found."""

    log: Log
    fronts: Fronts


def open_folder(
    disk: Disk,
    new_id: int,
    options: LogOptions,
    sealer: Sealer | None,
    *,
    accept_loss: bool,
    take_over_open_logs: bool = False,
) -> OpenedQueue:
    """Lock, read and repair the folder, or make a queue of an empty one. All that is returned is durable.

    `new_id` is used for a new queue. Raises LiftlogError that names the file and the remedy, DiskError.
    """
    disk.lock(LOCK)
    if disk.exists(IDENTITY) or disk.exists(VOTE):
        raise InvalidTopic("the folder is a node's data folder, not a queue's: choose another one")
    remove_temporary_files(disk, ROOT)
    finish_deletion(disk)
    indexes = Indexes(disk)
    open_logs = check_key(disk, sealer, 0, take_over_open_logs)
    if open_logs is not None:
        indexes.open_logs = open_logs
    logs = partitions_on_disk(disk)
    if len(logs) > 1:
        found = ", ".join(log_directory(log) for log in logs)
        raise InvalidTopic(f"the folder holds more than one log ({found}): it is not a queue's")
    if not logs:
        return _create(disk, PartitionId(new_id, 0), options, sealer, indexes, accept_loss)
    opened = _recover(disk, logs[0], options, sealer, indexes, accept_loss)
    if open_logs is None and sealer is not None:
        indexes.open_logs = note_open_logs(disk, sealer, 0, {opened.log.id: opened.log.leo})
    return opened


def close_folder(disk: Disk, log: Log) -> None:
    """Everything is durable: leave the marker that says so. Raises DiskError, SyncFailed."""
    log.write_last_index()
    clear_verdict(disk, log.id)
    marker = CleanLog(log.id, log.durable_leo, log.epochs.as_tuple(), len(log.sealed) + 1)
    write_state(disk, CLEAN, msgspec.msgpack.encode(marker))


def delete_folder(disk: Disk) -> None:
    """Remove the queue, durably; the folder and its lock stay. Crash-safe. Raises DiskError, SyncFailed."""
    if disk.exists(STREAMS):
        disk.rename(STREAMS, DELETED)
    finish_deletion(disk)


def finish_deletion(disk: Disk) -> None:
    """Remove what a deletion left, `deleted` last. Raises DiskError, SyncFailed."""
    if not disk.exists(DELETED):
        return
    # Before anything is removed the rename must be durable: it decides.
    disk.sync_directory(ROOT)
    for name in (CLEAN, FRONTS, ENCRYPTION):
        if disk.exists(name):
            disk.remove(name)
    disk.remove_tree(QUARANTINE)
    disk.sync_directory(ROOT)
    disk.remove_tree(DELETED)
    disk.sync_directory(ROOT)


def _create(
    disk: Disk,
    log: PartitionId,
    options: LogOptions,
    sealer: Sealer | None,
    indexes: Indexes,
    accept_loss: bool,
) -> OpenedQueue:
    if disk.exists(FRONTS) and not accept_loss:
        raise InternalError(
            f"{STREAMS}: the log is missing although the folder was in use; bring it back, or {_ACCEPT}"
        )
    created = create_log(disk, log, options, sealer, indexes)
    fronts = Fronts(disk, {})
    fronts.save({})
    return OpenedQueue(created, fronts)


def _recover(
    disk: Disk,
    log: PartitionId,
    options: LogOptions,
    sealer: Sealer | None,
    indexes: Indexes,
    accept_loss: bool,
) -> OpenedQueue:
    marker = _read_marker(disk, log)
    recovered = recover_log(
        disk=disk, log=log, options=options, clean=marker, mutants=NO_MUTANTS, sealer=sealer, indexes=indexes
    )
    if recovered.tail is TailState.DAMAGED:
        if not accept_loss:
            raise InternalError(
                f"{log_directory(log)}: damaged, items were lost that had been durable; its items end at "
                f"{recovered.leo} now, the bad bytes are in {QUARANTINE}/; {_ACCEPT}"
            )
        clear_verdict(disk, log)
    found = _read_fronts(disk, recovered, accept_loss)
    fronts = found or Fronts(disk, {})
    fronts.settle(recovered.leo, rewrite=marker is None or found is None)
    if disk.exists(CLEAN):
        disk.remove(CLEAN)
        disk.sync_directory(ROOT)
    return OpenedQueue(recovered, fronts)


def _read_marker(disk: Disk, log: PartitionId) -> CleanLog | None:
    """None after an unclean stop. A marker that cannot be read, or is another log's, is none (D3)."""
    try:
        content = read_state(disk, CLEAN)
        marker = None if content is None else msgspec.msgpack.decode(content, type=CleanLog)
    except (CorruptState, msgspec.MsgspecError):
        return None
    return marker if marker is not None and marker.log == log and log != RAFT_LOG else None


def _read_fronts(disk: Disk, log: Log, accept_loss: bool) -> Fronts | None:
    """The saved fronts, all of them within the log; None if there are none. Raises InternalError."""
    try:
        fronts = Fronts.read(disk)
    except InternalError as error:
        if not accept_loss:
            raise InternalError(f"{error}; bring the file back, or {_ACCEPT}: {_FROM_START}") from error
        return None
    if accept_loss:
        return fronts
    if fronts is None and log.leo:
        raise InternalError(
            f"{FRONTS} byte 0: the file is missing although items were stored; bring it back, or "
            f"{_ACCEPT}: {_FROM_START}"
        )
    greatest = max(fronts.saved.values(), default=0) if fronts else 0
    if greatest > log.leo:
        raise InternalError(
            f"{log_directory(log.id)}: items [{log.leo}, {greatest}) had been stored and handed out and are "
            f"gone; bring the files back, or {_ACCEPT}"
        )
    return fronts
