"""Batches that a client keeps decoded."""

from __future__ import annotations

import pytest

from liftlog.client.recent import RecentBatches
from liftlog.format import CorruptBatch, decode_records, encode_messages
from liftlog.types import Batch, Message, PartitionId, Record

LOG = PartitionId(7, 0)


def frame(offset: int, text: bytes = b"value") -> bytes:
    return encode_messages(LOG, offset, 1, 0, [Message(b"s", b"", b"", text)] * 3).data


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[Batch | bytes]:
    """What was decoded, in turn."""
    seen: list[Batch | bytes] = []

    def decode(batch: Batch | bytes) -> list[Record]:
        seen.append(batch)
        return decode_records(batch)

    monkeypatch.setattr("liftlog.client.recent.decode_records", decode)
    return seen


def test_a_batch_that_comes_again_is_decoded_once(decoded: list[Batch | bytes]) -> None:
    recent = RecentBatches(2)
    first = recent.records(LOG, frame(10))
    assert list(first) == [10, 11, 12] and first[11].value == b"value"
    assert recent.records(LOG, frame(10)) is first
    assert len(decoded) == 1


def test_other_bytes_at_the_same_offset_are_another_batch(decoded: list[Batch | bytes]) -> None:
    recent = RecentBatches(2)
    assert recent.records(LOG, frame(10))[10].value == b"value"
    assert recent.records(LOG, frame(10, b"other"))[10].value == b"other"
    assert len(decoded) == 2


def test_what_was_used_longest_ago_goes(decoded: list[Batch | bytes]) -> None:
    recent = RecentBatches(2)
    for offset in (10, 20, 10, 30, 10, 20):
        recent.records(LOG, frame(offset))
    assert [batch.base_offset for batch in decoded if isinstance(batch, Batch)] == [10, 20, 30, 20]


def test_damage_is_found_and_a_batch_of_another_partition_is_not_taken() -> None:
    recent = RecentBatches(2)
    recent.records(LOG, frame(10))
    for log, data in ((LOG, frame(10)[:-1] + b"x"), (PartitionId(8, 0), frame(10))):
        with pytest.raises(CorruptBatch):
            recent.records(log, data)
