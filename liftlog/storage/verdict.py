"""The verdict on a log's tail outlives the process that found it (R14).

Whoever cuts bytes that a sync may have made safe first writes why into the log's `tail` file, durably.
Otherwise a node that dies between the cut and its registration would start again, find a log without a bad
byte, and call it intact although committed records are gone. The file is removed once the metadata group has
heard of it.
"""

from __future__ import annotations

from liftlog.ports import Disk
from liftlog.storage.layout import TAIL, log_directory, make_directory_durable
from liftlog.storage.statefile import CorruptState, read_state, write_state
from liftlog.types import PartitionId, TailState

_SEVERITY = (TailState.CLEAN, TailState.INTACT, TailState.SUSPECT, TailState.DAMAGED, TailState.LOST)
WORTH_TELLING = (TailState.SUSPECT, TailState.DAMAGED, TailState.LOST)


def remember_verdict(disk: Disk, log: PartitionId, verdict: TailState, *, rewrite: bool) -> TailState:
    """The worse of this verdict and one that nobody has heard of yet; durable if it tells of a cut.

    `rewrite`: write it even if it is there, since the process that wrote it may have failed to sync it (R7).
    Raises DiskError, SyncFailed.
    """
    path = _path(log)
    earlier, readable = TailState.CLEAN, False
    try:
        content = read_state(disk, path)
        if content is not None:
            earlier, readable = TailState(content.decode()), True
    except (CorruptState, ValueError):
        # It is there, so something had been cut: the worse of the two verdicts is the safe one.
        earlier = TailState.DAMAGED
    worse = max(verdict, earlier, key=_SEVERITY.index)
    if worse in WORTH_TELLING and (rewrite or not readable or worse is not earlier):
        make_directory_durable(disk, log_directory(log))
        write_state(disk, path, worse.value.encode())
    return worse


def clear_verdict(disk: Disk, log: PartitionId) -> None:
    """The metadata group knows: a later start need not repeat it. Raises DiskError, SyncFailed."""
    path = _path(log)
    if disk.exists(path):
        disk.remove(path)
        disk.sync_directory(log_directory(log))


def _path(log: PartitionId) -> str:
    return f"{log_directory(log)}/{TAIL}"
