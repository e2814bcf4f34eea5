"""What a leader leaves alone for a while, where storage could not read, or cannot make an index."""

from __future__ import annotations

from liftlog.core.status import Status

PAUSE_MS = 10_000
"""For so long: what cannot be made would be begun anew each tick."""


class Pause:
    """Of one thing that a leader does."""

    __slots__ = ("_status", "_until")

    def __init__(self, status: Status) -> None:
        self._status = status
        self._until = 0

    @property
    def on(self) -> bool:
        """Whether it is not to be tried now."""
        return self._until > self._status.ticks

    def begin(self) -> None:
        """It could not be done."""
        self._until = self._status.ticks + self._status.ticks_of(PAUSE_MS)
