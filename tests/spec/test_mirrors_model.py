"""The model of mirrors: each rule that is left out shows its harm, and the right ones hold."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.mirrors import Mirrors

# variant, invariant, number of states in the counterexample
VARIANTS = [
    ("takes-messages", "MirrorIsPrefix", 3),
    ("copies-uncommitted", "MirrorIsPrefix", 5),
    ("begins-at-the-end", "EmptyIsGone", 6),
    ("says-nothing", "EmptyIsSaid", 7),
    ("says-later", "EmptyIsSaid", 7),
    ("position-saved-first", "MirrorIsPrefix", 9),
    ("position-saved-later", "MirrorIsPrefix", 9),
    ("closes-gaps", "MirrorIsPrefix", 10),
    ("asks-uncommitted", "EmptyIsGone", 12),
]


@pytest.mark.parametrize(("variant", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(variant: str, invariant: str, states: int) -> None:
    report = check(Mirrors(variant=variant), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)


def test_every_variant_is_tested() -> None:
    assert {name for name, *_ in VARIANTS} == set(Mirrors.variant.choices) - {"right"}


def test_the_rules_hold_where_the_variants_do_not() -> None:
    report = check(Mirrors(), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 1_151, 16)


def test_they_hold_with_more_leaders_and_more_that_is_deleted() -> None:
    report = check(Mirrors(Records=3, Epochs=3, Deletes=2), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 63_795, 28)
