"""Changes of the cluster that clients ask for: streams, elections, a rebalance (M3, N1).

Names are resolved to ids behind the barrier, and there the index, the version is read that the command
carries as its precondition. A command is proposed while its client waits for it and no longer. One whose
bound has passed has certainly not been carried out: it is proposed again.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from msgspec import UNSET

from liftlog.core.barrier import Answer, Barrier
from liftlog.core.context import Context
from liftlog.core.describe import describe_stream, refused_creation, unknown_stream
from liftlog.core.metadata import levels
from liftlog.core.metadata.alterations import alteration_problem
from liftlog.core.metadata.commands import (
    AdmitNode,
    AlterStream,
    Command,
    CreateStream,
    DeleteStream,
    DrainNode,
    ElectLeader,
    MoveReplicas,
    Rebalance,
    RemoveNode,
    RequestId,
    RetireNode,
    SetVoter,
)
from liftlog.core.metadata.limits import with_defaults
from liftlog.core.metadata.moves import assignment_problem
from liftlog.core.metadata.records import LATE, STALE, CommandResult, PartitionState, Records, StreamState
from liftlog.core.metadata.subjects import config_problem, partitions_problem
from liftlog.core.proposals import Proposals
from liftlog.core.roster import Roster
from liftlog.core.waiting import Clients, Waiting
from liftlog.messages import (
    ERR_INVALID,
    ERR_NOT_FOUND,
    ERR_NOT_READY,
    ERR_OVERLOAD,
    ERR_STALE,
    ERR_TIMEOUT,
    AlterStreamRequest,
    CreateStreamRequest,
    DeleteStreamRequest,
    DoneReply,
    ElectLeaderRequest,
    ErrorReply,
    MoveReplicasRequest,
    SetVoterRequest,
    StreamChanges,
    StreamInfoReply,
)
from liftlog.types import ClientRef, PartitionId

RESOLVE_MS = 1000
"""For so long a change of something that the client calls by its name waits for the round that says what it
is. Later it may be another thing that bears the name: nothing is done, and the client is told so.
"""
CHANGED_PARTITION = ErrorReply(
    ERR_STALE,
    "the partition has changed since it was looked at; see 'liftlog stream info', and ask again",
    False,
)


def _waits_for_leaders(changes: StreamChanges) -> bool:
    """N1, N10: whether an alteration is done when leaders listen on what is new."""
    anew = changes.subject, changes.more_subjects, changes.max_payload_bytes
    return any(one is not UNSET for one in (changes.partitions, *anew))


class Creation:
    """What a stream lacks until it is created, or has all its partitions (N1): looked at once, then where
    something moves.
    """

    __slots__ = ("refused", "unready")

    def __init__(self, records: Records, stream: StreamState) -> None:
        self.unready: dict[PartitionId, None] = {}
        self.refused: dict[PartitionId, None] = {}
        for partition in stream.partitions:
            self.look_at(records, partition)

    def look_at(self, records: Records, partition: PartitionId) -> None:
        record = records.partitions.get(partition)
        if record is None:
            return
        stream = records.by_id.get(partition.stream)
        paused = stream is not None and bool(stream.config.paused)
        for lacks, those in (
            (not record.ready and not paused, self.unready),
            (bool(records.refused_by_nats(record)), self.refused),
        ):
            if lacks:
                those[partition] = None
            else:
                those.pop(partition, None)


class Changes:
    """A place for clients (`WaitingPlace`), until nodes have registered, a command is applied, leaders are
    ready.
    """

    __slots__ = (
        "_barrier",
        "_clients",
        "_commands",
        "_creating",
        "_creations",
        "_ctx",
        "_details",
        "_early",
        "_proposals",
        "_roster",
        "_sent",
    )

    def __init__(
        self, ctx: Context, proposals: Proposals, clients: Clients, barrier: Barrier, roster: Roster
    ) -> None:
        self._ctx = ctx
        self._roster = roster
        self._proposals = proposals
        self._clients = clients
        self._barrier = barrier
        self._early: dict[Waiting, CreateStreamRequest] = {}
        """Creations that wait for nodes of a cluster that is still starting."""
        self._commands: dict[Waiting, Command] = {}
        self._sent: dict[RequestId, Waiting] = {}
        """Who waits for a command."""
        self._creating: dict[Waiting, int] = {}
        """Streams, by id, whose leaders are not ready yet."""
        self._details: dict[Waiting, str] = {}
        """R19: what an alteration of the number of partitions has changed, of those among them."""
        self._creations: dict[int, Creation] = {}
        """What they lack."""

    # -- what is asked for ------------------------------------------------------------------------

    def create(self, client: ClientRef, request: CreateStreamRequest) -> None:
        """Refuse what can never work; wait for nodes of a cluster that is still starting."""
        members = self._roster.count
        # By the cluster's size, not by who has registered: 0 must not come to mean less while nodes start.
        request = CreateStreamRequest(with_defaults(request.config, members))
        wanted = request.config.replication_factor
        problem = config_problem(request.config) or partitions_problem(request.config)
        if not problem and wanted > members:
            problem = f"replication factor {wanted} needs as many nodes; the cluster has {members}"
        if problem:
            self._clients.reply(client, ErrorReply(ERR_INVALID, problem, False))
        else:
            self._barrier.after(client, lambda waiting: self._create_when_registered(waiting, request))

    def delete(self, client: ClientRef, request: DeleteStreamRequest) -> None:
        ctx = self._ctx
        if ctx.mutants.delete_by_name:
            waiting = self._clients.enter(client, self, ctx.ticks_of(ctx.config.request_timeout_ms))
            if waiting is not None:
                self.propose(waiting, DeleteStream(ctx.new_request(), 0, request.name))
            return

        def act(waiting: Waiting) -> None:
            stream = self._resolve(waiting, request.name, request.id)
            if stream is not None:
                self.propose(waiting, DeleteStream(ctx.new_request(), stream.id, request.name))

        self._by_name(client, act)

    def alter(self, client: ClientRef, request: AlterStreamRequest) -> None:
        """R19: of the stream that bears the name now, as it is when that is known."""

        def act(waiting: Waiting) -> None:
            stream = self._resolve(waiting, request.name, request.id)
            if stream is None:
                return
            problem = alteration_problem(stream.config, request.changes)
            if not request.changes.named:
                problem = f"nothing to alter; what can be: {', '.join(StreamChanges.__struct_fields__)}"
            if problem:
                self._clients.answer(waiting, ErrorReply(ERR_INVALID, problem, False))
            else:
                self._alter(waiting, stream, request.changes)

        self._by_name(client, act)

    def _alter(self, waiting: Waiting, stream: StreamState, changes: StreamChanges) -> None:
        new, name = self._ctx.new_request(), stream.config.name
        self.propose(waiting, AlterStream(new, stream.id, name, stream.revision, changes))

    def elect(self, client: ClientRef, request: ElectLeaderRequest) -> None:
        def act(waiting: Waiting) -> None:
            stream = self._resolve(waiting, request.name, request.id)
            if stream is None:
                return
            record = self._partition(waiting, stream, request.partition)
            if record is not None:
                version = request.version or record.version
                new = self._ctx.new_request()
                self.propose(waiting, ElectLeader(new, record.id, version, request.node, request.unclean))

        self._by_name(client, act)

    def move(self, client: ClientRef, request: MoveReplicasRequest) -> None:
        """R20: as the partition is when that is known, or as whoever asks has seen it."""

        def act(waiting: Waiting) -> None:
            stream = self._resolve(waiting, request.name, request.id)
            record = self._partition(waiting, stream, request.partition) if stream is not None else None
            if stream is None or record is None:
                return
            wanted = tuple(request.replicas) or record.origin
            factor = stream.config.replication_factor
            problem = assignment_problem(self._ctx.metadata, record, wanted)
            if not problem and len(wanted) != factor:
                problem = (
                    f"{len(wanted)} replicas are named; the stream has a replication factor of {factor}, "
                    f"which is changed by: liftlog stream alter {request.name} --replicas {len(wanted)}"
                )
            if problem:
                self._clients.answer(waiting, ErrorReply(ERR_INVALID, problem, False))
            elif wanted == (record.target or record.replicas):
                how = "on its way to" if record.target else "on"
                detail = f"{how} nodes {', '.join(map(str, wanted))} already"
                self._clients.answer(waiting, DoneReply(detail))
            elif request.assignment not in (-1, record.assignment):
                self._clients.answer(waiting, CHANGED_PARTITION)
            else:
                new = self._ctx.new_request()
                self.propose(waiting, MoveReplicas(new, record.id, record.assignment, list(wanted)))

        self._by_name(client, act)

    def rebalance(self, client: ClientRef) -> None:
        ctx = self._ctx
        self._barrier.after(
            client,
            lambda waiting: self.propose(waiting, Rebalance(ctx.new_request(), ctx.metadata.applied)),
        )

    def set_voter(self, client: ClientRef, request: SetVoterRequest) -> None:
        ctx = self._ctx

        def act(waiting: Waiting) -> None:
            nodes, founders = ctx.metadata.nodes, ctx.founders
            node = nodes.get(request.node)
            voters = [other.node for other in nodes.values() if other.is_to_vote(founders)]
            if node is None:
                text = f"there is no node {request.node}: none with that number has ever registered"
                self._clients.answer(waiting, ErrorReply(ERR_NOT_FOUND, text, False))
            elif request.votes == (node.node in voters):
                detail = f"node {node.node} is {'' if request.votes else 'not '}to vote already"
                self._clients.answer(waiting, DoneReply(detail))
            elif request.votes and node.retires:
                text = (
                    f"node {node.node} retires, and gives its vote away: take that back with 'liftlog "
                    f"cluster remove {node.node} --cancel'"
                )
                self._clients.answer(waiting, ErrorReply(ERR_INVALID, text, False))
            elif problem := self._too_many_or_none(node.node, request.votes, voters):
                self._clients.answer(waiting, ErrorReply(ERR_INVALID, problem, False))
            else:
                command = SetVoter(ctx.new_request(), node.node, request.votes, ctx.metadata.voters_at)
                self.propose(waiting, command)

        self._barrier.after(client, act)

    def _too_many_or_none(self, node: int, votes: bool, voters: list[int]) -> str:
        """Why the group cannot have, or lose, this voter."""
        most = max(self._ctx.config.max_voters, len(self._ctx.founders))
        if votes and len(voters) >= most:
            listed = ", ".join(map(str, sorted(voters)))
            return f"nodes {listed} are to vote, which is all that may ({most}); demote one of them first"
        if not votes and len(voters) == 1:
            return f"only {voters[0]} is to vote, and one has to; promote another node first"
        return ""

    def _by_name(self, client: ClientRef, act: Answer) -> None:
        """A change of what bears a name now."""

        def resolved(waiting: Waiting) -> None:
            waiting.go_on(self, self._ctx.ticks_of(self._ctx.config.request_timeout_ms))
            act(waiting)

        self._barrier.after(client, resolved, RESOLVE_MS)

    def _resolve(self, waiting: Waiting, name: str, id: int) -> StreamState | None:
        """The stream that is meant (I1); the client is told if there is none."""
        stream = self._ctx.metadata.streams.get(name)
        if stream is None:
            self._clients.answer(waiting, unknown_stream(name))
            return None
        if id not in (0, stream.id):
            text = f"stream {name!r} with id {id} was deleted; another one bears its name now: {stream.id}"
            self._clients.answer(waiting, ErrorReply(ERR_NOT_FOUND, text, False))
            return None
        return stream

    def _partition(self, waiting: Waiting, stream: StreamState, number: int) -> PartitionState | None:
        """The record of a stream's partition; the client is told if there is none."""
        if 0 <= number < len(stream.partitions):
            return self._ctx.metadata.partitions[stream.partitions[number]]
        last = len(stream.partitions) - 1
        text = f"stream {stream.config.name!r} has partitions 0 to {last}, not {number}"
        self._clients.answer(waiting, ErrorReply(ERR_NOT_FOUND, text, False))
        return None

    def _create_when_registered(self, waiting: Waiting, request: CreateStreamRequest) -> None:
        metadata = self._ctx.metadata
        waiting.go_on(self)
        if request.config.replication_factor <= len(metadata.nodes):
            self.propose(waiting, CreateStream(self._ctx.new_request(), request.config, metadata.applied))
        else:
            self._early[waiting] = request

    # -- commands ---------------------------------------------------------------------------------

    def propose(self, waiting: Waiting, command: Command) -> None:
        """For a client, until it is applied or nobody waits any more."""
        waiting.go_on(self)
        level = self._ctx.metadata.level
        if levels.is_above(command, level):
            self._ctx.mark("U2.not-proposed")
            refused = ErrorReply(ERR_INVALID, levels.refusal(command, level), False)
            self._clients.answer(waiting, refused)
        elif self._proposals.submit(command):
            self._commands[waiting] = command
            self._sent[command.request] = waiting
        else:
            text = "too many commands wait here; try again"
            self._clients.answer(waiting, ErrorReply(ERR_OVERLOAD, text, True))

    def applied(self, command: Command, result: CommandResult) -> None:
        waiting = self._sent.pop(command.request, None)
        if waiting is None:
            return
        del self._commands[waiting]
        if result is LATE:
            self._again(waiting, command)
        elif result is STALE:
            self._stale(waiting, command)
        elif result.code:
            self._clients.answer(waiting, ErrorReply(result.code, result.detail, False))
        elif isinstance(command, CreateStream):
            self._watch(waiting, result.stream)
        elif isinstance(command, AlterStream) and _waits_for_leaders(command.changes):
            # N1: also when nothing has changed, since an answer that was lost may have been waited for.
            self._details[waiting] = result.detail
            self._watch(waiting, result.stream)
        else:
            self._clients.answer(waiting, DoneReply(result.detail))

    def jumped(self) -> None:
        """M1q: a snapshot was installed. Of a command whose bound it has passed nobody here knows whether it
        was carried out: it must not be proposed once more.
        """
        metadata = self._ctx.metadata
        for waiting, command in list(self._commands.items()):
            result = metadata.results.get(command.request)
            if result is not None:
                self._proposals.settled(command.request)
                self.applied(command, result)
            elif command.request.until < metadata.applied:
                self._ctx.mark("M3.unknown")
                self._clients.answer(waiting, self.late(waiting))

    def _again(self, waiting: Waiting, command: Command) -> None:
        """The command's bound has passed, so that it was not carried out and will not be: once more."""
        self._ctx.mark("M3.again")
        self.propose(waiting, msgspec.structs.replace(command, request=self._ctx.new_request()))

    def _stale(self, waiting: Waiting, command: Command) -> None:
        """What the command presupposes held when it was proposed, but no more when it was applied."""
        if isinstance(command, CreateStream):
            # A stream was deleted meanwhile, of this name or another: what is asked for is still wanted.
            self._create_when_registered(waiting, CreateStreamRequest(command.config))
            return
        if isinstance(command, AlterStream):
            # Somebody else has altered the stream first, or deleted it. Nobody has seen what comes of both:
            # the answer says what this alteration has changed.
            stream = self._ctx.metadata.by_id.get(command.stream)
            if stream is None:
                self._clients.answer(waiting, unknown_stream(command.name))
            else:
                self._alter(waiting, stream, command.changes)
            return
        if isinstance(command, AdmitNode | DrainNode | RemoveNode | RetireNode | SetVoter):
            text = "the cluster's nodes have changed since they were looked at; see 'liftlog cluster status'"
            self._clients.answer(waiting, ErrorReply(ERR_STALE, f"{text}, and ask again", False))
            return
        self._clients.answer(waiting, CHANGED_PARTITION)

    # -- time -------------------------------------------------------------------------------------

    def advance(self, changed: Collection[PartitionId]) -> None:
        """The metadata has moved: streams may be ready, and those whose nodes have registered be created.
        `changed`: the partitions whose records, or whose nodes, are not as they were.
        """
        if self._creating:
            for partition in changed:
                creation = self._creations.get(partition.stream)
                if creation is not None:
                    creation.look_at(self._ctx.metadata, partition)
            self._finish_creations()
        if self._early:
            early, self._early = self._early, {}
            for waiting, request in early.items():
                self._create_when_registered(waiting, request)

    def _finish_creations(self) -> None:
        """N1: a stream is created, or has more partitions, once every leader has its subscription
        confirmed.
        """
        metadata = self._ctx.metadata
        for waiting, id in list(self._creating.items()):
            stream = metadata.by_id.get(id)
            if stream is None:
                gone = ErrorReply(ERR_NOT_FOUND, "the stream was deleted meanwhile", False)
                self._clients.answer(waiting, gone)
                continue
            creation = self._creations[id]
            if creation.refused:
                refused = metadata.partitions[min(creation.refused)]
                done = "altered" if waiting in self._details else "created"
                self._clients.answer(waiting, refused_creation(stream, refused, done))
            elif not creation.unready:
                detail = self._details.get(waiting)
                info = StreamInfoReply([describe_stream(metadata, stream)])
                self._clients.answer(waiting, info if detail is None else DoneReply(detail))

    def _watch(self, waiting: Waiting, id: int) -> None:
        """Somebody waits for a stream that exists."""
        self._creating[waiting] = id
        stream = self._ctx.metadata.by_id.get(id)
        if stream is not None:
            # Anew, since it may have got more partitions after somebody else began to wait.
            self._creations[id] = Creation(self._ctx.metadata, stream)

    def _unwatch(self, waiting: Waiting) -> None:
        self._details.pop(waiting, None)
        id = self._creating.pop(waiting, None)
        if id is not None and id not in self._creating.values():
            self._creations.pop(id, None)

    def tick(self) -> None:
        for waiting, command in list(self._commands.items()):
            if command.request.until <= self._ctx.metadata.applied:
                self.left(waiting)
                self._again(waiting, command)

    # -- a place ----------------------------------------------------------------------------------

    def left(self, waiting: Waiting) -> None:
        """What was asked for is proposed no more, but may still happen."""
        self._early.pop(waiting, None)
        self._unwatch(waiting)
        command = self._commands.pop(waiting, None)
        if command is not None:
            del self._sent[command.request]
            if not self._ctx.mutants.delete_by_name:
                self._proposals.withdraw(command.request)

    def late(self, waiting: Waiting) -> ErrorReply:
        """What a timed-out command did is unknown."""
        request = self._early.get(waiting)
        if request is not None:
            registered, wanted = len(self._ctx.metadata.nodes), request.config.replication_factor
            text = f"replication factor {wanted} needs as many nodes; {registered} have registered"
            return ErrorReply(ERR_NOT_READY, text, True)
        text = "whether it happened is unknown"
        if waiting in self._creating:
            done = "has these partitions" if waiting in self._details else "exists"
            text = f"the stream {done}, but not every leader is subscribed yet"
        return ErrorReply(ERR_TIMEOUT, text, True)
