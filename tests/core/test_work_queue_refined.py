"""Every step of the leader of a work queue, held against the model `work_queue` (R26).

Nodes on a scripted world, a random walk of publishers, of consumers that are made, given other filters, reset
and deleted, of clients that pull, ack, terminate and give back, of messages that are deleted, of nodes that
die, are cut off in one log or both, or do not come to sync, and time. Journals are restated soon. After each
event the model has written what the newest leader has written; what an entry says that consumers are done
with, and what the entries behind it in one batch name as gone, have to be what the model's entry names. What
is committed, what each copy hides, what waits for an ack, and where the data begin, are compared.

An entry of the program may name several messages, and is as many of the model's; a reset is a deletion and a
creation; a delivery again, a restatement, and an alteration that leaves the filters are nothing. Left out are
dead letters (K9), which are done with by such an entry too, consumers that end since nobody uses them, what
purges and limits remove, and elections that lose what was committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from liftlog.core.consumers.entries import (
    ACKED,
    TERMINATED,
    Altered,
    ConsumerDeleted,
    Created,
    Delivered,
    Done,
    SaidAgain,
)
from liftlog.core.replica.removal.entries import RemovedRuns, Restated
from liftlog.messages import offsets_of
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog_spec.models.work_queue import WorkQueueMessages
from liftlog_spec.run.stepwise import Stepper
from tests.core.beside import Disagrees, counted, planted
from tests.core.gone_when_done import GoneWhenDone, JournalEntry, entry_of, number_of, opened

MODEL = WorkQueueMessages(Records=24, Entries=160, Consumers=30, Epochs=10**6, Filters=2, Removals=1)
STEPPER = Stepper(MODEL)
INVARIANTS = ("GoneIsDone", "DoneIsGone")
STEPS = 200


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("liftlog.core.replica.removal.restating.CONSUMER_SHARE", 0)


class QueueWorld(GoneWhenDone):
    """See the module."""

    NAMED = ("given", "acked", "given-up", "named", "removed")

    def __init__(self, seed: int, mutants: Mutants = NO_MUTANTS) -> None:
        super().__init__(STEPPER, seed, opened(mutants, work_queue=True))

    def names(self, entry: Any) -> bool:
        return bool(entry[3])

    # -- what the leader writes ----------------------------------------------------------------------------

    def wrote_batch(self, leader: int, batch: Sequence[bytes]) -> None:
        entries = list(map(entry_of, batch))
        place = 0
        while place < len(entries):
            end = place + 1
            named: set[int] = set()
            while end < len(entries) and isinstance(one := entries[end], RemovedRuns) and one.done_with:
                named |= {offset for offset, _ in one.named()}
                end += 1
            before = len(self.value("journal"))
            self.wrote(leader, entries[place])
            due = {entry[2] for entry in self.value("journal")[before:] if entry[3]}
            if isinstance(entries[place], RemovedRuns):
                due = set()
            if named != due:
                raise Disagrees(f"behind {entries[place]} {named} are gone, in the model {due}")
            self.noted(*batch[place:end])
            place = end

    def wrote(self, leader: int, entry: JournalEntry) -> None:
        """The model writes the same."""
        match entry:
            case Created():
                if entry.instead:
                    self.write("Delete", self.numbers[entry.instead])
                self.write("Make", self.new_number(len(self.line) + 1), number_of(entry.config))
            case ConsumerDeleted():
                self.write("Delete", self.numbers[entry.consumer])
            case Altered():
                if self.is_filtered(leader, entry):
                    self.write("Alter", self.numbers[entry.consumer], number_of(entry.config))
            case Delivered():
                self.delivered(entry)
            case Done():
                self.done(entry)
            case RemovedRuns():
                self.removed(entry)
            case SaidAgain():
                self.said_again(entry)
            case Restated():
                pass
            case _:
                raise Disagrees(f"node {leader} writes {entry}")

    def done(self, entry: Done) -> None:
        self.may_end(entry)
        action = "Ack" if entry.how in (ACKED, TERMINATED) else "GiveUp"
        for one in offsets_of(entry.runs):
            self.write(action, self.numbers[entry.consumer], one)


def walk(seed: int, mutants: Mutants = NO_MUTANTS) -> dict[str, int]:
    world = QueueWorld(seed, mutants)
    world.walk(STEPS, INVARIANTS)
    world.hold(("WithOne",))
    return world.counts


def test_R26_each_step_of_leaders_of_a_work_queue_is_one_of_the_model() -> None:
    counts = counted(walk, 12)
    ours = {action.name for action in MODEL.actions}
    # Of a rule that is left out: what is acked is named where it is acked.
    assert set(counts) == ours - {"Name"}, counts
    assert min(counts.values()) >= 5, counts


RULES = ["queue_takes_at_delivery", "queue_takes_given_up", "queue_takes_apart", "queue_freed_to_floor"]
GUARDS = ["R26.shared"]
OTHERS = [
    *("ack_answered_at_append", "repeated_ack_answered_at_once", "ack_of_all_before"),
    *("ack_of_deleted_counts", "redelivery_before_record", "filters_as_found"),
    *("said_again_without_pending", "said_again_as_folded", "restated_in_part", "restated_unseen"),
]
"""Of K3, K4, K6, K2 and R21."""


@pytest.mark.parametrize("bug", [*RULES, *GUARDS, *OTHERS])
def test_R26_the_model_sees_each_planted_bug(bug: str) -> None:
    with pytest.raises(Disagrees):
        for seed in range(30):
            walk(seed, planted(bug))
