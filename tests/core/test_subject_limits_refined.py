"""Every step of a leader that keeps so many messages of a subject, held against `subject_limits` (R22).

Nodes on a scripted world, a random walk of publishers over few subjects, of deletions and purges by subject,
of limits that are altered and lifted, of an index that is slow, behind or not to be made, of a front that
goes when all of it is gone, of nodes that die, are cut off in one log or both, or do not come to sync, and
time.
After each step of the newest leader the model takes what it has done: what it heeds, up to where it has
looked, its look and its question have to be the model's, and what it writes has to name the same.

Answers come from the subject index itself, a few offsets at a time (S1). At the end all is well again; then
the newest leader has looked at everything, and no subject has too many.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from msgspec import UNSET

from liftlog.core.replica.removal.subjectlimits import SubjectLimits
from liftlog.core.replica.removal.subjectpurge import SubjectPurges
from liftlog.messages import (
    ClientRequest,
    Event,
    Published,
    PurgeSubjectsRequest,
    StreamChanges,
    SubjectsFolded,
    SubjectsTold,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.types import NO_OFFSET, Message, PartitionId, Record
from liftlog_spec.models.subject_limits import LimitsBySubject
from liftlog_spec.run.stepwise import Stepper
from tests.core.beside import Disagrees, counted, planted
from tests.core.journal_beside import IndexedWorld, JournalBeside, Written
from tests.core.two_logs import with_journal

SUBJECTS = (b"a", b"b", b"c")
ANY = ">"
MODEL = LimitsBySubject(
    Records=70,
    Entries=200,
    Subjects=len(SUBJECTS),
    Limit=2,
    Epochs=10**6,
    Deletes=10**6,
    Alterations=10**6,
)
STEPPER = Stepper(MODEL)
INVARIANTS = tuple(one.name for one in MODEL.invariants)
STEPS = 80


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an index answers at once, and what its start moves."""
    monkeypatch.setattr("liftlog.storage.subjectindexes.STEP_OFFSETS", 5)
    monkeypatch.setattr("liftlog.core.replica.removal.subjectlimits.RUNS_MAX", 2)


def opened(mutants: Mutants, keeps: int) -> tuple[IndexedWorld, PartitionId]:
    """A cluster with one stream that keeps so many messages of a subject."""
    world = IndexedWorld(mutants)
    return world, with_journal(world, max_messages_per_subject=keeps or UNSET)


class Limits(NamedTuple):
    """What a leader knew after a step, and what its purge did."""

    keep: int = 0
    at: int = 0
    until: int = 0
    done: int = 0
    asked: int = 0
    purge_asked: int = 0
    purge_at: int = 0


class LimitedWorld(JournalBeside):
    """See the module."""

    def __init__(self, seed: int, mutants: Mutants = NO_MUTANTS) -> None:
        self.before = Limits()
        self.abandoned = 0
        """The question whose answer nobody waits for."""
        self.purge: Any = None
        self.known = 0
        """Of the newest leader's purge, and how far it had heeded the journal when it asked last."""
        super().__init__(STEPPER, seed, opened(mutants, 2))

    # -- the model beside it -------------------------------------------------------------------------------

    def published(self, one: Record) -> None:
        self.take("Publish", SUBJECTS.index(one.subject))

    def leads(self, roles: Any) -> None:
        self.before = Limits()
        self.abandoned, self.purge = 0, None

    def stepped(self, event: Event | None, roles: Any, entries: list[Written]) -> None:
        limits, purges = roles.limits, roles.subject_purges
        before, self.before = self.before, self.state(limits, purges)
        now = self.before
        if isinstance(event, SubjectsTold) and event.request == before.asked != 0:
            self.told(event, before, now, entries)
        elif isinstance(event, SubjectsFolded) and event.request == before.asked != 0:
            self.not_told(before.asked)
        elif isinstance(event, SubjectsTold) and event.request == before.purge_asked != 0:
            self.purged(event, before, entries)
        else:
            self.deleted(event, entries)
        if now.keep != before.keep and now.keep != self.value("limit"):
            self.abandon(before.asked)
            self.take("Alter", now.keep)
        if self.value("look") and (not now.until or self.look()[1] != now.until):
            self.abandon(before.asked)
            self.take("LeaveAlone")
        if now.until and not self.value("look"):
            self.take("Begin", now.until)
        if now.asked and now.asked != before.asked:
            self.take("Ask")
        if purges.asked != before.purge_asked:
            self.purge, self.known = purges.purge, self.value("heeded")
        self.compare(now)

    def state(self, limits: SubjectLimits, purges: SubjectPurges) -> Limits:
        at = purges.purge.at if purges.purge is not None else 0
        return Limits(
            *(limits._keep, limits._at, limits._until, limits._done, limits.asked),
            purge_asked=purges.asked,
            purge_at=at,
        )

    def look(self) -> tuple[int, int]:
        found: tuple[int, int] = self.value("look")[0]
        return found

    def told(self, event: SubjectsTold, before: Limits, now: Limits, entries: list[Written]) -> None:
        """The index has answered, and what it has told was used, or was not."""
        used = bool(entries) or (before.at, before.until, before.done) != (now.at, now.until, now.done)
        if event.error or not used:
            self.not_told(event.request)
            return
        if self.abandoned == event.request:
            raise Disagrees("what nobody waits for any more is used")
        end = event.place if event.place != NO_OFFSET else self.look()[1]
        for entry in entries:
            self.take("Write", end)
            self.names(entry)
        if not entries:
            self.take("PassOver", end)
        if event.place == NO_OFFSET:
            self.take("End")

    def not_told(self, request: int) -> None:
        if self.abandoned != request:
            self.take("AskAgain")
        self.abandoned = 0

    def abandon(self, asked: int) -> None:
        """What is asked is asked in vain."""
        if self.value("told"):
            self.abandoned = asked

    def deleted(self, event: Event | None, entries: list[Written]) -> None:
        if entries and not isinstance(event, ClientRequest):
            raise Disagrees(f"at {event} entries were written")
        for entry in entries:
            self.take("Delete", entry.places.bit_length() - 1)
            self.names(entry)

    def purged(self, event: SubjectsTold, before: Limits, entries: list[Written]) -> None:
        """A part of a purge is written."""
        for entry in entries:
            asked = self.purge.request
            low = max(before.purge_at, event.first)
            high = event.place if event.place != NO_OFFSET else self.purge.below
            if asked.pattern == ANY:
                self.take("Purge", low, high, self.known)
            else:
                self.take("PurgeSubject", SUBJECTS.index(asked.pattern.encode()), low, high, self.known)
            self.names(entry)

    def compare(self, now: Limits) -> None:
        look = self.look() if self.value("look") else (0, 0)
        if look != ((now.at, now.until) if now.until else (0, 0)):
            raise Disagrees(f"it has come to {now.at} of {now.until}, in the model to {look}")
        if now.done != self.value("done"):
            raise Disagrees(f"it has looked up to {now.done}, in the model up to {self.value('done')}")
        if bool(now.asked) != bool(self.value("told")) and now.asked != self.abandoned:
            raise Disagrees(f"its question is {now.asked}, in the model {self.value('told')}")

    # -- what happens --------------------------------------------------------------------------------------

    def step(self) -> None:
        leader, chosen = self.newest(), self.random.random()
        if chosen < 0.3:
            self.put()
        elif chosen < 0.55 or not leader:
            self.run(self.random.choice((0.002, 0.01, 0.1, 0.5)))
        elif chosen < 0.67:
            self.delete(leader)
        elif chosen < 0.74:
            self.purge_some(leader)
        elif chosen < 0.77:
            self.cut_front(leader)
        elif chosen < 0.82:
            self.alter()
        elif chosen < 0.88:
            self.world.answer_s = self.random.choice((0.001, 0.001, 0.02, 0.2))
        elif chosen < 0.9:
            self.world.broken = 0 if self.world.broken else leader
        else:
            self.fail()

    def put(self) -> None:
        node, epoch = self.taker()
        count = self.random.choice((1, 1, 2, 4))
        if node and len(self.epochs) + count <= MODEL.bindings["Records"] - 4:
            subjects = self.random.choices(SUBJECTS, weights=(4, 3, 1), k=count)
            messages = [Message(one, b"", b"", b"%d" % self.random.getrandbits(40)) for one in subjects]
            self.world.post(node, Published(self.partition, epoch, messages, 1_000))
            self.run(self.random.choice((0.0, 0.0, 0.003)))

    def purge_some(self, leader: int) -> None:
        end = self.copy(leader).hw
        if end:
            below = self.random.randrange(max(0, end - 8), end + 1)
            pattern = self.random.choice((ANY, *(one.decode() for one in SUBJECTS)))
            keep = self.random.choice((0, 1, 2, 4))
            self.world.ask(leader, PurgeSubjectsRequest(self.partition, pattern, below, keep))

    def alter(self) -> None:
        keeps = self.random.choice((0, 1, 1, 2, 2, 3))
        changes = StreamChanges(max_messages_per_subject=keeps)
        self.ask_to_alter(changes)


def walk(seed: int, mutants: Mutants = NO_MUTANTS) -> dict[str, int]:
    world = LimitedWorld(seed, mutants)
    world.walk(STEPS, INVARIANTS)
    if not world.over and world.before.keep and world.value("done") < world.value("hw"):
        raise Disagrees(f"{world.value('done')} of {world.value('hw')} is looked at in the end")
    return world.counts


def test_R22_each_step_of_a_leader_is_one_of_the_model() -> None:
    counts = counted(walk, 20)
    assert set(counts) == {action.name for action in STEPPER.model.actions}, counts
    assert min(counts.values()) >= 5, counts


@pytest.mark.parametrize(
    "bug",
    [
        *("limit_looks_from_last", "limit_counts_deleted", "R22.on-its-way", "R22.meanwhile"),
        "index_ignores_removed",
    ],
)
def test_R22_the_model_sees_each_planted_bug(bug: str) -> None:
    with pytest.raises(Disagrees):
        for seed in range(30):
            walk(seed, planted(bug))
