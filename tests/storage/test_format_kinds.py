"""Sparse, compressed and sealed batches: whatever goes in comes out, and nothing else ever does (D1)."""

from __future__ import annotations

import struct

import pytest
from google_crc32c import value as crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog.batchparts import RecordFinder, copied_part, slice_batch, subjects_from
from liftlog.codec import CODECS
from liftlog.format import (
    CONTROL,
    HEADER_BYTES,
    PREFIX_BYTES,
    SEALED,
    SPARSE,
    VERSION,
    CorruptBatch,
    SealedBatch,
    UnsupportedBatch,
    compress,
    decode_records,
    encode_records,
    encode_sparse,
    parse_batch,
    read_header,
    replace_payload,
    verify_frame,
)
from liftlog.types import Batch, LiftlogError, PartitionId, Record
from tests.storage.batch_kinds import (
    LOG,
    LONG,
    MIXED,
    NONCE,
    START_MS,
    golden_1,
    golden_2,
    sealer,
    stamped,
)

FRAMES = golden_2()
OTHER_LOG = PartitionId(7, 3)

bytestrings = st.binary(max_size=40) | st.sampled_from([b"orders.eu", b"pay" * 60])
optional = st.none() | bytestrings
lines = st.tuples(st.integers(0, 2**32 - 1), bytestrings, bytestrings, bytestrings, optional, optional)


@st.composite
def spans(draw: st.DrawFn) -> tuple[int, int, list[Record]]:
    """(base, end, records): a span of offsets some of which have a record."""
    base = draw(st.integers(0, 2**40))
    slots = draw(st.lists(st.none() | lines, min_size=1, max_size=20))
    start_ms = draw(st.integers(0, 2**41))
    records = [
        Record(base + i, start_ms + line[0], *line[1:]) for i, line in enumerate(slots) if line is not None
    ]
    return base, base + len(slots), records


codecs = st.sampled_from(CODECS)


@settings(max_examples=150, deadline=None)
@given(spans(), codecs, st.booleans(), st.booleans())
def test_any_records_come_back_from_every_kind_of_batch(
    span: tuple[int, int, list[Record]], codec: str, control: bool, sealed: bool
) -> None:
    base, end, records = span
    batch = encode_sparse(LOG, 9, base, end, records, control=control)
    packed = compress(LOG, batch, codec)
    assert len(packed.data) <= len(batch.data)
    data = packed.data
    if sealed:
        written = sealer().seal(LOG, data)
        assert written != data and len(written) == len(data) + 28
        data = sealer().open(LOG, written)
        assert data == packed.data
    found = parse_batch(LOG, data)
    assert (found.base_offset, found.end_offset, found.epoch) == (base, end, 9)
    assert decode_records(found) == records
    header = read_header(data)
    assert header.records == len(records) and header.sparse == (len(records) < end - base)
    assert header.control == control
    assert compress(LOG, packed, "none").data == batch.data


@settings(max_examples=150, deadline=None)
@given(spans(), codecs, st.booleans(), st.data())
def test_any_damage_to_any_kind_of_batch_is_corrupt_and_nothing_else(
    span: tuple[int, int, list[Record]], codec: str, sealed: bool, data: st.DataObject
) -> None:
    frame = compress(LOG, encode_sparse(LOG, 9, *span), codec).data
    if sealed:
        frame = sealer().seal(LOG, frame)
    position = data.draw(st.integers(0, len(frame) - 1))
    flipped = bytearray(frame)
    flipped[position] ^= 1 << data.draw(st.integers(0, 7))
    for damaged in (bytes(flipped), frame[:position], frame + data.draw(st.binary(min_size=1, max_size=9))):
        with pytest.raises(CorruptBatch):
            verify_frame(LOG, damaged)
    with pytest.raises(CorruptBatch):
        verify_frame(OTHER_LOG, frame)


@settings(max_examples=150, deadline=None)
@given(spans(), codecs, st.integers(-3, 23), st.integers(-3, 23))
def test_a_slice_holds_what_the_span_holds_between_its_ends(
    span: tuple[int, int, list[Record]], codec: str, first: int, last: int
) -> None:
    base, end, records = span
    batch = compress(LOG, encode_sparse(LOG, 9, base, end, records), codec)
    start, stop = base + first, base + last
    if max(start, base) >= min(stop, end):
        with pytest.raises(ValueError, match="is empty"):
            slice_batch(LOG, batch, start, stop)
        return
    part = slice_batch(LOG, batch, start, stop)
    assert part == parse_batch(LOG, part.data)
    assert (part.base_offset, part.end_offset) == (max(start, base), min(stop, end)) and part.epoch == 9
    assert decode_records(part) == [record for record in records if start <= record.offset < stop]
    assert read_header(part.data).codec in ("none", read_header(batch.data).codec)
    if start <= base and end <= stop:
        assert part is batch


@settings(max_examples=150, deadline=None)
@given(spans(), st.booleans(), st.booleans(), st.integers(0, 19), st.integers(1, 20))
def test_bytes_are_copied_only_where_encoding_anew_gives_the_same(
    span: tuple[int, int, list[Record]], one_time: bool, control: bool, first: int, count: int
) -> None:
    base, end, records = span
    if one_time:
        records = [record._replace(timestamp_ms=START_MS) for record in records]
    batch = encode_sparse(LOG, 9, base, end, records, control=control)
    start = min(base + first, end - 1)
    stop = min(start + count, end)
    kept = [record for record in records if start <= record.offset < stop]
    part = copied_part(LOG, batch, start, stop)
    dense = len(records) == end - base
    assert part is None or part == encode_sparse(LOG, 9, start, stop, kept, control=control)
    assert part is not None or not (one_time and dense)
    assert part is None or dense


@settings(max_examples=150, deadline=None)
@given(
    st.lists(spans(), min_size=1, max_size=3),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 19), st.integers(1, 20)), max_size=8),
)
def test_who_knows_the_place_of_an_earlier_part_finds_the_same(
    several: list[tuple[int, int, list[Record]]], one_time: bool, asked: list[tuple[int, int, int]]
) -> None:
    batches = []
    for base, end, records in several:
        if one_time:
            records = [record._replace(timestamp_ms=START_MS) for record in records]
        batches.append(encode_sparse(LOG, 9, base, end, records))
    places = RecordFinder()
    for number, first, count in asked:
        batch = batches[number % len(batches)]
        start = min(batch.base_offset + first, batch.end_offset - 1)
        stop = min(start + count, batch.end_offset)
        assert copied_part(LOG, batch, start, stop, places) == copied_part(LOG, batch, start, stop)


def test_the_places_of_a_batch_that_was_cut_off_are_not_those_of_the_one_written_anew() -> None:
    def batch(*sizes: int) -> Batch:
        records = [Record(n, START_MS, b"s", b"", b"", None, bytes(size)) for n, size in enumerate(sizes)]
        return encode_sparse(LOG, 9, 0, len(sizes), records)

    places = RecordFinder()
    for one in (batch(1, 9, 5), batch(9, 1, 5), batch(1, 9, 5)):
        assert copied_part(LOG, one, 1, 2, places) == slice_batch(LOG, one, 1, 2)
    assert places.bounds(one.data[:-1], 2, 3) == (0, 0)
    assert places.bounds(one.data, 2, 4) == (0, 0)


@settings(max_examples=100, deadline=None)
@given(spans(), codecs, st.integers(-3, 23))
def test_subjects_are_seen_without_decoding_the_rest(
    span: tuple[int, int, list[Record]], codec: str, first: int
) -> None:
    base, end, records = span
    batch = compress(LOG, encode_sparse(LOG, 9, base, end, records), codec)
    wanted = [(record.offset, record.subject) for record in records if record.offset >= base + first]
    assert list(subjects_from(batch, base + first)) == wanted


def test_a_slice_of_a_compressed_batch_is_compressed_with_the_same_codec() -> None:
    for codec in ("zstd", "lz4"):
        part = slice_batch(LOG, compress(LOG, encode_records(LOG, 5, LONG), codec), 42, 46)
        assert read_header(part.data).codec == codec and decode_records(part) == LONG[1:5]


def test_a_slice_of_a_batch_of_version_1_is_of_the_present_version() -> None:
    part = slice_batch(LOG, parse_batch(LOG, golden_1()), 42, 44)
    assert part.data[22] == VERSION and decode_records(part) == MIXED[1:]


def test_a_slice_of_a_control_batch_is_a_control_batch() -> None:
    part = slice_batch(LOG, encode_records(LOG, 1, MIXED, control=True), 42, 43)
    assert read_header(part.data).control and decode_records(part) == MIXED[1:2]


def test_a_slice_works_although_its_records_lie_further_apart_than_from_the_first() -> None:
    """The middle of the batch is the base of its times: without it the two ends are 49 days apart."""
    middle = 1_700_000_000_000
    times = [middle, middle - 2**31, middle + 2**31 - 1]
    records = [Record(i, time, b"", b"", b"", None, b"v") for i, time in enumerate(times)]
    batch = encode_records(LOG, 1, records)
    assert decode_records(slice_batch(LOG, batch, 1, 3)) == records[1:]


def test_compressing_changes_nothing_that_would_not_get_smaller() -> None:
    small = encode_records(LOG, 1, [MIXED[0]])
    assert compress(LOG, small, "zstd") is small and compress(LOG, small, "none") is small
    packed = compress(LOG, encode_records(LOG, 1, LONG), "zstd")
    assert compress(LOG, packed, "zstd") is packed
    other = compress(LOG, packed, "lz4")
    assert read_header(other.data).codec == "lz4" and decode_records(other) == LONG
    with pytest.raises(LiftlogError, match="no codec 'gzip'; use one of: none, zstd, lz4"):
        compress(LOG, small, "gzip")


def test_a_batch_that_lacks_no_record_is_an_ordinary_one() -> None:
    assert encode_sparse(LOG, 5, 41, 44, MIXED) == encode_records(LOG, 5, MIXED)


@pytest.mark.parametrize(
    ("base", "end", "records"),
    [(41, 41, []), (44, 41, []), (0, 2**32, []), (0, 2**32, [MIXED[0]]), (42, 50, [MIXED[0]]),
     (41, 43, [MIXED[2]]), (41, 50, [MIXED[1], MIXED[0]]), (41, 50, [MIXED[0], MIXED[0]]), (5, 7, MIXED[:2])],
)  # fmt: skip
def test_a_span_that_cannot_be_is_refused(base: int, end: int, records: list[Record]) -> None:
    with pytest.raises(ValueError, match=r"do not ascend|at least one"):
        encode_sparse(LOG, 1, base, end, records)


# --- what a writer with a bug may have written: checksums match, contents do not ---------------------------


def altered(kind: str, position: int, replacement: bytes) -> bytes:
    """A frame of the golden file with other bytes and checksums that match."""
    data = bytearray(FRAMES[kind])
    data[position : position + len(replacement)] = replacement
    return checksummed(bytes(data))


def checksummed(data: bytes) -> bytes:
    length = struct.pack("<I", len(data) - PREFIX_BYTES)
    crc = struct.pack("<I", crc32c(struct.pack("<QI", *LOG) + length + data[20:]))
    return stamped(data[:12] + length + crc + data[20:])


def u32(number: int) -> bytes:
    return struct.pack("<I", number)


def test_the_helper_makes_checksums_that_match() -> None:
    for frame in FRAMES.values():
        assert checksummed(frame) == frame


@pytest.mark.parametrize(
    ("kind", "position", "replacement", "text"),
    [
        ("sparse", 60, u32(9), "9 records for 9 offsets"),
        ("sparse", 60, u32(3), "too small"),
        ("dense", 60, u32(1), "not sparse"),
        ("dense", 40, u32(0), "without records"),
        ("dense", 40, u32(100), "too small"),
        ("dense", 24, b"\xff" * 8, "out of range"),
        ("zstd", 40, u32(0), "without records"),
        ("sealed", 40, u32(0), "without records"),
    ],
)
def test_a_header_that_contradicts_itself_is_corrupt(
    kind: str, position: int, replacement: bytes, text: str
) -> None:
    with pytest.raises(CorruptBatch, match=text):
        verify_frame(LOG, altered(kind, position, replacement))


@pytest.mark.parametrize(
    ("kind", "position", "replacement", "text"),
    [
        ("sparse", 60, u32(1), "follow the last record"),
        ("sparse", HEADER_BYTES, u32(45), "does not fill"),
        ("sparse", HEADER_BYTES + 4, u32(2), "outside the order"),
        ("sparse", HEADER_BYTES + 4 + 50, u32(9), "outside the order"),
        ("zstd", HEADER_BYTES, u32(64 * 1024 * 1024 + 1), "claims"),
        ("zstd", HEADER_BYTES, u32(929), "its zstd frame 930"),
        ("zstd", HEADER_BYTES + 4, b"junk", "zstd"),
        ("lz4", HEADER_BYTES, u32(929), "lz4"),
        ("lz4", HEADER_BYTES, u32(931), "holds 930"),
        ("lz4", HEADER_BYTES, u32(0), "claims 0"),
        ("lz4", 40, u32(5), "follow the last record"),
        ("lz4", 40, u32(7), "outside its batch"),
    ],
)
def test_a_payload_that_does_not_match_its_header_is_corrupt(
    kind: str, position: int, replacement: bytes, text: str
) -> None:
    batch = parse_batch(LOG, altered(kind, position, replacement))
    with pytest.raises(CorruptBatch, match=text):
        decode_records(batch)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["dense", "sparse", "zstd", "lz4", "zstd sparse"]), st.data())
def test_a_writer_with_a_bug_is_found_out_or_believed_but_never_crashes_the_reader(
    kind: str, data: st.DataObject
) -> None:
    """Random bytes over the header's numbers and the payload, under checksums that match."""
    frame = FRAMES[kind]
    position = data.draw(st.integers(40, len(frame) - 1))
    junk = data.draw(st.binary(min_size=1, max_size=12))
    made = altered(kind, position, junk[: len(frame) - position])
    try:
        batch = parse_batch(LOG, made)
        records = decode_records(batch)
    except CorruptBatch:
        return
    assert len(records) == read_header(made).records
    assert all(batch.base_offset <= record.offset < batch.end_offset for record in records)


# --- forward compatibility --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "attributes"),
    [(0, 0), (3, 0), (255, 0xFF), (2, 0x03), (2, 0x10), (2, 0x20), (2, 0x40),
     (1, 0x01), (1, SPARSE), (1, CONTROL)],
)  # fmt: skip
def test_a_good_batch_of_a_newer_version_is_unsupported_not_damaged(version: int, attributes: int) -> None:
    newer = altered("dense", 22, bytes((version, attributes)))
    for read in (parse_batch, verify_frame):
        with pytest.raises(UnsupportedBatch, match="upgrade"):
            read(LOG, newer)
    assert not isinstance(UnsupportedBatch(""), ValueError), "CorruptBatch handlers must not catch it"


def test_whatever_a_newer_version_puts_behind_the_attributes_it_is_unsupported() -> None:
    """Only prefix, checksum, magic, version and the least length are the same for ever."""
    newer = checksummed(FRAMES["dense"][:22] + b"\x03" + b"\xff" * 41)
    with pytest.raises(UnsupportedBatch):
        parse_batch(LOG, newer)


def test_damage_to_a_newer_batch_is_damage() -> None:
    newer = altered("dense", 22, b"\x03")
    for byte in range(len(newer)):
        flipped = bytearray(newer)
        flipped[byte] ^= 0x10
        with pytest.raises(CorruptBatch):
            verify_frame(LOG, bytes(flipped))
    for length in range(len(newer)):
        with pytest.raises(CorruptBatch):
            verify_frame(LOG, newer[:length])


def test_a_flipped_version_is_damage_once_the_whole_frame_is_there() -> None:
    """The header alone cannot tell; whoever has only that must not cut because of it."""
    flipped = bytearray(FRAMES["dense"])
    flipped[22] ^= 1 << 4
    with pytest.raises(UnsupportedBatch):
        read_header(bytes(flipped[:HEADER_BYTES]))
    with pytest.raises(CorruptBatch, match="checksum"):
        verify_frame(LOG, bytes(flipped))


def test_a_sealed_batch_is_not_passed_on_or_decoded() -> None:
    sealed = FRAMES["sealed"]
    batch = Batch(41, 3, 5, sealed)
    for use in (
        lambda: parse_batch(LOG, sealed),
        lambda: decode_records(sealed),
        lambda: compress(LOG, batch, "zstd"),
        lambda: slice_batch(LOG, batch, 42, 43),
    ):
        with pytest.raises(SealedBatch, match="encryption_key_file"):
            use()


def test_replacing_a_payload_keeps_everything_else() -> None:
    frame = FRAMES["dense"]
    assert replace_payload(LOG, frame, 2, 0, frame[HEADER_BYTES:]) == frame
    again = replace_payload(LOG, frame, 2, SEALED, NONCE + frame[HEADER_BYTES:] + bytes(16))
    old, new = verify_frame(LOG, frame), verify_frame(LOG, again)
    assert new == old._replace(attributes=SEALED, frame_bytes=old.frame_bytes + 28)
