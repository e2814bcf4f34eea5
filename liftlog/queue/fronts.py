"""The fronts of a queue: for every group the index of the item it is handed next.

Theory. A queue has one rear, where items are appended, and one front per group; to consume once is to be the
only group. The rear is the log's end and needs no file. Fronts are the only state that cannot be derived
from the log, so they lie in a state file (`liftlog.storage.statefile`): replaced as a whole, old or new at
every instant, checksummed, and never taken for empty when it is bad.

Two dangers follow from a file beside the log, and both would *skip* items, which a queue must never do:

- a saved front above the durable end of the log. A power loss takes the items away, new ones get the same
  indexes, and the group would pass over them. So the log is synced before a front above its durable end is
  saved, and a front that a start finds above the end nevertheless tells of lost items.
- a front saved before its items were handed out. So what is saved is a front that the group had reached with
  *earlier* calls. A crash may therefore hand out items twice, never pass over one: at least once.
"""

from __future__ import annotations

import msgspec

from liftlog.ports import Disk
from liftlog.queue.codes import InternalError
from liftlog.storage.statefile import CorruptState, read_state, write_state

FRONTS = "fronts"
VERSION = 1


class SavedFronts(msgspec.Struct, frozen=True, array_like=True):
    """Content of the state file."""

    version: int
    fronts: dict[str, int]


class Fronts:
    """All fronts of one queue: where each group is, and what of that is durable."""

    def __init__(self, disk: Disk, saved: dict[str, int]) -> None:
        self._disk = disk
        self.reached = dict(saved)
        """By group: the index that it is handed next."""
        self.saved = saved
        """By group: the front that the state file holds."""

    @classmethod
    def read(cls, disk: Disk) -> Fronts | None:
        """The saved fronts; None if there is no such file. Raises InternalError that names file and byte."""
        try:
            content = read_state(disk, FRONTS)
            if content is None:
                return None
            saved = msgspec.msgpack.decode(content, type=SavedFronts)
        except CorruptState as error:
            raise InternalError(str(error)) from error
        except msgspec.MsgspecError as error:
            raise InternalError(f"{FRONTS} byte 16: {error}") from error
        if saved.version != VERSION:
            raise InternalError(f"{FRONTS}: version {saved.version}, this program reads {VERSION}: upgrade")
        return cls(disk, saved.fronts)

    def save(self, changed: dict[str, int]) -> None:
        """Make these fronts durable; the log durably holds all below them. Raises DiskError, SyncFailed."""
        self._write({**self.saved, **changed})

    def drop(self, group: str) -> None:
        """Forget a group, durably. Raises DiskError, SyncFailed."""
        self._write({name: front for name, front in self.saved.items() if name != group})
        self.reached.pop(group, None)

    def settle(self, end: int, *, rewrite: bool) -> None:
        """Fronts above the end of the log come down to it, durably: what will be appended there is new.

        `rewrite`: write the file again in any case, since the process that wrote it may have died before its
        name was durable: a power loss would bring back an older one. Raises DiskError, SyncFailed.
        """
        lower = {group: end for group, front in self.saved.items() if front > end}
        if lower or rewrite:
            self.save(lower)
            self.reached.update(lower)

    def _write(self, fronts: dict[str, int]) -> None:
        write_state(self._disk, FRONTS, msgspec.msgpack.encode(SavedFronts(VERSION, fronts)))
        self.saved = fronts
