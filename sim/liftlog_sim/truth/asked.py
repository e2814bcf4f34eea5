"""What clients have asked to have deleted of a partition, and what of that must stay (R21).

    NothingElseGone   a committed entry names committed records only that somebody has asked to have deleted:
                      by its offset, or by a purge whose filter matches it and whose end lies above it; and
                      none of those that the purge had to leave: the newest of what was there when it was
                      asked for; or of whose subject as many newer ones are left as the stream keeps (R22); or
                      which lie before a committed message that rolls them up (R23); or whose time was over by
                      the clock of the leader that wrote the entry (R24)
    PurgeTakesAll     when a purge is answered, no more of what it was asked for are left than it had to leave
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from liftlog.core.replica.removal.entries import Named
from liftlog.messages import PurgeSubjectsRequest
from liftlog.options.headers import ALL_BEFORE, rolled_up_by
from liftlog.options.lifetime import stored_lifetime
from liftlog.subjects.grammar import pattern_tokens, tokens_match
from liftlog.types import NUMBER_MAX
from liftlog_sim.truth.invariants import PartitionTruth


class AskedPurge:
    """`known`: entries of the journal below there were committed when it was asked for."""

    __slots__ = ("_kept", "_tokens", "known", "request")

    def __init__(self, request: PurgeSubjectsRequest, known: int) -> None:
        self.request = request
        self.known = known
        self._tokens = pattern_tokens(request.pattern)
        self._kept: frozenset[int] | None = None

    def matching(self, data: PartitionTruth) -> list[int]:
        """Committed offsets that it is about."""
        end = min(self.request.below, data.hw)
        return [offset for offset in range(end) if self._matches(offset, data)]

    def _matches(self, offset: int, data: PartitionTruth) -> bool:
        record = data.contents.committed[offset] if offset < self.request.below else None
        return record is not None and tokens_match(self._tokens, record.subject.decode().split("."))

    def takes(self, offset: int, data: PartitionTruth, named: Mapping[Named, int]) -> bool:
        """Whether this record may go by it. Nothing may before all that it is about is committed."""
        if not self._matches(offset, data) or data.hw < self.request.below:
            return False
        if not self.request.keep:
            return True
        if self._kept is None:
            gone = {at for (at, _), end in named.items() if end <= self.known}
            there = [at for at in self.matching(data) if at not in gone]
            self._kept = frozenset(there[-self.request.keep :])
        return offset not in self._kept


class AskedDeletions:
    """Of one partition."""

    __slots__ = ("offsets", "purges")

    def __init__(self) -> None:
        self.offsets: set[int] = set()
        self.purges: list[AskedPurge] = []

    def purge(self, request: PurgeSubjectsRequest, known: int) -> None:
        """A client asks for this now."""
        self.purges.append(AskedPurge(request, known))

    def unasked(self, offset: int, data: PartitionTruth, named: Mapping[Named, int]) -> str:
        """What is wrong with an entry that names this record of the data; empty if nothing."""
        if offset >= data.hw:
            return f"offset {offset}, and {data.hw} are committed"
        if offset in self.offsets or any(one.takes(offset, data, named) for one in self.purges):
            return ""
        return f"offset {offset}, which nobody has asked to have deleted, or which was to stay"


def newer_of_subject(data: PartitionTruth, offset: int, gone: Collection[int]) -> int:
    """How many committed records behind this one are of its subject, and not gone (R22)."""
    committed = data.contents.committed
    record = committed[offset]
    if record is None:
        return 0
    others = (committed[at] for at in range(offset + 1, data.hw) if at not in gone)
    return sum(other is not None and other.subject == record.subject for other in others)


def was_rolled_up(data: PartitionTruth, offset: int) -> bool:
    """Whether a committed message behind this one takes it (R23)."""
    committed = data.contents.committed
    record = committed[offset] if offset < data.hw else None
    if record is None:
        return False
    for newer in committed[offset + 1 : data.hw]:
        what = rolled_up_by(newer.headers) if newer is not None else b""
        if newer is not None and what and (what == ALL_BEFORE or newer.subject == record.subject):
            return True
    return False


def over_at(data: PartitionTruth, offset: int) -> int:
    """When the time of a committed record is over, in ms of wall clocks; NUMBER_MAX: it stays (R24)."""
    record = data.contents.committed[offset] if offset < data.hw else None
    lifetime = stored_lifetime(record.headers) if record is not None else 0
    return record.timestamp_ms + lifetime if record is not None and lifetime else NUMBER_MAX


def left_of(
    request: PurgeSubjectsRequest, start: int, journal: int, data: PartitionTruth, named: Mapping[Named, int]
) -> list[int]:
    """What a purge is about that is left, at `start` and above, to who knows so much of the journal."""
    gone = {at for (at, _), end in named.items() if end <= journal}
    return [at for at in AskedPurge(request, 0).matching(data) if at >= start and at not in gone]
