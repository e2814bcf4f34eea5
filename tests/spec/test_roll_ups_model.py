"""The model of roll-ups: each rule that is left out shows its harm, and the right ones hold."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.roll_ups import RollUpMessages

SMALL = {"Subjects": 1, "Records": 2, "Entries": 1, "Epochs": 1, "Losses": 0}
# variant, what is other than small, invariant, number of states in the counterexample
VARIANTS = [
    ("acts-uncommitted", {}, "OnlyOlder", 6),
    ("takes-newcomers", {}, "OnlyOlder", 7),
    ("begins-at-end", {"Epochs": 2}, "AllActedOn", 6),
    ("said-first", {"Epochs": 2}, "AllActedOn", 9),
    ("said-of-others", {"Epochs": 3, "Losses": 1}, "AllActedOn", 13),
]


@pytest.mark.parametrize(("variant", "other", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(
    variant: str, other: dict[str, int], invariant: str, states: int
) -> None:
    report = check(RollUpMessages(variant=variant, **{**SMALL, **other}), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)


def test_every_variant_is_tested() -> None:
    assert {name for name, *_ in VARIANTS} == set(RollUpMessages.variant.choices) - {"right"}


def test_the_rules_hold_where_the_variants_do_not() -> None:
    report = check(RollUpMessages(), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 154_358, 28)


def test_they_hold_with_more_leaders() -> None:
    report = check(RollUpMessages(Subjects=1, Epochs=3), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 251_113, 31)
