"""The follower's role: fetch, check, cut what diverged, append, report what is durable (R6, R7, R8, R15).

One fetch is outstanding at a time; its number and our incarnation are in every answer, so that a late answer
to an older question, or to an earlier run of this node, is recognised and thrown away (R6). The next fetch
leaves as soon as the answer is appended, before it is synced; what is durable follows in `FetchProgress`, so
that replication pipelines (R7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from liftlog.core.commands import UNSENT, ReportLeader
from liftlog.format import CorruptBatch, decode_records, encode_records, parse_batch, read_header, slice_batch
from liftlog.messages import (
    FETCH_BELOW_START,
    FETCH_DIVERGED,
    FETCH_OK,
    Fetch,
    FetchProgress,
    FetchReply,
    Send,
)
from liftlog.types import Batch, EpochStart, LiftlogError, PartitionId

if TYPE_CHECKING:
    from liftlog.core.replica import Replica


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
        replica.touch()
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
            replica.trusted_leo,
            replica.history.last(),
            ctx.config.fetch_max_bytes,
            replica.log_start,
            min(replica.clean_point, replica.trusted_leo),
        )
        if replica.trusted_leo < replica.leo:
            ctx.mark("R7.reported-durable" if not replica.repairs.ranges else "D2.hole")
        ctx.effects.append(Send(self.leader, message))

    def durable_moved(self) -> None:
        """R7: tell the leader how far we are, without disturbing the fetch that it holds."""
        if not self.verified:
            self.ctx.mark("R7.unverified")
            return
        replica = self.replica
        message = FetchProgress(
            replica.id,
            self.epoch,
            self.ctx.incarnation,
            replica.leo,
            replica.trusted_leo,
            replica.history.last(),
            replica.log_start,
        )
        self.ctx.effects.append(Send(self.leader, message))

    def on_reply(self, sender: int, reply: FetchReply) -> None:
        ours = sender == self.leader and reply.epoch == self.epoch
        if not self.ctx.decides(("R6.other-leader", ours), ("R6.late-answer", reply.request == self.request)):
            return
        if reply.incarnation != self.ctx.incarnation and not self.ctx.mutants.answer_to_earlier_run:
            self.ctx.mark("R6.answer-to-earlier-run")
            return
        if not self.outstanding:
            self.ctx.mark("R6.duplicate-answer")
            return
        self.replica.touch()
        self.outstanding = False
        problem = self._unbelievable(reply)
        if problem:
            # V3: it is asked again at the next tick; a leader that goes on like this counts as silent.
            self.ctx.refuse("V3", sender, reply, problem)
        elif reply.status == FETCH_OK:
            self.quiet_ticks = 0
            self._accept(reply)
        elif reply.status == FETCH_DIVERGED:
            self.quiet_ticks = 0
            self._diverged(reply)
        elif reply.status == FETCH_BELOW_START:
            self.quiet_ticks = 0
            self._below_start(reply)
        # FENCED, UNKNOWN, DAMAGED: ask again at the next tick; the metadata will tell.

    def _unbelievable(self, reply: FetchReply) -> str:
        """V3: why this cannot be our leader's answer, beside what we know ourselves; empty if it can.

        R6: above all, nobody talks a follower out of what it knows to be committed.
        """
        replica = self.replica
        if reply.status == FETCH_DIVERGED:
            if reply.end_epoch > replica.history.last():
                return f"epoch {reply.end_epoch}, when it was asked for at most {replica.history.last()}"
            return self._gives_up_committed(*self._cut_of(reply))
        if reply.status == FETCH_BELOW_START:
            if reply.end_epoch > self.epoch:
                return f"epoch {reply.end_epoch} in epoch {self.epoch}"
            return self._gives_up_committed(reply.log_start, False)
        return ""

    def _cut_of(self, reply: FetchReply) -> tuple[int, bool]:
        """R6: where to cut; and whether what is known committed may go, as nothing before it is known.

        Nothing of what we have is the leader's if that lies before our log start. It was committed, so there
        was an unclean election; or the start's own record of epochs is gone.
        """
        replica = self.replica
        _, own_end = replica.history.floor(reply.end_epoch, replica.leo)
        target = min(reply.end_offset, own_end)
        if self.ctx.mutants.end_of_requested_epoch:
            return reply.end_offset, False
        unknown = target < replica.log_start and replica.history.epoch_before(replica.log_start) == 0
        return target, unknown

    def _gives_up_committed(self, offset: int, excused: bool) -> str:
        """What is known committed and would go with everything from `offset` on (R6); empty if nothing.

        An unclean election excuses what its epoch has lost: records that were committed before it. What was
        committed in that epoch or later was its leader's own, and nobody may cut it.
        """
        replica = self.replica
        record = replica.record
        unclean = record.unclean_epochs if record is not None else ()
        if offset >= replica.hw or excused or any(epoch > replica.hw_epoch for epoch in unclean):
            return ""
        self.ctx.mark("R6.committed")
        return f"partition {replica.id} would be cut to {offset}, below the committed offset {replica.hw}"

    def _accept(self, reply: FetchReply) -> None:
        replica = self.replica
        self.verified = True
        replica.hw_epoch = self.epoch
        batches = self._continuation(reply.batches)
        if batches:
            replica.append(batches, replica.copied(batches, reply.dropped_below))
        if reply.hw > replica.leo:
            self.ctx.mark("R8.beyond-own-log")
        hw = min(reply.hw, replica.leo)
        if hw > replica.hw:
            replica.raise_hw(hw)
        replica.tombstones_below = max(replica.tombstones_below, reply.tombstones_below)
        replica.upkeep.want_start(reply.log_start)
        if batches or not reply.batches:
            self.fetch()
        # Else nothing of it was of use: ask again at the next tick, not at once and for ever.

    def _continuation(self, frames: list[bytes]) -> list[Batch]:
        """The batches that continue our log. The first may begin before our LEO: the leader has compacted
        what we have in pieces, and we take what we lack (C5).
        """
        replica = self.replica
        batches: list[Batch] = []
        expected = replica.leo
        epoch = replica.history.last()
        parse = _unverified if self.ctx.mutants.peer_batches_not_verified else parse_batch
        try:
            for frame in frames:
                batch = parse(replica.id, frame)
                if batch.base_offset > expected:
                    break
                if not epoch <= batch.epoch <= self.epoch and batch.end_offset > expected:
                    # V3: within an epoch a log only grows, and nobody writes for epochs to come.
                    self.ctx.mark("V3.batch-epoch")
                    break
                if batch.end_offset <= expected:
                    continue
                if self.ctx.mutants.compacted_hole_out_of_range:
                    batch = self._renumbered(batch, expected)
                elif batch.base_offset < expected:
                    self.ctx.mark("C5.cut")
                    batch = slice_batch(replica.id, batch, expected, batch.end_offset)
                batches.append(batch)
                expected, epoch = batch.end_offset, batch.epoch
        except CorruptBatch:
            self.ctx.mark("D1.corrupt-on-wire")
        except LiftlogError:
            # Of a newer version, or packed with a library that is missing here: no damage, but no use.
            self.ctx.mark("D1.unsupported")
        return batches

    def _renumbered(self, batch: Batch, expected: int) -> Batch:
        """Mutant 44: whatever records there are get the next offsets, as if there were no holes."""
        records = decode_records(batch)
        if (batch.base_offset == expected and len(records) == batch.count) or not records:
            return slice_batch(self.replica.id, batch, expected, batch.end_offset)
        moved = [record._replace(offset=expected + place) for place, record in enumerate(records)]
        return encode_records(self.replica.id, batch.epoch, moved)

    def _diverged(self, reply: FetchReply) -> None:
        """R6: cut to the end of the largest common epoch as far as known, then ask again."""
        replica = self.replica
        self.ctx.mark("R6.diverged")
        target, _ = self._cut_of(reply)
        if target < replica.log_start and not self.ctx.mutants.end_of_requested_epoch:
            replica.reset(0, ())
        elif target < replica.leo:
            replica.truncate(target)
        self.fetch()

    def _below_start(self, reply: FetchReply) -> None:
        """C3: the leader's log begins above our LEO, or it does not know an epoch that we share: begin there.

        What we have below its log start may go; nothing that is known committed may go above it.
        """
        replica = self.replica
        known = reply.end_epoch > 0 and reply.end_offset < reply.log_start
        replica.reset(reply.log_start, (EpochStart(reply.end_epoch, reply.end_offset),) if known else ())
        self.fetch()

    def tick(self) -> None:
        """Repeat what got lost, and suspect a leader that is silent for too long (R15)."""
        replica, ctx = self.replica, self.ctx
        config = ctx.config
        self.quiet_ticks += 1
        self.waited_ticks += 1
        if not self.outstanding or self.waited_ticks > ctx.ticks_of(
            config.fetch_wait_ms + 2 * config.tick_ms
        ):
            self.fetch()
        record = replica.record
        if (
            self.quiet_ticks >= ctx.ticks_of(config.leader_timeout_ms)
            and record is not None
            and ctx.node in record.isr
        ):
            ctx.mark("R15.report")
            report = ReportLeader(
                UNSENT, replica.id, self.epoch, record.report_round, ctx.node, ctx.incarnation
            )
            ctx.want(report)


def _unverified(_log: PartitionId, frame: bytes) -> Batch:
    """The planted bug `peer_batches_not_verified`: what a leader sends is believed by its header."""
    header = read_header(frame)
    return Batch(header.base_offset, header.count, header.epoch, frame)
