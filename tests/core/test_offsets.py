"""Sets of offsets: what was put in, and what that takes (R21)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from liftlog.offsets import CHUNK, FULL, LISTED_MAX, OffsetSet
from liftlog.types import OffsetRange

WITHIN = (0, 1, 2, 70, LISTED_MAX - 1, LISTED_MAX + 3)
EDGES = (*WITHIN, CHUNK - 2, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK)
LENGTHS = (0, 1, 2, 3, 66, LISTED_MAX, LISTED_MAX + 5, CHUNK, CHUNK + 2)
_runs = st.lists(st.tuples(st.sampled_from(EDGES), st.sampled_from(LENGTHS)), max_size=8)


def flat(runs: list[OffsetRange]) -> list[int]:
    return [offset for start, end in runs for offset in range(start, end)]


def made(runs: list[tuple[int, int]]) -> tuple[OffsetSet, set[int]]:
    some, plain = OffsetSet(), set[int]()
    for start, length in runs:
        some.add(start, start + length)
        plain.update(range(start, start + length))
    return some, plain


@given(_runs, st.sampled_from(EDGES), st.sampled_from(EDGES))
def test_it_holds_what_was_put_in(runs: list[tuple[int, int]], start: int, end: int) -> None:
    some, plain = made(runs)
    within = sorted(offset for offset in plain if start <= offset < end)
    assert (len(some), bool(some)) == (len(plain), bool(plain))
    assert flat(list(some.runs(start, end))) == within
    assert some.any_in(start, end) == bool(within)
    assert some.count(start, end) == len(within)
    missing = [offset for offset in range(start, end) if offset not in plain]
    assert flat(list(some.missing_runs(start, end))) == missing
    assert some.next_missing(start, end) == (missing[0] if missing else max(start, end))
    for number in (1, 2, len(missing), len(missing) + 1):
        behind = missing[number - 1] + 1 if 0 < number <= len(missing) else max(start, end)
        assert number == 0 or some.after_missing(start, end, number) == behind
    looked_at = [edge + more for edge in EDGES for more in (0, 1, 65)]
    assert all((offset in some) == (offset in plain) for offset in looked_at)


@given(_runs, _runs, st.sampled_from(EDGES), st.sampled_from(EDGES))
def test_a_copy_stays_and_can_be_told_what_was_added(
    first: list[tuple[int, int]], second: list[tuple[int, int]], start: int, end: int
) -> None:
    some, before = made(first)
    copy = some.copy()
    assert copy == some and not list(some.added_since(copy))
    more, added = made(second)
    for begin, length in second:
        some.add(begin, begin + length)
    assert flat(list(copy.runs(0, 9 * CHUNK))) == sorted(before)
    assert flat(list(some.added_since(copy))) == sorted(added - before)
    both = copy.copy()
    both.add_all(more, start, end)
    expected = before | {offset for offset in added if start <= offset < end}
    assert flat(list(both.runs(0, 9 * CHUNK))) == sorted(expected)


def test_what_lies_below_is_forgotten_by_whole_chunks() -> None:
    some, _ = made([(0, 2 * CHUNK + 5)])
    some.forget_below(CHUNK + 1)
    left = [OffsetRange(CHUNK, 2 * CHUNK), OffsetRange(2 * CHUNK, 2 * CHUNK + 5)]
    assert list(some.runs(0, 3 * CHUNK)) == left


def held_bytes(some: OffsetSet) -> int:
    """As many as the chunks hold."""
    parts = [held for held in some._chunks.values() if held is not FULL]
    return sum(len(held) if isinstance(held, bytes) else held.bit_length() // 8 for held in parts)


def test_a_million_offsets_take_little() -> None:
    """A prefix nearly nothing; every second one 2 bits; one in a hundred two bytes, and less than eight."""
    prefix, second, hundredth = OffsetSet(), OffsetSet(), OffsetSet()
    prefix.add(0, 1_000_000)
    bits = int.from_bytes(b"\x55" * (CHUNK // 8), "little")
    for number in range(31):
        second._put(number, bits)
    every = int.from_bytes(bytes(1 if place % 25 == 0 else 0 for place in range(CHUNK // 8)), "little")
    for number in range(100):
        hundredth._put(number, every)
    assert len(prefix) == 1_000_000 and held_bytes(prefix) < 9_000
    assert len(second) > 1_000_000 and held_bytes(second) < len(second) / 3
    assert len(hundredth) > 30_000 and held_bytes(hundredth) < 4 * len(hundredth)
