"""N12: what the metadata group has done, until it is committed in the activity stream.

    events     in the order of their ids; the id of an event is the Raft index of the command that has made it
    trimmed    up to this id all is in the stream, and committed, as the group knows
    missed     up to this id some had no room here, and went: the stream is to say so in their place

It begins with the creation of the activity stream, whose own event is the first, and ends with its removal.
It has room for so many events. The oldest goes when there is none: the metadata group waits for no stream.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Annotated

import msgspec
from msgspec import Meta

from liftlog.types import NodeOrNobody, Number, PartitionIndex

ROOM = 4096
"""So many events wait at most."""
NO_STREAM = 0


class PartitionChange(msgspec.Struct, frozen=True, array_like=True):
    """Of one partition: who leads it and who is in sync after an event."""

    stream: str
    partition: PartitionIndex
    leader: NodeOrNobody
    epoch: Number
    isr: tuple[int, ...]
    joined: tuple[int, ...] = ()
    """Those of the ISR who were not in it before."""
    left: tuple[int, ...] = ()
    """Those who were in the ISR before, and are not any more."""


class ActivityEvent(msgspec.Struct, frozen=True, array_like=True):
    """What one command has done. What is not said of its kind is empty."""

    id: Annotated[int, Meta(ge=1)]
    event: str
    stream: str = ""
    stream_id: int = 0
    node: int = 0
    incarnation: int = 0
    level: int = 0
    detail: str = ""
    partitions: tuple[PartitionChange, ...] = ()
    more: int = 0
    """So many partitions have changed beside those that are listed."""


class OutboxHead(msgspec.Struct, frozen=True, array_like=True):
    """What a snapshot says of it beside its events."""

    stream: Number
    trimmed: Number
    missed: Number
    events: Number


class ActivityOutbox:
    """See the module. `stream` 0: there is no activity stream, and nothing is kept."""

    __slots__ = ("_room", "events", "missed", "stream", "trimmed")

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self.stream = NO_STREAM
        self.trimmed = 0
        self.missed = 0
        self.events: deque[ActivityEvent] = deque()

    @property
    def on(self) -> bool:
        return self.stream != NO_STREAM

    @property
    def head(self) -> OutboxHead:
        return OutboxHead(self.stream, self.trimmed, self.missed, len(self.events))

    def begin(self, stream: int) -> None:
        """The activity stream is created by the command at this index, which is the stream's id (I1)."""
        self.stream, self.trimmed, self.missed = stream, stream - 1, 0
        self.events.clear()

    def end(self) -> None:
        """The activity stream is removed."""
        self.stream, self.trimmed, self.missed = NO_STREAM, 0, 0
        self.events.clear()

    def take_over(self, head: OutboxHead | None, events: Iterable[ActivityEvent]) -> None:
        """M1p: become what a snapshot says."""
        self.end()
        if head is not None:
            self.stream, self.trimmed, self.missed = head.stream, head.trimmed, head.missed
            self.events.extend(events)

    def add(self, event: ActivityEvent) -> bool:
        """This has happened. Whether there was room without letting one go."""
        self.events.append(event)
        if len(self.events) <= self._room:
            return True
        self.missed = self.events.popleft().id
        return False

    def trim(self, up_to: int) -> None:
        """Up to this id all is committed in the stream."""
        self.trimmed = up_to
        while self.events and self.events[0].id <= up_to:
            self.events.popleft()

    def behind(self, told: int, most: int) -> list[ActivityEvent]:
        """The next events behind what is told, at most so many."""
        first = bisect_right(self.events, told, key=_id_of)
        return list(islice(self.events, first, first + most))


def _id_of(event: ActivityEvent) -> int:
    return event.id
