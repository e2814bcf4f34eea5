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

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from liftlog.format import CorruptBatch, parse_batch, slice_batch
from liftlog.messages import FETCH_BELOW_START, FETCH_OK, LogRepaired, RangeFetch, RangeReply, Send
from liftlog.types import Batch, LiftlogError, OffsetRange

if TYPE_CHECKING:
    from liftlog.core.replica import Replica

ATTEMPTS_MAX = 5
"""After so many refusals of storage in a row the range is cut off and fetched again with all that follows."""
PAUSE_MS = 1000


class Repairs:
    """What this replica knows of its damage. `ranges` are ascending and do not touch."""

    __slots__ = (
        "attempts",
        "ctx",
        "handed_over",
        "late",
        "outstanding",
        "pause_ticks",
        "position",
        "ranges",
        "replica",
        "request",
        "telling",
        "told",
        "waited_ticks",
    )

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.ctx = replica.ctx
        self.ranges: list[OffsetRange] = []
        self.late: tuple[int, ...] = ()
        self.told = False
        """The metadata group knows, and has taken this copy out of the ISR."""
        self.telling = False
        """It was told of the damage, but has perhaps not heard of it yet."""
        self._begin_range()

    def _begin_range(self) -> None:
        """Start with the first range."""
        self.position = self.ranges[0].start if self.ranges else 0
        self.outstanding = False
        self.handed_over = False
        self.request = 0
        self.waited_ticks = 0
        self.pause_ticks = 0
        self.attempts = 0

    @property
    def first(self) -> int | None:
        """The first damaged offset, None if the log is whole."""
        return self.ranges[0].start if self.ranges else None

    # -- what is damaged --------------------------------------------------------------------------

    def opened(self, ranges: Sequence[OffsetRange], late: Sequence[int], told: bool) -> None:
        """The log was opened, or begun anew, with these ranges damaged; `late`: see `_blurred`."""
        self.replica.touch()
        self.ranges = list(ranges)
        self.late = tuple(late)
        self.told = told and bool(ranges)
        self.telling = False
        self.forget_below(self.replica.log_start)
        self._begin_range()
        if self.ranges:
            self.ctx.mark("D2.found-at-start")

    def note(self, found: OffsetRange | None) -> None:
        """Storage has found a range that cannot be read."""
        whole = not self.ranges
        if found is not None and self._add(found) and whole:
            self.told = False
            self._step()

    def _add(self, found: OffsetRange) -> bool:
        """Whether that is news which concerns this replica."""
        replica = self.replica
        if found.end <= replica.log_start or found.start >= replica.leo:
            return False
        # A range that begins below the log start would be asked for at an offset that no leader has any more.
        found = OffsetRange(max(found.start, replica.log_start), found.end)
        if any(known.start <= found.start and found.end <= known.end for known in self.ranges):
            return False
        self.ctx.mark("D2.found")
        replica.touch()
        before = self.ranges[:1]
        merged: list[OffsetRange] = []
        for one in sorted([*self.ranges, found]):
            if merged and one.start <= merged[-1].end:
                merged[-1] = OffsetRange(merged[-1].start, max(merged[-1].end, one.end))
            else:
                merged.append(one)
        self.ranges = merged
        if merged[:1] != before:
            self._begin_range()
        return True

    def forget_below(self, log_start: int) -> None:
        """What lies below the log start is nobody's concern any more (C3)."""
        if self.ranges and self.ranges[0].start < log_start:
            self.replica.touch()
            kept = [one for one in self.ranges if one.end > log_start]
            self.ranges = [OffsetRange(max(one.start, log_start), one.end) for one in kept]
            self._begin_range()
            self._whole_again()

    def truncated(self, offset: int) -> None:
        """The log was cut at `offset`, and the damage behind it with it."""
        if self.ranges and self.ranges[-1].end > offset:
            kept = [OffsetRange(one.start, min(one.end, offset)) for one in self.ranges if one.start < offset]
            self.ranges = kept
            self._begin_range()

    def _whole_again(self) -> None:
        if not self.ranges:
            self.told = False
            self.ctx.mark("D2.whole")
            if self.replica.following is not None:
                self.replica.following.durable_moved()

    # -- epochs that begin inside damage (R6) -------------------------------------------------------

    # Where storage had to read past a range without an index, the epoch of the first record behind it may
    # have begun inside it, and so may epochs of which nothing else is left. Our history says then, at the
    # latest possible place: "E up to here, F from here on", and storage names the place.

    def _blurred(self, offset: int) -> Iterator[tuple[int, int, int]]:
        """(place, E, F) of each such place whose range begins below `offset`."""
        history = self.replica.history
        for one in self.ranges:
            if one.start >= offset:
                return
            for place in self.late:
                if one.start < place <= one.end and (epoch := history.epoch_at(place)):
                    yield place, history.epoch_before(one.start), epoch

    def hides(self, offset: int, last_epoch: int) -> bool:
        """Whether a log that ends at `offset` in `last_epoch` is a prefix of ours, although the history does
        not say so: it ends inside the range in F itself, and we have what F wrote behind that.
        """
        if not self.late:
            return False
        return any(offset <= place and last_epoch == epoch for place, _, epoch in self._blurred(offset))

    def blur(self, offset: int, last_epoch: int) -> bool:
        """Whether we cannot say if such a log is a prefix of ours, or where it ceases to be one.

        Saying where to cut would make somebody throw away what may be the last good copy, or keep what it
        would have to cut again.
        """
        if not self.late:
            return False
        return any(before <= last_epoch < epoch for _, before, epoch in self._blurred(offset))

    # -- telling the group ------------------------------------------------------------------------

    def tick(self) -> None:
        if self.ranges:
            self.waited_ticks += 1
            self.pause_ticks = max(0, self.pause_ticks - 1)
            self._step()

    def _step(self) -> None:
        replica = self.replica
        if replica.leading is not None:
            if self._successors():
                self.ctx.mark("D2.yield")
                self._tell()
            return
        if self.ctx.node in replica.isr:
            self.told = False
        if not self.told:
            self._tell()
        elif replica.following is not None and replica.following.verified:
            self._mend()

    def _successors(self) -> list[int]:
        """Who else is live and has everything committed."""
        record = self.replica.record
        if record is None:
            return []
        others = [*record.isr, *record.eligible]
        return [node for node in others if node != self.ctx.node and self.ctx.metadata.is_live(node)]

    def cut_lone_tail(self) -> bool:
        """As a leader: cut off what begins with damage and nobody else has. True if that was done."""
        if not self.ranges or not self._nobody_else_has(self.ranges[0].start):
            return False
        self.ctx.mark("D2.lone-tail")
        self.replica.cut_damage(self.ranges[0].start)
        return True

    def _nobody_else_has(self, offset: int) -> bool:
        """Whether this leader's log alone goes on behind `offset`, and nothing there can be committed.

        With a minimum of two, what is committed is on another copy: each of them has shown in this epoch how
        far it reaches, damaged or not, and none was lost. They can fetch nothing more from here.
        """
        replica, record = self.replica, self.replica.record
        if record is None or replica.leading is None or record.min_insync < 2 or offset < replica.hw:
            return False
        if any(known.lost for known in record.last_known.values()):
            return False
        heard = replica.leading.followers
        others = [heard.get(node) for node in record.replicas if node != self.ctx.node]
        return all(other is not None and 0 <= other.leo <= offset for other in others)

    def _tell(self) -> None:
        """Report once; when that has been heard, we count for nothing (or lead again, alone)."""
        if not self.telling:
            self.telling = True
            self.replica.report_failure(self.replica.durable_leo, shortfall=True)
        elif self.replica.confession.heard:
            self.telling = False
            self.told = True

    # -- repair -----------------------------------------------------------------------------------

    def _mend(self) -> None:
        """Work on the first range, whichever way is right for it."""
        replica, ctx = self.replica, self.ctx
        damaged = self.ranges[0]
        if damaged.start >= replica.hw:
            replica.cut_damage(damaged.start)
        elif not self.handed_over and not self.pause_ticks:
            patience = ctx.ticks_of(ctx.config.fetch_wait_ms + 2 * ctx.config.tick_ms)
            if not self.outstanding or self.waited_ticks > patience:
                self._ask(damaged)

    def _ask(self, damaged: OffsetRange) -> None:
        replica, ctx = self.replica, self.ctx
        following = replica.following
        assert following is not None
        ctx.mark("D2.range-fetch")
        # Numbered like the other fetches: the leader must not take an older one for newer (C2).
        replica.fetches += 1
        self.request = replica.fetches
        self.outstanding = True
        self.waited_ticks = 0
        message = RangeFetch(
            replica.id,
            following.epoch,
            ctx.incarnation,
            self.request,
            self.position,
            damaged.end,
            ctx.config.fetch_max_bytes,
        )
        ctx.effects.append(Send(following.leader, message))

    def on_reply(self, sender: int, reply: RangeReply) -> None:
        following = self.replica.following
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
        following.quiet_ticks = 0
        if reply.status == FETCH_BELOW_START:
            # Only this range is spoken of here; a fetch tells the rest.
            self.replica.upkeep.want_start(min(reply.log_start, self.ranges[0].end))
        elif reply.status == FETCH_OK:
            batches = self._fitting(reply.batches)
            if batches:
                self._hand_over(batches, reply.dropped_below)
        # DAMAGED, UNKNOWN, FENCED: ask again at the next tick; the metadata will tell.

    def _fitting(self, frames: list[bytes]) -> list[Batch]:
        """The run from where the range goes on, cut to the range (C5)."""
        log, end = self.replica.id, self.ranges[0].end
        batches: list[Batch] = []
        expected = self.position
        try:
            for frame in frames:
                batch = parse_batch(log, frame)
                if batch.base_offset > expected or expected >= end:
                    break
                if not self.replica.history.admits(batch.epoch, max(batch.base_offset, expected)):
                    self.ctx.mark("V3.batch-epoch")
                    break
                if batch.end_offset > expected:
                    batches.append(slice_batch(log, batch, expected, end))
                    expected = batches[-1].end_offset
        except (CorruptBatch, LiftlogError):
            self.ctx.mark("D1.corrupt-on-wire")
        return batches

    def _hand_over(self, batches: list[Batch], dropped_below: int) -> None:
        self.handed_over = True
        self.replica.touch()
        dropped_below = self.replica.copied(batches, dropped_below)
        for batch in batches:
            self.replica.history.learn(batch.epoch, batch.base_offset)
        self.replica.upkeep.repair(self.ranges[0], batches, dropped_below)

    def repaired(self, event: LogRepaired) -> None:
        """Storage has put batches in place, or could not; it may have met more damage.

        That counts before we look whether the log is whole: with it, this copy must not join (R10).
        """
        self.handed_over = False
        current = self.ranges[:1] == [event.range]
        if current and event.next_offset >= event.range.end:
            self.ctx.mark("D2.repaired")
            self.replica.touch()
            del self.ranges[0]
            self._begin_range()
            for found in event.damage:
                self._add(found)
            self._whole_again()
        else:
            for found in event.damage:
                self.note(found)
            if current and event.error:
                self._refused()
            elif self.ranges[:1] == [event.range]:
                self.position = event.next_offset
                self.attempts = 0
        if not event.error and self.ranges and self.told and self.replica.following is not None:
            self._step()

    def _refused(self) -> None:
        """Try again in a while; whatever storage refuses for ever is cut off and fetched again."""
        self.ctx.mark("D2.repair-failed")
        self.attempts += 1
        self.position = self.ranges[0].start
        self.pause_ticks = self.ctx.ticks_of(PAUSE_MS)
        if self.attempts >= ATTEMPTS_MAX:
            self.replica.cut_damage(self.ranges[0].start)
