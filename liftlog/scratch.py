"""A place for short-lived clusters: a temporary folder, and a stack of what has to be stopped before it goes.

`liftlog bench` and `liftlog demo` start servers and nodes. Whatever ends the work, an error, Ctrl-C or a
SIGTERM, everything that was started is stopped and the folder is removed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

DISK_FOLDER = Path("/var/tmp")


class Scratch(contextlib.ExitStack):
    """Use as a context manager. `folder` exists until the end of the block."""

    folder: Path

    def __init__(self, name: str, parent: Path | None = None) -> None:
        """`parent`: where the folder is made; by default /var/tmp, since /tmp may lie in memory."""
        super().__init__()
        self._name = name
        self._parent = parent or (DISK_FOLDER if os.access(DISK_FOLDER, os.W_OK) else None)

    def __enter__(self) -> Scratch:
        super().__enter__()
        self.enter_context(_terminate_like_interrupt())
        folder = tempfile.TemporaryDirectory(prefix=f"liftlog-{self._name}-", dir=self._parent)
        self.folder = Path(self.enter_context(folder))
        return self


@contextlib.contextmanager
def _terminate_like_interrupt() -> Iterator[None]:
    """While inside, a SIGTERM raises KeyboardInterrupt, so that cleaning up happens for it as well."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
