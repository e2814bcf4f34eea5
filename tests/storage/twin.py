"""A storage engine and the models of its logs, side by side: every job goes to both, answers are compared.

`Twin.do` carries out jobs, one write phase each and one sync for all, and tells the models at each of the
three moments that `tests.storage.model` names. `look` reads a whole log job by job and checks what every read
promises: whole batches, one right behind the other, within the limit, and an error where nothing can be read.
`recover` starts a new process on the same disk and holds what it finds against the models.

`ScriptedDisk` is the simulated disk with one more fault: the n-th call from now fails, whichever it is.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from itertools import pairwise
from random import Random

from liftlog.format import decode_records, encode_records, encode_values
from liftlog.messages import (
    AppendLog,
    CheckpointHw,
    Compacted,
    CompactLog,
    Durable,
    Event,
    LogOpened,
    LogRead,
    LogRepaired,
    LookupTime,
    MetadataStalled,
    OpenLog,
    ReadLog,
    RepairLog,
    RetryMetadata,
    SaveHardState,
    Scrubbed,
    ScrubLog,
    StorageFailed,
    StorageJob,
    TimeFound,
    TruncateLog,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.ports import DiskError, SyncFailed
from liftlog.storage.engine import StorageEngine
from liftlog.types import (
    RAFT_LOG,
    Batch,
    CompactionPolicy,
    Entry,
    HardState,
    LogOptions,
    LogSummary,
    OffsetRange,
    PartitionId,
    Record,
    Recovered,
    TailState,
    Ticket,
)
from liftlog_sim.devices.disk import SimDisk, SimFile
from tests.storage.model import Found, Line, LogModel
from tests.storage.storage_harness import LOG, OTHER, start

TINY = LogOptions(segment_bytes=600)
"""A few batches fill a segment."""
FAILABLE = (
    "open",
    "append",
    "read",
    "sync",
    "sync_directory",
    "truncate",
    "rename",
    "remove",
    "remove_tree",
    "make_directory",
)
"""Calls that a real disk can refuse."""
NO_MATTER = ("calls", "random", "life", "armed", "failed", "_crash_at", "_fail_at", "_attached", "_locks")
"""Attributes of a disk that a new process does not see."""
NO_LIMIT = 1 << 60
SLICES_MAX = 500
EAGER = CompactionPolicy(dirty_ratio_percent=0, tombstone_retention_ms=0)
"""Compacts whatever it may."""
START_MS = 1_000_000


class ScriptedDisk(SimDisk):
    """The simulated disk, whose n-th call from now can be made to fail."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._fail_at = 0
        self._error = 0
        self.failed = ""
        """The call that was made to fail."""

    def fail_call(self, number: int, error: int) -> None:
        """The `number`-th call from now fails with `error`; 1 is the next one."""
        self._fail_at = self.calls + number
        self._error = error
        self.failed = ""
        self.armed = True

    @property
    def fails_later(self) -> bool:
        """The call that is to fail has not come yet."""
        return self._fail_at > self.calls

    def _rearm(self) -> None:
        super()._rearm()
        self.armed = self.armed or bool(getattr(self, "_fail_at", 0))

    def attach(self) -> None:
        self._fail_at = 0
        self.failed = ""
        super().attach()

    def enter(
        self,
        operation: str,
        path: str,
        life: int,
        file: SimFile | None = None,
        parts: Sequence[bytes | memoryview] = (),
    ) -> None:
        super().enter(operation, path, life, file, parts)
        if self._fail_at and self.calls >= self._fail_at:
            self._fail_at = 0
            self._rearm()
            if operation in FAILABLE:
                self.failed = f"{operation} {path}"
                if operation == "append" and file is not None:
                    file.append_prefix(parts)
                kind = SyncFailed if operation.startswith("sync") else DiskError
                raise kind(self._error, f"{os.strerror(self._error)} (simulated)", path)


class JobFailed(Exception):
    """Storage answered that it could not do a job."""

    def __init__(self, event: Event) -> None:
        super().__init__(str(event))
        self.event = event


class Mismatch(AssertionError):
    """The engine and the model differ."""


class Twin:
    """One disk, the engine that runs on it, and the models of what it should hold."""

    def __init__(self, seed: int = 0, options: LogOptions = TINY, mutants: Mutants = NO_MUTANTS) -> None:
        self.disk = ScriptedDisk(Random(seed))
        self.mutants = mutants
        self.options = options
        self.models = {LOG: LogModel(), OTHER: LogModel()}
        self.raft: list[Entry] = []
        self.raft_durable = 0
        self.hard_states = [HardState()]
        self.now_ms = START_MS
        self.clean = False
        """The last stop was a clean one, and nothing was submitted since."""
        self.stopped = False
        self._ticket = 0
        self._waiting: list[StorageJob] = []
        self._by_ticket: dict[int, StorageJob] = {}
        """Jobs whose ticket was not answered yet; metadata may be held back for long (D5)."""
        self.engine: StorageEngine = None  # type: ignore[assignment]  # not running yet
        """Not part of a snapshot: a copy of a twin begins with a start."""

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "engine": None}

    def snapshot(self) -> bytes:
        """Everything but the running engine."""
        return pickle.dumps(self)

    @staticmethod
    def restored(snapshot: bytes, seed: int = 0) -> Twin:
        twin = pickle.loads(snapshot)
        assert isinstance(twin, Twin)
        twin.disk.random = Random(seed)
        return twin

    def fingerprint(self) -> bytes:
        """Equal for two twins between which no later step can tell a difference."""
        disk = {name: value for name, value in vars(self.disk).items() if name not in NO_MATTER}
        return pickle.dumps((disk, self.models, self.raft, self.hard_states, self.clean))

    @property
    def model(self) -> LogModel:
        return self.models[LOG]

    # ----- jobs -----

    def ticket(self) -> Ticket:
        self._ticket += 1
        return Ticket(self._ticket)

    def do(self, *jobs: StorageJob) -> list[Event]:
        """One group. Raises JobFailed at the first answer that is no success, after the group's sync."""
        answers = [answer for job in jobs for answer in self.write(job)]
        answers += self.sync()
        for event in answers:
            if error_of(event):
                raise JobFailed(event)
        return answers

    def ask(self, job: StorageJob) -> Event:
        """A job that is answered in the write phase, and the group's sync. Raises JobFailed."""
        (answer,) = self.write(job)
        for event in (answer, *self.sync()):
            if error_of(event):
                raise JobFailed(event)
        return answer

    def write(self, job: StorageJob) -> list[Event]:
        """The write phase of one job; its sync may come later, with those of others."""
        self.clean = False
        self._submitted(job)
        events = self.engine.write([job])
        if not events:
            self._written(job)
        for event in events:
            self._answered(job, event)
        self._waiting.append(job)
        return events

    def sync(self) -> list[Event]:
        """The sync phase of all jobs since the last one."""
        jobs, self._waiting = self._waiting, []
        self._by_ticket.update({getattr(job, "ticket", 0): job for job in jobs})
        events = self.engine.sync()
        for event in events:
            assert isinstance(event, Durable | StorageFailed | MetadataStalled), event
            if not isinstance(event, MetadataStalled):
                self._answered(self._by_ticket.pop(event.ticket), event)
        for job in jobs:
            if isinstance(job, CheckpointHw) and not self.disk.failed:
                self.models[job.log].checkpointed(job.hw)
        return events

    def retry_metadata(self) -> None:
        """D5: what was held back is written and durable. Raises JobFailed if it is refused once more."""
        assert not self.engine.write([RetryMetadata()])
        for event in self.sync():
            if error_of(event):
                raise JobFailed(event)

    def _submitted(self, job: StorageJob) -> None:
        if isinstance(job, SaveHardState):
            self.hard_states.append(job.state)
        elif isinstance(job, AppendLog) and job.log == RAFT_LOG:
            for batch in job.batches:
                for record in decode_records(batch):
                    self.raft.append(Entry(record.offset + 1, batch.epoch, record.value or b""))
        else:
            log = getattr(job, "log", None)
            if log in self.models:
                self.models[log].submitted(job)

    def _written(self, job: StorageJob) -> None:
        log = getattr(job, "log", None)
        if log in self.models:
            self.models[log].written(job)

    def _answered(self, job: StorageJob, event: Event) -> None:
        if isinstance(job, SaveHardState):
            if isinstance(event, Durable):
                self.hard_states = [job.state]
            return
        if isinstance(job, AppendLog) and job.log == RAFT_LOG and isinstance(event, Durable):
            self.raft_durable = len(self.raft)
        log = getattr(job, "log", None)
        if log in self.models:
            self.models[log].answered(job, event)

    def append(self, *values: bytes | tuple[bytes | None, bytes | None], log: PartitionId = LOG) -> AppendLog:
        """A job that appends one batch; a value may come with a key."""
        return self.append_batches([values], log=log)

    def append_batches(
        self,
        groups: Sequence[Sequence[bytes | tuple[bytes | None, bytes | None]]],
        *,
        log: PartitionId = LOG,
        epoch: int = 0,
        step_ms: int = 10,
        base: int = -1,
    ) -> AppendLog:
        """A job that appends several batches at the LEO; each record is `step_ms` younger than the last."""
        model = self.models[log]
        offset = model.end if base < 0 else base
        batches: list[Batch] = []
        for group in groups:
            records = []
            for one in group:
                key, value = one if isinstance(one, tuple) else (None, one)
                self.now_ms += step_ms
                records.append(Record(offset, self.now_ms, b"s", b"", b"", key, value))
                offset += 1
            batches.append(encode_records(log, max(1, epoch, model.last_epoch()), records))
        return AppendLog(log, batches, self.ticket())

    def entries(self, *values: bytes, term: int = 1) -> AppendLog:
        """A job that appends to the metadata log."""
        base = len(self.raft)
        batches = [encode_values(RAFT_LOG, base + i, term, 1000, [value]) for i, value in enumerate(values)]
        return AppendLog(RAFT_LOG, batches, self.ticket())

    def vote(self, term: int) -> SaveHardState:
        return SaveHardState(HardState(term, 1), self.ticket())

    def truncate(self, offset: int, log: PartitionId = LOG) -> TruncateLog:
        return TruncateLog(log, offset, self.ticket())

    # ----- reading -----

    def look(self, summary: LogSummary, max_bytes: int = 1000) -> Found:
        """Every record of a log that can be read, with the summary it is held against."""
        lines: dict[int, Line] = {}
        unreadable: list[OffsetRange] = []
        offset = summary.log_start
        while offset < summary.leo:
            event = self._read(summary.log, offset, NO_LIMIT, max_bytes)
            if event.error:
                damage = event.damage
                if damage is None or not damage.start <= offset < damage.end:
                    raise Mismatch(f"offset {offset} cannot be read: {event}")
                unreadable.append(damage)
                offset = damage.end
                continue
            if not event.batches:
                raise Mismatch(f"nothing can be read at offset {offset}, below LEO {summary.leo}")
            for batch in event.batches:
                for record in decode_records(batch):
                    if record.offset >= offset:
                        lines[record.offset] = Line(batch.epoch, record)
            offset = event.batches[-1].end_offset
        if self._read(summary.log, summary.leo, NO_LIMIT, max_bytes).batches:
            raise Mismatch(f"something can be read at the LEO {summary.leo}")
        return Found(summary, lines, tuple(unreadable))

    def _read(self, log: PartitionId, offset: int, limit: int, max_bytes: int) -> LogRead:
        (event,) = self.engine.write([ReadLog(log, 1, offset, limit, max_bytes)])
        assert isinstance(event, LogRead), event
        problem = read_problem(event, offset, limit, max_bytes)
        if problem:
            raise Mismatch(f"read of offset {offset} below {limit}: {problem}")
        if event.damage is not None:
            self.models[log].note_damage(event.damage)
        return event

    def read(self, offset: int, limit: int = NO_LIMIT, max_bytes: int = 300) -> LogRead:
        """One read of LOG, its shape checked."""
        return self._read(LOG, offset, limit, max_bytes)

    def find_time(self, timestamp_ms: int) -> int:
        (event,) = self.engine.write([LookupTime(LOG, 1, timestamp_ms)])
        if not isinstance(event, TimeFound) or event.error:
            raise JobFailed(event)
        return event.offset

    def check_running(self, max_bytes: int = 1000) -> None:
        """What the running engine reads agrees with the models."""
        for log, model in self.models.items():
            if model.exists and model.other is None:
                self.check_log(log, max_bytes)

    def check_log(self, log: PartitionId, max_bytes: int = 1000) -> None:
        """What the running engine reads of one log agrees with its model."""
        problem = self.models[log].content_problem(self.look(self.summary(log), max_bytes))
        if problem:
            raise Mismatch(f"log {log}, running: {problem}")

    def usable(self, log: PartitionId) -> bool:
        """Whether a log takes jobs: one whose sync failed refuses all of them until it is rebuilt."""
        model = self.models[log]
        (event,) = self.engine.write([ReadLog(log, 1, model.log_start, NO_LIMIT, 1)])
        assert isinstance(event, LogRead), event
        return not event.error or event.damage is not None

    def summary(self, log: PartitionId = LOG) -> LogSummary:
        """What the running process knows of a log, by the answers that it was given."""
        model = self.models[log]
        return LogSummary(
            log=log,
            log_start=model.log_start,
            leo=model.end,
            hw=model.hw.high,
            epochs=tuple(model.epoch_starts(model.end)),
            tail=TailState.CLEAN,
            damage=model.damage,
            clean_point=model.clean_point.low,
            dropped_below=model.dropped_below.high,
        )

    # ----- jobs that go on until they are done -----

    def compact(
        self,
        below: int = -1,
        tombstones_below: int = 0,
        *,
        max_bytes: int = 400,
        policy: CompactionPolicy = EAGER,
    ) -> None:
        """Slice after slice until nothing is left to do."""
        limit = self.model.leo.low if below < 0 else below
        for _ in range(SLICES_MAX):
            job = CompactLog(LOG, policy, limit, tombstones_below, self.now_ms, max_bytes)
            event = self.ask(job)
            assert isinstance(event, Compacted), event
            if event.done:
                return
        raise Mismatch(f"the compaction is not done after {SLICES_MAX} slices")

    def scrub(self, max_bytes: int = 400) -> None:
        """Once over all sealed segments. New damage goes into the model."""
        offset = self.model.log_start
        for _ in range(SLICES_MAX):
            event = self.ask(ScrubLog(LOG, offset, max_bytes))
            assert isinstance(event, Scrubbed), event
            if event.damage is not None:
                self.model.note_damage(event.damage)
            offset = event.next_offset
            if offset <= self.model.log_start:
                return
        raise Mismatch(f"the scrub is not at the end after {SLICES_MAX} slices")

    def repair(self, *, at_a_time: int = 1, compacted: bool = False) -> None:
        """Mend every damaged range from the model, as from a peer that holds (or compacted) all of it."""
        for damage in self.model.damage:
            batches = self.model.batches(damage, compacted=compacted)
            offset = damage.start
            while offset < damage.end:
                part = [one for one in batches if one.end_offset > offset][:at_a_time]
                event = self.ask(RepairLog(LOG, damage, part, damage.end if compacted else -1))
                assert isinstance(event, LogRepaired), event
                if event.next_offset <= offset:
                    raise Mismatch(f"a repair makes no progress at {offset}: {event}")
                offset = event.next_offset

    # ----- lives -----

    def begin(self) -> Recovered:
        """Start a process: nothing is compared."""
        self.stopped = False
        self._waiting = []
        self.engine, recovered = start(self.disk, self.mutants)
        return recovered

    def recover(self, *, adopt: bool = True, reopen: bool = True) -> Recovered:
        """Start a process and hold what it found against the models. Raises Mismatch."""
        recovered = self.begin()
        summaries = {one.log: one for one in recovered.logs}
        for log, model in self.models.items():
            summary = summaries.get(log)
            if summary is None:
                if model.exists and model.other is None:
                    raise Mismatch(f"log {log} is gone")
                # Between the trashing of the earlier log and the creation of the new one there is none.
                self.models[log] = LogModel()
                continue
            if not model.exists and model.other is None:
                raise Mismatch(f"log {log} should be in the trash")
            if summary.tail not in model.possible_tails():
                raise Mismatch(f"log {log}: a crash left the tail {summary.tail}")
            if self.clean and summary.tail is not TailState.CLEAN and not model.torn:
                raise Mismatch(f"log {log}: tail {summary.tail} after a clean stop")
            found = self.look(summary)
            problem = model.problem(found)
            if problem:
                raise Mismatch(f"log {log}: {problem}")
            if adopt:
                model.adopt(found)
        self._check_metadata(recovered)
        for log, model in self.models.items():
            model.exists = log in summaries
            if reopen and log in summaries:
                (event,) = self.engine.write([OpenLog(log, options=self.options)]) + self.engine.sync()
                assert isinstance(event, LogOpened), event
                model.answered(OpenLog(log), event)
        if adopt:
            self.clean = False
        return recovered

    def _check_metadata(self, recovered: Recovered) -> None:
        if recovered.hard_state not in self.hard_states:
            raise Mismatch(f"hard state {recovered.hard_state} is none of {self.hard_states}")
        if self.clean and not recovered.clean:
            raise Mismatch("a clean stop was taken for an unclean one")
        entries = recovered.raft_entries
        if entries != self.raft[: len(entries)] or len(entries) < self.raft_durable:
            raise Mismatch(f"metadata entries {entries}, appended were {self.raft}")

    def close(self, clean: bool = True) -> None:
        self.engine.close(clean)
        self.stopped = True
        self.clean = clean and not self.disk.failed

    def kill(self) -> None:
        self.disk.kill()

    def power_loss(self, random: Random) -> None:
        self.disk.power_loss(random)


def error_of(event: Event) -> str:
    """What an answer says went wrong."""
    return str(getattr(event, "error", ""))


def read_problem(event: LogRead, offset: int, limit: int, max_bytes: int) -> str:
    """What a read does not keep of its promise: at least one batch, whole, contiguous, bounded."""
    batches = event.batches
    if event.error:
        return "batches beside an error" if batches else ""
    if not batches:
        return ""
    if not batches[0].base_offset <= offset < batches[0].end_offset:
        return f"the first batch is [{batches[0].base_offset}, {batches[0].end_offset})"
    for before, after in pairwise(batches):
        if before.end_offset != after.base_offset:
            return f"a batch at {after.base_offset} follows one that ends at {before.end_offset}"
    if batches[-1].end_offset > limit:
        return f"the last batch ends at {batches[-1].end_offset}"
    if len(batches) > 1 and sum(len(one.data) for one in batches) > max_bytes:
        return f"{sum(len(one.data) for one in batches)} bytes, at most {max_bytes} were asked for"
    return ""
