"""The model of message ids: each rule left out stores one twice, or answers with what is not there."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds, ExplorationReport
from liftlog_spec.explore.search import check
from liftlog_spec.models.message_ids import MessageIds

ONE = {"Ids": 1, "Records": 2, "Moments": 2, "Removals": 0}
# variant, constants, invariant, number of states in the counterexample
VARIANTS = [
    ("table-not-rebuilt", ONE, "StoredOnce", 6),
    ("table-rebuilt-to-hw", ONE, "StoredOnce", 6),
    ("duplicate-acked-at-once", {**ONE, "Epochs": 1}, "AnsweredIsCommitted", 3),
    ("stamp-by-clock-alone", {"Records": 2, "Epochs": 1, "Removals": 0}, "TimesNeverGoBack", 5),
    ("full-table-forgets", {"Records": 3, "Most": 1, "Epochs": 1, "Removals": 0}, "StoredOnce", 7),
    ("removed-id-forgotten", {**ONE, "Epochs": 1, "Removals": 1}, "StoredOnce", 6),
    ("start-within-window", {"Records": 2}, "StoredOnce", 8),
    ("start-by-uncommitted-time", {"Records": 3}, "StoredOnce", 9),
]


class StoredTwice(MessageIds):
    """What a reader notices."""

    TimesNeverGoBack = None


def explored(
    variant: str, constants: dict[str, int], kind: type[MessageIds] = MessageIds
) -> ExplorationReport:
    return check(kind(variant=variant, **constants), Bounds(symmetry=True))


@pytest.mark.parametrize(("variant", "constants", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(
    variant: str, constants: dict[str, int], invariant: str, states: int
) -> None:
    report = explored(variant, constants)
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)
    assert len(report.trace) == states


def test_every_variant_has_its_counterexample() -> None:
    assert {variant for variant, *_ in VARIANTS} == set(MessageIds.declared["variant"].choices) - {"right"}


def test_a_clock_that_goes_back_takes_the_window_with_it() -> None:
    report = explored("stamp-by-clock-alone", {"Records": 3, "Epochs": 1, "Removals": 0}, StoredTwice)
    assert (report.invariant, report.depth) == ("StoredOnce", 7)


@pytest.mark.parametrize("constants", [{"Records": 3, "Most": 1}, {"Records": 3, "Ids": 1}])
def test_the_rules_hold_where_a_variant_fails(constants: dict[str, int]) -> None:
    assert explored("right", constants).invariant == ""


def test_it_holds_at_the_registrys_bounds() -> None:
    report = explored("right", {})
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 4_844, 20)


@pytest.mark.nightly
def test_it_holds_at_larger_bounds() -> None:
    report = explored("right", {"Ids": 3, "Records": 5, "Moments": 4, "Epochs": 3})
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 95_140, 21)
