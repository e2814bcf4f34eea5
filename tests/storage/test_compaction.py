"""Key compaction of a log: what stays, when tombstones go, slices and failures (C1, C2, C4, D5)."""

from __future__ import annotations

from itertools import count
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog.batchparts import slice_batch
from liftlog.format import SealedBatch, encode_records, encode_sparse
from liftlog.messages import AppendLog, Compacted, CompactLog, Durable, OpenLog, ResetLog, TruncateLog
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.ports import DiskError, SyncFailed
from liftlog.storage.cleanstate import CleanState, Passed, load_clean_state
from liftlog.storage.compaction import Compactor
from liftlog.storage.creation import create_log
from liftlog.storage.engine import StorageEngine
from liftlog.storage.keymap import KeyMap
from liftlog.storage.log import Log
from liftlog.storage.sealing import Sealer
from liftlog.storage.segment import BadBytes
from liftlog.types import OffsetRange, Record, Ticket
from liftlog_sim.devices.disk import SimDisk
from tests.storage.storage_harness import new_disk, opened, restart, run, segments, start
from tests.storage.upkeep_harness import (
    EAGER,
    LATER_MS,
    LOG,
    OPTIONS,
    START_MS,
    Pair,
    check_fold_preserved,
    compact,
    contents,
    fill,
    fold,
    keyed,
    make,
    new_log,
    put,
    reopened,
)

Content = dict[int, tuple[int, Record]]
CLEAN_FILE = f"streams/{LOG[0]}/{LOG[1]}/clean"


# ----- what stays (C1) -----

keys = st.sampled_from([None, b"", b"a", b"b", b"c", b"long key " * 4])
values = st.sampled_from([None, b"", b"1", b"2" * 40])


class History:
    """A log that is written, compacted and read by turns, beside a copy that is never compacted."""

    def __init__(self) -> None:
        self.disk = SimDisk(Random(1))
        self.log = new_log(self.disk)
        self.compactor = Compactor(self.log, self.disk)
        self.written: Content = {}
        self.now_ms = LATER_MS

    def write(self, pairs: list[Pair], epoch: int, codec: str) -> None:
        start = self.log.leo
        put(self.log, pairs, epoch=epoch, codec=codec)
        for batch_offset, line in contents(self.log).items():
            if batch_offset >= start:
                self.written[batch_offset] = line

    def reached(self) -> int:
        """Segments below may have been swapped although the clean point is not there yet."""
        return load_clean_state(self.disk, self.log).rewritten_below

    def check(self) -> None:
        found = contents(self.log)
        start = self.log.log_start
        written = {offset: line for offset, line in self.written.items() if offset >= start}
        clean_point = max(self.compactor.clean_point, start)
        check_fold_preserved(written, found, clean_point, self.log.leo, self.reached())
        for offset, (_, record) in written.items():
            # The first record at or after a time: no deleted one is ever waited for.
            there = [at for at in sorted(found) if found[at][1].timestamp_ms >= record.timestamp_ms]
            assert self.log.find_time(record.timestamp_ms) == (there[0] if there else self.log.leo)
            gone = offset not in found and record.value is None and offset >= self.compactor.dropped_below
            assert not gone or record.key in {one.key for _, one in found.values()}


batches = st.tuples(
    st.lists(st.tuples(keys, values), min_size=1, max_size=6),
    st.sampled_from(["none", "none", "zstd", "lz4"]),
)
acts = st.one_of(
    st.tuples(st.just("write"), batches),
    st.tuples(st.just("roll"), st.none()),
    st.tuples(st.just("epoch"), st.none()),
    st.tuples(
        st.just("compact"),
        st.tuples(
            st.integers(0, 1 << 16), st.sampled_from([1, 300, 100_000]), st.integers(0, 100), st.booleans()
        ),
    ),
    st.tuples(st.just("slices"), st.integers(1, 6)),
    st.tuples(st.just("purge"), st.integers(0, 100)),
    st.tuples(st.just("reopen"), st.none()),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(acts, min_size=3, max_size=25))
def test_readers_of_a_compacted_log_end_where_readers_of_the_whole_log_do_c1_c2(
    script: list[tuple[str, object]],
) -> None:
    history, epoch = History(), 1
    for act, detail in script:
        log = history.log
        if act == "write":
            pairs, codec = detail  # type: ignore[misc]
            history.write(pairs, epoch, codec)
        elif act == "roll":
            log.roll()
        elif act == "epoch":
            epoch += 1
        elif act == "compact":
            map_bytes, max_bytes, percent, everywhere = detail  # type: ignore[misc]
            history.now_ms += 1500
            compact(
                log,
                history.compactor,
                below=log.leo * percent // 100,
                tombstones_below=history.compactor.clean_point if everywhere else 0,
                now_ms=history.now_ms,
                max_bytes=max_bytes,
                policy=msgspec.structs.replace(EAGER, map_bytes=map_bytes),
            )
        elif act == "slices":
            for _ in range(detail):  # type: ignore[call-overload]
                history.compactor.step(EAGER, log.leo, 0, history.now_ms, 200)
        elif act == "purge":
            log.move_start(log.log_start + (log.leo - log.log_start) * detail // 100)  # type: ignore[operator]
        else:
            history.disk.kill()
            history.log = reopened(history.disk)
            history.compactor = Compactor(history.log, history.disk)
        history.check()


def test_the_active_segment_and_what_is_not_committed_stay_as_they_are_c1() -> None:
    _, log, compactor = make([(b"k", b"%d" % number) for number in range(30)])
    put(log, [(b"k", b"active")])
    before = contents(log)
    third_end = log.sealed[2].end_offset
    compact(log, compactor, below=third_end + 1)
    after = contents(log)
    assert compactor.clean_point == third_end
    assert [offset for offset in before if offset not in after] == list(range(compactor.clean_point - 1))


def test_mutant_41_compaction_above_the_hw_is_seen() -> None:
    disk, log, _ = make([(b"k", b"%d" % number) for number in range(30)])
    before = contents(log)
    compact(log, Compactor(log, disk, Mutants(compaction_above_hw=True)), below=10)
    # Were offset 10 and what follows cut off again, key k would be gone although offset 9 was committed.
    after = contents(log)
    assert fold((one for _, one in before.values()), 10) != fold((one for _, one in after.values()), 10)


def test_records_younger_than_the_lag_stay() -> None:
    _, log, compactor = make([(b"k", b"%d" % number) for number in range(30)])
    policy = msgspec.structs.replace(EAGER, min_lag_ms=150)
    old_enough = [one for one in log.sealed if one.greatest_ms <= START_MS + 140]
    assert 0 < len(old_enough) < len(log.sealed)
    compact(log, compactor, policy=policy, now_ms=START_MS + 290)
    assert compactor.clean_point == old_enough[-1].end_offset


def test_a_run_waits_until_enough_is_dirty() -> None:
    _, log, compactor = make([(b"k%d" % number, b".") for number in range(40)])
    half = msgspec.structs.replace(EAGER, dirty_ratio_percent=50)
    compact(log, compactor, policy=half)
    clean_point = compactor.clean_point
    assert clean_point == log.sealed[-1].end_offset
    fill(log, [(b"k1", b"new")])
    assert compactor.step(half, log.leo, 0, LATER_MS, 1 << 20)
    assert compactor.clean_point == clean_point
    fill(log, [(b"k%d" % number, b"new") for number in range(40)])
    assert not compactor.step(half, log.leo, 0, LATER_MS, 300)
    compact(log, compactor, policy=half)
    assert compactor.clean_point == log.sealed[-1].end_offset > clean_point


def test_a_segment_that_loses_nothing_is_not_touched() -> None:
    disk, log, compactor = make([(b"k%d" % number, b"." * 40) for number in range(30)])
    segments = log.sealed
    files = disk.files()
    compact(log, compactor)
    assert log.sealed == segments
    assert compactor.clean_point == segments[-1].end_offset
    assert disk.files() == sorted([*files, CLEAN_FILE])


def test_small_neighbours_become_one_segment_within_the_limit() -> None:
    _, log, compactor = make([(b"k%d" % (number % 20), b"." * 40) for number in range(200)])
    assert len(log.sealed) > 20
    compact(log, compactor)
    assert 2 <= len(log.sealed) <= 6
    assert all(one.size <= OPTIONS.segment_bytes * 5 // 4 for one in log.sealed)
    assert [record.offset for _, record in contents(log).values()] == list(range(180, 200))


def test_a_file_of_empty_spans_is_small_and_keeps_every_offset() -> None:
    _, log, compactor = make([(b"k", b"." * 100) for _ in range(100)])
    leo = log.leo
    compact(log, compactor)
    assert (log.log_start, log.leo) == (0, leo)
    assert log.bytes < 400
    (batch, *_) = log.read(0, leo, 1)
    assert (batch.base_offset, batch.end_offset) == (0, leo)


def test_a_compacted_log_is_compacted_again() -> None:
    _, log, compactor = make(keyed(100, 10))
    before = contents(log)
    for round_number in range(4):
        compact(log, compactor)
        check_fold_preserved(before, contents(log), compactor.clean_point, log.leo)
        leo = log.leo
        fill(log, keyed(40, 10, seed=round_number + 2))
        before |= {offset: line for offset, line in contents(log).items() if offset >= leo}


# ----- a full map -----


def capacity_of(monkeypatch: pytest.MonkeyPatch, entries: int) -> None:
    created = KeyMap.__init__

    def small(self: KeyMap, map_bytes: int) -> None:
        created(self, map_bytes)
        self.capacity = entries

    monkeypatch.setattr(KeyMap, "__init__", small)


def test_a_full_map_ends_the_run_at_the_very_offset_that_did_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    capacity_of(monkeypatch, 3)
    pairs: list[Pair] = [(b"%d" % (number % 5), b"%d" % number) for number in range(20)]
    _, log, compactor = make(pairs)
    before = contents(log)
    points = [0]
    while not compactor.step(EAGER, log.leo, 0, LATER_MS, 1 << 20):
        if compactor.clean_point > points[-1]:
            points.append(compactor.clean_point)
            check_fold_preserved(before, contents(log), compactor.clean_point, log.leo)
    assert points[:4] == [0, 3, 6, 9]
    assert compactor.clean_point == 20
    assert [record.offset for _, record in contents(log).values()] == [15, 16, 17, 18, 19]


def test_a_batch_that_the_clean_point_divides_does_not_fill_the_map_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next run counts from the clean point on: else a small map would never get beyond it."""
    capacity_of(monkeypatch, 1)
    disk = SimDisk(Random(1))
    log = new_log(disk)
    put(log, [(b"%d" % number, b".") for number in range(6)])
    log.roll()
    compactor = Compactor(log, disk)
    compact(log, compactor)
    assert compactor.clean_point == 6


def test_mutant_43_a_checkpoint_at_the_end_of_the_segment_lets_the_dead_rise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between where the map was full and the end of the segment nothing was noted, so older records stay."""
    capacity_of(monkeypatch, 2)
    pairs: list[Pair] = [(b"a", b"old"), (b"b", b"1"), (b"c", b"2"), (b"a", None)]

    def folds(mutants: Mutants) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
        disk, log, _ = make(pairs)
        before = [one for _, one in contents(log).values()]
        compactor = Compactor(log, disk, mutants)
        compact(log, compactor)
        fill(log, [(b"d", b"3")])
        compact(log, compactor, tombstones_below=compactor.clean_point, now_ms=LATER_MS + 2000)
        return fold(before), fold(one for _, one in contents(log).values() if one.key != b"d")

    true, found = folds(NO_MUTANTS)
    assert found == true == {b"b": b"1", b"c": b"2"}
    true, found = folds(Mutants(compaction_checkpoint_at_segment_end=True))
    assert found == true | {b"a": b"old"}


# ----- tombstones (C2, C4) -----


def tombstones(log: Log) -> list[int]:
    return [offset for offset, (_, one) in contents(log).items() if one.value is None and one.key is not None]


DELETED: list[Pair] = [(b"a", b"1"), (b"b", b"1"), (b"a", None), (b"b", b"2"), (b"", None), (b"n", b"")]


def test_a_tombstone_outlives_its_retention_and_the_slowest_replica_c2() -> None:
    _, log, compactor = make(DELETED)
    compact(log, compactor, now_ms=LATER_MS)
    assert tombstones(log) == [2, 4]
    assert [offset for offset in contents(log)] == [2, 3, 4, 5]
    # Every replica is past it, but not long enough ago.
    compact(log, compactor, now_ms=LATER_MS + 999, tombstones_below=6)
    assert tombstones(log) == [2, 4] and compactor.dropped_below == 0
    # Long enough ago, but one replica is not past the second one.
    compact(log, compactor, now_ms=LATER_MS + 1000, tombstones_below=4)
    assert tombstones(log) == [2, 4]
    fill(log, [(b"x", b"1")])
    compact(log, compactor, now_ms=LATER_MS + 1000, tombstones_below=4)
    assert tombstones(log) == [4] and compactor.dropped_below == 3
    compact(log, compactor, now_ms=LATER_MS + 1000, tombstones_below=6)
    assert tombstones(log) == [] and compactor.dropped_below == 5


def test_an_idle_log_loses_its_tombstones_without_new_records_and_then_rests() -> None:
    disk, log, compactor = make(DELETED)
    compact(log, compactor)
    assert compact(log, compactor, now_ms=LATER_MS + 5000, tombstones_below=6) > 1
    assert tombstones(log) == []
    calls = disk.calls
    assert compact(log, compactor, now_ms=LATER_MS + 9000, tombstones_below=6) == 2
    assert disk.calls == calls


def test_the_age_of_a_compaction_survives_a_restart() -> None:
    disk, log, compactor = make(DELETED)
    compact(log, compactor)
    disk.kill()
    log = reopened(disk)
    compactor = Compactor(log, disk)
    assert compactor.clean_point == 6
    compact(log, compactor, now_ms=LATER_MS + 999, tombstones_below=6)
    assert tombstones(log) == [2, 4]
    compact(log, compactor, now_ms=LATER_MS + 1000, tombstones_below=6)
    assert tombstones(log) == []


def resurrected(mutants: Mutants) -> bool:
    """Two replicas hold a value and its deletion; one compacts, later the other. Do they agree?"""
    replicas = [make([(b"a", b"1")]) for _ in range(2)]
    for _, log, _ in replicas:
        fill(log, [(b"a", None)])
    (disk, log, _), (_, slow_log, slow) = replicas
    compactor = Compactor(log, disk, mutants)
    compact(log, compactor)
    # The other replica is down, so its clean point is 0.
    compact(log, compactor, now_ms=LATER_MS + 5000, tombstones_below=slow.clean_point)
    # It comes back having lost its end, and copies from the one that has compacted.
    slow_log.truncate(1)
    for batch in log.read(1, log.leo, 1 << 20):
        slow_log.append([slice_batch(LOG, batch, 1, log.leo)])
    return fold(one for _, one in contents(slow_log).values()) != {}


def test_mutant_40_a_tombstone_dropped_by_age_alone_lets_the_dead_rise() -> None:
    assert not resurrected(NO_MUTANTS)
    assert resurrected(Mutants(tombstone_dropped_by_age=True))


@pytest.mark.parametrize("damage", ["missing", "flipped"])
def test_a_lost_state_file_never_hides_that_tombstones_are_gone_c4(damage: str) -> None:
    disk, log, compactor = make(DELETED)
    compact(log, compactor)
    compact(log, compactor, now_ms=LATER_MS + 5000, tombstones_below=6)
    assert tombstones(log) == [] and compactor.dropped_below == 5
    disk.kill()
    if damage == "missing":
        disk.remove(CLEAN_FILE)
    else:
        disk.flip(CLEAN_FILE, 20, 3)
    log = reopened(disk)
    compactor = Compactor(log, disk)
    assert compactor.clean_point == 0
    assert compactor.dropped_below >= 5
    compact(log, compactor)
    assert compactor.clean_point == log.sealed[-1].end_offset
    assert Compactor(log, disk).dropped_below >= 5


def test_a_log_that_was_never_compacted_reports_no_dropped_tombstones() -> None:
    disk, _, compactor = make(DELETED)
    assert (compactor.clean_point, compactor.dropped_below) == (0, 0)
    disk.kill()
    compactor = Compactor(reopened(disk), disk)
    assert (compactor.clean_point, compactor.dropped_below) == (0, 0)


def test_a_run_cut_short_does_not_count_as_tombstones_dropped_by_others() -> None:
    disk, log, compactor = make(keyed(80, 5))
    segments = log.sealed
    while log.sealed == segments:
        compactor.step(EAGER, log.leo, 0, LATER_MS, 300)
    disk.kill()
    compactor = Compactor(reopened(disk), disk)
    assert (compactor.clean_point, compactor.dropped_below) == (0, 0)


def test_what_a_compacted_leader_sent_counts_as_tombstones_dropped_c4() -> None:
    _, leader, compactor = make(DELETED)
    compact(leader, compactor)
    compact(leader, compactor, now_ms=LATER_MS + 5000, tombstones_below=6)
    disk = SimDisk(Random(2))
    follower = new_log(disk)
    follower.append(leader.read(0, leader.leo, 1 << 20))
    follower.sync()
    copier = Compactor(follower, disk)
    assert copier.dropped_below == follower.leo >= compactor.dropped_below
    follower.roll()
    compact(follower, copier)
    disk.kill()
    assert Compactor(reopened(disk), disk).dropped_below == 6


def test_a_truncation_below_the_clean_point_lowers_it_first() -> None:
    disk, log, compactor = make(keyed(60, 6))
    compact(log, compactor)
    compactor.step(EAGER, log.leo, 0, LATER_MS, 100)
    compactor.lower(20, cut=True)
    log.truncate(20)
    assert compactor.clean_point == 20
    fill(log, keyed(60, 6, seed=5))
    before = contents(log)
    disk.kill()
    log = reopened(disk)
    compactor = Compactor(log, disk)
    assert compactor.clean_point == 20
    compact(log, compactor)
    check_fold_preserved(before, contents(log), compactor.clean_point, log.leo)


def test_what_is_copied_with_holes_brings_the_mark_of_where_it_comes_from_c4() -> None:
    """A mark above what was dropped would hide from a reader what is dropped below it later."""
    disk, log, compactor = make(keyed(60, 6))
    compact(log, compactor)
    before = compactor.dropped_below
    compactor.lower(20, cut=True)
    log.truncate(20)
    compactor.note_copied(before + 5)
    log.append([encode_sparse(LOG, 1, 20, 60, [])])
    log.sync()
    assert Compactor(log, disk).dropped_below == before + 5
    compactor.note_copied(before + 3)
    assert Compactor(log, disk).dropped_below == before + 5


def test_a_copy_with_holes_but_without_dropped_tombstones_is_told_from_a_lost_file_c4() -> None:
    disk = SimDisk(Random(1))
    log = new_log(disk)
    Compactor(log, disk).note_copied(0)
    log.append([encode_sparse(LOG, 1, 0, 40, [])])
    log.sync()
    assert Compactor(log, disk).dropped_below == 0
    disk.remove(CLEAN_FILE)
    assert Compactor(log, disk).dropped_below == 40, "the best guess that is left"


def test_a_state_file_of_an_earlier_log_is_not_believed() -> None:
    disk, log, compactor = make(keyed(60, 6))
    compact(log, compactor)
    content = disk.open(CLEAN_FILE).read_at(0, 1000)
    fresh_disk = SimDisk(Random(1))
    fresh = new_log(fresh_disk)
    fresh_disk.open(CLEAN_FILE, create=True).append([content])
    assert Compactor(fresh, fresh_disk).clean_point == 0
    fill(fresh, keyed(80, 6, seed=3))
    assert Compactor(fresh, fresh_disk).clean_point == 0


def test_the_list_of_ages_is_bounded_and_its_gaps_make_tombstones_live_a_little_longer() -> None:
    """A list that forgot old lines first would let no tombstone go while runs are frequent."""
    state = CleanState()
    retention_ms = 100_000
    for number in range(1, 5000):
        now_ms = number * 100
        state = state.advanced(number, 0).stamped(now_ms, retention_ms)
        assert len(state.passed) <= 36
        assert state.passed[-1] == Passed(number, now_ms)
        exact = max(0, now_ms - retention_ms) // 100
        assert exact - 2 * 1000 // 32 - 2 <= state.passed_before(now_ms - retention_ms) <= exact


# ----- slices and failures (D5) -----


def test_segments_that_leave_at_the_front_do_not_disturb_a_run() -> None:
    for moved_after in range(1, 200, 7):
        _, log, compactor = make(keyed(80, 8))
        before = contents(log)
        slices = 0
        while not compactor.step(EAGER, log.leo, 0, LATER_MS, 150):
            slices += 1
            if slices == moved_after:
                log.move_start(log.sealed[len(log.sealed) // 2].base_offset + 1)
        left = {offset: line for offset, line in before.items() if offset >= log.log_start}
        check_fold_preserved(left, contents(log), compactor.clean_point, log.leo)
        assert compactor.clean_point == log.sealed[-1].end_offset


def test_appends_go_on_between_slices() -> None:
    _, log, compactor = make(keyed(60, 6))
    expected = contents(log)
    number = 0
    while not compactor.step(EAGER, log.leo, 0, LATER_MS, 150):
        leo = log.leo
        put(log, [(b"k1", b"%d" % number)])
        expected |= {offset: line for offset, line in contents(log).items() if offset >= leo}
        number += 1
    assert number > 20
    check_fold_preserved(expected, contents(log), compactor.clean_point, log.leo)


def test_damage_ends_the_run_and_leaves_the_log_as_it_is() -> None:
    disk, log, compactor = make(keyed(60, 6))
    victim = log.sealed[3]
    disk.flip(victim.path, 100, 3)
    with pytest.raises(BadBytes) as caught:
        compact(log, compactor)
    assert caught.value.range is not None
    log.note_damage(caught.value.range)
    assert not [path for path in disk.files() if path.endswith(".tmp")]
    # What lies before the damage is compacted meanwhile.
    compact(log, compactor)
    assert 0 < compactor.clean_point <= victim.base_offset
    assert log.damage == (caught.value.range,)
    assert isinstance(log.damage[0], OffsetRange)


def test_a_full_disk_ends_the_run_without_a_trace_and_the_next_one_succeeds_d5() -> None:
    disk, log, compactor = make(keyed(60, 6))
    before, files = contents(log), disk.files()
    for _ in range(2):
        disk.fill()
        with pytest.raises(DiskError):
            compact(log, compactor)
        assert disk.files() == files
        assert contents(log) == before
    disk.fill(False)
    compact(log, compactor)
    check_fold_preserved(before, contents(log), compactor.clean_point, log.leo)


def test_a_failed_sync_of_the_new_file_leaves_the_log_alone() -> None:
    disk, log, compactor = make(keyed(60, 6))
    before = contents(log)
    disk.fail_next_sync(".new.tmp")
    with pytest.raises(SyncFailed):
        compact(log, compactor)
    assert contents(log) == before and log.failure is None
    assert not [path for path in disk.files() if path.endswith(".tmp")]
    compact(log, compactor)
    check_fold_preserved(before, contents(log), compactor.clean_point, log.leo)


# ----- through the engine -----


def engine_with_keys(disk: SimDisk, mutants: Mutants = NO_MUTANTS) -> StorageEngine:
    engine, _ = start(disk, mutants)
    opened(engine)
    for base in range(0, 60, 2):
        rows = [
            Record(at, START_MS + at, b"s", b"", b"", b"k%d" % (at % 5), b"." * 40) for at in (base, base + 1)
        ]
        events = run(engine, AppendLog(LOG, [encode_records(LOG, 1, rows)], Ticket(base + 1)))
        assert events == [Durable(Ticket(base + 1))]
    return engine


def compacted(engine: StorageEngine, below: int = 60) -> Compacted:
    while True:
        (event,) = run(engine, CompactLog(LOG, EAGER, below, 0, LATER_MS, 500))
        assert isinstance(event, Compacted) and event.error == "", event
        if event.done:
            return event


def test_the_job_answers_with_what_is_durable_and_a_restart_reports_the_same() -> None:
    disk = new_disk()
    event = compacted(engine_with_keys(disk))
    assert event.clean_point > 40
    _, recovered = restart(disk)
    (summary,) = recovered.logs
    assert (summary.clean_point, summary.dropped_below) == (event.clean_point, event.dropped_below)
    assert (summary.log_start, summary.leo) == (0, 60)


def test_a_truncation_through_the_engine_lowers_the_clean_point() -> None:
    disk = new_disk()
    engine = engine_with_keys(disk)
    compacted(engine)
    run(engine, TruncateLog(LOG, 30, Ticket(90)))
    assert opened(engine).clean_point == 30
    assert restart(disk)[1].logs[0].clean_point == 30


def test_a_reset_log_and_a_fresh_one_begin_without_a_clean_point() -> None:
    for job in (ResetLog(LOG, 100, (), Ticket(90)), OpenLog(LOG, fresh=True)):
        disk = new_disk()
        engine = engine_with_keys(disk)
        assert compacted(engine).clean_point > 0
        run(engine, job)
        summary = opened(engine)
        assert (summary.clean_point, summary.dropped_below) == (0, 0)
        assert restart(disk)[1].logs[0].clean_point == 0


def test_damage_met_by_a_compaction_is_noted_and_told_d2() -> None:
    disk = new_disk()
    engine = engine_with_keys(disk)
    path = segments(disk)[2]
    disk.flip(path, 100, 3)
    (event,) = run(engine, CompactLog(LOG, EAGER, 60, 0, LATER_MS, 1 << 20))
    assert isinstance(event, Compacted) and event.done and path in event.error
    assert len(opened(engine).damage) == 1
    assert len(restart(disk)[1].logs[0].damage) == 1


def test_an_encrypted_log_is_compacted_and_stays_encrypted() -> None:
    disk = SimDisk(Random(1))
    nonces = count(1)
    sealer = Sealer(b"k" * 32, lambda: next(nonces).to_bytes(12, "big"))
    log = create_log(disk, LOG, OPTIONS, sealer)
    secret = b"plain text that must not be on disk"
    fill(log, [(b"k%d" % (number % 5), secret) for number in range(40)])
    before = contents(log)
    compactor = Compactor(log, disk)
    compact(log, compactor)
    check_fold_preserved(before, contents(log), compactor.clean_point, log.leo)
    assert len(contents(log)) == 5
    assert not any(secret in disk.content(path) for path in disk.files())
    with pytest.raises(SealedBatch):
        reopened(disk).read(0, 40, 1000)
