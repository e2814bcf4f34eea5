"""A simulated world: machines, network, NATS, clients and faults around one event heap.

    clients --publish--> SimBus --Published--> Machine: Node.step --effects--> storage, network, bus, clients
       ^                                            |
       +--------------- acks, reads ----------------+          Observer: checks after every step

Each part knows those below it and is handed them; only the world knows all, and puts them together:

    Observer                 looks at every step, with the model beside it
    Hunter, Faults, Atlas    break things, within what the protocol promises to survive
    Workload                 publishers, readers, administrators
    Account                  what is known for sure, counts, the first violation
    Encounters               which operation came under which fault, in which state
    Cluster, Machine         what runs; a machine tells its life to hooks

Everything random is drawn by name (`chance/draws.py`), so that what one draws never disturbs another; a
plan may state what can be taken away one by one (`chance/plan.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from liftlog.core.metadata.commands import Command
from liftlog.core.metadata.metadata import Metadata
from liftlog.core.metadata.records import CommandResult
from liftlog.messages import Event
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.ports import DiskError
from liftlog.types import RAFT_LOG, InvariantViolation, LiftlogError, Recovered
from liftlog_sim.chance.chances import Chances
from liftlog_sim.chance.fault_plan import Fault
from liftlog_sim.chance.plan import DRAWN, NOTHING_OWN, OwnNames, Plan
from liftlog_sim.devices.cluster import Cluster
from liftlog_sim.devices.connections import Connections
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.devices.machine import Machine, MachineSite, Process
from liftlog_sim.faults.atlas import Atlas
from liftlog_sim.faults.drawing import draw_plan
from liftlog_sim.faults.faults import Faults
from liftlog_sim.faults.hunter import Hunter
from liftlog_sim.faults.liars import Liars
from liftlog_sim.faults.strikes import Strikes
from liftlog_sim.kernel import MILLISECOND, Kernel
from liftlog_sim.truth.account import Account
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.watching.encounters import Encounters
from liftlog_sim.watching.levels import LevelWatch
from liftlog_sim.watching.observer import Observer
from liftlog_sim.workload.afar import FarOperator
from liftlog_sim.workload.clients import Clientele, ClientHub
from liftlog_sim.workload.contesting import Contest
from liftlog_sim.workload.fasting import FastRoom
from liftlog_sim.workload.workload import Workload

Gear = Callable[[Machine], Process]


class Wiring:
    """What happens in a machine's life, handed on to whom it concerns: the observer first, then to who starts
    the machine again, and to the clients.
    """

    def __init__(
        self,
        observer: Observer,
        faults: Faults,
        clients: ClientHub,
        connections: Connections,
        levels: LevelWatch,
    ) -> None:
        self._observer = observer
        self._levels = levels
        self._connections = connections
        self._faults = faults
        self._clients = clients
        self.starting = observer.starting
        self.stepped = observer.stepped
        self.reply = clients.replied
        self.stopping = observer.stopped
        self.stopped = faults.stopped
        self.closed = observer.terminated
        self.terminated = faults.terminated
        self.crashed = faults.crashed
        self.going_down = observer.went_down

    def recovered(self, machine: Machine, recovered: Recovered) -> None:
        self._levels.recovered(machine, recovered)
        self._observer.recovered(machine, recovered)

    def applied(self, machine: Machine, index: int, command: Command, result: CommandResult) -> None:
        self._observer.command_applied(machine, index, command, result)
        self._levels.applied(machine, index, command, result)

    def installed(self, machine: Machine, index: int) -> None:
        self._observer.snapshots.installed(machine)
        if self._observer.refining is not None:
            self._observer.refining.installed(machine, index)

    def created(self, machine: Machine) -> None:
        self._observer.created(machine)
        self._renewed(machine)
        self._connections.came_up(machine)

    def _renewed(self, machine: Machine) -> None:
        """Nobody gives up what he remembers of the metadata group unless it was damaged, or set back (M4)."""
        recovered, observer = machine.recovered, self._observer
        if recovered is None or not recovered.renewed:
            return
        observer.count("voters renewed")
        if not self._faults.atlas.was_struck(machine, RAFT_LOG):
            text = f"node {machine.number} gives up its vote, but nobody has damaged it: {recovered.renewed}"
            observer.fail(Violation("NoFalseDamage", text))

    def went_down(self, machine: Machine) -> None:
        self._connections.went_down(machine)
        self._observer.causes.killed(machine.number, machine.restarts)
        self._clients.server_gone(machine.number)

    def refused(self, machine: Machine, error: Exception) -> None:
        """It is tried again, or the node gets a new disk if its metadata is damaged (M4)."""
        observer, faults = self._observer, self._faults
        if faults.atlas.metadata_damaged(machine):
            observer.count("metadata refused")
            faults.replace_disk(machine)
            return
        if not isinstance(error.__cause__, DiskError):
            observer.cannot_start(machine, error, "NodeError")
        observer.start_refused(machine, error)
        faults.start_refused(machine)

    def rejected(self, machine: Machine, error: LiftlogError) -> None:
        """No node writes what it does not start on, unless it was told so: it has believed a lie."""
        name = "NoInputEndsNode" if self._faults.liars.any_taken else "NodeError"
        self._observer.cannot_start(machine, error, name)

    def failed(self, machine: Machine, error: Exception, event: Event | None) -> None:
        """An invariant of the node's own, or a bug; what a liar says must not do it."""
        name = "NodeInvariant" if isinstance(error, InvariantViolation) else "NodeError"
        if self._faults.liars.is_lie(event):
            name = "NoInputEndsNode"
        self._observer.node_failed(machine, event, error, name)


class World:
    """One cluster and everything around it. `gear` makes the process of a machine's run."""

    def __init__(
        self,
        seed: int | str,
        knobs: Knobs,
        gear: Gear,
        mutants: Mutants = NO_MUTANTS,
        *,
        plan: Plan | None = None,
        keep_values: bool = False,
        noting: bool = False,
        kernel: Kernel | None = None,
        own: OwnNames = NOTHING_OWN,
    ) -> None:
        self.seed = seed
        self.knobs = knobs
        self.kernel = kernel if kernel is not None else Kernel()
        stated = (plan or DRAWN).check(knobs.nodes, own)
        self.chances = chances = Chances(self.kernel, seed, stated, noting=noting)
        self.cluster = cluster = Cluster(knobs, chances)
        self.account = account = Account(self.kernel, mutants, knobs.activity_room)
        if knobs.takes_snapshots:
            account.metadata.keep_states()
        self.network = cluster.network
        self.bus = cluster.bus
        self.sealer = cluster.sealer
        self.machines = cluster.machines
        self.clientele = shared = Clientele(cluster, account, keep_values=keep_values)
        self.clients = shared.hub
        self.workload = Workload(shared)
        self.workload.join(FastRoom(shared).start)
        self.workload.join(FarOperator(shared).start)
        account.afar = cluster.far.made
        self.workload.join(Contest(shared).start)
        self.faults = self._faults(draw_plan(seed, knobs) if stated.faults is None else list(stated.faults))
        self.encounters = Encounters(cluster, self.workload.targets, self.faults.strikes)
        self._count_encounters()
        self.hunter = Hunter(cluster, self.faults)
        self.observer = Observer(cluster, account, self.faults, self.hunter)
        surroundings = MachineSite(
            *(chances, knobs, self.kernel, cluster.network, cluster.bus, cluster.far),
            *(gear, mutants, cluster.sealer),
        )
        self.levels = LevelWatch(cluster, account, chances, self.observer.fail)
        self.wiring = wiring = Wiring(
            self.observer, self.faults, self.clients, cluster.connections, self.levels
        )
        self.endings: list[Callable[[], None]] = []
        """What still looks at the world when all else is done (`study/loading.py`)."""
        for number in range(1, knobs.nodes + 1):
            cluster.machines[number] = Machine(surroundings, number, wiring)

    def _faults(self, plan: list[Fault]) -> Faults:
        cluster, account = self.cluster, self.account
        strikes = Strikes(account)
        liars = Liars(cluster, account, strikes, self.workload.targets)
        cluster.network.on_refused = liars.refused
        cluster.network.on_lie = liars.told
        return Faults(cluster, account, strikes, Atlas(cluster, account), liars, plan)

    def _count_encounters(self) -> None:
        encounters = self.encounters
        self.faults.strikes.on_strike = encounters.struck
        self.bus.on_publish = encounters.published
        self.clients.on_request = encounters.requested

    def start(self) -> None:
        """Schedule the first steps of everybody."""
        for machine in self.machines.values():
            self.kernel.after(machine.number * MILLISECOND, self._boot, machine)
        self.faults.start()
        self.hunter.start()
        self.workload.start()

    def _boot(self, machine: Machine, second: object) -> None:
        machine.start()

    def drawn(self) -> Plan:
        """The plan of what has been drawn so far, of a world that notes it (`noting`)."""
        return self.chances.drawn(self.faults.plan)

    def newest_metadata(self) -> Metadata | None:
        """The metadata of the running node that has applied most."""
        return self.cluster.newest_metadata()
