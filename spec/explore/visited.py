"""What a search remembers: fingerprints of the states it has seen, states to expand, and who led to whom.

A fingerprint is Python's 64-bit hash of a state, which is the same in every process because states hold whole
numbers and tuples alone. Two states with one fingerprint would be taken for one; with n states that happens
with a probability of about n^2 / 2^65 (one in forty million for a million states), which every report names.

Everything that grows lies in files which the kernel keeps in memory as far as there is room: the table of
fingerprints (8 bytes a slot, shared by all workers), the states to expand, and the predecessors (16 bytes a
state).

The table is shared without locks. Two workers that find the same state at the same instant may both think
that they were first, and one may overwrite the other's slot. Each therefore looks once more at the end of a
depth, when nobody writes: `Table.settle`. A slot names its worker, so that exactly one keeps the state.
"""

from __future__ import annotations

import marshal
import mmap
from array import array
from pathlib import Path
from typing import Any

State = tuple[Any, ...]
MASK = (1 << 64) - 1
SPREAD = 0x9E3779B97F4A7C15
"""Multiplying by it spreads what differs in few bits (Knuth's multiplicative hashing)."""
FIRST_BITS = 21
GROWTH_BITS = 2
FULL = 0.6


def fingerprint(state: State) -> int:
    """Never 0, which stands for an empty slot."""
    return hash(state) & MASK or 1


class Table:
    """Open addressing in a mapped file. `worker`: who writes through this object."""

    def __init__(self, folder: Path, bits: int, worker: int) -> None:
        self.bits = bits
        self._worker = worker
        self._path = folder / f"table-{bits}"
        self._owner_path = folder / f"owners-{bits}"
        self._shift = 64 - bits
        self._mask = (1 << bits) - 1
        self._map = _mapped(self._path, 8 << bits)
        self._owner_map = _mapped(self._owner_path, 1 << bits)
        self.slots = memoryview(self._map).cast("Q")
        self.owners = memoryview(self._owner_map)

    def insert(self, mark: int) -> int:
        """The slot, or -1 if the fingerprint is known."""
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

    def settle(self, marks: array[int], places: array[int]) -> tuple[set[int], list[int]]:
        """(those that another worker owns, those whose slot was overwritten) among what was inserted."""
        slots, owners, worker = self.slots, self.owners, self._worker
        others: set[int] = set()
        lost: list[int] = []
        for mark, place in zip(marks, places, strict=True):
            if slots[place] != mark:
                lost.append(mark)
            elif owners[place] != worker:
                others.add(mark)
        return others, lost

    def grown(self, folder: Path) -> Table:
        """A larger table with the same content; this one is to be closed by everybody."""
        larger = Table(folder, self.bits + GROWTH_BITS, self._worker)
        for mark in self.slots:
            if mark:
                larger.insert(mark)
        self._path.unlink()
        self._owner_path.unlink()
        return larger

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
    """Writes the states that one worker found at one depth, in files of at most `most` states."""

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


def ancestry(paths: list[Path], mark: int) -> list[int]:
    """Fingerprints from a first state to this one. A first state is its own predecessor."""
    parents: dict[int, int] = {}
    for path in paths:
        pairs = array("Q")
        pairs.frombytes(path.read_bytes())
        parents.update(zip(pairs[0::2], pairs[1::2], strict=True))
    chain = [mark]
    while parents[chain[-1]] != chain[-1]:
        chain.append(parents[chain[-1]])
    return list(reversed(chain))
