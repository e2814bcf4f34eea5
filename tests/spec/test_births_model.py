"""The model of two births of one name: who believes a disk of the other one loses what is his (M5, I2)."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds, ExplorationReport
from liftlog_spec.explore.search import check
from liftlog_spec.models.births import Births

SHORT = {"Joiners": 0, "Crashes": 0}
TWO = {"Terms": 1, "Entries": 2}
# variant, constants, invariant, number of states in the counterexample
VARIANTS = [
    ("name-of-people", SHORT, "OneHistory", 6),
    ("other-birth-appends", SHORT, "OneHistory", 6),
    ("signed-believes", SHORT, "OneHistory", 6),
    ("other-birth-votes", SHORT, "LeaderCompleteness", 10),
    ("kept-before-told", {**TWO, "Crashes": 0}, "OneHistory", 12),
    ("told-without-sync", TWO, "OneHistory", 15),
]


class WhatIsLost(Births):
    """What becomes of committed entries."""

    OneHistory = None


def explored(variant: str, constants: dict[str, int], kind: type[Births] = Births) -> ExplorationReport:
    return check(kind(variant=variant, **constants), Bounds(symmetry=True))


@pytest.mark.parametrize(("variant", "constants", "invariant", "states"), VARIANTS)
def test_M5_a_guard_left_out_is_found_out(
    variant: str, constants: dict[str, int], invariant: str, states: int
) -> None:
    report = explored(variant, constants)
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)
    assert len(report.trace) == states


def test_M5_every_variant_has_its_counterexample() -> None:
    assert {variant for variant, *_ in VARIANTS} == set(Births.declared["variant"].choices) - {"right"}


@pytest.mark.parametrize(
    ("variant", "states"), [("name-of-people", 7), ("other-birth-appends", 8), ("signed-believes", 12)]
)
def test_M5_entries_of_another_birth_cost_committed_ones(variant: str, states: int) -> None:
    report = explored(variant, SHORT, WhatIsLost)
    assert (report.verdict, report.invariant, report.depth) == ("violated", "CommittedOnQuorum", states)


@pytest.mark.parametrize(("constants", "states"), [(SHORT, 13_762), ({"Terms": 1}, 8_888)])
def test_M5_it_holds_within_small_bounds(constants: dict[str, int], states: int) -> None:
    report = explored("right", constants)
    assert report.invariant == ""
    assert report.distinct_states == states


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("constants", "states", "depth"),
    [({}, 187_708, 24), (TWO, 121_892, 28), ({"Entries": 2, **SHORT}, 316_451, 27)],
)
def test_M5_it_holds_at_larger_bounds(constants: dict[str, int], states: int, depth: int) -> None:
    report = explored("right", constants)
    assert (report.invariant, report.distinct_states, report.depth) == ("", states, depth)
