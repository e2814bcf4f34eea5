"""The simulated disk: page cache and durable content apart, so that a crash shows what was not synced.

Mirrors `liftlog/real/disk.py`. The model, and what it may do to a program (its *fault budget*):

- Each file has a *cache*, what the running process reads, and a *durable* content, what is on the platter.
  Since files are only appended to and truncated, the two differ from some byte (`clean_to`) on. A sync makes
  them equal.
- Each folder likewise has names in the cache and durable names. Creations, renames and removals wait in a
  list until the folder is synced; a rename between two folders is durable when both were synced.
- `kill()`: the process dies. Its handles and locks die; caches and waiting names stay, as with SIGKILL.
- `power_loss(random)`: caches die too. Each un-synced sector of 512 bytes is, independently, kept, lost (old
  content, or zeros where there was none) or torn (part new, part garbage); synced bytes of the same sector
  survive. The size is the old one, the new one or one between. Each waiting folder operation is kept or lost;
  a rename is atomic, and operations on the same file keep their order.
- `fail_next_sync()` has the semantics of Linux after a write-back error ("fsyncgate"): the sync raises once,
  the pages are marked clean and stay readable but are *not* durable, and a second sync succeeds without
  writing them. A failed sync of a folder does not lie: names are metadata, which file systems keep in a
  journal and do not forget, so they go on waiting.
- `fail_next()` makes one later call fail with any errno; a failed append has written a prefix. `fill()` lets
  the free space run out: appends fail with ENOSPC, in the middle of a vector too, until there is space again;
  where names need space as well, new files, new folders and renames are refused, too.
- Damage to what was stored, remembered until it is overwritten, cut off or its file is gone (`harms`):
  `overwrite()` puts other bytes over stored ones, in the page cache and on the platter or on the platter
  only, where it shows once the cache is gone (a decayed sector, a misdirected write); `flip()` flips one bit;
  `unreadable()` makes reads of some sectors fail with EIO for ever or a few times; `lie_when()` makes one
  sync of a file report success without having written, while the file's new size is kept: a power loss then
  leaves zeros there. `evict()` drops clean pages, as the kernel may at any time.
- `crash_after(n)` kills the process *instead of* the n-th call from now (an append may have written a
  prefix); from then on every call raises `SimulatedCrash` until `kill()`, `power_loss()` or `attach()`.

`calls` counts every call of the Disk port. Nothing here reads a clock; all randomness is given. Speed
matters: an append and a sync of one small batch cost about two microseconds.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from liftlog.ports import DiskError, SyncFailed
from liftlog.types import LiftlogError
from liftlog_sim.chance.draws import Numbers, share_of
from liftlog_sim.devices.inode import SECTOR_BYTES, Inode, Unreadable

__all__ = ["SECTOR_BYTES", "FileImage", "SimDisk", "SimFile", "SimulatedCrash"]

CLOSED = -1
"""In place of the life in which a file was opened: so that the common path needs no other test."""


class SimulatedCrash(BaseException):
    """The process is dead: nothing may catch this and go on, so it is no `Exception`."""


class _Lie(Exception):
    """This sync is to report success without having written."""


class FileImage(NamedTuple):
    """One file of a copy of a disk. `harms`: as in `Inode`; a copy of damaged bytes is as damaged as they."""

    content: bytes
    harms: tuple[tuple[int, bytes], ...] = ()


class _Folder:
    __slots__ = ("durable", "kept", "names")

    def __init__(self) -> None:
        self.names: dict[str, Inode | _Folder] = {}
        self.durable: dict[str, Inode | _Folder] = {}
        self.kept = True


class _Change:
    """A folder operation that is not durable yet: `node` leaves `source` and appears in `target`."""

    __slots__ = ("node", "source", "target", "waits_for")

    def __init__(
        self,
        node: Inode | _Folder,
        source: tuple[_Folder, str] | None,
        target: tuple[_Folder, str] | None,
    ) -> None:
        self.node = node
        self.source = source
        self.target = target
        places = [place[0] for place in (source, target) if place is not None]
        self.waits_for = places[:1] if len(places) == 2 and places[0] is places[1] else places

    @property
    def name(self) -> str:
        """What it does, by the names it moves between."""
        return ">".join("" if place is None else place[1] for place in (self.source, self.target))

    def apply(self) -> None:
        """Make it part of the durable names."""
        if self.source is not None:
            folder, name = self.source
            if folder.durable.get(name) is self.node:
                del folder.durable[name]
        if self.target is not None:
            folder, name = self.target
            folder.durable[name] = self.node


class SimFile:
    """One open file of one life of the process."""

    __slots__ = ("_disk", "_inode", "_life", "_path")

    def __init__(self, disk: SimDisk, inode: Inode, path: str) -> None:
        self._disk = disk
        self._inode = inode
        self._path = path
        self._life = disk.life

    def append(self, parts: Sequence[bytes | memoryview]) -> int:
        disk = self._disk
        disk.calls += 1
        if disk.armed or disk.life != self._life:
            disk.enter("append", self._path, self._life, self, parts)
        inode = self._inode
        cache = inode.cache
        position = len(cache)
        if inode.holes:
            inode.dirty_from(position)
        for part in parts:
            cache += part
        return position

    def append_prefix(self, parts: Sequence[bytes | memoryview], most: int = -1) -> None:
        """What is left of an append that failed or during which the process died; `most` bytes if given."""
        data = b"".join(parts)
        self._inode.dirty_from(len(self._inode.cache))
        if most < 0:
            most = share_of(self._disk.random, self._path, len(self._inode.cache)).randint(0, len(data))
        self._inode.cache += data[:most]

    def dirty(self) -> tuple[int, int]:
        """The byte range that a sync would make durable."""
        return self._inode.clean_to, len(self._inode.cache)

    def read_at(self, position: int, length: int) -> bytes:
        disk = self._disk
        disk.calls += 1
        if disk.armed or disk.life != self._life:
            disk.enter("read", self._path, self._life)
        inode = self._inode
        if inode.unreadable:
            inode.check_readable(position, length, self._path)
        return bytes(memoryview(inode.cache)[position : position + length])

    def size(self) -> int:
        disk = self._disk
        disk.calls += 1
        if disk.armed or disk.life != self._life:
            disk.enter("size", self._path, self._life)
        return len(self._inode.cache)

    def sync(self) -> None:
        disk = self._disk
        disk.calls += 1
        if disk.armed or disk.life != self._life:
            try:
                disk.enter("sync", self._path, self._life, self)
            except SyncFailed:
                self._inode.fail_sync()
                raise
            except _Lie:
                self._inode.lie()
                return
        self._inode.sync()

    def truncate(self, size: int) -> None:
        disk = self._disk
        disk.calls += 1
        if disk.armed or disk.life != self._life:
            disk.enter("truncate", self._path, self._life)
        inode = self._inode
        if size > len(inode.cache):
            raise DiskError(errno.EINVAL, f"truncate would grow {self._path}")
        inode.cut(size)

    def send_to(self, descriptor: int, position: int, length: int) -> int:
        """For the port's contract: what is simulated has no socket and reads the bytes instead."""
        data = self.read_at(position, length)
        if len(data) < length:
            raise DiskError(errno.EIO, f"{self._path} ends before byte {position + length}")
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            return 0

    def close(self) -> None:
        disk = self._disk
        disk.calls += 1
        if self._life != CLOSED and (disk.armed or disk.life != self._life):
            disk.enter("close", self._path, self._life)
        self._life = CLOSED


class SimDisk:
    """A node's disk. It outlives the processes that use it; see the module's text for the model.

    `random` decides how much of a failed append was written; `power_loss` is given its own. Numbers
    that have names (`chance/draws.py`) are each file's own.
    """

    def __init__(self, random: Numbers, capacity_bytes: int = 1 << 40) -> None:
        self.random = random
        self.capacity_bytes = capacity_bytes
        self.calls = 0
        self.full = False
        """Set through `fill`: an append that does not fit into `_space` fails with ENOSPC."""
        self._space = 0
        self._names_too = False
        self._lie: Callable[[str, int, int], bool] | None = None
        self.life = 0
        self.armed = False
        """True while a call has to look for a fault: keeps the common path short."""
        self._attached = True
        self._crash_at = 0
        self._failures: list[tuple[str, int, str, str]] = []
        self._root = _Folder()
        self._changes: list[_Change] = []
        self._locks: dict[str, int] = {}

    # ----- the world's side: crashes and faults -----

    def kill(self) -> None:
        """The process dies; what it wrote stays in the page cache. A new process may use the disk at once."""
        self.attach()

    def power_loss(self, random: Numbers) -> None:
        """The machine loses power: un-synced sectors, sizes and names are kept, lost or torn at random."""
        changes, self._changes = self._changes, []
        for change in changes:
            change.node.kept = True
        for change in changes:
            if change.node.kept and share_of(random, change.name).randrange(2):
                change.apply()
            else:
                change.node.kept = False
        for path, inode in self._restore(self._root):
            inode.lose_power(share_of(random, path))
        self.attach()

    def _restore(self, folder: _Folder, path: str = "") -> Iterator[tuple[str, Inode]]:
        """Forget all names that are not durable; yield the files that are left, in order."""
        folder.names = dict(folder.durable)
        for name in sorted(folder.names):
            node = folder.names[name]
            if isinstance(node, _Folder):
                yield from self._restore(node, f"{path}{name}/")
            else:
                yield f"{path}{name}", node

    def detach(self) -> None:
        """Cut the running process off: each of its later calls raises `SimulatedCrash`."""
        self.life += 1
        self._attached = False
        self.armed = True

    def attach(self) -> None:
        """Let a new process use the disk; handles and locks of older ones stay dead. Forgets armed faults."""
        self.life += 1
        self._attached = True
        self._crash_at = 0
        self._failures = []
        self._lie = None
        self._locks = {}
        self._rearm()

    def wipe(self) -> None:
        """A new, empty disk in place of this one."""
        self._root = _Folder()
        self._changes = []
        self.full = False
        self.attach()

    def image(self) -> dict[str, FileImage]:
        """All files as a reader finds them now, each with the damage that its bytes carry."""
        return {path: FileImage(self.content(path), tuple(self._file(path).harms)) for path in self.files()}

    def restore(self, image: dict[str, FileImage]) -> None:
        """A sound disk in place of this one, with exactly these files, durable; damage comes along."""
        self.wipe()
        for path, (content, harms) in image.items():
            folder = path.rpartition("/")[0]
            if folder:
                self.make_directory(folder)
            file = self.open(path, create=True)
            file.append([content])
            file.sync()
            self._file(path).harms = list(harms)
            while folder:
                self.sync_directory(folder)
                folder = folder.rpartition("/")[0]
            self.sync_directory("")
        self.attach()

    def crash_after(self, calls: int) -> None:
        """The process dies instead of its `calls`-th call from now; 1 is the next one."""
        self._crash_at = self.calls + calls
        self._rearm()

    def fail_next_sync(self, matching: str = "", ending: str = "") -> None:
        """The next sync of a file or folder whose path contains `matching` fails; a file's next one lies."""
        self.fail_next("sync", errno.EIO, matching, ending)

    def fail_next(self, operation: str, error: int = errno.EIO, matching: str = "", ending: str = "") -> None:
        """The next such call on a path that contains `matching` and ends so fails with errno `error`.

        `operation` is the name of a method of the port, "read" for `read_at`; "sync" includes
        `sync_directory`.
        """
        self._failures.append((operation, error, matching, ending))
        self._rearm()

    def fill(self, full: bool = True, free_bytes: int = 0, names_too: bool = False) -> None:
        """After `free_bytes` more bytes appends fail with ENOSPC; `fill(False)` makes space again (D5).

        `names_too`: then there is no space for names either.
        """
        self.full = full
        self._space = free_bytes
        self._names_too = names_too
        self._rearm()

    # ----- the world's side: damage to what is stored -----

    def flip(self, path: str, byte: int, bit: int) -> None:
        """Flip one bit of a file, in the page cache and on the platter, as a decayed sector would show it."""
        self.overwrite(path, byte, bytes([self._file(path).cache[byte] ^ (1 << bit)]))

    def overwrite(self, path: str, position: int, data: bytes, *, platter_only: bool = False) -> None:
        """Other bytes lie at `position` of a file from now on; `platter_only`: as soon as the cache is gone.

        A file does not grow by it, and pages that are not written out yet hide nothing.
        """
        inode = self._file(path)
        end = min(position + len(data), inode.clean_to if platter_only else len(inode.cache))
        if end <= position:
            return
        inode.harms.append((position, inode.right_bytes(position, end)))
        inode.overwrite(position, data[: end - position], platter_only=platter_only)

    def unreadable(self, path: str, position: int, length: int, times: int = -1) -> None:
        """Reads that touch these bytes fail with EIO, `times` times or, if that is negative, for ever."""
        self._file(path).unreadable.append(Unreadable(position, position + length, times))

    def lie_when(self, decide: Callable[[str, int, int], bool] | None) -> None:
        """Let the next sync of a file lie for which `decide(path, start, end of what it writes)` is true."""
        self._lie = decide
        self._rearm()

    def evict(self) -> None:
        """Drop all clean pages of the page cache."""
        for path in self.files():
            self._file(path).evict()

    def readable_again(self) -> None:
        """Sectors that failed a few times only are read without error from now on."""
        for path in self.files():
            inode = self._file(path)
            inode.unreadable = [bad for bad in inode.unreadable if bad.times < 0]

    def vanish(self, path: str) -> None:
        """A file or a whole folder is there no more, on the platter and in the cache."""
        above, _, name = path.rpartition("/")
        folder = self._walk(above)
        if folder is not None:
            folder.names.pop(name, None)
            folder.durable.pop(name, None)
            place = (folder, name)
            self._changes = [one for one in self._changes if place not in (one.source, one.target)]

    def rescue(self) -> bool:
        """Copy the disk to a sound one as ddrescue does: unreadable sectors become zeros. Were there any?"""
        found = False
        for path in self.files():
            bad, self._file(path).unreadable = self._file(path).unreadable, []
            for part in bad:
                self.overwrite(path, part.start, bytes(part.end - part.start))
                found = True
        return found

    def harmed(self) -> list[tuple[str, int, int]]:
        """(path, start, end) of the damage that is still there."""
        found: list[tuple[str, int, int]] = []
        for path in self.files():
            inode = self._file(path)
            if inode.harms or inode.unreadable:
                found.extend((path, start, end) for start, end in inode.still_harmed())
        return found

    def files(self) -> list[str]:
        """Paths of all files, sorted: where a fault injector may strike."""
        return sorted(self._paths(self._root, ""))

    def files_below(self, prefix: str) -> list[str]:
        """Paths that begin with `prefix`, which ends with a slash, sorted."""
        folder = self._walk(prefix[:-1])
        return [] if folder is None else sorted(self._paths(folder, prefix))

    def inode(self, path: str) -> Inode:
        """A file's both contents, and what is damaged in it."""
        return self._file(path)

    def content(self, path: str) -> bytes:
        """A file's present content, without a call of the port."""
        return bytes(self._file(path).cache)

    def _paths(self, folder: _Folder, prefix: str) -> Iterator[str]:
        for name, node in folder.names.items():
            if isinstance(node, _Folder):
                yield from self._paths(node, f"{prefix}{name}/")
            else:
                yield prefix + name

    def _rearm(self) -> None:
        self.armed = bool(self._crash_at or self._failures or self.full or self._lie or not self._attached)

    def enter(
        self,
        operation: str,
        path: str,
        life: int,
        file: SimFile | None = None,
        parts: Sequence[bytes | memoryview] = (),
    ) -> None:
        """Raise what this call is to meet: death, a crash planned for it, a failure armed for it."""
        if not self._attached or life not in (self.life, CLOSED):
            raise SimulatedCrash(f"{operation} {path}: this process is dead")
        if self._crash_at and self.calls >= self._crash_at:
            if file is not None and operation == "append":
                file.append_prefix(parts)
            self.detach()
            raise SimulatedCrash(f"{operation} {path}: call {self.calls}")
        if life == CLOSED:
            raise DiskError(errno.EBADF, f"{operation}: the file is closed", path)
        if operation == "append" and file is not None and self.full:
            self._take_space(file, parts, path)
        for i, (wanted, error, matching, ending) in enumerate(self._failures):
            called = operation == wanted or operation == f"{wanted}_directory"
            if called and matching in path and path.endswith(ending):
                del self._failures[i]
                self._rearm()
                if operation == "append" and file is not None:
                    file.append_prefix(parts)
                kind = SyncFailed if operation.startswith("sync") else DiskError
                raise kind(error, f"{os.strerror(error)} (simulated)", path)
        if self._lie is not None and operation == "sync" and file is not None:
            start, end = file.dirty()
            if start < end and self._lie(path, start, end):
                self._lie = None
                self._rearm()
                raise _Lie

    def _take_space(self, file: SimFile, parts: Sequence[bytes | memoryview], path: str) -> None:
        """The disk is nearly full: the append fits, or writes what fits and fails."""
        wanted = sum(len(part) for part in parts)
        if wanted <= self._space:
            self._space -= wanted
            return
        file.append_prefix(parts, self._space)
        self._space = 0
        raise DiskError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} (simulated)", path)

    def _name(self, path: str) -> None:
        """A folder is to get a new name, for which there may be no space."""
        if self.full and self._names_too and not self._space:
            raise DiskError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} (simulated)", path)

    # ----- the process's side: the Disk port -----

    def open(self, path: str, *, create: bool = False) -> SimFile:
        self._call("open", path)
        folder, name = self._place(path)
        node = folder.names.get(name)
        if isinstance(node, _Folder):
            raise DiskError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self._name(path)
            node = Inode()
            folder.names[name] = node
            self._changes.append(_Change(node, None, (folder, name)))
        return SimFile(self, node, path)

    def rename(self, source: str, target: str) -> None:
        self._call("rename", source)
        self._name(target)
        from_folder, from_name = self._place(source)
        to_folder, to_name = self._place(target)
        node = from_folder.names.get(from_name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        there = to_folder.names.get(to_name)
        if isinstance(there, _Folder) and there.names:
            raise DiskError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), target)
        del from_folder.names[from_name]
        to_folder.names[to_name] = node
        self._changes.append(_Change(node, (from_folder, from_name), (to_folder, to_name)))

    def remove(self, path: str) -> None:
        self._call("remove", path)
        folder, name = self._place(path)
        node = folder.names.get(name)
        if not isinstance(node, Inode):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        del folder.names[name]
        self._changes.append(_Change(node, (folder, name), None))

    def remove_tree(self, path: str) -> None:
        self._call("remove_tree", path)
        folder, name = self._place(path)
        node = folder.names.pop(name, None)
        if node is not None:
            self._changes.append(_Change(node, (folder, name), None))

    def list(self, path: str) -> list[str]:
        self._call("list", path)
        folder = self._walk(path)
        return [] if folder is None else sorted(folder.names)

    def exists(self, path: str) -> bool:
        self._call("exists", path)
        if not path:
            return True
        above, _, name = path.rpartition("/")
        folder = self._walk(above)
        return folder is not None and name in folder.names

    def make_directory(self, path: str) -> None:
        self._call("make_directory", path)
        folder = self._root
        for name in path.split("/"):
            node = folder.names.get(name)
            if node is None:
                self._name(path)
                node = _Folder()
                folder.names[name] = node
                self._changes.append(_Change(node, None, (folder, name)))
            if isinstance(node, Inode):
                raise DiskError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            folder = node

    def sync_directory(self, path: str) -> None:
        folder = self._walk(path)
        if folder is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self._call("sync_directory", path)
        if self._changes:
            self._changes = [change for change in self._changes if not _settled(change, folder)]

    def lock(self, path: str) -> None:
        self._call("lock", path)
        if path in self._locks:
            raise LiftlogError(f"the data folder is in use: another process holds {path}; stop it first")
        self._locks[path] = self.life

    def free_bytes(self) -> int:
        self._call("free_bytes", "")
        return self._space if self.full else self.capacity_bytes

    def _call(self, operation: str, path: str) -> None:
        self.calls += 1
        if self.armed:
            self.enter(operation, path, self.life)

    def _walk(self, path: str) -> _Folder | None:
        folder = self._root
        if path:
            for name in path.split("/"):
                node = folder.names.get(name)
                if not isinstance(node, _Folder):
                    return None
                folder = node
        return folder

    def _place(self, path: str) -> tuple[_Folder, str]:
        above, _, name = path.rpartition("/")
        folder = self._walk(above)
        if folder is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return folder, name

    def _file(self, path: str) -> Inode:
        folder, name = self._place(path)
        node = folder.names.get(name)
        if not isinstance(node, Inode):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return node


def _settled(change: _Change, folder: _Folder) -> bool:
    """Whether a waiting operation is durable now that `folder` was synced."""
    waits_for = [place for place in change.waits_for if place is not folder]
    if waits_for:
        change.waits_for = waits_for
        return False
    change.apply()
    return True
