"""The ISR model in the program's steps: it holds within bounds, and what breaks `isr` breaks it too.

What runs are checked against has to be right itself.
"""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.isr import Isr
from liftlog_spec.models.isr_steps import IsrSteps

LEAST = {"Replicas": 2, "Epochs": 1, "Changes": 1, "Crashes": 0, "Damages": 0, "Mail": 1, "Confessions": 1}

VARIANTS = [
    ("restarted-leader-keeps-epoch", {"Changes": 2, "Crashes": 1}, "OneLeaderPerEpoch", 13),
    ("unsynced-recovery", {"Changes": 2, "Crashes": 1}, "LeaderCandidateCompleteness", 17),
    ("truncate-to-hw", {"Epochs": 3, "Changes": 3}, "LeaderCandidateCompleteness", 16),
    (
        "wiped-replica-rejoins",
        {"Changes": 2, "Crashes": 1, "Damages": 1},
        "LeaderCandidateCompleteness",
        16,
    ),
    (
        "suspect-tail-rejoins",
        {"Changes": 2, "Crashes": 1, "Damages": 1},
        "LeaderCandidateCompleteness",
        16,
    ),
]


def steps(
    constants: dict[str, int], variant: str = "right", moves: str = "none", alters: str = "none"
) -> IsrSteps:
    return IsrSteps(variant=variant, moves=moves, alters=alters, **{**LEAST, **constants})


def test_it_holds_while_one_leader_leads() -> None:
    """With an ISR that shrinks and grows, and messages on their way."""
    report = check(steps({}), Bounds(symmetry=True))
    assert report.invariant == ""
    assert report.distinct_states > 2000


def test_a_removal_that_no_longer_counts_is_found() -> None:
    report = check(steps({}, "hw-over-shrunk-isr"), Bounds(symmetry=True))
    assert (report.verdict, report.invariant) == ("violated", "LeaderCandidateCompleteness")
    assert len(report.trace) == 8


def test_it_is_the_same_protocol() -> None:
    """Same invariants, same variants; the group's rules and the leader's are the very same functions."""
    assert Isr.declared["variant"] is IsrSteps.declared["variant"]
    ours, other = IsrSteps(), Isr()
    assert [p.name for p in ours.invariants] == [p.name for p in other.invariants]
    for name in ("Commit", "Write", "ProposeAddition", "ProposeRemoval", "ApplyAddition", "Register"):
        assert IsrSteps.declared[name] is Isr.declared[name], name


MOVES = {"Minimum": 1, "Epochs": 2, "Changes": 3}


def test_a_move_that_does_not_wait_for_all_copies_is_found() -> None:
    """R20."""
    report = check(steps(MOVES, moves="before-in-sync"), Bounds(symmetry=True))
    assert (report.verdict, report.invariant) == ("violated", "LeaderCandidateCompleteness")
    assert len(report.trace) == 10


@pytest.mark.nightly
def test_a_move_that_ends_no_epoch_is_found() -> None:
    """R20: what a dropped copy had reported still counts."""
    report = check(steps(MOVES, moves="within-epoch"), Bounds(symmetry=True))
    assert (report.verdict, report.invariant) == ("violated", "ValidHighWatermark")


@pytest.mark.nightly
def test_it_holds_while_copies_are_moved() -> None:
    """R20."""
    assert check(steps(MOVES, moves="right"), Bounds(symmetry=True)).verdict == "holds"


def test_who_stays_eligible_by_the_minimum_before_is_found() -> None:
    """R13, R19: the ISR commits without him by the minimum that holds now."""
    report = check(steps({"Changes": 3}, alters="keeps-eligible"), Bounds(symmetry=True))
    assert (report.verdict, report.invariant) == ("violated", "LeaderCandidateCompleteness")
    assert len(report.trace) == 11


ALONE = {"Changes": 5, "Mail": 0, "Confessions": 0}
"""Nobody has to be asked for who is the whole ISR to commit by a minimum of one."""


@pytest.mark.nightly
def test_who_stays_eligible_when_another_one_is_elected_is_found() -> None:
    """R13, R19: by a minimum that was lowered to one whoever is elected commits alone."""
    report = check(steps(ALONE, alters="elects-with-eligible"), Bounds(symmetry=True))
    assert (report.verdict, report.invariant) == ("violated", "LeaderCandidateCompleteness")
    assert len(report.trace) == 15


@pytest.mark.nightly
@pytest.mark.parametrize("constants", [{"Epochs": 2, "Changes": 3}, {**ALONE, "Epochs": 2}])
def test_it_holds_while_the_minimum_is_altered(constants: dict[str, int]) -> None:
    """R13, R19."""
    assert check(steps(constants, alters="right"), Bounds(symmetry=True)).verdict == "holds"


@pytest.mark.nightly
def test_it_holds_across_an_election_and_a_crash() -> None:
    report = check(steps({"Epochs": 2, "Changes": 2, "Crashes": 1}), Bounds(symmetry=True))
    assert report.verdict == "holds"


@pytest.mark.nightly
@pytest.mark.parametrize(("variant", "constants", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(
    variant: str, constants: dict[str, int], invariant: str, states: int
) -> None:
    report = check(steps(constants, variant), Bounds(symmetry=True))
    assert (report.verdict, report.invariant) == ("violated", invariant)
    assert len(report.trace) == states
