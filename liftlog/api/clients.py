"""The way back to clients: which answer goes where.

The core knows a client's request by a number (`ClientRef`). This registry gives out the numbers and keeps,
for each, the function that carries the answer: to a TCP connection or to a NATS reply subject. One request
gets one answer; a second one, or one after the client left, goes nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from liftlog.api.spans import release
from liftlog.messages import ClusterStatusReply, SpannedRead
from liftlog.types import ClientRef

Responder = Callable[[object], None]


class ClientRegistry:
    """`ClientReplies` port for all doors of a node."""

    def __init__(self, ended: Callable[[ClientRef, bool], None] = lambda client, answered: None) -> None:
        """`ended`: told of each request that nobody waits for any more, and whether it was answered."""
        self._ended = ended
        self._responders: dict[int, Responder] = {}
        self._next = 1
        self._counters: list[Callable[[], dict[str, int]]] = []

    def add_counters(self, source: Callable[[], dict[str, int]]) -> None:
        """Counters of the world around the core, to be shown in every cluster status."""
        self._counters.append(source)

    def register(self, responder: Responder) -> ClientRef:
        """A new reference, whose answer goes to `responder`."""
        client = ClientRef(self._next)
        self._next += 1
        self._responders[client] = responder
        return client

    def reply(self, client: ClientRef, reply: object) -> None:
        """Carry the answer; if the client has left, drop it."""
        responder = self._responders.pop(client, None)
        if responder is None:
            if isinstance(reply, SpannedRead):
                release(reply)
            return
        if isinstance(reply, ClusterStatusReply):
            for source in self._counters:
                reply.counters.update(source())
        responder(reply)
        self._ended(client, True)

    def forget(self, clients: Iterable[ClientRef]) -> list[ClientRef]:
        """The clients left. Returns those that still waited for an answer."""
        waited = [client for client in clients if self._responders.pop(client, None) is not None]
        for client in waited:
            self._ended(client, False)
        return waited

    def __len__(self) -> int:
        return len(self._responders)
