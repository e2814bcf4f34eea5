"""The start of a node: who am I, what did I promise, what do I hold (I2, M1, M4, R7, R14).

Order matters. The lock comes first. State files and logs are read, and after an unclean stop written anew,
before anything is reported. The clean-stop marker is removed last: a start that dies half-way finds it
again. An empty disk gets its `vote` file first and its `identity` last, so that a disk with an identity
always has a vote: a missing one means that something was lost, and is never taken for a fresh start.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from liftlog.format import decode_values
from liftlog.mutants import Mutants
from liftlog.ports import Disk
from liftlog.storage.indexes import Indexes
from liftlog.storage.inventory import Inventory, read_inventory
from liftlog.storage.layout import (
    CLEAN,
    HW,
    IDENTITY,
    LOCK,
    RAFT,
    ROOT,
    SNAPSHOT,
    STREAMS,
    TRASH,
    VOTE,
    numbered_folders,
    partitions_on_disk,
    segment_bases,
)
from liftlog.storage.log import Log, StorageOptions
from liftlog.storage.logstate import OS, CleanLog, read_start, start_path
from liftlog.storage.recovery import (
    GroupStateDamaged,
    damaged_group_state,
    damaged_metadata,
    recover_log,
    remove_temporary_files,
)
from liftlog.storage.renewal import begin_renewal, finish_renewal, may_renew
from liftlog.storage.sealing import Sealer, check_key, note_open_logs
from liftlog.storage.segment import BadBytes
from liftlog.storage.snapshots import read_snapshot, write_snapshot
from liftlog.storage.statefile import CorruptState, read_state, write_state
from liftlog.storage.verdict import remember_verdict
from liftlog.types import (
    RAFT_LOG,
    Entry,
    EpochStart,
    HardState,
    Identity,
    LiftlogError,
    LogBase,
    LogOptions,
    PartitionId,
    Snapshot,
    TailState,
)

_encode = msgspec.msgpack.encode
_READ_BYTES = 1024 * 1024
RAFT_SEGMENT_BYTES = 4 * 1024 * 1024
_Content = TypeVar("_Content")


class Startup(msgspec.Struct):
    """What a start found."""

    identity: Identity
    hard_state: HardState
    raft_entries: list[Entry]
    raft_base: LogBase
    snapshot: Snapshot | None
    logs: dict[PartitionId, Log]
    inventory: Inventory
    hw: dict[PartitionId, int]
    clean: bool
    renewed: str = ""
    """Why what was remembered of the metadata group was given up (M4)."""


def recover(
    disk: Disk,
    options: StorageOptions,
    mutants: Mutants,
    sealer: Sealer | None,
    indexes: Indexes,
    node: int,
    new_disk_id: str,
    take_over_open_logs: bool = False,
) -> Startup:
    """Lock, read and repair the data folder. Raises LiftlogError naming the file and the remedy."""
    disk.lock(LOCK)
    try:
        open_logs = check_key(disk, sealer, node, take_over_open_logs)
        if open_logs is not None:
            indexes.open_logs = open_logs

        def attempt() -> Startup:
            return _recover(
                disk=disk,
                options=options,
                mutants=mutants,
                sealer=sealer,
                indexes=indexes,
                node=node,
                new_disk_id=new_disk_id,
                open_believed=sealer is None or open_logs is None,
            )

        try:
            found = attempt()
            doubt = "this disk was set back, its vote withheld" if found.hard_state.vote_withheld else ""
        except GroupStateDamaged as damage:
            if not may_renew(disk):
                raise
            doubt = str(damage)
        if doubt:
            _renew(disk, "" if mutants.renewed_under_old_id else new_disk_id)
            found = attempt()
            found.renewed = doubt
        if open_logs is None and sealer is not None:
            # Nothing was sealed yet: what is there now is what the key came to.
            ends = {log: one.leo for log, one in found.logs.items()}
            indexes.open_logs = note_open_logs(disk, sealer, node, ends)
        return found
    except OSError as error:
        name = getattr(error, "filename", None) or "the data folder"
        raise LiftlogError(
            f"cannot read or repair {name}: {error}; make space or replace the disk, then start again"
        ) from error


def _renew(disk: Disk, vote_id: str) -> None:
    """M4: this disk takes part in the metadata group as another member from now on."""
    identity = _read_metadata(disk, IDENTITY, Identity)
    assert identity is not None, "a disk without an identity has nothing to give up"
    begin_renewal(disk, identity, vote_id)


def _recover(
    disk: Disk,
    options: StorageOptions,
    mutants: Mutants,
    sealer: Sealer | None,
    indexes: Indexes,
    node: int,
    new_disk_id: str,
    open_believed: bool,
) -> Startup:
    remove_temporary_files(disk, ROOT)
    marker = _read_marker(disk)
    identity, hard_state = _read_or_create_identity(disk, node, new_disk_id, marker is not None)
    clean_logs = {entry.log: entry for entry in marker or ()}
    snapshot = _read_snapshot(disk, sealer, open_believed)
    saved_hw = _read_hw(disk)
    inventory = _read_inventory(disk, saved_hw)
    witnesses = (*partitions_on_disk(disk), *clean_logs, *inventory.names)
    partitions = sorted(log for log in dict.fromkeys(witnesses) if log != RAFT_LOG)
    logs: dict[PartitionId, Log] = {}
    for log in (RAFT_LOG, *partitions):
        # A folder that the marker does not name could not be moved to the trash: nothing is known of it.
        clean, known = clean_logs.get(log), log in inventory
        logs[log] = recover_log(
            disk=disk,
            log=log,
            options=options.log if log != RAFT_LOG else _raft_options(options.log),
            clean=clean,
            mutants=mutants,
            sealer=sealer,
            indexes=indexes,
            known=known,
        )
    if marker is None:
        _sync_folders(disk)
    if snapshot is not None and (marker is None or (sealer is not None and open_believed)):
        write_snapshot(disk, sealer, snapshot)
    inventory.settle(partitions, rewrite=marker is None)
    for log, hw in saved_hw.items():
        if log in logs and hw > logs[log].leo:
            # A checkpoint was never above what was durable (R8): something is gone without a bad byte.
            if log == RAFT_LOG:
                end = logs[log].leo
                raise damaged_group_state(f"{RAFT}: the log ends at entry {end}, {hw} of them were durable")
            promised = TailState.SUSPECT if logs[log].options.durability == OS else TailState.DAMAGED
            if logs[log].tail is not TailState.LOST:
                logs[log].tail = remember_verdict(disk, log, promised, rewrite=True)
    _join(disk, logs[RAFT_LOG], snapshot, saved_hw)
    entries = _raft_entries(logs[RAFT_LOG])
    found_hw = _recover_hw(disk, logs, saved_hw, mutants, marker is not None)
    if disk.exists(CLEAN):
        disk.remove(CLEAN)
        disk.sync_directory(ROOT)
    return Startup(
        identity=identity,
        hard_state=hard_state,
        raft_entries=entries,
        raft_base=LogBase(logs[RAFT_LOG].log_start, _term_at(logs[RAFT_LOG], logs[RAFT_LOG].log_start)),
        snapshot=snapshot,
        logs=logs,
        inventory=inventory,
        hw=found_hw,
        clean=marker is not None,
    )


def _sync_folders(disk: Disk) -> None:
    """A log that was moved to the trash and is reported as gone must not come back with a power loss (R7)."""
    for stream in numbered_folders(disk, STREAMS):
        disk.sync_directory(f"{STREAMS}/{stream}")
    for folder in (STREAMS, TRASH):
        if disk.exists(folder):
            disk.sync_directory(folder)


def _read_marker(disk: Disk) -> list[CleanLog] | None:
    """What the clean-stop marker says; None after an unclean stop. A marker that cannot be read is none."""
    try:
        content = read_state(disk, CLEAN)
        return None if content is None else msgspec.msgpack.decode(content, type=list[CleanLog])
    except (CorruptState, msgspec.MsgspecError):
        return None


def _read_or_create_identity(
    disk: Disk, node: int, new_disk_id: str, clean: bool
) -> tuple[Identity, HardState]:
    identity = _read_metadata(disk, IDENTITY, Identity)
    if identity is not None and identity.renewing:
        identity = finish_renewal(disk, identity)
    hard_state = _read_metadata(disk, VOTE, HardState)
    if identity is None:
        has_voted = hard_state is not None and hard_state != HardState()
        if has_voted or segment_bases(disk, RAFT) or disk.exists(SNAPSHOT) or partitions_on_disk(disk):
            raise damaged_metadata(f"{IDENTITY} byte 0: the file is missing although this disk was in use")
        identity, hard_state = Identity(node, new_disk_id), HardState()
        write_state(disk, VOTE, _encode(hard_state))
        write_state(disk, IDENTITY, _encode(identity))
        return identity, hard_state
    if hard_state is not None and hard_state != HardState():
        if not segment_bases(disk, RAFT) and not _being_reset(disk):
            raise damaged_group_state(f"{RAFT}: the log is missing although this disk has voted")
        if not disk.exists(start_path(RAFT_LOG)):
            raise damaged_group_state(f"{start_path(RAFT_LOG)} byte 0: the file is missing")
    if hard_state is None:
        raise damaged_group_state(f"{VOTE} byte 0: the file is missing although this disk was in use")
    if identity.node != node:
        raise LiftlogError(
            f"the data folder belongs to node {identity.node}, not to node {node}; "
            "check the node id and the data folder in the configuration"
        )
    if not clean:
        write_state(disk, VOTE, _encode(hard_state))
        write_state(disk, IDENTITY, _encode(identity))
    return identity, hard_state


def _read_metadata(disk: Disk, path: str, kind: type[_Content]) -> _Content | None:
    """M4: None only if the file is not there."""
    try:
        content = read_state(disk, path)
        return None if content is None else msgspec.msgpack.decode(content, type=kind)
    except CorruptState as error:
        raise _damaged(path, str(error)) from error
    except msgspec.MsgspecError as error:
        raise _damaged(path, f"{path} byte 16: {error}") from error


def _damaged(path: str, what: str) -> LiftlogError:
    """Who this disk is nobody else can say; what it has promised it may give up."""
    return damaged_group_state(what) if path == VOTE else damaged_metadata(what)


def _read_inventory(disk: Disk, saved_hw: dict[PartitionId, int]) -> Inventory:
    """M4: a list that cannot be read is not taken for an empty one."""
    try:
        return read_inventory(disk, saved_hw)
    except CorruptState as error:
        raise damaged_metadata(str(error)) from error


def _raft_options(options: LogOptions) -> LogOptions:
    """Segments of the group's log are so small that a start scans little, and that they can go (M1p)."""
    return msgspec.structs.replace(options, segment_bytes=min(options.segment_bytes, RAFT_SEGMENT_BYTES))


def _being_reset(disk: Disk) -> bool:
    """Whether the group's log was to begin anew, behind a snapshot, when the process before ended."""
    try:
        start = read_start(disk, RAFT_LOG)
    except CorruptState:
        return False
    return start is not None and start.unfinished


def _read_snapshot(disk: Disk, sealer: Sealer | None, open_believed: bool) -> Snapshot | None:
    """M4: None only if the file is not there."""
    try:
        return read_snapshot(disk, sealer, open_believed)
    except CorruptState as error:
        raise damaged_group_state(str(error)) from error


def _term_at(log: Log, index: int) -> int:
    """The term of the entry at an index from the log start on, 0 at index 0."""
    return log.epochs.epoch_before(index)


def _join(disk: Disk, log: Log, snapshot: Snapshot | None, saved_hw: dict[PartitionId, int]) -> None:
    """M1p: the log goes on behind the snapshot, or in it.

    If it does not reach to the snapshot's end, or has another entry there, an installation was cut short
    before the log was gone: it goes now. Nobody counts on what it held beyond, since it differs from what is
    committed at the snapshot's end.
    """
    index = 0 if snapshot is None else snapshot.index
    if log.log_start > index:
        what = "is missing" if snapshot is None else f"ends with entry {index}"
        raise damaged_group_state(f"{SNAPSHOT}: it {what}, and the log begins behind entry {log.log_start}")
    if snapshot is None or (log.leo >= index and _term_at(log, index) == snapshot.term):
        return
    if saved_hw.get(RAFT_LOG, 0) > index:
        # Not to be found as a log that has lost its end.
        saved_hw[RAFT_LOG] = index
        write_state(disk, HW, _encode(list(saved_hw.items())))
    log.reset(index, (EpochStart(snapshot.term, index - 1),))


def _raft_entries(log: Log) -> list[Entry]:
    """Entry i of the metadata log lies at offset i - 1, its term is its batch's epoch."""
    entries: list[Entry] = []
    offset = log.log_start
    while offset < log.leo:
        try:
            batches = log.read(offset, log.leo, _READ_BYTES)
        except BadBytes as error:
            raise damaged_group_state(str(error)) from error
        for batch in batches:
            for number, value in enumerate(decode_values(batch), batch.base_offset):
                if number >= offset:
                    entries.append(Entry(number + 1, batch.epoch, value))
            offset = batch.end_offset
    return entries


def _read_hw(disk: Disk) -> dict[PartitionId, int]:
    """HW checkpoints. They only save time: unreadable ones count as 0 (D3)."""
    try:
        content = read_state(disk, HW)
        return dict(
            [] if content is None else msgspec.msgpack.decode(content, type=list[tuple[PartitionId, int]])
        )
    except (CorruptState, msgspec.MsgspecError):
        return {}


def _recover_hw(
    disk: Disk, logs: dict[PartitionId, Log], saved: dict[PartitionId, int], mutants: Mutants, clean: bool
) -> dict[PartitionId, int]:
    """Checkpoints clamped to what the logs hold, durably: they say nothing of what is appended later (R8)."""
    found = {log: hw for log, hw in saved.items() if log in logs}
    if not mutants.hw_not_clamped:
        found = {log: min(hw, logs[log].durable_leo) for log, hw in found.items()}
    if saved and (found != saved or not clean):
        write_state(disk, HW, _encode(list(found.items())))
    return found
