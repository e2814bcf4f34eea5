"""What every structure can do that finds the patterns which match a subject."""

from __future__ import annotations

from typing import Protocol

Subscriber = int
"""Whoever subscribes is known by a number; what it stands for, its owner knows."""


class Matcher(Protocol):
    """Subscriptions: pairs of a pattern and a subscriber, each there or not there."""

    def subscribe(self, pattern: str, subscriber: Subscriber) -> bool:
        """True: it is new. False: it was there already. Raises PatternRefused for what is no pattern."""
        ...

    def unsubscribe(self, pattern: str, subscriber: Subscriber) -> bool:
        """True: it is gone. False: it was not there. Raises PatternRefused for what is no pattern."""
        ...

    def match(self, subject: str) -> list[Subscriber]:
        """Who has a pattern that matches this literal subject: each once, in rising order."""
        ...

    def __len__(self) -> int:
        """How many subscriptions there are."""
        ...


def in_order(found: list[Subscriber]) -> list[Subscriber]:
    """What a match returns of those that it has found, perhaps several times."""
    return sorted(set(found)) if len(found) > 1 else found
