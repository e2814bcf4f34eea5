"""What a NATS connection leaves in the socket while it would have to wait anyway, and for how long."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import pytest
import trio

from liftlog.messages import BusUp, Event, Published, Subscribe, Subscribed
from liftlog.real import bus as bus_module
from liftlog.real.bus import PLENTY_BYTES, NatsBus
from liftlog.real.clock import RealClock
from liftlog.real.nats_wire import parse_url
from liftlog.types import PartitionId

pytestmark = pytest.mark.trio

FIRST, SECOND = PartitionId(1, 0), PartitionId(2, 0)
PATIENCE_S = 10


class Gathering:
    """A bus whose NATS server is this test."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.must_wait = False
        self.asked: list[tuple[list[PartitionId], bool]] = []
        self.bus: NatsBus
        self.server: trio.SocketStream
        self._sending = trio.Lock()

    def ask(self, expected: Collection[PartitionId], plenty: bool) -> bool:
        self.asked.append((list(expected), plenty))
        return self.must_wait

    @property
    def taken(self) -> list[list[bytes]]:
        """The values of what came, by group."""
        groups = [event.messages for event in self.events if isinstance(event, Published)]
        return [[message.value for message in messages] for messages in groups]

    async def serve(self, stream: trio.SocketStream) -> None:
        """As much of a NATS server as a bus needs: it answers every PING."""
        self.server = stream
        await stream.send_all(b'INFO {"max_payload":1048576}\r\n')
        while data := await stream.receive_some():
            async with self._sending:
                await stream.send_all(b"PONG\r\n" * data.count(b"PING\r\n"))

    async def until(self, count: int) -> None:
        with trio.fail_after(PATIENCE_S):
            while len(self.taken) < count:
                await trio.lowlevel.checkpoint()

    async def until_held(self) -> None:
        with trio.fail_after(PATIENCE_S):
            while self.bus._released is None:
                await trio.lowlevel.checkpoint()

    async def send(self, *payloads: tuple[int, bytes]) -> None:
        async with self._sending:
            await self.server.send_all(self.frames(*payloads))

    @staticmethod
    def frames(*payloads: tuple[int, bytes]) -> bytes:
        """By subscription."""
        return b"".join(b"MSG s %d %d\r\n%b\r\n" % (sid, len(payload), payload) for sid, payload in payloads)


@asynccontextmanager
async def gathering() -> AsyncIterator[Gathering]:
    story = Gathering()
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, story.serve, listeners)
        story.bus = NatsBus(
            parse_url(f"nats://127.0.0.1:{port}"),
            "test",
            "0",
            story.events.append,
            RealClock(),
            must_wait=story.ask,
        )
        nursery.start_soon(story.bus.run)
        with trio.fail_after(PATIENCE_S):
            while BusUp() not in story.events:
                await trio.lowlevel.checkpoint()
            for partition in (FIRST, SECOND):
                story.bus.subscribe(Subscribe(partition, 1, "s", 1 << 20, True, "stream"))
            while sum(isinstance(event, Subscribed) for event in story.events) < 2:
                await trio.lowlevel.checkpoint()
        yield story
        nursery.cancel_scope.cancel()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLD_MAX_S", "PING_INTERVAL_S"):
        monkeypatch.setattr(bus_module, name, 3600.0)


@pytest.mark.usefixtures("patient")
async def test_what_would_have_to_wait_stays_in_the_socket_and_becomes_one_group() -> None:
    async with gathering() as story:
        story.must_wait = True
        await story.send((1, b"a"))
        await story.until(1)
        await story.until_held()
        await story.send((1, b"b"), (1, b"c"))
        await trio.lowlevel.wait_readable(story.bus._socket._socket)  # type: ignore[union-attr]
        story.bus.read_now()
        assert story.taken == [[b"a"]], "it still has to wait"
        story.must_wait = False
        story.bus.read_now()
        await story.until(2)
        assert story.taken[1:] == [[b"b", b"c"]]


@pytest.mark.usefixtures("patient")
async def test_nothing_is_left_behind_when_nothing_had_come() -> None:
    async with gathering() as story:
        story.must_wait = True
        await story.send((1, b"a"))
        await story.until(1)
        await story.until_held()
        story.must_wait = False
        story.bus.read_now()
        await story.send((1, b"b"))
        await story.until(2)


async def test_N6_however_long_it_would_have_to_wait_the_socket_is_drained() -> None:
    async with gathering() as story:
        story.must_wait = True
        for number in range(20):
            await story.send((1, b"%d" % number))
            await story.until(number + 1)


async def test_more_is_expected_where_several_came_at_once_and_plenty_is_told() -> None:
    big = bytes(PLENTY_BYTES)
    for payloads, expected, plenty in (
        ([(1, b"a")], [], False),
        ([(1, b"a"), (1, b"b")], [FIRST], False),
        ([(1, b"a"), (2, b"b"), (1, b"c")], [], False),
        ([(1, b"a"), (2, b"b"), (1, b"c"), (2, b"d")], [FIRST, SECOND], False),
        ([(1, big)], [], True),
        ([(1, big), (1, b"a")], [FIRST], True),
    ):
        async with gathering() as story:
            # What one read brings is the kernel's to say, so this one is made here.
            story.bus._handle(story.frames(*payloads))
            story.must_wait = True
            story.bus._released = trio.Event()
            story.bus.read_now()
            assert story.asked[-1] == (expected, plenty)
