"""How many bytes the messages of a partition count for, by offset, with a sum for each chunk of offsets.

Beside a subject index: what that has is here, and what is removed there is removed here (`liftlog/sizes.py`
says what a message counts for). 4 bytes for each offset, from the first message of a chunk on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from liftlog.subjects.index.chunk import CHUNK_BITS
from liftlog.subjects.index.interface import Run

Sizes = NDArray[np.uint32]
"""Of a chunk's offsets; 0: there is no message."""


class MessageSizes:
    """Of one log's messages."""

    __slots__ = ("_bits", "_chunks", "_size", "_sums")

    def __init__(self, bits: int = CHUNK_BITS) -> None:
        """`bits`: a chunk has 2 to the power of it offsets."""
        self._bits = bits
        self._size = 1 << bits
        self._chunks: dict[int, Sizes] = {}
        """By number, rising."""
        self._sums: dict[int, int] = {}

    @property
    def memory(self) -> int:
        """Bytes."""
        return sum(chunk.nbytes for chunk in self._chunks.values())

    @property
    def total(self) -> int:
        """Bytes of all messages."""
        return sum(self._sums.values())

    def append(self, offset: int, sizes: Sequence[int]) -> None:
        """Messages of these sizes follow, at `offset` and behind it."""
        done = 0
        while done < len(sizes):
            number, place = divmod(offset + done, self._size)
            part = sizes[done : done + self._size - place]
            self._begin(number)
            self._chunks[number][place : place + len(part)] = part
            self._sums[number] += sum(part)
            done += len(part)

    def append_slab(self, offsets: NDArray[np.int64], sizes: Sizes) -> None:
        """Messages at these offsets, which rise, follow."""
        numbers = offsets >> self._bits
        bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(offsets)]
        for first, end in pairwise(bounds if len(offsets) else ()):
            number, part = int(numbers[first]), sizes[first:end]
            self._begin(number)
            self._chunks[number][offsets[first:end] & (self._size - 1)] = part
            self._sums[number] += _sum(part)

    def _begin(self, number: int) -> None:
        if number not in self._chunks:
            self._chunks[number] = np.zeros(self._size, np.uint32)
            self._sums[number] = 0

    def remove(self, runs: Iterable[Run]) -> None:
        """These messages are gone. The runs rise, and have nothing in common."""
        wanted = np.array(list(runs), np.int64).reshape(-1, 2)
        if not len(wanted):
            return
        firsts, ends = wanted[:, 0], wanted[:, 1]
        low, high = int(firsts[0]) >> self._bits, int(ends[-1]) >> self._bits
        for number, chunk in self._chunks.items():
            if not low <= number <= high:
                continue
            base = number << self._bits
            some = slice(
                np.searchsorted(ends, base, side="right"), np.searchsorted(firsts, base + self._size)
            )
            marks = np.zeros(self._size + 1, np.int32)
            np.add.at(marks, np.maximum(firsts[some] - base, 0), 1)
            np.add.at(marks, np.minimum(ends[some] - base, self._size), -1)
            goes = np.cumsum(marks[:-1]) > 0
            self._sums[number] -= _sum(chunk[goes])
            chunk[goes] = 0

    def start(self, first: int) -> None:
        """What lies below `first` is gone."""
        for number in [one for one in self._chunks if (one + 1) << self._bits <= first]:
            del self._chunks[number], self._sums[number]
        number, place = divmod(first, self._size)
        if place and number in self._chunks:
            self._sums[number] -= _sum(self._chunks[number][:place])
            self._chunks[number][:place] = 0

    def below(self, until: int) -> int:
        """Bytes of all messages below `until`."""
        return sum(part_bytes for _, _, part_bytes in self._parts(until))

    def newest(self, most: int, until: int) -> int:
        """Where the newest messages below `until` begin that together have no more than `most` bytes; 0: all
        of them have no more.
        """
        found = 0
        for base, part, part_bytes in self._parts(until):
            if found + part_bytes > most:
                behind = np.cumsum(part[::-1], dtype=np.int64)
                fit = int(np.searchsorted(behind, most - found, side="right"))
                return base + len(part) - fit
            found += part_bytes
        return 0

    def _parts(self, until: int) -> Iterable[tuple[int, Sizes, int]]:
        """Chunks below `until`, the last one first, each with its first offset and its bytes."""
        for number in reversed(self._chunks):
            base = number << self._bits
            if base < until:
                part = self._chunks[number][: until - base]
                whole = len(part) == self._size
                yield base, part, self._sums[number] if whole else _sum(part)


def _sum(sizes: Sizes) -> int:
    return int(sizes.sum(dtype=np.int64))
