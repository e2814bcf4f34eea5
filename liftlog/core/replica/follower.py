"""The follower's role: fetch, check, cut what diverged, append, report what is durable (R6, R7, R8, R15).

One fetch is outstanding at a time; its number and our incarnation are in every answer, so that a late answer
to an older question, or to an earlier run of this node, is recognised and thrown away (R6). While
the leader has more, the next fetch leaves as soon as the answer is appended, before it is synced, and what is
durable follows in `FetchProgress`, so that replication pipelines (R7). A follower that has all there is asks
when that is durable, and says so in the same message: it could not sync anything meanwhile, and the leader
has half as much to read.
"""

from __future__ import annotations

from liftlog.batchparts import slice_batch
from liftlog.core.metadata.commands import UNSENT, ReportLeader
from liftlog.core.replica.state.beginning import first_of
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.role import Following
from liftlog.format import CorruptBatch, decode_records, encode_records, parse_batch, read_header
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


class Follower:
    """Copying from one leader in one epoch. A new epoch gets a new object. What stands is in `Following`."""

    __slots__ = ("ctx", "following", "log")

    def __init__(self, log: LogState, following: Following) -> None:
        self.log = log
        self.following = following
        self.ctx = log.ctx

    def fetch(self) -> None:
        """Ask for what comes after our LEO (R6)."""
        log, following, ctx = self.log, self.following, self.ctx
        number = log.next_fetch()
        following.asked(following.request + 1 if ctx.mutants.answer_to_earlier_run else number)
        message = Fetch(
            partition=log.id,
            epoch=following.epoch,
            incarnation=ctx.incarnation,
            request=following.request,
            offset=log.leo,
            durable_leo=log.trusted_leo,
            last_epoch=0 if ctx.mutants.last_epoch_forgotten and following.verified else log.history.last(),
            max_bytes=ctx.config.fetch_max_bytes,
            log_start=log.log_start,
            clean_point=min(log.clean_point, log.trusted_leo),
        )
        if log.trusted_leo < log.leo:
            ctx.mark("R7.reported-durable" if not log.damage.ranges else "D2.hole")
        ctx.effects.append(Send(following.leader, message))

    def durable_moved(self) -> None:
        """R7: tell the leader how far we are, with the next fetch if that has waited for it, else without
        disturbing the one that it holds.
        """
        if not self.following.verified:
            self.ctx.mark("R7.unverified")
            return
        if not self.following.outstanding:
            self.fetch()
            return
        log = self.log
        message = FetchProgress(
            partition=log.id,
            epoch=self.following.epoch,
            incarnation=self.ctx.incarnation,
            offset=log.leo,
            durable_leo=log.trusted_leo,
            last_epoch=log.history.last(),
            log_start=log.log_start,
        )
        self.ctx.effects.append(Send(self.following.leader, message))

    def on_reply(self, sender: int, reply: FetchReply) -> bool:
        """An answer. Whether the next fetch is to leave now; else it leaves at a tick."""
        following = self.following
        ours = sender == following.leader and reply.epoch == following.epoch
        expected = reply.request == following.request
        if not self.ctx.decides(("R6.other-leader", ours), ("R6.late-answer", expected)):
            return False
        if reply.incarnation != self.ctx.incarnation and not self.ctx.mutants.answer_to_earlier_run:
            self.ctx.mark("R6.answer-to-earlier-run")
            return False
        if not following.outstanding:
            self.ctx.mark("R6.duplicate-answer")
            return False
        following.answered()
        problem = self._unbelievable(reply)
        if problem:
            # V3: it is asked again at the next tick; a leader that goes on like this counts as silent.
            self.ctx.refuse("V3", sender, reply, problem)
            return False
        if reply.status not in (FETCH_OK, FETCH_DIVERGED, FETCH_BELOW_START):
            return False  # FENCED, UNKNOWN, DAMAGED: the metadata will tell.
        following.heard()
        if reply.status == FETCH_OK:
            return self._accept(reply)
        if reply.status == FETCH_DIVERGED:
            self._diverged(reply)
        else:
            self._below_start(reply)
        return True

    def _unbelievable(self, reply: FetchReply) -> str:
        """V3: why this cannot be our leader's answer, beside what we know ourselves; empty if it can.

        R6: above all, nobody talks a follower out of what it knows to be committed.
        """
        log = self.log
        if reply.status == FETCH_DIVERGED:
            if reply.end_epoch > log.history.last():
                return f"epoch {reply.end_epoch}, when it was asked for at most {log.history.last()}"
            return self._gives_up_committed(*self._cut_of(reply))
        if reply.status == FETCH_BELOW_START:
            if reply.end_epoch > self.following.epoch:
                return f"epoch {reply.end_epoch} in epoch {self.following.epoch}"
            return self._gives_up_committed(reply.log_start, False)
        return ""

    def _cut_of(self, reply: FetchReply) -> tuple[int, bool]:
        """R6: where to cut; and whether what is known committed may go, as nothing before it is known.

        Nothing of what we have is the leader's if that lies before our log start. It was committed, so there
        was an unclean election; or the start's own record of epochs is gone.
        """
        log = self.log
        _, own_end = log.history.floor(reply.end_epoch, log.leo)
        target = min(reply.end_offset, own_end)
        if self.ctx.mutants.end_of_requested_epoch:
            return reply.end_offset, False
        unknown = target < log.log_start and log.history.epoch_before(log.log_start) == 0
        unknown = unknown and log.log_start > first_of(log)
        return target, unknown

    def _gives_up_committed(self, offset: int, excused: bool) -> str:
        """What is known committed and would go with everything from `offset` on (R6); empty if nothing.

        An unclean election excuses what its epoch has lost: records that were committed before it. What was
        committed in that epoch or later was its leader's own, and nobody may cut it.
        """
        log = self.log
        if offset >= log.hw or excused or self._may_lose(offset):
            return ""
        self.ctx.mark("R6.committed")
        return f"partition {log.id} would be cut to {offset}, below the committed offset {log.hw}"

    def _may_lose(self, offset: int) -> bool:
        """Whether what we know to be committed may go from `offset` on: an unclean election may have lost it,
        or we have. What is damaged up to the end of the log is not here any more: to cut it gives up nothing,
        and to keep it would make this copy ask for ever for what comes after epochs that it does not know
        (D2).
        """
        record, hw_epoch = self.log.record, self.log.hw_epoch
        lost = self.log.damage.reaches_end(offset, self.log.leo)
        if lost and not self.ctx.mutants.damaged_end_kept:
            self.ctx.mark("R6.damaged-end")
            return True
        return record is not None and any(epoch > hw_epoch for epoch in record.unclean_epochs)

    def _accept(self, reply: FetchReply) -> bool:
        log = self.log
        self.following.verify()
        log.agreed()
        batches = self._continuation(reply.batches)
        if batches:
            log.append(batches, log.copied(batches, reply.dropped_below))
        if reply.hw > log.leo:
            self.ctx.mark("R8.beyond-own-log")
        hw = min(reply.hw, log.leo)
        if hw > log.hw:
            log.commit(hw)
        log.all_clean(reply.tombstones_below)
        log.want_start(reply.log_start)
        # If nothing of it was of use, ask again at the next tick, not at once and for ever.
        useful = bool(batches) or not reply.batches
        return useful and (reply.leader_leo > log.leo or log.durable_leo >= log.leo)

    def _continuation(self, frames: list[bytes]) -> list[Batch]:
        """The batches that continue our log. The first may begin before our LEO: the leader has compacted
        what we have in pieces, and we take what we lack (C5).
        """
        log = self.log
        batches: list[Batch] = []
        expected = log.leo
        epoch = log.history.last()
        parse = _unverified if self.ctx.mutants.peer_batches_not_verified else parse_batch
        try:
            for frame in frames:
                batch = parse(log.id, frame)
                if batch.base_offset > expected:
                    break
                if not epoch <= batch.epoch <= self.following.epoch and batch.end_offset > expected:
                    # V3: within an epoch a log only grows, and nobody writes for epochs to come.
                    self.ctx.mark("V3.batch-epoch")
                    break
                if batch.end_offset <= expected:
                    continue
                if self.ctx.mutants.compacted_hole_out_of_range:
                    batch = self._renumbered(batch, expected)
                elif batch.base_offset < expected:
                    self.ctx.mark("C5.cut")
                    batch = slice_batch(log.id, batch, expected, batch.end_offset)
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
            return slice_batch(self.log.id, batch, expected, batch.end_offset)
        moved = [record._replace(offset=expected + place) for place, record in enumerate(records)]
        return encode_records(self.log.id, batch.epoch, moved)

    def _diverged(self, reply: FetchReply) -> None:
        """R6: cut to the end of the largest common epoch as far as known, then ask again."""
        log = self.log
        self.ctx.mark("R6.diverged")
        if self.ctx.mutants.hw_before_cut:
            log.commit(max(log.hw, min(reply.leader_leo, log.leo)))
        target, unknown = self._cut_of(reply)
        consent = unknown or self._may_lose(target)
        if target < log.log_start and not self.ctx.mutants.end_of_requested_epoch:
            log.reset(first_of(log), (), consent)
        elif target < log.leo:
            log.truncate(target, consent)

    def _below_start(self, reply: FetchReply) -> None:
        """C3: the leader's log begins above our LEO, or it does not know an epoch that we share: begin there.

        What we have below its log start may go; nothing that is known committed may go above it.
        """
        log = self.log
        known = reply.end_epoch > 0 and reply.end_offset < reply.log_start
        epochs = (EpochStart(reply.end_epoch, reply.end_offset),) if known else ()
        log.reset(reply.log_start, epochs, self._may_lose(reply.log_start))

    def tick(self) -> None:
        """Repeat what got lost, and suspect a leader that is silent for too long (R15)."""
        log, following, ctx = self.log, self.following, self.ctx
        config = ctx.config
        following.tick()
        if not following.outstanding or following.waited_ticks > ctx.ticks_of(
            config.fetch_wait_ms + 2 * config.tick_ms
        ):
            self.fetch()
        record = log.record
        if (
            following.quiet_ticks >= ctx.ticks_of(config.leader_timeout_ms)
            and record is not None
            and ctx.node in record.isr
            and not log.id.is_journal
        ):
            ctx.mark("R15.report")
            report = ReportLeader(
                UNSENT, log.id, self.following.epoch, record.report_round, ctx.node, ctx.incarnation
            )
            ctx.want(report)


def _unverified(_log: PartitionId, frame: bytes) -> Batch:
    """The planted bug `peer_batches_not_verified`: what a leader sends is believed by its header."""
    header = read_header(frame)
    return Batch(header.base_offset, header.count, header.epoch, frame)
