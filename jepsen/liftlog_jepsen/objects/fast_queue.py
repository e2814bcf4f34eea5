"""Queues whose values are unique, in O(n log n).

Values leave a queue in the order in which they came. So a linearization is given by one order of the values,
which must respect two relations: x before y if the enqueue of x ended before that of y began; and if a
dequeue (or peek) of x ended before the last one of y began, where what was never dequeued leaves behind all
others. Each relation has the form e(x) < s(y). If their union has no cycle, any order of the values that
respects it gives a linearization: enqueues and dequeues in this order each respect time, and an enqueue of y
that began after a dequeue of x had ended comes behind the enqueue of x, because that had to be over, too.

An order is found from the front without writing down the relations: y may be next if s(y) is at most the
smallest e of all others, for both relations, and these two minima only grow.

A dequeue that found nothing fits into any gap in which no value was certainly there: values that may have
left by then leave before it, all others come later, and no relation crosses such a gap the wrong way.
(Henzinger, Sezgin & Vafeiadis 2013 give the violations of complete histories without peeks; Emmi & Enea 2018,
Lee & Mathur 2025 the fast algorithms.)
"""

from __future__ import annotations

from liftlog_jepsen.objects.fast_values import Value, check_empties, collect
from liftlog_jepsen.objects.model import OPEN, Call, Contradiction, distinct, tell


def check_queue(calls: list[Call]) -> Contradiction | bool | None:
    """Whether a queue can explain calls enqueue, dequeue and peek; None = values are not unique, or a dequeue
    that never returned may explain what the others do not.
    """
    found = collect(calls, "enqueue")
    if found is None:
        return None
    if isinstance(found, Contradiction):
        # A value that was dequeued twice stays so, whoever else dequeued anything.
        return found
    wrong = _Order(found.values).check() or check_empties(found.values, found.empties, "queue")
    if wrong is None:
        return True
    return None if found.unsure else wrong


class _Order:
    """Takes values from the front until none is left, or none may be next."""

    def __init__(self, values: list[Value]) -> None:
        self.values = values
        count = range(len(values))
        self.in_start = [one.put.start for one in values]
        self.in_end = [one.put.end for one in values]
        self.out_start = [one.left for one in values]
        self.out_end = [min((call.end for call in one.calls[1:]), default=OPEN) for one in values]
        self.by_in_start = sorted(count, key=self.in_start.__getitem__)
        self.by_in_end = sorted(count, key=self.in_end.__getitem__)
        self.by_out_start = sorted(count, key=self.out_start.__getitem__)
        self.by_out_end = sorted(count, key=self.out_end.__getitem__)
        self.gone = [False] * len(values)
        self.first_in = 0
        self.first_out, self.second_out = 0, 1

    def check(self) -> Contradiction | None:
        free = [0] * len(self.values)
        ready: list[int] = []
        next_in = next_out = 0
        for _ in self.values:
            self._move()
            earliest_in = self.in_end[self.by_in_end[self.first_in]]
            head = self.by_out_end[self.first_out]
            while next_in < len(free) and self.in_start[self.by_in_start[next_in]] <= earliest_in:
                self._free(self.by_in_start[next_in], free, ready)
                next_in += 1
            while next_out < len(free) and self.out_start[self.by_out_start[next_out]] <= self.out_end[head]:
                self._free(self.by_out_start[next_out], free, ready)
                next_out += 1
            while ready and self.gone[ready[-1]]:
                ready.pop()
            if ready:
                chosen = ready.pop()
            elif self.in_start[head] <= earliest_in and self.out_start[head] <= self._second():
                # Peeked early and dequeued late, a value must not wait for itself.
                chosen = head
            else:
                return self._circle()
            self.gone[chosen] = True
        return None

    def _free(self, value: int, free: list[int], ready: list[int]) -> None:
        free[value] += 1
        if free[value] == 2:
            ready.append(value)

    def _move(self) -> None:
        """Past those that are gone: the earliest end of an enqueue, and the two earliest of dequeues."""
        while self.gone[self.by_in_end[self.first_in]]:
            self.first_in += 1
        while self.gone[self.by_out_end[self.first_out]]:
            self.first_out += 1
        self.second_out = max(self.second_out, self.first_out + 1)
        while self.second_out < len(self.gone) and self.gone[self.by_out_end[self.second_out]]:
            self.second_out += 1

    def _second(self) -> int:
        return self.out_end[self.by_out_end[self.second_out]] if self.second_out < len(self.gone) else OPEN

    def _circle(self) -> Contradiction:
        """Values each of which must come before the next, and the last before the first."""
        current = next(value for value, gone in enumerate(self.gone) if not gone)
        walked: list[int] = []
        while current not in walked:
            walked.append(current)
            current = self._before(current)[0]
        circle = walked[walked.index(current) :][::-1]
        calls: list[Call] = []
        words = []
        for after, value in zip(circle[1:] + circle[:1], circle, strict=True):
            _, why, named = self._before(after)
            calls += [self.values[value].put, *named]
            words.append(why)
        return Contradiction(distinct(calls), "; but ".join(words))

    def _before(self, value: int) -> tuple[int, str, tuple[Call, ...]]:
        """A value that must come before this one, and why: in words, and the calls that say so."""
        other = self.by_in_end[self.first_in]
        one = self.values[value]
        if self.in_end[other] < self.in_start[value]:
            early = self.values[other].put
            return other, f"{tell(early)} had ended before {tell(one.put)} began", (early, one.put)
        other = self.by_out_end[self.first_out]
        if other == value:
            other = self.by_out_end[self.second_out]
        early = min(self.values[other].calls[1:], key=lambda call: call.end)
        if one.take is None:
            words = f"{tell(early)} came out, but what {tell(one.put)} put in never did"
            return other, words, (early, one.put)
        late = one.last_to_start()
        return other, f"{tell(early)} had ended before {tell(late)} began", (early, late)
