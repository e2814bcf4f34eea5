"""What messages count for, by offset and in sum."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from liftlog.sizes import message_bytes
from liftlog.subjects.index.sizes import MessageSizes

SIZES = st.lists(st.integers(1, 9), max_size=40)


def test_a_message_counts_for_what_nats_server_s_file_store_writes() -> None:
    assert message_bytes(5, 0, 10) == 45
    assert message_bytes(5, 12, 0) == 51


@given(
    first=st.integers(0, 20),
    groups=st.lists(st.tuples(st.integers(0, 20), SIZES), max_size=5),
    removed=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), max_size=6),
    start=st.integers(0, 60),
    most=st.integers(0, 200),
    until=st.integers(0, 120),
)
def test_sums_are_those_of_what_is_there(
    first: int,
    groups: list[tuple[int, list[int]]],
    removed: list[tuple[int, int]],
    start: int,
    most: int,
    until: int,
) -> None:
    sizes, plain, offset = MessageSizes(bits=3), dict[int, int](), first
    for gap, some in groups:
        offset += gap
        sizes.append(offset, some)
        plain.update(enumerate(some, offset))
        offset += len(some)
    runs, at = list[tuple[int, int]](), first
    for gap, length in removed:
        runs.append((at + gap, at + gap + length))
        at += gap + length
    sizes.remove(runs)
    sizes.start(start)
    there = {
        offset: size
        for offset, size in plain.items()
        if offset >= start and not any(begin <= offset < end for begin, end in runs)
    }
    assert sizes.total == sum(there.values())
    below = {offset: size for offset, size in there.items() if offset < until}
    assert sizes.below(until) == sum(below.values())
    place = sizes.newest(most, until)
    stays = {offset: size for offset, size in below.items() if offset >= place}
    goes = [offset for offset in below if offset < place]
    assert sum(stays.values()) <= most
    assert not goes or sum(stays.values()) + below[max(goes)] > most
