"""A new quorum out of what a total loss has left (M5): which disk goes on, what has to be stated, and what
becomes of the metadata.
"""

from __future__ import annotations

import msgspec
import pytest

from liftlog.core.guards import Guards
from liftlog.core.lineage import Lineage
from liftlog.core.metadata import levels
from liftlog.core.metadata.commands import AdmitNode, TailReport
from liftlog.core.metadata.image import ImageReader
from liftlog.core.metadata.metadata import Metadata
from liftlog.core.metadata.records import EXPIRED, LastKnown
from liftlog.core.node import Node
from liftlog.core.total_loss.plan import (
    EPOCH_GAP,
    INDEX_GAP,
    TERM_GAP,
    RecoveryPlan,
    begun_anew,
    needed_statement,
    planned,
    vote_id,
)
from liftlog.core.total_loss.reports import CopyReport, DiskReport, KnownNode, surveyed
from liftlog.messages import Received, VoteRequest
from liftlog.nodeconfig import NodeConfig
from liftlog.types import (
    FIRST_CLUSTER,
    NO_CLUSTER,
    ClusterEpoch,
    GroupMember,
    HardState,
    Identity,
    LiftlogError,
    Members,
    PartitionId,
    Recovered,
    StreamConfig,
)
from tests.core.metadata_harness import Cluster

LOG = PartitionId(9, 0)


def report(node: int, index: int = 20, term: int = 3, of: int = 3, **fields: object) -> DiskReport:
    """Of one of the disks that a cluster was born with."""
    voters = tuple(GroupMember(number, f"disk-{number}") for number in range(1, of + 1))
    known = tuple(KnownNode(number, f"disk-{number}", number) for number in range(1, of + 1))
    found = DiskReport(
        node=node,
        disk=f"disk-{node}",
        votes_as=f"disk-{node}",
        incarnation=node,
        epoch=FIRST_CLUSTER,
        last_index=index,
        last_term=term,
        terms=((1, 1), (11, term)),
        members=Members(voters),
        nodes=known,
    )
    return msgspec.structs.replace(found, **fields)


def test_M5_the_log_goes_on_that_an_election_would_choose() -> None:
    assert surveyed([report(1, 20, 3, 5), report(2, 22, 3, 5)]).chosen.node == 2
    assert surveyed([report(1, 20, 4, 5), report(2, 22, 3, 5)]).chosen.node == 1
    damaged = report(2, 0, 0, 5, problem="raft/0.log byte 7: bad", members=None, nodes=())
    assert surveyed([report(1, 20, 3, 5), damaged]).chosen.node == 1
    with pytest.raises(LiftlogError, match="no disk holds metadata that can be used; of node 2"):
        surveyed([damaged])


def test_M5_a_later_term_does_not_help_a_log_that_lacks_what_another_disk_knows_to_be_committed() -> None:
    late = report(1, 20, 4, 5)
    # It was registered at 22, which the other has never heard of.
    registered = report(2, 22, 3, 5, incarnation=22)
    assert surveyed([late, registered]).chosen.node == 2
    # It holds a folder of stream 22.
    holding = report(2, 22, 3, 5, copies=(CopyReport(PartitionId(22, 0), 0, 5, 1, 5, "intact"),))
    assert surveyed([late, holding]).chosen.node == 2
    # Its snapshot ends with entry 15 of term 3, where the other has one of term 4.
    snapped = report(2, 18, 3, 5, snapshot_index=15, snapshot_term=3)
    assert surveyed([late, snapped]).chosen.node == 2
    # Nobody has what is known to be committed: the best there is goes on, and that is said.
    renewed = report(2, 0, 0, 5, incarnation=30, problem="vote is missing", members=None, nodes=())
    survivors = surveyed([late, renewed])
    assert (survivors.chosen.node, survivors.lacks) == (1, 30)


def test_M5_R19_a_log_that_lacks_an_alteration_does_not_give_up_the_partition_that_it_has_added() -> None:
    """The partition's folder lies on a disk whose own log of commands ends before that."""
    late = report(1, 20, 4, 5, partitions=((9, 1),))
    copy = CopyReport(PartitionId(9, 1), 0, 5, 1, 5, "intact")
    holding = report(2, 12, 3, 5, partitions=((9, 1),), copies=(copy,))
    knowing = report(3, 19, 3, 5, partitions=((9, 2),))
    assert surveyed([late, knowing]).chosen.node == 1
    assert surveyed([late, holding, knowing]).chosen.node == 3
    # Nobody has it: that is said.
    survivors = surveyed([late, holding])
    assert (survivors.chosen.node, survivors.lacks) == (1, 21)
    # A stream that the log does not know any more was deleted.
    deleted = msgspec.structs.replace(late, partitions=())
    assert (surveyed([deleted, holding]).chosen.node, surveyed([deleted, holding]).lacks) == (1, 0)


def test_M5_nothing_begins_before_every_missing_disk_is_stated_to_be_destroyed() -> None:
    survivors = surveyed([report(1)])
    assert [node.node for node in survivors.missing] == [2, 3]
    for stated, reason in (
        ([], "state it: --destroyed 2 --destroyed 3"),
        ([2], "state it: --destroyed 3"),
        ([2, 3, 1], "the disk of node 1 is here"),
        ([2, 3, 4], "the metadata know no such node"),
    ):
        with pytest.raises(LiftlogError, match=reason):
            planned(survivors, stated)
    assert needed_statement(survivors, [2, 3]) == ""
    # A node that does not vote has data too.
    nodes = (*report(1).nodes, KnownNode(4, "disk-4", 4))
    with_fourth = surveyed([msgspec.structs.replace(report(1), nodes=nodes)])
    assert "state it: --destroyed 4" in needed_statement(with_fourth, [2, 3])


def test_M5_while_a_quorum_is_there_nothing_is_recovered() -> None:
    with pytest.raises(LiftlogError, match="2 of 3 voters are here, which is a quorum"):
        planned(surveyed([report(1), report(2)]), [3])
    # A disk whose log of commands is of no use is no voter.
    bad = report(2, 0, 0, problem="vote is missing", members=None, nodes=())
    assert planned(surveyed([report(1), bad]), [3]).survivors.chosen.node == 1
    # Of four voters two are no quorum, but nothing was committed without one of them.
    survivors = surveyed([report(1, of=4), report(2, of=4)])
    assert not survivors.has_quorum and not survivors.decided_elsewhere
    assert surveyed([report(1)]).decided_elsewhere


def test_M5_disks_that_cannot_be_right_are_refused() -> None:
    with pytest.raises(LiftlogError, match="two of the disks are of node 1"):
        surveyed([report(1), report(1, disk="other")])
    with pytest.raises(LiftlogError, match="has belonged to no cluster yet"):
        surveyed([report(1), report(2, epoch=NO_CLUSTER)])
    with pytest.raises(LiftlogError, match="two recoveries have begun epoch 2, a and b"):
        surveyed([report(1, epoch=ClusterEpoch(2, "a")), report(2, epoch=ClusterEpoch(2, "b"))])
    with pytest.raises(LiftlogError, match=r"node 2 \(disk old\) was replaced by another one \(disk-2\)"):
        surveyed([report(1), report(2, disk="old")])
    # One that registered after the log that is chosen had ended is the newer one.
    assert surveyed([report(1), report(2, disk="new", votes_as="new", incarnation=19)]).chosen.node == 1


def test_M5_a_disk_of_the_epoch_before_follows_only_if_the_recovery_has_counted_on_it() -> None:
    nodes = (KnownNode(1, "disk-1", 1), KnownNode(2, "disk-2", 2), KnownNode(3, "", 3))
    members = Members((GroupMember(1, "disk-1-2-x"),))
    done = report(1, epoch=ClusterEpoch(2, "x"), votes_as="disk-1-2-x", nodes=nodes, members=members)
    survivors = surveyed([done, report(2)])
    assert [disk.node for disk in survivors.behind] == [2] and survivors.missing == ()
    with pytest.raises(LiftlogError, match="was left out when the cluster was recovered"):
        surveyed([done, report(3)])


def test_M5_every_machine_comes_to_the_same_plan() -> None:
    plans = [planned(surveyed(disks), [2, 3]) for disks in ([report(1)], [report(1)])]
    assert plans[0] == plans[1] and plans[0].epoch.number == 2
    other = planned(surveyed([report(1, 21)]), [2, 3])
    assert other.epoch != plans[0].epoch, "another loss is another epoch"
    assert len(vote_id(report(1, disk="d" * 32), plans[0].epoch)) <= 64


# -- the metadata ------------------------------------------------------------------------------------------


def led(isr: list[int]) -> tuple[Cluster, PartitionId]:
    """Three nodes and a stream with a minimum of two, led by one of the ISR."""
    cluster = Cluster()
    partition = cluster.create()
    if isr != [1, 2, 3]:
        assert not cluster.change_isr(partition, isr).code
    return cluster, partition.id


def plan_of(metadata: Metadata, partition: PartitionId, here: dict[int, tuple[int, int]]) -> RecoveryPlan:
    """`here`: (epoch, LEO) of the copies that are left, by node."""
    disks = []
    for node, (epoch, end) in here.items():
        copies = (CopyReport(partition, 0, end, epoch, 0, "intact"),)
        found = report(node, metadata.applied, 3, 5, copies=copies, incarnation=0)
        known = [KnownNode(one.node, one.disk_id, one.incarnation) for one in metadata.nodes.values()]
        disks.append(msgspec.structs.replace(found, nodes=tuple(known)))
    survivors = surveyed(disks)
    gone = [known.node for known in survivors.missing]
    return planned(survivors, gone)


def anew(metadata: Metadata, plan: RecoveryPlan) -> tuple[Metadata, ImageReader]:
    snapshot = begun_anew(metadata, plan)
    image = ImageReader()
    for chunk in snapshot.chunks:
        image.take(chunk)
    assert image.problem(snapshot.index, snapshot.term, ()) == ""
    after = Metadata(Guards())
    after.adopt(image)
    return after, image


def test_M5_all_that_numbers_something_moves_on_by_a_gap_and_every_session_is_over() -> None:
    cluster, partition = led([1, 2, 3])
    metadata = cluster.metadata
    plan = plan_of(metadata, partition, {1: (7, 50), 2: (1, 60)})
    after, image = anew(metadata, plan)
    assert after.applied == plan.index == metadata.applied + INDEX_GAP
    assert plan.term == 3 + TERM_GAP
    assert image.members == Members((GroupMember(1, vote_id(report(1), plan.epoch)),))
    assert after.epoch == plan.epoch and after.streams == metadata.streams
    assert all(node.state == EXPIRED and node.since == plan.index for node in after.nodes.values())
    assert [node.disk_id for node in after.nodes.values()] == ["disk-1", "disk-2", ""]
    record = after.partitions[partition]
    # A batch of epoch 7 lies on a disk, of which these metadata have never heard.
    assert record.epoch == 7 + EPOCH_GAP and record.version > metadata.partitions[partition].version
    assert (record.leader, record.isr, record.eligible) == (0, (), ())
    assert record.last_known == {1: LastKnown(7, 50), 2: LastKnown(1, 60)}


def test_M5_without_a_copy_that_the_metadata_count_on_only_an_operator_elects() -> None:
    cluster, partition = led([1, 2])
    after, _ = anew(cluster.metadata, plan_of(cluster.metadata, partition, {3: (1, 40)}))
    known = after.partitions[partition].last_known
    assert known[3] == LastKnown(1, 40) and known[1].lost and known[2].lost
    cluster.metadata = after
    cluster.register(3, [TailReport(partition, "intact", 1, 40)])
    cluster.confirm(3)
    assert after.partitions[partition].leader == 0


def test_M5_R20_who_counts_and_has_no_log_may_have_given_it_up_in_what_is_lost() -> None:
    """A move whose end nobody knows any more: the copy's new place is destroyed."""
    cluster, partition = led([1, 2, 3])
    plan = plan_of(cluster.metadata, partition, {1: (7, 50)})
    disk = msgspec.structs.replace(plan.survivors.disks[0], copies=())
    plan = planned(surveyed([disk]), plan.destroyed)
    after, _ = anew(cluster.metadata, plan)
    assert after.partitions[partition].last_known[1].lost, "an empty copy would be elected by itself"


def test_M5_what_the_group_has_decided_of_nodes_and_versions_goes_on() -> None:
    """I3, U2."""
    cluster, partition = led([1, 2, 3])
    metadata = cluster.metadata
    founders = ((1, "a:1"), (2, "b:1"), (3, "c:1"))
    assert not cluster.apply(AdmitNode(cluster.request(), 4, "d:1", 0, list(founders))).code
    after, _ = anew(metadata, plan_of(metadata, partition, {1: (1, 5), 2: (1, 5)}))
    assert after.level == levels.NEWEST
    assert (after.admissions, after.founders) == (metadata.admissions, metadata.founders)


def test_M5_N12_what_was_to_be_told_is_told_by_whoever_leads_the_activity_stream_then() -> None:
    cluster, partition = led([1, 2, 3])
    metadata = cluster.metadata
    config = StreamConfig("__activity", "__activity.>", 1, 3, activity=True)
    assert not cluster.apply(cluster.creation(config)).code
    cluster.expire(3)
    after, _ = anew(metadata, plan_of(metadata, partition, {1: (1, 5), 2: (1, 5)}))
    assert after.outbox.head == metadata.outbox.head
    assert list(after.outbox.events) == list(metadata.outbox.events) != []


def test_M5_R14_the_greatest_copy_that_is_left_leads_once_it_is_there() -> None:
    cluster, partition = led([1, 2, 3])
    after, _ = anew(cluster.metadata, plan_of(cluster.metadata, partition, {1: (7, 50), 2: (8, 3)}))
    cluster.metadata = after
    cluster.register(3, [], disk="new")
    cluster.confirm(3)
    cluster.register(1, [TailReport(partition, "intact", 7, 50)])
    cluster.confirm(1)
    assert after.partitions[partition].leader == 0, "node 2 has more"
    assert cluster.register(2, [TailReport(partition, "intact", 8, 3)]) > INDEX_GAP
    cluster.confirm(2)
    record = after.partitions[partition]
    assert (record.leader, record.isr) == (2, (2,)) and record.epoch > EPOCH_GAP


# -- who is heard ------------------------------------------------------------------------------------------


def node_of(identity: Identity) -> Node:
    recovered = Recovered(identity, HardState(), [], [], False, 5)
    return Node(NodeConfig(1, (1, 2, 3)), recovered)


@pytest.mark.parametrize(
    ("mine", "theirs", "reason"),
    [
        (Identity(1, "d", 5), ClusterEpoch(2, "x"), "the cluster was recovered without this disk"),
        (Identity(1, "d", 5, cluster_epoch=2, recovery="x"), FIRST_CLUSTER, "recovered without its disk"),
        (
            Identity(1, "d", 5, cluster_epoch=2, recovery="x"),
            ClusterEpoch(2, "y"),
            "two recoveries have begun epoch 2",
        ),
        (Identity(1, "d", 5, cluster_epoch=2, recovery="x"), ClusterEpoch(2, "x"), ""),
        (Identity(1, "d"), ClusterEpoch(2, "x"), ""),
        (Identity(1, "d", 5, cluster_epoch=2, recovery="x"), NO_CLUSTER, ""),
    ],
)
def test_M5_nobody_of_another_epoch_is_heard(mine: Identity, theirs: ClusterEpoch, reason: str) -> None:
    node = node_of(mine)
    node.start(0.0)
    before = node.raft.term
    node.step(Received(2, VoteRequest(before + 1, 2, 0, 0, False, True, "d2"), theirs))
    assert reason in node.ctx.last_refusal
    assert bool(node.marks.get("M5.other-epoch")) == bool(reason)


def test_M5_a_disk_of_no_cluster_belongs_to_the_one_whose_metadata_it_takes_over() -> None:
    node = node_of(Identity(1, "d"))
    assert node.cluster_epoch == NO_CLUSTER
    cluster, partition = led([1, 2, 3])
    _, image = anew(cluster.metadata, plan_of(cluster.metadata, partition, {1: (1, 5)}))
    node.metadata.adopt(image)
    node.lineage.applied()
    assert isinstance(node.lineage, Lineage) and node.cluster_epoch.number == 2
