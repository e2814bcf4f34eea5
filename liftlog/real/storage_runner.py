"""The storage thread: group commit between the core, which never waits, and the disk, which always does.

The thread takes everything that is queued at once: one `write` for the whole group, whose events (reads,
opens, refused writes) go back before any sync is waited for, then one `sync` for every file the group
touched. While it syncs, the next group gathers; under load the groups grow by themselves to what one sync can
carry.

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

import threading
from collections.abc import Callable

import trio

from liftlog.messages import (
    AppendLog,
    CheckpointHw,
    CompactLog,
    Event,
    LookupTime,
    ReadLog,
    RepairLog,
    RetainLog,
    SaveHardState,
    SaveIdentity,
    ScrubLog,
    StorageJob,
)
from liftlog.ports import StorageGroups

CLOSE_TIMEOUT_S = 15.0
BackgroundJob = CompactLog | ScrubLog | RetainLog | RepairLog
OVERTAKING = (AppendLog, ReadLog, LookupTime, CheckpointHw, SaveHardState, SaveIdentity)
"""Jobs that may be carried out before background jobs of the same log that were submitted earlier."""
SLICE_EVERY_GROUPS = 8
"""Under load a background job runs after so many groups, so that it is delayed but not starved."""


class ThreadStorageRunner:
    """`StorageRunner` port with one worker thread.

    `deliver` gets the events and `fail` an exception that no contract foresees; both are called in the trio
    thread. After a failure the thread does nothing more, not even close cleanly.
    """

    def __init__(
        self,
        engine: StorageGroups,
        deliver: Callable[[list[Event]], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._engine = engine
        self._deliver = deliver
        self._fail = fail
        self._token = trio.lowlevel.current_trio_token()
        self._jobs: list[StorageJob] = []
        self._background: list[BackgroundJob] = []
        self._groups_since_slice = 0
        self._closing: bool | None = None
        self._wake = threading.Condition(threading.Lock())
        self._thread = threading.Thread(target=self._run, name="liftlog-storage", daemon=True)
        self.counters = {
            "storage.groups": 0,
            "storage.jobs": 0,
            "storage.largest_group": 0,
            "storage.slices": 0,
        }

    def start(self) -> None:
        self._thread.start()

    def submit(self, job: StorageJob) -> None:
        with self._wake:
            if isinstance(job, BackgroundJob):
                self._background.append(job)
            else:
                if self._background and not isinstance(job, OVERTAKING):
                    self._bring_forward(job)
                self._jobs.append(job)
            self._wake.notify()

    def _bring_forward(self, job: StorageJob) -> None:
        """Background jobs of this job's log go before it."""
        log = getattr(job, "log", None)
        self._jobs += [waiting for waiting in self._background if waiting.log == log]
        self._background = [waiting for waiting in self._background if waiting.log != log]

    async def close(self, clean: bool) -> None:
        """Finish what is queued, then close the engine: with the clean-stop marker if `clean`.

        A disk that hangs is given CLOSE_TIMEOUT_S; then the process ends without the marker.
        """
        with self._wake:
            self._closing = clean
            self._wake.notify()
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._thread.join, CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        try:
            while True:
                with self._wake:
                    while not self._jobs and not self._background and self._closing is None:
                        self._wake.wait()
                    jobs = self._next_group()
                    closing = self._closing
                if jobs:
                    self._work(jobs)
                elif closing is not None:
                    self._engine.close(closing)
                    return
        except BaseException as error:
            self._post(self._fail, error)

    def _next_group(self) -> list[StorageJob]:
        """All jobs that wait, or one background job if it is that one's turn."""
        self._groups_since_slice += 1
        if self._background and (not self._jobs or self._groups_since_slice > SLICE_EVERY_GROUPS):
            self._groups_since_slice = 0
            self.counters["storage.slices"] += 1
            return [self._background.pop(0)]
        jobs, self._jobs = self._jobs, []
        return jobs

    def _work(self, jobs: list[StorageJob]) -> None:
        counters = self.counters
        counters["storage.groups"] += 1
        counters["storage.jobs"] += len(jobs)
        counters["storage.largest_group"] = max(counters["storage.largest_group"], len(jobs))
        events = self._engine.write(jobs)
        if events:
            self._post(self._deliver, events)
        events = self._engine.sync()
        if events:
            self._post(self._deliver, events)

    def _post(self, function: Callable[..., None], argument: object) -> None:
        try:
            self._token.run_sync_soon(function, argument)
        except trio.RunFinishedError:
            # The event loop is gone, nobody waits for this any longer.
            return
