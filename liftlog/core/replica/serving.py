"""What a leader answers its followers: fetches, and damaged ranges (R6, R7, D2, C3, C5).

A fetch is answered in one of these ways, in this order of questions:

    another epoch or incarnation       FENCED, UNKNOWN: nothing that could be acted on
    it begins below our log start      BELOW_START: the follower forgets what it has and begins there
    its last record is not ours        DIVERGED: our greatest epoch not above the follower's, and its end;
                                       or, if we do not know that far back, BELOW_START
    whether it is ours lies in damage  DAMAGED: nothing until we know (`Damage.blur`)
    otherwise                          OK: what follows, now or when there is something

Batches go out as they lie here. The first may begin before the asked offset, because we have compacted and
the follower ends inside a batch of ours: it cuts (C5).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from liftlog.core.context import Context
from liftlog.core.replica.state.beginning import first_of
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.role import FollowerState, LeaderState
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


class Serving:
    """Fetches of one leadership. `reads`: those that wait for storage, by the number of the read.

    A follower has one read under way (L3). What it asks meanwhile, again or from elsewhere, takes the place
    of what it asked before: only the newest answer counts for it (R6).
    """

    __slots__ = ("ctx", "leading", "log", "newest", "reads")

    def __init__(self, log: LogState, leading: LeaderState) -> None:
        self.log = log
        self.leading = leading
        self.ctx = log.ctx
        self.reads: dict[int, tuple[int, Fetch | RangeFetch]] = {}
        self.newest: dict[tuple[int, bool], Fetch | RangeFetch] = {}
        """What a follower with a read under way has asked since."""

    # -- fetches (R6, R7) -------------------------------------------------------------------------

    def admits(self, sender: int, fetch: Fetch) -> bool:
        """Whether this follower's log is a prefix of ours, and it may have what follows; else it is told."""
        log = self.log
        status = self._check(sender, fetch.epoch, fetch.incarnation)
        if status != FETCH_OK:
            refuse(self.ctx, sender, fetch, status)
        elif fetch.offset < log.log_start and not self.ctx.mutants.fetch_not_fenced:
            self._send_below_start(sender, fetch)
        elif self._matches(fetch.offset, fetch.last_epoch):
            return True
        elif log.damage.blur(log.history, fetch.offset, fetch.last_epoch):
            self.ctx.mark("D2.blurred")
            refuse(self.ctx, sender, fetch, FETCH_DAMAGED)
        else:
            self._send_divergence(sender, fetch)
        return False

    def park(self, sender: int, fetch: Fetch) -> None:
        """A fetch that was admitted: answered now, or when there is something to answer."""
        progress = self.leading.followers[sender]
        progress.park(fetch)
        if fetch.offset < self.log.leo:
            self._answer(sender, progress)

    def believes(self, sender: int, message: FetchProgress) -> bool:
        """Whether what a follower says of its progress may count."""
        return (
            self._check(sender, message.epoch, message.incarnation) == FETCH_OK
            and message.offset >= self.log.log_start
            and self.ctx.decides(("R6.progress-mismatch", self._matches(message.offset, message.last_epoch)))
        )

    def _check(self, sender: int, epoch: int, incarnation: int) -> int:
        """R6, I2: only this epoch, and only the follower's committed incarnation."""
        leading = self.leading
        if self.ctx.mutants.fetch_not_fenced:
            return FETCH_OK
        state = self.ctx.metadata.nodes.get(sender)
        known = sender in leading.record.replicas and state is not None
        current = known and state is not None and state.incarnation == incarnation
        present = epoch == leading.epoch
        if self.ctx.decides(("R6.fetch-epoch", present), ("I2.other-incarnation", current)):
            return FETCH_OK
        return FETCH_FENCED if epoch < leading.epoch else FETCH_UNKNOWN

    def _matches(self, offset: int, last_epoch: int) -> bool:
        """Whether the follower's log up to `offset` is a prefix of ours."""
        log = self.log
        if self.ctx.mutants.fetch_not_fenced:
            return True
        if self.ctx.mutants.cut_only_beyond_end:
            return offset <= log.leo
        if self.ctx.mutants.end_of_requested_epoch:
            return offset <= log.history.floor(last_epoch, log.leo)[1]
        if offset <= log.leo and log.history.epoch_before(offset) == last_epoch:
            return not log.damage.blur(log.history, offset, last_epoch)
        return log.damage.hides(log.history, offset, last_epoch)

    def _send_divergence(self, sender: int, fetch: Fetch) -> None:
        log = self.log
        self.ctx.mark("R6.mismatch")
        epoch, end = log.history.floor(fetch.last_epoch, log.leo)
        if epoch == 0 and self.ctx.mutants.unknown_epoch_gets_leo:
            epoch, end = fetch.last_epoch, log.leo
        if epoch == 0 and begins_late(log.history, log.log_start, first_of(log)):
            # Our history does not reach back to an epoch that both logs have.
            self._send_below_start(sender, fetch)
        else:
            self._send(sender, fetch, FETCH_DIVERGED, epoch=epoch, end=end)

    def _send_below_start(self, sender: int, fetch: Fetch) -> None:
        """C3: the epoch before the log start goes along, since the next fetch will be asked for it."""
        self.ctx.mark("C3.below-start")
        log = self.log
        before = entry_before(log.history, log.log_start)
        epoch, start = before if before is not None else (0, log.log_start)
        self._send(sender, fetch, FETCH_BELOW_START, epoch=epoch, end=start)

    def leo_moved(self) -> None:
        """There is something now for those who wait."""
        for node, progress in self.leading.followers.items():
            if progress.parked is not None:
                self._answer(node, progress)

    def tick(self) -> None:
        """Nobody waits for ever, nor to hear of a HW or a log start that has moved (R8, C3)."""
        log, wait = self.log, self.ctx.ticks_of(self.ctx.config.fetch_wait_ms)
        for node, progress in self.leading.followers.items():
            if progress.parked is not None and (
                progress.sent_hw != log.hw
                or progress.sent_start != log.log_start
                or progress.parked_ticks >= wait
                or (progress.parked.offset < log.leo and self._is_moving_to(node))
            ):
                self._answer(node, progress)

    def _answer(self, node: int, progress: FollowerState) -> None:
        """Answer a follower's parked fetch with what there is."""
        fetch = progress.parked
        if fetch is None:
            return
        log = self.log
        held_back = fetch.offset < log.leo and self._is_throttled(node)
        if held_back and progress.parked_ticks < self.ctx.ticks_of(self.ctx.config.fetch_wait_ms):
            return
        progress.unpark()
        batches: list[Batch] | None = []
        if fetch.offset < log.leo and not held_back:
            cut = self.ctx.mutants.fetch_cut_to_size and fetch.max_bytes == 1
            batches = log.cached(fetch.offset, fetch.offset + 1 if cut else log.leo, fetch.max_bytes)
            if batches is None:
                self._read(node, fetch)
                return
        self._send_batches(node, fetch, batches or [], FETCH_OK)

    def _is_throttled(self, node: int) -> bool:
        """R20: whether a copy that a move has begun has to wait; it is told so often that we live."""
        ctx = self.ctx
        if not self._is_moving_to(node) or not ctx.config.move_bytes_per_s or ctx.move_credit > 0:
            return False
        ctx.mark("R20.throttled")
        return True

    def _is_moving_to(self, node: int) -> bool:
        record = self.leading.record
        return node in record.adding and node not in record.isr

    def _send_batches(self, node: int, fetch: Fetch, batches: list[Batch], status: int) -> None:
        log = self.log
        progress = self.leading.followers.get(node)
        if progress is not None:
            progress.sent(log.hw, log.log_start)
        if batches and self._is_moving_to(node):
            self.ctx.spend_on_moves(sum(len(batch.data) for batch in batches))
        self._send(node, fetch, status, [batch.data for batch in batches], hw=log.hw)

    def _send(
        self,
        node: int,
        fetch: Fetch,
        status: int,
        frames: Sequence[bytes] = (),
        *,
        hw: int = 0,
        epoch: int = 0,
        end: int = 0,
    ) -> None:
        log = self.log
        reply = FetchReply(
            partition=log.id,
            epoch=self.leading.epoch,
            incarnation=fetch.incarnation,
            request=fetch.request,
            status=status,
            hw=hw,
            log_start=log.log_start,
            leader_leo=log.leo,
            end_epoch=epoch,
            end_offset=end,
            batches=list(frames),
            tombstones_below=log.horizon(),
            dropped_below=log.dropped_below,
        )
        self.ctx.effects.append(Send(node, reply))

    # -- damaged ranges (D2) ----------------------------------------------------------------------

    def on_range_fetch(self, sender: int, fetch: RangeFetch) -> None:
        """A follower whose log is a prefix of ours cannot read a part of it."""
        log = self.log
        status = self._check(sender, fetch.epoch, fetch.incarnation)
        progress = self.leading.followers.get(sender)
        if status == FETCH_OK and progress is None:
            status = FETCH_UNKNOWN
        elif status == FETCH_OK and fetch.end > log.leo:
            # V3: it has fetched in this epoch, so its log is a prefix of ours.
            self.ctx.refuse("V3", sender, fetch, f"offset {fetch.end}, beyond our end {log.leo}")
            return
        elif status == FETCH_OK and fetch.offset < log.log_start:
            status = FETCH_BELOW_START
        if status != FETCH_OK or progress is None:
            self._send_range(sender, fetch, status, [])
            return
        progress.uncleaned(fetch.request, fetch.offset)
        limit = min(fetch.end, log.leo)
        batches = log.cached(fetch.offset, limit, fetch.max_bytes)
        if batches is None:
            self._read(sender, fetch)
        else:
            self._send_range(sender, fetch, FETCH_OK, batches)

    def _send_range(self, node: int, fetch: RangeFetch, status: int, batches: list[Batch]) -> None:
        log = self.log
        reply = RangeReply(
            partition=log.id,
            epoch=self.leading.epoch,
            incarnation=fetch.incarnation,
            request=fetch.request,
            status=status,
            log_start=log.log_start,
            batches=[batch.data for batch in batches],
            dropped_below=log.dropped_below,
        )
        self.ctx.effects.append(Send(node, reply))

    # -- reading from storage ---------------------------------------------------------------------

    def _read(self, node: int, fetch: Fetch | RangeFetch) -> None:
        log = self.log
        is_range = isinstance(fetch, RangeFetch)
        request = self.ctx.new_ticket()
        if not self.ctx.reads.begin_for((log.id, node, is_range), request):
            under_way = [(who, isinstance(old, RangeFetch)) for who, old in self.reads.values()]
            if (node, is_range) in under_way:
                self.ctx.mark("L3.fetch-again")
                self.newest[node, is_range] = fetch
            else:
                self._overloaded(node, fetch)
            return
        self.reads[request] = (node, fetch)
        self.ctx.effects.append(ReadLog(log.id, request, fetch.offset, log.leo, fetch.max_bytes))

    def _overloaded(self, node: int, fetch: Fetch | RangeFetch) -> None:
        """L3: no place for this read, or one of an earlier leadership is in it; the follower asks again."""
        self.ctx.mark("L3.fetches")
        if isinstance(fetch, RangeFetch):
            self._send_range(node, fetch, FETCH_UNKNOWN, [])
        else:
            refuse(self.ctx, node, fetch, FETCH_UNKNOWN)

    def on_read(self, event: LogRead) -> None:
        """A range came back from storage that is in `reads`."""
        node, fetch = self.reads.pop(event.request)
        newest = self.newest.pop((node, isinstance(fetch, RangeFetch)), None)
        if newest is not None:
            if newest.offset != fetch.offset or newest.max_bytes < fetch.max_bytes:
                self._read(node, newest)
                return
            fetch = newest
        status, batches = FETCH_OK, event.batches
        if event.error:
            self.ctx.mark("D2.unreadable")
            status, batches = FETCH_DAMAGED, []
        elif not batches or not batches[0].base_offset <= fetch.offset < batches[0].end_offset:
            return  # The log start has passed it meanwhile: the follower asks again.
        if isinstance(fetch, RangeFetch):
            self._send_range(node, fetch, status, batches)
        else:
            self._send_batches(node, fetch, batches, status)


def entry_before(history: EpochHistory, offset: int) -> EpochStart | None:
    """The entry of the record at `offset - 1`; None if the history does not reach back to it."""
    position = bisect_left(history.entries, offset, key=lambda entry: entry.start) - 1
    return history.entries[position] if position >= 0 else None


def begins_late(history: EpochHistory, log_start: int, first: int) -> bool:
    """Whether the history lacks what lies before its first entry: it was not copied from the first offset on
    (C7).
    """
    return history.entries[0].start > first if history.entries else log_start > first


# -- refusals ----------------------------------------------------------------------------------------------


def refuse(ctx: Context, sender: int, fetch: Fetch, status: int) -> None:
    """R6: a wrong epoch is answered without any data that could be acted on."""
    ctx.mark("R6.fenced" if status == FETCH_FENCED else "R6.unknown")
    ctx.effects.append(refusal(sender, fetch, status))


def refusal(sender: int, fetch: Fetch, status: int) -> Send:
    """An answer that says only that this fetch cannot be served here and now."""
    return Send(sender, FetchReply.refused(fetch, status))


def range_refusal(sender: int, fetch: RangeFetch, status: int, log_start: int = 0) -> Send:
    """The same for a range."""
    return Send(sender, RangeReply.refused(fetch, status, log_start))
