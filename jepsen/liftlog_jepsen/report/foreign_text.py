"""Verdicts on foreign histories for people at a terminal: a line for each file, and below it what went wrong.

What a history contains was written by others, so everything that is shown is made printable first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from liftlog_jepsen.events import Operation
from liftlog_jepsen.judgement import Problem
from liftlog_jepsen.report.foreign import ForeignResult, drawn
from liftlog_jepsen.report.foreign_page import HEADLINES, totals_of, verdict_of
from liftlog_jepsen.report.linearization import Linearization, linearization_of
from liftlog_jepsen.report.operation_text import call, clip, full, name, sentence
from liftlog_jepsen.result import printable

STYLES = {"valid": "bold green", "invalid": "bold red", "unknown": "bold yellow"}
PROBLEMS_MAX = 5
"""Problems of one file that are told; the report has more."""
STEPS_MAX = 8
"""The last operations of a partial linearization that are told."""
CALL_MAX = 64
TRANSACTION = "T"
"""How a transaction is called whose operation is not at hand."""


def print_foreign(console: Console, results: Sequence[ForeignResult]) -> None:
    """All files, the bad ones last, so that they are what remains on the screen."""
    order = ("valid", "unknown", "invalid")
    for result in sorted(results, key=lambda one: order.index(verdict_of(one))):
        print_one(console, result)
    if len(results) > 1:
        counts = {name: sum(verdict_of(one) == name for one in results) for name in reversed(order)}
        worst = next((name for name, count in counts.items() if count), "valid")
        said = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        console.print(Text.assemble((worst, STYLES[worst]), f": {len(results):,} histories, {said}"))


def print_one(console: Console, result: ForeignResult) -> None:
    """One file: a line, and below it the problems."""
    verdict = verdict_of(result)
    said = result.error if result.error is not None else HEADLINES[verdict]
    totals = totals_of(result.judgement)
    if totals:
        said = ", ".join(f"{printable(name)} ({count:,})" for name, count in totals.items())
    _print(
        console,
        (f"{verdict.upper():7}", STYLES[verdict]),
        f"  {printable(result.file)}  {printable(result.model)}, {result.total:,} operations, ",
        f"{result.seconds:.2f} s: {sentence(said)}",
    )
    for reason in result.judgement.reasons:
        _print(console, f"  note: {sentence(reason)}")
    operations = {operation.number: operation for operation in result.operations}
    allowed = {id(problem) for problem in result.judgement.allowed}
    chosen = drawn(result.judgement)[:PROBLEMS_MAX]
    for problem in chosen:
        for line in problem_lines(problem, operations, id(problem) in allowed):
            console.print(line, soft_wrap=True)
    more = len(result.judgement.problems) + len(result.judgement.allowed) - len(chosen)
    more = max(more, sum(totals.values()) + len(result.judgement.allowed) - len(chosen))
    if more > 0:
        _print(console, (f"  … and {more:,} more", "dim"))


def _print(console: Console, *parts: str | tuple[str, str]) -> None:
    console.print(Text.assemble(*parts), soft_wrap=True)


def problem_lines(problem: Problem, operations: Mapping[int, Operation], allowed: bool) -> Iterator[Text]:
    """A problem in words, its cycle drawn in text, and where its linearization got stuck."""
    about = f" of key {sentence(problem.key)}" if problem.key is not None else ""
    note = " (allowed)" if allowed else ""
    style = "yellow" if allowed else "red"
    yield Text.assemble("  ", (printable(problem.anomaly), style), f"{about}{note}: {full(problem.words)}")
    steps = problem.detail.get("cycle")
    if steps:
        yield from _cycle(steps, operations)
    linearization = linearization_of(problem)
    if linearization is not None:
        yield from _stuck(linearization, operations)
    if not steps and linearization is None:
        for number in list(dict.fromkeys(problem.operations))[:STEPS_MAX]:
            yield Text(f"      {_told(number, operations)}")


def _told(number: int, operations: Mapping[int, Operation], sign: str = "#") -> str:
    operation = operations.get(number)
    if operation is None:
        return f"{sign}{number}"
    return f"{name(operation)}  process {printable(str(operation.process))}  {call(operation, CALL_MAX)}"


def _cycle(steps: Sequence[Mapping[str, Any]], operations: Mapping[int, Operation]) -> Iterator[Text]:
    """The transactions below each other, each arrow between two of them, the last one back to the first."""
    for place, step in enumerate(steps):
        corner = "┌→" if place == 0 else "│ "
        yield Text(f"      {corner} {_told(step['from'], operations, TRANSACTION)}")
        last = place == len(steps) - 1
        edge = printable(str(step["edge"]))
        if step.get("key") is not None:
            edge += f" {printable(str(step['key']))}"
        words = f"  {sentence(str(step['words']))}" if step.get("words") else ""
        yield Text.assemble(f"      {'└──' if last else '│  ↓'} ", (edge, "bold"), (clip(words, 400), "dim"))


def _stuck(linearization: Linearization, operations: Mapping[int, Operation]) -> Iterator[Text]:
    order = linearization.order
    first = max(0, len(order) - STEPS_MAX)
    more = f", the last {STEPS_MAX} of them" if first else ""
    yield Text(f"      {linearization.how_far()}{more}{':' if order else '.'}")
    for place, number in enumerate(order[first:], first + 1):
        yield Text(f"      {place:>5}. {_told(number, operations)}")
    yield Text(f"      {linearization.after()}: {linearization.state}, and it is stuck:")
    for each in linearization.stuck:
        sign = ("? ", "yellow") if each.possible else ("✗ ", "red")
        yield Text.assemble("          ", sign, f"{_told(each.number, operations)}: {each.words}")
