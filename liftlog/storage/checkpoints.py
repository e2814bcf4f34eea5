"""The high watermarks of a node's logs, as its disk knows them: one file, written with a group's sync (R8).

A checkpoint is never above its log's durable LEO, and is lowered on disk before its log loses what it names:
what takes the place of those records is not committed. The metadata log has one too, though it has no HW: its
durable LEO, the witness of an end that vanishes without leaving a bad byte (M4).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import msgspec

from liftlog.mutants import Mutants
from liftlog.ports import Disk
from liftlog.storage.layout import HW
from liftlog.storage.log import Log
from liftlog.storage.statefile import write_in_place, write_state
from liftlog.types import RAFT_LOG, PartitionId


class HwCheckpoints:
    """`hw`: what the file said at the start. `logs`: the engine's open logs, as they are at any time."""

    __slots__ = ("_disk", "_hw", "_logs", "_mutants", "changed")

    def __init__(
        self, disk: Disk, mutants: Mutants, logs: Mapping[PartitionId, Log], hw: dict[PartitionId, int]
    ) -> None:
        self._disk = disk
        self._mutants = mutants
        self._logs = logs
        self._hw = hw
        self.changed = False
        """Something waits for the next `sync`."""

    def of(self, log: Log) -> int:
        hw = self._hw.get(log.id, 0)
        return hw if self._mutants.hw_not_clamped else min(hw, log.durable_leo)

    def put(self, log: PartitionId, hw: int) -> None:
        """To be written by the next `sync`."""
        if self._hw.get(log, 0) != hw and log in self._logs:
            self._hw[log] = hw
            self.changed = True

    def lower(self, log: PartitionId, limit: int) -> None:
        """Durable before the log changes. Raises DiskError, SyncFailed."""
        if self._hw.get(log, 0) > limit and not self._mutants.hw_not_clamped:
            self._hw[log] = limit
            self._write()

    def forget(self, log: PartitionId) -> None:
        """Of a log that is gone. Raises DiskError, SyncFailed."""
        self.lower(log, 0)
        self.changed |= self._hw.pop(log, None) is not None

    def sync(self) -> None:
        """Write what has changed. What cannot be written is written with the next group."""
        if not self.changed:
            return
        if RAFT_LOG in self._logs:
            self._hw[RAFT_LOG] = self._logs[RAFT_LOG].durable_leo
        with suppress(OSError):
            self._write()

    def _write(self) -> None:
        self.changed = True
        for log_id, hw in self._hw.items():
            log = self._logs.get(log_id)
            if log is not None:
                self._hw[log_id] = min(hw, log.durable_leo)
        write = write_in_place if self._mutants.hw_checkpoint_in_place else write_state
        write(self._disk, HW, msgspec.msgpack.encode(list(self._hw.items())))
        self.changed = False
