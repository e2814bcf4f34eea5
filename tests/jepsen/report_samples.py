"""Small results of checks, written by hand, for the tests of reports: what a check would have found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from liftlog_jepsen.events import FAIL, INFO, INVOKE, OK, Event, Operation, pair
from liftlog_jepsen.formats.edn import Keyword
from liftlog_jepsen.judgement import Judgement, Problem
from liftlog_jepsen.report.foreign import ForeignResult, from_history
from liftlog_jepsen.report.foreign_page import foreign_page

MS = 1_000_000


def events_of(lines: Sequence[tuple[Any, str, str, Any]]) -> list[Event]:
    """Events a millisecond apart: (process, type, function, value)."""
    return [
        Event(process, type, Keyword(f), value, time=number * MS, number=number)
        for number, (process, type, f, value) in enumerate(lines)
    ]


def operations_of(lines: Sequence[tuple[Any, str, str, Any]]) -> list[Operation]:
    return pair(events_of(lines), "sample")


REGISTER_LINES = (
    (0, INVOKE, "write", 1),
    (1, INVOKE, "read", None),
    (0, OK, "write", 1),
    (1, OK, "read", 1),
    ("nemesis", INFO, "start", None),
    ("nemesis", INFO, "start", "cut off n1"),
    (2, INVOKE, "write", 2),
    (0, INVOKE, "cas", [1, 3]),
    (2, INFO, "write", None),
    (1, INVOKE, "read", None),
    (0, FAIL, "cas", [1, 3]),
    (1, OK, "read", 2),
    ("nemesis", INFO, "stop", None),
    ("nemesis", INFO, "stop", "healed"),
    (0, INVOKE, "read", None),
    (3, INVOKE, "write", 4),
    (1, INVOKE, "read", None),
    (0, OK, "read", 1),
    (1, OK, "read", 2),
    (3, OK, "write", 4),
)


def register_result(file: str = "register.edn") -> ForeignResult:
    """A register that went back from 2 to 1 after the cut: an order fits five operations, then none."""
    events = events_of(REGISTER_LINES)
    problem = Problem(
        "nonlinearizable",
        None,
        (5, 6),
        "#5 read 1 although #4 had read 2 before it began, and nobody wrote 1 again.",
        {
            "linearization": {
                "linearized": [0, 1, 2, 4, 7],
                "states": ["1", "1", "2", "2", "2"],
                "state": "the register holds 2",
                "stuck": [
                    {"operation": 5, "words": "it read 1, but the register holds 2"},
                    {
                        "operation": 6,
                        "possible": True,
                        "words": "write 4 could come next, but then nothing explains #5",
                    },
                ],
            }
        },
    )
    judgement = Judgement(False, (problem,), {"nonlinearizable": 1})
    return from_history(file, "cas-register", "edn-lines", judgement, events, 0.25, pair(events, file))


APPEND = Keyword("append")
R = Keyword("r")
TRANSACTIONS = (
    (0, INVOKE, "txn", [[APPEND, "x", 1], [R, "y", None]]),
    (1, INVOKE, "txn", [[APPEND, "y", 1], [R, "x", None]]),
    (2, INVOKE, "txn", [[APPEND, "x", 2]]),
    (2, OK, "txn", [[APPEND, "x", 2]]),
    (0, OK, "txn", [[APPEND, "x", 1], [R, "y", [1]]]),
    (1, OK, "txn", [[APPEND, "y", 1], [R, "x", [1, 2]]]),
    (2, INVOKE, "txn", [[R, "x", None], [R, "y", None]]),
    (2, OK, "txn", [[R, "x", [1, 2]], [R, "y", [1]]]),
)


def edge(source: int, target: int, kind: str, key: str | None, words: str) -> dict[str, Any]:
    return {"from": source, "to": target, "edge": kind, "key": key, "words": words}


def append_result(file: str = "append.edn", suffix: str = "") -> ForeignResult:
    """Two transactions that read each other's appends, and a write skew of three that is allowed."""
    events = events_of(TRANSACTIONS)
    first = Problem(
        f"G1c{suffix}",
        None,
        (0, 1),
        "T0 read 1 from y, which T1 appended; T1 read 1 from x, which T0 appended.",
        {
            "cycle": [
                edge(0, 1, "wr", "x", "T0 appended 1 to x, which T1 read."),
                edge(1, 0, "wr", "y", "T1 appended 1 to y, which T0 read."),
            ]
        },
    )
    second = Problem(
        "G2-item-realtime",
        None,
        (0, 2, 1),
        "A cycle of three.",
        {
            "cycle": [
                edge(0, 2, "ww", "x", "T2 appended 2 to x after T0 appended 1."),
                edge(2, 1, "realtime", None, "T2 ended before T1 began."),
                edge(1, 0, "rw", "y", "T1 did not see what T0 did to y."),
            ]
        },
    )
    judgement = Judgement(False, (first,), {first.anomaly: 1}, ("not read-committed",), (second,))
    return from_history(file, "list-append", "edn-lines", judgement, events, 0.5, pair(events, file))


def bank_result(file: str = "bank.edn") -> ForeignResult:
    """A tally: words and operations, nothing to draw but their surroundings."""
    lines = []
    for number in range(30):
        balances = {0: 10, 1: 90 if number != 17 else 91}
        lines += [(number % 3, INVOKE, "read", None), (number % 3, OK, "read", balances)]
    events = events_of(lines)
    words = "#17 reads balances of 101 in all, but the total is 100."
    problem = Problem("wrong-total", None, (17,), words, {"total": 100, "found": 101})
    judgement = Judgement(False, (problem,), {"wrong-total": 1})
    return from_history(file, "bank", "edn-lines", judgement, events, 0.01, pair(events, file))


def unknown_result(file: str = "hard.edn") -> ForeignResult:
    operations = operations_of(REGISTER_LINES[:4])
    reasons = ("the search gave up after 60 s and 5,000,000 states: give it more with --budget-seconds",)
    judgement = Judgement(None, reasons=reasons)
    return ForeignResult(file, "register", "edn-lines", judgement, (), len(operations), 60.0)


def valid_result(file: str = "good.edn") -> ForeignResult:
    return ForeignResult(file, "register", "edn-lines", Judgement(True), (), 120, 0.02)


def broken_result(file: str = "broken.edn") -> ForeignResult:
    error = "broken.edn line 3, column 17: expected } for the { of line 3, found ]"
    return ForeignResult(file, "register", "edn-lines", Judgement(None), (), 0, 0.0, error=error)


PICTURE = Path(__file__).resolve().parents[2] / "docs" / "reading-a-report.svg"


def picture_of_the_docs() -> str:
    """The timeline of `register_result` as a file of its own, in the light colours of the report's style."""
    style = (files("liftlog_jepsen.report") / "page.css").read_text()
    colors = dict(re.findall(r"(--\w+):([^;}]+)", style[: style.index("@media")]))
    rules = [
        line
        for line in style.splitlines()
        if re.match(r"svg text|\.(grid|band|bar|point|order|jump|block)\b", line)
    ]
    sheet = re.sub(r"var\((--\w+)\)", lambda match: colors[match[1]], "\n".join(rules))
    page = foreign_page([register_result()])
    start = page.index('<svg class="lanes"')
    drawing = page[start : page.index("</svg>", page.index("</svg>", start) + 1) + len("</svg>")]
    namespace = '<svg xmlns="http://www.w3.org/2000/svg" class="lanes"'
    ground = f'<style>{sheet}</style><rect width="100%" height="100%" fill="{colors["--panel"]}" rx="6"/>'
    head, inside = drawing.replace('<svg class="lanes"', namespace, 1).split(">", 1)
    return f"{head}>{ground}{inside}\n"


if __name__ == "__main__":
    PICTURE.write_text(picture_of_the_docs())
