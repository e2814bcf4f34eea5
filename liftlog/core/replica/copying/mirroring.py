"""R28: a mirror. Its leader copies what its origin has committed, to the same offsets.

    asked      of who leads the origin's partition, for what follows the end of our own log: one at a time;
               the next when what came is committed here
    copied     each record with its offset, time, subject, headers, key and value. Offsets of which nothing is
               left there, since they were deleted, or lie below its log start, have no record here either
    elsewhere  an origin in another cluster is asked by way of the driver (`copying/elsewhere.py`)
    taken      of these, what its filter matches, from where it begins on: what does not has no record here
    said       where there is a journal (`removal`), which of them that are, before they are copied: what is
               counted, and given to consumers, goes by what the journal says to be gone
    committed  by this partition's own ISR, as any record

The end of the log is all that a new leader has to know, and it knows that (R1). What it inherits uncommitted
was committed at the origin, so it is kept. Whoever asks has committed all that he has: so an answer, in
whichever epoch it comes, begins no higher than the log ends, and what it says again is skipped.

What is said of offsets that are not copied then, since the leader has changed, is about records of its epoch,
and there are none: it says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import UNSET

from liftlog.core.metadata.origins import origin_of, standstill
from liftlog.core.replica.copying.elsewhere import OriginElsewhere
from liftlog.core.replica.copying.origin import told_batches
from liftlog.core.replica.copying.passing import begins, taking
from liftlog.core.replica.publishing.sequencer import compressed
from liftlog.core.replica.removal.entries import RUNS_MAX, encode_removed
from liftlog.core.replica.removal.subjectpurge import SubjectPurges
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.role import LeaderState
from liftlog.format import decode_records, encode_sparse, encode_values
from liftlog.messages import FETCH_BELOW_START, FETCH_OK, MirrorFetch, MirrorReply, OriginAnswered
from liftlog.messages.copying import Start, elsewhere
from liftlog.types import Batch, LiftlogError, OffsetRange, PartitionId, Record

GAP_MAX = 1 << 31
"""So many offsets without a record one batch spans at most."""
FETCH_BYTES = 256 * 1024


class Emptied:
    """Who says in the journal, in one epoch, which offsets of a mirror are empty."""

    __slots__ = ("_log", "_moved", "_purges")

    def __init__(self, log: LogState, purges: SubjectPurges, moved: Callable[[], None]) -> None:
        """`log`: the journal. `purges`: who else writes there. `moved`: whom to tell of entries."""
        self._log = log
        self._purges = purges
        self._moved = moved

    @property
    def committed(self) -> int:
        """Up to where the journal is."""
        return self._log.hw

    def say(self, epoch: int, runs: Sequence[OffsetRange]) -> int:
        """Write that there is nothing of this epoch. Returns where the journal ends then."""
        log = self._log
        some = [runs[start : start + RUNS_MAX] for start in range(0, len(runs), RUNS_MAX)]
        entries = [encode_removed(epoch, one) for one in some]
        log.append([encode_values(log.id, log.leo, epoch, log.ctx.wall_ms, entries)])
        self._purges.wrote()
        self._moved()
        return log.leo


class _Held(NamedTuple):
    """Batches that wait until the journal is committed up to `said`."""

    batches: list[Batch]
    said: int


class Mirroring:
    """Of one leader of a partition; of a stream that is no mirror it does nothing."""

    __slots__ = (
        *("_afar", "_ctx", "_emptied", "_heard", "_held", "_leading", "_log", "_moved", "_waits"),
        *("_stands", "origin_hw"),
    )

    def __init__(self, log: LogState, leading: LeaderState, moved: Callable[[], None]) -> None:
        """`moved`: whom to tell that there is more here."""
        self._ctx = log.ctx
        self._log = log
        self._leading = leading
        self._moved = moved
        self._afar = OriginElsewhere(log)
        self._emptied: Emptied | None = None
        self._held: _Held | None = None
        self._heard = False
        """Whether the origin has answered this leader."""
        self._waits = 0
        """For so many ticks more the answer is awaited; 0: nothing was asked, or it is answered."""
        self.origin_hw = 0
        """How far the origin is committed, as it said last."""
        self._stands = ""
        """Why nothing comes, by the metadata; empty: it does."""

    @property
    def on(self) -> bool:
        """Whether this is a mirror's data."""
        config = self._log.config
        return config is not None and bool(config.mirrors) and not self._log.id.is_journal

    @property
    def is_elsewhere(self) -> bool:
        """Whether the origin is of another cluster."""
        config = self._log.config
        return config is not None and elsewhere(config.mirrors) is not None

    @property
    def problem(self) -> str:
        """Why nothing comes; empty: it does."""
        return self._stands or (self._afar.problem if self.on and self.is_elsewhere else "")

    def tells(self, emptied: Emptied) -> None:
        """There is a journal, where this one says which offsets are empty."""
        self._emptied = emptied

    @property
    def lag(self) -> int:
        """So many offsets are committed at the origin, as it said last, and not here."""
        return max(0, self.origin_hw - self._log.hw)

    def heard(self) -> list[tuple[str, int]]:
        """The origin's name and `lag`, if it has answered, and more may come."""
        config = self._log.config
        if config is None or not self.on or not self._heard or self.problem:
            return []
        return [(config.mirrors, self.lag)]

    def tick(self) -> None:
        """Ask, or ask again."""
        self._waits = max(0, self._waits - 1)
        self._afar.tick()
        self.go_on()

    def go_on(self) -> None:
        """Ask for what follows, if that is due: what came before is committed, and nothing is awaited."""
        ctx, log = self._ctx, self._log
        stream = ctx.metadata.by_id.get(log.id.stream)
        self.said()
        if not self.on or stream is None or self._waits or log.leo > log.hw or self._held is not None:
            return
        if ctx.fenced or ctx.leaving:
            return
        origin = origin_of(ctx.metadata, stream)
        self._stands = standstill(stream.config, origin.config if origin is not None else None)
        if self._stands:
            ctx.mark("R28.stands-still")
            return
        if self._afar.ask(log.leo, FETCH_BYTES):
            self._waits = ctx.ticks_of(2 * ctx.config.fetch_wait_ms)
            return
        if origin is None:
            return
        partition = PartitionId(origin.id, log.id.index)
        record = ctx.metadata.partitions.get(partition)
        if record is None or not record.leader:
            return
        self._waits = ctx.ticks_of(2 * ctx.config.fetch_wait_ms)
        fetch = MirrorFetch(
            partition=partition,
            mirror=log.id,
            offset=log.leo,
            max_bytes=FETCH_BYTES,
        )
        ctx.send(record.leader, fetch)

    def on_answer(self, event: OriginAnswered) -> bool:
        """An origin in another cluster has answered. Whether there is more here now."""
        reply = self._afar.hears(event) if self.on and not self._ctx.fenced else None
        return reply is not None and self._take(0, reply)

    def on_reply(self, sender: int, reply: MirrorReply) -> bool:
        """The origin has answered. Whether there is more here now."""
        if self.is_elsewhere:
            self._ctx.refuse("V3", sender, reply, "of this cluster, and the origin is of another one")
            return False
        return self._take(sender, reply)

    def _take(self, sender: int, reply: MirrorReply) -> bool:
        ctx, log = self._ctx, self._log
        self._waits = 0
        if not self.on or ctx.fenced or self._held is not None:
            return False  # Perhaps it was made a stream of its own meanwhile.
        if reply.offset > log.leo:
            self._refuse(sender, reply, f"from {reply.offset} on, of a log that ends at {log.leo}")
            return False
        self._heard = True
        first, self.origin_hw = not self.origin_hw, max(self.origin_hw, reply.hw)
        if ctx.mutants.mirror_begins_at_hw and first:
            return self._skip(reply.hw)
        if reply.status == FETCH_BELOW_START:
            return self._skip(reply.log_start)
        begin = min(self._start().offset, reply.hw)
        if log.leo < begin:
            ctx.mark("R28.before-start")
            return self._skip(begin)
        if reply.status != FETCH_OK or reply.next_offset <= log.leo:
            return False
        try:
            copies = self._copies(self._origin_log(reply), reply)
        except (LiftlogError, ValueError) as error:
            # Damaged on its way, or of a newer version: it is asked for again at a later tick.
            self._refuse(sender, reply, str(error))
            return False
        ctx.mark("R28.copied")
        return self._store(*copies)

    def _start(self) -> Start:
        """Where it begins."""
        config = self._log.config
        return begins(config, config.mirrors, self._ctx.mutants) if config is not None else Start()

    def _refuse(self, sender: int, reply: MirrorReply, reason: str) -> None:
        """An answer is not copied. `sender` 0: it is of another cluster."""
        if sender:
            self._ctx.refuse("V3", sender, reply, reason)
        else:
            self._afar.refuse(reason)

    def _store(self, batches: list[Batch], empty: list[OffsetRange]) -> bool:
        """Append them, when it is said which of their offsets are empty. Whether that was done."""
        if self._emptied is None or not empty or self._ctx.mutants.mirror_says_nothing:
            self._log.append(batches)
            return True
        self._held = _Held(batches, self._emptied.say(self._leading.epoch, empty))
        self._ctx.mark("R28.said")
        if self._ctx.mutants.mirror_says_later:
            self._append_held()
        return False

    def said(self) -> None:
        """The journal may be committed up to where it says what is empty in what is held."""
        held = self._held
        if held is None or self._emptied is None or self._ctx.fenced:
            return
        if not self.on:
            self._held = None
        elif held.said <= self._emptied.committed:
            self._append_held()

    def _append_held(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._log.append(held.batches)
            self._moved()

    def _origin_log(self, reply: MirrorReply) -> PartitionId:
        if self.is_elsewhere:
            return self._afar.log_of(reply)
        stream = self._ctx.metadata.by_id[self._log.id.stream]
        origin = origin_of(self._ctx.metadata, stream)
        if origin is None:
            raise LiftlogError("the origin was removed meanwhile")
        return PartitionId(origin.id, self._log.id.index)

    def _skip(self, start: int) -> bool:
        """What the origin has not any more has no record here."""
        log = self._log
        if start <= log.leo:
            return False
        self._ctx.mark("R28.below-start")
        skipped = OffsetRange(log.leo, min(start, log.leo + GAP_MAX))
        return self._store([self._batch(*skipped, [])], [skipped])

    def _copies(self, origin: PartitionId, reply: MirrorReply) -> tuple[list[Batch], list[OffsetRange]]:
        """Batches of ours, from the end of our log on, with what is left of the origin's up to where the
        answer reaches: its batches span all of that, so an offset is empty that one of them says to be empty.
        And these offsets. Raises LiftlogError, ValueError.
        """
        copies, empty = list[Batch](), list[OffsetRange]()
        place, config = self._log.leo, self._log.config
        filter = config.mirror_filter if config is not None and config.mirror_filter is not UNSET else ""
        takes = taking("" if self._ctx.mutants.mirror_filter_ignored else filter, self._start())
        for frame in told_batches(origin, reply):
            end = frame.end_offset
            if end <= place:
                continue
            there = [record for record in decode_records(frame) if place <= record.offset < end]
            left = [record for record in there if takes(record)]
            if len(left) < len(there):
                self._ctx.mark("R28.filtered")
            if self._ctx.mutants.mirror_closes_gaps and left:
                left = [one._replace(offset=place + number) for number, one in enumerate(left)]
                end = place + len(left)
            if len(left) < end - place:
                self._ctx.mark("R28.gap")
                empty += _empty_in(place, end, left)
            copies.append(self._batch(place, end, left))
            place = end
        return copies, empty

    def _batch(self, start: int, end: int, left: list[Record]) -> Batch:
        """Of offsets [start, end) of ours."""
        config = self._log.config
        batch = encode_sparse(self._log.id, self._leading.epoch, start, end, left)
        return compressed(self._log.id, batch, config.codec if config is not None else "none")


def _empty_in(start: int, end: int, left: list[Record]) -> list[OffsetRange]:
    """The offsets of [start, end) without a record: runs that rise, and have nothing in common."""
    empty = []
    for offset in (*(one.offset for one in left), end):
        if start < offset:
            empty.append(OffsetRange(start, offset))
        start = offset + 1
    return empty
