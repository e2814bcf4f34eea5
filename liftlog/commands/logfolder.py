"""The folder that `liftlog log` was given: what it is, which logs are in it, and a disk that cannot write.

It may be a node's data folder, a queue's folder, the folder of one log inside either, or a copy of one log's
folder anywhere. The stream id and the partition are part of every checksum, so they must be known: they are
taken from the path, or given by hand for a copy.

To look must change nothing, so the disk that is looked at opens files for reading only and refuses the
rest. The lock is taken, so that nobody changes what is being read; a folder without a lock file is no running
node's and gets none.
"""

from __future__ import annotations

import argparse
import errno
import os
import re
from pathlib import Path
from typing import NamedTuple, NoReturn

from liftlog.commands.common import add_json_option
from liftlog.ports import Disk, DiskError, DiskFile
from liftlog.queue.fronts import FRONTS
from liftlog.real.disk import RealDisk, RealFile
from liftlog.storage.layout import (
    IDENTITY,
    LOCK,
    RAFT,
    SEGMENT_SUFFIX,
    START,
    STREAMS,
    VOTE,
    log_directory,
    log_named,
    partitions_on_disk,
    segment_bases,
)
from liftlog.types import RAFT_LOG, LiftlogError, PartitionId

NODE = "node"
QUEUE = "queue"
LOG = "log"


def add_folder_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="a node's data folder, a queue's, or that of one log"
    )
    parser.add_argument("--stream", type=int, metavar="ID", help="only this stream (0 = the metadata log)")
    parser.add_argument("--partition", type=int, metavar="N", help="only this partition of it")
    add_json_option(parser)


class Folder(NamedTuple):
    """A folder that was opened and locked; `close` releases it."""

    path: Path
    kind: str
    disk: Disk
    logs: list[PartitionId]
    whole: bool
    """Whether all of the folder is to be looked at, not only chosen logs."""
    lock: RealDisk

    def close(self) -> None:
        self.lock.close()


def open_folder(path: Path, stream: int | None, partition: int | None, *, writable: bool) -> Folder:
    """Find out what the folder is and lock it. Raises LiftlogError that says what was expected."""
    if not path.is_dir():
        raise LiftlogError(
            f"{path}: there is no such folder; give a node's data folder, a queue's or a log's"
        )
    if partition is not None and stream is None:
        raise LiftlogError("--partition needs --stream")
    path = path.resolve()
    given = None if stream is None or partition is None else PartitionId(stream, partition)
    root, log = _place_of(path, given)
    lock = RealDisk(str(root))
    if (root / LOCK).exists():
        _lock(lock, root)
    try:
        disk: Disk = lock if writable else ReadOnlyDisk(str(root))
        if log is not None and root == path:
            return Folder(root, LOG, MountedDisk(disk, log_directory(log)), [log], False, lock)
        return _data_folder(root, disk, lock, log or given, stream)
    except BaseException:
        lock.close()
        raise


def _data_folder(
    root: Path, disk: Disk, lock: RealDisk, chosen: PartitionId | None, stream: int | None
) -> Folder:
    logs = partitions_on_disk(disk)
    if segment_bases(disk, RAFT) or disk.exists(f"{RAFT}/{START}"):
        logs.insert(0, RAFT_LOG)
    whole = chosen is None and stream is None
    if not whole:
        logs = [log for log in logs if (log == chosen if chosen is not None else log.stream == stream)]
        if not logs:
            raise LiftlogError(f"{root}: there is no log {chosen or stream} in it")
    kind = NODE if any(disk.exists(name) for name in (IDENTITY, VOTE, RAFT)) else QUEUE
    return Folder(root, kind, disk, logs, whole, lock)


def _place_of(path: Path, given: PartitionId | None) -> tuple[Path, PartitionId | None]:
    """The data folder, and the log that the path names; for a copy of a log its own folder."""
    if any((path / name).exists() for name in (STREAMS, RAFT, IDENTITY, VOTE, FRONTS)):
        return path, None
    if not any(name.endswith(SEGMENT_SUFFIX) or name == START for name in os.listdir(path)):
        raise LiftlogError(
            f"{path}: nothing of liftlog's is in it; give a node's data folder, a queue's or a log's"
        )
    if path.name == RAFT and (path.parent / IDENTITY).exists():
        return path.parent, RAFT_LOG
    stream = path.parent
    in_place = log_named(stream.name, path.name) if stream.parent.name == STREAMS else None
    if in_place is not None:
        return stream.parent.parent, in_place
    if given is not None:
        return path, given
    trashed = re.fullmatch(r"\d+-(\d+)-(\d+(?:\.journal)?)", path.name)
    if trashed is not None:
        return path, log_named(trashed[1], trashed[2])
    raise LiftlogError(
        f"{path} is a log's folder, but not in its place, and the checksums depend on which log it is: "
        "say so with --stream and --partition"
    )


def _lock(disk: RealDisk, root: Path) -> None:
    try:
        disk.lock(LOCK)
    except DiskError as error:
        raise LiftlogError(f"{root}: cannot take the lock: {error}; run this as the node's user") from None
    except LiftlogError:
        raise LiftlogError(
            f"{root} is in use by a running process: stop the node, or close the queue, first"
        ) from None


class ReadOnlyDisk:
    """The folder tree below `root`, as a `Disk` on which every change is refused."""

    def __init__(self, root: str) -> None:
        self._root = root

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        full = os.path.join(self._root, path)
        if os.path.isdir(full):
            raise DiskError(errno.EISDIR, f"cannot open {full}: it is a folder")
        try:
            return RealFile(full, os.open(full, os.O_RDONLY | os.O_CLOEXEC))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise DiskError(error.errno, f"cannot open {full}: {error.strerror}") from error

    def list(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(os.path.join(self._root, path)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def exists(self, path: str) -> bool:
        return os.path.exists(os.path.join(self._root, path))

    def lock(self, path: str) -> None:
        self._refuse(path)

    def rename(self, source: str, target: str) -> None:
        self._refuse(source)

    def remove(self, path: str) -> None:
        self._refuse(path)

    def remove_tree(self, path: str) -> None:
        self._refuse(path)

    def make_directory(self, path: str) -> None:
        self._refuse(path)

    def sync_directory(self, path: str) -> None:
        self._refuse(path)

    def free_bytes(self) -> int:
        return 0

    def _refuse(self, path: str) -> NoReturn:
        raise DiskError(errno.EROFS, f"{self._root}/{path} was opened for reading only")


class MountedDisk:
    """A copy of one log's folder, seen under the path that the log has in a data folder."""

    def __init__(self, disk: Disk, prefix: str) -> None:
        self._disk = disk
        self._prefix = prefix

    def _inside(self, path: str) -> str | None:
        if path == self._prefix:
            return ""
        return path.removeprefix(self._prefix + "/") if path.startswith(self._prefix + "/") else None

    def _must(self, path: str) -> str:
        inside = self._inside(path)
        if inside is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return inside

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        return self._disk.open(self._must(path), create=create)

    def list(self, path: str) -> list[str]:
        inside = self._inside(path)
        return [] if inside is None else self._disk.list(inside)

    def exists(self, path: str) -> bool:
        inside = self._inside(path)
        return inside is not None and self._disk.exists(inside)

    def lock(self, path: str) -> None:
        self._disk.lock(self._must(path))

    def rename(self, source: str, target: str) -> None:
        self._disk.rename(self._must(source), self._must(target))

    def remove(self, path: str) -> None:
        self._disk.remove(self._must(path))

    def remove_tree(self, path: str) -> None:
        self._disk.remove_tree(self._must(path))

    def make_directory(self, path: str) -> None:
        self._disk.make_directory(self._must(path))

    def sync_directory(self, path: str) -> None:
        self._disk.sync_directory(self._must(path))

    def free_bytes(self) -> int:
        return self._disk.free_bytes()
