"""Makes the protocol trace of one process: looks at a node after each step, and says what the step did.

The lines themselves are in `liftlog/core/steps.py`. A recorder changes nothing. What only the moment shows is
noted at once (`seen`), and the lines can be made of it later, so that whoever watches many steps pays for
little while they happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

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
    RequestId,
)
from liftlog.core.metadata import Metadata
from liftlog.core.node import Node
from liftlog.core.records import LIVE, PartitionState, Result
from liftlog.core.replica import Replica
from liftlog.core.steps import (
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
from liftlog.format import CorruptBatch, read_header
from liftlog.messages import (
    AppendLog,
    AppendReply,
    AppendRequest,
    Effect,
    Event,
    Fetch,
    FetchProgress,
    FetchReply,
    LogOpened,
    Published,
    Received,
    Send,
    StorageFailed,
    VoteReply,
    VoteRequest,
)
from liftlog.types import RAFT_LOG, LiftlogError, PartitionId

SPOKEN = (Fetch, FetchProgress, FetchReply)
OF_THE_GROUP = frozenset((AppendRequest, AppendReply, VoteRequest, VoteReply))
"""Messages that leave every replica as it is, as long as they let the node apply nothing."""


Quick = tuple[Any, ...]
"""What a replica's state is made of, beside the metadata."""


class Told:
    """The group's commands that were told, up to an index, and each partition's record after them. Shared by
    the recorders of all nodes where somebody sees all of them: all apply the same commands."""

    __slots__ = ("index", "records")

    def __init__(self) -> None:
        self.index = 0
        self.records: dict[PartitionId, Group] = {}


States = Sequence[tuple[PartitionId, ReplicaState | None]]
"""Replicas that are not as they were, `None` for those that are gone."""
Asides = tuple[Sequence[GroupStep], Sequence[PartitionId], Sequence[tuple[PartitionId, Report]]]
"""What seldom happens in a step: lines about the group, partitions that they touch, reports of failures."""
Seen = tuple[Event | None, Sequence[Effect], int, States, Asides | None]
"""What a step leaves that only it can tell; lines are made of it at once, or later. The number is the
incarnation. No asides, not even `NOTHING`: a glance shows that there is no line."""
NOTHING: Asides = ((), (), ())


class _Deeds:
    """What one step did about one replica, beside changing it."""

    __slots__ = ("appended", "reports", "sent")

    def __init__(self) -> None:
        self.sent: list[Letter] = []
        self.appended: list[tuple[int, int]] = []
        self.reports: list[Report] = []


NO_DEEDS: dict[PartitionId, _Deeds] = {}
NO_LINES: Sequence[Step] = ()


class Recorder:
    """Makes the trace of one process.

    Create it before `Node.start`, and call `stepped` after `start` (with event None) and after each `step`,
    before anything else is done with the node. Who has no use for the lines yet calls `seen` in its place,
    and later, in the same order, `lines`.
    """

    def __init__(self, node: Node, told: Told | None = None) -> None:
        self.node = node
        self._told = told if told is not None else Told()
        self._number = 0
        self._applied = 0
        self._quick: dict[PartitionId, Quick] = {}
        self._groups: list[GroupStep] = []
        self._touched: dict[PartitionId, None] = {}
        self._reports: list[tuple[PartitionId, Report]] = []
        self._last: dict[PartitionId, ReplicaState] = {}
        """Of each replica: as it was after the last step of which lines were made ..."""
        self._last_told: dict[PartitionId, ReplicaState] = {}
        """... and in the last line about it."""
        self.looked_at = 0
        """How many times a replica was looked at after a step, whether or not a line came of it."""
        node.on_applied.append(self._on_applied)
        self._want = node.ctx.want
        node.ctx.want = self._wanted
        self._failures: dict[PartitionId, int] = {}
        """Number of the last failure that each replica has told."""

    def stepped(self, event: Event | None, effects: Sequence[Effect]) -> Sequence[Step]:
        """The lines of the step that has just been done."""
        return self.lines(self.seen(event, effects))

    def seen(self, event: Event | None, effects: Sequence[Effect]) -> Seen:
        """What has to be kept of the step that has just been done."""
        node = self.node
        replicas = node.replicas
        self.looked_at += len(replicas)
        applied = node.metadata.applied
        learned = self._applied != applied
        if learned:
            self._applied = applied
        elif type(event) is Received and type(event.message) in OF_THE_GROUP and not self._reports:
            return event, effects, node.ctx.incarnation, (), NOTHING if effects else None
        known = self._quick
        states: list[tuple[PartitionId, ReplicaState | None]] = []
        for partition, replica in replicas.items():
            last = known.get(partition)
            if learned or last is None or _moved(replica, last):
                known[partition] = _quick(replica)
                states.append((partition, _state(replica, node)))
        if len(known) > len(replicas):
            for partition in [partition for partition in known if partition not in replicas]:
                del known[partition]
                states.append((partition, None))
        asides = NOTHING
        if self._groups or self._touched or self._reports:
            asides = (self._groups, tuple(self._touched), self._reports)
            self._groups, self._reports = [], []
            self._touched.clear()
        return event, effects, node.ctx.incarnation, states, asides

    def lines(self, seen: Seen) -> Sequence[Step]:
        """The lines of a step."""
        event, effects, _, states, asides = seen
        if asides is None:
            return NO_LINES
        deeds = self._deeds(effects) if effects else NO_DEEDS
        about = _partition_of(event)
        if about is None and not deeds and not states and asides is NOTHING:
            return NO_LINES
        if asides[2]:
            deeds = {**deeds}
        lines: list[Step] = []
        groups, touched, reports = asides
        for line in groups:
            self._number += 1
            msgspec.structs.force_setattr(line, "number", self._number)
            lines.append(line)
        for partition, report in reports:
            _deeds_of(deeds, partition).reports.append(report)
        last = self._last
        looked_at = dict.fromkeys((*deeds, *touched))
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
                if isinstance(message, SPOKEN):
                    deeds = deeds or {}
                    letter = _letter(message, self.node.config.node, effect.to)
                    _deeds_of(deeds, message.partition).sent.append(letter)
            elif type(effect) is AppendLog and effect.log != RAFT_LOG:
                deeds = deeds or {}
                ends = [(batch.epoch, batch.end_offset) for batch in effect.batches]
                _deeds_of(deeds, effect.log).appended.extend(ends)
        return deeds

    # -- replicas ---------------------------------------------------------------------------------

    def _wanted(self, command: Command) -> RequestId | None:
        """In the place of `Context.want`: what a replica says of itself is a message, too."""
        if isinstance(command, ReplicaFailed) and command.failure != self._failures.get(command.partition):
            self._failures[command.partition] = command.failure
            report = Report(command.epoch, command.leo, command.shortfall)
            self._reports.append((command.partition, report))
        return self._want(command)

    def _look(
        self, lines: list[Step], seen: Seen, partition: PartitionId, deeds: _Deeds | None, about: bool
    ) -> None:
        letter = None
        event = seen[0]
        if about and isinstance(event, Received) and isinstance(event.message, SPOKEN):
            letter = _letter(event.message, event.sender, self.node.config.node)
        after = self._last[partition]
        before = self._last_told.get(partition)
        if letter is None and deeds is None and before is not None and _same(before, after):
            return
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
        ctx = self.node.ctx
        self._number += 1
        lines.append(
            ReplicaStep(
                ctx.node,
                ctx.nonce,
                self._number,
                seen[2],
                partition,
                cause,
                tuple(deeds.sent) if deeds is not None else (),
                after,
                tuple(deeds.appended) if deeds is not None else (),
                tuple(deeds.reports) if deeds is not None else (),
            )
        )

    # -- the metadata group -----------------------------------------------------------------------

    def _on_applied(self, index: int, command: Command, result: Result) -> None:
        """Called by the node after each command that it applies."""
        metadata = self.node.metadata
        told = self._told
        candidates = self._candidates(command, metadata, result)
        if index <= told.index:
            self._touched.update(dict.fromkeys(candidates))
            return
        told.index = index
        for partition in candidates:
            state = metadata.partitions.get(partition)
            after = _group(state, metadata) if state is not None else None
            before = told.records.get(partition)
            registers = (
                isinstance(command, RegisterNode) and metadata.nodes[command.node].incarnation == index
            )
            if after == before and not registers:
                continue
            if after is None:
                told.records.pop(partition, None)
            else:
                told.records[partition] = after
            self._touched[partition] = None
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
        ctx = self.node.ctx
        line = GroupStep(ctx.node, ctx.nonce, 0, partition, index, type(command).__name__, after, result.code)
        state = self.node.metadata.partitions.get(partition)
        match command:
            case RegisterNode():
                found = _found(command, partition, self.node.metadata)
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


def _quick(replica: Replica) -> Quick:
    leading, following = replica.leading, replica.following
    entries = replica.history.entries
    if leading is not None:
        rest: object = [(known.incarnation, known.durable) for known in leading.followers.values()]
    else:
        rest = following.request if following is not None and following.outstanding else 0
    return (
        replica.leo,
        replica.durable_leo,
        replica.hw,
        len(replica.pending),
        leading,
        following,
        leading.pending if leading is not None else None,
        rest,
        replica.state,
        replica.epoch,
        replica.log_start,
        len(entries),
        entries[-1] if entries else None,
        tuple(replica.repairs.ranges),
    )


def _moved(replica: Replica, last: Quick) -> bool:
    """Whether `_quick` would say something else now; most often it would not."""
    leo, durable, hw, pending, leading, following, change, rest, state, epoch, start, ends, end, ranges = last
    if (
        replica.leo != leo
        or replica.durable_leo != durable
        or replica.hw != hw
        or len(replica.pending) != pending
        or replica.leading is not leading
        or replica.following is not following
        or replica.state != state
        or replica.epoch != epoch
        or replica.log_start != start
    ):
        return True
    entries = replica.history.entries
    if len(entries) != ends or (entries and entries[-1] is not end):
        return True
    damage = replica.repairs.ranges
    if (damage or ranges) and tuple(damage) != ranges:
        return True
    if leading is not None:
        if leading.pending is not change:
            return True
        progress = [(known.incarnation, known.durable) for known in leading.followers.values()]
        return progress != rest  # type: ignore[no-any-return]
    question = following.request if following is not None and following.outstanding else 0
    return question != rest  # type: ignore[no-any-return]


def _state(replica: Replica, node: Node) -> ReplicaState:
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
        replica.state,
        replica.role,
        replica.epoch,
        replica.leo,
        replica.durable_leo,
        replica.hw,
        replica.log_start,
        tuple(replica.history.entries),
        view,
        len(replica.pending),
        tuple(replica.repairs.ranges),
        following.request if following is not None and following.outstanding else 0,
        office,
    )


def _same(before: ReplicaState, after: ReplicaState) -> bool:
    """Equal but for entries of the metadata that did not touch the partition."""
    if before == after:
        return True
    view = msgspec.structs.replace(after.view, applied=before.view.applied)
    return before == msgspec.structs.replace(after, view=view)


def _group(state: PartitionState, metadata: Metadata) -> Group:
    members = {}
    for number in state.replicas:
        node = metadata.nodes.get(number)
        members[number] = Member(node.incarnation, node.state == LIVE) if node is not None else Member(0)
    known = {number: Copy(copy.epoch, copy.leo, copy.lost) for number, copy in state.last_known.items()}
    return Group(
        state.leader,
        state.leader_incarnation,
        state.epoch,
        state.version,
        state.isr,
        state.eligible,
        known,
        members,
        len(state.unclean_epochs),
    )


def _found(command: RegisterNode, partition: PartitionId, metadata: Metadata) -> Found:
    reset = metadata.nodes[command.node].reset
    for report in command.tails:
        if report.partition == partition:
            return Found(report.state, report.epoch, report.leo, reset)
    return Found("none", reset=reset)


def _partition_of(event: Event | None) -> PartitionId | None:
    """The partition that an event names, where it matters here."""
    if type(event) is Received:
        return event.message.partition if isinstance(event.message, SPOKEN) else None
    if type(event) is Published:
        return event.partition
    if type(event) is LogOpened:
        return event.summary.log
    return event.log if type(event) is StorageFailed else None


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
                "fetch" if isinstance(message, Fetch) else "progress",
                sender,
                receiver,
                message.epoch,
                message.incarnation,
                message.request if isinstance(message, Fetch) else 0,
                message.offset,
                message.durable_leo,
                message.last_epoch,
                log_start=message.log_start,
            )
        case FetchReply():
            first, end = _run_of(message.batches)
            return Letter(
                "answer",
                sender,
                receiver,
                message.epoch,
                message.incarnation,
                message.request,
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
