"""Acks that one read brings are one request, and each hears of its own message (K3)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog.api import wire
from liftlog.api.ackgroups import ACKS_A_REQUEST, AckGroup, OpenGroups, acked_alone, share_of
from liftlog.messages import (
    ERR_NOT_FOUND,
    ClientMessage,
    ErrorReply,
    PullRequest,
    SettledReply,
    SettleRequest,
    offsets_of,
)
from liftlog.types import PartitionId
from tests.core.test_consumers import journal_of, made, pull, ready

PLACE = PartitionId(7, 0)
OFFSETS = st.integers(0, 15)
ACKS = st.lists(st.tuples(st.integers(1, 3), OFFSETS), min_size=1, max_size=30)


def ack(consumer: int, offset: int) -> SettleRequest:
    return SettleRequest(PLACE, consumer, "ack", [(offset, 1)])


def grouped(asked: list[ClientMessage]) -> list[tuple[int, ClientMessage | AckGroup]]:
    """What a node is asked for: by the number of the call that it began with."""
    opened, found = OpenGroups(), list[tuple[int, ClientMessage | AckGroup]]()
    for number, request in enumerate(asked):
        group, begun = opened.take(number, request)
        if group is None or begun:
            found.append((number, request if group is None else group))
    return found


def heard(group: AckGroup, reply: object) -> dict[int, object]:
    told = [(number, told) for numbers, told in group.answers(reply) for number in numbers]
    assert len(dict(told)) == len(told)
    return dict(told)


@pytest.mark.parametrize(
    ("request_", "offset"),
    [
        (ack(1, 4), 4),
        (SettleRequest(PLACE, 1, "ack", [(4, 2)]), None),
        (SettleRequest(PLACE, 1, "ack", [(4, 1), (7, 1)]), None),
        (SettleRequest(PLACE, 1, "nak", [(4, 1)]), None),
        (SettleRequest(PLACE, 1, "term", [(4, 1)]), None),
        (PullRequest(PLACE, 1), None),
    ],
)
def test_an_ack_of_one_message_counts_for_a_part_of_a_request(request_: Any, offset: int | None) -> None:
    assert acked_alone(request_) == offset
    assert share_of(request_) == (ACKS_A_REQUEST if offset is None else 1)


def test_acks_of_a_consumer_are_one_request_until_something_else_is_asked() -> None:
    pull = PullRequest(PLACE, 1)
    asked: list[ClientMessage] = [ack(1, 4), ack(2, 9), ack(1, 5), ack(1, 7), pull, ack(1, 8)]
    found = [(at, one.request if isinstance(one, AckGroup) else one) for at, one in grouped(asked)]
    assert found == [
        (0, SettleRequest(PLACE, 1, "ack", [(4, 2), (7, 1)])),
        (1, ack(2, 9)),
        (4, pull),
        (5, ack(1, 8)),
    ]


@given(ACKS)
def test_each_call_is_answered_once_and_each_message_is_named(acks: list[tuple[int, int]]) -> None:
    groups = [one for _, one in grouped([ack(*one) for one in acks]) if isinstance(one, AckGroup)]
    named: dict[int, set[int]] = {}
    answered: list[int] = []
    for group in groups:
        named.setdefault(group.request.consumer, set()).update(offsets_of(group.request.runs))
        answered += heard(group, SettledReply(PLACE, group.request.consumer, 3))
        assert len(group) == len(heard(group, None))
    assert named == {
        consumer: {offset for to, offset in acks if to == consumer} for consumer in {to for to, _ in acks}
    }
    assert sorted(answered) == list(range(len(acks)))


@given(st.lists(OFFSETS, min_size=1, max_size=20), st.integers(0, 16))
def test_what_is_not_known_is_told_to_those_who_named_it(offsets: list[int], ahead: int) -> None:
    group = AckGroup(0, offsets[0], ack(1, offsets[0]))
    for number, offset in enumerate(offsets[1:], 1):
        group.add(number, offset)
    unknown = sorted({(offset, 1) for offset in offsets if offset >= ahead})
    told = heard(group, SettledReply(PLACE, 1, 30, unknown))
    assert told == {
        number: SettledReply(PLACE, 1, 30, [(offset, 1)] if offset >= ahead else [])
        for number, offset in enumerate(offsets)
    }


def test_what_is_said_of_all_holds_for_each() -> None:
    group = AckGroup(4, 1, ack(1, 1))
    group.add(9, 2)
    error = ErrorReply(ERR_NOT_FOUND, "no such consumer", False)
    assert heard(group, error) == {4: error, 9: error}


@given(st.lists(st.integers(1, 1 << 62), min_size=1, max_size=9), st.lists(st.tuples(OFFSETS, OFFSETS)))
def test_frames_that_say_the_same_are_those_of_single_answers(
    numbers: list[int], unknown: list[tuple[int, int]]
) -> None:
    reply = SettledReply(PLACE, 1, 300, unknown)
    single = b"".join(wire.encode_frame((number, reply)) for number in numbers)
    assert wire.answer_frames(numbers, reply) == single


# -- with a leader -------------------------------------------------------------------------------------------


MESSAGES, GIVEN = 12, 9


class Desk:
    """A leader of whose messages each new consumer is given the first ones."""

    def __init__(self) -> None:
        self.world, self.partition = ready(MESSAGES)
        self.made = 0

    def consumer(self) -> int:
        self.made += 1
        number = made(self.world, self.partition, name=f"c{self.made}")
        assert sum(run[1] for run in pull(self.world, self.partition, number, GIVEN).runs) == GIVEN
        return number

    def settled(self, numbers: list[int], offsets: list[tuple[int, int]], joined: bool) -> list[Any]:
        """What each ack, of the consumer at a place, is told; all come at once."""
        world, leader = self.world, self.world.leader(self.partition)
        asked: list[ClientMessage] = [
            SettleRequest(self.partition, numbers[place], "ack", [(offset, 1)]) for place, offset in offsets
        ]
        calls = grouped(asked) if joined else list(enumerate(asked))
        refs = [world.ask(leader, one.request if isinstance(one, AckGroup) else one) for _, one in calls]
        assert world.run_until(lambda: all(ref in world.replies for ref in refs))
        told: dict[int, object] = {}
        for (number, one), ref in zip(calls, refs, strict=True):
            reply = world.replies[ref]
            told |= heard(one, reply) if isinstance(one, AckGroup) else {number: reply}
        return [told[number] for number in range(len(asked))]

    def stands(self, number: int) -> object:
        self.world.run(0.2)
        one = journal_of(self.world, self.partition).removed.consumers.by_number[number]
        return one.position, sorted(one.pending.items())


@pytest.fixture(scope="module")
def desk() -> Desk:
    return Desk()


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, MESSAGES - 1)), min_size=1, max_size=12))
def test_a_leader_does_the_same_for_acks_that_are_one_request(
    desk: Desk, acks: list[tuple[int, int]]
) -> None:
    alone, together = ([desk.consumer(), desk.consumer()] for _ in "ab")
    single = desk.settled(alone, acks, joined=False)
    joined = desk.settled(together, acks, joined=True)
    for (place, offset), one, other in zip(acks, single, joined, strict=True):
        assert isinstance(one, SettledReply) and isinstance(other, SettledReply)
        assert (one.consumer, other.consumer) == (alone[place], together[place])
        assert one.unknown == other.unknown == ([(offset, 1)] if offset >= GIVEN else [])
    assert [desk.stands(one) for one in alone] == [desk.stands(one) for one in together]


def test_acks_that_are_one_request_are_one_entry_and_the_next_request_finds_them_taken_up(desk: Desk) -> None:
    number = desk.consumer()
    before = journal_of(desk.world, desk.partition).log.leo
    told = desk.settled([number], [(0, 3), (0, 0), (0, 3), (0, 1)], joined=True)
    assert {one.journal for one in told} == {before + 1}
    assert journal_of(desk.world, desk.partition).log.leo == before + 1
    repeated = desk.settled([number], [(0, 3), (0, 0)], joined=True)
    assert all(one.journal >= before + 1 and not one.unknown for one in repeated)
    assert journal_of(desk.world, desk.partition).log.leo == before + 1


def test_of_a_consumer_that_is_no_more_each_hears_that(desk: Desk) -> None:
    for one in desk.settled([10_000], [(0, 1), (0, 2)], joined=True):
        assert isinstance(one, ErrorReply) and one.code == ERR_NOT_FOUND
