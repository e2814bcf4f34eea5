"""Histories of the LiMo monitor: calls and returns of threads, in order.

    # @object atomic-stack
    [1] call push(3)
    [1] return
    [2] call pop
    [2] return 3

A `return` without a value, or with `empty`, says that a stack or queue was empty; `call pop(3)` names the
result already in the call.
"""

from __future__ import annotations

import re
from typing import Any

from liftlog_jepsen.events import INVOKE, OK, Event
from liftlog_jepsen.formats.lines import TAKES, Processes, broken, numbered, value_of
from liftlog_jepsen.formats.options import Options

EXPECTED = "[THREAD] call METHOD(ARGUMENT) or [THREAD] return VALUE"
_CALL = re.compile(r"\[([^\]\s]+)\]\s+call\s+([\w-]+)\s*(?:\((.*)\)|(?<=\s)(.+)|)")
_RETURN = re.compile(r"\[([^\]\s]+)\]\s+return\b\s*(.*)")
_OBJECT = re.compile(r"#\s*@object\s+(\S+)")


def read(text: str, source: str, options: Options) -> list[Event]:
    declared = _OBJECT.search(text)
    removes_take = declared is None or "set" not in declared[1]
    takes = TAKES | {"remove"} if removes_take else TAKES
    processes = Processes()
    waiting: dict[str, tuple[str, Any]] = {}
    events = []
    for number, line in numbered(text, "#"):
        call = _CALL.fullmatch(line)
        if call is not None:
            thread, method = call[1], call[2].lower()
            if thread in waiting:
                raise broken(source, number, f"the return of thread {thread} before its next call", line)
            said = (call[3] or call[4] or "").strip()
            argument = value_of(said) if said else None
            waiting[thread] = (method, argument)
            asked = None if method in takes else argument
            events.append(Event(processes.number(thread), INVOKE, method, asked))
            continue
        answer = _RETURN.fullmatch(line)
        if answer is None:
            raise broken(source, number, EXPECTED, line)
        thread, said = answer[1], answer[2].strip()
        if thread not in waiting:
            raise broken(source, number, f"a call of thread {thread} before its return", line)
        method, argument = waiting.pop(thread)
        result = argument if said == "" else None if said == "empty" else value_of(said)
        events.append(Event(processes.number(thread), OK, method, result))
    return events
