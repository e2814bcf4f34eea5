"""The model of batches: each rule that is left out shows its harm, and the right ones hold."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.batches import Batches

# variant, invariant, number of states in the counterexample
VARIANTS = [
    ("part-stored-at-once", "AllOrNone", 3),
    ("gap-ignored", "AllOrNone", 5),
    ("begun-anywhere", "AllOrNone", 5),
    ("compared-at-arrival", "StoredAsExpected", 6),
]


@pytest.mark.parametrize(("variant", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(variant: str, invariant: str, states: int) -> None:
    report = check(Batches(variant=variant), Bounds())
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)


def test_every_variant_is_tested() -> None:
    assert {name for name, *_ in VARIANTS} == set(Batches.variant.choices) - {"right"}


def test_the_rules_hold_with_one_batch() -> None:
    report = check(Batches(Publishers=1, Records=5, Epochs=3), Bounds())
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 6_456, 13)


@pytest.mark.nightly
def test_they_hold_with_two_that_mix() -> None:
    report = check(Batches(), Bounds())
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 788_993, 20)
