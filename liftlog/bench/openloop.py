"""The load generator of an open loop: message n is due at start + n / rate, whatever became of those before.

A closed loop waits for an answer before it sends on, and so sends least when the system is slowest: of a
stall of 100 ms at 100 messages a second it sees one slow message. Here ten messages were due meanwhile, and
they took 100, 90, 80, ... ms, for latency counts from the time at which a message was due, not from when it
was sent. What is due is sent in one go as soon as the process is awake; how late that was is told as well.

One process, plain sockets, no liftlog code between them and the clock. It sleeps in select(2), whose timeout
is in microseconds, until the next message is due or bytes arrive. Message n goes over connection n modulo
their number, and its reply subject ends in n, so that each answer names its message.

Every answer must be a JetStream-style acknowledgement (`stream` and `seq`, no `error`) of a message that was
sent, once, with a sequence number of its own; with `echo` the payload itself. Anything else ends the run.
With `tolerant`, for runs in which nodes are killed, refusals and missing answers are counted instead. A
sequence number that was given twice says that an acknowledged message is gone: an error, but where the load
says `may_lose`; there it is counted. A run in which more and more messages wait is told as saturated:
percentiles of it say only how long it was.

Run as ``python -m liftlog.bench.openloop '{"port": 4222, ...}'``; prints one JSON object.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import select
import socket
import sys
import time
from array import array
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from liftlog.bench.account import Answers, LatencyAccount, Schedule
from liftlog.bench.load import LoadError, tell

INBOX = "_INBOX.liftlogopen"
LEAD_S = 0.2
"""Between the set-up and the first message: the interest in the inbox has to reach every server."""
WAIT_S = 10.0
"""For a connection at the start."""
RECEIVE_BYTES = 1 << 16
SEND_BYTES_MAX = 1 << 17
REST_BYTES = 1 << 15
"""Of an answer that is longer than this the rest is counted, not kept."""
PACE_S = 0.0002
"""Where more than one message is due in so long, we wake up no more often: see `OpenLoop._offer`."""
PR_SET_TIMERSLACK = 29


@dataclass(frozen=True, slots=True)
class OpenLoad:
    """What to send, how fast and for how long."""

    port: int
    subject: str
    stream: str = ""
    """Whose acks are expected; with `echo` none."""
    host: str = "127.0.0.1"
    rate: float = 3000.0
    """Messages a second over all connections."""
    size: int = 256
    """Payload bytes, at least 20."""
    seconds: float = 10.0
    connections: int = 1
    drain_s: float = 5.0
    """How long after the last message answers are waited for."""
    backlog_s: float = 5.0
    """The run ends as saturated when messages of so many seconds are without an answer."""
    echo: bool = False
    """The answer must be the payload: request and reply."""
    tolerant: bool = False
    may_lose: bool = False
    histograms: bool = False
    """Put whole histograms into the result, for adding them up."""
    timeline: bool = False
    """Put what happened in each 100 ms into the result."""
    windows: list[list[float]] = field(default_factory=list)
    """Also tell the latencies of the messages that were due from second a to second b, for each [a, b]."""


class Connection:
    """One socket: the messages that are due on it, and the parser of what comes back."""

    def __init__(self, load: OpenLoad, answers: Answers, inbox: str) -> None:
        self._load = load
        self._answers = answers
        self._head = f"PUB {load.subject} {inbox}.".encode()
        self._middle = f" {load.size}\r\n".encode()
        self._tail = b"x" * (load.size - 12) + b"\r\n"
        self._at = len(inbox) + 1
        self.due: deque[int] = deque()
        """Numbers of messages that are due and not in `out` yet."""
        self.out = memoryview(b"")
        """What the socket has not taken yet."""
        self.pong_due = False
        self._carry = b""
        self._rest = 0
        """Bytes of the answer `_rest_of` that have not arrived."""
        self._rest_of = 0
        self.socket = socket.create_connection((load.host, load.port), timeout=WAIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._greet(inbox)
        self.socket.setblocking(False)

    def _greet(self, inbox: str) -> None:
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
        self.socket.sendall(f"CONNECT {json.dumps(options)}\r\nSUB {inbox}.* 1\r\nPING\r\n".encode())
        answer = b""
        while b"PONG\r\n" not in answer:
            chunk = self.socket.recv(RECEIVE_BYTES)
            if not chunk or b"-ERR" in answer:
                raise LoadError(f"the server refused the connection: {answer[-200:]!r}")
            answer += chunk

    def flush(self, sends: array[int]) -> None:
        """Send what is due, as far as the socket takes it; notes (number, time) of each that was begun."""
        while True:
            if not self.out:
                frames = [b"PONG\r\n"] if self.pong_due else []
                self.pong_due = False
                length, now_ns = 0, time.monotonic_ns()
                while self.due and length < SEND_BYTES_MAX:
                    number = self.due.popleft()
                    frame = b"%b%d%b%012d%b" % (self._head, number, self._middle, number, self._tail)
                    frames.append(frame)
                    length += len(frame)
                    sends.append(number)
                    sends.append(now_ns)
                if not frames:
                    return
                self.out = memoryview(frames[0] if len(frames) == 1 else b"".join(frames))
            try:
                self.out = self.out[self.socket.send(self.out) :]
            except BlockingIOError:
                return

    def receive(self) -> None:
        """Read once, and note every answer that is complete. Raises LoadError when the server is gone."""
        try:
            chunk = self.socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        now_ns = time.monotonic_ns()
        if not chunk:
            raise LoadError("the server closed the connection")
        if self._rest:
            taken = min(self._rest, len(chunk))
            self._rest -= taken
            if self._rest:
                return
            self._answers.took(self._rest_of, now_ns, b"")
            chunk = chunk[taken:]
        self._parse(self._carry + chunk if self._carry else chunk, now_ns)

    def _parse(self, data: bytes, now_ns: int) -> None:
        start, end_of_data = 0, len(data)
        while (end := data.find(b"\r\n", start)) >= 0:
            if data.startswith(b"MSG ", start):
                words = data[start:end].split(b" ")
                size, number, stop = int(words[3]), int(words[1][self._at :]), end + 4 + int(words[3])
                if stop <= end_of_data:
                    self._take(number, now_ns, data[end + 2 : end + 2 + size])
                elif size > REST_BYTES and end_of_data - end >= 16:
                    # Compared: its number, which stands first, and its length.
                    self._check_echo(number, size, data[end + 2 : end + 14])
                    self._rest, self._rest_of = stop - end_of_data, number
                    start = end_of_data
                    break
                else:
                    break
                start = stop
            elif data.startswith(b"HMSG ", start):
                words = data[start:end].split(b" ")
                stop = end + 4 + int(words[4])
                if stop > end_of_data:
                    break
                reason = data[end + 2 : end + 2 + int(words[3])].split(b"\r\n")[0].decode(errors="replace")
                self._refused(int(words[1][self._at :]), now_ns, reason)
                start = stop
            else:
                line = data[start:end]
                if line == b"PING":
                    self.pong_due = True
                elif line.startswith(b"-ERR"):
                    raise LoadError(f"the server said {line.decode(errors='replace')}")
                start = end + 2
        self._carry = data[start:]

    def _take(self, number: int, now_ns: int, body: bytes) -> None:
        if self._load.echo:
            self._check_echo(number, len(body), body[:12])
            self._answers.took(number, now_ns, b"")
        elif b'"error"' in body:
            self._refused(number, now_ns, body.decode(errors="replace"))
        else:
            self._answers.took(number, now_ns, body)

    def _check_echo(self, number: int, size: int, start: bytes) -> None:
        if size != self._load.size or start != b"%012d" % number:
            raise LoadError(f"not the reply to request {number}: {size} bytes from {start!r} on")

    def _refused(self, number: int, now_ns: int, reason: str) -> None:
        if not self._load.tolerant:
            raise LoadError(f"message {number} was refused: {reason[:200]!r}")
        self._answers.refused(number, now_ns, reason)


class OpenLoop:
    """One run. Call `run` once."""

    def __init__(self, load: OpenLoad) -> None:
        self._load = load
        self._total = max(1, round(load.rate * load.seconds))
        self._answers = Answers()
        self._sends: array[int] = array("q")
        """Number and time of each message, one after the other."""
        self._realtime = False

    def run(self) -> dict[str, Any]:
        """Raises LoadError when the run cannot count, OSError when there is no server."""
        connections: list[Connection] = []
        try:
            for index in range(self._load.connections):
                # An inbox each: an answer comes to the connection that sent the message.
                inbox = f"{INBOX}.{os.getpid()}.{index}"
                connections.append(Connection(self._load, self._answers, inbox))
            with undisturbed() as self._realtime:
                schedule = Schedule(time.monotonic_ns() + round(LEAD_S * 1e9), self._load.rate)
                cpu_started_s = time.process_time()
                offered = self._offer(connections, schedule)
                cpu_s = time.process_time() - cpu_started_s
        finally:
            for connection in connections:
                connection.socket.close()
        account = LatencyAccount(schedule, self._total, offered, self._sends, self._answers)
        overwritten = 0
        if not self._load.echo:
            overwritten = self._verify()
        self._judge(account)
        return self._told(account, cpu_s) | {"overwritten": overwritten}

    def _told(self, account: LatencyAccount, cpu_s: float) -> dict[str, Any]:
        found = account.result(cpu_s) | {"realtime": self._realtime}
        if self._load.histograms:
            found |= account.histograms()
        if self._load.windows:
            found["windows"] = [account.window(from_s, until_s) for from_s, until_s in self._load.windows]
        if self._load.timeline:
            found["timeline"] = account.timeline()
        return found

    def _offer(self, connections: list[Connection], schedule: Schedule) -> int:
        """Send each message when it is due until all are answered or time is up; return how many were due.

        At high rates a wake-up for each message and each answer would cost a processor of its own, which the
        servers need: there we sleep for PACE_S after each, and are late by as much at most.
        """
        load, total, answers, sends = self._load, self._total, self._answers, self._sends
        sockets = [connection.socket for connection in connections]
        by_socket = dict(zip(sockets, connections, strict=True))
        backlog_max = max(100, round(load.rate * load.backlog_s))
        last_ns = schedule.due_ns(total - 1) + round(load.drain_s * 1e9)
        paced_ns = round(PACE_S * 1e9) if load.rate * PACE_S > 1 else 0
        offered, blocked = 0, []  # type: int, list[socket.socket]
        while answers.count < total:
            now_ns = time.monotonic_ns()
            due = min(schedule.due_at(now_ns), total)
            if due > offered:
                for number in range(offered, due):
                    connections[number % len(connections)].due.append(number)
                first, offered = offered, due
                for number in range(first, min(due, first + len(connections))):
                    connections[number % len(connections)].flush(sends)
                blocked = [one.socket for one in connections if one.out]
                now_ns = time.monotonic_ns()
            if offered - answers.count > backlog_max or now_ns > last_ns:
                break
            until_ns = schedule.due_ns(offered) if offered < total else last_ns
            timeout_s = max(0.0, (until_ns - now_ns) / 1e9)
            readable, writable, _ = select.select(sockets, blocked, (), timeout_s)
            for one in readable:
                connection = by_socket[one]
                connection.receive()
                if connection.pong_due:
                    connection.flush(sends)
            for one in writable:
                by_socket[one].flush(sends)
            if writable:
                blocked = [one.socket for one in connections if one.out]
            if paced_ns:
                time.sleep(max(0, now_ns + paced_ns - time.monotonic_ns()) / 1e9)
        return offered

    def _verify(self) -> int:
        """Every ack must be one: right stream, own sequence number. How many numbers were given again."""
        sequences: set[int] = set()
        for body in self._answers.bodies:
            try:
                answer = json.loads(body)
            except ValueError:
                raise LoadError(f"not an ack: {body[:200]!r}") from None
            sequence = answer.get("seq") if isinstance(answer, dict) else None
            if not isinstance(sequence, int) or answer.get("stream") != self._load.stream:
                raise LoadError(f"not an ack of stream {self._load.stream}: {body[:200]!r}")
            sequences.add(sequence)
        overwritten = len(self._answers.bodies) - len(sequences)
        if overwritten and not self._load.may_lose:
            raise LoadError(f"{len(self._answers.bodies)} acks, {len(sequences)} different sequence numbers")
        return overwritten

    def _judge(self, account: LatencyAccount) -> None:
        """Raises LoadError unless every message has exactly one answer, or may go without."""
        if wrong := [number for number in self._answers.numbers if not 0 <= number < account.offered]:
            raise LoadError(f"an answer to message {wrong[0]}, which was not sent")
        if self._load.tolerant:
            return
        if account.repeated:
            number, times = Counter(self._answers.numbers).most_common(1)[0]
            raise LoadError(f"message {number} was answered {times} times")
        if account.unanswered and not account.saturated:
            raise LoadError(
                f"{account.unanswered} of {account.offered} messages had no answer "
                f"{self._load.drain_s:g} s after the last was due"
            )


@contextlib.contextmanager
def undisturbed() -> Iterator[bool]:
    """Inside, timers wake us to the microsecond (50 is the kernel's habit), and nothing is collected.

    And we go before every other process, as far as that is permitted, which is what comes out: load that came
    from another machine would not wait for this one's processors either. We sleep most of the time.
    """
    gc.collect()
    gc.disable()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):
        libc.prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0)
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        realtime = True
    except PermissionError:
        realtime = False
    try:
        yield realtime
    finally:
        os.sched_setscheduler(0, *before)
        gc.enable()


def main() -> int:
    return tell(OpenLoop(OpenLoad(**json.loads(sys.argv[1]))).run)


if __name__ == "__main__":
    sys.exit(main())
