"""Copies of a partition are moved to other nodes while it is used (R20)."""

from __future__ import annotations

import pytest

from liftlog.core.metadata import levels
from liftlog.core.metadata.commands import (
    AlterStream,
    CopyDropped,
    DrainNode,
    FinishMove,
    MoveReplicas,
)
from liftlog.core.metadata.image import ImageReader, ImageWriter
from liftlog.core.metadata.records import CommandResult
from liftlog.messages import (
    DoneReply,
    DrainNodeRequest,
    ErrorReply,
    MoveReplicasRequest,
    StreamChanges,
    StreamInfoRequest,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.types import Members
from tests.core.metadata_harness import Cluster, Present
from tests.core.node_harness import World


class Moved:
    """A partition of a cluster of five nodes, and who moves it by what he has read."""

    def __init__(self, replicas: int = 3, mutants: Mutants = NO_MUTANTS) -> None:
        self.cluster = Cluster(5, mutants)
        self.partition: Present = self.cluster.create(replicas=replicas)
        self.counts = self.cluster.metadata.counts

    def move(self, *replicas: int, assignment: int | None = None) -> CommandResult:
        read = self.partition.assignment if assignment is None else assignment
        return self.cluster.apply(
            MoveReplicas(self.cluster.request(), self.partition.id, read, list(replicas))
        )

    def join(self, node: int) -> None:
        isr = [other for other in self.partition.replicas if other in (*self.partition.isr, node)]
        assert not self.cluster.change_isr(self.partition, isr, node).code

    def finish(self) -> CommandResult:
        return self.cluster.apply(
            FinishMove(self.cluster.request(), self.partition.id, self.partition.assignment)
        )

    def dropped(self, node: int) -> CommandResult:
        run = self.cluster.metadata.nodes[node].incarnation
        return self.cluster.apply(CopyDropped(self.cluster.request(), self.partition.id, node, run))


def test_r20_a_move_adds_first_and_takes_away_when_all_are_in_sync() -> None:
    moved = Moved()
    before = moved.partition.epoch
    assert moved.move(2, 3, 4).code == ""
    assert (moved.partition.replicas, moved.partition.target) == ((1, 2, 3, 4), (2, 3, 4))
    assert (moved.partition.isr, moved.partition.epoch) == ((1, 2, 3), before), "nobody leaves, nobody joins"
    assert moved.finish().code == "stale"
    assert moved.counts["R20.in-sync"] == 1
    moved.join(4)
    assert moved.finish().code == ""
    assert (moved.partition.replicas, moved.partition.isr) == ((2, 3, 4), (2, 3, 4))
    assert (moved.partition.target, moved.partition.adding) == ((), ())
    assert moved.partition.leader in (2, 3, 4)
    assert moved.partition.epoch > before
    assert moved.partition.dropping == (1,)


def test_r20_the_end_of_a_move_begins_an_epoch_although_the_leader_stays() -> None:
    """What a copy that is dropped has reported must count for nobody (R2)."""
    moved = Moved()
    leader = moved.partition.leader
    gone = next(node for node in moved.partition.replicas if node != leader)
    stay = [node for node in moved.partition.replicas if node != gone]
    moved.move(*stay, 5)
    moved.join(5)
    epoch = moved.partition.epoch
    moved.finish()
    assert (moved.partition.leader, moved.partition.epoch) == (leader, epoch + 1)


def test_r20_a_node_gets_no_copy_again_before_it_has_dropped_its_former_one() -> None:
    moved = Moved()
    moved.move(2, 3, 4)
    moved.join(4)
    moved.finish()
    refused = moved.move(1, 2, 3)
    assert refused.code == "invalid"
    assert "node 1 has not dropped the copy of this partition that it had before" in refused.detail
    assert moved.dropped(4).code == "stale", "it has none to drop"
    assert moved.dropped(1).code == ""
    assert not moved.cluster.metadata.unsettled
    assert moved.move(1, 2, 3).code == ""


def test_r20_an_empty_disk_has_dropped_everything() -> None:
    moved = Moved()
    moved.move(2, 3, 4)
    moved.join(4)
    moved.finish()
    moved.cluster.expire(1)
    moved.cluster.register(1, disk="another")
    assert moved.partition.dropping == ()


def test_r20_who_has_not_read_the_last_move_moves_nothing() -> None:
    moved = Moved()
    assert moved.move(2, 3, 4, assignment=0).code == ""
    assert moved.move(1, 2, 5, assignment=0).code == "stale"
    assert moved.counts["R20.stale-move"] == 1
    assert moved.partition.target == (2, 3, 4)


def test_r20_a_move_that_is_cancelled_is_a_move_to_where_the_copies_were() -> None:
    moved = Moved()
    was = moved.partition.replicas
    moved.move(2, 3, 4)
    moved.join(4)
    assert moved.move(*moved.partition.origin).code == ""
    assert moved.partition.target == was
    assert moved.finish().code == ""
    assert (moved.partition.replicas, moved.partition.isr) == (was, was)
    assert moved.partition.dropping == (4,), "also who had joined already"


def test_r20_a_late_end_of_an_earlier_move_ends_nothing() -> None:
    moved = Moved()
    moved.move(2, 3, 4)
    late = FinishMove(moved.cluster.request(), moved.partition.id, moved.partition.assignment)
    moved.join(4)
    moved.move(3, 4, 5)
    assert moved.cluster.apply(late).code == "stale"
    assert moved.partition.target == (3, 4, 5)


def test_r20_what_is_remembered_of_who_has_left_is_forgotten() -> None:
    moved = Moved()
    moved.move(2, 3, 4)
    moved.join(4)
    moved.finish()
    moved.cluster.expire(2)
    moved.cluster.expire(3)
    assert set(moved.partition.isr) | set(moved.partition.eligible) <= {2, 3, 4}
    assert moved.cluster.metadata.loads.replicas == {1: 0, 2: 1, 3: 1, 4: 1}


@pytest.mark.parametrize(
    ("replicas", "says"),
    [
        ((2, 3, 9), "there is no node 9"),
        ((2, 3, 3), "name a node twice"),
        ((2,), "are fewer than the 2 that must be in sync"),
    ],
)
def test_r20_what_cannot_be_is_refused(replicas: tuple[int, ...], says: str) -> None:
    refused = Moved().move(*replicas)
    assert refused.code == "invalid"
    assert says in refused.detail


def test_r20_a_snapshot_holds_what_is_moved() -> None:
    moved = Moved()
    moved.move(2, 3, 4)
    metadata = moved.cluster.metadata
    writer = ImageWriter(metadata, metadata.results, 1, Members(()), (), 2)
    while not writer.go_on():
        pass
    reader = ImageReader()
    for chunk in writer.chunks:
        reader.take(chunk)
    assert reader.partitions == metadata.partitions
    behind = Cluster(0).metadata
    behind.adopt(reader)
    assert list(behind.unsettled) == [moved.partition.id]
    assert behind.loads.replicas == metadata.loads.replicas


def test_r20_a_drained_node_gives_its_offices_away_and_gets_no_others() -> None:
    moved = Moved()
    leader, cluster = moved.partition.leader, moved.cluster
    drain = DrainNode(cluster.request(), leader, True, 0)
    assert cluster.apply(drain).code == ""
    assert moved.partition.leader not in (0, leader)
    assert leader not in cluster.create("other").replicas
    assert cluster.apply(DrainNode(cluster.request(), leader, False, 0)).code == "stale"
    cluster.expire(leader)
    cluster.register(leader)
    assert cluster.metadata.nodes[leader].drains, "its process does not decide that"
    for node in moved.partition.isr:
        if node != leader:
            cluster.expire(node)
    cluster.confirm(leader)
    assert cluster.create("where-else", replicas=5).replicas != ()


def test_r20_another_number_of_replicas_is_a_move_of_each_partition() -> None:
    """R19: begun by the command that alters the stream; who is out of sync goes first."""
    moved = Moved()
    cluster, config = moved.cluster, moved.cluster.metadata.streams["orders"].config
    name, id = config.name, moved.partition.id.stream

    def alter(factor: int) -> CommandResult:
        read = cluster.metadata.by_id[id].revision
        changes = StreamChanges(replication_factor=factor)
        return cluster.apply(AlterStream(cluster.request(), id, name, read, changes))

    assert alter(5).detail == "replication_factor 3 -> 5"
    assert set(moved.partition.target) == {1, 2, 3, 4, 5}
    moved.join(4)
    assert alter(6).detail == "replication factor 6 needs as many nodes that can have a copy now"
    assert "replication_factor = 1 is fewer copies than the 2 that must be in sync" in alter(1).detail
    assert alter(4).code == ""
    assert 5 not in moved.partition.target, "it is not in sync"
    assert moved.finish().code == ""
    assert moved.partition.dropping == (5,)


# -- whole nodes -------------------------------------------------------------------------------------------


def test_r20_a_copy_goes_to_another_node_with_all_that_is_committed() -> None:
    world = World(4)
    partition = world.create()
    before = next(iter(world.nodes.values())).ctx.metadata.partitions[partition].replicas
    world.publish(partition, b"a", b"b", b"c")
    assert world.run_until(lambda: world.committed(partition, 3))
    new = next(node for node in world.nodes if node not in before)
    gone = world.leader(partition)
    stay = [node for node in before if node != gone]
    assert world.answer(stay[0], MoveReplicasRequest("orders", 0, [new, *stay])) == DoneReply("")
    metadata = world.nodes[new].ctx.metadata
    assert world.run_until(lambda: metadata.partitions[partition].replicas == (new, *stay))
    assert world.run_until(lambda: not metadata.unsettled)
    assert world.run_until(lambda: world.leader(partition) in (new, *stay))
    assert world.values(new, partition) == [b"a", b"b", b"c"]
    assert partition not in world.nodes[gone].replicas
    assert partition not in world.disks[gone].logs
    assert world.run_until(lambda: partition in world.subscriptions)
    world.publish(partition, b"d")
    assert world.run_until(lambda: world.committed(partition, 4))
    again = world.answer(gone, MoveReplicasRequest("orders", 0, list(before)))
    assert again == DoneReply("")
    assert world.run_until(lambda: partition in world.nodes[gone].replicas)
    assert world.run_until(lambda: world.nodes[gone].ctx.metadata.partitions[partition].target == ())
    assert world.values(gone, partition)[:4] == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize("by_copy", [False, True])
def test_r20_r5_a_copy_that_came_back_tells_of_its_failures_as_the_one_before_it_did(by_copy: bool) -> None:
    """Seed 8858: both had number 1, and the group took the second for the first. So it counted on a log that
    had lost its end, and nobody led where that was the only copy.
    """
    world = World(4, Mutants(failures_numbered_by_copy=by_copy))
    metadata = world.nodes[1].ctx.metadata
    assert world.run_until(lambda: metadata.level == levels.NEWEST)
    partition = world.create()
    before = metadata.partitions[partition].replicas
    away = next(node for node in world.nodes if node not in before)
    fails = next(node for node in before if node not in (1, world.leader(partition)))
    stay = [node for node in before if node != fails]
    others = [[*stay, away], [fails, *stay]]

    def fail() -> bool:
        """Whether the group hears that the copy is not to be counted on."""
        world.fail_sync(fails, partition)
        return world.run_until(lambda: fails not in metadata.partitions[partition].isr, 0.5)

    assert fail()
    assert world.run_until(lambda: fails in metadata.partitions[partition].isr)
    for replicas in others:
        assert world.answer(1, MoveReplicasRequest("orders", 0, replicas)) == DoneReply("")
        there = lambda wanted=set(replicas): set(metadata.partitions[partition].replicas) == wanted  # noqa: E731
        assert world.run_until(there)
        assert world.run_until(lambda: not metadata.unsettled and not metadata.partitions[partition].dropping)
    assert world.run_until(lambda: fails in metadata.partitions[partition].isr)
    assert fail() != by_copy


def test_r20_a_node_that_was_down_drops_its_copy_when_it_is_back() -> None:
    world = World(4)
    partition = world.create()
    before = world.nodes[1].ctx.metadata.partitions[partition].replicas
    new = next(node for node in world.nodes if node not in before)
    gone = next(node for node in before if node != world.leader(partition) and node != 1)
    stay = [node for node in before if node != gone]
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    world.kill(gone)
    assert world.answer(1, MoveReplicasRequest("orders", 0, [*stay, new])) == DoneReply("")
    record = lambda: world.nodes[1].ctx.metadata.partitions[partition]  # noqa: E731
    assert world.run_until(lambda: record().target == () and record().dropping == (gone,))
    assert partition in world.disks[gone].logs
    world.restart(gone)
    assert world.run_until(lambda: record().dropping == ())
    assert partition not in world.disks[gone].logs


def test_r20_a_node_is_drained_while_its_controllers_change() -> None:
    world = World(5)
    partitions = [world.create(f"s{number}") for number in range(6)]
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    records = lambda: world.nodes[1].ctx.metadata.partitions  # noqa: E731
    node = max(range(2, 6), key=lambda n: sum(n in records()[p].replicas for p in partitions))
    assert world.answer(1, DrainNodeRequest(node, True)) == DoneReply("")
    other = next(n for n in world.nodes if n not in (1, node))
    world.kill(other)
    assert "already" in world.answer(1, DrainNodeRequest(node, True)).detail
    world.restart(other)
    assert world.run_until(lambda: all(node not in records()[p].replicas for p in partitions), 60.0)
    assert world.run_until(lambda: not world.nodes[1].ctx.metadata.unsettled, 60.0)
    assert not world.nodes[node].replicas


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (MoveReplicasRequest("none", 0, [1]), "does not exist"),
        (MoveReplicasRequest("orders", 7, [1, 2, 3]), "has partitions 0 to 0, not 7"),
        (MoveReplicasRequest("orders", 0, [1, 2, 3], 99), "with id 99 was deleted"),
        (MoveReplicasRequest("orders", 0, [1, 2]), "replication factor of 3, which is changed by"),
        (MoveReplicasRequest("orders", 0, [1, 2, 9]), "there is no node 9"),
    ],
)
def test_r20_what_cannot_be_is_told_at_once(request_: MoveReplicasRequest, says: str) -> None:
    world = World()
    world.create()
    reply = world.answer(2, request_)
    assert isinstance(reply, ErrorReply)
    assert says in str(reply)


def test_r20_what_is_so_already_is_done() -> None:
    world = World()
    world.create()
    where = next(iter(world.nodes[1].ctx.metadata.partitions.values())).replicas
    assert "already" in world.answer(1, MoveReplicasRequest("orders", 0, list(where))).detail
    assert "already" in world.answer(1, MoveReplicasRequest("orders", 0, [])).detail


def test_r20_a_move_is_refused_if_somebody_else_has_moved_the_partition_since_it_was_seen() -> None:
    world = World(4)
    partition = world.create()
    world.publish(partition, b"a")
    assert world.run_until(lambda: world.committed(partition, 1))
    (seen,) = world.answer(1, StreamInfoRequest("orders")).streams[0].partitions
    assert seen.assignment == 0
    kept, other, _ = seen.replicas
    (spare,) = {1, 2, 3, 4} - {*seen.replicas}
    first, second = [kept, other, spare], [other, kept, spare]
    assert isinstance(
        world.answer(2, MoveReplicasRequest("orders", 0, first, assignment=seen.assignment)), DoneReply
    )
    late = world.answer(2, MoveReplicasRequest("orders", 0, second, assignment=seen.assignment))
    assert isinstance(late, ErrorReply) and (late.code, late.retryable) == ("stale", False)
    # Who asks again since he has heard no answer has what he wants.
    again = world.answer(2, MoveReplicasRequest("orders", 0, first, assignment=seen.assignment))
    assert isinstance(again, DoneReply)
    (now,) = world.answer(1, StreamInfoRequest("orders")).streams[0].partitions
    assert now.assignment > seen.assignment
    assert isinstance(
        world.answer(3, MoveReplicasRequest("orders", 0, second, assignment=now.assignment)), DoneReply
    )


def test_r20_new_copies_are_held_to_a_rate() -> None:
    """All records come, and the leader has said no now and then."""
    world = World(4, move_bytes_per_s=2000, fetch_max_bytes=1024)
    partition = world.create()
    before = world.nodes[1].ctx.metadata.partitions[partition].replicas
    for _ in range(20):
        world.publish(partition, b"x" * 500)
    assert world.run_until(lambda: world.committed(partition, 20))
    new = next(node for node in world.nodes if node not in before)
    stay = [node for node in before if node != world.leader(partition)]
    world.answer(1, MoveReplicasRequest("orders", 0, [world.leader(partition), stay[0], new]))
    assert world.run_until(lambda: not world.nodes[1].ctx.metadata.unsettled, 60.0)
    assert len(world.values(new, partition)) == 20
    assert sum(node.marks.get("R20.throttled", 0) for node in world.nodes.values()) > 0
