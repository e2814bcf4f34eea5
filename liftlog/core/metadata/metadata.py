"""The metadata state machine: every node applies the same commands in the same order to the same records.

Its limits are constants, not configuration: two nodes with different limits would disagree on the state.

It holds all cluster state: nodes with their incarnations and sessions, streams, and for each partition who
leads, in which epoch, who is in sync (ISR) and who may be elected if the ISR is gone. It reads no clock and
draws nothing: equal logs give equal records on every node. What a record may be is written in
`liftlog.core.metadata.records`, what commands do to a partition in `liftlog.core.metadata.partitions`.

Rules kept here: I1 (ids), I2 (incarnations, wiped disks), R12 (the first ISR of a partition), R15 (a session
ends), M3 (idempotence).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from liftlog.core.guards import Guards
from liftlog.core.metadata import activity, levels
from liftlog.core.metadata.activity import event_of, stream_of
from liftlog.core.metadata.alterations import (
    alteration_problem,
    altered,
    describe_alteration,
    minimum_problem,
)
from liftlog.core.metadata.commands import (
    SPAN_MAX,
    AdmitNode,
    AlterStream,
    ChangeIsr,
    Command,
    ConfirmNode,
    CopyDropped,
    CreateStream,
    DeleteStream,
    DrainNode,
    ElectLeader,
    ExpireNode,
    ExpireReports,
    FinishMove,
    ForgetSlow,
    LeaderReady,
    LeaveNode,
    MoveReplicas,
    PairFailed,
    PassVote,
    PromoteSpare,
    RaiseLevel,
    ReadyAgain,
    Rebalance,
    RegisterNode,
    RemoveNode,
    ReplicaFailed,
    ReportLeader,
    RequestId,
    Resign,
    RetireNode,
    SetVoter,
    TrimActivity,
)
from liftlog.core.metadata.gathering import regathered, regathering_problem
from liftlog.core.metadata.image import ImageReader
from liftlog.core.metadata.limits import with_defaults
from liftlog.core.metadata.moves import MoveCommands
from liftlog.core.metadata.origins import creation_problem
from liftlog.core.metadata.outbox import ROOM
from liftlog.core.metadata.pairs import found_of
from liftlog.core.metadata.partitions import PartitionCommands
from liftlog.core.metadata.placement import choose_replicas
from liftlog.core.metadata.records import (
    CONFIGURED,
    DOES_NOT_VOTE,
    EXPIRED,
    GONE,
    LATE,
    LEFT,
    LIVE,
    OK,
    REGISTERED,
    SPARE,
    STALE,
    VOTES,
    Admission,
    CommandResult,
    NodeState,
    PartitionState,
    Records,
    StreamState,
    replaced,
)
from liftlog.core.metadata.retiring import RetireCommands
from liftlog.core.metadata.subjects import collision, config_problem, rivalry
from liftlog.messages import ERR_EXISTS, ERR_INVALID, ERR_NOT_FOUND
from liftlog.types import Members, PartitionId, StreamConfig

STREAMS_MAX = 10_000
MUTANT_MEMORY = 8
"""How many results the mutant of M3 remembers, which lets a command take effect at any index."""


class Metadata(Records):
    """The replicated state. `apply` is the only way to change it."""

    def __init__(self, guards: Guards, streams_max: int = STREAMS_MAX, activity_room: int = ROOM) -> None:
        super().__init__(activity_room)
        self._mutants = guards.mutants
        self._decides = guards.decides
        self._count = guards.mark
        self.counts = guards.marks
        self._streams_max = streams_max
        self._partitions = PartitionCommands(self, guards)
        self._moves = MoveCommands(self, guards, self._partitions)
        self._retiring = RetireCommands(self, guards, self._moves)
        self._members: Members | None = None
        """M2: of the metadata group, by what was applied; None: those of its birth."""
        self.results: dict[RequestId, CommandResult] = {}
        """M3: of every command that was applied and whose bound has not passed."""
        self._ends: dict[int, list[RequestId]] = {}
        """Which of them may be forgotten behind an index."""

    # -- the one entry ----------------------------------------------------------------------------

    def apply(self, index: int, command: Command | None) -> CommandResult:
        """Apply the command at Raft `index` (None = a leader's no-op).

        A repeated request changes nothing, and neither does one whose bound has passed (M3).
        """
        self.begin(index)
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
        if levels.is_above(command, self.level):
            self._count("U2.above-level")
            result = CommandResult(ERR_INVALID, levels.refusal(command, self.level))
        else:
            result = self._take(index, command)
        self._remember(request, result)
        return result

    def adopt(self, image: ImageReader) -> None:
        """M1p: become what a whole snapshot says, which is what all commands up to its end have made."""
        head = image.head
        assert head is not None
        if image.members is not None:
            self.grouped(image.members)
        backward = self._mutants.install_of_older
        self.take_over(
            head.index,
            head.deleted_at,
            nodes=image.nodes,
            streams=image.streams,
            partitions=image.partitions,
            loads=image.loads,
            level=levels.FIRST if self._mutants.level_forgotten_in_snapshot else head.level,
            epoch=head.belongs_to,
            founders=head.founders,
            admissions=head.admissions,
            outbox=image.outbox,
            events=() if self._mutants.activity_forgotten_in_snapshot else image.events,
            backward=backward,
        )
        self.results = {} if self._mutants.snapshot_without_results else image.results
        self._ends = {}
        for request in self.results:
            self._ends.setdefault(request.until, []).append(request)

    @property
    def members(self) -> Members | None:
        """M2: of the group, by what was applied; None: those of its birth."""
        return self._members

    def grouped(self, members: Members) -> None:
        """M2: these are the group's members from the last entry on. They are Raft's own; here they say who
        cannot be removed, since the group may not be able to decide anything without him.
        """
        self._members = members

    def _remember(self, request: RequestId, result: CommandResult) -> None:
        """Until the index passes the command's bound: from then on that refuses it."""
        self.results[request] = result
        if not self._mutants.commands_never_expire:
            self._ends.setdefault(request.until, []).append(request)
        elif len(self.results) > MUTANT_MEMORY:
            del self.results[next(iter(self.results))]

    def _take(self, index: int, command: Command) -> CommandResult:
        """N12: what it does is told, if there is an activity stream then."""
        stream = stream_of(command, self)
        result = self._dispatch(index, command)
        if self.outbox.on and not result.code:
            event = event_of(self, command, stream, self.replaced)
            if event is not None and not self.outbox.add(event):
                self._count("N12.missed")
        return result

    def _dispatch(self, index: int, command: Command) -> CommandResult:
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
                return self._delete(command)
            case AlterStream():
                return self._alter(index, command)
            case ChangeIsr():
                return self._partitions.change_isr(command)
            case ReplicaFailed() | PairFailed():
                return self._partitions.replica_failed(command)
            case ReportLeader():
                return self._partitions.report(command)
            case ExpireReports():
                return self._partitions.expire_reports(command)
            case LeaderReady() | ReadyAgain():
                return self._partitions.leader_ready(command)
            case Resign():
                return self._partitions.resign(command)
            case ForgetSlow():
                return self._partitions.forget_slow(command)
            case ElectLeader():
                return self._partitions.elect_explicitly(command)
            case SetVoter():
                return self._set_voter(index, command)
            case PromoteSpare():
                return self._promote_spare(index, command)
            case AdmitNode():
                return self._admit(index, command)
            case RemoveNode():
                return self._remove(command)
            case Rebalance():
                return self._partitions.rebalance(command)
            case MoveReplicas():
                return self._moves.move(index, command)
            case FinishMove():
                return self._moves.finish(command)
            case CopyDropped():
                return self._moves.dropped(command)
            case DrainNode():
                return self._moves.drain(index, command)
            case RetireNode():
                return self._retiring.retire(index, command)
            case PassVote():
                return self._retiring.pass_vote(index, command)
            case RaiseLevel():
                return self._raise_level(command)
            case TrimActivity():
                return self._trim(index, command)

    # -- activity (N12) ---------------------------------------------------------------------------

    def _trim(self, index: int, command: TrimActivity) -> CommandResult:
        outbox = self.outbox
        if not outbox.on or command.stream != outbox.stream:
            self._count("N12.other-stream")
            return STALE
        if not outbox.trimmed < command.up_to < index:
            self._count("N12.late-trim")
            return STALE
        outbox.trim(command.up_to)
        self._count("N12.trimmed")
        return OK

    # -- versions (U2) ----------------------------------------------------------------------------

    def _raise_level(self, command: RaiseLevel) -> CommandResult:
        if command.to <= self.level:
            return STALE
        said = {one.node: one for one in command.nodes}
        runs = {number: one.incarnation for number, one in said.items()}
        current = all(runs.get(node.node) == node.incarnation for node in self.nodes.values())
        if not current and not self._mutants.level_of_earlier_run:
            self._count("U2.other-run")
            return STALE
        if any(one.level < command.to for one in command.nodes):
            self._count("U2.cannot")
            return STALE
        self.raise_level(command.to)
        self._count("U2.raised")
        return OK

    # -- nodes (I2, R15) --------------------------------------------------------------------------

    def _register(self, index: int, command: RegisterNode) -> CommandResult:
        if not self._decides(("I3.removed", not self.is_removed(command.node))):
            return STALE
        before = self.nodes.get(command.node)
        replaces = before.incarnation if before is not None else 0
        if not self._decides(("I2.stale-registration", command.replaces == replaces)):
            return STALE
        same_disk = before is None or before.disk_id == command.disk_id
        gone = before is None or before.state in GONE or self._mutants.wiped_replica_rejoins
        if not self._decides(("I2.two-disks", same_disk or gone)):
            return STALE
        reset = before is not None and not self._decides(
            ("I2.other-disk", same_disk),
            ("I2.rolled-back", command.remembered >= before.confirmed),
        )
        confirmed = before.confirmed if before is not None else 0
        self.put_node(
            NodeState(
                node=command.node,
                disk_id=command.disk_id,
                incarnation=index,
                nonce=command.nonce,
                state=REGISTERED,
                since=index,
                confirmed=confirmed,
                address=command.address,
                reset=reset,
                forgot=reset and same_disk,
                vote_id=command.vote_id,
                voter=before.voter if before is not None else CONFIGURED,
                voter_at=before.voter_at if before is not None else 0,
                drains=before is not None and before.drains and not self._mutants.drained_until_restart,
                drains_at=before.drains_at if before is not None else 0,
                **self._wish(before),
            )
        )
        if reset:
            self._count("I2.reset")
            for partition in self.to_be_dropped_by(command.node):
                self.put_partition(partition.without_dropping(command.node))
        reports = {report.partition: report for report in command.tails}
        for partition in self.replicas_on(command.node):
            found = found_of(self.by_id[partition.id.stream], partition, reports)
            self.put_partition(self._partitions.registered(partition, command.node, found, reset, confirmed))
        return OK

    def _wish(self, before: NodeState | None) -> dict[str, Any]:
        """I3: a node that retires does so in its next run too, and on another disk."""
        if before is None or self._mutants.retires_until_restart:
            return {}
        return {"retires": before.retires, "heir": before.heir, "retires_at": before.retires_at}

    def _confirm(self, index: int, command: ConfirmNode) -> CommandResult:
        node = self.nodes.get(command.node)
        if node is None:
            return STALE
        current = node.incarnation == command.incarnation and node.since == command.since
        if not self._decides(("I2.stale-confirmation", current and node.state != LIVE)):
            return STALE
        self.put_node(replaced(node, state=LIVE, since=index, confirmed=command.incarnation))
        for partition in self.replicas_on(command.node):
            self.put_partition(partition if partition.leader else self._partitions.elect(partition))
        return OK

    def _admit(self, index: int, command: AdmitNode) -> CommandResult:
        if not self._decides(("I3.stale", command.version == self.admitted_at)):
            return STALE
        self.admit(Admission(command.node, command.address, index), tuple(command.founders))
        self._count("I3.admit")
        return OK

    def _remove(self, command: RemoveNode) -> CommandResult:
        """I3: what holds is judged here, since copies and votes may have come since an operator looked."""
        node = self.nodes.get(command.node)
        founders = self.founders or tuple(command.founders)
        numbers = [founder for founder, _ in founders]
        votes = command.node in (self._members.nodes if self._members is not None else numbers)
        votes = votes or (self._members is not None and self._members.member(command.node) is not None)
        idle = not votes and (node is None or not node.is_to_vote(numbers))
        wished = node is not None and node.retires and node.retires_at == command.wish
        if self._mutants.removed_with_copies:
            self._tear_away(command.node)
        if not self._decides(
            ("I3.stale", command.version == self.admitted_at),
            ("I3.taken-back", command.wish == 0 or wished),
            ("I3.keeps", not self.replicas_on(command.node)),
            ("I3.votes", idle),
            ("I3.heir", not self.replaced_by(command.node)),
        ):
            return STALE
        self.remove_node(command.node, founders)
        self._count("I3.remove")
        return OK

    def _tear_away(self, node: int) -> None:
        """Planted: moves that take copies from a node end, whoever is in sync."""
        for partition in self.replicas_on(node):
            if node in partition.leaving:
                self.put_partition(self._partitions.lead_on(partition.settled()))

    def _set_voter(self, index: int, command: SetVoter) -> CommandResult:
        node = self.nodes.get(command.node)
        known = command.version == self.voters_at
        if node is None or not self._decides(("M2.stale-wish", known)):
            return STALE
        self.put_node(replaced(node, voter=VOTES if command.votes else DOES_NOT_VOTE, voter_at=index))
        return OK

    def _promote_spare(self, index: int, command: PromoteSpare) -> CommandResult:
        node, spare = self.nodes.get(command.node), self.nodes.get(command.spare)
        known = command.version == self.voters_at
        if node is None or spare is None or not self._decides(("M2.stale-wish", known)):
            return STALE
        gone = node.since == command.since and node.state in GONE
        if not self._decides(("M2.back", gone)):
            return STALE
        self.put_node(replaced(node, voter=SPARE, voter_at=index))
        self.put_node(replaced(spare, voter=VOTES, voter_at=index))
        self._count("M2.spare")
        return OK

    def _end_session(self, index: int, command: ExpireNode | LeaveNode) -> CommandResult:
        """R15: the node leaves every ISR, and successors are chosen, in one command."""
        node = self.nodes.get(command.node)
        if node is None:
            return STALE
        current = node.incarnation == command.incarnation and node.since == command.since
        if not self._decides(("R15.stale-expiry", current and node.state not in GONE)):
            return STALE
        leaves = isinstance(command, LeaveNode)
        self.put_node(replaced(node, state=LEFT if leaves else EXPIRED, since=index))
        self._count("R15.leave" if leaves else "R15.expiry")
        for partition in self.replicas_on(command.node):
            if command.node in (partition.leader, *partition.isr):
                self.put_partition(self._partitions.without(partition, command.node))
        return OK

    # -- streams (I1, N7, N9) ---------------------------------------------------------------------

    def _create(self, index: int, command: CreateStream) -> CommandResult:
        config = with_defaults(command.config, len(self.nodes))
        existing = self.streams.get(config.name)
        if existing is not None:
            if existing.config == config:
                return CommandResult(stream=existing.id)
            return CommandResult(ERR_EXISTS, f"stream {config.name!r} exists with another configuration")
        late_is_good = self._mutants.commands_never_expire or self._mutants.creation_never_stale
        if command.as_of < self.deleted_at and not late_is_good:
            self._count("M3.stale-creation")
            return STALE
        problem = config_problem(config) or creation_problem(self, config)
        problem = problem or activity.creation_problem(self, config)
        for other in () if problem else self.near(config):
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
            return CommandResult(ERR_INVALID, problem)
        identities = tuple(PartitionId(index, number) for number in range(config.partitions))
        self.put_stream(StreamState(index, config, identities))
        self._place(identities, config)
        return CommandResult(stream=index)

    def _place(self, identities: Sequence[PartitionId], config: StreamConfig, added: int = 0) -> None:
        """R12: partitions that are new get their replicas, spread over the nodes, and leaders. `added`: as of
        their records.
        """
        live = [node.node for node in self.nodes.values() if node.state == LIVE]
        nodes = sorted(node.node for node in self.nodes.values() if not node.is_emptied)
        if len(nodes) < config.replication_factor:
            nodes = sorted(self.nodes)
        for identity in identities:
            replicas = choose_replicas(config.replication_factor, nodes, live, self.loads)
            # R12: the first ISR is the live ones of the chosen replicas; if none is live yet, all of them,
            # since an empty ISR could never elect anybody, and an empty log is on all of them.
            isr = tuple(node for node in replicas if node in live) or tuple(replicas)
            if not all(node in live for node in replicas):
                self._count("R12.not-live" if any(node in live for node in replicas) else "R12.none-live")
            minimum = config.min_insync_replicas
            partition = PartitionState(identity, tuple(replicas), minimum, isr=isr, added=added)
            self.add_partition(partition)
            self.put_partition(self._partitions.elect(partition))

    def _delete(self, command: DeleteStream) -> CommandResult:
        stream = self.by_id.get(command.stream)
        if self._mutants.delete_by_name:
            stream = self.streams.get(command.name)
        if stream is None:
            self._count("I1.deleted-before")
            return CommandResult(ERR_NOT_FOUND, f"stream {command.name!r} was deleted meanwhile")
        self.remove_stream(stream)
        return CommandResult(stream=stream.id)

    def _alter(self, index: int, command: AlterStream) -> CommandResult:
        """R19: what changes nothing is an alteration too: what was on its way before it comes too late."""
        stream = self.by_id.get(command.stream)
        if stream is None:
            return CommandResult(ERR_NOT_FOUND, f"stream {command.name!r} was deleted meanwhile")
        seen = command.revision == stream.revision or self._mutants.alteration_blind
        if not self._decides(("R19.stale", seen)):
            return STALE
        config = regathered(self, stream, altered(stream.config, command.changes))
        problem = alteration_problem(stream.config, command.changes)
        problem = problem or regathering_problem(self, stream, config)
        factor = command.changes.replication_factor
        resized: dict[PartitionId, Sequence[int]] = {}
        if not problem and factor is not UNSET and factor != stream.config.replication_factor:
            resized = {one: self._moves.resized(one, factor) for one in stream.partitions}
            if any(len(replicas) < factor for replicas in resized.values()):
                problem = f"replication factor {factor} needs as many nodes that can have a copy now"
        if not problem and command.changes.min_insync_replicas is not UNSET:
            copies = {one: resized.get(one, self.partitions[one].meant) for one in stream.partitions}
            problem = minimum_problem(config.min_insync_replicas, copies)
        if not problem and config.partitions > stream.config.partitions:
            problem = self._growth_problem(stream, config)
        moves = config.subjects != stream.config.subjects
        listens_anew = moves or config.max_payload_bytes != stream.config.max_payload_bytes
        if not problem and moves:
            problem = self._subjects_problem(stream, config)
        if problem:
            self._count("R19.refused")
            return CommandResult(ERR_INVALID, problem)
        new = [PartitionId(stream.id, number) for number in range(len(stream.partitions), config.partitions)]
        identities = (*stream.partitions, *new)
        self.alter_stream(replaced(stream, config=config, partitions=identities, revision=index))
        if config.paused and not stream.config.paused:
            # N1: who leads has a subscription until it has heard of this, but is not to be relied upon.
            for one in stream.partitions:
                self.put_partition(replaced(self.partitions[one], ready=False, paused_at=index))
        elif listens_anew:
            # N10: ready is who has the new ones since; what NATS has refused was about others.
            self._count("N10.subjects")
            for one in stream.partitions:
                anew = replaced(self.partitions[one], ready=False, refused={}, paused_at=index)
                self.put_partition(anew)
        for one, replicas in resized.items():
            self._moves.begin(index, self.partitions[one], replicas)
        for one in stream.partitions:
            self._partitions.alter_minimum(self.partitions[one], config.min_insync_replicas)
        if new:
            self._count("R19.partitions")
            self._place(new, config, added=index)
        return CommandResult(detail=describe_alteration(stream.config, config), stream=stream.id)

    def _subjects_problem(self, stream: StreamState, config: StreamConfig) -> str:
        """N10: why another stream does not let this one listen there; empty if all do."""
        for other in self.near(config):
            if other.id != stream.id:
                problem = collision(config, other.config) or rivalry(config, other.config)
                if problem:
                    self._count("N7.collision")
                    return problem
        return ""

    def _growth_problem(self, stream: StreamState, config: StreamConfig) -> str:
        """R19, N7: why the stream cannot have more partitions now; empty if it can."""
        if len(self.nodes) < config.replication_factor:
            return f"replication factor {config.replication_factor} needs as many nodes to put partitions on"
        others = (other.config for other in self.near(config) if other.id != stream.id)
        problem = next(filter(None, (collision(config, other) for other in others)), "")
        if not problem or self._mutants.partitions_added_unchecked:
            return ""
        self._count("N7.growth")
        return f"{problem}: remove that stream, or choose fewer partitions"
