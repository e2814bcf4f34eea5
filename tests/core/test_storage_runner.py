"""The storage thread: group commit, order, reads before syncs, failures that reach the driver."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
import trio

from liftlog.messages import (
    AppendLog,
    CompactLog,
    Durable,
    Event,
    LogRead,
    MoveLogStart,
    OpenLog,
    ReadLog,
    RetainLog,
    ScrubLog,
    StorageJob,
    TrashLog,
    TruncateLog,
)
from liftlog.real.storage_runner import SLICE_EVERY_GROUPS, ThreadStorageRunner
from liftlog.types import CompactionPolicy, PartitionId, RetentionPolicy, Ticket

pytestmark = pytest.mark.trio

LOG = PartitionId(5, 0)
OTHER = PartitionId(6, 0)


class RecordingEngine:
    """An engine whose syncs wait until the test lets them go."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.jobs: list[list[StorageJob]] = []
        self.gate = threading.Semaphore(0)
        self.closed: bool | None = None
        self.explode = False
        self._pending: list[Event] = []

    def write(self, jobs: Sequence[StorageJob]) -> list[Event]:
        if self.explode:
            raise RuntimeError("a bug")
        events: list[Event] = []
        self.jobs.append(list(jobs))
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


# -- background jobs ---------------------------------------------------------------------------------------


def compact(log: PartitionId = LOG) -> CompactLog:
    return CompactLog(log, CompactionPolicy(), 10, 0, 0, 1024)


async def carried_out(*jobs: StorageJob, syncs: int = 0) -> list[list[StorageJob]]:
    """The groups in which a runner that finds these jobs waiting carries them out."""
    engine, sink = RecordingEngine(), Sink()
    runner = ThreadStorageRunner(engine, sink.deliver, sink.fail)
    for job in jobs:
        runner.submit(job)
    for _ in range(syncs):
        engine.gate.release()
    runner.start()
    await runner.close(clean=True)
    assert sink.failures == []
    return engine.jobs


async def test_background_jobs_wait_until_nothing_else_is_queued_and_run_one_at_a_time() -> None:
    first, second, scrub = compact(), compact(OTHER), ScrubLog(LOG, 0, 1)
    jobs = [first, append(1), second, ReadLog(LOG, 7, 0, 10, 100), scrub, append(2)]
    groups = await carried_out(*jobs, syncs=1)
    assert groups == [[jobs[1], jobs[3], jobs[5]], [first], [second], [scrub]]


@pytest.mark.parametrize(
    "job",
    [OpenLog(LOG, True), TrashLog(LOG), TruncateLog(LOG, 5, Ticket(1)), MoveLogStart(LOG, 3)],
    ids=lambda job: type(job).__name__,
)
async def test_a_background_job_runs_before_a_later_job_that_changes_the_life_of_its_log(
    job: StorageJob,
) -> None:
    mine, retain, others = compact(), RetainLog(LOG, RetentionPolicy(), 5, 0), compact(OTHER)
    groups = await carried_out(mine, others, append(1), retain, job, append(2), syncs=1)
    assert groups == [[append(1), mine, retain, job, append(2)], [others]]


async def test_under_load_a_background_job_is_delayed_but_not_starved() -> None:
    engine, sink = RecordingEngine(), Sink()
    runner = ThreadStorageRunner(engine, sink.deliver, sink.fail)
    runner.submit(append(1))
    runner.submit(compact())
    runner.start()
    number = 1
    with trio.fail_after(10):
        while [compact()] not in engine.jobs:
            # While one group waits for its sync the next one is queued: the thread never finds nothing to do.
            while engine.groups[-1:] != [[number]] and engine.jobs[-1:] != [[compact()]]:
                await trio.sleep(0)
            number += 1
            runner.submit(append(number))
            engine.gate.release()
    for _ in range(number):
        engine.gate.release()
    await runner.close(clean=True)
    assert engine.jobs.index([compact()]) == SLICE_EVERY_GROUPS
    assert runner.counters["storage.slices"] == 1
