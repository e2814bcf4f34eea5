"""The key map and the thinning of batches, without a log: against the records as they decode (C1, C2)."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import pytest
from google_crc32c import value as crc32c
from hypothesis import given
from hypothesis import strategies as st

from liftlog.format import (
    CorruptBatch,
    compress,
    decode_records,
    encode_records,
    encode_sparse,
    parse_batch,
    read_header,
    replace_payload,
)
from liftlog.storage.keymap import DICTS, KeyMap, capacity
from liftlog.storage.thinning import JOINED_BYTES, Gatherer, judge, note_keys
from liftlog.types import Batch, PartitionId, Record

LOG = PartitionId(7, 0)
LONG = b"k" * 40
FIXED_BYTES = 64 * 300
"""What a few keys take beyond their share: the smallest table of each dict."""

keys = st.sampled_from([None, b"", b"a", b"b", b"c" * 16, LONG, LONG + b"2"])
values = st.sampled_from([None, b"", b"v", b"w" * 300])


@st.composite
def logs(draw: st.DrawFn) -> list[Batch]:
    """Batches of all kinds, one after the other: dense, sparse, empty, control, compressed, of two epochs."""
    batches: list[Batch] = []
    offset = draw(st.sampled_from([0, 5, 1 << 40]))
    time_ms = 1_700_000_000_000
    second_epoch_from = draw(st.integers(0, 12))
    for number in range(draw(st.integers(1, 10))):
        records = []
        count = draw(st.integers(1, 5))
        for at in range(offset, offset + count):
            # Far enough for times out of reach of the first one, not so far that no base reaches all.
            time_ms += draw(st.sampled_from([0, 1, -3, 1000, 1 << 29]))
            texts = st.binary(max_size=3)
            strings = draw(texts), draw(texts), draw(texts)
            records.append(Record(at, time_ms, *strings, draw(keys), draw(values)))
        epoch = 2 if number >= second_epoch_from else 1
        present = records if draw(st.booleans()) else [one for one in records if draw(st.booleans())]
        control = draw(st.sampled_from([False] * 9 + [True]))
        batch = encode_sparse(LOG, epoch, offset, offset + count, present, control=control)
        batches.append(compress(LOG, batch, draw(st.sampled_from(["none", "none", "zstd", "lz4"]))))
        offset += count
    return batches


def thin(batches: Sequence[Batch], end: int, droppable: int, known: KeyMap | None = None) -> list[Batch]:
    """Map what lies below `end`, then gather what is left."""
    if known is None:
        known = KeyMap(1 << 20)
        for batch in batches:
            header = read_header(batch.data)
            if not header.control and batch.base_offset < end:
                note_below(known, batch, end)
    gatherer = Gatherer(LOG)
    for batch in batches:
        header = read_header(batch.data)
        if header.control:
            gatherer.pass_on(batch)
        else:
            gatherer.add(batch, header, judge(known, header, batch.data, end, droppable))
    gatherer.flush()
    return gatherer.ready


def note_below(known: KeyMap, batch: Batch, end: int) -> None:
    below = [one for one in decode_records(batch) if one.offset < end]
    part = encode_sparse(LOG, 1, batch.base_offset, batch.end_offset, below)
    note_keys(known, read_header(part.data), part.data, 0)


def expected(batches: Sequence[Batch], end: int, droppable: int) -> list[tuple[int, Record]]:
    """What the rules say, record by record."""
    last: dict[bytes, int] = {}
    for batch in batches:
        for record in [] if read_header(batch.data).control else decode_records(batch):
            if record.key is not None and record.offset < end:
                last[record.key] = record.offset
    left = []
    for batch in batches:
        control = read_header(batch.data).control
        for record in decode_records(batch):
            free = control or record.key is None or record.offset >= end
            newest = free or last[record.key or b""] == record.offset
            if free or (newest and not (record.value is None and record.offset < droppable)):
                left.append((batch.epoch, record))
    return left


@given(logs(), st.integers(0, 50), st.integers(0, 50))
def test_what_is_left_is_what_the_rules_say_c1_c2(batches: list[Batch], end: int, droppable: int) -> None:
    base = batches[0].base_offset
    end, droppable = base + end, base + min(end, droppable)
    left = thin(batches, end, droppable)
    records = [(batch.epoch, record) for batch in left for record in decode_records(batch)]
    assert records == expected(batches, end, droppable)
    position = base
    for batch in left:
        assert parse_batch(LOG, batch.data) == batch
        assert batch.base_offset == position
        position = batch.end_offset
    assert position == batches[-1].end_offset
    for batch in left:
        times = [record.timestamp_ms for record in decode_records(batch)]
        assert not times or read_header(batch.data).last_timestamp_ms == max(times)


def test_a_batch_that_loses_nothing_is_passed_on_as_its_own_bytes() -> None:
    records = [Record(at, 5, b"s", b"", b"", b"%d" % at, b"v" * 2000) for at in range(4)]
    batch = encode_records(LOG, 3, records)
    (left,) = thin([batch], 4, 0)
    assert left is batch


def test_empty_spans_and_small_rests_become_one_batch_per_epoch() -> None:
    def one(at: int, epoch: int) -> Batch:
        return encode_records(LOG, epoch, [Record(at, 5, b"", b"", b"", b"k", b"v%d" % at)])

    left = thin([one(at, 1 if at < 1000 else 2) for at in range(2000)], 2000, 0)
    assert [(batch.base_offset, batch.end_offset, batch.epoch) for batch in left] == [
        (0, 1000, 1),
        (1000, 2000, 2),
    ]
    assert [record.offset for batch in left for record in decode_records(batch)] == [1999]


def test_joined_batches_stay_within_their_bound_of_bytes() -> None:
    batches = []
    for base in range(0, 200, 2):
        outdated = Record(base, 5, b"", b"", b"", b"k", b"v" * 3000)
        last = Record(base + 1, 5, b"", b"", b"", b"k%d" % base, b"v" * 3000)
        batches.append(encode_records(LOG, 1, [outdated, last]))
    left = thin(batches, 200, 0)
    assert len(left) < 20
    assert all(len(batch.data) <= JOINED_BYTES + 4096 for batch in left)


def test_times_too_far_apart_are_not_joined_and_stay_exact() -> None:
    month_ms = 31 * 24 * 3600 * 1000
    batches = [
        encode_records(LOG, 1, [Record(at, at * month_ms, b"", b"", b"", b"%d" % (at // 2 * 2), b"v")])
        for at in range(6)
    ]
    left = thin(batches, 6, 0)
    found = [(record.offset, record.timestamp_ms) for batch in left for record in decode_records(batch)]
    assert found == [(1, month_ms), (3, 3 * month_ms), (5, 5 * month_ms)]


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_what_is_left_of_compressed_batches_is_compressed_again(codec: str) -> None:
    records = [Record(at, 5, b"", b"", b"", b"%d" % (at % 5), b"v" * 500) for at in range(10)]
    (left,) = thin([compress(LOG, encode_records(LOG, 1, records), codec)], 10, 0)
    assert read_header(left.data).codec == codec
    assert [record.offset for record in decode_records(left)] == [5, 6, 7, 8, 9]


def test_records_that_do_not_fill_their_batch_are_an_error() -> None:
    batch = encode_records(LOG, 1, [Record(0, 5, b"", b"", b"", b"k", b"v")])
    broken = replace_payload(LOG, batch.data, 2, 0, batch.data[64:] + b"more")
    known = KeyMap(1 << 20)
    with pytest.raises(CorruptBatch, match="do not fill"):
        note_keys(known, read_header(broken), broken, 0)
    with pytest.raises(CorruptBatch, match="do not fill"):
        judge(known, read_header(broken), broken, 1, 0)


def test_a_full_map_says_at_which_offset_it_was_full() -> None:
    records = [Record(at, 5, b"", b"", b"", b"%d" % (at % 4), b"v") for at in range(10, 30)]
    batch = encode_records(LOG, 1, records)
    known = KeyMap(1 << 20)
    known.capacity = 3
    # Keys 2, 3 and 0 fit; key 1 at offset 13 does not.
    assert note_keys(known, read_header(batch.data), batch.data, 0) == 13
    assert all_of(known) == {b"2": 10, b"3": 11, b"0": 12}
    known.capacity = 4
    assert note_keys(known, read_header(batch.data), batch.data, 0) == 30
    assert all_of(known) == {b"2": 26, b"3": 27, b"0": 28, b"1": 29}
    assert len(known) == 4
    while known.forget_some():
        pass
    assert all_of(known) == {}


def all_of(known: KeyMap) -> dict[bytes, int]:
    return {key: offset for one in known.dicts for key, offset in one.items()}


@pytest.mark.parametrize("map_bytes", [0, 1000, 100_000, 3_000_000, 8_000_000])
def test_a_map_keeps_within_its_bytes(map_bytes: int) -> None:
    known = KeyMap(map_bytes)
    assert known.capacity == capacity(map_bytes) >= 1
    tracemalloc.start()
    try:
        for number in range(known.capacity):
            key = b"%016d" % number
            known.dicts[crc32c(key) % DICTS][key] = (1 << 40) + number
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= map_bytes + FIXED_BYTES
    assert capacity(128 * 1024 * 1024) > 850_000
