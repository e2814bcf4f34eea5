"""What is counted while a node runs, since nobody could tell later: durations, elections, in-sync sets.

This observes every step, so it costs as little as can be: a step that carries messages pays for one reading
of the clock, and for a comparison per partition that it touched. All belongs to the trio thread.

An event that all replicas of a partition see is counted by one of them, so that a sum over the nodes counts
it once: what happens to an in-sync set by whoever leads afterwards, an election by whoever was elected. What
a node is told before it is registered is history and is not counted.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from liftlog.core.metadata.records import PartitionState
from liftlog.core.node import Node
from liftlog.eyes import names
from liftlog.eyes.durations import Durations
from liftlog.messages import (
    AppendLog,
    ClientMessage,
    ClientRequest,
    ClusterStatusRequest,
    Event,
    OffsetRequest,
    Outcome,
    Published,
    ReadRequest,
    StreamInfoRequest,
)
from liftlog.real.breakdown import GroupTimes
from liftlog.types import RAFT_LOG, ClientRef, PartitionId

READ, TAIL, OFFSET, INFO, STATUS, CHANGE = "read", "tail", "offset", "info", "status", "change"
REQUESTS = (READ, TAIL, OFFSET, INFO, STATUS, CHANGE)
WAITING_MAX = 16_384
"""Appends of one partition, or requests, whose end is awaited; what comes beyond that is not measured."""


class StepCpu:
    """`StepMeter`: CPU time of each step, of the thread that steps the node."""

    __slots__ = ("_begun_ns", "_clock_ns", "durations")

    def __init__(self, clock_ns: Callable[[], int] = time.thread_time_ns) -> None:
        self.durations = Durations(names.STEP_CPU_S)
        self._clock_ns = clock_ns
        self._begun_ns = 0

    def begin(self) -> None:
        self._begun_ns = self._clock_ns()

    def end(self) -> None:
        self.durations.add((self._clock_ns() - self._begun_ns) / 1e6)


class Measures:
    """Observes a node's steps; is told of storage groups and answers by the ports."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._now_ms: Callable[[], float] = lambda: 0.0
        self._begun_ms: Callable[[], float] = lambda: 0.0
        self.commits = Durations(names.LATENCY_S)
        self.syncs = Durations(names.LATENCY_S)
        self.groups = Durations(names.LATENCY_S)
        self.steps = Durations(names.STEP_S)
        self.cpu = StepCpu()
        self.loop = Durations(names.STEP_S)
        self.requests = {request: Durations(names.LATENCY_S) for request in REQUESTS}
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.elections = 0
        self.unclean_elections = 0
        self._waiting: dict[PartitionId, deque[tuple[int, float, int]]] = {}
        """Appends that are not committed: (end offset, when read, number of messages)."""
        self._asked: dict[int, tuple[str, float]] = {}
        self._known: dict[PartitionId, PartitionState] = {}

    def use_clock(self, now_ms: Callable[[], float], begun_ms: Callable[[], float]) -> None:
        """The monotonic clock, and when the present step began by it."""
        self._now_ms, self._begun_ms = now_ms, begun_ms

    # -- what it is told -----------------------------------------------------------------------------------

    def stepped(self, event: Event | None, outcome: Outcome) -> None:
        begun_ms = self._begun_ms()
        self.steps.add(self._now_ms() - begun_ms)
        kind = type(event)
        if kind is Published:
            self._appended(event, outcome, begun_ms)  # type: ignore[arg-type]
        elif kind is ClientRequest and len(self._asked) < WAITING_MAX:
            self._asked[event.client] = (kind_of(event.request), begun_ms)  # type: ignore[union-attr]
        for partition in outcome.touched:
            self._look_at(partition, begun_ms)

    def group_ended(self, times: GroupTimes) -> None:
        self.groups.add(times.synced_ms - times.begun_ms)
        self.syncs.add(times.synced_ms - times.written_ms)

    def answered(self, client: ClientRef) -> None:
        """It has its answer, or has left; then nobody waits."""
        asked = self._asked.pop(client, None)
        if asked is not None:
            request, begun_ms = asked
            self.requests[request].add(self._now_ms() - begun_ms)

    def left(self, client: ClientRef) -> None:
        self._asked.pop(client, None)

    # -- messages ------------------------------------------------------------------------------------------

    def _appended(self, event: Published, outcome: Outcome, begun_ms: float) -> None:
        for effect in outcome.effects:
            if type(effect) is AppendLog and effect.log != RAFT_LOG and effect.batches:
                first, last = effect.batches[0], effect.batches[-1]
                waiting = self._waiting.setdefault(effect.log, deque())
                if len(waiting) < WAITING_MAX:
                    waiting.append((last.end_offset, begun_ms, last.end_offset - first.base_offset))

    def _look_at(self, partition: PartitionId, begun_ms: float) -> None:
        record = self._node.metadata.partitions.get(partition)
        known = self._known.get(partition)
        if record is not known:
            self._changed(partition, known, record)
        waiting = self._waiting.get(partition)
        if not waiting:
            return
        replica = self._node.replicas.get(partition)
        if replica is None or replica.leading is None:
            # Another one leads: whether these are committed is its to say.
            del self._waiting[partition]
            return
        hw = replica.hw
        while waiting and waiting[0][0] <= hw:
            _, read_ms, count = waiting.popleft()
            self.commits.add(begun_ms - read_ms, count)

    # -- what the group decides ----------------------------------------------------------------------------

    def _changed(
        self, partition: PartitionId, known: PartitionState | None, record: PartitionState | None
    ) -> None:
        node = self._node
        if record is None or node.config.node not in record.replicas:
            self._known.pop(partition, None)
            self._waiting.pop(partition, None)
            return
        self._known[partition] = record
        if not node.incarnation or record.leader != node.config.node:
            return
        if known is None:
            # New here; of its earlier records none was of this run.
            self.elections += record.leader_incarnation == node.incarnation
            return
        gone = any(member not in record.isr for member in known.isr)
        come = any(member not in known.isr for member in record.isr)
        self.isr_shrinks += gone
        self.isr_expands += come
        if record.epoch != known.epoch:
            self.elections += 1
            self.unclean_elections += record.epoch in record.unclean_epochs


def kind_of(request: ClientMessage) -> str:
    """By what is told of it."""
    if isinstance(request, ReadRequest):
        return TAIL if request.wait_ms else READ
    if isinstance(request, OffsetRequest):
        return OFFSET
    if isinstance(request, StreamInfoRequest):
        return INFO
    return STATUS if isinstance(request, ClusterStatusRequest) else CHANGE
