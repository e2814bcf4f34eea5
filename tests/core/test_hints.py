"""Hints that nobody listens at a peer any more: they shorten how long it may be silent, and prove nothing."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.core.hints import Hints
from liftlog.messages import AppendRequest, Heartbeat, HeartbeatReply, PeerBack, PeerLost, Received, VoteReply
from liftlog.mutants import Mutants
from liftlog.nodeconfig import NodeConfig
from tests.core.node_harness import NETWORK_S, World


def running(**kwargs: Any) -> tuple[World, int, list[int]]:
    """A cluster, its controller and the others; all are live and the controller has answered everybody."""
    world = World(**kwargs)
    world.create()
    world.run(2.0)
    controller = next(node for node, each in world.nodes.items() if each.raft.is_leader)
    return world, controller, [node for node in world.nodes if node != controller]


def tell(world: World, about: int, *nodes: int) -> None:
    for node in nodes or [node for node in world.nodes if node != about]:
        world.post(node, PeerLost(about), NETWORK_S)


def seconds_until(world: World, done: Any, limit_s: float = 10.0) -> float:
    begin = world.now
    assert world.run_until(done, limit_s)
    return world.now - begin


def expiry_s(hinted: bool, **kwargs: Any) -> float:
    """How long the session of a node lasts after its process was killed."""
    world, controller, others = running(**kwargs)
    world.kill(others[0])
    if hinted:
        tell(world, others[0])
    nodes = world.nodes[controller].metadata.nodes
    return seconds_until(world, lambda: nodes[others[0]].state == "expired")


def test_N2_a_hint_ends_the_session_of_a_dead_node_once_its_lease_is_over() -> None:
    limits = NodeConfig(1, (1,))
    lease_s = (limits.lease_ms + limits.fence_margin_ms - limits.tick_ms) / 1000
    assert lease_s <= expiry_s(hinted=True) < lease_s + 0.2
    assert expiry_s(hinted=False) >= (limits.session_timeout_ms - limits.tick_ms) / 1000
    assert expiry_s(hinted=True, mutants=Mutants(removal_before_lease=True)) < lease_s - 0.2
    assert expiry_s(hinted=True, mutants=Mutants(hint_ends_session=True)) < 0.2


def test_N2_a_false_hint_ends_no_session_and_no_office() -> None:
    """Who says anything is none of whom it is said any more."""
    world, controller, others = running()
    terms = [node.raft.term for node in world.nodes.values()]
    for _ in range(40):
        for node in world.nodes:
            tell(world, node)
        world.run(0.1)
    node = world.nodes[controller]
    assert [each.raft.term for each in world.nodes.values()] == terms
    assert node.marks["N2.hint"] >= 40
    assert node.metadata.counts.get("R15.expiry", 0) == 0
    assert controller not in world.nodes[others[0]].ctx.hints


def test_N2_a_connection_that_stands_again_takes_the_hint_back() -> None:
    world, controller, others = running()
    world.kill(others[0])
    tell(world, others[0])
    world.run(0.1)
    assert others[0] in world.nodes[controller].ctx.hints
    world.post(controller, PeerBack(others[0]), NETWORK_S)
    world.run(0.1)
    assert others[0] not in world.nodes[controller].ctx.hints


def test_N2_a_node_that_is_no_peer_is_not_spoken_of() -> None:
    world, controller, _ = running()
    world.step(controller, PeerLost(77))
    assert 77 not in world.nodes[controller].ctx.hints


def test_N2_a_session_that_is_to_end_is_not_renewed_though_the_hint_was_false() -> None:
    """The expiry is on its way, and the heartbeat that shows that the node lives comes after that."""
    world, controller, others = running()
    other, node = others[0], world.nodes[controller]
    replies: list[object] = []

    def drop(sender: int, to: int, message: object) -> bool:
        if isinstance(message, HeartbeatReply) and to == other:
            replies.append(message)
        # Nothing of the other one is heard, and nothing is committed: no answers to appends at all.
        return sender == other

    world.drop = drop
    tell(world, other)
    assert world.run_until(lambda: node.marks.get("R15.hinted", 0) > 0)
    state = node.metadata.nodes[other]
    replies.clear()
    if state.state == "live":
        node.controller.on_heartbeat(other, Heartbeat(state.incarnation, 1, 0), True)  # type: ignore[union-attr]
    assert replies == []


def election_s(*told: int, **kwargs: Any) -> float:
    """How long the group is without a controller after the first one's process was killed; `told`: which of
    the others, 0 and 1, hear of that.
    """
    world, controller, others = running(**kwargs)
    world.kill(controller)
    if told:
        tell(world, controller, *(others[each] for each in told))
    return seconds_until(world, lambda: any(node.raft.is_leader for node in world.nodes.values()))


def test_M1o_a_hint_shortens_the_silence_that_an_election_needs() -> None:
    config = NodeConfig(1, (1,))
    assert election_s() >= (config.election_min_ms - config.tick_ms) / 1000
    assert (config.suspicion_ms - config.tick_ms) / 1000 <= election_s(0, 1) < config.election_min_ms / 1000
    assert election_s(0, 1, mutants=Mutants(hint_elects=True)) < config.suspicion_ms / 1000 - 0.1


def test_M1o_who_was_not_told_does_not_vote_earlier() -> None:
    config = NodeConfig(1, (1,))
    assert election_s(0) >= (config.election_min_ms - config.tick_ms) / 1000
    assert election_s(1) >= (config.election_min_ms - config.tick_ms) / 1000


def test_M1o_the_suspicion_goes_through_a_message_that_was_under_way() -> None:
    """It takes the hint back; the next refusal brings it again."""
    world, controller, others = running()
    late = AppendRequest(world.nodes[controller].raft.term, controller, 0, 0, 0, 0, [])
    world.kill(controller)
    tell(world, controller)
    world.run(0.05)
    for node in others:
        world.post(node, Received(controller, late), NETWORK_S)
    world.run(0.01)
    assert not any(controller in world.nodes[node].ctx.hints for node in others)
    tell(world, controller)
    config = world.nodes[others[0]].config
    elected = lambda: any(node.raft.is_leader for node in world.nodes.values())  # noqa: E731
    assert seconds_until(world, elected) < config.election_min_ms / 1000


def test_N2_the_session_of_the_controller_before_is_as_old_as_the_voters_have_waited() -> None:
    world, controller, _ = running()
    world.kill(controller)
    tell(world, controller)
    elected = lambda: any(node.raft.is_leader for node in world.nodes.values())  # noqa: E731
    assert world.run_until(elected)
    new = next(node for node in world.nodes.values() if node.raft.is_leader)
    assert new.raft.predecessor == controller
    config = new.config
    took_s = seconds_until(world, lambda: new.metadata.nodes[controller].state == "expired")
    limit_s = (config.lease_ms + config.fence_margin_ms + 2 * config.tick_ms - config.suspicion_ms) / 1000
    assert took_s <= limit_s


def test_N2_whoever_was_asked_to_take_over_has_waited_for_nobody() -> None:
    world, controller, others = running()
    assert world.nodes[controller].raft.transfer(others[0])
    world.nodes[controller]._after_raft()
    assert world.run_until(lambda: world.nodes[others[0]].raft.is_leader)
    assert world.nodes[others[0]].raft.predecessor == 0


def test_N2_a_term_without_a_leader_in_between_tells_nothing_of_the_one_before() -> None:
    """Whoever led it, if anybody did, may have answered heartbeats."""
    world, controller, others = running()
    world.kill(controller)
    node = world.nodes[others[0]]
    term = node.raft.term
    world.step(others[0], Received(others[1], VoteReply(term + 1, others[1], False, True)))
    assert node.raft.term == term + 1
    assert world.run_until(lambda: any(each.raft.is_leader for each in world.nodes.values()))
    new = next(each for each in world.nodes.values() if each.raft.is_leader)
    assert new.raft.predecessor == (controller if new.raft.term == term + 1 else 0)


@pytest.mark.parametrize("mutant", [False, True])
def test_R2_a_hint_takes_nobody_out_of_the_in_sync_set(mutant: bool) -> None:
    """Only the group does: what one of them may have is not committed without it (planted: it is)."""
    world = World(mutants=Mutants(hint_leaves_isr=mutant))
    partition = world.create()
    world.run(2.0)
    leader = world.leader(partition)
    silent = [node for node in world.nodes if node != leader]
    world.drop = lambda sender, to, message: sender in silent or to in silent
    for node in silent:
        world.step(leader, PeerLost(node))
    assert world.publish(partition, b"nobody else has it")
    world.run(0.1)
    assert world.replica(leader, partition).hw == (1 if mutant else 0)


def test_hints_are_kept_until_something_is_heard() -> None:
    hints = Hints()
    assert not hints and hints.lost(3) and not hints.lost(3)
    assert hints and 3 in hints and 2 not in hints
    hints.heard(3)
    hints.heard(3)
    assert not hints
