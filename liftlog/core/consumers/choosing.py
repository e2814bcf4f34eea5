"""Which of the messages that were read a consumer is given: what is due again, or what comes next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from liftlog.batchparts import alike, copied_part, subjects_from
from liftlog.core.consumers.flight import Flight
from liftlog.format import Header, read_header
from liftlog.picking import FoundRecord, RecordFilter, copied, find, opened
from liftlog.types import Batch, PartitionId

EVERY_RECORD = RecordFilter([])


class Chosen(NamedTuple):
    """`counts`: (offset, how often delivered, this time included), ascending. `frames` hold these records,
    and others. `end`: below it nothing is left to be chosen.
    """

    counts: list[tuple[int, int]]
    frames: list[bytes]
    end: int


def choose(log: PartitionId, batches: Sequence[Batch], flight: Flight, start: int, most: int) -> Chosen:
    """At most so many from `start` on, of batches that hold it. Below `flight.ahead` what is due again, else
    what was not delivered yet and one of the consumer's filters matches. Raises CorruptBatch.
    """
    again = start < flight.ahead
    counts: list[tuple[int, int]] = []
    frames: list[bytes] = []
    take = _filtered if flight.filters else _unfiltered
    for batch in batches:
        begin = batch.base_offset if again else start
        picked, frame = take(log, batch, flight, begin, again, most - len(counts))
        if picked:
            counts += flight.next_counts(picked)
            frames.append(frame)
        if len(counts) >= most:
            return Chosen(counts, frames, counts[-1][0] + 1)
    return Chosen(counts, frames, batches[-1].end_offset if batches else start)


def _filtered(
    log: PartitionId, batch: Batch, flight: Flight, start: int, again: bool, most: int
) -> tuple[list[int], bytes]:
    """What is picked of a batch by one look at it, and a frame with these records and no others."""
    header = read_header(batch.data)
    base = header.base_offset
    all_wanted = not again and start >= flight.consumer.since
    kind = alike(header, batch.data) if all_wanted else None
    if kind is not None:
        first = max(start, base)
        picked = (
            list(range(first, min(batch.end_offset, first + most))) if flight.wanted.on(kind.subject) else []
        )
        if not picked or len(picked) == header.records:
            return picked, batch.data
        return picked, kind.part(log, header, batch.data, first - base, len(picked))
    payload, position = opened(header, batch.data)
    picked = []
    found: list[FoundRecord] = []
    if all_wanted:
        wanted = find(header, payload, position, flight.wanted, start - base)
    else:
        wanted = _by_name(header, payload, position, flight, start, again)
    for one in wanted:
        picked.append(base + one[0])
        found.append(one)
        if len(picked) >= most:
            break
    part = copied(log, batch, header, payload, found, batch.end_offset)
    return picked, part.data if part is not None else b""


def _by_name(
    header: Header, payload: bytes, position: int, flight: Flight, start: int, again: bool
) -> Iterator[FoundRecord]:
    """What is due again, or one of the last messages with which the consumer begins, whatever its filters
    are by now; and behind those what its filters match.
    """
    base, since = header.base_offset, flight.consumer.since
    named = flight.lapsed if again else flight.consumer.lasts
    for one in find(header, payload, position, EVERY_RECORD, start - base):
        offset = base + one[0]
        if not again and offset >= since:
            break
        if offset in named:
            yield one
    if not again:
        yield from find(header, payload, position, flight.wanted, max(start, since) - base)


def _unfiltered(
    log: PartitionId, batch: Batch, flight: Flight, start: int, again: bool, most: int
) -> tuple[list[int], bytes]:
    """What is picked of a batch, and a frame that holds these records, and others perhaps."""
    if not again and start >= flight.consumer.since:
        picked = list(islice(_there(batch, start), most))
        return picked, _frame(log, batch, picked, flight) if picked else b""
    picked = []
    for offset in _there(batch, start):
        if offset in flight.lapsed if again else flight.wants(offset):
            picked.append(offset)
            if len(picked) >= most:
                break
    return picked, _frame(log, batch, picked, flight) if picked else b""


def matching(batch: Batch, wanted: RecordFilter, start: int) -> Iterator[int]:
    """Where it has records from `start` on that are wanted. Raises like `decode_records`."""
    header = read_header(batch.data)
    if (kind := alike(header, batch.data)) is not None:
        if wanted.on(kind.subject):
            yield from range(max(start, batch.base_offset), batch.end_offset)
        return
    payload, position = opened(header, batch.data)
    for one in find(header, payload, position, wanted, start - header.base_offset):
        yield header.base_offset + one[0]


def _there(batch: Batch, start: int) -> Iterable[int]:
    """Where it has records from `start` on."""
    if not read_header(batch.data).sparse:
        return range(max(start, batch.base_offset), batch.end_offset)
    return (offset for offset, _ in subjects_from(batch, start))


def _frame(log: PartitionId, batch: Batch, offsets: Sequence[int], flight: Flight) -> bytes:
    """The whole batch, unless it is more than twice as many and a part of it is quickly made: others would be
    sent, and decoded, each time.
    """
    start, end = offsets[0], offsets[-1] + 1
    if end - start == len(offsets) and 2 * len(offsets) < read_header(batch.data).records:
        part = copied_part(log, batch, start, end, flight.places)
        if part is not None:
            return part.data
    return batch.data
