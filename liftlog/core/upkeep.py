"""What a replica does for its log beside replicating it: retention, compaction, scrubbing (C1, C2, C3, D2).

All of it is done by storage, a slice at a time. A replica has at most one such job in work, so that appends
never wait behind more than one slice; what is due meanwhile waits here, the most urgent first:

    moving the log start     a purge, or what the leader's log start tells a follower (C3)
    repair                   batches for a damaged range (D2)
    retention                on the leader, every `retention_check_ms`; followers take over its log start
    compaction               on every replica, every `compaction_check_ms`, until storage says done
    scrubbing                all the time, within `scrub_bytes_per_s` of the whole node

Compaction and scrubbing are throttled by credit: each tick adds what may be spent, a slice is begun when
there is enough for it. Everything here touches committed records only: an offset below this replica's own HW
and its durable LEO is final, whatever epoch the replica is in.

Tombstones (C2). A tombstone may go when no older record of its key is left on any replica, and none can come
back. Every replica reports its clean point; the leader takes the least over *all* replicas, 0 for those that
it has not heard of in this epoch and incarnation, and tells it in its fetch replies. Below that offset, at
the moment when the leader computes it, no replica has two records of one key. From then on nobody can get an
older one: a copy that is wiped, reset or repaired gets its records from one of these logs. So the statement
stays true for ever, and a replica keeps the greatest that it has heard, across epochs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from liftlog.messages import (
    Compacted,
    CompactLog,
    LogRepaired,
    LogStartMoved,
    MoveLogStart,
    RepairLog,
    RetainLog,
    Scrubbed,
    ScrubLog,
    StorageJob,
)
from liftlog.types import Batch, OffsetRange

if TYPE_CHECKING:
    from liftlog.core.replica import Replica

SLICE_BYTES = 256 * 1024
"""What one job of compaction or scrubbing reads and writes, about: a few milliseconds of a disk."""
MS = 1000


class Upkeep:
    """One replica's background work. `busy`: a job is with storage."""

    __slots__ = (
        "busy",
        "compact_credit",
        "compact_ticks",
        "compacting",
        "ctx",
        "job_outdated",
        "replica",
        "retain_ticks",
        "scrub_credit",
        "scrub_offset",
        "to_repair",
        "wanted_start",
    )

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.ctx = replica.ctx
        self.busy = False
        self.job_outdated = False
        """The log was reset after the job in work was given out: its answer means nothing any more."""
        self.wanted_start = 0
        self.to_repair: tuple[OffsetRange, list[Batch], int] | None = None
        self.retain_ticks = 0
        self.compact_ticks = 0
        self.compacting = False
        self.compact_credit = 0
        self.scrub_credit = 0
        self.scrub_offset = 0

    # -- what others ask for ----------------------------------------------------------------------

    def opened(self) -> None:
        """The log was opened (anew): storage has answered everything that it was asked before."""
        self.busy = self.job_outdated = self.compacting = False
        self.to_repair = None
        self.wanted_start = 0
        self.scrub_offset = self.replica.log_start

    def outdated(self) -> None:
        """The log was reset."""
        self.job_outdated = self.busy
        self.compacting = False
        self.to_repair = None
        self.wanted_start = 0
        self.scrub_offset = self.replica.log_start

    def want_start(self, offset: int) -> None:
        """C3: the log is to begin at `offset`, once everything below it is committed here and durable."""
        if offset > self.wanted_start:
            self.wanted_start = offset
            self._next()

    def repair(self, damaged: OffsetRange, batches: list[Batch], dropped_below: int) -> None:
        """D2: hand refetched batches to storage; `Repairs.repaired` gets the answer."""
        self.to_repair = (damaged, batches, dropped_below)
        self._next()

    # -- time -------------------------------------------------------------------------------------

    def tick(self) -> None:
        ctx, config = self.ctx, self.ctx.config
        self.retain_ticks += 1
        self.compact_ticks += 1
        if self.compact_ticks >= ctx.ticks_of(config.compaction_check_ms):
            self.compact_ticks = 0
            self.compacting = True
        earned = config.compaction_bytes_per_s * config.tick_ms
        self.compact_credit = min(self.compact_credit + earned, max(earned, SLICE_BYTES * MS))
        self.scrub_credit = min(
            self.scrub_credit + config.scrub_bytes_per_s * config.tick_ms, self._scrub_price()
        )
        self._next()

    def _scrub_price(self) -> int:
        """The rate is the node's, shared by its replicas."""
        return SLICE_BYTES * MS * max(1, self.ctx.replica_count)

    @property
    def settled(self) -> int:
        """Everything below is committed and durable here."""
        return min(self.replica.hw, self.replica.durable_leo)

    def _next(self) -> None:
        """Give storage the most urgent job, if it has none of ours."""
        if self.busy or self.replica.state != "ready":
            return
        job = self._move() or self._repair() or self._retain() or self._compact() or self._scrub()
        if job is not None:
            self.busy = True
            self.ctx.effects.append(job)

    # -- the jobs ---------------------------------------------------------------------------------

    def _move(self) -> StorageJob | None:
        # Who wants it asks again while it has not happened: followers with each reply, a purge at each tick.
        if self.wanted_start > self.settled:
            self.ctx.mark("C3.settled")
        target, self.wanted_start = min(self.wanted_start, self.settled), 0
        return MoveLogStart(self.replica.id, target) if target > self.replica.log_start else None

    def _repair(self) -> StorageJob | None:
        if self.to_repair is None:
            return None
        damaged, batches, dropped_below = self.to_repair
        self.to_repair = None
        # What comes from the leader may be less compacted than what was here (C2).
        self.replica.clean_point = min(self.replica.clean_point, damaged.start)
        return RepairLog(self.replica.id, damaged, batches, dropped_below)

    def _retain(self) -> StorageJob | None:
        if self.replica.leading is None:
            return None
        if self.retain_ticks < self.ctx.ticks_of(self.ctx.config.retention_check_ms):
            return None
        self.retain_ticks = 0
        config = self.replica.config
        if config is None or config.retention.unlimited:
            return None
        self.ctx.mark("C3.retain")
        return RetainLog(self.replica.id, config.retention, self.settled, self.ctx.wall_ms)

    def _compact(self) -> StorageJob | None:
        config = self.replica.config
        if not self.compacting or config is None or not config.compact:
            return None
        if self.compact_credit < SLICE_BYTES * MS:
            return None
        self.compact_credit -= SLICE_BYTES * MS
        leading = self.replica.leading
        below = leading.tombstones_below() if leading is not None else self.replica.tombstones_below
        if self.settled < self.replica.leo:
            self.ctx.mark("C1.settled")
        if below < self.replica.clean_point:
            self.ctx.mark("C2.tombstones")
        return CompactLog(
            self.replica.id, config.compaction, self.settled, below, self.ctx.wall_ms, SLICE_BYTES
        )

    def _scrub(self) -> StorageJob | None:
        price = self._scrub_price()
        if not self.ctx.config.scrub_bytes_per_s or self.scrub_credit < price:
            return None
        self.scrub_credit -= price
        return ScrubLog(self.replica.id, max(self.scrub_offset, self.replica.log_start), SLICE_BYTES)

    # -- the answers ------------------------------------------------------------------------------

    def _answered(self) -> bool:
        """A job has ended; whether its answer still means anything."""
        outdated = self.job_outdated
        self.busy = self.job_outdated = False
        return not outdated and self.replica.state == "ready"

    def refused(self) -> None:
        """Storage would not do a job, a full disk say (D5). It becomes due again; nothing else suffers."""
        self.ctx.mark("D5.upkeep-refused")
        self.busy = self.job_outdated = self.compacting = False

    def moved(self, event: LogStartMoved) -> None:
        if self._answered():
            self.replica.log_start_moved(event.log_start)
        self._next()

    def compacted(self, event: Compacted) -> None:
        if self._answered():
            replica = self.replica
            if event.clean_point > replica.clean_point:
                self.ctx.mark("C1.clean")
            replica.clean_point = event.clean_point
            replica.cache.forget_below(event.clean_point)
            if event.dropped_below > replica.dropped_below:
                self.ctx.mark("C2.dropped")
                replica.dropped_below = event.dropped_below
            if event.error:
                self.ctx.mark("C1.failed")
                replica.repairs.note(event.damage)
            if event.error or event.done:
                self.compacting = False
        self._next()

    def scrubbed(self, event: Scrubbed) -> None:
        if self._answered():
            if event.next_offset <= self.scrub_offset:
                self.ctx.mark("D2.scrubbed")
            self.scrub_offset = event.next_offset
            self.replica.repairs.note(event.damage)
        self._next()

    def repaired(self, event: LogRepaired) -> None:
        if self._answered():
            self.replica.repairs.repaired(event)
        self._next()
