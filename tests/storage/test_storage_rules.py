"""Sentences of the storage rules that need more than one fault at once, and defects that others have had.

The names carry the rule. N3, N4 and N5 in the names of the last group are no rules: they are the numbers of
defects that were found in the public implementation of this protocol's ancestor.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog.format import decode_records
from liftlog.messages import (
    CheckpointHw,
    LogOpened,
    LogRead,
    MetadataStalled,
    ReadLog,
    RebuildLog,
    SaveHardState,
    SaveIdentity,
    StorageFailed,
    TrashLog,
    TruncateLog,
)
from liftlog.mutants import Mutants
from liftlog.real.disk import RealDisk
from liftlog.storage.engine import StorageEngine
from liftlog.types import HardState, Identity, LiftlogError, TailState, Ticket
from liftlog_sim.devices.disk import SimDisk, SimulatedCrash
from tests.storage.crash_script import Life
from tests.storage.storage_harness import (
    LOG,
    append,
    batch,
    durable,
    failures,
    new_disk,
    open_log,
    opened,
    restart,
    run,
    segments,
    start,
    store,
    values,
)
from tests.storage.test_crash_points import CRASHES, check_life_after, lives

FOLDER = f"streams/{LOG[0]}/{LOG[1]}"


def stored(count: int, hw: int = 0) -> tuple[SimDisk, StorageEngine]:
    """A disk whose log holds `count` synced batches of one record."""
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, count)
    if hw:
        run(engine, CheckpointHw(LOG, hw))
    return disk, engine


# ----- R8: the checkpoint of the HW -----


@pytest.mark.parametrize("fresh", [False, True])
def test_R8_what_takes_the_place_of_cut_records_is_not_committed_by_an_old_checkpoint(fresh: bool) -> None:
    """A kill between the append and the next checkpoint must not find the HW of the records before them."""
    disk, engine = stored(6, hw=6)
    base = 0 if fresh else 2
    engine.write([open_log(LOG, fresh=True) if fresh else TruncateLog(LOG, 2, Ticket(50))])
    engine.write([append(base, [b"other"] * 8, 51, epoch=7)])
    engine, recovered = restart(disk)
    assert recovered.logs[0].leo == base + 8
    assert recovered.logs[0].hw <= base


def test_R8_R5_a_rebuild_below_the_checkpoint_lowers_it_first() -> None:
    disk, engine = stored(6, hw=6)
    run(engine, RebuildLog(LOG, 3))
    engine.write([append(3, [b"other"] * 5, 51, epoch=7)])
    _, recovered = restart(disk)
    assert (recovered.logs[0].leo, recovered.logs[0].hw) == (8, 3)


def test_R8_a_checkpoint_that_cannot_be_lowered_keeps_the_records() -> None:
    disk, engine = stored(6, hw=6)
    disk.fail_next("append", matching="hw.tmp")
    assert failures(run(engine, TruncateLog(LOG, 2, Ticket(50)))) == [(50, True)]
    engine, recovered = restart(disk)
    assert recovered.logs[0].leo == 6 and recovered.logs[0].hw in (2, 6)
    assert len(values(engine)) == 6


@pytest.mark.parametrize("clean", [False, True])
def test_R8_D3_the_checkpoint_is_clamped_on_disk_when_a_start_finds_less_than_it_says(clean: bool) -> None:
    disk, engine = stored(6, hw=6)
    engine.close(clean)
    disk.open(segments(disk)[-1]).truncate(200)
    engine, recovered = restart(disk)
    leo = recovered.logs[0].leo
    assert leo < 6 and recovered.logs[0].hw == leo
    engine.write([append(leo, [b"later"] * 9, 60, epoch=9)])
    _, recovered = restart(disk)
    assert recovered.logs[0].hw == leo


def test_R14_D2_a_log_that_ends_below_its_checkpoint_is_damaged_without_a_bad_byte() -> None:
    """A file cut at the end of a batch, or lost as a whole, verifies; the checkpoint knows better."""
    disk, _ = stored(12, hw=11)
    path = segments(disk)[-1]
    disk.kill()
    disk.remove(path)
    disk.sync_directory(FOLDER)
    for _ in range(2):
        _, recovered = restart(disk)
        assert recovered.logs[0].tail is TailState.DAMAGED
        assert recovered.logs[0].hw == recovered.logs[0].leo < 11


def test_M4_D2_a_log_whose_files_are_all_gone_is_not_taken_for_a_new_one() -> None:
    disk, _ = stored(12, hw=1)
    disk.kill()
    for path in segments(disk):
        disk.remove(path)
    _, recovered = restart(disk)
    assert (recovered.logs[0].leo, recovered.logs[0].tail) == (0, TailState.DAMAGED)


# ----- R5, R7: what reads back need not be durable -----


@pytest.mark.parametrize("failing", ["vote.tmp", ""])
def test_R5_M1_a_vote_whose_sync_failed_is_made_durable_by_the_next_start(failing: str) -> None:
    """The file (or, "", its folder) reads back as saved; after a clean stop a start would believe it."""
    for seed in range(40):
        disk = new_disk(seed)
        engine, _ = start(disk)
        assert run(engine, SaveHardState(HardState(4, 1), Ticket(1))) == durable(1)
        assert engine.write([SaveHardState(HardState(5, 2), Ticket(2))]) == []
        if failing:
            disk.fail_next_sync(failing)
        else:
            disk.fail_next("sync_directory")
        (event,) = engine.sync()
        assert isinstance(event, MetadataStalled) and event.error, "held back, and not durable"
        engine.close(clean=True)
        _, recovered = restart(disk)
        assert not recovered.clean
        disk.power_loss(Random(seed))
        _, again = start(disk)
        assert again.hard_state == recovered.hard_state


def test_R7_I1_a_log_reported_as_gone_does_not_come_back_with_a_power_loss() -> None:
    for seed in range(40):
        disk, engine = stored(2)
        disk.crash_after(_calls_until(disk, "sync_directory"))
        with pytest.raises(SimulatedCrash):
            engine.write([TrashLog(LOG)])
        _, recovered = restart(disk)
        assert recovered.logs == []
        disk.power_loss(Random(seed))
        _, recovered = start(disk)
        assert recovered.logs == []


def _calls_until(disk: SimDisk, operation: str) -> int:
    """How many calls from now the first directory sync after the rename into the trash is, on a twin disk."""
    twin, engine = stored(2)
    assert twin.calls == disk.calls
    seen: list[str] = []
    enter = twin.enter

    def watched(operation: str, path: str, life: int, *more: object) -> None:
        seen.append(operation)
        enter(operation, path, life, *more)  # type: ignore[arg-type]

    twin.enter = watched  # type: ignore[method-assign, assignment]
    # An armed failure, of an operation that nobody calls, sends every call through `enter`.
    twin.fail_next("nothing")
    engine.write([TrashLog(LOG)])
    moved = len(seen) - 1 - seen[::-1].index("rename")
    return seen.index(operation, moved) + 1


def test_R5_a_rebuild_over_damage_is_damaged_from_whichever_call_it_dies_at() -> None:
    """Regression, simulator seed 298: the short log was found without a bad byte and registered as intact."""
    tried = 0
    for crash, outcomes in (("kill", 1), ("power", 3)):
        for outcome in range(outcomes):
            for call in range(1, 1000):
                disk, engine = stored(12)
                disk.flip(segments(disk)[-1], 40, 3)
                disk.crash_after(call)
                try:
                    run(engine, RebuildLog(LOG, 12))
                    alive = True
                except SimulatedCrash:
                    alive = False
                CRASHES[crash][0](disk, Random(call * 7 + outcome))
                _, recovered = start(disk)
                assert recovered.logs[0].tail is TailState.DAMAGED, f"{crash} at call {call}"
                tried += 1
                if alive:
                    break
    assert tried > 60


# ----- R14, D2 -----


def test_R14_the_clean_stop_marker_is_gone_for_good_before_the_first_append() -> None:
    for seed in range(40):
        disk, engine = stored(3)
        engine.close(clean=True)
        assert "clean" in disk.files()
        engine, recovered = restart(disk)
        assert recovered.clean
        disk.power_loss(Random(seed))
        assert "clean" not in disk.files()


def test_R14_the_verdict_survives_a_crash_at_any_call_before_it_was_registered() -> None:
    """The start that finds damage cuts it; each later one must still know, until one was registered."""
    for call in range(1, 200):
        disk, _ = stored(7)
        disk.kill()
        disk.flip(segments(disk)[1], 100, 3)
        disk.crash_after(call)
        engine = StorageEngine(disk)
        try:
            engine.recover(1, "disk-1", 7)
            run(engine, SaveIdentity(Identity(1, "disk-1", 9), Ticket(1)))
            registered = True
        except SimulatedCrash:
            registered = False
        disk.power_loss(Random(call))
        _, recovered = start(disk)
        if registered:
            assert recovered.logs[0].tail is TailState.INTACT
            return
        if recovered.identity.incarnation == 9:
            # The registration is durable: told again or not, both are true.
            continue
        assert recovered.logs[0].tail is TailState.DAMAGED, f"call {call}"
    raise AssertionError("the start never ended")


# ----- D4, D5 -----


def test_D4_a_log_is_never_created_over_what_a_failed_move_to_the_trash_left() -> None:
    disk, engine = stored(12)
    assert len(segments(disk)) > 1
    disk.fail_next("rename", matching="streams/")
    assert failures(run(engine, open_log(LOG, fresh=True))) == [(0, False)]
    assert opened(engine).leo == 0
    assert len(segments(disk)) == 1
    store(engine, 7, epoch=3)
    _, recovered = restart(disk)
    assert (recovered.logs[0].leo, recovered.logs[0].tail) == (7, TailState.INTACT)


@pytest.mark.parametrize("errno", [28, 5])
def test_D5_after_a_refused_append_the_group_leaves_no_gap_and_the_log_goes_on(errno: int) -> None:
    disk, engine = stored(2)
    disk.fail_next("append", errno, FOLDER)
    events = run(engine, append(2, [b"a"], 10), append(3, [b"b"], 11), append(4, [b"c"], 12))
    assert failures(events) == [(10, False), (11, False), (12, False)]
    assert run(engine, append(2, [b"d"], 13), append(3, [b"e"], 14)) == durable(13, 14)
    assert values(engine)[2:] == [b"d", b"e"]
    _, recovered = restart(disk)
    assert (recovered.logs[0].leo, recovered.logs[0].tail) == (4, TailState.INTACT)


# ----- two processes -----

HOLDER = """
import sys
from liftlog.real.disk import RealDisk
from liftlog.storage.engine import StorageEngine
StorageEngine(RealDisk(sys.argv[1])).recover(1, "disk-1", 1)
print("ready", flush=True)
sys.stdin.read()
"""


def test_D4_two_processes_never_share_a_folder_and_a_killed_one_leaves_it_free(tmp_path: Path) -> None:
    root = str(Path(__file__).parent.parent.parent)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"ready\n"
        with pytest.raises(LiftlogError, match="in use by another process: stop it"):
            StorageEngine(RealDisk(str(tmp_path))).recover(1, "disk-2", 2)
    finally:
        holder.kill()
        holder.communicate(timeout=20)
    disk = RealDisk(str(tmp_path))
    recovered = StorageEngine(disk).recover(1, "disk-2", 2)
    assert recovered.identity == Identity(1, "disk-1") and not recovered.clean
    disk.close()


# ----- the planted bugs -----


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "crash"),
    [("recovery_reports_unsynced", "kill"), ("sync_failure_retried", "power"), ("hw_not_clamped", "kill")],
)
def test_D4_R5_R7_R8_the_crash_enumeration_catches_the_mutant(mutant: str, crash: str) -> None:
    """The book of promises can fail: each of these bugs breaks it at some crash point."""
    switched_on = Mutants(**{mutant: True})
    for outcome in range(3):
        for at_call, life in lives(outcome, switched_on):
            random = Random(at_call)
            CRASHES[crash][0](life.disk, random)
            if check_life_after(life, random, switched_on):
                return
    raise AssertionError(f"{mutant} survived every crash point")


def test_R14_D2_the_mutant_that_takes_damage_for_a_torn_tail_registers_a_short_log_as_intact() -> None:
    mutant = Mutants(damage_as_torn_tail=True)
    for mutants, expected in ((Mutants(), TailState.DAMAGED), (mutant, TailState.INTACT)):
        disk, _ = stored(7)
        disk.flip(segments(disk)[1], 100, 3)
        _, recovered = restart(disk, mutants)
        assert recovered.logs[0].leo < 7
        assert recovered.logs[0].tail is expected


# ----- reads -----


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=14),
    offset=st.integers(0, 60),
    limit=st.integers(0, 60),
    max_bytes=st.integers(1, 900),
)
def test_R3_a_read_returns_whole_batches_in_a_row_below_the_limit(
    counts: list[int], offset: int, limit: int, max_bytes: int
) -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    base = 0
    ends = []
    for count in counts:
        run(engine, append(base, [b"%d" % i for i in range(base, base + count)], 1))
        base += count
        ends.append(base)
    (event,) = run(engine, ReadLog(LOG, 3, offset, limit, max_bytes))
    assert isinstance(event, LogRead) and event.error == ""
    readable = [end for end in ends if offset < end <= limit]
    assert bool(event.batches) == bool(readable)
    if event.batches:
        assert event.batches[0].base_offset <= offset < event.batches[0].end_offset
        assert [one.end_offset for one in event.batches] == readable[: len(event.batches)]
        size = sum(len(one.data) for one in event.batches)
        assert size <= max_bytes or len(event.batches) == 1
        found = [record for one in event.batches for record in decode_records(one)]
        assert all(record.value == b"%d" % record.offset for record in found)


# ----- defects that others have had -----


@pytest.mark.parametrize("name", [".cleaned", ".tmp", ".log.tmp", ".log.cleaned"])
def test_N3_a_file_left_over_by_an_earlier_run_is_never_appended_to(name: str) -> None:
    """There: a left-over `.cleaned` was opened in append mode, so that its records appeared twice."""
    disk, _ = stored(12)
    content = disk.content(segments(disk)[0])
    disk.kill()
    for base in (0, 5, 12):
        left = disk.open(f"{FOLDER}/{base:020d}{name}", create=True)
        left.append([content])
        left.sync()
    left = disk.open("vote.tmp", create=True)
    left.append([b"half a vote"])
    engine, recovered = restart(disk)
    assert (recovered.logs[0].leo, recovered.logs[0].tail) == (12, TailState.INTACT)
    run(engine, TruncateLog(LOG, 3, Ticket(1)), SaveHardState(HardState(3, 1), Ticket(2)))
    store(engine, 12, base=3, epoch=2)
    engine, recovered = restart(disk)
    assert recovered.hard_state == HardState(3, 1)
    assert [value.partition(b".")[0] for value in values(engine)] == [b"%d" % offset for offset in range(15)]


def test_N4_a_tail_torn_at_any_byte_is_cut_and_never_breaks_a_read() -> None:
    """There: a torn tail was accepted when the log was opened, and the next read ended the process."""
    whole = batch(2, [b"last" * 10]).data
    for length in range(1, len(whole)):
        disk, _ = stored(2)
        disk.kill()
        torn = disk.open(segments(disk)[-1])
        torn.append([whole[:length]])
        torn.sync()
        engine, recovered = restart(disk)
        assert (recovered.logs[0].leo, recovered.logs[0].tail) == (2, TailState.SUSPECT)
        assert len(values(engine)) == 2
        assert run(engine, append(2, [b"goes on"], 9)) == durable(9)
        assert values(engine)[2:] == [b"goes on"]


def test_N4_a_flipped_bit_anywhere_in_an_open_log_is_an_error_of_the_read_and_of_nothing_else() -> None:
    disk, engine = stored(3)
    path = segments(disk)[0]
    frame = len(disk.content(path)) // 3
    for byte in range(frame, 2 * frame):
        disk.flip(path, byte, byte % 8)
        (first,) = run(engine, ReadLog(LOG, 1, 0, 3, 9999))
        (second,) = run(engine, ReadLog(LOG, 2, 1, 3, 9999))
        (third,) = run(engine, ReadLog(LOG, 3, 2, 3, 9999))
        assert isinstance(first, LogRead) and len(first.batches) == 1 and not first.error
        assert isinstance(second, LogRead) and not second.batches and path in second.error
        assert isinstance(third, LogRead) and len(third.batches) == 1 and not third.error
        disk.flip(path, byte, byte % 8)
    assert len(values(engine)) == 3


def test_N5_R8_no_checkpoint_is_ever_above_the_log_it_speaks_of() -> None:
    """There: a follower stored an HW above its own LEO, and subscribing failed with "segment not found"."""
    disk, engine = stored(4)
    engine.write([append(4, [b"not yet synced"], 9), CheckpointHw(LOG, 99)])
    engine.sync()
    (event,) = run(engine, open_log(LOG))
    assert isinstance(event, LogOpened) and event.summary.hw == 5
    for _ in range(2):
        engine, recovered = restart(disk)
        assert (recovered.logs[0].leo, recovered.logs[0].hw) == (5, 5)
        (read,) = run(engine, ReadLog(LOG, 1, 5, recovered.logs[0].hw, 999))
        assert read == LogRead(LOG, 1, [])


def test_D4_a_life_without_crash_keeps_every_promise_and_meets_its_planned_failures_only() -> None:
    """The script of the crash tests reaches its end: the failures in it are those it plants itself."""
    life = Life(new_disk())
    seen: list[StorageFailed] = []
    group = life.group

    def watched(*jobs: object) -> list[object]:
        events = group(*jobs)  # type: ignore[arg-type]
        seen.extend(event for event in events if isinstance(event, StorageFailed))
        return list(events)

    life.group = watched  # type: ignore[method-assign, assignment]
    life.run()
    assert [event.sync for event in seen] == [True, False, False]
    assert {event.log for event in seen} == {LOG}
    life.disk.kill()
    engine, recovered = start(life.disk)
    assert life.promises.broken(engine, recovered) == "" and recovered.clean


def test_D5_a_log_whose_write_was_refused_goes_on_where_it_is_and_is_read_all_the_while() -> None:
    """No copy is made of it: for that there is no space either."""
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 3)
    before = segments(disk)
    disk.fill(True, 10, names_too=True)
    assert failures(run(engine, append(3, [b"refused" * 20], 4))) == [(4, False)]
    for _ in range(3):
        assert len(values(engine)) == 3
        (event,) = run(engine, RebuildLog(LOG, 3, in_doubt=False))
        assert isinstance(event, LogOpened) and event.summary.leo == 3
        assert event.summary.tail is not TailState.DAMAGED
    assert failures(run(engine, append(3, [b"refused" * 20], 5))) == [(5, False)]
    disk.fill(False)
    assert run(engine, append(3, [b"later"], 6)) == durable(6)
    assert values(engine)[3:] == [b"later"] and segments(disk) == before
    disk.power_loss(Random(5))
    engine, recovered = start(disk)
    assert recovered.logs[0].leo == 4 and values(engine)[3:] == [b"later"]


def test_D5_a_log_that_cannot_even_be_cut_off_is_rebuilt() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 3)
    run(engine, append(3, [b"unwanted"], 4))
    disk.fail_next("truncate")
    (event,) = run(engine, RebuildLog(LOG, 3, in_doubt=False))
    assert isinstance(event, StorageFailed) and event.sync
    (event,) = run(engine, RebuildLog(LOG, 3, in_doubt=False))
    assert isinstance(event, LogOpened) and event.summary.leo == 3
