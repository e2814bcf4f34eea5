"""What a start finds on its disk, and what it calls it (R7, R14, D2, M4)."""

from __future__ import annotations

import copy
from random import Random

import msgspec
import pytest

from liftlog.format import decode_records, encode_values
from liftlog.messages import CheckpointHw, LogRead, OpenLog, ReadLog, SaveHardState, SaveIdentity, TrashLog
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.storage.engine import StorageEngine
from liftlog.storage.layout import make_directory_durable
from liftlog.types import (
    RAFT_LOG,
    HardState,
    Identity,
    LiftlogError,
    OffsetRange,
    PartitionId,
    TailState,
    Ticket,
)
from liftlog_sim.devices.disk import SimDisk, SimFile, SimulatedCrash
from tests.storage.storage_harness import (
    LOG,
    OTHER,
    append,
    batch,
    durable,
    given_up,
    new_disk,
    open_log,
    opened,
    quarantined,
    restart,
    run,
    segments,
    start,
    store,
    values,
)

FRAME = len(batch(0, [b"0" + b"." * 60]).data)
"""Length of the first ten batches that `store` writes."""


def stored(count: int, clean: bool = False, seed: int = 0) -> SimDisk:
    """A disk with `count` batches of one record, each synced; stopped cleanly or killed."""
    disk = new_disk(seed)
    engine, _ = start(disk)
    opened(engine)
    store(engine, count)
    if clean:
        engine.close(True)
    disk.kill()
    return disk


def tail_of(disk: SimDisk, mutants: Mutants = NO_MUTANTS) -> tuple[TailState, int]:
    _, recovered = start(disk, mutants)
    return recovered.logs[0].tail, recovered.logs[0].leo


def test_an_empty_disk_gets_an_identity_that_stays() -> None:
    disk = new_disk()
    engine = StorageEngine(disk)
    recovered = engine.recover(3, "abc", 17)
    assert (recovered.identity, recovered.hard_state) == (Identity(3, "abc"), HardState())
    assert (recovered.raft_entries, recovered.logs, recovered.clean, recovered.nonce) == ([], [], False, 17)
    disk.power_loss(Random(0))
    assert StorageEngine(disk).recover(3, "another", 18).identity == Identity(3, "abc")


def test_a_folder_of_another_node_is_refused() -> None:
    disk = stored(1)
    with pytest.raises(LiftlogError, match="belongs to node 1, not to node 2; check"):
        StorageEngine(disk).recover(2, "x", 0)


def test_two_engines_cannot_share_a_folder() -> None:
    disk = new_disk()
    start(disk)
    with pytest.raises(LiftlogError, match="in use"):
        start(disk)


# --- clean stops ------------------------------------------------------------------------------------------


def test_after_a_clean_stop_the_tail_is_clean_once() -> None:
    disk = stored(20, clean=True)
    _, recovered = start(disk)
    assert recovered.clean and recovered.logs[0].tail is TailState.CLEAN and recovered.logs[0].leo == 20
    _, recovered = restart(disk)
    assert not recovered.clean and recovered.logs[0].tail is TailState.INTACT, "the marker was removed"


def test_the_clean_marker_survives_a_power_loss_after_the_stop() -> None:
    disk = stored(20, clean=True)
    disk.power_loss(Random(1))
    assert tail_of(disk) == (TailState.CLEAN, 20)


def test_an_unclean_close_leaves_no_marker() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    engine.close(False)
    assert not restart(disk)[1].clean


def test_a_log_with_a_failed_sync_cannot_be_closed_cleanly() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    disk.fail_next_sync("streams/7/0")
    run(engine, append(0, [b"x"], 1))
    engine.close(True)
    assert not restart(disk)[1].clean


def test_a_marker_that_cannot_be_written_makes_the_stop_unclean() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    disk.fill()
    engine.close(True)
    disk.fill(False)
    assert not restart(disk)[1].clean


@pytest.mark.parametrize("number", [0, 7, 18])
@pytest.mark.parametrize("byte", [5, 13, 17, 30, 35, 42, 80])
def test_D2_after_a_clean_stop_a_bad_byte_is_damage_of_its_own_batch(number: int, byte: int) -> None:
    """It shows when it is read; then its range is remembered, and all the rest can be read."""
    disk = stored(20, clean=True)
    frame = FRAME + (number >= 10)
    disk.flip(segments(disk)[number // 4], frame * (number % 4) + byte, 2)
    engine, recovered = start(disk)
    summary = recovered.logs[0]
    assert (summary.tail, summary.leo, summary.damage) == (TailState.CLEAN, 20, ())
    for offset in range(20):
        (event,) = run(engine, ReadLog(LOG, 1, offset, offset + 1, 9999))
        assert isinstance(event, LogRead)
        assert event.damage == (OffsetRange(number, number + 1) if offset == number else None)
        assert len(event.batches) == (offset != number)
    store(engine, 2, base=20)
    _, recovered = restart(disk)
    assert (recovered.logs[0].leo, recovered.logs[0].damage) == (22, (OffsetRange(number, number + 1),))


def test_a_clean_start_reads_nothing_but_heads_of_indexes_and_state_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []
    read_at = SimFile.read_at

    def watched(file: SimFile, position: int, length: int) -> bytes:
        read.append(file._path)
        return read_at(file, position, length)

    disk = stored(60, clean=True)
    monkeypatch.setattr(SimFile, "read_at", watched)
    engine, recovered = start(disk)
    assert recovered.clean and recovered.logs[0].leo == 60
    assert not [path for path in read if path.startswith("streams/") and path.endswith(".log")]
    assert len([path for path in read if path.endswith(".index")]) == len(segments(disk))
    assert len(values(engine)) == 60
    assert {path for path in read if path.endswith(".log")} == set(segments(disk))


def test_an_unclean_start_reads_the_last_segment_of_a_log_only(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    read_at = SimFile.read_at

    def watched(file: SimFile, position: int, length: int) -> bytes:
        read.append(file._path)
        return read_at(file, position, length)

    disk = stored(20)
    monkeypatch.setattr(SimFile, "read_at", watched)
    start(disk)
    last = segments(disk)[-1]
    assert {path for path in read if path.startswith("streams/") and path.endswith(".log")} == {last}


def test_after_a_clean_stop_a_missing_tail_is_damage() -> None:
    disk = stored(20, clean=True)
    file = disk.open(segments(disk)[-1])
    file.truncate(0)
    file.sync()
    assert tail_of(disk)[0] is TailState.DAMAGED
    assert tail_of_again(disk) is TailState.DAMAGED


def tail_of_again(disk: SimDisk) -> TailState:
    disk.kill()
    return tail_of(disk)[0]


@pytest.mark.parametrize("witness", ["", "logs", "hw", "clean"])
@pytest.mark.parametrize("gone", ["streams", "streams/7", "streams/7/0", "all in streams/7/0"])
@pytest.mark.parametrize("clean", [False, True])
def test_M4_a_missing_log_is_lost_and_not_an_empty_log(clean: bool, gone: str, witness: str) -> None:
    """Also if one of the files is gone that tell of it, and until the metadata group has heard of it."""
    disk = stored(20, clean=False)
    engine, _ = restart(disk)
    run(engine, CheckpointHw(LOG, 12))
    if clean:
        engine.close(clean=True)
    disk.kill()
    disk.vanish(gone.removeprefix("all in "))
    if gone.startswith("all"):
        make_directory_durable(disk, "streams/7/0")
    if witness:
        disk.vanish(witness)
    assert tail_of(disk) == (TailState.LOST, 0)
    assert tail_of_again(disk) is TailState.LOST
    disk.kill()
    engine, recovered = start(disk)
    run(engine, SaveIdentity(msgspec.structs.replace(recovered.identity, incarnation=5), Ticket(1)))
    assert tail_of_again(disk) is TailState.INTACT


def test_M4_a_verdict_that_could_not_be_removed_does_not_call_new_records_lost() -> None:
    disk = stored(3)
    disk.vanish("streams")
    engine, recovered = start(disk)
    disk.fail_next("remove", matching="tail")
    run(engine, SaveIdentity(msgspec.structs.replace(recovered.identity, incarnation=5), Ticket(1)))
    store(engine, 4)
    disk.kill()
    assert tail_of(disk) == (TailState.DAMAGED, 4)


def test_M4_a_log_that_is_in_no_list_yet_was_not_lost() -> None:
    """A process that dies anywhere while it creates a log, or moves one to the trash, has lost nothing."""
    for job in (open_log(), TrashLog(LOG)):
        for power in (False, True):
            for call in range(1, 200):
                disk = new_disk(call)
                engine, _ = start(disk)
                if isinstance(job, TrashLog):
                    opened(engine)
                disk.crash_after(call)
                try:
                    run(engine, job)
                    alive = True
                except SimulatedCrash:
                    alive = False
                disk.power_loss(Random(call)) if power else disk.kill()
                _, recovered = start(disk)
                assert [log.tail for log in recovered.logs if log.tail is TailState.LOST] == []
                if alive:
                    break
            else:
                raise AssertionError("fewer calls are enough")


def test_M4_a_list_of_logs_that_cannot_be_read_is_not_taken_for_an_empty_one() -> None:
    disk = stored(3)
    disk.flip("logs", 17, 1)
    with pytest.raises(LiftlogError, match="damaged metadata: logs byte 16: the checksum"):
        start(disk)


# --- torn tails and damage --------------------------------------------------------------------------------


def test_every_synced_batch_is_found_after_kill_and_power_loss() -> None:
    disk = stored(20)
    assert tail_of(disk) == (TailState.INTACT, 20)
    disk.power_loss(Random(0))
    assert tail_of(disk) == (TailState.INTACT, 20)


def test_bad_bytes_in_the_last_group_are_cut_quarantined_and_suspect() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 1)
    engine.write([append(1, [b"." * 60], 10), append(2, [b"." * 60], 11)])
    engine.sync()
    disk.kill()
    before = disk.content(segments(disk)[0])
    disk.flip(segments(disk)[0], FRAME + 100, 0)
    assert tail_of(disk) == (TailState.SUSPECT, 1), "the third batch is good, but of the same group"
    (path,) = quarantined(disk)
    assert path == f"quarantine/000001-7-0-{0:020d}-{FRAME}.bad"
    assert len(disk.content(path)) == len(before) - FRAME
    assert disk.content(segments(disk)[0]) == before[:FRAME]


@pytest.mark.parametrize("number", range(4))
def test_bad_bytes_below_what_a_later_batch_knew_synced_are_damage(number: int) -> None:
    disk = stored(5)
    assert len(segments(disk)) == 2 and 600 // FRAME == 4
    disk.remove(segments(disk)[1])
    path = segments(disk)[0]
    disk.flip(path, number * FRAME + 80, 0)
    expected = TailState.DAMAGED if number < 3 else TailState.SUSPECT
    assert tail_of(disk) == (expected, number)
    assert len(quarantined(disk)) == 1


def test_damage_is_told_from_the_prefix_of_a_later_batch_that_is_bad_itself() -> None:
    disk = stored(3)
    disk.flip(segments(disk)[0], 80, 0)
    disk.flip(segments(disk)[0], FRAME + 80, 0)
    disk.flip(segments(disk)[0], 2 * FRAME + 80, 0)
    assert tail_of(disk) == (TailState.DAMAGED, 0)


def test_a_destroyed_length_does_not_hide_the_evidence() -> None:
    disk = stored(4)
    for byte in range(12, 16):
        disk.flip(segments(disk)[0], FRAME + byte, 7)
    assert tail_of(disk) == (TailState.DAMAGED, 1)


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("harm", ["missing", "stale", "flipped"])
def test_D2_D3_damage_in_a_complete_segment_without_index_is_a_range_found_by_the_start(
    clean: bool, harm: str
) -> None:
    disk = stored(20, clean)
    names = segments(disk)
    before = values_of(disk)
    disk.flip(names[1], FRAME + 90, 4)
    index = names[1].replace(".log", ".index")
    if harm == "missing":
        disk.remove(index)
    elif harm == "flipped":
        disk.flip(index, 20, 0)
    else:
        disk.open(names[1]).append([b"grown"])
    engine, recovered = start(disk)
    assert (recovered.logs[0].leo, recovered.logs[0].damage) == (20, (OffsetRange(5, 6),))
    assert segments(disk) == names and quarantined(disk) == [], "what can be read stays where it is"
    for offset in range(20):
        (event,) = run(engine, ReadLog(LOG, 1, offset, offset + 1, 9999))
        assert isinstance(event, LogRead)
        if offset == 5:
            assert event.error and event.damage == OffsetRange(5, 6)
        else:
            assert [record.value for record in decode_records(event.batches[0])] == [before[offset]]


def values_of(disk: SimDisk) -> list[bytes]:
    """The values of a log on a copy of its disk."""
    engine, _ = start(copy.deepcopy(disk))
    return values(engine)


@pytest.mark.parametrize(("gone", "lost"), [(0, (0, 4)), (1, (4, 8)), (3, (12, 16))])
@pytest.mark.parametrize("clean", [False, True])
def test_D2_a_missing_segment_is_a_damaged_range(gone: int, lost: tuple[int, int], clean: bool) -> None:
    disk = stored(20, clean)
    disk.remove(segments(disk)[gone])
    for _ in range(2):
        engine, recovered = start(disk)
        assert (recovered.logs[0].leo, recovered.logs[0].damage) == (20, (OffsetRange(*lost),))
        (event,) = run(engine, ReadLog(LOG, 1, lost[0], 20, 9999))
        assert isinstance(event, LogRead) and event.damage == OffsetRange(*lost)
        assert len(values(engine, offset=lost[1])) == 20 - lost[1]
        disk.kill()


@pytest.mark.parametrize("clean", [False, True])
def test_D2_a_complete_segment_that_is_too_short_is_damaged_up_to_the_next_one(clean: bool) -> None:
    disk = stored(20, clean)
    disk.open(segments(disk)[1]).truncate(2 * FRAME + 50)
    for _ in range(2):
        engine, recovered = start(disk)
        assert (recovered.logs[0].leo, recovered.logs[0].damage) == (20, (OffsetRange(6, 8),))
        assert len(values(engine, offset=8)) == 12
        disk.kill()


def test_a_batch_in_the_wrong_log_or_with_an_older_epoch_is_bad() -> None:
    for wrong in (
        encode_values(OTHER, 1, 5, 0, [b"x"]),
        encode_values(LOG, 1, 4, 0, [b"x"]),
        encode_values(LOG, 2, 5, 0, [b"x"]),
    ):
        disk = new_disk()
        engine, _ = start(disk)
        opened(engine)
        run(engine, append(0, [b"first"], 1, epoch=5))
        disk.kill()
        disk.open(segments(disk)[0]).append([wrong.data])
        assert tail_of(disk) == (TailState.SUSPECT, 1)


def test_a_tail_of_zeros_is_bad() -> None:
    disk = stored(2)
    disk.open(segments(disk)[0]).append([bytes(5000)])
    assert tail_of(disk) == (TailState.SUSPECT, 2)


def test_a_verdict_stays_until_a_new_incarnation_is_durable() -> None:
    disk = stored(20)
    disk.flip(segments(disk)[-1], 80, 0)
    for _ in range(3):
        assert tail_of(disk) == (TailState.DAMAGED, 16)
        disk.power_loss(disk.random)
    engine, _ = start(disk)
    store(engine, 2, base=16)
    engine.close(True)
    assert tail_of(stopped(disk)) == (TailState.DAMAGED, 18), "a clean stop does not hide it"
    engine, _ = restart(disk)
    run(engine, SaveIdentity(Identity(1, "disk-1", 5), Ticket(1)))
    assert tail_of(stopped(disk)) == (TailState.INTACT, 18)


def stopped(disk: SimDisk) -> SimDisk:
    disk.kill()
    return disk


def test_a_verdict_that_cannot_be_read_counts_as_damage() -> None:
    disk = stored(2)
    disk.open("streams/7/0/tail", create=True).append([b"junk"])
    assert tail_of(disk) == (TailState.DAMAGED, 2)
    assert tail_of_again(disk) is TailState.DAMAGED


def test_recovery_twice_finds_what_it_found_once() -> None:
    disk = stored(20)
    disk.open(segments(disk)[-1]).append([b"torn"])
    first, _ = start(disk)
    once = (values(first), disk.files())
    second, recovered = restart(disk)
    assert (values(second), disk.files()) == once
    assert recovered.logs[0].tail is TailState.SUSPECT


def test_what_recovery_reports_is_durable_even_after_a_failed_sync_of_the_dead_process() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    disk.fail_next_sync("streams/7/0")
    run(engine, append(0, [b"a" * 100], 1))
    disk.kill()
    assert tail_of(disk) == (TailState.INTACT, 1)
    disk.power_loss(Random(0))
    assert tail_of(disk) == (TailState.INTACT, 1)


def test_the_mutant_that_reports_without_syncing_reports_what_the_power_takes() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    disk.fail_next_sync("streams/7/0")
    run(engine, append(0, [b"a" * 100], 1))
    disk.kill()
    mutant = Mutants(recovery_reports_unsynced=True)
    assert tail_of(disk, mutant) == (TailState.INTACT, 1)
    disk.power_loss(Random(0))
    assert tail_of(disk)[1] == 0


def test_the_mutant_that_takes_damage_for_a_torn_tail_calls_it_intact() -> None:
    disk = stored(20)
    disk.flip(segments(disk)[-1], 80, 0)
    assert tail_of(disk, Mutants(damage_as_torn_tail=True)) == (TailState.INTACT, 16)
    assert tail_of_again(disk) is TailState.INTACT


def test_the_hw_is_clamped_to_the_log_unless_the_mutant_forgets() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 7)
    run(engine, CheckpointHw(LOG, 7), append(7, [b"x"], 99))
    disk.kill()
    disk.flip(segments(disk)[1], FRAME + 70, 0)
    _, recovered = start(disk, Mutants(hw_not_clamped=True))
    assert (recovered.logs[0].leo, recovered.logs[0].hw) == (5, 7)
    _, recovered = restart(disk)
    assert (recovered.logs[0].leo, recovered.logs[0].hw) == (5, 5)


def test_an_unreadable_hw_checkpoint_counts_as_zero() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 3)
    run(engine, CheckpointHw(LOG, 3), append(3, [b"x"], 9))
    disk.kill()
    disk.flip("hw", 20, 0)
    _, recovered = start(disk)
    assert (recovered.logs[0].leo, recovered.logs[0].hw) == (4, 0)


def test_unfinished_files_are_removed() -> None:
    disk = stored(3)
    for path in ("vote.tmp", "streams/7/0/00000000000000000000.log.tmp"):
        disk.open(path, create=True).append([b"half"])
    start(disk)
    assert not [path for path in disk.files() if path.endswith(".tmp")]


def test_a_segment_without_batches_at_the_end_is_no_damage() -> None:
    disk = stored(4)
    disk.open(f"streams/7/0/{4:020d}.log", create=True)
    assert tail_of(disk) == (TailState.INTACT, 4)
    engine, _ = restart(disk)
    store(engine, 2, base=4)
    assert len(values(engine)) == 6


def test_all_partitions_are_reported_in_order() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    for log in (PartitionId(30, 0), PartitionId(4, 1), PartitionId(4, 0)):
        run(engine, open_log(log))
    _, recovered = restart(disk)
    assert [summary.log for summary in recovered.logs] == [(4, 0), (4, 1), (30, 0)]


def test_a_disk_that_fails_during_the_start_is_named() -> None:
    disk = stored(3)
    disk.fill()
    with pytest.raises(LiftlogError, match="make space or replace the disk"):
        start(disk)
    disk.fill(False)
    disk.kill()
    assert tail_of(disk) == (TailState.INTACT, 3)


# --- metadata (M4) ----------------------------------------------------------------------------------------


def voter() -> SimDisk:
    """A disk that has voted and holds three Raft entries of two batches, each synced."""
    disk = new_disk()
    engine, _ = start(disk)
    run(engine, SaveHardState(HardState(3, 1), Ticket(1)))
    run(engine, append(0, [b"one"], 2, epoch=2, log=RAFT_LOG))
    run(engine, append(1, [b"two", b"three"], 3, epoch=3, log=RAFT_LOG))
    run(engine, append(3, [b"four"], 4, epoch=3, log=RAFT_LOG))
    disk.kill()
    return disk


RAFT_SEGMENT = f"raft/{0:020d}.log"


def test_the_voters_memory_comes_back() -> None:
    _, recovered = start(voter())
    assert recovered.hard_state == HardState(3, 1)
    assert [(e.index, e.term, e.data) for e in recovered.raft_entries] == [
        (1, 2, b"one"), (2, 3, b"two"), (3, 3, b"three"), (4, 3, b"four"),
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["vote", "identity"])
@pytest.mark.parametrize("harm", ["flip", "cut", "empty", "remove"])
def test_a_state_file_that_cannot_be_read_is_never_taken_for_empty(path: str, harm: str) -> None:
    disk = voter()
    if harm == "flip":
        disk.flip(path, 17, 5)
    elif harm == "remove":
        disk.remove(path)
    else:
        disk.open(path).truncate(0 if harm == "empty" else 18)
    before = disk.files()
    why = f"damaged metadata: {path} byte .*rejoins the cluster as a new disk"
    if path == "vote":
        kept = given_up(disk, why)
        assert kept.content(f"quarantine/000001-{RAFT_SEGMENT}") == disk.content(RAFT_SEGMENT)
        return
    with pytest.raises(LiftlogError, match=why):
        start(disk)
    assert disk.files() == [*before, "lock"] or disk.files() == before, "nothing was deleted"


def test_swapped_state_files_are_detected() -> None:
    disk = voter()
    disk.rename("vote", "x")
    disk.rename("identity", "vote")
    disk.rename("x", "identity")
    with pytest.raises(LiftlogError, match="checksum"):
        start(disk)


def test_damage_in_the_raft_log_names_file_and_byte_and_changes_nothing() -> None:
    disk = voter()
    disk.flip(RAFT_SEGMENT, 70, 0)
    before = disk.content(RAFT_SEGMENT)
    kept = given_up(disk, f"damaged metadata: {RAFT_SEGMENT} byte 0: .*data folder away")
    assert kept.content(f"quarantine/000001-{RAFT_SEGMENT}") == before


def test_a_missing_raft_log_is_never_taken_for_empty() -> None:
    disk = voter()
    disk.remove_tree("raft")
    given_up(disk, "raft: the log is missing")


def test_M4_the_only_voter_gives_up_nothing() -> None:
    """Nobody could send it what it has lost."""
    disk = voter()
    engine, _ = start(disk)
    alone = HardState(3, 1, peer_disks=((1, "disk-1"),), born=True)
    run(engine, SaveHardState(alone, Ticket(9)))
    disk.kill()
    disk.flip(RAFT_SEGMENT, 70, 0)
    before = disk.content(RAFT_SEGMENT)
    for _ in range(2):
        with pytest.raises(LiftlogError, match=f"damaged metadata: {RAFT_SEGMENT} byte 0: .*folder away"):
            start(disk)
        assert disk.content(RAFT_SEGMENT) == before
        disk.kill()


def test_I2_a_disk_whose_vote_is_withheld_starts_as_another_voter() -> None:
    disk = voter()
    engine, _ = start(disk)
    run(engine, SaveHardState(HardState(3, 1, vote_withheld=True), Ticket(9)))
    disk.kill()
    given_up(disk, "set back")


def test_M4_a_renewal_that_dies_at_any_call_is_finished_by_the_next_start() -> None:
    """Whatever is left then, the disk never votes under the id under which it had promised something."""
    for call in range(1, 200):
        for power in (False, True):
            disk = new_disk(call)
            engine, _ = start(disk)
            run(engine, SaveHardState(HardState(3, 1), Ticket(1)), append(0, [b"one"], 2, log=RAFT_LOG))
            run(engine, OpenLog(LOG), append(0, [b"kept"], 3))
            disk.kill()
            disk.flip("vote", 17, 5)
            disk.crash_after(call)
            with pytest.raises(BaseException, match=r"call|dead") as caught:
                start(disk)
                pytest.fail("call: the start took fewer calls")
            if "fewer calls" in str(caught.value):
                assert call > 20
                return
            disk.power_loss(Random(call)) if power else disk.kill()
            engine, recovered = start(disk)
            assert recovered.hard_state == HardState() and recovered.raft_entries == []
            assert recovered.identity.vote_id and not recovered.identity.renewing
            assert [(log.log, log.leo) for log in recovered.logs] == [(LOG, 1)]
    raise AssertionError("a start that never ends")


def test_a_torn_tail_of_the_raft_log_is_cut() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    run(engine, append(0, [b"one"], 2, epoch=2, log=RAFT_LOG))
    engine.write([append(1, [b"two" * 100], 3, epoch=2, log=RAFT_LOG)])
    disk.kill()
    disk.flip(RAFT_SEGMENT, len(disk.content(RAFT_SEGMENT)) - 1, 0)
    _, recovered = start(disk)
    assert [entry.data for entry in recovered.raft_entries] == [b"one"]
    assert len(quarantined(disk)) == 1


def test_after_a_clean_stop_no_entry_of_the_raft_log_may_be_missing() -> None:
    disk = voter()
    engine, _ = start(disk)
    engine.close(True)
    disk.kill()
    disk.open(RAFT_SEGMENT).truncate(0)
    given_up(disk, "raft: entries are gone that the last stop recorded")


def test_a_start_that_dies_at_any_call_on_an_empty_disk_leaves_an_empty_disk() -> None:
    for call in range(1, 80):
        for power in (False, True):
            disk = new_disk(call)
            disk.crash_after(call)
            with pytest.raises(BaseException, match=r"call|dead") as caught:
                start(disk)
                pytest.fail("call: the start took fewer calls")
            if "fewer calls" in str(caught.value):
                return
            disk.power_loss(Random(call)) if power else disk.kill()
            engine, recovered = start(disk)
            assert recovered.hard_state == HardState() and recovered.identity.node == 1
            assert run(engine, append(0, [b"x"], 1, log=RAFT_LOG)) == durable(1)
    raise AssertionError("a start on an empty disk should take fewer calls")
