"""Histories that give each operation the times of its begin and its end, one operation a line.

    # stack                       the object
    push 1 1 2                    method value begin end            (fastlin)
    0 push 1 1 2                  process method value begin end    (older tools of the same family)
    0 1 2 PUSH 1                  process begin end METHOD value…   (fptlin)

`-1` as the result of taking from a collection says that it was empty. Operations are complete.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from liftlog_jepsen.events import HALF_OPEN, INVOKE, OK, Event, order_intervals
from liftlog_jepsen.formats.lines import TAKES, Processes, broken, value_of
from liftlog_jepsen.formats.options import Options

EXPECTED = "METHOD VALUE BEGIN END, or PROCESS BEGIN END METHOD VALUE"
EMPTY = -1
_TIME = re.compile(r"[0-9]{1,18}")
_TYPE = re.compile(r"#\s*([\w-]+)")
_REGISTERS = ("register", "rmw")


class _Line(NamedTuple):
    number: int
    process: str | None
    method: str
    values: list[int | str]
    begin: int
    end: int


def read(text: str, source: str, options: Options) -> list[Event]:
    header = _TYPE.match(text.lstrip())
    kind = header[1].lower() if header else ""
    lines = []
    for number, said in enumerate(text.split("\n"), 1):
        plain = said.strip()
        if plain and not plain.startswith("#"):
            lines.append(_line(source, number, plain))
    processes = Processes()
    placed = sorted(lines, key=lambda line: (line.begin, line.number))
    free_at: dict[int, int] = {}
    seats: dict[int, int] = {}
    for line in placed:
        # Tools of this family do not care whether one process overlaps itself; the order of events does.
        process = processes.fresh() if line.process is None else processes.number(line.process)
        last = free_at.get(process)
        touching = last == line.begin and options.intervals == HALF_OPEN
        if last is not None and last >= line.begin and not touching:
            process = processes.fresh()
        free_at[process] = line.end
        seats[line.number] = process
    found = []
    for line in lines:
        f, argument, result = _meaning(line, kind, source)
        process = seats[line.number]
        asked = Event(process, INVOKE, f, argument, time=line.begin)
        found.append((asked, line.begin, Event(process, OK, f, result, time=line.end), line.end))
    return order_intervals(found, options.intervals)


def _line(source: str, number: int, said: str) -> _Line:
    words = said.split()
    process: str | None = None
    if len(words) >= 4 and not words[0].isdecimal():
        method, values, times = words[0], words[1:-2], words[-2:]
    elif len(words) >= 5 and not words[1].isdecimal():
        process, method, values, times = words[0], words[1], words[2:-2], words[-2:]
    elif len(words) >= 4:
        process, times, method, values = words[0], words[1:3], words[3], words[4:]
    else:
        raise broken(source, number, EXPECTED, said)
    if not all(_TIME.fullmatch(time) for time in times) or not re.fullmatch(r"[A-Za-z][\w-]*", method):
        raise broken(source, number, EXPECTED, said)
    begin, end = int(times[0]), int(times[1])
    if end < begin:
        raise broken(source, number, "an end that is not before the begin", said)
    return _Line(number, process, method.lower(), [value_of(value) for value in values], begin, end)


def _meaning(line: _Line, kind: str, source: str) -> tuple[str, Any, Any]:
    """Function, argument and result."""
    method, values = line.method, line.values
    value = values[0] if values else None
    if method in ("contains_true", "contains_false"):
        return "contains", value, method == "contains_true"
    if method in ("read_modify_write", "rmw") and len(values) == 2:
        return "rmw", values, values
    if method in ("incr", "decr"):
        return method, None, True if value is None else bool(value)
    if method in TAKES and len(values) <= 1:
        return method, None, None if value == EMPTY and kind not in _REGISTERS else value
    if len(values) == 2 and values[1] in (0, 1):
        return method, value, bool(values[1])
    if len(values) > 1:
        said = " ".join(map(str, values))
        raise broken(source, line.number, "at most one value, or a value and 0 or 1", said)
    if kind == "set":
        return method, value, True
    return method, value, value
