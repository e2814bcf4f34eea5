"""Metadata commands: what the metadata group's Raft log holds, one command an entry.

A command may reach the log late, and more than once: it was held back by the network, or kept by a leader of
an older term. Three things make that harmless (M3). It names what it is about by id, never by name. It names
the state of that in which it means something: a version, an epoch, an incarnation, a round of reports, the
index that its author had read. And its request id names the last index at which it means anything at all; up
to there every node remembers it, so that a repetition changes nothing. All of this is judged from the log
alone, when the command is applied (`liftlog.core.metadata`). The state machine reads no clock, so that what
depends on time (expiries) is a command that the controller proposes (R15).
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from liftlog.messages import StreamChanges, Struct, intake
from liftlog.types import (
    NO_NODE,
    Handle,
    Level,
    Line,
    NodeId,
    NodeOrNobody,
    Number,
    PartitionId,
    StreamConfig,
    TailState,
    Word,
)

SPAN_MAX = 65_536
"""No command may take effect more than so many entries after the last one that its author had applied."""


class RequestId(NamedTuple):
    """Names one command for ever, and the last Raft index at which it means anything (M3).

    `start`: the nonce of the start of the node that proposes it; `number`: counts the commands of that start.
    """

    start: Handle
    number: Number
    until: Number


UNSENT = RequestId(0, 0, 0)
"""In the place of a request id until a command is sent (`liftlog.core.proposals`)."""
TailWord = Annotated[str, Meta(pattern=rf"\A({'|'.join(state.value for state in TailState)})\Z")]
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
    vote_id: Word = ""
    """M2: under which the disk takes part in the metadata group; empty = under its own id."""


class ConfirmNode(Struct):
    """The node has its incarnation on disk (or is back after an expiry): it may lead and join from now on.

    `since`: the index at which the state that this ends began, so that it never ends a later one.
    """

    request: RequestId
    node: NodeId
    incarnation: Number
    since: Number


class ExpireNode(Struct):
    """R15: the controller has not heard from this incarnation for the session timeout. `since`: as above."""

    request: RequestId
    node: NodeId
    incarnation: Number
    since: Number


class LeaveNode(Struct):
    """R15: this incarnation stops in an orderly way: does what an expiry does, and nobody waits for one.

    `since`: as above.
    """

    request: RequestId
    node: NodeId
    incarnation: Number
    since: Number


class CreateStream(Struct):
    """Means nothing once a stream was deleted after index `as_of`, which its author had read: it might bring
    back what was asked for, created and deleted meanwhile.
    """

    request: RequestId
    config: StreamConfig
    as_of: Number


class DeleteStream(Struct):
    """I1: of the stream with this id, and no other of its name. `name`: for people."""

    request: RequestId
    stream: Number
    name: Line


class AlterStream(Struct):
    """R19: compare-and-set on the stream's `revision`, the index of the last alteration that its author had
    read, so that nobody undoes what he has not seen. `name`: for people.
    """

    request: RequestId
    stream: Number
    name: Line
    revision: Number
    changes: StreamChanges


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
    slow: bool = False
    """R17: whoever leaves held up the others."""


class ReplicaFailed(Struct):
    """R5: a sync failed; what the replica still trusts ends at `leo`.

    `failure` numbers the failures of one incarnation, of whatever copies it has had: each is told once, and
    none after a later one.
    """

    request: RequestId
    partition: PartitionId
    node: NodeId
    incarnation: Number
    failure: Number
    epoch: Number
    leo: Number
    shortfall: bool = False
    """It has less than it had reported durable: whoever leads must forget what it knows of this copy (R2)."""


class PairFailed(Struct):
    """The same of a copy with a journal: one of its two logs has failed, and it stops with both (R5).

    `epoch` and `leo` are of the data; what the copy has left of either log is told (R14).
    """

    request: RequestId
    partition: PartitionId
    node: NodeId
    incarnation: Number
    failure: Number
    epoch: Number
    leo: Number
    journal_epoch: Number
    journal_leo: Number
    shortfall: bool = False


class ReportLeader(Struct):
    """R15: a follower has not heard from the leader of this epoch. `round`: the reports it belongs to."""

    request: RequestId
    partition: PartitionId
    epoch: Number
    round: Number
    reporter: NodeId
    incarnation: Number


class ExpireReports(Struct):
    """R15: the reports of this round did not become a majority within the bound. The next round begins."""

    request: RequestId
    partition: PartitionId
    epoch: Number
    round: Number


class ReadyAgain(Struct):
    """N1, N10: as `LeaderReady`, after a pause in this epoch, or other subjects. `paused_at`: of the last
    such command that its author had applied, so that what was said before it does not count after it.
    """

    request: RequestId
    partition: PartitionId
    epoch: Number
    paused_at: Number


class LeaderReady(Struct):
    """N1: the leader of this epoch has its subscription confirmed by NATS, or, with a `refusal` in its words,
    refused.
    """

    request: RequestId
    partition: PartitionId
    epoch: Number
    refusal: Line = ""


class Resign(Struct):
    """N5: the leader of this epoch asks for another one, if a live ISR member exists.

    Compare-and-set on the partition's version: what was asked for in another situation means nothing.
    """

    request: RequestId
    partition: PartitionId
    epoch: Number
    version: Number
    slow: bool = False
    """R17: the others wait for its disk."""


class ForgetSlow(Struct):
    """R18: a member of the ISR that was removed so often for being slow has kept up for a long time."""

    request: RequestId
    partition: PartitionId
    epoch: Number
    node: NodeId
    removals: Number


class ElectLeader(Struct):
    """An operator's explicit election (R14, R16), in the situation that he has seen: the version."""

    request: RequestId
    partition: PartitionId
    version: Number
    node: NodeId
    unclean: bool


class Rebalance(Struct):
    """R16: of those partitions whose leader has led since `as_of`, the index that its author had read."""

    request: RequestId
    as_of: Number


class MoveReplicas(Struct):
    """R20: from now on the partition is to have its copies on these nodes, the first of which is to lead it.

    Compare-and-set: `assignment` is the index of the last such command that its author had read.
    """

    request: RequestId
    partition: PartitionId
    assignment: Number
    replicas: Annotated[list[NodeId], Meta(min_length=1, max_length=64)]


class FinishMove(Struct):
    """R20: all of those that are to have a copy are in the ISR. `assignment`: of the command that said so."""

    request: RequestId
    partition: PartitionId
    assignment: Number


class CopyDropped(Struct):
    """R20: this run of a node has nothing of the partition any more, durably."""

    request: RequestId
    partition: PartitionId
    node: NodeId
    incarnation: Number


class SetVoter(Struct):
    """M2: an operator says whether a node is to vote in the metadata group. `version`: the index of the last
    such command, about whatever node, that its author had read: so that nobody overrules what he has not
    seen, and two that are right each do not leave the group without a voter.
    """

    request: RequestId
    node: NodeId
    votes: bool
    version: Number


class PromoteSpare(Struct):
    """M2: a node whose session is over since the index `since` has been gone for long: `spare` is to vote in
    its place. `version`: as of `SetVoter`.
    """

    request: RequestId
    node: NodeId
    since: Number
    spare: NodeId
    version: Number


class DrainNode(Struct):
    """R20: a node is to keep no copy that another one can have, or may keep some again. `version`: the index
    of the last such command about it that its author had read.
    """

    request: RequestId
    node: NodeId
    drains: bool
    version: Number


class RetireNode(Struct):
    """I3: an operator wants a node to give away what it has, and to be removed then; or not any more. `heir`:
    who is to have its copies and its vote; 0 = whoever the controller chooses, and nobody. `version`: the
    index of the last such command about the node that its author had read.
    """

    request: RequestId
    node: NodeId
    retires: bool
    heir: NodeOrNobody
    version: Number


class PassVote(Struct):
    """M2: a node that retires is to vote no more, and `heir` is, or for want of one a spare, if there is one.
    `wish`: the index of the command that it retires by. `version`: as of `SetVoter`.
    """

    request: RequestId
    node: NodeId
    heir: NodeOrNobody
    wish: Number
    version: Number


class NodeLevel(NamedTuple):
    """What one run of a node can."""

    node: NodeId
    incarnation: Number
    level: Level


class RaiseLevel(Struct):
    """U2: the cluster's feature level becomes `to`, since every node can that: `nodes` has them all, each
    with the incarnation that has said so. It means nothing once another run of one of them has registered.
    """

    request: RequestId
    to: Level
    nodes: Annotated[list[NodeLevel], Meta(max_length=1 << 16)]


Addresses = Annotated[list[tuple[NodeId, Line]], Meta(min_length=1, max_length=64)]
"""Nodes, and where the others call them."""


class AdmitNode(Struct):
    """I3: an operator says that a node is of the cluster, and where the others call it; also of one that is
    there, which is called at another address from then on. `version`: the index of the last command that has
    said which nodes there are, as its author had read it. `founders`: the voters of the configuration, and
    where they are called: a node that joins has no other way to know them for good.
    """

    request: RequestId
    node: NodeId
    address: Line
    version: Number
    founders: Addresses


class RemoveNode(Struct):
    """I3: an operator says that a node is of the cluster no more: it keeps nothing and is not to vote.
    `version`, `founders`: as of `AdmitNode`. `wish`: the controller says it, of a node that retires by the
    command with this index; 0 = an operator does.
    """

    request: RequestId
    node: NodeId
    version: Number
    founders: Addresses
    wish: Number = 0


class TrimActivity(Struct):
    """N12: what the metadata group has done up to the index `up_to` is committed in the activity stream with
    this id, or is told there to be missing, and that is committed. One that comes late changes nothing.
    """

    request: RequestId
    stream: Number
    up_to: Number


Command = (
    RegisterNode
    | ConfirmNode
    | ExpireNode
    | LeaveNode
    | CreateStream
    | DeleteStream
    | AlterStream
    | ChangeIsr
    | ReplicaFailed
    | PairFailed
    | ReportLeader
    | ExpireReports
    | LeaderReady
    | ReadyAgain
    | Resign
    | ForgetSlow
    | ElectLeader
    | Rebalance
    | SetVoter
    | PromoteSpare
    | MoveReplicas
    | FinishMove
    | CopyDropped
    | DrainNode
    | RetireNode
    | PassVote
    | RaiseLevel
    | AdmitNode
    | RemoveNode
    | TrimActivity
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)


def encode_command(command: Command) -> bytes:
    return _encoder.encode(command)


def decode_command(data: bytes) -> Command:
    """V1, V5: the command in `data`. Raises InputRefused for bytes that are none."""
    return intake.decode(_decoder, data, "a command")


CONTROLLERS = (ExpireNode, ExpireReports, FinishMove, PassVote, PromoteSpare, RaiseLevel)
"""What the controller alone measures, and asks for in the term in which it has measured it."""


def author(command: Command) -> int:
    """V2: the node that alone may say this; 0 if anybody may."""
    match command:
        case RegisterNode() | ConfirmNode() | LeaveNode() | ReplicaFailed() | PairFailed() | CopyDropped():
            return command.node
        case ChangeIsr():
            return command.leader
        case ReportLeader():
            return command.reporter
        case _:
            return NO_NODE
