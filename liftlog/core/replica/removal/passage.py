"""A leader goes through its data in order, for what the headers of committed messages ask of it (R23, R24).

From memory, as far as the messages are there, and else storage reads them. Records are decoded only of
batches in which the header's name is found: all others cost the search for one word.

Entries of the journal say how far a leader has come (`RolledUp`, `Outlived`; `SaidThrough` writes them), and
of which epoch the last record is that they are about. The next leader begins there, if it has that record.
"""

from __future__ import annotations

from collections.abc import Callable

from liftlog.core.replica.removal.entries import Outlived, RolledUp, encode_come_to
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.role import LeaderState
from liftlog.core.replica.state.tail import cut_batches
from liftlog.format import CorruptBatch, decode_records, encode_values, plain_payload, read_header
from liftlog.messages import LogRead, ReadLog
from liftlog.types import Batch, LiftlogError, Record

SLICE_BYTES = 128 * 1024
"""What a leader reads at once of its log, about: a few milliseconds of its step."""
SLICES_AT_ONCE = 2
"""And of what is in memory so many of these in a step."""


class Passage:
    """Of a leader, in one epoch. `at`: what lies below is gone through."""

    __slots__ = ("_ctx", "_data", "_found", "_has_room", "_word", "at", "request")

    def __init__(
        self, data: LogState, word: bytes, found: Callable[[Record], None], has_room: Callable[[], bool]
    ) -> None:
        """`word`: what is looked for in the bytes of a batch. `found`: told each record of one that has it.
        `has_room`: whether to go on after that.
        """
        self._data = data
        self._ctx = data.ctx
        self._word = word
        self._found = found
        self._has_room = has_room
        self.at = 0
        self.request = 0
        """The read of storage that is under way; 0 = none."""

    def begin(self, at: int) -> int:
        """Go through what lies from there on, or from the log's start: where that is."""
        self.at = max(at, self._data.log_start)
        return self.at

    def is_of_ours(self, said: RolledUp | Outlived) -> bool:
        """Whether this is about the records that are here."""
        data, through = self._data, said.through
        if through <= data.log_start:
            return True  # There are none below.
        return through <= data.hw and data.history.epoch_before(through) == said.epoch

    def go_on(self, until: int) -> bool:
        """Go through what lies below `until`, or have storage read it. False: it cannot be unpacked."""
        data = self._data
        self.at = max(self.at, data.log_start)
        for _ in range(SLICES_AT_ONCE):
            if self.at >= until or not self._has_room():
                break
            before, batches = self.at, data.cached(self.at, until, SLICE_BYTES)
            if not batches:
                self._read(until)
                break
            if not self._take(batches):
                return False
            if self.at == before:
                break
        return True

    def _read(self, until: int) -> None:
        request = self._ctx.new_ticket()
        if self._ctx.reads.begin_fold(self._data.id, request):
            self.request = request
            self._ctx.effects.append(ReadLog(self._data.id, request, self.at, until, SLICE_BYTES))

    def on_read(self, event: LogRead, until: int) -> bool:
        """Storage has read a slice. False: it could not, or it cannot be unpacked."""
        self.request = 0
        if event.error or not event.batches:
            return False
        return self._take(cut_batches(self._data.id, event.batches, until))

    def _take(self, batches: list[Batch]) -> bool:
        try:
            for batch in batches:
                for record in self._candidates(batch):
                    if record.offset >= self.at:
                        self._found(record)
                self.at = max(self.at, batch.end_offset)
        except (CorruptBatch, LiftlogError):
            return False
        return True

    def _candidates(self, batch: Batch) -> list[Record]:
        """The records of a batch, none if none asks for anything. Raises CorruptBatch, LiftlogError."""
        header = read_header(batch.data)
        payload = batch.data if header.codec == "none" else plain_payload(header, batch.data)
        return decode_records(batch) if self._word in payload else []


UNKNOWN = -1
"""Where a leader has to begin is not known yet."""


class SaidThrough:
    """Up to where a leader's journal says that it has come; `through`: UNKNOWN before it has begun."""

    __slots__ = ("_data", "_kind", "_leading", "_log", "_moved", "through")

    def __init__(
        self,
        log: LogState,
        leading: LeaderState,
        data: LogState,
        kind: type[RolledUp | Outlived],
        moved: Callable[[], None],
    ) -> None:
        """`log`: the journal. `kind`: of its entries. `moved`: whom to tell that one was written."""
        self._log = log
        self._leading = leading
        self._data = data
        self._kind = kind
        self._moved = moved
        self.through = UNKNOWN

    def begin(self, through: int) -> None:
        """So far the leader before this one has come."""
        self.through = through

    def say(self, through: int, least: int) -> bool:
        """Write it, if that is so much further than what was said. Whether it is."""
        log, data = self._log, self._data
        if through - self.through < least or through <= data.log_start:
            return False
        self.through = through
        entry = encode_come_to(self._kind(data.history.epoch_before(through), through))
        log.append([encode_values(log.id, log.leo, self._leading.epoch, log.ctx.wall_ms, [entry])])
        self._moved()
        return True
