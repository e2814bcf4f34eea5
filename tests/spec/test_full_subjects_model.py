"""The model of full subjects: each rule that is left out shows its harm, and the right ones hold."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.full_subjects import FullSubjects

# variant, invariant, number of states in the counterexample
VARIANTS = [
    ("counts-committed", "HoldsNoMore", 7),
    ("refused-by-uncommitted", "RefusedTruly", 4),
    ("counts-removed", "RefusedTruly", 8),
    ("frees-by-uncommitted", "HoldsNoMore", 8),
]


@pytest.mark.parametrize(("variant", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(variant: str, invariant: str, states: int) -> None:
    report = check(FullSubjects(variant=variant), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)


def test_every_variant_is_tested() -> None:
    assert {name for name, *_ in VARIANTS} == set(FullSubjects.variant.choices) - {"right"}


def test_the_rules_hold_where_the_variants_do_not() -> None:
    report = check(FullSubjects(), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 141, 15)
