"""I2 for voters: a cluster is born once, from disks that all agree, and a disk that forgot does not vote."""

from __future__ import annotations

import msgspec
import pytest

from liftlog.messages import AppendReply, AppendRequest, BirthQuery, BirthReply, VoteReply, VoteRequest
from liftlog.types import HardState, LiftlogError
from tests.core.raft_harness import VOTES, Group, Packet


def grown(size: int = 3) -> Group:
    """A group that was born from fresh disks and is led by node 1."""
    group = Group(size, born=False)
    group.settle()
    group.elect(1)
    return group


def wiped(group: Group, node: int) -> None:
    group.crash(node)
    group.wipe(node)
    group.restart(node)
    group.tick(times=2)
    group.settle()


def test_i2_fresh_disks_become_voters_once_all_of_them_have_signed() -> None:
    group = Group(3, born=False)
    assert [group.raft(node).standing for node in (1, 2, 3)] == ["fresh"] * 3
    group.settle()
    assert [group.raft(node).standing for node in (1, 2, 3)] == ["born"] * 3
    certificate = ((1, "disk-1"), (2, "disk-2"), (3, "disk-3"))
    for node in (1, 2, 3):
        assert group.disks[node].hard_state == HardState(peer_disks=certificate, born=True)


def test_i2_one_absent_voter_delays_the_birth_of_all() -> None:
    group = Group(3, born=False)
    for _ in range(20):
        group.tick()
        for node in (1, 2, 3):
            group.fire(node)
        group.settle(cut=(3,))
    assert group.take(*VOTES) == []
    assert [group.raft(node).may_vote for node in (1, 2, 3)] == [False] * 3
    group.tick()
    group.settle()
    assert [group.raft(node).may_vote for node in (1, 2, 3)] == [True] * 3


def test_i2_a_single_voter_is_born_at_once() -> None:
    group = Group(1, born=False)
    assert group.raft(1).standing == "born"
    assert not group.raft(1).is_leader
    group.settle()
    assert group.raft(1).is_leader
    assert group.disks[1].hard_state.born


def test_i2_a_signature_is_told_only_after_it_is_synced() -> None:
    group = Group(3, born=False)
    group.deliver(BirthQuery)
    group.deliver(BirthReply)
    assert [group.raft(node).standing for node in (1, 2, 3)] == ["signed"] * 3
    assert group.take(BirthReply) == []
    group.sync(1)
    signed = [packet.message.signed for packet in group.take(BirthReply, sender=1)]
    assert signed == [[(1, "disk-1"), (2, "disk-2"), (3, "disk-3")]] * 2


def test_i2_a_birth_that_was_interrupted_goes_on_after_a_restart() -> None:
    group = Group(3, born=False)
    group.deliver(BirthQuery)
    group.deliver(BirthReply)
    group.sync(1)
    group.network.clear()
    for node in (1, 2, 3):
        group.crash(node)
        group.restart(node)
    assert [group.raft(node).standing for node in (1, 2, 3)] == ["signed", "fresh", "fresh"]
    group.settle()
    assert [group.raft(node).standing for node in (1, 2, 3)] == ["born"] * 3


def test_i2_queries_and_replies_may_be_lost_and_doubled() -> None:
    group = Group(3, born=False)
    for turn in range(12):
        packets = group.take()
        for position, packet in enumerate(packets):
            if (position + turn) % 3:
                group.arrive(packet)
                group.arrive(packet)
        for node in (1, 2, 3):
            group.sync(node)
        group.tick()
    assert [group.raft(node).standing for node in (1, 2, 3)] == ["born"] * 3


def test_i2_a_wiped_voter_neither_votes_nor_stands() -> None:
    group = grown()
    wiped(group, 3)
    assert group.raft(3).standing == "wiped"
    assert group.marks["I2.wiped"] > 0
    group.take()
    group.crash(1)
    group.forget_leader(2, 3)
    group.fire(3)
    assert group.take(*VOTES) == []
    group.fire(2)
    group.settle()
    assert not group.raft(2).is_leader
    group.arrive(Packet(2, 3, VoteRequest(9, 2, 9, 9, False)))
    group.sync(3)
    assert [packet.message.granted for packet in group.take(VoteReply)] == [False]


def test_i2_a_wiped_voter_still_learns_the_log() -> None:
    group = grown()
    group.propose(1, b"x")
    group.settle()
    wiped(group, 3)
    group.tick()
    group.settle()
    assert group.applied[3] == [b"", b"x"]


def test_i2_acknowledgements_of_a_wiped_voter_commit_nothing() -> None:
    group = grown()
    wiped(group, 3)
    index = group.propose(1, b"x")
    group.settle(cut=(2,))
    assert group.durable_terms(3) == [1, 1]
    assert group.raft(1).commit == index - 1
    assert group.marks["I2.uncounted"] > 0
    group.tick()
    group.settle()
    assert group.raft(1).commit == index


def test_i2_a_wiped_voter_confirms_no_read_and_keeps_no_leader_in_office() -> None:
    group = grown()
    wiped(group, 3)
    key = group.read(1)
    group.crash(2)
    group.take(AppendRequest, AppendReply)
    for _ in range(group.raft(1).election_max_ticks + 1):
        group.tick()
        group.settle()
    assert not group.raft(1).is_leader
    assert group.reads_failed == [key]


def test_i2_a_wiped_majority_elects_nobody_and_founds_no_second_cluster() -> None:
    group = grown()
    group.propose(1, b"x")
    group.settle()
    for node in (1, 3):
        group.crash(node)
        group.wipe(node)
        group.restart(node)
    for turn in range(60):
        group.tick()
        group.fire(1 + turn % 3)
        group.settle()
    assert [group.raft(node).is_leader for node in (1, 2, 3)] == [False] * 3
    assert [group.raft(node).standing for node in (1, 2, 3)] == ["wiped", "born", "wiped"]


def test_i2_answers_of_different_ages_found_no_second_cluster() -> None:
    """Node 3 heard that node 1 is fresh; since then 1 and 2 were born, and the disk of 2 was replaced."""
    group = Group(3, born=False)
    old = BirthReply("disk-1", True, False, [], False)
    certificate = ((1, "disk-1"), (2, "disk-2"), (3, "disk-3"))
    for node in (1, 2):
        group.crash(node)
        group.disks[node].hard_state = HardState(1, 1, certificate, False, True)
    group.wipe(2)
    group.network.clear()
    group.restart(2)
    group.arrive(Packet(1, 3, old))
    group.arrive(Packet(1, 2, old))
    for _ in range(3):
        group.tick()
        group.settle(cut=(1,))
    # Each of the two may even sign, but neither is born: the disk of node 1 never signs with them.
    assert [group.raft(node).may_vote for node in (2, 3)] == [False, False]
    group.restart(1)
    for _ in range(20):
        group.tick()
        group.settle()
    assert [group.raft(node).may_vote for node in (1, 2, 3)] == [True, False, False]


def test_i2_a_disk_that_signed_and_forgot_stays_out() -> None:
    group = grown()
    group.crash(3)
    group.disks[3].hard_state = HardState()
    group.disks[3].entries = []
    group.restart(3)
    group.tick(times=2)
    group.settle()
    assert group.raft(3).standing == "wiped"
    assert not group.raft(3).may_vote


def test_i2_a_rolled_back_voter_withholds_its_vote_for_ever() -> None:
    group = grown()
    group.step(3, group.raft(3).withhold_vote)
    assert group.raft(3).standing == "withheld"
    group.settle()
    assert group.disks[3].hard_state.vote_withheld
    group.crash(3)
    group.restart(3)
    group.crash(1)
    group.forget_leader(2, 3)
    group.fire(2)
    group.settle()
    assert not group.raft(2).is_leader
    assert group.marks["I2.withheld"] == 1


def test_i2_a_leader_whose_disk_was_rolled_back_steps_down() -> None:
    group = grown()
    group.step(1, group.raft(1).withhold_vote)
    assert not group.raft(1).is_leader


def test_i2_other_voters_than_at_the_birth_are_refused() -> None:
    group = grown()
    group.crash(1)
    group.configs[1] = msgspec.structs.replace(group.configs[1], voters=(1, 2, 3, 4, 5))
    with pytest.raises(
        LiftlogError, match=r"born with the voters 1, 2, 3, but .* names 1, 2, 3, 4, 5; restore"
    ):
        group.restart(1)


def test_i2_a_certificate_copied_to_another_disk_is_void() -> None:
    group = grown()
    group.crash(3)
    group.disks[3].disk_id = "a copy"
    group.restart(3)
    assert not group.raft(3).may_vote


def test_i2_a_wiped_voter_asks_for_ever_but_ever_more_rarely() -> None:
    group = grown()
    wiped(group, 3)
    group.tick(3, times=60)
    group.take()
    group.tick(3, times=100)
    assert len(group.take(BirthQuery, to=1)) == 10
