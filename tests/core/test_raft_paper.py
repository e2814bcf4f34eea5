"""Sentences of the Raft paper and of Ongaro's thesis, each as a test named after its claim."""

from __future__ import annotations

import pytest

from liftlog.messages import (
    TIMER_ELECTION,
    AppendReply,
    AppendRequest,
    ReadIndexReply,
    ReadIndexRequest,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from liftlog.types import Entry, HardState
from tests.core.raft_harness import APPENDS, VOTES, Group, Packet

# ---------------------------------------------------------------------------------------------------------
# 5.1 Terms
# ---------------------------------------------------------------------------------------------------------


def test_5_1_a_server_that_sees_a_higher_term_adopts_it_and_becomes_follower() -> None:
    group = Group(3)
    leader = group.elect(1)
    group.step(1, lambda: leader.on_message(2, AppendReply(leader.term + 3, 2, False, 0, 0)))
    assert (leader.is_leader, leader.term, leader.leader) == (False, 4, 0)
    assert group.marks["M1.stepdown"] == 1


def test_5_1_a_request_with_a_stale_term_changes_nothing_and_is_answered_with_the_present_term() -> None:
    group = Group(3)
    group.elect(1)
    old = AppendRequest(0, 3, 0, 0, 9, 0, [Entry(1, 0, b"old")])
    group.arrive(Packet(3, 2, old))
    assert (group.raft(2).leader, group.terms(2), group.raft(2).commit) == (1, [1], 1)
    reply = group.take(AppendReply, sender=2, to=3)[0].message
    assert isinstance(reply, AppendReply)
    assert (reply.term, reply.success) == (1, False)


def test_5_1_a_deposed_leader_learns_of_the_new_term_from_the_first_reply() -> None:
    group = Group(3)
    group.elect(1)
    group.elect(2, cut=(1,))
    assert group.raft(1).is_leader
    group.tick(1)
    group.settle()
    assert not group.raft(1).is_leader
    assert group.raft(1).term == 2


# ---------------------------------------------------------------------------------------------------------
# 5.2 Leader election
# ---------------------------------------------------------------------------------------------------------


def test_5_2_a_candidate_wins_with_votes_from_a_majority() -> None:
    group = Group(5)
    group.forget_leader(1, 2, 3, 4, 5)
    group.fire(1)
    group.settle(cut=(4, 5))
    assert group.raft(1).is_leader


def test_5_2_a_candidate_without_a_majority_does_not_win() -> None:
    group = Group(5)
    group.forget_leader(1, 2, 3, 4, 5)
    group.fire(1)
    group.settle(cut=(3, 4, 5))
    assert not group.raft(1).is_leader


def test_5_2_each_server_votes_for_at_most_one_candidate_in_a_term() -> None:
    group = Group(3)
    group.forget_leader(1, 2, 3)
    for candidate in (1, 2):
        group.arrive(Packet(candidate, 3, VoteRequest(1, candidate, 0, 0, False)))
        group.sync(3)
    granted = [packet.message.granted for packet in group.take(VoteReply, sender=3)]
    assert granted == [True, False]


def test_5_2_a_repeated_request_of_the_same_candidate_gets_the_same_vote() -> None:
    group = Group(3)
    group.forget_leader(1, 2, 3)
    for _ in range(2):
        group.arrive(Packet(1, 3, VoteRequest(1, 1, 0, 0, False)))
        group.sync(3)
    assert [packet.message.granted for packet in group.take(VoteReply, sender=3)] == [True, True]


def test_5_2_a_candidate_that_hears_a_leader_of_its_term_becomes_follower() -> None:
    group = Group(3)
    group.forget_leader(1, 2, 3)
    group.fire(1)
    group.fire(2)
    group.deliver(VoteRequest, to=3)
    group.sync(3)
    group.deliver(VoteReply)
    group.sync(1)
    group.sync(2)
    assert group.raft(1).term == group.raft(2).term == 1
    group.deliver(VoteRequest, sender=1, to=3)
    group.settle()
    assert [group.raft(node).is_leader for node in (1, 2, 3)] == [True, False, False]
    assert group.raft(2).leader == 1


def test_5_2_votes_of_an_earlier_candidacy_do_not_count() -> None:
    group = Group(5)
    group.forget_leader(1, 2, 3, 4, 5)
    group.fire(1)
    group.deliver(VoteRequest)
    group.deliver(VoteReply)
    group.sync(1)
    group.deliver(VoteRequest)
    for voter in (2, 3, 4, 5):
        group.sync(voter)
    late = group.take(VoteReply)
    # The candidacy in term 1 comes to nothing; the next one is for term 2.
    group.tick(times=5)
    group.fire(1)
    group.deliver(VoteRequest)
    group.deliver(VoteReply)
    assert group.raft(1).term == 2
    for packet in late:
        group.arrive(packet)
    group.sync(1)
    assert not group.raft(1).is_leader


def test_5_2_a_leader_sends_heartbeats_on_every_heartbeat_interval() -> None:
    group = Group(3, heartbeat_ticks=2)
    group.elect(1)
    rounds = []
    for _ in range(6):
        group.tick()
        rounds.append(len(group.take(AppendRequest, sender=1)))
    assert sorted(rounds) == [0, 0, 0, 2, 2, 2]


def test_5_2_a_follower_that_hears_from_its_leader_does_not_stand_and_waits_for_what_remains() -> None:
    group = Group(3)
    group.elect(1)
    group.tick(times=2)
    group.deliver(AppendRequest)
    group.tick(2, times=3)
    group.fire(2)
    timer = group.machines[2].timers[-1]
    assert (timer.kind, timer.min_ms, timer.max_ms) == (TIMER_ELECTION, 550, 950)
    assert group.take(VoteRequest) == []
    group.tick(2, times=group.raft(2).election_min_ticks - 3)
    group.fire(2)
    assert len(group.take(VoteRequest, sender=2)) == 2


def test_a_single_voter_elects_itself_and_commits_alone() -> None:
    group = Group(1)
    group.settle()
    assert group.raft(1).is_leader
    group.propose(1, b"x")
    assert group.applied[1] == [b""]
    group.settle()
    assert group.applied[1] == [b"", b"x"]


# ---------------------------------------------------------------------------------------------------------
# 5.3 Log replication
# ---------------------------------------------------------------------------------------------------------


def test_5_3_an_entry_is_committed_once_a_majority_has_replicated_it() -> None:
    group = Group(5)
    leader = group.elect(1)
    index = group.propose(1, b"x")
    group.settle(cut=(3, 4, 5))
    assert leader.commit == index - 1
    group.tick()
    group.settle(cut=(4, 5))
    assert leader.commit == index


def test_5_3_followers_learn_the_commit_index_from_the_leader() -> None:
    group = Group(3)
    group.elect(1)
    index = group.propose(1, b"x")
    group.settle()
    assert [group.raft(node).commit for node in (1, 2, 3)] == [index] * 3
    assert [group.applied[node] for node in (1, 2, 3)] == [[b"", b"x"]] * 3


def test_5_3_a_follower_refuses_entries_whose_predecessor_it_lacks() -> None:
    group = Group(3)
    group.elect(1)
    group.arrive(Packet(1, 2, AppendRequest(1, 1, 5, 1, 0, 0, [Entry(6, 1, b"x")])))
    reply = group.take(AppendReply, sender=2)[0].message
    assert (reply.success, reply.match, group.terms(2)) == (False, 1, [1])


@pytest.mark.parametrize(
    ("follower_terms", "name"),
    [
        ([1, 1, 1, 4, 4, 5, 5, 6, 6], "a: one entry is missing"),
        ([1, 1, 1, 4], "b: many entries are missing"),
        ([1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6], "c: an entry too many"),
        ([1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7], "d: entries of a later term too many"),
        ([1, 1, 1, 4, 4, 4, 4], "e: entries of an old term"),
        ([1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3], "f: entries of terms the leader never saw"),
    ],
)
def test_5_3_figure_7_the_leader_brings_a_differing_log_in_line(follower_terms: list[int], name: str) -> None:
    leader_terms = [1, 1, 1, 4, 4, 5, 5, 6, 6, 6]
    group = Group(3)
    for node, terms in ((1, leader_terms), (2, leader_terms), (3, follower_terms)):
        group.crash(node)
        entries = [Entry(i + 1, term, b"%d" % term) for i, term in enumerate(terms)]
        disk = group.disks[node]
        disk.entries = entries
        disk.hard_state = HardState(7, 0, disk.hard_state.peer_disks, False, True)
        group.restart(node)
    group.elect(1, cut=(3,))
    group.tick(times=2)
    group.settle()
    group.tick(times=2)
    group.settle()
    assert group.terms(3) == [*leader_terms, 8], name
    assert group.durable_terms(3) == group.terms(3)
    assert group.raft(3).commit == 11


def test_5_3_a_late_or_doubled_request_never_removes_entries_that_match() -> None:
    group = Group(3)
    group.elect(1)
    group.propose(1, b"a")
    first = group.take(AppendRequest, sender=1, to=2)
    group.propose(1, b"b")
    group.propose(1, b"c")
    for packet in first:
        group.arrive(packet)
    group.settle()
    assert group.raft(2).commit == 4
    for packet in first:
        group.arrive(packet)
    group.settle()
    assert group.terms(2) == [1, 1, 1, 1]
    assert group.marks["M1.truncate"] == 0


def test_5_3_reordered_requests_end_in_the_same_log() -> None:
    group = Group(3)
    group.elect(1)
    for data in (b"a", b"b", b"c"):
        group.propose(1, data)
    for packet in reversed(group.take(AppendRequest, sender=1)):
        group.arrive(packet)
    group.settle()
    group.tick()
    group.settle()
    assert group.applied[2] == group.applied[3] == [b"", b"a", b"b", b"c"]
    assert group.marks["M1.truncate"] == 0


def test_5_3_an_acknowledgement_names_the_request_answered_and_not_the_end_of_the_log() -> None:
    group = Group(3)
    group.elect(1)
    group.propose(1, b"a")
    first = group.take(AppendRequest, sender=1, to=2)[0]
    group.arrive(first)
    group.propose(1, b"b")
    group.deliver(AppendRequest, to=2)
    group.sync(2)
    group.take(AppendReply)
    group.arrive(first)
    replies = group.take(AppendReply, sender=2)
    assert [packet.message.match for packet in replies] == [2]


def test_5_3_the_commit_index_never_passes_what_is_known_to_match() -> None:
    group = Group(3)
    group.elect(1)
    group.crash(3)
    group.disks[3].entries.append(Entry(2, 1, b"never committed"))
    # Such an entry of a dead leader is harmless, as long as the follower does not take it for the leader's.
    group.known[2, 1] = (b"never committed", 1)
    group.restart(3)
    group.arrive(Packet(1, 3, AppendRequest(1, 1, 1, 1, 2, 0, [])))
    assert group.raft(3).commit == 1


def test_v3_removing_a_committed_entry_is_refused() -> None:
    group = Group(3)
    group.elect(1)
    log = list(group.raft(2).log)
    group.arrive(Packet(3, 2, AppendRequest(2, 3, 0, 0, 0, 0, [Entry(1, 2, b"other")])))
    assert group.raft(2).log == log
    assert group.raft(2).leader == 1


def test_lost_appends_are_repaired_by_the_next_heartbeat() -> None:
    group = Group(3)
    group.elect(1)
    for data in (b"a", b"b", b"c"):
        group.propose(1, data)
    group.take(AppendRequest)
    group.tick()
    group.settle()
    assert group.applied[1] == [b"", b"a", b"b", b"c"]


def test_appends_in_flight_and_their_size_are_bounded() -> None:
    group = Group(3, raft_append_max_bytes=1000)
    group.elect(1)
    for _ in range(100):
        group.propose(1, b"x" * 300)
    sent = [packet.message for packet in group.take(AppendRequest, to=2)]
    assert len(sent) == 16
    group.tick()
    group.settle()
    sizes = [len(entry.data) for entry in group.raft(2).log]
    assert sizes == [0] + [300] * 100


def test_an_append_takes_as_many_entries_as_fit() -> None:
    group = Group(3, raft_append_max_bytes=1000)
    group.elect(1)
    for _ in range(10):
        group.propose(1, b"x" * 300)
    group.take(AppendRequest)
    group.tick()
    for _ in range(2):
        group.deliver(AppendRequest, to=2)
        group.deliver(AppendReply, sender=2)
    batches = []
    for _ in range(3):
        waiting = group.deliver(AppendRequest, to=2)
        batches.append([len(packet.message.entries) for packet in waiting if packet.message.entries])
        group.sync(2)
        group.deliver(AppendReply, sender=2)
    assert batches == [[3], [3, 3], [1]]


def test_too_many_uncommitted_proposals_are_refused() -> None:
    group = Group(3, raft_inflight_proposals_max=4)
    leader = group.elect(1)
    for _ in range(4):
        group.propose(1, b"x")
    assert leader.propose(b"one too many") is None
    group.settle()
    assert group.propose(1, b"y") == 6


def test_a_follower_takes_no_proposals() -> None:
    group = Group(3)
    group.elect(1)
    assert group.raft(2).propose(b"x") is None


# ---------------------------------------------------------------------------------------------------------
# 5.4 Safety
# ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("voter_terms", "candidate_last", "granted"),
    [
        ([1, 1], (2, 1), True),
        ([1, 1], (3, 1), True),
        ([1, 1, 1], (2, 1), False),
        ([1, 2], (3, 1), False),
        ([1, 1, 1], (1, 2), True),
    ],
)
def test_5_4_1_a_voter_refuses_candidates_whose_log_is_behind(
    voter_terms: list[int], candidate_last: tuple[int, int], granted: bool
) -> None:
    group = Group(3)
    group.crash(2)
    group.disks[2].entries = [Entry(i + 1, term, b"") for i, term in enumerate(voter_terms)]
    group.restart(2)
    group.forget_leader(2)
    last_index, last_term = candidate_last
    for pre_vote in (True, False):
        group.arrive(Packet(1, 2, VoteRequest(5, 1, last_index, last_term, pre_vote)))
        group.sync(2)
        reply = group.take(VoteReply, sender=2)[0].message
        assert (reply.granted, reply.pre_vote) == (granted, pre_vote)


def test_5_4_2_entries_of_an_older_term_are_not_committed_by_counting() -> None:
    group = Group(5)
    group.elect(1)
    # (a) node 1 leads and replicates entry 2 to node 2 only.
    group.propose(1, b"two")
    group.deliver(AppendRequest, to=2)
    group.sync(1)
    group.sync(2)
    group.network.clear()
    # (b) node 1 fails; node 5 is elected by 3, 4 and itself, and writes another entry 2.
    group.crash(1)
    group.forget_leader(3, 4, 5)
    group.fire(5)
    group.settle_votes(5, (3, 4))
    group.sync(5)
    assert group.raft(5).is_leader
    assert group.terms(5) == [1, 2]
    group.network.clear()
    # (c) node 5 fails; node 1 is elected by 2, 3, 4 and replicates its old entry to node 3, no more.
    group.crash(5)
    group.restart(1)
    group.forget_leader(1, 2, 3, 4)
    for _ in range(2):  # Its term is old: the first refusals tell it so.
        group.fire(1)
        group.settle_votes(1, (2, 3, 4))
    leader = group.raft(1)
    assert leader.is_leader
    only_old = AppendRequest(leader.term, 1, 1, 1, 1, 0, leader.log[1:2])
    for node in (2, 3):
        group.arrive(Packet(1, node, only_old))
        group.sync(node)
    group.deliver(AppendReply, to=1)
    # A majority holds entry 2 of term 1 durably, and still it is not committed.
    assert [group.durable_terms(node)[:2] for node in (1, 2, 3)] == [[1, 1]] * 3
    assert leader.commit < 2


def test_5_4_2_old_entries_are_committed_with_the_first_entry_of_the_new_term() -> None:
    group = Group(3)
    group.elect(1)
    group.propose(1, b"x")
    group.deliver(AppendRequest)
    group.sync(2)
    group.network.clear()
    group.crash(1)
    assert group.raft(2).commit == 1
    group.elect(2, cut=(1,))
    assert group.applied[2] == [b"", b"x", b""]


# ---------------------------------------------------------------------------------------------------------
# Durability: thesis 3.8 and 10.2.1
# ---------------------------------------------------------------------------------------------------------


def test_3_8_a_vote_leaves_the_voter_only_after_the_sync() -> None:
    group = Group(3)
    group.forget_leader(1, 2, 3)
    group.arrive(Packet(1, 2, VoteRequest(1, 1, 0, 0, False)))
    assert group.take(VoteReply) == []
    group.sync(2)
    assert group.disks[2].hard_state.voted_for == 1
    assert [packet.message.granted for packet in group.take(VoteReply)] == [True]


def test_3_8_a_refusal_that_names_a_new_term_waits_for_the_sync_as_well() -> None:
    group = Group(3)
    group.elect(1)
    group.forget_leader(2, 3)
    group.arrive(Packet(3, 2, VoteRequest(7, 3, 0, 0, False)))
    assert group.take(VoteReply) == []
    group.sync(2)
    reply = group.take(VoteReply)[0].message
    assert (reply.term, reply.granted, group.disks[2].hard_state.term) == (7, False, 7)


def test_3_8_a_candidate_asks_for_votes_only_after_its_own_vote_is_synced() -> None:
    group = Group(3)
    group.forget_leader(1, 2, 3)
    group.fire(1)
    group.deliver(VoteRequest)
    group.deliver(VoteReply)
    assert group.raft(1).term == 1
    assert group.take(VoteRequest) == []
    group.sync(1)
    assert [packet.message.pre_vote for packet in group.take(VoteRequest)] == [False, False]


def test_3_8_term_and_vote_survive_a_restart() -> None:
    group = Group(3)
    group.forget_leader(1, 2, 3)
    group.arrive(Packet(1, 2, VoteRequest(1, 1, 0, 0, False)))
    group.sync(2)
    group.crash(2)
    group.restart(2)
    group.forget_leader(2)
    group.network.clear()
    group.arrive(Packet(3, 2, VoteRequest(1, 3, 9, 1, False)))
    group.sync(2)
    assert [packet.message.granted for packet in group.take(VoteReply)] == [False]


def test_10_2_1_a_follower_acknowledges_entries_only_after_the_sync() -> None:
    group = Group(3)
    group.elect(1)
    group.propose(1, b"x")
    group.deliver(AppendRequest, to=2)
    assert group.take(AppendReply) == []
    group.sync(2)
    assert [packet.message.match for packet in group.take(AppendReply)] == [2]


def test_10_2_1_a_heartbeat_is_answered_during_a_slow_sync_but_claims_only_what_is_synced() -> None:
    group = Group(3)
    group.elect(1)
    group.propose(1, b"x")
    group.deliver(AppendRequest, to=2)
    group.tick(1)
    group.deliver(AppendRequest, to=2)
    replies = [packet.message for packet in group.take(AppendReply, sender=2)]
    assert [(reply.success, reply.match) for reply in replies] == [(True, 1)]
    assert group.raft(1).quorum_contact()


def test_10_2_1_a_leader_replicates_before_its_own_sync_but_does_not_count_itself() -> None:
    group = Group(3)
    leader = group.elect(1)
    index = group.propose(1, b"x")
    group.deliver(AppendRequest, to=2)
    group.sync(2)
    group.deliver(AppendReply)
    assert leader.commit == index - 1
    group.sync(1)
    assert leader.commit == index


def test_10_2_1_followers_can_commit_what_the_leader_has_not_synced_itself() -> None:
    group = Group(3)
    leader = group.elect(1)
    index = group.propose(1, b"x")
    group.deliver(AppendRequest)
    group.sync(2)
    group.sync(3)
    group.deliver(AppendReply)
    assert (leader.commit, leader.durable_index) == (index, index - 1)


def test_what_an_append_under_way_proves_ends_where_a_later_truncation_cut() -> None:
    group = Group(3)
    group.elect(1)
    follower = group.raft(3)
    group.arrive(Packet(1, 3, AppendRequest(1, 1, 1, 1, 1, 0, [Entry(2, 1, b"a"), Entry(3, 1, b"b")])))
    group.known.pop((2, 1))
    group.known.pop((3, 1))
    group.arrive(Packet(2, 3, AppendRequest(2, 2, 1, 1, 1, 0, [Entry(2, 2, b"c")])))
    assert group.marks["M1.truncate"] == 1
    group.sync(3, 1)
    assert follower.durable_index == 1
    group.sync(3)
    assert (follower.durable_index, group.durable_terms(3)) == (2, [1, 2])


def test_a_restart_continues_from_what_was_synced() -> None:
    group = Group(3)
    group.elect(1)
    group.propose(1, b"kept")
    group.settle()
    group.propose(1, b"lost")
    group.crash(1)
    group.network.clear()
    group.restart(1)
    restarted = group.raft(1)
    assert (restarted.term, restarted.commit, restarted.log[-1].data) == (1, 0, b"kept")
    group.elect(2)
    group.tick(2)
    group.settle()
    assert group.applied[1] == [b"", b"kept", b""]


def test_entries_that_outlived_their_term_record_raise_the_term_and_free_no_vote_given() -> None:
    group = Group(3)
    group.crash(2)
    group.disks[2].entries = [Entry(1, 4, b"")]
    group.restart(2)
    assert (group.raft(2).term, group.raft(2).voted_for) == (4, 0)


# ---------------------------------------------------------------------------------------------------------
# Thesis 6.2 check-quorum, 9.6 pre-vote, 4.2.3 stickiness
# ---------------------------------------------------------------------------------------------------------


def test_6_2_a_leader_without_contact_to_a_quorum_for_an_election_timeout_steps_down() -> None:
    group = Group(3)
    leader = group.elect(1)
    group.tick(1, times=leader.election_max_ticks)
    assert leader.is_leader
    group.tick(1)
    assert not leader.is_leader
    assert leader.leader == 0
    assert group.machines[1].timers[-1].min_ms == leader.config.election_min_ms
    assert group.marks["M1.checkquorum"] == 1


def test_6_2_a_leader_that_hears_a_quorum_stays() -> None:
    group = Group(5)
    leader = group.elect(1)
    for _ in range(30):
        group.tick()
        group.settle(cut=(4, 5))
    assert leader.is_leader
    assert leader.quorum_contact()


def test_6_2_old_replies_are_no_contact() -> None:
    group = Group(3)
    leader = group.elect(1)
    group.tick(1)
    group.deliver(AppendRequest)
    late = group.take(AppendReply)
    group.tick(1, times=7)
    for packet in late:
        group.arrive(packet)
    assert not leader.quorum_contact()


def test_9_6_a_node_that_cannot_win_does_not_raise_its_term() -> None:
    group = Group(3)
    group.elect(1)
    for _ in range(5):
        group.forget_leader(3)
        group.fire(3)
        group.settle(cut=(3,))
    assert group.raft(3).term == 1
    group.tick()
    group.settle()
    assert group.raft(1).is_leader
    assert group.raft(3).leader == 1


def test_9_6_a_pre_vote_is_not_remembered() -> None:
    group = Group(3)
    group.forget_leader(1, 2, 3)
    for candidate in (1, 3):
        group.arrive(Packet(candidate, 2, VoteRequest(1, candidate, 0, 0, True)))
    assert [packet.message.granted for packet in group.take(VoteReply)] == [True, True]
    assert group.machines[2].jobs == []
    assert group.raft(2).term == 0


def test_9_6_a_refused_pre_vote_tells_the_present_term() -> None:
    group = Group(3)
    group.elect(1, cut=(3,))
    group.forget_leader(1, 2, 3)
    group.fire(3)
    group.settle(cut=(1,))
    assert group.raft(3).term == 1
    assert not group.raft(3).is_leader


def test_4_2_3_a_voter_that_hears_a_leader_gives_no_vote_and_keeps_its_term() -> None:
    group = Group(3)
    group.elect(1)
    group.arrive(Packet(3, 2, VoteRequest(9, 3, 9, 9, False)))
    group.arrive(Packet(3, 1, VoteRequest(9, 3, 9, 9, False)))
    replies = [packet.message for packet in group.take(VoteReply, to=3)]
    assert [(reply.term, reply.granted) for reply in replies] == [(1, False), (1, False)]
    assert group.raft(1).is_leader
    assert group.raft(2).term == 1


def test_4_2_3_a_voter_that_has_just_started_votes_only_after_the_minimum_election_timeout() -> None:
    group = Group(3)
    request = VoteRequest(1, 1, 0, 0, False)
    group.arrive(Packet(1, 2, request))
    group.forget_leader(2)
    group.arrive(Packet(1, 2, request))
    group.sync(2)
    assert [packet.message.granted for packet in group.take(VoteReply)] == [False, True]


def test_a_voter_that_stood_in_vain_finds_back_into_the_group() -> None:
    group = Group(3)
    group.elect(1)
    # Node 3 got its pre-votes, raised its term, and was cut off before anybody voted.
    group.forget_leader(2, 3)
    group.fire(3)
    group.deliver(VoteRequest, to=2)
    group.deliver(VoteReply, to=3)
    group.sync(3)
    group.network.clear()
    assert group.raft(3).term == 2
    group.tick()
    group.settle()
    group.elect(2)
    assert group.raft(3).leader == 2


# ---------------------------------------------------------------------------------------------------------
# Section 8 and thesis 6.4: linearizable reads
# ---------------------------------------------------------------------------------------------------------


def test_8_a_read_is_answered_after_a_quorum_has_answered_a_round_that_began_later() -> None:
    group = Group(3)
    group.elect(1)
    group.tick(1)
    group.deliver(AppendRequest)
    earlier = group.take(AppendReply)
    key = group.read(1)
    for packet in earlier:
        group.arrive(packet)
    assert group.reads_done == {}
    group.deliver(AppendRequest, to=2)
    group.deliver(AppendReply)
    assert group.reads_done == {key: 1}
    assert group.marks["M1.readindex"] == 1


def test_8_a_deposed_leader_answers_no_read() -> None:
    group = Group(3)
    group.elect(1)
    group.elect(2, cut=(1,))
    group.propose(2, b"new")
    group.settle(cut=(1,))
    key = group.read(1)
    group.settle()
    assert group.reads_done == {}
    assert group.reads_failed == [key]


def test_6_4_a_new_leader_answers_reads_only_when_an_entry_of_its_term_is_committed() -> None:
    group = Group(3)
    group.elect(1)
    group.propose(1, b"x")
    group.settle(cut=(3,))
    group.crash(1)
    group.forget_leader(2, 3)
    group.fire(2)
    group.settle_votes(2, (3,))
    leader = group.raft(2)
    assert leader.is_leader
    key = group.read(2)
    group.tick(2)
    assert group.reads_done == {}
    group.settle()
    assert group.reads_done == {key: 3}


def test_6_4_followers_read_through_the_leader() -> None:
    group = Group(3)
    group.elect(1)
    key = group.read(3)
    group.settle()
    assert group.reads_done == {key: 1}


def test_6_4_a_follower_without_a_leader_fails_reads_at_once() -> None:
    group = Group(3)
    key = group.read(2)
    assert group.reads_failed == [key]


def test_6_4_a_read_whose_reply_is_lost_fails_after_the_minimum_election_timeout() -> None:
    group = Group(3)
    group.elect(1)
    key = group.read(2)
    group.take(ReadIndexRequest)
    group.tick(2, times=group.raft(2).election_min_ticks - 1)
    assert group.reads_failed == []
    group.tick(2)
    assert group.reads_failed == [key]


def test_6_4_a_node_that_does_not_lead_says_so() -> None:
    group = Group(3)
    group.elect(1)
    key = group.read(2)
    group.step(1, group.raft(1).step_down)
    group.deliver(ReadIndexRequest)
    group.deliver(ReadIndexReply)
    assert group.reads_failed == [key]


def test_6_4_a_reply_to_an_earlier_run_of_a_node_answers_no_read_of_this_run() -> None:
    group = Group(3)
    group.elect(1)
    group.read(2)
    group.deliver(ReadIndexRequest)
    group.deliver(AppendRequest)
    group.deliver(AppendReply)
    old = group.take(ReadIndexReply)
    assert len(old) == 1
    group.crash(2)
    group.restart(2)
    group.tick()
    group.settle()
    group.read(2)
    group.take(ReadIndexRequest)
    group.arrive(old[0])
    assert group.reads_done == {}


def test_6_4_reads_that_wait_share_one_round() -> None:
    group = Group(3)
    group.elect(1)
    keys = [group.read(1) for _ in range(50)]
    assert len(group.take(AppendRequest, to=2)) == 1
    group.tick()
    group.settle()
    assert sorted(group.reads_done) == keys


def test_6_4_waiting_reads_are_bounded() -> None:
    group = Group(3, parked_reads_max=2)
    group.elect(1)
    keys = [group.read(node) for node in (1, 1, 1, 1, 2, 2, 2)]
    # The first read of the leader has begun its round; two more wait, the next is refused.
    assert group.reads_failed == [keys[3], keys[6]]


# ---------------------------------------------------------------------------------------------------------
# Thesis 3.10: leadership transfer; learners
# ---------------------------------------------------------------------------------------------------------


def test_3_10_a_transfer_elects_the_chosen_voter_without_waiting_for_a_timeout() -> None:
    group = Group(3)
    old = group.elect(1)
    assert old.transfer(3)
    group.step(1, lambda: None)
    group.settle()
    assert group.leader() == 3
    assert (old.is_leader, old.leader) == (False, 3)
    assert group.marks["M1.transfer"] == 1


def test_3_10_a_transfer_waits_until_the_chosen_voter_has_everything() -> None:
    group = Group(3)
    old = group.elect(1)
    group.propose(1, b"x")
    group.step(1, lambda: old.transfer(3))
    assert group.take(TimeoutNow) == []
    assert old.propose(b"refused meanwhile") is None
    assert not old.quorum_contact()
    group.settle()
    assert group.leader() == 3
    assert group.applied[3] == [b"", b"x", b""]


def test_3_10_a_transfer_that_fails_ends_after_an_election_timeout() -> None:
    group = Group(3)
    old = group.elect(1)
    group.step(1, lambda: old.transfer(3))
    for _ in range(old.election_max_ticks):
        group.tick()
        group.take(TimeoutNow)
        group.settle(cut=(3,))
    assert old.is_leader
    assert group.propose(1, b"goes on") == 2


def test_3_10_nobody_but_a_voter_in_contact_can_take_over() -> None:
    group = Group(3, learners=1)
    leader = group.elect(1)
    assert not leader.transfer(4)
    assert not leader.transfer(1)
    assert not group.raft(2).transfer(3)


def test_4_2_1_a_learner_gets_the_log_but_is_not_counted_and_does_not_stand() -> None:
    group = Group(3, learners=2)
    leader = group.elect(1)
    index = group.propose(1, b"x")
    group.settle(cut=(2, 3))
    assert leader.commit == index - 1
    group.tick()
    group.settle()
    assert group.applied[4] == group.applied[5] == [b"", b"x"]
    group.forget_leader(4)
    group.fire(4)
    assert group.take(*VOTES) == []
    for _ in range(leader.election_max_ticks + 1):
        group.tick()
        group.settle(cut=(2, 3))
    assert not leader.is_leader


def test_messages_of_other_families_are_ignored() -> None:
    group = Group(1)
    group.step(1, lambda: group.raft(1).on_message(1, ReadIndexReply(123, 1)))
    assert group.take(*APPENDS) == []
