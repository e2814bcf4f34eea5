"""Metadata commands: what the metadata group's Raft log holds, one command an entry.

Every command carries the id of the request that caused it, so that sending it again is harmless, and the
preconditions under which it means anything (M3): a version, an epoch, an incarnation. The state machine that
applies them is `liftlog.core.metadata`; it reads no clock, so that what depends on time (expiries) is a
command that the controller proposes (R15).
"""

from __future__ import annotations

import msgspec

from liftlog.messages import Struct
from liftlog.types import PartitionId, StreamConfig

RequestId = tuple[int, int]
"""(nonce of the node's start, counter)."""


class TailReport(Struct):
    """R14: what a starting node found of one partition. `state` is a `TailState` value."""

    partition: PartitionId
    state: str
    epoch: int
    leo: int


class RegisterNode(Struct):
    """I2: a process has started. Its incarnation is the Raft index of this entry.

    `replaces` is the incarnation that it knows to be the node's present one: a registration that was under
    way since an earlier start finds another and means nothing.
    """

    request: RequestId
    node: int
    replaces: int
    disk_id: str
    remembered: int
    nonce: int
    address: str
    tails: list[TailReport]


class ConfirmNode(Struct):
    """The node has its incarnation on disk (or is back after an expiry): it may lead and join from now on."""

    request: RequestId
    node: int
    incarnation: int


class ExpireNode(Struct):
    """R15: the controller has not heard from this incarnation for the session timeout."""

    request: RequestId
    node: int
    incarnation: int


class CreateStream(Struct):
    request: RequestId
    config: StreamConfig


class DeleteStream(Struct):
    request: RequestId
    name: str


class ChangeIsr(Struct):
    """R9: compare-and-set on the partition's version. `joiner` 0 = a removal only."""

    request: RequestId
    partition: PartitionId
    leader: int
    epoch: int
    version: int
    isr: list[int]
    joiner: int
    joiner_incarnation: int


class ReplicaFailed(Struct):
    """R5: a sync failed; what the replica still trusts ends at `leo`."""

    request: RequestId
    partition: PartitionId
    node: int
    incarnation: int
    epoch: int
    leo: int
    shortfall: bool = False
    """It has less than it had reported durable: whoever leads must forget what it knows of this copy (R2)."""


class ReportLeader(Struct):
    """R15: a follower has not heard from the leader of this epoch."""

    request: RequestId
    partition: PartitionId
    epoch: int
    reporter: int
    incarnation: int


class ExpireReports(Struct):
    """R15: the reports of this epoch did not become a majority within the bound."""

    request: RequestId
    partition: PartitionId
    epoch: int


class LeaderReady(Struct):
    """N1: the leader of this epoch has its subscription confirmed by NATS."""

    request: RequestId
    partition: PartitionId
    epoch: int


class Resign(Struct):
    """N5 and orderly stop: the leader of this epoch asks for another one, if a live ISR member exists."""

    request: RequestId
    partition: PartitionId
    epoch: int


class ElectLeader(Struct):
    """An operator's explicit election (R14, R16)."""

    request: RequestId
    partition: PartitionId
    node: int
    unclean: bool


class Rebalance(Struct):
    request: RequestId


Command = (
    RegisterNode
    | ConfirmNode
    | ExpireNode
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
    """Raises msgspec.DecodeError for bytes that are no command."""
    return _decoder.decode(data)
