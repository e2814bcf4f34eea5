"""Metadata commands: what the metadata group's Raft log holds, one command an entry.

Every command carries the id of the request that caused it, so that sending it again is harmless, and the
preconditions under which it means anything (M3): a version, an epoch, an incarnation. The state machine that
applies them is `liftlog.core.metadata`; it reads no clock, so that what depends on time (expiries) is a
command that the controller proposes (R15).
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from liftlog.messages import Struct, intake
from liftlog.types import (
    NO_NODE,
    Handle,
    Line,
    NodeId,
    NodeOrNobody,
    Number,
    PartitionId,
    StreamConfig,
    Word,
)

RequestId = tuple[Handle, Number]
"""(nonce of the node's start, counter)."""
TailWord = Annotated[str, Meta(pattern=r"\A(clean|intact|suspect|damaged)\Z")]
"""The value of a `TailState`."""


class TailReport(Struct):
    """R14: what a starting node found of one partition. `state` is a `TailState` value."""

    partition: PartitionId
    state: TailWord
    epoch: Number
    leo: Number


class RegisterNode(Struct):
    """I2: a process has started. Its incarnation is the Raft index of this entry.

    `replaces` is the incarnation that it knows to be the node's present one: a registration that was under
    way since an earlier start finds another and means nothing.
    """

    request: RequestId
    node: NodeId
    replaces: Number
    disk_id: Word
    remembered: Number
    nonce: Handle
    address: Line
    tails: Annotated[list[TailReport], Meta(max_length=1 << 20)]


class ConfirmNode(Struct):
    """The node has its incarnation on disk (or is back after an expiry): it may lead and join from now on."""

    request: RequestId
    node: NodeId
    incarnation: Number


class ExpireNode(Struct):
    """R15: the controller has not heard from this incarnation for the session timeout."""

    request: RequestId
    node: NodeId
    incarnation: Number


class LeaveNode(Struct):
    """R15: this incarnation stops in an orderly way: does what an expiry does, and nobody waits for one."""

    request: RequestId
    node: int
    incarnation: int


class CreateStream(Struct):
    request: RequestId
    config: StreamConfig


class DeleteStream(Struct):
    request: RequestId
    name: Line


class ChangeIsr(Struct):
    """R9: compare-and-set on the partition's version. `joiner` 0 = a removal only."""

    request: RequestId
    partition: PartitionId
    leader: NodeId
    epoch: Number
    version: Number
    isr: Annotated[list[NodeId], Meta(max_length=64)]
    joiner: NodeOrNobody
    joiner_incarnation: Number


class ReplicaFailed(Struct):
    """R5: a sync failed; what the replica still trusts ends at `leo`."""

    request: RequestId
    partition: PartitionId
    node: NodeId
    incarnation: Number
    epoch: Number
    leo: Number
    shortfall: bool = False
    """It has less than it had reported durable: whoever leads must forget what it knows of this copy (R2)."""


class ReportLeader(Struct):
    """R15: a follower has not heard from the leader of this epoch."""

    request: RequestId
    partition: PartitionId
    epoch: Number
    reporter: NodeId
    incarnation: Number


class ExpireReports(Struct):
    """R15: the reports of this epoch did not become a majority within the bound."""

    request: RequestId
    partition: PartitionId
    epoch: Number


class LeaderReady(Struct):
    """N1: the leader of this epoch has its subscription confirmed by NATS."""

    request: RequestId
    partition: PartitionId
    epoch: Number


class Resign(Struct):
    """N5: the leader of this epoch asks for another one, if a live ISR member exists."""

    request: RequestId
    partition: PartitionId
    epoch: Number


class ElectLeader(Struct):
    """An operator's explicit election (R14, R16)."""

    request: RequestId
    partition: PartitionId
    node: NodeId
    unclean: bool


class Rebalance(Struct):
    request: RequestId


Command = (
    RegisterNode
    | ConfirmNode
    | ExpireNode
    | LeaveNode
    | CreateStream
    | DeleteStream
    | ChangeIsr
    | ReplicaFailed
    | ReportLeader
    | ExpireReports
    | LeaderReady
    | Resign
    | ElectLeader
    | Rebalance
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)


def encode_command(command: Command) -> bytes:
    return _encoder.encode(command)


def decode_command(data: bytes) -> Command:
    """V1, V5: the command in `data`. Raises InputRefused for bytes that are none."""
    return intake.decode(_decoder, data, "a command")


def author(command: Command) -> int:
    """V2: the node that alone may say this; 0 if anybody may."""
    match command:
        case RegisterNode() | ConfirmNode() | LeaveNode() | ReplicaFailed():
            return command.node
        case ChangeIsr():
            return command.leader
        case ReportLeader():
            return command.reporter
        case _:
            return NO_NODE
