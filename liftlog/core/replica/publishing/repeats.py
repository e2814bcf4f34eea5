"""Answers to messages that are not stored, since one with their id is: they name the first one (L7).

Such an answer says that the first one is stored. So it waits until that is committed, or, for who wants the
leader's word alone, durable at the leader (R4); what is not committed may be cut, and then nobody was told.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

from liftlog.core.replica.state.log import LogState
from liftlog.messages import AckPublishes


class _WaitingRepeat(NamedTuple):
    """An answer that names an offset. `number`: in the order of arrival. `size`: of its message, in bytes."""

    offset: int
    number: int
    ack: AckPublishes
    size: int


class Repeats:
    """Of one leader, those of the lowest offsets first."""

    __slots__ = ("_by_leader", "_committed", "_ctx", "_log", "_number")

    def __init__(self, log: LogState) -> None:
        self._ctx = log.ctx
        self._log = log
        self._number = 0
        self._committed: list[_WaitingRepeat] = []
        self._by_leader: list[_WaitingRepeat] = []

    def add(self, ack: AckPublishes, size: int) -> int:
        """Tell it now, or when it may be told. What it takes up until then, in bytes."""
        offset, log = ack.offsets_from, self._log
        waits = (
            not self._ctx.decides(("R4.leader-synced", offset < log.durable_leo))
            if ack.by_leader
            else not self._ctx.decides(("L7.uncommitted", offset < log.hw))
        )
        if not waits:
            self._tell(ack)
            return 0
        self._number += 1
        row = self._by_leader if ack.by_leader else self._committed
        heappush(row, _WaitingRepeat(offset, self._number, ack, size))
        return size

    def settled(self) -> int:
        """Tell those whose first one is committed, or durable, by now. What they took up."""
        if not self._committed and not self._by_leader:
            return 0
        log = self._log
        return self._below(self._committed, log.hw) + self._below(self._by_leader, log.durable_leo)

    @property
    def waiting(self) -> bool:
        """Whether anybody is to be told yet."""
        return bool(self._committed or self._by_leader)

    def silence(self) -> int:
        """Nobody is told any more. What they took up."""
        waiting = [*self._committed, *self._by_leader]
        if waiting:
            self._ctx.mark("L7.silenced")
        self._committed.clear()
        self._by_leader.clear()
        return sum(one.size for one in waiting)

    def _below(self, row: list[_WaitingRepeat], end: int) -> int:
        told = 0
        while row and row[0].offset < end:
            waiting = heappop(row)
            self._tell(waiting.ack)
            told += waiting.size
        return told

    def _tell(self, ack: AckPublishes) -> None:
        self._ctx.mark("L7.answered")
        self._ctx.effects.append(ack)
