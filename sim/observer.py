"""Watches every step of every node, keeps the truth up to date and checks the invariants on what was touched.

Both gears call `Observer.stepped` after each `Node.step`, before any effect of the step is carried out. Only
what changed is looked at: the effects of this step, and those replicas of this node whose position moved.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from liftlog.core.replica import Replica
from liftlog.messages import (
    AckPublishes,
    AppendLog,
    Effect,
    Event,
    RebuildLog,
    RefusePublishes,
    Subscribe,
    TruncateLog,
)
from liftlog.types import RAFT_LOG, EpochStart, PartitionId, Recovered
from sim.invariants import Checks, PartitionTruth, RaftTruth, Violation

if TYPE_CHECKING:
    from sim.machine import Machine
    from sim.world import World

Durable = tuple[Sequence[EpochStart], int]
"""A log's epoch history, and where its durable part ends."""

CRC_FIELD = slice(16, 20)
"""Where a batch's checksum lies (liftlog/format.py): it stands for the content."""


class _Seen:
    """What was last seen of one replica."""

    __slots__ = ("durable_leo", "epoch", "hw", "leading", "leo")

    def __init__(self) -> None:
        self.epoch = -1
        self.leo = -1
        self.durable_leo = -1
        self.hw = 0
        self.leading = False


class _View:
    """What was last seen of one process."""

    __slots__ = ("commit", "led_term", "marks", "registered", "replicas")

    def __init__(self) -> None:
        self.commit = 0
        self.led_term = 0
        self.marks: dict[str, int] = {}
        self.registered = False
        self.replicas: dict[PartitionId, _Seen] = {}


class Observer:
    """Invariants after each step, and counters of what happened."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.checks = Checks()
        self.raft = RaftTruth(self.checks)
        self.partitions: dict[PartitionId, PartitionTruth] = {}
        self.applied = 0
        self.incarnations: dict[int, int] = {}
        self.marks: dict[str, int] = {}
        self.metadata_counts: dict[str, int] = {}
        self.counters: dict[str, int] = {}
        self.steps = 0
        self.violation: Violation | None = None
        self.on_row: Callable[[str, str], None] | None = None
        self.on_step: Callable[[Machine, Event | None, list[Effect]], None] | None = None
        self.watched: dict[str, Callable[[Machine], None]] = {}
        """What to call when a node has reached the case of a rule (a mark) once more."""
        self._views: dict[int, _View] = {}
        self._on_effect: dict[type[Effect], Callable[[Machine, Any], None]] = {
            AppendLog: self._append,
            TruncateLog: self._truncate,
            AckPublishes: self._acknowledge,
            RefusePublishes: self._refuse,
            RebuildLog: self._rebuild,
            Subscribe: self._subscribe,
        }

    # -- bookkeeping ---------------------------------------------------------------------------------------

    def count(self, what: str, number: int = 1) -> None:
        self.counters[what] = self.counters.get(what, 0) + number

    def row(self, what: str, detail: str) -> None:
        """Something worth a status row happened."""
        if self.on_row is not None:
            self.on_row(what, detail)

    def truth(self, partition: PartitionId) -> PartitionTruth:
        truth = self.partitions.get(partition)
        if truth is None:
            truth = self.partitions[partition] = PartitionTruth(partition, self.checks)
        return truth

    def fail(self, violation: Violation) -> None:
        """Remember the first violation and end the run."""
        if self.violation is None:
            self.violation = violation
        raise self.violation

    # -- the life of a process -----------------------------------------------------------------------------

    def recovered(self, machine: Machine, recovered: Recovered) -> None:
        """A process has read its disk: what it promised before the crash must be there (R5, R7)."""
        self._views[machine.number] = _View()
        self.count("starts")
        machine.recovered = recovered
        if not self._exempt(machine):
            try:
                self._check_recovered(machine)
            except Violation as violation:
                self.fail(violation)

    def _check_recovered(self, machine: Machine) -> None:
        """What a process found on its disk, where the metadata group counts on this node."""
        for partition, truth in self.partitions.items():
            if machine.number in truth.isr and truth.hw:
                truth.on_isr_member(machine.number, *self._recovered_log(machine, partition))

    def _recovered_log(self, machine: Machine, partition: PartitionId) -> Durable:
        assert machine.recovered is not None
        for summary in machine.recovered.logs:
            if summary.log == partition:
                return summary.epochs, summary.leo
        return (), 0

    def cannot_start(self, machine: Machine, error: Exception) -> None:
        self.fail(Violation("NodeError", f"node {machine.number} cannot start: {error}"))

    def stopped(self, machine: Machine, reason: str) -> None:
        self.count("stops")
        self.row("stop", f"node {machine.number} stopped: {reason}")

    def start_refused(self, machine: Machine, error: Exception) -> None:
        """The disk failed during recovery, as it was told to: the process ends, and is started again."""
        self.count("failed starts")
        self.row("stop", f"node {machine.number} cannot start: {error}")

    def went_down(self, machine: Machine) -> None:
        """The process is about to be gone: keep its marks."""
        node = machine.node
        if node is None:
            return
        mine = self.marks
        for name, number in node.ctx.marks.items():
            mine[name] = mine.get(name, 0) + number
        # Every process replays the metadata log from its start, so its counts are not added but compared.
        for name, number in node.metadata.counts.items():
            if number > self.metadata_counts.get(name, 0):
                self.metadata_counts[name] = number

    def node_failed(self, machine: Machine, error: Exception, own_invariant: bool) -> None:
        """A node raised. If the truth is violated already, that is the better explanation."""
        name = "NodeInvariant" if own_invariant else "NodeError"
        self.checks.counts[name] += 1
        node = machine.node
        if node is not None:
            try:
                self._look_at_raft(machine)
                self._look_at(machine)
            except Violation as violation:
                self.fail(violation)
        text = str(error) if own_invariant else "".join(traceback.format_exception(error)).strip()
        self.fail(Violation(name, f"node {machine.number}: {text}"))

    def _exempt(self, machine: Machine) -> bool:
        """Whether this disk was damaged by us and the metadata group does not know yet (D3, I2, R14)."""
        return machine.damaged_run >= 0

    # -- each step -----------------------------------------------------------------------------------------

    def stepped(self, machine: Machine, event: Event | None, effects: list[Effect]) -> None:
        """Check what this step touched. Raises `Violation`."""
        self.steps += 1
        if self.on_step is not None:
            self.on_step(machine, event, effects)
        try:
            self._look_at_raft(machine)
            on_effect = self._on_effect
            for effect in effects:
                handler = on_effect.get(type(effect))
                if handler is not None:
                    handler(machine, effect)
            self._look_at(machine)
        except Violation as violation:
            self.fail(violation)

    def _look_at_raft(self, machine: Machine) -> None:
        """Leadership before anything it caused: two leaders of a term explain two contents of an entry."""
        node = machine.node
        assert node is not None
        view = self._views[machine.number]
        raft = node.raft
        if raft.is_leader and raft.term != view.led_term:
            view.led_term = raft.term
            if self.raft.led(raft.term, machine.number):
                self.count("raft elections")
                self.row("controller", f"node {machine.number} leads the metadata group in term {raft.term}")
                self.raft.elected(machine.number, raft.term, raft.log)
                self.world.hunter.controller_elected(machine.number)
        if raft.commit != view.commit:
            self.raft.committed(machine.number, raft.term, raft.log, view.commit, raft.commit)
            view.commit = raft.commit

    def _look_at(self, machine: Machine) -> None:
        node = machine.node
        assert node is not None
        view = self._views[machine.number]
        metadata = node.metadata
        if metadata.applied > self.applied:
            self._apply(metadata)
        if not view.registered and node.incarnation:
            self._registered(machine, view)
        for mark, strike in self.watched.items():
            number = node.ctx.marks.get(mark, 0)
            if number != view.marks.get(mark, 0):
                view.marks[mark] = number
                strike(machine)
        replicas = view.replicas
        for partition, replica in node.replicas.items():
            seen = replicas.get(partition)
            if seen is None:
                seen = replicas[partition] = _Seen()
            if (
                replica.leo != seen.leo
                or replica.hw != seen.hw
                or replica.durable_leo != seen.durable_leo
                or replica.epoch != seen.epoch
                or (replica.leading is not None) != seen.leading
            ):
                self._moved(machine, partition, replica, seen)

    def _moved(self, machine: Machine, partition: PartitionId, replica: Replica, seen: _Seen) -> None:
        """A replica's role or position has changed."""
        truth = self.truth(partition)
        number = machine.number
        leading = replica.role == "leader"
        if leading and (not seen.leading or replica.epoch != seen.epoch):
            assert machine.node is not None
            if truth.led(replica.epoch, number, machine.node.incarnation):
                self.count("elections")
                self.row(
                    "leader", f"node {number} leads {partition} in epoch {replica.epoch} from {replica.leo}"
                )
                truth.elected(number, replica.epoch, replica.epochs, replica.leo)
                self.world.hunter.leader_elected(number)
        seen.leading = leading
        seen.epoch = replica.epoch
        if replica.hw > seen.hw and truth.claimed(
            number, replica.epoch, replica.epochs, replica.hw, replica.leo
        ):
            self.world.kernel.note(truth.hw)
            self._check_isr(truth)
        seen.hw = replica.hw
        seen.leo = replica.leo
        fell = replica.durable_leo < seen.durable_leo
        seen.durable_leo = replica.durable_leo
        if fell and number in truth.isr and not self._exempt(machine):
            truth.on_isr_member(number, replica.epochs, replica.durable_leo)

    def _check_isr(self, truth: PartitionTruth) -> None:
        """The committed prefix or the committed ISR has changed: every member must have it durable."""
        for number in truth.isr:
            machine = self.world.machines[number]
            node = machine.node
            if node is None or self._exempt(machine):
                continue  # A machine that is down is looked at when it recovers.
            truth.on_isr_member(number, *self._durable(machine, node.replicas.get(truth.id), truth.id))

    def _durable(self, machine: Machine, replica: Replica | None, partition: PartitionId) -> Durable:
        """A replica's durable log, as the node knows it or, before it began its run, as its recovery found
        it.
        """
        if replica is None:
            return self._recovered_log(machine, partition)
        if replica.state == "opening":
            return (), 0
        return replica.epochs, replica.durable_leo

    def _registered(self, machine: Machine, view: _View) -> None:
        """The process knows its incarnation, so the metadata group has judged what its disk still has
        (I2).
        """
        view.registered = True
        if 0 <= machine.damaged_run < machine.restarts:
            machine.damaged_run = -1
            self.world.faults.repaired(machine)
            self._check_recovered(machine)

    def _apply(self, metadata: Any) -> None:
        """Somebody applied a newer metadata entry than anybody before: this is the committed ISR now."""
        self.applied = metadata.applied
        if len(metadata.partitions) != len(self.partitions):
            for truth in self.partitions.values():
                if truth.id not in metadata.partitions:
                    truth.isr = ()  # The stream was deleted: nobody is held to anything any more.
        for partition, state in metadata.partitions.items():
            truth = self.truth(partition)
            if state.version != truth.version:
                truth.version = state.version
                if state.isr != truth.isr:
                    if truth.isr:
                        self.count("ISR changes")
                        self.row("isr", f"ISR of {partition}: {list(truth.isr)} -> {list(state.isr)}")
                    truth.isr = state.isr
                    self._check_isr(truth)

    # -- effects -------------------------------------------------------------------------------------------

    def _append(self, machine: Machine, effect: AppendLog) -> None:
        log = effect.log
        if log == RAFT_LOG:
            assert machine.node is not None
            self.raft.appended(machine.number, machine.node.raft.log, effect.batches[0].base_offset + 1)
            return
        truth = self.truth(log)
        for batch in effect.batches:
            crc = int.from_bytes(batch.data[CRC_FIELD], "little")
            truth.appended(machine.number, batch.epoch, batch.base_offset, batch.count, crc)
        self.count("appends")

    def _truncate(self, machine: Machine, effect: TruncateLog) -> None:
        if effect.log == RAFT_LOG:
            self.count("raft truncations")
        else:
            self.count("truncations")
            self.row("truncate", f"node {machine.number} cuts {effect.log} to {effect.offset}")

    def _acknowledge(self, machine: Machine, effect: AckPublishes) -> None:
        end = effect.offsets_from + len(effect.replies)
        self.truth(effect.partition).acknowledged(effect.epoch, effect.offsets_from, end)
        self.count("acks", sum(1 for reply in effect.replies if reply))

    def _refuse(self, machine: Machine, effect: RefusePublishes) -> None:
        self.count("refusals", len(effect.replies))

    def _rebuild(self, machine: Machine, effect: RebuildLog) -> None:
        self.count("rebuilds")
        self.row("rebuild", f"node {machine.number} rebuilds {effect.log} up to {effect.keep_below}")

    def _subscribe(self, machine: Machine, effect: Subscribe) -> None:
        self.count("subscriptions")
