"""The operating system's disk behind the `Disk` port. Mirrors `liftlog_sim/devices/disk.py`.

One folder is the root; every path is below it. Files are opened for reading and appending; a sync is
`fdatasync`, which covers data and size.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Sequence

from liftlog.ports import DiskError, SyncFailed
from liftlog.types import LiftlogError

VECTORS_MAX = 1000
"""Parts of one vectored write; Linux takes 1024 (IOV_MAX)."""


def _failed(error: OSError, what: str) -> DiskError:
    return DiskError(error.errno or errno.EIO, f"{what}: {os.strerror(error.errno or errno.EIO)}")


class RealFile:
    """An open file. See `liftlog.ports.DiskFile`."""

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self._ahead: int | None = None

    def __del__(self) -> None:
        # As with Python's own files: the handle in an answer that nobody waits for any longer must not leak.
        self.close()

    def append(self, parts: Sequence[bytes | memoryview]) -> int:
        position = self._size
        try:
            for start in range(0, len(parts), VECTORS_MAX):
                self._write_all(parts[start : start + VECTORS_MAX])
        except OSError as error:
            raise _failed(error, f"cannot write {self._path}") from error
        return position

    def _write_all(self, parts: Sequence[bytes | memoryview]) -> None:
        self._changed()
        wanted = sum(len(part) for part in parts)
        written = os.pwritev(self._descriptor, parts, self._size)
        self._size += written
        if written == wanted:
            return
        # A short write: a signal, or the device is filling up. The rest goes out piece by piece.
        rest = memoryview(b"".join(parts))[written:]
        while rest:
            written = os.pwrite(self._descriptor, rest, self._size)
            if written == 0:
                raise OSError(errno.ENOSPC, "no space left")
            self._size += written
            rest = rest[written:]

    def read_at(self, position: int, length: int) -> bytes:
        try:
            data = os.pread(self._descriptor, length, position)
            while 0 < len(data) < length:
                more = os.pread(self._descriptor, length - len(data), position + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise _failed(error, f"cannot read {self._path}") from error
        return data

    def size(self) -> int:
        return self._size

    def sync(self) -> None:
        if self._descriptor < 0:
            raise SyncFailed(errno.EBADF, f"cannot sync {self._path}: it is closed")
        code, self._ahead = self._ahead, None
        if code is None:
            code = self._sync_now()
        if code:
            raise SyncFailed(code, f"cannot sync {self._path}")

    def _sync_now(self) -> int:
        """0, or the number of the error."""
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            return error.errno or errno.EIO
        return 0

    def fileno(self) -> int:
        return self._descriptor

    def synced_ahead(self, code: int) -> None:
        """Nothing was written since the kernel has synced this file, with this error or 0: what the next
        `sync` is to say.
        """
        self._ahead = code

    def _changed(self) -> None:
        # A sync that has failed stays so.
        self._ahead = self._ahead or None

    def sync_ahead(self) -> None:
        """The next `sync` is done now, and says then what has become of it."""
        self.synced_ahead(self._sync_now())

    def truncate(self, size: int) -> None:
        if size > self._size:
            raise DiskError(errno.EINVAL, f"cannot truncate {self._path} to {size}: it has {self._size}")
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise _failed(error, f"cannot truncate {self._path}") from error
        self._changed()
        self._size = size

    def send_to(self, descriptor: int, position: int, length: int) -> int:
        sent = 0
        while sent < length:
            try:
                count = os.sendfile(descriptor, self._descriptor, position + sent, length - sent)
            except BlockingIOError:
                break
            except ConnectionError:
                raise
            except OSError as error:
                if sent:
                    break
                raise _failed(error, f"cannot send {self._path}") from error
            if count == 0 and not sent:
                raise DiskError(errno.EIO, f"{self._path} ends before byte {position + length}")
            if count == 0:
                break
            sent += count
        return sent

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class RealDisk:
    """The folder tree below `root`, which is created. Raises LiftlogError if that is not possible."""

    file_type = RealFile

    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(root)
        self._locks: list[int] = []
        try:
            os.makedirs(self._root, exist_ok=True)
        except OSError as error:
            raise LiftlogError(
                f"data folder {self._root}: {error.strerror}; choose another with 'data' in the configuration"
            ) from error

    def _path(self, path: str) -> str:
        return os.path.join(self._root, path) if path else self._root

    def open(self, path: str, *, create: bool = False) -> RealFile:
        full = self._path(path)
        try:
            descriptor = os.open(full, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o640)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _failed(error, f"cannot open {full}") from error
        return self.file_type(full, descriptor)

    def rename(self, source: str, target: str) -> None:
        self._call("rename", source, lambda: os.replace(self._path(source), self._path(target)))

    def remove(self, path: str) -> None:
        self._call("remove", path, lambda: os.remove(self._path(path)))

    def remove_tree(self, path: str) -> None:
        if os.path.exists(self._path(path)):
            self._call("remove", path, lambda: shutil.rmtree(self._path(path)))

    def list(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self._path(path)))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _failed(error, f"cannot list {self._path(path)}") from error

    def exists(self, path: str) -> bool:
        return os.path.exists(self._path(path))

    def make_directory(self, path: str) -> None:
        self._call("create", path, lambda: os.makedirs(self._path(path), exist_ok=True))

    def sync_directory(self, path: str) -> None:
        full = self._path(path)
        try:
            descriptor = os.open(full, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise SyncFailed(error.errno or errno.EIO, f"cannot sync folder {full}") from error

    def lock(self, path: str) -> None:
        full = self._path(path)
        try:
            descriptor = os.open(full, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise _failed(error, f"cannot open {full}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise LiftlogError(
                f"data folder {self._root} is in use by another process: stop it, or choose another folder"
            ) from error
        self._locks.append(descriptor)

    def close(self) -> None:
        """Release the locks before the process ends, so that another may take the folder."""
        for descriptor in self._locks:
            os.close(descriptor)
        self._locks.clear()

    def free_bytes(self) -> int:
        status = os.statvfs(self._root)
        return status.f_bavail * status.f_frsize

    def _call(self, verb: str, path: str, action: Callable[[], object]) -> None:
        try:
            action()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _failed(error, f"cannot {verb} {self._path(path)}") from error
