"""Names in a node's data folder. Everything that storage reads or writes is named here and nowhere else.

    lock                             held by the running process
    identity, vote                   state files (I2, M1): who this disk is, what its voter must not forget
    logs                             state file: the partitions whose logs lie here (M4)
    hw                               state file: HW checkpoints of all partitions (R8)
    clean                            state file: there exactly while the last stop was a clean one (R14)
    cluster                          state file: the name of the cluster that this disk serves
    encryption                       state file, with encryption at rest: tells the right key from others
    raft/<base offset>.log           the metadata group's log
    raft/<base offset>.index         the index of that segment
    raft/snapshot                    what the commands before the log's beginning have come to (M1p)
    raft/start                       state file: where the log starts, and what there was before
    streams/<stream>/<index>/        one partition's log: the same files, and
        <base offset>.subjects       what a subject index has to know of that segment (ADR 0101)
        tail                         state file: the verdict on a cut (R14)
        damage                       state file: ranges of offsets that cannot be read (D2)
        clean                        state file: how far the log was compacted (C2)
    streams/<stream>/<index>.journal/  the partition's journal, if it has one: a log like the other (ADR 0062)
    recovered/snapshot               what a recovery has prepared, on its way to become raft/ (M5)
    quarantine/<n>-...               bad bytes that recovery cut off, for people to look at
    trash/<n>-<stream>-<index>/      logs of deleted streams and of disks that rejoined (I1)

A name that ends in `.tmp` is a file that was not finished; recovery removes it.
"""

from __future__ import annotations

import errno

from liftlog.ports import Disk
from liftlog.types import PARTITIONS_MAX, RAFT_LOG, PartitionId

LOCK = "lock"
IDENTITY = "identity"
VOTE = "vote"
LOGS = "logs"
HW = "hw"
CLEAN = "clean"
CLUSTER = "cluster"
ENCRYPTION = "encryption"
RAFT = "raft"
SNAPSHOT = "raft/snapshot"
RECOVERED = "recovered"
STREAMS = "streams"
QUARANTINE = "quarantine"
TRASH = "trash"
TAIL = "tail"
START = "start"
DAMAGE = "damage"
COMPACTED = "clean"
JOURNAL_SUFFIX = ".journal"
SEGMENT_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
SUBJECTS_SUFFIX = ".subjects"
DERIVED_SUFFIXES = (INDEX_SUFFIX, SUBJECTS_SUFFIX)
"""Of the files that are made of a segment, and go with it."""
TEMPORARY_SUFFIX = ".tmp"
WRITER_SUFFIX = ".new.tmp"
"""Behind the name of the segment that a new file is to replace."""
ROOT = ""


def log_directory(log: PartitionId) -> str:
    return RAFT if log == RAFT_LOG else f"{STREAMS}/{log}"


def log_named(stream: str, folder: str) -> PartitionId | None:
    """The log whose folder has this name among those of a stream; None if none has."""
    number = folder.removesuffix(JOURNAL_SUFFIX)
    if not (f"{stream}{number}".isascii() and stream.isdigit() and number.isdigit()):
        return None
    log = PartitionId(int(stream), int(number))
    return log if number == folder else log.journal


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020d}{SEGMENT_SUFFIX}"


def segment_path(log: PartitionId, base_offset: int) -> str:
    return f"{log_directory(log)}/{segment_name(base_offset)}"


def index_path(segment_path: str) -> str:
    """The index file of a segment file."""
    return segment_path.removesuffix(SEGMENT_SUFFIX) + INDEX_SUFFIX


def subjects_path(segment_path: str) -> str:
    """The subject file of a segment file."""
    return segment_path.removesuffix(SEGMENT_SUFFIX) + SUBJECTS_SUFFIX


def segment_bases(disk: Disk, directory: str, suffix: str = SEGMENT_SUFFIX) -> list[int]:
    """Base offsets of the segments, or of their indexes, in a log's folder, in order."""
    stems = [name.removesuffix(suffix) for name in disk.list(directory) if name.endswith(suffix)]
    return sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isascii() and stem.isdigit())


def partitions_on_disk(disk: Disk) -> list[PartitionId]:
    """Every log of a partition that has a folder: of each stream the data, then the journals."""
    found = []
    for stream in numbered_folders(disk, STREAMS):
        folder = f"{STREAMS}/{stream}"
        found += [PartitionId(stream, index) for index in numbered_folders(disk, folder)]
        journals = numbered_folders(disk, folder, JOURNAL_SUFFIX)
        found += [PartitionId(stream, index).journal for index in journals if index < PARTITIONS_MAX]
    return found


def numbered_folders(disk: Disk, directory: str, suffix: str = "") -> list[int]:
    """The folders whose name is a number and this suffix, in order. "07" is none of ours, and neither is a
    file "7".
    """
    stems = [name.removesuffix(suffix) for name in disk.list(directory) if name.endswith(suffix)]
    stems = [stem for stem in stems if stem.isascii() and stem.isdigit()]
    numbers = sorted(int(stem) for stem in stems if stem == str(int(stem)))
    return [number for number in numbers if is_folder(disk, f"{directory}/{number}{suffix}")]


def is_folder(disk: Disk, path: str) -> bool:
    """Whether a name that is there belongs to a folder. Raises DiskError."""
    try:
        disk.open(path).close()
    except OSError as error:
        if error.errno != errno.EISDIR:
            raise
        return True
    return False


def parent(path: str) -> str:
    """The folder that holds `path`; "" is the data folder itself."""
    return path.rpartition("/")[0]


def make_directory_durable(disk: Disk, path: str) -> None:
    """Create a folder with its parents, and make each new name durable. Raises DiskError, SyncFailed."""
    disk.make_directory(path)
    for folder in folders_above(path):
        disk.sync_directory(folder)


def folders_above(path: str) -> list[str]:
    """The folders that a path lies in, from the nearest to the data folder itself."""
    above = []
    while path:
        path = parent(path)
        above.append(path)
    return above


def next_number(disk: Disk, directory: str) -> int:
    """One more than the greatest number that begins a name in `directory`: what comes later sorts later."""
    heads = [name.partition("-")[0] for name in disk.list(directory)]
    return 1 + max((int(head) for head in heads if head.isascii() and head.isdigit()), default=0)
