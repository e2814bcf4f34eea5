"""Snapshots in Raft alone (M1p, M1q): what a node drops, sends, takes in and acknowledges, step by step."""

from __future__ import annotations

import pytest

from liftlog.messages import (
    AppendReply,
    AppendRequest,
    InstallSnapshot,
    MoveLogStart,
    SnapshotChunk,
    SnapshotReply,
)
from liftlog.types import InvariantViolation, Snapshot
from tests.core.raft_harness import Group, InvariantBroken, Packet

FEW = {"raft_snapshot_entries": 4}
"""One entry stays before a snapshot's end."""


def shortened(away: int = 3) -> Group:
    """Node 1 leads; node 3 was away while ten commands were committed, and nodes 1 and 2 have a snapshot."""
    group = Group(3, **FEW)
    group.elect(1)
    for number in range(10):
        group.propose(1, b"%d" % number)
    group.settle(cut=(away,))
    for node in {1, 2, 3} - {away}:
        group.save(node)
    group.settle(cut=(away,))
    return group


def test_M1p_the_log_begins_behind_what_a_durable_snapshot_holds_but_for_some_entries() -> None:
    group = shortened()
    log = group.raft(1).raft_log
    assert (log.start, log.last_index, [entry.index for entry in log.entries]) == (10, 11, [11])
    assert group.disks[1].base.index == 10 and log.term_at(10) == 1 and log.term_at(9) == -1


def test_M1p_no_snapshot_of_what_is_not_committed() -> None:
    group = Group(3, **FEW)
    group.elect(1)
    group.propose(1, b"x")
    raft = group.raft(1)
    with pytest.raises(InvariantViolation, match="a snapshot of 2, committed up to 1"):
        raft.snapshot_saved(Snapshot(2, 1, (b"",)))


def test_M1p_a_start_goes_on_from_snapshot_and_log() -> None:
    group = shortened()
    group.crash(2)
    group.restart(2)
    raft = group.raft(2)
    assert (raft.commit, raft.raft_log.start, raft.raft_log.last_index) == (11, 10, 11)
    group.propose(1, b"more")
    group.settle(cut=(3,))
    group.tick(1)
    group.settle(cut=(3,))
    assert group.applied[2][-1] == b"more" and len(group.applied[2]) == 12


def test_M1q_who_needs_what_is_gone_gets_the_snapshot_in_chunks_and_then_entries() -> None:
    group = shortened()
    group.propose(1, b"behind the snapshot")
    group.tick(1)
    group.settle()
    assert group.applied[3] == group.applied[1] and group.marks["M1.install"] == 1
    disk = group.disks[3]
    assert disk.snapshot == group.disks[1].snapshot and disk.base == (11, 1)
    assert [entry.data for entry in disk.entries] == [b"behind the snapshot"]
    assert group.raft(1).leadership is not None
    assert group.raft(1).leadership.progress[3].transfer is None


def test_M1q_a_snapshot_on_its_way_is_not_overtaken_by_the_next() -> None:
    """The log keeps what follows it, so that it is the last that the follower needs (seed 184)."""
    group = shortened()
    group.tick(1)
    group.deliver(AppendRequest, to=3)
    group.deliver(AppendReply, to=1)
    group.settle(cut=(3,))
    leadership = group.raft(1).leadership
    assert leadership is not None and leadership.progress[3].transfer is not None
    for round in range(3):
        for number in range(4):
            group.propose(1, b"%d.%d" % (round, number))
        group.settle(cut=(3,))
        group.save(1)
        group.settle(cut=(3,))
    assert leadership.needed() == 11 and group.raft(1).raft_log.start == 11
    assert group.marks["M1.keep-for-install"] == 3 and group.raft(1).snapshot.index == 23
    for number in range(8):
        group.propose(1, b"%d" % number)
    group.settle(cut=(3,))
    group.save(1)
    group.settle(cut=(3,))
    assert group.raft(1).raft_log.start == 31 - 16, "no more is kept than four times what makes a snapshot"


def chunks(group: Group) -> list[Packet]:
    """All chunks of the leader's snapshot, as they arrive one after the other; none is answered."""
    found: dict[int, Packet] = {}
    for _ in range(100):
        group.tick(1)
        for packet in group.take(SnapshotChunk, to=3):
            assert isinstance(packet.message, SnapshotChunk)
            if packet.message.number not in found:
                found[packet.message.number] = packet
                group.arrive(packet) if len(found) < packet.message.count else None
            if len(found) == packet.message.count:
                group.network.clear()
                return list(found.values())
        group.deliver(AppendRequest, to=3)
        group.deliver(SnapshotReply, AppendReply, to=1)
    raise AssertionError("the chunks do not come")


def test_M1q_nothing_changes_before_the_last_chunk_and_the_answer_waits_for_the_sync() -> None:
    group = shortened()
    last = chunks(group)[-1]
    raft = group.raft(3)
    before = (raft.commit, raft.raft_log.last_index)
    assert raft.installing.under_way == (11, 10, 11)
    group.arrive(last)
    assert (raft.commit, raft.raft_log.start) == (11, 11) and before[0] < 11
    assert [type(job) for job in group.machines[3].jobs] == [InstallSnapshot]
    assert group.take(AppendReply) == [], "it is not durable"
    group.sync(3)
    (reply,) = group.take(AppendReply)
    assert isinstance(reply.message, AppendReply) and reply.message.match == 11


def test_M1q_a_crash_before_the_sync_forgets_the_install() -> None:
    group = shortened()
    group.arrive(chunks(group)[-1])
    group.crash(3)
    group.restart(3)
    assert group.raft(3).commit == 0 and group.raft(3).snapshot is None


def test_M1q_chunks_are_taken_in_their_order_however_they_arrive() -> None:
    group = shortened()
    found = chunks(group)
    group.crash(3)
    group.restart(3)
    group.network.clear()
    for packet in reversed(found):
        group.arrive(packet)
    wanted = [p.message.wanted for p in group.take(SnapshotReply) if isinstance(p.message, SnapshotReply)]
    assert wanted == [0] * (len(found) - 1) + [4], "three that came early were kept, and no more"
    for packet in (*found, *found):
        group.arrive(packet)
    group.sync(3)
    assert group.raft(3).commit == 11 and group.applied[3] == group.applied[1]


def other_snapshot(group: Group, found: list[Packet]) -> list[Packet]:
    """The leader takes another snapshot, of two commands more, while the first is on its way."""
    for number in range(2):
        group.propose(1, b"later %d" % number)
    group.settle(cut=(3,))
    group.save(1)
    snapshot = group.disks[1].snapshot
    assert snapshot is not None and snapshot.index == 13
    first = found[0].message
    assert isinstance(first, SnapshotChunk)
    return [
        Packet(1, 3, SnapshotChunk(first.term, 1, 13, snapshot.term, number, 13, 13, first.round, data))
        for number, data in enumerate(snapshot.chunks)
    ]


def test_M1q_chunks_of_two_snapshots_never_become_one() -> None:
    group = shortened()
    found = chunks(group)
    newer = other_snapshot(group, found)
    for packet in (*newer[8:], *newer):
        group.arrive(packet)
    assert group.applied[3] == group.applied[1] and group.marks["M1.other-snapshot"] == 1


def test_M1q_an_older_snapshot_says_nothing_new() -> None:
    group = shortened()
    found = chunks(group)
    newer = other_snapshot(group, found)
    for packet in newer:
        group.arrive(packet)
    group.sync(3)
    group.network.clear()
    group.arrive(found[-1])
    (reply,) = group.take(AppendReply)
    assert isinstance(reply.message, AppendReply) and (reply.message.success, reply.message.match) == (
        True,
        11,
    )
    assert group.raft(3).commit == 13 and group.disks[3].base.index == 13


def behind_but_whole() -> tuple[Group, list[Packet]]:
    """Node 3 has every entry and does not know that they are committed; the chunks are on their way to it."""
    group = shortened()
    found = chunks(group)
    group.crash(3)
    group.restart(3)
    group.network.clear()
    raft = group.raft(1)
    entries = [entry for entry in (*group.committed, *raft.log[1:])]
    group.propose(1, b"acknowledged")
    group.settle(cut=(3,))
    request = AppendRequest(raft.term, 1, 0, 0, 0, 0, [*entries, raft.log[-1]])
    group.arrive(Packet(1, 3, request))
    group.sync(3)
    group.take(AppendReply)
    assert (group.raft(3).commit, group.raft(3).raft_log.last_index) == (0, 12)
    for packet in found:
        group.arrive(packet)
    group.sync(3)
    return group, found


def test_M1q_what_follows_the_snapshots_last_entry_stays() -> None:
    group, _ = behind_but_whole()
    raft = group.raft(3)
    assert group.marks["M1.install-within"] == 1
    assert (raft.commit, raft.raft_log.start, raft.raft_log.last_index) == (11, 10, 12)
    assert [entry.data for entry in group.disks[3].entries][-1] == b"acknowledged"


def test_M1q_an_append_from_below_the_logs_beginning_agrees_up_to_there() -> None:
    group = shortened()
    group.tick(1)
    group.settle()
    raft, leader = group.raft(3), group.raft(1)
    old = AppendRequest(leader.term, 1, 4, 1, 11, 9, list(group.committed[4:8]))
    group.arrive(Packet(1, 3, old))
    beat = AppendRequest(leader.term, 1, 6, 1, 11, 9, [])
    group.arrive(Packet(1, 3, beat))
    across = AppendRequest(leader.term, 1, 9, 1, 11, 9, [*group.committed[9:11]])
    group.arrive(Packet(1, 3, across))
    told = [p.message for p in group.take(AppendReply, sender=3) if isinstance(p.message, AppendReply)]
    assert [(reply.success, reply.match) for reply in told] == [(True, 8), (True, 6), (True, 11)]
    assert (raft.raft_log.start, raft.raft_log.last_index) == (11, 11)


def test_M1q_a_log_with_another_entry_at_the_snapshots_end_goes() -> None:
    group = Group(3, **FEW)
    group.elect(3)
    for number in range(12):
        group.propose(3, b"lost %d" % number)
    group.sync(3)
    group.network.clear()
    group.elect(1, cut=(3,))
    for number in range(10):
        group.propose(1, b"%d" % number)
    group.settle(cut=(3,))
    group.save(1)
    group.settle(cut=(3,))
    assert group.raft(3).raft_log.last_index == 13
    for _ in range(3):
        group.tick(1)
        group.settle()
    assert group.applied[3] == group.applied[1]
    assert [job for job in group.machines[3].jobs if isinstance(job, MoveLogStart)] == []
    assert group.raft(3).raft_log.last_index == group.raft(1).raft_log.last_index


def test_M1q_who_has_installed_is_elected_and_goes_on() -> None:
    group = shortened()
    group.tick(1)
    group.settle()
    group.crash(1)
    group.elect(3)
    group.propose(3, b"new")
    group.settle()
    assert group.applied[3][-1] == b"new" and group.raft(2).raft_log.last_term == group.raft(3).term


def test_M1q_a_leader_that_changes_in_the_middle_of_an_install_begins_it_anew() -> None:
    group = shortened()
    chunks(group)
    group.crash(1)
    group.elect(2)
    group.tick(2, times=3)
    group.settle()
    assert group.applied[3] == group.applied[2] and group.marks["M1.other-snapshot"] == 1


@pytest.mark.parametrize("lost", range(3, 7))
def test_M1q_lost_chunks_and_answers_are_made_good_by_heartbeats(lost: int) -> None:
    group = shortened()
    for turn in range(200):
        group.tick(1)
        for packet in group.take():
            if turn % lost:
                group.arrive(packet)
        for node in group.machines:
            group.sync(node)
        if len(group.applied[3]) == 11:
            return
    raise AssertionError("it never arrives")


def test_M1q_a_lost_chunk_costs_one_heartbeat_and_not_one_for_each_that_follows() -> None:
    """Else a long snapshot is overtaken by the next, again and again, and no node joins (seed 1260)."""
    group = shortened()
    lost = 0

    def settle() -> None:
        nonlocal lost
        while packets := group.take():
            for packet in packets:
                chunk = packet.message
                if isinstance(chunk, SnapshotChunk) and chunk.number == 2 and not lost:
                    lost += 1
                else:
                    group.arrive(packet)
            for node in group.machines:
                group.sync(node)

    for _ in range(3):
        # A heartbeat that finds the logs apart; one that goes in vain, as far as the lost chunk; one more.
        group.tick(1)
        settle()
    assert lost == 1 and group.applied[3] == group.applied[1] and group.marks["M1.early-chunk"] >= 1


def test_M1q_a_late_chunk_of_an_earlier_snapshot_does_not_take_away_what_has_come() -> None:
    group = shortened()
    early = chunks(group)
    later = other_snapshot(group, early)
    for packet in later[:-1]:
        group.arrive(packet)
    raft = group.raft(3)
    assert raft.installing.under_way == (13, 12, 13)
    group.take()
    group.arrive(early[0])
    assert raft.installing.under_way == (13, 12, 13) and group.take() == []
    group.arrive(later[-1])
    group.sync(3)
    assert raft.commit == 13 and group.marks["M1.earlier-snapshot"] == 1


def test_V3_a_snapshot_that_contradicts_itself_is_refused() -> None:
    group = shortened()
    (first, *_) = chunks(group)
    chunk = first.message
    assert isinstance(chunk, SnapshotChunk)
    group.arrive(Packet(2, 3, SnapshotChunk(chunk.term, 2, 11, 1, 0, 1, 11, 1, b"")))
    assert group.raft(3).commit < 11 and group.marks["V3"] == 1, "node 1 leads this term"


def test_the_state_of_a_snapshot_is_compared() -> None:
    group = shortened()
    snapshot = group.disks[1].snapshot
    assert snapshot is not None
    chunk = SnapshotChunk(group.raft(1).term, 1, 11, 1, 0, 1, 11, 0, b"something else")
    with pytest.raises(InvariantBroken, match="SnapshotState"):
        group.arrive(Packet(1, 3, chunk))
