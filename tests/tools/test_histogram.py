"""A histogram tells what a sorted list would tell, to three significant digits, and adds up without loss."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liftlog.bench.histogram import PERCENTILES, Histogram, bucket_of, highest_of, summary_ms

NANOSECONDS = st.one_of(st.integers(0, 5000), st.integers(0, 10**7), st.integers(0, 10**13))
VALUES = st.lists(NANOSECONDS, min_size=1, max_size=300)


def exactly(values: list[int], percentile: float) -> int:
    """The nearest rank, in exact numbers."""
    share = Fraction(str(percentile)) / 100
    return sorted(values)[max(1, -(-(share * len(values)) // 1)) - 1]


@given(NANOSECONDS)
def test_a_bucket_holds_its_value_and_is_no_wider_than_a_thousandth(value: int) -> None:
    bucket = bucket_of(value)
    assert value <= highest_of(bucket) <= value + value // 1024
    assert bucket_of(highest_of(bucket)) == bucket
    assert bucket_of(highest_of(bucket) + 1) == bucket + 1


@given(VALUES)
def test_percentiles_are_those_of_the_sorted_list(values: list[int]) -> None:
    histogram = Histogram(values)
    assert len(histogram) == len(values) and histogram.greatest == max(values)
    for percentile in (*PERCENTILES, 0.0, 100.0, 33.3):
        exact = exactly(values, percentile)
        assert exact <= histogram.at(percentile) <= exact + exact // 1024
    assert histogram.at(100.0) == max(values)


@given(VALUES, VALUES)
def test_two_that_are_added_up_are_one_of_all_values(first: list[int], second: list[int]) -> None:
    added = Histogram(first)
    added.add(Histogram.from_json(json.loads(json.dumps(Histogram(second).to_json()))))
    together = Histogram(first + second)
    assert added.to_json() == together.to_json() and added.steps() == together.steps()
    shares, values = zip(*added.steps(), strict=True)
    assert shares[-1] == 1.0 and values[-1] == max(first + second) and list(values) == sorted(set(values))


def test_six_nines_of_two_million_values() -> None:
    # Two values in a million are slow: the median does not know, six nines do.
    histogram = Histogram([1000] * 1_999_996 + [5_000_000] * 4)
    told = summary_ms(histogram)
    assert told["p50"] == told["p99.999"] == pytest.approx(0.001)
    assert told["p99.9999"] == told["max"] == 5.0


def test_a_percentile_that_few_values_cannot_tell_is_the_greatest() -> None:
    assert summary_ms(Histogram([1_000_000, 3_000_000]))["p99.9999"] == 3.0
    assert set(summary_ms(Histogram()).values()) == {0.0}


def test_a_negative_value_is_refused() -> None:
    with pytest.raises(ValueError, match="-1 is negative"):
        Histogram([3, -1])
