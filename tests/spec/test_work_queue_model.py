"""The model of work queues: each rule that is left out shows its harm, and the right ones hold."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.work_queue import WorkQueueMessages

SMALL = {"Records": 1, "Entries": 3, "Consumers": 1, "Epochs": 1}
# variant, what is other than small, invariant, number of states in the counterexample
VARIANTS = [
    ("goes-at-delivery", {}, "GoneIsDone", 5),
    ("freed-by-written", {}, "GoneIsDone", 5),
    ("goes-when-given-up", {}, "GoneIsDone", 7),
    ("apart", {"Epochs": 2}, "DoneIsGone", 8),
    ("derived", {"Entries": 4}, "DoneIsGone", 9),
    ("overlapping", {"Entries": 4, "Consumers": 2}, "WithOne", 9),
    ("altered-into", {"Records": 2, "Entries": 5, "Consumers": 2, "Filters": 2}, "WithOne", 11),
    ("altered-meanwhile", {"Records": 2, "Entries": 5, "Consumers": 2, "Filters": 2}, "WithOne", 11),
]


@pytest.mark.parametrize(("variant", "other", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(
    variant: str, other: dict[str, int], invariant: str, states: int
) -> None:
    report = check(WorkQueueMessages(variant=variant, **{**SMALL, **other}), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)


def test_every_variant_is_tested() -> None:
    assert {name for name, *_ in VARIANTS} == set(WorkQueueMessages.variant.choices) - {"right"}


def test_the_rules_hold_where_the_variants_do_not() -> None:
    report = check(WorkQueueMessages(), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 10_726, 18)
    report = check(WorkQueueMessages(Entries=4, Filters=2, Removals=1), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 50_366, 12)
