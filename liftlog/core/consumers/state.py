"""The consumers of a partition: a function of the committed part of its journal, and of nothing else (K2).

    floor      below it everything is done: the least pending offset, or the position
    position   below it everything was delivered, or is gone
    pending    by offset, how often it was delivered; always below the position
    dead       which of those were delivered for the last time, and why (K9)
    sequence   so many deliveries there were, of any message (K8)

What lies below the position and is not pending is done. A fold never refuses: what an entry says of a
consumer that is not there, or of an offset that is done, says nothing. Whoever writes entries decides.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TypeVar

from liftlog.core.consumers.entries import (
    LINE_MAX,
    Altered,
    ConsumerDeleted,
    Created,
    Dead,
    DeadRun,
    Delivered,
    Done,
    Rewound,
    SaidAgain,
    decode_entry,
    is_consumers,
)
from liftlog.messages import ConsumerConfig, Counted, Named, offsets_of
from liftlog.offsets import OffsetSet
from liftlog.types import EpochStart, OffsetRange

T = TypeVar("T")
Told = tuple[
    *tuple[int, str, int, tuple[tuple[int, int], ...], int, tuple[EpochStart, ...]],
    *tuple[tuple[OffsetRange, ...], tuple[tuple[int, str], ...]],
]
Snapshot = tuple[Told, ...]


class Consumer:
    """One of them. `number`: see `entries.py`."""

    __slots__ = (
        *("config", "dead", "lasts", "line", "name", "number", "pending", "position", "sequence", "since"),
    )

    def __init__(self, number: int, created: Created) -> None:
        self.number = number
        self.name = created.name
        self.config: ConsumerConfig = created.config
        self.position = created.start
        self.pending: dict[int, int] = {}
        self.dead: dict[int, str] = {}
        self.since = created.since
        """Below, it is given of what was not delivered yet `lasts` alone."""
        self.lasts = _set_of(created.lasts)
        self.sequence = 0
        self.line: list[EpochStart] = list(created.line)
        """By which epochs the data were written that were delivered; the newest ones."""

    @property
    def floor(self) -> int:
        return min(self.pending, default=self.position)

    def next_wanted(self, offset: int) -> int:
        """The least one, from this on, that it may be given: what its filters say of that is not known."""
        if offset >= self.since:
            return offset
        return next((run.start for run in self.lasts.runs(offset, self.since)), self.since)

    def altered(self, config: ConsumerConfig) -> None:
        """It has this configuration now."""
        self.config = config

    def delivered(self, entry: Delivered) -> None:
        for offset, length, count in entry.runs:
            self.sequence += length
            run = range(offset, offset + length)
            if self.position <= offset and offset + length <= entry.end:
                self.pending.update(dict.fromkeys(run, count))
                continue
            for one in run:
                if self.position <= one < entry.end or one in self.pending:
                    self.pending[one] = count
        for epoch, start in entry.line:
            if not self.line or epoch > self.line[-1].epoch:
                self.line.append(EpochStart(epoch, start))
        del self.line[:-LINE_MAX]
        self.position = max(self.position, entry.end)
        self.lasts.forget_below(min(self.position, self.since))

    def stands(self, pending: Iterable[Counted], sequence: int, dead: Iterable[DeadRun]) -> None:
        """What all entries before that it is known by say of it, beside its position."""
        self.sequence = sequence
        for offset, length, how in dead:
            self.dead.update(dict.fromkeys(range(offset, offset + length), how))
        for offset, length, count in pending:
            self.pending.update(dict.fromkeys(range(offset, offset + length), count))

    def done(self, entry: Done) -> None:
        pending, dead = self.pending, self.dead
        for offset in offsets_of(entry.runs):
            pending.pop(offset, None)
            if dead:
                dead.pop(offset, None)

    def died(self, entry: Dead) -> None:
        """These were delivered for the last time."""
        for offset in offsets_of(entry.runs):
            if offset in self.pending:
                self.dead.setdefault(offset, entry.how)

    def rewound(self, to: int) -> None:
        """What lies from `to` on was not delivered; the deliveries of what was there stay counted."""
        self.position = min(self.position, to)
        for offset in [offset for offset in self.pending if offset >= to]:
            del self.pending[offset]
            self.dead.pop(offset, None)
        self.line = [entry for entry in self.line if entry.start < to]
        self.since = min(self.since, to)

    def say_again(self) -> SaidAgain:
        """All of it, for who knows nothing of it."""
        pending = runs_alike(sorted(self.pending.items()))
        line = list(self.line)
        lasts = [(start, end - start) for start, end in self.lasts.runs(self.position, self.since)]
        return SaidAgain(
            consumer=self.number,
            name=self.name,
            config=self.config,
            position=self.position,
            line=line,
            pending=pending,
            lasts=lasts,
            since=self.since,
            sequence=self.sequence,
            dead=runs_alike(sorted(self.dead.items())),
        )

    def parts_from(self, history: Sequence[EpochStart], leo: int, log_start: int) -> int | None:
        """K5: where the data are not those that were delivered: the first offset below the position whose
        epoch is another one, or that is not there; None if they are. `history`: of the data, which end at
        `leo`. Where it does not reach back to a record, that is taken for the same.

        Two logs that agree on a record's epoch agree on all before it. If they do not agree on the first
        record of which the epoch is remembered, everything that is there is delivered again.
        """
        if not self.line:
            return min(leo, log_start) if leo < self.position else None
        first = max(self.line[0].start, log_start)
        edges = [entry.start for entry in (*self.line, *history)]
        for offset in sorted([*edges, first, leo]):
            if not first <= offset < self.position:
                continue
            here, there = _epoch(self.line, offset), _epoch(history, offset)
            if offset >= leo or here != there > 0:
                return offset if offset > first else log_start
        return log_start if leo < self.position else None


class Consumers:
    """Of one partition. `by_number` and `by_name` hold the same ones."""

    __slots__ = ("by_name", "by_number", "dying")

    def __init__(self) -> None:
        self.by_number: dict[int, Consumer] = {}
        self.by_name: dict[str, Consumer] = {}
        self.dying: dict[int, Consumer] = {}
        """Those of them of whom something is dead (K9)."""

    def clear(self) -> None:
        """Nothing is known."""
        self.by_number.clear()
        self.by_name.clear()
        self.dying.clear()

    def take(self, offset: int, data: bytes) -> None:
        """The entry at this offset of the journal. Raises UnreadableEntry."""
        entry = decode_entry(data)
        if isinstance(entry, Created):
            if entry.instead:
                self._end(entry.instead)
            self._add(Consumer(offset + 1, entry))
            return
        if isinstance(entry, SaidAgain):
            if entry.consumer not in self.by_number:
                self._add(_known_by(entry))
            return
        consumer = self.by_number.get(entry.consumer)
        if consumer is None:
            return
        match entry:
            case Altered():
                consumer.altered(entry.config)
            case Delivered():
                consumer.delivered(entry)
            case Done():
                consumer.done(entry)
            case Dead():
                consumer.died(entry)
            case Rewound():
                consumer.rewound(entry.to)
            case ConsumerDeleted():
                self._end(consumer.number)
                return
        self._weigh(consumer)

    def _end(self, number: int) -> None:
        consumer = self.by_number.pop(number, None)
        if consumer is not None:
            del self.by_name[consumer.name]
            self._weigh(consumer)

    def _add(self, consumer: Consumer) -> None:
        if consumer.name not in self.by_name and consumer.number not in self.by_number:
            self.by_name[consumer.name] = self.by_number[consumer.number] = consumer
            self._weigh(consumer)

    def _weigh(self, consumer: Consumer) -> None:
        number = consumer.number
        if consumer.dead and number in self.by_number:
            self.dying[number] = consumer
        else:
            self.dying.pop(number, None)

    def say_again(self, numbers: Iterable[int], ahead: Iterable[tuple[int, bytes]]) -> list[SaidAgain]:
        """Where those of these stand that are there behind entries that are not folded: (offset, entry).
        Raises UnreadableEntry.
        """
        asked, then = tuple(numbers), Consumers()
        for number in asked:
            if number in self.by_number:
                then._add(_known_by(self.by_number[number].say_again()))
        for offset, entry in ahead:
            if is_consumers(entry):
                then.take(offset, entry)
        return [then.by_number[number].say_again() for number in asked if number in then.by_number]

    def snapshot(self) -> Snapshot:
        """All that is known, to be compared."""
        return tuple(
            (
                *(one.number, one.name, one.position),
                *(tuple(sorted(one.pending.items())), one.sequence, tuple(one.line)),
                *(tuple(one.lasts.runs(one.position, one.since)), tuple(sorted(one.dead.items()))),
            )
            for _, one in sorted(self.by_number.items())
        )


def _known_by(entry: SaidAgain) -> Consumer:
    """The consumer of whom that is all that is known."""
    where = entry.position, entry.line, entry.lasts, entry.since
    consumer = Consumer(entry.consumer, Created(entry.name, entry.config, *where))
    consumer.stands(entry.pending, entry.sequence, entry.dead)
    return consumer


def _set_of(runs: Iterable[Named]) -> OffsetSet:
    """The offsets that these runs name."""
    found = OffsetSet()
    for start, length in runs:
        found.add(start, start + length)
    return found


def runs_alike(pairs: Iterable[tuple[int, T]]) -> list[tuple[int, int, T]]:
    """As `runs_of`, of (offset, value): a run has one value."""
    runs: list[tuple[int, int, T]] = []
    first = length = 0
    same: list[T] = []
    for offset, value in pairs:
        if same and offset == first + length and value == same[0]:
            length += 1
            continue
        if same:
            runs.append((first, length, same[0]))
        first, length, same = offset, 1, [value]
    if same:
        runs.append((first, length, same[0]))
    return runs


def line_between(history: Sequence[EpochStart], start: int, end: int) -> list[EpochStart]:
    """By which epochs the data in [start, end) were written; the newest ones."""
    inside = [entry for entry in history if entry.start < end]
    before = [entry for entry in inside if entry.start <= start]
    return inside[max(0, len(before) - 1) :][-LINE_MAX:] if start < end else []


def _epoch(line: Sequence[EpochStart], offset: int) -> int:
    """The epoch of the record at an offset; 0 if the line does not reach back to it."""
    position = bisect_right(line, offset, key=lambda entry: entry.start)
    return line[position - 1].epoch if position else 0
