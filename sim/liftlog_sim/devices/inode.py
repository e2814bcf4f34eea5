"""One file of the simulated disk: what the page cache holds, what the platter holds, and what is damaged.

The faults that a file can suffer are told in `devices/disk.py`; here is their bookkeeping. A file only
ever grows at its end or is cut, so cache and platter differ from one byte (`clean_to`) on, except where
damage or a sync that did not write has made them differ below it.
"""

from __future__ import annotations

import errno
import os

from liftlog.ports import DiskError
from liftlog_sim.chance.draws import Numbers

SECTOR_BYTES = 512


class Unreadable:
    """Bytes [start, end) cannot be read, `times` more times; for ever if that is negative."""

    __slots__ = ("end", "start", "times")

    def __init__(self, start: int, end: int, times: int) -> None:
        self.start = start
        self.end = end
        self.times = times


class Inode:
    """A file's content. `holes`: ranges that a sync marked clean without writing them; `unreadable`: sectors
    that answer EIO; `harms`: (position, bytes that belong there) of what was damaged.
    """

    __slots__ = ("cache", "clean_to", "durable", "harms", "holes", "kept", "unreadable")

    def __init__(self) -> None:
        self.cache = bytearray()
        self.durable = bytearray()
        self.clean_to = 0
        self.holes: list[tuple[int, int]] = []
        self.unreadable: list[Unreadable] = []
        self.harms: list[tuple[int, bytes]] = []
        self.kept = True
        """Scratch of `power_loss`: an earlier operation on this node was not lost."""

    def dirty_from(self, position: int) -> None:
        """Bytes from `position` on are new. A page that is written again is dirty as a whole once more."""
        if self.holes:
            position -= position % SECTOR_BYTES
            self.holes = [(start, min(end, position)) for start, end in self.holes if start < position]
        self.clean_to = min(self.clean_to, position)

    def sync(self) -> None:
        if self.holes:
            self.durable = self._without_holes()
        else:
            self.durable[self.clean_to :] = self.cache[self.clean_to :]
        self.clean_to = len(self.cache)

    def _without_holes(self) -> bytearray:
        """What a sync leaves on the platter when some pages are wrongly marked clean: their old content."""
        merged = bytearray(self.cache)
        for hole_start, hole_end in self.holes:
            old = self.durable[hole_start:hole_end]
            merged[hole_start:hole_end] = old + bytes(hole_end - hole_start - len(old))
        return merged

    def fail_sync(self) -> None:
        if self.clean_to < len(self.cache):
            self.holes.append((self.clean_to, len(self.cache)))
        self.clean_to = len(self.cache)

    def lie(self) -> None:
        """Mark everything clean; only the size reaches the platter."""
        start = min(self.clean_to, len(self.durable))
        self.harms.append((start, bytes(self.cache[start:])))
        self.fail_sync()
        del self.durable[len(self.cache) :]
        self.durable += bytes(len(self.cache) - len(self.durable))

    def cut(self, size: int) -> None:
        """What lay at or behind `size` is gone, and its damage with it."""
        self.holes = [(start, min(end, size)) for start, end in self.holes if start < size]
        self.unreadable = [bad for bad in self.unreadable if bad.start < size]
        for bad in self.unreadable:
            bad.end = min(bad.end, size)
        self.harms = [(start, right[: size - start]) for start, right in self.harms if start < size]
        self.clean_to = min(self.clean_to, size)
        del self.cache[size:]

    def check_readable(self, position: int, length: int, path: str) -> None:
        """Raise what a read that touches a bad sector meets."""
        for bad in self.unreadable:
            if bad.start < position + length and position < bad.end:
                bad.times -= 1
                if not bad.times:
                    self.unreadable.remove(bad)
                raise DiskError(errno.EIO, f"{os.strerror(errno.EIO)} (simulated)", path)

    def evict(self) -> None:
        """Drop the clean pages: from now on the platter answers."""
        if not self.holes:
            self.cache[: self.clean_to] = self.durable[: self.clean_to]
            return
        end = min(self.clean_to, len(self.durable))
        self.cache[:end] = self.durable[:end]

    def right_bytes(self, start: int, end: int) -> bytes:
        """What bytes [start, end) would be without damage."""
        right = bytearray(self.cache[start:end])
        for harmed, before in self.harms:
            low, high = max(start, harmed), min(end, harmed + len(before))
            if low < high:
                right[low - start : high - start] = before[low - harmed : high - harmed]
        return bytes(right)

    def still_harmed(self) -> list[tuple[int, int]]:
        """Byte ranges that are damaged at present; harm that was written over is forgotten."""
        self.harms = [(start, right) for start, right in self.harms if self._differs(start, right)]
        found = [(start, start + len(right)) for start, right in self.harms]
        return found + [(bad.start, bad.end) for bad in self.unreadable]

    def _differs(self, start: int, right: bytes) -> bool:
        end = start + len(right)
        return self.cache[start:end] != right or self.durable[start:end] != right

    def lose_power(self, random: Numbers) -> None:
        """Replace both contents by what the platter holds afterwards."""
        cache, durable = self.cache, self.durable
        for start, end in self.holes:
            old = durable[start:end]
            cache[start:end] = old + bytes(end - start - len(old))
        self.holes = []
        longest = max(len(cache), len(durable))
        if self.clean_to < longest:
            size = self._size_after(random, longest)
            cache = self._mix(random, size)
        elif cache != durable:
            cache = bytearray(durable)
        self.cache = cache
        self.durable = bytearray(cache)
        self.clean_to = len(cache)

    def _size_after(self, random: Numbers, longest: int) -> int:
        choice = random.randrange(4)
        if choice == 0:
            return len(self.durable)
        if choice == 1:
            return random.randint(min(self.clean_to, longest), longest)
        return len(self.cache)

    def _mix(self, random: Numbers, size: int) -> bytearray:
        """Each un-synced sector kept, lost or torn."""
        cache, durable = self.cache, self.durable
        after = bytearray(durable[:size]) + bytes(max(0, size - len(durable)))
        position = self.clean_to
        while position < size:
            end = min(size, position - position % SECTOR_BYTES + SECTOR_BYTES)
            new = cache[position:end]
            outcome = random.randrange(4)
            if outcome <= 1:
                after[position : position + len(new)] = new
            elif outcome == 2 and new:
                cut = random.randint(0, len(new))
                garbage = random.randbytes(len(new) - cut)
                after[position : position + len(new)] = (
                    new[:cut] + garbage if random.randrange(2) else garbage + new[len(new) - cut :]
                )
            position = end
        return after
