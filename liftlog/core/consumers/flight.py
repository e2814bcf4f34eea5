"""What the leader of one epoch knows of one consumer beside the committed state: what it has written and is
not folded yet, when what was delivered is due again, and who waits. With the office all of it is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import takewhile

from liftlog.batchparts import RecordPlaces
from liftlog.core.consumers.pullroom import PullRoom
from liftlog.core.consumers.state import Consumer
from liftlog.core.consumers.tally import FlightTally
from liftlog.picking import RecordFilter
from liftlog.subjects.grammar import pattern_tokens

HEAP_MIN = 1024
"""Entries of a heap that are not worth looking at."""


Lapse = Callable[[int], int]
"""By how often a message was delivered: the tick at which it is due again."""


class Flight:
    """What is on its way for one consumer."""

    __slots__ = (
        "acked_ms",
        "ahead",
        "consumer",
        "counted",
        "dead",
        "deadlines",
        "delivered_ms",
        "filters",
        "flying",
        "heap",
        "lapsed",
        "leaving",
        "patterns",
        "places",
        "pulls",
        "reading",
        "sequence",
        "settling",
        "start",
        "tally",
        "wanted",
        "written",
    )

    def __init__(self, consumer: Consumer, lapse: Lapse, patterns: Sequence[str] = ()) -> None:
        """`lapse`: when what was delivered by earlier leaders is due again. `patterns`: its filters."""
        self.consumer = consumer
        self.ahead = self.written = consumer.position
        """The position, and the one when all that is written is folded: behind that, of what the leader has
        seen, none of its filters matches anything."""
        self.sequence = consumer.sequence
        """So many deliveries there are when all that is written is folded (K8)."""
        self.tally = FlightTally()
        self.filter_by(patterns)
        self.flying: dict[int, tuple[int, int]] = {}
        """(count, where its entry ends) of what is being recorded, by offset."""
        self.settling: dict[int, int] = {}
        """Where the entry ends that says it is done, by offset."""
        self.dead = dict.fromkeys(consumer.dead, 0)
        """K9: where the entry ends that says that it was delivered for the last time, by offset; 0 = that of
        an earlier leader."""
        self.deadlines: dict[int, int] = {}
        self.heap: list[tuple[int, int]] = []
        """(tick, offset); stands if `deadlines` says the same."""
        self.lapsed: dict[int, None] = {}
        """Due to be delivered again."""
        self.leaving: dict[int, None] = {}
        """Being recorded, and not handed out before that is committed: their time to ack has not begun."""
        self.pulls = PullRoom()
        self.places = RecordPlaces()
        self.delivered_ms = self.acked_ms = 0
        """When this leader gave it a message last, and was told last that one is done; 0 = never."""
        self.reading = 0
        """The read of storage that is under way; 0 = none. `start`: from where."""
        self.start = 0
        for offset, count in consumer.pending.items():
            if offset not in self.dead:
                self.set_deadline(offset, lapse(count))

    def filter_by(self, patterns: Sequence[str], counts_on: bool = False) -> None:
        """From its position on it is given what these match; what is to come is counted anew. `counts_on`:
        not, by a planted bug.
        """
        self.patterns = tuple(patterns)
        self.filters = [pattern_tokens(pattern) for pattern in patterns]
        self.wanted = RecordFilter(self.filters)
        if not counts_on:
            self.counted = self.wanted
            self.tally = FlightTally()

    def set_deadline(self, offset: int, tick: int) -> None:
        """It is due again at this tick, if it was not settled before."""
        self.set_deadlines({offset: tick})

    def set_deadlines(self, ticks: dict[int, int]) -> None:
        """Each of these offsets is due again at its tick, if it was not settled before, nor is leaving."""
        lapsed, heap = self.lapsed, self.heap
        if self.leaving:
            ticks = {offset: tick for offset, tick in ticks.items() if offset not in self.leaving}
        for offset, tick in ticks.items():
            if lapsed:
                lapsed.pop(offset, None)
            heappush(heap, (tick, offset))
        self.deadlines.update(ticks)
        if len(self.heap) > HEAP_MIN and len(self.heap) > 2 * len(self.deadlines):
            # Who says "in progress" again and again leaves nothing behind.
            self.heap = [(tick, offset) for offset, tick in self.deadlines.items()]
            heapify(self.heap)

    def settle(self, offsets: Iterable[int], end: int) -> None:
        """An entry that ends there says that these are done."""
        settling, dead, lapsed, deadlines = self.settling, self.dead, self.lapsed, self.deadlines
        for offset in offsets:
            settling[offset] = end
            deadlines.pop(offset, None)
            if dead:
                dead.pop(offset, None)
            if lapsed:
                lapsed.pop(offset, None)

    def dies(self, offsets: Iterable[int], end: int) -> None:
        """An entry that ends there says that these were delivered for the last time (K9)."""
        for offset in offsets:
            self.dead[offset] = end
            self.deadlines.pop(offset, None)
            self.lapsed.pop(offset, None)

    def delivers(
        self, counts: Sequence[tuple[int, int]], recorded: int, lapse: Lapse, at_once: bool = True
    ) -> int:
        """An entry that ends at `recorded` says that these (offset, count) were delivered; they leave
        `at_once`, or when it is committed (K4). The number of the first of these deliveries (K8).
        """
        first, fresh = self.sequence + 1, max(self.ahead, self.consumer.since)
        self.sequence += len(counts)
        self.tally.took(offset for offset, _ in counts if offset >= fresh)
        for offset, count in counts:
            self.flying.pop(offset, None)
            self.flying[offset] = count, recorded
        if at_once:
            self._begin_time(counts, lapse)
        else:
            for offset, _ in counts:
                self.leaving[offset] = None
                self.lapsed.pop(offset, None)
                self.deadlines.pop(offset, None)
        return first

    def _begin_time(self, counts: Sequence[tuple[int, int]], lapse: Lapse) -> None:
        """These (offset, count) leave now."""
        due = {count: lapse(count) for count in dict.fromkeys(count for _, count in counts)}
        self.set_deadlines({offset: due[count] for offset, count in counts})

    def was_given(self, now_ms: int) -> None:
        """A message, at this time."""
        self.delivered_ms = now_ms

    def was_acked(self, now_ms: int) -> None:
        """A message is done, as was told at this time."""
        self.acked_ms = now_ms

    def advance(self, end: int) -> None:
        """All below was delivered, by what is written."""
        self.written = max(self.written, end)
        self.skip(end)

    def wants(self, offset: int) -> bool:
        """Whether it may be given this one, if its filters let that through."""
        consumer = self.consumer
        return offset >= consumer.since or offset in consumer.lasts

    def skip(self, end: int) -> None:
        """Below there is nothing more for it."""
        self.ahead = max(self.ahead, end)
        self.tally.passed(self.ahead)

    def due(self, offset: int) -> None:
        """It is to be delivered again."""
        self.lapsed[offset] = None

    def reads(self, request: int, start: int = 0) -> None:
        """Storage reads for it, from `start` on; request 0: it does not."""
        self.reading, self.start = request, start

    def is_pending(self, offset: int) -> bool:
        """Whether it was delivered and nothing written says that it is done."""
        known = offset in self.flying or offset in self.consumer.pending
        return known and offset not in self.settling

    def may_end(self, offset: int) -> bool:
        """Whether it is pending, and may be acked or delivered again."""
        return self.is_pending(offset) and offset not in self.dead

    def may_end_of(self, offsets: Iterable[int]) -> list[int]:
        """Those of these that may be."""
        flying, pending, settling, dead = self.flying, self.consumer.pending, self.settling, self.dead
        return [
            offset
            for offset in offsets
            if (offset in flying or offset in pending) and offset not in settling and offset not in dead
        ]

    def ends_at(self, offset: int) -> int:
        """Where the entry ends that says that it is done, or dead, as far as that is not folded; else 0."""
        return max(self.settling.get(offset, 0), self.dead.get(offset, 0))

    def pending(self) -> list[int]:
        """All of these, ascending."""
        known = sorted({*self.consumer.pending, *self.flying})
        return [offset for offset in known if offset not in self.settling]

    @property
    def first_deadline(self) -> int | None:
        """Before this tick nothing is due again; None: nothing has a deadline."""
        return self.heap[0][0] if self.heap else None

    @property
    def is_writing(self) -> bool:
        """Whether entries about it are not folded yet."""
        return bool(self.flying or self.settling)

    @property
    def waiting(self) -> int:
        """How many are pending, by what is folded, or delivered by what is written."""
        new = sum(1 for offset in self.flying if offset not in self.consumer.pending)
        return len(self.consumer.pending) + new

    @property
    def room(self) -> int:
        """How many may be delivered for the first time now."""
        return self.consumer.config.max_ack_pending - self.waiting

    def count(self, offset: int) -> int:
        """How often it was delivered so far."""
        flying = self.flying.get(offset)
        return flying[0] if flying is not None else self.consumer.pending.get(offset, 0)

    def next_counts(self, offsets: Iterable[int]) -> list[tuple[int, int]]:
        """Each with how often it was delivered when it is once more."""
        flying, pending = self.flying, self.consumer.pending
        return [
            (offset, 1 + (flying[offset][0] if offset in flying else pending.get(offset, 0)))
            for offset in offsets
        ]

    def lapse(self, now: int) -> list[int]:
        """Take whose time is over at this tick, ascending."""
        over = []
        while self.heap and self.heap[0][0] <= now:
            tick, offset = heappop(self.heap)
            if self.deadlines.get(offset) != tick:
                continue
            del self.deadlines[offset]
            if self.may_end(offset):
                over.append(offset)
        return sorted(over)

    def folded(self, end: int, lapse: Lapse) -> None:
        """The journal is folded up to there: what has waited for that leaves."""
        # Both stand in the order of their entries.
        recorded = list(takewhile(lambda one: one[1][1] <= end, self.flying.items()))
        for offset, _ in recorded:
            del self.flying[offset]
        left = [(offset, count) for offset, (count, _) in recorded if offset in self.leaving]
        for offset, _ in left:
            del self.leaving[offset]
        self._begin_time([(offset, count) for offset, count in left if self.may_end(offset)], lapse)
        settled = takewhile(lambda one: one[1] <= end, self.settling.items())
        for offset in [offset for offset, _ in settled]:
            del self.settling[offset]
