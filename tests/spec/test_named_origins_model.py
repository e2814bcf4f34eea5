"""The model of origins elsewhere: each rule that is left out shows its harm, and the right ones hold."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.named_origins import NamedOrigins

# variant, invariant, number of states in the counterexample
VARIANTS = [
    ("copied-first", "OfTheNamedOne", 5),
    ("unnamed", "OfOneOrigin", 11),
    ("named-anew", "OfTheNamedOne", 11),
    ("named-by-leader", "OfOneOrigin", 12),
]


@pytest.mark.parametrize(("variant", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(variant: str, invariant: str, states: int) -> None:
    report = check(NamedOrigins(variant=variant), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)


def test_every_variant_is_tested() -> None:
    assert {name for name, *_ in VARIANTS} == set(NamedOrigins.variant.choices) - {"right"}


def test_the_rules_hold_where_the_variants_do_not() -> None:
    report = check(NamedOrigins(), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 104, 14)


def test_they_hold_with_more_makings_and_leaders() -> None:
    report = check(NamedOrigins(Makings=3, Records=3, Epochs=3), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 675, 21)
