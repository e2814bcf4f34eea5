"""The model of compare-and-set: each rule that is left out shows its harm, and the right ones hold."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.expectations import Expectations

# variant, epochs, removals, invariant, number of states in the counterexample
VARIANTS = [
    ("compared-with-committed", 1, 0, "StoredAsExpected", 9),
    ("refused-at-once", 2, 0, "RefusedTruly", 7),
    ("refused-by-deposed", 2, 0, "RefusedTruly", 12),
    ("index-of-uncommitted", 3, 0, "StoredAsExpected", 16),
    ("index-behind", 2, 0, "RefusedTruly", 12),
    ("removed-is-last", 1, 1, "RefusedTruly", 11),
    ("removals-not-heeded", 1, 1, "RefusedTruly", 11),
    ("removed-by-uncommitted", 2, 1, "StoredAsExpected", 11),
]
BEHIND_REMOVED = "index-behind-removed"


@pytest.mark.parametrize(("variant", "epochs", "removals", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(
    variant: str, epochs: int, removals: int, invariant: str, states: int
) -> None:
    model = Expectations(variant=variant, Publishers=2, Epochs=epochs, Removals=removals)
    report = check(model, Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)


def test_every_variant_is_tested() -> None:
    assert {BEHIND_REMOVED, *(name for name, *_ in VARIANTS)} == set(Expectations.variant.choices) - {"right"}


def test_the_rules_hold_where_the_variants_do_not() -> None:
    report = check(Expectations(Publishers=2), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 51_413, 28)


def test_a_noted_record_that_is_removed_does_not_say_which_one_is_left() -> None:
    model = Expectations(variant=BEHIND_REMOVED, Records=3, Epochs=1, Removals=1)
    report = check(model, Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", "StoredAsExpected", 15)


@pytest.mark.nightly
def test_they_hold_where_a_record_is_removed() -> None:
    report = check(Expectations(Publishers=2, Epochs=2, Removals=1), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 244_029, 28)


@pytest.mark.nightly
def test_they_hold_with_two_subjects_and_with_longer_logs() -> None:
    report = check(Expectations(Publishers=2, Subjects=2, Records=3), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states) == ("holds", 121_828)
    report = check(Expectations(Records=3, Epochs=2), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states) == ("holds", 582_097)
