"""What a set of processes has cost so far, read from /proc: processor seconds and memory.

Rates alone would hide a price: two systems may acknowledge equally fast while one needs twice the processor.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """Sums over the processes; those that are gone count nothing."""

    cpu_seconds: float
    memory_peak_mb: float


def usage_of(pids: Iterable[int]) -> Usage:
    """Processor time since each process's start and its peak resident memory, summed."""
    cpu_ticks, memory_kb = 0, 0
    for pid in pids:
        folder = Path("/proc") / str(pid)
        try:
            # The command's name, in parentheses, may contain spaces: count fields from behind it.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            status = (folder / "status").read_text()
        except OSError:
            continue
        cpu_ticks += int(fields[11]) + int(fields[12])
        memory_kb += _kilobytes(status, "VmHWM")
    return Usage(cpu_ticks / TICKS_PER_SECOND, memory_kb / 1024)


def resident_mb(pids: Iterable[int]) -> float:
    """Memory that the processes have now, summed; those that are gone count nothing."""
    memory_kb = 0
    for pid in pids:
        try:
            status = (Path("/proc") / str(pid) / "status").read_text()
        except OSError:
            continue
        memory_kb += _kilobytes(status, "VmRSS")
    return memory_kb / 1024


def _kilobytes(status: str, field: str) -> int:
    """Of a process's status; 0 if it does not say, as that of a zombie."""
    return next((int(x.split()[1]) for x in status.splitlines() if x.startswith(f"{field}:")), 0)


def folder_bytes(folder: Path) -> int:
    """Space that a folder's files take on disk, in blocks that the file system has given out."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_blocks * 512
        except OSError:
            continue  # removed while we looked
    return total


def descendants(pid: int) -> list[int]:
    """`pid` and all processes it started, directly or through others."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(folder.name))
    found = [pid]
    for each in found:
        found.extend(children.get(each, ()))
    return found
