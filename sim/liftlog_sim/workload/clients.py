"""What all clients of a simulated cluster share: connections to nodes, the streams they know, what they did.

Clients sit outside the cluster and are never partitioned from it; their connections break when a node dies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from liftlog.api.ackgroups import AckGroup, OpenGroups, PlantedBugs, acked_alone
from liftlog.core.metadata.records import StreamState
from liftlog.messages import ClientGone, ClientMessage, ClientRequest
from liftlog.subjects.grammar import matches
from liftlog.types import ClientRef, PartitionId, StreamConfig
from liftlog_sim.chance.chances import Turn
from liftlog_sim.chance.draws import Draws
from liftlog_sim.devices.cluster import Cluster
from liftlog_sim.truth.account import Account
from liftlog_sim.truth.authors import Author
from liftlog_sim.truth.lasts import ExpectedLast
from liftlog_sim.workload.numbering import NumbersInUse
from liftlog_sim.workload.operations import ClientOperation
from liftlog_sim.workload.repeating import MessageIdsInUse
from liftlog_sim.workload.targets import Target

LEAST_US = 200
"""For so long a client's request or its answer is on its way, at least."""
JOINED_SHARE = 0.5
"""How often acks that arrive in one instant come through a door that joins them."""

OnReply = Callable[[Any], object]


class _Pending:
    __slots__ = ("author", "back_us", "joined", "node", "on_reply")

    def __init__(self, node: int, on_reply: OnReply, author: Author | None, back_us: int) -> None:
        self.node = node
        self.back_us = back_us
        """How long an answer takes, and the news that the server is gone."""
        self.on_reply = on_reply
        self.author = author
        self.joined = False
        """The node was asked by another one of its group."""


class ClientHub:
    """Connections between clients and nodes. A request is answered, or ends with None: outcome unknown."""

    __slots__ = ("_account", "_bugs", "_cluster", "_doors", "_groups", "_next", "_pending", "on_request")

    def __init__(self, cluster: Cluster, account: Account) -> None:
        self._cluster = cluster
        self._account = account
        self._doors: dict[tuple[int, str], OpenGroups] = {}
        """By node and way, acks that arrive in this instant at a door that joins them (K3)."""
        mutants = account.mutants
        self._bugs = PlantedBugs(mutants.ack_group_names_first, mutants.ack_group_answered_whole)
        self._groups: dict[int, AckGroup] = {}
        """Those that the node has not answered, by the client that it is to answer."""
        self._pending: dict[int, _Pending] = {}
        self._next = 0
        self.on_request: Callable[[ClientMessage], None] = lambda request: None

    def request(
        self,
        name: str,
        node: int,
        request: ClientMessage,
        on_reply: OnReply,
        timeout_us: int,
        way: str = "",
    ) -> None:
        """Send `request` to a node; `on_reply` is called exactly once. `name`: of the client's operation.
        Requests of one `way` that are sent in one instant arrive in one.
        """
        self.on_request(request)
        self._next += 1
        client = self._next
        author = self._account.authors.asks(request)
        draws = self._cluster.chances.draws("ways", way or name)
        jitter_us = self._cluster.knobs.client_jitter_us
        there_us = LEAST_US + draws.randrange(jitter_us + 1)
        back_us = LEAST_US + draws.randrange(jitter_us + 1)
        self._pending[client] = _Pending(node, on_reply, author, back_us)
        kernel = self._cluster.kernel
        joins = way and acked_alone(request) is not None
        if joins and self._cluster.chances.draws("doors", way).random() < JOINED_SHARE:
            kernel.after(there_us, self._join, (client, way), request)
        else:
            kernel.after(there_us, self._arrive, client, request)
        kernel.after(timeout_us, self._timeout, client)

    def replied(self, client: int, reply: object) -> None:
        """A node answers."""
        group = self._groups.pop(client, None)
        answers = [([client], reply)] if group is None else group.answers(reply)
        for numbers, told in answers:
            for number in numbers:
                pending = self._pending.get(number)
                if pending is not None:
                    self._cluster.kernel.after(pending.back_us, self._deliver, number, told)

    def server_gone(self, node: int) -> None:
        """A node's process died: its connections break."""
        for client, pending in list(self._pending.items()):
            if pending.node == node:
                self._cluster.kernel.after(pending.back_us, self._deliver, client, None)

    def _arrive(self, client: int, request: ClientMessage) -> None:
        pending = self._pending.get(client)
        if pending is None:
            return
        machine = self._cluster.machines[pending.node]
        if machine.up:
            machine.post(ClientRequest(ClientRef(client), request))
        else:
            self._deliver(client, None)

    def _join(self, asked: tuple[int, str], request: ClientMessage) -> None:
        """As `_arrive`, at a door that hands over as one what this instant brings."""
        client, way = asked
        pending = self._pending.get(client)
        if pending is None or not self._cluster.machines[pending.node].up:
            self._arrive(client, request)
            return
        door = pending.node, way
        group, begun = self._doors.setdefault(door, OpenGroups(self._bugs)).take(client, request)
        assert group is not None
        pending.joined = not begun
        if begun:
            group.client = ClientRef(client)
            self._cluster.kernel.after(0, self._hand_over, door, group)
        else:
            self._account.count("acks joined by a door")

    def _hand_over(self, door: tuple[int, str], group: AckGroup) -> None:
        """The instant is over."""
        del self._doors[door]
        if group.client in self._pending:
            self._groups[group.client] = group
            self._arrive(group.client, group.request)

    def _deliver(self, client: int, reply: object) -> None:
        self._groups.pop(client, None)
        pending = self._pending.pop(client, None)
        if pending is not None:
            self._goes(pending)
            pending.on_reply(reply)

    def _timeout(self, client: int, second: object) -> None:
        self._groups.pop(client, None)
        pending = self._pending.pop(client, None)
        if pending is not None:
            machine = self._cluster.machines[pending.node]
            if not pending.joined:
                machine.post(ClientGone(ClientRef(client)))
            machine.heard(partial(self._goes, pending))
            pending.on_reply(None)

    def _goes(self, pending: _Pending) -> None:
        """The client waits no more, answered or not, and its node has heard of that."""
        if pending.author is not None:
            pending.author.until_us = self._cluster.kernel.now_us


class Clientele:
    """What clients work with, and where they note what they did."""

    def __init__(self, cluster: Cluster, account: Account, *, keep_values: bool) -> None:
        self.cluster = cluster
        self.account = account
        self.hub = ClientHub(cluster, account)
        self.keep_values = keep_values
        """Whether reads remember the values they saw, for a history."""
        self.targets: list[Target] = []
        self.operations: list[ClientOperation] = []
        """Of a run whose operations are asked for when it is over: for a history, or to judge a sickness. Of
        all others nothing is kept, so that a run may last as long as it likes."""
        self.performed = 0
        """How many operations there were."""
        self._keeps_operations = keep_values or cluster.knobs.sick_from_us > 0
        self.strange: set[bytes] = set()
        """Values of messages that ask for what does not exist here: never acknowledged, never read (L4)."""
        self.expectations: dict[bytes, int] = {}
        """By value, at which offset a message is to lie, if anywhere (L6)."""
        self.lasts: dict[bytes, ExpectedLast] = {}
        """By value, what a message expects to be the last record of a subject (L9)."""
        self.alone_until: dict[tuple[PartitionId, str], int] = {}
        """Consumers that nobody uses before this time."""
        self.last_known: dict[tuple[PartitionId, bytes], int] = {}
        """By subject, the last record of which any client was told."""
        self.sent_on: dict[bytes, bytes] = {}
        """By value, the subject of a message, where somebody expects such things."""
        self.last_told: dict[bytes, int] = {}
        """By value, where the last record lies, for who was refused for it."""
        self.ids = MessageIdsInUse()
        """L7: which messages have which ids."""
        self.numbers = NumbersInUse()
        """L2: which messages are which ones of which producers."""
        self.stopping = False

    def perform(self, operations: Sequence[ClientOperation]) -> None:
        """These operations have begun, or been done."""
        self.performed += len(operations)
        if self._keeps_operations:
            self.operations.extend(operations)

    def copies_of(self, target: Target, on: bytes) -> list[Target]:
        """What else may store what is published to this target, on this subject: silent streams, which all
        do (N9), and those of its queue group, of which one does (N11).
        """
        subject, group = on.decode(), target.config.shares_in
        return [
            other
            for other in self.targets
            if other is not target
            and (not other.config.ack_reply or (group and other.config.shares_in == group))
            and matches(other.pattern, subject)
        ]

    def know(self, config: StreamConfig, stream: int, partitions: int, used: bool = True) -> None:
        """From now on clients use all partitions of a stream: of those that were added too (R19). Or not."""
        known = {target.partition for target in self.targets}
        for number in range(partitions):
            partition = PartitionId(stream, number)
            if partition not in known:
                self.account.truth(partition).ids.window_ms = config.remembers_ms
                if used:
                    self.targets.append(Target(config, partition))

    def look_again(self, streams: Iterable[StreamState]) -> None:
        """Clients see how many partitions the streams that they use have."""
        configs = {target.partition.stream: target.config for target in self.targets}
        for stream in streams:
            if stream.id in configs:
                self.know(configs[stream.id], stream.id, len(stream.partitions))

    def any_node(self, draws: Draws) -> int:
        return draws.randrange(self.cluster.knobs.nodes) + 1

    def target_of(self, turn: Turn) -> Target | None:
        """The partition of an operation; None if the stated one does not exist here."""
        if turn.target:
            return next((target for target in self.targets if target.name == turn.target), None)
        return self.any_target(turn.draws.part("target"))

    def any_target(self, draws: Draws) -> Target | None:
        """None if there is none: in a world that was made smaller, no stream may be there yet."""
        return self.targets[draws.randrange(len(self.targets))] if self.targets else None
