"""A simulated storage thread that has appends to journals and to data under way at once (R5).

As `liftlog/real/storage_runner.py`: each of the two lanes has its group, and whatever is no plain append is a
group of everything that waits, when both lanes are free. Either group may end first, and a crash finds one of
them synced and the other one not.
"""

from __future__ import annotations

from liftlog.messages import AppendLog, Event, StorageJob
from liftlog.types import PartitionId
from liftlog_sim.devices.storage import UNSYNCED, SimStorageRunner

DATA, JOURNALS = False, True


class LanesRunner(SimStorageRunner):
    """`StorageRunner` port of one process."""

    __slots__ = ()

    def _begin(self) -> None:
        """Write soon what waits for a lane that is free. A lane that has nothing to do stays free."""
        if not self._queue:
            return
        if not any(self._busy):
            self._write_soon(lane_of(self._queue[0]))
            return
        if all(map(self._is_quick, self._queue)):
            for lane in (DATA, JOURNALS):
                if not self._busy[lane] and any(lane_of(job) is lane for job in self._queue):
                    self._write_soon(lane)

    def _is_quick(self, job: StorageJob) -> bool:
        return type(job) is AppendLog and self._engine.is_quick(job)

    def _write_soon(self, lane: bool) -> None:
        self._busy[lane] = True
        self._kernel.after(self._write_us(), self._write_lane, lane)

    def _write_lane(self, lane: bool, second: object) -> None:
        if not self._attached:
            return
        queue, other = self._queue, self._busy[not lane]
        if all(map(self._is_quick, queue)):
            jobs = [job for job in queue if lane_of(job) is lane]
            self._queue = [job for job in queue if lane_of(job) is not lane]
            logs = {job.log: None for job in jobs if type(job) is AppendLog}
            self._written((lane,), jobs, logs)
        elif other:
            # What is no plain append has come meanwhile: when the other lane's group is over.
            self._busy[lane] = False
        else:
            self._queue = []
            self._busy = [True, True]
            self._written((DATA, JOURNALS), queue, None)

    def _written(
        self, lanes: tuple[bool, ...], jobs: list[StorageJob], logs: dict[PartitionId, None] | None
    ) -> None:
        """Write a group. `logs`: those that it appends to, if it does nothing else."""
        self.groups += 1
        events = self._done(lambda: self._engine.write(jobs))
        if events is None:
            return
        needs_sync = any(type(job) not in UNSYNCED for job in jobs)
        if needs_sync:
            self._kernel.after(self._sync_us(), self._sync_lanes, (lanes, logs, self._drawn[2]))
        if events:
            self._post_all(events)
        if not needs_sync:
            self._free(lanes)

    def _sync_lanes(
        self, group: tuple[tuple[bool, ...], dict[PartitionId, None] | None, int], second: object
    ) -> None:
        if not self._attached:
            return
        lanes, logs, drawn = group
        events = self._done(self._engine.sync if logs is None else lambda: self._engine.sync_logs(logs))
        if events is None:
            return
        self._kernel.after(self._late_us(drawn), self._told, (lanes, events))

    def _told(self, group: tuple[tuple[bool, ...], list[Event]], second: object) -> None:
        if self._attached:
            lanes, events = group
            self._free(lanes)
            if events:
                self._post_all(events)

    def _free(self, lanes: tuple[bool, ...]) -> None:
        for lane in lanes:
            self._busy[lane] = False
        self._begin()


def lane_of(job: StorageJob) -> bool:
    """JOURNALS for an append to one; whatever else is counted with data."""
    return type(job) is AppendLog and job.log.is_journal
