"""A map from patterns to subscribers, looked at from end to end."""

from __future__ import annotations

from liftlog.subjects.grammar import matches, pattern_tokens
from liftlog.subjects.matcher import Subscriber, in_order


class NaiveMap:
    """The definition of matching, written down: every pattern is asked whether it matches.

    Subscribing costs one look into a dictionary, a match as much as there are patterns. It is what the other
    structures are held against.
    """

    __slots__ = ("_count", "_patterns")

    def __init__(self) -> None:
        self._patterns: dict[str, dict[Subscriber, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def subscribe(self, pattern: str, subscriber: Subscriber) -> bool:
        subscribers = self._patterns.get(pattern)
        if subscribers is None:
            pattern_tokens(pattern)
            subscribers = self._patterns[pattern] = {}
        if subscriber in subscribers:
            return False
        subscribers[subscriber] = None
        self._count += 1
        return True

    def unsubscribe(self, pattern: str, subscriber: Subscriber) -> bool:
        subscribers = self._patterns.get(pattern)
        if subscribers is None:
            pattern_tokens(pattern)
            return False
        if subscriber not in subscribers:
            return False
        del subscribers[subscriber]
        if not subscribers:
            del self._patterns[pattern]
        self._count -= 1
        return True

    def match(self, subject: str) -> list[Subscriber]:
        found: list[Subscriber] = []
        for pattern, subscribers in self._patterns.items():
            if matches(pattern, subject):
                found.extend(subscribers)
        return in_order(found)
