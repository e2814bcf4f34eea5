"""Replies that say what is: streams and partitions by the metadata, a node by its parts."""

from __future__ import annotations

from collections.abc import Mapping

from liftlog.core.context import Context
from liftlog.core.metadata.records import LIVE, PartitionState, Records, StreamState
from liftlog.core.raft.raft import Raft
from liftlog.core.replica.replica import Replica
from liftlog.messages import (
    ERR_NATS_REFUSES,
    ERR_NOT_FOUND,
    ClusterStatusReply,
    Contact,
    ErrorReply,
    NodeInfo,
    PartitionInfo,
    ReplicaInfo,
    SlowReplica,
    StreamInfo,
)
from liftlog.types import PartitionId


def describe_partition(record: PartitionState) -> PartitionInfo:
    """The committed record of a partition, as clients see it."""
    return PartitionInfo(
        index=record.id.index,
        leader=record.leader,
        epoch=record.epoch,
        version=record.version,
        replicas=list(record.replicas),
        isr=list(record.isr),
        eligible=list(record.eligible),
        ready=record.ready,
        min_insync=record.min_insync,
        refusal="" if record.ready else record.refused.get(record.leader, ""),
        slow=[SlowReplica(node, removals) for node, removals in record.slow.items()],
        target=list(record.target),
        adding=list(record.adding),
        dropping=list(record.dropping),
        assignment=record.assignment,
    )


def describe_stream(records: Records, stream: StreamState) -> StreamInfo:
    partitions = [describe_partition(records.partitions[partition]) for partition in stream.partitions]
    return StreamInfo(stream.id, stream.config, partitions, stream.revision)


def unknown_stream(name: str) -> ErrorReply:
    text = f"stream {name!r} does not exist: create it with 'liftlog stream create'"
    return ErrorReply(ERR_NOT_FOUND, text, False)


def refused_creation(stream: StreamState, record: PartitionState, done: str) -> ErrorReply:
    """N1: the stream is there, but nothing that is published would reach it.

    `done`: "created" or "altered".
    """
    text = (
        f"stream {stream.config.name!r} was {done}, but NATS refuses node {record.leader}'s subscription "
        f"({record.refused[record.leader]}): nothing is stored until the nodes' NATS user may; they try again"
    )
    return ErrorReply(ERR_NATS_REFUSES, text, False, record.leader)


def _wishes(records: Records) -> dict[str, int]:
    """What operators want of nodes, as counters, which release 0.1.0 lets pass: who is drained (R20), and who
    retires (I3), with its heir.
    """
    told = {f"drained.{node.node}": 1 for node in records.nodes.values() if node.drains}
    return told | {f"retires.{node.node}": node.heir for node in records.nodes.values() if node.retires}


def cluster_status(
    ctx: Context, raft: Raft, replicas: Mapping[PartitionId, Replica], contact: Contact
) -> ClusterStatusReply:
    nodes = [
        NodeInfo(
            state.node,
            state.state == LIVE,
            state.incarnation,
            state.address,
            state.node in raft.members.nodes,
            state.state,
        )
        for state in ctx.metadata.nodes.values()
    ]
    copies = [
        ReplicaInfo(
            partition=replica.id,
            role=replica.role,
            epoch=replica.epoch,
            leo=replica.leo,
            durable_leo=replica.durable_leo,
            hw=replica.hw,
            log_start=replica.log_start,
            tail=replica.log.tail.value,
            state=replica.state,
            clean_point=replica.log.clean_point,
            damage=tuple(str(damaged) for damaged in replica.repairs.ranges),
        )
        for replica in replicas.values()
    ]
    return ClusterStatusReply(
        answered_by=ctx.node,
        controller=raft.leader,
        term=raft.term,
        applied=ctx.metadata.applied,
        nodes=nodes,
        replicas=copies,
        counters={
            **ctx.marks,
            "level.cluster": ctx.metadata.level,
            "level.can": ctx.config.can_level,
            **_wishes(ctx.metadata),
            "drains": sum(node.drains for node in ctx.metadata.nodes.values() if node.node == ctx.node),
        },
        contact=contact,
        snapshot=raft.snapshot.index if raft.snapshot is not None else 0,
        log_start=raft.raft_log.start,
        installing=raft.installing.under_way,
    )
