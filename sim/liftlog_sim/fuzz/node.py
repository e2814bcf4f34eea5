"""A node among peers that say anything: `Node.step` with arbitrary well-formed messages (V3, V4, V5).

The node runs over real storage on a simulated disk. First honest peers bring it somewhere: it is registered,
leads the metadata group or follows it, and leads or follows a partition. From then on it gets what is drawn:
messages of every kind with numbers near to its own, requests of clients, messages from NATS, ticks; now
and then an honest answer, so that it goes on. Whatever comes, no step may raise, and what it
remembers stays bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from liftlog.core.metadata.commands import (
    SPAN_MAX,
    Command,
    ConfirmNode,
    CreateStream,
    ElectLeader,
    RegisterNode,
    RequestId,
    encode_command,
)
from liftlog.core.node import Node
from liftlog.core.replica.replica import Replica
from liftlog.driver.interpreter import Interpreter, NodeStopped, Ports
from liftlog.format import encode_messages
from liftlog.messages import (
    FETCH_DIVERGED,
    FETCH_OK,
    TIMER_ELECTION,
    TIMER_TICK,
    AppendReply,
    AppendRequest,
    BirthReply,
    BusUp,
    ClientMessage,
    ClientRequest,
    Event,
    Fetch,
    FetchProgress,
    FetchReply,
    Forward,
    Heartbeat,
    HeartbeatReply,
    LetterAnswered,
    PeerMessage,
    Published,
    PublishLetter,
    RangeFetch,
    ReadIndexReply,
    ReadIndexRequest,
    Received,
    StorageJob,
    Subscribe,
    Subscribed,
    TimerFired,
    VoteReply,
    VoteRequest,
)
from liftlog.mutants import NO_MUTANTS
from liftlog.nodeconfig import NodeConfig
from liftlog.storage.engine import StorageEngine
from liftlog.storage.log import StorageOptions
from liftlog.types import ClientRef, Entry, HardState, Message, PartitionId, StreamConfig
from liftlog_sim.chance.draws import Draws
from liftlog_sim.devices.disk import SimDisk
from liftlog_sim.devices.still import STILL, StillWorld
from liftlog_sim.fuzz.drawing import Drawer, encoded

ME, OTHER, THIRD = 1, 2, 3
EPISODE_STEPS = 400
SETTLE_ROUNDS = 60
WAITING_MAX = 20_000
"""More than all of a node's bounds allow it to hold after one episode."""


class Episode(StillWorld):
    """One node, from its start until it has taken `EPISODE_STEPS` drawn events."""

    def __init__(self, seed: str) -> None:
        self.draws = draws = Draws(seed)
        disk = SimDisk(Draws(seed, "disk"))
        self.engine = StorageEngine(disk, StorageOptions(), NO_MUTANTS, None)
        recovered = self.engine.recover(ME, "disk-1", draws.getrandbits(40))
        disks = tuple((node, f"disk-{node}") for node in (ME, OTHER, THIRD))
        recovered.hard_state = HardState(peer_disks=disks, born=True)
        config = NodeConfig(node=ME, voters=(ME, OTHER, THIRD), tick_ms=100, tail_cache_bytes=500)
        self.node = Node(config, recovered, NO_MUTANTS)
        self.leads = draws.random() < 0.4
        """Whether it becomes controller; else node 2 is."""
        self.follows = draws.random() < 0.6
        """Whether node 2 leads the partition."""
        self.entries: list[Entry] = []
        self.sent: deque[tuple[int, PeerMessage]] = deque(maxlen=500)
        self.numbers = [0, 1, 2]
        commands = Drawer(Command, self.numbers)
        payloads = (encoded(commands), encoded(commands), self._batch)
        self._messages = Drawer(PeerMessage, self.numbers, payloads)
        self._requests = Drawer(ClientMessage, self.numbers)
        self._next_client = 0
        self._now_ms = 0
        self._jobs: list[StorageJob] = []
        self._events: deque[Event] = deque()
        self._interpreter = Interpreter(self.node, Ports(self, self, self, STILL, STILL, STILL))

    def run(self) -> int:
        """Returns how many drawn events the node took. Whatever it raises is a finding."""
        self._drive(self._interpreter.start)
        self._step(BusUp())
        self._settle()
        for taken in range(EPISODE_STEPS):
            if self._interpreter.ended:
                return taken
            if taken % 20 == 0:
                self._look()
            self._step(self._event())
            if self.draws.random() < 0.3:
                self._answer()
        waiting = self._waiting()
        assert waiting < WAITING_MAX, f"the node holds {waiting} things after {EPISODE_STEPS} events"
        return EPISODE_STEPS

    # -- honest peers --------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Honest peers bring the node to where it leads or follows a partition."""
        stream = CreateStream(RequestId(ME, 1, SPAN_MAX), StreamConfig("orders", "orders", 1, 3), SPAN_MAX)
        if self.leads:
            self._step(self._timer(TIMER_ELECTION))
        else:
            self._propose(b"")
        self._answer_all()
        for node in (OTHER, THIRD):
            self._offer(RegisterNode(RequestId(node, 1, SPAN_MAX), node, 0, f"disk-{node}", 0, node, "", []))
        for turn in range(SETTLE_ROUNDS):
            self._step(self._timer(TIMER_TICK))
            self._answer_all()
            if turn == SETTLE_ROUNDS // 2:
                self._confirm_others()
                self._offer(stream)
            elif turn == SETTLE_ROUNDS - 5 and self.follows:
                for partition in list(self.node.replicas):
                    version = self.node.metadata.partitions[partition].version
                    request = RequestId(ME, 2, SPAN_MAX)
                    self._offer(ElectLeader(request, partition, version, OTHER, False))

    def _confirm_others(self) -> None:
        for node in (OTHER, THIRD):
            state = self.node.metadata.nodes.get(node)
            if state is not None:
                request = RequestId(node, 2, SPAN_MAX)
                self._offer(ConfirmNode(request, node, state.incarnation, state.since))

    def _offer(self, command: Command) -> None:
        """Have a command committed, whoever leads."""
        if self.leads:
            author = getattr(command, "node", OTHER)
            self._step(Received(author, Forward(encode_command(command))))
            self._answer_all()
        else:
            self._propose(encode_command(command))

    def _propose(self, data: bytes) -> None:
        self.entries.append(Entry(len(self.entries) + 1, 1, data))
        last = self.entries[-1]
        previous = 1 if last.index > 1 else 0
        request = AppendRequest(1, OTHER, last.index - 1, previous, last.index, 0, [last])
        self._step(Received(OTHER, request))

    def _answer_all(self) -> None:
        for _ in range(200):
            if not self.sent:
                return
            self._answer()

    def _answer(self) -> None:
        """An honest answer to one of the messages that the node has sent."""
        if not self.sent:
            return
        to, message = self.sent.popleft()
        answer = self._honest(to, message)
        if answer is not None:
            self._step(Received(to, answer))

    def _honest(self, to: int, message: PeerMessage) -> PeerMessage | None:
        match message:
            case VoteRequest():
                return VoteReply(message.term, to, self.leads, message.pre_vote)
            case AppendRequest():
                match_index = message.prev_index + len(message.entries)
                return AppendReply(message.term, to, True, match_index, message.round)
            case Heartbeat():
                return HeartbeatReply(message.incarnation, message.sequence)
            case ReadIndexRequest():
                return ReadIndexReply(message.request, len(self.entries))
            case Forward() if not self.leads and to == OTHER:
                self._propose(message.command)
            case Fetch():
                replica = self.node.replicas.get(message.partition)
                if replica is None:
                    return None
                batch = encode_messages(
                    message.partition, message.offset, message.epoch, 1, [Message(b"s", b"", b"", b"v")]
                )
                end = message.offset + 1
                return FetchReply(
                    message.partition,
                    message.epoch,
                    message.incarnation,
                    message.request,
                    0,
                    message.durable_leo,
                    min(message.log_start, message.durable_leo),
                    end,
                    0,
                    0,
                    [batch.data],
                )
        return None

    # -- what is drawn -------------------------------------------------------------------------------------

    def _event(self) -> Event:
        draws = self.draws
        kind = draws.random()
        if kind < 0.75:
            return self._received(self._messages.draw(draws))
        if kind < 0.85:
            return self._timer(draws.choice((TIMER_TICK, TIMER_TICK, TIMER_ELECTION)))
        if kind < 0.95:
            self._next_client += 1
            return ClientRequest(ClientRef(self._next_client), self._requests.draw(draws))
        partition = draws.choice([*self.node.replicas, PartitionId(3, 0)])
        messages = [Message(b"orders", b"_INBOX", b"", b"value")] * draws.randrange(1, 5)
        return Published(partition, draws.choice(self.numbers), messages, 1)

    def _timer(self, kind: str) -> TimerFired:
        self._now_ms += 100
        return TimerFired(kind, self._now_ms, self._now_ms)

    def _received(self, message: Any) -> Received:
        """Mostly from the one whom it names, and mostly about what there is."""
        draws = self.draws
        sender = draws.choice((OTHER, OTHER, THIRD))
        changes: dict[str, object] = {}
        for name in ("candidate", "voter", "leader", "follower"):
            if name in message.__struct_fields__ and draws.random() < 0.9:
                changes[name] = sender
        if "partition" in message.__struct_fields__ and self.node.replicas and draws.random() < 0.9:
            changes["partition"] = draws.choice(list(self.node.replicas))
        if "entries" in message.__struct_fields__ and draws.random() < 0.8:
            entries = [
                msgspec.structs.replace(entry, index=message.prev_index + place, term=message.term)
                for place, entry in enumerate(message.entries, 1)
            ]
            changes["entries"] = entries
        message = msgspec.structs.replace(message, **changes)
        if draws.random() < 0.6:
            message = self._likely(sender, message)
            sender = getattr(message, "leader", sender)
        return Received(sender, message)

    def _likely(self, sender: int, message: Any) -> Any:
        """The same, made into one that does not contradict itself, about a question that was asked."""
        node, replace = self.node, msgspec.structs.replace
        replica = node.replicas.get(getattr(message, "partition", PartitionId(0, 0)))
        match message:
            case AppendRequest():
                raft, log = node.raft, node.raft.raft_log
                place = self.draws.randrange(min(raft.commit, log.last_index), log.last_index + 1)
                term = raft.term + self.draws.choice((0, 0, 0, 0, 1))
                sender = raft.leader if raft.leader and term == raft.term else sender
                entries = [
                    Entry(place + number, term, entry.data) for number, entry in enumerate(message.entries, 1)
                ]
                message.leader = sender
                return replace(
                    message, term=term, prev_index=place, prev_term=log.term_at(place), entries=entries
                )
            case Fetch() | FetchProgress() if replica is not None:
                state = node.metadata.nodes.get(sender)
                message.incarnation = state.incarnation if state is not None else 0
                message.epoch = replica.epoch
                message.durable_leo = min(message.durable_leo, message.offset)
                message.log_start = min(message.log_start, message.offset)
                message.last_epoch = replica.history.epoch_before(message.offset)
                if isinstance(message, Fetch):
                    message.clean_point = min(message.clean_point, message.offset)
            case FetchReply() if replica is not None and replica.following is not None:
                least, middle, most = sorted((message.log_start, message.hw, message.leader_leo))
                message.log_start, message.hw, message.leader_leo = least, middle, most
                message.epoch, message.incarnation = replica.epoch, node.incarnation
                message.request, message.tombstones_below = replica.following.request, 0
                self._likely_answer(replica, message)
            case RangeFetch() if replica is not None:
                state = node.metadata.nodes.get(sender)
                message.incarnation = state.incarnation if state is not None else 0
                message.epoch, message.end = replica.epoch, message.offset + 1
            case BirthReply():
                message.fresh, message.signed, message.born = True, [], False
                message.knows_you = False
        return message

    def _likely_answer(self, replica: Replica, reply: FetchReply) -> None:
        """As a leader may have put it: records for the end of the log, or where to cut it."""
        draws = self.draws
        if reply.status == FETCH_OK:
            if draws.random() < 0.8:
                epoch = max(replica.history.last(), replica.epoch - draws.randrange(2))
                batch = encode_messages(replica.id, replica.leo, epoch, 1, [Message(b"s", b"", b"", b"v")])
                reply.batches = [batch.data]
            reply.hw = min(reply.hw, replica.hw + draws.randrange(2))
            reply.log_start = min(reply.hw, replica.log_start)
            return
        reply.hw, reply.batches = 0, []
        if reply.status == FETCH_DIVERGED:
            reply.end_epoch = replica.history.last()
            reply.end_offset = draws.randrange(replica.hw, replica.leo + 1)

    def _batch(self, draws: Draws) -> bytes:
        """A good batch for a place near the end of one of the node's logs."""
        log = draws.choice([*self.node.replicas, PartitionId(3, 0)])
        base, epoch = max(0, draws.choice(self.numbers)), max(0, draws.choice(self.numbers))
        messages = [Message(b"s", b"", b"", b"v")] * draws.randrange(1, 4)
        return encode_messages(log, base, epoch, 1, messages).data

    def _look(self) -> None:
        """Fill the pool with the numbers that matter to the node now."""
        node = self.node
        raft = node.raft
        found = [0, 1, 2, 3, raft.term, raft.raft_log.last_index, raft.commit, node.incarnation]
        found += [raft.raft_log.last_term, node.ctx.ticks, int(node.ctx.now_ms)]
        for state in node.metadata.nodes.values():
            found += [state.incarnation, state.nonce]
        for partition in node.metadata.partitions.values():
            found += [partition.id.stream, partition.epoch, partition.version]
        for replica in node.replicas.values():
            found += [replica.leo, replica.durable_leo, replica.hw, replica.log_start, replica.log.fetches]
        self.numbers[:] = found

    # -- carrying out --------------------------------------------------------------------------------------

    def _step(self, event: Event) -> None:
        """Take in an event, and then what becomes of all that it leads to."""
        self._events.append(event)
        while self._events:
            self._drive(partial(self._interpreter.take, self._events.popleft()))

    def _drive(self, work: Callable[[], None]) -> None:
        # A node may be told that it is superseded, or that its disk is another one's.
        with suppress(NodeStopped):
            work()
        jobs, self._jobs = self._jobs, []
        if jobs:
            self._events.extend(self.engine.write(jobs))
            self._events.extend(self.engine.sync())

    # -- ports ---------------------------------------------------------------------------------------------

    def send(self, to: int, message: PeerMessage) -> None:
        self.sent.append((to, message))

    def know(self, peers: Mapping[int, str]) -> None:
        pass

    def submit(self, job: StorageJob) -> None:
        self._jobs.append(job)

    def subscribe(self, request: Subscribe) -> None:
        self._events.append(Subscribed(request.partition, request.epoch, request.number))

    def publish(self, letter: PublishLetter) -> None:
        self._events.append(LetterAnswered(letter.partition, letter.epoch, letter.token))

    # -- what must stay small ------------------------------------------------------------------------------

    def _waiting(self) -> int:
        """How much the node remembers that others have caused."""
        node = self.node
        waiting = node.proposals
        count = len(waiting.requests) + len(waiting.wishes) + len(waiting.in_log) + node.ctx.tickets_open
        count += len(node.ctx.effects)
        for replica in node.replicas.values():
            count += len(replica.pending) + len(replica.readers.parked) + len(replica.readers.reads)
            if replica.roles is not None:
                count += len(replica.roles.leader.inflight) + len(replica.roles.state.followers)
        return count
