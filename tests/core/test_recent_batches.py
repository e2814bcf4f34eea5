"""Batches that a client keeps decoded."""

from __future__ import annotations

import pytest

from liftlog.client.consuming import deliveries_of
from liftlog.client.recent import RecentBatches
from liftlog.format import CorruptBatch, decode_records, encode_messages
from liftlog.messages import PullReply
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


def test_a_batch_with_a_changed_byte_is_not_taken_for_the_one_that_is_kept() -> None:
    recent = RecentBatches(2)
    good = frame(10)
    recent.records(LOG, good)
    with pytest.raises(CorruptBatch):
        recent.records(LOG, good[:-1] + bytes([good[-1] ^ 1]))
    assert recent.records(LOG, good)[12].value == b"value"


@pytest.mark.parametrize("to_come", [5, -1])
def test_deliveries_are_numbered_and_counted_down_where_records_are_missing(to_come: int) -> None:
    """The second run is delivered again: behind it no fewer are to come for the first time."""
    runs = [(10, 2, 1), (20, 4, 3), (30, 1, 1)]
    frames = [frame(10), frame(20), frame(30)]
    reply = PullReply(LOG, 1, 4, 9, runs, frames, sequence=7, to_come=to_come)
    given = deliveries_of(LOG, reply, RecentBatches(3))
    assert [(one.record.offset, one.delivered, one.sequence) for one in given] == [
        *[(10, 1, 7), (11, 1, 8)],
        *[(20, 3, 9), (21, 3, 10), (22, 3, 11)],
        (30, 1, 13),
    ]
    assert [one.to_come for one in given] == ([7, 6, 6, 6, 6, 5] if to_come >= 0 else [-1] * 6)
    assert {(one.epoch, one.recorded) for one in given} == {(4, 9)}
