"""The model of interest: each rule that is left out shows its harm, and the right ones hold."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.interest import InterestMessages

SMALL = {"Records": 1, "Entries": 3, "Consumers": 1, "Epochs": 1}
ALTERED = {"Records": 2, "Consumers": 2, "Alterations": 1}
# variant, what is other than small, invariant, number of states in the counterexample
VARIANTS = [
    ("goes-at-delivery", {}, "GoneIsUnwanted", 9),
    ("one-suffices", {"Entries": 5, "Consumers": 2}, "GoneIsUnwanted", 13),
    ("filtered-want-none", {"Consumers": 2}, "GoneIsUnwanted", 7),
    ("filtered-want-all", {"Records": 2, "Consumers": 2}, "UnwantedIsGone", 7),
    ("forgets-being-made", {}, "GoneIsUnwanted", 7),
    ("names-what-it-found", {}, "GoneIsUnwanted", 7),
    ("looks-uninherited", {"Epochs": 2}, "GoneIsUnwanted", 8),
    ("leader-forgets", {"Epochs": 2}, "UnwantedIsGone", 3),
    ("looks-when-written", {}, "UnwantedIsGone", 9),
    ("deletion-unseen", {}, "UnwantedIsGone", 7),
    ("freed-by-written", {}, "GoneIsUnwanted", 5),
    ("filters-as-found", ALTERED, "GoneIsUnwanted", 10),
    ("alteration-unseen", ALTERED, "UnwantedIsGone", 7),
    ("forgets-altering", ALTERED, "GoneIsUnwanted", 10),
    ("names-by-old-filter", ALTERED, "GoneIsUnwanted", 10),
]


@pytest.mark.parametrize(("variant", "other", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(
    variant: str, other: dict[str, int], invariant: str, states: int
) -> None:
    report = check(InterestMessages(variant=variant, **{**SMALL, **other}), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)


def test_every_variant_is_tested() -> None:
    assert {name for name, *_ in VARIANTS} == set(InterestMessages.variant.choices) - {"right"}


def test_the_rules_hold_where_the_variants_do_not() -> None:
    report = check(InterestMessages(Records=1), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 10_669, 14)
    report = check(InterestMessages(Entries=3, Alterations=1), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 20_449, 16)
