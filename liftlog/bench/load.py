"""The load generator: one process, one plain socket, as few Python steps per message as possible.

It speaks the NATS protocol by itself, so that the same bytes go to whatever stands behind the subject:
liftlog or JetStream. Publications are prebuilt frames in a ring, sent by slices of a memoryview; acks are
counted by counting a byte pattern in each received buffer. At most `window` publications wait for their ack.

The clock runs from the first send to the last ack. Only afterwards is every ack looked at: it must be a
JetStream-style acknowledgement (`stream` and `seq`, no `error`) on a reply subject that we used, and no two
may name the same sequence number. An error, "no responders" or silence ends the run and is reported as such.

Run as ``python -m liftlog.bench.load '{"port": 4222, ...}'``; prints one JSON object. It imports nothing of
liftlog.
"""

from __future__ import annotations

import json
import re
import select
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google_crc32c import value as crc32c

ACK_PATTERN = b'"seq":'
SILENCE_S = 10.0
"""A run is given up when no byte arrives for so long."""
RECEIVE_BYTES = 1 << 18
SEND_BYTES_MAX = 1 << 17
BATCH_BLOCK = b"NATS/1.0\r\nLiftlog-Batch: 1\r\n\r\n"
_RECORD = struct.Struct("<IiHHIii")
PONG = b"PONG\r\n"
INBOX = "_INBOX.liftlogbench"


@dataclass(frozen=True, slots=True)
class Load:
    """What to publish and for how long. The run ends after `messages` or, sooner, after `seconds_max`."""

    port: int
    subject: str
    stream: str
    host: str = "127.0.0.1"
    size: int = 128
    window: int = 5000
    messages: int = 200_000
    seconds_max: float = 5.0
    batch: int = 0
    """So many messages go in one publication, a parcel (docs/wire.md); 0 = each is one. `messages` and
    `window` count messages in either case.
    """

    subjects: int = 0
    """The messages go to so many subjects below `subject` in turn (`subject_of`); 0 = to `subject` itself."""

    @property
    def together(self) -> int:
        """How many messages a publication has."""
        return self.batch or 1


def subject_of(above: str, number: int, subjects: int) -> str:
    """Where message `number` goes, of `subjects` subjects that are of one length and lie below `above`."""
    return f"{above}.{number % subjects:07d}" if subjects else above


class LoadError(Exception):
    """The run cannot count: somebody answered with an error, or nobody answered."""


class Frames:
    """A ring of prebuilt publications of one length, each with a reply subject of its own.

    The ring holds more frames than the window, so that two publications in flight never share a reply.
    """

    def __init__(self, load: Load) -> None:
        self.ring = max(2 * load.window, 4096, load.subjects) // load.together + 2
        frames = []
        for index in range(self.ring):
            reply = f"{subject_of(load.subject, index, load.subjects)} {INBOX}.{index:07d}"
            payload = f"{index:07d} ".encode().ljust(load.size, b"x")[: load.size]
            if load.batch:
                payload = _parcel(load, payload)
                sizes = f"{len(BATCH_BLOCK)} {len(BATCH_BLOCK) + len(payload)}"
                frames.append(f"HPUB {reply} {sizes}\r\n".encode() + BATCH_BLOCK + payload + b"\r\n")
            else:
                frames.append(f"PUB {reply} {load.size}\r\n".encode() + payload + b"\r\n")
        self.length = len(frames[0])
        self.data = memoryview(b"".join(frames))


def _parcel(load: Load, payload: bytes) -> bytes:
    """The same payload so many times, as docs/wire.md lays it out."""
    subject = load.subject.encode()
    record = _RECORD.pack(20 + len(subject) + len(payload), 0, len(subject), 0, 0, -1, len(payload))
    checked = struct.pack("<BBH", 0, 0, load.batch) + (record + subject + payload) * load.batch
    return b"LLP1" + struct.pack("<I", crc32c(checked)) + checked


class Generator:
    """One run. Call `run` once."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._frames = Frames(load)
        self._received: list[bytes] = []
        self._carry = b""
        self._acked = 0
        self._sent_bytes = 0
        self._pong_due = False
        self._latencies_ms: list[float] = []
        self._in_flight: deque[tuple[int, float]] = deque()

    def run(self) -> dict[str, Any]:
        with socket.create_connection((self._load.host, self._load.port), timeout=SILENCE_S) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._greet(connection)
            connection.setblocking(False)
            started_s = time.perf_counter()
            cpu_started_s = time.process_time()
            sent = self._publish(connection, started_s)
            seconds = time.perf_counter() - started_s
            cpu_s = time.process_time() - cpu_started_s
        self._verify(sent)
        self._latencies_ms.sort()
        messages = sent * self._load.together
        return {
            "messages": messages,
            "seconds": seconds,
            "rate": messages / seconds,
            "latency_p50_ms": self._percentile(0.50),
            "latency_p99_ms": self._percentile(0.99),
            "generator_cpu_seconds": cpu_s,
        }

    def _greet(self, connection: socket.socket) -> None:
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
        hello = f"CONNECT {json.dumps(options)}\r\nSUB {INBOX}.* 1\r\nPING\r\n"
        connection.sendall(hello.encode())
        answer = b""
        while b"PONG\r\n" not in answer:
            chunk = connection.recv(RECEIVE_BYTES)
            if not chunk or b"-ERR" in answer:
                raise LoadError(f"the server refused the connection: {answer[-200:]!r}")
            answer += chunk

    def _publish(self, connection: socket.socket, started_s: float) -> int:
        """Send and count publications until all that were sent are acknowledged; returns how many."""
        load, length = self._load, self._frames.length
        window = max(1, load.window // load.together)
        most = goal = max(1, load.messages // load.together)
        poller = select.poll()
        wants_write = True
        poller.register(connection, select.POLLIN | select.POLLOUT)
        deadline_s = started_s + load.seconds_max
        heard_s = started_s
        while self._acked < goal:
            events = poller.poll(SILENCE_S * 1000)
            now_s = time.perf_counter()
            if not events or now_s - heard_s > SILENCE_S:
                sent = self._sent_bytes // length
                raise LoadError(f"no ack for {SILENCE_S:.0f} s; {self._acked} of {sent} acked")
            if events[0][1] & ~select.POLLOUT:
                heard_s = now_s
                self._receive(connection, now_s)
            if now_s > deadline_s and goal == most:
                # Whole frames only: the one that is half sent is finished first.
                goal = min(goal, -(-self._sent_bytes // length))
            room = min(window + self._acked, goal) * length - self._sent_bytes
            if room > 0 and events[0][1] & select.POLLOUT:
                self._send(connection, room, now_s)
                room = min(window + self._acked, goal) * length - self._sent_bytes
            if wants_write != (room > 0):
                wants_write = room > 0
                poller.modify(connection, select.POLLIN | select.POLLOUT if wants_write else select.POLLIN)
        return goal

    def _send(self, connection: socket.socket, room: int, now_s: float) -> None:
        total = len(self._frames.data)
        start = self._sent_bytes % total
        stop = min(start + min(room, SEND_BYTES_MAX), total)
        try:
            if self._pong_due:
                # The server wants to hear from us, but not in the middle of a publication.
                begun = -start % self._frames.length
                if begun:
                    stop = start + begun
                else:
                    connection.send(PONG)
                    self._pong_due = False
            self._sent_bytes += connection.send(self._frames.data[start:stop])
        except BlockingIOError:
            return
        self._in_flight.append((self._sent_bytes // self._frames.length, now_s))

    def _receive(self, connection: socket.socket, now_s: float) -> None:
        try:
            chunk = connection.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        if not chunk:
            raise LoadError("the server closed the connection")
        self._received.append(chunk)
        data = self._carry + chunk
        if b'"error"' in data or b"HMSG " in data or b"-ERR" in data:
            raise LoadError(f"the server answered {_excerpt(data)!r}")
        self._pong_due |= b"PING\r\n" in data
        self._acked += data.count(ACK_PATTERN)
        # One byte less than the pattern: what was counted is not counted again, what was cut is found.
        self._carry = data[-(len(ACK_PATTERN) - 1) :]
        while self._in_flight and self._in_flight[0][0] <= self._acked:
            self._latencies_ms.append((now_s - self._in_flight.popleft()[1]) * 1000)

    def _verify(self, sent: int) -> None:
        """Every ack must be one: right stream, own sequence number, a reply subject of ours."""
        text = b"".join(self._received)
        acks = re.findall(rb"MSG (\S+) 1 (\d+)\r\n(\{[^\r]*\})\r\n", text)
        sequences = set()
        for subject, size, body in acks:
            answer = json.loads(body)
            if len(body) != int(size) or answer.get("stream") != self._load.stream or answer.get("error"):
                raise LoadError(f"not an ack of stream {self._load.stream}: {body!r}")
            if not subject.startswith(f"{INBOX}.".encode()):
                raise LoadError(f"an ack on a subject that is not ours: {subject!r}")
            sequences.add(answer["seq"])
        if len(acks) != sent or len(sequences) != sent:
            raise LoadError(f"{sent} sent, {len(acks)} acks, {len(sequences)} different sequence numbers")

    def _percentile(self, share: float) -> float:
        latencies = self._latencies_ms
        return latencies[min(len(latencies) - 1, int(share * len(latencies)))] if latencies else 0.0


def _excerpt(data: bytes) -> str:
    for pattern in (b'"error"', b"HMSG ", b"-ERR"):
        at = data.find(pattern)
        if at >= 0:
            return data[max(0, at - 20) : at + 200].decode(errors="replace")
    return ""


def tell(run: Callable[[], dict[str, Any]]) -> int:
    """The end of a load generator's process: what it found, or why it failed, as one line of JSON."""
    try:
        result = run()
    except (LoadError, OSError) as error:
        result = {"error": str(error) or type(error).__name__}
    print(json.dumps(result))
    return 0


def main() -> int:
    return tell(Generator(Load(**json.loads(sys.argv[1]))).run)


if __name__ == "__main__":
    sys.exit(main())
