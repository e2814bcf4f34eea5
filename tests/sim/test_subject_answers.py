"""SubjectAnswersTrue: what fails an answer about subjects, and that planted bugs are seen by it (S1)."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.messages import SubjectReply, SubjectRequest
from liftlog.types import EpochStart, PartitionId, Record
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.truth.contents import Contents
from liftlog_sim.truth.subjects import AskedMoment, SubjectJudge

LOG = PartitionId(7, 0)
SUBJECTS = (b"s.a", b"s.b", b"s.a", b"s.a", b"s.b")
KEYS = (b"k", b"k", b"l", b"k", None)


def problem(
    request: tuple[str, str],
    compact: bool = False,
    asked: AskedMoment = AskedMoment(0, 0),  # noqa: B008
    offset: int = -1,
    at: int = 0,
    known: bool = False,
    **told: Any,
) -> str:
    """What is wrong with an answer about five committed records, of which three have one key."""
    contents = Contents()
    records = [
        Record(offset, 1, subject, b"", b"", key, b"v")
        for offset, (subject, key) in enumerate(zip(SUBJECTS, KEYS, strict=True))
    ]
    contents.appended(1, 0, 5, 9, records)
    contents.commit([EpochStart(1, 0)], 5)
    reply = SubjectReply(LOG, 1, told.pop("hw", 5), told.pop("start", 0), offset, **told)
    question = SubjectRequest(LOG, *request, at, known=known)
    return SubjectJudge(contents, 5, compact).problem(question, reply, asked)


def test_true_answers_are_true() -> None:
    assert not problem(("last", "s.a"), offset=3)
    assert not problem(("last", "s.c"))
    assert not problem(("last", "s.a"), offset=2, hw=3)
    assert not problem(("next", "s.b"), offset=4, at=2)
    assert not problem(("subjects", "s.*"), subjects=[(b"s.a", 3), (b"s.b", 2)], messages=5, size=170)
    assert not problem(
        ("subjects", ">"), subjects=[(b"s.a", 1), (b"s.b", 1)], messages=2, start=3, size=68
    )


@pytest.mark.parametrize(
    ("request_", "told", "word"),
    [
        (("last", "s.a"), {"offset": 2}, "names offset 2, and offset 3 is there"),
        (("last", "s.a"), {}, "names no message, and offset 3 is there"),
        (("last", "s.a"), {"offset": 4}, "names offset 4"),
        (("last", "s.c"), {"offset": 3}, "where no such message"),
        (("last", "s.b"), {"offset": 1, "start": 2, "hw": 4}, "where no such message"),
        (("next", "s.a"), {"offset": 3, "at": 1}, "offset 2 is there"),
        (("next", "s.a"), {"offset": 0, "at": 1}, "offset 2 is there"),
        (("subjects", ">"), {"subjects": [(b"s.a", 3)], "messages": 3}, "counts 0 messages of s.b"),
        (("subjects", "s.a"), {"subjects": [(b"s.a", 4)], "messages": 4}, "counts 4 messages of s.a"),
        (("subjects", "s.a"), {"subjects": [(b"s.a", 3)], "messages": 5}, "counts 5 messages in all"),
        (("subjects", "s.b"), {"subjects": [(b"s.b", 2)], "messages": 2, "size": 68}, "and they are 170"),
        (("last", "s.a"), {"offset": 3, "hw": 6}, "and 5 are committed"),
        (("last", "s.a"), {"offset": 2, "hw": 3, "asked": AskedMoment(4, 0)}, "had been acknowledged"),
        (("last", "s.a"), {"offset": 3, "asked": AskedMoment(4, 2)}, "was purged before"),
    ],
)
def test_subject_answers_true_fails_for(request_: tuple[str, str], told: dict[str, Any], word: str) -> None:
    assert word in problem(request_, **told)


def test_who_asks_for_what_a_copy_knows_may_be_told_less() -> None:
    assert not problem(("last", "s.a"), offset=2, hw=3, asked=AskedMoment(5, 0), known=True)


def test_a_compacted_copy_may_lack_what_is_superseded_and_must_not_tell_of_what_it_had_lost() -> None:
    assert not problem(("next", "s.a"), True, offset=2)
    assert not problem(("subjects", ">"), True, subjects=[(b"s.a", 2), (b"s.b", 1)], messages=3)
    assert "offset 2 is there" in problem(("next", "s.a"), True, offset=3)
    lost = AskedMoment(5, 0, {2, 3, 4}, 5)
    assert not problem(("next", "s.a"), True, offset=2, asked=lost)
    assert "names offset 0" in problem(("next", "s.a"), True, offset=0, asked=lost)
    counted = [(b"s.a", 3), (b"s.b", 2)]
    assert "there are" in problem(("subjects", ">"), True, subjects=counted, messages=5, asked=lost)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bug", "seed", "profile"),
    [
        ("subjects_uncommitted", 9, "kills"),
        ("subjects_behind", 9, "kills"),
        ("subjects_not_thinned", 9, "compaction"),
        ("subjects_start_ignored", 15, "retention"),
    ],
)
def test_S1_planted_bugs_of_the_subject_index_are_seen(bug: str, seed: int, profile: str) -> None:
    result = run_seed(RunOptions(seed=seed, profile=profile, mutant=bug))
    assert result.invariant == "SubjectAnswersTrue"
