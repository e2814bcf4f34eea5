"""SourcesExact: what a stream with sources has is held against what these have committed (R29)."""

from __future__ import annotations

import pytest

from liftlog.messages.copying import Start
from liftlog.options.copied import copied_headers
from liftlog.types import Record
from liftlog_sim.truth.invariants import Checks, PartitionTruth, Violation
from liftlog_sim.truth.metadata import MetadataTruth
from liftlog_sim.truth.removals import DeletionTruth
from liftlog_sim.truth.sources import SourceTruth, sourced
from tests.sim.test_mirror_truth import truth

LEFT, RIGHT, COPY = 3, 4, 9


def source(stream: int, values: list[bytes | None], filter: str = "", start: int = 0) -> SourceTruth:
    found = truth(stream, values)
    journal = PartitionTruth(found.id.journal, Checks())
    gone = DeletionTruth(found, journal, MetadataTruth(), lambda: start)
    return SourceTruth(found, ((filter, Start()),), start, gone)


def copies(*named: tuple[int, int, bytes]) -> PartitionTruth:
    """A stream that has these, of (stream, offset)."""
    found = truth(COPY, [value for *_, value in named])
    for offset, (stream, at, value) in enumerate(named):
        headers = copied_headers(b"", (stream, at), {}, b"x 1 > > s")
        found.contents.committed[offset] = Record(offset, 1, b"s", b"", headers, None, value)
    return found


def judge(copy: PartitionTruth, *sources: SourceTruth) -> dict[int, int]:
    places: dict[int, int] = {}
    sourced(copy, {one.truth.id.stream: one for one in sources}, places, 0)
    return places


def test_r29_what_is_gone_or_does_not_pass_may_be_left_out() -> None:
    copy = copies((LEFT, 0, b"a"), (RIGHT, 2, b"z"), (LEFT, 2, b"c"))
    places = judge(copy, source(LEFT, [b"a", None, b"c"]), source(RIGHT, [b"x", b"y", b"z"], start=2))
    assert places == {LEFT: 3, RIGHT: 3}
    assert source(LEFT, [b"a"], "t").owes(0, 1) is None
    assert source(LEFT, [b"a"], "s").owes(0, 1) == 0
    altered = source(LEFT, [b"a"])._replace(filters=(("s", Start()), ("t", Start())))
    assert altered.owes(0, 1) is None and judge(copies((LEFT, 0, b"a")), altered) == {LEFT: 1}


@pytest.mark.parametrize(
    ("named", "filter", "says"),
    [
        ([(LEFT, 0, b"a"), (LEFT, 0, b"a")], "", "copied before"),
        ([(LEFT, 1, b"b"), (LEFT, 0, b"a")], "", "offset 0 of 3/0 was left out"),
        ([(LEFT, 0, b"b")], "", "is not what lies at offset 0"),
        ([(LEFT, 2, b"c")], "", "is not what lies at offset 2"),
        ([(RIGHT, 0, b"a")], "", "of none of its sources"),
        ([(LEFT, 0, b"a")], "t", "does not pass"),
    ],
)
def test_r29_anything_else_is_a_violation(
    named: list[tuple[int, int, bytes]], filter: str, says: str
) -> None:
    with pytest.raises(Violation, match=says) as raised:
        judge(copies(*named), source(LEFT, [b"a", b"b"], filter))
    assert raised.value.invariant == "SourcesExact"
