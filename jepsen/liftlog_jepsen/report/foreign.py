"""What a report on foreign histories needs: verdicts, the operations around the problems, faults, a summary.

Everything here is bounded, so that the report on a hundred million operations is as small as that
on a hundred. `select` chooses from a whole list of operations; who has them in a table takes `wanted`
for the numbers to fetch. `liftlog_jepsen.report.foreign_page` writes the HTML,
`liftlog_jepsen.report.foreign_text` the terminal's summary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from liftlog_jepsen.events import FAIL, INFO, OK, Event, Operation
from liftlog_jepsen.judgement import Judgement, Problem
from liftlog_jepsen.report.linearization import linearization_of

PROBLEMS_MAX = 12
"""Problems of one file that come with a drawing; the words of the others are listed."""
PER_ANOMALY_MAX = 3
"""Problems of one kind that come with a drawing."""
LINEARIZED_MAX = 40
"""The last operations of a partial linearization that are drawn."""
AROUND = 24
"""Operations invoked before and after those of a problem that are drawn with it."""

OPENING = re.compile(r"start(-.+)?$")
CLOSING = re.compile(r"stop(-.+)?$")
OPENED_BY = {"kill": "restart", "pause": "resume"}
"""Faults that begin and end with words of their own, as Jepsen's combined nemesis has them."""


class FaultSpan(NamedTuple):
    """One fault. `start` and `end`: positions among the clients' events, as in `Operation`; `end` None = it
    lasted to the end. Times in nanoseconds, -1 = not said.
    """

    name: str
    start: int
    end: int | None
    time: int = -1
    end_time: int = -1


class PlotStep(NamedTuple):
    """One step of the plots over the whole run. Latencies of completed operations in nanoseconds."""

    ok: int
    fail: int
    info: int
    latency_p50: int | None
    latency_p99: int | None


class Overview(NamedTuple):
    """The run over time. `first` and `width`: when it begins and how long a moment lasts, in nanoseconds.

    `raw`: (time of completion, latency, outcome) of some operations, evenly drawn, for the plot of latencies.
    """

    first: int
    width: int
    moments: tuple[PlotStep, ...]
    raw: tuple[tuple[int, int, str], ...]


class ForeignResult(NamedTuple):
    """One file and what its check found.

    `operations`: those around the problems (`select`), in the order of their numbers; `total`: how many the
    history has. `seconds`: what the check took. `error`: why the file was not checked, if it was not.
    """

    file: str
    model: str
    format: str
    judgement: Judgement
    operations: Sequence[Operation]
    total: int
    seconds: float
    bands: tuple[FaultSpan, ...] = ()
    overview: Overview | None = None
    error: str | None = None


def from_history(
    file: str, model: str, format: str, judgement: Judgement, events: Sequence[Event], seconds: float,
    operations: Sequence[Operation],
) -> ForeignResult:  # fmt: skip
    """The result for a history of which everything is at hand: its events, and `pair` of them."""
    return ForeignResult(
        file,
        model,
        format,
        judgement,
        tuple(select(operations, judgement)),
        len(operations),
        seconds,
        bands_of(events),
        overview_of(operations),
    )


# -- which problems and which operations ---------------------------------------------------------------------


def drawn(judgement: Judgement) -> list[Problem]:
    """The problems that come with a drawing: one of each kind, then a second one of each, and so on. Those
    that are allowed come last.
    """
    ranked: list[tuple[bool, int, int, Problem]] = []
    for allowed, problems in ((False, judgement.problems), (True, judgement.allowed)):
        seen: dict[str, int] = {}
        for place, problem in enumerate(problems):
            rank = seen.get(problem.anomaly, 0)
            if rank < PER_ANOMALY_MAX:
                seen[problem.anomaly] = rank + 1
                ranked.append((allowed, rank, place, problem))
    return [each[-1] for each in sorted(ranked, key=lambda each: each[:-1])[:PROBLEMS_MAX]]


def named(problem: Problem) -> list[int]:
    """The numbers of the operations that a problem's drawing is about, without those around them."""
    numbers = list(problem.operations)
    linearization = linearization_of(problem)
    if linearization is not None:
        numbers += linearization.order[-LINEARIZED_MAX:]
        numbers += [each.number for each in linearization.stuck]
    for step in problem.detail.get("cycle") or ():
        numbers += [step["from"], step["to"]]
    return sorted(set(numbers))


def centre(problem: Problem) -> list[int]:
    """The operations at which the fault shows: where an order gets stuck, else all that are named."""
    linearization = linearization_of(problem)
    if linearization is not None and linearization.stuck and not linearization.alone:
        return [each.number for each in linearization.stuck]
    return list(problem.operations) or named(problem)


def wanted(judgement: Judgement) -> list[range]:
    """The numbers of the operations that a report shows, as ranges that ascend and do not touch."""
    spans: set[tuple[int, int]] = set()
    for problem in drawn(judgement):
        spans |= {(number, number + 1) for number in named(problem)}
        spans |= {(max(0, number - AROUND), number + AROUND + 1) for number in centre(problem)}
    merged: list[range] = []
    for low, high in sorted(spans):
        if merged and low <= merged[-1].stop:
            merged[-1] = range(merged[-1].start, max(high, merged[-1].stop))
        else:
            merged.append(range(low, high))
    return merged


def select(operations: Sequence[Operation], judgement: Judgement) -> list[Operation]:
    """The operations that a report shows, from all of a history in the order of their numbers.

    Around a problem of one key these are that key's neighbours, however many others ran in between.
    """
    place = {operation.number: index for index, operation in enumerate(operations)}
    chosen = {number for span in wanted(judgement) for number in span if number in place}
    for problem in drawn(judgement):
        keys = keys_of(
            problem, {number: operations[place[number]] for number in named(problem) if number in place}
        )
        if not keys:
            continue
        mine = [operation.number for operation in operations if repr(operation.key) in keys]
        ranks = {number: rank for rank, number in enumerate(mine)}
        for number in centre(problem):
            rank = ranks.get(number)
            if rank is not None:
                chosen.update(mine[max(0, rank - AROUND) : rank + AROUND + 1])
    return [operations[place[number]] for number in sorted(chosen)]


def keys_of(problem: Problem, operations: dict[int, Operation]) -> frozenset[str]:
    """The keys of the operations that a problem of one object names, in a form that compares; else none."""
    if problem.key is None or problem.detail.get("cycle"):
        return frozenset()
    found = (operations[number].key for number in named(problem) if number in operations)
    return frozenset(repr(key) for key in found if key is not None)


# -- faults --------------------------------------------------------------------------------------------------


def bands_of(events: Iterable[Event]) -> tuple[FaultSpan, ...]:
    """The faults that a history's nemesis tells of: from a `start…` to the next `stop…` of the same name.

    Jepsen's nemesis logs each of its actions twice, before and after; a fault lasts from the first start to
    the last stop. What is neither start nor stop is not drawn.
    """
    found: list[FaultSpan] = []
    waiting: dict[str, tuple[int, int]] = {}
    ended: dict[str, int] = {}
    position = 0
    for event in events:
        if isinstance(event.process, int):
            position += 1
            continue
        action = str(event.f)
        opened, closed = _opened(action), _closed(action)
        if opened is not None and opened not in waiting:
            waiting[opened] = (position, event.time)
            ended.pop(opened, None)
        elif closed is not None and closed in waiting:
            start, time = waiting.pop(closed)
            ended[closed] = len(found)
            found.append(FaultSpan(closed, start, position, time, event.time))
        elif closed is not None and closed in ended:
            place = ended.pop(closed)
            found[place] = found[place]._replace(end=position, end_time=event.time)
    found += [FaultSpan(name, start, None, time) for name, (start, time) in waiting.items()]
    return tuple(sorted(found, key=lambda band: (band.start, band.name)))


def _opened(action: str) -> str | None:
    if action in OPENED_BY:
        return action
    match = OPENING.match(action)
    return (match[1] or "-fault")[1:] if match else None


def _closed(action: str) -> str | None:
    for name, end in OPENED_BY.items():
        if action == end:
            return name
    match = CLOSING.match(action)
    return (match[1] or "-fault")[1:] if match else None


# -- the run over time ---------------------------------------------------------------------------------------

MOMENTS_MAX = 100
TIMED_MIN = 30
"""A history with fewer operations that have times gets no plots: they would show nothing."""
RAW_MAX = 1500


def overview_of(operations: Sequence[Operation]) -> Overview | None:
    """Rates and latencies over the whole run; None where the history has no times."""
    timed = [each for each in operations if each.time >= 0 and each.end_time >= each.time]
    if len(timed) < TIMED_MIN:
        return None
    count = min(MOMENTS_MAX, len(timed) // 3)
    first = min(each.time for each in timed)
    last = max(each.end_time for each in timed)
    width = max(1, -(-(last - first + 1) // count))
    counts: list[dict[str, int]] = [{} for _ in range(count)]
    latencies: list[list[int]] = [[] for _ in range(count)]
    for each in timed:
        step = (each.end_time - first) // width
        counts[step][each.outcome] = counts[step].get(each.outcome, 0) + 1
        if each.outcome == OK:
            latencies[step].append(each.end_time - each.time)
    moments = []
    for found, durations in zip(counts, latencies, strict=True):
        durations.sort()
        moments.append(
            PlotStep(
                found.get(OK, 0),
                found.get(FAIL, 0),
                found.get(INFO, 0),
                _quantile(durations, 0.5),
                _quantile(durations, 0.99),
            )
        )
    step = max(1, -(-len(timed) // RAW_MAX))
    raw = tuple((each.end_time, each.end_time - each.time, each.outcome) for each in timed[::step])
    return Overview(first, width, tuple(moments), raw)


def _quantile(ascending: Sequence[int], share: float) -> int | None:
    return ascending[min(len(ascending) - 1, int(len(ascending) * share))] if ascending else None
