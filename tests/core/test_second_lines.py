"""Guards that no honest world makes decide, or hardly one, each reached directly: second lines of defence.

`liftlog_sim/audit/coverage.py` says of each why no world needs it, and `tests/test_rules.py` asks for a test
of each; `R6.progress-mismatch` is decided by what broken peers send only.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from liftlog.core.guards import Guards
from liftlog.core.metadata.commands import (
    AdmitNode,
    ChangeIsr,
    RegisterNode,
    RemoveNode,
    Resign,
    SetVoter,
    encode_command,
)
from liftlog.core.metadata.image import ImageReader, ImageWriter
from liftlog.core.metadata.metadata import Metadata
from liftlog.core.metadata.records import OK, STALE
from liftlog.messages import (
    FETCH_BELOW_START,
    FETCH_DIVERGED,
    FetchProgress,
    FetchReply,
    Received,
    StopNode,
    VoteReply,
)
from liftlog.mutants import NO_MUTANTS
from liftlog.types import Entry, GroupMember, Members, OffsetRange
from tests.core.metadata_harness import Cluster
from tests.core.raft_harness import Group, Packet
from tests.core.test_replication import others, ready


def test_I2_other_disk_a_replaced_disk_does_not_count_for_what_the_one_before_it_had() -> None:
    """`I2.other-disk`: also if it claims to remember the last run that was confirmed."""
    cluster = Cluster()
    partition = cluster.create()
    cluster.expire(2)
    cluster.register(2, disk="another", remembered=cluster.metadata.nodes[2].confirmed)
    assert cluster.metadata.nodes[2].reset and 2 not in partition.isr
    assert cluster.metadata.counts["I2.other-disk"] == 1
    assert not cluster.metadata.nodes[2].forgot


def test_I2_two_disks_of_one_node_the_newer_waits_for_the_end_of_the_session() -> None:
    """`I2.two-disks`: while the disk that the node has lives, another one is not it."""
    cluster = Cluster()
    before = cluster.metadata.nodes[2]
    cluster.register(2, disk="another")
    assert cluster.metadata.nodes[2] is before
    cluster.expire(2)
    cluster.register(2, disk="another")
    assert cluster.metadata.nodes[2].disk_id == "another"
    assert cluster.metadata.counts["I2.two-disks"] == 1


FOUNDERS = [(1, "h1:2"), (2, "h2:2"), (3, "h3:2")]


def test_I3_a_node_that_was_removed_is_refused_for_ever_whatever_its_disk() -> None:
    """`I3.removed`: also when its process knows nothing of that."""
    cluster = Cluster(4)
    assert cluster.apply(RemoveNode(cluster.request(), 4, 0, FOUNDERS)) is OK
    assert 4 not in cluster.metadata.nodes and cluster.metadata.is_removed(4)
    registration = RegisterNode(cluster.request(), 4, 0, "another", 0, 5, "h4:1", [])
    assert cluster.apply(registration) is STALE and 4 not in cluster.metadata.nodes
    assert cluster.metadata.counts["I3.removed"] == 1


def test_I3_of_two_words_about_nodes_the_later_one_has_to_know_the_earlier_one() -> None:
    """`I3.stale`: compare-and-set on the index of the last."""
    cluster = Cluster()
    assert cluster.apply(AdmitNode(cluster.request(), 4, "h4:2", 0, FOUNDERS)) is OK
    first = cluster.metadata.admitted_at
    assert cluster.apply(AdmitNode(cluster.request(), 4, "h5:2", 0, FOUNDERS)) is STALE
    assert cluster.metadata.admissions[4].address == "h4:2"
    assert cluster.apply(AdmitNode(cluster.request(), 4, "h5:2", first, FOUNDERS)) is OK
    assert cluster.metadata.admissions[4].address == "h5:2" and cluster.metadata.counts["I3.stale"] == 1


def test_I3_a_node_with_a_copy_is_not_removed() -> None:
    """`I3.keeps`: judged when the command is applied, for a copy may have come meanwhile."""
    cluster = Cluster(4)
    cluster.create(replicas=4)
    assert cluster.apply(RemoveNode(cluster.request(), 4, 0, FOUNDERS)) is STALE
    assert 4 in cluster.metadata.nodes and cluster.metadata.counts["I3.keeps"] == 1


def test_I3_a_node_that_is_to_vote_is_not_removed() -> None:
    """`I3.votes`: by configuration or by an operator's word."""
    cluster = Cluster(4)
    assert cluster.apply(RemoveNode(cluster.request(), 3, 0, FOUNDERS)) is STALE
    assert 3 in cluster.metadata.nodes and cluster.metadata.counts["I3.votes"] == 1
    assert cluster.apply(SetVoter(cluster.request(), 3, False, 0)) is OK
    # Without it the group may not be able to decide anything: it has to have left it.
    assert cluster.apply(RemoveNode(cluster.request(), 3, 0, FOUNDERS)) is STALE
    cluster.metadata.grouped(Members((GroupMember(1, "disk-1"),)))
    assert cluster.apply(RemoveNode(cluster.request(), 3, 0, FOUNDERS)) is OK


def test_I3_a_snapshot_says_which_nodes_there_are() -> None:
    """M1p: and one of a cluster in which nobody was added can be read by an older liftlog."""
    older = read_back(Cluster(4, level=1)).head
    assert older is not None and older.version == 2
    cluster = Cluster(4)
    cluster.apply(AdmitNode(cluster.request(), 5, "h5:2", 0, FOUNDERS))
    cluster.apply(RemoveNode(cluster.request(), 4, cluster.metadata.admitted_at, FOUNDERS))
    image = read_back(cluster)
    other = Metadata(Guards(NO_MUTANTS))
    other.adopt(image)
    assert image.head is not None and image.head.version == 3
    assert other.admissions == cluster.metadata.admissions
    assert other.founders == tuple(FOUNDERS) and other.is_removed(4) and not other.is_removed(5)


def read_back(cluster: Cluster) -> ImageReader:
    """What a snapshot of this metadata holds."""
    members = Members((GroupMember(1, "disk-1"),))
    writer = ImageWriter(cluster.metadata, cluster.metadata.results, 1, members, (), 3)
    while not writer.go_on():
        pass
    reader = ImageReader()
    for chunk in writer.chunks:
        reader.take(chunk)
    return reader


def test_I2_superseded_of_two_processes_of_one_node_the_earlier_one_stops() -> None:
    """`I2.superseded`: a registration that knew of this process's own can only be of a later one."""
    world, _ = ready()
    node = world.nodes[1]
    state = node.metadata.nodes[1]
    command = RegisterNode(
        node.ctx.new_request(), 1, state.incarnation, state.disk_id, state.confirmed, 7, "h", []
    )
    index = node.metadata.applied + 1
    node._apply(Entry(index, node.raft.term, encode_command(command)))
    assert node.marks["I2.superseded"] == 1
    assert any(isinstance(effect, StopNode) for effect in node.ctx.effects)


def test_R1_other_incarnation_a_restarted_node_does_not_lead_on_in_the_epoch_of_its_earlier_run() -> None:
    """`R1.other-incarnation`: were its registration not to end that epoch."""
    world, partition = ready()
    leader = world.leader(partition)
    replica = world.replica(leader, partition)
    replica.step_aside()
    record = world.nodes[leader].metadata.partitions[partition]
    earlier = replace(record, leader_incarnation=record.leader_incarnation - 1)
    world.nodes[leader].metadata.partitions[partition] = earlier
    replica.adopt()
    assert replica.leading is None
    assert world.nodes[leader].marks["R1.other-incarnation"] == 1


def test_R1_barred_a_leader_whose_log_has_failed_does_not_lead_that_epoch_again() -> None:
    """`R1.barred`: were the group to hear of the failure without beginning another epoch."""
    world, partition = ready()
    leader = world.leader(partition)
    replica = world.replica(leader, partition)
    replica.step_aside()
    replica.log.barred_epoch = replica.epoch
    replica.adopt()
    assert replica.leading is None
    assert world.nodes[leader].marks["R1.barred"] == 1
    replica.log.barred_epoch -= 1
    replica.adopt()
    assert replica.leading is not None


def test_R6_progress_mismatch_progress_of_a_log_that_is_no_prefix_counts_for_nothing() -> None:
    """`R6.progress-mismatch`: it is told only once the leader has compared the logs in this epoch."""
    world, partition = ready()
    leader, follower = world.leader(partition), others(world, partition)[0]
    replica = world.replica(leader, partition)
    incarnation = world.nodes[follower].incarnation
    before = replica.leading.followers[follower].durable
    progress = FetchProgress(partition, replica.epoch, incarnation, 3, 3, replica.epoch + 1)
    world.step(leader, Received(follower, progress))
    assert replica.leading.followers[follower].durable == before
    assert world.nodes[leader].marks["R6.progress-mismatch"] == 1


def test_R6_committed_a_follower_gives_up_nothing_that_it_knows_to_be_committed() -> None:
    """`R6.committed`: no honest leader asks for it."""
    world, partition = ready()
    follower = others(world, partition)[0]
    replica = world.replica(follower, partition)
    assert world.run_until(lambda: replica.hw == 3)
    incarnation, request = world.nodes[follower].incarnation, replica.following.request
    reply = FetchReply(partition, replica.epoch, incarnation, request, FETCH_DIVERGED, 0, 0, 3, 1, 1, [])
    world.step(follower, Received(world.leader(partition), reply))
    assert replica.leo == 3
    assert world.nodes[follower].marks["R6.committed"] == 1


@pytest.mark.parametrize(
    ("damaged", "kept"), [(OffsetRange(1, 3), 1), (OffsetRange(1, 2), 3), (OffsetRange(2, 3), 3)]
)
def test_R6_damaged_end_what_cannot_be_read_up_to_the_end_may_be_cut(damaged: OffsetRange, kept: int) -> None:
    """The copy would ask for ever: it does not know the epochs of what it has lost.

    Seed 0 of the profile `failures`, in tests/sim/test_seeds.py, found it.
    """
    world, partition = ready()
    follower = others(world, partition)[0]
    replica = world.replica(follower, partition)
    assert world.run_until(lambda: replica.hw == 3)
    replica.log.damage.add(damaged)
    incarnation, request = world.nodes[follower].incarnation, replica.following.request
    reply = FetchReply(partition, replica.epoch, incarnation, request, FETCH_DIVERGED, 0, 0, 3, 1, 1, [])
    world.step(follower, Received(world.leader(partition), reply))
    assert (replica.leo, replica.hw) == (kept, kept)
    assert world.run_until(lambda: world.replica(follower, partition).hw == 3)


def test_R6_damaged_end_a_copy_that_has_lost_all_it_had_begins_at_the_leaders_log_start() -> None:
    """What may be told may be done: the reset needs the same consent as the answer that asks for it."""
    world, partition = ready()
    follower = others(world, partition)[0]
    replica = world.replica(follower, partition)
    assert world.run_until(lambda: replica.hw == 3)
    replica.log.damage.add(OffsetRange(0, 3))
    incarnation, request = world.nodes[follower].incarnation, replica.following.request
    reply = FetchReply(partition, replica.epoch, incarnation, request, FETCH_BELOW_START, 0, 1, 3, 1, 1, [])
    world.step(follower, Received(world.leader(partition), reply))
    assert not replica.log.broken
    assert (replica.log_start, replica.leo) == (1, 1)
    assert world.run_until(lambda: replica.hw == 3)


def test_R9_leader_a_change_of_the_isr_by_another_than_the_leader_takes_no_effect() -> None:
    """`R9.leader`: also if it names the present version."""
    cluster = Cluster()
    partition = cluster.create()
    other = next(node for node in partition.replicas if node != partition.leader)
    command = ChangeIsr(
        cluster.request(), partition.id, other, partition.epoch, partition.version, [other], 0, 0
    )
    assert cluster.apply(command).code == "rejected"
    assert len(partition.isr) == 3
    assert cluster.metadata.counts["R9.leader"] == 1


def test_N5_nobody_else_a_leader_is_not_relieved_while_all_others_have_just_begun_anew() -> None:
    """`N5.nobody-else`: it asked when they were there."""
    cluster = Cluster()
    partition = cluster.create()
    leader, epoch = partition.leader, partition.epoch
    asked = Resign(cluster.request(), partition.id, epoch, partition.version)
    for node in partition.isr:
        if node != leader:
            cluster.register(node)
    assert cluster.apply(asked).code == "rejected"
    assert (partition.leader, partition.epoch) == (leader, epoch)
    assert cluster.metadata.counts["N5.nobody-else"] == 1


def test_M2b_a_vote_of_who_is_no_voter_elects_nobody() -> None:
    """`M2.vote`: it would have to come from another disk than was asked."""
    group = Group(3)
    group.forget_leader(1)
    group.fire(1)
    raft = group.raft(1)
    group.arrive(Packet(2, 1, VoteReply(raft.term + 1, 2, True, True, "another")))
    assert not raft.is_leader and raft.term == 0
    assert group.marks["M2.vote"] == 1
    group.arrive(Packet(2, 1, VoteReply(raft.term + 1, 2, True, True, "disk-2")))
    assert raft.term == 1
