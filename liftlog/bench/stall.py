"""Does compaction hold up appends? The real storage thread, with a batch every few milliseconds.

Latency is from handing a batch to the thread until it is durable: on a quiet log, then while it is compacted
as a node does it, with so many bytes a second, then without that throttle, each slice right after the one
before. A batch is handed over at its time whether or not the one before is done, so that a stall is not
counted once but for all who wait behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import trio

from liftlog.bench.storage_io import Progress
from liftlog.bench.storage_life import POLICY, write_keyed
from liftlog.bench.store import FIRST_MS, LOG, Folders, Store, compaction_slice
from liftlog.core.replica.upkeep import SLICE_BYTES
from liftlog.format import encode_messages
from liftlog.messages import AppendLog, Compacted, Durable, Event
from liftlog.nodeconfig import NodeConfig
from liftlog.real.storage_runner import GroupRunner
from liftlog.types import LiftlogError, Message, Ticket

INTERVAL_S = 0.004
BATCH_MESSAGES = 64
MESSAGE_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from submission to durability, and how many slices were carried out meanwhile."""

    appends: int
    p50_ms: float
    p99_ms: float
    greatest_ms: float
    slices: int


def measure_stall(
    folders: Folders, log_bytes: int, seconds: float, progress: Progress
) -> dict[str, Latency]:
    """Latency of appends: "quiet", "compacting" with a node's throttle, "unthrottled"."""
    with folders.new() as folder:
        progress("append latency: writing the log")
        records = log_bytes // (MESSAGE_BYTES + 40)
        write_keyed(folder, records // 2, records, MESSAGE_BYTES, segment_bytes=max(1 << 20, log_bytes // 8))
        return trio.run(_run, folder, seconds, progress)


async def _run(folder: Path, seconds: float, progress: Progress) -> dict[str, Latency]:
    node_pause_s = SLICE_BYTES / NodeConfig(1, (1,)).compaction_bytes_per_s
    with Store(folder) as store:
        load = _Load(store)
        store.handed_over = True
        found: dict[str, Latency] = {}
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(load.runner.run)
                for name, pause_s in (("quiet", None), ("compacting", node_pause_s), ("unthrottled", 0.0)):
                    progress(f"append latency: {name}")
                    found[name] = await load.measure(seconds, pause_s)
                nursery.cancel_scope.cancel()
        finally:
            await load.runner.close(clean=True)
        return found


class _Load:
    """Appends on a schedule, and compaction in the background of the same log."""

    def __init__(self, store: Store) -> None:
        self.runner = GroupRunner(store.engine, self._deliver)
        self._end = store.end
        self._below = store.end
        self._ticket = 0
        self._sent_s: dict[int, float] = {}
        self._latencies_ms: list[float] = []
        self._pause_s: float | None = None
        """Between two slices; None = no compaction."""
        self._next_slice_s = 0.0
        self._in_work = False
        self._slices = 0
        self._failure = ""

    async def measure(self, seconds: float, pause_s: float | None) -> Latency:
        """Append for so long, or until the log is compacted."""
        self._latencies_ms, self._slices = [], 0
        self._pause_s = pause_s
        start_s = self._next_slice_s = trio.current_time()
        messages = [Message(b"s", b"", b"", bytes(MESSAGE_BYTES))] * BATCH_MESSAGES
        for number in range(round(seconds / INTERVAL_S)):
            due_s = start_s + number * INTERVAL_S
            await trio.sleep_until(due_s)
            self._ticket += 1
            self._sent_s[self._ticket] = due_s
            batch = encode_messages(LOG, self._end, 1, FIRST_MS, messages)
            self._end = batch.end_offset
            self.runner.submit(AppendLog(LOG, [batch], Ticket(self._ticket)))
            self.runner.flush()
            self._go_on_compacting()
            if pause_s is not None and self._pause_s is None:
                break
        self._pause_s = None
        with trio.fail_after(30):
            while (self._sent_s or self._in_work) and not self._failure:
                await trio.sleep(INTERVAL_S)
        if self._failure:
            raise LiftlogError(f"storage failed under load: {self._failure}")
        found = sorted(self._latencies_ms)
        return Latency(
            len(found), found[len(found) // 2], found[len(found) * 99 // 100], found[-1], self._slices
        )

    def _go_on_compacting(self) -> None:
        now_s = trio.current_time()
        if self._pause_s is not None and not self._in_work and now_s >= self._next_slice_s:
            self._next_slice_s = max(self._next_slice_s + self._pause_s, now_s - INTERVAL_S)
            self._in_work = True
            self.runner.submit(compaction_slice(POLICY, self._below, SLICE_BYTES))
            self.runner.flush()

    def _deliver(self, events: list[Event]) -> None:
        now_s = trio.current_time()
        for event in events:
            if isinstance(event, Durable):
                self._latencies_ms.append((now_s - self._sent_s.pop(event.ticket)) * 1000)
            elif isinstance(event, Compacted) and not event.error:
                self._slices += 1
                self._in_work = False
                if event.done:
                    self._pause_s = None
                self._go_on_compacting()
            else:
                self._failure = str(event)

