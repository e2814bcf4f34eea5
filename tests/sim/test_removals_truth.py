"""The simulator's truth about deletions (R21) finds what it should, and nothing where all is well."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.core.consumers.entries import ConsumerDeleted, SaidAgain, encode_entry
from liftlog.core.replica.removal.entries import Outlived, encode_come_to, encode_removed, encode_restated
from liftlog.format import encode_sparse
from liftlog.messages import ConsumerConfig
from liftlog.types import OffsetRange
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.truth.removals import DeletionTruth
from tests.sim.told import PARTITION, ToldLogs


class Told(ToldLogs):
    """Four messages of epoch 1, of which clients want all gone, and the journal."""

    def __init__(self) -> None:
        super().__init__(*((b"", value) for value in (b"a", b"b", b"c", b"d")))
        self.deletions = DeletionTruth(self.data, self.journal)
        self.deletions.asked.offsets = {0, 1, 2, 3}

    def wrote(self, *entries: bytes, epoch: int = 1) -> None:
        for entry in entries:
            self.put(entry, epoch)
        self.deletions.named()

    def answered(self, *shown: int, seen: int = 0, heeded: int = 0) -> None:
        """A reader that has seen so much of the journal is shown these of the first three."""
        records = [record for record in self.data.contents.committed[:3] if record and record.offset in shown]
        batch = encode_sparse(PARTITION, 1, 0, 3, records)
        self.deletions.read(self.data, 2, batch, 0, seen, heeded)


def gone(*offsets: int) -> bytes:
    return encode_removed(1, [OffsetRange(offset, offset + 1) for offset in offsets])


def violated(name: str, text: str) -> Any:
    return pytest.raises(Violation, match=f"^{name}: .*{text}")


def test_an_answer_hides_what_it_says_to_be_heeded_and_nothing_else() -> None:
    world = Told()
    world.wrote(gone(1))
    world.answered(0, 1, 2)
    world.answered(0, 2, heeded=1)
    with violated("DeletedStaysDeleted", "serves offset 1"):
        world.answered(0, 1, 2, heeded=1)
    with violated("DeletedStaysDeleted", "serves offset 1"):
        world.answered(0, 1, 2, seen=1)
    with violated("DeletedStaysDeleted", "leaves out offset 1, deleted below journal offset 1"):
        world.answered(0, 2)
    with violated("NoSilentGap", "leaves out offset 0"):
        world.answered(2, heeded=1)


def test_what_a_mirror_has_nothing_of_is_left_out_by_everybody() -> None:
    world = Told()
    world.wrote(gone(1))
    world.data.contents.committed[1] = None
    world.answered(0, 2)


NEWS = {
    "a deletion": gone(2),
    "of a consumer": encode_entry(ConsumerDeleted(3)),
    "how far": encode_come_to(Outlived(1, 3)),
}
OLD = {
    "a deletion": gone(0, 1),
    "of a consumer": encode_entry(SaidAgain(3, "c", ConsumerConfig(), 0, [], [])),
    "how far": encode_come_to(Outlived(1, 2)),
}


def restated_once() -> Told:
    world = Told()
    world.wrote(gone(0), gone(1), encode_come_to(Outlived(1, 2)))
    world.wrote(gone(0, 1), encode_restated(3, 0))
    return world


@pytest.mark.parametrize("what", NEWS)
def test_a_journal_to_which_something_was_added_may_be_said_again(what: str) -> None:
    world = restated_once()
    world.wrote(NEWS[what], gone(0, 1), encode_restated(6, 0))
    assert world.journal.checks["RestatedForNews"] == 2


@pytest.mark.parametrize("what", OLD)
def test_a_journal_to_which_nothing_was_added_may_not(what: str) -> None:
    world = restated_once()
    with violated("RestatedForNews", "from 6 on as from 3 on"):
        world.wrote(OLD[what], gone(0, 1), encode_restated(6, 0))


def test_what_is_added_while_it_is_said_again_counts_once() -> None:
    world = restated_once()
    world.wrote(gone(2), gone(3), encode_restated(6, 0))
    world.wrote(gone(0, 1, 2, 3), encode_restated(8, 0))
    with violated("RestatedForNews", "from 10 on as from 8 on"):
        world.wrote(gone(0, 1, 2, 3), encode_restated(10, 0))


def test_another_leader_does_not_know_that_it_was_said_again() -> None:
    world = restated_once()
    world.wrote(gone(0, 1), encode_restated(5, 0), epoch=2)
