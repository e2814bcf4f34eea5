"""Histories of transactions over registers as PolySI, IsoVista and dbcop's tools write them, one part a line.

    w(1,7,3,12)     session 3, transaction 12 wrote 7 to key 1
    r(2,5,3,12)     and read 5 from key 2
    w(1,8,4,-1)     a transaction of session 4 that was aborted wrote 8 to key 1

A session's transactions follow each other as the file does. Between sessions nothing is known of time: no
transaction counts as having ended before another began (`Format.timeless`). What an aborted transaction
read is left out; each of its writes is a transaction of its own here.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from liftlog_jepsen.events import FAIL, INVOKE, OK, Event
from liftlog_jepsen.formats.lines import broken, numbered
from liftlog_jepsen.formats.options import Options

EXPECTED = "r(KEY,VALUE,SESSION,TRANSACTION) or w(…)"
ABORTED = -1
_LINE = re.compile(r"([rw])\(\s*(-?\d{1,18})\s*,\s*(-?\d{1,18})\s*,\s*(\d{1,18})\s*,\s*(-?\d{1,18})\s*\)")


class _Transaction(NamedTuple):
    session: int
    outcome: str
    parts: list[list[Any]]


def read(text: str, source: str, options: Options) -> list[Event]:
    transactions: dict[int, _Transaction] = {}
    aborted = 0
    for number, line in numbered(text, "#"):
        found = _LINE.fullmatch(line)
        if found is None:
            raise broken(source, number, EXPECTED, line)
        key, value, session, transaction = map(int, found.groups()[1:])
        if transaction == ABORTED:
            if found[1] == "r":
                continue
            aborted += 1
            transactions[-aborted] = _Transaction(session, FAIL, [[found[1], key, value]])
            continue
        if transaction < 0:
            raise broken(source, number, "a transaction's number, or -1 for one that was aborted", line)
        one = transactions.setdefault(transaction, _Transaction(session, OK, []))
        if one.session != session:
            raise broken(source, number, f"session {one.session}, which had transaction {transaction}", line)
        one.parts.append([found[1], key, value])
    events = []
    for one in transactions.values():
        asked = [[f, key, value if f == "w" else None] for f, key, value in one.parts]
        events.append(Event(one.session, INVOKE, "txn", asked))
        events.append(Event(one.session, one.outcome, "txn", one.parts if one.outcome == OK else asked))
    return events
