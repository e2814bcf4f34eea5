"""The model of priority groups (K10): each rule that is left out shows its harm, and the right ones hold."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.priority_groups import PriorityGroups

# variant, invariant, number of states in the counterexample
VARIANTS = [
    ("two-pinned", "OnePinned", 5),
    ("pin-not-looked-at", "PinnedAlone", 5),
    ("pin-without-leader", "OnePinned", 6),
    ("served-below-minimum", "NotBelowMinimum", 4),
    ("pin-never-lost", "PinIsLost", 6),
]


@pytest.mark.parametrize(("variant", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(variant: str, invariant: str, states: int) -> None:
    report = check(PriorityGroups(variant=variant), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)


def test_every_variant_is_tested() -> None:
    assert {name for name, *_ in VARIANTS} == set(PriorityGroups.variant.choices) - {"right"}


def test_the_rules_hold_where_the_variants_do_not() -> None:
    report = check(PriorityGroups(), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 39582, 22)
