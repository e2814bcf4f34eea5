"""What a disk is known to hold: a log that is there no more was lost, and is never taken for a new one (M4).

The file `logs` names every partition whose log lies on this disk. A log is in it before anybody is told that
it exists, and leaves it before its folder moves to the trash; so a name without a folder means a loss,
wherever a process died in between. Should the file itself be gone, the HW checkpoints tell of every log that
held something committed; a file that cannot be read stops the node, as other metadata does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from liftlog.ports import Disk
from liftlog.storage.layout import LOGS
from liftlog.storage.statefile import CorruptState, read_state, write_state
from liftlog.types import RAFT_LOG, PartitionId


class Inventory:
    """The content of `logs`, as it lies on disk. In order of the ids."""

    __slots__ = ("_disk", "_names", "_stored")

    def __init__(self, disk: Disk, stored: Iterable[PartitionId] | None = None) -> None:
        self._disk = disk
        self._stored = stored is not None
        self._names: dict[PartitionId, None] = dict.fromkeys(stored or ())

    def __contains__(self, log: PartitionId) -> bool:
        return log in self._names

    @property
    def names(self) -> list[PartitionId]:
        return sorted(self._names)

    def add(self, logs: Iterable[PartitionId]) -> None:
        """Durably, all with one sync. Raises DiskError, SyncFailed; then it must be tried again."""
        new = [log for log in logs if log not in self._names]
        if new:
            self._write([*self._names, *new])

    def remove(self, log: PartitionId) -> None:
        """Durably. Raises DiskError, SyncFailed; then it must be tried again."""
        if log in self._names:
            self._write([name for name in self._names if name != log])

    def settle(self, logs: Iterable[PartitionId], rewrite: bool) -> None:
        """At a start: these are the logs. `rewrite`: nobody knows whether the file was synced (R7)."""
        names = [log for log in logs if log != RAFT_LOG]
        if rewrite or not self._stored or sorted(names) != self.names:
            self._write(names)

    def _write(self, names: list[PartitionId]) -> None:
        write_state(self._disk, LOGS, msgspec.msgpack.encode(sorted(names)))
        self._names = dict.fromkeys(sorted(names))
        self._stored = True


def read_inventory(disk: Disk, hw: Mapping[PartitionId, int]) -> Inventory:
    """What the disk is known to hold, by the file and by its checkpoints. Raises CorruptState, DiskError."""
    content = read_state(disk, LOGS)
    try:
        stored = None if content is None else msgspec.msgpack.decode(content, type=list[PartitionId])
    except msgspec.MsgspecError as error:
        raise CorruptState(f"{LOGS} byte 16: {error}") from error
    inventory = Inventory(disk, stored)
    for log, offset in sorted(hw.items()):
        if offset > 0 and log != RAFT_LOG:
            inventory._names.setdefault(log)
    return inventory
