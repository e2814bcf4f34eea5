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

Rules kept in this file and in its two roles
============================================

R1  leads only under a record that names this incarnation            `Replica.adopt`
R2  HW = least durable LEO over the maximal ISR                       `leader.py`
R3  readers see only what is below HW                                 `reader.py`
R4  an ack is sent once, when the policy holds                        `leader.py`
R5  durable means synced; a failed sync is final                      `Replica.storage_failed`
R6  fetch, epoch check, truncation in rounds                          `leader.py`, `follower.py`
R7  only the durable LEO counts; fetching may run ahead               `follower.py`
R8  follower's HW = min(leader's HW, own LEO)                         `follower.py`
R10 joins when durable LEO >= HW and >= epoch start                   `leader.py`
R11 caught up, and removal of who is not                              `leader.py`

A batch is never split: LEO, durable LEO and HW always lie on batch boundaries, on every replica the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING

from liftlog.core.commands import ReplicaFailed, RequestId
from liftlog.core.context import Context
from liftlog.core.follower import Following
from liftlog.core.leader import Leadership
from liftlog.core.reader import Readers
from liftlog.epochs import EpochHistory
from liftlog.messages import (
    FETCH_FENCED,
    FETCH_UNKNOWN,
    AppendLog,
    CheckpointHw,
    Fetch,
    FetchReply,
    OpenLog,
    RebuildLog,
    Send,
    StorageFailed,
    TruncateLog,
)
from liftlog.types import (
    NO_TICKET,
    Batch,
    EpochStart,
    LogSummary,
    PartitionId,
    TailState,
    Ticket,
    invariant,
)

if TYPE_CHECKING:
    from liftlog.core.metadata import PartitionState

OPENING, READY, FAILED = "opening", "ready", "failed"
REOPEN_MS = 1000
"""How long a failed replica waits before each attempt to go on in a new file."""
CACHE_SLACK = 4
"""The tail cache is trimmed when it exceeds its limit by 1/CACHE_SLACK, so that trimming is amortised."""


class Replica:
    """One partition's log on this node, with the role that the metadata gives it.

    `leo`, `durable_leo` and `hw` are offsets; `leo` includes what is appended but not yet synced.
    """

    __slots__ = (
        "barred_epoch",
        "cache",
        "cache_bytes",
        "checkpointed_hw",
        "ctx",
        "durable_leo",
        "epoch",
        "failed_durable",
        "fetches",
        "following",
        "history",
        "hw",
        "id",
        "leading",
        "leo",
        "log_start",
        "never_opened",
        "pending",
        "readers",
        "reopen_ticks",
        "reopening",
        "shortfall",
        "state",
        "tail",
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
        self.checkpointed_hw = 0
        self.tail = TailState.CLEAN
        self.history = EpochHistory()
        self.cache: list[Batch] = []
        self.cache_bytes = 0
        self.pending: deque[tuple[int, int]] = deque()
        self.leading: Leadership | None = None
        self.following: Following | None = None
        self.readers = Readers(self)
        self.never_opened = True
        self.failed_durable = 0
        self.fetches = 0
        """Number of fetches sent in this run; the newest one's number is in the answer that counts (R6)."""
        self.shortfall: tuple[RequestId, LogSummary] | None = None
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

    # -- opening and roles (R1) -------------------------------------------------------------------

    def open(self, fresh: bool = False) -> None:
        self.state = OPENING
        self.ctx.effects.append(OpenLog(self.id, fresh))

    def opened(self, summary: LogSummary) -> None:
        """Storage has opened the log; everything in the summary is durable (R7)."""
        self.reopening = False
        if self.state == FAILED and summary.leo < self.failed_durable:
            self._confess(summary)
            return
        self.log_start = summary.log_start
        self.leo = self.durable_leo = summary.leo
        self.hw = self.checkpointed_hw = summary.hw
        self.history = EpochHistory(summary.epochs)
        self.tail = summary.tail
        self.cache.clear()
        self.cache_bytes = 0
        self.pending.clear()
        self.never_opened = False
        self.shortfall = None
        self.state = READY
        self.adopt()

    def adopt(self) -> None:
        """Follow what the metadata says now: lead, follow, or neither. Called after every applied change."""
        record = self.record
        ctx = self.ctx
        if record is None or self.state != READY or not ctx.incarnation:
            return
        if record.leader == ctx.node and record.leader_incarnation == ctx.incarnation:
            if record.epoch <= self.barred_epoch:
                return
            if self.leading is None or self.leading.epoch != record.epoch:
                self.step_aside()
                self.epoch = record.epoch
                ctx.mark("R1.lead")
                self.leading = Leadership(self, record)
                self.leading.start()
            else:
                self.leading.view(record)
            return
        if self.epoch != record.epoch or self.leading is not None:
            self.step_aside()
            self.epoch = record.epoch
        if record.leader in (0, ctx.node):
            self.following = None
        elif self.following is None:
            if ctx.mutants.truncate_to_hw and self.leo > self.hw:
                self.truncate(self.hw)
            self.following = Following(self, record.leader, record.epoch)
            self.following.start()

    def step_aside(self) -> None:
        """End the present role; publishes in flight get no answer (N3)."""
        if self.leading is not None:
            self.ctx.mark("N3.step-down")
            self.leading.stop()
        self.leading = None
        self.following = None

    # -- the log ----------------------------------------------------------------------------------

    def append(self, batches: list[Batch]) -> None:
        """Append in memory and hand to storage; durability comes back through `durable`."""
        for batch in batches:
            invariant(
                batch.base_offset == self.leo, f"{self.id}: batch {batch.base_offset} at LEO {self.leo}"
            )
            self.history.note(batch.epoch, batch.base_offset)
            self.leo = batch.end_offset
            self.cache_bytes += len(batch.data)
        self.cache.extend(batches)
        limit = self.ctx.config.tail_cache_bytes
        if self.cache_bytes > limit + limit // CACHE_SLACK:
            self._trim_cache(limit)
        ticket = self.ctx.new_ticket(self.id)
        self.pending.append((ticket, self.leo))
        self.ctx.effects.append(AppendLog(self.id, batches, ticket))

    def _trim_cache(self, limit: int) -> None:
        drop = 0
        while self.cache_bytes > limit and drop < len(self.cache) - 1:
            self.cache_bytes -= len(self.cache[drop].data)
            drop += 1
        del self.cache[:drop]

    def cached(self, offset: int, limit: int, max_bytes: int) -> list[Batch] | None:
        """Batches from the one that holds `offset`, ending at or below `limit`; None if not in memory."""
        if not self.cache or offset < self.cache[0].base_offset:
            return None
        position = bisect_right(self.cache, offset, key=lambda batch: batch.base_offset) - 1
        found: list[Batch] = []
        size = 0
        while position < len(self.cache):
            batch = self.cache[position]
            if batch.end_offset > limit or (found and size + len(batch.data) > max_bytes):
                break
            found.append(batch)
            size += len(batch.data)
            position += 1
        return found

    def truncate(self, offset: int) -> None:
        """Cut everything at or above `offset`. Cutting what is known committed is fatal (R6)."""
        ctx = self.ctx
        ctx.mark("R6.truncate")
        while self.cache and self.cache[-1].end_offset > offset:
            self.cache_bytes -= len(self.cache.pop().data)
        self.history.truncate(offset)
        self.leo = min(self.leo, offset)
        self.durable_leo = min(self.durable_leo, offset)
        self.hw = min(self.hw, offset)
        self.checkpointed_hw = min(self.checkpointed_hw, offset)
        self.pending = deque((ticket, min(end, offset)) for ticket, end in self.pending)
        ticket = ctx.new_ticket(self.id)
        self.pending.append((ticket, self.leo))
        ctx.effects.append(TruncateLog(self.id, offset, ticket))

    def durable(self, ticket: Ticket) -> None:
        """Everything up to the end of this ticket's job is synced (R5)."""
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
        if self.state == FAILED:
            if event.ticket == NO_TICKET:
                self.reopening = False
            return
        ctx = self.ctx
        ctx.mark("R5.failed" if event.sync else "D5.refused")
        was_leader = self.leading is not None
        self.readers.fail()
        self.step_aside()
        self.state = FAILED
        self.failed_durable = self.durable_leo
        self.pending.clear()
        self.barred_epoch = self.epoch
        if event.sync or was_leader:
            self._report_failure(self.history.epoch_before(self.durable_leo), self.durable_leo)
        self.reopen_ticks = ctx.ticks_of(REOPEN_MS)

    def _report_failure(self, epoch: int, leo: int, shortfall: bool = False) -> RequestId | None:
        """Tell the metadata group what this copy still has; None if too many commands wait."""
        ctx = self.ctx
        request = ctx.new_request()
        command = ReplicaFailed(request, self.id, ctx.node, ctx.incarnation, epoch, leo, shortfall)
        sent = ctx.submit(command)
        return request if sent else None

    def _confess(self, summary: LogSummary) -> None:
        """The rebuilt log ends below what this replica had reported durable: it was damaged as well (D2).

        Nobody may count on it before the metadata group knows: it stays closed until its report is applied.
        """
        self.ctx.mark("D2.shortfall")
        epoch = summary.epochs[-1].epoch if summary.epochs else 0
        request = self._report_failure(epoch, summary.leo, shortfall=True)
        self.shortfall = (request, summary) if request is not None else None

    # -- the high watermark -----------------------------------------------------------------------

    def raise_hw(self, hw: int) -> None:
        """Move the HW forward and wake readers. Both roles come here; it never goes back (R3)."""
        self.hw = hw
        self.ctx.mark("R8.commit" if self.leading is None else "R2.commit")
        self.readers.wake()

    def tick(self) -> None:
        """Once per tick of the node."""
        if self.state == FAILED:
            self._reopen()
            return
        if self.leading is not None:
            self.leading.tick()
        elif self.following is not None:
            self.following.tick()
        self.readers.tick()
        ctx = self.ctx
        if ctx.ticks % ctx.ticks_of(ctx.config.hw_checkpoint_ms) == 0:
            hw = min(self.hw, self.durable_leo)
            if hw != self.checkpointed_hw:
                self.checkpointed_hw = hw
                ctx.effects.append(CheckpointHw(self.id, hw))

    def _reopen(self) -> None:
        """Leave the failed state: what was durable goes on in a new file, the rest is fetched again (R5)."""
        ctx = self.ctx
        if self.shortfall is not None:
            request, summary = self.shortfall
            if request in ctx.metadata.results:
                self.failed_durable = summary.leo
                self.opened(summary)
            return
        self.reopen_ticks -= 1
        if self.reopen_ticks > 0 or self.reopening:
            return
        # One attempt at a time: a second rebuild would cut what was appended after the first.
        self.reopening = True
        self.reopen_ticks = ctx.ticks_of(REOPEN_MS)
        ctx.effects.append(
            OpenLog(self.id) if self.never_opened else RebuildLog(self.id, self.failed_durable)
        )

    # -- peers ------------------------------------------------------------------------------------

    def on_fetch(self, sender: int, fetch: Fetch) -> None:
        if self.leading is not None:
            self.leading.on_fetch(sender, fetch)
            return
        status = FETCH_FENCED if fetch.epoch < self.epoch else FETCH_UNKNOWN
        self.refuse_fetch(sender, fetch, status)

    def refuse_fetch(self, sender: int, fetch: Fetch, status: int) -> None:
        """R6: a wrong epoch is answered without any data that could be acted on."""
        self.ctx.mark("R6.fenced" if status == FETCH_FENCED else "R6.unknown")
        self.ctx.effects.append(refusal(sender, fetch, status))


def refusal(sender: int, fetch: Fetch, status: int) -> Send:
    """An answer that says only that this fetch cannot be served here and now."""
    reply = FetchReply(
        fetch.partition, fetch.epoch, fetch.incarnation, fetch.request, status, 0, 0, 0, 0, 0, []
    )
    return Send(sender, reply)
