"""A hunter of copies: it lets two failures of one copy, or of two, meet at the worst moment (R5, R6, D2).

What it arranges needs several strikes in a row that chance does not put together:

    reports     a copy's report that it is damaged is held back on its way, its next sync fails, and what it
                reports then goes first: the earlier report arrives when the copy may be whole again
    boundaries  as an epoch begins a follower is cut off. Later the records around that place are damaged on
                the leader, a sync of the other follower fails, the leader is killed and starts without the
                index that would tell where the epoch began. It leads alone when the first follower is back,
                whose log ends in the damage
    tails       some time after an epoch has begun, a follower loses all that it has of it, from inside a
                complete segment to the end, and is killed: its log ends where it knows no epoch

Each occasion has draws of its own; all is done under the atlas, and counts as ordinary faults.
"""

from __future__ import annotations

from collections.abc import Callable

from liftlog.core.replica.replica import Replica
from liftlog.messages import Forward
from liftlog.storage.layout import INDEX_SUFFIX, log_directory
from liftlog.types import PartitionId
from liftlog_sim.chance.draws import Draws
from liftlog_sim.chance.fault_plan import Fault
from liftlog_sim.devices.cluster import Cluster
from liftlog_sim.devices.copies import SEGMENT_SUFFIX, Place, places, segment_paths
from liftlog_sim.devices.machine import Machine
from liftlog_sim.faults.faults import Faults
from liftlog_sim.kernel import MILLISECOND, SECOND

LOOK_US = 400 * MILLISECOND
MOST_LOOKS = 12
"""How long the records around the place where an epoch begins may take to get into a complete segment."""
MOST_LOST = 60
"""How many batches a copy may lose up to its end."""
MOST_BATCHES = 12
"""How many batches may lie between the end of the absent log and the epoch."""
PATIENCE_US = 4 * SECOND
"""So long the other follower's next sync is waited for."""


class Boundary:
    """One hunt: `leader` began `epoch`, `absent` is cut off, a sync of the follower `failing` will fail."""

    __slots__ = ("absent", "draws", "epoch", "failing", "leader", "looks", "partition", "paths")

    def __init__(self, partition: PartitionId, epoch: int, leader: int, absent: int, draws: Draws) -> None:
        self.draws = draws
        self.partition = partition
        self.epoch = epoch
        self.leader = leader
        self.absent = absent
        self.failing = 0
        self.paths: dict[str, None] = {}
        """Of the segments that were damaged."""
        self.looks = 0


class CopyHunter:
    """Sees elections, damage and failed syncs through the observer. One boundary at a time."""

    __slots__ = ("_boundary", "_cluster", "_faults", "_held")

    def __init__(self, cluster: Cluster, faults: Faults) -> None:
        self._cluster = cluster
        self._faults = faults
        self._held: dict[int, int] = {}
        """By node: the controller to which its commands are held back."""
        self._boundary: Boundary | None = None

    def start(self, watch: Callable[[str, Callable[[Machine], None]], None]) -> None:
        """Watch what the knobs ask for."""
        knobs = self._cluster.knobs
        if knobs.hunt_report:
            watch("D2.found", self._damage_found)
        if knobs.hunt_report or knobs.hunt_boundary:
            watch("R5.failed", self._sync_failed)

    def _sync_failed(self, machine: Machine) -> None:
        if not self._faults.active:
            return
        controller = self._held.pop(machine.number, 0)
        if controller:
            self._cluster.network.release(machine.number, controller)
        boundary = self._boundary
        if boundary is not None and machine.number == boundary.failing:
            self._leave_alone(boundary)

    # -- reports -------------------------------------------------------------------------------------------

    def _damage_found(self, machine: Machine) -> None:
        """Its report is late; a sync fails before it arrives."""
        node = machine.node
        if not self._faults.active or node is None:
            return
        controller = node.raft.leader
        if controller in (0, machine.number) or machine.number in self._held:
            return
        share = self._cluster.knobs.hunt_report
        draw = self._cluster.chances.occasion("damage", machine.number, share)
        if draw is None:
            return
        kernel = self._cluster.kernel
        self._held[machine.number] = controller
        until_us = kernel.now_us + draw.randrange(2000, 6000) * MILLISECOND
        self._cluster.network.hold(machine.number, controller, Forward, until_us)
        kernel.at(until_us, self._arrived, machine.number)
        for replica in node.replicas.values():
            if replica.repairs.ranges:
                kernel.after(draw.randrange(400) * MILLISECOND, self._fail_sync, machine, replica.id)
                break
        self._done("one_way", f"commands of node {machine.number} to node {controller} are held back")

    def _arrived(self, number: int, second: object) -> None:
        self._held.pop(number, None)

    def _fail_sync(self, machine: Machine, log: PartitionId) -> None:
        """What is appended next to this log will not be durable."""
        if self._faults.active and machine.up:
            machine.disk.fail_next_sync(f"{log_directory(log)}/", SEGMENT_SUFFIX)
            self._done("sync_failure", f"a sync of {log} on node {machine.number} will fail")

    # -- boundaries ----------------------------------------------------------------------------------------

    def leader_elected(self, number: int) -> None:
        self._hunt_tail(number)
        share = self._cluster.knobs.hunt_boundary
        node = self._cluster.machines[number].node
        if not share or self._boundary is not None or not self._faults.active or node is None:
            return
        for replica in node.replicas.values():
            record = replica.record
            if replica.leading is None or record is None or not replica.leo or len(record.isr) < 2:
                continue
            followers = [other for other in record.replicas if other != number]
            if len(followers) != 2:
                continue
            draws = self._cluster.chances.occasion("boundary", number, share)
            if draws is None:
                continue
            away = [other for other in followers if other not in record.isr]
            absent = draws.choice(away or followers)
            boundary = self._boundary = Boundary(replica.id, replica.epoch, number, absent, draws)
            for sender, to in self._faults.links_of(absent):
                self._cluster.network.block(sender, to)
            self._done("isolate", f"node {absent} is cut from its peers while an epoch begins")
            self._cluster.kernel.after(LOOK_US, self._look, boundary)
            return

    def _look(self, boundary: Boundary, second: object) -> None:
        """Damage the leader's copy as soon as that can be done."""
        if boundary is not self._boundary:
            return
        boundary.looks += 1
        if boundary.looks > MOST_LOOKS or not self._faults.active or not self._still_leads(boundary):
            self._give_up(boundary)
        elif not self._damage(boundary):
            self._cluster.kernel.after(LOOK_US, self._look, boundary)

    def _still_leads(self, boundary: Boundary) -> bool:
        replica = self._replica(boundary.leader, boundary.partition)
        return replica is not None and replica.leading is not None and replica.epoch == boundary.epoch

    def _replica(self, number: int, partition: PartitionId) -> Replica | None:
        node = self._cluster.machines[number].node
        return node.replicas.get(partition) if node is not None else None

    def _damage(self, boundary: Boundary) -> bool:
        leader, atlas = self._cluster.machines[boundary.leader], self._faults.atlas
        replica = self._replica(boundary.leader, boundary.partition)
        assert replica is not None
        others = [number for number in replica.isr if number != boundary.leader]
        if len(others) != 1 or boundary.absent in others:
            return False
        around = self._around(boundary, replica)
        if not around or replica.hw < around[-1].base + around[-1].span:
            return False
        harms = [atlas.harm_of(leader, place.path, place.position, place.end) for place in around]
        if not all(harm is not None and atlas.allows(leader, harm.log, harm.range) for harm in harms):
            return False
        for place, harm in zip(around, harms, strict=True):
            if harm is not None:
                atlas.note(leader, harm)
            zeros = bytes(place.end - place.position)
            leader.disk.overwrite(place.path, place.position, zeros, platter_only=True)
            boundary.paths[place.path] = None
        first, last = around[0].base, around[-1].base + around[-1].span
        self._done("sector", f"offsets {first}..{last - 1} of node {leader.number} are destroyed")
        boundary.failing = others[0]
        self._fail_sync(self._cluster.machines[others[0]], boundary.partition)
        self._cluster.kernel.after(PATIENCE_US, self._give_up, boundary)
        return True

    def _around(self, boundary: Boundary, replica: Replica) -> list[Place]:
        """The leader's batches from the end of the absent log to the first one of the epoch, if they lie in
        complete segments.
        """
        first = next((entry.start for entry in replica.epochs if entry.epoch == boundary.epoch), 0)
        behind = self._replica(boundary.absent, boundary.partition)
        end = min(first, behind.leo) if behind is not None else first
        disk = self._cluster.machines[boundary.leader].disk
        around = [
            place
            for path in segment_paths(disk, boundary.partition)[:-1]
            for place in places(path, disk.content(path))
            if place.base + place.span >= end and place.base <= first
        ]
        complete = 1 < len(around) <= MOST_BATCHES and around[0].base < end and around[-1].base == first
        return around if complete else []

    def _leave_alone(self, boundary: Boundary) -> None:
        """The other follower is out: the leader is killed, and comes back with the damage and no index."""
        kernel, draw = self._cluster.kernel, boundary.draws
        down_us = draw.randrange(10, 120) * MILLISECOND
        self._faults.schedule(Fault(kernel.now_us, "kill", str(boundary.leader), down_us, -1_000_000))
        kernel.after(1, self._lose_index, boundary)
        kernel.after(draw.randrange(500) * MILLISECOND, self._give_up, boundary)

    def _lose_index(self, boundary: Boundary, second: object) -> None:
        machine = self._cluster.machines[boundary.leader]
        if machine.up or not self._faults.active:
            return
        for path in boundary.paths:
            index = path.removesuffix(SEGMENT_SUFFIX) + INDEX_SUFFIX
            if index in machine.disk.files() and machine.disk.content(index):
                machine.disk.flip(index, 0, 0)
                self._done("flip", f"a bit flips at byte 0 of {index} on node {machine.number}")
        machine.disk.evict()

    def _give_up(self, boundary: Boundary, second: object = None) -> None:
        """The hunt is over: who was cut off is back."""
        if boundary is not self._boundary:
            return
        self._boundary = None
        if self._faults.active:
            for sender, to in self._faults.links_of(boundary.absent):
                self._cluster.network.unblock(sender, to)

    # -- tails ---------------------------------------------------------------------------------------------

    def _hunt_tail(self, number: int) -> None:
        share = self._cluster.knobs.hunt_tail
        node = self._cluster.machines[number].node
        if not share or not self._faults.active or node is None:
            return
        for replica in node.replicas.values():
            if replica.leading is None or not replica.leo:
                continue
            draws = self._cluster.chances.occasion("tail", number, share)
            others = [other for other in replica.isr if other != number]
            if draws is None or not others:
                continue
            tail = Boundary(replica.id, replica.epoch, number, draws.choice(others), draws)
            self._cluster.kernel.after(LOOK_US, self._look_at_tail, tail)
            return

    def _look_at_tail(self, tail: Boundary, second: object) -> None:
        """Take the end away as soon as enough of the epoch is there."""
        tail.looks += 1
        if not self._faults.active or not self._still_leads(tail) or tail.looks > MOST_LOOKS:
            return
        if not self._cut_tail(tail):
            self._cluster.kernel.after(LOOK_US, self._look_at_tail, tail)

    def _cut_tail(self, tail: Boundary) -> bool:
        """Destroy what the copy has from the end of the epoch before on; False if that cannot be done now."""
        machine, atlas = self._cluster.machines[tail.absent], self._faults.atlas
        replica = self._replica(tail.absent, tail.partition)
        if replica is None or replica.repairs.ranges:
            return False
        first = next((entry.start for entry in replica.epochs if entry.epoch == tail.epoch), 0)
        segments = segment_paths(machine.disk, tail.partition)
        found = [place for path in segments for place in places(path, machine.disk.content(path))]
        lost = [place for place in found if place.base + place.span >= first > 0]
        complete = [place for place in lost if place.path in segments[:-1]]
        if not complete or len(lost) == len(found) or len(lost) > MOST_LOST:
            return False
        harms = [atlas.harm_of(machine, place.path, place.position, place.end) for place in lost]
        if not all(harm is not None and atlas.allows(machine, harm.log, harm.range) for harm in harms):
            return False
        for place, harm in zip(lost, harms, strict=True):
            if harm is not None:
                atlas.note(machine, harm)
            zeros = bytes(place.end - place.position)
            machine.disk.overwrite(place.path, place.position, zeros, platter_only=True)
            tail.paths[place.path] = None
        self._faults.strikes.beyond_models()
        self._done("sector", f"offsets from {lost[0].base} on of node {machine.number} are destroyed")
        tail.leader = tail.absent
        self._leave_alone(tail)
        return True

    def _done(self, kind: str, detail: str) -> None:
        self._faults.done(Fault(self._cluster.kernel.now_us, kind), detail)
