"""The snapshot of the metadata group on disk: one file, replaced as a whole (M1p).

`raft/snapshot` is a row of batches like a segment, with one record each: the first is `[version, index, term,
chunks]`, batch i holds chunk i - 1 of the snapshot and spans offset i; its epoch is the term of the last
entry that went in. They belong to the log [0, 1], which does not exist, so that no batch of the file can be
taken for one of a log, nor the other way round. Checksums, newer versions and encryption are those of
batches.

The file is never written in place: new content is synced under another name, renamed over the old, and the
folder is synced. So the name holds one snapshot, the old one or the new, and whatever else is found there is
damage (M4). A newer version of it is told from damage (U3).
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from liftlog.format import CorruptBatch, decode_values, encode_values, frame_bytes, verify_frame
from liftlog.messages import InstallSnapshot
from liftlog.ports import Disk
from liftlog.storage.checkpoints import HwCheckpoints
from liftlog.storage.layout import SNAPSHOT, TEMPORARY_SUFFIX, parent
from liftlog.storage.log import Log
from liftlog.storage.sealing import Sealer
from liftlog.storage.sectors import read_sturdily
from liftlog.storage.statefile import CorruptState
from liftlog.types import EpochStart, LiftlogError, Number, PartitionId, Snapshot

SNAPSHOT_LOG = PartitionId(0, 1)
"""Whose batches the file holds."""
VERSION = 1


class InstallationCut(Exception):
    """The snapshot is in place, but the log could not be begun anew behind it."""


class _Head(msgspec.Struct, frozen=True, array_like=True):
    version: Annotated[int, Meta(ge=1)]
    index: Number
    term: Number
    chunks: Number


class SnapshotFile:
    """The file, and one that is about to take its place."""

    __slots__ = ("_disk", "_path", "_sealer", "_temporary", "prepared")

    def __init__(self, disk: Disk, sealer: Sealer | None, path: str = SNAPSHOT) -> None:
        self._disk = disk
        self._sealer = sealer
        self._path = path
        self._temporary = path + TEMPORARY_SUFFIX
        self.prepared = False
        """A snapshot lies in the temporary file, not yet synced: the write phase of a group is over."""

    def prepare(self, snapshot: Snapshot) -> None:
        """Write the temporary file, over an earlier one. Raises DiskError."""
        disk, temporary = self._disk, self._temporary
        self.prepared = False
        if disk.exists(temporary):
            disk.remove(temporary)
        file = disk.open(temporary, create=True)
        try:
            file.append(_frames(self._sealer, snapshot))
        finally:
            file.close()
        self.prepared = True

    def commit(self) -> None:
        """Sync it and put it in place, durably. Raises DiskError, SyncFailed."""
        self.prepared = False
        file = self._disk.open(self._temporary)
        try:
            file.sync()
        finally:
            file.close()
        self._disk.rename(self._temporary, self._path)
        self._disk.sync_directory(parent(self._path))


def _frames(sealer: Sealer | None, snapshot: Snapshot) -> list[bytes | memoryview]:
    head = msgspec.msgpack.encode(_Head(VERSION, snapshot.index, snapshot.term, len(snapshot.chunks)))
    frames: list[bytes | memoryview] = []
    for number, value in enumerate((head, *snapshot.chunks)):
        data = encode_values(SNAPSHOT_LOG, number, snapshot.term, 0, [value]).data
        frames.append(data if sealer is None else sealer.seal(SNAPSHOT_LOG, data))
    return frames


def write_snapshot(disk: Disk, sealer: Sealer | None, snapshot: Snapshot, path: str = SNAPSHOT) -> None:
    """Put a snapshot in place of the one before, durably. Raises DiskError, SyncFailed."""
    file = SnapshotFile(disk, sealer, path)
    file.prepare(snapshot)
    file.commit()


def install(file: SnapshotFile, log: Log, checkpoints: HwCheckpoints, job: InstallSnapshot) -> None:
    """M1q: durable in this order, so that a start which finds the one without the other can end it. Raises
    DiskError, SyncFailed; InstallationCut if the snapshot is in place and the log is not as it has to be.
    """
    file.prepare(job.snapshot)
    file.commit()
    if not job.reset:
        return
    try:
        checkpoints.lower(log.id, job.snapshot.index)
        log.reset(job.snapshot.index, (EpochStart(job.snapshot.term, job.snapshot.index - 1),))
    except OSError as error:
        raise InstallationCut(str(error)) from error


def read_snapshot(disk: Disk, sealer: Sealer | None, open_believed: bool = True) -> Snapshot | None:
    """The snapshot, or None if there is no such file.

    `open_believed`: whether it may lie there unencrypted. Raises CorruptState naming the byte; LiftlogError
    for what a newer liftlog wrote, or for another key; DiskError.
    """
    if not disk.exists(SNAPSHOT):
        return None
    file = disk.open(SNAPSHOT)
    try:
        data = read_sturdily(file, 0, file.size())
    finally:
        file.close()
    values: list[bytes] = []
    position = 0
    while position < len(data):
        try:
            end = position + frame_bytes(data, position)
            frame = data[position:end]
            header = verify_frame(SNAPSHOT_LOG, frame)
            if header.base_offset != len(values) or header.count != 1:
                raise CorruptBatch(f"chunk {header.base_offset} where chunk {len(values)} is due")
            if not (header.sealed or open_believed):
                raise CorruptBatch("the chunk is not encrypted")
            opened = frame if sealer is None else sealer.open(SNAPSHOT_LOG, frame)
            values.append(decode_values(opened)[0])
        except (CorruptBatch, ValueError, IndexError) as error:
            raise CorruptState(f"{SNAPSHOT} byte {position}: {error}") from error
        position = end
    return _whole(values, len(data))


def _whole(values: list[bytes], length: int) -> Snapshot:
    if not values:
        raise CorruptState(f"{SNAPSHOT} byte 0: the file is empty")
    try:
        head = msgspec.msgpack.decode(values[0], type=_Head)
    except (msgspec.DecodeError, ValueError) as error:
        raise CorruptState(f"{SNAPSHOT} byte 0: {error}") from error
    if head.version > VERSION:
        raise LiftlogError(
            f"{SNAPSHOT} is of version {head.version}, this liftlog reads version {VERSION}: upgrade liftlog"
        )
    if len(values) - 1 != head.chunks:
        raise CorruptState(f"{SNAPSHOT} byte {length}: {len(values) - 1} chunks, {head.chunks} were written")
    return Snapshot(head.index, head.term, tuple(values[1:]))
