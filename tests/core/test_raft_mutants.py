"""Each planted Raft bug breaks a named invariant under a schedule that the correct code survives."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from liftlog.messages import AppendReply, AppendRequest, VoteReply, VoteRequest
from liftlog.mutants import NO_MUTANTS, Mutants
from tests.core.raft_harness import Group, InvariantBroken, Packet


def vote_then_power_loss(group: Group) -> None:
    """A voter votes, loses power before the sync, comes back, and is asked by another candidate."""
    group.forget_leader(1, 2, 3)
    group.fire(1)
    group.deliver(VoteRequest, to=2)
    group.deliver(VoteReply, to=1)
    group.sync(1)
    group.deliver(VoteRequest, to=2)
    group.deliver(VoteReply, to=1)
    group.crash(2)
    group.restart(2)
    group.network.clear()
    group.forget_leader(2, 3)
    group.fire(3)
    group.settle_votes(3, (2,))
    assert group.raft(3).is_leader


def acknowledge_then_power_loss(group: Group) -> None:
    """A leader and a follower hold an entry that neither has synced, and lose power."""
    group.elect(1)
    group.propose(1, b"x")
    group.deliver(AppendRequest, to=2)
    group.deliver(AppendReply, to=1)
    group.network.clear()
    group.crash(1)
    group.crash(2)
    group.restart(1)
    group.restart(2)
    group.elect(3)


def figure_8(group: Group) -> None:
    """The paper's Figure 8: an entry of an old term reaches a majority and is overwritten nevertheless."""
    group.elect(1)
    group.propose(1, b"two")
    group.deliver(AppendRequest, to=2)
    group.sync(1)
    group.sync(2)
    group.network.clear()
    # (b) Node 5, elected by 3 and 4, writes another entry 2, on its own disk only.
    group.crash(1)
    group.forget_leader(3, 4, 5)
    group.fire(5)
    group.settle_votes(5, (3, 4))
    group.sync(5)
    group.network.clear()
    group.crash(5)
    # (c) Node 1 leads again and brings its entry 2 to node 3 as well: a majority. Its no-op stays with it.
    group.restart(1)
    group.forget_leader(1, 2, 3, 4)
    for _ in range(2):
        group.fire(1)
        group.settle_votes(1, (2, 3, 4))
    leader = group.raft(1)
    assert leader.is_leader
    old_entry = AppendRequest(leader.term, 1, 1, 1, 1, 0, leader.log[1:2])
    group.network.clear()
    for node in (2, 3):
        group.arrive(Packet(1, node, old_entry))
        group.sync(node)
    group.deliver(AppendReply, to=1)
    group.network.clear()
    # (d) Node 1 fails; node 5 has the greater last term and is elected by 2, 3 and 4.
    group.crash(1)
    group.restart(5)
    group.elect(5)
    assert group.raft(2).log[1].term == 2


def two_alone(group: Group) -> None:
    """Two nodes stand in the same term, and nobody answers them."""
    group.forget_leader(1, 2, 3)
    for node in (1, 3):
        group.fire(node)
        group.network.clear()
        group.sync(node)


def long_but_old(group: Group) -> None:
    """A node with a long log of an old term stands against a shorter log of a newer term."""
    group.elect(1)
    for _ in range(4):
        group.propose(1, b"never left node 1")
    group.sync(1)
    group.network.clear()
    group.crash(1)
    group.elect(2)
    group.propose(2, b"committed")
    group.settle()
    group.restart(1)
    group.crash(2)
    group.forget_leader(1, 3)
    for _ in range(2):
        group.fire(1)
        group.settle()


def two_ask_one(group: Group) -> None:
    """Two candidates of one term ask the same voter."""
    group.forget_leader(1, 2, 3)
    for candidate in (1, 3):
        group.fire(candidate)
        group.deliver(VoteRequest, sender=candidate, to=2)
        group.deliver(VoteReply, to=candidate)
        group.sync(candidate)
    for candidate in (1, 3):
        group.deliver(VoteRequest, sender=candidate, to=2)
        group.sync(2)
        group.deliver(VoteReply, to=candidate)
    assert group.raft(1).is_leader


def heartbeat_to_an_old_leader(group: Group) -> None:
    """A leader that was cut off holds entries that nobody else has; its successor's first word is empty."""
    group.elect(1)
    group.propose(1, b"x")
    group.propose(1, b"y")
    group.sync(1)
    group.network.clear()
    group.elect(3, cut=(1,))
    assert group.raft(3).commit == 2
    group.tick(3, times=group.configs[3].heartbeat_ticks)
    group.deliver(AppendRequest, to=1)


def compared_less_than_it_has(group: Group) -> None:
    """A leader that was cut off has an entry of its own behind all that its successor compares."""
    group.elect(1)
    group.propose(1, b"with nodes 1 and 3")
    group.deliver(AppendRequest, to=3)
    group.sync(1)
    group.sync(3)
    group.network.clear()
    group.propose(1, b"with node 1")
    group.sync(1)
    group.network.clear()
    group.forget_leader(2, 3)
    group.fire(3)
    group.settle_votes(3, (2,))
    leader = group.raft(3)
    assert leader.is_leader
    group.sync(3)
    group.network.clear()
    # Their last entries are of equal index: the leader's no-op here, what was never committed there.
    assert (group.terms(1), group.terms(3)) == ([1, 1, 1], [1, 1, leader.term])
    compared = AppendRequest(leader.term, 1, 1, 1, 1, 0, leader.log[1:2])
    group.arrive(Packet(3, 1, compared))
    group.sync(1)
    assert group.deliver(AppendReply, to=3)
    group.network.clear()
    group.crash(3)
    group.elect(1)


def late_request(group: Group) -> None:
    """A request arrives once more, after the one behind it was acknowledged and counted."""
    group.elect(1)
    group.propose(1, b"x")
    requests = [packet for packet in group.network if isinstance(packet.message, AppendRequest)]
    late = next(packet for packet in requests if packet.to == 2)
    group.propose(1, b"y")
    group.deliver(AppendRequest, to=2)
    group.sync(1)
    group.sync(2)
    group.deliver(AppendReply, to=1)
    assert group.raft(1).commit == 3 > group.raft(2).commit
    group.network.clear()
    group.arrive(late)
    group.sync(2)
    group.network.clear()
    group.crash(1)
    group.elect(2)


Schedule = Callable[[Group], None]

TABLE: list[tuple[Mutants, int, Schedule, str]] = [
    (Mutants(raft_vote_before_sync=True), 3, vote_then_power_loss, "ElectionSafety"),
    (Mutants(raft_ack_before_sync=True), 3, acknowledge_then_power_loss, "LeaderCompleteness"),
    (Mutants(raft_commit_old_term=True), 5, figure_8, "LeaderCompleteness"),
    (Mutants(raft_quorum_half=True), 3, two_alone, "ElectionSafety"),
    (Mutants(raft_ack_whole_log=True), 3, compared_less_than_it_has, "LeaderCompleteness"),
    (Mutants(raft_cuts_what_matches=True), 3, late_request, "LeaderCompleteness"),
    (Mutants(raft_commit_unclamped=True), 3, heartbeat_to_an_old_leader, "StateMachineSafety"),
    (Mutants(raft_length_before_term=True), 3, long_but_old, "LeaderCompleteness"),
    (Mutants(raft_vote_forgotten=True), 3, two_ask_one, "ElectionSafety"),
]
NAMES = [schedule.__name__ for _, _, schedule, _ in TABLE]


@pytest.mark.parametrize(("mutants", "size", "schedule", "invariant"), TABLE, ids=NAMES)
def test_a_planted_bug_breaks_the_invariant(
    mutants: Mutants, size: int, schedule: Schedule, invariant: str
) -> None:
    with pytest.raises(InvariantBroken) as caught:
        schedule(Group(size, mutants))
    assert caught.value.name == invariant


@pytest.mark.parametrize(("mutants", "size", "schedule", "invariant"), TABLE, ids=NAMES)
def test_the_correct_code_survives_the_same_schedule(
    mutants: Mutants, size: int, schedule: Schedule, invariant: str
) -> None:
    schedule(Group(size, NO_MUTANTS))


def test_every_raft_mutant_stands_in_the_table() -> None:
    switches = [name for name in Mutants.__struct_fields__ if name.startswith("raft_")]
    assert [Mutants(**{name: True}) for name in switches] == [mutants for mutants, *_ in TABLE]
