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

import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from liftlog.api.spans import materialize
from liftlog.core.node import Node
from liftlog.driver.interpreter import Ports
from liftlog.messages import Effect, Event, SpannedRead, StopRequested
from liftlog.ports import DiskError
from liftlog.storage.engine import StorageEngine
from liftlog.types import InvariantViolation, Recovered
from sim.bus import BusConnection
from sim.clock import SimClock, SimRandom
from sim.disk import SimDisk, SimulatedCrash
from sim.kernel import MILLISECOND
from sim.network import NetworkPort
from sim.storage import SimStorageRunner

if TYPE_CHECKING:
    from sim.world import World


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


class ClientPort:
    """`ClientReplies` port of one process."""

    __slots__ = ("_attached", "_on_crash", "_world")

    def __init__(self, world: World, on_crash: Callable[[], None]) -> None:
        self._world = world
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
        self._world.clients.replied(client, reply)

    def detach(self) -> None:
        self._attached = False


class Machine:
    """See the module. `number` is the node id."""

    __slots__ = (
        "_backlog",
        "_crash_power",
        "_draws",
        "_power",
        "bus",
        "clients",
        "clock",
        "damaged_run",
        "disk",
        "engine",
        "network",
        "node",
        "number",
        "paused",
        "process",
        "recovered",
        "restarts",
        "storage",
        "timer_random",
        "world",
    )

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        knobs = world.knobs
        self._draws = random.Random(f"{world.seed}/machine/{number}")
        drift = knobs.clock_drift
        rate = 1.0 + drift * (2 * self._draws.random() - 1)
        skew_ms = int(knobs.clock_skew_ms * (2 * self._draws.random() - 1))
        self.clock = SimClock(world.kernel, rate, skew_ms)
        self.timer_random = SimRandom(world.seed, f"timers/{number}")
        self.disk = SimDisk(random.Random(f"{world.seed}/disk/{number}"))
        self.restarts = 0
        """Number of processes started here so far; the present or last one is run number `restarts`."""
        self.paused = False
        self.damaged_run = -1
        """The run during or after which we damaged, wiped or rolled back this disk; -1: it is whole (D3).

        When it counts as whole again is told in `sim/atlas.py`."""
        self.process: Process | None = None
        self.node: Node | None = None
        self.engine: StorageEngine | None = None
        self.recovered: Recovered | None = None
        self.network: NetworkPort | None = None
        self.bus: BusConnection | None = None
        self.storage: SimStorageRunner | None = None
        self.clients: ClientPort | None = None
        self._backlog: list[Event] = []
        self._power = random.Random(f"{world.seed}/power/{number}")
        self._crash_power = False

    @property
    def up(self) -> bool:
        """Whether a process runs here, paused or not."""
        return self.process is not None

    # -- starting ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start a process, unless one runs. A crash planted into the recovery ends it again at once."""
        if self.up:
            return
        world = self.world
        self.restarts += 1
        nonce = self._draws.getrandbits(48)
        new_disk_id = f"disk-{self.number}-{self._draws.getrandbits(32):08x}"
        world.observer.starting(self)
        engine = StorageEngine(self.disk, world.knobs.storage_options, world.mutants, world.sealer)
        try:
            recovered = engine.recover(self.number, new_disk_id, nonce)
        except SimulatedCrash:
            self._after_crash()
            return
        except Exception as error:
            self._refused(error)
            return
        self.engine = engine
        self.recovered = recovered
        world.observer.recovered(self, recovered)
        self.network = NetworkPort(world.network, self.number)
        self.clients = ClientPort(world, self._died_inside)
        self.bus = BusConnection(world.bus, world.kernel, self.number, self.clock, self.post)
        self.storage = SimStorageRunner(
            world.kernel,
            random.Random(f"{world.seed}/storage/{self.number}/{self.restarts}"),
            world.knobs.storage_times,
            engine,
            self.post_all,
            self._died_inside,
            partial(self.raised, None),
            world.knobs.tune,
        )
        self.node = Node(world.knobs.node_config(self.number), recovered, world.mutants)
        world.observer.created(self)
        self.process = world.gear(self)
        world.network.started(self.number)
        self.process.start()

    def _refused(self, error: Exception) -> None:
        """The node cannot start: it is tried again, or gets a new disk if its metadata is damaged (M4)."""
        world = self.world
        self.disk.kill()
        if world.faults.atlas.metadata_damaged(self):
            world.observer.count("metadata refused")
            world.faults.replace_disk(self)
            return
        if not isinstance(error.__cause__, DiskError):
            world.observer.cannot_start(self, error)
        world.observer.start_refused(self, error)
        world.faults.start_refused(self)

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
        return Ports(self.network, self.bus, self.storage, self.clients, self.clock, self.timer_random, alarm)

    def stepped(self, event: Event | None, effects: list[Effect]) -> None:
        """The node has stepped: it is checked before anything comes of it. Raises Violation."""
        self.world.observer.stepped(self, event, effects)

    def raised(self, event: Event | None, error: Exception) -> None:
        """The node raised over this event, or its storage did: an invariant of its own, or a bug. Raises
        Violation.
        """
        name = "NodeInvariant" if isinstance(error, InvariantViolation) else "NodeError"
        if self.world.faults.liars.is_lie(event):
            name = "NoInputEndsNode"
        self.world.observer.node_failed(self, error, name)

    # -- stopping ------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """SIGKILL: the process is gone, the page cache is not."""
        if self.up:
            self._take_down()
            self.disk.kill()

    def lose_power(self) -> None:
        """Power loss: the process, if any, is gone, and of what was not synced nobody knows."""
        self._take_down()
        self.disk.power_loss(self._power)

    def plant_crash(self, calls: int, power: bool) -> None:
        """Crash in the middle of a storage phase, or of a recovery: instead of the `calls`-th Disk call."""
        self._crash_power = power
        self.disk.crash_after(calls)

    def stop(self, reason: str) -> None:
        """The node asked for the end of its process."""
        self.world.observer.stopped(self, reason)
        self.kill()
        self.world.faults.stopped(self)

    def terminate(self) -> None:
        """SIGTERM: let the node hand over, then close its storage, as `liftlog/real/server.py` does."""
        if self.up:
            self.post(StopRequested())
            limit_us = HANDOVER_TICKS * self.world.knobs.tick_ms * MILLISECOND
            until_us = self.world.kernel.now_us + limit_us
            self.world.kernel.after(HANDOVER_LOOK_US, self._wait_for_handover, self.restarts, until_us)

    def _wait_for_handover(self, run: int, until_us: int) -> None:
        node, storage = self.node, self.storage
        if self.restarts != run or node is None or storage is None:
            return
        kernel = self.world.kernel
        late = kernel.now_us >= until_us
        if self.paused or not (node.handed_over or late):
            kernel.after(HANDOVER_LOOK_US, self._wait_for_handover, run, until_us)
            return
        self.world.observer.terminated(self, handed_over=node.handed_over)
        if storage.close():
            self.kill()
            self.world.faults.terminated(self)

    def _died_inside(self) -> None:
        """The planted crash has come, in the storage thread."""
        self._take_down()
        self._after_crash()

    def _after_crash(self) -> None:
        if self._crash_power:
            self.disk.power_loss(self._power)
        else:
            self.disk.kill()
        self.world.faults.crashed(self)

    def _take_down(self) -> None:
        """Detach disk and network first, then end the process: dying must not have side effects."""
        process = self.process
        if process is None:
            return
        self.disk.detach()
        for port in (self.storage, self.network, self.bus, self.clients):
            if port is not None:
                port.detach()
        self.world.observer.went_down(self)
        self.process = None
        self.paused = self.clock.paused = False
        self._backlog.clear()
        process.end()
        self.node = None
        self.engine = None
        self.world.clients.server_gone(self.number)

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
            process.resumed()

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
