"""The simulator's truth about work queues (R26) finds what it should, and nothing where all is well."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.core.consumers.entries import ACKED, AT_LIMIT, Created, Done, encode_entry
from liftlog.core.replica.removal.entries import encode_removed
from liftlog.messages import ConsumerConfig
from liftlog.types import OffsetRange
from liftlog_sim.truth.consumers import ConsumerTruth
from liftlog_sim.truth.fronts import front_of
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.truth.metadata import MetadataTruth
from liftlog_sim.truth.removals import DeletionTruth
from tests.sim.told import PARTITION, ToldLogs


class Told(ToldLogs):
    """A work queue with three messages of epoch 1, and its journal."""

    def __init__(self) -> None:
        super().__init__(*((b"", value) for value in (b"a", b"b", b"c")))
        limits = MetadataTruth()
        limits.queues.add(PARTITION.stream)
        self.deletions = DeletionTruth(self.data, self.journal, limits)
        self.consumers = ConsumerTruth(self.data, self.deletions, lambda: 0)

    def wrote(self, *entries: bytes) -> int:
        return [self.put(entry) for entry in entries][-1]

    def done(self, how: str = ACKED) -> bytes:
        return encode_entry(Done(1, how, [(1, 1)]))


def gone(*offsets: int) -> bytes:
    return encode_removed(1, [OffsetRange(offset, offset + 1) for offset in offsets], done_with=True)


def violated(name: str) -> Any:
    return pytest.raises(Violation, match=f"^{name}: ")


def test_what_is_done_with_may_go_and_has_to() -> None:
    world = Told()
    end = world.wrote(world.done(), gone(1))
    world.deletions.acked(end, 0)
    assert world.deletions.done_and_left(0) == ""
    assert world.deletions.front() == 0
    assert world.data.checks["WorkQueueHolds"] == world.journal.checks["NothingElseGone"] == 1


def test_what_is_acked_and_there_is_found() -> None:
    world = Told()
    end = world.wrote(world.done())
    assert "offset 1 is left" in world.deletions.done_and_left(0)
    assert world.deletions.done_and_left(2) == "", "the log begins behind it"
    world.wrote(gone(1))
    with violated("WorkQueueHolds"):
        world.deletions.acked(end, 0)
    world.deletions.acked(end + 1, 0)


@pytest.mark.parametrize("how", [AT_LIMIT, ""])
def test_what_goes_and_is_not_done_with_is_found(how: str) -> None:
    world = Told()
    world.wrote(*([world.done(how)] if how else []), gone(1))
    with violated("NothingElseGone"):
        world.deletions.named()


def test_elsewhere_an_ack_takes_nothing() -> None:
    world = Told()
    plain = DeletionTruth(world.data, world.journal)
    world.wrote(world.done(), gone(1))
    with violated("NothingElseGone"):
        plain.named()


@pytest.mark.parametrize(("pattern", "shared"), [("a.*", True), ("", True), ("b", False)])
def test_a_consumer_that_may_be_given_the_same_is_found(pattern: str, shared: bool) -> None:
    world = Told()
    for name, its in (("c", "a.x"), ("d", pattern)):
        world.wrote(encode_entry(Created(name, ConsumerConfig(filter=its), 0, [])))
    if shared:
        with violated("WorkQueueHolds"):
            world.consumers.known()
    else:
        assert len(world.consumers.known()) == 2


def test_where_the_front_is() -> None:
    assert [front_of(1, 4, set(gone)) for gone in ((), (2,), (1, 2), (1, 2, 3))] == [1, 1, 3, 4]
