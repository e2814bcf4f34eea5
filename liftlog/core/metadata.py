"""The metadata state machine: every node applies the same commands in the same order to the same state.

Its limits are constants, not configuration: two nodes with different limits would disagree on the state.

It holds all cluster state: nodes with their incarnations and sessions, streams, and for each partition who
leads, in which epoch, who is in sync (ISR) and who may be elected if the ISR is gone. It reads no clock and
draws nothing: equal logs give equal states on every node.

Rules kept here: I1 (ids), I2 (incarnations, wiped disks), R1 (an epoch belongs to one leader incarnation), R9
(ISR changes are compare-and-set, joiners checked at commit), R12 (the leader is in the ISR), R13 (eligible
replicas), R14 (tail states and `last_known`), R15 (reports), R16 (who is elected), M3 (idempotence).
"""

from __future__ import annotations

import msgspec

from liftlog.core.commands import (
    SPAN_MAX,
    ChangeIsr,
    Command,
    ConfirmNode,
    CreateStream,
    DeleteStream,
    ElectLeader,
    ExpireNode,
    ExpireReports,
    LeaderReady,
    LeaveNode,
    Rebalance,
    RegisterNode,
    ReplicaFailed,
    ReportLeader,
    RequestId,
    Resign,
    TailReport,
)
from liftlog.core.guards import Guards
from liftlog.core.limits import with_defaults
from liftlog.core.placement import Loads, choose_replicas
from liftlog.core.standins import doubtful_tails, fits_record, greatest_last_known
from liftlog.core.subjects import collision, config_problem, rivalry
from liftlog.messages import ERR_EXISTS, ERR_INVALID, ERR_NOT_FOUND
from liftlog.types import PartitionId, StreamConfig, TailState, invariant

STREAMS_MAX = 10_000
MUTANT_MEMORY = 8
"""How many results the mutant of M3 remembers, which lets a command take effect at any index."""

REGISTERED, LIVE, EXPIRED, LEFT = "registered", "live", "expired", "left"
GONE = (EXPIRED, LEFT)
"""States of a node whose session is over: it was lost, or stopped in an orderly way."""


class NodeState(msgspec.Struct):
    """One node. `confirmed` = the last incarnation that is known to be on its disk (I2)."""

    node: int
    disk_id: str
    incarnation: int
    nonce: int
    state: str
    since: int
    """Index at which `state` began."""
    confirmed: int
    address: str
    reset: bool = False
    """This incarnation was found wiped or rolled back: its partitions start empty, its vote is withheld."""


class LastKnown(msgspec.Struct):
    """R14: what a replica that may have lost its tail still had when it last reported."""

    epoch: int
    leo: int
    lost: bool = False
    """The disk was wiped or the log is gone: this copy counts as missing."""


class PartitionState(msgspec.Struct):
    """The committed record of one partition. `version` counts every change of it."""

    id: PartitionId
    replicas: tuple[int, ...]
    min_insync: int
    leader: int = 0
    leader_incarnation: int = 0
    epoch: int = 0
    led_since: int = 0
    """Index at which the epoch began."""
    version: int = 0
    isr: tuple[int, ...] = ()
    eligible: tuple[int, ...] = ()
    last_known: dict[int, LastKnown] = {}
    failures: dict[int, tuple[int, int]] = {}
    """R5: (incarnation, number) of the last failure that each replica has told."""
    ready: bool = False
    refused: dict[int, str] = {}
    """N1: whom NATS did not let subscribe when it last led in its present run, in the words of NATS."""
    reports: dict[int, int] = {}
    report_round: int = 0
    unclean_epochs: tuple[int, ...] = ()


class StreamState(msgspec.Struct):
    id: int
    config: StreamConfig
    partitions: list[PartitionId]


class Result(msgspec.Struct, frozen=True):
    """Outcome of a command. `code` empty = done."""

    code: str = ""
    detail: str = ""
    stream: int = 0


OK = Result()
STALE = Result("stale", "the precondition does not hold any more")
LATE = Result("late", "the index up to which this command meant something has passed")


class Metadata:
    """The replicated state. `apply` is the only way to change it."""

    def __init__(self, guards: Guards, streams_max: int = STREAMS_MAX) -> None:
        self._mutants = guards.mutants
        self._decides = guards.decides
        self._count = guards.mark
        self.counts = guards.marks
        self._streams_max = streams_max
        self.applied = 0
        self.nodes: dict[int, NodeState] = {}
        self.streams: dict[str, StreamState] = {}
        self.by_id: dict[int, StreamState] = {}
        self.partitions: dict[PartitionId, PartitionState] = {}
        self._loads = Loads()
        self.deleted_at = 0
        """Index at which the last stream was deleted."""
        self.results: dict[RequestId, Result] = {}
        """M3: of every command that was applied and whose bound has not passed."""
        self._ends: dict[int, list[RequestId]] = {}
        """Which of them may be forgotten behind an index."""
        self.changed: dict[PartitionId, None] = {}
        """Partitions touched since the owner last cleared this (a dict for its order)."""

    # -- the one entry ----------------------------------------------------------------------------

    def apply(self, index: int, command: Command | None) -> Result:
        """Apply the command at Raft `index` (None = a leader's no-op).

        A repeated request changes nothing, and neither does one whose bound has passed (M3).
        """
        invariant(index == self.applied + 1, f"metadata applied {self.applied}, then {index}")
        self.applied = index
        for request in self._ends.pop(index - 1, ()):
            del self.results[request]
        if command is None:
            return OK
        request = command.request
        if not index <= request.until <= index + SPAN_MAX and not self._mutants.commands_never_expire:
            self._count("M3.late")
            return LATE
        known = self.results.get(request)
        if known is not None:
            self._count("M3.repeat")
            return known
        result = self._dispatch(index, command)
        self._remember(request, result)
        return result

    def _remember(self, request: RequestId, result: Result) -> None:
        """Until the index passes the command's bound: from then on that refuses it."""
        self.results[request] = result
        if not self._mutants.commands_never_expire:
            self._ends.setdefault(request.until, []).append(request)
        elif len(self.results) > MUTANT_MEMORY:
            del self.results[next(iter(self.results))]

    def _dispatch(self, index: int, command: Command) -> Result:
        match command:
            case RegisterNode():
                return self._register(index, command)
            case ConfirmNode():
                return self._confirm(index, command)
            case ExpireNode() | LeaveNode():
                return self._end_session(index, command)
            case CreateStream():
                return self._create(index, command)
            case DeleteStream():
                return self._delete(index, command)
            case ChangeIsr():
                return self._change_isr(command)
            case ReplicaFailed():
                return self._replica_failed(command)
            case ReportLeader():
                return self._report(command)
            case ExpireReports():
                return self._expire_reports(command)
            case LeaderReady():
                return self._leader_ready(command)
            case Resign():
                return self._resign(command)
            case ElectLeader():
                return self._elect_explicitly(command)
            case Rebalance():
                return self._rebalance(command)

    # -- nodes (I2, R1, R14, R15) -----------------------------------------------------------------

    def is_live(self, node: int) -> bool:
        state = self.nodes.get(node)
        return state is not None and state.state == LIVE

    def _register(self, index: int, command: RegisterNode) -> Result:
        before = self.nodes.get(command.node)
        replaced = before.incarnation if before is not None else 0
        if not self._decides(("I2.stale-registration", command.replaces == replaced)):
            return STALE
        reset = before is not None and not self._decides(
            ("I2.other-disk", before.disk_id == command.disk_id),
            ("I2.rolled-back", command.remembered >= before.confirmed),
        )
        self.nodes[command.node] = NodeState(
            node=command.node,
            disk_id=command.disk_id,
            incarnation=index,
            nonce=command.nonce,
            state=REGISTERED,
            since=index,
            confirmed=before.confirmed if before is not None else 0,
            address=command.address,
            reset=reset,
        )
        if reset:
            self._count("I2.reset")
        reports = {report.partition: report for report in command.tails}
        born = before.confirmed if before is not None else 0
        for partition in self.partitions.values():
            if command.node in partition.replicas:
                self._register_replica(partition, command.node, reports.get(partition.id), reset, born)
        return OK

    def _register_replica(
        self, partition: PartitionState, node: int, report: TailReport | None, reset: bool, born: int
    ) -> None:
        """A new incarnation ends the old one's leadership (R1) and reports its tail (R14)."""
        partition.refused = {other: text for other, text in partition.refused.items() if other != node}
        self.changed[partition.id] = None
        if reset and not self._mutants.wiped_replica_rejoins:
            self._demote(partition, node, LastKnown(0, 0, lost=True))
        elif report is None and not (reset and self._mutants.wiped_replica_rejoins):
            # No folder: created after this node's last run began, its log may never have been opened; an
            # older one is gone.
            self._demote(partition, node, LastKnown(0, 0, lost=partition.id.stream <= born))
        elif report is not None:
            found = LastKnown(report.epoch, report.leo)
            if report.state == TailState.LOST.value:
                self._count("M4.lost")
                self._demote(partition, node, LastKnown(0, 0, lost=True))
            elif report.state in doubtful_tails(self.by_id.get(partition.id.stream)):
                self._count("R14.unsynced" if report.state == TailState.INTACT.value else "R14.suspect")
                self._demote(partition, node, found)
            elif node in partition.last_known and not partition.last_known[node].lost:
                partition.last_known[node] = found
        if partition.leader == node:
            if self._mutants.restarted_leader_keeps_epoch:
                partition.leader_incarnation = self.nodes[node].incarnation
                self._touch(partition)
                return
            self._count("R1.new-incarnation")
            self._elect(partition, avoid=node)
        elif partition.leader == 0:
            self._elect(partition)

    def _confirm(self, index: int, command: ConfirmNode) -> Result:
        node = self.nodes.get(command.node)
        if node is None:
            return STALE
        current = node.incarnation == command.incarnation and node.since == command.since
        if not self._decides(("I2.stale-confirmation", current and node.state != LIVE)):
            return STALE
        node.state = LIVE
        node.since = index
        node.confirmed = command.incarnation
        for partition in self.partitions.values():
            if command.node in partition.replicas:
                self.changed[partition.id] = None
                if partition.leader == 0:
                    self._elect(partition)
        return OK

    def _end_session(self, index: int, command: ExpireNode | LeaveNode) -> Result:
        """R15: the node leaves every ISR, and successors are chosen, in one command."""
        node = self.nodes.get(command.node)
        if node is None:
            return STALE
        current = node.incarnation == command.incarnation and node.since == command.since
        if not self._decides(("R15.stale-expiry", current and node.state not in GONE)):
            return STALE
        leaves = isinstance(command, LeaveNode)
        node.state = LEFT if leaves else EXPIRED
        node.since = index
        self._count("R15.leave" if leaves else "R15.expiry")
        for partition in self.partitions.values():
            if command.node in partition.isr:
                self._remove(partition, command.node)
            if partition.leader == command.node:
                self._elect(partition, avoid=command.node)
        return OK

    # -- streams (I1, N7, N9) ---------------------------------------------------------------------

    def _create(self, index: int, command: CreateStream) -> Result:
        config = with_defaults(command.config, len(self.nodes))
        existing = self.streams.get(config.name)
        if existing is not None:
            if existing.config == config:
                return Result(stream=existing.id)
            return Result(ERR_EXISTS, f"stream {config.name!r} exists with another configuration")
        late_is_good = self._mutants.commands_never_expire or self._mutants.creation_never_stale
        if command.as_of < self.deleted_at and not late_is_good:
            self._count("M3.stale-creation")
            return STALE
        problem = config_problem(config)
        for other in self.streams.values():
            problem = problem or collision(config, other.config)
            if not self._mutants.overlap_answered:
                problem = problem or rivalry(config, other.config)
        if problem:
            self._count("N7.collision")
        if not problem and len(self.streams) >= self._streams_max:
            problem = f"the cluster holds its maximum of {self._streams_max} streams: remove one first"
        if not problem and config.replication_factor > len(self.nodes):
            problem = (
                f"replication factor {config.replication_factor} needs as many nodes; "
                f"{len(self.nodes)} have registered"
            )
        if problem:
            return Result(ERR_INVALID, problem)
        stream = StreamState(id=index, config=config, partitions=[])
        self.streams[config.name] = self.by_id[index] = stream
        live = [node.node for node in self.nodes.values() if node.state == LIVE]
        nodes = sorted(self.nodes)
        for number in range(config.partitions):
            replicas = choose_replicas(config.replication_factor, nodes, live, self._loads)
            identity = PartitionId(index, number)
            partition = PartitionState(identity, tuple(replicas), config.min_insync_replicas)
            # R12: the first ISR is the live ones of the chosen replicas; if none is live yet, all of them,
            # since an empty ISR could never elect anybody, and an empty log is on all of them.
            partition.isr = tuple(node for node in replicas if node in live) or tuple(replicas)
            if not all(node in live for node in replicas):
                self._count("R12.not-live" if any(node in live for node in replicas) else "R12.none-live")
            stream.partitions.append(partition.id)
            self.partitions[partition.id] = partition
            self._loads.placed(replicas)
            # Also one that nobody leads yet: whoever comes back finds it.
            self.changed[partition.id] = None
            self._elect(partition)
        return Result(stream=index)

    def _delete(self, index: int, command: DeleteStream) -> Result:
        stream = self.by_id.get(command.stream)
        if self._mutants.delete_by_name:
            stream = self.streams.get(command.name)
        if stream is None:
            self._count("I1.deleted-before")
            return Result(ERR_NOT_FOUND, f"stream {command.name!r} was deleted meanwhile")
        del self.streams[stream.config.name]
        del self.by_id[stream.id]
        self.deleted_at = index
        for partition in stream.partitions:
            gone = self.partitions.pop(partition)
            self._loads.placed(gone.replicas, by=-1)
            self._loads.led(gone.leader, 0)
            self.changed[partition] = None
        return Result(stream=stream.id)

    # -- ISR (R9, R12, R13) -----------------------------------------------------------------------

    def _change_isr(self, command: ChangeIsr) -> Result:
        partition = self.partitions.get(command.partition)
        if partition is None:
            return STALE
        fits = fits_record(partition, command)
        if partition.version != command.version:
            self._count("R9.stale")
            # It alone decides only where the rest would go together with the record of now.
            if not fits or not self._decides(("R9.version", False)):
                return STALE
        joiner = self.nodes.get(command.joiner)
        joiner_ok = command.joiner == 0 or (
            joiner is not None and joiner.state == LIVE and joiner.incarnation == command.joiner_incarnation
        )
        if self._mutants.late_addition_of_old_incarnation:
            joiner_ok = True
        if not self._decides(("R9.leader", fits), ("R9.joiner", joiner_ok)):
            # The answer to a change is always a higher version: only that ends the leader's wait (R2).
            self._count("R9.rejected")
            self._touch(partition)
            return Result("rejected", "joiner is not the current live incarnation, or the leader has changed")
        removed = [node for node in partition.isr if node not in command.isr]
        partition.isr = tuple(node for node in partition.replicas if node in command.isr)
        self._after_isr_change(partition, removed)
        self._count("R9.addition" if command.joiner else "R9.removal")
        self._touch(partition)
        return OK

    def _after_isr_change(self, partition: PartitionState, removed: list[int]) -> None:
        """R13: below the minimum the removed stay eligible; at or above it nobody outside is."""
        if len(partition.isr) >= partition.min_insync:
            if partition.eligible or partition.last_known:
                self._count("R13.eligibility-ends")
            partition.eligible = ()
            partition.last_known = {}
        else:
            outside = [*partition.eligible, *removed]
            partition.eligible = tuple(
                node for node in partition.replicas if node in outside and node not in partition.isr
            )
            if removed:
                self._count("R13.eligible")

    def _remove(self, partition: PartitionState, node: int) -> None:
        """Take a lost node out of the ISR (R13, R15)."""
        partition.isr = tuple(member for member in partition.isr if member != node)
        self._after_isr_change(partition, [node])
        self._count("ISR.removal")
        self._touch(partition)

    def _demote(self, partition: PartitionState, node: int, found: LastKnown) -> None:
        """R14: a replica that may lack committed data leaves ISR and eligible in one command.

        It is remembered for the case that nobody else is left. That memory ends when the ISR is back at the
        minimum, since committed data is then elsewhere.
        """
        was_member = node in partition.isr or node in partition.eligible or node in partition.last_known
        if not was_member:
            return
        if node in partition.last_known and partition.last_known[node].lost:
            found.lost = True
        partition.isr = tuple(member for member in partition.isr if member != node)
        partition.eligible = tuple(member for member in partition.eligible if member != node)
        if len(partition.isr) >= partition.min_insync:
            partition.eligible = ()
            partition.last_known = {}
        else:
            partition.last_known = {**partition.last_known, node: found}
        self._touch(partition)

    def _replica_failed(self, command: ReplicaFailed) -> Result:
        partition = self.partitions.get(command.partition)
        node = self.nodes.get(command.node)
        if partition is None or node is None or node.incarnation != command.incarnation:
            return STALE
        told = (command.incarnation, command.failure)
        # If it was told before, or a later one was, what it says may not be so any more.
        if not self._decides(("R5.stale-failure", told > partition.failures.get(command.node, (0, 0)))):
            return STALE
        partition.failures = {**partition.failures, command.node: told}
        self._count("R5.failed-sync")
        if command.node in partition.isr:
            self._count("R14.failed-log")
        self._demote(partition, command.node, LastKnown(command.epoch, command.leo))
        if partition.leader in (command.node, 0):
            self._elect(partition, avoid=command.node)
        elif command.shortfall:
            # A leader counts fetches of its own epoch only: in a new one it knows nothing of this copy.
            self._lead(partition, partition.leader)
        self._touch(partition)
        return OK

    # -- elections (R1, R14, R15, R16) ------------------------------------------------------------

    def _report(self, command: ReportLeader) -> Result:
        partition = self.partitions.get(command.partition)
        reporter = self.nodes.get(command.reporter)
        if partition is None or partition.leader == 0 or reporter is None:
            return STALE
        current = reporter.incarnation == command.incarnation and command.reporter in partition.isr
        in_epoch = partition.epoch == command.epoch
        if not self._decides(("R15.epoch", in_epoch), ("R15.reporter", current)):
            return STALE
        if in_epoch and partition.report_round != command.round:
            return STALE
        partition.reports = {**partition.reports, command.reporter: command.incarnation}
        self.changed[partition.id] = None
        others = [node for node in partition.isr if node != partition.leader and self.is_live(node)]
        suspicious = [node for node in others if node in partition.reports]
        if suspicious and len(suspicious) * 2 > len(others):
            self._count("R15.election")
            self._elect(partition, avoid=partition.leader)
        elif suspicious:
            self._count("R15.majority")
        return OK

    def _expire_reports(self, command: ExpireReports) -> Result:
        partition = self.partitions.get(command.partition)
        if (
            partition is None
            or partition.epoch != command.epoch
            or partition.report_round != command.round
        ):
            return STALE
        if partition.reports:
            self._count("R15.reports-expire")
        partition.reports = {}
        partition.report_round += 1
        return OK

    def _leader_ready(self, command: LeaderReady) -> Result:
        partition = self.partitions.get(command.partition)
        if partition is None or partition.epoch != command.epoch or partition.leader == 0:
            return STALE
        refused = {node: text for node, text in partition.refused.items() if node != partition.leader}
        if command.refusal:
            self._count("N1.told-refused")
            refused[partition.leader] = command.refusal
        partition.refused = refused
        partition.ready = not command.refusal
        self.changed[partition.id] = None
        return OK

    def _resign(self, command: Resign) -> Result:
        partition = self.partitions.get(command.partition)
        if partition is None or partition.epoch != command.epoch or partition.leader == 0:
            return STALE
        if not self._decides(("N5.stale-resignation", partition.version == command.version)):
            return STALE
        if all(node == partition.leader or not self.is_live(node) for node in partition.isr):
            self._count("N5.nobody-else")
            return Result("rejected", "no other live replica is in sync")
        self._count("N5.handover")
        self._elect(partition, avoid=partition.leader)
        return OK

    def _elect_explicitly(self, command: ElectLeader) -> Result:
        partition = self.partitions.get(command.partition)
        if partition is None:
            return Result(ERR_NOT_FOUND, "the partition does not exist")
        if not self._decides(("R16.stale-election", partition.version == command.version)):
            return STALE
        if command.node not in partition.replicas or not self.is_live(command.node):
            return Result(ERR_INVALID, f"node {command.node} is no live replica of this partition")
        if command.node in partition.isr:
            self._lead(partition, command.node)
        elif command.node in partition.eligible and not any(self.is_live(node) for node in partition.isr):
            self._lead_from_eligible(partition, command.node)
        elif command.unclean:
            self._count("R16.unclean")
            partition.isr = (command.node,)
            partition.eligible = ()
            partition.last_known = {}
            self._lead(partition, command.node)
            partition.unclean_epochs = (*partition.unclean_epochs, partition.epoch)
        else:
            self._count("R16.may-lack")
            return Result(
                ERR_INVALID,
                f"node {command.node} may lack committed data; only an unclean election can choose it",
            )
        return OK

    def _rebalance(self, command: Rebalance) -> Result:
        moved = 0
        for partition in self.partitions.values():
            if partition.led_since > command.as_of:
                continue
            for node in partition.replicas:
                if node in partition.isr and self.is_live(node):
                    if node != partition.leader:
                        self._lead(partition, node)
                        moved += 1
                    break
        return Result(detail=f"{moved} partitions moved")

    def _elect(self, partition: PartitionState, avoid: int = 0) -> None:
        """R16: from the live ISR, else the live eligible, else by R14; else nobody. Ends the old epoch."""
        candidates = [node for node in partition.isr if self.is_live(node)]
        if len(candidates) < len(partition.isr):
            self._count("R16.not-live")
        wanted = [node for node in candidates if node != avoid] or candidates
        # N5: whom NATS refused comes last, since nothing would reach it.
        wanted = [node for node in wanted if node not in partition.refused] or wanted
        chosen = self._loads.least_leading(wanted)
        if chosen:
            self._lead(partition, chosen)
            return
        eligible = [node for node in partition.eligible if self.is_live(node)]
        if eligible:
            self._lead_from_eligible(partition, self._loads.least_leading(eligible))
            return
        chosen = greatest_last_known(partition, self.is_live, self._count)
        if chosen:
            self._count("R14.last-known")
            partition.isr = (chosen,)
            # The others are remembered until the ISR is back at the minimum: the chosen one may still be
            # found damaged, and then they are what is left.
            others = {node: known for node, known in partition.last_known.items() if node != chosen}
            partition.last_known = others if partition.min_insync > 1 else {}
            self._lead(partition, chosen)
        elif partition.leader:
            self._count("R16.nobody")
            self._lead(partition, 0)

    def _lead_from_eligible(self, partition: PartitionState, node: int) -> None:
        """R13: the elected one is the whole ISR; the others keep their eligibility."""
        self._count("R13.elected")
        outside = [*partition.isr, *partition.eligible]
        partition.isr = (node,)
        partition.eligible = tuple(m for m in partition.replicas if m in outside and m != node)
        self._lead(partition, node)

    def _lead(self, partition: PartitionState, node: int) -> None:
        """Begin a new epoch under `node` (0 = without a leader)."""
        invariant(node == 0 or node in partition.isr, f"leader {node} is not in the ISR {partition.isr}")
        self._loads.led(partition.leader, node)
        partition.leader = node
        partition.leader_incarnation = self.nodes[node].incarnation if node else 0
        partition.epoch += 1
        partition.led_since = self.applied
        partition.ready = False
        partition.reports = {}
        partition.report_round = 0
        self._count("election" if node else "leaderless")
        self._touch(partition)

    def _touch(self, partition: PartitionState) -> None:
        partition.version += 1
        self.changed[partition.id] = None
