"""In some worlds each new leader is asked at once for a consumer: it must know what it inherited (K5)."""

from __future__ import annotations

import pytest

from liftlog_sim.profiles.profiles import draw_knobs
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions

ASKED = 230


@pytest.mark.slow
def test_a_leader_that_is_asked_before_it_knows_what_it_inherited_refuses() -> None:
    result = run_seed(RunOptions(seed=ASKED))
    assert result.good and result.marks["K5.not-ready"] > 0
    assert result.marks["K5.inherited"] > 0


@pytest.mark.slow
def test_one_that_makes_the_consumer_all_the_same_is_caught() -> None:
    """It has somebody who wants what is new begin with what was acknowledged before he asked."""
    caught = run_seed(RunOptions(seed=ASKED, mutant="K5.inherited"))
    assert caught.invariant == "NoneSkipped"
    assert "begin with what is new" in caught.finding


def test_nobody_is_there_at_once_but_in_a_part_of_the_worlds_whose_leaders_go() -> None:
    found = [draw_knobs(seed, profile="inherited") for seed in range(60)]
    assert 5 < sum(knobs.asks_heirs for knobs in found) < 30
    assert all(
        any(stream.has_journal and not stream.goes_when_done for stream in knobs.streams)
        for knobs in found
        if knobs.asks_heirs
    )
    assert not any(draw_knobs(seed, profile="consumers").asks_heirs for seed in range(60))
