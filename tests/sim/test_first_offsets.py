"""Worlds whose streams begin elsewhere than at 0: the invariants and both models hold there as well (C7)."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from liftlog.types import PartitionId
from liftlog_sim.profiles.profiles import draw_knobs
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.truth.invariants import Checks, PartitionTruth, Violation

LOG = PartitionId(7, 0)


def begins_later(seed: int) -> bool:
    return any(config.first_offset is not UNSET for config in draw_knobs(seed).streams)


def test_C7_some_worlds_begin_later_and_what_they_check_holds() -> None:
    assert 0.05 < sum(map(begins_later, range(300))) / 300 < 0.2
    result = run_seed(RunOptions(seed=11, refine=True))
    assert begins_later(11) and not result.invariant
    assert result.checks["LogStartMonotone"] > 500 and result.checks["Refinement"] > 1000


def test_C7_what_lies_below_counts_as_purged_before_anybody_led() -> None:
    truth = PartitionTruth(LOG, Checks())
    truth.begins_at(100)
    assert (truth.hw, truth.purged, len(truth.contents.committed)) == (100, 100, 100)
    truth.begun(1, 100)
    truth.on_isr_member(1, (), 0)
    with pytest.raises(Violation, match=r"LogStartMonotone.*begins at 99"):
        truth.begun(1, 99)
    with pytest.raises(Violation, match=r"LogStartMonotone.*100 were purged"):
        truth.elected(1, 1, (), 0)
    with pytest.raises(Violation, match="LogStartMonotone"):
        truth.read_below_purge(1, 99, truth.purged)


@pytest.mark.parametrize(("mutant", "seed"), [("copy_begins_at_zero", 18), ("lost_copy_begins_at_zero", 632)])
def test_C7_planted_bugs_are_seen(mutant: str, seed: int) -> None:
    assert run_seed(RunOptions(seed=seed, mutant=mutant)).invariant == "LogStartMonotone"
