"""Committed only: what readers are told of the HW, and what they get.

- `hw-back`: the HW that one process was told of a log is lower than the one it was told before. For a replica
  (one process for each of its runs) this holds within an epoch.
- `read-above-hw`: an ok poll returned a record at or above the HW that came with the answer.
- `read-truncated`: an ok poll returned a record, a replica cut it off, and no ok poll that began later
  returned it again, though one read that far.
"""

from __future__ import annotations

import numpy as np

from liftlog_jepsen.promises.columns import (
    HW,
    NONE,
    OK,
    POLL,
    REPLICA,
    TRUNCATE,
    PromiseFindings,
    Rows,
    factorize,
    integer,
)


def check_reading(rows: Rows, found: PromiseFindings) -> None:
    _check_hw(rows.pick((rows.kind == HW) & (rows.outcome == OK) & (rows.offset != NONE)), found)
    polls = rows.pick((rows.kind == POLL) & (rows.outcome == OK) & (rows.offset != NONE))
    _check_above(rows, polls, found)
    _check_truncated(rows.where(TRUNCATE), polls, found)


def _check_hw(told: Rows, found: PromiseFindings) -> None:
    session, _ = factorize(told.log, told.process, np.where(told.role == REPLICA, told.epoch, NONE))
    order = np.lexsort((told.pos, told.op, told.inv, session))
    told, session = told.pick(order), session[order]
    back = (session[1:] == session[:-1]) & (told.offset[1:] < told.offset[:-1])
    for place in (np.flatnonzero(back) + 1).tolist():
        found.add(
            told.name(place),
            "hw-back",
            [int(told.op[place - 1]), int(told.op[place])],
            offset=int(told.offset[place]),
            other_offset=int(told.offset[place - 1]),
            process=int(told.process[place]),
            epoch=integer(told.epoch[place]),
            other_epoch=integer(told.epoch[place - 1]),
        )


def _check_above(rows: Rows, polls: Rows, found: PromiseFindings) -> None:
    told = rows.pick((rows.kind == HW) & (rows.outcome == OK) & (rows.offset != NONE))
    if not len(told.op) or not len(polls.op):
        return
    answer, _ = factorize(np.concatenate([told.log, polls.log]), np.concatenate([told.op, polls.op]))
    told_answer, poll_answer = answer[: len(told.op)], answer[len(told.op) :]
    hw = np.full(int(answer.max()) + 1, NONE, np.int64)
    np.maximum.at(hw, told_answer, told.offset)
    above = np.flatnonzero((hw[poll_answer] != NONE) & (polls.offset >= hw[poll_answer]))
    # One report an answer: the highest offset.
    above = above[np.lexsort((polls.offset[above], poll_answer[above]))]
    last = np.ones(len(above), np.bool_)
    last[:-1] = poll_answer[above][1:] != poll_answer[above][:-1]
    for place in np.sort(above[last]).tolist():
        found.add(
            polls.name(place),
            "read-above-hw",
            [int(polls.op[place])],
            value=polls.value(place),
            offset=int(polls.offset[place]),
            other_offset=int(hw[poll_answer[place]]),
            process=int(polls.process[place]),
        )


def _check_truncated(cuts: Rows, polls: Rows, found: PromiseFindings) -> None:
    if not len(cuts.op) or not len(polls.op):
        return
    record, _ = factorize(
        np.concatenate([cuts.log, polls.log]),
        np.concatenate([cuts.offset, polls.offset]),
        np.concatenate([cuts.text, polls.text]),
    )
    cut_record, read_record = record[: len(cuts.op)], record[len(cuts.op) :]
    count = int(record.max()) + 1
    last_read = np.full(count, NONE, np.int64)
    np.maximum.at(last_read, read_record, polls.inv)
    a_read = np.full(count, -1, np.int64)
    a_read[read_record[::-1]] = np.arange(len(polls.op))[::-1]
    # The latest beginning of a poll that read at or above an offset: a suffix maximum in offset order.
    order = np.lexsort((polls.offset, polls.log))
    level = -polls.log[order] * (len(order) + 1) + np.unique(polls.inv, return_inverse=True)[1][order]
    highest = np.maximum.accumulate(level[::-1])[::-1]
    offsets = np.unique(np.concatenate([polls.offset, cuts.offset]))
    width = len(offsets) + 1
    where = polls.log[order] * width + np.searchsorted(offsets, polls.offset[order])
    at = np.searchsorted(where, cuts.log * width + np.searchsorted(offsets, cuts.offset))
    inside = (at < len(order)) & (polls.log[order][np.minimum(at, len(order) - 1)] == cuts.log)
    rank = highest[np.minimum(at, len(order) - 1)] + cuts.log * (len(order) + 1)
    latest = np.unique(polls.inv)[np.where(inside, rank, 0)]
    gone = (last_read[cut_record] != NONE) & (last_read[cut_record] < cuts.inv) & inside & (latest > cuts.inv)
    reported: set[int] = set()
    for place in np.flatnonzero(gone).tolist():
        number = int(cut_record[place])
        if number not in reported:
            reported.add(number)
            reader = int(a_read[number])
            found.add(
                cuts.name(place),
                "read-truncated",
                [int(polls.op[reader]), int(cuts.op[place])],
                value=cuts.value(place),
                offset=int(cuts.offset[place]),
                process=int(polls.process[reader]),
                other_process=int(cuts.process[place]),
                epoch=integer(cuts.epoch[place]),
            )
