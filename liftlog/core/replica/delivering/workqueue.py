"""A work queue (R26): a message that its consumer is done with is gone.

    taken    what is acked, or terminated, is named in the batch of entries that says so, as runs of offsets:
             so both are committed together, whoever leads. Nobody looks for what is to go, and whoever leads
             next has nothing to find; a consumer that is deleted, or made anew, changes nothing of it
    freed    from time to time the log's start moves to the first message that is left (C3): the bytes go

What was delivered as often as it may be is not done with. It stays, and is given to nobody but a consumer
that is made later. No two consumers of a queue may be given the same message. The model is `work_queue`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from liftlog.core.consumers.entries import ACKED, AT_LIMIT, TERMINATED
from liftlog.core.replica.removal.entries import encode_removed
from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.removal.subjectpurge import by_epoch
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.role import LeaderState
from liftlog.messages import runs_of
from liftlog.types import OffsetRange

DONE_WITH = (ACKED, TERMINATED)
"""How a message ends that goes."""


class WorkQueue:
    """Of one leader, in one epoch. `office`: of the data."""

    __slots__ = ("_apart", "_check_after", "_checked", "_ctx", "_data", "_office", "_removed")

    def __init__(self, data: LogState, office: LeaderState, removed: Removed) -> None:
        self._ctx = data.ctx
        self._data = data
        self._office = office
        self._removed = removed
        self._check_after = self._ctx.ticks_of(self._ctx.config.retention_check_ms)
        self._checked = self._ctx.ticks
        self._apart: list[tuple[int, list[int]]] = []
        """For a planted bug: what is acked by an entry that ends there, and not named yet."""

    @property
    def is_on(self) -> bool:
        """Whether this stream is one."""
        config = self._data.config
        return config is not None and config.is_queue

    def taken(self, offsets: Sequence[int], how: str, end: int) -> list[bytes]:
        """The entries by which these are gone that end so, by an entry that ends at `end`."""
        mutants = self._ctx.mutants
        ends = (*DONE_WITH, AT_LIMIT) if mutants.queue_takes_given_up else DONE_WITH
        if not self.is_on or how not in ends:
            return []
        if mutants.queue_takes_apart:
            self._apart.append((end, list(offsets)))
            return []
        self._ctx.mark("R26.taken")
        return self._naming(offsets)

    def _naming(self, offsets: Sequence[int]) -> list[bytes]:
        runs = [OffsetRange(start, start + length) for start, length in runs_of(sorted(offsets))]
        return [
            encode_removed(epoch, some, done_with=True) for epoch, some in by_epoch(runs, self._data.history)
        ]

    def delivered(self, counts: Iterable[tuple[int, int]]) -> list[bytes]:
        """For a planted bug: the entries by which these (offset, count) are gone when they are delivered."""
        if not self._ctx.mutants.queue_takes_at_delivery or not self.is_on:
            return []
        return self._naming([offset for offset, _ in counts])

    def late(self) -> list[bytes]:
        """For a planted bug: the entries that name what is acked by an entry that is committed."""
        due = [offsets for end, offsets in self._apart if end <= self._removed.folded]
        self._apart = self._apart[len(due) :]
        return [entry for offsets in due for entry in self._naming(offsets)]

    def tick(self) -> None:
        """Free the front, where it is time to; also where messages go by interest (R27)."""
        ctx, data = self._ctx, self._data
        frees = data.config is not None and data.config.goes_when_done
        if not frees or ctx.ticks - self._checked < self._check_after:
            return
        self._checked = ctx.ticks
        if self._office.no_promise or not self._removed.heeds_all:
            return
        front, needed_from = self._front(), self._office.needed_from
        if needed_from is not None and needed_from < front:
            ctx.mark("R26.needed")
            front = needed_from
        if front > data.log_start:
            ctx.mark("R26.freed")
            data.want_start(front)

    def _front(self) -> int:
        """The first message that is left."""
        data = self._data
        if self._ctx.mutants.queue_freed_to_floor:
            floors = [one.floor for one in self._removed.consumers.by_number.values()]
            return min(floors, default=data.log_start)
        return self._removed.hidden(data.history).next_missing(data.log_start, data.hw)
