"""The truth about message ids: what was committed of a stream that remembers them (L7).

    StoredOnce    no id is committed twice within a window, measured by the times in the log
    TimesInOrder  these never go back
    StoredAsExpected  who expects an id on the message before it lies behind that one
"""

from __future__ import annotations

from typing import NamedTuple

from liftlog.options.headers import LAST_ID, stored_id
from liftlog.types import Record

BEHIND = LAST_ID + b":"


class IdsFinding(NamedTuple):
    """Which invariant does not hold, and why."""

    invariant: str
    text: str


class StoredIds:
    """Of one partition; `window_ms` 0: its stream remembers none, and nothing is judged."""

    __slots__ = ("_before", "_last", "_newest_ms", "window_ms")

    def __init__(self) -> None:
        self.window_ms = 0
        self._newest_ms = 0
        self._before: tuple[int, bytes | None] = (-1, None)
        """The last record: its offset, and its id."""
        self._last: dict[bytes, tuple[int, int]] = {}
        """By id: offset and time of the last record that was committed with it."""

    def committed(self, offset: int, record: Record) -> IdsFinding | None:
        """This record is the next one that is committed; what is wrong with that, if anything."""
        at_ms = record.timestamp_ms
        if at_ms < self._newest_ms:
            text = f"offset {offset} has time {at_ms}, and one before it {self._newest_ms}"
            return IdsFinding("TimesInOrder", text)
        self._newest_ms = at_ms
        id, expected = stored_id(record.headers), _expected(record.headers)
        before, self._before = self._before, (offset, id)
        if expected and before != (offset - 1, expected):
            text = f"offset {offset} expects id {expected.decode()} before it; {before[0]} has {before[1]!r}"
            return IdsFinding("StoredAsExpected", text)
        if id is None:
            return None
        first = self._last.get(id)
        self._last[id] = (offset, at_ms)
        if first is None or at_ms >= first[1] + self.window_ms:
            return None
        text = f"id {id.decode()} lies at offset {first[0]}, time {first[1]}, and at {offset}, time {at_ms}"
        return IdsFinding("StoredOnce", f"{text}; the window is {self.window_ms} ms")


def _expected(headers: bytes) -> bytes:
    """The id that the message before this one is to have; empty: it says nothing of that."""
    found = [line for line in headers.split(b"\r\n") if line.startswith(BEHIND)]
    return found[0].removeprefix(BEHIND).strip() if found else b""
