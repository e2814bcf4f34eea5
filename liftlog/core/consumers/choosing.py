"""Which of the messages that were read a consumer is given: what is due again, or what comes next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from liftlog.batchparts import copied_part, subjects_from
from liftlog.core.consumers.flight import Flight
from liftlog.format import read_header
from liftlog.picking import only
from liftlog.subjects.grammar import SEPARATOR, tokens_match
from liftlog.types import Batch, PartitionId


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
    for batch in batches:
        picked: list[int] = []
        for offset in matching(batch, flight.filters, batch.base_offset if again else start):
            if offset in flight.lapsed if again else flight.wants(offset):
                picked.append(offset)
                if len(counts) + len(picked) >= most:
                    break
        if picked:
            counts += [(offset, flight.count(offset) + 1) for offset in picked]
            frames.append(_frame(log, batch, picked, bool(flight.filters)))
        if len(counts) >= most:
            return Chosen(counts, frames, counts[-1][0] + 1)
    return Chosen(counts, frames, batches[-1].end_offset if batches else start)


def matching(batch: Batch, filters: Sequence[Sequence[str]], start: int) -> Iterable[int]:
    """Where it has records from `start` on whose subjects one of the filters matches, if there are any."""
    if not filters:
        if not read_header(batch.data).sparse:
            return range(max(start, batch.base_offset), batch.end_offset)
        return (offset for offset, _ in subjects_from(batch, start))
    return _matching(batch, filters, start)


def _matching(batch: Batch, filters: Sequence[Sequence[str]], start: int) -> Iterator[int]:
    known: dict[bytes, bool] = {}
    for offset, subject in subjects_from(batch, start):
        wanted = known.get(subject)
        if wanted is None:
            tokens = subject.decode("utf-8", "replace").split(SEPARATOR)
            wanted = known[subject] = any(tokens_match(one, tokens) for one in filters)
        if wanted:
            yield offset


def _frame(log: PartitionId, batch: Batch, offsets: Sequence[int], filtered: bool) -> bytes:
    """A frame with these records. A filtered one has no others; else the whole batch goes, unless it is
    more than twice as many and a part of it is quickly made: others would be sent, and decoded, each time.
    """
    records = read_header(batch.data).records
    if len(offsets) == records:
        return batch.data
    start, end = offsets[0], offsets[-1] + 1
    if end - start == len(offsets) and (filtered or 2 * len(offsets) < records):
        part = copied_part(log, batch, start, end)
        if part is not None:
            return part.data
    return only(log, batch, frozenset(offsets)).data if filtered else batch.data
