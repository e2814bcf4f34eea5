"""Every step of a leader that keeps so much, and nothing too old, held against `front_limits` (R25).

Nodes on a scripted world, a random walk of publishers over few subjects, of which two messages each stay, of
deletions, of limits that are altered and lifted, of an index that is slow, behind or not to be made, of a
front that goes, or is not in memory, of nodes that die, are cut off in one log or both, or do not come to
sync, and time. One seed counts messages, the next one bytes, where some messages count for two. Some are too
old when they come. After each step of the newest leader the model takes what it has done: what the limit by
subject has gone through has to be the model's, and what is written has to name the same.

Answers come from the subject index itself (S1). At the end all is well again; then the newest leader has
counted everything, and there is not too much. How looks go is the business of `subject_limits`; purges are
left out, and roll-ups, which are waited for as that limit is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from liftlog.messages import (
    ClientRequest,
    Event,
    Published,
    StreamChanges,
    SubjectsTold,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.sizes import message_bytes
from liftlog.types import NO_OFFSET, Message, Record
from liftlog_spec.models.front_limits import LimitsAtFront
from liftlog_spec.run.stepwise import Stepper
from tests.core.beside import Disagrees, counted, planted
from tests.core.journal_beside import IndexedWorld, JournalBeside, Written
from tests.core.node_harness import WALL_START_MS
from tests.core.two_logs import with_journal

SUBJECTS = (b"a", b"b", b"c", b"d")
OF_SUBJECT = 2
AGE_MS = 3_600_000
"""Longer than a walk takes: who is not too old when it comes never is."""
ONE = message_bytes(1, 0, 9)
"""What a message counts for that is not large."""
MODEL = LimitsAtFront(
    Records=50,
    Entries=200,
    Subjects=len(SUBJECTS),
    OfSubject=OF_SUBJECT,
    Limit=6,
    Epochs=10**6,
    Deletes=10**6,
    Larges=10**6,
    Olds=10**6,
    Alterations=10**6,
)
STEPPER = Stepper(MODEL)
INVARIANTS = tuple(one.name for one in MODEL.invariants)
STEPS = 70


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an index answers at once, and an entry names."""
    monkeypatch.setattr("liftlog.storage.subjectindexes.STEP_OFFSETS", 5)
    monkeypatch.setattr("liftlog.core.replica.removal.frontlimits.RUNS_MAX", 2)


class Limits(NamedTuple):
    """What a leader knew after a step."""

    done: int = 0
    """What the limit by subject has gone through."""
    looks_asked: int = 0
    bytes_asked: int = 0
    counted: Any = None
    """Of what it has found that it is not too much."""
    too_many: int = 0
    """How often it has let some go since they were too many."""


class FrontWorld(JournalBeside):
    """See the module. `by_bytes`: how its limit counts."""

    def __init__(self, seed: int, mutants: Mutants = NO_MUTANTS) -> None:
        self.by_bytes = seed % 2 == 1
        self.before = Limits()
        self.question: Any = None
        """What the newest leader has asked about bytes last."""
        world = IndexedWorld(mutants)
        limit: dict[str, Any] = {"max_messages_per_subject": OF_SUBJECT, "retention_ms": AGE_MS}
        limit |= {"retention_bytes": 6 * ONE} if self.by_bytes else {"retention_messages": 6}
        super().__init__(STEPPER, seed, (world, with_journal(world, **limit)))

    # -- the model beside it -------------------------------------------------------------------------------

    def published(self, one: Record) -> None:
        old = one.timestamp_ms < WALL_START_MS
        self.take("Publish", SUBJECTS.index(one.subject), len(one.value or b"") > 9, old)

    def leads(self, roles: Any) -> None:
        self.before, self.question = Limits(too_many=self.too_many()), None

    def state(self, roles: Any) -> Limits:
        front, limits = roles.front, roles.limits
        found = front.sizes._fits if self.by_bytes else front._looked
        return Limits(limits._done, limits.asked, front.sizes.asked, found, self.too_many())

    def too_many(self) -> int:
        return self.world.nodes[self.node].marks.get("R25.too-many", 0)

    def stepped(self, event: Event | None, roles: Any, entries: list[Written]) -> None:
        before, self.before = self.before, self.state(roles)
        now = self.before
        config = self.copy(self.node).log.config
        assert config is not None
        limit = config.retention_bytes // ONE if self.by_bytes else config.retention_messages
        if limit != self.value("limit"):
            self.take("Alter", limit)
        if now.counted != before.counted:
            self.counted(now.counted, roles.subject_purges.written)
        for entry in entries:
            self.wrote(event, before, roles, entry)
        while self.value("looked") < now.done:
            self.take("Look", now.done)
        if now.bytes_asked != before.bytes_asked:
            self.question = roles.front.sizes._question
        if now.done != self.value("looked"):
            raise Disagrees(f"it has looked up to {now.done}, in the model up to {self.value('looked')}")

    def counted(self, found: Any, written: int) -> None:
        """It is not too much: by the limit that there is, and as nothing was written since it was asked."""
        until, most = (found.until, found.most // ONE) if self.by_bytes else (found[0], found[3])
        holds = most == self.value("limit") and not (self.by_bytes and found.written < written)
        if holds and self.value("counted") < until <= self.value("looked"):
            self.take("Counted", until)

    def wrote(self, event: Event | None, before: Limits, roles: Any, entry: Written) -> None:
        end, until = entry.places.bit_length(), roles.front._until()
        if isinstance(event, ClientRequest):
            self.take("Delete", end - 1)
        elif isinstance(event, SubjectsTold) and event.request == before.looks_asked:
            found = roles.limits._question[2]
            self.take("PushOut", event.place if event.place != NO_OFFSET else found, found)
        elif isinstance(event, SubjectsTold) and event.request == before.bytes_asked:
            self.take("Leave", end, self.question.until)
        elif self.before.too_many > before.too_many:
            self.take("Leave", end, until)
        else:
            self.take("Expire", end)
        self.names(entry)

    # -- what happens --------------------------------------------------------------------------------------

    def step(self) -> None:
        leader, chosen = self.newest(), self.random.random()
        if chosen < 0.34:
            self.put()
        elif chosen < 0.58 or not leader:
            self.run(self.random.choice((0.002, 0.01, 0.1, 0.5)))
        elif chosen < 0.7:
            self.delete(leader)
        elif chosen < 0.73:
            self.cut_front(leader)
        elif chosen < 0.79:
            self.alter()
        elif chosen < 0.85:
            self.world.answer_s = self.random.choice((0.001, 0.001, 0.02, 0.2))
        elif chosen < 0.87:
            self.world.broken = 0 if self.world.broken else leader
        elif chosen < 0.9:
            self.copy(leader).log.cache.clear()
        else:
            self.fail()

    def put(self) -> None:
        node, epoch = self.taker()
        count = self.random.choice((1, 1, 2, 4))
        if node and len(self.epochs) + count <= MODEL.bindings["Records"] - 4:
            messages = []
            for subject in self.random.choices(SUBJECTS, k=count):
                large = self.by_bytes and self.random.random() < 0.3
                value = b"%09d" % self.random.getrandbits(29) + b"." * (ONE if large else 0)
                messages.append(Message(subject, b"", b"", value))
            ago_ms = 2 * AGE_MS if self.random.random() < 0.2 else 0
            came_ms = self.world.now * 1000 + WALL_START_MS - ago_ms
            self.world.post(node, Published(self.partition, epoch, messages, int(came_ms)))
            self.run(self.random.choice((0.0, 0.0, 0.003)))

    def alter(self) -> None:
        most = self.random.choice((0, 3, 4, 5, 6, 7))
        changes = StreamChanges(retention_messages=most)
        if self.by_bytes:
            changes = StreamChanges(retention_bytes=most * ONE)
        self.ask_to_alter(changes)


def walk(seed: int, mutants: Mutants = NO_MUTANTS) -> dict[str, int]:
    world = FrontWorld(seed, mutants)
    world.walk(STEPS, INVARIANTS)
    if not world.over and world.value("limit") and world.value("counted") < world.value("hw"):
        raise Disagrees(f"{world.value('counted')} of {world.value('hw')} is counted in the end")
    return world.counts


def test_R25_each_step_of_a_leader_is_one_of_the_model() -> None:
    counts = counted(walk, 14)
    assert set(counts) == {action.name for action in STEPPER.model.actions}, counts
    assert min(counts.values()) >= 5, counts


SWITCHES = [
    *("front_counts_deleted", "front_counts_uncommitted", "front_takes_to_last_old"),
    "bytes_count_deleted",
]
GUARDS = ["R25.on-its-way", "R25.meanwhile", "R25.others-first"]
OTHERS = ["index_ignores_removed"]
"""Of the index (S1). `bytes_below_start` is not found out: what a front leaves behind is gone already."""


@pytest.mark.parametrize("bug", [*SWITCHES, *GUARDS, *OTHERS])
def test_R25_the_model_sees_each_planted_bug(bug: str) -> None:
    with pytest.raises(Disagrees):
        for seed in range(30):
            walk(seed, planted(bug))
