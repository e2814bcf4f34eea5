"""Every invariant can fail: each test shows it a state that breaks it, next to one that does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from liftlog.format import decode_records, encode_sparse
from liftlog.messages import AckPublishes
from liftlog.types import (
    Batch,
    CompactionPolicy,
    Entry,
    EpochStart,
    PartitionId,
    Record,
    RetentionPolicy,
)
from liftlog_sim.devices.copies import DiskCopy
from liftlog_sim.truth.contents import fold
from liftlog_sim.truth.invariants import Checks, PartitionTruth, Violation, describe, epoch_at, prefix_of
from liftlog_sim.truth.names import COMPACTION_INVARIANTS, STEP_INVARIANTS
from liftlog_sim.truth.raft import RaftTruth

PARTITION = PartitionId(5, 0)
HISTORY = [EpochStart(1, 0), EpochStart(3, 10)]


def record(offset: int, key: bytes | None = None, value: bytes | None = b"v") -> Record:
    return Record(offset, 1000 + 10 * offset, b"s", b"", b"", key, value)


def batch(epoch: int, base: int, end: int, records: list[Record] | None = None) -> Batch:
    """Offsets [base, end) of one epoch, with all records unless some are given."""
    if records is None:
        records = [record(offset) for offset in range(base, end)]
    return encode_sparse(PARTITION, epoch, base, end, records)


def other(written: Batch) -> Batch:
    """The same place with another content."""
    records = [one._replace(value=b"other") for one in decode_records(written)]
    return encode_sparse(PARTITION, written.epoch, written.base_offset, written.end_offset, records)


def truth() -> PartitionTruth:
    """Committed up to 15, in epoch 3: epoch 1 from 0, epoch 3 from 10; the ISR is nodes 1 and 2."""
    found = PartitionTruth(PARTITION, Checks())
    found.appended(1, batch(1, 0, 10))
    found.appended(2, batch(3, 10, 20))
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
    state.appended(1, batch(3, 10, 15))
    state.appended(2, batch(3, 12, 18))
    violates("OneLeaderPerEpoch", lambda: state.appended(3, other(batch(3, 14, 15))))


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


def test_a_leader_that_learns_late_of_its_election_need_not_have_purged_what_its_successor_did() -> None:
    state = truth()
    state.led(5, 2, 7)
    state.purge_done(5, {2: 5, 3: 5})
    state.led(4, 1, 9)
    state.elected(1, 4, HISTORY, 15, 4)


def test_a_leader_that_knows_of_its_damage_speaks_for_what_lies_behind_it() -> None:
    """Read past damage, an epoch may seem to begin later (D2)."""
    state = truth()
    state.led(4, 1, 9)
    late = [EpochStart(1, 0), EpochStart(3, 12)]
    state.elected(1, 4, late, 15, 0, 12)
    violates("NoAckedRecordLost", lambda: state.elected(1, 4, late, 15, 0, 11))
    assert state.claimed(1, 4, [*late, EpochStart(4, 15)], 16, 16, 12)
    assert state.history == [*HISTORY, EpochStart(4, 15)]


def test_what_a_damaged_leader_commits_begins_no_epoch_a_second_time() -> None:
    state = truth()
    state.led(4, 1, 9)
    late = [EpochStart(1, 0), EpochStart(3, 16), EpochStart(4, 20)]
    state.elected(1, 4, late, 20, 0, 16)
    assert state.claimed(1, 4, late, 21, 21, 16)
    assert state.history == [*HISTORY, EpochStart(4, 20)]


def test_no_acked_record_lost_fails_when_an_old_epoch_commits_what_a_newer_leader_never_had() -> None:
    state = truth()
    state.led(4, 1, 9)
    state.elected(1, 4, HISTORY, 15)
    violates("NoAckedRecordLost", lambda: state.claimed(2, 3, HISTORY, 18, 20))


def test_consistent_read_fails_when_the_past_changes() -> None:
    state = truth()
    state.read(1, batch(1, 0, 10), False)
    violates("ConsistentRead", lambda: state.read(2, other(batch(1, 0, 10)), False))


def test_consistent_read_fails_above_the_committed_prefix() -> None:
    state = truth()
    violates("ConsistentRead", lambda: state.read(2, batch(3, 10, 16), False))


def test_consistent_read_fails_for_another_epoch_than_the_committed_one() -> None:
    state = truth()
    violates("ConsistentRead", lambda: state.read(2, batch(2, 10, 12), False))


def test_consistent_read_fails_when_a_reader_goes_backward() -> None:
    state = truth()
    state.read_position(1, 2, 9, 2, 9)
    violates("ConsistentRead", lambda: state.read_position(1, 2, 8, 2, 9))
    violates("ConsistentRead", lambda: state.read_position(1, 1, 9, 2, 9))


def test_consistent_read_fails_when_the_latest_offset_misses_an_acknowledged_record() -> None:
    state = truth()
    state.latest(1, 14, 15, 14)
    violates("ConsistentRead", lambda: state.latest(1, 13, 15, -1))


def test_consistent_read_fails_for_a_latest_offset_below_one_that_somebody_was_told_before() -> None:
    state = truth()
    state.latest(1, 13, 12, -1)
    assert state.latest_seen == 13
    assert "13 was told" in violates("ConsistentRead", lambda: state.latest(2, 12, 12, 13))


def test_the_start_of_an_emptied_log_is_no_offset_that_the_next_leader_must_know() -> None:
    """Seed 414: the leader had let everything go and told its log start, the next one began before it."""
    state = truth()
    state.latest(1, state.hw, 0, -1)
    assert state.latest_seen == state.hw - 1
    state.latest(2, state.hw - 1, 0, state.latest_seen)


def test_consistent_read_fails_for_a_latest_offset_above_what_is_committed() -> None:
    violates("ConsistentRead", lambda: truth().latest(1, 16, 0, -1))


def test_no_acked_record_lost_fails_for_an_ack_that_the_final_log_contradicts() -> None:
    state = truth()
    state.acknowledged(1, 4, 10)
    state.acknowledged(3, 10, 15)
    state.acked_in_the_end()
    state.acknowledged(1, 10, 12)
    assert "offset 10 was acknowledged in epoch 1" in violates("NoAckedRecordLost", state.acked_in_the_end)
    beyond = truth()
    beyond.acknowledged(3, 14, 16)
    violates("NoAckedRecordLost", beyond.acked_in_the_end)


def word(epoch: int, first: int, count: int) -> AckPublishes:
    return AckPublishes(PARTITION, "s", epoch, 4, first, [b"r"] * count, by_leader=True)


def test_leader_ack_durable_fails_for_a_word_before_the_sync() -> None:
    state = truth()
    state.told(2, word(3, 15, 3), 18)
    assert "offset 18, and is durable only below 18" in violates(
        "LeaderAckDurable", lambda: state.told(2, word(3, 18, 1), 18)
    )
    assert not state.acked, "nobody was told that it is committed"


def test_leader_ack_durable_fails_for_a_record_that_no_later_leader_lacked() -> None:
    state = truth()
    state.told(1, word(1, 8, 4), 12)
    assert state.acked_in_the_end() == 2, "epoch 3 began at 10: the last two are gone with epoch 1"
    state.told(2, word(3, 14, 3), 17)
    assert "offset 15, with the word of epoch 3's leader, is gone" in violates(
        "LeaderAckDurable", state.acked_in_the_end
    )
    state.led(4, 1, 5)
    state.elected(1, 4, HISTORY, 15)
    assert state.acked_in_the_end() == 4
    state.led(5, 1, 5)
    state.elected(1, 5, [*HISTORY, EpochStart(4, 15)], 16)
    assert state.acked_in_the_end() == 4


def test_retention_keeps_what_its_policy_promises() -> None:
    contents = truth().contents
    by_age = RetentionPolicy(retention_ms=100)
    # Offset 4 has time 1040.
    assert contents.judge_retention((0, 5), 20, 0, by_age, 1141) == ""
    assert "offset 4 had to stay" in contents.judge_retention((0, 5), 20, 0, by_age, 1140)
    by_count = RetentionPolicy(retention_messages=15)
    assert contents.judge_retention((0, 5), 20, 0, by_count, 0) == ""
    assert "offset 0 had to stay" in contents.judge_retention((0, 6), 20, 0, by_count, 0)
    by_bytes = RetentionPolicy(retention_bytes=1000)
    assert contents.judge_retention((0, 5), 20, 1000, by_bytes, 0) == ""
    assert "999 bytes are left" in contents.judge_retention((0, 5), 20, 999, by_bytes, 0)
    both = RetentionPolicy(retention_ms=100, retention_messages=15)
    assert contents.judge_retention((0, 5), 20, 0, both, 0) == ""
    assert contents.judge_retention((0, 6), 20, 0, both, 0) != ""


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


def test_no_silent_gap_fails_for_a_record_that_nothing_has_superseded() -> None:
    state = truth()
    holed = batch(1, 0, 10, [record(offset) for offset in range(10) if offset != 4])
    assert "without 4" in violates("NoSilentGap", lambda: state.read(1, holed, True))


def test_no_silent_gap_fails_for_offsets_that_no_batch_covers() -> None:
    violates("NoSilentGap", lambda: truth().skipped(1, 3, 5))


def test_time_lookup_fails_for_an_offset_behind_a_record_of_that_time() -> None:
    state = truth()
    state.found_time(1041, 5, 0, 15, False)
    violates("TimeLookup", lambda: state.found_time(1041, 6, 0, 15, False))


def test_time_lookup_fails_for_an_offset_of_an_earlier_time() -> None:
    state = truth()
    state.found_time(1041, 4, 0, 4, False)
    violates("TimeLookup", lambda: state.found_time(1041, 4, 0, 15, False))


def test_log_start_monotone_fails_for_a_start_that_goes_back() -> None:
    state = truth()
    state.log_start_moved(1, 5, 3, 15)
    violates("LogStartMonotone", lambda: state.log_start_moved(1, 4, 5, 15))


def test_log_start_monotone_fails_for_a_start_that_nobody_asked_for() -> None:
    violates("LogStartMonotone", lambda: truth().log_start_moved(1, 5, 0, 4))


def test_log_start_monotone_fails_for_a_purge_that_a_member_of_the_isr_has_not_done() -> None:
    state = truth()
    state.purge_done(5, {1: 5, 2: 7})
    violates("LogStartMonotone", lambda: state.purge_done(8, {1: 8, 2: 7}))


def test_log_start_monotone_fails_for_a_reader_of_what_was_purged() -> None:
    state = truth()
    state.read_below_purge(1, 5, 5)
    violates("LogStartMonotone", lambda: state.read_below_purge(1, 4, 5))


def test_log_start_monotone_fails_for_a_leader_that_still_has_what_was_purged() -> None:
    state = truth()
    state.purge_done(5, {})
    state.led(4, 1, 9)
    state.elected(1, 4, HISTORY, 15, 5)
    violates("LogStartMonotone", lambda: state.elected(1, 4, HISTORY, 15, 4))


def test_a_copy_that_forgot_epochs_before_its_start_still_agrees() -> None:
    state = truth()
    thinned = [EpochStart(1, 4), EpochStart(3, 10)]
    assert state.claimed(1, 3, thinned, 14, 14, 5) is False
    state.on_isr_member(1, thinned, 15, 5)
    violates("CommittedOnISR", lambda: state.on_isr_member(1, [EpochStart(2, 4), EpochStart(3, 10)], 15, 5))


# -- compaction ------------------------------------------------------------------------------------------

POLICY = CompactionPolicy(tombstone_retention_ms=100)
KEYED = [
    record(0, b"a"),
    record(1, b"b"),
    record(2, b"a", b"v2"),
    record(3, b"b", None),
    record(4),
    record(5, b"c"),
]
"""Key a is overwritten, key b deleted, offset 4 has no key; 5 is not compacted yet."""


def keyed_truth() -> PartitionTruth:
    """`KEYED`, all committed; replicas 1 and 2 have compacted up to 5, replica 1 a long time ago."""
    found = PartitionTruth(PARTITION, Checks())
    found.appended(1, batch(1, 0, 6, KEYED))
    found.led(1, 1, 4)
    found.elected(1, 1, [], 0)
    found.claimed(1, 1, HISTORY[:1], 6, 6)
    found.contents.compacted(1, 5, (1, 2), 1000)
    found.contents.compacted(2, 5, (1, 2), 1050)
    return found


def copy(*offsets: int, records: list[Record] = KEYED) -> DiskCopy:
    kept = {one.offset: one for one in records if one.offset in offsets}
    return DiskCopy(kept, dict.fromkeys(kept, 1), [(0, 6)])


def see(state: PartitionTruth, found: DiskCopy, now_ms: int = 2000, clean_point: int = 5) -> None:
    state.copy_seen(1, found, (0, 6), clean_point, now_ms, POLICY)


def test_a_compacted_copy_may_lack_what_is_superseded_and_old_tombstones() -> None:
    state = keyed_truth()
    see(state, copy(2, 4, 5))
    see(state, copy(2, 3, 4, 5))
    see(state, copy(0, 1, 2, 3, 4, 5), clean_point=0)


def test_subsequence_fails_for_a_record_without_a_key_that_is_gone() -> None:
    assert "offset 4" in violates("Subsequence", lambda: see(keyed_truth(), copy(2, 3, 5)))


def test_subsequence_fails_for_the_last_record_of_a_key_that_is_gone() -> None:
    violates("Subsequence", lambda: see(keyed_truth(), copy(3, 4, 5)))


def test_subsequence_fails_for_a_record_with_another_content() -> None:
    changed = [one._replace(value=b"x") if one.offset == 2 else one for one in KEYED]
    violates("Subsequence", lambda: see(keyed_truth(), copy(2, 3, 4, 5, records=changed)))


def test_subsequence_fails_for_offsets_that_no_batch_spans() -> None:
    holed = copy(2, 3, 4, 5)
    holed.spans = [(0, 4), (5, 6)]
    del holed.records[4]
    assert "no batch" in violates("Subsequence", lambda: see(keyed_truth(), holed))


def test_subsequence_fails_when_an_uncommitted_record_supersedes() -> None:
    """Mutant 41 in one line: offset 5 is gone because of a record at 6 that was never committed."""
    state = keyed_truth()
    state.appended(1, batch(1, 6, 7, [record(6, b"c", b"new")]))
    violates("Subsequence", lambda: see(state, copy(2, 3, 4)))


def test_no_resurrection_fails_for_a_deleted_key_with_a_value() -> None:
    assert "b'b'" in violates("NoResurrection", lambda: see(keyed_truth(), copy(1, 2, 4, 5), clean_point=0))


def test_fold_preserved_fails_when_a_key_shows_an_older_value() -> None:
    state = keyed_truth()
    found = fold([KEYED[0], KEYED[5]], 0, 6)
    finding = state.contents.judge_fold(0, 6, found)
    assert finding is not None and finding.invariant == "FoldPreserved"


def test_compaction_horizon_fails_for_two_records_of_a_key_below_the_clean_point() -> None:
    violates("CompactionHorizon", lambda: see(keyed_truth(), copy(0, 2, 3, 4, 5)))


def test_tombstone_safe_fails_while_one_replica_has_not_compacted_past_it() -> None:
    state = keyed_truth()
    state.contents.safe_below = 3
    violates("TombstoneSafe", lambda: see(state, copy(2, 4, 5)))


def test_tombstone_safe_fails_before_the_retention_time_is_over() -> None:
    violates("TombstoneSafe", lambda: see(keyed_truth(), copy(2, 4, 5), now_ms=1099))


def test_a_wiped_replica_does_not_make_dropped_tombstones_unsafe_again() -> None:
    state = keyed_truth()
    state.contents.compacted(2, 0, (1, 2), 1200)
    assert state.contents.safe_below == 5


def test_reader_saw_every_last_value_fails_for_a_missed_value_and_for_a_missed_deletion() -> None:
    state = keyed_truth()
    state.saw_all(0, 6, fold([KEYED[2], KEYED[5]], 0, 6))
    state.saw_all(0, 6, fold(KEYED, 0, 6))
    violates("ReaderSawEveryLastValue", lambda: state.saw_all(0, 6, fold([KEYED[2]], 0, 6)))
    violates("ReaderSawEveryLastValue", lambda: state.saw_all(0, 6, fold([*KEYED[:3], KEYED[5]], 0, 6)))


def test_every_evaluation_is_counted() -> None:
    checks = Checks()
    state = PartitionTruth(PARTITION, checks)
    state.led(1, 1, 1)
    state.elected(1, 1, [], 0)
    state.appended(1, batch(1, 0, 6, KEYED))
    state.claimed(1, 1, [EpochStart(1, 0)], 5, 5)
    state.on_isr_member(1, [EpochStart(1, 0)], 5)
    state.read(1, batch(1, 0, 5, KEYED[:5]), True)
    state.found_time(1000, 0, 0, 5, True)
    state.log_start_moved(1, 0, 0, 0)
    state.copy_seen(1, copy(0, 1, 2, 3, 4), (0, 5), 0, 0, POLICY)
    state.saw_all(0, 5, fold(KEYED, 0, 5))
    group = RaftTruth(checks)
    group.led(1, 1)
    group.elected(1, 1, [])
    group.appended(1, [Entry(1, 1, b"")], 1)
    group.committed(1, 1, [Entry(1, 1, b"")], 0, 1)
    wanted = [*STEP_INVARIANTS, *COMPACTION_INVARIANTS]
    elsewhere = (
        "FastAcksHold",
        "AtomicStateFiles",
        "CommandAsMeant",
        "CommandOnce",
        "OnlyAsAltered",
        "LeaderAckDurable",
        "LevelForAll",
        "PausedTakesNothing",
        "OnlyItsSubjects",
        "OneOfGroup",
        "PinnedAlone",
        "NotBelowMinimum",
        "HoldsNoMore",
        "ReadOnlyRefused",
        "FailureHeard",
        "FencedInTime",
        "ReadsBounded",
        "HeadersHeeded",
        "RefusedTruly",
        "SubjectAnswersTrue",
        "FilteredExactly",
        "SameVisible",
        "DeletedStaysDeleted",
        "NothingElseGone",
        "PurgeTakesAll",
        "RestatedForNews",
        "LimitHolds",
        "RollUpHolds",
        "TtlHolds",
        "MarkerLeft",
        "MarkerDue",
        "WorkQueueHolds",
        "InterestHolds",
        "SameConsumerState",
        "AckStays",
        "DeliveriesBounded",
        "TimeToAck",
        "NoneSkipped",
        "OfThisIncarnation",
        "PendingExact",
        "DeliveriesNumbered",
        "DeadLettersStored",
        "MirrorIsPrefix",
        "ActivityInOrder",
        "TrimmedIsTold",
        "SourcesExact",
        "StoredAsExpected",
        "StoredOnce",
        "TimesInOrder",
        "AnsweredWithFirst",
        "ProducedOnce",
        "ProducedInOrder",
        "RunsFenced",
        "HonestHeard",
        "MetadataReads",
        "NoFalseDamage",
        "NoInputEndsNode",
        "NothingHeldBack",
        "OneAnswer",
        "OutputsOnce",
        "ParcelWhole",
        "ProbationServed",
        "ReadyIsSubscribed",
        "RetentionKeeps",
        "NoFailoverWithoutCause",
        "PromptFailover",
        "SilentBeforeReplaced",
        "SlowKeepsMinimum",
        "TimePasses",
        "Busy",
        "WholeSessions",
    )
    for name in (*elsewhere, "Refinement"):  # Counted by who looks at a disk, a step or an answer.
        wanted.remove(name)
    assert all(checks.counts[name] > 0 for name in wanted)


def identified(offset: int, id: str, at_ms: int) -> Record:
    headers = f"NATS/1.0\r\nNats-Msg-Id: {id}\r\n\r\n".encode()
    return Record(offset, at_ms, b"s", b"", headers, None, b"%d" % offset)


@pytest.mark.parametrize(
    ("second", "broken"),
    [
        (identified(1, "a", 1999), "StoredOnce"),
        (identified(1, "a", 2000), ""),
        (identified(1, "b", 1000), ""),
        (identified(1, "b", 999), "TimesInOrder"),
    ],
)
def test_L7_what_is_committed_of_a_stream_that_remembers_ids(second: Record, broken: str) -> None:
    found = PartitionTruth(PARTITION, Checks())
    found.ids.window_ms = 1000
    found.appended(1, batch(1, 0, 2, [identified(0, "a", 1000), second]))
    found.claimed(1, 1, HISTORY[:1], 1, 2)
    assert found.checks["StoredOnce"] == found.checks["TimesInOrder"] == 1
    if not broken:
        found.claimed(1, 1, HISTORY[:1], 2, 2)
        return
    with pytest.raises(Violation) as raised:
        found.claimed(1, 1, HISTORY[:1], 2, 2)
    assert raised.value.invariant == broken


def produced(offset: int, run: int, sequence: int, at_ms: int) -> Record:
    lines = f"Liftlog-Producer: p\r\nLiftlog-Run: {run}\r\nLiftlog-Sequence: {sequence}"
    headers = f"NATS/1.0\r\n{lines}\r\n\r\n".encode()
    return Record(offset, at_ms, b"s", b"", headers, None, b"%d" % offset)


@pytest.mark.parametrize(
    ("second", "broken"),
    [
        (produced(1, 2, 1, 1000), ""),
        (produced(1, 2, 0, 1000), "ProducedOnce"),
        (produced(1, 2, 2, 1000), "ProducedInOrder"),
        (produced(1, 1, 0, 1000), "RunsFenced"),
        (produced(1, 3, 0, 1000), ""),
        (produced(1, 3, 1, 1000), "ProducedInOrder"),
        (produced(1, 1, 0, 2000), ""),
        (produced(1, 2, 1, 2000), "ProducedInOrder"),
    ],
)
def test_L2_what_is_committed_of_producers(second: Record, broken: str) -> None:
    found = PartitionTruth(PARTITION, Checks())
    found.ids.window_ms = 1000
    found.appended(1, batch(1, 0, 2, [produced(0, 2, 0, 1000), second]))
    found.claimed(1, 1, HISTORY[:1], 1, 2)
    assert found.checks["ProducedOnce"] == 1 and found.numbers.newest_run(b"p") == 2
    if not broken:
        found.claimed(1, 1, HISTORY[:1], 2, 2)
        return
    with pytest.raises(Violation) as raised:
        found.claimed(1, 1, HISTORY[:1], 2, 2)
    assert raised.value.invariant == broken


def test_L7_what_was_there_already_counts_in_the_epoch_in_which_it_was_stored() -> None:
    found = truth()
    found.told(2, AckPublishes(PARTITION, "s", 3, 6, 4, [b"a"], duplicate=True), 15, HISTORY)
    assert found.repeated == [(3, 1, 4)] and not found.acked
    found.elected(1, 2, HISTORY[:1], 4)  # In epoch 3 it was said, not before.
    with pytest.raises(Violation, match="without the acknowledged offsets 4"):
        found.elected(1, 4, HISTORY[:1], 4)


def test_histories_are_compared_below_an_offset_only() -> None:
    assert prefix_of(HISTORY, 10) == HISTORY[:1]
    assert prefix_of(HISTORY, 11) == HISTORY
    assert prefix_of(HISTORY, 0) == []
    assert [epoch_at(HISTORY, offset) for offset in (0, 9, 10, 99)] == [1, 1, 3, 3]
    assert describe(HISTORY, 20) == "[1@0 3@10 .. 20]"
