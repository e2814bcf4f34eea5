"""The model of consumer groups: it holds within bounds, and each broken rule shows its harm."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.groups import Groups

SMALL = {"Records": 1, "Generations": 2, "Failovers": 0, "Delays": 0, "Resets": 0}
TWO = {**SMALL, "Records": 2, "Generations": 1}
# variant, constants, invariant, number of states in the counterexample, an action that is in it
VARIANTS = [
    ("commit-before-processing", SMALL, "NoSkippedRecord", 7, "Commit"),
    ("latest-when-missing", SMALL, "NoSkippedRecord", 7, "Commit"),
    ("latest-when-below-log-start", TWO, "NoSkippedRecord", 10, "Commit"),
    ("commit-not-fenced", SMALL, "FencedCommit", 9, "Commit"),
    ("answered-before-stored", {**SMALL, "Failovers": 1}, "CursorMonotone", 9, "FailOver"),
    ("assignment-before-revoke", SMALL, "OneOwnerPerPartition", 9, "HearGrant"),
    ("generation-not-persisted", {**SMALL, "Failovers": 1}, "OneOwnerPerPartition", 11, "HearGrant"),
    ("old-answer-used", {**SMALL, "Delays": 1}, "OneOwnerPerPartition", 11, "LateGrantArrives"),
    (
        "replaced-coordinator-commits",
        {**SMALL, "Failovers": 1},
        "FencedCommit",
        11,
        "CommitAtReplacedCoordinator",
    ),
    ("cursor-goes-back", {**TWO, "Delays": 1}, "CursorMonotone", 12, "LateCommitArrives"),
    ("commit-fenced-by-member", {**SMALL, "Delays": 1}, "FencedCommit", 13, "LateCommitArrives"),
    ("serves-before-replay", {**TWO, "Failovers": 1}, "CursorMonotone", 14, "Commit"),
]


@pytest.mark.parametrize(("variant", "constants", "invariant", "states", "needed"), VARIANTS)
def test_a_variant_is_found_out(
    variant: str, constants: dict[str, int], invariant: str, states: int, needed: str
) -> None:
    report = check(Groups(variant=variant, **constants), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)
    assert len(report.trace) == states
    assert needed in {step.action.partition("(")[0] for step in report.trace}


BOUNDS = sorted({tuple(constants.items()) for _, constants, *_ in VARIANTS})


@pytest.mark.parametrize("constants", BOUNDS, ids=lambda c: "-".join(str(value) for _, value in c))
def test_the_right_rules_hold_at_the_bounds_of_each_variant(constants: tuple[tuple[str, int], ...]) -> None:
    """Some bounds are too small for all that is to happen sometimes, hence `vacuous`."""
    report = check(Groups(**dict(constants)), Bounds(symmetry=True))
    assert (report.verdict, report.invariant) in (("holds", ""), ("vacuous", ""))


def test_every_variant_is_tested() -> None:
    assert {name for name, *_ in VARIANTS} == set(Groups.variant.choices) - {"right"}


def test_it_holds_across_a_fail_over_and_a_reset() -> None:
    report = check(Groups(Generations=2, Delays=0), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 9_543, 25)


def test_it_holds_with_a_late_message() -> None:
    report = check(Groups(Generations=2, Resets=0), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 48_237, 26)


def test_it_holds_with_two_partitions() -> None:
    """One record in each: nobody can go on behind another's cursor."""
    few = {"Records": 1, "Generations": 2, "Failovers": 0, "Delays": 0, "Resets": 0}
    report = check(Groups(Partitions=2, **few), Bounds(symmetry=True))
    assert (report.verdict, report.invariant) == ("vacuous", "")
    assert "ASecondOwnerGoesOn" in report.unreached and "EverythingIsDone" not in report.unreached


@pytest.mark.nightly
def test_it_holds_at_the_registrys_bounds() -> None:
    report = check(Groups(), Bounds(jobs=2))
    assert (report.verdict, report.depth, report.unreached) == ("holds", 34, [])
    assert report.distinct_states == 547_326


@pytest.mark.nightly
def test_it_holds_with_three_members() -> None:
    report = check(Groups(Members=3, Generations=3, Delays=0, Resets=0), Bounds(jobs=2, symmetry=True))
    assert (report.verdict, report.unreached) == ("holds", [])
