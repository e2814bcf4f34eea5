"""The model of markers: each rule that is left out shows its harm, and the right ones hold."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.markers import DeleteMarkers

SMALL = {"Records": 3, "Entries": 2, "Times": 2, "Epochs": 1}
# variant, what is other than small, invariant, number of states in the counterexample
VARIANTS = [
    ("removal-first", {"Records": 2, "Entries": 1}, "MarkerLeft", 6),
    ("unheeded", {}, "MarkerLeft", 10),
    ("marker-twice", {}, "MarkerDue", 6),
    ("subject-lives", {}, "MarkerDue", 6),
    ("takes-what-stays", {}, "MarkerDue", 7),
    ("marker-of-marker", {}, "MarkerDue", 8),
]


@pytest.mark.parametrize(("variant", "other", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(
    variant: str, other: dict[str, int], invariant: str, states: int
) -> None:
    report = check(DeleteMarkers(variant=variant, **{**SMALL, **other}), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)


def test_every_variant_is_tested() -> None:
    assert {name for name, *_ in VARIANTS} == set(DeleteMarkers.variant.choices) - {"right"}


def test_the_rules_hold_where_the_variants_do_not() -> None:
    report = check(DeleteMarkers(), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 18_480, 18)
