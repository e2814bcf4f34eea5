"""What a leader answers its followers: fetches, and damaged ranges (R6, R7, D2, C3, C5).

A fetch is answered in one of these ways, in this order of questions:

    another epoch or incarnation       FENCED, UNKNOWN: nothing that could be acted on
    it begins below our log start      BELOW_START: the follower forgets what it has and begins there
    its last record is not ours        DIVERGED: our greatest epoch not above the follower's, and its end;
                                       or, if we do not know that far back, BELOW_START
    whether it is ours lies in damage  DAMAGED: nothing until we know (`Repairs.blur`)
    otherwise                          OK: what follows, now or when there is something

Batches go out as they lie here. The first may begin before the asked offset, because we have compacted and
the follower ends inside a batch of ours: it cuts (C5).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from liftlog.epochs import EpochHistory
from liftlog.messages import (
    FETCH_BELOW_START,
    FETCH_DAMAGED,
    FETCH_DIVERGED,
    FETCH_FENCED,
    FETCH_OK,
    FETCH_UNKNOWN,
    Fetch,
    FetchProgress,
    FetchReply,
    LogRead,
    RangeFetch,
    RangeReply,
    ReadLog,
    Send,
)
from liftlog.types import Batch, EpochStart

if TYPE_CHECKING:
    from liftlog.core.leader import FollowerState, Leadership


class Serving:
    """Fetches of one leadership. `reads`: those that wait for storage, by the number of the read.

    A follower has one read under way (L3). What it asks meanwhile, again or from elsewhere, takes the place
    of what it asked before: only the newest answer counts for it (R6).
    """

    __slots__ = ("ctx", "leadership", "newest", "reads", "replica")

    def __init__(self, leadership: Leadership) -> None:
        self.leadership = leadership
        self.replica = leadership.replica
        self.ctx = leadership.ctx
        self.reads: dict[int, tuple[int, Fetch | RangeFetch]] = {}
        self.newest: dict[tuple[int, bool], Fetch | RangeFetch] = {}
        """What a follower with a read under way has asked since."""

    # -- fetches (R6, R7) -------------------------------------------------------------------------

    def on_fetch(self, sender: int, fetch: Fetch) -> None:
        replica = self.replica
        status = self._check(sender, fetch.epoch, fetch.incarnation)
        if status != FETCH_OK:
            replica.refuse_fetch(sender, fetch, status)
            return
        if fetch.offset < replica.log_start and not self.ctx.mutants.fetch_not_fenced:
            self._send_below_start(sender, fetch)
            return
        if not self._matches(fetch.offset, fetch.last_epoch):
            if replica.repairs.blur(fetch.offset, fetch.last_epoch):
                self.ctx.mark("D2.blurred")
                replica.refuse_fetch(sender, fetch, FETCH_DAMAGED)
            else:
                self._send_divergence(sender, fetch)
            return
        progress = self.leadership.note(
            sender, fetch.incarnation, min(fetch.durable_leo, fetch.offset), fetch.log_start
        )
        progress.leo = max(progress.leo, fetch.offset)
        clean_point = min(fetch.clean_point, fetch.offset)
        if fetch.request > progress.request:
            # Only the newest one counts: a clean point goes back when a copy is reset or damaged (C2).
            progress.request = fetch.request
            progress.clean_point = clean_point
        elif clean_point < progress.clean_point:
            # Older, or after one with a number that nobody has come to: too low does no harm.
            progress.clean_point = clean_point
        progress.parked = fetch
        progress.parked_ticks = 0
        if fetch.offset < replica.leo:
            self.answer(sender, progress)

    def on_progress(self, sender: int, message: FetchProgress) -> None:
        if (
            self._check(sender, message.epoch, message.incarnation) == FETCH_OK
            and message.offset >= self.replica.log_start
            and self.ctx.decides(("R6.progress-mismatch", self._matches(message.offset, message.last_epoch)))
        ):
            durable = min(message.durable_leo, message.offset)
            self.leadership.note(sender, message.incarnation, durable, message.log_start)

    def _check(self, sender: int, epoch: int, incarnation: int) -> int:
        """R6, I2: only this epoch, and only the follower's committed incarnation."""
        leadership = self.leadership
        if self.ctx.mutants.fetch_not_fenced:
            return FETCH_OK
        state = self.ctx.metadata.nodes.get(sender)
        known = sender in leadership.record.replicas and state is not None
        current = known and state is not None and state.incarnation == incarnation
        present = epoch == leadership.epoch
        if self.ctx.decides(("R6.fetch-epoch", present), ("I2.other-incarnation", current)):
            return FETCH_OK
        return FETCH_FENCED if epoch < leadership.epoch else FETCH_UNKNOWN

    def _matches(self, offset: int, last_epoch: int) -> bool:
        """Whether the follower's log up to `offset` is a prefix of ours."""
        replica = self.replica
        if self.ctx.mutants.fetch_not_fenced:
            return True
        if self.ctx.mutants.end_of_requested_epoch:
            return offset <= replica.history.floor(last_epoch, replica.leo)[1]
        if offset <= replica.leo and replica.history.epoch_before(offset) == last_epoch:
            return not replica.repairs.blur(offset, last_epoch)
        return replica.repairs.hides(offset, last_epoch)

    def _send_divergence(self, sender: int, fetch: Fetch) -> None:
        replica = self.replica
        self.ctx.mark("R6.mismatch")
        epoch, end = replica.history.floor(fetch.last_epoch, replica.leo)
        if epoch == 0 and begins_late(replica.history, replica.log_start):
            # Our history does not reach back to an epoch that both logs have.
            self._send_below_start(sender, fetch)
        else:
            self._send(sender, fetch, FETCH_DIVERGED, [], 0, epoch, end)

    def _send_below_start(self, sender: int, fetch: Fetch) -> None:
        """C3: the epoch before the log start goes along, since the next fetch will be asked for it."""
        self.ctx.mark("C3.below-start")
        replica = self.replica
        before = entry_before(replica.history, replica.log_start)
        epoch, start = before if before is not None else (0, replica.log_start)
        self._send(sender, fetch, FETCH_BELOW_START, [], 0, epoch, start)

    def answer(self, node: int, progress: FollowerState) -> None:
        """Answer a follower's parked fetch with what there is."""
        fetch = progress.parked
        if fetch is None:
            return
        replica = self.replica
        progress.parked = None
        batches: list[Batch] | None = []
        if fetch.offset < replica.leo:
            batches = replica.cached(fetch.offset, replica.leo, fetch.max_bytes)
            if batches is None:
                self._read(node, fetch)
                return
        self._send_batches(node, fetch, batches or [], FETCH_OK)

    def _send_batches(self, node: int, fetch: Fetch, batches: list[Batch], status: int) -> None:
        replica = self.replica
        progress = self.leadership.followers.get(node)
        if progress is not None:
            progress.sent_hw = replica.hw
            progress.sent_start = replica.log_start
        self._send(node, fetch, status, [batch.data for batch in batches], replica.hw, 0, 0)

    def _send(
        self, node: int, fetch: Fetch, status: int, frames: list[bytes], hw: int, epoch: int, end: int
    ) -> None:
        replica = self.replica
        reply = FetchReply(
            replica.id,
            self.leadership.epoch,
            fetch.incarnation,
            fetch.request,
            status,
            hw,
            replica.log_start,
            replica.leo,
            epoch,
            end,
            frames,
            self.leadership.tombstones_below(),
            replica.dropped_below,
        )
        self.ctx.effects.append(Send(node, reply))

    # -- damaged ranges (D2) ----------------------------------------------------------------------

    def on_range_fetch(self, sender: int, fetch: RangeFetch) -> None:
        """A follower whose log is a prefix of ours cannot read a part of it."""
        replica = self.replica
        status = self._check(sender, fetch.epoch, fetch.incarnation)
        progress = self.leadership.followers.get(sender)
        if status == FETCH_OK and progress is None:
            status = FETCH_UNKNOWN
        elif status == FETCH_OK and fetch.end > replica.leo:
            # V3: it has fetched in this epoch, so its log is a prefix of ours.
            self.ctx.refuse("V3", sender, fetch, f"offset {fetch.end}, beyond our end {replica.leo}")
            return
        elif status == FETCH_OK and fetch.offset < replica.log_start:
            status = FETCH_BELOW_START
        if status != FETCH_OK or progress is None:
            self._send_range(sender, fetch, status, [])
            return
        # What it gets may be less compacted than what it had (C2).
        progress.request = max(progress.request, fetch.request)
        progress.clean_point = min(progress.clean_point, fetch.offset)
        limit = min(fetch.end, replica.leo)
        batches = replica.cached(fetch.offset, limit, fetch.max_bytes)
        if batches is None:
            self._read(sender, fetch)
        else:
            self._send_range(sender, fetch, FETCH_OK, batches)

    def _send_range(self, node: int, fetch: RangeFetch, status: int, batches: list[Batch]) -> None:
        replica = self.replica
        reply = RangeReply(
            replica.id,
            self.leadership.epoch,
            fetch.incarnation,
            fetch.request,
            status,
            replica.log_start,
            [batch.data for batch in batches],
            replica.dropped_below,
        )
        self.ctx.effects.append(Send(node, reply))

    # -- reading from storage ---------------------------------------------------------------------

    def _read(self, node: int, fetch: Fetch | RangeFetch) -> None:
        replica = self.replica
        is_range = isinstance(fetch, RangeFetch)
        request = self.ctx.new_ticket()
        if not self.ctx.reads.begin_for((replica.id, node, is_range), request):
            under_way = [(who, isinstance(old, RangeFetch)) for who, old in self.reads.values()]
            if (node, is_range) in under_way:
                self.ctx.mark("L3.fetch-again")
                self.newest[node, is_range] = fetch
            else:
                self._overloaded(node, fetch)
            return
        self.reads[request] = (node, fetch)
        self.ctx.effects.append(ReadLog(replica.id, request, fetch.offset, replica.leo, fetch.max_bytes))

    def _overloaded(self, node: int, fetch: Fetch | RangeFetch) -> None:
        """L3: no place for this read, or one of an earlier leadership is in it; the follower asks again."""
        self.ctx.mark("L3.fetches")
        if isinstance(fetch, RangeFetch):
            self._send_range(node, fetch, FETCH_UNKNOWN, [])
        else:
            self.replica.refuse_fetch(node, fetch, FETCH_UNKNOWN)

    def on_read(self, event: LogRead) -> bool:
        """A range came back from storage; False if it was not ours."""
        asked = self.reads.pop(event.request, None)
        if asked is None:
            return False
        node, fetch = asked
        newest = self.newest.pop((node, isinstance(fetch, RangeFetch)), None)
        if newest is not None:
            if newest.offset != fetch.offset or newest.max_bytes < fetch.max_bytes:
                self._read(node, newest)
                return True
            fetch = newest
        status, batches = FETCH_OK, event.batches
        if event.error:
            self.ctx.mark("D2.unreadable")
            self.replica.repairs.note(event.damage)
            status, batches = FETCH_DAMAGED, []
        elif not batches or not batches[0].base_offset <= fetch.offset < batches[0].end_offset:
            return True  # The log start has passed it meanwhile: the follower asks again.
        if isinstance(fetch, RangeFetch):
            self._send_range(node, fetch, status, batches)
        else:
            self._send_batches(node, fetch, batches, status)
        return True


def entry_before(history: EpochHistory, offset: int) -> EpochStart | None:
    """The entry of the record at `offset - 1`; None if the history does not reach back to it."""
    position = bisect_left(history.entries, offset, key=lambda entry: entry.start) - 1
    return history.entries[position] if position >= 0 else None


def begins_late(history: EpochHistory, log_start: int) -> bool:
    """Whether the history lacks what lies before its first entry: it was not copied from offset 0 on."""
    return history.entries[0].start > 0 if history.entries else log_start > 0
