"""N12: which event a command of the metadata group is.

It follows from the command's index, and from the records before it and after it, and from nothing else: so
each node has the same events. A command that changes nothing (refused, repeated, stale) is none, and neither
is one that changes nothing of what is told here. What one command does to many partitions is one event, which
lists them, up to a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from liftlog.core.metadata.alterations import describe_alteration
from liftlog.core.metadata.commands import (
    AdmitNode,
    AlterStream,
    Command,
    ConfirmNode,
    CreateStream,
    DeleteStream,
    DrainNode,
    ExpireNode,
    FinishMove,
    LeaveNode,
    MoveReplicas,
    PassVote,
    PromoteSpare,
    RaiseLevel,
    RegisterNode,
    RemoveNode,
    RetireNode,
    SetVoter,
)
from liftlog.core.metadata.outbox import ActivityEvent, PartitionChange
from liftlog.core.metadata.records import PartitionState, Records, StreamState, replaced
from liftlog.types import PartitionId, StreamConfig

STREAM_CREATED, STREAM_DELETED, STREAM_ALTERED = "stream.created", "stream.deleted", "stream.altered"
STREAM_PAUSED, STREAM_RESUMED = "stream.paused", "stream.resumed"
PARTITION_LEADER, PARTITION_ISR = "partition.leader", "partition.isr"
MOVE_BEGUN, PARTITION_MOVED = "partition.move-begun", "partition.moved"
NODE_REGISTERED, NODE_LIVE, NODE_EXPIRED = "node.registered", "node.live", "node.expired"
NODE_STOPPED, NODE_ADMITTED, NODE_REMOVED = "node.stopped", "node.admitted", "node.removed"
DRAIN_BEGUN, DRAIN_ENDED = "node.drain-begun", "node.drain-ended"
RETIREMENT_BEGUN, RETIREMENT_ENDED = "node.retirement-begun", "node.retirement-ended"
VOTE_GIVEN, VOTE_TAKEN, VOTE_PASSED = "node.vote-given", "node.vote-taken", "node.vote-passed"
LEVEL_RAISED = "level.raised"
EVENTS_MISSING = "events.missing"
"""No event: up to its id some had no room."""
KINDS = (
    *(STREAM_CREATED, STREAM_DELETED, STREAM_ALTERED, STREAM_PAUSED, STREAM_RESUMED),
    *(PARTITION_LEADER, PARTITION_ISR, MOVE_BEGUN, PARTITION_MOVED),
    *(NODE_REGISTERED, NODE_LIVE, NODE_EXPIRED, NODE_STOPPED, NODE_ADMITTED, NODE_REMOVED),
    *(DRAIN_BEGUN, DRAIN_ENDED, RETIREMENT_BEGUN, RETIREMENT_ENDED, VOTE_GIVEN, VOTE_TAKEN, VOTE_PASSED),
    *(LEVEL_RAISED, EVENTS_MISSING),
)
"""All that the activity stream may say."""
LISTED_MAX = 64
"""So many partitions one event lists; how many more there are is said."""

DETAIL_MAX = 1024
"""So many characters of an alteration are told."""

Before = Mapping[PartitionId, PartitionState]
"""The partitions that the last command has changed, as they were."""


def missing(up_to: int) -> ActivityEvent:
    """What stands in the place of events that had no room."""
    return ActivityEvent(up_to, EVENTS_MISSING)


def stream_of(command: Command, records: Records) -> StreamState | None:
    """The stream that a command is about, as it is before it."""
    return records.by_id.get(command.stream) if isinstance(command, DeleteStream | AlterStream) else None


def event_of(
    records: Records, command: Command, stream: StreamState | None, before: Before
) -> ActivityEvent | None:
    """What the command has done that was just applied, and not refused; None: nothing that is told.

    `stream`: by `stream_of`. `before`: of the partitions that it has changed.
    """
    event = (
        _of_streams(records, command, stream)
        or _of_nodes(records, command)
        or _of_offices(records, command)
        or _of_moves(records, command, before)
    )
    changed = [one for one, was in before.items() if _differs(was, records.partitions.get(one))]
    if event is None and changed:
        led = any(records.partitions[one].epoch != was.epoch for one, was in before.items())
        event = ActivityEvent(records.applied, PARTITION_LEADER if led else PARTITION_ISR)
    if event is None or not changed:
        return event
    listed = tuple([_change(records, one, before[one]) for one in changed[:LISTED_MAX]])
    return replaced(event, partitions=listed, more=len(changed) - len(listed))


def _of_streams(records: Records, command: Command, before: StreamState | None) -> ActivityEvent | None:
    index = records.applied
    if isinstance(command, CreateStream):
        made = records.by_id.get(index)
        return ActivityEvent(index, STREAM_CREATED, made.config.name, made.id) if made is not None else None
    if before is None:
        return None
    if isinstance(command, DeleteStream):
        return ActivityEvent(index, STREAM_DELETED, before.config.name, before.id)
    config = records.by_id[before.id].config
    if config == before.config:
        return None
    said = describe_alteration(before.config, config)
    if len(said) > DETAIL_MAX:
        said = f"{said[:DETAIL_MAX]} ..."
    return ActivityEvent(index, _alteration(before.config, config), config.name, before.id, detail=said)


def _alteration(before: StreamConfig, after: StreamConfig) -> str:
    if before.paused == after.paused:
        return STREAM_ALTERED
    return STREAM_PAUSED if after.paused is True else STREAM_RESUMED


def _of_nodes(records: Records, command: Command) -> ActivityEvent | None:
    index = records.applied
    match command:
        case RegisterNode():
            return ActivityEvent(
                index, NODE_REGISTERED, node=command.node, incarnation=index, detail=command.address
            )
        case ConfirmNode():
            return ActivityEvent(index, NODE_LIVE, node=command.node, incarnation=command.incarnation)
        case ExpireNode():
            return ActivityEvent(index, NODE_EXPIRED, node=command.node, incarnation=command.incarnation)
        case LeaveNode():
            return ActivityEvent(index, NODE_STOPPED, node=command.node, incarnation=command.incarnation)
        case AdmitNode():
            return ActivityEvent(index, NODE_ADMITTED, node=command.node, detail=command.address)
        case RemoveNode():
            return ActivityEvent(index, NODE_REMOVED, node=command.node)
        case RaiseLevel():
            return ActivityEvent(index, LEVEL_RAISED, level=command.to)
    return None


def _of_offices(records: Records, command: Command) -> ActivityEvent | None:
    """What a node is to give away, or to have: its copies, its place, its vote (R20, I3, M2)."""
    index = records.applied
    match command:
        case DrainNode():
            return ActivityEvent(index, DRAIN_BEGUN if command.drains else DRAIN_ENDED, node=command.node)
        case RetireNode():
            kind = RETIREMENT_BEGUN if command.retires else RETIREMENT_ENDED
            said = f"node {command.heir} takes its place" if command.retires and command.heir else ""
            return ActivityEvent(index, kind, node=command.node, detail=said)
        case SetVoter():
            return ActivityEvent(index, VOTE_GIVEN if command.votes else VOTE_TAKEN, node=command.node)
        case PassVote() | PromoteSpare():
            heir = command.heir if isinstance(command, PassVote) else command.spare
            said = f"node {heir} votes in its place" if heir else "nobody votes in its place"
            return ActivityEvent(index, VOTE_PASSED, node=command.node, detail=said)
    return None


def _of_moves(records: Records, command: Command, before: Before) -> ActivityEvent | None:
    if not isinstance(command, MoveReplicas | FinishMove):
        return None
    identity = command.partition
    now, stream = records.partitions[identity], records.by_id[identity.stream]
    if isinstance(command, MoveReplicas):
        kind, there, here = MOVE_BEGUN, now.meant, now.origin
    else:
        kind, there, here = PARTITION_MOVED, now.replicas, before[identity].origin
    detail = f"partition {identity.index} to nodes {_listed(there)}, from {_listed(here)}"
    return ActivityEvent(records.applied, kind, stream.config.name, stream.id, detail=detail)


def _listed(nodes: Sequence[int]) -> str:
    return " ".join(map(str, nodes))


def _differs(was: PartitionState, now: PartitionState | None) -> bool:
    """Whether it is still there, and has another leader, epoch or ISR now."""
    return now is not None and (was.leader, was.epoch, was.isr) != (now.leader, now.epoch, now.isr)


def _change(records: Records, identity: PartitionId, was: PartitionState) -> PartitionChange:
    now = records.partitions[identity]
    return PartitionChange(
        stream=records.by_id[identity.stream].config.name,
        partition=identity.index,
        leader=now.leader,
        epoch=now.epoch,
        isr=now.isr,
        joined=tuple(node for node in now.isr if node not in was.isr),
        left=tuple(node for node in was.isr if node not in now.isr),
    )


def creation_problem(records: Records, config: StreamConfig) -> str:
    """Why a stream cannot become the activity stream now; empty if it can, or is to be none."""
    if config.activity is not True or not records.outbox.on:
        return ""
    there = records.by_id[records.outbox.stream].config.name
    return f"stream {there!r} tells the cluster's activity already: there is one such stream at most"
