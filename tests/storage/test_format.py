"""The bytes of a batch: fixed for ever, and no flipped bit goes unseen (D1)."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog.format import (
    HEADER_BYTES,
    PREFIX_BYTES,
    CorruptBatch,
    decode_records,
    decode_values,
    encode_messages,
    encode_records,
    encode_values,
    parse_batch,
    read_header,
    stamp,
)
from liftlog.types import RAFT_LOG, Batch, Message, PartitionId, Record

GOLDEN = Path(__file__).parent.parent / "golden" / "batch.hex"
LOG = PartitionId(7, 2)


def golden_batch() -> Batch:
    records = [
        Record(41, 1_700_000_000_000, b"orders.eu", b"_INBOX.1", b"", None, b"first"),
        Record(42, 1_700_000_000_250, b"orders.eu", b"", b"NATS/1.0\r\nA: b\r\n\r\n", b"key", b""),
        Record(43, 1_699_999_999_999, b"", b"", b"", b"", None),
    ]
    batch = encode_records(LOG, 5, records)
    return parse_batch(LOG, stamp(batch.data, 40) + batch.data[PREFIX_BYTES:])


def test_the_bytes_of_a_batch_are_those_of_the_golden_file() -> None:
    """Logs on disk and nodes of other versions speak this format: a change needs a new version number."""
    assert golden_batch().data == bytes.fromhex(GOLDEN.read_text())


def test_the_golden_file_still_decodes() -> None:
    batch = parse_batch(LOG, bytes.fromhex(GOLDEN.read_text()))
    header = read_header(batch.data)
    assert (header.synced_below, header.base_offset, header.record_count, header.epoch) == (40, 41, 3, 5)
    assert (header.first_timestamp_ms, header.last_timestamp_ms) == (1_700_000_000_000, 1_700_000_000_250)
    records = decode_records(batch)
    assert [record.key for record in records] == [None, b"key", b""]
    assert [record.value for record in records] == [b"first", b"", None]
    assert [record.offset for record in records] == [41, 42, 43]


def test_every_flipped_bit_is_detected_in_prefix_header_and_records() -> None:
    data = golden_batch().data
    for byte in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[byte] ^= 1 << bit
            with pytest.raises(CorruptBatch):
                parse_batch(LOG, bytes(flipped))


def test_every_shorter_and_longer_frame_is_detected() -> None:
    data = golden_batch().data
    for length in range(len(data)):
        with pytest.raises(CorruptBatch):
            parse_batch(LOG, data[:length])
    with pytest.raises(CorruptBatch, match="are there"):
        parse_batch(LOG, data + b"\0")


@pytest.mark.parametrize("other", [PartitionId(7, 3), PartitionId(8, 2), RAFT_LOG])
def test_a_batch_of_another_log_is_detected(other: PartitionId) -> None:
    with pytest.raises(CorruptBatch, match="checksum"):
        parse_batch(other, golden_batch().data)


@pytest.mark.parametrize(
    ("position", "text"),
    [(0, "prefix"), (8, "prefix"), (13, "too small|are there"), (20, "magic"), (22, "version"),
     (23, "attributes"), (60, "reserved"), (70, "checksum")],
)  # fmt: skip
def test_the_error_names_what_is_wrong(position: int, text: str) -> None:
    flipped = bytearray(golden_batch().data)
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
    start_ms = 1_700_000_000_000 - drawn[0][0]
    records = [Record(base + i, start_ms + line[0], *line[1:]) for i, line in enumerate(drawn)]
    near = all(abs(record.timestamp_ms - records[0].timestamp_ms) < 2**31 for record in records)
    if near:
        assert decode_records(encode_records(LOG, 3, records)) == records
    else:
        with pytest.raises(ValueError, match="fit"):
            encode_records(LOG, 3, records)


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
    with pytest.raises(ValueError, match="does not follow"):
        records = [Record(0, 0, b"", b"", b"", None, b""), Record(2, 0, b"", b"", b"", None, b"")]
        encode_records(LOG, 1, records)
