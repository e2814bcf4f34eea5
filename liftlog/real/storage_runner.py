"""The storage thread: group commit between the core, which never waits, and the disk, which always does.

The thread takes everything that is queued at once: one `write` for the whole group, whose events (reads,
opens, refused writes) go back before any sync is waited for, then one `sync` for every file the group
touched. While it syncs, the next group gathers; under load the groups grow by themselves to what one sync can
carry.

Jobs are carried out in the order of submission, so that a read sees the writes before it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

import trio

from liftlog.messages import Event, StorageJob

CLOSE_TIMEOUT_S = 15.0


class Engine(Protocol):
    """What the thread needs of `liftlog.storage.engine.StorageEngine`."""

    def write(self, jobs: Sequence[StorageJob]) -> list[Event]: ...

    def sync(self) -> list[Event]: ...

    def close(self, clean: bool) -> None: ...


class ThreadStorageRunner:
    """`StorageRunner` port with one worker thread.

    `deliver` gets the events and `fail` an exception that no contract foresees; both are called in the trio
    thread. After a failure the thread does nothing more, not even close cleanly.
    """

    def __init__(
        self, engine: Engine, deliver: Callable[[list[Event]], None], fail: Callable[[BaseException], None]
    ) -> None:
        self._engine = engine
        self._deliver = deliver
        self._fail = fail
        self._token = trio.lowlevel.current_trio_token()
        self._jobs: list[StorageJob] = []
        self._closing: bool | None = None
        self._wake = threading.Condition(threading.Lock())
        self._thread = threading.Thread(target=self._run, name="liftlog-storage", daemon=True)
        self.counters = {"storage.groups": 0, "storage.jobs": 0, "storage.largest_group": 0}

    def start(self) -> None:
        self._thread.start()

    def submit(self, job: StorageJob) -> None:
        with self._wake:
            self._jobs.append(job)
            self._wake.notify()

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
                    while not self._jobs and self._closing is None:
                        self._wake.wait()
                    jobs, self._jobs = self._jobs, []
                    closing = self._closing
                if jobs:
                    self._work(jobs)
                elif closing is not None:
                    self._engine.close(closing)
                    return
        except BaseException as error:
            self._post(self._fail, error)

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
