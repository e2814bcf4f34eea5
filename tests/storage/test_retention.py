"""Which segments retention lets go: at the front, whole, committed, no more than allowed (C3)."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from liftlog.format import last_timestamp_ms
from liftlog.messages import LogRead, LogStartMoved, ReadLog, RetainLog
from liftlog.storage.index import SPACING_BYTES
from liftlog.storage.log import Log
from liftlog.storage.retention import bytes_below, new_start
from liftlog.types import LogOptions, RetentionPolicy
from liftlog_sim.devices.disk import SimDisk
from tests.storage.storage_harness import LOG, new_disk, opened, restart, run, start, store
from tests.storage.upkeep_harness import NO_LIMIT, START_MS, contents, fill, new_log, put


def make(count: int = 60) -> Log:
    """Record i has the time START_MS + 10 i. Six segments or so, and the active one with one record."""
    log = new_log(SimDisk(Random(1)))
    fill(log, [(None, b"." * 20) for _ in range(count)])
    put(log, [(None, b"active")])
    return log


def test_no_limit_keeps_everything() -> None:
    log = make()
    assert RetentionPolicy().unlimited
    assert new_start(log, RetentionPolicy(), log.leo, START_MS + 10**12) == 0


def test_by_age_a_segment_goes_when_its_youngest_record_is_too_old() -> None:
    log = make()
    third = log.sealed[2]
    policy = RetentionPolicy(retention_ms=5000)
    youngest_ms = START_MS + (third.end_offset - 1) * 10
    assert third.greatest_ms == youngest_ms
    assert new_start(log, policy, log.leo, youngest_ms + 5000) == third.base_offset
    assert new_start(log, policy, log.leo, youngest_ms + 5001) == third.end_offset
    active = log.segment_of(log.leo)
    last_ms = active.greatest_ms + 5000
    assert new_start(log, policy, log.leo, last_ms) == active.base_offset < log.leo


def test_by_age_the_active_segment_goes_too_when_all_of_it_is_old_and_committed() -> None:
    """Else a partition that refuses what comes while it is full would be full for ever (C6)."""
    log = make()
    late_ms, base = START_MS + 10**9, log.segment_of(log.leo).base_offset
    assert new_start(log, RetentionPolicy(retention_ms=5000), log.leo, late_ms) == log.leo
    assert new_start(log, RetentionPolicy(retention_ms=5000), log.leo - 1, late_ms) == base
    assert new_start(log, RetentionPolicy(retention_ms=5000), log.leo, late_ms, log.leo - 1) == base
    assert new_start(log, RetentionPolicy(retention_bytes=1, retention_messages=1), log.leo, late_ms) == base
    log.move_start(log.leo)
    assert new_start(log, RetentionPolicy(retention_ms=5000), log.leo, late_ms) == log.leo == log.log_start
    assert not log.sealed


def test_an_old_segment_behind_a_young_one_stays() -> None:
    log = new_log(SimDisk(Random(1)))
    put(log, [(None, b"young")], step_ms=0)
    log.roll()
    put(log, [(None, b"old")], step_ms=-1000)
    log.roll()
    policy = RetentionPolicy(retention_ms=500)
    assert log.sealed[1].greatest_ms < START_MS
    assert new_start(log, policy, log.leo, START_MS + 100) == 0
    assert new_start(log, policy, log.leo, START_MS + 501) == 2


def test_by_bytes_at_least_the_promised_bytes_are_kept() -> None:
    log = make()
    total = log.bytes
    first, second = log.sealed[:2]
    for keep_bytes, expected in (
        (total, 0),
        (total - first.size + 1, 0),
        (total - first.size, first.end_offset),
        (total - first.size - second.size, second.end_offset),
        (1, log.sealed[-1].end_offset),
    ):
        assert new_start(log, RetentionPolicy(retention_bytes=keep_bytes), log.leo, 0) == expected


def test_by_messages_at_least_the_promised_messages_are_kept() -> None:
    log = make()
    first, second = log.sealed[:2]
    for keep, expected in (
        (log.leo, 0),
        (log.leo - first.end_offset + 1, 0),
        (log.leo - first.end_offset, first.end_offset),
        (log.leo - second.end_offset, second.end_offset),
        (1, log.sealed[-1].end_offset),
    ):
        assert new_start(log, RetentionPolicy(retention_messages=keep), log.leo, 0) == expected


def test_nothing_above_the_limit_goes() -> None:
    log = make()
    policy, now_ms = RetentionPolicy(retention_ms=1), START_MS + 10**9
    second = log.sealed[1]
    assert new_start(log, policy, second.end_offset - 1, now_ms) == log.sealed[0].end_offset
    assert new_start(log, policy, second.end_offset, now_ms) == second.end_offset


def test_what_may_yet_be_cut_off_does_not_count_as_kept() -> None:
    """Seed 355: the last of 20 promised records was not committed, and the next leader had it cut off."""
    log = make()
    first = log.sealed[0]
    committed = log.leo - 1
    policy = RetentionPolicy(retention_messages=log.leo - first.end_offset)
    assert new_start(log, policy, log.leo, 0) == first.end_offset
    assert new_start(log, policy, committed, 0) == 0
    assert new_start(log, RetentionPolicy(retention_messages=committed - first.end_offset), committed, 0) > 0
    policy = RetentionPolicy(retention_bytes=log.bytes - first.size)
    assert new_start(log, policy, log.leo, 0) == first.end_offset
    assert new_start(log, policy, committed, 0) == 0
    log.truncate(committed)
    assert log.bytes - first.size < policy.retention_bytes


def test_bytes_below_an_offset_are_those_of_what_surely_lies_below_it() -> None:
    log = new_log(SimDisk(Random(1)), LogOptions(segment_bytes=1 << 20))
    put(log, [(None, b"." * SPACING_BYTES)])
    first_bytes = log.bytes
    put(log, [(None, b"." * SPACING_BYTES)] * 3)
    below = [bytes_below(log, offset) for offset in range(5)]
    assert below == [0, first_bytes, first_bytes, first_bytes, log.bytes]
    whole = log.bytes
    log.roll()
    put(log, [(None, b"next")])
    assert [bytes_below(log, offset) for offset in (0, 4, 5, NO_LIMIT)] == [0, whole, log.bytes, log.bytes]


def test_a_log_start_inside_a_segment_never_goes_back() -> None:
    log = make()
    inside = log.sealed[1].base_offset + 2
    log.move_start(inside)
    assert new_start(log, RetentionPolicy(retention_messages=10**6), log.leo, 0) == inside
    assert new_start(log, RetentionPolicy(retention_messages=1), log.leo, 0) == log.sealed[-1].end_offset


@given(
    st.integers(0, 700),
    st.integers(0, 6000),
    st.integers(0, 70),
    st.integers(0, 61),
    st.integers(0, 1500),
    st.one_of(st.just(NO_LIMIT), st.integers(0, 61)),
)
def test_what_goes_is_what_some_limit_allows_and_what_stays_is_enough_c3(
    retention_ms: int,
    retention_bytes: int,
    retention_messages: int,
    limit: int,
    now_after_ms: int,
    needed_from: int,
) -> None:
    log = make()
    policy = RetentionPolicy(retention_ms, retention_bytes, retention_messages)
    now_ms = START_MS + now_after_ms
    at = new_start(log, policy, limit, now_ms, needed_from)
    boundaries = [0, *(one.end_offset for one in log.sealed)]
    if retention_ms and START_MS + (log.leo - 1) * 10 < now_ms - retention_ms:
        boundaries.append(log.leo)
    assert at in boundaries and at <= min(limit, needed_from)

    def may_go(segment_end: int) -> bool:
        youngest_ms = START_MS + (segment_end - 1) * 10
        behind_bytes = bytes_below(log, limit) - sum(
            one.size for one in log.sealed if one.end_offset <= segment_end
        )
        return (
            (retention_ms > 0 and youngest_ms < now_ms - retention_ms)
            or (0 < retention_bytes <= behind_bytes)
            or (0 < retention_messages <= limit - segment_end)
        )

    assert all(may_go(end) for end in boundaries[1:] if end <= at)
    following = [end for end in boundaries if end > at]
    assert not following or following[0] > min(limit, needed_from) or not may_go(following[0])


@given(st.integers(0, 61), st.integers(0, 61), st.one_of(st.just(NO_LIMIT), st.integers(0, 61)))
def test_segments_in_which_all_is_gone_go_whatever_the_policy_says_R25(
    gone_below: int, limit: int, needed_from: int
) -> None:
    log = make()
    at = new_start(log, RetentionPolicy(retention_bytes=10**9), limit, START_MS, needed_from, gone_below)
    ends = [0, *(one.end_offset for one in log.sealed), log.leo]
    assert at == max(end for end in ends if end <= min(gone_below, limit, needed_from))


def test_the_job_moves_the_log_start_durably_and_answers_with_it() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 30)
    (event,) = run(engine, RetainLog(LOG, RetentionPolicy(retention_messages=10), 30, 0))
    assert isinstance(event, LogStartMoved) and 0 < event.log_start <= 20
    needed = run(engine, RetainLog(LOG, RetentionPolicy(retention_messages=1), 30, 0, event.log_start))
    assert needed == [event], "L7: what the next leader needs stays"
    again = run(engine, RetainLog(LOG, RetentionPolicy(retention_messages=10), 30, 0))
    assert again == [event]
    _, recovered = restart(disk)
    assert [one.log_start for one in recovered.logs] == [event.log_start]


def test_a_retained_log_reads_from_its_start_on() -> None:
    log = make()
    before = contents(log)
    at = new_start(log, RetentionPolicy(retention_messages=20), log.leo, 0)
    log.move_start(at)
    assert contents(log) == {offset: line for offset, line in before.items() if offset >= at}
    assert new_start(log, RetentionPolicy(retention_messages=20), NO_LIMIT, 0) == at


def test_jobs_on_a_log_that_is_not_open_are_refused() -> None:
    engine, _ = start(new_disk())
    (event,) = run(engine, RetainLog(LOG, RetentionPolicy(retention_messages=1), 5, 0))
    assert "not open" in getattr(event, "error", "")


def test_L7_an_opened_log_says_what_the_latest_time_of_its_records_is() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    assert opened(engine).newest_ms == 0
    store(engine, 30)
    (read,) = run(engine, ReadLog(LOG, 1, 29, 30, 1))
    _, recovered = restart(disk)
    (summary,) = recovered.logs
    assert isinstance(read, LogRead) and summary.newest_ms == last_timestamp_ms(read.batches[-1].data) > 0
