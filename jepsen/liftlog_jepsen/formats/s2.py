"""Histories of the S2 stream store's checks: one JSON object a line, a start or a finish.

    {"event": {"Start": {"Append": {"num_records": 2, "last_record_xxh3": 77}}}, "client_id": 1, "op_id": 4}
    {"event": {"Finish": {"AppendSuccess": {"tail": 2}}}, "client_id": 1, "op_id": 4}

Functions are `append`, `read` and `check-tail`; values are what stands beside them. An indefinite failure is
`info`.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from liftlog_jepsen.events import FAIL, INFO, INVOKE, OK, Event
from liftlog_jepsen.formats.lines import Processes, broken, numbered
from liftlog_jepsen.formats.options import Options

STARTS = {"Append": "append", "Read": "read", "CheckTail": "check-tail"}
FINISHES = {
    "AppendSuccess": ("append", OK),
    "AppendDefiniteFailure": ("append", FAIL),
    "AppendIndefiniteFailure": ("append", INFO),
    "ReadSuccess": ("read", OK),
    "ReadFailure": ("read", FAIL),
    "CheckTailSuccess": ("check-tail", OK),
    "CheckTailFailure": ("check-tail", FAIL),
}
EXPECTED = '{"event": {"Start" or "Finish": …}, "client_id": …, "op_id": …}'


def read(text: str, source: str, options: Options) -> list[Event]:
    processes = Processes()
    waiting: dict[tuple[int, int], tuple[int, str]] = {}
    busy: set[int] = set()
    events = []
    for number, line in numbered(text, "//"):
        client, operation, phase, name, value = _parts(source, number, line)
        if phase == "Start":
            f = STARTS.get(name)
            if f is None or (client, operation) in waiting:
                raise broken(source, number, f"a new operation, one of {', '.join(STARTS)}", line)
            # One client may have several operations open; a process may not.
            process = processes.number(str(client))
            process = processes.fresh() if process in busy else process
            busy.add(process)
            waiting[client, operation] = (process, f)
            events.append(Event(process, INVOKE, f, value, extra=(("op-id", operation),)))
            continue
        process, f = waiting.pop((client, operation), (-1, ""))
        finished, outcome = FINISHES.get(name, ("", ""))
        if not f or finished != f:
            raise broken(source, number, f"the end of an operation that was started{f and ': '}{f}", line)
        busy.discard(process)
        events.append(Event(process, outcome, f, value, extra=(("op-id", operation),)))
    return events


def _parts(source: str, number: int, line: str) -> tuple[int, int, str, str, Any]:
    """Client, operation, Start or Finish, what, and its fields."""

    def wrong() -> NoReturn:
        raise broken(source, number, EXPECTED, line)

    try:
        labeled = json.loads(line)
    except (ValueError, RecursionError):
        wrong()
    if not isinstance(labeled, dict) or not isinstance(labeled.get("event"), dict):
        wrong()
    client, operation, event = labeled.get("client_id"), labeled.get("op_id"), labeled["event"]
    if type(client) is not int or client < 0 or type(operation) is not int or len(event) != 1:
        wrong()
    ((phase, what),) = event.items()
    if isinstance(what, str):
        what = {what: None}
    if phase not in ("Start", "Finish") or not isinstance(what, dict) or len(what) != 1:
        wrong()
    ((name, value),) = what.items()
    return client, operation, phase, name, value
