"""The model of dead letters: each rule that is left out shows its harm, and the right ones hold."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.dead_letters import DeadLettersOfAConsumer

# variant, invariant, number of states in the counterexample
VARIANTS = [
    ("done-before-acked", "NoneLost", 5),
    ("id-not-the-same", "StoredOnce", 8),
    ("forgotten-by-new-leader", "NoneLost", 6),
    ("published-before-committed", "NotBoth", 7),
    ("acked-when-dead", "NotBoth", 7),
]


@pytest.mark.parametrize(("variant", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(variant: str, invariant: str, states: int) -> None:
    report = check(DeadLettersOfAConsumer(variant=variant), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)


def test_every_variant_is_tested() -> None:
    assert {name for name, *_ in VARIANTS} == set(DeadLettersOfAConsumer.variant.choices) - {"right"}


def test_the_rules_hold_where_the_variants_do_not() -> None:
    report = check(DeadLettersOfAConsumer(), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 153, 10)


def test_they_hold_with_more_leaders() -> None:
    report = check(DeadLettersOfAConsumer(Epochs=6), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 342, 13)
