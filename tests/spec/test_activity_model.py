"""The model of the activity stream (N12): each rule that is left out shows its harm, the right ones hold."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.activity import ActivityStream

# variant, invariant, number of states in the counterexample
VARIANTS = [
    ("trimmed-when-appended", "TrimmedIsStored", 4),
    ("goes-on-where-the-last-was", "NoneMissing", 7),
    ("loss-not-told", "NoneMissing", 7),
    ("next-when-it-fits", "RepeatsBegin", 5),
    ("published-from-elsewhere", "RepeatsBegin", 4),
]


@pytest.mark.parametrize(("variant", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(variant: str, invariant: str, states: int) -> None:
    report = check(ActivityStream(variant=variant), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)


def test_every_variant_is_tested() -> None:
    assert {name for name, *_ in VARIANTS} == set(ActivityStream.variant.choices) - {"right"}


def test_the_rules_hold_where_the_variants_do_not() -> None:
    report = check(ActivityStream(), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 588, 15)


def test_they_hold_with_more_events_and_leaders() -> None:
    report = check(ActivityStream(Events=4, Entries=6, Epochs=3), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 30244, 22)
