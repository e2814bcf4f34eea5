"""Streams get more partitions while they are in use (R19, N7)."""

from __future__ import annotations

import pytest

from liftlog.core.metadata import levels
from liftlog.core.metadata.commands import AlterStream, DrainNode, TailReport
from liftlog.core.metadata.image import ImageReader
from liftlog.core.metadata.records import CommandResult
from liftlog.messages import (
    AlterStreamRequest,
    CreateStreamRequest,
    DoneReply,
    ErrorReply,
    StreamChanges,
    StreamInfoReply,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.types import NUMBER_MAX, PartitionId, StreamConfig
from tests.core.metadata_harness import Cluster, picture
from tests.core.node_harness import World


def grow(cluster: Cluster, count: int, name: str = "orders", **more: int) -> CommandResult:
    stream = cluster.metadata.streams[name]
    changes = StreamChanges(partitions=count, **more)
    return cluster.apply(AlterStream(cluster.request(), stream.id, name, stream.revision, changes))


def grown(count: int = 4, nodes: int = 3, mutants: Mutants = NO_MUTANTS) -> Cluster:
    cluster = Cluster(nodes=nodes, mutants=mutants)
    cluster.create("orders")
    assert not grow(cluster, count).code
    return cluster


def test_r19_partitions_are_added_behind_those_that_there_are() -> None:
    cluster = Cluster()
    cluster.create("orders")
    metadata = cluster.metadata
    before = metadata.partitions[metadata.streams["orders"].partitions[0]]
    assert grow(cluster, 3).detail == "partitions 1 -> 3"
    stream = metadata.streams["orders"]
    assert stream.partitions == tuple(PartitionId(stream.id, number) for number in range(3))
    assert (stream.config.partitions, stream.revision) == (3, metadata.applied)
    assert metadata.partitions[before.id] == before
    for number in (1, 2):
        added = metadata.partitions[PartitionId(stream.id, number)]
        assert (added.added, added.created) == (metadata.applied, metadata.applied)
        assert (added.epoch, added.min_insync, len(added.replicas)) == (1, before.min_insync, 3)
        assert added.leader in added.isr
    assert (before.added, before.created) == (0, stream.id)


def test_r16_added_partitions_are_spread_over_nodes_that_live_and_are_not_drained() -> None:
    cluster = Cluster(nodes=5)
    metadata = cluster.metadata
    cluster.create("orders", 2)
    cluster.apply(DrainNode(cluster.request(), 5, True, 0))
    cluster.expire(4)
    assert not grow(cluster, 7).code
    added = [metadata.partitions[one] for one in metadata.streams["orders"].partitions[1:]]
    assert {node for partition in added for node in partition.replicas} == {1, 2, 3}
    kept = {node: sum(node in one.replicas for one in metadata.partitions.values()) for node in (1, 2, 3)}
    assert max(kept.values()) - min(kept.values()) <= 1
    leads = [sum(partition.leader == node for partition in added) for node in (1, 2, 3)]
    assert max(leads) - min(leads) <= 1


def test_r19_fewer_partitions_are_refused_with_what_to_do_instead() -> None:
    cluster = grown(4)
    before = cluster.metadata.streams["orders"]
    refused = grow(cluster, 3)
    assert refused.code == "invalid"
    assert "there are 4, and what those beyond hold would be gone: create another stream" in refused.detail
    assert cluster.metadata.streams["orders"] == before
    assert "so already" in grow(cluster, 4).detail


@pytest.mark.parametrize(
    ("subject", "count", "says"),
    [
        ("orders", 1025, "partitions = 1025 is not accepted; it must be 1 to 1024"),
        ("orders", NUMBER_MAX, "it must be 1 to 1024"),
        ("orders.>", 2, "ends in '>': it can have one partition only"),
        ("$JS", 2, "partition subject '$JS.1' overlaps the reserved '$JS.>'"),
        ("*", 2, "partition subject '*.1' overlaps the reserved '_INBOX.>'"),
    ],
)
def test_n7_a_stream_that_cannot_have_so_many_partitions_is_told_why(
    subject: str, count: int, says: str
) -> None:
    cluster = Cluster()
    cluster.apply(cluster.creation(StreamConfig("orders", subject, 1, 3)))
    refused = grow(cluster, count)
    assert refused.code == "invalid" and says in refused.detail
    assert len(cluster.metadata.partitions) == 1


@pytest.mark.parametrize("other", ["orders.2", "orders.*", "orders.>"])
def test_n7_added_partitions_may_not_meet_another_stream(other: str) -> None:
    """A silent one neither: `subject.i` is a partition's alone."""
    cluster = Cluster()
    cluster.create("orders")
    silent = StreamConfig("other", other, 1, 3, ack_reply=False)
    assert not cluster.apply(cluster.creation(silent)).code
    refused = grow(cluster, 3)
    assert refused.code == "invalid"
    assert "collides with stream 'other' on " in refused.detail and "remove that stream" in refused.detail
    assert cluster.metadata.counts["N7.growth"] == 1
    assert len(cluster.metadata.streams["orders"].partitions) == 1
    assert cluster.metadata.streams["orders"].revision == 0
    cluster.apply(cluster.deletion("other"))
    assert not grow(cluster, 3).code
    assert "collides with stream 'orders'" in cluster.apply(cluster.creation(silent)).detail


def test_n7_a_stream_that_grows_up_to_another_one_may_do_so() -> None:
    cluster = Cluster()
    cluster.create("orders")
    cluster.apply(cluster.creation(StreamConfig("other", "orders.3", 1, 3)))
    assert not grow(cluster, 3).code
    assert "'orders.3' collides with stream 'other'" in grow(cluster, 4).detail


def test_the_mutant_of_n7_lets_two_streams_listen_on_one_subject() -> None:
    cluster = Cluster(mutants=Mutants(partitions_added_unchecked=True))
    cluster.create("orders")
    cluster.apply(cluster.creation(StreamConfig("other", "orders.1", 1, 3)))
    assert not grow(cluster, 2).code


def test_r19_partitions_and_replicas_may_be_altered_by_one_command() -> None:
    """R20: the old partition moves; the new ones are where they are to be."""
    cluster = Cluster(nodes=4)
    cluster.create("orders")
    assert not grow(cluster, 3, replication_factor=4).code
    first, *added = (
        cluster.metadata.partitions[one] for one in cluster.metadata.streams["orders"].partitions
    )
    assert len(first.target) == 4
    assert [(len(one.replicas), one.target) for one in added] == [(4, ())] * 2


def test_u2_partitions_are_not_added_below_level_2() -> None:
    cluster = Cluster(level=levels.FIRST)
    cluster.create("orders")
    assert "needs feature level 2" in grow(cluster, 2).detail
    assert len(cluster.metadata.partitions) == 1


def test_m1p_a_snapshot_holds_what_was_added_and_since_when() -> None:
    cluster = grown(3)
    reader = ImageReader()
    for chunk in picture(cluster.metadata).chunks:
        reader.take(chunk)
    other = Cluster(nodes=0)
    other.metadata.adopt(reader)
    assert other.metadata.streams == cluster.metadata.streams
    assert other.metadata.partitions == cluster.metadata.partitions
    assert [one.added > 0 for one in other.metadata.partitions.values()] == [False, True, True]


def restarted(mutants: Mutants = NO_MUTANTS) -> tuple[Cluster, PartitionId]:
    """The nodes have run since before the partition was added; then all restart, and none had opened it."""
    cluster = Cluster(mutants=mutants)
    cluster.create("orders")
    for node in (1, 2, 3):
        cluster.register(node)
        cluster.confirm(node)
    assert not grow(cluster, 2).code
    first, added = cluster.metadata.streams["orders"].partitions
    for node in (1, 2, 3):
        cluster.register(node, [TailReport(first, "intact", 1, 0)])
    return cluster, added


def test_r14_who_never_opened_a_partition_that_was_added_has_lost_nothing() -> None:
    cluster, added = restarted()
    partition = cluster.metadata.partitions[added]
    assert not any(known.lost for known in partition.last_known.values())


def test_the_mutant_of_r14_takes_them_for_lost() -> None:
    cluster, added = restarted(Mutants(partitions_as_old_as_stream=True))
    assert any(known.lost for known in cluster.metadata.partitions[added].last_known.values())


def test_n1_partitions_are_added_when_their_leaders_listen() -> None:
    world = World()
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    world.create()
    assert world.answer(2, AlterStreamRequest("orders", StreamChanges(partitions=3))) == DoneReply(
        "partitions 1 -> 3"
    )
    stream = world.nodes[1].ctx.metadata.streams["orders"]
    for partition in stream.partitions:
        assert partition in world.subscriptions
        world.publish(partition, b"a")
    assert world.run_until(lambda: all(world.committed(partition, 1) for partition in stream.partitions))
    told = world.answer(3, AlterStreamRequest("orders", StreamChanges(partitions=2)))
    assert isinstance(told, ErrorReply) and "there are 3" in told.description and not told.retryable


def test_n7_a_creation_that_would_listen_on_reserved_subjects_is_not_proposed() -> None:
    world = World()
    world.create()
    told = world.answer(1, CreateStreamRequest(StreamConfig("a", "$JS", 2, 1)))
    assert isinstance(told, ErrorReply) and "overlaps the reserved" in told.description
    assert isinstance(world.answer(1, CreateStreamRequest(StreamConfig("a", "$JS", 1, 1))), StreamInfoReply)
