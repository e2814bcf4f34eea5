"""The sparse index and what is looked up through it, against brute force."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog.format import compress, decode_records, encode_records, encode_sparse
from liftlog.messages import AppendLog, LookupTime, MoveLogStart, ReadLog, TimeFound, TruncateLog
from liftlog.mutants import NO_MUTANTS
from liftlog.storage import index as index_module
from liftlog.storage.creation import create_log
from liftlog.storage.index import (
    NO_TIME,
    CorruptIndex,
    IndexHead,
    SegmentIndex,
    encode_index,
    read_head,
    read_index,
    write_index,
)
from liftlog.storage.indexes import Indexes
from liftlog.storage.layout import index_path
from liftlog.storage.log import Log
from liftlog.storage.recovery import recover_log
from liftlog.types import Batch, EpochStart, LogOptions, OffsetRange, Record, Ticket
from liftlog_sim.devices.disk import SimDisk
from tests.storage.storage_harness import (
    LOG,
    OTHER,
    new_disk,
    opened,
    restart,
    run,
    segments,
    start,
    store,
    values,
)

COUNT_POSITION = 40
"""Of a batch's number of offsets, in its frame."""
PATH = f"streams/7/0/{0:020d}.index"


@pytest.fixture(autouse=True)
def _small_spacing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry about every 300 bytes, so that a few batches lie between two entries."""
    monkeypatch.setattr(index_module, "SPACING_BYTES", 300)


# ----- the entries -----


@given(
    batches=st.lists(st.tuples(st.integers(1, 5), st.integers(64, 500), st.integers(-50, 50)), max_size=40),
    wanted=st.integers(-60, 60),
)
def test_an_entry_is_found_at_or_before_what_is_wanted_and_none_behind_it_would_do(
    batches: list[tuple[int, int, int]], wanted: int
) -> None:
    index = SegmentIndex()
    offset = position = 0
    greatest = NO_TIME
    at: list[tuple[int, int, int]] = []
    for count, size, last_ms in batches:
        if index.wants(position):
            index.add(offset, position, greatest)
        at.append((offset, position, greatest))
        offset, position, greatest = offset + count, position + size, max(greatest, last_ms)
    for sought in range(offset):
        number = index.find(sought)
        assert index.offsets[number] <= sought
        assert number + 1 == len(index) or index.offsets[number + 1] > sought
    number = index.find_time(wanted)
    if batches:
        assert index.times_ms[number] < wanted, "everything that is early enough lies behind it"
        assert number + 1 == len(index) or index.times_ms[number + 1] >= wanted
    else:
        assert number == -1 and index.find(3) == -1


def sample() -> tuple[IndexHead, SegmentIndex]:
    index = SegmentIndex()
    for number in range(5):
        index.add(10 + 3 * number, 400 * number, NO_TIME if number == 0 else 1000 - number)
    return IndexHead(10, 30, 2100, 900, 1000, 17, (EpochStart(1, 10), EpochStart(4, 20))), index


def test_an_index_file_comes_back_as_it_was_written() -> None:
    disk = new_disk()
    disk.make_directory("streams/7/0")
    head, index = sample()
    write_index(disk, LOG, PATH, head, index)
    assert read_head(disk, LOG, PATH) == head
    again_head, again = read_index(disk, LOG, PATH)
    assert again_head == head
    assert (again.offsets, again.positions, again.times_ms) == (
        index.offsets,
        index.positions,
        index.times_ms,
    )
    with pytest.raises(CorruptIndex, match="checksum"):
        read_head(disk, OTHER, PATH)


def test_D3_no_flipped_bit_and_no_missing_byte_of_an_index_file_is_believed() -> None:
    disk = new_disk()
    disk.make_directory("streams/7/0")
    head, index = sample()
    content = encode_index(LOG, head, index)
    write_index(disk, LOG, PATH, head, index)
    for byte in range(len(content)):
        disk.flip(PATH, byte, byte % 8)
        with pytest.raises(CorruptIndex):
            read_index(disk, LOG, PATH)
        disk.flip(PATH, byte, byte % 8)
    read_index(disk, LOG, PATH)
    for length in reversed(range(len(content))):
        disk.open(PATH).truncate(length)
        with pytest.raises(CorruptIndex):
            read_index(disk, LOG, PATH)


# ----- reading through it -----


class Written:
    """A log and the records in it, by offset: the brute-force side."""

    def __init__(self, disk: SimDisk, options: LogOptions) -> None:
        self.disk = disk
        self.log: Log = create_log(disk, LOG, options)
        self.records: dict[int, Record] = {}

    def append(self, times_ms: list[int], left: list[bool]) -> None:
        """One batch; `left` tells which of its records are there."""
        base, epoch = self.log.leo, 1 + self.log.leo // 7
        records = [
            Record(base + i, time_ms, b"s", b"", b"", None, b"%d" % (base + i) + b"." * 40)
            for i, time_ms in enumerate(times_ms)
        ]
        there = [record for record, stays in zip(records, left, strict=False) if stays]
        self.log.append([encode_sparse(LOG, epoch, base, base + len(records), there)])
        self.records |= {record.offset: record for record in there}

    def reopen(self, clean: bool) -> None:
        self.log.sync()
        self.log.close()
        indexes = Indexes(self.disk, capacity_entries=5)
        self.log = recover_log(self.disk, LOG, self.log.options, None, NO_MUTANTS, None, indexes)

    def check(self) -> None:
        log = self.log
        there = {offset: one for offset, one in self.records.items() if log.log_start <= offset < log.leo}
        for offset in range(log.log_start, log.leo):
            (first, *_) = log.read(offset, log.leo, 1)
            assert first.base_offset <= offset < first.end_offset
        read: dict[int, Record] = {}
        offset = log.log_start
        while offset < log.leo:
            for one in log.read(offset, log.leo, 700):
                assert one.end_offset > offset
                read |= {record.offset: record for record in decode_records(one)}
                offset = one.end_offset
        assert {at: one for at, one in read.items() if at >= log.log_start} == there
        for wanted in range(-1, 62, 3):
            late = [at for at, one in there.items() if one.timestamp_ms >= wanted]
            assert log.find_time(wanted) == min(late, default=log.leo), wanted
        for segment in (*log.sealed, log.segment_of(log.leo)):
            inside = [one for at, one in self.records.items() if at in segment]
            assert segment.records == len(inside)
            assert segment.greatest_ms == max((one.timestamp_ms for one in inside), default=NO_TIME)


BATCH = st.tuples(st.lists(st.integers(0, 60), min_size=1, max_size=4), st.lists(st.booleans(), min_size=4))
STEP = st.one_of(
    st.tuples(st.just("append"), BATCH),
    st.tuples(st.just("append"), BATCH),
    st.tuples(st.just("truncate"), st.floats(0.5, 1)),
    st.tuples(st.just("start"), st.floats(0, 0.6)),
    st.tuples(st.just("reopen"), st.booleans()),
    st.tuples(st.just("lose index"), st.integers(0, 9)),
    st.tuples(st.just("forget"), st.none()),
)


@settings(max_examples=80, deadline=None)
@given(
    steps=st.lists(STEP, min_size=8, max_size=30),
    options=st.sampled_from(
        [
            LogOptions(segment_bytes=700),
            LogOptions(segment_bytes=1500),
            LogOptions(segment_bytes=0, segment_records=9),
            LogOptions(segment_bytes=0, segment_ms=25),
        ]
    ),
)
def test_C5_offsets_and_times_are_found_as_brute_force_finds_them(
    steps: list[tuple[str, object]], options: LogOptions
) -> None:
    """Over sparse batches and clocks that step back, after truncation, purge, restarts and lost indexes."""
    disk = new_disk()
    written = Written(disk, options)
    for kind, argument in steps:
        log = written.log
        span = log.leo - log.log_start
        if kind == "append":
            written.append(*argument)  # type: ignore[misc]
        elif kind == "truncate":
            log.truncate(log.log_start + int(span * argument))  # type: ignore[operator]
            written.records = {at: one for at, one in written.records.items() if at < log.leo}
        elif kind == "start":
            log.move_start(log.log_start + int(span * argument))  # type: ignore[operator]
        elif kind == "reopen":
            written.reopen(bool(argument))
        elif kind == "forget":
            for segment in log.sealed:
                log._indexes.forget(segment)
        elif log.sealed:
            segment = log.sealed[int(argument) % len(log.sealed)]  # type: ignore[call-overload]
            if disk.exists(segment.index_path):
                disk.remove(segment.index_path)
            log._indexes.forget(segment)
    written.check()
    written.reopen(False)
    written.check()


def test_a_time_is_looked_up_past_records_that_compaction_or_a_purge_has_taken() -> None:
    disk = new_disk()
    written = Written(disk, LogOptions(segment_bytes=0, segment_records=3))
    for times_ms, left in (
        ([10, 20, 30], [True, True, False]),
        ([40, 50, 60], [False, False, False]),
        ([5, 6, 7], [True, True, True]),
        ([55, 1, 45], [True, True, True]),
    ):
        written.append(times_ms, left)
    assert [written.log.find_time(t) for t in (15, 21, 35, 46, 56)] == [1, 9, 9, 9, 12]
    written.log.move_start(10)
    assert [written.log.find_time(t) for t in (1, 15, 46)] == [10, 11, 12]


# ----- the cache -----


def test_indexes_are_loaded_when_somebody_reads_and_forgotten_when_there_are_too_many() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 80)
    engine, _ = restart(disk)
    indexes = engine._indexes
    assert not indexes._loaded, "nothing is read before somebody asks"
    indexes._capacity = 6
    expected = values(engine)
    assert len(expected) == 80 and 0 < indexes._entries <= 6 + 4
    assert indexes._entries == sum(len(found) for _, found in indexes._loaded.values())
    assert values(engine) == expected


def test_D3_an_index_that_is_wrong_is_found_out_by_the_read_and_made_anew() -> None:
    """Its checksums hold and it has the right head; only its entries lie."""
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 40)
    expected = values(engine)
    path = segments(disk)[1]
    head, right = read_index(disk, LOG, index_path(path))
    wrong = SegmentIndex()
    for number in range(len(right)):
        wrong.add(right.offsets[number], right.positions[number] + 9 * bool(number), right.times_ms[number])
    write_index(disk, LOG, index_path(path), head, wrong)
    engine, recovered = restart(disk)
    assert values(engine) == expected and recovered.logs[0].damage == ()
    (event,) = run(engine, ReadLog(LOG, 1, 7, 40, 1))
    assert [one.base_offset for one in event.batches] == [7]  # type: ignore[attr-defined]


# ----- segments end -----


def times(log: Log) -> list[tuple[int, int]]:
    return [(segment.base_offset, segment.end_offset) for segment in (*log.sealed, log.segment_of(log.leo))]


def one(log: Log, time_ms: int, count: int = 1) -> Batch:
    records = [Record(log.leo + i, time_ms, b"s", b"", b"", None, b"v") for i in range(count)]
    return encode_records(LOG, 1, records)


def test_a_segment_ends_before_the_records_in_it_lie_too_far_apart_in_time() -> None:
    log = create_log(new_disk(), LOG, LogOptions(segment_bytes=0, segment_ms=100))
    for time_ms in (1000, 1050, 1100, 1101, 900, 1202, 1203):
        log.append([one(log, time_ms)])
    assert times(log) == [(0, 3), (3, 5), (5, 7)]
    assert [segment.first_ms for segment in log.sealed] == [1000, 1101]


def test_a_segment_ends_before_it_has_more_records_than_it_may() -> None:
    log = create_log(new_disk(), LOG, LogOptions(segment_bytes=0, segment_records=5))
    for count in (2, 2, 1, 4, 2, 9, 1):
        log.append([one(log, 0, count)])
    assert times(log) == [(0, 5), (5, 9), (9, 11), (11, 20), (20, 21)]


def test_a_stale_index_is_never_taken_for_the_segment_that_took_its_place() -> None:
    """Cut, written again to the same length, and the new index could not be written."""
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 8)
    first = segments(disk)[0]
    size = len(disk.content(first))
    run(engine, TruncateLog(LOG, 2, Ticket(1)))
    assert index_path(first) not in disk.files()
    records = [Record(2 + i, 7, b"", b"", b"", None, b"#" * 61) for i in range(2)]
    for record in records:
        run(engine, AppendLog(LOG, [encode_records(LOG, 9, [record])], Ticket(1)))
    assert len(disk.content(first)) == size
    disk.fail_next("append", 28, ".index.tmp")
    store(engine, 1, base=4, epoch=9)
    assert len(segments(disk)) == 2 and index_path(first) not in disk.files()
    _, recovered = restart(disk)
    assert recovered.logs[0].epochs == (EpochStart(1, 0), EpochStart(9, 2))


def test_lookups_never_answer_below_the_log_start_or_above_the_end() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 20)
    run(engine, MoveLogStart(LOG, 6))
    found = [run(engine, LookupTime(LOG, 1, wanted)) for wanted in (0, 1003, 1006, 1010, 1019, 1020)]
    assert found == [[TimeFound(LOG, 1, offset)] for offset in (6, 6, 6, 10, 19, 20)]
    disk.power_loss(Random(1))
    engine, _ = start(disk)
    assert run(engine, LookupTime(LOG, 1, 0)) == [TimeFound(LOG, 1, 6)]


# ----- times and damage -----

TIMES = (10, 11, 40, 13, 14, 50, 16, 17, 18, 19, 60, 21)


def three_segments(disk: SimDisk) -> list[Batch]:
    """Batches of one record, four to a segment; the clock steps back twice."""
    engine, _ = start(disk)
    opened(engine)
    values = [Record(i, time_ms, b"", b"", b"", None, b"." * 60) for i, time_ms in enumerate(TIMES)]
    batches = [encode_records(LOG, 1, [record]) for record in values]
    for one_batch in batches:
        run(engine, AppendLog(LOG, [one_batch], Ticket(1)))
    assert len(segments(disk)) == 3
    return batches


@pytest.mark.parametrize("state", ["unknown", "known", "restarted", "scanned", "cut short"])
@pytest.mark.parametrize("lost", range(8))
def test_D2_a_lookup_by_time_never_skips_a_record_that_may_lie_in_damage(lost: int, state: str) -> None:
    """Disk profile, seed 21: the index was made anew around damage, and the lookup went on behind it."""
    disk = new_disk()
    batches = three_segments(disk)
    engine, _ = restart(disk)
    opened(engine)
    path = segments(disk)[lost // 4]
    position = sum(len(before.data) for before in batches[lost - lost % 4 : lost])
    end = lost + 1
    if state == "cut short":
        disk.open(path).truncate(position)
        end = lost - lost % 4 + 4
    else:
        disk.flip(path, position + 70, 1)
    if state in ("known", "restarted"):
        run(engine, ReadLog(LOG, 1, lost, 12, 1))
    if state == "scanned":
        disk.remove(index_path(path))
    if state not in ("unknown", "known"):
        engine, recovered = restart(disk)
        assert recovered.logs[0].damage == (OffsetRange(lost, end),)
    answered = 0
    for wanted in (*TIMES, 5, 45, 70):
        right = next((at for at, time_ms in enumerate(TIMES) if time_ms >= wanted), 12)
        (event,) = run(engine, LookupTime(LOG, 1, wanted))
        assert isinstance(event, TimeFound)
        if event.error:
            assert right >= lost and event.damage == OffsetRange(lost, end), wanted
        else:
            assert event.offset == right and not lost <= right < end, wanted
            answered += 1
    assert answered or not lost


def test_D2_damage_below_the_log_start_hinders_no_lookup() -> None:
    disk = new_disk()
    batches = three_segments(disk)
    engine, _ = restart(disk)
    opened(engine)
    disk.flip(segments(disk)[1], len(batches[4].data) + 70, 1)
    run(engine, MoveLogStart(LOG, 6))
    found = [run(engine, LookupTime(LOG, 1, wanted)) for wanted in (1, 17, 30, 61)]
    assert found == [[TimeFound(LOG, 1, offset)] for offset in (6, 7, 10, 12)]


def test_C3_a_segment_cut_behind_damage_has_no_unknown_time_for_its_greatest() -> None:
    """Retention would keep it for ever. Known is a bound: the greatest time before the cut."""
    disk = new_disk()
    written = Written(disk, LogOptions(segment_bytes=0, segment_records=8))
    for time_ms in range(12):
        written.append([time_ms], [True])
    disk.flip(segments(disk)[0], 70, 1)
    disk.remove(index_path(segments(disk)[0]))
    written.reopen(False)
    written.log.truncate(6)
    (segment,) = written.log.sealed
    assert segment.end_offset == 6 and 5 <= segment.greatest_ms <= 7


@pytest.mark.parametrize("bad", range(3, 6))
def test_a_damaged_head_says_nothing_of_how_many_records_a_cut_leaves(bad: int) -> None:
    """Its count was believed: the segment had fewer records than none. Simulator seed 1231."""
    disk = new_disk()
    log = create_log(disk, LOG, LogOptions(segment_bytes=0, segment_records=8))
    batches = []
    for offset in range(6):
        batch = encode_records(LOG, 1, [_record(offset)])
        batches.append(compress(LOG, batch, "zstd"))
    log.append(batches)
    log.sync()
    start = sum(len(batch.data) for batch in batches[:bad])
    disk.flip(segments(disk)[0], start + COUNT_POSITION + 2, 3)
    log.truncate(3)
    assert (log.segment_of(3).records, log.segment_of(3).greatest_ms) == (3, 2)
    log.append([encode_records(LOG, 1, [_record(offset) for offset in range(3, 9)])])
    assert [segment.records for segment in log.sealed] == [3]


def _record(offset: int) -> Record:
    return Record(offset, offset, b"s", b"", b"", None, b"." * 400)
