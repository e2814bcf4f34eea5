"""Checks whole logs: all three kinds of checks, one after the other, over the rows of some complete logs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from liftlog_jepsen.log.columns import ASSIGN, FAIL, SEND, Block, Ints, codes, concatenate, sort_block, take
from liftlog_jepsen.log.found import FOUND_COLUMNS, LogFindings
from liftlog_jepsen.log.places import FLOOR_COLUMNS, check_places, check_skips, known_pairs, of_values
from liftlog_jepsen.log.sessions import check_sessions, in_session, session_rows
from liftlog_jepsen.log.values import ValueRows, check_values

GAPS = ("known", "any")
UNSEEN = ("final", "all")


class Rules(NamedTuple):
    """What counts as an anomaly where opinions differ; plain data that travels to the workers."""

    gaps: str = "known"
    """What a session must not pass over: offsets that are "known" to exist, or "any" offset at all."""
    unseen: str = "final"
    """Which acknowledged values somebody must have read: those acknowledged before a "final" read of their
    log began, or "all".
    """


def check_whole(rows: Block, rules: Rules) -> Block:
    """All anomalies (`liftlog_jepsen.log.found.FOUND_COLUMNS`) of the logs whose rows, all of them, these
    are."""
    found = LogFindings()
    if len(rows["log"]):
        # Small numbers for the logs, so that sorting by log and offset is sorting by one number.
        log, logs = codes(rows["log"], by_appearance=True)
        rows = sort_block({**rows, "log": log}, ("log", "offset"))
        made = check_values(rows, found)
        steps = check_sessions(take(session_rows(rows), in_session(rows)), found, rules.gaps)
        dirty = check_places(of_values(made, rows, steps), found, rules.unseen)
        _check_sends(rows, made, dirty["log"], found, rules)
        block = found.block()
        return {**block, "log": logs[block["log"]]}
    return {name: np.zeros(0, np.int64) for name in FOUND_COLUMNS}


def _check_sends(rows: Block, made: ValueRows, dirty: Ints, found: LogFindings, rules: Rules) -> None:
    """Sends in the order of their processes. Where offsets agree with real time and no operation sends
    several values to one log, nothing can be wrong with them.
    """
    sends = made.rows["kind"] == SEND
    several = np.unique(made.rows["log"][sends & (made.rows["pos"] > 0)])
    logs = np.union1d(dirty, several)
    if not len(logs):
        return
    which = sends & np.isin(made.rows["log"], logs)
    place = made.poll_last[which]
    parts = session_rows(take(made.rows, which), place)
    named = (rows["kind"] == ASSIGN) & (rows["outcome"] != FAIL) & np.isin(rows["log"], logs)
    assigns = session_rows(take(rows, named))
    steps = check_sessions(concatenate([parts, assigns]), found, rules.gaps)
    if len(steps["log"]):
        values = sort_block(made.values, ("log", "first"))
        check_skips(steps, known_pairs(values, made.pairs), concatenate([], FLOOR_COLUMNS), found)
