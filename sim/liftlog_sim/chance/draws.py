"""Random numbers by name: each is a hash of the seed, the name of its stream and its place there.

Nothing is drawn from a sequence that others draw from, too. So whoever draws more or less, or not at all,
changes nothing for anybody else: a fault that is taken away takes no draws away from the next one, a message
that is not sent does not give its fate to its neighbour. A name says what is decided: ``17/fault/3`` is the
fourth fault of seed 17, ``17/1>2/Fetch/12/0`` the first fetch request from node 1 to node 2 in second 12.

The hash is BLAKE2b: 64 bytes of it make eight draws of 64 bits, or 32 bytes eight of 32 bits for what happens
very often. Nothing depends on Python's own generator or on how `random` turns its bits into choices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableSequence, Sequence
from hashlib import blake2b
from math import log
from struct import Struct
from typing import Any, Protocol, TypeVar

WORD_BITS = 64
SPREAD = 1 << 32
"""The numbers of `eight` lie below this."""

_words = Struct("<8Q").unpack
_halves = Struct("<8I").unpack
_FLOAT_BITS = 53

T = TypeVar("T")
Eight = tuple[int, int, int, int, int, int, int, int]

on_draw: Callable[[bytes], object] | None = None
"""Called with the name of everything that is drawn, by who looks for nondeterminism (`sim sweep --twice`)."""


def eight(name: bytes) -> Eight:
    """Eight numbers below `SPREAD` for one name."""
    if on_draw is not None:
        on_draw(name)
    return _halves(blake2b(name, digest_size=32).digest())


class Numbers(Protocol):
    """What a disk asks of whoever decides by chance: `Draws`, or a generator of the standard library."""

    def randrange(self, start: int, /) -> int: ...

    def randint(self, a: int, b: int, /) -> int: ...

    def randbytes(self, n: int, /) -> bytes: ...


class Draws:
    """The numbers of one name, in order, and the choices made from them."""

    __slots__ = ("_block", "_left", "name")

    def __init__(self, *name: object) -> None:
        self.name = "/".join(map(str, name))
        self._block = 0
        self._left: list[int] = []

    @classmethod
    def named(cls, name: str) -> Draws:
        """The draws of a name that is put together already."""
        return cls(name)

    def part(self, *name: object) -> Draws:
        """Draws of their own for a part of what is decided here."""
        return Draws(self.name, *name)

    def word(self) -> int:
        """The next 64 bits."""
        left = self._left
        if on_draw is not None:
            on_draw(f"{self.name}#{8 * self._block - len(left)}".encode())
        if not left:
            salt = self._block.to_bytes(8, "little")
            left += reversed(_words(blake2b(self.name.encode(), salt=salt).digest()))
            self._block += 1
        return left.pop()

    def random(self) -> float:
        """At least 0, below 1."""
        return (self.word() >> (WORD_BITS - _FLOAT_BITS)) / (1 << _FLOAT_BITS)

    def randrange(self, start: int, stop: int | None = None) -> int:
        """At least `start` (0 if only one bound is given), below the other one."""
        if stop is None:
            start, stop = 0, start
        if stop <= start:
            raise ValueError(f"nothing lies between {start} and {stop}")
        return start + ((self.word() * (stop - start)) >> WORD_BITS)

    def randint(self, least: int, most: int) -> int:
        return self.randrange(least, most + 1)

    def getrandbits(self, count: int) -> int:
        bits = 0
        for _ in range(0, count, WORD_BITS):
            bits = (bits << WORD_BITS) | self.word()
        return bits & ((1 << count) - 1)

    def randbytes(self, count: int) -> bytes:
        return self.getrandbits(8 * count).to_bytes(count, "little")

    def choice(self, among: Sequence[T]) -> T:
        return among[self.randrange(len(among))]

    def choices(self, among: Sequence[T], weights: Iterable[float]) -> list[T]:
        """One of them, by weight; in a list, as `random.choices` gives it."""
        shares = list(weights)
        place = self.random() * sum(shares)
        for item, share in zip(among, shares, strict=True):
            place -= share
            if place < 0:
                return [item]
        return [next(item for item, share in zip(reversed(among), reversed(shares), strict=True) if share)]

    def shuffle(self, items: MutableSequence[Any]) -> None:
        for last in range(len(items) - 1, 0, -1):
            other = self.randrange(last + 1)
            items[last], items[other] = items[other], items[last]

    def sample(self, among: Sequence[T], count: int) -> list[T]:
        """So many of them, in any order."""
        items = list(among)
        self.shuffle(items)
        return items[:count]

    def expovariate(self, rate: float) -> float:
        """Exponentially distributed, with the mean 1/`rate`."""
        return -log(1.0 - self.random()) / rate


def share_of(numbers: Numbers, *name: object) -> Numbers:
    """Numbers of their own for a part, if these have names; else the sequence goes on."""
    return numbers.part(*name) if isinstance(numbers, Draws) else numbers
