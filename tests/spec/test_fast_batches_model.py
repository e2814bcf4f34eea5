"""The model of fast batches: each rule that is left out shows its harm, and the right ones hold."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.fast_batches import AckedByNumber

# variant, invariant, number of states in the counterexample
VARIANTS = [
    ("acked-at-append", "AckedIsThere", 3),
    ("gap-ignored", "AckedIsThere", 6),
    ("begun-anywhere", "AckedIsThere", 5),
]


@pytest.mark.parametrize(("variant", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(variant: str, invariant: str, states: int) -> None:
    report = check(AckedByNumber(variant=variant), Bounds())
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)


def test_every_variant_is_tested() -> None:
    assert {name for name, *_ in VARIANTS} == set(AckedByNumber.variant.choices) - {"right"}


def test_the_rules_hold_with_one_batch() -> None:
    report = check(AckedByNumber(Publishers=1, Records=4, Epochs=3), Bounds())
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 198, 8)


def test_they_hold_with_two_that_mix() -> None:
    report = check(AckedByNumber(), Bounds())
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 32_080, 12)
