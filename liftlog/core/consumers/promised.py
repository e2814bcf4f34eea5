"""Answers that one leader has ready, and that wait until the journal is folded up to what they rest on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from liftlog.messages import DoneReply, PullReply, SettledReply
from liftlog.types import ClientRef


class WaitingAnswer(NamedTuple):
    """Of one client, until the journal is folded up to `end`, or until a tick. A text: the name of whom it is
    to be told of.
    """

    end: int
    client: ClientRef
    until: int
    reply: PullReply | SettledReply | DoneReply | str


class PromisedAnswers:
    """Those of one partition, by where their entries end. `carried`: so many have messages in them."""

    __slots__ = ("_queue", "carried")

    def __init__(self) -> None:
        self._queue: deque[WaitingAnswer] = deque()
        self.carried = 0

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, waiting: WaitingAnswer) -> None:
        """One more."""
        queue = self._queue
        place = len(queue)
        while place and queue[place - 1].end > waiting.end:
            place -= 1
        queue.insert(place, waiting)
        self.carried += isinstance(waiting.reply, PullReply)

    def take(self, folded: int) -> WaitingAnswer | None:
        """The next one that waits no more."""
        if not self._queue or self._queue[0].end > folded:
            return None
        waiting = self._queue.popleft()
        self.carried -= isinstance(waiting.reply, PullReply)
        return waiting

    def take_late(self, now: int) -> list[WaitingAnswer]:
        """Those that have waited for too long."""
        late = [one for one in self._queue if one.until <= now]
        if late:
            self._keep(one for one in self._queue if one.until > now)
        return late

    def take_all(self) -> list[WaitingAnswer]:
        """None is left."""
        waiting = list(self._queue)
        self._keep(())
        return waiting

    def forget(self, client: ClientRef) -> None:
        """The client's connection is gone."""
        self._keep(one for one in self._queue if one.client != client)

    def _keep(self, waiting: Iterable[WaitingAnswer]) -> None:
        self._queue = deque(waiting)
        self.carried = sum(isinstance(one.reply, PullReply) for one in self._queue)
