"""Who waits for messages of one consumer, and whose turn it is: the one place where a leader chooses among
those that pull (ADR 0091).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from liftlog.messages import PullRequest
from liftlog.types import ClientRef


class WaitingPull(NamedTuple):
    """Of one client, until a message comes or a tick has passed."""

    client: ClientRef
    request: PullRequest
    until: int
    since: int = 0
    """So many questions were asked before it came (K8)."""


IsCounted = Callable[[WaitingPull], bool]
"""Whether it is counted for this one what is to come (K8)."""


class PullTurn(NamedTuple):
    """Who is given the next messages, and how many at most."""

    pull: WaitingPull
    most: int


class PullRoom:
    """The pulls of one consumer that wait at its leader, in the order in which they came."""

    __slots__ = ("_pulls",)

    def __init__(self) -> None:
        self._pulls: deque[WaitingPull] = deque()

    def __len__(self) -> int:
        return len(self._pulls)

    def __iter__(self) -> Iterator[WaitingPull]:
        return iter(self._pulls)

    def add(self, pull: WaitingPull) -> None:
        """It has come."""
        self._pulls.append(pull)

    @property
    def first(self) -> WaitingPull | None:
        """Who waits longest."""
        return self._pulls[0] if self._pulls else None

    def next(self, is_counted: IsCounted) -> PullTurn | None:
        """Whose turn it is; None: nobody's, or it is not counted yet what is to come."""
        first = self.first
        return PullTurn(first, first.request.messages) if first is not None and is_counted(first) else None

    def remove(self, pull: WaitingPull) -> None:
        """It waits no more: it is answered."""
        self._pulls.remove(pull)

    def take(self, until: int) -> list[WaitingPull]:
        """Those that wait until this tick at most: they wait no more."""
        over = [pull for pull in self._pulls if pull.until <= until]
        for pull in over:
            self._pulls.remove(pull)
        return over

    def take_all(self) -> list[WaitingPull]:
        """Nobody waits any more."""
        pulls, self._pulls = list(self._pulls), deque()
        return pulls

    def forget(self, client: ClientRef) -> None:
        """The client's connection is gone."""
        self._pulls = deque(pull for pull in self._pulls if pull.client != client)
