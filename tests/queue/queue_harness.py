"""What the queue tests share: queues on a simulated disk, and a clock that ticks when it is told to."""

from __future__ import annotations

from random import Random

from liftlog.queue import BigQueue, QueueOptions
from liftlog_sim.devices.disk import SimDisk

SMALL = QueueOptions(segment_bytes=600)
"""A few items fill a back file."""


class HandClock:
    """Milliseconds that move only by hand."""

    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def new_disk(seed: int = 0) -> SimDisk:
    return SimDisk(Random(seed))


def open_on(
    disk: SimDisk,
    options: QueueOptions = SMALL,
    clock: HandClock | None = None,
    accept_loss: bool = False,
) -> BigQueue:
    return BigQueue.open(
        disk=disk, options=options, clock_ms=clock or HandClock(), accept_loss=accept_loss, new_id=77
    )


def reopen(disk: SimDisk, options: QueueOptions = SMALL, accept_loss: bool = False) -> BigQueue:
    """The process is killed and a new one opens the queue."""
    disk.kill()
    return open_on(disk, options, accept_loss=accept_loss)


def back_files(disk: SimDisk) -> list[str]:
    return [path for path in disk.files() if path.startswith("streams/") and path.endswith(".log")]


def numbered(start: int, count: int, size: int = 60) -> list[bytes]:
    """Items that say which they are."""
    return [b"%d" % number + b"." * size for number in range(start, start + count)]
