"""A small HTTP/1.1 server for GET: h11 judges what is said, trio waits, and everything has a bound.

It stands beside a node that has better things to do, and whoever can connect may ask. So there are few
connections, a newcomer takes the place of the one that has been silent longest, a request has a few seconds
and a few kilobytes to arrive in, an answer a few seconds to be read, and only what is asked for is done. What
is wrong with a request is said in a line before the connection is closed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

import h11
import trio

CONNECTIONS_MAX = 16
HEAD_MAX_BYTES = 8 * 1024
REQUEST_TIMEOUT_S = 5.0
"""From the first byte of a request, or from connecting, to its end."""
IDLE_TIMEOUT_S = 90.0
"""Between requests: longer than the usual interval of scrapes."""
SEND_TIMEOUT_S = 10.0
LINGER_S = 1.0
READ_BYTES = 4096
PLAIN = "text/plain; charset=utf-8"
BROKEN = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)


class HttpRequest(NamedTuple):
    """A request that is whole and allowed."""

    path: str
    query: dict[str, list[str]]
    takes_gzip: bool


class HttpAnswer(NamedTuple):
    """`body` is text for people unless `kind` says otherwise; `headers` go beside the usual ones."""

    status: int
    body: bytes
    kind: str = PLAIN
    headers: tuple[tuple[str, str], ...] = ()


class HttpRefusal(Exception):
    """A request that is not answered otherwise; its connection ends."""

    def __init__(self, answer: HttpAnswer) -> None:
        super().__init__(answer.status)
        self.answer = answer


class _Caller:
    """One connection. `waits_since`: None while it is being answered."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_MAX_BYTES)
        self.scope = trio.CancelScope()
        self.waits_since: float | None = trio.current_time()

    def waits(self) -> None:
        self.waits_since = trio.current_time()

    def is_served(self) -> None:
        self.waits_since = None


class HttpServer:
    """Answers with what `answer` makes of a request."""

    def __init__(self, answer: Callable[[HttpRequest], Awaitable[HttpAnswer]]) -> None:
        self._answer = answer
        self._callers: dict[_Caller, None] = {}
        self.answers: Counter[str] = Counter()
        """By status."""
        self.cut = 0
        """Connections hung up on: silent, too slow, or in the way of another."""

    @property
    def connections(self) -> int:
        return len(self._callers)

    async def run(self, listeners: list[trio.SocketListener]) -> None:
        """Until cancelled."""
        await trio.serve_listeners(self._accept, listeners)

    async def _accept(self, stream: trio.SocketStream) -> None:
        one = _Caller(stream)
        try:
            with one.scope:
                if self._make_room():
                    self._callers[one] = None
                    await self._serve(one)
                else:
                    text = f"{CONNECTIONS_MAX} connections are being answered: try again later\n"
                    await self._send(one, HttpAnswer(503, text.encode()), last=True)
        except BROKEN:
            pass
        finally:
            self._callers.pop(one, None)
        self.cut += one.scope.cancelled_caught

    def _make_room(self) -> bool:
        """Hang up on who has been silent longest, if need be; False if everybody is being answered."""
        if len(self._callers) < CONNECTIONS_MAX:
            return True
        waiting = [(one.waits_since, one) for one in self._callers if one.waits_since is not None]
        if not waiting:
            return False
        _, longest = min(waiting, key=lambda item: item[0])
        del self._callers[longest]
        longest.scope.cancel()
        return True

    async def _serve(self, one: _Caller) -> None:
        """One request after the other, until one of the two has had enough."""
        first = True
        while True:
            try:
                request = await self._request(one, first)
                if request is None:
                    return
                one.is_served()
                asked = judge(request)
                answer = await self._answer(asked)
            except HttpRefusal as refusal:
                await self._send(one, refusal.answer, last=True)
                return
            except h11.RemoteProtocolError as error:
                why = str(error).partition(": bytearray")[0]
                text = f"this is no HTTP request that is understood here: {why}\n"
                await self._send(one, HttpAnswer(error.error_status_hint or 400, text.encode()), last=True)
                return
            await self._send(one, answer, head_only=request.method == b"HEAD")
            if one.http.our_state is not h11.DONE or one.http.their_state is not h11.DONE:
                return
            one.http.start_next_cycle()
            one.waits()
            first = False

    async def _request(self, one: _Caller, first: bool) -> h11.Request | None:
        """The next request; None if there is none any more. Raises HttpRefusal, h11.RemoteProtocolError."""
        found: h11.Request | None = None
        heard = first
        deadline = trio.current_time() + (REQUEST_TIMEOUT_S if first else IDLE_TIMEOUT_S)
        while True:
            event = one.http.next_event()
            if event is h11.NEED_DATA:
                with trio.move_on_at(deadline) as scope:
                    data = await one.stream.receive_some(READ_BYTES)
                if scope.cancelled_caught:
                    self.cut += 1
                    if not heard:
                        return None
                    text = f"no whole request within {REQUEST_TIMEOUT_S:g} s\n"
                    raise HttpRefusal(HttpAnswer(408, text.encode()))
                if data and not heard:
                    heard, deadline = True, trio.current_time() + REQUEST_TIMEOUT_S
                one.http.receive_data(data)
            elif isinstance(event, h11.Request):
                found = event
                if event.method not in (b"GET", b"HEAD"):
                    text = f"{event.method.decode('ascii')} changes nothing here: use GET\n"
                    raise HttpRefusal(HttpAnswer(405, text.encode(), headers=(("Allow", "GET, HEAD"),)))
            elif isinstance(event, h11.Data):
                raise HttpRefusal(HttpAnswer(413, b"a request to this port has no body\n"))
            elif isinstance(event, h11.EndOfMessage):
                return found
            else:
                return None

    async def _send(
        self, one: _Caller, answer: HttpAnswer, head_only: bool = False, last: bool = False
    ) -> None:
        self.answers[str(answer.status)] += 1
        headers = [
            ("Content-Type", answer.kind),
            ("Content-Length", str(len(answer.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            *answer.headers,
            *([("Connection", "close")] if last else []),
        ]
        reason = HTTPStatus(answer.status).phrase
        response = h11.Response(status_code=answer.status, headers=headers, reason=reason)
        if one.http.our_state is not h11.IDLE and one.http.our_state is not h11.SEND_RESPONSE:
            # h11 will say nothing more here: it was an answer that failed.
            return
        parts = [one.http.send(response)]
        if not head_only:
            parts.append(one.http.send(h11.Data(data=answer.body)))
        parts.append(one.http.send(h11.EndOfMessage()))
        with trio.move_on_after(SEND_TIMEOUT_S) as scope:
            await one.stream.send_all(b"".join(part for part in parts if part))
            if last:
                await _linger(one.stream)
        if scope.cancelled_caught:
            self.cut += 1
            raise trio.BrokenResourceError("the answer is not read")


async def _linger(stream: trio.SocketStream) -> None:
    """Let the answer be read: to close while something of theirs is unread would take it back."""
    await stream.send_eof()
    left = 64 * 1024
    with trio.move_on_after(LINGER_S):
        while left > 0:
            data = await stream.receive_some(READ_BYTES)
            if not data:
                return
            left -= len(data)


def judge(request: h11.Request) -> HttpRequest:
    """What is asked for. Raises HttpRefusal."""
    try:
        target = urlsplit(request.target.decode("ascii"))
        query = parse_qs(target.query, keep_blank_values=True, max_num_fields=16)
    except ValueError as error:
        raise HttpRefusal(
            HttpAnswer(400, f"the target of the request cannot be read: {error}\n".encode())
        ) from None
    accepted = b",".join(value for name, value in request.headers if name == b"accept-encoding")
    return HttpRequest(target.path, query, accepts_gzip(accepted.decode("latin-1")))


def accepts_gzip(header: str) -> bool:
    """By an Accept-Encoding header: gzip, or anything, with a weight that is not zero."""
    for item in header.split(","):
        coding, _, weight = item.partition(";")
        if coding.strip().lower() in ("gzip", "*"):
            _, _, number = weight.partition("=")
            return number.strip() not in ("0", "0.0", "0.00", "0.000")
    return False
