"""Worlds with nodes of two releases: the level rises when all can follow, planted guesses are caught (U2)."""

from __future__ import annotations

import msgspec
import pytest

from liftlog_sim.runs.runner import knobs_of, run_world
from liftlog_sim.runs.runs import RunOptions, RunResult

SEEDS = range(6)


def mixed(seed: int, mutant: str = "", profile: str = "kills") -> RunResult:
    """A world of half a minute in which starts are of either release; the older one knows no ids (L7), and no
    batches of several messages (L11).
    """
    options = RunOptions(seed=seed, profile=profile, duration_s=30, mutant=mutant)
    knobs = knobs_of(options)
    streams = tuple(
        msgspec.structs.replace(
            stream,
            dedupe_window_ms=msgspec.UNSET,
            dedupe_ids_max=msgspec.UNSET,
            allow_batches=msgspec.UNSET,
            allow_fast_batches=msgspec.UNSET,
        )
        for stream in knobs.streams
    )
    return run_world(options, msgspec.structs.replace(knobs, streams=streams, mixed_releases=True), None)


def test_u2_the_level_rises_in_the_middle_of_upgrades_and_steps_back() -> None:
    found = [mixed(seed) for seed in SEEDS]
    assert [result.finding for result in found] == [""] * len(found)
    for what in ("runs of an older release", "steps back to an older release", "feature levels raised"):
        assert sum(result.counters.get(what, 0) for result in found) > 0, what


@pytest.mark.parametrize(
    "mutant, invariant, seed, profile",
    [
        ("level_raised_too_early", "LevelForAll", 0, "kills"),
        ("level_of_earlier_run", "LevelForAll", 66, "kills"),
        ("level_forgotten_in_snapshot", "SnapshotState", 13, "snapshots"),
    ],
)
def test_u2_a_planted_guess_about_what_nodes_can_is_caught(
    mutant: str, invariant: str, seed: int, profile: str
) -> None:
    assert mixed(seed, mutant, profile).invariant == invariant
    assert mixed(seed, "", profile).good
