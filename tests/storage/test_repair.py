"""Damaged ranges are made whole with batches from a peer, through any crash (D2, D4)."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import count
from random import Random

import msgspec
import pytest

from liftlog.batchparts import slice_batch
from liftlog.format import decode_records, encode_records, encode_sparse
from liftlog.messages import CompactLog, LogRepaired, RepairLog
from liftlog.mutants import NO_MUTANTS
from liftlog.storage.compaction import Compactor
from liftlog.storage.layout import log_directory
from liftlog.storage.log import Log
from liftlog.storage.repair import Repairer, RepairRefused
from liftlog.storage.segment import BadBytes, Segment
from liftlog.storage.statefile import write_state
from liftlog.storage.subjectindexes import SubjectIndexes
from liftlog.storage.upkeep import SegmentUpkeep
from liftlog.types import Batch, EpochStart, OffsetRange, PartitionId, Record
from liftlog_sim.devices.disk import SimDisk, SimulatedCrash
from tests.storage.crash_report import TRIED
from tests.storage.upkeep_harness import EAGER, LATER_MS, LOG, compact, contents, fill, new_log, put, reopened

Content = dict[int, tuple[int, Record]]
Harm = Callable[[SimDisk, Log], None]
BATCHES = 40


def upkeep_of(disk: SimDisk) -> SegmentUpkeep:
    return SegmentUpkeep(disk, NO_MUTANTS, SubjectIndexes(None))



def make(*, epochs: bool = False, shift: int = 0) -> tuple[SimDisk, Log, list[Batch]]:
    """A log of two-record batches, four to a segment, and what a peer has.

    With `epochs` each begins with a segment, or `shift` batches before the end of one.
    """
    disk = SimDisk(Random(1))
    log = new_log(disk)
    for number in range(BATCHES):
        epoch = 1 + (number + shift) // 4 if epochs else 1
        put(log, [(b"k%d" % number, b"." * 30), (b"n%d" % number, None)], epoch=epoch)
    log.roll()
    put(log, [(b"k", b"active")], epoch=20)
    return disk, log, log.read(0, log.leo, 1 << 20)


def found_damage(log: Log) -> list[OffsetRange]:
    """Read everything; note what is damaged."""
    offset = 0
    while offset < log.leo:
        try:
            offset = log.read(offset, log.leo, 1 << 20)[-1].end_offset
        except BadBytes as error:
            assert error.range is not None
            log.note_damage(error.range)
            offset = error.range.end
    return list(log.damage)


def parts(batches: list[Batch], wanted: OffsetRange) -> list[Batch]:
    return [one for one in batches if one.base_offset < wanted.end and one.end_offset > wanted.start]


def repair_all(disk: SimDisk, log: Log, batches: list[Batch], at_a_time: int = 2) -> None:
    repairer = Repairer(log, disk)
    for damaged in log.damage:
        offset = damaged.start
        while offset < damaged.end:
            coming = parts(batches, OffsetRange(offset, damaged.end))[:at_a_time]
            after = repairer.repair(damaged, coming)
            assert after > offset
            offset = after


def flip_in_the_middle(disk: SimDisk, log: Log) -> None:
    disk.flip(log.sealed[2].path, 250, 3)


def flip_first(disk: SimDisk, log: Log) -> None:
    disk.flip(log.sealed[0].path, 30, 3)


def flip_last(disk: SimDisk, log: Log) -> None:
    disk.flip(log.sealed[3].path, log.sealed[3].size - 1, 3)


def flip_two_places(disk: SimDisk, log: Log) -> None:
    disk.flip(log.sealed[2].path, 100, 3)
    disk.flip(log.sealed[2].path, log.sealed[2].size - 1, 3)


def flip_over_the_edge(disk: SimDisk, log: Log) -> None:
    flip_last(disk, log)
    disk.flip(log.sealed[4].path, 20, 3)


def cut_short(disk: SimDisk, log: Log) -> None:
    file = disk.open(log.sealed[2].path)
    file.truncate(300)
    file.sync()


def remove(disk: SimDisk, log: Log) -> None:
    disk.remove(log.sealed[2].path)
    disk.sync_directory(log.sealed[2].path.rpartition("/")[0])


def unreadable(disk: SimDisk, log: Log) -> None:
    disk.unreadable(log.sealed[2].path, 200, 40)


HARMS: list[Harm] = [
    flip_in_the_middle,
    flip_first,
    flip_last,
    flip_two_places,
    flip_over_the_edge,
    cut_short,
    remove,
    unreadable,
]


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("epochs", [False, True])
def test_a_repaired_log_is_what_it_was_d2(harm: Harm, epochs: bool) -> None:
    disk, log, batches = make(epochs=epochs)
    before, history = contents(log), log.epochs.as_tuple()
    harm(disk, log)
    assert found_damage(log)
    repair_all(disk, log, batches)
    assert log.damage == ()
    assert contents(log) == before and log.epochs.as_tuple() == history
    assert [path for path in disk.files() if path.endswith(".tmp")] == []
    disk.kill()
    again = reopened(disk)
    assert again.damage == () and contents(again) == before and again.epochs.as_tuple() == history


@pytest.mark.parametrize("harm", HARMS)
def test_damage_found_by_a_start_is_repaired_with_its_epochs(harm: Harm) -> None:
    """What began within the damage is not in the history that the start could read."""
    disk, log, batches = make(epochs=True)
    before, history = contents(log), log.epochs.as_tuple()
    for segment in log.sealed:
        disk.remove(segment.index_path)
    harm(disk, log)
    disk.kill()
    log = reopened(disk)
    found_damage(log)
    repair_all(disk, log, batches)
    assert contents(log) == before and log.epochs.as_tuple() == history
    assert log.summary(0).late_epochs == ()


@pytest.mark.parametrize("indexed", [False, True])
def test_R6_a_start_says_which_epochs_may_have_begun_inside_damage(indexed: bool) -> None:
    """Without its index a segment is read past the damage. Who leads on such a copy must know it, else it has
    others cut what they hold of that epoch. It is known until the range is whole, whoever starts again."""
    disk, log, batches = make(epochs=True, shift=2)
    segment, history = log.sealed[2], log.epochs.as_tuple()
    position, first = frames(log, segment)[2]
    assert EpochStart(first.epoch, first.base_offset) in history
    disk.flip(segment.path, position + 70, 3)
    lost = OffsetRange(first.base_offset, first.end_offset)
    if indexed:
        log.note_damage(lost)
    else:
        disk.remove(segment.index_path)
    for _ in range(3):
        disk.kill()
        log = reopened(disk)
        summary = log.summary(0)
        assert summary.damage == (lost,)
        assert summary.late_epochs == (() if indexed else (lost.end,))
        assert (EpochStart(first.epoch, lost.end) in summary.epochs) == (not indexed)
    repair_all(disk, log, batches)
    disk.kill()
    assert reopened(disk).summary(0).late_epochs == ()
    assert reopened(disk).epochs.as_tuple() == history


@pytest.mark.parametrize("whole", [False, True])
def test_R6_what_was_known_of_damage_is_not_lost_with_an_index(whole: bool) -> None:
    """Else a node registers with an older epoch at its end than it had reported (seed 2613 of 341a961)."""
    disk, log, batches = make(epochs=True, shift=2)
    segment = log.sealed[-1]
    log.truncate(segment.end_offset)
    log.roll()
    history, end = log.epochs.as_tuple(), log.leo
    first = next(epoch.start for epoch in history if segment.base_offset < epoch.start < end)
    lost = OffsetRange(segment.base_offset if whole else first, end if whole else first + 2)
    if whole:
        disk.unreadable(segment.path, 0, segment.size)
    else:
        disk.flip(segment.path, frames(log, segment)[2][0] + 70, 3)
    log.note_damage(lost)
    for _ in range(3):
        disk.kill()
        if disk.exists(segment.index_path):
            disk.remove(segment.index_path)
        log = reopened(disk)
        summary = log.summary(0)
        assert (summary.leo, summary.epochs, summary.damage) == (end, history, (lost,))
        assert summary.late_epochs == ()
    disk.readable_again()
    repair_all(disk, log, batches)
    assert reopened(disk).epochs.as_tuple() == history


def test_R6_a_note_of_damage_without_word_of_epochs_counts_as_late() -> None:
    """The file as it was written before it said so."""
    disk = make()[0]
    write_state(disk, f"{log_directory(LOG)}/damage", msgspec.msgpack.encode([(4, 8), (20, 24)]))
    disk.kill()
    summary = reopened(disk).summary(0)
    assert summary.damage == (OffsetRange(4, 8), OffsetRange(20, 24)) and summary.late_epochs == (8, 24)


def test_the_damaged_bytes_are_in_quarantine() -> None:
    disk, log, batches = make()
    segment = log.sealed[2]
    disk.overwrite(segment.path, 250, b"DECAYED")
    found_damage(log)
    repair_all(disk, log, batches)
    (kept,) = [path for path in disk.files() if path.startswith("quarantine/")]
    assert b"DECAYED" in disk.content(kept)
    assert b"DECAYED" not in disk.content(segment.path)


def test_other_damage_in_the_segment_stays_noted_and_refused() -> None:
    disk, log, batches = make()
    flip_two_places(disk, log)
    first, second = found_damage(log)
    repairer = Repairer(log, disk)
    assert repairer.repair(first, parts(batches, first)) == first.end
    assert log.damage == (second,)
    with pytest.raises(BadBytes) as caught:
        log.read(second.start, log.leo, 1)
    assert caught.value.range == second
    disk.kill()
    log = reopened(disk)
    assert log.damage == (second,)
    repair_all(disk, log, batches)
    assert log.damage == () and len(contents(log)) == log.leo


def frames(log: Log, segment: Segment) -> list[tuple[int, Batch]]:
    """Position and content of each batch of a segment."""
    found: list[tuple[int, Batch]] = []
    position = 0
    while position < segment.size:
        (batch,), after = log.read_segment(segment, position, 1)
        found.append((position, batch))
        position = after
    return found


@pytest.mark.parametrize("apart", [True, False], ids=["elsewhere in the segment", "next to it"])
def test_damage_that_a_repair_meets_is_noted_told_and_hides_no_epoch(apart: bool) -> None:
    """Seeds 473, 524 of profile disk: one misdirected write had destroyed two places of a segment. The repair
    of the one left the other as a hole that nobody noted. The copy joined the ISR as whole, and after a
    restart an epoch that began in the hole began behind it."""
    disk, log, batches = make(epochs=True, shift=2)
    before, history = contents(log), log.epochs.as_tuple()
    segment = log.sealed[2]
    lines = frames(log, segment)
    assert [batch.epoch for _, batch in lines] == [3, 3, 4, 4]
    ranges: list[OffsetRange] = []
    for position, batch in (lines[0 if apart else 1], lines[2]):
        disk.flip(segment.path, position + 70, 3)
        ranges.append(OffsetRange(batch.base_offset, batch.end_offset))
    noted, other = ranges
    log.note_damage(noted)
    upkeep = upkeep_of(disk)
    event = upkeep.repair(log, RepairLog(LOG, noted, parts(batches, noted)))
    assert event == LogRepaired(LOG, noted, noted.end, damage=(other,))
    disk.kill()
    again = reopened(disk)
    for one in (log, again):
        assert one.damage == (other,)
        assert one.epochs.as_tuple() == history, "the start of the epoch in the hole is known"
    event = upkeep_of(disk).repair(again, RepairLog(LOG, other, parts(batches, other)))
    assert event == LogRepaired(LOG, other, other.end)
    assert again.damage == () and contents(again) == before and again.epochs.as_tuple() == history


def test_damage_that_a_failed_repair_has_noted_is_told_with_the_error() -> None:
    """Storage notes it once and for all: whoever is not told now would never hear of it."""
    disk, log, batches = make()
    flip_two_places(disk, log)
    first, second = found_damage(log)
    log.clear_damage(second)
    wrong = encode_records(PartitionId(7, 1), 1, [Record(first.start, 5, b"", b"", b"", None, b"")])
    late = slice_batch(LOG, batches[first.start // 2], first.start, first.start + 1)
    event = upkeep_of(disk).repair(log, RepairLog(LOG, first, [late, wrong]))
    assert event.error and event.next_offset == first.start
    assert event.damage == (second,) and log.damage == (first, second)


def test_batches_are_cut_to_the_range_and_may_come_one_by_one() -> None:
    disk, log, _ = make()
    before = contents(log)
    flip_in_the_middle(disk, log)
    (damaged,) = found_damage(log)
    records = [before[offset][1] for offset in range(damaged.start - 3, damaged.end + 3)]
    whole = encode_records(LOG, 1, records)
    repairer = Repairer(log, disk)
    middle = damaged.start + 1
    assert repairer.repair(damaged, [slice_batch(LOG, whole, 0, middle)]) == middle
    assert log.damage == (damaged,)
    assert repairer.repair(damaged, []) == middle
    assert repairer.repair(damaged, [whole]) == damaged.end
    assert log.damage == () and contents(log) == before


def test_a_range_that_is_whole_needs_nothing() -> None:
    disk, log, batches = make()
    assert Repairer(log, disk).repair(OffsetRange(4, 8), []) == 8
    assert Repairer(log, disk).repair(OffsetRange(4, 8), batches[:4]) == 8


def refusals() -> list[tuple[str, Callable[[OffsetRange, list[Batch]], list[Batch]], str]]:
    def record(offset: int) -> Record:
        return Record(offset, 5, b"", b"", b"", None, b"")

    def behind(damaged: OffsetRange, batches: list[Batch]) -> list[Batch]:
        return [encode_records(LOG, 5, [record(damaged.start + 1)])]

    def older(damaged: OffsetRange, batches: list[Batch]) -> list[Batch]:
        return [encode_sparse(LOG, 1, damaged.start, damaged.end, [])]

    def newer(damaged: OffsetRange, batches: list[Batch]) -> list[Batch]:
        return [encode_sparse(LOG, 19, damaged.start, damaged.end, [])]

    def of_another_log(damaged: OffsetRange, batches: list[Batch]) -> list[Batch]:
        return [encode_sparse(PartitionId(7, 1), 5, damaged.start, damaged.end, [])]

    return [
        ("a gap", behind, "wanted is"),
        ("an older epoch", older, "another branch"),
        ("a newer epoch", newer, "another branch"),
        ("another log", of_another_log, "is bad"),
    ]


@pytest.mark.parametrize(("name", "wrong", "text"), refusals())
def test_what_cannot_belong_there_is_refused(
    name: str, wrong: Callable[[OffsetRange, list[Batch]], list[Batch]], text: str
) -> None:
    disk, log, batches = make(epochs=True)
    before = contents(log)
    flip_in_the_middle(disk, log)
    (damaged,) = found_damage(log)
    repairer = Repairer(log, disk)
    with pytest.raises(RepairRefused, match=text):
        repairer.repair(damaged, wrong(damaged, batches))
    assert log.damage == (damaged,)
    assert not [path for path in disk.files() if path.endswith(".tmp")]
    repair_all(disk, log, batches)
    assert contents(log) == before


@pytest.mark.slow
@pytest.mark.parametrize("harm", [flip_in_the_middle, flip_over_the_edge])
def test_a_crash_at_every_disk_call_leaves_the_damage_noted_or_repaired_d4(harm: Harm) -> None:
    disk, log, batches = make(epochs=True)
    before = contents(log)
    harm(disk, log)
    found_damage(log)
    log.close()
    disk.kill()
    base = pickle.dumps(disk)
    for number in count(1):
        disk = pickle.loads(base)
        log = reopened(disk)
        disk.crash_after(number)
        try:
            repair_all(disk, log, batches)
            break
        except SimulatedCrash:
            disk.detach()
        TRIED["repair, crash"] += 1
        dead = pickle.dumps(disk)
        for kind in ("kill", "power", "kill-power"):
            after: SimDisk = pickle.loads(dead)
            if kind != "power":
                after.kill()
            if kind == "kill-power":
                reopened(after)
            if kind != "kill":
                after.power_loss(Random(number))
            again = reopened(after)
            damage = again.damage
            readable = {}
            for offset in before:
                if not any(one.start <= offset < one.end for one in damage):
                    readable[offset] = before[offset]
            for offset, line in readable.items():
                batch = again.read(offset, again.leo, 1)[0]
                assert contents_of(batch)[offset] == line, (number, kind)
            repair_all(after, again, batches)
            assert again.damage == () and contents(again) == before, (number, kind)
    assert number > 40


def contents_of(batch: Batch) -> Content:
    return {record.offset: (batch.epoch, record) for record in decode_records(batch)}


def test_a_repair_lowers_the_clean_point_first_c2() -> None:
    """A peer that compacted less brings back older records: they must not count as clean."""
    disk = SimDisk(Random(1))
    log = new_log(disk)
    fill(log, [(b"k%d" % (number % 8), b"%d" % number + b"." * 30) for number in range(60)])
    peer_batches = log.read(0, log.leo, 1 << 20)
    compact(log, Compactor(log, disk))
    upkeep = upkeep_of(disk)
    assert upkeep.described(log, 0).clean_point == 60
    segment = log.sealed[0]
    disk.flip(segment.path, segment.size - 1, 3)
    (damaged,) = found_damage(log)
    event = upkeep.repair(log, RepairLog(LOG, damaged, parts(peer_batches, damaged)))
    assert event == LogRepaired(LOG, damaged, damaged.end)
    assert upkeep.described(log, 0).clean_point == damaged.start
    while not upkeep.compact(log, CompactLog(LOG, EAGER, log.leo, 0, LATER_MS, 500)).done:
        pass
    assert upkeep.described(log, 0).clean_point == 60
    assert sorted(contents(log)) == list(range(52, 60))


def test_records_from_a_peer_that_compacted_more_raise_dropped_below_c4() -> None:
    disk, log, _ = make()
    flip_in_the_middle(disk, log)
    (damaged,) = found_damage(log)
    upkeep = upkeep_of(disk)
    assert upkeep.described(log, 0).dropped_below == 0
    empty = encode_sparse(LOG, 1, damaged.start, damaged.end, [])
    assert upkeep.repair(log, RepairLog(LOG, damaged, [empty], 7)).error == ""
    assert upkeep.described(log, 0).dropped_below == 7, "as far as the peer has dropped, and no further"
    disk.kill()
    assert upkeep_of(disk).described(reopened(disk), 0).dropped_below == 7


def test_a_refused_repair_is_answered_with_an_error_and_begins_anew() -> None:
    disk, log, batches = make()
    flip_in_the_middle(disk, log)
    (damaged,) = found_damage(log)
    upkeep = upkeep_of(disk)
    job = RepairLog(LOG, damaged, parts(batches, damaged))
    disk.fill()
    event = upkeep.repair(log, job)
    assert event.next_offset == damaged.start and "No space" in event.error
    disk.fill(False)
    assert upkeep.repair(log, job) == LogRepaired(LOG, damaged, damaged.end)
