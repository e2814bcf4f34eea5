"""Compare and set: a log with a compare-and-append is linearizable.

An `expected` fact says at which offset a send was to lie, or not at all; a `refused` fact says where it would
have come to lie, which is a read of the log's length. Offsets give the order: what told a length n stands
between the record at n - 1 and the record at n. So nothing is searched. A record has its moment after its
send began, and before anybody was told of it or read it; a refusal has one within its operation. A history is
linearizable if nothing ended before something began that stands in front of it.

- `misplaced`: a send expected an offset, and it lies at another.
- `refused-as-expected`: a send was refused, and told the very offset that it expected.
- `stale-refusal`: before the refused operation began, somebody knew already that the log was longer.
- `dirty-refusal`: a record below the offset that was told was sent only after the refusal. What the refusal
  rested on is not there: final reads end below it, or other records lie in its place.
- `late-append`: a record was sent after one behind it had been read.
- `phantom-offset`: the log goes on behind an offset, and nobody can have sent what lies there. What is below
  the lowest offset that is known was there before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from liftlog_jepsen.promises.columns import (
    EXPECTED,
    FAIL,
    FINAL,
    NONE,
    OK,
    POLL,
    RECORD_KEY,
    REFUSED,
    SEND,
    TOMBSTONE,
    Bools,
    Ints,
    PromiseFindings,
    Rows,
    factorize,
    greatest_before,
    integer,
    owners,
)


class _KnownOffsets(NamedTuple):
    """Every offset that somebody was told of, or read at, with its row among the claims."""

    log: Ints
    offset: Ints
    start: Ints
    """When its send began, NONE if nobody sent it."""
    starter: Ints
    """The row of that send."""
    end: Ints
    """When somebody knew of it."""
    ender: Ints
    read: Ints
    """When somebody had read it, NONE if nobody has."""
    reader: Ints


class _Marks(NamedTuple):
    """What shows how long a log was: `length` records at least, known by the row `ender` at `end`."""

    log: Ints
    length: Ints
    place: Ints
    """In the order of the log: 2n for who was told n, 2n + 1 for the record at n."""
    end: Ints
    ender: Ints

    def earliest_behind(self, log: Ints, place: Ints) -> Ints:
        """For each place in a log: which mark behind it was the first to be known, -1 for none."""
        return greatest_before(self.log, -self.place, -self.end, log, -place)


def check_compare_and_set(rows: Rows, found: PromiseFindings) -> None:
    facts = (rows.kind == EXPECTED) | (rows.kind == REFUSED)
    if not facts.any():
        return
    rows = rows.pick(np.isin(rows.log, rows.log[facts]))
    expected, told = _of_send(rows, EXPECTED), _of_send(rows, REFUSED)
    polls = (rows.kind == POLL) & (rows.outcome == OK) & (rows.offset != NONE)
    value, _ = factorize(rows.log, rows.text)
    value = np.where(rows.text >= 0, value, -1)
    sender, alone = _senders(rows, value)
    _check_places(rows, expected, polls, np.where(alone, sender, -1), found)
    refused = np.flatnonzero((told != NONE) & (rows.ret != NONE))
    _check_own(rows, expected, told, refused, found)
    known = _known(rows, polls, sender)
    marks = _marks(rows, known, told, refused)
    _check_stale(rows, expected, told, refused, marks, found)
    _check_dirty(rows, expected, told, refused, known, found)
    _check_late(rows, known, found)
    _check_phantoms(rows, _places_to_be(rows, expected, polls, value), known, marks, found)


def _of_send(rows: Rows, kind: int) -> Ints:
    """For each send the offset of its first fact of this kind, else NONE."""
    owner = owners(rows, rows.kind == kind)
    named = np.flatnonzero((owner >= 0) & (rows.offset != NONE))[::-1]
    named = named[rows.kind[owner[named]] == SEND]
    offset = np.full(len(rows.op), NONE, np.int64)
    offset[owner[named]] = rows.offset[named]
    return offset


def _senders(rows: Rows, value: Ints) -> tuple[Ints, Bools]:
    """For each row with a value: the send of it that began first, -1 for none, whether no other has it."""
    sends = np.flatnonzero((rows.kind == SEND) & (value >= 0))
    sends = sends[np.lexsort((sends, rows.inv[sends]))]
    size = int(value.max(initial=-1)) + 2
    first = np.full(size, -1, np.int64)
    first[value[sends[::-1]]] = sends[::-1]
    first[-1] = -1
    count = np.bincount(value[sends], minlength=size)
    return first[value], count[value] == 1


def _check_places(rows: Rows, expected: Ints, polls: Bools, sender: Ints, found: PromiseFindings) -> None:
    """Once a send: by what it was told itself, or else by the lowest offset at which somebody read it."""
    told = np.flatnonzero((expected != NONE) & (rows.offset != NONE) & (rows.outcome != FAIL))
    told = told[rows.offset[told] != expected[told]]
    read = np.flatnonzero(polls & (sender >= 0))
    read = read[(expected[sender[read]] != NONE) & (expected[sender[read]] != rows.offset[read])]
    read = read[np.lexsort((rows.ret[read], rows.offset[read]))]
    place_of = {int(sender[reader]): int(reader) for reader in read[::-1]}
    place_of |= {int(send): int(send) for send in told}
    for send, place in sorted(place_of.items()):
        ops = [int(rows.op[send])] + [int(rows.op[place])] * (place != send)
        found.add(
            rows.name(send),
            "misplaced",
            ops,
            value=rows.value(send),
            offset=int(rows.offset[place]),
            process=int(rows.process[send]),
            expected=int(expected[send]),
        )


def _check_own(rows: Rows, expected: Ints, told: Ints, refused: Ints, found: PromiseFindings) -> None:
    for place in refused[told[refused] == expected[refused]].tolist():
        found.add(
            rows.name(place),
            "refused-as-expected",
            [int(rows.op[place])],
            value=rows.value(place),
            offset=int(told[place]),
            process=int(rows.process[place]),
            expected=int(expected[place]),
        )


def _known(rows: Rows, polls: Bools, sender: Ints) -> _KnownOffsets:
    """What is known of each offset. A record's send is the one that was told so, or that had the value."""
    acked = (rows.kind == SEND) & (rows.outcome == OK) & (rows.offset != NONE)
    claims = np.flatnonzero(acked | polls)
    claims = claims[np.lexsort((rows.offset[claims], rows.log[claims]))]
    log, offset = rows.log[claims], rows.offset[claims]
    fresh = np.ones(len(claims), np.bool_)
    fresh[1:] = (log[1:] != log[:-1]) | (offset[1:] != offset[:-1])
    group = np.cumsum(fresh) - 1
    sends = np.where(acked[claims], claims, sender[claims])
    sent, polled = sends >= 0, polls[claims]
    starter = _least(group[sent], rows.inv[sends[sent]], sends[sent], int(fresh.sum()))
    ender = _least(group, rows.ret[claims], claims, int(fresh.sum()))
    reader = _least(group[polled], rows.ret[claims[polled]], claims[polled], int(fresh.sum()))
    return _KnownOffsets(
        log[fresh],
        offset[fresh],
        np.where(starter >= 0, rows.inv[starter], NONE),
        starter,
        rows.ret[ender],
        ender,
        np.where(reader >= 0, rows.ret[reader], NONE),
        reader,
    )


def _least(group: Ints, moment: Ints, row: Ints, size: int) -> Ints:
    """For each group the row with the least moment, -1 for none."""
    order = np.lexsort((row, moment))[::-1]
    least = np.full(size, -1, np.int64)
    least[group[order]] = row[order]
    return least


def _marks(rows: Rows, known: _KnownOffsets, told: Ints, refused: Ints) -> _Marks:
    place = np.concatenate([2 * known.offset + 1, 2 * told[refused]])
    return _Marks(
        np.concatenate([known.log, rows.log[refused]]),
        (place + 1) // 2,
        place,
        np.concatenate([known.end, rows.ret[refused]]),
        np.concatenate([known.ender, refused]),
    )


def _check_stale(
    rows: Rows, expected: Ints, told: Ints, refused: Ints, marks: _Marks, found: PromiseFindings
) -> None:
    mark = marks.earliest_behind(rows.log[refused], 2 * told[refused])
    stale = (mark >= 0) & (marks.end[mark] < rows.inv[refused])
    for place, other in zip(refused[stale].tolist(), mark[stale].tolist(), strict=True):
        witness = int(marks.ender[other])
        found.add(
            rows.name(place),
            "stale-refusal",
            [int(rows.op[witness]), int(rows.op[place])],
            value=rows.value(place),
            offset=int(told[place]),
            other_offset=int(marks.length[other]),
            process=int(rows.process[place]),
            other_process=int(rows.process[witness]),
            expected=integer(expected[place]),
        )


def _check_dirty(
    rows: Rows, expected: Ints, told: Ints, refused: Ints, known: _KnownOffsets, found: PromiseFindings
) -> None:
    later = greatest_before(known.log, known.offset, known.start, rows.log[refused], told[refused])
    dirty = np.append(known.start, NONE)[later] > rows.ret[refused]
    top, last = _final_ends(rows, known)
    short = (last[rows.log[refused]] > rows.ret[refused]) & (told[refused] - 1 > top[rows.log[refused]])
    for number in np.flatnonzero(dirty | short).tolist():
        place, other = int(refused[number]), int(later[number])
        evidence: dict[str, object] = {
            "value": rows.value(place),
            "offset": int(told[place]),
            "process": int(rows.process[place]),
            "expected": integer(expected[place]),
        }
        ops = [int(rows.op[place])]
        if dirty[number]:
            send = int(known.starter[other])
            ops.append(int(rows.op[send]))
            evidence |= {"other_offset": int(known.offset[other]), "other_value": rows.value(send)}
            evidence["other_process"] = int(rows.process[send])
        else:
            evidence["other_offset"] = int(top[rows.log[place]])
        found.add(rows.name(place), "dirty-refusal", ops, **evidence)


def _final_ends(rows: Rows, known: _KnownOffsets) -> tuple[Ints, Ints]:
    """For each log: the greatest offset that anybody knows; and when the last of its final reads began, NONE
    if none is worth anything here: compaction may have taken what was last, and retention everything.
    """
    top, last = np.full((2, int(rows.log.max()) + 1), NONE, np.int64)
    np.maximum.at(top, known.log, known.offset)
    final = (rows.kind == POLL) & (rows.outcome == OK) & (rows.role == FINAL)
    np.maximum.at(last, rows.log[final], rows.inv[final])
    empty = final & (rows.offset == NONE)
    compacted = (rows.kind == RECORD_KEY) | (rows.kind == TOMBSTONE)
    last[rows.log[empty | compacted]] = NONE
    return top, last


def _check_late(rows: Rows, known: _KnownOffsets, found: PromiseFindings) -> None:
    """Of what was acknowledged, but not read, `realtime-order` tells."""
    read = np.flatnonzero(known.read != NONE)
    first = greatest_before(known.log[read], -known.offset[read], -known.read[read], known.log, -known.offset)
    behind = read[first] if len(read) else first
    late = (first >= 0) & (known.start > known.read[behind])
    for place, other in zip(np.flatnonzero(late).tolist(), behind[late].tolist(), strict=True):
        send, reader = int(known.starter[place]), int(known.reader[other])
        found.add(
            rows.name(send),
            "late-append",
            [int(rows.op[reader]), int(rows.op[send])],
            value=rows.value(send),
            other_value=rows.value(reader),
            offset=int(known.offset[place]),
            other_offset=int(known.offset[other]),
            process=int(rows.process[send]),
            other_process=int(rows.process[reader]),
        )


class _UnsureSends(NamedTuple):
    """Sends of which nobody knows where they lie. `place`: where alone they can, NONE = anywhere."""

    log: Ints
    place: Ints
    start: Ints


def _places_to_be(rows: Rows, expected: Ints, polls: Bools, value: Ints) -> _UnsureSends:
    seen = np.zeros(int(value.max(initial=-1)) + 2, np.bool_)
    seen[value[polls & (value >= 0)]] = True
    lies = (rows.outcome == OK) & (rows.offset != NONE)
    sends = np.flatnonzero((rows.kind == SEND) & (rows.outcome != FAIL) & ~lies & ~seen[value])
    place = np.where(rows.offset[sends] != NONE, rows.offset[sends], expected[sends])
    return _UnsureSends(rows.log[sends], place, rows.inv[sends])


def _check_phantoms(
    rows: Rows, unsure: _UnsureSends, known: _KnownOffsets, marks: _Marks, found: PromiseFindings
) -> None:
    """At most one a log. Only logs that have gaps are looked at one by one."""
    size = int(rows.log.max()) + 1
    low, high = np.full(size, np.iinfo(np.int64).max, np.int64), np.full(size, NONE, np.int64)
    np.minimum.at(low, marks.log, marks.place // 2)
    np.maximum.at(high, marks.log, marks.length)
    marked = high != NONE
    gaps = np.where(marked, np.where(marked, high, 0) - np.where(marked, low, 0), 0)
    gaps -= np.bincount(known.log, minlength=size)
    for log in np.flatnonzero(gaps > 0).tolist():
        its = unsure.log == log
        offsets = known.offset[known.log == log]
        some = _first_gaps(offsets, int(low[log]), int(high[log]), int(its.sum()) + 1)
        mark = marks.earliest_behind(np.full(len(some), log, np.int64), 2 * some)
        gap = _unfilled(some.tolist(), marks.end[mark].tolist(), unsure.place[its], unsure.start[its])
        if gap >= 0:
            witness = int(marks.ender[mark[gap]])
            found.add(
                rows.name(witness),
                "phantom-offset",
                [int(rows.op[witness])],
                offset=int(some[gap]),
                other_offset=int(marks.length[mark[gap]]),
                process=int(rows.process[witness]),
            )


def _first_gaps(offsets: Ints, low: int, high: int, most: int) -> Ints:
    """The first `most` offsets from `low` to below `high` that are not among `offsets`, which ascend."""
    edges = np.concatenate([[low - 1], offsets[offsets >= low], [high]])
    widths = np.diff(edges) - 1
    before = np.cumsum(widths) - widths
    number = np.arange(min(most, int(widths.sum())))
    edge = np.searchsorted(before + widths, number, side="right")
    return np.asarray(edges[edge] + 1 + number - before[edge], np.int64)


def _unfilled(gaps: list[int], ends: list[int], place: Ints, start: Ints) -> int:
    """Which gap has no send that can lie there, -1 for none. A send can if it began before the gap's end.

    Ends ascend with the gaps. Who can lie in one gap alone is no help for others, so it goes first; of those
    that can lie anywhere, earlier ones go to earlier gaps.
    """
    bound: dict[int, int] = {}
    for where, began in zip(place.tolist(), start.tolist(), strict=True):
        bound[where] = min(began, bound.get(where, began))
    free = iter(np.sort(start[place == NONE]).tolist())
    for number, (gap, end) in enumerate(zip(gaps, ends, strict=True)):
        if bound.get(gap, end) >= end and next(free, end) >= end:
            return number
    return -1
