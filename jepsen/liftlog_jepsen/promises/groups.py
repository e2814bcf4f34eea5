"""Consumer groups: generations grow, each partition has one owner, and committed cursors only move forward.

*Joining* is any ok operation that tells a generation (`join`, `own`); positions in real time decide what was
known when.

- `generation-back`: a member was told a generation although a greater one had been told before it asked.
- `two-owners`: in one generation two processes own one partition.
- `stale-commit`: a commit of one generation was acknowledged although a greater one had been told before it
  was asked for.
- `cursor-back`: a commit was acknowledged, or a cursor told, below what an earlier commit had stored.
- `phantom-cursor`: a cursor was told that no commit can have stored: none of that partition that had begun,
  and did not fail, had it.
"""

from __future__ import annotations

import numpy as np

from liftlog_jepsen.promises.columns import (
    COMMIT,
    FETCH_COMMIT,
    INFO,
    JOIN,
    NONE,
    OK,
    OWN,
    Ints,
    PromiseFindings,
    Rows,
    factorize,
    greatest_before,
    integer,
)


def check_groups(rows: Rows, found: PromiseFindings) -> None:
    told = rows.pick(np.isin(rows.kind, (JOIN, OWN)) & (rows.outcome == OK) & (rows.epoch != NONE))
    commits = rows.pick((rows.kind == COMMIT) & (rows.outcome == OK))
    _check_generations(told, found)
    _check_owners(told.where(OWN), found)
    _check_stale(told, commits.pick(commits.epoch != NONE), found)
    cursors = rows.pick(np.isin(rows.kind, (COMMIT, FETCH_COMMIT)) & (rows.outcome == OK))
    _check_cursors(commits, cursors, found)
    fetched = cursors.pick((cursors.kind == FETCH_COMMIT) & (cursors.offset != NONE))
    possible = rows.pick((rows.kind == COMMIT) & ((rows.outcome == OK) | (rows.outcome == INFO)))
    _check_phantoms(possible, fetched, found)


def _check_generations(told: Rows, found: PromiseFindings) -> None:
    before = _greatest(told, told.shard, told.epoch, told, told.shard)
    back = (before >= 0) & (told.epoch[before] > told.epoch)
    seen: set[int] = set()
    for place in np.flatnonzero(back).tolist():
        if int(told.op[place]) not in seen:
            seen.add(int(told.op[place]))
            _report(told, place, told, int(before[place]), "generation-back", found)


def _check_owners(own: Rows, found: PromiseFindings) -> None:
    claim, _ = factorize(own.shard, own.epoch, own.log)
    order = np.lexsort((own.op, own.inv, claim))
    own, claim = own.pick(order), claim[order]
    starts = np.flatnonzero(np.concatenate([[True], claim[1:] != claim[:-1]])) if len(claim) else claim
    first = np.repeat(starts, np.diff([*starts.tolist(), len(claim)])) if len(claim) else claim
    other = own.process != own.process[first]
    reported: set[int] = set()
    for place in np.flatnonzero(other).tolist():
        if int(claim[place]) not in reported:
            reported.add(int(claim[place]))
            _report(own, place, own, int(first[place]), "two-owners", found)


def _check_stale(told: Rows, commits: Rows, found: PromiseFindings) -> None:
    before = _greatest(told, told.shard, told.epoch, commits, commits.shard)
    stale = np.flatnonzero(before >= 0)
    for place in stale[told.epoch[before[stale]] > commits.epoch[stale]].tolist():
        _report(commits, place, told, int(before[place]), "stale-commit", found)


def _check_cursors(commits: Rows, cursors: Rows, found: PromiseFindings) -> None:
    every, _ = factorize(
        np.concatenate([commits.shard, cursors.shard]), np.concatenate([commits.log, cursors.log])
    )
    before = _greatest(commits, every[: len(commits.op)], commits.offset, cursors, every[len(commits.op) :])
    back = np.flatnonzero(before >= 0)
    for place in back[commits.offset[before[back]] > cursors.offset[back]].tolist():
        _report(cursors, place, commits, int(before[place]), "cursor-back", found)


def _check_phantoms(possible: Rows, fetched: Rows, found: PromiseFindings) -> None:
    count = len(possible.op)
    cursor, _ = factorize(
        *(
            np.concatenate([getattr(possible, column), getattr(fetched, column)])
            for column in ("shard", "log", "offset")
        )
    )
    begun = np.full(int(cursor.max(initial=-1)) + 1, np.iinfo(np.int64).max, np.int64)
    np.minimum.at(begun, cursor[:count], possible.inv)
    for place in np.flatnonzero(begun[cursor[count:]] > fetched.ret).tolist():
        _report(fetched, place, None, -1, "phantom-cursor", found)


def _greatest(events: Rows, group: Ints, amount: Ints, questions: Rows, asked: Ints) -> Ints:
    """For each question: the event with the greatest amount that had completed when it was asked."""
    done = np.flatnonzero(events.ret != NONE)
    holder = greatest_before(group[done], events.ret[done], amount[done], asked, questions.inv)
    return np.where(holder >= 0, done[np.maximum(holder, 0)], -1) if len(done) else holder


def _report(
    rows: Rows, place: int, others: Rows | None, other: int, anomaly: str, found: PromiseFindings
) -> None:
    ops = [int(rows.op[place])] if others is None else [int(others.op[other]), int(rows.op[place])]
    found.add(
        rows.name(place),
        anomaly,
        ops,
        offset=integer(rows.offset[place]),
        other_offset=None if others is None else integer(others.offset[other]),
        process=int(rows.process[place]),
        other_process=None if others is None else int(others.process[other]),
        epoch=integer(rows.epoch[place]),
        other_epoch=None if others is None else integer(others.epoch[other]),
        subject=rows.value(place),
    )
