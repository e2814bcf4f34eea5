"""An operator of the cluster: elections, rebalancing, the controller's place, who belongs to the cluster and
who votes, short-lived streams, purges, and the level of a cluster of two releases.
"""

from __future__ import annotations

from liftlog.messages import (
    ERR_EXISTS,
    AddNodeRequest,
    ClientMessage,
    CreateStreamRequest,
    DeleteMessageRequest,
    DeleteStreamRequest,
    DoneReply,
    ElectLeaderRequest,
    ErrorReply,
    MessageDeleted,
    PurgeRequest,
    PurgeSubjectsRequest,
    RaiseLevelRequest,
    RebalanceRequest,
    RemoveNodeRequest,
    RetireNodeRequest,
    SetVoterRequest,
    StreamInfoRequest,
    SubjectsPurged,
    TransferControllerRequest,
)
from liftlog.types import PartitionId, StreamConfig
from liftlog_sim.chance.chances import Turn
from liftlog_sim.chance.draws import Draws
from liftlog_sim.chance.plan import RAISER
from liftlog_sim.kernel import SECOND
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.rival import Rival
from liftlog_sim.workload.targets import WORDS, Target

EXTRA_STREAMS = ("extra-0", "extra-1", "extra-2")
REQUEST_TIMEOUT_US = 4 * SECOND
RETIRE_SHARE = 0.3
"""Of what an operator wants of nodes: that one retires, or does not."""
REMOVE_SHARE = 0.35
"""Of the rest: that one is removed; else it is added."""
RIVAL_SHARE = 0.1
RAISE_SHARE = 0.05
RAISE_US = SECOND
"""How often an operator of nodes of two releases asks for the level."""


class Admin:
    """Asks for one thing after the other, without waiting for what becomes of it."""

    __slots__ = (
        "_account",
        "_cluster",
        "_extra",
        "_raising",
        "_rival",
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
        self._rival = Rival(shared)
        self._extra = ""

    def start(self) -> None:
        self._turns.take(self._fire)
        if self._cluster.knobs.mixed_releases:
            self._raising.take(self._raise)

    def _raise(self, turn: Turn, second: object) -> None:
        """U2: ask for the newest level, again and again."""
        if self._shared.stopping:
            return
        turn.noted()
        request, patience_us = RaiseLevelRequest(), self._cluster.knobs.admin_patience_us
        node = self._controller() or self._shared.any_node(turn.draws)
        self._shared.hub.request(turn.name, node, request, self._answered, patience_us)
        self._raising.take(self._raise)

    def _fire(self, turn: Turn, second: object) -> None:
        if self._shared.stopping:
            return
        draws = turn.draws
        turn.noted()
        self._account.count("admin requests")
        purgeable = [target for target in self._shared.targets if is_purged(target.config)]
        if purgeable and draws.random() < self._cluster.knobs.purge_share:
            self._purge(purgeable[draws.randrange(len(purgeable))], turn)
            self._turns.take(self._fire)
            return
        deletable = [target for target in self._shared.targets if target.config.has_journal]
        if deletable and draws.random() < self._cluster.knobs.delete_share:
            self._delete(deletable[draws.randrange(len(deletable))], turn)
            self._turns.take(self._fire)
            return
        patience_us = self._cluster.knobs.admin_patience_us
        node = self._choose_node(draws)
        request = self._request(turn)
        if isinstance(request, RaiseLevelRequest):
            node = self._controller() or node
        request = self._rival.asked(turn.name, request, turn.draws.part("second"))
        self._shared.hub.request(turn.name, node, request, self._answered, patience_us)
        self._turns.take(self._fire)

    def _request(self, turn: Turn) -> ClientMessage:
        names = self._cluster.knobs.names
        if names and turn.draws.random() < 0.8:
            return self._short_lived(names, turn.draws)
        return self._draw_rival(turn.draws) or self._draw(turn)

    def _short_lived(self, names: int, draws: Draws) -> ClientMessage:
        """Create or delete a stream: each name has its own shape. Nobody publishes there: one may trust the
        kernel in any world.
        """
        number = draws.randrange(names)
        name = f"brief-{number}"
        if draws.random() < 0.5:
            return DeleteStreamRequest(name)
        partitions, replicas, durability = ((1, 3, "sync"), (6, 1, "sync"), (5, 3, "os"))[number]
        config = StreamConfig(name, f"brief{number}", partitions, replicas, durability=durability)
        return CreateStreamRequest(config)

    def _purge(self, target: Target, turn: Turn) -> None:
        """Purge a part of a partition, mostly by its leader."""
        partition, draws = target.partition, turn.draws
        truth = self._account.truth(partition)
        before = draws.randrange(truth.hw + 1)
        if draws.random() < 0.7:
            before = min(before, truth.purged + 20)
        if target.config.remembers_ms and draws.random() < 0.5:
            before = max(before, truth.hw - draws.randrange(6))
        somebody = self._shared.any_node(draws)
        leader = truth.newest_leader or somebody
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

    def _delete(self, target: Target, turn: Turn) -> None:
        """Delete messages, mostly new ones, by whoever was last seen to lead."""
        partition, draws = target.partition, turn.draws
        truth, deletions = self._account.truth(partition), self._account.deletions(partition)
        somebody = self._shared.any_node(draws)
        leader = truth.newest_leader or somebody

        if draws.part("purges").random() < self._cluster.knobs.purge_subjects_share:
            self._purge_subjects(target, turn, leader)
            return

        def answered(reply: object) -> None:
            if isinstance(reply, MessageDeleted):
                self._account.count("deletions")
                deletions.told = max(deletions.told, reply.journal)
                self._deleted(target, reply)

        for number in range(1 + draws.randrange(3)):
            offset = draws.randrange(truth.hw + 1)
            if draws.random() < 0.6:
                offset = max(0, truth.hw - draws.randrange(8))
            request = DeleteMessageRequest(partition, offset)
            deletions.asked.offsets.add(offset)
            name = f"{turn.name}/{number}"
            self._shared.hub.request(name, leader, request, answered, 2 * REQUEST_TIMEOUT_US)

    def _purge_subjects(self, target: Target, turn: Turn, leader: int) -> None:
        """Purge by subject, of what is committed, or of a little more, and mostly keep some."""
        partition, draws = target.partition, turn.draws.part("purge")
        truth, deletions = self._account.truth(partition), self._account.deletions(partition)
        below = max(0, truth.hw - draws.randrange(20)) if draws.random() < 0.5 else truth.hw
        below += draws.choice((0, 0, 0, 1, 2))
        pattern = target.subject_with(draws.choice(WORDS)).decode()
        if draws.random() < 0.3:
            pattern = draws.choice((">", target.pattern))
        request = PurgeSubjectsRequest(partition, pattern, below, draws.choice((0, 1, 2, 5, 20)))
        deletions.named()
        deletions.asked.purge(request, deletions.journal.hw)

        def answered(reply: object) -> None:
            if isinstance(reply, SubjectsPurged):
                self._account.count("purges by subject")
                deletions.told = max(deletions.told, reply.journal)
                try:
                    deletions.purged(request, reply, self._account.furthest_start(partition))
                except Violation as violation:
                    self._account.fail(violation)
            elif isinstance(reply, ErrorReply):
                self._account.count(f"purges by subject told {reply.code}")

        self._shared.hub.request(turn.name, leader, request, answered, 2 * REQUEST_TIMEOUT_US)

    def _deleted(self, target: Target, reply: MessageDeleted) -> None:
        """A leader says that a message is gone."""
        try:
            self._account.deletions(target.partition).answered(reply.offset, reply.journal)
        except Violation as violation:
            self._account.fail(violation)

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
        if knobs.joiners and knobs.node_share and draw.random() < knobs.node_share:
            node = knobs.nodes - draw.randrange(knobs.joiners)
            if not knobs.nodes_stay and draw.part("retires").random() < RETIRE_SHARE:
                return self._retirement(draw.part("retirement"), node)
            if not knobs.nodes_stay and draw.random() < REMOVE_SHARE:
                return RemoveNodeRequest(node)
            return AddNodeRequest(node, knobs.peer_address(node))
        share = knobs.voter_share
        if share and draw.random() < share:
            return SetVoterRequest(self._shared.any_node(draw), draw.random() < 0.6)
        choice = draw.randrange(8)
        if choice <= 1:
            return RebalanceRequest()
        if choice <= 3 and (target := self._shared.any_target(draw)) is not None:
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
