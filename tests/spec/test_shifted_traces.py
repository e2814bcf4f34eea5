"""A trace of a log that begins at a first offset is held against the model as one that begins at 0 (C7)."""

from __future__ import annotations

from liftlog.trace.replica_lines import (
    Cause,
    Copy,
    Found,
    Group,
    GroupStep,
    Letter,
    Office,
    ReplicaState,
    ReplicaStep,
    Report,
    View,
)
from liftlog.types import PartitionId
from liftlog_spec.refine.shifted import shifted

LOG = PartitionId(7, 0)
FIRST = 100
LETTER = Letter("answer", 1, 2, 3, 4, offset=101, durable=100, hw=102, log_start=100, first=101, end=103)
VIEW = View(9, 1, 3, 2, (1, 2))


def test_all_offsets_of_a_replica_s_line_are_lower() -> None:
    office = Office(3, 101, None, {2: (4, 102), 3: (5, -1), 4: (6, 0)})
    history, damage = ((1, 100), (3, 102)), ((100, 101),)
    state = ReplicaState(
        "ready", "leader", 3, 105, 104, 103, 100, history, VIEW, damage=damage, office=office
    )
    line = ReplicaStep(
        1, 2, 3, 4, LOG, Cause("Received", LETTER), (LETTER,), state, ((3, 105),), (Report(3, 101),)
    )
    found = shifted(line, FIRST)
    assert isinstance(found, ReplicaStep) and found.after is not None and found.after.office is not None
    after, letter = found.after, found.sent[0]
    assert (after.leo, after.durable, after.hw, after.log_start) == (5, 4, 3, 0)
    assert (after.history, after.damage) == (((1, 0), (3, 2)), ((0, 1),))
    assert (after.office.began, after.office.progress) == (1, {2: (4, 2), 3: (5, -1), 4: (6, 0)})
    assert (letter.offset, letter.durable, letter.hw, letter.log_start) == (1, 0, 2, 0)
    assert (letter.first, letter.end, letter.end_offset) == (1, 3, 0)
    assert found.cause.letter == letter
    assert (found.appended, found.reports) == (((3, 5),), (Report(3, 1),))
    assert (found.node, found.number, after.epoch, after.view) == (1, 3, 3, VIEW)


def test_a_copy_that_has_lost_all_is_empty_as_one_that_has_not_begun() -> None:
    for end in (0, FIRST):
        state = ReplicaState("ready", "idle", 0, end, end, end, end, (), VIEW)
        found = shifted(ReplicaStep(1, 2, 3, 4, LOG, Cause("LogOpened"), (), state), FIRST)
        assert isinstance(found, ReplicaStep) and found.after is not None
        assert (found.after.leo, found.after.hw, found.after.log_start) == (0, 0, 0)


def test_so_are_those_of_the_group_s_lines() -> None:
    group = Group(1, 4, 3, 2, (1, 2), (), {3: Copy(1, 101), 2: Copy(0, 0)}, {})
    line = GroupStep(
        1, 2, 3, LOG, 9, "RegisterNode", group, found=Found("suspect", 1, 101), told=Copy(1, 102), first=FIRST
    )
    found = shifted(line, FIRST)
    assert isinstance(found, GroupStep) and found.after is not None and found.found is not None
    assert found.after.known == {3: Copy(1, 1), 2: Copy(0, 0)}
    assert (found.found.leo, found.told, found.first) == (1, Copy(1, 2), 0)
    gone = GroupStep(1, 2, 3, LOG, 9, "DeleteStream", None)
    assert shifted(gone, FIRST) == gone
