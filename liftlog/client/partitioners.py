"""Which partition of a stream a message goes to.

Any callable will do that takes a key, a value and how many partitions there are, and returns a number below
that; what is here are the usual ones. None of them looks at what a partition is doing: a partition without a
leader keeps its share, since a key that moved would lose its order.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from liftlog.types import LiftlogError

Partitioner = Callable[[str | None, bytes, int], int]
"""(Key, value, number of partitions) to the index of one, from 0."""

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """MurmurHash2 of 32 bits, with the seed that Kafka's clients use; from 0 to 2**32 - 1."""
    mask, multiplier = _MASK, _MULTIPLIER
    length = len(data)
    whole = length & ~3
    found = _SEED ^ length
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * multiplier & mask
        word = (word ^ word >> 24) * multiplier & mask
        found = found * multiplier & mask ^ word
    if whole < length:
        found = (found ^ int.from_bytes(data[whole:], "little")) * multiplier & mask
    found = (found ^ found >> 13) * multiplier & mask
    return found ^ found >> 15


class ByKey:
    """All messages of a key into one partition, as long as there are as many: the one where Kafka's clients
    put it, `(murmur2(key as UTF-8) & 0x7fffffff) % partitions`.
    """

    def __call__(self, key: str | None, value: bytes, partitions: int) -> int:
        """Raises LiftlogError without a key."""
        if key is None:
            raise LiftlogError("a message without a key has no place by key; give one, or use RoundRobin()")
        return (murmur2(key.encode()) & 0x7FFFFFFF) % partitions


class RoundRobin:
    """One partition after the other, whatever the key."""

    def __init__(self, first: int = 0) -> None:
        self._next = first

    def __call__(self, key: str | None, value: bytes, partitions: int) -> int:
        found = self._next % partitions
        self._next = found + 1
        return found


class RandomPartition:
    """Any partition, all as likely. The same `seed` draws the same ones."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)

    def __call__(self, key: str | None, value: bytes, partitions: int) -> int:
        return self._random.randrange(partitions)
