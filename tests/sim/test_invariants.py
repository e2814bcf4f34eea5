"""Every invariant can fail: each test shows it a state that breaks it, next to one that does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from liftlog.types import Entry, EpochStart, PartitionId
from sim.invariants import (
    STEP_INVARIANTS,
    Checks,
    PartitionTruth,
    RaftTruth,
    Violation,
    describe,
    epoch_at,
    prefix_of,
)

PARTITION = PartitionId(5, 0)
HISTORY = [EpochStart(1, 0), EpochStart(3, 10)]


def truth() -> PartitionTruth:
    """Committed up to 15, in epoch 3: epoch 1 from 0, epoch 3 from 10; the ISR is nodes 1 and 2."""
    found = PartitionTruth(PARTITION, Checks())
    found.led(1, 1, 4)
    found.elected(1, 1, [], 0)
    found.led(3, 2, 6)
    found.elected(2, 3, HISTORY[:1], 10)
    found.claimed(2, 3, HISTORY, 15, 20)
    found.isr = (1, 2)
    return found


def raft() -> RaftTruth:
    """Entries 1 and 2 are committed, of terms 1 and 2."""
    found = RaftTruth(Checks())
    log = [Entry(1, 1, b""), Entry(2, 2, b"x")]
    found.led(1, 1)
    found.elected(1, 1, [])
    found.led(2, 2)
    found.elected(2, 2, log[:1])
    found.appended(2, log, 1)
    found.committed(2, 2, log, 0, 2)
    return found


def violates(invariant: str, action: Callable[[], object]) -> str:
    with pytest.raises(Violation) as caught:
        action()
    assert caught.value.invariant == invariant
    return caught.value.finding


def test_one_leader_per_epoch_fails_for_another_incarnation_of_the_same_node() -> None:
    state = truth()
    assert state.led(3, 2, 6) is False
    violates("OneLeaderPerEpoch", lambda: state.led(3, 2, 7))


def test_one_leader_per_epoch_fails_for_two_contents_at_one_offset_of_an_epoch() -> None:
    state = truth()
    state.appended(1, 3, 10, 5, 77)
    state.appended(2, 3, 10, 5, 77)
    violates("OneLeaderPerEpoch", lambda: state.appended(3, 3, 10, 5, 78))


def test_log_matching_fails_when_a_hw_covers_another_history() -> None:
    state = truth()
    assert state.claimed(1, 3, HISTORY, 12, 12) is False
    violates("LogMatching", lambda: state.claimed(1, 3, [EpochStart(1, 0)], 12, 12))


def test_log_matching_fails_when_a_hw_lies_beyond_the_log() -> None:
    state = truth()
    violates("LogMatching", lambda: state.claimed(1, 3, HISTORY, 14, 13))


def test_committed_on_isr_fails_for_a_member_with_a_shorter_durable_log() -> None:
    state = truth()
    state.on_isr_member(1, HISTORY, 15)
    assert "durable log" in violates("CommittedOnISR", lambda: state.on_isr_member(1, HISTORY, 14))


def test_committed_on_isr_fails_for_a_member_with_other_epochs() -> None:
    state = truth()
    violates("CommittedOnISR", lambda: state.on_isr_member(1, [EpochStart(1, 0)], 15))


def test_no_acked_record_lost_fails_for_a_leader_without_committed_records() -> None:
    state = truth()
    state.led(4, 1, 9)
    violates("NoAckedRecordLost", lambda: state.elected(1, 4, HISTORY, 14))


def test_no_acked_record_lost_fails_for_a_leader_without_acknowledged_records() -> None:
    state = truth()
    state.acknowledged(3, 15, 18)
    assert state.acked_end == 18
    state.led(4, 1, 9)
    violates("NoAckedRecordLost", lambda: state.elected(1, 4, HISTORY, 15))


def test_a_leader_that_learns_late_of_its_election_need_not_have_what_its_successor_committed() -> None:
    state = truth()
    state.led(2, 3, 5)
    state.elected(3, 2, HISTORY[:1], 10)


def test_no_acked_record_lost_fails_when_an_old_epoch_commits_what_a_newer_leader_never_had() -> None:
    state = truth()
    state.led(4, 1, 9)
    state.elected(1, 4, HISTORY, 15)
    violates("NoAckedRecordLost", lambda: state.claimed(2, 3, HISTORY, 18, 20))


def test_consistent_read_fails_when_the_past_changes() -> None:
    state = truth()
    state.read(1, 1, 0, 10, 5)
    violates("ConsistentRead", lambda: state.read(2, 1, 0, 10, 6))


def test_consistent_read_fails_above_the_committed_prefix() -> None:
    state = truth()
    violates("ConsistentRead", lambda: state.read(2, 3, 10, 16, 6))


def test_consistent_read_fails_for_another_epoch_than_the_committed_one() -> None:
    state = truth()
    violates("ConsistentRead", lambda: state.read(2, 2, 10, 12, 6))


def test_consistent_read_fails_when_a_reader_goes_backward() -> None:
    state = truth()
    state.read_position(1, 9, 9)
    violates("ConsistentRead", lambda: state.read_position(1, 8, 9))


def test_consistent_read_fails_when_the_latest_offset_misses_an_acknowledged_record() -> None:
    state = truth()
    state.latest(1, 14, 15)
    violates("ConsistentRead", lambda: state.latest(1, 13, 15))


def test_election_safety_fails_for_a_second_leader_of_a_term() -> None:
    state = raft()
    assert state.led(2, 2) is False
    violates("ElectionSafety", lambda: state.led(2, 3))


def test_raft_log_matching_fails_for_another_content() -> None:
    state = raft()
    violates("RaftLogMatching", lambda: state.appended(3, [Entry(1, 1, b""), Entry(2, 2, b"y")], 2))


def test_raft_log_matching_fails_for_another_term_before() -> None:
    state = raft()
    violates("RaftLogMatching", lambda: state.appended(3, [Entry(1, 2, b""), Entry(2, 2, b"x")], 2))


def test_leader_completeness_fails_for_a_leader_without_a_committed_entry() -> None:
    state = raft()
    state.led(3, 3)
    violates("LeaderCompleteness", lambda: state.elected(3, 3, [Entry(1, 1, b"")]))


def test_leader_completeness_fails_for_a_leader_with_another_entry_there() -> None:
    state = raft()
    state.led(3, 3)
    violates("LeaderCompleteness", lambda: state.elected(3, 3, [Entry(1, 1, b""), Entry(2, 1, b"z")]))


def test_leader_completeness_fails_when_an_old_term_commits_what_a_newer_leader_never_had() -> None:
    state = raft()
    log = [Entry(1, 1, b""), Entry(2, 2, b"x"), Entry(3, 2, b"y")]
    state.led(3, 3)
    state.elected(3, 3, log[:2])
    violates("LeaderCompleteness", lambda: state.committed(2, 2, log, 2, 3))


def test_a_leader_of_an_old_term_need_not_have_what_newer_terms_committed() -> None:
    state = RaftTruth(Checks())
    log = [Entry(1, 5, b"")]
    state.led(5, 1)
    state.elected(1, 5, [])
    state.committed(1, 5, log, 0, 1)
    state.led(4, 2)
    state.elected(2, 4, [])


def test_state_machine_safety_fails_for_two_entries_at_one_index() -> None:
    state = raft()
    log = [Entry(1, 1, b""), Entry(2, 3, b"z")]
    violates("StateMachineSafety", lambda: state.committed(3, 3, log, 0, 2))


def test_state_machine_safety_fails_for_a_commit_beyond_the_log() -> None:
    state = raft()
    violates("StateMachineSafety", lambda: state.committed(3, 3, [Entry(1, 1, b"")], 0, 2))


def test_every_evaluation_is_counted() -> None:
    checks = Checks()
    state = PartitionTruth(PARTITION, checks)
    state.led(1, 1, 1)
    state.elected(1, 1, [], 0)
    state.claimed(1, 1, [EpochStart(1, 0)], 5, 5)
    state.on_isr_member(1, [EpochStart(1, 0)], 5)
    state.read(1, 1, 0, 5, 1)
    group = RaftTruth(checks)
    group.led(1, 1)
    group.elected(1, 1, [])
    group.appended(1, [Entry(1, 1, b"")], 1)
    group.committed(1, 1, [Entry(1, 1, b"")], 0, 1)
    assert all(checks.counts[name] > 0 for name in STEP_INVARIANTS)


def test_histories_are_compared_below_an_offset_only() -> None:
    assert prefix_of(HISTORY, 10) == HISTORY[:1]
    assert prefix_of(HISTORY, 11) == HISTORY
    assert prefix_of(HISTORY, 0) == []
    assert [epoch_at(HISTORY, offset) for offset in (0, 9, 10, 99)] == [1, 1, 3, 3]
    assert describe(HISTORY, 20) == "[1@0 3@10 .. 20]"
