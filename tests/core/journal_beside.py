"""A model of who takes messages away, beside the newest leader of a log and of its journal, step by step.

Nodes on a scripted world whose questions about subjects the subject index itself answers (S1), in slices, a
few offsets at a time. What is committed, and what an election leaves, is told the model as it is in these:
`Publish` is left to the models, `Commit`, `CommitEntry`, `Heed` and `Elect` are the same in all. An entry of
theirs stands for all that is written at once, which may be several where the records are of several epochs.

A walk ends when one leads again that was replaced and has kept what it had then, uncommitted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from liftlog.core.replica.removal.entries import RemovedRuns, decode_entry
from liftlog.core.replica.replica import Replica
from liftlog.format import decode_records, decode_values
from liftlog.messages import (
    AlterStreamRequest,
    AppendLog,
    AskLasts,
    AskSubjects,
    DeleteMessageRequest,
    Event,
    FoldSubjects,
    Outcome,
    PurgeRequest,
    ResetLog,
    StorageJob,
    StreamChanges,
    SubjectsFolded,
    TrashLog,
    TruncateLog,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.storage.answers import LogAnswers
from liftlog.storage.subjectindexes import SubjectIndexes
from liftlog.types import Batch, PartitionId, Record
from liftlog_spec.run.stepwise import Stepper
from tests.core.beside import Disagrees
from tests.core.fake_log import Log
from tests.core.node_harness import NETWORK_S, SYNC_S, World
from tests.core.two_logs import NODES, TwoLogsBeside, mask

SLICE_BYTES = 300
"""So much of a log one job enters into the index."""


class IndexedLog:
    """A pretended log, as the subject index reads it: one segment."""

    def __init__(self, log: PartitionId, of: Log) -> None:
        self.id = log
        self.of = of

    @property
    def log_start(self) -> int:
        return self.of.log_start

    @property
    def leo(self) -> int:
        return self.of.leo

    end_offset = leo

    def segment_of(self, offset: int) -> IndexedLog:
        return self

    def read(self, offset: int, limit: int, max_bytes: int) -> list[Batch]:
        """As `storage.log.Log` does."""
        found: list[Batch] = []
        for batch in self.of.batches:
            if batch.end_offset > offset and batch.end_offset <= limit and max_bytes > 0:
                found.append(batch)
                max_bytes -= len(batch.data)
        return found


class IndexedWorld(World):
    """Its nodes have subject indexes. `answer_s`: how long one thinks; `broken`: whose cannot be made.
    Nothing is said again (R21).
    """

    def __init__(self, mutants: Mutants = NO_MUTANTS) -> None:
        self.answer_s = NETWORK_S
        self.broken = 0
        self.watch: Callable[[int, Event | None, Outcome], None] = lambda node, event, outcome: None
        self.indexes: dict[int, SubjectIndexes] = {}
        self.answers: dict[int, LogAnswers] = {}
        self.indexed: dict[tuple[int, PartitionId], IndexedLog] = {}
        super().__init__(len(NODES), mutants, restate_entries=10**6)

    def restart(self, node: int, *args: Any) -> None:
        self.indexes[node] = SubjectIndexes(None, self.mutants)
        log_of: Any = partial(self.log_of, node)
        no_disk: Any = None
        self.answers[node] = LogAnswers(no_disk, log_of, self.indexes[node], False, self.mutants)
        super().restart(node, *args)

    def observed(self, node: int, event: Event | None, outcome: Outcome) -> None:
        self.watch(node, event, outcome)

    def _store(self, node: int, job: StorageJob) -> None:
        match job:
            case FoldSubjects():
                self.post(node, self.fold(node, job), SYNC_S)
            case AskSubjects():
                self.post(node, self.answers[node].ask(job), self.answer_s)
            case AskLasts():
                self.post(node, self.answers[node].lasts(job), self.answer_s)
            case TruncateLog():
                self.indexes[node].cut(job.log, job.offset)
                super()._store(node, job)
            case ResetLog() | TrashLog():
                self.indexes[node].forget(job.log)
                super()._store(node, job)
            case _:
                super()._store(node, job)

    def log_of(self, node: int, log: PartitionId) -> Any:
        """Always the same one of the same log."""
        of = self.disks[node].logs[log]
        known = self.indexed.get((node, log))
        if known is None or known.of is not of:
            known = self.indexed[node, log] = IndexedLog(log, of)
        return known

    def fold(self, node: int, job: FoldSubjects) -> SubjectsFolded:
        if self.broken == node:
            return SubjectsFolded(job.log, 0, False, error="no room", full=True)
        return self.answers[node].fold(replace(job, max_bytes=SLICE_BYTES))


class Written(NamedTuple):
    """What was written into the journal at once: up to where, in which epoch, and what that names."""

    end: int
    epoch: int
    places: int
    said: tuple[Any, ...]


class JournalBeside(TwoLogsBeside):
    """See the module. `epochs`: of each record of the model's log. `written`: its journal."""

    DIES, STANDS_STILL = 0.35, 0.5
    world: IndexedWorld

    def __init__(self, stepper: Stepper, seed: int, made: tuple[IndexedWorld, PartitionId]) -> None:
        world, partition = made
        super().__init__(stepper, seed, world, partition)
        self.epochs: list[int] = []
        self.written: list[Written] = []
        self.node = world.leader(partition)
        """The newest leader."""
        self.leads(None)
        world.watch = self.observed

    # -- the model beside it -------------------------------------------------------------------------------

    def observed(self, node: int, event: Event | None, outcome: Outcome) -> None:
        """A node has taken a step."""
        replicas = self.world.nodes[node].replicas
        copy, journal = replicas.get(self.partition), replicas.get(self.partition.journal)
        if self.over or copy is None or journal is None:
            return
        if copy.leading is not None and journal.leading is not None and copy.epoch > self.epoch:
            self.elected(node, copy, journal)
            if self.over:
                return
        leads = node == self.node and copy.leading is not None and copy.epoch == self.epoch
        appends = [one for one in outcome.effects if isinstance(one, AppendLog)] if leads else []
        for append in appends:
            if append.log == self.partition:
                self.appended(append.batches)
        while self.value("hw") < copy.hw:
            self.take("Commit")
        while self.value("journal_hw") < self.entries(journal.hw):
            self.take("CommitEntry")
        if leads and journal.roles is not None and journal.removed is not None:
            while self.value("heeded") < self.entries(journal.removed.folded):
                self.take("Heed")
            batches = [batch for one in appends if one.log == self.partition.journal for batch in one.batches]
            self.stepped(event, journal.roles, [self.entry(batch) for batch in batches])

    def entries(self, below: int) -> int:
        """How many of the model there are below an offset of the journal."""
        return sum(one.end <= below for one in self.written)

    def entry(self, batch: Batch) -> Written:
        said = tuple(map(decode_entry, decode_values(batch)))
        runs = [run for one in said if isinstance(one, RemovedRuns) for run in one.runs]
        return Written(batch.end_offset, batch.epoch, mask(runs), said)

    def names(self, entry: Written) -> None:
        """The model has taken what was written: it is to be the same."""
        places = self.value("journal")[-1][0]
        if places != entry.places:
            raise Disagrees(f"an entry names {entry.places:b}, in the model {places:b}")
        self.written.append(entry)

    def elected(self, node: int, copy: Replica, journal: Replica) -> None:
        """Another one leads: the model has forgotten what one had that was replaced."""
        ends = {one.end: one.epoch for one in self.written}
        known = copy.leo <= len(self.epochs) and journal.leo in {0, *ends}
        if known:
            data = ((at, self.epochs[at]) for at in range(self.value("hw"), copy.leo))
            entries = ((end - 1, epoch) for end, epoch in ends.items() if end <= journal.leo)
            known = all(copy.log.history.epoch_before(at + 1) == epoch for at, epoch in data) and all(
                journal.log.history.epoch_before(at + 1) == epoch for at, epoch in entries
            )
        self.over = not known
        if known:
            self.node, self.epoch = node, copy.epoch
            heeds = journal.removed.folded if journal.removed is not None else 0
            self.take("Elect", copy.leo, self.entries(journal.leo), self.entries(heeds))
            del self.epochs[copy.leo :]
            del self.written[self.entries(journal.leo) :]
            self.leads(journal.roles)

    def appended(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            for one in decode_records(batch):
                if one.offset != len(self.epochs):
                    raise Disagrees(f"a record at {one.offset}, in the model at {len(self.epochs)}")
                self.published(one)
                self.epochs.append(batch.epoch)

    def published(self, one: Record) -> None:
        """The leader has stored one."""
        raise NotImplementedError

    def leads(self, roles: Any) -> None:
        """There is a new leader."""

    def stepped(self, event: Event | None, roles: Any, entries: list[Written]) -> None:
        """The newest leader has taken a step, in which it has written these."""
        raise NotImplementedError

    # -- what happens --------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        self.world.run_until(lambda: self.over, seconds)

    def taker(self) -> tuple[int, int]:
        """To whom publishers send, if that is no leader that was replaced; (0, 0): to nobody."""
        subscriber, epoch = self.world.subscriptions.get(self.partition, (0, 0))
        right = subscriber and epoch == self.epoch and subscriber == self.newest()
        return (subscriber, epoch) if right else (0, 0)

    def cut_front(self, leader: int) -> None:
        """The front goes as far as all of it is gone (C3)."""
        gone, end = 0, 0
        for entry in self.written[: self.value("heeded")]:
            gone |= entry.places
        while gone >> end & 1:
            end += 1
        if end > self.copy(leader).log_start:
            self.world.ask(leader, PurgeRequest(self.partition, end))

    def delete(self, leader: int) -> None:
        """One of the newest, sooner; and messages come at once."""
        end = max(1, self.copy(leader).leo)
        offset = self.random.randrange(max(0, end - 4) if self.random.random() < 0.7 else 0, end)
        self.world.ask(leader, DeleteMessageRequest(self.partition, offset))
        if self.random.random() < 0.5:
            self.put()

    def put(self) -> None:
        """Messages come."""
        raise NotImplementedError

    def ask_to_alter(self, changes: StreamChanges) -> None:
        """Somebody does."""
        self.world.ask(self.random.choice(sorted(self.world.nodes)), AlterStreamRequest("orders", changes))
        self.run(self.random.choice((0.0, 0.01, 0.1)))

    def step(self) -> None:
        """Something happens."""
        raise NotImplementedError

    def walk(self, steps: int, invariants: Sequence[str]) -> None:
        """So many steps, unless it is over before, and then all is well again."""
        for number in range(steps):
            self.step()
            if self.over:
                return
            if number % 15 == 0:
                self.hold(invariants)
        self.heal()
        self.hold(invariants)

    def heal(self) -> None:
        """All is well again, and there is time."""
        self.world.broken = 0
        self.world.answer_s = NETWORK_S
        while self.dead or self.slow or self.cut:
            self.fail()
        self.run(12.0)
