"""The journal does not grow for ever: what it says is said again, in short, and it begins there (R21).

    restate    a leader with a long journal writes all that is gone again, as runs, and where each consumer
               stands (K2), some at each tick, behind that how far roll-ups were acted on (R23) and times to
               live are over (R24), and one entry that says where this began
    begin      when that one is committed, the start of the journal moves to where the restatement began (C3)

It begins where the leader had folded its journal to. What is gone is a union: entries of others that come
between change nothing. Where a consumer stands is said of all that lies before the very entry, what is not
committed included: who has heeded its other entries ignores it, who begins behind these knows by it what they
said. What was written of a restatement that no leader ends is only said twice. Who begins at such a start
knows what is gone when it has come to the entry behind (`Removed`), and shows nothing before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

import msgspec

from liftlog.core.consumers.entries import encode_entry
from liftlog.core.replica.removal.entries import RUNS_MAX, encode_come_to, encode_removed, encode_restated
from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.role import LeaderState
from liftlog.format import decode_values, encode_values
from liftlog.offsets import OffsetSet
from liftlog.types import NUMBER_MAX

NAMED_SHARE = 4
"""A restatement begins when the journal has `restate_entries`, and one more for each so many runs or pending
messages that it has to name.
"""
CONSUMER_SHARE = 4
"""And so many more for each consumer."""
EPOCH_SHARE = 2
"""And for each epoch of which something is gone: a restatement has an entry for each."""
CONSUMERS_AT_ONCE = 16
"""Consumers of which one tick writes where they stand."""
AHEAD_BYTES = 4 * 1024 * 1024
"""So much of the journal that is not folded is looked at; if there is more, it is tried again at a tick."""


class Restating:
    """Of the leader of a journal, in one epoch."""

    __slots__ = ("_begin", "_ctx", "_data", "_end", "_leading", "_log", "_pages")

    def __init__(self, log: LogState, leading: LeaderState, data: LogState) -> None:
        self._log = log
        self._ctx = log.ctx
        self._leading = leading
        self._data = data
        self._pages: Iterator[list[bytes]] | None = None
        """What is still to be written, tick by tick; nothing at a tick that cannot say."""
        self._begin = self._end = 0
        """Where the last one begins, and ends once it is written; 0 = there was none, or not yet."""

    def tick(self, removed: Removed) -> bool:
        """Whether entries were written."""
        config = self._data.config
        if self._ctx.fenced or config is None or config.read_only:
            return False
        if self._log.log_start < self._begin:
            # What takes the place of the front is to be there to stay.
            if self._ctx.decides(("K2.kept", self._end <= self._log.hw)):
                # Until it has happened: see C3.
                self._log.want_start(self._begin)
        elif self._pages is None and self._end <= self._log.hw:
            self._consider(removed)
        return self._pages is not None and self._write(self._pages)

    def _consider(self, removed: Removed) -> None:
        """Begin, if it is worth it."""
        log = self._log
        spare = removed.folded - log.log_start - self._ctx.config.restate_entries
        if not removed.is_known or spare < 0 or log.hw < self._leading.epoch_start:
            return
        consumers = removed.consumers.by_number.values()
        epochs = 0 if self._ctx.mutants.restated_for_its_own_length else removed.count_epochs()
        spare -= CONSUMER_SHARE * len(consumers) + EPOCH_SHARE * epochs
        # Thousands of consumers are not looked at in each tick for nothing.
        if spare < removed.runs // NAMED_SHARE:
            return
        if spare < (removed.runs + sum(len(one.pending) for one in consumers)) // NAMED_SHARE:
            return
        self._ctx.mark("R21.restates")
        self._begin, self._end = removed.folded, NUMBER_MAX
        self._pages = self._say_again(removed)

    def _say_again(self, removed: Removed) -> Iterator[list[bytes]]:
        """The entries of a restatement. What is gone is taken as it is now."""
        gone, data_start = removed.copies(), self._data.log_start
        behind = [encode_restated(self._begin, data_start)]
        for said in (removed.rolled_up, removed.outlived):
            if said is not None:
                behind.insert(0, encode_come_to(said))
        if self._ctx.mutants.restated_in_part:
            gone = dict(list(gone.items())[-1:])
        numbers = tuple(removed.consumers.by_number)
        return self._pages_of(removed, gone, numbers, behind)

    def _pages_of(
        self, removed: Removed, gone: Mapping[int, OffsetSet], numbers: tuple[int, ...], behind: list[bytes]
    ) -> Iterator[list[bytes]]:
        for epoch, offsets in gone.items():
            runs = offsets.runs(0, NUMBER_MAX)
            while page := list(islice(runs, RUNS_MAX)):
                yield [encode_removed(epoch, page)]
        for first in range(0, len(numbers), CONSUMERS_AT_ONCE):
            some = numbers[first : first + CONSUMERS_AT_ONCE]
            while (ahead := self._ahead(removed)) is None:
                yield []
            if said := self._standing(removed, some, ahead):
                yield said
        yield behind

    def _ahead(self, removed: Removed) -> list[tuple[int, bytes]] | None:
        """What the journal says that is not folded; None if that cannot be told now."""
        log, offset = self._log, removed.folded
        if removed.problem or (batches := log.cached(offset, log.leo, AHEAD_BYTES)) is None:
            return None
        ahead: list[tuple[int, bytes]] = []
        for batch in batches:
            ahead += enumerate(decode_values(batch)[offset - batch.base_offset :], offset)
            offset = batch.end_offset
        return ahead if offset == log.leo else None

    def _standing(
        self, removed: Removed, numbers: tuple[int, ...], ahead: list[tuple[int, bytes]]
    ) -> list[bytes]:
        mutants = self._ctx.mutants
        said = removed.consumers.say_again(numbers, [] if mutants.said_again_as_folded else ahead)
        for place, one in enumerate(said):
            self._ctx.mark("K2.said-again")
            if mutants.said_again_without_pending:
                one.pending.clear()
            if mutants.lasts_not_said_again:
                one.lasts.clear()
            if mutants.said_again_without_sequence:
                said[place] = msgspec.structs.replace(one, sequence=0)
        return [encode_entry(one) for one in said]

    def _write(self, pages: Iterator[list[bytes]]) -> bool:
        log, page = self._log, next(pages, None)
        if page is None:
            self._pages, self._end = None, log.leo
        if not page:
            return False
        log.append([encode_values(log.id, log.leo, self._leading.epoch, self._ctx.wall_ms, page)])
        return True
