"""A program of a user's: a nats-py connection, names of its own, and the API's requests as they are sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import nats
import nats.js.errors
from nats.aio.client import Client as NatsConnection
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js import JetStreamContext, api

from tests.jetstream.servers import Server
from tests.jetstream.strict import strange_answer

NUMBERS = count(1)
SECOND = 1_000_000_000
"""One second in nanoseconds."""
DEADLINE_S = 5.0


@dataclass
class Pulled:
    """What came for one pull: messages, and the status that ended it, as `404 No Messages`."""

    messages: list[Msg] = field(default_factory=list)
    status: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def data(self) -> list[bytes]:
        return [one.data for one in self.messages]


def status_of(message: Msg) -> str:
    """`404 No Messages` of a status message, nothing of another."""
    headers = message.headers or {}
    if "Status" not in headers:
        return ""
    return f"{headers['Status']} {headers.get('Description', '')}".strip()


class User:
    """What a test has of a server. `name` is a stream that nobody else uses; its subjects begin with it."""

    def __init__(self, server: Server, connection: NatsConnection) -> None:
        self.server = server
        self.nc = connection
        self.js: JetStreamContext = connection.jetstream(timeout=DEADLINE_S)
        self.name = f"T{next(NUMBERS)}"
        self.complaints: list[str] = []
        """What clients with strict types would not have understood."""
        self._made: set[str] = set()
        self._plain_request = connection.request
        connection.request = self._request  # type: ignore[method-assign]

    @classmethod
    @asynccontextmanager
    async def of(cls, server: Server) -> AsyncIterator[User]:
        connection = await nats.connect(server.url, allow_reconnect=False)
        user = cls(server, connection)
        try:
            yield user
            if user.complaints:
                raise AssertionError("\n".join(dict.fromkeys(user.complaints)))
        finally:
            for made in sorted(user._made):
                await user._plain_request(f"$JS.API.STREAM.DELETE.{made}", b"", timeout=DEADLINE_S)
            await connection.close()

    @property
    def liftlog(self) -> bool:
        return self.server.liftlog

    def subject(self, rest: str = "a") -> str:
        return f"{self.name}.{rest}"

    async def _request(self, subject: str, payload: bytes = b"", *rest: Any, **options: Any) -> Msg:
        answer = await self._plain_request(subject, payload, *rest, **options)
        words = subject.split(".")
        if answer.data[:1] == b"{" and "GET" not in words[-3:] and "MSG.NEXT" not in subject:
            told = json.loads(answer.data)
            self.complaints += [f"{subject}: {one}" for one in strange_answer(told)]
            if "STREAM.CREATE" in subject and "error" not in told:
                self._made.add(words[-1])
        return answer

    async def stream(self, subjects: list[str] | None = None, **config: Any) -> api.StreamInfo:
        """Make this test's stream."""
        wanted = {"name": self.name, "num_replicas": self.server.replicas} | config
        if subjects is None and "mirror" not in config and "sources" not in config:
            subjects = [f"{wanted['name']}.>"]
        return await self.js.add_stream(subjects=subjects, **wanted)

    async def info(self, name: str = "") -> api.StreamInfo:
        return await self.js.stream_info(name or self.name)

    async def api(self, call: str, body: Any = b"", **options: Any) -> dict[str, Any]:
        """One request of the API; `call` is what follows `$JS.API.`; a body that is no bytes becomes JSON."""
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = await self.nc.request(f"$JS.API.{call}", payload, timeout=DEADLINE_S, **options)
        told: dict[str, Any] = json.loads(answer.data)
        return told

    async def refused(self, call: str, body: Any = b"") -> tuple[int, int]:
        """The code and the error code with which a request is refused."""
        told = await self.api(call, body)
        assert "error" in told, told
        assert told["error"]["description"]
        return told["error"]["code"], told["error"]["err_code"]

    async def create(self, call: str = "CREATE", /, name: str = "", **config: Any) -> dict[str, Any]:
        """STREAM.CREATE or UPDATE with a raw configuration, errors and all."""
        name = name or self.name
        wanted = {"name": name, "num_replicas": self.server.replicas} | config
        if "subjects" not in wanted and "mirror" not in wanted and "sources" not in wanted:
            wanted["subjects"] = [f"{name}.>"]
        return await self.api(f"STREAM.{call}.{name}", wanted)

    async def create_refused(self, call: str = "CREATE", /, **config: Any) -> tuple[int, int]:
        told = await self.create(call, **config)
        assert "error" in told, told
        return told["error"]["code"], told["error"]["err_code"]

    async def publish(self, *values: str, to: str = "a", **options: Any) -> list[api.PubAck]:
        """Publish values one after the other."""
        return [await self.js.publish(self.subject(to), value.encode(), **options) for value in values]

    async def publish_refused(self, to: str = "a", value: bytes = b"x", **headers: str) -> tuple[int, int]:
        """Headers with `_` for `-`."""
        named = {key.replace("_", "-"): one for key, one in headers.items()}
        answer = await self.nc.request(self.subject(to), value, timeout=DEADLINE_S, headers=named or None)
        told = json.loads(answer.data)
        assert "error" in told, told
        return told["error"]["code"], told["error"]["err_code"]

    async def consumer(self, durable: str = "C", **config: Any) -> api.ConsumerInfo:
        return await self.js.add_consumer(self.name, durable_name=durable or None, **config)

    async def consumer_info(self, durable: str = "C") -> api.ConsumerInfo:
        return await self.js.consumer_info(self.name, durable)

    async def make_consumer(self, name: str = "C", action: str = "", **config: Any) -> dict[str, Any]:
        """CONSUMER.CREATE with a raw configuration, errors and all."""
        wanted = {"name": name, "ack_policy": "explicit"} | config
        body = {"stream_name": self.name, "config": wanted} | ({"action": action} if action else {})
        return await self.api(f"CONSUMER.CREATE.{self.name}.{name}", body)

    async def consumer_refused(self, name: str = "C", action: str = "", **config: Any) -> tuple[int, int]:
        told = await self.make_consumer(name, action, **config)
        assert "error" in told, told
        return told["error"]["code"], told["error"]["err_code"]

    async def inbox(self) -> Subscription:
        return await self.nc.subscribe(self.nc.new_inbox())

    async def ask(self, inbox: Subscription, request: Any, consumer: str = "C") -> None:
        """Send a pull, of which everything goes to `inbox`."""
        payload = request if isinstance(request, bytes) else json.dumps(request).encode()
        await self.nc.publish(f"$JS.API.CONSUMER.MSG.NEXT.{self.name}.{consumer}", payload, inbox.subject)

    async def pull(self, request: Any = b"", consumer: str = "C", messages: int = 0) -> Pulled:
        """Pull until a status comes, or so many messages."""
        inbox = await self.inbox()
        await self.ask(inbox, request, consumer)
        pulled = await self.rest(inbox, messages)
        await inbox.unsubscribe()
        return pulled

    async def rest(self, inbox: Subscription, messages: int = 0) -> Pulled:
        """What comes to an inbox until a status that is no heartbeat, or so many messages."""
        pulled = Pulled()
        while True:
            if messages and len(pulled.messages) >= messages:
                return pulled
            message = await inbox.next_msg(timeout=DEADLINE_S)
            status = status_of(message)
            if status and not status.startswith("100"):
                pulled.status = status
                pulled.headers = dict(message.headers or {})
                return pulled
            if not status:
                pulled.messages.append(message)

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait for a condition, at most five seconds."""
        async with asyncio.timeout(DEADLINE_S):
            while not await condition():
                await asyncio.sleep(0.01)
