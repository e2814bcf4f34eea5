"""A set of offsets that grows to millions and stays small: which messages of a partition are gone.

Kept by chunk of 65,536 offsets: up to `LISTED_MAX` of one as a list of 2 bytes each, more as a bit each.
So an offset takes 8 bytes at most, beside some 200 bytes for a chunk that has any: two bits if half of all
are in it, and nothing where a chunk is in it altogether, since all of these share their bits.

What a chunk holds is never changed, only replaced. A copy of the set costs a reference for each chunk, may be
given to another thread, and can be asked later what was added since.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from liftlog.types import OffsetRange

CHUNK_BITS = 16
CHUNK = 1 << CHUNK_BITS
LISTED_MAX = 1024
FULL = (1 << CHUNK) - 1
_ONES = re.compile("1+")

Held = bytes | int
"""Of one chunk: places as native 16-bit numbers, rising, or a bit for each place."""


class OffsetSet:
    """Mutable. Two are equal if they hold the same."""

    __slots__ = ("_chunks",)

    def __init__(self) -> None:
        self._chunks: dict[int, Held] = {}

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def __len__(self) -> int:
        return sum(len(held) // 2 if isinstance(held, bytes) else held.bit_count() for held in self._held())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffsetSet) and self._chunks == other._chunks

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"OffsetSet({len(self)} offsets)"

    def __contains__(self, offset: int) -> bool:
        held = self._chunks.get(offset >> CHUNK_BITS)
        place = offset & (CHUNK - 1)
        if held is None:
            return False
        if isinstance(held, int):
            return bool(held >> place & 1)
        places = memoryview(held).cast("H")
        found = bisect_left(places, place)
        return found < len(places) and places[found] == place

    def count_runs(self) -> int:
        """How many runs `runs` gives of all."""
        return sum(_count_runs(held) for held in self._held())

    def any_in(self, start: int, end: int) -> bool:
        """Whether any of [start, end) is in it."""
        for number, low, high in self._parts(start, end):
            held = self._chunks[number]
            if isinstance(held, int):
                if held >> low & ((1 << (high - low)) - 1):
                    return True
            else:
                places = memoryview(held).cast("H")
                found = bisect_left(places, low)
                if found < len(places) and places[found] < high:
                    return True
        return False

    def count(self, start: int, end: int) -> int:
        """How many of [start, end) are in it."""
        return sum(self._count_in(number, low, high) for number, low, high in self._parts(start, end))

    def next_missing(self, start: int, end: int) -> int:
        """The first of [start, end) that is not in it; `end` if all are."""
        while start < end:
            stop = min(end, (start | (CHUNK - 1)) + 1)
            held = self._chunks.get(start >> CHUNK_BITS)
            if held is None:
                return start
            if held is not FULL:
                missing = ~_bits(held) >> (start & (CHUNK - 1))
                start += (missing & -missing).bit_length() - 1
                if start < stop:
                    return start
            start = stop
        return max(start, end)

    def after_missing(self, start: int, end: int, number: int) -> int:
        """Behind the `number`-th of [start, end) that is not in it; `end` if there are not so many."""
        while start < end and number > 0:
            stop = min(end, (start | (CHUNK - 1)) + 1)
            missing = stop - start - self.count(start, stop)
            if missing >= number:
                return self._behind(start, stop, number)
            start, number = stop, number - missing
        return max(start, end)

    def missing_runs(self, start: int, end: int) -> Iterator[OffsetRange]:
        """What of [start, end) is not in it, in rising order; a run ends at the end of a chunk, or before."""
        while start < end:
            stop = min(end, (start | (CHUNK - 1)) + 1)
            held = self._chunks.get(start >> CHUNK_BITS)
            if held is None:
                yield OffsetRange(start, stop)
            elif held is not FULL:
                low = start & (CHUNK - 1)
                yield from _runs(~_bits(held) >> low & ((1 << (stop - start)) - 1), start)
            start = stop

    def runs(self, start: int, end: int) -> Iterator[OffsetRange]:
        """What of [start, end) is in it, in rising order; a run ends at the end of a chunk."""
        for number, low, high in self._parts(start, end):
            bits = _bits(self._chunks[number]) >> low & ((1 << (high - low)) - 1)
            yield from _runs(bits, (number << CHUNK_BITS) + low)

    def added_since(self, older: OffsetSet) -> Iterator[OffsetRange]:
        """What is in it and not in the other one, in rising order."""
        for number in sorted(self._chunks):
            held, before = self._chunks[number], older._chunks.get(number)
            if held is not before and held != before:
                bits = _bits(held) & ~(_bits(before) if before is not None else 0)
                yield from _runs(bits, number << CHUNK_BITS)

    def copy(self) -> OffsetSet:
        """One that stays as this is now."""
        other = OffsetSet()
        other._chunks = dict(self._chunks)
        return other

    def add(self, start: int, end: int) -> None:
        """All of [start, end)."""
        while start < end:
            number, low = start >> CHUNK_BITS, start & (CHUNK - 1)
            high = min(CHUNK, low + end - start)
            held = self._chunks.get(number)
            if isinstance(held, bytes) and len(held) // 2 + high - low <= LISTED_MAX:
                self._chunks[number] = _listed_with(held, low, high)
            else:
                self._put(number, ((1 << (high - low)) - 1) << low)
            start += high - low

    def add_all(self, other: OffsetSet, start: int, end: int) -> None:
        """What the other one has of [start, end)."""
        for number, low, high in other._parts(start, end):
            held = other._chunks[number]
            if number not in self._chunks and (low, high) == (0, CHUNK):
                self._chunks[number] = held
            elif bits := _bits(held) >> low & ((1 << (high - low)) - 1):
                self._put(number, bits << low)

    def forget_below(self, offset: int) -> None:
        """Chunks that lie below need not be kept."""
        limit = offset >> CHUNK_BITS
        for number in [number for number in self._chunks if number < limit]:
            del self._chunks[number]

    # -- small parts -------------------------------------------------------------------------------

    def _held(self) -> Iterator[Held]:
        return iter(self._chunks.values())

    def _parts(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Chunks that there are of [start, end), each with where that begins and ends in it."""
        if start >= end:
            return
        first, last = start >> CHUNK_BITS, (end - 1) >> CHUNK_BITS
        if last - first < len(self._chunks):
            numbers = [number for number in range(first, last + 1) if number in self._chunks]
        else:
            numbers = sorted(number for number in self._chunks if first <= number <= last)
        for number in numbers:
            base = number << CHUNK_BITS
            yield number, max(start - base, 0), min(end - base, CHUNK)

    def _count_in(self, number: int, low: int, high: int) -> int:
        held = self._chunks[number]
        if held is FULL:
            return high - low
        if isinstance(held, int):
            return (held >> low & ((1 << (high - low)) - 1)).bit_count()
        places = memoryview(held).cast("H")
        return bisect_left(places, high) - bisect_left(places, low)

    def _behind(self, start: int, end: int, number: int) -> int:
        """As `after_missing`, where there are so many."""
        for run in self.missing_runs(start, end):
            if run.end - run.start >= number:
                return run.start + number
            number -= run.end - run.start
        return end

    def _put(self, number: int, bits: int) -> None:
        held = self._chunks.get(number)
        if held is not None:
            bits |= _bits(held)
        if bits == FULL:
            self._chunks[number] = FULL
        elif bits.bit_count() <= LISTED_MAX:
            places = array("H")
            for start, end in _runs(bits, 0):
                places.extend(range(start, end))
            self._chunks[number] = places.tobytes()
        else:
            self._chunks[number] = bits


def _listed_with(held: bytes, low: int, high: int) -> bytes:
    """Places, and those of [low, high): what is added one by one costs little."""
    places = memoryview(held).cast("H")
    first, last = bisect_left(places, low), bisect_left(places, high)
    return held[: 2 * first] + array("H", range(low, high)).tobytes() + held[2 * last :]


def _count_runs(held: Held) -> int:
    if isinstance(held, int):
        return (held & ~(held << 1)).bit_count()
    places = memoryview(held).cast("H")
    return sum(place - before != 1 for before, place in pairwise((-2, *places)))


def _bits(held: Held) -> int:
    if isinstance(held, int):
        return held
    bits = bytearray(CHUNK // 8)
    for place in memoryview(held).cast("H"):
        bits[place >> 3] |= 1 << (place & 7)
    return int.from_bytes(bits, "little")


def _runs(bits: int, base: int) -> Iterator[OffsetRange]:
    """Where bits are set, lowest first; the lowest bit of all stands for `base`."""
    text = format(bits, "b")[::-1] if bits else ""
    for found in _ONES.finditer(text):
        yield OffsetRange(base + found.start(), base + found.end())
