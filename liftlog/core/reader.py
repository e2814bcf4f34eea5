"""Readers of one replica: they see committed records only, and never go backward (R3).

Every answer carries (epoch, HW); the client sends the greatest HW it has seen, and a replica below it makes
the reader wait instead of showing a shorter past. Offsets that depend on "now" (latest, new) are answered
only by a leader whose HW has reached its LEO at election, after a read-index round has confirmed its epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from liftlog.messages import (
    ERR_DAMAGED,
    ERR_NOT_LEADER,
    ERR_NOT_READY,
    ERR_OFFSET_RANGE,
    ERR_OVERLOAD,
    ClientReply,
    ErrorReply,
    LogRead,
    LookupTime,
    OffsetReply,
    OffsetRequest,
    ReadLog,
    ReadReply,
    ReadRequest,
    ReplyClient,
    TimeFound,
)
from liftlog.types import Batch, ClientRef

if TYPE_CHECKING:
    from liftlog.core.replica import Replica


class Parked:
    """A reader that waits for the HW to move."""

    __slots__ = ("client", "request", "ticks_left")

    def __init__(self, client: ClientRef, request: ReadRequest, ticks_left: int) -> None:
        self.client = client
        self.request = request
        self.ticks_left = ticks_left


class Readers:
    """Reads of one replica that are parked or wait for storage. Bounded by `parked_reads_max`."""

    __slots__ = ("ctx", "lookups", "parked", "reads", "replica")

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.ctx = replica.ctx
        self.parked: list[Parked] = []
        self.reads: dict[int, tuple[ClientRef, ReadRequest, int]] = {}
        self.lookups: dict[int, ClientRef] = {}

    # -- records ----------------------------------------------------------------------------------

    def read(self, client: ClientRef, request: ReadRequest) -> None:
        replica = self.replica
        if request.offset < replica.log_start or request.offset < 0:
            self._reply(
                client,
                ErrorReply(
                    ERR_OFFSET_RANGE,
                    f"offset {request.offset} is below the log's start {replica.log_start}: "
                    f"read from {replica.log_start} or 'earliest'",
                    False,
                ),
            )
            return
        if replica.hw > request.offset and replica.hw >= request.seen_hw:
            self._serve(client, request)
            return
        if len(self.parked) >= self.ctx.config.parked_reads_max:
            self._reply(client, ErrorReply(ERR_OVERLOAD, "too many readers wait here; try again", True))
            return
        wait = self.ctx.ticks_of(request.wait_ms) if request.wait_ms > 0 else 0
        parked = Parked(client, request, wait)
        if wait:
            self.parked.append(parked)
        else:
            self._expire(parked)

    def wake(self) -> None:
        """The HW has moved: serve whom it reaches."""
        if not self.parked:
            return
        replica = self.replica
        still: list[Parked] = []
        for parked in self.parked:
            request = parked.request
            if replica.hw > request.offset and replica.hw >= request.seen_hw:
                self._serve(parked.client, request)
            else:
                still.append(parked)
        self.parked = still

    def tick(self) -> None:
        if not self.parked:
            return
        still: list[Parked] = []
        for parked in self.parked:
            parked.ticks_left -= 1
            if parked.ticks_left <= 0:
                self._expire(parked)
            else:
                still.append(parked)
        self.parked = still

    def _expire(self, parked: Parked) -> None:
        """Nothing came in time: an empty answer, or "not ready" if the client has seen more than we have."""
        replica = self.replica
        if replica.hw < parked.request.seen_hw:
            self.ctx.mark("R3.behind")
            text = f"this replica has HW {replica.hw}, the reader has seen {parked.request.seen_hw}"
            self._reply(parked.client, ErrorReply(ERR_NOT_READY, text, True))
        else:
            self._answer(parked.client, parked.request.offset, [])

    def _serve(self, client: ClientRef, request: ReadRequest) -> None:
        replica = self.replica
        batches = replica.cached(request.offset, replica.hw, request.max_bytes)
        if batches:
            self.ctx.mark("R3.read")
            self._answer(client, request.offset, batches)
            return
        number = self.ctx.new_ticket()
        self.reads[number] = (client, request, replica.hw)
        self.ctx.effects.append(ReadLog(replica.id, number, request.offset, replica.hw, request.max_bytes))

    def on_read(self, event: LogRead) -> None:
        asked = self.reads.pop(event.request, None)
        if asked is None:
            return
        client, request, _ = asked
        if event.error:
            self._reply(client, ErrorReply(ERR_DAMAGED, event.error, True))
            return
        self.ctx.mark("R3.read")
        self._answer(client, request.offset, event.batches)

    def _answer(self, client: ClientRef, offset: int, batches: list[Batch]) -> None:
        replica = self.replica
        next_offset = batches[-1].end_offset if batches else offset
        self._reply(
            client,
            ReadReply(
                replica.id,
                replica.epoch,
                replica.hw,
                replica.log_start,
                next_offset,
                [batch.data for batch in batches],
            ),
        )

    # -- offsets ----------------------------------------------------------------------------------

    def lookup(self, client: ClientRef, request: OffsetRequest) -> None:
        """Earliest and by time: any replica. Latest and new: `answer_latest`, after the read-index round."""
        replica = self.replica
        if request.what == "earliest":
            self._reply(client, OffsetReply(replica.id, replica.log_start, replica.epoch))
            return
        number = self.ctx.new_ticket()
        self.lookups[number] = client
        self.ctx.effects.append(LookupTime(replica.id, number, request.timestamp_ms))

    def on_time(self, event: TimeFound) -> None:
        client = self.lookups.pop(event.request, None)
        if client is not None:
            replica = self.replica
            self._reply(client, OffsetReply(replica.id, min(event.offset, replica.hw), replica.epoch))

    def answer_latest(self, client: ClientRef, request: OffsetRequest) -> None:
        """R3: our epoch has been confirmed by the metadata group since the request arrived."""
        replica = self.replica
        leading = replica.leading
        if leading is None:
            record = replica.record
            leader = record.leader if record is not None else 0
            self._reply(client, ErrorReply(ERR_NOT_LEADER, "ask the partition's leader", True, leader))
        elif replica.hw < leading.epoch_start:
            text = f"the new leader has committed {replica.hw} of {leading.epoch_start} records it inherited"
            self._reply(client, ErrorReply(ERR_NOT_READY, text, True, self.ctx.node))
        else:
            self.ctx.mark("R3.latest")
            offset = replica.hw if request.what == "new" else max(replica.hw - 1, replica.log_start)
            self._reply(client, OffsetReply(replica.id, offset, replica.epoch))

    # -- ends -------------------------------------------------------------------------------------

    def fail(self) -> None:
        """The replica cannot serve any more."""
        error = ErrorReply(ERR_NOT_READY, "this replica has stopped after a storage failure", True)
        for parked in self.parked:
            self._reply(parked.client, error)
        for client, _, _ in self.reads.values():
            self._reply(client, error)
        for client in self.lookups.values():
            self._reply(client, error)
        self.parked.clear()
        self.reads.clear()
        self.lookups.clear()

    def forget(self, client: ClientRef) -> None:
        """The client's connection is gone."""
        self.parked = [parked for parked in self.parked if parked.client != client]
        self.reads = {key: value for key, value in self.reads.items() if value[0] != client}
        self.lookups = {key: value for key, value in self.lookups.items() if value != client}

    def _reply(self, client: ClientRef, reply: ClientReply) -> None:
        self.ctx.effects.append(ReplyClient(client, reply))
