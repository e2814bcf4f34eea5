"""Publishes lines through plain NATS and waits for every ack, through fail-overs, keeping a full account.

One raw connection, at most `WINDOW_MAX` publications in flight, each with a reply subject that carries its
number. What happens to one attempt:

- an ack arrives, the full one: `ok`, with offset, epoch and the incarnation of the leader;
- NATS answers "no responders": nobody got it, so it certainly was not stored: `fail`;
- an error answer ("this epoch did not store it", rule N4) or silence for `ACK_TIMEOUT_S`: `info`, unknown.

After `fail` and `info` the line is published again as a new attempt with a new value. In the history every
slot of the window is a process: it has one operation outstanding, and after an `info` another takes over.
"""

from __future__ import annotations

import json
import re
import select
import socket
import time
from array import array
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from liftlog.demo.lines import Line, subject_of
from liftlog.options.reading import FULL_ACK
from liftlog.types import LiftlogError

WINDOW_MAX = 4096
WINDOW_SHARE = 20
"""The window is at most a twentieth of the lines, so that a kill in the middle finds lines yet to be sent."""
ACK_TIMEOUT_S = 3.0
BACKOFF_S = 0.05
SILENCE_MAX_S = 60.0
CHUNK_MESSAGES = 256
RECEIVE_BYTES = 1 << 18
INBOX = "_INBOX.liftlogdemo"

OPEN, OK, FAIL, INFO = range(4)

ANSWER = re.compile(rb"H?MSG (\S+) 1 (?:(\d+) )?(\d+)\r\n")


class Ack(msgspec.Struct):
    """What liftlog answers a publisher that asks for the full ack (R4). `error` is set instead of the offset
    when it did not store.
    """

    stream: str = ""
    offset: int = -1
    partition: int = -1
    epoch: int = -1
    incarnation: int = -1
    error: dict[str, object] | None = None


class Attempts:
    """All attempts as columns; an attempt's number is its row, and the last token of its reply subject."""

    def __init__(self) -> None:
        self.line = array("q")
        self.value: list[str] = []
        self.process = array("q")
        self.t_inv_ns = array("q")
        self.t_ret_ns = array("q")
        self.offset = array("q")
        self.epoch = array("q")
        self.leader = array("q")
        """Incarnation of the leader that gave the ack."""
        self.outcome = bytearray()

    def __len__(self) -> int:
        return len(self.line)

    def add(self, line: int, value: str, process: int, now_ns: int) -> int:
        self.line.append(line)
        self.value.append(value)
        self.process.append(process)
        self.t_inv_ns.append(now_ns)
        self.t_ret_ns.append(-1)
        self.offset.append(-1)
        self.epoch.append(-1)
        self.leader.append(-1)
        self.outcome.append(OPEN)
        return len(self.line) - 1


class Publisher:
    """Publishes `lines` on subjects below `prefix` until each is acknowledged. Call `run` once.

    `watch(acked, epoch, now_ns)` is called after every received buffer; it may kill nodes. `rate`: so many
    lines a second become due, whatever the cluster does; 0: as fast as others are acknowledged.
    """

    def __init__(
        self,
        port: int,
        prefix: str,
        stream: str,
        lines: Sequence[Line],
        watch: Callable[[int, int, int], None],
        rate: float = 0.0,
    ) -> None:
        self.attempts = Attempts()
        self.acked = 0
        self._port = port
        self._stream = stream
        self._lines = lines
        self._watch = watch
        self._rate = rate
        self._started_s = 0.0
        self._stopped = False
        self._prefix = prefix
        self._subjects: dict[str, str] = {}
        self._next_line = 0
        self._again: deque[tuple[float, int, int]] = deque()
        """Lines that were not stored, or perhaps not: when they are due again, the line, the attempt."""
        self._tries: dict[int, int] = {}
        window = max(1, min(WINDOW_MAX, len(lines) // WINDOW_SHARE))
        self._free: deque[int] = deque(range(window))
        self._next_process = window
        self._waiting: deque[int] = deque()
        self._output = b""
        self._input = b""
        self._epoch = -1
        self._pause_until_s = 0.0
        self._heard_s = 0.0

    def stop(self) -> None:
        """Begin no further line; `run` returns when all others are acknowledged. From any thread."""
        self._stopped = True

    def run(self) -> None:
        """Raises LiftlogError when nothing at all is acknowledged for `SILENCE_MAX_S`."""
        with socket.create_connection(("127.0.0.1", self._port), timeout=10) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
            self._output = f"CONNECT {json.dumps(options)}\r\nSUB {INBOX}.* 1\r\n".encode()
            connection.setblocking(False)
            poller = select.poll()
            poller.register(connection)
            self._heard_s = self._started_s = time.monotonic()
            while self.acked < (self._next_line if self._stopped else len(self._lines)):
                self._fill()
                poller.modify(connection, select.POLLIN | (select.POLLOUT if self._output else 0))
                events = poller.poll(2 if self._rate else 20)
                if events and events[0][1] & ~select.POLLOUT:
                    self._receive(connection)
                if self._output and events and events[0][1] & select.POLLOUT:
                    self._output = self._output[connection.send(self._output) :]
                self._expire()

    # -- sending -------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Put the next publications into the output buffer, as far as window and pause allow."""
        if len(self._output) > RECEIVE_BYTES or time.monotonic() < self._pause_until_s:
            return
        now_ns = time.monotonic_ns()
        due = len(self._lines)
        if self._stopped:
            due = self._next_line
        elif self._rate:
            due = min(due, int((now_ns / 1e9 - self._started_s) * self._rate) + 1)
        frames = []
        for _ in range(min(len(self._free), CHUNK_MESSAGES)):
            if self._again and self._again[0][0] <= now_ns / 1e9:
                _, index, attempt = self._again.popleft()
            elif self._next_line < due:
                index, attempt = self._next_line, 1
                self._next_line += 1
            else:
                break
            line = self._lines[index]
            value = line.value(attempt)
            number = self.attempts.add(index, value, self._free.popleft(), now_ns)
            self._waiting.append(number)
            payload = value.encode()
            sizes = f"{len(FULL_ACK)} {len(FULL_ACK) + len(payload)}"
            head = f"HPUB {self._subject(line.file)} {INBOX}.{number} {sizes}\r\n"
            frames.append(b"%b%b%b\r\n" % (head.encode(), FULL_ACK, payload))
        if frames:
            self._output += b"".join(frames)

    def _subject(self, file: str) -> str:
        known = self._subjects.get(file)
        if known is None:
            known = self._subjects[file] = subject_of(self._prefix, file)
        return known

    # -- receiving -----------------------------------------------------------------------------------------

    def _receive(self, connection: socket.socket) -> None:
        chunk = connection.recv(RECEIVE_BYTES)
        now_ns = time.monotonic_ns()
        if not chunk:
            raise LiftlogError("the nats-server closed the publisher's connection; see its log")
        data = self._input + chunk
        position = 0
        while (end := data.find(b"\r\n", position)) >= 0:
            answer = ANSWER.match(data, position)
            if answer is None:
                self._protocol_line(data[position:end])
                position = end + 2
                continue
            start = answer.end()
            stop = start + int(answer[3])
            if len(data) < stop + 2:
                break
            number = int(answer[1][len(INBOX) + 1 :])
            if answer[2] is None:
                self._answered(number, data[start:stop], now_ns)
            else:
                self._nobody_there(number, now_ns)
            position = stop + 2
        self._input = data[position:]
        self._watch(self.acked, self._epoch, now_ns)

    def _protocol_line(self, line: bytes) -> None:
        if line == b"PING":
            # The buffer holds whole frames and the rest of one, so that its end is always a frame's end.
            self._output += b"PONG\r\n"
        elif line.startswith(b"-ERR"):
            raise LiftlogError(f"the nats-server refused the publisher: {line.decode(errors='replace')}")

    def _answered(self, number: int, payload: bytes, now_ns: int) -> None:
        if self.attempts.outcome[number] != OPEN:
            return  # given up before; its outcome stays unknown
        ack = msgspec.json.decode(payload, type=Ack)
        if ack.error is not None:
            self._unknown(number)
            return
        if ack.stream != self._stream or ack.offset < 0 or ack.epoch < 0 or ack.incarnation < 0:
            raise LiftlogError(f"the answer to a publication is no ack: {payload!r}")
        attempts = self.attempts
        attempts.outcome[number] = OK
        attempts.t_ret_ns[number] = now_ns
        attempts.offset[number] = ack.offset
        attempts.epoch[number] = ack.epoch
        attempts.leader[number] = ack.incarnation
        self._epoch = max(self._epoch, ack.epoch)
        self._free.append(attempts.process[number])
        self.acked += 1
        self._heard_s = now_ns / 1e9

    def _nobody_there(self, number: int, now_ns: int) -> None:
        if self.attempts.outcome[number] != OPEN:
            return
        self.attempts.outcome[number] = FAIL
        self.attempts.t_ret_ns[number] = now_ns
        self._free.append(self.attempts.process[number])
        self._try_again(number)

    def _unknown(self, number: int) -> None:
        self.attempts.outcome[number] = INFO
        self._free.append(self._next_process)
        self._next_process += 1
        self._try_again(number)

    def _try_again(self, number: int) -> None:
        line = self.attempts.line[number]
        self._tries[line] = self._tries.get(line, 1) + 1
        due_s = time.monotonic() + BACKOFF_S
        self._again.append((due_s, line, self._tries[line]))
        if not self._rate:
            # Whoever sends as fast as he is answered would have all his lines refused meanwhile.
            self._pause_until_s = due_s

    def _expire(self) -> None:
        """Give up attempts that were not answered in time, oldest first."""
        now_s = time.monotonic()
        attempts = self.attempts
        while self._waiting:
            number = self._waiting[0]
            if attempts.outcome[number] == OPEN:
                if now_s - attempts.t_inv_ns[number] / 1e9 < ACK_TIMEOUT_S:
                    break
                self._unknown(number)
            self._waiting.popleft()
        if now_s - self._heard_s > SILENCE_MAX_S:
            raise LiftlogError(
                f"no publication was acknowledged for {SILENCE_MAX_S:.0f} s ({self.acked} were before); "
                "see the nodes' logs"
            )
