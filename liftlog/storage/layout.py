"""Names in a node's data folder. Everything that storage reads or writes is named here and nowhere else.

    lock                             held by the running process
    identity, vote                   state files (I2, M1): who this disk is, what its voter must not forget
    hw                               state file: HW checkpoints of all partitions (R8)
    clean                            state file: there exactly while the last stop was a clean one (R14)
    raft/<base offset>.log           the metadata group's log
    streams/<stream>/<index>/        one partition's log: its segments, and `tail`, the verdict on a cut (R14)
    quarantine/<n>-...               bad bytes that recovery cut off, for people to look at
    trash/<n>-<stream>-<index>/      logs of deleted streams and of disks that rejoined (I1)

A name that ends in `.tmp` is a file that was not finished; recovery removes it.
"""

from __future__ import annotations

from liftlog.ports import Disk
from liftlog.types import RAFT_LOG, PartitionId

LOCK = "lock"
IDENTITY = "identity"
VOTE = "vote"
HW = "hw"
CLEAN = "clean"
RAFT = "raft"
STREAMS = "streams"
QUARANTINE = "quarantine"
TRASH = "trash"
TAIL = "tail"
SEGMENT_SUFFIX = ".log"
TEMPORARY_SUFFIX = ".tmp"
ROOT = ""


def log_directory(log: PartitionId) -> str:
    return RAFT if log == RAFT_LOG else f"{STREAMS}/{log[0]}/{log[1]}"


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020d}{SEGMENT_SUFFIX}"


def segment_bases(disk: Disk, directory: str) -> list[int]:
    """Base offsets of the segments in a log's folder, in order."""
    stems = [name[: -len(SEGMENT_SUFFIX)] for name in disk.list(directory) if name.endswith(SEGMENT_SUFFIX)]
    return sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isascii() and stem.isdigit())


def partitions_on_disk(disk: Disk) -> list[PartitionId]:
    """Every partition that has a folder, in order."""
    found = []
    for stream in disk.list(STREAMS):
        if stream.isascii() and stream.isdigit():
            for index in disk.list(f"{STREAMS}/{stream}"):
                if index.isascii() and index.isdigit():
                    found.append(PartitionId(int(stream), int(index)))
    return sorted(found)


def parent(path: str) -> str:
    """The folder that holds `path`; "" is the data folder itself."""
    return path.rpartition("/")[0]


def make_directory_durable(disk: Disk, path: str) -> None:
    """Create a folder with its parents, and make each new name durable. Raises DiskError, SyncFailed."""
    disk.make_directory(path)
    while path:
        path = parent(path)
        disk.sync_directory(path)


def next_number(disk: Disk, directory: str) -> int:
    """One more than the greatest number that begins a name in `directory`: what comes later sorts later."""
    heads = [name.partition("-")[0] for name in disk.list(directory)]
    return 1 + max((int(head) for head in heads if head.isascii() and head.isdigit()), default=0)
