"""Is there an order? The search of Wing & Gong (1993) with Lowe's memory of configurations (2017).

A history is linearizable if its calls have an order that respects what happened before what, and that the
model can go through. The search walks over the returns of the history in their order. A *configuration* is

    (number of returns passed, which of the pending calls are linearized, state)

At a return whose call is not linearized yet, some pending call comes next: the search tries each, remembers
every configuration that it has been in, and goes back where none is left. A configuration says nothing about
calls whose return is passed, and nothing about those not yet begun, so it stays small however long the
history.

What keeps the number of configurations down, each exact:

- **Late**: calls are linearized only when a return forces it (Lowe's just-in-time linearization).
- **Observers first**: a pending call that never changes the state and fits it now is linearized at once. In
  any order that exists it may be moved here.
- **Twins**: of pending calls that are alike in function, argument, result and outcome, only the one that ends
  first is tried. In any order with another one first, the two may change places. With this, locks, semaphores
  and counters need not be told apart by who asked.
- **Interned states**: each state and each step are computed once; configurations are compared as numbers.

Calls that never returned may be linearized at any time, or never.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from liftlog_jepsen.events import FAIL, BadHistory
from liftlog_jepsen.formats.options import Options
from liftlog_jepsen.judgement import Budget
from liftlog_jepsen.objects.model import OPEN, Call, Model, freeze, tell

LOOKS = 512
"""Steps between two looks at the clock."""


class Stuck(NamedTuple):
    """The longest partial linearization: what it orders, the state after it, and who could come next.

    `pending` are the calls that could come next, each with whether the model lets it; `waited` is the call
    whose return cannot be passed.
    """

    linearized: tuple[Call, ...]
    state: Any
    waited: Call
    pending: tuple[tuple[Call, bool], ...]


class SearchResult(NamedTuple):
    """What a search found. `valid` None = it gave up, for the reason in `words`. `order`: all, if valid."""

    valid: bool | None
    order: tuple[Call, ...] = ()
    stuck: Stuck | None = None
    words: str = ""
    configurations: int = 0


class _Machine:
    """States and kinds of calls as numbers; steps are remembered."""

    def __init__(self, model: Model, calls: list[Call], options: Options) -> None:
        self.model = model
        self.states: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self.first = self._intern(model.initial(options))
        kinds: dict[Any, int] = {}
        self.kinds = []
        self.examples: list[Call] = []
        for call in calls:
            # What an unanswered call returned is unknown, so that it differs from an answered one.
            asked = (call.f, freeze(call.argument), freeze(call.result), call.outcome)
            number = kinds.setdefault(asked, len(kinds))
            if number == len(self.examples):
                self.examples.append(call)
            self.kinds.append(number)
        self.observer = [one.f in model.observers or one.outcome == FAIL for one in self.examples]
        self._steps: dict[tuple[int, int], tuple[int, ...]] = {}

    def _intern(self, state: Any) -> int:
        number = self._numbers.setdefault(state, len(self.states))
        if number == len(self.states):
            self.states.append(state)
        return number

    def step(self, state: int, kind: int) -> tuple[int, ...]:
        known = self._steps.get((state, kind))
        if known is None:
            call = self.examples[kind]
            try:
                after = self.model.step(self.states[state], call.f, call.argument, call.result, call.outcome)
                several = [] if after is None else after if isinstance(after, list) else [after]
                known = tuple(dict.fromkeys(map(self._intern, several)))
            except BadHistory:
                raise
            except Exception as error:
                # A fault in a model must name the operation, wherever among many it was found.
                raise BadHistory(
                    f"the model {self.model.name or type(self.model).__name__} failed at operation "
                    f"{call.number} ({tell(call)}) with {type(error).__name__}: {error}"
                ) from error
            self._steps[state, kind] = known
        return known

    @property
    def size(self) -> int:
        return len(self._steps) + len(self.states)


class _Turns(NamedTuple):
    """The history by its returns: the call of each, and who was pending then, those that return first first.

    `closed[turn]` begins with the call that returns; `opened[: counts[turn]]` are those that never do. `bits`
    has one bit for each call, used again once it has returned.
    """

    calls: list[int]
    closed: list[list[int]]
    opened: list[int]
    counts: list[int]
    bits: list[int]

    def pending(self, turn: int) -> Iterator[int]:
        return itertools.chain(self.closed[turn], itertools.islice(self.opened, self.counts[turn]))


def _turns(calls: list[Call]) -> _Turns:
    events = sorted(
        [(call.start, 0, index) for index, call in enumerate(calls)]
        + [(call.end, 1, index) for index, call in enumerate(calls) if call.end != OPEN]
    )
    running: list[tuple[int, int]] = []
    free: list[int] = []
    turns = _Turns([], [], [], [], [0] * len(calls))
    used = 0
    for position, is_return, index in events:
        if is_return:
            turns.calls.append(index)
            turns.closed.append([other for _, other in running])
            turns.counts.append(len(turns.opened))
            running.remove((position, index))
            heapq.heappush(free, turns.bits[index].bit_length() - 1)
            continue
        if free:
            place = heapq.heappop(free)
        else:
            place, used = used, used + 1
        turns.bits[index] = 1 << place
        if calls[index].end == OPEN:
            turns.opened.append(index)
        else:
            bisect.insort(running, (calls[index].end, index))
    return turns


class _Search:
    def __init__(self, model: Model, calls: list[Call], options: Options, budget: Budget) -> None:
        self.calls = calls
        self.machine = _Machine(model, calls, options)
        self.turns = _turns(calls)
        self.budget = budget
        self.trail: list[int] = []
        self.seen: set[tuple[int, int, int]] = set()
        self.best: tuple[int, int] = (-1, -1)
        self.best_at: tuple[tuple[int, ...], int, int, int] = ((), 0, 0, 0)

    def run(self) -> SearchResult:
        deadline = None if self.budget.seconds is None else time.monotonic() + self.budget.seconds
        found = self._advance(0, 0, self.machine.first)
        stack = [(len(self.trail), self._choices(*found))] if found is not None else []
        looks = 0
        while stack:
            length, choices = stack[-1]
            looks += 1
            if looks % LOOKS == 0 and deadline is not None and time.monotonic() > deadline:
                return self._gave_up(f"{self.budget.seconds:g} seconds")
            if len(self.seen) + self.machine.size > self.budget.states:
                return self._gave_up(f"{self.budget.states} configurations")
            choice = next(choices, None)
            if choice is None:
                stack.pop()
                continue
            del self.trail[length:]
            turn, mask, call, state = choice
            self.trail.append(call)
            reached = self._advance(turn, mask | self.turns.bits[call], state)
            if reached is None:
                break
            if reached not in self.seen:
                self.seen.add(reached)
                stack.append((len(self.trail), self._choices(*reached)))
        else:
            if found is not None:
                return SearchResult(False, (), self._stuck(), "", len(self.seen))
        return SearchResult(True, tuple(self.calls[index] for index in self.trail), None, "", len(self.seen))

    def _advance(self, turn: int, mask: int, state: int) -> tuple[int, int, int] | None:
        """The configuration after all that needs no choice; None = every return is passed.

        Masks have the bits of those linearized calls that are still pending.
        """
        machine, turns = self.machine, self.turns
        kinds, observer, bits = machine.kinds, machine.observer, turns.bits
        while turn < len(turns.calls):
            returning = turns.calls[turn]
            if not mask & bits[returning]:
                for call in turns.pending(turn):
                    if observer[kinds[call]] and not mask & bits[call] and machine.step(state, kinds[call]):
                        mask |= bits[call]
                        self.trail.append(call)
                if not mask & bits[returning]:
                    return turn, mask, state
            mask &= ~bits[returning]
            turn += 1
        return None

    def _choices(self, turn: int, mask: int, state: int) -> Iterator[tuple[int, int, int, int]]:
        """(turn, mask, call, state after it) for each call that may come next."""
        machine = self.machine
        tried: set[int] = set()
        dead = True
        for call in self.turns.pending(turn):
            kind = machine.kinds[call]
            # An observer that does not fit now is taken up by itself as soon as it does.
            if mask & self.turns.bits[call] or kind in tried or machine.observer[kind]:
                continue
            tried.add(kind)
            for after in machine.step(state, kind):
                dead = False
                yield turn, mask, call, after
        if dead and (turn, len(self.trail)) > self.best:
            self.best = turn, len(self.trail)
            self.best_at = tuple(self.trail), turn, mask, state

    def _stuck(self) -> Stuck:
        trail, turn, mask, state = self.best_at
        machine, calls = self.machine, self.calls
        pending = [
            (calls[call], bool(machine.step(state, machine.kinds[call])))
            for call in self.turns.pending(turn)
            if not mask & self.turns.bits[call]
        ]
        return Stuck(
            tuple(calls[call] for call in trail),
            machine.states[state],
            calls[self.turns.calls[turn]],
            tuple(pending),
        )

    def _gave_up(self, spent: str) -> SearchResult:
        words = (
            f"gave up after {spent}, {len(self.seen)} configurations in; "
            f"{max(self.best[0], 0)} of {len(self.turns.calls)} returns are explained"
        )
        return SearchResult(None, (), self._stuck(), words, len(self.seen))


def search(model: Model, calls: list[Call], options: Options, budget: Budget) -> SearchResult:
    """Whether the calls of one object have a linearization. Never recursive; keeps to `budget`."""
    return _Search(model, calls, options, budget).run()
