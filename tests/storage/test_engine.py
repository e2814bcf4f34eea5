"""What storage promises while the node runs: groups, tickets, reads, truncation, refusals (R5, D5)."""

from __future__ import annotations

import errno

import pytest

from liftlog.format import decode_records, encode_messages, encode_values, read_header
from liftlog.messages import (
    AppendLog,
    CheckpointHw,
    Durable,
    LogOpened,
    LogRead,
    LookupTime,
    MetadataStalled,
    MoveLogStart,
    ReadLog,
    RebuildLog,
    RetryMetadata,
    SaveHardState,
    SaveIdentity,
    TimeFound,
    TrashLog,
    TruncateLog,
)
from liftlog.mutants import Mutants
from liftlog.types import (
    NO_TICKET,
    RAFT_LOG,
    EpochStart,
    HardState,
    Identity,
    InvariantViolation,
    Message,
    OffsetRange,
    PartitionId,
    TailState,
    Ticket,
)
from tests.storage.storage_harness import (
    LOG,
    OTHER,
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


def test_a_ticket_is_durable_only_after_the_sync_phase() -> None:
    engine, _ = start(new_disk())
    opened(engine)
    assert engine.write([append(0, [b"a"], 1)]) == []
    assert engine.log_ends()[LOG] == (1, 0)
    assert engine.sync() == durable(1)
    assert engine.log_ends()[LOG] == (1, 1)


def test_a_group_costs_one_sync_per_log_and_answers_in_order() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    opened(engine, OTHER)
    engine.write([append(0, [b"a"], 1), append(0, [b"x"], 2, log=OTHER), append(1, [b"b", b"c"], 3)])
    before = disk.calls
    assert engine.sync() == durable(1, 2, 3)
    assert disk.calls - before == 2


def test_each_batch_says_how_far_the_log_was_durable_when_it_was_written() -> None:
    engine, _ = start(new_disk())
    opened(engine)
    engine.write([append(0, [b"a"], 1), append(1, [b"b"], 2)])
    engine.sync()
    run(engine, append(2, [b"c"], 3))
    (event,) = run(engine, ReadLog(LOG, 1, 0, 9, 9999))
    assert isinstance(event, LogRead)
    assert [read_header(one.data).synced_below for one in event.batches] == [0, 0, 2]


def test_reads_return_whole_batches_below_the_limit_and_at_least_one() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    for base in range(0, 30, 3):
        run(engine, append(base, [b"%d" % (base + i) for i in range(3)], base + 1))
    assert len(segments(disk)) > 1

    def read(offset: int, limit: int, max_bytes: int) -> list[tuple[int, int]]:
        (event,) = run(engine, ReadLog(LOG, 5, offset, limit, max_bytes))
        assert isinstance(event, LogRead) and event.error == "" and event.request == 5
        return [(one.base_offset, one.end_offset) for one in event.batches]

    assert read(4, 30, 1) == [(3, 6)], "at least one, from the one that holds the offset"
    assert read(0, 30, 1 << 20) == [(i, i + 3) for i in range(0, 30, 3)]
    assert read(0, 9, 1 << 20) == [(0, 3), (3, 6), (6, 9)]
    assert read(0, 8, 1 << 20) == [(0, 3), (3, 6)], "a batch that passes the limit is not read"
    assert read(6, 7, 1 << 20) == []
    assert read(30, 99, 100) == []
    one = len(batch(0, [b"0", b"1", b"2"]).data)
    assert read(0, 30, 2 * one) == [(0, 3), (3, 6)]
    assert read(0, 30, 3 * one - 1) == [(0, 3), (3, 6)]
    assert read(29, 30, 1) == [(27, 30)]


def test_a_read_below_the_log_start_or_of_a_closed_log_is_an_error() -> None:
    engine, _ = start(new_disk())
    opened(engine)
    for job in (ReadLog(LOG, 1, -1, 9, 9), ReadLog(OTHER, 1, 0, 9, 9)):
        (event,) = run(engine, job)
        assert isinstance(event, LogRead) and event.error and event.batches == []


def test_a_log_goes_on_over_many_segments_and_restarts() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 40)
    assert len(segments(disk)) >= 5
    expected = values(engine)
    assert len(expected) == 40
    engine, recovered = restart(disk)
    assert recovered.logs[0].leo == 40
    store(engine, 10, base=40)
    assert values(engine)[:40] == expected and len(values(engine)) == 50


def test_times_are_looked_up_by_record_even_where_a_clock_stepped_back() -> None:
    engine, _ = start(new_disk())
    opened(engine)
    stamps = [100, 200, 150, 150, 300, 250, 400, 10, 500]
    for offset, stamp_ms in enumerate(stamps):
        one = encode_messages(LOG, offset, 1, stamp_ms, [Message(b"s", b"", b"", b"v" * 80)])
        run(engine, AppendLog(LOG, [one], Ticket(1)))
    for wanted in (0, 100, 101, 150, 200, 201, 300, 350, 500, 501):
        first = next((i for i, stamp_ms in enumerate(stamps) if stamp_ms >= wanted), len(stamps))
        assert run(engine, LookupTime(LOG, 3, wanted)) == [TimeFound(LOG, 3, first)]


def test_a_gap_or_an_older_epoch_is_a_bug_of_the_caller() -> None:
    engine, _ = start(new_disk())
    opened(engine)
    run(engine, append(0, [b"a"], 1, epoch=3))
    with pytest.raises(InvariantViolation, match="appended at LEO 1"):
        engine.write([append(2, [b"a"], 2, epoch=3)])
    with pytest.raises(InvariantViolation, match="epoch 2 appended after 3"):
        engine.write([append(1, [b"a"], 2, epoch=2)])


# --- truncation -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 19, 39, 40, 99])
def test_truncation_removes_everything_at_and_above_the_offset_durably(cut: int) -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 40)
    expected = values(engine)[:cut]
    assert run(engine, TruncateLog(LOG, cut, Ticket(77))) == durable(77)
    assert values(engine) == expected
    disk.power_loss(disk.random)
    engine, recovered = start(disk)
    assert recovered.logs[0].leo == min(cut, 40) and recovered.logs[0].tail is TailState.INTACT
    assert values(engine) == expected
    store(engine, 3, base=min(cut, 40))
    assert values(engine)[: len(expected)] == expected


@pytest.mark.parametrize("cut", [4, 5, 6])
def test_truncation_inside_a_batch_keeps_its_first_records(cut: int) -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine, RAFT_LOG)
    run(engine, append(0, [b"0", b"1", b"2"], 1, epoch=2, log=RAFT_LOG))
    run(engine, append(3, [b"3", b"4", b"5", b"6"], 2, epoch=4, log=RAFT_LOG))
    run(engine, append(7, [b"7"], 3, epoch=5, log=RAFT_LOG))
    assert run(engine, TruncateLog(RAFT_LOG, cut, Ticket(4))) == durable(4)
    assert run(engine, append(cut, [b"new"], 5, epoch=9, log=RAFT_LOG)) == durable(5)
    disk.power_loss(disk.random)
    _, recovered = start(disk)
    assert [e.data for e in recovered.raft_entries] == [b"%d" % i for i in range(cut)] + [b"new"]
    assert [e.term for e in recovered.raft_entries] == [2] * 3 + [4] * (cut - 3) + [9]
    assert [e.index for e in recovered.raft_entries] == list(range(1, cut + 2))


def test_the_epoch_history_follows_appends_truncation_and_restart() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 5, epoch=2)
    store(engine, 5, base=5, epoch=4)
    store(engine, 5, base=10, epoch=7)
    assert opened(engine).epochs == (EpochStart(2, 0), EpochStart(4, 5), EpochStart(7, 10))
    run(engine, TruncateLog(LOG, 10, Ticket(1)))
    assert opened(engine).epochs == (EpochStart(2, 0), EpochStart(4, 5))
    run(engine, TruncateLog(LOG, 7, Ticket(1)))
    engine, recovered = restart(disk)
    assert recovered.logs[0].epochs == (EpochStart(2, 0), EpochStart(4, 5))
    store(engine, 1, base=7, epoch=4)
    assert opened(engine).epochs == (EpochStart(2, 0), EpochStart(4, 5))


# --- refused writes (D5) ----------------------------------------------------------------------------------


def test_a_refused_write_leaves_no_trace_and_writes_resume_when_there_is_space() -> None:
    disk = new_disk(5)
    engine, _ = start(disk)
    opened(engine)
    store(engine, 3)
    disk.fill()
    events = run(engine, append(3, [b"x" * 100], 10), append(4, [b"y"], 11))
    assert failures(events) == [(10, False), (11, False)], "no gap: what was to follow is refused as well"
    assert failures(run(engine, append(5, [b"z"], 12))) == [(12, False)]
    assert len(values(engine)) == 3, "reads go on"
    disk.fill(False)
    assert failures(run(engine, append(5, [b"z"], 13))) == [(13, False)]
    assert run(engine, append(3, [b"new"], 14)) == durable(14)
    assert values(engine)[3:] == [b"new"]


def test_what_came_before_a_refused_write_in_its_group_is_durable() -> None:
    disk = new_disk(5)
    engine, _ = start(disk)
    opened(engine)
    engine.write([append(0, [b"a"], 1)])
    disk.fail_next("append", errno.ENOSPC)
    assert failures(engine.write([append(1, [b"b"], 2)])) == [(2, False)]
    assert engine.sync() == durable(1)


def test_D5_a_log_start_that_moves_to_the_end_forgets_no_refused_append() -> None:
    """No new segment could be created either, and what followed the refused batch came at the wrong offset.

    Simulator seed 7502.
    """
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 3, size=1)
    disk.fail_next("append", errno.ENOSPC)
    assert failures(run(engine, append(3, [b"refused"], 9))) == [(9, False)]
    disk.fail_next("open", errno.ENOSPC, f"{3:020d}.log")
    run(engine, MoveLogStart(LOG, 3))
    assert failures(run(engine, append(4, [b"behind it"], 10))) == [(10, False)]
    assert run(engine, append(3, [b"again"], 11)) == durable(11)


def test_a_partial_write_that_cannot_be_cut_off_ends_the_log() -> None:
    disk = new_disk(5)
    engine, _ = start(disk)
    opened(engine)
    disk.fail_next("append", errno.EIO)
    disk.fail_next("truncate", errno.EIO)
    assert failures(run(engine, append(0, [b"abc"], 1))) == [(1, True)]
    assert failures(run(engine, append(0, [b"abc"], 2))) == [(2, True)]


def test_a_segment_that_cannot_be_created_refuses_the_write() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 3)
    disk.fail_next("open", errno.EMFILE, f"{3:020d}.log")
    assert failures(run(engine, append(3, [b"x" * 500], 9))) == [(9, False)]
    assert run(engine, append(3, [b"x" * 500], 10)) == durable(10)


def test_a_checkpoint_that_cannot_be_written_is_written_later() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 3)
    disk.fail_next("append", errno.ENOSPC, "hw")
    run(engine, CheckpointHw(LOG, 2))
    run(engine, append(3, [b"x"], 9))
    _, recovered = restart(disk)
    assert recovered.logs[0].hw == 2


# --- failed syncs (R5) ------------------------------------------------------------------------------------


def test_a_failed_sync_is_final_until_the_log_is_rebuilt() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    opened(engine, OTHER)
    store(engine, 3)
    disk.fail_next_sync("streams/7/0")
    events = run(engine, append(3, [b"x"], 10), append(0, [b"other"], 11, log=OTHER))
    assert failures(events) == [(10, True)] and Durable(Ticket(11)) in events
    assert failures(run(engine, append(4, [b"y"], 12), append(3, [b"x"], 13))) == [(12, True), (13, True)]
    assert failures(run(engine, TruncateLog(LOG, 1, Ticket(14)), open_log(LOG))) == [
        (14, True),
        (NO_TICKET, True),
    ]
    (event,) = run(engine, ReadLog(LOG, 1, 0, 9, 9999))
    assert isinstance(event, LogRead) and event.error
    (event,) = run(engine, LookupTime(LOG, 1, 0))
    assert isinstance(event, TimeFound) and event.error

    (event,) = run(engine, RebuildLog(LOG, 3))
    assert isinstance(event, LogOpened)
    assert (event.summary.leo, event.summary.tail) == (3, TailState.DAMAGED), "the un-synced record was cut"
    assert run(engine, append(3, [b"new"], 20)) == durable(20)
    disk.power_loss(disk.random)
    engine, recovered = start(disk)
    assert recovered.logs[0].leo == 4
    assert values(engine)[3] == b"new"


def test_a_rebuilt_log_does_not_rest_on_pages_that_were_never_written() -> None:
    """The failed sync marked them clean: they read back, and another sync would do nothing."""
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    disk.fail_next_sync("streams/7/0")
    run(engine, append(0, [b"a" * 400], 1))
    (event,) = run(engine, RebuildLog(LOG, 1))
    assert isinstance(event, LogOpened) and event.summary.leo == 1
    assert event.summary.tail is TailState.INTACT, "nothing was cut"
    disk.power_loss(disk.random)
    engine, recovered = start(disk)
    assert recovered.logs[0].leo == 1 and values(engine) == [b"a" * 400]


def test_a_sync_that_fails_while_a_segment_is_closed_is_final_as_well() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    engine.write([append(0, [b"a" * 500], 1)])
    disk.fail_next_sync("streams/7/0")
    events = run(engine, append(1, [b"b" * 500], 2))
    assert failures(events) == [(2, True), (1, True)]
    (event,) = run(engine, RebuildLog(LOG, 0))
    assert isinstance(event, LogOpened) and event.summary.leo == 0
    store(engine, 20)
    assert len(values(engine)) == 20


def test_a_rebuild_over_several_segments_keeps_what_lies_below() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 40)
    expected = values(engine)
    (event,) = run(engine, RebuildLog(LOG, 17))
    assert isinstance(event, LogOpened) and event.summary.leo == 17
    assert values(engine) == expected[:17]
    engine, recovered = restart(disk)
    assert (recovered.logs[0].leo, recovered.logs[0].tail) == (17, TailState.INTACT), "the core asked for it"


def test_a_rebuild_that_finds_damage_below_what_it_should_keep_tells_so_after_a_crash() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 40)
    disk.flip(segments(disk)[-1], 100, 3)
    (event,) = run(engine, RebuildLog(LOG, 40))
    assert isinstance(event, LogOpened)
    kept = event.summary.leo
    assert kept < 40 and event.summary.tail is TailState.DAMAGED
    engine, recovered = restart(disk)
    assert (recovered.logs[0].leo, recovered.logs[0].tail) == (kept, TailState.DAMAGED)


def test_a_rebuild_whose_damage_begins_below_the_log_start_begins_anew_there_as_a_start_does() -> None:
    """It ended below its own log start, and the next start found more than the group had been told of.

    Simulator seed 2463.
    """
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 4, size=1)
    run(engine, MoveLogStart(LOG, 2))
    disk.flip(segments(disk)[0], 100, 3)
    (event,) = run(engine, RebuildLog(LOG, 4))
    assert isinstance(event, LogOpened)
    told = event.summary
    assert (told.log_start, told.leo, told.tail) == (2, 2, TailState.DAMAGED)
    engine, recovered = restart(disk)
    found = recovered.logs[0]
    assert (found.log_start, found.leo, found.tail) == (2, 2, TailState.DAMAGED)
    assert found.epochs == told.epochs
    open_log(engine)
    run(engine, append(2, [b"new"], 9, 2))
    assert values(engine, offset=2) == [b"new"]


def test_a_rebuild_that_fails_can_be_tried_again_and_fills_no_disk() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 3)
    disk.fill()
    assert failures(run(engine, RebuildLog(LOG, 3))) == [(NO_TICKET, False)]
    assert not [path for path in disk.files() if path.endswith(".tmp")]
    disk.fill(False)
    disk.fail_next_sync("streams/7/0")
    assert failures(run(engine, RebuildLog(LOG, 3))) == [(NO_TICKET, True)]
    (event,) = run(engine, RebuildLog(LOG, 3))
    assert isinstance(event, LogOpened) and event.summary.leo == 3
    assert run(engine, append(3, [b"x"], 9)) == durable(9)


def test_a_failed_truncation_is_final() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 3)
    disk.fail_next("truncate")
    assert failures(run(engine, TruncateLog(LOG, 1, Ticket(9)))) == [(9, True)]
    (event,) = run(engine, RebuildLog(LOG, 1))
    assert isinstance(event, LogOpened) and event.summary.leo == 1


def test_a_hard_state_whose_sync_failed_is_not_durable_and_can_be_saved_again() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    disk.fail_next_sync("vote")
    (event,) = run(engine, SaveHardState(HardState(4, 2), Ticket(1)))
    assert isinstance(event, MetadataStalled) and "vote" in event.error
    assert run(engine, SaveHardState(HardState(5, 3), Ticket(2))) == []
    assert run(engine, RetryMetadata()) == [*durable(1, 2), MetadataStalled("")]
    disk.power_loss(disk.random)
    _, recovered = start(disk)
    assert recovered.hard_state == HardState(5, 3)


def test_the_mutant_that_tries_a_sync_again_reports_what_the_power_takes() -> None:
    disk = new_disk()
    engine, _ = start(disk, Mutants(sync_failure_retried=True))
    opened(engine)
    disk.fail_next_sync("streams/7/0")
    assert run(engine, append(0, [b"a" * 400], 1)) == durable(1)
    disk.power_loss(disk.random)
    _, recovered = start(disk)
    assert recovered.logs[0].leo == 0


# --- state files, opening, trash ---------------------------------------------------------------------------


def test_the_last_of_several_states_of_a_group_wins_and_answers_all() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    jobs = [SaveHardState(HardState(term, 1), Ticket(term)) for term in (1, 2, 3)]
    assert run(engine, *jobs, SaveIdentity(Identity(1, "disk-1", 8), Ticket(4))) == durable(1, 2, 3, 4)
    disk.power_loss(disk.random)
    _, recovered = start(disk)
    assert recovered.hard_state == HardState(3, 1) and recovered.identity.incarnation == 8


def test_a_state_is_not_replaced_before_the_sync_phase() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    engine.write([SaveHardState(HardState(9, 1), Ticket(1))])
    _, recovered = restart(disk)
    assert recovered.hard_state == HardState()


def test_a_disk_keeps_its_id() -> None:
    engine, _ = start(new_disk())
    with pytest.raises(InvariantViolation, match="keeps its id"):
        engine.write([SaveIdentity(Identity(1, "another", 8), Ticket(4))])


def test_opening_an_open_log_tells_what_is_durable() -> None:
    engine, _ = start(new_disk())
    first = opened(engine)
    assert (first.leo, first.tail, first.epochs) == (0, TailState.CLEAN, ())
    engine.write([append(0, [b"a"], 1)])
    (event,) = engine.write([open_log(LOG)])
    assert isinstance(event, LogOpened) and event.summary.leo == 1
    assert engine.sync() == durable(1)


def test_a_log_that_could_not_be_created_can_be_opened_later_and_survives() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    disk.fail_next_sync("streams/7")
    assert failures(run(engine, open_log(LOG))) == [(NO_TICKET, True)]
    opened(engine)
    store(engine, 2)
    disk.power_loss(disk.random)
    engine, recovered = start(disk)
    assert recovered.logs[0].leo == 2


def test_opening_fresh_puts_the_old_log_into_the_trash() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 3)
    run(engine, CheckpointHw(LOG, 2))
    summary = opened(engine, fresh=True)
    assert (summary.leo, summary.hw) == (0, 0)
    assert [path for path in disk.files() if path.startswith("trash/000001-7-0/")]
    store(engine, 1)
    opened(engine, fresh=True)
    assert [path for path in disk.files() if path.startswith("trash/000002-7-0/")]


def test_a_trashed_log_is_gone_after_a_restart_and_its_tickets_fail() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    opened(engine, OTHER)
    store(engine, 3)
    engine.write([append(3, [b"x"], 50), TrashLog(LOG)])
    assert failures(engine.sync()) == [(50, False)]
    assert failures(run(engine, append(4, [b"x"], 51))) == [(51, False)]
    disk.power_loss(disk.random)
    _, recovered = start(disk)
    assert [summary.log for summary in recovered.logs] == [OTHER]
    engine, _ = restart(disk)
    assert run(engine, TrashLog(PartitionId(99, 0))) == [], "what is not there needs no trash"
    assert list(engine.log_ends()) == [RAFT_LOG, OTHER]


def test_the_hw_checkpoint_is_never_above_the_durable_leo() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 5)
    run(engine, CheckpointHw(LOG, 99), append(5, [b"x"], 9))
    _, recovered = restart(disk)
    assert recovered.logs[0].hw == 6


def test_D2_damage_met_by_a_read_is_told_by_its_range_and_everything_else_is_served() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 5)
    one = len(batch(0, [b"0" + b"." * 60]).data)
    disk.flip(segments(disk)[0], 2 * one + 70, 1)
    (event,) = run(engine, ReadLog(LOG, 1, 0, 5, 9999))
    assert isinstance(event, LogRead) and event.error == ""
    assert [decode_records(b)[0].offset for b in event.batches] == [0, 1]
    (event,) = run(engine, ReadLog(LOG, 1, 2, 5, 9999))
    assert isinstance(event, LogRead) and event.batches == []
    assert f"byte {2 * one}" in event.error and "checksum" in event.error
    assert event.damage == OffsetRange(2, 3)
    (event,) = run(engine, ReadLog(LOG, 1, 3, 5, 9999))
    assert isinstance(event, LogRead) and [b.base_offset for b in event.batches] == [3, 4]


def test_D2_damage_is_remembered_over_a_crash_until_it_is_cleared() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 6)
    disk.flip(segments(disk)[-1], 70, 1)
    run(engine, ReadLog(LOG, 1, 4, 6, 9999))
    store(engine, 2, base=6)
    disk.power_loss(disk.random)
    engine, recovered = start(disk)
    assert (recovered.logs[0].leo, recovered.logs[0].damage) == (8, (OffsetRange(4, 5),))
    assert recovered.logs[0].tail is TailState.INTACT, "the rest of the log is as good as it was"
    (event,) = run(engine, ReadLog(LOG, 1, 5, 8, 9999))
    assert isinstance(event, LogRead) and [b.base_offset for b in event.batches] == [5, 6, 7]


def test_D5_damage_that_cannot_be_remembered_is_an_error_of_the_read_alone() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 6)
    disk.flip(segments(disk)[0], 70, 1)
    disk.fill()
    (event,) = run(engine, ReadLog(LOG, 1, 0, 6, 9999))
    assert isinstance(event, LogRead) and event.damage is None and "cannot be remembered" in event.error
    disk.fill(False)
    (event,) = run(engine, ReadLog(LOG, 1, 0, 6, 9999))
    assert isinstance(event, LogRead) and event.damage == OffsetRange(0, 1)


def test_D2_a_read_that_fails_once_is_tried_again_and_a_sector_that_stays_bad_is_damage() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 2)
    disk.fail_next("read")
    assert len(values(engine)) == 2
    disk.unreadable(segments(disk)[0], 0, 64)
    (event,) = run(engine, ReadLog(LOG, 1, 0, 2, 9999))
    assert isinstance(event, LogRead) and event.damage is not None and event.damage.start == 0


def test_batches_travel_whole_and_are_stored_as_they_came() -> None:
    """D1: apart from the prefix, the bytes on disk are the bytes on the wire."""
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    sent = encode_values(LOG, 0, 1, 77, [b"x", b"", b"z"])
    run(engine, AppendLog(LOG, [sent], Ticket(1)))
    assert disk.content(segments(disk)[0])[16:] == sent.data[16:]
