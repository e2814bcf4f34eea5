"""A responder that does as little as an acknowledgement can mean: the floor under every latency.

It subscribes to the subject and answers every message with an ack like JetStream's at once (`answer`), or
with the message itself (`echo`). Or it first puts what the socket held into a file, with one write and one
fdatasync for all of it, and then answers (`sync`): what came meanwhile is the next group. The file is written
full of zeros before, so that a sync has data to put on disk and nothing else: no size, no blocks. When it is
full, it is written from its beginning again.

One process, one thread, one socket, one pass over the bytes. It is Python, as the project is: a floor
in C would lie lower by some microseconds of each message, not by the two passages of the NATS server.

Run as ``python -m liftlog.bench.responder '{"port": 4222, ...}'``; prints a line when it listens, and ends
when the server closes the connection.
"""

from __future__ import annotations

import gc
import json
import os
import re
import socket
import sys
from dataclasses import dataclass

BUFFER_BYTES = 8 << 20
"""What is read at once at most; more than the greatest message that a server lets through."""
FILE_BYTES = 128 << 20
MESSAGE = re.compile(rb"MSG \S+ 1 (\S+) (\d+)\r\n")
READY = "ready"
KINDS = ("answer", "sync", "echo")


@dataclass(frozen=True, slots=True)
class Duty:
    """What to answer and how. `file`: where `sync` writes."""

    port: int
    subject: str
    kind: str = "answer"
    stream: str = ""
    file: str = ""
    host: str = "127.0.0.1"


class Responder:
    """One connection. Call `serve` once."""

    def __init__(self, duty: Duty) -> None:
        self._echo = duty.kind == "echo"
        self._ack = f'{{"stream":"{duty.stream}","seq":'.encode()
        self._sequence = 0
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._file = _full_of_zeros(duty.file) if duty.kind == "sync" else -1
        self._offset = 0
        self._socket = socket.create_connection((duty.host, duty.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        hello = f'CONNECT {{"verbose":false,"pedantic":false}}\r\nSUB {duty.subject} 1\r\nPING\r\n'
        self._socket.sendall(hello.encode())

    def serve(self) -> None:
        """Answer until the server closes the connection. Raises OSError if the file cannot be written."""
        try:
            self._serve()
        finally:
            self._socket.close()
            if self._file >= 0:
                os.close(self._file)

    def _serve(self) -> None:
        held = 0
        while count := self._socket.recv_into(self._view[held:]):
            held += count
            end, answers = self._answers_to(held)
            if self._file >= 0 and answers:
                self._put_on_disk(end)
            if answers:
                self._socket.sendall(b"".join(answers))
            rest = held - end
            if rest and end:
                self._view[:rest] = bytes(self._view[end:held])
            held = rest

    def _answers_to(self, held: int) -> tuple[int, list[bytes]]:
        """Where the whole messages in the buffer end, and what is to be sent for them."""
        buffer, ack, sequence = self._buffer, self._ack, self._sequence
        answers: list[bytes] = []
        start = 0
        while start < held:
            match = MESSAGE.match(buffer, start, held)
            if match is None:
                # Not a message, or not all of its first line: INFO, PING, PONG.
                end = buffer.find(b"\r\n", start, held) + 2
                if end < 2:
                    break
                line = bytes(buffer[start : end - 2])
                if line == b"PING":
                    answers.append(b"PONG\r\n")
                elif line == b"PONG":
                    print(READY, flush=True)
                elif line.startswith(b"-ERR"):
                    raise ConnectionError(line.decode(errors="replace"))
                start = end
                continue
            end = match.end() + int(match[2]) + 2
            if end > held:
                break
            sequence += 1
            if self._echo:
                answers.append(b"PUB %b %b\r\n" % (match[1], match[2]))
                answers.append(bytes(self._view[match.end() : end]))
            else:
                body = b"%b%d}" % (ack, sequence)
                answers.append(b"PUB %b %d\r\n%b\r\n" % (match[1], len(body), body))
            start = end
        self._sequence = sequence
        return start, answers

    def _put_on_disk(self, end: int) -> None:
        if self._offset + end > FILE_BYTES:
            self._offset = 0
        os.pwrite(self._file, self._view[:end], self._offset)
        self._offset += end
        os.fdatasync(self._file)


def _full_of_zeros(path: str) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    zeros = bytes(1 << 20)
    for _ in range(FILE_BYTES // len(zeros)):
        os.write(file, zeros)
    os.fsync(file)
    return file


def main() -> int:
    duty = Duty(**json.loads(sys.argv[1]))
    gc.disable()
    try:
        Responder(duty).serve()
    except (OSError, KeyboardInterrupt) as error:
        print(error or type(error).__name__, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
