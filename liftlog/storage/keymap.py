"""The key map of one compaction run: of each key the offset of its last record, in bounded memory.

Theory. Compaction needs to know, for every record, whether a later one has its key. It reads the part of the
log that was never compacted once and notes key -> offset, and then compares every older record with what was
noted. However many keys there are, the map may not grow beyond its bound: when it is full, the run ends at
the very offset whose key did not fit, and the next run begins there (see `liftlog.storage.compaction`).

Keys are kept as they are up to 16 bytes; longer ones as a BLAKE2b digest of 17 bytes, so that a digest is
never taken for a short key, and two long keys collide with a chance of less than one in 10^20 even among 10^9
of them. Python's dict is randomised against keys that were chosen to collide in it.

The bound is honest: it counts the key and the offset objects and the dict's table as it is just after it has
grown, 156 bytes a key. At 128 MiB a map has room for 860,000 keys. They are spread over many dicts: a large
one takes tens of milliseconds to grow, and as many to go. Here each step is a small one, and the storage
thread is free in between.
"""

from __future__ import annotations

from hashlib import blake2b

SHORT_KEY_BYTES = 16
DIGEST_BYTES = 17
DICTS = 64
"""A power of two."""
_FORGOTTEN_AT_ONCE = 10_000

_ENTRY_BYTES = 64 + 32
"""A bytes object of up to 17 bytes and an int, as the allocator rounds them (multiples of 16)."""
_TABLE_BYTES = 60
"""Per key, in a dict of CPython that has just grown and is one third full: three slots of 4 bytes, and two
places for hash, key and value."""


class KeyMap:
    """Key -> offset. Whoever writes to it keeps to `capacity` keys."""

    __slots__ = ("capacity", "dicts")

    def __init__(self, map_bytes: int) -> None:
        self.capacity = capacity(map_bytes)
        self.dicts: list[dict[bytes, int]] = [{} for _ in range(DICTS)]
        """A key, or its digest, is in number `crc32c(key) % DICTS`."""

    def __len__(self) -> int:
        return sum(map(len, self.dicts))

    def forget_some(self) -> bool:
        """Forget a part of the keys, all of a small map; False when none are left."""
        forgotten = 0
        for number, one in enumerate(self.dicts):
            if forgotten >= _FORGOTTEN_AT_ONCE:
                break
            if one:
                forgotten += len(one)
                self.dicts[number] = {}
        return forgotten > 0


def digest(key: bytes) -> bytes:
    """What stands for a key longer than SHORT_KEY_BYTES."""
    return blake2b(key, digest_size=DIGEST_BYTES).digest()


def capacity(map_bytes: int) -> int:
    """Keys for which a map takes no more than `map_bytes`; at least one, so that every run gets on."""
    return max(1, map_bytes // (_ENTRY_BYTES + _TABLE_BYTES))
