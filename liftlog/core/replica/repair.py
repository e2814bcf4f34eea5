"""Damaged ranges of one replica, from the moment they are found until they are whole again (D2).

A range of offsets is damaged when its bytes cannot be read or do not verify: found at the start, by a
reader, by a follower's fetch, by scrubbing or by compaction. Storage has made a note of it before it tells.
Everything else of the log stays readable, and the replica goes on following. But it must not count:

1. It tells the metadata group, which takes it out of the ISR and elects another leader if it was the leader
   (`ReplicaFailed`, with the LEO that it still has: a copy with a hole is better than one without an end).
   The report starts a new epoch, so that nobody goes on counting what this copy reported before (R2).
2. From now on it reports nothing beyond the first damaged offset as durable, so that it can neither move the
   HW nor join (R10).
3. As a follower whose log is known to be a prefix of the leader's (R6), it asks the leader for each range, a
   bounded part at a time, and hands the batches to storage, which puts them in place.
4. When no range is left it reports its LEO again, and joins like anybody else.

A damaged range at or above the HW is not repaired but cut off, with what follows: it was never committed,
and an ordinary fetch brings it back. The same is done when storage cannot repair a range.

A leader that has damage hands over to any live replica that has everything committed. Is there none, it is
the only copy: it goes on leading, reads of the range fail and name the bytes, everything else works. It hands
over as soon as somebody else has joined. If nobody can, since all others end where its damage begins, what
lies there was never committed, and is cut off like a follower's.
"""

from __future__ import annotations

from collections.abc import Sequence

from liftlog.batchparts import slice_batch
from liftlog.core.replica.state.log import LogState
from liftlog.format import CorruptBatch, parse_batch
from liftlog.messages import FETCH_BELOW_START, FETCH_OK, LogRepaired, RangeFetch, RangeReply, Send
from liftlog.types import Batch, LiftlogError, OffsetRange

ATTEMPTS_MAX = 5
"""After so many refusals of storage in a row the range is cut off and fetched again with all that follows."""
PAUSE_MS = 1000


class Repairs:
    """What this replica does about its damage (`LogState.damage`).

    What cannot be repaired is given up: some methods return the offset from which on it is, None for nothing.
    """

    __slots__ = (
        "attempts",
        "ctx",
        "generation",
        "handed_over",
        "log",
        "outstanding",
        "pause_ticks",
        "position",
        "request",
        "telling",
        "told",
        "waited_ticks",
    )

    def __init__(self, log: LogState) -> None:
        self.log = log
        self.ctx = log.ctx
        self.told = False
        """The metadata group knows, and has taken this copy out of the ISR."""
        self.telling = False
        """It was told of the damage, but has perhaps not heard of it yet."""
        self._begin_range()

    def _begin_range(self) -> None:
        """Start with the first range."""
        damage = self.log.damage
        self.generation = damage.generation
        self.position = damage.ranges[0].start if damage.ranges else 0
        self.outstanding = False
        self.handed_over = False
        self.request = 0
        self.waited_ticks = 0
        self.pause_ticks = 0
        self.attempts = 0

    def _follow_damage(self) -> None:
        """Begin anew if the first range is another one now."""
        if self.generation != self.log.damage.generation:
            self._begin_range()

    @property
    def ranges(self) -> list[OffsetRange]:
        return self.log.damage.ranges

    # -- what is damaged --------------------------------------------------------------------------

    def opened(self, damage: Sequence[OffsetRange], told: bool) -> None:
        """The log was opened, or begun anew, with this damage."""
        self.told = told and bool(self.ranges)
        self.telling = False
        self._begin_range()
        if self.ranges:
            self.ctx.mark("D2.found-at-start")
        elif damage:
            self.ctx.mark("D2.whole")

    def note(self, found: OffsetRange | None) -> None:
        """Storage has found a range that cannot be read."""
        whole = not self.ranges
        if found is not None and self.log.damaged(found) and whole:
            self.told = False
            self._step()

    def whole(self) -> None:
        """No damage is left."""
        self.told = False
        self.ctx.mark("D2.whole")

    # -- telling the group ------------------------------------------------------------------------

    def tick(self) -> int | None:
        if not self.ranges:
            return None
        self._follow_damage()
        self.waited_ticks += 1
        self.pause_ticks = max(0, self.pause_ticks - 1)
        return self._step()

    def _step(self) -> int | None:
        log = self.log
        if log.leading is not None:
            if self._successors():
                self.ctx.mark("D2.yield")
                self._tell()
            return None
        if self.ctx.node in log.isr:
            self.told = False
        if not self.told:
            self._tell()
        elif log.following is not None and log.following.verified:
            return self._mend()
        return None

    def _successors(self) -> list[int]:
        """Who else is live and has everything committed."""
        record = self.log.record
        if record is None:
            return []
        others = [*record.isr, *record.eligible]
        return [node for node in others if node != self.ctx.node and self.ctx.metadata.is_live(node)]

    def lone_tail(self) -> int | None:
        """As a leader: give up what begins with damage and nobody else has."""
        if not self.ranges or not self._nobody_else_has(self.ranges[0].start):
            return None
        self.ctx.mark("D2.lone-tail")
        return self.ranges[0].start

    def _nobody_else_has(self, offset: int) -> bool:
        """Whether this leader's log alone goes on behind `offset`, and nothing there can be committed.

        With a minimum of two, and an ISR that was at it since it is two (R19), what is committed is on
        another copy: each of them has shown in this epoch how far it reaches, damaged or not, and none was
        lost. They can fetch nothing more from here.
        """
        log, record = self.log, self.log.record
        if record is None or log.leading is None or offset < log.hw:
            return False
        if record.min_insync < 2 or record.alone:
            return False
        if any(known.lost for known in record.last_known.values()):
            return False
        heard = log.leading.followers
        others = [heard.get(node) for node in record.replicas if node != self.ctx.node]
        return all(other is not None and 0 <= other.leo <= offset for other in others)

    def _tell(self) -> None:
        """Report once; when that has been heard, we count for nothing (or lead again, alone)."""
        if not self.telling:
            self.telling = True
            self.log.report_failure(self.log.durable_leo, shortfall=True)
        elif self.log.confession.heard:
            self.telling = False
            self.told = True

    # -- repair -----------------------------------------------------------------------------------

    def _mend(self) -> int | None:
        """Work on the first range, whichever way is right for it."""
        self._follow_damage()
        ctx = self.ctx
        damaged = self.ranges[0]
        if damaged.start >= self.log.hw:
            return damaged.start
        if not self.handed_over and not self.pause_ticks:
            patience = ctx.ticks_of(ctx.config.fetch_wait_ms + 2 * ctx.config.tick_ms)
            if not self.outstanding or self.waited_ticks > patience:
                self._ask(damaged)
        return None

    def _ask(self, damaged: OffsetRange) -> None:
        log, ctx = self.log, self.ctx
        following = log.following
        assert following is not None
        ctx.mark("D2.range-fetch")
        # Numbered like the other fetches: the leader must not take an older one for newer (C2).
        self.request = log.next_fetch()
        self.outstanding = True
        self.waited_ticks = 0
        message = RangeFetch(
            partition=log.id,
            epoch=following.epoch,
            incarnation=ctx.incarnation,
            request=self.request,
            offset=self.position,
            end=damaged.end,
            max_bytes=ctx.config.fetch_max_bytes,
        )
        ctx.effects.append(Send(following.leader, message))

    def on_reply(self, sender: int, reply: RangeReply) -> None:
        self._follow_damage()
        following = self.log.following
        if (
            following is None
            or not self.outstanding
            or sender != following.leader
            or reply.epoch != following.epoch
            or reply.incarnation != self.ctx.incarnation
            or reply.request != self.request
        ):
            self.ctx.mark("D2.late-answer")
            return
        self.outstanding = False
        following.heard()
        if reply.status == FETCH_BELOW_START:
            # Only this range is spoken of here; a fetch tells the rest.
            self.log.want_start(min(reply.log_start, self.ranges[0].end))
        elif reply.status == FETCH_OK:
            batches = self._fitting(reply.batches)
            if batches:
                self.handed_over = True
                self.log.refetch(self.ranges[0], batches, reply.dropped_below)
        # DAMAGED, UNKNOWN, FENCED: ask again at the next tick; the metadata will tell.

    def _fitting(self, frames: list[bytes]) -> list[Batch]:
        """The run from where the range goes on, cut to the range (C5)."""
        log, end = self.log, self.ranges[0].end
        batches: list[Batch] = []
        expected = self.position
        try:
            for frame in frames:
                batch = parse_batch(log.id, frame)
                if batch.base_offset > expected or expected >= end:
                    break
                if not log.history.admits(batch.epoch, max(batch.base_offset, expected)):
                    self.ctx.mark("V3.batch-epoch")
                    break
                if batch.end_offset > expected:
                    batches.append(slice_batch(log.id, batch, expected, end))
                    expected = batches[-1].end_offset
        except (CorruptBatch, LiftlogError):
            self.ctx.mark("D1.corrupt-on-wire")
        return batches

    def repaired(self, event: LogRepaired) -> int | None:
        """Storage has put batches in place, or could not; it may have met more damage."""
        self._follow_damage()
        self.handed_over = False
        current = self.ranges[:1] == [event.range]
        if current and event.next_offset >= event.range.end:
            self.ctx.mark("D2.repaired")
            self.log.mended(event.range, event.damage)
        else:
            for found in event.damage:
                self.note(found)
            if current and event.error:
                return self._refused()
            if self.ranges[:1] == [event.range]:
                self._follow_damage()
                self.position = event.next_offset
                self.attempts = 0
        if not event.error and self.ranges and self.told and self.log.following is not None:
            return self._step()
        return None

    def _refused(self) -> int | None:
        """Try again in a while; whatever storage refuses for ever is cut off and fetched again."""
        self.ctx.mark("D2.repair-failed")
        self._follow_damage()
        self.attempts += 1
        self.position = self.ranges[0].start
        self.pause_ticks = self.ctx.ticks_of(PAUSE_MS)
        return self.ranges[0].start if self.attempts >= ATTEMPTS_MAX else None
