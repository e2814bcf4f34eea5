"""What all clients of a simulated cluster share: connections to nodes, the streams they know, what they did.

Clients sit outside the cluster and are never partitioned from it; their connections break when a node dies.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from liftlog.core.metadata.subjects import matches
from liftlog.messages import ClientGone, ClientMessage, ClientRequest
from liftlog.types import ClientRef
from liftlog_sim.account import Account
from liftlog_sim.authors import Author, Authors
from liftlog_sim.cluster import Cluster
from liftlog_sim.operations import ClientOperation
from liftlog_sim.targets import Target

OnReply = Callable[[Any], None]


class _Pending:
    __slots__ = ("author", "node", "on_reply")

    def __init__(self, node: int, on_reply: OnReply, author: Author | None) -> None:
        self.node = node
        self.on_reply = on_reply
        self.author = author


class ClientHub:
    """Connections between clients and nodes. A request is answered, or ends with None: outcome unknown."""

    __slots__ = ("_authors", "_cluster", "_next", "_pending", "_random")

    def __init__(self, cluster: Cluster, authors: Authors) -> None:
        self._cluster = cluster
        self._authors = authors
        self._random = random.Random(f"{cluster.seed}/clients").random
        self._pending: dict[int, _Pending] = {}
        self._next = 0

    def request(self, node: int, request: ClientMessage, on_reply: OnReply, timeout_us: int) -> None:
        """Send `request` to a node; `on_reply` is called exactly once."""
        self._next += 1
        client = self._next
        author = self._authors.asks(request)
        self._pending[client] = _Pending(node, on_reply, author)
        kernel = self._cluster.kernel
        kernel.after(self._delay_us(), self._arrive, client, request)
        kernel.after(timeout_us, self._timeout, client)

    def replied(self, client: int, reply: object) -> None:
        """A node answers."""
        if client in self._pending:
            self._cluster.kernel.after(self._delay_us(), self._deliver, client, reply)

    def server_gone(self, node: int) -> None:
        """A node's process died: its connections break."""
        for client, pending in list(self._pending.items()):
            if pending.node == node:
                self._cluster.kernel.after(self._delay_us(), self._deliver, client, None)

    def _delay_us(self) -> int:
        return 200 + int(600 * self._random())

    def _arrive(self, client: int, request: ClientMessage) -> None:
        pending = self._pending.get(client)
        if pending is None:
            return
        machine = self._cluster.machines[pending.node]
        if machine.up:
            machine.post(ClientRequest(ClientRef(client), request))
        else:
            self._deliver(client, None)

    def _deliver(self, client: int, reply: object) -> None:
        pending = self._pending.pop(client, None)
        if pending is not None:
            self._goes(pending)
            pending.on_reply(reply)

    def _timeout(self, client: int, second: object) -> None:
        pending = self._pending.pop(client, None)
        if pending is not None:
            self._cluster.machines[pending.node].post(ClientGone(ClientRef(client)))
            self._goes(pending)
            pending.on_reply(None)

    def _goes(self, pending: _Pending) -> None:
        """The client waits no more, answered or not."""
        if pending.author is not None:
            pending.author.until_us = self._cluster.kernel.now_us


class Clientele:
    """What clients work with, and where they note what they did."""

    def __init__(self, cluster: Cluster, account: Account, *, keep_values: bool) -> None:
        self.cluster = cluster
        self.account = account
        self.hub = ClientHub(cluster, account.authors)
        self.keep_values = keep_values
        """Whether reads remember the values they saw, for a history."""
        self.targets: list[Target] = []
        self.operations: list[ClientOperation] = []
        self.strange: set[bytes] = set()
        """Values of messages that ask for what does not exist here: never acknowledged, never read (L4)."""
        self.stopping = False
        self._random = random.Random(f"{cluster.seed}/workload")

    def copies_of(self, target: Target) -> list[Target]:
        """Silent streams that store what is published to this target."""
        subject = target.subject.decode()
        return [
            other
            for other in self.targets
            if other is not target and matches(other.config.subject, subject) and not other.config.ack_reply
        ]

    def random_node(self) -> int:
        return self._random.randrange(self.cluster.knobs.nodes) + 1
