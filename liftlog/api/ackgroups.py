"""Acks that one read of a client's connection has brought: one request for all of a consumer's (K3).

    ack 17, ack 18, ack 21   ->   one request: 17 to 18, 21   ->   its answer, taken apart: one for each

A program that is given a hundred messages and acks each by a request sends these in one write. Taken in one
by one each would be a request that is looked up, a step of the node, and an answer that waits. So whoever
takes calls in collects acks of one message each here, and the node hears of one request that names them all.

Nobody is told of another's message: what the leader does not know is told to those who have acked just that.
What it says of the request as a whole, such as that there is no such consumer, holds for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from liftlog.messages import (
    ACK,
    ClientMessage,
    SettledReply,
    SettleRequest,
    offsets_of,
    runs_of,
)
from liftlog.types import ClientRef, PartitionId

Told = tuple[Sequence[int], object]
"""The numbers of calls that have one answer, and that."""


ACKS_A_REQUEST = 8
"""Of what a connection may have in work so many acks of one message count as one request."""


def acked_alone(request: ClientMessage) -> int | None:
    """Which message it acks, if it does so of one and does nothing else."""
    if type(request) is SettleRequest and request.how == ACK and len(request.runs) == 1:
        offset, length = request.runs[0]
        return offset if length == 1 else None
    return None


def share_of(request: ClientMessage) -> int:
    """What a request counts for, where ACKS_A_REQUEST are one whole."""
    return ACKS_A_REQUEST if acked_alone(request) is None else 1


class PlantedBugs(NamedTuple):
    """`ack_group_names_first`, `ack_group_answered_whole` of `liftlog/mutants.py`."""

    names_first: bool = False
    answered_whole: bool = False


NO_BUGS = PlantedBugs()


class AckGroup:
    """Acks of one consumer's messages, by the numbers of the calls that brought them. Never empty."""

    __slots__ = ("_bugs", "_first", "_numbers", "_offsets", "client")

    def __init__(self, number: int, offset: int, first: SettleRequest, bugs: PlantedBugs = NO_BUGS) -> None:
        self.client = ClientRef(0)
        """Who the node is to answer, for all of them."""
        self._first = first
        self._bugs = bugs
        self._numbers = [number]
        self._offsets = [offset]

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, number: int, offset: int) -> None:
        """One more of the same consumer."""
        self._numbers.append(number)
        self._offsets.append(offset)

    @property
    def request(self) -> SettleRequest:
        """What the node is asked for all of them."""
        if len(self) == 1 or self._bugs.names_first:
            return self._first
        return SettleRequest(self._first.partition, self._first.consumer, ACK, runs_of(self._offsets))

    def answers(self, reply: object) -> Iterable[Told]:
        """What each of them is told, when the node has answered that."""
        whole = not isinstance(reply, SettledReply) or not reply.unknown or len(self) == 1
        if whole or self._bugs.answered_whole:
            yield self._numbers, reply
            return
        assert isinstance(reply, SettledReply)
        unknown = dict.fromkeys(offsets_of(reply.unknown))
        settled = []
        for number, offset in zip(self._numbers, self._offsets, strict=True):
            if offset in unknown:
                yield [number], msgspec.structs.replace(reply, unknown=[(offset, 1)])
            else:
                settled.append(number)
        if settled:
            yield settled, msgspec.structs.replace(reply, unknown=[])


class OpenGroups:
    """Those that acks may still join: until something else is asked, which may rest on what they say."""

    __slots__ = ("_bugs", "_groups")

    def __init__(self, bugs: PlantedBugs = NO_BUGS) -> None:
        self._groups: dict[tuple[PartitionId, int], AckGroup] = {}
        self._bugs = bugs

    def take(self, number: int, request: ClientMessage) -> tuple[AckGroup | None, bool]:
        """The group of a call that acks one message, and whether that has begun with it. Else it is no such
        call, and those that were open are so no more.
        """
        offset = acked_alone(request)
        if offset is None:
            self._groups.clear()
            return None, False
        assert isinstance(request, SettleRequest)
        key = request.partition, request.consumer
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = AckGroup(number, offset, request, self._bugs)
            return group, True
        group.add(number, offset)
        return group, False
