"""Who waits for messages of one consumer, and in which order they are looked at: the one place where a leader
keeps those that pull (ADR 0091). Who of them is given messages says the leader's `delivering/priorities.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
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


class PullTurn(NamedTuple):
    """Who is given the next messages, and how many at most."""

    pull: WaitingPull
    most: int


class Pin(NamedTuple):
    """K10: one client is given everything, until a tick at which it has begun no pull for so long."""

    id: str
    group: str
    until: int
    since_ms: int


class PullRoom:
    """The pulls of one consumer that wait at its leader: the least number first (`prioritized`; else all have
    the same), and of one number in the order in which they came.
    """

    __slots__ = ("_pulls", "pin")

    def __init__(self) -> None:
        self._pulls: deque[WaitingPull] = deque()
        self.pin: Pin | None = None

    def __len__(self) -> int:
        return len(self._pulls)

    def __iter__(self) -> Iterator[WaitingPull]:
        return iter(self._pulls)

    @property
    def first(self) -> WaitingPull | None:
        """Who is looked at first."""
        return self._pulls[0] if self._pulls else None

    def add(self, pull: WaitingPull) -> None:
        """It has come."""
        place = len(self._pulls)
        while place and self._pulls[place - 1].request.priority > pull.request.priority:
            place -= 1
        self._pulls.insert(place, pull)

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

    def pins(self, pin: Pin | None) -> None:
        """This one is pinned from now on; None: nobody is."""
        self.pin = pin
