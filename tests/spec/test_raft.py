"""The Raft model: it holds within bounds, and each way to be hasty or forgetful shows its harm."""

from __future__ import annotations

import pytest

from spec.explore.report import Bounds
from spec.explore.search import check
from spec.models.raft import Raft

ELECTION = {"Terms": 1, "Campaigns": 2, "Appends": 0, "Restarts": 0}
# variant, constants, invariant, number of states in the counterexample
VARIANTS = [
    ("half-quorum", {**ELECTION, "Nodes": 2}, "ElectionSafety", 5),
    ("vote-forgotten", ELECTION, "ElectionSafety", 7),
    ("vote-before-sync", {**ELECTION, "Restarts": 1}, "ElectionSafety", 8),
    (
        "ack-before-sync",
        {"Terms": 2, "Campaigns": 2, "Appends": 1, "Restarts": 1},
        "LeaderCompleteness",
        12,
    ),
    ("ack-whole-log", {"Terms": 3, "Campaigns": 3, "Appends": 1, "Restarts": 0}, "LeaderCompleteness", 15),
    (
        "length-before-term",
        {"Terms": 3, "Entries": 2, "Campaigns": 3, "Appends": 1, "Restarts": 0},
        "LeaderCompleteness",
        17,
    ),
    pytest.param(
        "commit-old-term",
        {"Terms": 4, "Campaigns": 4, "Appends": 1, "Restarts": 0},
        "LeaderCompleteness",
        20,
        marks=pytest.mark.nightly,
    ),
]


@pytest.mark.parametrize(("variant", "constants", "invariant", "states"), VARIANTS)
def test_a_variant_is_found_out(variant: str, constants: dict[str, int], invariant: str, states: int) -> None:
    """commit-old-term is Figure 8 of the paper: four terms, one entry, one append message."""
    report = check(Raft(variant=variant, **constants), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)
    assert len(report.trace) == states


def test_it_holds_with_two_campaigns_two_appends_and_a_restart() -> None:
    report = check(Raft(Campaigns=2, Appends=2), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 34_478, 17)


@pytest.mark.nightly
def test_it_holds_at_the_registrys_bounds() -> None:
    report = check(Raft(), Bounds())
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 2_083_645, 19)
