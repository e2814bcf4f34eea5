"""Expectations by subject in the simulator: what is wrong with an answer; planted bugs are seen (L9)."""

from __future__ import annotations

import pytest

from liftlog.types import NO_OFFSET, NUMBER_MAX, EpochStart, Record
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.truth.contents import Contents
from liftlog_sim.truth.lasts import CrowdedSubject, ExpectedLast, LastsJudge

SUBJECTS = (b"s.a", b"s.b", b"s.a", b"s.a", b"s.b")
KEYS = (b"k", b"k", b"l", b"k", None)


def judge(start: int = 0, compact: bool = False) -> LastsJudge:
    """Of five committed records, of which three have one key."""
    contents = Contents()
    records = [
        Record(offset, 1, subject, b"", b"", key, b"v")
        for offset, (subject, key) in enumerate(zip(SUBJECTS, KEYS, strict=True))
    ]
    contents.appended(1, 0, 5, 9, records)
    contents.commit([EpochStart(1, 0)], 5)
    return LastsJudge(contents, start, compact)


@pytest.mark.parametrize(
    ("last", "subject", "offset", "start", "compact", "problem"),
    [
        (2, b"s.a", 3, 0, False, ""),
        (NO_OFFSET, b"s.a", 0, 0, False, ""),
        (NO_OFFSET, b"s.c", 4, 0, False, ""),
        (0, b"s.a", 3, 0, False, "s.a has a record at 2"),
        (NO_OFFSET, b"s.b", 4, 0, False, "s.b has a record at 1"),
        (NO_OFFSET, b"s.b", 4, 2, False, ""),
        (0, b"s.b", 1, 0, False, "s.b has no record there"),
        (NO_OFFSET, b"s.b", 3, 0, True, ""),
        (0, b"s.a", 3, 0, True, "s.a has a record at 2"),
    ],
)
def test_what_is_stored_follows_on_what_it_expected(
    last: int, subject: bytes, offset: int, start: int, compact: bool, problem: str
) -> None:
    found = judge(start, compact).stored(ExpectedLast(last, subject, 0), offset)
    assert problem in found and bool(found) == bool(problem)


@pytest.mark.parametrize(
    ("last", "since", "told", "problem"),
    [
        (0, 0, 3, ""),
        (0, 5, 3, ""),
        (3, 3, 2, ""),
        (3, 4, 2, "s.a has a record at 3"),
        (3, 0, 3, "the very same"),
        (3, 0, 5, "committed is no more than 5"),
        (3, 0, NO_OFFSET, ""),
        (3, 1, NO_OFFSET, "s.a has a record at 0"),
        (3, 0, 1, "s.a has a record at 0"),
    ],
)
def test_a_refusal_names_what_was_the_last_while_it_waited(
    last: int, since: int, told: int, problem: str
) -> None:
    found = judge().refused(ExpectedLast(last, b"s.a", since), told, 5)
    assert (problem in found.partition("the last, for ")[2] if problem else not found), found


@pytest.mark.parametrize(
    ("subject", "most", "start", "journal", "deleted", "left"),
    [
        (b"s.a", 3, 0, 0, {}, None),
        (b"s.a", 4, 0, 0, {}, "are 3: [0, 2, 3]"),
        (b"s.a", 3, 1, 0, {}, "are 2: [2, 3]"),
        (b"s.a", 3, 0, 4, {0: 5}, None),
        (b"s.a", 3, 0, 5, {0: 5}, "are 2: [2, 3]"),
        (b"s.c", 1, 0, 0, {}, "are 0: []"),
    ],
)
def test_C6_a_subject_is_full_of_what_is_committed_and_left(
    subject: bytes, most: int, start: int, journal: int, deleted: dict[int, int], left: str | None
) -> None:
    judging = judge()._replace(deleted=lambda offset: deleted.get(offset, NUMBER_MAX))
    found = judging.full(CrowdedSubject(subject, most, start, journal))
    assert left in found if left is not None else not found


@pytest.mark.slow
def test_C6_a_refusal_for_what_is_not_committed_is_seen() -> None:
    """A guard switched off: seed 43 is the first that tells."""
    result = run_seed(RunOptions(seed=43, mutant="C6.subject-uncommitted"))
    assert result.invariant == "RefusedTruly" and "committed, and not deleted, are" in result.finding


@pytest.mark.parametrize(
    ("last", "journal", "deleted", "problem"),
    [
        (2, 0, {}, "s.a has a record at 3"),
        (2, 0, {3: 5}, ""),
        (0, 0, {3: 5}, "s.a has a record at 2"),
        (0, 0, {3: 5, 2: 7}, ""),
        (2, 6, {3: 5, 2: 7}, ""),
        (2, 7, {3: 5, 2: 7}, "2 is deleted by the journal below 7, which it is to heed up to 7"),
        (2, 0, {3: 5, 2: 5}, "2 is deleted by the journal below 5, which it is to heed up to 5"),
        (NO_OFFSET, 0, {0: 1, 2: 2, 3: 3}, ""),
        (NO_OFFSET, 9, {0: 1, 2: 2}, "s.a has a record at 3"),
    ],
)
def test_what_was_deleted_meanwhile_may_have_been_there_or_not(
    last: int, journal: int, deleted: dict[int, int], problem: str
) -> None:
    judging = judge()._replace(deleted=lambda offset: deleted.get(offset, NUMBER_MAX))
    found = judging.stored(ExpectedLast(last, b"s.a", 0, journal), 4)
    assert problem in found and bool(found) == bool(problem)


@pytest.mark.parametrize(
    ("mutant", "seed", "invariant"),
    [
        ("last_of_index_alone", 22, "StoredAsExpected"),
        ("last_of_index_behind", 22, "RefusedTruly"),
        ("last_of_those_before", 43, "StoredAsExpected"),
        ("last_of_parcel_unnoted", 629, "RefusedTruly"),
        ("L9.not-known", 43, "RefusedTruly"),
        ("L9.expected-last", 43, "StoredAsExpected"),
    ],
)
def test_L9_planted_bugs_are_seen(mutant: str, seed: int, invariant: str) -> None:
    assert run_seed(RunOptions(seed=seed, mutant=mutant)).invariant == invariant
