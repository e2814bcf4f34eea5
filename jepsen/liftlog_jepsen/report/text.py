"""The check's outcome for people at a terminal: verdict, counts, and anomalies with their evidence.

What a history contains was written by others, so everything that is shown is made printable first.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from liftlog_jepsen.result import INVALID, MEANINGS, UNKNOWN, VALID, CheckResult, explain, printable

STYLES = {VALID: "bold green", INVALID: "bold red", UNKNOWN: "bold yellow"}
VERDICT_WORDS = {
    VALID: "no anomaly was found",
    INVALID: "the log broke its promises",
    UNKNOWN: "neither valid nor invalid can be shown",
}


def overall_exit_code(results: Sequence[CheckResult]) -> int:
    """1 if any history is invalid, else 2 if any is unknown, else 0."""
    codes = {result.exit_code for result in results}
    return next((code for code in (1, 2) if code in codes), 0)


def overall_verdict(results: Sequence[CheckResult]) -> str:
    """The worst verdict: invalid before unknown before valid."""
    verdicts = {result.verdict for result in results}
    return next((verdict for verdict in (INVALID, UNKNOWN) if verdict in verdicts), VALID)


def print_results(console: Console, results: Sequence[CheckResult], report: Path | None) -> None:
    """All histories, the bad ones last, so that they are what remains on the screen."""
    for result in sorted(results, key=lambda one: (VALID, UNKNOWN, INVALID).index(one.verdict)):
        print_result(console, result)
    if len(results) > 1:
        verdict = overall_verdict(results)
        bad = sum(result.verdict != VALID for result in results)
        console.print(
            Text.assemble((verdict, STYLES[verdict]), f": {len(results)} histories, {bad} of them not valid")
        )
    if report is not None:
        console.print(Text(f"report: {printable(str(report))}"), soft_wrap=True)


def print_result(console: Console, result: CheckResult) -> None:
    """One history."""
    console.print(
        Text.assemble(
            (result.verdict.upper(), STYLES[result.verdict]),
            f"  {printable(result.history)}: {VERDICT_WORDS[result.verdict]}",
        )
    )
    console.print(Text(f"  {summary_line(result)}"), soft_wrap=True)
    for reason in result.reasons:
        console.print(Text(f"  note: {printable(reason)}"), soft_wrap=True)
    console.print(_counts(result))
    if result.findings:
        console.print(_anomalies(result))
    else:
        console.print(Text(f"  none of {len(MEANINGS)} kinds of anomaly was found"))


def summary_line(result: CheckResult) -> str:
    """The size of the history and of the work, in one line."""
    duration_s = (result.t_last_ns - result.t_first_ns) / 1e9
    sent, unread = result.leader_words
    words = f"{sent:,} had their leader's word alone, {unread:,} of which nobody read; " if sent else ""
    return (
        f"{result.operations:,} operations over {duration_s:,.1f} s; {result.records_sent:,} values sent, "
        f"{result.records_read:,} records read; {words}checked in {result.check_s:.1f} s"
    )


def counts_by_function(result: CheckResult) -> list[tuple[str, int, int, int]]:
    """(function, ok, fail, info) for every kind of operation in the history."""
    functions = sorted({count.f for count in result.counts})
    return [
        (f, result.number(f, "ok"), result.number(f, "fail"), result.number(f, "info")) for f in functions
    ]


def _counts(result: CheckResult) -> Table:
    table = Table(box=box.SIMPLE, padding=(0, 1), pad_edge=False)
    table.add_column("operation")
    for outcome in ("ok", "fail", "info"):
        table.add_column(outcome, justify="right")
    for f, *numbers in counts_by_function(result):
        table.add_row(Text(printable(f)), *(f"{number:,}" for number in numbers))
    return table


def _anomalies(result: CheckResult) -> Table:
    table = Table(box=box.SIMPLE, padding=(0, 1), pad_edge=False)
    table.add_column("anomaly", no_wrap=True)
    table.add_column("count", justify="right")
    table.add_column("key", overflow="fold")
    table.add_column("evidence", overflow="fold", ratio=1)
    for finding in result.findings:
        name, count = Text(finding.name, "red" if finding.failing else "yellow"), f"{finding.total:,}"
        for anomaly in finding.examples:
            table.add_row(name, count, Text(printable(anomaly.key)), Text(printable(explain(anomaly))))
            name, count = Text(""), ""
        more = finding.total - len(finding.examples)
        if more:
            note = "" if finding.failing else ", which does not count against the history"
            table.add_row(name, count, "", Text(f"… and {more:,} more{note}", "dim"))
    return table
