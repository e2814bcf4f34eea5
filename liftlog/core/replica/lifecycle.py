"""How a failed log comes back: what was durable goes on in a new file, the rest is fetched again (R5).

The rebuilt log stays closed until the metadata group has heard how far it reaches; nobody may count on it
before.
"""

from __future__ import annotations

from liftlog.core.replica.state.beginning import opening_of
from liftlog.core.replica.state.log import FAILED, LogState
from liftlog.messages import RebuildLog
from liftlog.types import LogSummary

REOPEN_MS = 1000
"""How long a failed replica waits before each attempt to go on in a new file."""


class Reopening:
    """The way back of one replica, while its log has failed. `under_way`: storage rebuilds the log."""

    __slots__ = ("closed", "ctx", "log", "ticks_left", "under_way")

    def __init__(self, log: LogState) -> None:
        self.log = log
        self.ctx = log.ctx
        self.closed: LogSummary | None = None
        """The rebuilt log, which stays closed until the group has heard what became of it."""
        self.ticks_left = 0
        self.under_way = False

    def failed(self, at_once: bool) -> None:
        self.ticks_left = 1 if at_once else self.ctx.ticks_of(REOPEN_MS)

    def refused(self) -> None:
        """Storage could not rebuild the log; it is tried again."""
        self.under_way = False

    def opened(self, summary: LogSummary) -> bool:
        """Storage has opened the log. Whether it may be used now."""
        self.under_way = False
        if self._group_knows(summary):
            self.closed = None
            return True
        self.closed = summary
        return False

    def _group_knows(self, summary: LogSummary) -> bool:
        """If the log ends below what this replica had reported durable it was damaged as well (D2)."""
        log = self.log
        if log.state != FAILED:
            return True
        if summary.leo < log.failed_durable:
            self.ctx.mark("D2.shortfall")
            log.fell_short(summary.leo)
            epoch = summary.epochs[-1].epoch if summary.epochs else 0
            log.confession.say(log.id, epoch, summary.leo, True)
        return log.confession.said is None

    def tick(self) -> LogSummary | None:
        """Begin to rebuild the log; or the rebuilt log, to be looked at again."""
        ctx, log = self.ctx, self.log
        if self.closed is not None:
            return self.closed
        self.ticks_left -= 1
        if self.ticks_left > 0 or self.under_way:
            if self.ticks_left <= 0:
                ctx.mark("R5.still-rebuilding")
            return None
        # One attempt at a time: a second rebuild would cut what was appended after the first.
        self.under_way = True
        self.ticks_left = ctx.ticks_of(REOPEN_MS)
        log.reopening()
        ctx.effects.append(
            opening_of(log)
            if log.never_opened
            else RebuildLog(log.id, log.keep_below, log.in_doubt)
        )
        return None
