"""The model of limits at the front: each rule that is left out shows its harm, and the right ones hold."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.front_limits import LimitsAtFront

SMALL = {"Subjects": 2, "Records": 2, "Entries": 1, "Epochs": 1, "Deletes": 0, "Alterations": 0}
DELETED = {"Entries": 2, "Deletes": 1}
# variant, what is other than small, invariant, number of states in the counterexample
VARIANTS = [
    ("begins-at-end", {"Epochs": 2}, "LimitHolds", 6),
    ("counts-uncommitted", {}, "OldestGo", 6),
    ("before-others", {"Records": 3, "Limit": 2}, "OldestGo", 9),
    ("counts-what-goes", DELETED, "OldestGo", 10),
    ("counts-deleted", DELETED, "OldestGo", 11),
    ("counts-each-as-one", {"Entries": 2, "Larges": 1, "Limit": 2}, "LimitHolds", 7),
    ("counted-for-ever", {"Limit": 2, "Alterations": 1}, "LimitHolds", 8),
    ("to-last-old", {"Olds": 1}, "OnlyOldGo", 6),
]


@pytest.mark.parametrize(("variant", "other", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(
    variant: str, other: dict[str, int], invariant: str, states: int
) -> None:
    report = check(LimitsAtFront(variant=variant, **{**SMALL, **other}), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)


def test_every_variant_is_tested() -> None:
    assert {name for name, *_ in VARIANTS} == set(LimitsAtFront.variant.choices) - {"right"}


def test_the_rules_hold_where_the_variants_do_not() -> None:
    report = check(LimitsAtFront(), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 30_343, 23)


@pytest.mark.parametrize(
    ("other", "states", "depth"),
    [
        ({"Larges": 1, "Limit": 2, "Alterations": 0}, 21_098, 22),
        ({"Olds": 1, "Records": 2}, 12_709, 20),
        ({"Subjects": 3, "Limit": 2, "Epochs": 3, "Alterations": 0}, 7_357, 20),
    ],
)
def test_they_hold_with_sizes_ages_and_more_leaders(other: dict[str, int], states: int, depth: int) -> None:
    report = check(LimitsAtFront(**other), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", states, depth)
