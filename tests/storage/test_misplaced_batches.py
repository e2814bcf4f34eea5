"""A good batch of this very log in the place of another one: what a misdirected write leaves (D1, D2).

Its checksums hold, so that only the offset that is due at its place tells. Found by the simulator's profile
`disk`, each of these.
"""

from __future__ import annotations

from random import Random

import pytest

from liftlog.storage.indexes import Indexes
from liftlog.storage.log import Log
from liftlog.storage.scrub import scrub
from liftlog.storage.segment import BadBytes
from liftlog.types import LogOptions, OffsetRange
from sim.copies import Place, places
from sim.disk import SimDisk
from tests.storage.upkeep_harness import new_log, put


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
