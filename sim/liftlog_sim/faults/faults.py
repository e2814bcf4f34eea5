"""What goes wrong in a simulated world, when, to whom; and what must not go wrong at once (the atlas, D3).

What strikes when stands in a plan (`chance/fault_plan.py`). Whom a fault strikes is decided when it
happens ("the controller", "a leader"), by draws of its own (`chance/draws.py`), so that leaving one
fault out does not change what the others draw. Besides the plan, the *hunter* strikes nodes shortly after
they were elected: many protocols break when the new leader dies next.

Wipes, rollbacks and every damage to what is stored ask the *atlas* first (`faults/atlas.py`), which
never lets the last good copy go. A rolled-back voter while no Raft leader exists is a stated gap of the
protocol, so a rollback needs a standing controller and quiet until the node is back. A power loss takes what
was acknowledged on a log with durability "os", so where there is such a log it is damage, too; where the
atlas does not allow it, processes are killed instead.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from liftlog.types import RAFT_LOG
from liftlog_sim.chance.draws import Draws
from liftlog_sim.chance.fault_plan import KINDS, Fault
from liftlog_sim.devices.cluster import Cluster
from liftlog_sim.devices.disk import FileImage
from liftlog_sim.devices.machine import Machine
from liftlog_sim.devices.storage import SimStorageRunner
from liftlog_sim.faults.atlas import WHOLE, Atlas, Harm, is_promise
from liftlog_sim.faults.damage import DiskFaults
from liftlog_sim.faults.liars import Liars
from liftlog_sim.faults.strikes import Strikes
from liftlog_sim.faults.totalloss import TotalLoss
from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.truth.account import Account


class Aftermath(NamedTuple):
    """What follows an orderly stop, from its end on."""

    restart_us: int
    power_us: int = 0
    """When the machine loses power; 0 = it does not."""
    power_down_us: int = 0


NEVER_CALLS = 1 << 60
BETWEEN_NODES = ("partition", "isolate", "one_way", "link", "accuse", "flap")
"""What strikes nobody who is alone."""
STUTTER_STOPPED_US, STUTTER_EVERY_US = 2 * SECOND, 5 * SECOND
PATIENCE_STARTS = 3
"""After so many starts that failed on its disk an operator looks at the disk."""
MISSED_US = 2 * SECOND
"""For so long a node is gone before its disk is replaced where operators change who votes (M2f)."""


class Faults:
    """Carries out a plan, takes back what it did, and keeps the atlas."""

    def __init__(
        self,
        cluster: Cluster,
        account: Account,
        strikes: Strikes,
        atlas: Atlas,
        liars: Liars,
        plan: list[Fault],
    ) -> None:
        self._cluster = cluster
        self._account = account
        self.strikes = strikes
        self.done = strikes.done
        self.atlas = atlas
        self.liars = liars
        self.plan = plan
        self._quiet_until_us = 0
        self._snapshots: dict[int, tuple[int, dict[str, FileImage]]] = {}
        self._disks = DiskFaults(cluster.kernel, atlas, strikes, self.power_follows)
        self._lossy = any(stream.durability == "os" for stream in cluster.knobs.streams)
        self.total_loss = TotalLoss(cluster, account, strikes, atlas, self._restart_later)
        self._storms = 0
        self._stopping: dict[int, Aftermath] = {}
        self._refused: dict[int, int] = {}
        self._strike: dict[str, Callable[[Fault, Draws], None]] = {
            kind: getattr(self, f"_{kind}") for kind in KINDS
        }
        self._taken_back: list[Callable[[], None]] = []

    def learn(
        self, kind: str, strike: Callable[[Machine, Fault, Draws], None], take_back: Callable[[], None]
    ) -> None:
        """One more kind of fault, from outside; `take_back` is called when the fault phase is over."""
        self._strike[kind] = lambda fault, draws: strike(self._target(fault, draws), fault, draws)
        self._taken_back.append(take_back)

    @property
    def active(self) -> bool:
        """Whether the fault phase is not over yet."""
        return self.strikes.active

    def start(self) -> None:
        for fault in self.plan:
            self.schedule(fault)

    def schedule(self, fault: Fault, draws: Draws | None = None) -> None:
        """Let a fault strike at its time, unless the fault phase is over by then. `draws`: its own, by its
        ordinal if not given.
        """
        self._cluster.kernel.at(fault.at_us, self._apply, fault, draws)

    def end(self) -> None:
        """No more faults; everything is healed, everybody runs again."""
        self.strikes.active = False
        self.liars.end()
        self.total_loss.end()
        for take_back in self._taken_back:
            take_back()
        cluster = self._cluster
        cluster.connections.active = False
        cluster.network.heal()
        cluster.network.options = msgspec.structs.replace(
            cluster.knobs.network, loss=0.0, duplicate=0.0, delay=0.0
        )
        cluster.bus.heal()
        cluster.far.heal()
        for machine in cluster.machines.values():
            machine.disk.fill(False)
            machine.disk.lie_when(None)
            machine.disk.readable_again()
            machine.disk.evict()
            machine.disk.crash_after(NEVER_CALLS)
            if machine.storage is not None:
                machine.storage.slowness = 1
            machine.resume()
            if self.atlas.harms(machine):
                # Damage in a last segment shows only when it is read: let a recovery read it.
                machine.kill()
            if not machine.up:
                cluster.kernel.after(1000 * machine.number, self._restart, machine)

    # -- what happens elsewhere ----------------------------------------------------------------------------

    def crashed(self, machine: Machine) -> None:
        """A process ended by a crash inside a phase, or because its disk failed while it started."""
        self._account.count("crashes inside")
        draws = self._cluster.chances.lane(f"node {machine.number}", "restart").draws()
        self._restart_later(machine, 300 * MILLISECOND + draws.randrange(SECOND))

    def start_refused(self, machine: Machine) -> None:
        """The disk failed while the node started. If that goes on, the operator copies it to another one."""
        self._refused[machine.number] = self._refused.get(machine.number, 0) + 1
        if self._refused[machine.number] >= PATIENCE_STARTS and machine.disk.rescue():
            self._refused[machine.number] = 0
            self._account.count("disks rescued")
            self._account.row("rescue", f"the disk of node {machine.number} is copied to a sound one")
        self.crashed(machine)

    def stopped(self, machine: Machine) -> None:
        """A node asked for the end of its process; its supervisor starts it again."""
        self._restart_later(machine, SECOND)

    def terminated(self, machine: Machine) -> None:
        """An orderly stop is over."""
        after = self._stopping.pop(machine.number, Aftermath(SECOND))
        self._restart_later(machine, after.restart_us)
        if after.power_us:
            self._cluster.kernel.after(after.power_us, self.power_follows, machine, after.power_down_us)

    def repaired(self, machine: Machine) -> None:
        """A damaged disk's node was registered anew."""
        self._account.count("repairs")

    # -- applying ------------------------------------------------------------------------------------------

    def _apply(self, fault: Fault, draws: Draws | None) -> None:
        cluster = self._cluster
        if not self.active or cluster.kernel.now_us < self._quiet_until_us:
            return
        if fault.kind in BETWEEN_NODES and len(cluster.machines) == 1:
            return
        self._strike[fault.kind](fault, draws or cluster.chances.draws("fault", fault.ordinal))

    def _target(self, fault: Fault, draws: Draws) -> Machine:
        """The machine a fault strikes."""
        cluster = self._cluster
        if fault.target.isdigit():
            return cluster.machines[int(fault.target)]
        machines = list(cluster.machines.values())
        running = [machine for machine in machines if machine.node is not None]
        chosen = running or machines
        if fault.target == "controller":
            chosen = [m for m in running if m.node is not None and m.node.raft.is_leader] or chosen
        elif fault.target in ("leader", "follower"):
            wanted = fault.target == "leader"
            chosen = [
                m
                for m in running
                if m.node is not None and any(r.role == "leader" for r in m.node.replicas.values()) == wanted
            ] or chosen
        return chosen[draws.randrange(len(chosen))]

    def _restart_later(self, machine: Machine, delay_us: int) -> None:
        self._cluster.kernel.after(delay_us, self._restart, machine)

    def _restart(self, machine: Machine, second: object) -> None:
        if not machine.up:
            self._account.row("start", f"node {machine.number} starts")
            machine.start()

    # -- who is not to be believed -------------------------------------------------------------------------

    def _stranger(self, fault: Fault, draws: Draws) -> None:
        self.liars.stranger(fault, draws)

    def _broken_peer(self, fault: Fault, draws: Draws) -> None:
        self.liars.broken_peer(self._target(fault, draws), fault, draws)

    def _wire_flips(self, fault: Fault, draws: Draws) -> None:
        self.liars.flips(fault, draws)

    # -- processes and power -------------------------------------------------------------------------------

    def _kill(self, fault: Fault, draws: Draws) -> None:
        """SIGKILL one process; it is started again after a while."""
        machine = self._target(fault, draws)
        self._remember(machine)
        self.done(fault, f"node {machine.number} is killed")
        machine.kill()
        self._restart_later(machine, fault.duration_us)

    def _power(self, fault: Fault, draws: Draws) -> None:
        """One machine loses power."""
        machine = self._target(fault, draws)
        if not self._lose_power(machine):
            self._kill(fault, draws)
            return
        self.done(fault, f"node {machine.number} loses power")
        self._restart_later(machine, fault.duration_us)

    def _lose_power(self, machine: Machine) -> bool:
        """Take the power away, unless that would lose more of an "os" log than it promises to survive."""
        if self._lossy:
            if not self.atlas.allows_disk(machine):
                return False
            self.atlas.note(machine, Harm(machine.number, "", 0, 0, RAFT_LOG, WHOLE))
        machine.lose_power()
        return True

    def _power_all(self, fault: Fault, draws: Draws) -> None:
        """The whole room loses power; machines come back one after the other."""
        if self._lossy:
            self._kill_all(fault, draws)
            return
        self.done(fault, "all nodes lose power")
        for machine in self._cluster.machines.values():
            machine.lose_power()
            self._restart_later(machine, draws.randrange(1, fault.duration_us + 1))

    def _kill_all(self, fault: Fault, draws: Draws) -> None:
        """All processes are killed."""
        self.done(fault, "all nodes are killed")
        for machine in self._cluster.machines.values():
            machine.kill()
            self._restart_later(machine, draws.randrange(1, fault.duration_us + 1))

    def _total_loss(self, fault: Fault, draws: Draws) -> None:
        """Most voters' disks are destroyed, and the cluster is recovered from those that are left (M5)."""
        self._snapshots.clear()
        self.total_loss.strike(fault, draws)

    def _kill_then_power(self, fault: Fault, draws: Draws) -> None:
        """A kill; restarted or not, the machine loses power soon after."""
        machine = self._target(fault, draws)
        self.done(fault, f"node {machine.number} is killed, and will lose power")
        machine.kill()
        self._restart_later(machine, draws.randrange(1, 300 * MILLISECOND))
        self._cluster.kernel.after(
            draws.randrange(1, 2 * SECOND), self.power_follows, machine, fault.duration_us
        )

    def power_follows(self, machine: Machine, duration_us: int) -> None:
        if self.active and self._lose_power(machine):
            self._account.row("power", f"node {machine.number} loses power after its end")
            self._restart_later(machine, duration_us)

    def _stop(self, fault: Fault, draws: Draws) -> None:
        """SIGTERM: one process hands over and ends; it is started again after a while."""
        machine = self._target(fault, draws)
        self.terminate(machine, Aftermath(fault.duration_us))
        self.done(fault, f"node {machine.number} is asked to stop")

    def _stop_all(self, fault: Fault, draws: Draws) -> None:
        """All processes are asked to stop, within a moment of each other."""
        for machine in self._cluster.machines.values():
            after = Aftermath(draws.randrange(1, fault.duration_us + 1))
            self._cluster.kernel.after(draws.randrange(200 * MILLISECOND), self.terminate, machine, after)
        self.done(fault, "all nodes are asked to stop")

    def _stop_then_power(self, fault: Fault, draws: Draws) -> None:
        """An orderly stop; restarted or not, the machine loses power soon after."""
        machine = self._target(fault, draws)
        restart_us = draws.randrange(1, 300 * MILLISECOND)
        power_us = draws.randrange(1, 500 * MILLISECOND)
        self.terminate(machine, Aftermath(restart_us, power_us, fault.duration_us))
        self.done(fault, f"node {machine.number} is asked to stop, and will lose power")

    def terminate(self, machine: Machine, after: Aftermath) -> None:
        """An orderly stop begins."""
        if machine.up and self.active:
            self._stopping[machine.number] = after
            machine.terminate()

    def _crash_inside(self, fault: Fault, draws: Draws) -> None:
        """A kill or power loss in the middle of a storage phase or of a recovery."""
        machine = self._target(fault, draws)
        machine.plant_crash(draws.randrange(1, 40), draws.random() < 0.5 and not self._lossy)
        self.done(fault, f"node {machine.number} will crash inside a storage phase")

    def _pause(self, fault: Fault, draws: Draws) -> None:
        """SIGSTOP, later SIGCONT."""
        machine = self._target(fault, draws)
        machine.pause()
        self.done(fault, f"node {machine.number} is paused for {fault.duration_us // 1000} ms")
        self._cluster.kernel.after(fault.duration_us, self._resume, machine, machine.restarts)

    def _resume(self, machine: Machine, run: int) -> None:
        if machine.restarts == run:
            machine.resume()

    def _stutter(self, fault: Fault, draws: Draws) -> None:
        """One process is stopped for two seconds out of five, again and again."""
        machine = self._target(fault, draws)
        self.done(fault, f"node {machine.number} is stopped again and again")
        self._stop_again(machine, self._cluster.kernel.now_us + fault.duration_us)

    def _stop_again(self, machine: Machine, until_us: int) -> None:
        kernel = self._cluster.kernel
        if self.active and kernel.now_us < until_us:
            machine.pause()
            kernel.after(STUTTER_STOPPED_US, self._resume, machine, machine.restarts)
            kernel.after(STUTTER_EVERY_US, self._stop_again, machine, until_us)

    # -- network and bus -----------------------------------------------------------------------------------

    def _accuse(self, fault: Fault, draws: Draws) -> None:
        """Everybody else is told that nobody listens where one node does; in most cases it is cut off from
        them too, as by a firewall that refuses, or some links of it are.
        """
        machine = self._target(fault, draws)
        cluster = self._cluster
        cluster.connections.accuse(machine, cluster.kernel.now_us + fault.duration_us)
        links = self.links_of(machine.number)
        how = draws.randrange(4) if cluster.knobs.quiet_from_us == 0 else 0
        if how == 1:
            links = draws.sample(links, draws.randrange(1, len(links)))
        if how:
            self.block(links, fault)
        self.done(fault, f"node {machine.number} is said to be gone{f', and {links} are cut' * bool(how)}")

    def _flap(self, fault: Fault, draws: Draws) -> None:
        """The connections between two nodes, or of one with all, break again and again."""
        machine = self._target(fault, draws)
        peers = [peer for peer in self._cluster.machines if peer != machine.number]
        if draws.random() < 0.5:
            peers = [peers[draws.randrange(len(peers))]]
        until_us = self._cluster.kernel.now_us + fault.duration_us
        for peer in peers:
            self._cluster.connections.flap((machine.number, peer), until_us)
        self.done(fault, f"the connections of node {machine.number} with {peers} break again and again")

    def _partition(self, fault: Fault, draws: Draws) -> None:
        """The nodes fall into two groups that do not hear each other; a scenario may state the links."""
        if fault.links:
            self.block(list(fault.links), fault)
            self.done(fault, f"links {[list(link) for link in fault.links]} are cut")
            return
        numbers = list(self._cluster.machines)
        draws.shuffle(numbers)
        cut = draws.randrange(1, len(numbers))
        one, other = numbers[:cut], numbers[cut:]
        self.block([(a, b) for a in one for b in other] + [(b, a) for a in one for b in other], fault)
        self.done(fault, f"nodes {sorted(one)} and {sorted(other)} are separated")

    def _isolate(self, fault: Fault, draws: Draws) -> None:
        """One node is cut from its peers, not from NATS."""
        machine = self._target(fault, draws)
        self.block(self.links_of(machine.number), fault)
        self.done(fault, f"node {machine.number} is cut from its peers")

    def _one_way(self, fault: Fault, draws: Draws) -> None:
        """One node hears the others but is not heard, or the other way round; or on one link only."""
        machine = self._target(fault, draws)
        outward = draws.random() < 0.5
        links = [link for link in self.links_of(machine.number) if (link[0] == machine.number) == outward]
        if draws.random() < 0.4:
            links = [links[draws.randrange(len(links))]]
        self.block(links, fault)
        self.done(fault, f"links {links} are cut")

    def _link(self, fault: Fault, draws: Draws) -> None:
        """Two nodes do not hear each other, while everybody else hears both."""
        machine = self._target(fault, draws)
        peers = [peer for peer in self._cluster.machines if peer != machine.number]
        peer = peers[draws.randrange(len(peers))]
        self.block([(machine.number, peer), (peer, machine.number)], fault)
        self.done(fault, f"nodes {machine.number} and {peer} do not hear each other")

    def links_of(self, number: int) -> list[tuple[int, int]]:
        """All directed links between a node and its peers."""
        peers = [peer for peer in self._cluster.machines if peer != number]
        return [(number, peer) for peer in peers] + [(peer, number) for peer in peers]

    def block(self, links: list[tuple[int, int]], fault: Fault) -> None:
        """Cut links until the fault's time is over."""
        for sender, to in links:
            self._cluster.network.block(sender, to)
        self._cluster.kernel.after(fault.duration_us, self._unblock, links)

    def _unblock(self, links: list[tuple[int, int]], second: object) -> None:
        if self.active:
            for sender, to in links:
                self._cluster.network.unblock(sender, to)

    def _cut_bus(self, fault: Fault, draws: Draws) -> None:
        """One node is cut from NATS, not from its peers."""
        machine = self._target(fault, draws)
        self._cut(machine, fault)
        self.done(fault, f"node {machine.number} is cut from NATS")

    def _deny(self, fault: Fault, draws: Draws) -> None:
        """NATS lets one node, or now and then all of them, subscribe to nothing for a time (N1)."""
        chosen = self._target(fault, draws)
        everybody = fault.target == "any" and draws.random() < 0.3
        machines = list(self._cluster.machines.values()) if everybody else [chosen]
        for machine in machines:
            self._cluster.bus.deny(machine.number)
            self._cluster.kernel.after(fault.duration_us, self._allow, machine.number)
        self.done(fault, f"NATS denies {', '.join(f'node {m.number}' for m in machines)} to subscribe")

    def _allow(self, number: int, second: object) -> None:
        if self.active:
            self._cluster.bus.allow(number)

    def _cut_both(self, fault: Fault, draws: Draws) -> None:
        """One node's cable is pulled: no peers, no NATS."""
        machine = self._target(fault, draws)
        self._cut(machine, fault)
        self.block(self.links_of(machine.number), fault)
        self.done(fault, f"node {machine.number} is cut from everything")

    def _cut(self, machine: Machine, fault: Fault) -> None:
        self._cluster.bus.cut(machine.number)
        if machine.bus is not None:
            machine.bus.cable_cut()
        self._cluster.kernel.after(fault.duration_us, self._restore, machine)

    def _restore(self, machine: Machine, second: object) -> None:
        if self.active:
            self._cluster.bus.restore(machine.number)

    def _slow_node(self, fault: Fault, draws: Draws) -> None:
        """Everything from and to one node is late, and out of order."""
        machine = self._target(fault, draws)
        extra_us = draws.randrange(10, 1500) * MILLISECOND
        self._cluster.network.slow_down(machine.number, extra_us)
        self.done(fault, f"messages of node {machine.number} take up to {extra_us // 1000} ms longer")
        self._cluster.kernel.after(fault.duration_us, self._speed_up, machine)

    def _speed_up(self, machine: Machine, second: object) -> None:
        self._cluster.network.slow_down(machine.number, 0)

    def _storm(self, fault: Fault, draws: Draws) -> None:
        """The whole network loses, duplicates and delays messages for a while."""
        base = self._cluster.knobs.network
        self._storms += 1
        self._cluster.network.options = msgspec.structs.replace(
            base,
            loss=max(base.loss, 0.3 * draws.random()),
            duplicate=max(base.duplicate, 0.3 * draws.random()),
            delay=max(base.delay, 0.3 * draws.random()),
            delay_max_us=max(base.delay_max_us, draws.randrange(1, 2000) * MILLISECOND),
        )
        self.done(fault, "the network loses, duplicates and delays messages")
        self._cluster.kernel.after(fault.duration_us, self._calm, self._storms)

    def _calm(self, storm: int, second: object) -> None:
        if self.active and storm == self._storms:
            self._cluster.network.options = self._cluster.knobs.network

    # -- disks ---------------------------------------------------------------------------------------------

    def _slow_disk(self, fault: Fault, draws: Draws) -> None:
        """One disk takes many times as long."""
        machine = self._target(fault, draws)
        storage = machine.storage
        if storage is None:
            return
        storage.slowness = draws.choice((20, 100, 500, 1000))
        self.done(fault, f"the disk of node {machine.number} is {storage.slowness} times slower")
        self._cluster.kernel.after(fault.duration_us, self._fast_disk, storage)

    def _fast_disk(self, storage: SimStorageRunner, second: object) -> None:
        storage.slowness = 1

    def _sync_failure(self, fault: Fault, draws: Draws) -> None:
        """The next sync of a partition's log fails, and what it should have written is lost (R5)."""
        machine = self._target(fault, draws)
        if not machine.up:
            return
        machine.disk.fail_next_sync("streams/" if draws.random() < 0.85 else "")
        self.done(fault, f"a sync of node {machine.number} will fail")

    def _write_failure(self, fault: Fault, draws: Draws) -> None:
        """The next write to a partition's log fails, after a part of it (D5)."""
        machine = self._target(fault, draws)
        if not machine.up:
            return
        error = draws.choice((errno.EIO, errno.ENOSPC))
        machine.disk.fail_next("append", error, "streams/")
        self.done(fault, f"a write of node {machine.number} will fail")

    def _full_disk(self, fault: Fault, draws: Draws) -> None:
        """The disk fills up, in the middle of a write, and has space again after a while (D5)."""
        machine = self._target(fault, draws)
        free_bytes = draws.randrange(600)
        names_too = draws.random() < 0.5
        machine.disk.fill(True, free_bytes, names_too)
        detail = ", for names as well" if names_too else ""
        self.done(fault, f"the disk of node {machine.number} is full{detail}")
        self._cluster.kernel.after(fault.duration_us, self._make_space, machine)

    def _make_space(self, machine: Machine, second: object) -> None:
        machine.disk.fill(False)

    # -- damage, under the atlas -----------------------------------------------------------------------------

    def _flip(self, fault: Fault, draws: Draws) -> None:
        self._disks.flip(fault, self._target(fault, draws), draws)

    def _index_decay(self, fault: Fault, draws: Draws) -> None:
        self._disks.index_decay(fault, self._target(fault, draws), draws)

    def _sector(self, fault: Fault, draws: Draws) -> None:
        self._disks.sector(fault, self._target(fault, draws), draws)

    def _misdirect(self, fault: Fault, draws: Draws) -> None:
        self._disks.misdirect(fault, self._target(fault, draws), draws)

    def _latent(self, fault: Fault, draws: Draws) -> None:
        self._disks.latent(fault, self._target(fault, draws), draws)

    def _lost_folder(self, fault: Fault, draws: Draws) -> None:
        """A log's folder, or all that is in it, is gone when the node starts again (M4)."""
        machine = self._target(fault, draws)
        self._disks.lost_folder(fault, machine, draws)
        self._restart_later(machine, fault.duration_us)

    def _lost_sync(self, fault: Fault, draws: Draws) -> None:
        self._disks.lost_sync(fault, self._target(fault, draws), draws)

    def _wipe(self, fault: Fault, draws: Draws) -> None:
        """One machine comes back with a new, empty disk."""
        machine = self._target(fault, draws)
        if self.atlas.allows_wipe(machine):
            self.wipe_now(machine, min(fault.duration_us // MILLISECOND, 2000))

    def wipe_now(self, machine: Machine, down_ms: int) -> None:
        """Replace a disk and start the node again after `down_ms`, if the atlas still allows it."""
        quiet = self._cluster.kernel.now_us < self._quiet_until_us
        if not self.active or quiet or not self.atlas.allows_disk(machine):
            return
        self.done(Fault(self._cluster.kernel.now_us, "wipe"), f"node {machine.number} gets an empty disk")
        self._lose(machine, down_ms, machine.disk.wipe)

    def _lost_promises(self, fault: Fault, draws: Draws) -> None:
        """A bit of what one node has of the metadata group decays while it is down (M4)."""
        machine = self._target(fault, draws)
        paths = [path for path in machine.disk.files() if is_promise(path) and machine.disk.content(path)]
        if not paths or not self.atlas.allows_wipe(machine):
            return
        path = draws.choice(paths)
        byte, bit = draws.randrange(len(machine.disk.content(path))), draws.randrange(8)
        self.done(fault, f"a bit flips at byte {byte} of {path} while node {machine.number} is down")

        def decay() -> None:
            if path in machine.disk.files() and byte < len(machine.disk.content(path)):
                machine.disk.flip(path, byte, bit)

        self._lose(machine, min(fault.duration_us // MILLISECOND, 2000), decay)

    def _lose(self, machine: Machine, down_ms: int, damage: Callable[[], object]) -> None:
        """A node dies, its disk suffers, and it starts again.

        Where operators change who votes, one of them may have taken another's vote in the moment in which
        this node died: then a quorum needs this disk, and whoever destroys it now destroys the group. There
        it suffers only once everybody misses the node, and only if its vote is not needed.
        """
        machine.kill()
        if self._cluster.knobs.voter_share:
            self._cluster.kernel.after(MISSED_US, self._missed, (machine, damage))
            return
        damage()
        self.atlas.note_disk(machine)
        self._snapshots.pop(machine.number, None)
        self._restart_later(machine, down_ms * MILLISECOND)

    def _missed(self, lost: tuple[Machine, Callable[[], object]], second: object) -> None:
        machine, damage = lost
        if machine.up:
            return
        if self.active and self.atlas.votes_left_without(machine):
            damage()
            self.atlas.note_disk(machine)
            self._snapshots.pop(machine.number, None)
        self._restart(machine, second)

    def replace_disk(self, machine: Machine) -> None:
        """The operator gives a node whose metadata is damaged a new disk, as its error says (M4)."""
        machine.disk.wipe()
        self._snapshots.pop(machine.number, None)
        self._account.row("wipe", f"node {machine.number} refused to start and gets an empty disk")
        self._restart_later(machine, SECOND)

    def _remember(self, machine: Machine) -> None:
        """Take a copy of a disk while its node dies: an old state for a later rollback."""
        wanted = any(kind == "rollback" for kind, _ in self._cluster.knobs.faults)
        node = machine.node
        if wanted and machine.number not in self._snapshots and node is not None and node.incarnation:
            self._snapshots[machine.number] = (node.incarnation, machine.disk.image())

    def _rollback(self, fault: Fault, draws: Draws) -> None:
        """One machine comes back with an old state of its disk, from before an earlier start."""
        cluster = self._cluster
        for machine in cluster.machines.values():
            snapshot = self._snapshots.get(machine.number)
            newest = cluster.newest_metadata()
            if snapshot is None or newest is None:
                continue
            state = newest.nodes.get(machine.number)
            if state is None or state.confirmed <= snapshot[0] or not self.atlas.allows_wipe(machine):
                continue
            self.done(fault, f"the disk of node {machine.number} is set back to incarnation {snapshot[0]}")
            machine.kill()
            machine.disk.restore(snapshot[1])
            self.atlas.note_disk(machine)
            del self._snapshots[machine.number]
            self._quiet_until_us = cluster.kernel.now_us + 6 * SECOND
            self._restart_later(machine, 500 * MILLISECOND)
            return
