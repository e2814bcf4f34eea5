"""Groups of storage jobs, by the thread and by the kernel: group commit, order, reads before syncs."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

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
    StorageFailed,
    StorageJob,
    TrashLog,
    TruncateLog,
)
from liftlog.ports import SyncFailed
from liftlog.real.disk import RealDisk, RealFile
from liftlog.real.storage_runner import SLICE_EVERY_GROUPS, GroupRunner
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

    def is_quick(self, job: StorageJob) -> bool:
        return False

    def unsynced(self, logs: Collection[PartitionId]) -> None:
        return None

    def sync_logs(self, logs: Collection[PartitionId]) -> list[Event]:
        raise AssertionError("no group was written for the kernel")


class Sink:
    """What comes back, and a way to wait for it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._moved = trio.Event()

    def deliver(self, events: list[Event]) -> None:
        self.events.extend(events)
        self._moved.set()

    async def wait_for(self, count: int) -> None:
        with trio.fail_after(10):
            while len(self.events) < count:
                self._moved = trio.Event()
                await self._moved.wait()


def append(number: int) -> AppendLog:
    return AppendLog(LOG, [], Ticket(number))


@asynccontextmanager
async def running(engine: RecordingEngine, sink: Sink, *jobs: StorageJob) -> AsyncIterator[GroupRunner]:
    """A runner that finds these jobs waiting; it is closed cleanly."""
    runner = GroupRunner(engine, sink.deliver)
    for job in jobs:
        runner.submit(job)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(runner.run)
        runner.flush()
        yield runner
        nursery.cancel_scope.cancel()
    await runner.close(clean=True)


def submit(runner: GroupRunner, *jobs: StorageJob) -> None:
    for job in jobs:
        runner.submit(job)
    runner.flush()


async def test_what_gathers_during_a_sync_becomes_one_group() -> None:
    engine, sink = RecordingEngine(), Sink()
    async with running(engine, sink, append(1)) as runner:
        with trio.fail_after(10):
            while engine.groups != [[1]]:
                await trio.sleep(0)
        for number in (2, 3, 4):
            submit(runner, append(number))
        engine.gate.release()
        engine.gate.release()
        await sink.wait_for(4)
    assert engine.groups == [[1], [2, 3, 4]]
    assert sink.events == [Durable(Ticket(number)) for number in (1, 2, 3, 4)]
    assert engine.closed is True


async def test_a_read_in_a_group_is_answered_before_its_sync() -> None:
    engine, sink = RecordingEngine(), Sink()
    async with running(engine, sink, append(1), ReadLog(LOG, 7, 0, 10, 100)):
        await sink.wait_for(1)
        assert sink.events == [LogRead(LOG, 7, [])]
        engine.gate.release()
        await sink.wait_for(2)
    assert sink.events[1] == Durable(Ticket(1))


async def test_closing_finishes_what_is_queued_first() -> None:
    engine, sink = RecordingEngine(), Sink()
    runner = GroupRunner(engine, sink.deliver)
    runner.submit(append(1))
    engine.gate.release()
    await runner.close(clean=False)
    assert sink.events == [Durable(Ticket(1))]
    assert engine.closed is False


async def test_an_unforeseen_exception_reaches_the_driver_and_nothing_is_marked_clean() -> None:
    engine, sink = RecordingEngine(), Sink()
    engine.explode = True
    runner = GroupRunner(engine, sink.deliver)
    submit(runner, append(1))
    with pytest.raises(RuntimeError, match="a bug"), trio.fail_after(10):
        await runner.run()
    await runner.close(clean=True)
    assert engine.closed is None


# -- background jobs ---------------------------------------------------------------------------------------


def compact(log: PartitionId = LOG) -> CompactLog:
    return CompactLog(log, CompactionPolicy(), 10, 0, 0, 1024)


async def carried_out(*jobs: StorageJob, syncs: int = 0) -> list[list[StorageJob]]:
    """The groups in which a runner that finds these jobs waiting carries them out."""
    engine, sink = RecordingEngine(), Sink()
    for _ in range(syncs):
        engine.gate.release()
    runner = GroupRunner(engine, sink.deliver)
    for job in jobs:
        runner.submit(job)
    await runner.close(clean=True)
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
    async with running(engine, sink, append(1), compact()) as runner:
        number = 1
        with trio.fail_after(10):
            while [compact()] not in engine.jobs:
                # While one group waits for its sync the next one is queued: there is always something to do.
                while engine.groups[-1:] != [[number]] and engine.jobs[-1:] != [[compact()]]:
                    await trio.sleep(0)
                number += 1
                submit(runner, append(number))
                engine.gate.release()
        for _ in range(number):
            engine.gate.release()
    assert engine.jobs.index([compact()]) == SLICE_EVERY_GROUPS
    assert runner.counters["storage.slices"] == 1


# -- syncs by the kernel -----------------------------------------------------------------------------------


class ScriptedKernel:
    """In the kernel's place: says that a sync has ended when the test wants that."""

    def __init__(self, bell: int) -> None:
        self._bell = bell
        self.asked: list[list[RealFile]] = []
        self.refuses = False
        self._results: list[int] | None = None

    def begin(self, files: Sequence[RealFile]) -> None:
        if self.refuses:
            raise OSError(errno.EINVAL, "not on this file system")
        self.asked.append(list(files))

    def finish(self, *results: int) -> None:
        """With these errors, or 0."""
        self._results = list(results)
        os.eventfd_write(self._bell, 1)

    def end(self) -> bool:
        results, self._results = self._results, None
        if results is None:
            return False
        for file, result in zip(self.asked[-1], results, strict=True):
            file.synced_ahead(result)
        return True


class FileEngine(RecordingEngine):
    """Appends go to a file each, all of them quick."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.disk = RealDisk(str(folder))
        self.files: dict[PartitionId, RealFile] = {}
        self.touched: dict[PartitionId, list[Ticket]] = {}
        self.threads: list[str] = []

    def is_quick(self, job: StorageJob) -> bool:
        return isinstance(job, AppendLog)

    def write(self, jobs: Sequence[StorageJob]) -> list[Event]:
        self.threads.append(threading.current_thread().name)
        self.jobs.append(list(jobs))
        for job in jobs:
            if isinstance(job, AppendLog):
                if job.log not in self.files:
                    self.files[job.log] = self.disk.open(f"log-{job.log.stream}", create=True)
                self.files[job.log].append([b"record"])
                self.touched.setdefault(job.log, []).append(job.ticket)
        return []

    def unsynced(self, logs: Collection[PartitionId]) -> list[RealFile]:  # type: ignore[override]
        return [self.files[log] for log in self.touched if log in logs]

    def sync(self) -> list[Event]:
        return self.sync_logs(list(self.touched))

    def sync_logs(self, logs: Collection[PartitionId]) -> list[Event]:
        self.threads.append(threading.current_thread().name)
        events: list[Event] = []
        for log in logs:
            tickets = self.touched.pop(log, [])
            try:
                self.files[log].sync()
                events += map(Durable, tickets)
            except SyncFailed as error:
                events += [StorageFailed(log, ticket, True, str(error)) for ticket in tickets]
        return events


@asynccontextmanager
async def by_kernels(
    engine: FileEngine, sink: Sink
) -> AsyncIterator[tuple[GroupRunner, ScriptedKernel, ScriptedKernel]]:
    """A runner, and the kernel's part in each lane: of data, and of journals."""
    kernels: list[ScriptedKernel] = []

    def make(bell: int) -> ScriptedKernel:
        kernels.append(ScriptedKernel(bell))
        return kernels[-1]

    runner = GroupRunner(engine, sink.deliver, make)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(runner.run)
        yield runner, kernels[0], kernels[1]
        nursery.cancel_scope.cancel()
    await runner.close(clean=True)


@asynccontextmanager
async def by_kernel(engine: FileEngine, sink: Sink) -> AsyncIterator[tuple[GroupRunner, ScriptedKernel]]:
    async with by_kernels(engine, sink) as (runner, kernel, _):
        yield runner, kernel


def settle(number: int, log: PartitionId = LOG) -> AppendLog:
    """An append to a journal."""
    return AppendLog(log.journal, [], Ticket(number))


async def test_R5_data_and_journals_are_under_way_at_once_and_either_may_end_first(tmp_path: Path) -> None:
    engine, sink = FileEngine(tmp_path), Sink()
    async with by_kernels(engine, sink) as (runner, data, journals):
        submit(runner, settle(1))
        assert not runner.busy
        submit(runner, append(2))
        assert engine.jobs == [[settle(1)], [append(2)]] and runner.busy
        submit(runner, settle(3), append(4))
        assert len(engine.jobs) == 2
        data.finish(0)
        await sink.wait_for(1)
        assert sink.events == [Durable(Ticket(2))]
        assert engine.jobs[2:] == [[append(4)]]
        journals.finish(0)
        await sink.wait_for(2)
        assert sink.events[1] == Durable(Ticket(1))
        assert engine.jobs[3:] == [[settle(3)]]
        data.finish(0)
        journals.finish(errno.EIO)
        await sink.wait_for(4)
    assert Durable(Ticket(4)) in sink.events
    (failed,) = (event for event in sink.events if isinstance(event, StorageFailed))
    assert failed.log == LOG.journal and failed.ticket == 3


async def test_what_is_no_plain_append_waits_for_both_lanes_and_holds_up_what_comes_behind_it(
    tmp_path: Path,
) -> None:
    engine, sink = FileEngine(tmp_path), Sink()
    read = ReadLog(LOG, 7, 0, 10, 100)
    async with by_kernels(engine, sink) as (runner, data, journals):
        submit(runner, append(1), settle(2))
        submit(runner, read)
        data.finish(0)
        await sink.wait_for(1)
        submit(runner, append(3))
        assert engine.jobs == [[append(1)], [settle(2)]]
        journals.finish(0)
        await sink.wait_for(3)
    assert engine.jobs[2:] == [[read, append(3)]]


async def test_under_load_of_both_lanes_a_background_job_is_not_starved(tmp_path: Path) -> None:
    engine, sink = FileEngine(tmp_path), Sink()
    async with by_kernels(engine, sink) as (runner, data, journals):
        submit(runner, append(1), settle(2), compact())
        ended = 0
        for number in range(3, 3 + 4 * SLICE_EVERY_GROUPS, 2):
            # One of the two is always under way.
            submit(runner, append(number), settle(number + 1))
            for lane in (data, journals):
                if [compact()] in engine.jobs:
                    break
                ended += 1
                lane.finish(0)
                await sink.wait_for(ended)
        assert engine.jobs.index([compact()]) == SLICE_EVERY_GROUPS


async def test_plain_appends_wait_for_no_thread_and_gather_while_the_kernel_syncs(tmp_path: Path) -> None:
    engine, sink = FileEngine(tmp_path), Sink()
    async with by_kernel(engine, sink) as (runner, kernel):
        submit(runner, append(1))
        assert [len(files) for files in kernel.asked] == [1]
        submit(runner, append(2))
        submit(runner, AppendLog(OTHER, [], Ticket(3)))
        assert engine.jobs == [[append(1)]] and sink.events == []
        kernel.finish(0)
        await sink.wait_for(1)
        assert sink.events == [Durable(Ticket(1))]
        assert [len(files) for files in kernel.asked] == [1, 2]
        kernel.finish(0, 0)
        await sink.wait_for(3)
    assert set(engine.threads) == {threading.main_thread().name}
    assert runner.counters["storage.kernel_syncs"] == 2


async def test_R5_a_sync_that_failed_in_the_kernel_fails_its_own_log_and_is_not_done_again(
    tmp_path: Path,
) -> None:
    engine, sink = FileEngine(tmp_path), Sink()
    async with by_kernel(engine, sink) as (runner, kernel):
        submit(runner, append(1), AppendLog(OTHER, [], Ticket(2)))
        kernel.finish(errno.EIO, 0)
        await sink.wait_for(2)
    failed, durable = sink.events
    assert isinstance(failed, StorageFailed) and failed.log == LOG and failed.sync
    assert durable == Durable(Ticket(2))


async def test_what_is_no_plain_append_goes_to_the_thread_in_order(tmp_path: Path) -> None:
    engine, sink = FileEngine(tmp_path), Sink()
    read = ReadLog(LOG, 7, 0, 10, 100)
    async with by_kernel(engine, sink) as (runner, kernel):
        submit(runner, append(1))
        submit(runner, read, append(2))
        submit(runner, append(3))
        kernel.finish(0)
        await sink.wait_for(3)
    assert engine.jobs[:2] == [[append(1)], [read, append(2), append(3)]]
    assert engine.threads[2:] == ["liftlog-storage"] * 2


@pytest.mark.parametrize("where", ["write", "sync_logs"])
async def test_nothing_is_done_after_an_unforeseen_exception_beside_the_kernel(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, sink = FileEngine(tmp_path), Sink()
    runner = GroupRunner(engine, sink.deliver, ScriptedKernel)  # type: ignore[arg-type]

    def fail(*_: object) -> list[Event]:
        raise RuntimeError("a bug")

    monkeypatch.setattr(engine, where, fail)
    with pytest.raises(RuntimeError, match="a bug"):
        submit(runner, append(1))
        runner._lanes[0].kernel.finish(0)  # type: ignore[union-attr]
        await runner.run()
    with trio.fail_after(5):
        await runner.close(clean=True)
    assert engine.closed is None and not runner._thread.is_alive()


async def test_where_the_kernel_does_not_sync_the_thread_does(tmp_path: Path) -> None:
    engine, sink = FileEngine(tmp_path), Sink()
    async with by_kernel(engine, sink) as (runner, kernel):
        kernel.refuses = True
        submit(runner, append(1))
        await sink.wait_for(1)
        kernel.refuses = False
        submit(runner, append(2))
        await sink.wait_for(2)
    assert sink.events == [Durable(Ticket(1)), Durable(Ticket(2))]
    assert kernel.asked == [] and engine.threads[1:] == ["liftlog-storage"] * 3


async def test_the_kernel_of_this_machine_syncs_or_the_thread_does(tmp_path: Path) -> None:
    engine, sink = FileEngine(tmp_path), Sink()
    runner = GroupRunner(engine, sink.deliver)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(runner.run)
        for number in range(1, 21):
            submit(runner, append(number), AppendLog(OTHER, [], Ticket(100 + number)))
            await sink.wait_for(2 * number)
        nursery.cancel_scope.cancel()
    await runner.close(clean=True)
    assert all(isinstance(event, Durable) for event in sink.events)
    assert (tmp_path / "log-5").read_bytes() == b"record" * 20


async def test_R5_a_sync_that_failed_ahead_is_told_even_after_another_write(tmp_path: Path) -> None:
    file = RealDisk(str(tmp_path)).open("file", create=True)
    file.append([b"a"])
    file.synced_ahead(errno.EIO)
    file.append([b"b"])
    with pytest.raises(SyncFailed):
        file.sync()
    file.synced_ahead(0)
    file.append([b"c"])
    assert file._ahead is None  # the next sync is a real one
    file.close()
