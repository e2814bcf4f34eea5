"""Compare and set judged by intervals, against the search that tries every order; and on simulated runs."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog_jepsen.events import INFO, Operation
from liftlog_jepsen.formats.options import Options
from liftlog_jepsen.history import History, HistoryWriter, Mop
from liftlog_jepsen.judgement import Budget
from liftlog_jepsen.objects import Model, check_object
from tests.jepsen.brute_force import brute_force
from tests.jepsen.promise_stories import broken

COMPARED = (
    "misplaced", "refused-as-expected", "stale-refusal", "dirty-refusal", "late-append", "phantom-offset",
)  # fmt: skip
OF_ANY_LOG = {"inconsistent-offsets", "duplicate", "G1a", "phantom", "future-read", "realtime-order"}
"""What the log checks add to make a log linearizable, whatever its readers have missed."""


# -- the object ----------------------------------------------------------------------------------------------


class Records(NamedTuple):
    """A log from the lowest offset on that the history knows."""

    low: int
    values: tuple[Any, ...]


class CompareAndAppend(Model):
    """append [value expected] answers its offset; refused [expected] the length; read OFFSET its value."""

    name = "compare-and-append"
    observers = frozenset({"refused", "read"})

    def __init__(self, low: int) -> None:
        self.low = low

    def initial(self, options: Options) -> Records:
        return Records(self.low, ())

    def step(self, state: Records, f: str, argument: Any, result: Any, outcome: str) -> Records | None:
        end = state.low + len(state.values)
        if f == "refused":
            return state if result == end and argument != end else None
        if f == "read":
            there = dict(enumerate(state.values, state.low)).get(argument)
            return state if there == result else None
        value, expected = argument
        if expected not in (None, end) or (outcome != INFO and result != end):
            return None
        return Records(state.low, (*state.values, value))


def linearizable(history: History) -> bool:
    """By search. Reads may be late, so that what they say is only that a record was there."""
    operations: list[Operation] = []
    offsets = []

    def add(op: Any, f: str, argument: Any, result: Any, outcome: str) -> None:
        end = None if outcome == INFO else op.idx_ret
        found = Operation(len(operations), op.process, f, argument, result, outcome, op.idx_inv, end)
        operations.append(found)

    for op in sorted(history.ops(), key=lambda op: op.idx_inv):
        facts = {mop.f: mop.offset for mop in op.mops}
        for mop in op.mops:
            if mop.f == "send" and op.outcome != "fail":
                told = mop.offset if op.outcome == "ok" else None
                add(op, "append", (mop.value, facts.get("expected")), told, op.outcome)
                offsets += [] if told is None else [told]
            elif mop.f == "poll" and op.outcome == "ok":
                assert mop.offset is not None
                add(op, "read", mop.offset, mop.value, "ok")
                offsets.append(mop.offset)
            elif mop.f == "refused" and op.idx_ret is not None:
                assert mop.offset is not None
                add(op, "refused", facts.get("expected"), mop.offset, "ok")
                offsets.append(mop.offset)
    judgement = check_object(
        CompareAndAppend(min(offsets, default=0)), operations, Options(), Budget(60.0, 10**7)
    )
    assert judgement.valid is not None
    return judgement.valid


# -- random histories ----------------------------------------------------------------------------------------


class Request(NamedTuple):
    op_id: int
    value: str | None
    """None: a read."""
    expected: int | None


class Clients:
    """Some clients of one log, which lies now and then: `mischief` says how often."""

    def __init__(self, rng: random.Random, mischief: float) -> None:
        self.rng, self.mischief = rng, mischief
        self.writer = HistoryWriter("random", clock_ns=iter(range(10**6)).__next__)
        self.log: list[str] = []
        self.waiting: dict[int, Request] = {}
        self.answers: dict[int, tuple[str, int]] = {}
        """What it will be told: ok and its offset, or refused and the length."""
        self.values = 0

    def odd(self) -> bool:
        return self.rng.random() < self.mischief

    def history(self, steps: int) -> History:
        for _ in range(steps):
            process = self.rng.randrange(4)
            if process not in self.waiting:
                self.ask(process)
            elif self.waiting[process].op_id not in self.answers and self.rng.random() < 0.6:
                self.carry_out(self.waiting[process])
            else:
                self.answer(self.waiting.pop(process))
        return self.writer.close()

    def ask(self, process: int) -> None:
        if self.rng.random() < 0.25:
            self.waiting[process] = Request(self.writer.invoke(process, "poll", "k"), None, None)
            return
        self.values += 1
        expected = None
        if self.rng.random() < 0.7:
            expected = max(0, len(self.log) + self.rng.choice((0, 0, 0, 1, -1)))
        op_id = self.writer.invoke(process, "send", "k", f"v{self.values}", expected=expected)
        self.waiting[process] = Request(op_id, f"v{self.values}", expected)

    def carry_out(self, request: Request) -> None:
        if request.value is None:
            return
        end = len(self.log)
        if request.expected in (None, end) or self.odd():
            if "" in self.log:
                end = self.log.index("")
                self.log[end] = request.value
            elif self.odd():
                # A place that is kept free, for whoever comes next.
                end += 1
                self.log += ["", request.value]
            elif not self.odd():
                self.log.append(request.value)
            self.answers[request.op_id] = ("ok", self.said(end))
        else:
            self.answers[request.op_id] = ("refused", self.said(end))
        if self.log and self.odd():
            self.log.pop()

    def said(self, number: int) -> int:
        return max(0, number + self.rng.choice((-1, 1))) if self.odd() else number

    def answer(self, request: Request) -> None:
        writer, op_id = self.writer, request.op_id
        if request.value is None:
            start = self.rng.randrange(len(self.log) + 1)
            some = enumerate(self.log[start : start + 3], start)
            writer.ok(op_id, mops=[Mop("poll", "k", at, value) for at, value in some if value])
            return
        if op_id not in self.answers and not self.odd():
            self.carry_out(request)
        outcome, number = self.answers.get(op_id, ("ok", len(self.log)))
        if self.rng.random() < 0.15:
            writer.info(op_id)
        elif outcome == "ok":
            writer.ok(op_id, offset=number)
        else:
            writer.refused(op_id, number)


def found_in(history: History) -> set[str]:
    names = {row["anomaly"] for row in broken(history)}
    return names | {row[0] for row in brute_force(history) if row[0] in OF_ANY_LOG}


def agree(seed: int, mischief: float) -> set[str]:
    """Both judges say the same of a random history; what the one by intervals found."""
    history = Clients(random.Random(seed), mischief).history(40)
    if not any(mop.f in ("expected", "refused") for op in history.ops() for mop in op.mops):
        return set()
    names = found_in(history)
    assert (not names) is linearizable(history), (seed, mischief, names)
    return names


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from((0.0, 0.02, 0.1)))
def test_the_judge_by_intervals_agrees_with_the_search(seed: int, mischief: float) -> None:
    names = agree(seed, mischief)
    assert mischief or not names


@pytest.mark.slow
def test_both_verdicts_come_up_and_every_anomaly() -> None:
    kinds: Counter[str] = Counter()
    verdicts: Counter[bool] = Counter()
    for seed in range(400):
        names = agree(seed, 0.04)
        kinds.update(names)
        verdicts[not names] += 1
    assert min(verdicts[True], verdicts[False]) > 60
    assert set(COMPARED) <= set(kinds)
