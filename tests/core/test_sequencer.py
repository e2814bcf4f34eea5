"""The sequencer: contiguous offsets, bounded batches, the stream's codec (R1, D1)."""

from __future__ import annotations

import sys

import pytest

from liftlog.codec import CODECS
from liftlog.core.replica.publishing.sequencer import sequence
from liftlog.format import decode_records, parse_batch, read_header
from liftlog.options.reading import read
from liftlog.types import Message, PartitionId

LOG = PartitionId(7, 2)
MIB = 1024 * 1024
MESSAGES = [Message(b"orders.eu", b"", b"", b"pay" * 40)] * 10


def test_a_leader_without_the_library_stores_its_batches_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream must not stop because one node lacks a library: every batch says how it is packed."""
    [batch] = sequence(LOG, 0, 1, 0, MESSAGES, None, MIB, "zstd")
    assert read_header(batch.data).codec == "zstd"
    monkeypatch.setitem(sys.modules, "zstandard", None)
    [batch] = sequence(LOG, 0, 1, 0, MESSAGES, None, MIB, "zstd")
    assert read_header(batch.data).codec == "none"


@pytest.mark.parametrize("codec", CODECS)
def test_a_leader_compresses_with_the_streams_codec(codec: str) -> None:
    batches = sequence(LOG, 100, 3, 5, MESSAGES, None, 600, codec)
    assert len(batches) > 1, "the limit holds for the plain bytes"
    assert {read_header(batch.data).codec for batch in batches} == {codec}
    records = [record for batch in batches for record in decode_records(parse_batch(LOG, batch.data))]
    assert [record.offset for record in records] == list(range(100, 110))
    assert [record.value for record in records] == [message.value for message in MESSAGES]


def test_R1_a_message_above_the_limit_is_a_batch_of_its_own() -> None:
    large = Message(b"orders.eu", b"", b"", b"x" * 5000)
    batches = sequence(LOG, 7, 1, 0, [MESSAGES[0], large, MESSAGES[1]], None, 600)
    assert [(batch.base_offset, batch.count) for batch in batches] == [(7, 1), (8, 1), (9, 1)]


def test_L1_keys_and_tombstones_come_through_every_codec() -> None:
    headers = b"NATS/1.0\r\nLiftlog-Key: a\r\n%b\r\n"
    keyed = Message(b"orders.eu", b"", headers % b"", b"pay" * 40)
    deleted = Message(b"orders.eu", b"", headers % b"Liftlog-Tombstone: 1\r\n", b"ignored")
    for codec in CODECS:
        messages = [MESSAGES[0], keyed, deleted]
        [batch] = sequence(LOG, 0, 1, 0, messages, read(messages, "s"), MIB, codec)
        records = decode_records(parse_batch(LOG, batch.data))
        assert [(record.key, record.value) for record in records] == [
            (None, MESSAGES[0].value), (b"a", keyed.value), (b"a", None)
        ]  # fmt: skip
