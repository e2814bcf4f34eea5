"""One real node on a simulated disk that does nothing by itself: no clock, no network, no thread.

Whoever holds it hands it events one at a time. What the node wants to send is kept; writes of the held log
wait in `held` until they are carried out, everything else that it stores is stored and synced at once. So a
caller decides what arrives, what is durable, and what a power loss leaves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from liftlog.core.metadata.commands import Command
from liftlog.core.metadata.records import CommandResult
from liftlog.core.node import Node
from liftlog.driver.interpreter import Interpreter, NodeStopped, Ports
from liftlog.messages import (
    TIMER_TICK,
    AppendLog,
    BusUp,
    CheckpointHw,
    Event,
    Outcome,
    PeerMessage,
    ResetLog,
    StorageFailed,
    StorageJob,
    TimerFired,
    TruncateLog,
)
from liftlog.mutants import Mutants
from liftlog.nodeconfig import NodeConfig
from liftlog.storage.engine import StorageEngine
from liftlog.trace.replica_lines import GroupStep, ReplicaState, ReplicaStep
from liftlog.trace.replica_recorder import Recorder
from liftlog.types import LiftlogError, PartitionId, Recovered
from liftlog_sim.chance.draws import Draws
from liftlog_sim.devices.copies import places, segment_paths
from liftlog_sim.devices.disk import SimDisk
from liftlog_sim.devices.still import STILL

HELD_JOBS = (AppendLog, TruncateLog, ResetLog)
Spoken = Callable[[int, int, PeerMessage], None]


class ScenarioRefused(LiftlogError):
    """The core did not do what the next step needs: there is nothing to deliver, or it refuses."""


class _Patient(Node):
    """Goes on when its vote is withheld: it would come back with the same copies (M4)."""

    def _give_up_withheld(self) -> None:
        pass


class ManualNode:
    """`spoken(sender, receiver, message)`: called for each message that has left the node."""

    def __init__(self, number: int, spoken: Spoken, mutants: Mutants) -> None:
        self.number = number
        self.disk = SimDisk(Draws("disk", number))
        self.disk_id = f"disk-{number}"
        self.runs = 0
        self.node: Node | None = None
        self.held: list[StorageJob] = []
        self.state: ReplicaState | None = None
        """The replica of the held log, as the node's trace tells it."""
        self.group: GroupStep | None = None
        """The last command about the held log that this process has applied."""
        self._spoken = spoken
        self._mutants = mutants
        self._held_log: PartitionId | None = None
        self._now_ms = 0.0
        self._events: deque[Event] = deque()
        self._busy = False

    @property
    def running(self) -> Node:
        """Raises ScenarioRefused if no process runs here."""
        if self.node is None:
            raise ScenarioRefused(f"node {self.number} is down")
        return self.node

    @property
    def nonce(self) -> int:
        return self.number * 1000 + self.runs

    # -- processes -----------------------------------------------------------------------------------------

    def start(self, config: NodeConfig, held_log: PartitionId | None) -> Recovered:
        """A process starts on what the disk holds, with NATS at hand."""
        self.runs += 1
        self._held_log = held_log
        self._engine = StorageEngine(self.disk, None, self._mutants)
        recovered = self._engine.recover(self.number, self.disk_id, self.nonce)
        self.node = _Patient(config, recovered, self._mutants, self._applied)
        self._recorder = Recorder(self.node)
        self._now_ms = 0.0
        ports = Ports(network=self, bus=STILL, storage=self, clients=STILL, clock=STILL, random=STILL)
        self._interpreter = Interpreter(self.node, ports, [self._stepped])
        self._carry_on(self._interpreter.start)
        self.take(BusUp())
        return recovered

    def hold(self, log: PartitionId) -> None:
        """From now on writes of this log wait."""
        self._held_log = log

    def power_loss(self) -> None:
        """Memory is gone; the disk has what was carried out, since that is synced."""
        self.node = None
        self.state = self.group = None
        self.held.clear()
        self._events.clear()
        self.disk.detach()
        self.disk.power_loss(Draws("power"))

    def new_disk(self) -> None:
        """The disk is set back to when it was empty: what has another id waits for the end of the session."""
        self.disk.wipe()

    # -- events --------------------------------------------------------------------------------------------

    def take(self, event: Event) -> None:
        """Hand over an event, and then whatever its writes that do not wait come back with.

        Raises ScenarioRefused, also if no process runs here.
        """
        if self.node is None:
            raise ScenarioRefused(f"node {self.number} is down")
        self._events.append(event)
        if not self._busy:
            self._carry_on()

    def tick(self) -> None:
        self._now_ms += self.running.config.tick_ms
        self.take(TimerFired(TIMER_TICK, self._now_ms))

    def _carry_on(self, first: Callable[[], None] | None = None) -> None:
        self._busy = True
        try:
            if first is not None:
                first()
            while self._events:
                event = self._events.popleft()
                if isinstance(event, StorageFailed):
                    raise ScenarioRefused(f"node {self.number}: the disk failed: {event.error}")
                self._interpreter.take(event)
        except NodeStopped as stopped:
            raise ScenarioRefused(f"node {self.number} stops: {stopped}") from None
        finally:
            self._busy = False

    def _applied(self, index: int, command: Command, result: CommandResult) -> None:
        self._recorder.applied(index, command, result)

    def _stepped(self, event: Event | None, outcome: Outcome) -> None:
        for line in self._recorder.stepped(event, outcome):
            if line.partition == self._held_log:
                if isinstance(line, ReplicaStep):
                    self.state = line.after
                else:
                    self.group = line

    # -- ports ---------------------------------------------------------------------------------------------

    def send(self, to: int, message: PeerMessage) -> None:
        self._spoken(self.number, to, message)

    def know(self, peers: Mapping[int, str]) -> None:
        pass

    def submit(self, job: StorageJob) -> None:
        """Checkpoints of the HW are left out: a start then finds the oldest that there can be."""
        if isinstance(job, HELD_JOBS) and job.log == self._held_log:
            self.held.append(job)
        elif not isinstance(job, CheckpointHw):
            self._events.extend(self._engine.write([job]))
            self._events.extend(self._engine.sync())

    # -- what waits ----------------------------------------------------------------------------------------

    def sync(self) -> None:
        """What was written is durable, and the node hears of it."""
        for event in self._store(len(self.held)):
            self.take(event)

    def keep(self, length: int, at_least: bool = False) -> None:
        """Carry out as many of the waiting writes as leave the log with `length` records; tell nobody.

        `at_least`: or with more. Raises ScenarioRefused if no number of them does.
        """
        lengths = [self.stored()]
        for job in self.held:
            lengths.append(_length_after(job))
        fits = [
            count for count, found in enumerate(lengths) if found == length or (at_least and found > length)
        ]
        if not fits:
            raise ScenarioRefused(
                f"node {self.number}: no prefix of the waiting writes leaves {length} records"
            )
        self._store(fits[-1])

    def stored(self) -> int:
        """Number of records that the disk holds."""
        return self._engine.log_ends()[self._held_log][0] if self._held_log is not None else 0

    def spoil(self, offset: int) -> None:
        """Everything from the batch at `offset` to the end of its file turns into garbage."""
        assert self._held_log is not None
        path = segment_paths(self.disk, self._held_log)[-1]
        content = self.disk.content(path)
        found = next((place for place in places(path, content) if place.base == offset), None)
        if found is None:
            raise ScenarioRefused(f"node {self.number}: no batch begins at offset {offset}")
        garbage = bytes(byte ^ 0x5A for byte in content[found.position :])
        self.disk.overwrite(path, found.position, garbage)

    def _store(self, count: int) -> list[Event]:
        jobs, self.held = self.held[:count], self.held[count:]
        if not jobs:
            return []
        return [*self._engine.write(jobs), *self._engine.sync()]


def _length_after(job: StorageJob) -> int:
    match job:
        case AppendLog():
            return job.batches[-1].end_offset
        case TruncateLog():
            return job.offset
        case ResetLog():
            return job.start
    raise TypeError(f"{job!r} changes no length")
