"""Readers of a simulated cluster: they read any replica, forward, and check everything they are told.

A reader goes through one partition after the other, changes servers as it likes, and carries the greatest
(epoch, HW) that it has seen (R3). On a stream that may lose its front or its old values it asks for the
earliest offset, keeps the last record of each key, and begins again when it is told to (C3, C4). Now and then
it asks for the latest offset or for an offset by time.
"""

from __future__ import annotations

from liftlog.api.spans import batches_of
from liftlog.format import CorruptBatch, decode_records
from liftlog.messages import (
    ERR_COMPACTED,
    ERR_OFFSET_RANGE,
    ErrorReply,
    OffsetReply,
    OffsetRequest,
    ReadReply,
    ReadRequest,
    VisibleReadReply,
    VisibleReadRequest,
)
from liftlog.types import Batch, PartitionId, Record
from liftlog_sim.chance.chances import Turn
from liftlog_sim.kernel import SECOND
from liftlog_sim.truth.invariants import PartitionTruth, Violation
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.operations import ClientOperation
from liftlog_sim.workload.targets import Target, loses_records

REQUEST_TIMEOUT_US = 4 * SECOND
CONSUMER_STRIDE = 100


class ReaderPosition:
    """How far a reader has got on one partition, and what it knows from there."""

    __slots__ = ("asked_purged", "dropped", "hw", "last", "position", "start", "verify")

    def __init__(self, start: int) -> None:
        self.start = start
        self.position = start
        self.dropped = -1
        """C4: `dropped_below` of the first answer."""
        self.hw = (0, 0)
        """Greatest (epoch, HW) seen."""
        self.last: dict[bytes, Record] = {}
        self.verify = False
        self.asked_purged = 0
        """What had been purged when the present request was made, if its server was in the ISR then."""


class Reader:
    """One reader; see the module."""

    __slots__ = (
        "_account",
        "_cluster",
        "_operation",
        "_process",
        "_progress",
        "_seen",
        "_seen_journal",
        "_server",
        "_shared",
        "_target",
        "_turns",
        "number",
    )

    def __init__(self, shared: Clientele, number: int) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._account = shared.account
        self.number = number
        knobs = self._cluster.knobs
        name = f"reader/{number - knobs.publishers}"
        self._turns = self._cluster.chances.turns(name, knobs.read_interval_us)
        self._process = number
        self._progress: dict[PartitionId, ReaderPosition] = {}
        self._seen: dict[PartitionId, tuple[int, int]] = {}
        self._seen_journal: dict[PartitionId, int] = {}
        """R3: the greatest HW of a partition's journal that it has seen, or was told of."""
        self._server = 0
        self._target: Target | None = None
        self._operation: ClientOperation | None = None

    def start(self) -> None:
        self._turns.take(self._fire)

    def _fire(self, turn: Turn, second: object) -> None:
        if self._shared.stopping:
            return
        draw, knobs = turn.draws, self._cluster.knobs
        target = self._target = self._shared.target_of(turn)
        if target is None:
            self._turns.take(self._fire)
            return
        turn.noted(target.name)
        choice = draw.random()
        if choice < knobs.ask_latest:
            self._ask_latest(target, turn)
            return
        if knobs.ask_time and draw.random() < knobs.ask_time:
            self._ask_time(target, turn)
            return
        if choice > 1.0 - knobs.front_again:
            self._begin_again(target)
        self._server = self._shared.any_node(draw)
        progress = self._progress.get(target.partition)
        if progress is None and loses_records(target):
            self._ask_earliest(target, turn)
            return
        if progress is None:
            progress = self._progress[target.partition] = ReaderPosition(0)
        self._poll(target, progress, turn)

    def _begin_again(self, target: Target) -> None:
        """From the front; in the history it is another consumer from now on, and has heard of no deletion."""
        self._progress.pop(target.partition, None)
        self._seen_journal.pop(target.partition, None)
        self._process += CONSUMER_STRIDE

    def _truth(self, target: Target) -> PartitionTruth:
        return self._account.truth(target.partition)

    def _purged(self, target: Target) -> int:
        """What the server that is about to be asked must not have any more (C3): the ISR has purged it."""
        truth = self._truth(target)
        return truth.purged if self._server in truth.isr else 0

    # -- records -------------------------------------------------------------------------------------------

    def _poll(self, target: Target, progress: ReaderPosition, turn: Turn) -> None:
        seen_epoch, seen_hw = self._seen.get(target.partition, (0, 0))
        wait_ms = 400 if turn.draws.random() < 0.3 else 0
        progress.asked_purged = self._purged(target)
        request = ReadRequest(
            target.partition,
            progress.position,
            self._cluster.knobs.read_bytes,
            wait_ms,
            seen_epoch,
            seen_hw,
            progress.dropped,
            progress.verify,
        )
        if target.config.has_journal:
            request = self._visible(request, target, turn)
        self._operation = ClientOperation("poll", self._process, target, self._cluster.kernel.now_us)
        self._shared.hub.request(turn.name, self._server, request, self._answered, REQUEST_TIMEOUT_US)

    def _visible(self, request: ReadRequest, target: Target, turn: Turn) -> VisibleReadRequest:
        """R3: now and then it was told by another one of the last deletion."""
        seen = self._seen_journal.get(target.partition, 0)
        if turn.draws.part("told").random() < 0.3:
            seen = max(seen, self._account.deletions(target.partition).told)
        self._seen_journal[target.partition] = seen
        fields = {name: getattr(request, name) for name in request.__struct_fields__}
        return VisibleReadRequest(**fields, seen_journal=seen)

    def _answered(self, reply: object) -> None:
        operation, target = self._operation, self._target
        assert operation is not None and target is not None
        now_us = self._cluster.kernel.now_us
        self._shared.perform([operation])
        if not isinstance(reply, ReadReply):
            code = reply.code if isinstance(reply, ErrorReply) else "no answer"
            operation.end("fail", now_us, error=code)
            if code in (ERR_COMPACTED, ERR_OFFSET_RANGE):
                self._account.count(f"readers told {code}")
                self._begin_again(target)
        else:
            good = True
            try:
                good = self._take(reply, target, self._progress[target.partition], operation)
            except Violation as violation:
                # What was told is in the history, also if it ends the run.
                operation.end("ok", now_us, epoch=reply.epoch)
                self._account.fail(violation)
            if good:
                operation.end("ok", now_us, epoch=reply.epoch)
            else:
                operation.end("fail", now_us, error="damaged answer")
        self._turns.take(self._fire)

    def _batches(self, reply: ReadReply, target: Target, progress: ReaderPosition) -> list[Batch] | None:
        """The batches of an answer; None if it is damaged and may be asked for once more (D2)."""
        try:
            return list(batches_of(reply, progress.position))
        except CorruptBatch as error:
            if progress.verify:
                raise Violation(
                    "ConsistentRead",
                    f"partition {target.partition}: node {self._server} serves a bad batch although it was "
                    f"asked to look: {error}",
                ) from error
            progress.verify = True
            self._account.count("damaged answers")
            return None

    def _take(
        self, reply: ReadReply, target: Target, progress: ReaderPosition, operation: ClientOperation
    ) -> bool:
        """Check what was served, remember what was seen. False: it has to be asked for once more."""
        batches = self._batches(reply, target, progress)
        if batches is None:
            return False
        progress.verify = False
        if self._shared.keep_values:
            operation.told(reply.hw, batches, progress.position)
        truth = self._truth(target)
        seen_epoch, seen_hw = self._seen.get(target.partition, (0, 0))
        truth.read_position(self._server, reply.epoch, reply.hw, seen_epoch, seen_hw)
        self._seen[target.partition] = (max(seen_epoch, reply.epoch), max(seen_hw, reply.hw))
        position = expected = progress.position
        compact = target.config.compact
        journal = self._seen_journal.get(target.partition, 0)
        if isinstance(reply, VisibleReadReply):
            self._seen_journal[target.partition] = max(journal, reply.journal)
        for batch in batches:
            if isinstance(reply, VisibleReadReply):
                deletions = self._account.deletions(target.partition)
                deletions.read(truth, self._server, batch, position, journal, reply.journal)
            else:
                truth.read(self._server, batch, compact)
            expected = max(expected, batch.end_offset)
            if compact:
                self._keep(batch, position, progress)
        if reply.next_offset > expected:
            truth.skipped(self._server, expected, reply.next_offset)
        if expected > position:
            truth.read_below_purge(self._server, position, progress.asked_purged)
        if progress.dropped < 0:
            progress.dropped = reply.dropped_below
        progress.position = expected
        self._account.count("reads")
        if compact and expected >= reply.hw:
            truth.saw_all(progress.start, expected, progress.last)
            self._account.count("readers at the HW")
        return True

    def _keep(self, batch: Batch, position: int, progress: ReaderPosition) -> None:
        for record in decode_records(batch):
            if record.offset >= position and record.key is not None:
                progress.last[record.key] = record

    # -- offsets -------------------------------------------------------------------------------------------

    def _ask_earliest(self, target: Target, turn: Turn) -> None:
        purged = self._purged(target)

        def answered(reply: object) -> None:
            if isinstance(reply, OffsetReply):
                try:
                    self._truth(target).read_below_purge(self._server, reply.offset, purged)
                except Violation as violation:
                    self._account.fail(violation)
                self._progress[target.partition] = ReaderPosition(reply.offset)
            self._turns.take(self._fire)

        request = OffsetRequest(target.partition, "earliest")
        self._shared.hub.request(turn.name, self._server, request, answered, REQUEST_TIMEOUT_US)

    def _ask_latest(self, target: Target, turn: Turn) -> None:
        leader = 0
        truth = self._truth(target)
        if truth.leaders and turn.draws.random() < 0.8:
            leader = truth.newest_leader
        self._server = leader or self._shared.any_node(turn.draws)
        acked_before, seen_before = truth.acked_end, truth.latest_seen

        def answered(reply: object) -> None:
            if isinstance(reply, OffsetReply):
                self._account.count("latest offsets")
                try:
                    truth.latest(self._server, reply.offset, acked_before, seen_before)
                except Violation as violation:
                    self._account.fail(violation)
            self._turns.take(self._fire)

        request = OffsetRequest(target.partition, "latest")
        self._shared.hub.request(turn.name, self._server, request, answered, REQUEST_TIMEOUT_US)

    def _ask_time(self, target: Target, turn: Turn) -> None:
        """The first offset at or after the time of some committed record, or a little beside it."""
        truth = self._truth(target)
        committed = truth.contents.committed
        record = committed[turn.draws.randrange(len(committed))] if committed else None
        timestamp_ms = (record.timestamp_ms if record is not None else 0) + turn.draws.randrange(-50, 51)
        self._server = self._shared.any_node(turn.draws)
        node = self._cluster.machines[self._server].node
        replica = node.replicas.get(target.partition) if node is not None else None
        sure_below = replica.log.readable if replica is not None else 0
        rebuilds = self._account.counters.get("rebuilds", 0)

        def answered(reply: object) -> None:
            machine = self._cluster.machines[self._server]
            replica = machine.node.replicas.get(target.partition) if machine.node is not None else None
            if isinstance(reply, OffsetReply) and replica is not None:
                self._account.count("lookups by time")
                compact = target.config.compact
                # A copy that was cut off meanwhile answers with the HW that it has left.
                sure = sure_below if self._account.counters.get("rebuilds", 0) == rebuilds else 0
                try:
                    truth.found_time(timestamp_ms, reply.offset, replica.log_start, sure, compact)
                except Violation as violation:
                    self._account.fail(violation)
            self._turns.take(self._fire)

        request = OffsetRequest(target.partition, "time", timestamp_ms)
        self._shared.hub.request(turn.name, self._server, request, answered, REQUEST_TIMEOUT_US)
