"""Which message ids lie in a log, for the length of a window of the times in it (L7).

The window is cut into eighths: the ids of one are dropped at once, when the youngest of them is too old. What
is asked for is compared exactly, so that up to an eighth more is held than is known. What the log must still
have on disk is another question. It is answered by what is *committed*: a time that is cut off has not
passed, and whoever leads then has to find in the log what is young again.
"""

from __future__ import annotations

from collections import deque

PARTS = 8
UNKNOWN = -1
"""No offset: the id is not there, or is too old."""


class _Part:
    """An eighth of a window. `newest_ms`: the latest time of its ids; `first`: the first one's offset."""

    __slots__ = ("begins_ms", "first", "found", "newest_ms")

    def __init__(self, first: int, begins_ms: int) -> None:
        self.first = first
        self.begins_ms = self.newest_ms = begins_ms
        self.found: dict[bytes, tuple[int, int]] = {}

    def add(self, id: bytes, offset: int, stamp_ms: int) -> None:
        self.found[id] = (offset, stamp_ms)
        self.reach(stamp_ms)

    def reach(self, stamp_ms: int) -> None:
        """A record that belongs here has this time."""
        self.newest_ms = max(self.newest_ms, stamp_ms)

    def forget(self) -> None:
        """Which ids there were; where they lie and how old they are stays known."""
        self.found = {}


class IdTable:
    """Ids with their offsets and times, in ms; they come in the order of their offsets."""

    __slots__ = ("_count", "_needed", "_parts", "_span_ms", "window_ms")

    def __init__(self, window_ms: int) -> None:
        self.window_ms = window_ms
        self._span_ms = max(1, window_ms // PARTS)
        self._parts: deque[_Part] = deque()
        """Those that are asked, oldest first."""
        self._needed: deque[_Part] = deque()
        """Those whose records the log must have, oldest first: these, and some that are asked no more."""
        self._count = 0

    def __len__(self) -> int:
        """How many ids are held."""
        return self._count

    def find(self, id: bytes, now_ms: int) -> int:
        """The offset of the id's last record, if that is less than a window older than this time; else
        UNKNOWN.
        """
        for part in reversed(self._parts):
            found = part.found.get(id)
            if found is not None:
                return found[0] if now_ms < found[1] + self.window_ms else UNKNOWN
        return UNKNOWN

    def add(self, id: bytes, offset: int, stamp_ms: int) -> None:
        """The id's record lies there, and has this time."""
        part = self._part_of(offset, stamp_ms)
        self._count += id not in part.found
        part.add(id, offset, stamp_ms)

    def keep(self, offset: int, stamp_ms: int) -> None:
        """A record without an id that a later leader may have to know of lies there, and has this time."""
        self._part_of(offset, stamp_ms).reach(stamp_ms)

    def _part_of(self, offset: int, stamp_ms: int) -> _Part:
        """The newest part, which is a new one if the time is too late for the one before."""
        part = self._parts[-1] if self._parts else None
        if part is None or stamp_ms >= part.begins_ms + self._span_ms:
            part = _Part(offset, stamp_ms)
            self._parts.append(part)
            self._needed.append(part)
        return part

    def pass_to(self, now_ms: int) -> None:
        """It is so late, and never earlier any more: let go what is too old to be asked for."""
        while self._parts and self._parts[0].newest_ms + self.window_ms <= now_ms:
            self.drop_oldest()

    def drop_oldest(self) -> None:
        """Forget the oldest eighth, whether it is too old or not."""
        if self._parts:
            part = self._parts.popleft()
            self._count -= len(part.found)
            part.forget()

    def needed_from(self, committed_ms: int) -> int | None:
        """The first offset of which a later leader may have to know, if this is the time that is committed;
        None: there is none.
        """
        while self._needed and self._needed[0].newest_ms + self.window_ms <= committed_ms:
            self._needed.popleft()
        return self._needed[0].first if self._needed else None
