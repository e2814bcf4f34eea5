"""The JetStream that a stream comes from: one connection, and its answers.

What may be there again later raises OriginAway; what will not, LiftlogError.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec
import nats.errors
from nats.aio.client import Client as NatsConnection

from liftlog.client.connecting import NatsPlace, connect_nats
from liftlog.client.errors import Unreachable, forbids
from liftlog.jetstream.errors import STREAM_NOT_FOUND
from liftlog.nats_login import NO_LOGIN, NatsLogin
from liftlog.types import LiftlogError

T = TypeVar("T")

ASK_S = 5.0
"""So long an answer may take."""
CONNECT_S = 5.0
PENDING_BYTES = 16 * 1024 * 1024
NOT_ENABLED = (10039, 10076)
"""JetStream's numbers for a server, or an account, without it."""

Taker = Callable[[bytes, bytes, bytes, bytes], None]
"""Takes subject, reply subject, body and header block of a message, as they came."""


class OriginAway(LiftlogError):
    """The origin does not answer now."""


class OriginSays(LiftlogError):
    """The origin answered with an error; `number` is JetStream's."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number


class OriginPlace(NamedTuple):
    """Where the stream is. `url`: of a NATS server, or of several, with commas."""

    url: str
    stream: str
    domain: str = ""
    login: NatsLogin = NO_LOGIN

    @property
    def prefix(self) -> str:
        return f"$JS.{self.domain}.API" if self.domain else "$JS.API"

    @property
    def shown(self) -> str:
        """The address without what one logs in with."""
        return ",".join(one.rsplit("@", 1)[-1] for one in self.url.split(","))

    @property
    def nats(self) -> NatsPlace:
        return NatsPlace(self.url, self.login, self.shown, "the origin's NATS", "--from URL", "--from-ca")


class OriginState(msgspec.Struct):
    """What JetStream says is in the stream."""

    messages: int
    first_seq: int
    last_seq: int
    bytes: int = 0


class OriginStream(msgspec.Struct):
    """What JetStream says of the stream. `config`: every field that it has."""

    config: dict[str, Any]
    created: str
    state: OriginState


class OriginPair(msgspec.Struct):
    consumer_seq: int = 0
    stream_seq: int = 0


class OriginConsumer(msgspec.Struct):
    """What JetStream says of a consumer."""

    name: str
    created: str
    config: dict[str, Any]
    delivered: OriginPair
    ack_floor: OriginPair
    num_ack_pending: int = 0


class _Page(msgspec.Struct):
    total: int = 0
    consumers: list[OriginConsumer] | None = None


class _Names(msgspec.Struct):
    streams: list[str] | None = None


class _Fault(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Outcome(msgspec.Struct):
    error: _Fault | None = None


class TellingConnection(NatsConnection):
    """A connection that hands over what comes for some subscriptions as it came: nats-py takes header blocks
    apart, and what was not formed as it expects is lost.
    """

    def __init__(self) -> None:
        super().__init__()
        self.takers: dict[int, Taker] = {}
        """By number of a subscription."""

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        taker = self.takers.get(sid)
        if taker is None:
            await super()._process_msg(sid, subject, reply, data, headers)
        else:
            taker(bytes(subject), bytes(reply), bytes(data), bytes(headers or b""))


class JetStreamOrigin:
    """Asks it. Use as an async context manager."""

    def __init__(self, place: OriginPlace) -> None:
        self.place = place
        self.nats = TellingConnection()
        self._complaints: deque[Exception] = deque()

    async def __aenter__(self) -> JetStreamOrigin:
        """Connect. Raises Unreachable, LiftlogError."""
        try:
            self._complaints = await connect_nats(
                self.nats,
                self.place.nats,
                name="liftlog-import",
                time_s=CONNECT_S,
                pending_bytes=PENDING_BYTES,
            )
        except Unreachable:
            await self.nats.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.nats.close()

    async def ask(self, verb: str, body: object, kind: type[T]) -> T:
        """One call. Raises OriginAway; OriginSays, with what JetStream has against it; LiftlogError."""
        subject = f"{self.place.prefix}.{verb}"
        payload = b"" if body is None else msgspec.json.encode(body)
        try:
            answer = await self.nats.request(subject, payload, timeout=ASK_S)
        except nats.errors.NoRespondersError:
            where = f" in domain '{self.place.domain}'" if self.place.domain else ""
            text = f"no JetStream answers{where} at {self.place.shown}; is it switched on for this account?"
            raise OriginAway(f"{text} (--domain says which one is asked)") from None
        except (TimeoutError, nats.errors.TimeoutError):
            if forbids(self._complaints, subject):
                text = f"this user of the origin's NATS may not publish to {subject}: log in as one who may"
                raise OriginSays(0, f"{text}, or allow it in the server's permissions") from None
            raise OriginAway(f"the origin at {self.place.shown} does not answer {verb} in time") from None
        except nats.errors.Error as error:
            raise OriginAway(f"the origin at {self.place.shown} refused {verb}: {error}") from None
        try:
            fault = msgspec.json.decode(answer.data, type=_Outcome).error
            if fault is None:
                return msgspec.json.decode(answer.data, type=kind)
        except msgspec.MsgspecError as error:
            raise LiftlogError(f"the origin answers {verb} otherwise than JetStream does: {error}") from None
        raise self._said(fault)

    def _said(self, fault: _Fault) -> LiftlogError:
        stream, where = self.place.stream, self.place.shown
        if fault.err_code in NOT_ENABLED:
            text = f"JetStream at {where}: {fault.description}; is this the right account?"
            return OriginSays(fault.err_code, text)
        if fault.err_code == STREAM_NOT_FOUND.err_code:
            return OriginSays(fault.err_code, f"there is no stream '{stream}' at {where}")
        if fault.code == 503:
            return OriginAway(f"JetStream at {where} is not ready: {fault.description}")
        text = f"JetStream at {where} says of stream '{stream}': {fault.description} ({fault.err_code})"
        return OriginSays(fault.err_code, text)

    async def stream(self) -> OriginStream:
        """What it is, and what is in it now."""
        return await self.ask(f"STREAM.INFO.{self.place.stream}", None, OriginStream)

    async def consumers(self) -> list[OriginConsumer]:
        """All that it has, by name."""
        found: dict[str, OriginConsumer] = {}
        offset = 0
        while True:
            page = await self.ask(f"CONSUMER.LIST.{self.place.stream}", {"offset": offset}, _Page)
            some = page.consumers or []
            found.update((one.name, one) for one in some)
            offset += len(some)
            if not some or offset >= page.total:
                return [found[name] for name in sorted(found)]

    async def streams_of(self, subject: str) -> list[str]:
        """Which streams keep messages of subjects that this one has something in common with."""
        names = await self.ask("STREAM.NAMES", {"subject": subject}, _Names)
        return names.streams or []
