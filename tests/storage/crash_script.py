"""Scripted lives of a storage engine, and the book of what it has promised: the crash tests' two halves.

The first script creates logs, appends, rolls, cuts at and inside batches, checkpoints the HW, saves votes,
runs out of space, meets a failed sync, rebuilds, trashes and stops cleanly. The second changes complete
segments: it moves log starts, replaces segments, loses an index, resets a log, notes and clears damage, stops
cleanly and goes on. While a script runs, `Promises` notes what has been submitted (it *may* be on disk) and
what was reported durable (it *must* be). After a crash at any Disk call, what a new process recovers is held
against that book.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set

from liftlog.epochs import EpochHistory
from liftlog.format import decode_records, encode_records
from liftlog.messages import (
    AppendLog,
    CheckpointHw,
    Durable,
    Event,
    LogOpened,
    LogRead,
    LogStartMoved,
    MetadataStalled,
    MoveLogStart,
    OpenLog,
    ReadLog,
    RebuildLog,
    ResetLog,
    SaveHardState,
    SaveIdentity,
    StorageFailed,
    StorageJob,
    TrashLog,
    TruncateLog,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.storage.engine import StorageEngine
from liftlog.storage.log import Log
from liftlog.types import (
    RAFT_LOG,
    EpochStart,
    HardState,
    Identity,
    LogSummary,
    OffsetRange,
    PartitionId,
    Record,
    Recovered,
    TailState,
    Ticket,
)
from liftlog_sim.devices.disk import SimDisk
from tests.storage.storage_harness import LOG, OTHER, SMALL, batch, open_log

Content = tuple[int, bytes]
"""Epoch and value of a record."""

DOOMED = PartitionId(9, 0)


def read_all(
    engine: StorageEngine, log: PartitionId, log_start: int = 0, damage: tuple[OffsetRange, ...] = ()
) -> dict[int, Content]:
    """Every record of a log by offset, read through the engine in small portions, but for known damage."""
    found: dict[int, Content] = {}
    offset = log_start
    while True:
        (event,) = engine.write([ReadLog(log, 1, offset, 1 << 60, 300)])
        assert isinstance(event, LogRead), event
        if event.damage in damage:
            assert event.damage is not None
            offset = event.damage.end
            continue
        assert event.error == "", event
        if not event.batches:
            return found
        for one in event.batches:
            for record in decode_records(one):
                if record.offset >= log_start:
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
        self.starts = {0}
        """Where the log may start."""
        self.damage: list[tuple[OffsetRange, ...]] = [()]
        """What may be called damaged."""
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
        elif isinstance(job, ResetLog):
            self.logs[job.log].cut(0)
            self.logs[job.log].starts.add(job.start)
        elif isinstance(job, MoveLogStart):
            self.logs[job.log].starts.add(job.offset)
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
        elif isinstance(job, ResetLog):
            promise = self.logs[job.log]
            # What lies below the new start is committed: the leader has let it go.
            greatest_hw = min(promise.greatest_hw, job.start)
            promise.forget()
            promise.greatest_hw = greatest_hw
            promise.starts = {job.start}
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
        if summary.log_start not in promise.starts:
            return f"log start {summary.log_start} is none of {promise.starts}"
        if summary.damage not in promise.damage:
            return f"damage {summary.damage} is none of {promise.damage}"
        contents = read_all(engine, summary.log, summary.log_start, summary.damage)
        lost = [offset for one in summary.damage for offset in range(*one)]
        if sorted([*contents, *lost]) != list(range(summary.log_start, summary.leo)):
            return f"offsets {sorted(contents)} are not those from {summary.log_start} to {summary.leo}"
        history = EpochHistory(summary.epochs)
        for offset, (epoch, _) in contents.items():
            if history.epoch_before(offset + 1) != epoch:
                return f"epoch history {summary.epochs}, the record at {offset} has epoch {epoch}"
        for epoch, start in summary.epochs:
            if start >= summary.log_start and start not in lost and contents[start][0] != epoch:
                return f"epoch history {summary.epochs}: nothing of epoch {epoch} is at {start}"
        return self._broken_content(promise, contents, {*range(summary.log_start), *lost})

    @staticmethod
    def _broken_content(
        promise: LogPromise, contents: dict[int, Content], gone: Set[int] = frozenset()
    ) -> str:
        for offset, content in promise.must.items():
            if offset not in gone and contents.get(offset) != content:
                return f"offset {offset} holds {contents.get(offset)}, durable was {content}"
        for offset, content in contents.items():
            if content not in promise.may.get(offset, set()):
                return f"offset {offset} holds {content}, which nobody wrote there"
        return ""


Step = list[StorageJob] | Callable[[], None]
"""One group of jobs, or something that no job of the core does."""


class Life:
    """One run of the script on a disk, with its book."""

    def __init__(self, disk: SimDisk, mutants: Mutants = NO_MUTANTS) -> None:
        self.disk = disk
        self.promises = Promises()
        self.engine = StorageEngine(disk, SMALL, mutants)
        self._mutants = mutants
        self._ticket = 0
        self._crash_at = 0

    def crash_after(self, calls: int) -> None:
        """The process dies instead of its `calls`-th Disk call, in this or a later process of this life."""
        self._crash_at = self.disk.calls + calls
        self.disk.crash_after(calls)

    def run(self) -> None:
        """The whole script. Raises SimulatedCrash where the disk was told to crash."""
        self.promises.identities = []
        identity = self.engine.recover(1, "disk-1", 1).identity
        self.promises.identities = [identity]
        for step in self._script(identity):
            if isinstance(step, list):
                self.group(*step)
            else:
                step()
        self.engine.close(clean=True)
        self.promises.clean = True

    def _script(self, identity: Identity) -> Iterator[Step]:
        yield [self.vote(1, 2)]
        yield [self.entries(0, 1, b"no-op"), self.vote(2, 0), open_log(LOG)]
        yield [
            SaveIdentity(Identity(1, identity.disk_id, 1), self.ticket()),
            open_log(OTHER),
            open_log(DOOMED),
        ]
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
        yield [RebuildLog(LOG, 9), open_log(OTHER, fresh=True)]
        yield [self.records(LOG, 9, 5, 1), self.records(OTHER, 0, 5, 1), self.vote(5, 1)]

    def group(self, *jobs: StorageJob) -> list[Event]:
        """One group through both phases, noted in the book. Armed failures are met by the script only."""
        for job in jobs:
            self.promises.submitted(job)
        events = self.engine.write(jobs)
        for job in jobs:
            self.promises.written(job)
        events += self.engine.sync()
        ticketed = (AppendLog, TruncateLog, ResetLog, SaveHardState, SaveIdentity)
        by_ticket = {job.ticket: job for job in jobs if isinstance(job, ticketed)}
        by_log = {job.log: job for job in jobs if isinstance(job, OpenLog | RebuildLog)}
        moves = {job.log: job for job in jobs if isinstance(job, MoveLogStart)}
        for event in events:
            if isinstance(event, Durable):
                self.promises.durable(by_ticket[event.ticket])
            elif isinstance(event, LogOpened):
                self.promises.opened(by_log[event.summary.log])
            elif isinstance(event, LogStartMoved):
                assert event.log_start == moves[event.log].offset
                self.promises.logs[event.log].starts = {event.log_start}
            else:
                assert isinstance(event, StorageFailed | MetadataStalled), event
                assert "simulated" in event.error, event
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


class SegmentLife(Life):
    """Changes of complete segments: start, reset, replacement, index, damage, and a clean stop amid it."""

    may_fail = False
    """A Disk call fails that the script has not planned."""

    def _script(self, identity: Identity) -> Iterator[Step]:
        yield [open_log(LOG), self.entries(0, 1, b"no-op")]
        yield [self.records(LOG, 0, 1, 3, 60), self.records(LOG, 3, 1, 4, 60), self.records(LOG, 7, 1, 3, 60)]
        yield [self.records(LOG, 10, 2, 4), self.records(LOG, 14, 2, 4), self.records(LOG, 18, 2, 4)]
        # Inside a batch, and then to where a segment ends.
        yield [MoveLogStart(LOG, 5), CheckpointHw(LOG, 14)]
        yield lambda: self._replace(1, 3)
        yield [MoveLogStart(LOG, 7), self.records(LOG, 22, 2, 3)]
        yield self._restart
        yield [self.records(LOG, 25, 3, 4), self.records(LOG, 29, 3, 5)]
        yield self._lose_index
        yield lambda: self._replace(0, 2)
        yield lambda: self._damage(OffsetRange(25, 29))
        yield [self.records(LOG, 34, 3, 2)]
        yield self._repair
        yield [TruncateLog(LOG, 20, self.ticket())]
        yield [self.records(LOG, 20, 4, 4), self.records(LOG, 24, 4, 3)]
        yield [ResetLog(LOG, 50, (EpochStart(1, 0), EpochStart(4, 20), EpochStart(5, 40)), self.ticket())]
        yield [self.records(LOG, 50, 5, 3), self.records(LOG, 53, 6, 4)]
        # Everything goes, also what lies in the segment that grows.
        yield [MoveLogStart(LOG, 57), self.records(LOG, 57, 6, 2)]
        self.disk.fail_next_sync(f"streams/{LOG[0]}/{LOG[1]}/{57:020d}.log")
        yield [self.records(LOG, 59, 7, 2)]
        yield [RebuildLog(LOG, 59)]
        yield [self.records(LOG, 59, 8, 4), self.records(LOG, 63, 8, 3)]

    def _log(self) -> Log:
        return self.engine._logs[LOG]

    def _replace(self, first: int, after: int) -> None:
        """Complete segments [first, after) become one file with one batch for each epoch."""
        log = self._log()
        old = log.sealed[first:after]
        assert len(old) == after - first
        by_epoch: dict[int, list[Record]] = {}
        for segment in old:
            position = 0
            while position < segment.size:
                batches, position = log.read_segment(segment, position, 200)
                for one in batches:
                    by_epoch.setdefault(one.epoch, []).extend(decode_records(one))
        writer = log.segment_writer(old[0].base_offset)
        for epoch, records in by_epoch.items():
            writer.append([encode_records(LOG, epoch, records)])
        assert log.replace_sealed(old, writer)
        assert log.sealed[first].size < sum(segment.size for segment in old)

    def _lose_index(self) -> None:
        """Somebody removes the index of a complete segment: the next one to read makes it anew."""
        segment = self._log().sealed[0]
        self.disk.remove(segment.index_path)
        self._log()._indexes.forget(segment)
        assert len(segment.index) and (self.may_fail or self.disk.exists(segment.index_path))

    def _damage(self, lost: OffsetRange) -> None:
        promise = self.promises.logs[LOG]
        promise.damage = [(), (lost,)]
        self._log().note_damage(lost)
        promise.damage = [(lost,)]

    def _repair(self) -> None:
        promise = self.promises.logs[LOG]
        (damage,) = promise.damage
        promise.damage = [damage, ()]
        self._log().clear_damage(damage[0])
        promise.damage = [()]

    def _restart(self) -> None:
        """Stop cleanly, and go on in another process, which may be the one that dies."""
        self.engine.close(clean=True)
        self.promises.clean = True
        self.disk.kill()
        if self._crash_at:
            self.disk.crash_after(self._crash_at - self.disk.calls)
        self.promises.clean = False
        self.engine = StorageEngine(self.disk, SMALL, self._mutants)
        found = self.engine.recover(1, "disk-1", 2)
        if not self.may_fail:
            assert found.clean and self.promises.broken(self.engine, found) == ""
