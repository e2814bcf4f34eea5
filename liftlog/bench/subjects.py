"""What `liftlog bench subjects` measures: the subject index, beside the parsing and encoding of its messages.

    cost      CPU time to index a message, as a share of what it takes to parse it from NATS and to encode it
    lookups   CPU time of questions, each one timed
    memory    of the arrays, for each subject, and of the whole process
    rebuild   CPU time until an index answers again, from its chunks, and from all subjects of the log

Messages are made as they are needed and forgotten, so that the process has little but the index. Subjects are
drawn evenly out of all, which is the worst there can be for a processor's caches.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from liftlog.bench.rounds import turns
from liftlog.bench.usage import usage_of
from liftlog.core.replica.publishing.sequencer import sequence
from liftlog.real.nats_parser import NatsParser
from liftlog.subjects.index.columns import ColumnIndex, open_index
from liftlog.types import Message, PartitionId

Values = dict[str, float]
Progress = Callable[[str], None]

LOG = PartitionId(1, 0)
IDENTITY = b"bench"
KEY = 1
PAYLOAD = bytes(128)
READ = 512
"""Messages that come with one read from the socket."""
CHUNK = 1 << 16
BATCH_MAX_BYTES = 1 << 20
SEEDS = {"fill": 1, "rounds": 2, "questions": 3}
FILTERS = ("app.eu3.service17.>", "app.*.service17.*", "app.eu3.>")


class FolderStore:
    """Chunks as files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def numbers(self) -> list[int]:
        return sorted(int(path.name) for path in self._folder.iterdir())

    def read(self, number: int) -> bytes:
        try:
            return (self._folder / str(number)).read_bytes()
        except FileNotFoundError:
            raise KeyError(number) from None

    def write(self, number: int, data: bytes) -> None:
        (self._folder / str(number)).write_bytes(data)

    def drop(self, number: int) -> None:
        (self._folder / str(number)).unlink(missing_ok=True)

    @property
    def bytes(self) -> int:
        return sum(path.stat().st_size for path in self._folder.iterdir())


def subject_of(number: int) -> bytes:
    """`app.<region>.<service>.<entity>`: 25 or 26 bytes for most of a million."""
    return b"app.eu%d.service%02d.e%06d" % (number % 10, number // 10 % 100, number)


def drawn(what: str, count: int, subjects: int) -> Iterator[list[bytes]]:
    """So many subjects of messages, one read from the socket after the other."""
    draw = np.random.Generator(np.random.PCG64(SEEDS[what]))
    for first in range(0, count, READ):
        numbers = draw.integers(0, subjects, min(READ, count - first))
        yield [subject_of(number) for number in numbers.tolist()]


def empty(store: FolderStore) -> ColumnIndex:
    return ColumnIndex(store, IDENTITY, KEY)


def filled(index: ColumnIndex, messages: int, subjects: int, progress: Progress) -> float:
    """Append so many messages, and seal what is full. Returns the CPU seconds of the index alone."""
    clock = time.thread_time_ns
    spent = 0
    base = index.next
    for number, some in enumerate(drawn("fill", messages, subjects)):
        begun = clock()
        index.append(base, some)
        base += len(some)
        if base % CHUNK < READ:
            index.seal(base)
        spent += clock() - begun
        if number % 1000 == 0:
            progress(f"filling: {base:,} of {messages:,} messages")
    begun = clock()
    index.fold()
    return (spent + clock() - begun) / 1e9


# --- cost -------------------------------------------------------------------------------------------------


def costs(index: ColumnIndex, subjects: int, rounds: int, messages: int, progress: Progress) -> Values:
    """ns of CPU time for a message: medians of rounds in which ingest and the index take turns.

    `ratio` and `ratio_with_sealing` are medians of what the index takes over the rest, within the rounds.
    """
    reads = [
        [Message(subject, b"_INBOX.bench.0123456789", b"", PAYLOAD) for subject in some]
        for some in drawn("rounds", messages, subjects)
    ]
    wire = [_wire(some) for some in reads]
    found: dict[str, list[float]] = {"ingest": [], "append": [], "seal": []}
    gc.collect()
    gc.disable()
    try:
        for number, name in turns(["ingest", "index"], rounds):
            progress(f"cost, round {number} of {rounds}: {name}" if number else f"cost, warming up: {name}")
            if name == "ingest":
                values = {"ingest": _ingest_ns(wire) / messages}
            else:
                append_ns, seal_ns = _index_ns(index, reads)
                values = {"append": append_ns / messages, "seal": seal_ns / messages}
            if number:
                for key, value in values.items():
                    found[key].append(value)
    finally:
        gc.enable()
    pairs = list(zip(found["append"], found["seal"], found["ingest"], strict=True))
    medians = {key: statistics.median(each) for key, each in found.items()}
    return medians | {
        "ratio": statistics.median(append / ingest for append, _, ingest in pairs),
        "ratio_with_sealing": statistics.median((append + seal) / ingest for append, seal, ingest in pairs),
    }


def _wire(messages: list[Message]) -> bytes:
    """What a NATS server sends of these messages."""
    return b"".join(
        b"MSG %s 1 %s %d\r\n%s\r\n" % (message.subject, message.reply, len(message.value), message.value)
        for message in messages
    )


def _ingest_ns(wire: list[bytes]) -> int:
    clock = time.thread_time_ns
    parser = NatsParser()
    begun = clock()
    base = 0
    for data in wire:
        messages = parser.feed(data).groups[b"1"]
        sequence(
            LOG,
            base_offset=base,
            epoch=1,
            timestamp_ms=1,
            messages=messages,
            wishes=None,
            batch_max_bytes=BATCH_MAX_BYTES,
        )
        base += len(messages)
    return clock() - begun


def _index_ns(index: ColumnIndex, reads: list[list[Message]]) -> tuple[int, int]:
    """What appending costs, and what sealing costs."""
    clock = time.thread_time_ns
    begun = clock()
    for messages in reads:
        index.append(index.next, [message.subject for message in messages])
    index.fold()
    appended = clock()
    index.seal(index.next)
    return appended - begun, clock() - appended


# --- lookups ----------------------------------------------------------------------------------------------


def lookups(index: ColumnIndex, subjects: int, count: int, progress: Progress) -> dict[str, Values]:
    """us of CPU time for each kind of question."""
    draw = np.random.Generator(np.random.PCG64(SEEDS["questions"]))
    names = [subject_of(number) for number in draw.integers(0, subjects, count).tolist()]
    offsets = draw.integers(index.first, index.next, count).tolist()
    few = max(10, count // 200)
    progress("lookups")
    found = {
        "last": _timed([partial(index.last, name) for name in names]),
        "count": _timed([partial(index.count, name) for name in names]),
        "unknown subject": _timed([partial(index.last, name + b".x") for name in names]),
    }
    # Their last messages go, so that what is the last now has to be looked for in the chunks.
    gone = names[:few]
    lasts = sorted({last for last in map(index.last, gone) if last is not None})
    index.remove([(last, last + 1) for last in lasts])
    found["last, after a removal"] = _timed([partial(index.last, name) for name in gone])
    places = offsets[:few]
    found["next of a subject"] = _timed(
        [partial(index.next_match, name.decode(), at) for name, at in zip(gone, places, strict=True)]
    )
    for pattern in FILTERS:
        progress(f"lookups: {pattern}")
        found[f"first question about {pattern}"] = _timed([partial(index.subjects, pattern, limit=1)])
        found[f"next of {pattern}"] = _timed([partial(index.next_match, pattern, at) for at in places])
        counts = [partial(index.count_from, pattern, at) for at in places[:10]]
        found[f"count from, {pattern}"] = _timed(counts)
    return found


def _timed(questions: Sequence[Callable[[], object]]) -> Values:
    clock = time.thread_time_ns
    times = []
    for ask in questions:
        begun = clock()
        ask()
        times.append((clock() - begun) / 1e3)
    times.sort()
    return {
        "p50": times[len(times) // 2],
        "p99": times[min(len(times) - 1, len(times) * 99 // 100)],
        "most": times[-1],
    }


# --- memory and rebuild -----------------------------------------------------------------------------------


def memory_of(index: ColumnIndex, store: FolderStore) -> Values:
    """Bytes."""
    return {
        "index": index.memory,
        "for_each_subject": index.memory / index.known_subjects,
        "chunks_for_each_message": store.bytes / max(1, index.sealed_chunks * CHUNK),
        "process_mb": resident_mb(),
        "process_peak_mb": usage_of([os.getpid()]).memory_peak_mb,
    }


def resident_mb() -> float:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) / 1024


def reopened(store: FolderStore, leo: int) -> Values:
    """CPU seconds until an index answers that is opened from its chunks."""
    begun = time.thread_time_ns()
    index, damaged = open_index(store, IDENTITY, KEY, first=0, leo=leo)
    if damaged is not None:
        raise damaged
    return {"from_chunks": (time.thread_time_ns() - begun) / 1e9, "chunks": float(index.sealed_chunks)}
