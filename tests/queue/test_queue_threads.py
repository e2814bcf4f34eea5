"""Several threads on one queue: every item once per group, in order; appends share their syncs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from liftlog.queue import BigQueue, InternalError, QueueOptions
from tests.queue.queue_harness import new_disk, open_on

PRODUCERS = 4
CONSUMERS = 3
ITEMS = 300


def together(*works: Callable[[], None]) -> None:
    """Run them in threads; what one of them raises is raised here."""
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.parametrize("durability", ["os", "sync"])
def test_every_item_goes_to_one_consumer_of_each_group_and_keeps_its_producers_order(
    durability: str, tmp_path: Path
) -> None:
    taken: dict[str, list[list[bytes]]] = {group: [[] for _ in range(CONSUMERS)] for group in ("", "audit")}
    indexes: list[int] = []
    with BigQueue.open(
        tmp_path, options=QueueOptions(durability=durability, segment_bytes=20_000, repeat_max=50)
    ) as queue:

        def produce(producer: int) -> None:
            for number in range(0, ITEMS, 3):
                items = [b"%d %d" % (producer, number + more) for more in range(3)]
                first = queue.enqueue_many(items)
                indexes.extend(range(first, first + 3))
                assert [queue.get(first + more) for more in range(3)] == items, "at once, and together"

        def consume(group: str, mine: list[bytes]) -> None:
            while True:
                item = queue.dequeue(group, wait_s=30)
                assert item is not None
                if item == b"end":
                    return
                mine.append(item)

        consumers = [
            lambda group=group, mine=mine: consume(group, mine)  # type: ignore[misc]
            for group, all_of_group in taken.items()
            for mine in all_of_group
        ]
        produced = threading.Barrier(PRODUCERS)

        def produce_and_end(producer: int) -> None:
            produce(producer)
            if produced.wait() == 0:
                queue.enqueue_many([b"end"] * CONSUMERS)

        together(
            *consumers,
            *(lambda producer=producer: produce_and_end(producer) for producer in range(PRODUCERS)),  # type: ignore[misc]
        )
    expected = sorted(
        b"%d %d" % (producer, number) for producer in range(PRODUCERS) for number in range(ITEMS)
    )
    assert sorted(indexes) == list(range(PRODUCERS * ITEMS))
    for all_of_group in taken.values():
        assert sorted(item for mine in all_of_group for item in mine) == expected
        for mine in all_of_group:
            for producer in range(PRODUCERS):
                numbers = [int(item.split()[1]) for item in mine if int(item.split()[0]) == producer]
                assert numbers == sorted(numbers)


def test_enqueues_that_wait_for_the_lock_are_written_with_one_sync() -> None:
    disk = new_disk()
    queue = open_on(disk, QueueOptions(durability="sync"))
    arrived = threading.Semaphore(0)
    syncs = 0
    plain_sync = queue._log.sync
    indexes: list[int] = []

    def counted() -> None:
        nonlocal syncs
        syncs += 1
        plain_sync()

    queue._log.sync = counted  # type: ignore[method-assign]
    waiting = queue._turns.append

    class Noted(type(queue._turns)):  # type: ignore[misc]
        def append(self, turn: object) -> None:
            super().append(turn)
            arrived.release()

    queue._turns = Noted()
    with queue._lock:
        threads = [threading.Thread(target=lambda: indexes.append(queue.enqueue(b"x"))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for _ in threads:
            arrived.acquire()
    for thread in threads:
        thread.join()
    assert waiting is not None and sorted(indexes) == list(range(8)) and syncs == 1


def test_a_failure_reaches_every_thread_whose_items_were_in_the_same_write() -> None:
    disk = new_disk()
    queue = open_on(disk)
    failed: list[BaseException] = []

    def enqueue() -> None:
        try:
            queue.enqueue(b"x")
        except InternalError as error:
            failed.append(error)

    disk.fill()
    together(*[enqueue] * 6)
    assert len(failed) == 6 and len(queue) == 0
    disk.fill(False)
    together(*[enqueue] * 6)
    assert len(failed) == 6 and len(queue) == 6


def test_closing_wakes_who_waits_for_an_item(tmp_path: Path) -> None:
    queue = BigQueue.open(tmp_path)
    waits = threading.Event()
    plain_wait_for = queue._more.wait_for

    def wait_for(predicate: Callable[[], object], timeout: float | None = None) -> object:
        waits.set()
        return plain_wait_for(predicate, timeout)

    queue._more.wait_for = wait_for  # type: ignore[method-assign,assignment]

    def wait() -> None:
        with pytest.raises(InternalError, match="closed"):
            queue.dequeue(wait_s=30)

    def close() -> None:
        waits.wait()
        queue.close()

    together(wait, close)


def test_waiting_ends_without_an_item_when_the_time_is_over(tmp_path: Path) -> None:
    with BigQueue.open(tmp_path) as queue:
        assert queue.dequeue(wait_s=0.001) is None
