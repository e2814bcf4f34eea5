"""Dedupe: a producer numbers its records, and each number is stored once, in order, without a gap.

A `producer` fact gives a record its producer, the producer's epoch and the sequence number; a record that is
read without the fact is recognized by its value. *Stored* is what an ok send was told and what ok polls read.

- `sequence-duplicate`: one number of a producer's epoch lies at two offsets.
- `sequence-reordered`: of two numbers of one epoch the lower one has the higher offset.
- `sequence-gap`: between two neighbours of one epoch numbers are missing, and no room is left for them, as
  every offset between holds something else.
- `fenced-producer`: a record of an older epoch lies above one of a newer epoch of the same producer.
"""

from __future__ import annotations

import numpy as np

from liftlog_jepsen.promises.columns import (
    NONE,
    OK,
    POLL,
    PRODUCER,
    SEND,
    Bools,
    Ints,
    PromiseFindings,
    Rows,
    factorize,
    integer,
    owners,
)


def check_producers(rows: Rows, found: PromiseFindings) -> None:
    if not (rows.kind == PRODUCER).any():
        return
    fact = _identities(rows)
    stored = ((rows.kind == SEND) | (rows.kind == POLL)) & (rows.offset != NONE)
    stored &= rows.outcome == OK
    numbered = np.flatnonzero(stored & (fact >= 0))
    if not len(numbered):
        return
    known = _known_offsets(rows, stored)
    records, facts = rows.pick(numbered), rows.pick(fact[numbered])
    producer, _ = factorize(records.log, facts.text)
    order = np.lexsort((records.op, facts.offset, facts.epoch, records.offset, producer))
    records, facts, producer = records.pick(order), facts.pick(order), producer[order]
    fresh = np.ones(len(producer), np.bool_)
    fresh[1:] = (
        (producer[1:] != producer[:-1])
        | (records.offset[1:] != records.offset[:-1])
        | (facts.epoch[1:] != facts.epoch[:-1])
        | (facts.offset[1:] != facts.offset[:-1])
    )
    records, facts, producer = records.pick(fresh), facts.pick(fresh), producer[fresh]
    again = _check_twice(records, facts, producer, found)
    _check_order(records.pick(~again), facts.pick(~again), producer[~again], known, found)


def _identities(rows: Rows) -> Ints:
    """For each row the fact that names its producer, -1 without one; by the record itself or by its value."""
    owner = owners(rows, rows.kind == PRODUCER)
    named = np.flatnonzero(owner >= 0)
    fact = np.full(len(rows.op), -1, np.int64)
    fact[owner[named[::-1]]] = named[::-1]
    value, _ = factorize(rows.log, rows.text)
    by_value = np.full(int(value.max(initial=-1)) + 1, -1, np.int64)
    sure = np.flatnonzero((fact >= 0) & (rows.text >= 0))
    by_value[value[sure[::-1]]] = fact[sure[::-1]]
    return np.where((fact < 0) & (rows.text >= 0), by_value[value], fact)


def _known_offsets(rows: Rows, stored: Bools) -> tuple[Ints, Ints]:
    """Distinct (log, offset) of everything stored, in order."""
    order = np.lexsort((rows.offset[stored], rows.log[stored]))
    log, offset = rows.log[stored][order], rows.offset[stored][order]
    fresh = np.ones(len(log), np.bool_)
    fresh[1:] = (log[1:] != log[:-1]) | (offset[1:] != offset[:-1])
    return log[fresh], offset[fresh]


def _check_twice(records: Rows, facts: Rows, producer: Ints, found: PromiseFindings) -> Bools:
    """Report numbers at two offsets; return which records repeat one at a lower offset."""
    number, _ = factorize(producer, facts.epoch, facts.offset)
    order = np.lexsort((records.offset, number))
    again = np.zeros(len(number), np.bool_)
    repeated = np.flatnonzero(number[order][1:] == number[order][:-1]) + 1
    again[order[repeated]] = True
    reported: set[int] = set()
    for place in repeated.tolist():
        first, second = int(order[place - 1]), int(order[place])
        if int(number[second]) not in reported:
            reported.add(int(number[second]))
            found.add(
                records.name(second),
                "sequence-duplicate",
                [int(records.op[first]), int(records.op[second])],
                value=records.value(first),
                other_value=records.value(second),
                offset=int(records.offset[first]),
                other_offset=int(records.offset[second]),
                epoch=integer(facts.epoch[second]),
                sequence=integer(facts.offset[second]),
                subject=facts.value(second),
            )
    return again


def _check_order(
    records: Rows, facts: Rows, producer: Ints, known: tuple[Ints, Ints], found: PromiseFindings
) -> None:
    same = producer[1:] == producer[:-1]
    older = same & (facts.epoch[1:] < facts.epoch[:-1])
    level = same & (facts.epoch[1:] == facts.epoch[:-1])
    down = level & (facts.offset[1:] < facts.offset[:-1])
    jump = level & (facts.offset[1:] > facts.offset[:-1] + 1)
    jump &= _no_room(records.log[1:], records.offset[:-1], records.offset[1:], jump, known)
    for anomaly, where in (("fenced-producer", older), ("sequence-reordered", down), ("sequence-gap", jump)):
        for place in (np.flatnonzero(where) + 1).tolist():
            found.add(
                records.name(place),
                anomaly,
                [int(records.op[place - 1]), int(records.op[place])],
                value=records.value(place),
                other_value=records.value(place - 1),
                offset=int(records.offset[place]),
                other_offset=int(records.offset[place - 1]),
                epoch=integer(facts.epoch[place]),
                other_epoch=integer(facts.epoch[place - 1]),
                sequence=integer(facts.offset[place]),
                other_sequence=integer(facts.offset[place - 1]),
                subject=facts.value(place),
            )


def _no_room(log: Ints, low: Ints, high: Ints, asked: Bools, known: tuple[Ints, Ints]) -> Bools:
    """Where asked: whether every offset between `low` and `high` is known to hold something."""
    full = np.zeros(len(log), np.bool_)
    places = np.flatnonzero(asked)
    known_log, known_offset = known
    offsets = np.unique(known_offset)
    width = len(offsets) + 1
    level = known_log * width + np.searchsorted(offsets, known_offset)
    start = np.searchsorted(level, log[places] * width + np.searchsorted(offsets, low[places]), side="right")
    stop = np.searchsorted(level, log[places] * width + np.searchsorted(offsets, high[places]), side="left")
    full[places] = stop - start == high[places] - low[places] - 1
    return full
