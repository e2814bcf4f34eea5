"""The Raft model: it holds within bounds, and each way to be hasty or forgetful shows its harm."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.raft import Raft

ELECTION = {"Terms": 1, "Campaigns": 2, "Appends": 0, "Restarts": 0}
REPLICATION = {"Terms": 3, "Campaigns": 3, "Appends": 1, "Restarts": 0, "Writes": 0}
"""Bugs that have nothing to do with disks are shown with disks that are as fast as memory."""
# variant, constants, invariant, number of states in the counterexample
VARIANTS = [
    ("half-quorum", {**ELECTION, "Nodes": 2, "Writes": 0}, "ElectionSafety", 5),
    ("vote-forgotten", {**ELECTION, "Writes": 0}, "ElectionSafety", 7),
    ("vote-before-sync", {**ELECTION, "Restarts": 1}, "ElectionSafety", 10),
    ("lost-disk-votes", {**ELECTION, "Writes": 0, "Losses": 1}, "ElectionSafety", 8),
    ("ack-before-sync", {"Appends": 1}, "LeaderCompleteness", 16),
    ("commit-beyond-match", {"Appends": 2, "Restarts": 0, "Writes": 0}, "StateMachineSafety", 14),
    pytest.param("ack-whole-log", REPLICATION, "LeaderCompleteness", 15, marks=pytest.mark.slow),
    pytest.param(
        "length-before-term",
        {**REPLICATION, "Entries": 2},
        "LeaderCompleteness",
        17,
        marks=pytest.mark.nightly,
    ),
    pytest.param(
        "commit-old-term",
        {**REPLICATION, "Terms": 4, "Campaigns": 4},
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


def test_it_holds_with_one_write_under_way_and_a_restart() -> None:
    report = check(Raft(Appends=1), Bounds(symmetry=True))
    assert (report.invariant, report.distinct_states, report.depth) == ("", 51_087, 24)


@pytest.mark.slow
def test_it_holds_with_instant_disks() -> None:
    report = check(Raft(Writes=0), Bounds(symmetry=True))
    assert (report.invariant, report.distinct_states, report.depth) == ("", 60_446, 18)


@pytest.mark.slow
def test_what_a_lost_disk_had_acknowledged_is_not_lost() -> None:
    """I2: it may go on being counted, since the voter does not vote again."""
    report = check(Raft(Appends=1, Restarts=0, Writes=0, Losses=1), Bounds(symmetry=True))
    assert (report.invariant, report.distinct_states, report.depth) == ("", 28_795, 17)


@pytest.mark.nightly
def test_votes_are_safe_with_a_lost_disk_and_two_writes_under_way() -> None:
    report = check(Raft(Appends=0, Writes=2, Losses=1), Bounds(symmetry=True))
    assert (report.invariant, report.distinct_states, report.depth) == ("", 97_342, 24)


@pytest.mark.nightly
def test_it_holds_at_the_registrys_bounds() -> None:
    report = check(Raft(), Bounds(jobs=2))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 2_269_845, 28)
