"""A consuming program for `liftlog bench consume`: pulls messages in batches and acks each of them.

One process, asyncio, with the client that programs use: ours, or nats-py for JetStream. It fetches a batch,
acks its messages in the way that was asked for, and fetches the next; nothing is fetched ahead.

| way | what is acked how |
|---|---|
| `single` | a request for each message, all of a batch under way at once |
| `joined` | `PullConsumer.ack` for each message, all of a batch at once: the client joins them |
| `runs` | one `PullConsumer.ack` for the batch |
| `in-turn` | one after the other, each awaited |
| `jetstream-ack` | a publication for each message; nobody says whether it counts |
| `jetstream-sync` | a request for each message, all of a batch under way at once |

It prints "ready" when its consumer is there, and one JSON object at its end: what it found, or "error". Every
message has to come once, in order, and at the end the consumer must have no message that waits for an ack.

Run as ``python -m liftlog.bench.consumer '{"url": "nats://...", ...}'``.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import nats
import nats.errors
from nats.aio.client import Client as NatsConnection
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, DeliverPolicy
from nats.js.api import ConsumerConfig as JetStreamConfig
from nats.js.errors import Error as JetStreamError

from liftlog.client.client import Client
from liftlog.client.consuming import Delivery, PullConsumer
from liftlog.messages import (
    ACK,
    DELIVER_ALL,
    DELIVER_NEW,
    ConsumerConfig,
    SettledReply,
    SettleRequest,
    StreamInfo,
)
from liftlog.types import LiftlogError

READY = "ready"
SINGLE, JOINED, RUNS, IN_TURN = "single", "joined", "runs", "in-turn"
JETSTREAM_ACK, JETSTREAM_SYNC = "jetstream-ack", "jetstream-sync"
OURS = (SINGLE, JOINED, RUNS, IN_TURN)
THEIRS = (JETSTREAM_ACK, JETSTREAM_SYNC)
ACK_WAIT_S = 30
FETCH_WAIT_S = 1.0
SETTLED_WITHIN_S = 10.0
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Duties:
    """What to consume, how, and for how long: until `messages` are acked or, sooner, `seconds_max` are over.
    """

    url: str
    stream: str
    name: str
    way: str
    messages: int
    batch: int = 100
    seconds_max: float = 5.0
    new: bool = False
    """From what comes next, and not from the first message."""
    cluster: str = ""
    secret_file: str = ""


class ConsumingError(Exception):
    """The run cannot count."""


class ConsumerLoad(Protocol):
    """A consumer of one of the systems."""

    async def take(self, batch: int) -> int:
        """Fetch and ack so many or fewer. Raises ConsumingError for what did not come in order."""
        ...

    async def unsettled(self) -> int:
        """How many messages wait for an ack."""
        ...

    async def leave(self) -> None: ...


class Sequenced:
    """Numbers of messages, each one more than the one before."""

    def __init__(self) -> None:
        self._next: int | None = None

    def check(self, numbers: Sequence[int]) -> None:
        """Raises ConsumingError."""
        for number in numbers:
            if self._next not in (None, number):
                raise ConsumingError(f"message {number} came, {self._next} was due")
            self._next = number + 1


class OurConsumer:
    """liftlog's."""

    def __init__(self, client: Client, stream: StreamInfo, consumer: PullConsumer, way: str) -> None:
        self._client = client
        self._stream = stream
        self._consumer = consumer
        self._reader = client.reader(stream, 0)
        self._order = Sequenced()
        ways: dict[str, Callable[[list[Delivery]], Awaitable[list[int]]]] = {
            SINGLE: self._ack_single,
            JOINED: self._ack_joined,
            RUNS: lambda deliveries: consumer.ack(*deliveries),
            IN_TURN: self._ack_in_turn,
        }
        self._ack = ways[way]

    @classmethod
    async def open(cls, duties: Duties) -> OurConsumer:
        client = await Client.connect(duties.url, cluster=duties.cluster, secret_file=duties.secret_file)
        stream = await client.stream(duties.stream)
        deliver = DELIVER_NEW if duties.new else DELIVER_ALL
        config = ConsumerConfig(ack_wait_ms=ACK_WAIT_S * 1000, deliver=deliver)
        return cls(client, stream, await client.consumer(stream, duties.name, config=config), duties.way)

    async def take(self, batch: int) -> int:
        deliveries = await self._consumer.fetch(batch, wait_ms=round(FETCH_WAIT_S * 1000))
        self._order.check([one.record.offset for one in deliveries])
        if deliveries and (unknown := await self._ack(deliveries)):
            raise ConsumingError(f"the leader knows no delivery of {unknown}")
        return len(deliveries)

    async def _ack_single(self, deliveries: list[Delivery]) -> list[int]:
        async def ack(offset: int) -> list[tuple[int, int]]:
            request = SettleRequest(self._consumer.partition, self._consumer.number, ACK, [(offset, 1)])
            return (await self._reader.ask_leader(request, SettledReply)).unknown

        found = await asyncio.gather(*(ack(one.record.offset) for one in deliveries))
        return [offset for unknown in found for offset, _ in unknown]

    async def _ack_joined(self, deliveries: list[Delivery]) -> list[int]:
        found = await asyncio.gather(*(self._consumer.ack(one) for one in deliveries))
        return [offset for unknown in found for offset in unknown]

    async def _ack_in_turn(self, deliveries: list[Delivery]) -> list[int]:
        return [offset for one in deliveries for offset in await self._consumer.ack(one)]

    async def unsettled(self) -> int:
        return (await self._consumer.info()).ack_pending

    async def leave(self) -> None:
        await self._client.delete_consumer(self._stream, self._consumer.name)
        await self._client.close()


class TheirConsumer:
    """JetStream's, through nats-py."""

    def __init__(
        self,
        connection: NatsConnection,
        jetstream: JetStreamContext,
        pulling: JetStreamContext.PullSubscription,
        duties: Duties,
    ) -> None:
        self._connection = connection
        self._jetstream = jetstream
        self._pulling = pulling
        self._duties = duties
        self._order = Sequenced()

    @classmethod
    async def open(cls, duties: Duties) -> TheirConsumer:
        connection = await nats.connect(duties.url)
        jetstream = connection.jetstream(timeout=10)
        config = JetStreamConfig(
            durable_name=duties.name,
            ack_policy=AckPolicy.EXPLICIT,
            deliver_policy=DeliverPolicy.NEW if duties.new else DeliverPolicy.ALL,
            ack_wait=ACK_WAIT_S,
            max_ack_pending=1000,
        )
        await jetstream.add_consumer(duties.stream, config)
        pulling = await jetstream.pull_subscribe_bind(duties.name, duties.stream)
        return cls(connection, jetstream, pulling, duties)

    async def take(self, batch: int) -> int:
        try:
            messages: list[Msg] = await self._pulling.fetch(batch, timeout=FETCH_WAIT_S)
        except nats.errors.TimeoutError:
            return 0
        self._order.check([message.metadata.sequence.stream for message in messages])
        if self._duties.way == JETSTREAM_SYNC:
            await asyncio.gather(*(message.ack_sync(timeout=10) for message in messages))
        else:
            for message in messages:
                await message.ack()
        return len(messages)

    async def unsettled(self) -> int:
        info = await self._jetstream.consumer_info(self._duties.stream, self._duties.name)
        return info.num_ack_pending or 0

    async def leave(self) -> None:
        await self._jetstream.delete_consumer(self._duties.stream, self._duties.name)
        await self._connection.close()


async def consume(consumer: ConsumerLoad, duties: Duties) -> dict[str, Any]:
    """The run. From the first fetch until no message waits for an ack any more."""
    began_s, cpu_s = time.perf_counter(), time.process_time()
    done = 0
    while done < duties.messages and time.perf_counter() - began_s < duties.seconds_max:
        done += await consumer.take(min(duties.batch, duties.messages - done))
    # Acks that nobody confirms count when the server has them.
    deadline_s = time.perf_counter() + SETTLED_WITHIN_S
    while left := await consumer.unsettled():
        if time.perf_counter() > deadline_s:
            raise ConsumingError(f"{left} of {done} acked messages still wait for an ack")
        await asyncio.sleep(POLL_S)
    seconds, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
    return {"messages": done, "seconds": seconds, "rate": done / seconds, "client_cpu_seconds": cpu_s}


async def work(duties: Duties) -> dict[str, Any]:
    consumer: ConsumerLoad
    consumer = await (OurConsumer if duties.way in OURS else TheirConsumer).open(duties)
    print(READY, flush=True)
    found = await consume(consumer, duties)
    await consumer.leave()
    return found


def main() -> int:
    try:
        result = asyncio.run(work(Duties(**json.loads(sys.argv[1]))))
    except (ConsumingError, LiftlogError, JetStreamError, nats.errors.Error, OSError) as error:
        result = {"error": str(error) or type(error).__name__}
    print(json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
