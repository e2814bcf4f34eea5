"""R29: a stream with sources. Its leader copies what several other streams have committed, at new offsets.

    read       the last record of the own log, committed or not: it says up to where each source was copied
    asked      of who leads a source's partition, for what follows: one question at a time of each source,
               when all that is here is committed
    copied     what passes the source's filter, with its subject, headers, key and value, the leader's time,
               and a header that names the place of it and, beside it, those of all other sources
    committed  by this partition's own ISR, as any record

The positions are a function of the log's end: whoever leads next has it. An answer counts where it is about
the place at which its source goes on now (guard R29.place), whoever asked for it. What did not pass the
filter is remembered in memory, and written with the next record that does: a leader that follows before that
reads it once more.

Sources may be altered. A source that was taken away keeps its position, which every record goes on to name as
long as that stream is there: given again, it goes on where it was. So it does with another filter.

The front of the log never passes the last committed record (`front_max`).
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import UNSET

from liftlog.core.metadata.origins import position_key, source_of, source_standstill, sources_of
from liftlog.core.metadata.records import StreamState
from liftlog.core.replica.copying.elsewhere import OriginElsewhere
from liftlog.core.replica.copying.origin import told_batches
from liftlog.core.replica.copying.passing import begins, taking
from liftlog.core.replica.publishing.sequencer import compressed
from liftlog.core.replica.state.beginning import first_of
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.role import LeaderState
from liftlog.format import CorruptBatch, decode_records, encode_records
from liftlog.messages import (
    FETCH_BELOW_START,
    FETCH_OK,
    LogRead,
    MirrorFetch,
    MirrorReply,
    OriginAnswered,
    ReadLog,
)
from liftlog.messages.copying import Start, elsewhere, start_in
from liftlog.options.copied import copied_headers, positions_in, stream_source
from liftlog.types import Batch, LiftlogError, PartitionId, Record

FETCH_BYTES = 256 * 1024
NO_POSITION = "its last record does not say how far its sources were copied: only --no-sources makes it go on"


def has_sources(log: LogState) -> bool:
    """Whether this is the data of a stream with sources."""
    config = log.config
    return config is not None and config.sources is not UNSET and not log.id.is_journal


def front_max(log: LogState) -> int:
    """So far the log start may go: where there are sources the last committed record stays."""
    keeps = has_sources(log) and not log.ctx.mutants.sources_forgotten
    return max(0, log.settled - 1) if keeps else log.settled


class _Told(NamedTuple):
    """Of which source something is. `key`: see `Sourcing._key`."""

    name: str
    filter: str
    start: Start
    key: int


class _Source:
    """Of one source: what was asked, and how far it is."""

    __slots__ = ("_id", "_stands", "afar", "heard", "hw", "waits")

    def __init__(self, afar: OriginElsewhere | None) -> None:
        self.afar = afar
        """If it is of another cluster."""
        self.heard = False
        """Whether it has answered."""
        self.hw = 0
        """How far it is committed, as it said last."""
        self._id = 0
        """Of this cluster: the stream that was asked last."""
        self._stands = ""
        """Why nothing comes, by the metadata."""
        self.waits = 0
        """For so many ticks more the answer is awaited; 0: nothing was asked, or it is answered."""

    @property
    def problem(self) -> str:
        """Why nothing comes of it."""
        return self._stands or (self.afar.problem if self.afar is not None else "")

    def tick(self) -> None:
        self.waits = max(0, self.waits - 1)
        if self.afar is not None:
            self.afar.tick()

    def asked(self, ticks: int) -> None:
        """A question is on its way."""
        self.waits = ticks

    def means(self, id: int) -> None:
        """It is the stream of this id. It was another one, that was removed, if it was taken away, and given
        again.
        """
        if self._id != id:
            self._id, self.heard, self.hw = id, False, 0

    def answered(self) -> None:
        self.waits = 0

    def says(self, hw: int) -> bool:
        """It is committed so far. Whether it has said that for the first time."""
        self.heard = True
        first, self.hw = not self.hw, max(self.hw, hw)
        return first

    def stands(self, problem: str) -> None:
        """Why nothing comes of it, by the metadata; empty: it does."""
        self._stands = problem


class Sourcing:
    """Of one leader of a partition; of a stream without sources it does nothing."""

    __slots__ = ("_asked", "_ctx", "_leading", "_log", "_positions", "problem", "request")

    def __init__(self, log: LogState, leading: LeaderState) -> None:
        self._ctx = log.ctx
        self._log = log
        self._leading = leading
        self._positions: dict[int, int] | None = None
        """By sources' ids, the offset that is next; None: the log's end was not read yet."""
        self._asked: dict[str, _Source] = {}
        """By sources' names."""
        self.request = 0
        """The read of the own log's end that is under way; 0 = none."""
        self.problem = ""
        """Why nothing comes of any source."""

    @property
    def on(self) -> bool:
        """Whether this is such a stream's data."""
        return has_sources(self._log)

    def lags(self) -> dict[str, int]:
        """By sources, how many offsets are committed there, as it said last, that were not looked at here."""
        stream = self._ctx.metadata.by_id.get(self._log.id.stream)
        if stream is None or self._positions is None:
            return {}
        found, sources = {}, sources_of(stream.config)
        for name, one in self._asked.items():
            key = self._key(stream, name)
            if key is not None and name in sources:
                start = begins(stream.config, name, self._ctx.mutants)
                found[name] = max(0, one.hw - self._place(key, start, one.hw))
        return found

    def _key(self, stream: StreamState, name: str) -> int | None:
        return position_key(self._ctx.metadata, stream, name)

    def _of(self, name: str) -> _Source:
        """What is known of a source."""
        if name not in self._asked:
            afar = OriginElsewhere(self._log, name) if elsewhere(name) is not None else None
            self._asked[name] = _Source(afar)
        return self._asked[name]

    def heard(self) -> list[tuple[str, int]]:
        """Those of `lags` that have answered this leader, and of which more may come."""
        asked = self._asked
        return [
            (name, lag) for name, lag in self.lags().items() if asked[name].heard and not asked[name].problem
        ]

    @property
    def lag(self) -> int:
        """Of all sources together."""
        return sum(self.lags().values())

    def problems(self) -> dict[str, str]:
        """By sources, why nothing comes of them."""
        return {name: one.problem for name, one in self._asked.items() if one.problem}

    # -- the position ----------------------------------------------------------------------------------

    def _know(self) -> bool:
        """Whether the positions are known; else the log's end is asked for."""
        if self._positions is None:
            self._look()
        return self._positions is not None

    def _look(self) -> None:
        log, ctx = self._log, self._ctx
        end = log.hw if ctx.mutants.sources_by_committed else log.leo
        if end <= first_of(log) or (end <= log.log_start and ctx.mutants.sources_forgotten):
            self._positions = {}
            return
        if end <= log.log_start:
            self.problem = NO_POSITION
            return
        batches = log.cached(end - 1, end, 1)
        if batches:
            self._learn(batches, end - 1)
        elif not self.request:
            request = ctx.new_ticket()
            if ctx.reads.begin_fold(log.id, request):
                self.request = request
                ctx.effects.append(ReadLog(log.id, request, end - 1, end, 1))

    def on_read(self, event: LogRead) -> None:
        """Storage has read the log's end, or could not: then it is asked again."""
        self.request = 0
        if event.batches and not event.error and self.on and self._positions is None:
            end = self._log.hw if self._ctx.mutants.sources_by_committed else self._log.leo
            self._learn(event.batches, end - 1)
            self.go_on()

    def _learn(self, batches: list[Batch], last: int) -> None:
        """What the last record says."""
        try:
            records = [record for batch in batches for record in decode_records(batch)]
        except (CorruptBatch, LiftlogError):
            return
        for record in records:
            if record.offset == last:
                self._positions = positions_in(record.headers)
                if self._ctx.mutants.source_starts_over and self._positions:
                    self._start_over(self._positions)
                self.problem = "" if self._positions is not None else NO_POSITION
                self._ctx.mark("R29.position")

    def _start_over(self, positions: dict[int, int]) -> None:
        """A planted bug."""
        stream = self._ctx.metadata.by_id.get(self._log.id.stream)
        if stream is None:
            return
        for name in sources_of(stream.config):
            key, start = self._key(stream, name), start_in(stream.config, name)
            if key in positions and start != Start():
                positions[key] = start.offset

    # -- asking ----------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Ask, or ask again."""
        for one in self._asked.values():
            one.tick()
        self.go_on()

    def go_on(self) -> None:
        """Ask those sources of which nothing is awaited, if what is here is committed."""
        ctx, log = self._ctx, self._log
        if not self.on or ctx.fenced or ctx.leaving:
            return
        stream = ctx.metadata.by_id.get(log.id.stream)
        if stream is None or not self._know() or log.leo > log.hw:
            return
        sources = sources_of(stream.config)
        for name in [name for name in self._asked if name not in sources]:
            del self._asked[name]  # It was taken away.
            ctx.mark("R29.taken-away")
        for name in sources:
            one = self._of(name)
            if not one.waits:
                self._ask(stream, name, one)

    def _ask(self, stream: StreamState, name: str, one: _Source) -> None:
        ctx, log = self._ctx, self._log
        source = source_of(ctx.metadata, stream, name)
        stands = source_standstill(stream.config, name, source.config if source is not None else None)
        one.stands(stands)
        start = begins(stream.config, name, ctx.mutants)
        if one.afar is not None and not stands and self._positions is not None:
            one.asked(ctx.ticks_of(2 * ctx.config.fetch_wait_ms))
            one.afar.ask(self._place(self._key(stream, name), start, one.hw), FETCH_BYTES)
            return
        if stands or source is None or self._positions is None:
            ctx.mark("R29.stands-still")
            return
        partition = PartitionId(source.id, log.id.index)
        record = ctx.metadata.partitions.get(partition)
        if record is None or not record.leader:
            return
        one.asked(ctx.ticks_of(2 * ctx.config.fetch_wait_ms))
        one.means(source.id)
        place = self._place(source.id, start, one.hw)
        ctx.send(record.leader, MirrorFetch(partition, log.id, place, FETCH_BYTES))

    # -- copying ---------------------------------------------------------------------------------------

    def on_answer(self, event: OriginAnswered) -> bool:
        """A source in another cluster has answered. Whether there is more here now."""
        ctx, stream = self._ctx, self._ctx.metadata.by_id.get(self._log.id.stream)
        if not self.on or ctx.fenced or self._positions is None or stream is None:
            return False
        filter, key = sources_of(stream.config).get(event.origin), self._key(stream, event.origin)
        afar = self._of(event.origin).afar if filter is not None else None
        reply = afar.hears(event) if afar is not None else None
        if reply is None or filter is None or key is None:
            return False
        return self._take(0, self._told(stream, event.origin, filter, key), reply)

    def on_reply(self, sender: int, reply: MirrorReply) -> bool:
        """A source has answered. Whether there is more here now."""
        ctx, stream = self._ctx, self._ctx.metadata.by_id.get(self._log.id.stream)
        if not self.on or ctx.fenced or self._positions is None or stream is None:
            return False
        found = self._named(stream, reply.origin)
        if found is None:
            return False  # It was removed meanwhile.
        return self._take(sender, self._told(stream, *found, reply.origin), reply)

    def _told(self, stream: StreamState, name: str, filter: str, key: int) -> _Told:
        return _Told(name, filter, begins(stream.config, name, self._ctx.mutants), key)

    def _place(self, key: int | None, start: Start, hw: int) -> int:
        """What is next of a source: no less than where it begins, if it has that much, as it said last."""
        place = (self._positions or {}).get(key or 0, 0)
        return max(place, min(start.offset, hw))

    def _take(self, sender: int, told: _Told, reply: MirrorReply) -> bool:
        ctx, positions = self._ctx, self._positions
        if positions is None:
            return False
        one, key = self._of(told.name), told.key
        one.answered()
        place = self._place(key, told.start, one.hw)
        if not ctx.decides(("R29.place", reply.offset == place)):
            return False
        first = one.says(reply.hw)
        if ctx.mutants.sources_from_now and first:
            positions[key] = max(place, reply.hw)
            return False
        if reply.status == FETCH_BELOW_START:
            ctx.mark("R29.below-start")
            positions[key] = max(place, reply.log_start)
            return False
        if reply.status != FETCH_OK or reply.next_offset <= reply.offset:
            return False
        try:
            batches = self._copies(told, reply)
        except (LiftlogError, ValueError) as error:
            # Damaged on its way, or of a newer version: it is asked for again at a later tick.
            if one.afar is not None:
                one.afar.refuse(str(error))
            else:
                ctx.refuse("V3", sender, reply, str(error))
            return False
        positions[key] = reply.next_offset
        if not batches:
            ctx.mark("R29.nothing-passed")
            return False
        self._log.append(batches)
        ctx.mark("R29.copied")
        return True

    def _named(self, stream: StreamState, id: int) -> tuple[str, str] | None:
        """Name and filter of the source with this id."""
        for name, filter in sources_of(stream.config).items():
            source = source_of(self._ctx.metadata, stream, name)
            if source is not None and source.id == id:
                return name, filter
        return None

    def _copies(self, told: _Told, reply: MirrorReply) -> list[Batch]:
        """Batches of ours with what passes of an answer. Raises LiftlogError, ValueError."""
        origin = PartitionId(reply.origin, self._log.id.index)
        takes, copies, end = taking(told.filter, told.start), list[Batch](), self._log.leo
        time_ms = max(self._ctx.wall_ms, self._log.newest_ms)
        for frame in told_batches(origin, reply):
            there = [one for one in decode_records(frame) if one.offset >= reply.offset]
            some = [one for one in there if takes(one)]
            if len(some) < len(there):
                self._ctx.mark("R29.filtered")
            if some:
                copies.append(self._batch(told, some, end, time_ms))
                end = copies[-1].end_offset
        return copies

    def _remembered(self) -> dict[int, int]:
        """The positions that a record names: of all that is, or was, a source, and is there."""
        metadata, positions = self._ctx.metadata, self._positions or {}
        stream = metadata.by_id.get(self._log.id.stream)
        if self._ctx.mutants.source_taken_away_forgotten and stream is not None:
            keys = [self._key(stream, name) for name in sources_of(stream.config)]
            return {key: place for key, place in positions.items() if key in keys}
        return {key: place for key, place in positions.items() if key < 0 or key in metadata.by_id}

    def _batch(self, told: _Told, records: list[Record], start: int, time_ms: int) -> Batch:
        config, alone = self._log.config, self._ctx.mutants.source_named_alone
        others = {} if alone else self._remembered()
        copies = [
            one._replace(
                offset=start + number,
                timestamp_ms=time_ms,
                headers=copied_headers(
                    one.headers,
                    (told.key, one.offset),
                    others,
                    stream_source(told.name, one.offset, told.filter, one.subject),
                ),
            )
            for number, one in enumerate(records)
        ]
        batch = encode_records(self._log.id, self._leading.epoch, copies)
        return compressed(self._log.id, batch, config.codec if config is not None else "none")
