"""The metadata group of simulated worlds against the Raft model, step by step."""

from __future__ import annotations

import msgspec
import pytest

from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions

pytestmark = pytest.mark.slow

RAFT_MUTANTS = (
    "raft_vote_before_sync",
    "raft_ack_before_sync",
    "raft_quorum_half",
)
"""Those that show within the first elections."""


ACTIONS = (
    *("Campaign", "GrantVote", "BecomeLeader", "StepDown", "Restart"),
    *("Propose", "Replicate", "Accept", "Commit", "Sync"),
)


@pytest.mark.parametrize("gear", ["step", "trio"])
def test_elections_crashes_and_replication_are_explained(gear: str) -> None:
    """In the first seed that has them all: the models follow no world with a broken peer for long."""
    for seed in range(10):
        result = run_seed(RunOptions(seed=seed, profile="elections", duration_s=20, gear=gear, refine=True))
        assert result.good, f"{result.finding}\nreplay with: {result.replay}"
        assert [name for name in result.refined if name.startswith("outside: Raft")] == []
        if all(result.refined.get(f"Raft {action}") for action in ACTIONS):
            return
    raise AssertionError("no seed has elections, crashes and replication")


def test_a_replaced_disk_is_another_server() -> None:
    """Of the first seeds with wipes one replaces a voter's disk, and one sets it back."""
    lost = set_back = withheld = 0
    for seed in range(40):
        result = run_seed(RunOptions(seed=seed, profile="wipes", duration_s=20, refine=True))
        assert result.good, f"{result.finding}\nreplay with: {result.replay}"
        lost += result.refined.get("Raft disks replaced", 0)
        withheld += result.refined.get("Raft Withhold", 0)
        set_back += result.refined.get("outside: Raft, a disk set back or damaged", 0)
        if lost and set_back and withheld:
            return
    raise AssertionError(f"{lost} disks replaced, {set_back} set back, {withheld} votes withheld")


def test_one_voter_alone_is_explained() -> None:
    result = run_seed(RunOptions(seed=1, nodes=1, streams=1, duration_s=10, faults="none", refine=True))
    assert result.good, f"{result.finding}\nreplay with: {result.replay}"
    assert result.refined["Raft BecomeLeader"] == 1
    assert result.refined["Raft Commit"] > 1


@pytest.mark.parametrize("mutant", RAFT_MUTANTS)
def test_a_planted_bug_is_found_before_it_does_harm(mutant: str) -> None:
    result = run_seed(RunOptions(seed=1, profile="elections", duration_s=20, mutant=mutant, refine=True))
    assert result.invariant == "Refinement"
    assert "Raft, node" in result.finding
    assert result.replay.endswith("--refine")


def test_what_no_state_shows_is_seen_in_the_step() -> None:
    """A follower commits more than the request shows to be equal: harmless in a seed, and still wrong."""
    for seed in range(40):
        options = RunOptions(seed=seed, profile="reorder", duration_s=20, mutant="raft_commit_unclamped")
        refined = run_seed(msgspec.structs.replace(options, refine=True))
        if refined.invariant == "Refinement" and run_seed(options).good:
            assert "after Accept: commit is" in refined.finding
            return
    raise AssertionError("never")


def test_a_step_with_the_echo_of_another_needs_no_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever makes every line must count the same actions, steps and stutters."""
    options = RunOptions(seed=5, profile="elections", duration_s=30, refine=True)
    by_echo = run_seed(options)
    monkeypatch.setattr("liftlog_sim.refine.raft.echo_of", lambda event, effects: None)
    by_line = run_seed(options)
    assert by_echo.good
    assert by_echo.refined["Raft Accept"] > 100
    assert (by_echo.refined, by_echo.checks) == (by_line.refined, by_line.checks)
