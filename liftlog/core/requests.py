"""Requests of clients: reads, offsets, and changes of the cluster (R3, M1 read-index, N1).

Reads of metadata are linearizable: they wait for a read-index round that began after the request arrived.
Requests that arrive while a round is under way share the next one.

So does every change: only then are names resolved to ids, and the index, the version read that the command
carries as its precondition (M3). A command is proposed while its client waits for it and no longer. One whose
bound has passed has certainly not been carried out: it is proposed again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from liftlog.core.commands import (
    Command,
    CreateStream,
    DeleteStream,
    ElectLeader,
    Rebalance,
    RequestId,
)
from liftlog.core.limits import with_defaults
from liftlog.core.records import LATE, LIVE, STALE, PartitionState, Result, StreamState
from liftlog.core.subjects import config_problem
from liftlog.messages import (
    ERR_INVALID,
    ERR_NATS_REFUSES,
    ERR_NO_LEADER,
    ERR_NOT_FOUND,
    ERR_NOT_LEADER,
    ERR_NOT_READY,
    ERR_OVERLOAD,
    ERR_STALE,
    ERR_TIMEOUT,
    ClientReply,
    ClientRequest,
    ClusterStatusReply,
    ClusterStatusRequest,
    CreateStreamRequest,
    DeleteStreamRequest,
    DoneReply,
    ElectLeaderRequest,
    ErrorReply,
    NodeInfo,
    OffsetRequest,
    PartitionInfo,
    PurgeRequest,
    ReadRequest,
    RebalanceRequest,
    ReplicaInfo,
    ReplyClient,
    StreamInfo,
    StreamInfoReply,
    StreamInfoRequest,
    TransferControllerRequest,
)
from liftlog.types import ClientRef, PartitionId

if TYPE_CHECKING:
    from liftlog.core.node import Node
    from liftlog.core.replica import Replica

WAITING_MAX = 4096
RESOLVE_MS = 1000
"""For so long a change of something that the client calls by its name waits for the round that says what it
is. Later it may be another thing that bears the name: nothing is done, and the client is told so.
"""


class Waiting:
    """A client that waits: for a round, for a command, for the leaders of the stream it created."""

    __slots__ = ("client", "command", "stream", "ticks_left")

    def __init__(self, client: ClientRef, ticks_left: int) -> None:
        self.client = client
        self.ticks_left = ticks_left
        self.command: Command | None = None
        self.stream = 0


Answer = Callable[[Waiting], None]


class Requests:
    """All client requests that this node has not answered yet. Bounded by `WAITING_MAX`."""

    __slots__ = (
        "_commands",
        "_creating",
        "_ctx",
        "_early",
        "_node",
        "_queued",
        "_round",
        "_round_index",
        "_round_number",
    )

    def __init__(self, node: Node) -> None:
        self._node = node
        self._ctx = node.ctx
        self._commands: dict[RequestId, Waiting] = {}
        self._creating: list[Waiting] = []
        self._early: list[tuple[Waiting, CreateStreamRequest]] = []
        self._queued: list[tuple[Waiting, Answer]] = []
        self._round: list[tuple[Waiting, Answer]] = []
        self._round_index: int | None = None
        self._round_number = 0
        """The read that `_round` waits for; what an earlier one found out is older than these requests."""

    # -- entry ------------------------------------------------------------------------------------

    def on_request(self, event: ClientRequest) -> None:
        client, request, ctx = event.client, event.request, self._ctx
        match request:
            case ReadRequest():
                replica = self._node.replicas.get(request.partition)
                if replica is None or not replica.log.serves_reads or not ctx.incarnation:
                    self._not_here(client, request.partition)
                else:
                    replica.readers.read(client, request)
            case OffsetRequest():
                self._offset(client, request)
            case PurgeRequest():
                self._purge(client, request)
            case CreateStreamRequest():
                self._create(client, request)
            case DeleteStreamRequest():
                if ctx.mutants.delete_by_name:
                    ticks = ctx.ticks_of(ctx.config.request_timeout_ms)
                    self._command(Waiting(client, ticks), DeleteStream(ctx.new_request(), 0, request.name))
                    return
                self._by_name(client, lambda waiting: self._delete(waiting, request))
            case StreamInfoRequest():
                name = request.name
                if request.known or ctx.mutants.metadata_read_at_once:
                    self._stream_info(client, name)
                else:
                    self._after_barrier(client, lambda waiting: self._stream_info(waiting.client, name))
            case ClusterStatusRequest():
                self._reply(client, self._status())
            case ElectLeaderRequest():
                self._by_name(client, lambda waiting: self._elect(waiting, request))
            case RebalanceRequest():
                self._after_barrier(client, self._rebalance)
            case TransferControllerRequest():
                self._transfer(client, request)

    def forget(self, client: ClientRef) -> None:
        """The client's connection is gone: what it asked for is proposed no more, but may still happen."""
        for key in [key for key, waiting in self._commands.items() if waiting.client == client]:
            del self._commands[key]
            if not self._ctx.mutants.delete_by_name:
                self._node.proposals.withdraw(key)
        self._creating = [waiting for waiting in self._creating if waiting.client != client]
        self._early = [item for item in self._early if item[0].client != client]
        self._queued = [item for item in self._queued if item[0].client != client]
        self._round = [item for item in self._round if item[0].client != client]
        for replica in self._node.replicas.values():
            replica.forget(client)

    # -- reads ------------------------------------------------------------------------------------

    def _not_here(self, client: ClientRef, partition: PartitionId) -> None:
        record = self._ctx.metadata.partitions.get(partition)
        if record is None:
            text = f"partition {partition} does not exist, or this node has not heard of it yet"
            self._reply(client, ErrorReply(ERR_NOT_FOUND, text, True))
        elif self._ctx.node in record.replicas:
            self._reply(
                client, ErrorReply(ERR_NOT_READY, "this replica is not open yet", True, record.leader)
            )
        else:
            text = f"this node holds no copy of partition {partition}"
            self._reply(client, ErrorReply(ERR_NOT_LEADER, text, True, record.leader))

    def _offset(self, client: ClientRef, request: OffsetRequest) -> None:
        replica = self._node.replicas.get(request.partition)
        if request.what not in ("earliest", "latest", "new", "time"):
            text = f"offset {request.what!r} is not one of earliest, latest, new, time"
            self._reply(client, ErrorReply(ERR_INVALID, text, False))
        elif replica is None or not replica.log.serves_reads or not self._ctx.incarnation:
            self._not_here(client, request.partition)
        elif request.what in ("earliest", "time"):
            replica.readers.lookup(client, request)
        elif replica.leading is None:
            self._not_leader(client, replica)
        else:
            self._after_barrier(client, lambda waiting: self._latest(waiting.client, request))

    def _not_leader(self, client: ClientRef, replica: Replica) -> None:
        record = replica.record
        leader = record.leader if record is not None else 0
        code = ERR_NOT_LEADER if leader else ERR_NO_LEADER
        self._reply(client, ErrorReply(code, "ask the partition's leader", True, leader))

    def _purge(self, client: ClientRef, request: PurgeRequest) -> None:
        """C3: the partition's leader takes it up."""
        replica = self._node.replicas.get(request.partition)
        if replica is None or replica.state != "ready" or not self._ctx.incarnation:
            self._not_here(client, request.partition)
        elif replica.leading is None:
            self._not_leader(client, replica)
        else:
            replica.purge(client, request)

    def _latest(self, client: ClientRef, request: OffsetRequest) -> None:
        replica = self._node.replicas.get(request.partition)
        if replica is None:
            self._not_here(client, request.partition)
        else:
            replica.readers.answer_latest(client, request)

    # -- linearizable metadata reads --------------------------------------------------------------

    def _after_barrier(self, client: ClientRef, answer: Answer, wait_ms: int = 0) -> None:
        """`wait_ms`: how long to wait for the round; 0 = as long as for any request."""
        if len(self._queued) + len(self._round) >= WAITING_MAX:
            self._reply(client, ErrorReply(ERR_OVERLOAD, "too many requests wait here; try again", True))
            return
        ticks = self._ctx.ticks_of(wait_ms or self._ctx.config.request_timeout_ms)
        self._queued.append((Waiting(client, ticks), answer))
        self._start_round()

    def _by_name(self, client: ClientRef, act: Answer) -> None:
        """A change of what bears a name now."""

        def resolved(waiting: Waiting) -> None:
            waiting.ticks_left = self._ctx.ticks_of(self._ctx.config.request_timeout_ms)
            act(waiting)

        self._after_barrier(client, resolved, RESOLVE_MS)

    def _start_round(self) -> None:
        if self._round or not self._queued:
            return
        self._round, self._queued = self._queued, []
        self._round_index = None
        self._round_number += 1
        self._node.raft.read(self._round_number)

    def barrier_ready(self, number: int, index: int) -> None:
        if number != self._round_number:
            self._ctx.mark("R3.earlier-round")
            return
        self._round_index = index
        self.metadata_moved()

    def barrier_failed(self, number: int) -> None:
        """The round could not be finished; those who wait try again at the next tick while they have time."""
        if number == self._round_number:
            self._queued = self._round + self._queued
            self._round = []

    def metadata_moved(self) -> None:
        """Answer what the applied metadata now allows."""
        ctx = self._ctx
        if self._round_index is not None and (
            ctx.metadata.applied >= self._round_index or ctx.mutants.metadata_read_before_applied
        ):
            ready, self._round = self._round, []
            self._round_index = None
            for waiting, answer in ready:
                answer(waiting)
            self._start_round()
        if self._creating:
            self._finish_creations()
        if self._early:
            self._start_early()

    def _stream_info(self, client: ClientRef, name: str) -> None:
        streams = self._ctx.metadata.streams
        if name and name not in streams:
            self._unknown_stream(client, name)
            return
        chosen = [streams[name]] if name else list(streams.values())
        self._reply(client, StreamInfoReply([self._describe(stream) for stream in chosen]))

    def _unknown_stream(self, client: ClientRef, name: str) -> None:
        text = f"stream {name!r} does not exist: create it with 'liftlog stream create'"
        self._reply(client, ErrorReply(ERR_NOT_FOUND, text, False))

    def _describe(self, stream: StreamState) -> StreamInfo:
        records = [self._ctx.metadata.partitions[partition] for partition in stream.partitions]
        return StreamInfo(stream.id, stream.config, [describe_partition(record) for record in records])

    def _status(self) -> ClusterStatusReply:
        node, ctx = self._node, self._ctx
        nodes = [
            NodeInfo(
                state.node,
                state.state == LIVE,
                state.incarnation,
                state.address,
                state.node in ctx.config.voters,
                state.state,
            )
            for state in ctx.metadata.nodes.values()
        ]
        replicas = [
            ReplicaInfo(
                replica.id,
                replica.role,
                replica.epoch,
                replica.leo,
                replica.durable_leo,
                replica.hw,
                replica.log_start,
                replica.log.tail.value,
                replica.state,
                replica.log.clean_point,
                tuple(str(damaged) for damaged in replica.repairs.ranges),
            )
            for replica in node.replicas.values()
        ]
        return ClusterStatusReply(
            ctx.node,
            node.raft.leader,
            node.raft.term,
            ctx.metadata.applied,
            nodes,
            replicas,
            dict(ctx.marks),
            node.standing.contact(),
        )

    # -- streams ---------------------------------------------------------------------------------

    def _create(self, client: ClientRef, request: CreateStreamRequest) -> None:
        """Refuse what can never work; wait for nodes of a cluster that is still starting."""
        config = self._ctx.config
        members = len(config.voters) + len(config.learners)
        # By the cluster's size, not by who has registered: 0 must not come to mean less while nodes start.
        request = CreateStreamRequest(with_defaults(request.config, members))
        wanted = request.config.replication_factor
        problem = config_problem(request.config)
        if not problem and wanted > members:
            problem = f"replication factor {wanted} needs as many nodes; the cluster has {members}"
        if problem:
            self._reply(client, ErrorReply(ERR_INVALID, problem, False))
        else:
            self._after_barrier(client, lambda waiting: self._create_when_registered(waiting, request))

    def _create_when_registered(self, waiting: Waiting, request: CreateStreamRequest) -> None:
        metadata = self._ctx.metadata
        if request.config.replication_factor <= len(metadata.nodes):
            command = CreateStream(self._ctx.new_request(), request.config, metadata.applied)
            self._command(waiting, command)
        elif len(self._early) < WAITING_MAX:
            self._early.append((waiting, request))
        else:
            text = "too many requests wait here; try again"
            self._reply(waiting.client, ErrorReply(ERR_OVERLOAD, text, True))

    def _start_early(self) -> None:
        """The metadata has moved: streams whose nodes have registered by now can be created."""
        early, self._early = self._early, []
        for waiting, request in early:
            self._create_when_registered(waiting, request)

    def _age_early(self) -> None:
        early, self._early = self._early, []
        for waiting, request in early:
            waiting.ticks_left -= 1
            if waiting.ticks_left > 0:
                self._early.append((waiting, request))
            else:
                registered = len(self._ctx.metadata.nodes)
                wanted = request.config.replication_factor
                text = f"replication factor {wanted} needs as many nodes; {registered} have registered"
                self._reply(waiting.client, ErrorReply(ERR_NOT_READY, text, True))

    # -- commands ---------------------------------------------------------------------------------

    def _resolve(self, client: ClientRef, name: str, id: int) -> StreamState | None:
        """The stream that is meant (I1); the client is told if there is none."""
        stream = self._ctx.metadata.streams.get(name)
        if stream is None:
            self._unknown_stream(client, name)
            return None
        if id not in (0, stream.id):
            text = f"stream {name!r} with id {id} was deleted; another one bears its name now: {stream.id}"
            self._reply(client, ErrorReply(ERR_NOT_FOUND, text, False))
            return None
        return stream

    def _delete(self, waiting: Waiting, request: DeleteStreamRequest) -> None:
        stream = self._resolve(waiting.client, request.name, request.id)
        if stream is not None:
            self._command(waiting, DeleteStream(self._ctx.new_request(), stream.id, request.name))

    def _elect(self, waiting: Waiting, request: ElectLeaderRequest) -> None:
        stream = self._resolve(waiting.client, request.name, request.id)
        if stream is None:
            return
        if not 0 <= request.partition < len(stream.partitions):
            last = len(stream.partitions) - 1
            text = f"stream {request.name!r} has partitions 0 to {last}, not {request.partition}"
            self._reply(waiting.client, ErrorReply(ERR_NOT_FOUND, text, False))
            return
        partition = stream.partitions[request.partition]
        version = request.version or self._ctx.metadata.partitions[partition].version
        command = ElectLeader(
            self._ctx.new_request(), partition, version, request.node, request.unclean
        )
        self._command(waiting, command)

    def _rebalance(self, waiting: Waiting) -> None:
        self._command(waiting, Rebalance(self._ctx.new_request(), self._ctx.metadata.applied))

    def _command(self, waiting: Waiting, command: Command) -> None:
        if len(self._commands) >= WAITING_MAX or not self._ctx.submit(command):
            text = "too many commands wait here; try again"
            self._reply(waiting.client, ErrorReply(ERR_OVERLOAD, text, True))
            return
        waiting.command = command
        self._commands[command.request] = waiting

    def applied(self, command: Command, result: Result) -> None:
        waiting = self._commands.pop(command.request, None)
        if waiting is None:
            return
        if result is LATE:
            self._again(waiting)
        elif result is STALE:
            self._stale(waiting, command)
        elif result.code:
            self._reply(waiting.client, ErrorReply(result.code, result.detail, False))
        elif isinstance(command, CreateStream):
            waiting.stream = result.stream
            self._creating.append(waiting)
        else:
            self._reply(waiting.client, DoneReply(result.detail))

    def _again(self, waiting: Waiting) -> None:
        """The command's bound has passed, so that it was not carried out and will not be: once more."""
        assert waiting.command is not None
        self._ctx.mark("M3.again")
        self._command(waiting, msgspec.structs.replace(waiting.command, request=self._ctx.new_request()))

    def _stale(self, waiting: Waiting, command: Command) -> None:
        """What the command presupposes held when it was proposed, but no more when it was applied."""
        if isinstance(command, CreateStream):
            # A stream was deleted meanwhile, of this name or another: what is asked for is still wanted.
            self._create_when_registered(waiting, CreateStreamRequest(command.config))
            return
        text = "the partition has changed since it was looked at; see 'liftlog stream info', and ask again"
        self._reply(waiting.client, ErrorReply(ERR_STALE, text, False))

    def _finish_creations(self) -> None:
        """N1: a stream is created once every leader has its subscription confirmed."""
        metadata = self._ctx.metadata
        still: list[Waiting] = []
        for waiting in self._creating:
            stream = metadata.by_id.get(waiting.stream)
            if stream is None:
                self._reply(
                    waiting.client, ErrorReply(ERR_NOT_FOUND, "the stream was deleted meanwhile", False)
                )
                continue
            records = [metadata.partitions[partition] for partition in stream.partitions]
            refused = [record for record in records if metadata.refused_by_nats(record)]
            if refused:
                self._reply(waiting.client, _refused_by_nats(stream, refused[0]))
            elif all(record.ready for record in records):
                self._reply(waiting.client, StreamInfoReply([self._describe(stream)]))
            else:
                still.append(waiting)
        self._creating = still

    def _transfer(self, client: ClientRef, request: TransferControllerRequest) -> None:
        raft = self._node.raft
        if not raft.is_leader:
            text = "this node is not the controller"
            self._reply(client, ErrorReply(ERR_NOT_LEADER, text, True, raft.leader))
        elif request.to not in self._ctx.config.voters or request.to == self._ctx.node:
            text = f"node {request.to} is no other voter of this cluster"
            self._reply(client, ErrorReply(ERR_INVALID, text, False))
        elif not raft.transfer(request.to):
            text = f"node {request.to} cannot take over: its vote does not count, or it is silent"
            self._reply(client, ErrorReply(ERR_INVALID, f"{text}; see 'liftlog cluster status'", False))
        else:
            self._reply(client, DoneReply(f"asked node {request.to} to become controller"))

    # -- time -------------------------------------------------------------------------------------

    def tick(self) -> None:
        """End what took too long. What a timed-out command did is unknown."""
        late: list[RequestId] = []
        for request, waiting in self._commands.items():
            waiting.ticks_left -= 1
            if waiting.ticks_left <= 0 or request.until <= self._ctx.metadata.applied:
                late.append(request)
        for request in late:
            waiting = self._commands.pop(request)
            self._node.proposals.withdraw(request)
            if waiting.ticks_left > 0:
                self._again(waiting)
            else:
                self._timeout(waiting.client, "whether it happened is unknown")
        if self._creating:
            self._creating = self._age_creations()
        if self._early:
            self._age_early()
        if self._queued or self._round:
            self._queued = self._age_round(self._queued)
            self._round = self._age_round(self._round)
            self._start_round()

    def _age_creations(self) -> list[Waiting]:
        still: list[Waiting] = []
        for waiting in self._creating:
            waiting.ticks_left -= 1
            if waiting.ticks_left > 0:
                still.append(waiting)
            else:
                self._timeout(waiting.client, "the stream exists, but not every leader is subscribed yet")
        return still

    def _age_round(self, items: list[tuple[Waiting, Answer]]) -> list[tuple[Waiting, Answer]]:
        still = []
        for item in items:
            item[0].ticks_left -= 1
            if item[0].ticks_left > 0:
                still.append(item)
            else:
                text = "the metadata group did not confirm in time: nothing was done; try again"
                self._timeout(item[0].client, text)
        return still

    def _timeout(self, client: ClientRef, text: str) -> None:
        self._reply(client, ErrorReply(ERR_TIMEOUT, text, True))

    def _reply(self, client: ClientRef, reply: ClientReply) -> None:
        self._ctx.effects.append(ReplyClient(client, reply))


def describe_partition(record: PartitionState) -> PartitionInfo:
    """The committed record of a partition, as clients see it."""
    return PartitionInfo(
        record.id.index,
        record.leader,
        record.epoch,
        record.version,
        list(record.replicas),
        list(record.isr),
        list(record.eligible),
        record.ready,
        record.min_insync,
        "" if record.ready else record.refused.get(record.leader, ""),
    )


def _refused_by_nats(stream: StreamState, record: PartitionState) -> ErrorReply:
    """N1: the stream is there, but nothing that is published would reach it."""
    text = (
        f"stream {stream.config.name!r} was created, but NATS refuses node {record.leader}'s subscription "
        f"({record.refused[record.leader]}): nothing is stored until the nodes' NATS user may; they try again"
    )
    return ErrorReply(ERR_NATS_REFUSES, text, False, record.leader)
