"""The model of late and repeated commands: it holds within bounds, and each broken rule shows its harm."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.commands import Commands

ONE = {"Requests": 1}
# variant, constants, invariant, number of states in the counterexample
VARIANTS = [
    ("name-at-apply", ONE, "AsMeant", 8),
    ("resolved-when-back", ONE, "AsMeant", 6),
    ("creation-without-reading", ONE, "AsMeant", 7),
    ("counted-memory", ONE, "TakesEffectOnce", 6),
    ("bound-not-checked", {**ONE, "Span": 1}, "TakesEffectOnce", 6),
]


@pytest.mark.parametrize(("variant", "constants", "invariant", "states"), VARIANTS)
def test_a_variant_is_found_out(variant: str, constants: dict[str, int], invariant: str, states: int) -> None:
    report = check(Commands(variant=variant, **constants), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)
    assert len(report.trace) == states


@pytest.mark.parametrize("span", [1, 3])
def test_the_right_rules_hold_at_the_bounds_of_each_variant(span: int) -> None:
    """The smaller span is too small for all that is to happen sometimes, hence `vacuous`."""
    report = check(Commands(Requests=1, Span=span), Bounds(symmetry=True))
    assert (report.verdict, report.invariant) in (("holds", ""), ("vacuous", ""))


def test_every_variant_is_tested() -> None:
    assert {name for name, *_ in VARIANTS} == set(Commands.variant.choices) - {"right"}


@pytest.mark.slow
def test_it_holds_at_the_registrys_bounds() -> None:
    report = check(Commands(), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 255_074, 12)
