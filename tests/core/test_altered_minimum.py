"""The minimum in sync is altered while a stream is used (R13, R19)."""

from __future__ import annotations

import msgspec
import pytest

from liftlog.core.metadata import levels
from liftlog.core.metadata.commands import AlterStream, MoveReplicas, TailReport
from liftlog.core.metadata.image import ImageReader
from liftlog.core.metadata.records import CommandResult, PartitionState
from liftlog.messages import AlterStreamRequest, DoneReply, StreamChanges
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.types import InvariantViolation, PartitionId
from tests.core.metadata_harness import Cluster, Present, picture
from tests.core.node_harness import World


class Altered:
    """A stream of one partition in a cluster of so many nodes, and who alters its minimum."""

    def __init__(
        self, replicas: int = 3, minimum: int = 2, nodes: int = 3, mutants: Mutants = NO_MUTANTS
    ) -> None:
        self.cluster = Cluster(nodes, mutants)
        self.partition: Present = self.cluster.create(replicas=replicas, minimum=minimum)
        self.counts = self.cluster.metadata.counts

    @property
    def record(self) -> PartitionState:
        return self.cluster.metadata.partitions[self.partition.id]

    def alter(self, changes: StreamChanges) -> CommandResult:
        stream = self.cluster.metadata.by_id[self.partition.id.stream]
        return self.cluster.apply(
            AlterStream(self.cluster.request(), stream.id, "orders", stream.revision, changes)
        )

    def to(self, minimum: int) -> CommandResult:
        return self.alter(StreamChanges(min_insync_replicas=minimum))

    def leaves(self, node: int) -> None:
        isr = [other for other in self.partition.isr if other != node]
        assert not self.cluster.change_isr(self.partition, isr).code

    def joins(self, node: int) -> None:
        isr = [other for other in self.partition.replicas if other in (*self.partition.isr, node)]
        assert not self.cluster.change_isr(self.partition, isr, node).code

    def others(self) -> list[int]:
        return [node for node in self.partition.replicas if node != self.partition.leader]


def test_R19_the_minimum_is_altered_and_the_version_grows() -> None:
    orders = Altered()
    version, epoch = orders.partition.version, orders.partition.epoch
    assert orders.to(3).detail == "min_insync_replicas 2 -> 3"
    assert (orders.partition.min_insync, orders.partition.epoch) == (3, epoch)
    assert orders.partition.version == version + 1
    assert orders.cluster.metadata.streams["orders"].config.min_insync_replicas == 3
    assert orders.to(3).code == ""
    assert orders.partition.version == version + 1, "nothing has changed for who leads"
    assert orders.counts["R19.minimum-higher"] == 1


def test_R19_a_change_of_the_isr_that_was_meant_for_another_minimum_is_void() -> None:
    """R17: a member that is slow is removed if the minimum does not need it, and this one does."""
    orders = Altered()
    slow, before = orders.others()[0], orders.record
    orders.to(3)
    isr = [node for node in before.isr if node != slow]
    assert orders.cluster.change_isr(before, isr).code == "stale"
    assert slow in orders.partition.isr


def test_R13_who_was_eligible_is_not_when_the_isr_is_at_the_new_minimum() -> None:
    """Found by the model: isr-steps, alters keeps-eligible."""
    orders = Altered(minimum=3)
    away = orders.others()[0]
    orders.leaves(away)
    assert orders.partition.eligible == (away,)
    orders.to(2)
    assert orders.partition.eligible == ()
    assert orders.counts["R13.eligibility-ends"] == 1


def test_R13_who_was_eligible_stays_so_while_the_isr_is_below_the_new_minimum() -> None:
    """Nothing commits in between; and where the ISR is empty nobody else could ever lead."""
    orders = Altered(minimum=3)
    leader, (first, second) = orders.partition.leader, orders.others()
    orders.leaves(first)
    orders.leaves(second)
    orders.to(2)
    assert (orders.partition.isr, set(orders.partition.eligible)) == ((leader,), {first, second})


def test_R13_whoever_is_elected_from_the_eligible_commits_alone_if_the_minimum_is_one_by_then() -> None:
    """Found by the model: isr-steps, alters elects-with-eligible."""
    orders = Altered(replicas=2)
    first, second = orders.partition.replicas
    orders.cluster.expire(first)
    orders.cluster.expire(second)
    assert (orders.partition.isr, orders.partition.eligible) == ((), (first, second))
    orders.to(1)
    assert orders.partition.eligible == (first, second), "one of them has to lead"
    orders.cluster.register(first)
    orders.cluster.confirm(first)
    orders.cluster.register(second)
    assert orders.partition.leader == first
    assert (orders.partition.isr, orders.partition.eligible) == ((first,), ())


def test_R13_by_a_minimum_of_two_the_others_stay_eligible_as_before() -> None:
    orders = Altered(replicas=2)
    first, second = orders.partition.replicas
    orders.cluster.expire(first)
    orders.cluster.expire(second)
    orders.cluster.register(first)
    orders.cluster.confirm(first)
    assert (orders.partition.isr, orders.partition.eligible) == ((first,), (second,))


def test_R14_what_was_remembered_of_doubtful_copies_ends_when_the_isr_is_at_the_minimum() -> None:
    orders = Altered(replicas=2)
    other = orders.others()[0]
    tail = TailReport(orders.partition.id, "suspect", orders.partition.epoch, 5)
    orders.cluster.register(other, [tail])
    assert orders.partition.last_known[other].leo == 5
    orders.to(1)
    assert orders.partition.last_known == {}


def test_the_mutant_of_R13_keeps_who_was_eligible() -> None:
    orders = Altered(minimum=3, mutants=Mutants(eligible_kept_when_minimum_changes=True))
    away = orders.others()[0]
    orders.leaves(away)
    orders.to(2)
    assert orders.partition.eligible == (away,)


@pytest.mark.parametrize("minimum", [0, 4])
def test_R19_the_minimum_is_one_to_the_replication_factor(minimum: int) -> None:
    orders = Altered()
    refused = orders.to(minimum)
    assert refused.code == "invalid"
    assert refused.detail == (
        f"min_insync_replicas = {minimum} is not accepted; it must be 1 to the replication factor, "
        "which is 3 and can be altered too"
    )
    assert orders.partition.min_insync == 2


def test_R19_fewer_copies_than_must_be_in_sync_are_refused_with_the_remedy() -> None:
    orders = Altered()
    refused = orders.alter(StreamChanges(replication_factor=1))
    assert refused.detail == (
        "replication_factor = 1 is fewer copies than the 2 that must be in sync; "
        "lower min_insync_replicas too"
    )
    assert orders.alter(StreamChanges(replication_factor=1, min_insync_replicas=1)).code == ""
    assert len(orders.partition.target) == orders.partition.min_insync == 1


def test_R19_more_copies_and_a_higher_minimum_come_in_one_command() -> None:
    orders = Altered(replicas=1, minimum=1, nodes=5)
    assert orders.alter(StreamChanges(replication_factor=3, min_insync_replicas=3)).code == ""
    assert (len(orders.partition.target), orders.partition.min_insync) == (3, 3)


def test_R20_a_partition_that_is_to_have_fewer_copies_than_its_stream_holds_the_minimum_down() -> None:
    """A move may leave fewer: then no so many can ever be in sync."""
    orders = Altered(nodes=5)
    two = list(orders.partition.replicas[:2])
    id, read = orders.partition.id, orders.partition.assignment
    assert not orders.cluster.apply(MoveReplicas(orders.cluster.request(), id, read, two)).code
    assert orders.to(3).detail == (
        "min_insync_replicas = 3 is not accepted; partition 0 is to have a copy on 2 nodes: "
        "move it to more of them first"
    )
    assert orders.partition.min_insync == 2


def test_R19_a_record_whose_minimum_no_command_has_altered_stops_the_node() -> None:
    orders = Altered()
    metadata = orders.cluster.metadata
    metadata.begin(metadata.applied + 1)
    with pytest.raises(InvariantViolation, match=r"minimum in sync of .* is not altered now"):
        metadata.put_partition(orders.record.with_minimum(3))
    with pytest.raises(InvariantViolation, match=r"4 of the replicas .* have to be in sync"):
        metadata.put_partition(orders.record.with_minimum(4))


def test_D2_what_was_committed_alone_may_be_on_one_copy_until_the_isr_is_at_the_higher_minimum() -> None:
    orders = Altered(minimum=1)
    first, second = orders.others()
    orders.to(2)
    assert not orders.partition.alone, "all in sync have it"
    orders.to(1)
    orders.leaves(first)
    orders.leaves(second)
    orders.to(2)
    orders.to(3)
    assert orders.partition.alone
    orders.joins(first)
    assert orders.partition.alone
    orders.joins(second)
    assert not orders.partition.alone


def test_U2_an_older_release_cannot_read_such_an_alteration() -> None:
    command = AlterStream(Cluster().request(), 1, "orders", 0, StreamChanges(min_insync_replicas=1))
    assert levels.since(command) == 2
    cluster = Cluster(level=1)
    partition = cluster.create()
    stream = partition.id.stream
    changes = StreamChanges(min_insync_replicas=1)
    refused = cluster.apply(AlterStream(cluster.request(), stream, "orders", 0, changes))
    assert "needs feature level 2" in refused.detail
    assert partition.min_insync == 2


def test_M1p_a_snapshot_has_the_minimum_and_who_committed_alone() -> None:
    orders = Altered(minimum=1)
    for node in orders.others():
        orders.leaves(node)
    orders.to(2)
    other, reader = Cluster(nodes=0), ImageReader()
    for chunk in picture(orders.cluster.metadata).chunks:
        reader.take(chunk)
    other.metadata.adopt(reader)
    assert other.metadata.partitions[orders.partition.id] == orders.record
    assert msgspec.structs.asdict(orders.record)["alone"]


def commit(world: World, partition: PartitionId, value: bytes) -> bool:
    leader = world.leader(partition)
    before = world.replica(leader, partition).hw
    world.publish(partition, value)
    return world.run_until(lambda: world.replica(leader, partition).hw > before, 2.0)


def test_R2_a_leader_commits_what_waits_as_soon_as_it_hears_of_a_lower_minimum() -> None:
    """And not before; nothing else has to come in between (NothingHeldBack)."""
    world = World(count=3)
    partition = world.create("orders", replicas=3, minimum=3)
    assert commit(world, partition, b"by all")
    leader = world.leader(partition)
    gone = next(node for node in world.nodes if node != leader)
    world.kill(gone)
    before, metadata = world.replica(leader, partition).hw, world.nodes[leader].metadata
    world.publish(partition, b"stored, while the third one was thought to be there")
    assert world.run_until(lambda: len(metadata.partitions[partition].isr) == 2, 60.0)
    world.run(5.0)
    assert world.replica(leader, partition).hw == before
    request = AlterStreamRequest("orders", StreamChanges(min_insync_replicas=2))
    reply = world.answer(leader, request)
    assert isinstance(reply, DoneReply) and reply.detail == "min_insync_replicas 3 -> 2"
    assert world.run_until(lambda: world.replica(leader, partition).hw == before + 1, 5.0)
    assert commit(world, partition, b"by two as well")
