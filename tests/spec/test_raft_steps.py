"""Membership change message by message, on disks that are slow: it holds within bounds, and each rule that is
left out shows its harm.

As in test_raft_membership.py, some variants are also looked at without the invariant that looks ahead.
"""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.lang.model import Setting
from liftlog_spec.models.raft_steps import RaftSteps

FAST = {"Learning": 0, "Campaigns": 1, "Restarts": 0, "Writes": 0, "Appends": 1}
"""Bugs that have nothing to do with disks are shown with disks that are as fast as memory."""
LOST_DISK = {**FAST, "Voters": 3, "Entries": 1, "Changes": 0, "Losses": 1}
TWO_REMOVED = {**FAST, "Voters": 3, "Entries": 3, "Changes": 2, "Batch": 2}
LEADER_REMOVED = {**FAST, "Nodes": 2, "Entries": 3, "Appends": 2}
REMOVED_IN_TURN = {**FAST, "Voters": 3, "Entries": 3, "Changes": 2, "Appends": 2}
LEARNER = {**FAST, "Nodes": 4, "Voters": 3, "Entries": 2, "Appends": 2, "Batch": 2}
LONG = {**FAST, "Voters": 3, "Entries": 4, "Changes": 2, "Appends": 2, "Batch": 2}
FOUR = {**FAST, "Nodes": 4, "Voters": 4, "Terms": 3, "Entries": 1, "Changes": 2, "Campaigns": 2}
EARLY = "QuorumLog"
nightly = pytest.mark.nightly

# variant, constants, the first invariant to fail, the number of states
VARIANTS = [
    ("wiped-voter-rejoins", LOST_DISK, EARLY, 6),
    ("two-changes", TWO_REMOVED, EARLY, 7),
    ("removed-leader-counts", LEADER_REMOVED, EARLY, 7),
    ("learner-counts", LEARNER, EARLY, 9),
    ("quorum-of-election", REMOVED_IN_TURN, EARLY, 10),
    ("effective-at-commit", LONG, EARLY, 10),
    pytest.param("change-before-own-commit", FOUR, "LeaderCompleteness", 14, marks=nightly),
]
# variant, constants, the number of states until a leader lacks what was committed
SUFFERED = [
    ("wiped-voter-rejoins", LOST_DISK, 9),
    ("two-changes", TWO_REMOVED, 11),
    ("removed-leader-counts", LEADER_REMOVED, 12),
    pytest.param("learner-counts", LEARNER, 12, marks=nightly),
]


class Suffered(RaftSteps):
    """Without the invariant that looks ahead."""

    QuorumLog = None


@pytest.mark.parametrize(("variant", "constants", "invariant", "states"), VARIANTS)
def test_a_variant_is_found_out(variant: str, constants: dict[str, int], invariant: str, states: int) -> None:
    report = check(RaftSteps(variant=variant, **constants), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)
    assert len(report.trace) == states


@pytest.mark.parametrize(("variant", "constants", "states"), SUFFERED)
def test_a_variant_loses_what_was_committed(variant: str, constants: dict[str, int], states: int) -> None:
    report = check(Suffered(variant=variant, **constants), Bounds(symmetry=True))
    assert (report.verdict, report.invariant) == ("violated", "LeaderCompleteness")
    assert len(report.trace) == states


def test_every_variant_is_tested() -> None:
    tested = {getattr(variant, "values", variant)[0] for variant in VARIANTS}
    found = RaftSteps.declared["variant"]
    assert isinstance(found, Setting)
    assert tested == set(found.choices) - {"right"}


@pytest.mark.parametrize("constants", [LOST_DISK, TWO_REMOVED, LEADER_REMOVED])
def test_the_rules_hold_where_a_variant_fails(constants: dict[str, int]) -> None:
    """What fails is the missing rule, not the bounds; some are too small for all that happens sometimes."""
    report = check(RaftSteps(**constants), Bounds(symmetry=True))
    assert report.verdict in ("holds", "vacuous")
    assert report.invariant == ""


@pytest.mark.nightly
@pytest.mark.parametrize("constants", [LEARNER, REMOVED_IN_TURN])
def test_the_rules_hold_where_a_slower_variant_fails(constants: dict[str, int]) -> None:
    test_the_rules_hold_where_a_variant_fails(constants)


def test_a_learner_is_promoted_on_slow_disks() -> None:
    report = check(RaftSteps(Restarts=0), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 164_422, 24)
    assert report.actions["Promote"] > 0


def test_a_voter_leaves_that_crashes_and_has_a_snapshot() -> None:
    constants = {"Nodes": 2, "Entries": 3, "Changes": 2, "Snapshots": 1}
    report = check(RaftSteps(**constants), Bounds(symmetry=True))
    assert (report.verdict, report.invariant) == ("holds", "")
    assert report.actions["Remove"] > 0


@pytest.mark.nightly
def test_a_voter_that_keeps_its_vote_is_removed() -> None:
    report = check(RaftSteps(Appends=1, Restarts=0, Losses=1), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 56_966, 22)


@pytest.mark.nightly
def test_two_changes_and_a_crash_on_fast_disks() -> None:
    constants = {"Learning": 0, "Entries": 3, "Changes": 2, "Batch": 2, "Writes": 0}
    report = check(RaftSteps(**constants), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 1_405_544, 21)
    assert report.actions["Add"] > 0


@pytest.mark.nightly
def test_it_holds_at_the_registrys_bounds() -> None:
    report = check(RaftSteps(), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 538_006, 25)
