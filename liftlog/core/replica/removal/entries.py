"""What stands in a partition's journal (R21): entries, each a kind byte and numbers of 7 bits a byte.

    1  removed   epoch, count, then for each run: how far it begins behind the end of the one before (of the
                 first: its offset), and how long it is: the records of this epoch at these offsets are gone
    2  restated  where in the journal it began, where the data did: from there to here all is named again that
                 is gone by entries below, but for records below that offset of the data
    3  rolled up epoch, offset: on all roll-ups that lie below that offset of the data, up to a record of this
                 epoch, the leader has acted (R23): by entries before this one
    4  outlived  epoch, offset: of the messages below that offset of the data, up to a record of this epoch,
                 that are to go after a time (R24), none is left: entries before this one name them
    5  done with  as the first kind: a consumer of a work queue is done with these (R26)

A record is named with the epoch that wrote it. Where an operator had a leader elected that lacked it, the
offset is given again, to a record of a later epoch, and that one is not meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from liftlog.types import NUMBER_MAX, LiftlogError, OffsetRange

REMOVED = 1
RESTATED = 2
ROLLED_UP = 3
OUTLIVED = 4
DONE_WITH = 5
RUNS_MAX = 10_000
"""Runs that one entry names at most: some 30 KB if they lie apart."""

Named = tuple[int, int]
"""(offset, epoch) of a record."""


class BadEntry(LiftlogError):
    """These bytes are no entry that this liftlog knows."""


class RemovedRuns(NamedTuple):
    """One entry: of the records that `epoch` wrote, those at these offsets. The runs rise, and are apart.
    `done_with`: it is of the fifth kind.
    """

    epoch: int
    runs: tuple[OffsetRange, ...]
    done_with: bool = False

    def named(self) -> Iterator[Named]:
        """Each record."""
        return ((offset, self.epoch) for start, end in self.runs for offset in range(start, end))


def encode_removed(epoch: int, runs: Sequence[OffsetRange], *, done_with: bool = False) -> bytes:
    """An entry, of the fifth kind if consumers are done with these. Raises ValueError if it names nothing,
    more than `RUNS_MAX` runs, or runs out of order.
    """
    if not 0 < len(runs) <= RUNS_MAX:
        raise ValueError(f"an entry names {len(runs)} runs")
    data = bytearray([DONE_WITH if done_with else REMOVED])
    _put(data, epoch)
    _put(data, len(runs))
    due = 0
    for start, end in runs:
        if not due <= start < end <= NUMBER_MAX:
            raise ValueError(f"an entry names [{start}, {end}) behind what ends at {due}")
        _put(data, start - due)
        _put(data, end - start)
        due = end
    return bytes(data)


def encode_restated(begin: int, data_start: int) -> bytes:
    """An entry of the second kind."""
    data = bytearray([RESTATED])
    _put(data, begin)
    _put(data, data_start)
    return bytes(data)


class Restated(NamedTuple):
    """An entry of the second kind."""

    begin: int
    data_start: int


class RolledUp(NamedTuple):
    """An entry of the third kind."""

    epoch: int
    through: int


class Outlived(NamedTuple):
    """An entry of the fourth kind."""

    epoch: int
    through: int


def encode_come_to(said: RolledUp | Outlived) -> bytes:
    """An entry of the third or fourth kind."""
    data = bytearray([ROLLED_UP if isinstance(said, RolledUp) else OUTLIVED])
    _put(data, said.epoch)
    _put(data, said.through)
    return bytes(data)


_OF_TWO_NUMBERS: dict[int, type[Restated | RolledUp | Outlived]] = {
    RESTATED: Restated,
    ROLLED_UP: RolledUp,
    OUTLIVED: Outlived,
}


def decode_entry(data: bytes) -> RemovedRuns | Restated | RolledUp | Outlived:
    """An entry of any kind. Raises BadEntry."""
    kind = _OF_TWO_NUMBERS.get(data[0]) if data else None
    if kind is None:
        return decode_removed(data)
    numbers = list(_numbers(data))
    if len(numbers) != 2:
        raise BadEntry(f"a journal's entry is to have 2 numbers and has {len(numbers)}")
    return kind(*numbers)


def decode_removed(data: bytes) -> RemovedRuns:
    """What an entry names. Raises BadEntry."""
    if not data or data[0] not in (REMOVED, DONE_WITH):
        kind = data[0] if data else "none"
        raise BadEntry(f"a journal's entry of kind {kind}: it was written by a newer liftlog; start that")
    numbers = _numbers(data)
    epoch, count = next(numbers, 0), next(numbers, 0)
    rest = list(numbers)
    if not 0 < count <= RUNS_MAX or len(rest) != 2 * count:
        raise BadEntry(f"a journal's entry is to name {count} runs and has {len(rest)} numbers")
    runs, due = [], 0
    for skipped, length in zip(rest[::2], rest[1::2], strict=True):
        run = OffsetRange(due + skipped, due + skipped + length)
        if not length or run.end > NUMBER_MAX:
            raise BadEntry(f"a journal's entry names offsets {run}, which cannot be")
        runs.append(run)
        due = run.end
    return RemovedRuns(epoch, tuple(runs), data[0] == DONE_WITH)


def _put(data: bytearray, number: int) -> None:
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)


def _numbers(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data[1:]:
        number |= (byte & 0x7F) << shift
        if number > NUMBER_MAX:
            raise BadEntry("a journal's entry holds a number that is too large")
        shift += 7
        if not byte & 0x80:
            yield number
            number = shift = 0
    if shift:
        raise BadEntry("a journal's entry ends inside a number")
