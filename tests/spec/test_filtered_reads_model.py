"""The model of filtered reads: each rule that is left out shows its harm, and the right ones hold."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.filtered_reads import FilteredReads

# variant, invariant, number of states in the counterexample
VARIANTS = [
    ("looks-above-hw", "HasWhatIs", 4),
    ("ends-with-a-match", "ComesOn", 5),
    ("index-to-the-end", "NothingLeftOut", 6),
    ("skips-the-rest", "NothingLeftOut", 7),
    ("goes-on-at-the-end", "NothingLeftOut", 7),
    ("older-answer", "HasWhatIs", 9),
    ("journal-not-minded", "DeletedIsNotSent", 9),
]


@pytest.mark.parametrize(("variant", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(variant: str, invariant: str, states: int) -> None:
    report = check(FilteredReads(variant=variant), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)


def test_every_variant_is_tested() -> None:
    assert {name for name, *_ in VARIANTS} == set(FilteredReads.variant.choices) - {"right"}


def test_the_rules_hold_where_the_variants_do_not() -> None:
    report = check(FilteredReads(), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 36_448, 18)


@pytest.mark.slow
def test_they_hold_with_one_copy_and_three_records() -> None:
    report = check(FilteredReads(Copies=1, Records=3), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 113_098, 20)


@pytest.mark.slow
def test_they_hold_beside_compaction() -> None:
    report = check(FilteredReads(Trims=0, Thinned=1), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 106_684, 19)
