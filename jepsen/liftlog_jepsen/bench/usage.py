"""What Spark's processes use, read from /proc: the Java process and the Python workers below it.

CPU time is that of all processes below this one, and of those of their children that have ended. Memory is
sampled: resident pages of the Java process, and the workers' own share of theirs, because they are forked
from one process and have most pages in common.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

PROC = Path("/proc")
SAMPLE_SECONDS = 0.2
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class WorkUsage(NamedTuple):
    """What one piece of work used. Memory is the greatest that any sample saw, in bytes."""

    seconds: float
    cpu_seconds: float
    java_bytes: int
    python_bytes: int


class _Process(NamedTuple):
    pid: int
    parent: int
    name: str
    cpu_seconds: float
    resident: int


class Meter:
    """Use as a context manager around one piece of work; `usage` then says what it used."""

    def __init__(self, root: int | None = None) -> None:
        self.root = os.getpid() if root is None else root
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="meter", daemon=True)
        self._java = self._python = 0
        self.usage = WorkUsage(0, 0, 0, 0)

    def __enter__(self) -> Meter:
        self._started, self._cpu = time.monotonic(), _cpu_seconds(self.root)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        seconds = time.monotonic() - self._started
        self._done.set()
        self._thread.join()
        self.look()
        self.usage = WorkUsage(seconds, self.cpu_so_far(), self._java, self._python)

    def _sample(self) -> None:
        while not self._done.is_set():
            self.look()
            self._done.wait(SAMPLE_SECONDS)

    def cpu_so_far(self) -> float:
        """CPU seconds since the start."""
        return _cpu_seconds(self.root) - self._cpu

    def look(self) -> None:
        """Take one sample of memory."""
        below = processes_below(self.root)
        java = sum(each.resident for each in below if each.name == "java")
        python = sum(_own_share(each.pid) for each in below if each.name.startswith("python"))
        self._java, self._python = max(self._java, java), max(self._python, python)


def processes_below(root: int) -> list[_Process]:
    """All living descendants of a process, without itself."""
    children: dict[int, list[_Process]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            process = _read(int(entry.name))
            if process is not None:
                children.setdefault(process.parent, []).append(process)
    found, waiting = [], [root]
    while waiting:
        some = children.get(waiting.pop(), [])
        found += some
        waiting += [each.pid for each in some]
    return found


def _read(pid: int) -> _Process | None:
    """One process, unless it has just ended."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    cells = rest.split()
    ticks = sum(int(cells[place]) for place in (11, 12, 13, 14))
    return _Process(pid, int(cells[1]), name, ticks / _TICKS, int(cells[21]) * _PAGE)


def _cpu_seconds(root: int) -> float:
    return sum(each.cpu_seconds for each in processes_below(root))


def _own_share(pid: int) -> int:
    """Proportional set size: pages that several processes have count by their share."""
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
