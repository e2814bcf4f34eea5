"""Makes the lines of one process's trace about replicas and their group (`replica_lines.py`).

A recorder looks after each step at the replicas that the outcome names, and changes nothing. What only the
moment shows is noted at once (`seen`), and the lines can be made of it later, so that whoever watches many
steps pays for little while they happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

import msgspec

from liftlog.core.commands import (
    ChangeIsr,
    Command,
    ConfirmNode,
    CreateStream,
    DeleteStream,
    ElectLeader,
    ExpireNode,
    LeaveNode,
    Rebalance,
    RegisterNode,
    ReplicaFailed,
)
from liftlog.core.metadata import Metadata
from liftlog.core.node import Node
from liftlog.core.records import LIVE, PartitionState, Result
from liftlog.core.replica import Replica
from liftlog.format import CorruptBatch, read_header
from liftlog.messages import (
    AppendLog,
    Effect,
    Event,
    Fetch,
    FetchProgress,
    FetchReply,
    Outcome,
    Received,
    Send,
)
from liftlog.trace.replica_lines import (
    Cause,
    Copy,
    Found,
    Group,
    GroupStep,
    Letter,
    Member,
    Office,
    Pending,
    ReplicaState,
    ReplicaStep,
    Report,
    Step,
    View,
)
from liftlog.types import RAFT_LOG, LiftlogError, PartitionId

SPOKEN = frozenset((Fetch, FetchProgress, FetchReply))
"""Messages of replication, of which each line says what came and what was sent."""


class Told:
    """The group's commands that were told, up to an index, and each partition's record after them. Shared by
    the recorders of all nodes where somebody sees all of them: all apply the same commands."""

    __slots__ = ("index", "records")

    def __init__(self) -> None:
        self.index = 0
        self.records: dict[PartitionId, Group] = {}

    def begin(self, index: int) -> bool:
        """The command at `index` is to be told; False if it was."""
        if index <= self.index:
            return False
        self.index = index
        return True

    def put(self, partition: PartitionId, record: Group | None) -> None:
        if record is None:
            self.records.pop(partition, None)
        else:
            self.records[partition] = record


States = Sequence[tuple[PartitionId, ReplicaState | None]]
"""Replicas that were touched, as they are now; `None` for those that are gone."""
Reports = Sequence[tuple[PartitionId, Report]]
Seen = tuple[Event | None, Sequence[Effect], int, int, States, Sequence[GroupStep], Reports]
"""What a step leaves that only it can tell; lines are made of it at once, or later. The numbers are the
incarnation and the index of the last command that was applied."""


class _Deeds:
    """What one step did about one replica, beside changing it."""

    __slots__ = ("appended", "reports", "sent")

    def __init__(self) -> None:
        self.sent: list[Letter] = []
        self.appended: list[tuple[int, int]] = []
        self.reports: list[Report] = []


NO_DEEDS: dict[PartitionId, _Deeds] = {}
NO_LINES: Sequence[Step] = ()
NO_STATES: States = ()
NO_GROUPS: Sequence[GroupStep] = ()


class Recorder:
    """Makes the trace of one process.

    Create it before `Node.start`. `applied` is the node's hook of that name; call `stepped` with each outcome
    (that of the start with event None), before anything else is done with the node. Who has no use for the
    lines yet calls `seen` in its place, and later, in the same order, `lines`.
    """

    def __init__(self, node: Node, told: Told | None = None) -> None:
        self._node = node
        self._me = node.config.node
        self._told = told if told is not None else Told()
        self._number = 0
        self._groups: list[GroupStep] = []
        self._last: dict[PartitionId, ReplicaState] = {}
        """Of each replica: as it was after the last step of which lines were made ..."""
        self._last_told: dict[PartitionId, ReplicaState] = {}
        """... and in the last line about it."""
        self._failures: dict[PartitionId, int] = {}
        """Number of the last failure that each replica has told."""
        self.replica_steps = 0
        """Steps of replicas: each of the node's is one of every replica, whether or not it did anything."""

    def stepped(self, event: Event | None, outcome: Outcome) -> Sequence[Step]:
        """The lines of the step that has just been done."""
        seen = self.seen(event, outcome)
        return self.lines(seen) if seen is not None else NO_LINES

    def seen(self, event: Event | None, outcome: Outcome) -> Seen | None:
        """What has to be kept of the step that has just been done; None if there is no line of it."""
        node = self._node
        self.replica_steps += len(node.replicas)
        effects, touched, groups = outcome.effects, outcome.touched, self._groups
        if not (effects or touched or groups or _about(event) is not None):
            return None
        states: States = NO_STATES
        reports: Reports = ()
        if touched:
            states = [(each, _state(node.replicas.get(each), node)) for each in touched]
            reports = [(each, report) for each in touched if (report := self._report(each)) is not None]
        self._groups = [] if groups else groups
        told = groups or NO_GROUPS
        return event, effects, node.ctx.incarnation, node.metadata.applied, states, told, reports

    def lines(self, seen: Seen) -> Sequence[Step]:
        """The lines of a step."""
        event, effects, _, _, states, groups, reports = seen
        deeds = self._deeds(effects) if effects else NO_DEEDS
        about = _about(event)
        if not (deeds or states or groups or about is not None):
            return NO_LINES
        if reports:
            deeds = {**deeds}
            for partition, report in reports:
                _deeds_of(deeds, partition).reports.append(report)
        lines: list[Step] = []
        for line in groups:
            self._number += 1
            msgspec.structs.force_setattr(line, "number", self._number)
            lines.append(line)
        last = self._last
        looked_at = dict.fromkeys(deeds)
        if about is not None:
            looked_at[about] = None
        gone: list[PartitionId] = []
        for partition, state in states:
            if state is None:
                last.pop(partition, None)
                gone.append(partition)
            else:
                last[partition] = state
                looked_at[partition] = None
        for partition in looked_at:
            if partition in last:
                self._look(lines, seen, partition, deeds.get(partition), partition == about)
        for partition in gone:
            if self._last_told.pop(partition, None) is not None:
                self._add_replica(lines, seen, partition, _cause(event, None), None, deeds.get(partition))
        return lines

    def _deeds(self, effects: Sequence[Effect]) -> dict[PartitionId, _Deeds]:
        deeds = NO_DEEDS
        for effect in effects:
            if type(effect) is Send:
                message = effect.message
                if type(message) in SPOKEN:
                    deeds = deeds or {}
                    letter = _letter(message, self._me, effect.to)
                    _deeds_of(deeds, message.partition).sent.append(letter)  # type: ignore[union-attr]
            elif type(effect) is AppendLog and effect.log != RAFT_LOG:
                deeds = deeds or {}
                ends = [(batch.epoch, batch.end_offset) for batch in effect.batches]
                _deeds_of(deeds, effect.log).appended.extend(ends)
        return deeds

    # -- replicas ---------------------------------------------------------------------------------

    def _report(self, partition: PartitionId) -> Report | None:
        """What a replica says of itself to the group, when it begins to: that is a message, too."""
        replica = self._node.replicas.get(partition)
        said = replica.log.confession.said if replica is not None else None
        if said is None or said.failure == self._failures.get(partition):
            return None
        self._failures[partition] = said.failure
        return Report(said.epoch, said.leo, said.shortfall)

    def _look(
        self, lines: list[Step], seen: Seen, partition: PartitionId, deeds: _Deeds | None, about: bool
    ) -> None:
        event, applied = seen[0], seen[3]
        letter = None
        if about and type(event) is Received:
            letter = _letter(event.message, event.sender, self._me)
        after = self._last[partition]
        before = self._last_told.get(partition)
        if letter is None and deeds is None and before is not None and _same(before, after):
            return
        if after.view.applied != applied:
            # What was applied since did not touch it.
            after = self._last[partition] = _as_of(after, applied)
        self._last_told[partition] = after
        self._add_replica(lines, seen, partition, _cause(event, letter), after, deeds)

    def _add_replica(
        self,
        lines: list[Step],
        seen: Seen,
        partition: PartitionId,
        cause: Cause,
        after: ReplicaState | None,
        deeds: _Deeds | None,
    ) -> None:
        ctx = self._node.ctx
        self._number += 1
        lines.append(
            ReplicaStep(
                node=ctx.node,
                start=ctx.nonce,
                number=self._number,
                incarnation=seen[2],
                partition=partition,
                cause=cause,
                sent=tuple(deeds.sent) if deeds is not None else (),
                after=after,
                appended=tuple(deeds.appended) if deeds is not None else (),
                reports=tuple(deeds.reports) if deeds is not None else (),
            )
        )

    # -- the metadata group -----------------------------------------------------------------------

    def applied(self, index: int, command: Command, result: Result) -> None:
        """The node has applied a command; another of the same step may follow."""
        metadata = self._node.metadata
        told = self._told
        if not told.begin(index):
            return
        for partition in self._candidates(command, metadata, result):
            state = metadata.partitions.get(partition)
            after = _group(state, metadata) if state is not None else None
            before = told.records.get(partition)
            registers = (
                isinstance(command, RegisterNode) and metadata.nodes[command.node].incarnation == index
            )
            if after == before and not registers:
                continue
            told.put(partition, after)
            self._add_group(index, command, result, partition, after)

    def _candidates(self, command: Command, metadata: Metadata, result: Result) -> list[PartitionId]:
        """The partitions that a command may have touched."""
        if isinstance(command, RegisterNode | ConfirmNode | ExpireNode | LeaveNode):
            return [p.id for p in metadata.partitions.values() if command.node in p.replicas]
        if isinstance(command, CreateStream):
            stream = metadata.by_id.get(result.stream)
            return list(stream.partitions) if stream is not None else []
        if isinstance(command, DeleteStream):
            return [known for known in self._told.records if known not in metadata.partitions]
        if isinstance(command, Rebalance):
            return list(metadata.partitions)
        return [command.partition]

    def _add_group(
        self, index: int, command: Command, result: Result, partition: PartitionId, after: Group | None
    ) -> None:
        ctx = self._node.ctx
        line = GroupStep(
            node=ctx.node,
            start=ctx.nonce,
            number=0,
            partition=partition,
            index=index,
            command=type(command).__name__,
            after=after,
            code=result.code,
        )
        state = self._node.metadata.partitions.get(partition)
        match command:
            case RegisterNode():
                found = _found(command, partition, self._node.metadata)
                line = _with(line, about=command.node, incarnation=index, found=found)
            case ConfirmNode() | ExpireNode() | LeaveNode():
                line = _with(line, about=command.node, incarnation=command.incarnation)
            case CreateStream() if state is not None:
                durability = command.config.durability
                line = _with(line, replicas=state.replicas, minimum=state.min_insync, durability=durability)
            case ChangeIsr():
                line = _with(
                    line,
                    about=command.leader,
                    version=command.version,
                    isr=tuple(command.isr),
                    joiner=command.joiner,
                    incarnation=command.joiner_incarnation,
                )
            case ReplicaFailed():
                told = Copy(command.epoch, command.leo)
                line = _with(
                    line,
                    about=command.node,
                    incarnation=command.incarnation,
                    told=told,
                    shortfall=command.shortfall,
                )
            case ElectLeader():
                line = _with(line, about=command.node, unclean=command.unclean)
            case _:
                pass
        self._groups.append(line)


def _with(line: GroupStep, **changes: object) -> GroupStep:
    return msgspec.structs.replace(line, **changes)


def _deeds_of(deeds: dict[PartitionId, _Deeds], partition: PartitionId) -> _Deeds:
    found = deeds.get(partition)
    if found is None:
        found = deeds[partition] = _Deeds()
    return found


def _state(replica: Replica | None, node: Node) -> ReplicaState | None:
    if replica is None:
        return None
    leading, following = replica.leading, replica.following
    office = None
    if leading is not None:
        pending = leading.pending
        change = None
        if pending is not None:
            gone = [member for member in leading.record.isr if member not in pending.isr]
            who = pending.joiner or (gone[0] if gone else 0)
            change = Pending(pending.version, who, bool(pending.joiner), pending.joiner_incarnation)
        progress = {member: (known.incarnation, known.durable) for member, known in leading.followers.items()}
        office = Office(leading.epoch, leading.epoch_start, change, progress)
    record = replica.record
    applied = node.metadata.applied
    view = (
        View(applied, record.leader, record.epoch, record.version, record.isr)
        if record is not None
        else View(applied, 0, 0, 0, ())
    )
    return ReplicaState(
        state=replica.state,
        role=replica.role,
        epoch=replica.epoch,
        leo=replica.leo,
        durable=replica.durable_leo,
        hw=replica.hw,
        log_start=replica.log_start,
        history=tuple(replica.history.entries),
        view=view,
        waiting=len(replica.pending),
        damage=tuple(replica.repairs.ranges),
        question=following.request if following is not None and following.outstanding else 0,
        office=office,
    )


def _as_of(state: ReplicaState, applied: int) -> ReplicaState:
    """The same after more entries of the metadata, none of which touched the partition."""
    view = msgspec.structs.replace(state.view, applied=applied)
    return msgspec.structs.replace(state, view=view)


def _same(before: ReplicaState, after: ReplicaState) -> bool:
    """Equal but for entries of the metadata that did not touch the partition."""
    return before == after or before == _as_of(after, before.view.applied)


def _group(state: PartitionState, metadata: Metadata) -> Group:
    members = {}
    for number in state.replicas:
        node = metadata.nodes.get(number)
        members[number] = Member(node.incarnation, node.state == LIVE) if node is not None else Member(0)
    known = {number: Copy(copy.epoch, copy.leo, copy.lost) for number, copy in state.last_known.items()}
    return Group(
        leader=state.leader,
        leader_incarnation=state.leader_incarnation,
        epoch=state.epoch,
        version=state.version,
        isr=state.isr,
        eligible=state.eligible,
        known=known,
        members=members,
        unclean=len(state.unclean_epochs),
    )


def _found(command: RegisterNode, partition: PartitionId, metadata: Metadata) -> Found:
    reset = metadata.nodes[command.node].reset
    for report in command.tails:
        if report.partition == partition:
            return Found(report.state, report.epoch, report.leo, reset)
    return Found("none", reset=reset)


def _about(event: Event | None) -> PartitionId | None:
    """The partition to whose replica a message came."""
    if type(event) is Received and type(event.message) in SPOKEN:
        return event.message.partition  # type: ignore[union-attr]
    return None


def _cause(event: Event | None, letter: Letter | None) -> Cause:
    name = type(event).__name__ if event is not None else "Start"
    return Cause(name, letter) if letter is not None else _bare_cause(name)


@cache
def _bare_cause(event: str) -> Cause:
    """An event that brings no message."""
    return Cause(event)


def _letter(message: object, sender: int, receiver: int) -> Letter:
    match message:
        case Fetch() | FetchProgress():
            return Letter(
                kind="fetch" if isinstance(message, Fetch) else "progress",
                sender=sender,
                receiver=receiver,
                epoch=message.epoch,
                incarnation=message.incarnation,
                request=message.request if isinstance(message, Fetch) else 0,
                offset=message.offset,
                durable=message.durable_leo,
                last_epoch=message.last_epoch,
                log_start=message.log_start,
            )
        case FetchReply():
            first, end = _run_of(message.batches)
            return Letter(
                kind="answer",
                sender=sender,
                receiver=receiver,
                epoch=message.epoch,
                incarnation=message.incarnation,
                request=message.request,
                status=message.status,
                hw=message.hw,
                log_start=message.log_start,
                end_epoch=message.end_epoch,
                end_offset=message.end_offset,
                first=first,
                end=end,
            )
    raise TypeError(f"{type(message).__name__} is no message of replication")


def _run_of(frames: Sequence[bytes]) -> tuple[int, int]:
    """Offsets [first, end) of an answer's batches; what cannot be read is not counted."""
    first = end = 0
    for place, frame in enumerate(frames):
        span = _span(frame)
        if span is None:
            break
        if place == 0:
            first = span[0]
        end = span[1]
    return first, end


@lru_cache(maxsize=256)
def _span(frame: bytes) -> tuple[int, int] | None:
    """Where a batch begins and ends, `None` if that cannot be read. Each is seen leaving and arriving."""
    try:
        header = read_header(frame)
    except (CorruptBatch, LiftlogError):
        return None
    return header.base_offset, header.base_offset + header.count
