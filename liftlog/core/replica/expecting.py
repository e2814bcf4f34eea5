"""Messages that are stored where their publisher expects it, or not at all (L6).

The leader compares with all that is before the message in its own log, committed or not. What is stored
then rests on its own log's prefix alone, and no fail-over can keep the message and lose its premise. A
refusal is a read: it is told when what it rests on is committed, or never. What is not committed may be cut,
and then nobody has ever seen what the publisher was told of. The model is `expectations`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from liftlog.core.context import Context
from liftlog.core.replica.holding import NotNow, full, has_room
from liftlog.core.replica.state import LogState
from liftlog.messages import RefusePublishes
from liftlog.options.wishes import Wishes


class Unfit(NamedTuple):
    """A message that is not stored: the `number`-th of those that came, which would have come to lie at
    `place`.
    """

    number: int
    place: int


class WaitingRefusal(NamedTuple):
    """A refusal that rests on everything below an offset. `size`: of its message, in bytes."""

    rests_on: int
    refusal: RefusePublishes
    size: int


def fits(ctx: Context, wish: Wishes, place: int) -> bool:
    """Whether a message that would come to lie there expects no other offset."""
    return wish.expected is None or ctx.decides(("L6.expected-offset", wish.expected == place))


def unfit(ctx: Context, log: LogState, wishes: Sequence[Wishes]) -> Iterator[Unfit | NotNow]:
    """Which of these messages, to be stored one after the other, expect another place than theirs, or find
    the partition full (C6).
    """
    place = log.hw if ctx.mutants.expected_by_committed else log.leo
    for number, wish in enumerate(wishes):
        if not fits(ctx, wish, place):
            yield Unfit(number, place)
            place += ctx.mutants.expected_by_arrival
        elif not has_room(ctx, log, place, wish):
            yield full(log, number, place)
        else:
            place += 1 if ctx.mutants.parcel_counts_once else wish.span


class Refusals:
    """Of one leader, in the order of what they rest on."""

    __slots__ = ("_ctx", "_waiting")

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._waiting: deque[WaitingRefusal] = deque()

    def add(self, waiting: WaitingRefusal, hw: int) -> int:
        """Tell it now, or when it may be told. What it takes up until then, in bytes."""
        if self._ctx.decides(("L6.uncommitted", waiting.rests_on <= hw)):
            self._tell(waiting)
            return 0
        self._waiting.append(waiting)
        return waiting.size

    def committed(self, hw: int) -> int:
        """Tell those that rest on what is committed. What they took up."""
        told = 0
        while self._waiting and self._waiting[0].rests_on <= hw:
            waiting = self._waiting.popleft()
            self._tell(waiting)
            told += waiting.size
        return told

    @property
    def waiting(self) -> bool:
        """Whether anybody is to be told yet."""
        return bool(self._waiting)

    def silence(self) -> int:
        """Nobody is told any more. What they took up."""
        size = sum(waiting.size for waiting in self._waiting)
        if self._waiting:
            self._ctx.mark("L6.silenced")
        self._waiting.clear()
        return size

    def _tell(self, waiting: WaitingRefusal) -> None:
        self._ctx.mark("L6.refused")
        self._ctx.effects.append(waiting.refusal)
