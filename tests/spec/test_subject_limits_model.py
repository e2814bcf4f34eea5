"""The model of limits by subject: each rule that is left out shows its harm, and the right ones hold."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.subject_limits import LimitsBySubject

SMALL = {"Subjects": 1, "Records": 2, "Entries": 1, "Epochs": 1, "Deletes": 0, "Alterations": 0}
DELETED = {"Entries": 2, "Deletes": 1}
# variant, what is other than small, invariant, number of states in the counterexample
VARIANTS = [
    ("begins-at-end", {"Epochs": 2}, "LimitHolds", 6),
    ("counts-uncommitted", {}, "KeepsNewest", 7),
    ("counts-what-goes", DELETED, "KeepsNewest", 11),
    ("counted-before", DELETED, "KeepsNewest", 11),
    ("looks-from-last", {}, "KeepsNewest", 13),
    ("limit-of-before", {"Alterations": 1}, "KeepsNewest", 10),
    ("counts-newcomers", {"Records": 3, "Entries": 2, "Limit": 2}, "KeepsNewest", 13),
]


@pytest.mark.parametrize(("variant", "other", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(
    variant: str, other: dict[str, int], invariant: str, states: int
) -> None:
    report = check(LimitsBySubject(variant=variant, **{**SMALL, **other}), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)


def test_every_variant_is_tested() -> None:
    assert {name for name, *_ in VARIANTS} == set(LimitsBySubject.variant.choices) - {"right"}


def test_the_rules_hold_where_the_variants_do_not() -> None:
    report = check(LimitsBySubject(), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 49_711, 28)


def test_they_hold_with_more_leaders_and_deletions() -> None:
    model = LimitsBySubject(Subjects=1, Limit=2, Deletes=2, Epochs=3, Alterations=0)
    report = check(model, Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 80_573, 27)
