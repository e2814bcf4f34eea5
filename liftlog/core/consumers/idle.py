"""Which consumers nobody has asked for in so long that they go (K1), as one leader has seen it.

A leader that begins has seen nothing, and counts from then on: nobody's consumer goes because leaders change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from liftlog.core.consumers.state import Consumer, Consumers


class IdleConsumers:
    """Of one leader. `after`: the tick so many milliseconds from now."""

    __slots__ = ("_after", "_due", "_first", "_known", "_stays")

    def __init__(self, after: Callable[[int], int]) -> None:
        self._after = after
        self._due: dict[int, int] = {}
        """By number: the tick at which it goes, if nobody asks for it."""
        self._stays: dict[int, int] = {}
        """By number: for how many milliseconds it stays without; 0 = for ever."""
        self._first = 0
        """Before this tick none goes."""
        self._known = (0, 0)
        """How many consumers there were when they were last looked at, and which was the newest."""

    def heard(self, consumer: Consumer) -> None:
        """Somebody has asked for it."""
        stays_ms = self._stays.setdefault(consumer.number, consumer.config.inactive_ms)
        if stays_ms:
            self._due[consumer.number] = self._after(stays_ms)
            self._first = min(self._first, self._due[consumer.number])

    def altered(self, consumer: Consumer) -> None:
        """It has another configuration now: it stays as long as that says, from now on."""
        self._stays.pop(consumer.number, None)
        self._due.pop(consumer.number, None)
        self.heard(consumer)

    def over(self, consumers: Consumers, now: int) -> Iterable[Consumer]:
        """Those whose time is over at this tick; told again at each one until they are gone, or heard of."""
        there = consumers.by_number
        known = len(there), next(reversed(there), 0)
        if known != self._known:
            self._known = known
            self._due = {number: due for number, due in self._due.items() if number in there}
            self._stays = {number: stays for number, stays in self._stays.items() if number in there}
            for number, consumer in there.items():
                if number not in self._due:
                    self.heard(consumer)
            self._first = min(self._due.values(), default=0)
        if not self._due or now < self._first:
            return []
        found = [there[number] for number, due in self._due.items() if due <= now and number in there]
        self._first = now if found else min(self._due.values())
        return found
