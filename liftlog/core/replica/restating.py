"""The journal does not grow for ever: what it says is said again, in short, and it begins there (R21).

    restate    a leader whose journal is committed and heeded to its end writes all that is gone again, as
               runs, an entry at each tick, and behind them one that says where it began
    begin      when that one is committed, the start of the journal moves to where the restatement began (C3)

What is gone is a union: entries of others that come between change nothing, and what was written of a
restatement that no leader ends is only said twice. Who begins at such a start knows what is gone when it has
come to the entry behind (`Removed`), and shows nothing before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from liftlog.core.replica.entries import RUNS_MAX, encode_removed, encode_restated
from liftlog.core.replica.removed import Removed
from liftlog.core.replica.role_state import LeaderState
from liftlog.core.replica.state import LogState
from liftlog.format import encode_values
from liftlog.offsets import OffsetSet
from liftlog.types import NUMBER_MAX

ENTRIES_MIN = 32
NAMED_SHARE = 4
"""A restatement begins when the journal has `ENTRIES_MIN` entries, and one more for each so many runs that it
has to name.
"""


class Restating:
    """Of the leader of a journal, in one epoch."""

    __slots__ = ("_begin", "_ctx", "_data", "_end", "_leading", "_log", "_pages")

    def __init__(self, log: LogState, leading: LeaderState, data: LogState) -> None:
        self._log = log
        self._ctx = log.ctx
        self._leading = leading
        self._data = data
        self._pages: Iterator[bytes] | None = None
        """What is still to be written."""
        self._begin = self._end = 0
        """Where the last one begins, and ends once it is written; 0 = there was none, or not yet."""

    def tick(self, removed: Removed) -> bool:
        """Whether an entry was written."""
        config = self._data.config
        if self._ctx.fenced or config is None or config.read_only:
            return False
        if self._pages is None and self._end <= self._log.hw:
            if self._log.log_start < self._begin:
                # Until it has happened: see C3.
                self._log.want_start(self._begin)
            else:
                self._consider(removed)
        return self._pages is not None and self._write(self._pages)

    def _consider(self, removed: Removed) -> None:
        """Begin, if it is worth it, and nothing is on its way that would not be said again."""
        log = self._log
        entries = log.leo - log.log_start
        complete = removed.is_known and removed.folded == log.hw == log.leo
        if not complete or entries < ENTRIES_MIN or log.hw < self._leading.epoch_start:
            return
        worth = entries >= ENTRIES_MIN + removed.runs // NAMED_SHARE
        # What entries say of consumers is not said again: who is made later has all of its own behind here.
        if worth and self._ctx.decides(("K2.kept", not removed.consumers.by_number)):
            self._ctx.mark("R21.restates")
            self._begin, self._end = log.leo, NUMBER_MAX
            gone = removed.copies()
            if self._ctx.mutants.restated_in_part:
                gone = dict(list(gone.items())[-1:])
            self._pages = _pages(gone, log.leo, self._data.log_start)

    def _write(self, pages: Iterator[bytes]) -> bool:
        log, page = self._log, next(pages, None)
        if page is None:
            self._pages, self._end = None, log.leo
            return False
        log.append([encode_values(log.id, log.leo, self._leading.epoch, self._ctx.wall_ms, [page])])
        return True


def _pages(gone: Mapping[int, OffsetSet], begin: int, data_start: int) -> Iterator[bytes]:
    """The entries of a restatement."""
    for epoch, offsets in gone.items():
        runs = offsets.runs(0, NUMBER_MAX)
        while page := list(islice(runs, RUNS_MAX)):
            yield encode_removed(epoch, page)
    yield encode_restated(begin, data_start)
