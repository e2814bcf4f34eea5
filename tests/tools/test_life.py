"""`liftlog bench life`: what it counts, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from liftlog.bench.life import EPISODES, EndlessLines, Interruption, Life, longest_stop_ms, medians
from liftlog.bench.life_command import EXIT_GOOD
from liftlog.cli import main
from liftlog.types import LiftlogError

MS = 1_000_000


def test_a_stop_reaches_from_the_last_ack_before_a_episode_to_the_first_one_after_it() -> None:
    acks = [at * MS for at in (0, 10, 20, 300, 310, 320, 900, 910)]
    assert longest_stop_ms(acks, 15 * MS, 305 * MS) == 280
    assert longest_stop_ms(acks, 305 * MS, 315 * MS) == 10
    assert longest_stop_ms(acks, 400 * MS, 500 * MS) == 580, "nothing came at all"
    assert longest_stop_ms(acks, 0, 905 * MS) == 580


@pytest.mark.parametrize(("began_ms", "whole_ms"), [(-1, 20), (20, 910), (20, 2000)])
def test_without_an_ack_before_or_behind_there_is_no_figure(began_ms: int, whole_ms: int) -> None:
    with pytest.raises(LiftlogError, match="acknowledged before, or none after"):
        longest_stop_ms([0, 10 * MS, 910 * MS], began_ms * MS, whole_ms * MS)


def test_medians_are_told_for_each_kind_of_episode_in_the_order_in_which_they_came() -> None:
    stops = [
        Interruption("kill", 1, "leader", 700.0, 2.0),
        Interruption("rest", 0, "", 3.0, 1.0),
        Interruption("kill", 2, "", 900.0, 4.0),
        Interruption("kill", 3, "", 100.0, 9.0),
    ]
    assert medians(stops) == [("kill", 3, 700.0, 900.0, 4.0), ("rest", 1, 3.0, 3.0, 1.0)]


def test_each_episode_is_one_that_there_is_and_lines_never_end() -> None:
    assert all(hasattr(Life, f"_{episode}") for episode in EPISODES)
    lines = EndlessLines()
    assert lines[7].value(1) != lines[7].value(2) != lines[8].value(2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rate", "0"], "--rate 0 is out of range; choose 1 to 20000"),
        (["--rounds", "0"], "--rounds 0 is out of range; choose 1 to 100"),
        (["--only", "shrink"], "--only shrink has nothing to remove; add --only grow"),
        (["--only", "upgrade"], "--only upgrade needs an older release; name its checkout with --older"),
        (["--older", "/nowhere"], "--older /nowhere is no checkout of liftlog"),
        (["--dir", "/nowhere"], "--dir /nowhere is not a folder; create it or name another"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_starts(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["bench", "life", "--store", str(tmp_path), *options]) != EXIT_GOOD
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
