"""A good batch of this very log in the place of another one: what a misdirected write leaves (D1, D2).

Its checksums hold, so that only the offset that is due at its place tells. Found by the simulator's profile
`disk`, each of these.
"""

from __future__ import annotations

from random import Random

import pytest

from liftlog.storage.indexes import Indexes
from liftlog.storage.log import Log
from liftlog.storage.reading import survey
from liftlog.storage.repair import Repairer
from liftlog.storage.scrub import scrub
from liftlog.storage.segment import BadBytes
from liftlog.types import Batch, LogOptions, OffsetRange
from liftlog_sim.devices.copies import Place, places
from liftlog_sim.devices.disk import SimDisk
from tests.storage.upkeep_harness import new_log, put, reopened


def log_of_three_segments() -> tuple[SimDisk, Log]:
    """Twelve batches of equal length, four to a segment; the third segment is the one that grows."""
    disk = SimDisk(Random(1))
    log = new_log(disk, LogOptions(segment_records=4))
    for number in range(12):
        put(log, [(b"k", b"value %02d" % number)])
    assert [segment.end_offset for segment in log.sealed] == [4, 8]
    return disk, log


def batches_of(disk: SimDisk, log: Log, number: int) -> list[Place]:
    path = log.sealed[number].path
    return list(places(path, disk.content(path)))


def misplace(disk: SimDisk, source: Place, target: Place) -> None:
    data = disk.content(source.path)[source.position : source.end]
    assert len(data) == target.end - target.position
    disk.overwrite(target.path, target.position, data)


@pytest.mark.parametrize("place", range(4))
def test_a_reader_does_not_take_a_later_batch_for_the_one_that_is_due(place: int) -> None:
    disk, log = log_of_three_segments()
    misplace(disk, batches_of(disk, log, 1)[3], batches_of(disk, log, 0)[place])
    with pytest.raises(BadBytes) as caught:
        log.read(place, log.leo, 1)
    assert caught.value.range == OffsetRange(place, place + 1)


@pytest.mark.parametrize("place", range(4))
def test_compaction_and_repair_do_not_copy_another_batch_from_where_they_go_on(place: int) -> None:
    disk, log = log_of_three_segments()
    target = batches_of(disk, log, 0)[place]
    misplace(disk, batches_of(disk, log, 1)[2], target)
    with pytest.raises(BadBytes) as caught:
        log.read_segment(log.sealed[0], target.position, 1)
    assert caught.value.range == OffsetRange(place, place + 1)


def test_scrubbing_looks_at_what_lies_before_the_first_entry_of_an_index_that_was_made_anew() -> None:
    disk, log = log_of_three_segments()
    first = batches_of(disk, log, 0)[0]
    misplace(disk, batches_of(disk, log, 1)[2], first)
    log.sealed[0].renew_index(Indexes(disk).rebuild(log.sealed[0]))
    assert list(log.sealed[0].index.offsets)[:1] == [1]
    assert scrub(log, disk, 0, 1 << 20) == (1, OffsetRange(0, 1))


def test_scrubbing_ends_where_a_damaged_segment_has_nothing_more() -> None:
    """Damage that is known already, up to the end, with bytes behind the last batch."""
    disk, log = log_of_three_segments()
    last = batches_of(disk, log, 0)[3]
    disk.overwrite(last.path, last.position, bytes(last.end - last.position))
    log.note_damage(OffsetRange(3, 4))
    assert scrub(log, disk, 3, 1 << 20) == (0, None)


OPTIONS = LogOptions(segment_records=8)


def log_of_two_long_segments() -> tuple[SimDisk, Log, list[Batch]]:
    """Sixteen batches of equal length, eight to a segment, one more in the third; and what a peer has."""
    disk = SimDisk(Random(1))
    log = new_log(disk, OPTIONS)
    for number in range(17):
        put(log, [(b"k", b"value %02d" % number)])
    assert [segment.end_offset for segment in log.sealed] == [8, 16]
    return disk, log, log.read(0, 8, 1 << 20) + log.read(8, 16, 1 << 20)


def misdirect(disk: SimDisk, log: Log, number: int, source: int, position: int) -> None:
    """A batch was written to a position of a segment instead of to where it belongs."""
    place = next(one for part in (0, 1) for one in batches_of(disk, log, part) if one.base == source)
    data = disk.content(place.path)[place.position : place.end]
    disk.overwrite(place.path, place.position, bytes(len(data)))
    disk.overwrite(log.sealed[number].path, position, data)


def scrub_once(disk: SimDisk, log: Log) -> None:
    offset, _ = scrub(log, disk, log.log_start, 1 << 20)
    while offset != log.log_start:
        offset, _ = scrub(log, disk, offset, 1 << 20)


def repair_everything(disk: SimDisk, log: Log, good: list[Batch]) -> None:
    """As a follower does: what is noted comes from a peer, range by range; then a scrub looks for more."""
    repairer = Repairer(log, disk)
    for _ in range(4):
        scrub_once(disk, log)
        if not log.damage:
            return
        lost = log.damage[0]
        coming = [one for one in good if one.base_offset < lost.end and one.end_offset > lost.start]
        assert repairer.repair(lost, coming) == lost.end
    raise AssertionError(f"still damaged: {log.damage}")


@pytest.mark.parametrize("place", range(8))
@pytest.mark.parametrize("source", range(16))
def test_a_segment_with_a_misdirected_batch_within_another_one_is_made_whole(source: int, place: int) -> None:
    """Simulator seed 858: the repair read on behind the misdirected batch, for ever in vain."""
    disk, log, good = log_of_two_long_segments()
    first, second = batches_of(disk, log, 0), batches_of(disk, log, 1)
    assert len(first) == len(second) == 8
    misdirect(disk, log, 0, source, min(first[place].position + 30, 7 * first[0].end))
    repair_everything(disk, log, good)
    for opened in (log, reopened(disk, OPTIONS)):
        assert not opened.damage
        assert opened.read(0, 8, 1 << 20) + opened.read(8, 16, 1 << 20) == good


def test_damage_ends_before_what_is_good_and_not_before_a_misdirected_batch() -> None:
    disk, log, _ = log_of_two_long_segments()
    misdirect(disk, log, 0, 6, batches_of(disk, log, 0)[1].position + 30)
    scrub_once(disk, log)
    assert log.damage == (OffsetRange(1, 3), OffsetRange(6, 7))


def test_a_batch_misdirected_from_a_later_segment_hides_nothing_of_an_earlier_one() -> None:
    disk, log, _ = log_of_two_long_segments()
    misdirect(disk, log, 0, 12, batches_of(disk, log, 0)[1].position + 30)
    scrub_once(disk, log)
    assert log.damage == (OffsetRange(1, 3), OffsetRange(12, 13))


def test_a_misdirected_row_that_was_cut_off_since_is_not_taken_for_what_was_written_anew() -> None:
    """Two stale batches were no fewer than those that contradict them: a repair brought them back as
    committed. Simulator seed 5413.
    """
    disk = SimDisk(Random(1))
    log = new_log(disk, LogOptions(segment_records=100))
    for number in range(8):
        put(log, [(b"k", b"value %02d" % number)])
    path = log.segment_of(0).path
    stale = [one for one in places(path, disk.content(path)) if one.base in (4, 5)]
    content = disk.content(path)[stale[0].position : stale[-1].end]
    log.truncate(4)
    put(log, [(b"k", b"new %02d" % number) for number in range(4, 7)])
    put(log, [(b"k", b"new 07")])
    log.roll()
    first = next(iter(places(path, disk.content(path))))
    disk.overwrite(path, first.end - 30, content)
    segment = log.sealed[0]
    file = disk.open(segment.path)
    found, damage = survey(file, segment, Indexes(disk))
    file.close()
    assert [lost for lost, _ in damage] == [OffsetRange(0, 3)]
    assert (found.end_offset, found.records) == (8, 5)


def test_a_good_batch_alone_between_two_bad_ones_is_kept() -> None:
    disk, log, _ = log_of_two_long_segments()
    for place in (batches_of(disk, log, 0)[1], batches_of(disk, log, 0)[3]):
        disk.overwrite(place.path, place.position, bytes(place.end - place.position))
    segment = log.sealed[0]
    file = disk.open(segment.path)
    found, damage = survey(file, segment, Indexes(disk))
    file.close()
    assert [lost for lost, _ in damage] == [OffsetRange(1, 2), OffsetRange(3, 4)]
    assert found.end_offset == 8
