"""Compaction: the last value of every record key survives, and a deleted key is gone or seen to be deleted.

A `record-key` fact gives a record its key, a `tombstone` fact gives it its key and says that it deletes it; a
record that is read without the fact is recognized by its value, or else by its offset. The *last* record of a
key is the one with the highest offset among those that an ok send was told and that ok polls read.

A final read that began after a key's last record was acknowledged, or read by somebody, shows one of these if
it does not have that record:

- `last-value-lost`: the last record has a value.
- `deleted-value-back`: the last record is a tombstone, and the read has an older record of the key.

That order and offsets are kept is what `duplicate`, `inconsistent-offsets` and `nonmonotonic-poll` of the log
checks say; the other log checks do not suit a compacted log, whose old values are meant to go.
"""

from __future__ import annotations

import numpy as np

from liftlog_jepsen.promises.columns import (
    FINAL,
    NONE,
    OK,
    POLL,
    RECORD_KEY,
    SEND,
    TOMBSTONE,
    Ints,
    PromiseFindings,
    Rows,
    factorize,
    owners,
)


def check_compaction(rows: Rows, found: PromiseFindings) -> None:
    if not np.isin(rows.kind, (RECORD_KEY, TOMBSTONE)).any():
        return
    fact = _record_keys(rows)
    stored = ((rows.kind == SEND) | (rows.kind == POLL)) & (rows.offset != NONE) & (rows.ret != NONE)
    stored &= rows.outcome == OK
    keyed = np.flatnonzero(stored & (fact >= 0))
    record_key = np.full(len(rows.op), -1, np.int64)
    record_key[keyed], _ = factorize(rows.log[keyed], rows.text[fact[keyed]])
    last = _last(rows, keyed, record_key)
    _check_readers(rows, fact, record_key, last, found)


def _record_keys(rows: Rows) -> Ints:
    """For each row the fact that names its record key, -1 without one."""
    owner = owners(rows, np.isin(rows.kind, (RECORD_KEY, TOMBSTONE)))
    named = np.flatnonzero(owner >= 0)
    fact = np.full(len(rows.op), -1, np.int64)
    fact[owner[named[::-1]]] = named[::-1]
    for column in (rows.text, rows.offset):
        known = column >= 0
        code, _ = factorize(rows.log, column)
        looked_up = np.full(int(code.max(initial=-1)) + 1, -1, np.int64)
        sure = np.flatnonzero((fact >= 0) & known)
        looked_up[code[sure[::-1]]] = fact[sure[::-1]]
        record = (rows.kind == SEND) | (rows.kind == POLL)
        fact = np.where((fact < 0) & known & record, looked_up[code], fact)
    return fact


def _last(rows: Rows, keyed: Ints, record_key: Ints) -> Ints:
    """For each record key a row of its last record: of several, the one that completed first, and of an
    operation's the first.
    """
    order = keyed[np.lexsort((-keyed, -rows.ret[keyed], rows.offset[keyed], record_key[keyed]))]
    ends = np.ones(len(order), np.bool_)
    ends[:-1] = record_key[order][1:] != record_key[order][:-1]
    return order[ends]


def _check_readers(rows: Rows, fact: Ints, record_key: Ints, last: Ints, found: PromiseFindings) -> None:
    """Hold the final reads, process by process, against the last records of their log."""
    reads = np.flatnonzero((rows.role == FINAL) & (rows.kind == POLL) & (rows.outcome == OK))
    if not len(reads):
        return
    reader, _ = factorize(rows.log[reads], rows.process[reads])
    order = np.lexsort((rows.offset[reads], rows.inv[reads], reader))
    reads, reader = reads[order], reader[order]
    starts = np.flatnonzero(np.concatenate([[True], reader[1:] != reader[:-1]]))
    last = last[np.argsort(rows.log[last], kind="stable")]
    logs = rows.log[last]
    for start, stop in zip(starts.tolist(), [*starts.tolist()[1:], len(reads)], strict=True):
        its = reads[start:stop]
        log, began = rows.log[its[0]], rows.inv[its].min()
        due = last[np.searchsorted(logs, log) : np.searchsorted(logs, log, side="right")]
        due = due[rows.ret[due] < began]
        missing = due[~np.isin(rows.offset[due], rows.offset[its])]
        shown = its[record_key[its] >= 0]
        for record in missing.tolist():
            deleted = rows.kind[fact[record]] == TOMBSTONE
            older = shown[record_key[shown] == record_key[record]]
            if deleted and not len(older):
                continue
            ops = [int(rows.op[record]), int(rows.op[older[-1] if len(older) else its[-1]])]
            found.add(
                rows.name(record),
                "deleted-value-back" if deleted else "last-value-lost",
                ops,
                value=rows.value(record),
                other_value=rows.value(int(older[-1])) if len(older) else None,
                offset=int(rows.offset[record]),
                other_offset=int(rows.offset[older[-1]]) if len(older) else None,
                process=int(rows.process[its[0]]),
                subject=rows.value(int(fact[record])),
            )
