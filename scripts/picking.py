"""What it costs a node to pick messages out of a batch: for consumers with filters, and for readers (S2).

    .venv/bin/python scripts/picking.py

CPU microseconds, the best of several rounds of one thread: for each message that a consumer is given, in
pulls of a hundred from a batch of a thousand; and for each record that is looked at for a reader.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from liftlog.core.consumers.choosing import choose
from liftlog.core.consumers.entries import Created
from liftlog.core.consumers.flight import Flight
from liftlog.core.consumers.state import Consumer
from liftlog.format import compress, decode_records, encode_sparse
from liftlog.messages import ConsumerConfig
from liftlog.mutants import NO_MUTANTS
from liftlog.picking import Gathering, RecordFilter
from liftlog.types import Batch, PartitionId, Record

LOG = PartitionId(7, 2)
RECORDS, PULL, ROUNDS, REPEATS = 1000, 100, 9, 5
PATTERN = "orders.*"
CASES: dict[str, tuple[float, int, str]] = {
    "all match": (1.0, 0, "none"),
    "half, scattered": (0.5, 0, "none"),
    "1 in 10": (0.1, 0, "none"),
    "half, zstd": (0.5, 0, "zstd"),
    "half, of different times": (0.5, 1, "none"),
    "all, zstd": (1.0, 0, "zstd"),
    "all, of different times": (1.0, 1, "none"),
    "none": (0.0, 0, "none"),
}
"""Which share matches, ms from one record to the next, codec."""


def a_batch(share: float, step_ms: int, codec: str) -> Batch:
    draws = random.Random(1)
    records = []
    for place in range(RECORDS):
        first = b"orders" if draws.random() < share else b"other"
        subject = b"%b.%d" % (first, draws.randrange(50))
        key = b"k%d" % (place % 100)
        records.append(Record(place, 1000 + step_ms * place, subject, b"", b"", key, b"v" * 128))
    return compress(LOG, encode_sparse(LOG, 3, 0, RECORDS, records), codec)


def best_us(work: Callable[[], int]) -> float:
    """For one of what `work` says that it has done."""
    found = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        done = sum(work() for _ in range(REPEATS))
        found.append((time.process_time() - begun) / done * 1e6)
    return min(found)


def delivered(batch: Batch) -> int:
    consumer = Consumer(1, Created("a", ConsumerConfig(), 0, []))
    flight = Flight(consumer, lambda count: 9, (PATTERN,))
    start = given = 0
    while start < RECORDS:
        chosen = choose(LOG, [batch], flight, start, PULL)
        given += len(chosen.counts)
        start = chosen.end
    return given


def looked_at(batch: Batch, wanted: RecordFilter) -> int:
    Gathering(LOG, wanted, 0, RECORDS, 1 << 30, NO_MUTANTS).take([batch])
    return RECORDS


def main() -> None:
    for name, case in CASES.items():
        batch = a_batch(*case)
        wanted = RecordFilter([PATTERN])
        given = f"{best_us(lambda: delivered(batch)):6.2f} us given" if case[0] else " " * 15  # noqa: B023
        print(f"{name:<26} {given} {best_us(lambda: looked_at(batch, wanted)):6.2f} us looked at")  # noqa: B023
    batch = a_batch(*CASES["all match"])
    by_key = RecordFilter([], [b"k7"])
    print(f"{'one key of 100':<26} {best_us(lambda: looked_at(batch, by_key)):28.2f} us looked at")
    print(f"{'decoded, in a client':<26} {best_us(lambda: len(decode_records(batch))):28.2f} us")


if __name__ == "__main__":
    main()
