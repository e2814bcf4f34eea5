"""The bytes of a batch: fixed for ever, and no flipped bit goes unseen (D1)."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog.format import (
    HEADER_BYTES,
    PREFIX_BYTES,
    VERSION,
    CorruptBatch,
    decode_records,
    decode_values,
    encode_messages,
    encode_records,
    encode_values,
    last_timestamp_ms,
    moved_to,
    parse_batch,
    read_header,
    split_frames,
    stamp,
    verify_frame,
)
from liftlog.types import RAFT_LOG, Message, PartitionId, Record
from tests.storage.batch_kinds import COMPRESSED, LOG, MIXED, golden_1, golden_2, kinds, sealer

FRAMES = golden_2()
DENSE = FRAMES["dense"]


def opened(data: bytes) -> list[Record]:
    """The records of a frame as a node with the key reads it from its disk."""
    if verify_frame(LOG, data).sealed:
        data = sealer().open(LOG, data)
    return decode_records(parse_batch(LOG, data))


def test_the_bytes_of_every_kind_of_batch_are_those_of_the_golden_file() -> None:
    """Logs on disk and nodes of other versions speak this format: a change needs a new version number."""
    made = kinds()
    assert made.keys() == FRAMES.keys()
    for kind, (data, _) in made.items():
        if kind not in COMPRESSED:
            assert data == FRAMES[kind], kind


@pytest.mark.parametrize("kind", FRAMES)
def test_every_frame_of_the_golden_file_still_decodes(kind: str) -> None:
    assert opened(FRAMES[kind]) == kinds()[kind][1]


def test_batches_of_version_1_are_still_read() -> None:
    """Logs that were written before compression, compaction and encryption existed."""
    batch = parse_batch(LOG, golden_1())
    header = read_header(batch.data)
    assert (header.synced_below, header.base_offset, header.records, header.epoch) == (40, 41, 3, 5)
    assert (header.codec, header.sparse, header.control, header.sealed) == ("none", False, False, False)
    assert decode_records(batch) == MIXED


def test_a_plain_batch_differs_from_version_1_in_the_version_and_the_checksums_alone() -> None:
    old = golden_1()
    differing = [i for i in range(len(old)) if old[i] != DENSE[i]]
    assert set(differing) <= {*range(8, 12), *range(16, 20), 22} and (old[22], DENSE[22]) == (1, VERSION)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("dense", ("none", False, False, False, 3, 3)),
        ("sparse", ("none", True, False, False, 9, 2)),
        ("empty span", ("none", True, False, False, 9, 0)),
        ("control", ("none", False, True, False, 1, 1)),
        ("zstd sparse", ("zstd", True, False, False, 6, 5)),
        ("lz4", ("lz4", False, False, False, 6, 6)),
        ("sealed zstd", ("zstd", False, False, True, 6, 6)),
        ("sealed empty span", ("none", True, False, True, 9, 0)),
    ],
)
def test_the_header_tells_the_kind_without_library_or_key(kind: str, expected: tuple[object, ...]) -> None:
    header = verify_frame(LOG, FRAMES[kind])
    flags = (header.codec, header.sparse, header.control, header.sealed)
    assert (*flags, header.count, header.records) == expected
    assert header.end_offset == 41 + header.count
    last_ms = max((record.timestamp_ms for record in kinds()[kind][1]), default=0)
    assert last_timestamp_ms(FRAMES[kind]) == header.last_timestamp_ms == last_ms


@pytest.mark.parametrize("kind", ["version 1", *FRAMES])
def test_every_flipped_bit_is_detected_in_prefix_header_and_payload(kind: str) -> None:
    data = FRAMES.get(kind) or golden_1()
    for byte in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[byte] ^= 1 << bit
            with pytest.raises(CorruptBatch):
                verify_frame(LOG, bytes(flipped))


@pytest.mark.parametrize("kind", ["version 1", *FRAMES])
def test_every_shorter_and_longer_frame_is_detected(kind: str) -> None:
    data = FRAMES.get(kind) or golden_1()
    for length in range(len(data)):
        with pytest.raises(CorruptBatch):
            verify_frame(LOG, data[:length])
    with pytest.raises(CorruptBatch, match="are there"):
        verify_frame(LOG, data + b"\0")


@pytest.mark.parametrize("other", [PartitionId(7, 3), PartitionId(8, 2), RAFT_LOG])
def test_a_batch_of_another_log_is_detected(other: PartitionId) -> None:
    with pytest.raises(CorruptBatch, match="checksum"):
        parse_batch(other, DENSE)


def test_a_frame_that_moved_to_another_log_is_one_of_that_alone() -> None:
    """What the simulator lets a disk do when it plants a checksum that says nothing of the log."""
    other = PartitionId(8, 2)
    moved = moved_to(other, DENSE)
    assert parse_batch(other, moved).data == moved
    assert decode_records(moved) == decode_records(DENSE)
    with pytest.raises(CorruptBatch, match="checksum"):
        parse_batch(LOG, moved)


@pytest.mark.parametrize(
    ("position", "text"),
    [(0, "prefix"), (8, "prefix"), (13, "too small|are there"), (20, "magic"), (22, "checksum"),
     (23, "checksum"), (60, "not sparse"), (70, "checksum")],
)  # fmt: skip
def test_the_error_names_what_is_wrong(position: int, text: str) -> None:
    flipped = bytearray(DENSE)
    flipped[position] ^= 1
    with pytest.raises(CorruptBatch, match=text):
        parse_batch(LOG, bytes(flipped))


def test_a_stamped_prefix_belongs_to_one_batch_only() -> None:
    one = encode_values(LOG, 10, 1, 0, [b"a"]).data
    two = encode_values(LOG, 10, 1, 0, [b"b"]).data
    with pytest.raises(CorruptBatch, match="prefix"):
        parse_batch(LOG, stamp(one, 3) + two[PREFIX_BYTES:])
    assert read_header(parse_batch(LOG, stamp(two, 3) + two[PREFIX_BYTES:]).data).synced_below == 3


bytestrings = st.binary(max_size=40)
messages = st.builds(Message, bytestrings, bytestrings, bytestrings, bytestrings)


@settings(max_examples=60, deadline=None)
@given(st.lists(messages, min_size=1, max_size=20), st.integers(0, 2**40), st.integers(0, 2**40))
def test_messages_come_back_as_they_were(batch: list[Message], base: int, epoch: int) -> None:
    encoded = encode_messages(LOG, base, epoch, 1_700_000_000_000, batch)
    parsed = parse_batch(LOG, encoded.data)
    assert parsed == encoded and parsed.end_offset == base + len(batch)
    records = decode_records(parsed)
    assert [Message(r.subject, r.reply, r.headers, r.value or b"") for r in records] == batch
    assert [r.offset for r in records] == list(range(base, base + len(batch)))


optional = st.none() | bytestrings
lines = st.tuples(st.integers(-(2**31), 2**31 - 1), bytestrings, bytestrings, bytestrings, optional, optional)


@settings(max_examples=60, deadline=None)
@given(st.lists(lines, min_size=1, max_size=20), st.integers(0, 2**40))
def test_records_with_keys_come_back_as_they_were(
    drawn: list[tuple[int, bytes, bytes, bytes, bytes | None, bytes | None]], base: int
) -> None:
    records = [Record(base + i, 1_700_000_000_000 + line[0], *line[1:]) for i, line in enumerate(drawn)]
    assert decode_records(encode_records(LOG, 3, records)) == records


def test_timestamps_up_to_49_days_apart_fit_one_batch_in_any_order() -> None:
    """So every part of a batch can be encoded again: a base that fits all fits some of them."""
    early, late = 1_700_000_000_000, 1_700_000_000_000 + 2**32 - 1
    for times in ([early, late], [late, early], [early + 2**31, early, late]):
        records = [Record(i, time, b"", b"", b"", None, b"v") for i, time in enumerate(times)]
        batch = encode_records(LOG, 1, records)
        assert decode_records(batch) == records and last_timestamp_ms(batch.data) == late
    records = [Record(i, time, b"", b"", b"", None, b"v") for i, time in enumerate([early, late + 1])]
    with pytest.raises(ValueError, match="do not fit into one batch"):
        encode_records(LOG, 1, records)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=200), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_random_damage_is_detected(values: list[bytes], random: Random) -> None:
    data = bytearray(encode_values(LOG, 5, 1, 0, values).data)
    start = random.randrange(len(data))
    junk = random.randbytes(min(16, len(data) - start))
    before = bytes(data)
    data[start : start + len(junk)] = junk
    if bytes(data) != before:
        with pytest.raises(CorruptBatch):
            parse_batch(LOG, bytes(data))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(sorted(FRAMES)), max_size=8), st.integers(0, 400))
def test_a_stretch_of_frames_is_cut_into_frames_and_loses_no_byte(row: list[str], cut: int) -> None:
    frames = [FRAMES[kind] for kind in row]
    stretch = b"".join(frames)
    assert split_frames(stretch) == frames
    short = stretch[: max(0, len(stretch) - cut)]
    found = split_frames(short)
    assert b"".join(found) == short
    whole = [frame for frame in found if frame in frames]
    assert whole == frames[: len(whole)] and len(found) - len(whole) <= 1


def test_a_damaged_length_spoils_the_cut_but_is_noticed() -> None:
    damaged = bytearray(DENSE + DENSE)
    damaged[12] ^= 0x40
    found = split_frames(bytes(damaged))
    assert b"".join(found) == bytes(damaged)
    with pytest.raises(CorruptBatch):
        parse_batch(LOG, found[0])


def test_raft_values_come_back_and_empty_stays_empty() -> None:
    values = [b"", b"one", b"x" * 100_000]
    batch = encode_values(RAFT_LOG, 0, 4, 0, values)
    assert decode_values(parse_batch(RAFT_LOG, batch.data)) == values


def test_records_that_do_not_fill_their_batch_are_detected() -> None:
    """A checksum only says that the bytes are the writer's; a writer with a bug must not be believed."""
    data = bytearray(encode_values(LOG, 0, 1, 0, [b"abc", b"def"]).data)
    data[HEADER_BYTES] += 1
    with pytest.raises(CorruptBatch, match="fill"):
        decode_records(bytes(data))
    data[HEADER_BYTES : HEADER_BYTES + 4] = (10_000).to_bytes(4, "little")
    with pytest.raises(CorruptBatch):
        decode_records(bytes(data))
    with pytest.raises(CorruptBatch, match="follow the last record"):
        decode_records(encode_values(LOG, 0, 1, 0, [b"abc"]).data + b"more")


def test_what_does_not_fit_is_refused_with_a_reason() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        encode_messages(LOG, 0, 1, 0, [])
    with pytest.raises(ValueError, match="at least one record"):
        encode_records(LOG, 1, [])
    with pytest.raises(ValueError, match="does not fit"):
        encode_messages(LOG, 0, 1, 0, [Message(b"s" * 70_000, b"", b"", b"")])
    with pytest.raises(ValueError, match="do not ascend within"):
        encode_records(LOG, 1, [MIXED[0], MIXED[2]])
    with pytest.raises(ValueError, match="does not fit"):
        encode_records(LOG, 1, [MIXED[0]._replace(reply=b"r" * 70_000)])
