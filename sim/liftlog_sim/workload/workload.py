"""Clients of a simulated cluster: they create streams, publish through NATS, read any replica, administer.

Every value ever published is unique: a publisher that gives up on an ack publishes the content again as a new
value, as an application with plain NATS would. So a value that shows up twice, or at another offset than the
ack said, is always somebody's bug.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from liftlog.core.metadata.records import PartitionState, StreamState
from liftlog.messages import (
    ERR_EXISTS,
    AckPublishes,
    AddNodeRequest,
    ClientMessage,
    CreateStreamRequest,
    DeleteStreamRequest,
    DoneReply,
    ElectLeaderRequest,
    ErrorReply,
    PurgeRequest,
    RaiseLevelRequest,
    RebalanceRequest,
    RefusePublishes,
    RemoveNodeRequest,
    RetireNodeRequest,
    SetVoterRequest,
    StreamInfoReply,
    StreamInfoRequest,
    TransferControllerRequest,
)
from liftlog.real.nats_wire import FAILS
from liftlog.types import Message, PartitionId, StreamConfig
from liftlog_sim.chance.chances import Turn
from liftlog_sim.chance.draws import Draws
from liftlog_sim.chance.plan import RAISER
from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.workload.alterer import Alterer
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.inspector import Inspector
from liftlog_sim.workload.mover import Mover
from liftlog_sim.workload.operations import ClientOperation
from liftlog_sim.workload.reader import Reader
from liftlog_sim.workload.targets import Target

ACK_TIMEOUT_US = 5 * SECOND
REQUEST_TIMEOUT_US = 4 * SECOND
CREATE_TIMEOUT_US = 20 * SECOND
EXTRA_STREAMS = ("extra-0", "extra-1", "extra-2")


class Workload:
    """All clients of one world, and the operations they performed."""

    def __init__(self, shared: Clientele) -> None:
        self._shared = shared
        self._cluster = cluster = shared.cluster
        self._account = shared.account
        self.targets = shared.targets
        self.operations = shared.operations
        self.strange = shared.strange
        self.acked: dict[PartitionId, dict[int, bytes]] = {}
        self._answered_by: dict[bytes, PartitionId] = {}
        self._uncreated = list(cluster.knobs.streams)
        self._creates = 0
        self._extra_bursts = 0
        cluster.bus.on_acks = self._acks
        cluster.bus.on_refusals = self._refusals
        knobs = cluster.knobs
        self._publishers = {number: Publisher(shared, number) for number in range(knobs.publishers)}
        self._joining: list[Callable[[], None]] = []
        self._readers = [Reader(shared, knobs.publishers + number) for number in range(knobs.readers)]
        self._admin = Admin(shared, knobs.publishers + knobs.readers)
        self._alterer = Alterer(shared)
        self._mover = Mover(shared)
        self._inspector = Inspector(shared, EXTRA_STREAMS)

    def start(self) -> None:
        """Create the streams, then let everybody loose."""
        self._cluster.kernel.after(SECOND, self._create)

    def stop(self) -> None:
        """No new load; what is under way may end."""
        self._shared.stopping = True

    def look_again(self, streams: Iterable[StreamState]) -> None:
        """Clients use the partitions that were added to their streams meanwhile (R19)."""
        self._shared.look_again(streams)

    def publish(self, target: Target, count: int, with_reply: bool) -> None:
        """Publish a burst now, outside of the drawn load; nothing in it is there to be refused."""
        self._extra_bursts += 1
        draws = self._cluster.chances.draws("burst", self._extra_bursts)
        self._publishers[0].publish(target, count, with_reply, f"x{self._extra_bursts}", draws, strange=0.0)

    # -- streams -------------------------------------------------------------------------------------------

    def _create(self, first: object, second: object) -> None:
        if self._uncreated:
            request = CreateStreamRequest(self._uncreated[0])
            name = f"create/{self._creates}"
            node = self._shared.any_node(self._cluster.chances.draws(name))
            self._creates += 1
            self._shared.hub.request(name, node, request, self._created, CREATE_TIMEOUT_US)

    def _created(self, reply: object) -> None:
        config = self._uncreated[0]
        if isinstance(reply, StreamInfoReply):
            self._uncreated.pop(0)
            info = reply.streams[0]
            self._shared.know(config, info.id, len(info.partitions))
            if not self._shared.performed and not self._uncreated:
                self._let_loose()
            self._create(None, None)
        else:
            self._cluster.kernel.after(500 * MILLISECOND, self._create)

    def _let_loose(self) -> None:
        for number in range(self._cluster.knobs.publishers):
            self._publishers[number].start()
        for reader in self._readers:
            reader.start()
        self._admin.start()
        self._alterer.start()
        self._mover.start()
        self._inspector.start()
        for start in self._joining:
            start()

    # -- clients from outside ------------------------------------------------------------------------------

    @property
    def joined(self) -> int:
        """How many publishers there are."""
        return len(self._publishers)

    def join(self, start: Callable[[], None]) -> None:
        """Somebody else begins when the streams are there."""
        self._joining.append(start)

    def add_publisher(self, publisher: Publisher) -> None:
        """It is told what was asked for under its number, and publishes by itself."""
        self._publishers[publisher.number] = publisher

    # -- publishing ----------------------------------------------------------------------------------------

    def _acks(self, acks: AckPublishes) -> None:
        values = self.acked.setdefault(acks.partition, {})
        offset = acks.offsets_from
        for reply in acks.replies:
            if reply:
                owner, _, value = reply[len(INBOX) :].partition(b".")
                self._one_answer(value, acks.partition)
                known = values.setdefault(offset, value)
                if known != value:
                    self._account.fail(
                        Violation(
                            "NoAckedRecordLost",
                            f"partition {acks.partition}: offset {offset} was acknowledged for two values, "
                            f"{known.decode()} and {value.decode()}",
                        )
                    )
                full = acks.full is not None and acks.full[offset - acks.offsets_from]
                self._publishers[int(owner)].acked(value, acks, offset, full)
            offset += 1

    def _refusals(self, refusal: RefusePublishes) -> None:
        for reply in filter(None, refusal.replies):
            owner, _, value = reply[len(INBOX) :].partition(b".")
            self._one_answer(value, refusal.partition)
            self._publishers[int(owner)].refused(value, refusal.code)

    def _one_answer(self, value: bytes, partition: PartitionId) -> None:
        """Each value is one message: one stream may answer it, as often as its leaders do. OneAnswer."""
        self._account.checks.counts["OneAnswer"] += 1
        known = self._answered_by.setdefault(value, partition)
        if known != partition:
            text = f"{value.decode()} was answered by partition {known} and by partition {partition}"
            self._account.fail(Violation("OneAnswer", text))


INBOX = b"_INBOX.sim."
RETIRE_SHARE = 0.3
"""Of what an operator wants of nodes: that one retires, or does not."""
RIVAL_SHARE = 0.1
RAISE_SHARE = 0.05
RAISE_US = SECOND
"""How often an operator of nodes of two releases asks for the level."""
STRANGE_SHARE = 0.02
STRANGE = (
    b"Nats-Msg-Id: 1",
    b"Nats-Expected-Stream: another",
    b"Nats-Expected-Last-Sequence: 0",
    b"Nats-Rollup: sub",
    b"Nats-TTL: 1",
    b"Nats-Batch-Id: a",
    b"Liftlog-Ack: twice",
    b"Liftlog-Unknown: 1",
)
"""L4: headers that ask for something that is not done here."""


class Publisher:
    """Publishes bursts of unique values, with a reply subject or without, and repeats what was not acked."""

    __slots__ = (
        "_account",
        "_again",
        "_asks_full",
        "_cluster",
        "_deadlines",
        "_shared",
        "_turns",
        "_waiting",
        "number",
    )

    def __init__(self, shared: Clientele, number: int) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._account = shared.account
        self.number = number
        mean_us = self._cluster.knobs.publish_interval_us
        self._turns = self._cluster.chances.turns(f"publisher/{number}", mean_us)
        self._asks_full = number % 2 == 0
        self._waiting: dict[bytes, ClientOperation] = {}
        self._deadlines: deque[tuple[int, list[ClientOperation]]] = deque()
        self._again = 0

    def start(self) -> None:
        self._schedule()

    def _schedule(self) -> None:
        turn = self._turns.next()
        if turn is not None:
            self._cluster.kernel.at(turn.at_us, self._fire, turn)

    def _fire(self, turn: Turn, second: object) -> None:
        if self._shared.stopping:
            return
        self._give_up()
        knobs, draws = self._cluster.knobs, turn.draws
        target = self._shared.target_of(turn)
        if target is not None:
            size = 1 + draws.part("size").randrange(knobs.burst_max) + min(self._again, knobs.burst_max)
            size = turn.count or size
            self._again = 0
            turn.noted(target.name, size)
            with_reply = draws.part("reply").random() < knobs.with_reply
            self.publish(target, size, with_reply, str(turn.number), draws)
        self._schedule()

    def publish(
        self,
        target: Target,
        count: int,
        with_reply: bool,
        burst: str,
        draws: Draws,
        strange: float = STRANGE_SHARE,
    ) -> None:
        """One burst on one subject, at this instant. Values are numbered within their `burst`. `strange`:
        what share is to be refused.
        """
        now_us = self._cluster.kernel.now_us
        messages: list[Message] = []
        operations: list[ClientOperation] = []
        filler = b"." * draws.part("filler").randrange(self._cluster.knobs.value_filler + 1)
        for place in range(count):
            own = draws.part(place)
            value = f"{self.number}-{burst}-{place}".encode()
            reply = INBOX + b"%d." % self.number + value if with_reply else b""
            lines = self._key_lines(own) if target.config.compact else []
            lines += self._wish_lines(target, value, strange, own)
            headers = b"NATS/1.0\r\n%b\r\n" % b"".join(b"%b\r\n" % line for line in lines) if lines else b""
            messages.append(Message(target.subject, reply, headers, value + filler))
            operations.append(ClientOperation("send", self.number, target, now_us, value))
        heard = self._cluster.bus.publish(target.subject, messages)
        self._shared.perform(operations)
        for copy in self._shared.copies_of(target):
            # Nobody says whether the copy was stored.
            self._shared.perform(
                [
                    ClientOperation("send", self.number, copy, now_us, operation.value)
                    for operation in operations
                ]
            )
        if with_reply and heard:
            self._deadlines.append((now_us + ACK_TIMEOUT_US, operations))
            for operation in operations:
                self._waiting[operation.value] = operation
        elif with_reply:
            for operation in operations:
                operation.end("fail", now_us, error="no responders")

    def _key_lines(self, draw: Draws) -> list[bytes]:
        """A key, and now and then the word that deletes it; a few messages have none."""
        knobs = self._cluster.knobs
        if draw.random() < 0.1:
            return []
        lines = [b"Liftlog-Key: k%d" % draw.randrange(knobs.keys)]
        if draw.random() < knobs.tombstones:
            lines.append(b"Liftlog-Tombstone: 1")
        return lines

    def _wish_lines(self, target: Target, value: bytes, strange: float, draws: Draws) -> list[bytes]:
        """What else a message asks for: half of the publishers want the full ack, some name the stream."""
        lines = [b"Liftlog-Ack: full"] if self._asks_full else []
        drawn = draws.random()
        if drawn < strange:
            self._shared.strange.add(value)
            # Before the others: of two equal names the first counts.
            lines.insert(0, STRANGE[int(drawn / strange * len(STRANGE))])
        elif drawn > 0.95:
            lines.append(b"Nats-Expected-Stream: " + target.stream.encode())
        return lines

    def acked(self, value: bytes, acks: AckPublishes, offset: int, full: bool) -> None:
        account = self._account
        account.checks.counts["HeadersHeeded"] += 1
        what = f"partition {acks.partition} acknowledged {value.decode()}"
        if value in self._shared.strange:
            account.fail(Violation("HeadersHeeded", f"{what}, which asks for what is not done here"))
        if full != self._asks_full:
            account.fail(Violation("HeadersHeeded", f"{what} with other keys than it asked for"))
        operation = self._waiting.pop(value, None)
        if operation is not None:
            epoch, incarnation = (acks.epoch, acks.incarnation) if full else (0, 0)
            now_us = self._cluster.kernel.now_us
            operation.end("ok", now_us, epoch=epoch, incarnation=incarnation, offset=offset)
            account.count("acks received")

    def refused(self, value: bytes, code: str) -> None:
        operation = self._waiting.pop(value, None)
        if operation is not None:
            operation.end("fail" if code in FAILS else "info", self._cluster.kernel.now_us, error=code)
            self._again += 1

    def _give_up(self) -> None:
        """Values without an ack for too long: their outcome is unknown; publish the content anew."""
        now_us = self._cluster.kernel.now_us
        while self._deadlines and self._deadlines[0][0] <= now_us:
            for operation in self._deadlines.popleft()[1]:
                if self._waiting.pop(operation.value, None) is not None:
                    operation.end("info", now_us, error="no ack in time")
                    self._again += 1


class Admin:
    """Changes the cluster now and then: elections, rebalancing, the controller's place, short-lived
    streams.
    """

    __slots__ = (
        "_account",
        "_cluster",
        "_extra",
        "_raising",
        "_shared",
        "_turns",
        "number",
    )

    def __init__(self, shared: Clientele, number: int) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._account = shared.account
        self.number = number
        self._turns = self._cluster.chances.turns("admin/0", self._cluster.knobs.admin_interval_us)
        self._raising = self._cluster.chances.turns(RAISER, RAISE_US)
        self._extra = ""

    def start(self) -> None:
        self._schedule()
        if self._cluster.knobs.mixed_releases:
            self._raise_later()

    def _raise_later(self) -> None:
        turn = self._raising.next()
        if turn is not None:
            self._cluster.kernel.at(turn.at_us, self._raise, turn)

    def _raise(self, turn: Turn, second: object) -> None:
        """U2: ask for the newest level, again and again."""
        if self._shared.stopping:
            return
        turn.noted()
        request, patience_us = RaiseLevelRequest(), self._cluster.knobs.admin_patience_us
        node = self._controller() or self._shared.any_node(turn.draws)
        self._shared.hub.request(turn.name, node, request, self._answered, patience_us)
        self._raise_later()

    def _schedule(self) -> None:
        turn = self._turns.next()
        if turn is not None:
            self._cluster.kernel.at(turn.at_us, self._fire, turn)

    def _fire(self, turn: Turn, second: object) -> None:
        if self._shared.stopping:
            return
        draws = turn.draws
        turn.noted()
        self._account.count("admin requests")
        purgeable = [target for target in self._shared.targets if is_purged(target.config)]
        if purgeable and draws.random() < self._cluster.knobs.purge_share:
            self._purge(purgeable[draws.randrange(len(purgeable))], turn)
            self._schedule()
            return
        patience_us = self._cluster.knobs.admin_patience_us
        node = self._choose_node(draws)
        request = self._request(turn)
        if isinstance(request, RaiseLevelRequest):
            node = self._controller() or node
        self._shared.hub.request(turn.name, node, request, self._answered, patience_us)
        self._schedule()

    def _request(self, turn: Turn) -> ClientMessage:
        names = self._cluster.knobs.names
        if names and turn.draws.random() < 0.8:
            return self._short_lived(names, turn.draws)
        return self._draw_rival(turn.draws) or self._draw(turn)

    def _short_lived(self, names: int, draws: Draws) -> ClientMessage:
        """Create or delete a stream: each name has its own shape."""
        number = draws.randrange(names)
        name = f"brief-{number}"
        if draws.random() < 0.5:
            return DeleteStreamRequest(name)
        partitions, replicas = ((1, 3), (6, 1), (5, 3))[number]
        return CreateStreamRequest(StreamConfig(name, f"brief{number}", partitions, replicas))

    def _purge(self, target: Target, turn: Turn) -> None:
        """Purge a part of a partition, mostly by its leader."""
        partition, draws = target.partition, turn.draws
        truth = self._account.truth(partition)
        before = draws.randrange(truth.hw + 1)
        if draws.random() < 0.7:
            before = min(before, truth.purged + 20)
        somebody = self._shared.any_node(draws)
        leader = next(reversed(truth.leaders.values()))[0] if truth.leaders else somebody
        if draws.random() < 0.05:
            # Nobody commits so much before it arrives: it is refused (C3).
            request = PurgeRequest(partition, truth.hw + 100_000)
            name = f"{turn.name}/beyond"
            self._shared.hub.request(name, leader, request, lambda reply: None, REQUEST_TIMEOUT_US)
        truth.purge_asked = max(truth.purge_asked, before)

        def answered(reply: object) -> None:
            if isinstance(reply, DoneReply):
                self._purged(partition, before)

        request = PurgeRequest(partition, before)
        self._shared.hub.request(turn.name, leader, request, answered, 2 * REQUEST_TIMEOUT_US)

    def _purged(self, partition: PartitionId, before: int) -> None:
        """A server says that everything below `before` is gone."""
        self._account.count("purges")
        truth = self._account.truth(partition)
        starts: dict[int, int] = {}
        for number in truth.isr:
            node = self._cluster.machines[number].node
            replica = node.replicas.get(partition) if node is not None else None
            if replica is not None and replica.state == "ready":
                starts[number] = replica.log_start
        try:
            truth.purge_done(before, starts)
        except Violation as violation:
            self._account.fail(violation)

    def _choose_node(self, draws: Draws) -> int:
        if draws.random() < self._cluster.knobs.admin_to_controller:
            return self._controller() or self._shared.any_node(draws)
        return self._shared.any_node(draws)

    def _controller(self) -> int:
        """Who takes itself for it; 0: nobody."""
        for machine in self._cluster.machines.values():
            if machine.node is not None and machine.node.raft.is_leader:
                return machine.number
        return 0

    def _answered(self, reply: object) -> None:
        if isinstance(reply, ErrorReply) and reply.code == ERR_EXISTS:
            self._extra = ""

    def _draw_rival(self, draws: Draws) -> ClientMessage | None:
        """Ask for a second stream that would answer the messages of another one: refused (N9)."""
        answering = [target for target in self._shared.targets if target.config.ack_reply]
        if draws.random() >= RIVAL_SHARE or not answering:
            return None
        target = answering[draws.randrange(len(answering))]
        return CreateStreamRequest(StreamConfig("rival", target.subject.decode(), 1, 1))

    def _draw(self, turn: Turn) -> ClientMessage:
        draw = turn.draws
        knobs = self._cluster.knobs
        if draw.random() < RAISE_SHARE:
            return RaiseLevelRequest()
        if knobs.node_share and draw.random() < knobs.node_share:
            node = knobs.nodes - draw.randrange(knobs.joiners)
            if draw.part("retires").random() < RETIRE_SHARE:
                return self._retirement(draw.part("retirement"), node)
            if draw.random() < 0.2:
                return RemoveNodeRequest(node)
            return AddNodeRequest(node, knobs.peer_address(node))
        share = knobs.voter_share
        if share and draw.random() < share:
            return SetVoterRequest(self._shared.any_node(draw), draw.random() < 0.6)
        choice = draw.randrange(8)
        if choice <= 1:
            return RebalanceRequest()
        if choice <= 3:
            target = self._shared.targets[draw.randrange(len(self._shared.targets))]
            return ElectLeaderRequest(target.stream, target.partition.index, self._shared.any_node(draw))
        if choice == 4:
            return TransferControllerRequest(self._shared.any_node(draw))
        if choice == 5:
            return StreamInfoRequest()
        if self._extra:
            name, self._extra = self._extra, ""
            return DeleteStreamRequest(name)
        number = turn.number % len(EXTRA_STREAMS)
        self._extra = EXTRA_STREAMS[number]
        return CreateStreamRequest(StreamConfig(self._extra, f"extra.{number}", 1, 3))


    def _retirement(self, draw: Draws, joiner: int) -> ClientMessage:
        """I3: who joined goes again, or takes the place of another one, of the first node too; or somebody
        changes his mind. The other founders stay: the files of those who may yet join name them.
        """
        knobs = self._cluster.knobs
        goes = [1, *range(knobs.nodes - knobs.joiners + 1, knobs.nodes + 1)]
        old = goes[draw.randrange(len(goes))]
        choice = draw.random()
        if choice < 0.25:
            return RetireNodeRequest(old, False)
        if choice < 0.55:
            return RetireNodeRequest(joiner, True)
        return RetireNodeRequest(old, True, joiner)


def is_purged(config: StreamConfig) -> bool:
    """Whether the workload may purge this stream: those that lose their front anyway, and compacted ones."""
    return config.compact or not config.retention.unlimited


def is_writable(state: PartitionState) -> bool:
    """Whether a partition can commit, as far as its metadata tells."""
    return bool(state.leader) and state.ready and len(state.isr) >= state.min_insync
