"""The storage thread: group commit, order, reads before syncs, failures that reach the driver."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
import trio

from liftlog.messages import AppendLog, Durable, Event, LogRead, ReadLog, StorageJob
from liftlog.real.storage_runner import ThreadStorageRunner
from liftlog.types import PartitionId, Ticket

pytestmark = pytest.mark.trio

LOG = PartitionId(5, 0)


class RecordingEngine:
    """An engine whose syncs wait until the test lets them go."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.gate = threading.Semaphore(0)
        self.closed: bool | None = None
        self.explode = False
        self._pending: list[Event] = []

    def write(self, jobs: Sequence[StorageJob]) -> list[Event]:
        if self.explode:
            raise RuntimeError("a bug")
        events: list[Event] = []
        group = []
        for job in jobs:
            if isinstance(job, AppendLog):
                group.append(int(job.ticket))
                self._pending.append(Durable(job.ticket))
            elif isinstance(job, ReadLog):
                events.append(LogRead(job.log, job.request, []))
        self.groups.append(group)
        return events

    def sync(self) -> list[Event]:
        if self._pending:
            self.gate.acquire()
        done, self._pending = self._pending, []
        return done

    def close(self, clean: bool) -> None:
        self.closed = clean


class Sink:
    """What comes back, and a way to wait for it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.failures: list[BaseException] = []
        self._moved = trio.Event()

    def deliver(self, events: list[Event]) -> None:
        self.events.extend(events)
        self._moved.set()

    def fail(self, error: BaseException) -> None:
        self.failures.append(error)
        self._moved.set()

    async def wait_for(self, count: int) -> None:
        with trio.fail_after(10):
            while len(self.events) + len(self.failures) < count:
                self._moved = trio.Event()
                await self._moved.wait()


def append(number: int) -> AppendLog:
    return AppendLog(LOG, [], Ticket(number))


async def test_what_gathers_during_a_sync_becomes_one_group() -> None:
    engine, sink = RecordingEngine(), Sink()
    runner = ThreadStorageRunner(engine, sink.deliver, sink.fail)
    runner.submit(append(1))
    runner.start()
    with trio.fail_after(10):
        while engine.groups != [[1]]:
            await trio.sleep(0)
    for number in (2, 3, 4):
        runner.submit(append(number))
    engine.gate.release()
    engine.gate.release()
    await sink.wait_for(4)
    await runner.close(clean=True)
    assert engine.groups == [[1], [2, 3, 4]]
    assert sink.events == [Durable(Ticket(number)) for number in (1, 2, 3, 4)]
    assert engine.closed is True


async def test_a_read_in_a_group_is_answered_before_its_sync() -> None:
    engine, sink = RecordingEngine(), Sink()
    runner = ThreadStorageRunner(engine, sink.deliver, sink.fail)
    runner.submit(append(1))
    runner.submit(ReadLog(LOG, 7, 0, 10, 100))
    runner.start()
    await sink.wait_for(1)
    assert sink.events == [LogRead(LOG, 7, [])]
    engine.gate.release()
    await sink.wait_for(2)
    await runner.close(clean=True)
    assert sink.events[1] == Durable(Ticket(1))


async def test_closing_finishes_what_is_queued_first() -> None:
    engine, sink = RecordingEngine(), Sink()
    runner = ThreadStorageRunner(engine, sink.deliver, sink.fail)
    runner.submit(append(1))
    engine.gate.release()
    runner.start()
    await runner.close(clean=False)
    await sink.wait_for(1)
    assert sink.events == [Durable(Ticket(1))]
    assert engine.closed is False


async def test_an_unforeseen_exception_reaches_the_driver_and_nothing_is_marked_clean() -> None:
    engine, sink = RecordingEngine(), Sink()
    engine.explode = True
    runner = ThreadStorageRunner(engine, sink.deliver, sink.fail)
    runner.start()
    runner.submit(append(1))
    await sink.wait_for(1)
    await runner.close(clean=True)
    assert [str(error) for error in sink.failures] == ["a bug"]
    assert engine.closed is None
