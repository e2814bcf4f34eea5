"""What one step of a node did to its replicas, as plain data: the protocol trace.

A trace is what refinement checking reads (docs/spec-refinement.md): each of its lines has to be explained by
actions of the model in `spec/models/isr.py`. The simulator hands the lines over in memory; a real node
started with ``--trace`` writes them as JSON, one line each, in the order in which they are made.

A trace contains two kinds of lines, told apart by the field `type`.

`GroupStep` ("group"): this node has applied one command of the metadata group that touched a partition.
    Which command, about whom, with which outcome, and the partition's whole record after it. Commands of one
    Raft index are equal on all nodes; a checker takes the first and compares the others. A process applies
    the whole metadata log anew when it starts, so most of its first lines repeat what others wrote before.

`ReplicaStep` ("replica"): a step of this node has changed one of its replicas, or took in or sent one of the
    replica's messages. `cause`: the event of the step, with the message that came, if it is about this
    replica. `sent`: the messages of the replica that the step sends, in order. `after`: the replica after
    the step, `None` if this node has it no more. Of a step that changes nothing and sends nothing there is no
    line.

Order. The lines of one process (`node`, `start`) are numbered from 1 on without gaps. The group's lines of a
step stand before its replicas' lines. Lines of different processes have no order of their own: a message is
sent before it is received, and a command that was applied first at a lower index was applied earlier.
`at_us` may carry a clock; this module leaves it 0.

What is not in a trace: contents of records (an epoch and an offset name one), Raft itself, acks, readers.
What a process finds on its disk stands in the command by which it registers (`GroupStep.found`).

Offsets: `leo` and `durable` are exclusive ends, `hw` is the first offset that is not committed. Node 0 is
nobody. Times in microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

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
from liftlog.core.metadata import LIVE, Metadata, PartitionState, Result
from liftlog.core.node import Node
from liftlog.core.replica import Replica
from liftlog.format import CorruptBatch, read_header
from liftlog.messages import (
    AppendLog,
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
)
from liftlog.types import LiftlogError, PartitionId

SPOKEN = (Fetch, FetchProgress, FetchReply)


class Letter(msgspec.Struct, frozen=True, omit_defaults=True):
    """A replication message. `kind`: fetch, progress or answer. The unnamed fields are those of the message.

    `incarnation` is the follower's, whoever sends. `first` and `end`: offsets [first, end) of the records in
    an answer, as far as its batches can be read; equal if there are none.
    """

    kind: str
    sender: int
    receiver: int
    epoch: int
    incarnation: int
    request: int = 0
    offset: int = 0
    durable: int = 0
    last_epoch: int = 0
    status: int = 0
    hw: int = 0
    log_start: int = 0
    end_epoch: int = 0
    end_offset: int = 0
    first: int = 0
    end: int = 0


class Cause(msgspec.Struct, frozen=True, omit_defaults=True):
    """The event of a step: its class's name ("Start" for a process's first), and the message that came."""

    event: str
    letter: Letter | None = None


class Copy(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the group remembers of a copy that may have lost something (R14)."""

    epoch: int
    leo: int
    lost: bool = False


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a replica says of itself to the group when its log has failed or is damaged (R5, D2)."""

    epoch: int
    leo: int
    shortfall: bool = False


class Member(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node that has a replica. `incarnation` 0: it has never registered."""

    incarnation: int
    live: bool = False


class Group(msgspec.Struct, frozen=True, omit_defaults=True):
    """A partition's record in the metadata, and the state of the nodes that have a replica of it."""

    leader: int
    leader_incarnation: int
    epoch: int
    version: int
    isr: tuple[int, ...]
    eligible: tuple[int, ...]
    known: dict[int, Copy]
    members: dict[int, Member]
    unclean: int = 0
    """How many elections lost data with an operator's consent."""


class Found(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a process found of this partition on its disk. `state`: a `TailState`; "none": no folder."""

    state: str
    epoch: int = 0
    leo: int = 0
    reset: bool = False
    """The disk was wiped, replaced or rolled back: whatever was found is thrown away (I2)."""


class GroupStep(msgspec.Struct, frozen=True, omit_defaults=True, tag="group", tag_field="type"):
    """See the module. `code`: outcome of the command, empty = done. `about`: the node it is about, or 0.

    `after` None: the partition exists no more. `isr`, `joiner`: of a ChangeIsr. `found`: of a RegisterNode.
    `told`, `shortfall`: what a ReplicaFailed says. `replicas`, `minimum`, `durability`: at a creation.
    """

    node: int
    start: int
    number: int
    partition: PartitionId
    index: int
    command: str
    after: Group | None
    code: str = ""
    about: int = 0
    incarnation: int = 0
    version: int = 0
    isr: tuple[int, ...] = ()
    joiner: int = 0
    found: Found | None = None
    told: Copy | None = None
    shortfall: bool = False
    unclean: bool = False
    replicas: tuple[int, ...] = ()
    minimum: int = 0
    durability: str = ""
    at_us: int = 0


class Pending(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of the ISR that a leader has proposed. `who` joins or goes."""

    version: int
    who: int
    joins: bool
    incarnation: int = 0


class Office(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a replica knows as a leader. `progress`: durable LEO by follower, with its incarnation."""

    epoch: int
    began: int
    """The LEO at which the epoch began."""
    pending: Pending | None
    progress: dict[int, tuple[int, int]]


class View(msgspec.Struct, frozen=True, omit_defaults=True):
    """The partition's record as this node has applied it, with the Raft index of the last applied entry."""

    applied: int
    leader: int
    epoch: int
    version: int
    isr: tuple[int, ...]


class ReplicaState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A replica after a step. `state`: opening, ready or failed. `role`: leader, follower or idle.

    `history`: (epoch, first offset) of each epoch in the log. `waiting`: storage jobs of the log that are not
    durable yet. `damage`: ranges that cannot be read. `question`: number of the fetch whose answer counts, 0
    if none is awaited.
    """

    state: str
    role: str
    epoch: int
    leo: int
    durable: int
    hw: int
    log_start: int
    history: tuple[tuple[int, int], ...]
    view: View
    waiting: int = 0
    damage: tuple[tuple[int, int], ...] = ()
    question: int = 0
    office: Office | None = None


class ReplicaStep(msgspec.Struct, frozen=True, omit_defaults=True, tag="replica", tag_field="type"):
    """See the module. `incarnation` 0: the process is not registered yet. `start`: its nonce."""

    node: int
    start: int
    number: int
    incarnation: int
    partition: PartitionId
    cause: Cause
    sent: tuple[Letter, ...]
    after: ReplicaState | None
    appended: tuple[tuple[int, int], ...] = ()
    """(epoch, end offset) of each batch that the step appends, in order."""
    reports: tuple[Report, ...] = ()
    """Reports of a failure that the step submits to the group, in order."""
    at_us: int = 0


Step = GroupStep | ReplicaStep
"""One line of a trace."""

Quick = tuple[object, ...]


class _Deeds:
    """What one step did about one replica, beside changing it."""

    __slots__ = ("appended", "reports", "sent")

    def __init__(self) -> None:
        self.sent: list[Letter] = []
        self.appended: list[tuple[int, int]] = []
        self.reports: list[Report] = []


class Recorder:
    """Makes the trace of one process.

    Create it before `Node.start`, and call `stepped` after `start` (with event None) and after each `step`,
    before anything else is done with the node. `groups_after`: commands up to this Raft index are not told
    again; for whoever sees all nodes.
    """

    def __init__(self, node: Node, groups_after: int = 0) -> None:
        self.node = node
        self.groups_after = groups_after
        self._number = 0
        self._lines: list[Step] = []
        self._records: dict[PartitionId, Group] = {}
        self._quick: dict[PartitionId, Quick] = {}
        self._last: dict[PartitionId, ReplicaState] = {}
        self._touched: dict[PartitionId, None] = {}
        self._deeds: dict[PartitionId, _Deeds] = {}
        self.looked_at = 0
        """How many times a replica was looked at after a step, whether or not a line came of it."""
        node.on_applied.append(self._applied)
        self._want = node.ctx.want
        node.ctx.want = self._wanted
        self._failures: dict[PartitionId, int] = {}
        """Number of the last failure that each replica has told."""

    def stepped(self, event: Event | None, effects: Sequence[Effect]) -> list[Step]:
        """The lines of the step that has just been done."""
        node = self.node
        for effect in effects:
            if type(effect) is Send and type(effect.message) in SPOKEN:
                letter = _letter(effect.message, node.config.node, effect.to)
                self._deeds_of(effect.message.partition).sent.append(letter)  # type: ignore[union-attr]
            elif type(effect) is AppendLog:
                ends = [(batch.epoch, batch.end_offset) for batch in effect.batches]
                self._deeds_of(effect.log).appended.extend(ends)
        about = _partition_of(event)
        deeds, touched = self._deeds, self._touched
        self.looked_at += len(node.replicas)
        for partition, replica in node.replicas.items():
            quick = _quick(replica)
            if (
                quick != self._quick.get(partition)
                or partition == about
                or partition in deeds
                or partition in touched
            ):
                self._quick[partition] = quick
                self._look(partition, replica, event, partition == about)
        if len(self._last) > len(node.replicas):
            for partition in [known for known in self._last if known not in node.replicas]:
                del self._last[partition]
                self._quick.pop(partition, None)
                self._add_replica(partition, _cause(event, None), None)
        touched.clear()
        deeds.clear()
        lines, self._lines = self._lines, []
        return lines

    # -- replicas ---------------------------------------------------------------------------------

    def _deeds_of(self, partition: PartitionId) -> _Deeds:
        found = self._deeds.get(partition)
        if found is None:
            found = self._deeds[partition] = _Deeds()
        return found

    def _wanted(self, command: Command) -> RequestId | None:
        """In the place of `Context.want`: what a replica says of itself is a message, too."""
        if isinstance(command, ReplicaFailed) and command.failure != self._failures.get(command.partition):
            self._failures[command.partition] = command.failure
            report = Report(command.epoch, command.leo, command.shortfall)
            self._deeds_of(command.partition).reports.append(report)
        return self._want(command)

    def _look(self, partition: PartitionId, replica: Replica, event: Event | None, about: bool) -> None:
        letter = None
        if about and type(event) is Received and type(event.message) in SPOKEN:
            letter = _letter(event.message, event.sender, self.node.config.node)
        after = _state(replica, self.node)
        before = self._last.get(partition)
        quiet = letter is None and partition not in self._deeds
        if quiet and before is not None and _same(before, after):
            return
        self._last[partition] = after
        self._add_replica(partition, _cause(event, letter), after)

    def _add_replica(self, partition: PartitionId, cause: Cause, after: ReplicaState | None) -> None:
        ctx = self.node.ctx
        deeds = self._deeds.get(partition) or _Deeds()
        self._number += 1
        self._lines.append(
            ReplicaStep(
                ctx.node,
                ctx.nonce,
                self._number,
                ctx.incarnation,
                partition,
                cause,
                tuple(deeds.sent),
                after,
                tuple(deeds.appended),
                tuple(deeds.reports),
            )
        )

    # -- the metadata group -----------------------------------------------------------------------

    def _applied(self, index: int, command: Command, result: Result) -> None:
        """Called by the node after each command that it applies."""
        metadata = self.node.metadata
        for partition in self._candidates(command, metadata, result):
            state = metadata.partitions.get(partition)
            after = _group(state, metadata) if state is not None else None
            before = self._records.get(partition)
            registers = (
                isinstance(command, RegisterNode) and metadata.nodes[command.node].incarnation == index
            )
            if after == before and not registers:
                continue
            if after is None:
                self._records.pop(partition, None)
            else:
                self._records[partition] = after
            self._touched[partition] = None
            if index > self.groups_after:
                self._add_group(index, command, result, partition, after)

    def _candidates(self, command: Command, metadata: Metadata, result: Result) -> list[PartitionId]:
        """The partitions that a command may have touched."""
        if isinstance(command, RegisterNode | ConfirmNode | ExpireNode | LeaveNode):
            return [p.id for p in metadata.partitions.values() if command.node in p.replicas]
        if isinstance(command, CreateStream):
            stream = metadata.by_id.get(result.stream)
            return list(stream.partitions) if stream is not None else []
        if isinstance(command, DeleteStream):
            return [known for known in self._records if known not in metadata.partitions]
        if isinstance(command, Rebalance):
            return list(metadata.partitions)
        return [command.partition]

    def _add_group(
        self, index: int, command: Command, result: Result, partition: PartitionId, after: Group | None
    ) -> None:
        ctx = self.node.ctx
        self._number += 1
        line = GroupStep(
            ctx.node, ctx.nonce, self._number, partition, index, type(command).__name__, after, result.code
        )
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
        self._lines.append(line)


def _with(line: GroupStep, **changes: object) -> GroupStep:
    return msgspec.structs.replace(line, **changes)


def _quick(replica: Replica) -> Quick:
    """What nearly every change of a replica shows in, cheap to compare."""
    leading, following = replica.leading, replica.following
    if leading is not None:
        progress = tuple(known.durable for known in leading.followers.values())
        rest: Quick = (leading.epoch, leading.pending, progress)
    else:
        rest = (following.request if following is not None else -1,)
    return (
        replica.state,
        replica.epoch,
        replica.leo,
        replica.durable_leo,
        replica.hw,
        replica.log_start,
        len(replica.pending),
        len(replica.repairs.ranges),
        *rest,
    )


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
    match event:
        case Received(message=Fetch() | FetchProgress() | FetchReply() as message):
            return message.partition
        case Published(partition=partition):
            return partition
        case LogOpened(summary=summary):
            return summary.log
        case StorageFailed(log=log):
            return log
    return None


def _cause(event: Event | None, letter: Letter | None) -> Cause:
    return Cause(type(event).__name__ if event is not None else "Start", letter)


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
        try:
            header = read_header(frame)
        except (CorruptBatch, LiftlogError):
            break
        if place == 0:
            first = header.base_offset
        end = header.base_offset + header.count
    return first, end
