"""The model of times to live: each rule that is left out shows its harm, and the right ones hold."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.times_to_live import TimesToLive

SMALL = {"Records": 1, "Entries": 1, "Times": 1, "Room": 1, "Epochs": 1, "Losses": 0, "Jumps": 0}
# variant, what is other than small, invariant, number of states in the counterexample
VARIANTS = [
    ("acts-uncommitted", {}, "OnlyCommitted", 6),
    ("believes-jumps", {"Jumps": 1}, "NotBeforeItsTime", 6),
    ("doubts-of-leader", {"Epochs": 2, "Jumps": 1}, "NotBeforeItsTime", 7),
    ("back-by-a-part", {"Jumps": 1}, "NotBeforeItsTime", 7),
    ("begins-at-end", {"Epochs": 2}, "NothingOver", 5),
    ("said-first", {"Epochs": 2}, "NothingOver", 8),
    ("said-of-others", {"Epochs": 3, "Losses": 1}, "NothingOver", 11),
    ("forgets-at-bound", {"Records": 2}, "NothingOver", 10),
]


@pytest.mark.parametrize(("variant", "other", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(
    variant: str, other: dict[str, int], invariant: str, states: int
) -> None:
    report = check(TimesToLive(variant=variant, **{**SMALL, **other}), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)


def test_every_variant_is_tested() -> None:
    assert {name for name, *_ in VARIANTS} == set(TimesToLive.variant.choices) - {"right"}


def test_the_rules_hold_where_the_variants_do_not() -> None:
    report = check(TimesToLive(Records=2, Room=1), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 46_052, 30)


@pytest.mark.slow
def test_they_hold_with_more_messages() -> None:
    report = check(TimesToLive(), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 732_460, 38)
