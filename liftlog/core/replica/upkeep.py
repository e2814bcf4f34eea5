"""What a replica does for its log beside replicating it: retention, compaction, scrubbing (C1, C2, C3, D2).

All of it is done by storage, a slice at a time. A replica has at most one such job in work, so that appends
never wait behind more than one slice; what is due meanwhile waits here, the most urgent first:

    moving the log start     a purge, or what the leader's log start tells a follower (C3, R29)
    repair                   batches for a damaged range (D2)
    retention                on the leader, every `retention_check_ms`; followers take over its log start
    compaction               on every replica, every `compaction_check_ms`, until storage says done
    scrubbing                all the time, within `scrub_bytes_per_s` of the whole node
    the subject index        while somebody asks, and for a time after; it takes what the others leave (S1)

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

from liftlog.core.replica.copying.sourcing import front_max
from liftlog.core.replica.state.log import FAILED, READY, LogState
from liftlog.messages import (
    Compacted,
    CompactLog,
    FoldSubjects,
    LogStartMoved,
    MoveLogStart,
    RepairLog,
    RetainLog,
    Scrubbed,
    ScrubLog,
    StorageJob,
    SubjectsFolded,
)
from liftlog.types import RetentionPolicy

SLICE_BYTES = 256 * 1024
"""What one job of compaction or scrubbing reads and writes, about: a few milliseconds of a disk."""
MS = 1000


class Upkeep:
    """One replica's background work. `busy`: a job is with storage."""

    __slots__ = (
        "_compact_after",
        "_compact_earned",
        "_compact_most",
        "_retain_after",
        "_scrub_earned",
        "busy",
        "compact_credit",
        "compact_ticks",
        "compacting",
        "ctx",
        "cut_meanwhile",
        "job_outdated",
        "log",
        "retain_ticks",
        "scrub_credit",
        "scrub_offset",
    )

    def __init__(self, log: LogState) -> None:
        self.log = log
        self.ctx = log.ctx
        self.busy = False
        self.job_outdated = False
        """The log was reset after the job in work was given out: its answer means nothing any more."""
        self.cut_meanwhile = False
        """Committed records were cut after the job in work was given out."""
        self.retain_ticks = 0
        self.compact_ticks = 0
        self.compacting = False
        self.compact_credit = 0
        self.scrub_credit = 0
        self.scrub_offset = 0
        # Reckoned once: every replica comes here at every tick, nearly always for nothing.
        ctx, config = self.ctx, self.ctx.config
        self._retain_after = ctx.ticks_of(config.retention_check_ms)
        self._compact_after = ctx.ticks_of(config.compaction_check_ms)
        self._compact_earned = config.compaction_bytes_per_s * config.tick_ms
        self._compact_most = max(self._compact_earned, SLICE_BYTES * MS)
        self._scrub_earned = config.scrub_bytes_per_s * config.tick_ms

    # -- what others ask for ----------------------------------------------------------------------

    def opened(self) -> None:
        """The log was opened (anew): storage has answered everything that it was asked before."""
        self.busy = self.job_outdated = self.compacting = False
        self.scrub_offset = self.log.log_start

    def cut(self) -> None:
        """Committed records were cut: what takes their place, a compaction in work has not seen (C2)."""
        self.cut_meanwhile = self.busy

    def outdated(self) -> None:
        """The log was reset."""
        self.job_outdated = self.busy
        self.compacting = False
        self.scrub_offset = self.log.log_start

    # -- time -------------------------------------------------------------------------------------

    def tick(self) -> None:
        self.retain_ticks += 1
        self.compact_ticks += 1
        if self.compact_ticks >= self._compact_after:
            self.compact_ticks = 0
            self.compacting = True
        if self.compact_credit < self._compact_most:
            self.compact_credit = min(self.compact_credit + self._compact_earned, self._compact_most)
        if self._scrub_earned:
            self.scrub_credit = min(self.scrub_credit + self._scrub_earned, self._scrub_price())
        self.next()

    def _scrub_price(self) -> int:
        """The rate is the node's, shared by its replicas."""
        return SLICE_BYTES * MS * max(1, self.ctx.replica_count)

    def next(self) -> None:
        """Give storage the most urgent job, if it has none of ours."""
        if self.busy or self.log.state != READY:
            return
        job = self._move() if self.log.wanted_start else None
        if job is None and self.log.refetched is not None:
            job = self._repair()
        if not self.log.id.is_journal:
            if job is None and self.retain_ticks >= self._retain_after:
                job = self._retain()
            if job is None and self.compacting:
                job = self._compact()
        if job is None and self._scrub_earned:
            job = self._scrub()
        if job is None and self.log.index.is_due(self.log.settled):
            job = self._fold()
        if job is not None:
            self.busy = True
            self.cut_meanwhile = False
            self.ctx.effects.append(job)

    # -- the jobs ---------------------------------------------------------------------------------

    def _move(self) -> StorageJob | None:
        # Who wants it asks again while it has not happened: followers with each reply, a purge at each tick.
        wanted, settled = self.log.take_wanted_start(), front_max(self.log)
        if wanted > settled:
            self.ctx.mark("C3.settled")
        target = min(wanted, settled)
        return MoveLogStart(self.log.id, target) if target > self.log.log_start else None

    def _repair(self) -> StorageJob | None:
        refetched = self.log.take_refetched()
        return RepairLog(self.log.id, *refetched) if refetched is not None else None

    def _retain(self) -> StorageJob | None:
        if self.log.leading is None:
            return None
        self.retain_ticks = 0
        config = self.log.config
        if config is None or config.retention.unlimited:
            return None
        self.ctx.mark("C3.retain")
        settled, needed_from = front_max(self.log), self.log.leading.needed_from
        if self.ctx.mutants.retention_forgets_ids or needed_from is None or needed_from >= settled:
            needed_from = settled
        else:
            self.ctx.mark("L7.kept")
        policy, front = config.retention, 0
        if config.has_journal:
            # R25: messages are gone before their bytes are.
            policy, front = RetentionPolicy(), self.log.leading.front
        return RetainLog(self.log.id, policy, settled, self.ctx.wall_ms, needed_from, front)

    def _compact(self) -> StorageJob | None:
        config = self.log.config
        if config is None or not config.compact:
            return None
        if self.compact_credit < SLICE_BYTES * MS:
            return None
        self.compact_credit -= SLICE_BYTES * MS
        below = self.log.horizon()
        if self.log.settled < self.log.leo:
            self.ctx.mark("C1.settled")
        if below < self.log.clean_point:
            self.ctx.mark("C2.tombstones")
        return CompactLog(
            self.log.id, config.compaction, self.log.settled, below, self.ctx.wall_ms, SLICE_BYTES
        )

    def _scrub(self) -> StorageJob | None:
        price = self._scrub_price()
        if self.scrub_credit < price:
            return None
        self.scrub_credit -= price
        return ScrubLog(self.log.id, max(self.scrub_offset, self.log.log_start), SLICE_BYTES)

    def _fold(self) -> StorageJob:
        if self.log.settled < self.log.leo:
            self.ctx.mark("S1.settled")
        below = self.log.leo if self.ctx.mutants.subjects_uncommitted else self.log.settled
        memory_max = self.ctx.config.index_memory_bytes
        return FoldSubjects(self.log.id, below, SLICE_BYTES, memory_max, self.log.index.awaited)

    # -- the answers ------------------------------------------------------------------------------

    def _answered(self) -> bool:
        """A job has ended; whether its answer still means anything."""
        outdated = self.job_outdated
        self.busy = self.job_outdated = False
        return not outdated and self.log.state == READY

    def refused(self) -> None:
        """Storage would not do a job, a full disk say (D5). It becomes due again; nothing else suffers."""
        self.ctx.mark("D5.upkeep-refused")
        self.busy = self.job_outdated = self.compacting = False

    def moved(self, event: LogStartMoved) -> None:
        """A copy that failed meanwhile may serve reads (D5): it too begins where its storage says."""
        failed = self.log.state == FAILED and not self.job_outdated
        if self._answered() or failed:
            self.log.start_moved(event.log_start)

    def compacted(self, event: Compacted) -> bool:
        """Whether this answer means anything, and damage that it names."""
        if not self._answered():
            return False
        self.log.cleaned(event.clean_point, event.dropped_below, cut_meanwhile=self.cut_meanwhile)
        if event.error:
            self.ctx.mark("C1.failed")
        if event.error or event.done:
            self.compacting = False
        return bool(event.error)

    def scrubbed(self, event: Scrubbed) -> bool:
        """As above."""
        if not self._answered():
            return False
        if event.next_offset <= self.scrub_offset:
            self.ctx.mark("D2.scrubbed")
        self.scrub_offset = event.next_offset
        return True

    def repaired(self) -> bool:
        """As above."""
        return self._answered()

    def folded(self, event: SubjectsFolded) -> bool:
        """As above."""
        if not self._answered():
            return False
        if event.error:
            self.ctx.mark("S1.failed")
            self.log.index.given_up()
        elif event.folded < 0:
            # It had to make room for one that was asked later, or ended with a repair.
            self.ctx.mark("S1.given-up")
            self.log.index.given_up()
        else:
            if event.filed:
                self.ctx.mark("S1.filed")
            self.log.index.reached(event.folded, event.ready)
        return True
