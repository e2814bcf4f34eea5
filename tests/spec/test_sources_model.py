"""The model of sources: each rule that is left out shows its harm, and the right ones hold."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.sources import Sources

# variant, invariant, number of states in the counterexample
VARIANTS = [
    ("position-in-memory", "NoneSkipped", 7),
    ("answer-anywhere", "EachOnce", 7),
    ("position-of-committed", "EachOnce", 8),
    ("front-forgets", "EachOnce", 9),
    ("begins-at-its-start", "EachOnce", 8),
    ("names-its-own", "EachOnce", 16),
    ("forgets-taken-away", "EachOnce", 18),
]


@pytest.mark.parametrize(("variant", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(variant: str, invariant: str, states: int) -> None:
    report = check(Sources(variant=variant), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)


def test_every_variant_is_tested() -> None:
    assert {name for name, *_ in VARIANTS} == set(Sources.variant.choices) - {"right"}


def test_the_rules_hold_where_the_variants_do_not() -> None:
    report = check(Sources(), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 1952, 21)


def test_they_hold_with_more_entries_and_leaders() -> None:
    report = check(Sources(Records=3, Entries=5, Epochs=3), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 29408, 32)
