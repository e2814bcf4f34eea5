"""Group commit between the core, which never waits, and the disk, which always does.

Everything that is queued at once is one *group*: one `write` for all of it, whose events (reads, opens,
refused writes) go back before any sync is waited for, then one `sync` for every file that it touched. While
that is under way the next group gathers; under load groups grow by themselves to what one sync can carry.

There is one engine, and at any time it belongs to one of three:

    nobody       the next group may begin
    the kernel   the group was a plain append: this thread has written it, into memory, and the kernel syncs
                 (`kernel_sync.py`); when it says so, `sync` finds that done
    a thread     everything else, and everything where the kernel does not do that for us

Jobs are carried out in the order of submission, so that a read sees the writes before it, with one
exception. *Background jobs*, the slices of compaction, scrubbing, retention and repair, take longer than an
append and nobody waits for them: they stand in a queue of their own and run one at a time, when no other job
is waiting, or after SLICE_EVERY_GROUPS groups without a pause. What overtakes them are the jobs that cannot
matter to them: they touch sealed segments below the HW, while appends write behind the active one's end and
reads and state files change nothing. Every other job of the same log, such as a truncation or the trash,
takes the background jobs before it along: a slice that the core ordered for one life of a log must not run in
the next one, where what it was told of the HW is no longer true.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import NamedTuple

import trio

from liftlog.messages import (
    AppendLog,
    AskLasts,
    AskSubjects,
    CheckpointHw,
    CompactLog,
    Event,
    FoldSubjects,
    LookupTime,
    ReadLog,
    RepairLog,
    RetainLog,
    SaveHardState,
    SaveIdentity,
    ScrubLog,
    StorageJob,
)
from liftlog.ports import DiskFile, StorageGroups
from liftlog.real.breakdown import NO_TIMES, GroupTimes
from liftlog.real.disk import RealFile
from liftlog.real.kernel_sync import SYNCS_MAX, KernelSync, kernel_sync
from liftlog.types import PartitionId

CLOSE_TIMEOUT_S = 15.0
BackgroundJob = CompactLog | ScrubLog | RetainLog | RepairLog | FoldSubjects
OVERTAKING = (
    *(AppendLog, ReadLog, LookupTime, AskSubjects, AskLasts),
    *(CheckpointHw, SaveHardState, SaveIdentity),
)
"""Jobs that may be carried out before background jobs of the same log that were submitted earlier."""
SLICE_EVERY_GROUPS = 8
"""Under load a background job runs after so many groups, so that it is delayed but not starved."""

NOBODY, KERNEL, THREAD, TELLING, DEAD = "nobody", "kernel", "thread", "telling", "dead"
"""TELLING: what is done is being delivered; all that this leads to becomes one group."""


class _Close(NamedTuple):
    """For the thread: nothing follows. `clean`: with the clean-stop marker; None: leave the engine alone."""

    clean: bool | None


class _Result(NamedTuple):
    """From the thread. `last`: the engine is free again. `error`: what no contract foresees."""

    events: list[Event]
    last: bool
    error: BaseException | None = None


class GroupRunner:
    """`StorageRunner` port. `deliver` gets the events; all methods belong to the trio thread.

    After an exception that no contract foresees nothing more is done, not even a clean close.
    """

    def __init__(
        self,
        engine: StorageGroups,
        deliver: Callable[[list[Event]], None],
        kernel: Callable[[int], KernelSync | None] = kernel_sync,
        ended: Callable[[GroupTimes], None] = lambda times: None,
    ) -> None:
        """`ended`: told of each group that is over."""
        self._engine = engine
        self._deliver = deliver
        self._ended = ended
        self._jobs: list[StorageJob] = []
        self._background: deque[BackgroundJob] = deque()
        self._background_of: dict[PartitionId, int] = {}
        """How many of them are there for a log."""
        self._groups_since_slice = 0
        self._owner = NOBODY
        self._begun = self.times = NO_TIMES
        """Of the group that was done last; the thread's count as written when they are handed over."""
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        """Rung by the kernel and by the thread when something is done."""
        self._kernel = kernel(self._bell)
        self._orders: SimpleQueue[list[StorageJob] | _Close] = SimpleQueue()
        self._results: SimpleQueue[_Result] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="liftlog-storage", daemon=True)
        self._thread.start()
        self.counters = {
            "storage.groups": 0,
            "storage.jobs": 0,
            "storage.largest_group": 0,
            "storage.slices": 0,
            "storage.kernel_syncs": 0,
        }

    # -- the port ------------------------------------------------------------------------------------------

    def submit(self, job: StorageJob) -> None:
        """Queue a job; it begins with the next `flush`."""
        if isinstance(job, BackgroundJob):
            self._background.append(job)
            self._background_of[job.log] = self._background_of.get(job.log, 0) + 1
        else:
            if self._background and not isinstance(job, OVERTAKING):
                self._bring_forward(job)
            self._jobs.append(job)

    def _bring_forward(self, job: StorageJob) -> None:
        """Background jobs of this job's log go before it: few logs have any, most jobs bring none along."""
        log = getattr(job, "log", None)
        if log is not None and self._background_of.pop(log, 0):
            self._jobs += [waiting for waiting in self._background if waiting.log == log]
            self._background = deque(waiting for waiting in self._background if waiting.log != log)

    def _next_in_background(self) -> BackgroundJob:
        job = self._background.popleft()
        left = self._background_of.pop(job.log) - 1
        if left:
            self._background_of[job.log] = left
        return job

    @property
    def busy(self) -> bool:
        """Whether a group is in work, so that what is submitted now waits for the next one."""
        return self._owner is not NOBODY and self._owner is not TELLING

    @property
    def waiting(self) -> tuple[int, int]:
        """How many jobs wait for a group, and how many of them in the background."""
        return len(self._jobs) + len(self._background), len(self._background)

    @property
    def working_ms(self) -> float:
        """How long the group in work has been so; 0 if there is none."""
        return _now_ms() - self._begun.begun_ms if self.busy else 0.0

    def flush(self) -> None:
        """Begin what can begin. Raises what the engine raises."""
        while self._owner is NOBODY and (self._jobs or self._background):
            self._begin(self._next_group())

    async def run(self) -> None:
        """Deliver what is done, until cancelled. Raises what no contract foresees."""
        while True:
            await self._hear()

    async def close(self, clean: bool) -> None:
        """Finish what is queued, then close the engine: with the clean-stop marker if `clean`.

        A disk that hangs is given CLOSE_TIMEOUT_S; then the process ends without the marker.
        """
        with trio.CancelScope(shield=True), trio.move_on_after(CLOSE_TIMEOUT_S):
            while self._owner is not DEAD and (self._owner is not NOBODY or self._jobs or self._background):
                self.flush()
                if self._owner is not NOBODY:
                    await self._hear()
            self._orders.put(_Close(clean if self._owner is not DEAD else None))
            await trio.to_thread.run_sync(self._thread.join, CLOSE_TIMEOUT_S)

    # -- groups --------------------------------------------------------------------------------------------

    def _next_group(self) -> list[StorageJob]:
        """All jobs that wait, or one background job if it is that one's turn."""
        self._groups_since_slice += 1
        if self._background and (not self._jobs or self._groups_since_slice > SLICE_EVERY_GROUPS):
            self._groups_since_slice = 0
            self.counters["storage.slices"] += 1
            return [self._next_in_background()]
        jobs, self._jobs = self._jobs, []
        return jobs

    def _begin(self, jobs: list[StorageJob]) -> None:
        counters, engine = self.counters, self._engine
        counters["storage.groups"] += 1
        counters["storage.jobs"] += len(jobs)
        counters["storage.largest_group"] = max(counters["storage.largest_group"], len(jobs))
        if self._kernel is None or not all(map(engine.is_quick, jobs)):
            self._hand_over(jobs)
            return
        self._owner = KERNEL
        begun_ms = _now_ms()
        events = self._or_dead(lambda: engine.write(jobs))
        self._begun = GroupTimes(begun_ms, _now_ms(), 0.0)
        if events:
            self._deliver(events)
        files = engine.unsynced()
        if files is None or not self._sync_by_kernel(files):
            self._hand_over([])
        elif not files:
            self._synced()

    def _sync_by_kernel(self, files: list[DiskFile]) -> bool:
        """Whether the kernel has taken over."""
        if self._kernel is None or len(files) > SYNCS_MAX:
            return False
        ours = [file for file in files if type(file) is RealFile]
        if len(ours) < len(files):
            return False
        if files:
            self.counters["storage.kernel_syncs"] += 1
            try:
                self._kernel.begin(ours)
            except OSError:
                # Not on this file system: never again.
                self._kernel = None
                return False
        return True

    def _synced(self) -> None:
        self._free(self._or_dead(self._engine.sync))

    def _or_dead(self, work: Callable[[], list[Event]]) -> list[Event]:
        """What the engine says here, in the trio thread. Raises what it raises, and nothing follows."""
        try:
            return work()
        except BaseException:
            self._owner = DEAD
            raise

    def _free(self, events: list[Event]) -> None:
        """The group is over."""
        self._owner = TELLING
        self.times = self._begun._replace(synced_ms=_now_ms())
        self._ended(self.times)
        if events:
            self._deliver(events)
        self._owner = NOBODY
        self.flush()

    async def _hear(self) -> None:
        """Wait until something is done, and see to it."""
        await trio.lowlevel.wait_readable(self._bell)
        try:
            os.eventfd_read(self._bell)
        except BlockingIOError:
            return
        while self._results.qsize():
            self._take(self._results.get())
        if self._owner is KERNEL and self._kernel is not None and self._kernel.end():
            self._synced()

    def _take(self, result: _Result) -> None:
        if result.error is not None:
            self._owner = DEAD
            raise result.error
        if result.last:
            self._free(result.events)
        else:
            self._deliver(result.events)

    # -- the thread ----------------------------------------------------------------------------------------

    def _hand_over(self, jobs: list[StorageJob]) -> None:
        self._owner = THREAD
        now_ms = _now_ms()
        self._begun = GroupTimes(now_ms, now_ms, 0.0)
        self._orders.put(jobs)

    def _work(self) -> None:
        engine = self._engine
        try:
            while True:
                order = self._orders.get()
                if isinstance(order, _Close):
                    if order.clean is not None:
                        engine.close(order.clean)
                    return
                if order:
                    events = engine.write(order)
                    if events:
                        self._tell(_Result(events, last=False))
                self._tell(_Result(engine.sync(), last=True))
        except BaseException as error:
            self._tell(_Result([], last=True, error=error))

    def _tell(self, result: _Result) -> None:
        self._results.put(result)
        os.eventfd_write(self._bell, 1)


def _now_ms() -> float:
    return trio.current_time() * 1000
