"""The truth about streams with sources (R29).

    SourcesExact    each record that such a stream has committed is one that a source has committed, as it is
                    there; of each source they come in its order, each once, and what is left out does not
                    pass the filter, or is gone there
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from liftlog.core.replica.copying.passing import taking
from liftlog.messages.copying import Start
from liftlog.options.copied import copy_of
from liftlog.types import NUMBER_MAX, Record
from liftlog_sim.devices.elsewhere import FarLog
from liftlog_sim.truth.invariants import PartitionTruth, Violation
from liftlog_sim.truth.metadata import Naming
from liftlog_sim.truth.removals import DeletionTruth

Filters = tuple[tuple[str, Start], ...]
"""All that a source has had, with where it began. A record that passes none of them is never copied, and one
that passes all of them is never left out.
"""


def passed_by(filters: Filters, every: bool) -> Callable[[Record], bool]:
    """Whether a record passes each of them, or any."""
    passes = [taking(filter, start) for filter, start in filters]
    judge = all if every else any
    return lambda record: judge(one(record) for one in passes)


class SourceTruth(NamedTuple):
    """One partition of a source. `start`: where that copy of it begins which begins last."""

    truth: PartitionTruth
    filters: Filters
    start: int
    deletions: DeletionTruth

    @property
    def name(self) -> str:
        """For people."""
        return str(self.truth.id)

    @property
    def end(self) -> int:
        """So far it is committed."""
        return self.truth.hw

    def original(self, offset: int) -> Record | None:
        """What was committed there."""
        return self.truth.contents.committed[offset] if offset < self.end else None

    def owes(self, begin: int, end: int) -> int | None:
        """The first offset of [begin, end) that passes, and is not known to be gone; None: there is none."""
        passes, known = passed_by(self.filters, every=True), self.truth.contents.committed
        for offset in range(max(begin, self.start), end):
            record = known[offset]
            if record is not None and passes(record) and self.deletions.end_of(offset) >= NUMBER_MAX:
                return offset
        return None


class FarSourceTruth(NamedTuple):
    """The same of a source in another cluster. `naming`: None as long as the copy names none."""

    naming: Naming | None
    log: FarLog
    filters: Filters

    @property
    def name(self) -> str:
        return self.naming.identity if self.naming is not None else "nobody"

    @property
    def end(self) -> int:
        return len(self.log.records)

    def original(self, offset: int) -> Record | None:
        return self.log.records[offset] if offset < self.end else None

    def owes(self, begin: int, end: int) -> int | None:
        passes = passed_by(self.filters, every=True)
        for offset in range(begin, min(end, self.end)):
            record = self.log.has(offset)
            if record is not None and passes(record):
                return offset
        return None


AnySource = SourceTruth | FarSourceTruth


def sourced(
    copy: PartitionTruth, sources: Mapping[int, AnySource], places: dict[int, int], before: int
) -> None:
    """More of a stream with sources is committed than what lies below `before`. `places`: by source, the
    offset that is next; they move. Raises Violation(SourcesExact).
    """
    for offset in range(before, copy.hw):
        record = copy.contents.committed[offset]
        problem = "has an offset without a record" if record is None else _problem(record, sources, places)
        if problem:
            raise Violation("SourcesExact", f"partition {copy.id}, offset {offset}: {problem}")


def _problem(record: Record, sources: Mapping[int, AnySource], places: dict[int, int]) -> str:
    named = copy_of(record.headers)
    if named is None or named[0] not in sources:
        return f"{record.value!r} is of none of its sources"
    stream, at = named
    source, place = sources[stream], places.get(stream, 0)
    if at < place:
        return f"offset {at} of {source.name} was copied before, or left out: {place} is next"
    original = source.original(at)
    if original is None or _told(original) != _told(record):
        return f"{record.value!r} is not what lies at offset {at} of {source.name}"
    if not passed_by(source.filters, every=False)(original):
        return f"{record.subject!r} does not pass {' or '.join(map(str, source.filters))}"
    if (owed := source.owes(place, at)) is not None:
        return f"offset {owed} of {source.name} was left out, {at} is here"
    places[stream] = at + 1
    return ""


def _told(record: Record) -> tuple[bytes, bytes, bytes | None, bytes | None]:
    return record.subject, record.reply, record.key, record.value
