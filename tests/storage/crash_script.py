"""A scripted life of a storage engine, and the book of what it has promised: the crash tests' two halves.

The script does everything that storage can do: it creates logs, appends, rolls, cuts at and inside batches,
checkpoints the HW, saves votes, runs out of space, meets a failed sync, rebuilds, trashes and stops cleanly.
While it runs, `Promises` notes what has been submitted (it *may* be on disk) and what was reported durable
(it *must* be). After a crash at any Disk call, what a new process recovers is held against that book.
"""

from __future__ import annotations

from collections.abc import Iterator

from liftlog.format import decode_records
from liftlog.messages import (
    AppendLog,
    CheckpointHw,
    Durable,
    Event,
    LogOpened,
    LogRead,
    OpenLog,
    ReadLog,
    RebuildLog,
    SaveHardState,
    SaveIdentity,
    StorageFailed,
    StorageJob,
    TrashLog,
    TruncateLog,
)
from liftlog.storage.engine import StorageEngine
from liftlog.types import (
    NO_MUTANTS,
    RAFT_LOG,
    HardState,
    Identity,
    LogSummary,
    Mutants,
    PartitionId,
    Recovered,
    TailState,
    Ticket,
)
from sim.disk import SimDisk
from tests.storage.storage_harness import LOG, OTHER, SMALL, batch

Content = tuple[int, bytes]
"""Epoch and value of a record."""

DOOMED = PartitionId(9, 0)


def read_all(engine: StorageEngine, log: PartitionId, log_start: int = 0) -> dict[int, Content]:
    """Every record of a log by offset, read through the engine in small portions."""
    found: dict[int, Content] = {}
    offset = log_start
    while True:
        (event,) = engine.write([ReadLog(log, 1, offset, 1 << 60, 300)])
        assert isinstance(event, LogRead) and event.error == "", event
        if not event.batches:
            return found
        for one in event.batches:
            for record in decode_records(one):
                found[record.offset] = (one.epoch, record.value or b"")
        offset = event.batches[-1].end_offset


class LogPromise:
    """What one log must hold and what it may hold, by offset."""

    def __init__(self) -> None:
        self.must: dict[int, Content] = {}
        self.may: dict[int, set[Content]] = {}
        self.must_exist = False
        self.may_exist = False
        self.greatest_hw = 0
        """No recovery may call more than this committed."""
        self._cut_at = 0
        self._doomed: list[tuple[int, Content]] = []

    def cut(self, offset: int) -> None:
        """What lies at or above `offset` is to go: no longer promised, still possible."""
        self.must = {at: content for at, content in self.must.items() if at < offset}
        self._cut_at = offset
        self._doomed = [(at, one) for at, contents in self.may.items() if at >= offset for one in contents]

    def forget(self) -> None:
        """What was to go is gone."""
        for at, content in self._doomed:
            self.may[at].discard(content)
        self._doomed = []
        self.greatest_hw = min(self.greatest_hw, self._cut_at)


class Promises:
    """The book. `broken` holds a recovered state against it."""

    def __init__(self) -> None:
        self.logs = {log: LogPromise() for log in (RAFT_LOG, LOG, OTHER, DOOMED)}
        self.logs[RAFT_LOG].may_exist = True
        self.hard_states = [HardState()]
        self.identities: list[Identity] = []
        self.clean = False

    def submitted(self, job: StorageJob) -> None:
        self.clean = False
        if isinstance(job, AppendLog):
            for one in job.batches:
                for record in decode_records(one):
                    contents = self.logs[job.log].may.setdefault(record.offset, set())
                    contents.add((one.epoch, record.value or b""))
        elif isinstance(job, TruncateLog):
            self.logs[job.log].cut(job.offset)
        elif isinstance(job, RebuildLog):
            self.logs[job.log].cut(job.keep_below)
        elif isinstance(job, OpenLog):
            self.logs[job.log].may_exist = True
            if job.fresh:
                self.logs[job.log].must_exist = False
                self.logs[job.log].cut(0)
        elif isinstance(job, TrashLog):
            self.logs[job.log].must_exist = False
            self.logs[job.log].cut(0)
        elif isinstance(job, SaveHardState):
            self.hard_states.append(job.state)
        elif isinstance(job, SaveIdentity):
            self.identities.append(job.identity)
        elif isinstance(job, CheckpointHw):
            promise = self.logs[job.log]
            promise.greatest_hw = max(promise.greatest_hw, job.hw)

    def written(self, job: StorageJob) -> None:
        """The write phase of the job's group is over."""
        if isinstance(job, TrashLog):
            self.logs[job.log].may_exist = False
            self.logs[job.log].forget()

    def durable(self, job: StorageJob) -> None:
        if isinstance(job, AppendLog):
            for one in job.batches:
                for record in decode_records(one):
                    self.logs[job.log].must[record.offset] = (one.epoch, record.value or b"")
        elif isinstance(job, TruncateLog):
            self.logs[job.log].forget()
        elif isinstance(job, SaveHardState):
            self.hard_states = self.hard_states[self.hard_states.index(job.state) :]
        elif isinstance(job, SaveIdentity):
            self.identities = self.identities[self.identities.index(job.identity) :]

    def opened(self, job: OpenLog | RebuildLog) -> None:
        promise = self.logs[job.log]
        promise.must_exist = True
        if isinstance(job, RebuildLog) or job.fresh:
            promise.forget()

    def broken(self, engine: StorageEngine, found: Recovered) -> str:
        """What of the book does not hold in a recovered node; empty if everything does."""
        if self.identities and found.identity not in self.identities:
            return f"identity {found.identity} is none of {self.identities}"
        if found.hard_state not in self.hard_states:
            return f"hard state {found.hard_state} is none of {self.hard_states}"
        if self.clean and not found.clean:
            return "a clean stop was taken for an unclean one"
        summaries = {summary.log: summary for summary in found.logs}
        for log, promise in self.logs.items():
            if log == RAFT_LOG:
                entries = {entry.index - 1: (entry.term, entry.data) for entry in found.raft_entries}
                problem = self._broken_content(promise, entries)
            elif log in summaries:
                problem = self._broken_log(engine, promise, summaries[log])
            else:
                problem = "the log is gone" if promise.must_exist else ""
            if problem:
                return f"log {log}: {problem}"
        return ""

    def _broken_log(self, engine: StorageEngine, promise: LogPromise, summary: LogSummary) -> str:
        if not promise.may_exist:
            return "the log should be in the trash"
        if summary.tail is TailState.DAMAGED:
            return "a crash was taken for damage"
        if self.clean and summary.tail is not TailState.CLEAN:
            return f"tail {summary.tail} after a clean stop"
        if summary.hw > min(summary.leo, promise.greatest_hw):
            return f"HW {summary.hw} with LEO {summary.leo}, checkpoints up to {promise.greatest_hw}"
        contents = read_all(engine, summary.log)
        if sorted(contents) != list(range(summary.log_start, summary.leo)):
            return f"offsets {sorted(contents)} are not those from {summary.log_start} to {summary.leo}"
        starts: dict[int, int] = {}
        for offset in sorted(contents):
            starts.setdefault(contents[offset][0], offset)
        if tuple(summary.epochs) != tuple(starts.items()):
            return f"epoch history {summary.epochs}, the records say {starts}"
        return self._broken_content(promise, contents)

    @staticmethod
    def _broken_content(promise: LogPromise, contents: dict[int, Content]) -> str:
        for offset, content in promise.must.items():
            if contents.get(offset) != content:
                return f"offset {offset} holds {contents.get(offset)}, durable was {content}"
        for offset, content in contents.items():
            if content not in promise.may.get(offset, set()):
                return f"offset {offset} holds {content}, which nobody wrote there"
        return ""


class Life:
    """One run of the script on a disk, with its book."""

    def __init__(self, disk: SimDisk, mutants: Mutants = NO_MUTANTS) -> None:
        self.disk = disk
        self.promises = Promises()
        self.engine = StorageEngine(disk, SMALL, mutants)
        self._ticket = 0

    def run(self) -> None:
        """The whole script. Raises SimulatedCrash where the disk was told to crash."""
        self.promises.identities = []
        identity = self.engine.recover(1, "disk-1", 1).identity
        self.promises.identities = [identity]
        for jobs in self._script(identity):
            self.group(*jobs)
        self.engine.close(clean=True)
        self.promises.clean = True

    def _script(self, identity: Identity) -> Iterator[list[StorageJob]]:
        yield [self.vote(1, 2)]
        yield [self.entries(0, 1, b"no-op"), self.vote(2, 0), OpenLog(LOG)]
        yield [SaveIdentity(Identity(1, identity.disk_id, 1), self.ticket()), OpenLog(OTHER), OpenLog(DOOMED)]
        yield [self.records(LOG, 0, 1, 3), self.records(OTHER, 0, 1, 2), self.records(DOOMED, 0, 1, 1)]
        # Two appends of one group, the second of which begins a new segment.
        yield [self.records(LOG, 3, 1, 4), self.records(LOG, 7, 1, 5), CheckpointHw(LOG, 3)]
        yield [self.entries(1, 2, b"create", b"register"), self.vote(3, 1)]
        yield [TruncateLog(LOG, 9, self.ticket()), self.records(LOG, 9, 2, 2)]
        yield [self.records(LOG, 11, 2, 9, size=40), CheckpointHw(LOG, 10)]
        yield [TruncateLog(LOG, 7, self.ticket())]
        yield [self.records(LOG, 7, 3, 3), TruncateLog(OTHER, 1, self.ticket())]
        yield [TrashLog(DOOMED), self.entries(3, 3, b"delete")]
        yield [TruncateLog(RAFT_LOG, 2, self.ticket()), self.entries(2, 4, b"other", b"more")]
        self.disk.fail_next_sync(f"streams/{LOG[0]}/{LOG[1]}/")
        yield [self.records(LOG, 10, 3, 2), self.records(OTHER, 1, 3, 3)]
        yield [self.vote(4, 1)]
        yield [RebuildLog(LOG, 10)]
        yield [self.records(LOG, 10, 4, 2), CheckpointHw(OTHER, 2), CheckpointHw(LOG, 11)]
        self.disk.fail_next("append", 28, f"streams/{LOG[0]}/{LOG[1]}/")
        yield [self.records(LOG, 12, 4, 1), self.records(LOG, 13, 4, 1)]
        yield [self.records(LOG, 12, 4, 2), self.vote(4, 3), CheckpointHw(LOG, 13)]
        yield [RebuildLog(LOG, 9), OpenLog(OTHER, fresh=True)]
        yield [self.records(LOG, 9, 5, 1), self.records(OTHER, 0, 5, 1), self.vote(5, 1)]

    def group(self, *jobs: StorageJob) -> list[Event]:
        """One group through both phases, noted in the book. Armed failures are met by the script only."""
        for job in jobs:
            self.promises.submitted(job)
        events = self.engine.write(jobs)
        for job in jobs:
            self.promises.written(job)
        events += self.engine.sync()
        ticketed = (AppendLog, TruncateLog, SaveHardState, SaveIdentity)
        by_ticket = {job.ticket: job for job in jobs if isinstance(job, ticketed)}
        by_log = {job.log: job for job in jobs if isinstance(job, OpenLog | RebuildLog)}
        for event in events:
            if isinstance(event, Durable):
                self.promises.durable(by_ticket[event.ticket])
            elif isinstance(event, LogOpened):
                self.promises.opened(by_log[event.summary.log])
            else:
                assert isinstance(event, StorageFailed) and "simulated" in event.error, event
        return events

    def ticket(self) -> Ticket:
        self._ticket += 1
        return Ticket(self._ticket)

    def records(self, log: PartitionId, base: int, epoch: int, count: int, size: int = 25) -> AppendLog:
        """Values that tell where they belong and in which append they were written."""
        ticket = self.ticket()
        values = [b"%d/%d@%d #%d " % (log[0], log[1], base + i, ticket) + b"." * size for i in range(count)]
        return AppendLog(log, [batch(base, values, epoch, log)], ticket)

    def entries(self, base: int, term: int, *values: bytes) -> AppendLog:
        batches = [batch(base + i, [value], term, RAFT_LOG) for i, value in enumerate(values)]
        return AppendLog(RAFT_LOG, batches, self.ticket())

    def vote(self, term: int, voted_for: int) -> SaveHardState:
        return SaveHardState(HardState(term, voted_for), self.ticket())
