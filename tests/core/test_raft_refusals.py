"""M1l: refusals do not multiply, however messages overtake each other, and nobody is left behind for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from liftlog.core.raft.progress import APPENDS_IN_FLIGHT_MAX, Progress
from liftlog.messages import AppendReply, AppendRequest
from liftlog.mutants import NO_MUTANTS, Mutants
from tests.core.raft_harness import Group, Packet

MULTIPLY = Mutants(refusals_multiply=True)
ENTRIES = 40

Order = Callable[[list[Packet]], list[Packet]]


def behind(mutants: Mutants = NO_MUTANTS) -> Group:
    """Node 2 lacks the first of many entries, which fit a message each."""
    group = Group(3, mutants, raft_append_max_bytes=1)
    group.elect(1)
    for number in range(ENTRIES):
        group.propose(1, b"%d" % number)
    group.take()
    group.tick(1)
    return group


def backward(packets: list[Packet]) -> list[Packet]:
    return packets[::-1]


def interleaved(packets: list[Packet]) -> list[Packet]:
    return packets[1::2] + packets[::2]


def rounds_of(group: Group, order: Order, rounds: int, copies: int = 1) -> list[int]:
    """How many appends to node 2 wait in each round; half of what waits arrives in it, in that order."""
    sent = []
    for _ in range(rounds):
        group.take(to=3)
        waiting = order(group.take(AppendRequest, AppendReply))
        sent.append(len(waiting))
        now, later = waiting[: len(waiting) // 2 + 1], waiting[len(waiting) // 2 + 1 :]
        group.network = later
        for packet in now:
            for _ in range(copies):
                group.arrive(packet)
        group.sync(2)
    return sent


@pytest.mark.parametrize("order", [backward, interleaved])
def test_what_is_under_way_stays_within_the_window(order: Order) -> None:
    group = behind()
    waiting = rounds_of(group, order, 200)
    assert max(waiting) <= 2 * APPENDS_IN_FLIGHT_MAX
    assert group.raft(2).raft_log.last_index == ENTRIES + 1


def test_without_it_they_multiply() -> None:
    waiting = rounds_of(behind(MULTIPLY), backward, 60)
    assert max(waiting) > 10 * APPENDS_IN_FLIGHT_MAX


def test_copies_of_answers_are_not_answered_again() -> None:
    group = behind()
    waiting = rounds_of(group, backward, 400, copies=2)
    assert max(waiting) <= 4 * APPENDS_IN_FLIGHT_MAX
    assert group.raft(2).raft_log.last_index == ENTRIES + 1


def test_a_refusal_that_was_answered_says_nothing_new() -> None:
    group = behind()
    group.deliver(AppendRequest, to=2)
    [refusal] = group.take(AppendReply)
    group.arrive(refusal)
    assert len(group.take(AppendRequest, to=2)) == 1
    group.arrive(refusal)
    assert group.take(AppendRequest, to=2) == []
    assert group.marks["M1.refusal-late"] == 1


def test_a_refusal_of_before_what_was_accepted_is_out_of_date() -> None:
    group = behind()
    group.deliver(AppendRequest, to=2)
    [refusal] = group.take(AppendReply)
    group.tick(1, times=group.raft(1).config.heartbeat_ticks)
    group.settle()
    before = group.raft(1).leadership
    assert before is not None and before.progress[2].match_index == ENTRIES + 1
    group.arrive(refusal)
    assert group.network == [] and before.progress[2].match_index == ENTRIES + 1


def test_a_lost_probe_is_sent_again_by_the_next_heartbeat() -> None:
    group = behind()
    group.deliver(AppendRequest, to=2)
    group.deliver(AppendReply)
    assert len(group.take(AppendRequest, to=2)) == 1
    group.tick(1, times=group.raft(1).config.heartbeat_ticks)
    group.settle()
    assert group.raft(2).raft_log.last_index == ENTRIES + 1


def test_who_has_lost_what_it_had_acknowledged_is_heard_in_the_next_round() -> None:
    known = Progress(2, 11, 0.0)
    known.accepted(10, 5)
    assert not known.refused(3, 4, NO_MUTANTS)
    assert known.refused(3, 6, NO_MUTANTS)
    assert (known.next_index, known.match_index, known.window) == (4, 3, 1)


def test_the_window_grows_with_what_is_acknowledged() -> None:
    known = Progress(2, 11, 0.0)
    assert known.refused(3, 0, NO_MUTANTS)
    known.accepted(3, 0)
    sizes, last = [], 3
    for _ in range(6):
        sent = 0
        while known.may_send():
            last += 1
            sent += 1
            known.sent(last)
        sizes.append(sent)
        known.accepted(last, 0)
    assert sizes == [1, 2, 4, 8, 16, 16]
