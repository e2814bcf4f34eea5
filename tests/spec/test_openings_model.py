"""The model of runs that are opened in the log of outputs: each rule that is left out does harm (L10).

The bounds of a variant are the smallest found that show it, and the right rules hold at the same ones.
"""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds, ExplorationReport
from liftlog_spec.explore.search import check
from liftlog_spec.models.openings import Openings

CALM = {"Inputs": 1, "Records": 4, "Runs": 2, "Epochs": 1, "Windows": 0}
# variant, constants, what is violated, number of states in the counterexample
VARIANTS: list[tuple[str, dict[str, int], str, int]] = [
    ("cursor-read-before-run-opened", CALM, "OutputsOnce", 7),
    ("run-opened-not-durable", {**CALM, "Epochs": 2}, "OutputsOnce", 13),
    ("cursor-of-committed", CALM, "OutputsOnce", 11),
    ("opening-without-cursor", {**CALM, "Windows": 1}, "OutputsOnce", 12),
    ("outputs-without-cursor", CALM, "OutputsOnce", 11),
    ("older-run-taken", CALM, "ZombieFenced", 8),
    ("window-by-uncommitted", {**CALM, "Windows": 1, "Epochs": 2}, "ZombieFenced", 9),
]
LARGER = {"Inputs": 3, "Records": 7, "Runs": 3, "Epochs": 3, "Windows": 2}


class OutputsOnly(Openings):
    """What a reader of the output notices in the end."""

    CursorIsTrue = None


def explored(variant: str, constants: dict[str, int], kind: type[Openings] = Openings) -> ExplorationReport:
    return check(kind(variant=variant, **constants), Bounds())


@pytest.mark.parametrize(("variant", "constants", "invariant", "states"), VARIANTS)
def test_a_missing_rule_does_harm(
    variant: str, constants: dict[str, int], invariant: str, states: int
) -> None:
    report = explored(variant, constants, OutputsOnly)
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)
    assert len(report.trace) == states


def test_every_variant_has_its_counterexample() -> None:
    assert {variant for variant, *_ in VARIANTS} == set(Openings.declared["variant"].choices) - {"right"}


@pytest.mark.parametrize("constants", [CALM, {**CALM, "Windows": 1, "Epochs": 2}])
def test_the_rules_hold_where_a_variant_fails(constants: dict[str, int]) -> None:
    report = explored("right", constants)
    assert report.verdict in ("holds", "vacuous")
    assert report.invariant == ""


@pytest.mark.parametrize(
    ("variant", "constants"),
    [
        ("cursor-of-committed", CALM),
        ("opening-without-cursor", {**CALM, "Windows": 1}),
        ("outputs-without-cursor", CALM),
        ("window-by-uncommitted", {**CALM, "Windows": 1, "Epochs": 2}),
    ],
)
def test_a_cursor_that_is_lost_is_seen_before_it_does_harm(variant: str, constants: dict[str, int]) -> None:
    assert explored(variant, constants).invariant == "CursorIsTrue"


def test_it_holds_at_the_registrys_bounds() -> None:
    report = explored("right", {})
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 1_062, 16)


def test_it_holds_at_larger_bounds() -> None:
    report = explored("right", LARGER)
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 4_731, 20)
