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
- `fail_next()` makes one later call fail with any errno; a failed append has written a prefix. `fill()` makes
  every append fail with ENOSPC. `flip()` flips one bit in cache and platter alike.
- `crash_after(n)` kills the process *instead of* the n-th call from now (an append may have written a
  prefix); from then on every call raises `SimulatedCrash` until `kill()`, `power_loss()` or `attach()`.

`calls` counts every call of the Disk port. Nothing here reads a clock; all randomness is given. Speed
matters: an append and a sync of one small batch cost about two microseconds.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from random import Random

from liftlog.ports import DiskError, SyncFailed
from liftlog.types import LiftlogError

SECTOR_BYTES = 512
CLOSED = -1
"""In place of the life in which a file was opened: so that the common path needs no other test."""


class SimulatedCrash(BaseException):
    """The process is dead: nothing may catch this and go on, so it is no `Exception`."""


class _Inode:
    """A file's content. `holes`: ranges that a failed sync marked clean without writing them."""

    __slots__ = ("cache", "clean_to", "durable", "holes", "kept")

    def __init__(self) -> None:
        self.cache = bytearray()
        self.durable = bytearray()
        self.clean_to = 0
        self.holes: list[tuple[int, int]] = []
        self.kept = True
        """Scratch of `power_loss`: an earlier operation on this node was not lost."""

    def dirty_from(self, position: int) -> None:
        """Bytes from `position` on are new. A page that is written again is dirty as a whole once more."""
        if self.holes:
            position -= position % SECTOR_BYTES
            self.holes = [(start, min(end, position)) for start, end in self.holes if start < position]
        self.clean_to = min(self.clean_to, position)

    def sync(self) -> None:
        if self.holes:
            self.durable = self._without_holes()
        else:
            self.durable[self.clean_to :] = self.cache[self.clean_to :]
        self.clean_to = len(self.cache)

    def _without_holes(self) -> bytearray:
        """What a sync leaves on the platter when some pages are wrongly marked clean: their old content."""
        merged = bytearray(self.cache)
        for hole_start, hole_end in self.holes:
            old = self.durable[hole_start:hole_end]
            merged[hole_start:hole_end] = old + bytes(hole_end - hole_start - len(old))
        return merged

    def fail_sync(self) -> None:
        if self.clean_to < len(self.cache):
            self.holes.append((self.clean_to, len(self.cache)))
        self.clean_to = len(self.cache)

    def lose_power(self, random: Random) -> None:
        """Replace both contents by what the platter holds afterwards."""
        cache, durable = self.cache, self.durable
        for start, end in self.holes:
            old = durable[start:end]
            cache[start:end] = old + bytes(end - start - len(old))
        self.holes = []
        longest = max(len(cache), len(durable))
        if self.clean_to < longest:
            size = self._size_after(random, longest)
            cache = self._mix(random, size)
        elif cache != durable:
            cache = bytearray(durable)
        self.cache = cache
        self.durable = bytearray(cache)
        self.clean_to = len(cache)

    def _size_after(self, random: Random, longest: int) -> int:
        choice = random.randrange(4)
        if choice == 0:
            return len(self.durable)
        if choice == 1:
            return random.randint(min(self.clean_to, longest), longest)
        return len(self.cache)

    def _mix(self, random: Random, size: int) -> bytearray:
        """Each un-synced sector kept, lost or torn."""
        cache, durable = self.cache, self.durable
        after = bytearray(durable[:size]) + bytes(max(0, size - len(durable)))
        position = self.clean_to
        while position < size:
            end = min(size, position - position % SECTOR_BYTES + SECTOR_BYTES)
            new = cache[position:end]
            outcome = random.randrange(4)
            if outcome <= 1:
                after[position : position + len(new)] = new
            elif outcome == 2 and new:
                cut = random.randint(0, len(new))
                garbage = random.randbytes(len(new) - cut)
                after[position : position + len(new)] = (
                    new[:cut] + garbage if random.randrange(2) else garbage + new[len(new) - cut :]
                )
            position = end
        return after


class _Folder:
    __slots__ = ("durable", "kept", "names")

    def __init__(self) -> None:
        self.names: dict[str, _Inode | _Folder] = {}
        self.durable: dict[str, _Inode | _Folder] = {}
        self.kept = True


class _Change:
    """A folder operation that is not durable yet: `node` leaves `source` and appears in `target`."""

    __slots__ = ("node", "source", "target", "waits_for")

    def __init__(
        self,
        node: _Inode | _Folder,
        source: tuple[_Folder, str] | None,
        target: tuple[_Folder, str] | None,
    ) -> None:
        self.node = node
        self.source = source
        self.target = target
        places = [place[0] for place in (source, target) if place is not None]
        self.waits_for = places[:1] if len(places) == 2 and places[0] is places[1] else places

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

    def __init__(self, disk: SimDisk, inode: _Inode, path: str) -> None:
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

    def append_prefix(self, parts: Sequence[bytes | memoryview]) -> None:
        """What is left of an append that failed or during which the process died."""
        data = b"".join(parts)
        self._inode.dirty_from(len(self._inode.cache))
        self._inode.cache += data[: self._disk.random.randint(0, len(data))]

    def read_at(self, position: int, length: int) -> bytes:
        disk = self._disk
        disk.calls += 1
        if disk.armed or disk.life != self._life:
            disk.enter("read", self._path, self._life)
        return bytes(memoryview(self._inode.cache)[position : position + length])

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
                disk.enter("sync", self._path, self._life)
            except SyncFailed:
                self._inode.fail_sync()
                raise
        self._inode.sync()

    def truncate(self, size: int) -> None:
        disk = self._disk
        disk.calls += 1
        if disk.armed or disk.life != self._life:
            disk.enter("truncate", self._path, self._life)
        inode = self._inode
        if size > len(inode.cache):
            raise DiskError(errno.EINVAL, f"truncate would grow {self._path}")
        inode.holes = [(start, min(end, size)) for start, end in inode.holes if start < size]
        inode.clean_to = min(inode.clean_to, size)
        del inode.cache[size:]

    def preallocate(self, size: int) -> None:
        disk = self._disk
        disk.calls += 1
        if disk.armed or disk.life != self._life:
            disk.enter("preallocate", self._path, self._life)

    def close(self) -> None:
        disk = self._disk
        disk.calls += 1
        if self._life != CLOSED and (disk.armed or disk.life != self._life):
            disk.enter("close", self._path, self._life)
        self._life = CLOSED


class SimDisk:
    """A node's disk. It outlives the processes that use it; see the module's text for the model.

    `random` decides how much of a failed append was written; `power_loss` is given its own.
    """

    def __init__(self, random: Random, capacity_bytes: int = 1 << 40) -> None:
        self.random = random
        self.capacity_bytes = capacity_bytes
        self.calls = 0
        self.full = False
        """Every append fails with ENOSPC while this is set through `fill`."""
        self.life = 0
        self.armed = False
        """True while a call has to look for a fault: keeps the common path short."""
        self._attached = True
        self._crash_at = 0
        self._failures: list[tuple[str, int, str]] = []
        self._root = _Folder()
        self._changes: list[_Change] = []
        self._locks: dict[str, int] = {}

    # ----- the world's side: crashes and faults -----

    def kill(self) -> None:
        """The process dies; what it wrote stays in the page cache. A new process may use the disk at once."""
        self.attach()

    def power_loss(self, random: Random) -> None:
        """The machine loses power: un-synced sectors, sizes and names are kept, lost or torn at random."""
        changes, self._changes = self._changes, []
        for change in changes:
            change.node.kept = True
        for change in changes:
            if change.node.kept and random.randrange(2):
                change.apply()
            else:
                change.node.kept = False
        for inode in self._restore(self._root):
            inode.lose_power(random)
        self.attach()

    def _restore(self, folder: _Folder) -> Iterator[_Inode]:
        """Forget all names that are not durable; yield the files that are left, in order."""
        folder.names = dict(folder.durable)
        for name in sorted(folder.names):
            node = folder.names[name]
            if isinstance(node, _Folder):
                yield from self._restore(node)
            else:
                yield node

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
        self._locks = {}
        self._rearm()

    def wipe(self) -> None:
        """A new, empty disk in place of this one."""
        self._root = _Folder()
        self._changes = []
        self.full = False
        self.attach()

    def crash_after(self, calls: int) -> None:
        """The process dies instead of its `calls`-th call from now; 1 is the next one."""
        self._crash_at = self.calls + calls
        self._rearm()

    def fail_next_sync(self, matching: str = "") -> None:
        """The next sync of a file or folder whose path contains `matching` fails; a file's next one lies."""
        self.fail_next("sync", errno.EIO, matching)

    def fail_next(self, operation: str, error: int = errno.EIO, matching: str = "") -> None:
        """The next such call on a path that contains `matching` fails with errno `error`.

        `operation` is the name of a method of the port, "read" for `read_at`; "sync" includes
        `sync_directory`.
        """
        self._failures.append((operation, error, matching))
        self._rearm()

    def fill(self, full: bool = True) -> None:
        """From now on every append fails with ENOSPC; `fill(False)` makes space again (D5)."""
        self.full = full
        self._rearm()

    def flip(self, path: str, byte: int, bit: int) -> None:
        """Flip one bit of a file, in the page cache and on the platter, as a decayed sector would show it."""
        inode = self._file(path)
        for content in (inode.cache, inode.durable):
            if byte < len(content):
                content[byte] ^= 1 << bit

    def files(self) -> list[str]:
        """Paths of all files, sorted: where a fault injector may strike."""
        return sorted(self._paths(self._root, ""))

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
        self.armed = bool(self._crash_at or self._failures or self.full or not self._attached)

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
            file.append_prefix(parts)
            raise DiskError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} (simulated)", path)
        for i, (wanted, error, matching) in enumerate(self._failures):
            if (operation == wanted or operation == f"{wanted}_directory") and matching in path:
                del self._failures[i]
                self._rearm()
                if operation == "append" and file is not None:
                    file.append_prefix(parts)
                kind = SyncFailed if operation.startswith("sync") else DiskError
                raise kind(error, f"{os.strerror(error)} (simulated)", path)

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
            node = _Inode()
            folder.names[name] = node
            self._changes.append(_Change(node, None, (folder, name)))
        return SimFile(self, node, path)

    def rename(self, source: str, target: str) -> None:
        self._call("rename", source)
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
        if not isinstance(node, _Inode):
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
                node = _Folder()
                folder.names[name] = node
                self._changes.append(_Change(node, None, (folder, name)))
            if isinstance(node, _Inode):
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
        return 0 if self.full else self.capacity_bytes

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

    def _file(self, path: str) -> _Inode:
        folder, name = self._place(path)
        node = folder.names.get(name)
        if not isinstance(node, _Inode):
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
