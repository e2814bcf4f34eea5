"""Group commit between the core, which never waits, and the disk, which always does.

Everything that is queued at once is one *group*: one `write` for all of it, whose events (reads, opens,
refused writes) go back before any sync is waited for, then one `sync` for every file that it touched. While
that is under way the next group gathers; under load groups grow by themselves to what one sync can carry.

There is one engine. A group is carried out by

    the kernel   if it is a plain append: this thread has written it, into memory, and the kernel syncs
                 (`kernel_sync.py`); when it says so, `sync_logs` finds that done
    a thread     everything else, and everything where the kernel does not do that for us

A thread has the engine for itself. The kernel has up to two groups at once, in two *lanes*: appends to data,
and appends to journals (R5). So an ack of a consumer does not hold up those who publish, nor do they it; and
two syncs at once take a disk hardly longer than one.

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

NOBODY, THREAD, TELLING, DEAD = "nobody", "thread", "telling", "dead"
"""Whose the engine is. NOBODY: groups may begin, where a lane is free. TELLING: what is done is being
delivered; all that this leads to becomes one group.
"""
DATA, JOURNALS, ANY = False, True, 2
"""Places of lanes, and what no lane takes: with such a job all that waits is one group for the thread."""


class _Close(NamedTuple):
    """For the thread: nothing follows. `clean`: with the clean-stop marker; None: leave the engine alone."""

    clean: bool | None


class _Result(NamedTuple):
    """From the thread. `last`: the engine is free again. `error`: what no contract foresees."""

    events: list[Event]
    last: bool
    error: BaseException | None = None


class _Lane:
    """A group of plain appends whose files the kernel syncs, or none."""

    __slots__ = ("begun", "busy", "journals", "kernel", "logs")

    def __init__(self, journals: bool, kernel: KernelSync | None) -> None:
        """`kernel`: None where it does not sync for us."""
        self.journals = journals
        self.kernel = kernel
        self.busy = False
        self.begun = NO_TIMES
        self.logs: dict[PartitionId, None] = {}

    def takes(self, job: StorageJob) -> bool:
        return type(job) is AppendLog and job.log.is_journal is self.journals


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
        self._waiting = [0, 0, 0]
        """How many jobs wait for each lane, and for none."""
        self._owner = NOBODY
        self._begun = self.times = NO_TIMES
        """Of the thread's group, which counts as written when it is handed over; and of the group that was
        done last.
        """
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        """Rung by the kernel and by the thread when something is done."""
        self._lanes = (_Lane(False, kernel(self._bell)), _Lane(True, kernel(self._bell)))
        self._by_kernel = all(lane.kernel is not None for lane in self._lanes)
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
            self._waiting[_lane_of(job)] += 1
            self._jobs.append(job)

    def _bring_forward(self, job: StorageJob) -> None:
        """Background jobs of this job's log go before it: few logs have any, most jobs bring none along."""
        log = getattr(job, "log", None)
        if log is not None and self._background_of.pop(log, 0):
            brought = [waiting for waiting in self._background if waiting.log == log]
            self._waiting[ANY] += len(brought)
            self._jobs += brought
            self._background = deque(waiting for waiting in self._background if waiting.log != log)

    def _next_in_background(self) -> BackgroundJob:
        job = self._background.popleft()
        left = self._background_of.pop(job.log) - 1
        if left:
            self._background_of[job.log] = left
        return job

    @property
    def busy(self) -> bool:
        """Whether what is appended to data now has to wait for a group that is in work."""
        return self._owner is THREAD or self._owner is DEAD or self._lanes[DATA].busy

    @property
    def waiting(self) -> tuple[int, int]:
        """How many jobs wait for a group, and how many of them in the background."""
        return len(self._jobs) + len(self._background), len(self._background)

    @property
    def working_ms(self) -> float:
        """How long the oldest group in work has been so; 0 if there is none."""
        begun = [lane.begun.begun_ms for lane in self._lanes if lane.busy]
        if self._owner is THREAD:
            begun.append(self._begun.begun_ms)
        return _now_ms() - min(begun) if begun else 0.0

    @property
    def _idle(self) -> bool:
        return self._owner is NOBODY and not any(lane.busy for lane in self._lanes)

    def flush(self) -> None:
        """Begin what can begin. Raises what the engine raises."""
        while self._owner is NOBODY and self._begin():
            pass

    async def run(self) -> None:
        """Deliver what is done, until cancelled. Raises what no contract foresees."""
        while True:
            await self._hear()

    async def close(self, clean: bool) -> None:
        """Finish what is queued, then close the engine: with the clean-stop marker if `clean`.

        A disk that hangs is given CLOSE_TIMEOUT_S; then the process ends without the marker.
        """
        with trio.CancelScope(shield=True), trio.move_on_after(CLOSE_TIMEOUT_S):
            while self._owner is not DEAD and (not self._idle or self._jobs or self._background):
                self.flush()
                if not self._idle:
                    await self._hear()
            self._orders.put(_Close(clean if self._owner is not DEAD else None))
            await trio.to_thread.run_sync(self._thread.join, CLOSE_TIMEOUT_S)

    # -- groups --------------------------------------------------------------------------------------------

    def _begin(self) -> bool:
        """Begin a group, if one can; whether it could."""
        jobs, background, idle = self._jobs, self._background, self._idle
        if background and (not jobs or self._groups_since_slice >= SLICE_EVERY_GROUPS):
            if idle:
                self._groups_since_slice = 0
                self.counters["storage.slices"] += 1
                self._hand_over(self._counted([self._next_in_background()]))
            return idle
        if idle:
            if not jobs:
                return False
            if self._waiting[ANY] or not self._by_kernel or not self._all_quick():
                self._jobs, self._waiting = [], [0, 0, 0]
                self._groups_since_slice += 1
                self._hand_over(self._counted(jobs))
                return True
        elif self._waiting[ANY]:
            return False
        # What the kernel cannot take at once is the thread's, which needs the engine for itself.
        most = len(jobs) if idle else SYNCS_MAX
        free = (lane for lane in self._lanes if not lane.busy and 0 < self._waiting[lane.journals] <= most)
        lane = next(free, None)
        if lane is None or not (idle or self._all_quick()):
            return False
        self._begin_lane(lane)
        return True

    def _all_quick(self) -> bool:
        """Whether all that waits is appends that are no more than copied into memory."""
        return all(map(self._engine.is_quick, self._jobs))

    def _counted(self, jobs: list[StorageJob]) -> list[StorageJob]:
        counters = self.counters
        counters["storage.groups"] += 1
        counters["storage.jobs"] += len(jobs)
        counters["storage.largest_group"] = max(counters["storage.largest_group"], len(jobs))
        return jobs

    def _begin_lane(self, lane: _Lane) -> None:
        """Write all that waits for it, and have the kernel sync it."""
        jobs = [job for job in self._jobs if lane.takes(job)]
        self._jobs = [job for job in self._jobs if not lane.takes(job)]
        self._waiting[lane.journals] = 0
        self._groups_since_slice += 1
        self._counted(jobs)
        alone, lane.busy = self._idle, True
        lane.logs = {job.log: None for job in jobs if type(job) is AppendLog}
        begun_ms = _now_ms()
        events = self._or_dead(lambda: self._engine.write(jobs))
        lane.begun = GroupTimes(begun_ms, _now_ms(), 0.0)
        files = self._engine.unsynced(lane.logs)
        under_way = bool(files)
        if files is None or not self._sync_by_kernel(lane, files):
            under_way = alone
            if alone:
                lane.busy = False
                self._hand_over([])
        if events:
            self._deliver(events)
        if not under_way:
            self._synced(lane)

    def _sync_by_kernel(self, lane: _Lane, files: list[DiskFile]) -> bool:
        """Whether the kernel has taken over."""
        if lane.kernel is None or len(files) > SYNCS_MAX:
            return False
        ours = [file for file in files if type(file) is RealFile]
        if len(ours) < len(files):
            return False
        if files:
            self.counters["storage.kernel_syncs"] += 1
            try:
                lane.kernel.begin(ours)
            except OSError:
                # Not on this file system: never again.
                self._by_kernel = False
                return False
        return True

    def _synced(self, lane: _Lane) -> None:
        events = self._or_dead(lambda: self._engine.sync_logs(lane.logs))
        lane.busy = False
        self._free(lane.begun, events)

    def _or_dead(self, work: Callable[[], list[Event]]) -> list[Event]:
        """What the engine says here, in the trio thread. Raises what it raises, and nothing follows."""
        try:
            return work()
        except BaseException:
            self._owner = DEAD
            raise

    def _free(self, begun: GroupTimes, events: list[Event]) -> None:
        """A group is over."""
        self._owner = TELLING
        self.times = begun._replace(synced_ms=_now_ms())
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
        for lane in self._lanes:
            if lane.busy and lane.kernel is not None and lane.kernel.end():
                self._synced(lane)

    def _take(self, result: _Result) -> None:
        if result.error is not None:
            self._owner = DEAD
            raise result.error
        if result.last:
            self._free(self._begun, result.events)
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


def _lane_of(job: StorageJob) -> int:
    """DATA, JOURNALS or ANY."""
    return job.log.is_journal if type(job) is AppendLog else ANY
