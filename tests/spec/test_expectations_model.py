"""The model of compare-and-set: each rule that is left out shows its harm, and the right ones hold."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.expectations import Expectations

# variant, epochs, invariant, number of states in the counterexample
VARIANTS = [
    ("compared-with-committed", 1, "StoredAsExpected", 9),
    ("refused-at-once", 2, "RefusedTruly", 7),
    ("refused-by-deposed", 2, "RefusedTruly", 12),
    ("index-of-uncommitted", 3, "StoredAsExpected", 16),
    ("index-behind", 2, "RefusedTruly", 12),
]


@pytest.mark.parametrize(("variant", "epochs", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(variant: str, epochs: int, invariant: str, states: int) -> None:
    report = check(Expectations(variant=variant, Publishers=2, Epochs=epochs), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)


def test_every_variant_is_tested() -> None:
    assert {name for name, *_ in VARIANTS} == set(Expectations.variant.choices) - {"right"}


def test_the_rules_hold_where_the_variants_do_not() -> None:
    report = check(Expectations(Publishers=2), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 51_413, 28)


@pytest.mark.nightly
def test_they_hold_with_two_subjects_and_with_longer_logs() -> None:
    report = check(Expectations(Publishers=2, Subjects=2, Records=3), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states) == ("holds", 121_828)
    report = check(Expectations(Records=3, Epochs=2), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states) == ("holds", 582_097)
