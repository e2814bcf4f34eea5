"""Watches every step of every node, keeps the truth up to date, checks the invariants on what was touched.

Both gears call `Observer.stepped` after each `Node.step`, before any effect of it is carried out. Only what
changed is looked at: the effects of this step, and the replicas that its outcome names; on every tick all of
the node's. A replica that has compacted or repaired something is read from its disk, record by record.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from liftlog.core.metadata.commands import Command, ExpireNode
from liftlog.core.metadata.records import CommandResult
from liftlog.core.node import Node
from liftlog.core.raft.raft import Raft
from liftlog.core.replica.replica import Replica
from liftlog.messages import (
    TIMER_TICK,
    AckPublishes,
    AppendLog,
    Compacted,
    CompactLog,
    Durable,
    Effect,
    Event,
    LogOpened,
    LogRead,
    LogRepaired,
    LogStartMoved,
    MoveLogStart,
    Outcome,
    PeerLost,
    RebuildLog,
    Received,
    RefusePublishes,
    ResetLog,
    RetainLog,
    Scrubbed,
    Send,
    StorageFailed,
    Subscribe,
    TimerFired,
    TrashLog,
    TruncateLog,
)
from liftlog.types import (
    RAFT_LOG,
    EpochStart,
    LogSummary,
    OffsetRange,
    PartitionId,
    Recovered,
    TailState,
)
from liftlog_sim.devices.cluster import Cluster
from liftlog_sim.devices.copies import LOG_STATES, NODE_STATES, state_problem
from liftlog_sim.devices.machine import Machine
from liftlog_sim.faults.faults import Faults
from liftlog_sim.faults.hunter import Hunter
from liftlog_sim.truth.account import Account
from liftlog_sim.truth.invariants import PartitionTruth, Violation, never_subscribed, nothing_held_back
from liftlog_sim.truth.raft import RaftTruth
from liftlog_sim.truth.removals import logs_of
from liftlog_sim.watching.busy import Busy
from liftlog_sim.watching.causes import Causes
from liftlog_sim.watching.compacting import CompactedCopies
from liftlog_sim.watching.failures import Failures
from liftlog_sim.watching.log_starts import LogStarts
from liftlog_sim.watching.paces import Paces
from liftlog_sim.watching.recoveries import Recoveries, of_another_epoch
from liftlog_sim.watching.retaining import Retaining
from liftlog_sim.watching.sessions import WholeSessions
from liftlog_sim.watching.sharing import SharedMessages
from liftlog_sim.watching.silence import HEARS_CONTACT, SAYS_CONTACT, Contacts, ProcessContact
from liftlog_sim.watching.snapshots import SnapshotWatch
from liftlog_sim.watching.step_watcher import StepWatcher
from liftlog_sim.watching.waiting import ANSWERS, READS, WaitingReads
from liftlog_sim.watching.writing import Pauses, WriteWatch

DurableLog = tuple[Sequence[EpochStart], int, int]
"""A log's epoch history, where its durable part ends, and where it begins."""


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

    __slots__ = ("commit", "contact", "led_term", "marks", "refused", "registered", "replicas")

    def __init__(self, contact: ProcessContact) -> None:
        self.contact = contact
        self.commit = 0
        self.refused = 0
        self.led_term = 0
        self.marks: dict[str, int] = {}
        self.registered = False
        self.replicas: dict[PartitionId, _Seen] = {}


class Observer:
    """Invariants after each step, and counters of what happened."""

    def __init__(self, cluster: Cluster, account: Account, faults: Faults, hunter: Hunter) -> None:
        self._cluster = cluster
        self._account, self._authors = account, account.authors
        self._faults = faults
        self._atlas = faults.atlas
        self._liars = faults.liars
        self._hunter = hunter
        faults.strikes.beyond_models = self._end_refining
        self.checks = account.checks
        self.metadata = account.metadata
        self.partitions = account.partitions
        self.counters = account.counters
        self.count, self.row = account.count, account.row
        self.truth, self.fail = account.truth, account.fail
        self.raft = RaftTruth(self.checks)
        faults.total_loss.on_recovered = Recoveries(account, self.raft, self._end_refining).began_anew
        self.applied = 0
        self.incarnations: dict[int, int] = {}
        self.marks: dict[str, int] = {}
        self.metadata_counts: dict[str, int] = {}
        self.on_step: Callable[[Machine, Event | None, list[Effect]], None] | None = None
        self.on_raised: Callable[[Machine, Event | None, Exception], None] | None = None
        """Told of what `node_failed` and `cannot_start` are told, before that is judged."""
        self._contacts, self._reads = Contacts(self.checks), WaitingReads(self.checks)
        self._sessions, self._pauses = WholeSessions(self.checks), Pauses(cluster.kernel, cluster.bus)
        self.causes = Causes(cluster, account)
        self._paces, self._shared = Paces(account), SharedMessages(self.checks)
        self._failures, self._writing = Failures(cluster, account), WriteWatch(self.checks)
        self._log_starts, self.busy = LogStarts(cluster, account), Busy(self.checks, cluster.kernel)
        self.compacting = CompactedCopies(cluster, account)
        self._on_event: dict[type[Event], Callable[[Machine, Any], None]] = {
            Compacted: self._compacted,
            LogRepaired: self._repaired,
            LogRead: self._read,
            **dict.fromkeys(ANSWERS, self._reads.answered),
            Scrubbed: self._scrubbed,
            LogStartMoved: self._log_start_moved,
            LogOpened: self._opened,
            Durable: self._log_starts.synced,
            StorageFailed: self._failures.failed,
            PeerLost: self._sessions.hinted,
        }
        self.refining: StepWatcher | None = None
        """Checks each step against the model, if this run is refined."""
        self.snapshots = SnapshotWatch(account, self.raft)
        self._views: dict[int, _View] = {}
        self._counts, self._lies, self._watched = account.checks.counts, faults.liars.lies, hunter.watched
        self._retaining = Retaining(self.checks)
        self._on_effect: dict[type[Effect], Callable[[Machine, Any], None]] = {
            AppendLog: self._append,
            TruncateLog: self._truncate,
            AckPublishes: self._acknowledge,
            RefusePublishes: self._refuse,
            RebuildLog: self._rebuild,
            ResetLog: self._reset,
            TrashLog: self._log_starts.trashed,
            CompactLog: lambda machine, effect: self._hunter.compacting(machine),
            RetainLog: self._retain,
            MoveLogStart: self._move,
            Subscribe: lambda machine, effect: self.count("subscriptions"),
            **dict.fromkeys(READS, self._reads.asked),
        }

    # -- the life of a process -----------------------------------------------------------------------------

    def starting(self, machine: Machine) -> None:
        """A process is about to read its disk: each state file must be whole. AtomicStateFiles."""
        self.checks.counts["AtomicStateFiles"] += 1
        disk = machine.disk
        harmed = [path for path, _, _ in disk.harmed()]
        for path in disk.files():
            folder, _, name = path.rpartition("/")
            wanted = LOG_STATES if folder.startswith("streams/") else NODE_STATES if not folder else ()
            if name not in wanted:
                continue
            problem = state_problem(path, disk.content(path))
            if problem and path not in harmed:
                text = f"node {machine.number} finds its state file {path} with {problem}"
                self.fail(Violation("AtomicStateFiles", text))

    def recovered(self, machine: Machine, recovered: Recovered) -> None:
        """A process has read its disk: what it promised before the crash must be there (R5, R7)."""
        self._log_starts.began(machine, recovered.logs, machine.is_exempt)
        self._contacts.began(machine)
        self._failures.began(machine)
        self._views[machine.number] = _View(self._contacts.of(machine))
        self._reads.began(machine)
        self.count("starts")
        machine.recovered = recovered
        try:
            if not machine.is_exempt:
                self._check_recovered(machine, self.partitions)
            for summary in recovered.logs:
                self._summary(machine, summary)
                if summary.tail in (TailState.DAMAGED, TailState.LOST):
                    self._must_be_struck(machine, summary.log, "its end")
        except Violation as violation:
            self.fail(violation)

    def created(self, machine: Machine) -> None:
        """The process has its node, which is not started yet."""
        self.snapshots.created(machine)
        self._sessions.created(machine)
        if self.refining is not None:
            try:
                self.refining.created(machine)
            except Violation as violation:
                self.fail(violation)

    def command_applied(self, machine: Machine, index: int, command: Command, result: CommandResult) -> None:
        """The node has applied a command of the metadata group, in the middle of a step."""
        self._authors.applied(index, command, machine.running.metadata)
        self._sessions.applied(machine, index, command, result)
        if isinstance(command, ExpireNode) and not result.code:
            self._contacts.session_ended(self._cluster.machines[command.node], index, command)
        self._paces.applied(machine, index, command, result)
        if self.refining is not None:
            self.refining.applied(machine, index, command, result)

    def _summary(self, machine: Machine, summary: LogSummary) -> None:
        """Storage says what it found when it opened a log."""
        self.checks.counts["NoFalseDamage"] += 1
        if summary.damage:
            self.count("damaged opens")
            self._must_be_struck(machine, summary.log, f"{summary.damage[0]}")
        if summary.leo > self._account.first_of(summary.log) and not summary.epochs:
            # Nothing is left but where it begins, and the history before that is gone as well.
            self._must_be_struck(machine, summary.log, "its whole history")
            self._end_refining()
        self._log_starts.opened(machine, summary, machine.is_exempt)
        self.compacting.clean_point(machine, summary.log, summary.clean_point)

    def _check_recovered(self, machine: Machine, partitions: Iterable[PartitionId]) -> None:
        """What a process found of these on its disk, where the metadata group counts on this node."""
        for partition in partitions:
            truth = self.truth(partition)
            if machine.number in truth.candidates and truth.hw:
                truth.on_isr_member(machine.number, *self._recovered_log(machine, partition))

    def _recovered_log(self, machine: Machine, partition: PartitionId) -> DurableLog:
        assert machine.recovered is not None
        for summary in machine.recovered.logs:
            if summary.log == partition:
                return summary.epochs, summary.leo, summary.log_start
        return (), 0, 0

    def cannot_start(self, machine: Machine, error: Exception, name: str) -> None:
        self.checks.counts[name] += 1
        if self.on_raised is not None:
            self.on_raised(machine, None, error)
        self.fail(Violation(name, f"node {machine.number} cannot start: {error}"))

    def stopped(self, machine: Machine, reason: str) -> None:
        self.count("stops")
        self.row("stop", f"node {machine.number} stopped: {reason}")

    def terminated(self, machine: Machine, handed_over: bool) -> None:
        """An orderly stop has come to its end, whether or not everything could be handed over."""
        self.count("orderly stops")
        if handed_over:
            self.count("hand-overs")
        self.row("stop", f"node {machine.number} ends{'' if handed_over else ' with offices left'}")

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

    def node_failed(self, machine: Machine, event: Event | None, error: Exception, name: str) -> None:
        """A node raised over this event; None: as it started, or in its storage. If the truth is violated
        already, that is the better explanation.
        """
        self.checks.counts[name] += 1
        if self.on_raised is not None:
            self.on_raised(machine, event, error)
        node = machine.node
        if node is not None:
            try:
                view = self._views[machine.number]
                self._look_at_raft(machine, node.raft, view)
                self._look_at(machine, node, view)
                self._look_at_replicas(machine, view, node.replicas)
            except Violation as violation:
                self.fail(violation)
        text = str(error) if name == "NodeInvariant" else "".join(traceback.format_exception(error)).strip()
        self.fail(Violation(name, f"node {machine.number}: {text}"))

    # -- each step -----------------------------------------------------------------------------------------

    def stepped(self, machine: Machine, event: Any, outcome: Outcome) -> None:
        """Check what this step touched; `event` None: the start. Raises `Violation`.

        Every step of every seed comes by here, and most touch next to nothing: what is seldom to be done is
        called, and only then.
        """
        effects, touched = outcome.effects, outcome.touched
        if self.on_step is not None:
            self.on_step(machine, event, effects)
        view, node = self._views[machine.number], machine.node
        assert node is not None
        try:
            self.busy.stepped(machine, event, effects)
            self._failures.look(machine)
            raft = node.raft
            self.snapshots.look(machine, raft)
            if raft.commit != view.commit or (raft.is_leader and raft.term != view.led_term):
                self._look_at_raft(machine, raft, view)
            # What was found while commands were applied, in the middle of the step.
            judged = self._authors.violation or self._sessions.violation
            judged = judged or self._contacts.violation or self._paces.violation or self.snapshots.violation
            if judged is not None:
                raise judged
            event_kind, contact = type(event), view.contact
            if event_kind is Received:
                if contact.unsettled or type(event.message) in HEARS_CONTACT:
                    contact.heard(event.sender, event.message)
            elif (heard := self._on_event.get(event_kind)) is not None:
                heard(machine, event)
            asked_of = self._on_effect.get
            for effect in effects:
                kind = type(effect)
                if kind is Send:
                    message = effect.message  # type: ignore[attr-defined]
                    if contact.unsettled or type(message) in SAYS_CONTACT:
                        contact.sent(message)
                        self._sessions.sent(machine, effect)  # type: ignore[arg-type]
                elif (look := asked_of(kind)) is not None:
                    look(machine, effect)
            metadata = node.metadata
            if metadata.applied > self.applied or not view.registered or self._watched:
                self._look_at(machine, node, view)
            if event_kind is TimerFired and event.kind == TIMER_TICK:
                self._look_at_replicas(machine, view, node.replicas)
            elif len(touched) > 1:
                in_order = [partition for partition in node.replicas if partition in touched]
                self._look_at_replicas(machine, view, in_order)
            elif touched:
                self._look_at_replicas(machine, view, touched)
            if touched:
                self._look_for_held_back(machine, touched)
            self._counts["HonestHeard"] += 1
            may_be_none = node.ctx.refused != view.refused or self._lies
            if may_be_none and not self._judge_refusal(machine, view, event, effects):
                return
            if self.refining is not None:
                self.refining.stepped(machine, event, outcome)
        except Violation as violation:
            self.fail(violation)

    def _judge_refusal(
        self, machine: Machine, view: _View, event: Event | None, effects: Sequence[Effect]
    ) -> bool:
        """A message was refused, or a lie may have come; whether the step is one for the models."""
        refused = machine.running.ctx.refused
        did_refuse, view.refused = refused != view.refused, refused
        of_another = did_refuse and of_another_epoch(machine.running, event)
        self._liars.judge(machine, event, did_refuse and not of_another)
        if self._liars.any_taken:
            # What an honest peer could have said is acted on.
            self._end_refining()
        return bool(effects) or not did_refuse

    def _end_refining(self) -> None:
        """No model knows of what comes; what was before has to be explained. Raises Violation."""
        if self.refining is not None:
            self.refining.check()
            self.refining = self._account.held = None

    def _look_at_raft(self, machine: Machine, raft: Raft, view: _View) -> None:
        """Leadership before anything it caused: two leaders of a term explain two contents of an entry."""
        base = self.snapshots.look(machine, raft)
        if raft.is_leader and raft.term != view.led_term:
            view.led_term = raft.term
            if self.raft.led(raft.term, machine.number):
                self.count("raft elections")
                self.row("controller", f"node {machine.number} leads the metadata group in term {raft.term}")
                self.raft.elected(machine.number, raft.term, raft.log, base)
                self._hunter.controller_elected(machine.number)
                self.causes.happened(f"node {machine.number} becomes controller")
        if raft.commit != view.commit:
            self.raft.committed(machine.number, raft.term, raft.log, view.commit, raft.commit, base)
            for entry in raft.raft_log.between(self.metadata.committed, raft.commit):
                self.metadata.commit(entry)
            view.commit = raft.commit

    def _look_at(self, machine: Machine, node: Node, view: _View) -> None:
        """The node as a whole."""
        if node.metadata.applied > self.applied:
            self._apply(node.metadata)
        if not view.registered and node.incarnation:
            self._registered(machine, view)
        if self._watched:
            self._hunter.look(machine, node, view.marks)

    def _look_at_replicas(self, machine: Machine, view: _View, touched: Iterable[PartitionId]) -> None:
        """Those of these that have moved since they were last seen."""
        replicas, views = machine.running.replicas, view.replicas
        for partition in touched:
            replica = replicas.get(partition)
            if replica is None:
                continue
            seen = views.get(partition)
            if seen is None:
                seen = views[partition] = _Seen()
            log = replica.log
            if (
                log.leo != seen.leo
                or log.hw != seen.hw
                or log.durable_leo != seen.durable_leo
                or log.epoch != seen.epoch
                or (log.leading is not None) != seen.leading
            ):
                self._moved(machine, partition, replica, seen)

    def _look_for_held_back(self, machine: Machine, touched: Sequence[PartitionId]) -> None:
        """A leader that has changed has committed whatever may be committed by now."""
        replicas = machine.running.replicas
        for partition in touched:
            replica = replicas.get(partition)
            if replica is not None and replica.leading is not None:
                self._counts["NothingHeldBack"] += 1
                nothing_held_back(machine.number, replica.log, replica.leading)
            self._account.hides(machine.number, machine.restarts, replica)

    def _moved(self, machine: Machine, partition: PartitionId, replica: Replica, seen: _Seen) -> None:
        """A replica's role or position has changed."""
        truth = self.truth(partition)
        number = machine.number
        # What is damaged it knows to be unknown (D2): the copy speaks for what lies behind it only.
        ranges = replica.repairs.ranges
        known_from = max(replica.log_start, ranges[-1].end if ranges else 0)
        leading = replica.role == "leader"
        if leading and (not seen.leading or replica.epoch != seen.epoch):
            assert machine.node is not None
            if truth.led(replica.epoch, number, machine.node.incarnation):
                self.count("elections")
                begun = f"in epoch {replica.epoch} from {replica.leo}"
                self.row("leader", f"node {number} leads {partition} {begun}")
                truth.elected(
                    *(number, replica.epoch, replica.epochs, replica.leo, replica.log_start, known_from)
                )
                self._hunter.leader_elected(number)
                self.causes.happened(f"node {number} becomes leader of {partition}")
        seen.leading = leading
        seen.epoch = replica.epoch
        before, claim = truth.hw, (number, replica.epoch, replica.epochs, replica.hw, replica.leo, known_from)
        if replica.hw > seen.hw and truth.claimed(*claim):
            self._account.grown(truth, before)
            self._cluster.kernel.note(truth.hw)
            self._check_isr(truth)
        seen.hw = replica.hw
        seen.leo = replica.leo
        fell = replica.durable_leo < seen.durable_leo
        seen.durable_leo = replica.durable_leo
        if fell and number in truth.candidates and not machine.is_exempt:
            truth.on_isr_member(number, replica.epochs, replica.durable_leo, replica.log_start)

    def _check_isr(self, truth: PartitionTruth) -> None:
        """The committed prefix, or who can be elected, has changed: all of these must have it durable."""
        for number in truth.candidates:
            machine = self._cluster.machines[number]
            node = machine.node
            if node is None or machine.is_exempt:
                continue  # A machine that is down is looked at when it recovers.
            truth.on_isr_member(number, *self._durable(machine, node.replicas.get(truth.id), truth.id))

    def _durable(self, machine: Machine, replica: Replica | None, partition: PartitionId) -> DurableLog:
        """A replica's durable log, as the node knows it or, before it began its run, as its recovery found
        it.
        """
        if replica is None:
            return self._recovered_log(machine, partition)
        if replica.state == "opening":
            return (), 0, 0
        return replica.epochs, replica.durable_leo, replica.log_start

    def _registered(self, machine: Machine, view: _View) -> None:
        """The process knows its incarnation, so the metadata group has judged what its disk still has
        (I2).
        """
        view.registered = True
        self._contacts.of(machine).begin()
        if 0 <= machine.damaged_run < machine.restarts:
            if self._atlas.registered(machine):
                self._faults.repaired(machine)
                self._check_recovered(machine, self.partitions)
            else:
                self._check_recovered(machine, self._atlas.gone(machine))

    def _apply(self, metadata: Any) -> None:
        """Somebody applied a newer metadata entry than anybody before: this is the committed ISR now."""
        self.applied = metadata.applied
        self.causes.looked()
        if len(metadata.partitions) != len(self.partitions):
            for truth in self.partitions.values():
                if truth.id.partition not in metadata.partitions:
                    truth.isr = truth.eligible = ()  # The stream was deleted: nobody is held to anything.
        for partition, state in metadata.partitions.items():
            self.checks.counts["ReadyIsSubscribed"] += state.ready
            config = metadata.by_id[partition.stream].config
            if not self._pauses.subscribed(state, config) and state.ready:
                self.fail(never_subscribed(state))
            for truth in map(self.truth, logs_of(metadata, partition)):
                if state.version == truth.version:
                    continue
                truth.version = state.version
                if (state.isr, state.eligible) != (truth.isr, truth.eligible):
                    if truth.isr and state.isr != truth.isr:
                        self.count("ISR changes")
                        self.row("isr", f"ISR of {truth.id}: {list(truth.isr)} -> {list(state.isr)}")
                    truth.isr, truth.eligible = state.isr, state.eligible
                    self._check_isr(truth)
                    for number in state.isr:
                        if self._atlas.refresh(self._cluster.machines[number]):
                            self._faults.repaired(self._cluster.machines[number])

    # -- events --------------------------------------------------------------------------------------------

    def _compacted(self, machine: Machine, event: Compacted) -> None:
        if not event.error:
            self.compacting.compacted(machine, event)
            return
        self.count("compaction errors")
        if event.damage is not None:
            self._found(machine, event.log, event.damage, "a compaction")

    def _repaired(self, machine: Machine, event: LogRepaired) -> None:
        if event.next_offset < event.range.end:
            return
        self.count("ranges repaired")
        self.compacting.lowered(machine, event.log, event.range.start)
        self.row("repair", f"node {machine.number} has repaired {event.range} of {event.log}")
        self.compacting.judge(machine, event.log)

    def _retain(self, machine: Machine, effect: RetainLog) -> None:
        self._retaining.asked(machine, effect)

    def _move(self, machine: Machine, effect: MoveLogStart) -> None:
        self._retaining.otherwise(machine, effect.log)

    def _read(self, machine: Machine, event: LogRead) -> None:
        self._reads.answered(machine, event)
        if event.damage is not None:
            self._found(machine, event.log, event.damage, "a read")

    def _scrubbed(self, machine: Machine, event: Scrubbed) -> None:
        self.count("scrubs")
        if event.damage is not None:
            self._found(machine, event.log, event.damage, "a scrub")

    def _must_be_struck(self, machine: Machine, log: PartitionId, what: str) -> None:
        if problem := self._atlas.not_struck(machine, log, what):
            raise Violation("NoFalseDamage", problem)

    def _found(self, machine: Machine, log: PartitionId, damage: OffsetRange, how: str) -> None:
        self.checks.counts["NoFalseDamage"] += 1
        self._must_be_struck(machine, log, str(damage))
        self.count(f"damage found by {how}")
        self.row("damage", f"node {machine.number} finds {damage} of {log} damaged, by {how}")

    def _log_start_moved(self, machine: Machine, event: LogStartMoved) -> None:
        if self._log_starts.moved(machine, event.log, event.log_start):
            self.count("log starts moved")
        self._retaining.moved(machine, event, self.truth(event.log), self._account.deletions)

    def _opened(self, machine: Machine, event: LogOpened) -> None:
        summary = event.summary
        self._failures.opened(machine, summary)
        if summary.leo == summary.log_start == self.truth(summary.log).first:
            self._log_starts.fresh(machine, summary.log)
        self._summary(machine, summary)

    # -- effects -------------------------------------------------------------------------------------------

    def _append(self, machine: Machine, effect: AppendLog) -> None:
        log = effect.log
        if log == RAFT_LOG:
            assert machine.node is not None
            first, base = effect.batches[0].base_offset + 1, self.snapshots.look(machine, machine.node.raft)
            self.raft.appended(machine.number, machine.node.raft.log, first, base)
            return
        truth = self.truth(log)
        self._contacts.appends(machine, log)
        self._writing.stores(machine, log, effect.batches)
        self._shared.stored(machine, log, effect.batches)
        for batch in effect.batches:
            truth.appended(machine.number, batch)
        self.count("appends")

    def _truncate(self, machine: Machine, effect: TruncateLog) -> None:
        if effect.log == RAFT_LOG:
            self.count("raft truncations")
        else:
            self.count("truncations")
            self.compacting.lowered(machine, effect.log, effect.offset)
            self.row("truncate", f"node {machine.number} cuts {effect.log} to {effect.offset}")

    def _acknowledge(self, machine: Machine, effect: AckPublishes) -> None:
        self._contacts.of(machine).check(f"acknowledges a message to {effect.partition}")
        replica = machine.running.replicas.get(effect.partition)
        durable_leo, epochs = (replica.durable_leo, replica.epochs) if replica else (0, [])
        self.truth(effect.partition).told(machine.number, effect, durable_leo, epochs)
        self.count("acks", sum(1 for reply in effect.replies if reply))

    def _refuse(self, machine: Machine, effect: RefusePublishes) -> None:
        self._contacts.of(machine).check(f"refuses a message to {effect.partition}")
        self.count("refusals", len(effect.replies))

    def _rebuild(self, machine: Machine, effect: RebuildLog) -> None:
        self.count("rebuilds")
        self.row("rebuild", f"node {machine.number} rebuilds {effect.log} up to {effect.keep_below}")

    def _reset(self, machine: Machine, effect: ResetLog) -> None:
        self.count("log resets")
        self.compacting.lowered(machine, effect.log, 0)
        self._log_starts.reset(machine, effect)
        self.row("reset", f"node {machine.number} begins {effect.log} anew at {effect.start}")
