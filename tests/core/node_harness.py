"""Whole nodes on a scripted world: no disk, no sockets, one event heap, faults as plain attributes.

The simulator proper lives in `sim/`; this is the small version that a test of one rule can read. Storage is a
list of batches per log, of which a prefix is durable; a kill loses the rest.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from liftlog.core.metadata.commands import (
    Command,
)
from liftlog.core.metadata.metadata import (
    CommandResult,
)
from liftlog.core.node import Node
from liftlog.core.replica.replica import Replica
from liftlog.driver.interpreter import Interpreter, Ports
from liftlog.driver.timers import NEVER_MS
from liftlog.format import decode_records, decode_values
from liftlog.messages import (
    AckPublishes,
    AppendLog,
    AskLasts,
    AskOrigin,
    AskSubjects,
    BusUp,
    CheckpointHw,
    ClientRequest,
    CompactLog,
    ConfigureLog,
    CreateStreamRequest,
    Drained,
    Durable,
    Event,
    FoldSubjects,
    LogOpened,
    LookupTime,
    MoveLogStart,
    OpenLog,
    Outcome,
    PeerMessage,
    Published,
    PublishLetter,
    ReadLog,
    RebuildLog,
    Received,
    RefusePublishes,
    RepairLog,
    ResetLog,
    RetainLog,
    SaveHardState,
    SaveIdentity,
    ScrubLog,
    StorageFailed,
    StorageJob,
    Subscribe,
    Subscribed,
    TellAdvisory,
    TellFast,
    TellStaged,
    TrashLog,
    TruncateLog,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.nodeconfig import NodeConfig
from liftlog.types import (
    NO_TICKET,
    RAFT_LOG,
    ClientRef,
    Entry,
    HardState,
    Identity,
    LogOptions,
    Message,
    PartitionId,
    Recovered,
    StreamConfig,
    TailState,
)
from tests.core.fake_log import Log

NETWORK_S = 0.001
SYNC_S = 0.002
WALL_START_MS = 1_800_000_000_000


class Disk:
    """What survives a kill of one node."""

    def __init__(self, node: int, disk_id: str) -> None:
        self.identity = Identity(node, disk_id)
        self.hard_state = HardState()
        self.logs: dict[PartitionId, Log] = {}


class Wake(Event):
    """A timer is due, unless an earlier one was set meanwhile."""

    at_ms: float


class NodePorts:
    """The world of one run of one node. What is made with effects in mind goes back to the world's heap."""

    def __init__(self, world: World, node: int) -> None:
        self.world = world
        self.node = node
        self._drew = False

    def send(self, to: int, message: PeerMessage) -> None:
        world = self.world
        if not world.drop(self.node, to, message):
            world.post(to, Received(self.node, message), NETWORK_S)

    def know(self, peers: Mapping[int, str]) -> None:
        pass

    def submit(self, job: StorageJob) -> None:
        self.world._store(self.node, job)

    def subscribe(self, request: Subscribe) -> None:
        if self.world.subscriptions.get(request.partition) != (self.node, request.epoch):
            self.world.listened.pop(request.partition, None)
        self.world.subscriptions[request.partition] = (self.node, request.epoch)
        self.world.listened.setdefault(request.partition, {})[request.number] = request.subject
        self.world.post(self.node, Subscribed(request.partition, request.epoch, request.number), NETWORK_S)

    def unsubscribe(self, partition: PartitionId) -> None:
        if self.world.subscriptions.get(partition, (0, 0))[0] == self.node:
            del self.world.subscriptions[partition]
            self.world.listened.pop(partition, None)

    def drain(self, partition: PartitionId, number: int = 0) -> None:
        epoch = self.world.subscriptions[partition][1]
        subjects = self.world.listened[partition]
        del subjects[number]
        if not subjects:
            del self.world.subscriptions[partition]
        self.world.post(self.node, Drained(partition, epoch, number), NETWORK_S)

    def acknowledge(self, acks: AckPublishes) -> None:
        self.world.acks.append(acks)

    def staged(self, told: TellStaged) -> None:
        self.world.staged.append(told)

    def fast(self, told: TellFast) -> None:
        self.world.fast.append(told)

    def refuse(self, refusal: RefusePublishes) -> None:
        self.world.refusals.append(refusal)

    def publish(self, letter: PublishLetter) -> None:
        self.world.letters.append((self.node, letter))

    def reply(self, client: ClientRef, reply: object) -> None:
        self.world.replies[client] = reply

    def monotonic_ms(self) -> float:
        return self.world.now * 1000

    def wall_ms(self) -> int:
        return WALL_START_MS + int(self.world.now * 1000)

    def uniform(self, low: float, high: float) -> float:
        self._drew = True
        return self.world.random.uniform(low, high)

    def bits(self, count: int) -> int:
        return self.world.random.getrandbits(count)

    def alarm(self, next_ms: float) -> None:
        # Each timer takes one number of the world's, of whatever length it is: so are scripts recorded.
        if not self._drew:
            self.world.random.random()
        self._drew = False
        self.world.wake(self.node, next_ms)


class World:
    """`nodes` are the running ones. Faults: `drop`, `hold` (storage of a node stalls), `kill`, `restart`."""

    contains = False
    """Whether nodes survive a replica that breaks a promise, as those do that serve."""

    def __init__(self, count: int = 3, mutants: Mutants = NO_MUTANTS, **config: Any) -> None:
        self.random = random.Random(f"{count}")
        self.now = 0.0
        self.count = count
        self.mutants = mutants
        self.config = config
        self.nodes: dict[int, Node] = {}
        self.disks = {node: Disk(node, f"disk-{node}") for node in range(1, count + 1)}
        self.runs = dict.fromkeys(self.disks, 0)
        self.interpreters: dict[int, Interpreter] = {}
        self.wakes = dict.fromkeys(self.disks, NEVER_MS)
        self.heap: list[tuple[float, int, int, int, Event]] = []
        self.serial = 0
        self.drop: Callable[[int, int, PeerMessage], bool] = lambda sender, to, message: False
        self.advisories: list[TellAdvisory] = []
        """What leaders have told whoever listens."""
        self.held: dict[int, list[Callable[[], None]]] = {}
        self.sync_s: dict[int, float] = {}
        """How long a sync takes where that is not SYNC_S."""
        self.paused: dict[int, list[Event]] = {}
        self.subscriptions: dict[PartitionId, tuple[int, int]] = {}
        self.listened: dict[PartitionId, dict[int, str]] = {}
        """By the numbers of the leader's subscriptions: the subjects."""
        self.acks: list[AckPublishes] = []
        self.refusals: list[RefusePublishes] = []
        self.staged: list[TellStaged] = []
        self.fast: list[TellFast] = []
        self.letters: list[tuple[int, PublishLetter]] = []
        """K9: who has published what."""
        self.replies: dict[int, Any] = {}
        self.clients = 0
        self.options: dict[tuple[int, PartitionId], LogOptions] = {}
        for node in self.disks:
            self.restart(node)

    # -- nodes ---------------------------------------------------------------------------------------

    def kill(self, node: int) -> None:
        """A power loss as far as this node's logs are concerned: what is not synced is gone."""
        del self.nodes[node]
        self.interpreters.pop(node).end()
        self.wakes[node] = NEVER_MS
        self.runs[node] += 1
        self.held.pop(node, None)
        for log in self.disks[node].logs.values():
            log.lose_unsynced()
        self.subscriptions = {key: value for key, value in self.subscriptions.items() if value[0] != node}

    def restart(self, node: int, tail: TailState = TailState.INTACT) -> None:
        disk = self.disks[node]
        raft = disk.logs.get(RAFT_LOG, Log())
        values = [(value, batch.epoch) for batch in raft.batches for value in decode_values(batch)]
        entries = [Entry(index + 1, term, value) for index, (value, term) in enumerate(values)]
        logs = [log.summary(key, tail) for key, log in disk.logs.items() if key != RAFT_LOG]
        nonce = node * 1000 + self.runs[node]
        recovered = Recovered(disk.identity, disk.hard_state, entries, logs, False, nonce)
        config = NodeConfig(node, tuple(range(1, self.count + 1)), address=f"n{node}:1", **self.config)
        self.nodes[node] = Node(config, recovered, self.mutants, partial(self.learned, node), self.contains)
        ports = NodePorts(self, node)
        self.interpreters[node] = Interpreter(
            self.nodes[node],
            Ports(
                *(ports, ports, ports, ports, ports, ports),
                ports.alarm,
                tell=self.advisories.append,
                ask_origin=partial(self.asked_origin, node),
            ),
            [partial(self.observed, node)],
        )
        self.interpreters[node].start()
        self.post(node, BusUp())

    def asked_origin(self, node: int, question: AskOrigin) -> None:
        """R28: a node asks another cluster: for worlds that have one."""

    def learned(self, node: int, index: int, command: Command, result: CommandResult) -> None:
        """A node has applied a command, in the middle of a step: for worlds that look on."""

    def observed(self, node: int, event: Event | None, outcome: Outcome) -> None:
        """A node has stepped, and nothing of it is carried out yet: for worlds that look on."""

    def replica(self, node: int, partition: PartitionId) -> Replica:
        return self.nodes[node].replicas[partition]

    # -- time ----------------------------------------------------------------------------------------

    def post(self, node: int, event: Event, delay_s: float = 0.0) -> None:
        self.serial += 1
        heapq.heappush(self.heap, (self.now + delay_s, self.serial, node, self.runs[node], event))

    def run(self, seconds: float) -> None:
        self.run_until(lambda: False, seconds)

    def run_until(self, condition: Callable[[], bool], seconds: float = 30.0) -> bool:
        """Run until `condition` holds; False if simulated time is up first."""
        end = self.now + seconds
        while not condition():
            if not self.heap or self.heap[0][0] > end:
                self.now = end
                return condition()
            self.now, _, node, run, event = heapq.heappop(self.heap)
            if run != self.runs[node] or node not in self.nodes:
                continue
            if node in self.paused:
                self.paused[node].append(event)
            else:
                self.step(node, event)
        return True

    def pause(self, node: int) -> None:
        """The process is stopped; whatever comes for it waits."""
        self.paused[node] = []

    def resume(self, node: int) -> None:
        """It runs on, with all that has waited and the timers that came due."""
        waiting = self.paused.pop(node)
        for event in waiting:
            if not isinstance(event, Wake):
                self.step(node, event)
        self.step(node, Wake(self.wakes[node]))

    def step(self, node: int, event: Event) -> None:
        interpreter = self.interpreters[node]
        if not isinstance(event, Wake):
            interpreter.take(event)
        elif event.at_ms == self.wakes[node]:
            self.wakes[node] = NEVER_MS
            interpreter.fire_due()
            self.wake(node, interpreter.timers.next_ms)

    def wake(self, node: int, next_ms: float) -> None:
        """Come back at `next_ms`, unless something comes back earlier, which will look again."""
        if next_ms < self.wakes[node]:
            self.wakes[node] = next_ms
            self.post(node, Wake(next_ms), max(0.0, next_ms / 1000 - self.now))

    # -- storage -------------------------------------------------------------------------------------

    def _store(self, node: int, job: StorageJob) -> None:
        """Writes happen at once, syncs later; a held node's syncs wait for `release`."""
        logs = self.disks[node].logs
        match job:
            case OpenLog():
                self.options[node, job.log] = job.options
                if job.fresh or job.log not in logs:
                    logs[job.log] = Log(job.first)
                self.post(node, LogOpened(logs[job.log].summary(job.log, TailState.CLEAN)), NETWORK_S)
            case RebuildLog():
                logs[job.log].truncate(job.log, job.keep_below)
                self.post(node, LogOpened(logs[job.log].summary(job.log, TailState.DAMAGED)), NETWORK_S)
            case CheckpointHw():
                logs[job.log].hw = job.hw
            case TrashLog():
                logs.pop(job.log, None)
                if job.ticket != NO_TICKET:
                    self.post(node, Durable(job.ticket), SYNC_S)
            case ReadLog():
                self.post(node, logs[job.log].read(job), NETWORK_S)
            case FoldSubjects():
                self.post(node, logs[job.log].fold(job), SYNC_S)
            case AskSubjects():
                self.post(node, logs[job.log].ask(job), NETWORK_S)
            case AskLasts():
                self.post(node, logs[job.log].lasts(job), NETWORK_S)
            case LookupTime():
                self.post(node, logs[job.log].find_time(job), NETWORK_S)
            case ConfigureLog():
                self.options[node, job.log] = job.options
            case MoveLogStart():
                self.post(node, logs[job.log].move_start(job), SYNC_S)
            case RetainLog():
                self.post(node, logs[job.log].retain(job), SYNC_S)
            case CompactLog():
                self.post(node, logs[job.log].compact(job), SYNC_S)
            case ScrubLog():
                self.post(node, logs[job.log].scrub(job), SYNC_S)
            case RepairLog():
                self.post(node, logs[job.log].repair(job), SYNC_S)
            case AppendLog() | TruncateLog() | ResetLog() | SaveHardState() | SaveIdentity():
                run = self.runs[node]
                if isinstance(job, AppendLog):
                    log = logs.setdefault(job.log, Log())
                    assert job.batches[0].base_offset == log.leo
                    log.batches.extend(job.batches)
                elif isinstance(job, TruncateLog):
                    logs[job.log].truncate(job.log, job.offset)
                elif isinstance(job, ResetLog):
                    logs[job.log].reset(job)
                if node in self.held and isinstance(job, AppendLog) and job.log != RAFT_LOG:
                    self.held[node].append(lambda: self._sync(node, run, job))
                else:
                    self._sync(node, run, job)
            case _:
                raise AssertionError(f"unexpected job {job}")

    def _sync(
        self, node: int, run: int, job: AppendLog | TruncateLog | ResetLog | SaveHardState | SaveIdentity
    ) -> None:
        if run != self.runs[node]:
            return
        disk = self.disks[node]
        match job:
            case AppendLog():
                log = disk.logs[job.log]
                ends = [batch.end_offset for batch in log.batches]
                log.durable = max(log.durable, ends.index(min(job.batches[-1].end_offset, ends[-1])) + 1)
            case SaveHardState():
                disk.hard_state = job.state
            case SaveIdentity():
                disk.identity = job.identity
        self.post(node, Durable(job.ticket), self.sync_s.get(node, SYNC_S))

    def hold_storage(self, node: int) -> None:
        """From now on nothing of this node's partitions becomes durable; its metadata still does."""
        self.held[node] = []

    def release_storage(self, node: int) -> None:
        for job in self.held.pop(node):
            job()

    def fail_sync(self, node: int, partition: PartitionId) -> None:
        """The next answer of this node's storage is a failed sync of this log (R5)."""
        self.post(node, StorageFailed(partition, Durable(0).ticket, True, "input/output error"))  # type: ignore[arg-type]

    # -- clients -------------------------------------------------------------------------------------

    def ask(self, node: int, request: Any) -> int:
        """Send a client request; the answer appears in `replies` under the number returned."""
        self.clients += 1
        self.post(node, ClientRequest(ClientRef(self.clients), request))
        return self.clients

    def answer(self, node: int, request: Any, seconds: float = 20.0) -> Any:
        number = self.ask(node, request)
        assert self.run_until(lambda: number in self.replies, seconds), f"no answer to {request}"
        return self.replies[number]

    def create(
        self, name: str = "orders", replicas: int = 3, minimum: int = 0, **settings: Any
    ) -> PartitionId:
        """Create a stream of one partition and wait until it takes messages."""
        config = StreamConfig(name, name, 1, replicas, minimum, **settings)
        reply = self.answer(1, CreateStreamRequest(config))
        partition = PartitionId(reply.streams[0].id, 0)
        assert self.run_until(
            lambda: sum(partition in node.replicas for node in self.nodes.values()) >= replicas
        )
        return partition

    def publish(
        self, partition: PartitionId, *values: bytes, reply: bytes = b"_INBOX.x", headers: bytes = b""
    ) -> bool:
        """Publish through NATS; False if nobody subscribes ("no responders")."""
        target = self.subscriptions.get(partition)
        if target is None:
            return False
        messages = [Message(b"orders", reply, headers, value) for value in values]
        self.post(target[0], Published(partition, target[1], messages, 1_000))
        return True

    def leader(self, partition: PartitionId) -> int:
        leaders = [
            (node.replicas[partition].epoch, number)
            for number, node in self.nodes.items()
            if partition in node.replicas and node.replicas[partition].leading is not None
        ]
        return max(leaders)[1] if leaders else 0

    def values(self, node: int, partition: PartitionId) -> list[bytes | None]:
        """Every value in a node's log, durable or not."""
        log = self.disks[node].logs[partition]
        return [record.value for batch in log.batches for record in decode_records(batch)]

    def committed(self, partition: PartitionId, offset: int) -> bool:
        """Every running replica knows that everything below `offset` is committed."""
        return all(
            node.replicas[partition].hw >= offset
            for node in self.nodes.values()
            if partition in node.replicas
        )
