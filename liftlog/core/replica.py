"""ISR replication of one partition: the theory, the rules, and what every replica keeps of its log.

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
A follower never cuts to its own HW: the HW it knows is old, and records between it and the true HW are
committed (that is the seeds' restart rule, kept here as mutant 15).

What leaves a log at its front (retention, purge) or from its middle (compaction) was committed before, so
that it never touches this argument: below the HW copies need only agree on what they still have. The log
start and the epoch of the record before it are durable; a follower that ends below its leader's log start
begins again there.

Rules kept in this file and beside it
=====================================

R1  leads only under a record that names this incarnation            `Replica.adopt`
R2  HW = least durable LEO over the maximal ISR                       `leader.py`
R3  readers see only what is below HW                                 `reader.py`
R4  an ack is sent once, when the policy holds                        `leader.py`
R5  durable means synced; a failed sync is final                      `Replica.storage_failed`
R6  fetch, epoch check, truncation in rounds                          `serving.py`, `follower.py`
R7  only the durable LEO counts; fetching may run ahead               `follower.py`
R8  follower's HW = min(leader's HW, own LEO)                         `follower.py`
R10 joins when durable LEO >= HW and >= epoch start                   `leader.py`
R11 caught up, and removal of who is not                              `leader.py`
D2  damage: leave the ISR, repair from the leader, come back          `repair.py`
C1-C3 compaction, tombstones, retention, purge                        `upkeep.py`, `purge.py`
C5  copies may be compacted differently                               `follower.py`, `Replica.cached`

A leader's batch boundaries are the same on all replicas as long as nobody has compacted it. Compaction merges
batches, so that below the HW of one replica a batch may span what another has in several, and an LEO, a HW or
an asked offset may lie inside a batch of another replica. Whoever goes on from there cuts the batch.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from liftlog.core.confession import Confession
from liftlog.core.context import Context
from liftlog.core.follower import Following
from liftlog.core.leader import Leadership
from liftlog.core.reader import Readers
from liftlog.core.repair import Repairs
from liftlog.core.tail import TailCache, cut_batches
from liftlog.core.upkeep import Upkeep
from liftlog.epochs import EpochHistory
from liftlog.format import read_header
from liftlog.messages import (
    FETCH_FENCED,
    FETCH_UNKNOWN,
    AppendLog,
    CheckpointHw,
    ConfigureLog,
    Fetch,
    FetchReply,
    OpenLog,
    RangeFetch,
    RangeReply,
    RebuildLog,
    ResetLog,
    Send,
    StorageFailed,
    TruncateLog,
)
from liftlog.types import (
    NO_TICKET,
    Batch,
    EpochStart,
    LogOptions,
    LogSummary,
    PartitionId,
    StreamConfig,
    TailState,
    Ticket,
    invariant,
)

if TYPE_CHECKING:
    from liftlog.core.records import PartitionState

OPENING, READY, FAILED = "opening", "ready", "failed"
REOPEN_MS = 1000
"""How long a failed replica waits before each attempt to go on in a new file."""


class Replica:
    """One partition's log on this node, with the role that the metadata gives it.

    `leo`, `durable_leo` and `hw` are offsets; `leo` includes what is appended but not yet synced.
    """

    __slots__ = (
        "barred_epoch",
        "cache",
        "checkpointed_hw",
        "clean_point",
        "closed",
        "confession",
        "ctx",
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
        "keep_below",
        "leading",
        "leo",
        "log_start",
        "never_opened",
        "options",
        "pending",
        "readers",
        "reopen_ticks",
        "reopening",
        "repairs",
        "state",
        "tail",
        "tombstones_below",
        "upkeep",
    )

    def __init__(self, ctx: Context, partition: PartitionId) -> None:
        self.ctx = ctx
        self.id = partition
        self.state = OPENING
        self.epoch = 0
        self.log_start = 0
        self.leo = 0
        self.durable_leo = 0
        self.hw = 0
        self.hw_epoch = 0
        """R6: a leader of this epoch had everything below our HW, at the least."""
        self.checkpointed_hw = 0
        self.tail = TailState.CLEAN
        self.history = EpochHistory()
        self.cache = TailCache(ctx.config.tail_cache_bytes)
        self.clean_point = 0
        """C1: of every key only the last record below this offset is left here."""
        self.dropped_below = 0
        """C4: tombstones below this offset may be gone here."""
        self.tombstones_below = 0
        """C2: every replica has compacted past this offset, the greatest that this one has heard of."""
        self.options = LogOptions()
        self.pending: deque[tuple[int, int]] = deque()
        self.leading: Leadership | None = None
        self.following: Following | None = None
        self.readers = Readers(self)
        self.upkeep = Upkeep(self)
        self.repairs = Repairs(self)
        self.confession = Confession(self)
        self.never_opened = True
        self.failed_durable = 0
        self.epoch_given_up = 0
        """Epoch of the last durable record of what the last reset gave up, until it is durable (C3)."""
        self.keep_below = 0
        self.in_doubt = False
        """R5: a sync failed, or there is damage: what lies on the disk is not read before it is rebuilt."""
        self.fetches = 0
        """Number of fetches sent in this run; the newest one's number is in the answer that counts (R6)."""
        self.closed: LogSummary | None = None
        """The rebuilt log, which stays closed until the group has heard what became of it."""
        self.barred_epoch = 0
        self.reopen_ticks = 0
        self.reopening = False

    # -- what others look at ----------------------------------------------------------------------

    @property
    def role(self) -> str:
        if self.leading is not None:
            return "leader"
        return "follower" if self.following is not None else "idle"

    @property
    def epochs(self) -> list[EpochStart]:
        return self.history.entries

    @property
    def record(self) -> PartitionState | None:
        """The partition's committed metadata, as far as this node has applied it."""
        return self.ctx.metadata.partitions.get(self.id)

    @property
    def isr(self) -> tuple[int, ...]:
        record = self.record
        return record.isr if record is not None else ()

    @property
    def config(self) -> StreamConfig | None:
        """The stream's configuration, as far as this node has applied its creation."""
        stream = self.ctx.metadata.by_id.get(self.id.stream)
        return stream.config if stream is not None else None

    @property
    def trusted_leo(self) -> int:
        """What of the durable log may count for others: nothing behind a damaged range (D2, R10)."""
        first = self.repairs.first
        return self.durable_leo if first is None else min(self.durable_leo, first)

    @property
    def serves_reads(self) -> bool:
        """D5: a refused write takes nothing away that was stored before."""
        return self.state == READY or (self.state == FAILED and not self.never_opened and not self.in_doubt)

    @property
    def readable(self) -> int:
        """Where the committed records end that this copy can give."""
        return self.hw if self.state == READY else min(self.hw, self.keep_below)

    # -- opening and roles (R1) -------------------------------------------------------------------

    def touch(self) -> None:
        """Something of this replica changes that somebody may watch (`Context.touched`)."""
        self.ctx.touched[self.id] = None

    def open(self, fresh: bool = False) -> None:
        self.touch()
        self.state = OPENING
        config = self.config
        if config is not None:
            self.options = config.log_options
        self.ctx.effects.append(OpenLog(self.id, fresh, self.options))

    def opened(self, summary: LogSummary, told: bool = False) -> None:
        """Storage has opened the log; everything in the summary is durable (R7).

        `told`: the metadata group knows of the damage in the summary, from this node's registration.
        """
        self.reopening = False
        if self.state == FAILED and not self._may_open(summary):
            self.closed = summary
            return
        self.touch()
        self.log_start = summary.log_start
        self.leo = self.durable_leo = summary.leo
        self.checkpointed_hw = summary.hw
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
        self.never_opened = False
        self.closed = None
        self.state = READY
        self.upkeep.opened()
        self.repairs.opened(summary.damage, summary.late_epochs, told)
        self.adopt()

    def adopt(self) -> None:
        """Follow what the metadata says now: lead, follow, or neither. Called after every applied change."""
        self.touch()
        record = self.record
        ctx = self.ctx
        if record is None or self.state != READY or not ctx.incarnation:
            if record is not None and self.state == FAILED and record.epoch > self.barred_epoch:
                ctx.mark("R5.failed-log")
            return
        self._configure()
        if record.leader == ctx.node and ctx.decides(
            ("R1.other-incarnation", record.leader_incarnation == ctx.incarnation)
        ):
            if record.epoch <= self.barred_epoch:
                ctx.mark("R1.barred")
                return
            if self.leading is None or self.leading.epoch != record.epoch:
                self.touch()
                self.step_aside()
                self.epoch = self.hw_epoch = record.epoch
                ctx.mark("R1.lead")
                self.leading = Leadership(self, record)
                self.leading.start()
            else:
                self.leading.view(record)
            return
        if self.epoch != record.epoch or self.leading is not None:
            self.touch()
            self.step_aside()
            self.epoch = record.epoch
        if record.leader in (0, ctx.node):
            self.touch()
            self.following = None
        elif self.following is None:
            if ctx.mutants.truncate_to_hw and self.leo > self.hw:
                self.truncate(self.hw)
            self.following = Following(self, record.leader, record.epoch)
            self.following.start()

    def _configure(self) -> None:
        """A log that was found at the start was opened before anybody knew its stream's options."""
        config = self.config
        if config is not None and config.log_options != self.options:
            self.options = config.log_options
            self.ctx.effects.append(ConfigureLog(self.id, self.options))

    def step_aside(self) -> None:
        """End the present role; publishes in flight get no answer (N3)."""
        if self.leading is not None:
            self.ctx.mark("N3.step-down")
            self.leading.stop()
        self.touch()
        self.leading = None
        self.following = None

    # -- the log ----------------------------------------------------------------------------------

    def append(self, batches: list[Batch], dropped_below: int = -1) -> None:
        """Append in memory and hand to storage; durability comes back through `durable`.

        `dropped_below`: what `copied` has said of them.
        """
        self.touch()
        for batch in batches:
            invariant(
                batch.base_offset == self.leo, f"{self.id}: batch {batch.base_offset} at LEO {self.leo}"
            )
            self.history.note(batch.epoch, batch.base_offset)
            self.leo = batch.end_offset
        self.cache.add(batches)
        ticket = self.ctx.new_ticket(self.id)
        self.pending.append((ticket, self.leo))
        self.ctx.effects.append(AppendLog(self.id, batches, ticket, dropped_below))

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

    def cached(self, offset: int, limit: int, max_bytes: int) -> list[Batch] | None:
        """Batches from the one that holds `offset`, cut at `limit` (C5); None if not in memory."""
        found = self.cache.read(offset, limit, max_bytes)
        return cut_batches(self.id, found, limit) if found else found

    def truncate(self, offset: int) -> None:
        """Cut everything at or above `offset`. Cutting what is known committed is fatal (R6)."""
        ctx = self.ctx
        ctx.mark("R6.truncate")
        self.touch()
        invariant(offset >= self.log_start, f"{self.id}: truncation to {offset} below {self.log_start}")
        self.cache.cut(offset)
        self.history.truncate(offset)
        self.leo = min(self.leo, offset)
        self.durable_leo = min(self.durable_leo, offset)
        self.hw = min(self.hw, offset)
        self.checkpointed_hw = min(self.checkpointed_hw, offset)
        self.clean_point = min(self.clean_point, offset)
        self.repairs.truncated(offset)
        self.pending = deque((ticket, min(end, offset)) for ticket, end in self.pending)
        ticket = ctx.new_ticket(self.id)
        self.pending.append((ticket, self.leo))
        ctx.effects.append(TruncateLog(self.id, offset, ticket))

    def reset(self, start: int, epochs: tuple[EpochStart, ...]) -> None:
        """Forget every record and begin again at `start`, the leader's log start (C3, R6).

        `epochs`: the history before it. What lies below a log start is committed, so the HW is at least
        there.
        """
        ctx = self.ctx
        ctx.mark("C3.reset")
        self.touch()
        self.cache.clear()
        self.durable_leo = min(self.durable_leo, start)
        self.epoch_given_up = self._epoch_before(self.durable_leo)
        self.history = EpochHistory(epochs)
        self.log_start = self.leo = self.hw = start
        self.hw_epoch = self.epoch
        self.checkpointed_hw = min(self.checkpointed_hw, start)
        self.clean_point = self.dropped_below = 0
        self.upkeep.outdated()
        self.repairs.opened((), (), False)
        self.readers.wake()
        # What was appended before counts for nothing any more, even if its sync is reported later.
        self.pending = deque((ticket, 0) for ticket, _ in self.pending)
        ticket = ctx.new_ticket(self.id)
        self.pending.append((ticket, start))
        ctx.effects.append(ResetLog(self.id, start, epochs, ticket))

    def log_start_moved(self, offset: int) -> None:
        """The log start is durable at `offset` (C3). It never goes back."""
        if offset <= self.log_start:
            return
        self.ctx.mark("C3.moved")
        self.touch()
        self.log_start = offset
        self.repairs.forget_below(offset)
        if self.leading is not None:
            self.leading.log_start_moved()
        elif self.following is not None:
            self.following.durable_moved()

    def durable(self, ticket: Ticket) -> None:
        """Everything up to the end of this ticket's job is synced (R5)."""
        self.touch()
        while self.pending and self.pending[0][0] <= ticket:
            _, end = self.pending.popleft()
            if end > self.durable_leo:
                self.durable_leo = end
        if self.leading is not None:
            self.leading.advance()
        elif self.following is not None:
            self.following.durable_moved()

    def storage_failed(self, event: StorageFailed) -> None:
        """R5: the replica stops, gives up leadership and ISR, and will refetch into a new file.

        A refused write (D5) takes the same way back; a follower stays in the ISR, nothing durable is in
        doubt. A leader must not lead the same epoch again: its followers may hold what it has cut (R1).
        """
        if event.ticket == NO_TICKET and self.upkeep.busy:
            # Storage answers in order: this is about the upkeep's job, not about a reopening that follows it.
            self.upkeep.refused()
            if not event.sync or self.state != READY:
                return
        if self.state == FAILED:
            self.in_doubt |= event.sync
            if event.ticket == NO_TICKET:
                self.reopening = False
            return
        ctx = self.ctx
        ctx.mark("R5.failed" if event.sync else "D5.refused")
        was_leader = self.leading is not None
        self._stop(self.durable_leo, in_doubt=event.sync)
        if event.sync or was_leader:
            self.report_failure(self.durable_leo)
        else:
            ctx.mark("D5.follower-stays")

    def cut_damage(self, offset: int) -> None:
        """D2: give up everything from `offset` on, to be fetched again; for a copy that counts for nothing.

        The same way as after a failed sync: a new file, and the group hears of it before the copy is used.
        """
        self.ctx.mark("D2.cut")
        self._stop(offset, in_doubt=True)
        self.reopen_ticks = 1

    def _stop(self, keep_below: int, in_doubt: bool) -> None:
        self.touch()
        self.readers.fail()
        self.step_aside()
        self.state = FAILED
        self.failed_durable = self.durable_leo
        self.keep_below = keep_below
        self.in_doubt = in_doubt
        self.pending.clear()
        self.barred_epoch = self.epoch
        self.reopen_ticks = self.ctx.ticks_of(REOPEN_MS)

    def report_failure(self, leo: int, shortfall: bool = False) -> None:
        """Tell the metadata group what this copy still has, until it has heard it."""
        self.confession.say(self._epoch_before(leo), leo, shortfall)

    def _epoch_before(self, leo: int) -> int:
        """Epoch of the last record of what is durable up to `leo`.

        While a reset is not durable that lies below where the log begins now. What the reset gave up may be
        there yet, and the history says nothing of it any more.
        """
        return self.epoch_given_up if leo < self.log_start else self.history.epoch_before(leo)

    def _may_open(self, summary: LogSummary) -> bool:
        """Whether the group knows how far the rebuilt log reaches; nobody may count on it before.

        If it ends below what this replica had reported durable it was damaged as well (D2).
        """
        if summary.leo < self.failed_durable:
            self.ctx.mark("D2.shortfall")
            self.failed_durable = summary.leo
            self.confession.say(summary.epochs[-1].epoch if summary.epochs else 0, summary.leo, True)
        return self.confession.said is None

    # -- the high watermark -----------------------------------------------------------------------

    def raise_hw(self, hw: int) -> None:
        """Move the HW forward and wake readers. Both roles come here; it never goes back (R3)."""
        self.touch()
        self.hw = hw
        self.ctx.mark("R8.commit" if self.leading is None else "R2.commit")
        self.readers.wake()

    def tick(self) -> None:
        """Once per tick of the node."""
        self.confession.tick()
        if self.state == FAILED:
            self.readers.tick()
            self._reopen()
            return
        if self.leading is not None:
            if self.repairs.cut_lone_tail():
                return
            self.leading.tick()
        elif self.following is not None:
            self.following.tick()
        self.readers.tick()
        self.repairs.tick()
        self.upkeep.tick()
        ctx = self.ctx
        if ctx.ticks % ctx.ticks_of(ctx.config.hw_checkpoint_ms) == 0:
            hw = min(self.hw, self.durable_leo)
            if hw < self.hw:
                ctx.mark("R8.checkpoint")
            if hw != self.checkpointed_hw:
                self.checkpointed_hw = hw
                ctx.effects.append(CheckpointHw(self.id, hw))

    def _reopen(self) -> None:
        """Leave the failed state: what was durable goes on in a new file, the rest is fetched again (R5)."""
        ctx = self.ctx
        if self.closed is not None:
            self.opened(self.closed)
            return
        self.reopen_ticks -= 1
        if self.reopen_ticks > 0 or self.reopening:
            if self.reopen_ticks <= 0:
                ctx.mark("R5.still-rebuilding")
            return
        # One attempt at a time: a second rebuild would cut what was appended after the first.
        self.reopening = True
        self.reopen_ticks = ctx.ticks_of(REOPEN_MS)
        ctx.effects.append(
            OpenLog(self.id, False, self.options)
            if self.never_opened
            else RebuildLog(self.id, self.keep_below, self.in_doubt)
        )

    # -- peers ------------------------------------------------------------------------------------

    def on_fetch(self, sender: int, fetch: Fetch) -> None:
        if self.leading is not None:
            self.leading.serving.on_fetch(sender, fetch)
            return
        status = FETCH_FENCED if fetch.epoch < self.epoch else FETCH_UNKNOWN
        self.refuse_fetch(sender, fetch, status)

    def refuse_fetch(self, sender: int, fetch: Fetch, status: int) -> None:
        """R6: a wrong epoch is answered without any data that could be acted on."""
        self.ctx.mark("R6.fenced" if status == FETCH_FENCED else "R6.unknown")
        self.ctx.effects.append(refusal(sender, fetch, status))

    def on_range_fetch(self, sender: int, fetch: RangeFetch) -> None:
        if self.leading is not None:
            self.leading.serving.on_range_fetch(sender, fetch)
        else:
            self.ctx.effects.append(range_refusal(sender, fetch, FETCH_UNKNOWN))


def refusal(sender: int, fetch: Fetch, status: int) -> Send:
    """An answer that says only that this fetch cannot be served here and now."""
    reply = FetchReply(
        fetch.partition, fetch.epoch, fetch.incarnation, fetch.request, status, 0, 0, 0, 0, 0, []
    )
    return Send(sender, reply)


def range_refusal(sender: int, fetch: RangeFetch, status: int, log_start: int = 0) -> Send:
    """The same for a range."""
    reply = RangeReply(fetch.partition, fetch.epoch, fetch.incarnation, fetch.request, status, log_start, [])
    return Send(sender, reply)
