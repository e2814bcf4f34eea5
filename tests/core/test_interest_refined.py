"""Every step of the leader of a log whose messages go by interest, held against the model `interest` (R27).

Nodes on a scripted world, a random walk of publishers, of consumers that are made, given other filters, reset
and deleted, of clients that pull, ack, terminate and give back, of messages that are deleted, of nodes that
die, are cut off in one log or both, or do not come to sync, of storage that answers late what filters match,
and time. Journals are restated soon. After each event the model has written what the newest leader has
written: what an entry names that nobody wants, the model looks at then and has to find. What the leader has
looked at, and left, the model looks at as well, and has to leave. What is committed, what each copy hides,
what waits for an ack, and where the data begin, are compared.

An entry of the program may name several messages, and is as many of the model's; a reset is a deletion and a
creation; a delivery again, a restatement, an alteration that leaves the filters, and what is named again
before that is committed, are nothing. Left out are dead letters (K9), consumers that end since nobody uses
them, or begin with last messages of subjects, or at a time, streams that are switched, what purges and limits
remove, and elections that lose what was committed.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from liftlog.core.consumers.entries import Altered, ConsumerDeleted, Created, Delivered, Done, SaidAgain
from liftlog.core.replica.removal.entries import RemovedRuns, Restated
from liftlog.messages import DELIVER_ALL, DELIVER_NEW, ConsumerConfig, offsets_of
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog_spec.models.interest import InterestMessages
from liftlog_spec.run.stepwise import Stepper
from tests.core.beside import Disagrees, counted, planted
from tests.core.gone_when_done import GoneWhenDone, JournalEntry, entry_of, number_of, opened

MODEL = InterestMessages(
    Records=40, Entries=200, Consumers=30, Epochs=10**6, Alterations=1, Choices=1, Removals=1
)
STEPPER = Stepper(MODEL)
INVARIANTS = ("GoneIsUnwanted", "UnwantedIsGone")
STEPS = 200


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("liftlog.core.replica.removal.restating.CONSUMER_SHARE", 0)


class InterestWorld(GoneWhenDone):
    """See the module."""

    NAMED = ("named", "removed")

    def __init__(self, seed: int, mutants: Mutants = NO_MUTANTS) -> None:
        super().__init__(STEPPER, seed, opened(mutants, interest=True))

    def config(self) -> ConsumerConfig:
        return super().config().__replace__(deliver=self.random.choice((DELIVER_ALL, DELIVER_NEW)))

    def hear_data(self) -> None:
        log = self.partition
        there = [node.replicas[log].hw for node in self.world.nodes.values() if log in node.replicas]
        while self.value("published") < max(there, default=0):
            self.take("Publish")

    # -- what the leader writes ----------------------------------------------------------------------------

    def wrote_batch(self, leader: int, batch: Sequence[bytes]) -> None:
        for data in batch:
            self.wrote(leader, entry_of(data))
            self.noted(data)

    def wrote(self, leader: int, entry: JournalEntry) -> None:
        """The model writes the same."""
        match entry:
            case Created():
                self.created(entry)
            case ConsumerDeleted():
                self.write("Delete", self.numbers[entry.consumer])
            case Altered():
                if self.is_filtered(leader, entry):
                    consumer, position = self.numbers[entry.consumer], self.position(entry.consumer)
                    self.write("Alter", consumer, position, number_of(entry.config))
            case Delivered():
                self.delivered(entry)
            case Done():
                self.may_end(entry)
                for one in offsets_of(entry.runs):
                    self.write("End", self.numbers[entry.consumer], one)
            case RemovedRuns(done_with=True):
                self.named({offset for offset, _ in entry.named()})
            case RemovedRuns():
                self.removed(entry)
            case SaidAgain():
                self.said_again(entry)
            case Restated():
                pass
            case _:
                raise Disagrees(f"node {leader} writes {entry}")

    def created(self, entry: Created) -> None:
        """It begins with the first message that is left, or with what comes."""
        if entry.instead:
            self.write("Delete", self.numbers[entry.instead])
        gone, _ = self.folded(self.value("hw"))
        start = entry.start if any(not gone >> one & 1 for one in range(entry.start)) else 0
        self.write("Make", self.new_number(len(self.line) + 1), start, number_of(entry.config))

    def named(self, offsets: set[int]) -> None:
        """Nobody wants these; again, where that is written and not committed: then it is nothing."""
        by_written, by_committed = self.folded(self.entries)[0], self.folded(self.value("hw"))[0]
        for one in sorted(offsets):
            if by_written & ~by_committed & 1 << one:
                continue
            self.take("Look", one)
            self.write("Name", one)

    def position(self, number: int) -> int:
        """By what is written."""
        said = [entry_of(data) for _, data in self.line]
        created = said[number - 1]
        assert isinstance(created, Created)
        ends = [one.end for one in said if isinstance(one, Delivered) and one.consumer == number]
        return max(ends, default=created.start)

    # -- what it looks at ----------------------------------------------------------------------------------

    def looked(self, leader: int) -> None:
        """What the leader has looked at and left."""
        roles = self.journal(leader).roles
        lead = roles.consumers if roles is not None else None
        due: int = self.value("due")
        if lead is None or not lead.interest._on or lead._making.is_changing:
            return
        interest = lead.interest
        ended = [run for _, runs in interest._ended for run in runs]
        for one in [one for one in range(interest._seen) if due >> one & 1]:
            if one < self.copy(leader).log_start and lead._making.is_making:
                continue  # Nothing is left there.
            comes = one in interest._looking and one >= interest._at
            if comes or one in interest._due or any(start <= one < start + size for start, size in ended):
                continue
            self.take("Look", one)
            if self.value("found") >> one & 1:
                raise Disagrees(f"node {leader} has looked at {one}, which nobody wants, and leaves it")


def walk(seed: int, mutants: Mutants = NO_MUTANTS) -> dict[str, int]:
    world = InterestWorld(seed, mutants)
    world.walk(STEPS, INVARIANTS)
    return world.counts


def test_R27_each_step_of_leaders_with_interest_is_one_of_the_model() -> None:
    counts = counted(walk, 12)
    assert set(counts) == {action.name for action in MODEL.actions}, counts
    assert min(counts.values()) >= 5, counts


RULES = [
    *("interest_takes_pending", "interest_forgets_filters", "interest_of_one", "interest_not_inherited"),
]
GUARDS = ["R27.making", "R27.meanwhile"]
OTHERS = ["queue_freed_to_floor", "ack_of_all_before", "filters_as_found", "restated_in_part", "K5.inherited"]
"""Of R26, K3, K6, R21 and K5."""


@pytest.mark.parametrize("bug", [*RULES, *GUARDS, *OTHERS])
def test_R27_the_model_sees_each_planted_bug(bug: str) -> None:
    with pytest.raises(Disagrees):
        for seed in range(30):
            walk(seed, planted(bug))
