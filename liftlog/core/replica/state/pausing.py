"""What a leader leaves alone for a while, where storage could not read, or cannot make an index."""

from __future__ import annotations

from liftlog.core.context import Context

PAUSE_MS = 10_000
"""For so long: what cannot be made would be begun anew each tick."""


class Pause:
    """Of one thing that a leader does."""

    __slots__ = ("_ctx", "_until")

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._until = 0

    @property
    def on(self) -> bool:
        """Whether it is not to be tried now."""
        return self._until > self._ctx.ticks

    def begin(self) -> None:
        """It could not be done."""
        self._until = self._ctx.ticks + self._ctx.ticks_of(PAUSE_MS)
