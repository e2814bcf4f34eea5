"""Configurations in Raft alone (M2): who may change what and when, who counts, who stands, step by step."""

from __future__ import annotations

import pytest

from liftlog.core.raft.members import (
    ADD,
    PROMOTE,
    REMOVE,
    changed,
    decode_members,
    encode_members,
    founders,
    is_change,
)
from liftlog.core.raft.state import FOLLOWER
from liftlog.messages import AppendReply, AppendRequest, intake
from liftlog.mutants import Mutants
from liftlog.types import GroupMember, Members
from tests.core.raft_harness import Group

ONE, TWO, THREE = (GroupMember(node, f"disk-{node}") for node in (1, 2, 3))
ALL = Members((ONE, TWO, THREE))


def change(group: Group, kind: str, member: GroupMember, leader: int = 1) -> str:
    """What the leader says to it."""
    said: list[str] = []
    group.step(leader, lambda: said.append(group.raft(leader).change(kind, member)))
    return said[0]


def settled(group: Group, *cut: int, ticks: int = 4) -> None:
    """Some heartbeats, after which followers know what is committed."""
    for _ in range(ticks):
        group.tick(*(node for node in group.machines if node not in cut))
        group.settle(cut=cut)


def replaced(node: int = 3) -> tuple[Group, GroupMember]:
    """Node 1 leads; the node's disk has been replaced by an empty one, on which it follows."""
    group = Group(3)
    group.elect(1)
    group.propose(1, b"x")
    settled(group)
    group.crash(node)
    group.wipe(node)
    group.restart(node)
    settled(group)
    return group, GroupMember(node, group.disks[node].disk_id)


# -- configurations ----------------------------------------------------------------------------------------


def test_M2_a_configuration_is_told_from_a_command_by_its_first_byte_and_reads_back() -> None:
    members = Members((ONE, TWO), (THREE,))
    data = encode_members(members)
    assert is_change(data) and decode_members(data) == members
    assert not is_change(b"") and not is_change(b"\x93")
    assert founders((2, 1, 3), ((1, "disk-1"), (2, "disk-2"), (3, "disk-3"))) == ALL


@pytest.mark.parametrize(
    "data",
    [
        b"\x00",
        b"\x00\xc1",
        encode_members(ALL)[:-1],
        encode_members(Members(())),
        encode_members(Members((ONE, GroupMember(1, "another")))),
        encode_members(Members((ONE,), (ONE,))),
        b"\x00\x92\x91\x92\xa1x\xa1y\x90",
    ],
)
def test_V5_what_is_no_configuration_is_refused(data: bytes) -> None:
    with pytest.raises(intake.InputRefused, match="configuration of the metadata group"):
        decode_members(data)


def test_M2e_one_member_a_node_and_the_last_voter_stays() -> None:
    other = GroupMember(3, "another")
    assert changed(ALL, ADD, other) == "node 3 is a member already, with disk disk-3"
    assert changed(ALL, REMOVE, other) == "node 3 with disk another is not a member: with disk disk-3"
    assert changed(ALL, PROMOTE, THREE) == "node 3 votes already"
    rest = changed(ALL, REMOVE, THREE)
    assert rest == Members((ONE, TWO))
    assert changed(rest, PROMOTE, THREE) == "node 3 with disk disk-3 is not a member: which is none"
    assert changed(rest, ADD, other) == Members((ONE, TWO), (other,))
    assert changed(Members((ONE, TWO), (other,)), PROMOTE, other) == Members((ONE, TWO, other))
    assert changed(Members((ONE,), (TWO,)), REMOVE, ONE) == "the group would be left without a voter"


# -- a disk is exchanged -----------------------------------------------------------------------------------


def test_M2_a_replaced_disk_becomes_a_voter_and_the_other_two_may_then_fail_in_turn() -> None:
    group, new = replaced()
    assert group.raft(3).standing == "wiped" and not group.raft(3).may_vote
    assert change(group, REMOVE, THREE) == ""
    settled(group)
    assert group.raft(1).quorum == 2 and group.raft(1).members == Members((ONE, TWO))
    assert change(group, ADD, new) == ""
    settled(group)
    assert group.raft(3).standing == "learner" and group.raft(3).may_vote and not group.raft(3).stands
    assert change(group, PROMOTE, new) == ""
    settled(group)
    assert [group.raft(node).standing for node in (1, 2, 3)] == ["born"] * 3
    group.crash(2)
    group.propose(1, b"y")
    settled(group)
    assert group.committed[-1].data == b"y"
    group.restart(2)
    group.crash(1)
    settled(group)
    assert group.elect(3).is_leader


def test_M2_a_start_goes_by_the_configuration_in_its_log_and_behind_a_snapshot() -> None:
    group, new = replaced()
    for kind, member in ((REMOVE, THREE), (ADD, new), (PROMOTE, new)):
        assert change(group, kind, member) == ""
        settled(group)
    group.crash(3)
    group.restart(3)
    assert group.raft(3).members.voters == (ONE, TWO, new) and group.raft(3).stands


def test_M2_an_uncommitted_change_is_cut_with_the_entry_that_makes_it() -> None:
    group = Group(3)
    group.elect(1)
    settled(group)
    assert change(group, REMOVE, THREE) == ""
    assert group.raft(1).members == Members((ONE, TWO))
    group.take()
    group.crash(1, keep=9)
    group.elect(2, cut=(1,))
    group.propose(2, b"z")
    settled(group, 1)
    group.restart(1)
    assert group.raft(1).members == Members((ONE, TWO))
    settled(group)
    assert group.raft(1).members == ALL and group.marks["M2.cut"] == 1


# -- when a change may be written --------------------------------------------------------------------------


def test_M2a_no_change_before_the_one_before_is_committed() -> None:
    group, new = replaced()
    assert change(group, REMOVE, THREE) == ""
    assert change(group, ADD, new) == "the change before it is not committed yet"
    settled(group)
    assert change(group, ADD, new) == ""
    assert group.marks["M2.one-at-a-time"] == 1


def test_M2a_no_change_before_an_entry_of_the_leaders_own_term_is_committed() -> None:
    group = Group(3)
    group.elect(1)
    settled(group)
    group.forget_leader(2, 3)
    group.fire(2)
    group.settle_votes(2, (3,))
    group.settle_votes(2, (3,))
    leadership = group.raft(2).leadership
    assert leadership is not None
    for follower in (1, 3):
        leadership.progress[follower].heard(True, group.raft(2).now_ms, 0)
    assert change(group, REMOVE, THREE, leader=2) == "it has not committed anything yet"
    assert group.marks["M2.own-entry"] == 1


def test_M2f_no_change_that_leaves_too_few_who_can_be_reached() -> None:
    """Node 3 is silent: without node 2 nothing could ever be decided again."""
    group = Group(3)
    group.elect(1)
    settled(group, ticks=20)
    settled(group, 3, ticks=20)
    said = change(group, REMOVE, TWO)
    assert said == "too few of those who would vote then can be reached"
    assert group.marks["M2.reachable"] == 1
    assert change(group, REMOVE, THREE) == ""


def test_M2_a_learner_is_promoted_only_when_it_has_what_is_committed() -> None:
    group, new = replaced()
    for kind, member in ((REMOVE, THREE), (ADD, new)):
        assert change(group, kind, member) == ""
        settled(group, 3)
    assert change(group, PROMOTE, new) == "node 3 has not got all that is committed yet"
    settled(group)
    assert change(group, PROMOTE, new) == ""


def test_M2_a_follower_changes_nothing_nor_does_who_hands_over() -> None:
    group = Group(3)
    group.elect(1)
    settled(group)
    assert change(group, REMOVE, THREE, leader=2) == "this node does not lead"
    group.step(1, lambda: group.raft(1).transfer(2))
    assert change(group, REMOVE, THREE) == "leadership is being handed over"


# -- who counts --------------------------------------------------------------------------------------------


def test_M2b_what_the_former_disk_has_acknowledged_does_not_count_for_the_new_one() -> None:
    """`M2.other-disk`: an answer that was under way while the disk was replaced."""
    group = Group(3)
    group.elect(1)
    settled(group)
    group.crash(2)
    group.propose(1, b"x")
    group.sync(1)
    group.deliver(AppendRequest, to=3)
    group.sync(3)
    (late, *_) = group.take(AppendReply, sender=3)
    raft = group.raft(1)
    assert raft.leadership is not None
    raft.leadership.progress[3].is_member("another", True)
    before = raft.commit
    group.arrive(late)
    assert raft.commit == before and group.marks["M2.other-disk"] == 1


def test_M2c_a_learner_that_does_not_know_that_it_was_promoted_votes() -> None:
    """The leader has promoted it, committed that with another voter, and died: two are left of three."""
    group, new = replaced()
    for kind, member in ((REMOVE, THREE), (ADD, new)):
        assert change(group, kind, member) == ""
        settled(group)
    assert change(group, PROMOTE, new) == ""
    settled(group, 3, ticks=1)
    assert group.raft(2).members.voters == (ONE, TWO, new)
    assert group.raft(3).members.learners == (new,)
    group.crash(1)
    assert group.elect(2).is_leader


def test_M2d_a_leader_that_has_removed_itself_counts_no_more_and_hands_over() -> None:
    group = Group(3)
    group.elect(1)
    settled(group)
    assert change(group, REMOVE, ONE) == ""
    # It leads on, without itself: both others are needed.
    settled(group, 3)
    assert group.raft(1).is_leader and group.raft(1).membership.index > group.raft(1).commit
    settled(group)
    assert group.raft(1).role is FOLLOWER and group.marks["M2.removed-leader"] == 1
    # Nobody had to wait for silence.
    assert group.leader() in (2, 3)
    assert not group.raft(1).stands and group.raft(1).standing == "removed"


@pytest.mark.parametrize("voters", [2, 3])
def test_M2c_who_has_written_its_own_removal_alone_stands_again_after_a_restart(voters: int) -> None:
    """Nobody else's log is as long, and after the restart it does not know what is committed (seed 945)."""
    group = Group(voters)
    group.elect(1)
    settled(group)
    assert change(group, REMOVE, ONE) == ""
    group.sync(1)
    group.network.clear()
    group.crash(1)
    group.restart(1)
    raft = group.raft(1)
    assert raft.commit == 0 and not raft.is_voter and raft.stands
    assert group.elect(1).is_leader
    settled(group)
    assert group.leader() != 1 and not group.raft(1).stands
    assert ONE not in group.raft(2).members.voters


# -- birth -------------------------------------------------------------------------------------------------


def test_I2_when_every_first_disk_was_replaced_no_second_cluster_is_born() -> None:
    """Found by the model: three disks without a certificate signed one of their own."""
    group, new = replaced()
    for kind, member in ((REMOVE, THREE), (ADD, new), (PROMOTE, new)):
        assert change(group, kind, member) == ""
        settled(group)
    group.crash(2)
    group.wipe(2)
    group.restart(2)
    second = GroupMember(2, group.disks[2].disk_id)
    settled(group)
    for kind, member in ((REMOVE, TWO), (ADD, second), (PROMOTE, second)):
        assert change(group, kind, member) == ""
        settled(group)
    group.crash(1)
    group.wipe(1)
    group.restart(1)
    for _ in range(80):
        group.tick()
        group.settle()
    assert group.raft(1).standing == "wiped" and not group.raft(1).may_vote
    assert group.marks["I2.birth"] == 0


def test_I2_a_disk_that_has_heard_a_leader_signs_nothing() -> None:
    planted = Group(3, Mutants(cluster_born_again=True))
    right = Group(3)
    for group in (planted, right):
        group.elect(1)
        group.crash(3)
        group.wipe(3)
        group.restart(3)
        settled(group)
    assert right.raft(3).standing == "wiped"
