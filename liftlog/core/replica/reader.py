"""Readers of one replica: they see committed records only, and never go backward (R3).

Every answer carries (epoch, HW); the client sends the greatest of both that it has seen, and a replica below
one of them makes the reader wait instead of showing a shorter past, or another one: where an operator had to
have a leader elected that lacks records, a replica that has not heard of it yet still has them. Offsets that
depend on "now" (latest, new) are answered only by a leader whose HW has reached its LEO at election, after a
read-index round has confirmed its epoch.

C4: a reader that goes through a compacted log from the front keeps the values that it has seen. It must not
miss the tombstone of one of them because that was dropped while it was on its way. So it remembers
`dropped_below` of its first answer, and is told to begin again when a server has dropped more since then, at
offsets that the reader has not reached. Both values are taken before the records are read and compared again
afterwards: a slice of compaction may lie in between.

S2: who names subjects or keys gets the records that match and no others, with up to where was looked
(`picking.py`). What is in memory and not packed is looked at here, everything else in storage.

C5: the HW may lie inside a batch, since compaction has merged batches below the HW of another time or another
replica. Such a batch is cut: nothing at or above the HW leaves here.
"""

from __future__ import annotations

from typing import NamedTuple

from liftlog.core.replica.copying.origin import mirror_reply
from liftlog.core.replica.filtered import LOOKED_BYTES, from_memory, picked_by
from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.state.log import READY, LogState
from liftlog.core.replica.state.tail import cut_batches
from liftlog.format import read_header
from liftlog.messages import (
    ERR_COMPACTED,
    ERR_DAMAGED,
    ERR_FAILED,
    ERR_NOT_LEADER,
    ERR_NOT_READY,
    ERR_OFFSET_RANGE,
    ERR_OVERLOAD,
    ClientReply,
    ErrorReply,
    FilteredReadRequest,
    LogRead,
    LookupTime,
    MirrorFetch,
    OffsetReply,
    OffsetRequest,
    ReadLog,
    ReadReply,
    ReadRequest,
    ReplyClient,
    SpannedRead,
    TimeFound,
    VisibleReadReply,
    VisibleReadRequest,
)
from liftlog.types import NO_OFFSET, Batch, ClientRef, LiftlogError


class Parked:
    """A reader that waits for the HW to move."""

    __slots__ = ("client", "request", "ticks_left")

    def __init__(self, client: ClientRef, request: ReadRequest, ticks_left: int) -> None:
        self.client = client
        self.request = request
        self.ticks_left = ticks_left

    def expires(self) -> bool:
        """A tick has passed. Whether it was the last that this reader waits."""
        self.ticks_left -= 1
        return self.ticks_left <= 0


class ReadView(NamedTuple):
    """What held when a read began. Its answer says so, whatever has happened to the log meanwhile."""

    epoch: int
    hw: int
    """Up to where this copy can give records."""
    dropped_below: int
    journal: int
    """What the journal said below this was heeded; 0 if there is none."""


class Reading:
    """A read that storage works on. `whole`: the HW lies inside its batch."""

    __slots__ = ("client", "request", "view", "whole")

    def __init__(self, client: ClientRef, request: ReadRequest, view: ReadView, whole: bool) -> None:
        self.client = client
        self.request = request
        self.view = view
        self.whole = whole

    def take_whole(self) -> None:
        """From now on for the whole batch, to be cut here."""
        self.whole = True


class Readers:
    """Reads of one replica that are parked or wait for storage. Bounded by `parked_reads_max`."""

    __slots__ = ("ctx", "log", "lookups", "mirrors", "parked", "reads", "removed")

    def __init__(self, log: LogState) -> None:
        self.log = log
        self.ctx = log.ctx
        self.parked: list[Parked] = []
        self.reads: dict[int, Reading] = {}
        self.lookups: dict[int, ClientRef] = {}
        self.mirrors: dict[ClientRef, tuple[int, MirrorFetch]] = {}
        """R28: those that read for a mirror, and of which node."""
        self.removed: Removed | None = None
        """What is not to be seen any more, if the partition has a journal that says so."""

    def heed(self, removed: Removed | None) -> None:
        """From now on what these are is hidden."""
        self.removed = removed

    # -- records ----------------------------------------------------------------------------------

    def read(self, client: ClientRef, request: ReadRequest) -> None:
        log = self.log
        if request.offset < log.log_start:
            self._below_start(client, request)
            return
        if log.readable > request.offset and self._knows_enough(request):
            self._serve(client, request)
            return
        if len(self.parked) >= self.ctx.config.parked_reads_max:
            self._reply(client, ErrorReply(ERR_OVERLOAD, "too many readers wait here; try again", True))
            return
        if log.leo > request.offset >= log.hw:
            self.ctx.mark("R3.above-hw")
        wait = self.ctx.ticks_of(request.wait_ms) if request.wait_ms > 0 else 0
        parked = Parked(client, request, wait)
        if wait:
            self.parked.append(parked)
        else:
            self._expire(parked)

    def _below_start(self, client: ClientRef, request: ReadRequest) -> None:
        start = self.log.log_start
        text = f"offset {request.offset} is below the log's start {start}: read from {start} or 'earliest'"
        self._reply(client, ErrorReply(ERR_OFFSET_RANGE, text, False))

    def wake(self) -> None:
        """The HW has moved: serve whom it reaches."""
        if not self.parked:
            return
        log = self.log
        still: list[Parked] = []
        for parked in self.parked:
            request = parked.request
            if request.offset < log.log_start:
                self._below_start(parked.client, request)
            elif log.readable > request.offset and self._knows_enough(request):
                self._serve(parked.client, request)
            else:
                still.append(parked)
        self.parked = still

    def tick(self) -> None:
        if not self.parked:
            return
        still: list[Parked] = []
        for parked in self.parked:
            if parked.expires():
                self._expire(parked)
            else:
                still.append(parked)
        self.parked = still

    def _expire(self, parked: Parked) -> None:
        """Nothing came in time: an empty answer, or "not ready" if the client has seen more than we have."""
        log, request = self.log, parked.request
        if self._knows_enough(request):
            self._answer(parked.client, request, [], self._view()._replace(hw=log.hw))
            return
        self.ctx.mark("R3.not-ready")
        seen = f"the reader has seen {request.seen_hw} and epoch {request.seen_epoch}"
        text = f"this replica has HW {log.hw} and epoch {log.epoch}, {seen}"
        if self.removed is not None:
            journal = request.seen_journal if isinstance(request, VisibleReadRequest) else 0
            text = f"{text}; of the journal {self.removed.folded}, the reader has seen {journal}"
            text = f"{text}; {self.removed.problem}" if self.removed.problem else text
        self._reply(parked.client, ErrorReply(ERR_NOT_READY, text, True))

    def _knows_enough(self, request: ReadRequest) -> bool:
        """Whether we know all that this reader has seen elsewhere."""
        log = self.log
        hw, epoch = log.readable >= request.seen_hw, log.epoch >= request.seen_epoch
        if self.removed is not None and not self._heeds_enough(self.removed, request):
            return False
        return (hw and epoch) or self.ctx.decides(("R3.behind", hw), ("R3.earlier-epoch", epoch))

    def _heeds_enough(self, removed: Removed, request: ReadRequest) -> bool:
        """R21: whether nothing is shown that was seen to be gone, here before a start or elsewhere."""
        seen = request.seen_journal if isinstance(request, VisibleReadRequest) else 0
        behind = removed.folded < seen and not self.ctx.mutants.reader_without_journal
        return self.ctx.decides(("R21.unread", removed.is_known), ("R21.behind", not behind))

    def _serve(self, client: ClientRef, request: ReadRequest) -> None:
        log = self.log
        if self._compacted_past(client, request):
            return
        if log.state != READY:
            self.ctx.mark("D5.read")
        view = self._view()
        early = self.ctx.mutants.mirror_of_uncommitted and client in self.mirrors
        reach = log.leo if self.ctx.mutants.read_above_hw or early else view.hw
        if isinstance(request, FilteredReadRequest):
            self._serve_filtered(client, request, view, reach)
            return
        batches = log.cached(request.offset, reach, request.max_bytes)
        if batches:
            self.ctx.mark("R3.read")
            self._answer(client, request, batches, view)
        else:
            self._begin(Reading(client, request, view, False), True)

    def _serve_filtered(
        self, client: ClientRef, request: FilteredReadRequest, view: ReadView, reach: int
    ) -> None:
        """S2: from memory if that is quickly done."""
        batches = self.log.cached(request.offset, reach, LOOKED_BYTES) or []
        found = from_memory(self.log, request, batches, reach)
        if found is None:
            self._begin(Reading(client, request, view, False), False)
            return
        self.ctx.mark("S2.memory")
        self._answer(client, request, found.parts, view, found.looked)

    def _view(self) -> ReadView:
        log = self.log
        journal = self.removed.folded if self.removed is not None else 0
        return ReadView(log.epoch, log.readable, log.dropped_below, journal)

    def _compacted_past(self, client: ClientRef, request: ReadRequest) -> bool:
        """C4: whether tombstones that this reader needs may be gone; then it is told."""
        dropped = self.log.dropped_below
        if not 0 <= request.seen_dropped < dropped or request.offset >= dropped:
            return False
        self.ctx.mark("C4.compacted-past")
        text = (
            f"compacted past your start, restart: deletions below offset {dropped} were dropped since this "
            f"reader began, and it has only come to {request.offset}; read again from 'earliest'"
        )
        self._reply(client, ErrorReply(ERR_COMPACTED, text, False))
        return True

    def _begin(self, reading: Reading, spans: bool) -> None:
        """Have storage read below the HW; a batch that the HW lies in, alone and whole, to be cut here."""
        log, request = self.log, reading.request
        if not self._has_place(reading.client):
            return
        number = self.ctx.new_ticket()
        self.ctx.reads.begin(log.id, number)
        self.reads[number] = reading
        limit, max_bytes = (log.leo, 1) if reading.whole else (reading.view.hw, request.max_bytes)
        spans = spans and not request.verify and not reading.whole
        self.ctx.effects.append(
            ReadLog(
                log=log.id,
                request=number,
                offset=request.offset,
                limit=limit,
                max_bytes=max_bytes,
                spans=spans,
                picked=picked_by(request, reading.view.hw),
            )
        )

    def _has_place(self, client: ClientRef) -> bool:
        """L3: whether storage may be asked; else the client is told to ask again."""
        if self.ctx.reads.has_place(self.log.id):
            return True
        self.ctx.mark("L3.reads")
        text = "too many reads wait for the disk here; try again"
        self._reply(client, ErrorReply(ERR_OVERLOAD, text, True))
        return False

    def on_read(self, event: LogRead) -> None:
        reading = self.reads.pop(event.request, None)
        if reading is None:
            return
        client, request = reading.client, reading.request
        if request.offset < self.log.log_start:
            self._below_start(client, request)
        elif event.error:
            code = ERR_FAILED if event.damage is None else ERR_DAMAGED
            self._reply(client, ErrorReply(code, event.error, True))
        elif self._compacted_past(client, request):
            return
        elif isinstance(request, FilteredReadRequest):
            self._picked(reading, event)
        elif event.spans:
            self._spanned(reading, event)
        else:
            self._read(reading, cut_batches(self.log.id, event.batches, reading.view.hw))

    def _picked(self, reading: Reading, event: LogRead) -> None:
        """S2: perhaps nothing, up to where was looked."""
        request = reading.request
        looked = max(request.offset, event.looked)
        if looked == request.offset and self._lies_inside(reading):
            return
        self.ctx.mark("S2.storage" if event.batches else "S2.nothing")
        self._answer(reading.client, request, event.batches, reading.view, looked)

    def _lies_inside(self, reading: Reading) -> bool:
        """C5: nothing was found: whether the HW lies inside the batch, which is read again, as a whole."""
        if reading.whole or reading.request.offset >= reading.view.hw:
            return False
        self.ctx.mark("C5.hw-inside")
        reading.take_whole()
        self._begin(reading, False)
        return True

    def _read(self, reading: Reading, batches: list[Batch]) -> None:
        request = reading.request
        if not batches and self._lies_inside(reading):
            return
        self.ctx.mark("R3.read")
        self._answer(reading.client, request, batches, reading.view)

    def _spanned(self, reading: Reading, event: LogRead) -> None:
        """The batches lie in files: whoever sends the answer sends them from there."""
        end = event.spans[-1].end_offset
        first = event.spans[0].base_offset
        hides = self.removed is not None and (self._lost(reading.view) or self.removed.any_in(first, end))
        if not reading.request.offset < end <= reading.view.hw or hides:
            self._begin(reading, False)
            return
        self.ctx.mark("R3.read")
        reply = self._read_reply(reading.request, end, [], reading.view, first)
        self.ctx.effects.append(ReplyClient(reading.client, SpannedRead(reply, event.spans)))

    def _answer(
        self,
        client: ClientRef,
        request: ReadRequest,
        batches: list[Batch],
        view: ReadView,
        looked: int | None = None,
    ) -> None:
        """`looked`: S2, up to where nothing else is wanted."""
        next_offset = batches[-1].end_offset if batches else request.offset
        next_offset = next_offset if looked is None else looked
        if self.removed is not None:
            if self._lost(view):
                text = "this copy reads anew which messages were deleted; try again"
                self._reply(client, ErrorReply(ERR_NOT_READY, text, True))
                return
            try:
                batches = self.removed.visible(self.log.id, batches)
            except LiftlogError as error:
                self._reply(client, ErrorReply(ERR_FAILED, str(error), True))
                return
        if looked is not None:
            found = [read_header(batch.data).records for batch in batches]
            batches = [batch for batch, records in zip(batches, found, strict=True) if records]
            self.ctx.looked.add(next_offset - request.offset, sum(found))
        first_offset = batches[0].base_offset if batches else NO_OFFSET
        frames = [batch.data for batch in batches]
        self._reply(client, self._read_reply(request, next_offset, frames, view, first_offset))

    def _lost(self, view: ReadView) -> bool:
        """R21: whether less of the journal is heeded than when the read began: it was opened anew since."""
        removed = self.removed
        return removed is not None and not (removed.is_known and removed.folded >= view.journal)

    def _read_reply(
        self, request: ReadRequest, next_offset: int, frames: list[bytes], view: ReadView, first_offset: int
    ) -> ReadReply:
        """A log that was rebuilt since the read began may know a lower HW."""
        log = self.log
        reply = ReadReply(
            partition=log.id,
            epoch=view.epoch,
            hw=max(view.hw, log.hw),
            log_start=log.log_start,
            next_offset=next_offset,
            batches=frames,
            dropped_below=view.dropped_below,
            first_offset=first_offset,
        )
        if not isinstance(request, VisibleReadRequest):
            return reply
        fields = {name: getattr(reply, name) for name in reply.__struct_fields__}
        return VisibleReadReply(**fields, journal=self._heeded(view))

    def _heeded(self, view: ReadView) -> int:
        """R21: what hides messages is what is folded now, however little that was when storage began."""
        if self.removed is None or self.ctx.mutants.journal_as_read_began:
            return view.journal
        return self.removed.folded

    # -- offsets ----------------------------------------------------------------------------------

    def lookup(self, client: ClientRef, request: OffsetRequest) -> None:
        """Earliest and by time: any replica. Latest and new: `answer_latest`, after the read-index round."""
        log = self.log
        if request.what == "earliest":
            self._reply(client, OffsetReply(log.id, log.log_start, log.epoch))
            return
        if not self._has_place(client):
            return
        number = self.ctx.new_ticket()
        self.ctx.reads.begin(log.id, number)
        self.lookups[number] = client
        self.ctx.effects.append(LookupTime(log.id, number, request.timestamp_ms))

    def on_time(self, event: TimeFound) -> None:
        log = self.log
        client = self.lookups.pop(event.request, None)
        if client is None:
            return
        if event.error:
            code = ERR_FAILED if event.damage is None else ERR_DAMAGED
            self._reply(client, ErrorReply(code, event.error, True))
        else:
            offset = max(min(event.offset, log.hw), log.log_start)
            self._reply(client, OffsetReply(log.id, offset, log.epoch))

    def answer_latest(self, client: ClientRef, request: OffsetRequest) -> None:
        """R3: our epoch has been confirmed by the metadata group since the request arrived."""
        log = self.log
        if self.knows_all(client):
            self.ctx.mark("R3.latest")
            offset = log.hw if request.what == "new" else max(log.hw - 1, log.log_start)
            self._reply(client, OffsetReply(log.id, offset, log.epoch))

    def knows_all(self, client: ClientRef) -> bool:
        """R3: whether this leader, whose epoch was just confirmed, knows everything as committed that anybody
        does; if not the client is told.
        """
        log = self.log
        leading = log.leading
        if leading is None:
            self.ctx.mark("R3.not-leader")
            record = log.record
            leader = record.leader if record is not None else 0
            self._reply(client, ErrorReply(ERR_NOT_LEADER, "ask the partition's leader", True, leader))
        elif not self.ctx.decides(("R3.inherited", log.hw >= leading.epoch_start)):
            text = f"the new leader has committed {log.hw} of {leading.epoch_start} records it inherited"
            self._reply(client, ErrorReply(ERR_NOT_READY, text, True, self.ctx.node))
        else:
            return True
        return False

    # -- mirrors (R28) ----------------------------------------------------------------------------

    def mirror(self, sender: int, fetch: MirrorFetch) -> None:
        """The leader of a mirror reads as everybody does: what is committed, and not gone."""
        client = ClientRef(-self.ctx.new_ticket())
        self.mirrors[client] = (sender, fetch)
        wait_ms = self.ctx.config.fetch_wait_ms
        self.read(client, ReadRequest(fetch.partition, fetch.offset, fetch.max_bytes, wait_ms, verify=True))

    # -- ends -------------------------------------------------------------------------------------

    def fail(self) -> None:
        """The replica cannot serve any more. What storage works on is still answered: it was committed."""
        error = ErrorReply(ERR_NOT_READY, "this replica has stopped after a storage failure", True)
        for parked in self.parked:
            self._reply(parked.client, error)
        for client in self.lookups.values():
            self._reply(client, error)
        self.parked.clear()
        self.lookups.clear()

    def close(self) -> None:
        """This node holds no copy any more: nothing that storage still says will be passed on."""
        self.fail()
        error = ErrorReply(ERR_NOT_READY, "this replica was removed", True)
        for reading in self.reads.values():
            self._reply(reading.client, error)
        self.reads.clear()

    def forget(self, client: ClientRef) -> None:
        """The client's connection is gone. Whoever carries answers drops those that nobody waits for."""
        self.parked = [parked for parked in self.parked if parked.client != client]
        self.lookups = {key: value for key, value in self.lookups.items() if value != client}

    def _reply(self, client: ClientRef, reply: ClientReply) -> None:
        asked = self.mirrors.pop(client, None)
        if asked is None:
            self.ctx.effects.append(ReplyClient(client, reply))
            return
        answer = mirror_reply(asked[1], reply, self.log.hw, self.log.log_start)
        if answer is not None:
            self.ctx.send(asked[0], answer)
