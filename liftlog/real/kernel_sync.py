"""Syncs that the kernel carries out by itself, while nobody here waits: io_submit(2), IOCB_CMD_FDSYNC.

A thread that waits in `fdatasync` costs more than the call: it must be woken, get Python's interpreter lock,
give it back, and get it again when the disk has answered, each time in a race with the thread that takes in
messages. The kernel (Linux 4.18 or newer) has threads of its own for this; it tells the end of a sync through
an eventfd, which the event loop waits for anyway.

`kernel_sync` says None where there is no such thing: another system or processor, a sandbox that forbids it,
a file system that does not know it. Then a thread syncs; what is promised is the same.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Sequence
from typing import NamedTuple

from liftlog.real.disk import RealFile

SYNCS_MAX = 128
"""Files that may be synced at once; a group that touches more is for the thread."""

_FDSYNC = 3
_TELL_EVENTFD = 1


class _Calls(NamedTuple):
    """Numbers of system calls; the C library has no functions for these."""

    setup: int
    destroy: int
    submit: int
    getevents: int


_CALLS = {"x86_64": _Calls(206, 207, 209, 208), "aarch64": _Calls(0, 1, 2, 4)}


class _Request(ctypes.Structure):
    """struct iocb, little endian."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("rw_flags", ctypes.c_uint32),
        ("opcode", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("descriptor", ctypes.c_uint32),
        ("buffer", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("reserved", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("told", ctypes.c_uint32),
    )


class _Answer(ctypes.Structure):
    """struct io_event."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("request", ctypes.c_uint64),
        ("result", ctypes.c_int64),
        ("result2", ctypes.c_int64),
    )


class KernelSync:
    """One group of syncs at a time. `eventfd` is written to whenever one has ended. Raises OSError."""

    def __init__(self, calls: _Calls, eventfd: int) -> None:
        # PyDLL: these calls do not wait, so the interpreter lock need not change hands.
        self._call = ctypes.PyDLL(None, use_errno=True).syscall
        self._call.restype = ctypes.c_long
        self._calls = calls
        self._eventfd = eventfd
        self._context = ctypes.c_ulong(0)
        self._do(calls.setup, ctypes.c_uint(SYNCS_MAX), ctypes.byref(self._context))
        self._requests = (_Request * SYNCS_MAX)()
        self._pointers = (ctypes.c_void_p * SYNCS_MAX)(
            *(ctypes.addressof(self._requests[place]) for place in range(SYNCS_MAX))
        )
        self._answers = (_Answer * SYNCS_MAX)()
        self._files: dict[int, RealFile] = {}

    def begin(self, files: Sequence[RealFile]) -> None:
        """Have these files synced. Raises OSError if the kernel takes none of it.

        What it does not take after the first is synced here and now.
        """
        for place, file in enumerate(files):
            request = self._requests[place]
            request.data, request.opcode, request.descriptor = place, _FDSYNC, file.fileno()
            request.flags, request.told = _TELL_EVENTFD, self._eventfd
        taken = self._do(self._calls.submit, self._context, ctypes.c_long(len(files)), self._pointers)
        self._files = dict(enumerate(files[:taken]))
        for file in files[taken:]:
            file.sync_ahead()

    def end(self) -> bool:
        """Tell the files what has become of their syncs; whether all have ended."""
        if self._files:
            least, most = ctypes.c_long(0), ctypes.c_long(SYNCS_MAX)
            count = self._do(self._calls.getevents, self._context, least, most, self._answers, None)
            for answer in self._answers[:count]:
                self._files.pop(answer.data).synced_ahead(-answer.result)
        return not self._files

    def close(self) -> None:
        """Waits for syncs that are under way."""
        self._do(self._calls.destroy, self._context)

    def _do(self, number: int, *arguments: object) -> int:
        result = int(self._call(ctypes.c_long(number), *arguments))
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result


def kernel_sync(eventfd: int) -> KernelSync | None:
    """Syncs by the kernel, if it does them for us."""
    calls = _CALLS.get(platform.machine()) if sys.platform == "linux" and sys.byteorder == "little" else None
    if calls is None:
        return None
    try:
        return KernelSync(calls, eventfd)
    except OSError:
        return None
