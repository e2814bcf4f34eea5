"""A total loss: most voters' disks are destroyed at once, and an operator forms a new quorum (M5).

All processes are killed. Of the disks some are left: too few to decide anything, and enough that nothing that
was promised lies on destroyed ones only, as far as we know, who know everything. Then the very code of
`liftlog cluster recover` looks at the disks and changes them, and everybody starts again, some with empty
disks. Its run may be cut short at any call to a disk, or find no room there; then the operator says the same
again, until nothing is left to be done. Where no such choice of disks exists, everybody starts as after a
kill of all.

Now and then nothing is destroyed, and a node gets a disk of another cluster instead (`twins.py`).

Now and then a disk that was destroyed comes back later. It must be refused, and keep what it holds
(OldMemberKept); after a while it is destroyed for good. A disk that is a quorum by itself does not: it would
form the cluster that it was, which docs/operating/recover.md says.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

from liftlog.commands.survivors import SurvivingDisk, examined, joined, recovered, surveyed
from liftlog.core.guards import Guards
from liftlog.core.metadata.image import ImageReader
from liftlog.core.metadata.metadata import Metadata
from liftlog.core.total_loss.plan import RecoveryPlan, planned, surviving
from liftlog.core.total_loss.reports import DiskReport, Survivors
from liftlog.ports import DiskError
from liftlog.storage.layout import log_directory
from liftlog.storage.snapshots import read_snapshot
from liftlog.types import LiftlogError
from liftlog_sim.chance.draws import Draws
from liftlog_sim.chance.fault_plan import Fault
from liftlog_sim.devices.cluster import Cluster
from liftlog_sim.devices.disk import FileImage, SimulatedCrash
from liftlog_sim.devices.machine import Machine
from liftlog_sim.faults.atlas import Atlas
from liftlog_sim.faults.strikes import Strikes
from liftlog_sim.faults.twins import Twins
from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.truth.account import Account
from liftlog_sim.truth.invariants import Violation

INDEX_GAP = 5_000
"""Beyond what a world decides, and little enough for the truth to keep."""
STAYS_US = 3 * SECOND
"""How long a disk that has returned is tried."""
TWINS = 0.4
"""Share of strikes that bring a disk of a twin, where one can be."""
MOST_CALLS = 80
"""Calls to a disk within which the tool's run is cut short: about what it makes to one that it changes."""
MOST_FREE_BYTES = 4_000
MOST_TIMES = 4
"""How often the operator says the same: cut short before and behind the first disk's change, there are three
runs, and one that finds nothing to do.
"""


class Returned(NamedTuple):
    """A disk that was taken for destroyed, and runs again."""

    held: dict[str, FileImage]
    struck_before: int
    """What had been damaged on this machine until then, as the atlas counts it."""


def _endanger(machine: Machine, draws: Draws) -> None:
    """Now and then the tool's run is cut short at this disk, or finds no room there."""
    fate = draws.random()
    if fate < 0.4:
        machine.disk.crash_after(draws.randrange(1, MOST_CALLS))
    elif fate < 0.6:
        machine.disk.fill(free_bytes=draws.randrange(MOST_FREE_BYTES))


def _relieve(machine: Machine) -> None:
    """Another process finds this disk with room, and nothing in store for it."""
    machine.disk.kill()
    machine.disk.fill(False)


def _can_be_kept(report: DiskReport) -> bool:
    """Whether a disk that comes back has something to keep, and is no quorum by itself."""
    alone = report.members is not None and [voter.node for voter in report.members.voters] == [report.node]
    return report.epoch.number > 0 and not alone


class TotalLoss:
    """Destroys disks and recovers the cluster. `restart` starts a machine after a delay."""

    def __init__(
        self,
        cluster: Cluster,
        account: Account,
        strikes: Strikes,
        atlas: Atlas,
        restart: Callable[[Machine, int], None],
    ) -> None:
        self._cluster = cluster
        self._account = account
        self._strikes = strikes
        self._atlas = atlas
        self._restart = restart
        self._twins = Twins(cluster, account, atlas, restart)
        self._returned: dict[int, Returned] = {}
        """Machines that run on a disk which was taken for destroyed."""
        self.on_recovered: Callable[[Metadata, RecoveryPlan], None] = lambda metadata, plan: None

    def strike(self, fault: Fault, draws: Draws) -> None:
        machines = self._cluster.machines
        if draws.random() < TWINS:
            done = self._twins.strike(draws)
            if done:
                self._strikes.beyond_models()
                self._strikes.done(fault, done)
                return
        self._put_away()
        for machine in machines.values():
            machine.kill()
            # A crash that was to befall the node does not befall the tool: `_endanger` says what does.
            machine.disk.kill()
        disks = self._looked_at()
        chosen = self._choice(disks, draws)
        if chosen is None:
            self._strikes.done(fault, "all nodes are killed")
        else:
            self._recover(fault, draws, disks, chosen)
        for machine in machines.values():
            self._restart(machine, draws.randrange(1, fault.duration_us + 1))

    def end(self) -> None:
        """The fault phase is over: no disk of an earlier epoch is left."""
        self._put_away()

    # -- the loss ------------------------------------------------------------------------------------------

    def _looked_at(self) -> dict[int, SurvivingDisk]:
        found: dict[int, SurvivingDisk] = {}
        for number, machine in self._cluster.machines.items():
            if self._atlas.harms(machine) or machine.damaged_run >= 0:
                continue
            try:
                found[number] = examined(machine.disk, self._cluster.sealer)
            except LiftlogError:
                # Nothing was ever written there, or a renewal was cut short by the kill.
                continue
        return found

    def _choice(self, disks: dict[int, SurvivingDisk], draws: Draws) -> tuple[int, ...] | None:
        """Which disks are left: no quorum, and with all that is promised."""
        choices = [
            numbers
            for count in range(1, len(self._cluster.machines))
            for numbers in combinations(sorted(disks), count)
            if self._is_enough([disks[number] for number in numbers])
        ]
        if choices and draws.random() < 0.5:
            # Of many disks some lag behind.
            choices = [numbers for numbers in choices if len(numbers) == len(choices[-1])]
        return draws.choice(choices) if choices else None

    def _is_enough(self, disks: list[SurvivingDisk]) -> bool:
        try:
            survivors = surveyed([one.report for one in disks])
        except LiftlogError:
            return False
        here = next(one for one in disks if one.report is survivors.chosen)
        if survivors.has_quorum or survivors.lacks or here.metadata is None:
            return False
        if here.metadata.applied < self._account.metadata.committed:
            return False
        for partition in here.metadata.partitions.values():
            truth = self._account.truth(partition.id)
            copies = surviving(partition.id, partition.replicas, survivors.disks)
            ends = [
                copy.end
                for node, copy in copies.items()
                if copy is not None and node in partition.isr and copy.state == "intact"
            ]
            if max(ends, default=-1) < truth.hw:
                return False
        return True

    def _recover(
        self, fault: Fault, draws: Draws, looked: dict[int, SurvivingDisk], left: tuple[int, ...]
    ) -> None:
        cluster = self._cluster
        disks = [looked[number] for number in left]
        gone = [number for number in cluster.machines if number not in left]
        self._strikes.done(fault, f"all disks but those of nodes {list(left)} are destroyed")
        back = gone[draws.randrange(len(gone))] if draws.random() < 0.6 else 0
        if back not in looked or not _can_be_kept(looked[back].report):
            back = 0
        held = cluster.machines[back].disk.image() if back else {}
        for number in gone:
            cluster.machines[number].disk.wipe()
            self._atlas.note_disk(cluster.machines[number])
        survivors = surveyed([one.report for one in disks])
        self._judge(survivors)
        plan = self._carry_out(disks, survivors, draws)
        self._account.count("recoveries")
        self.on_recovered(self._metadata_of(plan), plan)
        if back:
            after_us = draws.randrange(2 * SECOND, 8 * SECOND)
            cluster.kernel.after(after_us, self._return, (cluster.machines[back], held))

    def _carry_out(self, disks: list[SurvivingDisk], survivors: Survivors, draws: Draws) -> RecoveryPlan:
        """The operator says it, and again until nothing is left to be done. RecoveryCompleted."""
        account = self._account
        missing = [node.node for node in survivors.missing]
        plan = planned(survivors, missing, account.mutants, INDEX_GAP)
        machines = [self._cluster.machines[one.report.node] for one in disks]
        for machine in machines:
            _relieve(machine)
        _endanger(machines[draws.randrange(len(machines))], draws)
        account.checks.counts["RecoveryCompleted"] += 1
        for _ in range(MOST_TIMES):
            try:
                if survivors.behind:
                    account.count("recoveries completed")
                    joined(disks, survivors)
                elif survivors.chosen.snapshot_index != plan.index:
                    recovered(disks, survivors, missing, account.mutants, INDEX_GAP)
                else:
                    break
            except SimulatedCrash:
                account.count("recoveries cut short")
            except DiskError:
                account.count("recoveries without room")
            disks, survivors = self._looked_at_again(machines)
        left = [one.report.node for one in disks if one.report.epoch != plan.epoch]
        if left or survivors.chosen.snapshot_index != plan.index:
            text = f"said {MOST_TIMES} times, a recovery has not come to nodes {left}"
            account.fail(Violation("RecoveryCompleted", text))
        return plan

    def _looked_at_again(self, machines: list[Machine]) -> tuple[list[SurvivingDisk], Survivors]:
        for machine in machines:
            _relieve(machine)
        try:
            disks = [examined(machine.disk, self._cluster.sealer, finish=True) for machine in machines]
            return disks, surveyed([one.report for one in disks])
        except LiftlogError as error:
            text = f"said again, a recovery that was cut short is refused: {error}"
            raise Violation("RecoveryCompleted", text) from error

    def _judge(self, survivors: Survivors) -> None:
        """CommittedSurvives: the disk that goes on has every command that was committed."""
        self._account.checks.counts["CommittedSurvives"] += 1
        committed = self._account.metadata.committed
        if survivors.chosen.last_index < committed:
            node, end = survivors.chosen.node, survivors.chosen.last_index
            text = f"node {node} goes on from a log that ends with {end} of {committed} committed commands"
            self._account.fail(Violation("CommittedSurvives", text))

    def _metadata_of(self, plan: RecoveryPlan) -> Metadata:
        """As a node finds them that starts on the chosen disk."""
        machine = self._cluster.machines[plan.survivors.chosen.node]
        snapshot = read_snapshot(machine.disk, self._cluster.sealer)
        assert snapshot is not None
        image = ImageReader()
        for chunk in snapshot.chunks:
            image.take(chunk)
        metadata = Metadata(Guards(self._account.mutants))
        metadata.adopt(image)
        return metadata

    # -- the return ----------------------------------------------------------------------------------------

    def _return(self, who: tuple[Machine, dict[str, FileImage]], second: object) -> None:
        """A disk that was taken for destroyed is back, where nobody needs the one that has replaced it."""
        machine, held = who
        if not self._strikes.active or machine.number in self._returned:
            return
        if not self._atlas.allows_wipe(machine):
            return
        self._account.count("old members")
        self._account.row("return", f"node {machine.number} is back on a disk that was taken for destroyed")
        machine.kill()
        machine.disk.restore(held)
        self._atlas.note_disk(machine)
        self._returned[machine.number] = Returned(held, len(self._atlas.struck_logs(machine)))
        self._restart(machine, 100 * MILLISECOND)
        self._cluster.kernel.after(STAYS_US, self._put_one_away, machine)

    def _put_away(self) -> None:
        self._twins.put_away()
        for number in list(self._returned):
            self._put_one_away(self._cluster.machines[number], None)

    def _put_one_away(self, machine: Machine, second: object) -> None:
        """Judge the disk, and destroy it. OldMemberKept."""
        returned = self._returned.pop(machine.number, None)
        if returned is None:
            return
        self._account.checks.counts["OldMemberKept"] += 1
        joined = machine.node is not None and machine.node.incarnation
        machine.kill()
        kept = machine.disk.image()
        # What a fault has struck since is not what the node has done.
        logs = self._atlas.struck_logs(machine)[returned.struck_before :]
        struck = tuple(log_directory(log) + "/" for log in logs)
        lost = [
            path
            for path, image in sorted(returned.held.items())
            if path.startswith("streams/")
            and path.endswith(".log")
            and not path.startswith(struck)
            and (path not in kept or not kept[path].content.startswith(image.content))
        ]
        if joined or lost:
            what = f"has lost {lost[0]}" if lost else f"takes part as incarnation {joined}"
            text = f"node {machine.number}, back on a disk of an earlier epoch, {what}"
            self._account.fail(Violation("OldMemberKept", text))
        machine.disk.wipe()
        self._atlas.note_disk(machine)
        self._restart(machine, 100 * MILLISECOND)
