"""Changes of complete segments, options of a log, and what a start makes of their files (C3, D2-D5, R5)."""

from __future__ import annotations

import errno
import struct
from itertools import count
from random import Random

import pytest
from google_crc32c import extend as crc32c_extend
from google_crc32c import value as crc32c

from liftlog.format import decode_records, encode_records, encode_values
from liftlog.messages import (
    AppendLog,
    CheckpointHw,
    ConfigureLog,
    LogOpened,
    LogRead,
    LogStartMoved,
    MoveLogStart,
    ReadLog,
    RebuildLog,
    ResetLog,
    SaveHardState,
    StorageFailed,
    TruncateLog,
)
from liftlog.storage.engine import StorageEngine
from liftlog.storage.sealing import Sealer
from liftlog.types import (
    NO_TICKET,
    RAFT_LOG,
    EpochStart,
    HardState,
    LiftlogError,
    LogOptions,
    OffsetRange,
    Record,
    TailState,
    Ticket,
)
from liftlog_sim.devices.disk import SimDisk
from tests.storage.storage_harness import (
    LOG,
    SMALL,
    append,
    batch,
    durable,
    failures,
    given_up,
    new_disk,
    opened,
    quarantined,
    restart,
    run,
    segments,
    start,
    store,
    values,
)

FOLDER = "streams/7/0"
FRAME = len(batch(0, [b"0" + b"." * 60]).data)
OS = LogOptions(segment_bytes=600, durability="os")


def stored(records: int) -> tuple[SimDisk, StorageEngine]:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, records)
    return disk, engine


def numbers(engine: StorageEngine, offset: int = 0) -> list[int]:
    """The numbers that `store` has written, from an offset on."""
    return [int(value.split(b".")[0]) for value in values(engine, offset=offset)]


# ----- the log start (C3) -----


def test_C3_the_log_start_moves_durably_takes_whole_segments_and_never_goes_back() -> None:
    disk, engine = stored(20)
    assert run(engine, MoveLogStart(LOG, 6)) == [LogStartMoved(LOG, 6)]
    assert segments(disk)[0] == f"{FOLDER}/{4:020d}.log" and len(segments(disk)) == 4
    assert f"{FOLDER}/{0:020d}.index" not in disk.files()
    assert run(engine, MoveLogStart(LOG, 3)) == [LogStartMoved(LOG, 6)]
    for offset in (0, 5):
        (event,) = run(engine, ReadLog(LOG, 1, offset, 20, 9999))
        assert isinstance(event, LogRead) and "below the log start 6" in event.error and event.damage is None
    assert numbers(engine, 6) == list(range(6, 20))
    disk.power_loss(Random(0))
    engine, recovered = start(disk)
    assert (recovered.logs[0].log_start, recovered.logs[0].leo) == (6, 20)
    assert numbers(engine, 6) == list(range(6, 20))


def test_C3_a_purge_of_everything_frees_the_segment_that_grows_and_the_log_goes_on() -> None:
    disk, engine = stored(18)
    assert run(engine, MoveLogStart(LOG, 18)) == [LogStartMoved(LOG, 18)]
    assert segments(disk) == [f"{FOLDER}/{18:020d}.log"]
    store(engine, 3, base=18, epoch=2)
    _, recovered = restart(disk)
    summary = recovered.logs[0]
    assert (summary.log_start, summary.leo) == (18, 21)
    assert summary.epochs == (EpochStart(1, 0), EpochStart(2, 18)), "R6: what came before is not forgotten"


def test_R6_the_epochs_below_the_log_start_stay_known_over_restarts() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    for base, epoch in ((0, 1), (3, 2), (6, 4), (9, 7)):
        store(engine, 3, base, epoch)
    run(engine, MoveLogStart(LOG, 7))
    expected = (EpochStart(1, 0), EpochStart(2, 3), EpochStart(4, 6), EpochStart(7, 9))
    assert opened(engine).epochs == expected
    engine.close(True)
    _, recovered = restart(disk)
    assert recovered.clean and recovered.logs[0].epochs == expected
    engine, recovered = restart(disk)
    assert recovered.logs[0].epochs == expected
    run(engine, TruncateLog(LOG, 9, Ticket(1)))
    assert opened(engine).epochs == expected[:3]


def test_D5_a_purge_makes_space_on_a_disk_that_is_full() -> None:
    """The indexes of what goes make room for the new `start` file."""
    disk, engine = stored(20)
    disk.fill(free_bytes=0)
    assert failures(run(engine, append(20, [b"x" * 60], 1))) == [(1, False)]
    assert failures(run(engine, MoveLogStart(LOG, 20))) == [(NO_TICKET, False)]
    assert numbers(engine) == list(range(20)), "it failed as a whole"
    disk.fill(free_bytes=400)
    assert run(engine, MoveLogStart(LOG, 20)) == [LogStartMoved(LOG, 20)]
    disk.fill(False)
    assert run(engine, append(20, [b"x" * 60], 2)) == durable(2)
    _, recovered = restart(disk)
    assert (recovered.logs[0].log_start, recovered.logs[0].leo) == (20, 21)


@pytest.mark.parametrize("harm", ["missing", "flipped"])
@pytest.mark.parametrize("clean", [False, True])
def test_D3_a_log_without_a_good_start_file_is_damaged_and_keeps_its_records(harm: str, clean: bool) -> None:
    disk, engine = stored(20)
    engine.close(clean)
    disk.kill()
    if harm == "missing":
        disk.remove(f"{FOLDER}/start")
    else:
        disk.flip(f"{FOLDER}/start", 19, 1)
    for _ in range(2):
        engine, recovered = start(disk)
        assert (recovered.logs[0].tail, recovered.logs[0].leo) == (TailState.DAMAGED, 20)
        assert numbers(engine) == list(range(20))
        disk.kill()


def test_M4_an_empty_folder_with_a_bad_start_file_is_not_taken_for_a_new_log() -> None:
    disk, _ = stored(3)
    disk.kill()
    disk.flip(f"{FOLDER}/start", 19, 1)
    disk.remove(segments(disk)[0])
    for _ in range(2):
        _, recovered = start(disk)
        assert (recovered.logs[0].leo, recovered.logs[0].tail) == (0, TailState.DAMAGED)
        disk.kill()


def test_M4_a_raft_log_without_a_good_start_file_is_never_taken_for_whole() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    run(engine, SaveHardState(HardState(3, 1), Ticket(1)), append(0, [b"entry"], 2, log=RAFT_LOG))
    for harm in ("flip", "remove"):
        disk.kill()
        if harm == "flip":
            disk.flip("raft/start", 19, 1)
        else:
            disk.remove("raft/start")
        given_up(disk, "damaged metadata: raft/start byte")


def test_M4_damage_in_any_segment_of_the_raft_log_gives_it_up() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    run(engine, SaveHardState(HardState(3, 1), Ticket(1)))
    for offset in range(12):
        run(engine, append(offset, [b"%d" % offset + b"." * 60], 2, log=RAFT_LOG))
    engine.close(True)
    disk.kill()
    path = f"raft/{4:020d}.log"
    before = disk.content(path)
    disk.flip(path, 100, 1)
    given_up(disk, f"damaged metadata: {path} byte 0: .*data folder away")
    disk.flip(path, 100, 1)
    disk.remove(path)
    given_up(disk, "damaged metadata: raft/")
    file = disk.open(path, create=True)
    file.append([before])
    disk.kill()
    assert len(start(disk)[1].raft_entries) == 12, "what was put back is taken"


# ----- reset -----


@pytest.mark.parametrize("target", [50, 20, 7])
def test_C3_a_reset_log_begins_anew_where_it_was_told_to(target: int) -> None:
    disk, engine = stored(20)
    run(engine, CheckpointHw(LOG, 15))
    epochs = (EpochStart(1, 0), EpochStart(4, 6))
    assert run(engine, ResetLog(LOG, target, epochs, Ticket(9))) == durable(9)
    assert segments(disk) == [f"{FOLDER}/{target:020d}.log"]
    run(engine, append(target, [b"%d" % target], 1, epoch=5))
    disk.power_loss(Random(3))
    engine, recovered = start(disk)
    summary = recovered.logs[0]
    assert (summary.log_start, summary.leo, summary.tail) == (target, target + 1, TailState.INTACT)
    assert summary.epochs == (*epochs, EpochStart(5, target)) and summary.hw <= target
    assert numbers(engine, target) == [target]


def test_R5_a_reset_that_failed_half_way_is_finished_by_the_rebuild_and_not_undone_by_a_restart() -> None:
    for call in ("remove", "sync", "rename", "open", "append"):
        for number in range(1, 9):
            disk, engine = stored(9)
            for _ in range(number):
                disk.fail_next(call, errno.EIO, FOLDER)
            if not failures(run(engine, ResetLog(LOG, 50, (EpochStart(1, 0),), Ticket(9)))):
                continue
            disk.kill() if number % 2 else None
            if number % 2:
                engine, recovered = start(disk)
                leo = recovered.logs[0].leo
            else:
                events = run(engine, RebuildLog(LOG, 9))
                while not isinstance(events[0], LogOpened):
                    events = run(engine, RebuildLog(LOG, 9))
                leo = events[0].summary.leo
            assert leo in (9, 50), f"{call} {number}"
            assert run(engine, append(leo, [b"1"], 3, epoch=8)) == durable(3)
            _, recovered = restart(disk)
            assert recovered.logs[0].leo == leo + 1, "what was appended later stays"


# ----- durability "os" (R5) -----


def test_R5_with_durability_os_a_write_counts_without_a_sync_and_an_unclean_stop_makes_the_tail_suspect() -> (
    None
):
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine, options=OS)
    engine.write([append(0, [b"a"], 1)])
    calls = disk.calls
    assert engine.sync() == durable(1) and disk.calls == calls
    assert engine.log_ends()[LOG] == (1, 1)
    run(engine, append(1, [b"b"], 2))
    (event,) = run(engine, ReadLog(LOG, 1, 0, 9, 9999))
    assert isinstance(event, LogRead)
    stamps = [struct.unpack_from("<Q", one.data)[0] for one in event.batches]
    assert stamps == [0, 0], "R14: only what was truly synced is stamped"
    _, recovered = restart(disk)
    assert (recovered.logs[0].leo, recovered.logs[0].tail) == (2, TailState.SUSPECT)


def test_R5_with_durability_os_complete_segments_are_synced_and_a_clean_stop_is_clean() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine, options=OS)
    store(engine, 11)
    disk.power_loss(Random(4))
    engine, recovered = start(disk)
    assert recovered.logs[0].leo >= 8 and recovered.logs[0].tail is TailState.SUSPECT
    engine.close(True)
    _, recovered = restart(disk)
    assert recovered.clean and recovered.logs[0].tail is TailState.SUSPECT, "until somebody has heard of it"


def test_R5_a_log_that_begins_to_sync_again_syncs_what_it_had_called_durable() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine, options=OS)
    store(engine, 3)
    assert run(engine, ConfigureLog(LOG, LogOptions(segment_bytes=600))) == []
    disk.power_loss(Random(1))
    engine, recovered = start(disk)
    assert (recovered.logs[0].leo, recovered.logs[0].tail) == (3, TailState.INTACT)


def test_D5_durability_os_counts_only_once_the_next_start_will_know_of_it() -> None:
    disk, engine = stored(3)
    disk.fail_next("append", errno.ENOSPC, "start.tmp")
    run(engine, ConfigureLog(LOG, OS))
    assert run(engine, append(3, [b"x"], 9)) == durable(9)
    disk.power_loss(Random(1))
    _, recovered = start(disk)
    assert (recovered.logs[0].leo, recovered.logs[0].tail) == (4, TailState.INTACT)


# ----- what disks do (D2, D3, D5) -----


@pytest.mark.parametrize("number", range(1, 5))
def test_D5_an_index_that_cannot_be_written_ends_nothing(number: int) -> None:
    for operation in ("append", "sync", "rename", "open"):
        disk = new_disk()
        engine, _ = start(disk)
        opened(engine)
        for _ in range(number):
            disk.fail_next(operation, errno.ENOSPC, ".index")
        store(engine, 20)
        assert numbers(engine) == list(range(20))
        _, recovered = restart(disk)
        assert (recovered.logs[0].leo, recovered.logs[0].damage) == (20, ())
        assert f"{FOLDER}/{0:020d}.index" in disk.files(), "the start has made it anew"


def test_D3_a_damage_file_that_cannot_be_read_makes_the_start_look_at_everything() -> None:
    disk, engine = stored(20)
    disk.flip(segments(disk)[1], FRAME + 90, 1)
    disk.flip(segments(disk)[3], 90, 1)
    run(engine, ReadLog(LOG, 1, 5, 20, 99))
    disk.kill()
    disk.flip(f"{FOLDER}/damage", 18, 1)
    _, recovered = start(disk)
    assert recovered.logs[0].damage == (OffsetRange(5, 6), OffsetRange(12, 13))


def test_D2_damage_that_is_cut_away_or_purged_is_no_damage_any_more() -> None:
    disk, engine = stored(20)
    for number in (1, 3):
        disk.flip(segments(disk)[number], 90, 1)
        (event,) = run(engine, ReadLog(LOG, 1, 4 * number, 20, 99))
        assert isinstance(event, LogRead) and event.damage == OffsetRange(4 * number, 4 * number + 1)
    assert opened(engine).damage == (OffsetRange(4, 5), OffsetRange(12, 13))
    run(engine, TruncateLog(LOG, 12, Ticket(1)))
    assert opened(engine).damage == (OffsetRange(4, 5),)
    run(engine, MoveLogStart(LOG, 5))
    assert opened(engine).damage == ()
    store(engine, 3, base=12, epoch=2)
    _, recovered = restart(disk)
    assert (recovered.logs[0].damage, recovered.logs[0].leo) == ((), 15)


def test_D2_a_log_cut_inside_a_damaged_segment_completes_it_so_that_it_can_be_repaired() -> None:
    disk, engine = stored(12)
    disk.flip(segments(disk)[1], 90, 1)
    run(engine, ReadLog(LOG, 1, 4, 12, 99))
    run(engine, TruncateLog(LOG, 6, Ticket(1)))
    assert segments(disk)[-1] == f"{FOLDER}/{6:020d}.log"
    store(engine, 3, base=6, epoch=2)
    for _ in range(2):
        engine, recovered = restart(disk)
        assert (recovered.logs[0].damage, recovered.logs[0].leo) == ((OffsetRange(4, 5),), 9)
    assert len(values(engine, offset=5)) == 4


def test_D2_a_segment_file_that_vanishes_under_a_running_node_is_damage_of_its_range() -> None:
    disk, engine = stored(20)
    disk.remove(segments(disk)[2])
    (event,) = run(engine, ReadLog(LOG, 1, 9, 20, 9999))
    assert isinstance(event, LogRead) and event.damage == OffsetRange(8, 12)
    assert numbers(engine, 12) == list(range(12, 20))


def test_R14_unreadable_sectors_of_the_last_group_are_cut_and_quarantined_as_bad_bytes_are() -> None:
    disk, engine = stored(2)
    engine.write([append(2, [b"x" * 600], 9)])
    disk.kill()
    disk.unreadable(segments(disk)[-1], 2 * FRAME + 300, 10)
    _, recovered = start(disk)
    assert (recovered.logs[0].leo, recovered.logs[0].tail) == (2, TailState.SUSPECT)
    assert len(quarantined(disk)) == 1


def test_D3_small_files_that_cannot_be_read_are_bad_and_end_no_start() -> None:
    disk, engine = stored(20)
    run(engine, CheckpointHw(LOG, 20))
    engine.close(True)
    disk.kill()
    disk.unreadable(f"{FOLDER}/{4:020d}.index", 0, 10)
    disk.unreadable("hw", 0, 10)
    _, recovered = start(disk)
    assert (recovered.logs[0].leo, recovered.logs[0].tail) == (20, TailState.CLEAN)
    assert recovered.logs[0].hw == 0
    disk.kill()
    disk.unreadable(f"{FOLDER}/start", 0, 10)
    _, recovered = start(disk)
    assert (recovered.logs[0].leo, recovered.logs[0].tail) == (20, TailState.DAMAGED)
    disk.kill()
    disk.unreadable("vote", 0, 10)
    _, recovered = start(disk)
    assert "damaged metadata: vote" in recovered.renewed


def test_D4_foreign_files_and_folders_are_left_alone() -> None:
    disk, engine = stored(9)
    engine.close(True)
    disk.kill()
    foreign = ["notes.txt", f"{0:020d}.log.orig", "123.log", "x.index", ".DS_Store"]
    for name in foreign:
        disk.open(f"{FOLDER}/{name}", create=True).append([b"mine"])
    for _ in range(2):
        engine, recovered = start(disk)
        assert (recovered.logs[0].leo, recovered.logs[0].tail) == (9, TailState.CLEAN)
        run(engine, ResetLog(LOG, 0, (), Ticket(1)))
        store(engine, 9)
        engine.close(True)
        disk.kill()
    assert {f"{FOLDER}/{name}" for name in foreign} <= set(disk.files())


# ----- batches of a newer version -----


def newer(frame: bytes) -> bytes:
    """The same batch as a program of format version 99 would have written it: both checksums match."""
    body = bytearray(frame)
    body[22] = 99
    crc = crc32c_extend(crc32c(struct.pack("<QII", LOG[0], LOG[1], len(frame) - 16)), bytes(body[20:]))
    body[16:20] = struct.pack("<I", crc)
    body[8:12] = struct.pack("<I", crc32c(bytes(body[:8] + body[16:20])))
    return bytes(body)


def test_D1_a_batch_of_a_newer_version_in_the_last_segment_stops_the_start_and_is_never_cut() -> None:
    disk, _ = stored(2)
    disk.kill()
    path = segments(disk)[0]
    disk.open(path).append([newer(batch(2, [b"new"]).data)])
    before = disk.content(path)
    with pytest.raises(LiftlogError, match=f"{path} byte {2 * FRAME}: .*version 99.*upgrade liftlog"):
        start(disk)
    assert disk.content(path) == before and quarantined(disk) == []


def test_D1_a_batch_of_a_newer_version_in_a_complete_segment_is_an_error_and_no_damage() -> None:
    disk, engine = stored(9)
    path = segments(disk)[0]
    content = disk.content(path)
    disk.overwrite(path, FRAME, newer(content[FRAME : 2 * FRAME]))
    (event,) = run(engine, ReadLog(LOG, 1, 1, 9, 99))
    assert isinstance(event, LogRead) and "upgrade liftlog" in event.error and event.damage is None
    assert opened(engine).damage == () and quarantined(disk) == []


# ----- encryption at rest -----


def sealer(key: bytes = b"k" * 32) -> Sealer:
    numbers = count(1)
    return Sealer(key, lambda: next(numbers).to_bytes(12, "little"))


def sealed_start(disk: SimDisk, key: bytes = b"k" * 32) -> StorageEngine:
    disk.kill()
    engine = StorageEngine(disk, SMALL, sealer=sealer(key))
    engine.recover(1, "disk-1", 1)
    return engine


def test_a_sealed_log_is_read_cut_inside_a_batch_and_recovered_as_an_open_one() -> None:
    disk = new_disk()
    engine = sealed_start(disk)
    opened(engine)
    run(engine, append(0, [b"entry of the raft log"], 1, log=RAFT_LOG))
    for base in range(0, 24, 3):
        records = [Record(base + i, 1000, b"s", b"", b"", None, b"secret%d" % (base + i)) for i in range(3)]
        run(engine, AppendLog(LOG, [encode_records(LOG, 1, records)], Ticket(1)))
    assert len(segments(disk)) > 2
    assert not [
        path for path in disk.files() if b"secret" in disk.content(path) or b"entry" in disk.content(path)
    ]
    run(engine, TruncateLog(LOG, 19, Ticket(1)))
    for _ in range(2):
        assert values(engine) == [b"secret%d" % offset for offset in range(19)]
        (event,) = run(engine, ReadLog(LOG, 1, 3, 9, 9999))
        assert isinstance(event, LogRead) and decode_records(event.batches[0])[0].offset == 3
        disk.power_loss(Random(2))
        engine = sealed_start(disk)
    assert opened(engine).damage == ()


def test_a_wrong_or_missing_key_is_an_error_at_the_start_and_never_damage() -> None:
    disk = new_disk()
    engine = sealed_start(disk)
    opened(engine)
    run(engine, AppendLog(LOG, [encode_values(LOG, 0, 1, 5, [b"x"])], Ticket(1)))
    before = disk.files()
    with pytest.raises(LiftlogError, match="encrypted with another key"):
        sealed_start(disk, b"w" * 32)
    disk.kill()
    with pytest.raises(LiftlogError, match="no key was given"):
        start(disk)
    assert [path for path in disk.files() if path != "lock"] == [path for path in before if path != "lock"]
    assert values(sealed_start(disk)) == [b"x"]


# ----- failures on the way -----


def test_a_job_on_a_failed_log_fails_and_changes_nothing() -> None:
    disk, engine = stored(9)
    disk.fail_next_sync(FOLDER)
    run(engine, append(9, [b"x"], 1))
    before = disk.files()
    events = run(engine, MoveLogStart(LOG, 5), ResetLog(LOG, 50, (), Ticket(2)))
    assert failures(events) == [(NO_TICKET, True), (2, True)]
    assert all(isinstance(event, StorageFailed) for event in events) and disk.files() == before
