"""Which messages a consumer is given, and in which frames (K4)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liftlog.batchparts import alike
from liftlog.core.consumers import choosing
from liftlog.core.consumers.choosing import choose, matching
from liftlog.core.consumers.entries import Created
from liftlog.core.consumers.flight import Flight
from liftlog.core.consumers.state import Consumer
from liftlog.format import decode_records, encode_sparse, parse_batch, read_header
from liftlog.messages import ConsumerConfig
from liftlog.types import Batch, PartitionId, Record

LOG = PartitionId(7, 2)
SUBJECTS = [b"orders.eu", b"orders.us", b"pay"]


def batch_of(base: int, end: int, subjects: dict[int, bytes], step_ms: int = 0) -> Batch:
    records = [
        Record(offset, 1000 + step_ms * (offset - base), subject, b"", b"", None, b"v%d" % offset)
        for offset, subject in sorted(subjects.items())
        if base <= offset < end
    ]
    return encode_sparse(LOG, 3, base, end, records)


def flight_from(start: int, *filters: str) -> Flight:
    return Flight(Consumer(1, Created("a", ConsumerConfig(), start, [])), lambda count: 9, filters)


def frames_of(batches: list[Batch], flight: Flight, start: int, most: int) -> list[list[int]]:
    chosen = choose(LOG, batches, flight, start, most)
    return [[record.offset for record in decode_records(parse_batch(LOG, frame))] for frame in chosen.frames]


@given(
    subjects=st.dictionaries(st.integers(0, 40), st.sampled_from(SUBJECTS)),
    cuts=st.sets(st.integers(1, 40)),
    start=st.integers(0, 40),
    most=st.integers(1, 45),
    filters=st.sampled_from([(), ("orders.*",), (">",), ("orders.eu", "pay"), ("none",)]),
    step_ms=st.integers(0, 1),
)
def test_what_is_chosen_is_in_the_frames_and_with_filters_nothing_else(
    subjects: dict[int, bytes],
    cuts: set[int],
    start: int,
    most: int,
    filters: tuple[str, ...],
    step_ms: int,
) -> None:
    ends = [0, *sorted(cuts), 41]
    batches = [batch_of(base, end, subjects, step_ms) for base, end in itertools.pairwise(ends)]
    batches = [batch for batch in batches if batch.end_offset > start]
    chosen = choose(LOG, batches, flight_from(start, *filters), start, most)
    wanted = {"orders.*": SUBJECTS[:2], ">": SUBJECTS, "orders.eu": SUBJECTS[:1], "pay": SUBJECTS[2:]}
    through = [subject for one in filters for subject in wanted.get(one, [])] if filters else SUBJECTS
    due = [offset for offset in sorted(subjects) if offset >= start and subjects[offset] in through][:most]
    assert [offset for offset, _ in chosen.counts] == due
    sent = [record for frame in chosen.frames for record in decode_records(parse_batch(LOG, frame))]
    values = {record.offset: (record.subject, record.value) for record in sent}
    assert all(values[offset] == (subjects[offset], b"v%d" % offset) for offset in due)
    assert not filters or sorted(values) == due
    assert chosen.end == (due[-1] + 1 if len(due) == most else 41)


def test_a_filter_that_matches_all_of_a_batch_leaves_it_as_it_is() -> None:
    batch = batch_of(0, 8, dict.fromkeys(range(8), b"orders.eu"), step_ms=1)
    assert choose(LOG, [batch], flight_from(0, "orders.>"), 0, 100).frames == [batch.data]


def test_few_messages_of_a_large_batch_are_sent_without_the_others() -> None:
    batch = batch_of(0, 100, dict.fromkeys(range(100), b"orders.eu"))
    assert frames_of([batch], flight_from(40), 40, 10) == [list(range(40, 50))]
    assert frames_of([batch], flight_from(40), 40, 60) == [list(range(100))]


@pytest.mark.parametrize("lost", [0, 1])
def test_a_batch_that_would_have_to_be_encoded_anew_is_sent_whole_without_filters(lost: int) -> None:
    """Of different times, or with holes."""
    batch = batch_of(0, 100 + lost, dict.fromkeys(range(100), b"orders.eu"), step_ms=1 - lost)
    assert read_header(batch.data).sparse == bool(lost)
    assert frames_of([batch], flight_from(40), 40, 10) == [list(range(100))]


@st.composite
def kinds(draw: st.DrawFn) -> list[Record]:
    """Records that are alike, or nearly."""
    fields = st.tuples(
        st.sampled_from([0, 0, 0, 1]),
        st.sampled_from([b"orders.eu", b"orders.eu", b"orders.us"]),
        st.sampled_from([b"", b"", b"r"]),
        st.sampled_from([b"", b"", b"NATS/1.0\r\n\r\n"]),
        st.sampled_from([None, None, b"", b"k"]),
        st.sampled_from([b"v", b"v", b"w", b"", None]),
    )
    likeness = draw(st.integers(1, 3))
    of = [draw(fields) for _ in range(likeness)]
    count = draw(st.integers(1, 12))
    return [
        Record(5 + place, 1000 + delta, *rest) for place, (delta, *rest) in enumerate((of * count)[:count])
    ]


@given(
    records=kinds(),
    start=st.integers(5, 17),
    most=st.integers(1, 14),
    filters=st.sampled_from([("orders.*",), (">",), ("orders.eu",), ("none",)]),
)
def test_records_that_are_alike_are_chosen_as_if_each_were_looked_at(
    records: list[Record], start: int, most: int, filters: tuple[str, ...]
) -> None:
    batch = encode_sparse(LOG, 3, 5, 5 + len(records), records)
    start = min(start, batch.end_offset - 1)
    quick = choose(LOG, [batch], flight_from(start, *filters), start, most)
    found = list(matching(batch, flight_from(0, *filters).wanted, start))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "alike", lambda header, data: None)
        assert choose(LOG, [batch], flight_from(start, *filters), start, most) == quick
        assert list(matching(batch, flight_from(0, *filters).wanted, start)) == found


@given(kinds())
def test_what_is_alike_has_one_subject_and_one_size(records: list[Record]) -> None:
    batch = encode_sparse(LOG, 3, 5, 5 + len(records), records)
    kind = alike(read_header(batch.data), batch.data)
    heads = {
        (one[1:5], one.key is None, one.value is None, len(one.key or b""), len(one.value or b""))
        for one in records
    }
    if kind is None:
        assert len(heads) > 1
    else:
        assert {one.subject for one in records} == {kind.subject}
