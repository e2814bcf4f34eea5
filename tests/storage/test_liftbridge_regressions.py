"""Defects that the public Liftbridge had, or has: each one's storage side, by its number.

N1 to N8 were found by reading and running its version 1.9.0, the others are issues that its users reported.
What belongs to replication and metadata (N6-N8, #243, #354, #383) is tested beside the core.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from random import Random

import pytest

from liftlog.epochs import EpochHistory
from liftlog.format import (
    CorruptBatch,
    UnsupportedBatch,
    decode_records,
    parse_batch,
    read_header,
    verify_frame,
)
from liftlog.messages import (
    CheckpointHw,
    Durable,
    LogOpened,
    LogRead,
    LookupTime,
    MoveLogStart,
    OpenLog,
    ReadLog,
    RetainLog,
    SaveHardState,
    TimeFound,
    TruncateLog,
)
from liftlog.storage.engine import StorageEngine
from liftlog.storage.statefile import write_state
from liftlog.types import (
    EpochStart,
    HardState,
    LiftlogError,
    RetentionPolicy,
    TailState,
    Ticket,
)
from liftlog_sim.devices.disk import SimDisk, SimulatedCrash
from tests.storage.storage_harness import (
    LOG,
    append,
    batch,
    given_up,
    new_disk,
    opened,
    restart,
    run,
    segments,
    start,
    store,
    values,
)
from tests.storage.twin import TINY, Twin

FOLDER = f"streams/{LOG[0]}/{LOG[1]}"


def stored(count: int, hw: int = 0, size: int = 60) -> tuple[SimDisk, StorageEngine]:
    """A disk whose log holds `count` synced batches of one record, in several segments."""
    disk = new_disk()
    engine, _ = start(disk)
    (event,) = run(engine, OpenLog(LOG, options=TINY))
    assert isinstance(event, LogOpened)
    store(engine, count, size=size)
    if hw:
        run(engine, CheckpointHw(LOG, hw))
    return disk, engine


def keyed(count: int = 24) -> Twin:
    """A log of several segments in which three keys come back again and again."""
    twin = Twin()
    twin.begin()
    twin.do(OpenLog(LOG, options=TINY))
    for i in range(count):
        twin.do(twin.append((b"abc"[i % 3 :][:1], b"%d" % i + b"." * 60)))
    twin.do(CheckpointHw(LOG, twin.model.end))
    return twin


# ----- N1: the epoch history of a leader and of a follower differ -----


def test_N1_the_history_is_the_same_for_who_led_and_who_followed_before_and_after_a_restart() -> None:
    """There: leading noted the last offset of the old epoch, following the first of the new one."""
    leader_disk, leader = stored(0)
    for offset, epoch in ((0, 1), (1, 1), (2, 3), (3, 3), (4, 4)):
        run(leader, append(offset, [b"%d" % offset * 30], 1, epoch))
    (event,) = run(leader, ReadLog(LOG, 1, 0, 5, 1 << 20))
    assert isinstance(event, LogRead)
    follower_disk, follower = stored(0)
    for one in event.batches:
        run(follower, append(one.base_offset, [r.value or b"" for r in decode_records(one)], 1, one.epoch))
    expected = (EpochStart(1, 0), EpochStart(3, 2), EpochStart(4, 4))
    assert opened(leader).epochs == opened(follower).epochs == expected
    for disk in (leader_disk, follower_disk):
        for _ in range(2):
            _, recovered = restart(disk)
            assert recovered.logs[0].epochs == expected
    history = EpochHistory(expected)
    assert [history.floor(epoch, 5) for epoch in (1, 2, 3, 4)] == [(1, 2), (1, 2), (3, 4), (4, 5)]


def test_N1_truncation_and_a_moved_log_start_leave_the_history_exact() -> None:
    disk, engine = stored(0)
    for offset in range(12):
        run(engine, append(offset, [b"%d" % offset * 40], 1, 1 + offset // 3))
    run(engine, TruncateLog(LOG, 10, Ticket(1)), MoveLogStart(LOG, 7))
    assert epoch_of_each(opened(engine).epochs, range(6, 10)) == [3, 3, 3, 4]
    _, recovered = restart(disk)
    assert epoch_of_each(recovered.logs[0].epochs, range(6, 10)) == [3, 3, 3, 4], "one before the start too"


def epoch_of_each(epochs: tuple[EpochStart, ...], offsets: range) -> list[int]:
    return [EpochHistory(epochs).epoch_before(offset + 1) for offset in offsets]


# ----- N2: a short message with the right first bytes -----


def short_frames() -> list[bytes]:
    """Every prefix of a good frame up to two headers, and eight bytes that promise two hundred."""
    whole = batch(0, [b"x" * 300]).data
    promises = [b"\xb9\x0e\x43\xb4" + bytes((0, length, 0, 0)) for length in (8, 12, 200, 255)]
    return [whole[:length] for length in range(128)] + promises


@pytest.mark.parametrize("parse", [parse_batch, verify_frame])
def test_N2_no_short_message_breaks_the_parser(parse: object) -> None:
    """There: eight bytes with the magic and a header length of 200 ended the process."""
    for data in short_frames():
        with pytest.raises(CorruptBatch):
            parse(LOG, data)  # type: ignore[operator]


def test_N2_every_eight_bytes_of_a_frame_may_lie() -> None:
    """Any eight bytes overwritten with great, small and odd numbers: an error, never a crash."""
    whole = batch(3, [b"value", b"w" * 40]).data
    lies = [b"\xff" * 8, bytes(8), b"\x7f" * 8, b"\x80" + bytes(7), struct.pack("<Q", 200)]
    for at in range(len(whole) - 7):
        for lie in lies:
            data = whole[:at] + lie + whole[at + 8 :]
            if data == whole:
                continue
            # A header alone cannot tell a newer version from a flipped bit; the whole frame can.
            with suppress(CorruptBatch, UnsupportedBatch):
                read_header(data)
            try:
                accepted = parse_batch(LOG, data)
            except CorruptBatch:
                continue
            # `synced_below` is this replica's own (its checksum tells of damage, not of a lie).
            assert accepted.data[16:] == whole[16:]


def test_N2_a_segment_that_is_shorter_than_a_header_is_a_torn_tail_at_every_length() -> None:
    for data in short_frames()[1:]:
        disk, _ = stored(2)
        disk.kill()
        file = disk.open(segments(disk)[-1])
        file.append([data])
        file.sync()
        engine, recovered = restart(disk)
        assert (recovered.logs[0].leo, recovered.logs[0].tail) == (2, TailState.SUSPECT)
        assert len(values(engine)) == 2


# ----- N3, #321, #225: compaction -----


def test_N3_what_a_half_done_compaction_left_is_never_continued() -> None:
    """There: a left-over `.cleaned` file was opened again in append mode, and offsets appeared twice."""
    twin = keyed()
    # It stops after a few slices, with its unfinished output on the disk.
    twin.disk.kill()
    twin.recover()
    calls = 0
    while not any(path.endswith(".tmp") for path in twin.disk.files()):
        calls += 1
        assert calls < 500, "no compaction ever has an unfinished output"
        twin.disk.crash_after(calls)
        crash_in_compaction(twin)
    left = [path for path in twin.disk.files() if path.endswith(".tmp")]
    twin.kill()
    twin.recover()
    assert not set(left) & set(twin.disk.files())
    twin.compact()
    twin.check_running()
    twin.kill()
    twin.recover()


def crash_in_compaction(twin: Twin) -> None:
    try:
        twin.compact(max_bytes=200)
    except SimulatedCrash:
        if not any(path.endswith(".tmp") for path in twin.disk.files()):
            twin.kill()
            twin.recover()


@pytest.mark.parametrize("below", range(25))
def test_321_compaction_may_end_at_any_offset(below: int) -> None:
    """There: a compaction with its bound in an unexpected segment ended the process."""
    twin = keyed()
    twin.compact(below)
    twin.check_running()
    assert twin.model.clean_point.low <= below
    twin.kill()
    twin.recover()


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_321_compaction_of_a_log_with_little_or_nothing_to_do(count: int) -> None:
    twin = keyed(count)
    twin.compact()
    twin.compact(0)
    twin.check_running()


def test_225_every_offset_can_be_read_after_compaction_and_after_retention() -> None:
    """There: a reader at an offset whose record or segment was gone got "segment not found"."""
    twin = keyed(30)
    twin.compact()
    end = twin.model.end
    for offset in range(end):
        event = twin.read(offset, max_bytes=1)
        assert not event.error and event.batches, "an offset whose record is gone leads to the next one"
    for i in range(12):
        twin.do(twin.append(b"%d" % i + b"." * 60))
    end = twin.model.end
    twin.do(RetainLog(LOG, RetentionPolicy(retention_messages=9), end, twin.now_ms))
    start = twin.model.log_start
    assert start > 0
    for offset in range(end):
        event = twin.read(offset, max_bytes=1)
        assert bool(event.error) == (offset < start)
        assert "log start" in event.error or not event.error
    assert not twin.read(end).batches and not twin.read(end).error
    twin.do(MoveLogStart(LOG, end))
    assert not twin.read(end).batches and not twin.read(end).error
    twin.do(twin.append(b"the log goes on"))
    twin.check_running()


# ----- N4, #411, #440: damaged bytes at the start -----


def test_N4_a_bit_flip_anywhere_in_a_segment_never_breaks_the_start_or_a_read() -> None:
    """There: the process ended at the next read of a flipped or torn record."""
    disk, _ = stored(6)
    whole = {path: disk.content(path) for path in segments(disk)}
    for path, content in whole.items():
        for byte in range(0, len(content), 3):
            disk, _ = stored(6)
            disk.flip(path, byte, byte % 8)
            engine, recovered = restart(disk)
            summary = recovered.logs[0]
            (event,) = run(engine, ReadLog(LOG, 1, 0, 6, 1 << 20))
            assert isinstance(event, LogRead)
            told = summary.tail in (TailState.SUSPECT, TailState.DAMAGED) or summary.damage
            read = {r.offset for one in event.batches for r in decode_records(one)}
            assert read == set(range(6)) or told or event.error or max(read) < 5


def damaged_indexes() -> dict[str, bytes]:
    """By name, what takes the place of an index."""
    noise = Random(1).randbytes(500)
    return {"empty": b"", "zeros": bytes(4096), "noise": noise, "short": b"LIFT", "long": b"\xff" * 9999}


@pytest.mark.parametrize("name", sorted(damaged_indexes()))
@pytest.mark.parametrize("clean", [True, False])
def test_411_440_a_corrupt_index_is_rebuilt_and_never_fatal(name: str, clean: bool) -> None:
    """There: an index of zeros or with a torn entry ended the process at the start."""
    disk, engine = stored(20)
    engine.close(clean)
    disk.kill()
    indexes = [path for path in disk.files() if path.endswith(".index")]
    assert len(indexes) >= 3
    for path in indexes:
        disk.remove(path)
        file = disk.open(path, create=True)
        file.append([damaged_indexes()[name]])
        file.sync()
        disk.sync_directory(FOLDER)
    engine, recovered = restart(disk)
    assert (recovered.logs[0].leo, recovered.logs[0].damage) == (20, ())
    assert recovered.logs[0].tail is (TailState.CLEAN if clean else TailState.INTACT)
    assert len(values(engine)) == 20
    store(engine, 3, base=20)
    engine, recovered = restart(disk)
    assert len(values(engine)) == 23


def test_411_an_index_of_another_segment_is_not_believed() -> None:
    disk, engine = stored(20)
    engine.close(True)
    disk.kill()
    indexes = [path for path in disk.files() if path.endswith(".index")]
    disk.rename(indexes[0], indexes[1])
    disk.sync_directory(FOLDER)
    engine, recovered = restart(disk)
    assert recovered.logs[0].leo == 20 and len(values(engine)) == 20


# ----- N5, #333, #337, #395: the HW checkpoint -----


def test_N5_a_stored_HW_above_the_LEO_is_damage_and_is_clamped() -> None:
    """There: a follower stored an HW above its LEO, and whoever subscribed got "segment not found"."""
    disk, engine = stored(6, hw=6)
    path = "hw"
    content = disk.content(path)[16:]
    disk.kill()
    write_state(disk, path, content.replace(b"\x06", b"\x63"))
    disk.kill()
    engine, recovered = restart(disk)
    summary = recovered.logs[0]
    assert (summary.leo, summary.hw, summary.tail) == (6, 6, TailState.DAMAGED)
    (event,) = run(engine, ReadLog(LOG, 1, summary.hw, summary.hw, 1000))
    assert event == LogRead(LOG, 1, [])


@pytest.mark.parametrize("length", range(16))
def test_333_an_empty_or_short_HW_file_costs_a_little_time_and_nothing_else(length: int) -> None:
    """There: a node whose HW file was empty after a crash did not start any more."""
    disk, engine = stored(6, hw=6)
    disk.kill()
    file = disk.open("hw")
    file.truncate(length)
    file.sync()
    engine, recovered = restart(disk)
    assert (recovered.logs[0].leo, recovered.logs[0].hw, recovered.logs[0].tail) == (6, 0, TailState.INTACT)
    assert len(values(engine)) == 6
    run(engine, CheckpointHw(LOG, 5))
    _, recovered = restart(disk)
    assert recovered.logs[0].hw == 5


def test_333_no_crash_leaves_the_HW_file_empty() -> None:
    """Whatever a power loss keeps of a checkpoint, it is one that was written, whole."""
    for seed in range(60):
        disk, engine = stored(6, hw=2)
        engine.write([CheckpointHw(LOG, 6)])
        disk.crash_after(1 + seed % 9)
        with suppress(SimulatedCrash):
            engine.sync()
        disk.power_loss(Random(seed))
        _, recovered = start(disk)
        assert recovered.logs[0].hw in (2, 6)


def test_337_395_the_HW_checkpoint_does_not_go_back_over_any_restart() -> None:
    """There: the HW of a restarted server was lower than before, and cursors stepped back with it."""
    disk, engine = stored(1)
    hw = 0
    for offset in range(1, 12):
        assert run(engine, append(offset, [b"%d" % offset * 30], 1)) == [Durable(Ticket(1))]
        run(engine, CheckpointHw(LOG, offset))
        if offset % 3 == 0:
            engine.close(offset % 2 == 0)
        if offset % 4 == 0:
            disk.power_loss(Random(offset))
        engine, recovered = restart(disk)
        assert recovered.logs[0].hw == offset > hw
        hw = offset


# ----- #323: timestamps -----


def test_323_a_time_at_the_end_of_an_idle_log_has_an_answer() -> None:
    """There: seeking the present time in a log without newer records failed with end-of-file."""
    disk, engine = stored(9)
    for _ in range(2):
        assert time_of(engine, 1008) == 8
        assert time_of(engine, 1009) == 9, "nothing is that young: the next record will be"
        assert time_of(engine, 1 << 50) == 9
        assert time_of(engine, 0) == time_of(engine, -(1 << 50)) == 0
        engine, _ = restart(disk)
    run(engine, MoveLogStart(LOG, 9))
    assert time_of(engine, 0) == time_of(engine, 1 << 50) == 9
    store(engine, 1, base=9)
    assert time_of(engine, 0) == time_of(engine, 1009) == 9


def test_323_a_time_in_an_empty_log_has_an_answer() -> None:
    _, engine = stored(0)
    assert time_of(engine, 0) == time_of(engine, 1 << 50) == 0


def time_of(engine: StorageEngine, timestamp_ms: int) -> int:
    (event,) = engine.write([LookupTime(LOG, 1, timestamp_ms)])
    assert isinstance(event, TimeFound), event
    return event.offset


# ----- #414: a damaged state at the restart -----


@pytest.mark.parametrize("path", ["identity", "vote", "raft/00000000000000000000.log"])
@pytest.mark.parametrize("what", ["flipped", "cut", "empty", "gone"])
def test_414_damaged_metadata_at_a_restart_is_one_clear_error(path: str, what: str) -> None:
    """There: restoring a snapshot or state that could not be read ended in a panic with a stack trace."""
    twin = Twin()
    twin.begin()
    twin.do(twin.entries(b"one"), twin.vote(3))
    twin.do(twin.entries(b"two"))
    twin.do(twin.entries(b"three"))
    twin.close()
    disk = twin.disk
    disk.kill()
    if what == "flipped":
        disk.flip(path, 20, 1)
    elif what == "gone":
        disk.remove(path)
        disk.sync_directory(path.rpartition("/")[0])
    else:
        file = disk.open(path)
        file.truncate(0 if what == "empty" else file.size() // 2)
        file.sync()
    disk.kill()
    why = f"damaged metadata: .*{path.partition('/')[0]}.*empty one"
    if path != "identity":
        given_up(disk, why)
        return
    with pytest.raises(LiftlogError, match=why):
        start(disk)


def test_414_a_state_of_the_right_form_and_the_wrong_content_is_one_clear_error() -> None:
    disk, engine = stored(1)
    run(engine, SaveHardState(HardState(2, 1), Ticket(5)))
    engine.close(True)
    disk.kill()
    for content in (b"", b"\xc1", b"\x90", b"\x81\xa4term\xa5seven"):
        write_state(disk, "vote", content)
        disk.kill()
        given_up(disk, "damaged metadata: vote byte 16")


def test_the_logs_of_these_tests_have_several_segments() -> None:
    disk, _ = stored(20)
    assert len(segments(disk)) > 3
    assert len(segments(keyed().disk)) > 3
