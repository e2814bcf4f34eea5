"""What handlers are given: the door as they see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from nats.aio.client import Client as NatsConnection

from liftlog.client.client import Client
from liftlog.jetstream.answers import JsAnswer
from liftlog.jetstream.calls import JsCall
from liftlog.jetstream.knownconsumers import KnownConsumers
from liftlog.jetstream.leaf import Leaf
from liftlog.jetstream.scanning import CountedStreams
from liftlog.mutants import Mutants


class Room(Protocol):
    """The door, to a handler: with what it asks, and what it may say of itself."""

    client: Client
    """liftlog."""
    domain: str
    clusters: tuple[str, ...] | None
    """The other ones that the door's node knows; None: that is not known here."""
    calls: int
    errors: int
    leaf: Leaf
    """By which messages go to who consumes them."""
    consumers: KnownConsumers
    counted: CountedStreams
    mutants: Mutants

    @property
    def nats(self) -> NatsConnection:
        """To send what is no answer: messages, statuses, advisories."""
        ...

    async def push_soon(self, stream: str) -> None:
        """A push consumer of this stream was made, or altered: have its leader's door hear of it."""
        ...

    def start(self, work: Awaitable[None], what: str) -> None:
        """Let something go on until it ends or the door is closed; its errors are logged."""
        ...


Handler = Callable[[Room, JsCall], Awaitable[JsAnswer | None]]
"""Answers a call; None: it has answered itself, or nobody waits. Raises JsError, LiftlogError."""
Handlers = Mapping[str, Handler]
"""By verb."""
