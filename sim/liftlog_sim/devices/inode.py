"""One file of the simulated disk: what the page cache holds, what the platter holds, and what is damaged.

The faults that a file can suffer are told in `devices/disk.py`; here is their bookkeeping. A file only
ever grows at its end or is cut, so cache and platter differ from one byte (`clean_to`) on, except where
damage or a sync that did not write has made them differ below it. What they have in common is kept once: a
long run's memory is what its disks hold, and that only once.
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
    """A file's content. On the platter are the first `shared` bytes of the cache, and then `apart`; a sync
    that writes makes all of it shared. `holes`: ranges that a sync marked clean without writing them;
    `unreadable`: sectors that answer EIO; `harms`: (position, bytes that belong there) of what was damaged.
    """

    __slots__ = ("apart", "cache", "clean_to", "harms", "holes", "kept", "shared", "unreadable")

    def __init__(self) -> None:
        self.cache = bytearray()
        self.shared = 0
        self.apart = bytearray()
        self.clean_to = 0
        self.holes: list[tuple[int, int]] = []
        self.unreadable: list[Unreadable] = []
        self.harms: list[tuple[int, bytes]] = []
        self.kept = True
        """Scratch of `power_loss`: an earlier operation on this node was not lost."""

    @property
    def durable(self) -> bytearray:
        """What the platter holds; a copy."""
        return self.cache[: self.shared] + self.apart

    @property
    def durable_size(self) -> int:
        return self.shared + len(self.apart)

    def _set_apart(self, position: int) -> None:
        """The cache is to change from `position` on, the platter is not, or the other way round."""
        if position < self.shared:
            self.apart = self.cache[position : self.shared] + self.apart
            self.shared = position

    def dirty_from(self, position: int) -> None:
        """Bytes from `position` on are new. A page that is written again is dirty as a whole once more."""
        if self.holes:
            position -= position % SECTOR_BYTES
            self.holes = [(start, min(end, position)) for start, end in self.holes if start < position]
        self.clean_to = min(self.clean_to, position)

    def sync(self) -> None:
        if self.holes:
            stored = self._without_holes()
            self.shared = min(self.shared, min(start for start, _ in self.holes))
            self.apart = stored[self.shared :]
        elif self.clean_to <= self.shared:
            self.shared = len(self.cache)
            self.apart = bytearray()
        else:
            self.apart[self.clean_to - self.shared :] = self.cache[self.clean_to :]
        self.clean_to = len(self.cache)

    def _without_holes(self) -> bytearray:
        """What a sync leaves on the platter when some pages are wrongly marked clean: their old content."""
        merged, durable = bytearray(self.cache), self.durable
        for hole_start, hole_end in self.holes:
            old = durable[hole_start:hole_end]
            merged[hole_start:hole_end] = old + bytes(hole_end - hole_start - len(old))
        return merged

    def fail_sync(self) -> None:
        if self.clean_to < len(self.cache):
            self.holes.append((self.clean_to, len(self.cache)))
        self.clean_to = len(self.cache)

    def lie(self) -> None:
        """Mark everything clean; only the size reaches the platter."""
        start = min(self.clean_to, self.durable_size)
        self.harms.append((start, bytes(self.cache[start:])))
        self.fail_sync()
        del self.apart[len(self.cache) - self.shared :]
        self.apart += bytes(len(self.cache) - self.durable_size)

    def cut(self, size: int) -> None:
        """What lay at or behind `size` is gone, and its damage with it."""
        self.holes = [(start, min(end, size)) for start, end in self.holes if start < size]
        self.unreadable = [bad for bad in self.unreadable if bad.start < size]
        for bad in self.unreadable:
            bad.end = min(bad.end, size)
        self.harms = [(start, right[: size - start]) for start, right in self.harms if start < size]
        self.clean_to = min(self.clean_to, size)
        self._set_apart(size)
        del self.cache[size:]

    def overwrite(self, position: int, data: bytes, *, platter_only: bool) -> None:
        """Other bytes lie from `position` on, which the cache reaches; the platter may end before them."""
        end = position + len(data)
        if platter_only or end > self.shared:
            self._set_apart(position)
            low = position - self.shared
            stored = max(low, min(low + len(data), len(self.apart)))
            self.apart[low:stored] = data[: stored - low]
        if not platter_only:
            self.cache[position:end] = data

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
        end = min(self.clean_to, self.durable_size) if self.holes else self.clean_to
        if end > self.shared:
            answer = self.apart[: end - self.shared]
            self.cache[self.shared : end] = answer
            self.shared += len(answer)
            del self.apart[: len(answer)]

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
        if self.cache[start:end] != right:
            return True
        shared = self.shared
        apart = self.apart[max(0, start - shared) : max(0, end - shared)]
        return self.cache[start : min(end, shared)] + apart != right

    def lose_power(self, random: Numbers) -> None:
        """Replace both contents by what the platter holds afterwards."""
        cache, durable = self.cache, self.durable
        for start, end in self.holes:
            old = durable[start:end]
            cache[start:end] = old + bytes(end - start - len(old))
        self.holes = []
        longest = max(len(cache), len(durable))
        if self.clean_to < longest:
            size = self._size_after(random, len(durable), longest)
            cache = self._mix(random, durable, size)
        elif cache != durable:
            cache = durable
        self.cache = cache
        self.shared = self.clean_to = len(cache)
        self.apart = bytearray()

    def _size_after(self, random: Numbers, stored: int, longest: int) -> int:
        choice = random.randrange(4)
        if choice == 0:
            return stored
        if choice == 1:
            return random.randint(min(self.clean_to, longest), longest)
        return len(self.cache)

    def _mix(self, random: Numbers, durable: bytearray, size: int) -> bytearray:
        """Each un-synced sector kept, lost or torn."""
        cache = self.cache
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
