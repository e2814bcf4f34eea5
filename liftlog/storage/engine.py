"""Storage of one node: carries out the core's storage jobs on a Disk, the same code in both worlds.

A *group* of jobs goes through two phases. `write` carries out the writes of all jobs, in order; `sync` then
makes them durable with one sync per touched file, however many jobs touched it (group commit). Between the
two, and at any call within, the process may die (D4). A ticket is reported durable only by `sync`, in the
order of the jobs.

    write([AppendLog a, AppendLog a, SaveHardState]) ->  events of jobs that need no sync, or that failed
    sync()                                           ->  Durable x 3

State files follow the same two phases: the temporary file is written in the first, synced and renamed in the
second. Truncation, opening, rebuilding and trashing are durable before the next job, since later jobs stand
on them.

Failures stay with the log they belong to: see `liftlog.storage.log`. Nothing here raises for a disk that
fails; an `InvariantViolation` means that the core asked for something that cannot be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from liftlog.messages import (
    AppendLog,
    AskLasts,
    AskSubjects,
    CheckpointHw,
    CompactLog,
    ConfigureLog,
    Durable,
    Event,
    FoldSubjects,
    InstallSnapshot,
    LogOpened,
    LogStartMoved,
    LookupTime,
    MetadataStalled,
    MoveLogStart,
    OpenLog,
    ReadLog,
    RebuildLog,
    RepairLog,
    ResetLog,
    RetainLog,
    RetryMetadata,
    SaveHardState,
    SaveIdentity,
    SaveSnapshot,
    ScrubLog,
    SnapshotRefused,
    StorageFailed,
    StorageJob,
    TrashLog,
    TruncateLog,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.ports import Disk, DiskFile, SyncFailed
from liftlog.storage import startup
from liftlog.storage.answers import LogAnswers
from liftlog.storage.checkpoints import HwCheckpoints
from liftlog.storage.creation import create_logs, openings_together
from liftlog.storage.indexes import Indexes
from liftlog.storage.inventory import Inventory
from liftlog.storage.layout import (
    CLEAN,
    IDENTITY,
    SNAPSHOT,
    TRASH,
    VOTE,
    log_directory,
    make_directory_durable,
    next_number,
    parent,
)
from liftlog.storage.log import AppendRefused, Failure, Log, StorageOptions
from liftlog.storage.retention import new_start
from liftlog.storage.sealing import Sealer
from liftlog.storage.segment import BadBytes
from liftlog.storage.snapshots import InstallationCut, SnapshotFile, install
from liftlog.storage.statefile import PreparedState, write_state
from liftlog.storage.subjectindexes import SubjectIndexes
from liftlog.storage.unsynced import Unsynced, is_metadata
from liftlog.storage.upkeep import SegmentUpkeep
from liftlog.storage.verdict import WORTH_TELLING, clear_verdict
from liftlog.types import (
    NO_TICKET,
    RAFT_LOG,
    Identity,
    LiftlogError,
    LogOptions,
    LogSummary,
    PartitionId,
    Recovered,
    RetentionPolicy,
    Ticket,
    invariant,
)

_encode = msgspec.msgpack.encode


class StorageEngine:
    """One per node. Call `recover` first; then groups of `write` and `sync`; at the end `close`."""

    def __init__(
        self,
        disk: Disk,
        options: StorageOptions | None = None,
        mutants: Mutants = NO_MUTANTS,
        sealer: Sealer | None = None,
        take_over_open_logs: bool = False,
    ) -> None:
        """`sealer`: encrypts what lies on disk; None = it lies there as it travels. `take_over_open_logs`:
        believe what a folder holds to which the key comes only now.
        """
        self._take_over = take_over_open_logs
        self._disk = disk
        self._options = options or StorageOptions()
        self._mutants = mutants
        self._sealer = sealer
        self._indexes = Indexes(disk, self._options.index_entries, mutants=mutants)
        self._logs: dict[PartitionId, Log] = {}
        self._subjects = SubjectIndexes(disk if sealer is None else None, mutants)
        self._upkeep = SegmentUpkeep(disk, mutants, self._subjects)
        self._questions = LogAnswers(disk, self._log, self._subjects, sealer is None, mutants)
        self._inventory = Inventory(disk)
        self._identity = Identity(0, "")
        self._with_verdicts: list[Log] = []
        """Logs whose tail the metadata group has not heard of yet."""
        self._pending: list[Unsynced] = []
        self._held_back: list[StorageJob | Unsynced] = []
        """Metadata that the disk refused to write, and what came behind it; bounded by what Raft has out."""
        self._resumed = False
        """What was held back is written; the next sync tells whether it is durable."""
        self._states: dict[str, PreparedState] = {}
        self._state_failures: dict[str, Failure] = {}
        self._snapshot = SnapshotFile(disk, sealer)
        self._checkpoints = HwCheckpoints(disk, mutants, self._logs, {})
        self._doubtful = False
        """A sync of a state file or of a folder failed: the next start must not trust what it reads (R5)."""
        self._handlers: dict[type, Callable[[Any], Event | None]] = {
            AppendLog: self._append,
            TruncateLog: self._truncate,
            ReadLog: self._questions.read,
            LookupTime: self._questions.lookup_time,
            FoldSubjects: self._questions.fold,
            AskSubjects: self._questions.ask,
            AskLasts: self._questions.lasts,
            ConfigureLog: self._configure,
            ResetLog: self._reset,
            MoveLogStart: self._move_start,
            RetainLog: self._retain,
            CompactLog: self._keep_up,
            ScrubLog: self._keep_up,
            RepairLog: self._keep_up,
            RebuildLog: self._rebuild,
            TrashLog: lambda job: self._move_to_trash(job.log, job.ticket),
            CheckpointHw: self._checkpoint_hw,
            SaveHardState: self._save_hard_state,
            SaveIdentity: self._save_identity,
            SaveSnapshot: self._save_snapshot,
            InstallSnapshot: self._install_snapshot,
            RetryMetadata: self._retry,
        }

    def recover(self, node: int, new_disk_id: str, nonce: int) -> Recovered:
        """Lock the folder, read and repair what is there, make durable what is kept (R7, R14, M4).

        On an empty disk an identity with `new_disk_id` is created. Raises LiftlogError that names the file
        and the remedy: another process has the folder, it belongs to another node, metadata is damaged, the
        disk fails.
        """
        found = startup.recover(
            self._disk,
            self._options,
            self._mutants,
            self._sealer,
            self._indexes,
            node=node,
            new_disk_id=new_disk_id,
            take_over_open_logs=self._take_over,
        )
        self._logs = found.logs
        self._checkpoints = HwCheckpoints(self._disk, self._mutants, self._logs, found.hw)
        self._subjects.key = nonce
        self._inventory = found.inventory
        self._identity = found.identity
        self._with_verdicts = [log for log in found.logs.values() if log.tail in WORTH_TELLING]
        return Recovered(
            identity=found.identity,
            hard_state=found.hard_state,
            raft_entries=found.raft_entries,
            raft_base=found.raft_base,
            snapshot=found.snapshot,
            logs=[self._summary(log) for log in found.logs.values() if log.id != RAFT_LOG],
            clean=found.clean,
            nonce=nonce,
            renewed=found.renewed,
        )

    def log_ends(self) -> dict[PartitionId, tuple[int, int]]:
        """(LEO, durable LEO) of every open log: for inspection."""
        return {log.id: (log.leo, log.durable_leo) for log in self._logs.values()}

    def log_options(self) -> dict[PartitionId, LogOptions]:
        """How every open log is written: for inspection."""
        return {log.id: log.options for log in self._logs.values()}

    def log_bytes(self, log: PartitionId) -> int:
        """Bytes of a log's segments; 0 if it is not open. May be asked from another thread."""
        return 0 if (found := self._logs.get(log)) is None else found.size_bytes

    def _summary(self, log: Log) -> LogSummary:
        """What the core is told of a log. Raises LiftlogError if the disk does not let us find that out."""
        try:
            return self._upkeep.described(log, self._checkpoints.of(log))
        except OSError as error:
            raise LiftlogError(f"log {log.id}: {error}; make space or replace the disk") from error

    # ----- the two phases -----

    def write(self, jobs: Sequence[StorageJob]) -> list[Event]:
        """Phase 1: carry out the writes of a group, in order.

        Returns the answers of jobs that wait for no sync, and the failures. Raises InvariantViolation.
        """
        events: list[Event] = []
        handlers = self._handlers
        for job in openings_together(jobs):
            if isinstance(job, dict):
                events += self._open(job)
                continue
            if self._held_back and is_metadata(job):
                self._held_back.append(job)
                continue
            event = handlers[type(job)](job)
            if type(event) is StorageFailed and event.log == RAFT_LOG and not event.sync:
                event = self._hold_back(job, event)
            if event is not None:
                events.append(event)
        return events

    def _hold_back(self, job: StorageJob, refused: StorageFailed) -> Event:
        """D5: the disk takes no metadata now. What follows waits behind it: the core relies on the order."""
        if self._mutants.refused_metadata_counts:
            return Durable(refused.ticket)
        self._held_back.append(job)
        return MetadataStalled(refused.error)

    def _retry(self, job: RetryMetadata) -> Event | None:
        """Write what was held back, in order, as far as the disk lets us."""
        waiting, self._held_back = self._held_back, []
        self._resumed = bool(waiting)
        for number, held in enumerate(waiting):
            event = self._again(held) if isinstance(held, Unsynced) else self._handlers[type(held)](held)
            if isinstance(event, StorageFailed):
                self._resumed = False
                if event.sync:
                    return event
                self._held_back = waiting[number:]
                return None
        return None

    def _again(self, held: Unsynced) -> Event | None:
        """A state file is written anew: what a sync that failed was about is never synced once more (R5)."""
        if held.log is None:
            return self._save(held.path, held.content, held.ticket)
        self._pending.append(held)
        return None

    def is_quick(self, job: StorageJob) -> bool:
        """Whether this is a plain append to a segment that stays the last one."""
        if type(job) is not AppendLog or job.dropped_below >= 0 or self._held_back:
            return False
        log = self._logs.get(job.log)
        return log is not None and log.failure is None and not log.rolls(job.batches)

    def unsynced(self, logs: Collection[PartitionId]) -> list[DiskFile] | None:
        """The files that `sync_logs` will sync; None if state files are to be put in place first."""
        if self._states or self._snapshot.prepared or self._checkpoints.changed:
            return None
        found = {one.log.id: one.log for one in self._pending if one.log is not None and one.log.id in logs}
        return [log.growing_file for log in found.values() if log.must_sync]

    def sync_logs(self, logs: Collection[PartitionId]) -> list[Event]:
        """Phase 2 of a group of plain appends to these logs alone: what others wait for stays as it is."""
        pending, self._pending = self._pending, []
        mine: list[Unsynced] = []
        for waiting in pending:
            of_them = waiting.log is not None and waiting.log.id in logs
            (mine if of_them or self._mutants.one_sync_answers_all else self._pending).append(waiting)
            if of_them and waiting.log is not None and waiting.log.must_sync:
                self._sync_log(waiting.log)
        return self._answers(mine)

    def sync(self) -> list[Event]:
        """Phase 2: make the group durable; every pending ticket is answered, in the order of the jobs."""
        pending, self._pending = self._pending, []
        for waiting in pending:
            if waiting.log is not None and waiting.log.must_sync:
                self._sync_log(waiting.log)
        self._commit_states()
        self._checkpoints.sync()
        events = self._answers(pending)
        self._state_failures.clear()
        return events

    def _answers(self, pending: list[Unsynced]) -> list[Event]:
        """What became of each ticket. D5: a state file that could not be put in place is held back, and with
        it all metadata behind it.
        """
        events: list[Event] = []
        held: list[StorageJob | Unsynced] = []
        refused = ""
        for waiting in pending:
            log = waiting.log
            failure = self._state_failures.get(waiting.path) if log is None else log.failure
            if waiting.path == SNAPSHOT and failure is not None:
                # Nobody's word rests on it: refused, it changes nothing.
                events.append(SnapshotRefused(waiting.ticket, failure.error))
                continue
            if log is None and self._mutants.refused_metadata_counts:
                failure = None
            if waiting.is_metadata and (held or (log is None and failure is not None)):
                held.append(waiting)
                refused = refused or (failure.error if failure is not None else "")
            elif failure is None:
                events.append(Durable(waiting.ticket))
            else:
                name = RAFT_LOG if log is None else log.id
                events.append(StorageFailed(name, waiting.ticket, failure.sync, failure.error))
        if held:
            self._held_back = held + self._held_back
            events.append(MetadataStalled(refused))
        elif self._resumed:
            events.append(MetadataStalled(""))
        self._resumed = False
        return events

    def close(self, clean: bool) -> None:
        """Stop. `clean`: sync what is left, then write the clean-stop marker unless a sync failed (R14)."""
        self._upkeep.close()
        if clean:
            self.sync()
            for log in self._logs.values():
                self._sync_log(log)
            if not self._doubtful and all(log.failure is None for log in self._logs.values()):
                for log in self._logs.values():
                    # What cannot be written now is scanned by the next start.
                    with suppress(OSError):
                        log.write_last_index()
                marker = [log.marker for log in self._logs.values()]
                # Without the marker the next start takes this stop for an unclean one, which is always safe.
                with suppress(OSError):
                    write_state(self._disk, CLEAN, _encode(marker))
        for log in self._logs.values():
            log.close()

    def _sync_log(self, log: Log) -> None:
        failure = self._attempt(log.sync)
        if failure is not None:
            log.fail(failure)

    def _commit_states(self) -> None:
        for path, state in self._states.items():
            failure = self._attempt(state.commit)
            if failure is not None:
                self._state_failures[path] = failure
                self._doubtful |= failure.sync
            elif path == IDENTITY:
                self._clear_verdicts()
        self._states.clear()
        if self._snapshot.prepared and (failure := self._attempt(self._snapshot.commit)) is not None:
            self._state_failures[SNAPSHOT] = failure
            self._doubtful |= failure.sync

    def _attempt(self, work: Callable[[], None]) -> Failure | None:
        """Do it once: a sync that failed would succeed the second time without having done anything (R5)."""
        failure = None
        for _ in range(2 if self._mutants.sync_failure_retried else 1):
            try:
                work()
            except OSError as error:
                failure = Failure(isinstance(error, SyncFailed), str(error))
            else:
                return None
        return failure

    # ----- jobs on one log -----

    def _failed(self, log: PartitionId, ticket: Ticket, failure: Failure) -> StorageFailed:
        return StorageFailed(log, ticket, failure.sync, failure.error)

    def _log(self, log: PartitionId) -> Log | Failure:
        """The open log, or why it cannot be used."""
        found = self._logs.get(log)
        if found is None:
            return Failure(False, f"log {log} is not open")
        return found.failure or found

    def _append(self, job: AppendLog) -> Event | None:
        log = self._log(job.log)
        if isinstance(log, Failure):
            return self._failed(job.log, job.ticket, log)
        try:
            if job.dropped_below >= 0:
                self._upkeep.copied(log, job.dropped_below)
            log.append(job.batches)
        except SyncFailed as unsynced:
            return self._fail(log, job.ticket, unsynced)
        except (AppendRefused, OSError) as error:
            return StorageFailed(job.log, job.ticket, False, str(error))
        self._pending.append(Unsynced(job.ticket, log))
        return None

    def _fail(self, log: Log, ticket: Ticket, error: Exception) -> Event:
        """The log cannot go on: this job fails, and with it every other one that stands on it (R5)."""
        failure = Failure(True, str(error))
        log.fail(failure)
        return self._failed(log.id, ticket, failure)

    def _truncate(self, job: TruncateLog) -> Event | None:
        log = self._log(job.log)
        if isinstance(log, Failure):
            return self._failed(job.log, job.ticket, log)
        try:
            self._checkpoints.lower(log.id, job.offset)
            self._upkeep.cut(log, job.offset)
            log.truncate(job.offset)
        except (OSError, BadBytes, LiftlogError) as error:
            return self._fail(log, job.ticket, error)
        self._pending.append(Unsynced(job.ticket, log))
        return None

    def _configure(self, job: ConfigureLog) -> Event | None:
        if not isinstance(log := self._log(job.log), Failure):
            self._set_options(log, job.options)
        return None

    def _set_options(self, log: Log, options: LogOptions) -> None:
        failure = self._attempt(lambda: log.configure(options))
        if failure is not None:
            log.fail(failure)

    def _reset(self, job: ResetLog) -> Event | None:
        log = self._log(job.log)
        if isinstance(log, Failure):
            return self._failed(job.log, job.ticket, log)
        try:
            self._checkpoints.lower(log.id, job.start)
            self._upkeep.forget(log.id)
            log.reset(job.start, job.epochs)
        except OSError as error:
            return self._fail(log, job.ticket, error)
        self._pending.append(Unsynced(job.ticket, log))
        return None

    def _move_start(self, job: MoveLogStart) -> Event | None:
        log = self._log(job.log)
        if isinstance(log, Failure):
            return self._failed(job.log, NO_TICKET, log)
        try:
            log.move_start(job.offset)
        except SyncFailed as unsynced:
            return self._fail(log, NO_TICKET, unsynced)
        except OSError as error:
            # Behind its next snapshot the group's log is asked to again.
            return None if log.id == RAFT_LOG else StorageFailed(job.log, NO_TICKET, False, str(error))
        return None if log.id == RAFT_LOG else LogStartMoved(job.log, log.log_start)

    def _retain(self, job: RetainLog) -> Event | None:
        log = self._log(job.log)
        policy = job.policy
        if self._mutants.retention_keeps_half:
            half_bytes, half_messages = policy.retention_bytes // 2, policy.retention_messages // 2
            policy = RetentionPolicy(policy.retention_ms // 2, half_bytes, half_messages)
        if self._mutants.retention_counts_uncommitted and policy.retention_messages:
            uncommitted = 0 if isinstance(log, Failure) else log.leo - job.limit
            kept = max(1, policy.retention_messages - uncommitted)
            policy = RetentionPolicy(policy.retention_ms, policy.retention_bytes, kept)
        limits = job.limit, job.now_ms, job.needed_from, job.gone_below
        start = 0 if isinstance(log, Failure) else new_start(log, policy, *limits)
        return self._move_start(MoveLogStart(job.log, start))

    def _keep_up(self, job: CompactLog | ScrubLog | RepairLog) -> Event:
        log = self._log(job.log)
        if isinstance(log, Failure):
            return self._failed(job.log, NO_TICKET, log)
        if isinstance(job, CompactLog):
            return self._upkeep.compact(log, job)
        return self._upkeep.scrub(log, job) if isinstance(job, ScrubLog) else self._upkeep.repair(log, job)

    def _open(self, jobs: Mapping[PartitionId, OpenLog]) -> list[Event]:
        """Logs on disk were opened by `recover`; here they are told of again, or created, all at once."""
        new = {log: job for log, job in jobs.items() if job.fresh or log not in self._logs}
        # What a failed move to the trash left behind must not become part of the new log.
        failed = {log: problem for log in new if (problem := self._move_to_trash(log)) is not None}
        wanted = {log: job for log, job in new.items() if log not in failed}
        made = create_logs(self._disk, wanted, self._inventory, self._sealer, self._indexes)
        for log, found in made.items():
            if isinstance(found, Log):
                self._logs[log] = found
            else:
                failed[log] = StorageFailed(log, NO_TICKET, isinstance(found, SyncFailed), str(found))
        return [failed[log] if log in failed else self._opened(job, log in made) for log, job in jobs.items()]

    def _opened(self, job: OpenLog, new: bool) -> Event:
        log = self._logs[job.log]
        if not new and log.failure is None:
            self._set_options(log, job.options)
            if log.failure is None:
                self._sync_log(log)
        if log.failure is not None:
            return self._failed(job.log, NO_TICKET, log.failure)
        try:
            return LogOpened(self._summary(log))
        except LiftlogError as error:
            return StorageFailed(job.log, NO_TICKET, False, str(error))

    def _rebuild(self, job: RebuildLog) -> Event:
        log = self._logs.get(job.log)
        if log is None:
            return StorageFailed(job.log, NO_TICKET, False, f"log {job.log} is not open")
        if not job.in_doubt and log.failure is None:
            return self._cut_off(log, job.keep_below)
        log.fail(log.failure or Failure(True, "the log was rebuilt"))
        try:
            self._checkpoints.lower(log.id, job.keep_below)
            self._upkeep.cut(log, job.keep_below)
            self._logs[job.log] = rebuilt = log.rebuild(job.keep_below)
            return LogOpened(self._summary(rebuilt))
        except (OSError, BadBytes, LiftlogError) as error:
            return StorageFailed(job.log, NO_TICKET, isinstance(error, SyncFailed), str(error))

    def _cut_off(self, log: Log, keep_below: int) -> Event:
        """D5: the log goes on where it is. If even that is refused, it is rebuilt at the next attempt."""
        try:
            self._checkpoints.lower(log.id, keep_below)
            self._upkeep.cut(log, keep_below)
            log.truncate(keep_below)
            log.sync()
            return LogOpened(self._summary(log))
        except (OSError, BadBytes, LiftlogError) as error:
            return self._fail(log, NO_TICKET, error)

    def _move_to_trash(self, log: PartitionId, ticket: Ticket = NO_TICKET) -> Event | None:
        """I1: nothing is deleted at once; the folder moves away under a name of its own, durably."""
        open_log = self._logs.pop(log, None)
        self._upkeep.forget(log)
        if open_log is not None:
            open_log.fail(Failure(False, f"log {log} was moved to the trash"))
            open_log.close()
        directory = log_directory(log)
        try:
            self._inventory.remove(log)
            self._checkpoints.forget(log)
            if self._disk.exists(directory):
                make_directory_durable(self._disk, TRASH)
                number = next_number(self._disk, TRASH)
                self._disk.rename(directory, f"{TRASH}/{number:06d}-{str(log).replace('/', '-')}")
                self._disk.sync_directory(TRASH)
                self._disk.sync_directory(parent(directory))
        except OSError as error:
            self._doubtful = True
            return StorageFailed(log, ticket, isinstance(error, SyncFailed), str(error))
        return Durable(ticket) if ticket != NO_TICKET else None

    # ----- state files -----

    def _checkpoint_hw(self, job: CheckpointHw) -> Event | None:
        self._checkpoints.put(job.log, job.hw)
        return None

    def _save_hard_state(self, job: SaveHardState) -> Event | None:
        return self._save(VOTE, _encode(job.state), job.ticket)

    def _save_identity(self, job: SaveIdentity) -> Event | None:
        invariant(job.identity.disk_id == self._identity.disk_id, "a disk keeps its id for life (I2)")
        self._identity = job.identity
        return self._save(IDENTITY, _encode(job.identity), job.ticket)

    def _save_snapshot(self, job: SaveSnapshot) -> Event | None:
        """Durable after the log up to its end is, which is synced before it in this group at the latest."""
        if self._held_back:
            return SnapshotRefused(job.ticket, "the disk does not take metadata at present")
        try:
            self._snapshot.prepare(job.snapshot)
        except OSError as error:
            return SnapshotRefused(job.ticket, str(error))
        self._pending.append(Unsynced(job.ticket, None, SNAPSHOT))
        return None

    def _install_snapshot(self, job: InstallSnapshot) -> Event | None:
        log = self._log(RAFT_LOG)
        if isinstance(log, Failure):
            return self._failed(RAFT_LOG, job.ticket, log)
        if self._snapshot.prepared:
            self._state_failures[SNAPSHOT] = Failure(False, "a newer one is installed")
        try:
            install(self._snapshot, log, self._checkpoints, job)
        except InstallationCut as cut:
            return self._fail(log, job.ticket, cut)
        except OSError as error:
            self._doubtful |= isinstance(error, SyncFailed)
            return StorageFailed(RAFT_LOG, job.ticket, False, str(error))
        self._pending.append(Unsynced(job.ticket, log))
        return None

    def _save(self, path: str, content: bytes, ticket: Ticket) -> Event | None:
        """The last of several contents of one group wins; all their tickets are durable with it."""
        try:
            self._states[path] = PreparedState(self._disk, path, content, self._states.get(path))
        except OSError as error:
            return StorageFailed(RAFT_LOG, ticket, False, str(error))
        self._pending.append(Unsynced(ticket, None, path, content))
        return None

    def _clear_verdicts(self) -> None:
        """A new incarnation is durable: the metadata group has heard of the tails that this start found."""
        for log in self._with_verdicts:
            if self._logs.get(log.id) is log:
                # If it cannot be removed, the next start tells the same once more: safe.
                with suppress(OSError):
                    clear_verdict(self._disk, log.id)
        self._with_verdicts = []
