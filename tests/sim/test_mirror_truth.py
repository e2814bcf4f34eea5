"""MirrorIsPrefix: what a mirror has is held against what its origin has committed (R28)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from liftlog.types import EpochStart, PartitionId, Record
from liftlog_sim.truth.invariants import Checks, PartitionTruth, Violation
from liftlog_sim.truth.metadata import MetadataTruth
from liftlog_sim.truth.mirrors import mirrored
from liftlog_sim.truth.removals import DeletionTruth


def record(offset: int, value: bytes) -> Record:
    return Record(offset, 1000 + offset, b"s", b"", b"", None, value)


def truth(stream: int, values: list[bytes | None]) -> PartitionTruth:
    """A partition with these records committed; None: an offset without one."""
    found = PartitionTruth(PartitionId(stream, 0), Checks())
    found.history = [EpochStart(1, 0)]
    records = [record(offset, value) for offset, value in enumerate(values) if value is not None]
    found.contents.appended(1, 0, len(values), stream, records)
    found.hw = len(values)
    found.contents.commit(found.history, found.hw)
    return found


def judge(
    mirror: list[bytes | None],
    origin: list[bytes | None],
    start: int = 0,
    takes: Callable[[Record], bool] = lambda record: True,
) -> None:
    source = truth(3, origin)
    journal = PartitionTruth(PartitionId(3, 0).journal, Checks())
    deletions = DeletionTruth(source, journal, MetadataTruth(), lambda: start)
    mirrored(truth(9, mirror), source, 0, start, deletions, takes)


def test_r28_a_mirror_may_be_behind_and_empty_where_its_origin_begins_later() -> None:
    judge([b"a", b"b"], [b"a", b"b", b"c"])
    judge([None, None, b"c"], [b"a", b"b", b"c"], start=2)
    judge([None, b"b"], [None, b"b"])


def test_r28_what_it_does_not_take_is_left_out() -> None:
    def takes(record: Record) -> bool:
        return record.value != b"b"

    judge([b"a", None, b"c"], [b"a", b"b", b"c"], takes=takes)
    with pytest.raises(Violation, match="which it does not take"):
        judge([b"a", b"b"], [b"a", b"b"], takes=takes)


@pytest.mark.parametrize(
    ("mirror", "origin", "says"),
    [
        ([b"a", b"b"], [b"a"], "ends at 1"),
        ([b"b"], [b"a"], "has another record"),
        ([None], [b"a"], "has nothing at offset 0"),
        ([b"a", None, None], [b"a"], "has committed nothing at offset 1"),
    ],
)
def test_r28_anything_else_is_a_violation(
    mirror: list[bytes | None], origin: list[bytes | None], says: str
) -> None:
    with pytest.raises(Violation, match=says) as raised:
        judge(mirror, origin)
    assert raised.value.invariant == "MirrorIsPrefix"
