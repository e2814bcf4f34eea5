"""The follower's role: fetch, check, cut what diverged, append, report what is durable (R6, R7, R8, R15).

One fetch is outstanding at a time; its number and our incarnation are in every answer, so that a late answer
to an older question, or to an earlier run of this node, is recognised and thrown away (R6). The next fetch
leaves as soon as the answer is appended, before it is synced; what is durable follows in `FetchProgress`, so
that replication pipelines (R7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from liftlog.core.commands import ReportLeader
from liftlog.format import CorruptBatch, parse_batch
from liftlog.messages import (
    FETCH_DIVERGED,
    FETCH_OK,
    Fetch,
    FetchProgress,
    FetchReply,
    Send,
)
from liftlog.types import Batch, invariant

if TYPE_CHECKING:
    from liftlog.core.replica import Replica


REPORT_REPEAT_TICKS = 5


class Following:
    """State of following one leader in one epoch. A new epoch gets a new object."""

    __slots__ = (
        "ctx",
        "epoch",
        "leader",
        "outstanding",
        "quiet_ticks",
        "replica",
        "request",
        "verified",
        "waited_ticks",
    )

    def __init__(self, replica: Replica, leader: int, epoch: int) -> None:
        self.replica = replica
        self.ctx = replica.ctx
        self.leader = leader
        self.epoch = epoch
        self.request = 0
        self.outstanding = False
        self.waited_ticks = 0
        self.quiet_ticks = 0
        self.verified = False
        """An answer of this epoch passed the epoch check: our log is a prefix of the leader's from now on."""

    def start(self) -> None:
        self.fetch()

    def fetch(self) -> None:
        """Ask for what comes after our LEO (R6)."""
        replica, ctx = self.replica, self.ctx
        replica.fetches += 1
        self.request = self.request + 1 if ctx.mutants.answer_to_earlier_run else replica.fetches
        self.outstanding = True
        self.waited_ticks = 0
        message = Fetch(
            replica.id,
            self.epoch,
            ctx.incarnation,
            self.request,
            replica.leo,
            replica.durable_leo,
            replica.history.last(),
            ctx.config.fetch_max_bytes,
        )
        ctx.effects.append(Send(self.leader, message))

    def durable_moved(self) -> None:
        """R7: tell the leader without disturbing the fetch that it holds."""
        if not self.verified:
            return
        replica = self.replica
        message = FetchProgress(
            replica.id,
            self.epoch,
            self.ctx.incarnation,
            replica.leo,
            replica.durable_leo,
            replica.history.last(),
        )
        self.ctx.effects.append(Send(self.leader, message))

    def on_reply(self, sender: int, reply: FetchReply) -> None:
        if sender != self.leader or reply.epoch != self.epoch or reply.request != self.request:
            self.ctx.mark("R6.late-answer")
            return
        if reply.incarnation != self.ctx.incarnation and not self.ctx.mutants.answer_to_earlier_run:
            self.ctx.mark("R6.answer-to-earlier-run")
            return
        if not self.outstanding:
            self.ctx.mark("R6.duplicate-answer")
            return
        self.outstanding = False
        if reply.status == FETCH_OK:
            self.quiet_ticks = 0
            self._accept(reply)
        elif reply.status == FETCH_DIVERGED:
            self.quiet_ticks = 0
            self._diverged(reply)
        # FENCED, UNKNOWN, DAMAGED: ask again at the next tick; the metadata will tell.

    def _accept(self, reply: FetchReply) -> None:
        replica = self.replica
        self.verified = True
        batches: list[Batch] = []
        expected = replica.leo
        try:
            for data in reply.batches:
                batch = parse_batch(replica.id, data)
                if batch.base_offset != expected:
                    break
                batches.append(batch)
                expected = batch.end_offset
        except CorruptBatch:
            self.ctx.mark("D1.corrupt-on-wire")
        if batches:
            replica.append(batches)
        hw = min(reply.hw, replica.leo)
        if hw > replica.hw:
            replica.raise_hw(hw)
        self.fetch()

    def _diverged(self, reply: FetchReply) -> None:
        """R6: cut to the end of the largest common epoch as far as known, then ask again."""
        replica, ctx = self.replica, self.ctx
        ctx.mark("R6.diverged")
        _, own_end = replica.history.floor(reply.end_epoch, replica.leo)
        target = min(reply.end_offset, own_end)
        if ctx.mutants.end_of_requested_epoch:
            target = reply.end_offset
        if target < replica.leo:
            record = replica.record
            unclean = record is not None and bool(record.unclean_epochs)
            invariant(
                target >= replica.hw or unclean,
                f"partition {replica.id}: truncation to {target} below the committed offset {replica.hw}",
            )
            replica.truncate(target)
        self.fetch()

    def tick(self) -> None:
        """Repeat what got lost, and suspect a leader that is silent for too long (R15)."""
        ctx = self.ctx
        config = ctx.config
        self.quiet_ticks += 1
        self.waited_ticks += 1
        if not self.outstanding or self.waited_ticks > ctx.ticks_of(
            config.fetch_wait_ms + 2 * config.tick_ms
        ):
            self.fetch()
        suspicion = ctx.ticks_of(config.leader_timeout_ms)
        overdue = self.quiet_ticks - suspicion
        if overdue >= 0 and overdue % REPORT_REPEAT_TICKS == 0 and ctx.node in self.replica.isr:
            ctx.mark("R15.report")
            request = ctx.new_request()
            ctx.submit(ReportLeader(request, self.replica.id, self.epoch, ctx.node, ctx.incarnation))
