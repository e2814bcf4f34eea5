"""How far a reading is while it goes on: told to who watches it, for a display, a metric or an alarm."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple


class ReadingProgress(NamedTuple):
    """Of one partition. All below the offset `position` is done, or handed out where nobody says what is
    done; `end`: what is committed ended there when a server last answered."""

    stream: str
    partition: int
    position: int
    end: int

    @property
    def lag(self) -> int:
        """So many offsets are left. Those that deletions or compaction have taken count too."""
        return max(0, self.end - self.position)


OnProgress = Callable[[ReadingProgress], object]


class ProgressTeller:
    """Tells what has changed since it was told."""

    def __init__(self, on_progress: OnProgress | None) -> None:
        self._on_progress = on_progress
        self._told: dict[tuple[str, int], ReadingProgress] = {}

    def tell(self, found: Iterable[ReadingProgress]) -> None:
        """Raises what the callback raises."""
        if self._on_progress is None:
            return
        for one in found:
            place = (one.stream, one.partition)
            if self._told.get(place) != one:
                self._told[place] = one
                self._on_progress(one)
