"""Sessions of nodes with the controller: whole from the beginning, renewed or ended, never both (R15, N2)."""

from __future__ import annotations

from typing import Any

from liftlog.core.metadata.commands import UNSENT, ExpireNode, encode_command
from liftlog.messages import Forward, Heartbeat, HeartbeatReply, Received
from liftlog.mutants import Mutants
from tests.core.node_harness import World


def running(**kwargs: Any) -> tuple[World, int, int]:
    """A cluster with its controller and another node."""
    world = World(**kwargs)
    world.create()
    controller = next(node for node, each in world.nodes.items() if each.raft.is_leader)
    return world, controller, next(node for node in world.nodes if node != controller)


def expiries_of_a_node_that_was_away(**kwargs: Any) -> int:
    world, controller, other = running(**kwargs)
    world.kill(other)
    nodes = world.nodes[controller].metadata.nodes
    assert world.run_until(lambda: nodes[other].state == "expired")
    world.run(5.0)
    world.restart(other)
    assert world.run_until(lambda: nodes[other].state == "live")
    world.run(5.0)
    assert nodes[other].state == "live"
    return world.nodes[controller].metadata.counts["R15.expiry"]


def test_R15_a_node_that_comes_back_is_not_expired_for_having_been_away() -> None:
    assert expiries_of_a_node_that_was_away() == 1
    assert expiries_of_a_node_that_was_away(mutants=Mutants(session_age_kept=True)) == 2


def test_N2_a_session_whose_end_is_on_its_way_is_not_renewed() -> None:
    """The controller cannot commit the expiry yet: a heartbeat is too late now."""
    world, controller, other = running()
    node = world.nodes[controller]
    replies: list[HeartbeatReply] = []

    def drop(sender: int, to: int, message: object) -> bool:
        if isinstance(message, HeartbeatReply) and to == other:
            replies.append(message)
        return isinstance(message, Heartbeat) and sender == other

    world.drop = drop
    assert world.run_until(lambda: node.marks.get("R15.expire", 0) > 0)
    state = node.metadata.nodes[other]
    assert state.state == "live", "asked for, not applied"
    replies.clear()
    world.step(controller, Received(other, Heartbeat(state.incarnation, 1, 0)))
    assert replies == []
    assert node.marks["N2.expiring"] == 1
    assert world.run_until(lambda: node.metadata.nodes[other].state == "expired")
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: node.metadata.nodes[other].state == "live")


def test_R15_nobody_else_ends_a_session_in_the_controller_s_name() -> None:
    """V2: an expiry that was measured in another term says nothing of the session as it is."""
    world, controller, other = running()
    node = world.nodes[controller]
    state = node.metadata.nodes[other]
    forged = ExpireNode(UNSENT._replace(start=7, number=1, until=100), other, state.incarnation, state.since)
    world.step(controller, Received(other, Forward(encode_command(forged))))
    world.run(1.0)
    assert node.metadata.nodes[other].state == "live"
    assert node.metadata.counts.get("R15.expiry", 0) == 0
