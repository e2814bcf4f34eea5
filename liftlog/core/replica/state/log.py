"""One log on this node: the theory of ISR replication, and the state that it speaks of, with its promises.

Theory
======

A partition is a log with several replicas. The metadata group (Raft) names one of them leader for an
*epoch*; the leader orders messages, the others copy. Raft replicates to a majority and needs 2f+1 copies to
lose f of them; here a record is *committed* once it is durable on every member of the in-sync replica set, so
that f+1 copies are enough, and the set itself shrinks and grows by decisions of the metadata group. All
safety follows from keeping one promise:

    whoever may be elected without an operator's consent has every committed record.

The leader keeps it by advancing the high watermark (HW) only over what is durable on the *maximal* ISR: the
committed set plus every addition that it has asked for and not yet seen decided, since the metadata group
may already have decided it. The metadata group keeps it by electing only from the ISR, or from replicas that
left it when nothing could be committed any more (eligible), and by fencing every vote, join and leadership
with the *incarnation* of the process that has the data.

After an election the logs may differ above the HW. Each fetch names the epoch of the record before it; two
logs that agree on (offset, epoch) of a record agree on everything before it, since one epoch has one leader
incarnation and that never rewrites. On a mismatch the leader answers with the end of its largest epoch that
is not above the follower's, the follower cuts there, and asks again: each round goes back at least one epoch.
A follower never cuts to its own HW, which is old: records between it and the true one are committed.

What leaves a log at its front (retention, purge) or from its middle (compaction) was committed before, so
that it never touches this argument: below the HW copies need only agree on what they still have. The log
start and the epoch of the record before it are durable; a follower that ends below its leader's log start
begins again there.

Rules kept in this file and beside it
=====================================

R1  leads only under a record that names this incarnation            `Replica.adopt`
R2  HW = least durable LEO over the maximal ISR                       `isr.py`
R3  readers see only what is below HW                                 `reader.py`
R4  an ack is sent once, when the policy holds                        `leader.py`
R5  durable means synced; a failed sync is final                      `Replica.storage_failed`
R6  fetch, epoch check, truncation in rounds                          `serving.py`, `follower.py`
R7  only the durable LEO counts; fetching may run ahead               `follower.py`
R8  follower's HW = min(leader's HW, own LEO)                         `follower.py`
R10 joins when durable LEO >= HW and >= epoch start                   `isr.py`
R11 caught up, and removal of who is not                              `isr.py`
R17, R18 who holds up others leaves the ISR, or its office; and back  `pace.py`, `isr.py`
D2  damage: leave the ISR, repair from the leader, come back          `repair.py`
C1-C3 compaction, tombstones, retention, purge                        `upkeep.py`, `purge.py`
C5  copies may be compacted differently                               `follower.py`, `LogState.cached`

A leader's batch boundaries are the same on all replicas as long as nobody has compacted it. Compaction merges
batches, so that below the HW of one replica a batch may span what another has in several, and an LEO, a HW or
an asked offset may lie inside a batch of another replica. Whoever goes on from there cuts the batch.

The state and its transitions
=============================

`LogState` has the fields of one log, `role.py` what its leader or follower knows of others, `damage.py`
what cannot be read. A field is written by transitions of its own class only; each says what it promises, and
raises `InvariantViolation` where the promise would be broken, in production too. `check` says what holds
between the fields.

Roles (`isr.py`, `leader.py`, `serving.py`, `purge.py`, `follower.py`, `reader.py`, `repair.py`,
`upkeep.py`) read the state and call transitions; none knows another. What one means to others it records as
a change, and the router (`replica.py`) has everybody react to it, in one order: that of the bits below.

    field                         never                                       written by
    log_start                     above the HW; back, but by a reset          start_moved, reset
    leo                           but where the last batch ended, or lower    append, truncate, reset
    durable_leo                   above the LEO                               synced
    hw                            above the LEO, a leader's durable LEO;      commit
                                  back, but by a cut that the group allows
    checkpointed_hw               above the HW, or the durable LEO            checkpoint
    history                       out of order, or behind the LEO; nothing    append, refetch
                                  of an epoch to come is appended
    pending                       out of order of tickets, above the LEO      append, truncate, reset
    epoch, barred_epoch           back in a run                               enter, close
    fetches                       back in a run                               next_fetch
    tombstones_below              back in a run                               all_clean
    damage                        outside the log; out of order; touching     damaged, mended
    clean_point                   above the LEO                               cleaned, uncleaned

A log that is opened knows what its disk says: an older HW and clean point, and no LEO but the durable one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from liftlog.core.context import Context
from liftlog.core.replica.state.confession import Confession, Ends
from liftlog.core.replica.state.damage import Damage
from liftlog.core.replica.state.indexstate import SubjectIndexState
from liftlog.core.replica.state.role import Following, LeaderState
from liftlog.core.replica.state.tail import TailCache, cut_batches
from liftlog.epochs import EpochHistory
from liftlog.format import last_timestamp_ms, read_header
from liftlog.messages import AppendLog, CheckpointHw, ConfigureLog, ResetLog, TruncateLog
from liftlog.types import (
    Batch,
    EpochStart,
    InvariantViolation,
    LogOptions,
    LogSummary,
    OffsetRange,
    PartitionId,
    StreamConfig,
    TailState,
    Ticket,
    invariant,
)

OPENING, READY, FAILED = "opening", "ready", "failed"

# Changes, in the order in which the router lets others react to them.
WHOLE = 1
"""No damage is left."""
WAS_RESET = 2
"""Every record is forgotten."""
COMMITTED_CUT = 4
"""What was known committed was cut, with the group's consent."""
HW_MOVED = 8
START_MOVED = 16
JOBS_WAIT = 32
"""There is something for storage to do beside replication."""
MOVED = 64
"""Some field has changed."""

PROMISES = (
    "the HW is outside the log",
    "more is durable than there is",
    "the leader has committed what it has not synced",
    "what is remembered as committed is not, or is not durable",
    "the epoch history goes beyond the log",
    "more is being written than there is",
    "more is compacted than there is",
    "the damaged ranges lie outside the log, are out of order or touch",
)
"""What `LogState.check` looks at, in its order: the text says what is wrong."""

Refetched = tuple[OffsetRange, list[Batch], int]
"""A damaged range, what the leader has there, and below which offset tombstones may be missing from that."""


class LogState:
    """The fields of one log on this node. See the module.

    `leo`, `durable_leo` and `hw` are offsets; `leo` includes what is appended but not yet synced.
    """

    __slots__ = (
        "barred_epoch",
        "broken",
        "cache",
        "changes",
        "checkpointed_hw",
        "clean_point",
        "confession",
        "ctx",
        "damage",
        "dropped_below",
        "durable_leo",
        "epoch",
        "epoch_given_up",
        "failed_durable",
        "fetches",
        "following",
        "history",
        "hw",
        "hw_epoch",
        "id",
        "in_doubt",
        "index",
        "keep_below",
        "leading",
        "leo",
        "log_start",
        "never_opened",
        "newest_ms",
        "options",
        "options_told",
        "pending",
        "record",
        "refetched",
        "state",
        "tail",
        "tombstones_below",
        "wanted_start",
    )

    def __init__(self, ctx: Context, log: PartitionId, confession: Confession | None = None) -> None:
        self.ctx = ctx
        self.id = log
        self.record = ctx.metadata.partitions.get(log.partition)
        """The partition's committed metadata, as far as this log has looked at them."""
        self.changes = 0
        self.state, self.epoch = OPENING, 0
        self.leading: LeaderState | None = None
        self.following: Following | None = None
        self.log_start = self.leo = self.durable_leo = self.hw = 0
        self.newest_ms = 0
        """L7: no record here has a later time; one that was cut may have had it."""
        self.hw_epoch = 0
        """R6: a leader of this epoch had everything below our HW, at the least."""
        self.checkpointed_hw = 0
        self.tail = TailState.CLEAN
        self.history = EpochHistory()
        self.cache = TailCache(ctx.config.tail_cache_bytes)
        self.damage = Damage()
        self.confession = confession or Confession(ctx, log.partition)
        self.clean_point = 0
        """C1: of every key only the last record below this offset is left here."""
        self.dropped_below = 0
        """C4: tombstones below this offset may be gone here."""
        self.tombstones_below = 0
        """C2: every replica has compacted past this offset, the greatest that this one has heard of."""
        self.wanted_start = 0
        """C3: where the log is to begin, as soon as everything below is committed and durable here."""
        self.index = SubjectIndexState()
        self.refetched: Refetched | None = None
        """D2: what storage is to put in the place of a damaged range."""
        self.options = LogOptions()
        self.options_told = True
        """R19: storage writes in this way, or will."""
        self.pending: deque[tuple[int, int]] = deque()
        """(ticket, LEO behind it) of each write that is not durable yet."""
        self.fetches = 0
        """Number of fetches sent in this run; the newest one's number is in the answer that counts (R6)."""
        self.broken = ""
        """Which promise did not hold; empty if all do. Such a log stays failed for the rest of this run."""
        self.never_opened = True
        self.epoch_given_up = 0
        """Epoch of the last durable record of what the last reset gave up, until it is durable (C3)."""
        self.failed_durable = self.keep_below = 0
        self.in_doubt = False
        """R5: a sync failed, or there is damage: what lies on the disk is not read before it is rebuilt."""
        self.barred_epoch = 0
        """R1: the last epoch in which this log failed; it must not be led in it again."""

    # -- what is recorded -------------------------------------------------------------------------

    def touch(self, change: int = MOVED) -> None:
        """Something changes that others react to, or that somebody may watch (`Context.touched`)."""
        self.changes |= change | MOVED
        self.ctx.touch(self.id)

    def take_change(self) -> int:
        """The change to react to next; 0 if there is none."""
        change = self.changes & -self.changes
        self.changes ^= change
        return change

    def check(self) -> None:
        """Raise InvariantViolation if the fields do not fit together."""
        leo, hw, durable_leo, entries = self.leo, self.hw, self.durable_leo, self.history.entries
        promises = (
            self.log_start <= hw <= leo,
            durable_leo <= leo,
            self.leading is None or hw <= durable_leo,
            self.checkpointed_hw <= hw and self.checkpointed_hw <= durable_leo,
            not entries or entries[-1].start < leo,
            not self.pending or self.pending[-1][1] <= leo,
            self.clean_point <= leo,
            not self.damage.ranges or self.damage.check(self.log_start, leo),
        )
        if not all(promises):
            broken = [text for text, kept in zip(PROMISES, promises, strict=True) if not kept]
            raise InvariantViolation(f"{self._ends()}: {', '.join(broken)}")

    def _ends(self) -> str:
        return f"{self.id}: [{self.log_start}, {self.leo}), durable {self.durable_leo}, HW {self.hw}"

    # -- what the metadata say --------------------------------------------------------------------

    def looks(self) -> None:
        """Go by the metadata as applied now. Until its turn comes a log goes by what it has seen before, and
        all of that: the ISR of one epoch with the office of another would commit what nobody else has (L5).
        """
        self.record = self.ctx.metadata.partitions.get(self.id.partition)

    @property
    def isr(self) -> tuple[int, ...]:
        record = self.record
        return record.isr if record is not None else ()

    @property
    def config(self) -> StreamConfig | None:
        """The stream's configuration, as far as this node has applied its creation."""
        stream = self.ctx.metadata.by_id.get(self.id.stream)
        return stream.config if stream is not None else None

    # -- what follows from the fields -------------------------------------------------------------

    @property
    def trusted_leo(self) -> int:
        """What of the durable log may count for others: nothing behind a damaged range (D2, R10)."""
        first = self.damage.first
        return self.durable_leo if first is None else min(self.durable_leo, first)

    @property
    def settled(self) -> int:
        """Everything below is committed and durable here."""
        return min(self.hw, self.durable_leo)

    @property
    def serves_reads(self) -> bool:
        """D5: a refused write takes nothing away that was stored before."""
        return self.state == READY or (self.state == FAILED and not self.never_opened and not self.in_doubt)

    @property
    def readable(self) -> int:
        """Where the committed records end that this copy can give."""
        return self.hw if self.state == READY else min(self.hw, self.keep_below)

    def cached(self, offset: int, limit: int, max_bytes: int) -> list[Batch] | None:
        """Batches from the one that holds `offset`, cut at `limit` (C5); None if not in memory."""
        found = self.cache.read(offset, limit, max_bytes)
        return cut_batches(self.id, found, limit) if found else found

    def epoch_before(self, leo: int) -> int:
        """Epoch of the last record of what is durable up to `leo`.

        While a reset is not durable that lies below where the log begins now. What the reset gave up may be
        there yet, and the history says nothing of it any more.
        """
        return self.epoch_given_up if leo < self.log_start else self.history.epoch_before(leo)

    def trusted_end(self) -> Ends:
        """What is left here when the other log of this copy fails (R14): what was durable."""
        leo = self.failed_durable if self.state == FAILED else self.durable_leo
        return self.epoch_before(leo), leo

    # -- open, failed, in a role ------------------------------------------------------------------

    def opening(self) -> None:
        self.touch()
        self.state = OPENING
        config = self.config
        if config is not None:
            self.options = config.options_of(self.id)

    def reopening(self) -> None:
        """R19: what storage was told of a log while it knew already that it had failed is lost."""
        self.options_told = self.never_opened

    def configure(self) -> None:
        """A log found at the start was opened before its options were known; and they may be altered."""
        config = self.config
        if config is not None and (config.options_of(self.id) != self.options or not self.options_told):
            self.options, self.options_told = config.options_of(self.id), True
            self.ctx.effects.append(ConfigureLog(self.id, self.options))

    def opened(self, summary: LogSummary) -> None:
        """Storage has opened the log; everything in the summary is durable (R7)."""
        invariant(self.state != READY, f"{self.id} was opened twice")
        self.touch()
        self.log_start = summary.log_start
        self.leo = self.durable_leo = summary.leo
        self.checkpointed_hw = summary.hw
        self.newest_ms = max(self.newest_ms, summary.newest_ms)
        # The log start never passes the HW (C3), so what lies below it is committed.
        self.hw = max(summary.hw, summary.log_start)
        self.history = EpochHistory(summary.epochs)
        # The checkpoint does not say in which epoch it was true; in that of its last record or a later one.
        self.hw_epoch = self.history.epoch_before(self.hw)
        self.tail = summary.tail
        self.clean_point = summary.clean_point
        self.dropped_below = summary.dropped_below
        self.cache.clear()
        self.pending.clear()
        self.damage.begin(summary.damage, summary.late_epochs)
        self.damage.forget_below(self.log_start)
        self.wanted_start = 0
        self.refetched = None
        self.never_opened = False
        self.state = READY

    def close(self, keep_below: int, in_doubt: bool) -> None:
        """The log has failed: what lies below `keep_below` goes on in a new file (R5)."""
        invariant(self.leading is None and self.following is None, f"{self.id} fails in a role")
        self.touch()
        self.state = FAILED
        self.failed_durable = self.durable_leo
        self.keep_below = keep_below
        self.in_doubt = in_doubt
        self.pending.clear()
        self.barred_epoch = self.epoch

    def end(self, broken: str) -> None:
        """A promise did not hold: nothing in this state can be relied on any more."""
        self.broken = broken
        self.leave_role()
        self.close(0, in_doubt=True)
        self.changes = 0

    def doubt(self) -> None:
        """R5: of a failed log a sync has failed too."""
        self.in_doubt = True

    def fell_short(self, leo: int) -> None:
        """D2: the rebuilt log ends below what was durable when it failed."""
        self.failed_durable = leo

    def report_failure(self, leo: int, shortfall: bool = False) -> None:
        """Tell the metadata group what this copy still has, until it has heard it."""
        self.confession.say(self.id, self.epoch_before(leo), leo, shortfall)

    def enter(self, epoch: int, leading: LeaderState | None = None) -> None:
        """This epoch is the present one, in which this replica leads, or does not."""
        invariant(epoch >= self.epoch, f"{self.id}: epoch {epoch} after {self.epoch}")
        self.touch()
        self.epoch = epoch
        self.leading = leading
        if leading is not None:
            invariant(epoch > self.barred_epoch, f"{self.id} leads epoch {epoch}, in which it has failed")
            self.hw_epoch = epoch

    def follow(self, following: Following | None) -> None:
        if following is not self.following:
            self.touch()
            self.following = following

    def leave_role(self) -> None:
        self.touch()
        self.leading = None
        self.following = None

    # -- the log's end ----------------------------------------------------------------------------

    def append(self, batches: list[Batch], dropped_below: int = -1) -> None:
        """Append in memory and hand to storage; durability comes back through `synced`.

        `dropped_below`: what `copied` has said of them.
        """
        self.touch()
        for batch in batches:
            if batch.base_offset != self.leo or batch.epoch > self.epoch:
                text = f"{self._ends()}, in epoch {self.epoch}: a batch of {batch.epoch}"
                raise InvariantViolation(f"{text} for offset {batch.base_offset}")
            self.history.note(batch.epoch, batch.base_offset)
            self.leo = batch.end_offset
            self.newest_ms = max(self.newest_ms, last_timestamp_ms(batch.data))
        self.cache.add(batches)
        self.ctx.effects.append(AppendLog(self.id, batches, self._write(), dropped_below))

    def _write(self) -> Ticket:
        """A ticket for a write behind which the log ends where it ends now."""
        ticket = self.ctx.new_ticket(self.id)
        pending = self.pending
        if pending and ticket <= pending[-1][0]:
            raise InvariantViolation(f"{self._ends()}: ticket {ticket} after {pending[-1][0]}")
        pending.append((ticket, self.leo))
        return ticket

    def copied(self, batches: list[Batch], dropped_below: int) -> int:
        """Batches of the leader are taken in, which may have dropped tombstones below an offset (C4).

        Returns below which offset tombstones may be missing here now; -1 if these batches are whole. Never
        more than the leader has dropped: a reader that begins here remembers it, and would not be told of
        what is dropped below it later.
        """
        end = max((batch.end_offset for batch in batches if read_header(batch.data).sparse), default=-1)
        if end < 0:
            return -1
        self.dropped_below = max(self.dropped_below, min(end, dropped_below))
        return self.dropped_below

    def synced(self, ticket: Ticket) -> None:
        """Everything up to the end of this ticket's job is synced (R5)."""
        self.touch()
        pending, end = self.pending, 0
        while pending and pending[0][0] <= ticket:
            end = max(end, pending.popleft()[1])
        if end > self.durable_leo:
            if end > self.leo:
                raise InvariantViolation(f"{self._ends()}: {end} is said to be durable")
            self.durable_leo = end

    def truncate(self, offset: int, consent: bool = False) -> None:
        """Cut everything at or above `offset`. Cutting what is known committed is fatal (R6), but with the
        group's consent.
        """
        ctx = self.ctx
        ctx.mark("R6.truncate")
        invariant(offset >= self.log_start, f"{self.id}: truncation to {offset} below {self.log_start}")
        invariant(offset >= self.hw or consent, f"{self._ends()}: cut to {offset}, below what is committed")
        self.touch(COMMITTED_CUT if offset < self.hw else MOVED)
        self.cache.cut(offset)
        self.history.truncate(offset)
        self.leo = min(self.leo, offset)
        self.durable_leo = min(self.durable_leo, offset)
        self.hw = min(self.hw, offset)
        self.checkpointed_hw = min(self.checkpointed_hw, offset)
        self.clean_point = min(self.clean_point, offset)
        self.damage.cut(offset)
        self.pending = deque((ticket, min(end, offset)) for ticket, end in self.pending)
        ctx.effects.append(TruncateLog(self.id, offset, self._write()))

    def reset(self, start: int, epochs: tuple[EpochStart, ...], consent: bool = False) -> None:
        """Forget every record and begin again at `start`, the leader's log start (C3, R6).

        `epochs`: the history before it. What lies below a log start is committed, so the HW is at least
        there; it goes back with the group's consent only.
        """
        ctx = self.ctx
        ctx.mark("C3.reset")
        invariant(start >= self.hw or consent, f"{self._ends()}: reset to {start}, below what is committed")
        self.touch(WAS_RESET | HW_MOVED)
        self.cache.clear()
        self.durable_leo = min(self.durable_leo, start)
        self.epoch_given_up = self.epoch_before(self.durable_leo)
        self.history = EpochHistory(epochs)
        self.log_start = self.leo = self.hw = start
        self.hw_epoch = self.epoch
        self.checkpointed_hw = min(self.checkpointed_hw, start)
        self.clean_point = self.dropped_below = 0
        self.wanted_start = 0
        self.refetched = None
        self.damage.begin((), ())
        # What was appended before counts for nothing any more, even if its sync is reported later.
        self.pending = deque((ticket, 0) for ticket, _ in self.pending)
        ctx.effects.append(ResetLog(self.id, start, epochs, self._write()))

    # -- the high watermark (R2, R3, R8) ----------------------------------------------------------

    def commit(self, hw: int) -> None:
        """Move the HW forward; it never goes back (R3)."""
        leads = self.leading is not None
        if not self.hw <= hw <= (self.durable_leo if leads else self.leo):
            raise InvariantViolation(f"{self._ends()}: the HW would be {hw}")
        self.ctx.mark("R2.commit" if leads else "R8.commit")
        self.touch(HW_MOVED)
        self.hw = hw

    def agreed(self) -> None:
        """R6: the leader of this epoch has said that it has everything below our HW."""
        self.hw_epoch = self.epoch

    def checkpoint(self) -> None:
        """Have the HW remembered, as far as what lies below it is durable (R8)."""
        hw = self.settled
        if hw < self.hw:
            self.ctx.mark("R8.checkpoint")
        if hw != self.checkpointed_hw:
            self.checkpointed_hw = hw
            self.ctx.effects.append(CheckpointHw(self.id, hw))

    # -- the log's start (C3) ---------------------------------------------------------------------

    def want_start(self, offset: int) -> None:
        """The log is to begin at `offset`, once everything below it is committed here and durable."""
        if offset > self.wanted_start:
            self.touch(JOBS_WAIT)
            self.wanted_start = offset

    def take_wanted_start(self) -> int:
        wanted, self.wanted_start = self.wanted_start, 0
        return wanted

    def start_moved(self, offset: int) -> None:
        """The log start is durable at `offset`. It never goes back."""
        if offset <= self.log_start:
            return
        self.ctx.mark("C3.moved")
        invariant(offset <= self.hw, f"{self._ends()}: the log would begin at {offset}")
        self.touch(START_MOVED)
        self.log_start = offset
        if self.damage.forget_below(offset) and not self.damage.ranges:
            self.touch(WHOLE)

    # -- compaction (C1, C2, C4) ------------------------------------------------------------------

    def cleaned(self, clean_point: int, dropped_below: int, cut_meanwhile: bool = False) -> None:
        """Storage has compacted up to `clean_point`, and dropped tombstones below `dropped_below`.

        `cut_meanwhile`: what was compacted may lie in part where other records are now, which are not clean.
        """
        self.cache.forget_below(clean_point)
        if not cut_meanwhile:
            invariant(clean_point <= self.leo, f"{self._ends()}: compacted up to {clean_point}")
            if clean_point > self.clean_point:
                self.ctx.mark("C1.clean")
            self.clean_point = clean_point
        if dropped_below > self.dropped_below:
            self.ctx.mark("C2.dropped")
            self.dropped_below = dropped_below

    def horizon(self) -> int:
        """C2: below it tombstones may go. A leader looks how far all replicas have compacted."""
        leading, config = self.leading, self.config
        if leading is None:
            return self.tombstones_below
        if config is None or not config.compact:
            return 0
        first = self.damage.first
        own = self.clean_point if first is None else min(self.clean_point, first)
        least = leading.least_clean_point(own)
        if least > self.tombstones_below:
            self.ctx.mark("C2.all-clean")
            self.all_clean(least)
        return self.tombstones_below

    def all_clean(self, offset: int) -> None:
        """Every replica has compacted past `offset`. Once true, that stays true: the greatest is kept."""
        self.tombstones_below = max(self.tombstones_below, offset)

    # -- damage (D2) ------------------------------------------------------------------------------

    def damaged(self, found: OffsetRange) -> bool:
        """This range cannot be read. Whether that is news which concerns this replica."""
        # Below the log start nobody has anything; behind the LEO, cut meanwhile, nothing is ours.
        found = OffsetRange(max(found.start, self.log_start), min(found.end, self.leo))
        if found.start >= found.end or not self.damage.add(found):
            return False
        self.ctx.mark("D2.found")
        self.touch()
        return True

    def refetch(self, damaged: OffsetRange, batches: list[Batch], dropped_below: int) -> None:
        """The leader has sent what belongs into a range: storage is to put it in place."""
        self.touch(JOBS_WAIT)
        dropped_below = self.copied(batches, dropped_below)
        for batch in batches:
            self.history.learn(batch.epoch, batch.base_offset)
        self.refetched = (damaged, batches, dropped_below)

    def take_refetched(self) -> Refetched | None:
        """What storage is to put in place now. It may be less compacted than what was there (C2)."""
        taken, self.refetched = self.refetched, None
        if taken is not None:
            self.clean_point = min(self.clean_point, taken[0].start)
        return taken

    def mended(self, whole: OffsetRange, damage: Sequence[OffsetRange]) -> None:
        """The first range is whole again; storage has met other damage meanwhile.

        That counts before we look whether the log is whole: with it, this copy must not join (R10).
        """
        self.touch()
        self.damage.mended(whole)
        for found in damage:
            self.damaged(found)
        if not self.damage.ranges:
            self.touch(WHOLE)

    # -- fetches (R6) -----------------------------------------------------------------------------

    def next_fetch(self) -> int:
        """The number of the next fetch. They rise through all of a run, so that no older one seems newer."""
        self.fetches += 1
        return self.fetches
