"""The truth about requests to create consumers: what was known when each was sent (K1, K5)."""

from __future__ import annotations

from typing import NamedTuple

from liftlog.messages import DELIVER_LASTS, DELIVER_NEW
from liftlog_sim.truth.trueconsumer import TrueConsumer


class KnownThen(NamedTuple):
    """What was so when a client asked for a consumer: where the longest journal ended, below what data were
    acknowledged, and below what of the journal somebody had been told of deletions.
    """

    written: int
    acked: int
    told: int


class SoughtConsumers:
    """Of the consumers of one partition."""

    __slots__ = ("_asked", "_first")

    def __init__(self) -> None:
        self._asked: dict[str, list[KnownThen]] = {}
        """By name, of each request that is under way."""
        self._first: dict[int, KnownThen] = {}
        """By number, of the first request that it may be an answer to."""

    def wants(self, name: str, known: KnownThen) -> None:
        """A client is about to ask that it be created."""
        self._asked.setdefault(name, []).append(known)

    def refused(self, name: str, known: KnownThen) -> None:
        """A leader has said that it does not do so."""
        if known in (asked := self._asked[name]):
            asked.remove(known)

    def begun(self, consumer: TrueConsumer, known: KnownThen) -> str:
        """It is there, as a client was told that has asked for it. What is wrong with where it begins; empty
        if nothing is. Of several who ask at a time, and share it, the first counts.
        """
        created, number = consumer.created, consumer.number
        asked = self._asked.get(created.name, [])
        self._asked[created.name] = [one for one in asked if one.written >= number]
        first = min([known, *(one for one in asked if one.written < number)])
        written, acked, told = self._first.setdefault(number, first)
        if number <= written or created.instead:
            return ""  # It was there, or somebody has reset one that was.
        deliver = created.config.deliver
        if deliver == DELIVER_LASTS and (created.since < acked or created.heeds < told):
            text = f"it begins with the last messages below {created.since}, of which some are gone below"
            text = f"{text} {created.heeds} of the journal; when it was asked for, that was"
            return f"{text} {acked} and {told}"
        if deliver == DELIVER_NEW and created.start < acked:
            text = f"it is to begin with what is new, and begins at {created.start}; when it was"
            return f"{text} asked for, all below {acked} was acknowledged"
        return ""
