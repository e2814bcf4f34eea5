"""What became of each message of an open loop: due, sent, answered, and the percentiles of it."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from itertools import pairwise
from typing import Any

from liftlog.bench.histogram import Histogram, summary_ms

SLOT_S = 0.1
"""What the timeline counts together."""
QUARTERS = 4
NORMAL_SHARE, NORMAL_S = 0.02, 0.25
"""So many messages, as a share of the run or in seconds of it, may wait all the time."""
KEPT_REASONS = 5


class Schedule:
    """When each message is due. Times are nanoseconds of the monotonic clock."""

    def __init__(self, start_ns: int, rate: float) -> None:
        self.start_ns = start_ns
        self._interval_ns = 1e9 / rate

    def due_ns(self, number: int) -> int:
        """When message `number`, counted from 0, is due."""
        return self.start_ns + math.ceil(number * self._interval_ns)

    def due_at(self, now_ns: int) -> int:
        """How many messages are due at this time or before."""
        if now_ns < self.start_ns:
            return 0
        guess = int((now_ns - self.start_ns) / self._interval_ns)
        # The division may be off by one either way.
        while self.due_ns(guess) <= now_ns:
            guess += 1
        while guess and self.due_ns(guess - 1) > now_ns:
            guess -= 1
        return guess


class Answers:
    """Numbers and arrival times of acks or replies, and of refusals, in the order in which they came."""

    def __init__(self) -> None:
        self.numbers: array[int] = array("q")
        self.times_ns: array[int] = array("q")
        self.bodies: list[bytes] = []
        self.refusals: list[tuple[int, int]] = []
        self.reasons: Counter[str] = Counter()
        self.count = 0

    def took(self, number: int, now_ns: int, body: bytes) -> None:
        self.numbers.append(number)
        self.times_ns.append(now_ns)
        self.bodies.append(body)
        self.count += 1

    def refused(self, number: int, now_ns: int, reason: str) -> None:
        self.refusals.append((number, now_ns))
        self.reasons[reason] += 1
        self.count += 1


class LatencyAccount:
    """One run, looked at when it is over. `sends` holds number and time of each, one after the other."""

    def __init__(
        self, schedule: Schedule, total: int, offered: int, sends: array[int], answers: Answers
    ) -> None:
        self._schedule = schedule
        self._sends = sends
        self._answers = answers
        self.total = total
        self.offered = offered
        """How many messages became due before the run ended."""
        self._acked = dict(zip(reversed(answers.numbers), reversed(answers.times_ns), strict=True))
        """Message -> when its first ack came."""
        self.repeated = len(answers.numbers) - len(self._acked)
        self._refused = {number for number, _ in answers.refusals} - self._acked.keys()
        self.unanswered = offered - len(self._acked) - len(self._refused)
        self.saturation = self._saturation()

    @property
    def saturated(self) -> bool:
        return bool(self.saturation)

    def latencies_ns(self, from_s: float = 0.0, until_s: float = math.inf) -> list[int]:
        """From due to acked, of the messages that were due in this part of the run."""
        due_ns, low, high = self._schedule.due_ns, from_s * 1e9, until_s * 1e9
        start_ns = self._schedule.start_ns
        return [
            acked_ns - due
            for number, acked_ns in self._acked.items()
            if low <= (due := due_ns(number)) - start_ns < high
        ]

    def lateness_ns(self) -> list[int]:
        """From due to sent, of every message that was sent."""
        due_ns, sends = self._schedule.due_ns, self._sends
        return [sends[at + 1] - due_ns(sends[at]) for at in range(0, len(sends), 2)]

    def longest_gap(self) -> tuple[float, float]:
        """The longest time without an ack, and when it began, in seconds after the start."""
        times = [self._schedule.start_ns, *sorted(self._acked.values())]
        gap_ns, begun_ns = max(
            ((after - before, before) for before, after in pairwise(times)), default=(0, times[0])
        )
        return gap_ns / 1e9, (begun_ns - self._schedule.start_ns) / 1e9

    def result(self, cpu_s: float) -> dict[str, Any]:
        """The JSON object that a run prints. Latencies and gaps in milliseconds."""
        schedule = self._schedule
        latencies, lateness = Histogram(self.latencies_ns()), Histogram(self.lateness_ns())
        last_ns = max(self._acked.values(), default=schedule.start_ns)
        gap_s, gap_from_s = self.longest_gap()
        return {
            "messages": self.offered,
            "acked": len(self._acked),
            "refused": len(self._refused),
            "unanswered": self.unanswered,
            "repeated": self.repeated,
            "reasons": dict(self._answers.reasons.most_common(KEPT_REASONS)),
            "started_monotonic_s": schedule.start_ns / 1e9,
            "acked_per_s": len(self._acked) / max(1e-9, (last_ns - schedule.start_ns) / 1e9),
            "saturated": self.saturation,
            "latency_ms": summary_ms(latencies),
            "late_ms": summary_ms(lateness),
            "longest_gap_ms": gap_s * 1e3,
            "longest_gap_from_s": gap_from_s,
            "generator_cpu_us_per_message": cpu_s * 1e6 / max(1, self.offered),
        }

    def histograms(self) -> dict[str, Any]:
        """Latency and lateness, whole, for adding up."""
        return {
            "latency_histogram_ns": Histogram(self.latencies_ns()).to_json(),
            "late_histogram_ns": Histogram(self.lateness_ns()).to_json(),
        }

    def window(self, from_s: float, until_s: float) -> dict[str, Any]:
        """The messages that were due in this part of the run."""
        values = Histogram(self.latencies_ns(from_s, until_s))
        due = self._due_in(from_s, until_s)
        return {"from_s": from_s, "until_s": until_s, "messages": due, "acked": len(values)} | {
            "latency_ms": summary_ms(values)
        }

    def _due_in(self, from_s: float, until_s: float) -> int:
        start_ns, due_at = self._schedule.start_ns, self._schedule.due_at
        first, end = (min(due_at(start_ns + round(s * 1e9) - 1), self.offered) for s in (from_s, until_s))
        return end - first

    def timeline(self) -> list[dict[str, Any]]:
        """For each tenth of a second: what was due in it, what became of that, and what arrived in it."""
        start_ns, slot_ns = self._schedule.start_ns, SLOT_S * 1e9
        refusals = [time_ns for _, time_ns in self._answers.refusals]
        end_ns = max([self._schedule.due_ns(max(0, self.offered - 1)), *self._acked.values(), *refusals])
        count = int((end_ns - start_ns) / slot_ns) + 1
        empty = {"due": 0, "due_acked": 0, "max_ms": 0.0, "arrived": 0, "refused": 0, "gap_ms": 0.0}
        slots: list[dict[str, Any]] = [{"at_s": round(at * SLOT_S, 3)} | empty for at in range(count)]
        for number in range(self.offered):
            due_ns = self._schedule.due_ns(number)
            slot = slots[int((due_ns - start_ns) / slot_ns)]
            slot["due"] += 1
            if (acked_ns := self._acked.get(number)) is not None:
                slot["due_acked"] += 1
                slot["max_ms"] = max(slot["max_ms"], (acked_ns - due_ns) / 1e6)
        for before, after in pairwise([start_ns, *sorted(self._acked.values())]):
            slot = slots[int((after - start_ns) / slot_ns)]
            slot["arrived"] += 1
            slot["gap_ms"] = max(slot["gap_ms"], (after - before) / 1e6)
        for time_ns in refusals:
            slots[int((time_ns - start_ns) / slot_ns)]["refused"] += 1
        return slots

    def _saturation(self) -> str:
        """Why the run is saturated: more and more waited. Empty when it is not."""
        if self.offered < self.total:
            return f"{self.unanswered} messages waited for an answer when the run was ended"
        start_ns, due_at = self._schedule.start_ns, self._schedule.due_at
        quarter_ns = (self._schedule.due_ns(self.total) - start_ns) / QUARTERS
        answered_ns = [*self._acked.values(), *(time_ns for _, time_ns in self._answers.refusals)]
        beginnings = [start_ns + quarter * quarter_ns for quarter in range(QUARTERS)]
        least = [self.total] * QUARTERS
        answered = 0
        for time_ns, is_answer in sorted([*((at, 1) for at in answered_ns), *((at, 0) for at in beginnings)]):
            answered += is_answer
            quarter = int((time_ns - start_ns) // quarter_ns)
            if quarter < QUARTERS:
                least[quarter] = min(least[quarter], due_at(int(time_ns)) - answered)
        # A stall passes, and then there is a moment at which few wait; whoever is too slow has none.
        second, last = least[1], least[-1]
        normal = max(NORMAL_SHARE * self.total, NORMAL_S * self.total * 1e9 / (QUARTERS * quarter_ns))
        if last > 1.2 * second and last > normal:
            return f"at least {last} messages waited in the last quarter of the run, {second} in the second"
        return ""
