"""Publishers that number what they send, in runs of producers that they share with others (L2).

Each attempt has a value of its own, as everywhere; what is to be there once is the number. Who hears nothing,
or a refusal, goes on from the number that is in doubt, in order. Two publishers have one producer, so that
runs replace each other, and one that was replaced goes on for a while, as a process does that does not know.
Now and then a number is skipped.
"""

from __future__ import annotations

from typing import NamedTuple

from liftlog.options.numbered import Numbered, StoredNumber
from liftlog.types import PartitionId
from liftlog_sim.chance.draws import Draws

NUMBERED_SHARE = 0.4
"""Of the bursts, where a stream remembers producers."""
NEW_RUN_SHARE, NEW_RUN_WHEN_FENCED_SHARE, SKIPPED_SHARE, AGAIN_SHARE = 0.04, 0.25, 0.03, 0.2
SHARED_BY = 2
"""So many publishers have the same producers."""
NAMES = 2
"""So many they have, for each kind of message and in each partition."""
RARE_NAMES = 8
"""And now and then one of so many, so that a leader has more than it may remember."""


class NumberedRun:
    """`next`: the number that is sent next. `sizes`: how many values a number was sent with, in a parcel."""

    __slots__ = ("fenced", "next", "number", "producer", "sizes")

    def __init__(self, producer: bytes, number: int) -> None:
        self.producer = producer
        self.number = number
        self.next = 0
        self.fenced = False
        self.sizes: dict[int, int] = {}


class Sent(NamedTuple):
    """What a value was sent as."""

    numbered: Numbered
    run: NumberedRun


class NumbersInUse:
    """Of all publishers of a world."""

    __slots__ = ("_newest", "_runs", "_sent")

    def __init__(self) -> None:
        self._sent: dict[bytes, Sent] = {}
        self._runs: dict[tuple[PartitionId, bytes, int], NumberedRun] = {}
        self._newest: dict[bytes, int] = {}

    def of(self, value: bytes) -> Numbered | None:
        """As which message of a producer this value was sent; None: as none."""
        sent = self._sent.get(value)
        return None if sent is None else sent.numbered

    def run_for(
        self, partition: PartitionId, publisher: int, kind: bytes, draws: Draws
    ) -> NumberedRun | None:
        """The run in which a publisher sends a burst; None: it numbers nothing. `kind`: parcels or not."""
        if draws.random() >= NUMBERED_SHARE:
            return None
        name = draws.choice((*range(NAMES), *range(NAMES), draws.randrange(RARE_NAMES)))
        producer = b"%b-%d.%d" % (kind, publisher // SHARED_BY, name)
        key = (partition, producer, publisher)
        run = self._runs.get(key)
        share = NEW_RUN_SHARE if run is None or not run.fenced else NEW_RUN_WHEN_FENCED_SHARE
        if run is None or draws.random() < share:
            number = self._newest.get(producer, 0) + 1
            self._newest[producer] = number
            run = self._runs[key] = NumberedRun(producer, number)
        elif draws.random() < AGAIN_SHARE:
            run.next = draws.choice((0, draws.randrange(run.next + 1)))
        return run

    def number(self, run: NumberedRun, value: bytes, size: int, draws: Draws) -> tuple[bytes, int]:
        """The next one of the run: lines for its headers, and how many values it has; 0: it is no parcel."""
        run.next += draws.random() < SKIPPED_SHARE
        sequence = run.next
        run.next += 1
        numbered = Numbered(run.producer, run.number, sequence)
        self._sent[value] = Sent(numbered, run)
        lines = b"Liftlog-Producer: %b\r\nLiftlog-Run: %d\r\nLiftlog-Sequence: %d" % numbered
        return lines, run.sizes.setdefault(sequence, size)

    def doubtful(self, value: bytes) -> None:
        """Nobody knows whether it was stored, or a leader says that it has not: go on from there."""
        sent = self._sent.get(value)
        if sent is not None:
            sent.run.next = min(sent.run.next, sent.numbered.sequence)

    def due(self, value: bytes, sequence: int) -> None:
        """A leader says which one is due. A run that it does not know is over."""
        sent = self._sent.get(value)
        if sent is None:
            return
        if sequence == 0 and sent.run.next > 1:
            sent.run.fenced = True
        sent.run.next = min(sent.run.next, sequence)

    def replaced(self, value: bytes) -> None:
        """A leader says that there is a newer run."""
        sent = self._sent.get(value)
        if sent is not None:
            sent.run.fenced = True


def problem_of_repeat(sent: Numbered, found: StoredNumber | None) -> str:
    """What is wrong with an answer that names the place where this is stored."""
    if found is not None and found.numbered == sent:
        return ""
    return f"as {sent}; there is {found}"
