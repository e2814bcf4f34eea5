"""The machines of a world and what joins them: network, NATS, time."""

from __future__ import annotations

import random

from liftlog.core.metadata.metadata import Metadata
from liftlog.messages import Received
from liftlog.storage.sealing import KEY_BYTES, NONCE_BYTES, Sealer
from liftlog_sim.bus import SimBus
from liftlog_sim.connections import Connections
from liftlog_sim.kernel import Kernel
from liftlog_sim.knobs import Knobs
from liftlog_sim.machine import Machine
from liftlog_sim.network import SimNetwork


def _sealer(seed: int | str) -> Sealer:
    """A key and nonces that follow from the seed."""
    draws = random.Random(f"{seed}/sealer")
    return Sealer(draws.randbytes(KEY_BYTES), lambda: draws.randbytes(NONCE_BYTES))


class Cluster:
    """What is simulated, without who watches it, uses it or breaks it. Whoever composes adds the machines."""

    def __init__(self, seed: int | str, knobs: Knobs, kernel: Kernel) -> None:
        self.seed = seed
        self.knobs = knobs
        self.kernel = kernel
        self.sealer = _sealer(seed) if knobs.encrypted else None
        """Encrypts what the nodes store; None: nothing does."""
        self.network = SimNetwork(kernel, seed, knobs.network, self._deliver)
        self.bus = SimBus(kernel, seed, knobs.bus)
        self.machines: dict[int, Machine] = {}
        self.connections = Connections(seed, knobs.hints, kernel, self.network, self.machines)

    def _deliver(self, number: int, event: Received) -> None:
        self.machines[number].post(event)

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
