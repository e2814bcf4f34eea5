"""An orderly stop: what was under way is answered, and nobody waits for an expiry (N3, R15, M1k)."""

from __future__ import annotations

import pytest

from liftlog.core.metadata.commands import ConfirmNode, LeaveNode
from liftlog.core.metadata.records import LEFT, LIVE
from liftlog.messages import DoneReply, ErrorReply, Published, StopRequested, TransferControllerRequest
from liftlog.types import Message, PartitionId
from tests.core.node_harness import World


def ready() -> tuple[World, PartitionId]:
    world = World()
    partition = world.create()
    assert world.run_until(lambda: world.publish(partition, b"first"))
    assert world.run_until(lambda: world.committed(partition, 1))
    return world, partition


def controller(world: World) -> int:
    return next(number for number, node in world.nodes.items() if node.raft.is_leader)


def make_controller(world: World, node: int) -> None:
    world.nodes[controller(world)].raft.transfer(node)
    assert world.run_until(lambda: world.nodes[node].raft.is_leader)
    world.run(1.0)


def stop(world: World, node: int, seconds: float = 1.0) -> None:
    world.post(node, StopRequested())
    assert world.run_until(lambda: world.nodes[node].handed_over, seconds)


@pytest.mark.parametrize("office", ["leader", "controller", "both", "neither"])
def test_a_node_that_stops_hands_over_what_it_has_and_nothing_expires(office: str) -> None:
    world, partition = ready()
    leader = world.leader(partition)
    others = [node for node in world.nodes if node != leader]
    make_controller(world, {"leader": others[0], "neither": others[0]}.get(office, leader))
    if office == "controller":
        make_controller(world, others[0])
    victim = {"controller": others[0], "neither": others[1]}.get(office, leader)
    before = world.replica(leader, partition).epoch
    stop(world, victim)
    world.kill(victim)
    assert world.run_until(lambda: world.leader(partition) not in (0, victim), 0.2)
    successor = world.leader(partition)
    assert (world.replica(successor, partition).epoch > before) is (victim == leader)
    assert world.run_until(lambda: victim not in world.replica(successor, partition).isr, 0.1)
    assert world.publish(partition, b"at once", reply=b"_INBOX.next")
    assert world.run_until(lambda: any(b"_INBOX.next" in ack.replies for ack in world.acks), 0.3)
    world.run(5.0)
    metadata = world.nodes[successor].metadata
    assert metadata.counts["R15.leave"] == 1
    assert "R15.expiry" not in metadata.counts
    assert metadata.nodes[victim].state == LEFT


def test_N3_what_came_before_a_stop_is_stored_and_acknowledged_and_nothing_after() -> None:
    world, partition = ready()
    leader = world.leader(partition)
    epoch = world.replica(leader, partition).epoch
    world.publish(partition, b"under way", reply=b"_INBOX.a")
    world.step(leader, StopRequested())
    assert not world.publish(partition, b"too late", reply=b"_INBOX.b"), "nobody subscribes any more"
    # NATS had sent this before it read the UNSUB.
    world.step(leader, Published(partition, epoch, [Message(b"orders", b"_INBOX.c", b"", b"last")], 1))
    assert world.run_until(lambda: world.nodes[leader].handed_over, 1.0)
    answered = [(ack.epoch, reply) for ack in world.acks for reply in ack.replies]
    assert (epoch, b"_INBOX.a") in answered
    assert (epoch, b"_INBOX.c") in answered
    assert world.nodes[leader].marks["N3.drained"] == 1


def test_a_stop_does_not_wait_for_ever_for_a_commit() -> None:
    world, partition = ready()
    leader = world.leader(partition)
    for node in world.nodes:
        if node != leader:
            world.hold_storage(node)
    world.publish(partition, b"never durable elsewhere", reply=b"_INBOX.d")
    world.run(0.01)
    stop(world, leader, 2.5)
    assert not [ack for ack in world.acks if b"_INBOX.d" in ack.replies]
    assert world.nodes[leader].replicas[partition].leading is None


def test_all_nodes_may_stop_at_once() -> None:
    world, partition = ready()
    for node in world.nodes:
        world.post(node, StopRequested())

    def one_ends() -> bool:
        return any(node.handed_over for node in world.nodes.values())

    started = world.now
    while world.nodes:
        assert world.run_until(one_ends, 3.0)
        world.kill(next(number for number, node in world.nodes.items() if node.handed_over))
    assert world.now - started < 2.0
    for node in (1, 2, 3):
        world.restart(node)
    assert world.run_until(lambda: world.leader(partition) != 0, 10.0)
    assert world.run_until(lambda: len(world.replica(world.leader(partition), partition).isr) == 3)
    assert world.run_until(lambda: world.publish(partition, b"again"))
    assert world.run_until(lambda: world.committed(partition, 2))


def test_a_node_alone_stops_at_once() -> None:
    world = World(1)
    partition = world.create(replicas=1)
    stop(world, 1, 0.5)
    assert world.nodes[1].metadata.nodes[1].state == LIVE, "there is nobody whom it would help"
    world.kill(1)
    world.restart(1)
    assert world.run_until(lambda: world.publish(partition, b"again"), 10.0)


def test_a_confirmation_that_comes_late_does_not_keep_a_leaving_node_in() -> None:
    """A repeated ConfirmNode of the same run may be applied behind the command that leaves."""
    world, partition = ready()
    leader = world.leader(partition)
    node = world.nodes[leader]
    stop(world, leader)
    since = node.metadata.nodes[leader].since
    node.proposals.submit(ConfirmNode(node.ctx.new_request(), leader, node.incarnation, since))
    world.run(0.05)
    assert world.run_until(lambda: node.metadata.nodes[leader].state == LEFT, 2.0)
    assert world.run_until(lambda: node.handed_over, 2.0)


def test_M3_a_command_to_leave_means_nothing_to_a_later_run() -> None:
    world, partition = ready()
    other = next(node for node in world.nodes if node != world.leader(partition))
    old, since = world.nodes[other].incarnation, world.nodes[other].metadata.nodes[other].since
    world.kill(other)
    world.restart(other)
    assert world.run_until(lambda: world.nodes[other].incarnation > old)
    world.run(2.0)
    node = world.nodes[controller(world)]
    node.proposals.submit(LeaveNode(node.ctx.new_request(), other, old, since))
    world.run(1.0)
    assert node.metadata.nodes[other].state == LIVE


def test_M1_the_office_is_offered_to_nobody_whose_vote_does_not_count() -> None:
    world, _ = ready()
    first = controller(world)
    other = first % 3 + 1
    leadership = world.nodes[first].raft.leadership
    assert leadership is not None
    leadership.progress[other].counts = False
    assert other not in leadership.successors()
    refused = world.answer(first, TransferControllerRequest(other), 0.01)
    assert isinstance(refused, ErrorReply) and "its vote does not count" in refused.description
    leadership.progress[other].counts = True
    assert isinstance(world.answer(first, TransferControllerRequest(other), 0.01), DoneReply)
