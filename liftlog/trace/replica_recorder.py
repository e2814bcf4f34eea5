"""Makes the lines of one process's trace about replicas and their group (`replica_lines.py`).

A recorder looks after each step at the replicas that the outcome names, and changes nothing. What only the
moment shows is noted at once (`seen`), and the lines can be made of it later, so that whoever watches many
steps pays for little while they happen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Any

import msgspec

from liftlog.core.metadata.commands import (
    AdmitNode,
    AlterStream,
    ChangeIsr,
    Command,
    ConfirmNode,
    CreateStream,
    DeleteStream,
    DrainNode,
    ElectLeader,
    ExpireNode,
    LeaveNode,
    PairFailed,
    PassVote,
    PromoteSpare,
    RaiseLevel,
    Rebalance,
    RegisterNode,
    RemoveNode,
    ReplicaFailed,
    RetireNode,
    SetVoter,
    TrimActivity,
)
from liftlog.core.metadata.metadata import Metadata
from liftlog.core.metadata.pairs import ends_told, found_of
from liftlog.core.metadata.records import LIVE, CommandResult, PartitionState
from liftlog.core.node import Node
from liftlog.core.replica.replica import Replica
from liftlog.core.replica.state.beginning import begins_at
from liftlog.format import CorruptBatch, read_header
from liftlog.messages import (
    TIMER_SELF,
    AppendLog,
    Effect,
    Event,
    Fetch,
    FetchProgress,
    FetchReply,
    MirrorReply,
    OriginAnswered,
    Outcome,
    Received,
    Send,
    TimerFired,
)
from liftlog.trace.parting import OF_REPLICAS, parted
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
from liftlog.types import LiftlogError, PartitionId


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

    def put_all(self, records: dict[PartitionId, Group]) -> None:
        """These are all there are."""
        self.records = records

    def put(self, partition: PartitionId, record: Group | None) -> None:
        if record is None:
            self.records.pop(partition, None)
        else:
            self.records[partition] = record


States = Sequence[tuple[PartitionId, ReplicaState | None]]
"""Replicas that were touched, as they are now; `None` for those that are gone."""
Reports = Sequence[tuple[PartitionId, Report]]
Behind = dict[PartitionId, int]
"""Replicas that have not looked at what the node has applied, and as of which index each is (L5)."""
Seen = tuple[Event | None, Sequence[Effect], int, int, States, Sequence[GroupStep], Reports, Behind]
"""What a step leaves that only it can tell; lines are made of it at once, or later. The effects are those of
replicas (`parted`), the numbers the incarnation and the index of the last command that was applied."""


class _Deeds:
    """What one step did about one replica, beside changing it."""

    __slots__ = ("appended", "reports", "sent")

    def __init__(self) -> None:
        self.sent: list[Letter] = []
        self.appended: list[tuple[int, int]] = []
        self.reports: list[Report] = []


NO_LINES: Sequence[Step] = ()
NO_STATES: States = ()
NO_REPORTS: Reports = ()
NOBODY: Behind = {}
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
        self.jumped(node.metadata.applied)

    def stepped(self, event: Event | None, outcome: Outcome) -> Sequence[Step]:
        """The lines of the step that has just been done."""
        seen = self.seen(event, outcome, parted(outcome.effects)[1])
        return self.lines(seen) if seen is not None else NO_LINES

    def seen(self, event: Event | None, outcome: Outcome, effects: Sequence[Effect]) -> Seen | None:
        """What has to be kept of the step that has just been done; None if there is no line of it.

        `effects`: those of replicas (`parted`).
        """
        node = self._node
        replicas = node.replicas
        touched, groups = outcome.touched, self._groups
        applied = node.metadata.applied
        # A new value, since it is kept with the step.
        behind = dict(node.slices.waiting) if node.slices.is_following else NOBODY
        if not (touched or effects or groups or _message_in(event) is not None):
            return None
        states: States = NO_STATES
        reports = NO_REPORTS
        if touched:
            states = []
            for partition in touched:
                replica = replicas.get(partition)
                if replica is None:
                    states.append((partition, None))
                    continue
                states.append((partition, _state(replica, behind.get(partition, applied))))
                report = self._report(replica)
                if report is not None:
                    reports = (*reports, (partition, report))
        if groups:
            self._groups = []
        incarnation = node.ctx.incarnation
        return event, effects, incarnation, applied, states, groups or NO_GROUPS, reports, behind

    def lines(self, seen: Seen) -> Sequence[Step]:
        """The lines of a step."""
        event, effects, _, _, states, groups, reports, _ = seen
        deeds: dict[PartitionId, _Deeds] = self._deeds(effects) if effects else {}
        for partition, report in reports:
            _deeds_of(deeds, partition).reports.append(report)
        lines: list[Step] = []
        for line in groups:
            self._number += 1
            msgspec.structs.force_setattr(line, "number", self._number)
            lines.append(line)
        last = self._last
        looked_at = dict.fromkeys(deeds)
        came = _message_in(event)
        if came is not None:
            looked_at[came.partition] = None
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
                letter = None
                if came is not None and came.partition == partition:
                    letter = _letter(came, event.sender, self._me)  # type: ignore[union-attr]
                self._look(lines, seen, partition, deeds.get(partition), letter)
        for partition in gone:
            if self._last_told.pop(partition, None) is not None:
                self._add_replica(lines, seen, partition, _cause(event, None), None, deeds.get(partition))
        return lines

    def _deeds(self, effects: Sequence[Effect]) -> dict[PartitionId, _Deeds]:
        deeds: dict[PartitionId, _Deeds] = {}
        for effect in effects:
            if type(effect) is Send:
                message = effect.message
                letter = _letter(message, self._me, effect.to)
                _deeds_of(deeds, message.partition).sent.append(letter)  # type: ignore[union-attr]
            elif type(effect) is AppendLog:
                ends = [(batch.epoch, batch.end_offset) for batch in effect.batches]
                _deeds_of(deeds, effect.log).appended.extend(ends)
        return deeds

    # -- replicas ---------------------------------------------------------------------------------

    def _report(self, replica: Replica) -> Report | None:
        """What a replica says of itself to the group, when it begins to: that is a message, too."""
        said, log = replica.log.confession.said, replica.id
        if said is None or said.failure == self._failures.get(log):
            return None
        self._failures[log] = said.failure
        told = _told(said, log)
        return Report(told.epoch, told.leo, said.shortfall)

    def _look(
        self,
        lines: list[Step],
        seen: Seen,
        partition: PartitionId,
        deeds: _Deeds | None,
        letter: Letter | None,
    ) -> None:
        applied = seen[7].get(partition, seen[3])
        after = self._last[partition]
        before = self._last_told.get(partition)
        if letter is None and deeds is None and before is not None and _same(before, after):
            return
        if after.view.applied != applied:
            # What was applied since did not touch it.
            after = self._last[partition] = _as_of(after, applied)
        self._last_told[partition] = after
        self._add_replica(lines, seen, partition, _cause(seen[0], letter), after, deeds)

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

    def jumped(self, index: int) -> None:
        """The node has taken over what all commands up to an index have made: others tell of these."""
        if self._told.begin(index):
            metadata = self._node.metadata
            states = metadata.partitions
            self._told.put_all(
                {log: _group(states[log.partition], metadata, log) for log in _logs_of(states, metadata)}
            )

    def applied(self, index: int, command: Command, result: CommandResult) -> None:
        """The node has applied a command; another of the same step may follow."""
        metadata = self._node.metadata
        told = self._told
        if not told.begin(index):
            return
        for log in _logs_of(self._candidates(command, metadata, result), metadata):
            state = metadata.partitions.get(log.partition)
            after = _group(state, metadata, log) if state is not None else None
            before = told.records.get(log)
            registers = (
                isinstance(command, RegisterNode) and metadata.nodes[command.node].incarnation == index
            )
            if after == before and not registers:
                continue
            told.put(log, after)
            self._add_group(index, command, result, log, after)

    def _candidates(self, command: Command, metadata: Metadata, result: CommandResult) -> list[PartitionId]:
        """The partitions that a command may have touched."""
        if isinstance(command, RegisterNode | ConfirmNode | ExpireNode | LeaveNode | DrainNode | RetireNode):
            return [p.id for p in metadata.partitions.values() if command.node in p.replicas]
        if isinstance(command, CreateStream):
            stream = metadata.by_id.get(result.stream)
            return list(stream.partitions) if stream is not None else []
        if isinstance(command, AlterStream):
            altered = metadata.by_id.get(command.stream)
            return list(altered.partitions) if altered is not None else []
        if isinstance(command, DeleteStream):
            return [known for known in self._told.records if known.partition not in metadata.partitions]
        if isinstance(command, Rebalance):
            return list(metadata.partitions)
        if isinstance(command, AdmitNode | PassVote | PromoteSpare | RaiseLevel | RemoveNode | SetVoter):
            return []
        return [] if isinstance(command, TrimActivity) else [command.partition]

    def _add_group(
        self, index: int, command: Command, result: CommandResult, partition: PartitionId, after: Group | None
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
        state = self._node.metadata.partitions.get(partition.partition)
        match command:
            case RegisterNode():
                found = _found(command, partition, self._node.metadata)
                line = _with(line, about=command.node, incarnation=index, found=found)
            case ConfirmNode() | ExpireNode() | LeaveNode():
                line = _with(line, about=command.node, incarnation=command.incarnation)
            case CreateStream() | AlterStream() if state is not None and state.created == index:
                config = self._node.metadata.by_id[partition.stream].config
                first = begins_at(config, partition)
                line = _with(line, replicas=state.replicas, minimum=state.min_insync, first=first)
                line = _with(line, durability=config.durability)
            case AlterStream() if state is not None:
                line = _with(line, minimum=state.min_insync)
            case ChangeIsr():
                line = _with(
                    line,
                    about=command.leader,
                    version=command.version,
                    isr=tuple(command.isr),
                    joiner=command.joiner,
                    incarnation=command.joiner_incarnation,
                )
            case ReplicaFailed() | PairFailed():
                told = _told(command, partition)
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


def _state(replica: Replica, applied: int) -> ReplicaState:
    log = replica.log
    leading, following = log.leading, log.following
    office = None
    if leading is not None:
        pending = leading.change
        change = None
        if pending is not None:
            gone = [member for member in leading.record.isr if member not in pending.isr]
            who = pending.joiner or (gone[0] if gone else 0)
            change = Pending(pending.version, who, bool(pending.joiner), pending.joiner_incarnation)
        progress = {member: (known.incarnation, known.durable) for member, known in leading.followers.items()}
        office = Office(leading.epoch, leading.epoch_start, change, progress)
    record = log.record
    view = (
        View(applied, record.leader, record.epoch, record.version, record.isr)
        if record is not None
        else View(applied, 0, 0, 0, ())
    )
    return ReplicaState(
        state=replica.standing,
        role=replica.role,
        epoch=log.epoch,
        leo=log.leo,
        durable=log.durable_leo,
        hw=log.hw,
        log_start=log.log_start,
        history=tuple(log.history.entries),
        view=view,
        waiting=len(log.pending),
        damage=tuple(log.damage.ranges),
        question=following.request if following is not None and following.outstanding else 0,
        office=office,
    )


def _as_of(state: ReplicaState, applied: int) -> ReplicaState:
    """The same after more entries of the metadata, none of which touched the partition."""
    view = msgspec.structs.replace(state.view, applied=applied)
    return msgspec.structs.replace(state, view=view)


def _same(before: ReplicaState, after: ReplicaState) -> bool:
    """Equal but for entries of the metadata that did not touch the partition."""
    applied = before.view.applied
    return before == (after if after.view.applied == applied else _as_of(after, applied))


def _logs_of(partitions: Iterable[PartitionId], metadata: Metadata) -> list[PartitionId]:
    """Of these partitions: of each the data, then the journal if it has one. What is gone is named whole."""
    logs = []
    for partition in partitions:
        logs.append(partition)
        stream = metadata.by_id.get(partition.stream)
        if stream is not None and stream.config.has_journal:
            logs.append(partition.journal)
    return logs


def _told(said: ReplicaFailed | PairFailed, log: PartitionId) -> Copy:
    """What a copy that has failed says of one of its logs."""
    ends = ends_told(said)
    return Copy(ends.journal_epoch, ends.journal_leo) if log.is_journal else Copy(ends.epoch, ends.leo)


def _group(state: PartitionState, metadata: Metadata, log: PartitionId) -> Group:
    """The record, as far as it is about one log."""
    members = {}
    for number in state.replicas:
        node = metadata.nodes.get(number)
        members[number] = Member(node.incarnation, node.state == LIVE) if node is not None else Member(0)
    known = {
        number: Copy(copy.journal_epoch, copy.journal_leo, copy.lost)
        if log.is_journal
        else Copy(copy.epoch, copy.leo, copy.lost)
        for number, copy in state.last_known.items()
    }
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
    stream, state = metadata.by_id[partition.stream], metadata.partitions[partition.partition]
    reports = {report.partition: report for report in command.tails}
    found = found_of(stream, state, reports)
    if found is None:
        return Found("none", reset=reset)
    report = reports[partition]
    return Found(found.state, report.epoch, report.leo, reset)


def _message_in(event: Event | None) -> Fetch | FetchProgress | FetchReply | None:
    """The message of replication that an event brings."""
    if type(event) is Received and type(event.message) in OF_REPLICAS:
        return event.message  # type: ignore[return-value]
    return None


def _cause(event: Event | None, letter: Letter | None) -> Cause:
    name = type(event).__name__ if event is not None else "Start"
    of_mirror = isinstance(event, Received) and isinstance(event.message, MirrorReply)
    of_mirror = of_mirror or isinstance(event, OriginAnswered)
    if of_mirror or (isinstance(event, TimerFired) and event.kind == TIMER_SELF):
        name = "Mirrored"
    return Cause(name, letter) if letter is not None else _bare_cause(name)


@cache
def _bare_cause(event: str) -> Cause:
    """An event that brings no message."""
    return Cause(event)


def _letter(message: object, sender: int, receiver: int) -> Letter:
    kind = type(message)
    if kind is FetchReply:
        return _answer(message, sender, receiver)  # type: ignore[arg-type]
    if kind is not Fetch and kind is not FetchProgress:
        raise TypeError(f"{kind.__name__} is no message of replication")
    asks: Any = message
    return Letter(
        kind="fetch" if kind is Fetch else "progress",
        sender=sender,
        receiver=receiver,
        epoch=asks.epoch,
        incarnation=asks.incarnation,
        request=asks.request if kind is Fetch else 0,
        offset=asks.offset,
        durable=asks.durable_leo,
        last_epoch=asks.last_epoch,
        log_start=asks.log_start,
    )


def _answer(message: FetchReply, sender: int, receiver: int) -> Letter:
    first, end = _run_of(message.batches) if message.batches else (0, 0)
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
