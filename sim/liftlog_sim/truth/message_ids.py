"""The truth about message ids: what was committed of a stream that remembers them (L7).

    StoredOnce    no id is committed twice within a window, measured by the times in the log
    TimesInOrder  these never go back
"""

from __future__ import annotations

from typing import NamedTuple

from liftlog.options.headers import stored_id
from liftlog.types import Record


class IdsFinding(NamedTuple):
    """Which invariant does not hold, and why."""

    invariant: str
    text: str


class StoredIds:
    """Of one partition; `window_ms` 0: its stream remembers none, and nothing is judged."""

    __slots__ = ("_last", "_newest_ms", "window_ms")

    def __init__(self) -> None:
        self.window_ms = 0
        self._newest_ms = 0
        self._last: dict[bytes, tuple[int, int]] = {}
        """By id: offset and time of the last record that was committed with it."""

    def committed(self, offset: int, record: Record) -> IdsFinding | None:
        """This record is the next one that is committed; what is wrong with that, if anything."""
        at_ms = record.timestamp_ms
        if at_ms < self._newest_ms:
            text = f"offset {offset} has time {at_ms}, and one before it {self._newest_ms}"
            return IdsFinding("TimesInOrder", text)
        self._newest_ms = at_ms
        id = stored_id(record.headers)
        if id is None:
            return None
        first = self._last.get(id)
        self._last[id] = (offset, at_ms)
        if first is None or at_ms >= first[1] + self.window_ms:
            return None
        text = f"id {id.decode()} lies at offset {first[0]}, time {first[1]}, and at {offset}, time {at_ms}"
        return IdsFinding("StoredOnce", f"{text}; the window is {self.window_ms} ms")
