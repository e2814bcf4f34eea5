"""What the simulator knows of processors, and what it would notice (L10)."""

from __future__ import annotations

import pytest

from liftlog.options.cursors import InputCursor
from liftlog.options.numbered import Numbered, lines_of
from liftlog.types import Record
from liftlog_sim.truth.processors import StoredCursors, output_value, outputs_of

WINDOW_MS = 1000


def message(
    run: int, sequence: int, to: int | None, value: bytes = b"x", at_ms: int = 0, stream: int = 17
) -> Record:
    cursor = None if to is None else InputCursor(stream, 0, to)
    headers = b"NATS/1.0\r\n%b\r\n" % lines_of(Numbered(b"proc-0", run, sequence), 1, cursor)
    return Record(0, at_ms, b"s", b"", headers, None, value)


def output(position: int, nth: int) -> Record:
    return Record(0, 0, b"s", b"", b"", None, output_value(b"1", position, nth))


def first(run: int, sequence: int, to: int, position: int, nth: int = 0) -> Record:
    return message(run, sequence, to, output_value(b"1", position, nth))


def test_what_comes_of_positions_is_sometimes_nothing_and_sometimes_much() -> None:
    assert [outputs_of(position) for position in range(5)] == [3, 0, 1, 2, 3]


OPENED = message(1, 0, 0)
FIRST = [first(1, 1, 1, 0), output(0, 1), output(0, 2)]


@pytest.mark.parametrize(
    ("records", "broken"),
    [
        ([OPENED, *FIRST, message(1, 2, 2), first(1, 3, 3, 2), message(2, 0, 3)], ""),
        ([OPENED, *FIRST, message(2, 0, 1), message(2, 1, 2)], ""),
        ([OPENED, *FIRST, message(2, 0, 0)], "begins at"),
        ([OPENED, *FIRST, message(1, 2, 0)], "goes back"),
        ([OPENED, *FIRST, message(1, 2, 2, stream=18)], "and was at"),
        ([OPENED, *FIRST, message(1, 2, None)], "without its cursor"),
        ([OPENED, *FIRST, first(1, 2, 2, 0)], "where None belongs"),
        ([OPENED, *FIRST[:2], message(1, 2, 2)], "is missing"),
        ([OPENED, message(1, 1, 1)], "is missing"),
        ([OPENED, first(1, 1, 1, 0, 1)], "belongs"),
        ([OPENED, *FIRST, output(1, 0)], "belongs"),
        ([OPENED, message(2, 0, 40, at_ms=WINDOW_MS)], ""),
        # Opened once more after it was forgotten, it goes on from what it was told the first time.
        ([message(1, 0, 5, at_ms=-WINDOW_MS), OPENED, first(1, 1, 6, 5), message(2, 0, 6)], ""),
        ([message(2, 0, 5, at_ms=-WINDOW_MS), OPENED, message(2, 0, 0), first(2, 1, 6, 5)], ""),
        ([message(1, 0, 5, at_ms=-WINDOW_MS), OPENED, message(2, 0, 0), first(2, 1, 6, 5)], "belongs"),
        ([message(1, 0, 0, at_ms=-1), OPENED, first(1, 1, 6, 5)], "belongs"),
    ],
)
def test_L10_what_is_committed_of_processors(records: list[Record], broken: str) -> None:
    found = StoredCursors()
    findings = [found.committed(offset, record, WINDOW_MS) for offset, record in enumerate(records)]
    assert findings[:-1] == [None] * (len(records) - 1)
    last = findings[-1]
    assert (last is None) is (not broken)
    if last is not None:
        assert last.invariant == "OutputsOnce" and broken in last.text
