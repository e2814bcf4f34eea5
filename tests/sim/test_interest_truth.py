"""The simulator's truth about interest (R27) finds what it should, and nothing where all is well."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.core.consumers.entries import (
    ACKED,
    AT_LIMIT,
    ConsumerDeleted,
    ConsumerEntry,
    Created,
    Delivered,
    Done,
    encode_entry,
)
from liftlog.core.replica.removal.entries import encode_removed
from liftlog.messages import ConsumerConfig
from liftlog.types import OffsetRange
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.truth.metadata import MetadataTruth
from liftlog_sim.truth.removals import DeletionTruth
from tests.sim.told import PARTITION, ToldLogs


class Told(ToldLogs):
    """A stream with messages on a, b and a, of epoch 1, and its journal."""

    def __init__(self, by_interest: bool = True) -> None:
        super().__init__(*((subject, b"x") for subject in (b"a", b"b", b"a")))
        limits = MetadataTruth()
        if by_interest:
            limits.interests.add(PARTITION.stream)
        self.deletions = DeletionTruth(self.data, self.journal, limits)

    def wrote(self, *entries: ConsumerEntry | bytes) -> None:
        for entry in entries:
            self.put(entry if isinstance(entry, bytes) else encode_entry(entry))
        self.deletions.named()



def created(name: str = "c", start: int = 0, **more: Any) -> Created:
    return Created(name, ConsumerConfig(**more), start, [])


def gone(*offsets: int, done_with: bool = True) -> bytes:
    runs = [OffsetRange(offset, offset + 1) for offset in offsets]
    return encode_removed(1, runs, done_with=done_with)


def given(end: int, *offsets: int) -> Delivered:
    return Delivered(1, end, [], [(offset, 1, 1) for offset in offsets])


def goes_wrong() -> Any:
    return pytest.raises(Violation, match=r"^NothingElseGone: .*consumer 'c' is to be given it")


def test_what_nobody_wants_may_go_and_has_to() -> None:
    world = Told()
    assert "offset 0 is left, which nobody wants" in world.deletions.unwanted(0)
    world.wrote(gone(0, 1))
    assert world.deletions.unwanted(2) == world.deletions.unwanted(0) != ""
    world.wrote(gone(2))
    assert world.deletions.unwanted(0) == "" and world.deletions.front() == 3


@pytest.mark.parametrize("how", [ACKED, AT_LIMIT])
def test_what_is_done_with_may_go_and_what_is_pending_may_not(how: str) -> None:
    world = Told()
    world.wrote(created(), given(2, 0, 1), Done(1, how, [(0, 1)]), gone(0))
    with goes_wrong():
        world.wrote(gone(1))


def test_what_lies_behind_a_position_may_not_go() -> None:
    world = Told()
    with goes_wrong():
        world.wrote(created(start=2), gone(0, 1), gone(2))


def test_what_no_filter_matches_may_go() -> None:
    world = Told()
    world.wrote(created(filter="b"), gone(0))
    assert "offset 2" in world.deletions.unwanted(0)
    with goes_wrong():
        world.wrote(gone(1))


def test_of_two_both_are_to_be_done() -> None:
    world = Told()
    with goes_wrong():
        world.wrote(created(), created("d"), given(1, 0), Done(2, ACKED, [(0, 1)]), gone(0))


def test_who_is_deleted_wants_nothing() -> None:
    world = Told()
    world.wrote(created(), ConsumerDeleted(1), gone(0, 1, 2))


@pytest.mark.parametrize("world", [Told(by_interest=False), Told()])
def test_other_entries_and_other_streams_take_nothing_so(world: Told) -> None:
    with pytest.raises(Violation, match=r"^NothingElseGone: "):
        world.wrote(gone(0, done_with=world.deletions.by_interest is False))
