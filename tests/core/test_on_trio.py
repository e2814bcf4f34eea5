"""The client on trio: calls that cross to a loop in another thread, how they end, and what comes back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio

from liftlog.client import END, FOREVER, PublishResult, RoundRobin, StreamPublisher
from liftlog.client.bridge import TrioBridge
from liftlog.client.on_trio import KeyedMessage, TrioClient, TrioReading
from liftlog.types import LiftlogError
from tests.core.client_fakes import FakeCluster, batches
from tests.core.test_partitioners import Metadata

pytestmark = pytest.mark.trio


async def sleep_for_ever(ended: list[str]) -> None:
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        await asyncio.sleep(0)
        ended.append("ended")


async def test_a_call_runs_in_the_loops_thread_and_brings_back_what_it_returns_or_raises() -> None:
    async def who() -> int:
        await asyncio.sleep(0)
        return threading.get_ident()

    async def fails() -> None:
        raise ZeroDivisionError("mine")

    async with TrioBridge() as bridge:
        assert await bridge.run(who) != threading.get_ident()
        with pytest.raises(ZeroDivisionError, match="mine"):
            await bridge.run(fails)
        with pytest.raises(TypeError):
            await bridge.run(lambda: 7)  # type: ignore[arg-type,return-value]


async def test_many_calls_go_on_at_the_same_time() -> None:
    async with TrioBridge() as bridge:
        waiting: list[asyncio.Future[int]] = []

        async def wait() -> int:
            waiting.append(asyncio.get_running_loop().create_future())
            return await waiting[-1]

        async def release() -> int:
            while len(waiting) < 3:
                await asyncio.sleep(0)
            for number, future in enumerate(waiting):
                future.set_result(number)
            return -1

        found: list[int] = []

        async def ask(work: Callable[[], Any]) -> None:
            found.append(await bridge.run(work))

        async with trio.open_nursery() as nursery:
            for work in (wait, wait, wait, release):
                nursery.start_soon(ask, work)
        assert sorted(found) == [-1, 0, 1, 2]


async def test_a_cancelled_call_has_ended_when_it_is_over() -> None:
    ended: list[str] = []
    async with TrioBridge() as bridge:
        with trio.move_on_after(0.01) as scope:
            await bridge.run(lambda: sleep_for_ever(ended))
        assert scope.cancelled_caught and ended == ["ended"]
        # One that is cancelled from the beginning does not even begin.
        with trio.CancelScope() as scope:
            scope.cancel()
            await bridge.run(lambda: sleep_for_ever(ended))
        assert scope.cancelled_caught and ended == ["ended"]


async def test_calls_to_a_client_that_is_closed_say_so() -> None:
    ended: list[str] = []
    said: list[str] = []

    async def ask(bridge: TrioBridge) -> None:
        try:
            await bridge.run(lambda: sleep_for_ever(ended))
        except LiftlogError as error:
            said.append(str(error))

    async with trio.open_nursery() as nursery, TrioBridge() as bridge:
        nursery.start_soon(ask, bridge)
        await trio.testing.wait_all_tasks_blocked()
    assert ended == ["ended"]
    assert said == ["the client was closed before the call was over; keep it open for its calls"]
    with pytest.raises(LiftlogError, match="this client is closed; connect again"):
        await bridge.run(lambda: sleep_for_ever(ended))


async def test_a_reading_gives_records_and_positions_and_outlives_a_cancelled_wait() -> None:
    server = FakeCluster(batches(0, 2, 1), [])
    async with TrioBridge() as bridge:

        async def open(until: Any) -> Any:
            return server.reading("earliest", until)

        reading = TrioReading(bridge, await bridge.run(lambda: open(END)))
        first = await anext(reading)
        assert (first.partition, first.record.offset, reading.positions) == (0, 0, {0: 1, 1: 0})
        assert [found.record.offset async for found in reading] == [1, 2]
        assert reading.positions == {0: 3, 1: 0}

        inner = await bridge.run(lambda: open(FOREVER))
        reading = TrioReading(bridge, inner)
        seen = [(await anext(reading)).record.offset for _ in range(3)]
        with trio.move_on_after(0.01) as scope:
            await anext(reading)
        assert scope.cancelled_caught
        server.logs[1] = batches(1, 1)
        seen.append((await anext(reading)).partition)
        assert seen == [0, 1, 2, 1]
        await bridge.run(inner.aclose)


class Acking:
    """A `Publisher` whose messages are stored at once. An answer for tag -1 never comes."""

    def __init__(self, on_result: Callable[[PublishResult], object]) -> None:
        self.on_result = on_result
        self.waits = False
        self.left: list[object] = []

    async def __aenter__(self) -> Acking:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        self.left.append(kind)

    async def send(self, tag: int, subject: str, value: bytes, headers: object = None) -> None:
        if tag == -1:
            self.waits = True
        else:
            self.on_result(PublishResult(tag, "ok", subject))

    async def drain(self) -> None:
        while self.waits:
            await asyncio.sleep(0.001)


class Asyncio:
    """A `Client` with that publisher."""

    def __init__(self) -> None:
        self.made: list[Acking] = []

    def publisher(self, on_result: Callable[[PublishResult], object], **options: object) -> Acking:
        self.made.append(Acking(on_result))
        return self.made[-1]

    async def stream_publisher(
        self, stream: object, on_result: Any, partitioner: Any, **options: object
    ) -> StreamPublisher:
        metadata: Any = Metadata(True, True)
        inner: Any = self.publisher(on_result)
        return StreamPublisher(metadata, metadata.info, inner, partitioner)


def client_of(bridge: TrioBridge) -> tuple[TrioClient, Asyncio]:
    inner: Any = Asyncio()
    return TrioClient(bridge, inner), inner


async def test_results_come_in_trios_thread_and_all_of_them_before_a_publisher_is_left() -> None:
    tags: list[int] = []
    threads: set[int] = set()

    def on_result(result: PublishResult) -> None:
        tags.append(result.tag)
        threads.add(threading.get_ident())

    async with TrioBridge() as bridge:
        client, inner = client_of(bridge)
        async with client.publisher(on_result) as publisher:
            await publisher.send(0, "s", b"")
            await publisher.send_all([(tag, "s", b"", None) for tag in range(1, 500)])
            await publisher.drain()
            assert tags == list(range(500))
            await publisher.send_all([(tag, "s", b"", None) for tag in range(500, 600)])
        assert tags == list(range(600))
        tags.clear()
        async with client.stream_publisher("s", on_result, RoundRobin()) as keyed:
            assert await keyed.send_all([KeyedMessage(tag, b"") for tag in range(3)]) == [0, 1, 0]
            assert (await keyed.send(3, None, key="k"), keyed.partitions) == (1, 2)
        assert tags == [0, 1, 2, 3]
        assert threads == {threading.get_ident()}
        assert [len(made.left) for made in inner.made] == [1, 1]


async def test_what_a_callback_raises_reaches_who_publishes() -> None:
    def fails(result: PublishResult) -> None:
        raise ZeroDivisionError("mine")

    async with TrioBridge() as bridge:
        client, _ = client_of(bridge)
        with pytest.raises(ZeroDivisionError, match="mine"):
            async with client.publisher(fails) as publisher:
                await publisher.send(0, "s", b"")
                await publisher.drain()


async def test_a_publisher_that_is_cancelled_or_fails_waits_for_no_answer() -> None:
    async with TrioBridge() as bridge:
        client, inner = client_of(bridge)
        with trio.move_on_after(0.05) as scope:
            async with client.publisher(print) as publisher:
                await publisher.send(-1, "s", b"")
        assert scope.cancelled_caught
        with pytest.raises(ZeroDivisionError):
            async with client.publisher(print) as publisher:
                await publisher.send(-1, "s", b"")
                raise ZeroDivisionError
        assert [made.left for made in inner.made] == [[GeneratorExit], [GeneratorExit]]
