"""The small HTTP server: what is wrong is said, what is slow is hung up on, and there are never too many."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import trio

from liftlog.eyes import http
from liftlog.eyes.http import (
    CONNECTIONS_MAX,
    HEAD_MAX_BYTES,
    HttpAnswer,
    HttpRequest,
    HttpServer,
    accepts_gzip,
)
from liftlog.real.network import listen

pytestmark = pytest.mark.trio
PATIENCE_S = 20.0


class Door:
    """A server on a port of its own; `asked` is what came through, `hold` makes answers wait."""

    def __init__(self) -> None:
        self.asked: list[HttpRequest] = []
        self.hold: trio.Event | None = None
        self.held = 0
        self.body = b"hello\n"
        self.server = HttpServer(self._answer)
        self.port = 0

    async def _answer(self, asked: HttpRequest) -> HttpAnswer:
        self.asked.append(asked)
        if self.hold is not None:
            self.held += 1
            await self.hold.wait()
        return HttpAnswer(200, self.body)

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.port)

    async def say(self, data: bytes) -> bytes:
        """All that is answered on a connection of its own, to its end."""
        async with await self.connect() as stream:
            await stream.send_all(data)
            with trio.fail_after(PATIENCE_S):
                return await rest(stream)

    async def eventually(self, wanted: int) -> None:
        """Wait for so many connections."""
        with trio.fail_after(PATIENCE_S):
            while self.server.connections != wanted:
                await trio.sleep(0.01)


async def rest(stream: trio.SocketStream) -> bytes:
    return b"".join([part async for part in stream])


@asynccontextmanager
async def opened() -> AsyncIterator[Door]:
    door = Door()
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    door.port = listeners[0].socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(door.server.run, listeners)
        yield door
        nursery.cancel_scope.cancel()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("REQUEST_TIMEOUT_S", "IDLE_TIMEOUT_S", "SEND_TIMEOUT_S", "LINGER_S"):
        monkeypatch.setattr(http, name, 0.05)
    yield


GET = b"GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n"


async def test_requests_follow_each_other_on_one_connection_and_may_come_at_once() -> None:
    async with opened() as door, await door.connect() as stream:
        await stream.send_all(GET + b"HEAD /x?a=1&b HTTP/1.1\r\nHost: n\r\nAccept-Encoding: br, gzip\r\n\r\n")
        last = b"GET / HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\r\n"
        for byte in last:
            await stream.send_all(bytes([byte]))
        with trio.fail_after(PATIENCE_S):
            told = await rest(stream)
        assert told.count(b"HTTP/1.1 200 OK\r\n") == 3
        assert told.count(b"hello\n") == 2, "none with HEAD"
        assert told.count(b"Content-Length: 6\r\n") == 3
        assert [asked.path for asked in door.asked] == ["/metrics", "/x", "/"]
        assert door.asked[1] == HttpRequest("/x", {"a": ["1"], "b": [""]}, True)
        assert door.server.answers == {"200": 3}


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        (b"\x16\x03\x01\x02\x00\r\n\r\n", b"400 Bad Request", b"no HTTP request"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400 Bad Request", b"Host"),
        (b"GET http://[ HTTP/1.1\r\nHost: n\r\n\r\n", b"400 Bad Request", b"target"),
        (b"GET /?" + b"a=1&" * 17 + b" HTTP/1.1\r\nHost: n\r\n\r\n", b"400 Bad Request", b"fields"),
        (b"POST /metrics HTTP/1.1\r\nHost: n\r\nContent-Length: 3\r\n\r\nabc", b"405 Method", b"use GET"),
        (b"GET / HTTP/1.1\r\nHost: n\r\nContent-Length: 3\r\n\r\nabc", b"413 ", b"no body"),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * HEAD_MAX_BYTES, b"431 ", b"no HTTP request"),
    ],
)
async def test_what_is_wrong_with_a_request_is_said_before_its_connection_is_closed(
    data: bytes, status: bytes, words: bytes
) -> None:
    async with opened() as door:
        told = await door.say(data)
        assert told.startswith(b"HTTP/1.1 " + status)
        head, _, body = told.partition(b"\r\n\r\n")
        assert words in body and body.endswith(b"\n") and b"Connection: close" in head
        assert not door.asked
        await door.eventually(0)
        assert b"hello" in await door.say(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))


async def test_who_does_not_finish_a_request_is_told_and_who_says_nothing_is_hung_up_on(
    impatient: None,
) -> None:
    async with opened() as door:
        assert (await door.say(b"GET / HT")).startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert (await door.say(b"")).startswith(b"HTTP/1.1 408 ")
        async with await door.connect() as stream:
            await stream.send_all(GET)
            with trio.fail_after(PATIENCE_S):
                told = await rest(stream)
            assert told.count(b"HTTP/1.1") == 1, "an idle connection is closed without a word"
        assert door.server.cut == 3


async def test_who_does_not_read_an_answer_is_hung_up_on(impatient: None) -> None:
    async with opened() as door:
        door.body = b"x" * (16 << 20)
        async with await door.connect() as stream:
            await stream.send_all(GET)
            await door.eventually(1)
            await door.eventually(0)
        assert door.server.cut == 1


async def test_a_newcomer_takes_the_place_of_who_was_silent_longest() -> None:
    async with opened() as door:
        streams = []
        for number in range(CONNECTIONS_MAX):
            streams.append(await door.connect())
            await door.eventually(number + 1)
        door.hold = trio.Event()
        await streams[0].send_all(GET)
        with trio.fail_after(PATIENCE_S):
            while not door.held:
                await trio.sleep(0.01)
        newcomer = await door.connect()
        with trio.fail_after(PATIENCE_S):
            assert await streams[1].receive_some(10) == b"", "the one before it is being answered"
        await door.eventually(CONNECTIONS_MAX)
        assert door.server.cut == 1
        for stream in (*streams, newcomer):
            await stream.aclose()


async def test_while_all_are_being_answered_another_is_told_to_come_later() -> None:
    async with opened() as door:
        door.hold = trio.Event()
        streams = [await door.connect() for _ in range(CONNECTIONS_MAX)]
        for stream in streams:
            await stream.send_all(GET)
        with trio.fail_after(PATIENCE_S):
            while door.held < CONNECTIONS_MAX:
                await trio.sleep(0.01)
        assert (await door.say(b"")).startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        door.hold.set()
        for stream in streams:
            with trio.fail_after(PATIENCE_S):
                assert (await stream.receive_some(100)).startswith(b"HTTP/1.1 200 OK\r\n")
            await stream.aclose()


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("", False),
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("*", True),
        ("identity, deflate", False),
    ],
)
async def test_gzip_is_for_who_takes_it(header: str, wanted: bool) -> None:
    assert accepts_gzip(header) is wanted


async def test_a_port_that_is_taken_is_named_with_its_setting() -> None:
    from liftlog.config import METRICS_KEY
    from liftlog.types import LiftlogError

    async with opened() as door:
        with pytest.raises(LiftlogError, match=r"change \[metrics\] listen"):
            await listen(f"127.0.0.1:{door.port}", METRICS_KEY)
