"""A disk of a twin: another cluster of the same name, whose founders have the same numbers (M5).

It is the worst twin there can be: up to now it has lived exactly as this cluster has, terms, commands and
records included, so that nothing tells its disks from ours but who they are: those of its founders, by their
certificate, and the others by what they were told of their birth. Somebody puts one into a node of
ours. It must be refused, and keep what it holds; after a while the node gets its own disk back, which has
missed what was decided since, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from liftlog.core.raft.birth import birth_name
from liftlog.ports import DiskError
from liftlog.storage.layout import IDENTITY, VOTE
from liftlog.storage.statefile import CorruptState, read_state, write_state
from liftlog.types import Disks, HardState, Identity
from liftlog_sim.chance.draws import Draws
from liftlog_sim.devices.cluster import Cluster
from liftlog_sim.devices.disk import FileImage
from liftlog_sim.devices.machine import Machine
from liftlog_sim.faults.atlas import Atlas
from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.truth.account import Account
from liftlog_sim.truth.invariants import Violation

STAYS_US = 3 * SECOND
"""How long the disk is tried."""
TWIN = "twin-"
"""How the names of its disks begin."""
_encode = msgspec.msgpack.encode


class Twins:
    """Puts disks of a twin into machines. `restart` starts a machine after a delay."""

    def __init__(
        self,
        cluster: Cluster,
        account: Account,
        atlas: Atlas,
        restart: Callable[[Machine, int], None],
    ) -> None:
        self._cluster = cluster
        self._account = account
        self._atlas = atlas
        self._restart = restart
        self._own: dict[int, dict[str, FileImage]] = {}
        """Of each machine that runs on a twin's disk: its own."""

    def strike(self, draws: Draws) -> str:
        """Say what was done; empty: there is no node whose disk could have such a twin."""
        can = [machine for machine in self._cluster.machines.values() if self._has_twin(machine)]
        if not can or self._own:
            return ""
        machine = can[draws.randrange(len(can))]
        machine.kill()
        machine.disk.kill()
        own = self._own[machine.number] = machine.disk.image()
        identity, state = _identity(machine), _hard_state(machine)
        certificate = _twins(state)
        write_state(machine.disk, IDENTITY, _encode(_twin_of(identity, certificate)))
        write_state(machine.disk, VOTE, _encode(msgspec.structs.replace(state, peer_disks=certificate)))
        self._account.count("twins")
        self._restart(machine, 100 * MILLISECOND)
        self._cluster.kernel.after(STAYS_US, self._put_one_away, (machine, own))
        return f"node {machine.number} gets a disk of another cluster of this name"

    def put_away(self) -> None:
        """All machines have their own disks back."""
        for number, own in list(self._own.items()):
            self._put_one_away((self._cluster.machines[number], own), None)

    def _has_twin(self, machine: Machine) -> bool:
        """Whether nothing has struck its disk, in the first epoch, and it cannot go on all by itself."""
        if self._atlas.harms(machine) or machine.damaged_run >= 0 or machine.node is None:
            return False
        node = machine.node
        alone = len(node.raft.members.nodes) < 2
        return node.cluster_epoch.number == 1 and bool(node.incarnation) and not alone

    def _put_one_away(self, who: tuple[Machine, dict[str, FileImage]], second: object) -> None:
        """Judge the disk, and take it away. OldMemberKept."""
        machine, own = who
        if self._own.get(machine.number) is not own:
            return
        del self._own[machine.number]
        joined = machine.node is not None and machine.node.incarnation
        machine.kill()
        machine.disk.kill()
        twin = _twins_state(machine)
        machine.disk.restore(own)
        self._atlas.note_disk(machine)
        mine = _hard_state(machine)
        self._restart(machine, 100 * MILLISECOND)
        if twin is None:
            return
        self._account.checks.counts["OldMemberKept"] += 1
        moved = (twin.term, twin.voted_for) != (mine.term, mine.voted_for)
        if joined or moved:
            what = f"takes part as incarnation {joined}" if joined else f"has moved on to term {twin.term}"
            text = f"node {machine.number}, on a disk of another cluster of this name, {what}"
            self._account.fail(Violation("OldMemberKept", text))


def _identity(machine: Machine) -> Identity:
    return msgspec.msgpack.decode(read_state(machine.disk, IDENTITY) or b"", type=Identity)


def _hard_state(machine: Machine) -> HardState:
    return msgspec.msgpack.decode(read_state(machine.disk, VOTE) or b"", type=HardState)


def _is_twins(machine: Machine) -> bool:
    """Whether the disk in the machine is a twin's."""
    return machine.disk.exists(IDENTITY) and _identity(machine).disk_id.startswith(TWIN)


def _twins_state(machine: Machine) -> HardState | None:
    """Of the twin whose disk is in the machine; None where that was lost, or has decayed, meanwhile."""
    try:
        return _hard_state(machine) if _is_twins(machine) else None
    except (CorruptState, DiskError):
        return None


def _twins(state: HardState) -> Disks:
    """The certificate of the twin's birth."""
    return tuple((node, _twin(disk)) for node, disk in state.peer_disks)


def _twin(disk: str) -> str:
    return TWIN + disk


def _twin_of(identity: Identity, certificate: Disks) -> Identity:
    told = f"twin{identity.recovery[4:]}" if identity.recovery else ""
    return msgspec.structs.replace(
        identity,
        disk_id=_twin(identity.disk_id),
        vote_id=_twin(identity.vote_id) if identity.vote_id else "",
        recovery=birth_name(certificate) if certificate else told,
    )
