"""What is copied of another cluster is held against the stream that is named, and that one's answers against
what a mirror reads (R28, R29).
"""

from __future__ import annotations

import pytest

from liftlog.format import decode_records, parse_batch
from liftlog.messages import FETCH_BELOW_START, AskOrigin, intake
from liftlog.messages.copying import Start
from liftlog.types import PartitionId
from liftlog_sim.devices.elsewhere import ORIGIN, FarLog, FarStream
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.truth.metadata import Naming
from liftlog_sim.truth.mirrors import mirrored_afar
from liftlog_sim.truth.sources import FarSourceTruth, sourced
from tests.sim.test_mirror_truth import record, truth
from tests.sim.test_sources_truth import copies

NAMED = Naming("1-far/4", 1)


def far(*values: bytes | None, start: int = 0) -> FarStream:
    """With these records; None: that one was deleted."""
    made = FarStream("1-far", 4, 1)
    made.logs[0].records = [record(at, value or b"was") for at, value in enumerate(values)]
    made.logs[0].gone = {at for at, value in enumerate(values) if value is None}
    made.logs[0].start = start
    return made


def judge(mirror: list[bytes | None], origin: FarStream, naming: Naming | None = NAMED) -> None:
    mirrored_afar(truth(9, mirror), naming, {origin.identity: origin}, 0, lambda record: True)


def test_r28_a_mirror_of_another_cluster_may_be_behind_and_empty_where_that_is_gone() -> None:
    judge([b"a", b"b"], far(b"a", b"b", b"c"))
    judge([None, b"b", None], far(b"a", b"b", None, start=1))
    judge([b"a", b"was"], far(b"a", None))


@pytest.mark.parametrize(
    ("mirror", "naming", "says"),
    [
        ([b"a", b"b"], NAMED, "ends behind offset 1"),
        ([b"b"], NAMED, "has another record"),
        ([None], NAMED, "has nothing at offset 0"),
        ([b"a"], None, "names no origin"),
        ([b"a"], Naming("1-far/9", 1), "names no origin"),
        ([b"a"], Naming("1-far/4", 2), "has 2 partitions"),
    ],
)
def test_r28_anything_else_is_a_violation(
    mirror: list[bytes | None], naming: Naming | None, says: str
) -> None:
    with pytest.raises(Violation, match=says) as raised:
        judge(mirror, far(b"a"), naming)
    assert raised.value.invariant == "MirrorIsPrefix"


def test_r29_a_source_of_another_cluster_is_judged_by_the_one_that_is_named() -> None:
    source = FarSourceTruth(NAMED, far(b"a", None, b"c").logs[0], (("", Start()),))
    places: dict[int, int] = {}
    sourced(copies((-1, 0, b"a"), (-1, 2, b"c")), {-1: source}, places, 0)
    assert places == {-1: 3} and source.owes(0, 1) == 0 and source.owes(1, 2) is None
    with pytest.raises(Violation, match="offset 0 of 1-far/4 was left out"):
        sourced(copies((-1, 2, b"c")), {-1: source}, {}, 0)
    with pytest.raises(Violation, match="is not what lies at offset 0 of nobody"):
        sourced(copies((-1, 0, b"a")), {-1: FarSourceTruth(None, FarLog(), (("", Start()),))}, {}, 0)


def test_r28_the_scripted_origin_answers_as_a_leader_does() -> None:
    made = far(*[b"%d" % at for at in range(40)], start=3)
    made.logs[0].gone |= {7}

    def ask(offset: int) -> AskOrigin:
        return AskOrigin(PartitionId(9, 0), ORIGIN, "elsewhere", "far", offset, 1)

    for offset in (0, 3, 30, 40):
        reply = made.answer(ask(offset))
        assert reply is not None and not intake.contradiction(reply)
        assert (reply.status == FETCH_BELOW_START) == (offset < 3)
    reply = made.answer(ask(5))
    assert reply is not None
    frames = [parse_batch(PartitionId(4, 0), frame) for frame in reply.batches]
    offsets = [one.offset for frame in frames for one in decode_records(frame)]
    assert (offsets[0], frames[-1].end_offset) == (5, reply.next_offset) and 7 not in offsets
    assert made.answer(AskOrigin(PartitionId(9, 1), ORIGIN, "elsewhere", "far", 0, 1)) is None
