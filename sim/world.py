"""A simulated world: machines, network, NATS, clients and faults around one event heap.

    clients --publish--> SimBus --Published--> Machine: Node.step --effects--> storage, network, bus, clients
       ^                                            |
       +--------------- acks, reads ----------------+          Observer: checks after every step

Everything random comes from streams named after their purpose and derived from the seed, so that more draws
for one purpose never disturb another.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from liftlog.api.tags import ignore_tags
from liftlog.core.metadata import Metadata
from liftlog.format import forget_place
from liftlog.messages import Event, Received
from liftlog.ports import DiskError
from liftlog.storage.sealing import KEY_BYTES, NONCE_BYTES, Sealer
from liftlog.types import NO_MUTANTS, InvariantViolation, Mutants
from sim.bus import SimBus
from sim.fault_plan import Fault, draw_plan
from sim.faults import Faults
from sim.hunter import Hunter
from sim.kernel import MILLISECOND, Kernel
from sim.knobs import Knobs
from sim.machine import Machine, Process, Surroundings
from sim.network import SimNetwork
from sim.observer import Observer
from sim.workload import ClientHub, Workload

Gear = Callable[[Machine], Process]


def _sealer(seed: int | str) -> Sealer:
    """A key and nonces that follow from the seed."""
    draws = random.Random(f"{seed}/sealer")
    return Sealer(draws.randbytes(KEY_BYTES), lambda: draws.randbytes(NONCE_BYTES))


class Wiring:
    """What happens in a machine's life, handed on to whom it concerns: the observer first, then to who starts
    the machine again, and to the clients.
    """

    def __init__(self, observer: Observer, faults: Faults, clients: ClientHub) -> None:
        self._observer = observer
        self._faults = faults
        self._clients = clients
        self.starting = observer.starting
        self.recovered = observer.recovered
        self.created = observer.created
        self.stepped = observer.stepped
        self.reply = clients.replied
        self.stopping = observer.stopped
        self.stopped = faults.stopped
        self.closed = observer.terminated
        self.terminated = faults.terminated
        self.crashed = faults.crashed
        self.going_down = observer.went_down

    def went_down(self, machine: Machine) -> None:
        self._clients.server_gone(machine.number)

    def refused(self, machine: Machine, error: Exception) -> None:
        """It is tried again, or the node gets a new disk if its metadata is damaged (M4)."""
        observer, faults = self._observer, self._faults
        if faults.atlas.metadata_damaged(machine):
            observer.count("metadata refused")
            faults.replace_disk(machine)
            return
        if not isinstance(error.__cause__, DiskError):
            observer.cannot_start(machine, error)
        observer.start_refused(machine, error)
        faults.start_refused(machine)

    def failed(self, machine: Machine, error: Exception, event: Event | None) -> None:
        """An invariant of the node's own, or a bug; what a liar says must not do it."""
        name = "NodeInvariant" if isinstance(error, InvariantViolation) else "NodeError"
        if self._faults.liars.is_lie(event):
            name = "NoInputEndsNode"
        self._observer.node_failed(machine, error, name)


class World:
    """One cluster and everything around it. `gear` makes the process of a machine's run."""

    def __init__(
        self,
        seed: int | str,
        knobs: Knobs,
        gear: Gear,
        mutants: Mutants = NO_MUTANTS,
        *,
        plan: list[Fault] | None = None,
        keep_values: bool = False,
        kernel: Kernel | None = None,
    ) -> None:
        self.seed = seed
        self.knobs = knobs
        self.mutants = mutants
        forget_place(mutants.checksum_without_place)
        ignore_tags(mutants.frame_tag_ignored)
        self.keep_values = keep_values
        """Whether reads remember the values they saw, for a history."""
        self.kernel = kernel if kernel is not None else Kernel()
        self.sealer = _sealer(seed) if knobs.encrypted else None
        """Encrypts what the nodes store; None: nothing does."""
        self.observer = Observer(self)
        self.network = SimNetwork(self.kernel, seed, knobs.network, self._deliver)
        self.bus = SimBus(self.kernel, seed, knobs.bus)
        self.clients = ClientHub(self)
        self.faults = Faults(self, draw_plan(seed, knobs) if plan is None else plan)
        self.network.on_refused = self.faults.liars.refused
        self.network.on_lie = self.faults.liars.told
        self.hunter = Hunter(self, self.faults)
        surroundings = Surroundings(
            seed, knobs, self.kernel, self.network, self.bus, gear, mutants, self.sealer
        )
        wiring = Wiring(self.observer, self.faults, self.clients)
        self.machines = {
            number: Machine(surroundings, number, wiring) for number in range(1, knobs.nodes + 1)
        }
        self.workload = Workload(self)

    def _deliver(self, number: int, event: Received) -> None:
        self.machines[number].post(event)

    def start(self) -> None:
        """Schedule the first steps of everybody."""
        for machine in self.machines.values():
            self.kernel.after(machine.number * MILLISECOND, self._boot, machine)
        self.faults.start()
        self.hunter.start()
        self.workload.start()

    def _boot(self, machine: Machine, second: object) -> None:
        machine.start()

    def newest_metadata(self) -> Metadata | None:
        """The metadata of the running node that has applied most."""
        newest: Metadata | None = None
        for machine in self.machines.values():
            node = machine.node
            if node is not None and (newest is None or node.metadata.applied > newest.applied):
                newest = node.metadata
        return newest

    def status(self) -> str:
        """One cell a node: controller or not, term and commit; for each replica its role, epoch, HW and
        LEO.
        """
        cells = []
        for machine in self.machines.values():
            node = machine.node
            if node is None:
                cells.append(f"{machine.number} down")
                continue
            mark = "*" if node.raft.is_leader else " "
            text = f"{machine.number}{mark}t{node.raft.term} c{node.raft.commit}"
            if machine.paused:
                text += " paused"
            for replica in node.replicas.values():
                role = {"leader": "L", "follower": "f", "idle": "-"}[replica.role]
                text += f" {replica.id}{role}e{replica.epoch} {replica.hw}/{replica.leo}"
            cells.append(text)
        return " | ".join(cells)
