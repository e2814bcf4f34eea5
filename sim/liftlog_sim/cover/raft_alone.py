"""Raft without a node around it: for paths through its model and for tests of its rules.

Nothing happens by itself. What a voter sends leaves at once, or as soon as what it waits for is durable; what
it wants to store waits in `jobs` until somebody stores it. The order is the interpreter's, as in every node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count

from liftlog.core.guards import Guards
from liftlog.core.raft.raft import Raft
from liftlog.driver.interpreter import Interpreter, Observer, Ports
from liftlog.format import decode_values
from liftlog.messages import (
    TIMER_TICK,
    AppendLog,
    Durable,
    Effect,
    Event,
    InstallSnapshot,
    MoveLogStart,
    Outcome,
    PeerMessage,
    Received,
    SaveHardState,
    SaveSnapshot,
    Send,
    SetTimer,
    StorageJob,
    TimerFired,
    TruncateLog,
)
from liftlog.nodeconfig import NodeConfig
from liftlog.types import BEGINNING, Entry, HardState, Identity, LogBase, Snapshot, Ticket
from liftlog_sim.devices.still import STILL

Sent = Callable[[int, int, PeerMessage], None]


class Do(Event):
    """A call that a node would make: to propose, to read, to withhold the vote."""

    work: Callable[[], object]


class RaftDisk:
    """What is durable: the file of term and vote, and the log."""

    def __init__(self, disk_id: str) -> None:
        self.disk_id = disk_id
        self.hard_state = HardState()
        self.entries: list[Entry] = []
        self.base = BEGINNING
        """What the entries follow."""
        self.snapshot: Snapshot | None = None

    def carry_out(self, job: StorageJob) -> None:
        match job:
            case SaveHardState():
                self.hard_state = job.state
            case TruncateLog():
                del self.entries[job.offset - self.base.index :]
            case SaveSnapshot():
                self.snapshot = job.snapshot
            case InstallSnapshot():
                self.snapshot = job.snapshot
                if job.reset:
                    self.entries, self.base = [], job.snapshot.base
            case MoveLogStart():
                gone = job.offset - self.base.index
                self.base = LogBase(job.offset, self.entries[gone - 1].term)
                del self.entries[:gone]
            case AppendLog():
                for batch in job.batches:
                    last_index = self.base.index + len(self.entries)
                    assert batch.base_offset == last_index
                    for index, data in enumerate(decode_values(batch), last_index + 1):
                        self.entries.append(Entry(index, batch.epoch, data))
            case _:
                raise TypeError(f"Raft submitted {job!r}")


class RaftAlone:
    """A Raft as the interpreter knows nodes."""

    def __init__(self, raft: Raft, effects: list[Effect]) -> None:
        self._raft = raft
        self._effects = effects

    def start(self, now_ms: float) -> Outcome:
        self._raft.start(now_ms)
        return self._drain()

    def step(self, event: Event) -> Outcome:
        raft = self._raft
        match event:
            case Received():
                raft.on_message(event.sender, event.message)
            case Durable():
                raft.on_durable(event.ticket)
            case TimerFired():
                raft.on_tick(event.monotonic_ms) if event.kind == TIMER_TICK else raft.on_election_timer()
            case Do():
                event.work()
            case _:
                raise TypeError(f"Raft does not know {event!r}")
        return self._drain()

    def _drain(self) -> Outcome:
        effects = self._effects[:]
        self._effects.clear()
        strange = [effect for effect in effects if not isinstance(effect, Send | SetTimer | StorageJob)]
        if strange:
            raise TypeError(f"Raft asked for {strange}")
        return Outcome(effects, group_log_from=self._raft.raft_log.take_changed())


class RaftProcess:
    """A process on what the disk holds. `sent(sender, receiver, message)`: called for what has left."""

    def __init__(
        self,
        config: NodeConfig,
        disk: RaftDisk,
        guards: Guards,
        nonce: int,
        sent: Sent,
        stepped: Observer,
    ) -> None:
        self.disk = disk
        self.jobs: list[StorageJob] = []
        """What was submitted and is not stored yet."""
        self._node = config.node
        self._sent = sent
        effects: list[Effect] = []
        tickets = count(1)
        self.raft = Raft(
            config,
            disk.hard_state,
            list(disk.entries),
            Identity(config.node, disk.disk_id),
            effects,
            lambda: Ticket(next(tickets)),
            guards,
            nonce=nonce,
            snapshot=disk.snapshot,
            base=disk.base,
        )
        ports = Ports(network=self, bus=STILL, storage=self, clients=STILL, clock=STILL, random=STILL)
        self._interpreter = Interpreter(RaftAlone(self.raft, effects), ports, [stepped])

    @property
    def held(self) -> list[Send]:
        """What waits for a write."""
        return self._interpreter.waiting

    def start(self) -> None:
        self._interpreter.start()

    def take(self, event: Event) -> None:
        self._interpreter.take(event)

    def store(self, job: StorageJob) -> None:
        """This job, the oldest, is durable, and Raft hears of it."""
        self.jobs.remove(job)
        self.disk.carry_out(job)
        if not isinstance(job, MoveLogStart):
            self.take(Durable(job.ticket))  # type: ignore[attr-defined]

    # -- ports ---------------------------------------------------------------------------------------------

    def send(self, to: int, message: PeerMessage) -> None:
        self._sent(self._node, to, message)

    def know(self, peers: Mapping[int, str]) -> None:
        pass

    def submit(self, job: StorageJob) -> None:
        self.jobs.append(job)
