"""Jepsen's own text: `history.txt`, and the lines of `jepsen.log` that show operations.

    0	:invoke	:read	nil
    INFO  jepsen.util - 0	:ok	:read	3
    :nemesis	:info	:start	"isolated n1"

A completion whose value is a keyword, such as `:timed-out`, has an error instead of a value.
"""

from __future__ import annotations

import re

from liftlog_jepsen.events import FAIL, INFO, BadHistory, Event
from liftlog_jepsen.formats import edn
from liftlog_jepsen.formats.edn import Keyword
from liftlog_jepsen.formats.lines import broken, numbered
from liftlog_jepsen.formats.options import Options

EXPECTED = "PROCESS :TYPE :FUNCTION VALUE"
_LOGGED = re.compile(r"\bjepsen\.util\b\s+-\s+(.*)")
_OPERATION = re.compile(r"(\d{1,18}|:[\w.-]+)\s+:(invoke|ok|fail|info)\s+:(\S+)(?:\s+(.*))?")
_STARTS = re.compile(r"(?:\d+|:[\w.-]+)\s+\S")


def read(text: str, source: str, options: Options) -> list[Event]:
    """The events; other lines of a log are passed over."""
    is_log = _LOGGED.search(text) is not None
    events = []
    for number, line in numbered(text, ";"):
        said = line
        if is_log:
            logged = _LOGGED.search(line)
            if logged is None or not _STARTS.match(logged[1]):
                continue
            said = logged[1]
        match = _OPERATION.fullmatch(said)
        if match is None:
            raise broken(source, number, EXPECTED, said)
        events.append(_event(match, f"{source} line {number}"))
    return events


def _event(match: re.Match[str], where: str) -> Event:
    name, kind, f, said = match.groups()
    process = Keyword(name[1:]) if name.startswith(":") else int(name)
    values = _values(said or "nil", where, isinstance(process, int))
    value = values[0]
    error = values[1] if len(values) > 1 else None
    if kind in (FAIL, INFO) and isinstance(process, int) and isinstance(value, Keyword) and error is None:
        value, error = None, value
    return Event(process, kind, Keyword(f), value, error=error)


def _values(said: str, where: str, strict: bool) -> list[object]:
    """The value and perhaps an error. What a nemesis says need not be EDN."""
    try:
        values = edn.read_all(said, where)
    except BadHistory:
        if strict:
            raise BadHistory(f"{where}: expected a value in EDN, found {edn.cut(said)}") from None
        return [said]
    if len(values) > 2 or not values:
        if strict:
            raise BadHistory(f"{where}: expected one value, and perhaps an error, found {edn.cut(said)}")
        return [said]
    return values
