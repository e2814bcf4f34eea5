"""What a search remembers: fingerprints of the states it has seen, states to expand, and who led to whom.

A fingerprint is Python's 64-bit hash of a state, which is the same in every process because states hold whole
numbers and tuples alone. Two states with one fingerprint would be taken for one; with n states that happens
with a probability of about n^2 / 2^65 (one in forty million for a million states), which every report names.

Everything that grows lies in files: the table of fingerprints (9 bytes a slot, shared by all workers), the
states to expand, and the links (24 bytes a state: its fingerprint, its predecessor's, its slot).

The table is shared without locks. Two workers that find the same state at the same instant may both think
that they were first, and one may overwrite the other's slot. Each therefore looks once more at the end of a
round, when nobody writes: `Table.settle`. A slot names its worker, so that exactly one keeps the state.

The table may grow as far as the memory that it was given allows. When it is full, it is emptied: what it held
stands in the links of earlier rounds, which from then on are read through at the end of each round, and what
turns up there was no new state (delayed duplicate detection: Stern and Dill, "Using magnetic disk instead of
main memory in the Murphi verifier", 1998). A round ends when the table is full, or with the depth.
"""

from __future__ import annotations

import marshal
import mmap
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from liftlog_spec.lang.types import SpecError

State = tuple[Any, ...]
MASK = (1 << 64) - 1
SPREAD = 0x9E3779B97F4A7C15
"""Multiplying by it spreads what differs in few bits (Knuth's multiplicative hashing)."""
SLOT_BYTES = 9
FIRST_BITS = 21
LEAST_BITS = 12
GROWTH_BITS = 2
FULL = 0.6
LINK = 3
"""Numbers in a link."""
BLOCK_LINKS = 1 << 16


def fingerprint(state: State) -> int:
    """Never 0, which stands for an empty slot."""
    return hash(state) & MASK or 1


def most_bits(memory_bytes: int) -> int:
    """Bits of the largest table that fits."""
    return max(LEAST_BITS, (max(memory_bytes // SLOT_BYTES, 1)).bit_length() - 1)


class Settled(msgspec.Struct):
    """Of what one worker inserted: another's after all, overwritten, and written down twice (how many)."""

    others: set[int]
    lost: set[int]
    twice: int


class Table:
    """Open addressing in a mapped file. `worker`: who writes through this object."""

    def __init__(self, folder: Path, bits: int, worker: int, generation: int = 0) -> None:
        self.bits = bits
        self.generation = generation
        self._worker = worker
        self._path = folder / f"table-{generation}-{bits}"
        self._owner_path = folder / f"owners-{generation}-{bits}"
        self._shift = 64 - bits
        self._mask = (1 << bits) - 1
        self._map = _mapped(self._path, 8 << bits)
        self._owner_map = _mapped(self._owner_path, 1 << bits)
        self.slots = memoryview(self._map).cast("Q")
        self.owners = memoryview(self._owner_map)

    def insert(self, mark: int) -> int:
        """The slot, or -1 if the fingerprint is known. There must be a free slot."""
        slots = self.slots
        place = (mark * SPREAD & MASK) >> self._shift
        while True:
            found = slots[place]
            if found == mark:
                return -1
            if not found:
                slots[place] = mark
                self.owners[place] = self._worker
                return place
            place = (place + 1) & self._mask

    def settle(self, links: Callable[[], Iterable[tuple[int, int]]]) -> Settled:
        """Look again at what was inserted: (fingerprint, slot) of each."""
        slots, owners, worker = self.slots, self.owners, self._worker
        found = Settled(set(), set(), 0)
        for mark, place in links():
            if slots[place] != mark:
                found.lost.add(mark)
            elif owners[place] != worker:
                found.others.add(mark)
        if found.lost:
            # Overwritten, forgotten, found again and inserted once more: it is ours, but written down twice.
            kept = {m for m, place in links() if m in found.lost and slots[place] == m}
            found.twice = len(kept - found.others)
            found.lost -= kept
        return found

    def grown(self, folder: Path, bits: int) -> Table:
        """A larger table with the same content; this one is to be closed by everybody."""
        larger = Table(folder, bits, self._worker, self.generation)
        for mark in self.slots:
            if mark:
                larger.insert(mark)
        self._unlink()
        return larger

    def emptied(self, folder: Path) -> Table:
        """A new table without content; this one is to be closed by everybody."""
        self._unlink()
        return Table(folder, self.bits, self._worker, self.generation + 1)

    def _unlink(self) -> None:
        self._path.unlink()
        self._owner_path.unlink()

    def close(self) -> None:
        self.slots.release()
        self.owners.release()
        self._map.close()
        self._owner_map.close()


def _mapped(path: Path, size: int) -> mmap.mmap:
    with path.open("a+b") as file:
        file.truncate(size)
        return mmap.mmap(file.fileno(), size)


class Chunks:
    """Writes the states that one worker found in one round, in files of at most `most` states."""

    def __init__(self, folder: Path, name: str, most: int) -> None:
        self._folder = folder
        self._name = name
        self.most = most
        self._states: list[State] = []
        self.paths: list[str] = []

    def append(self, state: State) -> None:
        self._states.append(state)
        if len(self._states) >= self.most:
            self.flush()

    def flush(self) -> None:
        if self._states:
            path = self._folder / f"{self._name}-{len(self.paths)}"
            path.write_bytes(marshal.dumps(self._states))
            self.paths.append(str(path))
            self._states = []


def read_chunk(path: str) -> list[State]:
    """The states; the file is removed."""
    file = Path(path)
    states: list[State] = marshal.loads(file.read_bytes())
    file.unlink()
    return states


class Dropped:
    """Fingerprints that are no new states after all. `parts`: sorted, by the remainder of the fingerprint."""

    def __init__(self, parts: list[array[int]], more: set[int]) -> None:
        for number, part in enumerate(parts):
            of_part = {mark for mark in more if mark % len(parts) == number}
            if of_part:
                parts[number] = array("Q", sorted(of_part.union(part)))
        self._parts = parts
        self.size = sum(map(len, parts))

    def __contains__(self, mark: int) -> bool:
        part = self._parts[mark % len(self._parts)]
        place = bisect_left(part, mark)
        return place < len(part) and part[place] == mark


class Links:
    """Writes the links of one worker in one round."""

    def __init__(self, folder: Path, depth: int, round_: int, worker: int) -> None:
        self.path = folder / f"links-{depth}-{round_}-{worker}"
        self._file = self.path.open("wb")
        self._block = array("Q")
        self.size = 0

    def append(self, mark: int, parent: int, place: int) -> None:
        self._block.extend((mark, parent, place))
        self.size += 1
        if len(self._block) >= LINK * BLOCK_LINKS:
            self._write()

    def _write(self) -> None:
        self._block.tofile(self._file)
        self._block = array("Q")

    def close(self) -> None:
        """Write down what is left; nothing if it is closed already."""
        if not self._file.closed:
            self._write()
            self._file.close()


def link_blocks(path: Path) -> Iterator[array[int]]:
    """The links of a file, some at a time: a[0::3] are the fingerprints."""
    with path.open("rb") as file:
        while data := file.read(8 * LINK * BLOCK_LINKS):
            block = array("Q")
            block.frombytes(data)
            yield block


def places_of(path: Path) -> Iterator[tuple[int, int]]:
    """(fingerprint, slot) of each link."""
    for block in link_blocks(path):
        yield from zip(block[0::LINK], block[2::LINK], strict=True)


def seen_before(links: Path, earlier: list[Path], parts: int) -> list[array[int]]:
    """Which fingerprints of one file stand in earlier ones, sorted and by remainder.

    One part is held in memory at a time; for each, the earlier files are read through once.
    """
    found: list[array[int]] = []
    for part in range(parts):
        marks = {mark for block in link_blocks(links) for mark in block[0::LINK] if mark % parts == part}
        again: set[int] = set()
        for path in earlier:
            for block in link_blocks(path):
                again |= marks.intersection(block[0::LINK])
        found.append(array("Q", sorted(again)))
    return found


def ancestry(depths: list[list[Path]], mark: int) -> list[int]:
    """Fingerprints from a first state to this one; `depths`: the files of each depth up to this one's.

    A state stands in the file of the depth where it was found first; there its predecessor is of the depth
    before. (Later files may name it again, where it was not known to have been seen.)
    """
    chain = [mark]
    for depth, paths in reversed(list(enumerate(depths, 1))):
        parents = [found for path in paths for found in _parents(path, chain[-1])]
        if not parents:
            raise SpecError(f"no predecessor of a state is on record at depth {depth}")
        chain.append(parents[0])
    return list(reversed(chain[:-1]))


def _parents(path: Path, mark: int) -> Iterator[int]:
    for block in link_blocks(path):
        marks = block[0::LINK]
        if mark in marks:
            yield block[LINK * marks.index(mark) + 1]
