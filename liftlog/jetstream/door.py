"""The door: subscriptions, and which handler answers which call.

Every request is a task of its own, at most UNDER_WAY_MAX at once. Whatever goes wrong in it becomes one
answer that is an error, and, if JetStream does not foresee it, one line in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable
from typing import NamedTuple

import nats.errors
from nats.aio.client import Client as NatsConnection
from nats.aio.msg import Msg

from liftlog.client.client import Client
from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.config import DEFAULT_DOMAIN
from liftlog.eventlog import say
from liftlog.jetstream import account, consumers, pulls, stored, streams
from liftlog.jetstream.acks import on_ack, take_plain_ack
from liftlog.jetstream.ackwords import ACK_PREFIX
from liftlog.jetstream.answers import JsAnswer, encode_answer, encode_error, kind_of
from liftlog.jetstream.blocks import publish_block
from liftlog.jetstream.calls import JsCall, parse_call
from liftlog.jetstream.configs import API_LEVEL
from liftlog.jetstream.dispatch import Handlers
from liftlog.jetstream.errors import (
    BAD_REQUEST,
    NEEDS_API_LEVEL,
    NO_RESOURCES,
    UNAVAILABLE,
    JsError,
    error_of,
)
from liftlog.jetstream.knownconsumers import KnownConsumers
from liftlog.jetstream.leaf import NO_LEAF, Leaf
from liftlog.jetstream.push import Pushes
from liftlog.jetstream.scanning import CountedStreams
from liftlog.jetstream.statuses import NEEDS_API_LEVEL as LEVEL_STATUS
from liftlog.jetstream.statuses import JsStatus
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.nats_login import NO_LOGIN, NatsLogin
from liftlog.types import LiftlogError

QUEUE = "liftlog-jetstream"
UNDER_WAY_MAX = 4096
ANSWERED_WITH_STATUS = ("DIRECT.GET", "CONSUMER.MSG.NEXT")
"""Calls that are answered with messages, not with JSON."""
LEAF_S = 5.0
"""So long the door waits for its leaf node connection before it opens."""
BARE_PREFIX = "$JS.API"
CLUSTER_HEADER = "Liftlog-Cluster"
"""In answers about the account: whose door it is."""
NO_ONE = "-"
NEEDED_LEVEL = 2
"""Feature level (U2) of the streams that the door makes."""
LEVEL_WAIT_S = 5.0
READY_PAUSE_S = 0.1
PROBE_S = 0.5
"""How long somebody else has to say that JetStream is there."""

HANDLERS: Handlers = {
    **account.HANDLERS,
    **consumers.HANDLERS,
    **pulls.HANDLERS,
    **stored.HANDLERS,
    **streams.HANDLERS,
}
"""Every call that is answered, by verb; the modules of this room bring theirs."""


NOBODY = JsStatus(503, "No Responders")
"""What NATS itself says where nobody listens: nats-server does not, for what is not there."""


def status_of(error: JsError) -> JsStatus:
    """An error to who waits for messages."""
    if error.code == LEVEL_STATUS.code:
        return LEVEL_STATUS
    return NOBODY if error.code in (404, 503) else JsStatus(error.code, error.description)


class DoorPlace(NamedTuple):
    """Where a door is. `domain`: for which it answers. `node`: the one in whose process it is; 0: in none.
    `leaf`: URL of NATS's leaf node port, empty = none, and `login`: the files to log in there with.
    `clusters`: what that node calls the other clusters that it knows; None: the door does not know.
    """

    domain: str = DEFAULT_DOMAIN
    node: int = 0
    leaf: str = ""
    login: NatsLogin = NO_LOGIN
    clusters: tuple[str, ...] | None = None


class Door:
    """Answers JetStream's calls, with one client. `open`, then `close`."""

    def __init__(self, client: Client, place: DoorPlace, mutants: Mutants = NO_MUTANTS) -> None:
        self.client = client
        self.mutants = mutants
        self.leaf = Leaf(place.leaf, f"liftlog-door-{secrets.token_hex(6)}", place.login)
        self.consumers = KnownConsumers(client)
        self.counted = CountedStreams()
        self._pushes = Pushes(self, place.node)
        self.domain = place.domain
        self.clusters = place.clusters
        self.calls = 0
        self.errors = 0
        self._under_way: set[asyncio.Task[None]] = set()
        self._background: set[asyncio.Task[None]] = set()

    @property
    def nats(self) -> NatsConnection:
        return self.client.nats

    @property
    def own_prefix(self) -> str:
        """Under which the door always answers."""
        return f"$JS.{self.domain}.API"

    async def open(self) -> bool:
        """Begin to answer once the cluster does. Returns whether the bare prefix is served too.

        Raises LiftlogError if another cluster's door answers for our domain.
        """
        await self._cluster_is_ready()
        other = await self._who_answers(self.own_prefix)
        if other not in (NO_ONE, self.client.cluster):
            raise LiftlogError(
                f"JetStream domain '{self.domain}' is answered by {other or 'a nats-server'} on this NATS "
                "already: give this cluster's door another one ([jetstream] domain)"
            )
        bare = await self.serves_bare()
        await self._open_for_consumers()
        for prefix in [self.own_prefix, BARE_PREFIX] if bare else [self.own_prefix]:
            await self._listen(prefix)
        await self.nats.flush()
        say(logging.INFO, "jetstream", f"JetStream's door answers on {self.served(bare)}", bare=bare)
        return bare

    def served(self, bare: bool) -> str:
        """What is answered, in words."""
        if bare:
            return f"{BARE_PREFIX} and {self.own_prefix}"
        return (
            f"{self.own_prefix} only, since this NATS account has its own JetStream: programs say domain "
            f"'{self.domain}'"
        )

    async def serves_bare(self) -> bool:
        """Whether nobody but doors of this cluster answers without a domain."""
        return await self._who_answers(BARE_PREFIX) in (NO_ONE, self.client.cluster)

    async def _cluster_is_ready(self) -> None:
        """Wait for a controller, and a while for a new cluster to reach the level that the door needs."""
        loop = asyncio.get_running_loop()
        until = loop.time() + LEVEL_WAIT_S
        while True:
            with contextlib.suppress(RequestFailed, Unreachable):
                status = await self.client.status()
                level = status.counters.get("level.cluster", 1)
                if status.controller and level >= NEEDED_LEVEL:
                    return
                if status.controller and loop.time() > until:
                    text = (
                        f"JetStream's door needs feature level {NEEDED_LEVEL} to create streams, and the "
                        f"cluster is at {level}: raise it with 'liftlog cluster level --raise'"
                    )
                    say(logging.WARNING, "jetstream", text, feature_level=level)
                    return
            await asyncio.sleep(READY_PAUSE_S)

    async def _who_answers(self, prefix: str) -> str:
        """The cluster whose door answers there; empty: somebody else does; NO_ONE: nobody."""
        try:
            answer = await self.nats.request(f"{prefix}.INFO", b"", timeout=PROBE_S)
        except (nats.errors.NoRespondersError, nats.errors.TimeoutError, TimeoutError):
            return NO_ONE
        return (answer.headers or {}).get(CLUSTER_HEADER, "")

    async def _open_for_consumers(self) -> None:
        """Take acks, and send messages."""

        async def came(message: Msg) -> None:
            if not take_plain_ack(self, message):
                self._keep(self._background, asyncio.create_task(self._on_ack(message)))

        await self.nats.subscribe(f"{ACK_PREFIX}.>", queue=QUEUE, cb=came)
        if not self.leaf.url:
            text = f"JetStream's door serves no consumers: {NO_LEAF}"
            say(logging.WARNING, "jetstream", text, consumers=False)
            return
        self.start(self.leaf.run(), "the leaf node connection")
        self.start(self._pushes.run(), "push consumers")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAF_S):
                await self.leaf.ready.wait()

    async def _on_ack(self, message: Msg) -> None:
        try:
            await on_ack(self, message)
        except Exception as error:
            say(logging.WARNING, "jetstream", f"{message.subject}: {error}", error=type(error).__name__)

    async def push_soon(self, stream: str) -> None:
        """Have the leader's door look at a stream's push consumers."""
        await self._pushes.soon(stream)

    async def close(self) -> None:
        """End what is under way. The client stays open."""
        for task in (*self._under_way, *self._background):
            task.cancel()
        await asyncio.gather(*self._under_way, *self._background, return_exceptions=True)

    def start(self, work: Awaitable[None], what: str) -> None:
        """Let something go on until it ends or the door is closed; its errors are logged."""

        async def watched() -> None:
            try:
                await work
            except Exception as error:
                say(logging.WARNING, "jetstream", f"{what}: {error}", what=what)

        self._keep(self._background, asyncio.create_task(watched()))

    async def _listen(self, prefix: str) -> None:
        async def came(message: Msg) -> None:
            self._take(prefix, message)

        await self.nats.subscribe(f"{prefix}.>", queue=QUEUE, cb=came)

    def _take(self, prefix: str, message: Msg) -> None:
        """A request has come."""
        self.calls += 1
        headers = message.headers or {}
        try:
            call = parse_call(message.subject, prefix, message.data, headers, message.reply)
            if len(self._under_way) >= UNDER_WAY_MAX:
                raise NO_RESOURCES.because()
        except JsError as error:
            self._keep(self._under_way, asyncio.create_task(self._tell_unknown(message.reply, error)))
            return
        self._keep(self._under_way, asyncio.create_task(self._handle(call)))

    @staticmethod
    def _keep(tasks: set[asyncio.Task[None]], task: asyncio.Task[None]) -> None:
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _handle(self, call: JsCall) -> None:
        try:
            if not call.needs_at_most(API_LEVEL):
                raise NEEDS_API_LEVEL.because()
            handler = HANDLERS.get(call.verb)
            if handler is None:
                sentence = f"{call.verb} is not supported"
                raise JsError(BAD_REQUEST.code, BAD_REQUEST.err_code, sentence)
            answer = await handler(self, call)
        except Exception as error:
            known = error_of(error)
            foreseen = isinstance(error, RequestFailed) and not error.retryable
            if not isinstance(error, JsError) and not foreseen:
                say(logging.WARNING, "jetstream", f"{call.subject}: {error}", error=type(error).__name__)
            await self._refuse(call.reply, call.verb, known)
        else:
            if answer is not None:
                await self._answer(call, answer)

    async def _answer(self, call: JsCall, answer: JsAnswer) -> None:
        headers = {CLUSTER_HEADER: self.client.cluster} if call.verb == "INFO" else None
        await self._send(call.reply, encode_answer(answer, kind_of(call.verb)), headers)

    async def _refuse(self, reply: str, verb: str, error: JsError) -> None:
        self.errors += 1
        if verb in ANSWERED_WITH_STATUS:
            await publish_block(self.nats, reply, status_of(error).block())
        else:
            await self._send(reply, encode_error(error, verb))

    async def _tell_unknown(self, reply: str, error: JsError) -> None:
        """What is no call has no type of answer: nobody answers, or nobody has the time."""
        self.errors += 1
        status = NOBODY if error.err_code == BAD_REQUEST.err_code else status_of(error)
        await publish_block(self.nats, reply, status.block())

    async def _send(self, reply: str, payload: bytes, headers: dict[str, str] | None = None) -> None:
        if not reply:
            return
        try:
            await self.nats.publish(reply, payload, headers=headers)
        except nats.errors.MaxPayloadError:
            text = f"{UNAVAILABLE.sentence}: the answer is longer than NATS carries"
            error = JsError(UNAVAILABLE.code, UNAVAILABLE.err_code, text)
            await self.nats.publish(reply, encode_error(error, ""))
        except (nats.errors.ConnectionClosedError, nats.errors.OutboundBufferLimitError) as error:
            with contextlib.suppress(Exception):
                say(logging.WARNING, "jetstream", f"an answer is lost: {error}", error=type(error).__name__)
