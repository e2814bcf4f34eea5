"""A place for short-lived clusters: a temporary folder, and processes that never outlive their owner.

`liftlog bench` and `liftlog demo` start servers, nodes and load generators. Whatever ends the work, an error,
Ctrl-C or a SIGTERM, everything that was started is stopped and the folder is removed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

STOP_TIMEOUT_S = 10.0
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

    def start(self, command: list[str], log: Path) -> subprocess.Popen[bytes]:
        """Start a process that is stopped at the end of the block; its output goes to the file `log`."""
        with log.open("ab") as output:
            # In a session of its own, so that a Ctrl-C at the terminal reaches only us and we stop in order.
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.callback(stop_process, process)
        return process


def stop_process(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, and SIGKILL for one that does not listen. Does nothing if it has ended."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


def last_words(log: Path) -> str:
    """The last line a process left in its log, for an error message."""
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        return "it left no log"
    return lines[-1] if lines else "its log is empty"


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
