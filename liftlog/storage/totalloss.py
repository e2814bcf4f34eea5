"""A disk that a total loss has left: read without changing it, and then changed (M5).

Nothing that a process needs later is changed in place. What the disk goes on from is prepared beside: a
snapshot, in a folder of its own. The identity is written next, whole: it names the new epoch, the id under
which the disk takes part in the group from now on, and that a renewal is under way (`renewal.py`). That is
the moment: before it a start finds the disk as it was, behind it a start, or the tool once more, goes on to
the end. Identity and vote of before are kept in quarantine/, and so is the group's log.
"""

from __future__ import annotations

import msgspec

from liftlog.format import decode_values
from liftlog.ports import Disk
from liftlog.storage.inspect import DAMAGE, RESET, TORN, LogReport, Progress, inspect_log, stretches
from liftlog.storage.layout import (
    HW,
    IDENTITY,
    QUARANTINE,
    RAFT,
    RECOVERED,
    VOTE,
    make_directory_durable,
    next_number,
    partitions_on_disk,
    segment_bases,
)
from liftlog.storage.logstate import read_start
from liftlog.storage.openlogs import EVERYTHING_OPEN
from liftlog.storage.renewal import drop_prepared, finish_renewal
from liftlog.storage.sealing import Sealer
from liftlog.storage.snapshots import read_snapshot, write_snapshot
from liftlog.storage.statefile import CorruptState, read_state, write_state
from liftlog.types import (
    RAFT_LOG,
    ClusterEpoch,
    Entry,
    HardState,
    Identity,
    LiftlogError,
    PartitionId,
    Snapshot,
    TailState,
)


class GroupMemory(msgspec.Struct):
    """What a disk holds of the metadata group. With a `problem` it is of no use."""

    hard_state: HardState = HardState()
    snapshot: Snapshot | None = None
    entries: list[Entry] = []
    problem: str = ""


class SurvivingLog(msgspec.Struct):
    """One partition's log, every byte of it read."""

    report: LogReport
    hw: int
    state: TailState


def read_identity(disk: Disk) -> Identity | None:
    """None: nothing of a node's is on this disk. Raises LiftlogError if it cannot be read."""
    try:
        content = read_state(disk, IDENTITY)
        return None if content is None else msgspec.msgpack.decode(content, type=Identity)
    except (CorruptState, msgspec.MsgspecError) as error:
        raise LiftlogError(
            f"whose disk this is cannot be read ({error}): leave it out, and state that it is destroyed"
        ) from error


def read_group_memory(disk: Disk, sealer: Sealer | None) -> GroupMemory:
    """Raises DiskError; what is wrong with the content is said in `problem`."""
    found = GroupMemory()
    try:
        content = read_state(disk, VOTE)
        if content is None:
            found.problem = f"{VOTE} is missing"
            return found
        found.hard_state = msgspec.msgpack.decode(content, type=HardState)
        found.snapshot = read_snapshot(disk, sealer)
        _read_entries(disk, sealer, found)
    except (CorruptState, LiftlogError, ValueError) as error:
        found.problem = str(error)
    if not found.problem and found.snapshot is None and not found.entries:
        found.problem = "it holds no command"
    return found


def _read_entries(disk: Disk, sealer: Sealer | None, found: GroupMemory) -> None:
    start = read_start(disk, RAFT_LOG)
    end = found.snapshot.index if found.snapshot is not None else 0
    if start is None or start.unfinished:
        # An installation that was cut short: the snapshot is all there is.
        return
    if start.log_start > end:
        found.problem = f"{RAFT} begins behind entry {start.log_start}, and no snapshot goes so far"
        return
    report = inspect_log(disk, RAFT_LOG, None, lambda read: None, EVERYTHING_OPEN).report
    damage = [finding for finding in report.findings if finding.kind == DAMAGE]
    due = _read_checkpoints(disk).get(RAFT_LOG, 0)
    if damage:
        found.problem = f"{damage[0].path} byte {damage[0].byte}: {damage[0].what}"
        return
    if report.end < due:
        found.problem = f"{RAFT} ends with entry {report.end}, and {due} of them were durable"
        return
    entries: list[Entry] = []
    for base in segment_bases(disk, RAFT):
        for stretch in stretches(disk, RAFT_LOG, base, start.log_start):
            if stretch.header is None:
                # A torn end, which a start cuts off.
                break
            header, frame = stretch.header, stretch.frame
            if header.sealed and sealer is not None:
                frame = sealer.open(RAFT_LOG, frame)
            for number, value in enumerate(decode_values(frame), header.base_offset):
                if number >= start.log_start:
                    entries.append(Entry(number + 1, header.epoch, value))
    snapshot = found.snapshot
    if snapshot is not None and not _continues(entries, snapshot, start.log_start):
        entries = []
    found.entries = entries


def _continues(entries: list[Entry], snapshot: Snapshot, log_start: int) -> bool:
    """Whether the log has the snapshot's last entry: else an installation was cut short (M1q)."""
    if snapshot.index == log_start:
        return True
    return any(entry.index == snapshot.index and entry.term == snapshot.term for entry in entries)


def read_logs(disk: Disk, progress: Progress) -> list[SurvivingLog]:
    """The partitions' logs. Raises UnsupportedBatch, DiskError."""
    checkpoints = _read_checkpoints(disk)
    found = []
    for log in partitions_on_disk(disk):
        report = inspect_log(disk, log, None, progress, EVERYTHING_OPEN).report
        kinds = [finding.kind for finding in report.findings]
        state = TailState.INTACT
        if DAMAGE in kinds or RESET in kinds:
            state = TailState.DAMAGED
        elif TORN in kinds:
            state = TailState.SUSPECT
        found.append(SurvivingLog(report, checkpoints.get(log, 0), state))
    return found


def _read_checkpoints(disk: Disk) -> dict[PartitionId, int]:
    """They only save time (D3)."""
    try:
        content = read_state(disk, HW)
        return {} if content is None else dict(_decode_checkpoints(content))
    except (CorruptState, msgspec.MsgspecError):
        return {}


def _decode_checkpoints(content: bytes) -> list[tuple[PartitionId, int]]:
    return msgspec.msgpack.decode(content, type=list[tuple[PartitionId, int]])


def begin_anew(
    disk: Disk,
    sealer: Sealer | None,
    identity: Identity,
    epoch: ClusterEpoch,
    vote_id: str,
    snapshot: Snapshot | None,
) -> None:
    """This disk belongs to the recovered cluster from now on; with a `snapshot` it goes on from that, else it
    is sent what the others have. May be cut short anywhere, and done again. Raises DiskError, SyncFailed.
    """
    drop_prepared(disk)
    make_directory_durable(disk, QUARANTINE)
    for path in (IDENTITY, VOTE):
        _keep(disk, path)
    if snapshot is not None:
        make_directory_durable(disk, RECOVERED)
        write_snapshot(disk, sealer, snapshot, f"{RECOVERED}/snapshot")
    renewed = msgspec.structs.replace(
        identity,
        vote_id=vote_id,
        renewing=True,
        cluster_epoch=epoch.number,
        recovery=epoch.name,
        recovering=snapshot is not None,
    )
    write_state(disk, IDENTITY, msgspec.msgpack.encode(renewed))
    finish_renewal(disk, renewed)


def _keep(disk: Disk, path: str) -> None:
    """A copy of a state file as it is, for people."""
    if not disk.exists(path):
        return
    file = disk.open(path)
    try:
        data = file.read_at(0, file.size())
    finally:
        file.close()
    copy = disk.open(f"{QUARANTINE}/{next_number(disk, QUARANTINE):06d}-{path}", create=True)
    try:
        copy.append([data])
        copy.sync()
    finally:
        copy.close()
    disk.sync_directory(QUARANTINE)
