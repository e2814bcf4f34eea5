"""Exactly once: what a group consumes, transforms and produces, each input once, with its cursor.

A transaction consumes records of an input log, sends what it makes of them, and commits the group's cursor.
For each input record that it has dealt with it carries a `source` fact (the group, the input log and the
offset), also if nothing was to be sent for it. It *took place* if it is ok, or if it is info and an ok poll
read one of the values that it sent.

- `output-duplicate`: two transactions that took place name one input record.
- `output-missing`: the input log has a record below a cursor that the group committed, at or above the lowest
  record that the group ever named, that no transaction names, unless one that failed for certain does.
- `cursor-apart`: an ok transaction names an input record but does not commit a cursor above it.
"""

from __future__ import annotations

import numpy as np

from liftlog_jepsen.promises.columns import (
    COMMIT,
    FAIL,
    NONE,
    OK,
    POLL,
    SEND,
    SOURCE,
    Ints,
    PromiseFindings,
    Rows,
    factorize,
)


def check_exactly_once(rows: Rows, found: PromiseFindings) -> None:
    sources = rows.where(SOURCE)
    if not len(sources.op):
        return
    commits = rows.pick((rows.kind == COMMIT) & (rows.offset != NONE))
    group, _ = factorize(
        np.concatenate([sources.shard, commits.shard]), np.concatenate([sources.text, commits.text])
    )
    named_by, committed_by = group[: len(sources.op)], group[len(sources.op) :]
    _check_twice(sources, named_by, found)
    _check_apart(sources, named_by, commits, committed_by, found)
    _check_missing(rows, sources, named_by, commits, committed_by, found)


def _check_twice(sources: Rows, group: Ints, found: PromiseFindings) -> None:
    took_place = (sources.outcome == OK) | sources.seen
    done, group = sources.pick(took_place), group[took_place]
    record, _ = factorize(group, done.offset)
    order = np.lexsort((done.pos, done.op, record))
    done, record = done.pick(order), record[order]
    again = (record[1:] == record[:-1]) & (done.op[1:] != done.op[:-1])
    reported: set[int] = set()
    for place in (np.flatnonzero(again) + 1).tolist():
        if int(record[place]) in reported:
            continue
        reported.add(int(record[place]))
        found.add(
            done.name(place),
            "output-duplicate",
            [int(done.op[place - 1]), int(done.op[place])],
            offset=int(done.offset[place]),
            process=int(done.process[place]),
            other_process=int(done.process[place - 1]),
            subject=done.value(place),
        )


def _check_apart(
    sources: Rows, named_by: Ints, commits: Rows, committed_by: Ints, found: PromiseFindings
) -> None:
    """Per transaction and group: the highest input record named, and the highest cursor committed."""
    named, committed = sources.outcome == OK, commits.outcome == OK
    part, _ = factorize(
        np.concatenate([named_by[named], committed_by[committed]]),
        np.concatenate([sources.op[named], commits.op[committed]]),
    )
    done = sources.pick(named)
    its = part[: len(done.op)]
    cursor = np.full(int(part.max(initial=-1)) + 1, NONE, np.int64)
    np.maximum.at(cursor, part[len(done.op) :], commits.offset[committed])
    order = np.lexsort((done.offset, its))
    highest = np.ones(len(order), np.bool_)
    highest[:-1] = its[order][1:] != its[order][:-1]
    for place in np.sort(order[highest]).tolist():
        if cursor[its[place]] <= done.offset[place]:
            said = int(cursor[its[place]])
            found.add(
                done.name(place),
                "cursor-apart",
                [int(done.op[place])],
                offset=int(done.offset[place]),
                other_offset=None if said == NONE else said,
                process=int(done.process[place]),
                subject=done.value(place),
            )


def _check_missing(
    rows: Rows, sources: Rows, named_by: Ints, commits: Rows, committed_by: Ints, found: PromiseFindings
) -> None:
    count = int(max(named_by.max(initial=-1), committed_by.max(initial=-1))) + 1
    cursor = np.full(count, NONE, np.int64)
    cursor_row = np.full(count, -1, np.int64)
    done = np.flatnonzero((commits.outcome == OK) | commits.seen)
    for_highest = done[np.argsort(commits.offset[done], kind="stable")]
    cursor[committed_by[for_highest]] = commits.offset[for_highest]
    cursor_row[committed_by[for_highest]] = for_highest
    lowest = np.full(count, np.iinfo(np.int64).max, np.int64)
    np.minimum.at(lowest, named_by, sources.offset)
    shard_of = np.full(count, -1, np.int64)
    shard_of[named_by] = sources.shard
    stored = rows.pick(
        ((rows.kind == POLL) | (rows.kind == SEND)) & (rows.offset != NONE) & (rows.outcome == OK)
    )
    record, _ = factorize(stored.shard, stored.offset)
    firsts = np.sort(np.unique(record, return_index=True)[1])
    firsts = firsts[np.lexsort((stored.offset[firsts], stored.shard[firsts]))]
    shards = stored.shard[firsts]
    may = sources.outcome != FAIL
    for group in range(count):
        if shard_of[group] < 0 or cursor_row[group] < 0:
            continue
        low, high = np.searchsorted(shards, [shard_of[group], shard_of[group] + 1])
        its = firsts[low:high]
        its = its[(stored.offset[its] >= lowest[group]) & (stored.offset[its] < cursor[group])]
        dealt_with = sources.offset[may & (named_by == group)]
        commit = int(cursor_row[group])
        for place in its[~np.isin(stored.offset[its], dealt_with)].tolist():
            found.add(
                stored.name(place),
                "output-missing",
                [int(stored.op[place]), int(commits.op[commit])],
                value=stored.value(place),
                offset=int(stored.offset[place]),
                other_offset=int(cursor[group]),
                process=int(commits.process[commit]),
                subject=commits.value(commit),
            )
