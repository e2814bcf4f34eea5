"""Spans name the very bytes that a read would return, at known boundaries, and keep clear of damage."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liftlog.api.spans import frames
from liftlog.format import encode_values, parse_batch
from liftlog.messages import AppendLog, Durable, LogRead, OpenLog, ReadLog
from liftlog.messages.filespan import FileSpan
from liftlog.ports import DiskError
from liftlog.storage.creation import create_log
from liftlog.storage.engine import StorageEngine
from liftlog.storage.log import Log
from liftlog.storage.sealing import Sealer
from liftlog.storage.spans import find_spans
from liftlog.types import Batch, LogOptions, OffsetRange, PartitionId, Ticket
from liftlog_sim.devices.disk import SimDisk, SimFile

LOG = PartitionId(3, 1)


def a_log(sizes: list[int], segment_bytes: int = 40_000) -> tuple[SimDisk, Log]:
    """A log with a batch of two records for each size, the greater of whose values has that many bytes."""
    disk = SimDisk(Random(1))
    log = create_log(disk, LOG, LogOptions(segment_bytes=segment_bytes))
    for number, size in enumerate(sizes):
        log.append([encode_values(LOG, 2 * number, 1, 1000 + number, [b"x" * size, b"y"])])
        log.sync()
    return disk, log


def batches_of(span: FileSpan) -> list[Batch]:
    data = span.file.read_at(span.position, span.length)
    assert len(data) == span.length
    return [parse_batch(LOG, frame) for frame in frames(data)]


@given(
    st.lists(st.sampled_from([0, 10, 700, 5000, 30_000]), min_size=1, max_size=40),
    st.integers(0, 90),
    st.integers(0, 90),
    st.sampled_from([1, 3000, 20_000, 100_000, 1 << 20]),
)
def test_spans_hold_whole_batches_in_a_row_from_before_the_offset_to_below_the_limit(
    sizes: list[int], offset: int, limit: int, max_bytes: int
) -> None:
    disk, log = a_log(sizes)
    offset = min(offset, log.leo)
    spans = find_spans(disk, log, offset, limit, max_bytes)
    if not spans:
        return
    batches = [batch for span in spans for batch in batches_of(span)]
    assert batches[0].base_offset <= offset < spans[0].end_offset
    assert spans[-1].end_offset <= min(limit, log.leo)
    end = batches[0].base_offset
    for batch in batches:
        assert batch.base_offset == end
        end = batch.end_offset
    assert (spans[0].base_offset, spans[-1].end_offset) == (batches[0].base_offset, end)
    greatest = max(len(batch.data) for batch in batches)
    total = sum(span.length for span in spans)
    assert total <= max_bytes or total <= 4096 + greatest
    from_reads: list[Batch] = []
    position = batches[0].base_offset
    while position < end:
        from_reads += log.read(position, end, 1 << 20)
        position = from_reads[-1].end_offset
    assert [batch.data for batch in batches] == [batch.data for batch in from_reads]


def test_most_of_a_log_can_be_read_by_spans_alone_and_the_rest_is_small() -> None:
    disk, log = a_log([1000] * 300)
    limit = log.leo - 5
    offset, reads = 0, 0
    while spans := find_spans(disk, log, offset, limit, 30_000):
        offset = spans[-1].end_offset
        reads += 1
    assert limit - 2 * 5 < offset <= limit
    assert reads < 25


def test_spans_end_before_damage_and_begin_behind_it() -> None:
    disk, log = a_log([3000] * 40)
    lost = OffsetRange(30, 34)
    whole = find_spans(disk, log, 0, log.leo, 1 << 20)
    assert whole[-1].end_offset == log.leo
    log.note_damage(lost)
    before = find_spans(disk, log, 0, log.leo, 1 << 20)
    assert lost.start - 4 <= before[-1].end_offset <= lost.start
    for offset in range(lost.start, lost.end):
        assert find_spans(disk, log, offset, log.leo, 1 << 20) == []
    behind = find_spans(disk, log, lost.end + 4, log.leo, 1 << 20)
    assert behind[0].base_offset >= lost.end and behind[-1].end_offset == log.leo


def test_there_are_no_spans_below_the_log_start_nor_at_the_end() -> None:
    disk, log = a_log([1000] * 100)
    log.move_start(81)
    assert find_spans(disk, log, 80, log.leo, 1 << 20) == []
    assert find_spans(disk, log, log.leo, log.leo + 10, 1 << 20) == []
    assert find_spans(disk, log, 81, 81, 1 << 20) == []


def test_a_removed_segment_stays_readable_through_its_span() -> None:
    disk, log = a_log([1000] * 100)
    (span, *_) = find_spans(disk, log, 0, log.leo, 1 << 20)
    expected = [batch.data for batch in batches_of(span)]
    first = log.sealed[0].path
    log.move_start(log.sealed[-1].end_offset)
    assert not disk.exists(first)
    assert [batch.data for batch in batches_of(span)] == expected


def test_spans_end_before_a_file_that_cannot_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, log = a_log([1000] * 100)
    assert all(segment.index for segment in log.sealed)
    real_open = disk.open

    def failing_open(path: str, *, create: bool = False) -> SimFile:
        if path == log.sealed[1].path:
            raise DiskError(24, "too many open files")
        return real_open(path, create=create)

    monkeypatch.setattr(disk, "open", failing_open)
    (span,) = find_spans(disk, log, 0, log.leo, 1 << 20)
    assert span.end_offset == log.sealed[1].base_offset
    assert find_spans(disk, log, span.end_offset, log.leo, 1 << 20) == []


def test_the_engine_answers_with_spans_if_asked_to_and_reads_what_has_none() -> None:
    disk = SimDisk(Random(1))
    engine = StorageEngine(disk)
    engine.recover(1, "d", 1)
    engine.write([OpenLog(LOG)])
    batches = [encode_values(LOG, offset, 1, 0, [b"x" * 1000]) for offset in range(100)]
    engine.write([AppendLog(LOG, batches, Ticket(1))])
    assert engine.sync() == [Durable(Ticket(1))]

    def read(offset: int, spans: bool) -> LogRead:
        (event,) = engine.write([ReadLog(LOG, 7, offset, 99, 1 << 20, spans)])
        assert isinstance(event, LogRead) and event.request == 7 and not event.error
        return event

    cold = read(10, True)
    assert cold.batches == [] and cold.spans[0].base_offset <= 10
    at_the_hw = read(cold.spans[-1].end_offset, True)
    assert at_the_hw.spans == [] and at_the_hw.batches[-1].end_offset == 99
    verified = read(10, False)
    assert verified.spans == [] and verified.batches[0].base_offset == 10


def test_an_encrypted_log_is_never_answered_with_spans() -> None:
    disk = SimDisk(Random(1))
    engine = StorageEngine(disk, sealer=Sealer(bytes(32), lambda: Random(2).randbytes(12)))
    engine.recover(1, "d", 1)
    engine.write([OpenLog(LOG)])
    batches = [encode_values(LOG, offset, 1, 0, [b"x" * 1000]) for offset in range(100)]
    engine.write([AppendLog(LOG, batches, Ticket(1))])
    engine.sync()
    (event,) = engine.write([ReadLog(LOG, 7, 0, 100, 1 << 20, True)])
    assert isinstance(event, LogRead) and event.spans == [] and len(event.batches) == 100
