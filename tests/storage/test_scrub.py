"""The scrub finds bytes that decayed, makes bad indexes anew, and gets round the log in slices (D2, D3)."""

from __future__ import annotations

from random import Random

import pytest

from liftlog.messages import ScrubLog
from liftlog.mutants import NO_MUTANTS
from liftlog.storage.index import read_index
from liftlog.storage.log import Log
from liftlog.storage.scrub import scrub
from liftlog.storage.subjectindexes import SubjectIndexes
from liftlog.storage.upkeep import SegmentUpkeep
from liftlog.types import LogOptions, OffsetRange
from liftlog_sim.devices.disk import SimDisk
from tests.storage.upkeep_harness import LOG, OPTIONS, fill, new_log, put, reopened

BIG = LogOptions(segment_bytes=20_000)
"""Segments with several index entries."""


def make(options: LogOptions = OPTIONS, count: int = 60) -> tuple[SimDisk, Log]:
    disk = SimDisk(Random(1))
    log = new_log(disk, options)
    fill(log, [(b"k%d" % number, b"." * 100) for number in range(count)])
    put(log, [(b"k", b"active")])
    return disk, log


def once_round(disk: SimDisk, log: Log, max_bytes: int) -> tuple[list[OffsetRange], int]:
    """The damage found on the way from the log start back to it, and how many slices that took."""
    found = []
    offset, slices = log.log_start, 0
    while True:
        after, damage = scrub(log, disk, offset, max_bytes)
        slices += 1
        if damage is not None:
            found.append(damage)
        if after == log.log_start:
            return found, slices
        assert after > offset, "the scrub stands still"
        offset = after


@pytest.mark.parametrize("max_bytes", [1, 300, 1 << 20])
def test_a_good_log_is_walked_in_slices_of_the_asked_size(max_bytes: int) -> None:
    disk, log = make()
    found, slices = once_round(disk, log, max_bytes)
    assert found == [] and log.damage == ()
    assert slices >= sum(one.size for one in log.sealed) // (max_bytes + 400)


@pytest.mark.parametrize("options", [OPTIONS, BIG])
@pytest.mark.parametrize("max_bytes", [1, 5000])
def test_every_flipped_byte_of_a_sealed_segment_is_found_d2(options: LogOptions, max_bytes: int) -> None:
    random = Random(3)
    for _ in range(25):
        disk, log = make(options, 150)
        segment = random.choice(log.sealed)
        disk.flip(segment.path, random.randrange(segment.size), random.randrange(8))
        found, _ = once_round(disk, log, max_bytes)
        assert len(found) == 1 and found[0].start in segment
        assert log.damage == tuple(found)
        # It is told once.
        assert once_round(disk, log, max_bytes)[0] == []
        assert reopened_damage(disk, options) == tuple(found)


def reopened_damage(disk: SimDisk, options: LogOptions) -> tuple[OffsetRange, ...]:
    disk.kill()
    return reopened(disk, options).damage


def test_a_file_that_vanished_or_was_cut_is_found() -> None:
    disk, log = make()
    disk.remove(log.sealed[1].path)
    file = disk.open(log.sealed[3].path)
    file.truncate(log.sealed[3].size - 1)
    file.close()
    found, _ = once_round(disk, log, 500)
    gone, cut = log.sealed[1], log.sealed[3]
    assert found[0] == OffsetRange(gone.base_offset, gone.end_offset)
    assert found[1].end == cut.end_offset and cut.base_offset < found[1].start


def test_sectors_that_cannot_be_read_are_found() -> None:
    disk, log = make()
    disk.unreadable(log.sealed[2].path, 10, 5)
    found, _ = once_round(disk, log, 500)
    assert [one.start for one in found] == [log.sealed[2].base_offset]


def test_several_places_in_one_segment_are_found_one_after_the_other() -> None:
    disk, log = make(BIG, 150)
    segment = log.sealed[0]
    for position in (200, 8000, segment.size - 1):
        disk.flip(segment.path, position, 3)
    found, _ = once_round(disk, log, 3000)
    assert len(found) == 3
    assert log.damage == tuple(found)


@pytest.mark.parametrize("harm", ["missing", "flipped", "of another segment"])
def test_a_bad_index_file_is_made_anew_and_nobody_need_hear_of_it_d3(harm: str) -> None:
    disk, log = make(BIG, 150)
    segment, other = log.sealed[0], log.sealed[1]
    good = disk.content(segment.index_path)
    if harm == "missing":
        disk.remove(segment.index_path)
    elif harm == "flipped":
        disk.flip(segment.index_path, len(good) - 3, 3)
    else:
        disk.overwrite(segment.index_path, 0, disk.content(other.index_path))
    assert once_round(disk, log, 1000)[0] == []
    assert read_index(disk, LOG, segment.index_path)[0] == segment.head
    assert disk.content(segment.index_path) == good


def test_index_entries_that_name_no_batch_are_made_anew_d3() -> None:
    disk, log = make(BIG, 150)
    segment = log.sealed[0]
    true = list(segment.index.positions)
    for wrong in range(1, len(true)):
        segment.index.positions[wrong] += 1
        assert once_round(disk, log, 1000)[0] == []
        assert list(segment.index.positions) == true
    segment.index.add(segment.index.offsets[-1], segment.index.positions[-1], 0)
    assert once_round(disk, log, 1 << 20)[0] == []
    assert list(segment.index.positions) == true


def test_what_is_not_synced_and_what_lies_below_the_log_start_are_left_alone() -> None:
    disk, log = make()
    disk.flip(log.sealed[0].path, 90, 3)
    log.move_start(log.sealed[1].base_offset + 2)
    active = log.segment_of(log.leo)
    synced = active.size
    put(log, [(b"k", b"on its way")], sync=False)
    disk.flip(active.path, synced + 90, 3)
    assert once_round(disk, log, 700)[0] == []
    empty = new_log(SimDisk(Random(1)))
    assert scrub(empty, disk, 0, 100) == (0, None)


def test_D2_a_round_ends_with_what_is_synced_of_the_segment_that_grows() -> None:
    """On a log that nobody writes to any more it is never completed, and would never be looked at."""
    disk, log = make()
    log.sync()
    active = log.segment_of(log.leo)
    disk.flip(active.path, active.size - 1, 3)
    lost = OffsetRange(active.base_offset, active.end_offset)
    assert once_round(disk, log, 700)[0] == [lost]
    assert log.damage == (lost,)


def test_what_cannot_be_verified_for_another_reason_is_passed_over_with_an_error() -> None:
    disk, log = make()
    upkeep = SegmentUpkeep(disk, NO_MUTANTS, SubjectIndexes(None))
    segment = log.sealed[0]
    disk.fail_next("open", matching=segment.path)
    event = upkeep.scrub(log, ScrubLog(LOG, 0, 1 << 20))
    assert event.next_offset == segment.end_offset and event.damage is None and "simulated" in event.error
    assert upkeep.scrub(log, ScrubLog(LOG, 0, 1 << 20)).error == ""
