"""Requests of clients: reads and offsets (R3), and the way to whoever answers the others.

Reads of metadata are linearizable: they wait behind the barrier (`liftlog.core.barrier`). So does every
change (`liftlog.core.changes`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from liftlog.core.acks import Acks
from liftlog.core.barrier import Barrier
from liftlog.core.changes import Changes
from liftlog.core.context import Context
from liftlog.core.describe import cluster_status, describe_stream, unknown_stream
from liftlog.core.metadata.commands import Command
from liftlog.core.metadata.records import CommandResult
from liftlog.core.nodechanges import NodeChanges
from liftlog.core.proposals import Proposals
from liftlog.core.raft.raft import Raft
from liftlog.core.raising import Raising
from liftlog.core.replica.filtered import problem_of as filter_problem
from liftlog.core.replica.replica import Replica
from liftlog.core.roster import Roster
from liftlog.core.standing import Standing
from liftlog.core.waiting import Clients
from liftlog.messages import (
    ERR_INVALID,
    ERR_NO_LEADER,
    ERR_NOT_FOUND,
    ERR_NOT_LEADER,
    ERR_NOT_READY,
    LAST_OF_SUBJECT,
    SUBJECT_QUESTIONS,
    AddNodeRequest,
    AlterConsumerRequest,
    AlterStreamRequest,
    ClientGone,
    ClientMessage,
    ClientReply,
    ClientRequest,
    ClusterStatusRequest,
    ConsumerRequest,
    ConsumersRequest,
    CreateConsumerRequest,
    CreateStreamRequest,
    DeleteConsumerRequest,
    DeleteMessageRequest,
    DeleteStreamRequest,
    Deleting,
    DoneReply,
    DrainNodeRequest,
    ElectLeaderRequest,
    ErrorReply,
    FilteredReadRequest,
    MoveReplicasRequest,
    OffsetRequest,
    PullRequest,
    PurgeRequest,
    PurgeSubjectsRequest,
    RaiseLevelRequest,
    ReadRequest,
    RebalanceRequest,
    RemoveNodeRequest,
    ResetConsumerRequest,
    RetireNodeRequest,
    SetVoterRequest,
    StreamInfoReply,
    StreamInfoRequest,
    SubjectRequest,
    TransferControllerRequest,
    UnpinRequest,
)
from liftlog.subjects.grammar import PatternRefused, is_literal
from liftlog.subjects.index.interface import filter_tokens
from liftlog.types import PARTITIONS_MAX, ClientRef, PartitionId


class Requests:
    """All client requests that this node has not answered yet."""

    __slots__ = (
        "_acks",
        "_barrier",
        "_changes",
        "_clients",
        "_ctx",
        "_look",
        "_nodes",
        "_raft",
        "_raising",
        "_replicas",
        "_standing",
    )

    def __init__(
        self,
        ctx: Context,
        raft: Raft,
        replicas: Mapping[PartitionId, Replica],
        proposals: Proposals,
        standing: Standing,
        raising: Raising,
        roster: Roster,
        look: Callable[[PartitionId], None],
    ) -> None:
        """`look`: called with a partition before its replica is spoken to (L5)."""
        self._look = look
        self._ctx = ctx
        self._raft = raft
        self._replicas = replicas
        self._standing = standing
        self._raising = raising
        self._acks = Acks(ctx.effects)
        self._clients = Clients(ctx.effects)
        self._barrier = Barrier(ctx, raft, self._clients)
        self._changes = Changes(ctx, proposals, self._clients, self._barrier, roster)
        self._nodes = NodeChanges(ctx, raft, self._clients, self._barrier, roster, self._changes.propose)

    # -- what the node calls ----------------------------------------------------------------------

    def on_request(self, event: ClientRequest) -> None:
        if self._acks.add(event):
            return
        self.take_acks()
        client, request, ctx = event.client, event.request, self._ctx
        refusal = self._refusal(request)
        if refusal is not None:
            self._clients.reply(client, refusal)
            return
        match request:
            case FilteredReadRequest() if problem := filter_problem(request):
                self._clients.reply(client, ErrorReply(ERR_INVALID, problem, False))
            case ReadRequest():
                replica = self._replicas.get(request.partition)
                if replica is None or not replica.log.serves_reads or not ctx.incarnation:
                    self._not_here(client, request.partition)
                else:
                    replica.readers.read(client, request)
            case OffsetRequest():
                self._offset(client, request)
            case SubjectRequest():
                self._subjects(client, request)
            case PurgeRequest():
                self._purge(client, request)
            case DeleteMessageRequest() | PurgeSubjectsRequest():
                self._delete(client, request)
            case (
                CreateConsumerRequest()
                | AlterConsumerRequest()
                | DeleteConsumerRequest()
                | ResetConsumerRequest()
                | ConsumersRequest()
                | PullRequest()
                | UnpinRequest()
            ):
                self._by_journal([(client, request)])
            case CreateStreamRequest():
                self._changes.create(client, request)
            case AlterStreamRequest():
                self._changes.alter(client, request)
            case DeleteStreamRequest():
                self._changes.delete(client, request)
            case StreamInfoRequest():
                name = request.name
                if request.known or ctx.mutants.metadata_read_at_once:
                    self._clients.reply(client, self._stream_info(name, not request.known))
                else:
                    self._barrier.after(
                        client, lambda waiting: self._clients.answer(waiting, self._stream_info(name, True))
                    )
            case ClusterStatusRequest():
                contact = self._standing.contact()
                self._clients.reply(client, cluster_status(ctx, self._raft, self._replicas, contact))
            case ElectLeaderRequest():
                self._changes.elect(client, request)
            case MoveReplicasRequest():
                self._changes.move(client, request)
            case RebalanceRequest():
                self._changes.rebalance(client)
            case SetVoterRequest():
                self._changes.set_voter(client, request)
            case RaiseLevelRequest():
                self._clients.reply(client, self._raising.ask())
            case AddNodeRequest():
                self._nodes.add(client, request)
            case DrainNodeRequest():
                self._nodes.drain(client, request)
            case RetireNodeRequest():
                self._nodes.retire(client, request)
            case RemoveNodeRequest():
                self._nodes.remove(client, request)
            case TransferControllerRequest():
                self._clients.reply(client, self._transfer(request))

    def _refusal(self, request: ClientMessage) -> ErrorReply | None:
        """Why nothing of the kind is asked of this node."""
        ctx = self._ctx
        if ctx.config.joins and not ctx.metadata.founders:
            text = f"node {ctx.node} is none of the cluster yet: 'liftlog cluster add {ctx.node} HOST:PORT'"
            return ErrorReply(ERR_NOT_READY, text, True)
        about = getattr(request, "partition", None)
        if isinstance(about, PartitionId) and about.is_journal:
            # Whoever could read or purge it would bring back what was deleted (R21).
            text = f"there is no partition {about.index}: a stream has at most {PARTITIONS_MAX}"
            return ErrorReply(ERR_NOT_FOUND, text, False)
        return None

    def take_acks(self) -> None:
        """K3: take up what clients have said of messages."""
        if not len(self._acks):
            return
        for partition, asked in self._acks.take().items():
            self._look(partition)
            refusal = self._refusal(asked[0][1])
            if refusal is None:
                self._by_journal(asked)
            else:
                for client, _ in asked:
                    self._clients.reply(client, refusal)

    def on_gone(self, event: ClientGone) -> None:
        """The client's connection is gone; what it has said counts."""
        self.take_acks()
        client = event.client
        self._clients.forget(client)
        for replica in self._replicas.values():
            replica.forget(client)

    @property
    def waiting(self) -> int:
        """How many clients wait here; `WAITING_MAX` may."""
        return len(self._clients)

    def barrier_ready(self, number: int, index: int) -> None:
        self._barrier.ready(number, index)
        self.metadata_moved(())

    def barrier_failed(self, number: int) -> None:
        self._barrier.failed(number)

    def applied(self, command: Command, result: CommandResult) -> None:
        self._changes.applied(command, result)

    def jumped(self) -> None:
        """M1q: a snapshot was installed, with commands in it that this node has not seen."""
        self._changes.jumped()

    def metadata_moved(self, changed: Collection[PartitionId]) -> None:
        """Commands were applied, and touched these partitions."""
        self._barrier.advance()
        self._changes.advance(changed)

    def tick(self) -> None:
        self._clients.tick()
        self._changes.tick()
        self._barrier.tick()

    # -- reads ------------------------------------------------------------------------------------

    def _not_here(self, client: ClientRef, partition: PartitionId) -> None:
        record = self._ctx.metadata.partitions.get(partition)
        if record is None:
            text = f"partition {partition} does not exist, or this node has not heard of it yet"
            reply = ErrorReply(ERR_NOT_FOUND, text, True)
        elif self._ctx.node in record.replicas:
            reply = ErrorReply(ERR_NOT_READY, "this replica is not open yet", True, record.leader)
        else:
            text = f"this node holds no copy of partition {partition}"
            reply = ErrorReply(ERR_NOT_LEADER, text, True, record.leader)
        self._clients.reply(client, reply)

    def _offset(self, client: ClientRef, request: OffsetRequest) -> None:
        replica = self._replicas.get(request.partition)
        if request.what not in ("earliest", "latest", "new", "time"):
            text = f"offset {request.what!r} is not one of earliest, latest, new, time"
            self._clients.reply(client, ErrorReply(ERR_INVALID, text, False))
        elif replica is None or not replica.log.serves_reads or not self._ctx.incarnation:
            self._not_here(client, request.partition)
        elif request.what in ("earliest", "time"):
            replica.readers.lookup(client, request)
        elif replica.leading is None:
            self._not_leader(client, replica)
        else:
            self._barrier.after(client, lambda waiting: self._latest(self._clients.leave(waiting), request))

    def _subjects(self, client: ClientRef, request: SubjectRequest) -> None:
        """S1: from what any copy knows, or from all that was acked before the request came."""
        replica = self._replicas.get(request.partition)
        problem = _subject_problem(request)
        if problem:
            self._clients.reply(client, ErrorReply(ERR_INVALID, problem, False))
        elif replica is None or replica.state != "ready" or not self._ctx.incarnation:
            self._not_here(client, request.partition)
        elif request.known:
            replica.ask(client, request)
        elif replica.leading is None:
            self._not_leader(client, replica)
        elif self._ctx.mutants.subjects_without_round:
            replica.ask(client, request)
        else:
            self._barrier.after(
                client, lambda waiting: self._fresh_subjects(self._clients.leave(waiting), request)
            )

    def _fresh_subjects(self, client: ClientRef, request: SubjectRequest) -> None:
        replica = self._replicas.get(request.partition)
        if replica is None or replica.state != "ready":
            self._not_here(client, request.partition)
        elif replica.readers.knows_all(client) and (
            replica.journal is None or replica.journal.readers.knows_all(client)
        ):
            replica.ask(client, request)

    def _not_leader(self, client: ClientRef, replica: Replica) -> None:
        record = replica.record
        leader = record.leader if record is not None else 0
        code = ERR_NOT_LEADER if leader else ERR_NO_LEADER
        self._clients.reply(client, ErrorReply(code, "ask the partition's leader", True, leader))

    def _purge(self, client: ClientRef, request: PurgeRequest) -> None:
        """C3: the partition's leader takes it up."""
        replica = self._replicas.get(request.partition)
        if replica is None or replica.state != "ready" or not self._ctx.incarnation:
            self._not_here(client, request.partition)
        elif replica.leading is None:
            self._not_leader(client, replica)
        else:
            replica.purge(client, request)

    def _delete(self, client: ClientRef, request: Deleting) -> None:
        """R21: messages are to be deleted."""
        problem = _filter_problem(request.pattern) if isinstance(request, PurgeSubjectsRequest) else ""
        if problem:
            self._clients.reply(client, ErrorReply(ERR_INVALID, problem, False))
        else:
            self._by_journal([(client, request)])

    def _by_journal(self, asked: Sequence[tuple[ClientRef, Deleting | ConsumerRequest]]) -> None:
        """R21, K1-K8: the leader of the partition that all these are about takes them up, if there is a
        journal.
        """
        request = asked[0][1]
        replica = self._replicas.get(request.partition)
        stream = self._ctx.metadata.by_id.get(request.partition.stream)
        if replica is None or replica.state != "ready" or not self._ctx.incarnation:
            for client, _ in asked:
                self._not_here(client, request.partition)
        elif stream is not None and not stream.config.has_journal:
            what = "it has no consumers"
            if isinstance(request, Deleting):
                what = "its messages cannot be deleted one by one, or by subject"
            text = (
                f"stream {stream.config.name!r}: {what}; that takes a stream that was created with a "
                "journal: stream create --removal"
            )
            for client, _ in asked:
                self._clients.reply(client, ErrorReply(ERR_INVALID, text, False))
        elif replica.leading is None or replica.journal is None or replica.journal.leading is None:
            for client, _ in asked:
                self._not_leader(client, replica)
        else:
            replica.write(asked)

    def _latest(self, client: ClientRef, request: OffsetRequest) -> None:
        replica = self._replicas.get(request.partition)
        if replica is None:
            self._not_here(client, request.partition)
        else:
            replica.readers.answer_latest(client, request)

    # -- the group --------------------------------------------------------------------------------

    def _stream_info(self, name: str, linearizable: bool) -> ClientReply:
        metadata = self._ctx.metadata
        if name and name not in metadata.streams:
            return unknown_stream(name)
        chosen = [metadata.streams[name]] if name else metadata.streams.values()
        return StreamInfoReply(
            [describe_stream(metadata, stream) for stream in chosen],
            told_by=self._ctx.node,
            linearizable=linearizable,
            age_ms=self._standing.contact().controller_ms,
            applied=metadata.applied,
        )

    def _transfer(self, request: TransferControllerRequest) -> ClientReply:
        raft = self._raft
        if not raft.is_leader:
            return ErrorReply(ERR_NOT_LEADER, "this node is not the controller", True, raft.leader)
        if request.to not in raft.other_voters:
            text = f"node {request.to} is no other voter of this cluster"
            if request.to == self._ctx.node:
                text = f"node {request.to} is the controller already"
            return ErrorReply(ERR_INVALID, text, False)
        if not raft.transfer(request.to):
            text = f"node {request.to} cannot take over: its vote does not count, or it is silent"
            return ErrorReply(ERR_INVALID, f"{text}; see 'liftlog cluster status'", False)
        return DoneReply(f"asked node {request.to} to become controller")


def _subject_problem(request: SubjectRequest) -> str:
    """What is wrong with a question; empty if nothing."""
    if request.what not in SUBJECT_QUESTIONS:
        return f"question {request.what!r} is not one of {', '.join(SUBJECT_QUESTIONS)}"
    problem = _filter_problem(request.pattern)
    if not problem and request.what == LAST_OF_SUBJECT and not is_literal(filter_tokens(request.pattern)):
        return f"{request.pattern!r} is a filter: the last message is told of one subject at a time"
    return problem


def _filter_problem(pattern: str) -> str:
    try:
        filter_tokens(pattern)
    except PatternRefused as refused:
        return str(refused)
    return ""
