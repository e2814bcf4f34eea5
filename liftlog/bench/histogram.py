"""A histogram of latencies with three significant digits over their whole range, as HdrHistogram counts them.

Buckets are linear up to 2,048 and from there on each doubling is cut into 1,024 equal ones, so that no value
is told more than a thousandth too high. Histograms of several rounds are added up without any loss, and a
percentile is what it would be of all values together. Why this is no library stands in docs/adr.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from math import ceil
from typing import Any

PERCENTILES = (50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999)
"""What is told of each histogram, besides its maximum."""
_LINEAR_BITS = 11


def bucket_of(value: int) -> int:
    """Number of the bucket that counts this value (>= 0)."""
    shift = max(0, value.bit_length() - _LINEAR_BITS)
    return (shift << (_LINEAR_BITS - 1)) + (value >> shift)


def highest_of(bucket: int) -> int:
    """The greatest value that this bucket counts."""
    shift = max(0, (bucket >> (_LINEAR_BITS - 1)) - 1)
    return ((bucket - (shift << (_LINEAR_BITS - 1)) + 1) << shift) - 1


class Histogram:
    """Counts of values. The unit is the user's: nanoseconds in the benchmarks."""

    def __init__(self, values: Iterable[int] = ()) -> None:
        self._counts: Counter[int] = Counter()
        self.greatest = 0
        """The greatest value, exactly."""
        self.record(values)

    def __len__(self) -> int:
        return self._counts.total()

    def record(self, values: Iterable[int]) -> None:
        """Count these. A negative value raises ValueError."""
        values = list(values)
        if values and min(values) < 0:
            raise ValueError(f"{min(values)} is negative")
        self._counts.update(map(bucket_of, values))
        self.greatest = max(self.greatest, max(values, default=0))

    def add(self, other: Histogram) -> None:
        """Count what the other one has counted."""
        self._counts.update(other._counts)
        self.greatest = max(self.greatest, other.greatest)

    def at(self, percentile: float) -> int:
        """So many percent of the values are at most this: at most a thousandth more than the exact value.

        Of an empty histogram it is 0. Percentiles that would need more values than there are give the
        greatest one.
        """
        return self.at_all((percentile,))[0]

    def at_all(self, percentiles: Iterable[float]) -> list[int]:
        """`at` of each percentile."""
        buckets = sorted(self._counts)
        ends = list(accumulate(self._counts[bucket] for bucket in buckets))
        found = []
        for percentile in percentiles:
            rank = rank_of(percentile, len(self))
            value = next(
                (highest_of(bucket) for bucket, end in zip(buckets, ends, strict=True) if end >= rank), 0
            )
            found.append(min(value, self.greatest))
        return found

    def steps(self) -> list[tuple[float, int]]:
        """The whole distribution: (share of the values that are at most so great, value), rising."""
        total, seen, found = len(self), 0, []
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            found.append((seen / total, min(highest_of(bucket), self.greatest)))
        return found

    def to_json(self) -> dict[str, Any]:
        """The greatest value, and bucket:count of each bucket; `from_json` reads it."""
        counts = " ".join(f"{bucket}:{count}" for bucket, count in sorted(self._counts.items()))
        return {"greatest": self.greatest, "counts": counts}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Histogram:
        found = cls()
        found.greatest = document["greatest"]
        for pair in document["counts"].split():
            bucket, _, count = pair.partition(":")
            found._counts[int(bucket)] += int(count)
        return found


def rank_of(percentile: float, count: int) -> int:
    """Which of `count` rising values, counted from 1, a percentile names: the nearest rank."""
    # The product of two inexact numbers may lie a hair above the whole number that it is.
    return max(1, ceil(round(percentile * count / 100, 6)))


def summary_ms(nanoseconds: Histogram) -> dict[str, float]:
    """"p50" to "p99.9999" and "max", in milliseconds."""
    values = nanoseconds.at_all(PERCENTILES)
    found = {f"p{percentile:g}": value / 1e6 for percentile, value in zip(PERCENTILES, values, strict=True)}
    return found | {"max": nanoseconds.greatest / 1e6}
