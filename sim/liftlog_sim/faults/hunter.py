"""Faults that wait for their moment: nodes are struck just when the protocol is at its most delicate.

A plan strikes at random instants, and most instants are dull. The hunter watches instead: it strikes a node
shortly after it was elected or gave its vote, cuts each new Raft leader off while the last one comes back
(Figure 8 of the Raft paper), attacks a replica while its return to the ISR is being decided, and has a
controller die that alone knows whom it has just admitted. Each occasion has draws of its own, or a plan says
at which of them to strike; all counts and shows as ordinary faults.
"""

from __future__ import annotations

from collections.abc import Callable

from liftlog.core.node import Node
from liftlog.messages import Forward
from liftlog_sim.chance.draws import Draws
from liftlog_sim.chance.fault_plan import Fault
from liftlog_sim.devices.cluster import Cluster
from liftlog_sim.devices.machine import Machine
from liftlog_sim.faults.copyhunter import CopyHunter
from liftlog_sim.faults.faults import Aftermath, Faults
from liftlog_sim.kernel import MILLISECOND, SECOND

Links = list[tuple[int, int]]

MOST_VOTER_DELAY_US = 30 * MILLISECOND
"""A vote is on its way to the disk for about that long."""

HEARING_LOOKS = 2000
"""So many milliseconds it is waited for a node that was just admitted to hear its first leader."""

MOST_COMPACTION_CALLS = 80
"""A slice of a compaction makes about so many calls of the disk."""


class Hunter:
    """Sees elections, votes and joins through the observer, and strikes through `Faults`."""

    __slots__ = ("_chances", "_cluster", "_copies", "_cut_off", "_faults", "_ordinal", "watched")

    def __init__(self, cluster: Cluster, faults: Faults) -> None:
        self._cluster = cluster
        self._faults = faults
        self._chances = cluster.chances
        self._ordinal = 0
        self._cut_off: Links = []
        self._copies = CopyHunter(cluster, faults)
        self.watched: dict[str, list[Callable[[Machine], None]]] = {}
        """What to call when a node has reached the case of a rule (a mark) once more."""

    def start(self) -> None:
        """Watch what the knobs ask for."""
        knobs = self._cluster.knobs
        if knobs.hunt_voter:
            self._watch("M1.vote", self._voted)
        if knobs.hunt_joiner:
            self._watch("R10.join", self._joining)
        if knobs.hunt_contact:
            self._watch("I3.admit", self._admitted)
        if knobs.hunt_follower:
            self._watch("R6.diverged", self._told_to_cut)
        if knobs.hunt_failed:
            self._watch("R5.failed", self._log_failed)
        self._copies.start(self._watch)

    def _watch(self, mark: str, strike: Callable[[Machine], None]) -> None:
        self.watched.setdefault(mark, []).append(strike)

    def look(self, machine: Machine, node: Node, seen: dict[str, int]) -> None:
        """After a step of this node. `seen`: how often each case was reached when it was looked at last."""
        for mark, strikes in self.watched.items():
            number = node.ctx.marks.get(mark, 0) + node.metadata.counts.get(mark, 0)
            if number != seen.get(mark, 0):
                seen[mark] = number
                for strike in strikes:
                    strike(machine)

    # -- elections -----------------------------------------------------------------------------------------

    def controller_elected(self, number: int) -> None:
        knobs = self._cluster.knobs
        if knobs.hunt_alternate:
            draws = self._chances.occasion("alternate", number, 1.0)
            if draws is not None:
                self._cluster.kernel.after(draws.randrange(knobs.hunt_within_us), self._alternate, number)
        else:
            self._hunt("controller", number, knobs.hunt_controller)

    def leader_elected(self, number: int) -> None:
        self._hunt("leader", number, self._cluster.knobs.hunt_leader)
        self._copies.leader_elected(number)

    def _occasion(self, name: str, number: int, share: float) -> Draws | None:
        """What is drawn for a strike, or None: nobody strikes now."""
        return self._chances.occasion(name, number, share) if self._faults.active and share else None

    def _hunt(self, occasion: str, number: int, share: float) -> None:
        knobs = self._cluster.knobs
        draws = self._occasion(occasion, number, share)
        if draws is None:
            return
        kind = draws.choice(knobs.hunt_kinds)
        delay_us = draws.randrange(knobs.hunt_within_us)
        duration_us = int(draws.expovariate(1.0) * knobs.fault_duration_us) + 10 * MILLISECOND
        self._strike(kind, number, delay_us, duration_us, draws)

    def _alternate(self, number: int, second: object) -> None:
        """Cut a new controller off from its peers, and let the one that was cut off before come back."""
        if not self._faults.active:
            return
        network = self._cluster.network
        for sender, to in self._cut_off:
            network.unblock(sender, to)
        self._cut_off = self._faults.links_of(number)
        for sender, to in self._cut_off:
            network.block(sender, to)
        detail = f"node {number} is cut from its peers, the last one comes back"
        self._faults.done(Fault(self._cluster.kernel.now_us, "isolate", str(number)), detail)

    def _voted(self, machine: Machine) -> None:
        """A node has given its vote: it may die before, while or after the vote reaches its disk."""
        draws = self._occasion("voter", machine.number, self._cluster.knobs.hunt_voter)
        if draws is not None:
            delay_us = draws.randrange(MOST_VOTER_DELAY_US)
            kind = draws.choice(("kill", "power"))
            self._strike(kind, machine.number, delay_us, draws.randrange(5, 200) * MILLISECOND, draws)

    def _admitted(self, machine: Machine) -> None:
        """Somebody has applied the admission of a node. If he leads, and that node knows nobody else, he dies
        as it hears him, before it has heard of the others, and is away until one of them leads.
        """
        knobs, node = self._cluster.knobs, machine.node
        draws = self._occasion("contact", machine.number, knobs.hunt_contact)
        if draws is None or node is None or node.raft.leader != machine.number:
            return
        newest = max(node.metadata.admissions.values(), key=lambda one: one.at).node
        if machine.number in knobs.node_config(newest).voters:
            self._look_whether_heard((machine, self._cluster.machines[newest], draws), HEARING_LOOKS)

    def _look_whether_heard(self, hunt: tuple[Machine, Machine, Draws], looks: int) -> None:
        controller, joiner, draws = hunt
        if controller.node is None or (joiner.node is not None and joiner.node.metadata.admitted_at):
            return
        if joiner.node is not None and joiner.node.raft.leader == controller.number:
            self._strike("kill", controller.number, 0, draws.randrange(2, 6) * SECOND, draws)
        elif looks:
            self._cluster.kernel.after(MILLISECOND, self._look_whether_heard, hunt, looks - 1)

    def _told_to_cut(self, machine: Machine) -> None:
        """A follower was told to cut its log: it dies soon and is back at once, while what it was told may
        still be on its way a second time.
        """
        draws = self._occasion("cut", machine.number, self._cluster.knobs.hunt_follower)
        if draws is not None:
            delay_us = draws.randrange(50, 1500) * MILLISECOND
            self._strike("kill", machine.number, delay_us, draws.randrange(10, 200) * MILLISECOND, draws)

    def _log_failed(self, machine: Machine) -> None:
        """A log has failed: while its node's report is on its way the node is cut off for a good while, so
        that it hears late, and with much else, that the report was heard.
        """
        draws = self._occasion("failed", machine.number, self._cluster.knobs.hunt_failed)
        if draws is not None:
            delay_us = draws.randrange(1, 40) * MILLISECOND
            self._strike("isolate", machine.number, delay_us, draws.randrange(3, 9) * SECOND, draws)

    def _strike(self, kind: str, number: int, delay_us: int, duration_us: int, draws: Draws) -> None:
        self._ordinal += 1
        at_us = self._cluster.kernel.now_us + delay_us
        self._faults.schedule(Fault(at_us, kind, str(number), duration_us, -self._ordinal), draws)

    # -- compaction ----------------------------------------------------------------------------------------

    def compacting(self, machine: Machine) -> None:
        """A replica compacts: it may die while it puts what it has written in place."""
        share = self._cluster.knobs.hunt_compaction
        draws = self._occasion("compaction", machine.number, share)
        if draws is not None:
            machine.plant_crash(draws.randrange(1, MOST_COMPACTION_CALLS), draws.random() < 0.5)
            fault = Fault(self._cluster.kernel.now_us, "crash_inside", str(machine.number))
            self._faults.done(fault, f"node {machine.number} will crash inside a compaction")

    # -- joins ---------------------------------------------------------------------------------------------

    def _joining(self, leader: Machine) -> None:
        """A leader asks for a replica's return to the ISR: hold that back, and strike meanwhile."""
        cluster, faults = self._cluster, self._faults
        draws = self._occasion("joiner", leader.number, cluster.knobs.hunt_joiner)
        if draws is None or leader.node is None:
            return
        if cluster.knobs.hunt_joiner_kind == "stop":
            self._stop_another(leader, draws)
            return
        controller = leader.node.raft.leader
        if controller in (0, leader.number):
            return
        for replica in leader.node.replicas.values():
            pending = replica.leading.pending if replica.leading is not None else None
            if pending is None or pending.joiner in (0, controller):
                continue
            joiner = cluster.machines[pending.joiner]
            if cluster.knobs.hunt_joiner_kind == "silence":
                self._silence(leader.number, controller, joiner.number, draws)
                return
            if faults.atlas.allows_wipe(joiner):
                self._replace_disk(leader.number, controller, joiner, draws)
                return

    def _stop_another(self, leader: Machine, draws: Draws) -> None:
        """R20: with the addition a move is over, but who was in sync before leaves in the same moment."""
        assert leader.node is not None
        for id, replica in leader.node.replicas.items():
            pending = replica.leading.pending if replica.leading is not None else None
            record = leader.node.metadata.partitions.get(id)
            if pending is None or record is None or not record.target:
                continue
            others = [node for node in record.target if node in record.isr and node != leader.number]
            if not pending.joiner or not others:
                continue
            other = self._cluster.machines[draws.choice(others)]
            down_us = draws.randrange(500, 2000) * MILLISECOND
            stop_us = draws.randrange(40 * MILLISECOND)
            self._cluster.kernel.after(stop_us, self._faults.terminate, other, Aftermath(down_us))
            fault = Fault(self._cluster.kernel.now_us, "stop", "", down_us)
            self._faults.done(fault, f"node {other.number} is asked to stop")
            return

    def _silence(self, leader: int, controller: int, joiner: int, draws: Draws) -> None:
        """The controller does not hear the leader, the leader does not hear the joiner."""
        links = [(leader, controller), (joiner, leader)]
        duration_us = draws.randrange(600, 2500) * MILLISECOND
        fault = Fault(self._cluster.kernel.now_us, "one_way", "", duration_us)
        self._faults.block(links, fault)
        self._faults.done(fault, f"links {[list(link) for link in links]} are cut")

    def _replace_disk(self, leader: int, controller: int, joiner: Machine, draws: Draws) -> None:
        """The command that adds the joiner is late, and meanwhile the joiner comes back with an empty disk.

        The new incarnation registers, but cannot reach the leader to fill itself.
        """
        kernel = self._cluster.kernel
        down_ms = draws.randrange(10, 300)
        kernel.after(draws.randrange(50 * MILLISECOND), self._faults.wipe_now, joiner, down_ms)
        held_us = draws.randrange(600, 4000) * MILLISECOND
        self._cluster.network.hold(leader, controller, Forward, kernel.now_us + held_us)
        fault = Fault(kernel.now_us, "one_way", "", held_us + 500 * MILLISECOND)
        self._faults.block([(joiner.number, leader)], fault)
        self._faults.done(fault, f"commands of node {leader} to node {controller} are held back")
