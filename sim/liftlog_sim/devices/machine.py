"""One simulated machine: a disk that outlives processes, and at most one process running on it.

    Machine                disk, clocks, how often a process started
      Process (a gear)     runs one `Node` over the ports, either stepped directly or by the production driver
      ports                network, bus, storage, clients: detached *before* a crashed process is taken down,
                           so that nothing it does while dying reaches the disk or the wire

The ways to stop: `kill` (SIGKILL: the page cache survives), `lose_power` (what was not synced is kept, lost
or torn, sector by sector; it may follow a kill), `stop` after the node asked for it, `terminate` (SIGTERM:
the node hands over, storage is closed cleanly). `pause` is SIGSTOP: nothing executes, what arrives waits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import msgspec

from liftlog.api.spans import materialize
from liftlog.core.metadata.commands import Command
from liftlog.core.metadata.records import CommandResult
from liftlog.core.node import Node
from liftlog.driver.interpreter import Observer, Ports
from liftlog.messages import (
    Event,
    Outcome,
    SpannedRead,
    StopRequested,
)
from liftlog.mutants import Mutants
from liftlog.ports import DiskError
from liftlog.storage.engine import StorageEngine
from liftlog.storage.sealing import Sealer
from liftlog.types import FEATURE_LEVEL, LiftlogError, Recovered
from liftlog_sim.chance.chances import Chances
from liftlog_sim.devices.bus import BusConnection, SimBus
from liftlog_sim.devices.clock import SimClock, SimRandom
from liftlog_sim.devices.disk import SimDisk, SimulatedCrash
from liftlog_sim.devices.elsewhere import FarCluster
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.devices.lanes import LanesRunner
from liftlog_sim.devices.network import NetworkPort, SimNetwork
from liftlog_sim.devices.storage import SimStorageRunner
from liftlog_sim.kernel import MILLISECOND, Kernel

HANDOVER_TICKS = 30
"""How long an orderly stop lets the core hand over: the process's own limit, in ticks of a node."""
HANDOVER_LOOK_US = 5 * MILLISECOND


class Process(Protocol):
    """One run of a node in one of the gears."""

    def start(self) -> None:
        """Run `Node.start` and whatever follows from it."""
        ...

    def post(self, event: Event) -> None:
        """Hand an event to the node."""
        ...

    def resumed(self) -> None:
        """The process runs on after a pause: look at the timers."""
        ...

    def end(self) -> None:
        """Take the process down; its ports are detached already."""
        ...


class MachineHooks(Protocol):
    """What a machine tells of its life: to who watches it, who starts it again, and its clients."""

    def starting(self, machine: Machine) -> None:
        """A process is about to read its disk."""
        ...

    def recovered(self, machine: Machine, recovered: Recovered) -> None:
        """It has read it."""
        ...

    def refused(self, machine: Machine, error: Exception) -> None:
        """It cannot start; it is gone already."""
        ...

    def rejected(self, machine: Machine, error: LiftlogError) -> None:
        """Its node does not start on what the disk holds, though all of that is whole; it is gone already.
        Raises Violation."""
        ...

    def created(self, machine: Machine) -> None:
        """It has its node, which is not started yet."""
        ...

    def applied(self, machine: Machine, index: int, command: Command, result: CommandResult) -> None:
        """The node has applied a command of the metadata group, in the middle of a step."""
        ...

    def installed(self, machine: Machine, index: int) -> None:
        """A leader's snapshot has taken the place of what the node had applied, in the middle of a step."""
        ...

    def stepped(self, machine: Machine, event: Event | None, outcome: Outcome) -> None:
        """The node has stepped; nothing has come of it yet. Raises Violation."""
        ...

    def failed(self, machine: Machine, error: Exception, event: Event | None) -> None:
        """The node raised over this event, or its storage did. Raises Violation."""
        ...

    def reply(self, client: int, reply: object) -> None:
        """The node answers a client."""
        ...

    def stopping(self, machine: Machine, reason: str) -> None:
        """The node asks for the end of its process."""
        ...

    def stopped(self, machine: Machine) -> None:
        """That process is gone."""
        ...

    def closed(self, machine: Machine, handed_over: bool) -> None:
        """An orderly stop has come to its end, whether or not everything could be handed over."""
        ...

    def terminated(self, machine: Machine) -> None:
        """The process that was stopped in order is gone."""
        ...

    def crashed(self, machine: Machine) -> None:
        """A planted crash has come, or the disk failed while the process started: it is gone."""
        ...

    def going_down(self, machine: Machine) -> None:
        """A process is about to be gone, for whatever reason; its node can still be looked at."""
        ...

    def went_down(self, machine: Machine) -> None:
        """It is gone, and its connections with it."""
        ...


@dataclass(frozen=True)
class MachineSite:
    """What all machines of a world stand in. `gear` makes the process of a machine's run."""

    chances: Chances
    knobs: Knobs
    kernel: Kernel
    network: SimNetwork
    bus: SimBus
    far: FarCluster
    gear: Callable[[Machine], Process]
    mutants: Mutants
    sealer: Sealer | None
    """Encrypts what the nodes store; None: nothing does."""


class ClientPort:
    """`ClientReplies` port of one process."""

    __slots__ = ("_attached", "_on_crash", "_reply")

    def __init__(self, reply: Callable[[int, object], None], on_crash: Callable[[], None]) -> None:
        self._reply = reply
        self._on_crash = on_crash
        self._attached = True

    def reply(self, client: int, reply: object) -> None:
        """Answer a client. Batches that still lie in files are read as they leave, unverified."""
        if not self._attached:
            return
        if isinstance(reply, SpannedRead):
            try:
                reply = materialize(reply)
            except SimulatedCrash:
                self._on_crash()
                return
            except DiskError:
                reply = None
        self._reply(client, reply)

    def detach(self) -> None:
        self._attached = False


class Machine:
    """See the module. `number` is the node id."""

    __slots__ = (
        "_backlog",
        "_crash_power",
        "_listening",
        "_power",
        "_starts",
        "_surroundings",
        "bus",
        "can_level",
        "clients",
        "clock",
        "damaged_run",
        "disk",
        "disk_losses",
        "engine",
        "hooks",
        "kernel",
        "knobs",
        "network",
        "node",
        "number",
        "paused",
        "process",
        "recovered",
        "restarts",
        "storage",
        "timer_random",
    )

    def __init__(self, surroundings: MachineSite, number: int, hooks: MachineHooks) -> None:
        self._surroundings = surroundings
        self.number = number
        self.hooks = hooks
        self.kernel = surroundings.kernel
        self.knobs = knobs = surroundings.knobs
        chances = surroundings.chances
        draws = chances.draws("machine", number)
        rate = 1.0 + knobs.clock_drift * (2 * draws.random() - 1)
        skew_ms = int(knobs.clock_skew_ms * (2 * draws.random() - 1))
        self.clock = SimClock(self.kernel, rate, skew_ms)
        self.timer_random = SimRandom(chances.lane(f"node {number}", "timers"))
        self.disk = SimDisk(chances.draws("disk", number))
        self.can_level = FEATURE_LEVEL
        """U2: which release the present run is, or the next: up to which feature level it can follow."""
        self.restarts = 0
        """Number of processes started here so far; the present or last one is run number `restarts`."""
        self.paused = False
        self.damaged_run = -1
        """The run during or after which we damaged, wiped or rolled back this disk; -1: it is whole (D3).

        When it counts as whole again is told in `faults/atlas.py`."""
        self.disk_losses = 0
        """How often we replaced this disk, set it back, or damaged it where metadata lies."""
        self.process: Process | None = None
        self.node: Node | None = None
        self.engine: StorageEngine | None = None
        self.recovered: Recovered | None = None
        self.network: NetworkPort | None = None
        self.bus: BusConnection | None = None
        self.storage: SimStorageRunner | None = None
        self.clients: ClientPort | None = None
        self._backlog: list[Event] = []
        self._listening: list[Callable[[], None]] = []
        self._power = chances.lane(f"node {number}", "power")
        self._starts = chances.lane(f"node {number}", "start")
        self._crash_power = False

    @property
    def is_exempt(self) -> bool:
        """Whether its disk was damaged by us and the metadata group does not know yet (D3, I2, R14)."""
        return self.damaged_run >= 0

    @property
    def up(self) -> bool:
        """Whether a process runs here, paused or not."""
        return self.process is not None

    @property
    def mutants(self) -> Mutants:
        return self._surroundings.mutants

    # -- starting ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start a process, unless one runs. A crash planted into the recovery ends it again at once."""
        if self.up:
            return
        around, hooks, knobs = self._surroundings, self.hooks, self.knobs
        self.restarts += 1
        draws = self._starts.draws()
        nonce = draws.getrandbits(48)
        new_disk_id = f"disk-{self.number}-{draws.getrandbits(32):08x}"
        hooks.starting(self)
        engine = StorageEngine(self.disk, knobs.storage_options, around.mutants, around.sealer)
        try:
            recovered = engine.recover(self.number, new_disk_id, nonce)
        except SimulatedCrash:
            self._after_crash()
            return
        except Exception as error:
            self.disk.kill()
            hooks.refused(self, error)
            return
        self.engine = engine
        self.recovered = recovered
        hooks.recovered(self, recovered)
        applied = partial(hooks.applied, self)
        try:
            config, installed = knobs.node_config(self.number), partial(hooks.installed, self)
            config = msgspec.structs.replace(config, can_level=self.can_level)
            self.node = Node(config, recovered, around.mutants, applied, installed=installed)
        except LiftlogError as refusal:
            self.engine = None
            self.disk.kill()
            hooks.rejected(self, refusal)
            return
        self.network = NetworkPort(around.network, self.number)
        if knobs.joiners:
            self.network.know(dict(config.peers))
        self.clients = ClientPort(hooks.reply, self._died_inside)
        self.bus = BusConnection(around.bus, self.kernel, self.number, self.clock, self.post)
        runner = LanesRunner if knobs.storage_times.journals_apart else SimStorageRunner
        self.storage = runner(
            self.kernel,
            around.chances.lane(f"{self.number}>disk", "sync"),
            knobs.storage_times,
            engine,
            self.post_all,
            self._died_inside,
            partial(self.raised, None),
            knobs.tune,
        )
        hooks.created(self)
        self.process = around.gear(self)
        around.network.started(self.number)
        self.process.start()

    # -- events --------------------------------------------------------------------------------------------

    def post(self, event: Event) -> None:
        """An event for whatever process runs here; lost if none does, kept while it is paused."""
        process = self.process
        if process is None:
            return
        if self.paused:
            self._backlog.append(event)
        else:
            process.post(event)

    def heard(self, then: Callable[[], None]) -> None:
        """Call `then` when whatever process runs here has been given all that was posted to it: now, or when
        its pause is over.
        """
        if self.paused:
            self._listening.append(then)
        else:
            then()

    def post_all(self, events: list[Event]) -> None:
        for event in events:
            self.post(event)

    # -- for the gear --------------------------------------------------------------------------------------

    @property
    def running(self) -> Node:
        """The node of the process that runs here."""
        assert self.node is not None
        return self.node

    def ports(self, alarm: Callable[[float], None] = lambda next_ms: None) -> Ports:
        """What the present process has of the world."""
        assert self.network is not None and self.bus is not None
        assert self.storage is not None and self.clients is not None
        return Ports(
            *(self.network, self.bus, self.storage, self.clients, self.clock, self.timer_random),
            alarm,
            ask_origin=partial(self._surroundings.far.ask, self.number),
        )

    @property
    def stepped(self) -> Observer:
        """To be called when the node has stepped: that is checked before anything comes of it. Raises
        Violation.
        """
        return partial(self.hooks.stepped, self)

    def raised(self, event: Event | None, error: Exception) -> None:
        """The node raised over this event, or its storage did. Raises Violation."""
        self.hooks.failed(self, error, event)

    # -- stopping ------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """SIGKILL: the process is gone, the page cache is not."""
        if self.up:
            self._take_down()
            self.disk.kill()

    def lose_power(self) -> None:
        """Power loss: the process, if any, is gone, and of what was not synced nobody knows."""
        self._take_down()
        self.disk.power_loss(self._power.draws())

    def plant_crash(self, calls: int, power: bool) -> None:
        """Crash in the middle of a storage phase, or of a recovery: instead of the `calls`-th Disk call."""
        self._crash_power = power
        self.disk.crash_after(calls)

    def stop(self, reason: str) -> None:
        """The node asked for the end of its process."""
        self.hooks.stopping(self, reason)
        self.kill()
        self.hooks.stopped(self)

    def terminate(self) -> None:
        """SIGTERM: let the node hand over, then close its storage, as `liftlog/real/server.py` does."""
        if self.up:
            self.post(StopRequested())
            limit_us = HANDOVER_TICKS * self.knobs.tick_ms * MILLISECOND
            until_us = self.kernel.now_us + limit_us
            self.kernel.after(HANDOVER_LOOK_US, self._wait_for_handover, self.restarts, until_us)

    def _wait_for_handover(self, run: int, until_us: int) -> None:
        node, storage = self.node, self.storage
        if self.restarts != run or node is None or storage is None:
            return
        kernel = self.kernel
        late = kernel.now_us >= until_us
        if self.paused or not (node.handed_over or late):
            kernel.after(HANDOVER_LOOK_US, self._wait_for_handover, run, until_us)
            return
        self.hooks.closed(self, node.handed_over)
        if storage.close():
            self.kill()
            self.hooks.terminated(self)

    def _died_inside(self) -> None:
        """The planted crash has come, in the storage thread."""
        self._take_down()
        self._after_crash()

    def _after_crash(self) -> None:
        if self._crash_power:
            self.disk.power_loss(self._power.draws())
        else:
            self.disk.kill()
        self.hooks.crashed(self)

    def _take_down(self) -> None:
        """Detach disk and network first, then end the process: dying must not have side effects."""
        process = self.process
        if process is None:
            return
        self.disk.detach()
        for port in (self.storage, self.network, self.bus, self.clients):
            if port is not None:
                port.detach()
        self.hooks.going_down(self)
        self.process = None
        self.paused = self.clock.paused = False
        self._backlog.clear()
        self._has_heard()
        process.end()
        self.node = None
        self.engine = None
        self.hooks.went_down(self)

    # -- pausing -------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """SIGSTOP. Storage phases that the operating system carries out already are finished."""
        if self.up:
            self.paused = True
            self.clock.paused = True

    def resume(self) -> None:
        """SIGCONT: what waited is worked off at once, then the timers that are overdue."""
        if not self.paused:
            return
        self.paused = False
        self.clock.paused = False
        backlog = self._backlog
        self._backlog = []
        process = self.process
        for event in backlog:
            if process is None or self.process is not process:
                return
            process.post(event)
        if process is not None and self.process is process:
            self._has_heard()
            process.resumed()

    def _has_heard(self) -> None:
        listening, self._listening = self._listening, []
        for then in listening:
            then()

    def status(self) -> dict[str, Any]:
        """What a status row shows."""
        node = self.node
        if node is None:
            return {"up": False}
        return {
            "up": True,
            "paused": self.paused,
            "incarnation": node.incarnation,
            "term": node.raft.term,
            "controller": node.raft.is_leader,
            "commit": node.raft.commit,
        }
