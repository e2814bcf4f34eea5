"""So much of a partition stays, and nothing that is too old (R25): the leader writes which messages go.

    count    how many messages are there, without what is gone? The sets of offsets say it; nobody is asked
    bytes    how much is there? The subject index says it, as `bytelimits` has it
    age      what is at the front is read: what is older than it may be goes, up to the first that is not
    write    what goes is at the front: a run of offsets or a few, in one entry of the journal (R21)

Whoever counts knows what is on its way to be gone, and counts only what limits by subject and roll-ups have
gone through (R22, R23): what these will take would else be counted, and messages that are to stay would go in
its place. What is too old goes whatever else does. A new leader finds the same, and a limit that was lowered
holds for what is there. Bytes follow when whole segments are gone (C3).

What is too old may be the last message of its subject, and is to leave a marker then (R24): that is judged
elsewhere (`markers.py`), of the front as of all that goes after a time.

Copies evaluate nothing: all hide what the entries name. The model is `front_limits`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from liftlog.core.replica.removal.bytelimits import ByteLimits
from liftlog.core.replica.removal.entries import RUNS_MAX
from liftlog.core.replica.removal.markers import AGAIN_MS, Markers, Over, over
from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.removal.rollups import RollUps
from liftlog.core.replica.removal.subjectlimits import SubjectLimits
from liftlog.core.replica.removal.subjectpurge import SubjectPurges
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.pausing import Pause
from liftlog.core.replica.state.tail import cut_batches
from liftlog.format import CorruptBatch, decode_records, last_timestamp_ms
from liftlog.messages import LogRead, ReadLog, SubjectsFolded, SubjectsTold
from liftlog.types import Batch, LiftlogError

SLICE_BYTES = 128 * 1024
"""What a leader reads of the front at once: a few milliseconds of its step."""
Looked = tuple[int, int, int, int]


class FrontLimits:
    """Of the leader of a journal, in one epoch."""

    __slots__ = (
        *("_ctx", "_data", "_front", "_front_of", "_looked", "_markers", "_moved", "_offered", "_oldest"),
        *("_pause", "_purges"),
        *("_removed", "limits", "request", "roll_ups", "sizes"),
    )

    def __init__(
        self,
        data: LogState,
        removed: Removed,
        purges: SubjectPurges,
        limits: SubjectLimits,
        roll_ups: RollUps,
        markers: Markers,
        moved: Callable[[], None],
    ) -> None:
        """`purges`: who else writes what goes. `limits`, `roll_ups`: who is to have looked first. `markers`:
        who judges what may leave one. `moved`: whom to tell that entries were written.
        """
        self._ctx = data.ctx
        self._data = data
        self._removed = removed
        self._purges = purges
        self.limits = limits
        self.roll_ups = roll_ups
        self._markers = markers
        self._moved = moved
        self.sizes = ByteLimits(limits.log, data, removed, purges)
        self._front = 0
        self._front_of: tuple[int, int, int] | None = None
        """The first message that is there, of what was heeded and where the data lay when it was found."""
        self._looked: Looked | None = None
        """Where all ended when so many messages were not there too many."""
        self._oldest = (0, 0)
        """The first message that is there, as far as that is known, and when it came."""
        self._pause = Pause(self._ctx)
        self._offered = (0, 0)
        """A front that was offered to those who may leave markers, and until which tick it waits for that."""
        self.request = 0
        """The read of the data that is under way; 0 = none."""

    def tick(self) -> None:
        """Write what goes, if anything does."""
        data, config = self._data, self._data.config
        if config is None or not config.limits_front:
            return
        now = self._removed.folded, data.log_start, data.hw
        if now != self._front_of:
            self._front, self._front_of = self._find_front(), now
            if data.leading is not None:
                data.leading.front_gone(self._front)
        if self._may_write() and not self._leave(until := self._until(), config.retention_messages):
            self.sizes.ask(min(until, data.hw), config.retention_bytes)
            self._expire(self._front, config.retention_ms)

    def _find_front(self) -> int:
        """The first message that is there."""
        data = self._data
        return self._removed.hidden(data.history).next_missing(data.log_start, data.hw)

    def _may_write(self) -> bool:
        """Whether this leader says what is gone, and nobody counts what stays meanwhile."""
        purges, removed = self._purges, self._removed
        if purges.counts or self.limits.asked or purges.refusal(self._data) is not None:
            return False
        on_way = max(purges.written, removed.committed)
        return removed.is_known and self._ctx.decides(("R25.on-its-way", removed.folded >= on_way))

    # -- how many --------------------------------------------------------------------------------------

    def _until(self) -> int:
        """What lies below here counts: others have gone through it."""
        data, ctx = self._data, self._ctx
        until = min(self.limits.through, self.roll_ups.through)
        if not ctx.decides(("R25.others-first", until >= data.hw)):
            return max(until, data.log_start)
        return data.leo if ctx.mutants.front_counts_uncommitted else data.hw

    def _leave(self, until: int, most: int) -> bool:
        """The newest so many, of what lies below `until`."""
        data, ctx = self._data, self._ctx
        looked = until, self._removed.folded, data.log_start, most
        if not most or looked == self._looked:
            return False
        gone = self._removed.hidden(data.history)
        counted = 0 if ctx.mutants.front_counts_deleted else gone.count(data.log_start, until)
        excess = until - data.log_start - counted - most
        if excess <= 0:
            self._looked = looked
            return False
        end = min(gone.after_missing(self._front, until, excess), data.hw)
        return self._write(self._front, end, "R25.too-many")

    # -- how much --------------------------------------------------------------------------------------

    @property
    def asked(self) -> int:
        """The question that storage has; 0 = none."""
        return self.sizes.asked

    def told(self, event: SubjectsTold | SubjectsFolded) -> bool:
        """The answer to the question `asked`: what is too much goes. Whether an entry was written."""
        data, purges, config = self._data, self._purges, self._data.config
        place = self.sizes.told(event, config.retention_bytes if config is not None else 0)
        front = self._find_front()
        if place <= front or purges.counts or purges.refusal(data) is not None:
            return False
        return self._write(front, min(place, data.hw), "R25.too-large")

    # -- how old ---------------------------------------------------------------------------------------

    def _expire(self, front: int, age_ms: int) -> None:
        """What is older than that, from the front up to the first that is not."""
        data, ctx = self._data, self._ctx
        if not age_ms or front >= data.hw or self.request or self._pause.on:
            return
        if self._offered[0] == front and self._offered[1] > ctx.ticks:
            return
        if self._oldest[0] == front and self._oldest[1] >= ctx.wall_ms - age_ms:
            return
        batches = data.cached(front, data.hw, SLICE_BYTES)
        if batches:
            self._take(batches, front, age_ms)
            return
        request = ctx.new_ticket()
        if ctx.reads.begin_fold(data.id, request):
            self.request = request
            ctx.effects.append(ReadLog(data.id, request, front, data.hw, SLICE_BYTES))

    def on_read(self, event: LogRead) -> None:
        """Storage has read the front, or could not."""
        self.request = 0
        data, config = self._data, self._data.config
        if event.error or not event.batches:
            self._leave_alone()
        elif config is not None and config.retention_ms and self._may_write():
            batches = cut_batches(data.id, event.batches, data.hw)
            self._take(batches, self._find_front(), config.retention_ms)

    def _take(self, batches: list[Batch], front: int, age_ms: int) -> None:
        """Look at the front. What lies before it in these is passed over, and so is what lies apart."""
        end, before_ms = front, self._ctx.wall_ms - age_ms
        gone = self._removed.hidden(self._data.history)
        old = list[Over]()
        if self._ctx.mutants.front_takes_to_last_old:
            batches = [one for one in batches if last_timestamp_ms(one.data) < before_ms][-1:]
            end = batches[0].base_offset if batches else end
        for batch in batches:
            if not batch.base_offset <= end < batch.end_offset:
                continue
            try:
                records = decode_records(batch)
            except (CorruptBatch, LiftlogError):
                self._leave_alone()
                break
            there = [one for one in records if one.offset >= end and one.offset not in gone]
            young = next((one for one in there if one.timestamp_ms >= before_ms), None)
            every = self._ctx.mutants.marker_of_marker
            old += [over(one, every) for one in there if young is None or one.offset < young.offset]
            if young is not None:
                end = young.offset
                self._oldest = (end, young.timestamp_ms)
                break
            end = batch.end_offset
        if end > front and not self._ctx.decides(("R25.clock", not self._ctx.wall_doubted)):
            return
        if end > front and self._markers.on:
            if self._markers.offer(old):
                self._offered = front, self._ctx.ticks + self._ctx.ticks_of(AGAIN_MS)
        elif end > front:
            self._write(front, end, "R25.too-old")

    def _leave_alone(self) -> None:
        self._ctx.mark("R25.paused")
        self._pause.begin()

    def _write(self, front: int, end: int, mark: str) -> bool:
        """All of this goes that is there, as far as an entry has room for it. Whether anything does."""
        data = self._data
        there = self._removed.hidden(data.history).missing_runs(front, end)
        writes = self._purges.write(tuple(islice(there, RUNS_MAX)), data.history)
        if writes:
            self._ctx.mark(mark)
            self._moved()
        return writes
