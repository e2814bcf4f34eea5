"""Which subject lies at which offset: the columns of open chunks, the sealed ones, and what is removed.

The lowest chunks are sealed, those above are open. A sealed chunk is read when it is needed, through the port
that keeps it; the few that were read last stay. What was removed is beside the chunks, since they tell what
was appended: a flag for each offset, of those chunks only in which something is removed.

In general offsets outside of [first, next) are asked for by nobody; the caller sees to that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from liftlog.subjects.index.chunk import (
    NONE,
    Chunk,
    Column,
    FreshSubjects,
    Places,
    decode_chunk,
    encode_chunk,
    of_column,
    stripped,
)
from liftlog.subjects.index.filters import Mask
from liftlog.subjects.index.interface import ChunkDamaged, ChunkStore
from liftlog.subjects.index.table import Offsets, Sids, SubjectTable

CACHED = 8
"""So many chunks that were read are kept: up to 1 MB each."""

Selection = int | Mask
"""A subject's number, or a flag for each subject."""


class IndexChunks:
    """The chunks of one index, in rising order: sealed ones, then open ones."""

    __slots__ = (
        *("_cached", "_chains", "_known", "_numbers", "_open", "_removed", "_store", "_stripped"),
        *("bits", "identity", "size"),
    )

    def __init__(self, store: ChunkStore, identity: bytes, bits: int) -> None:
        """`bits`: a chunk has 2 to the power of it offsets."""
        self._store = store
        self.identity = identity
        self.bits = bits
        self.size = 1 << bits
        self._numbers: list[int] = []
        """Of all that there are; one in which nothing was appended is not there."""
        self._known: list[int] = []
        """For each: how many subjects had come before it."""
        self._open: dict[int, Column] = {}
        self._chains: dict[int, tuple[int, int]] = {}
        """Of each sealed chunk: the checksums of all subjects that had come before it, and up to its end."""
        self._stripped = 0
        """So many, the lowest, have their subjects only."""
        self._removed: dict[int, NDArray[np.bool_]] = {}
        self._cached: dict[int, Chunk] = {}

    @property
    def memory(self) -> int:
        """Bytes of open columns and of what is removed."""
        arrays = (*self._open.values(), *self._removed.values())
        return sum(array.nbytes for array in arrays)

    @property
    def sealed(self) -> int:
        """How many are sealed."""
        return len(self._chains)

    def between(self, low: int, high: int) -> list[int]:
        """Numbers of the chunks that have offsets of [low, high)."""
        first = bisect_left(self._numbers, low >> self.bits)
        end = bisect_left(self._numbers, (high + self.size - 1) >> self.bits)
        return self._numbers[first:end]

    def known_at(self, offset: int, known: int) -> int:
        """How many of `known` subjects had come before this offset."""
        place = bisect_left(self._numbers, offset >> self.bits)
        if place == len(self._numbers):
            return known
        before = self._known[place]
        if self._numbers[place] << self.bits < offset:
            column = self.column(self._numbers[place])[: offset & (self.size - 1)]
            its = column[column != NONE]
            return max(before, int(its.max()) + 1) if len(its) else before
        return before

    # --- what is appended, removed, cut -----------------------------------------------------------------

    def put(self, offsets: Offsets, sids: Sids, known: int) -> None:
        """Enter messages, behind all that there are. `known`: how many subjects had come before them."""
        numbers = offsets >> self.bits
        bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(offsets)]
        for first, end in pairwise(bounds):
            number = int(numbers[first])
            if number not in self._open:
                self._open[number] = np.full(self.size, NONE, np.uint32)
                self._numbers.append(number)
                self._known.append(known)
            self._open[number][offsets[first:end] & (self.size - 1)] = sids[first:end]
            known = max(known, int(sids[first:end].max()) + 1)

    def remove(self, number: int, places: Places) -> None:
        if number not in self._removed:
            self._removed[number] = np.zeros(self.size, np.bool_)
        self._removed[number][places] = True

    def forget_last(self, leo: int, seen: Sids) -> Sids:
        """Take what lies at `leo` and above out of the last chunk. Returns the subjects of what was there
        and not removed, one for each message. `seen` is put back to what it was before the chunk was sealed.
        """
        number = self._numbers[-1]
        place = max(0, leo - (number << self.bits))
        column = self.column(number)
        there = place + np.flatnonzero(column[place:] != NONE)
        gone = column[there[self._live(number, there)]].astype(np.int64)
        if number in self._chains:
            chunk = self._read(number)
            seen[chunk.sids] = np.where(chunk.distances > 0, number - chunk.distances.astype(np.int64), -1)
            self._store.drop(number)
            del self._chains[number]
            self._cached.pop(number, None)
        if place:
            column[place:] = NONE
            self._open[number] = column
            if number in self._removed:
                self._removed[number][place:] = False
        else:
            self._open.pop(number, None)
            self._removed.pop(number, None)
            self._numbers.pop()
            self._known.pop()
        return gone

    @property
    def last(self) -> int:
        """The number of the last one; -1: there is none."""
        return self._numbers[-1] if self._numbers else -1

    # --- what there is ----------------------------------------------------------------------------------

    def there(self, number: int, low: int, high: int) -> tuple[Offsets, Sids]:
        """Offsets in [low, high) of a chunk's messages that are not removed, rising, and their subjects."""
        base = number << self.bits
        column = self.column(number)
        begin, end = max(0, low - base), min(self.size, high - base)
        places = begin + np.flatnonzero(column[begin:end] != NONE)
        places = places[self._live(number, places)]
        return places + base, column[places].astype(np.int64)

    def appended(self, low: int, high: int) -> tuple[Offsets, Sids]:
        """Offsets in [low, high) of all messages that were appended, removed or not, and their subjects."""
        offsets, sids = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for number in self.between(low, high):
            base = number << self.bits
            begin, end = max(0, low - base), min(self.size, high - base)
            column = self.column(number)[begin:end]
            places = np.flatnonzero(column != NONE)
            offsets.append(places + base + begin)
            sids.append(column[places].astype(np.int64))
        return np.concatenate(offsets), np.concatenate(sids)

    def hits(self, number: int, selection: Selection, low: int, high: int) -> Offsets:
        """Offsets in [low, high) of a chunk's messages of these subjects, rising, without those removed."""
        base = number << self.bits
        if number in self._open:
            begin, end = max(0, low - base), min(self.size, high - base)
            part = self._open[number][begin:end]
            if isinstance(selection, int):
                places = begin + np.flatnonzero(part == selection)
            else:
                there = np.flatnonzero(part != NONE)
                places = begin + there[selection[part[there]]]
        else:
            chunk = self._read(number)
            places = chunk.of(selection) if isinstance(selection, int) else chunk.matching(selection)
            if len(places) and (low > base or high < base + self.size):
                places = places[(places >= low - base) & (places < high - base)]
        return places[self._live(number, places)] + base

    def holding(self, sid: int, seen: int, low: int) -> Iterator[int]:
        """Numbers, falling, of chunks where a subject may be, from the last on down to that of offset `low`.

        `seen`: the number of the sealed chunk where it came last, or -1. From there each chunk tells where
        to look next.
        """
        lowest = low >> self.bits
        place = len(self._numbers) - 1
        while place >= 0 and self._numbers[place] in self._open:
            if self._numbers[place] < lowest:
                return
            yield self._numbers[place]
            place -= 1
        while True:
            # A number that is too high, or of a chunk that is no more, means that one below it.
            place = bisect_left(self._numbers, seen + 1, 0, place + 1) - 1
            if place < 0 or self._numbers[place] < lowest:
                return
            chunk = self._read(self._numbers[place])
            if chunk.row(sid) >= 0:
                yield chunk.number
            seen = chunk.came_before(sid)
            place -= 1

    def column(self, number: int) -> Column:
        """The subjects of a chunk by place; of a sealed one, an array of its own."""
        return self._open[number] if number in self._open else self._read(number).column()

    def _live(self, number: int, places: Places) -> NDArray[np.bool_]:
        removed = self._removed.get(number)
        return np.ones(len(places), np.bool_) if removed is None else ~removed[places]

    # --- sealed chunks ----------------------------------------------------------------------------------

    def is_sealed(self, number: int) -> bool:
        """Whether it is, with its messages."""
        return number in self._chains and number not in self._numbers[: self._stripped]

    def sealable(self, below: int) -> int:
        """The number of the lowest open chunk, if all of it is below an offset; -1: there is none to seal."""
        number = next((number for number in self._numbers if number in self._open), -1)
        return number if (number + 1) << self.bits <= below else -1

    def seal(self, number: int, table: SubjectTable, seen: Sids) -> None:
        """Write the lowest open chunk through the port, and keep it there."""
        place = bisect_left(self._numbers, number)
        before, known, chain, fresh = self._head(place, table)
        chunk = of_column(
            self._open[number], number, before=before, known=known, chain=chain, fresh=fresh, seen=seen
        )
        self._store.write(number, encode_chunk(chunk, self.identity))
        seen[chunk.sids] = number
        self._chains[number] = chain, fresh.chained(chain)
        del self._open[number]

    def strip(self, first: int, table: SubjectTable) -> None:
        """The log starts at `first`: keep of chunks below it the subjects that came first in them."""
        end = bisect_left(self._numbers, first >> self.bits)
        for number in self._numbers[self._stripped : end]:
            place = bisect_left(self._numbers, number)
            before, known, chain, fresh = self._head(place, table)
            self._cached.pop(number, None)
            self._removed.pop(number, None)
            self._open.pop(number, None)
            if len(fresh):
                chunk = stripped(self.bits, number, before=before, known=known, chain=chain, fresh=fresh)
                self._store.write(number, encode_chunk(chunk, self.identity))
                self._chains[number] = chain, fresh.chained(chain)
                self._stripped += 1
            else:
                self._store.drop(number)
                self._chains.pop(number, None)
                del self._numbers[place], self._known[place]

    def mend(self, number: int, column: Column, table: SubjectTable) -> None:
        """Write a sealed chunk anew, of what its messages are said to be."""
        place = bisect_left(self._numbers, number)
        before, known, chain, fresh = self._head(place, table)
        self._cached.pop(number, None)
        seen = np.full(len(table), before, np.int64)
        chunk = of_column(column, number, before=before, known=known, chain=chain, fresh=fresh, seen=seen)
        self._store.write(number, encode_chunk(chunk, self.identity))

    def admit(self, chunk: Chunk, first: int, known: int) -> None:
        """Take a chunk of an earlier run. Raises ChunkDamaged if it does not follow those that there are."""
        chain = self._chain_behind(len(self._numbers))
        if chunk.known != known or chunk.chain != chain:
            raise ChunkDamaged(chunk.number, "it does not follow the chunk before it")
        if chunk.before != self.last and (chunk.before + 1) << self.bits > first:
            raise ChunkDamaged(chunk.number, f"chunk {chunk.before} is missing before it")
        if chunk.is_stripped and (chunk.number + 1) << self.bits > first:
            raise ChunkDamaged(chunk.number, "only its subjects were kept, and the log has its messages")
        if chunk.is_stripped and self._stripped < len(self._numbers):
            raise ChunkDamaged(chunk.number, "only its subjects were kept, and messages of the one before it")
        self._numbers.append(chunk.number)
        self._known.append(known)
        self._chains[chunk.number] = chain, chunk.fresh.chained(chain)
        self._stripped += chunk.is_stripped

    def _head(self, place: int, table: SubjectTable) -> tuple[int, int, int, FreshSubjects]:
        """Of the chunk at a place: which one is before it, how many subjects were known, the checksum of all
        of them, and those that came in it.
        """
        known = self._known[place]
        end = self._known[place + 1] if place + 1 < len(self._known) else len(table)
        fresh = FreshSubjects(*table.texts(known, end))
        number = self._numbers[place]
        before = self._numbers[place - 1] if place else -1
        known_chain = self._chains.get(number)
        chain = self._chain_behind(place) if known_chain is None else known_chain[0]
        return before, known, chain, fresh

    def _chain_behind(self, place: int) -> int:
        """The checksum of all subjects of sealed chunks, up to the one before a place."""
        return self._chains[self._numbers[place - 1]][1] if place else 0

    def _read(self, number: int) -> Chunk:
        chunk = self._cached.pop(number, None)
        if chunk is None:
            try:
                data = self._store.read(number)
            except KeyError:
                raise ChunkDamaged(number, "it is not there") from None
            chunk = decode_chunk(data, number, self.identity, self.bits)
            while len(self._cached) >= CACHED:
                del self._cached[next(iter(self._cached))]
        self._cached[number] = chunk
        return chunk
