"""Where a data folder with an encryption key may hold open batches (V8): below which offset of which log.

Theory. Whoever may write to the folder can put an open batch with good checksums into a log. With a key, open
batches are believed only where they can be from before the key: a log that was there when the key came is
open below the LEO that it had then, and every other log is sealed from its first batch. Those offsets are
noted once and never grow, in the state file `encryption`, beside the check value of the key:

    msgpack  [check value, node, [[stream, partition, offset], ...]]   |   32 bytes, made of it with the key

Nobody without the key can write such a note, nor use another node's. What is left to such a person is to take
the file away, or to put back the one that only held the check value. Both look like a folder whose key has
just come, and so are not believed either: who switches encryption on for a folder that holds logs must say so
in the configuration, which lies elsewhere (`take_over_open_logs`).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from liftlog.types import PartitionId

NO_LIMIT = 1 << 63


class OpenLogs:
    """What is noted; `None` = there is no key, and everything is open."""

    __slots__ = ("_below",)

    def __init__(self, below: Mapping[PartitionId, int] | None) -> None:
        self._below = below

    def below(self, log: PartitionId) -> int:
        """Open batches of this log are believed below this offset."""
        return NO_LIMIT if self._below is None else self._below.get(log, 0)


EVERYTHING_OPEN = OpenLogs(None)
EVERYTHING_SEALED = OpenLogs({})


class Note(msgspec.Struct, frozen=True, array_like=True):
    """The content of `encryption`, before the bytes that prove it."""

    check_value: bytes
    node: int
    open_below: list[tuple[int, int, int]]

    def open_logs(self) -> OpenLogs:
        return OpenLogs({PartitionId(stream, index): offset for stream, index, offset in self.open_below})


def note_of(check_value: bytes, node: int, ends: Mapping[PartitionId, int]) -> Note:
    """`ends`: the LEO of every log that is there when the key comes."""
    return Note(check_value, node, [(*log, end) for log, end in sorted(ends.items()) if end])
