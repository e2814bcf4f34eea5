"""A NATS server that does what a test tells it to: answers publications, or not, or wrongly."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

Answer = Callable[[int, bytes, bytes], bytes]
"""(number of the publication from 0 on, its reply subject, its payload) -> bytes to send back."""


class FakeNats:
    """Serves one connection at a time in a thread; `answer` decides what comes back for a publication."""

    def __init__(self) -> None:
        self.answer: Answer = lambda number, reply, payload: b""
        self.greeting = b"INFO {}\r\n"
        self.published: list[bytes] = []
        self.lines: list[bytes] = []
        self.headers: set[bytes] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    @staticmethod
    def message(reply: bytes, payload: bytes) -> bytes:
        return b"MSG %b 1 %d\r\n%b\r\n" % (reply, len(payload), payload)

    @staticmethod
    def ack(reply: bytes, stream: str, seq: int, **more: object) -> bytes:
        payload = json.dumps({"stream": stream, "seq": seq, **more}, separators=(",", ":"))
        return FakeNats.message(reply, payload.encode())

    @staticmethod
    def no_responders(reply: bytes) -> bytes:
        status = b"NATS/1.0 503\r\n\r\n"
        return b"HMSG %b 1 %d %d\r\n%b\r\n" % (reply, len(status), len(status), status)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(self.greeting)
                with contextlib.suppress(ConnectionError):  # the client had enough
                    self._talk(connection)

    def _talk(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        while line := stream.readline():
            if line.startswith((b"PUB ", b"HPUB ")):
                _, _, reply, *header_size, size = line.split()
                payload = stream.read(int(size) + 2)[:-2]
                headers = payload[: int(header_size[0])] if header_size else b""
                payload = payload[len(headers) :]
                self.headers.add(headers)
                self.published.append(payload)
                connection.sendall(self.answer(len(self.published) - 1, reply, payload))
            else:
                self.lines.append(line.strip())
                if line == b"PING\r\n":
                    connection.sendall(b"PONG\r\n")


@pytest.fixture
def fake_nats() -> Iterator[FakeNats]:
    server = FakeNats()
    yield server
    server.close()
