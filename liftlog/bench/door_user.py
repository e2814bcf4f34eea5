"""A program for `liftlog bench jetstream`: it does one work of a JetStream user, with nats-py as it is.

It is told where a server is, and not whose. It prints "ready" when all is made that its work needs, waits for
a line on its standard input, works, and prints one JSON object: what it found, or "error".

| work | what is done |
|---|---|
| `publish` | `publish_async`, with up to 1,000 acks to come |
| `publish-fast` | a fast batch, with an ack for 500 messages at most, and two to come |
| `pull` | a durable consumer with explicit acks: fetch a batch, `ack` each, fetch the next |
| `replay` | an ordered consumer, from the first message on |
| `put` | key-value `put`, many under way at once |
| `put-in-turn` | key-value `put`, one after the other |

All is looked at: acks name sequences that nobody else was given, messages come once and in order, and no
message that was pulled waits for an ack at the end.

Run as ``python -m liftlog.bench.door_user '{"url": "nats://...", ...}'``.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from itertools import count

import nats
import nats.errors
from nats.aio.client import Client as NatsConnection
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, PubAck
from nats.js.api import ConsumerConfig as JetStreamConfig
from nats.js.errors import Error as JetStreamError

from liftlog.bench.consumer import (
    ACK_WAIT_S,
    FETCH_WAIT_S,
    POLL_S,
    READY,
    SETTLED_WITHIN_S,
    ConsumingError,
    Sequenced,
)
from liftlog.bench.fast_user import FastPublisher

PUBLISH, PULL, REPLAY, PUT, PUT_IN_TURN = "publish", "pull", "replay", "put", "put-in-turn"
PUBLISH_FAST = "publish-fast"
WORKS = (PUBLISH, PUBLISH_FAST, PULL, REPLAY, PUT, PUT_IN_TURN)
WRITTEN, READ, FAST = "written", "read", "fast"
"""Streams, with a subject of the same name: one that grows, one that was filled, one of fast batches."""
BUCKET = "bench"
KEYS = 1000
WINDOW = 1000
SILENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Visit:
    """What to do, for how long: until `messages` are done or, sooner, `seconds_max` are over."""

    url: str
    work: str
    name: str
    messages: int
    size: int = 128
    batch: int = 100
    at_once: int = 100
    seconds_max: float = 2.0

    @property
    def payload(self) -> bytes:
        return b"x" * self.size


Run = Callable[[], Awaitable[int]]
"""Does the work; returns how many messages."""


class Stopwatch:
    """Whether the time is over."""

    def __init__(self, seconds: float) -> None:
        self._until = time.perf_counter() + seconds

    @property
    def over(self) -> bool:
        return time.perf_counter() >= self._until


def check_sequences(sequences: list[int], what: str) -> None:
    """Each has to be given once. Raises ConsumingError."""
    if len(set(sequences)) != len(sequences):
        raise ConsumingError(f"{what}: {len(sequences)} acks name {len(set(sequences))} sequences")


class DoorUser:
    """One connection, and one work on it."""

    def __init__(self, connection: NatsConnection, visit: Visit) -> None:
        self._connection = connection
        self._jetstream = connection.jetstream(timeout=10, publish_async_max_pending=WINDOW)
        self._visit = visit
        self.leaving: list[Callable[[], Awaitable[object]]] = []
        """What is done behind the figures: it costs the servers something too."""

    async def prepared(self) -> Run:
        """Make what the work needs."""
        match self._visit.work:
            case "publish":
                return self._publish
            case "publish-fast":
                return self._publish_fast
            case "pull":
                return await self._to_pull()
            case "replay":
                return self._replay
            case "put":
                return await self._to_put(self._visit.at_once)
            case "put-in-turn":
                return await self._to_put(1)
        raise ConsumingError(f"no work is called {self._visit.work!r}")

    async def _publish(self) -> int:
        jetstream, payload = self._jetstream, self._visit.payload
        watch = Stopwatch(self._visit.seconds_max)
        acks: list[asyncio.Future[PubAck]] = []
        while len(acks) < self._visit.messages and not watch.over:
            acks.append(await jetstream.publish_async(WRITTEN, payload, wait_stall=SILENCE_S))
        async with asyncio.timeout(SILENCE_S):
            found = await asyncio.gather(*acks)
        check_sequences([ack.seq for ack in found], "publish")
        return len(found)

    async def _publish_fast(self) -> int:
        publisher, payload = FastPublisher(self._connection, FAST, SILENCE_S), self._visit.payload
        watch = Stopwatch(self._visit.seconds_max)
        await publisher.begin(payload)
        done = 1
        while done < self._visit.messages and not watch.over:
            await publisher.add(payload)
            done += 1
        return await publisher.close()

    async def _to_pull(self) -> Run:
        visit, jetstream = self._visit, self._jetstream
        config = JetStreamConfig(
            durable_name=visit.name, ack_policy=AckPolicy.EXPLICIT, ack_wait=ACK_WAIT_S, max_ack_pending=1000
        )
        await jetstream.add_consumer(READ, config)
        pulling = await jetstream.pull_subscribe_bind(visit.name, READ)
        self.leaving.append(partial(jetstream.delete_consumer, READ, visit.name))

        async def pull() -> int:
            watch, order, done = Stopwatch(visit.seconds_max), Sequenced(), 0
            while done < visit.messages and not watch.over:
                messages = await pulling.fetch(min(visit.batch, visit.messages - done), timeout=FETCH_WAIT_S)
                order.check([message.metadata.sequence.stream for message in messages])
                for message in messages:
                    await message.ack()
                done += len(messages)
            # Acks that nobody confirms count when the server has them.
            last = Stopwatch(SETTLED_WITHIN_S)
            while left := (await pulling.consumer_info()).num_ack_pending:
                if last.over:
                    raise ConsumingError(f"{left} of {done} acked messages still wait for an ack")
                await asyncio.sleep(POLL_S)
            return done

        return pull

    async def _replay(self) -> int:
        visit = self._visit
        sequences: list[int] = []
        took: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def came(message: Msg) -> None:
            sequences.append(message.metadata.sequence.stream)
            if len(sequences) >= visit.messages and not took.done():
                took.set_result(None)

        subscription = await self._jetstream.subscribe(READ, stream=READ, ordered_consumer=True, cb=came)
        await asyncio.wait([took], timeout=visit.seconds_max)
        Sequenced().check(sequences)
        self.leaving.append(subscription.unsubscribe)
        done = min(len(sequences), visit.messages)
        if not done:
            raise ConsumingError(f"nothing came within {visit.seconds_max:g} s")
        return done

    async def _to_put(self, tasks: int) -> Run:
        visit = self._visit
        bucket = await self._jetstream.key_value(BUCKET)

        async def put() -> int:
            watch, numbers, payload = Stopwatch(visit.seconds_max), count(), visit.payload
            revisions: list[int] = []

            async def work() -> None:
                while (number := next(numbers)) < visit.messages and not watch.over:
                    revisions.append(await bucket.put(f"key-{number % KEYS}", payload))

            await asyncio.gather(*(work() for _ in range(tasks)))
            check_sequences(revisions, visit.work)
            return len(revisions)

        return put


async def unsaid(_: Exception) -> None:
    """Of what a connection could not do a run is told by what comes of it: it does not count."""


async def work(visit: Visit, told: Callable[[], Awaitable[object]]) -> None:
    """The whole run; `told` returns when it may begin, and when it was looked at."""
    connection = await nats.connect(
        visit.url, error_cb=unsaid, max_reconnect_attempts=1, reconnect_time_wait=0.1
    )
    user = DoorUser(connection, visit)
    run = await user.prepared()
    print(READY, flush=True)
    await told()
    began_s, cpu_s = time.perf_counter(), time.process_time()
    done = await run()
    seconds, cpu_s = time.perf_counter() - began_s, time.process_time() - cpu_s
    print(json.dumps({"messages": done, "rate": done / seconds, "client_cpu_seconds": cpu_s}), flush=True)
    await told()
    for leave in user.leaving:
        await leave()
    await connection.close()


def main() -> int:
    async def told() -> None:
        await asyncio.to_thread(sys.stdin.readline)

    try:
        asyncio.run(work(Visit(**json.loads(sys.argv[1])), told))
    except (ConsumingError, JetStreamError, nats.errors.Error, OSError) as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
