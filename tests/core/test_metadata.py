"""The metadata state machine keeps I1, I2, R1, R9, R12-R16 and M3, sentence by sentence."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from liftlog.core.metadata.commands import (
    ElectLeader,
    ExpireNode,
    LeaderReady,
    Rebalance,
    RegisterNode,
    ReplicaFailed,
    ReportLeader,
    RequestId,
    Resign,
    TailReport,
    decode_command,
    encode_command,
)
from liftlog.core.metadata.records import CommandResult
from liftlog.mutants import Mutants
from liftlog.types import InvariantViolation, PartitionId, StreamConfig
from tests.core.metadata_harness import Cluster


def suspect(partition, epoch: int, leo: int) -> list[TailReport]:
    return [TailReport(partition.id, "suspect", epoch, leo)]


# -- identity ----------------------------------------------------------------------------------------


def test_I1_a_recreated_stream_has_another_id() -> None:
    cluster = Cluster()
    first = cluster.create("orders")
    cluster.apply(cluster.deletion("orders"))
    second = cluster.create("orders")
    assert first.id.stream != second.id.stream
    assert second.id.stream == cluster.metadata.applied
    assert first.id not in cluster.metadata.partitions


def test_I2_an_incarnation_is_the_index_of_its_registration() -> None:
    cluster = Cluster()
    incarnation = cluster.register(2)
    assert incarnation == cluster.metadata.applied
    assert not cluster.metadata.is_live(2)
    cluster.confirm(2)
    assert cluster.metadata.is_live(2)


@pytest.mark.parametrize(("disk", "remembered"), [("new-disk", 0), ("", 1)])
def test_I2_a_wiped_or_rolled_back_disk_leaves_every_isr(disk: str, remembered: int) -> None:
    cluster = Cluster()
    partition = cluster.create()
    cluster.register(2)
    cluster.confirm(2)
    if disk:
        cluster.expire(2)
    cluster.register(2, disk=disk, remembered=remembered)
    assert cluster.metadata.nodes[2].reset
    assert cluster.metadata.nodes[2].forgot == (not disk)
    assert partition.isr == (1, 3)
    assert partition.eligible == ()


def test_I2_an_unconfirmed_incarnation_may_be_forgotten() -> None:
    """A crash between registration and confirmation leaves a disk that remembers less: no roll-back."""
    cluster = Cluster()
    before = cluster.metadata.nodes[2].confirmed
    cluster.register(2)
    cluster.register(2, remembered=before)
    assert not cluster.metadata.nodes[2].reset


def test_I2_a_registration_that_was_under_way_since_an_earlier_start_means_nothing() -> None:
    """Regression (simulator seed 206): a late copy made the live run look rolled back."""
    cluster = Cluster()
    partition = cluster.create()
    state = cluster.metadata.nodes[2]
    late = RegisterNode(cluster.request(), 2, state.incarnation, "disk-2", state.confirmed, 7, "h2:1", [])
    cluster.register(2)
    cluster.confirm(2)
    assert cluster.apply(late).code == "stale"
    assert cluster.metadata.is_live(2)
    assert 2 in partition.isr


def test_mutant_wiped_replica_stays_in_the_isr() -> None:
    cluster = Cluster(mutants=Mutants(wiped_replica_rejoins=True))
    partition = cluster.create()
    cluster.register(2, disk="new-disk", tails=[])
    assert partition.isr == (1, 2, 3)


# -- epochs and leaders ------------------------------------------------------------------------------


def test_R1_a_new_incarnation_of_the_leader_ends_its_epoch() -> None:
    cluster = Cluster()
    partition = cluster.create()
    leader, epoch = partition.leader, partition.epoch
    cluster.register(leader)
    assert partition.epoch == epoch + 1
    assert partition.leader not in (0, leader)


def test_R1_a_single_replica_leads_again_only_in_a_new_epoch_after_its_confirmation() -> None:
    cluster = Cluster()
    partition = cluster.create(replicas=1)
    leader, epoch = partition.leader, partition.epoch
    incarnation = cluster.register(leader)
    assert partition.leader == 0
    cluster.confirm(leader)
    assert (partition.leader, partition.leader_incarnation) == (leader, incarnation)
    assert partition.epoch == epoch + 2


def test_R12_the_first_isr_is_the_live_ones_of_the_chosen_replicas() -> None:
    cluster = Cluster()
    cluster.expire(3)
    partition = cluster.create()
    assert sorted(partition.replicas) == [1, 2, 3]
    assert sorted(partition.isr) == [1, 2]
    assert partition.leader in partition.isr


def test_R12_a_stream_that_nobody_can_hold_yet_is_known_to_all_the_same() -> None:
    """Found in seed 2616: nobody was told of it, so that nodes did not look at it before the next change."""
    cluster = Cluster()
    for node in (1, 2, 3):
        cluster.expire(node)
    cluster.metadata.changed.clear()
    partition = cluster.create()
    assert (partition.leader, sorted(partition.isr)) == (0, [1, 2, 3])
    assert list(cluster.metadata.changed) == [partition.id]


def test_R16_leaders_are_spread_evenly() -> None:
    cluster = Cluster()
    leaders = [cluster.create(f"s{i}").leader for i in range(6)]
    assert sorted(leaders) == [1, 1, 2, 2, 3, 3]


def test_R16_rebalance_gives_partitions_back_to_their_preferred_replicas() -> None:
    cluster = Cluster()
    partition = cluster.create()
    preferred = partition.leader
    cluster.apply(Resign(cluster.request(), partition.id, partition.epoch, partition.version))
    assert partition.leader != preferred
    cluster.apply(Rebalance(cluster.request(), cluster.metadata.applied))
    assert partition.leader == preferred


def test_R16_an_unclean_election_needs_the_explicit_word_and_is_marked() -> None:
    cluster = Cluster()
    partition = cluster.create()
    cluster.change_isr(partition, [1, 2])
    refused = cluster.apply(ElectLeader(cluster.request(), partition.id, partition.version, 3, False))
    assert refused.code == "invalid"
    assert partition.unclean_epochs == ()
    done = cluster.apply(ElectLeader(cluster.request(), partition.id, partition.version, 3, True))
    assert not done.code
    assert partition.isr == (3,)
    assert partition.unclean_epochs == (partition.epoch,)


# -- ISR ---------------------------------------------------------------------------------------------


def test_R9_an_older_version_is_refused_without_a_trace() -> None:
    cluster = Cluster()
    partition = cluster.create()
    leader = partition.leader
    others = [node for node in partition.replicas if node != leader]
    old_version = partition.version
    assert not cluster.change_isr(partition, [leader, others[0]]).code
    new_version = partition.version
    seen_before = replace(cluster.metadata.partitions[partition.id], version=old_version)
    result = cluster.change_isr(seen_before, [leader, others[1]])
    assert result.code == "stale"
    assert (partition.version, set(partition.isr)) == (new_version, {leader, others[0]})


def test_R9_an_addition_of_an_older_incarnation_is_rejected_at_commit_and_answers_with_a_version() -> None:
    cluster = Cluster()
    partition = cluster.create()
    leader = partition.leader
    joiner = next(node for node in partition.replicas if node != leader)
    cluster.change_isr(partition, [node for node in partition.replicas if node != joiner])
    old = cluster.metadata.nodes[joiner].incarnation
    cluster.register(joiner)
    cluster.confirm(joiner)
    version = partition.version
    result = cluster.change_isr(partition, list(partition.replicas), joiner, old)
    assert result.code == "rejected"
    assert joiner not in partition.isr
    assert partition.version == version + 1


def test_R9_an_expired_joiner_is_rejected() -> None:
    cluster = Cluster()
    partition = cluster.create()
    joiner = next(node for node in partition.replicas if node != partition.leader)
    cluster.change_isr(partition, [node for node in partition.replicas if node != joiner])
    cluster.expire(joiner)
    assert cluster.change_isr(partition, list(partition.replicas), joiner).code == "rejected"


def test_R12_a_change_without_the_leader_is_rejected() -> None:
    cluster = Cluster()
    partition = cluster.create()
    others = [node for node in partition.replicas if node != partition.leader]
    assert cluster.change_isr(partition, others).code == "rejected"
    assert len(partition.isr) == 3


def test_R13_a_removal_below_the_minimum_leaves_the_removed_eligible() -> None:
    cluster = Cluster()
    partition = cluster.create()
    leader = partition.leader
    first, second = (node for node in partition.replicas if node != leader)
    cluster.change_isr(partition, [leader, first])
    assert partition.eligible == ()
    cluster.change_isr(partition, [leader])
    assert partition.eligible == (first,)
    cluster.change_isr(partition, sorted([leader, second]), second)
    assert partition.eligible == ()


def test_R13_electing_from_eligible_makes_it_the_whole_isr() -> None:
    cluster = Cluster()
    partition = cluster.create()
    leader = partition.leader
    first, _ = (node for node in partition.replicas if node != leader)
    cluster.change_isr(partition, [leader, first])
    cluster.change_isr(partition, [leader])
    cluster.expire(leader)
    assert partition.isr == (first,)
    assert partition.leader == first
    assert partition.eligible == (leader,)


# -- tails -------------------------------------------------------------------------------------------


def test_R14_a_suspect_tail_leaves_isr_and_eligible_in_one_command() -> None:
    cluster = Cluster()
    partition = cluster.create()
    follower = next(node for node in partition.replicas if node != partition.leader)
    cluster.register(follower, tails=suspect(partition, 1, 7))
    assert follower not in partition.isr
    assert follower not in partition.eligible
    assert partition.last_known == {}, "two replicas in sync hold everything committed"


def test_R14_the_greatest_is_elected_once_all_have_reported() -> None:
    cluster = Cluster()
    partition = cluster.create()
    for node, leo in ((1, 7), (2, 9), (3, 8)):
        cluster.register(node, tails=suspect(partition, 1, leo))
        cluster.confirm(node)
    assert partition.leader == 2
    assert partition.isr == (2,)


def test_R14_nobody_is_elected_while_the_greatest_is_away() -> None:
    cluster = Cluster()
    partition = cluster.create()
    cluster.register(2, tails=suspect(partition, 1, 7))
    cluster.register(3, tails=suspect(partition, 1, 8))
    cluster.register(1, tails=suspect(partition, 1, 9))
    cluster.confirm(2)
    cluster.confirm(3)
    assert set(partition.last_known) == {1, 3}, "2 left while two others were in sync"
    assert partition.leader == 0
    cluster.confirm(1)
    assert partition.leader == 1


def test_R14_a_lost_copy_leaves_the_choice_to_the_operator() -> None:
    cluster = Cluster()
    partition = cluster.create()
    cluster.register(1, tails=suspect(partition, 1, 9))
    cluster.expire(2)
    cluster.register(2, disk="replaced", tails=[])
    cluster.register(3, tails=suspect(partition, 1, 8))
    for node in (1, 2, 3):
        cluster.confirm(node)
    assert partition.last_known[2].lost
    assert partition.leader == 0
    assert not cluster.apply(ElectLeader(cluster.request(), partition.id, partition.version, 1, True)).code
    assert partition.leader == 1


def test_M4_a_log_that_is_gone_does_not_lead_again_until_an_operator_says_so() -> None:
    """Also in the run in which the stream was made: what the disk says counts, not when it was made."""
    cluster = Cluster()
    partition = cluster.create(replicas=1)
    (node,) = partition.replicas
    assert cluster.metadata.nodes[node].confirmed < partition.id.stream
    cluster.register(node, tails=[TailReport(partition.id, "lost", 0, 0)])
    cluster.confirm(node)
    assert (partition.leader, partition.isr, partition.last_known[node].lost) == (0, (), True)
    cluster.register(node, tails=[TailReport(partition.id, "intact", 0, 0)])
    cluster.confirm(node)
    assert partition.leader == 0, "what it began anew is no more whole than before"
    assert cluster.apply(ElectLeader(cluster.request(), partition.id, partition.version, node, False)).code
    done = cluster.apply(ElectLeader(cluster.request(), partition.id, partition.version, node, True))
    assert not done.code
    assert (partition.leader, partition.unclean_epochs) == (node, (partition.epoch,))


def test_R5_a_failed_replica_leaves_the_isr_and_the_leadership() -> None:
    cluster = Cluster()
    partition = cluster.create()
    leader, epoch = partition.leader, partition.epoch
    incarnation = cluster.metadata.nodes[leader].incarnation
    cluster.apply(ReplicaFailed(cluster.request(), partition.id, leader, incarnation, 1, epoch, 5))
    assert leader not in partition.isr
    assert partition.leader not in (0, leader)


# -- suspicion ---------------------------------------------------------------------------------------


def test_R15_a_majority_of_the_other_live_members_elects() -> None:
    cluster = Cluster()
    partition = cluster.create()
    leader, epoch = partition.leader, partition.epoch
    others = [node for node in partition.isr if node != leader]
    for node in others:
        assert partition.epoch == epoch
        incarnation = cluster.metadata.nodes[node].incarnation
        cluster.apply(ReportLeader(cluster.request(), partition.id, epoch, 0, node, incarnation))
    assert partition.epoch == epoch + 1
    assert partition.leader in others


def test_R15_reports_of_an_older_epoch_mean_nothing() -> None:
    cluster = Cluster()
    partition = cluster.create()
    epoch = partition.epoch
    cluster.apply(Resign(cluster.request(), partition.id, epoch, partition.version))
    for node in (1, 2, 3):
        incarnation = cluster.metadata.nodes[node].incarnation
        result = cluster.apply(ReportLeader(cluster.request(), partition.id, epoch, 0, node, incarnation))
        assert result.code == "stale"


def test_R15_a_lost_session_removes_and_elects_in_one_command() -> None:
    cluster = Cluster()
    partition = cluster.create()
    leader = partition.leader
    before = cluster.metadata.applied
    cluster.expire(leader)
    assert cluster.metadata.applied == before + 1
    assert leader not in partition.isr
    assert partition.leader not in (0, leader)


def test_R15_an_expiry_of_an_older_incarnation_means_nothing() -> None:
    cluster = Cluster()
    old = cluster.metadata.nodes[2].incarnation
    cluster.register(2)
    cluster.confirm(2)
    assert cluster.apply(ExpireNode(cluster.request(), 2, old, old)).code == "stale"
    assert cluster.metadata.is_live(2)


# -- streams and requests ----------------------------------------------------------------------------


def test_M3_a_repeated_request_changes_nothing_and_gets_the_same_answer() -> None:
    cluster = Cluster()
    command = cluster.creation(StreamConfig("orders", "orders", 1, 3))
    first = cluster.apply(command)
    again = cluster.apply(command)
    assert first == again
    assert len(cluster.metadata.streams) == 1


def test_creating_the_same_stream_again_is_idempotent_and_another_config_is_refused() -> None:
    cluster = Cluster()
    config = StreamConfig("orders", "orders", 1, 3)
    first = cluster.apply(cluster.creation(config))
    assert cluster.apply(cluster.creation(config)).stream == first.stream
    other = StreamConfig("orders", "other", 1, 3)
    assert cluster.apply(cluster.creation(other)).code == "already-exists"


@pytest.mark.parametrize(
    ("config", "word"),
    [
        (StreamConfig("bad name", "a"), "name"),
        (StreamConfig("s", "a..b"), "empty token"),
        (StreamConfig("s", "a.>.b"), "last token"),
        (StreamConfig("s", "_INBOX.*"), "reserved"),
        (StreamConfig("s", ">"), "reserved"),
        (StreamConfig("s", "a.>", 2), "one partition"),
        (StreamConfig("s", "a", 0), "partitions"),
        (StreamConfig("s", "a", 1, 65), "replication_factor"),
        (StreamConfig("s", "a", 1, 3, 4), "min_insync_replicas"),
        (StreamConfig("s", "a", 1, 9), "needs as many nodes"),
        (StreamConfig("s", "a", max_payload_bytes=0), "max_payload_bytes"),
        (StreamConfig("s", "a", retention_ms=-1), "retention_ms = -1 is not accepted"),
        (StreamConfig("s", "a", retention_bytes=-1), "retention_bytes"),
        (StreamConfig("s", "a", retention_messages=-1), "retention_messages"),
        (StreamConfig("s", "a", min_compaction_lag_ms=-1), "min_compaction_lag_ms"),
        (StreamConfig("s", "a", dirty_ratio_percent=101), "dirty_ratio_percent"),
        (StreamConfig("s", "a", tombstone_retention_ms=-1), "tombstone_retention_ms"),
        (StreamConfig("s", "a", segment_bytes=1023), "it must be 1024 to"),
        (StreamConfig("s", "a", segment_ms=-1), "segment_ms"),
        (StreamConfig("s", "a", segment_records=-1), "segment_records"),
        (StreamConfig("s", "a", codec="gzip"), "none, zstd, lz4"),
        (StreamConfig("s", "a", durability="never"), "sync, os"),
    ],
)
def test_N7_a_stream_that_cannot_work_is_refused_with_the_reason(config: StreamConfig, word: str) -> None:
    cluster = Cluster()
    result = cluster.apply(cluster.creation(config))
    assert result.code == "invalid"
    assert word in result.detail


def test_N7_partition_subjects_may_not_meet_another_stream() -> None:
    cluster = Cluster()
    cluster.apply(cluster.creation(StreamConfig("a", "a", 3, 1)))
    result = cluster.apply(cluster.creation(StreamConfig("b", "a.1", 1, 1)))
    assert result.code == "invalid"
    assert "collides" in result.detail
    overlapping = StreamConfig("c", "a", 1, 1, ack_reply=False)
    assert not cluster.apply(cluster.creation(overlapping)).code, "each gets its own copy"


def test_N9_of_streams_that_overlap_one_answers() -> None:
    cluster = Cluster()

    def create(name: str, subject: str, ack_reply: bool, partitions: int = 1) -> CommandResult:
        config = StreamConfig(name, subject, partitions, 1, ack_reply=ack_reply)
        return cluster.apply(cluster.creation(config))

    assert not create("orders", "orders.>", True).code
    for subject in ("orders.>", "orders.new", "orders.*", "orders.*.x"):
        refused = create("rival", subject, True)
        assert refused.code == "invalid", subject
        assert "'orders.>' of stream 'orders'" in refused.detail and "--no-ack-reply" in refused.detail
    assert not create("elsewhere", "jobs", True, partitions=2).code
    assert create("rival", "jobs.*", True).code == "invalid"
    assert not create("audit", "orders.*", False).code
    assert not create("copy", "orders.>", False).code, "silent ones as many as you like"
    assert not create("orders", "orders.>", True).code, "asked for once more"
    assert not create("other", "other.>", True).code, "the copies do not stand in anybody's way"


def test_the_number_of_streams_is_bounded() -> None:
    cluster = Cluster(streams_max=2)
    cluster.create("a")
    cluster.create("b")
    result = cluster.apply(cluster.creation(StreamConfig("c", "c")))
    assert "maximum of 2" in result.detail


def test_N1_readiness_belongs_to_one_epoch() -> None:
    cluster = Cluster()
    partition = cluster.create()
    cluster.apply(LeaderReady(cluster.request(), partition.id, partition.epoch))
    assert partition.ready
    cluster.apply(Resign(cluster.request(), partition.id, partition.epoch, partition.version))
    assert not partition.ready
    late = cluster.apply(LeaderReady(cluster.request(), partition.id, partition.epoch - 1))
    assert late.code == "stale"


def test_commands_survive_encoding() -> None:
    command = ReportLeader(RequestId(1, 2, 3), PartitionId(3, 4), 5, 6, 7, 8)
    assert decode_command(encode_command(command)) == command


def test_an_index_that_does_not_follow_stops_the_node() -> None:
    cluster = Cluster()
    with pytest.raises(InvariantViolation):
        cluster.metadata.apply(cluster.metadata.applied + 2, None)
