"""Appending, reading and sending through the log, beside raw file calls on the same bytes.

Appending: batches as a leader makes them, about `batch_bytes` long, one sync after each. The raw contender
writes the same bytes to one file with `pwritev` and `fdatasync`. "Encoded" includes what the leader does
before: turning messages into a batch.

Reading: batches of one megabyte a call, every checksum verified, against `pread` of the same length. Sending:
spans found by the log and handed to the kernel, against `sendfile` from one open file, to a process that only
throws the bytes away. Both from the page cache: what is compared is the work of the program, not the disk.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from liftlog.bench.rounds import Figure, alternate
from liftlog.bench.store import FIRST_MS, LOG, Folders, Store
from liftlog.format import encode_messages
from liftlog.real import interrupts
from liftlog.types import Batch, Message

SUBJECT = b"bench.storage"
BATCH_BYTES = 1024 * 1024
READ_BYTES = 1024 * 1024
MEGABYTE = 1_000_000
DRAIN_TIMEOUT_S = 10.0

_DRAIN = """
import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
buffer = bytearray(1 << 20)
while connection.recv_into(buffer):
    pass
"""

Progress = Callable[[str], None]


def message_groups(record_bytes: int, total_bytes: int, batch_bytes: int) -> Iterator[list[Message]]:
    """Messages with values of `record_bytes`, in groups that make a batch of about `batch_bytes`."""
    per_batch = max(1, batch_bytes // (record_bytes + len(SUBJECT) + 24))
    value = os.urandom(record_bytes)
    left = max(1, total_bytes // (per_batch * (record_bytes + len(SUBJECT) + 24)))
    for _ in range(left):
        yield [Message(SUBJECT, b"", b"", value)] * per_batch


def encoded(groups: Iterable[list[Message]]) -> Iterator[Batch]:
    """The batches of these groups, from offset 0 on, one millisecond apart."""
    offset = 0
    for number, group in enumerate(groups):
        yield encode_messages(LOG, offset, 1, FIRST_MS + number, group)
        offset += len(group)


# -- appending ---------------------------------------------------------------------------------------------


def measure_append(
    folders: Folders, record_bytes: int, total_bytes: int, rounds: int, progress: Progress
) -> dict[str, Figure]:
    """MB/s of "liftlog", "liftlog, encoded" and "raw", each batch synced."""
    groups = list(message_groups(record_bytes, total_bytes, BATCH_BYTES))
    batches = list(encoded(groups))
    frames = [batch.data for batch in batches]
    megabytes = sum(map(len, frames)) / MEGABYTE

    def ours(encode: bool) -> float:
        with folders.new() as folder, Store(folder) as store:
            store.create()
            offset = 0
            started = time.perf_counter()
            for group, batch in zip(groups, batches, strict=True):
                store.append(encode_messages(LOG, offset, 1, FIRST_MS, group) if encode else batch)
                offset += len(group)
            return megabytes / (time.perf_counter() - started)

    def raw() -> float:
        with folders.new() as folder:
            descriptor = os.open(folder / "raw", os.O_RDWR | os.O_CREAT)
            position = 0
            started = time.perf_counter()
            for frame in frames:
                position += os.pwritev(descriptor, [frame], position)
                os.fdatasync(descriptor)
            seconds = time.perf_counter() - started
            os.close(descriptor)
        return megabytes / seconds

    contenders = {"liftlog": lambda: ours(False), "liftlog, encoded": lambda: ours(True), "raw": raw}
    return alternate(contenders, "raw", rounds, lambda text: progress(f"append {record_bytes} B, {text}"))


# -- reading and sending -----------------------------------------------------------------------------------


@contextmanager
def _written(folders: Folders, record_bytes: int, total_bytes: int) -> Iterator[tuple[Store, Path, int]]:
    """A log in the page cache, its bytes once more in one file, and how many they are."""
    with folders.new() as folder, Store(folder) as store:
        store.create()
        path, size = folder / "raw", 0
        with path.open("wb") as file:
            for batch in encoded(message_groups(record_bytes, total_bytes, BATCH_BYTES // 4)):
                store.append(batch)
                file.write(batch.data)
                size += len(batch.data)
        yield store, path, size


def measure_read(
    folders: Folders, record_bytes: int, total_bytes: int, rounds: int, progress: Progress
) -> dict[str, Figure]:
    """MB/s of "liftlog", verified, and "raw"."""
    with _written(folders, record_bytes, total_bytes) as (store, path, size):

        def ours() -> float:
            started = time.perf_counter()
            offset = 0
            while offset < store.end:
                offset = store.read(offset, READ_BYTES, spans=False).batches[-1].end_offset
            return size / MEGABYTE / (time.perf_counter() - started)

        def raw() -> float:
            descriptor = os.open(path, os.O_RDONLY)
            started = time.perf_counter()
            position = 0
            while data := os.pread(descriptor, READ_BYTES, position):
                position += len(data)
            seconds = time.perf_counter() - started
            os.close(descriptor)
            return size / MEGABYTE / seconds

        return alternate({"liftlog": ours, "raw": raw}, "raw", rounds, lambda text: progress(f"read, {text}"))


def measure_send(
    folders: Folders, record_bytes: int, total_bytes: int, rounds: int, progress: Progress
) -> dict[str, Figure]:
    """MB/s of "liftlog" and "raw", over TCP to a process that throws the bytes away."""
    with _written(folders, record_bytes, total_bytes) as (store, path, size), _drain() as connection:
        number = connection.fileno()
        room = select.poll()
        room.register(number, select.POLLOUT)

        def ours() -> float:
            started = time.perf_counter()
            offset = 0
            while offset < store.end:
                for span in store.read(offset, READ_BYTES, spans=True).spans:
                    sent = 0
                    while sent < span.length:
                        room.poll()
                        sent += span.file.send_to(number, span.position + sent, span.length - sent)
                    span.file.close()
                    offset = span.end_offset
            return size / MEGABYTE / (time.perf_counter() - started)

        def raw() -> float:
            descriptor = os.open(path, os.O_RDONLY)
            started = time.perf_counter()
            position = 0
            while position < size:
                room.poll()
                position += os.sendfile(number, descriptor, position, min(READ_BYTES, size - position))
            seconds = time.perf_counter() - started
            os.close(descriptor)
            return size / MEGABYTE / seconds

        return alternate({"liftlog": ours, "raw": raw}, "raw", rounds, lambda text: progress(f"send, {text}"))


@contextmanager
def _drain() -> Iterator[socket.socket]:
    """A non-blocking connection to a process that reads it to the end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(DRAIN_TIMEOUT_S)
        port = listener.getsockname()[1]
        with interrupts.running([sys.executable, "-c", _DRAIN, str(port)]) as process:
            connection, _ = listener.accept()
            with connection:
                connection.setblocking(False)
                yield connection
            process.wait(DRAIN_TIMEOUT_S)
