"""FilteredExactly: what fails an answer to a filtered read, and that planted bugs are seen by it (S2)."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.messages import FilteredReadRequest, VisibleReadReply
from liftlog.types import EpochStart, PartitionId, Record
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.truth.contents import Contents
from liftlog_sim.truth.filtered import FilteredAnswer, problem_of

LOG = PartitionId(7, 0)
SUBJECTS = (b"s.a", b"s.b", b"s.a", b"s.a", b"s.b")
KEYS = (b"k", b"k", b"l", b"k", None)
RECORDS = [
    Record(offset, 1, subject, b"", b"", key, b"v")
    for offset, (subject, key) in enumerate(zip(SUBJECTS, KEYS, strict=True))
]


def problem(
    came: list[int],
    looked: int,
    at: int = 0,
    compact: bool = False,
    gone: dict[int, int] | None = None,
    heeded: int = 0,
    says: int | None = None,
    **wanted: Any,
) -> str:
    contents = Contents()
    contents.appended(1, 0, 5, 9, RECORDS)
    contents.commit([EpochStart(1, 0)], 5)
    request = FilteredReadRequest(LOG, at, **(wanted or {"subjects": ["s.a"]}))
    reply = VisibleReadReply(LOG, 1, 5, 0, looked, [], journal=heeded if says is None else says)
    answer = FilteredAnswer(request, reply, [RECORDS[offset] for offset in came], heeded)
    return problem_of(answer, contents, 5, compact, gone or {})


def test_true_answers_are_true() -> None:
    assert not problem([0, 2, 3], 5)
    assert not problem([0], 2)
    assert not problem([], 2, at=1)
    assert not problem([1, 4], 5, subjects=["*.b"])
    assert not problem([0, 1, 3], 5, keys=[b"k"])
    assert not problem([1], 5, subjects=["*.b"], keys=[b"k"])
    assert not problem([2, 3], 5, compact=True)
    assert not problem([0, 3], 5, gone={2: 4}, heeded=4)


@pytest.mark.parametrize(
    ("came", "looked", "how", "word"),
    [
        ([0, 3], 5, {}, "leaves out offset 2"),
        ([0, 1, 2, 3], 5, {}, "offset 1, which does not match"),
        ([0, 2], 2, {}, "looked up to 2 alone"),
        ([0, 2, 3], 6, {}, "5 are committed"),
        ([], 0, {"at": 1}, "from 1 up to 0"),
        ([0, 2], 5, {"compact": True}, "leaves out offset 3"),
        ([0, 2, 3], 5, {"gone": {2: 4}, "heeded": 4}, "which was deleted"),
        ([0, 3], 5, {"gone": {2: 4}, "heeded": 4, "says": 3}, "and says that it heeds 3"),
    ],
)
def test_filtered_exactly_fails_for(came: list[int], looked: int, how: dict[str, Any], word: str) -> None:
    assert word in problem(came, looked, **how)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bug", "seed", "profile"),
    [("picked_skips_the_rest", 125, ""), ("picked_ends_at_nothing", 90, "")],
)
def test_S2_planted_bugs_of_filtered_reads_are_seen(bug: str, seed: int, profile: str) -> None:
    result = run_seed(RunOptions(seed=seed, profile=profile, mutant=bug))
    assert result.invariant == "FilteredExactly"
