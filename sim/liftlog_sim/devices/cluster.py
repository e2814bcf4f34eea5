"""The machines of a world and what joins them: network, NATS, time."""

from __future__ import annotations

from liftlog.core.metadata.metadata import Metadata
from liftlog.messages import Received
from liftlog.storage.sealing import KEY_BYTES, NONCE_BYTES, Sealer
from liftlog.types import NO_CLUSTER, ClusterEpoch
from liftlog_sim.chance.chances import Chances
from liftlog_sim.devices.bus import SimBus
from liftlog_sim.devices.connections import Connections
from liftlog_sim.devices.elsewhere import FarCluster
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.devices.machine import Machine
from liftlog_sim.devices.network import SimNetwork
from liftlog_sim.kernel import Kernel


def _sealer(chances: Chances) -> Sealer:
    """A key and nonces that follow from the seed."""
    nonces = chances.lane("sealer", "nonce")
    key = chances.draws("sealer", "key").randbytes(KEY_BYTES)
    return Sealer(key, lambda: nonces.draws().randbytes(NONCE_BYTES))


class Cluster:
    """What is simulated, without who watches it, uses it or breaks it. Whoever composes adds the machines."""

    def __init__(self, knobs: Knobs, chances: Chances) -> None:
        self.chances = chances
        self.knobs = knobs
        self.kernel: Kernel = chances.kernel
        self.sealer = _sealer(chances) if knobs.encrypted else None
        """Encrypts what the nodes store; None: nothing does."""
        self.network = SimNetwork(chances, knobs.network, self._deliver, self._epoch_of)
        self.bus = SimBus(chances, knobs.bus)
        self.machines: dict[int, Machine] = {}
        self.far = FarCluster(chances, lambda number, event: self.machines[number].post(event))
        """Another one, of which mirrors here have a stream (R28)."""
        self.connections = Connections(chances, knobs.hints, self.network, self.machines)

    def _deliver(self, number: int, event: Received) -> None:
        self.machines[number].post(event)

    def _epoch_of(self, number: int) -> ClusterEpoch:
        node = self.machines[number].node
        return NO_CLUSTER if node is None else node.cluster_epoch

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
