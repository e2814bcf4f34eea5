"""The model of leases and hints: it holds within bounds, and each broken rule shows its harm (N2, M1o)."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.leases import Leases

# variant, number of states in the counterexample
VARIANTS = [
    ("hint-is-proof", 3),
    ("removed-at-suspicion", 4),
    ("votes-on-hint", 4),
    ("age-after-transfer", 5),
    ("lease-from-answer", 8),
    ("age-of-everybody", 9),
    ("sure-despite-hints", 11),
]


@pytest.mark.parametrize(("variant", "states"), VARIANTS)
def test_a_variant_is_found_out(variant: str, states: int) -> None:
    report = check(Leases(variant=variant), Bounds())
    assert (report.verdict, report.invariant, report.depth) == ("violated", "SilentBeforeReplaced", states)


def test_every_variant_is_tested() -> None:
    assert {name for name, _ in VARIANTS} == set(Leases.variant.choices) - {"right"}


def test_N2_the_right_rules_hold_at_small_bounds() -> None:
    report = check(Leases(Moments=4, Lease=2, Suspicion=1, Election=2), Bounds())
    assert report.verdict in ("holds", "vacuous"), report.invariant


@pytest.mark.slow
def test_it_holds_at_the_registrys_bounds() -> None:
    report = check(Leases(), Bounds())
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 2_140_227, 25)
