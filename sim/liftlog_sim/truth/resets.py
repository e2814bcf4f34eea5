"""The truth about consumers that are reset (K1): who takes whose place, and where the new one begins."""

from __future__ import annotations

from liftlog.messages import TO_FLOOR
from liftlog_sim.truth.trueconsumer import TrueConsumer


class Resets:
    """Of the consumers of one partition."""

    __slots__ = ("_asked", "_floors", "ended")

    def __init__(self) -> None:
        self._asked: set[str] = set()
        """Names of those that some client has asked to reset."""
        self._floors: dict[int, int] = {}
        """By the number of the new one: up to where all was done with the former, by what is committed."""
        self.ended: set[int] = set()
        """The former ones."""

    def asks(self, name: str) -> None:
        """A client is about to."""
        self._asked.add(name)

    def takes_place(self, consumer: TrueConsumer, former: TrueConsumer | None, end: int) -> str:
        """What is wrong with the entry, which ends there; empty if nothing is."""
        created = consumer.created
        if created.name not in self._asked:
            return f"it takes the place of consumer {created.instead}, which nobody wants to be reset"
        if former is None or former.deleted or former.created.name != created.name:
            return f"it takes the place of consumer {created.instead}, which is not there"
        if created.config != former.config:
            return f"it takes the place of consumer {former.number}, with another configuration"
        former.deleted = end
        self.ended.add(former.number)
        self._floors[consumer.number] = min(former.pending, default=former.position)
        return ""

    def begins(self, consumer: TrueConsumer, offset: int, log_start: int) -> str:
        """What is wrong with where it begins, for whoever has asked for this offset; empty if nothing is.
        To a floor: a leader knows what is folded there, and that may be less.
        """
        number, start = consumer.number, consumer.created.start
        if number not in self._floors:
            return f"it is told to who wanted a reset to {offset}, and was not made by one"
        to_floor = offset == TO_FLOOR
        latest = self._floors[number] if to_floor else offset
        if start <= max(latest, log_start) and (to_floor or offset <= start):
            return ""
        return f"it is to begin at {'the floor, ' if to_floor else ''}{latest}, and begins at {start}"
