"""The simulated storage thread; mirrors `liftlog/real/storage_runner.py`.

The real thread takes every job that is queued, writes the group, syncs the touched files once, and reports.
Here the write phase happens at one instant, the sync phase at a later one, and the completions reach the node
later still; jobs that come meanwhile form the next group. A crash can fall between any two of these, and, by
`SimDisk.crash_after`, between any two Disk calls inside a phase.

The disk is fast or slow by the draw of each group; a *slow disk* fault multiplies the times.
"""

from __future__ import annotations

from collections.abc import Callable

from liftlog.messages import (
    AskLasts,
    AskSubjects,
    CheckpointHw,
    CompactLog,
    ConfigureLog,
    Event,
    FoldSubjects,
    LookupTime,
    ReadLog,
    ScrubLog,
    StorageJob,
    TrashLog,
)
from liftlog.ports import StorageGroups
from liftlog_sim.chance.chances import ChanceLane, amount, below
from liftlog_sim.chance.draws import SPREAD, Eight
from liftlog_sim.devices.disk import SimulatedCrash
from liftlog_sim.devices.options import StorageTimes
from liftlog_sim.kernel import SECOND, Kernel

PostAll = Callable[[list[Event]], None]

UNSYNCED = frozenset(
    (
        *(ReadLog, LookupTime, FoldSubjects, AskSubjects, AskLasts),
        *(CheckpointHw, TrashLog, ScrubLog, CompactLog, ConfigureLog),
    )
)
"""Jobs that leave nothing for the sync phase: a group of these alone ends with its write phase."""

SLOWEST_US = 3 * SECOND
"""However slow a disk becomes, a sync takes no longer: a disk that never answers is another fault."""


class SimStorageRunner:
    """`StorageRunner` port of one process."""

    __slots__ = (
        "_attached",
        "_busy",
        "_drawn",
        "_engine",
        "_kernel",
        "_lane",
        "_on_crash",
        "_on_error",
        "_post_all",
        "_queue",
        "_times",
        "_tune",
        "groups",
        "slowness",
    )

    def __init__(
        self,
        kernel: Kernel,
        lane: ChanceLane,
        times: StorageTimes,
        engine: StorageGroups,
        post_all: PostAll,
        on_crash: Callable[[], None],
        on_error: Callable[[Exception], None],
        tune: Callable[[StorageJob], StorageJob] | None = None,
    ) -> None:
        """`lane`: of this disk's syncs. `tune`: makes background jobs as small as simulated logs are."""
        self._kernel = kernel
        self._lane = lane
        self._drawn: Eight = (0, 0, 0, 0, 0, 0, 0, 0)
        """For the group whose sync is under way."""
        self._times = times
        self._engine = engine
        self._post_all = post_all
        self._on_crash = on_crash
        self._on_error = on_error
        self._tune = tune
        self._queue: list[StorageJob] = []
        self._busy = [False, False]
        """By lane, whether a group of it is in work. Here everything is of one, the first."""
        self._attached = True
        self.slowness = 1
        self.groups = 0

    def submit(self, job: StorageJob) -> None:
        if not self._attached:
            return
        self._queue.append(job if self._tune is None else self._tune(job))
        self._begin()

    def _begin(self) -> None:
        """Write soon what waits, if no group is in work."""
        if not self._busy[0]:
            self._busy[0] = True
            self._kernel.after(self._write_us(), self._write)

    def detach(self) -> None:
        """The process died: nothing more is carried out, nothing is reported."""
        self._attached = False
        self._queue.clear()

    def close(self) -> bool:
        """Finish what is queued and close cleanly; nobody hears of it. False if the process died in it."""
        jobs, self._queue = self._queue, []
        self._attached = False

        def work() -> list[Event]:
            self._engine.write(jobs)
            self._engine.sync()
            self._engine.close(True)
            return []

        return self._done(work) is not None

    def _done(self, work: Callable[[], list[Event]]) -> list[Event] | None:
        """What the engine says; None if that was its end."""
        try:
            return work()
        except SimulatedCrash:
            self._on_crash()
        except Exception as error:
            self._on_error(error)
        return None

    # -- the phases ----------------------------------------------------------------------------------------

    def _write(self, first: object, second: object) -> None:
        if not self._attached:
            return
        jobs, self._queue = self._queue, []
        self.groups += 1
        events = self._done(lambda: self._engine.write(jobs))
        if events is None:
            return
        needs_sync = any(type(job) not in UNSYNCED for job in jobs)
        if needs_sync:
            self._kernel.after(self._sync_us(), self._sync)
        if events:
            self._post_all(events)
        if not needs_sync:
            self._next_group()

    def _sync_us(self) -> int:
        times, lane = self._times, self._lane
        drawn = self._drawn = lane.next()
        stated = lane.stated
        late_us = 0
        if stated is not None:
            late_us = stated.late_us
        elif times.stall and below(drawn[1], times.stall):
            late_us = int(times.stall_max_us * (drawn[1] / (times.stall * SPREAD)))
        if late_us:
            lane.note(lane.place, late_us=late_us)
        sync_us = times.sync_us + amount(drawn[0], times.sync_jitter_us) + late_us
        return min(sync_us * self.slowness, max(sync_us, SLOWEST_US))

    def _sync(self, first: object, second: object) -> None:
        if not self._attached:
            return
        events = self._done(self._engine.sync)
        if events is None:
            return
        delay_us = self._late_us(self._drawn[2])
        if delay_us:
            self._kernel.after(delay_us, self._complete, events)
            return
        self._next_group()
        if events:
            self._post_all(events)

    def _late_us(self, drawn: int) -> int:
        return amount(drawn, self._times.completion_us)

    def _complete(self, events: list[Event], second: object) -> None:
        if self._attached:
            self._next_group()
            self._post_all(events)

    def _next_group(self) -> None:
        if self._queue:
            self._kernel.after(self._write_us(), self._write)
        else:
            self._busy[0] = False

    def _write_us(self) -> int:
        times = self._times
        cold = times.journal_read_us and any(
            isinstance(job, ReadLog) and job.log.is_journal for job in self._queue
        )
        asked = times.index_read_us and any(isinstance(job, AskLasts) for job in self._queue)
        more_us = (times.journal_read_us if cold else 0) + (times.index_read_us if asked else 0)
        return times.write_us * self.slowness + more_us
