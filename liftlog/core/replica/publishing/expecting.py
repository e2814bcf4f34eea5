"""Messages that are stored where their publisher expects it, or behind which record, or not at all (L6, L9).

The leader compares with all that is before the message in its own log, committed or not: where that ends, or
which record is the last of a subject (`lasts.py`). What is stored then rests on its own log's prefix alone,
and no fail-over can keep the message and lose its premise. A refusal is a read: it is told when what it rests
on is committed, or never. What is not committed may be cut, and then nobody has ever seen what the publisher
was told of. The model is `expectations`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from liftlog.core.context import Context
from liftlog.core.metadata.subjects import foreign_to, listened_to
from liftlog.core.replica.publishing.holding import NotNow, PartitionRoom, counted_bytes
from liftlog.core.replica.publishing.lasts import LastRecords, subjects_of
from liftlog.core.replica.state.log import LogState
from liftlog.messages import ERR_HEADER, RefusePublishes
from liftlog.options.wishes import Refusal, Wishes
from liftlog.types import NO_OFFSET, Message


class Unfit(NamedTuple):
    """A message that is not stored: the `number`-th of those that came, which would have come to lie at
    `place`. `last`: of its subject, if that is why; None: `place` is.
    """

    number: int
    place: int
    last: int | None = None


class Unknown(NamedTuple):
    """The `number`-th of them waits: the last record of one of these subjects is not known yet, or how much
    there is.
    """

    number: int
    subjects: tuple[bytes, ...]


class _WaitingRefusal(NamedTuple):
    """A refusal that rests on everything below an offset. `number`: in the order of arrival. `size`: of its
    message, in bytes.
    """

    rests_on: int
    number: int
    refusal: RefusePublishes
    size: int


def about_us(log: LogState, wishes: list[Wishes]) -> list[Wishes]:
    """L9: refused is who asks about a subject that is not this partition's."""
    config = log.config
    if config is None or not any(wish.compared for wish in wishes):
        return wishes
    patterns, seen = listened_to(config, log.id.index), []
    for wish in wishes:
        problem = foreign_to(patterns, wish.compared) if wish.compared else ""
        if problem and wish.refusal is None:
            text = f"the subject whose last message is expected is not this partition's: {problem}"
            wish = wish._replace(refusal=Refusal(ERR_HEADER, text))
        seen.append(wish)
    return seen


class ExpectedPlaces:
    """Where messages come to lie that are stored one after the other, and whether they expect that."""

    __slots__ = ("_ctx", "_lasts", "_log", "_messages", "_room", "_size", "_taken", "_taken_of", "place")

    def __init__(
        self, log: LogState, lasts: LastRecords, room: PartitionRoom, messages: Sequence[Message]
    ) -> None:
        self._ctx = log.ctx
        self._log = log
        self._lasts = lasts
        self._room = room
        self._size = 0
        """Bytes of those that are to be stored."""
        self._messages = messages
        self.place = log.hw if self._ctx.mutants.expected_by_committed else log.leo
        self._taken: dict[bytes, int] = {}
        """The last of each subject among those that are to be stored; what follows may ask for it."""
        self._taken_of = Counter[bytes]()
        """C6: how many of each subject are to be stored."""

    def misfit(self, number: int, wish: Wishes) -> Unfit | Unknown | NotNow | None:
        """Why the message of this number is not to be stored here and now; None if it is."""
        unexpected = self._unexpected(number, wish)
        if unexpected is not None:
            return unexpected
        message = self._messages[number]
        fits = self._room.fits(self.place, wish, message, self._size)
        if fits is None:
            return Unknown(number, self._asks(number, wish))
        if not fits:
            return self._room.refusal(number, self.place)
        return self._crowded(number, wish) if self._lasts.counts.most else None

    def _crowded(self, number: int, wish: Wishes) -> Unknown | NotNow | None:
        """C6: why there is no room for this message among those of its subject; None if there is."""
        wanted = Counter(subjects_of([self._messages[number]], [wish]))
        unknown = False
        for subject, more in wanted.items():
            fits = self._lasts.counts.fits(subject, self._taken_of[subject], more, self.place)
            if fits is False:
                return self._room.refusal(number, self.place, subject)
            unknown |= fits is None
        return Unknown(number, self._asks(number, wish)) if unknown else None

    def _asks(self, number: int, wish: Wishes) -> tuple[bytes, ...]:
        """All subjects of which anything has to be known of this message. What is told of some is gone when
        others are asked for, so they are asked for together, or that would never end.
        """
        message = self._messages[number]
        asked = dict.fromkeys(subject for subject, _ in wish.lasts(message.subject))
        if self._ctx.mutants.asks_for_ever:
            if any(self._lasts.last_of(one) is None for one in asked):
                return tuple(asked)
            asked = {}
        if self._lasts.counts.most:
            asked |= dict.fromkeys(subjects_of([message], [wish]))
        return tuple(asked) or (message.subject,)

    def _unexpected(self, number: int, wish: Wishes) -> Unfit | Unknown | None:
        """Why this message is not where it is expected, or not behind what is."""
        if wish.expected is not None and not self._ctx.decides(
            ("L6.expected-offset", wish.expected == self.place)
        ):
            return Unfit(number, self.place)
        for subject, wanted in wish.lasts(self._messages[number].subject):
            last = self._taken.get(subject, self._lasts.last_of(subject))
            if not self._ctx.decides(("L9.not-known", last is not None)):
                return Unknown(number, self._asks(number, wish))
            last = NO_OFFSET if last is None else last
            if not self._ctx.decides(("L9.expected-last", wanted == last)):
                return Unfit(number, self.place, last)
        return None

    def take(self, number: int, wish: Wishes) -> None:
        """This one is to be stored here."""
        mutants = self._ctx.mutants
        if self._lasts.noting and not mutants.last_of_those_before:
            for offset, subject in enumerate(subjects_of([self._messages[number]], [wish]), self.place):
                self._taken[subject] = offset
        if self._lasts.counts.most:
            self._taken_of.update(subjects_of([self._messages[number]], [wish]))
        self._size += counted_bytes(self._messages[number], wish)
        self.place += 1 if mutants.parcel_counts_once else wish.span

    def leave(self) -> None:
        """This one is not to be stored."""
        self.place += self._ctx.mutants.expected_by_arrival


def unfit(places: ExpectedPlaces, wishes: Sequence[Wishes]) -> Iterator[Unfit | Unknown | NotNow]:
    """Which of these messages expect another place than theirs, or another record before them, or find the
    partition full (C6).
    """
    for number, wish in enumerate(wishes):
        misfit = places.misfit(number, wish)
        if misfit is None:
            places.take(number, wish)
        else:
            yield misfit
            places.leave()


class Refusals:
    """Of one leader, in the order of what they rest on."""

    __slots__ = ("_ctx", "_number", "_waiting")

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._number = 0
        self._waiting: list[_WaitingRefusal] = []

    def add(self, rests_on: int, refusal: RefusePublishes, size: int, hw: int) -> int:
        """Tell it now, or when everything below `rests_on` is committed. What it takes up until then, in
        bytes.
        """
        self._number += 1
        waiting = _WaitingRefusal(rests_on, self._number, refusal, size)
        if self._ctx.decides(("L6.uncommitted", rests_on <= hw)):
            self._tell(waiting)
            return 0
        heappush(self._waiting, waiting)
        return size

    def committed(self, hw: int) -> int:
        """Tell those that rest on what is committed. What they took up."""
        told = 0
        while self._waiting and self._waiting[0].rests_on <= hw:
            waiting = heappop(self._waiting)
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

    def _tell(self, waiting: _WaitingRefusal) -> None:
        about_last = waiting.refusal.last_offset is not None
        self._ctx.mark("L9.refused" if about_last else "L6.refused")
        self._ctx.effects.append(waiting.refusal)
