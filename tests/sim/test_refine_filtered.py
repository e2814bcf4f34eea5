"""Simulated readers with a filter, held against their model: it says no where FilteredExactly would (S2)."""

from __future__ import annotations

import msgspec
import pytest

from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.workload import filtered


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bug", "seed", "word"),
    [("picked_skips_the_rest", 125, "Ask: node"), ("picked_ends_at_nothing", 90, "Ask: node")],
)
def test_S2_the_model_alone_sees_the_planted_bugs(
    monkeypatch: pytest.MonkeyPatch, bug: str, seed: int, word: str
) -> None:
    """FilteredExactly, which has the first word, is silent here."""
    monkeypatch.setattr(filtered, "problem_of", lambda *_: "")
    planted = RunOptions(seed=seed, mutant=bug)
    assert run_seed(planted).good
    refined = run_seed(msgspec.structs.replace(planted, refine=True))
    assert refined.invariant == "Refinement"
    assert "a reader with a filter" in refined.finding and word in refined.finding
    assert "in the model" in refined.finding
